"""The principal direction of Williams and McSherry (NIPS 2010), Section 4.2: records, choices, posteriors on a grid.

Records are `x ~ N(0, theta theta' + I)` in two dimensions, candidates are 12 directions on a half circle in three
lengths; n, the noise and the candidates are not printed. A choice is made with `P(z | X) ~ exp(2 epsilon sum_i f)`, f
between 0 and 1 and epsilon the paper's, whose phi lies in [exp(-epsilon), exp(epsilon)].

The posterior of the axis needs no chains: turning everything by the angle between two candidates changes nothing, so
that likelihoods of all choices on one sector of a polar grid are those on all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.designs.design import GRID_STEPS
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.readers.direction import ChoiceLikelihood
from discreet.research.scores.choice_likelihood import clt_log_marginal, lower_log_marginal, upper_log_marginal
from discreet.research.scores.factors import DirectionFactor, spread_candidates, standard_normals
from discreet.research.scores.score_tables import SCORE_STEPS

Floats = npt.NDArray[np.float64]
Laws: TypeAlias = Mapping[tuple[float, ChoiceLikelihood], Floats]
"""By the paper's epsilon and the likelihood."""

__all__ = [
    "ANGLES",
    "CANDIDATES",
    "CANDIDATE_ANGLES",
    "EPSILONS",
    "FACTOR",
    "TRUTH",
    "Laws",
    "apart",
    "axis_laws",
    "choice_law",
    "choice_laws_given_truth",
    "choice_of",
    "chosen",
    "deviation_of",
    "draw_rows",
    "near_truth",
]

EPSILONS = (0.003, 0.01, 0.1)
"""The paper's, nats."""
TRUTH, RECORDS, DEVIATION = np.array([4.0, 2.0]), 1000, 5.0
"""theta, n, and the prior's standard deviation of each coordinate of theta."""
DIRECTIONS, LENGTHS = 12, (2.0, 4.0, 6.0)
CANDIDATES = spread_candidates(2, DIRECTIONS, LENGTHS)
CANDIDATE_ANGLES = np.arctan2(CANDIDATES[:, 1], CANDIDATES[:, 0])
"""Shapes (36, 2) and (36,), radians; one length after the other."""
BOUND = 32.0
"""Public bound on every coordinate of a record, nearly eight standard deviations: nothing is clipped."""
FACTOR = DirectionFactor(CANDIDATES / BOUND, noise_variance=1 / BOUND**2, tau=4.0)
DESIGN = dc.designs.Design(
    tuple(dc.Variable(name, bounds=(-BOUND, BOUND)) for name in ("x", "y")), None, None, intercept=False
)
PRIOR = dc.designs.Normal(DESIGN, DEVIATION / BOUND)

NEAR = np.radians(20)
"""Within it of the truth an axis is near."""
SECTOR = 12
"""Angles of the grid between two candidates."""
ANGLES = (np.arange(SECTOR * DIRECTIONS) + 0.5) * np.pi / (SECTOR * DIRECTIONS)
"""Of the grid's cells, in the middle of each, radians from 0 to pi."""
RADII = (np.arange(40) + 0.5) * 0.6
"""Lengths of theta; beyond the last one the prior has 1e-5."""


# ------------------------------------------------------------------------------------------ records and choices


def draw_rows(rng: np.random.Generator) -> dc.designs.Rows:
    """Records of the truth.

    Args:
        rng: source of randomness.

    Returns:
        1,000 rows over `DESIGN`.
    """
    return dc.designs.read_rows(DESIGN, rng.normal(size=(RECORDS, 1)) * TRUTH + rng.normal(size=(RECORDS, 2)))


def chosen(rows: dc.designs.Rows, epsilon: float, rng: np.random.Generator) -> dc.Release:
    """A simulated choice by the package's mechanism.

    Args:
        rows: of `draw_rows`.
        epsilon: the paper's, nats.
        rng: source of the mechanism's noise.

    Returns:
        The release, `4 epsilon`, REPLACE: that relation makes n public, as the paper takes it to be, and costs twice
        the `2 epsilon` of adding or removing a record.
    """
    guarantee = dc.Guarantee(epsilon=4 * epsilon, delta=0, relation="replace", unit="record")
    return dc.simulate(dc.research.factored(FACTOR), rows, PRIOR, guarantee, rng=rng)


def choice_of(release: dc.Release) -> FactoredChoice:
    """The choice that a release of `chosen` holds.

    Args:
        release: simulated.

    Returns:
        Its payload; `index` counts `CANDIDATES`.
    """
    assert isinstance(release.payload, FactoredChoice)
    return release.payload


