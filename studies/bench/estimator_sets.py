"""Sets for `bench.estimators`: made-up ones that are hard in one way each, and public tables.

A set is a `Task`: columns and target in their own units, the public bounds, what is known of the truth, and a split,
four fifths to fit and one to predict, that is the same in every run. `logistic(name)` and `linear(name)` make one;
`coverage_set(kind, name, seed)` draws new records of a law whose coefficients are known. Tables of scikit-learn come
with it; those of ADULT and PIMA are in the folder DISCREET_DATA.

*corr*: neighbours correlated by .95. *skew*: lognormal columns in wide bounds. *rare*: 2 % of a class; of a regression,
indicators that are on in 2 %. *offset*: far from the middle of the bounds. *wide*: bounds ten times too wide. *p30*:
thirty columns. *outlier*: a twentieth of all entries at a bound. *clip*: bounds at one deviation, so that a third of
the entries are moved. *onehot*: indicators of all states of categories. *small*: 450 records.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

__all__ = [
    "ADULT_NUMBERS",
    "COVERAGE_SETS",
    "LINEAR_SETS",
    "LOGISTIC_SETS",
    "Task",
    "adult_rows",
    "coverage_set",
    "linear",
    "logistic",
    "missing_tables",
    "seen_slopes",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RECORDS = 10_000
"""Of a made-up set: 8,000 to fit."""
SMALL = 450
DATA_SEED, SPLIT_SEED = 41, 43


@dataclass(frozen=True, eq=False)
class Task:
    """Records, what is public of them, and what is true.

    Args:
        name: of the set.
        kind: "logistic" or "linear".
        X: columns in their own units, shape (records, features); they may lie outside the bounds.
        y: 0 or 1, or the target in its own unit, shape (records,).
        bounds: public, (lower, upper), shape (features,) each.
        classes: of "logistic".
        target_bounds: of "linear", public.
        truth: slopes in the columns' units; None where they are unknown or not identified.
        intercept: likewise.
        train, test: positions of records.
    """

    name: str
    kind: str
    X: Floats
    y: Floats
    bounds: tuple[Floats, Floats]
    classes: tuple[int, int] | None
    target_bounds: tuple[float, float] | None
    truth: Floats | None
    intercept: float | None
    train: Integers
    test: Integers

    @property
    def features(self) -> int:
        """How many columns."""
        return int(self.X.shape[1])

    def scaled(self, rows: Integers) -> Floats:
        """Columns of some records, moved from their bounds to [-1, 1], shape (rows, features)."""
        lower, upper = self.bounds
        return np.asarray(2 * (np.clip(self.X[rows], lower, upper) - lower) / (upper - lower) - 1)

    def scaled_target(self, rows: Integers) -> Floats:
        """Targets of some records, moved to [-1, 1]; labels as they are."""
        if self.target_bounds is None:
            return self.y[rows]
        lower, upper = self.target_bounds
        return np.asarray(2 * (np.clip(self.y[rows], lower, upper) - lower) / (upper - lower) - 1)

    def unscaled(self, target: Floats) -> Floats:
        """Scaled targets in the target's unit."""
        assert self.target_bounds is not None
        lower, upper = self.target_bounds
        return np.asarray(lower + (target + 1) * (upper - lower) / 2)


@dataclass(frozen=True, eq=False)
class _Columns:
    """A table without its target."""

    X: Floats
    lower: Floats
    upper: Floats
    seen: Floats | None = None
    """What the target depends on, where it is not the columns clipped to their bounds."""


def _task(
    name: str,
    kind: str,
    columns: _Columns,
    y: Floats,
    target_bounds: tuple[float, float] | None = None,
    truth: Floats | None = None,
    intercept: float | None = None,
) -> Task:
    """With the split that belongs to the name and the number of records."""
    order = np.random.default_rng([SPLIT_SEED, zlib.crc32(name.encode())]).permutation(len(y))
    cut = len(y) * 4 // 5
    return Task(
        name,
        kind,
        columns.X,
        np.asarray(y, float),
        (columns.lower, columns.upper),
        (0, 1) if kind == "logistic" else None,
        target_bounds,
        truth,
        intercept,
        order[:cut],
        order[cut:],
    )


