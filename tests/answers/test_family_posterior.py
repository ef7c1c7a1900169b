"""The posterior of a family's parameters: against the sum over all data sets, and its coverage over the prior."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.special import gammaln, log_softmax, logsumexp
from scipy.stats import binom, kstest

import discreet as dc
from discreet.research.scores.score_tables import SCORE_STEPS

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
SMALL = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 4), 3),), {"low": 0.2, "high": 3}, 7)
WAITS = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 4), 32),), {"low": 0.3, "high": 4}, 128)
READINGS = dc.research.Family(
    "normal", (dc.Variable.binned("x", (-4, 4), 32),), {"low": 0.3, "high": 4, "mean_low": -1, "mean_high": 1}, 144
)


def promise(epsilon: object, relation: dc.Relation = REPLACE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def made(
    family: dc.research.Family, codes: np.ndarray, asked: dc.Guarantee, draws: int, rng: np.random.Generator
) -> dc.Release:
    counts = dc.tools.count_codes(family.network, {"x": codes}, scopes=())
    return dc.simulate(dc.research.sampled(family, draws), counts, dc.Dirichlet.uniform(family.network), asked, rng=rng)


def by_hand(release: dc.Release, records: int) -> np.ndarray:
    """Weights of the grid's points: the sum over all histograms of the records."""
    payload = release.payload
    table = SMALL.table
    logs = np.full(table.size, -np.inf)
    for part in combinations_with_replacement(range(3), records):
        counts = np.bincount(part, minlength=3)
        chance = gammaln(records + 1) - gammaln(counts + 1).sum() + counts @ np.log(table.law)
        law = log_softmax(table.base + payload.rate / SCORE_STEPS * (counts @ table.steps))
        logs = np.logaddexp(logs, chance + law[payload.indices].sum())
    logs += table.base
    return np.asarray(np.exp(logs - logsumexp(logs)))


@pytest.mark.parametrize("draws", [1, 4])
def test_the_posterior_is_the_sum_over_all_data_sets(draws: int) -> None:
    """Shares of 20,000 draws, each within five of its deviations (weights make draws worth less: `effective`)."""
    rng = np.random.default_rng(7)
    release = made(SMALL, np.array([0, 0, 0, 1, 0, 2, 0, 0]), promise(3), draws, rng)
    exact = by_hand(release, 8)
    posterior = dc.read(release, method="parameters", draws=20_000, rng=rng)
    share = np.bincount(posterior.index, minlength=7) / 20_000
    assert posterior.ess() > 5000
    deviation = np.sqrt(exact * (1 - exact) * (1 / posterior.ess() + 1 / 20_000))
    assert np.all(np.abs(share - exact) < 6 * deviation + 1e-4)
    prior = np.exp(SMALL.table.base - logsumexp(SMALL.table.base))
    assert np.abs(exact - prior).max() > 0.02  # the draws say something


@pytest.mark.costly("A posterior of a family that is too narrow shows in ranks over many data sets.")
@pytest.mark.parametrize(
    ("family", "records", "epsilon", "draws", "relation"),
    [
        (WAITS, 30, "0.1", 1, ADD_REMOVE),
        (WAITS, 300, "1", 3, ADD_REMOVE),
        (WAITS, 300, "3", 1, REPLACE),
        (READINGS, 300, "3", 2, ADD_REMOVE),
    ],
)
def test_ranks_of_the_truth_are_uniform_and_intervals_cover(
    family: dc.research.Family, records: int, epsilon: str, draws: int, relation: dc.Relation
) -> None:
    """The truth is from the prior, records from the truth: ranks by Kolmogorov and Smirnov, false alarms below 1e-7."""
    rng, table, runs = np.random.default_rng([records, draws, int(float(epsilon) * 10)]), family.table, 40
    prior = np.exp(table.base - logsumexp(table.base))
    ranks: list[float] = []
    inside = 0
    for _ in range(runs):
        truth = int(rng.choice(table.size, p=prior))
        release = made(
            family, rng.choice(len(table.law), records, p=table.law[:, truth]), promise(epsilon, relation), draws, rng
        )
        posterior = dc.read(release, method="parameters", draws=400, rng=rng)
        value, drawn = table.candidates[truth, -1], posterior.parameters[:, -1]
        ranks.append(float(np.mean(drawn < value) + rng.random() * np.mean(drawn == value)))
        row = posterior.rows(level=0.9)[-1]
        inside += float(row["lower"]) <= value <= float(row["upper"])
    assert kstest(ranks, "uniform").pvalue > 1e-7
    assert binom.cdf(inside, runs, 0.9) > 1e-7


