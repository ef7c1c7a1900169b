"""Sums of products over the records of a design with vector noise, and a noisy number of records."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.designs.design import GRID_STEPS, Design
from discreet.errors import require
from discreet.noise.noise_laws import GroupedTag
from discreet.noise.shapes import Cube, KNorm, vector_law
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Flag, Integer, Integers, Positive, Whole, all_positive, kind
from discreet.releases.measurement import Released, Reported
from discreet.util.arrays import Floats, freeze


def all_drawn(*scales: float | None) -> bool:
    """True if noise on integers of 64 bits can have all scales that are not None."""
    return all(scale is None or 1e-9 <= scale <= 2.0**63 for scale in scales)


@kind("vector_noise")
@dataclass(frozen=True)
class VectorNoise(Reported):
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

    domain: ClassVar[str] = "design"
    sensitivity: Whole
    scale: Positive
    rounds: Whole
    total_scale: Positive | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        require(
            self.sensitivity > 0 and self.rounds > 0 and self.reported > 0,
            "a calibration needs a sensitivity, rounds and a report",
        )
        require(all_positive(self.scale, self.total_scale), "a calibration needs positive, finite noise scales")


@kind(None)
@dataclass(frozen=True)
class NoisyTotal:
    """A private number of records plus discrete Laplace noise, `P(k) ~ exp(-|k| / scale)`.

    Args:
        value: may be negative.
        scale: unit: records.

    Raises:
        InputError: a scale that is not positive and finite.

    Example:
        >>> import discreet as dc
        >>> dc.designs.NoisyTotal(103, 4.0).per_unit(2)
        NoisyTotal(value=52, scale=2.0)
    """

    value: Integer
    scale: Positive

    def __post_init__(self) -> None:
        """Refuse an invalid number or scale."""
        require(all_positive(self.scale), "a noisy number of records needs a positive, finite noise scale")

    def per_unit(self, steps: int) -> NoisyTotal:
        """Convert to units that count so many records each.

        Args:
            steps: at least 1.

        Returns:
            A number of units.
        """
        return NoisyTotal(round(self.value / steps), self.scale / steps)


def total_line(total: NoisyTotal | None) -> str:
    """Write the noise of a private number of records, as the end of a line."""
    return "" if total is None else f"; on the number of records discrete Laplace noise of scale {total.scale:.4g}"


def total_scale(total: NoisyTotal | None) -> float | None:
    """Scale of the noise on a number of records; None if it is public."""
    return None if total is None else total.scale


class SummedProducts(Released):
    """Sums of products of a design's coordinates and target, in steps of `1 / GRID_STEPS^2`, with noise."""

    domain: ClassVar[str] = "design"
    design: Design
    values: Integers
    noisy_total: Flag

    @property
    def sums(self) -> Floats:
        """The values as sums of products of coordinates."""
        return np.asarray(self.values / GRID_STEPS**2)

    @property
    @abstractmethod
    def variances(self) -> Floats:
        """Variances of the noise in `sums`."""

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`; the sum of a square x^2 stands as that of 2 x^2 - 1."""
        design = self.design
        names = [*design.names, *(["1"] if design.intercept else []), *([design.target.name] if design.target else [])]
        pairs: list[tuple[str, str]] = [("1", "1")] if self.noisy_total else []
        pairs += [(names[i], names[j]) for i, j in design.moments]
        numbers = zip(pairs, self.sums.tolist(), self.variances.tolist(), strict=True)
        return [
            {"first": first, "second": second, "value": value, "deviation": variance**0.5}
            for (first, second), value, variance in numbers
        ]

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return self.noisy_total != relation.public_number

    def _freeze_values(self, subject: str) -> None:
        """Freeze the values, then refuse any but one 64-bit integer for each sum of the design."""
        freeze(self, values=np.asarray(self.values))
        wanted = (self.design.moment_count + self.noisy_total,)
        require(
            self.values.dtype == np.int64 and self.values.shape == wanted,
            f"{subject} of this design are {wanted[0]} whole numbers of 64 bits",
        )

    def _round_per_unit(self, steps: int) -> Integers:
        """Round the values to units that count so many records each."""
        return np.rint(self.values / steps).astype(np.int64)


@kind("noisy_moments", order=("scale", "noisy_total", "values"))
@dataclass(frozen=True, eq=False)
class NoisyMoments(SummedProducts):
    """Sums of products of the design's coordinates and target plus cube noise, `P(k) ~ exp(-max |k_i| / scale)`.

    Args:
        design: with a numeric target, or none.
        values: int64, in steps of `1 / GRID_STEPS^2`; one for each pair in `design.moments`: sums of `v_i v_j`, of
            `2 v_i^2 - 1` for squares; before them, with `noisy_total`, the number of records in the same unit.
        scale: of the noise, in the same steps.
        noisy_total: whether the number of records is private and stands first.

    Raises:
        InputError: values that are not integers, or not one for each sum, a scale that is not positive and finite, or a
            target of classes or counts.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> age = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),))
        >>> noisy = dc.designs.NoisyMoments(age, np.array([4096**2, -(4096**2)]), scale=1000.0, noisy_total=False)
        >>> noisy.sums.tolist()
        [1.0, -1.0]
    """

    design: Design
    values: Integers
    scale: Positive
    noisy_total: Flag

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        self._freeze_values("noisy moments")
        require(all_positive(self.scale), "noisy moments need a positive, finite noise scale")
        summed = self.design.predicts in ("number", "nothing")
        require(summed, "noisy moments need a design with a numeric target that is no count, or none")

    @property
    def sums_scale(self) -> float:
        """Scale of the noise in `sums`."""
        return self.scale / GRID_STEPS**2

    @property
    def variances(self) -> Floats:
        """Variance of the noise in each of `sums`."""
        return np.full(len(self.values), KNorm(self.sums_scale, len(self.values), Cube.tag).raw_variance)

    def per_unit(self, steps: int) -> NoisyMoments:
        """See `Released`."""
        return replace(self, values=self._round_per_unit(steps), scale=self.scale / steps)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        sums = len(self.values)
        deviation = self.sums_scale * math.sqrt((sums + 1) * (sums + 2) / 3)
        noise = f"cube noise of scale {self.sums_scale:.4g} records"
        return f"{noise} on {sums:,} sums of products together, each off by about {deviation:.4g}"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, VectorNoise):
            return False
        return (calibration.scale, calibration.rounds, calibration.total_scale) == (self.scale, 1, None)


# -------------------------------------------------------------------------------------------------- moments in groups

GROUPS = ("target", "features", "pairs")
"""Groups of second moments, each with its own noise: the number of records and the target's own sums; those of each
feature alone, and with the target; and products of two features."""


def group_positions(design: Design, *, noisy_total: bool) -> Integers:
    """Position in `GROUPS` of each released sum.

    Args:
        design: with a numeric target.
        noisy_total: whether the number of records stands first.

    Returns:
        int64, one for each value.
    """
    width, target = len(design.features), design.size
    groups = [0 if i >= width else 2 if j < width and i != j else 1 for i, j in design.moments]
    assert design.target is not None and (target, target) == design.moments[-1]
    return np.array([0, *groups] if noisy_total else groups, np.int64)


@kind("group_noise")
@dataclass(frozen=True)
class GroupNoise(Reported):
    """Noise on second moments in groups.

    Args:
        noise: cube noise on each group's vector, `P(k) ~ exp(-max |k_i| / scale)`, or discrete Gaussian noise on every
            sum, `P(k) ~ exp(-k^2 / (2 scale^2))`.
        sensitivity: most that one record can move any of the sums, in their steps.
        scales: of the noise on each group, in the same steps; None for a group without sums.
        rho: zero-concentrated loss of Gaussian noise; None for cube noise.
        reported: epsilon of all together, at the guarantee's delta, rounded up.

    Raises:
        InputError: a number is not positive and finite, or not one scale for each group.
    """

    domain: ClassVar[str] = "design"
    noise: GroupedTag
    sensitivity: Whole
    scales: tuple[Positive | None, ...]
    rho: Fraction | None
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        freeze(self, scales=tuple(self.scales))
        require(self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a loss")
        require(len(self.scales) == len(GROUPS), f"moments have {len(GROUPS)} groups, each with a noise scale")
        require(all_positive(*self.scales), "a calibration needs positive, finite noise scales")
        concentrated = vector_law(self.noise, 1.0, 1).concentrated
        require((self.rho is not None) == concentrated, "Gaussian noise has a loss rho")


@kind("grouped_moments", order=("noise", "scales", "noisy_total", "values"))
@dataclass(frozen=True, eq=False)
class GroupedMoments(SummedProducts):
    """Sums of products of the design's coordinates and target, with noise by groups.

    Args:
        design: with a numeric target.
        values: as of `NoisyMoments`.
        noise, scales: as of `GroupNoise`.
        noisy_total: whether the number of records is private and stands first.

    Raises:
        InputError: values that are not integers, or not one for each sum, scales that are not those of the groups, or
            no numeric target.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("income", bounds=(0, 1000)))
        >>> sums, scales = np.zeros(5, np.int64), (900.0, 1000.0, None)
        >>> noisy = dc.designs.GroupedMoments(design, sums, "cube", scales, noisy_total=False)
        >>> noisy.groups  # 0: of the target, 1: of features, 2: of pairs of features
        array([1, 1, 1, 0, 0])
    """

    design: Design
    values: Integers
    noise: GroupedTag
    scales: tuple[Positive | None, ...]
    noisy_total: Flag

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        freeze(self, scales=tuple(self.scales))
        require(self.design.predicts == "number", "moments in groups need a design with a numeric target")
        self._freeze_values("moments")
        require(
            len(self.scales) == len(GROUPS) and all_drawn(*self.scales),
            "moments in groups need a noise scale for each group, one that whole numbers of 64 bits can have",
        )
        missing = [self.scales[group] is None for group in np.unique(self.groups)]
        require(not any(missing), "every group of sums needs a noise scale")

    @property
    def groups(self) -> Integers:
        """Position in `GROUPS` of each value."""
        return group_positions(self.design, noisy_total=self.noisy_total)

    @property
    def variances(self) -> Floats:
        """Variance of the noise in each of `sums`."""
        sizes = np.bincount(self.groups, minlength=len(GROUPS)).tolist()
        variances = [
            0.0 if scale is None else vector_law(self.noise, scale / GRID_STEPS**2, size).raw_variance
            for size, scale in zip(sizes, self.scales, strict=True)
        ]
        return np.array(variances)[self.groups]

    def per_unit(self, steps: int) -> GroupedMoments:
        """See `Released`."""
        scales = tuple(scale and scale / steps for scale in self.scales)
        return replace(self, values=self._round_per_unit(steps), scales=scales)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        sd = np.sqrt(self.variances)
        noise = vector_law(self.noise, 1.0, 1).name
        deviations = [f"{np.mean(sd[self.groups == group]):.4g} ({GROUPS[group]})" for group in np.unique(self.groups)]
        return f"{noise} noise on {len(self.values):,} sums of products, each off by about {', '.join(deviations)}"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return isinstance(calibration, GroupNoise) and (calibration.noise, calibration.scales) == (
            self.noise,
            self.scales,
        )
