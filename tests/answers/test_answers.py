"""Answers against the oracle: rows, means, intervals and refusals."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.model.graphs import requisite
from discreet.model.query_grammar import MostProbable, Probability, Query
from discreet.queries import query as module
from discreet.queries.query import answer_many, noise_share
from folding import every
from networks import asia
from oracle import conditional, event, most_probable, random_draws, with_draws
from strategies import networks

CELLS = random_draws(asia().network, 200, seed=1)
POSTERIOR = dc.results.PosteriorDraws(CELLS)
ONE = dc.results.PosteriorDraws(with_draws(dc.Tables(CELLS.network, {node: CELLS[node][..., 0] for node in CELLS})))


def check_rows(answer: dc.results.Answer, names: list[str], draws: np.ndarray) -> None:
    """Rows in the order of the states, the last variable fastest, with means and intervals of these draws."""
    schema = CELLS.network.schema
    states = list(product(*(schema[name].states for name in names)))
    lower, upper = dc.tools.credible_interval(draws.reshape(len(states), -1), answer.level)
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


@every(
    ("text", "evidence"),
    [
        ("P(tub=no, bronc, lung=yes | dysp=yes)", {"dysp": 0}),
        ("P(lung=yes, bronc, tub=no)", {}),
        ("P(tub=no, lung=yes | dysp=yes)", {"dysp": 0}),
    ],
)
def test_fixed_states_keep_their_rows_of_the_joint(text: str, evidence: dict[str, int]) -> None:
    answer = dc.answer(POSTERIOR, text, level=0.8)
    names = [name for name, _ in dc.tools.parse_query(text, CELLS.network.schema).targets]
    joint = conditional(CELLS, tuple(names), evidence)
    index = tuple({"tub": slice(1, 2), "lung": slice(0, 1)}.get(name, slice(None)) for name in names)
    expected = joint[index].reshape(-1, 200)
    lower, upper = dc.tools.credible_interval(expected, 0.8)
    assert len(answer.rows) == len(expected)
    for row, draws, low, high in zip(answer.rows, expected, lower, upper, strict=True):
        assert (row["state"]["tub"], row["state"]["lung"]) == ("no", "yes")
        assert list(row["state"]) == names
        assert row["mean"] == pytest.approx(draws.mean(), abs=1e-12)
        assert (row["lower"], row["upper"]) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    if "bronc" in names:
        assert [row["state"]["bronc"] for row in answer.rows] == ["yes", "no"]


@every("evidence", [{}, {"dysp": "yes"}, {"xray": "no", "asia": "yes"}])
def test_explanations_of_one_draw_are_those_of_the_oracle(evidence: dict[str, str]) -> None:
    schema = CELLS.network.schema
    codes = {name: schema[name].code(state) for name, state in evidence.items()}
    text = ", ".join(f"{name}={state}" for name, state in evidence.items())
    free = tuple(name for name in schema.names if name not in evidence)
    for asked, kind, targets in ((f"MAP(tub, lung | {text})", "map", ("tub", "lung")), (f"MPE(| {text})", "mpe", free)):
        answer = dc.answer(ONE, asked, level=0.95)
        ((states, probability),) = most_probable(ONE.probabilities, targets, codes)
        assert answer.kind == kind
        (row,) = answer.rows
        assert row["state"] == {name: schema[name].states[code] for name, code in states.items()}
        assert row["mean"] == pytest.approx(probability, abs=1e-12)
        assert (row["best"], row["noise"]) == (1.0, None)


def test_explanation_of_many_draws_is_best_on_average() -> None:
    rows = dc.answer(POSTERIOR, "MAP(tub, lung | dysp=yes)", level=0.9).rows
    table = conditional(CELLS, ("tub", "lung"), {"dysp": 0})
    shares = np.bincount(table.reshape(4, 200).argmax(axis=0), minlength=4).reshape(2, 2) / 200
    best = np.unravel_index(table.mean(axis=-1).argmax(), (2, 2))
    assert list(rows[0]["state"].values()) == [("yes", "no")[code] for code in best]
    for row in rows:
        at = tuple(("yes", "no").index(state) for state in row["state"].values())
        lower, upper = dc.tools.credible_interval(table[at], 0.9)
        found = (row["mean"], row["lower"], row["upper"], row["best"])
        assert found == pytest.approx((table[at].mean(), float(lower), float(upper), shares[at]))
    assert len(rows) == np.count_nonzero(shares)
    means = [row["mean"] for row in rows]
    assert means == sorted(means, reverse=True)


def test_a_parsed_query_is_as_good_as_text() -> None:
    query = Probability((("lung", None),), (("smoke", "yes"),))
    assert dc.answer(POSTERIOR, query, level=0.9) == dc.answer(POSTERIOR, "P(lung | smoke=yes)", level=0.9)
    with pytest.raises(dc.InputError, match="no variable 'lunge'; did you mean 'lung'"):
        dc.answer(POSTERIOR, Probability((("lunge", None),)), level=0.9)
    with pytest.raises(dc.InputError, match="'lung' has no state 'maybe'"):
        dc.answer(POSTERIOR, MostProbable(("tub",), (("lung", "maybe"),)), level=0.9)


def test_all_marginals() -> None:
    answers = dc.marginals(POSTERIOR, {"xray": "yes"}, level=0.9)
    names = [name for name in CELLS.network.nodes if name != "xray"]
    assert [answer.query for answer in answers] == [f"P({name} | xray=yes)" for name in names]
    for name, answer in zip(names, answers, strict=True):
        assert answer.kind == "conditional"
        check_rows(answer, [name], conditional(CELLS, (name,), {"xray": 0}))
    assert [answer.kind for answer in dc.marginals(POSTERIOR, {}, level=0.9)] == ["marginal"] * 8


@every("level", [0, 1, -0.5, 1.5, 95, math.nan])
def test_levels(level: float) -> None:
    for ask in (
        lambda: dc.answer(POSTERIOR, "P(lung)", level=level),
        lambda: dc.marginals(POSTERIOR, {}, level=level),
        lambda: dc.tools.credible_interval(np.zeros(3), level),
    ):
        with pytest.raises(dc.InputError, match="between 0 and 1"):
            ask()


def test_unknown_evidence_of_all_marginals() -> None:
    for evidence in ({"lunge": "yes"}, {"lung": "maybe"}):
        with pytest.raises(dc.InputError, match=r"no variable 'lunge'|no state 'maybe'"):
            dc.marginals(POSTERIOR, evidence, level=0.9)


@every(
    "text",
    ["P(tub | {})", "P(tub=yes | {})", "P(tub=no, bronc | {})", "MAP(tub | {})", "MPE(| {})"],
)
def test_impossible_evidence(text: str) -> None:
    """In the bundled network `either` is the disjunction of `lung` and `tub`: with certainty."""
    posterior = dc.results.PosteriorDraws(with_draws(asia()))
    with pytest.raises(dc.InputError, match="the evidence is impossible under 1 of 1 draws"):
        dc.answer(posterior, text.format("either=no, lung=yes"), level=0.9)
    with pytest.raises(dc.InputError, match="impossible"):
        dc.marginals(posterior, {"either": "no", "lung": "yes"}, level=0.9)


def test_an_impossible_target_is_an_answer() -> None:
    posterior = dc.results.PosteriorDraws(with_draws(asia()))
    answer = dc.answer(posterior, "P(either=no, smoke | lung=yes)", level=0.9)
    assert [(row["mean"], row["lower"], row["upper"]) for row in answer.rows] == [(0, 0, 0)] * 2


def test_row_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_LIMIT", 4)
    assert len(dc.answer(POSTERIOR, "P(lung, tub, smoke=yes)", level=0.9).rows) == 4
    with pytest.raises(dc.InputError, match=r"P\(lung, tub, smoke\): the answer has 8 rows, more than 4"):
        dc.answer(POSTERIOR, "P(lung, tub, smoke)", level=0.9)


def test_answers_stay_within_0_and_1() -> None:
    """Quotients of probabilities may not leave [0, 1], not even by a rounding error."""
    network = dc.Network(
        (dc.Variable("root", ("a", "b", "c")), dc.Variable("sure", ("only",))), {"root": (), "sure": ("root",)}
    )
    for seed in range(60):
        posterior = dc.results.PosteriorDraws(random_draws(network, 1, seed=seed))
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
    rows = dc.answer(dc.results.PosteriorDraws(dc.Tables(network, {"x": table}, draws=3)), "MAP(x)", level=0.9).rows
    assert rows[0]["state"] == {"x": "d"} and rows[0]["mean"] == pytest.approx(0.4)
    assert [row["best"] for row in rows] == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])


def test_explanations_are_at_most_sixteen_and_the_first_is_the_best_on_average() -> None:
    network = dc.Network((dc.Variable("x", tuple(f"s{k}" for k in range(40))),), {"x": ()})
    cells = random_draws(network, 300, seed=4)
    rows = dc.answer(dc.results.PosteriorDraws(cells), "MAP(x)", level=0.9).rows
    shares = np.bincount(cells["x"].argmax(axis=0), minlength=40) / 300
    assert len(rows) == 16 < np.count_nonzero(shares)
    assert rows[0]["mean"] == pytest.approx(cells["x"].mean(axis=-1).max())
    least = sorted(shares)[-15]
    assert all(row["best"] >= least for row in rows[1:])
    for row in rows:
        assert row["best"] == shares[network.schema["x"].code(row["state"]["x"])]


@pytest.mark.parametrize("text", ["MAP(tub, lung | dysp=yes)", "MPE(| dysp=yes, smoke=no)", "MAP(bronc)"])
def test_explanations_too_many_to_list_are_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more joint states than rows are allowed, elimination finds the states; row by row the numbers agree."""
    posterior = dc.results.PosteriorDraws(CELLS, replicates=random_draws(CELLS.network, 200, seed=9))
    listed = {str(row["state"]): row for row in dc.answer(posterior, text, level=0.9).rows}
    monkeypatch.setattr(module, "ROW_LIMIT", 1)
    rows = dc.answer(posterior, text, level=0.9).rows
    shared = [row for row in rows if str(row["state"]) in listed]
    assert len(shared) >= min(len(rows), 12)  # which of several equal shares come last is left open
    for row in shared:
        for key in ("mean", "lower", "upper", "best", "noise"):
            assert row[key] == pytest.approx(listed[str(row["state"])][key], abs=1e-9)
    assert sum(row["best"] for row in rows) <= 1 + 1e-12


