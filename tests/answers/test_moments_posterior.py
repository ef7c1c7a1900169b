"""`designs/readers/linear.py`: layout, the law against draws from the prior, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import discreet as dc
from discreet.designs.readers import linear as posterior
from discreet.designs.readers.linear import RegressionSums, SumLayout, moment_draws, unpack
from experiments.regressions import pack

Floats = npt.NDArray[np.float64]

SIGMAS = 6.0
"""Standard errors allowed: each comparison fails in fewer than 3e-9 of all seeds."""
LAYOUTS = [(p, intercept, records) for p in (1, 2, 3) for intercept in (False, True) for records in (None, 25)]


def sums_of(features: Floats, target: Floats) -> RegressionSums:
    """Exact moments of records in [-1, 1], features with their constant."""
    return RegressionSums(
        np.array(float(len(target))), features.T @ features, features.T @ target, np.array(float(target @ target))
    )


def made_up(p: int, intercept: bool, records: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(0.2, 0.4, (records, p)) @ (np.eye(p) + 0.3), -1, 1)
    x = np.column_stack([x, np.ones(records)]) if intercept else x
    weights = np.linspace(0.4, -0.2, p + intercept)
    return x, np.clip(x @ weights + rng.normal(0, 0.2, records), -1, 1)


def noisy(p: int, intercept: bool, records: int | None, size: int, scale: float, seed: int = 1) -> Floats:
    """A release of made-up records."""
    rng = np.random.default_rng(seed)
    exact = pack(sums_of(*made_up(p, intercept, size, seed)), SumLayout(p, intercept, records))
    return np.asarray(exact + rng.gamma(exact.size + 1, scale) * rng.uniform(-1, 1, exact.size))


# ------------------------------------------------------------------------------------------------ layout


@pytest.mark.parametrize(("p", "intercept", "records"), LAYOUTS)
def test_values_are_the_products_in_row_order(p: int, intercept: bool, records: int | None) -> None:
    x, y = made_up(p, intercept, 25, 2)
    values = [] if records is not None else [25.0]
    rows = np.column_stack([x, y])
    for i in range(rows.shape[1]):
        for j in range(i, rows.shape[1]):
            if i == j == p and intercept:
                continue
            values.append(float(sum(2 * v[i] ** 2 - 1 if i == j else v[i] * v[j] for v in rows)))
    assert len(values) == SumLayout(p, intercept, records).values
    assert np.allclose(values, pack(sums_of(x, y), SumLayout(p, intercept, records)))
    found = unpack([values, values], SumLayout(p, intercept, records))
    for got, expected in zip(
        (found.records, found.gram, found.cross, found.square), (25, x.T @ x, x.T @ y, y @ y), strict=True
    ):
        assert np.allclose(got, np.stack([expected, expected]))


@pytest.mark.parametrize(("p", "intercept", "records"), LAYOUTS)
def test_packing_undoes_unpacking_of_any_numbers(p: int, intercept: bool, records: int | None) -> None:
    layout = SumLayout(p, intercept, records)
    values = np.random.default_rng(3).normal(size=(4, 2, layout.values)) * 30
    assert np.allclose(pack(unpack(values, layout), layout), values)


# ------------------------------------------------------------------------------------------------ the law


def prior_draws(
    p: int, intercept: bool, records: Floats, deviation: float, rng: np.random.Generator
) -> tuple[RegressionSums, Floats, Floats]:
    """The model, forwards: second moments of features, theta, variance, and then the moments of the target."""
    number = len(records)
    if p == 1:
        correlation = np.ones((number, 1, 1))
    else:
        assert p == 2
        correlation = np.tile(np.eye(2), (number, 1, 1))
        correlation[:, 0, 1] = correlation[:, 1, 0] = rng.uniform(-1, 1, number)
    mean = np.zeros((number, p))
    variance = rng.uniform(0, 1, (number, p))
    if intercept:
        mean = rng.uniform(-1, 1, (number, p))
    gram = np.sqrt(variance[:, :, None] * variance[:, None]) * correlation + mean[:, :, None] * mean[:, None]
    if intercept:
        gram = np.block([[gram, mean[:, :, None]], [mean[:, None], np.ones((number, 1, 1))]])
    gram = gram * records[:, None, None]
    theta = deviation * rng.standard_normal(gram.shape[:2])
    sigma = np.exp(rng.uniform(np.log(posterior.LEAST_RESIDUAL_DEVIATION), 0, number))
    root = np.linalg.cholesky(gram)
    white = np.einsum("kji,kj->ki", root, theta) + sigma[:, None] * rng.standard_normal(theta.shape)
    square = (white**2).sum(-1) + sigma**2 * rng.chisquare(records - gram.shape[-1])
    fits = ((mean**2 + variance) < 1).all(-1)
    kept = RegressionSums(records[fits], gram[fits], np.einsum("kij,kj->ki", root, white)[fits], square[fits])
    return kept, theta[fits], sigma[fits] ** 2


CASES = [
    (1, False, 30, 2.0, 2.0),
    (1, False, None, 2.0, 1.0),
    (1, True, 60, 3.0, 1.0),
    (1, True, None, 4.0, 1.0),
    (2, False, 150, 4.0, 1.0),
]
"""Features, intercept, public records, scale, prior deviation: enough noise for the oracle, little enough for us."""


@pytest.mark.costly("Resampling with another law is found by many weighted draws from the prior.")
@pytest.mark.parametrize(("p", "intercept", "records", "scale", "deviation"), CASES)
def test_resampling_has_the_law_of_weighted_prior_draws(
    p: int, intercept: bool, records: int | None, scale: float, deviation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle knows no Jacobian: it simulates the model and weights by the density of the noise."""
    values = noisy(p, intercept, records, records or 60, scale)
    rng, samples = np.random.default_rng(11), []
    for _ in range(4):
        number = 200_000
        size = (
            np.full(number, float(records))
            if records
            else rng.uniform(max(p + intercept, values[0] - 35 * scale), values[0] + 35 * scale, number)
        )
        drawn, theta, variance = prior_draws(p, intercept, size, deviation, rng)
        residual = values - pack(drawn, SumLayout(p, intercept, records))
        samples.append((np.abs(residual).max(-1) / -scale, theta, variance))
    log_weight, theta, variance = (np.concatenate(part) for part in zip(*samples, strict=True))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE_PROPOSALS", 4_000.0)
    weights, variances = moment_draws(
        values, SumLayout(p, intercept, records), scale=scale, prior_deviation=deviation, draws=16_000, rng=rng
    )
    columns = [(theta[:, i], weights[:, i]) for i in range(theta.shape[1])]
    for expected, got in [*columns, (np.log(variance), np.log(variances))]:
        for cut in np.quantile(got, [0.1, 0.3, 0.5, 0.7, 0.9]):
            share = weight @ (expected <= cut)
            error = np.sqrt((weight**2) @ ((expected <= cut) - share) ** 2)
            own = np.mean(got <= cut)
            assert abs(own - share) < SIGMAS * np.hypot(error, (own * (1 - own) * (1 / 4_000 + 1 / 16_000)) ** 0.5)


