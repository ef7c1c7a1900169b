"""One message passing, two semirings: each keeps the laws of arithmetic, and passes in both find the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.junction_tree import Plan, plan_evidence, plan_explanation, plan_joint, plan_marginals
from discreet.inference.kernels import LOGARITHMS, PROBABILITIES, Pass, Semiring
from folding import every
from oracle import small, with_draws
from strategies import questions

RINGS = (PROBABILITIES, LOGARITHMS)
NUMBERS = np.array([[0.0, 0.25, 1.0], [0.5, 1e-300, 0.0]])


@every("ring", RINGS)
def test_a_semiring_reads_what_it_writes(ring: Semiring) -> None:
    (written,) = ring.write([NUMBERS])
    np.testing.assert_allclose(ring.read(written), NUMBERS, rtol=1e-12)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(ring.log(written), np.log(NUMBERS), rtol=1e-12)
    assert ring.read(np.full(1, ring.one)) == 1


@every("ring", RINGS)
def test_products_quotients_and_sums_are_those_of_what_is_written(ring: Semiring) -> None:
    one, other = ring.write([NUMBERS, NUMBERS[::-1].copy()])
    np.testing.assert_allclose(ring.read(ring.multiply(one, other)), NUMBERS * NUMBERS[::-1], rtol=1e-12)
    np.testing.assert_allclose(ring.read(ring.multiply(one, ring.one)), NUMBERS, rtol=1e-12)
    for axes in ((), (0,), (1,), (0, 1)):
        total = ring.add(one, axes)
        np.testing.assert_allclose(ring.read(total), NUMBERS.sum(axis=axes), rtol=1e-12)
        assert not np.shares_memory(total, one)  # it may be written to
    # Zero divided by zero is zero, once zeros are replaced.
    divided = ring.read(ring.divide(one, ring.replace_zeros(one)))
    np.testing.assert_allclose(divided, NUMBERS > 0, rtol=1e-12)


def test_logarithms_add_what_probabilities_cannot_hold() -> None:
    """Three numbers of 1e-500 each, and their sum beside a zero."""
    logs = np.array([-1151.0, -1151.0, -1151.0, -np.inf])[:, None]
    assert LOGARITHMS.add(logs, (0,)) == pytest.approx(np.log(3) - 1151, rel=1e-15)
    assert np.isneginf(LOGARITHMS.add(logs[3:], (0,))).all()


@given(st.data())
def test_sums_of_products_agree(data: st.DataObject) -> None:
    """Of one sum in any range, and of several sums of a law."""
    sizes = data.draw(st.lists(st.integers(1, 3), max_size=4))
    shape, axes = (*sizes, 2), range(len(sizes))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    views = [rng.random(shape)[tuple(slice(None, None if keep else 1) for keep in rng.random(len(shape)) < 0.7)]]
    views += [rng.random(shape)]
    kept = [data.draw(st.permutations(axes)) for _ in range(data.draw(st.integers(1, 3)))]
    kept = [axes[: data.draw(st.integers(0, len(axes)))] for axes in kept]
    if len(kept) > 1:
        views[-1] /= np.prod(np.broadcast_arrays(*views), axis=0).sum(axis=tuple(axes))
    expected = PROBABILITIES.sum_products(views, kept)
    found = LOGARITHMS.sum_products(LOGARITHMS.write(views), kept)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(LOGARITHMS.read(one), other, rtol=1e-12)


def passes(plan: Plan, cells: dc.Tables, evidence: dict[str, int]) -> list[Pass]:
    """One in each semiring."""
    factors = []
    for node, observed in zip(plan.nodes, plan.observed, strict=True):
        at = () if observed is None else tuple(slice(None) if name is None else evidence[name] for name in observed)
        factors.append(np.asarray(cells[node])[at])
    return [Pass(ring, plan.tree, factors, cells.draws or 1) for ring in RINGS]


@given(questions())
def test_passes_in_both_semirings_agree(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, targets, evidence = question
    network, seen = cells.network, frozenset(evidence)
    (law, total), (other, logs) = (
        chunk.joint(targets) for chunk in passes(plan_joint(network, targets, seen), cells, evidence)
    )
    np.testing.assert_allclose(other, law, atol=1e-12)
    np.testing.assert_allclose(logs, total, atol=1e-12)
    possible = np.isfinite(total)
    one, other = (chunk.joint(())[1] for chunk in passes(plan_evidence(network, seen), cells, evidence))
    np.testing.assert_allclose(other, one, atol=1e-12)
    possible &= np.isfinite(one)
    both = passes(plan_marginals(network, seen), cells, evidence)
    tables = [np.empty((sum(chunk.tree.sizes.values()), chunk.draws)) for chunk in both]
    np.testing.assert_allclose(*(chunk.marginals(table) for chunk, table in zip(both, tables, strict=True)), atol=1e-12)
    np.testing.assert_allclose(tables[1][:, possible], tables[0][:, possible], atol=1e-12)


@given(questions())
def test_maxima_in_both_semirings_agree(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    cells, targets, evidence = question
    both = passes(plan_explanation(cells.network, targets, frozenset(evidence)), cells, evidence)
    last = {name: cells.network.schema[name].size - 1 for name in targets}
    candidates = [dict.fromkeys(targets, 0), last]
    one, other = (chunk.log_of_states(candidates) for chunk in both)
    np.testing.assert_allclose(other, one, atol=1e-12)
    # States may differ where they are equally probable, and by a rounding only then.
    best = [chunk.most_probable() for chunk in both]
    for draw in range(cells.draws or 1):
        picked = [{name: int(codes[draw]) for name, codes in states.items()} for states in best]
        values = both[0].log_of_states(picked)[:, draw]
        np.testing.assert_allclose(values[0], values[1], atol=1e-12)


def test_what_probabilities_lose_logarithms_keep() -> None:
    """Two observations are 1e-400 times as probable in the state that a third one leaves than in the other."""
    network = small(("p", 2, ()), ("a", 2, ("p",)), ("x", 2, ("a",)), ("y", 2, ("a",)), ("q", 2, ("p",)))
    rare, sure = [[1.0, 1e-200], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]
    tables = {"p": [0.25, 0.75], "a": [[1.0, 0.0], [0.5, 0.5]], "x": rare, "y": rare, "q": sure}
    cells = with_draws(dc.Tables(network, {node: np.array(table) for node, table in tables.items()}))
    evidence = {"x": 1, "y": 1, "q": 1}
    plain, logs = passes(plan_joint(network, ("a",), frozenset(evidence)), cells, evidence)
    assert np.isneginf(plain.joint(("a",))[1]).all()
    law, total = logs.joint(("a",))
    np.testing.assert_allclose(total, np.log(0.25) - 400 * np.log(10), rtol=1e-12)
    np.testing.assert_allclose(law[:, 0], [1, 0], atol=1e-12)
    np.testing.assert_allclose(Laws(cells).joint(["a"], evidence), law, atol=1e-12)