# -------------------------------------------------------------------------------------------------------------- noise


def coin(draws: int, seed: int) -> tuple[dc.results.PosteriorDraws, float]:
    """A coin whose count of heads is 2, 5 or 9 of 10, known by noise only, and the exact share of the noise.

    Given n heads theta is Beta(1 + n, 1 + 10 - n): mean (1 + n) / 12, variance mean (1 - mean) / 13.
    """
    rng = np.random.default_rng(seed)
    heads, weights = np.array([2, 5, 9]), np.array([0.3, 0.5, 0.2])
    mean = (1 + heads) / 12
    known = weights @ mean**2 - (weights @ mean) ** 2
    network = dc.Network((dc.Variable("x", ("head", "tail")),), {"x": ()})
    counts = rng.choice(heads, size=draws, p=weights)
    one, other = (rng.beta(1 + counts, 11 - counts) for _ in range(2))
    cells, replicates = (dc.Tables(network, {"x": np.stack([p, 1 - p])}, draws=draws) for p in (one, other))
    return dc.results.PosteriorDraws(cells, replicates=replicates), known / (known + weights @ (mean * (1 - mean)) / 13)


def test_share_of_the_noise() -> None:
    """Monte Carlo error below 1 / sqrt(90,000) = 0.0033, a replicate in three; six of them: probability below 1e-8."""
    posterior, share = coin(270_000, seed=1)
    assert 0.3 < share < 0.9
    for row in dc.answer(posterior, "P(x)", level=0.9).rows:
        assert row["noise"] == pytest.approx(share, abs=0.02)
    (answer,) = dc.marginals(posterior, {}, level=0.9)
    assert answer.rows == dc.answer(posterior, "P(x)", level=0.9).rows
    assert dc.answer(posterior, "P(x=head)", level=0.9).rows[0]["noise"] == pytest.approx(share, abs=0.02)
    assert dc.answer(posterior, "MAP(x)", level=0.9).rows[0]["noise"] == pytest.approx(share, abs=0.02)


