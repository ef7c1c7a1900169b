"""Audit of the pack's mechanisms whose outputs cannot all be enumerated.

Rows on a grid are enumerated on a coarse one. Gamma variates, and weights in a ball, are continuous: their draws are
counted on both sides of a threshold, and the loss is bounded from below with a stated confidence (Clopper and Pearson).
Such a bound can refute a guarantee, never prove it. For weights the stated density is compared as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, logsumexp

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.made_up_designs import columns_of
from discreet.designs.records.rows import Rows, read_rows
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import ExactNoise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee
from discreet.releases.metric_unit import distance_of
from discreet.research.kinds.parameter_draws import Tempering, Trimming
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.kinds.weight_draws import Truncation, WeightDraws
from discreet.research.scores.distances import changed_records
from discreet.research.scores.likelihood_sensitivity import log_range
from discreet.verify.audit import Audited, Check, Pairs, changed_values, enumerate_losses, measure_loss
from discreet.verify.made_up import made_up_in
from discreet.verify.script import Leak, Log, ScriptedAnswers, logged, numbers
from discreet.verify.tiny_data import CROWD_RECORDS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ENUMERATED_STEPS = 4
"""Grid steps of an enumerated row; the guarantee does not depend on them."""
BOUND_DRAWS = 20_000
"""Draws from each of two data sets for a statistical bound."""
CONFIDENCE = 1 - 1e-6
"""Confidence of a statistical bound: it exceeds the true loss with a probability of at most 1e-6."""
LEAST_DRAWS_BEYOND = 200
"""Least number of draws beyond a threshold: with fewer the bound is too loose."""
BOUNDED_PAIRS = 2
"""Pairs of data sets for a statistical bound."""
BOUND_WORDS = f"at least, {100 * CONFIDENCE:.4f} % sure"
BALL_STEPS = 40
"""Steps of a grid across a ball."""
LOSS_STEPS = 200
"""Steps of a grid of one draw's losses."""
BISECTIONS = 60
"""Halvings of the range of losses: to the last bit."""
PEAK_NATS = 35.0
"""Nats by which a crowd of equal records raises a row's peak: draws reveal most from a sharp posterior, but not so
sharp that only the coin of 2^-64 (44 nats) leaves the peak."""
MOST_CROWD_RECORDS = 10_000
"""Most equal records of a crowd; more take long to count."""


def _enumerate_rows(case: Audited) -> tuple[float, str]:
    """Measure the loss of draws of rows from a grid.

    Independent draws have equal losses: one is enumerated, on a coarse grid. The real number of draws and the real grid
    are run once, without a loss.
    """
    real = case.calibration
    steps = dict.fromkeys(real.resolution, ENUMERATED_STEPS)
    coarse = case._replace(calibration=replace(real, resolution=steps, draws=1))
    if case.guarantee.delta:
        measure_loss(*coarse, 0, real)
        return _measure_at_delta(coarse, real.draws), "exactly"
    return measure_loss(*coarse, real.draws, real), "exactly"


def _follow_choices(case: Audited) -> tuple[float, str]:
    """Measure the loss of draws of candidates: exact, at the delta if there is one."""
    if not case.guarantee.delta:
        return enumerate_losses(case)
    measure_loss(*case, 0, None)
    return _measure_at_delta(case, 1), "exactly"


def _measure_at_delta(case: Audited, draws: int) -> float:
    """Measure epsilon at delta of what a draw chooses and picks; of pairs at k units epsilon and delta count k times.

    A noisy number of records adds its pure loss.
    """
    mechanism, calibration, prior, pairs, guarantee = case
    statistic_from = made_up_in(mechanism.over).statistic_from
    logs = {
        data: logged(mechanism, calibration, prior, statistic_from(mechanism, prior.over, data), ScriptedAnswers())
        for data in set(chain(*pairs))
    }
    number = 1 / calibration.total_scale if calibration.total_scale else 0.0
    largest = 0.0
    for pair, units in pairs.items():
        ours, theirs = (_list_laws(logs[data]) for data in pair)
        delta = float(guarantee.delta) * units
        for law, neighbour in ((ours, theirs), (theirs, ours)):
            laws = [laws for laws in zip(law, neighbour, strict=True) if not np.array_equal(*laws)] * draws
            largest = max(largest, (number + _convolve_losses(laws, delta)) / units if laws else 0.0)
    return largest


