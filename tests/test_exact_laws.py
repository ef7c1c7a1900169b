"""The door to exact inference: every path to one number agrees, in every precision, and with enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import discreet as dc
from discreet.inference import exact_laws
from discreet.inference.exact_laws import ConditionalLaws, FactorLaws, Laws
from discreet.inference.forward import laws_from_roots
from folding import every
from networks import theta_of
from oracle import conditional, event, random_draws, small, with_draws
from strategies import questions

EXACT, SINGLE = 1e-10, 5e-6
Question = tuple[dc.Tables, tuple[str, ...], dict[str, int]]


@given(questions())
def test_every_path_to_a_law_agrees(question: Question) -> None:
    """The joint, the marginals, ratios of probabilities of evidence, and the most probable states."""
    cells, targets, evidence = question
    network, laws = cells.network, Laws(cells)
    given_, name = ConditionalLaws(cells, evidence, network, cells), targets[0]
    expected = conditional(cells, (name,), evidence)
    possible = event(cells, (), evidence) > 0
    log = laws.log_probability(evidence)
    for law in (laws.marginals(evidence)[name], given_.joint([name]), given_.marginals[name]):
        np.testing.assert_allclose(law, expected, atol=EXACT)
    for state in range(network.schema[name].size):
        with np.errstate(invalid="ignore"):
            ratio = np.exp(laws.log_probability({**evidence, name: state}) - log)
        np.testing.assert_allclose(ratio[possible], expected[state, possible], atol=EXACT)
        np.testing.assert_allclose(given_.probability({name: state})[possible], expected[state, possible], atol=EXACT)
    whole = laws.joint(targets, evidence)
    margin = whole.sum(axis=tuple(range(1, len(targets))))
    np.testing.assert_allclose(margin[..., possible], expected[..., possible], atol=EXACT)
    for each in laws.most_probable(targets, evidence):
        law = whole[tuple(each.states[name] for name in targets)]
        np.testing.assert_allclose(each.probability[possible], law[possible], atol=EXACT)


@given(questions())
def test_every_path_to_the_probability_of_evidence_agrees(question: Question) -> None:
    cells, targets, evidence = question
    with np.errstate(divide="ignore"):
        expected = np.log(event(cells, (), evidence))
    for dtype, close in ((np.float64, EXACT), (np.float32, 1e-4)):
        laws = Laws(cells, dtype)
        by_joint = laws.joint_and_evidence(targets, evidence)[1]
        for log in (laws.log_probability(evidence), laws.marginals_and_evidence(evidence)[1], by_joint):
            if log is not None:
                np.testing.assert_allclose(log, expected, atol=close)
    np.testing.assert_allclose(
        ConditionalLaws(cells, evidence, cells.network, cells).log_evidence, expected, atol=EXACT
    )


@given(questions())
def test_without_evidence_laws_are_those_from_the_roots(question: Question) -> None:
    cells, targets, _ = question
    found = laws_from_roots([targets], cells, seed=0).law(targets)
    np.testing.assert_allclose(Laws(cells).joint(targets), found, atol=EXACT)


@every("power", [5, 20, 60, 200])
def test_marginals_know_how_probable_weak_evidence_is_in_single_precision_too(power: int) -> None:
    """Draws that single precision is left for: their evidence had the probability that it made of them."""
    network = small(("a", 2, ()), *((f"x{i}", 2, ("a",)) for i in range(4)))
    row = np.array([[1 - 10.0**-power, 10.0**-power], [1 - 3 * 10.0**-power, 3 * 10.0**-power]])[..., None]
    cells = random_draws(network, 1, seed=3)
    cells = dc.Tables(network, {node: cells["a"] if node == "a" else row for node in network.nodes}, draws=1)
    evidence = {f"x{i}": 1 for i in range(4)}
    exact = -4 * power * np.log(10) + np.log(cells["a"][0] + 81 * cells["a"][1])
    for dtype in (np.float32, np.float64):
        laws, log = Laws(cells, dtype).marginals_and_evidence(evidence)
        np.testing.assert_allclose(log, exact, rtol=1e-6)
        np.testing.assert_allclose(log, Laws(cells).log_probability(evidence), rtol=1e-6)
        np.testing.assert_allclose(laws["a"][1], 81 * cells["a"][1] / (cells["a"][0] + 81 * cells["a"][1]), rtol=1e-6)


@pytest.mark.parametrize("together", [1, 2, 32])
def test_draws_of_one_call_may_need_all_three_stages(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence of 1e-2, of 1e-40 and of 1e-400, in chunks: each draw is as it is alone."""
    monkeypatch.setattr(exact_laws, "CHUNK_BYTES", 1)
    monkeypatch.setattr(exact_laws, "CHUNK_DRAWS", together)
    network = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 2, ("a",)))
    rare = np.tile([1e-1, 1e-20, 1e-200], 3)
    rows = np.stack([np.stack([1 - rare, rare]), np.stack([1 - rare / 2, rare / 2])])
    cells = dc.Tables(network, {"a": np.full((2, 9), 0.5), "b": rows, "c": rows}, draws=9)
    evidence = {"b": 1, "c": 1}
    for dtype in (np.float32, np.float64):
        laws = Laws(cells, dtype)
        np.testing.assert_allclose(laws.joint(["a"], evidence), [[0.8] * 9, [0.2] * 9], rtol=SINGLE)
        np.testing.assert_allclose(laws.marginals(evidence)["a"], [[0.8] * 9, [0.2] * 9], rtol=SINGLE)
        np.testing.assert_allclose(laws.log_probability(evidence), 2 * np.log(rare) + np.log(0.625), rtol=SINGLE)
        (best,) = laws.most_probable(["a"], evidence)
        assert best.states == {"a": 0} and best.best == 1
        np.testing.assert_allclose(best.probability, [0.8] * 9, rtol=SINGLE)


@pytest.mark.parametrize("name", ["alarm", "hailfinder", "win95pts"])
def test_large_networks_agree_in_every_stage(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large to enumerate: probabilities and logarithms find the same, with evidence on the leaves."""
    theta = theta_of(name)
    network, cells = theta.network, with_draws(theta)
    evidence = dict.fromkeys([n for n in network.nodes if not network.children(n)][:5], 0)
    if np.isneginf(Laws(cells).log_probability(evidence)).any():
        evidence = {}
    plain, log = Laws(cells).marginals_and_evidence(evidence)
    monkeypatch.setattr(exact_laws, "LEAST_LOG", {np.float32: 1.0, np.float64: 1.0})
    in_logs, other = Laws(cells).marginals_and_evidence(evidence)
    np.testing.assert_allclose(other, log, atol=1e-9)
    for node, law in plain.items():
        np.testing.assert_allclose(in_logs[node], law, atol=EXACT)


def test_laws_of_factors_are_the_margins_of_their_product() -> None:
    rng = np.random.default_rng(2)
    sizes, scopes = {"a": 2, "b": 3, "c": 2, "d": 4}, [("a", "b"), ("b", "c"), ("c", "d"), ("c",)]
    factors = [rng.random((*(sizes[name] for name in scope), 5)) for scope in scopes]
    product = np.einsum("abt,bct,cdt,ct->abcdt", *factors)
    product /= product.sum(axis=(0, 1, 2, 3))
    laws = FactorLaws(scopes, sizes)
    for scope, law in zip(scopes, laws.of(factors), strict=True):
        np.testing.assert_allclose(law, np.einsum(f"abcdt->{''.join(scope)}t", product), rtol=1e-12)
    assert laws.cells == 2 * 3 + 3 * 2 + 2 * 4
