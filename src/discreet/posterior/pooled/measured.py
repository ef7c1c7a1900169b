"""Noisy tables in the form that least squares takes: one for each set of variables, with noise variances and laws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.inference.interactions import Blur, contrast_matrices, positions, transformed
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import possible_cells
from discreet.noise.noise_laws import NoiseLaw
from discreet.posterior.evidence import blur, number_of_records
from discreet.posterior.pooled.weighted import MOST_WEIGHTED
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Floats, margin

MOST_POOLED = 17
"""Largest number of variables of a table: a draw of 15 binary variables takes .1 s under a Dirichlet prior."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy tables of one data set, from any kind of release.

    Args:
        network: network that gives the variables' sizes.
        tables: counts by set of variables in the schema's order, float64, shape `(*sizes, repetitions)`.
        blurs: noise variances of each table; if it is the mean of several tables, one entry for each, and precisions
            add up.
        laws: noise law of each table; a table without an entry is the mean of several or a sample, and its noise is
            treated as normal.
    """

    network: Network
    tables: Mapping[Scope, Floats]
    blurs: Mapping[Scope, tuple[Blur, ...]]
    laws: Mapping[Scope, NoiseLaw]

    def variance(self, scope: Scope, subset: Scope) -> float:
        """Compute the variance of independent cell errors with the same effect on an interaction as the noise.

        It is `1 / sum(1 / v)` over the measurements that the table is the mean of.

        Args:
            scope: variables of the table.
            subset: variables of the interaction, among those of the scope.

        Returns:
            Squared records.
        """
        return 1 / sum(1 / blur.variance(subset) for blur in self.blurs[scope])

    def again(self, counts: Mapping[Scope, Floats], rng: np.random.Generator) -> Measured:
        """Add new noise of the same laws to other counts.

        The noise of tied tables, such as those of a star, is drawn jointly. A table without a law gets normal noise
        with its variances. Impossible cells get none.

        Args:
            counts: tables with the same scopes, shape `(*sizes, repetitions)`; not changed.
            rng: source of randomness; nothing here is private.

        Returns:
            Noisy tables, with the variances and laws of this object.
        """
        noisy = dict[Scope, Floats]()
        for scope, table in counts.items():
            if scope not in noisy:
                noisy |= self._draw_noise(scope, table.shape, rng)
        held = {scope: self._clear(scope, noise) for scope, noise in noisy.items()}
        return Measured(
            self.network, {scope: table + held[scope] for scope, table in counts.items()}, self.blurs, self.laws
        )

    def _clear(self, scope: Scope, noise: Floats) -> Floats:
        """Set the noise of impossible cells, which are known, to 0; return the noise itself if there are none."""
        possible = possible_cells(self.network.schema, scope)
        return noise if possible is None else noise * possible[..., None]

    def _draw_noise(self, scope: Scope, shape: tuple[int, ...], rng: np.random.Generator) -> dict[Scope, Floats]:
        """Draw the noise of a table and of all tables whose noise is tied to it, by scope.

        A table without a law has normal noise of its own.

        Args:
            scope: variables of the table.
            shape: shape of the table, `(*sizes, repetitions)`.
            rng: source of randomness.
        """
        if scope not in self.laws:
            return {scope: self._draw_normal_noise(scope, shape, rng)}
        sizes = {variable.name: variable.size for variable in self.network.variables}
        return self.laws[scope].simulate_tables(scope, shape, sizes, rng)

    def _draw_normal_noise(self, scope: Scope, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw normal errors of cells, of shape `shape`: independent coordinates, with each interaction's variance.

        Coordinates are transformed back to cells, so that errors of cells are correlated where the variances differ.
        """
        coordinates = rng.standard_normal(shape)
        for subset, index in positions(scope):
            coordinates[index] *= math.sqrt(self.variance(scope, subset))
        return transformed(coordinates, contrast_matrices(shape[:-1]), back=True)


def read_tables(network: Network, measured: Sequence[Measurement]) -> Measured:
    """Collect the tables of one data set, in the schema's order, as one repetition.

    Tables over the same variables are averaged, with the precision of each interaction as weight; tables of samples are
    first scaled to all records, by the number of records that the other tables estimate (the samples themselves if
    there are no others). The noise of a mean, or of a sample, is treated as normal: it has no entry in `laws`, and
    neither has a table whose noise is tied to that of a table without entry.

    Args:
        network: network that gives the variables' sizes.
        measured: tables of counts; contrasts and weighted sums must not be among them, which is not checked.

    Returns:
        One table for each set of variables, float64, shape `(*sizes, 1)`, axes and tables in the schema's order.
        Impossible cells are 0, and the variances of the table's noise are lower for them (`_hold_zeros`).
    """
    number, _ = number_of_records([datum for datum in measured if datum.sampling is None] or measured)
    noisy: dict[Scope, list[tuple[Floats, Blur]]] = {}
    laws = dict[Scope, NoiseLaw]()
    for datum in measured:
        scope, table, noise = network.ordered(datum.scope), in_order(network, datum), blur(datum)
        if datum.sampling is None:
            laws |= {} if datum.noise is None else {scope: datum.noise}
        else:
            table, noise = _scale_sample(table, noise, datum.sampling, number)
        table, noise = _hold_zeros(network, scope, table, noise)
        noisy.setdefault(scope, []).append((table, noise))
    position = {name: index for index, name in enumerate(network.nodes)}
    ordered = sorted(noisy, key=lambda scope: [position[name] for name in scope])
    blurs = {scope: tuple(noise for _, noise in noisy[scope]) for scope in ordered}
    single = {scope: law for scope, law in laws.items() if len(noisy[scope]) == 1}
    tables = {scope: _average_tables(scope, noisy[scope]) for scope in ordered}
    return Measured(network, tables, blurs, _drop_partial_stars(single))


