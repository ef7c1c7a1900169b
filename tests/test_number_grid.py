"""The grid of a numeric column: what bounds a record, whatever its number is, holds for all bins and numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import discreet as dc
from discreet.model.number_grid import MOST_LEAVES, STEPS, NumberGrid, number_grids, number_pairs
from folding import every
from tiny import network_of

AGE = dc.Variable("age", bounds=(0, 120), bins=(40, 60))
NARROW = {
    "few floats between ends": ((1e16, 1e16 + 8), (1e16 + 4,)),
    "sixteen digits": ((1e15, 1e15 + 1), (1e15 + 0.5,)),
    "the widest": ((-8.9e307, 8.9e307), (0,)),
    "beyond a half of all floats": ((1e308, 1.7e308), (1.5e308,)),
    "the narrowest": ((0, 1e-323), (5e-324,)),
    "steps that floats round": ((0, 3.3e-319), (1e-319,)),
    "a bin of nothing": ((0, 1), (1e-300,)),
}
"""Bounds and cut points at the limits of floats."""


@st.composite
def grids(draw: st.DrawFn) -> NumberGrid:
    """Grids of real and of whole numbers, of equal bins and of very unequal ones."""
    whole = draw(st.booleans())
    number: Any = st.integers(-(2**53), 2**53) if whole else st.floats(allow_nan=False, allow_infinity=False)
    near: Any = st.integers(-50, 50) if whole else st.floats(-10, 10)
    ends = sorted(draw(st.lists(draw(st.sampled_from((number, near))), min_size=3, max_size=7, unique=True)))
    assume(all(a < b for a, b in pairwise(ends)) and math.isfinite(float(ends[-1]) - float(ends[0])))
    names = tuple(f"bin {at}" for at in range(len(ends) - 1))
    kind = "integer" if whole else "real"
    return NumberGrid(dc.Variable("x", names, (ends[0], ends[-1]), tuple(ends[1:-1]), kind))


def bins_of(grid: NumberGrid, numbers: np.ndarray) -> np.ndarray:
    """The bin of each number; those out of bounds are in the first and in the last."""
    return np.searchsorted(grid.variable.bins, numbers, side="right")


def check_bounds(grid: NumberGrid, numbers: np.ndarray) -> None:
    """Offsets stay within reach, for every bin and not only that of a number, and all leaves are intervals."""
    for bins in (bins_of(grid, numbers), *(np.full(len(numbers), at) for at in range(grid.bins))):
        offsets = grid.offsets(numbers, bins)
        assert offsets.dtype == np.int64
        assert np.all(np.abs(offsets) <= grid.reach[bins])
    assert grid.reach.min() >= 0 and 1 <= grid.reach.max() <= STEPS
    assert grid.step > 0 and np.all(np.isfinite(grid.middles))
    for leaves in (1, grid.finest):
        edges = grid.leaf_edges(leaves)
        assert np.all(np.diff(edges) > 0) and len(edges) == grid.leaves_of_bins(leaves).sum() + 1
    assert len(grid.refined.values) == len(grid.bin_of_leaf(grid.finest))


@given(grid=grids(), numbers=st.lists(st.floats(allow_nan=False), min_size=1, max_size=5))
def test_no_number_moves_an_offset_beyond_reach(grid: NumberGrid, numbers: list[float]) -> None:
    ends = [end for edge in grid.edges.tolist() for end in (edge, math.nextafter(edge, -math.inf))]
    check_bounds(grid, np.array([*numbers, *ends, np.inf, -np.inf, 1.7e308, -1.7e308]))


@every("name", NARROW)
def test_bins_at_the_limits_of_floats_have_grids(name: str) -> None:
    bounds, cuts = NARROW[name]
    grid = NumberGrid(dc.Variable("x", ("low", "high"), bounds, cuts, missing="none"))
    check_bounds(grid, np.array([*grid.edges, np.inf, -np.inf]))
    assert grid.refined.missing is not None and grid.refined.size == len(grid.refined.values) + 1


@given(grid=grids(), seed=st.integers(0, 2**32))
def test_offsets_tell_numbers_to_half_a_step(grid: NumberGrid, seed: int) -> None:
    """And the widest bin has `STEPS` steps on either side, which its ends attain."""
    assume(grid.step > 1e-300 and abs(grid.edges).max() < 1e300)
    rng = np.random.default_rng(seed)
    at = rng.integers(grid.bins, size=20)
    numbers = grid.edges[at] + rng.random(20) * (grid.edges[at + 1] - grid.edges[at])
    if grid.shift:
        numbers = np.minimum(np.floor(numbers), grid.edges[at + 1] - 1)
    numbers = np.minimum(numbers, np.nextafter(grid.edges[at + 1], -np.inf))
    told = grid.middles[at] - grid.shift + grid.offsets(numbers, at) * grid.step
    rounding = 8 * np.spacing(np.abs(grid.edges).max())
    assert np.all(np.abs(told - numbers) <= grid.step * (0.5 + 1e-3) + rounding)
    widest = int(np.argmax(np.diff(grid.edges)))
    assert grid.reach[widest] == STEPS
    if not grid.shift:
        ends = grid.offsets(grid.edges[widest : widest + 2], np.array([widest, widest]))
        assert np.all(np.abs(ends - [-STEPS, STEPS]) <= 1 + rounding / grid.step)


@given(grid=grids(), seed=st.integers(0, 2**32))
def test_leaves_are_nested_and_add_up(grid: NumberGrid, seed: int) -> None:
    """Each number is counted in its leaf, its leaf's leaf and its bin."""
    rng = np.random.default_rng(seed)
    at = rng.integers(grid.bins, size=50)
    numbers = np.minimum(
        grid.edges[at] + rng.random(50) * (grid.edges[at + 1] - grid.edges[at]),
        np.nextafter(grid.edges[at + 1], -np.inf),
    )
    sizes = [2**power for power in range(7) if 2**power <= grid.finest]
    assert grid.bins * grid.finest <= max(MOST_LEAVES, grid.bins)

    def table(leaves: int) -> np.ndarray:
        edges = grid.leaf_edges(leaves)
        place = np.searchsorted(edges[1:-1], numbers, side="right")
        assert np.array_equal(grid.bin_of_leaf(leaves)[place], at)
        return np.bincount(place, minlength=len(edges) - 1)

    finest = table(grid.finest)
    for leaves in sizes:
        assert set(grid.leaf_edges(leaves)) <= set(grid.leaf_edges(grid.finest))
        assert np.array_equal(grid.coarsen(finest, leaves), table(leaves))
        several = np.stack([finest, 3 * finest], axis=-1)
        assert np.array_equal(grid.coarsen(several, leaves)[:, 1], 3 * table(leaves))


