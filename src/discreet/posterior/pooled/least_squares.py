r"""Least squares over all noisy tables at once: what they say together of every margin, and the same with no cell < 0.

Tables over overlapping sets of variables tell some margins several times. In the coordinates of their interactions
(`inference/interactions.py`) the errors are independent, so plain least squares is a weighted mean of each coordinate.

Counts are not negative, and most cells of a large table hold few records or none. The estimate that knows this solves

    minimise  1/2 sum_t |T_t - y_t|^2 / v_t   over tables T that agree with each other, T >= 0, and sum to the total,

by the alternating direction method of multipliers: the step that makes the tables agree is plain least squares. The
total must be held, because clipping alone inflates the counts. Each iterate gives a feasible point (mixed with the
uniform table until no cell is negative) and a dual bound; the difference of their values is a certificate: the
feasible tables are nearer to the exact solution than the root of twice the gap, in units of the noise's deviation.

Source: Xiao, He, Zhang and Kifer (2023) for the coordinates; Boyd, Parikh, Chu, Peleato and Eckstein (2011), section 3,
for the iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from discreet.inference.interactions import (
    contrast_matrices,
    from_neighbours,
    positions,
    subsets,
    transformed,
)
from discreet.model.arrays import margin
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.posterior.evidence import number_of_records
from discreet.releases.measurement import KNOWN, CellNoise, Measurement, noise_variance

__all__ = [
    "MOST_POOLED",
    "Fit",
    "Margins",
    "Measured",
    "coordinates_of",
    "least_squares",
    "measured",
    "nonnegative",
    "poolable",
    "pooled_margins",
    "refitted",
]

Floats = npt.NDArray[np.float64]

MOST_POOLED = 17
"""Variables of a table: a draw of a binary family of 15 takes a tenth of a second under a Dirichlet prior."""
CLOSE = 0.02
"""The iteration stops when the fit is this near to the exact solution, in deviations of the noise for each coordinate
(root of the mean square), by its certificate."""
PENALTY, RELAXED = 4.0, 1.7
"""Weight of agreement with the non-negative tables, in units of the noise's weight, and over-relaxation: 20 to 70
iterations on networks of 8 to 1,041 nodes, where 1 and 1 needed up to 640."""
MOST_STEPS = 2000
CHECKED = 10
"""Iterations from one certificate to the next."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy tables, whatever they came in.

    Args:
        network: for the sizes.
        tables: by set of variables in the schema's order; float64, an axis for each, then one of repetitions.
        scales: of the noise in the cells of each; unit: records.
        noise: law of the noise.
    """

    network: Network
    tables: Mapping[Scope, Floats]
    scales: Mapping[Scope, float]
    noise: CellNoise

    @property
    def variances(self) -> dict[Scope, float]:
        """Of the noise in a cell of each table; noise that never shows still leaves a proper weight."""
        return {scope: max(noise_variance(self.noise, scale), KNOWN) for scope, scale in self.scales.items()}

    def again(self, counts: Mapping[Scope, Floats], rng: np.random.Generator) -> Measured:
        """Other counts, with new noise of the same laws."""
        noisy = {scope: table + self._noise(scope, table.shape, rng) for scope, table in counts.items()}
        return Measured(self.network, noisy, self.scales, self.noise)

    def _noise(self, scope: Scope, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Independent noise; the Gaussian one is rounded, which is close enough for a simulation."""
        match self.noise:
            case "discrete_laplace":
                success = -math.expm1(-1 / self.scales[scope])
                return np.asarray(rng.geometric(success, shape) - rng.geometric(success, shape), np.float64)
            case "discrete_gaussian":
                return np.asarray(np.rint(rng.normal(0, self.scales[scope], shape)))
        assert_never(self.noise)


@dataclass(frozen=True, eq=False)
class Margins:
    """An estimate of every margin of every family, with the variances of its errors.

    Args:
        network: for the sizes.
        values: coordinates of each interaction of the margin over S, shape `(size - 1 for S)`.
        variances: of the error of each of these coordinates; errors are taken as independent and normal.
    """

    network: Network
    values: Mapping[Scope, Floats]
    variances: Mapping[Scope, float]

    @property
    def total(self) -> tuple[float, float]:
        """Estimate of the number of records, and its variance."""
        return float(self.values[()]), self.variances[()]

    def coordinates(self, names: Sequence[str]) -> tuple[Floats, Floats]:
        """Coordinates of the table over some variables of a family, and the variances of their errors.

        Args:
            names: in any order; that of the axes.

        Returns:
            Two arrays with an axis for each name.
        """
        network, cells = self.network, self.network.cells(names)
        sizes = [network.schema[name].size for name in names]
        values, variances = np.empty(sizes), np.empty(sizes)
        for inside, part in positions(names):
            subset = network.ordered(inside)
            turned = self.values[subset].transpose([subset.index(name) for name in inside])
            share = network.cells(subset) / cells
            values[part] = turned.reshape(values[part].shape) * math.sqrt(share)
            variances[part] = self.variances[subset] * share
        return values, variances

    def deviation(self, names: Sequence[str]) -> float:
        """Standard deviation of the error of a cell of the table over some variables of a family; unit: records."""
        return math.sqrt(float(self.coordinates(names)[1].mean()))

    def table(self, names: Sequence[str]) -> Floats:
        """The estimated table over some variables of a family, axes in the order of the names; unit: records."""
        values, _ = self.coordinates(names)
        return transformed(values, contrast_matrices(values.shape), back=True)


