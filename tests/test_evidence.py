"""Evidence of a row against the exact laws of its noise, and the counts drawn from it against enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import binom, multivariate_normal

import discreet as dc
from discreet.posterior.evidence import (
    Evidence,
    GaussianEvidence,
    LaplaceEvidence,
    LaplaceSumEvidence,
    StagedEvidence,
    family_evidence,
    laplace_variance,
    total_measurements,
    unshifted_tables,
)
from discreet.posterior.latent_counts import draw_counts
from discreet.posterior.noise_aware import drowned_rows
from discreet.posterior.totals import TotalLaw
from discreet.theory.contrasts import noise_covariance
from releases import guarantee, simulated_counts
from rows import DISTANCE, DRAWS, distance
from tiny import counts_of, network_of

# ------------------------------------------------------------------------------------------------- exact references


def log_laplace_sum(scale: float, terms: int, distances: np.ndarray) -> np.ndarray:
    """Log-probability of a sum of discrete Laplace variates: a hypergeometric sum without a negative term.

    The sum is the difference of two negative binomial variates with n = terms; by Pfaff's transformation its
    probability at d is, with `r = q^2 / (1 - q^2)`,
    `(1 - q)^(2n) q^d C(n - 1 + d, d) (1 - q^2)^-n sum_j (n)_j (n - 1)! r^j / ((n - 1 - j)! (d + 1)_j j!)`.
    """
    n, d, j = terms, distances[:, None].astype(float), np.arange(terms)
    log_gap = math.log(-math.expm1(-2 / scale))
    inner = (
        gammaln(n + j) - gammaln(n - j) - gammaln(d + 1 + j) + gammaln(d + 1) - gammaln(j + 1)
        + j * (-2 / scale - log_gap)
    )  # fmt: skip
    outer = 2 * n * math.log(-math.expm1(-1 / scale)) - distances / scale - n * log_gap
    outer = outer + gammaln(n + distances) - gammaln(distances + 1.0) - gammaln(n)
    return np.asarray(outer + logsumexp(inner, axis=1))


def laplace_mass(scale: float, terms: int, reach: int) -> np.ndarray:
    """The same by convolution of a table with itself, at -terms * reach to terms * reach."""
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    found = one
    for _ in range(terms - 1):
        found = np.convolve(found, one)
    return found


def staged_log_likelihood(
    z: tuple[int, int], scales: tuple[float, float], terms: int, sampling: float, counts: np.ndarray
) -> np.ndarray:
    """Exact: the sampled count is summed over its binomial law."""
    result = []
    for m in counts.astype(int):
        k = np.arange(m + 1)
        logs = binom.logpmf(k, m, sampling) + log_laplace_sum(scales[0], terms, np.abs(z[0] - k))
        result.append(logsumexp(logs))
    return np.array(result) + log_laplace_sum(scales[1], terms, np.abs(z[1] - counts))


def normalised(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def steps(logs: np.ndarray) -> np.ndarray:
    """Log-likelihoods are known up to a constant."""
    return logs - logs[0]


# ----------------------------------------------------------------------------------------------------- likelihoods


@pytest.mark.parametrize(("scale", "terms"), [(0.3, 2), (1.0, 3), (7.0, 2), (7.0, 6), (2.0, 30)])
def test_the_references_agree(scale: float, terms: int) -> None:
    mass = laplace_mass(scale, terms, math.ceil(40 * scale))
    middle = len(mass) // 2
    distances = np.arange(math.ceil(20 * scale))
    np.testing.assert_allclose(
        log_laplace_sum(scale, terms, distances), np.log(mass[middle + distances]), atol=1e-10
    )  # fmt: skip


def test_laplace_is_the_exact_law_up_to_a_constant() -> None:
    evidence = LaplaceEvidence(np.array([3.0, -2.0]), 2.5)
    counts = np.arange(40.0)
    for cell, z in enumerate((3, -2)):
        exact = log_laplace_sum(2.5, 1, np.abs(counts - z))
        np.testing.assert_allclose(steps(evidence.log_likelihood(cell, counts)), steps(exact), atol=1e-12)


@pytest.mark.parametrize("terms", [2, 3, 6, 30])
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.0, 100.0, 1000.0, 10_000.0])
def test_sums_have_their_law_and_its_tail(scale: float, terms: int) -> None:
    """Within 1e-4 nats as far as the table reaches, 23 nats; then never too low, and less than a sixth too high."""
    evidence = LaplaceSumEvidence(np.array([0.0]), scale, terms)
    far = math.ceil(evidence.reach(60.0))
    distances = np.unique(np.rint(np.linspace(0, far, 400)).astype(int))
    found = steps(evidence.log_likelihood(0, distances.astype(float)))
    exact = steps(log_laplace_sum(scale, terms, distances))
    near = exact > -22
    np.testing.assert_allclose(found[near], exact[near], atol=1e-4)
    assert np.all(found[~near] > exact[~near] - 1e-3 * np.abs(exact[~near]))
    assert np.all(found[~near] < exact[~near] + np.abs(exact[~near]) / 6)
    # A law that is not concave has a second peak somewhere: the transform's errors once made one at large scales.
    assert np.all(np.diff(found) < 0)


def test_gaussian_and_coupling_are_the_multivariate_normal() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 3))
    covariance = root @ root.T + np.eye(3)
    z = np.array([3.5, -0.25, 10.0])
    evidence = GaussianEvidence(z, covariance)
    counts = rng.integers(0, 20, size=(3, 50)).astype(float)
    cells = sum(evidence.log_likelihood(k, counts[k]) for k in range(3))
    exact = multivariate_normal(z, covariance).logpdf(counts.T)
    np.testing.assert_allclose(steps(cells + evidence.coupling(counts)), steps(exact), atol=1e-9)
    alone = GaussianEvidence.independent(z, 2.0)
    assert alone.correlation is None and not alone.coupling(counts).any()


@pytest.mark.parametrize("terms", [1, 2, 6])
@pytest.mark.parametrize(
    ("z", "scales", "sampling", "off"),
    [
        ((3, 10), (2.0, 4.0), 0.3, 0.03),
        ((60, 190), (5.0, 8.0), 0.3, 0.02),
        ((60, 190), (0.5, 50.0), 0.3, 0.02),
        ((9, 10), (1.0, 20.0), 0.9, 0.06),
        ((2, 0), (1.0, 1.0), 0.3, 0.05),
        ((0, 1), (0.5, 1.0), 0.3, 0.11),
    ],
)
def test_stages_are_near_the_binomial_mixture(
    z: tuple[int, int], scales: tuple[float, float], sampling: float, off: float, terms: int
) -> None:
    """Total variation, and no narrower than 4 % less than exact; one or two records are the worst case."""
    first, second = (LaplaceSumEvidence(np.array([float(n)]), b, terms) for n, b in zip(z, scales, strict=True))
    evidence = StagedEvidence(first, second, sampling)
    counts = np.arange(0.0, max(z[0] / sampling, z[1]) + 25 * min(scales[0] / sampling, scales[1]) * math.sqrt(terms))
    found = normalised(evidence.log_likelihood(0, counts))
    exact = normalised(staged_log_likelihood(z, scales, terms, sampling, counts))
    assert np.abs(found - exact).sum() / 2 < off
    deviations = [math.sqrt(p @ counts**2 - (p @ counts) ** 2) for p in (found, exact)]
    assert deviations[0] > 0.96 * deviations[1]


def test_stages_without_sampling_are_exact() -> None:
    counts = np.arange(60.0)
    evidence = StagedEvidence(
        LaplaceEvidence(np.array([8.0]), 3.0), LaplaceSumEvidence(np.array([20.0]), 2.0, 3), 1.0
    )  # fmt: skip
    exact = log_laplace_sum(3.0, 1, np.abs(counts - 8)) + log_laplace_sum(2.0, 3, np.abs(counts - 20))
    np.testing.assert_allclose(steps(evidence.log_likelihood(0, counts)), steps(exact), atol=1e-4)


@pytest.mark.parametrize(("z", "scale"), [(3, 1.0), (30, 10.0), (300, 100.0), (30_000, 100.0), (30_000, 1.0)])
def test_a_count_of_zero_is_as_likely_as_its_noise(z: int, scale: float) -> None:
    """Nobody can be sampled from nobody: the noise has the whole error, however large."""
    evidence = StagedEvidence(LaplaceEvidence(np.array([float(z)]), scale), LaplaceEvidence(np.zeros(1), 1.0), 0.3)
    found = evidence.log_likelihood(0, np.zeros(1))[0]
    assert found == pytest.approx(-z / scale, rel=1e-9)


EVIDENCE: dict[str, Evidence] = {
    "laplace": LaplaceEvidence(np.array([7.0, -3.0]), 4.0),
    "sum": LaplaceSumEvidence(np.array([7.0, -3.0]), 4.0, 3),
    "gaussian": GaussianEvidence(np.array([7.5, -3.0]), np.array([[9.0, -4.0], [-4.0, 9.0]])),
    "stages": StagedEvidence(
        LaplaceEvidence(np.array([5.0, 0.0]), 2.0), LaplaceEvidence(np.array([7.0, -3.0]), 4.0), 1.0
    ),
    "sampled": StagedEvidence(
        LaplaceEvidence(np.array([5.0, 30.0]), 2.0), LaplaceEvidence(np.array([7.0, 3.0]), 4.0), 0.3
    ),
    "sampled sums": StagedEvidence(
        LaplaceSumEvidence(np.array([5.0, 30.0]), 2.0, 4), LaplaceSumEvidence(np.array([7.0, 3.0]), 4.0, 4), 0.3
    ),
}


@pytest.mark.parametrize("nats", [3.0, 24.0, 60.0])
@pytest.mark.parametrize("name", EVIDENCE)
def test_beyond_the_reach_nothing_is_left(name: str, nats: float) -> None:
    """No count is negative. Stages that contradict each other may fall short of it by a third of a nat."""
    evidence = EVIDENCE[name]
    for cell in range(2):
        centre, reach = evidence.centre[cell], evidence.reach(nats)
        inside = np.append(np.arange(max(math.floor(centre), 0), centre + reach + 1), max(centre, 0))
        outside = np.array([max(centre, 0) + reach, max(centre, 0) + 2 * reach, centre - reach])
        outside = outside[outside >= 0]
        best = evidence.log_likelihood(cell, inside).max()
        assert np.all(evidence.log_likelihood(cell, outside) <= best - nats + 0.3)


@pytest.mark.parametrize("name", ["laplace", "sum", "gaussian", "stages"])
def test_totals_have_the_law_of_the_sum(name: str) -> None:
    evidence, totals = EVIDENCE[name], np.arange(60.0)
    found = evidence.total()
    assert found.centre == pytest.approx(evidence.centre.sum(), rel=0.01)
    exact: Callable[[np.ndarray], np.ndarray] = {
        "laplace": lambda n: log_laplace_sum(4.0, 2, np.abs(n - 4)),
        "sum": lambda n: log_laplace_sum(4.0, 6, np.abs(n - 4)),
        "gaussian": lambda n: -((n - 4.5) ** 2) / (2 * (9 + 9 - 8)),
        "stages": lambda n: log_laplace_sum(2.0, 2, np.abs(n - 5)) + log_laplace_sum(4.0, 2, np.abs(n - 4)),
    }[name]
    np.testing.assert_allclose(steps(found.log_likelihood(0, totals)), steps(exact(totals)), atol=1e-4, rtol=1e-3)


# ------------------------------------------------------------------------------------------------------ of payloads

NET = network_of({"a": 2, "b": 3, "c": 2}, "a>b b>c")
PRIOR = dc.Dirichlet.uniform(NET)
PAYLOADS = {
    "laplace": (dc.laplace(), 0),
    "fourier": (dc.fourier(stealth=0.9), 0),
    "gaussian": (dc.gaussian(), "1e-6"),
    "allocated": (dc.allocated(), 0),
}


def simulated(name: str, relation: str = "add-remove", epsilon: float = 1.0, n: int = 500) -> dc.Release:
    mechanism, delta = PAYLOADS[name]
    rng = np.random.default_rng(8)
    theta = PRIOR.draws(1, rng)
    counts = simulated_counts(dc.Tables(NET, {node: table[..., 0] for node, table in theta.items()}), n, rng)
    promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")
    return dc.simulate(mechanism, counts, PRIOR, promise, rng=rng)


@pytest.mark.parametrize("relation", list(dc.Relation))
@pytest.mark.parametrize("name", PAYLOADS)
def test_every_row_has_its_noise(name: str, relation: str) -> None:
    """Centres and variances of all rows, derived families among them, from the payload's own numbers."""
    payload = simulated(name, relation).payload
    for node in NET.nodes:
        rows = family_evidence(payload, node)
        assert len(rows) == NET.cells(NET.parents[node])
        found = np.array([evidence.centre for evidence in rows]).reshape(NET.shape(node))
        match payload:
            case dc.NoisyCounts():
                np.testing.assert_array_equal(found, payload.table(node))
                assert payload.terms(node) == (3 if node == "a" else 1)
            case dc.NoisyCoefficients():
                np.testing.assert_allclose(found, unshifted_tables(payload)[node])
                variances = dict.fromkeys(payload.components, laplace_variance(payload.scale))
                variances[()] *= payload.noisy_total
                full = noise_covariance(NET, node, variances)
                size = NET.schema[node].size
                for j, evidence in enumerate(rows):
                    assert isinstance(evidence, GaussianEvidence)
                    block = full[j * size : (j + 1) * size, j * size : (j + 1) * size]
                    np.testing.assert_allclose(evidence.covariance, block, atol=1e-5, rtol=1e-6)
            case dc.TwoStageCounts():
                for evidence, one, two in zip(
                    rows,
                    payload.first.table(node).reshape(len(rows), -1),
                    payload.second.table(node).reshape(len(rows), -1),
                    strict=True,
                ):
                    assert isinstance(evidence, StagedEvidence)
                    np.testing.assert_array_equal(evidence.first.z, one)
                    np.testing.assert_array_equal(evidence.second.z, two)


