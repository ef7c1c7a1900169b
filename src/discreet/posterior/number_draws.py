"""Numbers under every draw of a posterior: means, second moments and leaves of numeric columns, from released sums.

A draw of the joint law says how likely each bin is; the sums that were released beside the tables say where the numbers
lie inside the bins. Both together are one law of the numbers under that draw. In the unit of the column, with x in bin
k and m_k its middle (for a whole number x stands for x + 1/2):

    E x   = sum_k P(k) m_k + o,         o = E(x - m_k), from the sum of offsets
    E x z = sum_kl P(k, l) m_k m_l + s, s = E(x z - m_k m_l), from the moments, all from the middles of the ranges

A quantity q such as o or s has a prior under the draw, by a law inside the bins (the leaves of the ruler where there
is one, else parabolas) and a doubt of that law; the released sum measures it with noise. Each draw is moved to
the posterior by the residual of a simulated measurement (Matheron's rule),

    q + C / (C + V) (sum / n + noise - q),

with C the variance of q over the draws and V that of the noise. Where the noise is small that is the measured value
with its noise subtracted; where it is large, the prior. The draw of the population differs from that of the records by
a sampling error of variance `Var(x - m_k | k) / n`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from discreet.inference.bin_laws import FLATTEST_RISE, BinLaw, move_means
from discreet.model.number_grid import NumberGrid
from discreet.model.schema import Schema, Scope
from discreet.posterior.evidence import measurements, number_of_records
from discreet.releases.combined import Combined
from discreet.releases.kinds.number_tables import MOMENT_STEPS, NumberNoise, NumberTables, moment_reach
from discreet.releases.release import Release
from discreet.util.arrays import Floats, Ints

INSIDE_DOUBT = 0.4
"""Prior standard deviation of the mean of the numbers in a bin or leaf about that of the law inside, in half widths."""
ROW_DOUBT = 0.35
"""The same of the mean of a row's numbers about that of all rows."""
PRODUCT_DOUBT = 0.3
"""Prior standard deviation of a covariance about that by the line between bins, relative to the largest that there can
be: as of slopes inside bins; with .3 of what is inside bins alone, intervals of ten bins held the truth in 59 %."""
SLOPE_DOUBT = 0.3
"""Prior standard deviation of a slope inside a bin about that between bins, in sd(z) / sd(x): set on columns of Adult
and Pima, where the mean square is .09 to .12; on tables of scikit-learn it is 0 to .06."""
SPLIT_CONCENTRATION = 1.5
"""Prior records of a split of a bin's records between its halves."""
GRID_POINTS = 64
"""Points of the grid on which the share of a half is drawn."""
LEAST_SHARE = 1e-12
"""Share to which smaller ones are raised where they divide."""
RAKING_ROUNDS = 40
"""Passes by which the offsets of rows agree with those of bins."""
CLEAR_NOISE = 3.0
"""Monte Carlo errors by which draws vary more than by sampling alone, before they are taken to have noise."""
WIDEST = 0.98
"""Largest absolute mean offset, relative to the half width of the bins."""


