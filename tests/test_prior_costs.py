"""What an explanation says that choices, trimming and another prior cost: by hand, and against exact laws."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import beta, dirichlet

import discreet as dc
from discreet.reporting.explain import best_distance, least_guess_error, prior_range, range_distance
from shell import RELEASE as RELEASE_ASIA
from shell import Shell, opened

STEP = 2**20
PLAIN = dc.Guarantee(epsilon=20, delta=0, relation="replace", unit="record")
TWO = dc.Network.empty([dc.Variable("a", ("n", "y")), dc.Variable("b", ("p", "q", "r"))])
COIN = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])


def drawn(floor: float | None = 0.05, temper: float | None = 1.0, delta: float = 0.0) -> dc.Release:
    rng = np.random.default_rng(3)
    counts = dc.tools.count_codes(TWO, {"a": rng.integers(0, 2, 200), "b": rng.integers(0, 3, 200)})
    promise = dc.Guarantee(epsilon=20, delta=delta, relation="replace", unit="record")
    mechanism = dc.research.posterior_sampler(temper=temper, floor=floor)
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(TWO, 1.0), promise, rng=1)


# -------------------------------------------------------------------------------------------------- Le Cam, Lemma 18


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.7, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_the_least_error_of_a_guess_is_the_largest_bound(epsilon: float, delta: float) -> None:
    """Over k up to 1,000 by the definitions: TV of (k epsilon, delta_k), which is 1 where delta_k is above 1."""
    bounds = []
    for k in range(1, 1000):
        lost = delta * sum(math.exp(min(j * epsilon, 300)) for j in range(k))
        bounds.append(0.0 if lost >= 1 else k / 2 * (1 - best_distance(k * epsilon, lost)))
    assert least_guess_error(epsilon, delta) == pytest.approx(max(bounds))


def test_who_guesses_from_one_noisy_bit_errs_as_much_as_is_said() -> None:
    """Randomised response of one record, epsilon 1: the best guess errs with probability 1 / (1 + e)."""
    assert least_guess_error(1.0, 0.0) == pytest.approx(1 / (1 + math.e))


# ------------------------------------------------------------------------------------- another prior: Lemmas 14 and 15


@given(st.integers(2, 4), st.floats(0.02, 0.24), st.integers(0, 2**32 - 1))
def test_the_range_of_two_priors_is_exact(size: int, floor: float, seed: int) -> None:
    """Against a fine lattice of the trimmed simplex, which it exceeds by little, and every corner of it."""
    change = np.random.default_rng(seed).normal(size=size)
    steps = 24
    points = np.array([row for row in product(range(steps + 1), repeat=size) if sum(row) == steps])
    sums = np.log(floor + (1 - size * floor) * points / steps) @ change
    found = prior_range(change, floor)
    assert np.ptp(sums) <= found * (1 + 1e-9)
    assert found <= np.ptp(sums) + 0.35 * np.abs(change).sum()


def test_ranges_by_hand() -> None:
    """Two states, floor 1/4: c = (1, 0) gives ln 3; (-1, 0) as much; one row alone, or no change, none."""
    assert prior_range([1.0, 0.0], 0.25) == pytest.approx(math.log(3))
    assert prior_range([-1.0, 0.0], 0.25) == pytest.approx(math.log(3))
    assert prior_range([1.0, -1.0], 0.25) == pytest.approx(2 * math.log(3))
    assert prior_range([1.0, 1.0], 0.25) == pytest.approx(math.log(0.25 / (0.25 * 0.75)))
    assert (prior_range([1.0, 0.0], 0.5), prior_range([0.0, 0.0], 0.0), prior_range([0.0, 1.0], 0.0)) == (
        0,
        0,
        math.inf,
    )


def test_laws_of_trimmed_draws_are_as_near_as_is_said() -> None:
    """A coin's draw on a grid of 65 points under priors (1, 1) and (2, 1.5): within the bound, and near it for some."""
    bound = range_distance(prior_range([1.0, 0.5], 0.05))
    grid = np.log([0.05 + 0.9 * np.arange(65) / 64, 0.95 - 0.9 * np.arange(65) / 64])
    shares = []
    for counts in ([0, 0], [3, 0], [0, 8], [40, 40]):
        laws = [softmax((np.array(prior) + counts - 1) @ grid) for prior in ([1.0, 1.0], [2.0, 1.5])]
        shares.append(float(np.abs(laws[0] - laws[1]).sum() / 2 / bound))
    assert 0.4 < max(shares) <= 1


