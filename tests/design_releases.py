"""Releases over a design: of any numbers that their types hold, and those whose files are in `tests/data`.

`release-v1-<kind>.json` were made once, by `python tests/design_releases.py tests/data`: simulations on made-up
records. They are never made again; a change that cannot read them needs a new format version.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

import discreet as dc
from design_cases import CLASSES, NUMBER, design, numeric, promise, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.designs.kinds.gradient_trace import OBJECTIVE_BITS, CurvatureNoise, NoisyCurvature, ObjectiveNoise
from discreet.designs.kinds.noisy_sums import GROUPS, GroupNoise, VectorNoise
from discreet.releases.policy import RecordsPolicy
from discreet.research.kinds.factored_choice import FactoredNoise
from discreet.research.kinds.weight_draws import Truncation
from published import DATA

ADD_REMOVE = dc.Relation.ADD_REMOVE
FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(1e-3, 1e15)
BUDGET = st.fractions(Fraction(1, 100), 1, max_denominator=100)
WHOLE = st.integers(1, 2**53)
THREE, VISITS = dc.Variable("class", ("no", "yes", "maybe")), dc.Variable("visits", bounds=(0, 9))
Parts = tuple[Any, Any]


@st.composite
def designs(draw: st.DrawFn, target: str | None, *, intercept: bool | None = None, most: int = 3) -> dc.designs.Design:
    """Any design with a target of this name."""
    size = draw(st.integers(1, most))
    pairs = [sorted(draw(st.tuples(*[st.floats(-1e9, 1e9)] * 2).filter(lambda b: abs(b[0] - b[1]) > 1e-3)))
             for _ in range(size)]  # fmt: skip
    features = tuple(dc.Variable(f"é{at}", bounds=tuple(pair)) for at, pair in enumerate(pairs))
    norm = draw(st.none() | st.floats(1 / GRID_STEPS, size**0.5))
    chosen = {None: None, "number": NUMBER, "class": CLASSES, "classes": THREE, "count": VISITS}[target]
    made = dc.designs.Design(features, chosen, norm, draw(st.booleans()) if intercept is None else intercept)
    made = replace(made, counted=target == "count")
    assert made.predicts == (target or "nothing")
    return made


def matrix(draw: st.DrawFn, rows: int, columns: int) -> np.ndarray:
    numbers = draw(st.lists(FINITE, min_size=rows * columns, max_size=rows * columns))
    return np.array(numbers).reshape(rows, columns)


def total(draw: st.DrawFn, relation: dc.Relation) -> dc.designs.NoisyTotal | None:
    return (
        dc.designs.NoisyTotal(draw(st.integers(-(2**63), 2**63 - 1)), draw(POSITIVE))
        if relation is ADD_REMOVE
        else None
    )


def scale_of(noisy: dc.designs.NoisyTotal | None) -> float | None:
    return None if noisy is None else noisy.scale


@st.composite
def noisy_moments(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    over, noisy, scale = draw(designs(draw(st.sampled_from([None, "number"])))), relation is ADD_REMOVE, draw(POSITIVE)
    length = len(over.moments) + noisy
    values = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=length, max_size=length))
    calibration = VectorNoise(draw(WHOLE), scale, 1, None, draw(BUDGET))
    return calibration, dc.designs.NoisyMoments(over, np.array(values, np.int64), scale, noisy)


@st.composite
def grouped_moments(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    over, noisy = draw(designs("number")), relation is ADD_REMOVE
    noise = draw(st.sampled_from(["cube", "discrete_gaussian"]))
    pairs = len(over.features) > 1
    scales = tuple(draw(POSITIVE) if group != "pairs" or pairs else None for group in GROUPS)
    length = len(over.moments) + noisy
    values = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=length, max_size=length))
    rho = None if noise == "cube" else draw(BUDGET)
    calibration = GroupNoise(noise, draw(WHOLE), scales, rho, draw(BUDGET))
    return calibration, dc.designs.GroupedMoments(over, np.array(values, np.int64), noise, scales, noisy)


@st.composite
def noisy_gradients(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    over, steps, scale, noisy = draw(designs("class")), draw(st.integers(1, 3)), draw(POSITIVE), total(draw, relation)
    points, gradients, weights = (matrix(draw, n, over.size) for n in (steps, steps, 1))
    calibration = VectorNoise(draw(WHOLE), scale, steps, scale_of(noisy), draw(BUDGET))
    return calibration, dc.designs.GradientTrace(over, points, gradients, scale / GRID_STEPS, weights[0], noisy)


@st.composite
def perturbed(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    over, scale = draw(designs(draw(st.sampled_from(["class", "classes", "count"])))), draw(POSITIVE)
    noisy, rho = total(draw, relation), draw(st.none() | BUDGET)
    weights = np.array(draw(st.lists(st.floats(-1e100, 1e100), min_size=over.weights, max_size=over.weights)))
    numbers = [draw(POSITIVE) for _ in range(3)]
    reported, measured, curvature = draw(BUDGET), None, None
    if draw(st.booleans()):
        width = len(over.features)
        scales = (draw(POSITIVE), draw(POSITIVE), draw(POSITIVE) if width > 1 else None)
        measured = CurvatureNoise(draw(WHOLE), scales, (rho or reported) / 5)
        length = (1 + width * (1 + over.intercept) + width * (width - 1) // 2) * (3 if over.outputs == 3 else 1)
        sums = draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=length, max_size=length))
        curvature = NoisyCurvature(np.array(sums, np.int64), scales)
    calibration = ObjectiveNoise(
        numbers[0], draw(WHOLE), scale, reported / 4, numbers[1], numbers[2], scale_of(noisy), reported, measured, rho
    )
    pulled = numbers[0] * weights[None]
    trace = dc.designs.GradientTrace(
        over, weights[None], pulled, scale * 2.0**-OBJECTIVE_BITS, weights, noisy, curvature, True if rho else None
    )
    return calibration, trace


@st.composite
def weight_draws(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    over, draws = draw(designs("number")), draw(st.integers(1, 3))
    radius, variance, temper = (draw(POSITIVE) for _ in range(3))
    calibration = Truncation(radius, variance, temper, draws, draw(st.integers(1, 9)), draw(BUDGET))
    return calibration, dc.research.WeightDraws(over, matrix(draw, draws, over.size), variance, radius, temper)


@st.composite
def factored(draw: st.DrawFn, relation: dc.Relation) -> Parts:
    kind, noisy, rate = draw(st.sampled_from(["direction", "categorical"])), total(draw, relation), draw(POSITIVE)
    over = draw(designs(None, intercept=False, most=3 if kind == "direction" else 1))
    wide = len(over.features) if kind == "direction" else draw(st.integers(1, 3))
    candidates = matrix(draw, draw(st.integers(2, 3)), wide)
    names = ["noise_variance", "tau"] if kind == "direction" else ["floor"]
    parameters = {name: draw(FINITE) for name in names}
    index = draw(st.integers(0, len(candidates) - 1))
    calibration = FactoredNoise(rate, scale_of(noisy), draw(BUDGET))
    return calibration, dc.research.FactoredChoice(over, kind, candidates, parameters, index, rate, noisy)


DESIGN_KINDS: dict[str, tuple[Callable[[dc.Relation], st.SearchStrategy[Parts]], type, type]] = {
    "grouped moments": (grouped_moments, GroupNoise, dc.designs.GroupedMoments),
    "noisy moments": (noisy_moments, VectorNoise, dc.designs.NoisyMoments),
    "noisy gradients": (noisy_gradients, VectorNoise, dc.designs.GradientTrace),
    "objective perturbation": (perturbed, ObjectiveNoise, dc.designs.GradientTrace),
    "truncated posterior": (weight_draws, Truncation, dc.research.WeightDraws),
    "factored": (factored, FactoredNoise, dc.research.FactoredChoice),
}
"""Parts that belong together, and their types."""


@st.composite
def design_releases(draw: st.DrawFn, kind: str) -> dc.Release:
    """Releases over any design, with any numbers that the payload's types hold."""
    relation = draw(st.sampled_from(dc.tools.RECORD_RELATIONS))
    calibration, payload = draw(DESIGN_KINDS[kind][0](relation))
    return dc.Release(
        id=draw(st.binary(min_size=16, max_size=16)).hex(),
        date=draw(st.dates()),
        private=draw(st.booleans()),
        guarantee=promise(calibration.total, relation),
        mechanism=kind.replace(" ", "_"),
        policy=RecordsPolicy("error", "clip"),
        records=draw(st.integers(0, 2**53)) if relation is dc.Relation.REPLACE else None,
        prior=dc.designs.Normal(payload.over, draw(st.floats(1e-12, 1e12))),
        calibration=calibration,
        payload=payload,
    )


