"""Every printed bound in Table 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016) beside what it bounds.

A line holds a printed bound, what was measured, and a bound that holds where there is one; `zhang_bounds` measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from discreet.research.bounds import fourier_deviation, largest_noise
from discreet.research.scores.likelihood_sensitivity import log_range

from .pages import Estimate, estimate
from .zhang_bounds import BAYES, BIT, COMPLETE, DRAWS, EMPTY, FAILURE, NINE, SUMMARIES, UNTRIMMED, laplace_scale
from .zhang_naive_bayes import NETWORK

__all__ = ["Found", "Line", "lines", "means_of"]


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
        trials: draws that a measured probability is a share of; 0 for what is no share, or calculated.
    """

    row: str
    claim: str
    setting: str
    printed: float
    measured: Estimate
    ours: float | None = None
    chance: bool = False
    trials: int = 0

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


def lines(found: Found, repeats: int) -> list[Line]:
    """Every printed bound, in the order of the paper's table.

    Args:
        found: as `means_of` has it.
        repeats: of what is simulated.
    """
    trials = repeats * DRAWS
    return [*_laplace_lines(found, trials), *_fourier_lines(found, trials), *_sampler_lines(found), *_map_lines(found)]


def _laplace_lines(found: Found, trials: int) -> list[Line]:
    """Theorem 1 and Proposition 1."""

    def line(claim: str, case: str, epsilon: float, metric: str, printed: str, ours: float | None = None) -> Line:
        setting = f"{case}, epsilon {epsilon:g}"
        return Line("Laplace", claim, setting, found(case, epsilon, printed).mean, found(case, epsilon, metric), ours)

    summaries = [(case, epsilon) for case, (_, epsilons) in SUMMARIES.items() for epsilon in epsilons]
    exceeded, scale = found(BIT, 1e-4, "beyond printed allowance"), laplace_scale(NETWORK, 1.0)
    tail, cells = f"P(loss >= mean + allowance); {BIT}, epsilon 1e-4", "largest noise of 66 cells, epsilon 1"
    largest, ours = found("66 cells", 1.0, "largest noise quantile"), largest_noise(66, scale, 0.1)
    return [
        Line("Laplace", "Theorem 1 (tail)", tail, FAILURE, exceeded, trials=trials),
        *(line("Theorem 1 (mean)", case, 1.0, "mean loss", "printed mean") for case in (BIT, EMPTY)),
        *(line("Theorem 1 (refined mean)", c, 1.0, "mean loss", "printed refined mean") for c in (BIT, BAYES)),
        *(
            line("Theorem 1 (summary of the mean)", *key, "mean loss", "printed summary of the mean")
            for key in summaries
        ),
        *(line("Theorem 1 (summary with its tail)", *key, "loss quantile", "printed summary") for key in summaries),
        *(
            line("Theorem 1 (99 % quantile)", c, 1.0, "loss quantile", "printed bound", found(c, 1.0, "our bound").mean)
            for c in (BIT, BAYES)
        ),
        Line("Laplace", "Proposition 1, 90 % quantile", cells, scale * math.log(66 / 0.1), largest, ours),
    ]


def _fourier_lines(found: Found, trials: int) -> list[Line]:
    """Theorem 3 and Corollary 3."""
    tables, negative = [], []
    for t in (0.0, 1.0):
        bound, worst = fourier_deviation(NETWORK, 1.0, t, 0.1)["x1"], found("worst table", t, "L1 error quantile")
        setting = f"largest L1 error of 16 tables of naive Bayes, epsilon 1, t = {t:g}"
        tables.append(Line("Fourier", "Theorem 3, 90 % quantile", setting, bound, worst))
    for case, t in ((NINE, 0.3), (NINE, 1.0), (COMPLETE, 0.1), (COMPLETE, 0.5), (BAYES, 0.1), (BAYES, 1.0)):
        setting, seen = f"P(a cell is negative), t = {t:g}; {case}", found(case, t, "negative")
        drawn = 0 if case == NINE else trials
        negative.append(Line("Fourier", "Corollary 3", setting, math.exp(-t), seen, chance=True, trials=drawn))
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
