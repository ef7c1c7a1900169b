"""Scores of your own for records that have too many types for a table: a function that is asked about each record.

What one record can do to a sum of scores is known only if its score depends on nothing else. So the function is asked
about one record at a time, on copies: it never sees two side by side, and the last bit of a sum in floating point
cannot depend on how many there are. What that leaves open, a function that remembers what it saw before, is the one
thing that a user has to promise; it is looked for by asking twice, in two orders, first about made-up records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError, listed, require
from discreet.model.design import GRID_STEPS, Design
from discreet.research.scores.score_tables import CANDIDATES, SCORE_STEPS, WIDEST, Function
from discreet.util.arrays import Floats, Ints, freeze, number, numbers

Values = Mapping[str, npt.NDArray[np.generic]]

TRIED_RECORDS = 64
"""Made-up records on which a function is tried."""


@dataclass(frozen=True, eq=False)
class OwnFactor:
    """A score of a design's records by a function, clamped and rounded record by record; see `own_factor`.

    Args:
        design: public; of its records.
        function: from values of records and candidates to scores.
        candidates: float64, shape `(Z, d)`.
        low, high: range of the score, in its own unit.
        base: log weights of the candidates before any record, float64, shape `(Z,)`.

    Raises:
        InputError: a range that is none, fewer than two candidates or too many, or another number of weights.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ages = dc.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
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
        """Freeze, then refuse what is no score."""
        candidates, base = np.asarray(self.candidates, np.float64), np.asarray(self.base, np.float64)
        freeze(self, candidates=candidates, base=base)
        low, high = self.low, self.high
        if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
            raise InputError(
                f"a score needs a range from low to high, two finite numbers in this order, not {low}, {high}"
            )
        if self.candidates.ndim != 2 or not self.candidates.size or not np.all(np.isfinite(self.candidates)):
            raise InputError("candidates are rows of finite numbers")
        if not 2 <= len(self.candidates) <= CANDIDATES:
            raise InputError(f"a choice needs from 2 to {CANDIDATES:,} candidates, got {len(self.candidates)}")
        if self.base.shape != (len(self.candidates),) or not np.all(np.abs(self.base) <= WIDEST):
            raise InputError(f"a base measure has one log weight for each candidate, within {WIDEST:,.0f}")

    def steps(self, record: Values) -> Ints:
        """Scores of one record, whatever the function does.

        Args:
            record: by name of the design's variables an array of one value.

        Returns:
            Whole steps from 0 to `SCORE_STEPS`, shape `(Z,)`. Where the function fails, answers in another shape or
            with something that is no number, they are 0: after a charge nothing may fail.
        """
        unknown = np.full((1, len(self.candidates)), np.nan)
        try:
            with np.errstate(all="ignore"):  # a warning of NumPy's would be a word about the record
                found = self._ask(record)
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever it says may be about a record, also that the program shall end
            found = unknown
        return np.asarray(self._round_scores(found if found.shape == unknown.shape else unknown)[0])

    def steps_of_public(self, records: Values) -> Ints:
        """Scores of records that are not private, all at once.

        Args:
            records: by name an array of values, all equally many.

        Returns:
            Whole steps, shape `(records, Z)`.

        Raises:
            InputError: the function fails, or answers in another shape or with something that is no number.
        """
        wanted = (len(next(iter(records.values()))), len(self.candidates))
        try:
            found = self._ask(records)
        except Exception as error:
            raise InputError(f"the score failed on made-up records: {type(error).__name__}: {error}") from None
        if found.shape != wanted:
            raise InputError(f"the score must have the shape (records, candidates) = {wanted}, not {found.shape}")
        if np.any(np.isnan(found)):
            at = int(np.argwhere(np.isnan(found))[0, 0])
            place = listed([f"{name}={values[at]}" for name, values in records.items()])
            raise InputError(f"the score of the made-up record {place} is no number")
        return self._round_scores(found)

    def _ask(self, records: Values) -> Floats:
        """What the function says; it gets copies."""
        copies = {name: values.copy() for name, values in records.items()}
        return np.array(self.function(copies, self.candidates.copy()), np.float64)

    def _round_scores(self, scores: Floats) -> Ints:
        """Clamped and rounded; what is no number counts as the lowest score."""
        known = np.where(np.isnan(scores), self.low, scores)
        shares = (np.clip(known, self.low, self.high) - self.low) / (self.high - self.low)
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
    """A score of your own for the records of a design: any function of a record and a candidate, clamped to a range.

    For records of few types `own_score` makes a public table instead, which no record enters and which may cost half.

    Args:
        design: public. Values reach the function clipped to its bounds and rounded to 1/4,096 of half their width.
        function: from records (for each variable of the design an array of its values, or names of its classes) and
            candidates, shape `(Z, d)`, to scores of shape `(records, Z)`: the more, the better a candidate fits. It is
            asked about one private record at a time. **It must not remember records**, nor send them anywhere.
        candidates: public, shape `(Z, d)` or `(Z,)`, at least two.
        low, high: range of the score; values beyond it are moved to its nearest end, and what is no number to the low.
        base: log weights of the candidates before any record; None for equal ones.

    Returns:
        The score, for `factored`.

    Raises:
        InputError: a function that, on made-up records of the design, fails, gives another shape or something that is
            no number, or other scores when it is asked again in another order; a range that is none.

    Guarantee:
        None spent: no record is seen.

    Source:
        Williams and McSherry (NIPS 2010), Section 2, with `phi = exp(score)`.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ages = dc.Design((dc.Variable("age", bounds=(0, 100)),), intercept=False)
        >>> distance = lambda record, z: -abs(record["age"][:, None] - z[:, 0])
        >>> nearest = dc.research.own_factor(ages, distance, [20, 60], low=-50, high=0)
        >>> (nearest.steps({"age": np.array([30.0])}) / 2**20).round(3).tolist()
        [0.8, 0.4]
    """
    require(isinstance(design, Design), "the score of a factor is over a Design; over a Network it is `own_score`'s")
    places = numbers(candidates, "candidates")
    places = places[:, None] if places.ndim == 1 else places
    weights = np.zeros(len(places)) if base is None else numbers(base, "log weights of a base measure")
    ends = number(low, "the low end of a score's range"), number(high, "the high end of a score's range")
    factor = OwnFactor(design, function, places, *ends, weights)
    _try_out(factor)
    return factor


def _try_out(factor: OwnFactor) -> None:
    """Refuse a function that cannot be a score, on records that are nobody's."""
    design = factor.design
    rng = np.random.default_rng(0)
    steps = rng.integers(-GRID_STEPS, GRID_STEPS + 1, (TRIED_RECORDS, design.size))
    for at, ends in enumerate((-GRID_STEPS, 0, GRID_STEPS)):
        steps[at] = ends
    target = steps[:, -1] if design.predicts in ("number", "nothing") else rng.integers(0, 2, TRIED_RECORDS)
    made_up = design.values(steps, target)
    alone = [{name: values[at : at + 1] for name, values in made_up.items()} for at in range(TRIED_RECORDS)]
    first = [factor.steps_of_public(one) for one in alone]
    again = [factor.steps_of_public(one) for one in reversed(alone)]
    if not all(np.array_equal(one, other) for one, other in zip(first, reversed(again), strict=True)):
        raise InputError(
            "the score of a record changed when records were given in another order, or a second time; it must be a "
            "function of one record and one candidate, without chance or memory"
        )
