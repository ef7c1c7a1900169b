"""Ancestral sampling: made-up records from the probabilities of a network, as codes of states."""

from __future__ import annotations

import numpy as np

from discreet.errors import InputError
from discreet.model.tables import Array, Tables

__all__ = ["sample_codes"]


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
    if n < 0:
        raise InputError(f"cannot sample {n} records")
    network = theta.network
    codes: dict[str, Array] = {}
    for node in network.order:
        cumulative = np.cumsum(theta[node], axis=-1)
        rows = cumulative[tuple(codes[parent] for parent in network.parents[node])]
        drawn = (rng.random(n)[:, None] * rows[..., -1:] >= rows[..., :-1]).sum(axis=-1)
        codes[node] = drawn.astype(np.int64)
    return codes
