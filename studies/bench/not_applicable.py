"""What declared conditions of columns save: errors and intervals with `applies_if`, and with an ordinary state instead.

Two tables: *adult*, UCI's, whose `occupation` applies to those who work, and *survey*, a made-up questionnaire of six
columns that apply to smokers, to workers and to women. Records are drawn with replacement, noise is simulated, and each
release is read twice: with the conditions, and with the same arcs and states but no conditions. The truth is the law
that records are drawn from. Of conditional shares given the condition, of the condition's column, and of cells, the
bench prints mean absolute errors, how often 95 % intervals hold the truth, and their mean width.

    python -m bench.not_applicable [--repeats 20]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

import discreet as dc
from bench.estimator_sets import adult_rows
from bench.numbers import Floats

__all__ = ["Table", "compare", "tables"]

LEVEL, DRAWS = 0.95, 300


class Table(NamedTuple):
    """A table of codes that keeps to conditions, and what is asked of it.

    Args:
        name: of the table.
        network: with its conditions.
        codes: by column.
        asked: queries by kind.
    """

    name: str
    network: dc.Network
    codes: dict[str, Floats]
    asked: dict[str, tuple[str, ...]]


def _adult() -> Table:
    """Work, occupation, sex and income of UCI's table; a few hundred of those who work state no occupation."""
    rows = np.array(adult_rows())
    columns = {"work": rows[:, 1], "occupation": rows[:, 6], "sex": rows[:, 9], "income": rows[:, 14]}
    idle = ("?", "Never-worked")
    kept = np.isin(columns["work"], idle) | (columns["occupation"] != "?")
    columns = {name: column[kept] for name, column in columns.items()}
    states = {
        name: sorted({*column.tolist()} - ({"?"} if name == "occupation" else set()))
        for name, column in columns.items()
    }
    works = ", ".join(f'"{state}"' for state in states["work"] if state not in idle)
    variables = [dc.Variable(name, tuple(states[name])) for name in ("sex", "work", "income")]
    variables.insert(2, dc.Variable("occupation", tuple(states["occupation"]), applies_if=f"work in {{{works}}}"))
    network = dc.Network.from_edges(
        [("sex", "work"), ("sex", "income"), ("work", "occupation"), ("occupation", "income")], variables
    )
    codes = {v.name: np.array([v.code(s) if v.has(s) else v.size - 1 for s in columns[v.name]]) for v in variables}
    return Table("adult", network, codes, {"condition": ("P(work)",), "cells": ("P(work, occupation)",),
                                           "given": ("P(occupation | work=Private)",)})  # fmt: skip


def _survey(n: int = 100_000) -> Table:
    """Smokers are asked what and how much, workers where, women how many children."""
    rng = np.random.default_rng(11)
    smokes, sex, works = rng.random(n) < 0.25, rng.integers(2, size=n), rng.random(n) < 0.6
    kind = np.where(smokes, rng.choice(4, n, p=[0.7, 0.2, 0.07, 0.03]), 4)
    often = np.where(smokes, np.minimum(rng.poisson(1 + kind), 4), 5)
    place = np.where(works, rng.choice(6, n, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03]), 6)
    births = np.where(sex == 0, np.minimum(rng.poisson(1.6, n), 3), 4)
    variables = (
        dc.Variable("smokes", ("no", "yes")),
        dc.Variable("sex", ("f", "m")),
        dc.Variable("works", ("no", "yes")),
        dc.Variable("kind", tuple("abcd"), applies_if="smokes = yes"),
        dc.Variable("often", tuple("12345"), applies_if="smokes = yes"),
        dc.Variable("place", tuple("uvwxyz"), applies_if="works = yes"),
        dc.Variable("births", tuple("0123"), applies_if="sex = f"),
    )
    codes = [smokes, sex, works, kind, often, place, births]
    network = dc.Network.from_edges([("sex", "works"), ("kind", "often")], variables)
    asked = {
        "condition": ("P(smokes)", "P(works)", "P(sex)"),
        "cells": ("P(kind, often)", "P(works, place)", "P(sex, births)"),
        "given": ("P(kind | smokes=yes)", "P(often | smokes=yes)", "P(place | works=yes)", "P(births | sex=f)"),
    }
    return Table("survey", network, {v.name: c.astype(int) for v, c in zip(variables, codes, strict=True)}, asked)


def tables() -> Iterator[Table]:
    """Yield the tables."""
    yield _survey()
    yield _adult()


def _find_truth(table: Table, network: dc.Network, query: str) -> Floats:
    """Find the shares of all records that a query asks for, in the order of its answer."""
    parsed = dc.tools.parse_query(query, network.schema)
    held = np.ones(len(next(iter(table.codes.values()))), bool)
    for name, state in parsed.evidence:
        held &= table.codes[name] == network.schema[name].code(state)
    sizes = [network.schema[name].size for name, _ in parsed.targets]
    cells = np.ravel_multi_index([table.codes[name][held] for name, _ in parsed.targets], sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))) / held.sum()


def compare(table: Table, records: int, epsilon: float, relation: str, seed: int) -> Iterator[tuple[str, str, Floats]]:
    """Release a sample with conditions and without, and yield for each kind of question (error, held, width) by row."""
    rng = np.random.default_rng(seed)
    picked = rng.integers(len(table.codes["sex"]), size=records)
    plain = [replace(each, applies_if=None, not_applicable=None) for each in table.network.variables]
    for label, network in (("declared", table.network), ("not", replace(table.network, variables=tuple(plain)))):
        claim = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
        counts = dc.tools.count_codes(network, {name: column[picked] for name, column in table.codes.items()})
        release = dc.simulate(
            dc.planned(), counts, dc.Dirichlet.uniform(network), claim, rng=np.random.default_rng(seed)
        )
        posterior = dc.noise_aware(release, draws=DRAWS, rng=seed)
        for kind, queries in table.asked.items():
            for query in queries:
                truth = _find_truth(table, network, query)
                answer = dc.answer(posterior, query, level=LEVEL)
                rows = np.array([[row["mean"], row["lower"], row["upper"]] for row in answer.rows])
                possible = truth > 0
                held = (rows[:, 1] <= truth) & (truth <= rows[:, 2])
                numbers = np.stack([np.abs(rows[:, 0] - truth), held, rows[:, 2] - rows[:, 1]], axis=1)
                yield kind, label, numbers[possible]


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    for table in tables():
        for (records, epsilon), relation in product(
            [(5_000, 0.1), (5_000, 0.3), (5_000, 1.0)], ["add-remove", "replace"]
        ):
            found: dict[tuple[str, str], list[Floats]] = {}
            for seed in range(repeats):
                for kind, label, numbers in compare(table, records, epsilon, relation, seed):
                    found.setdefault((kind, label), []).append(numbers)
            for kind in table.asked:
                told = [np.concatenate(found[kind, label]).mean(axis=0) for label in ("declared", "not")]
                words = " / ".join(f"{error:.4f} {100 * held:.0f} % {width:.4f}" for error, held, width in told)
                head = f"{table.name}, {records:,}, {relation}, {epsilon:g}, {kind}"
                print(f"{head}: {words}, ratio {told[0][0] / told[1][0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
