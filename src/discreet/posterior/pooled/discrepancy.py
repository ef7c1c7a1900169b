r"""Sizes of interactions that a network leaves out, learned from measured pairs.

If no table contains a pair, its posterior comes from the network alone; likewise the pairs of three variables may be
known and their triple not. Of all laws with the same parts, proportional fitting finds the one without an interaction
of the whole; the true law has one, delta in contrasts. Model, equally for every pair P and every triple T,

    delta_P  ~  Normal(0, t_P^2 D_P),      t_P    ~  w, weights of a grid of sizes from 0 to .32,
    delta_T  ~  Normal(0, tau_T^2 D_T),    tau_T  ~  sum_t w(t) LogNormal(log t^2, 1), on the same grid,

where D is the tensor product of the variables' `diag(p) - p p'`, in contrasts: t and tau are partial correlations,
whatever the numbers of states. The interactions of pairs beyond the network are learned from measured pairs
(`mechanisms/planned.py`), never from pairs inside the tables of a plan, because a plan chooses tables for other
reasons. The weights w have a Dirichlet prior with a sample size of one pair and are fitted by the EM algorithm to

    r_P = y_P - n phi(network)  ~  Normal(0, g_P I + n Cov(phi) + n^2 t^2 D_P).

Without such pairs w is that prior: half of its weight at no interaction, as for a correct network; half as found for
pairs of real tables without an arc. Of a network that was chosen from the records nobody claims that it is correct:
w is then the second half alone. Pairs that were chosen for their misfit count like those chosen at random.

Triples that tables contain carry no information on the others, because tables were chosen for their interactions. An
interaction of a triple beyond its pairs has the same cause as the dependence of these: with a hidden variable whose
effect on each variable is of order e, pairs have e^2; a triple has e^3 where the hidden variable is skewed (a class),
and e^4 or less where it is not (a normal factor, in bins). So a pair of size t corresponds to a triple of size about
t^2. Over all triples of ten columns of ADULT, and over those of child that have any interaction, log tau - log t^2 has
mean 0.0 and deviation 1.0; with a hidden class of four .8 and .6 (t^2 the mean over the three pairs).

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
"""Grid of the sizes of an interaction, as partial correlations."""
PAIR_PRIOR = (0.505, 0.035, 0.065, 0.11, 0.13, 0.11, 0.045)
"""Weights of these sizes for pairs that no table contains, before any was measured. Half: no interaction, as for a
correct network. Half: partial correlations of all pairs without an arc in five real tables of more than 5,000
records."""
CHOSEN_PRIOR = (0.01, 0.07, 0.13, 0.22, 0.26, 0.22, 0.09)
"""Weights of these sizes if the arcs were chosen from the records: those pairs alone, without the half of a correct
network."""
CHOSEN_GAIN = 2.0
"""Factor of the sizes of such pairs in the joint law, whose fit to the families takes from them what goes through
neighbours that were measured."""
TRIPLE_SPREAD = 1.0
"""Standard deviation of the logarithm of a triple's size around the squared size of a pair."""
PRIOR_WORTH_PAIRS = 1.0
"""Prior sample size, in pairs. With 2, intervals of triples of correct networks were up to 1.5 times as long; set on
ADULT, asia, sachs, child and simulated networks, confirmed on six other tables."""
EM_STEPS = 50
"""Steps of the EM algorithm, which converges earlier with so few components."""
MOST_LEARNED_CONTRASTS = 128
"""Largest number of contrasts of a pair from which sizes are learned."""


def pair_weights(margins: Margins, laws: Mapping[Scope, Floats], *, chosen: bool = False) -> Floats:
    """Learn the weights of the sizes of pairs' interactions beyond the network, by EM from measured pairs.

    Pairs without contrasts (a variable of one state) or with more than MOST_LEARNED_CONTRASTS are ignored. The prior is
    Dirichlet with a sample size of PRIOR_WORTH_PAIRS pairs.

    Args:
        margins: least squares with the interactions of the measured pairs and of their variables.
        laws: network's law of each measured pair given the tables of the first stage alone, shape `(*sizes, draws)`.
        chosen: whether the network's arcs were chosen from the records, and the prior's mean is CHOSEN_PRIOR; else it
            is PAIR_PRIOR.

    Returns:
        Weights of INTERACTION_SIZES after EM_STEPS steps, shape (sizes,), sum 1; the prior if no pair is left.
    """
    learnable = {pair: law for pair, law in laws.items() if _is_learnable(margins, pair)}
    prior = np.array(CHOSEN_PRIOR if chosen else PAIR_PRIOR)
    return _learn_weights(prior, np.array(list(compare_sizes(margins, learnable))))


