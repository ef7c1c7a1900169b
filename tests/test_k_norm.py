"""K-norm noise has the law it says, in every step of its sampler, and that law costs what the calibration says.

False alarms: the exact source cannot be seeded; 6 chi-square tests at 1e-9, cells pooled until each expects 30 draws,
and 2 moments at more than 7 standard errors: together below 1e-8 a run. All else is seeded or scripted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.mechanisms.noise import COUNT_LIMIT, ExactNoise, Noise, SimulatedNoise
from discreet.noise import k_norm
from discreet.noise.k_norm import k_norm_noise, k_norm_scale
from discreet.noise.noise_laws import ShapeTag
from folding import every
from goodness import fit

FALSE_ALARM = 1e-9
DRAWS = 4000
"""Of a seeded source: as many as tell another law from this one at that false alarm."""
SHAPES: tuple[ShapeTag, ...] = ("cube", "ball", "diamond")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")


def source(name: str, seed: int = 2026) -> Noise:
    return ExactNoise() if name == "exact" else SimulatedNoise(np.random.default_rng(seed))


# ------------------------------------------------------------------------------------- the laws, slow and obvious


@cache
def evenness(dimension: int, radius: int) -> float:
    """`c(r)` of the ball by its definition: radii' weight, coin at the middle, and the Gaussians' sum."""
    deviation = (radius + 0.5) / math.sqrt(dimension)
    k = np.arange(-math.ceil(40 * deviation) - 1, math.ceil(40 * deviation) + 2)
    total = np.exp(-(k**2) / (2 * deviation**2)).sum()
    return float(math.exp(dimension * math.log((radius + 0.5) / total) - (radius + 0.5) ** 2 / (2 * deviation**2)))


@cache
def levels(dimension: int, scale: float, shape: ShapeTag, reach: int) -> np.ndarray:
    """Weight of a vector by its norm, rounded up: `sum of q^r c(r) over r >= norm`; shape (reach + 1,)."""
    far = reach + math.ceil(40 * scale)
    even = [evenness(dimension, radius) if shape == "ball" else 1.0 for radius in range(far)]
    weights = np.exp(-np.arange(far) / scale) * even
    return np.asarray(np.cumsum(weights[::-1])[::-1][: reach + 1])


def norms(vectors: np.ndarray, shape: ShapeTag) -> np.ndarray:
    """Norms of vectors, shape (vectors, d), rounded up."""
    if shape == "cube":
        return np.asarray(np.abs(vectors).max(axis=1))
    if shape == "diamond":
        return np.asarray(np.abs(vectors).sum(axis=1))
    squares = (vectors**2).sum(axis=1)
    assert squares.max() < 2**52, "roots of floats are rounded up rightly"
    return np.ceil(np.sqrt(squares)).astype(np.int64)


@cache
def lattice(dimension: int, reach: int) -> np.ndarray:
    return np.array(list(itertools.product(range(-reach, reach + 1), repeat=dimension)))


CASES: list[tuple[int, float, ShapeTag, int]] = [
    (1, 0.5, "cube", 12), (2, 1.3, "cube", 20), (3, 1.0, "cube", 14), (1, 0.5, "ball", 12), (2, 1.3, "ball", 20),
    (3, 1.0, "ball", 14), (1, 0.5, "diamond", 12), (2, 1.3, "diamond", 20), (3, 1.0, "diamond", 14),
]  # fmt: skip
"""Dimension, scale, shape, and a norm beyond which less than 1e-3 of the mass lies."""


@cache
def law(dimension: int, scale: float, shape: ShapeTag, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """All vectors of coordinates up to `reach`, and their probabilities among those of norms up to `reach`."""
    vectors = lattice(dimension, reach)
    found = norms(vectors, shape)
    weights = np.where(found <= reach, levels(dimension, scale, shape, reach)[np.minimum(found, reach)], 0.0)
    return vectors, weights / weights.sum()


def joint_fit(draws: np.ndarray, scale: float, shape: ShapeTag, reach: int, within: float = 0.99) -> float:
    """Fit of draws, shape (draws, d), to the joint law of all coordinates, given that the norm is at most `reach`."""
    kept = draws[norms(draws, shape) <= reach]
    assert len(kept) > within * len(draws)
    _, probabilities = law(draws.shape[1], scale, shape, reach)
    cells = (kept + reach) @ (2 * reach + 1) ** np.arange(draws.shape[1])[::-1]
    return fit(np.bincount(cells, minlength=len(probabilities)), probabilities)


def drawn(noise: Noise, number: int, dimension: int, scale: float, shape: ShapeTag) -> np.ndarray:
    zeros = np.zeros(dimension, np.int64)
    return np.array([noise.k_norm(zeros, scale, shape) for _ in range(number)])


@cache
def simulated(dimension: int, scale: float, shape: ShapeTag) -> np.ndarray:
    """Vectors; drawn once for both tests below, since a vector costs a tenth of a millisecond and more."""
    return drawn(source("simulated"), DRAWS, dimension, scale, shape)


@pytest.mark.costly("The noise that is paid for is that of the whole vector, not of each coordinate.", always=True)
@every(("dimension", "scale", "shape", "reach"), CASES)
@every(("name", "draws"), [("exact", 200), ("simulated", DRAWS)])
def test_vectors_have_their_joint_law(
    name: str, draws: int, dimension: int, scale: float, shape: ShapeTag, reach: int
) -> None:
    vectors = (
        simulated(dimension, scale, shape)
        if name == "simulated"
        else drawn(source(name), draws, dimension, scale, shape)
    )
    assert len(vectors) == draws
    assert joint_fit(vectors, scale, shape, reach) > FALSE_ALARM


@pytest.mark.costly("A fit that notices nothing would pass every sampler.", always=True)
@every(("dimension", "scale", "shape", "reach"), CASES)
def test_the_fit_notices_another_law(dimension: int, scale: float, shape: ShapeTag, reach: int) -> None:
    """What the test above must not let through: another scale, the other norm, a shift, a vector in two parts."""
    noise, other = source("simulated", 5), SHAPES[SHAPES[0] == shape]
    draws = simulated(dimension, scale, shape)
    wrong = {"scale": drawn(noise, DRAWS, dimension, 1.3 * scale, shape), "shift": draws + (np.arange(dimension) == 0)}
    if dimension > 1 and shape != "diamond":  # whose coordinates are independent
        wrong["parts"] = np.column_stack([draws[:, :1], np.roll(draws[:, 1:], 1, axis=0)])
    if dimension > 1:
        wrong["norm"] = simulated(dimension, scale, other)
    fits = {what: joint_fit(found, scale, shape, reach, 0.9) for what, found in wrong.items()}
    assert {what: p < FALSE_ALARM for what, p in fits.items()} == dict.fromkeys(wrong, True)


@every(("dimension", "scale"), [(1, 8.0), (2, 10.0), (3, 8.0)])
def test_the_law_of_the_ball_is_what_it_is_named_for(dimension: int, scale: float) -> None:
    """At scales of some steps, `P(k) ~ exp(-ceil(||k||_2) / scale)`: total variation from the radii near 0 only."""
    reach = math.ceil(4 * dimension * scale) if dimension < 3 else 40
    vectors, right = law(dimension, scale, "ball", reach)
    ceilings = norms(vectors, "ball")
    ideal = np.where(ceilings <= reach, np.exp(-ceilings / scale), 0)
    assert 0.5 * np.abs(right - ideal / ideal.sum()).sum() < 2e-4


# ------------------------------------------------------------------------------------------------------- privacy


def losses(dimension: int, scale: float, shape: ShapeTag, shift: np.ndarray, reach: int) -> np.ndarray:
    """Log ratio of the laws of the noise at every vector and at the vector less a shift."""
    vectors = lattice(dimension, reach)
    beyond = reach * math.isqrt(dimension * 4) + int(np.abs(shift).sum())
    logs = np.log(levels(dimension, scale, shape, beyond))
    return np.asarray(logs[norms(vectors, shape)] - logs[norms(vectors - shift, shape)])


@pytest.mark.costly("The guarantee of noise in a ball or cube, by enumeration of outputs and shifts.", always=True)
@every("sensitivity", [1, 2, 3])
@every(("dimension", "scale"), [(1, 0.5), (1, 3.0), (2, 0.4), (2, 2.5), (3, 0.5), (3, 2.0)])
@every("shape", SHAPES)
def test_no_two_neighbours_are_told_apart_by_more_than_the_cost(
    shape: ShapeTag, dimension: int, scale: float, sensitivity: int
) -> None:
    """All outputs on a lattice, all shifts of at most the sensitivity: nothing above the cost, and it is reached.

    The law does not depend on the data, so pairs of neighbours differ only by their shift.
    """
    shifts = lattice(dimension, sensitivity)
    shifts = shifts[norms(shifts, shape) <= sensitivity]
    shifts = shifts[: len(shifts) // 2 + 1]  # the others are their opposites, and the law is even
    largest = max(
        float(np.abs(losses(dimension, scale, shape, shift, 9 if dimension == 3 else 16)).max()) for shift in shifts
    )
    cost = sensitivity / scale + (dimension / 2**100 if shape == "ball" else 0)
    assert largest <= cost + 1e-11
    # The loss is attained everywhere, the ball's where c(r) no longer changes.
    assert largest >= cost * (1 - (0.02 if shape == "ball" else 1e-11))


def log_evenness(dimension: int, radius: int, deviation: float) -> Decimal:
    """`log c(r)` for the standard deviation as the float that it is, to 60 digits; Poisson's form of the sum."""
    exact, middle = Decimal(deviation), Decimal(2 * radius + 1) / 2
    theta, m = Decimal(1), 1
    while (term := 2 * (-2 * (PI * exact * m) ** 2).exp()) > Decimal("1e-60"):
        theta += term
        m += 1
    normaliser = exact * (2 * PI).sqrt() * theta
    return dimension * (middle / normaliser).ln() - (middle / exact) ** 2 / 2


