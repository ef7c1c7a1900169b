"""One joint law for every draw: a product of factors on a tree of cliques, raked to given margins.

    p_s(x)  ~  prod_k factor_k[x_k, s],  then scaled by  target_t[x_t, s] / p_s(x_t)  in turn, again and again,

which converges to the law closest in relative entropy to the product among all laws with the margins (Csiszar, 1975),
if there is one. Each clique stores the margin of its variables, a belief. A tour walks the tree depth first, scales the
belief of each clique to its targets, and sends one message to the next clique and one back, so a whole round costs two
messages for each clique (Jirousek and Preucil, 1995, "On the effective implementation of the iterative proportional
fitting procedure"). Messages are those of Jensen, Lauritzen and Olesen (1990): the sender's margin of the shared
variables divided by its last value.

The law is returned as rows: the probabilities of each variable given the earlier ones of its clique, so that it is a
network like any other, if wider. The last message from a clique's parent is a function of the rows' conditions alone
and does not change the rows: after the last tour no messages have to be sent down the tree.

All draws of a chunk are processed together, on the last axis of every array, in float32, in chunks that fit into a
cache.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType

import numpy as np

from discreet.inference.clique_tours import CliqueTree, Place, TourPlan, plan_tours
from discreet.model.schema import Scope
from discreet.util.arrays import Array, Floats

Named = tuple[Scope, Array]
"""Variables, and an array with an axis for each, in their order, and one of draws."""

SMALLEST_NORMAL = np.finfo(np.float32).tiny
"""Smallest normal number of single precision: smaller values count as 0, and denominators are raised to it."""
LEAST_MISFIT = 1e-6
"""Distance of a law to its targets that counts as 0 in single precision."""
LEAST_GAIN = 0.01
"""Least relative decrease of the misfit by a tour for another tour: contradictory targets are not met better by more
tours."""
FACTORS_PER_SCALE = 4
"""Number of factors of at most 1 that are multiplied before their product is divided by its largest entry, so that it
does not underflow."""
CHUNK_VALUES = 2**20
"""Values of the largest clique in a chunk: 4 MiB."""
LEAST_CHUNK = 512
"""Least number of draws in a chunk: with fewer, numpy's loops cost more than the arithmetic."""


@dataclass(frozen=True, eq=False)
class FittedLaws:
    """Fitted law of every draw, as rows of a network.

    Args:
        rows: by variable, conditions before the variables that depend on them: the variables it is conditioned on, and
            its probabilities given these, shape `(*sizes of the conditions, size, draws)`, float32. Rows with an
            impossible condition are uniform.
        misfit: for each tour, the largest L1 distance of a target to the margin before it was scaled, averaged over
            draws.
    """

    rows: Mapping[str, Named]
    misfit: Floats


def fit_laws(tree: CliqueTree, factors: Sequence[Named], targets: Sequence[Named], *, tours: int = 8) -> FittedLaws:
    """Fit the law of every draw to target margins by proportional fitting on a tree of cliques; return it as rows.

    Args:
        tree: tree of cliques; one of them contains each factor's and each target's variables.
        factors: non-negative arrays of any scale; the last axis, of draws, may have length 1: equal in all draws.
        targets: probabilities that sum to 1. If targets of a clique contradict each other, the last one is met.
        tours: largest number of tours; fitting stops when a tour reduces the misfit by less than 1 %.

    Returns:
        The laws. A cell that is 0 in the product of the factors stays 0. In a draw in which a target has probability
        only on such cells, this target is skipped.

    Raises:
        ValueError: no clique contains a scope.

    Example:
        >>> tree = CliqueTree.of([("a", "b")], {"a": 2, "b": 2})
        >>> independent = [(("a", "b"), np.full((2, 2, 1), 0.25))]
        >>> laws = fit_laws(tree, independent, [(("b",), np.array([[0.9], [0.1]]))])
        >>> laws.rows["b"][0], laws.rows["b"][1][0, :, 0].astype(float).round(3).tolist()
        (('a',), [0.9, 0.1])
    """
    plan = plan_tours(tree, [scope for scope, _ in factors], [scope for scope, _ in targets])
    draws = max((array.shape[-1] for _, array in (*factors, *targets)), default=1)
    chunks = [_Chunk(plan, _pick_draws(factors, at), _pick_draws(targets, at)) for at in _split_draws(tree, draws)]
    misfits = list[float]()
    while targets and len(misfits) < tours:
        misfits.append(sum(float(chunk.tour().sum(dtype=np.float64)) for chunk in chunks) / draws)
        # The first misfit is that of the unfitted law, so the gain of a tour is known from the third on.
        if misfits[-1] < LEAST_MISFIT or (len(misfits) > 2 and misfits[-1] > (1 - LEAST_GAIN) * misfits[-2]):
            break
    return FittedLaws(MappingProxyType(_read_rows(tree, plan, chunks)), np.array(misfits))


