"""Decisions against direct computation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betainc

import discreet as dc
from tiny import network_of

NETWORK = network_of({"a": 2, "b": 3}, "a>b")
TABLE = {"treat": {"s0": 0.9, "s1": 0.3, "s2": 0.2}, "wait": {"s0": 0.1, "s1": 0.5, "s2": 1.0}}


def posterior(draws: int = 500, seed: int = 1) -> dc.PosteriorDraws:
    return dc.PosteriorDraws(dc.Dirichlet.uniform(NETWORK, 2.0).draws(draws, np.random.default_rng(seed)))


def test_a_decision_is_the_largest_mean_payoff() -> None:
    made = posterior()
    decision = dc.decide(made, dc.payoff(NETWORK, "P(b | a=s1)", TABLE), ["treat", "wait"], level=0.9, queries=7)
    theta = made.cells["b"][1]
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


def test_a_payoff_of_a_marginal() -> None:
    made = posterior(50)
    found = dc.payoff(NETWORK, "P(b)", TABLE)(made.cells, "wait")
    exact = np.einsum("as,abs,b->s", made.cells["a"], made.cells["b"], [0.1, 0.5, 1.0])
    np.testing.assert_allclose(found, exact)


def test_the_first_of_equal_responses() -> None:
    decision = dc.decide(posterior(20), lambda cells, response: np.full(20, 0.5), ["x", "y"])
    assert decision.response == "x"
    assert [row["best"] for row in decision.rows] == [1.0, 0.0]


@pytest.mark.parametrize("sure", [(2.0, 2.0), (9.0, 0.2), (0.2, 9.0)])
@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (-10.0, 10.0), (-5.0, -1.0)])
def test_utilities_in_other_units_scale(low: float, high: float, sure: tuple[float, float]) -> None:
    """Means, intervals and the regret of utilities in money are those of the same in [0, 1], in money.

    Also where the posterior is densest at one end, and the interval is the shortest one.
    """
    network, span = network_of({"b": 2}), high - low
    prior = dc.Dirichlet(dc.Tables(network, {"b": np.array(sure)}))
    made = dc.PosteriorDraws(prior.draws(500, np.random.default_rng(4)))
    table = {"treat": {"s0": 1.0, "s1": 0.0}, "wait": {"s0": 0.25, "s1": 0.5}}
    unit = dc.payoff(network, "P(b)", table)
    plain = dc.decide(made, unit, list(table))
    money = dc.decide(made, lambda cells, name: low + span * unit(cells, name), list(table), bounds=(low, high))
    assert money.response == plain.response
    assert money.regret == pytest.approx(span * plain.regret)
    for one, other in zip(plain.rows, money.rows, strict=True):
        assert other["best"] == one["best"]
        for key in ("mean", "lower", "upper"):
            assert other[key] == pytest.approx(low + span * one[key])


def test_the_regret_never_exceeds_the_range() -> None:
    decision = dc.decide(posterior(3), dc.payoff(NETWORK, "P(b)", TABLE), list(TABLE), bounds=(-1, 4))
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
        made = dc.PosteriorDraws(prior.draws(60, rng))
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


@pytest.mark.parametrize(
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
    utility = dc.payoff(NETWORK, "P(b)", TABLE)
    options: dict[str, object] = {"responses": list(TABLE)} | arguments
    responses = options.pop("responses")
    with pytest.raises(dc.InputError, match=message):
        dc.decide(posterior(20), utility, responses, **options)


def test_utilities_of_another_shape_or_that_are_no_numbers() -> None:
    with pytest.raises(dc.InputError, match="each of the 20 draws"):
        dc.decide(posterior(20), lambda cells, response: np.zeros(19), ["x"])
    with pytest.raises(dc.InputError, match="not a number"):
        dc.decide(posterior(20), lambda cells, response: np.full(20, math.nan), ["x"])


@pytest.mark.parametrize("query", ["P(a, b)", "P(b=s0)", "MAP(b)", "MPE(| b=s0)"])
def test_payoffs_of_other_queries(query: str) -> None:
    with pytest.raises(dc.InputError, match="payoff needs"):
        dc.payoff(NETWORK, query, TABLE)


@pytest.mark.parametrize("states", [{"s0": 1.0}, {"s0": 1.0, "s1": 0.0, "s3": 1.0}])
def test_payoffs_must_name_every_state(states: dict[str, float]) -> None:
    with pytest.raises(dc.InputError, match="'wait' must name every state of 'b' once"):
        dc.payoff(NETWORK, "P(b)", {"wait": states})


def test_a_sole_response_is_chosen() -> None:
    decision = dc.decide(posterior(20), dc.payoff(NETWORK, "P(b)", TABLE), ["wait"])
    assert decision.response == "wait" and decision.rows[0]["best"] == 1.0
