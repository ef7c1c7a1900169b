r"""Least squares over all noisy tables at once: estimates of every margin, unconstrained or nonnegative.

Tables over overlapping sets of variables contain some margins several times. In the coordinates of their interactions
(`inference/interactions.py`) the errors are independent, so plain least squares is a weighted mean of each coordinate:
an estimate x, with a precision w.

Counts are not negative, and most cells of a large table hold few records or none. The estimate with that constraint
solves

    minimise  1/2 sum over coordinates of w (c - x)^2   where the tables T(c) >= 0, and sum to the total,

by the alternating direction method of multipliers (ADMM): the step that makes the tables agree is diagonal, too. The
total must be fixed, because clipping alone inflates the counts. Each iterate gives a feasible point (mixed with the
uniform table until no cell is negative) and a dual bound. The difference of their values (duality gap) is a
certificate: the distance of the feasible tables to the exact solution, in units of the noise's deviation, is at most
the root of twice the gap.

Source: Xiao, He, Zhang and Kifer (2023) for the coordinates; Boyd, Parikh, Chu, Peleato and Eckstein (2011), section 3,
for the iteration.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse as sp

from discreet.inference.interactions import Blur, contrast_matrices, from_neighbours, positions, subsets, transformed
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import example_law
from discreet.posterior.pooled.measured import Measured, read_tables
from discreet.posterior.pooled.weighted import add_sums
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Floats, Ints, margin

FIT_TOLERANCE = 0.02
"""The iteration stops when the certified distance to the exact solution, in standard deviations of the noise (root mean
square over coordinates), is below this."""
AGREEMENT_PENALTY, OVER_RELAXATION = 4.0, 1.7
"""ADMM penalty, in units of the noise's precision, and over-relaxation: 20 to 70 iterations on networks of 8 to 1,041
nodes, where 1 and 1 needed up to 640."""
MOST_ITERATIONS = 2000
ITERATIONS_PER_CHECK = 10
"""Iterations between two certificates."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Estimates of every margin of every measured family, with the variances of their errors.

    Args:
        network: network that gives the variables' sizes and the families.
        values: coordinates of each interaction, by its set S of variables: those of the margin over S that no smaller
            margin determines, shape `(size - 1 for S)`; unit: records.
        variances: variance of the error of each of these coordinates; errors are treated as independent and normal.
    """

    network: Network
    values: Mapping[Scope, Floats]
    variances: Mapping[Scope, float]

    @property
    def total(self) -> tuple[float, float]:
        """Estimate of the number of records, and the variance of its error; 0 if the number is public."""
        return float(self.values[()]), self.variances[()]

    def coordinates(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Compute the coordinates of the table over some variables, and the variances of their errors.

        The coordinates of the interaction of S are `sqrt(|S| / |t|)` times those in `values`, and their variances `|S|
        / |t|` times; |t| and |S| are the numbers of cells of the tables over all names and over S.

        Args:
            names: variables of the table; their order is that of the axes.

        Returns:
            Two new arrays with an axis for each name, in records and squared records. Interactions that were not
            measured have value 0 and infinite variance.
        """
        network, cells = self.network, self.network.cells(names)
        sizes = [network.schema[name].size for name in names]
        values, variances = np.zeros(sizes), np.full(sizes, math.inf)
        for inside, index in positions(names):
            subset = network.ordered(inside)
            if subset not in self.values:
                continue
            turned = self.values[subset].transpose([subset.index(name) for name in inside])
            # A coordinate of the margin over S is sqrt(cells / cells of S) times that of the whole table.
            share = network.cells(subset) / cells
            values[index] = turned.reshape(values[index].shape) * math.sqrt(share)
            variances[index] = self.variances[subset] * share
        return values, variances

    def measured_parts(self, node: str) -> list[Scope]:
        """List the largest measured subsets of a node's family with the node; the family itself if it was measured.

        A set counts as measured if its own interaction has an estimate.

        Returns:
            Names in the order of the family, the node last. No subset contains another; the one of the most cells comes
            first. Empty if nothing of the node was measured.
        """
        family = self.network.family(node)
        if self.network.ordered(family) in self.values:
            return [family]
        return self._keep_largest(family, (subset for subset in self.values if node in subset))

    def precise_parts(self, scope: Scope, ratio: float) -> list[Scope]:
        """Find the largest subsets of a measured family with variance below `ratio` times the largest interaction's.

        Only interactions that involve the node, the last name, count. All those within such a subset have variances
        below the limit; sets with a variable of one state have no coordinates and are ignored.

        Args:
            scope: names of a family or of a part of it, the node last.
            ratio: largest ratio of a coordinate's variance to the largest variance of the scope, at most 1.

        Returns:
            Subsets in the order of `scope`, the node last; no subset contains another, and the one of the most cells
            comes first. Never `scope` itself, and empty if all variances are similar.
        """
        _, variances = self.coordinates(scope)
        largest = {self.network.ordered(inside): variances[index].max() for inside, index in positions(scope)
               if scope[-1] in inside and variances[index].size}  # fmt: skip
        worst = ratio * max(largest.values(), default=0.0)
        low = {frozenset(inside) for inside, variance in largest.items() if variance < worst}
        whole = [names for names in low if all(subset in low for subset in map(frozenset, largest) if subset < names)]
        return self._keep_largest(scope, whole)

    def _keep_largest(self, names: Scope, sets: Iterable[Collection[str]]) -> list[Scope]:
        """Keep the sets within `names` that are subsets of no other, each once, those of the most cells first.

        Args:
            names: names of variables.
            sets: sets of variables; those with a variable outside of `names` are dropped.

        Returns:
            Tuples in the order of `names`. Of sets with equally many cells those with more variables come first, then
            the first given.
        """
        inside = sorted((set(subset) for subset in sets if set(subset) <= set(names)), key=len, reverse=True)
        largest: list[set[str]] = []
        for subset in inside:
            if not any(subset <= larger for larger in largest):
                largest.append(subset)
        named = [tuple(name for name in names if name in subset) for subset in largest]
        return sorted(named, key=self.network.cells, reverse=True)

    def deviation(self, names: Sequence[str]) -> float:
        """Compute the standard deviation of a cell's error in the table over some variables; unit: records.

        It is the root of the mean variance of the table's coordinates, infinite if one of its interactions was not
        measured.
        """
        return math.sqrt(float(self.coordinates(names)[1].mean()))

    def table(self, names: Sequence[str]) -> Floats:
        """Compute the estimated table over some variables, axes in their order; unit: records.

        Interactions that were not measured are 0, as if spread evenly. Cells may be negative.
        """
        values, _ = self.coordinates(names)
        return transformed(values, contrast_matrices(values.shape), back=True)


