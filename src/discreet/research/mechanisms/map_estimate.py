"""MAP mechanism: draws probabilities with a large likelihood (Zhang et al., Algorithm 3, corrected).

Correction: the printed score is a posterior density with a bound on total variation as its sensitivity, which is not
private. The score here is the log-likelihood, whose sensitivity is the range of one record's log-likelihood over the
support. On the trimmed simplex the mechanism is then the tempered posterior sampler, whose tempering exponent may
exceed 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from discreet.designs.mechanisms.record_number import noisy_total
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Guarantee
from discreet.records.counts import Counts
from discreet.research.kinds.candidate_choice import Choice, Selection
from discreet.research.kinds.parameter_draws import ParameterDraws, Trimming
from discreet.research.mechanisms.posterior_sampler import draw_rows, refuse_vast, require_few, trimming
from discreet.research.mechanisms.scored import affordable_rate, draw_indices
from discreet.research.scores.likelihood_sensitivity import widest_range
from discreet.util.arrays import Floats, Ints

SUPPORT_LOG_RANGE = math.log(9)
"""Log range of a row's probabilities on the trimmed support: a coin between 0.1 and 0.9."""
STEPS_PER_NAT = 2**30
"""Steps of a nat: log-probabilities of candidates are multiples of 2^-30, so likelihoods are sums of whole numbers."""
LARGEST_RATE = 1e9
"""Largest weight of a record's log-likelihood, for candidates that are almost equal."""
CANDIDATES_LIMIT = 1000
"""Most candidates: the sensitivity is a maximum over all pairs."""


def map_estimate(candidates: Sequence[Tables] | str | None = None, *, floor: float | None = None) -> Mechanism:
    """Choose one set of all probabilities, probably near the most probable one (private MAP).

    It is drawn with `P(theta) ~ exp(epsilon log p(D | theta) / (2 Delta)) prior(theta)`, Delta the sensitivity of the
    log-likelihood.

    Args:
        candidates: public probabilities of the whole network, at least two, all greater than 0; one of them is chosen,
            with equal prior weights. Text names their BIF or XMLBIF files, separated by commas. None draws every row
            from the trimmed simplex on a public grid.
        floor: smallest probability of the trimmed simplex, the same for all nodes; None takes the log range log 9 for
            every node (0.1 for two states). A higher floor allows a larger tempering exponent. Not with candidates.

    Returns:
        The mechanism.

    Raises:
        InputError: fewer than two or too many candidates, a probability of 0, or a floor with candidates; when a
            release is calibrated, candidates over another network, or a guarantee with a delta.

    Guarantee:
        Pure epsilon. Under ADD_REMOVE 1/20 of it is spent on the number of records, which the posterior needs. On the
        simplex: see `posterior_sampler`, with the tempering exponent `epsilon / (2 sum_i L_i)` under REPLACE and, of
        what the number leaves, `epsilon / sum_i L_i` under ADD_REMOVE. Among candidates: let w_c be
        `exp(log p(D | c) / scale)`, so that `1 / P(c) = sum_d w_d / w_c`. One record changes the difference of two
        candidates' log-likelihoods by at most the sensitivity R, so every term of the sum, and with them P(c), by a
        factor of at most `exp(R / scale)`.
        The draw is that of `scored`: exact integer arithmetic.

    Source:
        McSherry and Talwar (2007); Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithm 3 and its correction.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> dry, damp = (dc.Tables(network, {"rain": [p, 1 - p], "wet": [[0.9, 0.1], [0.2, 0.8]]}) for p in (0.8, 0.4))
        >>> choice = dc.research.map_estimate([dry, damp]).calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> 1 < choice.sensitivity < 1.1, choice.total <= 1  # the larger of log(.8 / .4) and log(.6 / .2)
        (True, True)
    """
    if candidates is None:
        return _draw_from_simplex(floor)
    if isinstance(candidates, str):
        candidates = [Tables.read(name.strip()) for name in candidates.split(",") if name.strip()]
    if floor is not None:
        raise InputError("a floor trims the simplex, which is not used with candidates; leave out one of both")
    _require_candidates(candidates)
    return _choose_among(tuple(candidates))


