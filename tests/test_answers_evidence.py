"""Answers given evidence that some draws rule out, or that draws make more and less probable."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import discreet as dc
from networks import asia
from oracle import conditional, event, random_draws, small
from releases import guarantee

DRAWS = 60
CELLS = random_draws(asia().network, DRAWS, seed=12)
POSTERIOR = dc.results.PosteriorDraws(CELLS, replicates=random_draws(asia().network, DRAWS, seed=13))
QUERIES = ("P(tub | {})", "P(tub=yes, smoke | {})", "P(tub=no | {})", "MAP(tub, smoke | {})", "MPE(| {})")


def ruled_out(draws: int, zeros: int) -> dc.Tables:
    """Draws of Asia; the first ones make `lung=yes` with `either=no` impossible, as it is in truth."""
    arrays = {node: np.array(table) for node, table in random_draws(asia().network, draws, seed=14).items()}
    schema = asia().network.schema
    yes, no = schema["lung"].code("yes"), schema["either"].code("no")
    axes = [slice(None)] * 3
    axes[asia().network.family("either").index("lung")] = yes
    axes[2] = no
    arrays["either"][(*axes, slice(zeros))] = 0
    axes[2] = 1 - no
    arrays["either"][(*axes, slice(zeros))] = 1
    return dc.Tables(asia().network, arrays, draws=draws)


def part(cells: dc.Tables, start: int) -> dc.Tables:
    return dc.Tables(cells.network, {n: t[..., start:] for n, t in cells.items()}, draws=cells.draws - start)


@pytest.mark.parametrize("text", QUERIES)
def test_draws_that_rule_the_evidence_out_are_left_out_and_counted(text: str) -> None:
    cells, query = ruled_out(20, 8), text.format("either=no, lung=yes")
    answer = dc.answer(dc.results.PosteriorDraws(cells), query, level=0.9)
    others = dc.answer(dc.results.PosteriorDraws(part(cells, 8)), query, level=0.9)
    assert answer.left_out == 8 / 20 and others.left_out == 0
    for row, other in zip(answer.rows, others.rows, strict=True):
        assert row["state"] == other["state"]
        for name in ("mean", "lower", "upper", *(["best"] if "best" in row else [])):
            assert row[name] == pytest.approx(other[name], abs=1e-12)
    if text == "P(tub | {})":
        assert sum(row["mean"] for row in answer.rows) == pytest.approx(1, abs=1e-12)


def test_evidence_that_most_draws_rule_out_is_refused() -> None:
    for zeros, refused in ((10, False), (11, True)):
        posterior = dc.results.PosteriorDraws(ruled_out(20, zeros))
        for ask in (
            lambda posterior=posterior: dc.answer(posterior, "P(tub | either=no, lung=yes)", level=0.9),
            lambda posterior=posterior: dc.marginals(posterior, {"either": "no", "lung": "yes"}, level=0.9)[0],
            lambda posterior=posterior: dc.predict(posterior, {"either": ["no"], "lung": ["yes"]}, "tub", level=0.9),
        ):
            if refused:
                with pytest.raises(dc.InputError, match="is impossible under 11 of 20 draws; check its states"):
                    ask()
            else:
                assert np.all(np.asarray(ask().left_out) == 0.5)


def test_evidence_on_everything_is_refused_alike() -> None:
    """Though no marginal is left that could show it."""
    everything = {
        "either": "no",
        "lung": "yes",
        **dict.fromkeys(("asia", "tub", "smoke", "bronc", "xray", "dysp"), "no"),
    }
    assert len(dc.marginals(dc.results.PosteriorDraws(ruled_out(20, 10)), everything, level=0.9)) == 0
    with pytest.raises(dc.InputError, match="is impossible under 11 of 20 draws; check its states"):
        dc.marginals(dc.results.PosteriorDraws(ruled_out(20, 11)), everything, level=0.9)


def test_predictions_leave_out_what_answers_do() -> None:
    posterior = dc.results.PosteriorDraws(ruled_out(20, 7))
    records = {
        "either": ["no", "yes", None, "no"],
        "lung": ["yes", "yes", "no", "yes"],
        "smoke": ["no", None, "yes", "no"],
    }
    for target in ("tub", "dysp", "asia"):
        found = dc.predict(posterior, records, target, level=0.8)
        assert found.left_out.tolist() == [7 / 20, 0, 0, 7 / 20]
        for position in range(4):
            shown = [f"{name}={values[position]}" for name, values in records.items() if values[position] is not None]
            answer = dc.answer(posterior, f"P({target} | {', '.join(shown)})", level=0.8)
            assert answer.left_out == found.left_out[position]
            assert found.mean[position].tolist() == [row["mean"] for row in answer.rows]
            assert found.upper[position].tolist() == [row["upper"] for row in answer.rows]


# --------------------------------------------------------------------------------------------------------- predictive


def test_predictive_answers_weigh_draws_by_the_evidence() -> None:
    evidence = {"xray": 0, "dysp": 1}
    weights = event(CELLS, (), evidence)
    for targets in (("tub",), ("smoke", "lung")):
        exact = conditional(CELLS, targets, evidence) @ (weights / weights.sum())
        plain = conditional(CELLS, targets, evidence).mean(axis=-1)
        query = f"P({', '.join(targets)} | xray=yes, dysp=no)"
        rows = dc.answer(POSTERIOR, query, level=0.9, predictive=True).rows
        np.testing.assert_allclose([row["mean"] for row in rows], exact.ravel(), atol=1e-12)
        assert abs(exact - plain).max() > 0.01
        assert all(row["noise"] is None for row in rows)
        for row in rows:
            assert row["lower"] <= row["mean"] <= row["upper"]
    (tub,) = [part for part in dc.marginals(POSTERIOR, {"xray": "yes", "dysp": "no"}, level=0.9, predictive=True)
              if part.query.startswith("P(tub")]  # fmt: skip
    answer = dc.answer(POSTERIOR, "P(tub | xray=yes, dysp=no)", level=0.9, predictive=True)
    assert [row["mean"] for row in tub.rows] == pytest.approx([row["mean"] for row in answer.rows])
    assert dc.answer_many(POSTERIOR, ["P(tub | xray=yes, dysp=no)"], level=0.9, predictive=True) == (answer,)


def test_without_evidence_both_means_are_one() -> None:
    for query in ("P(lung)", "MAP(lung, tub)", "P(lung=yes)"):
        one, other = (dc.answer(POSTERIOR, query, level=0.9, predictive=kind) for kind in (True, False))
        assert [row["mean"] for row in one.rows] == pytest.approx([row["mean"] for row in other.rows])


@pytest.mark.parametrize("limit", [4096, 1])
def test_predictive_explanations(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares and means are weighted, whether all joint states are listed or the best are searched for."""
    monkeypatch.setattr("discreet.queries.query.ROW_LIMIT", limit)
    evidence, targets = {"xray": 0, "dysp": 1}, ("tub", "lung")
    table = conditional(CELLS, targets, evidence).reshape(4, DRAWS)
    weights = event(CELLS, (), evidence)
    weights = weights / weights.sum()
    rows = dc.answer(POSTERIOR, "MAP(tub, lung | xray=yes, dysp=no)", level=0.9, predictive=True).rows
    schema = asia().network.schema
    for row in rows:
        code = schema["tub"].code(row["state"]["tub"]) * 2 + schema["lung"].code(row["state"]["lung"])
        assert row["mean"] == pytest.approx(table[code] @ weights)
        assert row["best"] == pytest.approx(weights[table.argmax(axis=0) == code].sum())
    assert [row["mean"] for row in rows] == sorted((row["mean"] for row in rows), reverse=True)


