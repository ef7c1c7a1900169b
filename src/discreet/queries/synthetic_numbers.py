"""Numbers of synthetic records: places inside the bins that were drawn, by what a release says of numbers.

Without sums of numbers a number follows the log-linear law of its bin, whatever else the record holds. With them:

* the leaves of the ruler give the law inside each bin, so that quantiles are right;
* this law is tilted, for each record, to the mean that the sums give its bin and its states of the families' other
  variables. So the mean of the column is right, and its mean by each row of its families. Of several families the parts
  add, `o = f(row of one) + g(row of another)`, fitted so that each family's means are right. What is tilted is not the
  ruler itself, which has the spread between rows already, but a law of which all tilted ones together make the ruler
  (iterative proportional fitting);
* the places of two columns of a family inside their bins are dependent, by one number for all cells (of a Gaussian
  copula), chosen so that the mean product of the columns, and with it their correlation, is the released one: with c
  and d the covariances of the numbers with the normal ones that choose their places, `r E[c d]` is what the means of
  bins and rows leave open (exact for normal numbers; of evenly spread ones off by at most 4 %). Two columns that no
  family has together depend on each other through those between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from discreet.inference.bin_laws import BinLaw, move_means
from discreet.inference.sampling import sample_codes
from discreet.model.number_grid import NumberGrid
from discreet.model.schema import Schema, Scope
from discreet.model.tables import Tables
from discreet.posterior.number_draws import LEAST_SHARE, NumberDraws
from discreet.util.arrays import Array, Floats, Ints

Numbers = npt.NDArray[np.generic]

TILTS = 33
"""Tilts of the law inside each bin that are computed. A record takes one of the two next to its mean, at random, so
that the mean is exact; this adds at most 1 / (TILTS - 1)^2 of the square of a half width to the variance."""
FITTED_RECORDS = 2**14
"""Records, from a fixed seed, over which several families' parts are fitted."""
SWEEPS = 6
"""Times that each family's part is fitted to what the others leave, and that a law is fitted to a ruler."""
STRONGEST_LINK = 0.95
"""Largest absolute correlation of two places inside their bins, and of one with all that it is linked to."""
LEVELS = 64
"""Quantiles of each tilted law by which its covariance with a normal number is computed."""


class Placing(NamedTuple):
    """Where the number of each record lies, shape (records,) each.

    Args:
        bins: positions of the bins; the first where there is no number.
        tilts: positions of the tilts.
        mean: mean of the number's law less the middle of its bin.
    """

    bins: Array
    tilts: Array
    mean: Floats