# ------------------------------------------------------------------------------------------ made-up columns


def _box(X: Floats, lower: float, upper: float, *, seen: bool = False) -> _Columns:
    """Columns of the same bounds; `seen` if the target depends on what lies outside, too."""
    ends = np.full(X.shape[1], lower), np.full(X.shape[1], upper)
    return _Columns(X, *ends, X) if seen else _Columns(np.clip(X, lower, upper), *ends)


def _autoregression(rng: np.random.Generator, records: int, features: int, correlation: float) -> Floats:
    """Standard normal columns, neighbours correlated."""
    law = correlation ** np.abs(np.subtract.outer(range(features), range(features)))
    return np.asarray(rng.normal(size=(records, features)) @ np.linalg.cholesky(law).T)


def _corr(rng: np.random.Generator, records: int) -> _Columns:
    return _box(0.35 * _autoregression(rng, records, 8, 0.95), -1, 1)


def _skew(rng: np.random.Generator, records: int) -> _Columns:
    return _box(rng.lognormal(0, 0.8, (records, 8)), 0, 20)


def _normal(rng: np.random.Generator, records: int) -> _Columns:
    return _box(0.4 * rng.normal(size=(records, 8)), -1, 1)


def _rare(rng: np.random.Generator, records: int) -> _Columns:
    return _box((rng.random((records, 8)) < 0.02).astype(float), 0, 1)


def _offset(rng: np.random.Generator, records: int) -> _Columns:
    return _box(80 + 4 * _autoregression(rng, records, 8, 0.3), 0, 100)


def _wide(rng: np.random.Generator, records: int) -> _Columns:
    return _box(np.clip(rng.normal(size=(records, 8)), -3, 3), -30, 30)


def _thirty(rng: np.random.Generator, records: int) -> _Columns:
    return _box(0.5 * rng.normal(size=(records, 30)), -1, 1)


def _outlier(rng: np.random.Generator, records: int) -> _Columns:
    X = 0.2 * rng.normal(size=(records, 8))
    moved = rng.random(X.shape) < 0.05
    X[moved] = rng.choice([-1.0, 1.0], moved.sum())
    return _box(X, -1, 1)


def _clip(rng: np.random.Generator, records: int) -> _Columns:
    return _box(rng.normal(size=(records, 8)), -1, 1, seen=True)


STATES = (3, 4, 5, 2, 6, 4)
"""Of the categories of *onehot*."""


def _onehot(rng: np.random.Generator, records: int) -> _Columns:
    """Categories that three hidden groups explain, all states as indicators."""
    group = rng.integers(3, size=records)
    parts = []
    for states in STATES:
        shares = rng.dirichlet(np.ones(states), size=3)[group].cumsum(axis=1)
        parts.append(np.eye(states)[(rng.random((records, 1)) > shares[:, :-1]).sum(axis=1)])
    return _box(np.hstack(parts), 0, 1)


def _small(rng: np.random.Generator, records: int) -> _Columns:
    return _box(0.4 * _autoregression(rng, records, 5, 0.4), -1, 1)


Maker = Callable[[np.random.Generator, int], _Columns]
MADE_UP: Mapping[str, Maker] = {
    "corr": _corr,
    "skew": _skew,
    "rare": _rare,
    "offset": _offset,
    "wide": _wide,
    "p30": _thirty,
    "outlier": _outlier,
    "clip": _clip,
    "onehot": _onehot,
    "small": _small,
}
EFFECTS = (1.0, -0.7, 0.5, 0.3, 0.0, 0.0, -0.4, 0.2)
"""Slopes of one deviation of a column, in units of the whole; repeated where there are more columns."""
DEVIATIONS = {
    "corr": 0.35,
    "skew": 1.3,
    "rare": 0.14,
    "offset": 4.0,
    "wide": 1.0,
    "p30": 0.45,
    "outlier": 0.3,
    "clip": 1.0,
    "onehot": 0.4,
    "small": 0.4,
}
"""By which slopes are measured: about those of the columns."""
MIDDLES = {"skew": 1.38, "offset": 80.0, "onehot": 0.25}
"""About the columns' means, where they are not 0."""
UNIDENTIFIED = ("onehot",)
"""Sets whose columns add to constants."""


