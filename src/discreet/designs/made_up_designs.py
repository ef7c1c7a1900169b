"""Designs and records that audits and plans make up: tiny ones of every kind, and records of random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.mechanisms.objective_perturbation import minimiser
from discreet.designs.readers.many_classes import centred
from discreet.designs.records.gradients import sum_gradients
from discreet.designs.records.rows import Rows, read_rows
from discreet.designs.response import response_of
from discreet.errors import InputError
from discreet.mechanisms import MECHANISMS
from discreet.mechanisms.crossing import Mechanism, Statistic, statistic_of
from discreet.model.schema import Variable
from discreet.posterior.read import quick_estimate, read, readers_of
from discreet.privacy.guarantee import Relation
from discreet.releases.release import Release
from discreet.verify.made_up import PLAN_DRAWS, MadeUp, SimulatedRecords
from discreet.verify.tiny_data import MOST_KINDS, Record, thin_out

Floats = npt.NDArray[np.float64]

RESIDUAL_DEVIATION = 0.2
"""Standard deviation of a simulated target, or of features from their axis, in the design's coordinates."""
LEAST_CONVEXITY = 1e-3
"""Regularisation of simulated classes, which may be separable, and gradient length at their minimum."""


class _Designs(MadeUp):
    """Designs, and records over them."""

    compared = ("weights", "predictions")
    headings = ("mean error of scaled weights", "of predictions")

    def default_prior(self, over: Design) -> Normal:
        """See `MadeUp`."""
        return Normal(over, 1.0)

    def tiny(self, mechanism: Mechanism, relation: Relation) -> Mapping[str, Design]:
        """See `MadeUp`."""
        targets = MECHANISMS[mechanism.name].targets
        return {name: design for name, design in audit_designs().items() if design.predicts in targets}

    def kinds_of(self, over: Design, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
        """See `MadeUp`: corners of the bounds, the middle, and more."""
        target = over.target
        ends = [()] if target is None else [(value,) for value in target.bounds or target.states]
        kinds = [(*features, *end) for features in _list_features(over) for end in ends]
        return kinds if most == MOST_KINDS else thin_out(kinds, most)

    def statistic_from(self, mechanism: Mechanism, over: Design, data: Iterable[Any]) -> Statistic:
        """See `MadeUp`."""
        return statistic_of(mechanism, read_rows(over, *columns_of(over, data)), over)

    def simulator(
        self, truth: Design, believed: Normal, records: int, rng: np.random.Generator
    ) -> Callable[[], SimulatedRecords]:
        """See `MadeUp`; the weights are random."""
        return lambda: _simulate_for_design(truth, records, rng)


MADE_UP = _Designs()


def audit_designs() -> dict[str, Design]:
    """The designs of the audit: every target, with bounds and in a ball, of one or two coordinates."""
    x, z = (Variable(name, bounds=(-1, 1)) for name in "xz")
    number, states = Variable("y", bounds=(-1, 1)), Variable("y", ("no", "yes"))
    indicators = tuple(Variable(name, bounds=(0, 1)) for name in "ab")
    return {
        "one number": Design((x,), intercept=False),
        "two numbers": Design((x, z), intercept=False),
        "line": Design((x,), number),
        "line in a ball": Design((x,), number, 0.5),
        "two classes": Design((x,), states),
        "two classes in a ball": Design((x, z), states, 1.0, intercept=False),
        "three classes": Design((x,), Variable("y", ("no", "yes", "unknown")), intercept=False),
        "counts": Design((x,), Variable("y", bounds=(0, 3)), counted=True),
        "two classes of a group": Design(indicators, states, intercept=False, groups=((0, 1),)),
    }


def columns_of(design: Design, data: Iterable[Any]) -> tuple[Floats, list[Any] | None]:
    """List features and target of records."""
    records, width = list(data), len(design.features)
    features = np.array([record[:width] for record in records], np.float64).reshape(-1, width)
    return features, None if design.target is None else [record[width] for record in records]


def _list_features(design: Design) -> list[Record]:
    """List features of records: at the corners of the bounds, in the middle, and two nearly equal ones."""
    bounds = [variable.bounds for variable in design.features if variable.bounds is not None]
    middle = tuple(value if at in design.alone else 0.0 for at, value in enumerate(design.middles.tolist()))
    points = [*(corner for corner in product(*bounds) if _is_in_groups(corner, design)), middle]
    if design.norm is not None and len(bounds) > 1:
        # Two nearly equal points whose gradients are opposite for weights along the first axis.
        low, high = (0.02 * end for end in bounds[0])
        points += [(first, *(top for _, top in bounds[1:])) for first in (low, high)]
    return points


def _is_in_groups(features: Record, design: Design) -> bool:
    """True if at most one indicator of each group is set."""
    return all(sum(features[at] for at in group) <= 1 for group in design.groups)


def _simulate_for_design(design: Design, records: int, rng: np.random.Generator) -> SimulatedRecords:
    """Simulate records from a design's random weights."""
    rows, truth = _simulate_rows(design, records, rng)

    def errors(release: Release) -> tuple[float, float]:
        return _measure_weight_errors(_read_weights(release, rng), truth, rows)

    return (
        lambda mechanism: statistic_of(mechanism, rows, design),
        _measure_weight_errors(_fit_without_noise(rows), truth, rows),
        errors,
    )


def _simulate_rows(design: Design, records: int, rng: np.random.Generator) -> tuple[Rows, Floats]:
    """Simulate records of a design; return them, and their weights or axis."""
    wide, target = len(design.features), design.target
    lower, upper = np.array([variable.bounds for variable in design.features], np.float64).T
    inside = rng.uniform(-1, 1, (records, wide))
    if target is None:
        axis = rng.normal(size=wide)
        inside = (rng.uniform(-1, 1, records)[:, None] * axis + RESIDUAL_DEVIATION * inside) / np.abs(axis).max()
    features = lower / 2 + upper / 2 + np.clip(inside, -1, 1) * (upper / 2 - lower / 2)
    for group in design.groups:
        # Each of the group's states, and none of them, is equally frequent.
        features[:, group] = np.eye(len(group) + 1)[rng.integers(len(group) + 1, size=records), 1:]
    if target is None:
        return read_rows(design, features), axis
    scaled = design.scaled(features)
    truth = rng.normal(size=design.size)
    if design.predicts != "number":
        return _simulate_targets(design, features, scaled, rng)
    truth *= 0.5 / np.abs(scaled * truth).sum(axis=1).max()
    return read_rows(
        design, features, design.predicted(scaled @ truth + RESIDUAL_DEVIATION * rng.normal(size=records))
    ), truth


def _simulate_targets(
    design: Design, features: Floats, scaled: Floats, rng: np.random.Generator
) -> tuple[Rows, Floats]:
    """Simulate classes or counts from random weights, which sum to 0 over several classes."""
    truth = centred(rng.normal(size=design.weights), design.outputs)
    means = _expect_targets(design, scaled, truth)
    assert design.target is not None
    if design.counted:
        assert design.target.bounds is not None
        return read_rows(design, features, rng.poisson(means[0] * design.target.bounds[1])), truth
    shares = np.concatenate([1 - means, means]) if design.outputs == 1 else means
    drawn = (rng.random(len(scaled)) > shares.cumsum(axis=0)[:-1]).sum(axis=0)
    return read_rows(design, features, np.array(design.target.states)[drawn]), truth


def _expect_targets(design: Design, scaled: Floats, weights: Floats) -> Floats:
    """Compute expected targets of records, shape (outputs, records), on [0, 1]."""
    return response_of(design).means(weights.reshape(design.outputs, -1) @ scaled.T)


def _fit_without_noise(rows: Rows) -> Floats:
    """Fit weights, or an axis, without privacy: least squares, most likely weights, leading eigenvector."""
    design = rows.design
    if design.predicts not in ("number", "nothing"):
        weights = minimiser(sum_gradients(rows), np.zeros(design.weights), LEAST_CONVEXITY, LEAST_CONVEXITY)
        return centred(weights, design.outputs)
    v = rows.coordinates / GRID_STEPS
    if design.target is None:
        return np.asarray(np.linalg.eigh(v.T @ v)[1][:, -1])
    return np.asarray(np.linalg.lstsq(v, rows.target / GRID_STEPS, rcond=None)[0])


def _read_weights(release: Release, rng: np.random.Generator) -> Floats:
    """Read one set of weights, or an axis, off a release."""
    reader = readers_of(release)[0].name
    if reader == "components":
        raise InputError("moments without a target predict nothing; their noise is in the calibration")
    if reader in ("gradients", "direction"):
        return quick_estimate(release)
    return np.asarray(read(release, draws=PLAN_DRAWS, rng=rng).mean())


def _measure_weight_errors(estimate: Floats, truth: Floats, rows: Rows) -> tuple[float, float]:
    """Measure mean absolute errors of weights, and of predictions; of an axis those of unit vectors."""
    v, target = rows.coordinates / GRID_STEPS, rows.design.target
    if target is None:
        estimate, truth = (axis / np.linalg.norm(axis) for axis in (estimate, truth))
        estimate = estimate * np.sign(estimate @ truth)
        return float(np.abs(estimate - truth).mean()), float("nan")
    if rows.design.predicts == "number":
        before, after = v @ truth, v @ estimate
    else:
        before, after = (_expect_targets(rows.design, v, weights) for weights in (truth, estimate))
    return float(np.abs(estimate - truth).mean()), float(np.abs(after - before).mean())
