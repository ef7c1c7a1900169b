"""Planning by accuracy: simulate the interval widths of a release, and find the budget for a wanted width.

A half-width h follows from simulation: records are made up from public probabilities, released, and read as an analyst
would, and the stated questions are asked. Few releases have to tell it, so each counts for all budgets:

* What is sampling, s, is the half-width at next to no noise, known from two data sets. Of the others it follows from
  the records as they are, whose posterior costs next to nothing and is by a factor as wide.
* The rest, `sqrt(h^2 - s^2)`, is nearly a power of epsilon. Its logarithm is fitted by a line over that of epsilon, by
  least squares, near the wanted budget; with a slope that is known roughly beforehand, as questions about rare states
  differ by more from release to release than a slope could be told from.
* Each release is simulated at the budget that all before it point to, half, or twice of it, and on a data set
  of its own. There is no further one once the mean of every question is known well enough.

How far simulated half-widths lie from the line says how far those of further releases will: with rare evidence some are
many times as wide as others, and then no mean of few releases tells the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.accuracy.accuracy_plan import (
    BUDGET_FACTORS,
    FIRST_EPSILON,
    HIGHEST_EPSILON,
    LOWEST_EPSILON,
    NORMAL_ERROR,
    AccuracyPlan,
    PlannedWidth,
)
from discreet.accuracy.width_curves import WidthCurves, fit_widths
from discreet.errors import InputError, listed, shown
from discreet.inference.bin_laws import BinLaw
from discreet.inference.exact_laws import Laws
from discreet.mechanisms.crossing import Mechanism, require_mechanism, simulate
from discreet.mechanisms.planned import planned
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import ComposedQuery, MostProbable, NumberQuery, Query, plain_queries, read_query
from discreet.model.round_numbers import typical_network
from discreet.model.schema import Schema
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import noise_aware
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.queries.query import answer_many
from discreet.records.counts import Counts
from discreet.util.arrays import Floats
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator
from discreet.verify.made_up import make_up_records
from discreet.verify.plan import MOST_PLANNED_RECORDS

WIDTH_DRAWS = 400
"""Draws of each posterior: the ends of one interval are off by a tenth of its half-width, those of four by 5 %."""
NOISELESS_RELEASES = 2
"""Number of data sets released with next to no noise."""
LEAST_RELEASES, MOST_RELEASES = 4, 9
"""Simulated releases at budgets around the wanted one, each with a new data set or set of probabilities."""
WANTED_ERROR = 0.05
"""Standard error of the logarithm of a mean half-width at which no more releases are simulated."""
BUDGET_TURNS = (1.0, 0.5, 2.0)
"""Multiples of the wanted budget that are simulated in turn."""
NORMAL_RELEASES = 4
"""Weight, in releases, of `NORMAL_ERROR` beside the simulated errors."""
LARGEST_HALF_WIDTH = 0.5
"""Half-width of a probability about which nothing is known."""
ENDLESS_RATIO = 10.0
"""Half-width of an interval without an end, such as that of a ratio whose divisor may be 0, relative to its mean."""
BINNED_RATIO = 1.1
"""Ratio of an interval to that by one law inside bins above which bins, and not records alone, make it wide."""
LEAST_HALF_WIDTH = 1e-12
"""Half-width that stands for 0, of a certain answer."""


def plan_accuracy(
    truth: Tables | Network,
    queries: Sequence[str | Query],
    within: float | None,
    records: int,
    *,
    guarantee: Guarantee | None = None,
    mechanism: Mechanism | None = None,
    rng: Seed = None,
) -> AccuracyPlan:
    """Find the budget at which stated questions are answered as accurately as wanted; no record is read.

    Records are made up from the network's probabilities, released, and read as an analyst would; what sampling alone
    makes of a half-width is that of a release with epsilon 100 of the same records.

    Args:
        truth: public probabilities, or a guess; or a network alone, for which several sets of probabilities are drawn
            from Dirichlet(1/4), and half-widths are geometric means over them. Of such a network, columns whose bins a
            release finds have as many as it may find, and finding them is no part of the plan.
        queries: probabilities, means, quantiles and correlations, and questions made of them, as `answer` takes them.
            Numbers are made up by the
            log-linear law inside their bins; of a mechanism that releases sums of them, as `planned` does, half-widths
            are of answers by these sums.
        within: half-width that the 95 % interval of every row shall have at most, in the unit of the answer; None for
            what the guarantee's own epsilon gives.
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
    network = truth.network if isinstance(truth, Tables) else typical_network(truth)
    truth = truth if isinstance(truth, Tables) else network
    parsed = _read_queries(queries, network)
    if within is None and guarantee is None:
        raise InputError("a plan needs the half-width that is wanted, or the guarantee that it is about")
    if within is not None and not (math.isfinite(within) and within > 0):
        raise InputError(f"a half-width is a number above 0, not {shown(within)}")
    if not 0 < records <= MOST_PLANNED_RECORDS or (isinstance(truth, Tables) and truth.draws is not None):
        raise InputError(
            f"a plan needs at least one record, at most {MOST_PLANNED_RECORDS:,}, and one table for each node"
        )
    promise = guarantee or Guarantee(epsilon=1, delta=0, relation=Relation.ADD_REMOVE, unit="record")
    known = isinstance(truth, Tables)
    with under_way("planning"):
        worlds = _simulate_data_sets(truth, mechanism, parsed, records, rng)
        simulated = _Simulated(parsed, worlds, mechanism, promise, rng, typical=not known)
        if within is None:
            questions = _search(simulated, lambda _: float(promise.epsilon), known=known)
            plan = AccuracyPlan(mechanism.name, promise, None, records, questions)
        else:
            questions = _search(simulated, lambda widths: _find_budget(widths, within), known=known)
            plan = _make_plan(questions, mechanism.name, promise, within, records)
    return replace(plan, over_networks=not known)