@dataclass(frozen=True, eq=False)
class NumberEvidence:
    """Released sums of numbers, and what a reader must know beside them.

    Args:
        payload: the sums.
        noise: their noise.
        records: number of units of protection, and its standard deviation.
        steps: that one unit counts in the sums.
    """

    payload: NumberTables
    noise: NumberNoise
    records: tuple[float, float]
    steps: int

    @cached_property
    def deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise of an offset, in steps, and of a moment, in parts of `MOMENT_STEPS`."""
        laws = (self.noise.offset_law(self.payload.network), self.noise.moment_law(self.payload.network))
        return float(np.sqrt(laws[0].raw_variance)), float(np.sqrt(laws[1].raw_variance))


def number_evidence(evidence: Combined) -> NumberEvidence | None:
    """Find the sums of numbers in some evidence; None if there are none.

    Sums of the same records are pooled (`pool_sums`). Of several data sets with sums the one with the least noise of
    offsets, relative to what a unit can add, is read alone. The number of records of a data set is the public one, or
    else the estimate of its measurements. Of equal ones the first counts.
    """
    by_data_set = []
    for documents, exact in zip(evidence.data_sets, evidence.records, strict=True):
        releases = [document for document in documents if isinstance(document, Release)]
        records = number_of_records(measurements(releases)) if exact is None else (float(exact), 0.0)
        parts = [(release.payload.ordinary, release.calibration.ordinary, release.policy.steps) for release in releases]
        measured = [
            NumberEvidence(payload, noise.spread(payload.network, payload.parts), records, steps)
            for payload, noise, steps in parts
            if isinstance(payload, NumberTables) and isinstance(noise, NumberNoise)
        ]
        if measured:
            by_data_set.append(pool_sums(measured))
    return min(by_data_set, key=_relative_noise, default=None)


def pool_sums(measured: Sequence[NumberEvidence]) -> NumberEvidence:
    """Pool several measurements of the same sums, each weighted by its precision: `sum(y / s^2) / sum(1 / s^2)`.

    Offsets, moments, sums by rows and leaves are weighted each by their own scale s of the noise.

    Args:
        measured: sums over the same records and the same bins.

    Returns:
        Sums that need not be whole, with noise of scale `sum(1 / s^2)^(-1/2)`; all else is that of the most precise
        sums, by the noise of offsets, the first of equals. Those that differ from these in the law of the noise, in the
        number of steps that a unit counts, or in what there is, are left out. Rulers with other leaves are left out of
        the leaves alone. If no others are left, the most precise sums themselves.

    Example:
        >>> import discreet as dc
        >>> import pyarrow as pa
        >>> network = dc.Network((dc.Variable("age", bounds=(0, 120), bins=(40, 60)),), {"age": ()})
        >>> counts = dc.count(dc.read_records(pa.table({"age": [20, 50, 90]}), network.schema), network)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> twice = [dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=i) for i in (1, 2)]
        >>> sums = [NumberEvidence(each.payload, each.calibration, (3.0, 0.0), 1) for each in twice]
        >>> pooled = pool_sums(sums)
        >>> np.allclose(pooled.payload.offsets, sum(each.payload.offsets for each in twice) / 2)
        True
        >>> round(pooled.noise.offset_scale / sums[0].noise.offset_scale, 3)
        0.707
    """
    best = min(measured, key=_relative_noise)

    def kind(sums: NumberEvidence) -> tuple[Any, ...]:
        return sums.steps, sums.noise.rho is None, sums.payload.parts[:2]

    alike = [sums for sums in measured if kind(sums) == kind(best)]
    if len(alike) == 1:
        return best
    leaves = [(ruler.number, ruler.leaves) for ruler in best.payload.rulers]
    ruled = [sums for sums in alike if [(ruler.number, ruler.leaves) for ruler in sums.payload.rulers] == leaves]

    def scale(name: str, parts: Sequence[NumberEvidence] = alike) -> float:
        return float(sum(getattr(sums.noise, name) ** -2 for sums in parts) ** -0.5)

    def mean(name: str, values: Sequence[Ints], parts: Sequence[NumberEvidence] = alike) -> Floats:
        weights = [(scale(name, parts) / getattr(sums.noise, name)) ** 2 for sums in parts]
        return np.asarray(sum(weight * part for weight, part in zip(weights, values, strict=True)))

    rows = zip(*(sums.payload.rows_by_family for sums in alike), strict=True)
    rulers = zip(*(sums.payload.rulers for sums in ruled), strict=True)
    payload = replace(
        best.payload,
        offsets=mean("offset_scale", [sums.payload.offsets for sums in alike]),
        moments=mean("moment_scale", [sums.payload.moments for sums in alike]),
        rows_by_family=tuple(replace(same[0], sums=mean("row_scale", [part.sums for part in same])) for same in rows),
        rulers=tuple(
            replace(same[0], counts=mean("leaf_scale", [part.counts for part in same], ruled)) for same in rulers
        ),
    )
    names = ("offset_scale", "moment_scale", "row_scale")[: 2 + bool(payload.rows_by_family)]
    scales: dict[str, Any] = {name: scale(name) for name in names}
    noise = replace(best.noise, **scales, leaf_scale=scale("leaf_scale", ruled))
    return replace(best, payload=payload, noise=noise)


def _relative_noise(sums: NumberEvidence) -> float:
    """Deviation of the noise of offsets, relative to what a unit can add."""
    return sums.deviations[0] / sums.steps


class Column(NamedTuple):
    """A numeric column under every draw.

    Args:
        law: its numbers, with the leaves as bins.
        bins: shares of the bins among records that have the number, shape (bins, draws).
        offsets: mean of x less the middle of its bin in each bin, shape (bins, draws).
        squares: in each bin the mean of x^2 less the middle's, both from the middle of the range, shape (bins, draws).
        spread: variance of the offsets in each bin, shape (bins, draws).
    """

    law: BinLaw
    bins: Floats
    offsets: Floats
    squares: Floats
    spread: Floats


class BinLine(NamedTuple):
    """Covariance of two columns by the line between the means of their bins, in every draw.

    Args:
        means: of both columns, from the middles of their ranges, shape (2, draws).
        covariances: under each of some laws of bins, shape (laws, draws).
        most: largest covariance that they can have, shape (draws,).
        doubt: standard deviation of the doubt about slopes inside the bins, shape (draws,).
    """

    means: Floats
    covariances: Floats
    most: Floats
    doubt: Floats


@dataclass(frozen=True, eq=False)
class NumberDraws:
    """Numbers of the columns of a release under every draw of a posterior; each column is read at first use, and kept.

    Args:
        evidence: what was released of them.
        joint: function from some variables to their law under every draw, shape `(*sizes, draws)`.
        stream: name of the random stream of sampling errors: draws and their replicates differ in these alone; None if
            the draws are of the records, without sampling errors.
        seen: numbers of the records with their gaps, if these draws are of complete records; sums are read there.
        population: numbers from which those of the records, or of those with some states, were made.
        states: codes of observed states, if these are numbers of the records that have them.
        plain: function from some variables to unbiased shares of the records in their cells, shape `(*sizes, draws)`,
            of which some may be negative; None for variables that no table has, or if no tables were read.
    """

    evidence: NumberEvidence
    joint: Callable[[Scope], Floats]
    stream: str | None = "draws"
    seen: NumberDraws | None = None
    population: NumberDraws | None = None
    states: Mapping[str, int] = field(default_factory=dict)
    plain: Callable[[Scope], Floats | None] = lambda scope: None
    _columns: dict[str, Column] = field(default_factory=dict)
    _rows: dict[tuple[str, Scope], Floats] = field(default_factory=dict)

    @cached_property
    def replicate(self) -> NumberDraws:
        """Numbers of the same records under every draw, with other sampling errors."""
        return NumberDraws(self.evidence, self.joint, "replicates", self.seen and self.seen.replicate, plain=self.plain)

    @cached_property
    def of_records(self) -> NumberDraws:
        """Numbers of the records under every draw: with what noise and gaps leave open, but without sampling errors."""

        def joint(scope: Scope) -> Floats:
            law = self.joint(scope)
            return expect_counted(law.reshape(-1, law.shape[-1]), self.units).reshape(law.shape)

        return NumberDraws(self.evidence, joint, None, self.seen and self.seen.of_records, self, plain=self.plain)

    def sampling_errors(self, size: tuple[int, ...], *names: str) -> Floats:
        """Draw independent standard normal sampling errors; zeros if these draws are of the records (`stream` is None).

        Args:
            size: shape of the array.
            names: names of the quantity, which with the stream determine the seed: equal names give equal errors.
        """
        if self.stream is None:
            return np.zeros(size)
        return self.generator(self.stream, *names).standard_normal(size)

    def count_shares(self, shares: Floats, units: float) -> Floats:
        """Expect the shares among the records: `expect_counted`, unless these draws are of the records."""
        return shares if self.stream is None else expect_counted(shares, units)

    @property
    def grids(self) -> Mapping[str, NumberGrid]:
        """Grids of the numeric columns."""
        return self.evidence.payload.grids

    @cached_property
    def schema(self) -> Schema:
        """Schema of the variables of `joint`."""
        network = self.evidence.payload.network
        return network.schema if self.seen is None else network.without_missing().schema

    def places(self, name: str) -> Floats:
        """Compute the mean of a column in each bin, from the middle of its range, shape (bins, draws)."""
        return self.grids[name].centred[:, None] + self.column(name).offsets

    def column(self, name: str) -> Column:
        """Read a numeric column under every draw; the result is kept.

        It is read from the released sums (`_read_column`), or, if these draws are of complete records (`seen` is not
        None), derived from the records with gaps (`_complete_column`).

        Args:
            name: of a column that has a grid.
        """
        if name not in self._columns:
            self._columns[name] = _read_column(self, name) if self.seen is None else _complete_column(self, name)
        return self._columns[name]

    def rows(self, name: str, family: Scope) -> Floats:
        """Read the mean offset of a column in each bin and each state of other variables of a family.

        Args:
            name: of the column.
            family: the others, as the payload names them.

        Returns:
            Shape `(bins, rows, draws)`: mean of x less the middle of its bin, rows with the last variable fastest. It
            is read from the released sums by rows (`_read_rows`), or for complete records derived from those with gaps
            (`_complete_rows`), and kept.
        """
        if (name, family) not in self._rows:
            read = _read_rows if self.seen is None else _complete_rows
            self._rows[name, family] = read(self, name, family)
        return self._rows[name, family]

    def family_for(self, name: str, others: Scope) -> Scope:
        """Find the variables by which a column's sums tell most of its numbers given others.

        Args:
            name: of the column.
            others: variables that a question conditions on.

        Returns:
            Variables of the rows of one of this column's sums by rows: the one that names most of the others; of these
            the one that names most variables with observed states (`states`); of equal ones the first. Empty if none
            names any of the others.
        """
        families = [part.given for part in self.evidence.payload.rows_by_family if part.number == name]
        shared = {family: tuple(len({*family} & {*names}) for names in (others, self.states)) for family in families}
        best = max(shared, key=lambda family: shared[family], default=())
        return best if shared.get(best, (0,))[0] else ()

    @cached_property
    def per_step(self) -> Floats:
        """Inverse of the number of steps of all units under every draw, shape (draws,).

        The number of units is normal around its estimate, and at least 1.
        """
        mean, deviation = self.evidence.records
        draws = self.joint((next(iter(self.grids)),)).shape[-1]
        number = mean + deviation * self.generator("records").standard_normal(draws)
        return np.asarray(1 / (self.evidence.steps * np.maximum(number, 1.0)))

    @property
    def units(self) -> float:
        """Estimated number of units, at least 1."""
        return max(self.evidence.records[0], 1.0)

    def units_with(self, names: Scope) -> Floats:
        """Estimate the number of units that have the numbers of some columns: the pair that the fewest have decides.

        The number of units is multiplied by the share of records in which both numbers of a pair were seen, a mean over
        draws, the least of all pairs. Of a single number it is the share that has it, and without any number 1. For
        complete records the shares are those of the records with gaps.

        Args:
            names: of variables; those without a grid are ignored.

        Returns:
            At least 1, shape (1,), because it is the same in all draws; a subclass may return shape (draws,).
        """
        seen = self if self.seen is None else self.seen
        numeric = [name for name in names if name in self.grids]
        shares = [1.0]
        for pair in combinations(numeric, 2) if len(numeric) > 1 else [tuple(numeric)]:
            law = seen.joint(pair)[tuple(slice(self.grids[name].bins) for name in pair)]
            shares.append(float(law.sum(axis=tuple(range(len(pair)))).mean()))
        return np.array([max(self.units * min(shares), 1.0)])

    def offsets_given(
        self,
        name: str,
        observed: Mapping[str, int],
        joint: Callable[[Scope], Floats],
        step: int = 1,
        also: Scope = (),
    ) -> Floats:
        """Compute the mean of a column less the middle of its bin, in each bin and given evidence.

        Args:
            name: of the column, which is not observed.
            observed: codes of observed states.
            joint: function from the column and `open_names` to their law given these, under every `step`-th draw.
            step: as it says.
            also: variables of which more is known than nothing and less than the state.

        Returns:
            Shape `(bins, draws)`, by the sums of the family that names most of what is observed (`family_for`): the
            mean over its rows that agree with the observed states, weighted by their law plus LEAST_SHARE; the column's
            own if no family names any of it. What the family does not name is taken to tell no more of the number than
            of its bin and row.
        """
        grid = self.grids[name]
        family = self.family_for(name, (*observed, *also))
        if not family:
            return self.column(name).offsets[:, ::step]
        sizes = [self.schema[held].size for held in family]
        rows = self.rows(name, family)[..., ::step].reshape(grid.bins, *sizes, -1)
        rows = rows[(slice(None), *(observed.get(held, slice(None)) for held in family))]
        law = joint((name, *self.open_names(name, tuple(observed), also)))[: grid.bins] + LEAST_SHARE
        summed = tuple(range(1, law.ndim - 1))
        return np.asarray((law * rows).sum(axis=summed) / law.sum(axis=summed))

    def open_names(self, name: str, observed: Scope, also: Scope = ()) -> Scope:
        """List the variables of the family for a column given others whose own states are not observed."""
        return tuple(held for held in self.family_for(name, (*observed, *also)) if held not in observed)

    def offsets_by(self, name: str, other: str) -> Floats:
        """Compute the mean offset of a column in each of its bins and each state of another variable.

        Args:
            name: of the column.
            other: another variable.

        Returns:
            Shape `(bins, states, draws)`: the mean over the rows of a family that have this state and the states of
            these records, weighted by their law plus LEAST_SHARE; the column's own in every state where no family has
            both.
        """
        family = self.family_for(name, (other,))
        if not family:
            states = self.schema[other].size
            return np.repeat(self.column(name).offsets[:, None], states, axis=1)
        bins, sizes = self.grids[name].bins, [self.schema[held].size for held in family]
        rows = self.rows(name, family).reshape(bins, *sizes, -1)
        rows = rows[(slice(None), *(self.states.get(held, slice(None)) for held in family))]
        family = tuple(held for held in family if held not in self.states)
        law = self.joint((name, *family))[:bins] + LEAST_SHARE
        summed = tuple(axis for axis, held in enumerate(family, 1) if held != other)
        return np.asarray((law * rows).sum(axis=summed) / law.sum(axis=summed))

    def _drop_gaps(self, rows: Floats, family: Scope) -> Floats:
        """Drop the rows in which a variable of the family is missing.

        Args:
            rows: shape (bins, rows, draws), rows by the states of the released schema, which include those for gaps.
            family: variables of the rows.

        Returns:
            Shape (bins, fewer rows, draws).
        """
        schema = self.evidence.payload.network.schema
        table = rows.reshape(len(rows), *(schema[held].size for held in family), -1)
        table = table[(slice(None), *(slice(self.schema[held].size) for held in family))]
        return np.asarray(table.reshape(len(rows), -1, rows.shape[-1]))

    def measures(self, first: str, second: str) -> bool:
        """True if the mean product of two columns was released, or the square of one."""
        return (first, second) in self._moment_places

    @cached_property
    def _moment_places(self) -> dict[tuple[str, str], int]:
        """Position of each moment, by its columns in either order."""
        places = {pair: at for at, pair in enumerate(self.evidence.payload.moment_names)}
        return places | {pair[::-1]: at for pair, at in places.items()}

    def products(self, first: str, second: str, pair: Floats) -> Floats:
        """Compute `E(x z)` of two columns, each from the middle of its range, shape (draws,).

        It is `covariance` plus the product of the means; arguments are those of `covariance`.
        """
        return self.covariance(first, second, pair) + self._multiply_means(first, second, pair)

    def _multiply_means(self, first: str, second: str, pair: Floats) -> Floats:
        """Multiply the means of two columns, each from the middle of its range, shape (draws,).

        Args:
            first, second: names of the columns.
            pair: law of their bins, shape `(bins, bins, draws)`, by whose margins the means of bins are weighted.
        """
        a, b = (np.einsum(f"kld,{axis}d->d", pair, self.places(name)) for axis, name in (("k", first), ("l", second)))
        return np.asarray(a * b)

    def covariance(self, first: str, second: str, pair: Floats, *, binned: bool = False) -> Floats:
        """Compute the covariance of two columns.

        Args:
            first, second: names of different columns.
            pair: law of their bins, shape `(bins, bins, draws)`; sums to 1 for each draw.
            binned: whether numbers count as the means of their bins.

        Returns:
            Shape `(draws,)`, by the released moment; where none was released, two numbers are taken to depend on each
            other by their bins alone. Inside bins, complete records (`seen` is not None) vary together as those do in
            which both numbers were seen.
        """
        a, b = self.places(first), self.places(second)
        by_bins = np.einsum("kld,kd,ld->d", pair, a, b) - self._multiply_means(first, second, pair)
        if binned or not self.measures(first, second):
            return np.asarray(by_bins)
        if self.seen is None:
            return np.asarray(by_bins + self._inside(first, second, pair))
        law = self.seen.joint((first, second))[: len(a), : len(b)]
        return np.asarray(by_bins + self.seen._inside(first, second, law / (law.sum(axis=(0, 1)) + LEAST_SHARE)))

    def _inside(self, first: str, second: str, pair: Floats) -> Floats:
        """Compute what the covariance of two columns has beyond that of their means in bins, by the released product.

        The prior of the mean product is that by the line between bins (`follow_bins`), with a doubt of PRODUCT_DOUBT
        times the mean largest covariance. The released product, over the records with both numbers, conditions it
        (`condition`). The product by means in bins is taken off: that of the records' own means, under the shares of
        the pair that are expected among the records (`count_shares`). Last comes the sampling error of what varies
        inside bins, whose variance is raised to 0; numbers of the records have none.

        Args:
            first, second: different columns whose product was released.
            pair: law of their bins, shape `(bins, bins, draws)`; sums to 1 for each draw.

        Returns:
            Shape `(draws,)`, in the product of both units.
        """
        sides = (self.grids[first], self.grids[second])
        a, b = (grid.centred for grid in sides)
        records_only = self if self.stream is None else self.of_records
        here, there = (records_only.column(name).offsets for name in (first, second))
        both = self.joint((first, second))[: sides[0].bins, : sides[1].bins].sum(axis=(0, 1))
        records = self.units * float(both.mean())
        counted = self.count_shares(pair.reshape(-1, pair.shape[-1]), records).reshape(pair.shape)
        expected = np.einsum("kld,kd,ld->d", counted, a[:, None] + here, b[:, None] + there)
        expected = expected - np.einsum("kld,k,l->d", counted, a, b)
        rng, names = self.generator(*sorted((first, second))), (first, second)
        drawn = self.joint(names)[: sides[0].bins, : sides[1].bins] + LEAST_SHARE
        line = self.follow_bins(names, [drawn / drawn.sum(axis=(0, 1))])
        means = [
            np.einsum("kld,kd->d", counted, a[:, None] + here),
            np.einsum("kld,ld->d", counted, b[:, None] + there),
        ]
        by_line = line.covariances[0] + means[0] * means[1] - np.einsum("kld,k,l->d", counted, a, b)
        doubted = by_line + PRODUCT_DOUBT * float(line.most.mean()) * rng.standard_normal(expected.shape)
        per_record = self.per_step / np.maximum(both, LEAST_SHARE)
        unit = moment_reach(*sides) / MOMENT_STEPS * sides[0].step * sides[1].step * per_record
        deviation = self.evidence.deviations[1] * unit
        measured = self.evidence.payload.moments[self._moment_places[names]] * unit
        latent = condition(doubted[None], np.ones_like(doubted)[None], measured, deviation, rng)[0]
        # The sampling errors of means in bins are in the means; a product has that of what varies about them.
        spreads = [self.column(name).spread for name in names]
        places = [
            np.einsum("kld,l->kd", pair, b**2)
            - np.einsum("kld,l->kd", pair, b) ** 2 / (pair.sum(axis=1) + LEAST_SHARE),
            np.einsum("kld,k->ld", pair, a**2)
            - np.einsum("kld,k->ld", pair, a) ** 2 / (pair.sum(axis=0) + LEAST_SHARE),
        ]
        inner = sum((place * spread).sum(axis=0) for place, spread in zip(places, spreads, strict=True))
        inner = np.maximum(inner + np.einsum("kld,kd,ld->d", pair, *spreads), 0.0)
        return np.asarray(
            latent - expected + np.sqrt(inner / records) * self.sampling_errors(expected.shape, *sorted(names))
        )

    def follow_bins(self, names: tuple[str, str], laws: Sequence[Floats]) -> BinLine:
        """Compute the covariance of two columns by the line between the means of bins, which goes on inside them.

        It is the mean of two lines. The line through the bins of one column x has the covariance of the means of its
        bins, `sum_k P(k) (u_k - E x) (E(z | k) - E z)`, times `1 + W / B`, with W and B the variance of x inside and
        between bins: the other column z goes on along the line inside the bins.

        Args:
            names: of both columns.
            laws: of their bins, shape `(bins, bins, draws)` each; sum to 1 for each draw, cells may be negative.

        Returns:
            The covariance of each law is the mean of the two lines, each limited to the largest covariance in absolute
            value: WIDEST times both standard deviations. The doubt is this largest one times the mean over both columns
            of `sqrt(SLOPE_DOUBT^2 sum_k (P(k) Var(x | k))^2 / Var(x)^2 + v^2)`, v the variance of the means of bins
            over the draws relative to Var(x).
        """
        columns = [self.column(name) for name in names]
        spreads = [np.sqrt(np.maximum(self.variance(each, self.column(each).bins), LEAST_SHARE)) for each in names]
        means = np.array([(self.column(each).bins * self.places(each)).sum(axis=0) for each in names])
        covariances, inside = np.zeros((len(laws), means.shape[1])), np.zeros(means.shape[1])
        most = WIDEST * spreads[0] * spreads[1]
        for axis, (name, column, spread) in enumerate(zip(names, columns, spreads, strict=True)):
            away, part = self.places(name) - means[axis], column.bins * column.spread
            ratio = 1 + part.sum(axis=0) / np.maximum((column.bins * away**2).sum(axis=0), LEAST_SHARE)
            level = self.offsets_by(names[1 - axis], name)[:, : len(away)] - means[1 - axis]
            level = level + self.grids[names[1 - axis]].centred[:, None, None]
            for at, law in enumerate(laws):
                line = ratio * np.einsum("kld,kd,lkd->d", law.swapaxes(0, axis), away, level)
                covariances[at] += np.clip(line, -most, most) / 2
            # Where means of bins are not known, draws of them vary more than they do, and correlations are less.
            vague = (column.bins.mean(axis=1) * away.var(axis=1)).sum() / (spread**2).mean()
            inside += np.sqrt(SLOPE_DOUBT**2 * (part**2).sum(axis=0) / spread**4 + vague**2) * most / 2
        return BinLine(means, covariances, most, inside)

    def moment_deviation(self, first: str, second: str) -> float:
        """Compute the standard deviation of the noise of the mean product of two columns, in their units.

        It does not depend on whether the product was released; the number of records is averaged over draws.
        """
        sides = (self.grids[first], self.grids[second])
        unit = moment_reach(*sides) / MOMENT_STEPS * sides[0].step * sides[1].step * float(self.per_step.mean())
        return self.evidence.deviations[1] * unit

    def row_deviation(self, name: str) -> float:
        """Compute the standard deviation of the noise of a column's sum in a row, over all records, in its unit.

        It is that of a mean per record: 0 if no sums by rows were released. The number of records is averaged over
        draws.
        """
        noise = self.evidence.noise
        variance = 0.0 if noise.row_scale is None else noise.row_law.variance
        return float(np.sqrt(variance) * self.grids[name].step * self.per_step.mean())

    def variance(self, name: str, bins: Floats, step: int = 1) -> Floats:
        """Compute the variance of a column, shape `(draws,)`.

        Args:
            name: of the column.
            bins: shares of its bins under every `step`-th draw, shape `(bins, draws)`; sum to 1 for each draw.
            step: as it says.

        Returns:
            `E x^2 - (E x)^2`. `E x` and the middles of bins are under `bins`; to their squares is added the mean of the
            column's squares inside bins, under the column's own shares, which are released ones or those of its prior.
            It is at least the variance of the means of bins, and at most this plus what the widths of the bins allow.
        """
        column, middles = self.column(name), self.grids[name].centred[:, None]
        offsets, second = column.offsets[:, ::step], (column.bins * column.squares).sum(axis=0)[::step]
        means, half = middles + offsets, np.diff(self.grids[name].edges)[:, None] / 2
        mean = (bins * means).sum(axis=0)
        between = (bins * (means - mean) ** 2).sum(axis=0)
        variance = (bins * middles**2).sum(axis=0) + second - mean**2
        return np.asarray(np.clip(variance, between, between + (bins * (half**2 - offsets**2)).sum(axis=0)))

    def variance_given(self, name: str, bins: Floats, offsets: Floats, given: Scope, step: int = 1) -> Floats:
        """Compute the variance of a column given the states of others, shape `(draws,)`.

        Numbers vary inside a bin by the column's law there, times a factor by which the column has its released
        square; of that, what the means of the bin differ between the states of the others varies between these. So the
        variance of the column is the mean of these variances and the variance of the means, in every draw.

        Args:
            name: of the column.
            bins: shares of its bins given the others, shape `(bins, draws)`; sum to 1 for each draw.
            offsets: mean offset in each bin given the others, same shape.
            given: the others.
            step: these draws are every `step`-th.

        Returns:
            At least the variance of the means of bins: a negative one inside bins counts as 0. Nothing is taken off if
            no family names any of the others.
        """
        column, middles, family = self.column(name), self.grids[name].centred[:, None], self.family_for(name, given)
        means = middles + column.offsets
        between = (column.bins * (means - (column.bins * means).sum(axis=0)) ** 2).sum(axis=0)
        inside = (column.bins * column.spread).sum(axis=0)
        factor = (self.variance(name, column.bins) - between) / np.maximum(inside, LEAST_SHARE)
        spread = factor * column.spread
        if family:
            law = self.joint((name, *family))[: len(middles)] + LEAST_SHARE
            summed = tuple(axis for axis, variable in enumerate(family, 1) if variable not in given)
            rows = (law * self.rows(name, family).reshape(law.shape)).sum(axis=summed)
            rows, law = (part.reshape(len(law), -1, law.shape[-1]) for part in (rows, law.sum(axis=summed)))
            average = rows.sum(axis=1, keepdims=True) / law.sum(axis=1, keepdims=True)
            spread = spread - (law * (rows / law - average) ** 2).sum(axis=1) / law.sum(axis=1)
        means = middles + offsets
        moved = (bins * (means - (bins * means).sum(axis=0)) ** 2).sum(axis=0)
        return np.asarray(moved + np.maximum((bins * spread[:, ::step]).sum(axis=0), 0.0))

    def given(self, name: str, bins: Floats, offsets: Floats, step: int = 1) -> BinLaw:
        """Make the law of a column's numbers given something else.

        Args:
            name: of the column.
            bins: shares of its bins, shape `(bins, draws)`; what follows them is ignored.
            offsets: mean of x less the middle of its bin in each bin, shape `(bins, draws)`.
            step: these draws are every `step`-th.

        Returns:
            The column's own law with these shares, which are normalised to sum 1, tilted inside the bins to these means
            (`move_means`). Its mean is known: that of the bins' means, for whole numbers less the 1/2 by which they
            stand for intervals.
        """
        grid, leaves = self.grids[name], self.evidence.payload.leaves(name)
        leaf_bin, shares = grid.bin_of_leaf(leaves), bins[: grid.bins] / bins[: grid.bins].sum(axis=0)
        means = grid.middles[:, None] + offsets
        law = self.column(name).law.of_draws(slice(None, None, step)).given(shares, leaf_bin)
        mean = (shares * means).sum(axis=0) - grid.shift
        return replace(move_means(law, leaf_bin, means), known_mean=mean)

    def list_untold(self, name: str, observed: Scope) -> Scope:
        """List the observed variables of which the sums used for a column say nothing, in their order.

        They are those that the family of `family_for` does not name: all of them if no family names any, and none if
        the column has no sums.
        """
        family = self.family_for(name, observed) if name in self.grids else observed
        return tuple(variable for variable in observed if variable not in family)

    def sources(self, name: str, observed: Scope) -> tuple[str, ...]:
        """Name the released sums from which a column is read, given observed variables.

        Returns:
            "sum of NAME"; "sums of NAME by ..." if a family names one of the observed (`family_for`); and "ruler of
            NAME" if it has more than one leaf.
        """
        family, ruled = self.family_for(name, observed), self.evidence.payload.leaves(name) > 1
        by_rows = (f"sums of {name} by {', '.join(family)}",) if family else ()
        return (f"sum of {name}", *by_rows, *((f"ruler of {name}",) if ruled else ()))

    def generator(self, *names: str) -> np.random.Generator:
        """Make the generator of a quantity: equal questions have equal answers, in whatever order they come.

        It follows from the released sums and from the drawn law, so that other draws have other noise.
        """
        return np.random.default_rng([self._seed, *(crc32(name.encode()) for name in names)])

    @cached_property
    def _seed(self) -> int:
        """Checksum of the released sums and of the first column's law; of the population's, if there is one."""
        if self.population is not None:
            return self.population._seed
        released, drawn = self.evidence.payload.offsets.astype(np.int64), self.joint((next(iter(self.grids)),))
        return crc32(np.ascontiguousarray(drawn, np.float64).tobytes(), crc32(released.tobytes()))


def condition(parts: Floats, weights: Floats, measured: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Condition draws of several means on a noisy measurement of their weighted sum (Matheron's rule).

    Args:
        parts: draws of the prior, shape `(parts, ..., draws)`.
        weights: of each part in the sum, same shape.
        measured: the sum, shape `(..., draws)`, or what broadcasts to it.
        noise: standard deviation of its noise, likewise.
        rng: source of randomness.

    Returns:
        Draws of the posterior, same shape. Each part moves by its covariance with the sum over the draws, divided by
        the variance of sum and noise, times what a simulated measurement differs from the sum.
    """
    total = (weights * parts).sum(axis=0)
    centred = total - total.mean(axis=-1, keepdims=True)
    covariance = ((parts - parts.mean(axis=-1, keepdims=True)) * centred).mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True) + noise**2
    residual = measured + noise * rng.standard_normal(total.shape) - total
    return np.asarray(parts + covariance / np.maximum(variance, 1e-300) * residual)


