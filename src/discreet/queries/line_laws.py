"""Laws of a number given other numbers, along lines inside bins and along chains of such lines.

Where the product of x and z was released, the mean of z is `E(z | k) + slope (E(x | k, observed) - E(x | k))` in bin k
of x. What varies about the line varies in the whole bin, so that the variance falls by
`slope^2 (Var(x | k) - Var(x | k, observed))`.

Where x and z share no released sum, but a number y lies between them in the network, which shares one with z, the law
of y given x = c is found first. It tells how likely each bin of y is, and where in it y lies:

    E(z | x = c) = sum_k P(y in k | c) (E(z | y in k) + slope_k (E(y | k, c) - E(y | k))).

By bins alone z would follow x less than it does, as wide bins of y tell little of y.
"""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np

from discreet.inference.bin_laws import BinLaw
from discreet.model.schema import Scope
from discreet.posterior.number_draws import LEAST_SHARE, NumberDraws
from discreet.posterior.number_lines import slopes_inside
from discreet.queries.conditioning import ConditionedPosterior
from discreet.util.arrays import Floats

LEAST_RESIDUAL = 0.02
"""Least variance about a line, relative to that of all numbers: beyond it the noise of the slope is what is seen."""


def follow_lines(
    name: str, both: ConditionedPosterior, numbers: NumberDraws, step: int, avoid: frozenset[str] = frozenset()
) -> BinLaw:
    """Find the law of a number whose mean follows lines inside the bins of observed numbers.

    Args:
        name: of the number z.
        both: draws given the evidence.
        numbers: of the release.
        step: the draws are every `step`-th of the posterior.
        avoid: numbers through which no chain goes, as one came from them.
    """
    flat = both.flat
    shares = flat.joint((name,))
    law = give_numbers(numbers, name, shares, numbers.offsets_given(name, flat, step, both.ranged), both.names, step)
    shift, less = np.zeros((2, shares.shape[1]))
    for each in both.observed:
        known = each.variable.name
        if known not in numbers.grids:
            continue
        middle = find_middle(numbers, both, known, name, avoid)
        if middle is not None:
            law, moved, change = _follow_chain(name, middle, both, numbers, step, avoid | {name})
        else:
            slopes = slopes_inside(numbers, known, name)[:, ::step]
            means, variances = each.shifts()
            weights = np.ones(1) if each.code is not None else flat.joint((known,))[: len(slopes)]
            at = slice(each.code, each.code + 1) if each.code is not None else slice(None)
            weights = weights / weights.sum(axis=0)
            moved = (weights * slopes[at] * means[at]).sum(axis=0)
            change = (weights * slopes[at] ** 2 * variances[at]).sum(axis=0)
        shift, less = shift + moved, less + change
    usual = np.maximum(replace(law, known_variance=None).variance(), np.finfo(float).tiny)
    variance = np.maximum(law.variance() + less, LEAST_RESIDUAL * usual)
    mean = np.clip(law.mean() + shift, *numbers.grids[name].bounds)
    scale = np.sqrt(variance / usual)
    return replace(law.moved(mean - law.mean(), scale), known_mean=mean, known_variance=variance)


def give_numbers(
    numbers: NumberDraws, name: str, shares: Floats, offsets: Floats, given: Scope, step: int = 1
) -> BinLaw:
    """Make the law of a number given others, with its mean and variance by released sums.

    Args:
        numbers: of the release.
        name: of the number.
        shares: of its states given the others, shape `(states, draws)`.
        offsets: mean offset in each of its bins given the others, shape `(bins, draws)`.
        given: the others.
        step: the draws are every `step`-th of the posterior.
    """
    shares = shares[: numbers.grids[name].bins] + LEAST_SHARE
    bins = shares / shares.sum(axis=0)
    law = numbers.given(name, bins, offsets, step)
    variance = np.clip(numbers.variance_given(name, bins, offsets, given, step), *law.variance_ends())
    return replace(law, known_variance=variance)


def find_middle(
    numbers: NumberDraws, both: ConditionedPosterior, known: str, name: str, avoid: frozenset[str] = frozenset()
) -> str | None:
    """Find a number through which another one follows an observed one, if both share no released sum.

    Args:
        numbers: of the release.
        both: draws given the evidence.
        known: observed number.
        name: of the number that is asked for.
        avoid: numbers that are not taken.

    Returns:
        An unobserved number that shares a released sum with that one, and without which, and what is observed, the
        network's moral graph holds them apart; None if there is none, or if both share a sum.
    """
    if numbers.measures(known, name):
        return None
    moral = nx.Graph(numbers.evidence.payload.network.moral_graph)
    moral.remove_nodes_from([seen for seen in both.names if seen != known])
    for middle in numbers.grids:
        if middle not in avoid and middle in moral and middle not in (known, name) and numbers.measures(middle, name):
            rest = moral.subgraph(set(moral) - {middle})
            if nx.has_path(moral, known, middle) and not nx.has_path(rest, known, name):
                return middle
    return None


def _follow_chain(
    name: str, middle: str, both: ConditionedPosterior, numbers: NumberDraws, step: int, avoid: frozenset[str]
) -> tuple[BinLaw, Floats, Floats]:
    """Find the law of a number given the bins of one between, and by how much lines in them change mean and variance.

    Args:
        name: of the number z.
        middle: the number between, y.
        both, numbers, step, avoid: as in `follow_lines`.

    Returns:
        The law of z with the bins of y as likely as given what is observed; the change of its mean, and of its
        variance, as y lies elsewhere in its bins.
    """
    states, grid, inner = both.states[0], numbers.grids[name], numbers.grids[middle]
    assert states is not None
    between = follow_lines(middle, both, numbers, step, avoid)
    leaf_bin = inner.bin_of_leaf(numbers.evidence.payload.leaves(middle))
    starts, centres = np.searchsorted(leaf_bin, np.arange(inner.bins)), between.centres()
    weights = between.shares + LEAST_SHARE
    bins = np.add.reduceat(weights, starts)
    places = np.add.reduceat(weights * centres, starts) / bins
    half = np.diff(between.edges)[:, None] / 2
    spread = np.add.reduceat(weights * ((centres - places[leaf_bin]) ** 2 + half**2 / 3), starts) / bins
    pair = states.joint((name, middle))[: grid.bins, : inner.bins] + LEAST_SHARE
    pair = pair / pair.sum(axis=0) * bins / bins.sum(axis=0)
    offsets = numbers.offsets_by(name, middle)[:, : inner.bins, ::step]
    shares = pair.sum(axis=1)
    law = give_numbers(numbers, name, shares, (pair * offsets).sum(axis=1) / shares, (middle,), step)
    column, slopes, share = numbers.column(middle), slopes_inside(numbers, middle, name)[:, ::step], pair.sum(axis=0)
    moved = slopes * (places - inner.middles[:, None] - column.offsets[:, ::step])
    level = (pair * (grid.middles[:, None, None] + offsets)).sum(axis=0) / share
    change = (share * slopes**2 * (spread - column.spread[:, ::step])).sum(axis=0)
    for values, sign in ((level + moved, 1), (level, -1)):
        change = change + sign * (share * (values - (share * values).sum(axis=0)) ** 2).sum(axis=0)
    return law, (share * moved).sum(axis=0), change