@dataclass(frozen=True, eq=False)
class _DataSet:
    """A simulated data set, and the true answers, with a row for each row of a query."""

    counts: Counts
    truth: list[Floats]


class _Simulated:
    """Half-widths of queries over simulated releases at some budgets, each of a new data set."""

    def __init__(
        self,
        queries: Sequence[Query],
        worlds: Sequence[_DataSet],
        mechanism: Mechanism,
        promise: Guarantee,
        rng: np.random.Generator,
        *,
        typical: bool,
    ) -> None:
        self._asked, self._worlds, self._mechanism, self._promise = queries, worlds, mechanism, promise
        self._rng, self._typical, self._measured = rng, typical, False
        self._budgets: list[float] = []
        self._binned = [False] * len(queries)
        network = worlds[0].counts.over
        self._numeric = [
            any(isinstance(atom, NumberQuery) for atom in plain_queries([query], network)) for query in queries
        ]
        self._widths: list[Floats] = []
        self._errors: list[Floats] = []
        noiseless = [self._release(world, HIGHEST_EPSILON)[0] for world in worlds[:NOISELESS_RELEASES]]
        opened = np.array([self._ask(_read_without_noise(world.counts, rng), world.truth)[0] for world in worlds])
        self._sampling = opened * (np.array(noiseless) / opened[: len(noiseless)]).mean(axis=0)

    def add(self, epsilon: float) -> None:
        """Simulate a release of the next data set."""
        widths, errors = self._release(self._worlds[len(self._budgets)], epsilon)
        self._budgets.append(epsilon)
        self._widths.append(widths)
        self._errors.append(errors)

    def uncertainty(self, centre: float) -> float:
        """Largest standard error of a log mean half-width, near a budget."""
        return float(self._fit(centre).uncertainty.max())

    def questions(self, centre: float) -> tuple[PlannedWidth, ...]:
        """Expected widths of each query, around a budget."""
        curves = self._fit(centre)
        budgets = tuple(centre * factor for factor in BUDGET_FACTORS)
        widths = np.array([curves.at(budget) for budget in budgets])
        h, errors = np.array(self._widths).sum(axis=0), np.array(self._errors).sum(axis=0)
        # Ratio of absolute error to half-width, shrunk to that of normal errors by the weight of NORMAL_RELEASES.
        prior_widths = NORMAL_RELEASES / len(self._budgets) * h
        shares = (errors + NORMAL_ERROR * prior_widths) / (h + prior_widths)
        return tuple(
            PlannedWidth(
                str(query),
                budgets,
                tuple(widths[:, index].tolist()),
                float(curves.sampling[index]),
                _find_largest(query, self._worlds[0].counts.over.schema),
                (float(curves.spread[0, index]), float(curves.spread[1, index])),
                float(shares[index]),
                float(curves.uncertainty[index]),
                self._binned[index],
            )
            for index, query in enumerate(self._asked)
        )

    def _fit(self, centre: float) -> WidthCurves:
        """Fit width curves to the releases so far, near a budget."""
        return fit_widths(self._budgets, np.array(self._widths), self._sampling, centre, typical=self._typical)

    def _release(self, world: _DataSet, epsilon: float) -> tuple[Floats, Floats]:
        """Simulate a release: half-widths and absolute errors of its answers, shape (questions,) each."""
        promise = self._promise
        stated = Guarantee(epsilon=repr(epsilon), delta=promise.delta, relation=promise.relation, unit=promise.unit)
        release = simulate(self._mechanism, world.counts, Dirichlet.uniform(world.counts.over), stated, rng=self._rng)
        posterior = _without_replicates(noise_aware(release, draws=WIDTH_DRAWS, rng=self._rng))
        self._measured = posterior.numbers is not None
        return self._ask(posterior, world.truth)

    def _ask(self, posterior: PosteriorDraws, truth: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Find half-widths of the widest rows, and absolute errors of their means."""
        pairs = []
        for index, (query, true) in enumerate(zip(self._asked, truth, strict=True)):
            if self._measured and posterior.numbers is None and self._numeric[index]:
                # What noise leaves of a number is known of releases that hold its sums; bins say something else.
                pairs.append((1.0, 0.0))
                continue
            try:
                rows = answer_many(posterior, [query])[0].tidy()
            except InputError:  # evidence without a record, by the random network or the noise
                if self._numeric[index]:
                    raise
                pairs.append((LARGEST_HALF_WIDTH, LARGEST_HALF_WIDTH))
                continue
            longest = [2 * ENDLESS_RATIO * max(abs(row["mean"]), LARGEST_HALF_WIDTH) for row in rows]
            drawn = [max(row["upper"] - row["lower"], LEAST_HALF_WIDTH) for row in rows]
            widths = [min(pair) / 2 for pair in zip(drawn, longest, strict=True)]
            widest = int(np.argmax(widths))
            pairs.append((widths[widest], abs(rows[widest]["mean"] - true[widest])))
            if "law_lower" in rows[widest]:
                by_law = rows[widest]["law_upper"] - rows[widest]["law_lower"]
                self._binned[index] |= bool(2 * widths[widest] > BINNED_RATIO * by_law)
        widths_of, errors = np.array(pairs).T
        return widths_of, errors


def _find_largest(query: Query, schema: Schema) -> float:
    """Find the half-width that no interval of a query exceeds: of a mean or quantile half the range of its numbers.

    Infinite for a question made of queries.
    """
    if isinstance(query, ComposedQuery):
        return math.inf
    if not isinstance(query, NumberQuery) or query.kind in ("marginal", "conditional"):
        return LARGEST_HALF_WIDTH
    ranges = [high - low for name, _ in query.targets for low, high in [schema[name].bounds or (-math.inf, math.inf)]]
    # A variance lies between 0 and a quarter of the squared range, a covariance within a quarter of the product.
    largest = {"sd": ranges[0] / 4, "variance": ranges[0] ** 2 / 8, "covariance": math.prod(ranges) / 4}
    return 1.0 if query.quantity == "correlation" else largest.get(query.quantity, ranges[0] / 2)


def _without_replicates(posterior: PosteriorDraws) -> PosteriorDraws:
    """Drop the replicate draws, which a plan does not use."""
    saturated = posterior.saturated and replace(posterior.saturated, replicates=None)
    return replace(posterior, replicates=None, saturated=saturated)


def _read_without_noise(counts: Counts, rng: np.random.Generator) -> PosteriorDraws:
    """Posterior of simulated records without noise: the sampling error alone."""
    return PosteriorDraws(Dirichlet.uniform(counts.over).updated(counts.tables).draw(WIDTH_DRAWS, rng=rng))


def _search(
    simulated: _Simulated, find_budget: Callable[[Sequence[PlannedWidth]], float], *, known: bool
) -> tuple[PlannedWidth, ...]:
    """Simulate releases around a budget updated from those before, until its half-widths are known."""
    centre = find_budget(())
    for turn in range(MOST_RELEASES):
        epsilon = _clip_epsilon(centre * BUDGET_TURNS[turn % len(BUDGET_TURNS)])
        simulated.add(float(f"{epsilon:.3g}"))
        centre = find_budget(simulated.questions(centre))
        if known and turn + 1 >= LEAST_RELEASES and simulated.uncertainty(centre) <= WANTED_ERROR:
            break
    return simulated.questions(centre)


def _find_budget(questions: Sequence[PlannedWidth], within: float) -> float:
    """Smallest budget that is enough for all queries that can be so narrow; `FIRST_EPSILON` if none can."""
    needed = [width.needed(within) for width in questions]
    return _clip_epsilon(max((width for width in needed if math.isfinite(width)), default=FIRST_EPSILON))


def _clip_epsilon(epsilon: float) -> float:
    """Nearest budget in the range searched."""
    return min(max(epsilon, LOWEST_EPSILON), HIGHEST_EPSILON)


def _read_queries(queries: Sequence[str | Query], network: Network) -> list[Query]:
    """Parse queries whose rows have a width; a number of records has none, and is planned by its queries."""
    if isinstance(queries, str | Query) or not queries:
        raise InputError("a plan takes a list of queries, at least one")
    parsed, single = list[Query](), PosteriorDraws(Dirichlet.uniform(network).draw(1, rng=0))
    for query in [read_query(query, network.schema) for query in queries]:
        atoms = plain_queries([query], network)
        if any(isinstance(atom, MostProbable) for atom in atoms):
            raise InputError(f"{query}: a most probable state has no width; ask for P(...)")
        try:
            parsed += [query] if query in atoms or answer_many(single, [query]) else []
        except InputError:
            parsed += atoms
    return parsed


def _simulate_data_sets(
    truth: Tables | Network, mechanism: Mechanism, queries: Sequence[Query], records: int, rng: np.random.Generator
) -> list[_DataSet]:
    """Simulate data sets: from known probabilities, or each from new random ones."""
    if isinstance(truth, Network):
        theta = [Dirichlet.uniform(truth).draw(1, rng=rng) for _ in range(MOST_RELEASES)]
    else:
        single = Tables(truth.network, {node: table[..., None] for node, table in truth.items()}, draws=1)
        theta = [single] * MOST_RELEASES
    scopes = tuple(mechanism.scopes(theta[0].network)) or None
    worlds = list[_DataSet]()
    for tables in theta:
        single_draw = Tables(tables.network, {node: table[..., 0] for node, table in tables.items()})
        counts = make_up_records(single_draw, records, rng)(scopes)
        answers = worlds[0].truth if worlds and isinstance(truth, Tables) else _answer_exactly(tables, queries)
        worlds.append(_DataSet(counts, answers))
    return worlds


def _answer_exactly(theta: Tables, queries: Sequence[Query]) -> list[Floats]:
    """Answer queries under known probabilities, an array of its rows for each query."""
    posterior, answers = PosteriorDraws(theta), list[Floats]()
    for query in queries:
        if isinstance(query, NumberQuery) and query.second is not None:
            answers.append(np.array([_relate_exactly(theta, query)]))
        else:
            answers.append(np.array([row["mean"] for row in answer_many(posterior, [query])[0].rows]))
    return answers


def _relate_exactly(theta: Tables, query: NumberQuery) -> float:
    """Compute the covariance or correlation of two made-up numbers, which depend on each other by their bins alone."""
    variables = [theta.network.schema[name] for name, _ in query.targets]
    bins = [len(variable.edges) - 1 for variable in variables]
    joint = Laws(theta).joint([variable.name for variable in variables])[: bins[0], : bins[1], 0]
    joint = joint / joint.sum()
    sides = zip(variables, (joint.sum(axis=1), joint.sum(axis=0)), strict=True)
    first, second = (BinLaw.of_bins(variable, shares[:, None]) for variable, shares in sides)
    centred = [law.means()[:, 0] - law.mean() for law in (first, second)]
    covariance = centred[0] @ joint @ centred[1]
    scale = np.sqrt(first.variance() * second.variance())[0] if query.quantity == "correlation" else 1.0
    return float(covariance / max(scale, np.finfo(float).tiny))


def _make_plan(
    questions: tuple[PlannedWidth, ...], mechanism: str, promise: Guarantee, within: float, records: int
) -> AccuracyPlan:
    """Make the plan, with the budget rounded up, or the reason why there is none."""
    too_wide = [width for width in questions if width.sampling >= within]
    if too_wide:
        reasons = [
            _say_too_wide([width for width in too_wide if width.binned is binned], within, records)
            for binned in dict.fromkeys(width.binned for width in too_wide)
        ]
        return AccuracyPlan(mechanism, None, within, records, questions, "; ".join(reasons))
    needed = max(width.needed(within) for width in questions)
    if math.isinf(needed):
        reason = f"no budget up to {HIGHEST_EPSILON:g} is enough"
        return AccuracyPlan(mechanism, None, within, records, questions, reason)
    unit = 10.0 ** (math.floor(math.log10(needed)) - 1)
    stated = f"{math.ceil(needed / unit - 1e-9) * unit:.10g}"
    stated_promise = Guarantee(epsilon=stated, delta=promise.delta, relation=promise.relation, unit=promise.unit)
    return AccuracyPlan(mechanism, stated_promise, within, records, questions)


def _say_too_wide(questions: Sequence[PlannedWidth], within: float, records: int) -> str:
    """Explain why no budget is enough for some queries, all of them or none `binned`, and what would help."""
    names, worst = listed([width.query for width in questions]), max(width.sampling for width in questions)
    if questions[0].binned:
        return (
            f"bins and sampling leave {names} wider, up to {worst:.3g}, whatever the budget; narrower bins help, and "
            "for means and deviations sums of numbers (option numbers_share)"
        )
    enough = float(f"{1.05 * records * (worst / within) ** 2:.1e}")
    return (
        f"sampling alone is wider for {names}: up to {worst:.3g} with {records:,} records; about {enough:,.0f} records "
        "would leave room for noise"
    )
