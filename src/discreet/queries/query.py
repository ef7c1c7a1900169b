"""Answers of a posterior to queries, with a credible interval for every number.

The grammar of queries is in `model/query_grammar.py`. A posterior may have *replicate draws*: for a draw of all
probabilities a second one given the same latent counts. They separate the privacy noise's part of a variance from the
sampling's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from discreet.errors import QUOTED_CHARACTERS, InputError, listed, require, require_word, shown
from discreet.inference.bin_laws import BinLaw, check_inside
from discreet.inference.exact_laws import EVALUATED_EXPLANATIONS, ConditionalLaws, affordable
from discreet.model.number_types import NumberType, as_ends
from discreet.model.query_grammar import (
    ComposedQuery,
    MostProbable,
    NumberQuery,
    Observed,
    PlainQuery,
    Probability,
    Query,
    read_query,
    read_whom,
)
from discreet.model.schema import Schema, Scope
from discreet.posterior.joint_draws import PosteriorDraws, require_posterior
from discreet.posterior.protocol import NetworkPosterior, equal_tails
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.answers import Answer, AnswerDraws, AnswerRow, Answers
from discreet.queries.column_moments import ColumnLaw, RegressionColumn
from discreet.queries.conditioning import ConditionedPosterior, condition_on, follow_lines, give_numbers
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.number_moments import read_moments
from discreet.queries.observed_numbers import bound_event
from discreet.queries.partial_identification import identification_bounds
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL, Assume, Inside
from discreet.util.progress import under_way

# --------------------------------------------------------------------------------------------------------------------
# Draws of a posterior that count for a query, and their weights; common to all answers from draws.

MOST_LEFT_OUT = 0.5
"""Fraction of draws with impossible evidence above which an answer is refused: evidence that most draws rule out is a
mistake of the analyst or of the network."""
LEAST_EFFECTIVE_DRAWS = 20
"""Effective sample size below which weighted draws have no interval: a 95 % interval leaves out one in twenty."""


def possible_draws(query: Query, draws: Floats, weights: Floats | None) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Find the draws in which the evidence is possible, and their normalised weights.

    Args:
        query: query, for the message of an error.
        draws: probabilities, shape (states, draws); NaN, which is looked for in the first state only, where the
            evidence is impossible.
        weights: weights of the draws, shape (draws,); None if they are equal.

    Returns:
        A mask of shape (draws,), and the weights of the possible draws, which sum to 1, shape (possible draws,).

    Raises:
        InputError: the evidence is impossible in more than half of the draws; or weights are given, and their effective
            sample size `1 / sum w^2` is less than LEAST_EFFECTIVE_DRAWS. Of fewer possible draws than that, weights
            must be equal, but for rounding.
    """
    possible = ~np.isnan(draws[0])
    refuse_impossible(int((~possible).sum()), possible.size, f"{query}: the evidence")
    share = np.ones(int(possible.sum())) if weights is None else weights[possible]
    share = share / share.sum()
    if weights is not None and 1 / (share**2).sum() < (1 - 1e-9) * min(LEAST_EFFECTIVE_DRAWS, share.size):
        raise InputError(
            f"{query}: weighted by the probability of the evidence fewer than {LEAST_EFFECTIVE_DRAWS} effective draws "
            "are left; ask for more draws, or leave out predictive"
        )
    return possible, share


def keep_possible(draws: Floats, possible: npt.NDArray[np.bool_]) -> Floats:
    """Select the draws of a mask on the last axis; if all are possible, return the array itself, not a copy.

    A copy would have another order in memory, which changes how sums are rounded.
    """
    return draws if possible.all() else draws[..., possible]


def refuse_impossible(impossible: int, draws: int, subject: str) -> None:
    """Raise an error for evidence that most draws make impossible; exactly half is accepted.

    Args:
        impossible: number of draws in which it has probability 0.
        draws: number of posterior draws.
        subject: beginning of the message.

    Raises:
        InputError: the evidence is impossible in more than half of the draws.
    """
    if impossible > MOST_LEFT_OUT * draws:
        raise InputError(f"{subject} is impossible under {impossible} of {draws} draws; check its states")


def resample(weights: Floats) -> npt.NDArray[np.intp]:
    """Resample draws systematically, so that each appears in proportion to its weight; no random number is used.

    With n draws, position i has the first draw whose cumulative weight reaches `(i + 1/2) / n` of the total.

    Args:
        weights: weights of the draws, at least 0, with any sum, shape (draws,).

    Returns:
        Positions of the resampled draws in ascending order, shape (draws,); all 0 if all weights are 0.

    Example:
        >>> resample(np.array([0.5, 0.25, 0.25, 0.0])).tolist()
        [0, 0, 1, 2]
    """
    steps = (np.arange(weights.size) + 0.5) / weights.size
    return np.searchsorted(np.cumsum(weights), steps * np.sum(weights)).clip(max=weights.size - 1)


# --------------------------------------------------------------------------------------------------------------------
# Answers on numbers, with intervals that include the unknown positions inside bins.
#
# An interval for a mean includes three errors: sampling and privacy noise, which the posterior's draws contain, and the
# unknown positions inside bins. Under each draw the laws inside the bins allow an interval of means. The reported
# interval goes from a low quantile of their lower ends to a high quantile of their upper ends, so that it holds for
# every law; it is as wide as a typical bin. The interval under the assumed law stands beside it.


def number_draws(query: NumberQuery, law: BinLaw) -> tuple[Floats, Floats, Floats]:
    """Compute a mean, quantile or share in every draw, with its smallest and largest value over laws inside bins.

    "mean", "variance" and "sd" are those of the law; "quantile" is that of the share `query.at`; ">", ">=", "<" and
    "<=" are the share of the numbers above or below `query.at`.

    Args:
        query: query for a number; its `at` counts as 0 if it is None.
        law: law of the numbers in the bins, with an axis of draws.

    Returns:
        The value under the law, and the smallest and largest value over all laws inside the bins; shape `(draws,)`
        each. Means, deviations and quantiles are in the unit of the variable, variances in its square, shares between 0
        and 1.

    Raises:
        AssertionError: another word in `query.quantity`.
    """
    at = 0.0 if query.at is None else query.at
    match query.quantity:
        case "mean":
            return law.mean(), *law.mean_ends()
        case "variance":
            return law.variance(), *law.variance_ends()
        case "sd":
            variance, low, high = (np.sqrt(values) for values in (law.variance(), *law.variance_ends()))
            return variance, low, high
        case "quantile":
            return law.quantile(at), *law.quantile_ends(at)
        case ">" | ">=":
            return law.above(at, inclusive=query.quantity == ">=")
        case "<" | "<=":
            share, low, high = law.above(at, inclusive=query.quantity == "<")
            return 1 - share, 1 - high, 1 - low
        case _:
            raise AssertionError(query.quantity)


