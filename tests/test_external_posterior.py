"""Posteriors of figures by others: enumerated on small networks, covering over the prior, pooled as they must be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from scipy.special import gammaln

import discreet as dc
from discreet.noise.noise_laws import Gaussian, Laplace
from discreet.posterior.evidence import measurements
from discreet.posterior.pooled.latent_counts import unmeasured_rows
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.pooled.raking import by_child, counts_of, goal, rake_to
from discreet.posterior.pooled.weighted import list_determined
from discreet.releases.measurement import Measurement
from folding import every
from oracle import small

PAIR = small(("a", 2, ()), ("b", 2, ("a",)))
BELIEF = dc.Dirichlet(dc.Tables(PAIR, {"a": np.array([1.0, 1.0]), "b": np.array([[1.0, 2.0], [2.0, 1.0]])}))


def told(values: object, over: Sequence[str], law: str, scale: float, **more: object) -> dc.external.External:
    network, source = more.pop("network", PAIR), more.pop("source", "x")
    noise = dc.external.StatedNoise(law, scale)  # type: ignore[arg-type]
    return dc.external_table(values, network, over, noise, guarantee=None, source=source, **more)  # type: ignore[arg-type]


NOISY = told([[3.2, 1.1], [-0.5, 4.3]], ["a", "b"], "laplace", 2.0).also(7, (), dc.external.StatedNoise("rounded", 1))
EXACT_A, EXACT_B = told([3, 4], ["a"], "rounded", 1), told([2, 5], ["b"], "rounded", 1)
SUMS = told([3.4, 4.6], ["b", "a"], "gaussian", 0.7, weights=[[[0, 0.5], [1, 2]], [[0, 1], [0, 1]]])
FIVES = told([[5, 0], [0, 5]], ["a", "b"], "rounded", 5)
OTHERS = told([1, 3], ["b"], "rounded", 1, source="other records")


# ---------------------------------------------------------------------------------------------- the slow reference


def histograms(records: int, cells: int) -> Iterator[tuple[int, ...]]:
    """All ways to have so many records in so many cells."""
    if cells == 1:
        yield (records,)
        return
    for first in range(records + 1):
        for rest in histograms(records - first, cells - 1):
            yield (first, *rest)


def log_density(part: Measurement, counts: np.ndarray) -> float:
    """Of a measurement given counts of a and b, up to a constant."""
    left = [name for name in "ab" if name in part.scope]
    table = counts.sum(axis=tuple(axis for axis, name in enumerate("ab") if name not in part.scope))
    table = table.transpose([left.index(name) for name in part.scope])
    error = part.values - (table if part.weights is None else np.tensordot(part.weights, table, axes=table.ndim))
    match part.noise:
        case Laplace(scale):
            return float(-np.abs(error).sum() / scale)
        case Gaussian(scale):
            return float(-(error**2).sum() / (2 * scale**2))
        case _:
            return 0.0 if np.all(np.abs(error) <= (part.scale or 0) / 2) else -math.inf


def enumerated(sets: Sequence[tuple[Sequence[dc.external.External], int]]) -> np.ndarray:
    """Posterior means of P(a), both P(b | a) and P(b), by all histograms of each data set's records."""
    worlds: list[tuple[np.ndarray, float]] = [(np.zeros((2, 2)), 0.0)]
    for documents, records in sets:
        parts = measurements(documents)
        own = [np.array(cells).reshape(2, 2) for cells in histograms(records, 4)]
        logs = [sum(log_density(part, cells) for part in parts) - gammaln(cells + 1).sum() for cells in own]
        found = [(cells, log) for cells, log in zip(own, logs, strict=True) if log > -math.inf]
        worlds = [(before + cells, log + more) for before, log in worlds for cells, more in found]
    logs, means = [], []
    for counts, log in worlds:
        a, b = BELIEF.alpha["a"] + counts.sum(axis=1), BELIEF.alpha["b"] + counts
        beta = gammaln(a).sum() - gammaln(a.sum()) + gammaln(b).sum() - gammaln(b.sum(axis=1)).sum()
        logs.append(log + beta)
        rows, root = b / b.sum(axis=1, keepdims=True), a / a.sum()
        means.append([root[1], *rows[:, 1], root @ rows[:, 1]])
    weights = np.exp(np.array(logs) - max(logs))
    return np.asarray(weights @ np.array(means) / weights.sum())