def test_draws_and_replicates_tell_the_variance_alike() -> None:
    one, other = np.array([0.1, 0.4, 0.6, 0.3]), np.array([0.2, 0.2, 0.9, 0.1])
    both = np.concatenate([one, other]) - 0.35
    expected = np.mean((one - 0.35) * (other - 0.35)) / np.mean(both**2)
    assert noise_share(one, other) == noise_share(other, one)
    assert noise_share(one, other)[0] == pytest.approx(expected)


@every("text", ["P(lung | xray=yes)", "P(lung=yes, bronc)", "MAP(tub, lung)", "MPE(| dysp=yes)"])
def test_known_counts_have_no_noise_and_known_probabilities_only_noise(text: str) -> None:
    """Twins that are the draws themselves: all of the variance is noise; of independent ones, none but by chance."""
    same = dc.answer(dc.results.PosteriorDraws(CELLS, replicates=CELLS), text, level=0.9)
    assert [row["noise"] for row in same.rows] == pytest.approx([1.0] * len(same.rows))
    cells, replicates = (random_draws(CELLS.network, 10_000, seed=seed) for seed in (2, 3))
    other = dc.answer(dc.results.PosteriorDraws(cells, replicates=replicates), text, level=0.9)
    assert all(0 <= row["noise"] < 0.08 for row in other.rows)  # eight standard deviations
    alone = dc.answer(dc.results.PosteriorDraws(cells), text, level=0.9)
    strip = [{**row, "noise": None, "noise_error": None} for row in other.rows]
    assert list(alone.rows) == strip


