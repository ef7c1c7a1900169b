"""The system's randomness, from seeds: what a test finds it finds in every run.

Some thousand tests look at releases that are drawn as a curator's are, from the operating system's entropy. Each may
meet a rare draw; together they would fail by chance, and nobody could say how often. So each test, and each fixture of
several tests, has a stream of its own, of a seed that is made of its name. Tests of randomness itself take the
system's, by the marker `system_noise`; so do processes that tests start.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from discreet.mechanisms.noise import ExactNoise, SimulatedNoise

__all__ = ["Repeatable"]

SYSTEM = os.urandom


class Repeatable:
    """A plugin of pytest: one stream at a time stands for the system's randomness; None for the system's own."""

    def __init__(self) -> None:
        self.stream: np.random.Generator | None = None
        os.urandom = self._bytes
        random._urandom = self._bytes  # type: ignore[attr-defined]  # ids, and NumPy's generators without a seed
        self._seed_opendp()
        os.register_at_fork(after_in_child=self._stop)  # a child must not draw what its parent draws

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        """What a module draws as it is imported."""
        with self._named(collector.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test, with the fixtures that are its own."""
        if item.get_closest_marker("system_noise"):
            return (yield)
        with self._named(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """A fixture of several tests, whichever of them comes first."""
        if fixturedef.scope == "function":
            return (yield)
        with self._named(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param', None)!r}]"):
            return (yield)

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        before, self.stream = self.stream, np.random.default_rng(list(sha256(name.encode()).digest()))
        try:
            yield
        finally:
            self.stream = before

    def _stop(self) -> None:
        self.stream = None

    def _bytes(self, number: int) -> bytes:
        return SYSTEM(number) if self.stream is None else self.stream.bytes(number)

    def _seed_opendp(self) -> None:
        """OpenDP draws in its own code: it still does, and refuses what it refuses, but its draws are replaced."""

        def replaced(name: str) -> Callable[..., Any]:
            drawn, simulated = getattr(ExactNoise, name), getattr(SimulatedNoise, name)

            def draw(noise: ExactNoise, values: Any, scale: float) -> Any:
                found = drawn(noise, values, scale)
                return found if self.stream is None else simulated(SimulatedNoise(self.stream), values, scale)

            return draw

        for name in ("discrete_laplace", "discrete_gaussian", "noisy_max"):
            setattr(ExactNoise, name, replaced(name))