@dataclass(frozen=True, eq=False)
class TiltedColumn:
    """Numbers of one column inside their bins.

    Args:
        grid: of the column.
        schema: of all variables.
        leaf_bin: bin of each leaf.
        law: inside the bins, one draw, with the leaves as bins.
        parts: by the other variables of a family, parts of the mean offset in each bin and row, shape (bins, rows).
    """

    grid: NumberGrid
    schema: Schema
    leaf_bin: Ints
    law: BinLaw
    parts: Mapping[Scope, Floats]

    @cached_property
    def starts(self) -> npt.NDArray[np.intp]:
        """Position of the first leaf of each bin, shape (bins,)."""
        return np.searchsorted(self.leaf_bin, np.arange(self.grid.bins))

    @cached_property
    def _tilted(self) -> BinLaw:
        """The law with an axis of TILTS tilts in the place of draws.

        In each bin the mean of tilt t is wanted at an even distance from the lower end (the first) to the upper end
        (the last); `move_means` goes as far as leaves allow. LEAST_SHARE is added to the share of each leaf.
        """
        shares, rises = (np.repeat(part, TILTS, axis=1) for part in (self.law.shares, self.law.rises))
        half = np.diff(self.grid.edges)[:, None] / 2
        law = BinLaw(self.law.edges, shares + LEAST_SHARE, rises, self.law.integer)
        return move_means(law, self.leaf_bin, self.grid.middles[:, None] + half * np.linspace(-1, 1, TILTS))

    @cached_property
    def inside(self) -> Floats:
        """Share of each leaf in its bin, by tilt, shape (leaves, tilts); those of a bin sum to 1."""
        shares = self._tilted.shares
        return np.asarray(shares / np.add.reduceat(shares, self.starts)[self.leaf_bin])

    @cached_property
    def means(self) -> Floats:
        """Mean of the number less the middle of its bin, shape (bins, tilts); rises with the tilt."""
        offsets = self._tilted.means() + self.grid.shift - self.grid.middles[self.leaf_bin][:, None]
        return np.asarray(np.maximum.accumulate(np.add.reduceat(self.inside * offsets, self.starts), axis=1))

    @cached_property
    def pulls(self) -> Floats:
        """Covariance of the number with the normal number that chooses its place, shape (bins, tilts).

        It is in the column's unit, and computed by LEVELS evenly spaced quantiles of the law of each bin and tilt.
        """
        levels = (np.arange(LEVELS) + 0.5) / LEVELS
        bins, tilts, _ = np.indices((self.grid.bins, TILTS, LEVELS)).reshape(3, -1)
        placing = Placing(bins, tilts, self.means[bins, tilts])
        numbers = self.draw(placing, np.tile(levels, self.grid.bins * TILTS)).astype(np.float64)
        return np.asarray(numbers.reshape(self.grid.bins, TILTS, LEVELS) @ scipy.special.ndtri(levels) / LEVELS)

    def cells(self, codes: Mapping[str, Array], others: Scope) -> Array:
        """Find the flat position of each record's cell, shape (records,), in a table of bins and the states of others.

        A record without a number is in the first bin.

        Args:
            codes: of the column and of `others`, shape (records,) each.
            others: other variables of a family, in the order of the axes; none for the position of the bin alone.
        """
        states = codes[self.grid.variable.name]
        places = [np.where(states < self.grid.bins, states, 0), *(codes[name] for name in others)]
        return np.asarray(np.ravel_multi_index(places, (self.grid.bins, *(self.schema[name].size for name in others))))

    def place(self, codes: Mapping[str, Array], rng: np.random.Generator) -> Placing:
        """Choose a tilt for each record, so that its number has the mean of its bin and rows.

        Args:
            codes: of all variables.
            rng: picks between the two tilts next to that mean.

        Returns:
            The bin, tilt and mean of each record. The mean is the sum of the families' parts in its cell, limited to
            the means of the bin's first and last tilt. The tilt is one of the two next to it, the upper with the
            probability that makes the mean exact. A record without a number is placed in the first bin.
        """
        bins = self.cells(codes, ())
        wanted = np.zeros(len(bins))
        for others, part in self.parts.items():
            wanted += part.ravel()[self.cells(codes, others)]
        means = self.means
        wanted = np.clip(wanted, means[bins, 0], means[bins, -1])
        tilts = np.zeros(len(bins), np.int64)
        for bin, row in enumerate(means):
            held = bins == bin
            tilts[held] = np.clip(np.searchsorted(row, wanted[held]) - 1, 0, TILTS - 2)
        low, high = means[bins, tilts], means[bins, tilts + 1]
        tilts += rng.random(len(bins)) * (high - low) < wanted - low
        return Placing(bins, tilts, wanted)

    def draw(self, placing: Placing, shares: Floats) -> Numbers:
        """Draw the number of each record: the quantile of its law inside the bin.

        Args:
            placing: of the records.
            shares: levels of the quantiles, from 0 to 1.

        Returns:
            Shape (records,), in the unit of the column and of its type; within the bin of each record. Inside a leaf
            the place is by the leaf's own law.
        """
        leaves, within = np.zeros(len(shares), np.int64), np.zeros(len(shares))
        for bin, inside in enumerate(np.split(self.inside, self.starts[1:])):
            held = np.flatnonzero(placing.bins == bin)
            tilts, level = placing.tilts[held], shares[held]
            sums = np.concatenate([np.zeros((1, TILTS)), np.cumsum(inside, axis=0)])[:, tilts]
            leaf = (sums[1:-1] <= level).sum(axis=0)
            low, high = (sums[leaf + more, np.arange(len(held))] for more in (0, 1))
            leaves[held] = self.starts[bin] + leaf
            within[held] = np.clip((level - low) / np.maximum(high - low, LEAST_SHARE), 0.0, 1.0)
        return self._tilted.place(leaves, within, placing.tilts)


