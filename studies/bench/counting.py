"""Counting all family tables of a network from a file: CPU seconds and peak memory, beside two peers in the same run.

`python -m bench.counting [--network alarm] [--rows 1000000] [--csv]` makes records up, writes them as text, and runs
each method in a process of its own: ours is `read_records` and `count` of the families, validation included; DuckDB's
is one GROUP BY for each family; pgmpy's, where it is installed, is pandas and `DiscreteBayesianEstimator`. CPU seconds
are of all threads, after the imports; peak memory is the whole process's. The tables are compared cell by cell, through
the conditional probabilities that pgmpy's estimator returns.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyarrow.csv import CSVWriter

import discreet as dc
from experiments.networks import theta_of

BLOCK = 250_000


def cpu_s() -> float:
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_gib() -> float:
    """Peak memory of this process; `getrusage` would count what the parent had before it started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def ours(path: str, network: dc.Network) -> tuple[float, dict[str, list[float]]]:
    """Our way; returns CPU seconds and rows of each table with one pseudo-count a cell."""
    dc.read_records(path, network.schema)  # imports the engine and opens the file once
    dc.count  # noqa: B018 - imports it
    start = cpu_s()
    counts = dc.count(dc.read_records(path, network.schema), network, ())
    spent = cpu_s() - start
    return spent, {node: normalised(table + 1.0) for node, table in counts.tables.items()}


def pgmpy(path: str, network: dc.Network) -> tuple[float, dict[str, list[float]]]:
    """The peer's way."""
    import pandas as pd
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    model = DiscreteBayesianNetwork(network.arcs)
    model.add_nodes_from(network.nodes)
    states = {variable.name: list(variable.states) for variable in network.schema}
    start = cpu_s()
    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path, dtype=str)
    fitted = DiscreteBayesianEstimator(state_names=states, prior_type="K2").fit(model, frame)
    spent = cpu_s() - start
    tables = {}
    for cpd in fitted.parameters_:
        node = cpd.variables[0]
        order = [cpd.variables.index(name) for name in network.family(node)]
        tables[node] = np.asarray(cpd.values).transpose(order).ravel().tolist()
    return spent, tables


def duckdb(path: str, network: dc.Network) -> tuple[float, dict[str, list[float]]]:
    """One query a family, of a view of the file."""
    import duckdb as engine

    base = engine.connect()
    reader = "read_parquet" if path.endswith(".parquet") else "read_csv"
    start, tables = cpu_s(), {}
    base.execute(
        f"CREATE VIEW r AS SELECT * FROM {reader}('{path}'{'' if 'parquet' in reader else ', all_varchar=true'})"
    )
    for node in network.nodes:
        family = network.family(node)
        columns = ", ".join(f'"{name}"' for name in family)
        table = np.zeros(network.shape(node))
        for *row, number in base.execute(f"SELECT {columns}, count(*) FROM r GROUP BY ALL").fetchall():
            table[tuple(network.schema[name].states.index(state) for name, state in zip(family, row, strict=True))] = (
                number
            )
        tables[node] = normalised(table + 1.0)
    return cpu_s() - start, tables


METHODS = {"discreet": ours, "duckdb": duckdb, **({"pgmpy": pgmpy} if find_spec("pgmpy") else {})}


def normalised(table: np.ndarray) -> list[float]:
    """Rows that sum to 1, flat."""
    return (table / table.sum(axis=-1, keepdims=True)).ravel().tolist()


def write(theta: dc.Tables, rows: int, path: Path) -> None:
    """Records as text columns, in row groups."""
    rng = np.random.default_rng(0)
    first = dc.tools.simulate_records(theta, min(BLOCK, rows), rng=rng)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for start in range(BLOCK, rows, BLOCK):
            writer.write_table(dc.tools.simulate_records(theta, min(BLOCK, rows - start), rng=rng))


def main() -> None:
    """Read the command line; with `--method`, be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="alarm")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--csv", action="store_true", help="a CSV file in place of Parquet")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--method", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--path")
    given = parser.parse_args()
    theta = theta_of(given.network)
    if given.method:
        spent, tables = METHODS[given.method](given.path, theta.network)
        print(json.dumps({"cpu_s": spent, "peak_gib": peak_gib(), "tables": tables}))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        write(theta, given.rows, path)
        if given.csv:
            records, path = pq.ParquetFile(path), path.with_suffix(".csv")
            with CSVWriter(path, records.schema_arrow) as writer:
                for batch in records.iter_batches():
                    writer.write_batch(batch)
        print(f"{given.network}, {given.rows:,} rows of text, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        found = {}
        for method in given.methods:
            command = [sys.executable, "-m", "bench.counting", "--network", given.network, "--method", method]
            done = subprocess.run([*command, "--path", str(path)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{method} failed: {done.stderr.strip().splitlines()[-1]}")
            found[method] = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{method:10s} {found[method]['cpu_s']:8.2f} CPU s   peak {found[method]['peak_gib']:.3f} GiB",
                flush=True,
            )
        own = found.pop("discreet", None)
        for method, other in found.items() if own else ():
            for node in theta.network.nodes:
                np.testing.assert_allclose(own["tables"][node], other["tables"][node], atol=1e-12)
            print(f"equal tables; {method} takes {other['cpu_s'] / own['cpu_s']:.1f} x the CPU "
                  f"and {other['peak_gib'] / own['peak_gib']:.1f} x the memory")  # fmt: skip


if __name__ == "__main__":
    main()
