"""Factored exponential mechanism: a choice among public candidates by a score that is a sum over records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from discreet.designs.design import GRID_STEPS, Design, Normal
from discreet.designs.mechanisms.design_mechanism import design_mechanism
from discreet.designs.mechanisms.record_number import noisy_total
from discreet.designs.records.rows import Rows, from_rows
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.research.kinds.factored_choice import FactoredChoice, FactoredNoise, FactorKind
from discreet.research.mechanisms.score_sums import ScoreSums, score_sums
from discreet.research.mechanisms.scored import affordable_rate, draw_indices
from discreet.research.scores.custom_factors import OwnFactor
from discreet.research.scores.factors import CategoricalFactor, DirectionFactor, Factor
from discreet.research.scores.score_tables import SCORE_STEPS
from discreet.util.arrays import Ints
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import NETWORK_BYTES

FACTOR_BLOCK = 2**14
"""Number of records whose factors are in memory at once."""


def factored(factor: Factor | OwnFactor | str) -> Mechanism:
    """Choose one candidate of a public list by the exponential mechanism, scored record by record.

    Candidate z has the probability `P(z) ~ exp(base_z + rate sum_i f(x_i, z))`, with f between 0 and 1.

    Args:
        factor: public. `own_factor` makes one from any function of yours; `statistic_of` computes its sums before a
            charge (`ScoreSums`). `DirectionFactor` reads records as `design.scaled` rows, `CategoricalFactor` as codes
            of the states of one feature with the bounds 0 and the number of states less 1. Text is JSON, or the name of
            a JSON file, with the fields of a release: `{"factor": "direction", "parameters": {"noise_variance": 0.1,
            "tau": 2}, "candidates": [[0.9, 0], [0, 0.9]]}`, or "categorical" with the parameter "floor".

    Returns:
        The mechanism.

    Raises:
        InputError: when a release is calibrated: a design that does not fit the factor, candidates that are all equal,
            a guarantee with a delta, or an epsilon beyond 500 or close to 0.

    Guarantee:
        Pure epsilon: `rate factor.width(relation) / SCORE_STEPS`; see there. For a function of your own it is `rate`
        under ADD_REMOVE and `2 rate` under REPLACE, provided that it does not remember records: it gets each record
        alone, and its result is clamped and rounded before the sum. Scores are sums of whole numbers, and the draw is
        that of `scored`. Under ADD_REMOVE 1/20 of epsilon is spent on the number of records, which the posterior needs.

    Source:
        Williams and McSherry (NIPS 2010), Section 2, with the range of a factor instead of twice its largest value;
        McSherry and Talwar (2007).

    Example:
        >>> import discreet as dc
        >>> axes = dc.research.DirectionFactor(dc.research.spread_candidates(2, 4, [0.7]), noise_variance=0.25, tau=2.0)
        >>> x, y = (dc.Variable(name, bounds=(-1, 1)) for name in "xy")
        >>> plane = dc.designs.Design((x, y), intercept=False)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.research.factored(axes).calibrate(plane, dc.designs.Normal(plane, 1.0), promise)
        >>> 0.9 < noise.rate < 1, noise.total <= 1  # 1/20 of epsilon is for the number of records
        (True, True)
    """
    if isinstance(factor, str):
        factor = _read_factor(factor)
    if type(factor) not in (DirectionFactor, CategoricalFactor, OwnFactor):
        raise InputError(
            "a factor must be a DirectionFactor, a CategoricalFactor, or made by `own_factor` from a function of yours"
        )
    kind, parameters = _describe_factor(factor)
    base = factor.base if isinstance(factor, OwnFactor) else None
    weights = [Fraction(0)] * len(factor.candidates) if base is None else [Fraction(weight) for weight in base.tolist()]

    def calibrate(design: Design, prior: Normal, guarantee: Guarantee) -> FactoredNoise:
        _require_fit(factor, design)
        return FactoredNoise(*affordable_rate("factored", _find_width(factor, guarantee.relation), guarantee))

    def draw(statistic: Rows | ScoreSums, prior: Normal, calibration: FactoredNoise, noise: Noise) -> FactoredChoice:
        unit = Fraction(calibration.rate) / SCORE_STEPS
        sums = _sum_factors(factor, statistic)
        exponents = [weight + unit * total for weight, total in zip(weights, sums, strict=True)]
        return FactoredChoice(
            design=statistic.over,
            kind=kind,
            candidates=factor.candidates,
            parameters=parameters,
            index=int(draw_indices(exponents, 1, noise)[0]),
            rate=calibration.rate,
            total=noisy_total(statistic.records, calibration.total_scale, noise),
            base=base if base is not None and np.any(base) else None,
        )

    def require(statistic: Rows | ScoreSums) -> None:
        if isinstance(statistic, ScoreSums) and statistic.factor is not factor:
            raise InputError("these sums are of another score: compute them with `statistic_of` for this mechanism")

    numbers = factor.candidates.size
    mechanism = design_mechanism("factored", calibrate, draw, Rows, lambda rows: rows, numbers=lambda *_: numbers)
    if isinstance(factor, OwnFactor):
        of_records = from_rows(partial(score_sums, factor=factor))
        return replace(mechanism, statistic=ScoreSums, require=require, of_records=of_records)
    return mechanism


def _read_factor(text: str) -> Factor:
    """Read a factor from JSON, or from a file of it."""
    document = read_json(
        text if text.lstrip().startswith("{") else read_text(text, "factor", NETWORK_BYTES), "factor", NETWORK_BYTES
    )
    match document:
        case {"factor": "direction", "parameters": {"noise_variance": _, "tau": _}, "candidates": list()}:
            make: Callable[..., Factor] = DirectionFactor
        case {"factor": "categorical", "parameters": {"floor": _}, "candidates": list()}:
            make = CategoricalFactor
        case _:
            raise InputError(
                "a factor needs the fields 'factor' (direction or categorical), 'parameters' (noise_variance and tau, "
                "or floor) and 'candidates', a list of lists of numbers"
            )
    parameters = document["parameters"]
    if not all(type(value) in (int, float) for value in parameters.values()):
        raise InputError("the parameters of a factor must be numbers")
    try:
        return make(np.array(document["candidates"], np.float64), **parameters)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the factor is invalid: {error}") from None


def _find_width(factor: Factor | OwnFactor, relation: Relation) -> Fraction:
    """Bound one record's change of the difference of two candidates' scores, in whole units."""
    if isinstance(factor, OwnFactor):
        return Fraction(relation.by_record(1, 2))
    return Fraction(factor.width(relation), SCORE_STEPS)


def _sum_factors(factor: Factor | OwnFactor, statistic: Rows | ScoreSums) -> Sequence[int]:
    """Sum the records' factors, in whole steps; the sums are private."""
    if isinstance(statistic, ScoreSums) or isinstance(factor, OwnFactor):
        assert isinstance(statistic, ScoreSums), "the mechanism declares its statistic"
        return statistic.values
    total = np.zeros(len(factor.candidates), np.int64)
    for coordinates, _ in statistic.blocks():
        for start in range(0, len(coordinates), FACTOR_BLOCK):
            block = coordinates[start : start + FACTOR_BLOCK]
            steps = factor.steps(
                _find_codes(factor, block) if isinstance(factor, CategoricalFactor) else block / GRID_STEPS
            )
            total += steps.sum(axis=0)
    return [int(score) for score in total]