@dataclass(frozen=True, eq=False)
class Fit:
    """Tables that agree, hold the total, and have no negative cell.

    Args:
        tables: by scope, an axis for each variable, then one of repetitions.
        gap: certificate, shape (repetitions,): half the squared distance to the exact solution, in deviations of the
            noise, is at most this.
        steps: iterations.
    """

    tables: Mapping[Scope, Floats]
    gap: Floats
    steps: int


def measured(network: Network, parts: Sequence[Measurement]) -> Measured:
    """Tables on one data set, in the schema's order, as one repetition.

    Args:
        network: for the sizes.
        parts: tables of counts, and no contrasts. Where several are over the same variables, of different laws, or of
            samples, the mean weighted by precision is taken of those over the same variables, with its standard
            deviation as the scale of noise that is taken as Gaussian: it is a sum of several.

    Returns:
        One table for each set of variables.
    """
    tables = [(network.ordered(part.scope), _in_order(network, part)) for part in parts]
    alike = len({part.noise for part in parts}) == 1 and all(part.sampling is None for part in parts)
    if alike and len(dict(tables)) == len(parts):
        scales = {scope: part.scale or 0.0 for (scope, _), part in zip(tables, parts, strict=True)}
        return Measured(network, dict(tables), scales, parts[0].noise)
    number, _ = number_of_records([part for part in parts if part.sampling is None] or parts)
    sums, weights = dict[Scope, Floats](), dict[Scope, float]()
    for (scope, table), part in zip(tables, parts, strict=True):
        share = 1.0 if part.sampling is None else part.sampling
        # That a count varies with who was in the sample enters by the mean count of the table.
        sampled = max(number / table.size, 1.0) * (1 - share) / share
        weight = 1 / (part.variance / share**2 + sampled)
        sums[scope] = sums.get(scope, 0.0) + weight / share * table
        weights[scope] = weights.get(scope, 0.0) + weight
    place = {name: index for index, name in enumerate(network.nodes)}
    ordered = sorted(sums, key=lambda scope: [place[name] for name in scope])
    means = {scope: sums[scope] / weights[scope] for scope in ordered}
    return Measured(network, means, {scope: weights[scope] ** -0.5 for scope in ordered}, "discrete_gaussian")


def _in_order(network: Network, part: Measurement) -> Floats:
    """A measured table with its axes in the schema's order, then one of repetitions."""
    return margin(part.values, part.scope, network.ordered(part.scope))[..., None].astype(np.float64)


def poolable(parts: Iterable[Measurement]) -> bool:
    """Whether tables are over few enough variables for all their subsets to be told apart in a minute."""
    return all(len(part.scope) <= MOST_POOLED for part in parts)


def pooled_margins(network: Network, parts: Sequence[Measurement], records: int | None) -> Margins:
    """Plain least squares of all that was measured on one data set, tables and contrasts.

    Args:
        network: for the sizes.
        parts: at least one.
        records: the number of records, where it is public.

    Returns:
        Estimates and variances of all margins of the families.
    """
    tables = [part for part in parts if not part.contrasts]
    if len(tables) == len(parts):
        return least_squares(measured(network, parts), records)
    found = [_of_contrasts(network, part) for part in parts if part.contrasts]
    if tables:
        told = least_squares(measured(network, tables), None)
        found += [(subset, values, told.variances[subset]) for subset, values in told.values.items()]
    sums, weights = dict[Scope, Floats](), dict[Scope, float]()
    for subset, values, variance in found:
        sums[subset] = sums.get(subset, 0.0) + values / variance
        weights[subset] = weights.get(subset, 0.0) + 1 / variance
    means = {subset: values / weights[subset] for subset, values in sums.items()}
    return _with_total(Margins(network, means, {subset: 1 / weight for subset, weight in weights.items()}), records)


