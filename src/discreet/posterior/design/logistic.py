"""The posterior of a logistic regression given noisy gradients of its likelihood.

Records (v_i, y_i) are drawn from a law of v, with y_i ~ Bernoulli(sigmoid(theta . v_i)). A release tells public points
theta_1 .. theta_T and gradients

    g_t = sum_i (y_i - sigmoid(theta_t . v_i)) v_i + noise_t.

By the central limit theorem the sums are jointly normal over the draw of the records: with f_t = (y - sigmoid(theta_t .
v)) v, their mean is `n E f_t = n (m(theta) - m(theta_t))`, where `m(w) = E[sigmoid(w . v) v]`, and their covariance is
n times

    Cov(f_t, f_s) = E[p (1 - p) v v'] + Cov[(p - p_t) v, (p - p_s) v],    p = sigmoid(theta . v), p_t likewise:

the noise of the labels, which all gradients share, and how the records at hand differ from their law. The noise of a
gradient is normal given a latent variance, so everything but theta and these variances is integrated exactly: nothing
is summed over data sets, and the cost does not depend on the number of records. NUTS draws theta and the variances, in
double precision.

For the "ball" that is exact: exp(-|b|_2 / s) in d dimensions is a normal law whose variance is gamma with shape (d + 1)
/ 2 and scale 2 s^2. No mixture of round normal laws is a cube: for exp(-max_j |b_j| / s) the gamma law has the shape
and the scale that give the norm |b|_2 its second and its fourth moment. In one dimension, where ball and cube are the
Laplace law, both are exact.

The module needs JAX and blackjax (the extra `mcmc`); whoever needs it loads it late. It reads a release's arrays and
no records, but public ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from discreet.errors import InputError
from discreet.model.design import Shape
from discreet.posterior.design.laws import Law, UniformSphere, WeightedPoints, cosines, moment, spread
from discreet.posterior.diagnostics import effective_size, r_hat
from discreet.posterior.draws import ENOUGH, Mixing
from discreet.theory.checks import positive

__all__ = ["LabelledPoints", "LogisticDraws", "logistic_draws", "moment_in_jax", "noise_variance"]

Floats = npt.NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

CHAINS = 4
AGREED = 1.01
"""Largest R-hat at which chains count as mixed (Vehtari et al., 2021)."""
WARM_UP = 200
"""Steps in which a chain's step size and metric adapt; thrown away."""
STEPS = 250
"""Of a chain in the first round."""
ROUNDS = 5
"""Each twice as long as the last one, so the last has 4,000 steps."""
DOUBLINGS = 6
"""Most of them in one step of NUTS, so at most 63 gradients."""
ACCEPTANCE = 0.8
"""That warm-up aims at."""
FIRST_STEP = 0.3
"""In deviations of the normal law at the mode."""
NEAR = 1e-4
"""Distance over which a gradient's change tells the curvature."""
COVARIANCE_POINTS = 256
"""That tell a covariance to some per cent; the mean needs all points of a law."""


