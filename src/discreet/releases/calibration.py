"""Calibrations: how a budget became noise, for every mechanism. Public, and computed before any record is seen.

Each says what the noise is calibrated to (a sensitivity, or a range of log-likelihoods), what was chosen, and the
`total` epsilon that it costs, at the guarantee's delta where that is not 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from discreet.errors import InputError
from discreet.model.schema import Scope
from discreet.releases.codec import Count, Flag, Positive, Scoped, Whole, kind
from discreet.releases.design_calibration import DesignCalibration
from discreet.releases.payload import CellNoise

__all__ = [
    "Calibration",
    "CoefficientNoise",
    "GaussianNoise",
    "PlannedNoise",
    "Selection",
    "Stages",
    "TableCalibration",
    "TableNoise",
    "Tempering",
    "Trimming",
]


@kind("table_noise", order=("sensitivity", "reported", "epsilons", "scales"), unnamed=True)
@dataclass(frozen=True)
class TableNoise:
    """Discrete Laplace noise on every cell of some families' tables.

    Args:
        sensitivity: most that one record can move the cells of one table, L1, in records, under the relation.
        epsilons: exact budget of each measured family's table; they sum to at most the guarantee.
        scales: of the discrete Laplace noise on each cell of a table; unit: records.
        reported: total epsilon that the noise's own privacy map reports; at most the guarantee, which is charged.

    Raises:
        InputError: a budget or scale is not a positive, finite number.
    """

    sensitivity: Whole
    epsilons: Mapping[str, Fraction]
    scales: Mapping[str, Positive]
    reported: Fraction

    def __post_init__(self) -> None:
        """Freeze, then refuse what is no calibration."""
        object.__setattr__(self, "epsilons", MappingProxyType(dict(self.epsilons)))
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))
        _require(self.sensitivity > 0 and self.reported > 0, "a sensitivity and a report greater than 0")
        _require(all(value > 0 for value in self.epsilons.values()), "budgets greater than 0")
        _require(
            self.scales.keys() == self.epsilons.keys() and all(map(_positive, self.scales.values())),
            "one positive, finite noise scale for each budget",
        )

    @property
    def total(self) -> Fraction:
        """Epsilon of all tables together."""
        return max(sum(self.epsilons.values(), Fraction()), self.reported)


@kind("gaussian_noise")
@dataclass(frozen=True)
class GaussianNoise:
    """Discrete Gaussian noise of one scale on every cell of some families' tables.

    Args:
        squared_sensitivity: most that one record can move all measured cells, L2 squared, in records squared.
        scale: of the noise, `P(noise = k) ~ exp(-k^2 / (2 scale^2))`; unit: records.
        rho: zero-concentrated privacy loss, as the noise's own map reports it.
        reported: epsilon that follows from rho at the guarantee's delta.

    Raises:
        InputError: a number is not positive and finite.
    """

    squared_sensitivity: Whole
    scale: Positive
    rho: Fraction
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(self.squared_sensitivity > 0 and self.rho > 0 and self.reported > 0, "positive sensitivity and losses")
        _require(_positive(self.scale), "a positive, finite noise scale")

    @property
    def total(self) -> Fraction:
        """Epsilon at the guarantee's delta."""
        return self.reported