def test_more_draws_and_more_budget_tell_more() -> None:
    widths = []
    for epsilon in ("0.1", "1", "20"):
        rng = np.random.default_rng(3)
        codes = rng.choice(32, 3000, p=WAITS.table.law[:, 64])
        row = dc.read(made(WAITS, codes, promise(epsilon), 1, rng), method="parameters", draws=1000, rng=rng).rows(
            level=0.95
        )[0]
        widths.append(float(row["upper"]) - float(row["lower"]))
    assert widths[0] > widths[1] > widths[2] > 0


def test_answers_about_the_variable_follow_the_parameters() -> None:
    rng = np.random.default_rng(5)
    release = made(WAITS, rng.choice(32, 3000, p=WAITS.table.law[:, 64]), promise(5), 1, rng)
    posterior = dc.noise_aware(release, draws=500, rng=rng)
    assert posterior.method == "family"
    assert posterior.probabilities["x"].sum(axis=0) == pytest.approx(np.ones(500))
    truth = WAITS.table.law[:, 64]
    lower, upper = dc.tools.credible_interval(posterior.probabilities["x"], 0.999)
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.5
    plugged = dc.tools.plug_in(release, draws=3, rng=rng).probabilities["x"]
    assert plugged[:, 0] == pytest.approx(WAITS.table.law[:, release.payload.indices[0]])


@pytest.mark.parametrize(
    ("release", "draws", "why"),
    [("laplace", 10, "cannot read this evidence"), ("family", 0, "at least one draw")],
)
def test_what_is_no_family_is_refused(release: str, draws: int, why: str) -> None:
    rng = np.random.default_rng(1)
    if release == "family":
        given = made(SMALL, np.zeros(3, int), promise(1), 1, rng)
    else:
        counts = dc.tools.count_codes(SMALL.network, {"x": np.zeros(3, int)}, scopes=())
        given = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(SMALL.network), promise(1), rng=rng)
    with pytest.raises(dc.InputError, match=why):
        dc.read(given, method="parameters", draws=draws, rng=rng)


# ------------------------------------------------------------------------------------------- several pieces of evidence


def grid_weights(logs: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(logs - logsumexp(logs)))


def log_told(release: dc.Release, records: int) -> np.ndarray:
    """`ln p(draws | k)` of every point of the grid, without its prior: the sum over all histograms of the records."""
    base = SMALL.table.base
    return np.asarray(np.log(by_hand(release, records)) - base + logsumexp(base))


def shares(evidence: dc.results.Combined, seed: int = 3) -> tuple[np.ndarray, float]:
    posterior = dc.read(evidence, method="parameters", draws=20_000, rng=np.random.default_rng(seed))
    return np.bincount(posterior.index, minlength=7) / 20_000, posterior.ess()


def two(data: str) -> tuple[dc.Release, dc.Release]:
    rng = np.random.default_rng(len(data))
    one = made(SMALL, np.array([0, 0, 0, 1, 0, 2, 0, 0]), promise(3), 2, rng)
    codes = np.array([0, 0, 0, 1, 0, 2, 0, 0] if data == "same" else [1, 0, 2, 0, 1, 1])
    return one, made(SMALL, codes, promise(2), 1, rng)


def off(share: np.ndarray, exact: np.ndarray, effective: float) -> float:
    """The largest deviation in standard errors: above 6 less than once in 10^8."""
    return float(np.max(np.abs(share - exact) / (np.sqrt(exact * (1 - exact) * (1 / effective + 1 / 20_000)) + 1e-5)))


