"""Numbers read from a release: how often intervals hold the truth, how wide they are, beside one question alone.

Networks are group -> x -> z: a group of few states, and two numeric columns x and z. Records are drawn with replacement
from real tables and made-up laws, and noise is simulated; the truth is the column's. Half widths and errors are in
standard deviations of the column; those of correlations and shares are as they are, those of slopes relative to the
slope. *Alone* is a dedicated mechanism that gets all of epsilon for one question and knows the number of records:
Laplace noise on a sum of clamped numbers or their squares, and the exponential mechanism for a quantile, with noise of
OpenDP; and `mean`, `std` and `quantile` of diffprivlib, where `make peers` has made its environment. They give no
interval. *Loss* is the L1 error of the tables (group, x) and (x, z) beside that of releases of the same records and the
same seed without numbers.

    python -m bench.number_sums FOLDER --which sklearn > figures.md     the tables of docs/numbers.md, section 6
    python -m bench.number_sums FOLDER [--runs 2] [--parts accuracy]    the folder with `adult.data.gz` and
                                                                        `pima-indians-diabetes.csv`
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp
import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import discreet as dc
from bench.estimator_peers import ENVIRONMENT
from bench.numbers import Floats, real
from experiments.shipped import SHIPPED, planned

__all__ = [
    "BINS", "GROUPS", "LEVEL", "LOSS_PAIRS", "QUESTIONS", "Asked", "Run", "Table", "alone", "beside", "list_ratio",
    "made_up_tables", "measure", "measure_loss", "network_of", "read_release", "round_bounds", "sklearn_tables",
    "tables",
]  # fmt: skip

dp.enable_features("contrib")
QUESTIONS = ("E(x)", "E(x | group)", "sd(x)", "cor(x, z)", "slope", "median(x)", "quantile(x, 0.9)", "P(x > c)")
LEVEL = 0.95
GROUPS, BINS = 3, (3, 10)
LOSS_PAIRS = 68
"""Least number of pairs of releases in each setting of the loss."""
STATISTICS = Path(__file__).parent / "environments" / "number_statistics.py"
PEERED = ("E(x)", "sd(x)", "median(x)", "quantile(x, 0.9)")
"""Questions that both peers answer, in the order in which `number_statistics.py` does."""
Ints = npt.NDArray[np.int64]


class Table(NamedTuple):
    """Records of a group and two numbers, with public bounds of the numbers.

    Args:
        name: of the columns.
        group: codes.
        x, z: numbers.
        bounds: of x and z.
        integer: whether x is whole.
    """

    name: str
    group: Floats
    x: Floats
    z: Floats
    bounds: tuple[tuple[float, float], tuple[float, float]]
    integer: bool


class Run(NamedTuple):
    """One question of one release: error, half width of the interval, whether it holds the truth, error alone."""

    question: str
    error: float
    half: float
    held: bool
    alone: float


class Asked(NamedTuple):
    """A setting: bins of x, of one width; number of records; epsilon of the release; what neighbours are."""

    bins: int
    records: int
    epsilon: float
    relation: str = "add-remove"


def tables(folder: Path) -> Iterator[Table]:
    """Pairs of neighbouring numeric columns of Adult and Pima; groups are thirds of a third column."""
    columns = list(real(folder))
    for number in sorted({len(column.values) for column in columns}):
        same = [column for column in columns if len(column.values) == number]
        for at, column in enumerate(same):
            other, third = same[(at + 1) % len(same)], same[(at + 2) % len(same)]
            yield _pair(column.variable.name, column.values, other.values, third.values,
                        (column.variable.bounds or (0, 1), other.variable.bounds or (0, 1)),
                        column.variable.type == "integer")  # fmt: skip


def sklearn_tables() -> Iterator[Table]:
    """Pairs of columns of three tables of scikit-learn; bounds are from 0 to the next round number."""
    for name, load in (("cancer", load_breast_cancer), ("wine", load_wine), ("diabetes", load_diabetes)):
        data = load(scaled=False).data if name == "diabetes" else load().data
        for at in range(0, data.shape[1] - 2, 3):
            x, z, third = data[:, at], data[:, at + 1], data[:, at + 2]
            yield _pair(f"{name} {at}", x, z, third, (round_bounds(x), round_bounds(z)), integer=False)


def made_up_tables(rng: np.random.Generator, n: int = 50_000) -> Iterator[Table]:
    """Long tails, two humps and heaps; z follows x along a line."""
    group = rng.integers(GROUPS, size=n).astype(float)
    hump = rng.random(n) < 0.3 + 0.2 * group
    for name, high, x in (
        ("lognormal", 5_000.0, rng.lognormal(6 + 0.2 * group, 0.8)),
        ("exponential", 100.0, rng.exponential(10 + 3 * group)),
        ("two humps", 100.0, np.where(hump, rng.normal(25, 5, n), rng.normal(70, 8, n))),
        ("heaps", 100.0, np.where(rng.random(n) < 0.7, 5 * rng.poisson(6 + group), rng.uniform(0, 60, n))),
    ):
        x = np.clip(x, 0, 0.999 * high)
        z = np.clip(30 + 40 * x / high + rng.normal(0, 8, n), 0, 99.9)
        yield Table(name, group, x, z, ((0.0, high), (0.0, 100.0)), integer=False)


def _pair(
    name: str,
    x: Floats,
    z: Floats,
    third: Floats,
    bounds: tuple[tuple[float, float], tuple[float, float]],
    integer: bool,
) -> Table:
    """Make a table whose groups are thirds of a third column."""
    group = np.searchsorted(np.quantile(third, (1 / 3, 2 / 3)), third).astype(float)
    return Table(name, group, x, z, bounds, integer)


def round_bounds(values: Floats) -> tuple[float, float]:
    """Take 0, or the round number below, and the next round number above."""
    step = 10.0 ** np.floor(np.log10(max(float(np.abs(values).max()), 1e-9)))
    return (min(0.0, float(step * np.floor(values.min() / step))), float(step * (np.floor(values.max() / step) + 1)))


def network_of(table: Table, bins: int) -> dc.Network:
    """Declare the columns: x in bins of one width, z in six."""
    kind = "integer" if table.integer else "real"
    states = tuple(f"g{code}" for code in range(GROUPS))
    x = dc.Variable.binned("x", table.bounds[0], bins, type=kind)
    z = dc.Variable.binned("z", table.bounds[1], 6)
    return dc.Network((dc.Variable("group", states), x, z), {"group": (), "x": ("group",), "z": ("x",)})


def _truths(table: Table, cut: float) -> dict[str, float]:
    """Compute the answers of the columns."""
    x, z, own = table.x, table.z, table.group == 0
    moments = np.cov(x, z)
    return {
        "E(x)": x.mean(), "E(x | group)": x[own].mean(), "sd(x)": x.std(), "cor(x, z)": np.corrcoef(x, z)[0, 1],
        "slope": moments[0, 1] / moments[0, 0], "median(x)": np.quantile(x, 0.5, method="inverted_cdf"),
        "quantile(x, 0.9)": np.quantile(x, 0.9, method="inverted_cdf"), "P(x > c)": (x > cut).mean(),
    }  # fmt: skip


def alone(
    values: Floats, bounds: tuple[float, float], epsilon: float, question: str, rng: np.random.Generator
) -> float:
    """Answer one question with all of epsilon and the number of records public; NaN for questions that have no peer."""
    low, high = bounds
    laplace = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float),
                                scale=(high - low) / epsilon)  # fmt: skip
    if question == "E(x)":
        return float(laplace(float(np.clip(values, low, high).sum())) / len(values))
    if question == "sd(x)":
        # Half of epsilon each for the sums of numbers and of squares, both from the middle of the range.
        middle, half = (low + high) / 2, (high - low) / 2
        centred = np.clip(values, low, high) - middle
        mean = (centred.sum() + 2 * laplace(0.0)) / len(values)
        square = ((centred**2).sum() + half * laplace(0.0)) / len(values)
        return float(np.sqrt(max(square - mean**2, 0.0)))
    share = {"median(x)": 0.5, "quantile(x, 0.9)": 0.9}.get(question)
    if share is None:
        return float("nan")
    edges = np.concatenate([[low], np.sort(np.clip(values, low, high)), [high]])
    utility = -np.abs(np.arange(len(values) + 1) - share * len(values))
    with np.errstate(divide="ignore"):
        logs = epsilon / 2 * utility + np.log(np.diff(edges))
    at = int(np.argmax(logs + rng.gumbel(size=len(logs))))
    return float(rng.uniform(edges[at], edges[at + 1]))


def beside(cases: Sequence[tuple[Table, Asked, Sequence[int]]]) -> dict[str, float]:
    """Ask diffprivlib for what `measure` asks for, of the same records, each question with all of epsilon.

    Args:
        cases: arguments of `measure`.

    Returns:
        Median error of each question of `PEERED`, in standard deviations; none where diffprivlib is not there.
    """
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        return {}
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / f"{name}{at}.npz") for at in range(len(cases)) for name in ("given", "found")]
        for (table, asked, seed), source in zip(cases, files[::2], strict=True):
            values, (low, high) = table.x[_take(table, asked, np.random.default_rng(seed))], table.bounds[0]
            np.savez(source, values=values, low=low, high=high, epsilon=asked.epsilon, seed=sum(seed))
        subprocess.run([python, STATISTICS, *files], check=True, capture_output=True, cwd=folder)
        for (table, _, _), place in zip(cases, files[1::2], strict=True):
            truths = _truths(table, 0.0)
            with np.load(place) as file:
                errors.append(np.abs(file["found"] - [truths[question] for question in PEERED]) / table.x.std())
    return dict(zip(PEERED, np.median(errors, axis=0).tolist(), strict=True))


def _take(table: Table, asked: Asked, rng: np.random.Generator) -> Ints:
    """Draw places of records of a table with replacement."""
    return rng.integers(len(table.x), size=asked.records)


def read_release(
    table: Table, asked: Asked, taken: Ints, share: str | None, rng: np.random.Generator, draws: int = 1000
) -> dc.results.PosteriorDraws:
    """Release the records that were taken of a table, and read the release."""
    network = network_of(table, asked.bins)
    group = np.array(network.schema["group"].states)[table.group[taken].astype(int)]
    frame = pa.table({"group": group, "x": table.x[taken], "z": table.z[taken]})
    counts = dc.count(dc.read_records(frame, network.schema), network)
    promise = dc.Guarantee(epsilon=str(asked.epsilon), delta=0, relation=asked.relation, unit="record")
    mechanism, prior = planned(SHIPPED, numbers_share=share), dc.Dirichlet.uniform(network)
    return dc.noise_aware(dc.simulate(mechanism, counts, prior, promise, rng=rng), draws=draws, rng=rng)


def measure(table: Table, asked: Asked, seed: Sequence[int]) -> Iterator[Run]:
    """Release records of a table, drawn with replacement, and ask all questions.

    Args:
        table: as it says.
        asked: the setting.
        seed: of records and noise.

    Yields:
        A run for each question; none for those of products where records are too few for their sums.
    """
    rng = np.random.default_rng(seed)
    taken = _take(table, asked, rng)
    posterior = read_release(table, asked, taken, None, rng)
    x = table.x[taken]
    cut = float(np.floor(np.quantile(table.x, 0.6)))
    words = {"E(x | group)": "E(x | group=g0)", "P(x > c)": f"P(x > {cut})"}
    for question, truth in _truths(table, cut).items():
        if question in ("cor(x, z)", "slope") and not (posterior.numbers and posterior.numbers.measures("x", "z")):
            continue
        unit = {"cor(x, z)": 1.0, "P(x > c)": 1.0, "slope": max(abs(truth), 1e-9)}.get(question, float(table.x.std()))
        if question == "slope":
            found = dc.regress(posterior, "z", on=["x"])
            row = next(row for row in found.rows(level=LEVEL) if row["name"] == "x")
        else:
            row = dict(dc.answer(posterior, words.get(question, question), level=LEVEL).rows[0])
        lower, upper = float(row["lower"]), float(row["upper"])
        dedicated = abs(alone(x, table.bounds[0], asked.epsilon, question, rng) - truth) / unit
        held = lower - 1e-9 * unit <= truth <= upper + 1e-9 * unit
        yield Run(question, abs(float(row["mean"]) - truth) / unit, (upper - lower) / 2 / unit, held, dedicated)


def measure_loss(table: Table, asked: Asked, seed: Sequence[int]) -> tuple[float, float]:
    """Compute the L1 error of the tables (group, x) and (x, z) together, with numbers and without, of the same records.

    Args:
        table, asked, seed: as of `measure`; noise has the same seed in both.
    """
    network, taken = network_of(table, asked.bins), _take(table, asked, np.random.default_rng(seed))
    codes = {name: np.searchsorted(network.schema[name].bins, getattr(table, name), side="right") for name in "xz"}
    codes["group"] = table.group.astype(int)
    errors = []
    for share in (None, "0"):
        posterior = read_release(table, asked, taken, share, np.random.default_rng([*seed, 1]))
        error = 0.0
        for one, other in (("group", "x"), ("x", "z")):
            truth = np.zeros((network.schema[one].size, network.schema[other].size))
            np.add.at(truth, (codes[one], codes[other]), 1 / len(table.x))
            rows = dc.answer(posterior, f"P({one}, {other})").rows
            error += float(np.abs([row["mean"] for row in rows] - truth.ravel()).sum())
        errors.append(error)
    return errors[0], errors[1]


def list_ratio(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Compute the ratio of the means of pairs of errors, and its standard error."""
    first, second = np.array(pairs).T
    ratio = float(first.mean() / second.mean())
    return ratio, float(np.std(first - ratio * second, ddof=1) / np.sqrt(len(first)) / second.mean())


