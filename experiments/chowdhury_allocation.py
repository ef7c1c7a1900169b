"""Which part of Algorithm 1 of Chowdhury et al. (2020) helps, on Asia: number of tables, split, merge or sampling.

The reference values come from one sample of 10,000 records that is not known; how much a value varies from one such
sample to the next is printed with it. Below, the mechanisms that the package offers, on the same samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.theory import inference

from . import Codes, Floats, asia, counts_of, markdown, mean_and_error, run
from .d_ind import (
    Measured,
    TwoStage,
    algorithm_1,
    allocation,
    as_runs,
    d_ind,
    estimated_error,
    importance,
    normalised,
    parameter_error,
)

__all__ = [
    "COLUMNS",
    "REFERENCE",
    "Setting",
    "empirical",
    "errors_of_variants",
    "in_spreads",
    "merged_by_variance",
    "report",
    "shares_from_counts",
    "variants",
]

EPSILONS = (1, 3)
COLUMNS: Sequence[tuple[Measured, int]] = ((2, 1), (2, 3), (1, 1), (1, 3))
"""(tables for each node, epsilon) of the reference values."""
SAMPLING = 0.1
Setting = tuple[str, Measured, int]
"""(variant, tables for each node, epsilon)."""

REFERENCE: Mapping[str, tuple[float, float, float, float]] = {
    "uniform budget (D-Ind)": (0.168, 0.090, 0.120, 0.054),
    "eq. 13, sampling, printed merge (Algorithm 1)": (0.181, 0.081, 0.107, 0.049),
    "eq. 13, sampling, inverse-variance merge": (0.156, 0.065, 0.091, 0.034),
    "eq. 13, no sampling, printed merge": (0.184, 0.073, 0.110, 0.039),
    "eq. 13, no sampling, inverse-variance merge": (0.184, 0.073, 0.103, 0.034),
    "eq. 13, no sampling, stage I discarded": (0.187, 0.066, 0.099, 0.032),
}
"""Errors of each variant in one sample of 10,000 records, 400 runs; one value for each of `COLUMNS`."""


def merged_by_variance(stages: TwoStage, sampling: float) -> dc.Tables:
    """Noisy counts of both stages, weighted by the inverse variances of their noise, then divided by row sums.

    Args:
        stages: of Algorithm 1.
        sampling: beta; counts of the first stage are divided by it.

    Returns:
        Probabilities, shape `(*parents, child, runs)`. That a sample's counts vary is left out of the weights.
    """
    first, second = stages.first, stages.second
    merged = {}
    for node in stages.theta:
        early, late = (sampling / first.scales[node]) ** 2, second.scales[node] ** -2.0
        merged[node] = normalised((early * first.cells[node] / sampling + late * second.cells[node]) / (early + late))
    return dc.Tables(stages.theta.network, merged, draws=stages.theta.draws)


def variants(
    network: dc.Network, codes: Mapping[str, Codes], tables: Measured, epsilon: int, runs: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Probabilities under every variant of the reference table; those that differ in the merge share their noise."""
    simple = d_ind(dc.count_codes(network, codes), epsilon, runs, rng, tables=tables)
    sparse = algorithm_1(network, codes, epsilon, runs, rng, tables=tables, sampling=SAMPLING)
    full = algorithm_1(network, codes, epsilon, runs, rng, tables=tables, sampling=1)
    found = (
        simple,
        sparse.theta,
        merged_by_variance(sparse, SAMPLING),
        full.theta,
        merged_by_variance(full, 1),
        full.second.theta,
    )
    return dict(zip(REFERENCE, found, strict=True))


def errors_of_variants(
    truth: dc.Tables, data: Sequence[Mapping[str, Codes]], runs: int
) -> tuple[dict[Setting, list[float]], dict[Setting, list[float]]]:
    """Mean error of every variant in each sample.

    Args:
        truth: probabilities of the network.
        data: samples: positions of states for every node, shape (records,).
        runs: on each sample.

    Returns:
        By setting, one value for each sample: against the sample's own frequencies, and against the network.
    """
    noise, whole = dict[Setting, list[float]](), dict[Setting, list[float]]()
    for seed, codes in enumerate(data):
        rng = np.random.default_rng([SEED, seed, 1])
        own, given = empirical(dc.count_codes(truth.network, codes)), as_runs(truth)
        for tables, epsilon in COLUMNS:
            for variant, theta in variants(truth.network, codes, tables, epsilon, runs, rng).items():
                key = (variant, tables, epsilon)
                noise.setdefault(key, []).append(float(parameter_error(theta, own).mean()))
                whole.setdefault(key, []).append(float(parameter_error(theta, given).mean()))
    return noise, whole