def number_row(
    query: NumberQuery, law: BinLaw, limits: Sequence[BinLaw], level: float, weights: Floats, *, alike: bool
) -> tuple[AnswerRow, tuple[Floats, Floats, Floats]]:
    """Compute the row of an answer on a number: mean, interval over all laws inside bins, and under the given one.

    "law_lower" and "law_upper" bound the value under the given law. "lower" is the smaller one of "law_lower" and the
    lower end for the smallest values over all laws; "upper" likewise. Intervals are by `credible_interval` for a share
    and equal-tailed for a mean or quantile; with unequal weights they are of resampled draws.

    Args:
        query: query for a number.
        law: law of the numbers in the bins, for the draws that are used.
        limits: laws over whose bins "lower" and "upper" allow every law, for the same draws; mostly `law` itself.
        level: posterior probability of the intervals; not checked for a mean or quantile.
        weights: weights of the draws, which sum to 1, shape (draws,).
        alike: whether the weights are equal.

    Returns:
        "state", a mapping of the variable to what is asked of it, such as "mean" or ">= 40"; "mean", the weighted mean
        over the draws under the given law; "lower", "upper", "law_lower" and "law_upper". "noise" and "noise_error" are
        missing. Then the value in every draw, and its smallest and largest over all laws, shape (draws,) each.
    """
    numbers, ends = number_draws(query, law)[0], [number_draws(query, limit)[1:] for limit in limits]
    low, high = np.min([first for first, _ in ends], axis=0), np.max([last for _, last in ends], axis=0)
    picked = slice(None) if alike else resample(weights)
    counted, lowest, highest = (values[picked] for values in (numbers, low, high))
    interval = credible_interval if query.kind in ("marginal", "conditional") else equal_tails
    within, (first, _), (_, last) = (interval(values, level) for values in (counted, lowest, highest))
    at = "" if query.at is None else f" {query.at:.15g}"
    row: AnswerRow = {
        "state": {query.variable: f"{query.quantity}{at}"},
        "mean": float(numbers @ weights),
        "lower": float(min(first, within[0])),
        "upper": float(max(last, within[1])),
        "law_lower": float(within[0]),
        "law_upper": float(within[1]),
    }
    return row, (numbers, low, high)


# --------------------------------------------------------------------------------------------------------------------
# Share of an interval that is due to privacy noise, and its Monte Carlo error.

ROUNDING_DEVIATION = 1e-12
"""Standard deviation of a probability below which its variation is a rounding error."""


def noise_share(draws: Floats, replicates: Floats, effective: float | None = None) -> tuple[Floats, Floats]:
    """Estimate the share of a posterior's variance that is due to the privacy noise in the counts.

    For a function q of the probabilities theta, it is `Var(E[q(theta) | counts]) / Var(q(theta))`. A replicate is a
    second draw given the same counts, so the covariance of draw and replicate is the variance of the conditional mean.
    With x and y a draw and its replicate less their pooled mean, the estimate is `mean(x y) / mean((x^2 + y^2) / 2)`,
    clipped to [0, 1].

    Args:
        draws: q in every draw, shape `(..., draws)`.
        replicates: q in the replicate of every draw, same shape; a draw is left out of all estimates if any entry of it
            or of its replicate is NaN.
        effective: effective sample size of the draws; None or 0 if they are independent. Beyond the number of draws it
            counts as that number.

    Returns:
        (the share, between 0 and 1; its standard error), shape `(...)` each: both 0 where the standard deviation of q
        is at most ROUNDING_DEVIATION, NaN where fewer than two draws are left. The error is about `(1 - share^2) /
        sqrt(draws)` where q is normal.

    Source:
        The intraclass correlation of pairs, Fisher (1925), *Statistical Methods for Research Workers*, chapter VII:
        mean and variance are pooled over draws and replicates. The error is by the delta method: with x and y a draw
        and its replicate less the mean, v the variance and r the share, each pair moves the estimate by `(x y - r (x^2
        + y^2) / 2) / v`, over the number of pairs.

    Example:
        >>> draws = np.array([0.1, 0.2, 0.3, 0.4])
        >>> float(noise_share(draws, draws)[0]), float(noise_share(draws, draws[::-1])[0])
        (1.0, 0.0)
    """
    complete = ~np.isnan(draws + replicates).reshape(-1, draws.shape[-1]).any(axis=0)
    if complete.sum() < 2:
        unknown = np.full(draws.shape[:-1], np.nan)
        return unknown, unknown
    first, second = (draws, replicates) if complete.all() else (draws[..., complete], replicates[..., complete])
    middle = ((first.mean(axis=-1) + second.mean(axis=-1)) / 2)[..., None]
    first, second = first - middle, second - middle
    products, squares = first * second, (first**2 + second**2) / 2
    variance = np.asarray(squares.mean(axis=-1))
    share = _divide_by_variance(products.mean(axis=-1), variance)
    moved = (products - share[..., None] * squares).std(axis=-1)
    independent = first.shape[-1] * min(1.0, (effective or draws.shape[-1]) / draws.shape[-1])
    return np.asarray(np.clip(share, 0.0, 1.0)), _divide_by_variance(moved, variance) / np.sqrt(independent)


def _divide_by_variance(number: Floats, variance: Floats) -> Floats:
    """Divide by the variance, shape of `variance`; 0 where it is at most ROUNDING_DEVIATION squared."""
    return np.asarray(np.divide(number, variance, out=np.zeros(variance.shape), where=variance > ROUNDING_DEVIATION**2))


ROW_LIMIT = 4096
"""Largest number of rows of one answer."""


@delegates_to_server
def answer(
    posterior: NetworkPosterior,
    query: str | Query,
    *,
    level: float = DEFAULT_LEVEL,
    predictive: bool = False,
    assume: Assume | None = None,
    inside: Inside = "log-linear",
) -> Answer:
    """Answer a query from posterior draws, with means and credible intervals.

    Queries are text:

        P(A, B | C=c, D=d)      joint probabilities of A and B; P(A=a, B | C=c) keeps the rows with A=a
        MAP(A, B | C=c)         the most probable joint state of A and B
        MPE(| C=c)              the most probable joint state of all variables that are not observed
        E(X | C=c)              the mean of a numeric variable; sd(X | C=c), var(X | C=c)
        cor(X, Z | C=c)         the correlation of two numeric variables; cov(X, Z | C=c); evidence is of states
        quantile(X, 0.9 | C=c)  the number below which that share of it lies; median(X | C=c)
        P(X > 40 | C=c)         the share of its numbers above one; also >=, < and <=
        E(X | Z > 40, Z <= 65)  evidence on a numeric variable with bins: comparisons, or a number, Z=52.5
        P(A | A=applies)        among the records that A applies to, by its condition, as in P(A | dead=yes)

    Questions are made of these (docs/questions.md has all forms): `P(a=1 | x=1) - P(a=1 | x=2)`, `/`, `*`, `+`, numbers
    and brackets; `odds(a=1)`; `in {..}`, `or`, `and`, `not` inside a probability; `N(a=1)`, `MI(A, B)` and
    `P(A | do(x=1))`.

    Evidence that names a state is that state; any other number is one. At the edges of bins a comparison is a union of
    states; else "law_lower" and "law_upper" take X to follow Z along lines inside Z's bins, and "lower" and "upper" do
    not (docs/numbers.md). What the records of a bin of Z, or of a leaf of its ruler, have of X is then open to them.

    With theta the probabilities of the network, evidence e and posterior draws theta_1, ..., theta_D:

        P(x | e)  =  mean over draws of P(x | e, theta_d)                        by default,
        P(x | e)  =  sum P(x | e, theta_d) P(e | theta_d) / sum P(e | theta_d)   predictive.

    The first is about the population: the share of records with x among those with e, with an interval for that share.
    The second is about the next record, after e has been observed in it: observing e gives more weight to draws in
    which e is probable. They differ if the evidence is rare and the posterior wide. Draws in which e is impossible are
    left out of both.

    Where exact inference is too large, laws are sampled with a fixed seed (`Answer.sampling`), and there is no noise
    share.

    Args:
        posterior: posterior made from a release.
        query: text, or a parsed query over the posterior's variables.
        level: posterior probability of each interval, between 0 and 1.
        predictive: whether draws are weighted by the probability of the evidence; there is then no noise share.
        assume: assumption about variables that no table contains together: "network", the network's independences hold;
            "robust", they are violated as much as in measured pairs, or else in a prior from real tables; "nothing",
            the interval covers all answers that the measured margins allow, around the mean of "network", unless one
            table contains all variables of the query. None takes the posterior as it is: "robust", unless it was read
            or changed to believe the network.
        inside: law of numbers inside their bins, for means, quantiles and comparisons: "log-linear" or "uniform".

    Returns:
        A row for each joint state, at most 4,096, the last variable's state varying fastest; for MAP and MPE the at
        most 16 leading states by decreasing mean; for a number one row. Each has "state", "mean", "lower" and "upper",
        and "noise", the share of the variance due to the privacy noise, or None; see `results.Answer`.

    Raises:
        InputError: not a posterior or not a query; evidence that is impossible in more than half of the draws; a level
            outside (0, 1); more than 4,096 joint states; another word for `assume` or `inside`; an explanation or
            bounds that exceed the memory budget; evidence that is too rare to be sampled where exact inference is too
            large; with `predictive`, evidence that leaves an effective sample size below twenty; `assume` for a
            posterior without alternatives to its network; or "nothing" for a number, an explanation, a predictive
            answer, or more rows than can be bounded.

    Guarantee:
        No budget is spent; only the posterior is read.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2))
        >>> found = dc.answer(posterior, "P(rain=yes)")
        >>> round(found.rows[0]["mean"], 3), found.kind
        (0.2, 'marginal')
    """
    require_posterior(posterior)
    schema = posterior.network.schema
    check_level(level)
    check_inside(inside)
    parsed = read_query(query, schema)
    if isinstance(parsed, ComposedQuery):
        how: Any = {"level": level, "predictive": predictive, "assume": assume, "inside": inside}
        atoms = answer_many(posterior, parsed.atoms(posterior.network), **how)
        return _combine(parsed, atoms, _apply_assumption(posterior, assume, predictive), level)
    with under_way("answering"):
        both = condition_on(_apply_assumption(posterior, assume, predictive), parsed.evidence, predictive, inside)
        return _answer(parsed, both, level, inside, nothing=assume == "nothing")


