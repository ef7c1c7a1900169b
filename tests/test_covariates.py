"""Laws of covariates: their moments against plain sums and integrals, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import dblquad, quad
from scipy.special import expit

from discreet.designs.readers.laws import (
    SPREAD_POINTS,
    Histograms,
    Law,
    PublicRows,
    UniformBox,
    UniformSphere,
    WeightedPoints,
    cosines,
    moment,
    spread,
)
from discreet.errors import InputError
from folding import every

EDGES = np.array([-1.0, -0.5, 0.2, 1.0])
LAWS: tuple[Law, ...] = (
    WeightedPoints(np.array([[0.5, 1.0], [-0.2, 1.0]]), np.array([0.3, 0.7])),
    UniformSphere(3, 0.8, 0.5),
    UniformSphere(2, 1.0, None),
    UniformBox(2, 1.0),
    UniformBox(3, None),
    PublicRows(np.array([[0.5, -0.1], [0.3, 0.9]]), 1.0),
    Histograms((EDGES, EDGES), (np.array([3.0, 0.0, 5.0]), np.array([1.0, 2.0, -4.0])), 1.0),
)


def mean_squares(law: Law) -> np.ndarray:
    """`E v_j^2` for each coordinate, by the formulas of the laws; cells below 0 count nothing."""
    match law:
        case UniformSphere():
            features = np.full(law.features, law.norm**2 / law.features)
        case UniformBox():
            features = np.full(law.features, 1 / 3)
        case Histograms():
            shares = [np.maximum(cells, 0) / np.maximum(cells, 0).sum() for cells in law.counts]
            cubes = [np.diff(ends**3) / np.diff(ends) / 3 for ends in law.edges]
            features = np.array([part @ cube for part, cube in zip(shares, cubes, strict=True)])
        case _:
            at = spread(law)
            return np.asarray(at.weights @ at.points**2)
    return features if law.constant is None else np.append(features, law.constant**2)


@every("law", LAWS)
def test_points_stand_for_their_law(law: Law) -> None:
    at = spread(law)
    assert at.size == law.size == len(mean_squares(law))
    assert at.weights @ at.points**2 == pytest.approx(mean_squares(law), abs=2e-3)
    w = np.linspace(-1.0, 1.5, law.size)
    by_points = (at.weights * expit(at.points @ w)) @ at.points
    assert moment(law, w) == pytest.approx(by_points, abs=2e-3)


def test_a_law_has_as_many_points_as_asked_for() -> None:
    assert len(spread(UniformBox(2, 1.0)).points) == SPREAD_POINTS
    assert len(spread(UniformSphere(4, 1.0, None), 64).points) == 64


def test_the_box_agrees_with_an_integral() -> None:
    w = np.array([1.5, -2.0, 0.4])

    def density(second: float, first: float, place: int) -> float:
        v = np.array([first, second, 1.0])
        return float(expit(v @ w) * v[place] / 4)

    slow = [dblquad(density, -1, 1, -1, 1, args=(place,))[0] for place in range(3)]
    assert moment(UniformBox(2, 1.0), w) == pytest.approx(slow, abs=1e-5)


@every("features", [2, 3, 4, 7])
def test_the_sphere_agrees_with_an_integral_over_the_angle(features: int) -> None:
    law, w = UniformSphere(features, 0.7, 0.4), np.linspace(-3, 4, features + 1)
    slope, offset = float(np.linalg.norm(w[:-1])), w[-1] * 0.4

    def along(angle: float) -> float:
        return float(np.sin(angle) ** (features - 2))

    total = quad(along, 0, np.pi)[0]
    level = quad(lambda a: along(a) * expit(offset + 0.7 * slope * np.cos(a)), 0, np.pi)[0] / total
    tilt = quad(lambda a: along(a) * np.cos(a) * expit(offset + 0.7 * slope * np.cos(a)), 0, np.pi)[0] / total
    assert moment(law, w) == pytest.approx(np.append(w[:-1] / slope * 0.7 * tilt, 0.4 * level), abs=1e-9)


def test_steep_weights_are_integrated_too() -> None:
    """Limit of infinite slope: half of E|u|, which is 1/2 on the sphere in three dimensions."""
    law = UniformSphere(3, 1.0, None)
    assert moment(law, [0.0, 0.0, 80.0]) == pytest.approx([0.0, 0.0, 0.25], abs=1e-3)


def test_at_weights_of_zero_every_law_gives_half_its_mean() -> None:
    for law in LAWS:
        at = spread(law)
        assert moment(law, np.zeros(law.size)) == pytest.approx(at.weights @ at.points / 2, abs=1e-12)


def test_cosines_are_probabilities_with_the_variance_of_a_direction() -> None:
    for features in (2, 3, 10):
        cosine, probability = cosines(UniformSphere(features, 1.0, None))
        assert probability.sum() == pytest.approx(1, abs=1e-12)
        assert probability @ cosine**2 == pytest.approx(1 / features, abs=1e-10)


def test_a_histogram_is_flat_within_its_cells_and_has_no_negative_ones() -> None:
    law = Histograms((EDGES,), (np.array([3.0, -2.0, 1.0]),), None)
    at = spread(law).points[:, 0]
    assert np.mean(at < -0.5) == pytest.approx(0.75, abs=1e-3)
    assert not np.any((at > -0.5 + 1e-3) & (at < 0.2 - 1e-3))
    assert np.mean(at[at > 0.2]) == pytest.approx(0.6, abs=1e-3)


def test_a_histogram_of_nothing_is_flat() -> None:
    at = spread(Histograms((EDGES,), (np.array([-3.0, -2.0, 0.0]),), None)).points[:, 0]
    assert np.mean(at < 0) == pytest.approx(0.5, abs=1e-3)


def test_arrays_of_a_law_are_its_own() -> None:
    rows = np.array([[0.5], [0.1]])
    law = PublicRows(rows, None)
    rows[0, 0] = 0.9
    assert law.rows[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        law.rows[0, 0] = 0.3


@every(
    ("make", "said"),
    [
        (lambda: WeightedPoints(np.zeros(3), np.ones(3) / 3), "points of a law"),
        (lambda: WeightedPoints(np.zeros((0, 2)), np.zeros(0)), "points of a law"),
        (lambda: WeightedPoints(np.array([[np.nan]]), np.ones(1)), "points of a law"),
        (lambda: WeightedPoints(np.zeros((2, 1)), np.ones(2)), "sum to 1"),
        (lambda: WeightedPoints(np.zeros((2, 1)), np.array([1.5, -0.5])), "at least 0"),
        (lambda: WeightedPoints(np.zeros((2, 1)), np.array([np.nan, 1.0])), "at least 0"),
        (lambda: WeightedPoints(np.zeros((2, 1)), np.ones(1)), "2 numbers"),
        (lambda: UniformSphere(1, 1.0, None), "2 to 1000 features"),
        (lambda: UniformSphere(3, float("nan"), None), "norm"),
        (lambda: UniformSphere(3, 0.0, None), "norm"),
        (lambda: UniformSphere(3, 1.0, 0.0), "constant feature"),
        (lambda: UniformBox(0, 1.0), "1 to 1000 features"),
        (lambda: UniformBox(1001, 1.0), "1 to 1000 features"),
        (lambda: UniformBox(2, float("nan")), "constant feature"),
        (lambda: UniformBox(2, 1.5), "constant feature"),
        (lambda: PublicRows(np.array([[1.2]]), 1.0), "scaled to"),
        (lambda: PublicRows(np.array([[np.nan]]), 1.0), "scaled to"),
        (lambda: PublicRows(np.zeros((2, 0)), 1.0), "scaled to"),
        (lambda: PublicRows(np.zeros((2, 1)), -1.0), "constant feature"),
        (lambda: Histograms((), (), 1.0), "1 to 1000 features"),
        (lambda: Histograms((np.array([-1.0, 0.0]),), (np.ones(1),), 1.0), "edges of histogram 0"),
        (lambda: Histograms((np.array([-1.0, 0.5, 0.5, 1.0]),), (np.ones(3),), 1.0), "rise strictly"),
        (lambda: Histograms((EDGES,), (), 1.0), "edges of 1"),
        (lambda: Histograms((EDGES,), (np.ones(2),), 1.0), "3 cells"),
        (lambda: Histograms((EDGES,), (np.array([1.0, np.inf, 0.0]),), 1.0), "finite counts"),
        (lambda: Histograms((EDGES,), (np.ones(3),), 2.0), "constant feature"),
        (lambda: moment(UniformBox(2, 1.0), [1.0, 2.0]), "3 finite numbers"),
        (lambda: moment(UniformBox(1, None), [np.nan]), "1 finite numbers"),
    ],
)
def test_what_is_no_law_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()
