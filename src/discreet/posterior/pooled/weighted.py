r"""Weighted sums of cells in the coordinates of interactions: the interactions that they determine beside tables.

A sum `z = sum over cells w N + noise` is linear in the coordinates c of the interactions of its scope, `z = A c +
noise`, with A the weights in the same coordinates. Tables determine each coordinate separately, so the joint evidence
is normal with precision

    diag(1 / variance of the tables' errors) + A' diag(1 / variance of the noise) A.

Where this is singular, every interaction that an undetermined direction involves counts as not measured. Errors of
coordinates are then correlated; an interaction is assigned the mean of their variances, and they are treated as
independent, as those of contrasts are (`least_squares.py`). Evidence of sums on an interaction that they determine only
partly is ignored here; the exact posterior uses it.

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
"""Largest number of cells of all sets of variables with sums: a dense system of so many unknowns takes two seconds."""
OPEN_TOLERANCE = 1e-9
"""Tolerance of a unit direction: a coordinate that it moves by less is determined."""


@dataclass(frozen=True, eq=False)
class _SumSystem:
    """All weighted sums of one data set as one linear system.

    Args:
        places: slice of the unknowns and shape of the coordinates, by interaction.
        rows: matrix A, shape (sums, unknowns).
        values: measured sums, shape (sums,).
        variances: variances of their noise, same shape.
    """

    places: Mapping[Scope, tuple[slice, tuple[int, ...]]]
    rows: Floats
    values: Floats
    variances: Floats

    @staticmethod
    def of(network: Network, measured: Sequence[Measurement]) -> _SumSystem:
        """Build the system of the measurements that have weights, of which there must be at least one.

        The unknowns are the coordinates of all subsets of their scopes. Each subset comes once, smaller ones first,
        and takes `prod(size - 1)` unknowns.

        Args:
            network: network that gives the variables' sizes.
            measured: measurements of one data set; those without weights are ignored.
        """
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
        """Flag the unknowns that belong to the given interactions, shape (unknowns,).

        The unknowns are the coordinates of all interactions that a weighted sum involves; given sets beyond these are
        ignored.
        """
        flags = np.zeros(self.rows.shape[1], np.bool_)
        for subset, (block, _) in self.places.items():
            flags[block] = subset in interactions
        return flags

    def directions(self, known: npt.NDArray[np.bool_]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Find the directions of the unknowns beyond tables that sums determine, by singular value decomposition.

        Sums are first scaled to unit length. Singular values up to OPEN_TOLERANCE of the largest (at least 1) count as
        0.

        Args:
            known: whether tables determine each unknown, shape (unknowns,).

        Returns:
            An orthonormal basis of these directions as columns, shape (other unknowns, directions); and True for each
            of the other unknowns that lies in their span within OPEN_TOLERANCE, so that sums determine it.
        """
        rows = self.rows[:, ~known]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        _, sizes, basis = np.linalg.svd(unit, full_matrices=False)
        spanned: Floats = basis[sizes > OPEN_TOLERANCE * max(float(sizes.max(initial=0)), 1.0)].T
        return spanned, np.abs((spanned**2).sum(axis=1) - 1) < OPEN_TOLERANCE


def _transform_weights(
    network: Network, measurement: Measurement, places: Mapping[Scope, tuple[slice, tuple[int, ...]]], unknowns: int
) -> Floats:
    """Transform the weights of a measurement to the coordinates of interactions, shape (sums, unknowns).

    The sums are these rows times the coordinates c. The weights of interaction S are their Helmert coordinates times
    `sqrt(|S| / |t|)`, with t the table over the scope; unknowns of other sets get 0.

    Args:
        network: network that gives the variables' sizes.
        measurement: weighted sums over one set of variables.
        places: slice of the unknowns and shape of the coordinates, by interaction.
        unknowns: number of unknowns.
    """
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
        network: network that gives the variables' sizes.
        measured: measurements of one data set.

    Returns:
        Sets of variables in the schema's order of which sums determine all coordinates, without the subsets of tables
        and the sets of contrasts; empty if there are no sums. A set with a variable of one state has no coordinates and
        counts as determined.
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
    """Pool the estimates from tables with weighted sums by generalised least squares.

    The sums' rows are fitted together with the given estimates, whose errors are taken to be independent. Directions of
    the other interactions that no sum determines are left out of the fit. A public number of records replaces the given
    total, with variance KNOWN_VARIANCE, whether there are sums or not; no given variance counts, and no variance of a
    fitted interaction is, smaller than this.

    Args:
        network: network that gives the variables' sizes.
        measured: measurements of one data set; only those with weights are used.
        values: coordinates of the interactions that tables and contrasts determine, by set S, shape `(size - 1 for S)`;
            not changed.
        variances: variances of their errors.
        records: number of records if it is public, else None.

    Returns:
        Values and variances of all interactions that tables, contrasts and sums determine; the module's docstring has
        the law. An interaction beyond tables and contrasts is in them only if sums determine all of its coordinates.
        The variance of a fitted interaction is the mean over its coordinates; correlations are dropped. Interactions
        that no sum touches keep the given values and variances, and without sums all do.
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
    # Columns of `back`: the unknowns that tables determine, then the other directions that sums determine.
    back = np.zeros((known.size, int(known.sum()) + basis.shape[1]))
    back[np.flatnonzero(known), np.arange(int(known.sum()))] = 1
    back[np.ix_(~known, np.arange(int(known.sum()), back.shape[1]))] = basis
    # Normal equations (A' A / variance + diag(precision)) c = A' z / variance + precision * prior.
    rows = (sums.rows / np.sqrt(sums.variances)[:, None]) @ back
    right = rows.T @ (sums.values / np.sqrt(sums.variances)) + back.T @ (precision * prior)
    whole = rows.T @ rows + (back.T * precision) @ back
    # Invert after scaling to a unit diagonal: precisions differ by many powers of ten.
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
