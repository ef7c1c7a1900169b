"""Sums of numbers: what tables of counts leave open of numeric columns, in whole steps of a public grid. Private.

A record adds its offsets (`model/number_grid.py`), their squares and their products to the cells that it lies in; a
missing number adds nothing. From these integers all sums that are released follow without rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NoReturn

import ibis
import ibis.expr.types as ir
import numpy as np

from discreet.errors import require
from discreet.model.number_grid import STEPS, NumberGrid
from discreet.model.schema import Scope
from discreet.records.dates import column_number
from discreet.records.dialects import is_missing
from discreet.util.arrays import Array, Ints, margin

Monomial = tuple[str, ...]
"""Names of the numeric variables whose offsets are multiplied: one name, one twice, or two."""
MOST_RECORDS = 2**62 // STEPS**2
"""Most records whose sums of squared offsets surely fit into 64 bits; units in steps count once for each."""


@dataclass(frozen=True, eq=False, repr=False)
class NumberSums:
    """Sums of the numeric columns of some records: private, for mechanisms only.

    Args:
        grids: by name of the column, public.
        cells: int64 by set of variables and monomial, shape (size for the set): sums of the product of offsets over the
            records of each cell, in steps to the power of the monomial's degree.
        leaves: int64 by name, shape (finest leaves, 3): of each leaf the number of records, and the sums of their
            offsets and of the squares of these.
    """

    grids: Mapping[str, NumberGrid]
    cells: Mapping[tuple[Scope, Monomial], Array]
    leaves: Mapping[str, Ints]

    def require_fit(self) -> None:
        """Refuse more records than 64-bit sums surely hold, before a charge; no message has a count.

        Raises:
            InputError: as it says.
        """
        fit = all(int(leaves[:, 0].sum()) <= MOST_RECORDS for leaves in self.leaves.values())
        require(fit, f"sums of numbers take at most {MOST_RECORDS:,} records; release with numbers_share=0")

    def __repr__(self) -> str:
        """Text without any sum."""
        return f"NumberSums({len(self.grids)} columns, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("sums are private and cannot be pickled or copied; count the records again")

    def total(self, name: str) -> int:
        """Sum the offsets of a column, in steps."""
        return int(self.leaves[name][:, 1].sum())

    def by_row(self, name: str, others: Scope) -> Ints:
        """Sum the offsets of a column over the records of each joint state of other variables, in steps.

        Args:
            name: of the column.
            others: variables that lie in one planned table with it, in the schema's order.

        Returns:
            int64, shape (size for the others).
        """
        return self._sum((name,), others)

    def products(self, first: str, second: str) -> int:
        """Sum the products of two columns less those of the middles of their bins, all from the middle of the range.

        Args:
            first, second: columns that lie in one planned table; the same one twice for its squares.

        Returns:
            Sum of `x z - a b` in steps squared, exact, with a and b the anchors of the bins; records that miss one of
            the numbers add nothing.
        """
        pair = (first, second)
        rows, columns = (self.grids[name].anchors.tolist() for name in pair)
        if first == second:
            bins = self.grids[first].coarsen(self.leaves[first], 1).tolist()
            return sum(2 * a * offsets + squares for a, (_, offsets, squares) in zip(rows, bins, strict=True))
        here, there, both = (
            self._sum(monomial, pair)[: len(rows), : len(columns)].tolist() for monomial in ((first,), (second,), pair)
        )
        return sum(
            a * there[i][j] + b * here[i][j] + both[i][j] for i, a in enumerate(rows) for j, b in enumerate(columns)
        )

    def _sum(self, monomial: Monomial, scope: Scope) -> Ints:
        """Sum a monomial over the records of each cell of a set, from the smallest planned table that has both."""
        wanted = {*monomial, *scope}
        tables = {held: table for (held, of), table in self.cells.items() if of == monomial and wanted <= set(held)}
        source = min(tables, key=lambda held: tables[held].size)
        return np.asarray(margin(tables[source], source, scope))


def monomials(scope: Scope, grids: Mapping[str, NumberGrid]) -> tuple[Monomial, ...]:
    """List the monomials that are summed over the cells of a set: each number in it, and each pair of them."""
    names = [name for name in scope if name in grids]
    return (*((name,) for name in names), *combinations(names, 2))


def needed_monomials(
    covers: Iterable[Scope], planned: Iterable[Scope], grids: Mapping[str, NumberGrid]
) -> dict[Scope, tuple[Monomial, ...]]:
    """List the monomials that are summed with the counts of each cover set.

    Args:
        covers: sets that are counted.
        planned: sets whose tables may be released; each lies in a cover set.
        grids: of the numeric columns.

    Returns:
        By cover set; those of each planned set stand with the first cover set that holds it.
    """
    wanted = dict[Scope, dict[Monomial, None]]((cover, {}) for cover in covers)
    for scope in planned:
        cover = next(held for held in wanted if set(scope) <= set(held))
        wanted[cover] |= dict.fromkeys(monomials(scope, grids))
    return {cover: tuple(listed) for cover, listed in wanted.items()}


def offset_column(column: ir.Column, grid: NumberGrid) -> ir.IntegerColumn:
    """Write the offsets of a column in whole steps, as `NumberGrid.offsets`; 0 where there is no number.

    Args:
        column: of the records.
        grid: of its variable.
    """
    value, (low, high) = column_number(column, grid.variable), grid.bounds
    inside = ibis.least(ibis.greatest(value, low), high)
    *below, last = (
        _clip_steps(inside, shift, reach, grid.step)
        for shift, reach in zip((grid.shift - grid.middles).tolist(), grid.reach.tolist(), strict=True)
    )
    bins = [(value < cut, steps) for cut, steps in zip(grid.variable.bins, below, strict=True)]
    # DuckDB's least and greatest pass over NULL.
    offsets: ir.IntegerColumn = ibis.cases((is_missing(column) | value.isnull(), 0), *bins, else_=last)
    return offsets


def _clip_steps(value: ir.FloatingColumn, shift: float, reach: int, step: float) -> ir.IntegerColumn:
    """Write the offset of a number in one bin; clipped as a float, as a cast of a large one would fail."""
    steps = (value + shift) / step + 0.5
    clipped: ir.FloatingColumn = ibis.least(ibis.greatest(steps, float(-reach)), float(reach))
    return clipped.floor().cast("int64")


def sum_columns(table: ir.Table, wanted: Sequence[Monomial], steps: str | None) -> dict[str, ir.IntegerScalar]:
    """Write the sums of monomials over a group of records.

    Args:
        table: with a column of offsets for each name (`offset_name`).
        wanted: monomials.
        steps: name of the column with the steps that a record counts; None where each counts once.

    Returns:
        By name: `s0`, `s1`, ... in the order of the monomials.
    """
    sums = {}
    for at, monomial in enumerate(wanted):
        term = table[offset_name(monomial[0])]
        for name in monomial[1:]:
            term *= table[offset_name(name)]
        sums[f"s{at}"] = (term if steps is None else term * table[steps]).sum().fill_null(0).cast("int64")
    return sums


def offset_name(name: str) -> str:
    """Name the column of offsets of a variable; no table has it."""
    return f"discreet_offset_of_{name}"
