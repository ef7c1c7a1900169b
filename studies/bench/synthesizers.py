"""Error of all shares of two and of three variables beside synthesizers, on tables and networks they know nothing of.

`python -m bench.synthesizers` draws records of public tables (with replacement, as many as the table has) and of known
networks, gives them to every method at the same epsilon, under ADD_REMOVE, and prints the mean over pairs, and over
triples, of variables of `sum |share - true share|`; the truth is the whole table, or the network's own law. Two things
are measured: what the method believes (*model*: our posterior mean, for a peer's the tables of its network or ten times
as many made-up records) and as many made-up records as there were (*records*: ours are of the mean, as `discreet
sample` makes them).

*Ours.* `network`: the network's own arcs, which are public there, or arcs drawn by hand before anything was measured;
`none`: no arcs; `chosen`: arcs that `structure` chose with three tenths of epsilon. All by the default plan.
*Peers.* `DataSynthesizer` (PrivBayes, at most two parents, `experiments.peer_adapters`) and `OpenDP AIM` (on mbi) keep
epsilon, `dpmm MST` and `dpmm AIM` epsilon and a delta of 1e-6. All run as they come, with as much time as `--limit`
says; `--results FILE` keeps what is done, so that a run can be taken up again.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from experiments.errors import single
from experiments.networks import theta_of
from experiments.pages import estimate, markdown
from experiments.peer_adapters import absent, learned_networks, noisy_tables
from experiments.wrong_networks import adult, answers

__all__ = ["METHODS", "World", "main", "measure", "report", "world_of"]

Floats = npt.NDArray[np.float64]
Codes = dict[str, npt.NDArray[np.int64]]
Names = tuple[str, ...]
Law = Callable[[Names], Floats]
"""A joint law of some variables, an axis for each."""

TABLES, NETWORKS = ("adult", "pima", "breast cancer"), ("asia", "child", "alarm")
EPSILONS = (0.3, 1.0, 3.0)
RECORDS = 10_000
"""Of a network; tables have their own number."""
DELTA = 1e-6
"""Of peers that have one."""
TRIPLES = 300
"""Most sets of a size that are asked; which, chance says, the same for all methods."""
DRAWS = 300
MADE_UP = 10
"""Times as many records as there were tell what a peer believes that says it by records alone."""
LEARNING = 0.3
"""Share of epsilon by which arcs are chosen."""
ENVIRONMENTS = Path(os.environ.get("VIRTUAL_ENV", Path(__file__).parents[2] / ".venv")) / "peers"


# ------------------------------------------------------------------------------------------ records


@dataclass(frozen=True, eq=False)
class World:
    """Records to be published, and what is true of those who might have been in them.

    Args:
        network: its variables, and arcs that are public.
        codes: positions of states, shape (records,) each.
        law: the truth.
    """

    network: dc.Network
    codes: Codes
    law: Law


def world_of(name: str, seed: int) -> World:
    """Records of one of the tables, or of a network.

    Args:
        name: "adult", "pima", "breast cancer", or what `experiments.networks` finds.
        seed: of the records.
    """
    rng = np.random.default_rng([19, seed])
    if name not in TABLES:
        theta = theta_of(name)
        return World(theta.network, sample_codes(theta, RECORDS, rng), _law_of(theta))
    network, whole = {"adult": adult, "pima": _pima, "breast cancer": _breast_cancer}[name]()
    size = len(next(iter(whole.values())))
    rows = rng.integers(size, size=size)
    return World(network, {node: column[rows] for node, column in whole.items()}, _counted(network, whole))


def _law_of(theta: dc.Tables) -> Law:
    """Joint laws of a network without draws."""
    cells = single(theta)
    return lambda names: Laws(cells).joint(names)[..., 0]


def _counted(network: dc.Network, codes: Codes) -> Law:
    """Frequencies of records."""
    records = len(next(iter(codes.values())))

    def law(names: Names) -> Floats:
        shape = [network.schema[name].size for name in names]
        flat = np.ravel_multi_index([codes[name] for name in names], shape)
        return np.bincount(flat, minlength=math.prod(shape)).reshape(shape) / max(records, 1)

    return law


PIMA = {
    "pregnancies": (1, 3, 6),
    "glucose": (100, 126, 155),
    "pressure": (60, 70, 80),
    "skin": (10, 25, 35),
    "insulin": (1, 100, 200),
    "bmi": (25, 30, 35),
    "pedigree": (0.25, 0.5, 0.75),
    "age": (25, 35, 45),
    "diabetes": (1,),
}
"""Cuts of its columns, in order, round numbers that no record decided."""
PIMA_ARCS = (
    ("age", "pregnancies"),
    ("age", "pressure"),
    ("glucose", "diabetes"),
    ("bmi", "diabetes"),
    ("glucose", "insulin"),
    ("bmi", "skin"),
)
CELLS = {
    "radius": (12, 15, 18),
    "texture": (16, 20, 24),
    "perimeter": (80, 100, 120),
    "area": (500, 750, 1000),
    "smoothness": (0.085, 0.1, 0.11),
    "compactness": (0.07, 0.1, 0.15),
    "concavity": (0.04, 0.08, 0.15),
    "symmetry": (0.16, 0.18, 0.2),
    "benign": (1,),
}
"""Likewise, of the means over a sample's nuclei."""