def _slopes(features: int, length: float, deviation: float | Floats) -> Floats:
    """In the columns' units; `length` is the Euclidean norm of the slopes of one deviation each."""
    effects = np.resize(EFFECTS, features)
    return np.asarray(length * effects / np.linalg.norm(effects) / deviation)


def _made_up(kind: str, name: str, rng: np.random.Generator, records: int) -> Task:
    """New records of a law."""
    return _logistic_of(name, rng, records) if kind == "logistic" else _linear_of(name, rng, records)


def _logistic_of(name: str, rng: np.random.Generator, records: int) -> Task:
    """Labels of a logistic model, a little more of one class, or 2 % of it."""
    rare = name == "rare"
    columns = (_normal if rare else MADE_UP[name])(rng, records)
    seen = columns.X if columns.seen is None else columns.seen
    slopes = _slopes(seen.shape[1], 2.0, 0.4 if rare else DEVIATIONS[name])
    intercept = (-5.3 if rare else 0.4) - float(slopes.sum()) * MIDDLES.get(name, 0.0)
    y = (rng.random(records) < expit(seen @ slopes + intercept)).astype(float)
    known = name not in UNIDENTIFIED
    return _task(name, "logistic", columns, y, None, slopes if known else None, intercept if known else None)


def _linear_of(name: str, rng: np.random.Generator, records: int) -> Task:
    """A target with a normal residual of deviation .8; its bounds cut off less than one in a thousand."""
    columns = MADE_UP[name](rng, records)
    seen = columns.X if columns.seen is None else columns.seen
    slopes = _slopes(seen.shape[1], 1.0, DEVIATIONS[name])
    intercept = 0.5 - float(slopes.sum()) * MIDDLES.get(name, 0.0)
    y = seen @ slopes + intercept + 0.8 * rng.normal(size=records)
    bounds = {"wide": (-50.0, 50.0), "skew": (-8.0, 12.0), "rare": (-9.0, 9.0)}.get(name, (-5.0, 5.0))
    if name == "outlier":
        moved = rng.random(records) < 0.02
        y[moved] = rng.choice(bounds, moved.sum())
    y, known = np.clip(y, *bounds), name not in UNIDENTIFIED
    return _task(name, "linear", columns, y, bounds, slopes if known else None, intercept if known else None)


# ------------------------------------------------------------------------------------------ public tables


def _file(name: str) -> Path:
    """Where a public table is."""
    return Path(os.environ.get("DISCREET_DATA", "")) / "uci" / name


def missing_tables() -> dict[str, str]:
    """Sets that cannot be read here, with the reason."""
    needed = {"adult": "adult.data.gz", "adult onehot": "adult.data.gz", "pima": "pima-indians-diabetes.csv"}
    return {
        name: f"no uci/{file} in the folder DISCREET_DATA"
        for name, file in needed.items()
        if "DISCREET_DATA" not in os.environ or not _file(file).is_file()
    }


ADULT_NUMBERS = {0: (17, 90), 2: (0, 5e5), 4: (1, 16), 10: (0, 1e4), 11: (0, 3e3), 12: (1, 99)}
"""Columns of ADULT that are numbers, with bounds: age, weight of the record, years of education, gain, loss, hours."""
ADULT_CATEGORIES = (1, 5, 6, 7, 8, 9)
"""Work, marriage, occupation, relationship, race, sex."""


@cache
def adult_rows() -> list[list[str]]:
    """All records of the training part."""
    with gzip.open(_file("adult.data.gz"), "rt", encoding="utf-8") as lines:
        return [[part.strip() for part in row] for row in csv.reader(lines) if len(row) == 15]