@dataclass(frozen=True, eq=False)
class FittedTables:
    """Consistent tables with a fixed total and no negative cell.

    Args:
        tables: counts by scope, shape `(*sizes, repetitions)`.
        gap: duality gap, shape (repetitions,): an upper bound on half the squared distance to the exact solution, in
            standard deviations of the noise.
        steps: number of iterations.
    """

    tables: Mapping[Scope, Floats]
    gap: Floats
    steps: int


def pooled_margins(
    network: Network, measured: Sequence[Measurement], records: int | None, *, also: Iterable[Scope] = ()
) -> Margins:
    """Fit all measurements of one data set by plain least squares: tables, contrasts and weighted sums.

    Tables are fitted together. Their fit and the contrasts are averaged interaction by interaction, weighted by
    precision; weighted sums, which involve several interactions, are added afterwards (`add_sums`). A public `records`
    then fixes the total, with variance 0; it changes no other interaction of tables and contrasts, but sums are fitted
    to it.

    Args:
        network: network that gives the variables' sizes and the families.
        measured: at least one measurement.
        records: number of records if it is public, else None.
        also: additional sets of variables whose interactions are estimated though no family contains them, each in the
            schema's order; read only if there are tables, and ignored for sets that no table contains.

    Returns:
        Estimates and variances, by interaction. From tables: the measured interactions of all families and of the
        additional sets. Beside them, whether a family contains them or not: every interaction that a contrast measures,
        all subsets of a weighted sum's variables that tables contain, and those that sums determine.
    """
    tables = [datum for datum in measured if datum.table]
    if len(tables) == len(measured):
        return least_squares(read_tables(network, measured), records, also)
    interactions = [_read_contrasts(network, datum) for datum in measured if datum.contrasts]
    if tables:
        summed = subsets(network.ordered(datum.scope) for datum in measured if datum.weights is not None)
        fitted = least_squares(read_tables(network, tables), None, (*also, *summed))
        interactions += [(subset, values, fitted.variances[subset]) for subset, values in fitted.values.items()]
    # Precision-weighted mean of each interaction over its measurements.
    sums, weights = dict[Scope, Floats](), dict[Scope, float]()
    for subset, values, variance in interactions:
        sums[subset] = sums.get(subset, 0.0) + values / variance
        weights[subset] = weights.get(subset, 0.0) + 1 / variance
    means = {subset: values / weights[subset] for subset, values in sums.items()}
    variances = {subset: 1 / weight for subset, weight in weights.items()}
    return _hold_total(Margins(network, *add_sums(network, measured, means, variances, records)), records)


