r"""Weighted sums of cells in the coordinates of interactions: what they tell beside tables, and what they leave open.

A sum `z = sum over cells w N + noise` is linear in the coordinates c of the interactions of its scope, `z = A c +
noise`, A the weights in the same coordinates. Tables tell each coordinate by itself, so all that is known is normal
with precision

    diag(1 / variance of what tables tell) + A' diag(1 / variance of the noise) A,

and where that leaves some direction open, every interaction that this direction touches counts as not measured. Errors
of coordinates depend on each other then; those of an interaction are given the mean of their variances, and taken as
independent, as those of contrasts are (`least_squares.py`). What sums say of an interaction of which they leave a part
open is not read here: the exact posterior reads it.

Source: generalised least squares; Williams and McSherry (2010), equation 4, for any linear measurement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.inference.interactions import contrast_matrices, positions, subsets, transformed
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import KNOWN_VARIANCE
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Floats

MOST_WEIGHTED = 2048
"""Cells of all sets of variables that sums are over: a dense system of so many unknowns takes two seconds."""
OPEN_TOLERANCE = 1e-9
"""Of a unit direction: what it moves a coordinate by less than does not leave it open."""


@dataclass(frozen=True, eq=False)
class _SumSystem:
    """All weighted sums of one data set as one linear system.

    Args:
        places: of each interaction, where its coordinates are among the unknowns, and their shape.
        rows: shape (sums, unknowns).
        values: of the sums, shape (sums,).
        variances: of their noise, same shape.
    """

    places: Mapping[Scope, tuple[slice, tuple[int, ...]]]
    rows: Floats
    values: Floats
    variances: Floats

    @staticmethod
    def of(network: Network, parts: Sequence[Measurement]) -> _SumSystem:
        """The system of those parts that have weights."""
        weighted = [part for part in parts if part.weights is not None]
        places, after = dict[Scope, tuple[slice, tuple[int, ...]]](), 0
        for subset in subsets(network.ordered(part.scope) for part in weighted):
            shape = tuple(network.schema[name].size - 1 for name in subset)
            places[subset] = slice(after, after + math.prod(shape)), shape
            after += math.prod(shape)
        blocks = [_transform_weights(network, part, places, after) for part in weighted]
        values = [part.values.astype(np.float64) for part in weighted]
        variances = [np.full(part.values.size, part.variance) for part in weighted]
        return _SumSystem(places, np.concatenate(blocks), np.concatenate(values), np.concatenate(variances))

    def known(self, told: Mapping[Scope, object]) -> npt.NDArray[np.bool_]:
        """Flags of the unknowns that tables tell."""
        found = np.zeros(self.rows.shape[1], np.bool_)
        for subset, (place, _) in self.places.items():
            found[place] = subset in told
        return found

    def directions(self, known: npt.NDArray[np.bool_]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """An orthonormal basis of what sums tell of the unknowns that tables do not, and which of these they tell."""
        rows = self.rows[:, ~known]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
        kept: Floats = basis[sizes > OPEN_TOLERANCE * max(float(sizes.max(initial=0)), 1.0)].T
        return kept, np.abs((kept**2).sum(axis=1) - 1) < OPEN_TOLERANCE


def _transform_weights(
    network: Network, part: Measurement, places: Mapping[Scope, tuple[slice, tuple[int, ...]]], unknowns: int
) -> Floats:
    """Weights of one part in the coordinates of interactions, shape (sums, unknowns)."""
    assert part.weights is not None
    scope = network.ordered(part.scope)
    weights = part.weights.transpose(0, *(1 + part.scope.index(name) for name in scope))
    matrices = (np.eye(len(weights)), *contrast_matrices(weights.shape[1:]))
    turned, cells = transformed(np.ascontiguousarray(weights), matrices), weights[0].size
    found = np.zeros((len(weights), unknowns))
    for subset, where in positions(scope):
        share = math.sqrt(network.cells(subset) / cells)
        found[:, places[subset][0]] = share * turned[(slice(None), *where)].reshape(len(weights), -1)
    return found


def list_determined(network: Network, parts: Sequence[Measurement]) -> set[Scope]:
    """Interactions that weighted sums tell beside the tables and contrasts among some parts.

    Args:
        network: for the sizes.
        parts: of one data set.

    Returns:
        Sets of variables in the schema's order, without those that tables tell by themselves.
    """
    if all(part.weights is None for part in parts):
        return set()
    tables = subsets(network.ordered(part.scope) for part in parts if part.table)
    told = dict.fromkeys((*tables, *(network.ordered(part.scope) for part in parts if part.contrasts)))
    sums = _SumSystem.of(network, parts)
    known = sums.known(told)
    found = known.copy()
    found[~known] = sums.directions(known)[1]
    return {subset for subset, (place, _) in sums.places.items() if subset not in told and found[place].all()}


def add_sums(
    network: Network,
    parts: Sequence[Measurement],
    values: Mapping[Scope, Floats],
    variances: Mapping[Scope, float],
    records: int | None,
) -> tuple[dict[Scope, Floats], dict[Scope, float]]:
    """Pool tables and weighted sums.

    Args:
        network: for the sizes.
        parts: of one data set; those without weights are not read.
        values: of the interactions that tables tell, shape `(size - 1 for S)`.
        variances: of their errors.
        records: the number of records, where it is public.

    Returns:
        Values and variances of all interactions that are told; the module's docstring has the law.
    """
    told = dict(values), dict(variances)
    if records is not None:
        told[0][()], told[1][()] = np.array(float(records)), KNOWN_VARIANCE
    if all(part.weights is None for part in parts):
        return told
    sums = _SumSystem.of(network, parts)
    known = sums.known(told[0])
    prior, precision = np.zeros(known.size), np.zeros(known.size)
    for subset, (place, _) in sums.places.items():
        if subset in told[0]:
            prior[place], precision[place] = told[0][subset].ravel(), 1 / max(told[1][subset], KNOWN_VARIANCE)
    basis, open_no_more = sums.directions(known)
    # Unknowns: those that tables tell, then the directions of all others that sums tell.
    back = np.zeros((known.size, int(known.sum()) + basis.shape[1]))
    back[np.flatnonzero(known), np.arange(int(known.sum()))] = 1
    back[np.ix_(~known, np.arange(int(known.sum()), back.shape[1]))] = basis
    rows = (sums.rows / np.sqrt(sums.variances)[:, None]) @ back
    right = rows.T @ (sums.values / np.sqrt(sums.variances)) + back.T @ (precision * prior)
    whole = rows.T @ rows + (back.T * precision) @ back
    unit = 1 / np.sqrt(np.diag(whole))
    inverse = unit[:, None] * np.linalg.inv(unit[:, None] * whole * unit) * unit
    mean, spread = back @ (inverse @ right), ((back @ inverse) * back).sum(axis=1)
    found = known.copy()
    found[~known] = open_no_more
    for subset, (place, shape) in sums.places.items():
        if found[place].all():
            told[0][subset] = mean[place].reshape(shape)
            told[1][subset] = max(float(spread[place].mean()), KNOWN_VARIANCE) if spread[place].size else KNOWN_VARIANCE
    return told
