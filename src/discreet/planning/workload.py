"""Workload budgets: the variance that each table's noise adds to the answers, and shares that minimise it.

For small noise an answer moves by the inner product of the noise and its gradient by the cells of the families' tables.
Taken apart into interactions (`interactions.py`) the noise is independent between them, so that

    variance of an answer = (1 / records^2) sum over S of g_S h_S,

g_S the pooled variance of the interaction S and h_S the squared norm of the gradient's part in it. Budgets decide g;
h follows from the graph, the query and the probabilities. Those are private, so h is taken under draws from the prior.

This file reads no records and no release: what it plans may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from string import ascii_letters
from typing import assert_never

import numpy as np
import scipy
from scipy.sparse import csr_array

from discreet.errors import InputError
from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import Blur, centred, pooled_variances, subsets
from discreet.model.dirichlet import Dirichlet
from discreet.model.graphs import requisite
from discreet.model.network import Network
from discreet.model.query_grammar import (
    MostProbable,
    NumberQuery,
    PlainQuery,
    Probability,
    Query,
    asked_cells,
    check_names,
    observed_codes,
    plain_queries,
)
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.noise.noise_laws import CellLaw
from discreet.planning.star_cover import Group, group_costs, shared_by, star_lengths, star_noise_variances
from discreet.util.arrays import Floats, Ints, margin

Part = tuple[tuple[str, ...], Mapping[str, int], Ints]

FLOOR_SHARE = 0.2
"""Share of the budget that is split as without a workload: a table that no query needs keeps Laplace noise of at
most 5 times its usual standard deviation (Gaussian: 2.2), and the workload pays at most a quarter more error for it."""
PRIOR_DRAWS = 32
"""Draws from the prior; on asia, child and alarm another seed changed the error of a workload by less than 5%."""
SEARCH_STARTS = 8
"""Points from which the budgets are sought, for each power of the budget in the noise's precision; every second one is
without small margins. Of 64 workloads (all marginals, one conditional; asia, cancer, sachs, child, ALARM) 48 points
found 5 % less error than 16, and 16 % less than 8, where it was worst with Laplace noise; with Gaussian noise nothing
less than 8."""
LEAST_CONCENTRATION = 0.5
"""Concentration that draws from the prior have at least: draws nearer to 0 and 1 say little about other networks."""
SMALL_MARGIN = 2
"""Most variables of a margin that may have a separate table; larger ones would gain 4 % at most with Laplace noise, 2 %
with Gaussian (asia, child, ALARM)."""
LEAST_SHARE = 1e-3
"""Share of the workload's budget below which a margin is not measured."""
CHUNK_CELLS = 10_000_000
"""Entries of the gradients that are held at once: 80 MB."""


def default_shares(network: Network, groups: Sequence[Group], law: type[CellLaw]) -> dict[Group, float]:
    """Split the budget so that it serves all families alike.

    Proportional to a power of c, `share_power` of the law, with c the expected error at budget 1 of all families that
    are read from a group (`star_cover.group_costs`).

    Args:
        network: public.
        groups: tables alone, with Laplace noise stars; names in the schema's order.
        law: of the noise whose budget is shared.

    Returns:
        By group: positive, of sum 1.

    Raises:
        InputError: a family lies in no table, or a group serves no family.

    """
    costs = group_costs(network, groups)
    for group, cost in costs.items():
        if not cost:
            raise InputError(f"the table over {', '.join(group[0])} serves no family; leave it out")
    whole = sum(cost**law.share_power for cost in costs.values())
    return {group: cost**law.share_power / whole for group, cost in costs.items()}


def workload_variances(theta: Tables, queries: Sequence[PlainQuery]) -> tuple[dict[Scope, Floats], ...]:
    """First-order variance that each interaction's noise adds to each query's answers.

    Probabilities count with the squared errors of all their rows. `MAP(A, B | C=c)` and `MPE(| C=c)` count as
    `P(A | C=c)` and `P(B | C=c)` do together: these are what the most probable states are read from.

    Args:
        theta: probabilities with draws; none of them 0.
        queries: over the same network.

    Returns:
        For each query h by interaction S, shape `(draws,)`: with pooled variances g (`interactions.pooled_variances`)
        and n records the sum of the squared errors has expectation `sum_S g_S h_S / n^2`. Interactions that no answer
        depends on (of barren families, of families that the evidence cuts off) are absent.

    Raises:
        InputError: a query that does not fit the network, or is too large for exact inference.

    Source:
        Delta method; `query_error.row_effects` has the same by rows, at one table of probabilities, zeros among them.
    """
    variances = []
    for query in queries:
        check_names(query, theta.network.schema)
        gradients = _list_parts(theta.network, query)
        total: dict[Scope, Floats] = {}
        for gradient in gradients:
            for subset, squares in _sum_squares(theta, gradient).items():
                total[subset] = total.get(subset, 0.0) + squares
        variances.append(total)
    return tuple(variances)


