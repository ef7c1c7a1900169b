"""Latent counts of one row against enumeration and high-precision arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest

from discreet.posterior import latent_counts as module
from discreet.posterior.evidence import LaplaceEvidence
from discreet.posterior.latent_counts import NotDrawnError, _log_gamma_ratio, draw_counts
from discreet.posterior.totals import TotalLaw
from oracle import row_posterior
from rows import DISTANCE, DRAWS, ROWS, distance


def noisy(z: Sequence[int], b: float) -> LaplaceEvidence:
    """What a row of noisy counts says."""
    return LaplaceEvidence(np.array(z, float), b)


@pytest.mark.parametrize("case", ROWS)
def test_counts_have_the_exact_law(case: str) -> None:
    z, a, b, top = ROWS[case]
    exact = row_posterior(z, a, b, top)
    rng = np.random.default_rng(sum(map(ord, case)))
    counts = draw_counts(noisy(z, b), np.array(a), DRAWS, rng, None)
    assert counts.shape == (len(z), DRAWS)
    assert counts.min() >= 0
    assert distance(counts.sum(axis=0), *exact.total_law()) < DISTANCE
    for k in range(len(z)):
        assert distance(counts[k], *exact.cell_law(k)) < DISTANCE


def test_bound_would_notice_the_wrong_prior_or_scale() -> None:
    """The exact laws of slightly wrong models are further away than the bound."""
    values, right = row_posterior((7, 2), (0.25, 0.25), 3.0, (110, 110)).total_law()
    for a, b in (((1.0, 1.0), 3.0), ((0.25, 0.25), 2.0)):
        _, wrong = row_posterior((7, 2), a, b, (110, 110)).total_law()
        assert np.abs(np.cumsum(right) - np.cumsum(wrong))[values].max() > 1.5 * DISTANCE


# Noisy counts, concentrations, noise scale; mean and standard deviation of what is believed of the total.
BELIEVED = {
    "says more than the noise": ((9, 1, 30), (0.25, 1.0, 0.25), 8.0, 20.0, 2.0),
    "says less than the noise": ((9, 4), (0.25, 0.25), 1.0, 20.0, 10.0),
    "an empty row": ((-8, 14), (0.25, 0.25), 20.0, 0.0, 1.0),
    "steep prior": ((3, 9), (30.0, 30.0), 3.0, 16.0, 4.0),
    "contradicts the noise": ((30, 5), (0.25, 0.25), 4.0, 12.0, 3.0),
    "three": ((-2, 7, 3), (5.0, 0.25, 1.0), 3.0, 18.0, 6.0),
}


@pytest.mark.parametrize("case", BELIEVED)
def test_what_is_believed_of_the_total_is_used(case: str) -> None:
    z, a, b, mean, deviation = BELIEVED[case]

    def log_law(totals: np.ndarray) -> np.ndarray:
        return np.where(totals <= 70, -((totals - mean) ** 2) / (2 * deviation**2), -np.inf)

    law = TotalLaw(np.arange(72), 7.0 * np.exp(log_law(np.arange(71))))
    exact = row_posterior(z, a, b, (71,) * len(z), log_law)
    rng = np.random.default_rng(11 + sum(map(ord, case)))
    counts = draw_counts(noisy(z, b), np.array(a), DRAWS, rng, law)
    assert distance(counts.sum(axis=0), *exact.total_law()) < DISTANCE
    for k in range(len(z)):
        assert distance(counts[k], *exact.cell_law(k)) < DISTANCE


@pytest.mark.parametrize(
    ("z", "a", "b", "total"),
    [
        ((12, 5), (0.25, 0.25), 3.0, 20),
        ((-8, 3), (0.25, 2.0), 3.0, 4),
        ((60, -50), (0.25, 0.25), 30.0, 25),
        ((7, -2, 1), (0.25, 0.25, 0.25), 2.0, 15),
        ((7, -2, 1), (5.0, 5.0, 5.0), 2.0, 15),
        ((0, 0, 0), (1.0, 0.1, 3.0), 6.0, 40),
        ((5, 5), (0.25, 0.25), 3.0, 0),
        ((3, 4), (1.0, 1.0), 3.0, 1),
    ],
)
def test_counts_of_a_known_total_have_the_exact_law(
    z: tuple[int, ...], a: tuple[float, ...], b: float, total: int
) -> None:
    def known(totals: np.ndarray) -> np.ndarray:
        return np.where(totals == total, 0.0, -np.inf)

    exact = row_posterior(z, a, b, (total + 1,) * len(z), known)
    law = TotalLaw(np.array([total, total + 1]), np.ones(1))
    counts = draw_counts(noisy(z, b), np.array(a), DRAWS, np.random.default_rng(12), law)
    assert counts.min() >= 0
    assert np.all(counts.sum(axis=0) == total)
    for k in range(len(z)):
        assert distance(counts[k], *exact.cell_law(k)) < DISTANCE


@pytest.mark.parametrize("case", ["ordinary", "tilted", "three, 5"])
def test_a_single_draw_has_the_exact_law(case: str) -> None:
    """2,000 times one draw: the law must not depend on how many are asked for. DKW at 1e-8: 0.069."""
    z, a, b, top = ROWS[case]
    exact = row_posterior(z, a, b, top)
    rng = np.random.default_rng(13)
    counts = np.concatenate([draw_counts(noisy(z, b), np.array(a), 1, rng, None) for _ in range(2000)], axis=1)
    assert distance(counts.sum(axis=0), *exact.total_law()) < 0.069
    assert distance(counts[0], *exact.cell_law(0)) < 0.069


def test_a_law_of_totals_is_what_its_bins_say() -> None:
    law = TotalLaw(np.array([2, 3, 7, 10]), np.array([1.0, 0.0, 3.0]))
    expected = [0, 0, 0.25, 0, 0, 0, 0, 0.25, 0.25, 0.25, 0, 0]
    np.testing.assert_allclose(np.exp(law.log_density(np.arange(12.0))), expected)
    drawn = np.bincount(law.sample(40_000, np.random.default_rng(14)), minlength=12) / 40_000
    # A share of 1/4 of 40,000 is 6 standard errors (0.013) off with probability 2e-9.
    np.testing.assert_allclose(drawn, expected, atol=0.013)
    assert not np.any(drawn[np.array(expected) == 0])


def test_gates_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior worth 10,000 records of one state, against 2,000 noisy records of the other, without tilts."""
    monkeypatch.setattr(module, "ATTEMPTS", ((0, 3),))
    monkeypatch.setattr(module, "GENTLE", math.inf)
    with pytest.raises(NotDrawnError, match=r"\d+ effective proposals"):
        draw_counts(noisy((2000, 0), 3.0), np.array([1.0, 10_000.0]), 1000, np.random.default_rng(0), None)


