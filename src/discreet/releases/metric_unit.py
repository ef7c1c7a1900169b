"""Meaning of a metric's unit: its amount is of a column, and its last words may name a distance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, Relation

DISTANCES: Mapping[str, str] = {
    "arcs": "each value of a record that differs counts 1, and 1 more for each child that its variable has",
    "attributes": "each value of a record that differs counts 1",
    "length": "two records are as far apart as their difference is long (the root of the sum of squares)",
    "moments": "two records x and y are apart by the Frobenius norm of x x' - y y' and twice the length of x - y",
}
"""Distances of two records that a unit names by "by ..." at its end. Without one, distances of numbers add up."""


def distance_of(guarantee: Guarantee) -> str:
    """Name of the distance that a metric's unit ends in, such as arcs in "1 attribute by arcs"; "" for none.

    Raises:
        InputError: a name that there is not, or "by" in other letters or elsewhere: whoever reads it would take the
            unit for one of that distance.
    """
    if guarantee.relation is not Relation.METRIC or "by" not in re.findall(r"[\w-]+", guarantee.unit.lower()):
        return ""
    *_, by, name = guarantee.unit.split()
    if by != "by" or name not in DISTANCES:
        raise InputError(f"a unit may end in by {listed(tuple(DISTANCES))}, and not in {shown(f'{by} {name}')}")
    return name


def attribute_units(network: Network, amount: Fraction, distance: str) -> dict[str, int]:
    """Count the units of a change of one value, whatever its size, for each variable.

    Args:
        network: its arcs count by "arcs".
        amount: of the unit.
        distance: "arcs" or "attributes".

    Returns:
        By node, rounded up.

    Raises:
        InputError: another distance.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24: rho is `v' delta`, v being 1 and the number of children.

    Example:
        >>> a, b = Variable("a", ("no", "yes")), Variable("b", ("no", "yes"))
        >>> attribute_units(Network((a, b), {"a": (), "b": ("a",)}), Fraction(1), "arcs")
        {'a': 2, 'b': 1}
    """
    if distance not in ("arcs", "attributes"):
        raise InputError(
            "this protects records, or single values of them, and is not for distances in a metric of numbers; end "
            "the unit in 'by arcs' or 'by attributes', such as '1 attribute by arcs'"
        )
    children = {node: len(network.children(node)) if distance == "arcs" else 0 for node in network.nodes}
    return {node: math.ceil((1 + number) / amount) for node, number in children.items()}


def unit_lines(guarantee: Guarantee, variables: Iterable[Variable]) -> list[str]:
    """Meaning of a metric's unit; its words alone may say anything.

    Args:
        guarantee: of a release.
        variables: whose records are released.

    Returns:
        One line for each numeric variable whose distances count, and one for a distance that the unit names; none for a
        guarantee about records.

    Example:
        >>> hourly = Guarantee(epsilon=1, delta=0, relation="metric", unit="1 hour in one wait")
        >>> print(*unit_lines(hourly, [Variable.binned("wait", (0, 60), 12)]))
        the 1 is in the unit of column 'wait', whose bounds are 0 to 60, whatever 'hour in one wait' says
    """
    if guarantee.relation is not Relation.METRIC:
        return []
    (amount, words), distance = guarantee.unit.split(maxsplit=1), distance_of(guarantee)
    sizes = [
        f"the {amount} is in the unit of column {shown(variable.name)}, whose bounds are {variable.bounds[0]:g} to "
        f"{variable.bounds[1]:g}, whatever {shown(words)} says"
        for variable in variables
        if variable.bounds is not None and distance not in ("arcs", "attributes")
    ]
    named = f"by {distance}: {DISTANCES.get(distance)}; each is rounded up to units, and all add up"
    return sizes + [named] * bool(distance)
