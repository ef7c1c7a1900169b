"""A domain found in private and a release over it, beside a release over a good declared domain for the same epsilon.

The table has a group and a number, or one column of text; the network is group -> x. Over the found domain a share of
epsilon finds states, bounds and bins; declared are all states, and ten bins of one width between the bounds of
`number_sums`. Records are drawn with replacement. Errors of means and quantiles are in standard deviations of the
column, whose truth is not clipped; those of tables are half the sum of absolute
differences over the found states and all others together, for both releases.

    python -m bench.found_domains FOLDER --which sklearn    FOLDER: that of `number_sums`
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import discreet as dc
from bench.number_sums import GROUPS, Table, made_up_tables, sklearn_tables, tables
from discreet.discovery.declared_columns import NoPrior
from discreet.discovery.finding import values_of
from discreet.discovery.mechanisms.found_domain import found_domain

__all__ = ["QUESTIONS", "Run", "measure", "measure_text"]

QUESTIONS = ("E(x)", "E(x | group)", "median(x)", "quantile(x, 0.9)", "P(group)", "P(x > c)")
DRAWS = 300
SHARE = Fraction(3, 20)
"""Share of epsilon that finds the domain."""
TEXTS = {"workclass": 1, "education": 3, "marital": 5, "occupation": 6, "relationship": 7, "country": 13}
"""Columns of text of Adult."""


class Run(NamedTuple):
    """One question of two releases of the same records.

    Args:
        question: text.
        errors: over the found and over the declared domain.
        held: whether the interval over the found domain holds the truth of the clipped column.
    """

    question: str
    errors: tuple[float, float]
    held: bool


def measure(table: Table, records: int, epsilon: float, seed: list[int], share: Fraction = SHARE) -> Iterator[Run]:
    """Release the same records of a group and a number twice, and ask all questions of both releases.

    Args:
        table: whose records are drawn with replacement.
        records: their number.
        epsilon: of each release, with the domain.
        seed: of records and noise.
        share: of epsilon for the domain.
    """
    rng = np.random.default_rng(seed)
    taken, kind = rng.integers(len(table.x), size=records), "integer" if table.integer else "real"
    states = tuple(f"g{code}" for code in range(GROUPS))
    x = table.x[taken].astype(np.int64) if table.integer else table.x[taken]
    frame = pa.table({"group": np.array(states)[table.group[taken].astype(int)], "x": x})
    declared = (dc.Variable("group", states), dc.Variable.binned("x", table.bounds[0], 10, type=kind))
    found, own = _release_both(frame, declared, epsilon, share, rng)
    cut = float(np.floor(np.quantile(table.x, 0.6)))
    clipped = np.clip(table.x, *(found.network.schema["x"].bounds or (0, 0)))
    asked = {"E(x | group)": "E(x | group=g0)", "P(x > c)": f"P(x > {cut})"}
    plain, cut_off = (_truths(values, table.group, cut) for values in (table.x, clipped))
    one, other = (dc.noise_aware(release, draws=DRAWS, rng=rng) for release in (found, own))
    for question, truth in plain.items():
        unit = 1.0 if question == "P(x > c)" else float(table.x.std())
        ours, theirs = (dict(dc.answer(each, asked.get(question, question)).rows[0]) for each in (one, other))
        slack = 1e-9 * unit
        held = float(ours["lower"]) - slack <= cut_off[question] <= float(ours["upper"]) + slack
        yield Run(question, tuple(abs(float(each["mean"]) - truth) / unit for each in (ours, theirs)), held)  # type: ignore[arg-type]
    truth = {state: float((table.group == code).mean()) for code, state in enumerate(states)}
    known = found.network.schema["group"].matched
    errors = _table_error(one, "group", truth, known), _table_error(other, "group", truth, known)
    yield Run("P(group)", errors, True)


def measure_text(
    values: np.ndarray, records: int, epsilon: float, seed: list[int], share: Fraction = SHARE
) -> tuple[float, float, float]:
    """Release one column of text twice: errors over the found and the declared domain, and the share of *other*."""
    rng = np.random.default_rng(seed)
    states, counts = np.unique(values, return_counts=True)
    frame = pa.table({"x": rng.choice(values, records)})
    found, own = _release_both(frame, (dc.Variable("x", tuple(states.tolist())),), epsilon, share, rng)
    truth = dict(zip(states.tolist(), (counts / counts.sum()).tolist(), strict=True))
    known = found.network.schema["x"].matched
    one, other = (
        _table_error(dc.noise_aware(release, draws=DRAWS, rng=rng), "x", truth, known) for release in (found, own)
    )
    return one, other, sum(share for state, share in truth.items() if state not in known)


def _release_both(
    frame: pa.Table, declared: tuple[dc.Variable, ...], epsilon: float, share: Fraction, rng: np.random.Generator
) -> tuple[dc.Release, dc.Release]:
    """Release over the found and over the declared domain, with simulated noise."""
    promises = [
        dc.Guarantee(epsilon=part * Fraction(str(epsilon)), delta=delta, relation="add-remove", unit="record")
        for part, delta in ((share, "1e-9"), (1 - share, 0), (Fraction(1), 0))
    ]
    columns, values = values_of(frame, {name: "text" for name in ("group",) if name in frame.column_names}, (), {})
    domain = dc.simulate(found_domain(), values, NoPrior(columns), promises[0], rng=rng)
    schemas = domain.payload.schema, dc.Schema(declared)  # type: ignore[attr-defined]
    releases = []
    for schema, promise in zip(schemas, promises[1:], strict=True):
        parents = (
            {"group": (), "x": ("group",)} if "group" in schema and "x" in schema else dict.fromkeys(schema.names, ())
        )
        network = dc.Network(schema.variables, parents)
        mechanism = dc.planned()
        counts = dc.count(
            dc.read_records(frame, network.schema, out_of_bounds="clip"), network, scopes=mechanism.scopes(network)
        )
        releases.append(dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), promise, rng=rng))
    return releases[0], releases[1]


def _table_error(
    posterior: dc.results.PosteriorDraws, name: str, truth: dict[str, float], known: tuple[str, ...]
) -> float:
    """Half the sum of absolute errors over the found states and all others together."""
    rows = dc.answer(posterior, f"P({name})").rows
    told = {row["state"][name]: float(row["mean"]) for row in rows}
    errors = [abs(told.get(state, 0.0) - truth.get(state, 0.0)) for state in known]
    rest = sum(share for state, share in told.items() if state not in known)
    return (sum(errors) + abs(rest - sum(share for state, share in truth.items() if state not in known))) / 2


def _truths(x: np.ndarray, group: np.ndarray, cut: float) -> dict[str, float]:
    """Compute the answers of a column."""
    return {
        "E(x)": float(x.mean()),
        "E(x | group)": float(x[group == 0].mean()),
        "median(x)": float(np.quantile(x, 0.5, method="inverted_cdf")),
        "quantile(x, 0.9)": float(np.quantile(x, 0.9, method="inverted_cdf")),
        "P(x > c)": float((x > cut).mean()),
    }


def main() -> None:
    """Print a line for each column and question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=12)
    parser.add_argument("--records", type=int, default=5_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--share", type=Fraction, default=SHARE)
    parser.add_argument("--which", choices=["real", "sklearn", "made up", "text"], default="sklearn")
    task = parser.parse_args()
    if task.which == "text":
        with gzip.open(task.folder / "adult.data.gz", "rt") as file:
            rows = [line.strip().split(", ") for line in file if line.count(",") == 14]
        for name, at in TEXTS.items():
            values = np.array([row[at] for row in rows])
            pairs = np.array([
                measure_text(values, task.records, task.epsilon, [task.first, at, run], task.share)
                for run in range(task.runs)
            ])  # fmt: skip
            ours, theirs, rest = pairs.mean(axis=0)
            print(f"{name:16} P(x) {ours:.4f} {theirs:.4f} ratio {ours / theirs:.2f}, share of other {rest:.3f}")
        return
    chosen = {
        "real": lambda: tables(task.folder),
        "sklearn": sklearn_tables,
        "made up": lambda: made_up_tables(np.random.default_rng(1)),
    }[task.which]()
    gathered: dict[str, list[Run]] = {}
    for number, table in enumerate(list(chosen)[: task.first]):
        runs = [
            run
            for seed in range(task.runs)
            for run in measure(table, task.records, task.epsilon, [number, seed, 77], task.share)
        ]
        told = []
        for question in QUESTIONS:
            those = [run for run in runs if run.question == question]
            gathered.setdefault(question, []).extend(those)
            ours, theirs = (float(np.mean([run.errors[at] for run in those])) for at in (0, 1))
            told.append(f"{ours:.3f}/{theirs:.3f}={ours / theirs:.2f}")
        print(f"{table.name:16}", *told, flush=True)
    for question, runs in gathered.items():
        ours, theirs = (float(np.mean([run.errors[at] for run in runs])) for at in (0, 1))
        held = np.mean([run.held for run in runs])
        print(f"{question:18} {ours:.4f} {theirs:.4f} ratio {ours / theirs:.2f} held {held:.3f}")


if __name__ == "__main__":
    main()
