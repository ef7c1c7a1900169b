"""Loss functions of point estimates: best responses to draws, and the loss due to finitely many draws.

X is the quantity under a posterior, between public bounds a and b, F its distribution, F_N that of N draws, and R(r)
the expected loss of response r. The response is the best under F_N; its *regret* is `R(r) - min R`, under F.

**Confidence band of F.** With probability 1 - delta / 2, `|F - F_N| <= D` everywhere, with `D = sqrt(ln(4 / delta) / (2
N))` (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant). F then lies in a band. A bound that is valid for all
distributions in the band is valid for all losses at once, however they are chosen, because it uses the draws only
through the band.

**Pinball losses.** `p_q(x, r) = q (x - r)` for x >= r and `(1 - q) (r - x)` below. R has the derivative `F(r) - q`, so
`R(r) - R(s)` is the integral of `q - F` from r to s > r, or of `F - q` from s to r. The best s lies where F crosses q,
and with the least and the largest F of the band

    regret <= max(integral from r to b of (q - max(F_N - D, 0))+,  integral from a to r of (min(F_N + D, 1) - q)+),

which some F in the band attains. For the best r under F_N both integrands are at most D: regret <= D (b - a), whatever
the draws; where F is steep at q it decreases like 1 / N. The general argument (the means of a loss of variation V in x
differ by at most D V) gives twice that, and decreases like 1 / sqrt(N) at best. |x - r| is `2 p_(1/2)`. The interval
score of a level, `u - l + (2 / (1 - level)) ((l - x)+ + (x - u)+)`, is exactly `(2 / (1 - level)) (p_q(x, l) + p_(1 -
q)(x, u))` with `q = (1 - level) / 2`: its regret is at most the sum of the two.

**Squared loss.** The regret is `(m_N - m)^2`, the squared error of the mean. `m = b - integral of F`, so in the band
the error is at most `max(integral of min(F_N, D), integral of min(D, 1 - F_N)) <= D (b - a)`, which is never worse than
Hoeffding's inequality at delta / 2. With probability 1 - delta / 2 it is also at most `sqrt(2 V L / N) + 7 (b - a) L /
(3 (N - 1))`, V the variance of the draws and `L = ln(8 / delta)`; the smaller of the two bounds is used, as both hold
together with probability 1 - delta.

Sources: Massart, *Ann. Probab.* 18 (1990), Corollary 1; Anderson, *Stanford TR* 1 (1969), for means of a band; Maurer
and Pontil (COLT 2009), Theorem 4; Gneiting and Raftery, *JASA* 102 (2007), Section 6, for the losses. Compare
Dimitrakakis et al. (JMLR 2017), Lemma 11, which treats finitely many responses one by one.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, get_args

import numpy as np

from discreet.errors import InputError, shown
from discreet.util.arrays import Floats
from discreet.util.number_checks import positive, probability
from discreet.util.option_texts import LevelLoss, TableLoss

LOSSES, LEVEL_LOSSES = "|".join(get_args(TableLoss)), "|".join(get_args(LevelLoss))
Named: TypeAlias = float | tuple[float, float]
"""A response: a number, or the two ends of an interval."""


def band_width(draws: float, failure: float) -> float:
    """Compute the half-width of the distribution's confidence band: `sqrt(ln(4 / delta) / (2 N))`, at most 1.

    Args:
        draws: N, number of independent draws, or the effective sample size of others; need not be whole.
        failure: delta; half of it is used for the band.

    Returns:
        D.

    Raises:
        InputError: `draws` is not finite and greater than 0, or `failure` is outside (0, 1).

    Example:
        >>> round(band_width(1000, 0.05), 4), band_width(1, 0.05)
        (0.0468, 1.0)
    """
    positive(draws=draws)
    probability(failure=failure)
    return min(1.0, math.sqrt(math.log(4 / failure) / (2 * draws)))


@dataclass(frozen=True, eq=False)
class Band:
    """Confidence band of the distribution function of a quantity, from its draws; its arguments are not checked.

    Args:
        ordered: n draws of the quantity in ascending order, within the bounds, shape (draws,).
        low: a, smallest possible value of the quantity.
        high: b, largest possible value of the quantity.
        ess: N, effective sample size of the draws.
        failure: delta, probability with which a bound may fail, for all losses together.
    """

    ordered: Floats
    low: float
    high: float
    ess: float
    failure: float

    @cached_property
    def width(self) -> float:
        """Half-width `D = min(1, sqrt(ln(4 / failure) / (2 ess)))` of the band; computed once."""
        return band_width(self.ess, self.failure)

    @cached_property
    def _steps(self) -> tuple[Floats, Floats]:
        """Ends of the pieces on which the empirical distribution F_N is constant, and F_N on each piece; computed once.

        The ends are (`low`, `ordered`, `high`), shape (draws + 2,). The values are (0, 1/n, 2/n, ..., 1), shape (draws
        + 1,), with n the number of draws, whatever their effective sample size.
        """
        ends = np.concatenate([[self.low], self.ordered, [self.high]])
        return ends, np.arange(self.ordered.size + 1) / self.ordered.size

    def quantile_regret(self, q: float, response: float) -> float:
        """Compute the largest regret of a response in pinball loss, over all distributions in the band.

        With F_N the empirical distribution and D the half-width `width`, it is

            max(integral from r to high of (q - max(F_N - D, 0))+,  integral from low to r of (min(F_N + D, 1) - q)+).

        Args:
            q: level of the quantile, in (0, 1); not checked.
            response: r, within the bounds of the quantity; not checked.

        Returns:
            The bound, in the unit of the quantity; at least 0.
        """
        ends, shares = self._steps
        above = np.diff(np.maximum(ends, response)) @ np.maximum(q - np.maximum(shares - self.width, 0), 0)
        below = np.diff(np.minimum(ends, response)) @ np.maximum(np.minimum(shares + self.width, 1) - q, 0)
        return float(max(above, below))

    def mean_error(self) -> float:
        """Compute a bound on the absolute error of the mean of the draws: the smaller one of two.

        With F_N the empirical distribution, D the half-width `width`, N = `worth`, `L = ln(8 / failure)` and V the
        variance of the n draws with divisor n - 1 (0 for one draw):

            band       max(integral of min(F_N, D), integral of min(1 - F_N, D)),  both from low to high
            Bernstein  sqrt(2 V L / N) + 7 (high - low) L / (3 (N - 1))

        Returns:
            The smaller bound, in the unit of the quantity; if N is at most 1, that of the band.
        """
        ends, shares = self._steps
        lengths = np.diff(ends)
        # The band: |m_N - m| <= max(integral of min(F_N, D), integral of min(D, 1 - F_N)).
        by_band = max(float(lengths @ np.minimum(share, self.width)) for share in (shares, 1 - shares))
        if not self.ess > 1:
            return by_band
        log = math.log(8 / self.failure)
        spread = self.ordered.var() * self.ordered.size / max(self.ordered.size - 1, 1)
        # Empirical Bernstein bound: sqrt(2 V L / N) + 7 (b - a) L / (3 (N - 1)) (Maurer and Pontil, Theorem 4).
        far = math.sqrt(2 * spread * log / self.ess) + 7 * (self.high - self.low) * log / (3 * (self.ess - 1))
        return min(by_band, far)


@dataclass(frozen=True)
class Squared:
    """Squared loss `(x - r)^2` of a response r to the quantity x: the best response is the mean.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> loss = dc.decisions.Squared()
        >>> loss.best(np.array([0.0, 0.5, 1.0])), loss.of(np.array([0.0, 1.0]), 0.5).tolist()
        (0.5, [0.25, 0.25])
    """

    def best(self, ordered: Floats) -> float:
        """Compute the response with the least mean loss over posterior draws: the mean.

        Args:
            ordered: draws of the quantity, shape (draws,); their order does not matter.

        Returns:
            A number, in the unit of the quantity.
        """
        return float(ordered.mean())

    def of(self, draws: Floats, response: Named) -> Floats:
        """Compute the loss `(x - r)^2` of a response in each draw.

        Args:
            draws: x, draws of the quantity, any shape.
            response: r, a number.

        Returns:
            Losses, shape of the draws, in the squared unit of the quantity.
        """
        return np.asarray((draws - response) ** 2)

    def regret(self, band: Band, response: Named) -> float:
        """Bound the regret of the mean of the band's draws by the square of `band.mean_error()`.

        Args:
            band: draws, and the confidence band of their distribution.
            response: not used: the response is the mean of these draws.

        Returns:
            A bound on the expected loss beyond that of the best of all responses, in the squared unit of the quantity;
            it fails with probability at most `band.failure`.
        """
        return band.mean_error() ** 2

    def widest(self, width: float) -> float:
        """Compute the largest `regret` over all draws with a band of a given width, for quantities in [0, 1]: `D^2`.

        Args:
            width: D of the band, from 0 to 1.

        Returns:
            A bound that is valid for any draws.
        """
        return width**2

    def width_for(self, loss: float) -> float:
        """Compute the width D of the band at which `widest` equals a given loss: the root of the loss.

        Args:
            loss: at least 0, for quantities in [0, 1].

        Returns:
            D; above 1 if the loss is.

        Raises:
            ValueError: a negative loss.
        """
        return math.sqrt(loss)

    @property
    def power(self) -> int:
        """Power of the quantity's unit in the loss: 2."""
        return 2

    def __str__(self) -> str:
        """Return the name of the loss on the command line: "squared"."""
        return "squared"


