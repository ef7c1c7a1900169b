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
from discreet.deciding.decision_draws import best_response
from discreet.inference.exact_laws import Laws

from .networks import asia

Floats = npt.NDArray[np.float64]

__all__ = [
    "DELTA",
    "GAMES",
    "QUERIES",
    "Game",
    "by_the_package",
    "decided",
    "deviation",
    "game",
    "has_parity",
    "losses",
    "lost",
    "probabilities",
]

DELTA = 0.05
"""Probability with which a bound may fail."""
SAME = 1e-9
"""Mean utilities that differ by less are equal but for rounding: an absolute error has the same mean at all medians."""
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
    plain = Laws(cells).marginals()
    given = {
        (name, state): Laws(cells).marginals({name: state}) for name, state in product(cells.network.nodes, (0, 1))
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

    def means(self, times: Floats | None = None) -> Floats:
        """Mean utilities; with how often each draw counts, shape (draws, runs), shape (queries, responses, runs)."""
        if times is None:
            return np.asarray(self.utilities.mean(axis=-1))
        # Whole numbers first: sums of utilities 0 and 1 are exact, so that equal ones are equal.
        return np.asarray(self.utilities @ times / times.sum(axis=0))


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
    """Expected utility lost by the responses that look best, by the rule of `dc.decide`.

    Args:
        exact: expected utilities, shape (queries, responses).
        estimated: means over draws, shape (queries, responses, runs).

    Returns:
        At least 0, shape (queries, runs).
    """
    chosen = best_response(np.moveaxis(estimated, 1, -1))
    return np.asarray(exact.max(axis=1)[:, None] - np.take_along_axis(exact, chosen, axis=1))


def decided(played: Game, posterior: dc.results.NetworkPosterior, queries: int) -> list[dc.decisions.Decision[int]]:
    """What `dc.decide` answers to every query of a game.

    Args:
        played: the game on the posterior's draws.
        posterior: whose draws are all there are.
        queries: how many the bound is to hold for.

    Returns:
        For each query; responses are their places.
    """
    places = range(played.utilities.shape[1])
    return [
        dc.decide(posterior, lambda _, r, u=own: u[r], places, queries=queries, failure=DELTA, fresh=False)
        for own in played.utilities
    ]


def lost(exact: Floats, decisions: Sequence[dc.decisions.Decision[int]]) -> Floats:
    """Expected utility that decisions lose, shape (queries,); exact as for `losses`."""
    chosen = [[decision.response] for decision in decisions]
    return np.asarray(exact.max(axis=1) - np.take_along_axis(exact, np.array(chosen), axis=1)[:, 0])


def by_the_package(name: str, played: Game, cells: dc.Tables, times: Floats, estimated: Floats) -> dict[str, float]:
    """What `dc.decide` answers to all queries from one set of draws.

    Args:
        name: of the game.
        played: under all atoms.
        cells: the atoms.
        times: how often each is drawn, shape (atoms,).
        estimated: mean utilities over the same draws, shape (queries, responses).

    Returns:
        `otherwise`: answers whose mean utility over the draws is not the largest; `worst` loss, and `bound`, which it
        reports, for all queries together. Of the value game also `number worst` and `number bound`, of
        `dc.decisions.decide_number`, of the query whose loss is the largest part of its bound.
    """
    drawn = np.repeat(np.arange(times.size), times)
    tables = {node: table[..., drawn] for node, table in cells.items()}
    posterior = dc.results.PosteriorDraws(dc.Tables(cells.network, tables, draws=drawn.size))
    queries = len(played.utilities)
    decisions = decided(game(name, probabilities(posterior.probabilities)), posterior, queries)
    own = lost(played.means(), decisions)
    found = {
        "otherwise": float(np.sum(lost(estimated, decisions) > SAME)),
        "worst": float(own.max()),
        "bound": max(decision.regret for decision in decisions),
    }
    return found | _numbers(cells, posterior) if name == "value" else found


def _numbers(cells: dc.Tables, posterior: dc.results.NetworkPosterior) -> dict[str, float]:
    """Guesses of every p by `dc.decisions.decide_number`, u = 1 - |p - r|, under the law of all atoms."""
    worst, bound = 0.0, 1.0
    for query, p in zip(QUERIES, probabilities(cells), strict=True):
        guess = dc.decisions.decide_number(
            posterior, _asked(query), "absolute", queries=len(QUERIES), failure=DELTA, fresh=False
        )
        loss = float(np.abs(p - guess.response).mean() - np.abs(p - np.median(p)).mean())
        if loss * bound >= worst * guess.regret:
            worst, bound = loss, guess.regret
    return {"number worst": worst, "number bound": bound}


def _asked(query: tuple[str, tuple[str, int] | None]) -> str:
    """One of `QUERIES` as the package writes it."""
    node, known = query
    schema = asia().network.schema
    given = f" | {known[0]}={schema[known[0]].states[known[1]]}" if known else ""
    return f"P({node}={schema[node].states[0]}{given})"


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
