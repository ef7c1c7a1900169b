r"""A normal law cut to a ball: exact draws by rejection, and what one such draw costs as a posterior of regression.

The posterior of regression weights under a normal prior cut to `||w|| <= R` has the density
`exp(-w'Aw/2 + b'w)` on that ball. One draw from it is private because the ball bounds every record's likelihood; that
proof needs draws from exactly this law, which a Markov chain never gives. Here they come by rejection, from proposals
whose acceptance does not fall when the unconstrained mean is far outside the ball.

For every alpha >= 0 and every unit vector e the ball lies in the half-space `e'w <= R`, and on it
`exp(alpha (||w||^2 - R^2) / 2) <= 1`. So a normal law of precision `A + alpha I` and mean `(A + alpha I)^-1 b`, cut to
that half-space, is an envelope: a proposal is accepted if it is in the ball, with that probability. Its acceptance is
`constant / exp(F(alpha))` with

    F(alpha) = alpha R^2 / 2 + log of the integral of exp(-w'(A + alpha I)w/2 + b'w) over the half-space,

which is convex and has a closed form: the best alpha is found by a search over one number. e points to the mode in the
ball. Without the half-space (e.g. with E||w||^2 = R^2, the best alpha then) the acceptance falls like the inverse root
of the multiplier of the constraint; with it, a mean far outside costs about e (d + 1) / 2 tries, however far it is.

Nothing here reads records. Sources of randomness are arguments, so that a mechanism can bring its own; arithmetic is in
floating point, which a mechanism that releases a draw has to account for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr

from discreet.errors import InputError
from discreet.privacy.guarantee import Relation

__all__ = ["expected_tries", "sampler_loss", "truncated_normal"]

Floats = npt.NDArray[np.float64]
Source = Callable[[int], Floats]
"""From a number to so many independent variates."""

BATCH = 1024
"""Fewest proposals at a time."""
LARGEST_BATCH = 65536
"""Most proposals at a time."""
SYMMETRY = 1e-9
"""Asymmetry, and negative eigenvalues, relative to the largest entry, that are taken for rounding."""
REACH = 45.0
"""Nats below its upper bound down to which alpha is searched; any alpha is exact, some are slow."""


# ------------------------------------------------------------------------------------------------ draws


def truncated_normal(
    precision: npt.ArrayLike,
    shift: npt.ArrayLike,
    radius: float,
    draws: int,
    *,
    normals: Source,
    uniforms: Source,
) -> Floats:
    """Independent exact draws of `w` with density `exp(-w'Aw/2 + b'w)` on the ball `||w||_2 <= radius`.

    Args:
        precision: A, shape `(d, d)`, symmetric, positive definite or singular.
        shift: b = A times the unconstrained mean, shape `(d,)`.
        radius: R > 0, in the unit of w.
        draws: how many.
        normals: from a number to so many independent standard normal variates, shape `(number,)`.
        uniforms: the same for uniform variates in [0, 1).

    Returns:
        Shape `(draws, d)`. There is no limit of tries: a limit would make the law depend on luck. `expected_tries`
        tells what to expect; for d up to 50 it stayed below 2 (d + 1) in every problem that was tried.

    Raises:
        InputError: shapes that do not fit, entries that are not finite, a matrix that is not symmetric or that has a
            negative eigenvalue, a radius that is not positive, a negative number of draws.

    Source:
        Robert (1995) for the tail of one normal variate; the envelope and its optimal tilt are derived above.

    Example:
        >>> rng = np.random.default_rng(1)
        >>> w = truncated_normal([[1, 0], [0, 1]], [100, 0], 1, 500, normals=rng.standard_normal, uniforms=rng.random)
        >>> bool(np.linalg.norm(w, axis=1).max() <= 1), bool(w[:, 0].mean() > 0.97)
        (True, True)
    """
    if draws < 0:
        raise InputError("the number of draws must not be negative")
    envelope = _envelope(*_checked(precision, shift, radius))
    found: list[Floats] = []
    missing, tried, kept = draws, 0, 0
    while missing > 0:
        rate = max(kept, 1) / max(tried, 1)
        size = int(min(max(1.2 * missing / rate if tried else 2 * missing, BATCH), LARGEST_BATCH))
        points, log_chance = _proposals(envelope, size, normals, uniforms)
        # log1p(-u) is the logarithm of a uniform variate in (0, 1].
        accepted = points[np.log1p(-uniforms(len(points))) < log_chance]
        found.append(accepted[:missing])
        missing, tried, kept = missing - len(found[-1]), tried + size, kept + len(accepted)
    rotated = np.concatenate(found) if found else np.empty((0, envelope.mean.size))
    return np.asarray(rotated @ envelope.axes.T)


def expected_tries(
    precision: npt.ArrayLike,
    shift: npt.ArrayLike,
    radius: float,
    *,
    proposals: int,
    rng: np.random.Generator,
) -> float:
    """Estimate how many proposals `truncated_normal` makes for one draw.

    Args:
        precision, shift, radius: as for `truncated_normal`.
        proposals: of which the acceptance is averaged; the error is of the order of `(tries / proposals)^(1/2)`.
        rng: source of randomness.

    Returns:
        Proposals per draw, at least 1; infinite if none of them would have been accepted.

    Raises:
        InputError: as for `truncated_normal`, or no proposals.
    """
    if proposals < 1:
        raise InputError("the number of proposals must be at least 1")
    envelope = _envelope(*_checked(precision, shift, radius))
    _, log_chance = _proposals(envelope, proposals, rng.standard_normal, rng.random)
    chance = float(np.exp(log_chance).sum()) / proposals
    return 1 / chance if chance > 0 else math.inf


def _checked(precision: npt.ArrayLike, shift: npt.ArrayLike, radius: float) -> tuple[Floats, Floats, float]:
    """The arguments as arrays, refused if they are not a law on a ball."""
    matrix, vector = np.asarray(precision, np.float64), np.asarray(shift, np.float64)
    if vector.ndim != 1 or vector.size == 0 or matrix.shape != (vector.size, vector.size):
        raise InputError(
            f"a precision of shape (d, d) and a shift of shape (d,) are needed: {matrix.shape}, {vector.shape}"
        )
    if not (np.isfinite(matrix).all() and np.isfinite(vector).all()):
        raise InputError("the precision and the shift must be finite")
    if np.abs(matrix - matrix.T).max() > SYMMETRY * np.abs(matrix).max():
        raise InputError("the precision must be symmetric")
    if not 0 < radius < math.inf:
        raise InputError("the radius must be positive and finite")
    return matrix, vector, float(radius)


# ------------------------------------------------------------------------------------------------ the envelope


@dataclass(frozen=True, eq=False)
class _Envelope:
    """A normal law cut to the half-space `normal'w <= radius`, in the eigenvectors of the precision.

    `axes` has them as columns; `mean` and `variance` (shape `(d,)`) are those of the uncut law, `alpha` its tilt.
    """

    axes: Floats
    mean: Floats
    variance: Floats
    normal: Floats
    alpha: float
    radius: float


def _envelope(precision: Floats, shift: Floats, radius: float) -> _Envelope:
    """The envelope with the highest acceptance."""
    eigenvalues, axes = np.linalg.eigh((precision + precision.T) / 2)
    if eigenvalues[0] < -SYMMETRY * np.abs(precision).max():
        raise InputError("the precision must not have a negative eigenvalue")
    eigenvalues, rotated = np.maximum(eigenvalues, 0.0), axes.T @ shift
    normal = _direction(eigenvalues, rotated, radius)

    def cost(alpha: float) -> float:
        """F(alpha), apart from a constant."""
        variance = 1 / (eigenvalues + alpha)
        room = (radius - normal @ (variance * rotated)) / math.sqrt(normal**2 @ variance)
        return float(alpha * radius**2 + np.log(variance).sum() + rotated**2 @ variance) / 2 + float(log_ndtr(room))

    # At this alpha E||w||^2 <= R^2 already, so the optimum is below.
    highest = np.linalg.norm(rotated) / radius + len(rotated) / radius**2
    top = math.log(highest)
    best = minimize_scalar(lambda x: cost(math.exp(x)), bounds=(top - REACH, top), method="bounded").x
    alpha = math.exp(best)
    if eigenvalues[0] > np.finfo(float).eps * eigenvalues[-1] and cost(0.0) <= cost(alpha):
        alpha = 0.0
    variance = 1 / (eigenvalues + alpha)
    return _Envelope(axes, variance * rotated, variance, normal, alpha, radius)


def _direction(eigenvalues: Floats, shift: Floats, radius: float) -> Floats:
    """Unit vector towards the mode in the ball, which is `(A + lambda I)^-1 b` with the constraint's multiplier."""
    length = float(np.linalg.norm(shift))
    if length == 0:
        return np.eye(len(shift))[0]
    # Divided by the length, so that no square overflows; at multiplier length / radius the mode is inside the ball.
    unit, highest = shift / length, length / radius

    def outside(x: float) -> float:
        """Logarithm of the mode's norm over the radius, at multiplier `highest * exp(x)`."""
        return math.log(np.linalg.norm(unit / (eigenvalues / highest + math.exp(x))))

    lowest = -REACH
    x = lowest if outside(lowest) <= 0 else brentq(outside, lowest, 1e-12)
    mode = unit / (eigenvalues / highest + math.exp(x))
    return np.asarray(mode / np.linalg.norm(mode))


