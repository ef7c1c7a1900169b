"""Explain a release: what one record, or a change under a metric, can change in it, and what its answers depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import cast

import numpy as np

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.query_grammar import NumberQuery, Probability, Query, check_names, parse_query
from discreet.model.schema import Schema
from discreet.model.score_tables import SCORE_STEPS
from discreet.posterior.basis import prior_only_words
from discreet.posterior.joint_draws import PosteriorDraws, learned_prior
from discreet.posterior.methods import Method, noise_aware
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.posterior.pooled.measured import is_poolable
from discreet.posterior.read import what_it_gives
from discreet.privacy.guarantee import Guarantee, Relation, convert
from discreet.queries.credible import check_level
from discreet.queries.explanation import Change, Changes, Divergence, Explanation, OtherPrior, Promise, Telling
from discreet.queries.query import answer
from discreet.queries.row_shares import Dependence, dependence
from discreet.releases.kinds.noisy_sums import NoisyTotal
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.releases.kinds.scored_choice import ScoredNoise
from discreet.releases.release import Release
from discreet.theory.adversary import best_distance, least_distinguishable, least_misses, moved_belief, records_to_tell
from discreet.theory.bounds import largest_error
from discreet.theory.divergence import (
    divergence_limits,
    expected_divergences,
    range_distance,
    range_divergence,
    record_divergence,
)
from discreet.theory.likelihood_sensitivity import record_loss
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator

TOLD_UNITS = (1, 2, 5, 10)
"""Of changes that are told, as far as a reading can change by them."""
TOLD_BELIEFS = (0.01, 0.5)
"""Of a sensitive fact before the release: rare, and even."""
TOLD_FALSE_ALARMS = (0.01, 0.05, 0.1, 0.25)
TEST_ERROR = 0.05
"""Rate of errors of a test that tells data sets apart, and probability with which a bound may fail."""
CLEAR_DEVIATIONS = 3.0
"""Deviations of the noise that all cells of a row are above, for its second-order mean: the next term is a third."""
OTHER_CONCENTRATIONS = (0.25, 1.0)
"""Of the other priors: that of a curator who names none, and the uniform one."""


def explain(
    release: Release,
    queries: str | Sequence[str] = (),
    *,
    rng: Seed = None,
    level: float = 0.95,
    draws: int = 1000,
    rows: int = 5,
) -> Explanation:
    """What one record can change in a release, and what answers depend on.

    Under a metric it is what a change of one unit, and of a few, can change; nothing is said of a record.

    Args:
        release: of any kind. What a record can change, and how well data sets can be told apart, follows from the
            guarantee alone; the rest is for releases over a network, as far as there is a posterior.
        queries: probabilities, such as "P(lung | smoke=yes)"; their variance is taken apart by tables and rows.
        rng: source of the posterior's draws; nothing here is private.
        level: posterior probability of each interval.
        draws: of the posterior.
        rows: how many are named for each query.

    Returns:
        The parts; `str` has them in words, `document` for JSON.

    Raises:
        InputError: a query that does not fit the network, or no number of draws or rows.

    Guarantee:
        None spent: reads the release alone.

    Source:
        Kairouz, Oh and Viswanath (2015) for tests, at `k epsilon` for k units of a metric; Zhang et al. (AAAI 2016),
        Theorem 1, Dimitrakakis et al. (JMLR 2017), Definition 2, Theorems 7 and 13, Chowdhury et al. (ICML 2020),
        equations (7) and (8) and Theorem 4.2, all as corrected in docs/papers.md.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1, 0, 1]})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> made = dc.simulate(dc.laplace(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
        >>> told = dc.explain(made)
        >>> told.promise.value, told.promise.private, round(told.telling.distance, 2)
        (1.0, False, 0.46)
    """
    rng = as_generator(rng)
    check_level(level)
    if not (draws > 0 and rows > 0):
        raise InputError(f"an explanation needs at least one draw and one row, got {draws} and {rows}")
    promise = describe_promise(release)
    telling = None if isinstance(promise, Changes) else _describe_telling(release)
    if note := _find_why_nothing_answers(release):
        return Explanation(promise, telling, None, (), (), (note,))
    asked = _read_queries([queries] if isinstance(queries, str) else queries, release.network.schema)
    with under_way("explaining"):
        divergence = _describe_divergence(release)
    probabilities = [query for query in asked if isinstance(query, Probability)]
    others = [query for query in asked if not isinstance(query, Probability)]
    notes = [f"{query}: only probabilities are taken apart; ask for P(...)" for query in others]
    if not probabilities:
        return Explanation(promise, telling, divergence, (), (), tuple(notes))
    try:
        posterior = noise_aware(release, draws=draws, rng=rng, trust_network=True)
    except InputError as error:
        return Explanation(promise, telling, divergence, (), (), (*notes, f"no answers: {error}"))
    with under_way("explaining"):
        found, more = _take_apart(posterior, probabilities, level, rows)
        priors = _ask_other_priors(release, posterior, probabilities, level, rng)
    return Explanation(promise, telling, divergence, tuple(found), priors, (*notes, *more))


def _find_why_nothing_answers(release: Release) -> str:
    """Find why there is no posterior to take apart; empty where there may be one."""
    if not release.networks:
        return "over a design: what answers depend on, and other priors, are told of networks only"
    if what_it_gives(release) == "structure":
        return (
            "a network was chosen and nothing else measured: there is no posterior, and no answer; releases that are "
            "made with it (`--network FILE`) have them"
        )
    return ""


def _read_queries(texts: Sequence[str], schema: Schema) -> list[Query]:
    """Read queries of known names; those of numbers as the probabilities of bins that they are answered from."""
    parsed = [parse_query(text, schema) for text in texts]
    for query in parsed:
        check_names(query, schema)
    return [query.bins if isinstance(query, NumberQuery) else query for query in parsed]


def _take_apart(
    posterior: PosteriorDraws, queries: Sequence[Probability], level: float, rows: int
) -> tuple[list[Dependence], list[str]]:
    """Take the variances of probabilities apart, as far as they have answers; and what is to be noted of these."""
    found, notes = list[Dependence](), list[str]()
    for query in queries:
        try:
            found.append(dependence(posterior, query, level=level, rows=rows))
            unknown = answer(posterior, query, level=level).prior_only
            notes += [f"{query}: {prior_only_words(unknown)}"] if unknown else []
        except InputError as error:
            notes.append(f"{query}: {str(error).removeprefix(f'{query}: ')}")
    return found, notes


def describe_promise(release: Release) -> Promise | Changes:
    """What can be learned of a record, or under a metric by changes of some units.

    Args:
        release: of any kind.
    """
    return _describe_changes(release) if release.guarantee.relation is Relation.METRIC else _describe_promise(release)


def _describe_promise(release: Release) -> Promise:
    """What can be learned of a record."""
    guarantee = release.guarantee
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    presence, value = (epsilon if guarantee.relation is Relation.ADD_REMOVE else None), _convert_to_values(guarantee)
    nats = None if value is None else float(value.epsilon)
    beliefs = {prior: (_move_belief(prior, presence), _move_belief(prior, nats)) for prior in TOLD_BELIEFS}
    value_delta = 1.0 if value is None else float(value.delta)
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, release.private)
    return Promise(*named, presence, nats, delta, value_delta, beliefs)


def _move_belief(prior: float, nats: float | None) -> float | None:
    """The largest that a belief can become, where something is promised."""
    return None if nats is None else moved_belief(prior, nats)


def _convert_to_values(guarantee: Guarantee) -> Guarantee | None:
    """The promise for two values of one record: removing the one, adding the other."""
    if guarantee.relation is not Relation.ADD_REMOVE:
        return guarantee
    with suppress(InputError):
        return convert(guarantee, Relation.REPLACE)
    return None


def _describe_changes(release: Release) -> Changes:
    """What a change of some units can change: `k epsilon` for k of them."""
    guarantee, epsilon = release.guarantee, float(release.guarantee.epsilon)
    ranges = [each.bounds for network in release.networks for each in network.variables if each.bounds]
    widest = max(
        (math.ceil((Fraction(high) - Fraction(low)) / guarantee.unit_amount) for low, high in ranges), default=None
    )
    told = TOLD_UNITS if widest is None else sorted({min(units, widest) for units in (*TOLD_UNITS, widest)})
    named = (str(guarantee), str(guarantee.relation), guarantee.unit, release.private)
    changes = tuple(_describe_change(units, units * epsilon) for units in told)
    necessary = least_distinguishable(epsilon / 2, 1, TEST_ERROR)
    needed, meant = records_to_tell(TEST_ERROR, epsilon, 0.0), tuple(release.unit_lines)
    return Changes(*named, changes, widest, TEST_ERROR, needed, necessary, meant)


def _describe_change(units: int, nats: float) -> Change:
    """What so many nats can change."""
    beliefs = {prior: moved_belief(prior, nats) for prior in TOLD_BELIEFS}
    misses = {alarms: least_misses(alarms, nats, 0.0) for alarms in TOLD_FALSE_ALARMS}
    return Change(units, nats, beliefs, best_distance(nats, 0.0), misses)


def _describe_telling(release: Release) -> Telling:
    """How well data sets can be told apart that differ in one unit."""
    epsilon, delta = float(release.guarantee.epsilon), float(release.guarantee.delta)
    misses = {alarms: least_misses(alarms, epsilon, delta) for alarms in TOLD_FALSE_ALARMS}
    units = records_to_tell(TEST_ERROR, epsilon, delta)
    # A pure epsilon is 2 L for each record.
    necessary = None if delta else least_distinguishable(epsilon / 2, 1, TEST_ERROR)
    payload = release.unit_payload
    number, together = None, None
    if isinstance(payload, ParameterDraws) and not delta:
        number, together = payload.draws, _bound_distance_of_draws(epsilon, payload.total)
    unit, distance = release.guarantee.unit, best_distance(epsilon, delta)
    return Telling(unit, distance, misses, TEST_ERROR, units, necessary, number, together)


def _bound_distance_of_draws(epsilon: float, total: NoisyTotal | None) -> float:
    """Largest total variation of draws, and of a number of records beside them: sums of errors multiply at least."""
    told = 0.0 if total is None else min(1 / total.scale, epsilon)
    return 1 - (1 - range_distance(epsilon - told)) * (1 - best_distance(told, 0.0))


def _describe_divergence(release: Release) -> Divergence:
    """How far posteriors are apart."""
    network, payload, relation = release.network, release.unit_payload, release.guarantee.relation
    if isinstance(payload, ParameterDraws) and payload.floors:
        moved = range_divergence(payload.temper * record_loss(network, payload.floors, relation))
        return Divergence(moved, None, True, None, TEST_ERROR, {}, 0.0, 0, 0, ())
    noise = release.calibration
    if isinstance(noise, ScoredNoise):
        # Of a family it is the posterior in which a record counts so much.
        moved = range_divergence(noise.rate * release.policy.steps * noise.width / SCORE_STEPS)
        record, change = (None, moved) if relation is Relation.METRIC else (moved, None)
        return Divergence(record, change, True, None, TEST_ERROR, {}, 0.0, 0, 0, ())
    record = None if relation is Relation.METRIC else record_divergence(release.dirichlet, relation)
    parts = release.measurements
    if not parts or not is_poolable(parts):
        return Divergence(record, None, False, None, TEST_ERROR, {}, 0.0, 0, 0, ())
    return _describe_noise_of_counts(release, record)


def _describe_noise_of_counts(release: Release, record: float | None) -> Divergence:
    """How far the posterior that takes noisy counts for counts is from that of the exact ones."""
    network = release.network
    margins = pooled_margins(network, release.measurements, release.records)
    most = np.inf if release.records is None else float(release.records)
    telling = [node for node in network.nodes if network.schema[node].size > 1]
    whole = [node for node in telling if network.ordered(network.family(node)) in margins.values]
    cells = sum(network.cells(network.family(node)) for node in whole)
    limits, expected, large, rows = dict[str, float](), 0.0, 0, 0
    for node in whole:
        family, parents, alpha = network.family(node), network.parents[node], release.dirichlet.alpha[node]
        deviation = margins.deviation(family)
        # Cutting at 0, and at what is public, brings counts nearer to the exact ones.
        counts = np.clip(margins.table(family), 0, most)
        bound = largest_error(deviation, TEST_ERROR / cells, whole=True)
        limits[node] = float(divergence_limits(alpha, counts, bound, most).sum())
        clear = (counts >= CLEAR_DEVIATIONS * deviation).all(axis=-1)
        means = expected_divergences(alpha + counts, deviation**2, margins.deviation(parents) ** 2)
        expected, large, rows = expected + float(means[clear].sum()), large + int(clear.sum()), rows + clear.size
    ordered = dict(sorted(limits.items(), key=lambda pair: -pair[1]))
    missing = tuple(node for node in telling if node not in limits)
    return Divergence(record, None, False, sum(limits.values()), TEST_ERROR, ordered, expected, large, rows, missing)


def _ask_other_priors(
    release: Release, posterior: PosteriorDraws, queries: Sequence[Probability], level: float, rng: np.random.Generator
) -> tuple[OtherPrior, ...]:
    """Answers under the prior that a reader has without asking, and under others."""
    found = []
    readings = list(_read_under_priors(release, posterior, rng))
    for query in queries:
        for label, believed in readings:
            with suppress(InputError):  # impossible evidence, which is noted already
                rows = answer(believed, query, level=level).rows
                kept = tuple({name: row[name] for name in ("state", "mean", "lower", "upper")} for row in rows)
                found.append(OtherPrior(str(query), label, kept))
    return tuple(found)


def _read_under_priors(
    release: Release, posterior: PosteriorDraws, rng: np.random.Generator
) -> Iterator[tuple[str, PosteriorDraws]]:
    """The posterior, and those under other priors that were drawn likewise; a prior that is the curator's but once."""
    if posterior.method == "family":
        yield "the family's own", posterior
        return
    learned, own = learned_prior(release, None) and posterior.method == "pooled", release.dirichlet.alpha
    yield "learned from the release" if learned else "the curator's", posterior
    for concentration in OTHER_CONCENTRATIONS:
        prior = Dirichlet.uniform(release.network, concentration)
        if learned or any(not np.array_equal(own[node], table) for node, table in prior.alpha.items()):
            draws, method = posterior.cells.draws or 1, cast(Method, posterior.method)
            other = noise_aware(release, draws=draws, rng=rng, prior=prior, method=method, trust_network=True)
            yield f"Dirichlet({concentration:g})", other