def _read_column(numbers: NumberDraws, name: str) -> Column:
    """Read a column from its sum of offsets, its square and its ruler.

    The law inside the bins is drawn first (`_law_inside`). Mean offsets have its means as prior, with a doubt of
    INSIDE_DOUBT half widths of bins (averaged over leaves); the released sum conditions them (`condition`), and they
    are limited to WIDEST half widths. The law is tilted to them, and gives the variance inside each bin. Squares have
    the prior of offsets and that variance, with a doubt that corresponds to the one of offsets; a released square
    conditions them. Last, a sampling error is added to each offset, with the variance inside the bin over its records
    plus 1, and to the squares as it follows from this; offsets are limited and the law is tilted again.

    Args:
        numbers: of the release.
        name: of the column.

    Returns:
        The column among the records that have the number. Shares of a bin and of records are raised to LEAST_SHARE
        where they divide.
    """
    payload, grid = numbers.evidence.payload, numbers.grids[name]
    at, rng = list(numbers.grids).index(name), numbers.generator(name)
    law = numbers.joint((name,))[: grid.bins]
    present = np.maximum(law.sum(axis=0), LEAST_SHARE)
    bins, per_record = law / present, numbers.per_step / present
    prior = _law_inside(numbers, name, bins, numbers.units * present, rng)
    leaf_bin = grid.bin_of_leaf(payload.leaves(name))
    half = np.diff(prior.edges)[:, None] / 2
    offsets = _by_bin(prior, leaf_bin, prior.centres(), grid.bins) - grid.middles[:, None]
    offsets = offsets + INSIDE_DOUBT * _by_bin(prior, leaf_bin, half, grid.bins) * rng.standard_normal(bins.shape)
    scale = grid.step * per_record
    deviation, moment_deviation = numbers.evidence.deviations
    counted = numbers.count_shares(bins, numbers.units * float(present.mean()))
    offsets = condition(offsets, counted, payload.offsets[at] * scale, deviation * scale, rng)
    reach = WIDEST * np.diff(grid.edges)[:, None] / 2
    offsets = np.clip(offsets, -reach, reach)
    moved = move_means(prior, leaf_bin, grid.middles[:, None] + offsets)
    inner = moved.centres() - grid.middles[leaf_bin][:, None]
    spread = np.maximum(_by_bin(moved, leaf_bin, inner**2 + half**2 / 3, grid.bins) - offsets**2, 0.0)
    middles = grid.centred[:, None]
    squares = 2 * middles * offsets + offsets**2 + spread
    squares = squares + INSIDE_DOUBT * (2 * np.abs(middles) * reach + reach**2 / 2) * rng.standard_normal(bins.shape)
    if numbers.measures(name, name):
        unit = moment_reach(grid, grid) / MOMENT_STEPS * grid.step**2 * per_record
        squares = condition(squares, counted, payload.moments[at] * unit, moment_deviation * unit, rng)
    # The population's means in the bins differ from those of the records.
    errors = np.sqrt(spread / (numbers.units * present * bins + 1)) * numbers.sampling_errors(bins.shape, name)
    offsets = np.clip(offsets + errors, -reach, reach)
    squares = squares + 2 * middles * errors
    return Column(move_means(moved, leaf_bin, grid.middles[:, None] + offsets), bins, offsets, squares, spread)