def _split_draws(tree: CliqueTree, draws: int) -> list[slice]:
    """Split the draws into consecutive chunks of about equal size.

    A chunk has at most CHUNK_VALUES values of the largest clique, or LEAST_CHUNK draws if that is more; all draws are
    one chunk if they are fewer.
    """
    most = max(LEAST_CHUNK, CHUNK_VALUES // max(map(math.prod, map(tree.shape, range(len(tree.cliques)))), default=1))
    ends = np.linspace(0, draws, math.ceil(draws / most) + 1).round().astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(ends)]


def _pick_draws(named: Sequence[Named], at: slice) -> list[Array]:
    """Select a slice of draws of every array; an array that is equal in all draws stays."""
    return [array[..., at] if array.shape[-1] > 1 else array for _, array in named]


@dataclass(frozen=True, eq=False)
class _Margin:
    """Margin of a clique's belief, computed from it by sums or multiplied into it.

    Args:
        belief: belief of the clique, a view with merged axes, draws last.
        summed: axes of this view that the table lacks.
        spread: shape of the table, 1 on these axes, draws last.
    """

    belief: Array
    summed: tuple[int, ...]
    spread: tuple[int, ...]

    def read(self, out: Array) -> None:
        """Sum the belief and write the margin to `out`, shape (cells, draws)."""
        np.add.reduce(self.belief, axis=self.summed, out=out.reshape(self.spread), keepdims=True)

    def scale(self, ratio: Array) -> None:
        """Multiply the belief by a table, in place."""
        np.multiply(self.belief, ratio.reshape(self.spread), out=self.belief)


@dataclass(frozen=True, eq=False)
class _Message:
    """Message from one clique to a neighbour.

    Args:
        sender: margin of the shared variables in the sender.
        receiver: the same margin in the receiver.
        sent: array to which the sent margin is written, shape (cells, draws).
        last: margin sent last in the opposite direction, which is the receiver's own; same shape.
        ratio: working memory, same shape.
    """

    sender: _Margin
    receiver: _Margin
    sent: Array
    last: Array
    ratio: Array

    def take(self) -> None:
        """Multiply the receiver's belief by the sender's margin divided by the receiver's, in place."""
        self.sender.read(self.sent)
        np.maximum(self.last, SMALLEST_NORMAL, out=self.ratio)
        np.divide(self.sent, self.ratio, out=self.ratio)
        self.receiver.scale(self.ratio)


@dataclass(frozen=True, eq=False)
class _CliqueTarget:
    """Target margin to which a clique is scaled.

    Args:
        margin: margin of the target's variables in the clique.
        wanted: target probabilities, shape (cells, draws).
        worst: largest misfit of each draw so far, shape (draws,); updated in place.
        ratio: working memory, shape (cells, draws).
        distance: working memory, shape (cells, draws).
    """

    margin: _Margin
    wanted: Array
    worst: Array
    ratio: Array
    distance: Array

    def take(self) -> None:
        """Scale the clique's belief to the target in place, and update the largest misfit."""
        self.margin.read(self.ratio)
        np.subtract(self.wanted, self.ratio, out=self.distance)
        misfit = np.add.reduce(np.abs(self.distance, out=self.distance), axis=0)
        np.maximum(self.worst, misfit, out=self.worst)
        wanted = self.wanted
        if self.ratio.min(initial=1) < SMALLEST_NORMAL:
            # Where the law is 0, the target's probability is redistributed to its other cells. A target that lies
            # entirely on such cells is skipped.
            wanted = wanted * (self.ratio >= SMALLEST_NORMAL)
            total = np.add.reduce(wanted, axis=0)
            wanted = np.where(total >= SMALLEST_NORMAL, wanted / np.maximum(total, SMALLEST_NORMAL), self.ratio)
        np.maximum(self.ratio, SMALLEST_NORMAL, out=self.ratio)
        np.divide(wanted, self.ratio, out=self.ratio)
        self.margin.scale(self.ratio)