def _pima() -> tuple[dc.Network, Codes]:
    """Pima Indians diabetes: nine columns."""
    with (Path(os.environ["DISCREET_DATA"]) / "uci" / "pima-indians-diabetes.csv").open() as lines:
        columns = np.array([[float(value) for value in row] for row in csv.reader(lines)]).T
    network, codes = _cut(PIMA, columns)
    return dc.Network.from_edges(PIMA_ARCS, network.schema), codes


def _breast_cancer() -> tuple[dc.Network, Codes]:
    """Breast Cancer Wisconsin (diagnostic), which scikit-learn brings: eight means that a diagnosis explains."""
    from sklearn.datasets import load_breast_cancer

    given = load_breast_cancer()
    places = [list(given.feature_names).index(f"mean {name}") for name in CELLS if name != "benign"]
    network, codes = _cut(CELLS, [*given.data.T[places], given.target])
    return dc.Network.naive_bayes(network.schema, "benign"), codes


def _cut(cuts: Mapping[str, Sequence[float]], columns: Sequence[Floats] | Floats) -> tuple[dc.Network, Codes]:
    """Numbers in bins, over a network without arcs."""
    variables = [dc.Variable(name, tuple(f"b{bin_}" for bin_ in range(len(at) + 1))) for name, at in cuts.items()]
    codes = {
        name: np.searchsorted(at, column, side="right").astype(np.int64)
        for (name, at), column in zip(cuts.items(), columns, strict=True)
    }
    return dc.Network.empty(tuple(variables)), codes


# ------------------------------------------------------------------------------------------ methods

Found = Iterator[tuple[str, Law]]
"""What a method says: by "model" and "records"."""
Method = Callable[[World, float, np.random.Generator, float], Found]
"""Of a world, epsilon, chance and seconds that it may take."""


def _ours(which: str, delta: float) -> Method:
    """A release by the default plan, and its posterior."""

    def run(world: World, epsilon: float, rng: np.random.Generator, limit: float) -> Found:
        network, left = world.network, epsilon
        if which != "network":
            network = dc.Network.empty(network.schema)
        if which == "chosen":
            counts = dc.tools.count_codes(network, world.codes, dc.structure().scopes(network))
            network, left = (
                _release(dc.structure(), counts, LEARNING * epsilon, 0.0, rng).learned_network,
                0.7 * epsilon,
            )
        release = _release(dc.planned(), dc.tools.count_codes(network, world.codes), left, delta, rng)
        posterior = dc.noise_aware(release, draws=DRAWS, rng=rng)
        read = answers(posterior)
        yield "model", lambda names: read(names).mean(axis=-1)
        records = len(next(iter(world.codes.values())))
        made = dc.sample(posterior, records, rng=rng)[0].read_all()
        states = {variable.name: list(variable.states) for variable in network.schema}
        codes = {name: pd.Categorical(made[name].to_pandas(), states[name]).codes.astype(np.int64) for name in states}
        yield "records", _counted(network, codes)

    return run