def _find_codes(factor: CategoricalFactor, coordinates: Ints) -> Ints:
    """Recover codes of states from coordinates between -1 and 1, which stand for 0 to the number of states less 1."""
    largest = factor.candidates.shape[1] - 1
    return np.asarray(np.rint((coordinates / GRID_STEPS + 1) / 2 * largest), np.int64)


def _require_fit(factor: Factor | OwnFactor, design: Design) -> None:
    """Refuse a design whose records the factor cannot read."""
    if isinstance(factor, OwnFactor):
        if design != factor.design:
            raise InputError("a score is over its own design: pass `factor.design` to the release")
        return
    if design.target is not None or design.intercept:
        raise InputError("a factored choice needs a design without target and intercept")
    if isinstance(factor, CategoricalFactor):
        wanted, states = 1, factor.candidates.shape[1]
        if states > 2 * GRID_STEPS + 1:
            raise InputError(f"a categorical factor has at most {2 * GRID_STEPS + 1:,} states: the steps of the grid")
        if len(design.features) == 1 and design.features[0].bounds != (0, states - 1):
            raise InputError(
                f"a categorical factor of {states} states reads one feature with the bounds 0 and {states - 1}"
            )
    else:
        wanted = factor.candidates.shape[1]
    if len(design.features) != wanted:
        raise InputError(f"the factor's records have {wanted} numbers, the design's {len(design.features)}")


def _describe_factor(factor: Factor | OwnFactor) -> tuple[FactorKind, dict[str, float]]:
    """List the kind and parameters from which a reader makes the factor again."""
    match factor:
        case DirectionFactor():
            return "direction", {"noise_variance": factor.noise_variance, "tau": factor.tau}
        case CategoricalFactor():
            return "categorical", {"floor": factor.floor}
        case OwnFactor():
            return "own", {"low": factor.low, "high": factor.high}
