"""A posterior as joint draws: means, picks without repetition, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from networks import asia
from oracle import random_draws


@pytest.fixture(scope="module")
def cells() -> dc.Tables:
    return random_draws(asia().network, 12, seed=1)


def test_mean_is_the_average_of_the_draws(cells: dc.Tables) -> None:
    posterior = dc.PosteriorDraws(cells)
    mean = posterior.mean()
    assert posterior.network == cells.network
    assert mean.draws is None
    for node, table in mean.items():
        assert table.shape == cells.network.shape(node)
        np.testing.assert_allclose(table, sum(cells[node][..., s] for s in range(12)) / 12, rtol=1e-14)
        np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-14)


def test_picked_draws_are_joint_and_do_not_repeat(cells: dc.Tables) -> None:
    picked = dc.PosteriorDraws(cells).draws(7, np.random.default_rng(2))
    assert picked.draws == 7

    def positions(node: str) -> list[int]:
        columns = cells[node].reshape(-1, 12)
        found = picked[node].reshape(-1, 7)
        return [int(np.flatnonzero((columns == found[:, [s]]).all(axis=0))[0]) for s in range(7)]

    chosen = positions("smoke")
    assert len(set(chosen)) == 7
    assert all(positions(node) == chosen for node in cells)


def test_every_draw_can_be_picked(cells: dc.Tables) -> None:
    picked = dc.PosteriorDraws(cells).draws(12, np.random.default_rng(3))
    assert np.array_equal(np.sort(picked["smoke"][0]), np.sort(cells["smoke"][0]))
    assert not np.array_equal(picked["smoke"], cells["smoke"])


def test_picks_follow_the_seed(cells: dc.Tables) -> None:
    first, second, other = (
        dc.PosteriorDraws(cells).draws(5, np.random.default_rng(seed))["smoke"] for seed in (4, 4, 5)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n", [13, 0, -1])
def test_more_draws_than_there_are(cells: dc.Tables, n: int) -> None:
    with pytest.raises(dc.InputError, match=f"has 12 draws, asked for {n}"):
        dc.PosteriorDraws(cells).draws(n, np.random.default_rng(0))


def test_a_single_table_is_no_posterior() -> None:
    with pytest.raises(dc.InputError, match="at least one draw"):
        dc.PosteriorDraws(asia())


def test_families_are_made_when_they_are_read() -> None:
    network, made = asia().network, []

    def source(node: str) -> np.ndarray:
        made.append(node)
        return np.full((*network.shape(node), 2), 0.5)

    posterior = dc.PosteriorDraws(dc.Tables(network, source, draws=2))
    assert made == []
    assert posterior.cells["either"].shape == (2, 2, 2, 2)
    assert made == ["either"]
