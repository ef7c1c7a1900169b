"""Losses of mechanisms whose draws are continuous: ratios of densities, at many points, for data sets of few records.

What is measured is the loss of the law that the calibration states, cut to finitely many points. A promise that holds
for all weights holds for these, so that a larger loss refutes it; a smaller one proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logsumexp

from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.k_norm import BALL_SLACK
from discreet.mechanisms.objective_perturbation import POLISH_ERROR
from discreet.model.design import GRID, Normal, Shape
from discreet.releases.kinds.gradient_trace import BITS, ObjectiveNoise
from discreet.releases.kinds.weight_draws import Truncation
from discreet.sensitive.rows import Rows
from discreet.verify.losses import length
from discreet.verify.script import Answers, Leak, Script

__all__ = ["objective_loss", "truncation_loss"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Pairs = Iterable[tuple[Any, Any]]
Sums = Sequence[tuple[Integers, ...]]
"""Vectors of a curvature at each of some weights."""

LINE = (-1e3, -30.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 30.0, 1e3)
"""Weights of one coordinate at which densities are compared."""
CELLS = 40
"""Steps of a grid across a ball."""


def truncation_loss(calibration: Truncation, prior: Normal, rows: Mapping[Any, Rows], pairs: Pairs) -> float:
    """The loss of all draws from a posterior in a ball, on a grid of it; any law in the ball is bounded alike.

    Args:
        calibration: that states the law.
        prior: public; over a design of one or two weights.
        rows: of each data set.
        pairs: of neighbouring ones, by their keys.

    Returns:
        Nats.
    """
    line = np.linspace(-calibration.radius, calibration.radius, CELLS + 1)
    points = np.array(list(product(line, repeat=prior.design.size)))
    points = points[np.linalg.norm(points, axis=1) <= calibration.radius * (1 + 1e-12)]
    if prior.design.size == 2:
        turn = np.linspace(0, 2 * np.pi, 2 * CELLS)
        points = np.concatenate([points, calibration.radius * np.column_stack([np.cos(turn), np.sin(turn)])])
    logs = {}
    for key, each in rows.items():
        residuals = each.target / GRID - points @ (each.coordinates / GRID).T
        law = -calibration.temper / (2 * calibration.variance) * (residuals**2).sum(axis=1)
        law -= (points**2).sum(axis=1) / (2 * prior.deviation**2)
        logs[key] = law - logsumexp(law)
    return calibration.draws * max(float(np.abs(logs[one] - logs[other]).max()) for one, other in pairs)


def objective_loss(
    mechanism: Mechanism[Any, Any, Any, Any],
    calibration: ObjectiveNoise,
    prior: Normal,
    statistics: Mapping[Any, Any],
    pairs: Pairs,
) -> float:
    """The loss of a perturbed minimum: the noise whose minimum a point is, and how densely minima lie there.

    The noise is that for which the draw asks its source. That the draw then finds the minimum which the calibration
    states is checked, for the noise that leads to each of some points.

    Args:
        mechanism: whose draw is run.
        calibration: that states the objective.
        prior: public; over a design of few weights.
        statistics: gradients of each data set.
        pairs: of neighbouring ones, by their keys.

    Returns:
        Nats.

    Raises:
        Leak: the draw finds something else than the minimum.
    """
    points = np.array(list(product(LINE, repeat=prior.design.size)))
    inner = [at for at, point in enumerate(points) if 0 < np.abs(point).max() <= 1]
    logs: dict[Any, Floats] = {}
    sums: dict[Any, Sums] = {}
    asked: list[tuple[float, Shape]] = []
    costs, convexity = [], calibration.regularisation
    for key, statistic in statistics.items():
        v, y = statistic.rows.coordinates / GRID, statistic.rows.target
        p = expit(points @ v.T)
        tilts = np.rint((-convexity * points - (p - y) @ v) * 2.0**BITS).astype(np.int64)
        curvatures = np.einsum("kn,ni,nj->kij", p * (1 - p), v, v)
        volumes = np.linalg.slogdet(curvatures + convexity * np.eye(prior.design.size))[1]
        at = inner[len(logs) % len(inner)]
        script = Script(Answers(), first=tilts[at])
        mechanism.draw(statistic, prior, calibration, script)
        (zeros, scale, shape), (steps, polish, cube), *measured = script.vectors
        off = np.abs(steps - points[at] / calibration.polish_step).max()
        if np.any(zeros) or cube != "cube" or off > POLISH_ERROR:
            raise Leak("what is found is not the minimum of the objective that is stated")
        sums[key] = [statistic.curvature(point) for point in points] if measured else []
        asked = [(one, norm) for _, one, norm in measured]
        logs[key] = volumes - np.array([length(tilt, shape) for tilt in tilts]) / scale
        slack = float(BALL_SLACK) * len(zeros) if shape == "ball" else 0.0
        costs.append(2 * POLISH_ERROR / polish + slack + sum(1 / one for _, one, _ in script.laplace))
    # The curvature is measured at the weights that came out, so that its loss adds to theirs at each point.
    return max(costs) + max(
        float(np.max(np.abs(logs[one] - logs[other]) + _moved(sums[one], sums[other], asked))) for one, other in pairs
    )


def _moved(one: Sums, other: Sums, asked: Sequence[tuple[float, Shape]]) -> Floats:
    """Losses of noise on the vectors of two curvatures at each point; 0 where none is measured."""
    found = [
        sum(
            float(np.abs(a - b).sum() if shape == "diamond" else np.abs(a - b).max(initial=0)) / scale
            for a, b, (scale, shape) in zip(*pair, asked, strict=False)
        )
        for pair in zip(one, other, strict=True)
    ]
    return np.array(found or [0.0])