@delegates_to_server
def answer_many(
    posterior: NetworkPosterior,
    queries: Iterable[str | Query],
    *,
    level: float = DEFAULT_LEVEL,
    predictive: bool = False,
    assume: Assume | None = None,
    inside: Inside = "log-linear",
) -> Answers:
    """Answer many queries from a posterior; shared computations are done once.

    A query that is repeated, as its parsed text is, is answered once, and its answer is the same object at all of its
    positions. Queries with the same evidence share the computation of its probability, and queries for one variable to
    which every table of the network is relevant share one pass. All queries are parsed before the first is answered; a
    query that cannot be answered ends the call, without the answers to the others.

    Args:
        posterior: posterior made from a release.
        queries: text, or parsed queries over the posterior's variables; none gives no answers.
        level: posterior probability of each interval, between 0 and 1.
        predictive: as in `answer`, of all queries.
        assume: as in `answer`; applied to the posterior once, for all queries.
        inside: as in `answer`. Posterior, level and this word are checked even if there are no queries.

    Returns:
        For each query, in their order, exactly what `answer` returns.

    Raises:
        InputError: a single query instead of several; else as in `answer`: if the fault is in a query, the message has
            its position, counted from 1 (that of its first occurrence), and its text.

    Guarantee:
        No budget is spent; only the posterior is read.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2))
        >>> [round(found.rows[0]["mean"], 3) for found in dc.answer_many(posterior, ["P(rain=yes)", "P(rain=no)"])]
        [0.2, 0.8]
    """
    require_posterior(posterior)
    check_level(level)
    check_inside(inside)
    require(not isinstance(queries, str | Query), "answer_many takes a list of queries; answer takes one")
    groups: dict[Observed, dict[str, tuple[PlainQuery, int]]] = {}
    questions = list[tuple[str | Query, Query, tuple[PlainQuery, ...]]]()
    for position, query in enumerate(queries):
        with name_query(position, query):
            parsed = read_query(query, posterior.network.schema)
            atoms = parsed.atoms(posterior.network) if isinstance(parsed, ComposedQuery) else (parsed,)
        questions.append((query, parsed, atoms))
        for atom in atoms:
            group = groups.setdefault(tuple(sorted(atom.evidence, key=lambda item: item[0])), {})
            group.setdefault(str(atom), (atom, position))
    answers: dict[str, Answer] = {}
    believed = _apply_assumption(posterior, assume, predictive)
    with under_way("answering") as bar:
        for evidence, group in groups.items():
            both = condition_on(believed, evidence, predictive, inside)
            for text, (atom, position) in group.items():
                with name_query(position, questions[position][1]):
                    answers[text] = _answer(atom, both, level, inside, nothing=assume == "nothing")
                bar(len(answers), sum(map(len, groups.values())))
    for position, (query, parsed, atoms) in enumerate(questions):
        if isinstance(parsed, ComposedQuery) and str(parsed) not in answers:
            with name_query(position, query):
                answers[str(parsed)] = _combine(parsed, [answers[str(atom)] for atom in atoms], believed, level)
    return Answers(answers[str(parsed)] for _, parsed, _ in questions)


@delegates_to_server
def marginals(
    posterior: NetworkPosterior,
    evidence: Mapping[str, str] = MappingProxyType({}),
    *,
    level: float = DEFAULT_LEVEL,
    predictive: bool = False,
) -> Answers:
    """Compute `P(X | evidence)` of every variable X that is not observed, in one pass.

    If exact inference is too large, the laws are computed by importance sampling with a fixed seed, without noise
    shares. If the evidence is impossible in some draws, these are left out. The posterior is taken as it is, as by
    `assume=None` in `answer`.

    Args:
        posterior: posterior made from a release.
        evidence: observed variables with their states.
        level: posterior probability of each interval.
        predictive: as in `answer`.

    Returns:
        One answer for each variable, in the network's order; equal to those of `answer` up to rounding errors. There is
        none if all variables are observed.

    Raises:
        InputError: not a posterior; evidence that is no mapping, or an unknown variable or state in it; evidence that
            is impossible in more than half of the draws; a level outside (0, 1); with `predictive`, evidence that
            leaves an effective sample size below twenty; or evidence that is too rare to be sampled where exact
            inference is out of reach.

    Guarantee:
        No budget is spent; only the posterior is read.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2))
        >>> [(row["state"], round(row["mean"], 3)) for row in dc.marginals(posterior)[0].rows]
        [({'rain': 'no'}, 0.8), ({'rain': 'yes'}, 0.2)]
    """
    require_posterior(posterior)
    check_level(level)
    require(isinstance(evidence, Mapping), "evidence is a mapping of states, such as {'smoke': 'yes'}")
    with under_way("answering"):
        states = tuple(evidence.items())
        both = condition_on(posterior, states, predictive)
        unobserved = [name for name in posterior.network.nodes if name not in evidence]
        queries = {name: Probability(((name, None),), states) for name in unobserved}
        if not queries:  # no draw of an answer shows here that the evidence is impossible
            log = both.given.log_evidence
            possible_draws(Probability(states), np.where(np.isneginf(log), np.nan, log)[None], both.weights)
            return Answers(())
        if not affordable(both.given.cells.network, None, both.given.evidence):
            sampled = zip(queries.values(), both.sampled([(name,) for name in queries]), strict=True)
            return Answers(_answer_probability(query, laws, level) for query, laws in sampled)
        parts, (draws, log) = list[_AnswerPart](), both.given.marginals_and_evidence
        for name, query in queries.items():
            laws = replace(both, read=both.law.reads((name, *evidence)), log_evidence=log)
            replicates = None if both.replicate is None else both.replicate.marginals[name]
            rows = [{name: state} for state in posterior.network.schema[name].states]
            parts.append(_AnswerPart(query, rows, draws[name], replicates, laws))
        return Answers(_summarise_parts(parts, level))


