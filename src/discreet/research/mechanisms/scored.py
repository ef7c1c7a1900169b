"""Exponential mechanism for any score of records and any finite list of candidates: one mechanism for three papers.

Williams and McSherry's factored mechanism, Zhang et al.'s MAP and Dimitrakakis et al.'s posterior sampler are the same
draw with different scores: a record's own factor, its log-likelihood under a candidate, its log-likelihood under a
parameter. `scored` takes any public table of scores, `sampled` a family; `factored` and `map_estimate` define the score
in other ways, and draw with the two functions below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from discreet.designs.mechanisms.record_number import noisy_total, total_noise
from discreet.errors import InputError
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.records.counts import Counts
from discreet.releases.metric_unit import distance_of
from discreet.research.kinds.scored_choice import ScoredChoice, ScoredNoise, require_fits
from discreet.research.mechanisms.likely_parameters import LikelyParameters
from discreet.research.scores.distances import units_between
from discreet.research.scores.families import Family
from discreet.research.scores.score_files import read_score_file
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable
from discreet.util.arrays import Ints

# --------------------------------------------------------------------------------------------------------------------
# Exact sensitivity of the candidates' scores, from a public table of whole numbers.

PAIRS_LIMIT = 2**32
"""Most pairs of bins, times candidates, in a comparison: two seconds."""


def score_width(score: ScoreTable, relation: Relation) -> int:
    """Compute one record's largest change of the difference of two candidates' sums of scores.

    ADD_REMOVE: the largest, over types of records, of the range of a type's scores over the candidates. REPLACE: the
    largest, over pairs of types, of the range of the difference of their scores.

    Args:
        score: public.
        relation: which data sets are neighbours.

    Returns:
        Steps. For METRIC see `metric_width`.

    Raises:
        InputError: a metric, which has no unit here.

    Guarantee:
        A draw with `P(z) ~ exp(base_z + rate sum_i steps(x_i, z) / SCORE_STEPS)` is `rate score_width /
        SCORE_STEPS`-DP: with weights w, `1 / P(z) = sum_y w_y / w_z`, and each ratio changes by a factor within exp(+-
        that). The base measure cancels in each ratio.

    Source:
        McSherry and Talwar (2007); Williams and McSherry (NIPS 2010), Section 2, with ranges instead of twice the
        largest score, as terms that depend on the record alone cancel.
    """
    match relation:
        case Relation.ADD_REMOVE:
            return int(np.ptp(score.steps, axis=1).max())
        case Relation.REPLACE:
            return _find_widest_pair(score.steps)
    raise InputError("privacy under a metric is not about one record; use `metric_width`")


def _find_widest_pair(steps: Ints) -> int:
    """Find the largest range of a difference of two rows, or over pairs of columns if those are fewer."""
    table = steps if len(steps) <= steps.shape[1] else steps.T
    # The range over columns of a difference of rows, and the range over rows of a difference of columns, are both the
    # largest s(t, z) - s(t', z) - s(t, y) + s(t', y).
    return max((int(np.ptp(table[at:] - row, axis=1).max()) for at, row in enumerate(table)), default=0)


def metric_width(score: ScoreTable, amount: Fraction, distance: str = "") -> int:
    """Compute the largest change of the difference of two candidates' sums of scores by one unit in one record.

    Two records that differ by at least k units, rounded up, may change scores by k times as much.

    Args:
        score: of numeric variables, or of any under a distance that counts values.
        amount: size of the unit, in each variable's unit; the guarantee's unit begins with it.
        distance: name of the distance of two records, as of `distance_of`.

    Returns:
        Steps.

    Raises:
        InputError: a variable without an order, or more types and candidates than can be compared.

    Guarantee:
        A draw at a rate costs `rate metric_width / SCORE_STEPS` for each unit: data sets of one size, in which records
        change by k_1, k_2, ... units, each rounded up to a whole number, have laws within `exp(+- that (k_1 + k_2 +
        ...))`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Definition 2 and Assumption 1, with the constant of the table itself.
    """
    if len(score.steps) ** 2 * score.size > PAIRS_LIMIT:
        raise InputError("too many types of records and candidates to compare all pairs; use wider bins")
    widest = 0
    for at, units in enumerate(units_between(score.network, amount, distance)):
        change = np.ptp(score.steps[at + 1 :] - score.steps[at], axis=1)
        widest = max(widest, int((-(-change // units)).max(initial=0)))
    return widest


def width_of(score: ScoreTable, guarantee: Guarantee) -> int:
    """Compute `metric_width` or `score_width`, by the guarantee's relation and unit."""
    if guarantee.relation is Relation.METRIC:
        return metric_width(score, guarantee.unit_amount, distance_of(guarantee))
    return score_width(score, guarantee.relation)


