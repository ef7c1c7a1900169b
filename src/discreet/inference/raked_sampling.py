"""Made-up records with given margins: rows of a network, moved as little as can be, variable by variable.

A record's states are drawn one after the other,

    P(x_v | those before)  proportional to  P(x_v | parents) prod over T of f_T(x_T),

rows of a network times a factor for every set T of v and some variables before it. The factors are found by
proportional fitting, such that `P(x_v | T without v)` is the wanted one in every T: of all laws of v given those
before, that is the one of least relative entropy to the network's. What was drawn before is represented by a pool of
records (Monte Carlo), so that no table of all variables is needed and sets T may be many and overlap in any way.

Source: Deming and Stephan (1940), Csiszar (1975) for proportional fitting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.inference.sampling import check_number, draw_codes, draw_node
from discreet.model.arrays import Floats, Ints
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables

__all__ = ["RakedLaw", "raked_blocks", "raked_law"]

Codes = Mapping[str, Ints]

POOL_RECORDS = 2**14
"""Records by which those before are represented: shares of them are known to .004, which is less than records of any
one table that is made up from them vary by."""
RAKED_ROUNDS = 10
"""Of proportional fitting. Margins that were measured with noise may agree with no law at all; more rounds would follow
what they disagree in."""
LEAST_SCALED_RECORDS = 1e-9
"""Records that a cell is taken to have at least, so that it can be scaled."""
MOST_SCALED = 1e3
"""By which one round changes a cell at most."""


@dataclass(frozen=True, eq=False)
class RakedLaw:
    """A joint law of all variables of a network, from which records can be drawn.

    Args:
        theta: probabilities of the network, shape `(*parents, child)`.
        factors: by node and by set of variables, the node last: by what its rows are multiplied, an axis for each.
    """

    theta: Tables
    factors: Mapping[str, Mapping[Scope, Floats]]

    @property
    def network(self) -> Network:
        """The network whose rows are moved."""
        return self.theta.network

    def rows(self, node: str, codes: Codes) -> Floats:
        """Sums of each record's row up to each state; see `sampling.Rows`."""
        chances = rows = _look_up_rows(self.theta, node, codes)
        for scope, factor in self.factors.get(node, {}).items():
            chances = chances * factor[tuple(codes[name] for name in scope[:-1])]
        return np.cumsum(_normalise_rows(chances, rows), axis=-1)


def raked_law(theta: Tables, wanted: Mapping[str, Mapping[Scope, Floats]], rng: np.random.Generator) -> RakedLaw:
    """The law of a network moved to given margins.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        wanted: by node, for sets of the node, which is last, and of nodes before it in the network's order:
            `P(node | the others)`, an axis for each. Nodes that are not there keep their rows.
        rng: makes up the records that stand for what comes before a node.

    Returns:
        The law; its margins are the wanted ones but for the error of such records, and for what cannot be had together.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.5, 0.5]]})
        >>> law = raked_law(theta, {"b": {("a", "b"): np.array([[0.9, 0.1], [0.1, 0.9]])}}, np.random.default_rng(0))
        >>> law.rows("b", {"a": np.array([0, 1])})[:, 0].round(2).tolist()  # P(b=0) follows a now
        [0.9, 0.1]
    """
    factors: dict[str, Mapping[Scope, Floats]] = {}
    law, codes = RakedLaw(theta, factors), dict[str, Ints]()
    last = max((theta.network.order.index(node) for node in wanted), default=-1)
    for node in theta.network.order[: last + 1]:
        if node in wanted:
            rows = np.broadcast_to(_look_up_rows(theta, node, codes), (POOL_RECORDS, theta[node].shape[-1]))
            factors[node] = _fit_factors(rows, wanted[node], codes)
        codes[node] = draw_node(theta.network, node, law.rows, codes, POOL_RECORDS, rng)
    return law


def raked_blocks(law: RakedLaw, n: int, rng: np.random.Generator, block: int) -> Iterator[dict[str, Ints]]:
    """Records drawn independently from a law, a block at a time.

    Args:
        law: of `raked_law`.
        n: number of records.
        rng: source of randomness; a seed gives the same records for the same size of block only.
        block: most records of a block.

    Returns:
        Blocks of codes, by node in topological order, int64, shape (records,); none for 0 records.

    Raises:
        InputError: a negative number of records, or blocks of none; at once, not when the first block is asked for.
    """
    check_number(n, block)
    return (draw_codes(law.network, law.rows, min(block, n - start), rng) for start in range(0, n, block))


def _fit_factors(rows: Floats, wanted: Mapping[Scope, Floats], codes: Codes) -> dict[Scope, Floats]:
    """Factors by which the rows of records, shape (records, states), come to have margins."""
    margins = [_Margin.of(scope, law, codes, len(rows)) for scope, law in wanted.items()]
    factors = [np.ones(margin.wanted.shape) for margin in margins]
    chances = rows
    for _ in range(RAKED_ROUNDS):
        for factor, margin in zip(factors, margins, strict=True):
            have = np.stack([np.bincount(margin.rows, column, len(margin.wanted)) for column in chances.T], axis=-1)
            ratio = ((margin.wanted + LEAST_SCALED_RECORDS) / (have + LEAST_SCALED_RECORDS)).clip(
                1 / MOST_SCALED, MOST_SCALED
            )
            factor *= ratio
            chances = _normalise_rows(chances * ratio[margin.rows], rows)
    return {scope: factor.reshape(law.shape) for (scope, law), factor in zip(wanted.items(), factors, strict=True)}


def _look_up_rows(theta: Tables, node: str, codes: Codes) -> Floats:
    """The network's row for each record, shape (records, states); of a root (states,)."""
    return np.asarray(theta[node][tuple(codes[parent] for parent in theta.network.parents[node])])


def _normalise_rows(chances: Floats, rows: Floats) -> Floats:
    """Rows of sum 1; where factors leave no state, the network's own."""
    total = chances.sum(axis=-1, keepdims=True)
    return np.where(total > 0, chances / np.where(total > 0, total, 1.0), rows)


class _Margin(NamedTuple):
    """The wanted margin of a set of variables, beside the records that stand for what comes before.

    Args:
        rows: for each record, which joint state of the others it has, shape (records,).
        wanted: records with each of these and each state of the node, shape (joint states, states).
    """

    rows: Ints
    wanted: Floats

    @staticmethod
    def of(scope: Scope, law: Floats, codes: Codes, records: int) -> _Margin:
        """The margin of `P(node | others)` and records of the others."""
        *sizes, states = law.shape
        rows = np.zeros(records, np.int64)
        for name, size in zip(scope[:-1], sizes, strict=True):
            rows = rows * size + codes[name]
        flat = law.reshape(math.prod(sizes), states)
        return _Margin(rows, np.bincount(rows, minlength=len(flat))[:, None] * flat)
