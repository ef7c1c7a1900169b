"""What a reader may come to believe of one record: the sentences of reports, enumerated over beliefs of all records."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

EPSILON = 0.7
ABSENT = 2
"""In the place of a value, 0 or 1, where a record is not there."""


def laws(counts: np.ndarray, loss: float) -> np.ndarray:
    """Probabilities of the noisy counts of the two values, one row for each data set, by two-sided geometric noise."""
    outcomes = np.arange(-20, 24)
    cells = np.exp(-loss * np.abs(outcomes[None, None, :] - counts[:, :, None]))  # (data sets, values, outcomes)
    return np.einsum("da,db->dab", cells[:, 0], cells[:, 1]).reshape(len(counts), -1) * np.tanh(loss / 2) ** 2


def counted(data: list[tuple[int, ...]]) -> np.ndarray:
    """How many records of each data set have each value."""
    return np.array([[one.count(value) for value in (0, 1)] for one in data])


def moved(prior: np.ndarray, real: np.ndarray, other: np.ndarray, these: np.ndarray, those: np.ndarray) -> float:
    """Most nats by which the odds of these data sets to those differ from what they would be under the other laws."""

    def odds(laws: np.ndarray) -> np.ndarray:
        return np.log((prior * these) @ laws) - np.log((prior * those) @ laws)

    return float(np.max(np.abs(odds(real) - odds(other))))


@pytest.mark.parametrize("seed", range(20))
def test_add_remove_moves_presence_by_epsilon_and_values_by_twice_that(seed: int) -> None:
    data = list(product((0, 1, ABSENT), repeat=2))  # this record, another one: believed to depend on each other
    prior = np.random.default_rng(seed).dirichlet(np.full(len(data), 0.3))
    real = laws(counted(data), EPSILON)
    unused = laws(counted([(ABSENT, one) for _, one in data]), EPSILON)
    first = np.array([one for one, _ in data])
    assert moved(prior, real, unused, first != ABSENT, first == ABSENT) <= EPSILON + 1e-9
    assert moved(prior, real, unused, first == 0, first == 1) <= 2 * EPSILON + 1e-9


def test_other_conclusions_can_move_by_twice_epsilon() -> None:
    """So no report may say that odds of anything move by epsilon: others are as this one is, as far as is believed."""
    data = [(0, 0), (1, 1)]
    real = laws(counted(data), EPSILON)
    unused = laws(counted([(ABSENT, one) for _, one in data]), EPSILON)
    second = np.array([one for _, one in data])
    assert moved(np.array([0.5, 0.5]), real, unused, second == 0, second == 1) == pytest.approx(2 * EPSILON, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_replace_moves_values_by_epsilon_beside_the_other_value(seed: int) -> None:
    data = list(product((0, 1), repeat=2))
    prior = np.random.default_rng(seed).dirichlet(np.full(len(data), 0.3))
    first = np.array([one for one, _ in data])
    real = laws(counted(data), EPSILON / 2)  # a replaced record moves two counts
    for value in (0, 1):
        placed = laws(counted([(value, one) for _, one in data]), EPSILON / 2)
        assert moved(prior, real, placed, first == 0, first == 1) <= EPSILON + 1e-9