class _Pinballs(ABC):
    """Loss that is a weight times a sum of pinball losses, one for each number of the response.

    The loss of the response r is `w * sum over i of (q_i - 1[x < r_i]) (x - r_i)`, with the weight w and the levels q_i
    of `parts`.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[float, tuple[float, ...]]:
        """Weight w, and in ascending order the levels q_i of the quantiles that are the best response."""

    def best(self, ordered: Floats) -> Named:
        """Compute the response with the least mean loss over posterior draws: a quantile, or two for an interval.

        The quantile of level q of n draws is the k-th smallest with `k = ceil(q n - 1e-9)`, at least 1 and at most n:
        the smallest draw with at least a fraction q of the draws at or below it. It is not interpolated.

        Args:
            ordered: at least one draw of the quantity, in ascending order, shape (draws,).

        Returns:
            A number, in the unit of the quantity; for an interval the tuple of its two ends.
        """
        positions = [min(max(math.ceil(q * ordered.size - 1e-9), 1), ordered.size) - 1 for q in self.parts[1]]
        quantiles = [float(ordered[position]) for position in positions]
        return quantiles[0] if len(quantiles) == 1 else (quantiles[0], quantiles[-1])

    def of(self, draws: Floats, response: Named) -> Floats:
        """Compute the loss of a response in each draw: `w * sum over i of (q_i - 1[x < r_i]) (x - r_i)`.

        Args:
            draws: x, draws of the quantity, any shape.
            response: r, a number; for an interval its two ends.

        Returns:
            Losses, shape of the draws, in the unit of the quantity.

        Raises:
            ValueError: a response with another number of ends than the loss has levels.
        """
        weight, levels = self.parts
        ends = zip(levels, np.atleast_1d(response), strict=True)
        return np.asarray(weight * sum((q - (draws < end)) * (draws - end) for q, end in ends))

    def regret(self, band: Band, response: Named) -> float:
        """Bound the regret of a response by `w * sum over i of band.quantile_regret(q_i, r_i)`.

        Args:
            band: draws, and the confidence band of their distribution.
            response: r, a number; for an interval its two ends.

        Returns:
            A bound on the expected loss beyond that of the best of all responses, in the unit of the quantity; it fails
            with probability at most `band.failure`.

        Raises:
            ValueError: a response with another number of ends than the loss has levels.
        """
        weight, levels = self.parts
        return weight * sum(
            band.quantile_regret(q, float(end)) for q, end in zip(levels, np.atleast_1d(response), strict=True)
        )

    def widest(self, width: float) -> float:
        """Compute the largest `regret` over all draws with a band of a given width: `w * number of levels * D`.

        Args:
            width: D of the band, from 0 to 1.

        Returns:
            A bound that is valid for any draws of a quantity in [0, 1].
        """
        return self.parts[0] * len(self.parts[1]) * width

    def width_for(self, loss: float) -> float:
        """Compute the width of the band at which `widest` equals a loss: `D = loss / (w * number of levels)`.

        Args:
            loss: at least 0, for quantities in [0, 1].

        Returns:
            D; not limited to 1.
        """
        return loss / self.widest(1.0)

    @property
    def power(self) -> int:
        """Power of the quantity's unit in the loss: 1."""
        return 1


