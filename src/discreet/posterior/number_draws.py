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
    """Released sums of numbers, with their noise and the number of units behind them.

    Args:
        payload: released tables, and sums of offsets, moments, sums by rows and rulers beside them.
        noise: noise of these sums.
        records: estimated number of units of protection, and the standard deviation of its error; 0 if it is public.
        steps: number of equal steps that one unit counts in tables and sums.
    """

    payload: NumberTables
    noise: NumberNoise
    records: tuple[float, float]
    steps: int

    @cached_property
    def deviations(self) -> tuple[float, float]:
        """Standard deviations of the noise of a sum of offsets, in grid steps, and of a moment (`MOMENT_STEPS`); kept.

        A moment is a whole number of parts of the largest that one record can add, which has MOMENT_STEPS parts.
        """
        laws = (self.noise.offset_law(self.payload.network), self.noise.moment_law(self.payload.network))
        return float(np.sqrt(laws[0].raw_variance)), float(np.sqrt(laws[1].raw_variance))


def number_evidence(evidence: Combined) -> NumberEvidence | None:
    """Find the sums of numbers in some evidence; None if there are none.

    Sums of the same data set are pooled (`pool_sums`). Of several data sets with sums, the one with the least noise of
    offsets, relative to what a unit can add, is read alone (the first of equals). Noise has the scales that hold after
    the budget of parts that were left out went to the rest (`NumberNoise.spread`). The number of units of a data set is
    the public one, or else the estimate of its releases (`number_of_records`), without figures by others.
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

    Args:
        measured: sums over the same records and the same bins, at least one.

    Returns:
        Sums that need not be whole, with noise of scale `sum(1 / s^2)^(-1/2)`; all else is that of the most precise
        ones, which have the least noise of offsets for each step of a unit (the first of equals). Measurements that
        differ from these in the law of the noise, in the number of steps of a unit, in whether there are moments, or in
        the families with sums by rows, are left out. If no others are left, the most precise sums are returned as they
        are. Rulers are pooled only over measurements whose rulers have the same columns and leaves.

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
        """Return what must agree for pooling: steps of a unit, law of the noise, moments, and sums by rows."""
        return sums.steps, sums.noise.rho is None, sums.payload.parts[:2]

    alike = [sums for sums in measured if kind(sums) == kind(best)]
    if len(alike) == 1:
        return best
    leaves = [(ruler.number, ruler.leaves) for ruler in best.payload.rulers]
    ruled = [sums for sums in alike if [(ruler.number, ruler.leaves) for ruler in sums.payload.rulers] == leaves]

    def scale(name: str, parts: Sequence[NumberEvidence] = alike) -> float:
        """Compute the pooled scale of one kind of noise, `sum(1 / s^2)^(-1/2)`, by the name of its field."""
        return float(sum(getattr(sums.noise, name) ** -2 for sums in parts) ** -0.5)

    def mean(name: str, values: Sequence[Ints], parts: Sequence[NumberEvidence] = alike) -> Floats:
        """Compute the mean of arrays, one for each measurement, weighted by the precision of the noise named."""
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
    """Compute the noise deviation of a sum of offsets, in grid steps, divided by the steps of a unit."""
    return sums.deviations[0] / sums.steps


class Column(NamedTuple):
    """A numeric column under every draw, among the records that have the number.

    Args:
        law: law of its numbers; the bins of this law are the leaves of the column's bins, or the bins themselves.
        bins: shares of the bins, shape (bins, draws); they sum to 1.
        offsets: mean of x less the middle of its bin in each bin, shape (bins, draws).
        squares: in each bin the mean of x^2 less the middle's square, both from the middle of the range, shape (bins,
            draws).
        spread: variance of x in each bin, shape (bins, draws).
    """

    law: BinLaw
    bins: Floats
    offsets: Floats
    squares: Floats
    spread: Floats


class BinLine(NamedTuple):
    """Covariance of two columns by the line between the means of their bins, in every draw.

    Args:
        means: means of both columns, from the middles of their ranges, shape (2, draws).
        covariances: covariance under each of some laws of the bins, shape (laws, draws).
        most: largest absolute covariance that the columns can have, shape (draws,).
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
        evidence: released sums of the numbers.
        joint: function from some variables to their law under every draw, shape `(*sizes, draws)`.
        stream: name of the random stream of sampling errors: draws and their replicates differ in these alone; None if
            the draws are of the records, without sampling errors.
        seen: numbers of the records with their gaps, if these draws are of complete records; sums are read there.
        population: numbers from which those of the records, or of those with some states, were made; None for others.
        states: codes of observed states by variable, if these are numbers of the records that have them.
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
        """Numbers under the same law of every draw, with sampling errors of the stream "replicates"; made once."""
        return NumberDraws(self.evidence, self.joint, "replicates", self.seen and self.seen.replicate, plain=self.plain)

    @cached_property
    def of_records(self) -> NumberDraws:
        """Numbers of the counted records under every draw, without sampling errors; made once.

        Draws differ by what noise and gaps leave open.

        Their law of some variables is what `expect_counted` makes of this law for `units` records.
        """

        def joint(scope: Scope) -> Floats:
            """Compute the law of some variables among the counted records, shape `(*sizes, draws)`."""
            law = self.joint(scope)
            return expect_counted(law.reshape(-1, law.shape[-1]), self.units).reshape(law.shape)

        return NumberDraws(self.evidence, joint, None, self.seen and self.seen.of_records, self, plain=self.plain)

    def sampling_errors(self, size: tuple[int, ...], *names: str) -> Floats:
        """Draw sampling errors of a quantity, in standard deviations: normal of shape `size`; 0 for counted records.

        The generator is that of the stream and the quantity's `names`, so equal calls give equal numbers.
        """
        if self.stream is None:
            return np.zeros(size)
        return self.generator(self.stream, *names).standard_normal(size)

    def count_shares(self, shares: Floats, units: float) -> Floats:
        """Expect the shares among `units` counted records (`expect_counted`), shape `(cells, draws)` as given.

        Numbers of counted records, without a stream, have such shares already: they are returned as they are.
        """
        return shares if self.stream is None else expect_counted(shares, units)

    @property
    def grids(self) -> Mapping[str, NumberGrid]:
        """Grids of the numeric columns, by name: bins, leaves and steps."""
        return self.evidence.payload.grids

    @cached_property
    def schema(self) -> Schema:
        """Schema of the variables of `joint`; for complete records without the states for missing values; kept."""
        network = self.evidence.payload.network
        return network.schema if self.seen is None else network.without_missing().schema

    def places(self, name: str) -> Floats:
        """Compute the mean of a column in each bin, from the middle of its range, shape (bins, draws)."""
        return self.grids[name].centred[:, None] + self.column(name).offsets

    def column(self, name: str) -> Column:
        """Read a numeric column, at its first use; the result is kept.

        For complete records it is made from the column of the records with gaps (`_complete_column`), else read from
        its sums (`_read_column`).

        Args:
            name: name of a column that has a grid.
        """
        if name not in self._columns:
            self._columns[name] = _read_column(self, name) if self.seen is None else _complete_column(self, name)
        return self._columns[name]

    def rows(self, name: str, family: Scope) -> Floats:
        """Read the mean offset of a column in each bin and each state of a family's other variables; it is kept.

        For complete records it is made from that of the records with gaps (`_complete_rows`), else read from sums
        (`_read_rows`).

        Args:
            name: name of the column.
            family: the other variables, as the payload names them in its sums by rows of this column.

        Returns:
            Shape `(bins, rows, draws)`, rows with the last variable fastest.
        """
        if (name, family) not in self._rows:
            read = _read_rows if self.seen is None else _complete_rows
            self._rows[name, family] = read(self, name, family)
        return self._rows[name, family]

    def family_for(self, name: str, others: Scope) -> Scope:
        """Find the variables by which a column's sums tell most of its numbers given others.

        Args:
            name: name of the column.
            others: variables that a question conditions on.

        Returns:
            The variables of the column's sums by rows that include most of `others`; among equals most of the variables
            in `states`, then the first. Empty if none includes any of `others`, or if there are no such sums.
        """
        families = [part.given for part in self.evidence.payload.rows_by_family if part.number == name]
        shared = {family: tuple(len({*family} & {*names}) for names in (others, self.states)) for family in families}
        best = max(shared, key=lambda family: shared[family], default=())
        return best if shared.get(best, (0,))[0] else ()

    @cached_property
    def per_step(self) -> Floats:
        """Inverse number of steps of all units under every draw, shape (draws,): `1 / (steps * number of units)`; kept.

        The number of units is drawn from a normal law around its estimate, and is at least 1.
        """
        mean, deviation = self.evidence.records
        draws = self.joint((next(iter(self.grids)),)).shape[-1]
        number = mean + deviation * self.generator("records").standard_normal(draws)
        return np.asarray(1 / (self.evidence.steps * np.maximum(number, 1.0)))

    @property
    def units(self) -> float:
        """Estimated number of units, at least 1: one number for all draws."""
        return max(self.evidence.records[0], 1.0)

    def units_with(self, names: Scope) -> Floats:
        """Estimate the number of units whose numbers were seen: for several columns, of the pair that has the fewest.

        It is `units` times the smallest share, over pairs of these columns, of records that have both numbers; the
        share is the mean over the draws. For a single numeric column it is the share that has its number, and 1 without
        any. For complete records the shares are those of the records with gaps.

        Args:
            names: names of variables; those without numbers are ignored.

        Returns:
            Shape (1,), the same for all draws; (draws,) for records with given states. At least 1.
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
            name: name of the column, which is not observed.
            observed: codes of observed states, by variable.
            joint: function from the column and `open_names` to their law given these states, under every `step`-th
                draw.
            step: distance between the draws that are used, from the first on.
            also: further variables about which there is evidence, though no state is observed.

        Returns:
            Shape `(bins, used draws)`, by the sums of the family that names most of `observed` and `also`
            (`family_for`): the mean over its rows that agree with the observed states, weighted by their law plus
            LEAST_SHARE. Without such a family they are the column's own offsets. Variables that the family does not
            name are taken to inform about the bin and the row alone.
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
        """List the variables of a column's family (`family_for`) whose states are not observed.

        The family is the one for `observed` and `also`, and its order is kept. Empty without a family.
        """
        return tuple(held for held in self.family_for(name, (*observed, *also)) if held not in observed)

    def offsets_by(self, name: str, other: str) -> Floats:
        """Compute the mean offset of a column in each of its bins and each state of another variable.

        Args:
            name: name of the column.
            other: name of another variable.

        Returns:
            Shape `(bins, states, draws)`: the mean over the rows of a family (`family_for`) that have this state and
            the states of these records (`states`), weighted by their law plus LEAST_SHARE. Where no sums by rows of the
            column have the other variable, the column's own offsets in every state.
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
            rows: shape (bins, rows, draws), rows of the variables with their states for missing values, the last
                fastest.
            family: variables of the rows.

        Returns:
            Shape (bins, fewer rows, draws): rows of the states in `schema`.
        """
        schema = self.evidence.payload.network.schema
        table = rows.reshape(len(rows), *(schema[held].size for held in family), -1)
        table = table[(slice(None), *(slice(self.schema[held].size) for held in family))]
        return np.asarray(table.reshape(len(rows), -1, rows.shape[-1]))

    def measures(self, first: str, second: str) -> bool:
        """True if the mean product of two columns, in either order, was released; of one name twice, the square."""
        return (first, second) in self._moment_places

    @cached_property
    def _moment_places(self) -> dict[tuple[str, str], int]:
        """Position of each released moment among the payload's, by its two columns in either order; kept."""
        places = {pair: at for at, pair in enumerate(self.evidence.payload.moment_names)}
        return places | {pair[::-1]: at for pair, at in places.items()}

    def products(self, first: str, second: str, pair: Floats) -> Floats:
        """Compute `E(x z)` of two columns, each from the middle of its range: covariance plus product of means.

        Args:
            first, second: names of different columns.
            pair: law of their bins, shape `(bins, bins, draws)`; sums to 1 for each draw.

        Returns:
            Shape (draws,), in the product of both units.
        """
        return self.covariance(first, second, pair) + self._multiply_means(first, second, pair)

    def _multiply_means(self, first: str, second: str, pair: Floats) -> Floats:
        """Multiply the means of two columns, each from the middle of its range, shape (draws,).

        The means are those of their bins' `places`, weighted by the law `pair` of both columns' bins, shape `(bins,
        bins, draws)`.
        """
        a, b = (np.einsum(f"kld,{axis}d->d", pair, self.places(name)) for axis, name in (("k", first), ("l", second)))
        return np.asarray(a * b)

    def covariance(self, first: str, second: str, pair: Floats, *, binned: bool = False) -> Floats:
        """Compute the covariance of two columns in every draw.

        It is the covariance of the means of bins, plus what the released product says beyond it (`_covary_inside`).

        Args:
            first, second: names of different columns.
            pair: law of their bins, shape `(bins, bins, draws)`; sums to 1 for each draw.
            binned: whether numbers count as the means of their bins, so that nothing is added.

        Returns:
            Shape `(draws,)`, in the product of both units. Where no product was released, the columns are taken to
            depend on each other by their bins alone, and nothing is added. For complete records (`seen` is not None)
            the added part is that of the records with gaps, under their own law of both columns' bins.
        """
        a, b = self.places(first), self.places(second)
        by_bins = np.einsum("kld,kd,ld->d", pair, a, b) - self._multiply_means(first, second, pair)
        if binned or not self.measures(first, second):
            return np.asarray(by_bins)
        if self.seen is None:
            return np.asarray(by_bins + self._covary_inside(first, second, pair))
        law = self.seen.joint((first, second))[: len(a), : len(b)]
        return np.asarray(by_bins + self.seen._covary_inside(first, second, law / (law.sum(axis=(0, 1)) + LEAST_SHARE)))

    def _covary_inside(self, first: str, second: str, pair: Floats) -> Floats:
        """Compute the covariance of two columns beyond that of their means in bins, from the released product.

        The prior of the mean product is that by the line between bins (`follow_bins`) under the drawn law, LEAST_SHARE
        added to each cell, with a normal doubt of PRODUCT_DOUBT times the largest covariance. It is conditioned on the
        released product (`condition`), and the product by the means in bins is subtracted. Both are among the counted
        records that have both numbers; a share of these below LEAST_SHARE counts as this. Last, a sampling error is
        added, with the variance of what varies about the means of bins, at least 0, divided by the number of these
        records; numbers of counted records have none.

        Args:
            first, second: names of different columns whose product was released.
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

        For each column in turn, the covariance of the means of its bins with the other column's means in these bins is
        multiplied by `1 + variance inside bins / variance between bins`. It is limited to plus or minus WIDEST times
        both standard deviations, and the two results are averaged.

        Args:
            names: names of both columns.
            laws: laws of their bins, shape `(bins, bins, draws)` each; they sum to 1 for each draw, and cells may be
                negative.

        Returns:
            Means of both columns; the covariance under each law; the limit; and the doubt. The doubt is SLOPE_DOUBT
            about every slope inside a bin, together with how much the means of bins vary over the draws, relative to
            the column's variance, times the limit. Variances are raised to LEAST_SHARE where they divide or are rooted.
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
        """Compute the standard deviation of the noise of the mean product of two columns, in both units.

        It is that of the released moment times the mean over draws of `per_step`: the product is over all units.
        """
        sides = (self.grids[first], self.grids[second])
        unit = moment_reach(*sides) / MOMENT_STEPS * sides[0].step * sides[1].step * float(self.per_step.mean())
        return self.evidence.deviations[1] * unit

    def row_deviation(self, name: str) -> float:
        """Compute the standard deviation of the noise of a column's sum in a row, divided by the number of all units.

        It is in the column's unit, with the mean over draws of `per_step`; 0 if there are no sums by rows.
        """
        noise = self.evidence.noise
        variance = 0.0 if noise.row_scale is None else noise.row_law.variance
        return float(np.sqrt(variance) * self.grids[name].step * self.per_step.mean())

    def variance(self, name: str, bins: Floats, step: int = 1) -> Floats:
        """Compute the variance of a column in every draw, from the squares of the column.

        Args:
            name: name of the column.
            bins: shares of its bins under every `step`-th draw, shape `(bins, used draws)`; sum to 1 for each draw.
            step: distance between the draws that are used, from the first on.

        Returns:
            Shape `(used draws,)`, by the column's squares, which are conditioned on a released square or else those of
            the prior. It is at least the variance between the means of bins, and at most that plus `half width^2 -
            offset^2`, averaged over the bins.
        """
        column, middles = self.column(name), self.grids[name].centred[:, None]
        offsets, second = column.offsets[:, ::step], (column.bins * column.squares).sum(axis=0)[::step]
        means, half = middles + offsets, np.diff(self.grids[name].edges)[:, None] / 2
        mean = (bins * means).sum(axis=0)
        between = (bins * (means - mean) ** 2).sum(axis=0)
        variance = (bins * middles**2).sum(axis=0) + second - mean**2
        return np.asarray(np.clip(variance, between, between + (bins * (half**2 - offsets**2)).sum(axis=0)))

    def variance_given(self, name: str, bins: Floats, offsets: Floats, given: Scope, step: int = 1) -> Floats:
        """Compute the variance of a column given the states of other variables, in every draw.

        It is the variance between the means of bins under `bins`, plus the mean variance inside bins. Inside a bin the
        column's spread is multiplied by one factor for each draw, by which the column has its own variance
        (`variance`). If a family of the column's sums by rows names some of the others, the variance between the bin's
        means in their states is subtracted, with LEAST_SHARE added to each share of a row. A variance inside all bins
        that is below LEAST_SHARE divides as this.

        Args:
            name: name of the column.
            bins: shares of its bins given the others, shape `(bins, used draws)`; sum to 1 for each draw.
            offsets: mean offset in each bin given the others, same shape.
            given: names of the others.
            step: distance between the draws that are used, from the first on.

        Returns:
            Shape `(used draws,)`. The mean variance inside bins counts as 0 if it is negative.
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
        """Make the law of a column's numbers with other shares of bins and other means in them.

        Args:
            name: name of the column.
            bins: shares of its bins, shape `(bins or more, used draws)`, normalised here; what follows them is ignored.
            offsets: mean of x less the middle of its bin in each bin, shape `(bins, used draws)`.
            step: distance between the draws that are used, from the first on.

        Returns:
            The column's own law with these shares, tilted inside the bins to these means (`move_means`). Its known mean
            is that of shares and offsets; for whole numbers 1/2 less, as x stands for x + 1/2 in the grid.
        """
        grid, leaves = self.grids[name], self.evidence.payload.leaves(name)
        leaf_bin, shares = grid.bin_of_leaf(leaves), bins[: grid.bins] / bins[: grid.bins].sum(axis=0)
        means = grid.middles[:, None] + offsets
        law = self.column(name).law.of_draws(slice(None, None, step)).given(shares, leaf_bin)
        mean = (shares * means).sum(axis=0) - grid.shift
        return replace(move_means(law, leaf_bin, means), known_mean=mean)

    def list_untold(self, name: str, observed: Scope) -> Scope:
        """List the observed variables that a column's family (`family_for`) does not have, in their order.

        For a variable without sums of numbers the list is empty.
        """
        family = self.family_for(name, observed) if name in self.grids else observed
        return tuple(variable for variable in observed if variable not in family)

    def sources(self, name: str, observed: Scope) -> tuple[str, ...]:
        """Name the released sums from which a column is read, given observed variables.

        Returns:
            "sum of x", then "sums of x by a, b" if a family names an observed variable (`family_for`), then "ruler of
            x" if it has a ruler.
        """
        family, ruled = self.family_for(name, observed), self.evidence.payload.leaves(name) > 1
        by_rows = (f"sums of {name} by {', '.join(family)}",) if family else ()
        return (f"sum of {name}", *by_rows, *((f"ruler of {name}",) if ruled else ()))

    def generator(self, *names: str) -> np.random.Generator:
        """Make the generator of a quantity: equal names give equal numbers, in whatever order the questions come.

        The seed follows from the released sums and from the drawn law (`_seed`), so other draws have other noise.
        """
        return np.random.default_rng([self._seed, *(crc32(name.encode()) for name in names)])

    @cached_property
    def _seed(self) -> int:
        """Checksum (CRC-32) of the released sums of offsets and of the first column's law; kept.

        Numbers of counted records, or of those with some states, have that of their `population`.
        """
        if self.population is not None:
            return self.population._seed
        released, drawn = self.evidence.payload.offsets.astype(np.int64), self.joint((next(iter(self.grids)),))
        return crc32(np.ascontiguousarray(drawn, np.float64).tobytes(), crc32(released.tobytes()))


