"""Error bound of an estimate, for noise with a partly known distribution.

The docstring names the claim of the papers that it is based on; see `studies/experiments/paper_bounds.py`.
"""

from __future__ import annotations

import math

from scipy.special import gammainc

from discreet.util.number_checks import not_negative, probability


def largest_error(deviation: float, failure: float, *, integers: bool) -> float:
    """Compute a bound on an estimate's error that uses only a symmetric, log-concave law and its standard deviation.

    All linear functions of Laplace noise, Gaussian noise and star noise (that of tables which share variables, with
    noise that agrees on these; see `noise/star.py`) have such laws. With c = ln(1 / p) the bound is `t = c s / sqrt(2
    (1 - p (1 + c)))`, and `c sqrt(s^2 + 1/6) / sqrt(2 (1 - p (1 + c))) + 1` for whole numbers: the survival function G
    of the absolute error is log-concave, too, so at s' < t `G(s') >= p^(s' / t)` where G(t) = p, and the variance is at
    least twice the integral of `s' p^(s' / t)` up to t. As p approaches 1, t approaches s.

    Args:
        deviation: s, standard deviation of the error; at least 0.
        failure: p, largest probability with which the absolute error exceeds the bound.
        integers: whether the noise is whole numbers, which have no density: 1/6 is added to the variance and 1 to t.
            That is enough for discrete Laplace noise, as `1 / sinh(x)^2 >= 1 / x^2 - 1 / 3`; other tails are lighter.

    Returns:
        t, in the unit of the deviation; nearly attained by Laplace noise for small p.

    Raises:
        InputError: a negative or infinite deviation, or a probability outside (0, 1).

    Source:
        Derived; Zhang et al. (AAAI 2016), Proposition 1, for sums of noise in the place of single terms.

    Example:
        >>> round(largest_error(2**0.5, 0.01, integers=False), 2)  # Laplace noise of scale 1: 4.61
        4.74
    """
    not_negative(deviation=deviation)
    probability(failure=failure)
    exponent = -math.log(failure)
    spread = math.sqrt(deviation**2 + 1 / 6) if integers else deviation
    # 1 - p (1 + c) is the incomplete gamma function P(2, c): no difference of near-equal numbers for p near 1.
    return spread * exponent / math.sqrt(2 * float(gammainc(2, exponent))) + integers
