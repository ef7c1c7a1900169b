"""Measurements: noisy sums over records, in the one form that all readers take.

Each kind of payload (`kinds/`) says once what it measured. Posteriors, fits, summaries and reports read that, and need
to know no payload.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np

from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.model.over import Over
from discreet.model.schema import Scope, Variable
from discreet.noise.noise_laws import KNOWN_VARIANCE, NoiseLaw
from discreet.noise.star import Star
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import is_kind
from discreet.util.arrays import Floats, Ints
from discreet.util.pack_entries import of_packs


class PlannedNumber(NamedTuple):
    """Public summary of what a release tells of a numeric column beside its bins.

    Args:
        name: of the column.
        noise: standard deviation that noise makes of the column's mean, in its unit.
        left_open: half a typical bin: as far the mean may lie from what bins tell.
        leaves: of each bin, counted for quantiles; 1 if none are.
        moments: whether squares and products are summed, for deviations and correlations.
        families: whose rows have sums of their own.
    """

    name: str
    noise: float
    left_open: float
    leaves: int
    moments: bool
    families: int

    @property
    def pays(self) -> bool:
        """True if noise leaves less of the mean open than bins do, at two standard deviations."""
        return 2 * self.noise < self.left_open


@dataclass(frozen=True, eq=False)
class Measurement:
    """A table of the records, or sums over its cells, with noise in every number: independent, unless of a star.

    Args:
        scope: the table's variables, in the order of its axes.
        values: shape (size for the scope), unit: records, whole numbers unless by others; of contrasts (size - 1 for
            the scope), see `research/scores/contrasts.py`; of weighted sums (sums,). Without noise, if there were any.
        noise: its law; None for numbers that are known exactly.
        contrasts: whether the values are contrasts of neighbouring states.
        sampling: probability with which each record, by itself, was counted; None where all were.
        selection: of a second stage that measured what no table of the first holds: whether this table was "chosen" for
            what the first stage misjudged, or taken at "random"; None for other tables.
        weights: of sums over the cells: what a record in each cell adds to each sum, float64, shape
            (sums, size for the scope); None for the cells themselves, and for contrasts.
    """

    scope: Scope
    values: Ints | Floats
    noise: NoiseLaw | None
    contrasts: bool = False
    sampling: float | None = None
    selection: Literal["chosen", "random"] | None = None
    weights: Floats | None = None

    @property
    def scale(self) -> float | None:
        """Scale of the noise; None for numbers that are known exactly."""
        return None if self.noise is None else self.noise.scale

    @property
    def tag(self) -> str | None:
        """Name of the law of the noise in documents."""
        return None if self.noise is None else self.noise.tag

    @property
    def variance(self) -> float:
        """Variance of the noise in one number."""
        return KNOWN_VARIANCE if self.noise is None else self.noise.variance

    @property
    def star(self) -> Star | None:
        """Law of the noise if the table is one of a star, else None."""
        return self.noise if isinstance(self.noise, Star) else None

    def per_unit(self, steps: int) -> Measurement:
        """Convert the measurement to units that count `steps` each.

        Args:
            steps: at least 1; 1 changes nothing.
        """
        if steps == 1:
            return self
        return replace(
            self, values=self.values / steps, noise=None if self.noise is None else self.noise.per_unit(steps)
        )

    @property
    def table(self) -> bool:
        """True if every cell of the scope was measured, not contrasts or weighted sums."""
        return not self.contrasts and self.weights is None

    @property
    def known_total(self) -> int | None:
        """The number of records where a table says it exactly."""
        exact = self.table and self.noise is not None and self.noise.reach == 0
        return round(float(self.values.sum())) if exact else None


@dataclass(frozen=True, eq=False)
class Scores:
    """Choices among Z candidates, `P(z) ~ exp(base_z + sum over records x and sets S of tables[S][x_S, z])`.

    Args:
        tables: by set of variables, float64, shape (size for the set, Z), unit: nats for a record.
        chosen: indices of the candidates that were drawn, independently given the records.
        base: log weights before any record, shape (Z,); None for all alike.
        total: a noisy number of records and the scale of its discrete Laplace noise; None where none was measured.
    """

    tables: Mapping[Scope, Floats]
    chosen: tuple[int, ...]
    base: Floats | None = None
    total: tuple[int, float] | None = None

    def per_unit(self, steps: int) -> Scores:
        """Convert to units that count so many records each."""
        tables = {scope: table * steps for scope, table in self.tables.items()}
        total = None if self.total is None else (round(self.total[0] / steps), self.total[1] / steps)
        return replace(self, tables=tables, total=total)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Draws of a network's rows, each from `Dirichlet(concentrations + temper * counts)`, on a grid if trimmed.

    Args:
        rows: by family, draws of its rows, float64, shape `(*parents, child, draws)`.
        concentrations: by family, those of the curator's prior, shape `(*parents, child)`.
        temper: weight of a record in the concentrations.
        floors: by family, the smallest probability; 0 if nothing was trimmed.
        steps: by family, of the grid from the floor to the largest probability.
        total: a noisy number of records and the scale of its discrete Laplace noise; None where none was measured.
    """

    rows: Mapping[Scope, Floats]
    concentrations: Mapping[Scope, Floats]
    temper: float
    floors: Mapping[Scope, float]
    steps: Mapping[Scope, int]
    total: tuple[int, float] | None


