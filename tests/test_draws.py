"""A posterior as joint draws: means, picks without repetition, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import discreet as dc
from networks import asia
from oracle import random_draws


@pytest.fixture(scope="module")
def cells() -> dc.Tables:
    return random_draws(asia().network, 12, seed=1)


def test_mean_is_the_average_of_the_draws(cells: dc.Tables) -> None:
    posterior = dc.results.PosteriorDraws(cells)
    mean = posterior.mean()
    assert posterior.network == cells.network
    assert mean.draws is None
    for node, table in mean.items():
        assert table.shape == cells.network.shape(node)
        np.testing.assert_allclose(table, sum(cells[node][..., s] for s in range(12)) / 12, rtol=1e-14)
        np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-14)


def absolute_error(row: np.ndarray, draws: np.ndarray) -> float:
    """Mean over the draws of the sum of absolute errors of a row."""
    return float(np.abs(draws - row[:, None]).sum(axis=0).mean())


@pytest.mark.parametrize("number", [1, 2, 3, 50])
@pytest.mark.parametrize("states", [1, 2, 3, 5])
def test_the_median_has_the_least_absolute_error(states: int, number: int) -> None:
    """Against the linear program: t, and e >= |theta - t| for every draw and state, with sum t = 1."""
    network = dc.Network((dc.Variable("x", tuple(f"s{k}" for k in range(states))),), {"x": ()})
    for seed, concentration in enumerate((0.05, 1.0, 30.0)):
        draws = np.random.default_rng(seed).dirichlet(np.full(states, concentration), number).T
        median = dc.results.PosteriorDraws(dc.Tables(network, {"x": draws}, draws=number)).median()["x"]
        assert median.shape == (states,) and median.min() >= 0
        assert median.sum() == pytest.approx(1, abs=1e-12)
        cells = states * number
        shift = np.repeat(np.eye(states), number, axis=0)
        above, below = np.hstack([-shift, -np.eye(cells)]), np.hstack([shift, -np.eye(cells)])
        best = linprog(
            np.concatenate([np.zeros(states), np.full(cells, 1 / number)]),
            A_ub=np.vstack([above, below]),
            b_ub=np.concatenate([-draws.ravel(), draws.ravel()]),
            A_eq=np.concatenate([np.ones(states), np.zeros(cells)])[None, :],
            b_eq=[1.0],
        )
        assert absolute_error(median, draws) <= best.fun + 1e-7


def test_the_median_of_every_row_is_its_own(cells: dc.Tables) -> None:
    found = dc.results.PosteriorDraws(cells).median()
    for node, table in found.items():
        assert table.shape == cells.network.shape(node)
        np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-12)
        for row in np.ndindex(*table.shape[:-1]):
            alone = dc.Network((dc.Variable("x", cells.network.schema[node].states),), {"x": ()})
            single = dc.results.PosteriorDraws(dc.Tables(alone, {"x": cells[node][row]}, draws=12)).median()
            np.testing.assert_allclose(table[row], single["x"], atol=1e-12)


def test_medians_of_three_states_are_those_of_each_row() -> None:
    """Rows of two states have one level, a half; of more states that of an even row is lower than of a skewed one."""
    states = ("a", "b", "c")
    network = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", states)), {"x": (), "y": ("x",)})
    rng = np.random.default_rng(4)
    rows = np.stack([rng.dirichlet(alpha, 12).T for alpha in ([0.1, 0.1, 0.1], [8.0, 1.0, 1.0])])
    found = dc.results.PosteriorDraws(dc.Tables(network, {"x": np.full((2, 12), 0.5), "y": rows}, draws=12)).median()[
        "y"
    ]
    for row, median in zip(rows, found, strict=True):
        alone = dc.Tables(dc.Network((dc.Variable("y", states),), {"y": ()}), {"y": row}, draws=12)
        np.testing.assert_allclose(median, dc.results.PosteriorDraws(alone).median()["y"], atol=1e-12)


def test_the_median_takes_a_side_where_the_mean_hedges() -> None:
    network = dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()})
    yes = np.array([0.99] * 7 + [0.01] * 3)
    posterior = dc.results.PosteriorDraws(dc.Tables(network, {"x": np.stack([1 - yes, yes])}, draws=10))
    np.testing.assert_allclose(posterior.median()["x"], [0.01, 0.99], atol=1e-9)
    np.testing.assert_allclose(posterior.mean()["x"], [0.304, 0.696], atol=1e-9)


def test_picked_draws_are_joint_and_do_not_repeat(cells: dc.Tables) -> None:
    picked = dc.results.PosteriorDraws(cells).draw(7, rng=np.random.default_rng(2))
    assert picked.draws == 7

    def positions(node: str) -> list[int]:
        columns = cells[node].reshape(-1, 12)
        found = picked[node].reshape(-1, 7)
        return [int(np.flatnonzero((columns == found[:, [s]]).all(axis=0))[0]) for s in range(7)]

    chosen = positions("smoke")
    assert len(set(chosen)) == 7
    assert all(positions(node) == chosen for node in cells)


def test_every_draw_can_be_picked(cells: dc.Tables) -> None:
    picked = dc.results.PosteriorDraws(cells).draw(12, rng=np.random.default_rng(3))
    assert np.array_equal(np.sort(picked["smoke"][0]), np.sort(cells["smoke"][0]))
    assert not np.array_equal(picked["smoke"], cells["smoke"])


def test_picks_follow_the_seed(cells: dc.Tables) -> None:
    first, second, other = (
        dc.results.PosteriorDraws(cells).draw(5, rng=np.random.default_rng(seed))["smoke"] for seed in (4, 4, 5)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n", [13, 0, -1])
def test_more_draws_than_there_are(cells: dc.Tables, n: int) -> None:
    with pytest.raises(dc.InputError, match=f"has 12 draws, asked for {n}"):
        dc.results.PosteriorDraws(cells).draw(n, rng=np.random.default_rng(0))


def test_a_single_table_is_no_posterior() -> None:
    with pytest.raises(dc.InputError, match="at least one draw"):
        dc.results.PosteriorDraws(asia())


def test_families_are_made_when_they_are_read() -> None:
    network, made = asia().network, []

    def source(node: str) -> np.ndarray:
        made.append(node)
        return np.full((*network.shape(node), 2), 0.5)

    posterior = dc.results.PosteriorDraws(dc.Tables(network, source, draws=2))
    assert made == []
    assert posterior.probabilities["either"].shape == (2, 2, 2, 2)
    assert made == ["either"]


def test_the_former_name_of_probabilities_answers_with_a_warning() -> None:
    coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
    posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(3, rng=1))
    with pytest.warns(DeprecationWarning, match="posterior.probabilities"):
        assert posterior.cells is posterior.probabilities