def _read_contrasts(network: Network, measurement: Measurement) -> tuple[Scope, Floats, float]:
    """Convert measured contrasts to the coordinates of an interaction: its variables, the values, and their variance.

    Contrasts are differences of neighbouring states along every axis; coordinates are Helmert's (`from_neighbours`).
    With more than two states the errors of the coordinates are unequal and correlated; they are treated as independent,
    with the mean of their variances.

    Returns:
        (variables in the schema's order; values, float64, shape `(size - 1 for S)`; variance of a coordinate, squared
        records).
    """
    scope = network.ordered(measurement.scope)
    values, variance = margin(measurement.values, measurement.scope, scope).astype(np.float64), measurement.variance
    for axis, name in enumerate(scope):
        matrix = from_neighbours(network.schema[name].size)
        values = np.moveaxis(np.tensordot(values, matrix, axes=(axis, 0)), -1, axis)
        variance *= float((matrix**2).sum()) / len(matrix) if len(matrix) else 1.0
    return scope, values, variance


def least_squares(noisy: Measured, records: int | None, also: Iterable[Scope] = ()) -> Margins:
    """Fit tables by plain least squares; estimates are unbiased and cells may be negative.

    The coordinate of an interaction is the mean over the tables that contain it, weighted by precision.

    Args:
        noisy: tables of one repetition.
        records: number of records if it is public, else None. It replaces the fitted total, with variance 0; no other
            interaction changes.
        also: further sets of variables, in the schema's order, whose interactions are estimated though no family
            contains them.

    Returns:
        Estimates and variances of the measured interactions of all families and of `also`; sets that no table contains
        are left out. The variance of an interaction is the largest over its coordinates, 0 if it has none.
    """
    layout, others = _CoordinatePlaces.of(noisy), tuple(also)
    estimates = layout.parts(layout.fit(layout.join(noisy.tables)), others)
    errors = layout.parts(1 / layout.weights[:, None], others)
    margins = Margins(
        noisy.network,
        {subset: values[..., 0] for subset, values in estimates.items()},
        {subset: float(values.max(initial=0.0)) for subset, values in errors.items()},
    )
    return _hold_total(margins, records)


def fit_nonnegative(noisy: Measured, total: float, *, close: float = FIT_TOLERANCE) -> FittedTables:
    """Fit tables by least squares with a fixed total and no cell below 0, by ADMM.

    The iteration starts at the noisy cells raised to 0, with AGREEMENT_PENALTY and OVER_RELAXATION. The tolerance `2
    gap <= close^2 coordinates` is checked every ITERATIONS_PER_CHECK (10) iterations; the iteration continues until all
    repetitions meet it, or for MOST_ITERATIONS (2,000).

    Args:
        noisy: tables of any number of repetitions, which are solved side by side; all have the same noise variances.
        total: number of records that every table of every repetition sums to, at least 1; the noisy totals are not
            used.
        close: tolerance: largest certified distance to the exact solution, in standard deviations of the noise (root
            mean square over coordinates); see FIT_TOLERANCE.

    Returns:
        The feasible tables of the last iterate, mixed with uniform tables (under conditions of columns, an example of
        possible ones) until no cell is negative; they are consistent and sum to the total; impossible cells are 0. With
        them the certificate of each repetition, at least 0, and the number of iterations. After MOST_ITERATIONS they
        are returned without an error, whatever the gap.
    """
    layout = _CoordinatePlaces.of(noisy)
    y, weight = layout.join(noisy.tables), layout.weights[:, None]
    plain = layout.fit(y)
    plain[layout.starts[()]] = total
    known_zeros = layout.known_zeros
    z, u = np.maximum(y, 0), np.zeros_like(y)
    step = 0
    while True:
        step += 1
        # ADMM: coordinates `nearer` (least squares plus penalty), cells z >= 0 (projection), scaled multipliers u.
        nearer = (weight * plain + AGREEMENT_PENALTY * layout.gather(z - u)) / (
            weight + AGREEMENT_PENALTY * layout.even_weights[:, None]
        )
        nearer[layout.starts[()]] = total
        agreed = layout.to_cells(nearer)
        u += OVER_RELAXATION * agreed + (1 - OVER_RELAXATION) * z
        z = np.maximum(u, 0)
        z[known_zeros] = 0
        u -= z
        if step % ITERATIONS_PER_CHECK == 0 or step == MOST_ITERATIONS:
            feasible, lifted = layout.lift(agreed, nearer, total)
            # u <= 0, but for cells that are known to be 0: these are the multipliers of `T >= 0`, and `dual` minimises
            # the Lagrangian.
            pull = -AGREEMENT_PENALTY * layout.gather(u)
            dual = plain + pull / weight
            dual[layout.starts[()]] = total
            bound = (0.5 * weight * (dual - plain) ** 2 - pull * dual).sum(axis=0)
            # Value of the feasible point less the dual bound.
            gap = (0.5 * weight * (lifted - plain) ** 2).sum(axis=0) - bound
            if step == MOST_ITERATIONS or np.all(2 * gap <= close**2 * len(layout.weights)):
                return FittedTables(layout.split(feasible), np.maximum(gap, 0), step)