@dataclass(frozen=True, eq=False)
class LabelledPoints:
    """Labelled records that are public, and not among the private ones.

    Args:
        points: float64, shape (records, size), scaled features and then the constant, like the private ones.
        labels: shape (records,), 0 or 1.
    """

    points: Floats
    labels: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check."""
        if self.points.ndim != 2 or not np.all(np.isfinite(self.points)):
            raise InputError("public points must be a finite array of shape (records, size)")
        if self.labels.shape != self.points.shape[:1] or not np.all(np.isin(self.labels, (0, 1))):
            raise InputError("public labels must be as many as public points, each 0 or 1")


@dataclass(frozen=True, eq=False)
class LogisticDraws:
    """Draws of a logistic regression's weights.

    Args:
        weights: float64, shape (draws, size), in the units of the scaled features.
        mixing: how well the chains agreed.
    """

    weights: Floats
    mixing: Mixing


def logistic_draws(
    points: npt.ArrayLike,
    gradients: npt.ArrayLike,
    *,
    scale: float,
    shape: Shape,
    records: float,
    count_scale: float | None,
    law: Law,
    prior_deviation: float,
    public: LabelledPoints | None = None,
    draws: int,
    rng: np.random.Generator,
) -> LogisticDraws:
    r"""Draw the weights from their posterior given noisy gradients; prior N(0, deviation^2 I).

    One gradient covers a one-shot release (at weights 0), and objective perturbation: its minimum w is where the
    gradient of the log likelihood is the regulariser's `Lambda w` less the noise.

    Args:
        points: theta_t, shape (T, size).
        gradients: sums over records, with noise, shape (T, size).
        scale: s of the noise, the same for all t, which are independent given the records.
        shape: "cube" for the density exp(-max_j |b_j| / s), "ball" for exp(-|b|_2 / s).
        records: n, public or with noise.
        count_scale: of the discrete Laplace noise in `records`, unit: records; None where n is public.
        law: of the records' v.
        prior_deviation: of each weight.
        public: labelled records whose likelihood is known exactly.
        draws: how many are returned, of more or less independent ones.
        rng: source of randomness.

    Returns:
        Draws in turn from four chains, and their mixing: every weight's R-hat is at most 1.01, and the worst is worth
        400 independent draws.

    Raises:
        InputError: arrays of the wrong shape, scales that are not positive, a shape of noise that is not one of the
            two, or chains that did not mix.

    Guarantee:
        None spent: reads what was released.

    Source:
        Williams and McSherry (2010), Section 4.1, with the integral over records outside the product over gradients;
        Hoffman and Gelman (2014) for NUTS.
    """
    at, told = np.asarray(points, np.float64), np.asarray(gradients, np.float64)
    _check(at, told, shape, law, public)
    positive(scale=scale, prior_deviation=prior_deviation, draws=draws)
    if count_scale is None:
        positive(records=records)
    else:
        positive(count_scale=count_scale)
    if not math.isfinite(records):
        raise InputError(f"the number of records must be finite, got {records}")
    problem = _problem(
        at, told, noise_variance(law.size, scale, shape), records, count_scale, law, prior_deviation, public
    )
    with jax.enable_x64(True):
        found, mixing = _mixed(jax.tree.map(jnp.asarray, problem), draws, rng)
    return LogisticDraws(found[-draws:, : law.size], mixing)


def _check(at: Floats, told: Floats, shape: str, law: Law, public: LabelledPoints | None) -> None:
    """Refuse arrays that do not belong together."""
    if at.ndim != 2 or at.shape[0] == 0 or at.shape[1] != law.size or not np.all(np.isfinite(at)):
        raise InputError(f"points must be a finite array of shape (gradients, {law.size}), the size of the law")
    if told.shape != at.shape or not np.all(np.isfinite(told)):
        raise InputError(f"gradients must be a finite array of shape {at.shape}, one gradient for each point")
    if shape not in ("cube", "ball"):
        raise InputError(f"the shape of the noise must be 'cube' or 'ball', got {shape!r}")
    if public is not None and public.points.shape[1] != law.size:
        raise InputError(f"public points must have {law.size} coordinates, the size of the law")


def noise_variance(size: int, scale: float, shape: Shape) -> tuple[float, float]:
    """Shape and scale of the gamma law of the variance, given which noise is taken to be normal in each coordinate.

    Args:
        size: d, coordinates of a gradient.
        scale: s of the noise.
        shape: of the noise.

    Returns:
        Shape, and scale in the unit of the noise squared.

    Source:
        Ball: the multivariate Laplace law as a mixture (Gomez, Gomez-Villegas and Marin, 1998, with exponent 1/2).
        Cube: its noise is G U with G ~ Gamma(d + 1, s) and U uniform on [-1, 1]^d (Hardt and Talwar, 2010), so
        E |b|^2 = E G^2 d / 3 and E |b|^4 = E G^4 (d / 5 + d (d - 1) / 9); a mixture has d E V and d (d + 2) E V^2.
    """
    d = size
    if shape == "ball":
        return (d + 1) / 2, 2 * scale**2
    mean = (d + 1) * (d + 2) / 3
    square = (d + 1) * (d + 3) * (d + 4) * (1 / 5 + (d - 1) / 9)
    order = mean**2 / (square - mean**2)
    return order, mean / order * scale**2


# ---------------------------------------------------------------------------------------------- the density


class _Sphere(NamedTuple):
    """Quadrature of a `UniformSphere`: cosines and probabilities, norm and constant (0: there is none)."""

    cosines: Any
    probabilities: Any
    norm: Any
    constant: Any


class _Points(NamedTuple):
    """Any other law: points and their probabilities."""

    points: Any
    weights: Any


class _Problem(NamedTuple):
    """All that the density reads, as arrays.

    Args:
        at: theta_t, shape (T, size).
        told: gradients with noise, same shape.
        means: m(theta_t), same shape.
        gamma: (shape, scale) of the variance of their noise.
        records: n, or the middle of what is believed of it.
        count: (noisy count, its scale), or None where n is public.
        law: of v.
        few: points for covariances.
        before: sigmoid(theta_t . v) at those points, shape (points, T).
        deviation: of the prior.
        public: points whose sign is that of the label, or None.
    """

    at: Any
    told: Any
    means: Any
    gamma: Any
    records: Any
    count: Any
    law: _Sphere | _Points
    few: _Points
    before: Any
    deviation: Any
    public: Any


def _problem(
    at: Floats,
    told: Floats,
    gamma: tuple[float, float],
    records: float,
    count_scale: float | None,
    law: Law,
    deviation: float,
    public: LabelledPoints | None,
) -> _Problem:
    """Work out what does not depend on theta."""
    few = _few(law)
    before = 1 / (1 + np.exp(-few.points @ at.T))
    return _Problem(
        at,
        told,
        np.array([moment(law, point) for point in at]),
        gamma,
        records if count_scale is None else max(records, count_scale, 1.0),
        None if count_scale is None else (float(records), count_scale),
        _twin(law),
        _Points(few.points, few.weights),
        before,
        deviation,
        None if public is None else public.points * (2.0 * public.labels - 1)[:, None],
    )


def _few(law: Law) -> WeightedPoints:
    """Points for covariances: evenly picked ones where the law has many of its own."""
    found = spread(law, COVARIANCE_POINTS)
    if len(found.points) <= COVARIANCE_POINTS:
        return found
    ends = np.cumsum(found.weights)
    picked = np.searchsorted(ends, (np.arange(COVARIANCE_POINTS) + 0.5) / COVARIANCE_POINTS * ends[-1])
    return WeightedPoints(found.points[picked], np.full(COVARIANCE_POINTS, 1 / COVARIANCE_POINTS))


def _twin(law: Law) -> _Sphere | _Points:
    """The law as the density reads it."""
    if isinstance(law, UniformSphere):
        return _Sphere(*cosines(law), law.norm, law.constant)
    found = spread(law)
    return _Points(found.points, found.weights)


def _moment(law: _Sphere | _Points, w: jax.Array) -> jax.Array:
    """`covariates.moment`."""
    if isinstance(law, _Points):
        return (law.weights * jax.nn.sigmoid(law.points @ w)) @ law.points
    slope, offset = (w, 0.0) if law.constant is None else (w[:-1], w[-1] * law.constant)
    length = jnp.sqrt(jnp.sum(slope**2) + 1e-12)
    likely = law.probabilities * jax.nn.sigmoid(offset + length * law.norm * law.cosines)
    features = slope / length * law.norm * (likely @ law.cosines)
    return features if law.constant is None else jnp.append(features, law.constant * jnp.sum(likely))


def moment_in_jax(law: Law, weights: npt.ArrayLike) -> Floats:
    """`covariates.moment` as the density computes it, shape (size,); to compare the two."""
    with jax.enable_x64(True):
        return np.asarray(_moment(jax.tree.map(jnp.asarray, _twin(law)), jnp.asarray(weights, jnp.float64)))


def _covariance(problem: _Problem, theta: jax.Array) -> jax.Array:
    """Of one record's f_1 .. f_T, shape (T size, T size)."""
    few, steps = problem.few, problem.at.shape[0]
    p = jax.nn.sigmoid(few.points @ theta)
    labels = (few.points * (few.weights * p * (1 - p))[:, None]).T @ few.points
    moved = ((p[:, None] - problem.before)[:, :, None] * few.points[:, None, :]).reshape(len(p), -1)
    centred = moved - few.weights @ moved
    return jnp.tile(labels, (steps, steps)) + (centred * few.weights[:, None]).T @ centred