# ------------------------------------------------------------------------------------------------------------ rows


@contextmanager
def name_query(position: int, query: object) -> Iterator[None]:
    """Add the position and text of the failing query of a list to an error, in a `with` statement.

    An `InputError` from the block is replaced by one that begins with `query N, TEXT: `, with N = `position` + 1 and
    TEXT cut to QUOTED_CHARACTERS (the name of the type, if `query` is no query); the text of the query at the beginning
    of its own message is removed. Other errors pass.
    """
    try:
        yield
    except InputError as error:
        text = str(query) if isinstance(query, str | Query) else type(query).__name__
        reason = str(error).removeprefix(f"query {shown(text.strip())}: ").removeprefix(f"{text}: ")
        raise InputError(f"query {position + 1}, {text.strip()[:QUOTED_CHARACTERS]}: {reason}") from None


def _apply_assumption(posterior: NetworkPosterior, assume: Assume | None, predictive: bool) -> NetworkPosterior:
    """Return the posterior under an assumption (`PosteriorDraws.assuming`); None returns it unchanged.

    "nothing" returns it under "network": its bounds are computed later, around the answer of the network.

    Raises:
        InputError: another word, a posterior that is not of a release, "nothing" for a predictive answer, or a
            posterior without alternatives to its network.
    """
    if assume is None:
        return posterior
    require_word(assume, Assume, "assume")
    if not isinstance(posterior, PosteriorDraws):
        raise InputError("what to assume is asked of posteriors that were made from a release")
    if assume == "nothing" and predictive:
        raise InputError("bounds that assume nothing are of shares, not predictive; leave out one of the two")
    return posterior.assuming("robust" if assume == "robust" else "network")


def _combine(query: ComposedQuery, atoms: Sequence[Answer], posterior: NetworkPosterior, level: float) -> Answer:
    """Compute the answer to a composed query from those to its atoms.

    Raises:
        InputError: an atom has no draws, or as `ComposedQuery.combine`.
    """
    if any(atom.drawn is None for atom in atoms):
        raise InputError(f"{query}: bounds that assume nothing are of single probabilities; ask for each of them")
    return cast(Answer, query.combine(atoms, posterior, level))


def _answer(
    query: PlainQuery, both: ConditionedPosterior, level: float, inside: Inside, *, nothing: bool = False
) -> Answer:
    """Answer a query that fits the schema, by the function for its kind.

    Probabilities are answered by `_answer_probability`, a covariance or correlation (a number query with a second
    variable) by `_answer_pair`, any other number by `_answer_number`, and MAP and MPE by `_answer_most_probable`; an
    MPE query, which has no targets, is about all variables of which no state is observed. Answers on numbers say which
    records they concern (`_say_whom`). Laws of at most ROW_LIMIT states are asked for; they are exact where affordable,
    else sampled (`ConditionedPosterior.for_targets`).

    Args:
        query: parsed query.
        both: draws given the query's evidence, with their replicates.
        level: posterior probability of each interval.
        inside: law of numbers inside their bins; used by `_answer_number` alone.
        nothing: whether intervals cover all answers that the measured margins allow.

    Returns:
        The answer. With `nothing`, the intervals of probabilities are those of `_bound_answer`; an answer whose basis
        is "measured" keeps its interval.

    Raises:
        InputError: `nothing` with observed numbers as evidence, which is looked for first, or for a number or an
            explanation; evidence too rare to be sampled, or as the functions for each kind raise.
    """
    schema = both.given.network.schema
    match query:
        case _ if nothing and both.observed:
            raise InputError(f"{query}: bounds that assume nothing take states as evidence, not numbers")
        case Probability():
            ratio = any(state is not None for _, state in query.targets)
            columns = [read_whom(*target, schema)[0] for target in query.targets]
            draws = both.for_targets(columns, most=ROW_LIMIT, ratio=ratio)
            result = _answer_probability(query, draws, level)
            return _bound_answer(query, draws, result) if nothing and result.basis != "measured" else result
        case NumberQuery() if nothing:
            raise InputError(f"{query}: bounds that assume nothing are of probabilities of states; ask for P(...)")
        case NumberQuery(second=str()):
            draws = both.for_targets([name for name, _ in query.targets], most=ROW_LIMIT)
            return _say_whom(query, schema, _answer_pair(query, draws, level))
        case NumberQuery():
            draws = both.for_targets(_list_number_targets(query, both), most=ROW_LIMIT)
            return _say_whom(query, schema, _answer_number(query, draws, level, inside))
        case MostProbable() if nothing:
            raise InputError(f"{query}: bounds that assume nothing are of probabilities; ask for P(...)")
        case MostProbable():
            targets = query.targets or tuple(name for name in schema.names if name not in both.given.evidence)
            return _answer_most_probable(query, targets, both.for_targets(targets, most=ROW_LIMIT), level)


def _say_whom(query: NumberQuery, schema: Schema, answer: Answer) -> Answer:
    """Return a copy whose `concerns` says that the answer is about the records to which a column applies.

    There is a sentence for each target column with a state for "does not apply", with the condition by which it
    applies, if that was declared. `concerns` becomes empty if all target columns apply to all records.
    """
    columns = [schema[name] for name, _ in query.targets if schema[name].not_applicable is not None]
    whom = [("" if each.applies_if is None else f" with {each.applies_if},", each.name) for each in columns]
    return replace(
        answer, concerns=tuple(f"{query}: among records{which} to which {name} applies" for which, name in whom)
    )


def _answer_probability(query: Probability, both: ConditionedPosterior, level: float) -> Answer:
    """Answer with one row for each joint state of the targets; a target with a state has only this one.

    Args:
        query: query for probabilities that fits the schema.
        both: draws given the evidence, with their replicates.
        level: posterior probability of each interval.

    Returns:
        The answer, rows in the order of the states, the last target's varying fastest; noise shares are None without
        replicates. If a law inside bins of observed numbers matters, intervals are those of `_widen_answer`.

    Raises:
        InputError: more than ROW_LIMIT rows, or as `possible_draws`.
    """
    schema = both.given.network.schema
    states_of_targets = [(state,) if state is not None else schema[name].states for name, state in query.targets]
    size = math.prod(map(len, states_of_targets))
    if size > ROW_LIMIT:
        raise InputError(
            f"{query}: the answer has {size:,} rows, more than {ROW_LIMIT:,}; ask for fewer variables, or for MAP"
        )
    names = [name for name, _ in query.targets]
    states = [dict(zip(names, row, strict=True)) for row in product(*states_of_targets)]
    draws, both = _draw_probabilities(query, both)
    replicates = None if both.replicate is None else _draw_probabilities(query, replace(both, given=both.replicate))[0]
    answer = _summarise(query, states, draws, replicates, both, level)
    return _widen_answer(query, both, answer, draws) if both.is_open else answer