def in_spreads(value: float, errors: Sequence[float]) -> float:
    """A value of one unknown sample, less the mean over samples, in standard deviations from sample to sample."""
    return float((value - np.mean(errors)) / np.std(errors, ddof=1))


def empirical(counts: dc.Counts) -> dict[str, Floats]:
    """Relative frequencies in the sample: what would be released without noise; shape `(*parents, child, 1)`."""
    return {node: normalised(table) for node, table in as_runs(counts.tables).items()}


def shares_from_counts(theta: dc.Tables, records: float) -> dict[str, float]:
    """Equation (13) from expected counts instead of noisy ones: the share of the budget of each node.

    Args:
        theta: probabilities of the network.
        records: how many are expected.

    Returns:
        Shares that sum to 1.
    """
    network = theta.network
    single = dc.Tables(network, as_runs(theta), draws=1)
    cells = {node: records * inference.joint(single, network.family(node), {}) for node in network.nodes}
    errors = estimated_error(single, cells, {node: table.sum(axis=-2) for node, table in cells.items()})
    weights = importance(network)
    found = allocation({node: weights[node] * errors[node] for node in network.nodes}, 1)
    return {node: float(share[0]) for node, share in found.items()}


# ------------------------------------------------------------------------------------------ what the package offers

SHIPPED: Mapping[str, dc.Mechanism[Any]] = {
    "laplace()": dc.laplace(),
    "allocated()": dc.allocated(),
    "allocated(weights='structure')": dc.allocated(weights="structure"),
    "allocated(sampling=.1)": dc.allocated(sampling="0.1"),
    "allocated(sampling=.1, weights='structure')": dc.allocated(sampling="0.1", weights="structure"),
}
DRAWS = 400


def shipped(
    counts: dc.Counts, mechanism: dc.Mechanism[Any], epsilon: int, rng: np.random.Generator
) -> dict[str, dc.Tables]:
    """Posterior means of one simulated release, by the way it is read; one run."""
    network = counts.network
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), guarantee, rng=rng)
    means = {
        "plug_in": dc.plug_in(release, draws=DRAWS, rng=rng).mean(),
        "noise_aware": dc.noise_aware(release, draws=DRAWS, rng=rng).mean(),
    }
    return {reading: dc.Tables(network, as_runs(mean), draws=1) for reading, mean in means.items()}


# ------------------------------------------------------------------------------------------ the command

RECORDS = 10_000
SEED = 2020


