"""Sums of products over the records of a design, with noise on the whole vector; and a noisy number of records."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from discreet.errors import require
from discreet.model.arrays import Floats, freeze
from discreet.model.design import GRID, Design
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Flag, Integer, Integers, Positive, Whole, all_positive, kind
from discreet.releases.measurement import Released

__all__ = ["NoisyMoments", "NoisyTotal", "VectorNoise", "total_line", "total_scale"]


@kind("vector_noise")
@dataclass(frozen=True)
class VectorNoise:
    """Noise on whole vectors of sums, by the norm of the design's shape.

    Args:
        sensitivity: most that one record can move a vector, in that norm and in steps of the sums' grid.
        scale: of the noise on each vector, in the same steps.
        rounds: vectors that are released, one after the other, each with noise of this scale.
        total_scale: of discrete Laplace noise on the number of records; None where it is not measured by itself.
        reported: epsilon of all together, rounded up.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Whole
    scale: Positive
    rounds: Whole
    total_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        require(
            self.sensitivity > 0 and self.rounds > 0 and self.reported > 0,
            "a calibration needs a sensitivity, rounds and a report",
        )
        require(all_positive(self.scale, self.total_scale), "a calibration needs positive, finite noise scales")

    @property
    def total(self) -> Fraction:
        """Epsilon of all vectors."""
        return self.reported


@kind(None)
@dataclass(frozen=True)
class NoisyTotal:
    """A private number of records plus discrete Laplace noise, `P(k) ~ exp(-|k| / scale)`.

    Args:
        value: may be negative.
        scale: unit: records.

    Raises:
        InputError: a scale that is not positive and finite.
    """

    value: Integer
    scale: Positive

    def __post_init__(self) -> None:
        """Refuse what is no noisy number."""
        require(all_positive(self.scale), "a noisy number of records needs a positive, finite noise scale")

    def per_unit(self, steps: int) -> NoisyTotal:
        """A number of units that count so many records each."""
        return NoisyTotal(round(self.value / steps), self.scale / steps)


def total_line(total: NoisyTotal | None) -> str:
    """How the number of records is told, where it is private, as the end of a line."""
    return "" if total is None else f"; on the number of records discrete Laplace noise of scale {total.scale:.4g}"


def total_scale(total: NoisyTotal | None) -> float | None:
    """Scale of the noise on a number of records; None where it is public."""
    return None if total is None else total.scale


@kind("noisy_moments", order=("scale", "noisy_total", "values"))
@dataclass(frozen=True, eq=False)
class NoisyMoments(Released):
    """Sums of products of the design's coordinates and target plus cube noise, `P(k) ~ exp(-max |k_i| / scale)`.

    Args:
        design: with a numeric target, or none.
        values: int64, in steps of `1 / GRID^2`; one for each pair in `design.moments`: sums of `v_i v_j`, of
            `2 v_i^2 - 1` for squares; before them, with `noisy_total`, the number of records in the same unit.
        scale: of the noise, in the same steps.
        noisy_total: whether the number of records is private and stands first.

    Raises:
        InputError: values that are not integers, or not one for each sum, a scale that is not positive and finite, or a
            target of two classes.
    """

    design: Design
    values: Integers
    scale: Positive
    noisy_total: Flag

    def __post_init__(self) -> None:
        """Freeze, then refuse what inference could not read."""
        freeze(self, values=np.asarray(self.values))
        wanted = (self.design.moment_count + self.noisy_total,)
        require(
            self.values.dtype == np.int64 and self.values.shape == wanted,
            f"noisy moments of this design are {wanted[0]} whole numbers of 64 bits",
        )
        require(all_positive(self.scale), "noisy moments need a positive, finite noise scale")
        target = self.design.target
        require(target is None or target.numeric, "noisy moments need a design with a numeric target, or none")

    @property
    def over(self) -> Design:
        """The design."""
        return self.design

    @property
    def sums(self) -> Floats:
        """The values as sums of products of coordinates."""
        return np.asarray(self.values / GRID**2)

    @property
    def sums_scale(self) -> float:
        """Scale of the noise in `sums`."""
        return self.scale / GRID**2

    def per_unit(self, steps: int) -> NoisyMoments:
        """See `Released`."""
        values = np.rint(self.values / steps).astype(np.int64)
        return replace(self, values=values, scale=self.scale / steps)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        sums = len(self.values)
        off = self.sums_scale * math.sqrt((sums + 1) * (sums + 2) / 3)
        noise = f"cube noise of scale {self.sums_scale:.4g} records"
        return f"{noise} on {sums:,} sums of products together, each off by about {off:.4g}"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, VectorNoise):
            return False
        return (calibration.scale, calibration.rounds, calibration.total_scale) == (self.scale, 1, None)

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return self.noisy_total != relation.public_number
