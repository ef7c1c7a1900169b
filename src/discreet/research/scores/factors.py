"""Public factors of the factored exponential mechanism, in whole steps, so that sums over records are exact.

The mechanism chooses one of Z public candidates with `P(z | X) ~ exp(epsilon sum_i f(x_i, z))`, where each record's
factor f lies in [0, 1]. `choice_likelihood.py` has the marginal likelihood of a choice. Nothing here reads records or
draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import ndtri

from discreet.errors import InputError
from discreet.privacy.guarantee import Relation
from discreet.research.scores.score_tables import SCORE_STEPS
from discreet.util.arrays import Floats, Ints
from discreet.util.number_checks import probability

CANDIDATES_LIMIT = 1000
"""Most candidates: the width of a factor is a maximum over all pairs."""
EXTREME_SETTING = 1e12
"""Largest variance, tau and coordinate of a direction, and inverse of the smallest: no factor overflows."""
LARGEST_COORDINATE = 1e100
"""Largest coordinate: squares of larger ones could overflow."""
DIRECTIONS_POOL = 4096
"""Number of directions from which candidates are picked."""


# ------------------------------------------------------------------------------------------------------------- factors


@dataclass(frozen=True, eq=False)
class CategoricalFactor:
    """Factor of records of K types: `f(x, z) = 1 + max(ln p(x | z), ln floor) / |ln floor|`.

    The 1 cancels. Candidates (1 - t, t), t = 0.1 ... 0.9, and floor 0.1 are the coin flip of the paper.

    Args:
        candidates: probabilities of the types, float64, shape (Z, K); 0 is allowed.
        floor: replaces smaller probabilities; greater than 0, less than 1.

    Raises:
        InputError: an argument out of its range, or rows that do not sum to 1.

    Source:
        Williams and McSherry (2010), Sections 2, 3.1.1 and 3.2, where the clamp reads `log p(x | theta)`; it must be
        `log p(x | z)`, and this scale is the one that their Figure 2b supports.

    Example:
        >>> import discreet as dc
        >>> coin = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1)
        >>> coin.log_factors([0, 1]).round(3).tolist()
        [[0.954, 0.699], [0.0, 0.699]]
        >>> [round(coin.width(relation) / 2**20, 3) for relation in (dc.Relation.ADD_REMOVE, dc.Relation.REPLACE)]
        [0.699, 0.954]
    """

    candidates: Floats
    floor: float

    def __post_init__(self) -> None:
        laws = _check_candidates(self.candidates)
        if not (np.all(laws >= 0) and np.all(np.abs(laws.sum(axis=1) - 1) < 1e-9)):
            raise InputError("each candidate must be probabilities of the record types that sum to 1")
        probability(floor=self.floor)
        object.__setattr__(self, "candidates", laws)

    def log_factors(self, rows: npt.ArrayLike) -> Floats:
        """Compute the factors of each record, f(x, z): whole multiples of 2^-20 in [0, 1].

        Args:
            rows: codes of the types, integers from 0 to K - 1, shape (n,) or (n, 1).

        Returns:
            Shape (n, Z), unit: nats for each unit of epsilon.

        Raises:
            InputError: invalid codes of the K types.
        """
        codes = np.asarray(rows)
        if codes.ndim == 2 and codes.shape[1] == 1:
            codes = codes[:, 0]
        types = self.candidates.shape[1]
        if codes.ndim != 1 or codes.dtype.kind not in "iu" or not np.all((codes >= 0) & (codes < types)):
            raise InputError(f"records must be integer codes from 0 to {types - 1}, one for each record")
        return np.asarray(self._tabulate()[codes])

    def steps(self, rows: npt.ArrayLike) -> Ints:
        """Compute the factors of each record in whole steps, so that sums over records are exact.

        Args:
            rows: as for `log_factors`.

        Returns:
            int64 from 0 to `SCORE_STEPS`, shape (n, Z).
        """
        return (self.log_factors(rows) * SCORE_STEPS).astype(np.int64)

    def width(self, relation: Relation) -> int:
        """Compute one record's largest change of the difference of two candidates' scores, exactly.

        Args:
            relation: of neighbouring data sets.

        Returns:
            Steps, at most `SCORE_STEPS` (ADD_REMOVE) or `2 SCORE_STEPS` (REPLACE); 0 if the candidates are all equal.

        Guarantee:
            A choice with `P(z | X) ~ exp(epsilon sum_i f)` is `epsilon width / SCORE_STEPS`-DP. Let w_z be a
            candidate's weight: `1 / P(z) = sum_y w_y / w_z`, and each ratio changes by a factor within `exp(+- that)`.
            The bound is tight: the loss tends to it on data sets for which two candidates have all the weight.

        Source:
            Williams and McSherry (2010), Section 2, whose bound is twice the largest `|ln phi|`; terms that depend on
            the record alone cancel, so only differences matter.
        """
        table, width = self._tabulate(), 0.0
        for factor in table.T:
            difference = table - factor[:, None]
            highest, lowest = difference.max(axis=0), difference.min(axis=0)
            changes = relation.by_record(highest, highest - lowest)
            width = max(width, float(changes.max()))
        return int(width * SCORE_STEPS)

    def _tabulate(self) -> Floats:
        """Compute the factors of each type, shape (K, Z)."""
        return _round_to_steps(1 - np.log(np.maximum(self.candidates.T, self.floor)) / math.log(self.floor))


@dataclass(frozen=True, eq=False)
class DirectionFactor:
    """Factor of vectors around an axis: `x ~ N(0, z z' + s2 I)`, `f(x, z) = (1 + clip(1 + l(x, z) / tau, -1, 1)) / 2`.

    l is the log density less its largest value over all x and all candidates, so f is 1 for the most probable pair and
    0 for l at or below -2 tau. A candidate and its negative are the same law.

    Args:
        candidates: z, float64, shape (Z, k), unit: that of the records; k at least 2.
        noise_variance: s2, greater than 0.
        tau: half the range to which log densities are clamped, nats, greater than 0.

    Raises:
        InputError: an argument out of its range.

    Source:
        Williams and McSherry (2010), Sections 2 and 4.2, which leave s2, the candidates and the clamp open.

    Example:
        >>> import discreet as dc
        >>> axes = dc.research.DirectionFactor([[2.0, 0.0], [0.0, 2.0]], noise_variance=1.0, tau=4.0)
        >>> axes.log_factors([[0.0, 0.0], [3.0, 0.0]]).round(3).tolist()
        [[1.0, 1.0], [0.887, 0.438]]
    """

    candidates: Floats
    noise_variance: float
    tau: float

    def __post_init__(self) -> None:
        vectors = _check_candidates(self.candidates)
        if not all(1 / EXTREME_SETTING <= value <= EXTREME_SETTING for value in (self.noise_variance, self.tau)):
            raise InputError(f"noise_variance and tau must lie between {1 / EXTREME_SETTING:g} and {EXTREME_SETTING:g}")
        if not np.all(np.abs(vectors) <= EXTREME_SETTING):
            raise InputError(f"coordinates of candidate vectors must be at most {EXTREME_SETTING:g}")
        if not vectors.shape[1] >= 2:
            raise InputError("directions need vectors of at least two coordinates")
        object.__setattr__(self, "candidates", vectors)

    def log_factors(self, rows: npt.ArrayLike) -> Floats:
        """Compute the factors of each record, f(x, z): whole multiples of 2^-20 in [0, 1].

        A record's row depends on no other record, to the last bit: the arithmetic is element-wise, as a matrix product
        may round in an order that depends on the number of rows.

        Args:
            rows: records, shape (n, k).

        Returns:
            Shape (n, Z), unit: nats for each unit of epsilon.

        Raises:
            InputError: rows of another shape, or entries that are NaN or beyond 1e100.
        """
        vectors = np.asarray(rows, np.float64)
        size = self.candidates.shape[1]
        if vectors.ndim != 2 or vectors.shape[1] != size or not np.all(np.abs(vectors) <= LARGEST_COORDINATE):
            raise InputError(f"records must be rows of {size} numbers within {LARGEST_COORDINATE:g}")
        square, norms = np.zeros(len(vectors)), np.zeros(len(self.candidates))
        projection = np.zeros((len(vectors), len(self.candidates)))
        for x, z in zip(vectors.T, self.candidates.T, strict=True):
            square += x * x
            norms += z * z
            projection += x[:, None] * z
        variances = self.noise_variance + norms
        unit = 4 * self.tau
        projection *= projection
        projection *= 1 / (variances * self.noise_variance * unit)
        projection += 1 - np.log(variances / variances.min()) / unit
        projection -= (square / (self.noise_variance * unit))[:, None]
        return _round_to_steps(np.clip(projection, 0, 1, out=projection))

    def steps(self, rows: npt.ArrayLike) -> Ints:
        """Compute the factors of each record in whole steps, so that sums over records are exact.

        Args:
            rows: as for `log_factors`.

        Returns:
            int64 from 0 to `SCORE_STEPS`, shape (n, Z).
        """
        return (self.log_factors(rows) * SCORE_STEPS).astype(np.int64)

    def width(self, relation: Relation) -> int:
        """Bound one record's change of the difference of two candidates' scores; the bound need not be attained.

        Args:
            relation: of neighbouring data sets.

        Returns:
            Steps: `SCORE_STEPS` for ADD_REMOVE, twice that for REPLACE.
        """
        return relation.by_record(SCORE_STEPS, 2 * SCORE_STEPS)


Factor: TypeAlias = CategoricalFactor | DirectionFactor
"""Factors with a known width; a user's own function is an `OwnFactor`, which is clamped."""


