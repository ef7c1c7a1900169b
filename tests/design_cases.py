"""Designs, private records and a scripted source of noise, for tests of releases over a design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import discreet as dc
from every_kind import DESIGN_PAYLOADS

CLASSES = dc.Variable("class", ("no", "yes"))
NUMBER = dc.Variable("number", bounds=(-3, 7))


def numeric(name: str, lower: float = -1, upper: float = 1) -> dc.Variable:
    """A numeric variable."""
    return dc.Variable(name, bounds=(lower, upper))


def design(
    size: int, target: dc.Variable | None = None, *, norm: float | None = None, intercept: bool = True
) -> dc.designs.Design:
    """A design of features with the bounds -1 and 1, so that records are coordinates."""
    return dc.designs.Design(tuple(numeric(f"x{at}") for at in range(size)), target, norm, intercept)


def promise(epsilon: object = 1, relation: str = "add-remove", delta: object = 0) -> dc.Guarantee:
    """A guarantee for records."""
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def grouped(target: dc.Variable | None = CLASSES, *, intercept: bool = True) -> dc.designs.Design:
    """A number, and two groups of six indicators: their noise is a diamond's, and so is that of their curvature."""
    features = (numeric("x"), *(numeric(f"{group}{at}", 0, 1) for group in "ab" for at in range(6)))
    return dc.designs.Design(features, target, None, intercept, ((1, 2, 3, 4, 5, 6), (7, 8, 9, 10, 11, 12)))


def grouped_records() -> list[tuple[Any, ...]]:
    """Every combination of a number at its ends or inside, of a state of each group or none, and of a class."""
    states = np.vstack([np.eye(6), np.zeros(6)])
    places = [(x, *a, *b) for x in (-1.0, 0.37, 1.0) for a in states[::2] for b in states[1::2]]
    return [(*place, y) for place in places for y in CLASSES.states]


def rows_of(over: dc.designs.Design, records: Sequence[Sequence[Any]]) -> dc.designs.Rows:
    """Records, each its features and, where the design has one, its target."""
    size = len(over.features)
    features = np.array([record[:size] for record in records], float).reshape(-1, size)
    return dc.designs.read_rows(over, features, None if over.target is None else [record[-1] for record in records])


SHAPES = {
    "box": (None, True),
    "box, no intercept": (None, False),
    "ball": (1.0, True),
    "ball, no intercept": (1.0, False),
    "short ball": (0.3, True),
}
"""Bound on the norm, and whether there is an intercept."""


def neighbours(over: dc.designs.Design, relation: dc.Relation) -> Iterator[tuple[list[Any], list[Any]]]:
    """Data sets whose records lie at corners, beyond them, in the middle and at random, and their neighbours."""
    rng, size = np.random.default_rng(5), len(over.features)
    places = [*product((-1.0, 1.0), repeat=size), (0.0,) * size, (3.0,) + (0.1,) * (size - 1), tuple(rng.random(size))]
    # Nearly across the first axis: weights along it tell them apart for certain, and still they are opposites.
    places += [(tilt,) + (1.0,) * (size - 1) for tilt in (-0.005, 0.005)]
    match over.target:
        case None:
            records: list[Any] = places
        case target if target.numeric:
            records = [(*place, y) for place in places for y in (-3, 2, 7)]
        case target:
            records = [(*place, y) for place in places for y in target.states]
    for rest in ([], records[:3], [records[-1]] * 20):
        if relation is dc.Relation.ADD_REMOVE:
            yield from ((rest, [*rest, record]) for record in records)
        else:
            yield from (([one, *rest], [other, *rest]) for one, other in product(records, repeat=2))


@dataclass
class Script:
    """A source of noise that answers what it was told, whatever it is asked, and remembers what it was asked.

    Args:
        vectors: answers to `k_norm`, one after the other; 0 after the last.
        total: answer to `discrete_laplace`.
        index: answer to `choose`.
    """

    vectors: Sequence[Any] = ()
    total: int = 0
    index: int = 0
    asked: list[tuple[str, np.ndarray, float, str]] = field(default_factory=list)
    exponents: list[Fraction] = field(default_factory=list)

    def k_norm(self, values: np.ndarray, scale: float, shape: str) -> np.ndarray:
        done = sum(kind == "k_norm" for kind, *_ in self.asked)
        self._ask("k_norm", values, scale, shape)
        return np.full(values.shape, self.vectors[done] if done < len(self.vectors) else 0, np.int64)

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        self._ask("laplace", values, scale, "")
        return np.full(values.shape, self.total, np.int64)

    def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
        self.exponents = list(exponents)
        self._ask("max", -np.array([float(exponent) for exponent in exponents]), 1.0, "")
        return np.full(draws, self.index)

    def uniforms(self, number: int) -> np.ndarray:
        raise AssertionError("nothing here needs uniform variates")

    def _ask(self, kind: str, values: np.ndarray, scale: float, shape: str) -> None:
        wanted = np.float64 if kind == "max" else np.int64
        assert values.dtype == wanted
        self.asked.append((kind, values.copy(), scale, shape))


def length(vector: np.ndarray, shape: str) -> int:
    """Norm of a vector of whole numbers, rounded up: what K-norm noise costs it by."""
    exact = [abs(int(entry)) for entry in vector]
    if shape == "cube":
        return max(exact)
    if shape == "diamond":
        return sum(exact)
    squares = sum(entry**2 for entry in exact)
    return math.isqrt(squares - 1) + 1 if squares else 0


def answers(payload: Any) -> dict[str, Any]:
    """All that a payload says, by name, as plain values."""
    assert isinstance(payload, DESIGN_PAYLOADS)
    values = {name: getattr(payload, name) for name in payload.__dataclass_fields__}
    if curvature := values.get("curvature"):
        values["curvature"] = (curvature.values.tolist(), curvature.scales)
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return {name: dict(value) if name == "parameters" else value for name, value in plain.items()}
