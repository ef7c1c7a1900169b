"""`posterior/design/linear.py`: layout, the law against draws from the prior, both samplers against each other."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import discreet as dc
from discreet.posterior.design import linear as posterior
from discreet.posterior.design.extra import sampler
from discreet.posterior.design.linear import (
    Layout,
    Moments,
    moment_draws,
    pack,
    resample_moments,
    unpack,
)
from discreet.posterior.design.weight_posterior import WeightPosterior

Floats = npt.NDArray[np.float64]

SIGMAS = 6.0
"""Standard errors allowed: each comparison fails in fewer than 3e-9 of all seeds."""
LAYOUTS = [(p, intercept, records) for p in (1, 2, 3) for intercept in (False, True) for records in (None, 25)]


def sums_of(features: Floats, target: Floats) -> Moments:
    """Exact moments of records in [-1, 1], features with their constant."""
    return Moments(
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
    exact = pack(sums_of(*made_up(p, intercept, size, seed)), Layout(p, intercept, records))
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
    assert len(values) == Layout(p, intercept, records).values
    assert np.allclose(values, pack(sums_of(x, y), Layout(p, intercept, records)))
    found = unpack([values, values], Layout(p, intercept, records))
    for got, expected in zip(
        (found.records, found.gram, found.cross, found.square), (25, x.T @ x, x.T @ y, y @ y), strict=True
    ):
        assert np.allclose(got, np.stack([expected, expected]))


@pytest.mark.parametrize(("p", "intercept", "records"), LAYOUTS)
def test_packing_undoes_unpacking_of_any_numbers(p: int, intercept: bool, records: int | None) -> None:
    layout = Layout(p, intercept, records)
    values = np.random.default_rng(3).normal(size=(4, 2, layout.values)) * 30
    assert np.allclose(pack(unpack(values, layout), layout), values)


# ------------------------------------------------------------------------------------------------ the law


def prior_draws(
    p: int, intercept: bool, records: Floats, deviation: float, rng: np.random.Generator
) -> tuple[Moments, Floats, Floats]:
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
    kept = Moments(records[fits], gram[fits], np.einsum("kij,kj->ki", root, white)[fits], square[fits])
    return kept, theta[fits], sigma[fits] ** 2


CASES = [
    (1, False, 30, 2.0, 2.0),
    (1, False, None, 2.0, 1.0),
    (1, True, 60, 3.0, 1.0),
    (1, True, None, 4.0, 1.0),
    (2, False, 150, 4.0, 1.0),
]
"""Features, intercept, public records, scale, prior deviation: enough noise for the oracle, little enough for us. Both
together, means and correlations, are left to the comparison with the chain, whose parameters are other ones."""


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
        residual = values - pack(drawn, Layout(p, intercept, records))
        samples.append((np.abs(residual).max(-1) / -scale, theta, variance))
    log_weight, theta, variance = (np.concatenate(part) for part in zip(*samples, strict=True))
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE_PROPOSALS", 4_000.0)
    found = resample_moments(
        values, Layout(p, intercept, records), scale=scale, prior_deviation=deviation, draws=16_000, rng=rng
    )
    assert found is not None
    assert found.mixing is None
    columns = [(theta[:, i], found.weights[:, i]) for i in range(theta.shape[1])]
    for expected, got in [*columns, (np.log(variance), np.log(found.variance))]:
        for cut in np.quantile(got, [0.1, 0.3, 0.5, 0.7, 0.9]):
            share = weight @ (expected <= cut)
            error = np.sqrt((weight**2) @ ((expected <= cut) - share) ** 2)
            own = np.mean(got <= cut)
            assert abs(own - share) < SIGMAS * np.hypot(error, (own * (1 - own) * (1 / 4_000 + 1 / 16_000)) ** 0.5)


def test_little_noise_leaves_the_conjugate_posterior() -> None:
    """Standard Bayesian regression: normal-inverse-gamma with a flat prior, to Monte Carlo error."""
    x, y = made_up(2, True, 400, 5)
    values = pack(sums_of(x, y), Layout(2, True, 400))
    found = moment_draws(
        values,
        Layout(2, True, 400),
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
    assert found.method == "resampling"
    assert np.all(np.abs(found.weights.mean(0) - mean) < SIGMAS * error)
    assert abs(found.variance.mean() - s2) < SIGMAS * s2 * np.sqrt(2 / 395 / 20_000)
    # A sample variance has a relative standard deviation of sqrt(2 / draws).
    assert np.allclose(np.diag(np.cov(found.weights.T)), np.diag(covariance), rtol=SIGMAS * 0.0115)


def test_the_prior_pulls_coefficients_in() -> None:
    values = noisy(1, False, 200, 200, 1.0)
    wide, narrow = (
        resample_moments(
            values,
            Layout(1, False, 200),
            scale=1.0,
            prior_deviation=deviation,
            draws=4000,
            rng=np.random.default_rng(1),
        )
        for deviation in (1.0, 0.1)
    )
    assert wide is not None and narrow is not None
    assert np.abs(narrow.weights).mean() < 0.9 * np.abs(wide.weights).mean()


# ------------------------------------------------------------------------------------------------ the chain


def concentrated(p: int, scale: float, seed: int) -> Floats:
    """A release of 5,000 records whose features fill a twentieth of their bounds, with a constant; n is public."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.clip(rng.normal(0.7, 0.05, (5000, p)), -1, 1), np.ones(5000)])
    y = np.clip(x @ np.linspace(0.4, -0.2, p + 1) + rng.normal(0, 0.05, 5000), -1, 1)
    exact = pack(sums_of(x, y), Layout(p, True, 5000))
    return np.asarray(exact + rng.gamma(exact.size + 1, scale) * rng.uniform(-1, 1, exact.size))


