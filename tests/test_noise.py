"""The noise has the distribution it says, at the scale the budget buys, from a source nobody can seed.

False alarms: the exact sampler cannot be seeded, so its tests fail by chance at a stated rate. Goodness of fit: 9 tests
at 1e-8. Independence: 2 at 1e-8. Nothing else here fails with a chance above 1e-15; together below 1.2e-7 a run. The
tests of the simulated sampler have a fixed seed and cannot fail by chance.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import discreet as dc
from discreet.mechanisms.noise import COUNT_LIMIT, ExactNoise, SimulatedNoise, privacy_map, scale_for
from folding import every

SCALES = (1.0, 2.0, 3.0, 4.0, 6.0, 7.5, 10.0, 2 / 3, 10 / 7)
"""Those at which opendp#2638 was seen, and some that are no integers."""
DRAWS = 100_000
FALSE_ALARM = 1e-8


def probability(k: np.ndarray, scale: float) -> np.ndarray:
    """`P(noise = k) = tanh(1 / (2 scale)) exp(-|k| / scale)`: the factor makes the sum over all integers 1."""
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(k) / scale)


def fit(noise: np.ndarray, scale: float) -> float:
    """Chi-square p value against discrete Laplace; tails that expect few draws are pooled, so that 1e-8 means 1e-8."""
    q = np.exp(-1 / scale)
    edge = 1
    while len(noise) * q ** (edge + 1) / (1 + q) >= 100:  # the tail beyond edge: P(noise > edge)
        edge += 1
    k = np.arange(-edge, edge + 1)
    inner = probability(k, scale)
    tail = q ** (edge + 1) / (1 + q)
    expected = len(noise) * np.array([tail, *inner, tail])
    clipped = np.clip(noise, -edge - 1, edge + 1)
    observed = np.bincount(clipped + edge + 1, minlength=len(expected))
    np.testing.assert_allclose(expected.sum(), len(noise), rtol=1e-12)
    return float(stats.chisquare(observed, expected).pvalue)


# ------------------------------------------------------------------------------------------------------ distribution


@pytest.mark.costly("The law of the noise that ships, from the system's entropy, shows in many draws.", always=True)
@pytest.mark.system_noise
@every("scale", SCALES)
def test_exact_noise_is_discrete_laplace(scale: float) -> None:
    assert fit(ExactNoise().discrete_laplace(np.zeros(DRAWS, np.int64), scale), scale) > FALSE_ALARM


@every("scale", SCALES)
def test_simulated_noise_is_discrete_laplace(scale: float) -> None:
    noise = SimulatedNoise(np.random.default_rng(2026)).discrete_laplace(np.zeros(DRAWS, np.int64), scale)
    assert fit(noise, scale) > FALSE_ALARM


@every("scale", SCALES)
def test_the_fit_notices_another_distribution(scale: float) -> None:
    """What the tests above must not let through: 6 % off, a zero too many, a shift, a double zero, rounding."""
    rng = np.random.default_rng(7)
    right = SimulatedNoise(rng).discrete_laplace(np.zeros(DRAWS, np.int64), scale)
    wrong = {
        "scale": SimulatedNoise(rng).discrete_laplace(np.zeros(DRAWS, np.int64), 1.06 * scale + 0.02),
        "zeros": np.where(rng.random(DRAWS) < 0.05, 0, right),
        "shift": right + (rng.random(DRAWS) < 0.5),
        "two-sided by a coin": rng.choice([-1, 1], DRAWS) * (rng.geometric(-np.expm1(-1 / scale), DRAWS) - 1),
    }
    if scale < 3:  # rounding a continuous variate is nearly right where the scale is large
        wrong["rounded"] = np.rint(rng.laplace(0, scale, DRAWS)).astype(np.int64)
    assert {name: fit(noise, scale) < FALSE_ALARM for name, noise in wrong.items()} == dict.fromkeys(wrong, True)


@pytest.mark.costly("Noise that repeats within or across calls is found by correlations of many draws.", always=True)
@pytest.mark.system_noise
def test_cells_of_one_call_and_of_two_calls_are_independent() -> None:
    """Correlation of neighbours in a call and between calls; 5.73 standard errors is a two-sided rate of 1e-8."""
    one, two = (ExactNoise().discrete_laplace(np.zeros(DRAWS, np.int64), 2.0) for _ in range(2))
    limit = stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(DRAWS - 1)
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < limit
    assert abs(np.corrcoef(one, two)[0, 1]) < limit
    assert abs(np.corrcoef(one, one + two)[0, 1]) > limit


# ------------------------------------------------------------------------------------------------------------- scale


def assert_buys(sensitivity: int, epsilon: Fraction) -> None:
    """The scale is enough in exact arithmetic, the reported epsilon is honest and within budget, and neither by far."""
    scale, reported = scale_for(sensitivity, epsilon)
    assert Fraction(scale) >= sensitivity / epsilon
    assert sensitivity / Fraction(scale) <= reported <= epsilon
    assert reported == privacy_map(scale, sensitivity)
    assert Fraction(scale) <= sensitivity / epsilon * (1 + Fraction(1, 10**12))
    assert reported >= epsilon * (1 - Fraction(1, 10**12))


@every("sensitivity", [1, 2, 16, 37])
def test_the_scale_is_never_below_sensitivity_over_epsilon(sensitivity: int) -> None:
    for hundredths in range(1, 301):
        assert_buys(sensitivity, Fraction(hundredths, 100))


