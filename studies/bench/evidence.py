"""Coverage and cost of the exact posterior of releases of different kinds on the same records.

`python -m bench.evidence [drawn asia adult titanic] [--records 300 1000] [--epsilons .1 1 3] [--runs 10]` prints a line
for each table of records, set of kinds, number of records and epsilon: how many 95 % intervals of entries hold the
truth, with the standard error over runs, their mean width, sweeps and CPU seconds of a fit, all threads, and how many
fits were refused.

    drawn     four variables; a new truth from the prior in each run
    asia      smoke, lung, bronc and dysp of the network asia: the truth is its law of these four
    adult     sex, income and whether married of the table of UCI, whose shares are the truth
    titanic   sex, class and survival of Rdatasets' TitanicSurvival, whose shares are the truth

Records of tables are drawn with replacement. Networks of tables have all arcs, so that they are right. The prior of
rows is Dirichlet(1). The number of records is public. DISCREET_DATA is the folder of networks and tables; `--mirror` is
a git directory of vincentarelbundock/Rdatasets, for titanic alone.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import discreet as dc

LEVEL = 0.95
DRAWS = 1000
CANDIDATES = 4
"""Of the choice, drawn from the prior with a fixed seed."""
SETS = ("laplace tempered", "trimmed candidates", "laplace tempered candidates")
TITANIC = "csv/carData/TitanicSurvival.csv"


ASIA = {"smoke": (), "lung": ("smoke",), "bronc": ("smoke",), "dysp": ("lung", "bronc")}
FORK = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def law_of_cells(cells: np.ndarray, network: dc.Network) -> dc.Tables:
    """Laws of a network's nodes, given their parents, in a table of all of its nodes."""
    laws, places = {}, {name: place for place, name in enumerate(network.nodes)}
    for node in network.nodes:
        family = network.family(node)
        margin = np.einsum(cells, range(cells.ndim), [places[name] for name in family])
        laws[node] = margin / margin.sum(axis=-1, keepdims=True)
    return dc.Tables(network, laws)


def law_of_rows(rows: Sequence[tuple[str, ...]], names: Sequence[str]) -> dc.Tables:
    """Shares of records, on a network with all arcs between their columns."""
    states = [sorted(set(column)) for column in zip(*rows, strict=True)]
    variables = tuple(dc.Variable(name, tuple(values)) for name, values in zip(names, states, strict=True))
    cells = np.zeros([len(values) for values in states])
    for row in rows:
        cells[tuple(values.index(value) for values, value in zip(states, row, strict=True))] += 1
    return law_of_cells(cells, dc.Network(variables, {name: tuple(names[:at]) for at, name in enumerate(names)}))


def read_asia(folder: Path) -> dc.Tables:
    """The law of four of asia's variables: among them no other arcs are needed."""
    theta = dc.Tables.read(folder / "networks" / "asia.bif")
    nodes = theta.network.nodes
    places = {name: place for place, name in enumerate(nodes)}
    parts = [part for node in nodes for part in (theta[node], [places[name] for name in theta.network.family(node)])]
    cells = np.einsum(*parts, [places[name] for name in ASIA])
    return law_of_cells(cells, dc.Network(tuple(theta.network.schema[name] for name in ASIA), ASIA))


def read_adult(folder: Path) -> dc.Tables:
    """Three columns of the table of UCI."""
    text = gzip.decompress((folder / "uci" / "adult.data.gz").read_bytes()).decode()
    lines = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]
    rows = [("yes" if line[5].startswith("Married") else "no", line[9], line[-1]) for line in lines]
    return law_of_rows(rows, ("married", "sex", "income"))


