"""Logistic regressions of weighted points, one under every draw: Newton's method, all draws at once.

    maximise over b   sum over points of  h log s(z b) + (w - h) log(1 - s(z b))  -  RIDGE |b|^2 / 2

with s the logistic function, w the weight of a point (1 in all), h that of the second class there, and columns z in
units of their deviation, about their mean. The ridge is what a millionth of the records says: it moves no coefficient
by more than 1e-5 of itself where both classes are seen, and where they are parted by a column (a state in which one
class has the chance 0) it stands for "at least": such a coefficient ends near log(1e6).
"""

from __future__ import annotations

import numpy as np

from discreet.util.arrays import Floats

RIDGE = 1e-6
"""Of the squared standardised coefficients, in shares of the records."""
NEWTON_STEPS, STEP_HALVINGS = 100, 40
"""Of Newton's method at most: six to ten are usual, thirty where classes are parted."""
FARTHEST_LOG_ODDS = 50.0
"""Log odds beyond which weights below 0 lead, where there are any: classes that a state parts end at a third of it."""
LAST_CHANGE, LEAST_FALL = 1e-7, 1e-14
"""Change of any point's log odds by a step that is the last: those that follow are the square of it; and of a mean log
likelihood that is no change."""


def logit_fits(columns: Floats, weights: Floats, hits: Floats) -> Floats:
    """Coefficients of the population's maximum likelihood.

    Args:
        columns: shape `(draws, points, columns)`.
        weights: of the points, shape `(draws, points)`, 1 in all under every draw; a few may be below 0.
        hits: the weight of the second class in each point, shape `(draws, points)`.

    Returns:
        Shape `(draws, columns + 1)`, the intercept last; NaN under draws in which a column does not vary, or Newton's
        method found no end, or none that is near.

    Source:
        McCullagh and Nelder (1989), Section 4.4; with the step halved until the likelihood does not fall.
    """
    mean = np.einsum("dk,dkp->dp", weights, columns)
    off = columns - mean[:, None]
    deviation = np.sqrt(np.maximum(np.einsum("dk,dkp->dp", weights, off**2), 0.0))
    still = ~(deviation > 0).all(axis=-1)
    deviation[still] = 1.0
    z = np.concatenate([off / deviation[:, None], np.ones((*weights.shape, 1))], axis=-1)
    found, left = np.zeros((len(z), z.shape[-1])), np.flatnonzero(~still)
    for _ in range(NEWTON_STEPS):
        if not left.size:
            break
        found[left], change = _take_step(z[left], weights[left], hits[left], found[left])
        left = left[~(change <= LAST_CHANGE) & np.isfinite(change)]
    found[left] = found[still] = np.nan
    improper = ((hits < 0) | (hits > weights)).any(axis=-1)
    found[improper & (np.abs(np.einsum("dkp,dp->dk", z, found)).max(axis=-1) > FARTHEST_LOG_ODDS)] = np.nan
    slopes = found[:, :-1] / deviation
    return np.column_stack([slopes, found[:, -1] - (slopes * mean).sum(axis=-1)])


def _take_step(z: Floats, weights: Floats, hits: Floats, at: Floats) -> tuple[Floats, Floats]:
    """The next coefficients under each draw, and the largest change of a point's log odds."""
    eta = np.einsum("dkp,dp->dk", z, at)
    shares = 1 / (1 + np.exp(-np.clip(eta, -500, 500)))
    gradient = np.einsum("dkp,dk->dp", z, hits - weights * shares) - RIDGE * at
    curved = (z * (weights * shares * (1 - shares))[..., None]).swapaxes(-1, -2) @ z + RIDGE * np.eye(z.shape[-1])
    step = np.linalg.solve(curved, gradient[..., None])[..., 0]
    along, before = np.einsum("dkp,dp->dk", z, step), _find_height(eta, weights, hits, at)
    length = np.ones(len(z))
    for _ in range(STEP_HALVINGS):
        tried = at + length[:, None] * step
        falls = _find_height(eta + length[:, None] * along, weights, hits, tried) < before - LEAST_FALL
        if not falls.any():
            break
        length[falls] /= 2
    else:
        length[falls] = np.nan
    return at + length[:, None] * step, length * np.abs(along).max(axis=-1)


def _find_height(eta: Floats, weights: Floats, hits: Floats, at: Floats) -> Floats:
    """What is maximised, shape `(draws,)`."""
    return np.asarray((hits * eta - weights * np.logaddexp(0, eta)).sum(axis=-1) - RIDGE * (at**2).sum(-1) / 2)