def test_an_explanation_of_draws_by_hand() -> None:
    """Prior 1 for 3/2, floor 1/20: rows range over .830 and 1.400 nats; outside `1 - .9 (1 - 3 (1 - .95^2))`."""
    reach = dc.explain(drawn(), prior=dc.Dirichlet.uniform(TWO, 1.5)).reach
    coin = 0.5 * math.log(0.25 / (0.05 * 0.95))
    die = 0.5 * math.log((1 / 27) / (0.05 * 0.05 * 0.9))
    assert reach.log_range == pytest.approx(coin + die)
    assert reach.distance == pytest.approx(math.tanh((coin + die) / 4))
    assert reach.outside == pytest.approx(1 - 0.9 * (1 - 3 * (1 - 0.95**2)))
    inside = dirichlet.rvs([1, 1, 1], 200_000, np.random.default_rng(4)).min(axis=1) >= 0.05
    # 200,000 rows: six deviations are .006; the bound for rows of more than two states is a little above.
    assert 1 - 0.9 * inside.mean() <= reach.outside + 0.006 < 1 - 0.9 * inside.mean() + 0.03
    assert not reach.unbounded and dc.explain(drawn()).reach.log_range is None
    lines = "\n".join(reach.lines())
    assert "trimming leaves out 36 % of the prior" in lines and "ranges over 2.23 nats" in lines


def test_trimming_loses_the_priors_mass_on_average() -> None:
    """Theorem 17(b): over the prior predictive of 5 tosses, posterior masses outside average to the prior's."""
    ones = np.arange(6)
    outside = 1 - (beta.cdf(0.95, 1 + ones, 6 - ones) - beta.cdf(0.05, 1 + ones, 6 - ones))
    assert outside.mean() == pytest.approx(0.1)  # a uniform prior makes every number of ones as probable


def test_no_bound_is_made_where_there_is_none() -> None:
    own = dc.Dirichlet.uniform(TWO, 1.5)
    untrimmed = dc.explain(drawn(floor=None, temper=None, delta=1e-6), prior=own)
    assert untrimmed.reach.unbounded and untrimmed.reach.outside is None and untrimmed.reach.distance is None
    assert "has no bound" in str(untrimmed)
    json.dumps(untrimmed.document(), allow_nan=False)
    same = dc.explain(drawn(floor=None, temper=None, delta=1e-6), prior=dc.Dirichlet.uniform(TWO, 1.0)).reach
    assert not same.unbounded and same.distance == 0
    assert dc.explain(drawn(floor=0.3, temper=0.5)).reach.outside is None  # counts were tempered
    with pytest.raises(dc.InputError, match="the prior is over another network"):
        dc.explain(drawn(), prior=dc.Dirichlet.uniform(COIN))


# ---------------------------------------------------------------------------------------- answers under a prior of mine


def test_a_decision_by_the_first_answer_loses_the_distance_of_the_means() -> None:
    """Lemma 14 with the L1 distance: the best payoffs of two states by m, judged by m*, for all payoffs of a grid."""
    counts = dc.tools.count_codes(COIN, {"coin": [0] * 6 + [1] * 2})
    promise = dc.Guarantee(epsilon=2, delta=0, relation="replace", unit="record")
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(COIN, 1.0), promise, rng=1)
    own = dc.Dirichlet(dc.Tables(COIN, {"coin": [1.0, 9.0]}))
    told = dc.explain(made, ["P(coin)", "P(coin=heads)"], prior=own, rng=2, draws=400)
    first, yours = (
        next(each for each in told.priors if each.prior == name) for name in (told.priors[0].prior, "yours")
    )
    m, star = (np.array([row["mean"] for row in each.rows]) for each in (first, yours))
    assert first.regret == 0 and yours.regret == pytest.approx(np.abs(m - star).sum()) and yours.regret > 0.2
    one_state = next(each for each in told.priors if each.prior == "yours" and each.query == "P(coin=heads)")
    assert one_state.regret == pytest.approx(yours.regret, abs=0.1)
    assert one_state.regret == pytest.approx(2 * abs(one_state.rows[0]["mean"] - told_first(told, "P(coin=heads)")))
    worst = 0.0
    for payoffs in product((0.0, 0.25, 0.5, 0.75, 1.0), repeat=4):
        table = np.array(payoffs).reshape(2, 2)
        worst = max(worst, float((table @ star).max() - table[(table @ m).argmax()] @ star))
    assert 0.3 * yours.regret < worst <= yours.regret
    assert f"loses {yours.regret:.3g} of a payoff's range at most" in str(told)


