"""Kinds of a pack that is not ours: counts to which a law of its own adds noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.model.network import Network
from discreet.noise.noise_laws import NoiseLaw
from discreet.releases.codec import CountTables, Positive, Whole, kind
from discreet.releases.measurement import Measurement, Released, Reported
from discreet.util.arrays import freeze


@dataclass(frozen=True)
class TwiceLaplace(NoiseLaw):
    """The sum of two discrete Laplace variates: `P(k) ~ q^|k| (|k| + (1 + q^2) / (1 - q^2))`, `q = exp(-1 / scale)`."""

    tag: ClassVar[str] = "twice_laplace"  # type: ignore[assignment]
    name, words = "twice Laplace", "twice discrete Laplace noise of scale"
    unit, excess = 4.0, 1.5
    integer = True

    def log_density(self, values):  # type: ignore[no-untyped-def]
        q, size = np.exp(-1 / self.scale), np.abs(values)
        return 2 * np.log((1 - q) / (1 + q)) - size / self.scale + np.log(size + (1 + q**2) / (1 - q**2))

    def simulate(self, shape, rng):  # type: ignore[no-untyped-def]
        success = -np.expm1(-1 / self.scale)
        signs = [1, -1, 1, -1]
        return sum(sign * rng.geometric(success, shape) for sign in signs).astype(np.float64)


@kind("twice_noise")
@dataclass(frozen=True)
class TwiceNoise(Reported):
    """How much: the same scale in every cell."""

    sensitivity: Whole
    scale: Positive
    reported: Fraction


@kind("twice_counts", order=("scale", "tables"))
@dataclass(frozen=True, eq=False)
class TwiceCounts(Released):
    """Tables of all families, with noise."""

    network: Network
    tables: CountTables
    scale: Positive

    def __post_init__(self) -> None:
        freeze(self, tables={node: np.asarray(table) for node, table in self.tables.items()})

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        law = TwiceLaplace(self.scale)
        return tuple(Measurement(self.network.family(node), table, law) for node, table in self.tables.items())

    def summary(self, calibration: object) -> str:
        return f"{TwiceLaplace.words} {self.scale:.4g} records in every cell"

    def agrees(self, calibration: object) -> bool:
        return isinstance(calibration, TwiceNoise) and calibration.scale == self.scale


KINDS = (TwiceNoise, TwiceCounts)