def _of_contrasts(network: Network, part: Measurement) -> tuple[Scope, Floats, float]:
    """A set of variables, the coordinates of its interaction as contrasts tell them, and the variance of their errors.

    Of more than two states errors in the coordinates are not alike and not independent: they are given their mean.
    """
    scope = network.ordered(part.scope)
    values, variance = margin(part.values, part.scope, scope).astype(np.float64), part.variance
    for axis, name in enumerate(scope):
        matrix = from_neighbours(network.schema[name].size)
        values = np.moveaxis(np.tensordot(values, matrix, axes=(axis, 0)), -1, axis)
        variance *= float((matrix**2).sum()) / len(matrix) if len(matrix) else 1.0
    return scope, values, variance


def least_squares(noisy: Measured, records: int | None) -> Margins:
    """Plain least squares: unbiased, cells of any sign.

    Args:
        noisy: one repetition.
        records: the number of records, where it is public.

    Returns:
        Estimates and variances of all margins of the families.
    """
    layout = _Layout.of(noisy)
    found = layout.parts(layout.agreed(layout.joined(noisy.tables)))
    errors = layout.parts(1 / layout.weights[:, None])
    margins = Margins(
        noisy.network,
        {subset: part[..., 0] for subset, part in found.items()},
        {subset: float(part.max(initial=0.0)) for subset, part in errors.items()},
    )
    return _with_total(margins, records)


def nonnegative(noisy: Measured, total: float, *, close: float = CLOSE) -> Fit:
    """Least squares with the total held and no cell below 0.

    Args:
        noisy: any number of repetitions, solved side by side.
        total: number of records that every table sums to, at least 1.
        close: where to stop; see the module's docstring.

    Returns:
        The fit, with its certificate. After 2,000 iterations it is returned as it is: the certificate says how far it
        came.
    """
    layout = _Layout.of(noisy)
    y, weight = layout.joined(noisy.tables), layout.inverse_variances[:, None]
    z, u = np.maximum(y, 0), np.zeros_like(y)
    step = 0
    while True:
        step += 1
        agreed = layout.spread(layout.agreed((y + PENALTY * (z - u)) / (1 + PENALTY), total))
        u += RELAXED * agreed + (1 - RELAXED) * z
        z = np.maximum(u, 0)
        u -= z
        if step % CHECKED == 0 or step == MOST_STEPS:
            feasible = layout.lifted(agreed, total)
            dual = layout.spread(layout.agreed(y - PENALTY * u, total))
            # u <= 0: -PENALTY u / v are multipliers of `T >= 0`, and `dual` minimises the Lagrangian.
            bound = (weight * (0.5 * (dual - y) ** 2 + PENALTY * u * dual)).sum(axis=0)
            gap = (weight * 0.5 * (feasible - y) ** 2).sum(axis=0) - bound
            if step == MOST_STEPS or np.all(2 * gap <= close**2 * len(layout.weights)):
                return Fit(layout.parted(feasible), np.maximum(gap, 0), step)


def coordinates_of(noisy: Measured, tables: Mapping[Scope, Floats]) -> dict[Scope, Floats]:
    """Coordinates of all interactions of families, from tables that agree with each other.

    Args:
        noisy: has the scopes.
        tables: an axis for each variable of the scope, then one of repetitions.

    Returns:
        For every subset of a family an array of shape `(size - 1 for S, repetitions)`.
    """
    layout = _Layout.of(noisy)
    return layout.parts(layout.agreed(layout.joined(tables)))


def refitted(noisy: Measured, fit: Fit) -> dict[Scope, Floats]:
    """The coordinates of a fit of one repetition, without that axis."""
    return {subset: part[..., 0] for subset, part in coordinates_of(noisy, fit.tables).items()}


