"""What a printed claim is: a number that is claimed, one that is measured, and whether this refutes that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..pages import Check, Estimate, estimate

ROUNDING = 1e-15
"""What a sum of numbers near 1 that should be 0 may come to."""
SANE = 0.05
"""Part of a reference by which a simulated number may miss it and still be said to have come out."""

__all__ = [
    "Claim",
    "Ground",
    "Group",
    "Outcome",
    "Reference",
    "claimed",
    "difference",
    "measured",
    "number",
    "ratio",
]

Quantity = Literal["claimed", "measured", "ratio", "difference"]
Kind = Literal["at most", "at least", "equal", "above"]
SYMBOLS: dict[Kind, str] = {"at most": "≤", "at least": "≥", "equal": "=", "above": ">"}


@dataclass(frozen=True)
class Reference:
    """A number that was found before, by other means, and must come out again.

    Args:
        of: what is claimed, what is measured, the second divided by the first, or less the first.
        value: the number.
        rounding: half a unit of its last digit.
        error: its own standard error, where it was simulated.
    """

    of: Quantity
    value: float
    rounding: float
    error: float = 0.0


def claimed(value: float, rounding: float) -> Reference:
    """A reference for what is claimed."""
    return Reference("claimed", value, rounding)


def measured(value: float, rounding: float, error: float = 0.0) -> Reference:
    """A reference for what is measured, with its own standard error where it was simulated."""
    return Reference("measured", value, rounding, error)


def ratio(value: float, rounding: float) -> Reference:
    """A reference for what is measured divided by what is claimed, where nothing is random."""
    return Reference("ratio", value, rounding)


def difference(value: float, rounding: float) -> Reference:
    """A reference for what is measured less what is claimed."""
    return Reference("difference", value, rounding)


@dataclass(frozen=True, eq=False)
class Ground:
    """How a number follows, how far what it shows reaches, and who else finds it.

    Args:
        derivation: how the measured number comes about, Markdown without pipes.
        constants: for which values of what the paper leaves open the line is so, and for which it is not; how the text
            was read where it can be read otherwise.
        second: gives (claimed, measured) by other means, from the paper's text alone; or why nobody does.
        agrees: by how much the two may differ, relative to the first; of a simulated number four standard errors more.
    """

    derivation: str
    constants: str
    second: Callable[[], tuple[float, float]] | str
    agrees: float = 1e-6


@dataclass(frozen=True, eq=False)
class Claim:
    """A printed claim about one case.

    Args:
        item: paper (Z, W, C, D) and statement.
        printed: what it says, Markdown without pipes.
        case: that is measured, with units.
        kind: how the measured number would have to be to the claimed one.
        measure: gives (claimed, measured); of a random number generator where `repeats` are more than 1.
        references: numbers that must come out.
        repeats: quick and full; (1, 1) where nothing is random.
        label: in the figure; empty for a claim that is not drawn.
        tolerance: relative to the larger of the claimed number and 1, by which a measurement in floating point may err.
        ground: derivation, free constants and second derivation; None for that of its group.
    """

    item: str
    printed: str
    case: str
    kind: Kind
    measure: Callable[..., tuple[float, float]]
    references: tuple[Reference, ...] = ()
    repeats: tuple[int, int] = (1, 1)
    label: str = ""
    tolerance: float = 1e-9
    ground: Ground | None = None

    @property
    def key(self) -> str:
        """Names the claim in the table of rows."""
        return f"{self.item}: {self.case}"

    @property
    def symbol(self) -> str:
        """Before the claimed number."""
        return SYMBOLS[self.kind]

    @property
    def random(self) -> bool:
        """Whether it is simulated."""
        return self.repeats != (1, 1)


@dataclass(frozen=True)
class Outcome:
    """What was claimed and what was found.

    Args:
        claimed: number of the claim.
        measured: number that was found.
        difference: measured less claimed, of the same repeats.
        refuted: whether the measured number contradicts the claim by more than four standard errors.
    """

    claimed: Estimate
    measured: Estimate
    difference: Estimate
    refuted: bool

    @property
    def ratio(self) -> Estimate:
        """Measured divided by claimed, without a standard error; NaN where the claim is 0."""
        return Estimate(self.measured.mean / self.claimed.mean if self.claimed.mean else np.nan)

    def agrees(self, ground: Ground, second: tuple[float, float]) -> bool:
        """Whether another derivation has the same numbers.

        Args:
            ground: with the precision.
            second: (claimed, measured) of it.

        Returns:
            Equal to that precision, and four standard errors of what is simulated here.
        """
        pairs = zip((self.claimed, self.measured), second, strict=True)
        return all(
            each.mean == other or abs(each.mean - other) <= ground.agrees * abs(other) + 4 * each.error + ROUNDING
            for each, other in pairs
        )

    @staticmethod
    def of(claim: Claim, rows: npt.NDArray[np.float64]) -> Outcome:
        """Of all repeats of a claim.

        Args:
            claim: that was measured.
            rows: (claimed, measured), shape (repeats, 2).

        Returns:
            Means, and their standard errors where the claim is simulated.
        """
        printed, found, gap = (_mean(values) for values in (rows[:, 0], rows[:, 1], rows[:, 1] - rows[:, 0]))
        allowed = claim.tolerance * max(1.0, abs(printed.mean)) + 4 * gap.error
        refuted = {
            "at most": gap.mean > allowed,
            "at least": gap.mean < -allowed,
            "equal": abs(gap.mean) > allowed,
            "above": gap.mean <= allowed,
        }[claim.kind]
        return Outcome(printed, found, gap, bool(refuted))

    def checks(self, claim: Claim) -> list[Check]:
        """Whether the references of a claim came out."""
        found = []
        for reference in claim.references:
            seen: Estimate = getattr(self, reference.of)
            what = f"{claim.item}, {claim.case}: {reference.of}"
            wanted = Estimate(reference.value, reference.error)
            sane = max(reference.rounding, SANE * abs(reference.value))
            near = Check.near(what, wanted, seen, rounding=reference.rounding, sane=sane)
            found.append(replace(near, wanted=number(wanted), found=number(seen)))
        return found


@dataclass(frozen=True, eq=False)
class Group:
    """Claims that err, or do not, in one way.

    Args:
        title: of the table.
        about: a sentence under it.
        holds: whether the claims stand as inequalities; None for open questions and readings, which are not counted.
        word: the answer in the table, where it is the expected one; of open questions, always; empty for readings, of
            which the table says whether each fails or stands.
        claims: of the group.
        ground: of the lines that have none of their own; None where each has one.
    """

    title: str
    about: str
    holds: bool | None
    word: str
    claims: Sequence[Claim]
    ground: Ground | None = None

    def ground_of(self, claim: Claim) -> Ground:
        """What a line of the group stands on.

        Args:
            claim: of the group.

        Returns:
            Its own ground, or that of the group.

        Raises:
            ValueError: neither has one.
        """
        ground = claim.ground or self.ground
        if ground is None:
            raise ValueError(f"a ground is missing: {claim.key}")
        return ground


def _mean(values: npt.NDArray[np.float64]) -> Estimate:
    """Mean with its standard error; exact where there is one value, or all are the same."""
    if np.all(values == values[0]):
        return Estimate(float(values[0]))
    return estimate(values)


def number(value: Estimate) -> str:
    """A number of any size with five digits, and its standard error where it has one."""
    shown = f"{value.mean:.5g}"
    return shown if value.error == 0 else f"{shown} ± {value.error:.1g}"
