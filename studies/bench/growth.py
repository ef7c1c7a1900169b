"""How CPU seconds and peak memory of a posterior grow: in nodes, in-degree, states, rows and draws.

`python -m bench.growth [nodes parents states rows draws large] [--draws 100]` makes up records of random networks,
releases them (`planned`, epsilon 1) and draws every family of the learned prior's posterior, then asks all marginals.
Each line is a process of its own, so that peak memory is its own; CPU seconds are those of the named step, all threads,
and what is compiled is compiled before. `large` are the sizes that are to take at most 20 CPU seconds (1,000 nodes) or
5 (one wide family) and 1 GiB, and networks past exact inference, whose answers are sampled.

Where pyAgrum is installed its exact inference of the same marginals runs beside ours on the smaller ones, one draw
after the other and scaled. A network has nodes in order, and each node's parents are drawn from the ten before it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import numpy as np

import discreet as dc
from discreet.inference.exact_laws import affordable
from discreet.inference.sampling import sample_codes

from .inference import PyAgrum

NEAR = 10
"""Nodes before a node among which are its parents."""
PEER_DRAWS = 3
"""Of the peer's loop, which is linear in draws."""
MOST_PEER_NODES = 100
ASKED = 20
"""Marginals."""
PLACES = {"nodes": 1, "parents": 2, "states": 3, "rows": 4, "draws": 5}
"""Of what a table grows in, in its cases."""
Made = TypeVar("Made")
Case = tuple[str, int, int, int, int, int]
"""The kind of network, its nodes, in-degree and states, rows, and draws."""


def lattice(nodes: int, parents: int, states: int, near: int = NEAR, seed: int = 0) -> dc.Network:
    """A random network in which every node has parents among the few before it."""
    rng = np.random.default_rng(seed)
    names = [f"v{position}" for position in range(nodes)]
    above = {}
    for position, name in enumerate(names):
        pool = names[max(0, position - near) : position]
        picked = sorted(rng.choice(len(pool), min(parents, len(pool)), replace=False).tolist())
        above[name] = tuple(pool[place] for place in picked)
    labels = tuple(f"s{state}" for state in range(states))
    return dc.Network(tuple(dc.Variable(name, labels) for name in names), above)


def wide(parents: int, states: int) -> dc.Network:
    """One node with many parents, which are roots."""
    labels = tuple(f"s{state}" for state in range(states))
    names = [f"v{position}" for position in range(parents + 1)]
    above = dict.fromkeys(names[:-1], ()) | {names[-1]: tuple(names[:-1])}
    return dc.Network(tuple(dc.Variable(name, labels) for name in names), above)


def network_of(kind: str, nodes: int, parents: int, states: int) -> dc.Network:
    """The network of a case."""
    match kind:
        case "random":
            return lattice(nodes, parents, states)
        case "far":
            return lattice(nodes, parents, states, near=nodes)
        case "wide":
            return wide(parents, states)
        case _:
            raise SystemExit(f"no kind of network {kind!r}")


@dataclass(frozen=True)
class Measured:
    """One line.

    Args:
        case: that was measured.
        cells: table entries of all families.
        count, release, draw, ask, more: CPU seconds of each step; `more` is the marginals.
        memory: peak of the process, GiB.
        peer: CPU seconds of pyAgrum for the exact inference of as many draws; None where it was not asked.
        sampled: standard error of the answer, where exact inference is out of reach.
    """

    case: Case
    cells: int
    count: float
    release: float
    draw: float
    ask: float
    more: float
    memory: float
    peer: float | None
    sampled: float | None

    def __str__(self) -> str:
        kind, nodes, parents, states, rows, draws = self.case
        line = f"{kind:7}{nodes:6}{parents:5}{states:6}{rows:9}{draws:7}{self.cells:9}{self.count:8.2f}"
        line += f"{self.release:8.2f}{self.draw:8.2f}{self.ask:8.2f}{self.more:8.2f}{self.memory:7.2f}"
        line += "" if self.peer is None else f"{self.peer:9.2f}"
        return line if self.sampled is None else f"{line}  sampled, standard error {self.sampled:.2g}"


def measured(case: Case) -> Measured:
    """One line, of this process."""
    kind, nodes, parents, states, rows, draws = case
    network, rng = network_of(kind, nodes, parents, states), np.random.default_rng(3)
    prior = dc.Dirichlet.uniform(network)
    theta = prior.draw(1, rng=rng)
    truth = dc.Tables(network, {node: theta[node][..., 0] for node in network.nodes})
    codes = sample_codes(truth, rows, rng)
    promise = dc.Guarantee(epsilon="1", delta=0, relation="add-remove", unit="record")
    warm_up(promise)
    counts, counting = timed(lambda: dc.tools.count_codes(network, codes))
    release, releasing = timed(lambda: dc.simulate(dc.tools.MECHANISMS["planned"](), counts, prior, promise, rng=rng))
    posterior, drawing = timed(lambda: every_family(release, draws, rng))
    asked = ", ".join(network.nodes[-1:])
    answer, asking = timed(lambda: dc.answer(posterior, f"P({asked} | {network.nodes[0]}=s0)", level=0.95))
    _, again = timed(lambda: every_marginal(posterior))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = network.size
    reached = nodes <= MOST_PEER_NODES and affordable(network, None, ())
    alike = reached and find_spec("pyagrum") is not None
    peer = by_pyagrum(posterior.probabilities) * draws / PEER_DRAWS if alike else None
    error = None if answer.sampling is None else answer.sampling.error
    return Measured(case, cells, counting, releasing, drawing, asking, again, peak, peer, error)


