"""What was measured, as chains over records take it: sums of what each record adds, with the law of their noise."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Floats, Ints

INSIDE_SHARE, LEAST_NATS = 0.25, 1.5
"""Share of the sweeps in which all rounded numbers are where they must be, if their errors were independent, and nats
that a chain loses at least for each record by which one is off: with four cells in two tables 16 times fewer sweeps
mix with 1.5 or 2 than with 3."""


@dataclass(frozen=True, eq=False)
class Sums:
    """A table of the records that was released with noise.

    Args:
        scope: names of nodes, and of memberships of a sample.
        owner: position of the data set.
        released: statistics with noise, any shape.
        weights: what a record in each cell adds to each statistic, sparse: (cell, statistic, amount).
        scale: of the noise; of rounding that of the law beyond.
        within: how far rounding moves a statistic; None of other noise.
        power: of the distance in the exponent of its law, 1 or 2.
        shared: variables that the tables of its star share; none where its noise is independent.
        star: what tells its star from others.
    """

    scope: Scope
    owner: int
    released: Ints | Floats
    weights: Sequence[tuple[int, int, float]]
    scale: float
    within: float | None
    power: int
    shared: Scope = ()
    star: Hashable = None


def crossing_nats(parts: Iterable[Measurement]) -> float:
    """Nats that chains lose for each record by which a number is off beyond its rounding: they cross there, not often.

    An error of whole records that costs x each is 0 with probability tanh(x / 2).

    Args:
        parts: all that is read.

    Example:
        >>> crossing_nats([])  # nothing was rounded
        1.5
    """
    count = sum(part.values.size for part in parts if part.noise is not None and part.noise.reach is not None)
    return max(2 * math.atanh(INSIDE_SHARE ** (1 / max(count, 1))), LEAST_NATS)


def read_sums(
    network: Network, part: Measurement, place: tuple[int, int], members: dict[str, float], nats: float
) -> Sums:
    """Read a measurement as sums; notes the membership of a sample that it needs, with its probability.

    Args:
        network: for the sizes.
        part: of the evidence, with noise.
        place: positions of its data set, and of its release in it.
        members: probabilities of the memberships that were noted before; changed.
        nats: of `crossing_nats`.
    """
    weights, scope, law = _list_weights(network, part), part.scope, part.noise
    assert law is not None
    if part.sampling is not None:
        member = f"member {len(members)}"
        while member in network.schema:
            member += "'"
        members[member] = part.sampling
        # The membership is the last axis: 0 is out of the sample.
        scope, weights = (*scope, member), [(2 * cell + 1, statistic, amount) for cell, statistic, amount in weights]
    scale = law.scale if law.reach is None else float(np.median([abs(amount) for *_, amount in weights])) / nats
    found = Sums(scope, place[0], part.values, weights, scale, law.reach, law.power)
    if part.star is None:
        return found
    if part.sampling is not None:
        raise InputError("the joint posterior reads stars of all records, and one has tables of samples")
    return replace(found, shared=part.star.shared, star=(*place, part.star.scopes))


def _list_weights(network: Network, part: Measurement) -> Sequence[tuple[int, int, float]]:
    """List what a record in each cell adds to each number: (cell, number, amount)."""
    sizes = [network.schema[name].size for name in part.scope]
    if part.weights is not None:
        rows = part.weights.reshape(part.values.size, -1)
        return [(int(cell), int(number), float(rows[number, cell])) for number, cell in np.argwhere(rows)]
    return _list_contrast_weights(sizes) if part.contrasts else [(cell, cell, 1) for cell in range(math.prod(sizes))]


def _list_contrast_weights(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """List what a record adds to contrasts: state k adds to that of k with k + 1, takes from k - 1 with k."""
    shape = tuple(size - 1 for size in sizes)
    weights = []
    for cell, states in enumerate(product(*map(range, sizes))):
        near = [[(k - 1, -1)] * (k > 0) + [(k, 1)] * (k < size - 1) for k, size in zip(states, sizes, strict=True)]
        for picked in product(*near):
            place = np.ravel_multi_index([k for k, _ in picked], shape) if shape else 0
            weights.append((cell, int(place), math.prod(sign for _, sign in picked)))
    return weights