def _release(mechanism: dc.tools.Mechanism, counts: Any, epsilon: float, delta: float, rng: Any) -> dc.Release:
    """A simulated one under the uniform prior."""
    promise = dc.Guarantee(epsilon=repr(epsilon), delta=repr(delta), relation="add-remove", unit="record")
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(counts.network), promise, rng=rng)


def _data_synthesizer(world: World, epsilon: float, rng: np.random.Generator, limit: float) -> Found:
    """Half of epsilon for its network, half for its tables, as it has it by default."""
    schema = tuple(world.network.schema)
    learned = learned_networks(schema, world.codes, 2, [epsilon / 2], rng)[0]
    theta = noisy_tables(learned, world.codes, epsilon / 2, rng)
    yield "model", _law_of(theta)
    records = len(next(iter(world.codes.values())))
    yield "records", _counted(world.network, sample_codes(theta, records, rng))


def _elsewhere(environment: str, name: str, delta: float) -> Method:
    """A peer in an environment of its own."""

    def run(world: World, epsilon: float, rng: np.random.Generator, limit: float) -> Found:
        nodes = world.network.nodes
        records = len(next(iter(world.codes.values())))
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "records.npz", Path(folder) / "synthetic.npz"
            np.savez(
                source,
                codes=np.stack([world.codes[node] for node in nodes], axis=1),
                sizes=[world.network.schema[node].size for node in nodes],
                epsilon=epsilon,
                delta=delta,
                rows=MADE_UP * records,
            )
            script = Path(__file__).parent / "environments" / "run.py"
            python = ENVIRONMENTS / environment / "bin" / "python"
            subprocess.run(
                [python, script, name, source, target], check=True, capture_output=True, timeout=limit, cwd=folder
            )
            made = np.load(target)["codes"]
        yield "model", _counted(world.network, dict(zip(nodes, made.T, strict=True)))
        some = made[rng.permutation(len(made))[:records]]
        yield "records", _counted(world.network, dict(zip(nodes, some.T, strict=True)))

    return run


METHODS: Mapping[str, Method] = {
    **{f"ours, {which}": _ours(which, 0.0) for which in ("network", "none", "chosen")},
    "DataSynthesizer": _data_synthesizer,
    "OpenDP AIM": _elsewhere("opendp", "opendp", 0.0),
    "ours, network, delta": _ours("network", DELTA),
    "ours, none, delta": _ours("none", DELTA),
    "dpmm MST": _elsewhere("dpmm", "mst", DELTA),
    "dpmm AIM": _elsewhere("dpmm", "aim", DELTA),
}
"""Those before the first `delta` promise epsilon alone."""


def missing() -> dict[str, str]:
    """Methods that cannot be run here, with the reason."""
    found = {name: reason for name, reason in absent().items() if name in METHODS}
    for name, environment in {"OpenDP AIM": "opendp", "dpmm MST": "dpmm", "dpmm AIM": "dpmm"}.items():
        if not (ENVIRONMENTS / environment / "bin" / "python").is_file():
            found[name] = f"no {ENVIRONMENTS / environment}; `make peers` makes it"
    return found


# ------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Task:
    """One run of one method."""

    data: str
    method: str
    epsilon: float
    seed: int
    limit: float


