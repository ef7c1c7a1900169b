"""Posterior sampling of a family on a grid of its parameters: Dimitrakakis et al.'s Algorithm 1 beyond networks."""

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
    """Release posterior draws of a family's parameters, such as a Poisson rate, tempered as the budget asks.

    Each record's log-likelihood counts `temper` times, at most once: unlike with `scored`, what is left of the budget
    is not spent.

    Args:
        score: a `Family`, what `own_family` made, or JSON of one; its grid and prior are public.
        draws: independent draws; they share the budget.
        temper: tempering exponent, which is the weight of a record's log-likelihood; None for the largest that the
            budget buys, at most 1.

    Returns:
        The mechanism; it is over the family's own network.

    Raises:
        InputError: a score that is no likelihood, no draws, or a temper that is not positive; when a release is
            calibrated, one that costs more than the guarantee, and as `scored`.

    Guarantee:
        As `scored`: `draws temper span score_width / SCORE_STEPS`, for records, whatever the family. What Dimitrakakis
        et al. print for their families in terms of distances between data sets is `Relation.METRIC`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 1, Theorem 8.1 and Section 5; the range of a log-likelihood ratio in
        place of twice a Lipschitz constant times the distance.

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
        raise InputError("a posterior is sampled of a Family, of what `own_family` makes, or of JSON of one")
    table = public.table if isinstance(public, Family) else public
    if table.log_law is None:
        raise InputError("only a family has a posterior to sample from; draw by a score of your own with scored")
    if temper is not None and not 0 < number(temper, "temper") < math.inf:
        raise InputError(f"temper must be a positive, finite number, not {temper}")
    mechanism = scoring("sampled", public, draws, 1.0 if temper is None else float(temper))
    if temper is None:
        return mechanism

    def calibrate(*asked: object) -> ScoredNoise:
        found: ScoredNoise = mechanism.calibrate(*asked)  # type: ignore[arg-type]
        if found.rate < float(temper) * table.span * (1 - 1e-9):
            raise InputError(
                f"{draws} draws in which a record counts {temper:g} times cost more than the guarantee's epsilon; it "
                f"buys a temper of {found.rate / table.span:.4g}"
            )
        return found

    return replace(mechanism, calibrate=calibrate)