def spread_candidates(size: int, directions: int, radii: npt.ArrayLike) -> Floats:
    """List vectors spread evenly over half a sphere, for each of several lengths; the list is deterministic.

    In two dimensions the directions divide a half circle evenly. In more, each is the farthest one of a fixed pool from
    the axes picked before. The first is along the first coordinate.

    Args:
        size: k, coordinates of a vector, from 2 to 1,000.
        directions: number of directions, at least 1.
        radii: lengths, greater than 0, unit: that of the records.

    Returns:
        Shape (radii x directions, k), one radius after the other.

    Raises:
        InputError: an argument out of its range, or more than 1,000 candidates.

    Guarantee:
        None spent: reads no data.

    Example:
        >>> import discreet as dc
        >>> dc.research.spread_candidates(2, 2, [3]).round(12).tolist()
        [[3.0, 0.0], [0.0, 3.0]]
    """
    lengths = np.atleast_1d(np.asarray(radii, np.float64))
    if not (2 <= size <= 1000 and directions >= 1):
        raise InputError(f"directions need 2 to 1,000 coordinates and one direction, got {size} and {directions}")
    if lengths.ndim != 1 or not lengths.size or not np.all((lengths > 0) & (lengths < LARGEST_COORDINATE)):
        raise InputError("radii must be a list of finite numbers greater than 0")
    if directions * len(lengths) > CANDIDATES_LIMIT:
        raise InputError(f"at most {CANDIDATES_LIMIT:,} candidates are allowed; use fewer directions or radii")
    if size == 2:
        angles = np.pi * np.arange(directions) / directions
        units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:
        units = _spread_directions(size, directions)
    return np.concatenate([length * units for length in lengths])


