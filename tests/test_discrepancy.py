"""What triples have beyond their pairs: its law, and what measured ones teach of its size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from discreet.inference.interactions import contrast_matrices, positions, subsets, transformed
from discreet.posterior.pooled import discrepancy
from discreet.posterior.pooled.discrepancy import (
    INTERACTION_SIZES,
    PAIR_PRIOR,
    TRIPLE_PRIOR,
    draw_interaction,
    pair_weights,
    triple_weights,
    triples_of,
)
from discreet.posterior.pooled.least_squares import Margins
from oracle import small

NETWORK = small(*((f"v{index}", 2 + index % 2, ()) for index in range(9)))
TRIPLES = [tuple(f"v{first + step}" for step in range(3)) for first in (0, 3, 6)]


def law(sizes: tuple[int, ...], seed: int) -> np.ndarray:
    """Of three variables with pairs that depend and no interaction of all three."""
    rng = np.random.default_rng(seed)
    table = np.ones(sizes)
    for axis in range(3):
        table = table * rng.uniform(0.5, 1.5, [1 if other == axis else size for other, size in enumerate(sizes)])
    return table / table.sum()


def margins(tau: float, n: float, variance: float, seed: int) -> Margins:
    """Three triples with interactions of one size, measured."""
    rng = np.random.default_rng(seed)
    values, variances = {(): np.array(n)}, {(): 1.0}
    for number, triple in enumerate(TRIPLES):
        own = law(tuple(NETWORK.schema[name].size for name in triple), 10 * seed + number)[..., None]
        moved = own + draw_interaction(own, np.array([tau]), rng, 1, np.array([0]))
        counts = n * np.maximum(moved[..., 0], 0)
        coordinates = transformed(counts, contrast_matrices(counts.shape))
        for inside, part in positions(triple):
            if inside:
                share = np.sqrt(NETWORK.cells(inside) / counts.size)
                shape = [NETWORK.schema[name].size - 1 for name in inside]
                found = coordinates[part].reshape(shape) / share
                values[inside] = found + np.sqrt(variance) * rng.standard_normal(shape)
                variances[inside] = variance
    return Margins(NETWORK, values, variances)


def test_without_triples_the_prior_stays() -> None:
    assert sum(TRIPLE_PRIOR) == pytest.approx(1) and len(TRIPLE_PRIOR) == len(INTERACTION_SIZES)
    assert triple_weights(margins(0.1, 1e4, 9.0, 1), [], None) == pytest.approx(TRIPLE_PRIOR)


@pytest.mark.parametrize("seed", range(3))
def test_measured_triples_teach_the_size(seed: int) -> None:
    means = [
        float(triple_weights(margins(tau, 3e4, 25.0, seed), TRIPLES, None) @ INTERACTION_SIZES)
        for tau in (0.0, 0.08, 0.32)
    ]
    prior = float(np.array(TRIPLE_PRIOR) @ INTERACTION_SIZES)
    assert means[0] < prior < means[1] < means[2]
    assert means[2] > 0.06


def test_noise_that_hides_everything_teaches_nothing() -> None:
    found = triple_weights(margins(0.0, 1e3, 1e8, 4), TRIPLES, None)
    np.testing.assert_allclose(found, TRIPLE_PRIOR, atol=0.01)


def at_least(weights: np.ndarray) -> np.ndarray:
    """Probability of each size or a larger one."""
    return np.cumsum(np.asarray(weights)[::-1])[::-1]


def test_audited_pairs_that_hold_make_triples_more_credible_and_others_change_nothing() -> None:
    """What triples teach, or the prior's tail where that is heavier, times how much rarer the audit made each size."""
    told = margins(0.08, 3e4, 25.0, 2)
    alone = at_least(triple_weights(told, TRIPLES, None))
    wrong = triple_weights(told, TRIPLES, np.array([0.0, 0.0, 0.0, 0.1, 0.3, 0.3, 0.3]))
    np.testing.assert_allclose(at_least(wrong), np.maximum(alone, at_least(np.array(TRIPLE_PRIOR))))
    right = np.array(PAIR_PRIOR) * [1, 1, 1, 0.1, 0.1, 0.1, 0.1]
    right[0] += 1 - right.sum()
    found = triple_weights(told, TRIPLES, right)
    assert found.sum() == pytest.approx(1) and np.all(found >= 0)
    np.testing.assert_allclose(at_least(found)[3:], 0.1 * at_least(wrong)[3:])


PAIRS = [(f"v{first}", f"v{first + 1}") for first in (0, 2, 4, 6)]


def pairs_told(tau: float, n: float, variance: float, seed: int) -> tuple[Margins, dict[tuple[str, ...], np.ndarray]]:
    """Four pairs that a posterior takes for independent, with interactions of one size, measured."""
    rng = np.random.default_rng(seed)
    values, variances = {(): np.array(n)}, {(): 1.0}
    laws = {}
    for pair in PAIRS:
        sizes = [NETWORK.schema[name].size for name in pair]
        own = np.full((*sizes, 200), 1 / np.prod(sizes))
        laws[pair] = own
        moved = own[..., :1] + draw_interaction(own[..., :1], np.array([tau]), rng, 1, np.array([0]))
        coordinates = transformed(n * moved[..., 0], contrast_matrices(sizes))
        for inside, part in positions(pair):
            if inside:
                shape = [NETWORK.schema[name].size - 1 for name in inside]
                scale = np.sqrt(np.prod(sizes) / NETWORK.cells(inside))
                noise = np.sqrt(variance + n / np.prod(sizes)) * rng.standard_normal(shape)
                values[inside], variances[inside] = coordinates[part].reshape(shape) * scale + noise, variance
    return Margins(NETWORK, values, variances), laws


