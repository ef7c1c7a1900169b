"""Rows on a public grid: the tabulated law against exact enumeration, and draws against the law.

The reference is decimal arithmetic of 50 digits over every row of the grid. What matters for a promise is the
log-probability of a whole row, as the draws make it: the product of the conditional laws of its coordinates. The tests
of draws have fixed seeds and cannot fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import discreet as dc
from discreet.mechanisms.noise import ExactNoise, SimulatedNoise
from discreet.research.scores.lattice import LatticeLaw, lattice_law, resolution_for
from discreet.research.scores.likelihood_sensitivity import floor_for
from folding import every

ACCURACY = 1e-9
"""As promised in the docstring of `lattice_law`, for a whole row."""
LEAST = -100.0
"""Rows less likely than exp(-100) are drawn by the coin of probability 2^-64 if at all; they need no accuracy."""


def rows(size: int, left: int) -> Iterator[tuple[int, ...]]:
    """All ways to share out so many units."""
    if size == 1:
        yield (left,)
        return
    for units in range(left + 1):
        for rest in rows(size - 1, left - units):
            yield (units, *rest)


def exact_law(exponents: Sequence[float], floor: float, resolution: int) -> dict[tuple[int, ...], float]:
    """Log-probability of every row that is more likely than exp(LEAST), from 50 digits."""
    size = len(exponents)
    with localcontext() as context:
        context.prec = 50
        # The floats that a release prints: any positive numbers are a grid, if only they are always the same.
        grid = (floor + (1 - size * floor) * (np.arange(resolution + 1) / resolution)).tolist()
        logs = [Decimal(value).ln() for value in grid]
        factors = [[Decimal(float(exponent)) * log for log in logs] for exponent in exponents]
        found = {row: sum(factors[k][m] for k, m in enumerate(row)) for row in rows(size, resolution)}
        peak = max(found.values())
        near = {row: log - peak for row, log in found.items() if log - peak > -745}
        total = sum(log.exp() for log in near.values()).ln()
        return {row: float(log - total) for row, log in near.items() if log - total > LEAST}


def drawn_law(law: LatticeLaw, wanted: Iterator[tuple[int, ...]] | Sequence[tuple[int, ...]]) -> list[float]:
    """Log-probability with which `draw` makes each row, if `pick` draws exactly with the weights."""
    made: dict[tuple[int, int], np.ndarray] = {}
    found = []
    for row in wanted:
        left, total = law.resolution, 0.0
        for k, units in enumerate(row[:-1]):
            if (k, left) not in made:
                weights = law.weights(k, left)
                with np.errstate(divide="ignore"):
                    made[k, left] = np.log(weights / math.fsum(weights))
            total += float(made[k, left][units])
            left -= units
        found.append(total)
    return found


def worst_error(exponents: Sequence[float], floor: float, resolution: int) -> float:
    exact = exact_law(exponents, floor, resolution)
    drawn = drawn_law(lattice_law(np.array(exponents, float), floor, resolution), list(exact))
    return float(np.max(np.abs(np.array(drawn) - np.array(list(exact.values())))))


# ----------------------------------------------------------------------------------------------------------- accuracy


@pytest.mark.costly("Rounding that spoils a law shows at exponents up to a thousand million only.", always=True)
@every(
    ("exponents", "floor", "resolution"),
    [
        ([0.0, 0.0], 0.1, 4096), ([-0.75, -0.75], 0.25, 4096), ([3.5, -0.999], 0.01, 4096), ([70.0, 30.0], 1e-6, 4096),
        ([1e4, 2e3], 0.25, 4096), ([1e6, 1e6], 0.1, 4096), ([1e9, 1e9], 0.25, 4096), ([1e9, 3e8], 0.01, 4096),
        ([1e9, -0.75], 0.2, 4096), ([1e7, 1.1e7], 0.25, 4095),
        ([0.0, 0.0, 0.0], 0.2, 60), ([-0.75, 12.0, -0.5], 0.2, 60), ([120.0, 40.0, 3.0], 1e-4, 60),
        ([1e5, 2e4, -0.75], 0.2, 60), ([1e9, 1e9, 1e9], 0.2, 60), ([1e7, 1e7, -0.75], 0.2, 96),
        ([5.0, 0.0, -0.75, 2.0], 0.1, 16), ([1e6, 1e6, 1e6, 1e6], 0.225, 16), ([1e9, 1e9, -0.75, -0.75], 0.1, 16),
        ([-0.9] * 6, 0.1, 7), ([9.0, -0.5, 3.0, 0.0, 1.0, 2.0], 0.01, 7),
        ([2.0, 5.0, -0.75], np.nextafter(1 / 3, 0), 40), ([300.0, 200.0], np.nextafter(0.5, 0), 512),
        ([7.0, -0.75, -0.75], 1e-5, 60),
    ],
)  # fmt: skip
def test_rows_are_drawn_with_their_exact_probabilities(exponents: list[float], floor: float, resolution: int) -> None:
    assert worst_error(exponents, floor, resolution) < ACCURACY


@every(
    ("exponents", "resolution"),
    [([2.5, 39.0], 4096), ([11.0, 4.0, -0.75], 24), ([3.0, 40.0, -0.75], 96)],
)
def test_rows_are_drawn_with_their_exact_probabilities_at_tiny_floors(exponents: list[float], resolution: int) -> None:
    """The log range 25 that the posterior sampler may choose: its floor is 1e-11."""
    assert worst_error(exponents, floor_for(len(exponents), 25.0), resolution) < ACCURACY


@given(
    st.lists(st.floats(-0.99, 50) | st.floats(2, 9).map(lambda x: 10.0**x), min_size=2, max_size=3),
    st.sampled_from((0.9, 0.5, 0.1, 1e-3)),
)
def test_any_row_is_drawn_with_its_exact_probability(exponents: list[float], share: float) -> None:
    assert worst_error(exponents, share / len(exponents), 200 if len(exponents) == 2 else 20) < ACCURACY


def test_the_reference_notices_an_exponent_that_is_off() -> None:
    exact = exact_law([30.0, 20.0], 0.1, 64)
    drawn = drawn_law(lattice_law(np.array([30.0 + 1e-7, 20.0]), 0.1, 64), list(exact))
    assert np.max(np.abs(np.array(drawn) - np.array(list(exact.values())))) > ACCURACY


def test_forty_states_by_symmetry_and_by_exact_counting() -> None:
    """With exponents of 0 every row of the grid is alike: coordinate k has binomial(left + rest, rest) of them."""
    size, resolution = 40, resolution_for(40)
    law = lattice_law(np.zeros(size), 0.5 / size, resolution)
    for k in (0, 1, 17, 37, 38):
        later = size - k - 1
        for left in (resolution,) if k == 0 else (0, 1, 63, resolution):
            ways = [math.comb(left - m + later - 1, later - 1) for m in range(left + 1)]
            weights = law.weights(k, left)
            exact = np.array([way / max(ways) for way in ways])
            np.testing.assert_allclose(weights / weights.max(), exact, rtol=1e-11)


def test_forty_states_against_sums_in_fifty_digits() -> None:
    """The law of the first coordinate, from a convolution of all factors in decimal arithmetic."""
    size, resolution = 40, 48
    floor = 0.3 / size
    exponents = np.random.default_rng(5).choice([-0.75, 3.0, 40.0, 2e4], size)
    law = lattice_law(exponents, floor, resolution)
    with localcontext() as context:
        context.prec = 50
        grid = (floor + (1 - size * floor) * (np.arange(resolution + 1) / resolution)).tolist()
        logs = [Decimal(value).ln() for value in grid]
        factors = [[(Decimal(float(e)) * log).exp() for log in logs] for e in exponents]
        rest = factors[-1]
        for factor in factors[-2:0:-1]:
            rest = [
                sum(a * b for a, b in zip(factor[: m + 1], rest[m::-1], strict=True)) for m in range(resolution + 1)
            ]
        whole = [a * b for a, b in zip(factors[0], rest[::-1], strict=True)]
        total = sum(whole)
        exact = np.array([float((value / total).ln()) for value in whole])
    with np.errstate(divide="ignore"):
        found = np.log(law.weights(0, resolution))
    found -= np.log(np.exp(found).sum())
    kept = exact > LEAST
    assert np.max(np.abs(found - exact)[kept]) < ACCURACY


# ---------------------------------------------------------------------------------------------------------- the grid


@given(
    st.integers(1, 40),
    st.floats(1e-12, 1, exclude_max=True),
    st.integers(1, 64),
    st.integers(0, 2**32 - 1),
)
def test_rows_stay_on_the_trimmed_simplex(size: int, share: float, resolution: int, seed: int) -> None:
    floor = share / size if share / size < 1 / size else np.nextafter(1 / size, 0)
    rng = np.random.default_rng(seed)
    law = lattice_law(rng.choice([-0.9, 0.0, 4.0, 1e6], size), floor, resolution)
    units = law.draw(SimulatedNoise(rng).pick, 5)
    assert units.shape == (size, 5) and units.dtype == np.int64
    assert np.all(units >= 0) and np.all(units.sum(axis=0) == resolution)
    theta = law.probabilities(units)
    assert np.all(theta >= floor) if size > 1 else np.all(theta == 1)
    assert np.all(np.abs(theta.sum(axis=0) - 1) < 1e-14 * size)
    assert np.all(theta <= 1 - (size - 1) * floor + 1e-14)


def test_probabilities_grow_by_equal_steps_from_the_floor_to_the_top() -> None:
    law = lattice_law(np.zeros(3), 0.1, 7)
    ladder = law.probabilities(np.arange(8))
    np.testing.assert_allclose(ladder, 0.1 + 0.1 * np.arange(8), rtol=1e-15)
    assert all(low < high for low, high in pairwise(ladder))
    assert (law.size, law.resolution) == (3, 7)


@every("size", [2, 3, 5, 12, 13, 40, 500])
def test_the_resolution_is_public_and_shrinks_with_the_states(size: int) -> None:
    expected = 2048 if size == 2 else max(768 // size, 128)
    assert resolution_for(size) == expected


def test_one_state_is_certain_and_needs_no_floor() -> None:
    law = lattice_law(np.array([5.0]), math.nan, resolution_for(1))
    units = law.draw(ExactNoise().pick, 3)
    assert law.probabilities(units).tolist() == [[1.0, 1.0, 1.0]]


@every("floor", [0.0, -0.1, 1 / 3, 0.4, math.nan, math.inf])
def test_a_floor_that_leaves_no_grid_is_refused(floor: float) -> None:
    with pytest.raises(dc.InputError, match=r"floor of 3 states must be greater than 0 and less than 1/3"):
        lattice_law(np.zeros(3), floor, 8)


# -------------------------------------------------------------------------------------------------------------- draws


@pytest.mark.costly(
    "What is released of a row is paid for by this law, which shows in thousands of draws.",
    always=True,
)
@every(
    ("exponents", "floor", "resolution"),
    [([4.0, -0.5], 0.05, 40), ([3.0, 0.0, -0.75], 0.1, 9), ([0.0, 2.0, 1.0, 5.0], 0.05, 5)],
)
@every("name", ["exact", "simulated"])
def test_draws_have_the_law(name: str, exponents: list[float], floor: float, resolution: int) -> None:
    """Chi-square over all rows, cells pooled to expect 50 draws. Exact draws fail by chance at 1e-9 a case."""
    draws = 4000 if name == "exact" else 40_000
    noise = ExactNoise() if name == "exact" else SimulatedNoise(np.random.default_rng(3))
    law = lattice_law(np.array(exponents), floor, resolution)
    units = law.draw(noise.pick, draws)
    exact = exact_law(exponents, floor, resolution)
    counts = dict.fromkeys(rows(len(exponents), resolution), 0)
    for row in zip(*units.tolist(), strict=True):
        counts[row] += 1
    cells = [[0.0, 0.0]]
    for row, log in sorted(exact.items(), key=lambda item: item[1]):
        if cells[-1][1] >= 50:
            cells.append([0.0, 0.0])
        cells[-1][0] += counts[row]
        cells[-1][1] += draws * math.exp(log)
    found, expected = np.array(cells).T
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-9


def test_draws_are_independent_of_each_other_and_read_the_conditional_laws() -> None:
    """Each later coordinate is picked from the weights for what is left, one draw at a time."""
    law = lattice_law(np.array([2.0, 1.0, 0.5]), 0.1, 6)
    asked: list[tuple[int, int]] = []
    answers = {7: 2}

    def pick(weights: np.ndarray, draws: int) -> np.ndarray:
        asked.append((len(weights), draws))
        return np.arange(draws) % len(weights) if draws > 1 else np.array([answers.get(len(weights), 0)])

    units = law.draw(pick, 4)
    assert asked == [(7, 4), (7, 1), (6, 1), (5, 1), (4, 1)]
    assert units.tolist() == [[0, 1, 2, 3], [2, 0, 0, 0], [4, 5, 4, 3]]
