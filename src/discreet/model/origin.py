"""Where a network comes from, if it is not public knowledge: another release chose it by the records themselves."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import printable


@dataclass(frozen=True)
class Learned:
    """Where a network that was chosen by the records comes from, and what that cost beside all else.

    Args:
        release: id of the release that chose it.
        epsilon: that it spent, as exact text.
        relation: of its guarantee.
        unit: of its guarantee.
        private: False where a simulation chose it, which protects nobody.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> print(dc.results.Learned("0f" * 16, "1", "replace", "person", private=True))
        learned from the records by release 0f0f0f0f for epsilon 1 (replace, unit person)
    """

    release: str
    epsilon: str
    relation: str
    unit: str
    private: bool

    def __str__(self) -> str:
        """One line, such as for a report."""
        by = f"learned from the records by release {self.release[:8]}"
        if not self.private:
            return f"{by}, a simulation, which protects nobody"
        return printable(f"{by} for epsilon {self.epsilon} ({self.relation}, unit {self.unit})")