def test_whole_numbers_have_leaves_of_their_own() -> None:
    grid = NumberGrid(dc.Variable("n", bounds=(0, 9), bins=(1, 3, 5), type="integer"))
    assert grid.leaves_of_bins(16).tolist() == [1, 2, 2, 4]
    assert grid.leaf_edges(16).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10]
    assert grid.refined.edges == (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)
    whole = np.arange(10.0)
    assert np.searchsorted(grid.leaf_edges(16)[1:-1], whole, side="right").tolist() == [*range(9), 8]
    # The middle of 5, .., 9 is 7 + 1/2, that of the interval of 7; the one of 1 and 2 lies between their intervals.
    assert grid.offsets(np.array([7.0, 0.0, 1.0, 2.0]), np.array([3, 0, 1, 1])).tolist() == [0, 0, -3277, 3277]
    assert grid.offsets(np.array([5.0, 9.0]), np.array([3, 3])).tolist() == [-13107, 13107]


def test_anchors_are_middles_from_that_of_the_range() -> None:
    grid = NumberGrid(AGE)
    assert (grid.anchors * grid.step).round(2).tolist() == [-40, -10, 30]
    assert grid.reach.tolist() == [10923, 5462, 16384]
    assert (grid.finest, grid.bins, grid.step) == (16, 3, 30 / STEPS)
    many = NumberGrid(dc.Variable.binned("x", (0, 1), 100))
    assert many.finest == 1 and many.refined.size == 100


@every(
    "variable",
    [
        dc.Variable("x", bounds=(0, 1)),
        dc.Variable("x", ("a", "b")),
        dc.Variable("x\n" + "y" * 900, bounds=(0, 1)),
    ],
)
def test_a_column_without_bins_is_refused_in_one_line(variable: dc.Variable) -> None:
    with pytest.raises(dc.InputError, match="has no bins of numbers") as refused:
        NumberGrid(variable)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_grids_are_of_numeric_columns_with_bins() -> None:
    sex = network_of({"sex": 2}).variables[0]
    wait = dc.Variable("wait", bounds=(0, 9), bins=(3,), type="integer")
    network = dc.Network((sex, AGE, wait), {"sex": (), "age": ("sex",), "wait": ("age",)})
    grids_of = number_grids(network)
    assert list(grids_of) == ["age", "wait"]
    assert number_pairs(grids_of, [("sex", "age")]) == ()
    assert number_pairs(grids_of, [("sex", "age", "wait")]) == (("age", "wait"),)
