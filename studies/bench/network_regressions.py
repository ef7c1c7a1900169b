"""Linear regression read from a network's release beside the estimator's own release.

    python -m bench.network_regressions FOLDER [--runs 12]      the folder with `adult.data.gz` and Pima's table
    python -m bench.network_regressions FOLDER --discriminant

Networks hold all pairs: each variable depends on all before it, numbers in three bins of one width between public
bounds. Records are drawn with replacement from six tables, and released by `planned` (add-remove, simulated noise).
From that one release `PrivateLinearRegression.from_release` reads the regression of the last column on the others,
numeric and categorical. Errors are root mean square distances of the predicted expectation from that by least squares
on the same records, in standard deviations of the target; medians over runs. Beside it the same estimator is fitted to
the same records: with the epsilon that the network's release spends on the sums that a regression reads (*same*:
offsets, moments and rows), with what it spends on all sums of numbers (*numbers*), and with all of its epsilon. *Zero*
is the error of the target's mean. `held` is the share of coefficients whose 95 % interval holds that of the table from
which records are drawn; `open` that of the releases whose noise leaves no intervals.

`--discriminant` asks, without noise, whether sums by rows could stand for a logistic regression: log odds by the means
of numbers in two classes and their pooled covariance, beside those of maximum likelihood; numbers are standardised.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression

import discreet as dc
from bench.numbers import Floats
from discreet.mechanisms.numbers import PARTS, default_share

__all__ = ["Errors", "Table", "measure", "tables"]

BINS = 3
READ = sum((PARTS[part] for part in ("offsets", "moments", "rows")), Fraction())
"""Share of the budget for numbers that goes to sums which a regression reads."""
COLUMNS = "age workclass fnlwgt education edu marital occupation relationship race sex gain loss hours country income"


class Table(NamedTuple):
    """Records and the public declaration of their columns, the target last.

    Args:
        name: of the table.
        frame: a column for each variable.
        variables: numbers with bins, and states.
    """

    name: str
    frame: pd.DataFrame
    variables: tuple[dc.Variable, ...]


class Errors(NamedTuple):
    """Errors of one data set, and the share of held coefficients."""

    network: float
    same: float
    numbers: float
    all: float
    zero: float
    held: float


def tables(folder: Path) -> Iterator[Table]:
    """Six tables, each with numeric covariates and a categorical one."""
    adult = pd.read_csv(folder / "adult.data.gz", names=COLUMNS.split(), skipinitialspace=True)
    adult["sex"] = adult.sex.str.lower()
    yield _declare("adult", adult, {"age": (17, 90), "edu": (1, 16), "sex": ("female", "male"), "hours": (1, 99)})
    pima = pd.read_csv(folder / "pima-indians-diabetes.csv", header=None)[[5, 7, 8, 1]]
    pima.columns = pd.Index(["bmi", "age", "ill", "glucose"])
    pima = pima[(pima.bmi > 0) & (pima.glucose > 0)]
    pima = pima.assign(ill=np.where(pima.ill == 1, "yes", "no"))
    yield _declare("pima", pima, {"bmi": (10, 70), "age": (20, 90), "ill": ("no", "yes"), "glucose": (0, 200)})
    body = load_diabetes(scaled=False, as_frame=True).frame.assign(sex=lambda data: np.where(data.sex == 1, "a", "b"))
    yield _declare("diabetes", body, {"bmi": (10, 50), "bp": (50, 150), "s5": (3, 7), "sex": ("a", "b"),
                                      "target": (0, 400)})  # fmt: skip
    wine = load_wine(as_frame=True).frame.assign(kind=lambda data: [f"k{code}" for code in data.target])
    yield _declare("wine", wine, {"color_intensity": (0, 20), "hue": (0, 2), "kind": ("k0", "k1", "k2"),
                                  "alcohol": (10, 16)})  # fmt: skip
    cells = load_breast_cancer(as_frame=True).frame.assign(kind=lambda data: [f"k{code}" for code in data.target])
    yield _declare("cancer", cells, {"mean texture": (0, 50), "mean smoothness": (0, 0.2), "kind": ("k0", "k1"),
                                     "mean radius": (0, 40)})  # fmt: skip
    rng = np.random.default_rng(0)
    male, age = rng.random(20_000) < 0.5, rng.uniform(20, 80, 20_000)
    dose = np.clip(2 + 0.05 * age + male + rng.normal(size=20_000), 0, 10)
    score = np.clip(20 + 0.3 * age + 3 * dose - 5 * male + rng.normal(0, 8, 20_000), 0, 100)
    made_up = pd.DataFrame({"age": age, "dose": dose, "sex": np.where(male, "m", "f"), "score": score})
    yield _declare("made up", made_up, {"age": (20, 80), "dose": (0, 10), "sex": ("f", "m"), "score": (0, 100)})


def _declare(name: str, frame: pd.DataFrame, declared: dict[str, tuple[object, ...]]) -> Table:
    """Declare columns by their bounds or states."""
    variables = tuple(
        dc.Variable.binned(column, ends, BINS) if isinstance(ends[0], float | int) else dc.Variable(column, ends)  # type: ignore[arg-type]
        for column, ends in declared.items()
    )
    return Table(name, frame[list(declared)].reset_index(drop=True), variables)


def _least_squares(table: Table, frame: pd.DataFrame) -> tuple[Floats, Floats]:
    """Rows of a regression's columns with a constant, and the coefficients of least squares."""
    columns = [
        part
        for variable in table.variables[:-1]
        for part in (
            [frame[variable.name].to_numpy(float)]
            if variable.numeric
            else [(frame[variable.name] == state).to_numpy(float) for state in variable.states[1:]]
        )
    ]
    rows = np.column_stack([*columns, np.ones(len(frame))])
    return rows, np.linalg.lstsq(rows, frame[table.variables[-1].name].to_numpy(float), rcond=None)[0]


