"""`discreet.research.scores.factors`, `choice_likelihood`: choices against all data sets, bounds that bracket, widths.

References are plain loops over data sets and over the terms of the printed formulas.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import discreet as dc
from discreet.research.scores import factors
from discreet.research.scores.choice_likelihood import (
    clt_log_marginal,
    exact_log_marginal,
    lower_log_marginal,
    upper_log_marginal,
)
from discreet.research.scores.factors import CategoricalFactor, DirectionFactor, spread_candidates, standard_normals
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every

Floats = npt.NDArray[np.float64]

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE

# ------------------------------------------------------------------------------------------------ the paper's coin

CHANCES = np.arange(1, 10) / 10
COIN = CategoricalFactor(np.stack([1 - CHANCES, CHANCES], axis=1), floor=0.1)
GRID = np.linspace(0.005, 0.995, 199)
COIN_LAWS = np.stack([1 - GRID, GRID], axis=1)
COIN_FACTORS = COIN.log_factors([0, 1])
NORMALS = standard_normals(128, 9)
SEVEN = 6
"""The candidate 0.7."""


def coin(epsilon: float, n: int) -> tuple[Floats, Floats, Floats]:
    """Exact probabilities and both bounds, each of shape (laws, candidates)."""
    phi = epsilon * COIN_FACTORS
    return (
        np.exp(exact_log_marginal(COIN_LAWS, phi, n)),
        np.exp(lower_log_marginal(COIN_LAWS, phi, n)),
        np.exp(upper_log_marginal(COIN_LAWS, phi, n)),
    )


@every(
    ("epsilon", "below", "above"),
    [
        (1e-4, "-2.5e-08", "4.4e-09"),
        (1e-3, "-2.5e-06", "4.4e-07"),
        (1e-2, "-0.00022", "4.4e-05"),
        (0.1, "-0.0104", "0.00326"),
        (0.5, "-0.105", "0.0416"),
    ],
)
def test_errors_of_the_bounds_are_those_of_figure_2a(epsilon: float, below: str, above: str) -> None:
    exact, lower, upper = coin(epsilon, 100)
    for worst, printed in (((lower - exact).min(), below), ((upper - exact).max(), above)):
        digits = len(printed.split("e")[0].lstrip("-0.").replace(".", ""))
        assert f"{worst:.{digits}g}" == printed


def test_peaks_are_those_of_figure_2b() -> None:
    peaks = [f"{curve[:, SEVEN].max():.3f}" for curve in coin(0.5, 100)]
    assert peaks == ["0.383", "0.375", "0.420"]


@every("n", [1, 10, 100, 1000])
@every("epsilon", np.logspace(-4, 0, 13))
def test_bounds_bracket_the_coin_on_a_grid(epsilon: float, n: int) -> None:
    phi = epsilon * COIN_FACTORS
    exact = exact_log_marginal(COIN_LAWS, phi, n)
    # Relative to the probability: 1e-10 is what gamma functions of a thousand leave of sixteen digits.
    assert np.all(lower_log_marginal(COIN_LAWS, phi, n) <= exact + 1e-10)
    assert np.all(exact <= upper_log_marginal(COIN_LAWS, phi, n) + 1e-10)
    assert np.allclose(np.exp(exact).sum(axis=1), 1, rtol=0, atol=1e-10)


def test_the_gap_of_the_bounds_shrinks_with_the_square_of_epsilon() -> None:
    gaps = [(upper - lower).max() for _, lower, upper in (coin(1e-4, 100), coin(1e-3, 100))]
    assert gaps[1] / gaps[0] == pytest.approx(100, rel=0.02)
    assert gaps[0] < 1e-7


@every(("epsilon", "error"), [(0.01, 1e-6), (0.1, 1e-4), (0.5, 2.5e-3), (1.0, 1e-2)])
def test_the_limit_theorem_is_nearer_than_the_bounds(epsilon: float, error: float) -> None:
    exact, lower, upper = coin(epsilon, 100)
    found = np.exp(clt_log_marginal(COIN_LAWS, epsilon * COIN_FACTORS, 100, normals=NORMALS))
    assert np.abs(found - exact).max() < error
    assert np.abs(found - exact).max() < 0.1 * min(np.abs(lower - exact).max(), np.abs(upper - exact).max())
    assert np.allclose(found.sum(axis=1), 1)


def test_the_factor_is_the_clamped_log_probability() -> None:
    expected = np.log(COIN.candidates.T) / abs(math.log(0.1))
    shift = COIN_FACTORS - expected
    assert np.allclose(shift, shift[:, :1], rtol=0, atol=2 / SCORE_STEPS)
    assert COIN_FACTORS.min() == 0


# ------------------------------------------------------------------------------------------------ all data sets


def by_enumeration(laws: Floats, phi: Floats, n: int) -> Floats:
    """The mean of the choice's law over all T^n ordered data sets."""
    total = np.zeros(phi.shape[1])
    for data in product(range(len(laws)), repeat=n):
        weights = np.exp(sum((phi[x] for x in data), np.zeros(phi.shape[1])))
        total += math.prod(laws[x] for x in data) * weights / weights.sum()
    return total