def condition(parts: Floats, weights: Floats, measured: Floats, noise: Floats, rng: np.random.Generator) -> Floats:
    """Condition draws of several means on a noisy measurement of their weighted sum (Matheron's rule).

    Args:
        parts: draws of the prior, shape `(parts, ..., draws)`; not changed.
        weights: weight of each part in the sum, same shape.
        measured: the measured sum, shape `(..., draws)`, or what broadcasts to it.
        noise: standard deviation of its noise, shape as for `measured`.
        rng: source of the simulated noise.

    Returns:
        Draws of the posterior, same shape. Each part moves by `covariance / (variance + noise^2) * (measured +
        simulated noise - sum)`: the covariance of the part with the sum, and the variance of the sum, are those over
        the draws. A denominator below 1e-300 counts as this.
    """
    total = (weights * parts).sum(axis=0)
    centred = total - total.mean(axis=-1, keepdims=True)
    covariance = ((parts - parts.mean(axis=-1, keepdims=True)) * centred).mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True) + noise**2
    residual = measured + noise * rng.standard_normal(total.shape) - total
    return np.asarray(parts + covariance / np.maximum(variance, 1e-300) * residual)


def _read_column(numbers: NumberDraws, name: str) -> Column:
    """Read a column from its sum of offsets, its square and its ruler.

    Mean offsets and squares have the prior of the law inside bins (`_draw_inside`), with a normal doubt: of
    INSIDE_DOUBT half widths of the leaves for offsets, and of INSIDE_DOUBT times what half a bin can change for
    squares. The released sum conditions the offsets, and a released square the squares, which else keep their prior
    (`condition`). Last, a sampling error of variance `spread / (records of the bin + 1)` moves each offset, and the
    square with it. Offsets are limited to WIDEST half widths of their bins before and after that, and the law is tilted
    to them.

    Args:
        numbers: numbers of the release.
        name: name of the column.

    Returns:
        The column among the records that have the number. The share of records that have it is raised to LEAST_SHARE,
        and a spread to 0.
    """
    payload, grid = numbers.evidence.payload, numbers.grids[name]
    at, rng = list(numbers.grids).index(name), numbers.generator(name)
    law = numbers.joint((name,))[: grid.bins]
    present = np.maximum(law.sum(axis=0), LEAST_SHARE)
    bins, per_record = law / present, numbers.per_step / present
    prior = _draw_inside(numbers, name, bins, numbers.units * present, rng)
    leaf_bin = grid.bin_of_leaf(payload.leaves(name))
    half = np.diff(prior.edges)[:, None] / 2
    offsets = _bin_mean(prior, leaf_bin, prior.centres(), grid.bins) - grid.middles[:, None]
    offsets = offsets + INSIDE_DOUBT * _bin_mean(prior, leaf_bin, half, grid.bins) * rng.standard_normal(bins.shape)
    scale = grid.step * per_record
    deviation, moment_deviation = numbers.evidence.deviations
    counted = numbers.count_shares(bins, numbers.units * float(present.mean()))
    offsets = condition(offsets, counted, payload.offsets[at] * scale, deviation * scale, rng)
    reach = WIDEST * np.diff(grid.edges)[:, None] / 2
    offsets = np.clip(offsets, -reach, reach)
    moved = move_means(prior, leaf_bin, grid.middles[:, None] + offsets)
    inner = moved.centres() - grid.middles[leaf_bin][:, None]
    spread = np.maximum(_bin_mean(moved, leaf_bin, inner**2 + half**2 / 3, grid.bins) - offsets**2, 0.0)
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

    by the family that changes the column's mean most: the one that gaps depend on, while others move it by what they
    tell of that one. Rows with gaps are left out of the second share. A gap of another column is taken to depend on
    this number by its bin alone. Squares in a bin move with its mean.

    Args:
        numbers: numbers of complete records.
        name: name of the column.

    Returns:
        The column with the shares of bins of complete records and the spread that was seen. Offsets are limited to
        WIDEST half widths of their bins, and the law is tilted to them. A column without gaps of its own, or without
        sums by rows, keeps its offsets and squares.
    """
    assert numbers.seen is not None
    grid, seen, payload = numbers.grids[name], numbers.seen.column(name), numbers.evidence.payload
    bins, shifts = numbers.joint((name,))[: grid.bins], [np.zeros(seen.offsets.shape)]
    bins = bins / np.maximum(bins.sum(axis=0), LEAST_SHARE)
    gaps = payload.network.schema[name].missing is not None
    for family in (part.given for part in payload.rows_by_family if gaps and part.number == name):
        laws = (_row_law(numbers, name, family), numbers._drop_gaps(_row_law(numbers.seen, name, family), family))
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
    """Make the mean offsets of complete records by bins and rows, shape (bins, rows, draws), rows without gaps.

    They are those seen; all rows of a bin move alike until they average to the bin's mean offset (`_complete_column`),
    weighted by the law of complete records (LEAST_SHARE is added to its sums), and are then limited to WIDEST half
    widths of the bins.
    """
    assert numbers.seen is not None
    rows, law = numbers._drop_gaps(numbers.seen.rows(name, family), family), _row_law(numbers, name, family)
    mean = (law * rows).sum(axis=1) / (law.sum(axis=1) + LEAST_SHARE)
    reach = WIDEST * np.diff(numbers.grids[name].edges)[:, None, None] / 2
    return np.asarray(np.clip(rows + (numbers.column(name).offsets - mean)[:, None], -reach, reach))


def _row_law(numbers: NumberDraws, name: str, family: Scope) -> Floats:
    """Compute the law of a column's bins and the rows of a family, shape (bins, rows, draws), last variable fastest.

    Records without the number are left out, so it sums to less than 1 if there are some.
    """
    law = numbers.joint((name, *family))[: numbers.grids[name].bins]
    return np.asarray(law.reshape(len(law), -1, law.shape[-1]))


def expect_counted(shares: Floats, units: float) -> Floats:
    """Expect the shares among the records that were counted, given drawn ones of the population.

    Sums are of the counted records. Drawn shares differ from theirs by a sampling error of variance `p (1 - p) / n`;
    what they vary beyond it is the noise of the tables, which both have in common. Over all cells together the excess
    of the variances over sampling must be more than CLEAR_NOISE Monte Carlo errors; else there is no such noise, and
    every draw gets the mean.

    Args:
        shares: drawn shares, shape `(cells, draws)`; sum to 1 for each draw.
        units: number n of counted records.

    Returns:
        `mean + (1 - p (1 - p) / (n var)) (shares - mean)`, with mean p and variance over the draws, the factor at least
        0; same shape, normalised to sum 1.
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

    The law of bins and rows has LEAST_SHARE added to each cell. A row starts at the means of parabolas through its own
    bins, moved so that the rows of each bin average to the column's offset, with a normal doubt of ROW_DOUBT half
    widths. The released sums condition it (`condition`), and sampling errors of variance `spread / (records of the cell
    + 1)` are added. Then the sums of rows move, each in proportion to its variance over the draws, until all together
    have the column's mean offset. RAKING_ROUNDS rounds add constants to bins, then to rows, until both have their
    means, and end with the limit.

    Args:
        numbers: numbers of the release.
        name: name of the column.
        family: variables of the rows, as the payload names them.

    Returns:
        Shape `(bins, rows, draws)`, limited to WIDEST half widths of the bins; the means of bins and of rows are met
        approximately, those of rows best.
    """
    evidence, grid, column = numbers.evidence, numbers.grids[name], numbers.column(name)
    rng = numbers.generator(name, *family)
    sums = next(part.sums for part in evidence.payload.rows_by_family if (part.number, part.given) == (name, family))
    law = _row_law(numbers, name, family) + LEAST_SHARE
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


def _draw_inside(numbers: NumberDraws, name: str, bins: Floats, records: Floats, rng: np.random.Generator) -> BinLaw:
    """Draw the law inside the bins: by the ruler's leaves where there is one, else by parabolas.

    Args:
        numbers: numbers of the release.
        name: name of the column.
        bins: shares of the bins among records that have the number, shape (bins, draws).
        records: number of units that have the number, shape (draws,).
        rng: source of randomness; not used without a ruler.

    Returns:
        With a ruler a law whose bins are the leaves, flat inside them. Each bin's share is split among its leaves by
        their noisy counts, in units (`_split_leaves`); the prior of the split has the leaves' shares, at least 1e-12,
        under parabolas through the mean shares over draws. Without a ruler the law of parabolas through the bins of
        each draw.
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
        shares[held] = bins[bin] * _split_leaves(counts[held], expected[held], bins[bin] * records, noise, rng)
        start += number
    return BinLaw(edges, shares, np.full(shares.shape, FLATTEST_RISE), bool(grid.shift))


