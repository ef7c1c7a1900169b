"""`PrivatePCA` and its posterior: what is found, what is drawn against a grid, coverage, and refusals.

Seeds are fixed. Tolerances of means are six standard errors at the effective size, or wider: false alarms below 1e-8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import binom

import discreet as dc
from discreet.estimators.components_analysis import PrivatePCA
from discreet.research.readers import spectrum_compiled
from discreet.research.readers.components import _remove_noise, component_draws, quick_components
from discreet.research.readers.direction import angles, mean_axis

Floats = npt.NDArray[np.float64]
BOUNDS = {"age": (0.0, 100.0), "pressure": (90.0, 190.0), "weight": (20.0, 180.0)}
AXES = np.array([[2.0, 1.0, 2.0], [1.0, 2.0, -2.0], [2.0, -2.0, -1.0]]) / 3
"""Of the made-up patients, in scaled coordinates."""
DEVIATIONS = np.array([0.3, 0.2, 0.08])
MEAN = np.array([0.1, -0.2, 0.0])


def promise(epsilon: Any = 1, relation: str = "replace") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def opened(relation: str = "replace") -> dc.results.Account:
    return dc.Ledger("sqlite://").open("ward", promise(10**6, relation))


def scaled(n: int, seed: int = 1) -> Floats:
    return MEAN + np.random.default_rng(seed).normal(size=(n, 3)) * DEVIATIONS @ AXES


def patients(n: int = 2000, seed: int = 1) -> pd.DataFrame:
    pairs = np.array(list(BOUNDS.values()))
    return pd.DataFrame(pairs.mean(axis=1) + scaled(n, seed) * np.diff(pairs, axis=1)[:, 0] / 2, columns=list(BOUNDS))


def simulated(epsilon: float, relation: str, *, n: int = 2000, seed: int = 1) -> dc.Release:
    """A release whose noise has a seed."""
    design = dc.designs.Design(tuple(dc.Variable(name, bounds=pair) for name, pair in BOUNDS.items()), None, None, True)
    sums = dc.designs.sum_moments(dc.designs.read_rows(design, patients(n, seed).to_numpy()))
    rng = np.random.default_rng([seed, 3])
    return dc.simulate(
        dc.designs.noisy_moments(), sums, dc.designs.Normal(design, 0.5), promise(epsilon, relation), rng=rng
    )


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_all_components_are_found(relation: str) -> None:
    found = PrivatePCA.from_release(simulated(50, relation), random_state=1)
    assert found.components_.shape == (3, 3)
    assert np.allclose(found.components_ @ found.components_.T, np.eye(3))
    assert np.all(np.abs((found.components_ * AXES).sum(axis=1)) > 0.995)
    assert found.explained_variance_ == pytest.approx(DEVIATIONS**2, rel=0.15)
    assert found.explained_variance_ratio_.sum() == pytest.approx(1)
    units = np.array(list(BOUNDS.values())).mean(axis=1) + MEAN * np.array([50, 50, 80])
    assert found.mean_ == pytest.approx(units, abs=2)


def test_records_go_there_and_back() -> None:
    found = PrivatePCA.from_release(simulated(50, "replace"))
    X = patients(50, 2)
    assert found.transform(X).shape == (50, 3)
    assert np.allclose(found.inverse_transform(found.transform(X)), X)
    # One component loses what lies across it, and the mean is where 0 goes.
    one = PrivatePCA.from_release(found.release_, n_components=1)
    assert np.allclose(one.transform(X), found.transform(X)[:, :1])
    assert np.allclose(one.inverse_transform([[0.0]]), found.mean_)
    assert one.get_feature_names_out().tolist() == ["privatepca0"]


def test_columns_are_taken_by_name() -> None:
    X = patients()
    turned = X[["weight", "age", "pressure"]]
    fitted = PrivatePCA(n_components=2, bounds=BOUNDS, guarantee=promise(500), account=opened(), random_state=1).fit(
        turned
    )
    assert fitted.release_.over.names == tuple(BOUNDS)
    assert np.abs((fitted.components_[:, [1, 2, 0]] * AXES[:2]).sum(axis=1)).min() > 0.99
    assert fitted.mean_ == pytest.approx(turned.mean().to_numpy(), abs=2)
    assert np.allclose(PrivatePCA.from_release(fitted.release_, n_components=2).transform(X), fitted.transform(turned))
    assert np.allclose(fitted.inverse_transform([[0.0, 0.0]]), fitted.mean_)
    lower, upper = fitted.components_interval()
    assert np.all((lower <= fitted.components_ + 0.01) & (fitted.components_ - 0.01 <= upper))


def test_draws_are_those_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sum of two features, whose posterior can be computed: angle and deviations on a grid, the means given."""
    told, product, variance = np.array([200.0, 0.0, 0.0]), np.array([[-190.0, 6.0], [6.0, -194.0]]), 60.0
    monkeypatch.setattr(spectrum_compiled, "_draw_means", lambda *_: None)
    if hasattr(spectrum_compiled.chain, "py_func"):
        monkeypatch.setattr(spectrum_compiled, "chain", spectrum_compiled.chain.py_func)
    start = np.array([[0.1, 0.1], [0.0, 0.0], [0.01, 0.01]])
    setting, rng = np.array([variance, 0.0, 100, 6000, 1]), np.random.default_rng(2)
    drawn = spectrum_compiled.chain(told, product, np.eye(2), start.copy(), setting, rng)[0]
    side, turn = (np.arange(160) + 0.5) / 160, (np.arange(90) + 0.5) / 90 * math.pi
    s, t, a = (axis.ravel() for axis in np.meshgrid(side, side, turn, indexing="ij"))
    c, d = np.cos(a), np.sin(a)
    one, two, both = s**2 * c**2 + t**2 * d**2, s**2 * d**2 + t**2 * c**2, (s**2 - t**2) * c * d
    # Published are 200 (2 S_ii - 1) and 200 S_12, each with noise of that variance.
    log = -((200 * both - 6) ** 2 + (200 * (2 * one - 1) + 190) ** 2 + (200 * (2 * two - 1) + 194) ** 2) / 120
    mass = np.exp(log - log.max()) * (one <= 1) * (two <= 1)
    mass /= mass.sum()
    for values, entries in ((one, drawn[:, 0, 0]), (two, drawn[:, 1, 1]), (both, drawn[:, 0, 1])):
        mean = mass @ values
        deviation = math.sqrt(mass @ (values - mean) ** 2)
        # Ten sweeps for an independent draw are more than these chains take.
        assert entries.mean() == pytest.approx(mean, abs=6 * deviation / math.sqrt(600))
        assert entries.std() == pytest.approx(deviation, rel=0.2)


