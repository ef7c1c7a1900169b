"""Numbers as evidence: comparisons such as `age > 65`, and single numbers such as `age=60`, under every draw.

A range holds a part of each bin's numbers, by the law of the column inside its bins (`number_draws.py`): all or none of
most bins, exactly. It enters inference as the state of a new child of the variable, whose probability in each bin is
that part. Where sums by rows tell that numbers of other variables' states lie elsewhere inside a bin, the part differs
from row to row, and the child has them as parents, too:

    P(in range | k, row) = part(k) + part of the row's law - its mean over the rows,

so that all rows together have the part of the bin. Of a single real number the part is a density; its bin is observed.

Whatever the law inside bins (or the leaves of a ruler), the part is only bounded, and nothing tells which records of a
bin it takes: with mass p of an event and m of all records in a cell, the part takes between max(0, l m - (m - p)) and
min(p, h m) of the event, l and h the least and largest part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from discreet.inference.bin_laws import BinLaw, move_means
from discreet.inference.exact_laws import ConditionalLaws
from discreet.model.network import Network
from discreet.model.number_grid import NumberGrid
from discreet.model.query_grammar import AnyOf, NumberRange
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.posterior.number_draws import LEAST_SHARE, NumberDraws
from discreet.posterior.number_lines import row_offsets
from discreet.util.arrays import Floats, Ints
from discreet.util.option_texts import Inside

WINDOW = 1e-6
"""Width of the interval that stands for a single real number, relative to its leaf."""
MOST_ROW_VALUES = 2**22
"""Most values of a child's table, 32 MiB; a larger family is left out, and the part is that of the bin in all rows."""


@dataclass(frozen=True, eq=False)
class ObservedNumber:
    """A numeric variable of which a range is observed, under every draw.

    Args:
        variable: it.
        range: what is observed.
        law: of the variable given the observed states, with leaves as bins; only the shares inside a bin count.
        bins: bin of each leaf.
        interval: ends of the range; of a single real number those of the interval that stands for it.
    """

    variable: Variable
    range: NumberRange
    law: BinLaw
    bins: Ints
    interval: tuple[float, float]

    @property
    def code(self) -> int | None:
        """Position of the bin that holds a single number; None for a comparison."""
        return bisect_right(self.variable.bins, self.range.low) if self.range.value else None

    def inside(self, bin: int) -> BinLaw:
        """Return the law inside one bin: its leaves with their shares, LEAST_SHARE added, and edges."""
        leaves = np.flatnonzero(self.bins == bin)
        edges = self.law.edges[leaves[0] : leaves[-1] + 2]
        return BinLaw(edges, self.law.shares[leaves] + LEAST_SHARE, self.law.rises[leaves], self.law.integer)

    def part(self, bin: int, law: BinLaw | None = None) -> Floats:
        """Compute the part of a bin's numbers that lies in the range, shape (draws,).

        It is exactly 1 or 0 where the range has all or none of the bin.

        Args:
            bin: position of the bin.
            law: law inside this bin, with any number of draws; None for the column's own (`inside`).
        """
        law = self.inside(bin) if law is None else law
        low, high = self.interval
        if low <= law.edges[0] and law.edges[-1] <= high:
            return np.ones(law.shares.shape[1])
        if high <= law.edges[0] or law.edges[-1] <= low:
            return np.zeros(law.shares.shape[1])
        return np.asarray(law.within(low, high).shares.sum(axis=0) / law.shares.sum(axis=0))

    def parts(self) -> Floats:
        """Compute the part of each state that lies in the range, shape (size, draws), by the law inside bins.

        Of a single real number it is the part of the short interval that stands for it. A missing number lies in no
        range: 0.
        """
        parts = np.zeros((self.variable.size, self.law.shares.shape[1]))
        for bin in range(len(self.variable.edges) - 1):
            parts[bin] = self.part(bin)
        return parts

    @property
    def cut(self) -> list[int]:
        """Bins of which the range has some numbers and not all; a single real number cuts its bin."""
        ends = np.array(self.variable.edges)
        low, high = self.interval
        some = (ends[1:] > low) & (ends[:-1] < high) & ((ends[:-1] < low) | (ends[1:] > high))
        return [int(bin) for bin in np.flatnonzero(some)]

    def shifts(self) -> tuple[Floats, Floats]:
        """Compute mean and variance of the numbers in the range less those of all numbers, in each bin.

        Returns:
            (differences of means, differences of variances), shape (bins, draws) each, under the law inside the bin, in
            the unit of the number and its square; 0 in bins of which the range has all or none (`cut`).
        """
        means, variances = np.zeros((2, len(self.variable.edges) - 1, self.law.shares.shape[1]))
        for bin in self.cut:
            law = self.inside(bin)
            taken = law.within(*self.interval)
            first, second = (
                (each.shares * each.centres()).sum(axis=0) / each.shares.sum(axis=0) for each in (law, taken)
            )
            means[bin], variances[bin] = second - first, taken.variance() - law.variance()
        return means, variances

    def part_ends(self) -> tuple[Floats, Floats]:
        """Compute the least and the largest part of each state over all laws inside leaves, shape (size, draws) each.

        A leaf counts for the least part only if the range has all its numbers, and for the largest if it has some. Both
        are shares of the bin by leaves, with LEAST_SHARE added to each leaf, and at most 1. A single number stands for
        its leaf: both parts are the leaf's share. A missing number lies in no range: both parts of its state are 0.
        """
        surely = np.ones(len(self.bins), bool)
        maybe = surely.copy()
        if self.range.value:
            surely = maybe = (self.law.edges[:-1] < self.interval[1]) & (self.law.edges[1:] > self.interval[0])
        else:
            if np.isfinite(self.range.low):
                _, surely, maybe = self.law.beyond(self.range.low, inclusive=not self.range.above)
            if np.isfinite(self.range.high):
                _, beyond, some = self.law.beyond(self.range.high, inclusive=self.range.below)
                surely, maybe = surely & ~some, maybe & ~beyond
        starts = np.flatnonzero(np.diff(self.bins, prepend=-1))
        shares = self.law.shares[: len(self.bins)] + LEAST_SHARE
        totals, (low, high) = np.add.reduceat(shares, starts), np.zeros((2, self.variable.size, shares.shape[1]))
        low[: len(totals)] = np.add.reduceat(shares * surely[:, None], starts) / totals
        high[: len(totals)] = np.add.reduceat(shares * maybe[:, None], starts) / totals
        return np.minimum(low, 1.0), np.minimum(high, 1.0)


