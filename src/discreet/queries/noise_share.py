"""How much of an interval is there because of the privacy noise, and how well draws tell it."""

from __future__ import annotations

import numpy as np

from discreet.util.arrays import Floats

ROUNDING_DEVIATION = 1e-12
"""Standard deviation of a probability that is taken for a rounding error."""


def noise_share(draws: Floats, twins: Floats, effective: float | None = None) -> tuple[Floats, Floats]:
    """The part of a posterior's variance that is there because the counts are not known, but behind privacy noise.

    For a number q of the probabilities theta, `Var(E[q(theta) | counts]) / Var(q(theta))`. A twin is a second draw
    with the same counts, so the covariance of the two is the variance of the conditional mean.

    Args:
        draws: q under every draw, shape `(..., draws)`.
        twins: q under the twin of every draw, of the same shape; draws in which either is NaN are left out.
        effective: independent draws that all draws are worth; None: they are independent.

    Returns:
        (the part, between 0 and 1; its standard error), shape `(...)` each: both 0 where q does not vary, NaN where
        fewer than two draws are left. The error is about `(1 - part^2) / sqrt(draws)` where q is normal.

    Source:
        The intraclass correlation of pairs, Fisher (1925), *Statistical Methods for Research Workers*, chapter VII:
        mean and variance are pooled over draws and twins. The error is by the delta method: with x and y a draw and its
        twin less the mean, v the variance and r the part, each pair moves the estimate by
        `(x y - r (x^2 + y^2) / 2) / v`, over the number of pairs.

    Example:
        >>> draws = np.array([0.1, 0.2, 0.3, 0.4])
        >>> float(noise_share(draws, draws)[0]), float(noise_share(draws, draws[::-1])[0])
        (1.0, 0.0)
    """
    known = ~np.isnan(draws + twins).reshape(-1, draws.shape[-1]).any(axis=0)
    if known.sum() < 2:
        unknown = np.full(draws.shape[:-1], np.nan)
        return unknown, unknown
    one, other = (draws, twins) if known.all() else (draws[..., known], twins[..., known])
    middle = ((one.mean(axis=-1) + other.mean(axis=-1)) / 2)[..., None]
    one, other = one - middle, other - middle
    products, squares = one * other, (one**2 + other**2) / 2
    variance = np.asarray(squares.mean(axis=-1))
    share = _divide_by_variance(products.mean(axis=-1), variance)
    moved = (products - share[..., None] * squares).std(axis=-1)
    independent = one.shape[-1] * min(1.0, (effective or draws.shape[-1]) / draws.shape[-1])
    return np.asarray(np.clip(share, 0.0, 1.0)), _divide_by_variance(moved, variance) / np.sqrt(independent)


def _divide_by_variance(number: Floats, variance: Floats) -> Floats:
    """The number over the variance, 0 where nothing varies."""
    return np.asarray(np.divide(number, variance, out=np.zeros(variance.shape), where=variance > ROUNDING_DEVIATION**2))