def workload_shares(
    network: Network, prior: Dirichlet, queries: Sequence[str | Query], groups: Sequence[Group], law: type[CellLaw]
) -> dict[Group, float]:
    """Choose tables and shares of the budget that answer a workload best.

    Least mean logarithm of the standard deviation over queries and draws from the prior: a part of the budget that
    halves the error of one query is worth the same for every query, whether its evidence is frequent or rare. (The
    plain mean of standard deviations would follow the few draws with the rarest evidence.) To list a query twice
    doubles its weight. The share `FLOOR_SHARE` of the budget is given out as `default_shares` does.

    Args:
        network: public.
        prior: public; concentrations below `LEAST_CONCENTRATION` are raised to it.
        queries: text or parsed, at least one.
        groups: what is measured in any case: tables alone, with Laplace noise stars; names in the schema's order; every
            family lies in one of the tables.
        law: of the noise whose budget is shared.

    Returns:
        By group: positive, of sum 1. Besides the given groups perhaps families, single variables and pairs that lie in
        a table of theirs: a table of its own has less noise than the sums of a larger table's cells.

    Raises:
        InputError: no queries, none whose answer depends on the records, one that does not fit the network or is too
            large for exact inference, or scopes that do not fit (`default_shares`).

    Guarantee:
        None spent: a function of public arguments.

    Source:
        Delta method. For Gaussian noise a convex problem; for Laplace noise, where the precision grows with the square
        of a share, not: the best of a few fixed starts is taken. (The optimum over all Gaussian noise that is linear in
        the records measures interactions instead of tables: Xiao et al., 2023, ResidualPlanner.)
    """
    scopes, weights, squares = _differentiate_workload(network, prior, queries)
    floor = default_shares(network, groups, law)
    measured = {scope for group in groups for scope in group}
    families = dict.fromkeys(network.ordered(network.family(node)) for node in network.nodes)
    known = (*groups, *((family,) for family in families if family not in measured))
    margins = (scope for scope in scopes if scope not in measured and scope not in families)
    small = tuple((scope,) for scope in margins if 0 < len(scope) <= SMALL_MARGIN)
    every = (*known, *small)
    precisions = _tabulate_precisions(network, scopes, every, law)
    base = np.array([floor.get(group, 0.0) for group in every])
    # The gradient is 0 at a share of 0 and between two equivalent tables, so the search starts from random points.
    starts = [base, *np.random.default_rng(0).lognormal(size=(SEARCH_STARTS * law.order - 1, len(every)))]
    starts[1::2] = [start * (np.arange(len(every)) < len(known)) for start in starts[1::2]]
    shares = min(
        (_minimise_shares(start, base, precisions, weights, squares, law) for start in starts), key=lambda pair: pair[0]
    )[1]
    funded = (base > 0) | (shares > LEAST_SHARE)
    shares = np.where(funded, shares, 0) / shares[funded].sum()
    mixed = FLOOR_SHARE * base + (1 - FLOOR_SHARE) * shares
    return {group: float(share) for group, share, keep in zip(every, mixed, funded, strict=True) if keep}


def workload_error(
    network: Network, prior: Dirichlet, queries: Sequence[str | Query], blurs: Mapping[Scope, Blur]
) -> float:
    """Objective of `workload_shares` for given noise: mean log standard deviation of the answers.

    Args:
        network: public.
        prior: public; as for `workload_shares`.
        queries: text or parsed, at least one.
        blurs: what noise does to each table, by scope, names in the schema's order; records squared.

    Returns:
        The mean over queries and draws from the prior, up to a constant: the logarithm of the number of records.

    Raises:
        InputError: as `workload_shares` for the queries.

    Guarantee:
        None spent: a function of public arguments.
    """
    scopes, weights, squares = _differentiate_workload(network, prior, queries)
    pooled = pooled_variances(network, blurs)
    return float(weights @ np.log(squares @ np.array([pooled[subset] for subset in scopes])) / (2 * weights.sum()))


