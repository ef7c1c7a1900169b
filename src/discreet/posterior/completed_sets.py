"""The law of complete records of one measured set, if its values are missing at random.

A table tells the law of what was seen of its variables: `s` has a value of each, or that there is none. Of every draw
the law of complete records is found under which what was seen is most probable, with the model

    P(s) = c_s sum of theta(x) over all x that agree with s,

c_s the chance that of a record like this so much is missing, which depends on what is seen alone. Each round gives the
records of a pattern of gaps to complete records in the proportions that the last theta has for them. Whatever was
measured with a set, pairs beside the network among them, is completed by itself, so that it is not lost.

Source: Rubin (1976), missing at random; Dempster, Laird and Rubin (1977), EM, section 4.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from discreet.util.arrays import Floats

MOST_ROUNDS, LARGEST_CHANGE = 200, 1e-7
"""Most rounds, and the largest change of a share that ends them: a round leaves a part of the error that is the part of
the records with a gap, so that where half are missing the end is as far off as the last step."""
LEAST_SHARE = 1e-300
"""Stands for shares below floating point."""


def complete_set(law: Floats, gaps: Sequence[bool]) -> Floats:
    """Complete the law of what was seen of some variables, under every draw.

    Args:
        law: shape `(*sizes, draws)`; sums to 1 for each draw.
        gaps: of each variable, whether its last state says that the value is missing.

    Returns:
        Law of complete records, shape `(*complete sizes, draws)`: without these states. A draw in which nothing is seen
        is even.

    Example:
        >>> seen = np.array([[0.4, 0.1, 0.1], [0.1, 0.1, 0.2]])  # rows: no gap; columns: no, yes, missing
        >>> complete_set(seen[..., None], [False, True])[..., 0].round(2).tolist()
        [[0.48, 0.12], [0.2, 0.2]]
    """
    sizes = [size - gap for size, gap in zip(law.shape, gaps, strict=False)]
    patterns = list(product(*([False, True] if gap else [False] for gap in gaps)))
    parts = [
        law[tuple(slice(size, None) if gone else slice(size) for size, gone in zip(sizes, pattern, strict=True))]
        for pattern in patterns
    ]
    theta = np.full((*sizes, law.shape[-1]), 1 / np.prod(sizes))
    for _ in range(MOST_ROUNDS):
        before, theta = theta, np.zeros_like(theta)
        for pattern, part in zip(patterns, parts, strict=True):
            known = before.sum(axis=tuple(np.flatnonzero(pattern)), keepdims=True)
            theta += before * (part / np.maximum(known, LEAST_SHARE))
        if np.max(np.abs(theta - before), initial=0.0) < LARGEST_CHANGE:
            break
    return theta