def _log_density(position: jax.Array, problem: _Problem) -> jax.Array:
    """Logarithm of the posterior of (theta, logarithms of the noise's variances in their unit, score of n)."""
    steps, size = problem.at.shape
    theta, logs = position[:size], position[size : size + steps]
    order, unit = problem.gamma
    log = -0.5 * jnp.sum((theta / problem.deviation) ** 2) + jnp.sum(order * logs - jnp.exp(logs))
    n = problem.records
    if problem.count is not None:
        # log n is a latent with a flat prior on n; its unit is about the deviation of what the noisy count tells.
        n = n * jnp.exp(position[-1] * problem.count[1] / n)
        log += jnp.log(n) - jnp.abs(n - problem.count[0]) / problem.count[1]
    mean = n * (_moment(problem.law, theta) - problem.means)
    noise = jnp.repeat(unit * jnp.exp(logs), size)
    root = jnp.linalg.cholesky(n * _covariance(problem, theta) + jnp.diag(noise))
    scores = jax.scipy.linalg.solve_triangular(root, (problem.told - mean).ravel(), lower=True)
    log -= 0.5 * jnp.sum(scores**2) + jnp.sum(jnp.log(jnp.diag(root)))
    if problem.public is not None:
        log += jnp.sum(jax.nn.log_sigmoid(problem.public @ theta))
    return log


# ---------------------------------------------------------------------------------------------- chains


def _compiled(function: Function) -> Function:
    """`jax.jit`, which says no types."""
    found: Function = jax.jit(function)
    return found


@_compiled
def _downhill(position: jax.Array, problem: _Problem) -> tuple[jax.Array, jax.Array]:
    """Less the log density, and its gradient."""
    found: tuple[jax.Array, jax.Array] = jax.value_and_grad(lambda at: -_log_density(at, problem))(position)
    return found


