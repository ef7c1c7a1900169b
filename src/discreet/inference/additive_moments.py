"""Mean and covariance of an additive function of a record, in every draw, by variable elimination.

A factor has, for each state of its variables, a weight and the mean and covariance of the terms summed so far. In a
product weights multiply, and means and covariances add, because the parts behind two factors are independent given the
states that the factors share. Summing out a variable forms a mixture over its states.

Source: Li and Eisner (2009), the expectation semiring of second order, here with central moments, which do not cancel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.errors import InputError
from discreet.inference.exact_laws import CELL_BUDGET
from discreet.inference.junction_tree import elimination_order
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Floats

CLIQUE_NUMBERS = 2**20
"""Numbers of the largest clique in a chunk of draws: 8 MiB, the fastest size measured."""


def additive_moments(cells: Tables, terms: Mapping[Scope, Floats], most: int) -> tuple[Floats, Floats]:
    """Compute the mean of the vector `sum over sets S of terms[S][x_S]`, and the covariance of its first coordinates.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        terms: by set of variables, a vector of length r for each joint state, shape `(*sizes, r)`.
        most: number of leading coordinates whose covariance is computed, at most r.

    Returns:
        (means, shape (draws, r), covariances, shape (draws, most, most)).

    Raises:
        InputError: the network needs more cells than the budget.

    Example:
        >>> from discreet import Network, Variable
        >>> coin = Network((Variable("a", ("0", "1")),), {"a": ()})
        >>> theta = Tables(coin, {"a": [[0.5], [0.5]]}, draws=1)
        >>> mean, covariance = additive_moments(theta, {("a",): np.array([[0.0], [2.0]])}, 1)
        >>> float(mean[0, 0]), round(float(covariance[0, 0, 0]), 9)
        (1.0, 1.0)
    """
    steps, cost, widest = _plan_elimination(cells, tuple(terms))
    if cost > CELL_BUDGET:
        raise InputError(
            f"the scores of candidates need {cost:,} cells for each draw, more than the budget of {CELL_BUDGET:,}"
        )
    draws, length = cells.draws or 1, next(iter(terms.values())).shape[-1]
    size = max(1, CLIQUE_NUMBERS // (widest * (length + most * most)))
    chunks = [
        _compute_moments(cells, terms, most, steps, slice(at, min(at + size, draws))) for at in range(0, draws, size)
    ]
    return np.concatenate([mean for mean, _ in chunks]), np.concatenate([spread for _, spread in chunks])


@dataclass(frozen=True, eq=False)
class _Factor:
    """A factor: weights with conditional means and covariances of the terms summed so far; None stands for 0.

    Args:
        scope: variables of the factor.
        weight: non-negative, shape `(*sizes, draws)`.
        mean: shape `(*sizes, draws or 1, r)`.
        spread: covariances of the first coordinates, shape `(*sizes, draws or 1, most, most)`.
    """

    scope: Scope
    weight: Floats
    mean: Floats | None = None
    spread: Floats | None = None

    def over(self, scope: Scope) -> tuple[Floats, Floats | None, Floats | None]:
        """Align weights, means and covariances with the axes of a scope, of length 1 for absent variables."""

        def aligned(array: Floats) -> Floats:
            order = [self.scope.index(name) for name in scope if name in self.scope]
            moved = array.transpose(*order, *range(len(order), array.ndim))
            return moved[tuple(slice(None) if name in self.scope else None for name in scope)]

        mean, spread = self.mean, self.spread
        return (
            aligned(self.weight),
            None if mean is None else aligned(mean),
            None if spread is None else aligned(spread),
        )


def _plan_elimination(cells: Tables, scopes: tuple[Scope, ...]) -> tuple[list[Scope], int, int]:
    """Plan the elimination of some sets of variables and their ancestors.

    Args:
        cells: tables of the network.
        scopes: sets of variables, of which each becomes a subset of a clique.

    Returns:
        (cliques in order, the eliminated variable first; cells of all of them; cells of the largest).
    """
    network = cells.network
    names = network.ordered(network.ancestors(name for scope in scopes for name in scope))
    sizes = {name: network.schema[name].size for name in names}
    steps, cost = elimination_order([*scopes, *(network.family(name) for name in names)], sizes)
    return steps, cost, max(math.prod(sizes[name] for name in step) for step in steps)


def _compute_moments(
    cells: Tables, terms: Mapping[Scope, Floats], most: int, steps: list[Scope], chunk: slice
) -> tuple[Floats, Floats]:
    """Compute means and covariances in a chunk of draws by variable elimination.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        terms: vectors by set of variables, shape `(*sizes, r)`.
        most: number of coordinates whose covariance is computed.
        steps: cliques of the elimination; the first variable of each is summed out.
        chunk: slice of the draws.

    Returns:
        Shapes (draws, r) and (draws, most, most).
    """
    network, draws, length = cells.network, chunk.stop - chunk.start, next(iter(terms.values())).shape[-1]
    factors = [_Factor(network.family(step[0]), cells[step[0]][..., chunk]) for step in steps]
    factors += [_Factor(scope, np.ones((1,) * (len(scope) + 1)), term[..., None, :]) for scope, term in terms.items()]
    for step in steps:
        met = [factor for factor in factors if step[0] in factor.scope]
        factors = [factor for factor in factors if step[0] not in factor.scope]
        factors.append(_sum_out(_multiply_factors(met, step), most))
    end = _multiply_factors(factors, ())
    mean = np.zeros((draws, length)) if end.mean is None else np.broadcast_to(end.mean, (draws, length))
    spread = np.zeros((draws, most, most)) if end.spread is None else end.spread
    return mean, np.broadcast_to(spread, (draws, most, most))


def _multiply_factors(factors: list[_Factor], scope: Scope) -> _Factor:
    """Multiply factors on the axes of a scope: weights multiply, means and covariances add.

    Args:
        factors: their variables lie in the scope; without any the product is 1.
        scope: axes of the result, of length 1 for variables that no factor has.
    """
    weight: Floats = np.ones((1,) * (len(scope) + 1))
    mean: Floats | None = None
    spread: Floats | None = None
    for factor in factors:
        its_weight, its_mean, its_spread = factor.over(scope)
        weight = weight * its_weight
        mean, spread = _add_arrays(mean, its_mean), _add_arrays(spread, its_spread)
    return _Factor(scope, weight, mean, spread)


def _add_arrays(first: Floats | None, second: Floats | None) -> Floats | None:
    """Add two arrays, where None is 0."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _sum_out(factor: _Factor, most: int) -> _Factor:
    """Sum out the first variable: weights add; means and covariances are those of the mixture over its states.

    A covariance is the weighted mean of the states' covariances plus the covariance of their means. Where all weights
    are 0, means and covariances become 0. A factor without a mean has none afterwards, and no covariance.

    Args:
        factor: with at least one variable.
        most: number of coordinates whose covariance is computed.
    """
    total = factor.weight.sum(axis=0)
    share = np.divide(factor.weight, total, out=np.zeros_like(factor.weight), where=total > 0)[..., None]
    mean, spread = factor.mean, factor.spread
    if mean is None:
        return _Factor(factor.scope[1:], total)
    middle = (share * mean).sum(axis=0)
    # Covariance of a mixture: covariance of the means plus mean covariance. Taking the root of each share on both
    # sides keeps the product symmetric, without negative eigenvalues.
    centred = np.moveaxis(np.sqrt(share) * (mean[..., :most] - middle[..., :most]), 0, -2)
    covariance = np.swapaxes(centred, -1, -2) @ centred
    if spread is not None:
        covariance = covariance + (share[..., None] * spread).sum(axis=0)
    return _Factor(factor.scope[1:], total, middle, covariance)
