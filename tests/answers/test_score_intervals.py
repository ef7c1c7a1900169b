"""Intervals of released scores: they hold what they promise, and are no wider than noise and sampling make them.

Coverage is judged over fixed seeds; a bound says how often chance alone would fail it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import discreet as dc
from discreet.designs.design import GRID_STEPS
from discreet.designs.readers import score as queried
from discreet.designs.readers.score import accuracy_network, error_design

RELATIONS = pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)


def promise(epsilon: Any, relation: str) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def simulated(share: float, n: int, epsilon: str, relation: str, rng: np.random.Generator) -> dc.Release:
    """A release of an accuracy."""
    network, right = accuracy_network(), rng.binomial(n, share)
    counts = dc.tools.count_codes(network, {"prediction": np.repeat([0, 1], [n - right, right])})
    return dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network, 1), promise(epsilon, relation), rng=rng)


def simulated_errors(errors: np.ndarray, epsilon: str, relation: str, rng: np.random.Generator) -> dc.Release:
    """A release of a mean absolute error between bounds 20 apart."""
    design = error_design(20.0)
    statistic = dc.designs.sum_moments(dc.designs.read_rows(design, errors[:, None]))
    return dc.simulate(
        dc.designs.noisy_moments(), statistic, dc.designs.Normal(design, 1), promise(epsilon, relation), rng=rng
    )


def least_hits(runs: int, coverage: float, alarm: float = 1e-8) -> int:
    """Fewer hits than these happen with a probability below `alarm` if intervals cover so much."""
    return int(binom.ppf(alarm, runs, coverage))


@pytest.mark.costly("Intervals of a score that are too narrow show in coverage over many releases.")
@RELATIONS
def test_intervals_of_an_accuracy_cover_it(relation: str) -> None:
    """Over the prior exactly 95 %; 60 runs each of two sizes."""
    rng = np.random.default_rng(17)
    for n, epsilon in ((40, "0.5"), (400, "1")):
        hits = 0
        for _ in range(60):
            share = rng.uniform()
            score = dc.designs.read_score(simulated(share, n, epsilon, relation, rng), level=0.95, draws=200, rng=rng)
            hits += score.lower <= share <= score.upper
        assert least_hits(60, 0.94) <= hits


@pytest.mark.costly("Intervals of a mean error that are too narrow show in coverage over many releases.")
@RELATIONS
@pytest.mark.parametrize(
    ("law", "truth"), [("normal", math.sqrt(2 / math.pi)), pytest.param("even", 10.0, marks=pytest.mark.thorough)]
)
def test_intervals_of_a_mean_absolute_error_cover_it(relation: str, law: str, truth: float) -> None:
    """Where the noise is a fifth of the error and where sampling is all; 60 runs each."""
    rng = np.random.default_rng(19)
    for n, epsilon in ((1000, "1"), (300, "10")):
        hits = 0
        for _ in range(60):
            errors = np.abs(rng.normal(size=n)) if law == "normal" else rng.uniform(0, 20, n)
            released = simulated_errors(errors, epsilon, relation, rng)
            score = dc.designs.read_score(released, level=0.95, draws=200, rng=rng)
            hits += score.lower <= truth <= score.upper
        assert least_hits(60, 0.93) <= hits


@pytest.mark.costly("Intervals that fail at an end of the range show in coverage over many releases.")
@pytest.mark.parametrize(
    ("end", "relation"),
    [
        (0.0, "replace"),
        (20.0, "add-remove"),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in ((0.0, "add-remove"), (20.0, "replace"))),
    ],
)
def test_intervals_hold_an_error_at_an_end_of_what_is_possible(relation: str, end: float) -> None:
    """Where every prediction is right, or every one as wrong as it can be; 60 runs each. The noise leads outside."""
    rng = np.random.default_rng(41)
    for n, epsilon, widest in ((1000, "1", 1.0), (200, "100", 0.5)):
        scores = [
            dc.designs.read_score(
                simulated_errors(np.full(n, end), epsilon, relation, rng), level=0.95, draws=200, rng=rng
            )
            for _ in range(60)
        ]
        assert sum(score.lower <= end <= score.upper for score in scores) >= least_hits(60, 0.93)
        assert max(score.upper - score.lower for score in scores) < widest  # all that is possible is 20 wide


@pytest.mark.costly("Its oracle weighs millions of prior draws and needs no density, so that it finds a wrong one.")
@RELATIONS
@pytest.mark.parametrize(
    ("n", "error", "epsilon"),
    [
        (20, 19.0, "0.5"),
        *(pytest.param(12, *each, marks=pytest.mark.thorough) for each in ((0.0, "1"), (6.0, "0.5"))),
    ],
)
def test_the_mean_has_the_law_of_its_prior_weighed_by_the_noise(
    n: int, error: float, epsilon: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against draws of the prior as it is, weighed by the noise's density; 0.04 is six standard errors of a share."""
    monkeypatch.setattr(queried, "LEAST_EFFECTIVE_PROPOSALS", 40_000.0)
    rng = np.random.default_rng(43)
    released = simulated_errors(np.full(n, error), epsilon, relation, rng)
    payload, size = released.payload, 4_000_000
    turn = rng.uniform(0, np.pi, size)
    mean, number = np.cos(turn), np.full(size, float(n))
    if released.records is None:
        number = rng.uniform(2, 120, size)
    square = rng.uniform(mean**2, 1)
    found = np.stack([number * (2 * square - 1), number * mean])
    off = np.abs(found - payload.sums[-2:, None]).max(axis=0)
    if released.records is None:
        off = np.maximum(off, np.abs(number - payload.sums[0]))
    expected = mean + np.sqrt((square - mean**2) / (number - 1)) * rng.standard_t(number - 1)
    kept = np.abs(expected) <= 1
    expected, weight = expected[kept], np.exp(-off[kept] / payload.sums_scale)
    assert weight.sum() ** 2 / (weight**2).sum() > 8_000
    order = np.argsort(expected)
    below = np.cumsum(weight[order]) / weight.sum()
    drawn = queried._draw_means(payload, released.records, 40_000, rng)
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert np.mean(drawn <= expected[order][np.searchsorted(below, share)]) == pytest.approx(share, abs=0.04)