@kind(
    "planned_noise",
    order=("noise", "sensitivity", "reported", "tables", "expected"),
    scoped=Scoped("tables", "_PlannedTable", {"budgets": "budget", "scales": "scale"}),
)
@dataclass(frozen=True)
class PlannedNoise:
    """Noise on tables over sets of variables, with a budget of its own for each: the plan of a release.

    Args:
        noise: "discrete_laplace" or "discrete_gaussian".
        sensitivity: most that one record can move the cells of one table, L1 and also L2 squared, under the relation.
        budgets: exact budget of each table, by its variables: epsilon for Laplace noise, else the zero-concentrated
            privacy loss rho.
        scales: of the noise on each cell of a table, as in `NoisyTables`; unit: records.
        reported: total epsilon that the noise's own privacy map reports, for Gaussian noise at the guarantee's delta.
        expected: for every node, mean absolute error, in records, of a cell of its family's table after least squares
            over all tables; by the normal approximation, which the release's noise alone enters.

    Raises:
        InputError: no such noise, or a number is not positive and finite.
    """

    noise: CellNoise
    sensitivity: Whole
    budgets: Mapping[Scope, Fraction]
    scales: Mapping[Scope, Positive]
    reported: Fraction
    expected: Mapping[str, Positive]

    def __post_init__(self) -> None:
        """Freeze, then refuse what is no calibration."""
        for name in ("budgets", "scales", "expected"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        _require(self.noise in ("discrete_laplace", "discrete_gaussian"), "Laplace or Gaussian noise")
        _require(self.sensitivity > 0 and self.reported > 0, "a sensitivity and a report greater than 0")
        _require(all(value > 0 for value in self.budgets.values()), "budgets greater than 0")
        _require(
            self.scales.keys() == self.budgets.keys() and all(map(_positive, self.scales.values())),
            "one positive, finite noise scale for each budget",
        )
        _require(all(map(_positive, self.expected.values())), "positive, finite expected errors")

    @property
    def total(self) -> Fraction:
        """Epsilon of all tables together, for Gaussian noise at the guarantee's delta."""
        if self.noise == "discrete_gaussian":
            return self.reported
        return max(sum(self.budgets.values(), Fraction()), self.reported)


@kind("coefficient_noise")
@dataclass(frozen=True)
class CoefficientNoise:
    """Discrete Laplace noise of one scale on every integer contrast of the families' tables.

    Args:
        sensitivity: most that one record can move all released contrasts, L1, under the relation.
        exact: whether that is attained by some pair of data sets; False for a proven upper bound.
        scale: of the noise.
        shift: records added to the empty contrast, so that tables without records come out non-negative; public.
        noisy_total: whether the number of records, the empty contrast, has noise; it has none where it is public.
        reported: total epsilon that the noise's own privacy map reports.

    Raises:
        InputError: a number is not positive and finite, or the shift is negative.
    """

    sensitivity: Whole
    exact: Flag
    scale: Positive
    shift: Count
    noisy_total: Flag
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(self.sensitivity > 0 and self.reported > 0, "a sensitivity and a report greater than 0")
        _require(_positive(self.scale) and self.shift >= 0, "a positive, finite noise scale and no negative shift")

    @property
    def total(self) -> Fraction:
        """Epsilon of all contrasts together."""
        return self.reported


@kind("trimming")
@dataclass(frozen=True)
class Trimming:
    """Draws from a tempered posterior whose probabilities lie on a public grid above a floor.

    Args:
        floors: smallest probability of each node's states.
        temper: tau; the records count as `tau N`.
        draws: joint draws of all rows.
        resolution: steps of the grid from the floor to the largest probability, for each node.
        reported: epsilon of all draws, rounded up, with the reserve for rounding errors.

    Raises:
        InputError: no draws, or a number that is not positive and finite.
    """

    floors: Mapping[str, Positive]
    temper: Positive
    draws: Whole
    resolution: Mapping[str, Whole]
    reported: Fraction

    def __post_init__(self) -> None:
        """Freeze, then refuse what is no calibration."""
        object.__setattr__(self, "floors", MappingProxyType(dict(self.floors)))
        object.__setattr__(self, "resolution", MappingProxyType(dict(self.resolution)))
        _require(self.draws > 0 and self.reported > 0, "at least one draw and a report greater than 0")
        _require(_positive(self.temper) and all(map(_positive, self.floors.values())), "positive temper and floors")
        _require(
            self.floors.keys() == self.resolution.keys() and all(step > 0 for step in self.resolution.values()),
            "one grid for each floor",
        )

    @property
    def total(self) -> Fraction:
        """Epsilon of all draws."""
        return self.reported


@kind("tempering")
@dataclass(frozen=True)
class Tempering:
    """Draws from a tempered, untrimmed posterior, rounded to a public grid; for a guarantee with delta.

    Args:
        temper: tau; the records count as `tau N`.
        draws: joint draws of all rows.
        digits: decimal digits that are released.
        reported: epsilon of all draws at the guarantee's delta.

    Raises:
        InputError: no draws or digits, or a number that is not positive and finite.
    """

    temper: Positive
    draws: Whole
    digits: Whole
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(self.draws > 0 and self.digits > 0 and self.reported > 0, "draws, digits and a report greater than 0")
        _require(_positive(self.temper), "a positive temper")

    @property
    def total(self) -> Fraction:
        """Epsilon at the guarantee's delta."""
        return self.reported


@kind("selection")
@dataclass(frozen=True)
class Selection:
    """A choice among finitely many candidates, `P(c) ~ exp(log-likelihood of c / scale)`.

    Args:
        sensitivity: widest range, over candidates, of what one record can do to their log-likelihoods; nats.
        scale: of the selection; nats.
        reported: epsilon, rounded up, with the reserve for rounding errors.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Positive
    scale: Positive
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(_positive(self.sensitivity) and _positive(self.scale), "a positive sensitivity and scale")
        _require(self.reported > 0, "a report greater than 0")

    @property
    def total(self) -> Fraction:
        """Epsilon of the choice."""
        return self.reported


@kind("stages")
@dataclass(frozen=True)
class Stages:
    """Two stages of noisy tables, the second's budgets chosen from what the first released.

    Args:
        first: noise of the first stage, before amplification by sampling.
        first_epsilon: what the first stage costs, sampling included.
        second_epsilon: what the second stage may cost in all.
        sampling: probability with which a record takes part in the first stage.
        weights: name of the rule that turned the first stage into budgets.

    Raises:
        InputError: a budget is not positive, or the probability is not in (0, 1].
    """

    first: TableNoise
    first_epsilon: Fraction
    second_epsilon: Fraction
    sampling: Fraction
    weights: str

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        _require(self.first_epsilon > 0 and self.second_epsilon > 0, "budgets greater than 0 for both stages")
        _require(0 < self.sampling <= 1, "a sampling probability in (0, 1]")

    @property
    def total(self) -> Fraction:
        """Epsilon of both stages."""
        return self.first_epsilon + self.second_epsilon


TableCalibration = (
    TableNoise | GaussianNoise | PlannedNoise | CoefficientNoise | Trimming | Tempering | Selection | Stages
)
"""The closed union of calibrations over a network."""
Calibration = TableCalibration | DesignCalibration
"""The closed union of calibrations."""


def _positive(value: float) -> bool:
    """Whether a number is positive and finite."""
    return 0 < value < math.inf


def _require(holds: bool, what: str) -> None:
    """Refuse what is no calibration."""
    if not holds:
        raise InputError(f"a calibration needs {what}")