def by_formula_5a(laws: Floats, phi: Floats, n: float) -> Floats:
    """One over a sum of powers, term by term."""
    return np.array(
        [1 / sum((laws @ np.exp(phi[:, y] - phi[:, z])) ** n for y in range(phi.shape[1])) for z in range(phi.shape[1])]
    )


def by_formula_5b(laws: Floats, phi: Floats, n: float) -> Floats:
    """With products of powers, term by term."""
    q = np.exp(n * (laws @ phi))
    q /= q.sum()
    found = np.empty(phi.shape[1])
    for z in range(phi.shape[1]):
        mean = sum(p * np.exp(row[z]) / np.prod(np.exp(row) ** q) for p, row in zip(laws, phi, strict=True))
        found[z] = np.prod(q**q) * mean**n
    return found


@st.composite
def settings_of_types(draw: st.DrawFn, most_records: int) -> tuple[Floats, Floats, int]:
    """Laws over up to four types, log factors of up to five candidates, and a number of records."""
    types, candidates = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    laws = rng.dirichlet(np.full(types, draw(st.sampled_from([0.2, 1.0, 5.0]))))
    # The types need not be equally likely, and one may be impossible.
    if types > 1 and draw(st.booleans()):
        laws[0] = 0
        laws /= laws.sum()
    epsilon = draw(st.sampled_from([1e-3, 0.1, 1.0, 5.0]))
    factor = CategoricalFactor(rng.dirichlet(np.ones(types), size=candidates), floor=draw(st.sampled_from([0.01, 0.3])))
    return laws, epsilon * factor.log_factors(np.arange(types)), draw(st.integers(0, most_records))


@given(settings_of_types(5))
def test_the_sum_over_histograms_is_that_over_all_data_sets(setting: tuple[Floats, Floats, int]) -> None:
    laws, phi, n = setting
    assert np.allclose(np.exp(exact_log_marginal(laws, phi, n)), by_enumeration(laws, phi, n), rtol=1e-10, atol=0)


@given(settings_of_types(40))
def test_bounds_bracket_random_laws(setting: tuple[Floats, Floats, int]) -> None:
    laws, phi, n = setting
    exact = exact_log_marginal(laws, phi, n)
    assert np.all(lower_log_marginal(laws, phi, n) <= exact + 1e-10)
    assert np.all(exact <= upper_log_marginal(laws, phi, n) + 1e-10)


