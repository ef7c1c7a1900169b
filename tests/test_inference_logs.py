"""Inference where probabilities leave the range of doubles: nothing underflows, only zeros are impossible."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from scipy.special import logsumexp

import discreet as dc
from discreet.inference import exact_laws
from discreet.inference.exact_laws import Laws
from folding import every
from networks import theta_of
from oracle import conditional, event, most_probable, small
from strategies import questions

EXACT = 1e-10
RELATIVE = 1e-12
"""Of a logarithm of a probability: sums of numbers as large as the logarithm round relatively to it."""
TINY = 1e-308
"""About the smallest probability that a draw has."""


@pytest.fixture
def always_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_laws, "LEAST_LOG", {np.float32: 1.0, np.float64: 1.0})


def log_of(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def test_logarithms_answer_as_the_oracle() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_laws, "LEAST_LOG", {np.float32: 1.0, np.float64: 1.0})

        @given(questions())
        def check(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
            cells, targets, evidence = question
            exact = conditional(cells, targets, evidence)
            np.testing.assert_allclose(Laws(cells).joint(targets, evidence), exact, atol=EXACT)
            np.testing.assert_allclose(
                Laws(cells).log_probability(evidence), log_of(event(cells, (), evidence)), atol=EXACT
            )
            for name, table in Laws(cells).marginals(evidence).items():
                np.testing.assert_allclose(table, conditional(cells, (name,), evidence), atol=EXACT)
            found = Laws(cells).most_probable(targets, evidence)
            for each in found:
                np.testing.assert_allclose(each.probability, exact[tuple(each.states.values())], atol=EXACT)
            if np.isnan(exact).any():
                return
            for draw, (_, best) in enumerate(most_probable(cells, targets, evidence)):
                assert max(each.probability[draw] for each in found) == pytest.approx(best, abs=EXACT)

        check()


def sparse(children: int, draws: int) -> tuple[dc.Tables, dict[str, int], np.ndarray]:
    """A class and its three-state children in draws of which most entries are next to nothing.

    Returns:
        (draws, evidence on all children, logarithm of the joint of each class and the evidence, shape (2, draws)).
    """
    rng = np.random.default_rng(7)
    names = [f"x{number}" for number in range(children)]
    network = small(("c", 2, ()), *((name, 3, ("c",)) for name in names))
    tables = {"c": np.full((2, draws), 0.5)}
    for name in names:
        rows = np.maximum(rng.dirichlet([0.01] * 3, size=(2, draws)), TINY)
        tables[name] = np.moveaxis(rows / rows.sum(axis=-1, keepdims=True), 1, -1)
    evidence = {name: int(rng.integers(3)) for name in names}
    logs = np.log(0.5) + sum(np.log(tables[name][:, evidence[name]]) for name in names)
    return dc.Tables(network, tables, draws=draws), evidence, logs


@every("dtype", [np.float32, np.float64])
@every("children", [2, 5, 16, 60])
def test_evidence_that_doubles_cannot_hold(children: int, dtype: type[np.floating]) -> None:
    cells, evidence, logs = sparse(children, draws=80)
    total = logsumexp(logs, axis=0)
    if children == 60:
        assert (total < math.log(TINY)).all()  # as plain products all of these are zero
    exact = np.exp(logs - total)
    rounding = RELATIVE * np.abs(logs).max() if dtype is np.float64 else 1e-6
    for found in (
        Laws(cells, dtype).joint(("c",), evidence),
        Laws(cells, dtype).marginals(evidence)["c"],
    ):
        np.testing.assert_allclose(found, exact, atol=rounding)
        np.testing.assert_allclose(found.sum(axis=0), 1, atol=1e-12 if dtype is np.float64 else 1e-6)
    np.testing.assert_allclose(
        Laws(cells, dtype).log_probability(evidence), total, rtol=RELATIVE if dtype is np.float64 else 1e-6
    )
    for each in Laws(cells, dtype).most_probable(("c",), evidence):
        assert each.best == (logs.argmax(axis=0) == each.states["c"]).mean()
        np.testing.assert_allclose(each.probability, exact[each.states["c"]], atol=rounding)


def test_a_chain_through_hidden_variables_keeps_its_digits() -> None:
    """Twelve observed leaves below a hidden chain: every message is as small as its leaf's probability."""
    network = small(
        *((f"h{i}", 2, (f"h{i - 1}",) if i else ()) for i in range(12)), *((f"x{i}", 2, (f"h{i}",)) for i in range(12))
    )
    rng = np.random.default_rng(11)
    tables = {}
    for node in network.nodes:
        if node.startswith("x"):  # state 1 next to impossible, whatever the parent
            rare = TINY * 10.0 ** rng.uniform(0, 6, size=(2, 5))
            tables[node] = np.stack([1 - rare, rare], axis=1)
        else:
            tables[node] = np.moveaxis(rng.dirichlet([1, 1], size=(*network.shape(node)[:-1], 5)), -1, -2)
    cells, evidence = dc.Tables(network, tables, draws=5), {f"x{i}": 1 for i in range(12)}
    logs = {}
    for states in product(range(2), repeat=12):
        logs[states] = np.log(tables["h0"][states[0]]) + sum(
            np.log(tables[f"h{i}"][states[i - 1], states[i]]) for i in range(1, 12)
        )
        logs[states] = logs[states] + sum(np.log(tables[f"x{i}"][states[i], 1]) for i in range(12))
    total = logsumexp(np.stack(list(logs.values())), axis=0)
    np.testing.assert_allclose(Laws(cells).log_probability(evidence), total, rtol=RELATIVE)
    for position, (name, table) in enumerate(Laws(cells).marginals(evidence).items()):
        assert name == f"h{position}"
        ones = logsumexp(np.stack([log for states, log in logs.items() if states[position] == 1]), axis=0)
        np.testing.assert_allclose(table[1], np.exp(ones - total), atol=1e-9)
    best = max(logs, key=lambda states: logs[states][0])
    found = Laws(cells).most_probable(tuple(f"h{i}" for i in range(12)), evidence)
    assert best in {tuple(each.states.values()) for each in found}


