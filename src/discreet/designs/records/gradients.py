"""Gradients of a regression's log-likelihood, summed over private records in integers.

A record's gradient is `(y - mean(theta . v)) v`, y and means as `response.py` has them: numbers between -1 and 1
times its coordinates. It is rounded to the grid for each record by itself; because the coordinates are on the grid
already, no entry grows by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn

import numpy as np

from discreet.designs.design import GRID_STEPS, Design
from discreet.designs.records.executors import Sums
from discreet.designs.records.rows import Rows
from discreet.designs.response import Response, response_of
from discreet.noise.shapes import SHAPES, CurvaturePart
from discreet.privacy.guarantee import Relation
from discreet.releases.policy import RecordsPolicy
from discreet.util.arrays import Floats, Ints

GRADIENT_PIECE = 2**12
"""Records computed with at once: their intermediate arrays fit into a processor's cache."""


@dataclass(frozen=True, eq=False, repr=False)
class Gradients:
    """Private records of a design with a target of classes or counts, which return sums of gradients.

    Args:
        rows: of a design whose target has classes, or counts.

    Raises:
        Nothing: `sum_gradients` has checked the design.

    Guarantee:
        None spent: for mechanisms only; `gradient_sensitivity` bounds what one record can do to a sum.

    Example:
        >>> import discreet as dc
        >>> ill = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> rows = dc.designs.read_rows(ill, [[45.0], [90.0]], ["no", "yes"])
        >>> dc.designs.sum_gradients(rows)
        Gradients(2 coordinates, private)
    """

    rows: Rows

    def __repr__(self) -> str:
        """Text without any value of the records."""
        return f"Gradients({self.over.size} coordinates, private)"

    def __reduce__(self) -> NoReturn:
        """Statistics of private records are never copied or pickled."""
        raise TypeError("gradients are private and cannot be pickled or copied; make them again from the records")

    @property
    def over(self) -> Design:
        """The public design that the gradients are over."""
        return self.rows.design

    @property
    def records(self) -> int:
        """Number of records; private under ADD_REMOVE."""
        return self.rows.records

    @property
    def policy(self) -> RecordsPolicy:
        """The rows' policy on missing values and numbers out of bounds."""
        return self.rows.policy

    @property
    def response(self) -> Response:
        """Response function: distribution of the target given linear predictors."""
        return response_of(self.over)

    def at(self, theta: Floats) -> Ints:
        """Sum of the gradients at public weights, for two classes.

        Args:
            theta: shape `(size,)`.

        Returns:
            int64, shape `(size,)`, in steps of the grid.
        """
        (total,) = self.rows.sum(partial(_sum_rounded, self.response, theta))
        return np.asarray(total)

    def signed(self) -> Ints:
        """Sum of `(2 y - 1) v` over the records: twice the gradient at weights of 0, without rounding.

        Returns:
            int64, shape `(size,)`, in steps of the grid.
        """
        (total,) = self.rows.sum(_sum_signed)
        return np.asarray(total)

    def expansion(self, theta: Floats, rest: Floats | None = None) -> tuple[float, Floats, Floats]:
        """The negative log-likelihood, its gradient and its curvature in one pass, in floating point.

        Args:
            theta: shape `(weights,)`, of one output after the other.
            rest: what weights are beyond theta, which has no finer floats; same shape.

        Returns:
            (sum of `f(theta . v) - y . (theta . v)`; sum of `(mean - y) v`, shape `(weights,)`; its derivative). The
            second is within `records (40 + 8 (outputs - 1) + size^2 (1 + |theta|_1) 2^-40) 2^-53` of the exact sum in
            each entry, with twice size^2 for several outputs. theta is split at a power of two so small that products
            of its upper part with coordinates, which are whole multiples of 1 / GRID_STEPS, add up without rounding in
            any order, and so do differences of the outputs; what rounding leaves of a predictor, or of its distance
            from the largest one, is then relative to it, and that distance times a slope is below 1/2 for each output,
            a count's below its bound's logarithm. numpy adds long rows in pairs, and pieces of them are added exactly.
        """
        outputs, size = self.over.outputs, self.over.size
        # The upper part has |theta|_1 2^40 steps at most, and coordinates 2^12: sums stay within 2^53.
        step = 2.0 ** (math.ceil(math.log2(1 + float(np.abs(theta).sum()))) - 40)
        upper = np.rint(theta / step) * step
        lower = theta - upper if rest is None else (theta - upper) + rest
        part = partial(_expand_block, self.response, upper.reshape(outputs, size), lower.reshape(outputs, size))
        cost, slopes, curvature = self.rows.sum(part)
        slope = [math.fsum(column) for column in zip(*slopes, strict=True)] or np.zeros(len(theta))
        return cost, np.asarray(slope), curvature.reshape(len(theta), len(theta))

    def curvature(self, theta: Floats) -> tuple[Ints, Ints, Ints]:
        """Sums of `q v_i v_j` at public weights; q is the slope of the means over its largest possible value.

        Of more than two classes there are such sums for each pair of them. Each record's part is rounded to the grid by
        itself, and no entry is larger than 1.

        Args:
            theta: shape `(weights,)`; or `(points, weights)`, for sums at each of many.

        Returns:
            int64, in steps of the grid: (q; with an intercept or groups q u_i for the features u, and
            q (2 u_i^2 - 1) for those in no group, where it is not known from these; products q u_i u_j of different
            features that a record can have both, upper triangle row by row), each of one pair after the other. At many
            points each has a row for every point.
        """
        points = theta.shape[:-1]
        few, many = self.rows.sum(partial(_sum_curvature, self.over, self.response, theta))
        rows = [np.moveaxis(sums, 0, -2) for sums in (few, many[..., *self.over.pairs])]
        return rows[0][..., 0], rows[0][..., 1:].reshape(*points, -1), rows[1].reshape(*points, -1)

    def beginning(self) -> Gradients:
        """The records of the first block alone, to start a minimisation over all.

        Returns:
            Gradients of these records, as private as all of them.
        """
        block = next(self.rows.blocks())
        return Gradients(replace(self.rows, records=len(block[0]), read=lambda: iter([block])))


