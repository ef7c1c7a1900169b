"""Origin of a network that is not public knowledge: another release chose it, or its states, from the records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from discreet.errors import printable


@dataclass(frozen=True)
class Learned:
    """Origin and cost of a network, or of its domain, that was found in the records.

    Args:
        release: id of the release that chose it.
        epsilon: that it spent, as exact text.
        relation: of its guarantee.
        unit: of its guarantee.
        private: False if a simulation chose it, which protects nobody.
        what: "arcs" of the network, or its "domain": states, bounds and bins.
        delta: that it spent, as exact text.
        domain: origin of the states, bounds and bins of arcs that were chosen over a found domain.

    Raises:
        Nothing.

    Example:
        >>> print(Learned("0f" * 16, "1", "replace", "person", private=True))
        learned from the records by release 0f0f0f0f for epsilon 1 (replace, unit person)
    """

    release: str
    epsilon: str
    relation: str
    unit: str
    private: bool
    what: Literal["arcs", "domain"] = "arcs"
    delta: str = "0"
    domain: Learned | None = None

    def __str__(self) -> str:
        """Write one line, such as for a report."""
        verb = "learned" if self.what == "arcs" else "states, bounds and bins found"
        by = f"{verb} {'from' if self.what == 'arcs' else 'in'} the records by release {self.release[:8]}"
        before = "" if self.domain is None else f"; {self.domain}"
        if not self.private:
            return f"{by}, a simulation, which protects nobody{before}"
        delta = "" if self.delta == "0" else f", delta {self.delta}"
        return printable(f"{by} for epsilon {self.epsilon}{delta} ({self.relation}, unit {self.unit})") + before

    def document(self) -> dict[str, Any]:
        """Write it as JSON values; what arcs of a public domain have not is left out."""
        bare = asdict(Learned(self.release, self.epsilon, self.relation, self.unit, self.private))
        values = {name: value for name, value in vars(self).items() if name in asdict(self) and name != "domain"}
        short = {name: value for name, value in values.items() if name not in ("what", "delta") or value != bare[name]}
        return short | ({} if self.domain is None else {"domain": self.domain.document()})