def test_without_pairs_the_prior_stays() -> None:
    told, _ = pairs_told(0.0, 1e4, 25.0, 1)
    assert pair_weights(told, {}, {}) == pytest.approx(PAIR_PRIOR)


def test_pairs_of_too_many_states_teach_nothing_though_they_were_chosen() -> None:
    network = small(("a", 13, ()), ("b", 13, ()))
    laws = {("a", "b"): np.full((13, 13, 5), 1 / 169)}
    empty = Margins(network, {(): np.array(1e4)}, {(): 1.0})
    assert pair_weights(empty, laws, {("a", "b"): 100.0}) == pytest.approx(PAIR_PRIOR)


@pytest.mark.parametrize("seed", range(3))
def test_audited_pairs_teach_the_size(seed: int) -> None:
    means = [
        float(pair_weights(*pairs_told(tau, 3e4, 100.0, seed), {}) @ INTERACTION_SIZES) for tau in (0.0, 0.08, 0.32)
    ]
    prior = float(np.array(PAIR_PRIOR) @ INTERACTION_SIZES)
    assert means[0] < prior / 2 and means[1] < means[2] and means[2] > 2 * prior


def test_what_is_larger_than_all_that_was_chosen_would_have_been_chosen() -> None:
    """Chosen pairs that hold say more than pairs taken at random do, the more the sharper the choice was."""
    told, laws = pairs_told(0.0, 3e4, 100.0, 5)
    taken = at_least(pair_weights(told, laws, {}))
    blunt, sharp = (at_least(pair_weights(told, laws, dict.fromkeys(PAIRS, scale))) for scale in (1e6, 300.0))
    np.testing.assert_allclose(blunt, taken, rtol=0.05)
    assert np.all(sharp[4:] < 0.1 * taken[4:]) and sharp[4] > 0
    told, laws = pairs_told(0.16, 3e4, 100.0, 6)
    taken, sharp = (at_least(pair_weights(told, laws, chosen)) for chosen in ({}, dict.fromkeys(PAIRS, 300.0)))
    assert sharp[3] > 0.5 * taken[3]  # those chosen are off themselves: so may be others


def test_an_interaction_keeps_pairs_and_has_its_covariance() -> None:
    sizes, draws = (2, 3, 2), 40_000
    own = np.broadcast_to(law(sizes, 5)[..., None], (*sizes, draws))
    delta = draw_interaction(own, np.full(draws, 0.1), np.random.default_rng(6), draws, np.arange(draws))
    for axis in range(3):
        np.testing.assert_allclose(delta.sum(axis=axis), 0, atol=1e-12)
    singles = [own[..., 0].sum(axis=tuple(other for other in range(3) if other != axis)) for axis in range(3)]
    wanted = np.ones((1, 1))
    for single in singles:
        wanted = np.kron(wanted, np.diag(single) - np.outer(single, single))
    flat = delta.reshape(-1, draws)
    np.testing.assert_allclose(flat @ flat.T / draws, 0.01 * wanted, atol=7e-6)  # seven deviations of an entry


def test_draws_that_are_picked_have_the_same_interaction() -> None:
    own = np.broadcast_to(law((2, 2, 2), 7)[..., None], (2, 2, 2, 50))
    tau = np.linspace(0, 0.3, 50)
    every = draw_interaction(own, tau, np.random.default_rng(8), 50, np.arange(50))
    some = draw_interaction(own[..., [3, 40]], tau, np.random.default_rng(8), 50, np.array([3, 40]))
    np.testing.assert_allclose(some, every[..., [3, 40]], rtol=1e-9, atol=1e-15)
    assert np.all(every[..., 0] == 0)


def test_the_law_of_the_pairs_has_no_interaction_of_three() -> None:
    counts = np.random.default_rng(9).uniform(5, 50, (2, 3, 4))
    found = discrepancy._remove_interaction(counts)
    for axis in range(3):
        np.testing.assert_allclose(found.sum(axis=axis), counts.sum(axis=axis) / counts.sum(), rtol=1e-4)
    logs = np.log(found)
    for axis in range(3):
        logs = np.diff(logs, axis=axis)
    np.testing.assert_allclose(logs, 0, atol=1e-10)


def test_triples_of_tables_are_listed_once() -> None:
    found = triples_of([frozenset("abc"), frozenset("abcd"), frozenset("ab")], "dcba")
    assert sorted(map(sorted, found)) == sorted(map(list, combinations("abcd", 3)))
    assert all("dcba".index(one) < "dcba".index(other) for triple in found for one, other in combinations(triple, 2))
    assert len(subsets(found)) > len(found)
