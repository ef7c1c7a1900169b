"""Kernels: planned sums and maxima over all draws at once, with the draws on the last axis of every array.

One message-passing algorithm serves every semiring, that is, every meaning of "times" and "plus". `PROBABILITIES`
multiplies and adds probabilities; `LOGARITHMS` adds their logarithms and sums by log-sum-exp, a few times slower but
without limits of range. All arrays of a pass have one precision. Messages and partial products are normalised, and the
logarithm of the divisors is accumulated in double precision. All draws of a chunk are processed together, because
reading parts of the rows of draws takes three times as long. Plans are made in `junction_tree.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from discreet.inference.junction_tree import JunctionTree
from discreet.model.schema import Scope
from discreet.util.arrays import Array, Floats, Ints

ByClique = dict[int, Array]
"""Arrays by position of the clique."""

FACTORS_PER_SCALE = 4
"""Number of factors that are multiplied before a partial product is divided by its largest entry: a clique may have
hundreds, and their plain product would underflow."""
SMALL_ENTRIES, BLOCK_ENTRIES = 2**17, 2**19
"""Products of up to SMALL_ENTRIES entries are summed whole, whatever their memory layout; larger ones in blocks of at
most BLOCK_ENTRIES (2 or 4 MiB), which stay in a cache."""
MOST_AXES = 50
"""Largest number of axes of a block; einsum has no letters for more."""
SMALLEST_NORMAL = {dtype(0).dtype: np.finfo(dtype).tiny for dtype in (np.float32, np.float64)}


# ---------------------------------------------------------------------------------------------------------- semirings


class Semiring(ABC):
    """Representation of numbers that are multiplied and added; monotone, so maxima are at the same place in all.

    Attributes:
        one: representation of 1.
        multiply: elementwise product of two arrays.
        divide: elementwise quotient of two arrays.
    """

    one: ClassVar[float]
    multiply: ClassVar[np.ufunc]
    divide: ClassVar[np.ufunc]

    @abstractmethod
    def write(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Convert arrays of probabilities to this semiring."""

    @abstractmethod
    def read(self, array: Array) -> Array:
        """Convert an array of this semiring to probabilities."""

    @abstractmethod
    def log(self, array: Array) -> Floats:
        """Compute logarithms of the probabilities that an array represents; -inf for zero."""

    @abstractmethod
    def replace_zeros(self, array: Array) -> Array:
        """Replace zeros in a divisor, so that zero divided by it stays zero."""

    @abstractmethod
    def add(self, array: Array, axes: tuple[int, ...]) -> Array:
        """Sum over some axes."""

    @abstractmethod
    def sum_products(self, views: Sequence[Array], outputs: Sequence[Sequence[int]]) -> list[Array]:
        """Sum the product of arrays to several outputs, each with axes of its own.

        Args:
            views: at least two arrays with the same number of axes, draws last, which broadcast to the shape of the
                last one.
            outputs: for each sum the axes that it keeps, in its order, without that of draws, which stays last. More
                than one output is allowed only if the product sums to 1 in each draw.

        Returns:
            The sums, new arrays.
        """