def _widen_answer(query: Probability, both: ConditionedPosterior, answer: Answer, draws: Floats) -> Answer:
    """Replace the intervals of an answer by those over all laws inside bins; its own become those of the law.

    In every draw a row's probability lies between the two bounds of `bound_event`. "lower" is the lesser of the former
    lower end and that of the credible interval of the lower bounds, and "upper" the greater of the upper ones; the
    former ends are "law_lower" and "law_upper". Impossible draws are left out, and weighted draws are resampled. The
    mean stays.

    Args:
        query: query with a number, a comparison or one of several states as evidence.
        both: draws given the evidence.
        answer: under the law inside bins.
        draws: probabilities of its rows, shape (rows, draws).

    Returns:
        A copy, with an assumption for evidence that splits bins (`_list_laws`), and with the bounds of each draw as
        ends of `drawn`.
    """
    fixed, free = _split_targets(query, both)
    event, everything = _weigh_cells(both, free, fixed)
    event = event.reshape(-1, *everything.shape)
    lower, upper = bound_event(event, everything, [each.part_ends() for each in both.observed])
    possible, weights = possible_draws(query, draws, both.weights)
    picked = slice(None) if both.weights is None else resample(weights)
    first, last = (credible_interval(ends[:, possible][:, picked], answer.level) for ends in (lower, upper))
    rows: list[AnswerRow] = [
        {**row, "lower": min(row["lower"], float(low)), "upper": max(row["upper"], float(high)),
         "law_lower": row["lower"], "law_upper": row["upper"]}
        for row, low, high in zip(answer.rows, first[0], last[1], strict=True)
    ]  # fmt: skip
    assumes = _list_laws(both, [name for name, _ in query.targets])
    drawn = answer.drawn and replace(answer.drawn, ends=(lower, upper))
    return replace(answer, rows=tuple(rows), assumes=(*answer.assumes, *assumes), drawn=drawn)


def _split_targets(query: Probability, both: ConditionedPosterior) -> tuple[dict[str, int], list[str]]:
    """Split the targets of a query: codes of those with a state, by name, and names of the others, in order."""
    schema = both.given.network.schema
    fixed = {name: schema[name].code(state) for name, state in query.targets if state is not None}
    return fixed, [name for name, state in query.targets if state is None]


def _weigh_cells(both: ConditionedPosterior, free: Sequence[str], fixed: Mapping[str, int]) -> tuple[Floats, Floats]:
    """Compute the joint law of targets and observed numbers' bins, given the observed states alone.

    Args:
        both: draws given the evidence.
        free, fixed: targets.

    Returns:
        (probabilities of the free targets and the fixed states together with the bins, shape `(*sizes of free, *bins,
        draws)`; those of the bins, shape `(*bins, draws)`). Axes of bins are in the order of the observed numbers. The
        bin of a single number is given like a state, and its axis has the length 1. Where the fixed states are
        impossible the first is 0.
    """
    states = both.states[0]
    assert states is not None
    codes = {each.variable.name: each.code for each in both.observed if each.code is not None}
    laws = replace(states, evidence={**states.evidence, **codes})
    bins = [each.variable.name for each in both.observed if each.code is None]
    shape = [1 if each.code is not None else each.variable.size for each in both.observed]
    names = [*free, *bins]
    draws = laws.cells.draws or 1
    everything = laws.joint(bins) if bins else np.ones(draws)
    event = laws.joint(names, fixed) if names else np.ones(draws)
    if fixed:
        event = np.nan_to_num(event) * laws.probability(fixed)
    sizes = [states.network.schema[name].size for name in free]
    return event.reshape(*sizes, *shape, draws), everything.reshape(*shape, draws)


def _bound_answer(query: Probability, both: ConditionedPosterior, result: Answer) -> Answer:
    """Replace the answer's intervals by bounds over all joint laws with the measured margins.

    Args:
        query: query of the answer.
        both: draws given the evidence; their drawn parts of the joint law must not be None.
        result: answer under the network, whose means, basis and evidence are kept.

    Returns:
        A copy of the answer with the bounds of `identification_bounds` as intervals, None for noise shares and their
        errors, and no draws.

    Raises:
        InputError: too many joint states or rows, or evidence that is impossible in every draw used.
    """
    laws, schema = both.given, both.given.network.schema
    assert both.parts is not None
    names = (*(name for name, _ in query.targets), *laws.evidence)
    rows = [{name: schema[name].code(state) for name, state in row["state"].items()} for row in result.rows]
    ends = identification_bounds(
        names, laws.whole(names), both.parts.sets.measured(names), rows, laws.evidence, result.level
    )
    numbers = zip(result.rows, ends.lower.tolist(), ends.upper.tolist(), strict=True)
    wide: list[AnswerRow] = [
        {**row, "lower": low, "upper": high, "noise": None, "noise_error": None} for row, low, high in numbers
    ]
    return replace(result, rows=tuple(wide), drawn=None)


def _draw_probabilities(query: Probability, both: ConditionedPosterior) -> tuple[Floats, ConditionedPosterior]:
    """Compute P(free, fixed | evidence) = P(free | fixed, evidence) P(fixed | evidence) in every draw.

    Args:
        query: query for probabilities; its targets with a state are fixed, the others free.
        both: draws given the evidence.

    Returns:
        Probabilities of the free targets' joint states, the last target's state varying fastest, shape (states, draws),
        or (1, draws) if none is free: NaN if the evidence is impossible, 0 if only the fixed states are. Then `both`, a
        copy with the probability of the evidence if no target is fixed and the pass computed it, else unchanged. A
        target `A=applies` has the sum of the probabilities of the states of another column in which A applies
        (`read_whom`); `both` is then unchanged.
    """
    laws = both.given
    for at, (name, state) in enumerate(query.targets):
        # One target may stand for several states of another column; their probabilities add up.
        column, states = read_whom(name, state, laws.network.schema)
        single = ((*query.targets[:at], (column, each), *query.targets[at + 1 :]) for each in states)
        if states:
            return sum((_draw_probabilities(Probability(each), both)[0] for each in single), np.zeros(1)), both
    fixed, free = _split_targets(query, both)
    if not fixed:
        table, log = laws.joint_and_evidence(free)
        return table.reshape(-1, table.shape[-1]), both if log is None else replace(both, log_evidence=log)
    draws = laws.probability(fixed)
    if not free:
        return draws[None], both
    table = laws.joint(free, fixed)
    # If the fixed states are impossible, so is every row; if the evidence is, the second factor is NaN.
    return np.asarray(np.nan_to_num(table.reshape(-1, table.shape[-1])) * draws), both


def _answer_most_probable(
    query: MostProbable, targets: Sequence[str], both: ConditionedPosterior, level: float
) -> Answer:
    """Answer with the joint state that is most probable on average, and those most probable in most draws.

    The targets' joint law is tabulated if it has at most ROW_LIMIT states and exact inference can compute it; the rows
    are then the state with the largest mean and those of `_pick_modes`. If it is not, the only candidates are the
    states that are most probable in some draw (`most_probable`), and the first row is the best of these. Draws in which
    the evidence is impossible are left out of means and of "best".

    Args:
        query: query for the most probable state.
        targets: variables of the state.
        both: draws given the evidence.
        level: posterior probability of each interval.

    Returns:
        The answer, at most EVALUATED_EXPLANATIONS rows by decreasing mean, each with "best": the fraction of the
        possible draws, or of their weight, in which this state is the most probable. Of equal states the first counts.

    Raises:
        InputError: as `possible_draws`; a law that is not tabulated with numbers as evidence; or as `most_probable` if
            even that exceeds the memory budget.
    """
    laws, replicate = both.given, both.replicate
    schema = laws.network.schema
    table = _find_joint(laws, targets)
    if table is None and both.observed:
        raise InputError(f"{query}: evidence of so many variables is their states, not numbers; ask for fewer targets")
    if table is None:
        leading = laws.most_probable(targets, both.weights)
        codes = [tuple(candidate.states[name] for name in targets) for candidate in leading]
        best = [float(candidate.best) for candidate in leading]
        draws = np.stack([laws.probability(candidate.states) for candidate in leading])
        replicates = None if replicate is None else np.stack([replicate.probability(each.states) for each in leading])
    else:
        possible, weights = possible_draws(query, table, both.weights)
        counted = keep_possible(table, possible)
        best_of = counted.argmax(axis=0)
        if both.weights is None:
            means, shares = counted.mean(axis=-1), np.bincount(best_of, minlength=len(table)) / best_of.size
        else:
            means, shares = counted @ weights, np.bincount(best_of, weights, minlength=len(table))
        modes = _pick_modes(means, shares)
        codes = list(zip(*np.unravel_index(modes, [schema[name].size for name in targets]), strict=True))
        draws, best = table[modes], shares[modes].tolist()
        replicates = None if replicate is None else replicate.joint(targets).reshape(len(table), -1)[modes]
    states = [{name: schema[name].states[code] for name, code in zip(targets, row, strict=True)} for row in codes]
    return _summarise(query, states, draws, replicates, both, level, best)