def _complete_column(numbers: NumberDraws, name: str) -> Column:
    """Make the column of complete records from that of the records in which its number was seen.

    Of records alike in what was seen, those with a gap do not differ in what is missing. So in a bin and a row of a
    family numbers lie as those seen there, and a bin's own mean offset moves as the shares of its rows do,

        o_k + sum over rows of (P(row | k) - P(row | k, both seen)) o_(k, row),

    by the family that moves the column's mean most, on average over the draws: the one that gaps depend on, while
    others move it by what they tell of that one. Where rows have gaps, too, those seen are taken for all rows of the
    numbers that were seen; and a gap of another column is taken to depend on this number by its bin alone. Squares in a
    bin move with its mean.

    Offsets are limited to WIDEST half widths of their bins. A column without gaps of its own, or without sums by rows,
    keeps its offsets and squares; only the shares of its bins are those of complete records.
    """
    assert numbers.seen is not None
    grid, seen, payload = numbers.grids[name], numbers.seen.column(name), numbers.evidence.payload
    bins, shifts = numbers.joint((name,))[: grid.bins], [np.zeros(seen.offsets.shape)]
    bins = bins / np.maximum(bins.sum(axis=0), LEAST_SHARE)
    gaps = payload.network.schema[name].missing is not None
    for family in (part.given for part in payload.rows_by_family if gaps and part.number == name):
        laws = (_join_rows(numbers, name, family), numbers._drop_gaps(_join_rows(numbers.seen, name, family), family))
        complete, counted = (law / (law.sum(axis=1, keepdims=True) + LEAST_SHARE) for law in laws)
        rows = numbers._drop_gaps(numbers.seen.rows(name, family), family)
        shifts.append(((complete - counted) * rows).sum(axis=1))
    offsets = seen.offsets + max(shifts, key=lambda shift: abs(float((bins * shift).sum(axis=0).mean())))
    reach = WIDEST * np.diff(grid.edges)[:, None] / 2
    offsets = np.clip(offsets, -reach, reach)
    squares = seen.squares + 2 * grid.centred[:, None] * (offsets - seen.offsets)
    leaf_bin = grid.bin_of_leaf(payload.leaves(name))
    law = move_means(seen.law.given(bins, leaf_bin), leaf_bin, grid.middles[:, None] + offsets)
    return Column(law, bins, offsets, squares, seen.spread)


