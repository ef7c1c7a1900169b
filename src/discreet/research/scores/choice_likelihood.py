"""Marginal likelihood of a choice among public candidates: `p(z | theta) = E[P(z | X)]`.

The expectation is over data sets X of n records from a law theta, and `P(z | X) ~ exp(base_z + sum_i log phi(x_i, z))`.
It is computed exactly, between two bounds, and by a central limit theorem, and also for several choices at once, which
are independent given the records. Nothing here reads records.

Continuous records are represented by weighted points: record types may be complete, or points of an integration rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp, xlogy

from discreet.errors import InputError
from discreet.util.arrays import Floats, Ints

NATS_LIMIT = 500
"""Widest log factor of a record: beyond it a ratio overflows, and the guarantee is meaningless."""
COMPOSITIONS_LIMIT, TERMS_BLOCK = 1_000_000, 2**21
"""Most histograms of n records in the exact sum, and most of its terms in memory at once: 16 MiB."""
COVARIANCE_JITTER = 1e-10
"""Share of a covariance's trace that is added, so that a singular one has a root."""
RANK_TOLERANCE = 1e-9
"""Least singular value of a direction, relative to the largest; smaller ones are rounding errors."""


def exact_log_marginal(probabilities: npt.ArrayLike, log_phi: npt.ArrayLike, records: int) -> Floats:
    """Compute `ln p(z | theta)` over all histograms of n records: `sum_c P(c | theta) softmax_z(c . log phi)`.

    Args:
        probabilities: of the T record types under each law, shape (..., T).
        log_phi: `epsilon f` of each type and candidate, nats, shape (..., T, Z); leading axes broadcast with those of
            `probabilities`.
        records: n, at least 0.

    Returns:
        Shape (..., Z).

    Raises:
        InputError: as for `lower_log_marginal`, or more than a million histograms, `C(n + T - 1, T - 1)`.

    Guarantee:
        None spent, none given: no record is read.

    Source:
        Williams and McSherry (2010), equation (3) with equation (2).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> coin = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1)
        >>> law = dc.research.exact_log_marginal([0.8, 0.2], 2 * coin.log_factors([0, 1]), 1)
        >>> np.exp(law).round(4).tolist()
        [0.5396, 0.4604]
    """
    laws, phi, _ = _check_laws(probabilities, log_phi, records)
    types = laws.shape[-1]
    if records != int(records):
        raise InputError(f"the number of records must be a whole number, got {records}")
    table = _list_histograms(records, types)
    shape = (*np.broadcast_shapes(laws.shape[:-1], phi.shape[:-2]), phi.shape[-1])
    result = np.full(shape, -np.inf)
    size = max(1, TERMS_BLOCK // max(1, result.size))
    for start in range(0, len(table), size):
        counts = table[start : start + size]
        scores = counts @ phi
        choice = scores - logsumexp(scores, axis=-1, keepdims=True)
        coefficient = gammaln(records + 1) - gammaln(counts + 1).sum(axis=-1)
        chance = coefficient + xlogy(counts, laws[..., None, :]).sum(axis=-1)
        result = np.logaddexp(result, logsumexp(chance[..., None] + choice, axis=-2))
    return result


def lower_log_marginal(
    probabilities: npt.ArrayLike,
    log_phi: npt.ArrayLike,
    records: npt.ArrayLike,
    chosen: npt.ArrayLike | None = None,
    *,
    base: npt.ArrayLike = 0.0,
) -> Floats:
    """Bound `ln p(z | theta)` from below by `-ln sum_y exp(base_y - base_z) (E[phi(y, x) / phi(z, x)])^n`.

    By Jensen's inequality for 1 / t: the expectation of a reciprocal is at least the reciprocal of an expectation,
    which is a product over independent records.

    Args:
        probabilities: of the T record types, or of points, under each law, shape (..., T).
        log_phi: `epsilon f`, nats, shape (..., T, Z); leading axes broadcast with those of `probabilities`.
        records: n, at least 0, need not be whole; shape () or that of the leading axes.
        chosen: indices of the candidates in the result, shape (C,); None for all.
        base: log weights of the candidates before any record, shape (Z,).

    Returns:
        Shape (..., C).

    Raises:
        InputError: shapes that do not fit, invalid probabilities, factors wider than 500 nats, or a negative number.

    Guarantee:
        None spent, none given: no record is read.

    Source:
        Williams and McSherry (2010), equation (5a), with the sum inside the inverse and a power n on each term.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> coin = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1)
        >>> law = dc.research.lower_log_marginal([0.8, 0.2], 2 * coin.log_factors([0, 1]), 1)
        >>> np.exp(law).round(4).tolist()
        [0.4368, 0.4197]
    """
    laws, phi, n = _check_laws(probabilities, log_phi, records)
    weight = np.exp(phi)
    ratio = np.log(np.swapaxes(weight, -1, -2) @ (laws[..., None] / _take_chosen(weight, chosen)))
    before = np.broadcast_to(np.asarray(base, np.float64), phi.shape[-1:])
    return -np.asarray(logsumexp(n[..., None, None] * ratio + before[:, None] - _take_chosen(before, chosen), axis=-2))


def upper_log_marginal(
    probabilities: npt.ArrayLike,
    log_phi: npt.ArrayLike,
    records: npt.ArrayLike,
    chosen: npt.ArrayLike | None = None,
    *,
    base: npt.ArrayLike = 0.0,
) -> Floats:
    """Bound `ln p(z | theta)` from above by `base_z - q . base - H[q] + n ln E[phi(z, x) / prod_y phi(y, x)^q(y)]`.

    `ln sum_y w_y >= H[q] + sum_y q(y) ln w_y` for every law q over the candidates. Here `q ~ exp(base + n E f)`, one
    for each law of the records, which is nearly optimal for small epsilon. The bound can exceed 0.

    Args:
        probabilities, log_phi, records, chosen, base: as for `lower_log_marginal`.

    Returns:
        Shape (..., C).

    Raises:
        InputError: as for `lower_log_marginal`.

    Guarantee:
        None spent, none given: no record is read.

    Source:
        Williams and McSherry (2010), equation (5b), where q(y) is an exponent. Their proof adds `exp(H[q])` and
        `exp(sum q ln w)`; it must be their product, as the step is false with the sum.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> coin = dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1)
        >>> law = dc.research.upper_log_marginal([0.8, 0.2], 2 * coin.log_factors([0, 1]), 1)
        >>> np.exp(law).round(4).tolist()
        [0.5611, 0.5163]
    """
    laws, phi, n = _check_laws(probabilities, log_phi, records)
    before = np.broadcast_to(np.asarray(base, np.float64), phi.shape[-1:])
    score = before + n[..., None] * (laws[..., None, :] @ phi)[..., 0, :]
    log_q = score - logsumexp(score, axis=-1, keepdims=True)
    q = np.exp(log_q)
    entropy = (q * (before - log_q)).sum(axis=-1)
    geometric = (phi @ q[..., None])[..., 0]
    ratio = np.log((laws * np.exp(-geometric))[..., None, :] @ _take_chosen(np.exp(phi), chosen))[..., 0, :]
    return np.asarray(_take_chosen(before, chosen) + n[..., None] * ratio - entropy[..., None])


def clt_log_marginal(
    probabilities: npt.ArrayLike,
    log_phi: npt.ArrayLike,
    records: npt.ArrayLike,
    chosen: npt.ArrayLike | None = None,
    *,
    normals: npt.ArrayLike,
) -> Floats:
    """Estimate `ln p(z | theta)` by the mean of the choice's law over normal scores.

    Scores are sums over independent records, so approximately `N(n E f, n Cov f)`; the mean of `softmax(scores)` over
    fixed draws is smooth in the law. It is no bound, but for `n epsilon^2 Var(f)` above about 0.3 the bounds are loose.

    Args:
        probabilities, log_phi, records, chosen: as for `lower_log_marginal`.
        normals: standard normal draws, shape (draws, Z), such as `standard_normals(128, Z)`; the same for all laws.

    Returns:
        Shape (..., C).

    Raises:
        InputError: as for `lower_log_marginal`, or normals of another shape.
    """
    laws, phi, n = _check_laws(probabilities, log_phi, records)
    draws = np.asarray(normals, np.float64)
    if draws.ndim != 2 or not len(draws) or draws.shape[1] != phi.shape[-1]:
        raise InputError(f"normals need the shape (draws, {phi.shape[-1]}), got {draws.shape}")
    mean = (laws[..., None, :] @ phi)[..., 0, :]
    centred = phi - mean[..., None, :]
    covariance = np.swapaxes(centred * laws[..., None], -1, -2) @ centred
    return _take_chosen(normal_log_law(mean, covariance, n, draws), chosen)


def normal_log_law(mean: Floats, covariance: Floats, records: Floats, normals: Floats) -> Floats:
    """Compute the law of a choice with normal scores from the moments of one record's score, without checks.

    Args:
        mean: of `epsilon f`, nats, shape (..., Z).
        covariance: of the same, shape (..., Z, Z).
        records: n, shape (...).
        normals: as for `clt_log_marginal`.

    Returns:
        Logarithms of probabilities, shape (..., Z).
    """
    jitter = COVARIANCE_JITTER * np.trace(covariance, axis1=-2, axis2=-1) + np.finfo(np.float64).tiny
    root = np.linalg.cholesky(covariance + jitter[..., None, None] * np.eye(mean.shape[-1]))
    law = (np.sqrt(records)[..., None, None] * normals) @ np.swapaxes(root, -1, -2)
    law += (records[..., None] * mean)[..., None, :]
    law -= law.max(axis=-1, keepdims=True)
    np.exp(law, out=law)
    law /= law.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(law.mean(axis=-2)))