def _split_leaves(counts: Floats, expected: Floats, records: Floats, noise: float, rng: np.random.Generator) -> Floats:
    """Draw the shares of a bin's leaves by halving: the bin, then each half, down to single leaves.

    The share of the first half is drawn on a grid of GRID_POINTS points, with a uniform place between points. Its prior
    is a Beta law of SPLIT_CONCENTRATION records, around the expected share limited to .02 and .98. Its likelihood is
    normal: the difference of both halves' noisy counts and the bin's records estimate the half's records, with the
    variance of the noise and of a binomial count. The records of a half, which its own split takes as given, are raised
    to .001.

    Args:
        counts: noisy records of the leaves, a power of two of them.
        expected: shares that the prior expects, up to a factor.
        records: records of the bin in every draw, shape (draws,).
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
        part * _split_leaves(counts[held], expected[held], np.maximum(records * part, 1e-3), noise, rng)
        for part, held in halves
    ]
    return np.asarray(np.concatenate(leaves))


def _bin_mean(law: BinLaw, leaf_bin: Ints, values: Floats, bins: int) -> Floats:
    """Average values of leaves over each bin, weighted by the law's shares plus 1e-12, shape (bins, draws).

    So leaves count alike where a bin has no share. `leaf_bin` is the bin of each leaf, ascending, and `values` has a
    row for each leaf.
    """
    shares = law.shares + 1e-12
    starts = np.searchsorted(leaf_bin, np.arange(bins))
    return np.asarray(np.add.reduceat(shares * values, starts) / np.add.reduceat(shares, starts))
