"""Meaning of the amount in a metric's unit: of a column, and of nothing that words say."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.errors import shown
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, Relation


def unit_lines(guarantee: Guarantee, variables: Iterable[Variable]) -> list[str]:
    """Meaning of the amount in a metric's unit; its words alone may say anything.

    Args:
        guarantee: of a release.
        variables: whose records are released.

    Returns:
        One line for each numeric variable; none for a guarantee about records.

    Example:
        >>> hourly = Guarantee(epsilon=1, delta=0, relation="metric", unit="1 hour in one wait")
        >>> print(*unit_lines(hourly, [Variable.binned("wait", (0, 60), 12)]))
        the 1 is in the unit of column 'wait', whose bounds are 0 to 60, whatever 'hour in one wait' says
    """
    if guarantee.relation is not Relation.METRIC:
        return []
    amount, words = guarantee.unit.split(maxsplit=1)
    return [
        f"the {amount} is in the unit of column {shown(variable.name)}, whose bounds are {variable.bounds[0]:g} to "
        f"{variable.bounds[1]:g}, whatever {shown(words)} says"
        for variable in variables
        if variable.bounds is not None
    ]
