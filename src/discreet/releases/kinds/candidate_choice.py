"""One of finitely many public candidates, by their log-likelihoods with noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InputError, require, shown
from discreet.model.network import Network
from discreet.releases.codec import Count, Positive, Probabilities, all_positive, kind
from discreet.releases.measurement import Released

__all__ = ["Choice", "Selection"]


@kind("selection")
@dataclass(frozen=True)
class Selection:
    """A choice among finitely many candidates, `P(c) ~ exp(log-likelihood of c / scale)`.

    Args:
        sensitivity: widest range, over candidates, of what one record can do to their log-likelihoods; nats.
        scale: of the selection; nats.
        reported: epsilon, rounded up, with the reserve for rounding errors.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Positive
    scale: Positive
    reported: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no calibration."""
        require(all_positive(self.sensitivity, self.scale), "a calibration needs a positive sensitivity and scale")
        require(self.reported > 0, "a calibration needs a report greater than 0")

    @property
    def total(self) -> Fraction:
        """Epsilon of the choice."""
        return self.reported


@kind("choice", order=("index", "candidates"))
@dataclass(frozen=True, eq=False)
class Choice(Released):
    """One of finitely many public candidates.

    Args:
        candidates: probabilities of the whole network, at least two.
        index: of the chosen one.

    Raises:
        InputError: fewer than two candidates, over different networks, or an index that names none.
    """

    candidates: tuple[Probabilities, ...]
    index: Count

    def __post_init__(self) -> None:
        """Refuse what is no choice."""
        if len(self.candidates) < 2 or any(part.network != self.network for part in self.candidates):
            raise InputError("a choice needs at least two candidates over one network")
        if not 0 <= self.index < len(self.candidates):
            raise InputError("the chosen candidate is not in the list")
        for part in self.candidates:
            for node, table in part.items():
                if not (np.all(table >= 0) and np.all(np.abs(table.sum(axis=-1) - 1) < 1e-6)):
                    raise InputError(f"a candidate's rows of {shown(node)} are no probabilities")

    @property
    def network(self) -> Network:
        """The network of the candidates."""
        return self.candidates[0].network

    @property
    def over(self) -> Network:
        """The network."""
        return self.network

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        scale = f"{calibration.scale:.4g}" if isinstance(calibration, Selection) else "?"
        return f"one candidate, by log-likelihood with noise of scale {scale} nats"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return isinstance(calibration, Selection)
