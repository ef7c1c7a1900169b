"""Ancestral sampling: made-up records from the probabilities of a network, as codes of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.arrays import Array

Rows = Callable[[str, Mapping[str, Array]], Array]
"""Of a node and the codes of those before it: sums up to each state of each record's row, shape (records, states), or
one row for all."""

PROBABILITIES_AT_ONCE = 2**22
"""Most probabilities that are looked up at once: 32 MiB."""


def sample_codes(theta: Tables, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Records drawn independently from a network, parents before children, as positions of states.

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
    """Refuse what is no number of records, of all or of a block.

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
    """Records drawn node by node; a state of probability 0 is never drawn.

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
        part = slice(start, start + step)
        sums = rows(node, codes if n <= step else {name: column[part] for name, column in codes.items()})
        places, below = uniform[part] * sums[..., -1], drawn[part]
        # State by state: a sum over so short an axis takes several times as long.
        for state in range(sums.shape[-1] - 1):
            below += places >= sums[..., state]
    return drawn


def _cumulate_rows(theta: Tables) -> Rows:
    """Sums of each row up to each state."""
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
