"""The linear regression of Zhang et al. (AAAI 2016), Figure 2: people to learn from, and the printed predictor.

The paper has 370,000 records of the United States from IPUMS with 14 demographic features and the annual income, which
must not be passed on. Here are two substitutes, each with thirteen features and a constant that counts as the
fourteenth; all are moved by public bounds to [-1, 1], indicators are 0 or 1. One is real: the 48,842 records of UCI
ADULT, whose only word about income, above 50,000 dollars or not, is the target (1 or -1). One is made up: 370,000
log-normal incomes.

The paper's coordinates are those of the package over the root of 14, the longest row there is: `||x|| <= 1`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

import discreet as dc
from discreet.research.mechanisms.truncated_posterior import truncated_normal

Floats = npt.NDArray[np.float64]

__all__ = [
    "DESIGN",
    "LENGTH",
    "POPULATIONS",
    "People",
    "Regression",
    "available",
    "cut_posterior",
    "draw_loss",
    "drawn",
    "one_draw",
    "posterior_mean",
    "promise",
    "radius_of",
    "split",
]

FEATURES = 13
"""Besides the constant."""
DESIGN = dc.designs.Design(
    tuple(dc.Variable(f"x{number}", bounds=(-1, 1)) for number in range(1, FEATURES + 1)),
    dc.Variable("income", bounds=(-1, 1)),
)
"""Of both substitutes."""
LENGTH = math.sqrt(DESIGN.size)
"""Longest row in the package's coordinates; 1 in the paper's."""
TRAINED = 0.1
"""Share of the records."""
TOLERANCE = 1e-8
"""Relative excess of the epsilon that is asked for over the loss, so that rounding does not temper."""

PEOPLE = 370_000
"""As many as in the paper."""
HIGHEST = 200_000.0
"""Dollars; higher incomes are cut."""
NUMERIC = 5
"""Features of the made-up people that are numbers; the others have two values."""


@dataclass(frozen=True, eq=False)
class People:
    """A population.

    Args:
        features: in [-1, 1], shape (records, 13).
        income: scaled to [-1, 1], shape (records,).
    """

    features: Floats
    income: Floats


def made_up(rng: np.random.Generator) -> People:
    """Log-normal incomes of people whose features follow an autoregression, most of them cut to 0 or 1.

    Args:
        rng: of people.

    Returns:
        370,000 people: correlation 1/2 between neighbouring features before they are cut, coefficients of equal size
        and length 1, the last four negative, a residual of deviation 0.6 on the log scale around 30,000 dollars.
    """
    latent = rng.standard_normal((PEOPLE, FEATURES))
    for feature in range(1, FEATURES):
        latent[:, feature] = 0.5 * latent[:, feature - 1] + np.sqrt(0.75) * latent[:, feature]
    features = np.clip(0.4 * latent, -1, 1)
    features[:, NUMERIC:] = latent[:, NUMERIC:] > 0
    weights = np.where(np.arange(FEATURES) < FEATURES - 4, 1.0, -1.0) / np.sqrt(FEATURES)
    dollars = 30_000 * np.exp(features @ weights + 0.6 * rng.standard_normal(PEOPLE))
    return People(features, np.minimum(dollars, HIGHEST) * 2 / HIGHEST - 1)


def adult(rng: np.random.Generator) -> People:
    """The records of ADULT, which are what they are: nothing is drawn."""
    return _adult()


@cache
def _adult() -> People:
    """Both files; nobody writes to the arrays."""
    table = pd.concat([_part(name, skip) for name, skip in (("adult.data.gz", 0), ("adult.test.gz", 1))])
    married = table["marital"].isin(["Married-civ-spouse", "Married-AF-spouse"])
    indicators = [
        table["sex"] == "Male",
        married,
        table["marital"] == "Never-married",
        table["race"] == "White",
        table["country"] == "United-States",
        table["workclass"].isin(["Federal-gov", "Local-gov", "State-gov"]),
        table["workclass"].isin(["Self-emp-inc", "Self-emp-not-inc"]),
        table["occupation"].isin(["Exec-managerial", "Prof-specialty"]),
        table["gain"] > 0,
        table["loss"] > 0,
    ]
    numbers = [(table[name], *bounds) for name, bounds in ADULT_BOUNDS.items()]
    columns = [np.clip((2 * column - low - high) / (high - low), -1, 1) for column, low, high in numbers]
    columns += [indicator.astype(np.float64) for indicator in indicators]
    return People(np.column_stack(columns), np.where(table["income"].str.startswith(">50K"), 1.0, -1.0))


ADULT_BOUNDS: Mapping[str, tuple[float, float]] = {"age": (17, 90), "education": (1, 16), "hours": (1, 99)}
"""Of the numeric columns: what the census codes allow."""
ADULT_COLUMNS = {
    0: "age",
    1: "workclass",
    4: "education",
    5: "marital",
    6: "occupation",
    8: "race",
    9: "sex",
    10: "gain",
    11: "loss",
    12: "hours",
    13: "country",
    14: "income",
}
POPULATIONS: Mapping[str, Callable[[np.random.Generator], People]] = {"ADULT": adult, "made up": made_up}


def available() -> list[str]:
    """Names of the populations that can be made here."""
    folder = Path(os.environ.get("DISCREET_DATA", "")) / "uci"
    there = all((folder / name).is_file() for name in ("adult.data.gz", "adult.test.gz"))
    return [name for name in POPULATIONS if name != "ADULT" or there]


def _part(name: str, skipped: int) -> pd.DataFrame:
    """One file's columns."""
    path = Path(os.environ["DISCREET_DATA"]) / "uci" / name
    table = pd.read_csv(path, header=None, skiprows=skipped, skipinitialspace=True, usecols=list(ADULT_COLUMNS))
    return table.rename(columns=ADULT_COLUMNS)


