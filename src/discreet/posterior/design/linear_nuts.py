r"""The model of noisy moments by NUTS, for releases whose noise leaves hardly any proposal positive definite.

All sums are written as functions of unconstrained numbers, so that every state is a possible one, and of numbers about
what was measured, so that features which fill a small part of their bounds are no special case. With t the features'
means (0 without a constant), G a square matrix of size p, v_i the sums of squares of its rows, A / n = R R' and
Q Q' = s2 I + deviation^2 n R'R:

    R = [[t, C^1/2], [1, 0]],    C^1/2 = diag(sqrt((1 - t_i^2) / (1 + v_i))) G,
    b = sqrt(n) R Q xi,    c = |Q xi|^2 + s2 chi2_{n - d},    xi ~ N(0, I):

theta is integrated out, and drawn given (A, b, s2) for each kept state. G = G0 T, where G0 is a root of what the noisy
sums say, its eigenvalues raised to the size of the noise, and T is lower triangular with a positive diagonal. Means
and variances are uniform within the bounds, and so are correlations, if G G' has the density
`prod_i v_i^-((p-1)/2) (1 + v_i)^-2` and t that of `prod_i (1 - t_i^2)`. The chi-squared variate and an unknown number
of records are there by their logarithms.

Chains move in coordinates in which the normal approximation at G0 (the noise's and the prior's precision added, by
Gauss and Newton) is round.

The density of the noise, `exp(-||r||_inf / scale)`, has a gradient in one coordinate at a time, which NUTS cannot use.
It is replaced by `exp(-||r||_m / scale_m)`, m = `NORM_EXPONENT`, with the same variance in each coordinate: a law of
the same kind, with the radius still free, whose cube has round edges. With a normal law intervals come out wider.

This module needs the extra `mcmc` (JAX and BlackJAX); whoever needs it loads it then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln

from discreet.model.arrays import Floats
from discreet.posterior.design.linear import Layout, unpack
from discreet.posterior.diagnostics import has_mixed, measure_mixing
from discreet.posterior.joint_draws import Mixing

__all__ = ["chain_draws"]

Function = TypeVar("Function", bound=Callable[..., Any])

NORM_EXPONENT = 4
"""m of the norm that stands for the largest absolute value."""
NUTS_CHAINS = 4
NUTS_WARM_UP = 300
"""Steps of each chain that adapt the sampler and are dropped."""
NUTS_STEPS = 200
"""Of a chain at a time."""
LEAST_FIRST_BATCHES = 2
"""Times `NUTS_STEPS` of a chain in the first round, at the least."""
NUTS_ROUNDS = 4
"""Each twice as long as the last one."""
MOST_DOUBLINGS = 7
"""Most of them in one step of NUTS, so at most 127 gradients."""
TARGET_ACCEPTANCE = 0.8
"""That warm-up aims at."""
MOST_VARIANCE_SHARE = 0.9
"""Share of what its bounds allow that a feature's variance starts from at the most."""


class _Public(NamedTuple):
    """What was published, and what is worked out from it before the chains start.

    Args:
        values: shape (entries,).
        scale: of the noise, as matched.
        deviation: of the prior of theta.
        residual: what the noise hides of the residual's variance; the least `_scale_excess`, and the range of it.
        measured: logarithm of n - d as measured, and the unit of its coordinate.
        root: G0, shape (p, p).
        centre: the numbers of `_State` at which the coordinates are 0, flat.
        axes: deviations of the normal approximation there, shape (numbers, numbers).
    """

    values: Any
    scale: Any
    deviation: Any
    residual: Any
    measured: Any
    root: Any
    centre: Any
    axes: Any


class _State(NamedTuple):
    """Unconstrained numbers; `means` is empty without a constant, `size` where n is public."""

    diagonal: Any
    below: Any
    means: Any
    cross: Any
    residual: Any
    rest: Any
    size: Any


class _Sums(NamedTuple):
    """n, R, Q, xi, the residual's variance, and the sums as they are published."""

    records: Any
    root: Any
    spread: Any
    cross: Any
    variance: Any
    published: Any


