"""What every experiment is run by: repeats with fixed seeds in processes, a tidy table, and a page with its pictures.

An experiment is a module with a constant `EXPERIMENT`. Its *plan* names settings and how often each is repeated, its
*measure* turns one repeat of one setting into rows, and its *present* turns all rows into a page. The harness draws the
random numbers apart: every repeat of every setting gets generators that depend on the experiment, the seed set, the
repeat and a purpose, and on nothing else, so that methods can be given the same records.

There are two seed sets, both fixed here and used as they came. Pages show the first; each check is made on both, and
the page says how far apart their means are.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import NAMES
from .pages import Check, Page, save_index, save_page

__all__ = [
    "SEED_SETS",
    "Experiment",
    "Task",
    "begun",
    "collected",
    "command",
    "command_by_name",
    "differences",
    "first_tasks",
    "presented",
    "run",
    "second_seeds",
    "workers",
]

SEED_SETS = (1, 2)
"""The second is there to see what chance did in the first."""
QUICK_OUTPUT, FULL_OUTPUT = Path("docs/experiments"), Path("build/experiments")

TOLERANCE, NOTHING = 3e-4, 1e-9
"""Relative difference of two numbers that are the same on another machine, and what is as good as 0. On another
machine, with the same versions of all libraries, posteriors differed by 1e-4: single draws turn on a rounding."""

Row = Mapping[str, Any]
"""`metric` and `value`, and further columns that tell rows of one repeat apart."""


@dataclass(frozen=True)
class Task:
    """One repeat of one setting.

    Args:
        experiment: name of the module.
        setting: names and plain values; they become columns.
        seeds: the seed set, 1 or 2; 0 where nothing is random.
        repeat: its number, from 0.
    """

    experiment: str
    setting: Mapping[str, Any]
    seeds: int
    repeat: int

    def rng(self, purpose: str) -> np.random.Generator:
        """A source of random numbers for a purpose, the same whatever the setting is.

        Args:
            purpose: what is drawn; it names whatever part of the setting the draw should depend on.

        Returns:
            A generator of its own.
        """
        return np.random.default_rng([_code(self.experiment), self.seeds, self.repeat, _code(purpose)])


@dataclass(frozen=True)
class Experiment:
    """A figure or table, and what its page says of it.

    Args:
        title: of the page.
        source: paper, and figure, table or statement.
        claim: what is printed.
        data: what is learned from.
        relation: neighbouring data sets.
        guarantee: of what is compared, and what has none.
        plan: told whether it is to be quick, settings and the repeats of each in each seed set; 0 repeats where nothing
            is random.
        measure: rows of one repeat.
        present: the page of the rows of one seed set.
        missing: parts that cannot be run here, each with its reason.
    """

    title: str
    source: str
    claim: str
    data: str
    relation: str
    guarantee: str
    plan: Callable[[bool], Sequence[tuple[Mapping[str, Any], int]]]
    measure: Callable[[Task], Iterable[Row]]
    present: Callable[[pd.DataFrame], Page]
    missing: Callable[[], Sequence[str]] = field(default=tuple)


def _code(text: str) -> int:
    """A fixed number for a text."""
    return zlib.crc32(text.encode())


# ------------------------------------------------------------------------------------------ running


def tasks(name: str, experiment: Experiment, *, quick: bool) -> list[Task]:
    """All repeats of all settings in all seed sets."""
    found = []
    for setting, repeats in experiment.plan(quick):
        sets = SEED_SETS if repeats else (0,)
        found += [Task(name, setting, seeds, repeat) for seeds in sets for repeat in range(max(repeats, 1))]
    return found


def measured(task: Task) -> list[dict[str, Any]]:
    """Rows of one task with the columns that say where they come from; run in a worker."""
    experiment = _experiment(task.experiment)
    where = {**task.setting, "seeds": task.seeds, "repeat": task.repeat}
    return [{**where, **row} for row in experiment.measure(task)]


Rows = list[dict[str, Any]]


def begun(name: str, *, quick: bool, pool: ProcessPoolExecutor | None) -> tuple[int, Iterator[Rows]]:
    """Number of tasks of an experiment, and the rows of each; workers start at once, nothing here does."""
    work = tasks(name, _experiment(name), quick=quick)
    if pool is None:
        return len(work), map(measured, work)
    return len(work), pool.map(measured, work, chunksize=max(1, len(work) // 200))


def collected(name: str, number: int, done: Iterator[Rows]) -> pd.DataFrame:
    """The tidy table of an experiment that was begun.

    Args:
        name: of the module.
        number: of tasks.
        done: rows of each task.

    Returns:
        One row for each number: columns of the setting, `seeds`, `repeat`, those that `measure` adds, `metric` and
        `value`; in the order of the plan, however many workers there are.
    """
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    shown = track(done, name, number, console=console, disable=not console.is_terminal)
    return pd.DataFrame([row for rows in shown for row in rows])


@contextmanager
def workers(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """A pool of processes with one thread of linear algebra each; None for a single one."""
    if processes < 2:
        yield None
        return
    # Workers read it when they import NumPy: two processes' threads would stand in each other's way.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool


def presented(name: str, frame: pd.DataFrame) -> list[Page]:
    """A page for each seed set, the first one first; rows of what is not random are in all of them."""
    present = _experiment(name).present
    sets = sorted(set(frame["seeds"]) - {0}) or [0]
    return [present(frame[frame["seeds"].isin((0, seeds))]) for seeds in sets]


def run(name: str, frame: pd.DataFrame, *, quick: bool, output: Path) -> list[Page]:
    """Write table, pictures and page.

    Args:
        name: of the module.
        frame: tidy rows of all seed sets.
        quick: whether they are of a quick run.
        output: folder of the pages.

    Returns:
        The page of each seed set; what is written shows the first, and the checks of all.
    """
    experiment = _experiment(name)
    (output / "data").mkdir(parents=True, exist_ok=True)
    frame.to_parquet(output / "data" / f"{name}.parquet", index=False)
    pages = presented(name, frame)
    facts = {
        "Source": experiment.source,
        "Printed": experiment.claim,
        "Data": experiment.data,
        "Relation": experiment.relation,
        "Guarantee": experiment.guarantee,
        "Repeats": _repeats(experiment.plan(quick)),
        **({"Not run": "; ".join(experiment.missing())} if experiment.missing() else {}),
    }
    command = f"python -m experiments.{name}{' --quick' if quick else ''}"
    save_page(name, experiment.title, facts, pages, second_seeds(frame), command, output)
    return pages


def _repeats(plan: Sequence[tuple[Mapping[str, Any], int]]) -> str:
    """How often what was repeated, in words."""
    numbers = sorted({repeats for _, repeats in plan if repeats})
    if not numbers:
        return "none: nothing here is random"
    exact = " that is not exact" if any(repeats == 0 for _, repeats in plan) else ""
    many = f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"
    return (
        f"{many} of each setting{exact} in each of two seed sets that were fixed in advance; shown is the first. "
        "± is one standard error over repeats"
    )


def _experiment(name: str) -> Experiment:
    """The experiment of a module."""
    found: Experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    return found


# ------------------------------------------------------------------------------------------ the second seed set


def second_seeds(frame: pd.DataFrame) -> str:
    """How far apart the means of both seed sets are, in a sentence; empty where nothing is random."""
    random = frame[frame["seeds"] > 0]
    if random.empty:
        return ""
    keys = [column for column in random.columns if column not in ("seeds", "repeat", "value")]
    parts = random.groupby([*keys, "seeds"], dropna=False)["value"].agg(["mean", "var", "count"]).unstack("seeds")
    means, variances, counts = (parts[what].to_numpy(float) for what in ("mean", "var", "count"))
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(means[:, 0] - means[:, 1]) / np.sqrt((variances / counts).sum(axis=1))
    # What never varies has no error, NaN; what differs between the sets alone is infinitely far apart.
    apart = apart[~np.isnan(apart)]
    if not apart.size:
        return "The second seed set has too few repeats for standard errors."
    return (
        f"Of {apart.size:,} means, {np.mean(apart > 2):.0%} differ between the seed sets by more than two standard "
        f"errors of the difference (5 % would by chance alone if they were normal), the farthest by {apart.max():.1f}."
    )


# ------------------------------------------------------------------------------------------ stored pages


def first_tasks(name: str, *, quick: bool = True) -> list[Task]:
    """The first repeat of each setting of an experiment, in the first seed set."""
    return [task for task in tasks(name, _experiment(name), quick=quick) if task.seeds < 2 and not task.repeat]


def differences(stored: pd.DataFrame, task: Task, rows: Rows) -> list[str]:
    """Tell where the rows of a task are not those that a page was made of.

    Args:
        stored: the tidy table of the page.
        task: what was measured again.
        rows: what was measured, as of `measured`.

    Returns:
        A line for each number that differs by more than `TOLERANCE`, and one where there are other rows than stored.
    """
    again = pd.DataFrame(rows)
    found = _rows_of(stored, task, again)
    where = f"{task.experiment}: {', '.join(f'{key} {value}' for key, value in task.setting.items())}"
    keys = [column for column in again.columns if column not in ("seeds", "repeat", "value")]
    if len(found) != len(again) or not all(_same(found[key], again[key]).all() for key in keys):
        return [f"{where}: {len(again)} rows that are not the {len(found)} stored"]
    told, off = [key for key in keys if key not in task.setting], ~_same(found["value"], again["value"])
    return [
        f"{where}: {', '.join(f'{key} {row[key]}' for key in told)}: stored {old:.6g}, measured {row['value']:.6g}"
        for old, (_, row) in zip(found.loc[off, "value"], again[off].iterrows(), strict=True)
    ]


def _same(stored: pd.Series[Any], again: Any) -> npt.NDArray[np.bool_]:
    """Which values of a column are what they were; nothing is the same as nothing."""
    values = np.broadcast_to(np.asarray(again, object), stored.shape)
    try:
        found = np.isclose(stored.to_numpy(float), values.astype(float), rtol=TOLERANCE, atol=NOTHING, equal_nan=True)
    except (TypeError, ValueError):
        found = (stored.to_numpy(object) == values) | (stored.isna().to_numpy() & pd.isna(values))
    return np.asarray(found, bool)


def _rows_of(stored: pd.DataFrame, task: Task, again: pd.DataFrame) -> pd.DataFrame:
    """The stored rows of a task, in their order; rows with more columns than these are of another setting."""
    own = {**task.setting, "seeds": task.seeds, "repeat": task.repeat}
    kept = np.ones(len(stored), bool)
    for column in stored.columns:
        if column not in again:
            kept &= stored[column].isna().to_numpy()
        elif column in own and (again[column] == own[column]).all():
            kept &= _same(stored[column], own[column])
    return stored.reindex(columns=[*again.columns])[kept].reset_index(drop=True)


def compared(names: Sequence[str], folder: Path, processes: int) -> list[str]:
    """Measure the first repeat of each setting again, and tell what is not as it is stored.

    Args:
        names: of modules.
        folder: of the pages.
        processes: how many at once.

    Returns:
        Lines of `differences`.
    """
    found = []
    with workers(processes) as pool:
        for name in names:
            started, again = time.monotonic(), first_tasks(name)
            stored = pd.read_parquet(folder / "data" / f"{name}.parquet")
            done = (map if pool is None else pool.map)(measured, again)
            lines = [line for task, rows in zip(again, done, strict=True) for line in differences(stored, task, rows)]
            print(f"{name}: {time.monotonic() - started:.0f} s, {len(lines)} differences", flush=True)
            print("".join(f"  not here: {reason}\n" for reason in _experiment(name).missing()), end="", flush=True)
            found += lines
    return found


# ------------------------------------------------------------------------------------------ the command line


def command(names: Sequence[str], arguments: Sequence[str] | None = None) -> None:
    """The command line of one or several experiments.

    Args:
        names: of modules, in the order of the index.
        arguments: None for those of the process.

    Raises:
        SystemExit: 1 where a check failed, after all pages are written; 2 for arguments that make no sense, before
            anything is measured.
    """
    parser = _parser()
    _measure_and_write(names, parser.parse_args(arguments), parser)


def command_by_name(arguments: Sequence[str] | None = None) -> None:
    """The command line of all experiments, or of those that it names.

    Args:
        arguments: None for those of the process.

    Raises:
        SystemExit: as for `command`; 1 with `--check` where a stored number is another now; 2 for a name that no
            experiment has, in one line with those that are like it.
    """
    parser = _parser()
    parser.add_argument("names", nargs="*", metavar="NAME", help="of an experiment; none for all")
    parser.add_argument("--list", action="store_true", help="print the names, and measure nothing")
    parser.add_argument("--check", action="store_true", help="measure some of each quick page again, and write nothing")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(NAMES))
        return
    for name in given.names:
        if name not in NAMES:
            parser.exit(2, f"no experiment {name[:80]!r}: {_like(name)}\n")
    # Twice the same name is one experiment.
    names = list(dict.fromkeys(given.names)) or NAMES
    if given.check:
        if different := compared(names, given.output or QUICK_OUTPUT, given.processes):
            sys.exit("not as stored:\n" + "\n".join(different))
        return
    _measure_and_write(names, given, parser)


def _parser() -> argparse.ArgumentParser:
    """What all command lines have."""
    parser = argparse.ArgumentParser(description="Run experiments, and write their pages, pictures and tables.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: seconds to two minutes each")
    parser.add_argument("--output", type=Path, help=f"folder; {QUICK_OUTPUT} for quick runs, {FULL_OUTPUT} for others")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser


def _like(name: str) -> str:
    """What to write in place of a name that no experiment has."""
    near = [known for known in NAMES if name and name in known] or get_close_matches(name, NAMES, n=5)
    return f"did you mean {', '.join(near[:5])}?" if near else "--list prints all names"


def _measure_and_write(names: Sequence[str], given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Measure, write pages and index, and exit with 1 where a check failed."""
    output = given.output or (QUICK_OUTPUT if given.quick else FULL_OUTPUT)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output: a folder that can be written to was expected: {error}")
    if given.processes < 1:
        parser.error(f"--processes: at least 1 was expected, got {given.processes}")
    failed = []
    with workers(given.processes) as pool:
        # All are begun before the first is written: workers measure while pictures are drawn.
        work = {name: begun(name, quick=given.quick, pool=pool) for name in names}
        for name, (number, done) in work.items():
            started = time.monotonic()
            pages = run(name, collected(name, number, done), quick=given.quick, output=output)
            checks = [check for page in pages for check in page.checks]
            bad = [check for check in checks if not check.passes]
            failed += [f"{name}: {_complaint(check)}" for check in bad]
            print(f"{name}: {time.monotonic() - started:.0f} s, {len(checks)} checks, {len(bad)} failed")
            print(f"  {pages[0].verdict}", flush=True)
    save_index(NAMES, output)
    print(f"written to {output}")
    if failed:
        sys.exit("failed checks:\n" + "\n".join(failed))


def _complaint(check: Check) -> str:
    """Why a check does not pass."""
    if check.holds:
        return f"{check.what}: without power: it would still accept {check.accepts}; more repeats are needed"
    return f"{check.what}: wanted {check.wanted}, found {check.found}"
