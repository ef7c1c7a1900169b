"""Made-up records under every draw, with the exact chance of one variable given all others: for laws out of reach.

Each draw has records of its own, from random numbers of its own, so that what their finite number leaves open is in
the spread of what is computed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from discreet.inference.sampling import PROBABILITIES_AT_ONCE
from discreet.model.tables import Tables
from discreet.util.arrays import Floats, Ints

Points = tuple[slice, dict[str, Ints], Floats]
"""Which draws; codes of their records by variable, shape `(draws, records)`; the chance of the second state, alike."""


def drawn_codes(cells: Tables, names: Iterable[str], records: int) -> Iterator[tuple[slice, dict[str, Ints]]]:
    """Records drawn from the network under every draw, parents before children, a chunk of draws at a time.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        names: of the variables that are wanted.
        records: for each draw.

    Returns:
        Chunks: which draws, and codes of their records by variable, shape `(draws, records)`, for the wanted variables
        and those before them. Equal for equal arguments.
    """
    network, draws, rng = cells.network, cells.draws or 1, np.random.default_rng(0)
    above = network.ancestors(names)
    nodes = [node for node in network.order if node in above]
    size = max(1, PROBABILITIES_AT_ONCE // (max(network.schema[node].size for node in nodes) * records))
    for start in range(0, draws, size):
        part = slice(start, min(start + size, draws))
        codes = dict[str, Ints]()
        for node in nodes:
            sums = np.cumsum(_look_up_rows(cells, node, codes, part, records), axis=-1)
            uniform = rng.random((*sums.shape[:-1], 1)) * sums[..., -1:]
            codes[node] = (uniform >= sums[..., :-1]).sum(axis=-1)
        yield part, codes


def drawn_points(cells: Tables, target: str, names: Iterable[str], records: int) -> Iterator[Points]:
    """Records as `drawn_codes` has them, and the chance of one variable of two states in each.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        target: of two states.
        names: of the variables that are wanted beside it.
        records: for each draw.

    Returns:
        Chunks. The chance of the target is given the states of all variables that were drawn, which are the wanted ones
        and those before them and the target: its mean over records that agree in the wanted ones is their own chance,
        with less error than drawn states have. Equal for equal arguments.
    """
    wanted = tuple(names)
    for part, codes in drawn_codes(cells, (*wanted, target), records):
        yield part, {name: codes[name] for name in wanted}, _compute_chance(cells, target, list(codes), codes, part)


def _look_up_rows(cells: Tables, node: str, codes: dict[str, Ints], part: slice, records: int) -> Floats:
    """The row of a node for each record, shape `(draws, records, states)`."""
    *sizes, states = cells.network.shape(node)
    drawn = cells[node][..., part]
    table = np.moveaxis(drawn.reshape(-1, states, drawn.shape[-1]), -1, 0)
    flat = np.zeros((len(table), records), np.int64)
    for name, size in zip(cells.network.parents[node], sizes, strict=True):
        flat = flat * size + codes[name]
    return table[np.arange(len(table))[:, None], flat]


def _compute_chance(cells: Tables, target: str, nodes: list[str], codes: dict[str, Ints], part: slice) -> Floats:
    """`P(target = second state | all others)`, shape `(draws, records)`."""
    network, records = cells.network, codes[target].shape[-1]
    logs = []
    for state in (0, 1):
        supposed = {**codes, target: np.full_like(codes[target], state)}
        total = np.zeros(codes[target].shape)
        for node in nodes:
            if target in network.family(node):
                rows = _look_up_rows(cells, node, supposed, part, records)
                with np.errstate(divide="ignore"):
                    total += np.log(np.take_along_axis(rows, supposed[node][..., None], axis=-1)[..., 0])
        logs.append(total)
    highest = np.maximum(*logs)
    first, second = (np.exp(log - highest) for log in logs)
    return np.asarray(second / (first + second))