@dataclass(frozen=True, eq=False)
class SyntheticNumbers:
    """Numbers of all numeric columns, given the states of a record.

    Args:
        laws: of the columns without sums, inside their bins.
        columns: with sums.
        links: correlations of the normal numbers that choose places inside bins, shape (columns, columns).
    """

    laws: Mapping[str, BinLaw]
    columns: Mapping[str, TiltedColumn] = field(default_factory=dict)
    links: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def draw(self, codes: Mapping[str, Array], rng: np.random.Generator) -> dict[str, Numbers]:
        """Draw the numbers of records, by name of the column; any number where there is none.

        Args:
            codes: of all variables, shape (records,) each.
            rng: source of randomness.

        Returns:
            Shape (records,) each, in the unit of the column. Columns without sums are independent inside their bins.
            Those with sums are quantiles of their laws at levels from normal numbers with the correlations `links`.
        """
        numbers = dict[str, Numbers]()
        for name, law in self.laws.items():
            numbers[name] = law.sample(np.where(codes[name] < len(law.edges) - 1, codes[name], 0), rng)
        if self.columns:
            size = len(codes[next(iter(self.columns))])
            normal = np.linalg.cholesky(self.links) @ rng.standard_normal((len(self.columns), size))
            for (name, column), shares in zip(self.columns.items(), scipy.special.ndtr(normal), strict=True):
                numbers[name] = column.draw(column.place(codes, rng), shares)
        return numbers


@dataclass(frozen=True, eq=False)
class ReleasedNumbers:
    """Released sums of numbers, for records of any draw; what is the same for all draws is computed once.

    Args:
        numbers: under every draw.
    """

    numbers: NumberDraws
    _products: dict[tuple[str, str], tuple[Floats, Floats]] = field(default_factory=dict)

    def products(self, pair: tuple[str, str]) -> tuple[Floats, Floats]:
        """Compute the mean product of two columns among records that have both numbers, and the law of their bins.

        Args:
            pair: names of the columns, whose product was released.

        Returns:
            (mean product, shape (draws,); law of the bins, shape (bins, bins, draws)). Kept after the first call.
        """
        if pair not in self._products:
            sizes = [self.numbers.grids[name].bins for name in pair]
            law = self.numbers.joint(pair)[: sizes[0], : sizes[1]]
            law = law / (law.sum(axis=(0, 1)) + LEAST_SHARE)
            self._products[pair] = self.numbers.products(*pair, law), law
        return self._products[pair]

    def of_draw(self, laws: Mapping[str, BinLaw], theta: Tables, which: int | None) -> SyntheticNumbers:
        """Make the numbers of the records of a draw, fitted over FITTED_RECORDS records of a fixed seed.

        Columns with sums are tilted (`_tilt_column`) and linked (`_link_columns`); all others follow `laws`.

        Args:
            laws: of all numeric columns, inside their bins.
            theta: of which the records are drawn, without an axis of draws.
            which: position of the draw that sums are read in; None for the mean over all draws.
        """
        codes = sample_codes(theta, FITTED_RECORDS, np.random.default_rng(0))
        names = [name for name in self.numbers.evidence.payload.network.nodes if name in self.numbers.grids]
        columns = {name: _tilt_column(self.numbers, name, which, codes) for name in names}
        rest = {name: law for name, law in laws.items() if name not in columns}
        return SyntheticNumbers(rest, columns, _link_columns(self, columns, which, codes))


def _pick(values: Floats, which: int | None, weigh: Callable[[], Floats] = lambda: np.ones(1)) -> Floats:
    """Take one draw of some values, or their weighted mean over the draws, which are the last axis.

    Args:
        values: shape `(..., draws)`.
        which: position of the draw; None for the mean.
        weigh: computes the weights of the draws, of a shape that broadcasts to that of `values`; called for a mean
            only. LEAST_SHARE is added to them; by default they are equal.

    Returns:
        Shape `(...)`.
    """
    if which is not None:
        return np.asarray(values[..., which])
    weights = weigh() + LEAST_SHARE
    return np.asarray((weights * values).mean(axis=-1) / np.broadcast_to(weights, values.shape).mean(axis=-1))


