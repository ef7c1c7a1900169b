"""Designs: the public description of a regression, a classification or a principal direction.

A design is fixed before any record is read: the features with their bounds, the target, and the intercept. Private sums
are measured in its coordinates: every feature is scaled from its bounds to [-1, 1] and rounded to multiples of
1 / GRID_STEPS, so that all sums over records are sums of whole numbers.

Features of a group exclude each other: they are indicators of the states of one column, 0 or 1, of which a record has
at most one 1. They are used unscaled. The absolute sum of a record's coordinates is then at most L: one for each
ungrouped feature, for each group and for the constant, however many features a group has.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, listed, require, shown
from discreet.model.over import Over, Prior
from discreet.model.schema import Schema, Variable, bin_ends
from discreet.noise.noise_laws import ShapeTag
from discreet.noise.shapes import SHAPES, Ball, CurvaturePart, least_shape
from discreet.util.arrays import Floats, Ints
from discreet.util.limits import SUMS, first_repeated

if TYPE_CHECKING:
    from discreet.releases.document import Document

Target = Literal["number", "count", "class", "classes", "nothing"]
"""Kind of target that a design predicts."""
PREDICTED: Mapping[Target, str] = {
    "number": "a number",
    "count": "a count",
    "class": "one of two classes",
    "classes": "one of several classes",
    "nothing": "nothing",
}
"""Kinds of targets in words."""
GRID_STEPS = 4096
"""Steps from the middle of a feature's bounds to an end."""

COUNTS_LIMIT = 2**15 - 1
"""Largest upper bound of a counted target: rows hold it in 16 bits."""

MOST_MEASURED_SUMS = 2000
"""Most squared features times pairs of classes, where there are more than two, of a curvature."""

