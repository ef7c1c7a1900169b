"""Predictions of a regression for given features: means and intervals over posterior draws of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from discreet.designs.design import Design
from discreet.errors import InputError, listed
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL

if TYPE_CHECKING:
    from discreet.designs.readers.weight_posterior import WeightPosterior

MOST_VALUES = 2**22
"""Largest product of draws, records and outputs in memory at once: 32 MiB."""


class ExpectedValues(NamedTuple):
    """Expected values with intervals.

    Args:
        outputs: names of the columns: the target, or each of its classes, whose probabilities are predicted.
        mean: float64, shape (records, outputs), in the unit of the target.
        lower: lower ends of the intervals, same shape.
        upper: upper ends of the intervals, same shape.
    """

    outputs: tuple[str, ...]
    mean: Floats
    lower: Floats
    upper: Floats


def expected_values(posterior: WeightPosterior, features: Floats, *, level: float = DEFAULT_LEVEL) -> ExpectedValues:
    """Compute the expected target of records, or the probabilities of its classes, with intervals.

    The mean response of each draw of the weights is computed (identity and back to the unit of the target, exp,
    logistic or softmax), then averaged. Records are processed in blocks of bounded memory.

    Args:
        posterior: posterior of a regression.
        features: float64, shape (records, features), in the design's order and in the units of the columns; numbers
            outside their bounds are clamped to the bound, and with a norm longer rows are shortened to it.
        level: posterior probability of each interval, between 0 and 1.

    Returns:
        Means over the draws and equal-tailed intervals of the expectation, shape (records, outputs) each. They are not
        predictive intervals of a record. Outputs are the states of a target with classes (both of two), else the
        target. Without records the arrays have shape (0, outputs), and `level` is not checked.

    Raises:
        InputError: a posterior of a direction, features of another shape or that are not finite, or as
            `WeightPosterior.interval`.

    Example:
        >>> import discreet as dc
        >>> design = dc.designs.Design((dc.Variable("age", bounds=(20, 60)),), dc.Variable("income", bounds=(0, 1000)))
        >>> draws = dc.designs.WeightPosterior(design, np.array([[0.2, 0.1], [0.4, 0.1]]), None, "draws", None)
        >>> found = expected_values(draws, np.array([[60.0]]), level=0.0005)
        >>> found.outputs, found.mean.round(3).tolist()
        (('income',), [[700.0]])
    """
    design = posterior.design
    if design.target is None:
        raise InputError("a direction expects nothing of a record: only regressions do")
    if features.ndim != 2 or features.shape[1] != len(design.features) or not np.isfinite(features).all():
        raise InputError(f"records have a finite number for each of the features {listed(design.names)}")
    classes = design.predicts in ("class", "classes")
    outputs = design.target.states if classes else (design.target.name,)
    weights = posterior.weights.reshape(len(posterior.weights), design.outputs, design.size)
    step = max(1, MOST_VALUES // (len(weights) * max(len(outputs), design.outputs)))
    blocks = []
    for start in range(0, len(features), step):
        drawn = _predict_means(design, weights @ design.scaled(features[start : start + step]).T)
        blocks.append(np.array([drawn.mean(axis=0), *posterior.tails(drawn, level)]))
    table = np.concatenate(blocks, axis=2) if blocks else np.empty((3, len(outputs), 0))
    return ExpectedValues(tuple(outputs), *(values.T for values in table))


def _predict_means(design: Design, linear: Floats) -> Floats:
    """Apply the mean function of the target to linear predictors.

    Args:
        design: design of the regression.
        linear: linear predictors a, shape (draws, outputs, records).

    Returns:
        Shape (draws, outputs, records). A number: a, mapped from [-1, 1] to its bounds, unclipped. A count:
        `min(exp(a), U)` records, with U its upper bound. More than two classes: softmax over the outputs. Two classes:
        (1 - p, p) with `p = sigmoid(a)`, shape (draws, 2, records).
    """
    if design.predicts == "number":
        return design.predicted(linear)
    if design.predicts == "count":
        assert design.target is not None and design.target.bounds is not None
        return np.asarray(np.exp(np.minimum(linear, np.log(design.target.bounds[1]))))
    if design.outputs > 1:
        return np.asarray(softmax(linear, axis=1))
    second = expit(linear)
    return np.concatenate([1 - second, second], axis=1)
