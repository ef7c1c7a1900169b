"""Mechanisms as the papers print them, whose printed guarantee is false or holds for another relation. NOT for release.

They are run by the errata page and by tests, which see that the package's own audit refuses them; the package itself
has corrected ones. Beside each mechanism stands its exact privacy loss between two named data sets: the largest
|log ratio| of the two laws of what it releases. More data sets can only make it worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, xlog1py, xlogy
from scipy.stats import binom

import discreet as dc
from discreet.mechanisms.noise import Noise
from discreet.research.kinds.candidate_choice import Choice, Selection
from discreet.research.readers.particles import log_beta_mass

__all__ = [
    "COIN",
    "ROUNDS",
    "CoinChoice",
    "bits",
    "first_stage_loss",
    "map_as_printed",
    "promise",
    "row_ratio",
    "sampler_as_printed",
    "sampler_loss",
    "stealth_as_printed",
    "two_stage_loss",
    "two_stages_as_printed",
    "untrimmed_inside",
]

Floats = npt.NDArray[np.float64]
Counts = tuple[float, float]
"""Zeros and ones of a row, records; fractions where they are tempered."""

ROUNDS = 0.1
"""Algorithm 1 of Chowdhury et al.: epsilon_I / epsilon_B, and the share of records that the first stage samples."""


def bits(names: Iterable[str]) -> dc.Network:
    """Independent bits, states "0" and "1"."""
    listed = tuple(names)
    return dc.Network(tuple(dc.Variable(name, ("0", "1")) for name in listed), dict.fromkeys(listed, ()))


COIN = bits("a")


def promise(epsilon: Any, relation: str | dc.Relation) -> dc.Guarantee:
    """A pure guarantee for records."""
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


# ------------------------------------------------------------------------------------------ choices of a coin


@dataclass(frozen=True, eq=False)
class CoinChoice:
    """A choice among probabilities of a coin, `P(point) ~ exp(log_weights(zeros, ones))`.

    Args:
        name: a mechanism's name for a payload of this kind.
        points: probabilities of a one that can be chosen, shape (points,).
        log_weights: from the zeros and ones to the points' log weights.
        epsilon: what is printed for it, REPLACE, nats. False.
    """

    name: str
    points: Floats
    log_weights: Callable[[int, int], Floats]
    epsilon: float

    def loss(self, one: tuple[int, int], other: tuple[int, int]) -> float:
        """The exact loss between two data sets, nats.

        Args:
            one, other: zeros and ones of either.

        Returns:
            Largest |log ratio| over the points.
        """
        logs = [self.log_weights(*counts) for counts in (one, other)]
        gap = np.subtract(*(each - np.logaddexp.reduce(each) for each in logs))
        return float(np.abs(gap).max())

    def mechanism(self) -> dc.tools.Mechanism:
        """The same as a mechanism over `COIN` that believes what is printed."""
        candidates = tuple(dc.Tables(COIN, {"a": [1 - point, point]}) for point in self.points.tolist())

        def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Selection:
            return Selection(1.0, 1.0, Fraction(self.epsilon))

        def draw(counts: dc.results.Counts, prior: dc.Dirichlet, calibration: Selection, noise: Noise) -> Choice:
            zeros, ones = counts.tables["a"].tolist()
            return Choice(candidates, noise.noisy_max(self.log_weights(zeros, ones), calibration.scale))

        return dc.tools.Mechanism(self.name, calibrate, draw)


def map_as_printed(floor: float, epsilon: float, lipschitz: float, cells: int = 8000) -> CoinChoice:
    """`theta ~ exp(epsilon xi(theta | D) / (2 Delta)) xi(theta)`, a trimmed coin, xi uniform, Delta = sqrt(L). NOT DP.

    The score is a density, Delta a bound on total variation. The law has a spike of width 1e-7 at the floor, so the
    points are geometric towards both ends; each has the width of its cell as its weight.

    Args:
        floor: w; probabilities lie in [w, 1 - w].
        epsilon: nats, REPLACE.
        lipschitz: L of a record; the paper leaves it open. `ln((1 - w) / w)` is exact, `ln(1 / w)` a bound.
        cells: of either half of the support; with so many the loss is exact to 2e-6, with 400 to 1e-3 (relative).

    Returns:
        The choice.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 3 and Corollary 4.
    """
    half = np.concatenate([[0], np.geomspace(1e-12, 0.5 - floor, cells)])
    points = np.concatenate([floor + half, (1 - floor - half)[-2::-1]])
    gaps = np.concatenate([np.diff(half), np.diff(half)[::-1]])
    widths = (np.append(gaps, 0) + np.append(0, gaps)) / 2
    delta = math.sqrt(lipschitz)

    def log_weights(zeros: int, ones: int) -> Floats:
        logs = ones * np.log(points) + zeros * np.log1p(-points)
        density = np.exp(logs - logs.max())
        return np.asarray(epsilon * density / (density @ widths) / (2 * delta) + np.log(widths))

    return CoinChoice("map_estimate", points, log_weights, epsilon)


def untrimmed_inside(lipschitz: float, cells: int = 4000) -> CoinChoice:
    """A draw from the untrimmed posterior of a coin, for 2 L; all that lies outside `Theta_L` is one outcome. NOT DP.

    The prior is Beta(2, 2), since the corollary asks for c > 1: with c = 1.01 and L0 = .06 it satisfies Assumption 2; a
    uniform one has no c above 1.

    Args:
        lipschitz: L; inside are the probabilities with `|ln(theta / (1 - theta))| <= L`.
        cells: of the set inside.

    Returns:
        The choice; its last point stands for all that lies outside.

    Source:
        Dimitrakakis et al. (JMLR 2017), Corollary 9, restricted to sets inside Theta_L.
    """
    edge = 1 / (1 + math.exp(-lipschitz))
    inside = np.linspace(1 - edge, edge, cells)
    widths = np.full(cells, (2 * edge - 1) / (cells - 1))
    widths[[0, -1]] /= 2
    fine = np.linspace(0, 1, 200_001)[1:-1]
    outside = fine[(fine < 1 - edge) | (fine > edge)]

    def log_weights(zeros: int, ones: int) -> Floats:
        def logs(theta: Floats) -> Floats:
            return np.asarray((1 + ones) * np.log(theta) + (1 + zeros) * np.log1p(-theta))

        beyond = logs(outside) + math.log(1 / 200_000)
        return np.append(logs(inside) + np.log(widths), np.logaddexp.reduce(beyond))

    return CoinChoice("posterior_sampler", np.append(inside, 0.5), log_weights, 2 * lipschitz)


# ------------------------------------------------------------------------------------------ the trimmed sampler


def sampler_as_printed(floor: float) -> dc.tools.Mechanism:
    """One draw of the plain posterior, trimmed at the floor, for `2 ln(1 / w)` whatever the number of nodes. NOT DP.

    Args:
        floor: w of every probability.

    Returns:
        The mechanism; it is private for one changed attribute of independent nodes, not for a record.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24 "under the classical definition"; probably the sampler of Zhang et al.
        (AAAI 2016), Figure 1.
    """
    honest = dc.research.posterior_sampler(floor=floor, temper=1.0)
    enough = promise(100, "replace")
    return replace(
        honest,
        calibrate=lambda network, prior, _: replace(
            honest.calibrate(network, prior, enough), reported=Fraction(2 * math.log(1 / floor))
        ),
    )


def row_ratio(floor: float, one: Counts, other: Counts) -> tuple[float, float]:
    """Largest and least log ratio of a trimmed row's posterior densities, uniform prior, two states.

    Args:
        floor: w.
        one, other: zeros and ones of either data set that fall into the row. Zeros and ones must not both grow: the
            ratio is then monotone, and its extremes are at the ends of the support.

    Returns:
        (largest, least) of `ln p(theta | one) - ln p(theta | other)`, nats.
    """
    ends = np.array([floor, 1 - floor])
    logs = [xlog1py(zeros, -ends) + xlogy(ones, ends) - _log_mass(floor, zeros, ones) for zeros, ones in (one, other)]
    gap = logs[0] - logs[1]
    return float(gap.max()), float(gap.min())


def _log_mass(floor: float, zeros: float, ones: float) -> float:
    """Log of the integral of the likelihood over the support."""
    return float(log_beta_mass(1 + ones, 1 + zeros, floor, 1 - floor) + betaln(1 + ones, 1 + zeros))


def sampler_loss(floor: float, rows: Iterable[tuple[Counts, Counts]]) -> float:
    """The exact loss of one draw of independent trimmed rows between two data sets, nats.

    Args:
        floor: w of every row.
        rows: for every row that differs, its counts in either data set.

    Returns:
        Largest |log ratio| of the two densities: rows add up.
    """
    ratios = np.array([row_ratio(floor, one, other) for one, other in rows])
    highest, lowest = ratios.sum(axis=0)
    return float(max(highest, -lowest))


# ------------------------------------------------------------------------------------------ Algorithm 1, replacing


def two_stages_as_printed() -> dc.tools.Mechanism:
    """Algorithm 1 with the noise and the sampling of ADD_REMOVE, whatever relation it is asked for.

    Returns:
        The mechanism: `epsilon_I = 0.1 epsilon_B`, one record in ten sampled. NOT epsilon-DP under REPLACE.

    Source:
        Chowdhury, Rekatsinas and Jha (ICML 2020), Algorithm 1, whose Definition 2.2 reads as either relation.
    """
    mechanism = dc.research.allocated(first=str(ROUNDS), sampling=str(ROUNDS))
    return replace(
        mechanism,
        calibrate=lambda network, prior, guarantee: mechanism.calibrate(
            network, prior, promise(guarantee.epsilon, "add-remove")
        ),
    )


def first_stage_loss(one: tuple[int, int], other: tuple[int, int], epsilon: float) -> float:
    """The exact loss of the first stage alone on a coin between two data sets, nats.

    Args:
        one, other: zeros and ones of either.
        epsilon: epsilon_I, what the stage costs under ADD_REMOVE.

    Returns:
        Largest |log ratio| over its noisy counts of a sample; cells are independent.
    """
    amplified = math.log1p(math.expm1(epsilon) / ROUNDS)
    total = np.zeros(2)
    for u, v in zip(one, other, strict=True):
        # Further out the ratio no longer changes.
        window = np.arange(-2, max(u, v) + 3)
        gap = _log_sampled(u, window, amplified) - _log_sampled(v, window, amplified)
        total += gap.max(), -gap.min()
    return float(total.max())


def two_stage_loss(one: tuple[int, int], other: tuple[int, int], epsilon: float) -> float:
    """The exact loss of `two_stages_as_printed` on a coin between two data sets, nats.

    Args:
        one, other: zeros and ones of either.
        epsilon: epsilon_B.

    Returns:
        Largest |log ratio| over both stages' noisy counts; the second stage reads all records.
    """
    moved = sum(abs(u - v) for u, v in zip(one, other, strict=True))
    return first_stage_loss(one, other, ROUNDS * epsilon) + moved * (1 - ROUNDS) * epsilon


def _log_sampled(count: int, outputs: npt.NDArray[np.int64], epsilon: float) -> Floats:
    """Log law, up to a constant, of discrete Laplace noise on a sample of so many records."""
    kept = np.arange(count + 1)
    terms = binom.logpmf(kept, count, ROUNDS) - epsilon * np.abs(outputs[:, None] - kept)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


# ------------------------------------------------------------------------------------------ stealth


def stealth_as_printed(network: dc.Network, t: float) -> dc.tools.Mechanism:
    """Algorithm 2 at epsilon 1 with its printed scale and shift. Private; its tables are negative more often than said.

    Args:
        network: public, binary.
        t: of the shift `4 t |N_I|^2`; Corollary 3 promises non-negative tables with probability `1 - exp(-t)`.

    Returns:
        The mechanism, with integer noise.

    Source:
        Zhang et al. (AAAI 2016), Algorithm 2 and Corollary 3.
    """
    subsets, honest = len(network.downward_closure), dc.research.fourier()
    return replace(
        honest,
        calibrate=lambda network, prior, guarantee: replace(
            honest.calibrate(network, prior, guarantee),
            scale=2.0 * subsets,
            shift=math.floor(4 * t * subsets**2),
            noisy_total=True,
        ),
    )
