r"""How far interactions are from what lower margins say of them: a law of their sizes, learned from those measured.

The pairs of three variables were measured and their triple was not. Of all laws with these pairs the one that
proportional fitting finds has no interaction of all three; the true one has, by an unknown delta in its contrasts. Of
triples that tables do hold, delta is measured, with noise. Model, for every triple T alike,

    delta_T  ~  Normal(0, tau_T^2 D_T),    tau_T  ~  weights over a grid from 0 to .32,

D_T the tensor product of the variables' `diag(p) - p p'`, in contrasts: tau is a partial correlation, whatever the
numbers of states. The weights have a Dirichlet prior that is worth some triples, around sizes that were chosen on one
real table, and are fitted to the measured ones by the EM algorithm:

    r_T = y_T - n phi(fitted to the pairs)  ~  Normal(0, g_T I + n Cov(phi) + n^2 tau^2 D_T).

The same for pairs that no table holds, of which a posterior says something by its network alone: what they have beyond
that is learned from pairs that were audited (`mechanisms/planned.py`), and never from those inside the tables of a
plan, which somebody chose for other reasons. Some of the audited pairs were chosen by their misfit: at scale s the
choice of T rather than U has odds exp((q_T - q_U) / s). So a pair of size tau that was passed over has the weight of
tau times how probable it is that a chosen pair, of the size that it was seen to have, was preferred to it (the
geometric mean over chosen pairs: what else stood in the way of a choice is not known, and a product would take it for
nothing).

Source: Dempster, Laird and Rubin (1977); mixtures of normal laws of different scale as shrinkage: Stephens (2017).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from discreet.inference.interactions import interaction_contrasts
from discreet.model.arrays import Floats
from discreet.model.schema import Scope
from discreet.posterior.pooled.least_squares import Margins

__all__ = ["INTERACTION_SIZES", "draw_interaction", "pair_weights", "triple_weights", "triples_of"]


INTERACTION_SIZES = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Sizes of an interaction: partial correlations."""
TRIPLE_PRIOR = (0.595, 0.2, 0.1, 0.07, 0.02, 0.01, 0.005)
"""Weights of these for triples, before any was seen; chosen on one real table of 28,155 records."""
PAIR_PRIOR = (0.5, 0.16, 0.12, 0.1, 0.07, 0.035, 0.015)
"""The same for pairs: whether two variables depend, beyond what the network says, is as likely as not."""
PRIOR_WORTH_SETS = 1.0
"""Triples, or pairs, that the prior is worth. With 2, intervals of triples of right networks were up to half as long
again; set on ADULT, asia, sachs, child and made-up networks, confirmed on six other tables."""
EM_STEPS = 50
"""Of the EM algorithm: with so few components it has long converged."""
PAIR_FIT_ROUNDS = 20
"""Of proportional fitting to the pairs of a triple."""
MOST_LEARNED_CONTRASTS, MOST_LEARNED_TRIPLES = 128, 300
"""Of a triple that is learned from, and how many are."""
LEAST_PAIR_RECORDS = 0.5
"""Records that a cell of a measured pair is taken to have at least."""


def pair_weights(margins: Margins, laws: Mapping[Scope, Floats], chosen: Mapping[Scope, float]) -> Floats:
    """Weights of the sizes of what pairs that were not measured have beyond what a posterior says of them.

    Args:
        margins: with the interactions of some pairs that were measured all the same, and of their variables.
        laws: of these pairs, from the tables of a first stage alone, shape `(*sizes, draws)`.
        chosen: of those that were chosen by their misfit, the scale of that choice, records.

    Returns:
        Shape (sizes,), sum 1; the prior's where there is none.
    """
    kept = {pair: law for pair, law in laws.items() if _is_learnable(margins, pair)}
    logs = np.array(list(compare_sizes(margins, kept))).reshape(-1, len(INTERACTION_SIZES))
    weights = _learn_weights(np.array(PAIR_PRIOR), logs)
    if not kept.keys() & chosen.keys():
        return weights
    misfits = {pair: _expect_misfits(law.mean(axis=-1), max(margins.total[0], 1.0)) for pair, law in kept.items()}
    typical = np.mean(list(misfits.values()), axis=0)
    for (pair, misfit), found in zip(misfits.items(), logs, strict=True):
        if pair in chosen:
            shares = weights * np.exp(found)
            passed = expit((misfit[:, None] - typical) / chosen[pair])
            weights = weights * (shares @ passed / shares.sum()) ** (1 / len(chosen))
    return np.asarray(weights / weights.sum())