@pytest.mark.costly("Public margins that are not met are found by enumerating all data sets.")
@pytest.mark.parametrize(
    "sets",
    [
        [((NOISY,), 7)],
        [((NOISY, EXACT_B), 7)],
        [((NOISY, EXACT_A, EXACT_B), 7)],
        [((EXACT_A, SUMS), 7)],
        [((FIVES, EXACT_A), 7)],
        [((NOISY,), 7), ((OTHERS,), 4)],
    ],
)
def test_exact_margins_sharpen_as_enumeration_says(sets: list[tuple[tuple[dc.external.External, ...], int]]) -> None:
    """Means of four probabilities within six of their Monte Carlo errors: false alarm below 5e-8 for all of them."""
    evidence = dc.combine(*(dc.combine(*parts, data="same") for parts, _ in sets), data="different")
    # Chains that stop where they do not meet the rounded figures are off by less than 1,500 draws show.
    draws = 4000 if any(FIVES in parts for parts, _ in sets) else 1500
    posterior = dc.noise_aware(evidence, draws=draws, rng=np.random.default_rng(5), prior=BELIEF, method="exact")
    a, b = posterior.probabilities["a"], posterior.probabilities["b"]
    draws = np.array([a[1], b[0, 1], b[1, 1], (a * b[:, 1]).sum(axis=0)])
    error = draws.std(axis=1) / math.sqrt(posterior.ess())
    assert np.all(np.abs(draws.mean(axis=1) - enumerated(sets)) < 6 * error)


def test_the_margin_made_a_difference() -> None:
    """The test above would see that a margin was not read: means move by more than it allows."""
    alone, with_b = enumerated([((NOISY,), 7)]), enumerated([((NOISY, EXACT_B), 7)])
    assert np.abs(alone - with_b).max() > 0.05


def test_figures_that_contradict_each_other_are_refused_by_the_exact_posterior() -> None:
    both = dc.combine(EXACT_B, told([[7, 0], [0, 0]], ["a", "b"], "rounded", 1), data="same")
    with pytest.raises(dc.DiscreetError, match="contradict each other"):
        dc.noise_aware(both, draws=20, rng=np.random.default_rng(1), prior=BELIEF, method="exact")
    assert dc.noise_aware(both, draws=20, rng=np.random.default_rng(1)).method == "pooled"


# ------------------------------------------------------------------------------------------------------ over the prior

FOUR = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")), ("d", 2, ("b",)))
SCENES: tuple[tuple[tuple[str, str, float], ...], ...] = (
    (("ab", "laplace", 4), ("bcd", "laplace", 4), ("abc", "laplace", 6)),
    (("ab", "gaussian", 5), ("abcd", "gaussian", 5)),
    (("ab", "rounded", 5), ("abc", "rounded", 5), ("bd", "rounded", 10)),
    (("ab", "laplace", 3),),
    (("ac", "laplace", 3), ("bc", "laplace", 3), ("b", "rounded", 1)),
    (("b", "rounded", 1), ("ac", "rounded", 1)),
)
"""Sets of variables with the law and scale of their noise; what they leave out is not measured."""


def scene(number: int, joint: np.ndarray, rng: np.random.Generator) -> dc.results.Combined:
    """Figures of 300 records of a law."""
    counts = rng.multinomial(300, joint.ravel()).reshape(joint.shape)
    documents = []
    for scope, law, scale in SCENES[number]:
        table = counts.sum(axis=tuple(axis for axis, name in enumerate("abcd") if name not in scope))
        noisy = {
            "laplace": lambda table=table, scale=scale: table + rng.laplace(0, scale, table.shape),
            "gaussian": lambda table=table, scale=scale: table + rng.normal(0, scale, table.shape),
            "rounded": lambda table=table, scale=scale: scale * np.round(table / scale),
        }[law]()
        documents.append(told(noisy, list(scope), law, scale, network=FOUR, source=scope))
    return dc.combine(*documents, data="same")


@pytest.mark.costly("Whether intervals hold shows in many worlds, not in one.")
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """72 laws of the prior: the share of 95 % intervals of all entries that hold theirs is 95 %, give or take 6 points.

    Six standard errors, estimated from the worlds: false alarm below 1e-7. Noise taken for half its deviation, or a
    prior that is not where nothing was measured, leaves 80 % or less (measured).
    """
    rng, prior = np.random.default_rng(3), dc.Dirichlet.uniform(FOUR, 1.0)
    shares = []
    for number in range(72):
        theta = {node: table[..., 0] for node, table in prior.draw(1, rng=rng).items()}
        joint = np.einsum("a,ab,abc,bd->abcd", *(theta[node] for node in "abcd"))
        evidence = scene(number % len(SCENES), joint, rng)
        posterior = dc.noise_aware(evidence, draws=200, rng=rng, prior=prior, method="pooled")
        hits = []
        for node in "abcd":
            low, high = np.quantile(posterior.probabilities[node], [0.025, 0.975], axis=-1)
            hits += ((low <= theta[node]) & (theta[node] <= high)).ravel().tolist()
        shares.append(np.mean(hits))
    error = np.std(shares) / math.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.95) < 6 * error < 0.09


