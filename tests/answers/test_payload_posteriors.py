"""Posteriors of every kind of payload: coverage, agreement with enumeration, round trips, and the plug-in."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from discreet.posterior.pooled.least_squares import fit_nonnegative, least_squares, pooled_margins
from discreet.posterior.pooled.measured import read_tables
from discreet.research.scores.contrasts import family_tables
from discreet.util.arrays import margin
from releases import noisy_release, simulated_counts
from tiny import network_of

LEVEL = 0.95
NETWORK = network_of({"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}, "a>b a>c b>c c>d d>e")
PRIOR = dc.Dirichlet.uniform(NETWORK)

KINDS: dict[str, tuple[Callable[[], dc.tools.Mechanism], object]] = {
    "planned": (lambda: dc.planned(pairs_share=0), 0),
    "planned, delta": (lambda: dc.planned(pairs_share=0), "1e-6"),
    "laplace": (dc.laplace, 0),
    "fourier": (dc.research.fourier, 0),
    "fourier, shifted": (lambda: dc.research.fourier(stealth=0.9), 0),
    "gaussian": (dc.gaussian, "1e-6"),
    "allocated": (dc.research.allocated, 0),
    "allocated, sampled": (lambda: dc.research.allocated(sampling="0.3"), 0),
    "posterior_sampler": (dc.research.posterior_sampler, 0),
    "posterior_sampler, two draws": (lambda: dc.research.posterior_sampler(2), 0),
    "posterior_sampler, delta": (dc.research.posterior_sampler, "1e-6"),
    "map_estimate": (dc.research.map_estimate, 0),
}
COUNTS = [kind for kind in KINDS if kind.startswith(("planned", "laplace", "fourier", "gaussian", "allocated"))]
PARTICLES = [
    ("posterior_sampler", "add-remove"),
    ("posterior_sampler, two draws", "replace"),
    ("map_estimate", "replace"),
]
"""Draws and choices are read by particles, in seconds: on every run in one relation, in the thorough tests in both."""


def often(kind: str, relation: str) -> list[pytest.MarkDecorator]:
    """The mark of what does not run every time."""
    return [] if kind in COUNTS or (kind, relation) in PARTICLES else [pytest.mark.thorough]


CELLS = [
    pytest.param(kind, relation, id=f"{kind}-{relation}", marks=often(kind, relation))
    for kind in KINDS
    for relation in dc.tools.RECORD_RELATIONS
    if not (kind == "allocated, sampled" and relation is dc.Relation.REPLACE)
]


def quick(kind: str) -> tuple[str, ...]:
    """Nodes that a fast test reads: rows of released draws of three states take a second each."""
    return NETWORK.nodes if kind in COUNTS else ("a", "b")


def one(theta: dc.Tables) -> dc.Tables:
    """The first of some draws."""
    return dc.Tables(theta.network, {node: table[..., 0] for node, table in theta.items()})


def simulated(
    kind: str, relation: str, epsilon: float, n: int, theta: dc.Tables, rng: np.random.Generator
) -> dc.Release:
    make, delta = KINDS[kind]
    promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")
    if kind.startswith("planned"):
        counts = dc.tools.count_codes(NETWORK, sample_codes(theta, n, rng))
    else:
        counts = simulated_counts(theta, n, rng)
    return dc.simulate(make(), counts, PRIOR, promise, rng=rng)


def held(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    lower, upper = dc.tools.credible_interval(draws, LEVEL)
    return (lower <= truth) & (truth <= upper)


READINGS: dict[str, tuple[dc.Dirichlet | None, dc.tools.Method]] = {
    "": (None, "auto"),
    ", its own prior": (PRIOR, "pooled"),
}
"""Noisy tables are read with a prior that is learned from them, or with the Dirichlet rows that the truth is of."""
READ = [
    pytest.param(kind, relation, reading, id=f"{kind}{reading}-{relation}", marks=often(kind, relation))
    for kind in KINDS
    for relation in dc.tools.RECORD_RELATIONS
    for reading in (READINGS if kind in COUNTS else ("",))
    if not (kind == "allocated, sampled" and relation is dc.Relation.REPLACE)
]


def coverage(
    kind: str, relation: str, epsilon: float, n: int, replications: int, draws: int, reading: str
) -> tuple[np.ndarray, np.ndarray]:
    """Share of intervals that hold a truth drawn from the prior, in each replication: of entries and of marginals."""
    entries, margins = [], []
    seed = [n, round(10 * epsilon), relation == dc.Relation.REPLACE, sum(map(ord, kind))]
    for rng in np.random.default_rng(seed).spawn(replications):
        theta = PRIOR.draw(1, rng=rng)
        truth = one(theta)
        release = simulated(kind, relation, epsilon, n, truth, rng)
        prior, method = READINGS[reading]
        cells = dc.noise_aware(release, draws=draws, rng=rng, prior=prior, method=method).probabilities
        entries.append(np.mean(np.concatenate([held(cells[node], truth[node]).ravel() for node in NETWORK.nodes])))
        exact, found = Laws(theta).marginals(), Laws(cells).marginals()
        margins.append(np.mean(np.concatenate([held(found[node], exact[node][:, 0]) for node in NETWORK.nodes])))
    return np.array(entries), np.array(margins)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1, 3])
@pytest.mark.parametrize(("kind", "relation", "reading"), READ)
def test_intervals_of_every_payload_are_calibrated(kind: str, relation: str, reading: str, epsilon: float) -> None:
    """Between 93 and 97.5 % of entries, and at least 93 % of marginals, give or take four standard errors.

    Marginals of sampled parameters may be held too often: their entries are nearly unknown, and averaging them is not
    wrong but cautious where the number of records is private.
    """
    replications = 80 if kind in COUNTS else 10  # a posterior of released draws takes seconds
    entries, margins = coverage(kind, relation, epsilon, 2000, replications, 400, reading)
    errors = [rates.std() / np.sqrt(replications) for rates in (entries, margins)]
    print(
        f"\n{kind + reading:30s} {relation:10s} epsilon {epsilon:3.1f}  entries {entries.mean():.4f} +- {errors[0]:.4f}"
        f"  marginals {margins.mean():.4f} +- {errors[1]:.4f}"
    )
    assert 0.93 - 4 * errors[0] <= entries.mean() <= 0.975 + 4 * errors[0]
    assert margins.mean() >= 0.93 - 4 * errors[1]


@pytest.mark.costly("Intervals that miss show over posteriors of each kind of payload, for many data sets.")
@pytest.mark.parametrize(("kind", "relation", "reading"), READ)
def test_intervals_are_not_far_off(kind: str, relation: str, reading: str) -> None:
    """A smoke test: of 16 to 128 intervals, far more than the third that the plug-in holds; seeds are fixed."""
    nodes = quick(kind)
    found = []
    for rng in np.random.default_rng(12).spawn(4 if kind in COUNTS else 2):
        truth = one(PRIOR.draw(1, rng=rng))
        release = simulated(kind, relation, 0.3, 500, truth, rng)
        prior, method = READINGS[reading]
        cells = dc.noise_aware(release, draws=200, rng=rng, prior=prior, method=method).probabilities
        found += [held(cells[node], truth[node]).ravel() for node in nodes]
    assert np.mean(np.concatenate(found)) > 0.8


# ------------------------------------------------------------------------------------------------- round trips


@pytest.mark.costly("What a document loses shows in the posterior of each kind of payload.")
@pytest.mark.parametrize(("kind", "relation"), CELLS)
def test_a_release_that_was_written_and_read_has_the_same_posterior(kind: str, relation: str) -> None:
    rng = np.random.default_rng(4)
    made = simulated(kind, relation, 1, 300, one(PRIOR.draw(1, rng=rng)), rng)
    read = dc.Release.loads(made.dumps())
    assert read.dumps() == made.dumps()
    for read_with in (dc.noise_aware, dc.tools.plug_in):
        first, second = (read_with(each, draws=20, rng=np.random.default_rng(5)).probabilities for each in (made, read))
        for node in quick(kind):
            np.testing.assert_array_equal(first[node], second[node])


def choice() -> dc.Release:
    rng = np.random.default_rng(1)
    candidates = [one(PRIOR.draw(1, rng=rng)) for _ in range(3)]
    candidates = [part.map(lambda table: 0.9 * table + 0.1 / table.shape[-1]) for part in candidates]
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    return dc.simulate(
        dc.research.map_estimate(candidates), simulated_counts(candidates[1], 500, rng), PRIOR, promise, rng=rng
    )  # fmt: skip


def test_a_choice_is_read_as_it_is_by_the_plug_in_and_again_by_its_likelihood() -> None:
    made = choice()
    read = dc.Release.loads(made.dumps())
    assert isinstance(read.payload, dc.research.Choice) and isinstance(made.payload, dc.research.Choice)
    assert read.dumps() == made.dumps()
    cells = dc.tools.plug_in(read, draws=3, rng=np.random.default_rng(0)).probabilities
    chosen = made.payload.candidates[made.payload.index]
    for node in NETWORK.nodes:
        np.testing.assert_allclose(cells[node], np.repeat(chosen[node][..., None], 3, axis=-1), atol=1e-15)
    first, second = (dc.noise_aware(each, draws=3, rng=np.random.default_rng(0)).probabilities for each in (made, read))
    for node in NETWORK.nodes:
        np.testing.assert_array_equal(first[node], second[node])


# ------------------------------------------------------------------------------------------------- the plug-in


def expected_counts(release: dc.Release) -> dict[str, np.ndarray]:
    """What the plug-in takes for counts."""
    payload = release.payload
    match payload:
        case dc.kinds.NoisyCounts():
            return {node: payload.table(node) for node in NETWORK.nodes}
        case dc.kinds.NoisyTables():
            noisy = read_tables(NETWORK, payload.measurements)
            fit = fit_nonnegative(noisy, max(least_squares(noisy, release.records).total[0], 1.0))
            return {
                node: margin(
                    *next((fit.tables[s][..., 0], s) for s in fit.tables if set(NETWORK.family(node)) <= set(s)),
                    NETWORK.family(node),
                )
                for node in NETWORK.nodes
            }
        case dc.research.NoisyCoefficients():
            unshifted = {**payload.components, (): payload.components[()] - payload.shift}
            return dict(family_tables(NETWORK, unshifted))
        case dc.research.TwoStageCounts():
            margins = pooled_margins(NETWORK, payload.measurements, release.records)
            return {node: margins.table(NETWORK.family(node)) for node in NETWORK.nodes}
    raise AssertionError


@pytest.mark.parametrize("kind", COUNTS)
def test_the_plug_in_takes_noisy_counts_for_counts(kind: str) -> None:
    """Means of Dirichlet(alpha + max(z, 0)): 32 of 4,000 draws within 7 standard errors, below 1e-10."""
    rng = np.random.default_rng(6)
    made = simulated(kind, "add-remove", 0.5, 300, one(PRIOR.draw(1, rng=rng)), rng)
    cells = dc.tools.plug_in(made, draws=4000, rng=rng).probabilities
    for node, table in expected_counts(made).items():
        alpha = PRIOR.alpha[node] + np.maximum(table, 0)
        mean = alpha / alpha.sum(axis=-1, keepdims=True)
        error = np.sqrt(mean * (1 - mean) / (alpha.sum(axis=-1, keepdims=True) + 1) / 4000)
        assert np.all(np.abs(cells[node].mean(axis=-1) - mean) < 7 * error + 1e-12)


@pytest.mark.parametrize("kind", ["posterior_sampler, two draws", "posterior_sampler, delta", "map_estimate"])
def test_the_plug_in_takes_released_draws_as_they_are(kind: str) -> None:
    rng = np.random.default_rng(7)
    made = simulated(kind, "replace", 1, 300, one(PRIOR.draw(1, rng=rng)), rng)
    assert isinstance(made.payload, dc.research.ParameterDraws)
    cells = dc.tools.plug_in(made, draws=200, rng=rng).probabilities
    told = made.payload.cells
    # Draws of all nodes stay together: the same one in every family.
    matches = np.ones((200, told.draws or 1), bool)
    for node in NETWORK.nodes:
        gaps = np.abs(cells[node][..., :, None] - told[node][..., None, :]).reshape(-1, *matches.shape)
        matches &= gaps.max(axis=0) < 1e-6
        np.testing.assert_allclose(cells[node].sum(axis=-2), 1, atol=1e-12)
    assert np.all(matches.sum(axis=1) >= 1) and np.all(matches.any(axis=0))


# ------------------------------------------------------------------------------------ derived families, by enumeration

PAIR = network_of({"a": 2, "b": 2}, "a>b")


def joint_posterior(z: np.ndarray, scale: float, records: int | None, top: int) -> list[tuple[float, float]]:
    """Means and deviations of theta_a and of both rows of theta_b, from all tables of counts together."""
    grid, a = np.arange(top + 1), 0.25
    log_cells = -np.abs(grid - z.reshape(4, 1)) / scale + gammaln(grid + a) - gammaln(grid + 1)
    size = 2 * top + 1
    totals = grid[:, None] + grid
    rows, by_total = [], []
    for j in range(2):
        logs = log_cells[2 * j][:, None] + log_cells[2 * j + 1] + gammaln(totals + 1) - gammaln(totals + 2 * a)
        rows.append(logs)
        by_total.append(np.array([np.logaddexp.reduce(logs[totals == total]) for total in range(size)]))
    n = np.arange(size)
    weight = gammaln(n + a) - gammaln(n + 1)
    both = n[:, None] + n
    joint = (by_total[0] + weight)[:, None] + by_total[1] + weight + gammaln(both + 1) - gammaln(both + 2 * a)
    if records is not None:
        joint = np.where(both == records, joint, -np.inf)
    joint = np.exp(joint - joint.max())
    joint /= joint.sum()

    def moments(weights: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
        total = first + second
        mean = np.sum(weights * first / total)
        square = np.sum(weights * first * (first + 1) / (total * (total + 1)))
        return float(mean), float(np.sqrt(square - mean**2))

    found = [moments(joint, n[:, None] + a, n[None, :] + a)]
    for j, law in enumerate((joint.sum(axis=1), joint.sum(axis=0))):
        weights = np.exp(rows[j] - by_total[j][totals]) * law[totals]
        found.append(moments(weights, grid[:, None] + a, grid[None, :] + a))
    return found


@pytest.mark.parametrize("records", [47, None])
@pytest.mark.parametrize(
    ("z", "scale"),
    [((20, 10, 5, 12), 2.0), ((20, 10, 5, 12), 0.3), ((40, 6, 1, 0), 1.0), ((15, 25, -2, 7), 4.0)],
)
def test_a_family_read_from_anothers_table_is_nearly_exact(
    z: tuple[int, ...], scale: float, records: int | None
) -> None:
    """Means within a third of a deviation of the joint posterior's, deviations from a tenth narrower to 45 % wider.

    Rows are drawn one by one, so what one row says of the other's total is left out. Where the number of records is
    private each row's total is flat by itself, which favours large ones: up to a quarter narrower in rows below
    the noise.
    """
    narrowest = 0.75 if records is None else 0.9
    table = np.array(z).reshape(2, 2)
    made = noisy_release(dc.Dirichlet.uniform(PAIR), {"b": table}, scale, records)
    cells = dc.noise_aware(
        made, draws=4000, rng=np.random.default_rng(9), prior=made.prior, method="pooled"
    ).probabilities
    exact = joint_posterior(table, scale, records, 75)
    for (mean, deviation), draws in zip(exact, (cells["a"][0], cells["b"][0, 0], cells["b"][1, 0]), strict=True):
        assert abs(draws.mean() - mean) < deviation / 3
        assert narrowest * deviation < draws.std() < 1.45 * deviation


def test_the_sampling_probability_is_kept_exactly() -> None:
    rng = np.random.default_rng(2)
    made = simulated("allocated, sampled", "add-remove", 1, 100, one(PRIOR.draw(1, rng=rng)), rng)
    read = dc.Release.loads(made.dumps()).payload
    assert isinstance(read, dc.research.TwoStageCounts) and read.sampling == Fraction(3, 10)
