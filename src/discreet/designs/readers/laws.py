"""Laws of covariates, which a posterior given gradients alone has to assume.

The expected gradient of a logistic regression at weights w needs `m(w) = E[sigmoid(w . v) v]` over the records'
features v. A law is public: declared (on a sphere, in a box), the empirical law of public records, or learned from
released histograms. The last coordinate of v is the constant feature, if there is one. Laws read neither private
records nor gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import expit, ndtri

from discreet.designs.design import Design
from discreet.errors import InputError
from discreet.util.arrays import Floats, read_only

ANGLE_NODES = 128
"""Number of nodes of the quadrature over the angle between a direction and the weights."""
SPREAD_POINTS = 4096
"""Number of points that represent a box or histograms: a power of two, as Sobol points require."""
MOST_FEATURES = 1000
"""Largest number of features: with more, points represent a law poorly, and Sobol's direction numbers end."""


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Law of covariates on finitely many points with probabilities.

    Args:
        points: float64, shape (points, size), scaled features, then the constant, if there is one.
        weights: probabilities of the points, float64, shape (points,).

    Raises:
        InputError: points that are not finite or not of shape (points, size), no points or coordinates, or weights that
            are not one for each point, at least 0, with a sum within 1e-9 of 1.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> dc.research.WeightedPoints(np.array([[-1.0, 1.0], [1.0, 1.0]]), np.array([0.5, 0.5])).size
        2
    """

    points: Floats
    weights: Floats

    def __post_init__(self) -> None:
        """Replace both arrays by read-only float64 copies, and refuse wrong shapes and values."""
        points, weights = read_only(self.points, np.float64), read_only(self.weights, np.float64)
        if points.ndim != 2 or points.size == 0 or not np.all(np.isfinite(points)):
            raise InputError("points of a law must be a finite array of shape (points, size) with neither of them 0")
        if weights.shape != points.shape[:1] or not np.all(weights >= 0) or not abs(weights.sum() - 1) < 1e-9:
            raise InputError(f"weights of a law must be {len(points)} numbers of at least 0 that sum to 1")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "weights", weights)

    @property
    def size(self) -> int:
        """Number of coordinates of v, the constant feature included."""
        return int(self.points.shape[1])


@dataclass(frozen=True)
class UniformSphere:
    """Law of covariates with uniform direction and fixed norm: `v = (norm * direction, constant)`.

    Args:
        features: number of features, at least 2.
        norm: their Euclidean norm, the same for all records.
        constant: value of the constant feature; None without an intercept.

    Raises:
        InputError: fewer than 2 or more than 1,000 features, a norm that is not positive and finite, or a constant
            outside (0, 1].

    Example:
        >>> import discreet as dc
        >>> dc.research.UniformSphere(3, norm=1.0, constant=0.5).size
        4
    """

    features: int
    norm: float
    constant: float | None

    def __post_init__(self) -> None:
        """Refuse features outside 2 to 1,000, a norm that is not positive and finite, or a constant outside (0, 1]."""
        _check_features(self.features, self.constant, least=2)
        if not 0 < self.norm < math.inf:
            raise InputError(f"the norm of features on a sphere must be finite and greater than 0, got {self.norm}")

    @property
    def size(self) -> int:
        """Number of coordinates of v: the features, and one for the constant unless it is None."""
        return self.features + (self.constant is not None)


@dataclass(frozen=True)
class UniformBox:
    """Law of covariates that are independent and uniform on [-1, 1], then the constant.

    Args:
        features: number of features, from 1 to 1,000.
        constant: value of the constant feature; None without an intercept.

    Raises:
        InputError: no features or more than 1,000, or a constant outside (0, 1].

    Example:
        >>> import discreet as dc
        >>> dc.research.UniformBox(3, constant=None).size
        3
    """

    features: int
    constant: float | None

    def __post_init__(self) -> None:
        """Refuse a number of features outside 1 to 1,000, or a constant outside (0, 1]."""
        _check_features(self.features, self.constant, least=1)

    @property
    def size(self) -> int:
        """Number of coordinates of v: the features, and one for the constant unless it is None."""
        return self.features + (self.constant is not None)


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Empirical law of the covariates of public records: each row is equally likely.

    Args:
        rows: float64, shape (records, features), scaled like the private records, without the constant.
        constant: value of the constant feature, the same for all rows; None without an intercept.

    Raises:
        InputError: rows that are not a table of numbers in [-1, 1], no rows, no features or more than 1,000, or a
            constant outside (0, 1].

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> dc.research.PublicRows(np.array([[0.5, -1.0], [0.0, 0.25]]), constant=1.0).size
        3
    """

    rows: Floats
    constant: float | None

    def __post_init__(self) -> None:
        """Replace the rows by a read-only float64 copy, and refuse wrong shapes and values."""
        rows = read_only(self.rows, np.float64)
        if rows.ndim != 2 or rows.size == 0 or not np.all(np.abs(rows) <= 1):
            raise InputError(
                "public rows must be an array of shape (records, features) with at least one of each, scaled to "
                "[-1, 1] by the same bounds as the private records"
            )
        _check_features(rows.shape[1], self.constant, least=1)
        object.__setattr__(self, "rows", rows)

    @property
    def size(self) -> int:
        """Number of coordinates of v: the features, and one for the constant unless it is None."""
        return int(self.rows.shape[1]) + (self.constant is not None)


