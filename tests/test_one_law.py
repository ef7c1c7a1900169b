"""One number has one value, whichever way it is asked for: rows, answers, predictions, records, files, server.

The network is wrong: two causes that go together are not joined, and a pair that no family holds was measured.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.inference import kernels
from discreet.inference.exact_laws import ConditionalLaws, Laws
from oracle import conditional, event
from serving import Local
from tiny import network_of

NETWORK = network_of({"a": 3, "x": 2, "b": 2, "c": 2, "d": 3}, "x>b a>c b>c c>d")
RECORDS = 20_000
CLOSE = 1e-5
"""Rounding of laws in single precision."""


def records() -> dict[str, np.ndarray]:
    """Of people whose a and b go together by a cause that nobody drew, and whose d follows a too."""
    rng = np.random.default_rng(3)
    a, x = rng.integers(3, size=RECORDS), rng.integers(2, size=RECORDS)
    b = (rng.random(RECORDS) < 0.15 + 0.3 * a * (0.5 + 0.5 * x)).astype(np.int64)
    c = (rng.random(RECORDS) < np.array([[0.2, 0.6], [0.5, 0.5], [0.9, 0.3]])[a, b]).astype(np.int64)
    d = np.clip(c + (rng.random(RECORDS) < 0.2 + 0.2 * a), 0, 2)
    return {"a": a, "x": x, "b": b, "c": c, "d": d}


def released(network: dc.Network, codes: dict[str, np.ndarray], epsilon: float = 2.0) -> dc.Release:
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    counts = dc.tools.count_codes(network, codes)
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=np.random.default_rng(4))


@cache
def read() -> dc.results.PosteriorDraws:
    return dc.noise_aware(released(NETWORK, records()), draws=600, rng=np.random.default_rng(5))


def rows(posterior: dc.results.PosteriorDraws, query: str) -> np.ndarray:
    """Mean, lower and upper end of each row of an answer."""
    return np.array([[row["mean"], row["lower"], row["upper"]] for row in dc.answer(posterior, query).rows])


@pytest.mark.parametrize("node", NETWORK.nodes)
def test_rows_are_the_answers_of_their_family(node: str) -> None:
    """Mean and interval of every entry of every table, of the causes' child as well: its draws are those of the law."""
    posterior, parents = read(), NETWORK.parents[node]
    own = posterior.probabilities[node]
    for place in np.ndindex(*own.shape[:-2]):
        given = ", ".join(f"{name}={NETWORK.schema[name].states[at]}" for name, at in zip(parents, place, strict=True))
        found = rows(posterior, f"P({node} | {given})" if given else f"P({node})")
        np.testing.assert_allclose(found[:, 0], own[place].mean(axis=-1), atol=2e-3)
        np.testing.assert_allclose(found[:, 0], posterior.mean()[node][place], atol=2e-3)
        np.testing.assert_allclose(found[:, 1], np.quantile(own[place], 0.025, axis=-1), atol=8e-3)


def test_answers_sum_to_each_other() -> None:
    posterior = read()
    whole = rows(posterior, "P(a, b, c)")[:, 0].reshape(3, 2, 2)
    np.testing.assert_allclose(rows(posterior, "P(a, b)")[:, 0], whole.sum(axis=2).ravel(), atol=CLOSE)
    np.testing.assert_allclose(rows(posterior, "P(c, a)")[:, 0], whole.sum(axis=1).T.ravel(), atol=CLOSE)
    np.testing.assert_allclose(rows(posterior, "P(b)")[:, 0], whole.sum(axis=(0, 2)), atol=CLOSE)
    fixed = rows(posterior, "P(a=s1, b | c=s0)")
    np.testing.assert_allclose(fixed, rows(posterior, "P(a, b | c=s0)")[2:4], atol=CLOSE)


@pytest.mark.parametrize("evidence", [{}, {"a": "s0"}, {"a": "s2", "d": "s1"}])
def test_marginals_and_predictions_are_answers(evidence: dict[str, str]) -> None:
    posterior, given = read(), ", ".join(f"{name}={state}" for name, state in evidence.items())
    for each in dc.marginals(posterior, evidence):
        found = np.array([[row["mean"], row["lower"], row["upper"]] for row in each.rows])
        np.testing.assert_allclose(found, rows(posterior, each.query), atol=CLOSE)
    told = dc.predict(posterior, {name: [state] for name, state in evidence.items()} or {"a": [None]}, "b")
    own = rows(posterior, f"P(b | {given})" if given else "P(b)")
    np.testing.assert_allclose(np.stack([told.mean[0], told.lower[0], told.upper[0]], axis=1), own, atol=CLOSE)