def _scale_sample(table: Floats, noise: Blur, share: float, number: float) -> tuple[Floats, Blur]:
    """Scale a table of a sample up to all records, and add the sampling variance to its noise.

    Args:
        table: noisy counts of the sample, any shape.
        noise: noise variances of these counts.
        share: sampling fraction q.
        number: estimated number of records n.

    Returns:
        `table / q`, and the variances `v / q^2 + max(n / cells, 1) (1 - q) / q`: the sampling variance is that of the
        mean cell, at least one record.
    """
    # A binomial count scaled by 1 / share has the variance count (1 - share) / share, at the table's mean count.
    sampled = max(number / table.size, 1.0) * (1 - share) / share
    inside, rows = (variance / share**2 + sampled for variance in (noise.inside, noise.rows))
    return table / share, Blur(rows, noise.shared, inside)


def _hold_zeros(network: Network, scope: Scope, table: Floats, noise: Blur) -> tuple[Floats, Blur]:
    """Set the impossible cells of a table to 0, which they are without noise, and lower its variances.

    Of noise in a fraction f of the cells, an interaction of variance v has `u = f^2 v + f (1 - f) w` on average, with w
    the mean variance of a cell. Errors of interactions then depend on each other, which readers do not know: the
    variances are moved half of the way back, on the log scale, to `sqrt(u v)`.

    Args:
        network: network with the conditions.
        scope: variables of the table.
        table: counts, shape `(*sizes, 1)`.
        noise: noise variances of these counts.

    Returns:
        (table, variances); both as they are if all cells are possible.
    """
    possible = possible_cells(network.schema, scope)
    if possible is None:
        return table, noise
    share, held = float(possible.mean()), network.cells(tuple(noise.shared)) / possible.size
    mean = noise.inside * held + noise.rows * (1 - held) if noise.shared else noise.rows
    rows, inside = (math.sqrt(v * (share**2 * v + share * (1 - share) * mean)) for v in (noise.rows, noise.inside))
    return table * possible[..., None], Blur(rows, noise.shared, inside)


def _drop_partial_stars(laws: Mapping[Scope, NoiseLaw]) -> dict[Scope, NoiseLaw]:
    """Keep laws all of whose tied tables have a law here, too; noise of the others is drawn per table, as normal."""
    return {scope: law for scope, law in laws.items() if laws.keys() >= set(law.tied)}


def _average_tables(scope: Scope, noisy: Sequence[tuple[Floats, Blur]]) -> Floats:
    """Average several tables over the same variables, weighted by the precision of each interaction.

    Args:
        scope: variables of the tables.
        noisy: tables of shape `(*sizes, repetitions)` with their noise variances, at least one.

    Returns:
        Same shape; a single table as it is.
    """
    if len(noisy) == 1:
        return noisy[0][0]
    matrices = contrast_matrices(noisy[0][0].shape[:-1])
    turned = [(transformed(table, matrices), noise) for table, noise in noisy]
    mean = np.empty_like(turned[0][0])
    for subset, index in positions(scope):
        weights = [1 / noise.variance(subset) for _, noise in turned]
        mean[index] = sum(weight * table[index] for weight, (table, _) in zip(weights, turned, strict=True)) / sum(
            weights
        )
    return transformed(mean, matrices, back=True)


def in_order(network: Network, datum: Measurement) -> Floats:
    """Transpose a measured table to the schema's order and append an axis of one repetition; float64, `(*sizes, 1)`."""
    return margin(datum.values, datum.scope, network.ordered(datum.scope))[..., None].astype(np.float64)


def is_poolable(measured: Iterable[Measurement]) -> bool:
    """True if tables and weighted sums have so few variables and cells that fitting takes under a minute.

    Every measurement has at most MOST_POOLED variables, and the sets of variables of weighted sums, each counted once,
    at most MOST_WEIGHTED cells together. True for no measurements.
    """
    listed = list(measured)
    weighted = {datum.scope: datum.weights[0].size for datum in listed if datum.weights is not None}
    return all(len(datum.scope) <= MOST_POOLED for datum in listed) and sum(weighted.values()) <= MOST_WEIGHTED
