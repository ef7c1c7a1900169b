"""Joint laws of many pairs of variables under one table of probabilities, in any network: exact, or made up.

One pass over several draws of a network has the laws of all pairs with some first variables: in each draw one of these
is given one of its states. Where a network is too large for exact inference, shares of made-up records are taken
instead, always of the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count

import numpy as np

from discreet.errors import InputError
from discreet.inference.exact_laws import Laws, marginals_cost
from discreet.inference.sampling import sample_codes
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats

MOST_EXACT_CELLS = 2**14
"""Of all cliques, up to which laws are exact: some milliseconds for all pairs with one variable."""
FIRSTS_TOGETHER = 16
"""First variables of a pass: of two or three states each, some dozens of draws."""
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
            return _find_exactly(theta, wanted)
    codes = sample_codes(theta, MADE_UP_VALUES // len(network.nodes), np.random.default_rng(0))
    return {pair: _count_shares(theta, codes, pair) for pair in wanted}


def _find_exactly(theta: Tables, pairs: list[Scope]) -> dict[Scope, Floats]:
    """Find the laws by exact inference, for some first variables at once."""
    single = Tables(theta.network, {node: theta[node][..., None] for node in theta.network.nodes}, draws=1)
    alone, given = Laws(single).marginals(), dict[str, dict[str, Floats]]()
    firsts = list(dict.fromkeys(first for first, _ in pairs))
    for start in range(0, len(firsts), FIRSTS_TOGETHER):
        some = firsts[start : start + FIRSTS_TOGETHER]
        wide, seen = _observe_states(single, some)
        laws, end = Laws(wide).marginals(seen), 0
        for first in some:
            begin, end = end, end + theta.network.schema[first].size
            given[first] = {node: law[:, begin:end] for node, law in laws.items()}
    # Given a state that is impossible, the others' law is NaN: such a row is 0.
    return {(a, b): np.nan_to_num(alone[a] * given[a][b].T) for a, b in pairs}


def _observe_states(single: Tables, names: list[str]) -> tuple[Tables, dict[str, int]]:
    """Tables of a draw for each state of each of some variables, and evidence that only this state can have made.

    The evidence is a child of the variable, which tells nothing in the draws of other variables' states.
    """
    network, schema = single.network, single.network.schema
    draws = sum(schema[name].size for name in names)
    tables = {node: np.repeat(table, draws, axis=-1) for node, table in single.items()}
    free = (name for name in map("seen {}".format, count()) if name not in tables)
    seen = dict(zip(names, free, strict=False))
    start = 0
    for name, child in seen.items():
        size = schema[name].size
        shown = np.ones((size, draws))
        shown[:, start : start + size] = np.eye(size)
        tables[child] = np.stack([1 - shown, shown], axis=1)
        start += size
    variables = (*schema.variables, *(Variable(child, ("no", "yes")) for child in seen.values()))
    wider = Network(variables, {**network.parents, **{child: (name,) for name, child in seen.items()}})
    return Tables(wider, tables, draws=draws), dict.fromkeys(seen.values(), 1)


def _count_shares(theta: Tables, codes: Mapping[str, Array], pair: Scope) -> Floats:
    """Shares of each joint state of two variables among records."""
    one, other = (theta.network.schema[name].size for name in pair)
    counted = np.bincount(codes[pair[0]] * other + codes[pair[1]], minlength=one * other)
    return np.asarray(counted.reshape(one, other) / len(codes[pair[0]]))
