"""Are intervals right? Coverage and ranks over many simulated releases: `python -m bench.calibration [--quick]`.

Three studies, each a table with standard errors by run, and pictures (`--output`, default `bench/results`):

- prior: truths drawn from Dirichlet rows; every mechanism, by every method that reads it, told that prior (`default`
  is told nothing). How many of the 95 % intervals of entries, marginals and conditionals hold the truth, and how wide
  they are.
- truths: the same for the probabilities of known networks; entries that are 0 or 1 are counted apart.
- ranks: simulation-based calibration; ranks of the truth among posterior draws, and tests whether they are uniform.

Options take the place of the studies' own plans: `--studies truths --networks child --mechanisms laplace --methods
default plug-in --epsilon 0.1 1 --runs 20`. Slow methods (exact, particles) have fewer runs, the first ones
(`--slow-runs`). Under ADD_REMOVE the truth has a fixed number of records, which is no draw from a prior: ranks are
uniform in theory under REPLACE alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

import discreet as dc
from discreet.util.progress import Bar, under_way
from experiments.pages import markdown

from .coverage import METHODS, READ_BY, Cell, Estimated, Method, coverage, network_for
from .ranks import Ranked, ranked, uniformity

__all__ = ["Plan", "coverage_table", "main", "outside", "rank_rows", "rank_table", "rows_of", "written"]

SLOW = ("exact", "particles")
ALLOWED = (0.93, 0.97)
"""Coverage that nobody needs to look at."""
ENOUGH_RUNS = 10
"""Runs from which on a standard error by run is good enough to call a cell out."""
SUSPICIOUS = 0.01
"""Corrected p-value below which ranks are called out."""


# ------------------------------------------------------------------------------------------ what is run


@dataclass(frozen=True)
class Plan:
    """Cells, methods and runs: all combinations, of which a mechanism's methods are those that read it.

    Args:
        networks, mechanisms, methods, relations, epsilon, concentrations: see `Cell`.
        records: of each release.
        runs: of each method.
        slow_runs: of those in `SLOW`.
        draws: of each posterior; ranks are always among 99.
    """

    networks: tuple[str, ...]
    records: int
    runs: int
    slow_runs: int
    methods: tuple[str, ...] = ("exact", "pooled", "particles", "default")
    mechanisms: tuple[str, ...] = (
        "planned",
        "laplace",
        "gaussian",
        "fourier",
        "allocated",
        "posterior_sampler",
        "map_estimate",
    )
    relations: tuple[str, ...] = ("add-remove", "replace")
    epsilon: tuple[str, ...] = ("0.1", "1", "3")
    concentrations: tuple[float | None, ...] = (1.0, 0.25)
    draws: int = 1000

    def cells(self, network: str) -> list[Cell]:
        """All settings on one network."""
        return [
            Cell(network, mechanism, dc.Relation(relation), epsilon, self.records, concentration)
            for concentration, mechanism, relation, epsilon in product(
                self.concentrations, self.mechanisms, self.relations, self.epsilon
            )
            if self.read_by(mechanism)
        ]

    def read_by(self, mechanism: str) -> dict[str, tuple[Method, int]]:
        """The methods that read a mechanism, and the runs of each."""
        return {
            name: (METHODS[name], min(self.slow_runs, self.runs) if name in SLOW else self.runs)
            for name in self.methods
            if name in READ_BY[mechanism]
        }

    def posteriors(self, cell: Cell) -> int:
        """How many are drawn for a cell."""
        return sum(runs for _, runs in self.read_by(cell.mechanism).values())


FAST = ("pooled", "default")
TOLD = ("exact", "pooled", "particles")
"""Methods that are told the prior of the truths: no others' ranks are uniform."""
USERS = ("default", "plug-in")
TINY = Plan(("tiny",), 100, 40, 10)
ONE = replace(TINY, relations=("replace",), epsilon=("1",), concentrations=(1.0,))
KNOWN = Plan(("asia",), 10_000, 10, 10, USERS, ("planned",), concentrations=(None,))
PLANS: Mapping[str, tuple[Plan, ...]] = {
    "prior": (
        replace(TINY, methods=("exact", *FAST)),
        replace(TINY, methods=("particles",), concentrations=(1.0,), draws=400),
        replace(TINY, networks=("asia",), records=1000, runs=20, methods=FAST),
    ),
    "truths": (KNOWN, replace(KNOWN, networks=("child",), runs=5), replace(KNOWN, networks=("alarm",), runs=3)),
    "ranks": (
        replace(ONE, runs=400, slow_runs=60, methods=TOLD),
        replace(ONE, epsilon=("0.1",), runs=400, methods=FAST[:2]),
    ),
}
"""Some 20 minutes of two cores."""
QUICK: Mapping[str, tuple[Plan, ...]] = {
    "prior": (replace(ONE, epsilon=("0.1", "1", "3"), records=50, runs=10, slow_runs=2, draws=400),),
    "truths": (replace(KNOWN, runs=2, draws=400),),
    "ranks": (replace(ONE, mechanisms=("planned", "laplace"), records=50, runs=60, slow_runs=20, methods=TOLD),),
}
"""Under three minutes."""