def test_the_error_of_the_share_is_how_far_it_varies() -> None:
    """Over 200 sets of 300 draws; the mean of errors within 28 %, which five of its own would be."""
    rows = [dc.answer(coin(300, seed)[0], "P(x=head)", level=0.9).rows[0] for seed in range(200)]
    spread = np.std([row["noise"] for row in rows])
    assert np.mean([row["noise_error"] for row in rows]) == pytest.approx(spread, rel=0.28)
    # A normal quantity has (1 - share^2) / sqrt(draws).
    rng = np.random.default_rng(3)
    common = rng.standard_normal(40_000)
    pair = [0.6**0.5 * common + 0.4**0.5 * rng.standard_normal(40_000) for _ in range(2)]
    assert float(noise_share(*pair)[1]) == pytest.approx((1 - 0.36) / 200, rel=0.05)
    # Draws of chains that are worth a quarter of their number tell it half as well.
    assert float(noise_share(*pair, effective=10_000)[1]) == pytest.approx(2 * float(noise_share(*pair)[1]))
    made, _ = coin(300, 1)
    alone, chained = (
        dc.results.PosteriorDraws(made.probabilities, replicates=made.replicates, find_ess=worth)
        for worth in (None, lambda: 75.0)
    )
    one, other = (dc.answer(part, "P(x=head)", level=0.9).rows[0]["noise_error"] for part in (alone, chained))
    assert other == pytest.approx(2 * one)


def test_noise_is_unknown_without_replicates_and_with_one_draw() -> None:
    class Bare:
        """A posterior that has never heard of replicates."""

        network, probabilities = CELLS.network, CELLS

    one = dc.results.PosteriorDraws(ONE.probabilities, replicates=ONE.probabilities)
    for posterior in (POSTERIOR, Bare(), one):
        for text in ("P(lung | smoke=yes)", "MPE(| dysp=yes)"):
            assert dc.answer(posterior, text, level=0.9).rows[0]["noise"] is None
        assert dc.marginals(posterior, {}, level=0.9)[0].rows[0]["noise"] is None