def test_the_predictive_mean_of_independent_rows_is_that_of_their_means() -> None:
    """P(x, e) is a product of independent rows, and so is its mean over the posterior.

    Five deviations of 40,000 draws: a false alarm once in a million.
    """
    network, rng, draws = small(("a", 2, ()), ("b", 2, ("a",))), np.random.default_rng(5), 40_000
    root, rows = rng.beta(2, 5, draws), rng.beta([[1.0], [3.0]], [[6.0], [2.0]], (2, draws))
    cells = dc.Tables(network, {"a": np.stack([root, 1 - root]), "b": np.stack([rows, 1 - rows], axis=1)}, draws=draws)
    answer = dc.answer(dc.results.PosteriorDraws(cells), "P(a | b=s0)", level=0.95, predictive=True)
    joint = np.array([2 / 7 * 1 / 7, 5 / 7 * 3 / 5])
    deviation = (root * rows[0] - answer.rows[0]["mean"] * (root * rows[0] + (1 - root) * rows[1])).std()
    error = 5 * deviation / np.sqrt(draws) / joint.sum()
    assert answer.rows[0]["mean"] == pytest.approx(joint[0] / joint.sum(), abs=error)
    plain = dc.answer(dc.results.PosteriorDraws(cells), "P(a | b=s0)", level=0.95)
    assert abs(plain.rows[0]["mean"] - joint[0] / joint.sum()) > 2 * error


