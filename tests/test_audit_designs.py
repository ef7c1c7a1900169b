"""The audit over designs: it passes the registry, finds planted bugs, and says what kind of check it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.designs.made_up_designs import audit_designs
from discreet.mechanisms import MECHANISMS, mechanisms_over
from discreet.noise.shapes import SHAPES
from discreet.research.checks import BALL_STEPS, _convolve_losses, truncation_loss
from discreet.research.kinds.weight_draws import Truncation
from flawed import ADD_REMOVE, REPLACE, for_adding, misdrawn, promise, recalibrated

DESIGNS = audit_designs()
LOOKED_AT = {
    "grouped_moments": {"line": 0.99},
    "noisy_moments": {"one number": 1.0, "two numbers": 1.0, "line": 1.0},
    "truncated_posterior": {"line": 0.8, "line in a ball": 0.9},
    "noisy_gradients": {"two classes": 0.98, "two classes in a ball": 0.98, "two classes of a group": 0.98},
    "objective_perturbation": {
        "two classes": 0.72,
        "two classes in a ball": 0.55,
        "three classes": 0.68,
        "counts": 0.6,
        "two classes of a group": 0.69,
    },
    "factored": {"two numbers": 0.75},
}
"""Designs on which a mechanism is audited, and what is measured there at the least, of an epsilon of 1."""


def honest(name: str) -> dc.tools.Mechanism:
    return MECHANISMS[name].example


@pytest.mark.costly("The guarantee of every mechanism over a design, by enumeration of small data sets.", always=True)
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
@pytest.mark.parametrize("name", mechanisms_over("design"))
def test_every_mechanism_over_a_design_passes_and_is_not_far_from_tight(name: str, relation: dc.Relation) -> None:
    found = dc.audit(honest(name), promise(1, relation), most=2)
    assert [part.network for part in found] == list(LOOKED_AT[name])
    for part in found:
        assert part.holds and not part.leak
        assert part.measured >= LOOKED_AT[name][part.network] * (1 - 1e-12)
        assert part.exact == (name not in ("truncated_posterior", "objective_perturbation"))
    hows = {"truncated_posterior": "density as stated; draws at least, 99.9999 % sure"}
    hows["objective_perturbation"] = "densities at points"
    assert {part.how for part in found} == {hows.get(name, "exactly")}


FLAWED = {
    "noisy_gradients": {"two classes": DESIGNS["two classes"]},
    "objective_perturbation": {key: DESIGNS[key] for key in ("two classes", "counts")},
}
"""Designs on which flaws are looked for, where an audit of all takes seconds. On each of the others an honest mechanism
is measured at more than half of what it may lose, so that twice as much would be seen there, too."""


def halved(name: str) -> Callable[[Any], Any]:
    """Half the noise: of a posterior, a likelihood twice as strong; of a choice, twice its rate."""

    def smaller(noise: Any) -> Any:
        return replace(noise, scales=tuple(part and part / 2 for part in noise.scales))

    if name == "grouped_moments":
        return smaller
    if name == "objective_perturbation":
        return lambda calibration: replace(
            calibration, scale=calibration.scale / 2, measured=smaller(calibration.measured)
        )
    field = {"truncated_posterior": "temper", "factored": "rate"}.get(name, "scale")
    factor = 0.5 if field == "scale" else 2.0
    return lambda calibration: replace(calibration, **{field: factor * getattr(calibration, field)})


@pytest.mark.costly(
    "An audit that finds nothing would pass every mechanism: half the noise must be found.",
    always=True,
)
@pytest.mark.parametrize("name", mechanisms_over("design"))
def test_half_the_noise_is_found(name: str) -> None:
    for relation in dc.tools.RECORD_RELATIONS:
        found = dc.audit(recalibrated(honest(name), halved(name)), promise(1, relation), FLAWED.get(name), most=1)
        assert not any(part.holds for part in found)
        # The change of an objective's curvature costs the same whatever the noise.
        assert all(part.measured > (1.0 if name == "objective_perturbation" else 1.1) for part in found)


@pytest.mark.costly("Noise for one relation under the other is the likeliest flaw of a calibration.", always=True)
@pytest.mark.parametrize("name", mechanisms_over("design"))
def test_the_wrong_relation_is_found(name: str) -> None:
    found = dc.audit(for_adding(honest(name)), promise(1, REPLACE), FLAWED.get(name), most=1)
    assert not any(part.holds for part in found)


@pytest.mark.costly("That an audit sees one step of sensitivity too few is shown by planting it.", always=True)
@pytest.mark.parametrize("name", ["noisy_moments", "noisy_gradients"])
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_one_step_of_sensitivity_is_found(name: str, relation: dc.Relation) -> None:
    """Noise for a vector that moves by one step of the grid less: a part in 2^25 of the loss of moments."""

    def short(calibration: Any) -> Any:
        less = calibration.sensitivity - 1
        return replace(calibration, scale=calibration.scale * less / calibration.sensitivity)

    design = {"noisy_moments": "line", "noisy_gradients": "two classes"}[name]
    (found,) = dc.audit(
        recalibrated(honest(name), short), promise(1, relation), {"tiny": DESIGNS[design]}, most=1
    )  # fmt: skip
    assert not found.holds or (name == "noisy_gradients" and found.measured > 0.999)


def sharper(calibration: Any) -> Any:
    return replace(calibration, temper=16 * calibration.temper)


def flatter(calibration: Any) -> Any:
    return replace(calibration, regularisation=calibration.regularisation / 2)


@pytest.mark.costly("A draw with less noise than is stated must be seen by the audit.", always=True)
def test_a_draw_that_is_not_what_the_calibration_states_is_found() -> None:
    for name in ("noisy_moments", "noisy_gradients", "objective_perturbation", "factored"):
        found = dc.audit(misdrawn(honest(name), halved(name)), promise(1, ADD_REMOVE), FLAWED.get(name), most=1)
        assert not any(part.holds for part in found)
    (found,) = dc.audit(
        misdrawn(honest("truncated_posterior"), sharper), promise(1, REPLACE), {"line": DESIGNS["line"]}
    )  # fmt: skip
    assert found.measured > 1.5
    (found,) = dc.audit(
        misdrawn(honest("objective_perturbation"), flatter), promise(1, ADD_REMOVE), {"c": DESIGNS["two classes"]}
    )  # fmt: skip
    assert math.isinf(found.measured) and "not the minimum" in found.leak


def released_exactly(mechanism: dc.tools.Mechanism) -> dc.tools.Mechanism:
    """The number of records without noise."""

    def draw(statistic: Any, prior: Any, calibration: Any, noise: Any) -> Any:
        payload = mechanism.draw(statistic, prior, calibration, noise)
        return replace(payload, total=replace(payload.total, value=statistic.records))

    return replace(mechanism, draw=draw)


@pytest.mark.parametrize("name", ["noisy_gradients", "objective_perturbation", "factored", "truncated_posterior"])
def test_an_exact_number_of_records_is_a_leak(name: str) -> None:
    found = dc.audit(released_exactly(honest(name)), promise(1, ADD_REMOVE), most=1)
    assert all(part.leak and not part.holds for part in found)


def test_what_no_tiny_design_suits_is_refused() -> None:
    with pytest.raises(dc.InputError, match="pure guarantee"):
        dc.audit(honest("noisy_moments"), promise(1, ADD_REMOVE, "1e-6"))
    with pytest.raises(dc.InputError, match="no norm"):
        dc.audit(honest("noisy_moments"), promise(1, ADD_REMOVE), {"ball": DESIGNS["line in a ball"]})


def test_lengths_are_rounded_up() -> None:
    vectors = ([0, 0], [3, 4], [1, 1], [-2, 2], [5, 5])
    assert [SHAPES["ball"].norm(np.array(vector)) for vector in vectors] == [0, 5, 2, 3, 8]
    assert [SHAPES["cube"].norm(np.array(vector)) for vector in vectors] == [0, 4, 1, 2, 5]


@pytest.mark.parametrize("draws", [1, 8])
def test_draws_with_a_delta_keep_it_and_sharper_ones_do_not(draws: int) -> None:
    """Losses of all draws together are convolved, for a crowd of records and one more."""
    over = dc.designs.Design((dc.Variable("x", bounds=(-1, 1)),), dc.Variable("y", bounds=(-1, 1)), intercept=False)
    prior = dc.designs.Normal(over, 1.0)
    tables = {rest: np.array([(1.0, 1.0)] * rest + [(1.0, -1.0)]) for rest in (0, 40)}
    for rest, table in tables.items():
        data = {"one": table, "other": np.vstack([table[:-1], [(1.0, 1.0)]])}
        rows = {key: dc.designs.read_rows(over, each[:, :1], each[:, 1]) for key, each in data.items()}
        for epsilon in (0.5, 2):
            made = dc.research.truncated_posterior(draws, radius=0.8)
            calibration = made.calibrate(over, prior, promise(epsilon, REPLACE, "0.001"))
            held = truncation_loss(calibration, prior, rows, [tuple(data)], 0.001)
            assert held <= calibration.total <= epsilon
            sharp = replace(calibration, temper=4 * calibration.temper)
            assert rest or truncation_loss(sharp, prior, rows, [tuple(data)], 0.001) > epsilon


def test_losses_of_randomised_response_are_convolved() -> None:
    """Two answers kept with odds e: epsilon at delta 0 is 2, and at the chance of two true answers it is 0."""
    p = np.log(np.array([math.e, 1.0]) / (1 + math.e))
    assert _convolve_losses([(p, p[::-1])] * 2, 1e-9) == pytest.approx(2, abs=0.02)
    assert _convolve_losses([(p, p[::-1])] * 2, (math.e / (1 + math.e)) ** 2) == 0


def test_a_posterior_in_a_ball_is_looked_at_up_to_its_edge() -> None:
    """One weight: the prior, and a record (1, 1) beside it, on a grid of the ball; the largest ratio is at an end."""
    over = dc.designs.Design((dc.Variable("x", bounds=(-1, 1)),), dc.Variable("y", bounds=(-1, 1)), intercept=False)
    prior = dc.designs.Normal(over, 1.0)
    calibration = MECHANISMS["truncated_posterior"].example.calibrate(over, prior, promise(1, ADD_REMOVE))
    assert isinstance(calibration, Truncation) and calibration.variance is None  # then it is that of variance 1
    data = {(): np.empty((0, 2)), ((1.0, 1.0),): np.ones((1, 2))}
    rows = {key: dc.designs.read_rows(over, table[:, :1], table[:, 1]) for key, table in data.items()}
    theta = np.linspace(-calibration.radius, calibration.radius, BALL_STEPS + 1)
    flat = np.exp(-(theta**2) / 2)
    tilted = flat * np.exp(-calibration.temper / 2 * (1 - theta) ** 2)
    ratio = np.log(tilted / tilted.sum()) - np.log(flat / flat.sum())
    assert np.argmax(np.abs(ratio)) == 0
    found = truncation_loss(calibration, prior, rows, [tuple(data)])
    number = 1 / calibration.total_scale  # of the noisy number of records
    assert found == pytest.approx(number + calibration.draws * abs(ratio[0]), rel=1e-6)
