"""Exact inference over the draws of a posterior: prune, slice evidence, plan, refuse what is too large, then compute.

This file owns what is computed for a question; `junction_tree.py` owns how. Every function returns one number per
draw and cell, so that an interval can be read off; draws go through in chunks that fit into a cache-friendly block of
memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import networkx as nx
import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.theory.junction_tree import (
    Factor,
    calibrate,
    collect,
    elimination_order,
    junction_tree,
    multiply,
)

__all__ = ["explanations", "joint", "joint_cost", "log_probability", "marginals"]

Floats = npt.NDArray[np.float64]

CELL_BUDGET = 10_000_000
"""Most cells of all cliques together, for one draw: 80 MB, and tens of milliseconds."""
CHUNK_BYTES = 8 * 2**20
"""Memory for the cliques of one chunk of draws."""
CANDIDATES = 16
"""Explanations whose probability is evaluated: those that are most probable under most draws."""


def joint(cells: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> Floats:
    """`P(targets | evidence)` under every draw.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        Shape `(*sizes of the targets, draws)`; NaN in draws under which the evidence is impossible.

    Raises:
        InputError: the query needs more cells than the budget; the message has the number.
    """
    network, draws = cells.network, cells.draws or 1
    wanted = tuple(targets)
    nodes = _relevant(network, wanted, evidence)
    sizes = _sizes(network, nodes, evidence)
    tree = junction_tree(_families(network, nodes, evidence), sizes, wanted)
    _afford(tree.cells, f"P({', '.join(wanted)})")
    result = np.empty((*(sizes[name] for name in wanted), draws))
    for part in _chunks(tree.cells, draws):
        factors = _factors(cells, nodes, evidence, part)
        table, _ = collect(tree, factors, wanted, part.stop - part.start)
        result[..., part] = table
    # Evidence that does not bear on the targets was pruned, but it must be possible all the same; only a probability of
    # exactly 0 can make it impossible.
    if any(not np.all(cells[node]) for node in network.ancestors(evidence)):
        result[..., np.isneginf(log_probability(cells, evidence))] = np.nan
    return result


def joint_cost(network: Network, targets: Sequence[str], evidence: Mapping[str, int]) -> int:
    """Cells that `joint` works on for each draw; time and memory are proportional to it.

    Args:
        network: of the tables that would be asked.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        Cells of all cliques together, after pruning.
    """
    wanted = tuple(targets)
    nodes = _relevant(network, wanted, evidence)
    return junction_tree(_families(network, nodes, evidence), _sizes(network, nodes, evidence), wanted).cells


def marginals(cells: Tables, evidence: Mapping[str, int]) -> dict[str, Floats]:
    """`P(X | evidence)` for every variable X that is no evidence, under every draw, in one pass over the draws.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.

    Returns:
        By variable, in the network's order: shape `(size, draws)`; NaN in draws under which the evidence is impossible.

    Raises:
        InputError: the network needs more cells than the budget.
    """
    network, draws = cells.network, cells.draws or 1
    sizes = _sizes(network, network.nodes, evidence)
    if not sizes:
        return {}
    tree = junction_tree(_families(network, network.nodes, evidence), sizes)
    _afford(tree.cells, "all marginals")
    result = {name: np.empty((size, draws)) for name, size in sizes.items()}
    for part in _chunks(tree.cells, draws):
        factors = _factors(cells, network.nodes, evidence, part)
        found, log_total = calibrate(tree, factors, part.stop - part.start)
        possible = np.isfinite(log_total)
        for name, table in found.items():
            result[name][:, part] = np.where(possible, table, np.nan)
    return result


def log_probability(cells: Tables, evidence: Mapping[str, int]) -> Floats:
    """`log P(evidence)` under every draw.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable; empty for the sure event.

    Returns:
        Shape `(draws,)`; -inf where it is impossible.

    Raises:
        InputError: more cells than the budget.
    """
    network, draws = cells.network, cells.draws or 1
    above = network.ancestors(evidence)
    nodes = [node for node in network.nodes if node in above]
    sizes = _sizes(network, nodes, evidence)
    tree = junction_tree(_families(network, nodes, evidence), sizes)
    _afford(tree.cells, "the probability of the evidence")
    result = np.zeros(draws)
    for part in _chunks(tree.cells, draws):
        _, result[part] = collect(tree, _factors(cells, nodes, evidence, part), (), part.stop - part.start)
    return result


def explanations(
    cells: Tables, targets: Sequence[str], evidence: Mapping[str, int]
) -> list[tuple[dict[str, int], Floats]]:
    """Joint states of some variables that are most probable given evidence under some draw (MAP, MPE).

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        targets: variables that are no evidence, at least one; all of them for the most probable explanation.
        evidence: code of the state of each observed variable.

    Returns:
        (states by variable, `P(states | evidence)` under every draw) for the states that most draws favour, at most 16,
        by decreasing mean probability.

    Raises:
        InputError: more cells than the budget.
    """
    network, draws = cells.network, cells.draws or 1
    nodes = _relevant(network, tuple(targets), evidence)
    sizes = _sizes(network, nodes, evidence)
    scopes = [scope for _, scope in _families(network, nodes, evidence)]
    steps, cost = elimination_order(scopes, sizes, last=tuple(targets))
    _afford(cost, f"the most probable state of {len(targets)} variables")
    best = np.empty((len(targets), draws), np.int64)
    for part in _chunks(cost, draws):
        factors = [factor for factor in _factors(cells, nodes, evidence, part) if factor.scope]
        best[:, part] = _most_probable(factors, steps, tuple(targets), sizes, part.stop - part.start)
    favoured = Counter(map(tuple, best.T.tolist())).most_common(CANDIDATES)
    log_evidence = log_probability(cells, evidence)
    found = []
    for codes, _ in favoured:
        states = dict(zip(targets, codes, strict=True))
        with np.errstate(invalid="ignore"):
            found.append((states, np.exp(log_probability(cells, {**evidence, **states}) - log_evidence)))
    return sorted(found, key=lambda pair: -float(np.mean(pair[1])))


def _most_probable(
    factors: list[Factor], steps: Sequence[Scope], targets: Scope, sizes: Mapping[str, int], draws: int
) -> npt.NDArray[np.int64]:
    """Bucket elimination, sums first, then maxima, and the way back; shape `(targets, draws)`."""
    choices: list[tuple[str, Scope, npt.NDArray[np.int64]]] = []
    for scope in steps:
        name, rest = scope[0], scope[1:]
        bucket = [factor for factor in factors if name in factor.scope]
        factors = [factor for factor in factors if name not in factor.scope]
        product, _ = multiply(bucket, scope, sizes, draws)
        if name in targets:
            choices.append((name, rest, product.argmax(axis=0)))
            message = product.max(axis=0)
        else:
            message = product.sum(axis=0)
        peak = message.reshape(-1, draws).max(axis=0)
        message /= np.where(peak > 0, peak, 1)
        if rest:
            factors.append(Factor(rest, message))
    states: dict[str, npt.NDArray[np.int64]] = {}
    for name, rest, choice in reversed(choices):
        states[name] = choice[(*(states[other] for other in rest), np.arange(draws))]
    return np.stack([states[name] for name in targets])


# --------------------------------------------------------------------------------------------------------- planning


def _relevant(network: Network, targets: Scope, evidence: Mapping[str, int]) -> list[str]:
    """Nodes whose families matter: ancestors of targets and evidence, not d-separated from the targets."""
    above = network.ancestors((*targets, *evidence))
    moral = nx.Graph()
    moral.add_nodes_from(above)
    for node in above:
        moral.add_edges_from(combinations(network.family(node), 2))
    moral.remove_nodes_from(evidence)
    reached: set[str] = set()
    for target in targets:
        if target not in reached:
            reached |= nx.node_connected_component(moral, target)
    return [node for node in network.nodes if node in above and any(name in reached for name in network.family(node))]


def _sizes(network: Network, nodes: Iterable[str], evidence: Mapping[str, int]) -> dict[str, int]:
    """States of the variables of some families that are no evidence."""
    names = {name for node in nodes for name in network.family(node)}
    return {name: network.schema[name].size for name in network.nodes if name in names and name not in evidence}


def _families(network: Network, nodes: Iterable[str], evidence: Mapping[str, int]) -> list[tuple[str | None, Scope]]:
    """Each node, unless it is evidence, with its family without evidence."""
    return [
        (None if node in evidence else node, tuple(name for name in network.family(node) if name not in evidence))
        for node in nodes
    ]


def _factors(cells: Tables, nodes: Iterable[str], evidence: Mapping[str, int], part: slice) -> list[Factor]:
    """The families' tables of a chunk of draws, evidence sliced out; all are views."""
    network, listed = cells.network, list(nodes)
    return [
        Factor(scope, cells[node][(*(evidence.get(name, slice(None)) for name in network.family(node)), part)])
        for node, (_, scope) in zip(listed, _families(network, listed, evidence), strict=True)
    ]


def _afford(cells: int, what: str) -> None:
    """Refuse before computing."""
    if cells > CELL_BUDGET:
        raise InputError(
            f"{what} needs {cells:,} cells for each draw, more than the budget of {CELL_BUDGET:,}; "
            "ask for fewer variables, or give more evidence"
        )


def _chunks(cells: int, draws: int) -> list[slice]:
    """Chunks of draws whose cliques fit into the memory of a chunk."""
    size = max(1, min(draws, CHUNK_BYTES // (8 * max(cells, 1))))
    return [slice(start, min(start + size, draws)) for start in range(0, draws, size)]
