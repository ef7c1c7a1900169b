"""Sums of numbers beside the tables of a plan: what the bins of numeric columns leave open, with noise.

Offsets and leaves are those of `discreet.model.number_grid`. Four parts share the budget for numbers:

* offsets: of every numeric column the sum of its offsets, with cube noise on all of these sums together;
* moments: of every column the sum of its squares, and of every pair of columns in one family the sum of their products,
  each less that of the middles of the bins, with cube noise on all of them;
* rows: of every column and every family that it lies in, the sums of its offsets over the records of each state of the
  family's other variables;
* rulers: of some columns the number of records in each leaf.

Under a guarantee with a delta all four may have discrete Gaussian noise, independent in every number.

What the noise would bury is left out, by public numbers alone, and its budget goes to the rest: of many columns, or of
few records, there are offsets alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet.errors import require, shown
from discreet.model.network import Network
from discreet.model.number_grid import MOST_LEAVES, STEPS, NumberGrid, number_grids, number_pairs
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CELL_LAWS, NO_NOISE, CellLaw, CellTag, DiscreteGaussian, DiscreteLaplace
from discreet.noise.shapes import Cube, VectorLaw, vector_law
from discreet.privacy.gaussian_loss import discrete_rho, pure_rho, sum_rho
from discreet.releases.codec import Integers, Positive, Whole, all_positive, kind
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs, TablesWithPairs
from discreet.releases.measurement import Calibration, MeasuredTables, Measurement, PlannedNumber
from discreet.util.arrays import freeze

MOMENT_STEPS = 2**20
"""Whole numbers that stand for the largest moment that one record can add."""
MOST_ROWS = 2**12
"""Most rows of a family whose sums of offsets are released; more have too few records each."""
LEAF_RECORDS = 4
"""A ruler has so many leaves that the noise of the records in one is at most a `LEAF_RECORDS`-th of the sampling error
of a column's quarter, about: a rule of public numbers, checked in docs/numbers.md."""


MOST_MOMENT_NOISE = 0.25
"""Most noise of a moment, in what all records together could add at most: beyond that all are left out."""
MOST_ROW_NOISE = 1.0
"""Most noise of the mean of a row, in half widths of the widest bin, if all rows have equally many records: beyond that
the sums of its family are left out."""
SPREAD_SLACK = Fraction(1, 10**12)
"""Relative enlargement of scales that are changed: far above what float arithmetic and the maps of samplers round."""


class NumberParts(NamedTuple):
    """Parts of a release beside the sums of offsets.

    Args:
        moments: whether there are any.
        rows: sums by rows: name of the column, and the others of the family.
        leaves: by column, of each bin; 1 where there is no ruler.
    """

    moments: bool
    rows: tuple[tuple[str, Scope], ...]
    leaves: tuple[tuple[str, int], ...]


