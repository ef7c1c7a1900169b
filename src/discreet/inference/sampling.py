"""Ancestral sampling: synthetic records from the probabilities of a network, as codes of states.

Of one table of probabilities (`sample_codes`), or under every draw (`drawn_codes`), each with random numbers of its
own, so that what a finite number of records leaves open is in the spread of what is computed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats, Ints

Rows = Callable[[str, Mapping[str, Array]], Array]
"""A function of a node and the codes of earlier nodes: cumulated probabilities of each record's row, shape
(records, states), or one row for all records."""
Points = tuple[slice, dict[str, Ints], Floats]
"""A slice of draws; codes of their records by variable, shape `(draws, records)`; P(second state), same shape."""

PROBABILITIES_AT_ONCE = 2**22
"""Largest number of probabilities that are looked up at once: 32 MiB."""


def sample_codes(theta: Tables, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Draw independent records from a network, parents before children, as positions of states.

    Args:
        theta: probabilities, axes `(*parents, child)`.
        n: number of records.
        rng: source of randomness; these records are made up, not private.

    Returns:
        For every node, in topological order, int64 codes, shape `(n,)`.

    Raises:
        InputError: a negative number of records.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [0.0, 1.0], "b": [[1.0, 0.0], [0.0, 1.0]]})
        >>> {node: codes.tolist() for node, codes in sample_codes(theta, 3, np.random.default_rng(0)).items()}
        {'a': [1, 1, 1], 'b': [1, 1, 1]}
    """
    check_number(n)
    return draw_codes(theta.network, _cumulate_rows(theta), n, rng)


def check_number(n: int, block: int = 1) -> None:
    """Refuse an invalid number of records, in total or of a block.

    Raises:
        InputError: a negative number of records, or blocks of none.

    Example:
        >>> check_number(-1)
        Traceback (most recent call last):
        discreet.errors.InputError: cannot sample -1 records
    """
    if n < 0:
        raise InputError(f"cannot sample {n} records")
    if not block > 0:
        raise InputError(f"a block needs at least one record, got {block}")


def draw_codes(network: Network, rows: Rows, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Draw records node by node; a state of probability 0 is never drawn.

    Args:
        network: whose nodes are drawn, in its order.
        rows: see `Rows`.
        n: number of records.
        rng: source of randomness.

    Returns:
        For every node, in topological order, int64 codes, shape `(n,)`.
    """
    codes: dict[str, Array] = {}
    for node in network.order:
        codes[node] = draw_node(network, node, rows, codes, n, rng)
    return codes


def draw_node(
    network: Network, node: str, rows: Rows, codes: Mapping[str, Array], n: int, rng: np.random.Generator
) -> Array:
    """Draw one column of records, given the codes of those before: int64, shape `(n,)`."""
    uniform, drawn = rng.random(n), np.zeros(n, np.int64)
    step = max(1, PROBABILITIES_AT_ONCE // network.schema[node].size)
    for start in range(0, n, step):
        chunk = slice(start, start + step)
        sums = rows(node, codes if n <= step else {name: column[chunk] for name, column in codes.items()})
        places, below = uniform[chunk] * sums[..., -1], drawn[chunk]
        # State by state: a sum over so short an axis takes several times as long.
        for state in range(sums.shape[-1] - 1):
            below += places >= sums[..., state]
    return drawn


def _cumulate_rows(theta: Tables) -> Rows:
    """Cumulate the probabilities of each row."""
    network = theta.network
    sums = Tables(network, lambda node: np.cumsum(theta[node], axis=-1))

    def rows(node: str, codes: Mapping[str, Array]) -> Array:
        parents, table = network.parents[node], sums[node]
        if not parents:
            return table
        # Many times as fast as an index for each axis.
        places = np.ravel_multi_index([codes[parent] for parent in parents], table.shape[:-1])
        return table.reshape(-1, table.shape[-1]).take(places, axis=0)

    return rows


# ------------------------------------------------------------------------------------------------ under every draw


def drawn_codes(cells: Tables, names: Iterable[str], records: int) -> Iterator[tuple[slice, dict[str, Ints]]]:
    """Draw records from the network under every draw, parents before children, a chunk of draws at a time.

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
        chunk = slice(start, min(start + size, draws))
        codes = dict[str, Ints]()
        for node in nodes:
            sums = np.cumsum(_look_up_rows(cells, node, codes, chunk, records), axis=-1)
            uniform = rng.random((*sums.shape[:-1], 1)) * sums[..., -1:]
            codes[node] = (uniform >= sums[..., :-1]).sum(axis=-1)
        yield chunk, codes


def drawn_points(cells: Tables, target: str, names: Iterable[str], records: int) -> Iterator[Points]:
    """Draw records like `drawn_codes`, with the conditional probability of a binary variable in each.

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
    for chunk, codes in drawn_codes(cells, (*wanted, target), records):
        yield chunk, {name: codes[name] for name in wanted}, _compute_chance(cells, target, list(codes), codes, chunk)


def _look_up_rows(cells: Tables, node: str, codes: dict[str, Ints], chunk: slice, records: int) -> Floats:
    """Look up the row of a node for each record, shape `(draws, records, states)`."""
    *sizes, states = cells.network.shape(node)
    drawn = cells[node][..., chunk]
    table = np.moveaxis(drawn.reshape(-1, states, drawn.shape[-1]), -1, 0)
    flat = np.zeros((len(table), records), np.int64)
    for name, size in zip(cells.network.parents[node], sizes, strict=True):
        flat = flat * size + codes[name]
    return table[np.arange(len(table))[:, None], flat]


def _compute_chance(cells: Tables, target: str, nodes: list[str], codes: dict[str, Ints], chunk: slice) -> Floats:
    """Compute `P(target = second state | all others)`, shape `(draws, records)`."""
    network, records = cells.network, codes[target].shape[-1]
    logs = []
    for state in (0, 1):
        supposed = {**codes, target: np.full_like(codes[target], state)}
        total = np.zeros(codes[target].shape)
        for node in nodes:
            if target in network.family(node):
                rows = _look_up_rows(cells, node, supposed, chunk, records)
                with np.errstate(divide="ignore"):
                    total += np.log(np.take_along_axis(rows, supposed[node][..., None], axis=-1)[..., 0])
        logs.append(total)
    highest = np.maximum(*logs)
    first, second = (np.exp(log - highest) for log in logs)
    return np.asarray(second / (first + second))