def _complete_rows(numbers: NumberDraws, name: str, family: Scope) -> Floats:
    """Make the mean offsets of complete records by bins and rows, shape (bins, rows, draws).

    They are those seen, all rows of a bin moved alike to the bin's mean offset, within WIDEST half widths.
    """
    assert numbers.seen is not None
    rows, law = numbers._drop_gaps(numbers.seen.rows(name, family), family), _join_rows(numbers, name, family)
    mean = (law * rows).sum(axis=1) / (law.sum(axis=1) + LEAST_SHARE)
    reach = WIDEST * np.diff(numbers.grids[name].edges)[:, None, None] / 2
    return np.asarray(np.clip(rows + (numbers.column(name).offsets - mean)[:, None], -reach, reach))


def _join_rows(numbers: NumberDraws, name: str, family: Scope) -> Floats:
    """Compute the law of a column's bins, gaps left out, and the rows of a family, shape (bins, rows, draws)."""
    law = numbers.joint((name, *family))[: numbers.grids[name].bins]
    return np.asarray(law.reshape(len(law), -1, law.shape[-1]))


def expect_counted(shares: Floats, units: float) -> Floats:
    """Expect the shares among the records that were counted, given drawn ones of the population.

    Sums are of those records. Drawn shares differ from theirs by a sampling error of variance `p (1 - p) / n`; what
    they vary beyond it is the noise of the tables, which both have in common. Where that, summed over all cells, is
    less than `CLEAR_NOISE` Monte Carlo errors of the variances, there is no such noise, and all draws get the mean
    shares.

    Args:
        shares: drawn, shape `(cells, draws)`; sum to 1 for each draw.
        units: n.

    Returns:
        `mean + (1 - p (1 - p) / (n var)) (shares - mean)`, p the mean and var the variance of a cell over the draws,
        the factor at least 0; same shape, sums to 1.
    """
    mean, variance = shares.mean(axis=-1, keepdims=True), shares.var(axis=-1, keepdims=True)
    sampling = np.maximum(mean * (1 - mean), 0.0) / units
    unclear = CLEAR_NOISE * np.sqrt(2 / shares.shape[-1] * (variance**2).sum())
    clear = (variance - sampling).sum() > unclear
    noisy = clear * np.maximum(1 - sampling / np.maximum(variance, 1e-300), 0.0)
    counted = mean + noisy * (shares - mean)
    return np.asarray(counted / counted.sum(axis=0))