def _spread_directions(size: int, directions: int) -> Floats:
    """Pick unit vectors far from each other and from each other's negatives, shape (directions, size)."""
    pool = standard_normals(DIRECTIONS_POOL, size)
    pool = np.concatenate([np.eye(size), pool / np.linalg.norm(pool, axis=1, keepdims=True)])
    pool *= np.where(pool[:, :1] < 0, -1, 1)
    picked, nearest = [0], np.abs(pool @ pool[0])
    while len(picked) < directions:
        # Ties up to rounding go to the first direction, so that all machines pick the same.
        picked.append(int(np.argmin(nearest.round(9))))
        nearest = np.maximum(nearest, np.abs(pool @ pool[picked[-1]]))
    return np.asarray(pool[picked])


def standard_normals(points: int, size: int) -> Floats:
    """Compute public points that fill the standard normal law evenly: an integration rule, and fixed draws.

    Args:
        points: number of points, a power of two.
        size: coordinates of each, at most 21,201.

    Returns:
        Shape (points, size): Sobol's deterministic sequence, shifted away from 0 and mapped to normals.

    Raises:
        InputError: an argument out of its range.

    Example:
        >>> standard_normals(4, 2).shape, bool(abs(standard_normals(64, 2).mean()) < 0.05)
        ((4, 2), True)
    """
    if not (points >= 1 and points & (points - 1) == 0 and 1 <= size <= 21201):
        raise InputError(f"points must be a power of two and have 1 to 21,201 coordinates, got {points} and {size}")
    # The full name loads scipy.stats here, and not at import, which would take another second.
    return np.asarray(ndtri(scipy.stats.qmc.Sobol(size, scramble=False).random(points) + 0.5 / points))


# -------------------------------------------------------------------------------------------------------------- details


def _check_candidates(candidates: npt.ArrayLike) -> Floats:
    """Check candidates, and copy them read-only."""
    array = np.array(candidates, np.float64)
    if array.ndim != 2 or not array.shape[1] or not np.all(np.abs(array) < LARGEST_COORDINATE):
        raise InputError(f"candidates must be rows of finite numbers, got the shape {array.shape}")
    if not 2 <= len(array) <= CANDIDATES_LIMIT:
        raise InputError(f"a choice needs from 2 to {CANDIDATES_LIMIT:,} candidates, got {len(array)}")
    array.flags.writeable = False
    return array


def _round_to_steps(factors: Floats) -> Floats:
    """Round factors to whole multiples of 2^-20: public rounding, the same for all data sets."""
    # NaN becomes 0, so the range [0, 1] holds by construction.
    return np.asarray(np.rint(np.where(factors > 0, factors, 0.0) * SCORE_STEPS) / SCORE_STEPS)