MORE = pytest.mark.costly("Intervals of axes that are somewhat too narrow show in forty releases, not in twelve.")


@pytest.mark.parametrize(
    ("relation", "releases"),
    [("replace", 12), *(pytest.param(relation, 40, marks=MORE) for relation in ("replace", "add-remove"))],
)
def test_intervals_cover(relation: str, releases: int) -> None:
    """Three axes in each release; taking the noise for nothing, or no sampling for it, fails."""
    inside, places = 0, 0
    for seed in range(releases):
        drawn = component_draws(simulated(2, relation, n=1000, seed=seed), draws=200, rng=np.random.default_rng(seed))
        low, high = drawn.tails(drawn.components(3, AXES), 0.9)
        inside += int(((low <= AXES) & (high >= AXES)).all(axis=1).sum())
        places += 3
    # An entry of an axis is covered with probability .9; all three, of which two are free, with .75 at least.
    assert inside > binom.ppf(1e-7, places, 0.75)


def test_noise_and_sampling_widen_the_posterior() -> None:
    spreads = []
    for epsilon, n in ((0.5, 2000), (5, 2000), (500, 2000), (500, 200_000)):
        drawn = component_draws(simulated(epsilon, "replace", n=n), draws=200, rng=np.random.default_rng(0))
        axis = drawn.components(1)[:, 0]
        spreads.append(float(np.mean(angles(axis, mean_axis(axis)))))
    assert spreads[0] > 2 * spreads[1]
    assert spreads[1] > spreads[2] > 4 * spreads[3]
    # Without noise the first axis turns towards the second by a deviation of 1.2 / sqrt(n), towards the third by .3.
    assert spreads[2] * 2000**0.5 == pytest.approx(1.0, abs=0.3)


def test_a_number_of_records_is_drawn() -> None:
    """With much noise on the number, variances per record are as uncertain as it."""
    found = [
        component_draws(simulated(0.3, relation, n=150), draws=200, rng=np.random.default_rng(0)).variances(3)
        for relation in ("replace", "add-remove")
    ]
    assert all(np.isfinite(values).all() and (values > 0).all() for values in found)


def test_variances_lose_what_noise_adds() -> None:
    values = np.array([1.0, 0.5, 0.1, 0.0])
    assert np.allclose(_remove_noise(values, 0.0), values)
    # A symmetric matrix with noise of deviation .1: its spike of 3 is seen at 3.5, and back within two deviations.
    rng, size = np.random.default_rng(1), 100
    noise = rng.normal(0, 0.1, (size, size))
    noisy = np.eye(size) + 2.0 * np.outer(np.eye(size)[0], np.eye(size)[0]) + np.triu(noise) + np.triu(noise, 1).T
    found = np.linalg.eigvalsh(noisy)[::-1]
    repaired = _remove_noise(found, 2 * math.sqrt(size) * 0.1)
    assert found[0] > 3.2
    assert repaired[0] == pytest.approx(3.0, abs=0.3)
    assert repaired.sum() == pytest.approx(found.sum())
    assert np.allclose(repaired[1:], repaired[1])


