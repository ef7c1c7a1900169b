"""CPU seconds for joint draws of all families from noisy tables, and how far chains have converged.

`python -m bench.posterior [asia child alarm]` releases made-up records of each network (`planned` and `laplace`), and
draws all its families under the learned prior. `--long 10` draws again by chains ten times as long: the root of the
mean of the squared differences of all posterior means, in standard errors of these, is 1 where nothing is left of where
the chains started.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.sampling import sample_codes
from discreet.posterior.pooled import shrinkage
from experiments.networks import theta_of

Floats = npt.NDArray[np.float64]


def made_up(name: str, mechanism: str, epsilon: str, records: int) -> dc.Release:
    """A simulated release of records of a network."""
    theta, rng = theta_of(name), np.random.default_rng(3)
    counts = dc.tools.count_codes(theta.network, sample_codes(theta, records, rng))
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.tools.MECHANISMS[mechanism](), counts, dc.Dirichlet.uniform(theta.network), promise, rng=rng)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of all threads, and seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def all_families(release: dc.Release, draws: int) -> dict[str, Floats]:
    """Draws of every table, shape `(*parents, child, draws)`."""
    cells = dc.noise_aware(release, draws=draws, rng=np.random.default_rng(1), method="pooled").probabilities
    return {node: cells[node] for node in release.network.nodes}


def seconds(release: dc.Release, draws: int, label: str, repeats: int) -> None:
    """Print the fastest repeat of the learned prior's draws."""
    all_families(release, 1)
    cpu, wall = min(timed(lambda: all_families(release, draws)) for _ in range(repeats))
    cells = sum(release.network.cells(release.network.family(node)) for node in release.network.nodes)
    each = cpu / draws / cells * 1e6
    print(f"{label} {cpu:6.2f} s CPU, {wall:6.2f} s; {each:.1f} us of CPU for a cell and draw", flush=True)


def convergence(release: dc.Release, draws: int, longer: int, label: str) -> None:
    """Print how far the means are from those of longer chains, in standard errors of the difference."""
    found = all_families(release, draws)
    with patch.object(shrinkage, "SWEEPS", shrinkage.CHAIN_SWEEPS * longer):
        aim = all_families(release, draws)
    squares = []
    for node, table in found.items():
        variance = (table.var(axis=-1) + aim[node].var(axis=-1)) / draws
        known = variance > 0
        squares.append(((table.mean(axis=-1) - aim[node].mean(axis=-1)) ** 2)[known] / variance[known])
    each = np.concatenate(squares)
    print(
        f"{label} against chains {longer} times as long: {math.sqrt(each.mean()):.2f} standard errors in the square"
        f" mean, at most {math.sqrt(each.max()):.1f}, of {each.size} probabilities",
        flush=True,
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["asia", "child", "alarm"])
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", type=int, default=0, help="times as long as usual, chains to compare with")
    given = parser.parse_args()
    for name in given.networks:
        for mechanism in ("planned", "laplace"):
            release = made_up(name, mechanism, given.epsilon, given.records)
            label = f"{name:8s} {mechanism:8s} {given.draws} draws:"
            seconds(release, given.draws, label, given.repeats)
            if given.long > 1:
                convergence(release, given.draws, given.long, label)


if __name__ == "__main__":
    main()
