"""Table 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016): every bound in it against what is measured, and ours.

The table lists privacy and utility of four mechanisms. Each printed bound (`zhang_lines`) is beside what it bounds,
simulated or integrated (`zhang_bounds`), and beside a bound that holds. Where a bound has no constant (the utility of
the sampler) there is nothing to measure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from discreet.research.bounds import fourier_deviation
from discreet.research.scores.likelihood_sensitivity import log_range
from experiments.paper_bounds import mean_divergence

from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, markdown
from .pictures import grid, log_axis, style
from .zhang_bounds import (
    BAYES,
    BIT,
    COMPLETE,
    EPSILONS,
    FLOORS,
    NINE,
    PARTS,
    RECORDS,
    SHIFTS,
    SUMMARIES,
    UNTRIMMED,
    VERTEX,
)
from .zhang_lines import Found, Line, lines, means_of
from .zhang_naive_bayes import NETWORK

__all__ = ["EXPERIMENT"]

SANE = 0.05
"""Part of a number by which a reference, or a bound that is said to hold, may be missed; twice that of a quantile."""


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Each part of the table; what is exact is not repeated."""
    repeats = 40 if quick else 400
    return [({"part": part}, 0 if part == "exact" else repeats) for part in PARTS]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """One part of the table."""
    yield from PARTS[task.setting["part"]](task)


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """The table and what it is a function of."""
    found, repeats = means_of(frame), frame[frame["part"] != "exact"]["repeat"].nunique()
    table = lines(found, repeats)
    caption = (
        "Loss of Algorithm 1 for one bit with 500 ones of 1,000 records against epsilon; chance of a negative cell of "
        "an empty table against t; exact loss of one draw trimmed at 0.1, and of the printed MAP mechanism at epsilon "
        "1, against the number of records. Printed bounds: dashed, squares; ours: dotted, diamonds; the refined "
        "mean, also printed, which exists where n is at least the noise's scale: violet triangles in the first panel. "
        "Bars: two standard errors."
    )
    header = ["row", "claim", "setting", "printed", "measured", "a bound that holds", "printed bound"]
    rows = []
    for each in table:
        ours = "-" if each.ours is None else _number(each.ours)
        row = [each.row, each.claim, each.setting, _number(each.printed), _text(each), ours, each.judged]
        rows.append(row)
    return Page(
        _verdict(table),
        [Illustration("bounds", _figure(frame), caption)],
        [("Losses in nats, noise and errors in records.", markdown(header, rows))],
        [*_simulated(found, repeats), *_integrated(found), *_ours(table, found)],
        _notes(found),
    )


def _number(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"


def _text(line: Line) -> str:
    """The measurement with its error, where there is one; a share of nothing by its draws, as no integral is it."""
    if line.trials and line.measured.mean in (0, 1):
        return f"{line.measured.mean * line.trials:,.0f} of {line.trials:,}"
    value = line.measured
    return _number(value.mean) + (f" ± {value.error:.1g}" if value.error > 0 else "")


def _verdict(table: Sequence[Line]) -> str:
    """One sentence, as the rows have it."""
    by = {word: [each for each in table if each.judged == word] for word in ("holds", "says nothing", "FALSE")}
    claims: dict[str, list[str]] = {}
    for each in by["FALSE"]:
        claims.setdefault(each.row, []).append(each.claim)
    names = "; ".join(f"{row}: {', '.join(dict.fromkeys(own))}" for row, own in claims.items())
    if not by["FALSE"]:
        return f"Reproduced: none of the printed bounds is exceeded in {len(table)} settings."
    return (
        f"{'Reproduced in part' if by['holds'] else 'Not reproduced'}: of {len(table)} settings the printed bound "
        f"holds in {len(by['holds'])}, says nothing in {len(by['says nothing'])} and is exceeded in "
        f"{len(by['FALSE'])}: {names}."
    )


def _notes(found: Found) -> str:
    """What O() hides, both readings of L, and what is not measured."""
    ratios = [
        f"{found(case, epsilon, 'mean loss').mean / found(case, epsilon, 'printed summary of the mean').mean:,.0f} at "
        f"epsilon {epsilon:g} and n = {most:,}"
        for case, (most, epsilons) in SUMMARIES.items()
        for epsilon in epsilons
    ]
    tails = [
        f"{found(case, epsilons[-1], 'loss quantile').mean / found(case, epsilons[-1], 'printed summary').mean:.1f} at "
        f"n = {most:,}"
        for case, (most, epsilons) in SUMMARIES.items()
    ]
    return (
        "* Theorem 1, summary: O() hides constants, which are 1 in the table. No constant would do: the mean loss over "
        f"its bound m n ln n [1 - exp(-n epsilon / (2 |I|))] is {', '.join(ratios)}, and grows without limit as "
        "epsilon falls, because the bound goes to 0 where the noise is infinite. Nor does the tail term, which "
        f"grows as the root of n ln n, save it: the 99 % quantile over both terms is {', '.join(tails)}, as the loss "
        "then grows as n.\n"
        "* MAP: the paper leaves L open. The losses are those with L = ln((1 - w) / w), the exact range; Lemma 4 is "
        "tried with L = ln(1 / w), the bound.\n"
        "* The utility of the sampler is printed without a constant, so there is nothing to measure. Measurements "
        "without ± are integrals, or did not vary between repeats (the 99 % quantile where all noisy counts are 0 or "
        "n); a share of no draw is written as such.\n"
    )


# ------------------------------------------------------------------------------------------ checks


def _near(what: str, value: float, ours: Estimate | float, rounding: float, unit: float = 1.0) -> Check:
    """A reference value, in a unit in which it has digits before the point."""
    given = ours if isinstance(ours, Estimate) else Estimate(ours)
    scaled = Estimate(given.mean / unit, given.error / unit)
    return Check.near(what, Estimate(value), scaled, rounding=rounding, sane=max(rounding, SANE * value), digits=4)


def _quantile(what: str, value: float, ours: Estimate, repeats: int) -> Check:
    """A reference that was simulated with a few thousand draws: it has the error of one repeat, which has as many."""
    wanted = Estimate(value, ours.error * math.sqrt(repeats))
    return Check.near(what, wanted, ours, rounding=0.5, sane=2 * SANE * value, digits=1)


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
    """Bounds that are said to hold; another simulation has how often ours is exceeded, 0.003 to 0.012."""
    held = [
        Check.below(
            f"{each.row}: {each.claim}; {each.setting}: ours",
            each.measured,
            each.ours,
            sane=(1 + SANE) * each.ours,
            digits=4,
        )
        for each in table
        if each.ours is not None and not (each.chance and each.ours >= 1)
    ]
    vertices = []
    for case, (_, _, epsilon) in VERTEX.items():
        what, share = f"Laplace: our bound exceeded, {case}", found(case, epsilon, "beyond our bound")
        vertices.append(Check.within(what, share, (0.0025, 0.0125), sane=(0.0015, 0.015), digits=4))
    corrected = [
        Check.below(
            f"MAP, corrected, epsilon 1, w = {w}, {n:,} records", found(f"w = {w}", n, "loss of corrected MAP"), 1
        )
        for w in FLOORS
        for n in (50, 5000)
    ]
    return [*held, *vertices, *corrected]


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
    shown = frame[frame["x"].isin(EPSILONS)]
    named = {"loss quantile": "99 % quantile", "printed bound": "printed", "mean loss": "mean", "our bound": "ours"}
    for place, (metric, label) in enumerate(named.items()):
        _line(loss, shown, BIT, metric, place, label)
    _line(loss, shown, BIT, "printed refined mean", LAST, "printed refined mean")
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
