"""What is assumed of pairs that no table holds: the network, what an audit taught, or nothing."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.evidence import measured_pairs, measured_sets
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, triple_weights
from discreet.queries.partial_identification import identification_bounds
from discreet.releases.combined import Combined
from folding import every
from tiny import network_of

NAMES = tuple("abcdefgh")
NETWORK = network_of(dict.fromkeys(NAMES, 2), "a>b c>d e>f g>h")
N = 12_000


def promise(epsilon: object = 1) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")


def codes(strength: float, seed: int) -> dict[str, np.ndarray]:
    """Records whose variables all lean on one that nobody sees: no arc between two of them can say so."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(2, size=N)
    return {name: np.where(rng.random(N) < strength, hidden, rng.integers(2, size=N)) for name in NAMES}


@cache
def read(strength: float, seed: int = 1, share: str = "0.1") -> dc.results.PosteriorDraws:
    """A posterior of a release that measured some pairs at random, and not others."""
    counts, prior = dc.tools.count_codes(NETWORK, codes(strength, seed)), dc.Dirichlet.uniform(NETWORK)
    made = dc.simulate(dc.planned(pairs_share=share), counts, prior, promise(), rng=np.random.default_rng(seed))
    return dc.noise_aware(made, draws=800, rng=np.random.default_rng(seed))


def unmeasured(posterior: dc.results.PosteriorDraws) -> list[tuple[str, str]]:
    assert posterior.basis is not None
    tables = measured_sets(posterior.basis.evidence)
    return [pair for pair in combinations(NAMES, 2) if not any(set(pair) <= table for table in tables)]


def width(answer: dc.results.Answer) -> float:
    return float(np.mean([row["upper"] - row["lower"] for row in answer.rows]))


# ---------------------------------------------------------------------------------------------------------- robust


def test_audited_pairs_are_told_apart_from_tables() -> None:
    posterior = read(0.0)
    assert posterior.basis is not None
    evidence = posterior.basis.evidence
    audited = measured_pairs(evidence)
    assert len(audited) >= 3
    first = measured_sets(evidence, pairs=False)
    assert not any(set(pair) <= table for pair in audited for table in first)
    assert all(any(set(pair) <= table for table in measured_sets(evidence)) for pair in audited)


def test_sizes_follow_the_audited_pairs() -> None:
    means = []
    for strength in (0.0, 0.3, 0.7):
        drawn = read(strength)
        parts = (drawn.saturated or drawn).parts
        assert parts is not None
        means.append(float(np.array(INTERACTION_SIZES) @ parts.sets.pair_sizes))
        np.testing.assert_array_equal(parts.sets.triple_sizes, triple_weights(parts.sets.pair_sizes))
    assert means[0] < 0.02 < means[1] < 0.16 < means[2] + 0.05


def test_answers_are_as_wide_as_the_network_was_wrong() -> None:
    for strength, ratio in ((0.0, (1.0, 2.5)), (0.5, (3.0, 1e3))):
        posterior = read(strength)
        asked = [f"P({', '.join(pair)})" for pair in unmeasured(posterior)[:6]]
        robust = dc.answer_many(posterior, asked, level=0.95)
        plain = dc.answer_many(posterior, asked, level=0.95, assume="network")
        assert {answer.basis for answer in robust} == {"assumed"}
        found = np.mean([width(one) for one in robust]) / np.mean([width(one) for one in plain])
        assert ratio[0] <= found <= ratio[1]


@pytest.mark.costly("That robust intervals hold shows over several data sets that deny the network.")
def test_robust_intervals_hold_where_the_networks_do_not() -> None:
    """Six made-up data sets: shares of pairs that nobody measured, by a network that is wrong in all of them."""
    held = dict.fromkeys(("network", "robust"), 0)
    asked = 0
    for seed in range(6):
        posterior = read(0.3, seed)
        truth = {(i, j): 0.25 * (1 + 0.09 * (1 if i == j else -1)) for i in range(2) for j in range(2)}
        for pair in unmeasured(posterior):
            for assume in held:
                answer = dc.answer(posterior, f"P({', '.join(pair)})", level=0.95, assume=assume)  # type: ignore[arg-type]
                for (i, j), row in zip(truth, answer.rows, strict=True):
                    held[assume] += row["lower"] <= truth[i, j] <= row["upper"]
            asked += 4
    assert asked > 200
    assert held["robust"] / asked > 0.9
    assert held["network"] / asked < 0.4


def test_without_an_audit_the_network_is_doubted_and_believed_on_request() -> None:
    counts, prior = dc.tools.count_codes(NETWORK, codes(0.0, 1)), dc.Dirichlet.uniform(NETWORK)
    made = dc.simulate(dc.planned(pairs_share=0), counts, prior, promise(), rng=np.random.default_rng(1))
    posterior = dc.noise_aware(made, draws=800, rng=np.random.default_rng(1))
    default, network, robust = (
        dc.answer(posterior, "P(a, c)", level=0.95, assume=assume)  # type: ignore[arg-type]
        for assume in (None, "network", "robust")
    )
    assert default == robust
    assert width(robust) > 3 * width(network)
    assert robust.rows[0]["mean"] == pytest.approx(network.rows[0]["mean"], abs=0.01)