def _normal(problem: _Problem, length: int) -> tuple[Floats, Floats]:
    """The normal law that chains start from, and take their first metric from: the mode, and the covariance there."""

    def falls(position: Floats) -> tuple[float, Floats]:
        value, slope = _downhill(jnp.asarray(position), problem)
        return float(value), np.asarray(slope)

    mode = minimize(falls, np.zeros(length), jac=True, method="BFGS").x
    steps = NEAR * np.eye(length)
    curved = np.array([falls(mode + step)[1] - falls(mode - step)[1] for step in steps]) / (2 * NEAR)
    values, vectors = np.linalg.eigh((curved + curved.T) / 2)
    # Where the density is flat or bends upwards the prior is as wide as the posterior can be.
    flattest = 1 / max(float(problem.deviation), 1.0) ** 2
    return mode, (vectors / np.maximum(values, flattest)) @ vectors.T


@_compiled
def _warm_up(problem: _Problem, keys: jax.Array, starts: jax.Array, metric: jax.Array) -> tuple[Any, Any]:
    """States and tuned parameters of chains, each with a first axis of chains."""

    def one(given: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            lambda position: _log_density(position, problem),
            is_mass_matrix_diagonal=False,
            initial_inverse_mass_matrix=metric,
            initial_step_size=FIRST_STEP,
            target_acceptance_rate=ACCEPTANCE,
            max_num_doublings=DOUBLINGS,
        )
        (state, tuned), _ = adaptation.run(*given, WARM_UP)
        return state, {name: tuned[name] for name in ("step_size", "inverse_mass_matrix")}

    # One after the other: side by side, all would wait for the longest path of any.
    found: tuple[Any, Any] = jax.lax.map(one, (keys, starts))
    return found


@_compiled
def _walk(problem: _Problem, keys: jax.Array, states: Any, tuned: Any) -> tuple[Any, jax.Array]:
    """STEPS of every chain: states, and positions of shape (chains, steps, size of a position)."""

    def one(given: tuple[jax.Array, Any, Any]) -> tuple[Any, jax.Array]:
        key, state, own = given
        kernel = blackjax.nuts(lambda position: _log_density(position, problem), **own, max_num_doublings=DOUBLINGS)

        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            state, _ = kernel.step(key, state)
            return state, state.position

        walked: tuple[Any, jax.Array] = jax.lax.scan(step, state, jax.random.split(key, STEPS))
        return walked

    found: tuple[Any, jax.Array] = jax.lax.map(one, (keys, states, tuned))
    return found


def _mixed(problem: _Problem, draws: int, rng: np.random.Generator) -> tuple[Floats, Mixing]:
    """Positions of the first round in which the chains agree, of all chains in turn, and their mixing."""
    steps, size = problem.at.shape
    length = size + steps + (problem.count is not None)
    mode, covariance = _normal(problem, length)
    starts = mode + rng.standard_normal((CHAINS, length)) @ np.linalg.cholesky(covariance).T
    keys = jax.random.key(int(rng.integers(2**63)))
    keys, own = jax.random.split(keys)
    states, tuned = _warm_up(problem, jax.random.split(own, CHAINS), jnp.asarray(starts), jnp.asarray(covariance))
    done, parts = WARM_UP, max(1, math.ceil(draws / (CHAINS * STEPS)))
    for _ in range(ROUNDS):
        # Every round is twice as long as the last one, and alone is kept: all before it has been warm-up.
        walked = []
        for _ in range(parts):
            keys, own = jax.random.split(keys)
            states, positions = _walk(problem, jax.random.split(own, CHAINS), states, tuned)
            walked.append(np.asarray(positions))
        done += parts * STEPS
        chains = np.concatenate(walked, axis=1)
        mixing = _mixing(chains, size, steps, done)
        if mixing.effective >= ENOUGH and mixing.r_hat <= AGREED:
            return np.swapaxes(chains, 0, 1).reshape(-1, length), mixing
        parts *= 2
    raise InputError(
        f"the chains of the logistic posterior have not mixed after {done:,} steps: {mixing.worst} is worth "
        f"{mixing.effective:.0f} independent draws of {ENOUGH}, R-hat is {mixing.r_hat:.3f} (at most {AGREED}); give "
        "a smaller prior_deviation, or read the release's weights without a posterior"
    )


def _mixing(chains: Floats, size: int, steps: int, done: int) -> Mixing:
    """How well chains have mixed, in the worst of the weights and the number of records."""
    judged = np.moveaxis(chains, 2, 0)
    judged = np.concatenate([judged[:size], judged[size + steps :]])
    sizes, ratios = effective_size(judged), r_hat(judged)
    worst = int(np.argmin(sizes))
    name = f"weight {worst}" if worst < size else "the number of records"
    return Mixing(len(chains), done, float(sizes[worst]), name, float(ratios.max()))
