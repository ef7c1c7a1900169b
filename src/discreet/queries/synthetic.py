"""Synthetic records: ancestral sampling from the probabilities of a network."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from discreet.model.tables import Tables
from discreet.theory.sampling import sample_codes

__all__ = ["sample_codes", "sample_records"]


def sample_records(theta: Tables, n: int, rng: np.random.Generator) -> pa.Table:
    """Records drawn independently from a network, as a table.

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
    codes = sample_codes(theta, n, rng)
    columns = {}
    for variable in theta.network.schema:
        if variable.bounds is None:
            names = pa.array(variable.states, pa.string())
            columns[variable.name] = names.take(pa.array(codes[variable.name]))
        else:
            edges = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
            low, high = edges[codes[variable.name]], edges[codes[variable.name] + 1]
            # Rounding may reach the upper end, which belongs to the next bin.
            columns[variable.name] = pa.array(np.minimum(low + (high - low) * rng.random(n), np.nextafter(high, low)))
    return pa.table(columns)
