"""Sums of numbers beside tables: a part of the budget for what bins leave open of numeric columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from discreet.errors import InputError, require, shown
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within, scale_for
from discreet.mechanisms.table_plans import make_room, round_to_digits
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.number_grid import STEPS, number_grids
from discreet.noise.k_norm import k_norm_scale
from discreet.noise.shapes import Cube
from discreet.privacy.guarantee import Guarantee
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import COUNT_LIMIT, Counts
from discreet.records.number_sums import NumberSums
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.kinds.number_tables import (
    MOMENT_STEPS,
    NumberNoise,
    NumberTables,
    RowSums,
    Ruler,
    moment_names,
    moment_reach,
    row_scopes,
)
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs, TablesWithPairs
from discreet.releases.measurement import Released

COLUMN_SHARE, MOST_SHARE = Fraction(3, 20), Fraction(1, 5)
"""Share of an epsilon of 1 for numbers if all columns have some, and the most. Set on Adult and Pima so that tables of
1,000 records at epsilon 1, and of 10,000 at .3, lose 3 % of their precision; confirmed on scikit-learn's tables."""
PARTS: Mapping[str, Fraction] = {
    "offsets": Fraction(20, 100),
    "moments": Fraction(16, 100),
    "rows": Fraction(33, 100),
    "rulers": Fraction(31, 100),
}
"""Shares of that budget."""
SMALLEST, LARGEST = 1e-140, 1e140
"""Lengths in the unit of a column whose products with others, and with steps, are finite and above 0 in 64 bits."""


def default_share(network: Network, epsilon: Fraction, moved: int) -> Fraction:
    """Choose the share of epsilon for the numbers of a network, from public sizes.

    Tables share what is left: of a large network they need far more records than the few sums of its numbers, and at a
    small epsilon their noise decides more of their error.

    Args:
        network: public.
        epsilon: of the release.
        moved: cells of a table in which neighbours differ, each by one record.

    Returns:
        `COLUMN_SHARE` times the fraction of numeric columns and the root of epsilon / moved, at most `MOST_SHARE`.
    """
    root = Fraction(max(math.isqrt(int(10**6 * epsilon / moved)), 1), 1000)
    return min(COLUMN_SHARE * len(number_grids(network)) / len(network.nodes) * root, MOST_SHARE)


def with_numbers(tables: Mechanism, stated: Fraction | None) -> Mechanism:
    """Release sums of numbers beside what another mechanism releases; that alone where no column has numbers.

    Args:
        tables: a mechanism over a network whose payloads are `NoisyTables` or `TablesWithPairs`.
        stated: share of epsilon for numbers; 0 for none, None for `default_share`.

    Returns:
        The mechanism. Counts of codes have no numbers: from them it releases the tables, with all of epsilon.

    Guarantee:
        That of `tables` at one less the share of epsilon and all of delta, and pure epsilon for the rest, by sequential
        composition; which parts there are, and the leaves of rulers, is chosen by what the tables released, and what is
        released of numbers costs at most the same for every outcome of that (`NumberNoise.spread`). With s records by
        which neighbours differ in a table, and M = `STEPS`:

        * a record adds one offset of at most M to each sum of offsets, so all of them together move by s M in the
          largest norm, and cube noise of scale b costs `s M / b`;
        * it adds to each moment a whole number of at most its `moment_reach` R; the sum S of moments is released as
          `floor(S C / R + 1/2)`, C = `MOMENT_STEPS`. This is monotone in S and commutes with adding R, as C is whole,
          so it moves by at most C where S moves by at most R: all of them together by s C in the largest norm;
        * of each table of sums by rows it moves one cell by at most M: s M in the L1 norm;
        * of each ruler it moves one cell by 1: s in the L1 norm.

        With a delta the sums may have discrete Gaussian noise instead, where that is less. J offsets, D moments, R
        tables of sums by rows and J rulers move by at most `J (s M)^2`, `D (s C)^2`, `R (s M)^2` and `J s` in the
        squared L2 norm: under replace a row's sum moves by 2 M or two of them by M each, and two leaves by 1 each. So
        noise of deviation b on a part that moves by q is `q / (2 b^2)`-zCDP, for all neighbours and whatever the tables
        released, and the parts sum to at most rho. There are two cases, by the noise that all tables of a plan have:

        * Laplace noise, which spends no delta: rho is one whose tight conversion keeps the numbers' share of epsilon at
          the delta that pairs leave, and the tables, the pairs and the sums compose one after the other.
        * Gaussian noise: the tables leave rho to the sums out of their own loss, a part of each budget, so that tables
          and sums together are zero-concentrated private with what keeps the plan's epsilon and delta for tables alone.
          Pairs are measured given the tables alone, and so compose with both as with the tables. Of the two plans of
          which the number of records decides, both leave rho.

    Source:
        Dwork and Roth (2014), Theorem 3.16; Canonne, Kamath and Steinke (2020), Theorem 4 and Proposition 12; Bun and
        Steinke (2016), Lemma 1.7, for adaptive composition.
    """
    if stated == 0:
        return tables

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> object:
        if not number_grids(network):
            return tables.calibrate(network, prior, guarantee)
        share = stated or default_share(network, guarantee.epsilon, cells_moved(guarantee.relation))
        return _calibrate_all(tables, prior, guarantee, share)

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


