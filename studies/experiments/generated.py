"""Ten made-up networks, each of which stresses what tables of public networks have little of.

A recipe and its seed fix a network. Parents come from the few nodes before a
child, so cliques stay small; how a row is drawn is told by `Recipe`. Nothing here was looked at when a prior was chosen
or tuned: `CONFIRMING` is for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.sampling import sample_codes

__all__ = ["CONFIRMING", "MADE_UP", "RECIPES", "SMALL", "Recipe", "generated"]

Floats = npt.NDArray[np.float64]

RAREST_TOP, COMMONEST_TOP = 5e-4, 0.02
"""The largest rare probability of a node lies between these, uniform on the log scale."""
RARE_RANGE = 30.0
"""Largest over least rare probability of a node; uniform on the log scale between them."""
FITTED_TO = 5_000
"""Records that a network is learned from."""
RARE_ROWS = 0.8
"""Share of the rows of a node with rare states that have some."""
LEAST_ORDINARY = 0.02
"""Least probability of an ordinary state, unless there are so many states that they could not all have it."""
CONCENTRATIONS = (0.5, 1.0, 3.0)
"""Of the rows of a node, one for each state: from rows near a corner to rows near the middle."""


@dataclass(frozen=True)
class Recipe:
    """How a network is made up.

    Args:
        nodes: how many.
        states: fewest and most of a node.
        parents: fewest and most of a node, where there are so many before it.
        window: parents are among so many nodes before.
        cells: most of a family; parents beyond it are left out.
        rare: share of the nodes most rows of which have one or more rare states, and at least one that is not.
        sure: share of the rows with one state of probability 1.
        impossible: share of the rows with one state of probability 0.
        common: probability of the first state of every row that is none of those, if the node is skewed; descendants of
            such nodes have rows that hardly anyone falls into.
        skewed: share of the nodes that are.
        fitted: None, or records that are added to every cell when rows are fitted to `FITTED_TO` records of what was
            drawn so far: rare states have what nobody showed, in proportion to the records of the row, as in public
            networks that were learned.
        same: share of the rows of a node in which the same state is rare or impossible; in the others it is any.
        seed: of all of it.
    """

    nodes: int
    states: tuple[int, int]
    parents: tuple[int, int]
    seed: int
    window: int = 5
    cells: int = 400
    rare: float = 0.0
    sure: float = 0.0
    impossible: float = 0.0
    common: float = 0.97
    skewed: float = 0.0
    fitted: float | None = None
    same: float = 0.9


RECIPES: Mapping[str, Recipe] = {
    "rare-12": Recipe(12, (3, 4), (0, 2), 1, rare=0.8),
    "rare-24": Recipe(24, (2, 4), (0, 3), 2, cells=120, rare=0.7),
    "fitted-12": Recipe(12, (3, 3), (1, 3), 11, impossible=0.6, sure=0.1, fitted=0.03),
    "sure-15": Recipe(15, (2, 3), (1, 3), 3, sure=0.4, impossible=0.3),
    "sure-35": Recipe(35, (2, 3), (1, 3), 4, window=4, sure=0.3, impossible=0.2, rare=0.4),
    "states-14": Recipe(14, (6, 9), (0, 2), 6, cells=240, rare=0.3),
    "families-10": Recipe(10, (2, 3), (3, 5), 7, window=6, cells=190),
    "families-16": Recipe(16, (2, 3), (2, 5), 8, window=6, cells=200, rare=0.3),
    "thin-12": Recipe(12, (2, 3), (2, 4), 9, rare=0.5, skewed=0.7),
    "mixed-40": Recipe(40, (2, 5), (0, 4), 10, window=4, cells=100, rare=0.4, sure=0.1, impossible=0.1, skewed=0.3),
}
"""By name: what is stressed, and the number of nodes. "sure" has rows with zeros, "fitted" rare states as in learned
networks, "states" many of them, "families" a hundred cells or more, "thin" rows that expect less than a record."""

CONFIRMING: Mapping[str, Recipe] = {
    "rare-20": Recipe(20, (2, 4), (0, 3), 101, rare=0.7),
    "sure-18": Recipe(18, (2, 4), (1, 3), 102, sure=0.35, impossible=0.3),
    "states-10": Recipe(10, (6, 10), (0, 2), 103, cells=300, rare=0.3),
    "fitted-14": Recipe(14, (3, 4), (1, 2), 106, impossible=0.5, sure=0.1, fitted=0.03),
    "families-12": Recipe(12, (2, 4), (3, 5), 104, window=6, cells=200),
    "thin-15": Recipe(15, (3, 4), (1, 3), 105, rare=0.5, skewed=0.6),
}
"""The same kinds, to be looked at only after a choice was made on others."""


SMALL: Mapping[str, Recipe] = {
    "rare-6": Recipe(6, (3, 3), (1, 3), 33, cells=81, impossible=0.8, fitted=0.03, same=1.0),
    "thin-6": Recipe(6, (3, 5), (2, 3), 33, cells=150, rare=0.5, sure=0.3, skewed=0.8),
    "families-6": Recipe(6, (2, 3), (4, 4), 24, cells=170),
    "sure-8": Recipe(8, (2, 3), (1, 2), 25, sure=0.4, impossible=0.3),
}
"""Small enough for tests that always run; "rare" has a state in every node that hardly anybody shows in any row."""


MADE_UP: Mapping[str, Recipe] = {**RECIPES, **CONFIRMING, **SMALL}
"""All of them."""


@cache
def generated(name: str) -> dc.Tables:
    """Probabilities of a made-up network.

    Args:
        name: in `RECIPES`, `CONFIRMING` or `SMALL`.

    Returns:
        Axes `(*parents, child)`.
    """
    recipe = MADE_UP[name]
    rng = np.random.default_rng(recipe.seed)
    network = _drawn_network(recipe, rng)
    theta = dc.Tables(network, {node: _drawn_table(recipe, network, node, rng) for node in network.nodes})
    return theta if recipe.fitted is None else _fitted(theta, recipe.fitted, rng)


def _fitted(theta: dc.Tables, added: float, rng: np.random.Generator) -> dc.Tables:
    """Rows as they would be learned."""
    counts = dc.tools.count_codes(theta.network, sample_codes(theta, FITTED_TO, rng)).tables
    return counts.map(lambda table: (table + added) / (table + added).sum(axis=-1, keepdims=True))


def _drawn_network(recipe: Recipe, rng: np.random.Generator) -> dc.Network:
    """Nodes in order, with parents from the window before each."""
    sizes = rng.integers(recipe.states[0], recipe.states[1] + 1, recipe.nodes)
    variables = [dc.Variable(f"v{i:02d}", tuple(f"s{k}" for k in range(size))) for i, size in enumerate(sizes)]
    parents: dict[str, tuple[str, ...]] = {}
    for i, variable in enumerate(variables):
        before = rng.permutation(np.arange(max(0, i - recipe.window), i))
        few = before[: int(rng.integers(recipe.parents[0], recipe.parents[1] + 1))]
        cells, chosen = int(sizes[i]), list[int]()
        for parent in few:
            if cells * sizes[parent] <= recipe.cells:
                cells, chosen = cells * int(sizes[parent]), [*chosen, int(parent)]
        parents[variable.name] = tuple(variables[parent].name for parent in sorted(chosen))
    return dc.Network(tuple(variables), parents)


def _drawn_table(recipe: Recipe, network: dc.Network, node: str, rng: np.random.Generator) -> Floats:
    """Rows of a node; a root has one ordinary row or a skewed one, so that no state of it is sure."""
    sizes = {variable.name: len(variable.states) for variable in network.schema.variables}
    shape, size = tuple(sizes[parent] for parent in network.parents[node]), sizes[node]
    concentration, skewed, rare = rng.choice(CONCENTRATIONS), rng.random() < recipe.skewed, rng.random() < recipe.rare
    top = np.exp(rng.uniform(np.log(RAREST_TOP), np.log(COMMONEST_TOP)))
    usual = rng.permutation(size)
    sure, impossible = (recipe.sure, recipe.impossible) if shape else (0.0, 0.0)
    rows = []
    for _ in range(int(np.prod(shape))):
        row = _changed(_ordinary(size, concentration, rng), 0, recipe.common if skewed else None)
        order = usual if rng.random() < recipe.same else rng.permutation(size)
        if rare and rng.random() < RARE_ROWS:
            for state in order[: int(rng.integers(1, size))]:
                row = _changed(row, state, top * np.exp(-rng.uniform(0, np.log(RARE_RANGE))))
        kind = rng.random()
        if kind < sure:
            row = _changed(row, int(rng.integers(size)), 1.0)
        elif kind < sure + impossible:
            row = _changed(row, int(order[0]), 0.0)
        rows.append(row)
    return np.array(rows).reshape(*shape, size)


def _ordinary(size: int, concentration: float, rng: np.random.Generator) -> Floats:
    """A row with no state that is rare."""
    least = min(LEAST_ORDINARY, 0.5 / size)
    return np.asarray(least + (1 - size * least) * rng.dirichlet(np.full(size, concentration)))


def _changed(row: Floats, state: int, probability: float | None) -> Floats:
    """The row with another probability of a state, if there is one; the others in proportion."""
    if probability is None:
        return row
    rest = np.delete(row, state)
    return np.insert(rest * (1 - probability) / rest.sum(), state, probability)
