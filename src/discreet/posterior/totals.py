"""Laws of row totals: the number of records of a parent configuration, before the node's own table is read.

A row is a node's distribution in one state of its parents, and its total the number of records in that state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from discreet.errors import InputError
from discreet.inference.exact_laws import Laws
from discreet.model.tables import Tables
from discreet.util.arrays import Floats, Ints

BINS_PER_FOLD = 8
"""Number of bins per factor e of a total, for totals with few draws or none."""
DRAWS_PER_BIN = 25
"""Number of draws for each bin of a total's histogram."""
LEAST_BINS, MOST_BINS = 4, 40
"""Least and largest number of bins between the quantiles of the draws of a total."""
MOST_BINS_OF_NOISY_TOTAL = 2**17
"""Largest number of bins of a total's law given a noisy count of it."""
MOST_EXPECTED_RECORDS = 1e8
"""Upper bound on the number of records if it is private and was not measured."""
SPREAD_SHARE = 0.02
"""Probability that a predictive law spreads evenly over all bins, for values that the draws missed."""


@dataclass(frozen=True, eq=False)
class TotalLaw:
    """Law of a row total: a histogram over bins of integers, uniform within each bin.

    Args:
        edges: int64, increasing, shape (bins + 1,); bin i contains the totals from `edges[i]` to `edges[i + 1] - 1`.
        mass: weight of each bin, at least 0, not all 0, shape (bins,); need not sum to 1.
    """

    edges: Ints
    mass: Floats

    def sample(self, size: int, rng: np.random.Generator) -> Ints:
        """Draw independent totals, int64, shape (size,): a bin by its mass, then uniformly one of its integers."""
        cumulative = np.cumsum(self.mass)
        bins = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        totals: Ints = rng.integers(self.edges[bins], self.edges[bins + 1])
        return totals

    def log_density(self, totals: Floats) -> Floats:
        """Compute the log probability of each total: `log(mass / sum of masses) - log(width)` of its bin.

        Args:
            totals: totals, any shape.

        Returns:
            In nats, same shape; -inf outside of the bins and in bins of mass 0. A total that is not whole gets that of
            its bin.
        """
        bins = np.searchsorted(self.edges, totals, side="right") - 1
        inside = (bins >= 0) & (bins < len(self.mass))
        at = np.clip(bins, 0, len(self.mass) - 1)
        with np.errstate(divide="ignore"):
            log_densities = np.log(self.mass[at] / self.mass.sum()) - np.log(self.edges[at + 1] - self.edges[at])
        return np.where(inside, log_densities, -np.inf)


def total_laws(node: str, cells: Tables, records: TotalLaw | None, rng: np.random.Generator) -> list[TotalLaw | None]:
    """Estimate the law of each row total of a family by simulation.

    In every draw n is drawn from `records`, and the total from Binomial(n, P(parents)), the probability limited to [0,
    1]; a histogram over 0 to the largest n is fitted to the totals (`_fit_histogram`).

    Args:
        node: node of the network.
        cells: draws of the network's rows. Rows of ancestors that are missing are drawn here, from the roots down, and
            kept.
        records: law of the number of records n; None for a flat one.
        rng: source of randomness.

    Returns:
        A histogram for every parent configuration, in the order of a flattened table. None stands for a flat law. All
        are None if `records` is, before any ancestor is drawn, and if exact inference over the ancestors is too large,
        after they were drawn. Without parents the only law is `records`.
    """
    network, parents = cells.network, cells.network.parents[node]
    rows = network.cells(parents)
    if records is None:
        return [None] * rows
    if not parents:
        return [records]
    # Draw from the roots down: drawn by `joint`, a long chain of ancestors would exceed the recursion limit.
    above = network.ancestors(parents)
    for ancestor in network.order:
        if ancestor in above:
            cells[ancestor]
    try:
        reached = Laws(cells).joint(parents).reshape(rows, -1)
    except InputError:
        # Exact inference over the ancestors is out of reach: the totals keep a flat law.
        return [None] * rows
    n = records.sample(reached.shape[-1], rng)
    return [_fit_histogram(rng.binomial(n, np.clip(share, 0, 1)), int(n.max())) for share in reached]


def log_flat_law(most: float) -> TotalLaw:
    """Return the law of an unknown total: log(1 + N) is uniform up to log(1 + most).

    Args:
        most: largest total; a fraction is cut off.

    Returns:
        The law of the totals from 0 to `most`, with BINS_PER_FOLD bins for a factor e of 1 + N, or bins of single
        totals where these would be narrower. The mass of a bin is the difference of log(1 + N) at its ends; the law is
        uniform within each bin.

    Example:
        >>> law = log_flat_law(1000)
        >>> int(law.edges[0]), int(law.edges[-1])
        (0, 1001)
    """
    edges = _list_fold_edges(int(most))
    return TotalLaw(edges, np.diff(np.log1p(edges)))