def _require_candidates(candidates: Sequence[Tables]) -> None:
    """Refuse candidates that are no probabilities of one network, or have one that a single record could rule out."""
    if not 2 <= len(candidates) <= CANDIDATES_LIMIT:
        raise InputError(f"a choice needs from 2 to {CANDIDATES_LIMIT:,} candidates, got {len(candidates)}")
    if any(candidate.network != candidates[0].network for candidate in candidates):
        raise InputError("all candidates must be over one network")
    if any(candidate.draws is not None for candidate in candidates):
        raise InputError("a candidate needs one table of probabilities for each node, not draws of it")
    for candidate in candidates:
        for node, array in candidate.items():
            if not (np.all(np.isfinite(array)) and np.all(np.abs(array.sum(axis=-1) - 1) < 1e-6)):
                raise InputError(f"a candidate's rows of {node!r} are no probabilities")
    if any(not np.all(array > 0) for candidate in candidates for array in candidate.values()):
        raise InputError("every probability of a candidate must be greater than 0, or one record could rule it out")


def _draw_from_simplex(floor: float | None) -> Mechanism:
    """Make the mechanism without candidates: one draw of the tempered sampler, without a limit of its exponent."""

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> Trimming:
        if guarantee.delta:
            raise InputError("map_estimate keeps a pure guarantee; ask for delta 0")
        return trimming(prior, guarantee, 1, temper=None, floor=floor, rule=(math.inf, SUPPORT_LOG_RANGE))

    def draw(statistic: Counts, prior: Dirichlet, calibration: Trimming | Selection, noise: Noise) -> ParameterDraws:
        assert isinstance(calibration, Trimming)
        return draw_rows(statistic, prior, calibration, noise)

    return Mechanism("map_estimate", calibrate, draw, require=require_few)


def _choose_among(candidates: tuple[Tables, ...]) -> Mechanism:
    """Make the mechanism over a list of candidates: the exponential mechanism."""
    network = candidates[0].network
    logs = {node: _round_to_steps(np.log([candidate[node] for candidate in candidates])) for node in network.nodes}

    def calibrate(over: Network, prior: Dirichlet, guarantee: Guarantee) -> Selection:
        if over != network:
            raise InputError("the candidates and the counts are over different networks")
        refuse_vast(guarantee)
        width = Fraction(widest_range(logs, guarantee.relation), STEPS_PER_NAT)
        rate, total_scale, reported = affordable_rate("map_estimate", width, guarantee, most=LARGEST_RATE)
        # The law uses the inverse of the scale, which rounding must not make larger than the rate.
        return Selection(float(width), math.nextafter(1 / rate, math.inf), reported, total_scale)

    def draw(statistic: Counts, prior: Dirichlet, calibration: Trimming | Selection, noise: Noise) -> Choice:
        assert isinstance(calibration, Selection)
        # Whole numbers, so that no rounding depends on the number of records.
        scores = [0] * len(candidates)
        for node, tables in logs.items():
            counts = statistic.tables[node].ravel().astype(object)
            for c, table in enumerate(tables):
                scores[c] += int(np.dot(table.ravel(), counts))
        unit = 1 / (Fraction(calibration.scale) * STEPS_PER_NAT)
        (index,) = draw_indices([unit * score for score in scores], 1, noise)
        return Choice(candidates, int(index), noisy_total(statistic.records, calibration.total_scale, noise))

    numbers = len(candidates) * network.size
    return Mechanism("map_estimate", calibrate, draw, only=network, numbers=lambda *_: numbers)


def _round_to_steps(logs: Floats) -> Ints:
    """Round log-probabilities to whole steps: public rounding, the same for all data sets."""
    return np.rint(logs * STEPS_PER_NAT).astype(np.int64)