@given(settings_of_types(30))
def test_bounds_are_the_printed_formulas(setting: tuple[Floats, Floats, int]) -> None:
    laws, phi, whole = setting
    for n in (whole, whole + 0.5):
        assert np.allclose(np.exp(lower_log_marginal(laws, phi, n)), by_formula_5a(laws, phi, n), rtol=1e-9)
        assert np.allclose(np.exp(upper_log_marginal(laws, phi, n)), by_formula_5b(laws, phi, n), rtol=1e-9)


def test_the_printed_proof_of_the_upper_bound_adds_where_it_must_multiply() -> None:
    # Nine candidates of weight 1: their sum is 9. H[q] = ln 9 for the even q, and sum q ln w = 0.
    entropy, mean = math.log(9), 0.0
    assert math.exp(entropy + mean) == pytest.approx(9)
    assert math.exp(entropy) + math.exp(mean) > 9
    # A bound made with the sum would be below the truth.
    truth = np.exp(exact_log_marginal([1.0], np.zeros((1, 9)), 1))
    assert np.all(1 / (math.exp(entropy) + math.exp(mean)) < truth - 0.01)
    assert np.allclose(np.exp(upper_log_marginal([1.0], np.zeros((1, 9)), 1)), truth)


def test_many_laws_at_once_are_each_of_them() -> None:
    rng = np.random.default_rng(5)
    laws, phi = rng.dirichlet(np.ones(3), size=(2, 4)), rng.uniform(0, 2, size=(4, 3, 5))
    n = np.array([3, 7, 11, 2])
    for function in (lower_log_marginal, upper_log_marginal):
        together = function(laws, phi, n)
        assert together.shape == (2, 4, 5)
        assert np.allclose(function(laws, phi, n, [3, 0]), together[..., [3, 0]], rtol=1e-12)
        for i, j in product(range(2), range(4)):
            assert np.allclose(together[i, j], function(laws[i, j], phi[j], n[j]), rtol=1e-12)
    normals = standard_normals(64, 5)
    together = clt_log_marginal(laws, phi, n, normals=normals)
    assert np.allclose(clt_log_marginal(laws, phi, n, [1], normals=normals), together[..., [1]])
    assert np.allclose(together[1, 2], clt_log_marginal(laws[1, 2], phi[2], 11, normals=normals))
    together = exact_log_marginal(laws, phi, 6)
    assert np.allclose(together[1, 2], exact_log_marginal(laws[1, 2], phi[2], 6), rtol=1e-12)


def test_blocks_of_histograms_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    laws, phi = [0.2, 0.3, 0.5], 0.7 * np.eye(3)
    whole = exact_log_marginal(laws, phi, 12)
    monkeypatch.setattr("discreet.research.scores.choice_likelihood.TERMS_BLOCK", 21)
    assert np.allclose(exact_log_marginal(laws, phi, 12), whole, rtol=1e-13)


@every(("n", "epsilon"), [(0, 3.0), (1, 0.0), (50, 0.0)])
def test_without_records_or_without_epsilon_every_choice_is_as_likely(n: int, epsilon: float) -> None:
    laws, phi = [0.3, 0.7], epsilon * COIN_FACTORS
    found = [function(laws, phi, n) for function in (exact_log_marginal, lower_log_marginal, upper_log_marginal)]
    assert np.allclose([*found, clt_log_marginal(laws, phi, n, normals=NORMALS)], -math.log(9), rtol=0, atol=1e-12)


def test_records_of_one_type_leave_no_doubt_about_the_data() -> None:
    phi = np.array([[0.0, 0.1, 0.25]])
    expected = 20 * phi[0] - np.log(np.exp(20 * phi[0]).sum())
    for function in (exact_log_marginal, lower_log_marginal, upper_log_marginal):
        assert np.allclose(function([1.0], phi, 20), expected, rtol=0, atol=1e-12)
    assert np.allclose(clt_log_marginal([1.0], phi, 20, normals=standard_normals(8, 3)), expected, rtol=0, atol=1e-12)


