"""Laplace mechanisms with one bug each, for the tests that must find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import discreet as dc
from discreet.mechanisms.noise import Noise
from discreet.privacy.release import Calibration, NoisyCounts


def promise(epsilon: object, relation: dc.Relation) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def redrawn(draw: Callable[[dc.Counts, Calibration, Noise], dict[str, np.ndarray]]) -> dc.Mechanism:
    """The mechanism with another draw; its payload claims the scales of the calibration."""
    return replace(
        dc.laplace(),
        draw=lambda counts, _, calibration, noise: NoisyCounts(
            dc.Tables(counts.network, draw(counts, calibration, noise)), calibration.scales
        ),
    )


def plain(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    return {node: noise.discrete_laplace(table, calibration.scales[node]) for node, table in counts.tables.items()}


def half_scale(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    return {node: noise.discrete_laplace(table, calibration.scales[node] / 2) for node, table in counts.tables.items()}


def a_table_without_noise(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    return plain(counts, calibration, noise) | {"b": counts.tables["b"]}


def a_cell_without_noise(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    noisy = plain(counts, calibration, noise)
    noisy["b"] = noisy["b"].copy()
    noisy["b"][0, 0] = counts.tables["b"][0, 0]
    return noisy


def noise_reused_in_two_cells(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    noisy = plain(counts, calibration, noise)
    one = noise.discrete_laplace(np.zeros(1, np.int64), calibration.scales["a"])
    return noisy | {"a": counts.tables["a"] + one}


def noise_where_there_are_records(counts: dc.Counts, calibration: Calibration, noise: Noise) -> dict[str, np.ndarray]:
    return plain(counts, calibration, noise) if counts.records else dict(counts.tables)


def calibrated_for(relation: dc.Relation) -> dc.Mechanism:
    """The mechanism that calibrates for this relation, whatever the guarantee says."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Calibration:
        return right.calibrate(network, prior, promise(guarantee.epsilon, relation))

    return replace(right, calibrate=calibrate)


def rescaled(factor: float) -> dc.Mechanism:
    """The mechanism whose calibration itself is off."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Calibration:
        honest = right.calibrate(network, prior, guarantee)
        return replace(honest, scales={node: factor * scale for node, scale in honest.scales.items()})

    return replace(right, calibrate=calibrate)


def a_table_uncounted() -> dc.Mechanism:
    """Budgets as if the last table were free."""
    right = dc.laplace()

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Calibration:
        nodes = len(network.nodes)
        return right.calibrate(
            network, prior, promise(guarantee.epsilon * nodes / (nodes - 1), guarantee.relation)
        )  # fmt: skip

    return replace(right, calibrate=calibrate)