def _list_laws(log: Log) -> list[Floats]:
    """List the log probabilities of each independent choice, and of each row's paths."""
    return [*log.source.choices, *(np.array([row[path] for path in sorted(row)]) for row in log.rows)]


def _count_draws(case: Audited) -> tuple[float, str]:
    """Bound the loss of continuous draws of rows from below, by counting."""
    return max(measure_loss(*case, 1, None), _bound_loss(*case)), BOUND_WORDS


def _state_density(case: Audited) -> tuple[float, str]:
    """Measure the loss of draws of weights, by their stated density and by counting."""
    design = case.prior.design
    statistics = {data: read_rows(design, *columns_of(design, data)) for data in set(chain(*case.pairs))}
    stated = truncation_loss(case.calibration, case.prior, statistics, case.pairs, float(case.guarantee.delta))
    return max(stated, _bound_loss(*case)), f"density as stated; draws {BOUND_WORDS}"


def truncation_loss(
    calibration: Truncation, prior: Normal, rows: Mapping[Any, Rows], pairs: Pairs, delta: float = 0.0
) -> float:
    """Measure the loss of all draws from a posterior in a ball, on a grid of the ball, and of the number of records.

    Args:
        calibration: states the law.
        prior: public; over a design of one or two weights.
        rows: of each data set.
        pairs: keys of neighbouring data sets.
        delta: of the guarantee.

    Returns:
        Nats: epsilon at delta of the draws, by convolution of their losses on a grid, rounded down, and that of the
        noisy number. A prior on the grid's points alone has the same guarantee, so that a larger loss refutes it.
    """
    line = np.linspace(-calibration.radius, calibration.radius, BALL_STEPS + 1)
    points = np.array(list(product(line, repeat=prior.design.size)))
    points = points[np.linalg.norm(points, axis=1) <= calibration.radius * (1 + 1e-12)]
    if prior.design.size == 2:
        turn = np.linspace(0, 2 * np.pi, 2 * BALL_STEPS)
        points = np.concatenate([points, calibration.radius * np.column_stack([np.cos(turn), np.sin(turn)])])
    logs = {}
    for key, data in rows.items():
        residuals = data.target / GRID_STEPS - points @ (data.coordinates / GRID_STEPS).T
        law = -calibration.temper / (2 * (calibration.variance or 1.0)) * (residuals**2).sum(axis=1)
        law -= (points**2).sum(axis=1) / (2 * prior.deviation**2)
        logs[key] = law - logsumexp(law)
    number = 1 / calibration.total_scale if calibration.total_scale else 0.0
    both = [(logs[a], logs[b]) for first, second in pairs for a, b in ((first, second), (second, first))]
    if not delta:
        return number + calibration.draws * max(float((p - q).max()) for p, q in both)
    return number + max(_convolve_losses([pair] * calibration.draws, delta) for pair in both)


