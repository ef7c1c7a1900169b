"""Credible intervals of probabilities, from draws."""

from __future__ import annotations

import numpy as np

from discreet.errors import require
from discreet.util.arrays import Floats

TWO_PIECES_SHARE = 0.95
"""A region of two pieces is used if it is shorter than this fraction of the shortest interval; by chance alone it is
always a little shorter."""


def credible_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Compute intervals of posterior probability `level` for probabilities.

    They are equal-tailed, between the quantiles `(1 - level) / 2` and `(1 + level) / 2` of the draws (interpolated
    linearly), so that they exclude 0 and 1 if the draws do, with two exceptions. The shortest interval is the narrowest
    of those that contain `k = ceil(level n)` of n draws. A draw *reaches* 0 (or 1) if its distance from it is at most
    four times the typical gap between neighbouring draws, the width of the shortest interval over k.

    * If the shortest interval begins at the smallest draw and this draw reaches 0, the shortest interval is used, with
      0 as its lower end; and else likewise at 1.
    * If the draws have so wide a gap that the two pieces beside it, of k draws together, are together shorter than 0.95
      times the shortest interval (a nearly deterministic row whose likely state is unknown), the interval covers both
      pieces: its lower end is 0 if the smallest draw reaches 0, else the equal-tailed quantile; its upper end is 1 if
      the largest draw reaches 1, else the equal-tailed quantile. This exception goes before the first.

    Args:
        draws: posterior draws, shape `(..., draws)`, between 0 and 1, none of them NaN; a copy is sorted.
        level: posterior probability, between 0 and 1.

    Returns:
        (lower, upper), shape `(...)` each.

    Raises:
        InputError: a level outside (0, 1).

    Guarantee:
        No budget is spent; only draws of a posterior are read.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> lower, upper = dc.tools.credible_interval(np.linspace(0.2, 0.4, 101), 0.9)
        >>> float(lower.round(2)), float(upper.round(2))
        (0.21, 0.39)
        >>> float(dc.tools.credible_interval(np.linspace(0, 0.5, 101) ** 2, 0.9)[0])
        0.0
    """
    check_level(level)
    ordered = np.sort(draws, axis=-1)
    size = ordered.shape[-1]
    lower, upper = _read_quantile(ordered, (1 - level) / 2), _read_quantile(ordered, (1 + level) / 2)
    covered = min(size, int(np.ceil(level * size)))
    widths = ordered[..., covered - 1 :] - ordered[..., : size - covered + 1]
    shortest = widths.min(axis=-1)
    first, last = ordered[..., 0], ordered[..., -1]
    # "At 0" means within four typical gaps between draws: draws cannot distinguish such an end from 0.
    gap = 4 * shortest / covered
    at_zero = (widths[..., 0] == shortest) & (first <= gap)
    at_one = (widths[..., -1] == shortest) & (1 - last <= gap) & ~at_zero
    both = last - first - _find_gap(ordered, covered) < TWO_PIECES_SHARE * shortest
    near_zero, near_one = np.where(first <= gap, 0.0, lower), np.where(1 - last <= gap, 1.0, upper)
    lower = np.where(at_zero, 0.0, np.where(at_one, ordered[..., size - covered], lower))
    upper = np.where(at_one, 1.0, np.where(at_zero, ordered[..., covered - 1], upper))
    return np.where(both, near_zero, lower), np.where(both, near_one, upper)


def _read_quantile(ordered: Floats, level: float) -> Floats:
    """Read a quantile off draws in ascending order on the last axis, shape `(...)`, without sorting them again.

    It interpolates linearly between the draws beside position `level (n - 1)`, as numpy does.
    """
    whole, fraction = divmod(level * (ordered.shape[-1] - 1), 1)
    below, above = ordered[..., int(whole)], ordered[..., min(int(whole) + 1, ordered.shape[-1] - 1)]
    return np.asarray(below + (above - below) * fraction)


def _find_gap(ordered: Floats, held: int) -> Floats:
    """Find the longest gap between draws that leaves two pieces, each of at least as many draws as a tail.

    The lower piece has the smallest draws and the upper one the largest, `held` together. The `n - held` other draws
    lie in the gap, which runs from the last draw of the lower piece to the first of the upper. Each piece has at least
    `tail = max(1, (n - held) // 2)` draws.

    Args:
        ordered: n draws in ascending order, shape `(..., draws)`.
        held: number of draws in both pieces together.

    Returns:
        Length of the gap, shape `(...)`; 0 if `held` is less than two tails.
    """
    size = ordered.shape[-1]
    tail = max((size - held) // 2, 1)
    if held < 2 * tail:
        return np.zeros(ordered.shape[:-1])
    # A gap runs from the last draw of the lower piece to the first of the upper.
    stretches = ordered[..., size - held + tail : size - tail + 1] - ordered[..., tail - 1 : held - tail]
    return np.asarray(stretches.max(axis=-1))


def check_level(level: float) -> None:
    """Raise an error unless a level is strictly between 0 and 1.

    Args:
        level: posterior probability of an interval.

    Raises:
        InputError: it is 0 or less, 1 or more, or NaN.
    """
    require(0 < level < 1, f"a level lies between 0 and 1, such as 0.95; got {level}")
