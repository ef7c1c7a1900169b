"""Half-widths over budgets: log-log lines, fitted to few simulated releases.

A half-width is the hypotenuse of what is sampling and what is noise. The noise part is nearly a power of epsilon. Of
questions about rare states it differs so much from release to release that few of these do not tell its slope; so the
slope has a prior, which weighs as much as the scatter of the half-widths makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from discreet.util.arrays import Floats

NEAR_DISTANCE = math.log(4)
"""Distance from the wanted budget, as a logarithm, at which a release counts for exp(-1/2)."""
USUAL_SLOPE, SLOPE_DEVIATION = -0.75, 0.35
"""Prior mean and deviation of the log-log slope of the noise part over epsilon: noise falls like 1 / epsilon, but not a
half-width where a prior takes its place."""
LEAST_SCATTER = 0.05
"""Standard deviation of a log half-width due to the number of draws alone."""
FIT_ROUNDS = 4
"""Rounds of fitting a line and the scatter about it, which weighs the prior of its slope."""
COVERAGE = 0.8
"""Share of further releases that the stated spread covers."""
NARROWER_RATIO = 0.8
"""Ratio to the half-width without noise below which one with noise is narrower by more than chance."""
LEAST_NOISE = 0.05
"""Noise share of a half-width if simulations show none: the simulation error is as large."""


@dataclass(frozen=True, eq=False)
class WidthCurves:
    """Half-widths of questions over budgets; arrays of shape (questions,).

    Args:
        height: logarithm of the noise part at epsilon 1.
        slope: of that logarithm over the logarithm of epsilon.
        alone: the part without noise in each data set, shape (data sets, questions).
        factor: by which the mean of half-widths is above the curves, which are of logarithms.
        spread: ends of eight in ten further releases' half-widths, over their mean; shape (2, questions).
        uncertainty: standard error of the mean's logarithm.
        typical: whether means are geometric: of networks whose probabilities are drawn few are many times as wide as
            the others, and would decide for all.
    """

    height: Floats
    slope: Floats
    alone: Floats
    factor: Floats
    spread: Floats
    uncertainty: Floats
    typical: bool = False

    @property
    def sampling(self) -> Floats:
        """Mean part without noise, shape (questions,); corrected down if releases are narrower."""
        return np.asarray(np.minimum(self.factor, 1.0) * _average(self.alone, None, self.typical))

    def at(self, epsilon: float) -> Floats:
        """Expected half-widths at a budget, shape (questions,)."""
        noise = np.exp(self.height + self.slope * math.log(epsilon))
        return np.asarray(self.factor * _average(np.hypot(self.alone, noise), None, self.typical))


def fit_widths(
    budgets: Sequence[float], widths: Floats, sampling: Floats, centre: float, *, typical: bool = False
) -> WidthCurves:
    """Fit the curves to releases, those near a budget counting most.

    Args:
        budgets: epsilon of each release.
        widths: half-widths, greater than 0, shape (releases, questions).
        sampling: half-widths without noise, of the data sets of the releases and then of more; shape (data sets,
            questions).
        centre: the budget.
        typical: as of the curves.

    Returns:
        The curves.

    Example:
        >>> noise = np.array([[0.4], [0.2], [0.1], [0.05]])
        >>> curves = fit_widths([0.5, 1, 2, 4], np.hypot(noise, 0.1), np.full((4, 1), 0.1), 1.0)
        >>> curves.at(1.0).round(2), curves.at(100.0).round(2)
        (array([0.22]), array([0.1]))
    """
    x, without_noise = np.log(budgets), sampling[: len(budgets)]
    near = np.exp(-(((x - math.log(centre)) / NEAR_DISTANCE) ** 2) / 2)[:, None]
    # A release can be narrower than without noise: what it cannot afford to measure, it takes from the network.
    s = np.where(widths < NARROWER_RATIO * without_noise, widths, without_noise)
    ratio = (near * s).sum(axis=0) / (near * without_noise).sum(axis=0)
    n = np.sqrt(np.maximum(widths**2 - s**2, (LEAST_NOISE * widths) ** 2))
    # Delta method on n^2 = width^2 - s^2: sd(log n) = sd(log width) (width / n)^2; weights are inverse variances.
    weights = near * (n / widths) ** 4
    scatter = np.full(widths.shape[1], LEAST_SCATTER)
    for _ in range(FIT_ROUNDS):
        height, slope, slope_dof = _fit_lines(x, np.log(n), weights, (scatter / SLOPE_DEVIATION) ** 2)
        ratios = widths / np.hypot(s, np.exp(height + slope * x[:, None]))
        scatter = _find_scatter(np.log(ratios), near, slope_dof)
    # Half-widths moved to the centre; those of different data sets or networks differ in sampling, too.
    middle = np.hypot(s, np.exp(height + slope * math.log(centre)))
    levels = np.log(ratios * middle)
    scatter = _find_scatter(levels, near, slope_dof)
    mean = _average(ratios * middle, near, typical)
    factor = mean / _average(middle, near, typical)
    # Prediction interval of one more release: Student quantile * sqrt(1 + 1 / n) * scatter.
    half = stdtrit(np.maximum(len(x) - 1 - slope_dof, 1), (1 + COVERAGE) / 2) * math.sqrt(1 + 1 / len(x)) * scatter
    ends = np.exp(_average(levels, near) + np.array([-half, half])) / mean
    return WidthCurves(height, slope, ratio * sampling, factor, ends, scatter / math.sqrt(near.sum()), typical)


def _average(values: Floats, near: Floats | None, geometric: bool = False) -> Floats:
    """Average over releases by weight, shape (questions,)."""
    mean = np.average(np.log(values) if geometric else values, axis=0, weights=None if near is None else near[:, 0])
    return np.asarray(np.exp(mean) if geometric else mean)


def _find_scatter(logs: Floats, near: Floats, slope_dof: Floats) -> Floats:
    """Standard deviation of log half-widths; the slope takes `slope_dof` degrees of freedom, between 0 and 1."""
    squares = _average((logs - _average(logs, near)) ** 2, near)
    return np.asarray(np.sqrt(squares * len(logs) / np.maximum(len(logs) - 1 - slope_dof, 1) + LEAST_SCATTER**2))


def _fit_lines(x: Floats, y: Floats, weights: Floats, worth: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit lines by weighted least squares with a normal prior on the slopes.

    Args:
        x: shape (releases,).
        y: shape (releases, questions).
        weights: same shape.
        worth: of the usual slope, in the unit of weighted squares of x; shape (questions,).

    Returns:
        Heights at 0, slopes, and the part of these that the releases tell, from 0 to 1; shape (questions,) each.
    """
    whole = weights.sum(axis=0)
    mean_x, mean_y = (weights * x[:, None]).sum(axis=0) / whole, (weights * y).sum(axis=0) / whole
    centred_x = x[:, None] - mean_x
    spread = (weights * centred_x**2).sum(axis=0)
    # Posterior mean under the normal prior: (S_xy + worth * usual slope) / (S_xx + worth).
    slope = ((weights * centred_x * (y - mean_y)).sum(axis=0) + worth * USUAL_SLOPE) / (spread + worth)
    return np.asarray(mean_y - slope * mean_x), np.asarray(slope), np.asarray(spread / (spread + worth))