def chain_draws(
    values: Floats,
    layout: Layout,
    *,
    scale: float,
    prior_deviation: float,
    smallest: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Mixing]:
    """Draws of coefficients and residual variance from chains that start apart from each other, and how they mixed.

    Args:
        values, layout, scale, prior_deviation, draws, rng: as for `linear.moment_draws`.
        smallest: least standard deviation of the residual.

    Returns:
        Coefficients, shape `(draws, d)`; residual variances, shape `(draws,)`; how well the chains have mixed: in
        rounds until every coefficient's R-hat and the variance's is at most 1.01 and the worst is worth 400 independent
        draws, or as far as the last round came.

    Source:
        Hoffman and Gelman (2014) for NUTS; see the module for the model.
    """
    with jax.enable_x64(True):
        public = _prepare_chains(values, scale, prior_deviation, smallest, layout)
        found, mixing = _run_chains(public, layout, draws, rng)
    # Every draw of a chain is as good as any other: a random choice keeps all of its length.
    kept = found[rng.permutation(len(found))[:draws]]
    return kept[:, :-1], np.exp(kept[:, -1]), mixing


# ------------------------------------------------------------------------------------------------ what was measured


def _prepare_chains(values: Floats, scale: float, deviation: float, smallest: float, layout: Layout) -> _Public:
    """Find where the chains start, and the coordinates that they move in."""
    p, d = layout.features, layout.coefficients
    noise = scale * math.sqrt((values.size + 1) * (values.size + 2) / 3)
    sums = unpack(values, layout)
    records = max(float(sums.records), d + 1.0)
    means = np.zeros(p)
    if layout.intercept:
        means = np.clip(sums.gram[:p, p] / records, -MOST_VARIANCE_SHARE, MOST_VARIANCE_SHARE)
    scatter = sums.gram[:p, :p] / records - np.outer(means, means)
    root = _find_root(scatter, noise / records, 1 - means**2)
    hidden = noise / records
    lowest = _invert_softplus(smallest**2 / hidden)
    public = _Public(
        values,
        _match_scale(values.size, scale),
        deviation,
        (hidden, lowest, _invert_softplus(1 / hidden) - lowest),
        (math.log(records - d), min(1.0, noise / (records - d))),
        root,
        0.0,
        0.0,
    )
    state = _State(
        np.zeros(p),
        np.zeros(p * (p - 1) // 2),
        np.arctanh(means)[: p * layout.intercept],
        np.zeros(d),
        np.zeros(1),
        np.zeros(1),
        np.zeros(int(layout.records is None)),
    )
    state = _add_target(state, public, layout, sums.cross, float(sums.square), noise)
    centre, back = ravel_pytree(jax.tree.map(jnp.asarray, state))
    jacobian = np.array(jax.jacfwd(lambda at: _compute_sums(back(at), public, layout).published)(centre))
    # All numbers have deviations of about 1 a priori, but the residual's, which is linear where it is clear of noise.
    prior = np.ones(centre.size)
    prior[centre.size - 2 - int(layout.records is None)] = 1 / max(1.0, float(state.residual[0])) ** 2
    precision = jacobian.T @ jacobian / noise**2 + np.diag(prior)
    axes = np.linalg.inv(np.linalg.cholesky(precision)).T
    prepared: _Public = jax.tree.map(jnp.asarray, public._replace(centre=centre, axes=axes))
    return prepared


def _add_target(state: _State, public: _Public, layout: Layout, cross: Floats, square: float, noise: float) -> _State:
    """A state whose coefficients and residual are what the noisy sums of the target say."""
    at = _compute_sums(state, public, layout)
    whitened = np.linalg.solve(np.asarray(at.root), cross) / math.sqrt(float(at.records))
    # Noise can push the explained share above 1: all cross moments are shrunk until it is MOST_VARIANCE_SHARE.
    square = max(square, noise)
    whitened *= min(1.0, math.sqrt(MOST_VARIANCE_SHARE * square / max(float(whitened @ whitened), 1e-300)))
    left = (square - float(whitened @ whitened)) / float(at.records)
    hidden, lowest, span = public.residual
    margin = min(1.0, span / 4)
    excess = np.clip(_invert_softplus(left / hidden) - lowest, margin, span - margin)
    state = state._replace(residual=np.array([_invert_softplus(float(excess))]))
    scores = np.linalg.solve(np.asarray(_compute_sums(state, public, layout).spread), whitened)
    return state._replace(
        cross=scores * min(1.0, 2 * math.sqrt(len(scores)) / max(float(np.linalg.norm(scores)), 1e-300))
    )


def _invert_softplus(number: float) -> float:
    """The number whose softplus, log(1 + exp(.)), this one is."""
    return number + math.log(-math.expm1(-number))


def _find_root(scatter: Floats, noise: float, allowed: Floats) -> Floats:
    """G0, shape (p, p): the scatter of one record with eigenvalues of the noise's size at the least, as G has it."""
    floor = min(noise, 0.3)
    values, axes = np.linalg.eigh(scatter)
    raised = (axes * np.maximum(values, floor)) @ axes.T
    variance = np.diag(raised)
    target = np.minimum(variance, MOST_VARIANCE_SHARE * allowed)
    stretch = np.sqrt(target / variance / (allowed - target))
    values, axes = np.linalg.eigh(raised * np.outer(stretch, stretch))
    return np.asarray((axes * np.sqrt(values))[:, ::-1])


def _match_scale(size: int, scale: float) -> float:
    """Scale of `exp(-||r||_m / .)` that gives coordinates the variance `scale^2 (D + 1)(D + 2) / 3` of the cube's law.

    There `||r||_m` is Gamma(D) and the direction's coordinates have E u^2 = E g^2 / E ||g||_m^2 for g of density
    `exp(-|g|^m)`.
    """
    m = NORM_EXPONENT
    log_square = math.lgamma(3 / m) - math.lgamma(1 / m) - math.lgamma((size + 2) / m) + math.lgamma(size / m)
    return scale * math.sqrt((size + 2) / (3 * size) * math.exp(-log_square))


# ------------------------------------------------------------------------------------------------ the density


def _locate_state(position: Any, public: _Public, layout: Layout) -> _State:
    """Unconstrained numbers of a position, which is in deviations of the normal approximation."""
    p, d = layout.features, layout.coefficients
    flat = public.centre + public.axes @ position
    lengths = (p, p * (p - 1) // 2, p * layout.intercept, d, 1, 1, int(layout.records is None))
    return _State(*jnp.split(flat, np.cumsum(lengths)[:-1]))


def _log_density(position: Any, public: _Public, layout: Layout) -> Any:
    """Log density of a position, apart from a constant."""
    state = _locate_state(position, public, layout)
    sums = _compute_sums(state, public, layout)
    log_prior = _log_features(state, public, layout) - jnp.sum(state.cross**2) / 2 + _log_residual(state, public)
    free = sums.records - layout.coefficients
    log_square = _log_square(free, state)
    log_prior += (free * (log_square - math.log(2)) - jnp.exp(log_square) - jnp.log(free)) / 2 - gammaln(free / 2)
    if layout.records is None:
        log_prior += jnp.log(free)
    return log_prior - _smooth_norm(public.values - sums.published) / public.scale


def _compute_sums(state: _State, public: _Public, layout: Layout) -> _Sums:
    """The sums of a state."""
    d = layout.coefficients
    records = _count_records(state, public, layout)
    root = _compute_root(state, public, layout)
    variance = _residual_variance(state, public)
    prior = public.deviation**2 * records
    spread = jnp.linalg.cholesky(variance * jnp.eye(d) + prior * root.T @ root)
    whitened = spread @ state.cross
    square = whitened @ whitened + variance * jnp.exp(_log_square(records - d, state))
    gram, cross = records * root @ root.T, jnp.sqrt(records) * root @ whitened
    matrix = jnp.block([[gram, cross[:, None]], [cross[None], square[None, None]]])
    rows, columns = layout.upper
    published = jnp.where(rows == columns, 2 * matrix[rows, columns] - records, matrix[rows, columns])
    if layout.records is None:
        published = jnp.concatenate([records[None], published])
    return _Sums(records, root, spread, state.cross, variance, published)


def _count_records(state: _State, public: _Public, layout: Layout) -> Any:
    """Number of records: as published, or above the number of coefficients by its exponential."""
    if layout.records is not None:
        return jnp.asarray(float(layout.records))
    middle, unit = public.measured
    return layout.coefficients + jnp.exp(middle + unit * state.size[0])


def _log_square(free: Any, state: _State) -> Any:
    """Logarithm of a chi-squared variate, which `rest` counts in standard deviations about that of its mean."""
    return jnp.log(free) + jnp.sqrt(2 / free) * state.rest[0]


def _scale_excess(state: _State, public: _Public) -> Any:
    """The residual's variance on a scale that is logarithmic where noise hides it, and linear above.

    A softplus holds it above its least value, another one below its largest.
    """
    _, lowest, span = public.residual
    return lowest + jax.nn.softplus(state.residual[0]) - jax.nn.softplus(state.residual[0] - span)


def _residual_variance(state: _State, public: _Public) -> Any:
    """Variance s2 of the residual in this state, a scalar."""
    return public.residual[0] * jax.nn.softplus(_scale_excess(state, public))


def _log_residual(state: _State, public: _Public) -> Any:
    """Log density of `residual`: the logarithm of the residual's variance is uniform."""
    free, excess = state.residual[0], _scale_excess(state, public)
    inner = jax.nn.log_sigmoid(excess) - jnp.log(jax.nn.softplus(excess))
    return inner + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(public.residual[2] - free)


def _compute_factor(state: _State, public: _Public, layout: Layout) -> Any:
    """G, shape (p, p)."""
    below = jnp.zeros((layout.features, layout.features)).at[np.tril_indices(layout.features, -1)].set(state.below)
    return public.root @ (below + jnp.diag(jnp.exp(state.diagonal)))


def _compute_root(state: _State, public: _Public, layout: Layout) -> Any:
    """R, shape (d, d)."""
    p = layout.features
    factor = _compute_factor(state, public, layout)
    size = 1 + jnp.sum(factor**2, axis=1)
    if not layout.intercept:
        return factor / jnp.sqrt(size)[:, None]
    # 1 - tanh^2, without its rounding.
    factor = factor / (jnp.sqrt(size) * jnp.cosh(state.means))[:, None]
    root = jnp.zeros((p + 1, p + 1)).at[:p, 1:].set(factor)
    return root.at[:p, 0].set(jnp.tanh(state.means)).at[p, 0].set(1.0)


def _log_features(state: _State, public: _Public, layout: Layout) -> Any:
    """Log density of `diagonal`, `below` and `means`: the Jacobian of T T', then the density of G G', then means."""
    p = layout.features
    squares = jnp.sum(_compute_factor(state, public, layout) ** 2, axis=1)
    log_density = jnp.sum(jnp.arange(p + 1, 1, -1) * state.diagonal)
    log_density -= jnp.sum((p - 1) / 2 * jnp.log(squares) + 2 * jnp.log1p(squares))
    # The mean's own Jacobian is 1 - t^2 once more.
    return log_density - 4 * jnp.sum(jnp.logaddexp(state.means, -state.means))


def _smooth_norm(noise: Any) -> Any:
    """The norm with exponent `NORM_EXPONENT`, of numbers divided by the largest."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(noise)))
    return largest * jnp.sum((noise / largest) ** NORM_EXPONENT) ** (1 / NORM_EXPONENT)


def _draw_coefficients(key: Any, position: Any, public: _Public, layout: Layout) -> Any:
    """Coefficients given everything else, then the logarithm of the residual's variance, shape (d + 1,)."""
    state = _locate_state(position, public, layout)
    sums = _compute_sums(state, public, layout)
    root = jnp.sqrt(sums.records) * sums.root
    mean = public.deviation**2 * root @ solve_triangular(sums.spread, sums.cross, lower=True, trans=1)
    width = len(mean)
    precision = public.deviation**2 * root @ root.T + sums.variance * jnp.eye(width)
    scores = solve_triangular(jnp.linalg.cholesky(precision), jax.random.normal(key, (width,)), lower=True, trans=1)
    theta = mean + jnp.sqrt(sums.variance) * public.deviation * scores
    return jnp.append(theta, jnp.log(sums.variance))


# ------------------------------------------------------------------------------------------------ chains


def _compile(function: Function) -> Function:
    """`jax.jit`, which says no types."""
    found: Function = jax.jit(function, static_argnames=("layout",))
    return found


@_compile
def _warm_up(public: _Public, keys: Any, starts: Any, layout: Layout) -> tuple[Any, Any]:
    """States and tuned parameters of chains, each with a first axis of chains."""

    def one(given: Any) -> tuple[Any, Any]:
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            partial(_log_density, public=public, layout=layout),
            target_acceptance_rate=TARGET_ACCEPTANCE,
            max_num_doublings=MOST_DOUBLINGS,
        )
        (state, tuned), _ = adaptation.run(*given, NUTS_WARM_UP)
        return state, {name: tuned[name] for name in ("step_size", "inverse_mass_matrix")}

    # One after the other: side by side, all would wait for the longest path of any.
    found: tuple[Any, Any] = jax.lax.map(one, (keys, starts))
    return found


@_compile
def _walk(public: _Public, keys: Any, states: Any, tuned: Any, layout: Layout) -> tuple[Any, Any]:
    """NUTS_STEPS of every chain: states, and what `_draw_coefficients` gives at each, shape (chains, steps, d + 1)."""

    def one(given: Any) -> tuple[Any, Any]:
        key, state, own = given
        kernel = blackjax.nuts(
            partial(_log_density, public=public, layout=layout), **own, max_num_doublings=MOST_DOUBLINGS
        )

        def step(state: Any, key: Any) -> tuple[Any, Any]:
            moving, drawing = jax.random.split(key)
            state, _ = kernel.step(moving, state)
            return state, _draw_coefficients(drawing, state.position, public, layout)

        walked: tuple[Any, Any] = jax.lax.scan(step, state, jax.random.split(key, NUTS_STEPS))
        return walked

    found: tuple[Any, Any] = jax.lax.map(one, (keys, states, tuned))
    return found


def _run_chains(public: _Public, layout: Layout, draws: int, rng: np.random.Generator) -> tuple[Floats, Mixing]:
    """Draws of the first round in which the chains agree, else of the last, shape (all, d + 1), and their mixing."""
    starts = jnp.asarray(rng.standard_normal((NUTS_CHAINS, public.centre.size)))
    keys, own = jax.random.split(jax.random.key(int(rng.integers(2**63))))
    states, tuned = _warm_up(public, jax.random.split(own, NUTS_CHAINS), starts, layout=layout)
    done, parts = NUTS_WARM_UP, max(LEAST_FIRST_BATCHES, math.ceil(draws / (NUTS_CHAINS * NUTS_STEPS)))
    for _ in range(NUTS_ROUNDS):
        # Every round is twice as long as the last one, and alone is kept: all before it has been warm-up.
        walked = []
        for _ in range(parts):
            keys, own = jax.random.split(keys)
            states, drawn = _walk(public, jax.random.split(own, NUTS_CHAINS), states, tuned, layout=layout)
            walked.append(np.asarray(drawn))
        done += parts * NUTS_STEPS
        chains = np.concatenate(walked, axis=1)
        mixing = _measure_mixing(chains, done)
        if has_mixed(mixing):
            break
        parts *= 2
    return chains.reshape(-1, chains.shape[-1]), mixing


def _measure_mixing(chains: Floats, done: int) -> Mixing:
    """How well chains have mixed, in the worst of the coefficients and the residual's variance."""
    last = chains.shape[-1] - 1

    def name(worst: int) -> str:
        return f"weight {worst}" if worst < last else "the residual's variance"

    return measure_mixing(np.moveaxis(chains, 2, 0), name, done)
