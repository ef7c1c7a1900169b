"""Family counts in two measurements, the second with budgets that depend on the first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.errors import InputError, require
from discreet.model.network import Network
from discreet.releases.codec import kind
from discreet.releases.kinds.noisy_counts import NoisyCounts, TableNoise
from discreet.releases.measurement import Calibration, MeasuredTables, Measurement, spread


@kind("stages")
@dataclass(frozen=True)
class Stages(Calibration):
    """Two stages of noisy tables; the second's budgets are chosen from the first's release.

    Args:
        first: noise of the first stage, before amplification by sampling.
        first_epsilon: epsilon of the first stage, including sampling.
        second_epsilon: epsilon of the second stage.
        sampling: probability with which a record is in the sample of the first stage.
        weights: name of the rule by which the first stage sets the budgets.

    Raises:
        InputError: a budget is not positive, or the probability is not in (0, 1].
    """

    first: TableNoise
    first_epsilon: Fraction
    second_epsilon: Fraction
    sampling: Fraction
    weights: str

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        positive = self.first_epsilon > 0 and self.second_epsilon > 0
        require(positive, "a calibration needs budgets greater than 0 for both stages")
        require(0 < self.sampling <= 1, "a calibration needs a sampling probability in (0, 1]")

    @property
    def total(self) -> Fraction:
        """Epsilon of both stages."""
        return self.first_epsilon + self.second_epsilon


@kind("two_stage_counts", order=("sampling", "first", "second"))
@dataclass(frozen=True, eq=False)
class TwoStageCounts(MeasuredTables):
    """Two independent noisy measurements of the family counts, the first perhaps on a sample of the records.

    Args:
        first: on the sample.
        second: on all records.
        sampling: probability with which each record is in the sample of each table of the first stage.

    Raises:
        InputError: stages over different networks or families, or a probability outside (0, 1].

    Example:
        >>> from fractions import Fraction
        >>> import discreet as dc
        >>> import numpy as np
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> counts = {"rain": np.array([3, 7])}
        >>> first, second = (dc.kinds.NoisyCounts(rain, counts, {"rain": scale}) for scale in (9.0, 2.0))
        >>> [part.sampling for part in dc.research.TwoStageCounts(first, second, Fraction(1, 2)).measurements]
        [None, 0.5]
    """

    first: NoisyCounts
    second: NoisyCounts
    sampling: Fraction

    def __post_init__(self) -> None:
        """Refuse payloads that inference could not read."""
        if self.first.network != self.second.network or set(self.first.tables) != set(self.second.tables):
            raise InputError("both stages must measure the same families")
        if not 0 < self.sampling <= 1:
            raise InputError("the sampling probability must be greater than 0 and at most 1")

    @property
    def network(self) -> Network:
        """Network whose families were counted."""
        return self.second.network

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`."""
        share = float(self.sampling)
        return (*self.second.measurements, *(replace(table, sampling=share) for table in self.first.measurements))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        scales = spread(self.first.scales.values())
        return f"first stage: discrete Laplace of scale {scales} records; the second's are in the release"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return (
            isinstance(calibration, Stages)
            and dict(self.first.scales) == dict(calibration.first.scales)
            and self.sampling == calibration.sampling
        )
