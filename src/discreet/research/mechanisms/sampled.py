"""Posterior sampling of a family's parameters on a grid: Algorithm 1 of Dimitrakakis et al., beyond networks."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.mechanisms.scored import scoring
from discreet.research.scores.families import Family
from discreet.research.scores.score_files import read_score_file
from discreet.research.scores.score_tables import ScoreTable
from discreet.util.arrays import number

LEAST_RECORDS, MOST_RECORDS = 3, 10**9
"""Fewest records for which a delta may be promised, those of an audit; and most, for which floats hold its bounds."""


def sampled(
    score: Family | ScoreTable | str, draws: int = 1, *, temper: float | None = None, records: int | None = None
) -> Mechanism:
    """Release posterior draws of a family's parameters, such as a Poisson rate, tempered to the budget.

    Each record's log-likelihood has the weight `temper`, at most 1: unlike with `scored`, the rest of the budget is not
    spent.

    Args:
        score: a `Family`, a result of `own_family`, or JSON of a family; its grid and prior are public.
        draws: number of independent draws; they share the budget.
        temper: tempering exponent, the weight of a record's log-likelihood; None for the largest that the budget
            allows, at most 1.
        records: with a delta, the largest number of records for which it is promised, or of steps where units have
            several records; it is public, as the number of records is. The prior then protects: parameters whose
            likelihoods are steep and that no such data set makes likely need no epsilon, see `LikelyParameters`. None
            promises for any number, and a delta then adds little.

    Returns:
        The mechanism, over the family's own network.

    Raises:
        InputError: a score that is no likelihood, no draws, a temper that is not positive, or fewer than three
            `records` or more than 1e9; when a release is calibrated, a temper that costs more than the guarantee,
            `records` without a delta or where adding and removing them is the relation, more records than that, and as
            `scored`.

    Guarantee:
        As `scored`: `draws temper span score_width / SCORE_STEPS` for one record, for any family. The guarantees of
        Dimitrakakis et al. in terms of distances between data sets are those of `Relation.METRIC`. With a delta
        `LikelyParameters.delta` at most, for at most `records` records.

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
    if records is not None and not (isinstance(records, int) and LEAST_RECORDS <= records <= MOST_RECORDS):
        raise InputError(f"records must be a whole number of at least {LEAST_RECORDS} and at most {MOST_RECORDS:,}")
    mechanism = scoring("sampled", public, draws, 1.0 if temper is None else float(temper), records)

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> ScoredNoise:
        if records is not None and not (guarantee.delta and guarantee.relation.public_number):
            raise InputError("records is for a delta, where the number of records is public: leave it out")
        calibration: ScoredNoise = mechanism.calibrate(network, prior, guarantee)
        if temper is not None and calibration.rate < float(temper) * table.span * (1 - 1e-9):
            raise InputError(
                f"{draws} draws at temper {temper:g} cost more than the guarantee's epsilon, which allows a temper of "
                f"{calibration.rate / table.span:.4g}"
            )
        return calibration

    return replace(mechanism, calibrate=calibrate)