def test_what_a_record_gives_to_all_candidates_alike_cancels() -> None:
    laws, phi, shift = [0.4, 0.6], np.array([[0.0, 1.0], [0.5, 0.2]]), np.array([[40.0], [-300.0]])
    for function in (exact_log_marginal, lower_log_marginal, upper_log_marginal):
        assert np.allclose(function(laws, phi + shift, 9), function(laws, phi, 9), rtol=0, atol=1e-10)


def test_likelihoods_too_small_for_a_float_keep_their_logarithm() -> None:
    laws, phi = [0.5, 0.5], np.array([[0.0, 400.0], [0.0, 390.0]])
    exact, lower, upper = (f(laws, phi, 10) for f in (exact_log_marginal, lower_log_marginal, upper_log_marginal))
    # The other candidate's weight is nothing beside exp(S): E[exp(-S)] is a product over independent records.
    assert exact[0] == pytest.approx(10 * math.log(0.5 + 0.5 * math.exp(-10)) - 3900, abs=1e-6)
    assert exact[1] == pytest.approx(0, abs=1e-9)
    assert -math.inf < lower[0] < exact[0] < upper[0] + 1e-6
    assert upper[0] < -3800


@every(
    ("laws", "phi", "n", "message"),
    [
        ([0.5, 0.6], np.eye(2), 3, "sum to 1"),
        ([1.5, -0.5], np.eye(2), 3, "sum to 1"),
        ([np.nan, 1.0], np.eye(2), 3, "sum to 1"),
        ([0.5, 0.5], np.eye(3), 3, "shape"),
        ([0.5, 0.5], np.ones(2), 3, "shape"),
        ([0.5, 0.5], np.ones((2, 0)), 3, "shape"),
        ([0.5, 0.5], 501 * np.eye(2), 3, "500"),
        ([0.5, 0.5], np.full((2, 2), np.nan), 3, "500"),
        ([0.5, 0.5], np.eye(2), -1, "number"),
        ([0.5, 0.5], np.eye(2), math.nan, "number"),
    ],
)
def test_what_is_no_law_is_refused(laws: Sequence[float], phi: Floats, n: float, message: str) -> None:
    for function in (lower_log_marginal, upper_log_marginal):
        with pytest.raises(dc.InputError, match=message):
            function(laws, phi, n)
    with pytest.raises(dc.InputError, match=message):
        exact_log_marginal(laws, phi, n)  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match=message):
        clt_log_marginal(laws, phi, n, normals=standard_normals(4, 2))


def test_exact_sums_that_cannot_be_done_are_refused() -> None:
    with pytest.raises(dc.InputError, match="whole"):
        exact_log_marginal([0.5, 0.5], np.eye(2), 2.5)  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="histograms"):
        exact_log_marginal(np.full(4, 0.25), np.eye(4), 1000)
    with pytest.raises(dc.InputError, match="normals"):
        clt_log_marginal([0.5, 0.5], np.eye(2), 3, normals=np.zeros((5, 3)))


# ------------------------------------------------------------------------------------------------ widths


def loss(one: Floats, other: Floats) -> float:
    """Largest log ratio of two choices' laws, from scores in nats."""
    laws = [scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max() for scores in (one, other)]
    return float(np.abs(laws[0] - laws[1]).max())


def losses(factor: CategoricalFactor, epsilon: float, most: int) -> tuple[float, float]:
    """Largest losses over all data sets of up to `most` records and all their neighbours: add-remove, replace."""
    types = range(factor.candidates.shape[1])
    nats = epsilon * factor.steps(np.array(types)) / SCORE_STEPS
    added, replaced = 0.0, 0.0
    for n in range(most):
        for data in combinations_with_replacement(types, n):
            base = sum((count * nats[x] for x, count in Counter(data).items()), np.zeros(nats.shape[1]))
            for x in types:
                added = max(added, loss(base, base + nats[x]))
                replaced = max(replaced, *(loss(base + nats[x], base + nats[y]) for y in types))
    return added, replaced


