"""Draws of a linear regression's weights from a tempered posterior on a ball."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.designs.design import Design
from discreet.designs.kinds.noisy_sums import NoisyTotal, total_line, total_scale
from discreet.errors import require
from discreet.releases.codec import Matrix, Positive, Whole, all_positive, kind
from discreet.releases.listing import list_drawn
from discreet.releases.measurement import Released, Reported
from discreet.util.arrays import freeze


@kind("truncation")
@dataclass(frozen=True)
class Truncation(Reported):
    """Draws of weights from a tempered posterior on a ball.

    Args:
        radius: of the ball.
        variance: assumed variance of the scaled target around its mean; None if it is unknown.
        temper: power of the likelihood, with an unknown variance of that of variance 1.
        draws: joint draws of all weights.
        digits: decimal digits that are released.
        reported: epsilon of draws and number together, at the guarantee's delta, rounded up.
        total_scale: of discrete Laplace noise on the number of records; None if that is not released.

    Raises:
        InputError: no draws or digits, or a number that is not positive and finite.
    """

    domain: ClassVar[str] = "design"
    radius: Positive
    variance: Positive | None
    temper: Positive
    draws: Whole
    digits: Whole
    reported: Fraction
    total_scale: Positive | None = None

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        require(
            all_positive(self.radius, self.variance, self.temper, self.total_scale),
            "a calibration needs a positive radius, variance, temper",
        )
        require(
            self.draws > 0 and self.digits > 0 and self.reported > 0, "a calibration needs draws, digits and a report"
        )


@kind("weight_draws", order=("variance", "radius", "temper", "weights", "total"))
@dataclass(frozen=True, eq=False)
class WeightDraws(Released):
    """Draws of a linear regression's weights from a tempered posterior on a ball.

    Args:
        design: with a numeric target.
        weights: float64, shape `(draws, size)`, rounded to a public grid.
        variance: assumed variance of the scaled target around its mean; None if it is unknown.
        radius: of the ball of weights.
        temper: power of the likelihood, with an unknown variance of that of variance 1.
        total: noisy number of records; None if it is public, or was not measured.

    Raises:
        InputError: no draws, numbers that are not finite, or settings that are not positive.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("income", bounds=(0, 1000)))
        >>> dc.research.WeightDraws(design, np.zeros((3, 2)), variance=0.1, radius=2.0, temper=0.5).summary(None)
        '3 draws of all weights from the posterior of 0.5 times the records, no longer than 2'
    """

    domain: ClassVar[str] = "design"
    design: Design
    weights: Matrix
    variance: Positive | None
    radius: Positive
    temper: Positive
    total: NoisyTotal | None = None

    def __post_init__(self) -> None:
        """Freeze the array, and refuse payloads that inference could not read."""
        freeze(self, weights=np.asarray(self.weights))
        require(self.design.predicts == "number", "draws of weights need a design with a numeric target")
        require(
            self.weights.ndim == 2 and len(self.weights) > 0 and self.weights.shape[1] == self.design.size,
            f"draws of weights of this design need at least one row of {self.design.size} numbers",
        )
        settings = (self.variance, self.radius, self.temper)
        require(
            bool(np.all(np.isfinite(self.weights))) and all_positive(*settings),
            "draws of weights need finite numbers and a positive variance, radius and temper",
        )

    @property
    def pull(self) -> float:
        """Weight of a squared residual in the law of the draws: temper / variance."""
        return self.temper / (self.variance or 1.0)

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return list(list_drawn(self.design.weight_names, self.weights))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = f"{len(self.weights)} draws of all weights from the posterior of {self.temper:.4g} times the records"
        return f"{line}, no longer than {self.radius:.4g}{total_line(self.total)}"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, Truncation):
            return False
        settings = (calibration.variance, calibration.radius, calibration.temper, calibration.draws)
        stated = (self.variance, self.radius, self.temper, len(self.weights))
        return (*settings, calibration.total_scale) == (*stated, total_scale(self.total))