def measured_total_law(totals: Sequence[tuple[int, float]], most: float = math.inf) -> TotalLaw:
    """Compute the law of the number of records given noisy counts (discrete Laplace); log(1 + N) is uniform a priori.

    The mass of a bin is its prior mass times `exp(-|N - count| / scale)` of every count, at the bin's least total N.

    Args:
        totals: noisy counts, which may be negative, and the scales of their noise, unit: records; at least one.
        most: upper limit of the number of records, a whole number or infinite; `most` itself is possible.

    Returns:
        The law, within forty scales of the count with the least noise (the first of equals), taken as 0 if negative and
        as `most` if larger, and within 0 to `most`. Bins are single totals, or equal parts of this range,
        MOST_BINS_OF_NOISY_TOTAL of them, if it has more totals: a bin is then finer than a thousandth of the scale.
        Bins of `log_flat_law` divide them further.

    Example:
        >>> law = measured_total_law([(100, 2.0)])  # 100 records, by a count with Laplace noise of scale 2
        >>> bool(law.log_density(np.array([100.0]))[0] > law.log_density(np.array([110.0]))[0])
        True
    """
    value, scale = min(totals, key=lambda total: total[1])
    reach = math.ceil(40 * scale)
    low, high = max(0, int(min(value, most)) - reach), int(min(max(0, value) + reach, most)) + 1
    steps = np.linspace(low, high, min(high - low, MOST_BINS_OF_NOISY_TOTAL) + 1).round().astype(np.int64)
    fold = _list_fold_edges(high)
    edges = np.unique(np.concatenate([steps, fold[(fold > low) & (fold < high)]]))
    # Log prior of each bin, plus the log Laplace density |N - count| / scale of each noisy count.
    logs = np.log(np.diff(np.log1p(edges.astype(np.float64))))
    for noisy_total, width in totals:
        logs = logs - np.abs(edges[:-1] - noisy_total) / width
    return TotalLaw(edges, np.exp(logs - logs.max()))


def normal_law(mean: float, deviation: float) -> TotalLaw:
    """Return a normal law rounded to integers and truncated at 0; a point mass if the deviation is 0.

    Args:
        mean: mean before the rounding and the truncation.
        deviation: standard deviation, at least 0.

    Returns:
        A law of totals within eight deviations, in bins of an eighth of one, at least one total wide. What is below 0
        is cut off; the law has only the total 0 if the mean is more than eight deviations below 0. No bin has mass 0.

    Example:
        >>> law = normal_law(50.0, 0.0)
        >>> law.sample(3, np.random.default_rng(0)).tolist()
        [50, 50, 50]
    """
    # Bins of an eighth of the deviation, or single totals where that is less than one record.
    edges = np.unique(np.rint(mean + deviation * np.arange(-8, 8.01, 0.125)).clip(0)).astype(np.int64)
    edges, least = np.append(edges, edges[-1] + 1), np.finfo(np.float64).tiny
    return TotalLaw(edges, np.diff(ndtr((edges - 0.5 - mean) / max(deviation, least))) + least)


def _fit_histogram(totals: Ints, most: int) -> TotalLaw:
    """Fit a histogram to draws of a total: bins between their quantiles, wider ones beyond, `SPREAD_SHARE` over all.

    There is a bin for each DRAWS_PER_BIN draws, at most MOST_BINS, between rounded quantiles at equally spaced levels;
    equal quantiles make one. Below and above the draws, bins are those of `_list_fold_edges`. With draws for fewer than
    LEAST_BINS, quantiles would be overconfident: the bins of `_list_fold_edges`, of equal width in log(1 + N), replace
    all, and their masses are smoothed with weights 1/4, 1/2, 1/4.

    Args:
        totals: draws, from 0 to `most`, shape (draws,).
        most: largest total of the law.

    Returns:
        The law of the totals from 0 to `most`. The mass of a bin is `(1 - SPREAD_SHARE)` times its share of the draws
        plus `SPREAD_SHARE / bins`, so every bin has some.
    """
    edges = _list_fold_edges(most)
    bins = totals.size // DRAWS_PER_BIN
    if bins >= LEAST_BINS:
        inner = np.unique(np.quantile(totals, np.linspace(0, 1, min(bins, MOST_BINS) + 1)).round())
        inner = np.append(inner, inner[-1] + 1)
        edges = np.concatenate([edges[edges < inner[0]], inner, edges[edges > inner[-1]]])
    mass = np.histogram(totals, edges)[0] / totals.size
    if bins < LEAST_BINS:
        # Binomial smoothing, 1/4 1/2 1/4.
        padded = np.pad(mass, 1, mode="edge")
        mass = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    return TotalLaw(edges.astype(np.int64), (1 - SPREAD_SHARE) * mass / mass.sum() + SPREAD_SHARE / mass.size)


def _list_fold_edges(most: int) -> Ints:
    """List edges of bins of equal width in log(1 + N) that cover exactly the totals from 0 to `most`.

    Returns:
        int64, increasing, from 0 to `most + 1`, shape (bins + 1,): BINS_PER_FOLD bins for a factor e of 1 + N, rounded,
        and fewer where these would be narrower than one total.
    """
    folds = np.arange(BINS_PER_FOLD * np.log1p(most) + 1) / BINS_PER_FOLD
    return np.unique(np.append(np.minimum(np.expm1(folds).round(), most + 1), most + 1)).astype(np.int64)