def _convolve_losses(laws: Sequence[tuple[Floats, Floats]], delta: float) -> float:
    """Find epsilon at delta of independent draws with log probabilities p beside q, for each its two.

    Losses of several are rounded down to a grid, those of one are as they are.
    """
    law: npt.NDArray[Any] = np.exp(laws[0][0])
    at: npt.NDArray[Any] = laws[0][0] - laws[0][1]
    if len(laws) > 1:
        step = max(float(np.ptp(p - q)) for p, q in laws) / LOSS_STEPS or 1.0
        law, least = np.ones(1), 0.0
        for p, q in laws:
            law = np.convolve(law, np.bincount(np.floor((p - q - (p - q).min()) / step).astype(np.int64), np.exp(p)))
            least += float((p - q).min())
        at = least + step * np.arange(len(law))

    def divergence(epsilon: float) -> float:
        return float(law @ -np.expm1(np.minimum(epsilon - at, 0.0)))

    low, high = 0.0, max(float(at.max()), 0.0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if divergence(middle) > delta else (low, middle)
    return low


def _bound_loss(mechanism: Mechanism, calibration: Any, prior: Any, pairs: Pairs, guarantee: Guarantee) -> float:
    """Bound the loss of each unit from below over two pairs: the fewest records, and a crowd of equal records."""
    most, delta, scripted = 0.0, float(guarantee.delta), calibration.continuous
    for pair, units in (list(pairs.items())[index] for index in (0, -1)):
        # A noisy number of records adds its loss, which it attains with a probability above one half.
        number_loss = measure_loss(mechanism, calibration, prior, {pair: 1}, guarantee, 1, None) if scripted else 0.0
        bound = _bound_pair(mechanism, calibration, prior, pair, 2 * delta if number_loss else delta)
        most = max(most, (number_loss + bound) / units)
    return most


class _ConstantNumbers(ExactNoise):
    """Exact noise, but every noisy whole number is 0: a number that is not noisy differs between data sets."""

    def discrete_laplace(self, values: Integers, scale: float) -> Integers:
        return np.zeros_like(values)


def _bound_pair(
    mechanism: Mechanism,
    calibration: Any,
    prior: Dirichlet | Normal,
    pair: tuple[Any, Any],
    delta: float,
) -> float:
    """Bound epsilon at delta from below, by draws of both data sets: half select an event, the other half count it."""
    outputs, besides, statistic_from = [], set(), made_up_in(mechanism.over).statistic_from
    for data in pair:
        many = replace(calibration, draws=calibration.draws * BOUND_DRAWS)
        payload: Any = mechanism.draw(statistic_from(mechanism, prior.over, data), prior, many, _ConstantNumbers())
        if isinstance(payload, WeightDraws):
            cells = [payload.weights.T]
            besides.add(numbers(replace(payload, weights=np.zeros_like(payload.weights))))
        else:
            cells = [payload.cells[node] for node in payload.network.nodes]
        outputs.append(np.concatenate([flat.reshape(-1, BOUND_DRAWS, calibration.draws).sum(axis=2) for flat in cells]))
    if len(besides) > 1:
        raise Leak("the release depends on the records in fields other than the draws")
    best = 0.0
    half = BOUND_DRAWS // 2
    risk = (1 - CONFIDENCE) / (BOUNDED_PAIRS * 4 * len(outputs[0]))

    def bounds(hits: Integers, hits_q: Integers) -> Floats:
        """Bound epsilon from below by numbers of draws beyond a threshold (Clopper and Pearson); -inf for none."""
        lower = np.where(hits > 0, betaincinv(np.maximum(hits, 1), half - hits + 1, risk / 2), 0.0)
        upper = np.where(hits_q < half, betaincinv(hits_q + 1, np.maximum(half - hits_q, 1), 1 - risk / 2), 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(lower - delta, 0) / upper))

    for p, q in ((outputs[0], outputs[1]), (outputs[1], outputs[0])):
        for first, second in zip(p, q, strict=True):
            for sign in (1, -1):
                grid = np.quantile(sign * first[:half], np.linspace(0.0005, 0.9995, 400))
                # The raw ratio is largest in the tail, where it is uncertain: maximise the confident lower bound.
                ahead = half - np.searchsorted(np.sort(sign * first[:half]), grid)
                behind = half - np.searchsorted(np.sort(sign * second[:half]), grid)
                at = grid[np.argmax(np.where(ahead >= LEAST_DRAWS_BEYOND, bounds(ahead, behind), -np.inf))]
                hits, hits_q = np.sum(sign * first[half:] >= at), np.sum(sign * second[half:] >= at)
                best = max(best, float(bounds(hits, hits_q)))
    return best


def _size_crowd(over: Network | Design, calibration: Any) -> int:
    """Choose a number of equal records that gives a trimmed posterior a peak."""
    if not isinstance(over, Network):
        return CROWD_RECORDS
    ranges: Iterator[float] = (log_range(over.schema[node].size, floor) for node, floor in calibration.floors.items())
    peaked: float = PEAK_NATS / (calibration.temper * min(filter(None, ranges), default=1.0))
    return min(math.ceil(peaked), MOST_CROWD_RECORDS)


def _size_choice(over: Any, calibration: Any) -> int:
    """Choose a number of equal records for which the delta is promised, with those beside them."""
    usual = Check(enumerate_losses).crowd(over, calibration)
    return usual if calibration.records is None else min(max(calibration.records * 2 // 3 - 1, 1), usual)


def _list_changes(over: Any, guarantee: Guarantee, rests: Iterable[Any]) -> Pairs:
    """List pairs of data sets under a metric, of whole records if it has a name."""
    return changed_records(over, guarantee, rests) if distance_of(guarantee) else changed_values(over, guarantee, rests)


CHECKS = (
    (ScoredNoise, Check(_follow_choices, crowd=_size_choice, pairs=_list_changes)),
    (Trimming, Check(_enumerate_rows, crowd=_size_crowd)),
    (Tempering, Check(_count_draws)),
    (Truncation, Check(_state_density, continuous=True)),
)
"""Checks of calibrations whose requests for noise are not all enumerated."""