RELEASES = {
    "private n": (noisy(3, True, None, 300, 1.0), True, None, 1.0),
    "no constant": (noisy(3, False, 300, 300, 1.0), False, 300, 1.0),
    "concentrated": (concentrated(3, 0.4, 1), True, 5000, 0.4),
}


@pytest.mark.parametrize(
    "name",
    ["private n", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("no constant", "concentrated"))],
)
def test_the_chain_agrees_with_resampling(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rounded cube stands for the noise's cube in the chain: three features, a tenth of a deviation of tolerance."""
    pytest.importorskip("blackjax", reason="needs the extra mcmc")
    values, intercept, records, scale = RELEASES[name]
    given: dict[str, Any] = {"layout": Layout(3, intercept, records), "scale": scale}
    rest: dict[str, Any] = {"prior_deviation": 1.0, "draws": 2000}
    exact = moment_draws(values, **given, **rest, rng=np.random.default_rng(1))
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE_PROPOSALS", 1e12)
    chain = moment_draws(values, **given, **rest, rng=np.random.default_rng(2))
    assert (exact.method, exact.mixing, chain.method) == ("resampling", None, "nuts")
    if name == "no constant":
        again = moment_draws(values, **given, **rest, rng=np.random.default_rng(2))
        assert np.array_equal(chain.weights, again.weights)
    assert chain.weights.shape == (2000, 3 + intercept) and chain.variance.shape == (2000,)
    assert chain.mixing is not None and chain.mixing.chains == 4
    assert chain.mixing.effective >= 400 and chain.mixing.r_hat <= 1.01
    # Resampling: 1,000 effective proposals at the least, then 2,000 draws of them.
    slack = SIGMAS * (1 / chain.mixing.effective + 1 / 1000 + 1 / 2000) ** 0.5 + 0.1
    logs = (np.log(chain.variance), np.log(exact.variance))
    for got, expected in [*zip(chain.weights.T, exact.weights.T, strict=True), logs]:
        assert abs(got.mean() - expected.mean()) < slack * expected.std()
        assert abs(np.log(got.std() / expected.std())) < slack


def chains_like(kind: str, shape: tuple[int, int, int]) -> Floats:
    """Draws of four chains that mix, that stand apart, or that agree but hardly move."""
    rng = np.random.default_rng(8)
    found = rng.standard_normal(shape)
    if kind == "apart":
        found[:, :, 0] += np.arange(4)[:, None]
    if kind == "slow":
        # Cosines of every chain have one mean and one spread: R-hat is 1, and there are two turns of each.
        found[:, :, 0] = np.cos(np.linspace(0, 4 * np.pi, shape[1]))
    return found


@pytest.mark.parametrize("kind", ["apart", "slow", "mixed"])
def test_chains_that_have_not_met_have_no_intervals(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("blackjax", reason="needs the extra mcmc")
    nuts = sampler("linear_nuts")
    values, intercept, records, scale = RELEASES["no constant"]
    given: dict[str, Any] = {"layout": Layout(3, intercept, records), "scale": scale}
    rest: dict[str, Any] = {"prior_deviation": 1.0, "draws": 100, "rng": np.random.default_rng(1)}
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE_PROPOSALS", 1e12)
    monkeypatch.setattr(nuts, "LEAST_FIRST_BATCHES", 1)
    monkeypatch.setattr(nuts, "NUTS_ROUNDS", 1)
    monkeypatch.setattr(nuts, "_warm_up", lambda *_, **__: (None, None))
    keys: list[Any] = []

    def walk(_public: object, own: object, *_: object, **__: object) -> tuple[None, Floats]:
        keys.append(own)
        return None, chains_like(kind, (4, 500, 4))

    monkeypatch.setattr(nuts, "_walk", walk)
    if kind == "mixed":
        found = moment_draws(values, **given, **rest)
        for seed in (1, 2):
            moment_draws(values, **given, **rest | {"rng": np.random.default_rng(seed)})
        first, again, other = (keys[len(keys) // 3 * turn] for turn in range(3))
        assert np.all(first == again) and not np.any(first == other)  # all that is random comes from the generator
        assert found.mixing is not None and found.mixing.effective >= 400 and found.weights.shape == (100, 3)
        return
    found = moment_draws(values, **given, **rest)
    design = dc.Design(tuple(dc.Variable(name, bounds=(-1, 1)) for name in "abc"), dc.Variable("y", bounds=(-1, 1)))
    read = WeightPosterior(design, found.weights, found.variance, found.method, found.mixing)
    assert np.all(np.isfinite(read.mean()))
    for ask in (read.interval, read.rows):
        with pytest.raises(dc.InputError, match=r"no intervals.*have not met.*more epsilon, tighter bounds or fewer"):
            ask(level=0.9)


def test_rounds_double_until_the_chains_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two rounds stand apart and are thrown away: 2 and 4 walks, then 8 that mix."""
    pytest.importorskip("blackjax", reason="needs the extra mcmc")
    nuts, walks = sampler("linear_nuts"), []

    def walk(*_: Any, **__: Any) -> tuple[None, Floats]:
        walks.append(1)
        return None, chains_like("apart" if len(walks) <= 6 else "mixed", (4, nuts.NUTS_STEPS, 4)) + 100.0 * (
            len(walks) <= 6
        )

    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE_PROPOSALS", 1e12)
    monkeypatch.setattr(nuts, "_warm_up", lambda *_, **__: (None, None))
    monkeypatch.setattr(nuts, "_walk", walk)
    values, intercept, records, scale = RELEASES["no constant"]
    found = moment_draws(
        values,
        Layout(3, intercept, records),
        scale=scale,
        prior_deviation=1.0,
        draws=100,
        rng=np.random.default_rng(1),
    )
    assert len(walks) == 2 + 4 + 8 and np.abs(found.weights).max() < 50
    assert found.mixing is not None and found.mixing.sweeps == nuts.NUTS_WARM_UP + 14 * nuts.NUTS_STEPS


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blackjax", None)
    monkeypatch.delitem(sys.modules, "discreet.posterior.design.linear_nuts", raising=False)
    monkeypatch.delattr("discreet.posterior.design.linear_nuts", raising=False)
    with pytest.raises(dc.InputError, match=r"'\.\[mcmc\]'"):
        moment_draws(
            noisy(10, False, 300, 300, 50.0),
            Layout(10, False, 300),
            scale=50.0,
            prior_deviation=1.0,
            draws=10,
            rng=np.random.default_rng(1),
        )


# ------------------------------------------------------------------------------------------------ refusals

GOOD: dict[str, Any] = {
    "values": [1.0, 2.0, 3.0],
    "layout": Layout(1, False, 9),
    "scale": 1.0,
    "prior_deviation": 1.0,
    "draws": 1,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": [1.0, 2.0]}, "3 values"),
        ({"values": [[1.0, 2.0, 3.0]]}, "one axis"),
        ({"values": [1.0, 2.0, np.nan]}, "finite"),
        ({"scale": 0.0}, "scale"),
        ({"scale": np.nan}, "scale"),
        ({"prior_deviation": -1.0}, "deviation"),
        ({"prior_deviation": np.inf}, "deviation"),
        ({"layout": Layout(1, False, 1)}, "records"),
        ({"draws": 0}, "draw"),
    ],
)
def test_bad_arguments_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        moment_draws(**(GOOD | change), rng=np.random.default_rng(1))


def test_a_regression_of_no_features_is_refused() -> None:
    with pytest.raises(dc.InputError, match="feature"):
        Layout(0, True, None)
