"""Joint laws of many pairs of variables under one table of probabilities, in any network: exact, or made up.

A law of two variables needs a pass of its own, and may be out of reach of exact inference. Where a network is large in
that sense, shares of made-up records are taken instead, always of the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np

from discreet.errors import InputError
from discreet.inference.elimination import joint, marginals_cost
from discreet.inference.sampling import sample_codes
from discreet.model.arrays import Floats
from discreet.model.schema import Scope
from discreet.model.tables import Array, Tables

__all__ = ["pair_laws"]


MOST_EXACT_CELLS = 2**14
"""Of all cliques, up to which laws are exact: some milliseconds each."""
MADE_UP_VALUES = 2**24
"""Values of the made-up records: 128 MiB; shares of a hundred variables to .001."""


def pair_laws(theta: Tables, pairs: Iterable[Scope]) -> dict[Scope, Floats]:
    """`P(a, b)` for some pairs.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        pairs: of different nodes.

    Returns:
        By pair, an axis for each of the two. Equal for equal arguments, whatever else is drawn.

    Example:
        >>> from discreet import Network, Variable
        >>> coins = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(coins, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]})
        >>> pair_laws(theta, [("b", "a")])["b", "a"].tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    network, wanted = theta.network, list(pairs)
    with suppress(InputError):  # a law that is too large
        if marginals_cost(network) <= MOST_EXACT_CELLS:
            cells = Tables(network, {node: theta[node][..., None] for node in network.nodes}, draws=1)
            return {pair: joint(cells, pair, {})[..., 0] for pair in wanted}
    codes = sample_codes(theta, MADE_UP_VALUES // len(network.nodes), np.random.default_rng(0))
    return {pair: _count_shares(theta, codes, pair) for pair in wanted}


def _count_shares(theta: Tables, codes: Mapping[str, Array], pair: Scope) -> Floats:
    """Shares of each joint state of two variables among records."""
    one, other = (theta.network.schema[name].size for name in pair)
    counted = np.bincount(codes[pair[0]] * other + codes[pair[1]], minlength=one * other)
    return np.asarray(counted.reshape(one, other) / len(codes[pair[0]]))
