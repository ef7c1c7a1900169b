"""Scores of your own for records with too many types for a table: a function that is called for each record.

The sensitivity of a sum of scores is known only if a record's score depends on nothing else. So the function is called
with one record at a time, on copies: it never gets two together, and the last bit of a sum in floating point cannot
depend on their number. A function could still remember earlier records. The user must rule that out; as a check, the
function is called twice, in two orders, first on simulated records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.designs.design import GRID_STEPS, Design
from discreet.errors import InputError, listed, require
from discreet.research.scores.score_tables import CANDIDATES, SCORE_STEPS, WIDEST, Function
from discreet.util.arrays import Floats, Ints, freeze, number, numbers

Values = Mapping[str, npt.NDArray[np.generic]]

TRIED_RECORDS = 64
"""Number of simulated records on which a function is tried."""


@dataclass(frozen=True, eq=False)
class OwnFactor:
    """Score of a design's records by a function, clamped and rounded record by record; see `own_factor`.

    Args:
        design: public; of its records.
        function: from values of records and candidates to scores.
        candidates: float64, shape `(Z, d)`.
        low, high: range of the score, in its own unit.
        base: log weights of the candidates before any record, float64, shape `(Z,)`.

    Raises:
        InputError: an empty range, fewer than two candidates or too many, or another number of weights.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ages = dc.designs.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
        >>> distance = lambda record, z: -abs(record["age"][:, None] - z[:, 0])
        >>> near = dc.research.OwnFactor(ages, distance, [[20], [60]], -50, 0, [0, 0])
        >>> (near.steps({"age": np.array([20.0])}) / 2**20).round(3).tolist()  # 2^20 steps from -50 to 0
        [1.0, 0.2]
    """

    design: Design
    function: Function
    candidates: Floats
    low: float
    high: float
    base: Floats

    def __post_init__(self) -> None:
        """Freeze the arrays, and refuse an invalid score."""
        candidates, base = np.asarray(self.candidates, np.float64), np.asarray(self.base, np.float64)
        freeze(self, candidates=candidates, base=base)
        low, high = self.low, self.high
        if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
            raise InputError(
                f"a score needs a range from low to high, two finite numbers in this order, not {low}, {high}"
            )
        if self.candidates.ndim != 2 or not self.candidates.size or not np.all(np.isfinite(self.candidates)):
            raise InputError("candidates must be rows of finite numbers")
        if not 2 <= len(self.candidates) <= CANDIDATES:
            raise InputError(f"a choice needs from 2 to {CANDIDATES:,} candidates, got {len(self.candidates)}")
        if self.base.shape != (len(self.candidates),) or not np.all(np.abs(self.base) <= WIDEST):
            raise InputError(f"a base measure needs one log weight for each candidate, within {WIDEST:,.0f}")

    def steps(self, record: Values) -> Ints:
        """Compute the scores of one record, without ever failing.

        Args:
            record: an array of one value by name of the design's variables.

        Returns:
            Whole steps from 0 to `SCORE_STEPS`, shape `(Z,)`. They are 0 if the function fails, or if its result has
            another shape or is NaN: after a charge nothing may fail.
        """
        unknown = np.full((1, len(self.candidates)), np.nan)
        try:
            with np.errstate(all="ignore"):  # a warning of NumPy would reveal something about the record
                scores = self._call(record)
        except KeyboardInterrupt:
            raise
        except BaseException:  # any error may depend on the record, also SystemExit
            scores = unknown
        return np.asarray(self._round_scores(scores if scores.shape == unknown.shape else unknown)[0])

    def steps_of_public(self, records: Values) -> Ints:
        """Compute the scores of public records, all at once.

        Args:
            records: arrays of values by name, of equal lengths.

        Returns:
            Whole steps, shape `(records, Z)`.

        Raises:
            InputError: the function fails, or its result has another shape or is NaN.
        """
        wanted = (len(next(iter(records.values()))), len(self.candidates))
        try:
            scores = self._call(records)
        except Exception as error:
            raise InputError(f"the score failed on simulated records: {type(error).__name__}: {error}") from None
        if scores.shape != wanted:
            raise InputError(f"the score must have the shape (records, candidates) = {wanted}, not {scores.shape}")
        if np.any(np.isnan(scores)):
            at = int(np.argwhere(np.isnan(scores))[0, 0])
            values_text = listed([f"{name}={values[at]}" for name, values in records.items()])
            raise InputError(f"the score of the simulated record {values_text} is NaN")
        return self._round_scores(scores)

    def _call(self, records: Values) -> Floats:
        """Call the function on copies."""
        copies = {name: values.copy() for name, values in records.items()}
        return np.array(self.function(copies, self.candidates.copy()), np.float64)

    def _round_scores(self, scores: Floats) -> Ints:
        """Clamp and round; NaN becomes the lowest score."""
        filled = np.where(np.isnan(scores), self.low, scores)
        shares = (np.clip(filled, self.low, self.high) - self.low) / (self.high - self.low)
        return np.rint(shares * SCORE_STEPS).astype(np.int64)


def own_factor(
    design: Design,
    function: Function,
    candidates: npt.ArrayLike,
    *,
    low: float,
    high: float,
    base: npt.ArrayLike | None = None,
) -> OwnFactor:
    """Make a score of your own for a design's records: any function of a record and a candidate, clamped to a range.

    For records of few types `own_score` makes a public table instead, which is independent of records and may cost
    half.

    Args:
        design: public. Values reach the function clipped to its bounds and rounded to 1/4,096 of half their width.
        function: from records (for each variable of the design an array of its values, or names of its classes) and
            candidates, shape `(Z, d)`, to scores of shape `(records, Z)`; a higher score is a better fit. It is called
            with one private record at a time. **It must not remember records**, nor send them anywhere.
        candidates: public, shape `(Z, d)` or `(Z,)`, at least two.
        low, high: range of the score; values beyond it are moved to its nearest end, and NaN to the low end.
        base: log weights of the candidates before any record; None for equal ones.

    Returns:
        The score, for `factored`.

    Raises:
        InputError: on simulated records of the design the function fails, or its result has another shape, is NaN, or
            changes in another order; or an empty range.

    Guarantee:
        None spent: no record is read.

    Source:
        Williams and McSherry (NIPS 2010), Section 2, with `phi = exp(score)`.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ages = dc.designs.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
        >>> distance = lambda record, z: -abs(record["age"][:, None] - z[:, 0])
        >>> nearest = dc.research.own_factor(ages, distance, [20, 60], low=-50, high=0)
        >>> (nearest.steps({"age": np.array([30.0])}) / 2**20).round(3).tolist()
        [0.8, 0.4]
    """
    require(isinstance(design, Design), "`own_factor` needs a Design; use `own_score` over a Network")
    rows = numbers(candidates, "candidates")
    rows = rows[:, None] if rows.ndim == 1 else rows
    weights = np.zeros(len(rows)) if base is None else numbers(base, "log weights of a base measure")
    ends = number(low, "the low end of a score's range"), number(high, "the high end of a score's range")
    factor = OwnFactor(design, function, rows, *ends, weights)
    _try_out(factor)
    return factor


def _try_out(factor: OwnFactor) -> None:
    """Refuse an invalid function, on simulated records."""
    design = factor.design
    rng = np.random.default_rng(0)
    steps = rng.integers(-GRID_STEPS, GRID_STEPS + 1, (TRIED_RECORDS, design.size))
    for at, ends in enumerate((-GRID_STEPS, 0, GRID_STEPS)):
        steps[at] = ends
    target = steps[:, -1] if design.predicts in ("number", "nothing") else rng.integers(0, 2, TRIED_RECORDS)
    made_up = design.values(steps, target)
    alone = [{name: values[at : at + 1] for name, values in made_up.items()} for at in range(TRIED_RECORDS)]
    first = [factor.steps_of_public(record) for record in alone]
    again = [factor.steps_of_public(record) for record in reversed(alone)]
    if not all(np.array_equal(scores, repeated) for scores, repeated in zip(first, reversed(again), strict=True)):
        raise InputError(
            "the score of a record changed in a second call or in another order; it must be a function of one record "
            "and one candidate, without randomness or memory"
        )