@pytest.mark.parametrize("name", PAYLOADS)
def test_measured_totals_are_those_of_the_tables(name: str) -> None:
    payload = simulated(name, n=2000).payload
    for z, variance in total_measurements(payload, None):
        # A Laplace variate, or a sum of them, is 25 deviations off with a probability below 1e-15.
        assert abs(z - 2000) < 25 * math.sqrt(variance)
    left_out = total_measurements(payload, "b")
    expected = {"laplace": 1, "gaussian": 1, "allocated": 2, "fourier": 1}[name]
    assert len(left_out) == expected


def test_noise_that_swamps_a_public_total_leaves_evidence_regular() -> None:
    """Under REPLACE the cells of a root sum to a known number: a singular covariance, but for its rounding errors."""
    made = simulated("fourier", "replace", epsilon=1e-6)
    (evidence,) = family_evidence(made.payload, "a")
    assert isinstance(evidence, GaussianEvidence)
    e = 0.3 * math.sqrt(evidence.covariance[0, 0])
    counts = evidence.centre[:, None] + np.array([[0.0, e], [0.0, -e]])
    joint = evidence.coupling(counts) + evidence.log_likelihood(0, counts[0]) + evidence.log_likelihood(1, counts[1])
    assert joint[1] - joint[0] == pytest.approx(-0.045, rel=1e-3)
    cells = dc.noise_aware(simulated("fourier", "replace", epsilon=0.01), draws=100, rng=np.random.default_rng(0)).cells
    assert all(np.isfinite(cells[node]).all() for node in NET.nodes)