def choice_law(rows: dc.designs.Rows, epsilon: float) -> Floats:
    """The exact probability of every choice.

    Args:
        rows: of `draw_rows`.
        epsilon: the paper's, nats.

    Returns:
        `P(z | X)`, shape (36,).
    """
    scores = 2 * epsilon * FACTOR.steps(rows.coordinates / GRID_STEPS).sum(axis=0) / SCORE_STEPS
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


# ------------------------------------------------------------------------------------------ likelihoods and posteriors


def _log_likelihoods(
    theta: Floats, points: int, methods: tuple[ChoiceLikelihood, ...]
) -> dict[tuple[float, ChoiceLikelihood], Floats]:
    """`ln p(z | theta)` of every candidate, shape (m, 36) for theta of shape (m, 2), by epsilon and method."""
    normals = standard_normals(points, 3)
    rows = (normals[:, :1] * theta[:, None] + normals[:, 1:]) / BOUND
    factors = FACTOR.log_factors(rows.reshape(-1, 2)).reshape(len(theta), points, -1)
    even, scores = np.full(points, 1 / points), standard_normals(128, len(CANDIDATES))
    made: dict[tuple[float, ChoiceLikelihood], Floats] = {}
    for epsilon in EPSILONS:
        log_phi = 2 * epsilon * factors
        for method in methods:
            match method:
                case "lower":
                    made[epsilon, method] = lower_log_marginal(even, log_phi, RECORDS)
                case "upper":
                    made[epsilon, method] = upper_log_marginal(even, log_phi, RECORDS)
                case "clt":
                    made[epsilon, method] = clt_log_marginal(even, log_phi, RECORDS, normals=scores)
    return made


@cache
def choice_laws_given_truth(points: int = 4096) -> Laws:
    """`p(z | theta)` at the truth.

    Args:
        points: that stand for a record, a power of two.

    Returns:
        Shape (36,), by epsilon and method; bounds need not sum to 1.
    """
    found = _log_likelihoods(TRUTH[None], points, ("lower", "clt", "upper"))
    return {key: np.exp(logs[0]) for key, logs in found.items()}


@cache
def axis_laws(points: int, methods: tuple[ChoiceLikelihood, ...]) -> Laws:
    """The posterior of the axis after every choice.

    Args:
        points: that stand for a record, a power of two.
        methods: likelihoods of a choice.

    Returns:
        Probabilities of `ANGLES` after each choice, shape (36, angles), by epsilon and method.
    """
    blocks = []
    for angle in ANGLES[:SECTOR]:
        theta = RADII[:, None] * [np.cos(angle), np.sin(angle)]
        blocks.append(_log_likelihoods(theta, points, methods))
    prior = np.log(RADII) - 0.5 * (RADII / DEVIATION) ** 2
    laws = {}
    for key in blocks[0]:
        sector = np.stack([block[key] for block in blocks]).reshape(SECTOR, RADII.size, len(LENGTHS), DIRECTIONS)
        density = np.exp(sector + prior[:, None, None]).sum(axis=1)
        # Turned by one candidate's angle, a choice is as likely as its neighbour was; the last turns into the first.
        turned = np.concatenate([np.roll(density, turn, axis=-1) for turn in range(DIRECTIONS)])
        law = turned.reshape(ANGLES.size, -1).T
        laws[key] = law / law.sum(axis=1, keepdims=True)
    return laws


# ------------------------------------------------------------------------------------------ what is said of an axis


def apart(angles: npt.ArrayLike) -> Floats:
    """Angles between axes and the truth.

    Args:
        angles: of the axes, radians; an axis has two, pi apart.

    Returns:
        The same shape, radians from 0 to pi / 2.
    """
    off = np.abs(np.asarray(angles, np.float64) - np.arctan2(TRUTH[1], TRUTH[0])) % np.pi
    return np.asarray(np.minimum(off, np.pi - off))


def near_truth(angles: Floats, law: Floats) -> float:
    """Probability within 20 degrees of the truth.

    Args:
        angles: radians.
        law: their probabilities.

    Returns:
        Between 0 and 1; 2 / 9 if all axes are as likely.
    """
    return float(law @ (apart(angles) < NEAR))


def deviation_of(angles: Floats, law: Floats) -> float:
    """The circular standard deviation of an axis, `sqrt(-2 ln |E exp(2 i angle)|) / 2`.

    Args:
        angles: radians.
        law: their probabilities.

    Returns:
        Degrees; infinite if all axes are as likely.

    Source:
        Mardia and Jupp (2000), *Directional Statistics*, Sections 2.3.1 and 9.4, for axes.
    """
    return float(np.degrees(np.sqrt(-2 * np.log(np.abs(law @ np.exp(2j * angles)))) / 2))