@dataclass(frozen=True)
class Absolute(_Pinballs):
    """Absolute loss `|x - r|` of a response r to the quantity x: the best response is the median.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> dc.decisions.Absolute().best(np.array([0.0, 0.1, 1.0]))
        0.1
    """

    @property
    def parts(self) -> tuple[float, tuple[float, ...]]:
        """Weight 2 and the level 1/2."""
        return 2.0, (0.5,)

    def __str__(self) -> str:
        """Return the name of the loss on the command line: "absolute"."""
        return "absolute"


@dataclass(frozen=True)
class Quantile(_Pinballs):
    """Pinball loss: a response too low by one costs q, too high by one 1 - q; the best response is a quantile.

    Args:
        q: level of the quantile, in (0, 1).

    Raises:
        InputError: another level.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> loss = dc.decisions.Quantile(0.9)
        >>> loss.best(np.arange(10.0)), str(loss)
        (8.0, 'quantile:0.9')
    """

    q: float

    def __post_init__(self) -> None:
        """Raise an `InputError` unless 0 < q < 1."""
        probability(q=self.q)

    @property
    def parts(self) -> tuple[float, tuple[float, ...]]:
        """Weight 1 and the level q."""
        return 1.0, (self.q,)

    def __str__(self) -> str:
        """Return the name of the loss on the command line: "quantile:Q", Q without an exponent."""
        return f"quantile:{np.format_float_positional(self.q)}"


