"""The law of complete records behind one table with gaps, against brute force and laws that are known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.posterior import law_parts as completed_sets
from discreet.posterior.law_parts import complete_set
from folding import every


def seen_law(theta: np.ndarray, gaps: list[bool], rng: np.random.Generator, most: float = 0.4) -> np.ndarray:
    """What is seen of complete records of which each value may be missing with a chance of its column's own."""
    law = theta
    for axis, gap in enumerate(gaps):
        if gap:
            chance = rng.uniform(0.05, most)
            law = np.concatenate([law * (1 - chance), chance * law.sum(axis=axis, keepdims=True)], axis=axis)
    return law


def log_likelihood(theta: np.ndarray, law: np.ndarray, gaps: list[bool]) -> float:
    """Of what was seen: cell by cell, with the complete records that agree with each."""
    found = 0.0
    for cell in product(*map(range, law.shape)):
        agrees = tuple(
            slice(None) if gap and at == size - 1 else slice(at, at + 1)
            for at, size, gap in zip(cell, law.shape, gaps, strict=True)
        )
        found += law[cell] * np.log(theta[agrees].sum())
    return found


CASES = [((2, 3), [False, True]), ((3, 3), [True, True]), ((3, 2, 3), [True, False, True]), ((3, 3, 3), [True] * 3)]


@every(("sizes", "gaps"), CASES)
def test_it_is_where_what_was_seen_is_most_probable(sizes: tuple[int, ...], gaps: list[bool]) -> None:
    """Against a search over all laws, from a table that no law of gaps made: every one has another maximum."""
    rng = np.random.default_rng(sum(sizes))
    law = rng.dirichlet(np.ones(int(np.prod(sizes))), 3).T.reshape(*sizes, 3)
    complete = complete_set(law, gaps)
    shape = complete.shape[:-1]
    np.testing.assert_allclose(complete.reshape(-1, 3).sum(axis=0), 1)

    def loss(free: np.ndarray, one: np.ndarray) -> float:
        theta = np.exp(free - free.max())
        return -log_likelihood((theta / theta.sum()).reshape(shape), one, gaps)

    for draw in range(3):
        one = law[..., draw]
        best = minimize(loss, np.zeros(int(np.prod(shape))), args=(one,), method="BFGS", options={"gtol": 1e-7})
        assert log_likelihood(complete[..., draw], one, gaps) >= -best.fun - 1e-8
        found = np.exp(best.x - best.x.max())
        np.testing.assert_allclose(complete[..., draw], (found / found.sum()).reshape(shape), atol=2e-3)


@every(("sizes", "gaps"), CASES)
def test_gaps_that_depend_on_nothing_change_nothing(sizes: tuple[int, ...], gaps: list[bool]) -> None:
    rng = np.random.default_rng(5)
    shape = [size - gap for size, gap in zip(sizes, gaps, strict=True)]
    theta = rng.dirichlet(np.ones(int(np.prod(shape))), 20).T.reshape(*shape, 20)
    np.testing.assert_allclose(complete_set(seen_law(theta, gaps, rng), gaps), theta, atol=1e-6)


def test_gaps_may_depend_on_what_is_seen_beside_them() -> None:
    """Half of the values are missing where the other column says yes, and a tenth where it says no."""
    theta = np.random.default_rng(6).dirichlet(np.ones(6), 10).T.reshape(2, 3, 10)
    chance = np.array([0.1, 0.5])[:, None, None]
    law = np.concatenate([theta * (1 - chance), chance * theta.sum(axis=1, keepdims=True)], axis=1)
    np.testing.assert_allclose(complete_set(law, [False, True]), theta, atol=1e-6)


def test_without_a_gap_a_law_stays_as_it_is() -> None:
    law = np.random.default_rng(7).dirichlet(np.ones(6), 4).T.reshape(2, 3, 4)
    np.testing.assert_allclose(complete_set(law, [False, False]), law, rtol=1e-12)


def test_what_is_never_seen_stays_even_and_finite() -> None:
    law = np.zeros((3, 3, 2))
    law[2, 2, 0] = 1  # nothing is seen at all
    law[0, 0, 1] = law[0, 2, 1] = 0.5  # and here one state of each alone
    found = complete_set(law, [True, True])
    np.testing.assert_allclose(found[..., 0], 0.25)
    np.testing.assert_allclose(found[..., 1], [[1, 0], [0, 0]], atol=1e-6)


def test_draws_do_not_see_each_other() -> None:
    law = np.random.default_rng(8).dirichlet(np.ones(9), 6).T.reshape(3, 3, 6)
    every_one = complete_set(law, [True, True])
    alone = np.concatenate([complete_set(law[..., [at]], [True, True]) for at in range(6)], axis=-1)
    np.testing.assert_allclose(every_one, alone, atol=1e-6)


@pytest.mark.parametrize("lost", [0.1, 0.3])
def test_it_ends_when_nothing_changes_any_more(lost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a thousand rounds have it, in far fewer."""
    theta = np.random.default_rng(9).dirichlet(np.ones(4), 50).T.reshape(2, 2, 50)
    law = seen_law(theta, [True] * 2, np.random.default_rng(1), lost)
    monkeypatch.setattr(completed_sets, "LARGEST_CHANGE", 0.0)
    monkeypatch.setattr(completed_sets, "MOST_ROUNDS", 1000)
    right = complete_set(law, [True, True])
    monkeypatch.undo()
    monkeypatch.setattr(completed_sets, "MOST_ROUNDS", 60)
    np.testing.assert_allclose(complete_set(law, [True, True]), right, atol=1e-6)