@dataclass(frozen=True, eq=False)
class Histograms:
    """Law of independent covariates, each with the piecewise constant density of a noisy released histogram.

    Args:
        edges: for each feature the edges of its cells, rising from -1 to 1, float64, shape (cells + 1,).
        counts: for each feature the noisy counts of its cells, float64, shape (cells,), unit: records. A negative count
            is taken as 0; if no count of a histogram is positive, its law is uniform on [-1, 1].
        constant: value of the constant feature; None without an intercept.

    Raises:
        InputError: no histogram or more than 1,000, edges that do not rise strictly from -1 to 1, counts that are not
            finite or not one for each cell, or a constant outside (0, 1].

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> law = dc.research.Histograms((np.array([-1.0, 0.0, 1.0]),), (np.array([30.0, 10.0]),), constant=None)
        >>> from discreet.designs.readers.laws import spread
        >>> points = spread(law, points=8)  # three of four lie in the first cell
        >>> float(points.weights[points.points[:, 0] < 0].sum())
        0.75
    """

    edges: tuple[Floats, ...]
    counts: tuple[Floats, ...]
    constant: float | None

    def __post_init__(self) -> None:
        """Replace all arrays by read-only float64 copies, and refuse wrong shapes and values."""
        _check_features(len(self.edges), self.constant, least=1)
        edges, counts = (tuple(read_only(row, np.float64) for row in rows) for rows in (self.edges, self.counts))
        for feature, ends in enumerate(edges):
            if not (ends.ndim == 1 and len(ends) > 1 and ends[0] == -1 and ends[-1] == 1 and np.all(np.diff(ends) > 0)):
                raise InputError(f"edges of histogram {feature} must rise strictly from -1 to 1")
        if len(counts) != len(edges):
            raise InputError(f"there are edges of {len(edges)} histograms and counts of {len(counts)}")
        for feature, (ends, cells) in enumerate(zip(edges, counts, strict=True)):
            if cells.shape != (len(ends) - 1,) or not np.all(np.isfinite(cells)):
                raise InputError(f"histogram {feature} has {len(ends) - 1} cells and needs as many finite counts")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "counts", counts)

    @property
    def size(self) -> int:
        """Number of coordinates of v: one for each histogram, and one for the constant unless it is None."""
        return len(self.edges) + (self.constant is not None)


Law: TypeAlias = WeightedPoints | UniformSphere | UniformBox | PublicRows | Histograms


