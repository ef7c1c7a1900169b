"""Decisions against direct computation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betainc

import discreet as dc
from discreet.posterior.joint_draws import Source
from folding import every
from releases import guarantee, simulated, simulated_counts
from tiny import network_of

NETWORK = network_of({"a": 2, "b": 3}, "a>b")
TABLE = {"treat": {"s0": 0.9, "s1": 0.3, "s2": 0.2}, "wait": {"s0": 0.1, "s1": 0.5, "s2": 1.0}}


def posterior(draws: int = 500, seed: int = 1) -> dc.results.PosteriorDraws:
    return dc.results.PosteriorDraws(dc.Dirichlet.uniform(NETWORK, 2.0).draw(draws, rng=np.random.default_rng(seed)))


def test_a_decision_is_the_largest_mean_payoff() -> None:
    made = posterior()
    decision = dc.decide(
        made, dc.decisions.payoff(NETWORK, "P(b | a=s1)", TABLE), ["treat", "wait"], level=0.9, queries=7
    )
    theta = made.probabilities["b"][1]
    values = {name: theta.T @ [row["s0"], row["s1"], row["s2"]] for name, row in TABLE.items()}
    assert decision.response == max(values, key=lambda name: values[name].mean())
    best = np.array([values["treat"] >= values["wait"], values["treat"] < values["wait"]]).mean(axis=1)
    for row, share in zip(decision.rows, best, strict=True):
        draws = values[row["response"]]
        assert row["mean"] == pytest.approx(draws.mean())
        assert [row["lower"], row["upper"]] == pytest.approx(np.quantile(draws, [0.05, 0.95]))
        assert row["best"] == pytest.approx(share)
    assert decision.level == 0.9
    # Lemma 11 with the union over responses and queries.
    assert decision.regret == pytest.approx(2 * math.sqrt(math.log(2 * 7 * 2 / 0.05) / (2 * 500)))


def test_the_mean_decides_and_no_end_of_an_interval() -> None:
    """Six draws of ten are in favour of what may yield nothing; the other yields half in any case."""
    utilities = {"risk": np.repeat([1.0, 0.0], [60, 40]), "safety": np.full(100, 0.5)}
    decision = dc.decide(posterior(100), lambda cells, name: utilities[name], ["safety", "risk"])
    assert decision.response == "risk"


def test_a_payoff_of_a_marginal() -> None:
    made = posterior(50)
    found = dc.decisions.payoff(NETWORK, "P(b)", TABLE)(made.probabilities, "wait")
    exact = np.einsum("as,abs,b->s", made.probabilities["a"], made.probabilities["b"], [0.1, 0.5, 1.0])
    np.testing.assert_allclose(found, exact)


def test_the_first_of_equal_responses() -> None:
    decision = dc.decide(posterior(20), lambda cells, response: np.full(20, 0.5), ["x", "y"])
    assert decision.response == "x"
    assert [row["best"] for row in decision.rows] == [1.0, 0.0]


@every("sure", [(2.0, 2.0), (9.0, 0.2), (0.2, 9.0)])
@every(("low", "high"), [(0.0, 100.0), (-10.0, 10.0), (-5.0, -1.0)])
def test_utilities_in_other_units_scale(low: float, high: float, sure: tuple[float, float]) -> None:
    """Means, intervals and the regret of utilities in money are those of the same in [0, 1], in money.

    Also where the posterior is densest at one end, and the interval is the shortest one.
    """
    network, span = network_of({"b": 2}), high - low
    prior = dc.Dirichlet(dc.Tables(network, {"b": np.array(sure)}))
    made = dc.results.PosteriorDraws(prior.draw(500, rng=np.random.default_rng(4)))
    table = {"treat": {"s0": 1.0, "s1": 0.0}, "wait": {"s0": 0.25, "s1": 0.5}}
    unit = dc.decisions.payoff(network, "P(b)", table)
    plain = dc.decide(made, unit, list(table))
    money = dc.decide(made, lambda cells, name: low + span * unit(cells, name), list(table), bounds=(low, high))
    assert money.response == plain.response
    assert money.regret == pytest.approx(span * plain.regret)
    for one, other in zip(plain.rows, money.rows, strict=True):
        assert other["best"] == one["best"]
        for key in ("mean", "lower", "upper"):
            assert other[key] == pytest.approx(low + span * one[key])


def test_the_regret_never_exceeds_the_range() -> None:
    decision = dc.decide(posterior(3), dc.decisions.payoff(NETWORK, "P(b)", TABLE), list(TABLE), bounds=(-1, 4))
    assert decision.regret == 5.0


def test_the_regret_bound_holds_for_many_queries_at_once() -> None:
    """Ten thresholds on one probability: under Beta(3, 2) the exact utility of "yes" at t is P(theta > t) against 1/2.

    In 200 sets of 60 draws the worst loss over all queries stays below the bound; by the theorem all but 5 % would.
    """
    network = network_of({"x": 2})
    prior = dc.Dirichlet(dc.Tables(network, {"x": np.array([3.0, 2.0])}))
    thresholds = np.linspace(0.3, 0.9, 10)
    held = 0
    for rng in np.random.default_rng(5).spawn(200):
        made = dc.results.PosteriorDraws(prior.draw(60, rng=rng))
        losses, bound = [], 0.0
        for threshold in thresholds:

            def utility(cells: dc.Tables, response: str, threshold: float = threshold) -> np.ndarray:
                return (cells["x"][0] > threshold).astype(float) if response == "yes" else np.full(60, 0.5)

            decision = dc.decide(made, utility, ["yes", "no"], queries=len(thresholds))
            exact = {"yes": 1 - betainc(3, 2, threshold), "no": 0.5}
            losses.append(max(exact.values()) - exact[decision.response])
            bound = decision.regret
        held += max(losses) <= bound
    assert held >= 190


@every(
    ("arguments", "message"),
    [
        ({"responses": []}, "at least one response"),
        ({"bounds": (1.0, 0.0)}, "two different bounds"),
        ({"bounds": (0.0, math.nan)}, "two different bounds"),
        ({"bounds": (0.0, 0.3)}, "outside its bounds 0 to 0.3"),
        ({"queries": 0}, "quer"),
        ({"failure": 0.0}, "."),
        ({"failure": math.nan}, "."),
        ({"level": 1.0}, "level"),
    ],
)
def test_what_is_refused(arguments: dict[str, object], message: str) -> None:
    utility = dc.decisions.payoff(NETWORK, "P(b)", TABLE)
    options: dict[str, object] = {"responses": list(TABLE)} | arguments
    responses = options.pop("responses")
    with pytest.raises(dc.InputError, match=message):
        dc.decide(posterior(20), utility, responses, **options)


def test_utilities_of_another_shape_or_that_are_no_numbers() -> None:
    with pytest.raises(dc.InputError, match="each of the 20 draws"):
        dc.decide(posterior(20), lambda cells, response: np.zeros(19), ["x"])
    with pytest.raises(dc.InputError, match="each of the 20 draws"):
        dc.decide(posterior(20), lambda cells, response: np.zeros(20 if response == "act" else ()), ["act", "abstain"])
    with pytest.raises(dc.InputError, match="not a number"):
        dc.decide(posterior(20), lambda cells, response: np.full(20, math.nan), ["x"])


@every("query", ["P(a, b)", "P(b=s0)", "MAP(b)", "MPE(| b=s0)"])
def test_payoffs_of_other_queries(query: str) -> None:
    with pytest.raises(dc.InputError, match="payoff needs"):
        dc.decisions.payoff(NETWORK, query, TABLE)


@every("states", [{"s0": 1.0}, {"s0": 1.0, "s1": 0.0, "s3": 1.0}])
def test_payoffs_must_name_every_state(states: dict[str, float]) -> None:
    with pytest.raises(dc.InputError, match="'wait' must name every state of 'b' once"):
        dc.decisions.payoff(NETWORK, "P(b)", {"wait": states})


def test_a_sole_response_is_chosen() -> None:
    decision = dc.decide(posterior(20), dc.decisions.payoff(NETWORK, "P(b)", TABLE), ["wait"])
    assert decision.response == "wait" and decision.rows[0]["best"] == 1.0


# ------------------------------------------------------------------------------------ queries chosen after looking


COIN = network_of({"x": 2}, "")
RELEASE = simulated(dc.Tables(COIN, {"x": [0.7, 0.3]}), 100, guarantee(1, "replace"), np.random.default_rng(1))
TOLD = dc.simulate(
    dc.research.posterior_sampler(draws=3),
    simulated_counts(dc.Tables(COIN, {"x": [0.7, 0.3]}), 100, np.random.default_rng(2)),
    RELEASE.prior,
    guarantee(1, "replace"),
    rng=np.random.default_rng(3),
)


def bet_on(seen: dc.Tables) -> Callable[[dc.Tables, str], np.ndarray]:
    """Is theta one of those that were seen (1 if so), or .5 for sure? Worth 0: the posterior is continuous."""
    known = set(seen["x"][0].tolist())

    def utility(cells: dc.Tables, response: str) -> np.ndarray:
        among = np.array([theta in known for theta in cells["x"][0].tolist()], float)
        return among if response == "bet" else np.full(among.shape, 0.5)

    return utility


@pytest.mark.costly("A bound that chosen queries break is found by choosing among many, many times.")
@every("method", ["pooled", "exact", "particles"])
def test_a_query_that_was_chosen_after_looking_is_within_the_bound(method: dc.tools.Method) -> None:
    """The bet on the draws that were seen loses .5, where the bound is .12 for independent draws."""
    evidence = TOLD if method == "particles" else RELEASE
    posterior = dc.noise_aware(evidence, draws=1000, rng=np.random.default_rng(4), prior=RELEASE.prior, method=method)
    for decision in (
        dc.decide(posterior, bet_on(posterior.probabilities), ["bet", "pass"], queries=10) for _ in range(2)
    ):
        assert decision.response == "pass" and decision.fresh
        assert str(decision).endswith("however the query was chosen")
        assert decision.rows[0]["mean"] == 0


def test_nothing_new_is_promised_of_draws_that_are_all_there_are() -> None:
    made = dc.noise_aware(RELEASE, draws=1000, rng=np.random.default_rng(4))
    old = dc.decide(made, bet_on(made.probabilities), ["bet", "pass"], fresh=False)
    assert old.response == "bet" and not old.fresh
    assert str(old).endswith("if it was fixed before the draws were looked at")
    assert not dc.decide(posterior(20), lambda cells, response: np.zeros(20), ["x"]).fresh
    told = dc.tools.plug_in(TOLD, draws=50, rng=np.random.default_rng(0))
    assert not dc.decide(told, lambda cells, response: np.zeros(50), ["x"]).fresh
    with pytest.raises(dc.InputError, match="these draws are all there are"):
        told.fresh()


def test_every_decision_has_draws_of_its_own_and_the_posterior_keeps_its_own() -> None:
    for made in (
        dc.noise_aware(RELEASE, draws=30, rng=np.random.default_rng(4)),
        dc.tools.plug_in(RELEASE, draws=30, rng=np.random.default_rng(4)),
    ):
        before, seen = made.probabilities["x"].copy(), list[np.ndarray]()

        def utility(cells: dc.Tables, response: str, seen: list[np.ndarray] = seen) -> np.ndarray:
            seen.append(cells["x"][0])
            return np.zeros(30)

        for _ in range(3):
            dc.decide(made, utility, ["x"])
        for rng in (7, 7, 8):
            dc.decide(made, utility, ["x"], rng=np.random.default_rng(rng))
        again = made.fresh()
        seen += [again.probabilities["x"][0], again.fresh().probabilities["x"][0], before[0]]
        assert np.array_equal(seen[3], seen[4])
        assert len({draws.tobytes() for draws in seen}) == len(seen) - 1
        np.testing.assert_array_equal(made.probabilities["x"], before)


def test_a_program_that_is_run_again_decides_as_before() -> None:
    payoffs = {"go": {"s0": 1.0, "s1": 0.0}, "stay": {"s0": 0.5, "s1": 0.6}}
    told = [
        [dc.decide(made, dc.decisions.payoff(COIN, "P(x)", payoffs), list(payoffs)).rows for _ in range(2)]
        for made in (dc.noise_aware(RELEASE, draws=50, rng=np.random.default_rng(4)) for _ in range(2))
    ]
    assert told[0] == told[1] and told[0][0] != told[0][1]


def test_what_makes_no_sense_is_refused_before_draws_are_made() -> None:
    def never(rng: np.random.Generator) -> dc.results.PosteriorDraws:
        raise AssertionError

    made = replace(posterior(20), source=Source(never, np.random.default_rng(0)))
    for options, message in (({"failure": 2.0}, "failure"), ({"level": 0.0}, "level"), ({"queries": 0}, "queries")):
        with pytest.raises(dc.InputError, match=message):
            dc.decide(made, dc.decisions.payoff(NETWORK, "P(b)", TABLE), list(TABLE), **options)


# ------------------------------------------------------------------------------------------ draws that depend on others


def test_the_bound_counts_what_draws_of_chains_are_worth() -> None:
    """The fewer of the two: the worst entry's, and the utility's own. An indicator may hardly ever move."""
    rng, length = np.random.default_rng(5), 500
    stuck = np.repeat(rng.random((4, length // 50)) < 0.5, 50, axis=1)
    theta = np.where(stuck, 0.9, 0.1) + rng.uniform(-0.05, 0.05, stuck.shape)
    yes = theta.T.ravel()  # in turn from four chains
    cells = dc.Tables(COIN, {"x": np.stack([1 - yes, yes])}, draws=yes.size)
    mixing = dc.results.Mixing(4, 1000, 400.0, "P(x=s1)", 1.0)
    made = dc.results.PosteriorDraws(cells, "exact", mixing=mixing, find_ess=lambda: 400.0)
    quick = dc.decide(made, lambda cells, response: rng.random(yes.size), ["x"])
    slow = dc.decide(made, lambda cells, response: (cells["x"][1] > 0.5).astype(float), ["x"])
    assert quick.effective == 400
    assert 20 < slow.effective < 100  # 40 blocks
    assert slow.regret == pytest.approx(math.sqrt(2 * math.log(2 / 0.05) / slow.effective))
    apart = dc.results.PosteriorDraws(cells, "exact", mixing=mixing, find_ess=lambda: 10.0)
    assert dc.decide(apart, lambda cells, response: rng.random(yes.size), ["x"]).effective == 10


def test_a_few_draws_of_long_chains_are_worth_their_part() -> None:
    made = dc.noise_aware(RELEASE, draws=40, rng=np.random.default_rng(6), prior=RELEASE.prior, method="exact")
    assert made.mixing is not None
    assert made.ess() == pytest.approx(min(1, made.mixing.effective / 2000) * 40)


def test_released_draws_are_worth_no_more_than_there_are() -> None:
    told = dc.tools.plug_in(TOLD, draws=5000, rng=np.random.default_rng(7))
    assert 2.9 < told.ess() <= 3
    assert dc.decide(told, lambda cells, response: np.zeros(5000), ["x"]).effective == told.ess()


def test_particles_are_worth_what_their_first_ancestors_are() -> None:
    made = dc.noise_aware(TOLD, draws=500, rng=np.random.default_rng(8))
    assert made.ess() == 500  # nothing is drawn yet
    _ = made.probabilities["x"]
    assert 30 < made.ess() < 100  # half of them are resampled in each of about five steps
    both = dc.combine(RELEASE, TOLD, data="different")
    last = dc.noise_aware(both, draws=500, rng=np.random.default_rng(8), method="sequential")
    _ = last.probabilities["x"]
    assert 30 < last.ess() < 200


@pytest.mark.slow
def test_means_of_particles_vary_less_than_is_said() -> None:
    """Means of 60 sets of particles: their variance over that of independent ones is below what `effective` says."""
    worths, means, values = [], [], []
    for rng in np.random.default_rng(9).spawn(60):
        made = dc.noise_aware(TOLD, draws=400, rng=rng)
        values.append(made.probabilities["x"][0])
        means.append(values[-1].mean())
        worths.append(made.ess())
    inflation = np.var(means) / (np.var(values) / 400)
    assert 1.2 < inflation < 400 / np.mean(worths) * (1 + 5 * math.sqrt(2 / 60))