def _print_rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown, each row as soon as it is there."""
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
    print(flush=True)


def _print_accuracy(
    chosen: Sequence[Table], records: Sequence[int], epsilons: Sequence[float], relation: str, runs: int
) -> None:
    """Print a table of questions for each epsilon, and how often intervals held the truth over all of them."""
    held = {question: list[bool]() for question in QUESTIONS}
    for epsilon in epsilons:
        settings = [Asked(bins, number, epsilon, relation) for bins in BINS for number in records]
        columns = [_summarise(chosen, asked, runs, held) for asked in settings]
        print(f"epsilon {epsilon:g}, {relation}\n")
        head = ("question", *(f"{asked.bins} bins, n = {asked.records:,}" for asked in settings))
        _print_rows(
            head, ([name.replace(" | ", " given "), *(column[name] for column in columns)] for name in QUESTIONS)
        )
    print("held:", ", ".join(f"{100 * np.mean(every):.0f} % ({question})" for question, every in held.items()), "\n")


def _summarise(chosen: Sequence[Table], asked: Asked, runs: int, held: dict[str, list[bool]]) -> dict[str, str]:
    """Write by question error, half width, how often intervals held the truth, and ratios to OpenDP and diffprivlib."""
    cases = [
        (chosen[at % len(chosen)], asked, [at, asked.bins, asked.records, int(10 * asked.epsilon)])
        for at in range(len(chosen) * runs)
    ]
    found, others = [run for case in cases for run in measure(*case)], beside(cases)
    texts = {}
    for question in QUESTIONS:
        own = [run for run in found if run.question == question]
        if not own:
            texts[question] = "not released"
            continue
        held[question].extend(run.held for run in own)
        error, half, dedicated = (
            float(np.median([getattr(run, part) for run in own])) for part in ("error", "half", "alone")
        )
        peers = [peer for peer in (dedicated, others.get(question, np.nan)) if np.isfinite(peer)]
        ratios = f" ({', '.join(f'{error / peer:.1f}' for peer in peers)})" * bool(peers)
        texts[question] = f"{error:.3f} / {half:.3f} / {100 * np.mean([run.held for run in own]):.0f} %{ratios}"
    return texts


def _list_losses(chosen: Sequence[Table], settings: Sequence[Asked], wanted: int) -> Iterator[list[str]]:
    """List a row for each setting, by at least so many pairs of releases as are wanted."""
    runs = -(-wanted // len(chosen))
    for asked in settings:
        pairs = [
            measure_loss(table, asked, [at, run, asked.bins, asked.records, int(10 * asked.epsilon)])
            for at, table in enumerate(chosen)
            for run in range(runs)
        ]
        ratio, error = list_ratio(pairs)
        yield [str(asked.bins), f"{asked.records:,}", f"{asked.epsilon:g}", f"{ratio:.3f} ± {error:.3f}"]


def main() -> None:
    """Print the tables of the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=LOSS_PAIRS)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--parts", choices=["accuracy", "replace", "many", "loss"], nargs="+",
                        default=["accuracy", "replace", "many", "loss"])  # fmt: skip
    parser.add_argument("--which", choices=["real", "sklearn", "made up"], nargs="+", default=["real", "made up"])
    asked = parser.parse_args()
    every = {
        "real": lambda: list(tables(asked.folder)),
        "sklearn": lambda: list(sklearn_tables()),
        "made up": lambda: list(made_up_tables(np.random.default_rng(1))),
    }
    chosen = [table for which in asked.which for table in every[which]()]
    if "accuracy" in asked.parts:
        _print_accuracy(chosen, asked.records, asked.epsilon, "add-remove", asked.runs)
    if "replace" in asked.parts:
        _print_accuracy(chosen, asked.records, asked.epsilon, "replace", asked.runs)
    if "many" in asked.parts:
        _print_accuracy(chosen, [100_000], asked.epsilon, "add-remove", asked.runs)
    if "loss" in asked.parts:
        for relation in ("add-remove", "replace"):
            settings = [Asked(*each, relation) for each in product(BINS, asked.records, asked.epsilon)]
            _print_rows(("bins", "n", "epsilon", f"loss, {relation}"), _list_losses(chosen, settings, asked.pairs))


if __name__ == "__main__":
    main()
