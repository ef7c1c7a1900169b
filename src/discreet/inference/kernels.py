"""Kernels: planned sums and maxima over all draws at once, the draws on the last axis of every array.

All arrays of a call have one precision. Messages and partial products are normalised, and the logarithm of what that
removes is kept in double precision. Cliques live in one block of memory that the caller provides, so that chunks of
draws reuse it. Plans are made in `junction_tree.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.inference.junction_tree import JunctionTree
from discreet.util.arrays import Array, Floats

ByClique = dict[int, Array]
"""Arrays by the position of a clique."""

FACTORS_PER_SCALE = 4
"""Factors that are multiplied before a partial product is divided by its largest entry: a clique may hold hundreds,
and their plain product would underflow."""
EINSUM_ENTRIES, EINSUM_DRAWS = 2**14, 256
"""Entries from which on einsum is worth its overhead, if there are fewer draws than the second number: it sums over
axes next to the draws up to six times as fast (measured at 8 to 128 draws)."""
EINSUM_AXES = 50
"""Most axes of an einsum."""
SMALLEST_NORMAL = {dtype(0).dtype: np.finfo(dtype).tiny for dtype in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class _Upward:
    """Products and messages that were sent towards the roots; barren cliques are left out.

    Args:
        beliefs: product of each clique with all below it; may be a view of a factor.
        messages: of each clique to its parent, normalised.
        scales: sum of each message before, shape `(draws,)`.
        removed: the constants, and all else that was divided out, shape `(draws,)` each.
    """

    beliefs: ByClique
    messages: ByClique
    scales: ByClique
    removed: list[Array]

    def log_sum(self, totals: Sequence[Array], draws: int) -> Floats:
        """Logarithm of the sum over all, given the sums of the roots; -inf where it is zero."""
        parts = [*self.removed, *self.scales.values(), *totals]
        if not parts:
            return np.zeros(draws)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.stack(parts), dtype=np.float64).sum(axis=0))


def calibrate(tree: JunctionTree, factors: Sequence[Array], block: Array, table: Array) -> Floats:
    """The marginal of every variable.

    Args:
        tree: planned for these factors.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        block: memory for the cliques, at least `tree.cells` times the draws; its content is lost.
        table: the marginals are written here, the states of one variable after the other, shape `(states, draws)`;
            anything where the sum over all is zero.

    Returns:
        Logarithm of the sum over all, shape `(draws,)`; -inf where it is zero.
    """
    draws = table.shape[-1]
    # Where float32 overflows, the evidence is so improbable that the caller does not use the result.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        places = _lay_out(tree, block, draws)
        upward = _send_up(tree, factors, places)
        beliefs, known, totals = _send_down(tree, factors, places, upward)
        starts, start = [], 0
        for name, (index, separator, others) in tree.holders.items():
            starts.append(start)
            stop = start + tree.sizes[name]
            np.add.reduce(known[index] if separator else beliefs[index], axis=others, out=table[start:stop])
            start = stop
        sums = np.add.reduceat(table, starts, axis=0)
        table /= np.repeat(sums, [tree.sizes[name] for name in tree.holders], axis=0)
    return upward.log_sum(totals, draws)


def factor_margins(
    tree: JunctionTree, factors: Sequence[Array], scopes: Sequence[Sequence[str]], block: Array, draws: int
) -> list[Array]:
    """The joint law of the variables of every factor.

    Args:
        tree: planned for these factors, none of them a constant.
        factors: positive somewhere, shape `(*sizes of the scope, draws)`.
        scopes: variables of each, in the order of its axes.
        block: memory for the cliques, at least `tree.cells` times the draws; its content is lost.
        draws: length of the last axis.

    Returns:
        For every factor an array of its shape that sums to 1 under each draw.
    """
    places = _lay_out(tree, block, draws)
    beliefs, _, _ = _send_down(tree, factors, places, _send_up(tree, factors, places))
    found = []
    for scope, home in zip(scopes, tree.homes, strict=True):
        clique = tree.cliques[home]
        summed = _sum_axes(beliefs[home], tuple(axis for axis, name in enumerate(clique) if name not in scope))
        kept = [name for name in clique if name in scope]
        law = summed.transpose((*map(kept.index, scope), len(kept)))
        found.append(law / _replace_zeros(law.sum(axis=tuple(range(law.ndim - 1)))))
    return found


def collect(
    tree: JunctionTree, factors: Sequence[Array], block: Array, targets: Sequence[str], draws: int
) -> tuple[Array, Floats]:
    """The normalised joint of some variables, and the logarithm of the sum over all.

    Args:
        tree: planned for these factors and targets.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        block: memory for the cliques, at least `tree.cells` times the draws; its content is lost.
        targets: as planned; none for the sum alone.
        draws: length of the last axis.

    Returns:
        (joint of the targets, shape `(*sizes, draws)`, zero in draws whose sum is zero; log of the sum, shape
        `(draws,)`, -inf where it is zero).
    """
    upward = _send_up(tree, factors, _lay_out(tree, block, draws))
    joint: Array = np.ones(draws)
    totals = []
    for index, belief in upward.beliefs.items():
        if tree.parents[index] >= 0:
            continue
        clique = tree.cliques[index]
        if not targets or not set(targets) <= set(clique):
            totals.append(_sum_axes(belief, tuple(range(len(clique)))))
            continue
        summed = _sum_axes(belief, tuple(axis for axis, name in enumerate(clique) if name not in targets))
        totals.append(np.add.reduce(summed, axis=tuple(range(len(targets)))))
        kept = [name for name in clique if name in targets]
        joint = (summed / _replace_zeros(totals[-1])).transpose((*(kept.index(name) for name in targets), len(kept)))
    return joint, upward.log_sum(totals, draws)


def most_probable(tree: JunctionTree, factors: Sequence[Array], block: Array, draws: int) -> dict[str, Array]:
    """States at which the sum over the other variables is largest, for every draw.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        block: memory for the cliques, at least `tree.cells` times the draws; its content is lost.
        draws: length of the last axis.

    Returns:
        By target: codes of states, shape `(draws,)`; the first of equals, and zeros where everything is zero.
    """
    beliefs = _send_up(tree, factors, _lay_out(tree, block, draws)).beliefs
    states: dict[str, Array] = {}
    every = np.arange(draws)
    for index in range(len(tree.cliques) - 1, tree.maxima - 1, -1):
        separator = tree.separator(index)
        own = tree.cliques[index][: len(tree.cliques[index]) - len(separator)]
        # Few entries are left once the states of the separator are known: no table of choices is ever made.
        known: list[Any] = [states[name] for name in separator]
        left = beliefs[index][(..., *known, every)]
        best = left.reshape(-1, draws).argmax(axis=0)
        states.update(zip(own, np.unravel_index(best, [tree.sizes[name] for name in own]), strict=True))
    return states


def log_of_states(
    tree: JunctionTree, factors: Sequence[Array], block: Array, candidates: Sequence[Mapping[str, int]], draws: int
) -> Floats:
    """Logarithm of the sum over the other variables at given states of the targets.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        block: memory for the cliques, at least `tree.cells` times the draws; its content is lost.
        candidates: codes of the states of all targets.
        draws: length of the last axis.

    Returns:
        Shape `(candidates, draws)`; -inf where it is zero.
    """
    upward = _send_up(tree, factors, _lay_out(tree, block, draws), stop=tree.maxima)
    logs = np.empty((len(candidates), draws))
    logs[...] = upward.log_sum([], draws)
    terms = [term for terms in tree.terms[tree.maxima :] for term in terms]
    values = np.ones(logs.shape)
    for count, term in enumerate(terms, 1):
        below = term.source - len(factors)
        if below < tree.maxima:  # else a maximum over what the other terms say
            array = factors[term.source] if below < 0 else upward.messages[below]
            values *= array[tuple([states[name] for states in candidates] for name in term.scope)]
        if count % FACTORS_PER_SCALE == 0 or count == len(terms):
            with np.errstate(divide="ignore"):
                logs += np.log(values)
            values.fill(1)
    return logs


# ----------------------------------------------------------------------------------------------------------- messages


def _send_up(tree: JunctionTree, factors: Sequence[Array], places: Sequence[Array], stop: int | None = None) -> _Upward:
    """Send the messages of all cliques, or of those before a position, to their parents."""
    upward = _Upward({}, {}, {}, [factors[source] for source, home in enumerate(tree.homes) if home < 0])
    for index, parent in enumerate(tree.parents[:stop]):
        if tree.barren[index]:
            continue
        fills = [term.fills for term in tree.terms[index]]
        views = _align_views(tree, index, factors, upward.messages)
        upward.beliefs[index] = belief = _multiply_views(views, fills, places[index], upward.removed)
        if parent < 0:
            continue
        shared = tree.shared[index]
        own = tuple(range(belief.ndim - 1 - shared))
        message = _sum_axes(belief, own) if index < tree.maxima else np.maximum.reduce(belief, axis=own)
        upward.scales[index] = scale = _replace_zeros(np.add.reduce(message, axis=tuple(range(shared))))
        message /= scale
        upward.messages[index] = message
    return upward


def _send_down(
    tree: JunctionTree, factors: Sequence[Array], places: Sequence[Array], upward: _Upward
) -> tuple[ByClique, ByClique, list[Array]]:
    """Bring what the rest of the tree knows to every clique; all but the roots then sum to 1.

    Returns:
        (belief of every clique; what its separator knows, of each clique that has a parent; sums of the roots that are
        not barren).
    """
    beliefs, known, totals = dict(upward.beliefs), ByClique(), ByClique()
    for index in range(len(tree.cliques) - 1, -1, -1):
        parent = tree.parents[index]
        if parent >= 0:
            known[index] = summed = _sum_axes(beliefs[parent], tree.rest[index])
            if tree.parents[parent] < 0 and not tree.barren[parent]:
                # A root is normalised where it has been summed: that is cheaper, and all below follows.
                totals[parent] = np.add.reduce(summed, axis=tuple(range(summed.ndim - 1)))
                summed /= _replace_zeros(totals[parent])
        if tree.barren[index]:
            views, fills = _align_views(tree, index, factors, {}), [term.fills for term in tree.terms[index]]
            if parent >= 0:
                views, fills = [summed, *views], [False, *fills]
            beliefs[index] = _multiply_views(views, fills, places[index], None)
        elif parent >= 0:
            # What came up is taken out again; where it was zero the product is zero already.
            ratio = summed / _replace_zeros(upward.messages[index])
            ratio /= upward.scales[index]
            beliefs[index] = np.multiply(beliefs[index], ratio, out=places[index])
    for index, parent in enumerate(tree.parents):
        if parent < 0 and not tree.barren[index] and index not in totals:
            totals[index] = _sum_axes(beliefs[index], tuple(range(len(tree.cliques[index]))))
    return beliefs, known, list(totals.values())


# --------------------------------------------------------------------------------------------------------- arithmetic


def _lay_out(tree: JunctionTree, block: Array, draws: int) -> list[Array]:
    """Lay one array for each clique into a block of memory."""
    places, start = [], 0
    for index in range(len(tree.cliques)):
        shape = (*tree.shape(index), draws)
        stop = start + math.prod(shape)
        places.append(block[start:stop].reshape(shape))
        start = stop
    return places


def _align_views(
    tree: JunctionTree, index: int, factors: Sequence[Array], messages: Mapping[int, Array]
) -> list[Array]:
    """Align all that is multiplied in a clique with its axes."""
    count = len(factors)
    return [
        (factors[term.source] if term.source < count else messages[term.source - count]).transpose(term.axes)[
            term.index
        ]
        for term in tree.terms[index]
    ]


def _multiply_views(views: Sequence[Array], fills: Sequence[bool], place: Array, removed: list[Array] | None) -> Array:
    """Product of aligned arrays; where a list is given, up to scales for each draw that are added to it.

    Args:
        views: the smallest first, so that the large product is written once.
        fills: for each whether it and those before have all axes of the place together.
        place: for the product.
        removed: gets what partial products are divided by; None where the product sums to 1 and needs no scale.

    Returns:
        The place, filled, or the only array itself if it has all axes.
    """
    if not views:
        place.fill(1)
        return place
    product, last = views[0], len(views) - 1
    if not last:
        if product.shape != place.shape:
            np.copyto(place, product)
        return product if product.shape == place.shape else place
    for count in range(1, last + 1):
        product = np.multiply(product, views[count], out=place if fills[count] or count == last else None)
        if removed is not None and count % FACTORS_PER_SCALE == 0 and count < last:
            peak = _replace_zeros(np.maximum.reduce(product, axis=tuple(range(product.ndim - 1))))
            product /= peak
            removed.append(peak)
    return product


def _sum_axes(array: Array, axes: tuple[int, ...]) -> Array:
    """Sum over some axes, none of them that of the draws; a new array."""
    if axes and array.size >= EINSUM_ENTRIES and array.shape[-1] < EINSUM_DRAWS and array.ndim <= EINSUM_AXES:
        return np.asarray(np.einsum(array, range(array.ndim), [axis for axis in range(array.ndim) if axis not in axes]))
    summed: Array = np.add.reduce(array, axis=axes)
    return summed


def _replace_zeros(array: Array) -> Array:
    """The array with its zeros replaced by the smallest normal number, so that zero divided by it stays zero."""
    return np.maximum(array, SMALLEST_NORMAL[array.dtype])