def measure(table: Table, records: int, epsilon: str, rng: np.random.Generator) -> Errors:
    """Release drawn records over a network and by the estimator, and compare with least squares.

    Args:
        table: whose records are drawn with replacement.
        records: their number.
        epsilon: of the network's release.
        rng: source of records and noise.
    """
    frame = table.frame.iloc[rng.integers(len(table.frame), size=records)].reset_index(drop=True)
    (rows, exact), (_, truth) = _least_squares(table, frame), _least_squares(table, table.frame)
    names = [variable.name for variable in table.variables]
    *features, target = names
    network = dc.Network(table.variables, {name: tuple(names[:at]) for at, name in enumerate(names)})
    counts = dc.count(dc.read_records(pa.Table.from_pandas(frame, preserve_index=False), network.schema), network)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    spread, seed = frame[target].std(), int(rng.integers(2**31))

    def miss(estimator: object) -> float:
        coefficients = np.append(estimator.coef_, estimator.intercept_)  # type: ignore[attr-defined]
        return float(np.sqrt(np.mean((rows @ (coefficients - exact)) ** 2)) / spread)

    read = dc.estimators.PrivateLinearRegression.from_release(release, target=target, draws=400, random_state=seed)
    try:
        lower, upper = (np.append(*ends) for ends in zip(read.coef_interval(), read.intercept_interval(), strict=True))
        held = float(np.mean((lower <= truth) & (truth <= upper)))
    except dc.InputError:
        held = float("nan")
    bounds = {one.name: one.bounds or one.states for one in table.variables[:-1]}
    share = default_share(network, Fraction(epsilon), 1)
    fitted = []
    for part in (READ * share, share, Fraction(1)):
        spent = dc.Guarantee(epsilon=part * Fraction(epsilon), delta=0, relation="add-remove", unit="record")
        account = dc.Ledger("sqlite://").open("bench", spent)
        estimator = dc.estimators.PrivateLinearRegression(
            bounds=bounds, target_bounds=table.variables[-1].bounds, guarantee=spent, account=account,
            find_bounds=None, random_state=seed)  # fmt: skip
        fitted.append(miss(estimator.fit(frame[features], frame[target])))
    zero = float(np.sqrt(np.mean((rows @ exact - frame[target].mean()) ** 2)) / spread)
    return Errors(miss(read), *fitted, zero, held)


def compare_discriminants(folder: Path) -> Iterator[tuple[str, float]]:
    """Relative distance of a linear discriminant's log odds from those of maximum likelihood, by table."""
    adult = pd.read_csv(folder / "adult.data.gz", names=COLUMNS.split(), skipinitialspace=True)
    rich = adult.income.str.contains(">50K").to_numpy()
    pima = pd.read_csv(folder / "pima-indians-diabetes.csv", header=None)
    pima = pima[(pima[5] > 0) & (pima[1] > 0)]
    cells, tail = load_breast_cancer(), np.random.default_rng(0).lognormal(0, 1, 20_000)[:, None]
    drawn = np.random.default_rng(1).random(20_000) < 1 / (1 + np.exp(3 - 0.5 * tail[:, 0]))
    for name, numbers, hits in (
        ("adult", adult[["age", "edu", "hours"]].to_numpy(float), rich),
        ("adult with gain", adult[["age", "edu", "hours", "gain"]].to_numpy(float), rich),
        ("pima", pima[[5, 7, 1]].to_numpy(float), pima[8].to_numpy() == 1),
        ("cancer", cells.data[:, [1, 4, 8]], cells.target == 1),
        ("lognormal, made up", tail, drawn),
    ):
        z = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
        likely = LogisticRegression(C=1e6, max_iter=2000).fit(z, hits).coef_[0]
        within = sum(np.atleast_2d(np.cov(z[hits == side].T, bias=True)) * np.mean(hits == side) for side in (0, 1))
        apart = np.linalg.solve(within, z[hits].mean(axis=0) - z[~hits].mean(axis=0))
        yield name, float(np.linalg.norm(apart - likely) / np.linalg.norm(likely))


def main() -> None:
    """Print a line for each table, number of records and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--epsilon", nargs="+", default=["1", "3"])
    parser.add_argument("--discriminant", action="store_true")
    wanted = parser.parse_args()
    if wanted.discriminant:
        for name, distance in compare_discriminants(wanted.folder):
            print(f"{name:20} {distance:.2f}")
        return
    print("table    records eps  error   same numbers    all   zero  ratio same numbers all   held  open %")
    for table, records, epsilon in product(tables(wanted.folder), wanted.records, wanted.epsilon):
        seeds = ([run, records, *table.name.encode(), *epsilon.encode()] for run in range(wanted.runs))
        runs = [measure(table, records, epsilon, np.random.default_rng(seed)) for seed in seeds]
        error, *others, _ = (float(np.median(values)) for values in zip(*runs, strict=True))
        held = np.array([run.held for run in runs])
        numbers = " ".join(f"{other:6.3f}" for other in others)
        ratios = " ".join(f"{error / other:6.2f}" for other in others[:3])
        last = f"{100 * np.nanmean(held):6.0f} {100 * np.isnan(held).mean():4.0f}"
        print(f"{table.name:8} {records:7} {epsilon:3} {error:6.3f} {numbers}      {ratios} {last}", flush=True)


if __name__ == "__main__":
    main()
