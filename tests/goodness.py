"""Goodness of fit of draws to a law."""

from __future__ import annotations

import numpy as np
from scipy import stats

__all__ = ["fit"]


def fit(observed: np.ndarray, probabilities: np.ndarray, least: int = 30) -> float:
    """Chi-square p value of counts; the rarest outcomes are pooled until every cell expects `least` draws."""
    n = int(observed.sum())
    cells: list[list[float]] = []
    for k in np.argsort(probabilities):
        if cells and cells[-1][1] < least:
            cells[-1][0] += observed[k]
            cells[-1][1] += n * probabilities[k]
        else:
            cells.append([observed[k], n * probabilities[k]])
    found, expected = np.array(cells).T
    return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)