def _find_joint(laws: ConditionalLaws, targets: Sequence[str]) -> Floats | None:
    """Compute the joint law of the targets, shape (states, draws), the last target's state varying fastest.

    None if it has more than ROW_LIMIT states, or if exact inference refuses it; NaN in draws with impossible evidence.
    """
    if laws.network.cells(targets) <= ROW_LIMIT:
        with suppress(InputError):
            table = laws.joint(targets)
            return table.reshape(-1, table.shape[-1])
    return None


def _pick_modes(means: Floats, shares: Floats) -> list[int]:
    """Pick the state with the largest mean and those best in most draws, as positions by decreasing mean.

    Args:
        means: mean probability of each state, shape (states,).
        shares: fraction of the draws in which each state is the most probable, same shape.

    Returns:
        At most EVALUATED_EXPLANATIONS positions: the first with the largest mean, and those with the largest shares
        above 0. Equal means are in the order of the states.
    """
    first = int(means.argmax())
    favoured = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0 and i != first]
    return sorted([first, *favoured[: EVALUATED_EXPLANATIONS - 1]], key=lambda i: (-means[i], i))


class _AnswerPart(NamedTuple):
    """Arguments of `_summarise` for one of several answers.

    Args:
        asked: the query.
        states: joint states, by variable.
        draws: probability of each state in every draw, shape (states, draws).
        replicates: probability of each state in the replicate draws, shape (states, replicates); None without these.
        both: draws given the evidence.
    """

    asked: Query
    states: Sequence[Mapping[str, str]]
    draws: Floats
    replicates: Floats | None
    both: ConditionedPosterior


def _summarise_parts(parts: Sequence[_AnswerPart], level: float) -> list[Answer]:
    """Summarise several queries, together if draws are not weighted and the evidence is possible in all of them.

    Otherwise (a NaN in draws or replicates), and if only some parts have replicates, each is summarised by itself.

    Args:
        parts: arguments of each answer; all are given the same evidence, weights and sampling. May be empty. Their
            arrays are not changed.
        level: posterior probability of each interval.

    Returns:
        The answers, equal to those of `_summarise`, in the order of the parts; noise shares are None without
        replicates. An empty list without parts.

    Raises:
        InputError: as `possible_draws`.
    """
    all_replicates = [part.replicates for part in parts if part.replicates is not None]
    alike = parts and parts[0].both.weights is None and len(all_replicates) in (0, len(parts))
    draws = np.concatenate([part.draws for part in parts]) if alike else np.empty(0)
    replicates = np.concatenate(all_replicates) if alike and all_replicates else np.empty(0)
    if not alike or np.isnan(draws).any() or np.isnan(replicates).any():
        return [_summarise(*part, level) for part in parts]
    np.clip(draws, 0.0, 1.0, out=draws)
    both = parts[0].both
    noise = (
        noise_share(both.paired(draws), np.clip(replicates, 0.0, 1.0), both.effective)
        if all_replicates
        else (np.full(len(draws), np.nan),) * 2
    )
    numbers = np.array([draws.mean(axis=-1), *credible_interval(draws, level), *noise])
    ends = np.cumsum([len(part.states) for part in parts])[:-1]
    pairs = zip(parts, np.split(numbers, ends, axis=1), np.split(draws, ends), strict=True)
    return [
        _write_answer(part.asked, part.states, columns, _keep_draws(values, part.replicates, both), part.both, level)
        for part, columns, values in pairs
    ]


def _summarise(
    query: Query,
    states: Sequence[Mapping[str, str]],
    draws: Floats,
    replicates: Floats | None,
    both: ConditionedPosterior,
    level: float,
    best: Sequence[float] | None = None,
) -> Answer:
    """Summarise draws as an answer, one row for each joint state: means, intervals, noise shares.

    Probabilities are clipped to [0, 1]. Intervals are by `credible_interval`, noise shares by `noise_share`, from the
    draws that have a replicate. With weights, means are weighted, and intervals are of resampled draws (`resample`).

    Args:
        query: the query.
        states: joint states, by variable.
        draws: probability of each state in every draw, shape (states, draws).
        replicates: probability of each state in the replicate draws, shape (states, replicates); None without these.
        both: draws given the evidence, with their weights.
        level: posterior probability of each interval.
        best: fraction of the draws in which each state is the most probable, for explanations; None for no such column.

    Returns:
        The answer; draws in which the evidence is impossible (NaN) are left out, and `left_out` is their fraction.
        Noise shares are None without replicates.

    Raises:
        InputError: as `possible_draws`.
    """
    pairs = both.paired(draws)
    possible, weights = possible_draws(query, draws, both.weights)
    counted = np.clip(keep_possible(draws, possible), 0.0, 1.0)  # rounding may lift products of probabilities above 1
    mean = counted.mean(axis=-1) if both.weights is None else counted @ weights
    lower, upper = credible_interval(counted if both.weights is None else counted[:, resample(weights)], level)
    share = error = np.full(len(draws), np.nan)
    if replicates is not None:
        share, error = noise_share(np.clip(pairs, 0.0, 1.0), np.clip(replicates, 0.0, 1.0), both.effective)
    numbers = np.array([mean, lower, upper, share, error])
    return _write_answer(query, states, numbers, _keep_draws(draws, replicates, both), both, level, best)


def _keep_draws(draws: Floats, replicates: Floats | None, both: ConditionedPosterior) -> AnswerDraws:
    """Keep draws of probabilities, and of their replicates, with their weights; rounding beyond [0, 1] is clipped."""
    again = None if replicates is None else np.clip(replicates, 0.0, 1.0)
    return AnswerDraws(np.clip(draws, 0.0, 1.0), both.weights, None, again, both.step, both.effective)


def _write_answer(
    query: Query,
    states: Sequence[Mapping[str, str]],
    numbers: Floats,
    drawn: AnswerDraws,
    both: ConditionedPosterior,
    level: float,
    best: Sequence[float] | None = None,
) -> Answer:
    """Build an answer from its numbers, and add basis and evidence.

    Args:
        query: the query.
        states: joint states, by variable.
        numbers: mean, lower end, upper end, noise share and its error of each state, shape (5, states); if a noise
            share is NaN, it and its error become None.
        drawn: draws of the rows, NaN where the evidence is impossible.
        both: draws given the evidence, which determine basis, evidence and sampling error
            (`ConditionedPosterior.ground`).
        level: posterior probability of each interval.
        best: fraction of the draws in which each state is the most probable, for explanations; None leaves "best" out.

    Returns:
        The answer, rows in the order of `states`.
    """
    rows = list[AnswerRow]()
    for i, (state, (mean, lower, upper, share, error)) in enumerate(zip(states, numbers.T.tolist(), strict=True)):
        row: AnswerRow = {"state": dict(state), "mean": mean, "lower": lower, "upper": upper}
        row["noise"], row["noise_error"] = (None, None) if math.isnan(share) else (share, error)
        if best is not None:
            row["best"] = best[i]
        rows.append(row)
    names = {name for state in states[:1] for name in state}
    left_out = float(np.isnan(drawn.values[0]).mean())
    fields: Any = {"left_out": left_out, "sampling": both.sampling, "drawn": drawn}
    ungrounded = Answer(str(query), query.kind, level, tuple(rows), **fields)
    return both.ground(ungrounded, names, (numbers[1], numbers[2]))


