"""What releases on one data set measured, how far off it is, and what it says of the number of records.

Read by every posterior.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from discreet.inference.interactions import Blur
from discreet.releases.measurement import Measurement
from discreet.releases.release import Release
from discreet.theory.stars import star_blurs

__all__ = ["blur", "measurements", "number_of_records"]


def blur(part: Measurement) -> Blur:
    """What the noise of a measured table does to it."""
    if part.star is None or part.scale is None:
        return Blur(part.variance)
    found = star_blurs(part.star.shared, part.star.lengths, part.scale)
    return found[part.star.scopes.index(part.scope)]


def measurements(releases: Iterable[Release]) -> tuple[Measurement, ...]:
    """All that releases measured of the records, in their order.

    Args:
        releases: over a network, on one data set.

    Returns:
        Tables and contrasts with their noise; nothing of releases of something else.
    """
    return tuple(part for release in releases for part in release.network_payload.measurements)


def number_of_records(parts: Sequence[Measurement]) -> tuple[float, float]:
    """An estimate of the number of records, and the standard deviation of its error.

    Args:
        parts: measured of one data set.

    Returns:
        The mean of what each part says, weighted by precision, and its deviation; 0 and 0 of no parts.
    """
    told = [_total(part) for part in parts if not (part.contrasts and part.scope)]
    if not told:
        return 0.0, 0.0
    weights = np.array([1 / max(variance, 1.0) for _, variance in told])
    mean = float(weights @ [number for number, _ in told] / weights.sum())
    return mean, float(weights.sum()) ** -0.5


def _total(part: Measurement) -> tuple[float, float]:
    """The sum of a table as an estimate of the number of records, and its variance."""
    total, variance = float(part.values.sum()), part.values.size * blur(part).variance(())
    if part.sampling is None:
        return total, variance
    # Of a sample, the number also varies with who was in it.
    total /= part.sampling
    return total, variance / part.sampling**2 + max(total, 1.0) * (1 - part.sampling) / part.sampling