def test_an_exact_margin_is_met_beside_noisy_tables() -> None:
    """What the draws of a margin vary by is sampling alone, and that of 10,000 records is .005."""
    rng = np.random.default_rng(4)
    noisy = rng.multinomial(10_000, np.full(24, 1 / 24)).reshape(2, 3, 2, 2) + rng.laplace(0, 60, (2, 3, 2, 2))
    table = told(noisy, list("abcd"), "laplace", 60, network=FOUR)
    margin = told([2000, 3000, 5000], ["b"], "rounded", 1, network=FOUR)
    for prior in (None, dc.Dirichlet.uniform(FOUR)):
        together = dc.combine(table, margin, data="same")
        posterior = dc.noise_aware(together, draws=200, rng=rng, prior=prior, method="pooled")
        answer = dc.answer(posterior, "P(b)", level=0.95)
        for row, mean in zip(answer.rows, (0.2, 0.3, 0.5), strict=True):
            assert row["mean"] == pytest.approx(mean, abs=0.005)
            assert row["upper"] - row["lower"] < 0.03  # type: ignore[operator]
        alone = dc.answer(dc.noise_aware(table, draws=200, rng=rng, prior=prior, method="pooled"), "P(b)", level=0.95)
        assert all(row["upper"] - row["lower"] > 0.05 for row in alone.rows)  # type: ignore[operator]


# -------------------------------------------------------------------------------------------------------- least squares


def test_sums_of_all_cells_are_the_table() -> None:
    """The identity as weights, in another order of axes, tells what the table tells."""
    values, order = np.arange(12.0).reshape(2, 3, 2) ** 1.5, np.random.default_rng(2).permutation(12)
    table = told(values, list("abc"), "gaussian", 3, network=FOUR)
    turned = np.eye(12)[order].reshape(12, 2, 3, 2).transpose(0, 3, 1, 2)
    sums = told(values.ravel()[order], list("cab"), "gaussian", 3, network=FOUR, weights=turned)
    one, other = (pooled_margins(FOUR, measurements([part]), None) for part in (table, sums))
    for subset, found in one.values.items():
        assert np.allclose(found, other.values[subset]) and other.variances[subset] == pytest.approx(
            one.variances[subset]
        )


def dense(parts: Sequence[Measurement], scope: str) -> tuple[np.ndarray, np.ndarray]:
    """Least squares of parts over one set of variables by the pseudo-inverse: the cells, and their covariance."""
    rows, values = [], []
    for part in parts:
        cells = part.values.size if part.weights is None else part.weights[0].size
        weights = np.eye(cells) if part.weights is None else part.weights.reshape(-1, cells)
        rows.append(weights / math.sqrt(part.variance))
        values.append(part.values.ravel() / math.sqrt(part.variance))
    inverse = np.linalg.pinv(np.concatenate(rows))
    return inverse @ np.concatenate(values), inverse @ inverse.T


def test_sums_and_tables_are_pooled_as_dense_least_squares_pools_them() -> None:
    rng = np.random.default_rng(6)
    made = told(rng.normal(50, 9, (2, 3)), list("ab"), "laplace", 4, network=FOUR)
    made = made.also(
        rng.normal(50, 9, 4), list("ab"), dc.external.StatedNoise("gaussian", 2), rng.normal(0, 1, (4, 2, 3))
    )
    parts = measurements([made])
    margins = pooled_margins(FOUR, parts, None)
    cells, covariance = dense(parts, "ab")
    assert np.allclose(margins.table(["a", "b"]).ravel(), cells)
    # The variances of coordinates are means over an interaction: those of cells are right in sum.
    assert 6 * margins.deviation(["a", "b"]) ** 2 == pytest.approx(float(np.trace(covariance)))


@every(
    ("weights", "found"),
    [
        ([[1, 1, 1]], {()}),
        ([[1, 0, 0], [0, 1, 0]], set()),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], {(), ("b",)}),
        ([[1, -1, 0], [0, 1, -1]], {("b",)}),
        ([[2, 1, 1], [1, 2, 1], [3, 3, 2]], set()),
    ],
)
def test_what_sums_leave_open(weights: list[list[float]], found: set[tuple[str, ...]]) -> None:
    made = told(np.ones(len(weights)), ["b"], "gaussian", 1, network=FOUR, weights=weights)
    assert list_determined(FOUR, measurements([made])) == found


