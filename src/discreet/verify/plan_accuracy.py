"""From the accuracy that is wanted to the budget that buys it: how wide intervals of a release will be.

A half-width h follows from simulation: records are made up from public probabilities, released, and read as an analyst
would, and the stated questions are asked. What is sampling, s, is known from the same records with next to no noise.
Over budgets the rest, `sqrt(h^2 - s^2)`, is nearly a power of epsilon, so that few simulated budgets tell the others:
its logarithm is taken as linear in that of epsilon between two of them, and as falling like 1 / epsilon beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InputError, listed, shown
from discreet.inference.sampling import sample_codes
from discreet.mechanisms.crossing import Mechanism, require_mechanism, simulate
from discreet.mechanisms.planned import planned
from discreet.model.arrays import Floats
from discreet.model.charts import line_chart
from discreet.model.dirichlet import Dirichlet
from discreet.model.intervals import Framed
from discreet.model.network import Network
from discreet.model.progress import under_way
from discreet.model.query_grammar import Explanation, NumberQuery, Query, check_names, parse_query
from discreet.model.randomness import Seed, as_generator
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import noise_aware
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.queries.query import answer_many
from discreet.sensitive.counts import Counts, count_codes
from discreet.verify.plan import MOST_PLANNED_RECORDS
from discreet.verify.plan_text import plan_text

__all__ = ["AccuracyPlan", "PlannedWidth", "plan_accuracy"]

LOWEST_EPSILON, HIGHEST_EPSILON = 0.01, 100.0
"""Budgets that are looked at: below the one next to nothing is told, above the other noise is less than a record."""
OPEN_DRAWS = 400
"""Draws of a posterior without noise, which cost next to nothing."""
FIRST_EPSILON = 1.0
SEARCH_STEPS = 4
"""Budgets that are simulated in search of the wanted one."""
CLOSE = 1.1
"""Factor from a simulated budget to the wanted one at which the search ends: half-widths differ by less."""
WIDTH_DRAWS = 400
"""Draws of each posterior: the ends of one interval are off by a tenth of its half-width, those of three by 5 %."""
DATA_SETS, MORE_DATA_SETS = 3, 20
"""That are made up and released where probabilities are known; and those that tell what is usual, without a release."""
RANDOM_NETWORKS = 8
"""Sets of probabilities that are drawn for a network that has none."""
SPREAD_FACTOR = 1.9 * math.sqrt(1 + 1 / RANDOM_NETWORKS)
"""Deviations of a logarithm, from those of 8, within which nine of ten further ones lie (Student's t, 7 degrees)."""
NEXT_TO_NOTHING = 0.05
"""Part of a half-width that is left to the noise where simulations show none: they are off by as much."""
BISECTIONS = 40
RECORD_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Of the stated number of records, those that are shown beside it."""
BUDGET_FACTORS = (0.25, 0.5, 1, 2, 4)
"""Of the stated budget, those that are shown beside it; the first and the last are simulated, too."""


@dataclass(frozen=True)
class PlannedWidth:
    """How wide the interval of one question is expected to be, by the budget of the release.

    Args:
        query: as text.
        epsilons: that were simulated, rising.
        widths: expected half-width at each of them, of the widest of the question's rows.
        sampling: half-width without any noise: what so many records tell.
        largest: half-width that no interval exceeds: 0.5 of probabilities.
        spread: factors of the half-width between which nine in ten networks of other probabilities would lie if their
            logarithms were normal, which was not measured; (1, 1) where the probabilities are known.

    Raises:
        Nothing: `plan_accuracy` makes these.

    Example:
        >>> import discreet as dc
        >>> known = dc.results.PlannedWidth("P(ill)", (1.0, 2.0), (0.05, 0.04), 0.03)
        >>> round(known.at(1.0), 3), round(known.noise(1.0), 3), round(known.at(1.0, records=4), 4)
        (0.05, 0.04, 0.02)
    """

    query: str
    epsilons: tuple[float, ...]
    widths: tuple[float, ...]
    sampling: float
    largest: float = 0.5
    spread: tuple[float, float] = (1.0, 1.0)

    def at(self, epsilon: float, *, records: float = 1.0) -> float:
        """The expected half-width at any budget, and for any number of records.

        Args:
            epsilon: greater than 0.
            records: factor of the number of records that was planned for. Noise in records does not depend on their
                number, so that as many more records are worth as much more budget; sampling falls with their root.

        Returns:
            The half-width.
        """
        return min(self.largest, math.hypot(self.sampling / math.sqrt(records), self.noise(epsilon * records)))

    def noise(self, epsilon: float) -> float:
        """The part of the half-width that is noise: it and the sampling part are sides of a right angle.

        Args:
            epsilon: greater than 0.

        Returns:
            The part.
        """
        parts = [math.sqrt(max(width**2 - self.sampling**2, (NEXT_TO_NOTHING * width) ** 2)) for width in self.widths]
        known, at = np.log(self.epsilons), math.log(epsilon)
        inside = float(np.interp(at, known, np.log(parts)))
        return math.exp(inside - (at - min(max(at, known[0]), known[-1])))

    def needed(self, within: float) -> float:
        """The smallest budget at which the interval is as narrow as wanted.

        Args:
            within: half-width.

        Returns:
            Epsilon; infinite where sampling alone is wider, or a budget of 100 does not buy it.
        """
        low, high = math.log(LOWEST_EPSILON), math.log(HIGHEST_EPSILON)
        if self.sampling >= within or self.at(HIGHEST_EPSILON) > within:
            return math.inf
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(math.exp(middle)) <= within else (middle, high)
        return math.exp(high)


@dataclass(frozen=True)
class AccuracyPlan(Framed):
    """The budget that buys the wanted accuracy, and how wide intervals are at others.

    Args:
        mechanism: its name.
        guarantee: with the smallest epsilon of two digits at which all questions are answered as narrowly as wanted;
            None where there is none.
        within: the wanted half-width.
        records: number of records that was planned for.
        questions: in their order.
        refused: why there is no guarantee; None where there is one.

    Raises:
        Nothing: `plan_accuracy` makes it.

    Example:
        >>> import discreet as dc
        >>> wide = dc.results.PlannedWidth("P(ill)", (1.0, 2.0), (0.05, 0.04), 0.03)
        >>> plan = dc.results.AccuracyPlan("planned", None, 0.02, 1000, (wide,), "sampling alone is wider")
        >>> plan.rows()[0]["sampling"]
        0.03
    """

    mechanism: str
    guarantee: Guarantee | None
    within: float
    records: int
    questions: tuple[PlannedWidth, ...]
    refused: str | None = None

    @property
    def epsilon(self) -> float:
        """The budget that half-widths are shown for: the stated one, or 1 where there is none."""
        return FIRST_EPSILON if self.guarantee is None else float(self.guarantee.epsilon)

    def rows(self) -> list[dict[str, Any]]:
        """The questions with the budget that each needs, and at the stated one the parts of its half-width.

        Returns:
            For each question "query", "epsilon" (None where none is enough), "half_width", "sampling", "noise", and
            "low" and "high", between which the half-width lies where probabilities are not known.
        """
        return [
            {
                "query": one.query,
                "epsilon": one.needed(self.within) if math.isfinite(one.needed(self.within)) else None,
                "half_width": one.at(self.epsilon),
                "sampling": one.sampling,
                "noise": one.noise(self.epsilon),
                "low": one.spread[0] * one.at(self.epsilon),
                "high": min(one.largest, one.spread[1] * one.at(self.epsilon)),
            }
            for one in self.questions
        ]

    def tidy(self) -> list[dict[str, Any]]:
        """The rows of `rows`."""
        return self.rows()

    def summary(self, *, width: int | None = None) -> str:
        """The epsilon, the questions with the parts of their half-widths, and half-widths at other budgets, as text."""
        return plan_text(self, width)

    def _repr_html_(self) -> str:
        """The picture, for a notebook."""
        return self.to_svg()

    def table(self) -> list[dict[str, Any]]:
        """Half-widths at other budgets and for other numbers of records.

        Returns:
            Rows of "query", "records", "epsilon" and "half_width".
        """
        return [
            {
                "query": one.query,
                "records": round(self.records * factor),
                "epsilon": self.epsilon * times,
                "half_width": one.at(self.epsilon * times, records=factor),
            }
            for one in self.questions
            for factor in RECORD_FACTORS
            for times in BUDGET_FACTORS
        ]

    def to_svg(self, *, against: str = "epsilon") -> str:
        """A picture of the half-widths.

        Args:
            against: "epsilon", for the stated number of records; or "records", at the stated budget.

        Returns:
            SVG.

        Raises:
            InputError: something else to draw it against.
        """
        if against not in ("epsilon", "records"):
            raise InputError(f"a picture is against epsilon or records, not {shown(against)}")
        budgets = against == "epsilon"
        lines = {
            one.query: [(self.epsilon * times, one.at(self.epsilon * times)) for times in BUDGET_FACTORS]
            if budgets
            else [(self.records * times, one.at(self.epsilon, records=times)) for times in RECORD_FACTORS]
            for one in self.questions
        }
        beside = f"{self.records:,} records" if budgets else f"epsilon {self.epsilon:g}"
        return line_chart(
            lines,
            title=f"Expected half-width of 95 % intervals, {beside}",
            x_label="epsilon" if budgets else "records",
            y_label="half-width",
            wanted=self.within,
        )


def plan_accuracy(
    truth: Tables | Network,
    queries: Sequence[str | Query],
    within: float,
    records: int,
    *,
    guarantee: Guarantee | None = None,
    mechanism: Mechanism[Any] | None = None,
    rng: Seed = None,
) -> AccuracyPlan:
    """Find the budget at which stated questions are answered as accurately as wanted; no record is read.

    Records are made up from the network's probabilities, released, and read as an analyst would; what sampling alone
    makes of a half-width is that of a release with epsilon 100 of the same records.

    Args:
        truth: public probabilities, or a guess; or a network alone, for which several sets of probabilities are drawn
            from Dirichlet(1/4), and half-widths are stated with their spread.
        queries: probabilities, means and quantiles, as `answer` takes them.
        within: half-width that the 95 % interval of every row shall have at most, in the unit of the answer.
        records: expected number of records.
        guarantee: of the release, but for its epsilon, which is what is sought; None for add-remove one record.
        mechanism: over a network, of any kind that `noise_aware` reads; None for `planned`.
        rng: source of records and noise; everything here is made up.

    Returns:
        The plan; `guarantee` is what to release with.

    Raises:
        InputError: no query, one for the most probable states, a half-width that is not above 0, no records, a
            mechanism that is not over a network or that no interval can be had from.

    Guarantee:
        None spent, none given: no record is read.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> fair = dc.Tables(coin, {"coin": [0.5, 0.5]})
        >>> plan = dc.plan_accuracy(fair, ["P(coin=heads)"], 0.02, 10_000, rng=0)
        >>> plan.guarantee.epsilon < 1, plan.questions[0].sampling < 0.02
        (True, True)
    """
    rng = as_generator(rng)
    mechanism = planned() if mechanism is None else mechanism
    require_mechanism(mechanism)
    network = truth if isinstance(truth, Network) else truth.network
    asked = _read_queries(queries, network)
    if not (math.isfinite(within) and within > 0):
        raise InputError(f"a half-width is a number above 0, not {shown(within)}")
    if not 0 < records <= MOST_PLANNED_RECORDS or (isinstance(truth, Tables) and truth.draws is not None):
        raise InputError(
            f"a plan needs at least one record, at most {MOST_PLANNED_RECORDS:,}, and one table for each node"
        )
    promise = guarantee or Guarantee(epsilon=1, delta=0, relation=Relation.ADD_REMOVE, unit="record")
    with under_way("planning"):
        worlds = _make_up(truth, mechanism, records, rng)
        usual = [] if isinstance(truth, Network) else worlds[DATA_SETS:]
        simulated = _Simulated(asked, worlds[: len(worlds) - len(usual)], mechanism, promise, usual, rng)
        questions = _search(simulated, within, spread=isinstance(truth, Network))
    return _state(questions, mechanism.name, promise, within, records)


class _Simulated:
    """Half-widths of questions by budget, of the same made-up data sets; each budget is simulated once."""

    def __init__(
        self,
        asked: Sequence[Query],
        worlds: Sequence[Counts],
        mechanism: Mechanism[Any],
        promise: Guarantee,
        usual: Sequence[Counts],
        rng: np.random.Generator,
    ) -> None:
        self._asked, self._worlds, self._mechanism, self._promise = asked, worlds, mechanism, promise
        self._rng = rng
        self._found: dict[float, Floats] = {}
        self._usual = self._compare_usual(usual)
        self._sampling = self._measure(HIGHEST_EPSILON)

    def add(self, epsilon: float) -> None:
        """Simulate a budget."""
        if epsilon not in self._found:
            self._found[epsilon] = self._measure(epsilon)

    def questions(self, *, spread: bool) -> tuple[PlannedWidth, ...]:
        """What is known of each question, by all budgets that were simulated."""
        budgets = tuple(sorted(self._found))
        widths = np.array([self._found[budget] for budget in budgets])  # (budgets, data sets, questions)
        told = []
        for index, query in enumerate(self._asked):
            own, alone = widths[:, :, index], self._sampling[:, index]
            logs = np.log(own) - np.log(own).mean(axis=1, keepdims=True)
            off = SPREAD_FACTOR * float(logs.std(axis=1, ddof=1).mean()) if spread else 0.0
            ends = (math.exp(-off), math.exp(off))
            largest = math.inf if isinstance(query, NumberQuery) else 0.5
            widths_of = tuple(own.mean(axis=1).tolist())
            told.append(PlannedWidth(str(query), budgets, widths_of, float(alone.mean()), largest, ends))
        return tuple(told)

    def _measure(self, epsilon: float) -> Floats:
        """Half-widths at one budget, shape (data sets, questions)."""
        promise = self._promise
        stated = Guarantee(epsilon=repr(epsilon), delta=promise.delta, relation=promise.relation, unit=promise.unit)
        found = []
        for counts in self._worlds:
            prior = Dirichlet.uniform(counts.over)
            release = simulate(self._mechanism, counts, prior, stated, rng=self._rng)
            found.append(self._ask(noise_aware(release, draws=WIDTH_DRAWS, rng=self._rng)))
        return np.array(found) * self._usual

    def _compare_usual(self, usual: Sequence[Counts]) -> Floats:
        """Factor by which intervals of all data sets are wider than of those that are released, by their records alone.

        Few data sets have by chance more or fewer of the records that a rare question is about.
        """
        if not usual:
            return np.ones(len(self._asked))
        own, others = (
            np.mean([self._ask(_read_openly(counts, self._rng)) for counts in part], axis=0)
            for part in (self._worlds, [*self._worlds, *usual])
        )
        return np.asarray(others / own)

    def _ask(self, posterior: PosteriorDraws) -> list[float]:
        """Half-widths of the widest rows."""
        answers = answer_many(posterior, self._asked)
        return [max(row["upper"] - row["lower"] for row in one.tidy()) / 2 for one in answers]


def _read_openly(counts: Counts, rng: np.random.Generator) -> PosteriorDraws:
    """The posterior of made-up records that are seen as they are: what sampling alone leaves open."""
    return PosteriorDraws(Dirichlet.uniform(counts.over).updated(counts.tables).draw(OPEN_DRAWS, rng=rng))


def _search(simulated: _Simulated, within: float, *, spread: bool) -> tuple[PlannedWidth, ...]:
    """Simulate budgets until the wanted one is known, or until it is known that there is none."""
    epsilon = FIRST_EPSILON
    tried: list[float] = []
    for _ in range(SEARCH_STEPS):
        simulated.add(epsilon)
        tried.append(epsilon)
        needed = [one.needed(within) for one in simulated.questions(spread=spread)]
        reachable = [one for one in needed if math.isfinite(one)]
        wanted = min(max(max(reachable, default=FIRST_EPSILON), LOWEST_EPSILON), HIGHEST_EPSILON)
        if any(max(wanted / one, one / wanted) < CLOSE for one in tried):
            break
        epsilon = float(f"{wanted:.3g}")
    for factor in (BUDGET_FACTORS[0], BUDGET_FACTORS[-1]):
        simulated.add(float(f"{max(factor * epsilon, LOWEST_EPSILON):.3g}"))
    return simulated.questions(spread=spread)


def _read_queries(queries: Sequence[str | Query], network: Network) -> list[Query]:
    """Queries whose rows have a width, over the network."""
    if isinstance(queries, str | Query) or not queries:
        raise InputError("a plan takes a list of queries, at least one")
    asked = [parse_query(query, network.schema) if isinstance(query, str) else query for query in queries]
    for query in asked:
        check_names(query, network.schema)
        if isinstance(query, Explanation):
            raise InputError(f"{query}: a most probable state has no width; ask for P(...)")
    return asked


def _make_up(
    truth: Tables | Network, mechanism: Mechanism[Any], records: int, rng: np.random.Generator
) -> list[Counts]:
    """Make up data sets: of known probabilities, or each of its own ones."""
    if isinstance(truth, Network):
        drawn = Dirichlet.uniform(truth).draw(RANDOM_NETWORKS, rng=rng)
        theta = [
            Tables(truth, {node: table[..., index] for node, table in drawn.items()})
            for index in range(RANDOM_NETWORKS)
        ]
    else:
        theta = [truth] * (DATA_SETS + MORE_DATA_SETS)
    scopes = tuple(mechanism.scopes(theta[0].network)) or None
    return [count_codes(one.network, sample_codes(one, records, rng), scopes) for one in theta]


def _state(
    questions: tuple[PlannedWidth, ...], mechanism: str, promise: Guarantee, within: float, records: int
) -> AccuracyPlan:
    """The plan, with the budget rounded up, or the reason why there is none."""
    wide = [one for one in questions if one.sampling >= within]
    if wide:
        worst = max(one.sampling for one in wide)
        enough = float(f"{1.05 * records * (worst / within) ** 2:.1e}")
        reason = (
            f"sampling alone is wider for {listed([one.query for one in wide])}: up to {worst:.3g} with {records:,} "
            f"records; about {enough:,.0f} records would leave room for noise"
        )
        return AccuracyPlan(mechanism, None, within, records, questions, reason)
    needed = max(one.needed(within) for one in questions)
    if math.isinf(needed):
        reason = f"no budget up to {HIGHEST_EPSILON:g} is enough"
        return AccuracyPlan(mechanism, None, within, records, questions, reason)
    unit = 10.0 ** (math.floor(math.log10(needed)) - 1)
    stated = f"{math.ceil(needed / unit - 1e-9) * unit:.10g}"
    found = Guarantee(epsilon=stated, delta=promise.delta, relation=promise.relation, unit=promise.unit)
    return AccuracyPlan(mechanism, found, within, records, questions)