def _tilt_column(numbers: NumberDraws, name: str, which: int | None, codes: Mapping[str, Array]) -> TiltedColumn:
    """Fit the parts of a column's mean offsets over some records, and then the law inside bins (`_fit_ruler`).

    A part is the mean by the rows of one family less the other families' parts, averaged over the records of each cell.
    One family's part is its mean itself; several are fitted in turn, SWEEPS times, from 0. Without sums by rows the
    only part is the column's own offset in each bin. The law inside is the column's in that draw, LEAST_SHARE added to
    each leaf.

    Args:
        numbers: under every draw.
        name: of the column.
        which: draw; None for the mean of all, weighted by shares of cells (`_pick`).
        codes: of all variables of the records; those without a number are left out.
    """
    grid, column, payload = numbers.grids[name], numbers.column(name), numbers.evidence.payload
    shares = _pick(column.law.shares, which) + LEAST_SHARE
    rises = _pick(column.law.rises, which, lambda: column.law.shares)
    law = BinLaw(column.law.edges, shares[:, None], rises[:, None], column.law.integer)

    def weigh(others: Scope) -> Floats:
        cells = numbers.joint((name, *others))[: grid.bins]
        return cells.reshape(grid.bins, -1, cells.shape[-1])

    families = [part.given for part in payload.rows_by_family if part.number == name]
    wanted = {others: _pick(numbers.rows(name, others), which, partial(weigh, others)) for others in families}
    if not wanted:
        wanted[()] = _pick(column.offsets, which, lambda: column.bins)[:, None]
    parts = {others: np.zeros(table.shape) for others, table in wanted.items()}
    tilted = TiltedColumn(grid, numbers.schema, grid.bin_of_leaf(payload.leaves(name)), law, parts)
    present = {node: column[codes[name] < grid.bins] for node, column in codes.items()}
    cells_of = {others: tilted.cells(present, others) for others in wanted}
    total = np.zeros(len(present[name]))
    for others in [*wanted] * (SWEEPS if len(wanted) > 1 else 1):
        rest = total - parts[others].ravel()[cells_of[others]]
        parts[others] = wanted[others] - _average_cells(rest, cells_of[others], wanted[others].shape)
        total = rest + parts[others].ravel()[cells_of[others]]
    return _fit_ruler(tilted, present)


def _fit_ruler(column: TiltedColumn, codes: Mapping[str, Array]) -> TiltedColumn:
    """Change the law inside bins so that tilted for each of some records it makes that of the column.

    Each of SWEEPS rounds gives every record a tilt (`place`) and multiplies the share of each leaf by the ruler's share
    of its bin over the share that the records' tilted laws have together. A leaf whose current share is at most
    LEAST_SHARE, or in a bin without records, stays. The seed is fixed.
    """
    ruler, rng = column.law.shares, np.random.default_rng(0)
    for _ in range(SWEEPS):
        placing = column.place(codes, rng)
        records = np.zeros((column.grid.bins, TILTS))
        np.add.at(records, (placing.bins, placing.tilts), 1)
        mixed = (column.inside * records[column.leaf_bin]).sum(axis=1) / np.maximum(records.sum(axis=1), 1)[
            column.leaf_bin
        ]
        wanted = ruler[:, 0] / np.add.reduceat(ruler[:, 0], column.starts)[column.leaf_bin]
        ratio = np.where(mixed > LEAST_SHARE, wanted / np.maximum(mixed, LEAST_SHARE), 1.0)
        column = replace(column, law=replace(column.law, shares=column.law.shares * ratio[:, None]))
    return column


def _average_cells(values: Floats, cells: Array, shape: tuple[int, ...]) -> Floats:
    """Average values of records by cell.

    Args:
        values: shape (records,).
        cells: flat position of each record's cell, shape (records,).
        shape: of the array of cells.

    Returns:
        An array of this shape; 0 in a cell without records.
    """
    size = int(np.prod(shape))
    sums, numbers = np.bincount(cells, values, size), np.bincount(cells, minlength=size)
    return np.asarray((sums / np.maximum(numbers, 1)).reshape(shape))


