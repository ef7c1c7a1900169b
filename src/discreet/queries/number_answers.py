"""Answers to questions about numbers, with intervals that count what bins hide.

An interval for a mean counts three things: the sampling error and the privacy noise, which the posterior's draws have,
and that nobody knows where in its bin a number is. Under each draw the laws inside the bins allow an interval of means;
what is reported goes from a low quantile of their lower ends to a high one of their upper ends, and so holds whatever
the law is. It is as wide as a typical bin. The interval under the law that is taken is told beside it.
"""

from __future__ import annotations

import numpy as np

from discreet.model.query_grammar import NumberQuery
from discreet.queries.answers import AnswerRow
from discreet.queries.bin_laws import BinLaw
from discreet.queries.counted_draws import resample
from discreet.queries.credible import credible_interval
from discreet.util.arrays import Floats


def number_draws(asked: NumberQuery, law: BinLaw) -> tuple[Floats, Floats, Floats]:
    """What is asked, draw by draw.

    Args:
        asked: the question.
        law: of the numbers in the bins.

    Returns:
        Under the law, and the smallest and the largest value that any law inside the bins allows; shape `(draws,)`.
    """
    at = 0.0 if asked.at is None else asked.at
    match asked.asked:
        case "mean":
            return law.mean(), *law.mean_ends()
        case "quantile":
            return law.quantile(at), *law.quantile_ends(at)
        case ">" | ">=":
            return law.above(at, itself=asked.asked == ">=")
        case "<" | "<=":
            found, low, high = law.above(at, itself=asked.asked == "<")
            return 1 - found, 1 - high, 1 - low
        case _:
            raise AssertionError(asked.asked)


def number_row(asked: NumberQuery, law: BinLaw, level: float, weights: Floats, *, alike: bool) -> AnswerRow:
    """The row of an answer.

    Args:
        asked: the question.
        law: of the numbers in the bins, for the draws that count.
        level: of the intervals.
        weights: of the draws, which sum to 1.
        alike: whether they are all the same.

    Returns:
        What is asked, its mean, and both intervals.
    """
    found, low, high = number_draws(asked, law)
    picked = slice(None) if alike else resample(weights)
    own, lowest, highest = (part[picked] for part in (found, low, high))
    tails = [(1 - level) / 2, (1 + level) / 2]
    if asked.kind in ("marginal", "conditional"):
        within, (first, _), (_, last) = (credible_interval(part, level) for part in (own, lowest, highest))
    else:
        within, (first, _), (_, last) = (tuple(np.quantile(part, tails)) for part in (own, lowest, highest))
    at = "" if asked.at is None else f" {asked.at:.15g}"
    return {
        "state": {asked.variable: f"{asked.asked}{at}"},
        "mean": float(found @ weights),
        "lower": float(min(first, within[0])),
        "upper": float(max(last, within[1])),
        "law_lower": float(within[0]),
        "law_upper": float(within[1]),
    }
