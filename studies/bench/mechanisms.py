"""A release from counts, for every mechanism: CPU seconds of calibrating, drawing with exact noise, and writing.

`python -m bench.mechanisms [--networks alarm sparse dense] [--mechanisms laplace ...] [--repeats 3]`. CPU seconds of
this process, all threads, the fastest repeat; counting is not in it. `sparse` and `dense` are made up, of the size of
munin: 1,041 nodes and about 80,000 free parameters; `sparse` has a bounded treewidth (parents are taken from one
earlier family), `dense` takes parents anywhere. The goals: a release of ALARM under 0.1 s, of munin's size under 5 s,
for each mechanism that does not draw rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import date

import numpy as np

import discreet as dc
from discreet.mechanisms import mechanisms_over
from discreet.mechanisms.noise import ExactNoise
from discreet.releases.policy import RecordsPolicy
from experiments.networks import theta_of

NODES = 1041
LARGEST_FAMILY = {"sparse": 700, "dense": 500}
"""Most cells of a family: they give about 80,000 free parameters."""
RECORDS = 10_000


def random_network(kind: str, seed: int = 7) -> dc.Network:
    """A network of the size of munin, always the same."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 4, 5, 6, 7, 11, 21], NODES, p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.1, 0.03, 0.02])
    names = [f"n{k}" for k in range(NODES)]
    families: list[list[int]] = []
    for node in range(NODES):
        if kind == "sparse":
            near = families[int(rng.integers(max(0, node - 40), node))] if node else []
        else:
            near = list(range(node))
        wanted = rng.permutation(near)[: int(rng.integers(1, 4))].tolist()
        while wanted and int(np.prod(sizes[[*wanted, node]])) > LARGEST_FAMILY[kind]:
            wanted.pop()
        families.append([*wanted, node])
    variables = tuple(
        dc.Variable(name, tuple(f"s{code}" for code in range(size))) for name, size in zip(names, sizes, strict=True)
    )
    return dc.Network(variables, {names[family[-1]]: tuple(names[k] for k in family[:-1]) for family in families})


def random_theta(network: dc.Network, seed: int = 8) -> dc.Tables:
    """Dirichlet(1/2) rows."""
    rng = np.random.default_rng(seed)
    rows = {node: rng.standard_gamma(0.5, network.shape(node)) + 1e-9 for node in network.nodes}
    return dc.Tables(network, {node: row / row.sum(axis=-1, keepdims=True) for node, row in rows.items()})


def made_up_counts(theta: dc.Tables, records: int, seed: int = 9) -> dc.results.Counts:
    """Family counts of records drawn from the roots down."""
    network, rng = theta.network, np.random.default_rng(seed)
    codes: dict[str, np.ndarray] = {}
    tables = {}
    for node in network.order:
        rows = theta[node][tuple(codes[parent] for parent in network.parents[node])]
        below = np.cumsum(np.broadcast_to(rows, (records, rows.shape[-1])), axis=1)
        codes[node] = (rng.random((records, 1)) * below[:, -1:] >= below).sum(axis=1)
        flat = np.ravel_multi_index([codes[name] for name in network.family(node)], network.shape(node))
        size = network.cells(network.family(node))
        tables[node] = np.bincount(flat, minlength=size).astype(np.int64).reshape(network.shape(node))
    return dc.results.Counts(dc.Tables(network, tables), RecordsPolicy("error", "error"))


def fastest(run: Callable[[], tuple[float, float, float]], repeats: int) -> tuple[float, float, float]:
    """The repeat of least CPU seconds in all."""
    return min((run() for _ in range(repeats)), key=sum)


def measured(
    make: Callable[[], dc.tools.Mechanism], counts: dc.results.Counts, promise: dc.Guarantee
) -> tuple[float, ...]:
    """CPU seconds of calibrate, draw and dumps."""
    mechanism, prior = make(), dc.Dirichlet.uniform(counts.network)
    times = [time.process_time()]
    calibration = mechanism.calibrate(counts.network, prior, promise)
    times.append(time.process_time())
    payload = mechanism.draw(counts, prior, calibration, ExactNoise())
    times.append(time.process_time())
    made = dc.Release(
        id="0" * 32,
        date=date(2026, 1, 1),
        private=False,
        guarantee=promise,
        mechanism=mechanism.name,
        policy=counts.policy,
        records=counts.records if promise.relation is dc.Relation.REPLACE else None,
        prior=prior,
        calibration=calibration,
        payload=payload,
    )
    made.dumps()
    times.append(time.process_time())
    return tuple(np.diff(times).tolist())


def main() -> None:
    """Read the command line and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=["alarm", "sparse", "dense"])
    parser.add_argument("--mechanisms", nargs="+", default=list(mechanisms_over("network")))
    parser.add_argument("--relations", nargs="+", default=["add-remove", "replace"])
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    for name in given.networks:
        theta = random_theta(random_network(name)) if name in LARGEST_FAMILY else theta_of(name)
        network, counts = theta.network, made_up_counts(theta, RECORDS)
        cells = network.size
        print(f"{name}: {len(network.nodes)} nodes, {network.parameters:,} parameters, {cells:,} cells,", end=" ")
        print(f"{len(network.maximal_families)} measured tables")
        print(f"{'mechanism':18} {'relation':11} {'calibrate':>10} {'draw':>10} {'dumps':>10} {'all, CPU s':>11}")
        for chosen in given.mechanisms:
            for relation in given.relations:
                delta = "1e-6" if chosen == "gaussian" else 0
                promise = dc.Guarantee(epsilon=given.epsilon, delta=delta, relation=relation, unit="record")
                parts = fastest(lambda: measured(dc.tools.MECHANISMS[chosen], counts, promise), given.repeats)  # noqa: B023
                print(f"{chosen:18} {relation:11} {' '.join(f'{part:10.3f}' for part in parts)} {sum(parts):11.3f}")


if __name__ == "__main__":
    main()
