"""What stands in the place of the papers' bounds where these are false; releases and answers do not need it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.queries.row_shares import row_effects
from discreet.reporting.explain import divergence_limits
from discreet.research.scores.contrasts import family_tables
from discreet.util.arrays import Floats

MOST_CELLS = 2**12
"""Of a table whose matrix is made."""


def dirichlet_kl(a: npt.ArrayLike, b: npt.ArrayLike) -> Floats:
    """Kullback-Leibler divergence of Dirichlet distributions, `KL(Dir(a) || Dir(b))`; convex in b.

    Args:
        a: concentrations, greater than 0; the last axis is that of the states.
        b: the same shape.

    Returns:
        Nats, one for each row.

    Raises:
        InputError: shapes differ, or a concentration is not positive and finite.

    Example:
        >>> dirichlet_kl([[1.0, 1.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]).round(4).tolist()
        [0.0, 0.1931]
    """
    one, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if one.shape != other.shape or not one.ndim:
        raise InputError(f"both sets of concentrations need the same shape, got {one.shape} and {other.shape}")
    for array in (one, other):
        if not (np.all(array > 0) and np.all(np.isfinite(array))):
            raise InputError("concentrations must be finite and greater than 0")
    total = one.sum(axis=-1)
    linear = (one - other) * (digamma(one) - digamma(total)[..., None])
    result: Floats = (
        gammaln(total) - gammaln(other.sum(axis=-1)) + (gammaln(other) - gammaln(one) + linear).sum(axis=-1)
    )
    # It is at least 0; for nearly equal arguments rounding may say otherwise.
    return np.maximum(result, 0, dtype=np.float64)


def posterior_divergence_limit(prior: Dirichlet, counts: Tables, noise: Mapping[str, float], most: float) -> float:
    """Largest KL of the exact posterior from the posterior of noisy counts, while no noise exceeds its bound.

    Args:
        prior: alpha.
        counts: N, assumed or public; records.
        noise: bound t on the noise in each cell of a node's table. With `largest_noise` for a failure delta the limit
            holds with probability 1 - delta.
        most: as for `divergence_limits`, whose sum over all rows it is.

    Returns:
        Nats.

    Raises:
        InputError: counts over another network, negative or larger than `most`, or a node without a bound.

    Source:
        As for `divergence_limits`.
    """
    if counts.network != prior.network or set(noise) != set(prior.network.nodes):
        raise InputError("the prior, the counts and the noise bounds must be for the same network")
    tables = prior.alpha.items()
    return math.fsum(float(divergence_limits(alpha, counts[node], noise[node], most).sum()) for node, alpha in tables)


def query_gradient(theta: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> dict[str, Floats]:
    """Derivative of `P(targets | evidence)` by every cell of every row, rows divided by their sums.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        By node: d P / d e at e = 0 where a row is `(theta + e) / sum(theta + e)`; shape
        `(*family, *sizes of the targets)`. Nodes that do not matter have zeros.

    Raises:
        InputError: as for `row_effects`.

    Source:
        As for `row_effects`; Darwiche (2003) for the polynomial.
    """
    effects = row_effects(theta, targets, evidence)
    return {node: effects.gradient(node) for node in theta.network.nodes}


def query_deviation(
    theta: Tables, variances: Mapping[str, npt.ArrayLike], targets: Sequence[str], evidence: Mapping[str, int]
) -> Floats:
    """Standard deviation of `P(targets | evidence)` from independent errors in the cells of the tables, to first order.

    Args:
        theta: probabilities, without draws; rows sum to 1.
        variances: by node, of the error of each cell before its row is divided by its sum; shape of the node's table.
            For noise of variance s2 on counts, `s2 / N^2` in a row of N records.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        Shape `(*sizes of the targets)`. First order: errors must be small beside the probabilities that matter, and
        counts that were clipped at 0 are biased besides.

    Raises:
        InputError: as for `query_gradient`, or variances that do not fit or are negative.

    Source:
        Delta method; computes what Chowdhury et al. (ICML 2020), Theorems 4.1 and 4.2, bound
        (`experiments.paper_bounds.sum_product_bounds`).
    """
    network = theta.network
    given = Tables(network, variances)
    for node in network.nodes:
        if not (np.all(given[node] >= 0) and np.all(np.isfinite(given[node]))):
            raise InputError(f"variances of {node!r} must be finite and at least 0")
    gradient = query_gradient(theta, targets, evidence)
    total = np.zeros(tuple(network.schema[name].size for name in targets))
    for node in network.nodes:
        total += np.tensordot(given[node].ravel(), gradient[node].reshape(given[node].size, *total.shape) ** 2, axes=1)
    return np.sqrt(total)


def table_map(network: Network, node: str) -> tuple[Floats, list[Scope]]:
    """The matrix from the components of a family to its table.

    Args:
        network: public.
        node: whose table is meant.

    Returns:
        (A, subsets): `table.ravel() = A @ concatenation of the subsets' components, each flattened`; A has the shape
        `(cells, cells)`, subsets are listed as in `network.downward_closure`.

    Raises:
        InputError: no such node, or a table of more than 4,096 cells.

    Source:
        Zhang et al. (2016), Theorem 2, as a matrix.

    Example:
        >>> from discreet.model.schema import Variable
        >>> table_map(Network((Variable("rain", ("no", "yes")),), {"rain": ()}), "rain")
        (array([[ 0.5,  0.5],
                [ 0.5, -0.5]]), [(), ('rain',)])
    """
    cells = network.cells(network.family(node))
    if cells > MOST_CELLS:
        raise InputError(f"a matrix over the {cells:,} cells of the table of {node!r} is too large")
    zeros = {each: np.zeros([network.schema[name].size - 1 for name in each]) for each in network.downward_closure}
    subsets = [each for each in zeros if set(each) <= set(network.family(node))]
    columns = []
    for subset in subsets:
        for place in np.ndindex(zeros[subset].shape):
            part = np.zeros(zeros[subset].shape)
            part[place] = 1
            columns.append(family_tables(network, {**zeros, subset: part})[node].ravel())
    return np.column_stack(columns), subsets
