"""Privacy losses of continuous mechanisms: log ratios of densities at many points, for data sets of few records.

What is measured is the loss of the law that the calibration states, cut to finitely many points. A promise that holds
for all weights holds for these, so that a larger loss refutes it; a smaller one proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from discreet.designs.design import GRID_STEPS, Normal
from discreet.designs.kinds.gradient_trace import OBJECTIVE_BITS, ObjectiveNoise
from discreet.designs.mechanisms.objective_perturbation import POLISH_ERROR, count_corners
from discreet.designs.response import Response, response_of
from discreet.mechanisms.crossing import Mechanism
from discreet.noise.noise_laws import ShapeTag
from discreet.noise.shapes import SHAPES, Ball, Cube, KNorm
from discreet.privacy.guarantee import Guarantee
from discreet.verify.script import Leak, Script, ScriptedAnswers

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Pairs = Iterable[tuple[Any, Any]]
Sums = tuple[Integers, ...]
"""Vectors of a curvature, with a row for each point of the weights."""

COMPARED_WEIGHTS = (-1e3, -30.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 30.0, 1e3)
"""Weights of one coordinate at which densities are compared."""
FEWER_COMPARED_WEIGHTS = (-30.0, -1.0, 0.0, 1.0, 30.0)
"""Weights of one coordinate at which densities are compared, for designs of more than two weights."""


def objective_loss(
    mechanism: Mechanism,
    calibration: ObjectiveNoise,
    prior: Normal,
    statistics: Mapping[Any, Any],
    pairs: Pairs,
    guarantee: Guarantee,
) -> float:
    """Privacy loss of a perturbed minimum, by a change of variables from the noise to its minimum.

    The noise is that for which the draw asks its source. That the draw then finds the minimum which the calibration
    states is checked, for the noise that leads to each of some points.

    Args:
        mechanism: whose draw is run.
        calibration: that states the objective.
        prior: public; over a design of few weights.
        statistics: gradients of each data set.
        pairs: of neighbouring ones, by their keys.
        guarantee: whose delta the loss of Gaussian noise is wanted at.

    Returns:
        Nats; with Gaussian noise epsilon at delta, by the longest move and the largest change of density at any point,
        for as many directions as the proof counts.

    Raises:
        Leak: the draw finds something else than the minimum.
    """
    response, weights = response_of(prior.design), prior.design.weights
    points = np.array(list(product(COMPARED_WEIGHTS if weights < 3 else FEWER_COMPARED_WEIGHTS, repeat=weights)))
    inner = [at for at, point in enumerate(points) if 0 < np.abs(point).max() <= 1]
    logs: dict[Any, MinimumNoise] = {}
    norms: list[tuple[Any, ...]] = []
    costs = []
    for key, statistic in statistics.items():
        tilts, volumes = _find_minima(statistic, response, points, calibration.regularisation)
        at = inner[len(logs) % len(inner)]
        script = Script(ScriptedAnswers(), first=tilts[at])
        mechanism.draw(statistic, prior, calibration, script)
        (zeros, (steps, polish, form), *measured), scale, shape = _list_requests(script, calibration)
        error = np.abs(steps - points[at] / calibration.polish_step).max()
        if np.any(zeros) or form != Cube.tag or error > POLISH_ERROR:
            raise Leak("what is found is not the minimum of the objective that is stated")
        norms = [(scale_of, *norm) for _, scale_of, *norm in measured]
        slack = 0.0 if calibration.rho else KNorm(scale, len(zeros), shape).loss(zeros)
        costs.append(2 * POLISH_ERROR / polish + slack + sum(1 / scale_of for _, scale_of, _ in script.laplace))
        sums = statistic.curvature(points) if measured else ()
        logs[key] = MinimumNoise(tilts, volumes, sums, scale, shape)
    if calibration.rho:
        corners = count_corners(prior.design, guarantee.relation) + bool(norms)
        losses = [_solve_gaussian(logs[a], logs[b], norms, float(guarantee.delta) / corners) for a, b in pairs]
    else:
        # The curvature is measured at the released weights: at each point its loss adds to theirs.
        losses = [
            float(np.max(np.abs(logs[a].density - logs[b].density) + _measure_moves(logs[a], logs[b], norms)))
            for a, b in pairs
        ]
    return float(max(costs) + max(losses))


@dataclass(frozen=True, eq=False)
class MinimumNoise:
    """Noise that puts the minimum at each of some points, and the log density of minima there.

    Args:
        tilts: the noise whose minima the points are, shape (points, weights).
        volumes: logarithms of how densely minima lie there.
        sums: vectors of the curvature at all points; empty where none is measured.
        scale, shape: of the noise.
    """

    tilts: Integers
    volumes: Floats
    sums: Sums
    scale: float
    shape: ShapeTag

    @cached_property
    def density(self) -> Floats:
        """Log density of minima at each point, for K-norm noise."""
        return self.volumes - np.array([SHAPES[self.shape].norm(tilt) for tilt in self.tilts]) / self.scale


def _list_requests(script: Script, calibration: ObjectiveNoise) -> tuple[list[Any], float, ShapeTag]:
    """List the vectors that received noise; the scale and shape of the first apart."""
    if calibration.rho:
        (zeros, scale), *measured = script.gaussian
        return [zeros, *script.vectors, *measured], scale, Ball.tag
    (zeros, scale, shape), *others = script.vectors
    return [zeros, *others], scale, shape


def _find_minima(statistic: Any, response: Response, points: Floats, convexity: float) -> tuple[Integers, Floats]:
    """Find the noise whose minimum each point is, and the log determinant there, by independent formulas."""
    v, y = statistic.rows.coordinates / GRID_STEPS, response.observed(statistic.rows.target)
    count, weights, outputs = len(points), points.shape[1], response.outputs
    a = np.moveaxis(points.reshape(count, outputs, -1) @ v.T, 1, 0)
    p = response.means(a.reshape(outputs, -1)).reshape(a.shape)
    moved = np.einsum("kpn,ni->pki", p - y[:, None], v).reshape(points.shape)
    # The minimum is at w if b = -Lambda w - sum (mean - y) v; minima lie there as densely as det(H + Lambda I),
    # with H = sum (d mean / d eta) (x) v v', times the density of b.
    tilts = np.rint((-convexity * points - moved) * 2.0**OBJECTIVE_BITS).astype(np.int64)
    if outputs == 1:
        spread = response.slopes(p.reshape(1, -1)).reshape(1, 1, *p.shape[1:])
    else:
        spread = np.eye(outputs)[:, :, None, None] * p[:, None] - p[:, None] * p
    curvatures = np.einsum("klpn,ni,nj->pkilj", spread, v, v, optimize=True).reshape(count, weights, weights)
    return tilts, np.linalg.slogdet(curvatures + convexity * np.eye(weights))[1]


def _measure_moves(first: MinimumNoise, second: MinimumNoise, norms: Sequence[tuple[Any, ...]]) -> Floats:
    """Measure losses of K-norm noise on the vectors of two curvatures at each point; 0 where none is measured."""
    losses = np.zeros(len(first.tilts))
    for a, b, (scale, shape) in zip(first.sums, second.sums, norms, strict=False):
        losses += np.array([SHAPES[shape].norm(move) for move in a - b]) / scale
    return losses


def _solve_gaussian(first: MinimumNoise, second: MinimumNoise, norms: Sequence[tuple[Any, ...]], delta: float) -> float:
    """Find epsilon at delta of Gaussian noise on the longest move at any point, and the largest change of density."""
    squares = (((first.tilts - second.tilts) / first.scale) ** 2).sum(axis=1)
    for a, b, (scale,) in zip(first.sums, second.sums, norms, strict=False):
        squares += (((a - b) / scale) ** 2).sum(axis=1)
    mean = math.sqrt(float(squares.max()))
    lost = float(np.abs(first.volumes - second.volumes).max())
    if not mean:
        return lost

    def divergence(epsilon: float) -> float:
        # delta(epsilon) = Phi(m / 2 - epsilon / m) - e^epsilon Phi(-m / 2 - epsilon / m), m = move / deviation
        # (Balle and Wang, ICML 2018).
        return float(ndtr(mean / 2 - epsilon / mean) - math.exp(epsilon + log_ndtr(-mean / 2 - epsilon / mean)))

    if divergence(0) <= delta:
        return lost
    epsilon: Any = brentq(lambda at: divergence(at) - delta, 0, mean**2 / 2 + 12 * mean)
    return lost + float(epsilon)