def _answer_number(query: NumberQuery, both: ConditionedPosterior, level: float, inside: Inside) -> Answer:
    """Answer a query for a mean, a quantile or a share of a numeric variable, from the probabilities of its bins.

    The mean and "law_lower" and "law_upper" are under one law of the number (`_find_number_law`); "lower" and "upper"
    are over every law inside certain bins (`number_row`). These bins are the leaves or bins of that law; given evidence
    its known variance does not count there. If the evidence has variables with which no sum of the number was released,
    they are the schema's bins, and an assumption says so. If a law inside the bins of observed numbers matters, they
    are those of `_find_extreme_laws`; the interval then also contains, except for a variance or deviation, the one over
    all laws inside the number's own leaves. Draws in which the evidence is impossible are left out, and their fraction
    is reported.

    Args:
        query: query for a number.
        both: draws given the evidence, with their replicates, and their weights if the answer is predictive.
        level: posterior probability of each interval.
        inside: law of numbers inside their bins of "mean", "law_lower", "law_upper" and "noise"; "lower" and "upper"
            hold for every such law.

    Returns:
        An answer of one row (`number_row`), with the noise share of the number under the given law and its error, or
        None for both without replicates. Its numbers and unit are those of `_in_its_unit`. The evidence is judged too
        rare by the intervals of the bins' shares, not of the number.

    Raises:
        InputError: as `possible_draws`.
    """
    draws, both = _draw_probabilities(query.bins, both)
    possible, weights = possible_draws(query, draws, both.weights)
    every = _find_number_law(query, both, draws, inside)
    law = every.of_draws(possible)
    # Given others, the variance inside a bin is known up to the law inside; a whole column's is measured.
    plain = replace(law, known_variance=None) if both.seen else law
    limits, assumes = tuple[BinLaw, ...]((plain,)), tuple[str, ...]()
    if both.numbers is not None and (untold := both.numbers.list_untold(query.variable, both.names)):
        # Of where in a bin such records lie, no sum tells.
        limits = (BinLaw.of_bins(both.given.network.schema[query.variable], draws, inside).of_draws(possible),)
        assumes = (INSIDE_ROWS.format(listed(untold), query.variable),)
    if both.is_open:
        limits = tuple(each.of_draws(possible) for each in _find_extreme_laws(query, both))
        assumes = (*assumes, *_list_laws(both, [query.variable]))
    row, drawn = number_row(query, law, limits, level, weights, alike=both.weights is None)
    if both.is_open and query.quantity not in ("sd", "variance"):
        # The line is the law that is assumed; where the number lies in its own leaf stays open.
        by_line, (_, low, high) = number_row(query, law, (law,), level, weights, alike=both.weights is None)
        drawn = (drawn[0], np.minimum(drawn[1], low), np.maximum(drawn[2], high))
        row["law_lower"], row["law_upper"] = by_line["lower"], by_line["upper"]
        row["lower"], row["upper"] = min(row["lower"], by_line["lower"]), max(row["upper"], by_line["upper"])
    row["noise"] = row["noise_error"] = None
    values, copies = _place(np.array(drawn), possible), None
    if both.replicate is not None:
        again = both.again
        replicate = _find_number_law(query, again, _draw_probabilities(query.bins, again)[0], inside, both.step)
        paired = both.paired(possible)
        laws = (every.of_draws(slice(None, None, both.step)), replicate)
        first, second = (number_draws(query, side.of_draws(paired))[0] for side in laws)
        row["noise"], row["noise_error"] = map(float, noise_share(first, second, both.effective))
        copies = _place(second[None], paired)[0]
    row, unit = _in_its_unit(query, row, both.given.network.schema[query.variable].number_type)
    ungrounded = Answer(
        str(query),
        query.kind,
        level,
        (row,),
        unit=unit,
        left_out=float(1 - possible.mean()),
        inside=inside if both.given.network.schema[query.variable].numeric else None,
        sampling=both.sampling,
        sums=_list_sums(query, both),
        drawn=AnswerDraws(values[0], both.weights, (values[1], values[2]), copies, both.step, both.effective),
    )
    shares = keep_possible(draws, possible)
    shares = shares if both.weights is None else shares[:, resample(weights)]
    answer = both.ground(ungrounded, {query.variable}, credible_interval(shares, level))
    return replace(answer, assumes=(*answer.assumes, *assumes))


def _place(values: Floats, possible: npt.NDArray[np.bool_]) -> Floats:
    """Put values of the possible draws in their places among all draws, NaN in the others.

    Args:
        values: shape (values, possible draws).
        possible: mask of the possible draws, shape (draws,).

    Returns:
        Shape (values, 1, draws).
    """
    places = np.full((len(values), 1, possible.size), np.nan)
    places[:, 0, possible] = values
    return places


def _in_its_unit(query: NumberQuery, row: AnswerRow, number_type: NumberType) -> tuple[AnswerRow, str]:
    """Write the numbers of an answer's row as their type is, dates as dates.

    Returns:
        (row, unit). A share stays as it is and has the unit "probability". A deviation or variance stays a number, of
        the type's own unit, such as "days of NAME" for dates, else "number of NAME". Any other number becomes a date
        where the column has dates, its interval rounded outwards, with the unit "date of NAME"; else it stays, "number
        of NAME".
    """
    if query.kind in ("marginal", "conditional"):
        return row, "probability"
    if query.quantity in ("sd", "variance"):
        return row, f"{number_type.unit or 'number'} of {query.variable}"
    noun = number_type.noun if number_type.is_calendar else "number"
    return cast(AnswerRow, as_ends(row, number_type)), f"{noun} of {query.variable}"


INSIDE_ROWS = "the mean takes {} to tell nothing of where {} lies inside a bin; the interval does not"
"""Assumption of an answer on a number about observed variables by which no sum of it was released."""


def _find_number_law(
    query: NumberQuery, both: ConditionedPosterior, shares: Floats, inside: Inside, step: int = 1
) -> BinLaw:
    """Find the law of a query's number in every draw: by its released sums where there are some, else by its bins.

    Without sums it is `BinLaw.of_bins` of the shares. With sums there are three cases. Where evidence splits a bin, the
    mean follows the lines inside its bins (`follow_lines`). For a variance or deviation whose square was released, the
    law has a known variance: given evidence that of `give_numbers`, else that of the whole column. Otherwise the law of
    the leaves is tilted to the mean that sums give in each bin (`NumberDraws.given`).

    Args:
        query: query for a number.
        both: draws given the evidence.
        shares: of the variable's states given the evidence, shape (states, draws).
        inside: law inside bins; used without sums only.
        step: the draws are every `step`-th of the posterior.

    Returns:
        The law, with the ruler's leaves as bins if there are sums, and an axis of draws.
    """
    name, numbers = query.variable, both.numbers
    variable = both.given.network.schema[name]
    if numbers is None or name not in numbers.grids:
        return BinLaw.of_bins(variable, shares, inside)
    if both.split:
        return follow_lines(name, both, numbers, step)
    offsets = numbers.offsets_given(name, both.given.evidence, both.given.joint, step, both.ranged)
    if query.quantity not in ("sd", "variance") or not numbers.measures(name, name):
        return numbers.given(name, shares, offsets, step)
    law = give_numbers(numbers, name, shares, offsets, both.names, step)
    if both.seen:
        return law
    bins = shares[: len(numbers.grids[name].middles)]
    return replace(law, known_variance=numbers.variance(name, bins / bins.sum(axis=0), step))