def _proposals(envelope: _Envelope, size: int, normals: Source, uniforms: Source) -> tuple[Floats, Floats]:
    """Proposals out of `size` tries, and the logarithms of their chances of being accepted.

    The part along the normal of the half-space comes first, by rejection of its own; the rest follows given that part.
    Fewer than `size` may be left, and the lost ones count as tries.
    """
    spread = math.sqrt(envelope.normal**2 @ envelope.variance)
    room = float(envelope.radius - envelope.normal @ envelope.mean) / spread
    along = spread * _below(room, size, normals, uniforms)
    width = envelope.mean.size
    free = np.sqrt(envelope.variance) * np.reshape(normals(len(along) * width), (-1, width))
    slope = envelope.variance * envelope.normal / spread**2
    points = envelope.mean + free + np.outer(along - free @ envelope.normal, slope)
    norm = np.linalg.norm(points, axis=1)
    depth = (envelope.radius - norm) * (envelope.radius + norm)
    return points, np.where(depth >= 0, -envelope.alpha * depth / 2, -np.inf)


def _below(bound: float, size: int, normals: Source, uniforms: Source) -> Floats:
    """Standard normal variates that are at most `bound`, from `size` tries, at least half of which succeed on average.

    In the tail: the distance from the bound is exponential, corrected by rejection (Robert 1995).
    """
    if bound >= 0:
        values = np.asarray(normals(size))
        return values[values <= bound]
    rate = (math.sqrt(bound**2 + 4) - bound) / 2
    distance = -np.log1p(-uniforms(size)) / rate
    log_chance = -((distance - bound - rate) ** 2) / 2
    return np.asarray((bound - distance)[np.log1p(-uniforms(size)) < log_chance])