def test_sums_that_no_errors_have_say_nothing() -> None:
    """As somebody may write: half of the errors at either end by one sum, all at one end by the other, and no noise."""
    rng = np.random.default_rng(47)
    released = simulated_errors(np.full(300, 3.0), "1", "replace", rng)
    values = 300 * GRID_STEPS**2 * np.array([-1, 1])
    score = dc.designs.read_score(
        replace(released, payload=replace(released.payload, values=values)), level=0.9, rng=rng
    )
    assert score.lower < 1 and score.upper > 19  # its prior is Beta(1/2, 1/2)


def test_intervals_are_no_wider_than_their_noise_and_sampling() -> None:
    rng = np.random.default_rng(23)
    score = dc.designs.read_score(simulated(0.8, 10_000, "1", "add-remove", rng), level=0.95, draws=2000, rng=rng)
    assert score.upper - score.lower == pytest.approx(2 * 1.96 * math.sqrt(0.16 / 10_000), rel=0.1)
    errors = rng.uniform(0, 20, 10_000)
    score = dc.designs.read_score(simulated_errors(errors, "10", "replace", rng), level=0.95, draws=2000, rng=rng)
    assert score.upper - score.lower == pytest.approx(2 * 1.96 * math.sqrt(400 / 12 / 10_000), rel=0.1)


@RELATIONS
def test_noise_that_drowns_everything_leaves_everything_possible(relation: str) -> None:
    rng = np.random.default_rng(29)
    for released in (simulated(0.9, 5, "1e-4", relation, rng), simulated_errors(np.ones(5), "1e-4", relation, rng)):
        score = dc.designs.read_score(released, level=0.95, draws=400, rng=rng)
        width = 20 if score.metric == "mean absolute error" else 1
        assert score.upper - score.lower > 0.8 * width


def test_an_error_below_a_step_of_the_grid_is_not_called_nothing() -> None:
    rng = np.random.default_rng(31)
    tiny = 20 / (4 * GRID_STEPS) * 0.9
    score = dc.designs.read_score(
        simulated_errors(np.full(10**5, tiny), "100", "replace", rng), level=0.95, draws=200, rng=rng
    )
    assert score.lower <= tiny <= score.upper < 0.01