@pytest.mark.usefixtures("always_logarithms")
def test_alarm_with_thirty_observed_nodes_is_what_enumeration_gives() -> None:
    """The seven that are left are summed by hand."""
    truth = theta_of("alarm")
    network, rng = truth.network, np.random.default_rng(3)
    cells = dc.Tables(network, {node: np.maximum(table, TINY)[..., None] for node, table in truth.items()}, draws=1)
    hidden = tuple(rng.permutation(network.nodes)[:7].tolist())
    evidence = {name: int(rng.integers(network.schema[name].size)) for name in network.nodes if name not in hidden}
    sizes = [network.schema[name].size for name in hidden]
    logs = np.empty(sizes)
    for states in np.ndindex(*sizes):
        shown = {**evidence, **dict(zip(hidden, states, strict=True))}
        logs[states] = sum(
            math.log(cells[node][(*(shown[name] for name in network.family(node)), 0)]) for node in network.nodes
        )
    total = logsumexp(logs)
    np.testing.assert_allclose(Laws(cells).log_probability(evidence), [total], rtol=RELATIVE)
    exact = np.exp(logs - total)
    np.testing.assert_allclose(Laws(cells).joint(hidden, evidence)[..., 0], exact, atol=EXACT)
    for axis, name in enumerate(hidden):
        others = tuple(other for other in range(7) if other != axis)
        np.testing.assert_allclose(Laws(cells).marginals(evidence)[name][:, 0], exact.sum(axis=others), atol=EXACT)
    (first, *_) = Laws(cells).most_probable(hidden, evidence)
    assert tuple(first.states.values()) == np.unravel_index(exact.argmax(), exact.shape)