def _link_columns(
    released: ReleasedNumbers, columns: Mapping[str, TiltedColumn], which: int | None, codes: Mapping[str, Array]
) -> Floats:
    """Choose the correlations of places inside bins by the released products.

    A pair whose product was released, and that some records have both of, gets the correlation r with `r mean(c d) =`
    the part of the mean product that means leave open (`_find_open_product`), c and d the records' `pulls`. It is
    limited to STRONGEST_LINK in absolute value. The others follow (`_complete_links`). The seed is fixed.

    Args:
        released: numbers under every draw.
        columns: tilted columns by name.
        which: draw; None for the mean of all.
        codes: of all variables of the records over which means are taken.

    Returns:
        Shape (columns, columns), positive definite.
    """
    names, links = list(columns), np.eye(len(columns))
    rng = np.random.default_rng(0)
    placings = {name: column.place(codes, rng) for name, column in columns.items()}
    for first, second in combinations(range(len(names)), 2):
        pair = (names[first], names[second])
        held = np.logical_and(*(codes[name] < columns[name].grid.bins for name in pair))
        if released.numbers.measures(*pair) and held.any():
            placed = [Placing(*(part[held] for part in placings[name])) for name in pair]
            pulls = [columns[name].pulls[part.bins, part.tilts] for name, part in zip(pair, placed, strict=True)]
            most = float((pulls[0] * pulls[1]).mean())
            open_product = _find_open_product(released, pair, placed, which)
            link = np.clip(open_product / max(most, LEAST_SHARE), -STRONGEST_LINK, STRONGEST_LINK)
            links[first, second] = links[second, first] = link
    return _complete_links(links)


def _complete_links(links: Floats) -> Floats:
    """Complete correlations column by column: given those that it is linked to, one depends on no other before it.

    So a chain of columns, each linked to the next, has the products of its links between the others; zeros there would
    allow no link above .5.

    Args:
        links: correlations of the columns, parents first; 0 where none is known.

    Returns:
        Positive definite; where a column's links leave less than `1 - STRONGEST_LINK^2` of its variance open, all of
        them are made weaker by one factor.

    Example:
        >>> chain = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
        >>> _complete_links(chain)[0].round(2).tolist()
        [1.0, 0.9, 0.81]
    """
    complete = links.copy()
    for at in range(1, len(links)):
        partners = np.flatnonzero(links[at, :at])
        weights = np.linalg.solve(complete[np.ix_(partners, partners)], links[partners, at])
        explained = float(weights @ links[partners, at])
        weights *= np.sqrt(min(1.0, STRONGEST_LINK**2 / max(explained, LEAST_SHARE)))
        complete[at, :at] = complete[:at, at] = weights @ complete[partners, :at]
    return complete


def _find_open_product(
    released: ReleasedNumbers, pair: tuple[str, str], placed: list[Placing], which: int | None
) -> float:
    """Find what the means of records leave of the released mean product of two columns.

    Taken off are two parts: the product of the mean numbers of both in each pair of bins, weighted by the law of the
    bins; and the mean product, over records, of the differences of their own means from those of their pair of bins.

    Args:
        released: numbers under every draw.
        pair: names of the columns, whose product was released.
        placed: of each column, the records that have both numbers.
        which: draw; None for the mean of all.

    Returns:
        In the product of both units, numbers from the middles of their ranges; of either sign.
    """
    grids = [released.numbers.grids[name] for name in pair]
    product, shares = (_pick(values, which) for values in released.products(pair))
    cells, rest, centred = np.ravel_multi_index([part.bins for part in placed], shares.shape), [], []
    for axis, (grid, part) in enumerate(zip(grids, placed, strict=True)):
        by_cell = _average_cells(part.mean, cells, shares.shape)
        rest.append(part.mean - by_cell.ravel()[cells])
        middles = grid.centred
        centred.append(by_cell + np.expand_dims(middles, 1 - axis))
    explained = (shares * centred[0] * centred[1]).sum() + (rest[0] * rest[1]).mean()
    return float(product - explained)
