"""Exact inference over posterior draws beside pyAgrum and pgmpy, each ratio next to its target.

`python -m bench.inference [--network alarm win95pts andes] [--draws 1000] [--evidence 4] [--repeats 7]`. CPU seconds of
this process, the fastest repeat of each side, in one run. Tables are drawn already unless a line says otherwise, and
evidence is the first state of the first leaves. pyAgrum's loop fills its tables for each draw and then propagates (its
own engine, compiled); it runs over fewer draws and is scaled, because it is linear. Every peer's answer is compared
with ours. Lines without a target are there to be read; a target that is missed says so.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import discreet as dc
from discreet.inference.exact_laws import EVALUATED_EXPLANATIONS, Explained, Laws
from experiments.networks import theta_of

ABOUT = {"alarm": 1000, "win95pts": 1000, "andes": 64}
"""Draws of each network unless the command line says otherwise: a thousand of andes take pyAgrum a minute."""
MARGINALS = {("alarm", "float32"): 700, ("alarm", "float64"): 250, ("win95pts", "float32"): 800,
             ("win95pts", "float64"): 300, ("andes", "float32"): 30}  # fmt: skip
"""How many times faster than pyAgrum in a loop all marginals are to be."""
PRECISIONS = (np.float32, np.float64)
CLOSE = {np.float32: 2e-6, np.float64: 1e-9}


@dataclass(frozen=True)
class Line:
    """One comparison.

    Args:
        what: was computed.
        ours: CPU seconds.
        peer: CPU seconds; None where no peer can do it.
        unit: of time for printing, seconds.
        target: least ratio peer / ours, or most of ours in units if there is no peer; None for none.
    """

    what: str
    ours: float
    peer: float | None
    unit: float
    target: float | None

    def __str__(self) -> str:
        name = {1e-6: "us", 1e-3: "ms"}[self.unit]
        text = f"  {self.what:<75} {self.ours / self.unit:8.2f} {name}"
        if self.peer is None:
            aim, met = f"at most {self.target} {name}", self.ours <= (self.target or np.inf) * self.unit
            text += f" {'no peer':>22}"
        else:
            aim, met = f"at least {self.target} x", self.peer / self.ours >= (self.target or 0)
            text += f" {self.peer / self.unit:9.2f} {name} {self.peer / self.ours:7.2f} x"
        return text if self.target is None else f"{text}   target {aim}{'' if met else ': MISSED'}"


def fastest(run: Callable[[], object], repeats: int) -> float:
    """CPU seconds of the fastest repeat, all threads."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@dataclass(frozen=True, eq=False)
