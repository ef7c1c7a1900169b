"""What an adversary can learn and tell apart is what enumeration of the most telling mechanism says."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.reporting.explain import (
    best_distance,
    divergence_limits,
    expected_divergences,
    largest_error,
    least_distinguishable,
    least_misses,
    moved_belief,
    range_distance,
    record_divergence,
    records_to_tell,
)
from experiments.corrected_bounds import dirichlet_kl
from folding import every
from tiny import network_of

EPSILONS = st.floats(1e-3, 8)
DELTAS = st.sampled_from([0.0, 1e-6, 0.01, 0.3])


def most_telling(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """The laws of four outputs on two neighbours: with probability delta all is told, else a bit at random odds."""
    true, false = ((1 - delta) * math.exp(sign * epsilon / 2) / (2 * math.cosh(epsilon / 2)) for sign in (1, -1))
    return np.array([delta, true, false, 0.0]), np.array([0.0, false, true, delta])


@given(EPSILONS, DELTAS)
def test_the_most_telling_mechanism_keeps_its_guarantee_and_attains_the_distance(epsilon: float, delta: float) -> None:
    one, other = most_telling(epsilon, delta)
    for p, q in ((one, other), (other, one)):
        assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= delta + 1e-12
    assert np.abs(one - other).sum() / 2 == pytest.approx(best_distance(epsilon, delta), rel=1e-9)


@given(EPSILONS, DELTAS, st.floats(0, 1))
def test_no_test_of_it_is_below_the_curve_and_the_best_is_on_it(epsilon: float, delta: float, alarms: float) -> None:
    """The best test says "there" for the outputs of the largest likelihood ratio, and throws a coin for the last."""
    there, absent = most_telling(epsilon, delta)
    left, misses = alarms, 1.0
    for p, q in zip(there, absent, strict=True):  # in the order of p / q
        share = 1.0 if q <= left else left / q
        left, misses = left - share * q, misses - share * p
        if share < 1:
            break
    assert misses == pytest.approx(least_misses(alarms, epsilon, delta), abs=1e-9)
    for said in product((0, 1), repeat=4):
        rate, missed = float(np.dot(said, absent)), 1 - float(np.dot(said, there))
        assert missed >= least_misses(min(rate, 1.0), epsilon, delta) - 1e-9


@given(st.floats(1e-6, 1 - 1e-6), EPSILONS)
def test_beliefs_are_those_of_bayes(prior: float, epsilon: float) -> None:
    one, other = most_telling(epsilon, 0.0)
    posterior = prior * one[1] / (prior * one[1] + (1 - prior) * other[1])
    assert posterior == pytest.approx(moved_belief(prior, epsilon), rel=1e-9)


@given(st.floats(0.001, 0.49), EPSILONS, DELTAS)
def test_fewer_records_cannot_be_told_and_these_can(error: float, epsilon: float, delta: float) -> None:
    """By the guarantee for groups, one record at a time: `(e, d)` becomes `(e + epsilon, e^epsilon d + delta)`."""
    records = records_to_tell(error, epsilon, delta)
    group, groups = (0.0, 0.0), []
    for _ in range(records):
        group = group[0] + epsilon, math.exp(epsilon) * group[1] + delta
        groups.append(group)

    def kept(part: tuple[float, float]) -> bool:
        return part[1] >= 1 or least_misses(error, *part) <= error * (1 + 1e-6)

    assert kept(groups[-1])
    assert not any(kept((part[0] * (1 - 1e-6), part[1] * (1 - 1e-6))) for part in groups[:-1])


def test_all_draws_of_a_posterior_tell_no_more_than_their_range() -> None:
    """Six parameters, three draws: their joint laws on two neighbours are enumerated."""
    rng = np.random.default_rng(2)
    closest = 0.0
    for _ in range(50):
        gaps, prior = rng.uniform(-0.5, 0.5, 6), rng.dirichlet(np.ones(6))
        other = prior * np.exp(gaps) / (prior * np.exp(gaps)).sum()
        laws = [np.einsum("i,j,k->ijk", law, law, law) for law in (prior, other)]
        bound = range_distance(3 * float(np.ptp(gaps)))
        distance = float(np.abs(laws[0] - laws[1]).sum() / 2)
        assert distance <= bound
        assert bound < best_distance(3 * float(np.ptp(gaps)), 0.0)
        closest = max(closest, distance / bound)
    assert closest > 0.4


# ---------------------------------------------------------------------------------------------------- divergences


def test_the_error_that_log_concave_laws_keep() -> None:
    """Laws of deviation 1; exact tails for Laplace, half a million draws of sums. A false alarm: below 1e-9."""
    rng = np.random.default_rng(3)
    for failure in (0.3, 0.01, 1e-4):
        bound = largest_error(1.0, failure, integers=False)
        laplace = math.exp(-math.sqrt(2) * bound)
        assert failure / 3 < laplace <= failure
        draws = rng.laplace(0, 1, (500_000, 3)) @ np.array([1.0, 0.5, -0.3])
        for sample in (draws / draws.std(), rng.standard_normal(500_000), rng.uniform(-1, 1, 500_000) * 3**0.5):
            rate = float(np.mean(np.abs(sample) > bound))
            assert rate <= failure + 6 * math.sqrt(failure / 500_000)


def test_an_error_is_bounded_for_probabilities_near_one() -> None:
    """The bound falls to the deviation itself, without a difference of numbers that are nearly the same."""
    series = [largest_error(1.0, 1 - gap, integers=False) for gap in (1e-4, 1e-9, 1e-15)]
    np.testing.assert_allclose(series, [1 + gap / 3 for gap in (1e-4, 1e-9, 1e-15)], rtol=1e-8)


@every("scale", [0.05, 0.2, 0.5, 1.0, 3.0, 20.0, 300.0])
def test_integer_noise_keeps_it(scale: float) -> None:
    q = math.exp(-1 / scale)
    deviation = math.sqrt(2 * q) / (1 - q)
    for failure in (0.3, 0.05, 1e-3, 1e-6):
        bound = math.floor(largest_error(deviation, failure, integers=True))
        assert 2 * q ** (bound + 1) / (1 + q) <= failure


@every("relation", list(dc.Relation)[:2])
def test_one_record_moves_a_posterior_by_no_more_and_nearly_so_much(relation: dc.Relation) -> None:
    network = network_of({"a": 2, "b": 3}, "a>b")
    prior = dc.Dirichlet.uniform(network, 0.4)
    bound = record_divergence(prior, relation)
    rng, most = np.random.default_rng(4), 0.0
    for case in range(2000):
        counts = {node: rng.integers(0, 4, network.shape(node)) * 10.0 ** rng.integers(0, 5) for node in network.nodes}
        if case % 2:
            counts["a"][1], counts["b"][1, 0], counts["b"][0, 2] = 0, 0, 0
        records = [tuple(rng.integers(0, size) for size in (2, 3)) for _ in range(2)]
        pair = []
        for record, kept in ((records[0], True), (records[1], relation is dc.Relation.REPLACE)):
            tables = {node: counts[node] + prior.alpha[node] for node in network.nodes}
            if kept:
                tables["a"][record[0]] += 1
                tables["b"][record] += 1
            pair.append(tables)
        for one, other in (pair, pair[::-1]):
            moved = sum(float(dirichlet_kl(one[node], other[node]).sum()) for node in network.nodes)
            assert moved <= bound
            most = max(most, moved)
    assert most > 0.8 * bound


def test_the_second_order_mean_is_that_of_simulated_noise() -> None:
    """Three cells and their total, 200,000 draws: the mean's standard error is below 1 %, six of which are allowed."""
    rng = np.random.default_rng(5)
    counts = np.array([400.0, 900, 1500])
    noise = rng.laplace(0, 3, (200_000, 3))
    seen = dirichlet_kl(np.broadcast_to(counts, noise.shape), counts + noise)
    expected = float(expected_divergences(counts, 18, 54))
    assert seen.mean() == pytest.approx(expected, rel=0.03)


@every(
    "attempt",
    [
        lambda: moved_belief(0.0, 1.0),
        lambda: moved_belief(0.5, -1.0),
        lambda: best_distance(-1.0, 0.0),
        lambda: best_distance(math.nan, 0.0),
        lambda: best_distance(1.0, 1.0),
        lambda: least_misses(1.5, 1.0, 0.0),
        lambda: least_misses(0.5, 1.0, -0.1),
        lambda: records_to_tell(0.5, 1.0, 0.0),
        lambda: records_to_tell(0.05, 0.0, 0.0),
        lambda: least_distinguishable(0.0, 1, 0.1),
        lambda: largest_error(-1.0, 0.1, integers=True),
        lambda: largest_error(1.0, 1.0, integers=True),
        lambda: divergence_limits([1.0, 1.0], [-1.0, 0.0], 1.0, 5),
        lambda: divergence_limits([1.0, 1.0], [1.0, 0.0], math.nan, 5),
    ],
)
def test_numbers_out_of_their_range_are_refused(attempt: Callable[[], object]) -> None:
    with pytest.raises(dc.InputError):
        attempt()