@pytest.mark.parametrize("name", PAYLOADS)
def test_drowned_rows_are_below_one_deviation(name: str) -> None:
    """Exactly so for one measurement; of stages each must be below its own deviation, or both."""
    release = simulated(name, epsilon=0.3, n=100)
    found = drowned_rows(release)
    for node in NET.nodes:
        drowned = 0
        for evidence in family_evidence(release.payload, node):
            z = float(evidence.total().centre[0])
            deviation = {
                LaplaceEvidence: lambda e: e.scale * math.sqrt(2 * len(e.z)),
                LaplaceSumEvidence: lambda e: e.part_scale * math.sqrt(2 * e.terms * len(e.z)),
                GaussianEvidence: lambda e: math.sqrt(e.covariance.sum()),
                StagedEvidence: lambda e: math.sqrt(2) * e.total().scale,
            }[type(evidence)](evidence)
            drowned += z < deviation
        assert found.get(node, (0, 0))[0] == drowned
        assert node not in found or found[node][1] == NET.cells(NET.parents[node])


def test_nothing_drowns_where_no_counts_were_measured() -> None:
    counts = counts_of(NET, [(0, 0, 0)])
    made = dc.simulate(dc.posterior_sampler(), counts, PRIOR, guarantee(1), rng=np.random.default_rng(0))
    assert drowned_rows(made) == {}


