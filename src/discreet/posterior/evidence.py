"""What releases on one data set measured, how far off it is, and what it says of the number of records.

Read by every posterior.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import reduce

import numpy as np

from discreet.inference.interactions import Blur, subsets
from discreet.model.schema import Scope
from discreet.releases.combined import Combined
from discreet.releases.kinds.audited_tables import AuditNoise
from discreet.releases.measurement import Measurement
from discreet.releases.release import Release
from discreet.theory.stars import star_blurs

__all__ = ["audited_sets", "blur", "choice_scales", "measured_sets", "measurements", "number_of_records"]


def blur(part: Measurement) -> Blur:
    """What the noise of a measured table does to it."""
    if part.star is None or part.scale is None:
        return Blur(part.variance)
    found = star_blurs(part.star.shared, part.star.lengths, part.scale)
    return found[part.star.scopes.index(part.scope)]


def measurements(releases: Iterable[Release]) -> tuple[Measurement, ...]:
    """All that releases measured of the records, in their order.

    Args:
        releases: over a network, on one data set.

    Returns:
        Tables and contrasts with their noise; nothing of releases of something else.
    """
    return tuple(part for release in releases for part in release.network_payload.measurements)


def audited_sets(evidence: Combined) -> tuple[Scope, ...]:
    """Sets of variables that a second stage measured because no table of the first holds them.

    Args:
        evidence: over a network.

    Returns:
        Each once, in the order of the releases.
    """
    parts = (part for releases in evidence.data_sets for part in measurements(releases))
    return tuple(dict.fromkeys(part.scope for part in parts if part.audit))


def choice_scales(evidence: Combined) -> dict[Scope, float]:
    """Of the pairs that a second stage chose by their misfit, the scale of the noise in that choice, records."""
    found = dict[Scope, float]()
    for release in (release for releases in evidence.data_sets for release in releases):
        if isinstance(release.calibration, AuditNoise):
            chosen = [part.scope for part in measurements([release]) if part.audit == "chosen"]
            found |= {scope: float(release.calibration.choice_scale(len(chosen))) for scope in chosen}
    return found


def measured_sets(evidence: Combined, *, audits: bool = True) -> tuple[frozenset[str], ...]:
    """The largest sets of variables that were measured together, on every data set.

    Args:
        evidence: over a network.
        audits: whether those count that a second stage measured.

    Returns:
        Sets of which none holds another, larger ones first; none where no table or contrast was measured.
    """
    parts = [[part for part in measurements(releases) if audits or not part.audit] for releases in evidence.data_sets]
    told = [_largest(_told(listed)) for listed in parts]
    both = reduce(lambda some, more: _largest({one & other for one in some for other in more}), told)
    place = evidence.network.ordered
    return tuple(sorted(both, key=lambda names: (-len(names), place(names))))


def _told(parts: Iterable[Measurement]) -> set[frozenset[str]]:
    """Sets whose every subset was measured, by a table or by contrasts of its own."""
    listed = list(parts)
    tables = {frozenset(part.scope) for part in listed if not part.contrasts}
    contrasts = {frozenset(part.scope) for part in listed if part.contrasts}

    def known(inside: frozenset[str]) -> bool:
        return not inside or inside in contrasts or any(inside <= table for table in tables)

    whole = {names for names in contrasts if all(known(frozenset(inside)) for inside in subsets([tuple(names)]))}
    return tables | whole


def _largest(sets: Collection[frozenset[str]]) -> set[frozenset[str]]:
    """Those that lie in no other."""
    return {names for names in sets if not any(names < other for other in sets)}


def number_of_records(parts: Sequence[Measurement]) -> tuple[float, float]:
    """An estimate of the number of records, and the standard deviation of its error.

    Args:
        parts: measured of one data set.

    Returns:
        The mean of what each part says, weighted by precision, and its deviation; 0 and 0 of no parts.
    """
    told = [_total(part) for part in parts if not (part.contrasts and part.scope)]
    if not told:
        return 0.0, 0.0
    weights = np.array([1 / max(variance, 1.0) for _, variance in told])
    mean = float(weights @ [number for number, _ in told] / weights.sum())
    return mean, float(weights.sum()) ** -0.5


def _total(part: Measurement) -> tuple[float, float]:
    """The sum of a table as an estimate of the number of records, and its variance."""
    total, variance = float(part.values.sum()), part.values.size * blur(part).variance(())
    if part.sampling is None:
        return total, variance
    # Of a sample, the number also varies with who was in it.
    total /= part.sampling
    return total, variance / part.sampling**2 + max(total, 1.0) * (1 - part.sampling) / part.sampling