def test_one_direction_is_chosen_where_that_is_asked_for(short_walks: None) -> None:
    fitted = PrivatePCA(bounds=BOUNDS, guarantee=promise(), account=opened(), method="directions", draws=100)
    fitted.fit(patients())
    assert fitted.release_.mechanism == "factored"
    assert fitted.components_.shape == (1, 3)
    assert fitted.mean_.tolist() == [50.0, 140.0, 100.0]
    assert fitted.explained_variance_[0] > 0.01
    assert fitted.transform(patients(5)).shape == (5, 1)
    read = PrivatePCA.from_release(fitted.release_, draws=100)
    assert read.n_components_ == 1
    with pytest.raises(dc.InputError, match="n_components is at most 1 here"):
        PrivatePCA.from_release(fitted.release_, n_components=2)


@pytest.mark.parametrize(
    ("changed", "mechanism"),
    [
        ({}, "factored"),
        ({"centred": False}, "noisy_moments"),
        ({"n_components": 2}, "noisy_moments"),
        ({"n_components": None}, "noisy_moments"),
        ({"guarantee": promise(1)}, "noisy_moments"),
        ({"guarantee": promise("0.1", "add-remove")}, "noisy_moments"),
    ],
)
def test_auto_goes_by_what_is_public(changed: dict[str, Any], mechanism: str) -> None:
    options: dict[str, Any] = {"n_components": 1, "centred": True, "guarantee": promise("0.1"), **changed}
    account = opened(str(options["guarantee"].relation))
    assert PrivatePCA(bounds=BOUNDS, account=account, **options).fit(patients()).release_.mechanism == mechanism


def test_the_posterior_is_drawn_again_by_seed() -> None:
    read = PrivatePCA.from_release(simulated(1, "replace"), draws=200, random_state=4)
    assert np.array_equal(read.sample_posterior(200).covariance, read.posterior_.covariance)
    assert not np.array_equal(read.sample_posterior(200, random_state=9).covariance, read.posterior_.covariance)
    assert read.posterior_.covariance.shape == (200, 3, 3)
    lower, upper = read.explained_variance_interval(level=0.9)
    assert lower.shape == (3,) and np.all(lower < upper)
    with pytest.raises(dc.InputError, match="draws is a whole number, at least 100"):
        read.sample_posterior(99)


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "no bounds": ({"bounds": None}, "fit needs bounds="),
    "method": ({"method": "exact"}, "method is 'auto', 'moments' or 'directions'"),
    "no components": ({"n_components": 0}, "n_components is a whole number, at least 1"),
    "too many": ({"n_components": 4}, "n_components is at most 3 here"),
    "too many of a choice": ({"n_components": 2, "method": "directions"}, "n_components is at most 1 here"),
    "draws": ({"draws": 99}, "draws is a whole number, at least 100"),
    "delta": ({"guarantee": dc.Guarantee(epsilon=1, delta="0.1", relation="replace", unit="record")}, "pure guarantee"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_declared_wrongly_costs_nothing(asked: str) -> None:
    options, words = ASKED[asked]
    account = dc.Ledger("sqlite://").open(
        "ward", dc.Guarantee(epsilon=10, delta="0.5", relation="replace", unit="record")
    )
    with pytest.raises(dc.InputError, match=words):
        PrivatePCA(**{"bounds": BOUNDS, "guarantee": promise(), "account": account, **options}).fit(patients())
    assert not account.charges()


def test_few_records_and_other_releases_are_refused() -> None:
    account = opened()
    with pytest.raises(dc.InputError, match="3 features need more records"):
        PrivatePCA(bounds=BOUNDS, guarantee=promise(), account=account).fit(patients(4))
    assert not account.charges()
    design = dc.designs.Design((dc.Variable("code", bounds=(0, 1)),), dc.Variable("y", bounds=(0, 1)), None, True)
    sums, rng = dc.designs.sum_moments(dc.designs.read_rows(design, [[0.0]] * 9, [1.0] * 9)), np.random.default_rng(1)
    made = dc.simulate(dc.designs.noisy_moments(), sums, dc.designs.Normal(design, 1), promise(), rng=rng)
    for read in (PrivatePCA.from_release, quick_components):
        with pytest.raises(dc.InputError, match="not of principal components"):
            read(made)  # type: ignore[operator]
    read_it = PrivatePCA.from_release(simulated(1, "replace"), n_components=2)
    with pytest.raises(dc.InputError, match="rows of 2 numbers"):
        read_it.inverse_transform([[1.0]])
