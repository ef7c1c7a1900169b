"""Structural zeros: cells of tables that no record can fall into, by the conditions under which columns apply.

Where `cause` applies if `dead = yes`, no record has `dead = no` and a cause, nor `dead = yes` and a cause that is not
applicable. Such cells are public: they are 0 in the records, in what is released, and in every draw of a posterior.
Columns that apply under the same condition make each other's cells impossible, too, whether or not its column is in the
table.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from discreet.errors import require
from discreet.model.schema import Schema, Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats

Drawn = TypeVar("Drawn", bound=npt.NDArray[np.floating])

MOST_COLUMNS = 52
"""Most columns of a table with those that their conditions are on: numpy has so many letters for axes."""
LEAST_MASS = 1e-300
"""Least probability of a row's possible cells: below, the row says nothing."""


@lru_cache(maxsize=1024)
def example_law(schema: Schema, scope: Scope) -> Floats:
    """Compute a law of some variables that is positive in every possible cell, and 0 in every other.

    It is the law of columns that are independent and uniform, but for their conditions: margins of it over different
    variables agree.

    Args:
        schema: with the conditions.
        scope: names of its variables.

    Returns:
        Shape (size for the scope), read-only; sums to 1.

    Example:
        >>> from discreet import Schema, Variable
        >>> dead, cause = Variable("dead", ("no", "yes")), Variable("cause", ("a", "b"), applies_if="dead=yes")
        >>> example_law(Schema((dead, cause)), ("dead", "cause")).tolist()
        [[0.0, 0.0, 0.5], [0.25, 0.25, 0.0]]
    """
    names, parts = schema.with_conditions(scope), list[Any]()
    require(len(names) <= MOST_COLUMNS, f"a table over {len(names)} columns and those of their conditions is too large")
    for axis, name in enumerate(names):
        column, *_ = schema.conditions.get(name, (name,))
        parts += [_make_rows(schema, name), [axis] if column == name else [names.index(column), axis]]
    law: Floats = np.asarray(np.einsum(*parts, list(range(len(scope))), optimize=len(names) > 2), np.float64)
    law.flags.writeable = False
    return law


def _make_rows(schema: Schema, name: str) -> Floats:
    """Make the example law of a column given that of its condition, if it has one: uniform where that allows it."""
    size = schema[name].size
    if name not in schema.conditions:
        return np.full(size, 1 / size)
    column, states = schema.conditions[name]
    outside = len(schema[name].values)
    rows = np.zeros((schema[column].size, size))
    rows[:, outside] = 1
    rows[list(states)] = np.where(np.arange(size) == outside, 0, 1 / (size - 1))
    rows[len(schema[column].complete) :] = 1 / size
    return rows


def possible_cells(schema: Schema, scope: Scope) -> npt.NDArray[np.bool_] | None:
    """Find the cells of a table that records can fall into; None if they can fall into all of them.

    Args:
        schema: with the conditions.
        scope: variables of the table, in the order of its axes.
    """
    if not schema.conditions or not any(len(schema.with_conditions([name])) > 1 for name in scope):
        return None
    possible = example_law(schema, scope) > 0
    return None if possible.all() else possible


def clear_impossible(schema: Schema, scope: Scope, law: Drawn, *, rows: bool = False) -> Drawn:
    """Set the impossible cells of drawn laws to 0, and scale the others to 1.

    Of a law that is drawn from a Dirichlet law this is the draw given that these cells are empty.

    Args:
        schema: with the conditions.
        scope: variables of the axes; of rows the parents, then the child.
        law: shape (size for the scope, draws).
        rows: whether the law is of the child in each row, and not a joint one.

    Returns:
        The argument itself if all cells are possible. Rows of impossible parents are uniform.
    """
    if possible_cells(schema, scope) is None:
        return law
    example, axes = example_law(schema, scope)[..., None], tuple(range(len(scope)))[-1 if rows else 0 :]
    example = np.where(example.sum(axis=axes, keepdims=True) > 0, example, 1)
    if not law[example[..., 0] == 0].any():
        return law
    cleared = law * (example > 0)
    cleared = np.where(cleared.sum(axis=axes, keepdims=True) > LEAST_MASS, cleared, example)
    held: Drawn = (cleared / cleared.sum(axis=axes, keepdims=True)).astype(law.dtype)
    return held


def with_zeros(tables: Tables) -> Tables:
    """Set the impossible cells of a network's rows to 0; families are made at first use.

    Args:
        tables: rows, shape `(*parents, child, draws)`.

    Returns:
        The tables themselves if no column has a condition.
    """
    network = tables.network
    if not network.schema.conditions:
        return tables

    def clear(node: str) -> Array:
        return clear_impossible(network.schema, network.family(node), tables[node], rows=True)

    return Tables(network, clear, draws=tables.draws)
