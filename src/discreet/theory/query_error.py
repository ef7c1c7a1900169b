"""What an answer depends on: every row of every table, exactly, and the error that noise in tables makes of it.

`P(targets | evidence)` is a ratio of two linear functions of each row. They are known from two points: the row as it
is, and the row in which one cell is certain. So how an answer moves is exact for any change of one row, however large,
also where probabilities are 0; only errors in many rows at once are taken to first order.

For public or assumed tables, or those of a release: an error computed from private tables is private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType

import numpy as np

from discreet.errors import InputError
from discreet.inference.elimination import joint, log_probability
from discreet.inference.query_plans import requisite
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.arrays import Floats

GRADIENT_CELLS = 50_000_000
"""Most entries of the tables that are differentiated at once: 400 MB."""


@dataclass(frozen=True, eq=False)
class RowEffects:
    """What `P(targets | evidence)` becomes if one row of one table changes.

    Args:
        network: of the tables.
        value: the answer as it is, shape `(*sizes of the targets)`.
        weights: by node that matters, `P(evidence)` if a cell is certain in its row, over `P(evidence)` as it is; shape
            `(*family)`.
        certain: the answer in this case, shape `(*family, *sizes of the targets)`; 0 where the weight is.
    """

    network: Network
    value: Floats
    weights: Mapping[str, Floats]
    certain: Mapping[str, Floats]

    def moved(self, node: str, cell: tuple[int, ...] | EllipsisType, share: float | Floats) -> Floats:
        """The answer where a row is mixed with the certainty of a cell: `(1 - s) row + s e_cell`.

        With s = 1 / (A + 1) it is the answer after one more record in that cell of a row that A records tell; with
        `s = (x - theta) / (1 - theta)` the one where the cell has the probability x and the others of its row keep
        their proportions.

        Args:
            node: whose table it is; one that matters.
            cell: codes of the family's states; `...` for each cell of the table in turn.
            share: s, at most 1; below 0 if the cell becomes rarer. Of each cell in turn, what broadcasts to the table.

        Returns:
            Shape `(*sizes of the targets)`, or of each cell in turn `(*family, *sizes of the targets)`.

        Source:
            Castillo, Gutierrez and Hadi (1997): an answer is a ratio of linear functions of each entry.
        """
        weight = np.asarray(share * self.weights[node][cell])
        rest = np.broadcast_to(1 - np.asarray(share), weight.shape)
        each = (..., *(None,) * self.value.ndim)
        found = (rest[each] * self.value + weight[each] * self.certain[node][cell]) / (rest + weight)[each]
        return np.asarray(np.clip(found, 0, 1))  # a difference of nearly equal numbers may be just outside

    def gradient(self, node: str) -> Floats:
        """Derivative of the answer by every cell before its row is divided by its sum; shape `(*family, *targets)`.

        By an entry whose row is kept in proportion (Laskey, 1995) it is this over `1 - theta`.
        """
        if node not in self.weights:
            return np.zeros((*self.network.shape(node), *self.value.shape))
        # (P(t, e) - P(t | e) P(e)) / P(e) with the certain row; the terms without it cancel.
        weight = self.weights[node].reshape(*self.weights[node].shape, *(1,) * self.value.ndim)
        return np.asarray(weight * (self.certain[node] - self.value))


def row_effects(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> RowEffects:
    """How `P(targets | evidence)` depends on each row of each table.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        The effects of all rows, exact; tables that do not matter are left out.

    Raises:
        InputError: tables with draws, impossible evidence, or a network that is too large.

    Source:
        Laskey (1995); in the place of Chowdhury et al. (ICML 2020), equations (7) and (8), whose "sensitivity" is a
        constant.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bits = (Variable("smoke", ("yes", "no")), Variable("lung", ("yes", "no")))
        >>> network = Network(bits, {"smoke": (), "lung": ("smoke",)})
        >>> theta = Tables(network, {"smoke": [0.5, 0.5], "lung": [[0.1, 0.9], [0.02, 0.98]]})
        >>> found = row_effects(theta, ["smoke"], {"lung": 0})
        >>> float(found.value[0].round(4)), float(found.moved("lung", (1, 0), 0.01).round(4)[0])
        (0.8333, 0.7704)
    """
    network = theta.network
    if theta.draws is not None:
        raise InputError("the gradient is taken at one table of probabilities, without draws")
    if not targets or len(set(targets)) != len(targets) or set(targets) & set(evidence):
        raise InputError("a query needs at least one target, each named once and none of them evidence")
    if any(not 0 <= code < network.schema[name].size for name, code in evidence.items()):
        raise InputError("the code of an observed state must be at least 0 and less than its variable's states")
    nodes = requisite(network, tuple(targets), evidence)
    cells = {node: math.prod(network.shape(node)) for node in nodes}
    if sum(cells.values()) * max(cells.values()) > GRADIENT_CELLS:
        raise InputError(f"{sum(cells.values()):,} cells bear on the query, too many to differentiate; ask for less")
    base = Tables(network, lambda node: theta[node][..., None], draws=1)
    value = joint(base, targets, evidence)[..., 0]
    if not np.all(np.isfinite(value)):
        raise InputError("the evidence is impossible under these probabilities")
    log_evidence = log_probability(base, evidence)
    weights, certain = {}, {}
    for node in nodes:
        changed = _make_cells_certain(theta, node)
        weights[node] = np.exp(log_probability(changed, evidence) - log_evidence).reshape(network.shape(node))
        answers = np.moveaxis(np.nan_to_num(joint(changed, targets, evidence)), -1, 0)
        certain[node] = answers.reshape(*network.shape(node), *value.shape)
    return RowEffects(network, value, weights, certain)


def query_gradient(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> dict[str, Floats]:
    """Derivative of `P(targets | evidence)` by every cell of every row, rows divided by their sums.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        By node: d P / d e at e = 0 where a row is `(theta + e) / sum(theta + e)`; shape
        `(*family, *sizes of the targets)`. Nodes that do not matter have zeros.

    Raises:
        InputError: as for `row_effects`.

    Source:
        As for `row_effects`; Darwiche (2003) for the polynomial.
    """
    effects = row_effects(theta, targets, evidence)
    return {node: effects.gradient(node) for node in theta.network.nodes}


def _make_cells_certain(theta: Tables, node: str) -> Tables:
    """Make draws of the tables: one for each cell of a node, in which that cell is certain in its row."""
    shape = theta.network.shape(node)
    draws = math.prod(shape)

    def table(name: str) -> Floats:
        array: Floats = np.repeat(theta[name].astype(np.float64)[..., None], draws, axis=-1)
        if name == node:
            rows = array.reshape(-1, shape[-1], draws)
            for cell in range(draws):
                rows[cell // shape[-1], :, cell] = np.arange(shape[-1]) == cell % shape[-1]
        return array

    return Tables(theta.network, table, draws=draws)