def spread(law: Law, points: int = SPREAD_POINTS) -> WeightedPoints:
    """Represent a law by weighted points in the coordinates of v, the constant last; deterministic.

    Args:
        law: law of the features.
        points: number of points, a power of two, at least 2, for a box, a sphere or histograms; ignored for a law that
            consists of points.

    Returns:
        `WeightedPoints`: the argument itself, unchanged. `PublicRows`: their rows, equally likely. Otherwise `points`
        equally likely Sobol points, mapped by the inverse distribution functions of the law; for box and sphere half as
        many, each with its mirror image.

    Source:
        Owen (2023), Practical quasi-Monte Carlo integration, chapters 5 and 15.

    Example:
        >>> spread(UniformBox(2, constant=None), points=8).points.shape
        (8, 2)
    """
    match law:
        case WeightedPoints():
            return law
        case PublicRows():
            return _weigh_evenly(law.rows, law.constant)
        case UniformBox():
            half = 2 * _make_sobol_points(law.features, points // 2) - 1
            return _weigh_evenly(np.concatenate([half, -half]), law.constant)
        case UniformSphere():
            half = np.asarray(ndtri(_make_sobol_points(law.features, points // 2)))
            half *= law.norm / np.linalg.norm(half, axis=1, keepdims=True)
            return _weigh_evenly(np.concatenate([half, -half]), law.constant)
        case Histograms():
            uniform = _make_sobol_points(len(law.edges), points)
            columns = [
                np.interp(uniform[:, feature], _cumulate_counts(ends, cells), ends)
                for feature, (ends, cells) in enumerate(zip(law.edges, law.counts, strict=True))
            ]
            return _weigh_evenly(np.stack(columns, axis=1), law.constant)


def cosines(law: UniformSphere) -> tuple[Floats, Floats]:
    """Compute the quadrature nodes of the cosine between a uniform direction and a fixed one.

    It is the Gauss-Legendre quadrature with 128 nodes over the angle a, whose density is proportional to sin(a)^(p - 2)
    for p features. That density is smooth at 0 and pi for every p; the density of the cosine is not.

    Args:
        law: sphere of p features; its norm and constant are ignored.

    Returns:
        (cosines, falling from about 1 to -1; their probabilities, sum 1), shape (128,) each.

    Example:
        >>> cosine, probability = cosines(UniformSphere(3, norm=1.0, constant=None))
        >>> round(float(probability @ cosine**2), 6)  # one of three coordinates has a third of the squared norm
        0.333333
    """
    at, weight = np.polynomial.legendre.leggauss(ANGLE_NODES)
    angle = np.pi * (at + 1) / 2
    weight = weight * np.sin(angle) ** (law.features - 2)
    return np.cos(angle), weight / weight.sum()


def moment(law: Law, weights: npt.ArrayLike) -> Floats:
    """Compute `m(w) = E[sigmoid(w . v) v]`, the expected prediction part of a record's gradient.

    Args:
        law: law of v.
        weights: w, shape (size,), that of the constant feature last.

    Returns:
        Shape (size,), computed as by `moments_of`.

    Raises:
        InputError: weights of another size, or not finite.

    Source:
        Williams and McSherry (2010), Section 4.1: the mean of a gradient step's measurement.

    Example:
        >>> coin = WeightedPoints(np.array([[-1.0], [1.0]]), np.array([0.5, 0.5]))
        >>> moment(coin, [0.0]).tolist()
        [0.0]
    """
    w = np.asarray(weights, np.float64)
    if w.shape != (law.size,) or not np.all(np.isfinite(w)):
        raise InputError(f"weights must be {law.size} finite numbers, one for each coordinate of the law")
    return np.asarray(moments_of(law)(w[None])[0])


def moments_of(law: Law) -> Callable[[Floats], Floats]:
    """Return a function that computes `moment` for many weights at once, with constants precomputed and without checks.

    Args:
        law: law of v.

    Returns:
        A function from weights, shape (draws, size), to moments of the same shape. For a sphere a moment is one
        integral over a cosine (128 nodes), as its features' part is parallel to the slopes; slopes of 0 give a
        features' part of 0. For other laws it is a sum over the points of `spread` (4,096 for box and histograms).
    """
    if not isinstance(law, UniformSphere):
        at = spread(law)
        return lambda weights: np.asarray((expit(weights @ at.points.T) * at.weights) @ at.points)
    cosine, probability = cosines(law)
    constant = law.constant or 0.0

    def on_sphere(weights: Floats) -> Floats:
        """Compute moments from weights, shape (draws, size) each; the length of slopes is floored at 1e-300."""
        # By symmetry the features' part points along w: E[sigmoid(w0 + |w| r c) r c] w / |w|, c the cosine.
        slopes = weights[:, : law.features]
        length = np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-300)
        offset = weights[:, law.features :].sum(axis=1, keepdims=True) * constant
        likely = probability * expit(offset + length * law.norm * cosine)
        features = slopes / length * law.norm * (likely @ cosine)[:, None]
        return np.column_stack([features, *([] if law.constant is None else [constant * likely.sum(axis=1)])])

    return on_sphere


def _weigh_evenly(features: Floats, constant: float | None) -> WeightedPoints:
    """Build the law of equally likely points, and append the constant as last coordinate.

    Args:
        features: points, shape (points, features).
        constant: value of the constant feature; None appends nothing.
    """
    count = len(features)
    points = features if constant is None else np.column_stack([features, np.full(count, constant)])
    return WeightedPoints(points, np.full(count, 1 / count))


def _make_sobol_points(features: int, points: int) -> Floats:
    """Generate Sobol points in (0, 1), shape (points, features): the unscrambled sequence plus `1 / (2 points)`."""
    # By its full name scipy.stats is loaded here, and not with every command.
    return np.asarray(scipy.stats.qmc.Sobol(features, scramble=False).random(points) + 0.5 / points)


def _cumulate_counts(edges: Floats, counts: Floats) -> Floats:
    """Compute a histogram's distribution function at its edges.

    Args:
        edges: edges of the cells, shape (cells + 1,).
        counts: noisy counts of the cells, shape (cells,); negative ones are taken as 0. If none is positive, the widths
            of the cells take their place: the uniform law.

    Returns:
        Rising from 0 to 1, shape (cells + 1,).
    """
    cells = np.maximum(counts, 0.0)
    if not cells.sum() > 0:
        cells = np.diff(edges)
    cumulated = np.concatenate([[0.0], np.cumsum(cells)])
    return np.asarray(cumulated / cumulated[-1])


def _check_features(features: int, constant: float | None, *, least: int) -> None:
    """Refuse a number of features outside `least` to 1,000, or a constant outside (0, 1]; None is accepted.

    Raises:
        InputError: as it says.
    """
    if not least <= features <= MOST_FEATURES:
        raise InputError(f"this law needs {least} to {MOST_FEATURES} features, got {features}")
    if constant is not None and not 0 < constant <= 1:
        raise InputError(f"the constant feature must be greater than 0 and at most 1, got {constant}")


def uniform_law(design: Design) -> UniformBox | UniformSphere | WeightedPoints:
    """Return the uniform law over the public range of covariates: the box of their bounds, or the sphere of the norm.

    Args:
        design: public.

    Returns:
        Without a norm `UniformBox`; with one `UniformSphere` of all records at that norm; for a single feature with a
        norm `WeightedPoints` at -norm and +norm, 1/2 each. The constant is the design's, None without an intercept.

    Raises:
        InputError: a design with groups, or with more than 1,000 features.

    Guarantee:
        No budget is spent; no data is read. The law is an assumption: if features do not fill their bounds evenly,
        intervals are wrong.

    Example:
        >>> import discreet as dc
        >>> features = (dc.Variable("age", bounds=(0, 80)), dc.Variable("bmi", bounds=(10, 50)))
        >>> dc.research.uniform_law(dc.designs.Design(features, dc.Variable("ill", ("no", "yes"))))
        UniformBox(features=2, constant=1.0)
    """
    if design.groups:
        raise InputError("indicators of a group are 0 or 1, and fill no box evenly: leave out symmetric, or the groups")
    constant = design.constant if design.intercept else None
    if design.norm is None:
        return UniformBox(len(design.features), constant)
    if len(design.features) == 1:
        ends = np.array([[-design.norm], [design.norm]])
        points = ends if constant is None else np.column_stack([ends, np.full(2, constant)])
        return WeightedPoints(points, np.array([0.5, 0.5]))
    return UniformSphere(len(design.features), design.norm, constant)