# ------------------------------------------------------------------------------------------------------ several choices


@dataclass(frozen=True, eq=False)
class Choices:
    """Choices from one or several lists of candidates: `P(z_1..z_k | X) = prod_j softmax(base + scores)[z_j]`.

    Args:
        base: log weights of all candidates before any record, list after list, shape (Z,).
        ends: end of each list among the candidates.
        chosen: for each list the indices of its chosen candidates, from its start.

    Raises:
        InputError: lists that do not partition the candidates, or a choice out of its list.
    """

    base: Floats
    ends: tuple[int, ...]
    chosen: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        sizes = np.diff((0, *self.ends))
        complete = len(self.ends) == len(self.chosen) and self.ends[-1:] == np.shape(self.base) and np.all(sizes > 0)
        if not (complete and np.all(np.isfinite(self.base))):
            raise InputError("each list of candidates needs an end, a choice and finite weights")
        if not all(0 <= index < size for size, indices in zip(sizes, self.chosen, strict=True) for index in indices):
            raise InputError("a chosen candidate is not in its list")

    def log_law(self, scores: Floats) -> Floats:
        """Compute `ln P(z_1..z_k | X)`, shape (...), from the sums of the records' scores, nats, shape (..., Z).

        Example:
            >>> Choices(np.zeros(2), (2,), ((1,),)).log_law(np.log([[3.0, 1.0]])).round(3).tolist()
            [-1.386]
        """
        total, start = np.zeros(scores.shape[:-1]), 0
        for end, indices in zip(self.ends, self.chosen, strict=True):
            logs = scores[..., start:end] + self.base[start:end]
            total += logs[..., list(indices)].sum(axis=-1) - len(indices) * logsumexp(logs, axis=-1)
            start = end
        return total