@dataclass(frozen=True, eq=False)
class ObservedStates:
    """A variable of which one of several states is observed: all or none of each, in every draw.

    Args:
        variable: it.
        range: its states.
        draws: number of draws.
    """

    variable: Variable
    range: AnyOf
    draws: int
    code: ClassVar[None] = None
    cut: ClassVar[tuple[int, ...]] = ()

    def parts(self) -> Floats:
        """Compute the part of each state, shape (size, draws): 0 or 1."""
        seen = [float(state in self.range.states) for state in self.variable.states]
        return np.repeat(np.array(seen)[:, None], self.draws, axis=1)

    def part_ends(self) -> tuple[Floats, Floats]:
        """Return the parts twice: no law changes them."""
        return self.parts(), self.parts()


Seen = ObservedNumber | ObservedStates
"""Evidence that is no single state."""


def observe_numbers(
    laws: ConditionalLaws,
    ranges: Sequence[tuple[str, NumberRange | AnyOf]],
    numbers: NumberDraws | None,
    inside: Inside,
    step: int = 1,
) -> tuple[Seen, ...]:
    """Find the laws of observed numbers given the observed states; several states have none.

    Args:
        laws: given the observed states alone, under every `step`-th draw.
        ranges: variables, with what is observed of their numbers.
        numbers: of the release; None if no sums were released.
        inside: law inside bins without sums.
        step: as it says.

    Returns:
        For each variable what is observed of it, in the given order: `ObservedStates` for several states, which has no
        law, else `ObservedNumber`. The law of a number with sums is that of the release, with the ruler's leaves as
        bins, tilted to its means given the observed states. The law of any other number has its own bins, with the law
        `inside` them.
    """
    observed = list[Seen]()
    for name, seen in ranges:
        variable, shares = laws.network.schema[name], laws.joint((name,))
        if isinstance(seen, AnyOf):
            observed.append(ObservedStates(variable, seen, shares.shape[-1]))
            continue
        if numbers is None or name not in numbers.grids:
            law = BinLaw.of_bins(variable, shares, inside)
            bins = np.arange(len(variable.edges) - 1)
        else:
            law = numbers.given(name, shares, numbers.offsets_given(name, laws.evidence, laws.joint, step), step)
            bins = numbers.grids[name].bin_of_leaf(numbers.evidence.payload.leaves(name))
        observed.append(ObservedNumber(variable, seen, law, bins, _find_interval(variable, seen, law.edges)))
    return tuple(observed)


