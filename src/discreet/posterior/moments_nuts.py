r"""The model of `moments` by NUTS, for releases whose noise leaves hardly any proposal positive definite.

All sums are written as functions of unconstrained numbers, so that every state is a possible one. With K the features'
correlation matrix, q their mean squares, t their means over sqrt(q), C = K scaled by the standard deviations and L the
Cholesky factor of A:

    b = A theta + s L xi,    c = b' A^-1 b + s2 chi2_{n - d},    xi ~ N(0, I),

K by its canonical partial correlations, which are independent if K is uniform (Lewandowski, Kurowicka and Joe 2009),
the chi-squared variate and an unknown number of records by their logarithms.

The density of the noise, `exp(-||r||_inf / scale)`, has a gradient in one coordinate at a time, which NUTS cannot use.
It is replaced by `exp(-||r||_m / scale_m)`, m = `EXPONENT`, with the same variance in each coordinate: a law of the
same kind, with the radius still free, whose cube has round edges. With a normal law intervals come out wider.

This module needs the extra `mcmc` (JAX and BlackJAX); whoever needs it loads it then.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from blackjax.diagnostics import effective_sample_size
from jax.scipy.special import gammaln

from discreet.posterior.moments import upper

__all__ = ["chain_draws"]

Floats = npt.NDArray[np.float64]

EXPONENT = 4
"""m of the norm that stands for the largest absolute value."""
CHAINS = 2
"""Run side by side."""
ADAPTING = 500
"""Steps of each chain that adapt the sampler and are dropped."""
LEAST_STEPS = 500
"""Kept steps of each chain at the least."""
DOUBLINGS = 8
"""A trajectory has at most 2^8 - 1 steps."""


class _Layout(NamedTuple):
    """What shapes the compiled function: features p, whether there is a constant, n or None."""

    features: int
    intercept: bool
    records: int | None


class _Public(NamedTuple):
    """What was published, the noise's scale as matched, the prior's deviation of theta, least log deviation."""

    values: Any
    scale: Any
    prior_deviation: Any
    lowest: Any


class _State(NamedTuple):
    """Unconstrained parameters; `means` is empty without a constant, `size` where n is public."""

    correlations: Any
    squares: Any
    means: Any
    theta: Any
    deviation: Any
    cross: Any
    rest: Any
    size: Any


def chain_draws(
    values: Floats,
    *,
    features: int,
    intercept: bool,
    scale: float,
    records: int | None,
    prior_deviation: float,
    smallest: float,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, float]:
    """Draws of coefficients and residual variance from chains that start apart from each other.

    Args:
        values, features, intercept, scale, records, prior_deviation, draws, rng: as for `moments.moment_draws`.
        smallest: least standard deviation of the residual.

    Returns:
        Coefficients, shape `(draws, d)`; residual variances, shape `(draws,)`; effective number of draws of the
        coefficient that is worst off.

    Raises:
        Nothing.

    Source:
        Hoffman and Gelman (2014) for NUTS; see the module for the model.
    """
    layout = _Layout(features, intercept, records)
    steps = max(LEAST_STEPS, math.ceil(draws / CHAINS))
    with jax.enable_x64(True):
        public = _Public(
            jnp.asarray(values),
            jnp.asarray(_matched_scale(values.size, scale)),
            jnp.asarray(prior_deviation),
            jnp.asarray(math.log(smallest)),
        )
        starts = _starts(layout, rng)
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), CHAINS)
        theta, log_deviation = _chains(keys, starts, public, layout, steps)
        weights, deviation = np.asarray(theta), np.exp(np.asarray(log_deviation))
        effective = float(np.min(np.asarray(effective_sample_size(theta))))
    # Every draw of a chain is as good as any other: a random choice keeps all of its length.
    which = rng.permutation(CHAINS * steps)[:draws]
    return weights.reshape(-1, weights.shape[-1])[which], deviation.reshape(-1)[which] ** 2, effective


def _matched_scale(size: int, scale: float) -> float:
    """Scale of `exp(-||r||_m / .)` that gives coordinates the variance `scale^2 (D + 1)(D + 2) / 3` of the cube's law.

    There `||r||_m` is Gamma(D) and the direction's coordinates have E u^2 = E g^2 / E ||g||_m^2 for g of density
    `exp(-|g|^m)`.
    """
    m = EXPONENT
    log_square = math.lgamma(3 / m) - math.lgamma(1 / m) - math.lgamma((size + 2) / m) + math.lgamma(size / m)
    return scale * math.sqrt((size + 2) / (3 * size) * math.exp(-log_square))


def _starts(layout: _Layout, rng: np.random.Generator) -> _State:
    """Starting points of all chains, spread near the middle of the prior."""
    p, width = layout.features, layout.features + layout.intercept
    shapes = (p * (p - 1) // 2, p, p * layout.intercept, width, 1, width, 1, int(layout.records is None))
    return _State(*(jnp.asarray(rng.normal(0, 0.3, (CHAINS, size))) for size in shapes))


@partial(jax.jit, static_argnames=("layout", "steps"))
def _chains(keys: Any, starts: _State, public: _Public, layout: _Layout, steps: int) -> tuple[Any, Any]:
    """Coefficients, shape (chains, steps, d), and log deviations of the residual, shape (chains, steps)."""
    log_density = partial(_log_density, public=public, layout=layout)

    def one(key: Any, start: _State) -> tuple[Any, Any]:
        adapting, sampling = jax.random.split(key)
        adapted, _ = blackjax.window_adaptation(blackjax.nuts, log_density, max_num_doublings=DOUBLINGS).run(
            adapting, start, ADAPTING
        )
        kernel = blackjax.nuts(log_density, **adapted.parameters).step

        def step(state: Any, key: Any) -> Any:
            state, _ = kernel(key, state)
            position = state.position
            return state, (position.theta * public.prior_deviation, _log_deviation(position, public.lowest))

        _, kept = jax.lax.scan(step, adapted.state, jax.random.split(sampling, steps))
        return kept[0], kept[1]

    theta, log_deviation = jax.vmap(one)(keys, starts)
    return theta, log_deviation


def _log_deviation(state: _State, lowest: Any) -> Any:
    """Logarithm of the residual's standard deviation, between `lowest` and 0."""
    return lowest * jax.nn.sigmoid(state.deviation[0])


