"""Number of records of a release: public, or measured with a share of the budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from discreet.designs.kinds.noisy_sums import NoisyTotal
from discreet.errors import InputError
from discreet.mechanisms.noise import Noise, scale_for
from discreet.privacy.guarantee import Guarantee

TOTAL_SHARE = Fraction(1, 20)
"""Share of epsilon for the number of records, if it is private and the posterior needs it."""


def require_records(records: int) -> None:
    """Refuse an invalid public number of records; it is an integer from 1 to 1,000,000,000."""
    if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= 10**9:
        raise InputError(
            f"a public number of records, for scale, is a whole number from 1 to 1,000,000,000, not {records}"
        )


def total_noise(guarantee: Guarantee) -> tuple[Fraction, float | None, Fraction]:
    """Divide a budget between the number of records, if private, and the rest.

    Args:
        guarantee: its delta, if any, stays with what is left.

    Returns:
        (epsilon that is left, scale of discrete Laplace noise on the number of records, what it costs); under REPLACE
        the number is public: (all, None, 0).

    Example:
        >>> promise = Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> total_noise(promise)
        (Fraction(1, 1), None, Fraction(0, 1))
    """
    if guarantee.relation.public_number:
        return guarantee.epsilon, None, Fraction(0)
    share = TOTAL_SHARE * guarantee.epsilon
    scale, cost = scale_for(1, share)
    return guarantee.epsilon - share, scale, cost


def noisy_total(records: int, scale: float | None, noise: Noise) -> NoisyTotal | None:
    """Add noise to the number of records if it is measured; None if it is public."""
    if scale is None:
        return None
    return NoisyTotal(int(noise.discrete_laplace(np.array([records]), scale)[0]), scale)