def _find_interval(variable: Variable, seen: NumberRange, edges: Floats) -> tuple[float, float]:
    """Find the ends of a range.

    A single real number has an interval of length 0; a short one is returned in its place: WINDOW times the length of
    its leaf (or bin), from the number on, or ending at the upper edge of the leaf if it would reach beyond. A single
    whole number has its own interval, from it to the next number.

    Args:
        variable: numeric variable.
        seen: what is observed of it.
        edges: of the leaves, or of the bins without a ruler.
    """
    low, high = seen.ends(variable)
    if low < high:
        return low, high
    leaf = min(int(np.searchsorted(edges, low, side="right")), len(edges) - 1)
    width = WINDOW * (edges[leaf] - edges[leaf - 1])
    start = min(low, edges[leaf] - width)
    return float(start), float(start + width)


def add_observed(
    laws: ConditionalLaws,
    observed: Sequence[Seen],
    rows: Mapping[str, tuple[Scope, Floats]],
) -> ConditionalLaws:
    """Condition laws on observed numbers.

    Args:
        laws: given the observed states alone.
        observed: numbers.
        rows: by variable, parts that differ by rows: names of other variables, and the parts in each state of the
            variable and of these, shape `(size, *sizes, draws)`; for others the part is that of the bin.

    Returns:
        Laws of a network with a child for each comparison and each one of several states, and for each single number
        that has rows. A child has the states "out" and "in", the second with the parts as probability, and "in" is
        observed. A single number is also observed in its bin. A child is named as its comparison is written, in
        brackets (perhaps several) if there is a variable of this name. Without any child the network stays.
    """
    network, tables, evidence = laws.cells.network, dict[str, Floats](), dict(laws.evidence)
    parents = dict[str, Scope]()
    for each in observed:
        name, child = each.variable.name, each.range.write(each.variable.name)
        others, parts = rows.get(name, ((), each.parts()))
        if each.code is not None:
            evidence[name] = each.code
            if not others:
                continue
        while child in network.schema or child in parents:
            child = f"({child})"
        parents[child], evidence[child] = (name, *others), 1
        tables[child] = np.stack([1 - parts, parts], axis=-2)
    if not parents:
        return replace(laws, evidence=evidence)
    variables = (*network.variables, *(Variable(child, ("out", "in")) for child in parents))
    wider = Network(variables, {**network.parents, **parents})
    cells = Tables(wider, lambda node: tables[node] if node in tables else laws.cells[node], draws=laws.cells.draws)
    return ConditionalLaws(cells, evidence, laws.network, laws.rows)