def deviation_at(dimension: int, radius: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """The standard deviation that the sampler asks for at a radius."""
    asked: list[float] = []

    class Spy:
        def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            return values

        def discrete_gaussian(self, values: np.ndarray, scale: float) -> np.ndarray:
            asked.append(scale)
            return values

    monkeypatch.setattr(k_norm, "_draw_radius", lambda *_: radius)
    monkeypatch.setattr(k_norm, "coin", lambda *_: True)
    k_norm_noise(Spy(), bytes, dimension, 1000.0, "ball")
    return asked[0]


@pytest.mark.parametrize("dimension", [1, 2, 3, 11, 120, 500])
def test_rounded_deviations_cost_no_more_than_the_slack(dimension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`log c(r) <= log c(r + L) + d / 2^100` for the floats that are used; all radii to 30, then some up to 2^61."""
    rng = np.random.default_rng(dimension)
    radii = [*range(30), *(int(2**x) + int(rng.integers(99)) for x in rng.uniform(5, 61, 40))]
    with localcontext() as context:
        context.prec = 60
        logs = [log_evenness(dimension, r, deviation_at(dimension, r, monkeypatch)) for r in sorted(radii)]
        later = list(itertools.accumulate(reversed(logs), min))[::-1]
        excess = max(log - least for log, least in zip(logs, later, strict=True))
        assert excess <= Decimal(dimension) / 2**100
    # The slack is not idle: but for one coordinate, where the root is exact, roundings are seen.
    assert excess > 0 or dimension == 1
    for radius in (0, 1, 2, 5):
        assert math.exp(float(log_evenness(dimension, radius, (radius + 0.5) / math.sqrt(dimension)))) == pytest.approx(
            evenness(dimension, radius), rel=1e-9
        )


# ----------------------------------------------------------------------------------------------- steps of the sampler


def eulerian(dimension: int) -> list[int]:
    """Eulerian numbers of type B, by their recurrence; the sum is `2^d d!`."""
    row = [1]
    for n in range(1, dimension + 1):
        row = [
            (2 * j + 1) * (row[j] if j < n else 0) + (2 * n - 2 * j + 1) * (row[j - 1] if j else 0)
            for j in range(n + 1)
        ]
    return row


@every("dimension", [1, 2, 3, 4, 7, 12])
def test_the_radius_is_a_rounded_sum_and_geometrics(dimension: int) -> None:
    """The identity behind the radius, by exact convolution: `(2 r + 1)^d = sum of B(d, j) C(r - j + d, d) over j`."""
    row = eulerian(dimension)
    assert sum(row) == 2**dimension * math.factorial(dimension) and row == row[::-1]
    for radius in range(25):
        ways = sum(number * math.comb(radius - j + dimension, dimension) for j, number in enumerate(row[: radius + 1]))
        assert ways == (2 * radius + 1) ** dimension


@every("dimension", [1, 2, 3, 10, 100])
def test_rounded_sums_follow_the_eulerian_numbers(dimension: int) -> None:
    """An oracle of another kind: `P(round(U_1 + .. + U_d) = j) = B(d, j) / (2^d d!)`."""
    entropy, row = np.random.default_rng(3).bytes, eulerian(dimension)
    found = [k_norm._draw_rounded_sum(entropy, dimension) for _ in range(10_000)]
    total = sum(row)
    assert fit(np.bincount(found, minlength=len(row)), np.array([number / total for number in row])) > FALSE_ALARM


@every(("number", "rounded"), [(2, 0), (5, 0), (9, 1), (9, 7)])
def test_an_undecided_sum_asks_for_more_bits(number: int, rounded: int) -> None:
    """Known bits that are `number - 1` units below a half: the next 64 bits of every number decide, by their carry."""
    words = [2**64 - 1] * rounded + [0] * (number - rounded)
    words[-1] = (rounded << 64) + 2**63 - (number - 1) - sum(words)
    for more, expected in ((0, rounded), (2**64 - 1, rounded + 1)):
        script = [words, [more] * number]
        assert k_norm._draw_rounded_sum(lambda _, s=script: np.array(s.pop(0), np.uint64).tobytes(), number) == expected
        assert not script
    for moved, expected in ((number - 1, rounded + 1), (-1, rounded)):  # decided by the first 64 bits
        script = [[*words[:-1], words[-1] + moved]]
        assert k_norm._draw_rounded_sum(lambda _, s=script: np.array(s.pop(0), np.uint64).tobytes(), number) == expected


@pytest.mark.costly("A law of radii that is off by a half shows in thousands of draws.", always=True)
@every(("dimension", "scale"), [(1, 0.3), (3, 0.9), (5, 1.2), (20, 10.0)])
def test_radii_weigh_as_many_vectors_as_a_cube_has(dimension: int, scale: float) -> None:
    """Chi-square against `P(r) ~ (2 r + 1)^d q^r`, and against likes that a sampler could have instead."""
    rng = np.random.default_rng(4)
    found = [k_norm._draw_radius(SimulatedNoise(rng), rng.bytes, dimension, scale) for _ in range(6000)]
    r = np.arange(max(*found, 40 * dimension) + 1)

    def against(base: np.ndarray) -> float:
        logs = dimension * np.log(base) - r / scale
        weights = np.exp(logs - logs.max())
        return fit(np.bincount(found, minlength=len(r)), weights / weights.sum())

    assert against(2 * r + 1) > FALSE_ALARM
    if dimension < 20:  # where radii are large, half a step of them is not seen
        assert against(2 * r + 2) < FALSE_ALARM and against(2 * r + 0.25) < FALSE_ALARM


@every("radius", [0, 1, 2, 3, 4, 7, 100])
def test_coordinates_each_come_from_one_word(radius: int) -> None:
    """The same for the coordinates of a cube, which are drawn together."""
    bits = max((2 * radius).bit_length(), 1)
    words = (np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)) + np.uint64(12345)
    asked: list[int] = []

    def entropy(size: int) -> bytes:
        asked.append(size)
        return words.tobytes() if len(asked) == 1 else bytes(size)

    found = k_norm._draw_cube(entropy, 2**bits, radius)
    assert found.dtype == np.int64 and asked[0] == 8 * 2**bits
    assert found[: 2 * radius + 1].tolist() == list(range(-radius, radius + 1))
    assert set(found[2 * radius + 1 :].tolist()) <= {-radius}


def test_coordinates_reach_62_bits() -> None:
    found = k_norm._draw_cube(np.random.default_rng(7).bytes, 2000, 2**62 - 1)
    assert int(found.min()) < -0.99 * 2**62 and int(found.max()) > 0.99 * 2**62


# --------------------------------------------------------------------------------------------------------- moments


def mean_square(dimension: int, scale: float, shape: ShapeTag) -> float:
    """`E ||k||_2^2 / d`. Cube: `r (r + 1) / 3` under the radius law. Ball: by the continuous law, far from 0."""
    if shape == "ball":
        return scale**2 * (dimension + 1)
    r = np.arange(math.ceil((dimension + 40 * math.sqrt(dimension) + 40) * scale))
    logs = dimension * np.log(2 * r + 1) - r / scale
    weights = np.exp(logs - logs.max())
    return float((weights * r * (r + 1)).sum() / weights.sum() / 3)


@pytest.mark.costly("Vectors of many dimensions are drawn by another branch than those of few.", always=True)
@every(
    ("name", "dimension", "shape", "draws"),
    [
        ("exact", 10, "ball", 100), ("exact", 100, "cube", 100), ("simulated", 10, "ball", 1500),
        ("simulated", 10, "cube", 1000), ("simulated", 100, "cube", 1000), ("simulated", 100, "ball", 300),
    ],
)  # fmt: skip
def test_moments_in_many_dimensions(name: str, dimension: int, shape: ShapeTag, draws: int) -> None:
    """Means of 0, mean squares as expected, no correlation between coordinates."""
    found = drawn(source(name, 11), draws, dimension, 40.0, shape) / 40.0
    right = mean_square(dimension, 40.0, shape) / 1600
    squares = (found**2).mean(axis=1)
    error = squares.std() / math.sqrt(draws)
    assert abs(squares.mean() - right) < 8 * error
    assert name == "exact" or abs(squares.mean() - right * 1.4) > 8 * error
    assert np.abs(found.mean(axis=0)).max() < 8 * math.sqrt(right / draws)
    # Products of neighbours have mean 0 and a variance below 3 E k^2 E k^2: the shapes share their radius.
    assert abs((found[:, 1:] * found[:, :-1]).mean()) < 8 * right * math.sqrt(3 / draws)


@pytest.mark.costly("A ball that leaves out lattice points shows in the law of its norms only.", always=True)
@every(("dimension", "scale"), [(2, 20.0), (10, 2.5)])
def test_norms_in_the_ball_follow_the_number_of_lattice_points(dimension: int, scale: float) -> None:
    """Chi-square of ||k||^2 against the number of ways to write it as a sum of squares, times the law of one vector."""
    reach = math.ceil((dimension + 12 * math.sqrt(dimension)) * scale)
    ways = np.zeros(reach**2 + 1)
    ways[0] = 1
    for _ in range(dimension):
        previous, ways = ways, ways.copy()
        for root in range(1, reach + 1):
            ways[root**2 :] += 2 * previous[: len(ways) - root**2]
    roots = np.array([math.isqrt(n) for n in range(len(ways))])
    weights = ways * levels(dimension, scale, "ball", reach + 1)[roots + (roots**2 < np.arange(len(ways)))]
    squares = (drawn(source("simulated", 12), 2000, dimension, scale, "ball") ** 2).sum(axis=1)
    observed = np.bincount(np.minimum(squares, reach**2), minlength=len(ways))
    assert fit(observed, weights / weights.sum(), 100) > FALSE_ALARM


# ------------------------------------------------------------------------------------------------------- calibration


@given(
    st.integers(1, 10**7),
    st.fractions(Fraction(1, 10**6), 20),
    st.integers(1, 500),
    st.sampled_from(SHAPES),
)
def test_the_scale_is_the_smallest_that_keeps_the_budget(
    sensitivity: int, epsilon: Fraction, dimension: int, shape: ShapeTag
) -> None:
    if 8 * sensitivity < dimension * epsilon or 3 * sensitivity * (dimension + 1) > 2**52 * epsilon:
        return
    scale, cost = k_norm_scale(sensitivity, epsilon, dimension, shape)
    slack = Fraction(dimension, 2**100) if shape == "ball" else 0
    assert cost == Fraction(sensitivity) / Fraction(scale) + slack
    assert epsilon * (1 - Fraction(1, 10**15)) <= cost <= epsilon
    assert sensitivity / Fraction(math.nextafter(scale, 0)) + slack > epsilon


def test_the_costs_of_known_cases() -> None:
    assert k_norm_scale(8192, Fraction(1), 500, "cube") == (8192.0, Fraction(1))
    scale, cost = k_norm_scale(8192, Fraction(1), 11, "ball")
    assert scale == math.nextafter(8192.0, math.inf)
    assert 1 - Fraction(1, 2**51) < cost < 1


class Untouched:
    """Sources that may not be asked."""

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        raise AssertionError("drawn")

    discrete_gaussian = discrete_laplace

    def __call__(self, size: int) -> bytes:
        raise AssertionError("drawn")


@every(
    ("sensitivity", "epsilon", "dimension", "shape", "why"),
    [
        (0, Fraction(1), 3, "cube", "a sensitivity of 0"), (-1, Fraction(1), 3, "ball", "a sensitivity of -1"),
        (1.5, Fraction(1), 3, "cube", "a sensitivity of 1.5"), (math.nan, Fraction(1), 3, "cube", "sensitivity of nan"),
        (1, Fraction(0), 3, "cube", "an epsilon of 0"), (1, Fraction(-1), 3, "ball", "an epsilon of -1"),
        (1, Fraction(1), 0, "cube", "a vector of 0 coordinates"), (1, Fraction(1), -2, "ball", "at least one"),
        (1, Fraction(1), 3, "sphere", "'sphere': expected \"cube\", \"ball\" or"),
        (4096, Fraction(66), 500, "cube", "epsilon is too large.*at most 32768/500"),
        (1, Fraction(9), 1, "ball", "epsilon is too large.*at most 8/1"),
        (1, Fraction(4, 2**52), 2, "cube", "epsilon is too small"),
        (4096, Fraction(1, 10**400), 2, "ball", "too small"),
        (1, Fraction(10**400), 2, "ball", "too large"),
    ],
)  # fmt: skip
def test_a_calibration_that_is_none_is_refused(
    sensitivity: int, epsilon: Fraction, dimension: int, shape: ShapeTag, why: str
) -> None:
    with pytest.raises(dc.InputError, match=why):
        k_norm_scale(sensitivity, epsilon, dimension, shape)


def test_noise_of_a_diamond_may_be_as_large_whatever_its_coordinates() -> None:
    """500 coordinates of the largest scale: beyond 2,000 scales, where 64 bits end, with a chance below exp(-1990)."""
    epsilon = Fraction(6, 2**52)
    scale, _ = k_norm_scale(1, epsilon, 500, "diamond")
    for noise in (source("exact"), source("simulated")):
        assert int(np.abs(noise.k_norm(np.zeros(500, np.int64), scale, "diamond")).max()) < 2000 * scale
    with pytest.raises(dc.InputError, match="too small"):
        k_norm_scale(1, epsilon / 2, 500, "diamond")


@every("shape", SHAPES)
def test_the_ends_of_the_calibration_can_be_drawn(shape: ShapeTag) -> None:
    """The smallest and the largest scale; radii of the largest are far from 2^62, but for a chance of exp(-500)."""
    for epsilon, dimension in (
        (Fraction(8, 3), 3),
        (Fraction(12, 2**52), 3),
        (Fraction(12, 2**52) + Fraction(1, 2**97), 3),
    ):
        scale, _ = k_norm_scale(1, epsilon * (1 - Fraction(1, 10**6) * (epsilon > 1)), dimension, shape)
        for noise in (source("exact"), source("simulated")):
            found = noise.k_norm(np.zeros(dimension, np.int64), scale, shape)
            assert int(np.abs(found).max()) < 500 * scale + 1000


@every(
    ("dimension", "scale", "shape", "why"),
    [
        (0, 1.0, "cube", "a vector of 0 coordinates"), (3, 1.0, "sphere", "sphere"),
        (3, math.nan, "cube", "scale of nan"),
        (3, 0.0, "ball", "scale of 0.0"), (3, -5.0, "cube", "at least 3/8"), (3, math.inf, "ball", "scale of inf"),
        (500, 62.0, "cube", "at least 500/8"), (500, 62.0, "ball", "at least 500/8"),
        (3, 2.0**51, "ball", r"at most 1\.126e\+15"), (3, 2.0**52, "diamond", r"at most 2\.252e\+15"),
    ],
)  # fmt: skip
def test_a_draw_that_cannot_be_is_refused_before_anything_is_drawn(
    dimension: int, scale: float, shape: ShapeTag, why: str
) -> None:
    for refused in (
        lambda: k_norm_noise(Untouched(), Untouched(), dimension, scale, shape),
        lambda: source("exact").k_norm(np.zeros(dimension, np.int64), scale, shape),
        lambda: source("simulated").k_norm(np.zeros(dimension, np.int64), scale, shape),
    ):
        with pytest.raises(dc.InputError, match=why):
            refused()


# ----------------------------------------------------------------------------------------------- as a source of noise


@every("shape", SHAPES)
@every("name", ["exact", "simulated"])
def test_noise_is_added_and_shapes_are_kept(name: str, shape: ShapeTag) -> None:
    """At scale 1 a coordinate moves by 1,000 or more with probability below exp(-900)."""
    values = np.array([[0, 2**40 + 1, -(2**53)], [5, 7, 2**53]])
    before = values.copy()
    noisy = source(name).k_norm(values, 1.0, shape)
    assert noisy.shape == (2, 3) and noisy.dtype == np.int64
    assert np.abs(noisy - before).max() < 1000
    assert np.array_equal(values, before)


def test_a_value_beyond_the_limit_is_refused_without_its_value() -> None:
    with pytest.raises(dc.InputError, match=r"larger than 9,007,199,254,740,992") as caught:
        ExactNoise().k_norm(np.array([5, -COUNT_LIMIT - 12345]), 1.0, "cube")
    assert str(COUNT_LIMIT + 12345) not in str(caught.value).replace(",", "")


@pytest.mark.system_noise
def test_a_simulation_is_repeatable_and_a_release_is_not() -> None:
    """Two exact vectors of 20 coordinates at scale 1e6 agree with probability below 1e-100."""

    def twice(make: Callable[[int], Noise]) -> bool:
        one, two = (make(seed).k_norm(np.zeros(20, np.int64), 1e6, "ball") for seed in (1, 1))
        return np.array_equal(one, two)

    assert twice(lambda seed: SimulatedNoise(np.random.default_rng(seed)))
    assert not twice(lambda seed: ExactNoise())
    other = SimulatedNoise(np.random.default_rng(2)).k_norm(np.zeros(20, np.int64), 1e6, "ball")
    assert not np.array_equal(other, source("simulated", 1).k_norm(np.zeros(20, np.int64), 1e6, "ball"))


@every("shape", ["cube", "ball"])
@every("dimension", [1, 6, 13, 120])
def test_twice_the_largest_scale_can_be_drawn_too(shape: ShapeTag, dimension: int) -> None:
    """A vector may be doubled with its noise."""
    least = Fraction(3 * 8192 * (dimension + 1), 2**52)
    scale, _ = k_norm_scale(8192, least, dimension, shape)
    assert 2 * scale * (dimension + 1) <= 2.0**52
    with pytest.raises(dc.InputError, match="too small"):
        k_norm_scale(8192, least * (1 - Fraction(1, 10**6)), dimension, shape)
