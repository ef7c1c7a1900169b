"""Accuracy plan: the budget for a wanted accuracy, and interval widths over budgets and numbers of records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from discreet.accuracy.width_curves import LEAST_NOISE
from discreet.display.charts import line_chart
from discreet.display.renderers import Picture, TextTable
from discreet.errors import InputError, shown
from discreet.privacy.guarantee import Guarantee, as_text
from discreet.util.tabular import Block, Result

LOWEST_EPSILON, HIGHEST_EPSILON = 0.01, 100.0
"""Range of budgets searched: below it a release says next to nothing, above it noise is less than a record."""
FIRST_EPSILON = 1.0
"""Budget at which the search begins."""
NORMAL_ERROR = math.sqrt(2 / math.pi) / 1.959964
"""Expected absolute error over the half-width of a 95 % interval, where errors are normal."""
BISECTIONS = 40
RECORD_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Multiples of the stated number of records that a plan tabulates."""
BUDGET_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Multiples of the stated budget that a plan tabulates."""


@dataclass(frozen=True)
class PlannedWidth:
    """Expected width of one query's interval as a function of the budget of the release.

    Args:
        query: as text.
        epsilons: rising.
        widths: expected half-width at each of them, of the widest of the question's rows.
        sampling: half-width without any noise: what so many records tell, and what bins leave open.
        largest: half-width that no interval exceeds: 0.5 of probabilities.
        spread: factors of the half-width between which eight in ten releases lie, were their logarithms normal; where
            probabilities are not known, eight in ten releases about networks of other probabilities.
        error: expected distance of the answer from the truth, as a share of the half-width.
        uncertainty: relative standard error of the half-widths near the wanted budget: few releases were simulated.
        binned: whether bins, or leaves of a ruler, leave a part of `sampling` open, which no number of records narrows.

    Raises:
        Nothing: `plan_accuracy` makes these.

    Example:
        >>> known = PlannedWidth("P(ill)", (1.0, 2.0), (0.05, 0.04), 0.03)
        >>> round(known.at(1.0), 3), round(known.noise(1.0), 3), round(known.at(1.0, records=4), 4)
        (0.05, 0.04, 0.02)
    """

    query: str
    epsilons: tuple[float, ...]
    widths: tuple[float, ...]
    sampling: float
    largest: float = 0.5
    spread: tuple[float, float] = (1.0, 1.0)
    error: float = NORMAL_ERROR
    uncertainty: float = 0.0
    binned: bool = False

    def at(self, epsilon: float, *, records: float = 1.0) -> float:
        """The expected half-width at any budget, and for any number of records.

        Args:
            epsilon: greater than 0.
            records: factor of the number of records that was planned for. Noise in records does not depend on their
                number, so that as many more records are worth as much more budget; sampling falls with their root, but
                for what bins leave open.

        Returns:
            The half-width.
        """
        sampling = self.sampling if self.binned else self.sampling / math.sqrt(records)
        return min(self.largest, math.hypot(sampling, self.noise(epsilon * records)))

    def noise(self, epsilon: float) -> float:
        """Noise part of the half-width: half-width^2 = noise^2 + sampling^2.

        Args:
            epsilon: greater than 0.

        Returns:
            The part.
        """
        noises = [math.sqrt(max(width**2 - self.sampling**2, (LEAST_NOISE * width) ** 2)) for width in self.widths]
        known, at = np.log(self.epsilons), math.log(epsilon)
        inside = float(np.interp(at, known, np.log(noises)))
        # Log-log interpolation; outside the simulated budgets noise is proportional to 1 / epsilon.
        return math.exp(inside - (at - min(max(at, known[0]), known[-1])))

    def needed(self, within: float) -> float:
        """Smallest budget at which the interval is as narrow as wanted.

        Args:
            within: half-width.

        Returns:
            Epsilon; infinite where sampling alone is wider, or a budget of 100 does not buy it.
        """
        low, high = math.log(LOWEST_EPSILON), math.log(HIGHEST_EPSILON)
        if self.sampling >= within or self.at(HIGHEST_EPSILON) > within:
            return math.inf
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(math.exp(middle)) <= within else (middle, high)
        return math.exp(high)


class PlanRow(TypedDict):
    """a question needs, and the parts of its half-width at the stated budget; see `AccuracyPlan.rows`."""

    query: str
    epsilon: float | None
    half_width: float
    uncertainty: float
    sampling: float
    noise: float
    low: float
    high: float
    error: float


@dataclass(frozen=True)
class AccuracyPlan(Result):
    """Budget for a wanted accuracy, and expected interval widths at others.

    Args:
        mechanism: its name.
        guarantee: with the smallest epsilon of two digits at which all questions are answered as narrowly as wanted;
            None where there is none. The one that was stated where no half-width is wanted.
        within: the wanted half-width; None where none is.
        records: number of records that was planned for.
        questions: in their order.
        refused: why there is no guarantee; None where there is one.
        over_networks: whether probabilities are unknown, so that widths spread over networks, and not over releases of
            one.

    Raises:
        Nothing: `plan_accuracy` makes it.

    Example:
        >>> import discreet as dc
        >>> from discreet.accuracy.accuracy_plan import PlannedWidth
        >>> wide = PlannedWidth("P(ill)", (1.0, 2.0), (0.05, 0.04), 0.03)
        >>> plan = dc.results.AccuracyPlan("planned", None, 0.02, 1000, (wide,), "sampling alone is wider")
        >>> plan.rows()[0]["sampling"]
        0.03
    """

    mechanism: str
    guarantee: Guarantee | None
    within: float | None
    records: int
    questions: tuple[PlannedWidth, ...]
    refused: str | None = None
    over_networks: bool = False

    @property
    def epsilon(self) -> float:
        """Budget of the listed half-widths: the stated one, or 1 without one."""
        return FIRST_EPSILON if self.guarantee is None else float(self.guarantee.epsilon)

    def rows(self) -> list[PlanRow]:
        """List the queries with the budget that each needs, and the parts of its half-width at the stated one.

        Returns:
            For each question "query", "epsilon" (None where none is enough, or none was sought), "half_width", its
            relative standard error "uncertainty", "sampling", "noise", "low" and "high", between which the half-widths
            of eight in ten releases lie, and "error", the expected absolute error of the answer.
        """
        needed = [math.inf if self.within is None else width.needed(self.within) for width in self.questions]
        return [
            {
                "query": width.query,
                "epsilon": epsilon if math.isfinite(epsilon) else None,
                "half_width": width.at(self.epsilon),
                "uncertainty": width.uncertainty,
                "sampling": width.sampling,
                "noise": width.noise(self.epsilon),
                "low": width.spread[0] * width.at(self.epsilon),
                "high": min(width.largest, width.spread[1] * width.at(self.epsilon)),
                "error": width.error * width.at(self.epsilon),
            }
            for width, epsilon in zip(self.questions, needed, strict=True)
        ]

    def tidy(self) -> list[dict[str, Any]]:
        """The rows of `rows`."""
        return [dict(row) for row in self.rows()]

    def content(self) -> Iterator[str | Block]:
        """Show epsilon, the queries with the parts of their half-widths, and half-widths at other budgets."""
        epsilon = "" if self.guarantee is None else f"epsilon {as_text(self.guarantee.epsilon)}"
        yield from (f"{self.mechanism}: {self.refused or epsilon}", Picture(self.to_svg), "", self.widths_table())
        measure = "half-width" if len(self.questions) == 1 else "widest half-width"
        yield from ("", f"{measure} by records and epsilon", self._list_widths())
        if self.over_networks:
            yield from ("", "the network has no probabilities: those of several random ones were taken")

    def widths_table(self) -> TextTable:
        """Each query's budget, half-width with its parts, and expected error."""
        sought = self.within is not None
        rows = [
            (
                row["query"],
                *(["none" if row["epsilon"] is None else f"{row['epsilon']:.3g}"] if sought else []),
                f"{row['half_width']:.3g}",
                f"{row['uncertainty']:.0%}",
                f"{row['sampling']:.3g}",
                f"{row['noise']:.3g}",
                f"{row['low']:.3g} to {row['high']:.3g}",
                f"{row['error']:.3g}",
            )
            for row in self.rows()
        ]
        spread = "8 in 10 random networks" if self.over_networks else "8 in 10 releases"
        sampling = "sampling, bins" if any(width.binned for width in self.questions) else "sampling"
        widths = (f"half-width at {self.epsilon:g}", "+-", sampling, "noise", spread, "error")
        return TextTable(("question", *(["needs epsilon"] if sought else []), *widths), rows)

    def _list_widths(self) -> TextTable:
        """List half-widths by budget and number of records; of several queries the widest."""
        widest = dict[tuple[int, float], float]()
        for row in self.table():
            at = row["records"], row["epsilon"]
            widest[at] = max(widest.get(at, 0.0), row["half_width"])
        numbers, budgets = (sorted(set(ends)) for ends in zip(*widest, strict=True))
        lines = [[f"{number:,}", *(f"{widest[number, budget]:.3g}" for budget in budgets)] for number in numbers]
        return TextTable(("records", *(f"{epsilon:.3g}" for epsilon in budgets)), lines)

    def table(self) -> list[dict[str, Any]]:
        """Half-widths at other budgets and for other numbers of records.

        Returns:
            Rows of "query", "records", "epsilon" and "half_width".
        """
        return [
            {
                "query": width.query,
                "records": round(self.records * factor),
                "epsilon": self.epsilon * times,
                "half_width": width.at(self.epsilon * times, records=factor),
            }
            for width in self.questions
            for factor in RECORD_FACTORS
            for times in BUDGET_FACTORS
        ]

    def to_svg(self, *, against: str = "epsilon") -> str:
        """Draw the half-widths.

        Args:
            against: "epsilon", for the stated number of records; or "records", at the stated budget.

        Returns:
            SVG.

        Raises:
            InputError: something else to draw it against.
        """
        if against not in ("epsilon", "records"):
            raise InputError(f"a picture is against epsilon or records, not {shown(against)}")
        budgets = against == "epsilon"
        lines = {
            width.query: [(self.epsilon * times, width.at(self.epsilon * times)) for times in BUDGET_FACTORS]
            if budgets
            else [(self.records * times, width.at(self.epsilon, records=times)) for times in RECORD_FACTORS]
            for width in self.questions
        }
        fixed = f"{self.records:,} records" if budgets else f"epsilon {self.epsilon:g}"
        return line_chart(
            lines,
            title=f"Expected half-width of 95 % intervals, {fixed}",
            x_label="epsilon" if budgets else "records",
            y_label="half-width",
            wanted=self.within,
        )
