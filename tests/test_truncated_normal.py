"""A truncated normal law: against integrals and rejection, tries far outside, a draw's price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, stats

import discreet as dc
from discreet.research.mechanisms import truncated_posterior as module
from discreet.research.mechanisms.truncated_posterior import sampler_loss, truncated_normal
from folding import every

Floats = npt.NDArray[np.float64]

FALSE_ALARM = 1e-8
"""Of each statistical test; a parametrised one has at most nine cases."""
SIGMAS = 6.0
"""A normal mean is farther out with a probability of 2e-9."""
BOTH = pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)


def expected_tries(
    precision: npt.ArrayLike, shift: npt.ArrayLike, radius: float, *, proposals: int, rng: np.random.Generator
) -> float:
    """How many proposals `truncated_normal` makes for one draw, by the mean acceptance of some."""
    envelope = module._find_envelope(*module._check_law(precision, shift, radius))
    _, log_chance = module._propose(envelope, proposals, rng.standard_normal, rng.random)
    return proposals / float(np.exp(log_chance).sum())


def drawn(precision: npt.ArrayLike, shift: npt.ArrayLike, radius: float, draws: int, seed: int = 1) -> Floats:
    rng = np.random.default_rng(seed)
    return truncated_normal(precision, shift, radius, draws, normals=rng.standard_normal, uniforms=rng.random)


def turned(eigenvalues: Floats, rng: np.random.Generator) -> Floats:
    """A symmetric matrix with these eigenvalues and random axes."""
    axes = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))[0]
    matrix = axes @ np.diag(eigenvalues) @ axes.T
    return np.asarray((matrix + matrix.T) / 2)


# ------------------------------------------------------------------------------------------------ the law


@every(
    ("precision", "shift", "radius"),
    [
        (1, 0, 1),
        (1, 0.5, 1),
        (4, 4, 1),
        (1, 100, 1),
        (1e4, 1e6, 1),
        (1e-9, 0.3, 2),
        (1e-9, -1e3, 2),
        (50, 1, 3),
        (0, 1, 1),
    ],
)
def test_one_coordinate_has_the_law_of_its_integral(precision: float, shift: float, radius: float) -> None:
    draws = drawn([[precision]], [shift], radius, 20_000)[:, 0]
    assert np.abs(draws).max() <= radius
    depth = np.geomspace(1e-13, 1, 200_001)
    grid = radius * np.concatenate([depth - 1, 1 - depth[-2::-1]])
    log_density = shift * grid - precision * grid**2 / 2
    cumulative = integrate.cumulative_trapezoid(np.exp(log_density - log_density.max()), x=grid, initial=0)
    assert stats.kstest(draws, lambda w: np.interp(w, grid, cumulative / cumulative[-1])).pvalue > FALSE_ALARM


@pytest.mark.costly("Moments of cut normal laws are compared with integrals, from the middle to far outside.")
@every("distance", [0.5, 1.0, 3.0, 100.0])
@every("eigenvalues", [(1.0, 1.0), (40.0, 0.5), (300.0, 1e-7)])
def test_two_coordinates_have_the_moments_of_their_integral(eigenvalues: tuple[float, float], distance: float) -> None:
    rng = np.random.default_rng(3)
    precision = turned(np.array(eigenvalues), rng)
    shift = precision @ (distance * np.array([0.8, -0.6]))
    draws = drawn(precision, shift, 1.0, 40_000)
    # In polar coordinates, the radius by Gauss panels that shrink towards the boundary.
    angle = np.linspace(-math.pi, math.pi, 2401)[:-1]
    points, weights = np.polynomial.legendre.leggauss(20)
    edges = np.concatenate([[0], 1 - 2.0 ** -np.arange(1, 20), [1]])
    norm = (edges[:-1, None] + np.diff(edges)[:, None] * (points + 1) / 2).ravel()
    weight = (np.diff(edges)[:, None] * weights / 2).ravel()
    grid = norm[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    log_density = grid @ shift - np.einsum("rai,ij,raj->ra", grid, precision, grid) / 2
    mass = (norm * weight)[:, None] * np.exp(log_density - log_density.max())
    mass /= mass.sum()
    for power in (1, 2):
        for function in (grid**power, (grid[..., :1] * grid[..., 1:]) ** power):
            mean = (mass[..., None] * function).sum((0, 1))
            deviation = np.sqrt(np.maximum((mass[..., None] * function**2).sum((0, 1)) - mean**2, 0))
            own = draws**power if function.shape[-1] == 2 else (draws[:, :1] * draws[:, 1:]) ** power
            assert np.all(np.abs(own.mean(0) - mean) <= SIGMAS * deviation / 200 + 1e-9)


@every("size", [3, 10])
def test_draws_have_the_law_of_plain_rejection(size: int) -> None:
    rng = np.random.default_rng(5)
    precision, mean = turned(np.linspace(0.5, 40, size), rng), rng.normal(0, 0.5 / size**0.5, size)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    plain = mean + rng.normal(size=(1_000_000, size)) @ root.T
    plain = plain[np.linalg.norm(plain, axis=1) <= 1][:20_000]
    assert len(plain) > 5000
    draws = drawn(precision, precision @ mean, 1.0, 20_000)
    for function in (lambda w: np.linalg.norm(w, axis=1), lambda w: w @ mean, lambda w: w[:, 0] * w[:, -1]):
        assert stats.ks_2samp(function(draws), function(plain)).pvalue > FALSE_ALARM


def test_far_outside_the_depth_is_exponential_and_the_direction_a_von_mises_fisher_law() -> None:
    # With A = a I the norm and the direction are independent given a large shift; the cosine is exact given the norm.
    shift, draws = 1e6, drawn(np.eye(3) * 1e4, [0, 0, 1e6], 1.0, 20_000)
    norm = np.linalg.norm(draws, axis=1)
    rate = (shift - 1e4) * (1 - norm)
    assert stats.kstest(rate, "expon").pvalue > FALSE_ALARM
    assert stats.kstest(shift * norm * (1 - draws[:, 2] / norm), "expon").pvalue > FALSE_ALARM


@every("size", [1, 2, 3, 14, 50])
def test_tries_do_not_grow_with_the_distance_or_the_condition(size: int) -> None:
    rng = np.random.default_rng(7)
    found = []
    for distance, condition, precision in itertools.product((0, 0.9, 1.1, 3, 100, 1e4), (1, 1e3, 1e8), (1e-6, 1, 1e5)):
        matrix = turned(precision * condition ** -rng.uniform(0, 1, size), rng)
        mean = rng.normal(size=size)
        mean *= distance / np.linalg.norm(mean)
        found.append(expected_tries(matrix, matrix @ mean, 1.0, proposals=10_000, rng=rng))
    assert min(found) >= 1
    assert max(found) < 3 * (size + 1)


def test_the_expected_tries_are_those_of_the_sampler() -> None:
    rng, asked = np.random.default_rng(9), []

    def uniforms(number: int) -> Floats:
        asked.append(number)
        return rng.random(number)

    tries = expected_tries(np.eye(5), [20.0, 0, 0, 0, 0], 1.0, proposals=200_000, rng=rng)
    # 65536 proposals at a time, of which each takes two uniforms for its tail, come in from the second batch on.
    truncated_normal(np.eye(5), [20.0, 0, 0, 0, 0], 1.0, 60_000, normals=rng.standard_normal, uniforms=uniforms)
    assert sum(asked[::3]) / 60_000 == pytest.approx(tries, rel=0.3)


def test_draws_take_all_their_randomness_from_the_callables() -> None:
    first, again = (drawn(np.eye(3), [5, 0, 0], 1.0, 50) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, drawn(np.eye(3), [5, 0, 0], 1.0, 50, seed=2))
    assert drawn(np.eye(3), [5, 0, 0], 1.0, 0).shape == (0, 3)


@every(
    ("precision", "shift", "radius", "draws", "words"),
    [
        (np.eye(2), [1.0], 1, 1, "shape"),
        ([[math.nan]], [1.0], 1, 1, "finite"),
        ([[1.0]], [math.inf], 1, 1, "finite"),
        ([[1.0, 0.5], [0, 1]], [1.0, 1], 1, 1, "symmetric"),
        (-np.eye(2), [1.0, 1], 1, 1, "negative eigenvalue"),
        ([[1.0]], [1.0], 0, 1, "radius"),
        ([[1.0]], [1.0], math.nan, 1, "radius"),
        ([[1.0]], [1.0], 1, -1, "number of draws"),
    ],
)
def test_bad_laws_are_refused(
    precision: npt.ArrayLike, shift: npt.ArrayLike, radius: float, draws: int, words: str
) -> None:
    with pytest.raises(dc.InputError, match=words):
        drawn(precision, shift, radius, draws)


# ------------------------------------------------------------------------------------------------ the price


def squares(weights: Floats, features: Floats, target: Floats) -> Floats:
    """Negative log-likelihood of each record at each weight, variance 1; shape (records, weights)."""
    return np.asarray((target[:, None] - features @ weights.T) ** 2 / 2)


@BOTH
@pytest.mark.parametrize("radius", [0.2, 0.9, 1.0, 1.5, 4.0])
def test_the_loss_is_the_largest_range_over_pairs_of_records(radius: float, relation: dc.Relation) -> None:
    bound, most = 0.8, 0.0
    claimed = sampler_loss(radius, 1.0, bound, 1.0, relation)
    angle = np.linspace(0, 2 * math.pi, 360, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    weights = np.concatenate([circle * radius * share for share in (0, 0.25, 0.5, 0.75, 1)])
    features = np.concatenate([circle[::4] * share for share in (0.3, 1)])
    target = np.repeat([-bound, 0.0, 0.5 * bound, bound], len(features))
    losses = squares(weights, np.tile(features, (4, 1)), target)
    if relation is dc.Relation.ADD_REMOVE:
        most = float(np.ptp(losses, axis=1).max())
    else:
        most = max(float(np.ptp(losses - one, axis=1).max()) for one in losses[::3])
    assert claimed * 0.98 <= most <= claimed * (1 + 1e-12)


def exact_loss(records: Floats, other: Floats, radius: float, prior: Callable[[Floats], Floats]) -> float:
    """Largest absolute log ratio of two truncated posteriors in one dimension; records are rows (x, y, copies)."""
    grid = np.linspace(-radius, radius, 20_001)
    laws = []
    for table in (records, other):
        log_density = prior(grid) - table[:, 2] @ squares(grid[:, None], table[:, :1], table[:, 1])
        mass = np.exp(log_density - log_density.max())
        laws.append(log_density - log_density.max() - math.log(np.trapezoid(mass, grid)))
    return float(np.abs(laws[0] - laws[1]).max())


@BOTH
@pytest.mark.parametrize("radius", [0.3, 0.8, 1.0, 2.0])
def test_the_loss_is_that_of_the_posterior_on_a_line_and_nearly_reached(radius: float, relation: dc.Relation) -> None:
    bound = 0.8
    claimed = sampler_loss(radius, 1.0, bound, 1.0, relation)
    most = {True: 0.0, False: 0.0}
    # Copies of one record pull the posterior to an end of the interval, or to where a residual is 0.
    for pull, copies in itertools.product((-bound, bound), (0, 10, 100_000)):
        for slope in (1.0, min(1.0, bound / radius)):
            base = np.array([[slope, pull, copies]])
            for x, y, second in itertools.product((-1, 0.5, 1), (-bound, 0, bound), (-bound, bound)):
                removed = relation is dc.Relation.ADD_REMOVE
                more = np.vstack([base, [x, y, 1]])
                rest = base if removed else np.vstack([base, [x, second, 1]])
                loss = exact_loss(more, rest, radius, lambda w: -(w**2))
                assert loss <= claimed * (1 + 1e-6)
                most[True] = max(most[True], loss)
    # On a line two records cannot disagree as much as in a plane once residuals can be 0.
    reached = 4 * radius * bound if relation is dc.Relation.REPLACE else claimed
    assert most[True] >= 0.98 * min(reached, claimed)


def test_printed_numbers_of_the_loss() -> None:
    for prior_precision, loss in ((1000, 1.265), (1e4, 0.4), (100, 4), (1, 121)):
        assert sampler_loss(10 / math.sqrt(prior_precision), 1, 1, 1, "replace") == pytest.approx(loss, rel=1e-3)


@every("place", range(4))
def test_bounds_that_are_not_positive_are_refused(place: int) -> None:
    for value in (0, -1, math.nan, math.inf):
        arguments = [1.0] * 4
        arguments[place] = value
        with pytest.raises(dc.InputError, match="positive"):
            sampler_loss(*arguments, relation="replace")
    with pytest.raises(ValueError, match="other"):
        sampler_loss(1, 1, 1, 1, "other")
