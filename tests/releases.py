"""Releases, and posteriors of one row, made for tests: of given noisy counts, or simulated from known probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

import discreet as dc
from discreet.releases.policy import RecordsPolicy

POLICY = RecordsPolicy("error", "error")


def guarantee(epsilon: float = 1.0, relation: str = "add-remove") -> dc.Guarantee:
    """A pure guarantee for records."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def noisy_release(
    prior: dc.Dirichlet,
    tables: Mapping[str, np.ndarray],
    scales: float | Mapping[str, float],
    records: int | None = None,
) -> dc.Release:
    """A release that says exactly these noisy tables; a public number of records makes it one for REPLACE."""
    network = prior.network
    zeros = dc.Tables(network, {node: np.zeros(network.shape(node), np.int64) for node in network.nodes})
    promise = guarantee(relation="add-remove" if records is None else "replace")
    mechanism = dc.laplace(dict.fromkeys(tables, Fraction(1, len(tables))))
    made = dc.simulate(mechanism, dc.results.Counts(zeros, POLICY), prior, promise, rng=np.random.default_rng(0))
    noisy = {node: np.asarray(table, np.int64) for node, table in tables.items()}
    if not isinstance(scales, Mapping):
        scales = dict.fromkeys(tables, scales)
    calibration = replace(made.calibration, scales=scales)
    return replace(made, payload=dc.kinds.NoisyCounts(network, noisy, scales), calibration=calibration, records=records)


def row_release(z: Sequence[int], a: Sequence[float], b: float) -> dc.Release:
    """A release of one row: a single variable `x` without parents."""
    network = dc.Network((dc.Variable("x", tuple(f"s{k}" for k in range(len(z)))),), {"x": ()})
    prior = dc.Dirichlet(dc.Tables(network, {"x": np.asarray(a, float)}))
    return noisy_release(prior, {"x": np.asarray(z)}, b)


def simulated_counts(theta: dc.Tables, n: int, rng: np.random.Generator) -> dc.results.Counts:
    """Family counts of n records drawn from small networks: one multinomial over the joint states."""
    network = theta.network
    joint = np.ones([1] * len(network.nodes))
    for node in network.nodes:
        family = network.family(node)
        order = sorted(range(len(family)), key=lambda axis: network.nodes.index(family[axis]))
        shape = [network.schema[name].size if name in family else 1 for name in network.nodes]
        joint = joint * theta[node].transpose(order).reshape(shape)
    counts = rng.multinomial(n, joint.ravel() / joint.sum()).reshape(joint.shape)
    tables = {}
    for node in network.nodes:
        family = network.family(node)
        kept = [name for name in network.nodes if name in family]
        summed = counts.sum(axis=tuple(axis for axis, name in enumerate(network.nodes) if name not in family))
        tables[node] = np.ascontiguousarray(summed.transpose([kept.index(name) for name in family]))
    return dc.results.Counts(dc.Tables(network, tables), POLICY)


def simulated(theta: dc.Tables, n: int, promise: dc.Guarantee, rng: np.random.Generator) -> dc.Release:
    """A simulated Laplace release of n records drawn from a network, with the default prior."""
    counts = simulated_counts(theta, n, rng)
    return dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(theta.network), promise, rng=rng)