def test_different_data_sets_of_one_family_multiply() -> None:
    one, other = two("different")
    exact = grid_weights(SMALL.table.base + log_told(one, 8) + log_told(other, 6))
    share, effective = shares(dc.combine(one, other, data="different"))
    assert off(share, exact, effective) < 6
    assert off(share, by_hand(other, 6), effective) > 6


def test_two_releases_of_the_same_records_share_the_records() -> None:
    one, other = two("same")
    logs = np.full(SMALL.table.size, -np.inf)
    table = SMALL.table
    for part in combinations_with_replacement(range(3), 8):
        counts = np.bincount(part, minlength=3)
        chance = gammaln(9) - gammaln(counts + 1).sum() + counts @ np.log(table.law)
        for release in (one, other):
            payload = release.payload
            law = log_softmax(table.base + payload.rate / SCORE_STEPS * (counts @ table.steps))
            chance = chance + law[payload.indices].sum()
        logs = np.logaddexp(logs, chance)
    share, effective = shares(dc.combine(one, other, data="same"))
    assert off(share, grid_weights(logs + table.base), effective) < 6
    assert off(share, grid_weights(table.base + log_told(one, 8) + log_told(other, 8)), effective) > 4


def test_public_records_count_as_they_are() -> None:
    one, _ = two("same")
    public = np.array([40, 7, 3])
    counts = dc.Tables(SMALL.network, {"x": public})
    evidence = dc.combine(one, data="different", public=counts)
    exact = grid_weights(SMALL.table.base + public @ np.log(SMALL.table.law) + log_told(one, 8))
    share, effective = shares(evidence)
    assert off(share, exact, effective) < 6
    assert off(share, by_hand(one, 8), effective) > 6
    drawn = dc.noise_aware(evidence, draws=4000, rng=np.random.default_rng(1))
    assert drawn.method == "family"
    assert np.max(np.abs(drawn.mean()["x"] - SMALL.table.law @ exact)) < 0.01


def test_a_family_beside_tables_of_other_records_is_read_by_its_types() -> None:
    """The tables of 5,000 records say more than one vague draw, in either order."""
    rng = np.random.default_rng(2)
    vague = made(SMALL, rng.integers(0, 3, 20), promise("0.1", ADD_REMOVE), 1, rng)
    counts = dc.tools.count_codes(SMALL.network, {"x": np.repeat([0, 1, 2], [1000, 1500, 2500])}, ())
    tables = dc.simulate(
        dc.laplace(), counts, dc.Dirichlet.uniform(SMALL.network, 1.0), promise(10, ADD_REMOVE), rng=rng
    )
    for parts in ((vague, tables), (tables, vague)):
        evidence = dc.combine(*parts, data="different")
        prior = dc.Dirichlet.uniform(SMALL.network, 1.0)
        posterior = dc.noise_aware(evidence, draws=1000, rng=rng, prior=prior)
        assert posterior.method == "sequential"
        assert np.max(np.abs(posterior.mean()["x"] - [0.2, 0.3, 0.5])) < 0.05


@pytest.mark.costly("Only particles of two families at once have to forget where they began.")
def test_two_families_of_one_data_set_are_read_by_their_types() -> None:
    """With a prior of all bins alike, which knows no family: moves go on until the particles have forgotten theirs."""
    rng = np.random.default_rng(4)
    wait = dc.Variable.binned("x", (0, 60), 40)
    families = [dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 1}, points) for points in (32, 33)]
    codes = np.minimum(rng.exponential(10, 1000) / 1.5, 39).astype(int)
    releases = [made(family, codes, promise(3), 1, rng) for family in families]
    posterior = dc.noise_aware(dc.combine(*releases, data="same"), draws=400, rng=rng)
    early = posterior.probabilities["x"][:7].sum(axis=0)
    low, high = np.quantile(early, [0.005, 0.995])
    assert low < np.mean(codes < 7) < high
    assert high - low < 0.6
