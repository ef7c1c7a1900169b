"""Pairs of variables to measure beside a network's tables: the candidates, and how many a budget affords.

Equal shares of epsilon give a cell of K tables noise of standard deviation `sqrt(2) K / epsilon` records; Gaussian
noise of a zero-concentrated loss rho has `sqrt(K / (2 rho))`. So many pairs are told well enough that this is no more
than a sampling error of n records, `sqrt(n)`, or than .005 n, to which a share is known well enough for any use: up to
40,000 records the first is more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple
from zlib import crc32

from discreet.model.network import Network
from discreet.model.query_grammar import Query, plain_queries
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CellLaw, DiscreteGaussian, DiscreteLaplace

SHARE_DEVIATION = 0.005
"""Largest standard deviation of noise in a share of a measured pair, however many the records."""
LEAST_PAIRS = 3
"""Pairs below which none is measured: too few to judge the network's misfit in the others."""
SELECTION_SHARE = Fraction(1, 4)
"""Share of the pairs' budget for selecting them if not all are measured."""
RANDOM_ONE_IN = 3
"""One in so many of the measured pairs is taken at random, so that what stays unmeasured can be judged by them."""
MOST_PAIRS = 1000
"""Most candidates of a network: all pairs of 45 variables. They are counted in some sixty scans of the records and
judged in seconds; of a larger network some stand for the others."""
MOST_PAIR_CELLS = 2**14
"""Most cells of a pair's table. In a larger one the noise of any share of a budget dominates."""


@lru_cache(maxsize=64)
def all_pairs(network: Network) -> tuple[Scope, ...]:
    """List every pair of variables that can depend and has no large table, in the schema's order.

    Of a large network 1,000 of them, which depends on the names alone: what is true of those is as likely to be true of
    the others, and no record has a say.

    Args:
        network: public.

    Returns:
        Pairs of names.

    Example:
        >>> from discreet.model.schema import Variable
        >>> bits = tuple(Variable(name, ("no", "yes")) for name in "abc")
        >>> all_pairs(Network(bits, {bit.name: () for bit in bits}))
        (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    sizes = {variable.name: variable.size for variable in network.variables if variable.size > 1}
    pairs = [pair for pair in combinations(sizes, 2) if sizes[pair[0]] * sizes[pair[1]] <= MOST_PAIR_CELLS]
    if len(pairs) > MOST_PAIRS:
        sample = set(sorted(pairs, key=lambda pair: (crc32("\0".join(pair).encode()), pair))[:MOST_PAIRS])
        pairs = [pair for pair in pairs if pair in sample]
    return tuple(pairs)


def queried_pairs(network: Network, queries: Sequence[str | Query]) -> tuple[Scope, ...]:
    """Every pair of variables that one query names together, evidence included, in the schema's order.

    Args:
        network: public.
        queries: over the network, text or parsed.

    Raises:
        InputError: a query that does not fit the network, or a text that is none.
    """
    wanted = set[frozenset[str]]()
    for query in plain_queries(queries, network):
        targets = [target if isinstance(target, str) else target[0] for target in query.targets] or network.nodes
        wanted |= {frozenset(pair) for pair in combinations({*targets, *dict(query.evidence)}, 2)}
    pairs = (pair for pair in combinations(network.nodes, 2) if frozenset(pair) in wanted)
    return tuple(pair for pair in pairs if _is_measurable(network, pair))


def _is_measurable(network: Network, pair: Scope) -> bool:
    """True if each of two variables has several states, and their table not too many cells."""
    return network.cells(pair) <= MOST_PAIR_CELLS and all(network.schema[name].size > 1 for name in pair)


def affordable_pairs(records: float, budget: Fraction, moved: int, law: type[CellLaw] = DiscreteLaplace) -> int:
    """Number of pairs that a budget can measure, each to within a sampling error or SHARE_DEVIATION.

    Args:
        records: a public number, or one that was released.
        budget: of all pairs together: epsilon of Laplace noise, rho of Gaussian noise.
        moved: most cells of one pair's table that neighbours differ in, each by one record.
        law: of the noise; of Gaussian noise the deviation grows with the root of the number of pairs.

    Example:
        >>> affordable_pairs(28_155, Fraction(1, 5), 1)
        23
        >>> affordable_pairs(28_155, Fraction(1, 1000), 1, DiscreteGaussian)
        56
    """
    return law.affordable(max(SHARE_DEVIATION * records, math.sqrt(max(records, 0.0))), budget, moved)


def count_pairs(affordable: int, candidates: int) -> int:
    """Number of pairs to measure.

    Args:
        affordable: as many as can be measured well.
        candidates: pairs that no table of the network's holds.

    Returns:
        All candidates where that many are affordable, or nearly: what choosing would cost buys a third more. Else some,
        or none where fewer than three are affordable.

    Example:
        >>> count_pairs(19, 9), count_pairs(2, 9)
        (9, 0)
    """
    if affordable >= (1 - SELECTION_SHARE) * candidates:
        return candidates
    return affordable if affordable >= LEAST_PAIRS else 0


def prefers_gaussian(epsilon: Fraction, rho: Fraction, moved: int, candidates: int) -> bool:
    """True if Gaussian noise on all candidates together has a smaller deviation than Laplace noise.

    Args:
        epsilon: of all of them, for Laplace noise.
        rho: of all of them, for Gaussian noise.
        moved: as of `affordable_pairs`.
        candidates: pairs.

    Returns:
        True for Gaussian noise.

    Example:
        >>> prefers_gaussian(Fraction(1), Fraction(1, 50), 1, 2), prefers_gaussian(Fraction(1), Fraction(1, 50), 1, 100)
        (False, True)
    """
    gaussian, laplace = DiscreteGaussian.variance_at, DiscreteLaplace.variance_at
    return gaussian(rho / candidates, moved) < laplace(epsilon / candidates, moved)


class PairPlan(NamedTuple):
    """Number of measured pairs, and the law of their noise."""

    pairs: int
    law: type[CellLaw]


def plan_pairs(records: float, candidates: int, epsilon: Fraction, rho: Fraction | None, moved: int) -> PairPlan:
    """Plan the second stage: the noise law that affords more pairs, and their number.

    Args:
        records: a public number, or one that was released.
        candidates: pairs that no table of the network's holds.
        epsilon: of all pairs together, for Laplace noise.
        rho: of all pairs together, for Gaussian noise; None where that cannot be had.
        moved: as of `affordable_pairs`.

    Example:
        >>> plan_pairs(28_155, 171, Fraction(4, 5), None, 1).pairs
        94
        >>> plan_pairs(28_155, 171, Fraction(4, 5), Fraction(1, 100), 1).law is DiscreteGaussian
        True
    """
    laplace = count_pairs(affordable_pairs(records, epsilon, moved), candidates)
    if rho is None:
        return PairPlan(laplace, DiscreteLaplace)
    gaussian = count_pairs(affordable_pairs(records, rho, moved, DiscreteGaussian), candidates)
    equal = gaussian == laplace and prefers_gaussian(epsilon, rho, moved, max(gaussian, 1))
    return PairPlan(gaussian, DiscreteGaussian) if gaussian > laplace or equal else PairPlan(laplace, DiscreteLaplace)


def chosen_pairs(number: int, candidates: int) -> int:
    """Count the measured pairs that are selected by misfit of the first stage; the rest are random.

    Args:
        number: of measured pairs.
        candidates: there are.

    Returns:
        None where all are measured.

    Example:
        >>> chosen_pairs(9, 100), chosen_pairs(9, 9)
        (6, 0)
    """
    return number - math.ceil(number / RANDOM_ONE_IN) if number < candidates else 0