class Setting:
    """What both sides are asked.

    Args:
        name: of the network.
        prior: whose draws are asked.
        draws: number of draws.
        evidence: states of some leaves.
        repeats: of every timing; short ones are repeated more.
        loops: draws that a peer's loop goes through.
    """

    name: str
    prior: dc.Dirichlet
    draws: int
    evidence: dict[str, int]
    repeats: int
    loops: int

    @property
    def network(self) -> dc.Network:
        """The network."""
        return self.prior.network

    @cached_property
    def cells(self) -> dc.Tables:
        """Draws in double precision."""
        return self.prior.draw(self.draws, rng=np.random.default_rng(0))

    @cached_property
    def single(self) -> dc.Tables:
        """The same draws in single precision."""
        return self.cells.map(lambda array: array.astype(np.float32))

    @cached_property
    def first(self) -> dc.Tables:
        """The first draw alone."""
        return dc.Tables(self.network, {node: array[..., :1] for node, array in self.cells.items()}, draws=1)

    @cached_property
    def above(self) -> list[str]:
        """What the evidence bears on: the ancestors of the observed leaves, in the network's order."""
        found = self.network.ancestors(self.evidence).difference(self.evidence)
        return [node for node in self.network.nodes if node in found]

    @cached_property
    def roots(self) -> list[str]:
        """Up to five causes of the evidence that have none themselves."""
        found = [node for node in self.above if not self.network.parents[node]]
        return found[:: -(-len(found) // 5)]

    @cached_property
    def three(self) -> list[str]:
        """Three causes of the evidence, spread over them."""
        return self.above[:: -(-len(self.above) // 3)]


# ------------------------------------------------------------------------------------------------------------- peers


class PyAgrum:
    """The network in pyAgrum; states are numbered, because it refuses some names that real files use."""

    def __init__(self, cells: dc.Tables, loops: int) -> None:
        import pyagrum as gum

        self.gum, self.net = gum, gum.BayesNet()
        network = cells.network
        for variable in network.schema:
            labels = [str(code) for code in range(variable.size)]
            self.net.add(gum.LabelizedVariable(variable.name, variable.name, labels))
        for parent, child in network.arcs:
            self.net.addArc(parent, child)
        self.tables: dict[str, list[np.ndarray]] = {}
        for node in network.nodes:
            # pyAgrum names axes; ours are the family's.
            axes = [network.family(node).index(name) for name in reversed(self.net.cpt(node).names)]
            self.tables[node] = [np.ascontiguousarray(cells[node][..., draw].transpose(axes)) for draw in range(loops)]
        self.fill(0)

    def fill(self, draw: int) -> None:
        """Put a draw's probabilities into the network."""
        for node, tables in self.tables.items():
            self.net.cpt(node)[:] = tables[draw]

    def marginals(self, evidence: Mapping[str, int], nodes: list[str]) -> dict[str, list[float]]:
        """All posteriors under the probabilities that are filled in."""
        engine = self.gum.LazyPropagation(self.net)
        engine.setEvidence(dict(evidence))
        engine.makeInference()
        return {node: engine.posterior(node).tolist() for node in nodes}

    def posterior(self, target: str, evidence: Mapping[str, int]) -> list[float]:
        """One posterior, by variable elimination."""
        engine = self.gum.VariableElimination(self.net)
        engine.setEvidence(dict(evidence))
        engine.setTargets({target})
        engine.makeInference()
        return list(engine.posterior(target).tolist())


class Pgmpy:
    """One draw in pgmpy; states are codes."""

    def __init__(self, cells: dc.Tables) -> None:
        logging.disable(logging.WARNING)
        with warnings.catch_warnings(action="ignore"):
            from pgmpy.factors.discrete import TabularCPD
            from pgmpy.inference import VariableElimination
            from pgmpy.models import DiscreteBayesianNetwork

        network, model = cells.network, DiscreteBayesianNetwork()
        model.add_nodes_from(network.nodes)
        model.add_edges_from(network.arcs)
        for node in network.nodes:
            *above, size = network.shape(node)
            table = cells[node][..., 0].reshape(-1, size).T
            model.add_cpds(TabularCPD(node, size, table, list(network.parents[node]) or None, above or None))
        self.engine = VariableElimination(model)

    def joint(self, targets: list[str], evidence: Mapping[str, int]) -> np.ndarray[Any, Any]:
        """`P(targets | evidence)`, in the order of the targets."""
        table = self.engine.query(list(targets), dict(evidence), show_progress=False)
        return np.asarray(table.values.transpose([table.variables.index(name) for name in targets]))


# ------------------------------------------------------------------------------------------------------- comparisons


def all_marginals(at: Setting) -> Iterator[Line]:
    """Over draws, in both precisions, and with the drawing; then of one draw."""
    peer = PyAgrum(at.cells, at.loops)
    double = Laws(at.cells).marginals(at.evidence)
    nodes, found = list(double), []

    def loop() -> None:
        found.clear()
        for draw in range(at.loops):
            peer.fill(draw)
            found.append(peer.marginals(at.evidence, nodes))

    looped = fastest(loop, 2) / at.loops
    drawn = fastest(lambda: at.prior.draw(at.draws, rng=np.random.default_rng(0)), 3) / at.draws
    for dtype, cells in zip(PRECISIONS, (at.single, at.cells), strict=True):
        ours = Laws(cells, dtype).marginals(at.evidence)
        for draw, theirs in enumerate(found):
            for node in nodes:
                np.testing.assert_allclose(ours[node][:, draw], theirs[node], atol=CLOSE[dtype])
        name, target = dtype.__name__, MARGINALS.get((at.name, dtype.__name__))
        own = fastest(lambda c=cells, d=dtype: Laws(c, d).marginals(at.evidence), at.repeats) / at.draws
        yield Line(f"{len(nodes)} marginals, {name}, a draw, against pyAgrum's loop", own, looped, 1e-6, target)
    own = fastest(lambda: Laws(at.cells, np.float32).marginals(at.evidence), at.repeats) / at.draws
    target = MARGINALS.get((at.name, "float32"))
    yield Line("  tables in float64, asked in float32", own, looped, 1e-6, target)

    def drawn_and_asked() -> None:
        Laws(at.prior.draw(at.draws, rng=np.random.default_rng(0)), np.float32).marginals(at.evidence)

    own = fastest(drawn_and_asked, at.repeats) / at.draws
    target = 80 if at.name == "alarm" else None
    yield Line("  the tables drawn first, on both sides, float32", own, looped + drawn, 1e-6, target)
    peer.fill(0)
    own = fastest(lambda: Laws(at.first).marginals(at.evidence), 5 * at.repeats)
    lazy = fastest(lambda: peer.marginals(at.evidence, nodes), 5 * at.repeats)
    yield Line(f"{len(nodes)} marginals of one draw, against pyAgrum LazyPropagation", own, lazy, 1e-3, 2)


def one_posterior(at: Setting, pgmpy: Pgmpy) -> Iterator[Line]:
    """`P(X | e)` of one draw, the mean over some X."""
    peer, ours, theirs, others = PyAgrum(at.first, 1), 0.0, 0.0, 0.0
    for root in at.roots:
        found = Laws(at.first).joint((root,), at.evidence)[:, 0]
        np.testing.assert_allclose(found, peer.posterior(root, at.evidence), atol=1e-9)
        np.testing.assert_allclose(found, pgmpy.joint([root], at.evidence), atol=1e-9)
        ours += fastest(lambda r=root: Laws(at.first).joint((r,), at.evidence), 10 * at.repeats)
        theirs += fastest(lambda r=root: peer.posterior(r, at.evidence), 10 * at.repeats)
        others += fastest(lambda r=root: pgmpy.joint([r], at.evidence), at.repeats)
    count = len(at.roots)
    what = f"P(X | e) of one draw, mean of {count} X, against"
    yield Line(f"{what} pyAgrum VariableElimination", ours / count, theirs / count, 1e-3, 0.25)
    yield Line(f"{what} pgmpy VariableElimination", ours / count, others / count, 1e-3, 1)


def most_probable_states(at: Setting, pgmpy: Pgmpy) -> Iterator[Line]:
    """MAP over three variables, and MPE, over draws."""
    table = pgmpy.joint(at.three, at.evidence)
    best = Laws(at.first).most_probable(at.three, at.evidence)[0]
    np.testing.assert_allclose(best.probability, table.max(), atol=1e-9)
    np.testing.assert_allclose(table[tuple(best.states.values())], table.max(), atol=1e-9)
    single = fastest(lambda: pgmpy.joint(at.three, at.evidence), at.repeats)
    for dtype, cells in zip(PRECISIONS, (at.single, at.cells), strict=True):
        own = fastest(lambda c=cells, d=dtype: Laws(c, d).most_probable(at.three, at.evidence), at.repeats)
        what = f"MAP over 3, {at.draws} draws, {dtype.__name__}, against 5 single pgmpy queries"
        yield Line(what, own, 5 * single, 1e-3, 1)
    rest = [node for node in at.network.nodes if node not in at.evidence]
    for dtype, cells in zip(PRECISIONS, (at.single, at.cells), strict=True):
        found = Laws(cells, dtype).most_probable(rest, at.evidence)
        check_explained(at, found)
        own = fastest(lambda c=cells, d=dtype: Laws(c, d).most_probable(rest, at.evidence), at.repeats)
        likely = max(found, key=lambda each: each.best)
        what = f"MPE, {at.draws} draws, {dtype.__name__} ({len(found)} found, the likeliest best in {likely.best:.0%})"
        yield Line(what, own, None, 1e-3, 20 if at.name == "alarm" else None)


def check_explained(at: Setting, found: list[Explained]) -> None:
    """No peer does MPE here: the probability must be the product of the tables, and no change of a state beat it."""
    log_evidence = Laws(at.cells).log_probability(at.evidence)[0]

    def log_joint(states: Mapping[str, int]) -> float:
        with np.errstate(divide="ignore"):
            return sum(
                float(np.log(at.cells[node][tuple(states[name] for name in at.network.family(node))][0]))
                for node in at.network.nodes
            )

    best = max(found, key=lambda each: each.probability[0])
    top = log_joint({**at.evidence, **best.states})
    np.testing.assert_allclose(best.probability[0], np.exp(top - log_evidence), atol=2e-6)
    if len(found) < EVALUATED_EXPLANATIONS:
        for node in best.states:
            for code in range(at.network.schema[node].size):
                assert log_joint({**at.evidence, **best.states, node: code}) <= top + 1e-5


def main() -> None:
    """Read the command line and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", nargs="+", default=list(ABOUT))
    parser.add_argument("--draws", type=int, help="default: 1000, of andes 64")
    parser.add_argument("--evidence", type=int, default=4, help="observed leaves")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    for name in given.network:
        theta = theta_of(name)
        leaves = [node for node in theta.network.nodes if not theta.network.children(node)]
        draws = given.draws or ABOUT.get(name, 1000)
        loops = min(draws, 50 if len(leaves) < 60 else 3)
        prior = dc.Dirichlet.from_probabilities(theta, 100)
        at = Setting(name, prior, draws, dict.fromkeys(leaves[: given.evidence], 0), given.repeats, loops)
        print(f"{name}: {len(at.network.nodes)} nodes, {draws} draws, {len(at.evidence)} leaves observed")
        pgmpy = Pgmpy(at.first)
        for lines in (all_marginals(at), one_posterior(at, pgmpy), most_probable_states(at, pgmpy)):
            for line in lines:
                print(line, flush=True)


if __name__ == "__main__":
    main()