def spread(values: Iterable[float]) -> str:
    """Format equal numbers as one, else the smallest and the largest.

    Example:
        >>> spread([2.0, 2.0]), spread([3.0, 2.0])
        ('2', '2 to 3')
    """
    distinct = sorted(set(values))
    return f"{distinct[0]:.4g}" if len(distinct) == 1 else f"{distinct[0]:.4g} to {distinct[-1]:.4g}"


def measured_rows(table: Measurement, network: Network) -> Iterator[dict[str, Any]]:
    """Yield the rows of a measurement: cells of a table, contrasts of neighbouring states, or weighted sums.

    Args:
        table: what was measured.
        network: of its variables.

    Yields:
        Rows as of `Released.rows`; of weighted sums the states are their numbers.
    """
    axes = [_list_states(network.schema[name], table.contrasts) for name in table.scope]
    if table.weights is not None:
        axes = [[f"sum {number}" for number in range(1, len(table.weights) + 1)]]
    scope = {"variables": ", ".join(table.scope)}
    noise = {"scale": table.scale, "noise": table.tag, "contrast": table.contrasts}
    noise |= {} if table.sampling is None else {"sampled": table.sampling}
    for states, value in zip(product(*axes), np.ravel(table.values).tolist(), strict=True):
        yield {**scope, "states": ", ".join(states), "value": value, **noise}


def _list_states(variable: Variable, contrasts: bool) -> Sequence[str]:
    """List the states of an axis, or pairs of neighbouring ones."""
    states = variable.states
    return [f"{low} - {high}" for low, high in pairwise(states)] if contrasts else states