def _with_total(margins: Margins, records: int | None) -> Margins:
    """The same with a public number of records."""
    if records is None:
        return margins
    return Margins(
        margins.network,
        {**margins.values, (): np.array(float(records))},
        {**margins.variances, (): 0.0},
    )


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where the coordinates of each table are in one long vector of the coordinates of all interactions.

    Args:
        network: for the sizes.
        scopes: of the tables, one after the other.
        starts: position of the first coordinate of each interaction.
        index: of each cell's coordinate in the long vector.
        factors: root of the share that the margin over S is of the table, for each cell's coordinate.
        inverse_variances: of the noise, for each cell.
        weights: of each coordinate in the long vector: its inverse variance.
        gather: sparse, from the cells' coordinates to the long vector, weighted.
    """

    network: Network
    scopes: tuple[Scope, ...]
    starts: Mapping[Scope, int]
    index: npt.NDArray[np.int64]
    factors: Floats
    inverse_variances: Floats
    weights: Floats
    gather: sp.csr_matrix

    @staticmethod
    def of(noisy: Measured) -> _Layout:
        """That of some tables."""
        return _layout(noisy.network, tuple(noisy.variances.items()))

    @staticmethod
    def numbered(network: Network, variances: Sequence[tuple[Scope, float]]) -> _Layout:
        """Number the coordinates."""
        scopes = tuple(scope for scope, _ in variances)
        starts, after = dict[Scope, int](), 0
        indices, factors = [], []
        for scope in scopes:
            sizes = [network.schema[name].size for name in scope]
            index, factor = np.empty(sizes, np.int64), np.empty(sizes)
            for subset, part in positions(scope):
                if subset not in starts:
                    starts[subset] = after
                    after += index[part].size
                index[part] = starts[subset] + np.arange(index[part].size).reshape(index[part].shape)
                factor[part] = math.sqrt(network.cells(subset) / index.size)
            indices.append(index.ravel())
            factors.append(factor.ravel())
        index, factor = np.concatenate(indices), np.concatenate(factors)
        inverse = np.concatenate([np.full(network.cells(scope), 1 / variance) for scope, variance in variances])
        shape = (after, len(index))
        gather = sp.csr_matrix((inverse * factor, (index, np.arange(len(index)))), shape)
        weights: Floats = np.bincount(index, inverse * factor**2, minlength=after).astype(np.float64)
        return _Layout(network, scopes, starts, index, factor, inverse, weights, gather)

    def joined(self, tables: Mapping[Scope, Floats]) -> Floats:
        """All cells one after the other, shape (cells, repetitions)."""
        return np.concatenate([tables[scope].reshape(-1, tables[scope].shape[-1]) for scope in self.scopes])

    def parted(self, cells: Floats) -> dict[Scope, Floats]:
        """The inverse of `joined`."""
        return {scope: self._table(cells, first, scope) for first, scope in self._places()}

    def agreed(self, cells: Floats, total: float | None = None) -> Floats:
        """Least-squares coordinates of the interactions, shape (coordinates, repetitions); the total may be held."""
        coordinates = np.empty_like(cells)
        for first, scope in self._places():
            table = self._table(cells, first, scope)
            turned = transformed(table, contrast_matrices(table.shape[:-1]))
            coordinates[first : first + self.network.cells(scope)] = turned.reshape(-1, cells.shape[1])
        found: Floats = (self.gather @ coordinates) / self.weights[:, None]
        if total is not None:
            found[self.starts[()]] = total
        return found

    def spread(self, values: Floats) -> Floats:
        """Cells of all tables from the coordinates of the interactions."""
        coordinates = values[self.index] * self.factors[:, None]
        cells = np.empty_like(coordinates)
        for first, scope in self._places():
            table = self._table(coordinates, first, scope)
            back = transformed(table, contrast_matrices(table.shape[:-1]), back=True)
            cells[first : first + self.network.cells(scope)] = back.reshape(-1, values.shape[1])
        return cells

    def lifted(self, cells: Floats, total: float) -> Floats:
        """Mixed with the uniform table until no cell is negative."""
        sizes = [self.network.cells(scope) for scope in self.scopes]
        uniform = total * np.repeat(1 / np.array(sizes), sizes)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.where(cells < 0, cells / (cells - uniform), 0.0).max(axis=0)
        return np.asarray(np.maximum((1 - needed) * cells + needed * uniform, 0))

    def parts(self, values: Floats) -> dict[Scope, Floats]:
        """The long vector by interaction, shape `(size - 1 for S, repetitions)`; only what lies in a family."""
        found = dict[Scope, Floats]()
        for subset in subsets(self.network.ordered(self.network.family(node)) for node in self.network.nodes):
            shape = tuple(self.network.schema[name].size - 1 for name in subset)
            first = self.starts[subset]
            found[subset] = values[first : first + math.prod(shape)].reshape(*shape, values.shape[-1])
        return found

    def _places(self) -> list[tuple[int, Scope]]:
        """Where each table begins."""
        sizes = [self.network.cells(scope) for scope in self.scopes]
        return list(zip(np.cumsum([0, *sizes[:-1]]).tolist(), self.scopes, strict=True))

    def _table(self, cells: Floats, first: int, scope: Scope) -> Floats:
        """One table, with its axis of repetitions."""
        sizes = [self.network.schema[name].size for name in scope]
        return cells[first : first + math.prod(sizes)].reshape(*sizes, cells.shape[1])


@lru_cache(maxsize=4)
def _layout(network: Network, variances: tuple[tuple[Scope, float], ...]) -> _Layout:
    """A layout is asked for several times for the same tables."""
    return _Layout.numbered(network, variances)
