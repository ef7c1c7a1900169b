"""Synthetic records: ancestral sampling from the probabilities of a network."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from discreet.errors import InputError
from discreet.model.tables import Array, Tables

__all__ = ["sample_records"]


def sample_records(theta: Tables, n: int, rng: np.random.Generator) -> pa.Table:
    """Records drawn independently from a network, parents before children.

    Args:
        theta: probabilities, axes `(*parents, child)`.
        n: number of records.
        rng: source of randomness; these records are made up, not private.

    Returns:
        An Arrow table with a column for each variable, in the network's order: names of states, or, for a numeric
        variable, numbers spread evenly over the drawn bin.

    Raises:
        InputError: a negative number of records.
    """
    if n < 0:
        raise InputError(f"cannot sample {n} records")
    network = theta.network
    codes: dict[str, Array] = {}
    for node in network.order:
        rows = theta[node][tuple(codes[parent] for parent in network.parents[node])]
        cumulative = np.cumsum(np.broadcast_to(rows, (n, theta[node].shape[-1])), axis=-1)
        drawn = (rng.random(n)[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=-1)
        codes[node] = np.minimum(drawn, theta[node].shape[-1] - 1)
    columns = {}
    for variable in network.schema:
        if variable.bounds is None:
            columns[variable.name] = pa.array(
                np.array(variable.states, dtype=object)[codes[variable.name]], pa.string()
            )
        else:
            edges = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
            low, high = edges[codes[variable.name]], edges[codes[variable.name] + 1]
            columns[variable.name] = pa.array(low + (high - low) * rng.random(n))
    return pa.table(columns)