@pytest.mark.parametrize(
    ("z", "a", "b", "mean"),
    [((0, 60), (99.25, 1.25), 2.0, 0.057), ((2, 30), (50.25, 0.25), 1.0, 0.055), ((0, 22), (20.0, 0.001), 0.7, 3.95)],
)
def test_strong_priors_reach_beyond_the_noise(
    z: tuple[int, int], a: tuple[float, float], b: float, mean: float
) -> None:
    """The second cell's mean by enumeration: a strong prior pulls its count far below the noisy one."""
    grid = np.arange(0.0, 1500.0)
    log_w = [-np.abs(grid - z[k]) / b + _log_gamma_ratio(grid, a[k]) for k in range(2)]
    log_joint = log_w[0][:, None] + log_w[1] - _log_gamma_ratio(grid[:, None] + grid, sum(a))
    weight = np.exp(log_joint - log_joint.max())
    exact = float((weight.sum(axis=0) * grid).sum() / weight.sum())
    assert exact == pytest.approx(mean, rel=0.02)
    drawn = draw_counts(noisy(z, b), np.array(a), 4000, np.random.default_rng(0), None)[1]
    spread = float(np.sqrt((weight.sum(axis=0) * (grid - exact) ** 2).sum() / weight.sum()))
    # At least 4,000 effective proposals resampled 4,000 times: 7 standard errors of twice the variance, below 1e-11.
    assert abs(drawn.mean() - exact) < 7 * spread * np.sqrt(2 / 4000)


