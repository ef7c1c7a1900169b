"""Choice among finitely many public candidates, by their log-likelihoods with noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.designs.kinds.noisy_sums import NoisyTotal, total_line, total_scale
from discreet.errors import InputError, require, shown
from discreet.model.network import Network
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Count, Positive, Probabilities, all_positive, kind
from discreet.releases.listing import list_probabilities
from discreet.releases.measurement import Released, Reported, Scores


@kind("selection")
@dataclass(frozen=True)
class Selection(Reported):
    """Choice among finitely many candidates, `P(c) ~ exp(log-likelihood of c / scale)`.

    Args:
        sensitivity: widest range, over candidates, of one record's effect on their log-likelihoods; nats.
        scale: of the selection; nats.
        reported: epsilon of choice and number together, rounded up, with the reserve for rounding errors.
        total_scale: of discrete Laplace noise on the number of records; None if it is not measured.

    Raises:
        InputError: a number is not positive and finite.
    """

    sensitivity: Positive
    scale: Positive
    reported: Fraction
    total_scale: Positive | None = None

    def __post_init__(self) -> None:
        """Refuse invalid numbers."""
        require(
            all_positive(self.sensitivity, self.scale, self.total_scale),
            "a calibration needs a positive sensitivity and scales",
        )
        require(self.reported > 0, "a calibration needs a report greater than 0")


@kind("choice", order=("index", "total", "candidates"))
@dataclass(frozen=True, eq=False)
class Choice(Released):
    """Choice of one of finitely many public candidates.

    Args:
        candidates: probabilities of the whole network, at least two.
        index: of the chosen candidate.
        total: noisy number of records; None if it is public, or was not measured (the first releases).

    Raises:
        InputError: fewer than two candidates, candidates over different networks, or an index out of range.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> dry, wet = (dc.Tables(rain, {"rain": row}) for row in ([0.2, 0.8], [0.8, 0.2]))
        >>> choice = dc.research.Choice((dry, wet), index=1)
        >>> choice.candidates[choice.index]["rain"].tolist()
        [0.8, 0.2]
    """

    candidates: tuple[Probabilities, ...]
    index: Count
    total: NoisyTotal | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid list of candidates or index."""
        if len(self.candidates) < 2 or any(each.network != self.network for each in self.candidates):
            raise InputError("a choice needs at least two candidates over one network")
        if not 0 <= self.index < len(self.candidates):
            raise InputError("the index of the chosen candidate is out of range")
        for each in self.candidates:
            for node, table in each.items():
                if not (np.all(table >= 0) and np.all(np.abs(table.sum(axis=-1) - 1) < 1e-6)):
                    raise InputError(f"a candidate's rows of {shown(node)} are no probabilities")

    @property
    def network(self) -> Network:
        """Network of the candidates."""
        return self.candidates[0].network

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`."""
        return list(list_probabilities(self.candidates[self.index]))

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        scale = f"{calibration.scale:.4g}" if isinstance(calibration, Selection) else "?"
        return f"one candidate, by log-likelihood with noise of scale {scale} nats{total_line(self.total)}"

    def scores(self, calibration: object) -> Scores | None:
        """See `Released`."""
        if not isinstance(calibration, Selection):
            return None
        total = None if self.total is None else (self.total.value, self.total.scale)
        tables = {}
        for node in self.network.nodes:
            # Mechanisms refuse candidates with a probability of 0; documents could hold one.
            rows = np.maximum(np.stack([each[node] for each in self.candidates], axis=-1), np.finfo(np.float64).tiny)
            tables[self.network.family(node)] = np.log(rows) / calibration.scale
        return Scores(tables, (self.index,), total=total)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return isinstance(calibration, Selection) and calibration.total_scale == total_scale(self.total)

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return self.total is None or not relation.public_number