# ------------------------------------------------------------------------------------------------ privacy


def sampler_loss(
    radius: float, feature_norm: float, target_bound: float, variance: float, relation: Relation | str
) -> float:
    r"""Epsilon of one draw from the posterior of regression weights under a prior cut to a ball.

    y ~ N(w'x, s2) with `||x||_2 <= Bx` and `|y| <= By`; any prior on `||w||_2 <= R`. Neighbours' posteriors differ by
    the factor `exp(f(w)) / E[exp(f)]`, where f is the difference of log-likelihoods and the mean is over the other
    posterior. As `min f <= log E[exp(f)] <= max f`, the loss in both directions is at most the *range* of f over the
    ball, the normaliser's share included. Let t = R Bx.

    Adding or removing a record: `f = -(y - w'x)^2 / (2 s2)` and `y - w'x` takes all values in `[y - t, y + t]`, so the
    range is greatest at `|y| = By`, from `(By - t)^2`, or from 0 if `t >= By`, to `(By + t)^2`:

        4 t By / (2 s2)   if t <= By,        (By + t)^2 / (2 s2)   otherwise.

    Replacing a record removes one and adds one: twice
    that, reached by y and -y if t <= By, and otherwise (in two dimensions or more) by vectors at an angle of cosine
    -By / t. The bound is approached by data sets whose posterior sits where f has its other extreme.

    Args:
        radius: R of the ball of weights.
        feature_norm: Bx, bound on the l2 norm of a record's features.
        target_bound: By, bound on the absolute value of its target.
        variance: s2 of the target given the features, a public number.
        relation: ADD_REMOVE or REPLACE one record.

    Returns:
        Epsilon, nats.

    Raises:
        InputError: an argument that is not positive and finite.

    Guarantee:
        (epsilon, 0) for one exact draw; k draws cost k times as much.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), posterior sampling of Bayesian linear regression, with the loss
        worked out in closed form.

    Example:
        >>> sampler_loss(0.1, 1, 1, 1, "replace"), sampler_loss(10, 1, 1, 1, "add-remove")
        (0.4, 60.5)
    """
    if not all(0 < value < math.inf for value in (radius, feature_norm, target_bound, variance)):
        raise InputError("radius, bounds and variance must be positive and finite")
    reach = radius * feature_norm
    squares = 4 * reach * target_bound if reach <= target_bound else (target_bound + reach) ** 2
    return squares / variance if Relation(relation) is Relation.REPLACE else squares / (2 * variance)