def test_little_noise_leaves_the_conjugate_posterior() -> None:
    """Standard Bayesian regression: normal-inverse-gamma with a flat prior, to Monte Carlo error."""
    x, y = made_up(2, True, 400, 5)
    values = pack(sums_of(x, y), SumLayout(2, True, 400))
    weights, variances = moment_draws(
        values,
        SumLayout(2, True, 400),
        scale=1e-6,
        prior_deviation=100.0,
        draws=20_000,
        rng=np.random.default_rng(1),
    )
    mean = np.linalg.solve(x.T @ x, x.T @ y)
    rss = float(((y - x @ mean) ** 2).sum())
    s2 = rss / (400 - 3 - 2)
    covariance = s2 * np.linalg.inv(x.T @ x)
    error = np.sqrt(np.diag(covariance) / 20_000)
    assert np.all(np.abs(weights.mean(0) - mean) < SIGMAS * error)
    assert abs(variances.mean() - s2) < SIGMAS * s2 * np.sqrt(2 / 395 / 20_000)
    # A sample variance has a relative standard deviation of sqrt(2 / draws).
    assert np.allclose(np.diag(np.cov(weights.T)), np.diag(covariance), rtol=SIGMAS * 0.0115)


def test_the_prior_pulls_coefficients_in() -> None:
    values = noisy(1, False, 200, 200, 1.0)
    (wide, _), (narrow, _) = (
        moment_draws(
            values,
            SumLayout(1, False, 200),
            scale=1.0,
            prior_deviation=deviation,
            draws=4000,
            rng=np.random.default_rng(1),
        )
        for deviation in (1.0, 0.1)
    )
    assert np.abs(narrow).mean() < 0.9 * np.abs(wide).mean()


# ------------------------------------------------------------------------------------------------ refusals


def test_what_resampling_cannot_draw_is_refused() -> None:
    given: dict[str, Any] = {"prior_deviation": 1.0, "draws": 10, "rng": np.random.default_rng(1)}
    with pytest.raises(dc.InputError, match=r"noise is too large .* read"):
        moment_draws(noisy(10, False, 300, 300, 50.0), SumLayout(10, False, 300), scale=50.0, **given)
    with pytest.raises(dc.InputError, match="3 values"):
        moment_draws(np.array([1.0, 2.0]), SumLayout(1, False, 9), scale=1.0, **given)
    with pytest.raises(dc.InputError, match="more records than coefficients"):
        moment_draws(np.array([1.0, 2.0, 3.0]), SumLayout(1, False, 1), scale=1.0, **given)


def test_a_regression_of_no_features_is_refused() -> None:
    with pytest.raises(dc.InputError, match="feature"):
        SumLayout(0, True, None)