def triple_weights(margins: Margins, triples: Iterable[Scope], pairs: Floats | None) -> Floats:
    """Weights of the sizes of what triples that no table holds have beyond their pairs.

    Args:
        margins: with the interactions of the triples and all their subsets.
        triples: that tables hold, names in the schema's order.
        pairs: weights that audited pairs teach; None where there are none.

    Returns:
        Shape (sizes,), sum 1: what the triples teach, or the prior's where no triple was measured. Who drew a network
        put into its families what interacts; where audited pairs show that it left out little, so are sizes that a
        triple outside reaches as much less probable as those of the pairs are than before they were audited.
    """
    laws = {
        triple: _remove_interaction(np.maximum(margins.table(triple), LEAST_PAIR_RECORDS))[..., None]
        for triple in list(triples)[:MOST_LEARNED_TRIPLES]
        if _is_learnable(margins, triple)
    }
    weights = _learn_weights(np.array(TRIPLE_PRIOR), np.array(list(compare_sizes(margins, laws))))
    if pairs is None:
        return weights
    taught, prior, audited, before = (
        np.cumsum(part[::-1])[::-1] for part in (weights, TRIPLE_PRIOR, pairs, PAIR_PRIOR)
    )
    tail = np.append(np.maximum(taught, prior) * np.minimum.accumulate(np.minimum(audited / before, 1.0)), 0.0)
    return np.asarray(tail[:-1] - tail[1:])


def _expect_misfits(law: Floats, records: float) -> Floats:
    """Expected L1 distance of a pair's counts from what a law says, for each size of its interaction; records.

    Misfits of cells as normal, with the variance of sampling and of the interaction.
    """
    spread = np.diag(_independent_covariance(law)).reshape(law.shape)
    return np.array(
        [np.sqrt(2 / np.pi * (records * law + (records * tau) ** 2 * spread)).sum() for tau in INTERACTION_SIZES]
    )


def _is_learnable(margins: Margins, names: Scope) -> bool:
    """Whether a set has contrasts, and not too many to be learned from."""
    return 0 < math.prod(margins.network.schema[name].size - 1 for name in names) <= MOST_LEARNED_CONTRASTS


def _learn_weights(prior: Floats, logs: Floats) -> Floats:
    """The weights that the EM algorithm finds from log-likelihoods of interactions under each size."""
    weights = prior
    for _ in range(EM_STEPS if len(logs) else 0):
        shares = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        weights = (PRIOR_WORTH_SETS * prior + (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)) / (
            PRIOR_WORTH_SETS + len(logs)
        )
    return np.asarray(weights)


def compare_sizes(margins: Margins, laws: Mapping[Scope, Floats]) -> Iterator[Floats]:
    """Log-likelihoods of each set's interaction under each size, up to a constant."""
    network, records = margins.network, max(margins.total[0], 1.0)
    for names, drawn in laws.items():
        phi = interaction_contrasts([network.schema[name].size for name in names])
        law = drawn.mean(axis=-1)
        told = phi @ drawn.reshape(law.size, -1)
        mean = told.mean(axis=1)
        misfit = margins.values[names].ravel() - records * mean
        noise = margins.variances[names] * np.eye(len(misfit))
        noise += records * ((phi * law.ravel()) @ phi.T - np.outer(mean, mean))
        off = records * (told - mean[:, None])
        noise += off @ off.T / told.shape[1]
        spread = phi @ _independent_covariance(law) @ phi.T
        logs = [_log_density(misfit, noise + (records * tau) ** 2 * spread) for tau in INTERACTION_SIZES]
        yield np.array(logs) - max(logs)


def _remove_interaction(counts: Floats) -> Floats:
    """The law with the pairs of a table of three variables, and no interaction of all three."""
    wanted = [counts.sum(axis=axis, keepdims=True) / counts.sum() for axis in range(3)]
    law = np.full(counts.shape, 1 / counts.size)
    for _ in range(PAIR_FIT_ROUNDS):
        for axis, margin in enumerate(wanted):
            law = law * margin / law.sum(axis=axis, keepdims=True)
    return np.asarray(law)


def _independent_covariance(law: Floats) -> Floats:
    """The tensor product of `diag(p) - p p'` over the axes, shape (cells, cells)."""
    found: Floats = np.ones((1, 1))
    for axis in range(law.ndim):
        single = law.sum(axis=tuple(other for other in range(law.ndim) if other != axis))
        found = np.asarray(np.kron(found, np.diag(single) - np.outer(single, single)), np.float64)
    return found


def _log_density(values: Floats, covariance: Floats) -> float:
    """Log density of a centred normal law, up to a constant."""
    root = np.linalg.cholesky(covariance)
    return float(-np.log(np.diag(root)).sum() - 0.5 * np.sum(np.linalg.solve(root, values) ** 2))


def draw_interaction(
    law: Floats, tau: Floats, rng: np.random.Generator, draws: int, picked: npt.NDArray[np.intp]
) -> Floats:
    """An interaction of all variables of a law, for some of the draws: normal with covariance `tau^2 D`.

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
        root = np.sqrt(law.sum(axis=tuple(other for other in axes if other != axis), keepdims=True))
        delta = root * (delta - root * (root * delta).sum(axis=axis, keepdims=True))
    return np.asarray(tau[picked] * delta)


def triples_of(tables: Iterable[frozenset[str]], order: Sequence[str]) -> list[Scope]:
    """Triples of variables that some table holds, names in an order, without repetition.

    Example:
        >>> triples_of([frozenset("abc"), frozenset("bcd")], "abcd")
        [('a', 'b', 'c'), ('b', 'c', 'd')]
    """
    place = {name: index for index, name in enumerate(order)}
    listed = (combinations(sorted(table, key=place.__getitem__), 3) for table in tables)
    return list(dict.fromkeys(triple for part in listed for triple in part))