def _read_rows(numbers: NumberDraws, name: str, family: Scope) -> Floats:
    """Read the mean offsets of a column by bins and rows, from its released sums by the rows of a family.

    A row starts at parabolas through its own bins, moved so that the rows of each bin average to the column's offset,
    with a doubt of ROW_DOUBT half widths. The released sums condition it, and sampling errors are added. Then rows
    move, each by its part of what is open, until all together have the column's mean offset; and RAKING_ROUNDS rounds
    fit bins and rows to each other.

    Args:
        numbers: of the release.
        name: of the column.
        family: variables of the rows, as the payload names them.

    Returns:
        Shape `(bins, rows, draws)`, limited to WIDEST half widths of the bins; the means of bins and of rows are met
        approximately, those of rows best.
    """
    evidence, grid, column = numbers.evidence, numbers.grids[name], numbers.column(name)
    rng = numbers.generator(name, *family)
    sums = next(part.sums for part in evidence.payload.rows_by_family if (part.number, part.given) == (name, family))
    law = _join_rows(numbers, name, family) + LEAST_SHARE
    flat, total = law.reshape(-1, law.shape[-1]), law.sum(axis=(0, 1))
    counted = (numbers.count_shares(flat / total, numbers.units * float(total.mean())) * total).reshape(law.shape)
    share, reach = counted.sum(axis=0), np.diff(grid.edges)[:, None, None] / 2
    # Each row has bins of its own, which say where its numbers lie: by the column's offsets alone, all that two columns
    # vary together inside bins would be left out.
    by_rows = BinLaw.by_parabolas(grid.variable, flat.reshape(grid.bins, -1)).centres().reshape(law.shape)
    part = law / law.sum(axis=1, keepdims=True)
    offsets = by_rows + (column.offsets - (part * by_rows).sum(axis=1))[:, None]
    offsets = offsets + ROW_DOUBT * reach * rng.standard_normal(law.shape)
    # In each bin the rows average to the column's own offset.
    rest = column.offsets - (part * offsets).sum(axis=1)
    offsets = offsets + part * (rest / (part**2).sum(axis=1))[:, None]
    scale = grid.step * numbers.per_step / share
    noise = np.sqrt(evidence.noise.row_law.variance) * scale
    offsets = condition(offsets, counted / share, sums[:, None] * scale, noise, rng)
    errors = numbers.sampling_errors(law.shape, name, *family)
    offsets = offsets + np.sqrt(column.spread[:, None] / (numbers.units * law + 1)) * errors
    # All rows together have the column's mean offset, which is known best: each row moves by its part of what is open.
    part = law / total
    rows = (part * offsets).sum(axis=0)
    open_part = rows.var(axis=-1, keepdims=True) + LEAST_SHARE
    rows = rows + open_part / open_part.sum(axis=0) * (
        (part.sum(axis=1) * column.offsets).sum(axis=0) - rows.sum(axis=0)
    )
    # Then bins of the rows move until both rows and bins have theirs; the rows, of which sums tell, at last.
    in_row, in_bin = part / part.sum(axis=0), part / part.sum(axis=1, keepdims=True)
    for _ in range(RAKING_ROUNDS):
        offsets = offsets + (column.offsets - (in_bin * offsets).sum(axis=1))[:, None]
        offsets = offsets + rows / part.sum(axis=0) - (in_row * offsets).sum(axis=0)
        offsets = np.clip(offsets, -WIDEST * reach, WIDEST * reach)
    return np.asarray(offsets)