def _calibrate_all(tables: Mechanism, prior: Dirichlet, guarantee: Guarantee, share: Fraction) -> NumberNoise:
    """Calibrate tables and sums; the sums have the noise of less variance, of two that leave the tables as much."""
    network = prior.over
    for name, grid in number_grids(network).items():
        ends = (grid.step, 2 * max(map(abs, grid.bounds)))
        require(
            all(SMALLEST < end < LARGEST for end in ends),
            f"variable {shown(name)}: squares of such numbers are beyond 64 bits; give them in another unit, or "
            "release with numbers_share=0",
        )
    first = tables.calibrate(network, prior, replace(guarantee, epsilon=(1 - share) * guarantee.epsilon))
    pure = _calibrate_numbers(network, first, share * guarantee.epsilon, cells_moved(guarantee.relation))
    if guarantee.delta:
        with suppress(InputError):  # Gaussian noise cannot keep this guarantee; that of the pure form can.
            whole = tables.calibrate(network, prior, guarantee)
            gaussian = _calibrate_gaussian(network, pure, whole, guarantee, share)
            return min(pure, gaussian, key=lambda form: form.leaf_law.raw_variance)
    return pure


def _calibrate_numbers(network: Network, first: object, epsilon: Fraction, moved: int) -> NumberNoise:
    """Calibrate the noise of all sums of numbers for a pure guarantee."""
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
        rho=None,
    )


def _calibrate_gaussian(
    network: Network, pure: NumberNoise, whole: PlannedNoise | NoiseWithPairs, guarantee: Guarantee, share: Fraction
) -> NumberNoise:
    """Calibrate discrete Gaussian noise of all sums of numbers.

    Args:
        network: public.
        pure: the other form.
        whole: noise of the tables with all of epsilon.
        guarantee: of the release, with a delta.
        share: of epsilon for numbers.

    Raises:
        InputError: a guarantee that Gaussian noise cannot keep, or two plans of tables with different noise.
    """
    first = pure.first
    if all(plan.law.concentrated for plan in whole.plans):
        # Their noise grows by 1 / (1 - share), as Laplace noise does for a share of epsilon.
        part = share * (2 - share)
        rho = part * min(sum(plan.budgets.values(), Fraction()) for plan in whole.plans)
        return _divide_loss(network, replace(pure, first=whole.with_plans(partial(make_room, part=part))), rho)
    mixed = any(plan.law.concentrated for plan in first.plans)
    require(not mixed, "tables whose noise depends on their number of records leave no loss to sums of numbers")
    left = replace(guarantee, epsilon=share * guarantee.epsilon, delta=guarantee.delta - first.delta_of_pairs)
    _, rho, reported = deviation_for(1, left)
    return replace(_divide_loss(network, pure, rho), reported=reported)


def _divide_loss(network: Network, pure: NumberNoise, rho: Fraction) -> NumberNoise:
    """Divide a zero-concentrated loss among all sums, so that the pure form's deviations change by one factor."""
    columns, moved, rho = len(number_grids(network)), pure.sensitivity, round_to_digits(rho)
    lengths = {"offsets": columns * (moved * STEPS) ** 2, "rulers": columns * moved}
    lengths["moments"] = len(moment_names(network)) * (moved * MOMENT_STEPS) ** 2
    laws = {"offsets": pure.offset_law(network), "moments": pure.moment_law(network), "rulers": pure.leaf_law}
    if pure.row_scale is not None:
        lengths["rows"], laws["rows"] = len(row_scopes(network)) * (moved * STEPS) ** 2, pure.row_law
    losses = {name: Fraction(length / laws[name].raw_variance) for name, length in lengths.items()}
    whole = sum(losses.values())
    scales = {name: deviation_within(length, rho * losses[name] / whole)[0] for name, length in lengths.items()}
    return replace(
        pure,
        offset_scale=scales["offsets"],
        moment_scale=scales["moments"],
        row_scale=scales.get("rows"),
        leaf_scale=scales["rulers"],
        reported=Fraction(),
        rho=rho,
    )


def _draw_numbers(
    sums: NumberSums, first: NoisyTables | TablesWithPairs, calibration: NumberNoise, noise: Noise
) -> NumberTables:
    """Add noise to the sums of numbers that it does not bury; `first` is released already."""
    network, grids = first.network, sums.grids
    parts = calibration.choose_parts(network, float(first.measurements[0].values.sum()))
    calibration, leaves = calibration.spread(network, parts), dict(parts.leaves)
    offsets = np.array([sums.total(name) for name in grids], np.int64)
    moments = np.array([_scale_moment(sums, pair) for pair in moment_names(network)], np.int64)
    by_rows = []
    for name, others in parts.rows:
        noisy = calibration.row_law.add(sums.by_row(name, others).ravel(), noise)
        by_rows.append(RowSums(name, others, noisy))
    rulers = []
    for name in (name for name in grids if leaves[name] > 1):
        counts = grids[name].coarsen(sums.leaves[name][:, 0], leaves[name])
        rulers.append(Ruler(name, leaves[name], calibration.leaf_law.add(counts, noise)))
    return NumberTables(
        network,
        first,
        calibration.offset_law(network).add(offsets, noise),
        calibration.moment_law(network).add(moments, noise) if parts.moments else moments[:0],
        tuple(by_rows),
        tuple(rulers),
        calibration.noise,
    )


def _scale_moment(sums: NumberSums, pair: tuple[str, str]) -> int:
    """Write a moment in parts of `MOMENT_STEPS` of its reach, rounded; in whole numbers of any size.

    A sum that noise in 64 bits cannot be added to is clipped, which moves two of them no farther apart.
    """
    first, second = (sums.grids[name] for name in pair)
    reach = moment_reach(first, second)
    parts = (2 * sums.products(*pair) * MOMENT_STEPS + reach) // (2 * reach)
    return max(-COUNT_LIMIT, min(parts, COUNT_LIMIT))