def _sum_rounded(response: Response, theta: Floats, coordinates: Ints, target: Ints) -> tuple[Ints]:
    """Sum the gradients of a block, each rounded by itself; see `Gradients.at`."""
    p = response.means(_predict(coordinates, theta))[0]
    return (np.rint((target - p)[:, None] * coordinates).astype(np.int64).sum(axis=0),)


def _sum_signed(coordinates: Ints, target: Ints) -> tuple[Ints]:
    """Sum `(2 y - 1) v` over a block: integers below 2^53, which floats hold; see `sum_moments`."""
    return (((2.0 * target - 1) @ coordinates.astype(np.float64)).astype(np.int64),)


def _expand_block(response: Response, upper: Floats, lower: Floats, coordinates: Ints, target: Ints) -> Sums:
    """Compute cost, gradients of pieces, in a list, and curvature of a block; see `Gradients.expansion`.

    Args:
        response: of the design.
        upper, lower: parts of the weights, shape (outputs, size).
        coordinates, target: of the block.
    """
    outputs, size = upper.shape
    cost, slopes = 0.0, list[Floats]()
    curvature = np.zeros((outputs, size, outputs, size))
    for start in range(0, len(target), GRADIENT_PIECE):
        # Exact: a power of two.
        v = np.multiply(coordinates[start : start + GRADIENT_PIECE].T, 1 / GRID_STEPS, order="C")
        y, high, low = response.observed(target[start : start + GRADIENT_PIECE]), upper @ v, lower @ v
        if outputs > 1:
            # Only differences from the largest matter, and those of the upper parts are exact.
            first = high.argmax(axis=0)[None]
            high, low = (eta - np.take_along_axis(eta, first, axis=0) for eta in (high, low))
        a = high + low
        p = response.means(a)
        cost += response.loss(a, y)
        slopes.append(np.concatenate([(v * off).sum(axis=1) for off in p - y]))
        if outputs == 1:
            half = v * np.sqrt(response.slopes(p)[0])
            curvature[0, :, 0] += half @ half.T  # a symmetric product halves the work
        else:
            outer = (p[:, None] * v).reshape(outputs * size, -1)
            curvature -= (outer @ outer.T).reshape(curvature.shape)
            for output, share in enumerate(p):
                curvature[output, :, output] += (v * share) @ v.T
    return cost, slopes, curvature


def _sum_curvature(design: Design, response: Response, theta: Floats, coordinates: Ints, target: Ints) -> Sums:
    """Sum the parts of a block's records, each rounded by itself; see `Gradients.curvature`.

    Returns:
        q and what is not known from products, shape (pairs of outputs, *points, sums); products of features, shape
        (pairs of outputs, *points, features, features), above the diagonal alone.
    """
    width, alone = len(design.features), list(design.alone)
    few, many = list[Ints](), np.zeros((len(response.pairs), *theta.shape[:-1], width, width), np.int64)
    p, u = response.means(_predict(coordinates, theta)), coordinates[:, :width].astype(np.float64)
    squares = 2 * u[:, alone] * u[:, alone] / GRID_STEPS - GRID_STEPS
    linear = [u] if design.intercept or design.groups else []
    factors = np.column_stack([np.full((len(u), 1), float(GRID_STEPS)), *linear, squares])
    for pair, slope in enumerate(response.slopes(p)):
        q = np.minimum(slope * (1 / response.steepest_pair), 1.0)
        few.append(np.rint(q[..., None] * factors).astype(np.int64).sum(axis=-2))
        for at, i in enumerate(alone):
            products = np.rint((q * u[:, i] / GRID_STEPS)[..., None] * u[:, alone[at + 1 :]])
            many[pair][..., i, alone[at + 1 :]] += products.astype(np.int64).sum(axis=-2)
        if design.groups:
            _add_grouped(many[pair], design, q, u)
    return np.array(few), many


