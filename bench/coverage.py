"""Coverage and width of intervals, noise-aware beside plug-in, over many simulated releases.

`python -m bench.coverage asia child --epsilon 0.1 1 3 --runs 20` draws records from each network, releases their counts
with simulated noise (`--mechanism`, else `planned`), and asks how often the 95 % intervals of table entries that are
not 0 or 1, of node marginals and of conditional queries hold the truth. `--prior-draws` draws the truth from the
Dirichlet(1/4) prior instead of the network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.theory import inference

from .networks import theta_of

LEVEL = 0.95
INTERIOR = 1e-6
METHODS: Mapping[str, Callable[..., dc.PosteriorDraws]] = {"noise-aware": dc.noise_aware, "plug-in": dc.plug_in}


def conditionals(theta: dc.Tables, number: int, rng: np.random.Generator) -> list[tuple[str, dict[str, int]]]:
    """Targets with one or two observed states that at least 2 % of the records show."""
    codes = sample_codes(theta, 5000, rng)
    nodes, queries = theta.network.nodes, list[tuple[str, dict[str, int]]]()
    while len(queries) < number:
        target, *observed = rng.permutation(nodes)[: int(rng.integers(2, 4))]
        record = int(rng.integers(5000))
        evidence = {str(name): int(codes[name][record]) for name in observed}
        if np.mean(np.all([codes[name] == code for name, code in evidence.items()], axis=0)) >= 0.02:
            queries.append((str(target), evidence))
    return queries


def values(cells: dc.Tables, queries: list[tuple[str, dict[str, int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Table entries, node marginals and conditional probabilities, each of shape (number, draws)."""
    entries = np.concatenate([cells[node].reshape(-1, cells.draws) for node in cells.network.nodes])
    marginal = np.concatenate(list(inference.marginals(cells, {}).values()))
    conditional = np.concatenate([inference.joint(cells, [target], evidence) for target, evidence in queries])
    return entries, marginal, conditional


def study(
    name: str,
    theta: dc.Tables,
    mechanism: str,
    epsilon: str,
    relation: str,
    runs: int,
    n: int,
    draws: int,
    from_prior: bool,
) -> None:
    """Print one row for each method."""
    network = theta.network
    prior = dc.Dirichlet.uniform(network)
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    queries = conditionals(theta, 20, np.random.default_rng(5))
    held: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for run in range(runs):
        rng = np.random.default_rng([run, 17])
        truth = dc.Tables(network, {k: v[..., 0] for k, v in prior.draws(1, rng).items()}) if from_prior else theta
        single = dc.Tables(network, {node: table[..., None] for node, table in truth.items()}, draws=1)
        wanted = [array[:, 0] for array in values(single, queries)]
        counts = dc.count_codes(network, sample_codes(truth, n, rng))
        made = dc.simulate(dc.MECHANISMS[mechanism](), counts, prior, guarantee, rng=rng)
        for method, posterior_of in METHODS.items():
            started = time.process_time()
            cells = posterior_of(made, draws=draws, rng=rng).cells
            found = values(cells, queries)
            row = []
            for true, array in zip(wanted, found, strict=True):
                lower, upper = dc.credible_interval(array, LEVEL)
                inside, interior = (lower <= true) & (true <= upper), (true > INTERIOR) & (true < 1 - INTERIOR)
                row += [inside[interior].mean(), (upper - lower)[interior].mean()]
                if array is found[0]:
                    row.append(inside[~interior].mean() if not interior.all() else np.nan)
            held[method].append([*row, time.process_time() - started])
    for method, rows in held.items():
        mean, error = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0) / np.sqrt(runs)
        label = f"{name}{' (prior)' if from_prior else ''}"
        print(
            f"{label:16s} {mechanism:9s} {epsilon:>5s} {relation:10s} {method:12s} "
            f"entries {100 * mean[0]:5.1f} +-{100 * error[0]:3.1f} (0/1: {100 * mean[2]:5.1f})  width {mean[1]:.4f}   "
            f"marginals {100 * mean[3]:5.1f} +-{100 * error[3]:3.1f}  width {mean[4]:.4f}   "
            f"conditionals {100 * mean[5]:5.1f} +-{100 * error[5]:3.1f}  width {mean[6]:.4f}   {mean[7]:.2f} s",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["asia"])
    parser.add_argument("--mechanism", default="planned", choices=("planned", "laplace", "fourier", "allocated"))
    parser.add_argument("--epsilon", nargs="*", default=["0.1", "1", "3"])
    parser.add_argument("--relation", default="replace")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--prior-draws", action="store_true")
    given = parser.parse_args()
    for name in given.networks:
        for epsilon in given.epsilon:
            study(
                name,
                theta_of(name),
                given.mechanism,
                epsilon,
                given.relation,
                given.runs,
                given.records,
                given.draws,
                given.prior_draws,
            )


if __name__ == "__main__":
    main()