class _Chunk:
    """Beliefs of a chunk of draws, and the steps of a tour; memory is allocated once.

    Args:
        plan: plan of the tour.
        factors: factors of these draws; the last axis may have length 1.
        targets: targets of these draws; the last axis may have length 1.
    """

    def __init__(self, plan: TourPlan, factors: Sequence[Array], targets: Sequence[Array]) -> None:
        self._plan = plan
        self.draws = max((array.shape[-1] for array in (*factors, *targets)), default=1)
        self.beliefs = [
            _multiply((*plan.shapes[index], self.draws), [(plan.factors[k], factors[k]) for k in indices])
            for index, indices in enumerate(plan.by_clique)
        ]
        most = max((place.cells for place in (*plan.below.values(), *plan.targets)), default=0)
        self._memory = self._allocate(2, most)
        self._sent = {index: self._allocate(2, place.cells) for index, place in plan.below.items()}
        self._worst = np.empty(self.draws, np.float32)
        self._collect()
        self._steps = [
            self._fit(plan.targets[index], targets[index]) if kind == "fit" else self._message(index, kind == "up")
            for kind, index in plan.steps
        ]

    def tour(self) -> Array:
        """Run every step once, changing the beliefs; return the largest misfit of each draw."""
        self._worst.fill(0)
        for step in self._steps:
            step.take()
        return self._worst

    def _allocate(self, *shape: int) -> Array:
        """Allocate a table with a last axis for these draws."""
        return np.empty((*shape, self.draws), np.float32)

    def _collect(self) -> None:
        """Send a first message up from every clique, scaled but not normalised.

        The first message down normalises each clique.
        """
        received = Counter[int]()
        for index in reversed(self._plan.order):
            belief = self.beliefs[index].reshape(-1, self.draws)
            if index not in self._plan.below:
                belief /= np.maximum(np.add.reduce(belief, axis=0), SMALLEST_NORMAL)
                continue
            sent, above = self._sent[index][0], self._plan.above[index]
            self._margin(self._plan.below[index]).read(sent)
            self._margin(above).scale(_scale(sent.copy()))
            received[above.clique] += 1
            if received[above.clique] % FACTORS_PER_SCALE == 0:
                _scale(self.beliefs[above.clique])

    def _margin(self, place: Place) -> _Margin:
        """Return the margin of a table's variables in its clique's belief."""
        belief = self.beliefs[place.clique].reshape(*place.merged, self.draws)
        return _Margin(belief, place.summed, (*place.spread, self.draws))

    def _message(self, index: int, up: bool) -> _Message:
        """Prepare the message along the edge above a clique, up or down."""
        below, above = self._margin(self._plan.below[index]), self._margin(self._plan.above[index])
        upward, downward = self._sent[index]
        ratio = self._memory[0, : len(upward)]
        if up:
            return _Message(below, above, upward, downward, ratio)
        return _Message(above, below, downward, upward, ratio)

    def _fit(self, place: Place, target: Array) -> _CliqueTarget:
        """Prepare the step that scales a clique to a target, with the target in the clique's axis order."""
        wanted = self._allocate(*(target.shape[axis] for axis in place.order[:-1]))
        np.copyto(wanted, target.transpose(place.order), casting="same_kind")
        ratio, distance = self._memory[:, : place.cells]
        return _CliqueTarget(self._margin(place), wanted.reshape(-1, self.draws), self._worst, ratio, distance)


def _multiply(shape: tuple[int, ...], factors: Sequence[tuple[Place, Array]]) -> Array:
    """Multiply factors, the smallest first, up to a scale in each draw.

    Args:
        shape: shape of their clique's belief, draws last.
        factors: alignment and array of each factor.

    Returns:
        The belief.
    """
    product: Array = np.ones((1,) * len(shape), np.float32)
    for count, (place, array) in enumerate(factors, 1):
        peak = array.max(axis=tuple(range(array.ndim - 1)))
        scaled = np.empty(array.shape, np.float32)
        np.divide(array, np.where(peak > 0, peak, 1), out=scaled, casting="same_kind")
        # Contiguous in the order of the clique's axes: views of beliefs with merged axes must not copy them.
        product = np.multiply(product, scaled.transpose(place.order).reshape(*place.aligned, -1), order="C")
        if count % FACTORS_PER_SCALE == 0 or count == len(factors):
            _scale(product)
    if product.shape == shape:
        return product
    belief = np.empty(shape, np.float32)
    np.copyto(belief, product)
    return belief


def _scale(table: Array) -> Array:
    """Divide a table in place by its largest entry in each draw; return it."""
    table /= np.maximum(np.maximum.reduce(table.reshape(-1, table.shape[-1]), axis=0), SMALLEST_NORMAL)
    return table


def _read_rows(tree: CliqueTree, plan: TourPlan, chunks: Sequence[_Chunk]) -> dict[str, Named]:
    """Compute the probabilities of every variable given the earlier ones of its clique, from the beliefs.

    Args:
        tree: tree of cliques.
        plan: plan of the tour.
        chunks: fitted beliefs of all draws.

    Returns:
        By variable, its conditions (the earlier variables of its clique) and its rows, as in `FittedLaws`.
    """
    rows: dict[str, Named] = {}
    draws = [chunk.draws for chunk in chunks]
    starts = [0, *accumulate(draws)]
    for index, names in enumerate(tree.cliques):
        shape, first = tree.shape(index), len(tree.shared(index))
        arrays = [np.empty((*shape[: axis + 1], starts[-1]), np.float32) for axis in range(first, len(names))]
        for chunk, start in zip(chunks, starts, strict=False):
            law = chunk.beliefs[index].transpose([*map(plan.layouts[index].index, names), len(names)])
            for array in reversed(arrays):
                law = _condition(law, array[..., start : start + chunk.draws])
        rows |= {names[axis]: (names[:axis], array) for axis, array in enumerate(arrays, first)}
    return rows


def _condition(law: Array, out: Array) -> Array:
    """Condition a law on all variables except its last one.

    Args:
        law: shape `(*sizes, draws)`.
        out: array to which the rows are written, same shape; uniform where the condition is impossible.

    Returns:
        The law of the other variables.
    """
    rest: Array = np.add.reduce(law, axis=-2)
    np.divide(law, np.maximum(rest, SMALLEST_NORMAL)[..., None, :], out=out)
    if rest.min(initial=1) < SMALLEST_NORMAL:
        np.copyto(out, 1 / out.shape[-2], where=(rest < SMALLEST_NORMAL)[..., None, :])
    return rest