# ------------------------------------------------------------------------------------------ what is learned from them


@dataclass(frozen=True, eq=False)
class Regression:
    """One split.

    Args:
        train: private sums of products of the training records.
        gram, cross, square: means over the test records of `x x'`, `x y` and `y^2`, in the package's coordinates.
    """

    train: dc.designs.Moments
    gram: Floats
    cross: Floats
    square: float

    def error(self, weights: Floats) -> float:
        """Mean squared error on the test records of `x'w`, unit: squared half ranges of the target."""
        return float(self.square - 2 * weights @ self.cross + weights @ self.gram @ weights)


def split(population: str, people: np.random.Generator, order: np.random.Generator) -> Regression:
    """A tenth of the records to train on, the others to test on.

    Args:
        population: name of one of `POPULATIONS`.
        people: source of made-up people.
        order: source of the split.
    """
    everyone = POPULATIONS[population](people)
    places = order.permutation(len(everyone.income))
    first, rest = np.split(places, [round(TRAINED * len(places))])
    train = dc.designs.sum_moments(dc.designs.read_rows(DESIGN, everyone.features[first], everyone.income[first]))
    wide = np.column_stack([everyone.features[rest], np.ones(len(rest)), everyone.income[rest]])
    means = wide.T @ wide / len(rest)
    return Regression(train, means[:-1, :-1], means[:-1, -1], float(means[-1, -1]))


def radius_of(precision: float) -> float:
    """R of the ball in the paper's coordinates: ten prior deviations."""
    return 10 / math.sqrt(precision)


def draw_loss(precision: float, variance: float) -> float:
    """Epsilon of one draw under REPLACE, with `||x|| <= 1` and `|y| <= 1`: worked out, the paper has no number.

    Args:
        precision: b.
        variance: s2.

    Returns:
        `4 R / s2` for R = 10 / sqrt(b) up to 1, else `(1 + R)^2 / s2`; nats.
    """
    radius = radius_of(precision)
    return (4 * radius if radius <= 1 else (1 + radius) ** 2) / variance


def posterior_mean(train: dc.designs.Moments, precision: float, variance: float) -> Floats:
    """Ridge regression: mean of the posterior before it is cut, shape (14,), the package's coordinates. Not private."""
    return np.asarray(np.linalg.solve(*_normal(train, precision, variance)))


def cut_posterior(
    train: dc.designs.Moments, precision: float, variance: float, draws: int, rng: np.random.Generator
) -> Floats:
    """Draws of the posterior cut to the ball, shape (draws, 14), in the package's coordinates. Not private.

    Their mean stands for that of the cut posterior, which has no closed form; its mean squared error is larger by the
    1 / draws part of what that of one draw is larger by.
    """
    sources = {"normals": rng.standard_normal, "uniforms": rng.random}
    return truncated_normal(*_normal(train, precision, variance), radius_of(precision) / LENGTH, draws, **sources)


def _normal(train: dc.designs.Moments, precision: float, variance: float) -> tuple[Floats, Floats]:
    """The posterior before it is cut: its precision matrix, and that times its mean."""
    gram, cross = _sums(train)
    return gram / variance + precision * LENGTH**2 * np.eye(DESIGN.size), cross / variance


def one_draw(train: dc.designs.Moments, precision: float, variance: float, rng: np.random.Generator) -> Floats:
    """One draw of the cut posterior, shape (14,). Guarantee: `draw_loss`, REPLACE, in exact arithmetic.

    Raises:
        RuntimeError: the draw was tempered, so that the loss is not what it is taken to be.
    """
    mechanism = dc.research.truncated_posterior(variance=variance, radius=radius_of(precision) / LENGTH)
    loss = draw_loss(precision, variance)
    payload = drawn(mechanism, train, 1 / math.sqrt(precision) / LENGTH, loss * (1 + TOLERANCE), rng)
    if payload.temper != 1:
        raise RuntimeError(f"one draw at b = {precision:g} costs more than {loss}")
    return np.asarray(payload.weights[0])


def drawn(
    mechanism: dc.tools.Mechanism,
    train: dc.designs.Moments,
    deviation: float,
    epsilon: float,
    rng: np.random.Generator,
) -> dc.research.WeightDraws:
    """A simulated release of `truncated_posterior`; prior deviation in the package's coordinates, epsilon in nats."""
    payload = dc.simulate(mechanism, train, dc.designs.Normal(DESIGN, deviation), promise(epsilon), rng=rng).payload
    assert isinstance(payload, dc.research.WeightDraws)
    return payload


def _sums(train: dc.designs.Moments) -> tuple[Floats, Floats]:
    """Sums of `x x'` and `x y`: the whole numbers of the statistic, squares no longer centred."""
    size, steps = DESIGN.size + 1, DESIGN.reach**2
    wide = np.zeros((size, size))
    for (i, j), value in zip(DESIGN.moments, train.values.tolist(), strict=True):
        wide[i, j] = wide[j, i] = (value / steps + train.records) / 2 if i == j else value / steps
    wide[-2, -2] = train.records
    return wide[:-1, :-1], wide[:-1, -1]


def promise(epsilon: float) -> dc.Guarantee:
    """Pure epsilon, nats, for one replaced record."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
