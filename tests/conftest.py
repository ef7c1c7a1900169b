"""Settings that every test shares, and the PostgreSQL that some of them share."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import postgres

settings.register_profile(
    "repeatable",
    deadline=None,  # these machines are shared: no test asserts a time
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and coins of a seed, not of the operating system: what a test says of fits is the same in every run."""
    from discreet.mechanisms import crossing
    from discreet.mechanisms.noise import SimulatedNoise

    rng = np.random.default_rng(20_161)
    monkeypatch.setattr(crossing, "ExactNoise", lambda: SimulatedNoise(rng))
    monkeypatch.setattr(os, "urandom", rng.bytes)


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer points for a direction's chains, and so few for the walks that what they propose is not the posterior."""
    from discreet.posterior.design import direction

    monkeypatch.setattr(direction, "FINE_POINTS", 512)
    monkeypatch.setattr(direction, "COARSE_POINTS", 16)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that are taken for mixed early: for tests of what is no mean of many draws."""
    from discreet.posterior import diagnostics

    monkeypatch.setattr(diagnostics, "LEAST_EFFECTIVE_DRAWS", 50)
    monkeypatch.setattr(diagnostics, "LARGEST_R_HAT", 1.1)


@pytest.fixture
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A direction's chains stand on few points and hardly warm up: for tests that look at the estimator."""
    from discreet.posterior.design import direction

    for name, value in {
        "FINE_POINTS": 32,
        "COARSE_POINTS": 8,
        "START_PROPOSALS": 64,
        "MOVES_PER_COORDINATE": 1,
        "WARM_UP_PROPOSALS": 4,
    }.items():
        monkeypatch.setattr(direction, name, value)


@pytest.fixture(scope="session")
def server() -> postgres.Server:
    """A PostgreSQL; one for each process of the tests, where any of its tests asks for it."""
    return postgres.running()
