"""Sums of numbers beside tables: a part of the budget for what bins leave open of numeric columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.number_grid import STEPS, number_grids
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.shapes import Cube
from discreet.privacy.guarantee import Guarantee
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import COUNT_LIMIT, Counts
from discreet.records.number_sums import NumberSums
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.number_tables import (
    MOMENT_STEPS,
    NumberNoise,
    NumberTables,
    RowSums,
    Ruler,
    leaves_for,
    moment_names,
    moment_reach,
    row_scopes,
)
from discreet.releases.kinds.tables_with_pairs import TablesWithPairs
from discreet.releases.measurement import Released

COLUMN_SHARE, MOST_SHARE = Fraction(3, 10), Fraction(1, 5)
"""Share of epsilon for numbers if all columns have some, in proportion for others; and the most."""
PARTS: Mapping[str, Fraction] = {
    "offsets": Fraction(20, 100),
    "moments": Fraction(16, 100),
    "rows": Fraction(33, 100),
    "rulers": Fraction(31, 100),
}
"""Shares of that budget."""


def default_share(network: Network) -> Fraction:
    """Choose the share of epsilon for the numbers of a network: 0.3 times the fraction of numeric columns, at most 0.2.

    Tables share what is left: of a large network they need far more records than the few sums of its numbers.
    """
    return min(COLUMN_SHARE * len(number_grids(network)) / len(network.nodes), MOST_SHARE)


def with_numbers(tables: Mechanism, stated: Fraction | None) -> Mechanism:
    """Release sums of numbers beside what another mechanism releases; that alone where no column has numbers.

    Args:
        tables: a mechanism over a network whose payloads are `NoisyTables` or `TablesWithPairs`.
        stated: share of epsilon for numbers; 0 for none, None for `default_share`.

    Returns:
        The mechanism. Counts of codes have no numbers: from them it releases the tables, with all of epsilon.

    Guarantee:
        That of `tables` at one less the share of epsilon and all of delta, and pure epsilon for the rest, by sequential
        composition; the leaves of rulers are chosen by what the tables released. With s records by which neighbours
        differ in a table, and M = `STEPS`:

        * a record adds one offset of at most M to each sum of offsets, so all of them together move by s M in the
          largest norm, and cube noise of scale b costs `s M / b`;
        * it adds to each moment a whole number of at most its `moment_reach` R; the sum S of moments is released as
          `floor(S C / R + 1/2)`, C = `MOMENT_STEPS`. This is monotone in S and commutes with adding R, as C is whole,
          so it moves by at most C where S moves by at most R: all of them together by s C in the largest norm;
        * of each table of sums by rows it moves one cell by at most M: s M in the L1 norm;
        * of each ruler it moves one cell by 1: s in the L1 norm.
    """
    if stated == 0:
        return tables

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> object:
        grids = number_grids(network)
        if not grids:
            return tables.calibrate(network, prior, guarantee)
        share = default_share(network) if stated is None else stated
        first = tables.calibrate(network, prior, replace(guarantee, epsilon=(1 - share) * guarantee.epsilon))
        return _calibrate_numbers(network, first, share * guarantee.epsilon, cells_moved(guarantee.relation))

    def draw(statistic: Counts, prior: Dirichlet, calibration: object, noise: Noise) -> Released:
        if not isinstance(calibration, NumberNoise):
            return tables.draw(statistic, prior, calibration, noise)
        assert statistic.sums is not None
        first = tables.draw(statistic, prior, calibration.first, noise)
        assert isinstance(first, NoisyTables | TablesWithPairs)
        return _draw_numbers(statistic.sums, first, calibration, noise)

    def count_numbers(network: Network, calibration: object) -> int:
        if not isinstance(calibration, NumberNoise):
            return tables.numbers(network, calibration)
        grids = number_grids(network)
        rows = sum(network.cells(others) for _, others in row_scopes(network))
        fine = sum(int(grid.leaves_of_bins(grid.finest).sum()) for grid in grids.values())
        return tables.numbers(network, calibration.first) + len(grids) + len(moment_names(network)) + rows + fine

    def require(statistic: Counts) -> None:
        tables.require(statistic)
        if statistic.sums is not None:
            statistic.sums.require_fit()

    return replace(
        tables,
        calibrate=calibrate,
        draw=draw,
        require=require,
        numbers=count_numbers,
        suited=lambda statistic: tables if statistic.sums is None and number_grids(statistic.network) else None,
    )


def _calibrate_numbers(network: Network, first: object, epsilon: Fraction, moved: int) -> NumberNoise:
    """Calibrate the noise of all sums of numbers."""
    grids, by_rows = number_grids(network), len(row_scopes(network))
    parts = {name: share * epsilon for name, share in PARTS.items()}
    if not by_rows:
        parts["rulers"] += parts.pop("rows")
    offset_scale, cost = k_norm_scale(moved * STEPS, parts["offsets"], len(grids), Cube.tag)
    moments = len(moment_names(network))
    moment_scale, of_moments = k_norm_scale(moved * MOMENT_STEPS, parts["moments"], moments, Cube.tag)
    row_scale, of_rows = scale_for(moved * STEPS, parts["rows"] / by_rows) if by_rows else (None, Fraction())
    leaf_scale, of_ruler = scale_for(moved, parts["rulers"] / len(grids))
    return NumberNoise(
        first=first,  # type: ignore[arg-type]
        sensitivity=moved,
        offset_scale=offset_scale,
        moment_scale=moment_scale,
        row_scale=row_scale,
        leaf_scale=leaf_scale,
        reported=cost + of_moments + by_rows * of_rows + len(grids) * of_ruler,
    )


def _draw_numbers(
    sums: NumberSums, first: NoisyTables | TablesWithPairs, calibration: NumberNoise, noise: Noise
) -> NumberTables:
    """Add noise to all sums of numbers; `first` is released already."""
    network, grids = first.network, sums.grids
    records = float(first.measurements[0].values.sum())
    leaves = {name: leaves_for(grid, records, calibration.leaf_scale) for name, grid in grids.items()}
    offsets = np.array([sums.total(name) for name in grids], np.int64)
    moments = [_scale_moment(sums, pair) for pair in moment_names(network)]
    by_rows = []
    for name, others in row_scopes(network):
        assert calibration.row_scale is not None
        noisy = noise.discrete_laplace(sums.by_row(name, others).ravel(), calibration.row_scale)
        by_rows.append(RowSums(name, others, noisy))
    rulers = []
    for name in (name for name in grids if leaves[name] > 1):
        counts = grids[name].coarsen(sums.leaves[name][:, 0], leaves[name])
        rulers.append(Ruler(name, leaves[name], noise.discrete_laplace(counts, calibration.leaf_scale)))
    return NumberTables(
        network,
        first,
        noise.k_norm(offsets, calibration.offset_scale, Cube.tag),
        noise.k_norm(np.array(moments, np.int64), calibration.moment_scale, Cube.tag),
        tuple(by_rows),
        tuple(rulers),
    )


def _scale_moment(sums: NumberSums, pair: tuple[str, str]) -> int:
    """Write a moment in parts of `MOMENT_STEPS` of its reach, rounded; in whole numbers of any size.

    A sum that noise in 64 bits cannot be added to is clipped, which moves two of them no farther apart.
    """
    first, second = (sums.grids[name] for name in pair)
    reach = moment_reach(first, second)
    parts = (2 * sums.products(*pair) * MOMENT_STEPS + reach) // (2 * reach)
    return max(-COUNT_LIMIT, min(parts, COUNT_LIMIT))
