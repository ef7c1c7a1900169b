"""Answers against the oracle: rows, means, intervals and refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import discreet as dc
from discreet.queries import query as module
from discreet.queries.query import Explanation, Probability
from networks import asia
from oracle import conditional, event, most_probable, random_draws, with_draws

CELLS = random_draws(asia().network, 200, seed=1)
POSTERIOR = dc.PosteriorDraws(CELLS)
ONE = dc.PosteriorDraws(with_draws(dc.Tables(CELLS.network, {node: CELLS[node][..., 0] for node in CELLS})))


def check_rows(answer: dc.Answer, names: list[str], draws: np.ndarray) -> None:
    """Rows in the order of the states, the last variable fastest, with means and intervals of these draws."""
    schema = CELLS.network.schema
    states = list(product(*(schema[name].states for name in names)))
    lower, upper = dc.credible_interval(draws.reshape(len(states), -1), answer.level)
    assert [row["state"] for row in answer.rows] == [dict(zip(names, state, strict=True)) for state in states]
    np.testing.assert_allclose([row["mean"] for row in answer.rows], draws.reshape(len(states), -1).mean(axis=-1))
    np.testing.assert_allclose([row["lower"] for row in answer.rows], lower, atol=1e-12)
    np.testing.assert_allclose([row["upper"] for row in answer.rows], upper, atol=1e-12)


def test_marginal_answer() -> None:
    answer = dc.answer(POSTERIOR, " P( lung )", level=0.9)
    assert (answer.query, answer.kind, answer.level, answer.unit) == ("P(lung)", "marginal", 0.9, "probability")
    check_rows(answer, ["lung"], conditional(CELLS, ("lung",), {}))


def test_conditional_answer_in_the_order_of_the_query() -> None:
    answer = dc.answer(POSTERIOR, "P(xray, asia | dysp=yes, smoke=no)", level=0.95)
    assert answer.kind == "conditional"
    check_rows(answer, ["xray", "asia"], conditional(CELLS, ("xray", "asia"), {"dysp": 0, "smoke": 1}))


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("P(tub=no, bronc, lung=yes | dysp=yes)", {"dysp": 0}),
        ("P(lung=yes, bronc, tub=no)", {}),
        ("P(tub=no, lung=yes | dysp=yes)", {"dysp": 0}),
    ],
)
def test_fixed_states_keep_their_rows_of_the_joint(text: str, evidence: dict[str, int]) -> None:
    answer = dc.answer(POSTERIOR, text, level=0.8)
    names = [name for name, _ in dc.parse_query(text, CELLS.network.schema).targets]
    joint = conditional(CELLS, tuple(names), evidence)
    index = tuple({"tub": slice(1, 2), "lung": slice(0, 1)}.get(name, slice(None)) for name in names)
    expected = joint[index].reshape(-1, 200)
    lower, upper = dc.credible_interval(expected, 0.8)
    assert len(answer.rows) == len(expected)
    for row, draws, low, high in zip(answer.rows, expected, lower, upper, strict=True):
        assert (row["state"]["tub"], row["state"]["lung"]) == ("no", "yes")
        assert list(row["state"]) == names
        assert row["mean"] == pytest.approx(draws.mean(), abs=1e-12)
        assert (row["lower"], row["upper"]) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    if "bronc" in names:
        assert [row["state"]["bronc"] for row in answer.rows] == ["yes", "no"]


@pytest.mark.parametrize("evidence", [{}, {"dysp": "yes"}, {"xray": "no", "asia": "yes"}])
def test_explanations_of_one_draw_are_those_of_the_oracle(evidence: dict[str, str]) -> None:
    schema = CELLS.network.schema
    codes = {name: schema[name].code(state) for name, state in evidence.items()}
    text = ", ".join(f"{name}={state}" for name, state in evidence.items())
    free = tuple(name for name in schema.names if name not in evidence)
    for asked, kind, targets in ((f"MAP(tub, lung | {text})", "map", ("tub", "lung")), (f"MPE(| {text})", "mpe", free)):
        answer = dc.answer(ONE, asked, level=0.95)
        ((states, probability),) = most_probable(ONE.cells, targets, codes)
        assert answer.kind == kind
        (row,) = answer.rows
        assert row["state"] == {name: schema[name].states[code] for name, code in states.items()}
        assert row["mean"] == pytest.approx(probability, abs=1e-12)


def test_explanation_of_many_draws_is_best_on_average() -> None:
    (row,) = dc.answer(POSTERIOR, "MAP(tub, lung | dysp=yes)", level=0.9).rows
    table = conditional(CELLS, ("tub", "lung"), {"dysp": 0})
    best = np.unravel_index(table.mean(axis=-1).argmax(), (2, 2))
    assert list(row["state"].values()) == [("yes", "no")[code] for code in best]
    lower, upper = dc.credible_interval(table[best], 0.9)
    assert (row["mean"], row["lower"], row["upper"]) == pytest.approx((table[best].mean(), float(lower), float(upper)))


def test_a_parsed_query_is_as_good_as_text() -> None:
    query = Probability((("lung", None),), (("smoke", "yes"),))
    assert dc.answer(POSTERIOR, query, level=0.9) == dc.answer(POSTERIOR, "P(lung | smoke=yes)", level=0.9)
    with pytest.raises(dc.InputError, match="no variable 'lunge'; did you mean 'lung'"):
        dc.answer(POSTERIOR, Probability((("lunge", None),)), level=0.9)
    with pytest.raises(dc.InputError, match="'lung' has no state 'maybe'"):
        dc.answer(POSTERIOR, Explanation(("tub",), (("lung", "maybe"),)), level=0.9)


def test_all_marginals() -> None:
    answers = dc.marginals(POSTERIOR, {"xray": "yes"}, level=0.9)
    names = [name for name in CELLS.network.nodes if name != "xray"]
    assert [answer.query for answer in answers] == [f"P({name} | xray=yes)" for name in names]
    for name, answer in zip(names, answers, strict=True):
        assert answer.kind == "conditional"
        check_rows(answer, [name], conditional(CELLS, (name,), {"xray": 0}))
    assert [answer.kind for answer in dc.marginals(POSTERIOR, {}, level=0.9)] == ["marginal"] * 8


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, 95, math.nan])
def test_levels(level: float) -> None:
    for ask in (
        lambda: dc.answer(POSTERIOR, "P(lung)", level=level),
        lambda: dc.marginals(POSTERIOR, {}, level=level),
        lambda: dc.credible_interval(np.zeros(3), level),
    ):
        with pytest.raises(dc.InputError, match="between 0 and 1"):
            ask()


def test_unknown_evidence_of_all_marginals() -> None:
    for evidence in ({"lunge": "yes"}, {"lung": "maybe"}):
        with pytest.raises(dc.InputError, match=r"no variable 'lunge'|no state 'maybe'"):
            dc.marginals(POSTERIOR, evidence, level=0.9)


@pytest.mark.parametrize(
    "text",
    ["P(tub | {})", "P(tub=yes | {})", "P(tub=no, bronc | {})", "MAP(tub | {})", "MPE(| {})"],
)
def test_impossible_evidence(text: str) -> None:
    """In the bundled network `either` is the disjunction of `lung` and `tub`: with certainty."""
    posterior = dc.PosteriorDraws(with_draws(asia()))
    with pytest.raises(dc.InputError, match="the evidence is impossible under 1 of 1 draws"):
        dc.answer(posterior, text.format("either=no, lung=yes"), level=0.9)
    with pytest.raises(dc.InputError, match="impossible"):
        dc.marginals(posterior, {"either": "no", "lung": "yes"}, level=0.9)


def test_an_impossible_target_is_an_answer() -> None:
    posterior = dc.PosteriorDraws(with_draws(asia()))
    answer = dc.answer(posterior, "P(either=no, smoke | lung=yes)", level=0.9)
    assert [(row["mean"], row["lower"], row["upper"]) for row in answer.rows] == [(0, 0, 0)] * 2


def test_row_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_LIMIT", 4)
    assert len(dc.answer(POSTERIOR, "P(lung, tub, smoke=yes)", level=0.9).rows) == 4
    with pytest.raises(dc.InputError, match=r"P\(lung, tub, smoke\) has 8 rows, more than 4"):
        dc.answer(POSTERIOR, "P(lung, tub, smoke)", level=0.9)


def test_answers_stay_within_0_and_1() -> None:
    """Quotients of probabilities may not leave [0, 1], not even by a rounding error."""
    network = dc.Network(
        (dc.Variable("root", ("a", "b", "c")), dc.Variable("sure", ("only",))), {"root": (), "sure": ("root",)}
    )
    for seed in range(60):
        posterior = dc.PosteriorDraws(random_draws(network, 1, seed=seed))
        for query in ("P(sure=only)", "MAP(sure)", "P(sure)", "P(sure=only, root)"):
            for row in dc.answer(posterior, query, level=0.99).rows:
                assert 0 <= row["lower"] <= row["upper"] <= 1
                assert 0 <= row["mean"] <= 1


def test_evidence_probability_is_not_needed_for_the_mean_of_means() -> None:
    """The mean of P(a | c) over draws is not P(a, c) / P(c) of means: each draw is conditioned on its own."""
    table = conditional(CELLS, ("lung",), {"xray": 0})[0]
    ratio = event(CELLS, ("lung",), {"xray": 0})[0].mean() / event(CELLS, (), {"xray": 0}).mean()
    row = dc.answer(POSTERIOR, "P(lung=yes | xray=yes)", level=0.9).rows[0]
    assert row["mean"] == pytest.approx(table.mean())
    assert abs(row["mean"] - ratio) > 1e-4


def test_map_is_best_on_average_even_where_it_wins_under_no_draw() -> None:
    network = dc.Network((dc.Variable("x", tuple("abcd")),), {"x": ()})
    table = np.array([[0.5, 0.05, 0.05, 0.4], [0.05, 0.5, 0.05, 0.4], [0.05, 0.05, 0.5, 0.4]]).T
    (row,) = dc.answer(dc.PosteriorDraws(dc.Tables(network, {"x": table}, draws=3)), "MAP(x)", level=0.9).rows
    assert row["state"] == {"x": "d"} and row["mean"] == pytest.approx(0.4)
