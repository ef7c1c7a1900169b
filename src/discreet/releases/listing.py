"""Rows of a release: the numbers of draws, of probabilities and of weights, with their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats

Rows = Iterator[dict[str, Any]]


def list_probabilities(tables: Tables) -> Rows:
    """List the probabilities of a network, for each draw if there are draws."""
    network = tables.network
    for node, table in tables.items():
        family = network.family(node)
        numbers: Array = table if tables.draws else table[..., None]
        for states, row in zip(
            product(*(network.schema[name].states for name in family)),
            numbers.reshape(-1, numbers.shape[-1]).tolist(),
            strict=True,
        ):
            parents = ", ".join(f"{name}={state}" for name, state in zip(family[:-1], states[:-1], strict=True))
            for draw, probability in enumerate(row):
                at = {"draw": draw} if tables.draws else {}
                yield {"node": node, "given": parents, "state": states[-1], **at, "probability": probability}


def list_drawn(names: Sequence[str], numbers: Floats) -> Rows:
    """List the numbers of each draw."""
    for draw, row in enumerate(numbers.tolist()):
        yield from ({"draw": draw, "name": name, "value": value} for name, value in zip(names, row, strict=True))