# ------------------------------------------------------------------------------------------------- the committed files


def _made(mechanism: Any, statistic: Any, relation: str, seed: int, delta: object = 0) -> dc.Release:
    prior = dc.designs.Normal(statistic.over, 2.5)
    return dc.simulate(mechanism, statistic, prior, promise("0.7", relation, delta), rng=np.random.default_rng(seed))


def examples() -> dict[str, dc.Release]:
    """The releases behind the committed files; random streams may change, so only the files are compared."""
    rng = np.random.default_rng(1)
    features, number, state = rng.uniform(-1, 1, (500, 2)), rng.uniform(-3, 7, 500), rng.choice(CLASSES.states, 500)
    linear = dc.designs.Design((numeric("age", -1, 1), numeric("dose", -2, 2)), NUMBER)
    logistic = dc.designs.Design(linear.features, CLASSES, 1.25)
    code = dc.designs.Design((dc.Variable("code", bounds=(0, 2)),), None, None, False)
    plane = design(2, intercept=False)
    axes = dc.research.DirectionFactor(dc.research.spread_candidates(2, 4, [0.5]), noise_variance=0.1, tau=2.0)
    die = dc.research.CategoricalFactor([[0.8, 0.1, 0.1], [0.2, 0.3, 0.5]], floor=0.1)
    sums, slopes = (
        dc.designs.sum_moments(dc.designs.read_rows(linear, features, number)),
        dc.designs.sum_gradients(dc.designs.read_rows(logistic, features, state)),
    )
    counted = dc.designs.Design(linear.features, VISITS, counted=True)
    three = dc.designs.Design(linear.features, THREE)
    grouped = dc.designs.Design((*linear.features, *(numeric(f"ward={at}", 0, 1) for at in range(8))), CLASSES,
                        groups=(tuple(range(2, 10)),))  # fmt: skip
    wards = np.column_stack([features, np.eye(8)[rng.integers(0, 8, 500)]])
    visits, states = rng.poisson(2, 500).clip(0, 9), rng.choice(THREE.states, 500)
    objective = dc.designs.objective_perturbation(records=400)
    return {
        "objective-counts": _made(
            objective, dc.designs.sum_gradients(dc.designs.read_rows(counted, features, visits)), "replace", 9
        ),
        "objective-classes": _made(
            objective, dc.designs.sum_gradients(dc.designs.read_rows(three, features, states)), "add-remove", 10
        ),
        "objective-groups": _made(
            objective, dc.designs.sum_gradients(dc.designs.read_rows(grouped, wards, state)), "add-remove", 11
        ),
        "objective-gaussian": _made(
            objective, dc.designs.sum_gradients(dc.designs.read_rows(three, features, states)), "add-remove", 12, "0.3"
        ),
        "noisy-moments": _made(dc.designs.noisy_moments(), sums, "add-remove", 1),
        "noisy-gradients": _made(dc.research.noisy_gradients(3, records=400), slopes, "replace", 2),
        "objective-perturbation": _made(
            dc.designs.objective_perturbation(records=400, curvature=0), slopes, "add-remove", 3
        ),
        "objective-curvature": _made(dc.designs.objective_perturbation(records=400), slopes, "add-remove", 7),
        "grouped-moments": _made(dc.designs.grouped_moments(), sums, "add-remove", 8),
        "truncated-posterior": _made(dc.research.truncated_posterior(2, variance=0.1), sums, "replace", 4),
        "factored-direction": _made(dc.research.factored(axes), rows_of(plane, features), "add-remove", 5),
        "factored-categorical": _made(
            dc.research.factored(die), rows_of(code, rng.integers(0, 3, (50, 1))), "replace", 6
        ),
    }


PUBLISHED = (
    "noisy-moments", "noisy-gradients", "objective-perturbation", "truncated-posterior", "factored-direction",
    "factored-categorical", "objective-curvature", "grouped-moments", "objective-counts", "objective-classes",
    "objective-groups", "objective-gaussian",
)  # fmt: skip


def committed(kind: str) -> str:
    """Text of a committed file."""
    return (DATA / f"release-v1-{kind}.json").read_text(encoding="utf-8")


if __name__ == "__main__":
    for name, release in examples().items():
        release.save(Path(sys.argv[1]) / f"release-v1-{name}.json", replace=False)