def read_titanic(mirror: str) -> dc.Tables:
    """Three columns of a table of Rdatasets."""
    command = ["git", "--git-dir", mirror, "show", f"HEAD:{TITANIC}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [(row["passengerClass"], row["sex"], row["survived"]) for row in csv.DictReader(io.StringIO(text))]
    return law_of_rows(rows, ("passengerClass", "sex", "survived"))


def read_law(data: str, mirror: str) -> dc.Tables | None:
    """The law of the records; None for one from the prior in each run."""
    folder = Path(os.environ.get("DISCREET_DATA", ""))
    match data:
        case "asia":
            return read_asia(folder)
        case "adult":
            return read_adult(folder)
        case "titanic":
            return read_titanic(mirror)
    return None


@dataclass(frozen=True)
class Fit:
    """One fit: the share of entries that are held, mean width, sweeps of each chain, CPU seconds of all threads."""

    held: float
    width: float
    sweeps: int
    seconds: float


def fit(theta: dc.Tables, kinds: str, records: int, epsilon: float, rng: np.random.Generator) -> Fit | None:
    """Release records of a law by each kind and read all together; None where that is refused."""
    network = theta.network
    prior = dc.Dirichlet.uniform(network, 1.0)
    lists = [prior.draw(1, rng=np.random.default_rng(number)) for number in range(CANDIDATES)]
    listed = [dc.Tables(network, {node: each[node][..., 0] for node in network.nodes}) for each in lists]
    mechanisms = {
        "laplace": (dc.laplace(), 0),
        "tempered": (dc.research.posterior_sampler(), 1e-3),
        "trimmed": (dc.research.posterior_sampler(), 0),
        "candidates": (dc.research.map_estimate(listed), 0),
    }
    codes: dict[str, np.ndarray] = {}
    for node in network.order:
        rows = theta[node][tuple(codes[parent] for parent in network.parents[node])]
        reached = np.cumsum(np.broadcast_to(rows, (records, rows.shape[-1])), axis=-1)
        codes[node] = np.minimum((rng.random((records, 1)) >= reached).sum(axis=-1), rows.shape[-1] - 1)
    counts = dc.tools.count_codes(network, codes)
    parts = []
    for mechanism, delta in (mechanisms[kind] for kind in kinds.split()):
        promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation="replace", unit="record")
        parts.append(dc.simulate(mechanism, counts, prior, promise, rng=rng))
    begun = time.process_time()
    try:
        read = dc.noise_aware(dc.combine(*parts, data="same"), prior=prior, draws=DRAWS, rng=rng, method="exact")
    except dc.DiscreetError as error:
        print(f"  refused after {time.process_time() - begun:.0f} CPU seconds: {error}", flush=True)
        return None
    seconds, held, widths = time.process_time() - begun, [], []
    for node in network.nodes:
        low, high = np.quantile(read.probabilities[node], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=-1)
        held += ((low <= theta[node]) & (theta[node] <= high)).ravel().tolist()
        widths += (high - low).ravel().tolist()
    assert read.mixing is not None
    return Fit(float(np.mean(held)), float(np.mean(widths)), read.mixing.sweeps, seconds)


def lines(data: str, records: Sequence[int], epsilons: Sequence[float], runs: int, mirror: str) -> Iterator[str]:
    """Lines of one table of records."""
    law = read_law(data, mirror)
    fork = dc.Network(tuple(dc.Variable(name, ("no", "yes")) for name in FORK), FORK)
    for kinds in SETS:
        for number in records:
            for epsilon in epsilons:
                fits = []
                for run in range(runs):
                    rng = np.random.default_rng([run, number, round(10 * epsilon), len(kinds)])
                    if (theta := law) is None:
                        drawn = dc.Dirichlet.uniform(fork, 1.0).draw(1, rng=rng)
                        theta = dc.Tables(fork, {node: drawn[node][..., 0] for node in fork.nodes})
                    fits.append(fit(theta, kinds, number, epsilon, rng))
                read = [each for each in fits if each is not None]
                line = f"{data:8} {kinds:28} {number:6} {epsilon:4} {len(fits) - len(read):3} refused"
                if read:
                    held = np.array([each.held for each in read])
                    error = held.std(ddof=1) / len(held) ** 0.5 if len(held) > 1 else float("nan")
                    width, seconds = (np.mean([getattr(each, name) for each in read]) for name in ("width", "seconds"))
                    line += f" {100 * held.mean():6.1f} +- {100 * error:4.1f} {width:6.3f}"
                    line += f" {max(each.sweeps for each in read):7} {seconds:6.1f}"
                yield line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage and cost of the exact posterior of several kinds.")
    parser.add_argument("data", nargs="*", default=["drawn", "asia", "adult"])
    parser.add_argument("--records", nargs="+", type=int, default=[300, 1000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1, 3])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mirror", default="", help="git directory of Rdatasets, for titanic")
    options = parser.parse_args()
    print("data     kinds                       records  eps             held %         width   sweeps  CPU s")
    for data in options.data:
        for line in lines(data, options.records, options.epsilons, options.runs, options.mirror):
            print(line, flush=True)


if __name__ == "__main__":
    main()