def triple_weights(pairs: Floats) -> Floats:
    """Derive the weights of the sizes of triples' interactions beyond their pairs.

    `log tau ~ Normal(2 log t, TRIPLE_SPREAD^2)` for a pair size t. Size i of the grid gets the probability that tau is
    between the midpoints to its neighbours, averaged over t with the given weights. Pairs of size 0 give triples of
    size 0 alone.

    Args:
        pairs: weights of the sizes of pairs' interactions beyond the network, shape (sizes,), sum 1.

    Returns:
        Weights of INTERACTION_SIZES, same shape, sum 1.

    Example:
        >>> triple_weights(np.array([0, 0, 0, 0, 0, 1.0, 0])).round(2).tolist()  # around .16^2 = .0256
        [0.05, 0.25, 0.27, 0.24, 0.14, 0.05, 0.01]
    """
    sizes = np.array(INTERACTION_SIZES)
    ends = np.log((sizes[1:] + sizes[:-1]) / 2)  # boundaries between neighbouring sizes, on the log scale
    with np.errstate(divide="ignore"):
        # Normal probability that log tau is below each boundary, given t.
        below = ndtr((ends - 2 * np.log(sizes[:, None])) / TRIPLE_SPREAD)
    return np.asarray(pairs @ np.diff(below, axis=1, prepend=0.0, append=1.0))


def _is_learnable(margins: Margins, names: Scope) -> bool:
    """True if a set has contrasts, and at most MOST_LEARNED_CONTRASTS of them: `prod(size - 1)` is from 1 to 128."""
    return 0 < math.prod(margins.network.schema[name].size - 1 for name in names) <= MOST_LEARNED_CONTRASTS


def _learn_weights(prior: Floats, logs: Floats) -> Floats:
    """Learn mixture weights by EM_STEPS steps of the EM algorithm, starting at the prior.

    A step: `w = (K prior + sum over interactions of P(size | interaction, w)) / (K + interactions)` with `K =
    PRIOR_WORTH_PAIRS`.

    Args:
        prior: prior mean of the weights, shape (sizes,), sum 1.
        logs: log-likelihood of each interaction under each size, up to a constant for each interaction, shape
            (interactions, sizes); may have no interactions.

    Returns:
        Shape (sizes,), sum 1; the prior itself if there are no interactions.
    """
    weights = prior
    for _ in range(EM_STEPS if len(logs) else 0):
        shares = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        weights = (PRIOR_WORTH_PAIRS * prior + (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)) / (
            PRIOR_WORTH_PAIRS + len(logs)
        )
    return np.asarray(weights)


def compare_sizes(margins: Margins, laws: Mapping[Scope, Floats]) -> Iterator[Floats]:
    """Yield, for each set, the log-likelihood of its interaction under each size, relative to the largest.

    The misfit `y - n E[phi p]` has, under size t, the law `Normal(0, g I + n (phi diag(E p) phi' - E[phi p] E[phi p]')
    + n^2 Cov(phi p) + (n t)^2 phi D phi')`: noise, sampling, uncertainty of the network's law, interaction. Moments of
    the law p are those over draws; y and g are `margins`' values and variance of the set, phi its contrasts, D as in
    this module's docstring, and n the estimated number of records, at least 1.

    Args:
        margins: least squares with the interactions of the sets.
        laws: network's law of each set, shape `(*sizes, draws)`; at least one contrast each.

    Yields:
        For each set, in the order of `laws`, one entry for each of INTERACTION_SIZES, shape (sizes,); the largest entry
        is 0.

    Raises:
        KeyError: a set whose interaction is not among those of `margins`.
    """
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
    """Compute the Kronecker product of `diag(p) - p p'` over the axes of a law, shape (cells, cells).

    Args:
        law: probabilities, shape `(*sizes)`, without draws; p is its margin on an axis. Cells are in the order of the
            flattened law.
    """
    covariance: Floats = np.ones((1, 1))
    for axis in range(law.ndim):
        single = law.sum(axis=tuple(summed for summed in range(law.ndim) if summed != axis))
        covariance = np.asarray(np.kron(covariance, np.diag(single) - np.outer(single, single)), np.float64)
    return covariance


def _log_density(values: Floats, covariance: Floats) -> float:
    """Compute `-log(det C) / 2 - x' C^-1 x / 2`, the log density of a centred normal law without its constant.

    Args:
        values: x, shape (k,).
        covariance: C, shape (k, k); a matrix that is not positive definite raises `numpy.linalg.LinAlgError`.
    """
    root = np.linalg.cholesky(covariance)
    return float(-np.log(np.diag(root)).sum() - 0.5 * np.sum(np.linalg.solve(root, values) ** 2))


def draw_interaction(
    law: Floats, tau: Floats, rng: np.random.Generator, draws: int, picked: npt.NDArray[np.intp]
) -> Floats:
    """Draw an interaction of all variables of a law, normal with covariance `tau^2 D`, for some of the draws.

    D is the Kronecker product of `diag(p) - p p'` over the variables, with p the variable's margin of the law in the
    same draw.

    Args:
        law: probabilities in the picked draws, shape `(*sizes, picked)`; not changed.
        tau: size of the interaction in all draws, shape (draws,).
        rng: source of randomness; numbers for all draws are taken from it, so those of a draw do not depend on which
            draws are picked.
        draws: number of posterior draws.
        picked: positions of the picked draws, shape (picked,).

    Returns:
        Change of the cells, shape of `law`, 0 where tau is 0; sums along every axis of a variable are 0. Cells of the
        law plus the change may be negative.

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
        # diag(p) - p p' = R R' with R = diag(root) (I - root root'), because root has length 1.
        delta = root * (delta - root * (root * delta).sum(axis=axis, keepdims=True))
    return np.asarray(tau[picked] * delta)
