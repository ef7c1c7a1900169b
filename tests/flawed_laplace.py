"""Mechanisms of noisy tables with one bug each, for the tests that must find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import discreet as dc
from discreet.mechanisms.noise import Noise
from discreet.releases.kinds.noisy_counts import TableNoise

Tables = dict[str, np.ndarray]


def promise(epsilon: object, relation: dc.Relation) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def redrawn(draw: Callable[[dc.results.Counts, TableNoise, Noise], Tables]) -> dc.tools.Mechanism:
    """The mechanism with another draw; its payload claims the scales of the calibration."""
    return replace(
        dc.laplace(),
        draw=lambda counts, _, calibration, noise: dc.kinds.NoisyCounts(
            counts.network, draw(counts, calibration, noise), calibration.scales
        ),
    )


def plain(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    return scaled(1, counts, calibration, noise)


def scaled(factor: float, counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    """The measured tables, each with noise of a multiple of its scale."""
    scales = calibration.scales.items()
    return {node: noise.discrete_laplace(counts.tables[node], factor * scale) for node, scale in scales}


def half_scale(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    return scaled(0.5, counts, calibration, noise)


def double_scale(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    return scaled(2, counts, calibration, noise)


def a_table_without_noise(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    *_, last = calibration.scales
    return plain(counts, calibration, noise) | {last: counts.tables[last]}


def a_cell_without_noise(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    *_, last = calibration.scales
    noisy = plain(counts, calibration, noise)
    noisy[last] = noisy[last].copy()
    noisy[last].flat[0] = counts.tables[last].flat[0]
    return noisy


def noise_reused_in_two_cells(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    first, *_ = calibration.scales
    one = noise.discrete_laplace(np.zeros(1, np.int64), calibration.scales[first])
    return plain(counts, calibration, noise) | {first: counts.tables[first] + one}


def noise_added_twice(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    once = plain(counts, calibration, noise)
    return {node: noise.discrete_laplace(table, calibration.scales[node]) for node, table in once.items()}


def noise_where_there_are_records(counts: dc.results.Counts, calibration: TableNoise, noise: Noise) -> Tables:
    if counts.records:
        return plain(counts, calibration, noise)
    return {node: counts.tables[node] for node in calibration.scales}


def calibrated_for(relation: dc.Relation) -> dc.tools.Mechanism:
    """The mechanism that calibrates for this relation, whatever the guarantee says."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        return right.calibrate(network, prior, promise(guarantee.epsilon, relation))

    return replace(right, calibrate=calibrate)


def rescaled(factor: float) -> dc.tools.Mechanism:
    """The mechanism whose calibration itself is off."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        honest = right.calibrate(network, prior, guarantee)
        return replace(honest, scales={node: factor * scale for node, scale in honest.scales.items()})

    return replace(right, calibrate=calibrate)


def a_table_uncounted() -> dc.tools.Mechanism:
    """Budgets as if the last measured table were free."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        tables = len(network.maximal_families)
        return right.calibrate(network, prior, promise(guarantee.epsilon * tables / (tables - 1), guarantee.relation))

    return replace(right, calibrate=calibrate)


def every_table_at_the_price_of_some() -> dc.tools.Mechanism:
    """Measures all families, with the noise that the budgets of those in no other family buy."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        each = guarantee.epsilon / len(network.maximal_families)
        every = dict.fromkeys(network.nodes, each)
        return dc.laplace(every).calibrate(network, prior, promise(sum(every.values()), guarantee.relation))

    return replace(right, calibrate=calibrate)
