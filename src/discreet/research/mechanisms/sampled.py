"""Posterior sampling of a family's parameters on a grid: Algorithm 1 of Dimitrakakis et al., beyond networks."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.mechanisms.scored import scoring
from discreet.research.scores.families import Family
from discreet.research.scores.score_files import read_score_file
from discreet.research.scores.score_tables import ScoreTable
from discreet.util.arrays import number


def sampled(score: Family | ScoreTable | str, draws: int = 1, *, temper: float | None = None) -> Mechanism:
    """Release posterior draws of a family's parameters, such as a Poisson rate, tempered to the budget.

    Each record's log-likelihood has the weight `temper`, at most 1: unlike with `scored`, the rest of the budget is not
    spent.

    Args:
        score: a `Family`, a result of `own_family`, or JSON of a family; its grid and prior are public.
        draws: number of independent draws; they share the budget.
        temper: tempering exponent, the weight of a record's log-likelihood; None for the largest that the budget
            allows, at most 1.

    Returns:
        The mechanism, over the family's own network.

    Raises:
        InputError: a score that is no likelihood, no draws, or a temper that is not positive; when a release is
            calibrated, a temper that costs more than the guarantee, and as `scored`.

    Guarantee:
        As `scored`: `draws temper span score_width / SCORE_STEPS` for one record, for any family. The guarantees of
        Dimitrakakis et al. in terms of distances between data sets are those of `Relation.METRIC`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 1, Theorem 8.1 and Section 5; with the range of a log-likelihood
        ratio instead of twice a Lipschitz constant times the distance.

    Example:
        >>> import discreet as dc
        >>> wait = dc.Variable.binned("wait", (0, 60), 120)
        >>> family = dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 0.5})
        >>> mechanism = dc.research.sampled(family, draws=3)
        >>> mechanism.name, mechanism.only == family.network
        ('sampled', True)
    """
    public = read_score_file(score) if isinstance(score, str) else score
    if not isinstance(public, Family | ScoreTable):
        raise InputError("`sampled` needs a Family, a result of `own_family`, or JSON of a family")
    table = public.table if isinstance(public, Family) else public
    if table.log_law is None:
        raise InputError("only a family has a posterior to sample from; use `scored` for a score of your own")
    if temper is not None and not 0 < number(temper, "temper") < math.inf:
        raise InputError(f"temper must be a positive, finite number, not {temper}")
    mechanism = scoring("sampled", public, draws, 1.0 if temper is None else float(temper))
    if temper is None:
        return mechanism

    def calibrate(*arguments: object) -> ScoredNoise:
        calibration: ScoredNoise = mechanism.calibrate(*arguments)  # type: ignore[arg-type]
        if calibration.rate < float(temper) * table.span * (1 - 1e-9):
            raise InputError(
                f"{draws} draws at temper {temper:g} cost more than the guarantee's epsilon, which allows a temper of "
                f"{calibration.rate / table.span:.4g}"
            )
        return calibration

    return replace(mechanism, calibrate=calibrate)
