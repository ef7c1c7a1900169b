"""Release of the Fourier mechanism: contrasts of the families' tables with integer noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InputError, listed, require
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import NO_NOISE, DiscreteLaplace, LaplaceTag
from discreet.releases.codec import Count, Flag, Positive, Scoped, Whole, all_positive, kind
from discreet.releases.measurement import MeasuredTables, Measurement, Reported
from discreet.util.arrays import Array, freeze


@kind("coefficient_noise")
@dataclass(frozen=True)
class CoefficientNoise(Reported):
    """Discrete Laplace noise of one scale on every integer contrast of the families' tables.

    Args:
        sensitivity: L1 sensitivity of all released contrasts under the relation.
        exact: True if some pair of data sets attains it; False for a proven upper bound.
        scale: of the noise.
        shift: records added to the empty contrast, so that tables without records are non-negative; public.
        noisy_total: whether the number of records, the empty contrast, has noise; it has none if it is public.
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
        """Refuse invalid numbers."""
        require(
            self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a report greater than 0"
        )
        sizes = all_positive(self.scale) and self.shift >= 0
        require(sizes, "a calibration needs a positive, finite noise scale and no negative shift")


@kind(
    "noisy_coefficients",
    order=("noise", "scale", "shift", "noisy_total", "components"),
    scoped=Scoped("components", "_Component", {"components": "values"}, less=1),
)
@dataclass(frozen=True, eq=False)
class NoisyCoefficients(MeasuredTables):
    """Integer contrasts of the family tables plus independent discrete Laplace noise, `P(k) ~ exp(-|k| / scale)`.

    Args:
        network: its families were counted.
        components: for every subset B of a family (in the schema's order) int64 of shape `(K_b - 1 for b in B)`; the
            empty subset's is the number of records plus the shift.
        scale: of the noise.
        shift: records that were added to the empty component for all data sets; readers subtract it.
        noisy_total: whether the empty component has noise; False if the number of records is public.

    Raises:
        InputError: a component is missing, unknown, of another shape or not of integers; a scale or shift out of range.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> parts = {(): np.array(103), ("rain",): np.array([-40])}
        >>> noisy = dc.research.NoisyCoefficients(rain, parts, scale=2.0, shift=3, noisy_total=True)
        >>> [(part.scope, part.values.tolist()) for part in noisy.measurements]
        [((), 100), (('rain',), [-40])]
    """

    network: Network
    components: Mapping[Scope, Array]
    scale: Positive
    shift: Count
    noisy_total: Flag

    @property
    def noise(self) -> LaplaceTag:
        """Law of the noise."""
        return DiscreteLaplace.tag

    def __post_init__(self) -> None:
        """Freeze the arrays, and refuse payloads that inference could not read."""
        # A lower bound on the number of subsets: it refuses too few components before all subsets are listed.
        least = sum(2 ** len(self.network.parents[node]) for node in self.network.nodes) + 1
        if least > len(self.components) or set(self.network.downward_closure) != set(self.components):
            raise InputError("noisy contrasts must name every subset of every family once")
        freeze(
            self, components={subset: np.asarray(self.components[subset]) for subset in self.network.downward_closure}
        )
        for subset, array in self.components.items():
            if array.dtype != np.int64 or array.shape != tuple(self.network.schema[name].size - 1 for name in subset):
                raise InputError(
                    f"the contrasts of ({listed(subset)}) must be 64-bit integers, one for two neighbouring states"
                )
        if not (0 < self.scale < NO_NOISE and self.shift >= 0):
            raise InputError("noisy contrasts need a positive noise scale below 2^63 and no negative shift")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`; the shift is subtracted."""
        measured = []
        for subset, array in self.components.items():
            values = array if subset else array - self.shift
            noisy = bool(subset) or self.noisy_total
            measured.append(
                Measurement(subset, np.asarray(values), DiscreteLaplace(self.scale) if noisy else None, contrasts=True)
            )
        return tuple(measured)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = f"noise in every contrast: discrete Laplace of scale {self.scale:.4g} records"
        if isinstance(calibration, CoefficientNoise):
            bound = "exact sensitivity" if calibration.exact else "an upper bound of the sensitivity,"
            line += f" ({bound} {calibration.sensitivity:,})"
        return line + (f"; {self.shift:,} records were added to the total" if self.shift else "")

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, CoefficientNoise):
            return False
        noise = (calibration.scale, calibration.shift, calibration.noisy_total)
        return noise == (self.scale, self.shift, self.noisy_total)