def _law_inside(numbers: NumberDraws, name: str, bins: Floats, records: Floats, rng: np.random.Generator) -> BinLaw:
    """Draw the law inside the bins: by the ruler's leaves where there is one, else by parabolas.

    Args:
        numbers: of the release.
        name: of the column.
        bins: shares of the bins among records that have the number, shape (bins, draws).
        records: that have the number, in units, shape (draws,).
        rng: source of randomness.

    Returns:
        With a ruler a law whose bins are the leaves, flat inside them: each bin's share is split among its leaves by
        their noisy counts (`_split`), around the parabolas of the mean shares. Else parabolas through the bins of each
        draw.
    """
    payload, grid = numbers.evidence.payload, numbers.grids[name]
    ruler = next((ruler for ruler in payload.rulers if ruler.number == name), None)
    if ruler is None:
        return BinLaw.by_parabolas(grid.variable, bins)
    edges, parts = grid.leaf_edges(ruler.leaves), grid.leaves_of_bins(ruler.leaves).tolist()
    smooth = BinLaw.by_parabolas(grid.variable, bins.mean(axis=1, keepdims=True))
    expected = np.maximum(np.diff([float(smooth.up_to(edge)[0]) for edge in edges]), 1e-12)
    noise = numbers.evidence.noise.leaf_law.variance / numbers.evidence.steps**2
    counts, start, shares = ruler.counts / numbers.evidence.steps, 0, np.empty((len(edges) - 1, bins.shape[1]))
    for bin, number in enumerate(parts):
        held = slice(start, start + number)
        shares[held] = bins[bin] * _split(counts[held], expected[held], bins[bin] * records, noise, rng)
        start += number
    return BinLaw(edges, shares, np.full(shares.shape, FLATTEST_RISE), bool(grid.shift))


