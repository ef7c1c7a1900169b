"""What releases on one data set measured, how far off it is, and what it says of the number of records.

Read by every posterior.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce

import numpy as np

from discreet.errors import InputError
from discreet.inference.interactions import Blur, subsets
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.planning.star_cover import star_blurs
from discreet.posterior.pooled.weighted import list_determined
from discreet.releases.combined import Combined
from discreet.releases.external_figures import External
from discreet.releases.measurement import Measurement
from discreet.releases.release import Release


def blur(part: Measurement) -> Blur:
    """Variances that the noise of a measured table adds to its interactions."""
    if part.star is None:
        return Blur(part.variance)
    found = star_blurs(part.star.shared, part.star.lengths, part.star.scale)
    return found[part.star.scopes.index(part.scope)]


def measurements(parts: Iterable[Release | External]) -> tuple[Measurement, ...]:
    """All that releases and figures by others measured of the records, in their order.

    Args:
        parts: over a network, on one data set.

    Returns:
        Tables, contrasts and weighted sums with their noise; nothing of releases of something else.
    """
    return tuple(found for part in parts for found in part.measurements)


def audited_sets(evidence: Combined) -> tuple[Scope, ...]:
    """Sets of variables that a second stage measured because no table of the first holds them.

    Args:
        evidence: over a network.

    Returns:
        Each once, in the order of the releases.
    """
    parts = (part for releases in evidence.data_sets for part in measurements(releases))
    return tuple(dict.fromkeys(part.scope for part in parts if part.audit))


def measured_sets(evidence: Combined, *, audits: bool = True) -> tuple[frozenset[str], ...]:
    """The largest sets of variables that were measured together, on every data set.

    Args:
        evidence: over a network.
        audits: whether those count that a second stage measured.

    Returns:
        Sets of which none holds another, larger ones first; none where no table or contrast was measured.
    """
    parts = [[part for part in measurements(releases) if audits or not part.audit] for releases in evidence.data_sets]
    told = [_keep_largest(_list_told_sets(evidence.network, listed)) for listed in parts]
    both = reduce(lambda some, more: _keep_largest({one & other for one in some for other in more}), told)
    place = evidence.network.ordered
    return tuple(sorted(both, key=lambda names: (-len(names), place(names))))


def measured_anywhere(evidence: Combined, *, in_part: bool) -> tuple[frozenset[str], ...]:
    """The largest sets of variables that were measured together on some data set.

    Args:
        evidence: over a network.
        in_part: whether sums count that leave a part of their set open.

    Returns:
        Sets of which none holds another.
    """
    parts = [measurements(parts) for parts in evidence.data_sets]
    found = {names for listed in parts for names in _list_told_sets(evidence.network, listed)}
    if in_part:
        found |= {frozenset(part.scope) for listed in parts for part in listed if part.weights is not None}
    return tuple(sorted(_keep_largest(found), key=evidence.network.ordered))


def misfit(parts: Sequence[Measurement], names: Scope) -> float:
    """How far the table of two variables is from that of independent ones: squares, in deviations, summed over cells.

    Args:
        parts: measured of one data set.
        names: of the variables.

    Returns:
        About `(size - 1) (size - 1)` for independent variables; 0 where no table is over just these two.
    """
    table = next((part for part in parts if part.table and set(part.scope) == set(names)), None)
    if table is None or len(names) != 2:
        return 0.0
    cells = np.asarray(table.values, np.float64)
    rows, columns = (np.maximum(cells.sum(axis=axis, keepdims=True), 1.0) for axis in (1, 0))
    expected = rows * columns / max(float(cells.sum()), 1.0)
    return float((np.square(cells - expected) / (expected + blur(table).variance(table.scope))).sum())


def check_total(evidence: Combined) -> None:
    """Refuse a data set of which nothing tells the number of records.

    Raises:
        InputError: sums or contrasts alone.
    """
    for parts, records in zip(evidence.data_sets, evidence.records, strict=True):
        listed = measurements(parts)
        if (
            not listed
            or records is not None
            or any(part.table or (part.contrasts and not part.scope) for part in listed)
        ):
            continue
        if () not in list_determined(evidence.network, listed):
            raise InputError(
                "weighted sums alone do not tell the number of records: add a table of the same records, or their "
                "number as a table over no variables (from the shell a file of cells whose header is `count`)"
            )


def _list_told_sets(network: Network, parts: Sequence[Measurement]) -> set[frozenset[str]]:
    """Sets whose every subset was measured, by a table, by contrasts of its own, or by sums that leave nothing open."""
    tables = {frozenset(part.scope) for part in parts if part.table}
    contrasts = {frozenset(part.scope) for part in parts if part.contrasts}
    contrasts |= set(map(frozenset, list_determined(network, parts)))

    def known(inside: frozenset[str]) -> bool:
        return not inside or inside in contrasts or any(inside <= table for table in tables)

    whole = {names for names in contrasts if all(known(frozenset(inside)) for inside in subsets([tuple(names)]))}
    return tables | whole


def _keep_largest(sets: Collection[frozenset[str]]) -> set[frozenset[str]]:
    """Keep the sets that lie in no other."""
    return {names for names in sets if not any(names < other for other in sets)}


def number_of_records(parts: Sequence[Measurement]) -> tuple[float, float]:
    """An estimate of the number of records, and the standard deviation of its error.

    Args:
        parts: measured of one data set.

    Returns:
        The mean of what each part says, weighted by precision, and its deviation; 0 and 0 of no parts.
    """
    told = [found for found in map(_read_total, parts) if found is not None]
    if not told:
        return 0.0, 0.0
    weights = np.array([1 / max(variance, 1.0) for _, variance in told])
    mean = float(weights @ [number for number, _ in told] / weights.sum())
    return mean, float(weights.sum()) ** -0.5


def _read_total(part: Measurement) -> tuple[float, float] | None:
    """The number of records as a part tells it, and its variance; None where it does not."""
    if part.contrasts and part.scope:
        return None
    if part.weights is not None:
        rows = part.weights.reshape(part.values.size, -1)
        share = np.linalg.lstsq(rows.T, np.ones(rows.shape[1]), rcond=None)[0]
        if not np.allclose(share @ rows, 1):
            return None
        return float(share @ part.values), float(share @ share) * part.variance
    total, variance = float(part.values.sum()), part.values.size * blur(part).variance(())
    if part.sampling is None:
        return total, variance
    # Of a sample, the number also varies with who was in it.
    total /= part.sampling
    return total, variance / part.sampling**2 + max(total, 1.0) * (1 - part.sampling) / part.sampling
