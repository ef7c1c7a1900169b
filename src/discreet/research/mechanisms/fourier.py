"""Noise on integer contrasts of the family tables: the Fourier mechanism, Algorithm 2 of Zhang et al., corrected.

Corrections: exact integer noise; the scale is the exact sensitivity of all contrasts together, for each relation, where
the paper has twice their number; categorical variables have contrasts of neighbouring states; the shift that makes
tables non-negative is measured on noise alone, 18 times smaller than the printed one on the paper's own example, and
recorded, so that readers subtract it. Tables of families that share variables agree exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.mechanisms.table_scales import pure_only
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.records.counts import Counts
from discreet.research.kinds.noisy_contrasts import CoefficientNoise, NoisyCoefficients
from discreet.research.scores.contrasts import (
    FamilyComponents,
    coefficients,
    contract,
    contrasts,
    families,
    stealth_shift,
)
from discreet.util.arrays import Ints

# --------------------------------------------------------------------------------------------------------------------
# Sensitivity of all contrasts of a network together, to which the noise is calibrated: a maximum over pairs of records,
# found by bucket elimination over the few relevant cases of each variable.

SEARCH_CELLS = 10_000_000
"""Most cells of all tables in the search for the sensitivity: a fraction of a second."""


@dataclass(frozen=True)
class CoefficientSensitivity:
    """L1 sensitivity of all components together.

    Args:
        l1: bound on the sum of absolute changes, unit: records.
        exact: True if some pair of neighbours attains it.
    """

    l1: int
    exact: bool


def contrast_sensitivity(
    network: Network, relation: Relation, *, cell_limit: int = SEARCH_CELLS
) -> CoefficientSensitivity:
    """Compute the L1 sensitivity of a network's components.

    ADD_REMOVE: `sum over B of prod over b in B of c_b`, with c_b = 0, 1, 2 for one, two, more states: a record adds a
    Kronecker product of columns of Sub to each component, and interior states have columns of L1 norm 2. The number of
    records is private and counts 1.

    REPLACE: the number of records is public and counts 0; for two records x, y the component of B moves by
    `prod n(x_b) + prod n(y_b) - prod s_b - prod t_b`, with n the L1 norms of the columns, s and t the scalar products
    of their absolute values and of themselves. The largest sum over B is found by bucket elimination over the cases of
    each variable: at most four, for any number of states.

    Args:
        network: public.
        relation: of neighbouring data sets.
        cell_limit: most cells of all tables of the elimination together; beyond it, buckets are split, which bounds the
            maximum from above.

    Returns:
        The bound, which is attained unless buckets are split. It is 0 under REPLACE if all variables have one state.

    Raises:
        InputError: the limit is not positive.

    Guarantee:
        None spent: reads no data. Assumes one record per person.

    Source:
        Zhang et al. (2016), Corollary 2, has twice the number of subsets for REPLACE and two states, which is valid
        and not tight; the exact values are derived here. Dechter and Rish (2003), mini-buckets, for the bound.

    Example:
        >>> from discreet.model.schema import Variable
        >>> rain, wet = Variable("rain", ("no", "yes")), Variable("wet", ("no", "yes"))
        >>> network = Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> contrast_sensitivity(network, Relation.ADD_REMOVE), contrast_sensitivity(network, Relation.REPLACE)
        (CoefficientSensitivity(l1=4, exact=True), CoefficientSensitivity(l1=4, exact=True))
    """
    if not cell_limit > 0:
        raise InputError(f"the search needs a positive limit of cells, got {cell_limit}")
    if relation.by_record(add_remove=False, replace=True):
        return _find_largest_move(network, cell_limit)
    norms = {variable.name: _bound_norm(variable.size) for variable in network.variables}
    total = sum(math.prod(norms[name] for name in subset) for subset in network.downward_closure)
    return CoefficientSensitivity(total, exact=True)


@dataclass(frozen=True)
class _MovedComponents:
    """Change of some components between two records, as a function of the cases of some variables.

    Args:
        scope: variables, in the order of elimination.
        moved: shape `(*cases of the scope)`, unit: records.
    """

    scope: Scope
    moved: Ints


def _bound_norm(size: int) -> int:
    """Bound the L1 norm of a column of Sub."""
    return min(size - 1, 2)


@cache
def _list_cases(size: int) -> Ints:
    """List n(x), n(y), s, t of a pair of states, in a column for each case that can be part of a maximum.

    In a component let the two records have entries of the same sign in `a` positions, of opposite signs in d, and only
    the first or only the second an entry in e and g. The change is 2 d + e + g. One more variable makes this the sum of
    a, d, e, g with the weights below. None is negative, so a case is redundant if another has no smaller weight.
    """
    # Five states have all cases: two ends and three interior states, of which two are no neighbours.
    columns = contrasts(min(size, 5))[:, 1:]
    norms, overlap, product = np.abs(columns).sum(axis=1), np.abs(columns) @ np.abs(columns).T, columns @ columns.T
    pairs = np.ndindex(overlap.shape)
    cases = sorted({(int(norms[x]), int(norms[y]), int(overlap[x, y]), int(product[x, y])) for x, y in pairs})
    weights = [(n + m - s - t, n + m - s + t, n, m) for n, m, s, t in cases]
    needed = [
        case
        for case, row in zip(cases, weights, strict=True)
        if not any(rival != row and all(a <= b for a, b in zip(row, rival, strict=True)) for rival in weights)
    ]
    return np.array(needed, np.int64).T


def _find_largest_move(network: Network, cell_limit: int) -> CoefficientSensitivity:
    """Find the largest move over all pairs of records, or a bound on it."""
    cases = {variable.name: _list_cases(variable.size) for variable in network.variables}
    sizes = {name: columns.shape[1] for name, columns in cases.items() if columns.shape[1] > 1}
    assignments = list(_assign_components(network))
    scopes = [tuple(name for name in family.names if name in sizes) for family, _ in assignments]
    order, exact = _order_elimination(scopes, sizes, cell_limit)
    rank = {name: position for position, name in enumerate(order)}
    # Beyond the limit each step gets a share of it, which bounds the time.
    limit = cell_limit if exact else max(cell_limit // len(order), 1)
    total, tables = 0, []
    for (family, assigned), scope in zip(assignments, scopes, strict=True):
        if math.prod(sizes[name] for name in scope) <= limit:
            tables.append(_tabulate_move(family, assigned, cases, rank))
        else:
            norms = (np.array([1, _bound_norm(size)]) for size in family.sizes)
            total += 2 * int(contract(assigned, norms))
    return CoefficientSensitivity(total + _maximise_sum(tables, order, limit), exact)


def _order_elimination(scopes: Sequence[Scope], sizes: Mapping[str, int], limit: int) -> tuple[list[str], bool]:
    """Order the variables by the smallest clique; return the order, and if the cells of all cliques are in the limit.

    The search stops at the limit: the cliques of a dense graph would cost more than the sums over them.
    """
    near: dict[str, set[str]] = {name: {name} for name in sizes}
    for scope in scopes:
        for name in scope:
            near[name].update(scope)
    cells = {name: math.prod(sizes[neighbour] for neighbour in clique) for name, clique in near.items()}
    order: list[str] = []
    total = 0
    while near:
        name = min(near, key=cells.__getitem__)
        total += cells[name]
        if total > limit:
            return [*order, *sorted(near, key=cells.__getitem__)], False
        order.append(name)
        clique = near.pop(name) - {name}
        for neighbour in clique:
            cells[neighbour] *= math.prod(sizes[further] for further in clique - near[neighbour])
            cells[neighbour] //= sizes[name]
            near[neighbour] |= clique
            near[neighbour].remove(name)
    return order, True


def _assign_components(network: Network) -> Iterator[tuple[FamilyComponents, Ints]]:
    """Assign each component but the empty one to a maximal family, as a table with axes (outside, inside)."""
    taken: set[Scope] = {()}
    for family in families(network, network.maximal_families):
        assigned = np.zeros((2,) * len(family.names), np.int64)
        for subset, _ in family.positions:
            if subset not in taken:
                taken.add(subset)
                assigned[tuple(int(name in subset) for name in family.names)] = 1
        yield family, assigned


def _tabulate_move(
    family: FamilyComponents, assigned: Ints, cases: Mapping[str, Ints], rank: Mapping[str, int]
) -> _MovedComponents:
    """Tabulate the changes of a family's assigned components between pairs of records."""
    sums = [
        contract(assigned, (np.stack([np.ones_like(cases[name][row]), cases[name][row]]) for name in family.names))
        for row in range(4)
    ]
    scope = tuple(sorted((name for name in family.names if name in rank), key=rank.__getitem__))
    axes = [family.names.index(name) for name in scope]
    fixed = [axis for axis in range(len(family.names)) if axis not in axes]
    moved = (sums[0] + sums[1] - sums[2] - sums[3]).transpose(*axes, *fixed)
    return _MovedComponents(scope, np.ascontiguousarray(moved).reshape(moved.shape[: len(axes)]))


