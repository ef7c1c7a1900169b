"""Games of queries, responses and utilities on the Asia network, and what is lost by answering from posterior draws.

120 queries for a probability p: all marginals, and all conditionals with one piece of evidence. Three utilities in
[0, 1]. *value*: guess p on a grid, u = 1 - |p - r|. *state*: guess the state, u = its probability. *threshold*: say
whether p is above t, for nine t, u = 1 where that is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference import elimination

from .networks import asia

Floats = npt.NDArray[np.float64]

__all__ = ["DELTA", "GAMES", "QUERIES", "Game", "deviation", "game", "has_parity", "losses", "probabilities"]

DELTA = 0.05
"""Probability with which a bound may fail."""
GRID = tuple(np.arange(21) / 20)
THRESHOLDS = tuple(np.arange(1, 10) / 10)
NODES = asia().network.nodes
QUERIES: tuple[tuple[str, tuple[str, int] | None], ...] = (
    *((node, None) for node in NODES),
    *((node, (given, state)) for given, state in product(NODES, (0, 1)) for node in NODES if node != given),
)
"""P(node is in its first state), without or with evidence."""
FIRST = QUERIES.index(("lung", ("xray", 0)))
"""The single query: lung cancer given an abnormal X-ray."""


def probabilities(cells: dc.Tables) -> Floats:
    """The probability p of every query under every draw, shape (queries, draws)."""
    plain = elimination.marginals(cells, {})
    given = {
        (name, state): elimination.marginals(cells, {name: state})
        for name, state in product(cells.network.nodes, (0, 1))
    }
    return np.array([(plain if known is None else given[known])[node][0] for node, known in QUERIES])


# ------------------------------------------------------------------------------------------ games


@dataclass(frozen=True, eq=False)
class Game:
    """Utilities of every response to every query under some draws.

    Args:
        utilities: in [0, 1], shape (queries, responses, draws).
        single: place of the query that is looked at alone.
    """

    utilities: Floats
    single: int

    def means(self, weights: Floats | None = None) -> Floats:
        """Mean utilities; with weights of shape (draws, runs) under each of them, shape (queries, responses, runs)."""
        return np.asarray(self.utilities.mean(axis=-1) if weights is None else self.utilities @ weights)


def _value(p: Floats) -> Floats:
    """`u = 1 - |p - r|`."""
    return np.asarray(1 - np.abs(p[:, None, :] - np.array(GRID)[:, None]))


def _state(p: Floats) -> Floats:
    """The probability of the state that is named."""
    return np.stack([p, 1 - p], axis=1)


def _threshold(p: Floats) -> Floats:
    """Whether "above t" or "not above t" is true, a query for each p and t."""
    above = (p[:, None, :] > np.array(THRESHOLDS)[:, None]).reshape(-1, p.shape[-1]).astype(np.float64)
    return np.stack([above, 1 - above], axis=1)


GAMES: Mapping[str, tuple[Callable[[Floats], Floats], int, int]] = {
    "value": (_value, len(QUERIES), len(GRID)),
    "state": (_state, len(QUERIES), 2),
    "threshold": (_threshold, len(QUERIES) * len(THRESHOLDS), 2),
}
"""Utilities from p, number of queries and number of responses."""


def game(name: str, p: Floats) -> Game:
    """A game on the draws with these probabilities, shape (queries, draws)."""
    single = FIRST if name != "threshold" else FIRST * len(THRESHOLDS) + THRESHOLDS.index(0.5)
    return Game(GAMES[name][0](p), single)


def losses(exact: Floats, estimated: Floats) -> Floats:
    """Expected utility lost by the responses that look best.

    Args:
        exact: expected utilities, shape (queries, responses).
        estimated: means over draws, shape (queries, responses, runs).

    Returns:
        At least 0, shape (queries, runs).
    """
    chosen = estimated.argmax(axis=1)
    return np.asarray(exact.max(axis=1)[:, None] - np.take_along_axis(exact, chosen, axis=1))


def deviation(draws: int, count: int) -> float:
    """Hoeffding for `count` means of some draws: `sqrt(ln(2 count / delta) / (2 N))`; Lemma 11 has a count of 1."""
    return math.sqrt(math.log(2 * count / DELTA) / (2 * draws))


def has_parity(draws: Sequence[int]) -> bool:
    """Whether a set `W_s = {theta : the parity of s and theta's bits is odd}` has all draws in it.

    Args:
        draws: posterior quantiles of the draws as whole numbers below 2^48.

    Returns:
        Whether `<s, bits> = 1` (modulo 2) for all draws has a solution s, by elimination.
    """
    pivots: dict[int, tuple[int, int]] = {}
    for bits in draws:
        row, right = bits, 1
        while row:
            top = row.bit_length()
            if top not in pivots:
                pivots[top] = (row, right)
                break
            row, right = row ^ pivots[top][0], right ^ pivots[top][1]
        if row == 0 and right:
            return False
    return True
