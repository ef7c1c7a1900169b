"""Noise: exact samplers for releases, fast ones for simulations, and the scale that a budget buys.

Released noise is integer noise that OpenDP draws exactly from the operating system's entropy; there is no seed and no
floating-point sample anywhere near a count. Older versions of OpenDP draw a wrong discrete Laplace distribution
(opendp/opendp#2638), so the version is checked at import, and a goodness-of-fit test guards the sampler itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

from discreet.errors import DiscreetError, InputError
from discreet.sensitive.counts import COUNT_LIMIT

__all__ = ["ExactNoise", "Noise", "SimulatedNoise", "scale_for"]

if not version("opendp").startswith("0.16."):
    raise DiscreetError(
        f"opendp {version('opendp')} is not a version whose noise was verified; install opendp>=0.16,<0.17"
    )
enable_features("contrib")

SCALE_LIMIT = 2.0**52
"""Largest noise scale: 1,000 scales still lie within 64-bit integers, where the sampler would saturate."""
Integers = npt.NDArray[np.int64]


class Noise(Protocol):
    """A source of noise for mechanisms."""

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """Add independent noise, `P(noise = k) ~ exp(-|k| / scale)`, to every entry.

        Args:
            values: records; any shape, entries from 0 to 2^53.
            scale: unit: records.

        Returns:
            Noisy entries, same shape.
        """


@dataclass(frozen=True)
class ExactNoise:
    """OpenDP's exact discrete Laplace, one vector call; it takes no seed and no generator.

    Guarantee:
        The output for `values` is `privacy_map(scale, d)`-DP towards any vector at L1 distance at most d.

    Source:
        Ghosh, Roughgarden and Sundararajan (2009) for the geometric mechanism; Canonne, Kamath and Steinke (2020) for
        the exact sampler.
    """

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """See `Noise`; additionally refuses counts of more than 2^53."""
        if values.size and int(values.max()) > COUNT_LIMIT:
            raise InputError(f"a count is larger than {COUNT_LIMIT:,}, where 64-bit noise would saturate")
        noisy = _measurement(scale)(np.ascontiguousarray(values).ravel().tolist())
        return np.array(noisy, np.int64).reshape(values.shape)


@dataclass(frozen=True)
class SimulatedNoise:
    """The same distribution, fast and seeded: for tests and experiments, never for a release.

    Args:
        rng: any generator.
    """

    rng: np.random.Generator

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        """See `Noise`: the difference of two geometric variates."""
        success = -math.expm1(-1 / scale)
        return (
            values + self.rng.geometric(success, size=values.shape) - self.rng.geometric(success, size=values.shape)
        ).astype(np.int64)


def scale_for(sensitivity: int, epsilon: Fraction) -> tuple[float, Fraction]:
    """The smallest discrete Laplace scale whose privacy map reports at most a budget.

    Args:
        sensitivity: L1, in records.
        epsilon: exact budget, nats.

    Returns:
        (scale in records, epsilon that the map reports). The report is a float rounded up by OpenDP, so the scale may
        be a few units in the last place above `sensitivity / epsilon`; it is never below it.

    Raises:
        InputError: the budget is so small that the scale exceeds 2^52, or so large that no positive scale is left.

    Source:
        Dwork and Roth (2014), Theorem 3.6, for integers.

    Example:
        >>> scale_for(8, Fraction(1))
        (8.0, Fraction(1, 1))
    """
    exact = sensitivity / epsilon
    if exact > SCALE_LIMIT:
        raise InputError("epsilon is too small: the noise would exceed 64-bit integers; ask for more than 1e-15 a cell")
    scale = float(exact)
    if not scale > 1e-9:
        raise InputError("epsilon is too large: the noise would vanish; a release without noise has no guarantee")
    while Fraction(scale) < exact or privacy_map(scale, sensitivity) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale, privacy_map(scale, sensitivity)


def privacy_map(scale: float, distance: int) -> Fraction:
    """Epsilon that the noise gives between vectors at an L1 distance, as OpenDP's own map reports it.

    Args:
        scale: of the noise, records.
        distance: L1, records.

    Returns:
        The report, exactly.
    """
    return Fraction(_measurement(scale).map(distance))


def _measurement(scale: float) -> Any:
    """OpenDP's measurement: int64 vectors, L1 distance, pure differential privacy."""
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale)
