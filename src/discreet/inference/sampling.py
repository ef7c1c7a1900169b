"""Ancestral sampling: made-up records from the probabilities of a network, as codes of states."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from discreet.errors import InputError
from discreet.model.tables import Array, Tables

__all__ = ["sample_blocks", "sample_codes"]

GATHERED = 2**22
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
    """
    _check(n)
    return _draw(_cumulated(theta), n, rng)


def sample_blocks(theta: Tables, n: int, rng: np.random.Generator, block: int) -> Iterator[dict[str, Array]]:
    """The same, a block of records at a time, so that any number of records takes little memory.

    Args:
        theta: probabilities, axes `(*parents, child)`.
        n: number of records.
        rng: source of randomness; a seed gives the same records for the same size of block only.
        block: most records of a block.

    Returns:
        Blocks as `sample_codes` returns them, the last one perhaps smaller; none for 0 records.

    Raises:
        InputError: a negative number of records, or blocks of none; at once, not when the first block is asked for.
    """
    _check(n)
    if not block > 0:
        raise InputError(f"a block needs at least one record, got {block}")
    cumulated = _cumulated(theta)
    return (_draw(cumulated, min(block, n - start), rng) for start in range(0, n, block))


def _check(n: int) -> None:
    """Refuse what is no number of records."""
    if n < 0:
        raise InputError(f"cannot sample {n} records")


def _cumulated(theta: Tables) -> Tables:
    """Sums of each row up to each state."""
    return Tables(theta.network, lambda node: np.cumsum(theta[node], axis=-1))


def _draw(cumulated: Tables, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """One block of codes."""
    network = cumulated.network
    codes: dict[str, Array] = {}
    for node in network.order:
        uniform = rng.random(n)
        codes[node] = drawn = np.empty(n, np.int64)
        step = max(1, GATHERED // network.schema[node].size)
        for start in range(0, n, step):
            part = slice(start, start + step)
            rows = cumulated[node][tuple(codes[parent][part] for parent in network.parents[node])]
            drawn[part] = (uniform[part, None] * rows[..., -1:] >= rows[..., :-1]).sum(axis=-1)
    return codes
