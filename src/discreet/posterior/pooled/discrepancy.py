r"""Sizes of interactions that a network leaves out, learned from audited pairs.

No table holds a pair, and a posterior says something of it by its network alone; or the pairs of three variables are
known and their triple is not. Of all laws with the same parts proportional fitting finds the one without an interaction
of the whole; the true one has one, delta in contrasts. Model, for every pair P and every triple T alike,

    delta_P  ~  Normal(0, t_P^2 D_P),      t_P    ~  w, weights of a grid of sizes from 0 to .32,
    delta_T  ~  Normal(0, tau_T^2 D_T),    tau_T  ~  sum_t w(t) LogNormal(log t^2, 1), on the same grid,

D the tensor product of the variables' `diag(p) - p p'`, in contrasts: t and tau are partial correlations, whatever the
numbers of states. What pairs have beyond the network is learned from those that were audited
(`mechanisms/planned.py`), and never from pairs inside the tables of a plan, which somebody chose for other reasons: w
has a Dirichlet prior that is worth one pair and is fitted by the EM algorithm to

    r_P = y_P - n phi(network)  ~  Normal(0, g_P I + n Cov(phi) + n^2 t^2 D_P).

Without an audit w is that prior: half of it at no interaction, as where a drawing is right, half as pairs of real
tables are where no arc was drawn. Audited pairs that were chosen by their misfit count like those taken at random.

Triples that tables hold teach nothing of those outside, as somebody drew them because they interact. What a triple has
beyond its pairs comes from whatever made these depend: with a hidden variable whose effect on each is of the order e,
pairs have e^2; a triple has e^3 where that variable is skewed (a class), and e^4 or less where it is not (a normal
factor, in bins). So of a pair's size t a triple has about t^2. Over all triples of ten columns of ADULT, and over those
of child that have any interaction, log tau - log t^2 has mean 0.0 and deviation 1.0; with a hidden class of four .8 and
.6 (t^2 the mean over the three pairs).

Source: Dempster, Laird and Rubin (1977); mixtures of normal laws of different scale as shrinkage: Stephens (2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from discreet.inference.interactions import interaction_contrasts
from discreet.model.schema import Scope
from discreet.posterior.pooled.least_squares import Margins
from discreet.util.arrays import Floats

INTERACTION_SIZES = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Sizes of an interaction: partial correlations."""
PAIR_PRIOR = (0.505, 0.035, 0.065, 0.11, 0.13, 0.11, 0.045)
"""Weights of these for pairs that no table holds, before any was audited. Half: none, as where the network is right.
Half: partial correlations of all pairs without an arc in five real tables of more than 5,000 records."""
TRIPLE_SPREAD = 1.0
"""Standard deviation of the logarithm of a triple's size around the square of a pair's."""
PRIOR_WORTH_PAIRS = 1.0
"""Prior sample size, in pairs. With 2, intervals of triples of right networks were up to half as long again; set on
ADULT, asia, sachs, child and made-up networks, confirmed on six other tables."""
EM_STEPS = 50
"""Steps of the EM algorithm, which converges earlier with so few components."""
MOST_LEARNED_CONTRASTS = 128
"""Largest number of contrasts of a pair that sizes are learned from."""


def pair_weights(margins: Margins, laws: Mapping[Scope, Floats]) -> Floats:
    """Learn weights of the sizes of unmeasured pairs' interactions beyond the posterior's.

    Args:
        margins: with the interactions of some pairs that were measured all the same, and of their variables.
        laws: of these pairs, from the tables of a first stage alone, shape `(*sizes, draws)`.

    Returns:
        Shape (sizes,), sum 1; the prior's where there is none.
    """
    learnable = {pair: law for pair, law in laws.items() if _is_learnable(margins, pair)}
    return _learn_weights(np.array(PAIR_PRIOR), np.array(list(compare_sizes(margins, learnable))))


def triple_weights(pairs: Floats) -> Floats:
    """Derive weights of the sizes of unmeasured triples' interactions beyond their pairs.

    Args:
        pairs: weights of what pairs have beyond the network, shape (sizes,).

    Returns:
        Same shape, sum 1.

    Example:
        >>> triple_weights(np.array([0, 0, 0, 0, 0, 1.0, 0])).round(2).tolist()  # around .16^2 = .0256
        [0.05, 0.25, 0.27, 0.24, 0.14, 0.05, 0.01]
    """
    sizes = np.array(INTERACTION_SIZES)
    ends = np.log((sizes[1:] + sizes[:-1]) / 2)  # beyond these a size is next to another
    with np.errstate(divide="ignore"):
        below = ndtr((ends - 2 * np.log(sizes[:, None])) / TRIPLE_SPREAD)
    return np.asarray(pairs @ np.diff(below, axis=1, prepend=0.0, append=1.0))


