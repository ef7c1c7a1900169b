"""Exact inference over posterior draws: all node marginals given observed leaves, beside pyAgrum in a loop.

`python -m bench.inference [--network alarm] [--draws 1000] [--evidence 4] [--repeats 7]`. CPU seconds of this process,
the fastest repeat; both sides start from tables that are drawn already. pyAgrum's loop fills its tables for each draw
and then propagates (its own engine, compiled); the loop runs over fewer draws and is scaled, because it is linear.
The answers are compared on every looped draw.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import discreet as dc
from discreet.theory import inference

from .networks import theta_of


def fastest(run: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest repeat, all threads."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def peer(cells: dc.Tables, evidence: dict[str, int], loops: int, ours: dict[str, np.ndarray]) -> float:
    """CPU seconds for each draw of the same work in pyAgrum; fails if an answer differs."""
    import pyagrum as gum

    network, net = cells.network, gum.BayesNet()
    # States are numbered: pyAgrum refuses some names that real files use.
    for variable in network.schema:
        net.add(gum.LabelizedVariable(variable.name, variable.name, [str(code) for code in range(variable.size)]))
    for parent, child in network.arcs:
        net.addArc(parent, child)
    tables = {}
    for node in network.nodes:
        # pyAgrum names axes; ours are the family's.
        axes = [network.family(node).index(name) for name in reversed(net.cpt(node).names)]
        tables[node] = [np.ascontiguousarray(cells[node][..., draw].transpose(axes)) for draw in range(loops)]
    engine = gum.LazyPropagation(net)
    found = []
    start = time.process_time()
    for draw in range(loops):
        for node in network.nodes:
            net.cpt(node)[:] = tables[node][draw]
        engine = gum.LazyPropagation(net)
        engine.setEvidence(evidence)
        engine.makeInference()
        found.append({node: engine.posterior(node).tolist() for node in ours})
    spent = (time.process_time() - start) / loops
    for draw, marginals in enumerate(found):
        for node, values in marginals.items():
            np.testing.assert_allclose(ours[node][:, draw], values, atol=1e-9)
    return spent


def main() -> None:
    """Read the command line and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--evidence", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--loops", type=int, default=100)
    given = parser.parse_args()
    theta = theta_of(given.network)
    network = theta.network
    cells = dc.Dirichlet.from_probabilities(theta, 100).draws(given.draws, np.random.default_rng(0))
    leaves = [node for node in network.nodes if not network.children(node)]
    evidence = dict.fromkeys(leaves[: given.evidence], 0)
    ours = inference.marginals(cells, evidence)
    own = fastest(lambda: inference.marginals(cells, evidence), given.repeats) / given.draws
    rounds = [peer(cells, evidence, given.loops, ours) for _ in range(3)]
    print(f"{given.network}, {len(ours)} marginals given {len(evidence)} leaves, {given.draws} draws, float64")
    print(f"discreet            {1e6 * own:8.1f} us a draw")
    print(f"pyAgrum in a loop   {1e6 * min(rounds):8.1f} us a draw    ratio {min(rounds) / own:.0f}")


if __name__ == "__main__":
    main()