def test_every_prediction_says_what_it_rests_on_as_its_answer_does() -> None:
    posterior = read(0.8)
    (first, other), *_ = unmeasured(posterior)
    third = next(name for name in NAMES if name not in (first, other))
    shown = {first: ["s0", None, "s1"], third: [None, None, "s1"]}
    found = dc.predict(posterior, shown, other, level=0.9)
    for record, mark in enumerate(found.basis):
        seen = ", ".join(f"{name}={column[record]}" for name, column in shown.items() if column[record] is not None)
        asked = dc.answer(posterior, f"P({other} | {seen})" if seen else f"P({other})", level=0.9)
        assert mark == asked.basis, seen
    assert found.basis[:2] == ("assumed", "measured")
    assert found.table()[f"{other} basis"].to_pylist() == list(found.basis)
    without = dc.results.PosteriorDraws(posterior.probabilities)
    assert dc.predict(without, shown, other, level=0.9).basis == ()


def test_an_answer_does_not_depend_on_what_else_is_asked() -> None:
    posterior = read(0.3)
    (one, other), *_ = unmeasured(posterior)
    alone = dc.answer(posterior, f"P({one}, {other})", level=0.95)
    dc.answer(posterior, f"P({one} | {other}=s0)", level=0.95, assume="network")
    assert dc.answer(posterior, f"P({one}, {other})", level=0.95) == alone


# --------------------------------------------------------------------------------------------------------- nothing


def test_of_a_pair_bounds_are_those_of_frechet() -> None:
    posterior = read(0.3)
    (one, other), *_ = unmeasured(posterior)
    found = dc.answer(posterior, f"P({one}, {other})", level=0.95, assume="nothing")
    p, q = (
        {row["state"][name]: row["mean"] for row in dc.answer(posterior, f"P({name})", level=0.95).rows}
        for name in (one, other)
    )
    for row in found.rows:
        a, b = p[row["state"][one]], q[row["state"][other]]
        assert row["lower"] == pytest.approx(max(0, a + b - 1), abs=0.03)
        assert row["upper"] == pytest.approx(min(a, b), abs=0.03)
        assert row["lower"] <= row["mean"] <= row["upper"]
    assert found.basis == "assumed"
    assert {row["noise"] for row in found.rows} == {None}


def test_what_was_measured_needs_no_bounds() -> None:
    posterior = read(0.3)
    assert dc.answer(posterior, "P(a, b)", level=0.95, assume="nothing") == dc.answer(
        posterior, "P(a, b)", level=0.95, assume="network"
    )


def margins(law: np.ndarray, parts: list[tuple[int, ...]]) -> np.ndarray:
    return np.concatenate([law.sum(axis=tuple({0, 1, 2} - set(part))).ravel() for part in parts])


def test_the_ends_are_those_of_the_laws_with_the_margins() -> None:
    """Of three bits with two pairs known: such laws differ along two directions, and answers are extreme at corners."""
    rng = np.random.default_rng(5)
    swing = np.array([[1.0, -1], [-1, 1]])
    for _ in range(20):
        law = rng.dirichlet(np.ones(8)).reshape(2, 2, 2)
        found = identification_bounds(
            ("x", "y", "z"), law[..., None], [("x", "y"), ("y", "z")], [{"x": 0}, {"x": 1}], {"z": 1}, 0.95
        )
        corners = []
        for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            other = law.copy()
            for y, sign in enumerate(signs):
                other[:, y] += sign * law[:, y][swing == -sign].min() * swing
            np.testing.assert_allclose(margins(other, [(0, 1), (1, 2)]), margins(law, [(0, 1), (1, 2)]))
            assert other.min() >= -1e-15
            corners.append(other[:, :, 1].sum(axis=1) / other[:, :, 1].sum())
        np.testing.assert_allclose(np.min(corners, axis=0), found.lower, atol=1e-9)
        np.testing.assert_allclose(np.max(corners, axis=0), found.upper, atol=1e-9)


# -------------------------------------------------------------------------------------------------------- bad input


@every(
    ("query", "options", "text"),
    [
        ("P(a, c)", {"assume": "much"}, "assume network, robust or nothing"),
        ("MAP(a, c)", {"assume": "nothing"}, "ask for P"),
        ("P(a | c=s0)", {"assume": "nothing", "predictive": True}, "leave out one of the two"),
    ],
)
def test_what_cannot_be_assumed_is_refused(query: str, options: dict[str, object], text: str) -> None:
    with pytest.raises(dc.InputError, match=text):
        dc.answer(read(0.0), query, level=0.95, **options)  # type: ignore[arg-type]


def test_a_posterior_that_believes_its_network_assumes_it() -> None:
    basis = read(0.0).basis
    assert basis is not None
    assert isinstance(basis.evidence, Combined)
    trusting = dc.noise_aware(basis.evidence, draws=50, rng=np.random.default_rng(1), trust_network=True)
    with pytest.raises(dc.InputError, match="believes its network"):
        dc.answer(trusting, "P(a, c)", level=0.95, assume="robust")


def test_too_many_joint_states_have_no_bounds() -> None:
    law = np.full((17, 17, 17, 1), 17.0**-3)
    with pytest.raises(dc.InputError, match=r"up to 4,096 joint states and 64 rows"):
        identification_bounds(("x", "y", "z"), law, [("x",), ("y",), ("z",)], [{"x": 0}], {}, 0.95)


def test_no_rows_have_no_bounds() -> None:
    found = identification_bounds(("x", "y"), np.full((2, 2, 3), 0.25), [("x",), ("y",)], [], {}, 0.95)
    assert found.lower.shape == found.upper.shape == (0,)