def test_what_does_not_vary_has_no_noise() -> None:
    network = dc.Network(
        (dc.Variable("root", ("a", "b", "c")), dc.Variable("sure", ("only",))), {"root": (), "sure": ("root",)}
    )
    cells = random_draws(network, 50, seed=1)
    posterior = dc.results.PosteriorDraws(cells, replicates=cells)
    for text in ("P(sure)", "P(sure=only)", "MAP(sure)"):
        assert [row["noise"] for row in dc.answer(posterior, text, level=0.9).rows] == [0.0]
    for part in noise_share(np.full((2, 9), 0.3), np.full((2, 9), 0.3)):
        assert part.tolist() == [0.0, 0.0]


def test_noise_of_impossible_replicates() -> None:
    """Draws under whose replicate the evidence is impossible are left out; the answer itself does not know of them."""
    rng = np.random.default_rng(5)
    one, other = rng.random((2, 3, 60))
    holes = other.copy()
    holes[:, ::4] = np.nan
    kept = np.arange(60) % 4 > 0
    np.testing.assert_array_equal(noise_share(one, holes), noise_share(one[:, kept], other[:, kept]))
    assert np.isnan(noise_share(one, np.full((3, 60), np.nan))).all()
    certain = with_draws(asia())
    replicates = dc.Tables(
        certain.network, {node: np.repeat(table, 200, axis=-1) for node, table in certain.items()}, draws=200
    )
    posterior = dc.results.PosteriorDraws(CELLS, replicates=replicates)
    rows = dc.answer(posterior, "P(tub | either=no, lung=yes)", level=0.9).rows
    assert [row["noise"] for row in rows] == [None, None]


# --------------------------------------------------------------------------------------------------------- many queries

QUERIES = (
    "P(lung | smoke=yes)",
    "P(tub | xray=yes, dysp=no)",
    " P( lung|smoke=yes ) ",
    "MAP(tub, lung | dysp=yes)",
    "P(lung | dysp=no, xray=yes)",
    "P(lung=yes, bronc | xray=yes, dysp=no)",
    "P(asia)",
    "MPE(| xray=yes, dysp=no)",
    "P(either)",
    "P(lung | smoke=yes)",
)


def test_many_queries_are_answered_as_one_by_one() -> None:
    posterior = dc.results.PosteriorDraws(CELLS, replicates=random_draws(CELLS.network, 200, seed=9))
    one_by_one = tuple(dc.answer(posterior, query, level=0.9) for query in QUERIES)
    assert answer_many(posterior, QUERIES, level=0.9) == one_by_one
    parsed = [dc.tools.parse_query(query, CELLS.network.schema) for query in QUERIES]
    assert answer_many(posterior, iter(parsed), level=0.9) == one_by_one
    assert answer_many(posterior, [], level=0.9) == ()


@st.composite
def asked(draw: st.DrawFn) -> tuple[dc.Network, list[Query]]:
    """A small network and queries of it, many with the same evidence."""
    network = draw(networks(max_nodes=5))
    states = {name: draw(st.sampled_from(network.schema[name].states)) for name in network.nodes}
    pools = [draw(st.sets(st.sampled_from(network.nodes), max_size=len(network.nodes) - 1)) for _ in range(2)]
    queries: list[Query] = []
    for _ in range(draw(st.integers(1, 8))):
        pool = draw(st.sampled_from(pools))
        evidence = tuple((name, states[name]) for name in network.nodes if name in pool)
        free = [name for name in network.nodes if name not in pool]
        targets = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
        queries.append(
            draw(
                st.sampled_from(
                    (
                        Probability(((targets[0], None),), evidence),
                        Probability(tuple((name, None) for name in targets), evidence),
                        Probability(tuple((name, states[name]) for name in targets), evidence),
                        MostProbable(tuple(targets), evidence),
                    )
                )
            )
        )
    return network, queries


@given(asked(), st.sampled_from((1, 2, 7)))
def test_many_queries_of_any_network(question: tuple[dc.Network, list[Query]], draws: int) -> None:
    network, queries = question
    posterior = dc.results.PosteriorDraws(
        random_draws(network, draws, seed=1), replicates=random_draws(network, draws, seed=2)
    )
    one_by_one = tuple(dc.answer(posterior, query, level=0.8) for query in queries)
    assert answer_many(posterior, queries, level=0.8) == one_by_one


