"""One joint law a draw beside proportional fitting by full elimination: CPU seconds.

`python -m bench.clique_laws [--draws 1000] [--peer-draws 50] [--tours 8]`. The network is alarm's with rows drawn at
random and a hidden variable of two states in every clique; pairs of nodes are moved to other laws and families kept.
The peer keeps a factor for every target and sums everything else out before it scales it, one pass over the network
for each fit. It runs over fewer draws and is scaled, because it is linear.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import discreet as dc
from discreet.inference.clique_laws import CliqueTree, fit_laws
from discreet.inference.exact_laws import Laws
from discreet.inference.junction_tree import junction_tree
from discreet.inference.kernels import PROBABILITIES, Pass
from discreet.model.schema import Scope
from discreet.posterior.pooled.raking import fit_margins
from experiments.networks import theta_of

from .inference import fastest

PAIRS, MOST_CELLS = 23, 8000
"""Pairs of nodes that are moved, and cells of all cliques that they may ask for."""
Named = tuple[Scope, np.ndarray]


def random_rows(network: dc.Network, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Posterior draws as of some hundred records a row."""
    cells = {}
    for node in network.nodes:
        means = rng.dirichlet(np.full(network.schema[node].size, 0.7), network.shape(node)[:-1])
        values = rng.gamma(np.maximum(200 * means[..., None], 0.01) * np.ones(draws))
        cells[node] = values / values.sum(axis=-2, keepdims=True)
    return dc.Tables(network, cells, draws=draws)


def choose_pairs(scopes: list[Scope], sizes: dict[str, int], rng: np.random.Generator) -> list[Scope]:
    """Pairs of nodes that cliques have room for; the scopes grow by them."""
    names, pairs = [name for name in sizes if name != "hidden"], list[Scope]()
    for _ in range(2000):
        one, other = sorted(rng.choice(len(names), 2, replace=False))
        pair = names[one], names[other]
        room = MOST_CELLS * (0.55 + 0.45 * len(pairs) / PAIRS)
        if any(set(pair) <= set(scope) for scope in scopes):
            continue
        if len(pairs) < PAIRS and CliqueTree.of([*scopes, (*pair, "hidden")], sizes).cells <= room:
            pairs.append(pair)
            scopes.append((*pair, "hidden"))
    return pairs


def fit_by_elimination(
    sizes: dict[str, int], factors: Sequence[Named], targets: Sequence[Named], tours: int, draws: int
) -> list[Named]:
    """The factors of the fitted law, by plain rounds over all targets."""
    fitted = [*factors, *((scope, np.ones_like(wanted)) for scope, wanted in targets)]
    trees = [junction_tree([(None, scope) for scope, _ in fitted], sizes, scope) for scope, _ in targets]
    for _ in range(tours):
        for place, (tree, (scope, wanted)) in enumerate(zip(trees, targets, strict=True), len(factors)):
            margin, _ = Pass(PROBABILITIES, tree, [array for _, array in fitted], draws).joint(scope)
            fitted[place] = scope, fitted[place][1] * wanted / np.maximum(margin, 1e-300)
    return fitted


def main() -> None:
    """Print both times and the distance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--peer-draws", type=int, default=50)
    parser.add_argument("--tours", type=int, default=8)
    given = parser.parse_args()
    rng, network, draws = np.random.default_rng(0), theta_of("alarm").network, given.draws
    cells = random_rows(network, draws, rng)
    sizes = {name: network.schema[name].size for name in network.nodes} | {"hidden": 2}
    families = [tuple(network.family(node)) for node in network.nodes]
    scopes: list[Scope] = [(*family, "hidden") for family in families]
    pairs, single = choose_pairs(scopes, sizes, rng), Laws(cells).marginals()
    targets = []
    for pair in pairs:
        law = Laws(cells).joint(pair)
        moved = law * np.exp(0.2 * rng.standard_normal(law.shape))
        targets.append((pair, fit_margins(moved / moved.sum(axis=(0, 1)), pair, {(v,): single[v] for v in pair})))
    targets += [(family, Laws(cells).joint(family)) for family in families]
    factors: list[Named] = [(tuple(network.family(node)), np.asarray(cells[node])) for node in network.nodes]
    factors.append((("hidden",), rng.dirichlet([6, 6], draws).T))
    for node in network.nodes:
        tilt = 1 + 0.3 * rng.standard_normal((sizes[node], 2, draws))
        factors.append(((node, "hidden"), tilt.clip(0.05, 20)))
    tree, few = CliqueTree.of(scopes, sizes), slice(0, given.peer_draws)
    some, aims = ([(scope, array[..., few]) for scope, array in named] for named in (factors, targets))
    laws = fit_laws(tree, factors, targets, tours=given.tours)
    ours = fastest(lambda: fit_laws(tree, factors, targets, tours=given.tours), 5)
    theirs = fastest(lambda: fit_by_elimination(sizes, some, aims, len(laws.misfit), given.peer_draws), 1)
    theirs *= draws / given.peer_draws
    print(f"{tree.cells} cells, {len(targets)} targets, {len(laws.misfit)} tours, misfit {laws.misfit[-1]:.4f}")
    print(f"tree of cliques {ours:.3f} s, full elimination {theirs:.1f} s ({theirs / ours:.0f} x); {draws} draws")


if __name__ == "__main__":
    main()
