"""Kernels: planned sums and maxima over all draws at once, the draws on the last axis of every array.

All arrays of a call have one precision. Messages and partial products are normalised, and the logarithm of what that
removes is kept in double precision. The product of all that meets in a clique is never stored: it is made and summed
block by block, in the cache, and in the order in which the largest of its factors lies in memory. All draws are worked
on together: a part of each row of them takes three times as long to read. Plans are made in `junction_tree.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from discreet.inference.junction_tree import JunctionTree
from discreet.model.schema import Scope
from discreet.util.arrays import Array, Floats

ByClique = dict[int, Array]
"""Arrays by the position of a clique."""

FACTORS_PER_SCALE = 4
"""Factors that are multiplied before a partial product is divided by its largest entry: a clique may hold hundreds,
and their plain product would underflow."""
SMALL_ENTRIES, BLOCK_ENTRIES = 2**17, 2**19
"""Entries of a product that are worked on together: up to the first it is not worth looking how they lie in memory, and
the second, 2 or 4 MiB, stay in a cache."""
MOST_AXES = 50
"""Of a block: einsum has names for no more."""
SMALLEST_NORMAL = {dtype(0).dtype: np.finfo(dtype).tiny for dtype in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class _Upward:
    """Messages that were sent towards the roots, and what the roots say; barren cliques are left out.

    Args:
        messages: of each clique to its parent, normalised; of a root the joint of the targets that it holds.
        totals: sum of each message before, shape `(draws,)`.
        removed: the constants, and all else that was divided out, shape `(draws,)` each.
        beliefs: product of each clique that is maximised with all below it.
        views: what is multiplied in each clique.
    """

    messages: ByClique
    totals: ByClique
    removed: list[Array]
    beliefs: ByClique
    views: dict[int, list[Array]]

    def log_sum(self, draws: int) -> Floats:
        """Logarithm of the sum over all; -inf where it is zero."""
        parts = [*self.removed, *self.totals.values()]
        if not parts:
            return np.zeros(draws)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.stack(parts), dtype=np.float64).sum(axis=0))


def calibrate(tree: JunctionTree, factors: Sequence[Array], table: Array) -> Floats:
    """The marginal of every variable.

    Args:
        tree: planned for these factors.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        table: the marginals are written here, the states of one variable after the other, shape `(states, draws)`;
            anything where the sum over all is zero.

    Returns:
        Logarithm of the sum over all, shape `(draws,)`; -inf where it is zero.
    """
    places = dict(zip(tree.sizes, accumulate(tree.sizes.values(), initial=0), strict=False))
    wanted: dict[int, list[Scope]] = {}
    for name, (index, separator, _) in tree.holders.items():
        if not separator:
            wanted.setdefault(index, []).append((name,))
    # Where float32 overflows, the evidence is so improbable that the caller does not use the result.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        upward = _send_up(tree, factors)
        laws: dict[Scope, Array] = {}
        known: ByClique = {}
        for index, known[index], sums in _send_down(tree, factors, upward, wanted):
            laws |= zip(wanted.get(index, ()), sums, strict=True)
        for name, (index, separator, others) in tree.holders.items():
            law = np.add.reduce(known[index], axis=others) if separator else laws[name,]
            table[places[name] : places[name] + tree.sizes[name]] = law / np.add.reduce(law, axis=0)
    return upward.log_sum(table.shape[-1])


def factor_margins(tree: JunctionTree, factors: Sequence[Array], scopes: Sequence[Scope]) -> list[Array]:
    """The joint law of the variables of every factor.

    Args:
        tree: planned for these factors, none of them a constant.
        factors: positive somewhere, shape `(*sizes of the scope, draws)`.
        scopes: variables of each, in the order of its axes.

    Returns:
        For every factor an array of its shape that sums to 1 under each draw.
    """
    wanted: dict[int, list[Scope]] = {}
    for scope, home in zip(scopes, tree.homes, strict=True):
        wanted.setdefault(home, []).append(scope)
    found: dict[Scope, Array] = {}
    for index, _, laws in _send_down(tree, factors, _send_up(tree, factors), wanted):
        for scope, law in zip(wanted.get(index, ()), laws, strict=True):
            found[scope] = law / _replace_zeros(law.sum(axis=tuple(range(law.ndim - 1))))
    return [found[scope] for scope in scopes]


def collect(tree: JunctionTree, factors: Sequence[Array], targets: Sequence[str], draws: int) -> tuple[Array, Floats]:
    """The normalised joint of some variables, and the logarithm of the sum over all.

    Args:
        tree: planned for these factors and targets.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        targets: as planned; none for the sum alone.
        draws: length of the last axis.

    Returns:
        (joint of the targets, shape `(*sizes, draws)`, zero in draws whose sum is zero; log of the sum, shape
        `(draws,)`, -inf where it is zero).
    """
    upward = _send_up(tree, factors, targets)
    joint: Array = np.ones(draws)
    for index in _find_top(tree, targets):
        joint = upward.messages[index]
    return joint, upward.log_sum(draws)


def most_probable(tree: JunctionTree, factors: Sequence[Array], draws: int) -> dict[str, Array]:
    """States at which the sum over the other variables is largest, for every draw.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        draws: length of the last axis.

    Returns:
        By target: codes of states, shape `(draws,)`; the first of equals, and zeros where everything is zero.
    """
    beliefs = _send_up(tree, factors).beliefs
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
    tree: JunctionTree, factors: Sequence[Array], candidates: Sequence[Mapping[str, int]], draws: int
) -> Floats:
    """Logarithm of the sum over the other variables at given states of the targets.

    Args:
        tree: planned for these factors, with targets to maximise.
        factors: evidence sliced out, shape `(*sizes of the scope, draws)`.
        candidates: codes of the states of all targets.
        draws: length of the last axis.

    Returns:
        Shape `(candidates, draws)`; -inf where it is zero.
    """
    upward = _send_up(tree, factors, stop=tree.maxima)
    logs = np.empty((len(candidates), draws))
    logs[...] = upward.log_sum(draws)
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


def _find_top(tree: JunctionTree, targets: Sequence[str]) -> list[int]:
    """Position of the root that holds all targets; none without targets."""
    roots = [index for index, parent in enumerate(tree.parents) if parent < 0]
    return [index for index in roots if targets and set(targets) <= set(tree.cliques[index])]


def _send_up(
    tree: JunctionTree, factors: Sequence[Array], targets: Sequence[str] = (), stop: int | None = None
) -> _Upward:
    """Send the messages of all cliques, or of those before a position, to their parents."""
    upward = _Upward({}, {}, [factors[source] for source, home in enumerate(tree.homes) if home < 0], {}, {})
    top = _find_top(tree, targets)
    for index, clique in enumerate(tree.cliques[:stop]):
        if tree.barren[index]:
            continue
        views = upward.views[index] = _align_views(tree, index, factors, upward.messages, upward.removed)
        sent = targets if index in top else tree.separator(index)
        if index < tree.maxima:
            (message,) = _sum_products(views, [[*map(clique.index, sent)]])
        else:
            (upward.beliefs[index],) = _sum_products(views, [range(len(clique))])
            message = np.maximum.reduce(upward.beliefs[index], axis=tuple(range(len(clique) - len(sent))))
        upward.totals[index] = total = np.add.reduce(message, axis=tuple(range(len(sent))))
        message /= _replace_zeros(total)
        upward.messages[index] = message
    return upward


def _send_down(
    tree: JunctionTree, factors: Sequence[Array], upward: _Upward, wanted: Mapping[int, Sequence[Scope]]
) -> Iterator[tuple[int, Array, list[Array]]]:
    """Bring what the rest of the tree knows to every clique, parents first.

    Args:
        tree: of the cliques.
        factors: of the tree.
        upward: what was sent towards the roots.
        wanted: by position of a clique, variables of it whose joint law is wanted.

    Yields:
        (position of a clique; the law of what it shares with its parent; those that are wanted of it).
    """
    known: ByClique = {}
    children: list[list[int]] = [[] for _ in tree.cliques]
    for index, parent in enumerate(tree.parents):
        if parent >= 0:
            children[parent].append(index)
    for index in reversed(range(len(tree.cliques))):
        clique = tree.cliques[index]
        ratio = above = known.pop(index, np.ones(1, factors[0].dtype))
        if tree.barren[index]:
            views = _align_views(tree, index, factors, upward.messages, None)
        else:
            views = upward.views.pop(index)
            # What came up is taken out again, in its place; where it was zero the product is zero already.
            ratio = upward.messages.pop(index)
            np.divide(above, np.maximum(ratio, SMALLEST_NORMAL[ratio.dtype], out=ratio), out=ratio)
            ratio /= _replace_zeros(upward.totals[index])
        views.insert(-1, ratio[(None,) * (views[-1].ndim - ratio.ndim)])
        scopes = [*map(tree.separator, children[index]), *wanted.get(index, ())]
        sums = _sum_products(views, [[*map(clique.index, scope)] for scope in scopes])
        known.update(zip(children[index], sums, strict=False))
        yield index, above, sums[len(children[index]) :]


# --------------------------------------------------------------------------------------------------------- arithmetic


def _align_views(
    tree: JunctionTree,
    index: int,
    factors: Sequence[Array],
    messages: Mapping[int, Array],
    removed: list[Array] | None,
) -> list[Array]:
    """Align all that is multiplied in a clique with its axes, the last one of the clique's shape.

    Args:
        tree: of the clique.
        index: its position.
        factors: of the tree.
        messages: that have come up.
        removed: gets what partial products are divided by; None where the product sums to 1 and needs no scale.

    Returns:
        Two to five views, some of them products where there were more.
    """
    count, shape = len(factors), (*tree.shape(index), factors[0].shape[-1])
    views = [
        (factors[term.source] if term.source < count else messages[term.source - count]).transpose(term.axes)[
            term.index
        ]
        for term in tree.terms[index]
    ]
    if len(views) < 2:
        views.insert(0, np.ones((1,) * len(shape), factors[0].dtype))
    while (many := len(views) - FACTORS_PER_SCALE) > 1:
        first = slice(min(many, FACTORS_PER_SCALE + 1))  # no more than has to be: their product is stored
        product = reduce(np.multiply, views[first])
        if removed is not None:
            removed.append(_replace_zeros(np.maximum.reduce(product, axis=tuple(range(product.ndim - 1)))))
            product /= removed[-1]
        views[first] = [product]
    if views[-1].shape != shape:
        views[-1] = np.broadcast_to(views[-1], shape)
    return views


def _sum_products(views: Sequence[Array], kept: Sequence[Sequence[int]]) -> list[Array]:
    """Sum the product of arrays over all axes but some, for each of several choices of those.

    Args:
        views: at least two, of one number of axes, the draws last; the last one of the product's shape.
        kept: for each sum the axes that it keeps, in its order; the draws stay last.

    Returns:
        The sums, new arrays.
    """
    last = views[-1]
    if last.size <= SMALL_ENTRIES and last.ndim <= MOST_AXES:
        return _sum_block(views, [[*axes, last.ndim - 1] for axes in kept])
    order = [*sorted(range(last.ndim - 1), key=lambda axis: -last.strides[axis]), last.ndim - 1]
    views = [view.transpose(order) for view in views]
    shape = views[-1].shape
    depth = max(0, len(shape) - MOST_AXES)
    while math.prod(shape[depth:]) > BLOCK_ENTRIES and depth < len(shape) - 2:
        depth += 1
    # Sums lie in the order of memory, too: axes next to each other are then gone through as one.
    laid = [sorted(map(order.index, (*axes, order[-1]))) for axes in kept]
    sums = [np.zeros([shape[place] for place in places], last.dtype) for places in laid]
    inner = [[place - depth for place in places if place >= depth] for places in laid]
    for at in np.ndindex(shape[:depth]):
        block = [view[tuple(i if size > 1 else 0 for i, size in zip(at, view.shape, strict=False))] for view in views]
        for total, places, found in zip(sums, laid, _sum_block(block, inner), strict=True):
            part = total[tuple(at[place] for place in places if place < depth)]
            part += found
    return [
        total.transpose([*(places.index(order.index(axis)) for axis in axes), len(axes)])
        for total, places, axes in zip(sums, laid, kept, strict=True)
    ]


def _sum_block(views: Sequence[Array], kept: Sequence[Sequence[int]]) -> list[Array]:
    """The same for few entries, the draws among the axes that are kept; a single sum multiplies the last as it sums."""
    *smaller, last = views
    axes = range(last.ndim)
    if len(kept) == 1:
        return [np.asarray(np.einsum(reduce(np.multiply, smaller), axes, last, axes, kept[0]))]
    product = reduce(np.multiply, views)
    return [np.asarray(np.einsum(product, axes, own)) for own in kept]


def _replace_zeros(array: Array) -> Array:
    """The array with its zeros replaced by the smallest normal number, so that zero divided by it stays zero."""
    return np.maximum(array, SMALLEST_NORMAL[array.dtype])
