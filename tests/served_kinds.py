"""One file of every kind of evidence that a server answers from, small and with names that attack."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dc
from discreet.releases.policy import RecordsPolicy
from published import DATA
from test_shown_releases import HOSTILE, LUNG, PROMISE, SMOKE, STUDY, made

__all__ = ["BLANK", "KINDS", "PLAIN", "plain", "save", "study"]

STATES = ("no", "yes")
PLAIN = dc.Network(tuple(dc.Variable(name, STATES) for name in "abc"), {"a": (), "b": ("a",), "c": ("b",)})
"""A chain of three; its names need no quotes."""
GAPPY = PLAIN.with_missing("b")
BLANK = 300
"""Records of a plain release."""


def plain(seed: int = 0, network: dc.Network = PLAIN, epsilon: float = 1) -> dc.Release:
    """A simulated release of a chain."""
    codes = np.random.default_rng(seed).integers(0, 2, (3, BLANK))
    codes[1] ^= (codes[0] & codes[2]).astype(codes.dtype)
    counts = dc.tools.count_codes(network, dict(zip(network.nodes, codes.tolist(), strict=True)))
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=seed)


def _census() -> Any:
    """Figures by others."""
    exact = dc.external.StatedNoise("rounded", 1)
    return dc.external_table([30, 20], STUDY, [SMOKE.name], exact, guarantee=None, source="<b>census")


def _gappy() -> dc.Release:
    """A release that keeps missing values."""
    rng = np.random.default_rng(5)
    codes = {name: rng.integers(0, GAPPY.schema[name].size, BLANK).tolist() for name in GAPPY.nodes}
    counts = dc.tools.count_codes(GAPPY, codes)
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(GAPPY), PROMISE, rng=5)
    return replace(made, policy=RecordsPolicy("keep", "error"))


def _family() -> dc.Release:
    """A release of a family's parameter."""
    wait = dc.Variable.binned("wait", (0, 20), 10)
    family = dc.research.Family("exponential", (wait,), {"low": 0.1, "high": 2}, 12, lipschitz=0.25)
    asked = dc.Guarantee(epsilon=1, delta=0, relation="metric", unit="1 minute in one wait")
    codes = np.random.default_rng(7).integers(0, 10, 40).tolist()
    counts = dc.tools.count_codes(family.network, {"wait": codes})
    return dc.simulate(dc.research.sampled(family), counts, dc.Dirichlet.uniform(family.network), asked, rng=7)


def _published(name: str) -> Callable[[], Path]:
    """A committed file."""
    return lambda: DATA / f"release-v1-{name}.json"


KINDS: dict[str, Callable[[], Any]] = {
    "plain": plain,
    "laplace": lambda: made("laplace"),
    "planned": lambda: made("planned"),
    "posterior_sampler": lambda: made("posterior_sampler"),
    "map_estimate": lambda: made("map_estimate"),
    "structure": lambda: made("structure"),
    "gappy": _gappy,
    "census": _census,
    "combined": lambda: dc.combine(made("laplace"), _census(), data="different"),
    "family": _family,
    "states": _published("factored-categorical"),
    "direction": _published("factored-direction"),
    "linear": _published("noisy-moments"),
    "logistic": _published("objective-curvature"),
    "logistic-without-law": _published("noisy-gradients"),
    "counts": _published("objective-counts"),
    "classes": _published("objective-classes"),
    "draws": _published("truncated-posterior"),
}
"""How each is made."""


@cache
def study(name: str) -> Any:
    """A kind, made once."""
    found = KINDS[name]()
    if not isinstance(found, dc.Release):
        return found
    return replace(found, id=sha256(name.encode()).hexdigest()[:32])  # those of one seed would have one id


def save(name: str, folder: Path) -> Path:
    """Its file in a folder."""
    path, found = folder / f"{name}.json", study(name)
    if isinstance(found, Path):
        shutil.copy(found, path)
    else:
        found.save(path, replace=True)
    return path


assert LUNG.states == HOSTILE