def measured(study: str, plan: Plan) -> tuple[list[Estimated], list[Ranked]]:
    """Run a plan; networks that are not there are skipped, and stderr says so.

    Args:
        study: "ranks", or one of the other two, which differ in their plans alone.
        plan: what to run.

    Returns:
        Coverage, and ranks.
    """
    estimated, rank_results = list[Estimated](), list[Ranked]()
    for network in plan.networks:
        try:
            theta = network_for(network)
        except FileNotFoundError as missing:
            print(f"skipped {study} on {network}: {missing}", file=sys.stderr)
            continue
        cells = plan.cells(network)
        total, done = sum(plan.posteriors(cell) for cell in cells), 0
        with under_way(study) as bar:

            def step(bar: Bar = bar, total: int = total) -> None:
                nonlocal done
                done += 1
                bar(done, total)

            for cell in cells:
                bar.label = f"{study}: {cell.network}, {cell.mechanism}, {cell.relation}, epsilon {cell.epsilon}"
                methods = {name: pair for name, pair in plan.read_by(cell.mechanism).items() if pair[1]}
                if not methods:
                    continue
                if study == "ranks":
                    rank_results += ranked(cell, theta, methods, step)
                else:
                    estimated += coverage(cell, theta, methods, plan.draws, step)
    return estimated, rank_results


# ------------------------------------------------------------------------------------------ tables


def outside(result: Estimated) -> bool:
    """Whether coverage is outside 93 to 97 % by more than two standard errors, of ten runs or more.

    Entries that are 0 or 1 cannot be held too often: an interval ends there or does not.
    """
    low, high = result.coverage - 2 * result.coverage_error, result.coverage + 2 * result.coverage_error
    too_often = low > ALLOWED[1] and result.quantity != "entries at 0 or 1"
    return result.runs >= ENOUGH_RUNS and (too_often or high < ALLOWED[0])


def _cell_columns(cell: Cell) -> dict[str, Any]:
    """A cell as columns."""
    return {**asdict(cell), "relation": str(cell.relation), "epsilon": float(cell.epsilon)}


def rows_of(results: Iterable[Estimated]) -> list[dict[str, Any]]:
    """Tidy rows of coverage: one for each cell, method and kind of number.

    Args:
        results: any.

    Returns:
        Columns by name: those of `Cell`, then those of `Estimated`.
    """
    return [
        {
            **_cell_columns(one.cell),
            **{name: value for name, value in asdict(one).items() if name != "cell"},
            "outside": outside(one),
        }
        for one in results
    ]


