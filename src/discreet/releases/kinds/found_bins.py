"""Bins of numeric columns that a first stage found in private, and the release over these bins.

Numbers of records between public round numbers are released first, with a share of the budget; bins and clipped bounds
are a function of them, and the rest of the budget goes to a release over these bins. What follows is about the clipped
columns; how many records lie outside is told by the first stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import require, shown
from discreet.model.network import Network
from discreet.model.round_numbers import typical_network, wide_columns
from discreet.model.schema import Variable
from discreet.noise.noise_laws import NO_NOISE, DiscreteLaplace
from discreet.privacy.guarantee import Relation
from discreet.releases.codec import Finite, Integers, Positive, Whole, all_positive, kind
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.kinds.number_tables import NumberNoise, NumberTables
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs, TablesWithPairs
from discreet.releases.measurement import Calibration, MeasuredTables, Measurement, PlannedNumber, Released
from discreet.util.arrays import freeze


@kind("found_bins_noise")
@dataclass(frozen=True, kw_only=True)
class FoundBinsNoise(Calibration):
    """Noise of a first stage that finds bins, and of the release over them.

    Args:
        columns: whose bins are found.
        sensitivity: most records by which neighbours differ in one table.
        scale: of discrete Laplace noise on the records between round numbers.
        reported: epsilon of the first stage, rounded up.
        epsilon: of the release over the bins.
        delta: of the same.
        second: noise of that release; before the bins are known, of as many bins as there may be.

    Raises:
        InputError: a number is not positive and finite.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("wage", bounds=(0, 1e6)),), {"wage": ()})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.planned().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> noise.columns, round(noise.scale, 9), round(float(noise.epsilon), 9), noise.total <= 1
        (1, 10.0, 0.9, True)
    """

    columns: Whole
    sensitivity: Whole
    scale: Positive
    reported: Fraction
    epsilon: Fraction
    delta: Fraction
    second: PlannedNoise | NoiseWithPairs | NumberNoise

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        require(all_positive(self.scale) and self.scale < NO_NOISE, "found bins need a positive noise scale below 2^63")
        require(self.reported > 0 and self.epsilon > 0 and 0 <= self.delta < 1, "both stages cost more than 0")
        fits = self.second.total <= self.epsilon and self.second.sensitivity == self.sensitivity
        require(fits, "the release over found bins costs what is left for it, for the same neighbours")

    @property
    def of_tables(self) -> Calibration:
        """See `Calibration`."""
        return self.second.of_tables

    @property
    def ordinary(self) -> Calibration:
        """See `Calibration`."""
        return self.second

    @property
    def total(self) -> Fraction:
        """Epsilon of both stages."""
        return self.reported + self.second.total

    def planned_numbers(self, network: Network, records: int) -> tuple[PlannedNumber, ...]:
        """See `Calibration`; nothing of columns whose bins are yet to be found.

        Args:
            network: of the columns.
            records: their number.
        """
        wide = {variable.name for variable in wide_columns(network)}
        planned = self.second.planned_numbers(typical_network(network), records)
        return tuple(part for part in planned if part.name not in wide)


@kind(None)
@dataclass(frozen=True, eq=False)
class RoundCounts:
    """Records of a column between round numbers, with noise.

    Args:
        number: name of the column.
        edges: ends of the cells; the first and the last are the declared bounds, but of whole numbers the last is the
            first number beyond.
        counts: int64, shape (cells,).
        scale: of the discrete Laplace noise in each count.
    """

    number: str
    edges: tuple[Finite, ...]
    counts: Integers
    scale: Positive

    def outside(self, variable: Variable, steps: int) -> tuple[dict[str, Any], ...]:
        """List how many records or units lie below and above the found bounds, where these are not the declared ones.

        Args:
            variable: with the found bins.
            steps: that one of these counts.

        Returns:
            Rows of "variables", "states" ("below" or "above" with the bound), "value", "lower" and "upper": an interval
            of 95 % of the number without noise.
        """
        law = DiscreteLaplace(self.scale).per_unit(steps)
        low, *_, high = variable.edges
        ends = np.array(self.edges)
        parts = (("below", low, ends[1:] <= low), ("above", high, ends[:-1] >= high))
        rows = []
        for side, bound, cells in parts:
            if cells.any():
                value = float(self.counts[cells].sum()) / steps
                lower, upper = law.sum_interval(value, int(cells.sum()))
                states = f"{side} {bound:.16g}"
                rows.append(
                    {"variables": self.number, "states": states, "value": value, "lower": lower, "upper": upper}
                )
        return tuple(rows)


@kind("found_bins", order=("columns", "second"))
@dataclass(frozen=True, eq=False)
class FoundBins(MeasuredTables):
    """Records between round numbers, by which bins were found, and the release over these bins.

    Args:
        network: with the bins that were found.
        columns: the records between round numbers, in the schema's order.
        second: the release over the network.

    Raises:
        InputError: parts of different networks, or columns that are no numeric variables with cells that rise.

    Example:
        >>> import discreet as dc
        >>> import pyarrow as pa
        >>> network = dc.Network((dc.Variable("wage", bounds=(0, 1e6)),), {"wage": ()})
        >>> wages = pa.table({"wage": [float(wage % 3000) for wage in range(20_000)]})
        >>> records = dc.read_records(wages, network.schema)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(
        ...     dc.planned(), dc.count(records, network), dc.Dirichlet.uniform(network), promise, rng=1
        ... )
        >>> release.network.variables[0].bounds
        (0.0, 4000.0)
    """

    network: Network
    columns: tuple[RoundCounts, ...]
    second: NoisyTables | TablesWithPairs | NumberTables

    def __post_init__(self) -> None:
        """Freeze, then refuse parts that do not fit together."""
        freeze(self, columns=tuple(self.columns))
        require(self.second.network == self.network, "the found bins and the release over them are of one network")
        require(bool(self.columns), "bins are found of a column at least")
        names = [column.number for column in self.columns]
        numeric = [variable.name for variable in self.network.variables if variable.numeric]
        require([name for name in numeric if name in names] == names, "bins are found of numeric columns, each once")
        for column in self.columns:
            rising = bool(np.all(np.diff(column.edges) > 0)) and column.counts.shape == (len(column.edges) - 1,)
            require(rising, f"the cells of {shown(column.number)} need rising ends, and a count each")
            low, *_, high = self.network.schema[column.number].edges
            inside = bool(np.isin([low, high], column.edges).all())
            require(inside, f"the bins of {shown(column.number)} must begin and end where cells of it do")

    @property
    def of_tables(self) -> Released:
        """See `Released`."""
        return self.second.of_tables

    @property
    def ordinary(self) -> Released:
        """See `Released`."""
        return self.second

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`: those of the release over the bins, which tell nearly all that the first stage does."""
        return self.second.measurements

    def clipped(self, steps: int) -> Mapping[str, str]:
        """See `Released`."""
        sentences = {}
        for column in self.columns:
            variable = self.network.schema[column.number]
            low, high = variable.bounds or (0.0, 0.0)
            parts = [
                f"about {max(row['value'], 0):,.0f} ({row['lower']:,.0f} to {row['upper']:,.0f}) of them are "
                f"{row['states'].partition(' ')[0]}"
                for row in column.outside(variable, steps)
            ]
            if parts:
                sentences[column.number] = (
                    f"{column.number} counts as {low:g} to {high:g}, whatever is beyond; {' and '.join(parts)}"
                )
        return sentences

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, FoundBinsNoise) or len(self.columns) != calibration.columns:
            return False
        alike = all(column.scale == calibration.scale for column in self.columns)
        return alike and self.second.agrees(calibration.second)

    def counts_records(self, relation: Relation) -> bool:
        """See `Released`."""
        return self.second.counts_records(relation)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = self.second.summary(calibration.second if isinstance(calibration, FoundBinsNoise) else calibration)
        variables = (self.network.schema[column.number] for column in self.columns)
        bins = ", ".join(
            f"{shown(each.name)} ({len(each.bins) + 1} from {low:g} to {high:g})"
            for each in variables
            for low, high in [each.bounds or (0.0, 0.0)]
        )
        return f"bins found of {bins}; {line}"

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`; then how many records are between round numbers, a row each."""
        rows = self.second.rows()
        for column in self.columns:
            cells = zip(column.edges[:-1], column.edges[1:], column.counts.tolist(), strict=True)
            rows += [
                {"variables": column.number, "states": f"from {low:.16g} below {high:.16g}", "value": value,
                 "scale": column.scale, "noise": DiscreteLaplace.tag}
                for low, high, value in cells
            ]  # fmt: skip
        return rows