# ------------------------------------------------------------------------------------------------ log-gamma ratios


def reference_ratio(m: int, a: float) -> float:
    """Log Gamma(m + a) - log m! with 50 digits: Stirling's series, after shifting the argument above 1,000."""
    with localcontext() as context:
        context.prec = 50

        def log_gamma(x: Decimal) -> Decimal:
            shift = Decimal(0)
            while x < 1000:
                shift += x.ln()
                x += 1
            two_pi = Decimal("6.28318530717958647692528676655900576839433879875021")
            series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5) - 1 / (1680 * x**7)
            return (x - Decimal("0.5")) * x.ln() - x + two_pi.ln() / 2 + series - shift

        return float(log_gamma(m + Decimal(a)) - log_gamma(Decimal(m + 1)))


def test_the_reference_is_right_where_it_is_known() -> None:
    for m, a in product((0, 1, 7, 500, 2000), (1, 2, 3, 10)):
        exact = math.log(math.prod(range(m + 1, m + a)))
        assert reference_ratio(m, float(a)) == pytest.approx(exact, rel=1e-14, abs=1e-14)
    for m in (0, 3, 40, 1500):
        half = math.log(math.comb(2 * m, m)) - 2 * m * math.log(2) + 0.5 * math.log(math.pi)
        assert reference_ratio(m, 0.5) == pytest.approx(half, abs=1e-12)


def counts_for(a: float) -> list[int]:
    """Counts of every size, and on both sides of the two switches of the code."""
    far = int(module.FAR * max(a, 1.0))
    switches = [m + step for m in (module.TABULATED, far) for step in (-1, 0, 1)]
    return sorted([0, 1, 2, 10, 999, 10**5, *switches, 10**7, 10**9, 10**12, 10**15])


@pytest.mark.parametrize("a", [0.01, 0.25, 0.5, 1.0, 2.0, 3.5, 50.0, 300.0, 1e4, 1e5])
def test_log_gamma_ratio_is_accurate(a: float) -> None:
    """Up to 100,000 records: `Dirichlet.from_probabilities` with an old survey."""
    counts = counts_for(a)
    expected = np.array([reference_ratio(m, a) for m in counts])
    # Below the upper switch two log-gammas cancel; above it, what the constant's docstring promises.
    far = max(module.FAR * max(a, 1.0), module.TABULATED)
    cancelled = [2e-15 * math.lgamma(m + a) if m <= far else 5e-13 * a for m in counts]
    bound = 1e-12 + np.abs(cancelled) + 2e-15 * np.abs(expected)
    assert np.all(np.abs(_log_gamma_ratio(np.array(counts, float), a) - expected) <= bound)
    # One at a time, so that what else is asked for cannot matter.
    alone = np.array([_log_gamma_ratio(np.array([float(m)]), a)[0] for m in counts])
    assert np.all(np.abs(alone - expected) <= bound)


@pytest.mark.parametrize("a", [0.25, 1.0, 50.0, 300.0])
@pytest.mark.parametrize("switch", ["TABULATED", "FAR"])
def test_log_gamma_ratio_is_smooth_across_its_switches(a: float, switch: str) -> None:
    """Steps from one count to the next are log((m + a) / (m + 1)), exactly."""
    middle = int(getattr(module, switch) * (max(a, 1.0) if switch == "FAR" else 1))
    counts = np.arange(middle - 50, middle + 50, dtype=float)
    steps = np.diff(_log_gamma_ratio(counts, a))
    rounding = 4e-15 * math.lgamma(middle + a)
    np.testing.assert_allclose(steps, np.log((counts[:-1] + a) / (counts[:-1] + 1)), rtol=0, atol=rounding)