def _maximise_sum(tables: Sequence[_MovedComponents], order: Sequence[str], limit: int) -> int:
    """Maximise by bucket elimination; buckets beyond the limit are split, which can only increase the maximum."""
    buckets: dict[str, list[_MovedComponents]] = {name: [] for name in order}
    total = 0
    for table in tables:
        if table.scope:
            buckets[table.scope[0]].append(table)
        else:
            total += int(table.moved)
    rank = {name: position for position, name in enumerate(order)}
    for name in order:
        for group in _group_tables(buckets.pop(name), limit):
            cases = {node: size for table in group for node, size in zip(table.scope, table.moved.shape, strict=True)}
            scope = tuple(sorted(cases, key=rank.__getitem__))
            moved = np.zeros([cases[node] for node in scope], np.int64)
            for table in group:
                moved += table.moved.reshape([cases[node] if node in table.scope else 1 for node in scope])
            largest: Ints = moved.max(axis=0)
            if len(scope) > 1:
                buckets[scope[1]].append(_MovedComponents(scope[1:], largest))
            else:
                total += int(largest)
    return total


def _group_tables(tables: Sequence[_MovedComponents], limit: int) -> list[list[_MovedComponents]]:
    """Group tables into few groups, each with a sum of at most `limit` cells."""
    groups: list[tuple[dict[str, int], list[_MovedComponents]]] = []
    for table in sorted(tables, key=lambda table: -table.moved.size):
        sizes = dict(zip(table.scope, table.moved.shape, strict=True))
        for joint, members in groups:
            if math.prod({**joint, **sizes}.values()) <= limit:
                joint.update(sizes)
                members.append(table)
                break
        else:
            groups.append((sizes, [table]))
    return [members for _, members in groups]


