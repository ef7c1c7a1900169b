"""Contrasts: integer Fourier coordinates of family tables, and the effects of a record and of noise on them.

Tables of overlapping families share margins; their components share nothing. The component of a set B of variables is
the B-margin of the counts, each axis replaced by the differences of neighbouring states. It has the shape
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
from collections.abc import Iterable, Iterator, Mapping
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
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats, Ints

CHUNK_COEFFICIENTS = 2**20
"""Number of coefficients of all draws in a chunk: 8 MB."""
SHIFT_CONFIDENCE = 0.999
"""Confidence that a simulated shift is large enough for its probability."""


# ------------------------------------------------------------------------------------------ transform and inverse


@dataclass(frozen=True)
class FamilyComponents:
    """Positions of a family's components in its transformed table.

    Args:
        node: child of the family.
        names: of the family, in the schema's order.
        sizes: states of each name.
        axes: of the table `(*parents, child)`, in the order of `names`.
        positions: every subset of the names with its index: entry 0 of an axis is the sum over it, the rest are
            contrasts.
    """

    node: str
    names: Scope
    sizes: tuple[int, ...]
    axes: tuple[int, ...]
    positions: tuple[tuple[Scope, tuple[EllipsisType | slice | int, ...]], ...]


def families(network: Network, nodes: Iterable[str]) -> Iterator[FamilyComponents]:
    """List the families of some nodes, with the positions of their components."""
    rank = {name: position for position, name in enumerate(network.nodes)}
    for node in nodes:
        family = network.family(node)
        names = tuple(sorted(family, key=rank.__getitem__))
        subsets = [subset for size in range(len(names) + 1) for subset in combinations(names, size)]
        yield FamilyComponents(
            node,
            names,
            tuple(network.schema[name].size for name in names),
            tuple(family.index(name) for name in names),
            tuple((s, (..., *(slice(1, None) if name in s else 0 for name in names))) for s in subsets),
        )


@cache
def contrasts(size: int) -> Ints:
    """Make the matrix of contrasts: the sum over the states, then the differences of neighbouring states.

    Args:
        size: number of states.

    Returns:
        int64, shape `(states, coefficients)`, read-only.

    Example:
        >>> contrasts(3).T.tolist()
        [[1, 1, 1], [1, -1, 0], [0, 1, -1]]
    """
    matrix = np.eye(size, dtype=np.int64)
    matrix[:, 1:] = matrix[:, :-1] - np.eye(size, dtype=np.int64)[:, 1:]
    matrix[:, 0] = 1
    matrix.flags.writeable = False
    return matrix


@cache
def _invert_contrasts(size: int) -> Ints:
    """Make the inverse of the contrasts, shape `(coefficients, states)`, times the number of states: whole numbers."""
    step = np.arange(1, size)[:, None]
    matrix = np.vstack([np.ones((1, size), np.int64), size * (np.arange(size) < step) - step]).astype(np.int64)
    matrix.flags.writeable = False
    return matrix


def contract(table: Array, matrices: Iterable[Array], *, leading: int = 0) -> Array:
    """Contract each axis after the leading ones with the first axis of an array, whose other axes replace it."""
    for matrix in matrices:
        # The axis to contract is always the first one left, as `tensordot` appends the new axes.
        table = np.tensordot(table, matrix, axes=(leading, 0))
    return table


def coefficients(tables: Tables) -> dict[Scope, Array]:
    """Compute the components of consistent counts.

    Args:
        tables: integer counts, axes `(*parents, child)`, all of the same records: margins shared by families agree.
            Otherwise a component is that of the first family that has it.

    Returns:
        For every subset of `network.downward_closure`, in its order: int64, shape `(states - 1 for b in B)`, unit:
        records; entries lie within plus and minus the number of records.

    Raises:
        InputError: the tables hold draws, or no integers.

    Source:
        Zhang et al. (2016), Algorithm 2 and equation (1); Xiao et al. (2023) for more than two states.

    Example:
        >>> from discreet.model.schema import Variable
        >>> rain, wet = Variable("rain", ("no", "yes")), Variable("wet", ("dry", "damp", "wet"))
        >>> network = Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> components = coefficients(Tables(network, {"rain": [5, 4], "wet": [[3, 2, 0], [1, 1, 2]]}))
        >>> {subset: array.tolist() for subset, array in components.items()}
        {(): 9, ('rain',): [1], ('wet',): [1, 1], ('rain', 'wet'): [[1, 3]]}
    """
    network = tables.network
    if tables.draws is not None or not all(np.issubdtype(array.dtype, np.integer) for array in tables.values()):
        raise InputError("components need counts: integer tables of shape (*parents, child), without draws")
    components: dict[Scope, Array] = {}
    for family in families(network, network.maximal_families):
        table = tables[family.node].astype(np.int64).transpose(family.axes)
        table = contract(table, map(contrasts, family.sizes))
        for subset, index in family.positions:
            if subset not in components:
                components[subset] = table[index].copy()
    return {subset: components[subset] for subset in network.downward_closure}


def _scale_table(family: FamilyComponents, components: Mapping[Scope, Array], leading: tuple[int, ...] = ()) -> Floats:
    """Make a family's table in the schema's order, times its number of cells: whole for whole components."""
    table = np.empty((*leading, *family.sizes))
    for subset, index in family.positions:
        table[index] = components[subset]
    return contract(table, (_invert_contrasts(size).astype(np.float64) for size in family.sizes), leading=len(leading))


def family_tables(network: Network, components: Mapping[Scope, Array]) -> Tables:
    """Compute the family tables that have these components; the inverse of `coefficients`.

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
    for family in families(network, network.nodes):
        table = _scale_table(family, components) / math.prod(family.sizes)
        tables[family.node] = table.transpose(np.argsort(family.axes))
    return Tables(network, tables)


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
    """Compute the number of pseudo-records that keep all cells of all noisy family tables at or above 0.

    The noise alone is simulated, which is the worst case: cells without records. Added to the empty component, a shift
    s adds `s / cells` to every cell of a table; a draw needs the largest `-(least cell) * cells` over the families.

    Args:
        network: public.
        scale: of independent discrete Laplace noise on every entry of every component, unit: records.
        probability: that no cell is negative.
        noisy_total: whether the empty component is noisy (ADD_REMOVE) or exact (REPLACE).
        rng: source of randomness; nothing here is private.
        draws: number of simulations. Ten times as many cost ten times as much and divide the excess by about three.

    Returns:
        The shift, unit: records, at least 0. It is an order statistic of the draws that is at least the quantile with
        confidence 99.9 %; so it is the smallest shift for a probability larger by up to about six standard errors,
        `sqrt(probability * (1 - probability) / draws)` each.

    Raises:
        InputError: a scale that is not positive and finite, a probability not between 0 and 1, or too few draws for it.

    Guarantee:
        None spent: reads no data. The shift increases the number of records; subtract it from a total.

    Source:
        Replaces the shift `4 t |N_I|^2 / epsilon` of Zhang et al. (2016), Algorithm 2 and Corollary 3, which is too
        small for small t and many times too large for others.
    """
    if not 0 < scale < math.inf:
        raise InputError(f"the noise needs a positive, finite scale, got {scale}")
    if not 0 < probability < 1:
        raise InputError(f"a probability lies between 0 and 1, got {probability}")
    enough = np.flatnonzero(bdtrc(np.arange(max(draws, 0)), draws, probability) <= 1 - SHIFT_CONFIDENCE)
    if not enough.size:
        least = math.ceil(math.log(1 - SHIFT_CONFIDENCE) / math.log(probability))
        raise InputError(f"probability {probability} needs at least {least:,} draws, got {draws}")
    measured = list(families(network, network.maximal_families))
    shapes = {s: tuple(network.schema[name].size - 1 for name in s) for s in network.downward_closure}
    chunk = max(1, CHUNK_COEFFICIENTS // sum(map(math.prod, shapes.values())))
    needed = np.zeros(draws)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        noise = {subset: _draw_laplace(scale, (size, *shape), rng) for subset, shape in shapes.items()}
        if not noisy_total:
            noise[()] = np.zeros(size)
        for family in measured:
            # Tables of other families are margins of these: they have a negative cell only if these do.
            least_cells = _scale_table(family, noise, (size,)).reshape(size, -1).min(axis=1)
            np.maximum(needed[start : start + size], -least_cells, out=needed[start : start + size])
    return math.ceil(float(np.sort(needed)[enough[0]]))


def _draw_laplace(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw `P(k) ~ exp(-|k| / scale)` as differences of two geometric variates, floors of exponential ones."""
    first, second = (np.floor(scale * rng.standard_exponential(shape)) for _ in range(2))
    difference: npt.NDArray[Any] = first - second
    return difference
