"""Exact inference over draws against the enumerated joint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given

import discreet as dc
from discreet.inference.exact_laws import EVALUATED_EXPLANATIONS, Laws
from discreet.inference.kernels import Pass
from folding import every
from networks import asia
from oracle import conditional, event, most_probable, random_draws, small
from strategies import questions

EXACT = 1e-10


def log_of(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


@pytest.mark.costly("Wrong joint laws of odd networks are found beside an oracle on made-up ones.")
@given(questions())
def test_joint_is_that_of_the_oracle(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, targets, evidence = question
    found, expected = Laws(cells).joint(targets, evidence), conditional(cells, targets, evidence)
    possible = event(cells, (), evidence) > 0  # else: test_impossible_evidence
    np.testing.assert_allclose(found[..., possible], expected[..., possible], atol=EXACT)


@given(questions())
def test_marginals_are_those_of_the_oracle(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, _, evidence = question
    found = Laws(cells).marginals(evidence)
    assert list(found) == [name for name in cells.network.nodes if name not in evidence]
    for name, table in found.items():
        np.testing.assert_allclose(table, conditional(cells, (name,), evidence), atol=EXACT)


@given(questions())
def test_log_probability_is_that_of_the_oracle(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, _, evidence = question
    found = Laws(cells).log_probability(evidence)
    np.testing.assert_allclose(found, log_of(event(cells, (), evidence)), atol=EXACT)


@pytest.mark.costly("Brute force over all joint states of many networks.")
@given(questions())
def test_explanations_hold_the_best_of_every_draw(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, targets, evidence = question
    check_explanations(cells, targets, evidence)


def check_explanations(cells: dc.Tables, targets: tuple[str, ...], evidence: Mapping[str, int]) -> None:
    exact = conditional(cells, targets, evidence)
    found = Laws(cells).most_probable(targets, evidence)
    assert 1 <= len(found) <= min(EVALUATED_EXPLANATIONS, cells.draws)
    assert len({tuple(each.states.items()) for each in found}) == len(found)
    for each in found:
        assert tuple(each.states) == targets
        np.testing.assert_allclose(each.probability, exact[tuple(each.states.values())], atol=EXACT)
    if np.isnan(exact).any():
        return
    means = [each.probability.mean() for each in found]
    assert means == sorted(means, reverse=True)
    # Ties aside, no joint state is better under a draw than the best of those found.
    for draw, (_, best) in enumerate(most_probable(cells, targets, evidence)):
        assert max(each.probability[draw] for each in found) == pytest.approx(best, abs=EXACT)


ASIA = random_draws(asia().network, 4, seed=1)
QUESTIONS: list[tuple[tuple[str, ...], dict[str, int]]] = [
    (("lung",), {}),
    (("lung", "smoke"), {}),
    (("smoke", "lung"), {"dysp": 0}),
    (("xray", "tub", "bronc"), {"asia": 1, "dysp": 1}),
    (("asia", "smoke"), {"either": 0}),
    (("dysp", "asia", "xray", "smoke"), {"lung": 1}),
    (("tub",), {"asia": 0, "smoke": 1, "xray": 0, "dysp": 0, "bronc": 1, "lung": 0, "either": 1}),
]


@every(("targets", "evidence"), QUESTIONS)
def test_asia(targets: tuple[str, ...], evidence: dict[str, int]) -> None:
    expected = conditional(ASIA, targets, evidence)
    np.testing.assert_allclose(Laws(ASIA).joint(targets, evidence), expected, atol=EXACT)
    np.testing.assert_allclose(Laws(ASIA).log_probability(evidence), np.log(event(ASIA, (), evidence)), atol=EXACT)
    for name, table in Laws(ASIA).marginals(evidence).items():
        np.testing.assert_allclose(table, conditional(ASIA, (name,), evidence), atol=EXACT)
    check_explanations(ASIA, targets, evidence)
    check_explanations(ASIA, tuple(name for name in ASIA.network.nodes if name not in evidence), evidence)


def test_components_and_single_states() -> None:
    """An arc a -> b, a one-state c -> d, and e alone."""
    network = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 1, ()), ("d", 2, ("c",)), ("e", 2, ()))
    cells = random_draws(network, 3, seed=2)
    for targets in (("a", "d", "e"), ("c",), ("c", "e", "b"), network.nodes):
        for evidence in ({}, {"b": 2}, {"c": 0}, {"d": 1, "e": 0}):
            if set(targets) & set(evidence):
                continue
            expected = conditional(cells, targets, evidence)
            np.testing.assert_allclose(Laws(cells).joint(targets, evidence), expected, atol=EXACT)
            check_explanations(cells, targets, evidence)
    found = Laws(cells).marginals({"e": 1})
    np.testing.assert_allclose(found["b"], conditional(cells, ("b",), {}), atol=EXACT)
    assert np.array_equal(found["c"], np.ones((1, 3)))
    np.testing.assert_allclose(Laws(cells).log_probability({"e": 1}), np.log(cells["e"][1]), atol=EXACT)


def test_everything_is_observed() -> None:
    evidence = dict.fromkeys(ASIA.network.nodes, 0)
    assert Laws(ASIA).marginals(evidence) == {}
    expected = np.log(event(ASIA, (), evidence))
    np.testing.assert_allclose(Laws(ASIA).log_probability(evidence), expected, atol=EXACT)
    assert Laws(ASIA).log_probability({}).tolist() == [0] * 4


def impossible() -> dc.Tables:
    """A chain a -> b -> c and d alone; in the first of three draws a is never s1, b is never s0 and d is never s1."""
    network = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 2, ("b",)), ("d", 2, ()))
    arrays = {node: np.array(table) for node, table in random_draws(network, 3, seed=3).items()}
    for node, state in (("a", 1), ("b", 0), ("d", 1)):
        arrays[node][..., 0] = 0
        arrays[node][..., 1 - state, 0] = 1
    return dc.Tables(network, arrays, draws=3)


@every("evidence", [{"a": 1}, {"b": 0}, {"b": 0, "c": 1}, {"d": 1}, {"d": 1, "b": 1}])
def test_impossible_evidence(evidence: dict[str, int]) -> None:
    """NaN and -inf in the draw that rules the evidence out, wherever in the network that is, and only there."""
    cells = impossible()
    np.testing.assert_allclose(Laws(cells).log_probability(evidence), log_of(event(cells, (), evidence)))
    assert np.isneginf(Laws(cells).log_probability(evidence)[0])
    for name, table in Laws(cells).marginals(evidence).items():
        np.testing.assert_allclose(table, conditional(cells, (name,), evidence), atol=EXACT)
    check_explanations(cells, ("c",), evidence) if "c" not in evidence else None
    for target in ("a", "b", "c", "d"):
        if target not in evidence:
            expected = conditional(cells, (target,), evidence)
            assert np.isnan(expected[:, 0]).all()
            np.testing.assert_allclose(Laws(cells).joint((target,), evidence), expected, atol=EXACT)


def test_only_the_families_that_matter_are_read() -> None:
    """Ancestors that are not d-separated: a family that is read is a family that has to be drawn."""
    read = []

    def source(node: str) -> np.ndarray:
        read.append(node)
        return ASIA[node]

    for targets, evidence, needed in (
        (("smoke",), {}, {"smoke"}),
        (("lung",), {}, {"lung", "smoke"}),
        (("xray",), {"either": 0}, {"xray"}),
        (("bronc",), {"smoke": 1, "lung": 0}, {"bronc"}),
    ):
        read.clear()
        Laws(dc.Tables(ASIA.network, source, draws=4)).joint(targets, evidence)
        above = set(ASIA.network.ancestors(evidence)) if evidence else set()
        assert needed <= set(read) <= needed | above


@pytest.mark.parametrize(
    ("targets", "evidence", "left"),
    [
        (("xray",), {"either": 0}, {"xray"}),
        (("bronc",), {"smoke": 1, "lung": 0}, {"bronc"}),
        (("lung",), {"bronc": 0, "asia": 1}, {"lung", "smoke"}),
        (("lung",), {"dysp": 0}, {"lung", "smoke", "bronc", "either", "tub", "asia"}),
    ],
)
def test_what_is_separated_by_evidence_is_not_planned(
    monkeypatch: pytest.MonkeyPatch, targets: tuple[str, ...], evidence: dict[str, int], left: set[str]
) -> None:
    plans = []

    true = Pass.joint

    def spy(chunk: Pass, targets: Sequence[str]) -> object:
        plans.append(set(chunk.tree.sizes))
        return true(chunk, targets)

    monkeypatch.setattr(Pass, "joint", spy)
    found = Laws(ASIA).joint(targets, evidence)
    np.testing.assert_allclose(found, conditional(ASIA, targets, evidence), atol=EXACT)
    assert plans[0] == left


def test_a_star_of_many_observed_children_does_not_underflow() -> None:
    """400 observations, odds 2 each for the second state of their parent."""
    names = [f"x{i}" for i in range(400)]
    variables = (dc.Variable("c", ("a", "b")), *(dc.Variable(name, tuple("0123456789")) for name in names))
    network = dc.Network(variables, {"c": (), **dict.fromkeys(names, ("c",))})
    rows = np.stack([[0.05] + [0.95 / 9] * 9, [0.1] * 10])
    cells = dc.Tables(network, {"c": [[0.3], [0.7]], **dict.fromkeys(names, rows[..., None])}, draws=1)
    evidence = dict.fromkeys(names, 0)
    np.testing.assert_allclose(Laws(cells).joint(["c"], evidence)[:, 0], [0, 1], atol=1e-12)
    logs = [np.log(0.3) + 400 * np.log(0.05), np.log(0.7) + 400 * np.log(0.1)]
    np.testing.assert_allclose(Laws(cells).log_probability(evidence), np.logaddexp(*logs), rtol=1e-12)
    (explained,) = Laws(cells).most_probable(["c"], evidence)
    assert explained.states == {"c": 1} and explained.probability == pytest.approx(1)
