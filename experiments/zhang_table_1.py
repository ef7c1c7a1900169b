"""Table 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016): every bound in it against what is measured, and ours.

The table lists privacy and utility of four mechanisms. Here each printed bound stands beside the quantity it bounds,
simulated or integrated (`zhang_bounds`), and beside a bound that holds. Where a bound has no constant (the utility of
the sampler) there is nothing to measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from discreet.theory.bounds import fourier_deviation, largest_noise, mean_divergence
from discreet.theory.lipschitz import log_range

from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import grid, log_axis, style
from .zhang_bounds import (
    BAYES,
    BIT,
    COMPLETE,
    EMPTY,
    EPSILONS,
    FAILURE,
    FLOORS,
    NINE,
    PARTS,
    RECORDS,
    SHIFTS,
    UNTRIMMED,
    VERTEX,
    laplace_scale,
)
from .zhang_naive_bayes import NETWORK

__all__ = ["EXPERIMENT", "Line", "lines"]


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Each part of the table; what is exact once."""
    repeats = 40 if quick else 400
    return [({"part": part}, 1 if part == "exact" else repeats) for part in PARTS]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """One part of the table."""
    yield from PARTS[task.setting["part"]](task)


# ------------------------------------------------------------------------------------------ the table


@dataclass(frozen=True)
class Line:
    """A printed bound, what it bounds, and a bound that holds.

    Args:
        row: of the paper's table.
        claim: the statement.
        setting: it is tried in.
        printed: the bound.
        measured: must not exceed it.
        ours: a bound that holds; None where there is none.
        chance: whether what is bounded is a probability, of which a bound of 1 or more says nothing.
    """

    row: str
    claim: str
    setting: str
    printed: float
    measured: Estimate
    ours: float | None = None
    chance: bool = False

    @property
    def judged(self) -> str:
        """FALSE where the measurement is above the printed bound by more than four standard errors."""
        if self.measured.mean - 4 * self.measured.error > self.printed * (1 + 1e-9):
            return "FALSE"
        return "says nothing" if self.chance and self.printed >= 1 else "holds"


Found = Callable[[str, float, str], Estimate]
"""From case, x and metric to the mean."""


def means_of(frame: pd.DataFrame) -> Found:
    """Means of the rows of one seed set; what was computed once is exact."""
    groups = frame.groupby(["case", "x", "metric"])["value"]
    means = {key: estimate(values) if len(values) > 1 else Estimate(values.iloc[0]) for key, values in groups}
    return lambda case, x, metric: means[case, x, metric]


def lines(found: Found) -> list[Line]:
    """Every printed bound, in the order of the paper's table.

    Args:
        found: as `means_of` has it.
    """
    return [*_laplace_lines(found), *_fourier_lines(found), *_sampler_lines(found), *_map_lines(found)]


def _laplace_lines(found: Found) -> list[Line]:
    """Theorem 1 and Proposition 1."""

    def line(claim: str, case: str, epsilon: float, metric: str, printed: str, ours: float | None = None) -> Line:
        setting = f"{case}, epsilon {epsilon:g}"
        return Line("Laplace", claim, setting, found(case, epsilon, printed).mean, found(case, epsilon, metric), ours)

    small, large = (found(BIT, epsilon, "mean loss") for epsilon in (1e-4, 1.0))
    growth = Estimate(small.mean / large.mean, small.error / large.mean)
    summary, about = math.expm1(-0.05) / math.expm1(-500), f"mean loss at epsilon 1e-4 over that at 1; {BIT}"
    exceeded, scale = found(BIT, 1e-4, "beyond printed allowance"), laplace_scale(NETWORK, 1.0)
    tail, cells = f"P(loss >= mean + allowance); {BIT}, epsilon 1e-4", "largest noise of 66 cells, epsilon 1"
    largest, ours = found("66 cells", 1.0, "largest noise quantile"), largest_noise(66, scale, 0.1)
    return [
        Line("Laplace", "Theorem 1, tail", tail, FAILURE, exceeded),
        *(line("Theorem 1, mean", case, 1.0, "mean loss", "printed mean") for case in (BIT, EMPTY)),
        *(line("Theorem 1, refined mean", c, 1.0, "mean loss", "printed refined mean") for c in (BIT, BAYES)),
        Line("Laplace", "Theorem 1, summary", about, summary, growth),
        *(
            line("Theorem 1, 99 % quantile", c, 1.0, "loss quantile", "printed bound", found(c, 1.0, "our bound").mean)
            for c in (BIT, BAYES)
        ),
        Line("Laplace", "Proposition 1, 90 % quantile", cells, scale * math.log(66 / 0.1), largest, ours),
    ]