def _is_learnable(margins: Margins, names: Scope) -> bool:
    """True if a set has contrasts, and not too many to be learned from."""
    return 0 < math.prod(margins.network.schema[name].size - 1 for name in names) <= MOST_LEARNED_CONTRASTS


def _learn_weights(prior: Floats, logs: Floats) -> Floats:
    """Learn mixture weights by the EM algorithm from log-likelihoods of interactions under each size."""
    weights = prior
    for _ in range(EM_STEPS if len(logs) else 0):
        shares = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        weights = (PRIOR_WORTH_PAIRS * prior + (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)) / (
            PRIOR_WORTH_PAIRS + len(logs)
        )
    return np.asarray(weights)


def compare_sizes(margins: Margins, laws: Mapping[Scope, Floats]) -> Iterator[Floats]:
    """Compute log-likelihoods of each set's interaction under each size, up to a constant."""
    network, records = margins.network, max(margins.total[0], 1.0)
    for names, drawn in laws.items():
        phi = interaction_contrasts([network.schema[name].size for name in names])
        law = drawn.mean(axis=-1)
        contrasts = phi @ drawn.reshape(law.size, -1)
        mean = contrasts.mean(axis=1)
        misfit = margins.values[names].ravel() - records * mean
        # misfit ~ N(0, noise + sampling + posterior variance of n E[phi] + (n tau)^2 phi D phi').
        noise = margins.variances[names] * np.eye(len(misfit))
        noise += records * ((phi * law.ravel()) @ phi.T - np.outer(mean, mean))
        deviations = records * (contrasts - mean[:, None])
        noise += deviations @ deviations.T / contrasts.shape[1]
        spread = phi @ _independent_covariance(law) @ phi.T
        logs = [_log_density(misfit, noise + (records * tau) ** 2 * spread) for tau in INTERACTION_SIZES]
        yield np.array(logs) - max(logs)


def _independent_covariance(law: Floats) -> Floats:
    """Compute the Kronecker product of `diag(p) - p p'` over the axes, shape (cells, cells)."""
    covariance: Floats = np.ones((1, 1))
    for axis in range(law.ndim):
        single = law.sum(axis=tuple(summed for summed in range(law.ndim) if summed != axis))
        covariance = np.asarray(np.kron(covariance, np.diag(single) - np.outer(single, single)), np.float64)
    return covariance


def _log_density(values: Floats, covariance: Floats) -> float:
    """Compute the log density of a centred normal law, up to a constant."""
    root = np.linalg.cholesky(covariance)
    return float(-np.log(np.diag(root)).sum() - 0.5 * np.sum(np.linalg.solve(root, values) ** 2))


def draw_interaction(
    law: Floats, tau: Floats, rng: np.random.Generator, draws: int, picked: npt.NDArray[np.intp]
) -> Floats:
    """Draw an interaction of all variables of a law, for some draws: normal with covariance `tau^2 D`.

    Args:
        law: shape `(*sizes, picked)`.
        tau: of all draws, shape (draws,).
        rng: source of randomness; the numbers of a draw do not depend on which are picked.
        draws: of the posterior.
        picked: positions of some of them.

    Returns:
        Same shape as the law; sums along every axis of a variable are 0.

    Example:
        >>> law = np.full((2, 2, 1), 0.25)
        >>> delta = draw_interaction(law, np.array([0.1]), np.random.default_rng(0), 1, np.array([0]))
        >>> np.allclose(delta.sum(axis=0), 0) and np.allclose(delta.sum(axis=1), 0)
        True
    """
    axes = range(law.ndim - 1)
    delta = rng.standard_normal((*law.shape[:-1], draws))[..., picked]
    for axis in axes:
        root = np.sqrt(law.sum(axis=tuple(summed for summed in axes if summed != axis), keepdims=True))
        delta = root * (delta - root * (root * delta).sum(axis=axis, keepdims=True))
    return np.asarray(tau[picked] * delta)
