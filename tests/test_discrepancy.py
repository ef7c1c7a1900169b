"""What pairs and triples have beyond their parts: its law, and what measured pairs teach of its size."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.inference.interactions import contrast_matrices, positions, transformed
from discreet.posterior.pooled.discrepancy import (
    CHOSEN_PRIOR,
    INTERACTION_SIZES,
    PAIR_PRIOR,
    draw_interaction,
    pair_weights,
    triple_weights,
)
from discreet.posterior.pooled.least_squares import Margins
from oracle import small

NETWORK = small(*((f"v{index}", 2 + index % 2, ()) for index in range(9)))


def law(sizes: tuple[int, ...], seed: int) -> np.ndarray:
    """Of three variables with pairs that depend and no interaction of all three."""
    rng = np.random.default_rng(seed)
    table = np.ones(sizes)
    for axis in range(3):
        table = table * rng.uniform(0.5, 1.5, [1 if other == axis else size for other, size in enumerate(sizes)])
    return table / table.sum()


def size_of(truth: np.ndarray, without: np.ndarray) -> float:
    """Partial correlation of what a law has beyond another with the same parts."""
    axes = range(truth.ndim)
    alone = np.ones(())
    for axis in axes:
        alone = alone * truth.sum(axis=tuple(other for other in axes if other != axis), keepdims=True)
    return float(np.sqrt(((truth - without) ** 2 / alone).sum() / np.prod([size - 1 for size in truth.shape])))


def without_interaction(truth: np.ndarray) -> np.ndarray:
    """The law with the pairs of another, and no interaction of all three."""
    found = np.full(truth.shape, 1 / truth.size)
    for _ in range(50):
        for axis in range(3):
            found = found * (truth.sum(axis=axis, keepdims=True) / found.sum(axis=axis, keepdims=True))
    return found


def test_triples_are_around_the_squares_of_what_pairs_are() -> None:
    """Against a count of made-up sizes, each put to the next one of the grid."""
    rng = np.random.default_rng(2)
    pairs = np.array([0.1, 0.1, 0.1, 0.1, 0.2, 0.3, 0.1])
    t = rng.choice(INTERACTION_SIZES, size=400_000, p=pairs)
    tau = t**2 * np.exp(rng.standard_normal(t.size))
    nearest = np.abs(tau[:, None] - np.array(INTERACTION_SIZES)).argmin(axis=1)
    counted = np.bincount(nearest, minlength=len(INTERACTION_SIZES)) / t.size
    np.testing.assert_allclose(triple_weights(pairs), counted, atol=0.004)  # five deviations of a share of one half


def test_where_pairs_have_nothing_triples_have_nothing() -> None:
    nothing = np.eye(len(INTERACTION_SIZES))[0]
    np.testing.assert_array_equal(triple_weights(nothing), nothing)


@pytest.mark.parametrize("place", range(3, 6))
def test_stronger_pairs_make_stronger_triples(place: int) -> None:
    less, more = (
        np.cumsum(triple_weights(np.eye(len(INTERACTION_SIZES))[at])[::-1])[::-1] for at in (place, place + 1)
    )
    assert np.all(less <= more + 1e-12) and less[1] < more[1]


def test_hidden_classes_make_triples_of_about_the_square() -> None:
    """Of made-up classes of 6 and variables of three states, in the median within one and a half of its deviations."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        rows = [rng.dirichlet(np.ones(3), 6) for _ in range(3)]
        truth = np.einsum("h,ha,hb,hc->abc", rng.dirichlet(np.full(6, 2.0)), *rows)
        pairs = [truth.sum(axis=axis) for axis in range(3)]
        tau = size_of(truth, without_interaction(truth))
        t = np.mean([size_of(pair, np.outer(pair.sum(axis=1), pair.sum(axis=0))) ** 2 for pair in pairs]) ** 0.5
        found.append(np.log(tau / t**2))
    assert np.abs(np.median(found)) < 1.5


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
    assert pair_weights(told, {}) == pytest.approx(PAIR_PRIOR)
    assert pair_weights(told, {}, chosen=True) == pytest.approx(CHOSEN_PRIOR)


@pytest.mark.parametrize("tau", [0.0, 0.08, 0.32])
def test_of_chosen_arcs_more_is_doubted_whatever_was_measured(tau: float) -> None:
    claimed, chosen = (pair_weights(*pairs_told(tau, 3e4, 100.0, 1), chosen=chosen) for chosen in (False, True))
    assert chosen[0] < claimed[0] and chosen.sum() == pytest.approx(1)
    assert chosen @ INTERACTION_SIZES > claimed @ INTERACTION_SIZES


def test_pairs_of_too_many_states_teach_nothing() -> None:
    network = small(("a", 13, ()), ("b", 13, ()))
    laws = {("a", "b"): np.full((13, 13, 5), 1 / 169)}
    empty = Margins(network, {(): np.array(1e4)}, {(): 1.0})
    assert pair_weights(empty, laws) == pytest.approx(PAIR_PRIOR)


@pytest.mark.parametrize("seed", range(3))
def test_audited_pairs_teach_the_size(seed: int) -> None:
    means = [float(pair_weights(*pairs_told(tau, 3e4, 100.0, seed)) @ INTERACTION_SIZES) for tau in (0.0, 0.08, 0.32)]
    prior = float(np.array(PAIR_PRIOR) @ INTERACTION_SIZES)
    assert means[0] < prior / 2 and means[1] < means[2] and means[2] > 2 * prior


def test_noise_that_hides_everything_teaches_nothing() -> None:
    told, laws = pairs_told(0.0, 1e3, 1e8, 4)
    np.testing.assert_allclose(pair_weights(told, laws), PAIR_PRIOR, atol=0.02)


def test_half_of_the_prior_is_that_the_network_is_right_and_half_is_as_real_tables_are() -> None:
    """Sizes of all pairs without an arc in five real tables, rounded to a hundredth."""
    assert sum(PAIR_PRIOR) == pytest.approx(1) and len(PAIR_PRIOR) == len(INTERACTION_SIZES)
    real = np.array([0.01, 0.07, 0.13, 0.22, 0.26, 0.22, 0.09])
    np.testing.assert_allclose(CHOSEN_PRIOR, real, rtol=0, atol=1e-12)  # nobody claims that chosen arcs are right
    np.testing.assert_allclose(PAIR_PRIOR, (np.eye(len(real))[0] + real) / 2, atol=0.0051)


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