def warm_up(promise: dc.Guarantee) -> None:
    """Load and compile what a process compiles once."""
    network, rng = lattice(4, 2, 3), np.random.default_rng(1)
    counts = dc.tools.count_codes(network, {name: rng.integers(0, 3, 100) for name in network.nodes})
    release = dc.simulate(dc.tools.MECHANISMS["planned"](), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    every_marginal(dc.noise_aware(release, draws=10, rng=rng))


def every_family(release: dc.Release, draws: int, rng: np.random.Generator) -> dc.results.PosteriorDraws:
    """The posterior, all its tables drawn."""
    posterior = dc.noise_aware(release, draws=draws, rng=rng)
    for node in release.network.nodes:
        posterior.probabilities[node]
    return posterior


def every_marginal(posterior: dc.results.PosteriorDraws) -> None:
    """Ask for a score of marginals."""
    nodes = posterior.network.nodes
    dc.answer_many(posterior, [f"P({node})" for node in nodes[:: max(1, len(nodes) // ASKED)]], level=0.95)


def timed(run: Callable[[], Made]) -> tuple[Made, float]:
    """What was made, and the CPU seconds of all threads."""
    start = time.process_time()
    made = run()
    return made, time.process_time() - start


def by_pyagrum(cells: dc.Tables) -> float:
    """CPU seconds of a loop over a few draws: fill the tables, then all marginals."""
    peer, nodes = PyAgrum(cells, PEER_DRAWS), list(cells.network.nodes)

    def run() -> None:
        for draw in range(PEER_DRAWS):
            peer.fill(draw)
            peer.marginals({}, nodes)

    return timed(run)[1]


def cases(of: str, draws: int) -> list[Case]:
    """The lines of a table."""
    return {
        "nodes": [("random", nodes, 2, 2, 10_000, draws) for nodes in (30, 100, 300, 1000)],
        "parents": [("random", 20, parents, 2, 10_000, draws) for parents in (1, 3, 6, 9)],
        "states": [("random", 20, 2, states, 10_000, draws) for states in (2, 4, 8, 14)],
        "rows": [("random", 20, 2, 2, rows, draws) for rows in (10_000, 100_000, 1_000_000)],
        "draws": [("random", 20, 2, 2, 10_000, draws * times) for times in (1, 3, 10, 30)],
        "large": [
            ("random", 1000, 1, 2, 10_000, draws),
            ("random", 1000, 2, 2, 10_000, draws),
            ("random", 1000, 3, 2, 10_000, draws),
            ("random", 190, 2, 5, 10_000, draws),
            ("wide", 13, 12, 2, 10_000, draws),
            ("wide", 2, 1, 300, 10_000, draws),
            ("far", 100, 3, 2, 10_000, draws),
            ("far", 1000, 3, 2, 10_000, draws),
        ],
    }[of]


def main() -> None:
    """Run what the command line names."""
    tables = ("nodes", "parents", "states", "rows", "draws", "large")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=tables, help=" ".join(tables))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--picture", type=Path, help="SVG of what grows with one number")
    parser.add_argument("--case", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        kind, *numbers = options.case
        nodes, parents, states, rows, draws = map(int, numbers)
        print(json.dumps(asdict(measured((kind, nodes, parents, states, rows, draws)))))
        return
    found = dict[str, list[Measured]]()
    for name in options.tables:
        print(f"\ngrowth in {name}: CPU seconds; GiB of peak memory", flush=True)
        print(
            "kind    nodes   in states     rows  draws    cells   count release    draw     ask    more    GiB  pyAgrum"
        )
        for case in cases(name, options.draws):
            command = [sys.executable, "-m", "bench.growth", "--case", *map(str, case)]
            told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            line = Measured(**{**told, "case": tuple(told["case"])})
            found.setdefault(name, []).append(line)
            print(line, flush=True)
    if options.picture:
        from .pictures import draw_growth  # all but this part works without the extra

        sizes = {name: PLACES[name] for name in found if name in PLACES}
        draw_growth(
            {name: [(line.case[at], line.draw, line.memory) for line in found[name]] for name, at in sizes.items()},  # type: ignore[misc]
            options.picture,
        )


if __name__ == "__main__":
    main()