def _fourier_lines(found: Found) -> list[Line]:
    """Theorem 3 and Corollary 3."""
    tables, negative = [], []
    for t in (0.0, 1.0):
        bound, worst = fourier_deviation(NETWORK, 1.0, t, 0.1)["x1"], found("worst table", t, "L1 error quantile")
        setting = f"largest L1 error of 16 tables of naive Bayes, epsilon 1, t = {t:g}"
        tables.append(Line("Fourier", "Theorem 3, 90 % quantile", setting, bound, worst))
    for case, t in ((NINE, 0.3), (NINE, 1.0), (COMPLETE, 0.1), (COMPLETE, 0.5), (BAYES, 0.1), (BAYES, 1.0)):
        setting, seen = f"P(a cell is negative), t = {t:g}; {case}", found(case, t, "negative")
        negative.append(Line("Fourier", "Corollary 3", setting, math.exp(-t), seen, chance=True))
    return [*tables, *negative]


def _sampler_lines(found: Found) -> list[Line]:
    """Privacy of a draw, trimmed at 0.1 or untrimmed."""
    exact, bound = 2 * log_range(2, 0.1), 2 * math.log(10)
    one, five = (found(case, 1000, "loss of sampler") for case in ("one bit replaced", "record of 5 bits replaced"))
    delta, printed = (found(UNTRIMMED, 50, metric) for metric in ("exact delta", "printed delta"))
    return [
        Line("Sampler", "(2L, 0)", "one bit, L its exact range, w = 0.1, 1,000 records", exact, one, exact),
        Line("Sampler", "(2L, 0)", "one of 5 bits replaced, L = ln(1 / w)", bound, one, exact),
        Line("Sampler", "(2L, 0) for records", "all of 5 bits replaced, L = ln(1 / w)", bound, five, 5 * exact),
        Line("Sampler", "(0, sqrt(M / 2))", f"{UNTRIMMED}, 50 records", printed.mean, delta, chance=True),
    ]


def _map_lines(found: Found) -> list[Line]:
    """Corollary 4 and Lemma 4."""
    losses = [
        Line("MAP", "epsilon", f"epsilon 1, coin, w = {w}, {n:,} records", 1.0, found(f"w = {w}", n, "loss of MAP"))
        for w, n in ((0.1, 500), (0.01, 500), (0.01, 5000))
    ]
    misses = []
    for epsilon, t in ((5.0, 1.0), (20.0, 0.5)):
        case = f"epsilon {epsilon:g}"
        printed, ours = (found(case, t, f"{whose} chance to miss").mean for whose in ("printed", "our"))
        setting = f"P(miss by 2t), {case}, t = {t:g}; coin, w = 0.01, 10 of 50"
        misses.append(Line("MAP", "Lemma 4", setting, printed, found(case, t, "missed"), ours, chance=True))
    return [*losses, *misses]


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """The table and what it is a function of."""
    found, repeats = means_of(frame), frame["repeat"].nunique()
    table = lines(found)
    caption = (
        "Loss of Algorithm 1 for one bit with 500 ones of 1,000 records against epsilon; chance of a negative cell of "
        "an empty table against t; exact loss of one draw trimmed at 0.1, and of the printed MAP mechanism at epsilon "
        "1, against the number of records. Printed bounds: dashed, squares; ours: dotted, diamonds. Bars: two standard "
        "errors."
    )
    header = ["row", "claim", "setting", "printed", "measured", "a bound that holds", "printed bound"]
    rows = []
    for each in table:
        ours = "-" if each.ours is None else _number(each.ours)
        row = [each.row, each.claim, each.setting, _number(each.printed), _text(each.measured), ours, each.judged]
        rows.append(row)
    return Page(
        _verdict(table),
        [Illustration("bounds", _figure(frame), caption)],
        [("Losses in nats, noise and errors in records.", markdown(header, rows))],
        [*_simulated(found, repeats), *_integrated(found), *_ours(table, found)],
        "The utility of the sampler is printed without a constant, so there is nothing to measure. Measurements "
        "without ± are integrals.",
    )