def _log_density(state: _State, public: _Public, layout: _Layout) -> Any:
    """Log density of a state, apart from a constant."""
    d = layout.features + layout.intercept
    records, log_prior = _records(state, public, layout)
    root, log_features = _features(state, layout)
    deviation = jnp.exp(_log_deviation(state, public.lowest))
    log_prior += log_features + _log_logistic(state.deviation)
    log_prior -= (jnp.sum(state.theta**2) + jnp.sum(state.cross**2)) / 2
    # rest: the logarithm of a chi-squared variate, in standard deviations about that of its mean.
    free = records - d
    log_square = jnp.log(free) + jnp.sqrt(2 / free) * state.rest[0]
    log_prior += (free * (log_square - math.log(2)) - jnp.exp(log_square) - jnp.log(free)) / 2 - gammaln(free / 2)

    root = jnp.sqrt(records) * root
    whitened = root.T @ (public.prior_deviation * state.theta) + deviation * state.cross
    square = whitened @ whitened + deviation**2 * jnp.exp(log_square)
    gram, cross = root @ root.T, root @ whitened
    matrix = jnp.block([[gram, cross[:, None]], [cross[None], square[None, None]]])
    rows, columns = upper(layout.features, layout.intercept)
    sums = jnp.where(rows == columns, 2 * matrix[rows, columns] - records, matrix[rows, columns])
    if layout.records is None:
        sums = jnp.concatenate([records[None], sums])
    return log_prior - _norm(public.values - sums) / public.scale


def _records(state: _State, public: _Public, layout: _Layout) -> tuple[Any, Any]:
    """Number of records, and its log prior: uniform, above the number of coefficients, in the unit of its logarithm."""
    if layout.records is not None:
        return jnp.asarray(float(layout.records)), 0.0
    d = layout.features + layout.intercept
    measured = jnp.maximum(public.values[0] - d, 1.0)
    unit = jnp.minimum(1.0, len(public.values) * public.scale / measured)
    excess = jnp.log(measured) + unit * state.size[0]
    return d + jnp.exp(excess), excess


def _features(state: _State, layout: _Layout) -> tuple[Any, Any]:
    """A square root of A / n, shape (d, d), and the log prior of what it is made of."""
    p = layout.features
    squares = jax.nn.sigmoid(state.squares)
    factor, log_prior = _correlated(state.correlations, p)
    log_prior += _log_logistic(state.squares)
    if not layout.intercept:
        return jnp.sqrt(squares)[:, None] * factor, log_prior
    share = jnp.tanh(state.means)
    # From means and variances to mean squares and shares the Jacobian is the root of the mean square.
    log_prior += jnp.sum(jnp.log(squares) / 2 + jnp.log1p(-(share**2)))
    spread = jnp.sqrt(squares * (1 - share**2))
    root = jnp.zeros((p + 1, p + 1)).at[:p, :p].set(spread[:, None] * factor)
    return root.at[:p, p].set(share * jnp.sqrt(squares)).at[p, p].set(1.0), log_prior


def _correlated(free: Any, features: int) -> tuple[Any, Any]:
    """Cholesky factor of a correlation matrix from unbounded numbers, and the log density if all are equally likely."""
    rows, columns = np.tril_indices(features, -1)
    partial_correlation = jnp.tanh(free)
    left = 1 - partial_correlation**2
    log_density = jnp.sum((1 + (features - 2 - columns) / 2) * jnp.log(left))
    table = jnp.eye(features).at[rows, columns].set(partial_correlation)
    remaining = jnp.ones((features, features)).at[rows, columns].set(left)
    before = jnp.cumprod(remaining, axis=1) / remaining
    return table * jnp.sqrt(before), log_density


def _log_logistic(free: Any) -> Any:
    """Log density of numbers of which the sigmoids are uniform."""
    return jnp.sum(jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free))


def _norm(noise: Any) -> Any:
    """The norm with exponent `EXPONENT`, of numbers divided by the largest."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(noise)))
    return largest * jnp.sum((noise / largest) ** EXPONENT) ** (1 / EXPONENT)
