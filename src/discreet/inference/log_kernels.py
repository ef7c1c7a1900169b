"""Kernels in logarithms: the sums and maxima of `kernels.py` where probabilities leave the range of doubles.

Products of small probabilities underflow; sums of logarithms do not. What is planned is the same, what is computed is
a few times slower, so `elimination.py` sends only those draws here whose evidence is too improbable for the others.
Arrays are logarithms of probabilities, -inf where one is 0, in double precision, draws on the last axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.inference.junction_tree import JunctionTree
from discreet.util.arrays import Floats

ByClique = dict[int, Floats]
"""Arrays by the position of a clique."""


def calibrate(tree: JunctionTree, factors: Sequence[Floats], draws: int) -> tuple[dict[str, Floats], Floats]:
    """The marginal of every variable.

    Args:
        tree: planned for these factors.
        factors: logarithms, evidence sliced out, shape `(*sizes of the scope, draws)`.
        draws: length of the last axis.

    Returns:
        (by variable its marginal, not in logarithms, shape `(size, draws)`, NaN in draws whose sum is zero; logarithm
        of the sum over all, shape `(draws,)`).
    """
    beliefs, messages = _send_up(tree, factors, draws)
    log_sum = _add_constants(tree, factors, draws)
    for index in range(len(tree.cliques) - 1, -1, -1):
        parent = tree.parents[index]
        known = np.zeros(draws) if parent < 0 else _log_sum_exp(beliefs[parent], tree.rest[index])
        if index not in beliefs:  # barren: nothing came up
            beliefs[index] = _add_logs(tree, index, factors, {}, draws) + known
        elif parent >= 0:
            beliefs[index] = beliefs[index] + _subtract_logs(known, messages[index])
        else:
            log_sum = log_sum + _log_sum_exp(beliefs[index], tuple(range(beliefs[index].ndim - 1)))
    found = {}
    for name in tree.holders:
        index = min((i for i, clique in enumerate(tree.cliques) if name in clique), key=lambda i: beliefs[i].size)
        axis = tree.cliques[index].index(name)
        others = tuple(other for other in range(beliefs[index].ndim - 1) if other != axis)
        found[name] = _mark_impossible(_normalise_logs(_log_sum_exp(beliefs[index], others)), log_sum)
    return found, log_sum


def collect(tree: JunctionTree, factors: Sequence[Floats], targets: Sequence[str], draws: int) -> tuple[Floats, Floats]:
    """The joint of some variables, and the logarithm of the sum over all.

    Args:
        tree: planned for these factors and targets.
        factors: logarithms, evidence sliced out, shape `(*sizes of the scope, draws)`.
        targets: as planned; none for the sum alone.
        draws: length of the last axis.

    Returns:
        (joint of the targets, not in logarithms, shape `(*sizes, draws)`, NaN in draws whose sum is zero; logarithm of
        the sum, shape `(draws,)`).
    """
    beliefs, _ = _send_up(tree, factors, draws)
    joint, log_sum = np.ones(draws), _add_constants(tree, factors, draws)
    for index, belief in beliefs.items():
        if tree.parents[index] >= 0:
            continue
        clique = tree.cliques[index]
        if targets and set(targets) <= set(clique):
            summed = _log_sum_exp(belief, tuple(axis for axis, name in enumerate(clique) if name not in targets))
            kept = [name for name in clique if name in targets]
            joint = _normalise_logs(summed).transpose((*(kept.index(name) for name in targets), len(kept)))
        log_sum = log_sum + _log_sum_exp(belief, tuple(range(len(clique))))
    return _mark_impossible(joint, log_sum), log_sum


def most_probable(tree: JunctionTree, factors: Sequence[Floats], draws: int) -> dict[str, npt.NDArray[np.intp]]:
    """States at which the sum over the other variables is largest, for every draw.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: logarithms, evidence sliced out, shape `(*sizes of the scope, draws)`.
        draws: length of the last axis.

    Returns:
        By target: codes of states, shape `(draws,)`; the first of equals, and zeros where everything is zero.
    """
    beliefs, _ = _send_up(tree, factors, draws)
    states: dict[str, npt.NDArray[np.intp]] = {}
    for index in range(len(tree.cliques) - 1, tree.maxima - 1, -1):
        separator = tree.separator(index)
        own = tree.cliques[index][: len(tree.cliques[index]) - len(separator)]
        known: list[Any] = [states[name] for name in separator]
        best = beliefs[index][(..., *known, np.arange(draws))].reshape(-1, draws).argmax(axis=0)
        states.update(zip(own, np.unravel_index(best, [tree.sizes[name] for name in own]), strict=True))
    return states


def log_of_states(
    tree: JunctionTree, factors: Sequence[Floats], candidates: Sequence[Mapping[str, int]], draws: int
) -> Floats:
    """Logarithm of the sum over the other variables at given states of the targets.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: logarithms, evidence sliced out, shape `(*sizes of the scope, draws)`.
        candidates: codes of the states of all targets.
        draws: length of the last axis.

    Returns:
        Shape `(candidates, draws)`.
    """
    beliefs, messages = _send_up(tree, factors, draws, stop=tree.maxima)
    logs = np.zeros((len(candidates), draws)) + _add_constants(tree, factors, draws)
    for index, belief in beliefs.items():
        if tree.parents[index] < 0:
            logs += _log_sum_exp(belief, tuple(range(belief.ndim - 1)))
    for term in (term for terms in tree.terms[tree.maxima :] for term in terms):
        below = term.source - len(factors)
        if below < tree.maxima:  # else a maximum over what the other terms say
            array = factors[term.source] if below < 0 else messages[below]
            logs += array[tuple([states[name] for states in candidates] for name in term.scope)]
    return logs


def _send_up(
    tree: JunctionTree, factors: Sequence[Floats], draws: int, stop: int | None = None
) -> tuple[ByClique, ByClique]:
    """Send the messages of all cliques that are not barren, or of those before a position, to their parents.

    Returns:
        (product of each clique with all below it; message of each to its parent).
    """
    beliefs, messages = ByClique(), ByClique()
    for index, parent in enumerate(tree.parents[:stop]):
        if tree.barren[index]:
            continue
        beliefs[index] = belief = _add_logs(tree, index, factors, messages, draws)
        if parent >= 0:
            own = tuple(range(belief.ndim - 1 - tree.shared[index]))
            messages[index] = _log_sum_exp(belief, own) if index < tree.maxima else belief.max(axis=own)
    return beliefs, messages


def _add_logs(
    tree: JunctionTree, index: int, factors: Sequence[Floats], messages: Mapping[int, Floats], draws: int
) -> Floats:
    """Product of all that meets in a clique, shape `(*sizes, draws)`."""
    product, count = np.zeros((*tree.shape(index), draws)), len(factors)
    for term in tree.terms[index]:
        array = factors[term.source] if term.source < count else messages[term.source - count]
        product += array.transpose(term.axes)[term.index]
    return product


def _add_constants(tree: JunctionTree, factors: Sequence[Floats], draws: int) -> Floats:
    """Product of the factors that no clique takes up, shape `(draws,)`."""
    return sum((factors[source] for source, home in enumerate(tree.homes) if home < 0), np.zeros(draws))


def _log_sum_exp(array: Floats, axes: tuple[int, ...]) -> Floats:
    """Logarithm of the sum over some axes."""
    if not axes:
        return array
    peak = array.max(axis=axes, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(
            _replace_infinite(peak).squeeze(axes) + np.log(np.exp(array - _replace_infinite(peak)).sum(axis=axes))
        )


def _normalise_logs(logs: Floats) -> Floats:
    """Probabilities that sum to 1 over all axes but the last; NaN where all logarithms are -inf."""
    axes = tuple(range(logs.ndim - 1))
    probabilities = np.exp(logs - _replace_infinite(logs.max(axis=axes, keepdims=True)))
    with np.errstate(invalid="ignore"):
        return np.asarray(probabilities / probabilities.sum(axis=axes, keepdims=True))


def _mark_impossible(probabilities: Floats, log_sum: Floats) -> Floats:
    """Probabilities, NaN in draws whose sum is zero, wherever in the tree that comes from."""
    return np.where(np.isneginf(log_sum), np.nan, probabilities)


def _subtract_logs(logs: Floats, taken: Floats) -> Floats:
    """Logarithm of a quotient in which 0 divided by 0 is 0."""
    return np.asarray(logs - _replace_infinite(taken))


def _replace_infinite(logs: Floats) -> Floats:
    """The logarithms with 0 for -inf: subtracting it leaves -inf what it is."""
    return np.where(np.isneginf(logs), 0.0, logs)