def rank_rows(results: Iterable[Ranked]) -> list[dict[str, Any]]:
    """Tidy rows of ranks: one for each cell, method and quantity, with its tests of uniformity.

    Args:
        results: any.

    Returns:
        Columns by name: those of `Cell`, then method, quantity, runs, failed, p_chi_square, p_ecdf, mean_rank and
        `p_method`, the smallest p-value of the method in this cell times the number of its tests (Bonferroni).
    """
    rows = []
    for one in results:
        tested = {name: uniformity(ranks) for name, ranks in one.ranks.items()}
        every = [p for found in tested.values() for p in (found.chi_square, found.ecdf)]
        rows += [
            {
                **_cell_columns(one.cell),
                "method": one.method,
                "quantity": name,
                "runs": len(one.ranks[name]),
                "failed": one.failed,
                "p_chi_square": found.chi_square,
                "p_ecdf": found.ecdf,
                "mean_rank": float(one.ranks[name].mean()),
                "p_method": min(1.0, len(every) * min(every)),
            }
            for name, found in tested.items()
        ]
    return rows


def coverage_table(results: Sequence[Estimated]) -> str:
    """Coverage and width in Markdown: one line for each cell and method.

    Args:
        results: any.

    Returns:
        The table, with widths as multiples of those of the cell's first method (in the runs that both have) in
        brackets, and a list of the cells outside 93 to 97 %.
    """
    header = ("network", "truths", "records", "mechanism", "relation", "epsilon", "method", "runs",
              "entries %", "width", "at 0 or 1 %", "marginals %", "width", "conditionals %", "width", "s")  # fmt: skip
    lines: dict[tuple[Cell, str], dict[str, Estimated]] = {}
    for one in results:
        lines.setdefault((one.cell, one.method), {})[one.quantity] = one
    rows = []
    for (cell, method), found in lines.items():
        entries, ends = found["entries"], found["entries at 0 or 1"]
        runs = f"{entries.runs}" + (f" ({entries.failed} failed)" if entries.failed else "")
        rows.append(
            [*_words(cell), method, runs, *_both(entries), _percent(ends),
             *_both(found["marginals"]), *_both(found["conditionals"]), f"{entries.seconds:.2f}"]
        )  # fmt: skip
    named = [
        f"- {', '.join(_words(one.cell))}, {one.method}: {one.quantity} {_percent(one)}\n"
        for one in results
        if outside(one) and one.quantity != "entries at 0 or 1"
    ]
    judged = sum(one.runs >= ENOUGH_RUNS and one.quantity != "entries at 0 or 1" for one in results)
    found_out = f"\n{len(named)} of {judged} with {ENOUGH_RUNS} runs or more are outside 93 to 97 % by two errors:\n\n"
    return markdown(header, rows) + found_out + "".join(named)


def rank_table(results: Sequence[Ranked]) -> str:
    """Tests of uniformity in Markdown: one line for each cell and method.

    Args:
        results: any.

    Returns:
        The table: of each method the corrected p-value, and the quantity whose ranks are the least uniform.
    """
    header = ("network", "truths", "records", "mechanism", "relation", "epsilon", "method", "runs", "quantities",
              "least uniform", "its mean rank", "p bins", "p ECDF", "p corrected", "")  # fmt: skip
    rows = []
    for one in results:
        found = rank_rows([one])
        if not found:
            rows.append([*_words(one.cell), one.method, f"0 ({one.failed} failed)", *[""] * 7])
            continue
        worst = min(found, key=lambda row: min(row["p_chi_square"], row["p_ecdf"]))
        runs = f"{worst['runs']}" + (f" ({one.failed} failed)" if one.failed else "")
        name = worst["quantity"].replace("|", "given")
        rows.append(
            [*_words(one.cell), one.method, runs, str(len(found)), name, f"{worst['mean_rank']:.1f}",
             f"{worst['p_chi_square']:.2g}", f"{worst['p_ecdf']:.2g}", f"{worst['p_method']:.2g}",
             "not uniform" if worst["p_method"] < SUSPICIOUS else ""]
        )  # fmt: skip
    return markdown(header, rows)


def _words(cell: Cell) -> list[str]:
    """A cell as text."""
    law = "own" if cell.concentration is None else f"Dirichlet({cell.concentration:g})"
    return [cell.network, law, f"{cell.records:,}", cell.mechanism, str(cell.relation), cell.epsilon]


