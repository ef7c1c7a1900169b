"""Counts moved to another margin of the child: rows keep their records, odds ratios stay."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.posterior.pooled.raking import rake_counts


def random_counts(seed: int, shape: tuple[int, ...], most: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, most, shape)


def moved(counts: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Another margin of as many records, a fifth of each state moved on, and the counts moved to it."""
    have = counts.reshape(-1, *counts.shape[-2:]).sum(axis=0)
    margin = have - have // 5 + np.roll(have // 5, 1, axis=0)
    return margin, rake_counts(counts, margin, np.random.default_rng(seed))


@pytest.mark.parametrize("shape", [(4, 3, 50), (2, 3, 4, 7), (40, 2, 5), (1, 3, 5)])
def test_rows_keep_their_records_and_no_cell_is_negative(shape: tuple[int, ...]) -> None:
    counts = random_counts(1, shape)
    counts[0] = 0
    _, found = moved(counts)
    assert found.dtype == np.int64 and found.min() >= 0
    np.testing.assert_array_equal(found.sum(axis=-2), counts.sum(axis=-2))


def test_the_margin_is_met_but_for_rounding() -> None:
    """Each row is off by less than one record in a cell, and rows are as many as they are."""
    counts = random_counts(2, (6, 4, 300))
    margin, found = moved(counts)
    off = found.sum(axis=0) - margin
    assert np.abs(off).max() < 6
    assert abs(off.mean()) < 0.05


def test_rounding_is_right_on_average() -> None:
    """20,000 draws of one table; a mean of numbers of one record's width is known to .0035 at most, times 6."""
    counts = np.repeat(np.array([[3, 9, 1], [20, 5, 4]])[..., None], 20_000, axis=-1)
    margin = np.repeat(np.array([17, 20, 5])[:, None], 20_000, axis=-1)
    found = rake_counts(counts, margin, np.random.default_rng(3)).mean(axis=-1)
    cells = counts[..., 0].astype(float)
    for _ in range(200):
        cells *= margin[:, 0] / cells.sum(axis=0)
        cells *= np.array([13, 29])[:, None] / cells.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, cells, atol=6 * 0.5 / np.sqrt(20_000) + 0.03)


def test_odds_ratios_stay() -> None:
    counts = random_counts(4, (3, 2, 1)) * 10_000 + 10_000
    _, found = moved(counts)
    before, after = counts[..., 0].astype(float), found[..., 0].astype(float)
    for row in (1, 2):
        odds = [table[0, 0] * table[row, 1] / (table[0, 1] * table[row, 0]) for table in (before, after)]
        assert odds[0] == pytest.approx(odds[1], rel=1e-4)


def test_counts_that_have_the_margin_already_stay_as_they_are() -> None:
    counts = random_counts(5, (5, 3, 40)) + 1
    found = rake_counts(counts, counts.sum(axis=0), np.random.default_rng(5))
    np.testing.assert_array_equal(found, counts)


def test_a_state_without_records_is_emptied_and_an_empty_one_filled() -> None:
    counts = np.array([[[30], [0], [10]], [[50], [0], [5]]])
    found = rake_counts(counts, np.array([[80], [15], [0]]), np.random.default_rng(6))
    assert found[:, 2].sum() <= 1
    assert abs(int(found[:, 1].sum()) - 15) <= 2


def test_a_family_without_records() -> None:
    counts = np.zeros((3, 2, 4), np.int64)
    assert not rake_counts(counts, np.zeros((2, 4), np.int64), np.random.default_rng(7)).any()