def find_row_parts(
    laws: ConditionalLaws, observed: Seen, numbers: NumberDraws, targets: Scope, step: int = 1
) -> tuple[Scope, Floats] | None:
    """Compute the part of each bin that lies in a range, by the rows of the family that has most of the targets.

    Inside a cut bin the law of each row is the bin's, tilted to the row's mean (`_part_by_row`), which lines inside
    bins move (`row_offsets`). Rows are weighted by their law given the observed states, LEAST_SHARE added.

    Args:
        laws: given the observed states alone, under every `step`-th draw.
        observed: the number.
        numbers: of the release.
        targets: variables that are asked for.
        step: as it says.

    Returns:
        As `rows` of `add_observed`, over the unobserved variables of the family (`family_for`). None for several
        states, if the range cuts no bin, if the number has no sums, if the family has no target, or if the table would
        have more than MOST_ROW_VALUES values. In a cut bin a row has the part of the bin plus that of the row's law
        less its mean over the rows, limited to [0, 1]. For a single number they are likelihoods, whose mean over the
        rows is 1 in each cut bin, all divided by the largest of all if that is above 1. Other bins have the same part
        in all rows.
    """
    name, states = observed.variable.name, laws.evidence
    if isinstance(observed, ObservedStates) or not observed.cut or name not in numbers.grids:
        return None
    family = numbers.family_for(name, targets)
    others = tuple(held for held in family if held not in states)
    grid, sizes = numbers.grids[name], [laws.network.schema[held].size for held in others]
    draws = observed.law.shares.shape[1]
    if not set(others) & set(targets) or observed.variable.size * int(np.prod(sizes)) * draws > MOST_ROW_VALUES:
        return None
    offsets = numbers.rows(name, family)[..., ::step].reshape(
        grid.bins, *[laws.network.schema[held].size for held in family], -1
    )
    offsets = offsets[(slice(None), *(states.get(held, slice(None)) for held in family))].reshape(grid.bins, -1, draws)
    law = laws.joint((name, *others))[: grid.bins].reshape(grid.bins, -1, draws) + LEAST_SHARE
    offsets = row_offsets(numbers, name, law, offsets, others, step)
    parts = np.repeat(observed.parts()[:, None], law.shape[1], axis=1)
    for bin in observed.cut:
        by_row = _part_by_row(observed, bin, grid, offsets[bin])
        weights = law[bin] / law[bin].sum(axis=0)
        if observed.range.value:
            # A likelihood: its mean over the rows is 1.
            parts[bin] = by_row / np.maximum((weights * by_row).sum(axis=0), np.finfo(float).tiny)
        else:
            parts[bin] = np.clip(parts[bin] + by_row - (weights * by_row).sum(axis=0), 0.0, 1.0)
    if observed.range.value:
        parts = parts / max(float(parts[observed.cut].max()), 1.0)
    return others, parts.reshape(-1, *sizes, draws)


def _part_by_row(observed: ObservedNumber, bin: int, grid: NumberGrid, offsets: Floats) -> Floats:
    """Compute the part of a bin by rows: that of the law inside the bin, tilted to each row's mean.

    Args:
        observed: the number.
        bin: that the range cuts.
        grid: of the column.
        offsets: mean of the row's numbers in the bin less its middle, shape (rows, draws). The part has the same shape.
    """
    law, rows = observed.inside(bin), offsets.shape[0]
    many = BinLaw(law.edges, np.tile(law.shares, rows), np.tile(law.rises, rows), law.integer)
    moved = move_means(many, np.zeros(len(law.rises), int), grid.middles[bin] + offsets.reshape(1, -1))
    return observed.part(bin, moved).reshape(offsets.shape)


def bound_event(event: Floats, everything: Floats, parts: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Bound the share of an event among the records of which numbers are observed, whatever the law inside bins.

    Args:
        event: mass p of events in each cell of the observed variables' states, shape `(events, *sizes, draws)`.
        everything: mass m of all records, shape `(*sizes, draws)`.
        parts: least and largest part of the states of each observed variable, shape `(size, draws)` each, in the order
            of the axes.

    Returns:
        (lower, upper), shape `(events, draws)`. For the upper bound the observed records take, in every cell, as much
        of the event as the largest part allows, and of the rest only what the least part still forces; the bound is the
        event's share of both, summed over cells. The lower bound is 1 less the upper bound of the rest. Of several
        variables the part of a cell is bounded by Frechet's inequalities: at most the least of theirs, at least their
        sum less the number of others. Where no record can be among those observed, the bounds are 0 and 1.
    """
    axes = everything.ndim - 1
    low, high = np.ones(everything.shape), np.ones(everything.shape)
    for axis, (least, most) in enumerate(parts):
        shape = [1] * axes
        shape[axis] = len(least)
        low = np.maximum(low + least.reshape(*shape, -1) - 1, 0.0)
        high = np.minimum(high, most.reshape(*shape, -1))
    rest, summed = np.maximum(everything - event, 0.0), tuple(range(1, axes + 1))

    def extreme(wanted: Floats, avoided: Floats) -> Floats:
        # As much as possible of one, then as little as possible of the other.
        taken = np.minimum(wanted, high * everything)
        left = np.maximum(low * everything - taken, 0.0)
        taken, left = taken.sum(axis=summed), np.minimum(left, avoided).sum(axis=summed)
        return np.asarray(np.divide(taken, taken + left, out=np.ones_like(taken), where=taken + left > 0))

    return 1 - extreme(rest, event), extreme(event, rest)
