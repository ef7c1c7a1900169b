"""Fits from a table on disk: `python -m bench.tables [--records N]`.

A Parquet file of N records (a million) of 14 numbers and a target is fitted from its path by each estimator, in a
process of its own, which has fitted a thousand records before, so that no import is timed. Beside it, in the same
process and on the same columns, what reading costs: pyarrow's `read_table` and pandas' `read_parquet`, which hold all
of it, and `check`, one pass of this package over it.

Each row: processor seconds of the fit and of the readings, best of three; and the largest
memory that the process had when the fit was done, all libraries included (MiB), before any reading.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import discreet as dc

FEATURES = 14
BLOCK = 10**5
BOUNDS = {f"x{at}": (0, 1) for at in range(FEATURES)}
KINDS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "logistic": (
        lambda n, **paid: dc.estimators.PrivateLogisticRegression(classes=("no", "yes"), records=n, **paid),
        "ill",
    ),
    "linear": (lambda n, **paid: dc.estimators.PrivateLinearRegression(target_bounds=(-5, 5), **paid), "cost"),
    "bayes": (lambda n, **paid: dc.estimators.PrivateNaiveBayes(classes=("no", "yes"), draws=100, **paid), "ill"),
    "direction": (lambda n, **paid: dc.estimators.PrivatePrincipalDirection(**paid), None),
}


def write(place: Path, records: int) -> None:
    """Made-up records, a block at a time."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=FEATURES)
    writer = None
    for start in range(0, records, BLOCK):
        x = rng.uniform(0, 1, (min(BLOCK, records - start), FEATURES))
        sums = (x - 0.5) @ weights
        columns = dict(zip(BOUNDS, x.T, strict=True))
        ill = np.where(sums + rng.logistic(size=len(x)) > 0, "yes", "no")
        table = pa.table({**columns, "ill": ill, "cost": sums + rng.normal(size=len(x))})
        writer = writer or pq.ParquetWriter(place, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """Processor seconds, the least of some."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measured(kind: str, folder: str, records: int) -> tuple[float, float, float, float, float]:
    """Seconds of the fit, of pyarrow, of pandas and of `check`; MiB."""
    warnings.simplefilter("ignore")
    make, target = KINDS[kind]
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    limit = dc.Guarantee(epsilon=10, delta=0, relation="add-remove", unit="record")
    account = dc.Ledger(f"sqlite:///{folder}/{kind}.db").open("bench", limit)
    estimator = make(records, bounds=BOUNDS, guarantee=promise, account=account)
    named = {} if target is None else {"target": target}
    estimator.fit(f"{folder}/small.parquet", **named)
    whole, columns = f"{folder}/whole.parquet", [*BOUNDS, *named.values()]
    fit = seconds(lambda: estimator.fit(whole, **named))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    schema = dc.Schema(tuple(dc.Variable(name, bounds=(0, 1)) for name in BOUNDS))
    return (
        fit,
        seconds(lambda: pq.read_table(whole, columns=columns)),
        seconds(lambda: pd.read_parquet(whole, columns=columns)),
        seconds(lambda: dc.check(dc.read_records(whole, schema))),
        memory,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10**6)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "small.parquet", 1000)
        write(Path(folder) / "whole.parquet", given.records)
        print(f"{given.records:,} records of {FEATURES} numbers")
        print("fit from Parquet   CPU s   pyarrow   pandas   check   peak MiB")
        for kind in given.kinds.split(","):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                fit, arrow, pandas, check, memory = pool.apply(measured, (kind, folder, given.records))
            print(f"{kind:16} {fit:7.2f} {arrow:9.2f} {pandas:8.2f} {check:7.2f} {memory:10.0f}", flush=True)


if __name__ == "__main__":
    main()