def report(quick: bool) -> str:
    """The reference table with both readings of the error, the allocation, and the shipped mechanisms."""
    samples, runs, releases = (4, 50, 1) if quick else (40, 400, 3)
    truth = asia()
    data = [sample_codes(truth, RECORDS, np.random.default_rng([SEED, seed])) for seed in range(samples)]
    about = (
        "The parts of Algorithm 1 of Chowdhury et al. (2020), as printed; not what the package offers.\n\n"
        f"Asia, {samples} samples of {RECORDS:,} records (seeds [{SEED}, 0..{samples - 1}]), {runs} runs on each; "
        "guarantee: epsilon as in the row, delta 0, add-remove one record, in exact arithmetic (simulated noise). "
        "Error: sum |dTheta| over a node's cells, averaged over nodes, against the sample's own frequencies (what "
        "noise does) or the network's probabilities; ± standard error over samples. Spread: standard deviation from "
        "one sample to the next of the mean of its runs. z: reference less mean, in spreads.\n"
    )
    tables = [_reference_table(truth, data, runs), _readings(truth, data, runs), _allocation_table(truth)]
    return "\n".join([about, *tables, _shipped_table(truth, data, releases)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the report."""
    run("The parts of Algorithm 1 of Chowdhury et al. (2020), on Asia", report, arguments)


def _reference_table(truth: dc.Tables, data: Sequence[Mapping[str, Codes]], runs: int) -> str:
    """Every variant beside its reference value, and what else moves the values."""
    noise, whole = errors_of_variants(truth, data, runs)
    rows, distances = list[list[object]](), [list[float](), list[float]()]
    for variant, values in REFERENCE.items():
        for (tables, epsilon), value in zip(COLUMNS, values, strict=True):
            row: list[object] = [variant, {1: "one", 2: "two"}[tables], epsilon, f"{value:.3f}"]
            for distance, found in zip(distances, (noise, whole), strict=True):
                errors = found[variant, tables, epsilon]
                distance.append(in_spreads(value, errors))
                row += [mean_and_error(errors), f"{np.std(errors, ddof=1):.3f}", f"{distance[-1]:+.1f}"]
            rows.append(row)
    header = ["variant", "tables", "epsilon", "reference", "against the sample", "spread", "z"]
    header += ["against the network", "spread", "z"]
    within = [f"{np.mean(np.abs(found) < 3):.0%}, largest {np.abs(found).max():.1f}" for found in distances]
    return markdown(header, rows) + f"\n|z| below 3: {within[0]} against the sample, {within[1]} against the network.\n"


def _readings(truth: dc.Tables, data: Sequence[Mapping[str, Codes]], runs: int) -> str:
    """What the values depend on: the rarest row, and where equation (12) takes the count of a row from."""
    network = truth.network
    rare, simple = list[int](), list[float]()
    later: dict[Literal["cells", "parents"], list[float]] = {"cells": [], "parents": []}
    for seed, codes in enumerate(data):
        rng = np.random.default_rng([SEED, seed, 3])
        counts = dc.count_codes(network, codes)
        own = empirical(counts)
        rare.append(int(counts.tables["either"][0, 0].sum()))
        simple.append(float(parameter_error(d_ind(counts, 1, runs, rng), own).mean()))
        for totals, errors in later.items():
            stages = algorithm_1(network, codes, 1, runs, rng, sampling=1, totals=totals)
            errors.append(float(parameter_error(stages.second.theta, own).mean()))
    return (
        "The values of one sample move together: they depend on how many of its records have tuberculosis and lung "
        f"cancer (row yes, yes of 'either'; {min(rare)} to {max(rare)}, correlation with D-Ind's error at epsilon 1 "
        f"{np.corrcoef(rare, simple)[0, 1]:+.2f}). With the count of a row in equation (12) taken from T_pa, the split "
        "without sampling, stage I discarded, two tables, epsilon 1, has the error "
        f"{mean_and_error(later['parents'])}; taken from T, {mean_and_error(later['cells'])}.\n"
    )


def _allocation_table(truth: dc.Tables) -> str:
    """W and the shares of equation (13) from expected counts."""
    weights, shares = importance(truth.network), shares_from_counts(truth, RECORDS)
    order = sorted(shares, key=lambda node: -shares[node])
    rows = [[node, f"{weights[node]:g}", f"{shares[node]:.1%}"] for node in order]
    return markdown(["node", "W (equation 11)", "share (equation 13, expected counts)"], rows) + (
        "\nPrinted order: asia > smoke > bronc > lung > tub > xray > either > dysp.\n"
    )


def _shipped_table(truth: dc.Tables, data: Sequence[Mapping[str, Codes]], releases: int) -> str:
    """The package's mechanisms with both ways of reading a release."""
    network = truth.network
    errors = dict[tuple[str, str, int], list[Floats]]()
    for seed, codes in enumerate(data):
        rng = np.random.default_rng([SEED, seed, 2])
        counts = dc.count_codes(network, codes)
        own, given = empirical(counts), as_runs(truth)
        for name, mechanism in SHIPPED.items():
            for epsilon in EPSILONS:
                made = [shipped(counts, mechanism, epsilon, rng) for _ in range(releases)]
                for reading in made[0]:
                    found = [
                        (parameter_error(each[reading], own)[0], parameter_error(each[reading], given)[0])
                        for each in made
                    ]
                    errors.setdefault((name, reading, epsilon), []).append(np.mean(found, axis=0))
    rows = []
    for name in SHIPPED:
        for reading in ("plug_in", "noise_aware"):
            columns = [np.array(errors[name, reading, epsilon]).T for epsilon in EPSILONS]
            rows.append([name, reading, *(mean_and_error(values) for column in columns for values in column)])
    header = ["mechanism", "read by", *(f"epsilon {e}, {of}" for e in EPSILONS for of in ("sample", "network"))]
    return (
        f"What the package offers, on the same samples, {releases} simulated releases of each; posterior means of "
        f"{DRAWS} draws, prior Dirichlet(1/4); guarantee and error as above.\n\n"
    ) + markdown(header, rows)


if __name__ == "__main__":
    main()