@pytest.mark.parametrize("pair", [("a", "b"), ("a", "d"), ("x", "d"), ("b", "c")])
def test_records_are_drawn_from_the_law(pair: tuple[str, str]) -> None:
    """Of the mean: to six deviations of a share of 200,000 records. Of sets: each has the law of its own draw."""
    posterior, n = read(), 200_000
    made = next(iter(dc.sample(posterior, n, rng=np.random.default_rng(6)))).read_all().to_pandas()
    shares = made.groupby(list(pair)).size().to_numpy() / n
    wanted = rows(posterior, f"P({', '.join(pair)})")[:, 0]
    assert np.all(np.abs(shares - wanted) < 6 * np.sqrt(wanted / n) + CLOSE)


def test_stored_draws_answer_as_the_posterior_does(tmp_path: Path) -> None:
    posterior = read()
    posterior.save(tmp_path / "r.draws")
    stored = dc.results.PosteriorDraws.load(tmp_path / "r.draws")
    for query in ("P(a, b)", "P(d | a=s0)", "P(x, d)", "MAP(a, b, c)"):
        assert dc.answer(stored, query) == dc.answer(posterior, query)
    with Local([tmp_path / "r.draws"]) as server:
        got = server.ask("/releases/r/query?q=P(a,b)").json()
    (told,) = got["answers"]
    own = dc.answer(posterior, "P(a, b)").rows
    assert [(row["mean"], row["upper"]) for row in told["values"]] == [(row["mean"], row["upper"]) for row in own]
    assert json.dumps(told)  # nothing in it is NaN


def test_what_was_measured_without_noise_is_the_tables_own_share() -> None:
    """Pairs of the table, the causes that no arc joins among them, at an epsilon that adds no noise to speak of."""
    codes = records()
    posterior = dc.noise_aware(released(NETWORK, codes, 1e4), draws=600, rng=np.random.default_rng(7))
    for pair in (("a", "b"), ("b", "c"), ("a", "d"), ("x", "a")):
        shares = np.zeros([NETWORK.schema[name].size for name in pair])
        np.add.at(shares, tuple(codes[name] for name in pair), 1 / RECORDS)
        answer = dc.answer(posterior, f"P({', '.join(pair)})")
        assert answer.basis == "measured"
        found = np.array([row["mean"] for row in answer.rows])
        # A third of what sampling leaves open: the table is known, and what it is a sample of is not.
        assert np.all(np.abs(found - shares.ravel()) < np.sqrt(shares.ravel() / RECORDS) / 3 + 2e-5), pair


def test_complete_columns_are_read_alike_whatever_gaps_others_have() -> None:
    """As a state and at random; the gaps of b depend on a."""
    codes = records()
    rng = np.random.default_rng(8)
    codes["b"] = np.where(rng.random(RECORDS) < 0.1 + 0.1 * codes["a"], 2, codes["b"])
    posterior = dc.noise_aware(released(NETWORK.with_missing(["b"]), codes), draws=600, rng=np.random.default_rng(9))
    complete = dc.tools.assume_at_random(posterior)
    for query in ("P(a)", "P(a, d)", "P(x)", "P(d | a=s1)"):
        one, other = rows(posterior, query), rows(complete, query)
        np.testing.assert_allclose(other[:, 0], one[:, 0], atol=3e-3)
        np.testing.assert_allclose(other, one, atol=1e-2)
        assert dc.answer(complete, query).basis == dc.answer(posterior, query).basis


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(
    "evidence", [{}, {"d": 1}, {"a": 0, "x": 1}, {"x": 0, "c": 1, "d": 2}, {"b": 1, "c": 0, "d": 0}]
)
def test_every_pass_over_the_law_finds_what_enumeration_does(
    evidence: dict[str, int], blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One target or all, evidence before or with it, in one block or in many, in either precision, under every draw."""
    law = read().law
    if blocks:
        monkeypatch.setattr(kernels, "SMALL_ENTRIES", 0)
        monkeypatch.setattr(kernels, "BLOCK_ENTRIES", 700)
    fine = dc.Tables(law.cells.network, {node: law.cells[node].astype(float) for node in law.cells}, draws=600)
    given = ConditionalLaws(law.cells, evidence, law.network, law.cells)
    told = event(fine, (), evidence)
    for name in set(NETWORK.nodes).difference(evidence):
        exact = conditional(fine, (name,), evidence)
        alone, log = given.joint_and_evidence([name])
        assert log is None or np.allclose(np.exp(log), told, rtol=CLOSE)
        for found in (alone, given.marginals[name], Laws(fine).joint((name,), evidence)):
            np.testing.assert_allclose(found, exact, atol=CLOSE / 5)
        for state in range(NETWORK.schema[name].size):
            np.testing.assert_allclose(given.probability({name: state}), exact[state], atol=CLOSE / 5)
    for log in (given.log_evidence, given.marginals_and_evidence[1]):
        np.testing.assert_allclose(np.exp(log), told, rtol=CLOSE)
