"""How much of an interval is there because of the privacy noise, and how well draws tell it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["noise_share", "noise_share_error"]

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""Standard deviation of a probability that is taken for a rounding error."""


def noise_share(draws: Floats, twins: Floats) -> Floats:
    """The part of a posterior's variance that is there because the counts are not known, but behind privacy noise.

    For a number q of the probabilities theta, `Var(E[q(theta) | counts]) / Var(q(theta))`. A twin is a second draw
    with the same counts, so the covariance of the two is the variance of the conditional mean.

    Args:
        draws: q under every draw, shape `(..., draws)`.
        twins: q under the twin of every draw, of the same shape; draws in which either is NaN are left out.

    Returns:
        Between 0 and 1, shape `(...)`: 0 where q does not vary, NaN where fewer than two draws are left.

    Source:
        The intraclass correlation of pairs, Fisher (1925), *Statistical Methods for Research Workers*, chapter VII:
        mean and variance are pooled over draws and twins.
    """
    one, other, variance = _centred(draws, twins)
    return np.asarray(np.clip(_share(one, other, variance), 0.0, 1.0))


def noise_share_error(draws: Floats, twins: Floats, effective: float | None = None) -> Floats:
    """Standard error of `noise_share` that comes of the finite number of draws.

    Args:
        draws: as there.
        twins: as there.
        effective: independent draws that all draws are worth; None: they are independent.

    Returns:
        Shape `(...)`: about `(1 - share^2) / sqrt(draws)` where q is normal; 0 where q does not vary, NaN where fewer
        than two draws are left.

    Source:
        The delta method: with x and y a draw and its twin less the mean, v the variance and r the share, each pair
        moves the estimate by `(x y - r (x^2 + y^2) / 2) / v`, over the number of pairs.
    """
    one, other, variance = _centred(draws, twins)
    if one.shape[-1] < 2:
        return np.full(draws.shape[:-1], np.nan)
    share = _share(one, other, variance)[..., None]
    moved = (one * other - share * (one**2 + other**2) / 2).std(axis=-1)
    independent = one.shape[-1] * min(1.0, (effective or draws.shape[-1]) / draws.shape[-1])
    return np.asarray(_ratio(moved, variance) / np.sqrt(independent))


def _centred(draws: Floats, twins: Floats) -> tuple[Floats, Floats, Floats]:
    """Draws and twins less their common mean, without those that are not known, and their common variance."""
    known = ~np.isnan(draws + twins).reshape(-1, draws.shape[-1]).any(axis=0)
    one, other = draws[..., known], twins[..., known]
    if known.sum() < 2:
        return one, other, np.full(draws.shape[:-1], np.nan)
    middle = ((one.mean(axis=-1) + other.mean(axis=-1)) / 2)[..., None]
    one, other = one - middle, other - middle
    return one, other, np.asarray((one**2 + other**2).mean(axis=-1) / 2)


def _share(one: Floats, other: Floats, variance: Floats) -> Floats:
    """Covariance over variance; NaN where fewer than two draws are left."""
    if one.shape[-1] < 2:
        return variance
    return _ratio(np.asarray((one * other).mean(axis=-1)), variance)


def _ratio(number: Floats, variance: Floats) -> Floats:
    """The number over the variance, 0 where nothing varies."""
    return np.asarray(np.divide(number, variance, out=np.zeros(variance.shape), where=variance > ROUNDING**2))
