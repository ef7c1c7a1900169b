"""`experiments.trimmed_laws`: losses against exact posterior ratios, and the printed errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import exp, gamma, lgamma, log, log1p, pi, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, stats
from scipy.special import beta as beta_function

import discreet as dc
from discreet.privacy.guarantee import RECORD_RELATIONS, Relation
from discreet.research.readers.particles import log_beta_mass
from discreet.research.scores.likelihood_sensitivity import record_loss
from experiments.conjugate_constants import log_gamma_mass
from experiments.trimmed_laws import (
    BetaBinomial,
    ExponentialRate,
    LaplaceRate,
    NormalPrecision,
    NormalPrecisionMatrix,
    TrimmedGamma,
)
from folding import every
from tiny import network_of

Floats = npt.NDArray[np.float64]
Rates = ExponentialRate | LaplaceRate | NormalPrecision

PRIOR = TrimmedGamma(1, 0.7, 0.5, 2.5)
RATES: list[Rates] = [
    ExponentialRate(PRIOR, 1.5),
    LaplaceRate(PRIOR, 0.4, 1.5),
    LaplaceRate(PRIOR, -3.0, 1.0),
    NormalPrecision(PRIOR, 0.3, 1.5),
    NormalPrecision(PRIOR, -2.5, 1.0),
]
LEAST = {ExponentialRate: 0.0, LaplaceRate: -1.0, NormalPrecision: -1.0}


def log_density(family: Rates, theta: Floats) -> Floats:
    """Of the trimmed posterior."""
    law = family.prior
    mass = log_gamma_mass(law.shape, law.rate, law.low, law.high)
    return np.asarray(stats.gamma.logpdf(theta, law.shape, scale=1 / law.rate) - mass)


def farthest(family: Rates, one: Sequence[float], other: Sequence[float]) -> float:
    """Largest absolute log ratio of two posteriors over the support."""
    theta = np.linspace(family.prior.low, family.prior.high, 501)
    gap = log_density(family.posterior(one), theta) - log_density(family.posterior(other), theta)
    return float(np.abs(gap).max())


def some_records(family: Rates) -> Floats:
    """Ends of the public range, the middle, and the nearest to the known centre."""
    low = LEAST[type(family)] * family.bound
    centre = {ExponentialRate: 0.0}.get(type(family), getattr(family, "location", getattr(family, "mean", 0.0)))
    return np.array([low, family.bound, (low + family.bound) / 2, np.clip(centre, low, family.bound)])


@pytest.mark.costly("A wrong record loss is found by ratios of posteriors over a fine grid only.")
@every("family", RATES)
def test_no_posterior_ratio_exceeds_the_record_loss_and_one_comes_near(family: Rates) -> None:
    records = some_records(family)
    for relation in RECORD_RELATIONS:
        reached = 0.0
        for size, common in product((0, 10, 1000), records):
            base = [common] * size
            others = [base] if relation is Relation.ADD_REMOVE else [[*base, y] for y in records]
            for x, other in product(records, others):
                reached = max(reached, farthest(family, [*base, x], other))
        loss = family.record_loss(relation)
        assert reached <= loss * (1 + 1e-9)
        assert reached > 0.95 * loss


@every("family", RATES)
def test_no_posterior_ratio_exceeds_the_loss_at_a_distance(family: Rates) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, y = rng.uniform(LEAST[type(family)] * family.bound, family.bound, (2, 5))
        rho = np.abs(x - y).sum()
        if isinstance(family, NormalPrecision):
            rho = np.abs(x**2 - y**2).sum() + 2 * rho
        assert farthest(family, list(x), list(y)) <= family.loss(rho) * (1 + 1e-9)
        # The theorem's 2 L rho is never less.
        assert family.loss(rho) <= 2 * family.prior.high * max(1, abs(getattr(family, "mean", 0))) * rho


def test_the_losses_of_the_table() -> None:
    for family in (ExponentialRate(PRIOR, 1.0), LaplaceRate(PRIOR, 0.0, 1.0)):
        assert family.loss(0.3) == pytest.approx(2.0 * 0.3)
        assert family.record_loss(Relation.REPLACE) == pytest.approx(2.0)
    assert NormalPrecision(PRIOR, -3.0, 1.0).loss(0.3) == pytest.approx(2.0 * 3 / 2 * 0.3)
    assert NormalPrecision(PRIOR, 0.0, 2.0).record_loss(Relation.REPLACE) == pytest.approx(2.0 * 4 / 2)


# ------------------------------------------------------------------------------------------ precision matrices


def matrix_family(mean: Sequence[float], bound: float) -> NormalPrecisionMatrix:
    d = len(mean)
    return NormalPrecisionMatrix(d + 2.0, np.eye(d), 0.5, 2.0, np.array(mean), bound)


def precisions(d: int, directions: Floats) -> list[Floats]:
    """Matrices with eigenvalues at the ends of the support and in the middle, along some directions."""
    bases = [np.linalg.qr(np.column_stack([direction, np.eye(d)]))[0][:, :d] for direction in directions]
    return [basis @ np.diag(values) @ basis.T for basis in bases for values in product((0.5, 1.0, 1.3, 2.0), repeat=d)]


@every("mean", [[0.0, 0.0], [0.8, 0.0], [3.0, 0.0], [0.4]])
def test_the_range_of_matrices_is_never_exceeded_and_reached(mean: list[float]) -> None:
    family, d, rng = matrix_family(mean, 1.0), len(mean), np.random.default_rng(3)
    angles = np.linspace(0, 2 * pi, 33)[:-1]
    unit = np.column_stack([np.cos(angles), np.sin(angles)]) if d == 2 else np.array([[1.0], [-1.0]])
    records = np.concatenate(
        [unit, unit * rng.uniform(0, 1, (len(unit), 1)), np.zeros((1, d)), np.clip(mean, -1, 1)[None]]
    )
    matrices = precisions(d, unit[: 1 + len(unit) // 2])
    logs = np.array([
        [0.5 * np.linalg.slogdet(a)[1] - 0.5 * (x - mean) @ a @ (x - mean) for x in records] for a in matrices
    ])  # fmt: skip
    ratios = logs[:, :, None] - logs[:, None, :]
    ranges = {Relation.ADD_REMOVE: np.ptp(logs, axis=0).max(), Relation.REPLACE: np.ptp(ratios, axis=0).max()}
    for relation, reached in ranges.items():
        assert 0.97 * family.record_loss(relation) < reached <= family.record_loss(relation) * (1 + 1e-9)
    rho = np.array([
        [np.linalg.norm(np.outer(x, x) - np.outer(y, y)) + 2 * np.linalg.norm(x - y) for y in records] for x in records
    ])  # fmt: skip
    assert np.all(np.ptp(ratios, axis=0) <= family.loss(1.0) * rho + 1e-9)


# ------------------------------------------------------------------------------------------ zeros and ones


@every(("a", "printed"), [(1, 0.3715), (2, 0.2759), (4, 0.2026), (10, 0.1353)])
def test_the_exact_total_variation_of_fifty_bits(a: float, printed: float) -> None:
    assert round(BetaBinomial(a, a, 0).replace_delta(50, 0), 4) == printed


def test_the_total_variation_tends_to_its_limit() -> None:
    for a, printed, digits in [(1, 0.368, 3), (2, 0.271, 3), (5, 0.175, 3), (10, 0.125, 3)]:
        limit = a**a * exp(-a) / gamma(a + 1)
        assert round(limit, digits) == printed
        assert BetaBinomial(a, a, 0).replace_delta(20_000, 0) == pytest.approx(limit, rel=1e-3)


@every(
    ("a", "printed"),
    [
        (1, ("0.369", "0.251", "0.164", "0.065")),
        (5, ("0.178", "0.048", "0.0086", "0.00013")),
        (20, ("0.093", "0.0027", "9e-06")),
    ],
)
def test_the_exact_delta_of_two_hundred_bits(a: float, printed: tuple[str, ...]) -> None:
    for epsilon, value in zip((0, 0.5, 1, 2), printed, strict=False):
        digits = len(value.split("e")[0].replace("0.", "").lstrip("0"))
        assert float(f"{BetaBinomial(a, a, 0).replace_delta(200, epsilon):.{digits}g}") == float(value)


@every(("alpha", "beta"), [(1, 1), (0.3, 2), (4, 1)])
def test_the_delta_is_the_integral_of_the_excess(alpha: float, beta: float) -> None:
    for epsilon in (0.0, 0.7):
        values = []
        for ones in (0, 2, 4):
            one, other = (alpha + ones + 1, beta + 4 - ones), (alpha + ones, beta + 5 - ones)
            for p, q in ((one, other), (other, one)):
                excess = integrate.quad(
                    lambda u, p=p, q=q, e=epsilon: max(0.0, gap(p, q, e, u)), -60, 60, limit=500, points=[0]
                )
                values.append(excess[0])
        assert BetaBinomial(alpha, beta, 0).replace_delta(5, epsilon) == pytest.approx(max(values), abs=1e-6)


def gap(p: tuple[float, float], q: tuple[float, float], epsilon: float, u: float) -> float:
    """Excess of one beta law's density over `exp(epsilon)` times another's, in the logit u."""
    below, above = -log1p(exp(-u)), -log1p(exp(u))
    one, other = (exp(a * below + b * above - lgamma(a) - lgamma(b) + lgamma(a + b)) for a, b in (p, q))
    return one - exp(epsilon) * other


def test_a_trimmed_bit_has_the_range_of_its_odds() -> None:
    family = BetaBinomial(1, 2, 0.1)
    assert family.record_loss(Relation.REPLACE) == pytest.approx(4.394, abs=5e-4)
    assert family.record_loss(Relation.ADD_REMOVE) == pytest.approx(2.197, abs=5e-4)
    theta = np.linspace(0.1, 0.9, 201)

    def density(ones: int, zeros: int) -> Floats:
        alpha, beta = family.alpha + ones, family.beta + zeros
        return np.asarray(stats.beta.logpdf(theta, alpha, beta) - log_beta_mass(alpha, beta, 0.1, 0.9))

    for relation, other in [(Relation.REPLACE, (0, 1)), (Relation.ADD_REMOVE, (0, 0))]:
        ratios = [
            float(np.abs(density(ones + 1, zeros) - density(ones + other[0], zeros + other[1])).max())
            for ones, zeros in [(0, 0), (0, 3), (5, 5), (0, 1000), (1000, 0)]
        ]
        assert 0.98 * family.record_loss(relation) < max(ratios) <= family.record_loss(relation) * (1 + 1e-9)


def test_an_untrimmed_bit_has_no_pure_loss() -> None:
    family = BetaBinomial(1, 1, 0)
    for relation in RECORD_RELATIONS:
        with pytest.raises(dc.InputError, match="no finite pure loss"):
            family.record_loss(relation)
    with pytest.raises(dc.InputError, match="use record_loss"):
        BetaBinomial(1, 1, 0.1).replace_delta(10, 0)


# ------------------------------------------------------------------------------------------ what was printed


def test_lemma_20_prints_a_constant_below_one() -> None:
    c1, c2, bound, mean = 0.2, 0.202, 0.1, 0.0
    printed = c2 / (2 * min(1 / (2 * c2), exp((-bound - mean) / c1) / (2 * c1)))
    assert round(printed, 3) == 0.067
    radius = bound + abs(mean)
    assert c2 / min(c1 * exp(-c1 * radius), c2 * exp(-c2 * radius)) >= 1


def test_lemma_21_in_detail() -> None:
    rates = {a: 2 ** (1 - 2 * a) / beta_function(a, a) for a in (1, 2, 3, 4, 10)}
    assert {a: round(c, 4 if a < 4 else 3) for a, c in rates.items()} == {
        1: 0.5,
        2: 0.75,
        3: 0.9375,
        4: 1.094,
        10: 1.762,
    }

    def rate(a: float) -> float:
        return float(2 ** (1 - 2 * a) / beta_function(a, a))

    # (i) c > 1 needs a >= 3.4, c >= 2 needs a >= 13, not a > 1.
    assert rate(3.3) < 1 < rate(3.4) and rate(12.5) < 2 < rate(13)
    # (ii) The beta function's minimum for even n is lower than printed.
    n, a = 50, 1
    printed_minimum = beta_function((n + 2 * a - 1) / 2, (n + 2 * a + 1) / 2)
    assert beta_function((n + 2 * a) / 2, (n + 2 * a) / 2) < printed_minimum
    # (iii) The ratio of likelihood and marginal, at most n + 1, against an exponential constant.
    constant = beta_function(a, a) / printed_minimum
    assert float(f"{constant:.2g}") == 6.4e15
    theta = np.linspace(0, 1, 1001)
    assert max((stats.binom.pmf(k, n, theta) * (n + 1)).max() for k in range(n + 1)) == pytest.approx(51)
    # (iv) The binomial coefficients cancel: by sequences the constant at theta = 1/2 is 0, not ln n.
    assert BetaBinomial(1, 1, 0.499999).record_loss(Relation.REPLACE) < 1e-5
    # (v) The printed delta.
    delta = sqrt(constant / 2 * (1 + 2 * log(n) + 2 ** (2 * a - 1) * beta_function(a, a)))
    assert float(f"{delta:.2g}") == 1.9e8


def test_lemma_22_prints_a_constant_that_is_violated() -> None:
    c1, c2, radius = 0.1, 1.0, 5.0
    printed = min(sqrt(c2 / c1) * exp(c1 * c2**2 / 2), exp(c2**3 / 2))
    corrected = max(sqrt(c2 / c1) * exp(c1 * radius**2 / 2), exp(c2 * radius**2 / 2))
    theta = np.linspace(c1, c2, 2001)
    prior = np.exp(-1e-3 * theta) / integrate.trapezoid(np.exp(-1e-3 * theta), theta)
    worst = 0.0
    for x in np.linspace(0, radius, 101):
        density = np.sqrt(theta) * np.exp(-theta * x**2 / 2)
        worst = max(worst, density.max() / integrate.trapezoid(density * prior, theta))
    assert round(worst / printed, 1) == 5.2
    assert worst <= corrected


def test_lemma_23_has_a_diameter_of_more_than_three() -> None:
    angles = np.linspace(0, pi, 100_001)
    # Two unit vectors: ||xx' - yy'||_F = sqrt(2) sin(angle), ||x - y|| = 2 sin(angle / 2).
    assert round(float((sqrt(2) * np.sin(angles) + 4 * np.sin(angles / 2)).max()), 2) == 4.71


def test_lemma_24_prints_the_loss_of_an_attribute() -> None:
    network = network_of(dict.fromkeys("abcde", 2))
    assert round(2 * 1 * log(1 / 0.1), 1) == 4.6
    assert round(record_loss(network, dict.fromkeys("abcde", 0.1), Relation.REPLACE), 1) == 22.0


# ------------------------------------------------------------------------------------------ refusals


def test_distances_are_finite_and_not_negative() -> None:
    for family in (*RATES, matrix_family([0.0], 1)):
        for rho in (-1.0, float("nan"), float("inf")):
            with pytest.raises(dc.InputError, match="distance"):
                family.loss(rho)


@every(
    "make",
    [
        lambda bad: ExponentialRate(PRIOR, bad),
        lambda bad: LaplaceRate(PRIOR, 0.0, bad),
        lambda bad: NormalPrecision(PRIOR, 0.0, bad),
        lambda bad: matrix_family([0.0, 0.0], bad),
    ],
)
def test_data_without_bounds_have_no_pure_loss(make: Callable[[float], object]) -> None:
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(dc.InputError, match="no finite pure loss exists"):
            make(bad)


def test_bad_parameters_are_refused() -> None:
    nan = float("nan")
    for numbers in [(0, 1, 1, 2), (1, nan, 1, 2), (1, 1, 0, 2), (1, 1, 2, 1), (1, 1, 1, float("inf"))]:
        with pytest.raises(dc.InputError, match="trimmed gamma"):
            TrimmedGamma(*numbers)
    with pytest.raises(dc.InputError, match="location or mean"):
        LaplaceRate(PRIOR, nan, 1.0)
    for alpha, beta, floor in [(0, 1, 0.1), (1, nan, 0.1), (1, 1, 0.5), (1, 1, -0.1)]:
        with pytest.raises(dc.InputError, match="beta prior"):
            BetaBinomial(alpha, beta, floor)
    for records, epsilon in [(0, 1.0), (5, -1.0), (5, nan)]:
        with pytest.raises(dc.InputError, match="exact delta"):
            BetaBinomial(1, 1, 0).replace_delta(records, epsilon)
    two = np.zeros(2)
    for degrees, scale, low, mean, message in [
        (3.0, np.eye(3), 0.5, two, "shape"),
        (3.0, np.array([[1.0, 2], [2, 1]]), 0.5, two, "positive definite"),
        (3.0, np.array([[1.0, 0.1], [0, 1]]), 0.5, two, "symmetric"),
        (1.0, np.eye(2), 0.5, two, "degrees of freedom"),
        (3.0, np.eye(2), 0.0, two, "0 < low"),
    ]:
        with pytest.raises(dc.InputError, match=message):
            NormalPrecisionMatrix(degrees, scale, low, 2.0, mean, 1.0)


def test_data_out_of_bounds_are_refused_without_being_shown() -> None:
    secret = 7.654321
    for family in RATES:
        for data in ([0.0, secret], [float("nan")]):
            with pytest.raises(dc.InputError, match="public range") as caught:
                family.posterior(data)
            assert "7.65" not in str(caught.value)
        with pytest.raises(dc.InputError, match="shape"):
            family.posterior([[0.1]])
    with pytest.raises(dc.InputError, match="public range"):
        matrix_family([0.0, 0.0], 1.0).posterior([[1.0, 1.0]])
    with pytest.raises(dc.InputError, match="shape"):
        matrix_family([0.0, 0.0], 1.0).posterior([1.0, 1.0])
