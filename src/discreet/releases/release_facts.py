"""Facts of a release in a few lines, for notebooks and terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from discreet.privacy.guarantee import as_text
from discreet.releases.release_head import domains

if TYPE_CHECKING:
    from discreet.releases.release import Release


def release_facts(release: Release) -> Mapping[str, str]:
    """Facts of a release by name; none comes from a record but the public number of records.

    Args:
        release: of any kind.

    Returns:
        By what is said, in the order in which it is read.
    """
    promise = str(release.guarantee)
    if not release.private:
        promise = f"none: this is a simulation, which protects nobody; a private one would promise {promise}"
    kind = f"{release.mechanism}, over {domains()[release.over.domain].describe(release.over)}"
    spent = f"epsilon {as_text(release.guarantee.epsilon)}"
    spent += f", delta {as_text(release.guarantee.delta)}" if release.guarantee.delta else ""
    facts = {
        "release": f"{release.id} of {release.date.isoformat()}",
        "promise": promise,
        "unit": "; ".join(release.unit_lines) or f"one {release.guarantee.unit}",
        "mechanism": kind,
        "spent": spent if release.private else "nothing",
        "records": "their number is private" if release.records is None else f"{release.records:,}, which is public",
        "holds": release.payload.summary(release.calibration),
    }
    for network in release.networks:
        if network.learned:
            facts["network"] = str(network.learned)
    return facts