class Calibration(ABC):
    """Calibration of noise to a budget: public, and computed before any record is read.

    Attributes:
        domain: of what it is over, see `Over`.
    """

    domain: ClassVar[str] = "network"

    @property
    @abstractmethod
    def total(self) -> Fraction:
        """Epsilon of the whole release, rounded up; at the guarantee's delta where that is not 0."""

    @property
    def gaussian_loss(self) -> Fraction | None:
        """Gaussian loss of the whole release (`discreet.privacy.gaussian_loss`); None for that of its guarantee."""
        return None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Sets of variables that are measured beside the families; the statistic must hold their tables."""
        return ()

    @property
    def of_tables(self) -> Calibration:
        """The part of it that is the noise of tables; all of it unless the payload has other parts."""
        return self

    @property
    def ordinary(self) -> Calibration:
        """The noise of the release over the bins of its network; all of it unless a first stage finds these."""
        return self

    def planned_numbers(self, network: Network, records: int) -> tuple[PlannedNumber, ...]:
        """List what is released of each numeric column beside its bins; nothing unless the payload has such a part.

        Args:
            network: of the release.
            records: guessed number.
        """
        return ()

    @property
    def continuous(self) -> bool:
        """True if its draws come from a continuous law, which cannot be enumerated."""
        return False


class Reported(Calibration):
    """A calibration that states its total cost, as the privacy map of its noise reports it."""

    reported: Fraction

    @property
    def total(self) -> Fraction:
        """See `Calibration`."""
        return self.reported


class Released(ABC):
    """Interface of payloads: their measurements, and whether they agree with a calibration.

    Attributes:
        domain: of what it is over, see `Over`; the field of this name has it.
    """

    domain: ClassVar[str] = "network"

    @property
    def over(self) -> Over:
        """The network, or what else the payload is over."""
        return cast(Over, getattr(self, self.domain))

    @property
    def of_tables(self) -> Released:
        """The part of it that is tables; all of it unless it has other parts."""
        return self

    @property
    def ordinary(self) -> Released:
        """The release over the bins of its network; all of it unless a first stage found these."""
        return self

    def learned(self, origin: Learned) -> Network | None:
        """The network that the payload chose, with its origin; None if it is of another kind.

        Args:
            origin: of arcs, from the release.
        """
        return None

    def clipped(self, steps: int) -> Mapping[str, str]:
        """Say by name of which columns numbers are clipped to bounds that were found, and how many these are.

        Args:
            steps: that one of those counts: a record, or a unit whose records share its count.
        """
        return {}

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Measurements of the records by the states of some variables; empty if the payload is of another kind."""
        return ()

    def scores(self, calibration: object) -> Scores | None:
        """Choices by scores, given the calibration that it agrees with; None if the payload is of another kind."""
        return None

    def drawn_rows(self, prior: Any, calibration: object) -> DrawnRows | None:
        """Draws of rows; None if the payload is of another kind.

        Args:
            prior: prior of the curator.
            calibration: calibration of the release.
        """
        return None

    def per_unit(self, steps: int) -> Self:
        """Convert to units that count so many records each: what is not in measurements or scores.

        A posterior of so much a record counts a unit for all of its records, and a sum over records is one over units
        that count for all of theirs; nothing else of a payload is about the number of records.
        """
        return self

    def log_range(self, calibration: object, relation: Relation) -> float | None:
        """Largest change in nats of the log weight of a draw by one step of a unit; None if nothing was drawn.

        Args:
            calibration: that this agrees with.
            relation: what neighbours are.
        """
        return None

    @property
    def drawn_together(self) -> tuple[int, float | None] | None:
        """Number of posterior draws, and the noise scale of the number of records; None for other kinds."""
        return None

    def rows(self) -> list[dict[str, Any]]:
        """List a row for each released number, as published.

        Returns:
            Of tables and contrasts rows of "variables", "states", "value" with its noise, "scale" of the noise and its
            law, "noise"; of a chosen network its arcs; of draws and candidates their numbers; of a regression the noisy
            sums of products, or its weights.
        """
        return [row for table in self.measurements for row in measured_rows(table, cast(Network, self.over))]

    @property
    def answers_over(self) -> Network | None:
        """The network of the answers if it is not that of the payload, else None."""
        return None

    @abstractmethod
    def agrees(self, calibration: object) -> bool:
        """True if the payload agrees with a calibration: its kind, and all numbers that both state."""

    @abstractmethod
    def summary(self, calibration: object) -> str:
        """Write the scale of the noise in the unit of the release: one line, given the calibration."""

    def counts_records(self, relation: Relation) -> bool:
        """True if a reader knows the number of records once: exactly if it is public, or with noise."""
        return True


class MeasuredTables(Released):
    """Payloads that consist of their `measurements`: all readers of tables and contrasts read them."""


def pack_kinds(domain: str, *, paid: bool) -> tuple[type, ...]:
    """List the kinds that packs bring.

    Args:
        domain: of what a release with them is over.
        paid: whether they are payloads, and not calibrations.

    Returns:
        Those under `kind` that are a `Released` or a `Calibration`; what is neither is left out, and a warning says so.
    """
    wanted: type[Released | Calibration] = Released if paid else Calibration
    chosen: list[type] = []
    for brought in of_packs("discreet.kinds"):
        if not (isinstance(brought, type) and issubclass(brought, Released | Calibration) and is_kind(brought)):
            warnings.warn(f"a pack brings {brought!r}, which is no kind of payload or calibration", stacklevel=2)
        elif issubclass(brought, wanted) and brought.domain == domain:
            chosen.append(brought)
    return tuple(chosen)
