"""Convergence of Markov chains: R-hat and effective sample size, for many quantities at once.

Both are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021): each chain is split in two, draws are
replaced by normal scores of their ranks, and R-hat is the larger of that of the draws and that of their distances from
the median.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import ndtri

from discreet.errors import InputError
from discreet.posterior.joint_draws import LEAST_EFFECTIVE_DRAWS, Mixing
from discreet.util.arrays import Floats

LEAST_CHAIN_LENGTH = 8
"""Least number of draws of a chain. Each half then has four, the least for a variance and a lag."""


LARGEST_R_HAT = 1.01
"""R-hat up to which chains count as mixed (Vehtari et al., 2021)."""


def measure_mixing(draws: Floats, name: Callable[[int], str], sweeps: int) -> Mixing:
    """Compute effective sample size and R-hat of several quantities, and name the one of least effective sample size.

    Args:
        draws: shape `(quantities, chains, draws)`.
        name: function from the position of a quantity to its name, called once.
        sweeps: number of sweeps of each chain, warm-up included; returned as it is.

    Returns:
        Number of chains and sweeps, the least effective sample size with the name of that quantity (the first of
        equals), and the largest R-hat of all quantities, which may be that of another one.

    Raises:
        InputError: fewer than eight draws of a chain.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(2, 4, 500))
        >>> mixing = measure_mixing(draws, ["mean", "variance"].__getitem__, 500)
        >>> mixing.chains, mixing.worst in ("mean", "variance"), has_mixed(mixing)
        (4, True, True)
    """
    sizes, ratios = effective_size(draws), r_hat(draws)
    worst = int(np.argmin(sizes))
    return Mixing(draws.shape[1], sweeps, float(sizes[worst]), name(worst), float(ratios.max()))


def has_mixed(mixing: Mixing) -> bool:
    """True if the worst effective sample size is at least 400 and the largest R-hat at most 1.01; False for NaN.

    Args:
        mixing: mixing of the chains.

    Example:
        >>> has_mixed(Mixing(4, 1000, 399.0, "P(a=yes)", 1.0))
        False
    """
    return mixing.effective >= LEAST_EFFECTIVE_DRAWS and mixing.r_hat <= LARGEST_R_HAT


def describe_mixing(mixing: Mixing) -> str:
    """Describe the mixing of chains, and the limits of `has_mixed`, in half a sentence.

    It names the worst entry with its effective sample size, as a whole number, and R-hat with three decimals. It does
    not say whether the limits are met.

    Args:
        mixing: mixing of the chains.

    Example:
        >>> describe_mixing(Mixing(4, 1000, 12.0, "P(a=yes)", 1.2))
        'P(a=yes) is worth 12 independent draws of 400, R-hat is 1.200 (at most 1.01)'
    """
    return (
        f"{mixing.worst} is worth {mixing.effective:.0f} independent draws of {LEAST_EFFECTIVE_DRAWS}, R-hat is "
        f"{mixing.r_hat:.3f} (at most {LARGEST_R_HAT})"
    )


def r_hat(draws: npt.ArrayLike) -> Floats:
    """Compute R-hat: the root of the pooled variance over that within chains; above 1.01 they have not mixed.

    Chains are split in halves, and draws replaced by normal scores of their ranks. The result is the larger of R-hat of
    the draws and of their distances from the median over all chains.

    Args:
        draws: shape `(quantities, chains, draws)`; the middle draw of a chain of odd length is left out.

    Returns:
        Shape `(quantities,)`; 1 for a constant quantity, infinite for half chains that are constant at different
        values.

    Raises:
        InputError: fewer than eight draws of a chain.

    Source:
        Vehtari et al. (2021), equations 1 to 4 and Section 4.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(1, 4, 500))
        >>> apart = draws + np.arange(4)[:, None]  # four chains that stay where they began
        >>> bool(r_hat(draws)[0] < 1.01), bool(r_hat(apart)[0] > 1.2)
        (True, True)
    """
    split = _split_chains(draws)
    folded = np.abs(split - np.median(split, axis=(1, 2), keepdims=True))
    return np.asarray(np.maximum(_compute_plain_r_hat(_score_ranks(split)), _compute_plain_r_hat(_score_ranks(folded))))


def effective_size(draws: npt.ArrayLike) -> Floats:
    """Compute the bulk effective sample size: the number of independent draws with the same error of the mean.

    It is that of the normal scores of the draws' ranks among all chains, and chains are split in halves: chains that
    differ, or drift, have a small one. The size is n / time with `time = 2 sum(P) - 1`, where P_t is the sum of the
    autocorrelations at lags 2t and 2t + 1. The sum ends before the first P_t that is not positive; a P_t larger than an
    earlier one is lowered to it.

    Args:
        draws: shape `(quantities, chains, draws)`; the middle draw of a chain of odd length is left out.

    Returns:
        Shape `(quantities,)`, at most `n log10(n)` for n draws of all chains together (without middle draws), which
        exceeds n for antithetic chains; n for a constant quantity.

    Raises:
        InputError: fewer than eight draws of a chain.

    Source:
        Vehtari et al. (2021), equations 5 to 12, with Geyer's (1992) initial monotone sequence.

    Example:
        >>> steps = np.random.default_rng(0).normal(size=(1, 4, 500))
        >>> bool(effective_size(steps)[0] > 1500), bool(effective_size(np.cumsum(steps, axis=-1))[0] < 100)
        (True, True)
    """
    scores = _score_ranks(_split_chains(draws))
    _, chains, length = scores.shape
    centred = scores - scores.mean(axis=-1, keepdims=True)
    # Autocovariances by the FFT (Wiener-Khinchin), padded to avoid wrap-around.
    size = scipy.fft.next_fast_len(2 * length)
    spectrum = np.abs(scipy.fft.rfft(centred, size, axis=-1)) ** 2
    autocovariance = scipy.fft.irfft(spectrum, size, axis=-1)[..., :length] / length
    within = autocovariance[..., 0].mean(axis=1) * length / (length - 1)
    # var+ = W (N - 1) / N + B / N, with W the variance within chains and B / N that of their means.
    pooled = within * (length - 1) / length + scores.mean(axis=-1).var(axis=1, ddof=1)
    moves = pooled > 0
    pooled = np.where(moves, pooled, 1)
    # Autocorrelation at lag t: 1 - (W - mean autocovariance) / var+.
    correlation = 1 - (within[:, None] - autocovariance.mean(axis=1) * length / (length - 1)) / pooled[:, None]
    correlation[:, 0] = 1
    # Geyer's initial monotone sequence: sums of neighbouring autocorrelations of a reversible chain are positive and
    # decreasing, so the sum is cut where they turn negative, and made monotone.
    pairs = correlation[:, : length // 2 * 2].reshape(len(correlation), -1, 2).sum(axis=-1)
    monotone = np.minimum.accumulate(np.cumprod(pairs > 0, axis=1) * np.maximum(pairs, 0), axis=1)
    time = -1 + 2 * monotone.sum(axis=1)
    # Antithetic chains have an effective size above the number of draws; it is limited to total log10(total).
    total = chains * length
    return np.asarray(np.where(moves, total / np.maximum(time, 1 / np.log10(total)), total))


def _split_chains(draws: npt.ArrayLike) -> Floats:
    """Split chains in halves; refuse chains that are too short. The middle draw of an odd number is left out.

    Args:
        draws: shape `(quantities, chains, draws)`.

    Returns:
        float64, shape `(quantities, 2 chains, draws // 2)`: the first halves of all chains, then the second halves.

    Raises:
        InputError: fewer than eight draws of a chain.
    """
    array = np.asarray(draws, np.float64)
    quantities, chains, length = array.shape
    if length < LEAST_CHAIN_LENGTH:
        raise InputError(
            f"chains of {length} draws are too short to be judged; at least {LEAST_CHAIN_LENGTH} are needed"
        )
    half = length // 2
    return np.concatenate([array[..., :half], array[..., length - half :]], axis=1).reshape(
        quantities, 2 * chains, half
    )


def _score_ranks(draws: Floats) -> Floats:
    """Replace draws by normal scores of their ranks among all draws of the quantity; equal draws get their mean rank.

    The score is the normal quantile of `(rank - 3/8) / (n + 1/4)`, n the number of draws of all chains.

    Args:
        draws: shape `(quantities, chains, draws)`.

    Returns:
        Same shape.
    """
    flat = draws.reshape(len(draws), -1)
    # By its full name scipy.stats is loaded here, and not with every command: only chains need it.
    ranks = scipy.stats.rankdata(flat, axis=1)
    # Blom's formula: the quantile of (rank - 3 / 8) / (n + 1 / 4).
    return np.asarray(ndtri((ranks - 0.375) / (flat.shape[1] + 0.25))).reshape(draws.shape)


def _compute_plain_r_hat(draws: Floats) -> Floats:
    """Compute R-hat of draws as they are: `sqrt((N - 1) / N + B / W)`.

    B is the variance between the means of chains, W the mean variance within, N the length of a chain; variances divide
    by their number less one.

    Args:
        draws: shape `(quantities, chains, draws)`; finite, and at least two in a chain.

    Returns:
        Shape `(quantities,)`; 1 for a constant quantity, infinite for chains that are constant at different values.
    """
    length = draws.shape[-1]
    between = draws.mean(axis=-1).var(axis=1, ddof=1)
    within = draws.var(axis=-1, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # sqrt(var+ / W) with var+ = W (N - 1) / N + B / N.
        ratio = np.sqrt((length - 1) / length + between / within)
    return np.where(within > 0, ratio, np.where(between > 0, np.inf, 1.0))