def _adult(*, onehot: bool, target: int | None) -> tuple[_Columns, Floats]:
    """Columns of ADULT and a target: a column, or whether the income is above 50,000."""
    rows = adult_rows()
    numbers = {place: ends for place, ends in ADULT_NUMBERS.items() if place != target}
    parts = [np.array([[float(row[place]) for place in numbers] for row in rows])]
    ends = list(numbers.values())
    for place in ADULT_CATEGORIES if onehot else ():
        column = np.array([row[place] for row in rows])
        states = np.unique(column)
        parts.append((column[:, None] == states).astype(float))
        ends += [(0, 1)] * len(states)
    y = np.array([float(row[14] == ">50K") if target is None else float(row[target]) for row in rows])
    lower, upper = np.array(ends, float).T
    return _Columns(np.hstack(parts), lower, upper), y


PIMA_ENDS = ((0, 17), (0, 200), (0, 122), (0, 99), (0, 846), (0, 67), (0, 2.5), (20, 81))


def _pima(target: int) -> tuple[_Columns, Floats]:
    """Columns of PIMA and one of them as target; the last is the label."""
    with _file("pima-indians-diabetes.csv").open(encoding="utf-8") as lines:
        table = np.array([[float(value) for value in row] for row in csv.reader(lines) if row])
    kept = [place for place in range(8) if place != target]
    return _chosen(table[:, kept], [PIMA_ENDS[place] for place in kept]), table[:, target]


CANCER_ENDS = (
    (5, 30), (5, 40), (40, 190), (100, 2600), (0.05, 0.2), (0, 0.4), (0, 0.5), (0, 0.25), (0.1, 0.35), (0.04, 0.1),
)  # fmt: skip
WINE_ENDS = (
    (10, 15), (0, 6), (1, 4), (10, 30), (60, 170), (0, 4), (0, 6), (0, 1), (0, 4), (0, 15), (0, 2), (1, 4), (200, 2000),
)  # fmt: skip
DIABETES_ENDS = (
    (18, 80), (1, 2), (15, 45), (60, 140), (80, 320), (30, 260), (20, 100), (1, 10), (3, 6.5), (50, 130),
)  # fmt: skip


def _chosen(X: Floats, ends: Any) -> _Columns:
    """Columns with round bounds."""
    lower, upper = np.array(ends, float).T
    return _Columns(np.asarray(X, float), lower, upper)


def _bundled(name: str) -> tuple[Floats, Floats]:
    """A table that scikit-learn brings, in its own units."""
    from sklearn import datasets

    load = {
        "breast cancer": datasets.load_breast_cancer,
        "wine": datasets.load_wine,
        "digits": datasets.load_digits,
        "diabetes": lambda: datasets.load_diabetes(scaled=False),
    }[name]
    given = load()
    return np.asarray(given.data, float), np.asarray(given.target, float)


def _real_logistic(name: str) -> Task:
    """A public table and a label."""
    if name.startswith("adult"):
        columns, y = _adult(onehot=name.endswith("onehot"), target=None)
    elif name == "pima":
        columns, y = _pima(8)
    else:
        X, target = _bundled(name)
        columns, y = {
            "breast cancer": lambda: (_chosen(X[:, :10], CANCER_ENDS), target),
            "wine": lambda: (_chosen(X, WINE_ENDS), target == 1),
            "diabetes": lambda: (_chosen(X, DIABETES_ENDS), target > 140),
            "digits": lambda: (_chosen(X, [(0, 16)] * 64), target >= 5),
        }[name]()
    return _task(name, "logistic", columns, y)


def _real_linear(name: str) -> Task:
    """A public table and a number: hours of work, glucose, concave points, alcohol, progress of the illness."""
    if name.startswith("adult"):
        columns, y = _adult(onehot=name.endswith("onehot"), target=12)
        return _task(name, "linear", columns, y, (1.0, 99.0))
    if name == "pima":
        columns, y = _pima(1)
        return _task(name, "linear", columns, y, (0.0, 200.0))
    X, target = _bundled(name)
    if name == "breast cancer":
        kept = [place for place in range(10) if place != 7]
        return _task(name, "linear", _chosen(X[:, kept], [CANCER_ENDS[j] for j in kept]), X[:, 7], (0.0, 0.25))
    if name == "wine":
        return _task(name, "linear", _chosen(X[:, 1:], WINE_ENDS[1:]), X[:, 0], (10.0, 15.0))
    return _task(name, "linear", _chosen(X, DIABETES_ENDS), target, (0.0, 350.0))