@every(
    ("law", "scale", "variance", "reach"),
    [
        ("laplace", 3, 18, None),
        ("gaussian", 3, 9, None),
        ("discrete_gaussian", 3, 9, None),
        ("discrete_laplace", 3, 2 * math.exp(-1 / 3) / math.expm1(-1 / 3) ** 2, None),
        ("rounded", 1, 1e-6, 0),
        ("rounded", 5, 2, 2),
        ("rounded", 10, 10, 5),
    ],
)
def test_laws_have_their_variance(law: str, scale: float, variance: float, reach: float | None) -> None:
    """Of rounding that of whole numbers evenly within its reach."""
    (part,) = measurements([told([4, 6], ["a"], law, scale)])
    assert part.noise is not None and part.noise.reach == reach and part.variance == pytest.approx(variance)
    (sums,) = measurements([told([4.5], ["a"], "rounded", 3, weights=[[0.5, 0]])])
    assert sums.noise is not None and (sums.variance, sums.noise.reach) == (pytest.approx(0.75), 1.5)


# ----------------------------------------------------------------------------------------------------------------- rows


def test_rows_that_nothing_measured_are_draws_of_the_prior() -> None:
    """Mean and variance of Dirichlet(1, 3) within six standard errors, at every number of records."""
    totals = np.repeat(np.array([[0], [5], [1000]]), 6000, axis=1)
    alpha = np.array([[1.0, 3.0]] * 3)
    found = unmeasured_rows(totals, 2, np.full(11, 1 / 11), np.random.default_rng(1), alpha)
    assert np.array_equal(found.counts.sum(axis=1), totals)
    theta = found.theta[:, 0]
    assert np.all(np.abs(theta.mean(axis=1) - 0.25) < 6 * math.sqrt(0.0375 / 6000))
    assert np.allclose(theta.var(axis=1), 0.0375, rtol=0.15)


def test_a_family_is_moved_to_a_part_of_it() -> None:
    rng = np.random.default_rng(2)
    counts = rng.multinomial(4000, np.full(12, 1 / 12), 5).T.reshape(2, 3, 2, 5)
    rows = counts.sum(axis=(0, 2))
    wanted = np.stack([rows // 3, rows - rows // 3], axis=1)
    cells = rake_to(by_child(counts).astype(float), counts.sum(axis=2), [goal(2, [1], wanted)], rng)
    moved = counts_of(cells)
    assert np.array_equal(moved.sum(axis=2), counts.sum(axis=2))
    assert np.abs(moved.sum(axis=0) - wanted).max() <= 2


@pytest.mark.parametrize("prior", [None, 1.0])
def test_estimates_know_every_measured_part_of_a_family(prior: float | None) -> None:
    """Of c given a and b nothing is told but c beside either: both are met."""
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("a", "b")))
    parts = told([[3000, 2000], [2000, 3000]], ["a", "c"], "laplace", 1.0, network=network)
    parts = parts.also([[4500, 500], [500, 4500]], ["b", "c"], dc.external.StatedNoise("laplace", 1.0))
    belief = None if prior is None else dc.Dirichlet.uniform(network, prior)
    estimate = dc.estimate(parts, rng=1, prior=belief)
    assert np.allclose(estimate["a"] @ estimate["c"][..., 1], [0.1, 0.9], atol=0.02)
    assert np.allclose(estimate["b"] @ estimate["c"].swapaxes(0, 1)[..., 1], [0.4, 0.6], atol=0.02)


def test_every_measured_part_of_a_family_is_answered_as_it_was_measured() -> None:
    """Noise of one record in thousands: what each part says, to the sampling error and no more."""
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("a", "b")))
    beside_a, beside_b = np.array([[1720, 1280], [3650, 3350]]), np.array([[2850, 1150], [2520, 3480]])
    parts = told(beside_a, ["a", "c"], "laplace", 1.0, network=network)
    parts = parts.also(beside_b, ["b", "c"], dc.external.StatedNoise("laplace", 1.0))
    posterior = dc.noise_aware(parts, draws=1000, rng=np.random.default_rng(4))
    for name, table in (("a", beside_a), ("b", beside_b)):
        for state, (no, yes) in enumerate(table):
            share, error = yes / (no + yes), math.sqrt(yes * no / (no + yes) ** 3)
            (row,) = dc.answer(posterior, f"P(c=s1 | {name}=s{state})", level=0.95).tidy()
            assert abs(row["mean"] - share) < error
            assert 3 * error < row["upper"] - row["lower"] < 5.5 * error


def test_what_is_told_far_better_is_found() -> None:
    values: Mapping[tuple[str, ...], np.ndarray] = {
        (): np.array(1.0),
        ("a",): np.zeros(1),
        ("b",): np.zeros(2),
        ("a", "b"): np.zeros((1, 2)),
    }
    margins = Margins(FOUR, values, {(): 0.0, ("a",): 9.0, ("b",): 0.001, ("a", "b"): 9.0})
    assert margins.precise_parts(("a", "b"), 0.02) == [("b",)]
    assert margins.precise_parts(("b",), 0.02) == []
    assert margins.measured_parts("b") == [("a", "b")]
    assert margins.measured_parts("c") == []