class Probabilities(Semiring):
    """Semiring of probabilities, in single or double precision.

    The product of a clique's operands is never stored as a whole: it is computed and summed block by block, within the
    cache, in the order in which its largest factor lies in memory.
    """

    one, multiply, divide = 1.0, np.multiply, np.divide

    def write(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Return the arrays unchanged; see `Semiring.write`."""
        return arrays

    def read(self, array: Array) -> Array:
        """Return the array unchanged; see `Semiring.read`."""
        return array

    def log(self, array: Array) -> Floats:
        """Compute logarithms; see `Semiring.log`."""
        with np.errstate(divide="ignore"):
            return np.log(array, dtype=np.float64)

    def replace_zeros(self, array: Array) -> Array:
        """Raise entries to the smallest normal number; see `Semiring.replace_zeros`."""
        return np.maximum(array, SMALLEST_NORMAL[array.dtype])

    def add(self, array: Array, axes: tuple[int, ...]) -> Array:
        """Sum over some axes; see `Semiring.add`."""
        return np.asarray(np.add.reduce(array, axis=axes))

    def sum_products(self, views: Sequence[Array], outputs: Sequence[Sequence[int]]) -> list[Array]:
        """Sum the product block by block with einsum; see `Semiring.sum_products`."""
        last = views[-1]
        if last.size <= SMALL_ENTRIES and last.ndim <= MOST_AXES:
            return _sum_block(views, [[*axes, last.ndim - 1] for axes in outputs])
        order = [*sorted(range(last.ndim - 1), key=lambda axis: -last.strides[axis]), last.ndim - 1]
        views = [view.transpose(order) for view in views]
        shape = views[-1].shape
        depth = max(0, len(shape) - MOST_AXES)
        while math.prod(shape[depth:]) > BLOCK_ENTRIES and depth < len(shape) - 2:
            depth += 1
        # Outputs have the axes in memory order, too: numpy then iterates over adjacent axes as one.
        laid = [sorted(map(order.index, (*axes, order[-1]))) for axes in outputs]
        sums = [np.zeros([shape[axis] for axis in places], last.dtype) for places in laid]
        inner = [[axis - depth for axis in places if axis >= depth] for places in laid]
        for at in np.ndindex(shape[:depth]):
            block = [
                view[tuple(i if size > 1 else 0 for i, size in zip(at, view.shape, strict=False))] for view in views
            ]
            for total, places, block_sum in zip(sums, laid, _sum_block(block, inner), strict=True):
                target = total[tuple(at[axis] for axis in places if axis < depth)]
                target += block_sum
        return [
            total.transpose([*(places.index(order.index(axis)) for axis in axes), len(axes)])
            for total, places, axes in zip(sums, laid, outputs, strict=True)
        ]


def _sum_block(views: Sequence[Array], outputs: Sequence[Sequence[int]]) -> list[Array]:
    """Sum a product of few entries by einsum; with several outputs the product is stored once.

    Args:
        views: arrays that broadcast to the shape of the last one, draws last.
        outputs: axes of each sum, that of draws included.
    """
    *smaller, last = views
    axes = range(last.ndim)
    if len(outputs) == 1:
        return [np.asarray(np.einsum(reduce(np.multiply, smaller), axes, last, axes, outputs[0]))]
    product = reduce(np.multiply, views)
    return [np.asarray(np.einsum(product, axes, output)) for output in outputs]


class Logarithms(Semiring):
    """Semiring of logarithms, in double precision, which do not underflow."""

    one, multiply, divide = 0.0, np.add, np.subtract

    def write(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """Compute logarithms in double precision; see `Semiring.write`."""
        with np.errstate(divide="ignore"):
            return [np.log(array, dtype=np.float64) for array in arrays]

    def read(self, array: Array) -> Array:
        """Compute exponentials; see `Semiring.read`."""
        return np.exp(array)

    def log(self, array: Array) -> Floats:
        """Return the array unchanged; see `Semiring.log`."""
        return array

    def replace_zeros(self, array: Array) -> Array:
        """Replace -inf by 0, the logarithm of 1; see `Semiring.replace_zeros`."""
        return np.where(np.isneginf(array), 0.0, array)

    def add(self, array: Array, axes: tuple[int, ...]) -> Array:
        """Sum over some axes by log-sum-exp, shifted by the largest entry; see `Semiring.add`."""
        if not axes:
            return array.copy()
        peak = self.replace_zeros(array.max(axis=axes, keepdims=True))
        with np.errstate(divide="ignore"):
            return np.asarray(peak.squeeze(axes) + np.log(np.exp(array - peak).sum(axis=axes)))

    def sum_products(self, views: Sequence[Array], outputs: Sequence[Sequence[int]]) -> list[Array]:
        """Sum the logarithms of the arrays and reduce by log-sum-exp; see `Semiring.sum_products`."""
        *smaller, last = views
        product = np.add(reduce(np.add, smaller), last, order="C")  # sums over long rows of draws are fast
        # Underflow is negligible in a law that sums to 1, so one exponential serves all its sums.
        law = np.exp(product) if len(outputs) > 1 else None
        others = [tuple(axis for axis in range(product.ndim - 1) if axis not in axes) for axes in outputs]
        sums = [self.add(product, out) if law is None else law.sum(axis=out) for out in others]
        return [
            total.transpose([*map(sorted(axes).index, axes), len(axes)])
            for axes, total in zip(outputs, sums if law is None else self.write(sums), strict=True)
        ]


PROBABILITIES, LOGARITHMS = Probabilities(), Logarithms()


# -------------------------------------------------------------------------------------------------------------- passes


@dataclass(frozen=True, eq=False)
class _Upward:
    """Messages sent towards the roots, and the sums at the roots; barren cliques are left out.

    Args:
        messages: normalised message of each clique to its parent; of a root the joint law of the targets that it
            contains.
        totals: sum of each message before it was normalised, shape `(draws,)`.
        removed: constant factors and divisors of partial products, shape `(draws,)` each.
        beliefs: product of each maximised clique with all cliques below it.
        views: aligned operands of each clique.
    """

    messages: ByClique
    totals: ByClique
    removed: list[Array]
    beliefs: ByClique
    views: dict[int, list[Array]]


@dataclass(frozen=True, eq=False)
class Pass:
    """Message passing over a chunk of draws.

    Args:
        ring: semiring of the computation.
        tree: tree planned for these factors.
        probabilities: factors, sliced at the observed states, shape `(*sizes of the scope, draws)`.
        draws: number of draws.
    """

    ring: Semiring
    tree: JunctionTree
    probabilities: Sequence[Array]
    draws: int

    @cached_property
    def factors(self) -> Sequence[Array]:
        """Factors in the representation of the semiring."""
        return self.ring.write(self.probabilities)

    def marginals(self, table: Array) -> Floats:
        """Compute the marginal of every variable by messages up and down the tree, and write them to a table in place.

        Args:
            table: output, shape `(states, draws)`: the states of one variable after the other, in the order of
                `tree.sizes`; undefined in draws in which the sum over all states is zero.

        Returns:
            Logarithm of the sum over all states, shape `(draws,)`; -inf where it is zero.
        """
        tree, add = self.tree, self.ring.add
        places = dict(zip(tree.sizes, accumulate(tree.sizes.values(), initial=0), strict=False))
        wanted: dict[int, list[Scope]] = {}
        for name, (index, separator, _) in tree.holders.items():
            if not separator:
                wanted.setdefault(index, []).append((name,))
        # Where float32 overflows, the evidence is so improbable that the caller does not use the result.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            upward = self._send_up()
            laws: dict[Scope, Array] = {}
            known: ByClique = {}
            for index, known[index], sums in self._send_down(upward, wanted):
                laws |= zip(wanted.get(index, ()), sums, strict=True)
            for name, (index, separator, others) in tree.holders.items():
                law = add(known[index], others) if separator else laws[name,]
                law = self.ring.read(self.ring.divide(law, add(law, (0,))))
                table[places[name] : places[name] + tree.sizes[name]] = law
        return self._log_sum(upward)

    def factor_margins(self, scopes: Sequence[Scope]) -> list[Array]:
        """Compute the joint law of every factor's variables by messages up and down the tree.

        No factor may be a constant, and each must be positive somewhere.

        Args:
            scopes: variables of each factor, in the order of its axes.

        Returns:
            For every factor an array of its shape that sums to 1 in each draw.
        """
        wanted: dict[int, list[Scope]] = {}
        for scope, home in zip(scopes, self.tree.homes, strict=True):
            wanted.setdefault(home, []).append(scope)
        margins: dict[Scope, Array] = {}
        for index, _, laws in self._send_down(self._send_up(), wanted):
            for scope, law in zip(wanted.get(index, ()), laws, strict=True):
                total = self.ring.add(law, tuple(range(law.ndim - 1)))
                margins[scope] = self.ring.read(self.ring.divide(law, self.ring.replace_zeros(total)))
        return [margins[scope] for scope in scopes]

    def joint(self, targets: Sequence[str]) -> tuple[Array, Floats]:
        """Compute the normalised joint law of some variables, and the logarithm of the sum over all states.

        Args:
            targets: the plan's targets; none for the sum alone.

        Returns:
            Joint law of the targets, shape `(*sizes, draws)`, zero in draws in which the sum is zero; logarithm of the
            sum, shape `(draws,)`, -inf where it is zero.
        """
        upward = self._send_up(targets)
        joint = self.ring.read(upward.messages[self.tree.top]) if targets else np.ones(self.draws)
        return joint, self._log_sum(upward)

    def most_probable(self) -> dict[str, Ints]:
        """Find the joint state of the targets with the largest sum over the other variables, for every draw.

        Returns:
            Codes of states by target, shape `(draws,)`; the first of equals, and zeros where all sums are zero.
        """
        tree, beliefs = self.tree, self._send_up().beliefs
        states: dict[str, Ints] = {}
        every = np.arange(self.draws)
        for index in range(len(tree.cliques) - 1, tree.maxima - 1, -1):
            separator = tree.separators[index]
            residual = tree.cliques[index][: len(tree.cliques[index]) - len(separator)]
            # Trace back from the roots: at the known states of the separator few entries are left to compare, so no
            # table of maximising states is stored on the way up.
            known: list[Any] = [states[name] for name in separator]
            entries = beliefs[index][(..., *known, every)]
            best = entries.reshape(-1, self.draws).argmax(axis=0)
            states.update(zip(residual, np.unravel_index(best, [tree.sizes[name] for name in residual]), strict=True))
        return states

    def log_of_states(self, candidates: Sequence[Mapping[str, int]]) -> Floats:
        """Compute the log of the sum over the other variables at given states of the targets, for every draw.

        Args:
            candidates: codes of the states of all targets.

        Returns:
            Shape `(candidates, draws)`; -inf where the sum is zero.
        """
        tree, count = self.tree, len(self.factors)
        upward = self._send_up(stop=tree.maxima)
        logs = np.empty((len(candidates), self.draws))
        logs[...] = self._log_sum(upward)
        terms = [term for terms in tree.terms[tree.maxima :] for term in terms]
        for start in range(0, len(terms), FACTORS_PER_SCALE):
            values = np.full(logs.shape, self.ring.one)
            for term in terms[start : start + FACTORS_PER_SCALE]:
                if term.source - count < tree.maxima:  # messages of maximised cliques repeat other terms
                    array = self._find_operand(term.source, upward.messages)
                    at = tuple([states[name] for states in candidates] for name in term.scope)
                    self.ring.multiply(values, array[at], out=values)
            logs += self.ring.log(values)
        return logs

    # ------------------------------------------------------------------------------------------------------- messages

    def _log_sum(self, upward: _Upward) -> Floats:
        """Compute the logarithm of the sum over all states; -inf where it is zero."""
        terms = [*upward.removed, *upward.totals.values()]
        return np.asarray(self.ring.log(np.stack(terms)).sum(axis=0)) if terms else np.zeros(self.draws)

    def _find_operand(self, source: int, messages: Mapping[int, Array]) -> Array:
        """Return the factor or the message that a term refers to."""
        count = len(self.factors)
        return self.factors[source] if source < count else messages[source - count]

    def _send_up(self, targets: Sequence[str] = (), stop: int | None = None) -> _Upward:
        """Send the messages of all cliques, or of those before position `stop`, to their parents (collect phase).

        Args:
            targets: variables that the top clique keeps.
            stop: position of the first clique that sends no message.
        """
        tree, ring = self.tree, self.ring
        constants = [factor for factor, home in zip(self.factors, tree.homes, strict=True) if home < 0]
        upward = _Upward({}, {}, constants, {}, {})
        for index, clique in enumerate(tree.cliques[:stop]):
            if tree.barren[index]:
                continue
            views = upward.views[index] = self._align_views(index, upward.messages, upward.removed)
            sent = targets if index == tree.top else tree.separators[index]
            if index < tree.maxima:
                (message,) = ring.sum_products(views, [[*map(clique.index, sent)]])
            else:
                (upward.beliefs[index],) = ring.sum_products(views, [range(len(clique))])
                message = np.maximum.reduce(upward.beliefs[index], axis=tuple(range(len(clique) - len(sent))))
            upward.totals[index] = total = ring.add(message, tuple(range(len(sent))))
            upward.messages[index] = ring.divide(message, ring.replace_zeros(total), out=message)
        return upward

    def _send_down(
        self, upward: _Upward, wanted: Mapping[int, Sequence[Scope]]
    ) -> Iterator[tuple[int, Array, list[Array]]]:
        """Send messages from the roots to every clique, parents first (distribute phase).

        Messages and views of `upward` are consumed.

        Args:
            upward: messages sent towards the roots.
            wanted: by position of a clique, sets of its variables whose joint law is computed.

        Yields:
            Position of a clique; unnormalised law of the variables it shares with its parent; laws of its wanted sets.
        """
        tree, ring = self.tree, self.ring
        known: ByClique = {}
        children: list[list[int]] = [[] for _ in tree.cliques]
        for index, parent in enumerate(tree.parents):
            if parent >= 0:
                children[parent].append(index)
        for index in reversed(range(len(tree.cliques))):
            clique = tree.cliques[index]
            ratio = above = known.pop(index, np.full(1, ring.one, self.factors[0].dtype))
            if tree.barren[index]:
                views = self._align_views(index, upward.messages, None)
            else:
                views = upward.views.pop(index)
                # Divide out the clique's own message, in place; where that was zero the product is zero already.
                ratio = ring.replace_zeros(upward.messages.pop(index))
                ring.divide(above, ratio, out=ratio)
                ring.divide(ratio, ring.replace_zeros(upward.totals[index]), out=ratio)
            views.insert(-1, ratio[(None,) * (views[-1].ndim - ratio.ndim)])
            scopes = [*map(tree.separators.__getitem__, children[index]), *wanted.get(index, ())]
            sums = ring.sum_products(views, [[*map(clique.index, scope)] for scope in scopes])
            known.update(zip(children[index], sums, strict=False))
            yield index, above, sums[len(children[index]) :]

    def _align_views(self, index: int, messages: Mapping[int, Array], removed: list[Array] | None) -> list[Array]:
        """Align the operands of a clique with its axes; the last view has the clique's shape.

        Partial products are formed until at most five views are left.

        Args:
            index: position of the clique.
            messages: messages received from below.
            removed: list to which the divisors of partial products are appended; None if the product sums to 1 and
                needs no scaling.

        Returns:
            Two to five views; some are products of several operands.
        """
        ring, shape = self.ring, (*self.tree.shapes[index], self.draws)
        views = [
            self._find_operand(term.source, messages).transpose(term.axes)[term.index]
            for term in self.tree.terms[index]
        ]
        if len(views) < 2:
            views.insert(0, np.full((1,) * len(shape), ring.one, self.factors[0].dtype))
        while (many := len(views) - FACTORS_PER_SCALE) > 1:
            first = slice(min(many, FACTORS_PER_SCALE + 1))  # no more than necessary, because the product is stored
            product = reduce(ring.multiply, views[first])
            if removed is not None:
                removed.append(ring.replace_zeros(np.maximum.reduce(product, axis=tuple(range(product.ndim - 1)))))
                product = ring.divide(product, removed[-1], out=product)
            views[first] = [product]
        if views[-1].shape != shape:
            views[-1] = np.broadcast_to(views[-1], shape)
        return views
