r"""Weighted sums of cells in the coordinates of interactions: what they determine beside tables, and what not.

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
"""Tolerance of a unit direction: a coordinate that it moves by less is determined."""


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
    def of(network: Network, measured: Sequence[Measurement]) -> _SumSystem:
        """Make the system of the measurements that have weights."""
        weighted = [datum for datum in measured if datum.weights is not None]
        places, after = dict[Scope, tuple[slice, tuple[int, ...]]](), 0
        for subset in subsets(network.ordered(datum.scope) for datum in weighted):
            shape = tuple(network.schema[name].size - 1 for name in subset)
            places[subset] = slice(after, after + math.prod(shape)), shape
            after += math.prod(shape)
        blocks = [_transform_weights(network, datum, places, after) for datum in weighted]
        values = [datum.values.astype(np.float64) for datum in weighted]
        variances = [np.full(datum.values.size, datum.variance) for datum in weighted]
        return _SumSystem(places, np.concatenate(blocks), np.concatenate(values), np.concatenate(variances))

    def known(self, interactions: Mapping[Scope, object]) -> npt.NDArray[np.bool_]:
        """Flag the unknowns that tables determine."""
        flags = np.zeros(self.rows.shape[1], np.bool_)
        for subset, (block, _) in self.places.items():
            flags[block] = subset in interactions
        return flags

    def directions(self, known: npt.NDArray[np.bool_]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Find an orthonormal basis of what sums determine beyond tables, and flag the unknowns that it determines."""
        rows = self.rows[:, ~known]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
        spanned: Floats = basis[sizes > OPEN_TOLERANCE * max(float(sizes.max(initial=0)), 1.0)].T
        return spanned, np.abs((spanned**2).sum(axis=1) - 1) < OPEN_TOLERANCE


def _transform_weights(
    network: Network, measurement: Measurement, places: Mapping[Scope, tuple[slice, tuple[int, ...]]], unknowns: int
) -> Floats:
    """Transform the weights of a measurement to the coordinates of interactions, shape (sums, unknowns)."""
    assert measurement.weights is not None
    scope = network.ordered(measurement.scope)
    weights = measurement.weights.transpose(0, *(1 + measurement.scope.index(name) for name in scope))
    matrices = (np.eye(len(weights)), *contrast_matrices(weights.shape[1:]))
    turned, cells = transformed(np.ascontiguousarray(weights), matrices), weights[0].size
    rows = np.zeros((len(weights), unknowns))
    for subset, where in positions(scope):
        share = math.sqrt(network.cells(subset) / cells)
        rows[:, places[subset][0]] = share * turned[(slice(None), *where)].reshape(len(weights), -1)
    return rows


def list_determined(network: Network, measured: Sequence[Measurement]) -> set[Scope]:
    """List the interactions that weighted sums determine beyond the tables and contrasts.

    Args:
        network: for the sizes.
        measured: of one data set.

    Returns:
        Sets of variables in the schema's order, without those that tables tell by themselves.
    """
    if all(datum.weights is None for datum in measured):
        return set()
    tables = subsets(network.ordered(datum.scope) for datum in measured if datum.table)
    direct = dict.fromkeys((*tables, *(network.ordered(datum.scope) for datum in measured if datum.contrasts)))
    sums = _SumSystem.of(network, measured)
    known = sums.known(direct)
    determined = known.copy()
    determined[~known] = sums.directions(known)[1]
    return {subset for subset, (block, _) in sums.places.items() if subset not in direct and determined[block].all()}


def add_sums(
    network: Network,
    measured: Sequence[Measurement],
    values: Mapping[Scope, Floats],
    variances: Mapping[Scope, float],
    records: int | None,
) -> tuple[dict[Scope, Floats], dict[Scope, float]]:
    """Pool tables and weighted sums.

    Args:
        network: for the sizes.
        measured: of one data set; those without weights are not read.
        values: of the interactions that tables tell, shape `(size - 1 for S)`.
        variances: of their errors.
        records: the number of records, where it is public.

    Returns:
        Values and variances of all interactions that are told; the module's docstring has the law.
    """
    pooled, errors = dict(values), dict(variances)
    if records is not None:
        pooled[()], errors[()] = np.array(float(records)), KNOWN_VARIANCE
    if all(datum.weights is None for datum in measured):
        return pooled, errors
    sums = _SumSystem.of(network, measured)
    known = sums.known(pooled)
    prior, precision = np.zeros(known.size), np.zeros(known.size)
    for subset, (block, _) in sums.places.items():
        if subset in pooled:
            prior[block], precision[block] = pooled[subset].ravel(), 1 / max(errors[subset], KNOWN_VARIANCE)
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
    determined = known.copy()
    determined[~known] = open_no_more
    for subset, (block, shape) in sums.places.items():
        if determined[block].all():
            pooled[subset] = mean[block].reshape(shape)
            errors[subset] = max(float(spread[block].mean()), KNOWN_VARIANCE) if spread[block].size else KNOWN_VARIANCE
    return pooled, errors