SMALLEST_RATE = 1e-12
"""Smallest rate: below it a choice has no information on ten million records."""
RATE_LIMIT = 500.0
"""Largest rate: beyond it the guarantee is meaningless, and weights overflow."""
RATE_ROUNDING = Fraction(1, 10**12)
"""Relative rounding error of the rate and of its inverse."""
DRAWS_LIMIT = 10_000
"""Most draws of one release."""


def scored(score: ScoreTable | Family | str, draws: int = 1) -> Mechanism:
    """Choose candidates, or a family's parameters, by a score of your own: the exponential mechanism.

    Candidate z is drawn with `P(z) ~ exp(base_z + rate sum_i s(x_i, z))`, at the largest rate within the budget.

    Args:
        score: public: `own_score` makes one from any function, `own_family` from a log-likelihood; or a `Family`. Text
            is JSON, or the name of a JSON file; see `read_score_file`.
        draws: number of independent draws given the records; they share the budget.

    Returns:
        The mechanism, over the score's own network.

    Raises:
        InputError: no draws or too many; when a release is calibrated, another network, candidates that are all equal,
            a guarantee with a delta, or an epsilon beyond 500 nats a record or close to 0.

    Guarantee:
        Pure epsilon: `draws rate score_width(score, relation) / SCORE_STEPS`; see there. It holds for any table, as the
        table is public and made before any record is read. Sums are of whole numbers and the draw is exact integer
        arithmetic on the operating system's entropy. Under ADD_REMOVE 1/20 of epsilon is spent on the number of
        records, which the posterior needs. Under METRIC: see `metric_width`.

    Source:
        McSherry and Talwar (2007); Williams and McSherry (NIPS 2010), Section 2; Dimitrakakis et al. (JMLR 2017),
        Algorithm 1; Zhang et al. (AAAI 2016), Algorithm 3, corrected.

    Example:
        >>> import discreet as dc
        >>> ages = dc.Network.empty(dc.Schema((dc.Variable("age", bounds=(0, 100), bins=(25, 50, 75)),)))
        >>> near = lambda t, z: -abs(t["age"][:, None] - z[:, 0])
        >>> nearest = dc.research.own_score(ages, near, [20, 60], low=-50, high=0)
        >>> mechanism = dc.research.scored(nearest)
        >>> mechanism.only == ages
        True
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = mechanism.calibrate(ages, dc.Dirichlet.uniform(ages), promise)
        >>> noise.draws, noise.rate > 0, noise.total <= 1
        (1, True, True)
    """
    return scoring("scored", score, draws, None)