FACTORS = {
    "coin": COIN,
    "one informative type": CategoricalFactor([[0.5, 0.3, 0.2], [0.5, 0.1, 0.4]], floor=0.1),
    "clamped": CategoricalFactor([[0.98, 0.02], [0.02, 0.98], [0.5, 0.5]], floor=0.3),
    "with a zero": CategoricalFactor([[0.0, 1.0], [1.0, 0.0]], floor=0.05),
    "one type hardly tells": CategoricalFactor([[0.9, 0.05, 0.05], [0.85, 0.1, 0.05]], floor=0.01),
}


@every("name", FACTORS)
def test_widths_are_private_and_cannot_be_narrower(name: str) -> None:
    factor, epsilon, most = FACTORS[name], 3.0, 9
    widths = [factor.width(relation) * epsilon / SCORE_STEPS for relation in (ADD_REMOVE, REPLACE)]
    for loss_, width in zip(losses(factor, epsilon, most), widths, strict=True):
        assert loss_ <= width + 1e-9
        assert loss_ >= 0.7 * width
    assert widths[0] <= epsilon
    assert widths[0] <= widths[1] <= 2 * widths[0]


def test_replacing_can_cost_less_than_removing_and_adding() -> None:
    factor = FACTORS["one informative type"]
    assert factor.width(REPLACE) < 2 * factor.width(ADD_REMOVE) - 10
    assert COIN.width(REPLACE) == 2 * COIN.width(ADD_REMOVE)
    assert COIN.width(ADD_REMOVE) == pytest.approx(SCORE_STEPS * math.log(9) / math.log(10), abs=1)


def test_losses_reach_the_width_as_records_are_added() -> None:
    factor, epsilon = FACTORS["with a zero"], 1.0
    table = epsilon * factor.log_factors([0, 1])
    base = 40 * table[0]
    assert loss(base, base + table[1]) == pytest.approx(epsilon * factor.width(ADD_REMOVE) / SCORE_STEPS, rel=1e-9)
    assert loss(base + table[0], base + table[1]) == pytest.approx(
        epsilon * factor.width(REPLACE) / SCORE_STEPS, rel=1e-9
    )


def test_no_two_vectors_differ_by_more_than_the_width_of_directions() -> None:
    factor = DirectionFactor(spread_candidates(2, 12, [2, 4, 6]), noise_variance=1, tau=4)
    rows = np.concatenate([np.random.default_rng(3).normal(scale=4, size=(3000, 2)), np.zeros((1, 2))])
    steps = factor.steps(rows)
    assert steps.dtype == np.int64
    assert 0 <= steps.min() <= steps.max() == SCORE_STEPS
    spans = steps.max(axis=1) - steps.min(axis=1)
    assert 0.7 * SCORE_STEPS < spans.max() <= factor.width(ADD_REMOVE) == SCORE_STEPS
    changes = [(steps - row).max(axis=1) - (steps - row).min(axis=1) for row in steps[:200]]
    assert 1.2 * SCORE_STEPS < np.max(changes) <= factor.width(REPLACE) == 2 * SCORE_STEPS


# ------------------------------------------------------------------------------------------------ factors


@every("size", [2, 3, 5])
def test_directions_are_scored_by_their_clipped_density(size: int) -> None:
    rng = np.random.default_rng(size)
    candidates, variance, tau = rng.normal(scale=2, size=(6, size)), 0.7, 3.0
    rows = rng.normal(scale=2, size=(50, size))
    laws = [stats.multivariate_normal(np.zeros(size), np.outer(z, z) + variance * np.eye(size)) for z in candidates]
    logs = np.stack([law.logpdf(rows) for law in laws], axis=1)
    best = max(law.logpdf(np.zeros(size)) for law in laws)
    expected = (1 + np.clip(1 + (logs - best) / tau, -1, 1)) / 2
    factor = DirectionFactor(candidates, variance, tau)
    assert np.allclose(factor.log_factors(rows), expected, rtol=0, atol=0.5001 / SCORE_STEPS)
    assert np.array_equal(factor.steps(rows), factor.log_factors(rows) * SCORE_STEPS)
    assert np.any(expected == 0)
    assert factor.log_factors(np.zeros((1, size))).max() == 1
    assert np.array_equal(factor.log_factors(-rows), factor.log_factors(rows))
    assert np.array_equal(DirectionFactor(-candidates, variance, tau).steps(rows), factor.steps(rows))


