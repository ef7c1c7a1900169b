"""Budget ratios: how much more epsilon a baseline needs for the same error, with jackknife standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .pages import Estimate

__all__ = ["Ratio", "budget_ratio", "geometric", "left_out", "spread"]

Floats = npt.NDArray[np.float64]


def left_out(values: Floats) -> Floats:
    """Means over the last axis: of all, then without each; shape (..., 1 + runs), NaN without a second run."""
    total, runs = values.sum(axis=-1, keepdims=True), values.shape[-1]
    without = (total - values) / (runs - 1) if runs > 1 else np.full(values.shape, np.nan)
    return np.concatenate([total / runs, without], axis=-1)


def spread(estimates: Floats) -> float:
    """Jackknife standard error of estimates made from all runs and without each, shape (1 + runs,)."""
    without, runs = estimates[1:], estimates.size - 1
    return float(np.sqrt((runs - 1) / runs * np.square(without - without.mean()).sum()))


def budget_ratio(curves: Iterable[Floats], grid: Sequence[float], error: Floats, epsilon: float) -> tuple[Floats, str]:
    """Epsilon at which the strongest of some curves has an error, over another epsilon.

    Log-log interpolation on the grid.

    Args:
        curves: errors of each form of the reference on the grid, shape (epsilons, runs).
        grid: epsilons, increasing.
        error: of the method, shape (runs,).
        epsilon: of the method.

    Returns:
        Ratios of all runs and without each, shape (1 + runs,); "<" or ">" where the first is at an end of the grid.
    """
    wanted = -np.log(left_out(error))
    reached = []
    for curve in curves:
        # The lowest error so far: a curve that rises by chance would have no inverse.
        falling = -np.log(np.minimum.accumulate(left_out(curve), axis=0))
        reached.append([np.interp(at, along, np.log(grid)) for at, along in zip(wanted, falling.T, strict=True)])
    best = np.exp(np.min(reached, axis=0))
    sign = "<" if best[0] <= grid[0] * 1.000001 else ">" if best[0] >= grid[-1] / 1.000001 else ""
    return best / epsilon, sign


@dataclass(frozen=True, eq=False)
class Ratio:
    """Budget ratio of a method at one epsilon on one network.

    Args:
        logs: natural logarithms, of all repeats and without each of them, shape (1 + repeats,).
        sign: "<" or ">" at an end of D-Ind's grid, "fl" near the error of the exact counts, or nothing.
    """

    logs: Floats
    sign: str

    def text(self) -> str:
        """The ratio and its standard error."""
        return "fl" if self.sign == "fl" else f"{self.sign}{geometric([self]).text(2)}"


def geometric(cells: Sequence[Ratio]) -> Estimate:
    """Geometric mean of ratios and its jackknife standard error, the same repeat left out of all of them."""
    mean = np.mean([cell.logs for cell in cells], axis=0)
    return Estimate(float(np.exp(mean[0])), float(np.exp(mean[0]) * spread(mean)))