def scoring(
    name: str, score: ScoreTable | Family | str, draws: int, temper: float | None, records: int | None = None
) -> Mechanism:
    """Make the mechanism of `scored` or `sampled`, with a limit on the rate.

    Args:
        name: of the mechanism.
        score, draws: as for `scored`.
        temper: largest weight of a record's score; None for no limit.
        records: largest number of records for which a delta is promised; None for any.
    """
    public = read_score_file(score) if isinstance(score, str) else score
    if not isinstance(public, Family | ScoreTable):
        raise InputError("a choice needs a Family, a result of `own_score`, or JSON of either")
    if isinstance(draws, bool) or not isinstance(draws, int) or not 1 <= draws <= DRAWS_LIMIT:
        raise InputError(f"draws must be a whole number from 1 to {DRAWS_LIMIT:,}, not {draws}")
    require_fits(public)
    table = public.table if isinstance(public, Family) else public

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> ScoredNoise:
        if network != table.network:
            raise InputError("a score is over its own network: pass `score.network` to the release")
        width, most = width_of(table, guarantee), RATE_LIMIT if temper is None else min(RATE_LIMIT, temper * table.span)
        delta = guarantee.delta
        if delta and temper is None and guarantee.relation is not Relation.METRIC:
            raise InputError("scored keeps a pure guarantee; ask for delta 0, or draw the parameters of a family")
        pure = replace(guarantee, delta=Fraction())
        rate, scale, reported = affordable_rate(name, Fraction(width, SCORE_STEPS), pure, draws, most)
        if not delta:
            return ScoredNoise(rate, width, draws, scale, reported)
        left = replace(guarantee, epsilon=total_noise(guarantee)[0])
        likely = LikelyParameters(table, left, draws, records, lambda some: width_of(some, guarantee))
        return ScoredNoise(likely.rate_between(rate, most), width, draws, scale, guarantee.epsilon, records)

    def draw(statistic: Counts, prior: Dirichlet, calibration: ScoredNoise, noise: Noise) -> ScoredChoice:
        sums = _sum_scores(statistic.joint(table.scope).ravel(), table.steps)
        unit = Fraction(calibration.rate) / SCORE_STEPS
        weights = [unit * total + Fraction(base) for total, base in zip(sums, table.base.tolist(), strict=True)]
        indices = draw_indices(weights, calibration.draws, noise)
        total = noisy_total(statistic.records, calibration.total_scale, noise)
        return ScoredChoice(public, indices, calibration.rate, total)

    def require(statistic: Counts) -> None:
        statistic.require([table.scope])
        if records is not None and statistic.records > records:
            raise InputError(
                f"there are more records than the {records:,} for which the delta was promised; raise records"
            )

    return Mechanism(
        name, calibrate, draw, require=require, scopes=lambda _network: (table.scope,), only=table.network, metric=True
    )


def affordable_rate(
    name: str, width: Fraction, guarantee: Guarantee, draws: int = 1, most: float | None = None
) -> tuple[float, float | None, Fraction]:
    """Find the largest rate of an exponential mechanism within a budget, after the share of the number of records.

    Args:
        name: of the mechanism, for errors.
        width: largest change of the difference of two candidates' scores by one record.
        guarantee: pure.
        draws: number of independent draws.
        most: largest rate; None has no limit but that of a meaningful guarantee.

    Returns:
        (rate, scale of the noise on the number of records, epsilon of both, rounded up).

    Raises:
        InputError: a guarantee with a delta, nothing to choose, or a rate that is too large or too small.
    """
    if guarantee.delta:
        raise InputError(f"{name} keeps a pure guarantee; ask for delta 0")
    if not width > 0:
        raise InputError("every record has the same score for all candidates, so there is nothing to choose")
    left, scale, cost = total_noise(guarantee)
    exact = left * (1 - 2 * RATE_ROUNDING) / (width * draws)
    if most is None and exact > RATE_LIMIT:
        raise InputError(f"epsilon is too large: the weight of one record would exceed {RATE_LIMIT:g} nats")
    rate = float(exact if most is None else min(exact, Fraction(most)))
    if not rate >= SMALLEST_RATE:
        raise InputError(f"epsilon is too small: the weight of one record would be below {SMALLEST_RATE:g} nats")
    return rate, scale, draws * Fraction(rate) * width * (1 + RATE_ROUNDING) + cost


def draw_indices(weights: Sequence[Fraction], draws: int, noise: Noise) -> Ints:
    """Draw indices with `P(z) ~ exp(weights[z])`, independent given the weights; shape (draws,)."""
    best = max(weights)
    return noise.choose([best - weight for weight in weights], draws)


def _sum_scores(counts: Ints, steps: Ints) -> list[int]:
    """Sum the records' scores exactly; counts are split in two, as their products with steps have up to 73 bits."""
    high, low = (counts >> 26) @ steps, (counts & (2**26 - 1)) @ steps
    return [(int(h) << 26) + int(l) for h, l in zip(high.tolist(), low.tolist(), strict=True)]