LARGEST = sys.float_info.max
"""Largest number of a record."""
Positions = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Design(Over):
    """Numeric features with public bounds, and perhaps a target.

    Coordinates: `u_j = (2 x_j - lower_j - upper_j) / (upper_j - lower_j)`, clipped to [-1, 1]; with a `norm`, rows
    longer than it are shortened to it; then, with an intercept, one feature more that is always `constant`. Features in
    groups are 0 or 1, and so are their coordinates.

    Args:
        features: numeric variables without bins.
        target: a numeric variable without bins, one with states, or None without a target.
        norm: public bound on the Euclidean norm of the scaled features; None if only the bounds are known.
        intercept: True adds a constant feature.
        groups: positions of features between 0 and 1 of which a record has at most one 1 and else 0; other records
            are refused.
        counted: True if a numeric target is a count, whole numbers from 0 to its upper bound, with a log link; else
            its mean is linear in the features.

    Raises:
        InputError: no features, a repeated name, a feature or target of another kind, bounds without a float between
            them, a norm shorter than a step of the grid or longer than the bounds allow, invalid groups, groups with a
            norm, or a count with other bounds than from 0 to a whole number of at most 32,767.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> age = dc.Variable("age", bounds=(20, 60))
        >>> design = dc.designs.Design((age,), dc.Variable("income", bounds=(0, 1000)))
        >>> design.scaled(np.array([[20.0], [50.0], [70.0]])).tolist()
        [[-1.0, 1.0], [0.5, 1.0], [1.0, 1.0]]
    """

    domain: ClassVar[str] = "design"
    features: tuple[Variable, ...]
    target: Variable | None = None
    norm: float | None = None
    intercept: bool = True
    groups: tuple[tuple[int, ...], ...] = ()
    counted: bool = False

    def __post_init__(self) -> None:
        """Normalise the containers, then refuse an invalid design."""
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "groups", _check_groups(self.groups, self.features))
        alone = not self.groups or self.norm is None
        require(alone, "a design has a norm or groups, not both: a norm shortens records, and indicators are 0 or 1")
        require(bool(self.features), "a design needs at least one feature")
        columns = (*self.features, *([] if self.target is None else [self.target]))
        if twice := first_repeated(variable.name for variable in columns):
            raise InputError(f"a design has the variable {shown(twice)} twice")
        for variable in self.features:
            plain = variable.bounds is not None and not variable.bins
            require(plain, f"feature {shown(variable.name)} needs numeric bounds, and no bins")
        if self.target is not None and not _is_predictable(self.target):
            raise InputError(f"target {shown(self.target.name)} needs numeric bounds without bins, or states")
        require(
            not self.counted or _is_countable(self.target),
            f"a counted target needs bounds from 0 to a whole number of at most {COUNTS_LIMIT:,}, such as (0, 20)",
        )
        for variable in columns:
            wide = not variable.numeric or _find_half(variable) > 0
            require(wide, f"the bounds of {shown(variable.name)} are too close to each other for floating point")
        if self.norm is not None:
            require(
                1 / GRID_STEPS <= self.norm <= math.sqrt(len(self.features)),
                f"the norm of the scaled features must be at least a step of the grid, 1/{GRID_STEPS}, and at most "
                f"the root of their number, which the bounds allow; got {self.norm}",
            )
            object.__setattr__(self, "norm", float(self.norm))

    @property
    def predicts(self) -> Target:
        """Kind of the target; "classes" are more than two."""
        if self.target is None:
            return "nothing"
        if self.target.numeric:
            return "count" if self.counted else "number"
        return "class" if self.target.size == 2 else "classes"

    @cached_property
    def schema(self) -> Schema:
        """Columns of the records: the features, then the target."""
        return Schema((*self.features, *([] if self.target is None else [self.target])))

    @property
    def words(self) -> str:
        """See `Over`."""
        return f"a design that predicts {PREDICTED[self.predicts]}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(variable.name for variable in self.features)

    @property
    def size(self) -> int:
        """Number of coefficients: one for each feature, and the intercept's, last."""
        return len(self.features) + self.intercept

    @property
    def weight_names(self) -> list[str]:
        """Names of the coefficients; of more than two classes for each class."""
        names = [*self.names, *(["intercept"] if self.intercept else [])]
        if self.outputs == 1 or self.target is None:
            return names
        return [f"{state}: {name}" for state in self.target.states for name in names]

    @property
    def outputs(self) -> int:
        """Linear predictors of a record: one for each of more than two classes, else one."""
        return self.target.size if self.target is not None and self.predicts == "classes" else 1

    @property
    def weights(self) -> int:
        """Number of coefficients of all linear predictors."""
        return self.size * self.outputs

    @property
    def shape(self) -> ShapeTag:
        """Norm in which a record's gradient is bounded: the one with the least noise."""
        return least_shape(self.weights, self.sum_reach) if self.norm is None else Ball.tag

    @property
    def sum_reach(self) -> int:
        """Largest sum of absolute values of a record's gradient, without a norm.

        The gradient is the coordinates times a number of at most 1; for several outputs, times numbers with sum at most
        2.
        """
        return (self.units + self.intercept) * (2 if self.outputs > 1 else 1)

    @cached_property
    def alone(self) -> tuple[int, ...]:
        """Positions of the features outside groups."""
        grouped = {position for group in self.groups for position in group}
        return tuple(position for position in range(len(self.features)) if position not in grouped)

    @property
    def units(self) -> int:
        """Most features of a record that are not 0: all outside groups, and one of each group."""
        return len(self.alone) + len(self.groups)

    @cached_property
    def pairs(self) -> tuple[Positions, Positions]:
        """Positions i < j of features that a record can both have, row by row: not of the same group."""
        group = np.arange(len(self.features)) + len(self.groups)
        for number, members in enumerate(self.groups):
            group[list(members)] = number
        i, j = np.triu_indices(len(self.features), 1)
        both = group[i] != group[j]
        return i[both], j[both]

    @property
    def measurable(self) -> bool:
        """True if a curvature can be released: noise would hide that of many pairs of classes."""
        pairs = self.outputs * (self.outputs - 1) // 2
        return pairs * len(self.features) ** 2 <= MOST_MEASURED_SUMS

    @cached_property
    def curvature(self) -> tuple[CurvaturePart, CurvaturePart, CurvaturePart]:
        """Vectors of a curvature (`designs/records/gradients.py`): a weight, means and squares, products.

        For more than two classes, each has the values of all pairs of classes in turn.
        """
        width, alone, linear = len(self.features), len(self.alone), self.intercept or bool(self.groups)
        # Counted without listing them: a document may declare any number.
        pairs = math.comb(width, 2) - sum(math.comb(len(group), 2) for group in self.groups)
        parts = (
            (1, 1),
            (width * linear + alone, self.units * linear + alone),
            (pairs, self.units * (self.units - 1) // 2),
        )
        times = self.outputs * (self.outputs - 1) // 2 or 1
        weight, some, many = (CurvaturePart(times * size, times * length) for size, length in parts)
        return weight, some, many

    @cached_property
    def constant(self) -> float:
        """Value of the constant feature, a multiple of 1 / GRID_STEPS; 0 without an intercept.

        It has the length of a typical feature: with a norm, a constant of 1 would lengthen every record.
        """
        if not self.intercept:
            return 0.0
        if self.norm is None:
            return 1.0
        return max(math.floor(GRID_STEPS * self.norm / math.sqrt(len(self.features))), 1) / GRID_STEPS

    @cached_property
    def squared_length(self) -> Fraction:
        """Largest squared Euclidean norm of a record's coordinates, the constant among them."""
        features = Fraction(self.units) if self.norm is None else Fraction(self.norm) ** 2
        return features + Fraction(self.constant) ** 2

    @cached_property
    def reach(self) -> int:
        """Largest norm of a gradient of one output in steps of the grid, in the norm of `shape`; rounded up.

        With several outputs and a norm it is that of the coordinates.
        """
        if self.norm is None:
            return GRID_STEPS * SHAPES[self.shape].largest(self.sum_reach)
        return math.isqrt(math.ceil(self.squared_length * GRID_STEPS**2) - 1) + 1

    @property
    def moment_count(self) -> int:
        """Number of `moments`, without listing them."""
        wide = self.size + (self.target is not None)
        return wide * (wide + 1) // 2 - self.intercept

    @cached_property
    def moments(self) -> tuple[tuple[int, int], ...]:
        """Pairs of coordinates whose products are summed: upper triangle over (features, constant, target), row by row.

        The square of the constant is the number of records, and is left out.

        Raises:
            InputError: too many to store.
        """
        if self.moment_count > SUMS:
            raise InputError(
                f"{len(self.features):,} features have {self.moment_count:,} products of pairs, more than the limit "
                f"of {SUMS:,}; choose fewer features"
            )
        wide = self.size + (self.target is not None)
        constant = self.size - 1 if self.intercept else -1
        return tuple((i, j) for i in range(wide) for j in range(i, wide) if (i, j) != (constant, constant))

    def scaled(self, features: Floats) -> Floats:
        """Compute the coordinates of records.

        Args:
            features: float64, shape `(records, features)`, each in the unit of its bounds.

        Returns:
            float64, shape `(records, size)`.
        """
        # A huge number overflows to infinity, which is clipped; a warning would reveal something about a record.
        with np.errstate(over="ignore"):
            inside = np.clip((features - self.middles) / self._halves, -1, 1)
        if self.norm is not None:
            # Column by column: a record's coordinates must not depend on the other records, not even in rounding.
            squares = np.zeros(len(inside))
            for column in inside.T:
                squares += column * column
            inside = inside * (self.norm / np.maximum(np.sqrt(squares), self.norm))[:, None]
        return np.column_stack([inside, *([np.full(len(inside), self.constant)] if self.intercept else [])])

    def scaled_feature(self, position: int, values: Floats) -> Floats:
        """Compute one coordinate of records, for a design without a norm.

        Args:
            position: of the feature.
            values: float64, shape `(records,)`, in the unit of its bounds.

        Returns:
            float64, same shape; bitwise equal to the column of `scaled`.
        """
        with np.errstate(over="ignore"):
            return np.asarray(np.clip((values - self.middles[position]) / self._halves[position], -1, 1))

    def scaled_target(self, target: Floats) -> Floats:
        """Scale a numeric target to [-1, 1], clipped.

        Args:
            target: float64, in the unit of its bounds.

        Returns:
            float64, same shape.

        Raises:
            InputError: no numeric target.
        """
        middle, half = self._target_scale
        with np.errstate(over="ignore"):
            return np.clip((target - middle) / half, -1, 1)

    def predicted(self, scaled: Floats) -> Floats:
        """Return a scaled target to the unit of its bounds; the inverse of `scaled_target` inside the bounds.

        Args:
            scaled: float64, from -1 to 1.

        Returns:
            float64, same shape.

        Raises:
            InputError: no numeric target.
        """
        middle, half = self._target_scale
        return middle + half * scaled

    def feature_rows(self, records: Sequence[Mapping[str, object]]) -> Floats:
        """Convert records with named features to rows in the design's order, float64, shape (records, features).

        Numbers are neither scaled nor clamped.

        Args:
            records: for each record its features by name, in the units of the columns; none gives shape (0, features).

        Raises:
            InputError: in the first faulty record a name that is not in the design or, failing that, the first feature
                that is missing or not a finite Python `int` or `float` (booleans and NumPy integers are refused).
        """
        rows = np.empty((len(records), len(self.features)))
        for at, record in enumerate(records):
            if unknown := [name for name in record if name not in self.names]:
                raise InputError(
                    f"the record at position {at} has {shown(unknown[0])}, which is none of {listed(self.names)}"
                )
            for column, name in enumerate(self.names):
                value = record.get(name)
                if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
                    raise InputError(f"the record at position {at} needs a finite number for {shown(name)}")
                rows[at, column] = value
        return rows

    def values(self, coordinates: Ints, target: Ints) -> dict[str, npt.NDArray[np.generic]]:
        """Return records on the grid in the units of their columns.

        Args:
            coordinates: steps of the grid, int64, shape `(records, size)`.
            target: steps, counts, or codes of classes, shape `(records,)`; ignored without a target.

        Returns:
            By name of a feature or the target: numbers, or names of classes, shape `(records,)`.
        """
        steps = coordinates[:, : len(self.features)] / GRID_STEPS
        columns: dict[str, npt.NDArray[np.generic]] = dict(
            zip(self.names, (self.middles + self._halves * steps).T, strict=True)
        )
        if self.target is not None:
            match self.predicts:
                case "number":
                    columns[self.target.name] = self.predicted(target / GRID_STEPS)
                case "count":
                    columns[self.target.name] = target.astype(np.float64)
                case _:
                    columns[self.target.name] = np.array(self.target.states)[target]
        return columns

    def slopes(self, weights: Floats) -> tuple[Floats, Floats]:
        """Convert weights of the coordinates to slopes and intercept in the units of the columns.

        Args:
            weights: float64, shape `(..., size)`.

        Returns:
            (slopes of shape `(..., features)`: change of the target, of the log odds, or of a count's logarithm, for
            one unit of a feature; intercepts of shape `(...)`).
        """
        middle, half = self._target_scale if self.predicts == "number" else (0.0, 1.0)
        slopes = weights[..., : len(self.features)] / self._halves
        constant = weights[..., -1] * self.constant if self.intercept else 0.0
        return half * slopes, middle + half * (constant - slopes @ self.middles)

    def weights_of(self, coefficients: Floats) -> Floats:
        """Convert slopes and an intercept in the units of the columns to weights; the inverse of `slopes`.

        Args:
            coefficients: shape `(draws, features + 1)`, the intercept last, of a numeric target.

        Returns:
            float64, shape `(draws, size)`, of a design with an intercept.
        """
        (middle, half), slopes = self._target_scale, coefficients[:, :-1]
        constant = (coefficients[:, -1] + slopes @ self.middles - middle) / self.constant
        return np.column_stack([slopes * self._halves, constant]) / half

    def vectors(self, scaled: Floats) -> Floats:
        """Convert differences in scaled features to the units of the columns.

        Args:
            scaled: shape `(..., features)`.

        Returns:
            The same shape.
        """
        return scaled * self._halves

    @cached_property
    def middles(self) -> Floats:
        """Values of the features at coordinate 0: middles of their bounds; 0 for features in groups."""
        return self._fill_alone([_find_middle(variable) for variable in self.features], 0.0)

    @cached_property
    def _halves(self) -> Floats:
        """Half widths of the features' bounds; 1 for features in groups."""
        return self._fill_alone([_find_half(variable) for variable in self.features], 1.0)

    def _fill_alone(self, values: list[float], otherwise: float) -> Floats:
        """Fill values for the features outside groups, and another value for those in groups."""
        filled = np.full(len(values), otherwise)
        filled[list(self.alone)] = np.array(values)[list(self.alone)]
        return filled

    @property
    def _target_scale(self) -> tuple[float, float]:
        """Middle and half width of a numeric target's bounds."""
        if self.target is None or self.target.bounds is None:
            raise InputError("this design has no numeric target")
        return _find_middle(self.target), _find_half(self.target)


@dataclass(frozen=True)
class Normal(Prior):
    """A normal prior on a design's weights: independent, mean 0.

    Args:
        design: public.
        deviation: standard deviation of each weight, in the design's coordinates.

    Raises:
        InputError: a deviation outside 1e-12 to 1e12.

    Example:
        >>> import discreet as dc
        >>> age = dc.designs.Design((dc.Variable("age", bounds=(20, 60)),), dc.Variable("income", bounds=(0, 1000)))
        >>> prior = dc.designs.Normal(age, 2)
        >>> prior.deviation, prior.over.weights
        (2.0, 2)
    """

    design: Design
    deviation: float

    def __post_init__(self) -> None:
        """Refuse an invalid prior."""
        if not 1e-12 <= float(self.deviation) <= 1e12:
            raise InputError(f"a prior needs a standard deviation from 1e-12 to 1e12, got {self.deviation}")
        object.__setattr__(self, "deviation", float(self.deviation))

    @property
    def over(self) -> Design:
        """Design of the prior."""
        return self.design


def normal_of(release: Document) -> Normal:
    """Return the prior of the weights of a release over a design.

    Args:
        release: of any kind.

    Raises:
        InputError: a release over something else.
    """
    prior = getattr(release.one_release, "prior", None)
    if not isinstance(prior, Normal):
        raise InputError("this release is over a network, not a design: read it with `.posterior()`")
    return prior


def design_of(release: Document) -> Design:
    """Return the public design of a regression, a classification or a direction.

    Args:
        release: over a design, or several of them put together.

    Returns:
        The design.

    Raises:
        InputError: a release over a network.

    Guarantee:
        No budget is spent; only the release's head is read.

    Example:
        >>> import discreet as dc
        >>> stay = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 40)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> moments = dc.designs.sum_moments(dc.designs.read_rows(stay, [[45.0], [90.0]], [10.0, 40.0]))
        >>> prior = dc.designs.Normal(stay, 1.0)
        >>> made_up = dc.simulate(dc.designs.noisy_moments(), moments, prior, promise, rng=1)
        >>> dc.designs.design_of(made_up) == stay
        True
    """
    return normal_of(release).design


def _check_groups(groups: Iterable[Iterable[int]], features: tuple[Variable, ...]) -> tuple[tuple[int, ...], ...]:
    """Sort groups; refuse invalid ones."""
    try:
        listed_groups = [list(group) for group in groups]
        ordered = tuple(sorted(tuple(sorted(map(operator.index, group))) for group in listed_groups))
    except TypeError:
        listed_groups, ordered = [[True]], ()
    if any(isinstance(position, bool) for group in listed_groups for position in group):
        raise InputError("groups of a design are lists of positions of features, such as [[0, 1, 2], [3, 4]]")
    positions = [position for group in ordered for position in group]
    if not all(ordered) or len(set(positions)) < len(positions):
        raise InputError("a group of a design has at least one feature, and no feature is in two groups")
    if positions and not 0 <= min(positions) <= max(positions) < len(features):
        raise InputError(f"a group of a design has positions of features, from 0 to {len(features) - 1}")
    for position in positions:
        if features[position].bounds != (0, 1):
            raise InputError(f"feature {shown(features[position].name)} of a group needs the bounds 0 and 1")
    return ordered


def _find_middle(variable: Variable) -> float:
    """Compute the middle of a numeric variable's bounds."""
    low, *_, high = bin_ends(variable)
    return low / 2 + high / 2


def _find_half(variable: Variable) -> float:
    """Compute the half width of a numeric variable's bounds; 0 if it is too small for a float."""
    low, *_, high = bin_ends(variable)
    return high / 2 - low / 2


def _is_predictable(target: Variable) -> bool:
    """Return True if a variable can be a target: numbers within bounds, or classes."""
    return (target.numeric and not target.bins) or (not target.numeric and target.size >= 2)


def _is_countable(target: Variable | None) -> bool:
    """Return True if a variable can be a count that fits into rows."""
    bounds = None if target is None else target.bounds
    return bounds is not None and bounds[0] == 0 and bounds[1] % 1 == 0 and 1 <= bounds[1] <= COUNTS_LIMIT