def _find_extreme_laws(query: NumberQuery, both: ConditionedPosterior) -> tuple[BinLaw, BinLaw]:
    """Find the laws with the smallest and the largest numbers over all laws inside the bins of observed numbers.

    Args:
        query: query for a number.
        both: draws given the evidence, for which a law inside bins matters (`is_open`).

    Returns:
        (law of the smallest numbers, law of the largest), with the variable's own bins and an axis of draws. Every
        share beyond an edge, among the records that have a number of the variable, is the least, and the largest, that
        any law inside the bins of the observed numbers allows (`bound_event`). These may include the variable's own.
        Inside a bin numbers are evenly spread; a share of a bin that rounding makes negative is 0. A variance or
        deviation has no extremes there: for it the laws have all numbers in the first bin, and half in the first and
        half in the last.
    """
    variable = both.given.network.schema[query.variable]
    bins = len(variable.edges) - 1
    event, _ = _weigh_cells(both, [query.variable], {})
    event = event[:bins]
    beyond = np.cumsum(event[::-1], axis=0)[::-1]
    ends = bound_event(beyond, beyond[0], [each.part_ends() for each in both.observed])
    if query.quantity in ("sd", "variance"):
        ends = (np.zeros_like(ends[0]), np.full_like(ends[1], 0.5))
    # All numbers lie beyond the first edge, also where no record need be among those observed.
    ends[0][0] = ends[1][0] = 1.0
    return tuple(  # type: ignore[return-value]
        BinLaw.of_bins(variable, np.maximum(-np.diff(shares, axis=0, append=0.0), 0.0), "uniform") for shares in ends
    )


LINES = "inside the bins of {}, {} taken to follow its number along lines; the interval above is not by them"
"""Assumption of an answer given a number or a comparison that splits a bin."""


def _list_laws(both: ConditionedPosterior, targets: Sequence[str]) -> tuple[str, ...]:
    """Write the assumption (LINES) that targets follow numbers along lines in split bins; () if none is split."""
    split = [each.variable.name for each in both.observed if each.cut]
    if not split:
        return ()
    verb = "is" if len(targets) == 1 else "are"
    return (LINES.format(listed(split), f"{listed(targets)} {verb}"),)


def _list_sums(query: NumberQuery, both: ConditionedPosterior) -> tuple[str, ...]:
    """List the released sums from which a query's numbers are read, as text.

    For one number they are those of `NumberDraws.sources`; for two the sum of each and, if it was released, that of
    their product. Empty if no sums of the first number were released.
    """
    numbers, observed = both.numbers, both.names
    if numbers is None or query.variable not in numbers.grids:
        return ()
    if query.second is None:
        return numbers.sources(query.variable, observed)
    product = (f"sum of {query.variable} {query.second}",) if numbers.measures(query.variable, query.second) else ()
    return (f"sum of {query.variable}", f"sum of {query.second}", *product)


def _answer_pair(query: NumberQuery, both: ConditionedPosterior, level: float) -> Answer:
    """Answer a query for the covariance or correlation of two numeric variables.

    Args:
        query: query for two numbers.
        both: draws given the evidence.
        level: posterior probability of the interval.

    Returns:
        An answer of one row, without noise share; the interval is equal-tailed and needs no law inside bins. A
        predictive answer is of resampled draws. Assumptions are those of the evidence's basis, and what covariances
        rest on that were not measured. The mean is that of the same draws. The evidence is never judged too rare, and
        no draws are left out.

    Raises:
        InputError: no sums of both were released, or as `read_moments`.
    """
    names = tuple(name for name, _ in query.targets)
    values, follows = _relate_numbers(query, both)
    if both.weights is not None:
        values = values[resample(both.weights)]
    lower, upper = equal_tails(values, level)
    row: AnswerRow = {
        "state": {names[0]: f"{query.quantity} with {names[1]}"},
        "mean": float(values.mean()),
        "lower": float(lower),
        "upper": float(upper),
        "noise": None,
        "noise_error": None,
    }
    fields: Any = {"unit": query.quantity, "sampling": both.sampling, "drawn": AnswerDraws(values[None])}
    answer = Answer(str(query), query.kind, level, (row,), **fields)
    answer = both.ground(replace(answer, sums=_list_sums(query, both)), set(names), (values, values))
    return replace(answer, assumes=(*answer.assumes, *follows))


def _list_number_targets(query: NumberQuery, both: ConditionedPosterior) -> Scope:
    """List the variables whose joint law an answer on a number needs.

    Without released sums it is the number's own; with them also those of the family by whose rows its mean is read, as
    far as they are not observed (`NumberDraws.open_names`).
    """
    if both.numbers is None or query.variable not in both.numbers.grids:
        return (query.variable,)
    return (query.variable, *both.numbers.open_names(query.variable, tuple(both.given.evidence), both.ranged))


def _relate_numbers(query: NumberQuery, both: ConditionedPosterior) -> tuple[Floats, tuple[str, ...]]:
    """Compute the covariance or correlation of two numbers in every draw, and say what it rests on unmeasured.

    Returns:
        (covariance, or for any other quantity correlation, shape (draws,); assumptions). For a correlation a product of
        variances that is 0 or negative is raised to the smallest float.

    Raises:
        InputError: no sums of both were released, or none of products, as the records were too few; one of them does
            not apply to the same records; a number is observed; or as `read_moments`.
    """
    names, numbers = tuple(name for name, _ in query.targets), both.numbers_given
    both.given.network.schema.require_same_records(names)
    if numbers is None or not all(name in numbers.grids for name in names):
        raise InputError(f"{query}: this release holds no sums of these numbers; `regress` reads bins")
    if not numbers.evidence.payload.moments.size:
        raise InputError(f"{query}: the records were too few for sums of squares and products; `regress` reads bins")
    columns = [RegressionColumn(both.given.network.schema[name]) for name in names]
    sums = read_moments(ColumnLaw(both, names, "log-linear"), numbers, columns)
    moments = sums.covariances
    scale = np.ones(len(moments))
    if query.quantity != "covariance":
        scale = np.sqrt(np.maximum(moments[:, 0, 0] * moments[:, 1, 1], np.finfo(float).tiny))
    return np.asarray(moments[:, 0, 1] / scale), sums.assumes


def find_number(query: NumberQuery, posterior: NetworkPosterior) -> Floats:
    """Compute the number that a query asks for in every draw.

    Args:
        query: query for a number, which fits the posterior's schema.
        posterior: draws.

    Returns:
        Shape `(draws,)`: by released sums where there are some, else by the log-linear law inside bins; NaN where the
        evidence is impossible.

    Raises:
        InputError: two numbers of which no sums were released.
    """
    if query.second is not None:
        both = condition_on(posterior, query.evidence, predictive=False)
        return _relate_numbers(query, both.for_targets([name for name, _ in query.targets], most=ROW_LIMIT))[0]
    return number_draws(query, find_number_law(query, posterior))[0]


def find_number_law(query: NumberQuery, posterior: NetworkPosterior, inside: Inside = "log-linear") -> BinLaw:
    """Find the law of the number that a query asks for in every draw.

    Args:
        query: query for one number, which fits the posterior's schema.
        posterior: draws.
        inside: law inside bins, where there are no sums.

    Returns:
        By released sums where there are some, with the leaves of its ruler as bins; else by the law inside bins. NaN
        where the evidence is impossible.
    """
    both = condition_on(posterior, query.evidence, False, inside)
    both = both.for_targets(_list_number_targets(query, both), most=ROW_LIMIT)
    shares, both = _draw_probabilities(query.bins, both)
    return _find_number_law(query, both, shares, inside)