def coordinates_of(noisy: Measured, tables: Mapping[Scope, Floats]) -> dict[Scope, Floats]:
    """Compute the coordinates of all interactions of families from consistent tables.

    Of tables that disagree it computes the weighted least-squares fit, with the precisions of `noisy`.

    Args:
        noisy: released tables with the same scopes.
        tables: counts by scope, shape `(*sizes, repetitions)`.

    Returns:
        Coordinates by subset S of a family, in records, shape `(size - 1 for S, repetitions)`; subsets that no table
        contains are left out.
    """
    layout = _CoordinatePlaces.of(noisy)
    return layout.parts(layout.fit(layout.join(tables)))


def coordinates_of_fit(noisy: Measured, fit: FittedTables) -> dict[Scope, Floats]:
    """Compute the coordinates of a fit of one repetition as `coordinates_of` does, without the axis of repetitions."""
    return {subset: values[..., 0] for subset, values in coordinates_of(noisy, fit.tables).items()}


def _hold_total(margins: Margins, records: int | None) -> Margins:
    """Fix the total at the public number of records, with variance 0; return the margins as they are if it is None."""
    if records is None:
        return margins
    return Margins(margins.network, {**margins.values, (): np.array(float(records))}, {**margins.variances, (): 0.0})


@dataclass(frozen=True, eq=False)
class _CoordinatePlaces:
    """Positions of the coordinates of each table in one long vector of the coordinates of all interactions.

    "Cells" below are the cells of all tables, one table after the other; "unknowns" are the entries of the long vector.

    Args:
        network: network that gives the variables' sizes and the families.
        scopes: variables of each table, in the order of the cells.
        starts: position of the first coordinate of each interaction in the long vector.
        index: position of each cell's coordinate in the long vector, shape (cells,).
        factors: square root of (cells of the margin over S / cells of the table) for each cell's coordinate, shape
            (cells,).
        weights: precision of each coordinate of the long vector, shape (unknowns,).
        precision_sums: sparse matrix (unknowns, cells) that sums cells' coordinates weighted by their precision.
        even_weights: `weights` with the precision of each coordinate replaced by the mean of its table's.
        even_sums: as `precision_sums` with these mean precisions.
    """

    network: Network
    scopes: tuple[Scope, ...]
    starts: Mapping[Scope, int]
    index: Ints
    factors: Floats
    weights: Floats
    precision_sums: sp.csr_matrix
    even_weights: Floats
    even_sums: sp.csr_matrix

    @staticmethod
    def of(noisy: Measured) -> _CoordinatePlaces:
        """Return the layout of some tables: `number` of their network and noise, from the cache where possible."""
        return _CoordinatePlaces.number(noisy.network, tuple(noisy.blurs.items()))

    @staticmethod
    @lru_cache(maxsize=4)
    def number(network: Network, blurs: tuple[tuple[Scope, tuple[Blur, ...]], ...]) -> _CoordinatePlaces:
        """Number the coordinates of all tables and build the matrices of the fit; cached for the last four layouts.

        An interaction that several tables contain is numbered once, at the first of them. Within a table, the precision
        of an interaction's coordinates is the sum over the measurements that the table is the mean of.

        Args:
            network: network that gives the variables' sizes and the families.
            blurs: variables of each table, in the order of the cells, and the noise variances of the measurements it is
                the mean of.

        Returns:
            The layout; it has no noisy counts, so tables with the same noise share it.
        """
        scopes = tuple(scope for scope, _ in blurs)
        starts, after = dict[Scope, int](), 0
        indices, factors, precisions, means = [], [], [], []
        for scope, noises in blurs:
            sizes = [network.schema[name].size for name in scope]
            index, factor, precision = np.empty(sizes, np.int64), np.empty(sizes), np.empty(sizes)
            for subset, place in positions(scope):
                if subset not in starts:
                    starts[subset] = after
                    after += index[place].size
                index[place] = starts[subset] + np.arange(index[place].size).reshape(index[place].shape)
                factor[place] = math.sqrt(network.cells(subset) / index.size)
                precision[place] = sum(1 / noise.variance(subset) for noise in noises)
            indices.append(index.ravel())
            factors.append(factor.ravel())
            precisions.append(precision.ravel())
            means.append(np.full(precision.size, precision.mean()))
        index, factor = np.concatenate(indices), np.concatenate(factors)

        def gathering(precision: Floats) -> tuple[Floats, sp.csr_matrix]:
            """Compute the weights of the unknowns, and the matrix that sums cells' coordinates with these weights.

            The unknowns are the coordinates of all interactions. A cell's coordinate is `factor` times its unknown,
            with factor^2 = (cells of the margin over S) / (cells of the table). The weight of an unknown is the sum of
            `precision * factor^2` over its cells, and the matrix sums `precision * factor * coordinate`.

            Args:
                precision: precision of each cell's coordinate, shape (cells,).

            Returns:
                (weights, shape (unknowns,); sparse matrix, shape (unknowns, cells)).
            """
            weights = np.bincount(index, precision * factor**2, minlength=after).astype(np.float64)
            return weights, sp.csr_matrix((precision * factor, (index, np.arange(len(index)))), (after, len(index)))

        by_precision, by_mean = gathering(np.concatenate(precisions)), gathering(np.concatenate(means))
        return _CoordinatePlaces(network, scopes, starts, index, factor, *by_precision, *by_mean)

    def join(self, tables: Mapping[Scope, Floats]) -> Floats:
        """Concatenate the cells of all tables, in the order of the layout's scopes; shape (cells, repetitions)."""
        return np.concatenate([tables[scope].reshape(-1, tables[scope].shape[-1]) for scope in self.scopes])

    def split(self, cells: Floats) -> dict[Scope, Floats]:
        """Split all cells by table, the inverse of `join`: views of shape `(*sizes, repetitions)`, by scope."""
        return {scope: self._cut_table(cells, first, scope) for first, scope in self._place_tables()}

    def fit(self, cells: Floats) -> Floats:
        """Compute the least-squares coordinates of the interactions, means over tables weighted by precision.

        Args:
            cells: cells of all tables, one table after the other, shape (cells, repetitions).

        Returns:
            Coordinates of all interactions in one long vector, shape (unknowns, repetitions).
        """
        return np.asarray((self.precision_sums @ self._transform_tables(cells)) / self.weights[:, None])

    def gather(self, cells: Floats) -> Floats:
        """Sum the coordinates of cells over tables, weighted by each table's mean precision; a sum, not a mean.

        Args:
            cells: cells of all tables, one table after the other, shape (cells, repetitions).

        Returns:
            Sums for all interactions in one long vector, shape (unknowns, repetitions).
        """
        return np.asarray(self.even_sums @ self._transform_tables(cells))

    def _transform_tables(self, cells: Floats) -> Floats:
        """Transform the cells of each table to its own coordinates, one table after the other.

        The result is a new array of the shape of `cells`, (cells, repetitions). Coordinates are those of the table's
        contrasts, not weighted.
        """
        coordinates = np.empty_like(cells)
        for first, scope in self._place_tables():
            table = self._cut_table(cells, first, scope)
            turned = transformed(table, contrast_matrices(table.shape[:-1]))
            coordinates[first : first + self.network.cells(scope)] = turned.reshape(-1, cells.shape[1])
        return coordinates

    def to_cells(self, values: Floats) -> Floats:
        """Compute the cells of all tables from the coordinates of the interactions.

        Args:
            values: coordinates of all interactions in one long vector, shape (unknowns, repetitions).

        Returns:
            Cells of all tables, one table after the other, shape (cells, repetitions); tables are consistent, and cells
            may be negative.
        """
        coordinates = values[self.index] * self.factors[:, None]
        cells = np.empty_like(coordinates)
        for first, scope in self._place_tables():
            table = self._cut_table(coordinates, first, scope)
            back = transformed(table, contrast_matrices(table.shape[:-1]), back=True)
            cells[first : first + self.network.cells(scope)] = back.reshape(-1, values.shape[1])
        return cells

    def lift(self, cells: Floats, values: Floats, total: float) -> tuple[Floats, Floats]:
        """Mix tables T with an example until no cell is negative: `(1 - s) T + s example`.

        The example is positive in all possible cells and sums to `total`: uniform, or under conditions of columns
        `example_law`. Impossible cells of T are first set to 0. Each repetition has its own s, the least that suffices
        for all its tables; 0 if no cell is negative.

        Args:
            cells: cells of consistent tables, one after the other, shape (cells, repetitions); not changed.
            values: their coordinates in one long vector, shape (unknowns, repetitions); not changed.
            total: number of records of each table.

        Returns:
            Cells, at least 0, and coordinates of the mixed tables, shapes as given; their total is set to `total`.
        """
        example, cells = total * self._example, cells.copy()
        cells[self.known_zeros] = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            # The least s with (1 - s) T + s example >= 0 in every cell.
            needed = np.where(cells < 0, cells / (cells - example), 0.0).max(axis=0)
        mixed = (1 - needed) * values
        if len(self.known_zeros):
            mixed += needed * self.fit(example)
        mixed[self.starts[()]] = total
        return np.asarray(np.maximum((1 - needed) * cells + needed * example, 0)), mixed

    @cached_property
    def known_zeros(self) -> Ints:
        """Positions of the cells that no record can fall into, among the cells of all tables; kept after first use.

        Empty without conditions of columns.
        """
        return np.flatnonzero(self._example[:, 0] == 0)

    @cached_property
    def _example(self) -> Floats:
        """Shares of tables that agree and are positive in all possible cells, shape (cells, 1); kept after first use.

        Without conditions of columns each table is uniform.
        """
        if not self.network.schema.conditions:
            sizes = [self.network.cells(scope) for scope in self.scopes]
            return np.repeat(1 / np.array(sizes), sizes)[:, None]
        return np.concatenate([example_law(self.network.schema, scope).ravel() for scope in self.scopes])[:, None]

    def parts(self, values: Floats, also: Iterable[Scope] = ()) -> dict[Scope, Floats]:
        """Split the long vector of coordinates by interaction: subsets of families, smaller first, then others.

        Args:
            values: coordinates of all interactions in one long vector, shape (unknowns, repetitions).
            also: sets of variables in the schema's order to return besides all subsets of families.

        Returns:
            Coordinates by set S, views of shape `(size - 1 for S, repetitions)`; sets that no table contains are left
            out.
        """
        interactions = dict[Scope, Floats]()
        families = subsets(self.network.ordered(self.network.family(node)) for node in self.network.nodes)
        for subset in (*families, *also):
            if subset not in self.starts:
                continue
            shape = tuple(self.network.schema[name].size - 1 for name in subset)
            first = self.starts[subset]
            interactions[subset] = values[first : first + math.prod(shape)].reshape(*shape, values.shape[-1])
        return interactions

    def _place_tables(self) -> list[tuple[int, Scope]]:
        """List for each table the position of its first cell among all cells, and its scope."""
        sizes = [self.network.cells(scope) for scope in self.scopes]
        return list(zip(np.cumsum([0, *sizes[:-1]]).tolist(), self.scopes, strict=True))

    def _cut_table(self, cells: Floats, first: int, scope: Scope) -> Floats:
        """Cut one table out of all cells, from the position `first`: a view, shape `(*sizes, repetitions)`."""
        sizes = [self.network.schema[name].size for name in scope]
        return cells[first : first + math.prod(sizes)].reshape(*sizes, cells.shape[1])