SHIFT_SEED = 0
"""Seed of the Monte Carlo for the shift, which reads no data; a calibration must be reproducible."""


def fourier(*, stealth: float | None = None) -> Mechanism:
    """Release Fourier coefficients of the family counts with discrete Laplace noise; overlapping families share them.

    For each subset of a family's variables, these are sums of its table with weights that add to 0 over each of the
    variables: +1 and -1 for variables of two states.

    Args:
        stealth: probability with which all cells of all tables are non-negative for any data, by a public shift of the
            number of records; None adds no shift. Posteriors subtract the shift, so it only serves programs that cannot
            read negative counts.

    Returns:
        The mechanism.

    Raises:
        InputError: a probability that is not between 0 and 1; when a release is calibrated, a guarantee with a delta.

    Guarantee:
        Pure epsilon: the scale is S / epsilon with S the L1 sensitivity of all contrasts, or a proven upper bound if
        the exact maximum is too expensive (the calibration states which). Under REPLACE the number of records is public
        and released without noise. Unit: one record, counted whole.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 2 and Theorem 2; Barak et al. (2007) for the idea; the
        sensitivities are derived in `discreet.research.mechanisms.fourier`.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.research.fourier().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> noise.sensitivity, noise.scale, noise.exact  # four contrasts, each moved by one record by 1
        (4, 4.0, True)
    """
    if stealth is not None and not 0 < stealth < 1:
        raise InputError(f"stealth must be a probability between 0 and 1, got {stealth}")

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> CoefficientNoise:
        pure_only("fourier", guarantee)
        bound = contrast_sensitivity(network, guarantee.relation)
        scale, reported = scale_for(max(bound.l1, 1), guarantee.epsilon)
        noisy_total = not guarantee.relation.public_number
        shift = 0
        if stealth is not None:
            rng = np.random.default_rng(SHIFT_SEED)
            shift = stealth_shift(network, scale, stealth, noisy_total=noisy_total, rng=rng)
        return CoefficientNoise(max(bound.l1, 1), bound.exact, scale, shift, noisy_total, reported)

    def draw(statistic: Counts, prior: Dirichlet, calibration: CoefficientNoise, noise: Noise) -> NoisyCoefficients:
        exact = coefficients(statistic.tables)
        noised = [subset for subset in exact if subset or calibration.noisy_total]
        flat = np.concatenate([exact[subset].ravel() for subset in noised])
        ends = np.cumsum([exact[subset].size for subset in noised])[:-1]
        released = dict(exact)
        for subset, noisy in zip(noised, np.split(noise.discrete_laplace(flat, calibration.scale), ends), strict=True):
            released[subset] = noisy.reshape(exact[subset].shape)
        released[()] = released[()] + calibration.shift
        return NoisyCoefficients(
            statistic.network, released, calibration.scale, calibration.shift, calibration.noisy_total
        )

    return Mechanism("fourier", calibrate, draw)