def test_many_queries_share_what_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables matter to each of six variables, given the leaves: one pass. What is there twice costs nothing."""
    calls = dict.fromkeys(("_compute_joint", "marginals_and_evidence", "log_probability"), 0)
    for name in calls:

        def counted(*args: object, name: str = name, real: object = getattr(Laws, name), **options: object) -> object:
            calls[name] += 1
            return real(*args, **options)

        monkeypatch.setattr(Laws, name, counted)
    targets = [name for name in CELLS.network.nodes if name not in ("xray", "dysp")]
    queries = [f"P({name} | {given})" for name in targets for given in ("xray=yes, dysp=no", "dysp=no, xray=yes")]
    answer_many(POSTERIOR, queries * 2, level=0.9)
    assert [*calls.values()] == [0, 1, 0]  # it tells how probable the evidence is, too
    answer_many(POSTERIOR, ["P(lung=yes | smoke=no)", "P(bronc=yes | smoke=no)", "P(dysp | smoke=no)"] * 2, level=0.9)
    assert [*calls.values()] == [1, 1, 3]  # two events, and the evidence once


FAULTS: list[tuple[list[object], str]] = [
    (["P(lung)", "P(lunge)"], r"^query 2, P\(lunge\): no variable 'lunge'; did you mean 'lung'\?$"),
    (["P(lung)", "lung", "P(lunge)"], r"^query 2, lung: write P\(A, B \| C=c\)"),
    (["P(lung | lung=yes)"], r"^query 1, P\(lung \| lung=yes\): variable 'lung' occurs twice$"),
    (["P(lung)", 3.14], r"^query 2, float: a query is text or a parsed query, not a float$"),
    ([MostProbable(("tub",), (("lung", "maybe"),))], r"^query 1, MAP\(tub \| lung=maybe\): 'lung' has no state"),
    (["P(lung)", "P(tub|lung=yes, either=no)"], r"^query 2, P\(tub \| lung=yes, either=no\): the evidence is impos"),
    (["P(tub, lung, bronc)"], r"^query 1, P\(tub, lung, bronc\): the answer has 8 rows"),
]


@pytest.mark.parametrize(("queries", "message"), FAULTS)
def test_an_error_names_the_query(queries: list[object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_LIMIT", 4)
    with pytest.raises(dc.InputError, match=message):
        answer_many(dc.results.PosteriorDraws(with_draws(asia())), queries, level=0.9)


def test_many_queries_are_a_list_and_have_a_level() -> None:
    for query in ("P(lung)", Probability((("lung", None),))):
        with pytest.raises(dc.InputError, match="takes a list of queries"):
            answer_many(POSTERIOR, query, level=0.9)
    with pytest.raises(dc.InputError, match=r"^a level lies between 0 and 1"):
        answer_many(POSTERIOR, ["P(lung)"], level=1.0)
    with pytest.raises(dc.InputError, match="not a list"):
        dc.answer(POSTERIOR, ["P(lung)"], level=0.9)


@settings(max_examples=20)
@given(networks(max_nodes=5), st.data())
def test_requisite_tables_are_those_that_matter(network: dc.Network, data: st.DataObject) -> None:
    """Other tables may change without a change of the answer; these tables alone, and no others, do change it.

    Random probabilities make a change show wherever it can: a table with one state has none, and where the target has
    one state its probability is 1.
    """
    target = data.draw(st.sampled_from(network.nodes))
    observed = data.draw(st.sets(st.sampled_from(network.nodes)).map(lambda names: names - {target}))
    evidence = dict.fromkeys(observed, 0)
    cells, other = (random_draws(network, 3, seed=seed, concentration=3) for seed in (1, 2))
    kept = frozenset(requisite(network, (target,), observed))
    before = conditional(cells, (target,), evidence)
    mixed = dc.Tables(network, {node: (cells if node in kept else other)[node] for node in network.nodes}, draws=3)
    np.testing.assert_allclose(conditional(mixed, (target,), evidence), before, rtol=1e-9)
    if all(variable.size > 1 for variable in network.schema):
        for node in kept:
            changed = dc.Tables(network, {n: (other if n == node else cells)[n] for n in network.nodes}, draws=3)
            assert not np.allclose(conditional(changed, (target,), evidence), before, rtol=1e-9)
