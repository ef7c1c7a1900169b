"""Designs: what is public about a regression before any record is read."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import discreet as dc
from design_cases import CLASSES, NUMBER, SHAPES, design, numeric
from discreet.designs.design import GRID_STEPS
from folding import every

BINNED = dc.Variable("binned", bounds=(0, 10), bins=(5,))
X = numeric("x", 0, 10)


@every(
    ("make", "message"),
    [
        (lambda: dc.designs.Design(()), "at least one feature"),
        (lambda: dc.designs.Design((X, X)), "'x' twice"),
        (lambda: dc.designs.Design((X,), X), "'x' twice"),
        (lambda: dc.designs.Design((CLASSES,)), "feature 'class' needs numeric bounds"),
        (lambda: dc.designs.Design((BINNED,)), "feature 'binned'"),
        (lambda: dc.designs.Design((X,), BINNED), "target 'binned'"),
        (lambda: dc.designs.Design((X,), dc.Variable("y", ("one",))), "target 'y'"),
        (lambda: dc.designs.Design((numeric("x", 0, 5e-324),)), "'x' are too close"),
        (lambda: dc.designs.Design((X,), numeric("y", 0, 5e-324)), "'y' are too close"),
    ],
)
def test_what_is_no_design_is_refused(make: object, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        make()


@every("norm", [0.0, -1.0, math.nan, math.inf, 1e-160, 0.9 / GRID_STEPS, math.sqrt(2) + 1e-9])
def test_a_norm_that_is_none_is_refused(norm: float) -> None:
    with pytest.raises(dc.InputError, match="norm of the scaled features"):
        design(2, norm=norm)


@every("deviation", [0.0, -1.0, math.nan, math.inf, 1e-200, 1e200])
def test_a_prior_that_is_none_is_refused(deviation: float) -> None:
    with pytest.raises(dc.InputError, match="standard deviation"):
        dc.designs.Normal(design(1), deviation)


@every("name", SHAPES)
def test_lengths_are_what_they_say(name: str) -> None:
    norm, intercept = SHAPES[name]
    over = design(3, norm=norm, intercept=intercept)
    assert over.size == 3 + intercept
    assert over.shape == ("cube" if norm is None else "ball")
    assert float(over.constant * GRID_STEPS).is_integer()
    assert over.constant == (
        0 if not intercept else 1 if norm is None else math.floor(GRID_STEPS * norm / 3**0.5) / GRID_STEPS
    )
    features = 3 if norm is None else Fraction(norm) ** 2
    assert over.squared_length == features + Fraction(over.constant) ** 2
    if norm is None:
        assert over.reach == GRID_STEPS
    else:
        assert (over.reach - 1) ** 2 < over.squared_length * GRID_STEPS**2 <= over.reach**2


def test_an_exact_reach_is_not_rounded_up() -> None:
    assert design(1, norm=1.0, intercept=False).reach == GRID_STEPS
    assert design(1, norm=0.5, intercept=False).reach == GRID_STEPS // 2
    assert design(1, norm=1.0).constant == 1
    assert design(2, norm=1 / GRID_STEPS).constant == 1 / GRID_STEPS


@every("intercept", [True, False])
@every("target", [None, NUMBER])
def test_each_product_is_summed_once_and_the_number_of_records_not_among_them(
    intercept: bool, target: dc.Variable | None
) -> None:
    over = design(2, target, intercept=intercept)
    names = ["x0", "x1", *["1"] * intercept, *["y"] * (target is not None)]
    found = [(names[i], names[j]) for i, j in over.moments]
    assert len(set(found)) == len(found) == len(names) * (len(names) + 1) // 2 - intercept
    assert ("1", "1") not in found
    assert all(i <= j for i, j in over.moments)
    assert over.moments == tuple(sorted(over.moments))


@every("norm", [None, 0.7])
@every("intercept", [True, False])
def test_slopes_are_the_weights_in_the_units_of_the_columns(norm: float | None, intercept: bool) -> None:
    """Inside the bounds, where nothing is clipped, both predict the same."""
    over = dc.designs.Design((numeric("a", 10, 30), numeric("b", -4, -2)), NUMBER, norm, intercept)
    rng = np.random.default_rng(1)
    weights, scaled = rng.normal(size=(5, over.size)), rng.uniform(-0.4, 0.4, (7, 2))
    features = scaled * [10, 1] + [20, -3]
    slopes, intercepts = over.slopes(weights)
    assert np.allclose(slopes @ features.T + intercepts[:, None], over.predicted(weights @ over.scaled(features).T))
    log_odds = dc.designs.Design(over.features, CLASSES, norm, intercept)
    slopes, intercepts = log_odds.slopes(weights)
    assert np.allclose(slopes @ features.T + intercepts[:, None], weights @ log_odds.scaled(features).T)


def test_a_target_is_scaled_and_back() -> None:
    over = design(1, NUMBER)
    y = np.array([-3.0, 2.0, 7.0, 100.0, -1e300])
    assert over.scaled_target(y).tolist() == [-1, 0, 1, 1, -1]
    assert over.predicted(over.scaled_target(y)).tolist() == [-3, 2, 7, 7, -3]
    with pytest.raises(dc.InputError, match="no numeric target"):
        design(1, CLASSES).scaled_target(y)
    with pytest.raises(dc.InputError, match="no numeric target"):
        design(1).predicted(y)


def test_designs_are_values() -> None:
    assert design(2, NUMBER) == design(2, NUMBER) != design(2, NUMBER, intercept=False)
    assert hash(design(2)) == hash(design(2))
    assert design(2).names == ("x0", "x1")
    assert dc.designs.Normal(design(2), 1).over == design(2)
    with pytest.raises(AttributeError):
        design(2).norm = 1.0
    assert dc.designs.Design([X]).features == (X,)
