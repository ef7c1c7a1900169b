"""Simultaneous intervals: all rows of several answers lie in theirs together, with the stated probability."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from discreet.errors import InputError, require
from discreet.queries.answers import Answer, AnswerRow, Answers
from discreet.util.arrays import Floats


def widen_together(answers: Answers) -> Answers:
    """Replace the intervals of answers by simultaneous ones.

    With m, l and u the mean and the interval of a row, a draw x deviates by `(x - m) / (u - m)` above the mean, and by
    `(m - x) / (m - l)` below it. Of each draw the largest deviation over all rows counts. All intervals are stretched
    from their means by the quantile of these, at least 1: the largest standardised deviation, where the ends of each
    interval stand for two standard errors, so that skewed intervals stay skewed.

    Args:
        answers: with their draws, equally weighted, of one posterior.

    Returns:
        The answers, with longer intervals; ends of probabilities stay within 0 and 1. Each has a sentence more in
        `concerns`.

    Raises:
        InputError: no answers, other levels, answers without draws, with weights, or with other numbers of draws; or no
            draw in which the evidence of all answers is possible.

    Source:
        Besag, Green, Higdon and Mengersen (1995), *Bayesian computation and stochastic systems*, section 6.3, for
        simultaneous regions from draws.
    """
    require(bool(answers), "simultaneous intervals are of at least one answer")
    require(len({answer.level for answer in answers}) == 1, "simultaneous intervals need one level for all answers")
    draws = [answer.draws for answer in answers]
    if any(answer.drawn is None or answer.drawn.weights is not None for answer in answers):
        raise InputError("simultaneous intervals are of draws with equal weights; ask without predictive")
    require(len({each.shape[1] for each in draws}) == 1, "simultaneous intervals are of answers of one posterior")
    worst = np.zeros(draws[0].shape[1])
    for answer, each in zip(answers, draws, strict=True):
        for row, values in zip(answer.rows, each, strict=True):
            worst = np.maximum(worst, _deviate(row, values))  # NaN stays
    possible = worst[~np.isnan(worst)]
    require(possible.size > 0, "no draw makes the evidence of all answers possible")
    factor = max(1.0, float(np.quantile(possible, answers[0].level)))
    note = f"the intervals of {len(answers)} answers hold together with probability {answers[0].level:g}"
    return Answers(replace(_stretch(answer, factor), concerns=(*answer.concerns, note)) for answer in answers)


def _deviate(row: AnswerRow, values: Floats) -> Floats:
    """Compute how far each draw lies from the mean, relative to the distance of the interval's end on its side.

    The interval is that of the law inside bins, if the row has one.

    Args:
        row: row of an answer.
        values: its number in every draw, shape (draws,).

    Returns:
        Shape (draws,), at least 0: NaN where the draw is NaN; 0 where the interval ends at the mean on that side.
    """
    mean, low, high = row["mean"], row.get("law_lower", row["lower"]), row.get("law_upper", row["upper"])
    with np.errstate(divide="ignore", invalid="ignore"):
        above, below = ((values - mean) / (high - mean), (mean - values) / (mean - low))
    deviations = np.where(values > mean, above, np.where(values < mean, below, 0.0 * values))
    return np.where(np.isnan(values), np.nan, np.nan_to_num(deviations, nan=0.0, posinf=0.0))


def _stretch(answer: Answer, factor: float) -> Answer:
    """Multiply the distances of all ends from their means by a factor.

    Ends of an answer with the unit "probability" are limited to 0 and 1. "law_lower" and "law_upper" move likewise.
    """
    least, most = (0.0, 1.0) if answer.unit == "probability" else (-math.inf, math.inf)
    rows = list[AnswerRow]()
    for row in answer.rows:
        wide: AnswerRow = {**row}
        wide["lower"] = max(row["mean"] + factor * (row["lower"] - row["mean"]), least)
        wide["upper"] = min(row["mean"] + factor * (row["upper"] - row["mean"]), most)
        if "law_lower" in row and "law_upper" in row:
            wide["law_lower"] = max(row["mean"] + factor * (row["law_lower"] - row["mean"]), least)
            wide["law_upper"] = min(row["mean"] + factor * (row["law_upper"] - row["mean"]), most)
        rows.append(wide)
    return replace(answer, rows=tuple(rows))