# ------------------------------------------------------------------------------------------------ counts of a row


def enumerated(
    log_likelihood: Callable[[np.ndarray], np.ndarray], a: tuple[float, ...], top: int, log_total: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """All count vectors of a box, shape (K, vectors), and their posterior probabilities."""
    counts = np.array(np.meshgrid(*[np.arange(top + 1.0)] * len(a), indexing="ij")).reshape(len(a), -1)
    total, alpha = counts.sum(axis=0), np.array(a)[:, None]
    logs = log_likelihood(counts) + gammaln(total + 1) - gammaln(total + alpha.sum())
    logs += (gammaln(counts + alpha) - gammaln(counts + 1)).sum(axis=0)
    if log_total is not None:
        logs += np.append(log_total, np.full(len(a) * top + 1, -np.inf))[total.astype(int)]
    return counts, normalised(logs)


COVARIANCE = {2: np.array([[16.0, -9.0], [-9.0, 12.0]]), 3: np.array([[9.0, -4, 1], [-4, 9, -4], [1, -4, 6]])}
TIED = np.array([[25.0, -24.99], [-24.99, 25.0]])


def rows_of(name: str) -> tuple[Evidence, Callable[[np.ndarray], np.ndarray], int]:
    """Evidence, its exact log-likelihood of counts of shape (K, S), and the top of the box."""
    match name:
        case "sums, two" | "sums, three":
            z = np.array([9.0, -4.0]) if name.endswith("two") else np.array([6.0, -3.0, 1.0])
            terms, scale = 3, 1.5
            return (
                LaplaceSumEvidence(z, scale, terms),
                lambda n: sum(log_laplace_sum(scale, terms, np.abs(n[k] - z[k])) for k in range(len(z))),
                110 if len(z) == 2 else 55,
            )
        case "correlated, two" | "correlated, three":
            size = 2 if name.endswith("two") else 3
            z = np.array([5.5, -1.0, 3.25][:size])
            normal = multivariate_normal(z, COVARIANCE[size])
            return GaussianEvidence(z, COVARIANCE[size]), lambda n: normal.logpdf(n.T), 45
        case "tied":
            z = np.array([12.5, 7.5])
            return GaussianEvidence(z, TIED), lambda n: multivariate_normal(z, TIED).logpdf(n.T), 60
        case "independent":
            z = np.array([2.0, 9.0, -3.0])
            return (
                GaussianEvidence.independent(z, 3.0),
                lambda n: -((n - z[:, None]) ** 2).sum(axis=0) / 18,
                40,
            )
        case "stages":
            one, two = np.array([9.0, -5.0]), np.array([4.0, 2.0])
            return (
                StagedEvidence(LaplaceEvidence(one, 4.0), LaplaceEvidence(two, 2.0), 1.0),
                lambda n: -np.abs(n - one[:, None]).sum(axis=0) / 4 - np.abs(n - two[:, None]).sum(axis=0) / 2,
                60,
            )
        case _:
            one, two = np.array([9.0, 3.0]), np.array([40.0, 12.0])
            top = 130
            exact = [
                staged_log_likelihood((int(one[k]), int(two[k])), (2.0, 5.0), 1, 0.3, np.arange(top + 1.0))
                for k in range(2)
            ]
            return (
                StagedEvidence(LaplaceEvidence(one, 2.0), LaplaceEvidence(two, 5.0), 0.3),
                lambda n: exact[0][n[0].astype(int)] + exact[1][n[1].astype(int)],
                top,
            )


LAWS: dict[str, Callable[[int], np.ndarray] | None] = {
    "flat": None,
    "believed": lambda top: -((np.arange(top) - 14.0) ** 2) / 50,
    "known": lambda top: np.where(np.arange(top) == 15, 0.0, -np.inf),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "name",
    ["sums, two", "sums, three", "correlated, two", "correlated, three", "tied", "independent", "stages", "sampled"],
)
def test_counts_have_the_law_of_the_enumeration(name: str, law: str) -> None:
    """40,000 draws within the DKW distance at 1e-8; sampled counts are allowed their normal approximation."""
    evidence, exact, top = rows_of(name)
    a = (0.25, 1.0, 2.0)[: len(evidence.centre)]
    make = LAWS[law]
    log_total = None if make is None else make(2 * top)
    believed = None if log_total is None else TotalLaw(np.arange(2 * top + 1), np.exp(log_total - log_total.max()))
    counts, weights = enumerated(exact, a, top, log_total)
    assert weights[counts.max(axis=0) == top].sum() < 1e-6
    rng = np.random.default_rng(sum(map(ord, name + law)))
    drawn = draw_counts(evidence, np.array(a), DRAWS, rng, believed)
    slack = 0.02 if name == "sampled" else 0.0
    for found, values in ((drawn.sum(axis=0), counts.sum(axis=0)), *zip(drawn, counts, strict=True)):
        exact_law = np.bincount(values.astype(int), weights=weights)
        assert distance(found, np.arange(exact_law.size), exact_law) < DISTANCE + slack