def _differentiate_workload(
    network: Network, prior: Dirichlet, queries: Sequence[str | Query]
) -> tuple[tuple[Scope, ...], Floats, Floats]:
    """List the interactions, and one row for each query and draw from the prior: its weight, and h."""
    parsed = plain_queries(queries, network)
    if not parsed:
        raise InputError("a workload needs at least one query, such as 'P(A | B=b)'")
    alpha = prior.alpha.map(lambda table: np.maximum(table, LEAST_CONCENTRATION))
    theta = Dirichlet(alpha).draw(PRIOR_DRAWS, rng=np.random.default_rng(0))
    scopes, weights, squares = _stack_rows(workload_variances(theta, parsed))
    if not len(squares):
        raise InputError("no answer of this workload depends on the records; plan without it, or ask something else")
    return scopes, weights, squares


# ------------------------------------------------------------------------------------------------------ gradients


def _list_parts(network: Network, query: PlainQuery) -> list[Part]:
    """List the probabilities to differentiate for a query: targets, evidence codes, and cells of the targets."""
    schema = network.schema
    evidence = observed_codes(query.evidence, schema)
    if isinstance(query, NumberQuery):
        query = query.bins
    if isinstance(query, MostProbable):
        names = query.targets or tuple(name for name in schema.names if name not in evidence)
        return [((name,), evidence, np.arange(schema[name].size)) for name in names]
    if isinstance(query, Probability):
        return [(tuple(name for name, _ in query.targets), evidence, asked_cells(query, schema))]
    assert_never(query)