def _add_grouped(many: Ints, design: Design, q: Floats, u: Floats) -> None:
    """Add the products with a grouped feature to a matrix: rounded as all others, and summed without rounding.

    An indicator is 0 or 1, so that a product is its other factor as it was rounded, or 0: whole numbers, whose sums
    floats hold (see `sum_moments`).
    """
    alone = list(design.alone)
    grouped = sorted(position for group in design.groups for position in group)
    on = u[:, grouped] / GRID_STEPS
    with_grouped = (on.T @ (np.rint(GRID_STEPS * q)[..., None] * on)).astype(np.int64)
    rows, columns = np.ix_(grouped, grouped)
    many[..., rows, columns] += with_grouped
    with_alone = (np.rint(q[..., None] * u[:, alone]).mT @ on).astype(np.int64)
    rows, columns = np.ix_(alone, grouped)
    many[..., rows, columns] += with_alone
    rows, columns = np.ix_(grouped, alone)
    many[..., rows, columns] += with_alone.mT


def sum_gradients(rows: Rows) -> Gradients:
    """Make the statistic that returns sums of gradients of a regression's log-likelihood.

    Args:
        rows: of a design whose target has classes, or counts.

    Returns:
        The statistic.

    Raises:
        InputError: another target.

    Guarantee:
        None spent: nothing leaves.

    Example:
        >>> import discreet as dc
        >>> ill = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("ill", ("no", "yes")))
        >>> rows = dc.designs.read_rows(ill, [[45.0], [90.0]], ["no", "yes"])
        >>> gradients = dc.designs.sum_gradients(rows)
        >>> (gradients.signed() / 4096).tolist()  # private: -(0, 1) of the one who is not ill, and (1, 1)
        [1.0, 0.0]
    """
    response_of(rows.design)
    return Gradients(rows)


def _predict(coordinates: Ints, theta: Floats) -> Floats:
    """Compute linear predictors, shape (outputs, records), bit-equal whatever the other records are.

    At many points the shape is (outputs, points, records).
    """
    weights = np.moveaxis(theta.reshape(*theta.shape[:-1], -1, coordinates.shape[1]), -2, 0) / GRID_STEPS
    predictors = np.zeros((*weights.shape[:-1], len(coordinates)))
    # Summed feature by feature: a matrix product may round in an order that depends on the number of records.
    for axis, column in enumerate(coordinates.T):
        predictors += weights[..., axis, None] * column
    return predictors


def gradient_sensitivity(design: Design, relation: Relation) -> int:
    """Sensitivity of a sum of gradients, or of signed coordinates, in the norm of `design.shape`.

    A record's gradient is its coordinates times numbers between -1 and 1, and depends on no other record; those of two
    classes are rounded to no larger entries. Where features are in groups, `Rows` has refused records with more than
    one 1 in a group.

    Args:
        design: public.
        relation: what "neighbouring" means.

    Returns:
        Steps of the grid: `design.reach` under ADD_REMOVE, twice that under REPLACE; of more than two classes the
        Euclidean norm is `sqrt(2)` times as long.

    Example:
        >>> from discreet.model.schema import Variable
        >>> ill = Design((Variable("age", bounds=(0, 90)),), Variable("ill", ("no", "yes")))
        >>> gradient_sensitivity(ill, Relation.REPLACE) == 2 * gradient_sensitivity(ill, Relation.ADD_REMOVE)
        True
    """
    reach = design.reach if design.norm is None else _bound_length(design)
    return relation.by_record(reach, 2 * reach)


def squared_gradient_sensitivity(design: Design, relation: Relation) -> int:
    """Squared Euclidean sensitivity of a sum of gradients, rounded up."""
    most = math.ceil(response_of(design).squared_reach * design.squared_length * GRID_STEPS**2)
    return relation.by_record(most, 4 * most)


def _bound_length(design: Design) -> int:
    """Bound the length of the gradient of a record, in steps of the grid, rounded up."""
    return math.isqrt(squared_gradient_sensitivity(design, Relation.ADD_REMOVE) - 1) + 1


def curvature_sensitivity(relation: Relation, vector: CurvaturePart | None = None) -> int:
    """Sensitivity of any sum of `Gradients.curvature`, or of one of its vectors, in steps of the grid.

    A record adds to each sum a number from -1 to 1, rounded to the grid, at the same weights for both neighbours. To
    the sums of a vector it adds what is not 0 in `part.length` of them at most: to a group's q u_i in one, and to the
    products of two groups in one.

    Args:
        relation: what "neighbouring" means.
        vector: of the design's curvature; None for any one sum.

    Returns:
        `GRID_STEPS` under ADD_REMOVE, twice that under REPLACE; of a part in the norm of its shape, so many times more.

    Example:
        >>> curvature_sensitivity(Relation.ADD_REMOVE) == GRID_STEPS
        True
    """
    times = 1 if vector is None else SHAPES[vector.shape].largest(vector.length)
    return times * relation.by_record(GRID_STEPS, 2 * GRID_STEPS)