@kind("number_noise")
@dataclass(frozen=True, kw_only=True)
class NumberNoise(Calibration):
    """Noise of tables, and of the sums of numbers beside them.

    Args:
        first: of the tables.
        sensitivity: most records by which neighbours differ in one table.
        offset_scale: of the noise on the sums of offsets, in steps.
        moment_scale: of the noise on the moments, in parts of `MOMENT_STEPS`.
        row_scale: of the noise on each sum of offsets by rows, in steps; None where no family has two variables.
        leaf_scale: of the noise on each leaf's records.
        reported: epsilon of all sums of numbers together, rounded up; of Gaussian noise at the delta that they have. 0
            where the zero-concentrated loss of the tables and of the sums is one, which the tables report.
        rho: zero-concentrated loss of all sums together, if their noise is discrete Gaussian; None for cube noise on
            offsets and moments, and discrete Laplace noise on rows and leaves.

    Raises:
        InputError: a number is not positive and finite.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("age", bounds=(0, 120), bins=(40, 60)),), {"age": ()})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.planned().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> type(noise).__name__, noise.row_scale, noise.total <= 1
        ('NumberNoise', None, True)
    """

    first: PlannedNoise | NoiseWithPairs
    sensitivity: Whole
    offset_scale: Positive
    moment_scale: Positive
    row_scale: Positive | None
    leaf_scale: Positive
    reported: Fraction
    rho: Fraction | None

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        scales = (self.offset_scale, self.moment_scale, self.row_scale, self.leaf_scale)
        require(all_positive(*scales), "sums of numbers need positive, finite noise scales")
        require(all(scale is None or scale < NO_NOISE for scale in scales), "noise scales must be below 2^63")
        paid = self.reported > 0 if self.rho is None else self.rho > 0 and self.reported >= 0
        require(paid, "sums of numbers cost more than 0")

    @property
    def of_tables(self) -> PlannedNoise | NoiseWithPairs:
        """See `Calibration`."""
        return self.first

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """See `Calibration`."""
        return self.first.scopes

    @property
    def total(self) -> Fraction:
        """Epsilon of the tables and of the sums of numbers."""
        return self.first.total + self.reported

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`."""
        scales = (self.offset_scale, self.moment_scale, self.row_scale, self.leaf_scale)
        sums = pure_rho(self.reported) if self.rho is None else discrete_rho(self.rho, *scales)
        return sum_rho(self.first.gaussian_loss, sums)

    @property
    def noise(self) -> CellTag:
        """Law of the noise on single numbers, as `NumberTables` says it."""
        return DiscreteLaplace.tag if self.rho is None else DiscreteGaussian.tag

    def vector_law(self, scale: float, size: int) -> VectorLaw:
        """Make the law of the noise on all offsets, or all moments.

        Args:
            scale: of the noise.
            size: how many sums there are.
        """
        return vector_law(Cube.tag if self.rho is None else DiscreteGaussian.tag, scale, size)

    def offset_law(self, network: Network) -> VectorLaw:
        """Make the law of the noise on the sums of offsets of a network, in steps."""
        return self.vector_law(self.offset_scale, len(number_grids(network)))

    def moment_law(self, network: Network) -> VectorLaw:
        """Make the law of the noise on the moments of a network, in parts of `MOMENT_STEPS`."""
        return self.vector_law(self.moment_scale, len(moment_names(network)))

    @property
    def row_law(self) -> CellLaw:
        """Law of the noise on sums by rows, in steps; there must be some."""
        assert self.row_scale is not None
        return self._cell_law(self.row_scale)

    @property
    def leaf_law(self) -> CellLaw:
        """Law of the noise on each leaf's records."""
        return self._cell_law(self.leaf_scale)

    def _cell_law(self, scale: float) -> CellLaw:
        """Make the law of the noise on single numbers."""
        return CELL_LAWS[self.noise](scale)

    def choose_parts(self, network: Network, records: float) -> NumberParts:
        """Choose what is released beside the offsets: nothing that noise of these scales would bury.

        Args:
            network: public.
            records: their number, public or released.

        Example:
            >>> import discreet as dc
            >>> network = dc.Network((dc.Variable("age", bounds=(0, 120), bins=(40, 60)),), {"age": ()})
            >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
            >>> noise = dc.planned().calibrate(network, dc.Dirichlet.uniform(network), promise)
            >>> [noise.choose_parts(network, records)[::2] for records in (100, 2000)]
            [(False, (('age', 1),)), (True, (('age', 16),))]
        """
        records, leaf = max(records, 1.0), math.sqrt(self.leaf_law.variance)
        moment = math.sqrt(self.moment_law(network).raw_variance) / (records * MOMENT_STEPS)
        row = math.inf if self.row_scale is None else math.sqrt(self.row_law.variance) / (records * STEPS)
        rows = (each for each in row_scopes(network) if row * network.cells(each[1]) <= MOST_ROW_NOISE)
        leaves = ((name, leaves_for(grid, records, leaf)) for name, grid in number_grids(network).items())
        return NumberParts(moment <= MOST_MOMENT_NOISE, tuple(rows), tuple(leaves))

    def spread(self, network: Network, parts: NumberParts) -> NumberNoise:
        """Give the budget of what is left out to the rest, in proportion; rulers keep their noise.

        Args:
            network: public.
            parts: that are released.

        Guarantee:
            The losses of the parts at their scales, those of left-out ones among them, sum to the budget; the others
            grow by one factor, so that all that are released cost at most as much. With s records by which neighbours
            differ, a part costs `s M / b`, C in place of M for moments and 1 for a leaf, for each set of rows and each
            ruler; Gaussian noise `J (s M)^2 / (2 b^2)` for J offsets, and so on (`with_numbers`). Scales are enlarged
            by `SPREAD_SLACK` for rounding.
        """
        grids, by_rows = number_grids(network), row_scopes(network)
        pure = self.rho is None
        sizes = {
            "offset_scale": (STEPS, 1 if pure else len(grids), Fraction(1)),
            "moment_scale": (MOMENT_STEPS, 1 if pure else len(moment_names(network)), Fraction(parts.moments)),
            "row_scale": (STEPS, len(by_rows), Fraction(len(parts.rows), max(len(by_rows), 1))),
        }
        scales = {name: Fraction(getattr(self, name) or 1) for name in sizes}
        costs = {
            name: number * (reach / scales[name] if pure else (reach / scales[name]) ** 2)
            for name, (reach, number, _) in sizes.items()
        }
        unruled = sum(leaves == 1 for _, leaves in parts.leaves)
        released = sum((costs[name] * share for name, (_, _, share) in sizes.items()), Fraction())
        leaf = Fraction(self.leaf_scale)
        # Under replace a leaf's squared length is 2, and that of the others 4.
        left = (
            sum(costs.values(), Fraction())
            - released
            + unruled * (1 / leaf if pure else 1 / (leaf**2 * self.sensitivity))
        )
        if not left:
            return self
        smaller = float(released / (released + left)) if pure else math.sqrt(released / (released + left))
        grown = {name: float(scale * Fraction(smaller) * (1 + SPREAD_SLACK)) for name, scale in scales.items()}
        if self.row_scale is None:
            del grown["row_scale"]
        return replace(self, **grown)  # type: ignore[arg-type]

    def planned_numbers(self, network: Network, records: int) -> tuple[PlannedNumber, ...]:
        """See `Calibration`.

        Args:
            network: of the columns.
            records: their number.
        """
        grids, parts = number_grids(network), self.choose_parts(network, records)
        steps = math.sqrt(self.spread(network, parts).offset_law(network).raw_variance)
        return tuple(
            PlannedNumber(
                name,
                steps * grid.step / records,
                float(np.diff(grid.edges).mean()) / 2,
                dict(parts.leaves)[name],
                parts.moments,
                sum(column == name for column, _ in parts.rows),
            )
            for name, grid in grids.items()
        )


@kind(None)
@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums of a column's offsets by the states of other variables, with noise.

    Args:
        number: name of the column.
        given: names of the other variables, in the schema's order.
        sums: int64, in steps, shape (cells of the others,), the last variable fastest.
    """

    number: str
    given: tuple[str, ...]
    sums: Integers


@kind(None)
@dataclass(frozen=True, eq=False)
class Ruler:
    """Records in each leaf of a column, with noise.

    Args:
        number: name of the column.
        leaves: of each bin, a power of two.
        counts: int64, shape (leaves in all,).
    """

    number: str
    leaves: Whole
    counts: Integers


@kind("number_tables", order=("noise", "first", "offsets", "moments", "rows_by_family", "rulers"))
@dataclass(frozen=True, eq=False)
class NumberTables(MeasuredTables):
    """Tables of a plan, and sums of its numeric columns.

    Args:
        network: of the plan.
        first: the tables.
        offsets: int64, in steps, shape (numeric columns,), in the schema's order.
        moments: int64, shape (moments,), in the order of `moment_names`; in parts of `MOMENT_STEPS` of `moment_reach`;
            none where they are left out.
        rows_by_family: sums of offsets by rows, as `row_scopes` lists them, but for those that are left out.
        rulers: of the columns that have one, in the schema's order.
        noise: "discrete_gaussian" on all sums, or "discrete_laplace" on rows and leaves, with cube noise on offsets and
            moments.

    Raises:
        InputError: sums that are not those of the network's numeric columns.

    Example:
        >>> import discreet as dc
        >>> import pyarrow as pa
        >>> network = dc.Network((dc.Variable("age", bounds=(0, 120), bins=(40, 60)),), {"age": ()})
        >>> counts = dc.count(dc.read_records(pa.table({"age": [20, 50, 90]}), network.schema), network)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        >>> release.payload.offsets.shape, release.payload.moment_names, release.payload.rulers
        ((1,), (), ())
    """

    network: Network
    first: TablesWithPairs | NoisyTables
    offsets: Integers
    moments: Integers
    rows_by_family: tuple[RowSums, ...]
    rulers: tuple[Ruler, ...]
    noise: CellTag

    def __post_init__(self) -> None:
        """Freeze, then refuse sums that inference cannot read."""
        freeze(self, offsets=np.asarray(self.offsets), moments=np.asarray(self.moments))
        require(self.first.network == self.network, "the tables and the sums of numbers are of one network")
        require(bool(self.grids), "sums of numbers need a numeric column")
        fit = self.offsets.shape == (len(self.grids),) and self.moments.shape == (len(self.moment_names),)
        require(fit, "there must be a sum of offsets for every numeric column, and all moments or none")
        scopes = [(sums.number, sums.given) for sums in self.rows_by_family]
        require(
            [scope for scope in row_scopes(self.network) if scope in scopes] == scopes,
            "sums by rows are those of the network's families, in their order",
        )
        for sums in self.rows_by_family:
            size = self.network.cells(sums.given)
            require(sums.sums.shape == (size,), f"the sums of {shown(sums.number)} by rows need one for each row")
        names = [ruler.number for ruler in self.rulers]
        require([name for name in self.grids if name in names] == names, "rulers are of numeric columns, each once")
        for ruler in self.rulers:
            grid = self.grids[ruler.number]
            fine = 1 < ruler.leaves <= MOST_LEAVES and ruler.leaves & (ruler.leaves - 1) == 0
            require(fine, f"a bin has 2 to {MOST_LEAVES} leaves, a power of two")
            size = int(grid.leaves_of_bins(ruler.leaves).sum())
            require(ruler.counts.shape == (size,), f"the ruler of {shown(ruler.number)} needs a count for each leaf")

    @cached_property
    def grids(self) -> dict[str, NumberGrid]:
        """Grids of the numeric columns, by name."""
        return number_grids(self.network)

    @cached_property
    def moment_names(self) -> tuple[tuple[str, str], ...]:
        """The two columns of each moment; the same twice of a square. Empty where moments are left out."""
        return moment_names(self.network) if self.moments.size else ()

    @property
    def parts(self) -> NumberParts:
        """Parts that there are beside the sums of offsets."""
        rows = tuple((sums.number, sums.given) for sums in self.rows_by_family)
        leaves = tuple((name, self.leaves(name)) for name in self.grids)
        return NumberParts(bool(self.moments.size), rows, leaves)

    @property
    def records(self) -> float:
        """Noisy number of records by which the parts were chosen."""
        return float(self.measurements[0].values.sum())

    @property
    def of_tables(self) -> TablesWithPairs | NoisyTables:
        """See `Released`."""
        return self.first

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`: the tables; numbers are read beside them."""
        return self.first.measurements

    def leaves(self, name: str) -> int:
        """Leaves of each bin of a column; 1 where it has no ruler."""
        return next((ruler.leaves for ruler in self.rulers if ruler.number == name), 1)

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, NumberNoise) or not self.first.agrees(calibration.first):
            return False
        parts = calibration.choose_parts(self.network, self.records)
        return self.noise == calibration.noise and self.parts == parts

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        line = self.first.summary(calibration.first if isinstance(calibration, NumberNoise) else calibration)
        names = ", ".join(map(shown, self.grids))
        fine = f", {len(self.rulers)} with a ruler" * bool(self.rulers)
        return f"{line}; sums of {names} beside them{fine}"

    def rows(self) -> list[dict[str, Any]]:
        """See `Released`; each sum of numbers is a row of its own."""
        return [*super().rows(), *self._number_rows()]

    def _number_rows(self) -> Iterator[dict[str, Any]]:
        """List the sums of numbers as rows."""
        for name, value in zip(self.grids, self.offsets.tolist(), strict=True):
            yield {"variables": name, "states": "sum of offsets", "value": value}
        for pair, value in zip(self.moment_names, self.moments.tolist(), strict=True):
            yield {"variables": ", ".join(dict.fromkeys(pair)), "states": "sum of products", "value": value}
        for part in self.rows_by_family:
            for row, value in enumerate(part.sums.tolist(), 1):
                states = f"sum of offsets, row {row}"
                yield {"variables": ", ".join((part.number, *part.given)), "states": states, "value": value}
        for ruler in self.rulers:
            for leaf, value in enumerate(ruler.counts.tolist(), 1):
                yield {"variables": ruler.number, "states": f"leaf {leaf}", "value": value}


def row_scopes(network: Network) -> list[tuple[str, Scope]]:
    """List the sums of offsets by rows: each numeric column with the others of every largest family that it lies in.

    Args:
        network: public.

    Returns:
        (name of the column, names of the others in the schema's order), sorted by the families and then by columns;
        families of more than `MOST_ROWS` rows are left out.
    """
    grids, scopes = number_grids(network), dict[tuple[str, Scope], None]()
    for node in network.maximal_families:
        family = network.ordered(network.family(node))
        for name in family:
            others = tuple(variable for variable in family if variable != name)
            if name in grids and others and network.cells(others) <= MOST_ROWS:
                scopes[name, others] = None
    return list(scopes)


def moment_names(network: Network) -> tuple[tuple[str, str], ...]:
    """List the moments: the square of every numeric column, then the product of every two that lie in one family."""
    grids = number_grids(network)
    families = [network.family(node) for node in network.maximal_families]
    return (*((name, name) for name in grids), *number_pairs(grids, families))


def moment_reach(first: NumberGrid, second: NumberGrid) -> int:
    """Bound what one record can add to a moment, in steps squared.

    Args:
        first, second: grids of the two columns; the same one twice for a square.

    Returns:
        The largest `|a| |r| + |b| |q| + |q| |r|` of any two bins with anchors a, b and offsets q, r; for a square of
        any one bin, `2 |a| |q| + q^2`.
    """
    a, q = (np.asarray(part, object) for part in (abs(first.anchors), first.reach))
    b, r = (np.asarray(part, object) for part in (abs(second.anchors), second.reach))
    if first is not second:
        a, q = a[:, None], q[:, None]
    return int((a * r + b * q + q * r).max())


def leaves_for(grid: NumberGrid, records: float, deviation: float) -> int:
    """Choose the number of leaves of each bin from public numbers: as many as the noise of their counts allows.

    Args:
        grid: of the column.
        records: their number, public or released.
        deviation: standard deviation of the noise of each count.

    Returns:
        The largest power of two r with `r <= n^2 / (8 K^2 v)`, v the variance of the noise and K the bins, and at most
        `grid.finest`.

    Example:
        >>> from discreet.model.schema import Variable
        >>> age = NumberGrid(Variable("age", bounds=(0, 120), bins=(40, 60)))
        >>> [leaves_for(age, records, 28.0) for records in (100, 500, 10_000)]
        [1, 4, 16]
    """
    most = 2 * (max(records, 0.0) / (LEAF_RECORDS * grid.bins * deviation)) ** 2
    return int(min(grid.finest, 2 ** np.floor(np.log2(max(most, 1.0)))))