def _split(counts: Floats, expected: Floats, records: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Draw the shares of a bin's leaves: halves of halves, each split on a grid by its noisy counts.

    The records of the first half are estimated by half the bin's records plus half the difference of the halves'
    counts. The share of a half has a Beta prior of SPLIT_CONCENTRATION records, around the expected one limited to .02
    and .98, and a normal likelihood of this estimate, with the variance of the noise and of a binomial count. It is
    drawn from GRID_POINTS intervals, evenly spread inside one of them (on the scale of the arc sine of its root). The
    records of a half are raised to .001.

    Args:
        counts: noisy records of the leaves, a power of two of them.
        expected: shares that the prior expects, up to a factor.
        records: of the bin in every draw, shape (draws,).
        noise: variance of each count.
        rng: source of randomness.

    Returns:
        Shape (leaves, draws); sums to 1 for each draw. A single leaf has all of its bin.
    """
    if len(counts) == 1:
        return np.ones((1, len(records)))
    middle = len(counts) // 2
    points = np.sin((np.arange(GRID_POINTS) + 0.5) / GRID_POINTS * np.pi / 2) ** 2
    prior = np.clip(expected[:middle].sum() / expected.sum(), 0.02, 0.98)
    # Half the difference of the halves and half the bin's records estimate the records of the first.
    estimate = (counts[:middle].sum() - counts[middle:].sum() + records) / 2
    variance = records[:, None] * points * (1 - points) + noise * len(counts) / 4
    logs = (SPLIT_CONCENTRATION * prior - 0.5) * np.log(points)
    logs = logs + (SPLIT_CONCENTRATION * (1 - prior) - 0.5) * np.log1p(-points)
    logs = logs - (estimate[:, None] - records[:, None] * points) ** 2 / (2 * variance) - np.log(variance) / 2
    weights = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    chosen = (weights < rng.random(len(records))[:, None] * weights[:, -1:]).sum(axis=1)
    angles = (chosen + rng.random(len(records))) / GRID_POINTS * np.pi / 2
    first = np.sin(angles) ** 2
    halves = ((first, slice(middle)), (1 - first, slice(middle, None)))
    leaves = [
        part * _split(counts[held], expected[held], np.maximum(records * part, 1e-3), noise, rng)
        for part, held in halves
    ]
    return np.asarray(np.concatenate(leaves))


def _by_bin(law: BinLaw, leaf_bin: Ints, values: Floats, bins: int) -> Floats:
    """Average values of leaves over each bin, weighted by the leaves' shares plus 1e-12.

    Args:
        law: law with the leaves as bins.
        leaf_bin: bin of each leaf, in rising order.
        values: shape (leaves, draws), or what broadcasts to it.
        bins: number of bins.

    Returns:
        Shape (bins, draws).
    """
    shares = law.shares + 1e-12
    starts = np.searchsorted(leaf_bin, np.arange(bins))
    return np.asarray(np.add.reduceat(shares * values, starts) / np.add.reduceat(shares, starts))
