"""What people with many rows cost: width, error and coverage by the way that their rows are counted.

`python -m bench.many_rows [--runs 40]` makes up a thousand patients with one to five visits, of which nine in ten are
alike, releases them (`planned`, epsilon 1, add-remove) in four ways, and asks for the share of the ill among those who
smoke, which is 0.3. It prints the rows of the table in `docs/guides/people-with-many-rows.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import discreet as dc

PATIENTS, MOST, ALIKE, TRUTH = 1000, 5, 0.9, 0.3
SMOKE, ILL = dc.Variable("smoke", ("no", "yes")), dc.Variable("ill", ("no", "yes"))
NETWORK = dc.Network((SMOKE, ILL), {"smoke": (), "ill": ("smoke",)})
WAYS: Mapping[str, Mapping[str, Any]] = {
    "`max_records = 1`": {"unit_column": "who", "max_records": 1},
    "`max_records = 5`, `record`": {"unit_column": "who", "max_records": 5, "weights": "record"},
    "`max_records = 5`, `unit`": {"unit_column": "who", "max_records": 5, "weights": "unit"},
    "every row taken for a patient (`--one-record-a-unit`)": {"one_record_a_unit": True},
}


def visits(rng: np.random.Generator) -> pa.Table:
    """Rows of patients; a visit is the patient's own with a probability of nine in ten, else drawn anew."""
    theta = dc.Tables(NETWORK, {"smoke": [0.7, 0.3], "ill": [[0.9, 0.1], [1 - TRUTH, TRUTH]]})
    who = np.repeat(np.arange(PATIENTS), rng.integers(1, MOST + 1, PATIENTS))
    alike = rng.random(who.size) < ALIKE
    patients, others = (dc.tools.simulate_records(theta, size, rng=rng) for size in (PATIENTS, who.size))
    columns = {
        name: np.where(alike, patients[name].to_numpy(False)[who], others[name].to_numpy(False))
        for name in NETWORK.nodes
    }
    return pa.table({"who": who, **columns})


def asked(table: pa.Table, how: Mapping[str, Any], rng: np.random.Generator) -> tuple[float, float, bool]:
    """Half-width, error, and whether the interval holds the truth, of one release."""
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="patient")
    counts = dc.count(dc.read_records(table, NETWORK.schema, **how), NETWORK)
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)
    row = release.posterior(rng=rng).answer("P(ill=yes | smoke=yes)").rows[0]
    return (row["upper"] - row["lower"]) / 2, abs(row["mean"] - TRUTH), row["lower"] <= TRUTH <= row["upper"]


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    tables = [visits(np.random.default_rng([1, run])) for run in range(given.runs)]
    for place, (name, how) in enumerate(WAYS.items()):
        found = [asked(table, how, np.random.default_rng([2, run, place])) for run, table in enumerate(tables)]
        width, error = np.mean([row[0] for row in found]), np.mean([row[1] for row in found])
        print(f"| {name} | {width:.3f} | {error:.3f} | {sum(row[2] for row in found)} of {given.runs} |", flush=True)


if __name__ == "__main__":
    main()
