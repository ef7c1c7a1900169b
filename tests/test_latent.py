"""Moves of the probabilities of two cells, which both kernels of the exact posterior share, by their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from discreet.evidence import moves

THETA = np.array([0.1, 0.25, 0.05, 0.6])
ALPHA = np.array([0.7, 2.5, 0.3, 1.1])


@pytest.mark.parametrize("seed", range(8))
def test_the_ratio_is_that_of_the_prior_in_log_odds(seed: int) -> None:
    """With the sum s of two cells held, d theta = theta_a theta_b / s d odds: exponents are alpha, not alpha - 1."""
    lengths = np.full(4, 1.5)
    wanted, gain, loses, chance = moves.propose_move(THETA, ALPHA, lengths, 1, 3, np.random.default_rng(seed))
    after, untouched = THETA.copy(), lengths.copy()
    moves.finish_move(after, lengths, 1, 3, wanted, True, 0.0)
    assert math.log(after[1] / after[3]) == pytest.approx(wanted)
    assert after[1] + after[3] == pytest.approx(THETA[1] + THETA[3])
    assert after[0] == THETA[0] and after[2] == THETA[2]
    assert np.array_equal(lengths, untouched)
    pair = [1, 3]

    def log_density(theta: np.ndarray) -> float:
        return float(((ALPHA - 1) * np.log(theta))[pair].sum() + np.log(theta[1] * theta[3] / (theta[1] + theta[3])))

    assert gain == pytest.approx(log_density(after) - log_density(THETA))
    loser = 1 if after[1] < THETA[1] else 3
    assert loses == (loser == 1)
    assert chance == pytest.approx(1 - after[loser] / THETA[loser])


def test_a_move_that_is_refused_changes_lengths_alone() -> None:
    theta, lengths = THETA.copy(), np.ones(4)
    moves.finish_move(theta, lengths, 0, 2, 1.0, False, 0.1)
    assert np.array_equal(theta, THETA)
    assert lengths[0] == lengths[2] == pytest.approx(math.exp(-0.1 * moves.WANTED_MOVE_SHARE))
    moves.finish_move(theta, lengths, 0, 2, 1.0, True, 0.1)
    assert lengths[0] == pytest.approx(math.exp(0.1 * (1 - 2 * moves.WANTED_MOVE_SHARE)))
    assert lengths[1] == lengths[3] == 1


def test_lengths_stay_within_bounds() -> None:
    theta, lengths = THETA.copy(), np.array([0.01, 1.0, 8.0, 1.0])
    moves.finish_move(theta, lengths, 0, 2, 0.0, False, 1.0)
    assert lengths[0] == 0.01
    moves.finish_move(theta, lengths, 2, 0, 0.0, True, 1.0)
    assert lengths[2] <= 8.0
    for good, end in ((False, 0.01), (True, 8.0)):
        lengths = np.full(4, end)
        moves.finish_move(theta, lengths, 0, 2, 0.0, good, 1.0)
        assert lengths[0] == lengths[2] == end


def blocks_of(
    law: int, rows: np.ndarray, cells: np.ndarray, members: np.ndarray, weight: np.ndarray | None = None, draws: int = 1
) -> moves.StatisticBlocks:
    """Blocks of one law, statistics of which count for a half each."""
    number, weight = len(rows) - 1, np.zeros(len(members)) if weight is None else weight
    ones, half = np.ones(number), np.full(number, 0.5)
    laws, draws_of = np.full(number, law), np.full(number, float(draws))
    store = np.full((1, 1), -1.0), np.zeros(1)
    return moves.StatisticBlocks(
        laws,
        rows,
        cells,
        members,
        weight,
        draws_of,
        half,
        0 * ones,
        ones.astype(np.int64),
        np.zeros((number, 1)),
        *store,
    )


def test_choices_and_drawn_rows_have_their_normalisers() -> None:
    """Of u = released + sums / 2 before and after, with weights of what was chosen and drawn; two draws of each."""
    released, sums, change = np.array([1.0, 2.0, 0.5]), np.array([2.0, 0.0, 4.0]), np.array([2.0, 0.0, -2.0])
    weight, listed, block = np.array([2.0, 0.0, 0.0]), np.array([0, 2, 1]), np.zeros(3, np.int64)
    layout = np.array([0, 1]), np.array([0, 3]), np.arange(3)
    noise = (np.ones(3), np.zeros(3), np.zeros(3, bool))
    before, after = released + sums / 2, released + (sums + change) / 2
    for law, normaliser in (
        (moves.CHOICE, logsumexp),
        (moves.ROWS, lambda u: gammaln(u).sum() - gammaln(u.sum())),
    ):
        blocks, seen = blocks_of(law, *layout, weight=weight, draws=2), np.zeros(1, bool)
        found = moves.log_ratio(released, *noise, block, blocks, sums, change, listed, seen, 2)
        assert found == pytest.approx(weight @ (after - before) - 2 * (normaliser(after) - normaliser(before)))
        assert not seen.any()


def test_the_ratio_of_the_noise_is_that_of_its_density() -> None:
    """Noise of scale 2 goes from 4 to -2, Gaussian noise of scale 3 from -6 to -5; a third statistic stays.

    Where rounding alone is at work, an error of 4 is one beyond a reach of 3, and one of -2 none.

    In a star of scale 4 rows of noise (1, -2), (-1) and (3, -4), (-1) become (1, 3), (4) and (3, 0), (3); the second
    block goes last.
    """
    released, scale = np.array([5.0, -2.0, 3.0]), np.array([2.0, 3.0, 0.1])
    sums, change, listed = np.array([1.0, 4.0, 0.0]), np.array([6.0, -1.0, 9.0]), np.array([1, 0, 2])
    alone, none, seen = np.full(3, -1), np.zeros(1, np.int64), np.zeros(2, bool)
    blocks = blocks_of(moves.STAR, none, none, none)
    gaussian = np.array([False, True, False])
    none_within, within = np.zeros(3), np.array([3.0, 0, 0])
    found = moves.log_ratio(released, scale, none_within, gaussian, alone, blocks, sums, change, listed, seen, 2)
    assert found == pytest.approx((4 - 2) / 2 + (6**2 - 5**2) / (2 * 3**2))
    found = moves.log_ratio(released, scale, within, gaussian, alone, blocks, sums, change, listed, seen, 2)
    assert found == pytest.approx((1 - 0) / 2 + (6**2 - 5**2) / (2 * 3**2))
    released, sums = np.array([1.0, -2, 3, -4, -1, -1]), np.zeros(6)
    blocks = blocks_of(moves.STAR, np.array([0, 2, 4]), np.array([0, 2, 3, 5, 6]), np.array([0, 1, 4, 2, 3, 5]))
    change, listed = np.array([0.0, -5, 0, -4, -5, -4]), np.array([3, 1, 4, 5, 0, 2])
    block = np.array([0, 0, 1, 1, 0, 1])
    noise = (np.full(6, 4.0), np.zeros(6), np.zeros(6, bool))
    found = moves.log_ratio(released, *noise, block, blocks, sums, change, listed, seen, 4)
    assert found == pytest.approx((3 - 4 + 7 - 3) / 4)
    assert not seen.any()