def told_first(told: dc.results.Explanation, query: str) -> float:
    return float(next(each for each in told.priors if each.query == query).rows[0]["mean"])  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------- choices: Z's Lemma 4


def score(*base: float) -> dc.research.ScoreTable:
    steps = [[STEP, 0, STEP // 2], [0, STEP, STEP // 2]]
    return dc.research.ScoreTable(COIN, ("side",), [[0], [1], [2]], list(base), steps)


@pytest.mark.parametrize("heads", [0, 3, 4, 5, 8, 20])
def test_a_choice_is_as_near_the_best_as_is_said(heads: int) -> None:
    """Base masses 1/4, 1/4, 1/2, two draws: `ln(.75 * 2 / .05) + ln 4` nats, and exact chances of worse ones."""
    table = score(0.0, 0.0, math.log(2))
    promise = dc.Guarantee(epsilon=4, delta=0, relation="replace", unit="record")
    counts = dc.tools.count_codes(COIN, {"coin": [0] * heads + [1] * (20 - heads)}, (("coin",),))
    made = dc.simulate(dc.research.scored(table, draws=2), counts, dc.Dirichlet.uniform(COIN), promise, rng=heads)
    reach = dc.explain(made).reach
    assert reach.shortfall == pytest.approx(math.log(0.75 * 2 / 0.05) + math.log(4))
    rate = made.payload_as(dc.research.ScoredChoice).rate
    assert reach.in_records == pytest.approx(reach.shortfall / rate)
    exponent = rate * np.array([heads, 20 - heads, 10])
    weights = np.array([0.25, 0.25, 0.5]) * np.exp(exponent - exponent.max())
    far = exponent <= exponent.max() - reach.shortfall
    assert 1 - (1 - (weights / weights.sum())[far].sum()) ** 2 <= 0.05
    assert f"at most {reach.shortfall:.3g} nats below that of the best," in "\n".join(reach.lines())


def test_the_bound_of_a_choice_is_nearly_attained() -> None:
    """A best candidate of mass m, all others s below it: `(1 - m) e^-s / m` but for the best one's own weight."""
    m, s = 0.01, math.log(0.99 / (0.01 * 0.05))
    far = (1 - m) * math.exp(-s) / (m + (1 - m) * math.exp(-s))
    assert 0.9 * 0.05 < far <= 0.05


def test_releases_of_tables_say_nothing_of_choices_and_draws() -> None:
    counts = dc.tools.count_codes(COIN, {"coin": [0, 1]})
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(COIN), PLAIN, rng=1)
    told = dc.explain(made, prior=dc.Dirichlet.uniform(COIN, 3.0))
    assert list(told.reach.lines()) == [] and "What the mechanism and the prior cost" not in str(told)


@pytest.fixture
def run(tmp_path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:  # type: ignore[no-untyped-def]
    shell = opened(tmp_path, monkeypatch, capfd)
    shell.json(RELEASE_ASIA)
    return shell


def test_the_command_takes_a_prior(run: Shell) -> None:
    document = run.json("explain r.json P(lung) --prior 30 --draws 200")
    assert [each["prior"] for each in document["priors"]][1] == "yours"
    assert document["priors"][1]["regret"] > 0
    code, out, _ = run("explain r.json P(lung) --prior 30 --draws 200")
    assert code == 0 and "who believes it and decides by the first loses" in out