LOGISTIC_SETS = (*MADE_UP, "adult", "adult onehot", "pima", "breast cancer", "wine", "diabetes", "digits")
LINEAR_SETS = (*MADE_UP, "adult", "adult onehot", "pima", "breast cancer", "wine", "diabetes")


@cache
def logistic(name: str) -> Task:
    """One of `LOGISTIC_SETS`; always the same records."""
    return _fixed("logistic", name) if name in MADE_UP else _real_logistic(name)


@cache
def linear(name: str) -> Task:
    """One of `LINEAR_SETS`; always the same records."""
    return _fixed("linear", name) if name in MADE_UP else _real_linear(name)


def _fixed(kind: str, name: str) -> Task:
    """Records that the name decides."""
    rng = np.random.default_rng([DATA_SEED, zlib.crc32(f"{kind} {name}".encode())])
    return _made_up(kind, name, rng, SMALL if name == "small" else RECORDS)


# ------------------------------------------------------------------------------------------ truth that is known


def _ar(rng: np.random.Generator, records: int, features: int) -> _Columns:
    """Neighbours correlated by .7, mean 40 and deviation 10 in [0, 100]."""
    return _box(40 + 10 * _autoregression(rng, records, features, 0.7), 0, 100)


def _skewed(rng: np.random.Generator, records: int, features: int) -> _Columns:
    """Lognormal, neighbours correlated, in [0, 15]."""
    return _box(np.exp(0.7 * _autoregression(rng, records, features, 0.5)), 0, 15)


def _mixed(rng: np.random.Generator, records: int, features: int) -> _Columns:
    """Every second column is an indicator, on in a third of the records, of the same correlated normal columns."""
    X = _autoregression(rng, records, features, 0.7)
    lower, upper = np.full(features, -4.0), np.full(features, 4.0)
    X[:, ::2] = X[:, ::2] > 0.43
    lower[::2], upper[::2] = 0, 1
    return _Columns(np.clip(X, lower, upper), lower, upper)


UNKNOWN_LAWS = {"ar": _ar, "skewed": _skewed, "mixed": _mixed}
COVERAGE_SETS: Mapping[str, tuple[str, ...]] = {
    "logistic": tuple(f"{law} {features}" for features in (4, 8, 20) for law in UNKNOWN_LAWS),
    "linear": ("corr", "skew", "outlier", "offset", "clip", "p30"),
}
LAW_DEVIATIONS = {"ar": (10.0, 10.0), "skewed": (1.0, 1.0), "mixed": (0.5, 1.0)}
"""Deviations by which slopes are measured, of even and of odd columns."""


def coverage_set(kind: str, name: str, seed: int) -> Task:
    """New records of a law whose slopes are the same for every seed.

    Args:
        kind: "logistic" or "linear".
        name: one of `COVERAGE_SETS`.
        seed: of the records.
    """
    rng = np.random.default_rng([DATA_SEED, 1, zlib.crc32(f"{kind} {name}".encode()), seed])
    if kind == "linear":
        return _made_up(kind, name, rng, RECORDS)
    law, size = name.split()
    features = int(size)
    columns = UNKNOWN_LAWS[law](rng, RECORDS, features)
    slopes = _slopes(features, 1.5, np.resize(LAW_DEVIATIONS[law], features))
    middle = {"ar": 40.0, "skewed": 1.3, "mixed": 0.0}[law]
    intercept = float(0.4 - slopes.sum() * middle)
    y = (rng.random(RECORDS) < expit(columns.X @ slopes + intercept)).astype(float)
    return _task(name, kind, columns, y, None, slopes, intercept)


@cache
def seen_slopes(name: str) -> Floats:
    """Slopes of least squares on the clipped columns of a linear set's law, from 400,000 records.

    Args:
        name: one of the linear `COVERAGE_SETS`.
    """
    rng = np.random.default_rng([DATA_SEED, 2, zlib.crc32(name.encode())])
    task = _made_up("linear", name, rng, 40 * RECORDS)
    seen = np.column_stack([np.clip(task.X, *task.bounds), np.ones(len(task.y))])
    return np.asarray(np.linalg.lstsq(seen, task.y, rcond=None)[0][:-1])
