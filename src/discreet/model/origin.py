"""Origin of a network that is not public knowledge: another release chose it from the records."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import printable


@dataclass(frozen=True)
class Learned:
    """Origin and cost of a network that was chosen from the records.

    Args:
        release: id of the release that chose it.
        epsilon: that it spent, as exact text.
        relation: of its guarantee.
        unit: of its guarantee.
        private: False if a simulation chose it, which protects nobody.

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

    def __str__(self) -> str:
        """Write one line, such as for a report."""
        by = f"learned from the records by release {self.release[:8]}"
        if not self.private:
            return f"{by}, a simulation, which protects nobody"
        return printable(f"{by} for epsilon {self.epsilon} ({self.relation}, unit {self.unit})")
