r"""One joint law per draw: the network's rows, the margins of measured sets, and random interactions elsewhere.

Under draw s, with h a hidden variable of two states,

    p_s(x, h)  ~  pi(h)  prod_v theta_v(x_v | parents) t_v(x_v, h)  prod_T d_T(x_T)  prod_F phi_F(x_F) prod_S phi_S(x_S)

* theta are the rows (distributions of a node in one state of its parents); F are the families (a node with its
  parents), whose joint laws stay those of the draw (`pooled/family_laws.py`);
* S are the measured sets (of variables that one table contains) whose law the network does not leave free; their
  margins are the drawn ones
  (`pooled/measured_sets.py`). All phi are computed by iterative proportional fitting on a clique tree
  (`inference/clique_laws.py`): of all laws with these margins, it finds the one closest in relative entropy to the
  start;
* t doubts the pairs that no table contains: each state of v is made more or less likely by a factor 1 + a_v u_v(x_v)
  c(h), where u_v and c have mean 0. Two variables then have an interaction of size a_i a_j, whose prior is learned from
  measured pairs (`pooled/discrepancy.py`). Over states in an order u_v is a random walk: neighbours go together, ends
  do not;
* d doubts the triples that no table and no family contains, inside the cliques.

t and d belong to the start of the fit: measured margins and the laws of families stay as they were drawn. All answers,
records and predictions are computed from this law, so that every way to one number agrees.

Source: Deming and Stephan (1940), Csiszar (1975) for proportional fitting; Jirousek and Preucil (1995) on trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np

from discreet.inference.clique_laws import fit_laws
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.law_plan import LawPlan
from discreet.posterior.pooled.discrepancy import CHOSEN_GAIN, INTERACTION_SIZES, draw_interaction
from discreet.posterior.pooled.family_laws import move_to_families
from discreet.util.arrays import Array, Floats, margin

TOURS = 20
"""Largest number of passes of proportional fitting over all cliques."""
LEAST_STATE_SHARE = 0.15
"""Least probability of a state of the hidden variable."""
LEAST_FACTOR, MOST_FACTOR = 0.05, 20.0
"""Least and largest factor by which a random interaction changes a cell."""
AMPLITUDE_STEPS = 200
"""Number of EM steps for the weights of amplitudes."""
MOST_DOUBTED_TRIPLES = 400
"""Largest number of unmeasured triples, inside cliques, that get an interaction; more take time and change little."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """Prior of the sizes of unmeasured interactions, and the random generators that draw them.

    Args:
        pairs: prior probabilities of the sizes of pair interactions (`INTERACTION_SIZES`), shape (sizes,); None if the
            network is assumed.
        triples: prior probabilities of the sizes of triple interactions, shape (sizes,).
        generator: function from a set of variables to its own generator; the empty set has that of the hidden variable.
        is_loose: whether three variables may have an unmeasured interaction.
        chosen: whether the network's arcs were chosen from the records: sizes of pairs are then CHOSEN_GAIN (2)
            times as large, for what the fit takes from them.
    """

    pairs: Floats | None
    triples: Floats
    generator: Callable[[Scope], np.random.Generator]
    is_loose: Callable[[Scope], bool]
    chosen: bool


def fit_joint_law(
    plan: LawPlan, cells: Tables, families: Mapping[str, Floats], drawn: Mapping[Scope, Array], doubt: Doubt
) -> Tables:
    """Fit the joint law of every draw by iterative proportional fitting on the plan's clique tree.

    It starts from the rows times random interactions: of pairs by a hidden variable, if the plan doubts them and
    `doubt.pairs` is given, and of loose triples in any case. At most TOURS (20) passes scale it to the margins of the
    plan's sets, each first raked to those that it shares with families, and then to the laws of the families.

    Args:
        plan: plan of the law, with a tree.
        cells: rows of the network, shape `(*parents, child, draws)`.
        families: joint laws of the families, by node, each of the shape of the node's rows.
        drawn: laws of the plan's sets, shape `(*sizes, draws)`.
        doubt: prior of unmeasured interactions, and the generators that draw them.

    Returns:
        Rows of `plan.wide`, float32, shape `(*parents, child, draws)`; `wide` keeps the hidden variable. Rows with an
        impossible condition are uniform. Families are scaled last: where margins contradict each other, theirs hold.
    """
    assert plan.tree is not None
    network, draws = plan.network, cells.draws or 1
    singles = {node: margin(law, network.family(node), (node,)) for node, law in families.items()}
    factors: list[tuple[Scope, Array]] = [(network.family(node), cells[node]) for node in network.nodes]
    if plan.doubt and doubt.pairs is not None:
        factors += _draw_pair_factors(plan, singles, doubt, draws)
    factors += _draw_triple_factors(plan, singles, doubt)
    targets: list[tuple[Scope, Array]] = [
        (names, move_to_families(drawn[names], names, network, families)) for names in plan.sets
    ]
    targets += [(network.family(node), families[node]) for node in network.nodes]
    fitted = fit_laws(plan.tree, factors, targets, tours=TOURS)
    return Tables(plan.wide, {name: rows for name, (_, rows) in fitted.rows.items()}, draws=draws)


def _draw_pair_factors(
    plan: LawPlan, singles: Mapping[str, Floats], doubt: Doubt, draws: int
) -> Iterator[tuple[Scope, Array]]:
    """Draw the law pi of the hidden variable and the factors t_v of all others, from which pairs get interactions.

    `t_v = 1 + a_v u_v(x_v) c(h)`, clipped to LEAST_FACTOR and MOST_FACTOR (0.05 to 20). In each draw a_v is the root of
    one of INTERACTION_SIZES times the gain, drawn with the weights of `_fit_amplitude_weights`. u_v is a normal vector
    made orthogonal to the root of the variable's law (at least 1e-9) and divided by it, so it has mean 0 under
    this law. Over ordered states (`Variable.comparable`) it is a walk with standard normal steps, less its mean, scaled
    to the mean square that the normal vector has on average, size - 1; a state for gaps has a value of its own. c has
    mean 0 and variance 1 under pi.

    Args:
        plan: plan of the law, with doubt.
        singles: law of each variable, shape `(size, draws)`.
        doubt: prior of unmeasured interactions, with `pairs`; each variable has a generator of its own.
        draws: number of draws.

    Returns:
        An iterator over `((hidden,), pi)`, shape (2, draws), with a probability that is uniform from LEAST_STATE_SHARE
        (.15) to .85, then for each variable `((variable, hidden), t_v)`, shape `(size, 2, draws)`.
    """
    assert doubt.pairs is not None
    chances, gain = _fit_amplitude_weights(tuple(doubt.pairs.tolist())), CHOSEN_GAIN if doubt.chosen else 1.0
    high = doubt.generator(()).uniform(LEAST_STATE_SHARE, 1 - LEAST_STATE_SHARE, draws)
    # Codes c(h) have mean 0 and variance 1 over the two states; each u_v below has mean 0 under the law of v.
    codes = np.stack([-np.sqrt(high / (1 - high)), np.sqrt((1 - high) / high)])
    yield (plan.hidden,), np.stack([1 - high, high])
    for name, law in singles.items():
        rng, variable = doubt.generator((name,)), plan.network.schema[name]
        root, normal = np.sqrt(np.maximum(law, 1e-9)), rng.standard_normal(law.shape)
        if variable.comparable:
            bins = len(variable.edges) - 1  # without a state for gaps
            walk = normal[:bins].cumsum(axis=0)
            normal = root * np.concatenate([walk - walk.mean(axis=0), normal[bins:]])
        # u_v times the root of the law: orthogonal to the root.
        towards = normal - root * (root * normal).sum(axis=0)
        if variable.comparable:
            towards *= np.sqrt((len(law) - 1) / np.maximum((towards**2).sum(axis=0), 1e-9))
        towards = towards / root * np.sqrt(gain * rng.choice(INTERACTION_SIZES, draws, p=chances))
        yield (name, plan.hidden), np.clip(1 + towards[:, None] * codes, LEAST_FACTOR, MOST_FACTOR)


def _draw_triple_factors(plan: LawPlan, singles: Mapping[str, Floats], doubt: Doubt) -> Iterator[tuple[Scope, Array]]:
    """Draw the factors d_T of unmeasured triples inside the cliques: 1 + random interaction over the independent law.

    The interaction is normal (`draw_interaction`); in each draw its size is one of INTERACTION_SIZES, drawn with the
    weights `doubt.triples`. It is divided by the product of the three variables' laws, at least 1e-12, and the factor
    is clipped to LEAST_FACTOR and MOST_FACTOR (0.05 to 20).

    Args:
        plan: plan of the law, with a tree.
        singles: law of each variable, shape `(size, draws)`.
        doubt: prior of unmeasured interactions; each triple has a generator of its own.

    Returns:
        An iterator over (triple, factor of shape `(size, size, size, draws)`), for at most the first
        MOST_DOUBTED_TRIPLES (400) triples that `doubt.is_loose` accepts, in the order of the cliques, without the
        hidden variable.
    """
    assert plan.tree is not None
    inside = (
        triple
        for clique in plan.tree.cliques
        for triple in combinations(plan.network.ordered(name for name in clique if name != plan.hidden), 3)
    )
    draws = next(iter(singles.values())).shape[-1]
    for triple in islice(filter(doubt.is_loose, dict.fromkeys(inside)), MOST_DOUBTED_TRIPLES):
        rng = doubt.generator(triple)
        first, second, third = (singles[name] for name in triple)
        apart = first[:, None, None] * second[None, :, None] * third[None, None]
        tau = rng.choice(INTERACTION_SIZES, size=draws, p=doubt.triples)
        more = draw_interaction(apart, tau, rng, draws, np.arange(draws))
        yield triple, np.clip(1 + more / np.maximum(apart, 1e-12), LEAST_FACTOR, MOST_FACTOR)


@lru_cache(maxsize=64)
def _fit_amplitude_weights(sizes: tuple[float, ...]) -> Floats:
    """Fit weights of amplitudes a_v such that the law of products a_i a_j is closest to that of the sizes, by EM.

    A product counts as the nearest size on the log scale, and as size 0 if it is below half of the smallest positive
    one. AMPLITUDE_STEPS (200) EM steps start at equal weights. The last 64 results are cached: the array must not be
    changed.

    Args:
        sizes: probabilities of `INTERACTION_SIZES`, shape (sizes,).

    Returns:
        Probabilities of the roots of `INTERACTION_SIZES`, shape (sizes,), of least relative entropy. Which two
        amplitudes made a product is the missing data of the EM algorithm.
    """
    grid = np.sqrt(INTERACTION_SIZES)
    ends = [INTERACTION_SIZES[1] / 2, *np.sqrt(np.multiply(INTERACTION_SIZES[1:-1], INTERACTION_SIZES[2:]))]
    nearest = np.digitize(np.multiply.outer(grid, grid), ends)
    weights = np.full(len(grid), 1 / len(grid))
    for _ in range(AMPLITUDE_STEPS):
        both = np.multiply.outer(weights, weights)
        implied = np.bincount(nearest.ravel(), both.ravel(), len(grid))
        # E step: distribute each size over the pairs of amplitudes that round to it; M step: sum over the second one.
        weights = (both * np.divide(sizes, np.maximum(implied, 1e-300))[nearest]).sum(axis=1)
        weights /= weights.sum()
    return np.asarray(weights)