def _percent(one: Estimated) -> str:
    """Coverage with its error, `!` where it is called out."""
    if one.coverage != one.coverage:
        return ""
    return f"{100 * one.coverage:.1f} ± {100 * one.coverage_error:.1f}{' !' if outside(one) else ''}"


def _both(one: Estimated) -> tuple[str, str]:
    """Coverage and width."""
    width = f"{one.width:.4f}" if one.width == one.width else ""
    relative = one.relative_width, one.relative_width_error
    return _percent(one), width + (" (× {:.3f} ± {:.3f})".format(*relative) if relative[1] > 0 else "")


def written(rows: Sequence[Mapping[str, Any]], stem: Path) -> None:
    """Write tidy rows as CSV and as Parquet.

    Args:
        rows: with the same columns.
        stem: path without its ending.
    """
    if rows:
        stem.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(list(rows))
        csv.write_csv(table, stem.with_suffix(".csv"))
        parquet.write_table(table, stem.with_suffix(".parquet"))


def pictures(estimated: Sequence[Estimated], rank_results: Sequence[Ranked], folder: Path) -> None:
    """Draw everything, or say why not."""
    if find_spec("matplotlib") is None:
        print("no pictures: matplotlib is missing (pip install '.[bench]')", file=sys.stderr)
        return
    from .pictures import draw_coverage, draw_ranks  # all but this part works without the extra

    if estimated:
        draw_coverage(estimated, folder)
    for one in rank_results:
        if one.ranks:
            draw_ranks(one, folder)


# ------------------------------------------------------------------------------------------ command line


def _plans(given: argparse.Namespace) -> list[tuple[str, Plan]]:
    """The plans of the studies, with what the command line says in their place."""
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name in ("networks", "mechanisms", "methods", "relations", "epsilon", "concentrations",
                     "records", "runs", "slow_runs", "draws")
        if (value := getattr(given, name)) is not None
    }  # fmt: skip
    if given.runs is not None and given.slow_runs is None:
        changes["slow_runs"] = given.runs
    found = []
    for study in given.studies:
        plans = (QUICK if given.quick else PLANS)[study]
        # Plans of a study differ in networks or methods: where these are given, one plan is enough.
        for plan in plans[:1] if given.networks or given.methods else plans:
            new = replace(plan, **changes)
            found.append((study, replace(new, concentrations=(None,)) if study == "truths" else new))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run, print, write.

    Args:
        arguments: None for those of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a look in two or three minutes; large errors")
    parser.add_argument("--studies", nargs="+", choices=tuple(PLANS), default=tuple(PLANS))
    parser.add_argument("--networks", nargs="+", help="tiny, asia, a name in $DISCREET_DATA/networks, or a BIF file")
    parser.add_argument("--mechanisms", nargs="+", choices=tuple(READ_BY))
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS))
    parser.add_argument("--relations", nargs="+", choices=[str(relation) for relation in dc.tools.RECORD_RELATIONS])
    parser.add_argument("--epsilon", nargs="+", help="nats")
    parser.add_argument("--concentrations", nargs="+", type=float, help="of the Dirichlet that truths are drawn from")
    parser.add_argument("--records", type=int)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--slow-runs", type=int, help=f"of {' and '.join(SLOW)}; --runs unless given")
    parser.add_argument("--draws", type=int, help="of each posterior")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", help="a folder")
    given = parser.parse_args(arguments)
    estimated, rank_results, started = list[Estimated](), list[Ranked](), time.monotonic()
    for study, plan in _plans(given):
        covered, ranks = measured(study, plan)
        estimated, rank_results = estimated + covered, rank_results + ranks
        networks = ", ".join(plan.networks)
        if covered:
            print(f"## {study}: coverage of 95 % intervals ({networks})\n\n{coverage_table(covered)}", flush=True)
        if ranks:
            print(f"## {study}: uniformity of ranks ({networks})\n\n{rank_table(ranks)}", flush=True)
    written(rows_of(estimated), given.output / "coverage")
    written(rank_rows(rank_results), given.output / "ranks")
    pictures(estimated, rank_results, given.output)
    print(f"{time.monotonic() - started:.0f} s; tables and pictures are in {given.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