def _number(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


def _text(value: Estimate) -> str:
    """The same with its error, where there is one."""
    return _number(value.mean) + (f" ± {value.error:.1g}" if value.error > 0 else "")


def _verdict(table: Sequence[Line]) -> str:
    """One sentence, as the rows have it."""
    by = {word: [each for each in table if each.judged == word] for word in ("holds", "says nothing", "FALSE")}
    names = {word: "; ".join(dict.fromkeys(f"{each.row}: {each.claim}" for each in by[word])) for word in by}
    if not by["FALSE"]:
        return f"Reproduced: none of the printed bounds is exceeded in {len(table)} settings."
    said = f"for {len(by['says nothing'])} the bound says nothing ({names['says nothing'] or 'none'})"
    return (
        f"Not reproduced: in {len(by['FALSE'])} of {len(table)} settings the printed bound is exceeded "
        f"({names['FALSE']}), {said}, and in {len(by['holds'])} it holds."
    )


# ------------------------------------------------------------------------------------------ checks


def _near(what: str, value: float, ours: Estimate | float, rounding: float, unit: float = 1.0) -> Check:
    """A reference value, in a unit in which it has digits before the point."""
    given = ours if isinstance(ours, Estimate) else Estimate(ours)
    scaled = Estimate(given.mean / unit, given.error / unit)
    return Check.near(what, Estimate(value), scaled, rounding=rounding, digits=4)


def _quantile(what: str, value: float, ours: Estimate, repeats: int) -> Check:
    """A reference that was simulated with a few thousand draws: it has the error of one repeat, which has as many."""
    return Check.near(what, Estimate(value, ours.error * math.sqrt(repeats)), ours, rounding=0.5, digits=1)


def _simulated(found: Found, repeats: int) -> list[Check]:
    """Simulations against reference values."""
    second, kl = found("row of 1,000", 25.0, "mean KL of probabilities"), found(BIT, 1.0, "mean loss")
    tail, error = found(BIT, 1e-4, "beyond printed allowance"), "L1 error quantile"
    return [
        _near("Theorem 1: share beyond the allowance of 0.01", 0.48, tail, 0.005),
        _near("Theorem 1: mean loss of a bit, 1e-3", 8.0, kl, 0.05, 1e-3),
        _near("second-order mean of KL, 1e-5", 9.2, second, 0.05, 1e-5),
        _quantile("Theorem 3: worst table, t = 1", 4732, found("worst table", 1.0, error), repeats),
        _quantile("Theorem 3: one table without shift", 255, found("one table", 0.0, error), repeats),
        _quantile("Algorithm 1: one table", 226, found("one table of noisy counts", 0.0, error), repeats),
    ]


def _integrated(found: Found) -> list[Check]:
    """Formulas and integrals against reference values."""
    missed = "printed chance to miss"
    second = float(mean_divergence([0.2, 0.3, 0.5], 1000, 25))
    return [
        _near("Theorem 1: refined mean, 1e-214", 5, found(BIT, 1.0, "printed refined mean").mean, 0.5, 1e-214),
        _near("second-order mean by formula, 1e-5", 9.17, second, 0.005, 1e-5),
        _near("Theorem 3: bound, t = 1", 6209, fourier_deviation(NETWORK, 1.0, 1.0, 0.1)["x1"], 0.5),
        _near("Corollary 3: nine bits, t = 0.3", 0.82, found(NINE, 0.3, "negative").mean, 0.005),
        *(
            _near(f"sampler, {case}, {n:,} records", value, found(case, n, "loss of sampler").mean, 0.005)
            for case, values in (("one bit replaced", (4.21, 4.38)), ("one bit added", (2.18, 2.20)))
            for n, value in zip((50, 1000), values, strict=True)
        ),
        _near("sampler, bound for a record of 5 bits", 22.0, 10 * log_range(2, 0.1), 0.05),
        *(
            _near(f"MAP, {case}, {n:,} records", value, found(case, n, "loss of MAP").mean, 0.05)
            for case, n, value in (("w = 0.1", 500, 4.1), ("w = 0.01", 500, 21.9), ("w = 0.01", 5000, 26.2))
        ),
        _near("Lemma 4: printed, epsilon 5", 0.106, found("epsilon 5", 1.0, missed).mean, 0.0005),
        _near("Lemma 4: printed, epsilon 20", 0.0010, found("epsilon 20", 0.5, missed).mean, 0.00005),
        _near("Lemma 4: missed, epsilon 20", 0.0026, found("epsilon 20", 0.5, "missed").mean, 0.00005),
        _near("untrimmed coin: exact total variation", 0.1353, found(UNTRIMMED, 50, "exact delta").mean, 0.00005),
    ]


def _ours(table: Sequence[Line], found: Found) -> list[Check]:
    """Bounds that are said to hold, and deltas that are never below 0.707."""
    held = [
        Check.below(f"{each.row}: {each.claim}; {each.setting}: ours", each.measured, each.ours, digits=4)
        for each in table
        if each.ours is not None and not (each.chance and each.ours >= 1)
    ]
    vertices = [
        Check.below(f"Laplace: our bound exceeded, {case}", found(case, epsilon, "beyond our bound"), 0.05, digits=4)
        for case, (_, _, epsilon) in VERTEX.items()
    ]
    corrected = [
        Check.below(
            f"MAP, corrected, epsilon 1, w = {w}, {n:,} records", found(f"w = {w}", n, "loss of corrected MAP"), 1
        )
        for w in FLOORS
        for n in (50, 5000)
    ]
    vacuous = [
        Check.above(f"{metric}; {UNTRIMMED}", found(UNTRIMMED, 50, metric), math.sqrt(0.5))
        for metric in ("printed delta", "delta of Theorem 8.2")
    ]
    return [*held, *vertices, *corrected, *vacuous]


# ------------------------------------------------------------------------------------------ the picture

MEASURED, PRINTED, MORE, OURS, LAST = range(5)
"""Places of the styles."""
THIN: dict[str, Any] = {"markersize": 4, "linewidth": 1.1}


def _line(panel: Axes, frame: pd.DataFrame, case: str, metric: str, place: int, label: str) -> None:
    """Means and two standard errors of a metric against x."""
    values = frame[(frame["case"] == case) & (frame["metric"] == metric)].groupby("x")["value"]
    errors = 2 * np.nan_to_num(values.sem().to_numpy(float))
    panel.errorbar(values.mean().index.to_numpy(float), values.mean(), errors, label=label, **THIN, **style(place))


def _level(panel: Axes, level: float, place: int, label: str) -> None:
    """What does not depend on the number of records."""
    panel.plot(RECORDS, [level] * len(RECORDS), label=label, **THIN, **style(place))


def _figure(frame: pd.DataFrame) -> Figure:
    """Four panels, one for each row of the table."""
    figure, panels = grid(2, 2, width=3.5, height=2.8)
    loss, negative, draw, chosen = panels.ravel()
    named = {"loss quantile": "99 % quantile", "printed bound": "printed", "mean loss": "mean", "our bound": "ours"}
    for place, (metric, label) in enumerate(named.items()):
        _line(loss, frame, BIT, metric, place, label)
    _line(loss, frame, BIT, "printed refined mean", LAST, "printed refined mean")
    for place, case, label in (
        (MEASURED, NINE, "nine bits"),
        (MORE, COMPLETE, "complete"),
        (LAST, BAYES, "naive Bayes"),
    ):
        _line(negative, frame, case, "negative", place, label)
    negative.plot(SHIFTS, np.exp(-np.array(SHIFTS)), label="printed, exp(-t)", **THIN, **style(PRINTED))
    _line(draw, frame, "record of 5 bits replaced", "loss of sampler", MEASURED, "record of 5 bits")
    _line(draw, frame, "one bit replaced", "loss of sampler", MORE, "one bit")
    _level(draw, 2 * math.log(10), PRINTED, "printed, 2L")
    _level(draw, 10 * log_range(2, 0.1), OURS, "ours, for a record")
    for place, floor in ((MEASURED, 0.1), (MORE, 0.01)):
        _line(chosen, frame, f"w = {floor}", "loss of MAP", place, f"w = {floor}")
    _line(chosen, frame, "w = 0.1", "loss of corrected MAP", OURS, "corrected, w = 0.1")
    _level(chosen, 1.0, PRINTED, "printed")
    loss.set_yscale("log")
    loss.set_ylim(1e-4, 1e9)
    log_axis(loss, EPSILONS, "epsilon (nats, log scale)")
    log_axis(negative, SHIFTS, "t (log scale)")
    negative.set_ylim(-0.05, 1.4)
    for panel, top in ((draw, 32), (chosen, 38)):
        panel.set_ylim(0, top)
        log_axis(panel, (10, 100, 1000), "records (log scale)")
    about = ("Laplace: loss (nats, log scale)", "Fourier: P(negative cell)", "sampler: loss (nats)", "MAP: loss (nats)")
    for panel, label in zip((loss, negative, draw, chosen), about, strict=True):
        panel.set_ylabel(label)
        panel.legend(frameon=False, fontsize=8, loc="upper right", ncols=2)
    return figure


EXPERIMENT = Experiment(
    title="Zhang et al. (2016), Table 1: bounds against measurements",
    source="Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Table 1 and the statements it refers to",
    claim="privacy and utility of four mechanisms: Laplace (Theorem 1, Proposition 1), Fourier (Theorem 3, Corollary "
    "3), sampler ((2L, 0) or (0, sqrt(M / 2)), Theorem 4) and MAP (Corollary 4, Lemma 4)",
    data="made-up counts: a bit, five bits, and 50 records of naive Bayes with 16 features; nothing is learned",
    relation="replace one record, where nothing else is said",
    guarantee="that of each line; what is FALSE has none",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["zhang_table_1"])
