"""Ancestral sampling: synthetic records from the probabilities of a network, as codes of states.

Records are drawn from one table of probabilities (`sample_codes`) or under every draw (`drawn_codes`), each draw with
random numbers of its own, so that the spread of statistics over draws includes the sampling variance of the finite
number of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats, Ints

Rows = Callable[[str, Mapping[str, Array]], Array]
"""Function of a node and the codes of earlier nodes that returns cumulative probabilities of each record's row, shape
(records, states), or one row for all records."""
Points = tuple[slice, dict[str, Ints], Floats]
"""A slice of draws; codes of their records by variable, shape `(draws, records)`; P(second state of the target), same
shape."""

PROBABILITIES_AT_ONCE = 2**22
"""Largest number of probabilities that are looked up at once: 32 MiB."""


def sample_codes(theta: Tables, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Draw independent records from a network by ancestral sampling, as positions of states.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        n: number of records.
        rng: source of randomness; the records are simulated, not private.

    Returns:
        Codes by node, in topological order, int64, shape `(n,)`.

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
    """Raise an error for an invalid number of records, in total or of a block.

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
        network: network whose nodes are drawn, in topological order.
        rows: function that looks up cumulative probabilities; see `Rows`.
        n: number of records.
        rng: source of randomness.

    Returns:
        Codes by node, in topological order, int64, shape `(n,)`.
    """
    codes: dict[str, Array] = {}
    for node in network.order:
        codes[node] = draw_node(network, node, rows, codes, n, rng)
    return codes


def draw_node(
    network: Network, node: str, rows: Rows, codes: Mapping[str, Array], n: int, rng: np.random.Generator
) -> Array:
    """Draw one column of records given the codes of earlier nodes, by inversion.

    Args:
        network: network of the node.
        node: node to draw.
        rows: function that looks up cumulative probabilities; see `Rows`.
        codes: codes of earlier nodes, shape `(n,)` each.
        n: number of records.
        rng: source of randomness.

    Returns:
        Codes, int64, shape `(n,)`.
    """
    uniform, drawn = rng.random(n), np.zeros(n, np.int64)
    step = max(1, PROBABILITIES_AT_ONCE // network.schema[node].size)
    for start in range(0, n, step):
        chunk = slice(start, start + step)
        sums = rows(node, codes if n <= step else {name: column[chunk] for name, column in codes.items()})
        places, below = uniform[chunk] * sums[..., -1], drawn[chunk]
        # Count the cumulative sums below U, state by state: numpy's sum over so short an axis is several times slower.
        for state in range(sums.shape[-1] - 1):
            below += places >= sums[..., state]
    return drawn


def _cumulate_rows(theta: Tables) -> Rows:
    """Return a function that looks up the cumulative probabilities of records' rows (`Rows`).

    Tables are cumulated at their first use. For a node without parents the function returns its one row.
    """
    network = theta.network
    sums = Tables(network, lambda node: np.cumsum(theta[node], axis=-1))

    def rows(node: str, codes: Mapping[str, Array]) -> Array:
        parents, table = network.parents[node], sums[node]
        if not parents:
            return table
        # One flat index is many times faster than an index for each axis.
        places = np.ravel_multi_index([codes[parent] for parent in parents], table.shape[:-1])
        return table.reshape(-1, table.shape[-1]).take(places, axis=0)

    return rows


# ------------------------------------------------------------------------------------------------ under every draw


def drawn_codes(cells: Tables, names: Iterable[str], records: int) -> Iterator[tuple[slice, dict[str, Ints]]]:
    """Draw records under every posterior draw by ancestral sampling, yielding a chunk of draws at a time.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        names: wanted variables; their ancestors are drawn, too.
        records: number of records for each draw.

    Returns:
        Chunks: a slice of draws, and the codes of their records by variable, shape `(draws, records)`, for the wanted
        variables and their ancestors. The seed is fixed, so results are equal for equal arguments.
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
    """Draw records as `drawn_codes` does, with the conditional probability of a binary target in each.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        target: binary variable.
        names: wanted variables besides the target.
        records: number of records for each draw.

    Returns:
        Chunks. The target's probability is conditional on all other drawn variables (the wanted ones and all
        ancestors). Its mean over records that agree in the wanted variables estimates the probability given these, with
        less error than the mean of drawn states (Rao-Blackwell). Results are equal for equal arguments.
    """
    wanted = tuple(names)
    for chunk, codes in drawn_codes(cells, (*wanted, target), records):
        yield chunk, {name: codes[name] for name in wanted}, _compute_chance(cells, target, list(codes), codes, chunk)


def _look_up_rows(cells: Tables, node: str, codes: dict[str, Ints], chunk: slice, records: int) -> Floats:
    """Look up the row of a node for each record of each draw.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        node: node of the table.
        codes: of its parents, shape `(draws, records)` each.
        chunk: slice of the draws.
        records: number of records of each draw.

    Returns:
        Shape `(draws, records, states)`.
    """
    *sizes, states = cells.network.shape(node)
    drawn = cells[node][..., chunk]
    table = np.moveaxis(drawn.reshape(-1, states, drawn.shape[-1]), -1, 0)
    # Position of the parents' joint state, with the last parent fastest.
    flat = np.zeros((len(table), records), np.int64)
    for name, size in zip(cells.network.parents[node], sizes, strict=True):
        flat = flat * size + codes[name]
    return table[np.arange(len(table))[:, None], flat]


def _compute_chance(cells: Tables, target: str, nodes: list[str], codes: dict[str, Ints], chunk: slice) -> Floats:
    """Compute `P(target = second state | all other drawn variables)`, shape `(draws, records)`.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        target: binary variable.
        nodes: all drawn variables.
        codes: their codes, shape `(draws, records)`.
        chunk: slice of the draws.
    """
    network, records = cells.network, codes[target].shape[-1]
    logs = []
    for state in (0, 1):
        supposed = {**codes, target: np.full_like(codes[target], state)}
        total = np.zeros(codes[target].shape)
        # By Bayes' rule only families that contain the target (its Markov blanket) matter.
        for node in nodes:
            if target in network.family(node):
                rows = _look_up_rows(cells, node, supposed, chunk, records)
                with np.errstate(divide="ignore"):
                    total += np.log(np.take_along_axis(rows, supposed[node][..., None], axis=-1)[..., 0])
        logs.append(total)
    highest = np.maximum(*logs)
    first, second = (np.exp(log - highest) for log in logs)
    return np.asarray(second / (first + second))