def test_a_record_is_scored_alike_in_any_company() -> None:
    rng = np.random.default_rng(8)
    factor = DirectionFactor(rng.normal(size=(7, 5)), 0.3, 2.0)
    rows = rng.normal(size=(301, 5))
    together = factor.steps(rows)
    assert np.array_equal(together, np.concatenate([factor.steps(row[None]) for row in rows]))
    assert np.array_equal(together, factor.steps(np.asfortranarray(rows)))


def test_codes_may_have_a_column() -> None:
    assert np.array_equal(COIN.steps([[1], [0], [1]]), COIN.steps(np.array([1, 0, 1], np.uint8)))
    assert COIN.steps(np.zeros(0, np.int64)).shape == (0, 9)


def test_candidates_cannot_be_written_and_are_copies() -> None:
    given_ = np.array([[0.5, 0.5], [0.2, 0.8]])
    factor = CategoricalFactor(given_, floor=0.1)
    given_[0] = 0
    assert factor.candidates[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        factor.candidates[0] = 0


@every("rows", [[2], [-1], [0.0], [[0, 1]], [True], [np.nan]])
def test_what_is_no_code_is_refused_without_showing_it(rows: list[float]) -> None:
    with pytest.raises(dc.InputError, match="codes from 0 to 1"):
        COIN.log_factors(rows)


@every("rows", [[[np.nan, 1]], [[np.inf, 1]], [[1e101, 1]], [[1, 2, 3]], [1, 2]])
def test_what_is_no_vector_is_refused_without_showing_it(rows: list[float]) -> None:
    with pytest.raises(dc.InputError, match="rows of 2 numbers within"):
        DirectionFactor([[1, 0], [0, 1]], 1, 1).log_factors(rows)


@every(
    ("candidates", "floor"),
    [
        ([[0.5, 0.5]], 0.1),
        ([[0.5, 0.6], [0.5, 0.5]], 0.1),
        ([[1.5, -0.5], [0.5, 0.5]], 0.1),
        ([[np.nan, 1], [0.5, 0.5]], 0.1),
        ([0.5, 0.5], 0.1),
        ([[], []], 0.1),
        ([[0.5, 0.5]] * 1001, 0.1),
        ([[0.5, 0.5], [0.4, 0.6]], 0.0),
        ([[0.5, 0.5], [0.4, 0.6]], 1.0),
        ([[0.5, 0.5], [0.4, 0.6]], math.nan),
    ],
)
def test_what_is_no_categorical_factor_is_refused(candidates: list[list[float]], floor: float) -> None:
    with pytest.raises(dc.InputError, match=r"candidate|floor"):
        CategoricalFactor(candidates, floor)  # type: ignore[arg-type]


@every(
    ("candidates", "variance", "tau"),
    [
        ([[1.0, 0.0]], 1, 1),
        ([[1.0], [2.0]], 1, 1),
        ([[np.inf, 0], [0, 1]], 1, 1),
        ([[1, 0], [0, 1]], 0, 1),
        ([[1, 0], [0, 1]], 1, 0),
        ([[1, 0], [0, 1]], math.nan, 1),
        ([[1, 0], [0, 1]], 1, math.inf),
    ],
)
def test_what_is_no_direction_factor_is_refused(candidates: list[list[float]], variance: float, tau: float) -> None:
    with pytest.raises(dc.InputError, match=r"candidates|coordinates|noise_variance|tau"):
        DirectionFactor(candidates, variance, tau)  # type: ignore[arg-type]


def test_a_half_circle_is_cut_evenly() -> None:
    found = spread_candidates(2, 12, [2, 4, 6])
    assert np.allclose(np.linalg.norm(found, axis=1), np.repeat([2, 4, 6], 12))
    assert np.allclose(np.degrees(np.arctan2(found[:, 1], found[:, 0])), np.tile(np.arange(0, 180, 15), 3))


@every(("size", "directions", "apart"), [(3, 6, 54), (3, 24, 24), (5, 5, 75), (10, 40, 58)])
def test_half_a_sphere_is_covered_widely(size: int, directions: int, apart: float) -> None:
    found = spread_candidates(size, directions, [2.0])
    assert found.shape == (directions, size)
    assert np.allclose(np.linalg.norm(found, axis=1), 2)
    assert np.all(found[:, 0] >= 0)
    assert np.array_equal(found[0], 2.0 * np.eye(size)[0])
    cosines = np.abs(found @ found.T)[np.triu_indices(directions, 1)] / 4
    assert np.degrees(np.arccos(cosines.max())) > apart
    assert np.array_equal(found, spread_candidates(size, directions, 2.0))


@every(
    ("size", "directions", "radii"),
    [(1, 3, [1.0]), (1001, 3, [1.0]), (2, 0, [1.0]), (2, 3, []), (2, 3, [0.0]), (2, 3, [np.nan]), (2, 501, [1.0, 2.0])],
)
def test_spreads_that_cannot_be_are_refused(size: int, directions: int, radii: list[float]) -> None:
    with pytest.raises(dc.InputError, match=r"directions|radii"):
        spread_candidates(size, directions, radii)


def test_points_have_the_moments_of_the_normal_law() -> None:
    points = standard_normals(4096, 4)
    assert np.allclose(points.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(points.T @ points / 4096, np.eye(4), atol=5e-3)


@every(("points", "size"), [(100, 2), (0, 2), (64, 0), (64, 30000)])
def test_points_that_cannot_be_are_refused(points: int, size: int) -> None:
    with pytest.raises(dc.InputError, match="power of two"):
        standard_normals(points, size)


def test_points_stand_for_continuous_records() -> None:
    """The choice's law over 6,000 simulated data sets; each comparison is off with probability below 1e-8 (6 sigma)."""
    factor = DirectionFactor(spread_candidates(2, 4, [2.0, 4.0]), noise_variance=1, tau=4)
    theta, n, epsilon, sets = np.array([2.5, 1.0]), 40, 0.3, 6000
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(sets * n, 1)) * theta + rng.normal(size=(sets * n, 2))
    scores = epsilon * factor.log_factors(rows).reshape(sets, n, -1).sum(axis=1)
    laws = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    mean, error = laws.mean(axis=0), laws.std(axis=0) / math.sqrt(sets)
    normals = standard_normals(4096, 3)
    phi = epsilon * factor.log_factors(normals[:, :1] * theta + normals[:, 1:])
    even = np.full(4096, 1 / 4096)
    assert np.all(np.exp(lower_log_marginal(even, phi, n)) < mean + 6 * error)
    assert np.all(np.exp(upper_log_marginal(even, phi, n)) > mean - 6 * error)
    found = np.exp(clt_log_marginal(even, phi, n, normals=standard_normals(256, 8)))
    assert np.all(np.abs(found - mean) < 6 * error + 2e-3 * mean)


def test_what_is_no_number_counts_as_nothing() -> None:
    """A factor's cost rests on its range: nothing that is rounded leaves [0, 1]."""
    found = factors._round_to_steps(np.array([np.nan, -0.3, 0.0, 2.0**-21, 0.5, 1.0]))
    assert found.tolist() == [0.0, 0.0, 0.0, 0.0, 0.5, 1.0]
