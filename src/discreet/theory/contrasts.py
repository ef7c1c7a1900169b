"""Contrasts: integer Fourier coordinates of family tables, what a record moves in them, and what noise on them does.

Tables whose families overlap repeat themselves; their components do not. The component of a set B of variables is the
B-margin of the counts, each axis replaced by the differences of neighbouring states, so it has the shape
`(states - 1 for b in B)`, and the components of all subsets of the families together determine all tables:

    component(B) = (Sub x ... x Sub) margin(B),    Sub = rows e_k - e_(k+1), one for k = 0 .. states - 2.

The component of the empty set is the number of records. For two states the component is the un-normalised Walsh
coefficient `H_B = sum over records of (-1)^(sum of the codes in B)`. Subsets are tuples of names in the schema's order,
as `Network.downward_closure` lists them. This file reads no records and draws no noise for a release.

Theory: Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Section "Laplace mechanism in the Fourier domain", for two
states; Xiao et al. (2023), ResidualPlanner, for the matrix Sub.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Array, Tables
from discreet.privacy.guarantee import Relation

__all__ = [
    "CoefficientSensitivity",
    "coefficients",
    "family_tables",
    "noise_covariance",
    "row_covariances",
    "sensitivity",
    "stealth_shift",
    "table_map",
]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SQUARE_LIMIT = 2**24
"""Most entries of a matrix over the cells of one table: 128 MB, a table of 4,096 cells."""
SEARCH_CELLS = 10_000_000
"""Most cells of all tables in the search for the sensitivity: a fraction of a second."""
CHUNK_COEFFICIENTS = 2**20
"""Coefficients of all draws of a chunk: 8 MB."""
CONFIDENCE = 0.999
"""Chance that the shift of a simulation is large enough for its probability."""


# ------------------------------------------------------------------------------------------ there and back


@dataclass(frozen=True)
class _Family:
    """Where the components of a family stand in its transformed table.

    Args:
        node: whose family it is.
        names: of the family, in the schema's order.
        sizes: states of each name.
        axes: of the table `(*parents, child)`, in the order of `names`.
        parts: every subset of the names, and its place: entry 0 of an axis is the sum over it, the rest are contrasts.
    """

    node: str
    names: Scope
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    parts: tuple[tuple[Scope, tuple[EllipsisType | slice | int, ...]], ...]


def _families(network: Network, nodes: Iterable[str]) -> Iterator[_Family]:
    """The families of some nodes."""
    rank = {name: position for position, name in enumerate(network.nodes)}
    for node in nodes:
        family = network.family(node)
        names = tuple(sorted(family, key=rank.__getitem__))
        subsets = [subset for size in range(len(names) + 1) for subset in combinations(names, size)]
        yield _Family(
            node,
            names,
            tuple(network.schema[name].size for name in names),
            tuple(family.index(name) for name in names),
            tuple((s, (..., *(slice(1, None) if name in s else 0 for name in names))) for s in subsets),
        )


@cache
def _contrasts(size: int) -> Integers:
    """Shape `(states, coefficients)`: the sum over the states, then the differences of neighbours."""
    matrix = np.eye(size, dtype=np.int64)
    matrix[:, 1:] = matrix[:, :-1] - np.eye(size, dtype=np.int64)[:, 1:]
    matrix[:, 0] = 1
    matrix.flags.writeable = False
    return matrix


@cache
def _inverse(size: int) -> Integers:
    """Shape `(coefficients, states)`: the inverse of the contrasts, times the number of states to keep it whole."""
    step = np.arange(1, size)[:, None]
    matrix = np.vstack([np.ones((1, size), np.int64), size * (np.arange(size) < step) - step]).astype(np.int64)
    matrix.flags.writeable = False
    return matrix


def _contract(table: Array, matrices: Iterable[Array], *, leading: int = 0) -> Array:
    """Contract the axes after the leading ones with the first axis of one array each; their other axes take over."""
    for matrix in matrices:
        # The axis to contract is always the first of those left: what a product makes goes to the end.
        table = np.tensordot(table, matrix, axes=(leading, 0))
    return table


def coefficients(tables: Tables) -> dict[Scope, Array]:
    """The components of consistent counts.

    Args:
        tables: integer counts, axes `(*parents, child)`, all of the same records: margins shared by families agree.
            Where they do not, a component is that of the first family that has it.

    Returns:
        For every subset of `network.downward_closure`, in its order: int64, shape `(states - 1 for b in B)`, unit:
        records; entries lie within plus and minus the number of records.

    Raises:
        InputError: the tables hold draws, or numbers that are no integers.

    Source:
        Zhang et al. (2016), Algorithm 2 and equation (1); Xiao et al. (2023) for more than two states.

    Example:
        >>> from discreet.model.schema import Variable
        >>> rain, wet = Variable("rain", ("no", "yes")), Variable("wet", ("dry", "damp", "wet"))
        >>> network = Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> found = coefficients(Tables(network, {"rain": [5, 4], "wet": [[3, 2, 0], [1, 1, 2]]}))
        >>> {subset: array.tolist() for subset, array in found.items()}
        {(): 9, ('rain',): [1], ('wet',): [1, 1], ('rain', 'wet'): [[1, 3]]}
    """
    network = tables.network
    if tables.draws is not None or not all(np.issubdtype(array.dtype, np.integer) for array in tables.values()):
        raise InputError("components are taken of counts: integer tables of shape (*parents, child), without draws")
    found: dict[Scope, Array] = {}
    for family in _families(network, network.maximal_families):
        table = tables[family.node].astype(np.int64).transpose(family.axes)
        table = _contract(table, map(_contrasts, family.sizes))
        for subset, place in family.parts:
            if subset not in found:
                found[subset] = table[place].copy()
    return {subset: found[subset] for subset in network.downward_closure}


def _scaled_table(family: _Family, components: Mapping[Scope, Array], leading: tuple[int, ...] = ()) -> Floats:
    """A family's table in the schema's order, times its number of cells: whole numbers for whole components."""
    table = np.empty((*leading, *family.sizes))
    for subset, place in family.parts:
        table[place] = components[subset]
    return _contract(table, (_inverse(size).astype(np.float64) for size in family.sizes), leading=len(leading))


def family_tables(network: Network, components: Mapping[Scope, Array]) -> Tables:
    """The family tables that have these components; the inverse of `coefficients`.

    Args:
        network: public.
        components: for every subset of `network.downward_closure`, shape `(states - 1 for b in B)`, unit: records; the
            empty one is the number of records. Any real numbers, such as noisy counts.

    Returns:
        float64 tables of all nodes, unit: records, of any sign. They are consistent: a margin that families share is
        the same in all of them, up to rounding, and each table sums to the empty component.

    Raises:
        InputError: a component is missing, unknown, or of another shape; the message names the subset.

    Source:
        Zhang et al. (2016), Theorem 2.

    Example:
        >>> from discreet.model.schema import Variable
        >>> network = Network((Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> family_tables(network, {(): np.array(9), ("rain",): np.array([1])})["rain"].tolist()
        [5.0, 4.0]
    """
    closure = network.downward_closure
    odd = sorted(set(components) ^ set(closure))
    if odd:
        raise InputError(f"components must name every subset of every family once; missing or unknown: {odd[:5]}")
    for subset in closure:
        wanted = tuple(network.schema[name].size - 1 for name in subset)
        if np.shape(components[subset]) != wanted:
            raise InputError(f"component of {subset} needs shape {wanted}, got {np.shape(components[subset])}")
    tables = {}
    for family in _families(network, network.nodes):
        table = _scaled_table(family, components) / math.prod(family.sizes)
        tables[family.node] = table.transpose(np.argsort(family.axes))
    return Tables(network, tables)


# ------------------------------------------------------------------------------------------ covariances


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
    cells = _squarable(network, node)
    (family,) = _families(network, (node,))
    unit = np.eye(cells).reshape(cells, *family.sizes)
    places = np.arange(cells).reshape(family.sizes)
    order = np.concatenate([places[place].ravel() for _, place in family.parts])
    images = _contract(unit[order], map(_inverse, family.sizes), leading=1)
    rows = images.transpose(0, *(1 + np.argsort(family.axes))).reshape(cells, cells)
    return np.ascontiguousarray(rows.T) / cells, [subset for subset, _ in family.parts]


def noise_covariance(network: Network, node: str, variances: Mapping[Scope, float]) -> Floats:
    """Covariance of a family's table under independent noise on the components.

    `cov = A diag(variances) A'` with A of `table_map`, summed as Kronecker products without it.

    Args:
        network: public.
        node: whose table is meant.
        variances: of the noise on each entry of a component, for every subset of the family, unit: records squared; 0
            where a component is exact, as the number of records is under REPLACE.

    Returns:
        Shape `(cells, cells)`, unit: records squared; cells in the order of `table.ravel()`.

    Raises:
        InputError: no such node, a table of more than 4,096 cells, or a variance that is missing, negative or not a
            finite number.

    Source:
        Xiao et al. (2023), for the variance; derived here for the covariance.
    """
    cells = _squarable(network, node)
    shape = network.shape(node)
    found = _contract(_by_membership(network, node, variances), map(_spreads, shape))
    axes = (*range(0, 2 * len(shape), 2), *range(1, 2 * len(shape), 2))
    return found.transpose(axes).reshape(cells, cells) / cells**2


def row_covariances(network: Network, node: str, variances: Mapping[Scope, float]) -> Floats:
    """Covariance within each row of a family's table under independent noise on the components.

    The blocks of `noise_covariance` on its diagonal, one for each parent configuration, at the cost of just them.

    Args:
        network: public.
        node: whose table is meant.
        variances: as for `noise_covariance`.

    Returns:
        Shape `(rows, states, states)`, unit: records squared; rows in the order of `table.reshape(-1, states)`.

    Raises:
        InputError: no such node, or a variance that is missing, negative or not a finite number.

    Source:
        As for `noise_covariance`.
    """
    *rows, states = network.shape(node)
    within = [np.diagonal(_spreads(size), axis1=1, axis2=2) for size in rows]
    found = _contract(_by_membership(network, node, variances), [*within, _spreads(states)])
    return found.reshape(-1, states, states) / network.cells(network.family(node)) ** 2


def _squarable(network: Network, node: str) -> int:
    """Cells of a node's table, if a matrix over them can be held."""
    cells = network.cells(network.family(node))
    if cells**2 > SQUARE_LIMIT:
        raise InputError(
            f"a matrix over the {cells:,} cells of the table of {node!r} is too large; ask for its rows one by one"
        )
    return cells


@cache
def _spreads(size: int) -> Integers:
    """Shape `(2, states, states)`: covariance per unit variance of the sum over the axis, and of its contrasts.

    Both times the squared number of states, to keep them whole.
    """
    inverse = _inverse(size)
    spreads = np.stack([np.ones((size, size), np.int64), inverse[1:].T @ inverse[1:]])
    spreads.flags.writeable = False
    return spreads


def _by_membership(network: Network, node: str, variances: Mapping[Scope, float]) -> Floats:
    """Variances in an array with one axis of (outside, inside) for each member of the family, in the table's order."""
    family = network.family(node)
    (listed,) = _families(network, (node,))
    found = np.empty((2,) * len(family))
    for subset, _ in listed.parts:
        if subset not in variances or not 0 <= variances[subset] < math.inf:
            raise InputError(f"the component of {subset} needs a variance: a finite number that is not negative")
        found[tuple(int(name in subset) for name in family)] = variances[subset]
    return found


# ------------------------------------------------------------------------------------------ sensitivity


@dataclass(frozen=True)
class CoefficientSensitivity:
    """How far one record can move all components together.

    Args:
        l1: bound on the sum of absolute changes, unit: records.
        exact: whether some pair of neighbours attains it.
    """

    l1: int
    exact: bool


def sensitivity(network: Network, relation: Relation, *, cell_limit: int = SEARCH_CELLS) -> CoefficientSensitivity:
    """How far one record can move the components of a network.

    ADD_REMOVE: `sum over B of prod over b in B of c_b`, with c_b = 0, 1, 2 for one, two, more states: a record adds a
    Kronecker product of columns of Sub to each component, and interior states have columns of L1 norm 2. The number of
    records is private and counts 1.

    REPLACE: the number of records is public and counts 0; for two records x, y the component of B moves by
    `prod n(x_b) + prod n(y_b) - prod s_b - prod t_b`, with n the L1 norms of the columns, s and t the scalar products
    of their absolute values and of themselves. The largest sum over B is found by bucket elimination over what can be
    chosen for each variable: at most four cases, whatever its number of states.

    Args:
        network: public.
        relation: what "neighbouring data sets" means in the guarantee.
        cell_limit: most cells of all tables of the elimination together; beyond it, buckets are split, which bounds the
            maximum from above.

    Returns:
        The bound, which is attained unless buckets were split. It is 0 under REPLACE if all variables have one state.

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
        >>> sensitivity(network, Relation.ADD_REMOVE), sensitivity(network, Relation.REPLACE)
        (CoefficientSensitivity(l1=4, exact=True), CoefficientSensitivity(l1=4, exact=True))
    """
    if not cell_limit > 0:
        raise InputError(f"the search needs a positive limit of cells, got {cell_limit}")
    match relation:
        case Relation.ADD_REMOVE:
            norms = {variable.name: _largest_norm(variable.size) for variable in network.variables}
            total = sum(math.prod(norms[name] for name in subset) for subset in network.downward_closure)
            return CoefficientSensitivity(total, exact=True)
        case Relation.REPLACE:
            return _largest_move(network, cell_limit)


@dataclass(frozen=True)
class _Part:
    """What a pair of records moves in some components, as a function of the cases of some variables.

    Args:
        scope: variables, in the order of elimination.
        moved: shape `(*cases of the scope)`, unit: records.
    """

    scope: Scope
    moved: Integers


def _largest_norm(size: int) -> int:
    """Largest L1 norm of a column of Sub."""
    return min(size - 1, 2)


@cache
def _cases(size: int) -> Integers:
    """What matters of a pair of states: rows n(x), n(y), s, t, a column for each case that can be part of a maximum.

    In a component let the two records have entries of the same sign in a places, of opposite signs in d, and only the
    one or the other an entry in e and g places. They move it by 2 d + e + g. One more variable makes this the sum of
    a, d, e, g with the weights below; none is negative, so a case is not needed if another has no smaller weight.
    """
    # Five states have every case there is: two ends, three interior ones, two of them no neighbours.
    columns = _contrasts(min(size, 5))[:, 1:]
    norms, overlap, product = np.abs(columns).sum(axis=1), np.abs(columns) @ np.abs(columns).T, columns @ columns.T
    pairs = np.ndindex(overlap.shape)
    found = sorted({(int(norms[x]), int(norms[y]), int(overlap[x, y]), int(product[x, y])) for x, y in pairs})
    weights = [(n + m - s - t, n + m - s + t, n, m) for n, m, s, t in found]
    kept = [
        case
        for case, own in zip(found, weights, strict=True)
        if not any(other != own and all(a <= b for a, b in zip(own, other, strict=True)) for other in weights)
    ]
    return np.array(kept, np.int64).T


def _largest_move(network: Network, cell_limit: int) -> CoefficientSensitivity:
    """The largest move over all pairs of records, or a bound on it."""
    cases = {variable.name: _cases(variable.size) for variable in network.variables}
    sizes = {name: found.shape[1] for name, found in cases.items() if found.shape[1] > 1}
    owned = list(_owned(network))
    scopes = [tuple(name for name in family.names if name in sizes) for family, _ in owned]
    order, exact = _elimination(scopes, sizes, cell_limit)
    rank = {name: position for position, name in enumerate(order)}
    # Where all would be too much, each step gets its share: the time stays within what the limit stands for.
    limit = cell_limit if exact else max(cell_limit // len(order), 1)
    total, parts = 0, []
    for (family, own), scope in zip(owned, scopes, strict=True):
        if math.prod(sizes[name] for name in scope) <= limit:
            parts.append(_moved(family, own, cases, rank))
        else:
            norms = (np.array([1, _largest_norm(size)]) for size in family.sizes)
            total += 2 * int(_contract(own, norms))
    return CoefficientSensitivity(total + _largest_sum(parts, order, limit), exact)


def _elimination(scopes: Sequence[Scope], sizes: Mapping[str, int], limit: int) -> tuple[list[str], bool]:
    """An order by the smallest clique, and whether the cells of all cliques stay within the limit.

    Beyond the limit it stops looking: the cliques of a dense graph would cost more than the sums over them.
    """
    near: dict[str, set[str]] = {name: {name} for name in sizes}
    for scope in scopes:
        for name in scope:
            near[name].update(scope)
    cells = {name: math.prod(sizes[other] for other in clique) for name, clique in near.items()}
    order: list[str] = []
    total = 0
    while near:
        name = min(near, key=cells.__getitem__)
        total += cells[name]
        if total > limit:
            return [*order, *sorted(near, key=cells.__getitem__)], False
        order.append(name)
        clique = near.pop(name) - {name}
        for other in clique:
            cells[other] *= math.prod(sizes[third] for third in clique - near[other])
            cells[other] //= sizes[name]
            near[other] |= clique
            near[other].remove(name)
    return order, True


def _owned(network: Network) -> Iterator[tuple[_Family, Integers]]:
    """Maximal families, and which components each accounts for: (outside, inside) for each name; the empty one none."""
    taken: set[Scope] = {()}
    for family in _families(network, network.maximal_families):
        own = np.zeros((2,) * len(family.names), np.int64)
        for subset, _ in family.parts:
            if subset not in taken:
                taken.add(subset)
                own[tuple(int(name in subset) for name in family.names)] = 1
        yield family, own


def _moved(family: _Family, own: Integers, cases: Mapping[str, Integers], rank: Mapping[str, int]) -> _Part:
    """What pairs of records move in the components that a family accounts for."""
    sums = [
        _contract(own, (np.stack([np.ones_like(cases[name][row]), cases[name][row]]) for name in family.names))
        for row in range(4)
    ]
    scope = tuple(sorted((name for name in family.names if name in rank), key=rank.__getitem__))
    axes = [family.names.index(name) for name in scope]
    fixed = [axis for axis in range(len(family.names)) if axis not in axes]
    moved = (sums[0] + sums[1] - sums[2] - sums[3]).transpose(*axes, *fixed)
    return _Part(scope, np.ascontiguousarray(moved).reshape(moved.shape[: len(axes)]))


def _largest_sum(parts: Sequence[_Part], order: Sequence[str], limit: int) -> int:
    """Bucket elimination for the largest sum; buckets too large for the limit are split, which can only add to it."""
    buckets: dict[str, list[_Part]] = {name: [] for name in order}
    total = 0
    for part in parts:
        if part.scope:
            buckets[part.scope[0]].append(part)
        else:
            total += int(part.moved)
    rank = {name: position for position, name in enumerate(order)}
    for name in order:
        for group in _groups(buckets.pop(name), limit):
            cases = {other: size for part in group for other, size in zip(part.scope, part.moved.shape, strict=True)}
            scope = tuple(sorted(cases, key=rank.__getitem__))
            moved = np.zeros([cases[other] for other in scope], np.int64)
            for part in group:
                moved += part.moved.reshape([cases[other] if other in part.scope else 1 for other in scope])
            largest: Integers = moved.max(axis=0)
            if len(scope) > 1:
                buckets[scope[1]].append(_Part(scope[1:], largest))
            else:
                total += int(largest)
    return total


def _groups(parts: Sequence[_Part], limit: int) -> list[list[_Part]]:
    """Parts in few groups, each with a sum of at most so many cells."""
    groups: list[tuple[dict[str, int], list[_Part]]] = []
    for part in sorted(parts, key=lambda part: -part.moved.size):
        sizes = dict(zip(part.scope, part.moved.shape, strict=True))
        for joint, members in groups:
            if math.prod({**joint, **sizes}.values()) <= limit:
                joint.update(sizes)
                members.append(part)
                break
        else:
            groups.append((sizes, [part]))
    return [members for _, members in groups]


# ------------------------------------------------------------------------------------------ no negative cells


def stealth_shift(
    network: Network,
    scale: float,
    probability: float,
    *,
    noisy_total: bool,
    rng: np.random.Generator,
    draws: int = 4000,
) -> int:
    """The pseudo-records that keep all cells of all noisy family tables from falling below 0.

    Simulates the noise alone, which is the worst case: cells without records. Added to the empty component, a shift s
    adds `s / cells` to every cell of a table; what a draw needs is `-(least cell) * cells`, at most over the families.

    Args:
        network: public.
        scale: of independent discrete Laplace noise on every entry of every component, unit: records.
        probability: that no cell is negative.
        noisy_total: whether the empty component is noisy too (ADD_REMOVE) or exact (REPLACE).
        rng: source of randomness; nothing here is private.
        draws: of all the noise. Ten times as many cost ten times as much and divide the excess by about three.

    Returns:
        The shift, unit: records, at least 0. It is an order statistic of the draws that is at least the quantile with
        confidence 99.9 %; so it is the smallest shift for a probability larger by up to about six standard errors,
        `sqrt(probability * (1 - probability) / draws)` each.

    Raises:
        InputError: a scale that is not positive and finite, a probability not between 0 and 1, or too few draws for it.

    Guarantee:
        None spent: reads no data. The shift inflates the number of records; subtract it from a total.

    Source:
        Replaces the shift `4 t |N_I|^2 / epsilon` of Zhang et al. (2016), Algorithm 2 and Corollary 3, which does not
        keep its promise for small t and is many times too large for others.
    """
    if not 0 < scale < math.inf:
        raise InputError(f"the noise needs a positive, finite scale, got {scale}")
    if not 0 < probability < 1:
        raise InputError(f"a probability lies between 0 and 1, got {probability}")
    enough = np.flatnonzero(bdtrc(np.arange(max(draws, 0)), draws, probability) <= 1 - CONFIDENCE)
    if not enough.size:
        least = math.ceil(math.log(1 - CONFIDENCE) / math.log(probability))
        raise InputError(f"probability {probability} needs at least {least:,} draws, got {draws}")
    families = list(_families(network, network.maximal_families))
    shapes = {s: tuple(network.schema[name].size - 1 for name in s) for s in network.downward_closure}
    chunk = max(1, CHUNK_COEFFICIENTS // sum(map(math.prod, shapes.values())))
    needed = np.zeros(draws)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        noise = {subset: _discrete_laplace(scale, (size, *shape), rng) for subset, shape in shapes.items()}
        if not noisy_total:
            noise[()] = np.zeros(size)
        for family in families:
            # Tables of other families are margins of these, and have a negative cell only if these do.
            least_cells = _scaled_table(family, noise, (size,)).reshape(size, -1).min(axis=1)
            np.maximum(needed[start : start + size], -least_cells, out=needed[start : start + size])
    return math.ceil(float(np.sort(needed)[enough[0]]))


def _discrete_laplace(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Variates with `P(k) ~ exp(-|k| / scale)`: differences of two geometric ones, whole parts of exponential ones."""
    one, other = (np.floor(scale * rng.standard_exponential(shape)) for _ in range(2))
    difference: npt.NDArray[Any] = one - other
    return difference
