r"""One joint law a draw: the network's rows, what tables say beside them, and doubt where nothing was measured.

Under draw s, with h a hidden variable of two states,

    p_s(x, h)  ~  pi_s(h) prod_v theta_sv(x_v | parents) t_sv(x_v, h)  prod_T d_sT(x_T)  prod_F phi_sF(x_F)  prod_S phi_sS(x_S).

* theta are the rows; F the families, whose law keeps what the draw says of it (`pooled/family_laws.py`);
* S are the measured sets that the network does not leave open, whose margins are the drawn ones
  (`pooled/measured_sets.py`); all phi are found by proportional fitting on a tree of cliques
  (`inference/clique_laws.py`): of all laws with these margins, the nearest to what stands before them;
* t doubts the pairs that no table holds: each state of v is more or less likely by a share of a_sv u_sv(x_v) in each
  state of h, with mean 0 over both. Two variables then have an interaction of size a_i a_j, whose law is that of the
  sizes which audited pairs teach (`pooled/discrepancy.py`);
* d doubts the triples that no table and no family holds, inside the cliques.

t and d stand before the fit: what was measured, and the rows, stay as they were drawn. All answers, records and
predictions are read off this law, so that every way to one number agrees.

Source: Deming and Stephan (1940), Csiszar (1975) for proportional fitting; Jirousek and Preucil (1995) on trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np
from scipy.optimize import minimize

from discreet.inference.clique_laws import fit_laws
from discreet.model.arrays import Array, Floats, margin
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.law_plan import LawPlan
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, draw_interaction
from discreet.posterior.pooled.family_laws import family_laws

TOURS = 8
"""Of proportional fitting through all cliques."""
LEAST_STATE_SHARE = 0.15
"""Of the hidden variable: its states have at least this probability."""
LEAST_FACTOR, MOST_FACTOR = 0.05, 20.0
"""By which doubt changes a cell at most."""
MOST_DOUBTED_TRIPLES = 400
"""In cliques; more of them cost more than they say."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """How large interactions are of which nothing was measured, and where their numbers come from.

    Args:
        pairs: weights of the sizes of pairs, shape (sizes,); None where the network is believed.
        triples: the same of triples.
        generator: of a set of variables.
    """

    pairs: Floats | None
    triples: Floats
    generator: Callable[[Scope], np.random.Generator]


def joint_law(plan: LawPlan, cells: Tables, drawn: Mapping[Scope, Floats], doubt: Doubt, loose: Callable[[Scope], bool]) -> Tables:
    """Fit the law.

    Args:
        plan: of it.
        cells: rows of the network, shape `(*parents, child, draws)`.
        drawn: laws of the plan's sets, and of parents that are not joined, shape `(*sizes, draws)`.
        doubt: of what was not measured.
        loose: whether three variables may have an interaction of which nothing is known.

    Returns:
        Rows of `plan.wide`, float32.
    """
    assert plan.tree is not None
    network, draws = plan.network, cells.draws or 1
    families = family_laws(cells, drawn)
    singles = {node: margin(law, network.family(node), (node,)) for node, law in families.items()}
    factors: list[tuple[Scope, Array]] = [(network.family(node), cells[node]) for node in network.nodes]
    if plan.doubt and doubt.pairs is not None:
        factors += _doubt_pairs(plan.hidden, singles, doubt, draws)
    factors += _doubt_triples(plan, singles, doubt, loose)
    targets: list[tuple[Scope, Array]] = [(part, drawn[part]) for part in plan.sets]
    targets += [(network.family(node), families[node]) for node in network.nodes]
    found = fit_laws(plan.tree, factors, targets, tours=TOURS)
    return Tables(plan.wide, {name: rows for name, (_, rows) in found.rows.items()}, draws=draws)


def _doubt_pairs(hidden: str, singles: Mapping[str, Floats], doubt: Doubt, draws: int) -> Iterator[tuple[Scope, Array]]:
    """The law of the hidden variable, and how likely it makes the states of each other one."""
    assert doubt.pairs is not None
    amplitudes, chances = np.sqrt(INTERACTION_SIZES), _find_amplitudes(tuple(doubt.pairs.tolist()))
    high = doubt.generator(()).uniform(LEAST_STATE_SHARE, 1 - LEAST_STATE_SHARE, draws)
    codes = np.stack([-np.sqrt(high / (1 - high)), np.sqrt((1 - high) / high)])
    yield (hidden,), np.stack([1 - high, high])
    for name, law in singles.items():
        rng = doubt.generator((name,))
        root, normal = np.sqrt(np.maximum(law, 1e-9)), rng.standard_normal(law.shape)
        towards = (normal - root * (root * normal).sum(axis=0)) / root * rng.choice(amplitudes, draws, p=chances)
        yield (name, hidden), np.clip(1 + towards[:, None] * codes, LEAST_FACTOR, MOST_FACTOR)


def _doubt_triples(
    plan: LawPlan, singles: Mapping[str, Floats], doubt: Doubt, loose: Callable[[Scope], bool]
) -> Iterator[tuple[Scope, Array]]:
    """Interactions of triples inside the cliques, of which nothing was measured."""
    assert plan.tree is not None
    inside = (
        triple
        for clique in plan.tree.cliques
        for triple in combinations(plan.network.ordered(name for name in clique if name != plan.hidden), 3)
    )
    draws = next(iter(singles.values())).shape[-1]
    for triple in islice(filter(loose, dict.fromkeys(inside)), MOST_DOUBTED_TRIPLES):
        rng = doubt.generator(triple)
        first, second, third = (singles[name] for name in triple)
        apart = first[:, None, None] * second[None, :, None] * third[None, None]
        tau = rng.choice(INTERACTION_SIZES, size=draws, p=doubt.triples)
        more = draw_interaction(apart, tau, rng, draws, np.arange(draws))
        yield triple, np.clip(1 + more / np.maximum(apart, 1e-12), LEAST_FACTOR, MOST_FACTOR)


@lru_cache(maxsize=64)
def _find_amplitudes(sizes: tuple[float, ...]) -> Floats:
    """Find weights of roots of the sizes, so that products of two that are drawn by them are of the sizes' weights.

    Args:
        sizes: weights of `INTERACTION_SIZES`.
    """
    grid, wanted = np.sqrt(INTERACTION_SIZES), np.cumsum(sizes)
    middle = [(one * other) ** 0.5 for one, other in zip(INTERACTION_SIZES[1:-1], INTERACTION_SIZES[2:], strict=True)]
    place = np.digitize(np.multiply.outer(grid, grid), [INTERACTION_SIZES[1] / 2, *middle]).ravel()

    def weights(logs: Floats) -> Floats:
        shares = np.exp(logs - logs.max())
        return np.asarray(shares / shares.sum())

    def loss(logs: Floats) -> float:
        own = weights(logs)
        made = np.bincount(place, np.multiply.outer(own, own).ravel(), len(grid))
        return float(np.square(np.cumsum(made) - wanted).sum())

    starts = (np.log(np.sqrt(np.maximum(sizes, 1e-3))) + tilt * np.arange(len(grid)) for tilt in (0.0, 0.3, -0.3))
    best = min((minimize(loss, start, method="BFGS") for start in starts), key=lambda found: float(found.fun))
    return weights(best.x)