def test_predictive_intervals_are_those_of_weighted_draws() -> None:
    """A draw of weight 2 is as good as two draws of weight 1."""
    network = small(("a", 2, ()), ("b", 2, ("a",)))
    rng, draws = np.random.default_rng(6), 400
    half, inner = np.repeat([0.4, 0.8], draws // 2), rng.uniform(0.2, 0.8, draws)
    rows = np.stack([np.stack([2 * half * inner, 2 * half * (1 - inner)]) / 2] * 2)  # P(b=s0 | a) = half * inner
    cells = dc.Tables(
        network, {"a": np.stack([inner, 1 - inner]), "b": np.stack([rows[:, 0], 1 - rows[:, 0]], 1)}, draws=draws
    )
    weights = event(cells, (), {"b": 0})
    answer = dc.answer(dc.results.PosteriorDraws(cells), "P(a=s0 | b=s0)", level=0.9, predictive=True)
    order = np.argsort(inner)
    shares = np.cumsum(weights[order]) / weights.sum()
    for end, tail in (("lower", 0.05), ("upper", 0.95)):
        exact = inner[order][np.searchsorted(shares, tail)]
        assert answer.rows[0][end] == pytest.approx(exact, abs=0.01)


def test_weights_that_leave_few_draws_are_refused() -> None:
    network = small(("a", 2, ()), ("b", 2, ("a",)))
    rare = np.full(100, 1e-9)
    rare[:3] = 0.5
    cells = dc.Tables(
        network,
        {"a": np.full((2, 100), 0.5), "b": np.stack([np.stack([rare, rare]), np.stack([1 - rare, 1 - rare])], axis=1)},
        draws=100,
    )
    with pytest.raises(dc.InputError, match="fewer than 20 effective draws are left; ask for more draws"):
        dc.answer(dc.results.PosteriorDraws(cells), "P(a | b=s0)", level=0.9, predictive=True)
    assert dc.answer(dc.results.PosteriorDraws(cells), "P(a | b=s0)", level=0.9).rows[0]["mean"] == pytest.approx(0.5)


@pytest.mark.parametrize("predictive", [False, True])
def test_the_order_of_what_was_observed_says_nothing(predictive: bool) -> None:
    """To the last digit, where tables say more than the network: laws are then fitted axis by axis."""
    theta, rng = asia(), np.random.default_rng(1)
    records = dc.read_records(dc.tools.simulate_records(theta, 1000, rng=1), theta.network.schema)
    prior = dc.Dirichlet.uniform(theta.network)
    release = dc.simulate(dc.planned(), dc.count(records, theta.network), prior, guarantee(), rng=rng)
    posterior = release.posterior(draws=100, rng=1)
    for target, seen in (
        ("smoke", {"bronc": "no", "tub": "no", "either": "no"}),
        ("dysp", {"smoke": "yes", "asia": "no", "lung": "yes"}),
        ("xray", {"dysp": "yes", "smoke": "no"}),
    ):
        rows = [
            dc.answer(posterior, f"P({target} | {', '.join(told)})", predictive=predictive).rows
            for told in permutations(f"{name}={state}" for name, state in seen.items())
        ]
        assert all(each == rows[0] for each in rows)
        turned = dict(reversed(seen.items()))
        both = [dc.marginals(posterior, each, predictive=predictive) for each in (seen, turned)]
        assert [one.rows for one in both[0]] == [one.rows for one in both[1]]