def measure(task: Task) -> list[dict[str, Any]]:
    """Errors of one run; nan where it did not end in time or failed, and then `why`."""
    world = world_of(task.data, task.seed)
    rng = np.random.default_rng([23, task.seed, sum(map(ord, task.method)), round(1000 * task.epsilon)])
    asked = {size: _sets(world.network.nodes, size) for size in (2, 3)}
    row = {"data": task.data, "method": task.method, "epsilon": task.epsilon, "seed": task.seed}
    start, rows = time.perf_counter(), list[dict[str, Any]]()
    try:
        for part, read in METHODS[task.method](world, task.epsilon, rng, task.limit):
            seconds = time.perf_counter() - start
            for size, sets in asked.items():
                error = np.mean([np.abs(read(names) - world.law(names)).sum() for names in sets])
                rows.append({**row, "part": part, "size": size, "error": float(error), "seconds": seconds})
    except subprocess.TimeoutExpired:
        rows = [{**row, "part": "model", "size": 2, "error": math.nan, "why": f"not done in {task.limit:g} s"}]
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        rows = [{**row, "part": "model", "size": 2, "error": math.nan, "why": said[-1]}]
    return rows


def _sets(names: Sequence[str], size: int) -> list[Names]:
    """All sets of a size, or some of them by chance."""
    every = list(combinations(names, size))
    if len(every) <= TRIPLES:
        return every
    rng = np.random.default_rng(29)
    return [every[place] for place in sorted(rng.permutation(len(every))[:TRIPLES])]


# ------------------------------------------------------------------------------------------ printing


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table for models and one for records, and what did not end.

    Args:
        rows: of `measure`, any tasks.

    Returns:
        Markdown.
    """
    frame = pd.DataFrame(rows)
    names = [name for name in METHODS if name in set(frame["method"])]
    parts = []
    for part, title in (("model", "What the method believes"), ("records", "As many made-up records")):
        lines = []
        for (data, epsilon), of in frame[frame["part"] == part].groupby(["data", "epsilon"], sort=False):
            lines.append([data, f"{epsilon:g}", *(_cell(of[of["method"] == name]) for name in names)])
        parts.append(f"## {title}: error of pairs / triples ± standard errors\n")
        parts.append(markdown(["data", "epsilon", *names], lines))
    if "why" in frame:
        failed = frame[frame["error"].isna()].drop_duplicates(["data", "method", "epsilon"])
        parts += [f"* {row.method}, {row.data}, epsilon {row.epsilon:g}: {row.why}" for row in failed.itertuples()]
    return "\n".join(parts)


def _cell(rows: pd.DataFrame) -> str:
    """Errors of a method at a place."""
    if rows.empty:
        return ""
    shown = []
    for size in (2, 3):
        values = rows[rows["size"] == size]["error"].dropna()
        if len(values) > 1:
            found = estimate(values)
            shown.append(found.text(4))
        else:
            shown.append(f"{values.iloc[0]:.4f}" if len(values) else "-")
    return " / ".join(shown)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", nargs="+", default=[*TABLES, *NETWORKS])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--epsilon", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=float, default=900, help="seconds for a run of a peer")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--results", type=Path, help="JSON lines: runs that it has are not run again")
    parser.add_argument("--quick", action="store_true", help="two data sets at epsilon 1, one seed")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.data, asked.epsilon, asked.seeds = ["pima", "asia"], [1.0], [0]
    lacking = missing()
    for name in asked.methods:
        if name in lacking:
            print(f"left out: {name}: {lacking[name]}")
    tasks = [
        Task(data, method, epsilon, seed, asked.limit)
        for seed in asked.seeds
        for data in asked.data
        for epsilon in asked.epsilon
        for method in asked.methods
        if method not in lacking
    ]
    rows = _known(asked.results)
    done = {(row["data"], row["method"], row["epsilon"], row["seed"]) for row in rows}
    tasks = [task for task in tasks if (task.data, task.method, task.epsilon, task.seed) not in done]
    with ProcessPoolExecutor(asked.workers) as pool:
        for found in pool.map(measure, tasks):
            rows += found
            if asked.results is not None:
                with asked.results.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    print(report(rows))


def _known(results: Path | None) -> list[dict[str, Any]]:
    """What a file of results has."""
    if results is None or not results.is_file():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
