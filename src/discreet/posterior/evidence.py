"""Measurements of a data set: their noise variances, the sets of variables they cover, and the number of records.

All posteriors over a network use these functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce

import numpy as np

from discreet.errors import InputError
from discreet.inference.interactions import Blur, subsets
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.planning.star_cover import star_noise_variances
from discreet.posterior.pooled.weighted import list_determined
from discreet.releases.combined import Combined
from discreet.releases.external_figures import External
from discreet.releases.measurement import Measurement
from discreet.releases.release import Release


def blur(measurement: Measurement) -> Blur:
    """Return the variances that the noise of a measured table adds to its interactions.

    The result has one variance for all interactions, `measurement.variance`, the noise variance of a cell
    (KNOWN_VARIANCE, 1e-6, for a table without noise). If the table is one of a star, whose noise is drawn jointly, the
    interactions of variables that all the star's tables share have another variance (`star_noise_variances`).
    """
    if measurement.star is None:
        return Blur(measurement.variance)
    blurs = star_noise_variances(measurement.star.shared, measurement.star.lengths, measurement.star.scale)
    return blurs[measurement.star.scopes.index(measurement.scope)]


def measurements(releases: Iterable[Release | External]) -> tuple[Measurement, ...]:
    """List the measurements of releases and external tables, in their order.

    Args:
        releases: releases over a network, on one data set.

    Returns:
        Tables, contrasts and weighted sums with their noise; releases of other payloads contribute nothing. Empty if
        there are none.
    """
    return tuple(measurement for release in releases for measurement in release.measurements)


def measured_pairs(evidence: Combined) -> tuple[Scope, ...]:
    """List the sets of variables that a second stage measured because no table of the first contains them.

    Args:
        evidence: evidence over a network.

    Returns:
        Each set once, in the order of data sets and releases, variables in the order of the table's axes; empty without
        a second stage.
    """
    measured = (datum for releases in evidence.data_sets for datum in measurements(releases))
    return tuple(dict.fromkeys(datum.scope for datum in measured if datum.selection))


def measured_sets(evidence: Combined, *, pairs: bool = True) -> tuple[frozenset[str], ...]:
    """List the largest sets of variables that were measured together on every data set.

    A data set measures a set by a table that contains it, or by contrasts or weighted sums that determine all of its
    subsets. For several data sets the sets are intersections.

    Args:
        evidence: evidence over a network.
        pairs: whether measurements of a second stage are included.

    Returns:
        Sets of which none contains another, larger ones first, equal sizes by their names. The empty set is the
        only one if the data sets have no variable in common, or measured their number of records alone. Empty if a data
        set has no table, contrasts or determining sums.
    """
    by_data_set = [
        [datum for datum in measurements(parts) if pairs or not datum.selection] for parts in evidence.data_sets
    ]
    largest = [_keep_largest(_list_identified_sets(evidence.network, measured)) for measured in by_data_set]
    both = reduce(lambda some, more: _keep_largest({first & second for first in some for second in more}), largest)
    ordered = evidence.network.ordered
    return tuple(sorted(both, key=lambda names: (-len(names), ordered(names))))


def measured_anywhere(evidence: Combined, *, in_part: bool) -> tuple[frozenset[str], ...]:
    """List the largest sets of variables that were measured together on some data set.

    Args:
        evidence: evidence over a network.
        in_part: whether to include the scopes of all weighted sums, also of those that do not determine the law of
            their variables.

    Returns:
        Sets of which none contains another, sorted by their names, those of a second stage included; empty if nothing
        was measured.
    """
    by_data_set = [measurements(releases) for releases in evidence.data_sets]
    sets = {names for measured in by_data_set for names in _list_identified_sets(evidence.network, measured)}
    if in_part:
        sets |= {frozenset(datum.scope) for measured in by_data_set for datum in measured if datum.weights is not None}
    return tuple(sorted(_keep_largest(sets), key=evidence.network.ordered))


def misfit(measured: Sequence[Measurement], names: Scope) -> float:
    """Compute the chi-square distance of a pair's table from independence, with the noise in the variance of a cell.

    Args:
        measured: tables, contrasts and weighted sums of one data set.
        names: names of the variables, in any order.

    Returns:
        The sum over cells of (count - expected)^2 / (expected + noise variance): about `(rows - 1) (columns - 1)` for
        independent variables. Row and column sums and the total are floored at one record. 0 if the names are not a
        pair, or no table is over exactly this pair; of several the first is used.
    """
    table = next((datum for datum in measured if datum.table and set(datum.scope) == set(names)), None)
    if table is None or len(names) != 2:
        return 0.0
    cells = np.asarray(table.values, np.float64)
    rows, columns = (np.maximum(cells.sum(axis=axis, keepdims=True), 1.0) for axis in (1, 0))
    expected = rows * columns / max(float(cells.sum()), 1.0)
    return float((np.square(cells - expected) / (expected + blur(table).variance(table.scope))).sum())


def check_total(evidence: Combined) -> None:
    """Refuse a data set whose measurements do not determine the number of records.

    A public number, any table, contrasts over no variables, or weighted sums that determine the number suffice; a data
    set without measurements passes.

    Args:
        evidence: evidence over a network.

    Raises:
        InputError: a data set of weighted sums or contrasts alone, which do not determine the number.
    """
    for releases, records in zip(evidence.data_sets, evidence.records, strict=True):
        measured = measurements(releases)
        if (
            not measured
            or records is not None
            or any(datum.table or (datum.contrasts and not datum.scope) for datum in measured)
        ):
            continue
        if () not in list_determined(evidence.network, measured):
            raise InputError(
                "weighted sums alone do not tell the number of records: add a table of the same records, or their "
                "number as a table over no variables (from the shell a file of cells whose header is `count`)"
            )


def _list_identified_sets(network: Network, measured: Sequence[Measurement]) -> set[frozenset[str]]:
    """List sets of which every subset was measured: by a table, by its contrasts, or by sums that determine it.

    Args:
        network: network over the variables.
        measured: tables, contrasts and weighted sums of one data set.

    Returns:
        Scopes of tables, and scopes of contrasts and of determined interactions all of whose subsets with at least one
        variable are known; also those inside larger ones, without the subsets of tables.
    """
    tables = {frozenset(datum.scope) for datum in measured if datum.table}
    contrasts = {frozenset(datum.scope) for datum in measured if datum.contrasts}
    contrasts |= set(map(frozenset, list_determined(network, measured)))

    def known(inside: frozenset[str]) -> bool:
        """True if a set is empty, has contrasts or a determined interaction, or lies in a table."""
        return not inside or inside in contrasts or any(inside <= table for table in tables)

    whole = {names for names in contrasts if all(known(frozenset(inside)) for inside in subsets([tuple(names)]))}
    return tables | whole


def _keep_largest(sets: Collection[frozenset[str]]) -> set[frozenset[str]]:
    """Return the sets that are proper subsets of no other."""
    return {names for names in sets if not any(names < larger for larger in sets)}


def number_of_records(measured: Sequence[Measurement]) -> tuple[float, float]:
    """Estimate the number of records by the mean over measurements, weighted by precision.

    Args:
        measured: tables, contrasts and weighted sums of one data set.

    Returns:
        (estimate, standard deviation of its error), in records; the variance of each measurement's total is floored at
        1. (0, 0) if no measurement determines the number.
    """
    totals = [total for total in map(_estimate_total, measured) if total is not None]
    if not totals:
        return 0.0, 0.0
    weights = np.array([1 / max(variance, 1.0) for _, variance in totals])
    mean = float(weights @ [number for number, _ in totals] / weights.sum())
    return mean, float(weights.sum()) ** -0.5


def _estimate_total(measurement: Measurement) -> tuple[float, float] | None:
    """Estimate the number of records from one measurement.

    A table's cells are summed, and the variance is the number of cells times the noise variance of a cell in the total
    (`blur`). If the table is of a Poisson sample, the sum is divided by the sampling rate q and the variance by q^2,
    and the sampling variation `max(n, 1) (1 - q) / q` is added, n being the estimate. Of weighted sums the linear
    combination that counts every cell once is taken, if there is one, with the least sum of squared coefficients; its
    variance is that sum times the variance of one sum, and no rate divides it. Contrasts over no variable are a table
    of one cell.

    Args:
        measurement: table, contrasts or weighted sums.

    Returns:
        (estimate, variance of its error), in records; None for contrasts over some variable, and for sums without such
        a combination.
    """
    if measurement.contrasts and measurement.scope:
        return None
    if measurement.weights is not None:
        # A linear combination of the sums with coefficient 1 in every cell, if there is one, counts all records.
        rows = measurement.weights.reshape(measurement.values.size, -1)
        share = np.linalg.lstsq(rows.T, np.ones(rows.shape[1]), rcond=None)[0]
        if not np.allclose(share @ rows, 1):
            return None
        return float(share @ measurement.values), float(share @ share) * measurement.variance
    total, variance = float(measurement.values.sum()), measurement.values.size * blur(measurement).variance(())
    sampling = measurement.sampling
    if sampling is None:
        return total, variance
    # Poisson sample at rate q: total / q has the additional binomial variance n (1 - q) / q.
    total /= sampling
    return total, variance / sampling**2 + max(total, 1.0) * (1 - sampling) / sampling