@dataclass(frozen=True)
class Interval(_Pinballs):
    """Interval score: the interval's length, plus 2 / (1 - level) times the quantity's distance from the interval.

    The best response is the interval with equal tails: the quantiles of the levels `(1 - level) / 2` and `(1 + level) /
    2`.

    Args:
        level: posterior probability of the interval, in (0, 1).

    Raises:
        InputError: another level.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> dc.decisions.Interval(0.8).best(np.arange(10.0))
        (0.0, 8.0)
    """

    level: float

    def __post_init__(self) -> None:
        """Raise an `InputError` unless 0 < level < 1."""
        probability(level=self.level)

    @property
    def parts(self) -> tuple[float, tuple[float, ...]]:
        """Weight `2 / (1 - level)` and the levels `(1 - level) / 2` and `(1 + level) / 2`."""
        return 2 / (1 - self.level), ((1 - self.level) / 2, (1 + self.level) / 2)

    def __str__(self) -> str:
        """Return the name of the loss on the command line: "interval:LEVEL", LEVEL without an exponent."""
        return f"interval:{np.format_float_positional(self.level)}"


NumberLoss: TypeAlias = Squared | Absolute | Quantile | Interval


def number_loss(loss: NumberLoss | str) -> NumberLoss:
    """Parse the name of a loss; return a loss unchanged.

    Args:
        loss: exactly "squared", "absolute", "quantile:Q" or "interval:LEVEL", the number in decimal digits without sign
            or exponent; or a loss.

    Returns:
        The loss.

    Raises:
        InputError: anything else, or a Q or LEVEL outside (0, 1).

    Guarantee:
        No budget is spent; nothing is read.

    Example:
        >>> import discreet as dc
        >>> dc.decisions.number_loss("quantile:0.9")
        Quantile(q=0.9)
    """
    if isinstance(loss, NumberLoss):
        return loss
    match = re.fullmatch(rf"({LOSSES})|({LEVEL_LOSSES}):(\d*\.?\d+)", loss) if isinstance(loss, str) else None
    if match is None:
        raise InputError(
            f"a loss is squared, absolute, quantile:Q or interval:LEVEL, such as quantile:0.9, not {shown(str(loss))}"
        )
    if match[1]:
        return Squared() if match[1] == "squared" else Absolute()
    return (Quantile if match[2] == "quantile" else Interval)(float(match[3]))
