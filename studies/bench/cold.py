"""CPU seconds of single commands in fresh processes: what a person waits for who asks one question of one release.

`python -m bench.cold [--network asia] [--rows 20000] [--repeats 5]` makes records of a network up, writes them as
Parquet, opens an account, and runs `discreet release` and `discreet query` in turn, each in a process of its own; then,
as floors, interpreters that only import what is used. CPU seconds are of all threads, from the start of the process to
its end; the median of all repeats is printed, and the fastest. `--against FOLDER` runs the same with the package of
another checkout (its `src`) in turn with this one, and prints the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import discreet as dc
from experiments.networks import theta_of

RUN = "import sys; from discreet.cli.cli import main; sys.exit(main(sys.argv[1:]))"
FLOORS = (
    "pass",
    "import numpy",
    "import scipy.special",
    "import duckdb",
    "import sqlalchemy",
    "import ibis",
    "import pandas",
)


def cpu_s(folder: Path, source: Path, *arguments: str) -> float:
    """CPU seconds of an interpreter with a package on its path."""
    own = {"PYTHONPYCACHEPREFIX": str(folder / "pyc"), "DISCREET_LEDGER": f"sqlite:///{folder}/ledger.db"}
    environment = {**os.environ, "PYTHONPATH": str(source), **own}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(query: str) -> dict[str, list[str]]:
    """The commands that are timed, in their order."""
    paid = ["--account", "records", "--epsilon", "0.01"]
    return {
        "release": ["release", "records.parquet", "--network", "network.bif", *paid, "--output", "made.json"],
        "query": ["query", "asked.json", query],
    }


def prepare(folder: Path, source: Path, name: str, rows: int) -> str:
    """Records, an account and a release in a folder; returns a question about the network's last node."""
    theta = theta_of(name)
    pq.write_table(dc.tools.simulate_records(theta, rows, rng=np.random.default_rng(0)), folder / "records.parquet")
    theta.write(folder / "network.bif")
    for line in (
        ["ledger", "open", "records", "--epsilon", "100", "--relation", "add-remove"],
        [*commands("")["release"][:-1], "asked.json", "--epsilon", "1"],
    ):
        cpu_s(folder, source, "-c", RUN, *line)
    last = theta.network.variables[-1]
    return f"P({last.name})"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="asia")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout")
    given = parser.parse_args()
    sources = {"this": Path(dc.__file__).parents[1]}
    if given.against:
        sources["other"] = given.against.resolve() / "src"
    with tempfile.TemporaryDirectory() as name:
        folders = {label: Path(name, label) for label in sources}
        for label, folder in folders.items():
            folder.mkdir()
            query = prepare(folder, sources[label], given.network, given.rows)
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(given.repeats):
            for command, arguments in commands(query).items():
                for label, folder in folders.items():
                    (folder / "made.json").unlink(missing_ok=True)
                    spent = cpu_s(folder, sources[label], "-c", RUN, *arguments)
                    found.setdefault((command, label), []).append(spent)
            for floor in FLOORS:
                found.setdefault((floor, "this"), []).append(cpu_s(folders["this"], sources["this"], "-c", floor))
        for (command, label), seconds in found.items():
            middle = statistics.median(seconds)
            other = found.get((command, "other"))
            more = f"; other / this: {statistics.median(other) / middle:.2f}" if label == "this" and other else ""
            print(f"{command:22s} {label:6s} {middle:5.2f} s CPU, at least {min(seconds):5.2f}{more}", flush=True)


if __name__ == "__main__":
    main()
