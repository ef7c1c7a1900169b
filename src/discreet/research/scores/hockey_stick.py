"""Delta at an epsilon (the hockey-stick divergence) of laws on a finite list, and its largest value by their range."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.privacy.guarantee import Guarantee, Relation
from discreet.util.arrays import Floats

METRIC_FACTOR = 4
"""Deltas by which the range of log ratios may exceed epsilon for each unit of a metric; see `pure_epsilon`."""


def range_delta(reach: float, epsilon: float) -> float:
    """Compute the largest delta at epsilon of two laws whose log ratio has a range R.

    It is `(1 - e^-((R - epsilon) / 2))^2 / (1 - e^-R)`, or 0 for R up to epsilon. With the ratio between `e^(t - R)`
    and `e^t` the worst law has these two values alone, as `(1 - e^epsilon x)+` is convex in `x = e^-loss`, whose mean
    is 1; the worst t is `(R + epsilon) / 2`.

    Args:
        reach: R, nats, at least 0.
        epsilon: nats, at least 0.

    Returns:
        Delta; attained.

    Source:
        Dong, Durfee and Rogers (ICML 2020), Lemma 3.4; docs/theory.md, section 9.

    Example:
        >>> range_delta(1.0, 1.0), round(range_delta(1.2, 1.0), 5)
        (0.0, 0.01296)
    """
    if reach <= epsilon:
        return 0.0
    return math.expm1((epsilon - reach) / 2) ** 2 / -math.expm1(-reach)


def pure_epsilon(epsilon: Fraction, guarantee: Guarantee) -> Fraction:
    """Compute the range of log ratios that keeps a guarantee under a metric, for each unit.

    With a range of `(epsilon + 4 delta) k` for k units, delta at `epsilon k` is by `range_delta`, with
    `d = 2 delta`, at most `(1 - e^-dk)^2 / (1 - e^-2dk) = tanh(d k / 2)`, which is less than `delta k`: Definition 2
    holds at every distance.

    Args:
        epsilon: of draws.
        guarantee: its relation and delta.

    Returns:
        `epsilon + 4 delta` under METRIC; else epsilon.
    """
    return epsilon + METRIC_FACTOR * guarantee.delta * (guarantee.relation is Relation.METRIC)


def hockey_stick(log_p: Floats, log_q: Floats, epsilon: float) -> Floats:
    """Compute `sum (p - e^epsilon q)+` over the last axis.

    Args:
        log_p, log_q: log probabilities, which are broadcast.
        epsilon: nats.

    Returns:
        Delta of the first law beside the second.

    Example:
        >>> float(hockey_stick(np.log([0.5, 0.5]), np.log([0.25, 0.75]), 0.0))
        0.25
    """
    gap = epsilon + log_q - log_p
    return np.asarray((np.exp(log_p) * -np.expm1(np.minimum(gap, 0.0))).sum(axis=-1))