def _sum_squares(theta: Tables, gradient_of: Part) -> dict[Scope, Floats]:
    """Sum the squared norms of the gradient's interactions over the cells that count; draws in chunks."""
    network, draws = theta.network, theta.draws or 1
    targets, evidence, counted = gradient_of
    bearing = requisite(network, targets, evidence)
    largest = max((network.cells(network.family(node)) for node in bearing), default=1)
    size = max(1, CHUNK_CELLS // (largest * network.cells(targets)))
    squares_of: dict[Scope, list[Floats]] = {}
    for start in range(0, draws, size):
        chosen = slice(start, min(start + size, draws))
        chunk = Tables(
            network, {node: table[..., chosen] for node, table in theta.items()}, draws=chosen.stop - chosen.start
        )
        gradient: dict[Scope, Floats] = {}
        for node in bearing:
            family = network.family(node)
            scope = network.ordered(family)
            table = _differentiate_counts(chunk, node, targets, evidence)[..., counted, :]
            table = table.transpose(*(family.index(name) for name in scope), table.ndim - 2, table.ndim - 1)
            for subset in subsets([scope]):
                spread_by = network.cells(subset) / network.cells(scope)
                change = centred(np.asarray(margin(table, scope, subset), np.float64), len(subset)) * spread_by
                # One interaction may lie in several families: their gradients add before they are squared.
                gradient[subset] = gradient[subset] + change if subset in gradient else change
        for subset, change in gradient.items():
            squares_of.setdefault(subset, []).append((change**2).reshape(-1, change.shape[-1]).sum(axis=0))
    return {subset: np.concatenate(squares) for subset, squares in squares_of.items()}


def _differentiate_counts(theta: Tables, node: str, targets: tuple[str, ...], evidence: Mapping[str, int]) -> Floats:
    """Differentiate `P(targets | evidence)` by the counts of a family, times the number of records.

    With f a cell of the family, `dP(t | e) / dtheta_f = (P(f, t | e) - P(f | e) P(t | e)) / theta_f`; a count moves its
    row's probabilities by what it adds, less the row's mean, over the row's records.

    Returns:
        Shape `(*family, cells of the targets, draws)`.
    """
    network = theta.network
    family = network.family(node)
    free = tuple(name for name in family if name not in evidence)
    both = _join_targets(theta, free, targets, evidence)
    axes = tuple(range(len(free)))
    change = both - both.sum(axis=-2, keepdims=True) * both.sum(axis=axes, keepdims=True)
    at_evidence = tuple(evidence.get(name, slice(None)) for name in family)
    table = theta[node][..., None, :]
    slopes = np.zeros((*network.shape(node), *both.shape[-2:]))
    slopes[at_evidence] = change / table[at_evidence]
    slopes -= (slopes * table).sum(axis=-3, keepdims=True)
    parents = network.parents[node]
    rows = Laws(theta).joint(parents) if parents else np.ones(theta.draws or 1)
    result: Floats = slopes / rows[..., None, None, :]
    return result


def _join_targets(theta: Tables, free: Scope, targets: Scope, evidence: Mapping[str, int]) -> Floats:
    """Compute `P(family, targets | evidence)`; shape `(*free, cells of the targets, draws)`."""
    network = theta.network
    names = targets + tuple(name for name in free if name not in targets)
    axes = dict(zip((*names, None), ascii_letters, strict=False))  # None: the draws
    again = dict(zip((name for name in free if name in targets), ascii_letters[::-1], strict=False))
    inputs = ["".join(axes.values()), *(axes[name] + letter for name, letter in again.items())]
    result = "".join(again.get(name, axes[name]) for name in free) + "".join(axes[name] for name in (*targets, None))
    same = [np.eye(network.schema[name].size) for name in again]
    table: Floats = np.einsum(f"{','.join(inputs)}->{result}", Laws(theta).joint(names, evidence), *same)
    return table.reshape(*(network.schema[name].size for name in free), network.cells(targets), -1)


# ------------------------------------------------------------------------------------------------------ budgets


def _stack_rows(variances: Sequence[Mapping[Scope, Floats]]) -> tuple[tuple[Scope, ...], Floats, Floats]:
    """Stack one row for each query and draw whose answer can move, over all interactions: its weight, and h."""
    scopes = tuple(dict.fromkeys(subset for by_subset in variances for subset in by_subset))
    rows, weights = [], []
    for by_subset in variances:
        if not by_subset:
            continue
        absent = np.zeros(len(next(iter(by_subset.values()))))
        table = np.stack([by_subset.get(subset, absent) for subset in scopes], axis=-1)
        # Draws that rounding or underflow destroyed are left out.
        table = table[np.isfinite(table).all(axis=-1) & (table.sum(axis=-1) > 0)]
        rows.append(table)
        weights.append(np.full(len(table), 1 / max(len(table), 1)))
    if not rows:
        return scopes, np.zeros(0), np.zeros((0, len(scopes)))
    return scopes, np.concatenate(weights), np.concatenate(rows)


def _tabulate_precisions(
    network: Network, listed: Sequence[Scope], groups: Sequence[Group], law: type[CellLaw]
) -> csr_array:
    """Tabulate the precision of interactions at budget 1, by group and interaction."""
    columns_of = {subset: column for column, subset in enumerate(listed)}
    rows, columns, values = list[int](), list[int](), list[float]()
    for row, group in enumerate(groups):
        blurs: tuple[Blur, ...] = (Blur(float(law.variance_at(Fraction(1), 1))),)
        if len(group) > 1:
            blurs = star_noise_variances(shared_by(group), star_lengths(network, group), 1.0)
        for scope, blur in zip(group, blurs, strict=True):
            for subset in subsets([scope]):
                if subset in columns_of:
                    rows.append(row)
                    columns.append(columns_of[subset])
                    values.append(network.cells(subset) / network.cells(scope) / blur.variance(subset))
    return csr_array((values, (rows, columns)), shape=(len(groups), len(listed)))  # sums precisions of several tables


def _minimise_shares(
    start: Floats, base: Floats, held: csr_array, weights: Floats, squares: Floats, law: type[CellLaw]
) -> tuple[float, Floats]:
    """Minimise the weighted sum of log variances over the workload's part of the budget.

    Args:
        start: of the shares, up to a factor.
        base: shares of the floor.
        held: precision by group and interaction at budget 1.
        weights: of the rows of `squares`.
        squares: h by row and interaction.
        law: of the noise, which says how a share becomes a precision.

    Returns:
        (least value found, shares of sum 1).
    """

    def value(logits: Floats) -> tuple[float, Floats]:
        shares = _softmax(logits)
        mixed = FLOOR_SHARE * base + (1 - FLOOR_SHARE) * shares
        # Precision is proportional to epsilon^2 or to rho; the whole budget is a factor.
        precision, slope = mixed**law.order, law.order * mixed ** (law.order - 1)
        pooled = 1 / (precision @ held)
        variances = squares @ pooled
        # Gradient of sum_r w_r log v_r by the precision of group g, with v_r = sum_S h_rS / (precision held)_S:
        # -sum_S held_gS pooled_S^2 sum_r (w_r / v_r) h_rS; then the chain rule of the mixture and the softmax.
        by_precision = -held @ (pooled**2 * ((weights / variances) @ squares))
        gradient = by_precision * slope * (1 - FLOOR_SHARE)
        return float(weights @ np.log(variances)), shares * (gradient - shares @ gradient)

    first = np.log(np.maximum(start / start.sum(), 1e-4))
    # The full name loads scipy.optimize here, not with every release.
    solution = scipy.optimize.minimize(value, first, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return float(solution.fun), _softmax(solution.x)


def _softmax(logits: Floats) -> Floats:
    """Map logits to positive shares of sum 1."""
    powers = np.exp(logits - logits.max())
    shares: Floats = powers / powers.sum()
    return shares