def exact_log_choices(choices: Choices, laws: Floats, log_phi: Floats, records: int) -> Floats:
    """Compute `ln p(z_1..z_k | theta)`, a sum over all histograms of n records.

    Args:
        choices: from one or several lists.
        laws: probabilities of the T record types, shape (D, T), rows sum to 1.
        log_phi: score of each type and candidate, nats, shape (T, Z).
        records: n, at least 0.

    Returns:
        Shape (D,).

    Raises:
        InputError: more than a million histograms.

    Source:
        Williams and McSherry (2010), equation (3), with the sum over data sets outside the product over choices.
    """
    table = _list_histograms(records, laws.shape[1])
    step = max(1, TERMS_BLOCK // log_phi.shape[1])
    law = np.concatenate([choices.log_law(table[at : at + step] @ log_phi) for at in range(0, len(table), step)])
    law += gammaln(records + 1) - gammaln(table + 1).sum(axis=1)
    logs, step = np.log(np.maximum(laws, np.finfo(np.float64).tiny)), max(1, TERMS_BLOCK // len(table))
    blocks = [logsumexp(logs[at : at + step] @ table.T + law, axis=1) for at in range(0, len(laws), step)]
    return np.concatenate(blocks)


def simulated_log_choices(
    choices: Choices, laws: Floats, log_phi: Floats, records: Ints, rng: np.random.Generator
) -> Floats:
    """Simulate `ln P(z_1..z_k | X)` for one data set X of each law; its exponential has the mean `p(z_1..z_k | theta)`.

    Args:
        choices, laws, log_phi: as for `exact_log_choices`.
        records: n of each law, shape (D,).
        rng: source of randomness.

    Returns:
        Shape (D,).
    """
    counts = rng.multinomial(records, laws / laws.sum(axis=1, keepdims=True))
    return choices.log_law(counts @ log_phi)


def clt_log_choices(choices: Choices, mean: Floats, covariance: Floats, directions: Floats, points: Floats) -> Floats:
    """Approximate `ln p(z_1..z_k | theta)` by normal scores, in the few dimensions in which they vary.

    Args:
        choices: from one or several lists.
        mean: of the sums of the records' scores, nats, shape (D, Z).
        covariance: of their coordinates along the directions, shape (D, r, r).
        directions: shape (r, Z).
        points: standard normal draws, shape (Q, r), such as `standard_normals(128, r)`; the same for all laws.

    Returns:
        Shape (D,).
    """
    jitter = COVARIANCE_JITTER * np.trace(covariance, axis1=1, axis2=2) + np.finfo(np.float64).tiny
    root = np.linalg.cholesky(covariance + jitter[:, None, None] * np.eye(len(directions)))
    step, blocks = max(1, TERMS_BLOCK // (len(points) * mean.shape[1])), []
    for at in range(0, len(mean), step):
        roots = np.swapaxes(root[at : at + step], 1, 2) @ directions
        blocks.append(logsumexp(choices.log_law(mean[at : at + step, None] + points @ roots), axis=1))
    return np.concatenate(blocks) - math.log(len(points))


def principal(table: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Find the directions that scores vary in, the widest first.

    Args:
        table: scores, shape (cells, Z).
        shares: how often a cell is met, shape (cells,), greater than 0.

    Returns:
        (coordinates of the cells, shape (cells, r), directions, shape (r, Z)), with `coordinates @ directions` equal to
        the table but for a shift of each row, which no choice feels; r is at most Z - 1.
    """
    centred = table - table.mean(axis=1, keepdims=True)
    _, widths, directions = np.linalg.svd(np.sqrt(shares / shares.max())[:, None] * centred, full_matrices=False)
    directions = directions[widths > RANK_TOLERANCE * max(widths[0], np.finfo(np.float64).tiny)]
    return centred @ directions.T, directions


# -------------------------------------------------------------------------------------------------------------- details


def _check_laws(
    probabilities: npt.ArrayLike, log_phi: npt.ArrayLike, records: npt.ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Check laws and factors: laws that sum to 1 to the last bits, factors around 0 (a shift cancels), and n."""
    laws, phi, n = (np.asarray(array, np.float64) for array in (probabilities, log_phi, records))
    if laws.ndim < 1 or phi.ndim < 2 or not phi.size or laws.shape[-1] != phi.shape[-2]:
        raise InputError(f"laws need the shape (..., T) and factors (..., T, Z), got {laws.shape} and {phi.shape}")
    total = laws.sum(axis=-1, keepdims=True)
    if not (np.all(laws >= 0) and np.all(np.abs(total - 1) < 1e-9)):
        raise InputError("probabilities of record types must be at least 0 and sum to 1")
    high, low = phi.max(axis=-1, keepdims=True), phi.min(axis=-1, keepdims=True)
    if not np.all(high - low <= NATS_LIMIT):
        raise InputError(f"a record's log factors may span at most {NATS_LIMIT} nats; epsilon is too large")
    if not np.all((n >= 0) & (n < np.inf)):
        raise InputError("numbers of records must be finite and at least 0")
    return laws / total, phi - (high + low) / 2, n


def _take_chosen(array: Floats, chosen: npt.ArrayLike | None) -> Floats:
    """Take the chosen entries of the last axis."""
    return array if chosen is None else array[..., np.asarray(chosen, np.int64)]


def _list_histograms(records: int, types: int) -> Ints:
    """List all histograms; refuse too many."""
    number = math.comb(int(records) + types - 1, types - 1)
    if number > COMPOSITIONS_LIMIT:
        raise InputError(
            f"{number:,} histograms are more than {COMPOSITIONS_LIMIT:,}; use a bound or the limit theorem"
        )
    return histograms(int(records), types)


def histograms(total: int, terms: int) -> Ints:
    """List all compositions of a whole number into ordered terms of at least 0.

    Args:
        total: at least 0.
        terms: number of terms, at least 1.

    Returns:
        Shape (compositions, parts), `C(total + parts - 1, parts - 1)` compositions.

    Example:
        >>> histograms(2, 2).tolist()
        [[0, 2], [1, 1], [2, 0]]
    """
    columns, left = np.zeros((1, 0), np.int64), np.array([total])
    for _ in range(terms - 1):
        origin = np.repeat(np.arange(len(left)), left + 1)
        starts = np.cumsum(left + 1) - (left + 1)
        term = np.arange(len(origin)) - starts[origin]
        columns, left = np.column_stack([columns[origin], term]), left[origin] - term
    return np.column_stack([columns, left])