@given(st.integers(1, 5000), st.fractions(Fraction(1, 10**9), 10**6))
def test_the_scale_is_never_below_for_any_rational(sensitivity: int, epsilon: Fraction) -> None:
    assert_buys(sensitivity, epsilon)


def test_the_scale_does_not_rest_on_the_map_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were OpenDP's map to round down, the scale would still be enough."""
    monkeypatch.setattr("discreet.mechanisms.noise.privacy_map", lambda *_: Fraction(1, 2))
    for tenths in range(6, 40):  # of 8 / epsilon, about half are rounded down by float()
        scale, _ = scale_for.__wrapped__(8, Fraction(tenths, 10))  # not one that is remembered
        assert Fraction(scale) >= 8 / Fraction(tenths, 10) > Fraction(np.nextafter(scale, 0))


@every(
    ("epsilon", "why"),
    [
        (Fraction(1, 2**53), "too small"), (Fraction(1, 10**17), "too small"), (Fraction(1, 10**320), "too small"),
        (Fraction(10**10), "too large"), (Fraction(10**400), "too large"),
    ],
)  # fmt: skip
def test_an_epsilon_without_a_usable_scale_is_refused(epsilon: Fraction, why: str) -> None:
    with pytest.raises(dc.InputError, match=f"epsilon is {why}"):
        scale_for(1, epsilon)


def test_the_largest_scale_does_not_saturate() -> None:
    scale, _ = scale_for(1, Fraction(1, 2**52))
    noisy = ExactNoise().discrete_laplace(np.full(200, COUNT_LIMIT), scale)
    assert scale == 2.0**52
    # A draw beyond 1000 scales would have probability exp(-1000); the mean magnitude is one scale.
    assert int(np.abs(noisy).max()) < 2**62
    assert len(set(noisy.tolist())) == 200


# -------------------------------------------------------------------------------------------------------- large counts

QUIET = 0.02
"""A scale at which noise other than 0 has probability 2 exp(-50) = 4e-22."""


@every("noise", [ExactNoise(), SimulatedNoise(np.random.default_rng(1))], ids=["exact", "simulated"])
def test_large_counts_stay_exact_integers(noise: ExactNoise | SimulatedNoise) -> None:
    values = np.array([[0, 1, 2**31 - 1], [2**40 + 1, 2**53 - 1, 2**53]])
    before = values.copy()
    noisy = noise.discrete_laplace(values, QUIET)
    assert noisy.dtype == np.int64
    assert np.array_equal(noisy, before)
    assert np.array_equal(values, before)
    spread = noise.discrete_laplace(np.full(2000, 2**53), 3.0) - 2**53
    assert {-1, 0, 1} <= set(spread.tolist())  # every integer is reachable, odd ones too


def test_shapes_and_strides_are_kept() -> None:
    values = np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)
    assert np.array_equal(ExactNoise().discrete_laplace(values, QUIET), values)
    assert ExactNoise().discrete_laplace(np.zeros((0, 2), np.int64), 1.0).shape == (0, 2)


def test_a_count_beyond_the_limit_is_refused_without_its_value() -> None:
    with pytest.raises(dc.InputError, match="larger than 9,007,199,254,740,992") as caught:
        ExactNoise().discrete_laplace(np.array([5, COUNT_LIMIT + 12345]), 1.0)
    assert str(COUNT_LIMIT + 12345) not in str(caught.value).replace(",", "")


# ------------------------------------------------------------------------------------------------------------ source


@pytest.mark.system_noise
def test_seeding_other_generators_changes_nothing() -> None:
    """50 draws at scale 1e6 agree by chance with probability below 1e-280."""
    draws = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - the point of the test
        draws.append(ExactNoise().discrete_laplace(np.zeros(50, np.int64), 1e6).tolist())
    assert draws[0] != draws[1]


@pytest.mark.costly("Noise that two processes share cancels; it shows in forked processes only.", always=True)
def test_noise_differs_between_forked_processes() -> None:
    script = """
import os, sys
import numpy as np
from discreet.mechanisms.noise import ExactNoise
draw = lambda: ExactNoise().discrete_laplace(np.zeros(20, np.int64), 1e6).tolist()
draw()
for child in range(3):
    if os.fork() == 0:
        print(draw(), flush=True)
        os._exit(0)
    os.wait()
print(draw(), flush=True)
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert len(set(run.stdout.splitlines())) == 4


def test_a_simulation_is_repeatable() -> None:
    one, two, three = (
        SimulatedNoise(np.random.default_rng(seed)).discrete_laplace(np.zeros(50, np.int64), 10.0) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, three)


@pytest.mark.costly("Noise of a library that nobody verified is refused at import, in a fresh process.", always=True)
def test_versions_of_opendp_that_were_not_verified_are_refused() -> None:
    script = """
import importlib.metadata, sys
from discreet.errors import DiscreetError
real = importlib.metadata.version
for claimed in ("0.12.1", "0.15.9", "0.160.0", "0.17.0", "1.16.0"):
    importlib.metadata.version = lambda name: claimed if name == "opendp" else real(name)
    try:
        import discreet.mechanisms.noise
    except DiscreetError as error:
        print(f"opendp {claimed} is not" in str(error) and "install opendp>=0.16,<0.17" in str(error))
importlib.metadata.version = real
import discreet.mechanisms.noise
print("loaded")
"""
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )  # fmt: skip
    assert run.stdout.split() == ["True"] * 5 + ["loaded"]
