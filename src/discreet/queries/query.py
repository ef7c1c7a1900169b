"""Questions and answers: what a posterior says to a query, and an interval for every number.

The text of a query, and what may be asked, are in `model/query_grammar.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from discreet.errors import QUOTED_CHARACTERS, InputError, shown
from discreet.inference import elimination
from discreet.model.query_grammar import Explanation, Probability, Query, check_names, parse_query
from discreet.model.schema import Schema
from discreet.model.tables import Tables
from discreet.posterior.draws import Posterior, PosteriorDraws
from discreet.queries.noise_share import noise_share, noise_share_error

__all__ = [
    "Answer",
    "Explanation",
    "Probability",
    "Query",
    "answer",
    "answer_many",
    "check_level",
    "credible_interval",
    "marginals",
    "noise_share",
    "parse_query",
]

CLEARLY = 0.95
"""Share of the shortest interval's length that two pieces may have to be taken: chance makes them a little shorter."""

Floats = npt.NDArray[np.float64]
Row = Mapping[str, object]

ROW_LIMIT = 4096
"""Most rows of one answer."""
MOST_LEFT_OUT = 0.5
"""Share of the draws above which an answer is refused: evidence that most of the posterior rules out is a mistake of
whoever gave it, or of the network."""
LEAST_EFFECTIVE_DRAWS = 20
"""Effective draws below which weighted ones carry no interval: a 95 % interval leaves out one in twenty."""


@dataclass(frozen=True)
class Answer:
    """What a posterior says to a query.

    Args:
        query: as text.
        kind: "marginal", "conditional", "map" or "mpe".
        level: posterior probability of each interval.
        rows: `{"state": {variable: state}, "mean": x, "lower": x, "upper": x, "noise": x, "noise_error": x}` for every
            joint state asked for. "noise" is the part of the variance that the privacy noise makes, as in
            `noise_share`, "noise_error" its standard error; None where the posterior does not tell. For "map" and "mpe"
            at most 16 rows, by decreasing mean, and each has "best": the share of draws under which it is the most
            probable. The first is the most probable on average over the posterior, where there are at most 4,096 joint
            states, else the most probable on average of those that follow; the others are those that most draws favour.
        unit: of the numbers.
        left_out: share of the draws under which the evidence is impossible; they are left out of all numbers.
    """

    query: str
    kind: str
    level: float
    rows: tuple[Row, ...]
    unit: str = "probability"
    left_out: float = 0.0


def answer(posterior: Posterior, query: str | Query, *, level: float, predictive: bool = False) -> Answer:
    """Ask a posterior.

    With theta the probabilities of the network, evidence e and posterior draws theta_1, ..., theta_D:

        P(x | e)  =  mean over draws of P(x | e, theta_d)                        as it stands,
        P(x | e)  =  sum P(x | e, theta_d) P(e | theta_d) / sum P(e | theta_d)   predictive.

    The first is about the population: the share of x among those who show e, with an interval for that share. The
    second is about the next record, of which e has been seen: to see it makes those draws more credible under which it
    is probable. They differ where the evidence is rare and the posterior wide.

    Args:
        posterior: made from a release.
        query: text, or a parsed query over the posterior's variables.
        level: posterior probability of each interval, between 0 and 1.
        predictive: whether draws count by the probability of the evidence under them.

    Returns:
        Means and intervals.

    Raises:
        InputError: not a query, evidence that is impossible under more than half of the draws, a level outside (0, 1),
            a query that needs more memory than the budget of `elimination.py`, or, predictive, evidence that leaves
            fewer than twenty effective draws.
    """
    check_level(level)
    asked = _read(query, posterior.network.schema)
    return _answer(asked, _both_given(posterior, asked.evidence, predictive), level)


def answer_many(
    posterior: Posterior, queries: Iterable[str | Query], *, level: float, predictive: bool = False
) -> tuple[Answer, ...]:
    """Ask a posterior many queries; what they share is computed once.

    A query that is there twice is answered once. Of queries with the same evidence the probability of the evidence is
    computed once, and those for one variable to which every table of the network matters share one pass over it.

    Args:
        posterior: made from a release.
        queries: text, or parsed queries over the posterior's variables.
        level: posterior probability of each interval, between 0 and 1.
        predictive: as in `answer`.

    Returns:
        For each query, in their order, exactly what `answer` returns.

    Raises:
        InputError: as in `answer`; the message has the position of the query, counted from 1, and its text.
    """
    check_level(level)
    if isinstance(queries, str | Probability | Explanation):
        raise InputError("answer_many takes a list of queries; answer takes one")
    groups: dict[tuple[tuple[str, str], ...], dict[str, tuple[Query, list[int]]]] = {}
    for position, query in enumerate(queries):
        with _named(position, query):
            asked = _read(query, posterior.network.schema)
        group = groups.setdefault(tuple(sorted(asked.evidence)), {})
        group.setdefault(str(asked), (asked, []))[1].append(position)
    answers: dict[int, Answer] = {}
    for evidence, group in groups.items():
        both = _both_given(posterior, evidence, predictive)
        for asked, positions in group.values():
            with _named(positions[0], asked):
                answers |= dict.fromkeys(positions, _answer(asked, both, level))
    return tuple(answers[position] for position in range(len(answers)))


def marginals(
    posterior: Posterior, evidence: Mapping[str, str], *, level: float, predictive: bool = False
) -> tuple[Answer, ...]:
    """`P(X | evidence)` for every variable that is not observed, in one pass.

    Args:
        posterior: made from a release.
        evidence: observed variables with their states.
        level: posterior probability of each interval.
        predictive: as in `answer`.

    Returns:
        One answer for each variable, in the network's order; equal to those of `answer` but for rounding errors.

    Raises:
        InputError: unknown or impossible evidence, a level outside (0, 1), or a network too large for exact inference.
    """
    check_level(level)
    schema = posterior.network.schema
    both = _both_given(posterior, tuple(evidence.items()), predictive)
    answers = []
    for name, draws in both.given.marginals.items():
        asked = Probability(((name, None),), tuple(evidence.items()))
        states = [{name: state} for state in schema[name].states]
        twins = None if both.twin is None else both.twin.marginals[name]
        answers.append(_summarised(asked, states, draws, twins, both, level))
    return tuple(answers)


def credible_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Interval of posterior probability `level` for probabilities.

    Equal-tailed, but where the posterior is densest at 0 or 1 the shortest, which then ends there: an equal-tailed
    interval can never hold either. Where it is densest at both ends (a row that is one-sided, nobody knows to which
    side) the shortest region has two pieces, and neither is lost.

    Args:
        draws: shape `(..., draws)`, between 0 and 1.
        level: between 0 and 1.

    Returns:
        (lower, upper), shape `(...)`.

    Raises:
        InputError: a level outside (0, 1).
    """
    check_level(level)
    ordered = np.sort(draws, axis=-1)
    size = ordered.shape[-1]
    lower, upper = np.quantile(ordered, [(1 - level) / 2, (1 + level) / 2], axis=-1)
    held = min(size, int(np.ceil(level * size)))
    widths = ordered[..., held - 1 :] - ordered[..., : size - held + 1]
    shortest = widths.min(axis=-1)
    first, last = ordered[..., 0], ordered[..., -1]
    # "At 0" means within a few typical gaps between draws: nothing in the draws tells that end from 0.
    gap = 4 * shortest / held
    at_zero = (widths[..., 0] == shortest) & (first <= gap)
    at_one = (widths[..., -1] == shortest) & (1 - last <= gap) & ~at_zero
    both = last - first - _emptiest(ordered, held) < CLEARLY * shortest
    near_zero, near_one = np.where(first <= gap, 0.0, lower), np.where(1 - last <= gap, 1.0, upper)
    lower = np.where(at_zero, 0.0, np.where(at_one, ordered[..., size - held], lower))
    upper = np.where(at_one, 1.0, np.where(at_zero, ordered[..., held - 1], upper))
    return np.where(both, near_zero, lower), np.where(both, near_one, upper)


def _emptiest(ordered: Floats, held: int) -> Floats:
    """The longest stretch that parts all draws but the held ones from two pieces, each worth more than a tail.

    Args:
        ordered: draws, shape `(..., draws)`.
        held: draws of both pieces together.

    Returns:
        Its length, shape `(...)`; 0 where draws are too few.
    """
    size = ordered.shape[-1]
    tail = max((size - held) // 2, 1)
    if held < 2 * tail:
        return np.zeros(ordered.shape[:-1])
    # From the last draw of the lower piece to the first one of the upper.
    stretches = ordered[..., size - held + tail : size - tail + 1] - ordered[..., tail - 1 : held - tail]
    return np.asarray(stretches.max(axis=-1))


def check_level(level: float) -> None:
    """Refuse what is no level.

    Args:
        level: posterior probability of an interval.

    Raises:
        InputError: it is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"a level lies between 0 and 1, such as 0.95; got {level}")


# --------------------------------------------------------------------------------------------------------- evidence


@dataclass(frozen=True, eq=False)
class _Given:
    """A set of draws given evidence; what several queries ask of it is computed once.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.
    """

    cells: Tables
    evidence: Mapping[str, int]

    @cached_property
    def marginals(self) -> dict[str, Floats]:
        """`P(X | evidence)` of every other variable, shape `(size, draws)`."""
        return elimination.marginals(self.cells, self.evidence)

    @cached_property
    def log_evidence(self) -> Floats:
        """`log P(evidence)`, shape `(draws,)`."""
        return elimination.log_probability(self.cells, self.evidence)

    def joint(self, targets: Sequence[str]) -> Floats:
        """`P(targets | evidence)`, shape `(*sizes, draws)`.

        Where every table matters to a single target, its own plan is the plan of all marginals, and the pass for all of
        them is taken: that rests on the query alone, so a query has one answer, whatever it is asked with.
        """
        network = self.cells.network
        if len(targets) == 1 and len(elimination.requisite(network, targets, self.evidence)) == len(network.nodes):
            return self.marginals[targets[0]]
        return elimination.joint(self.cells, targets, self.evidence)

    def probability(self, states: Mapping[str, int]) -> Floats:
        """`P(states | evidence)`, shape `(draws,)`; NaN where the evidence is impossible."""
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.exp(elimination.log_probability(self.cells, {**self.evidence, **states}) - self.log_evidence)
            )


@dataclass(frozen=True, eq=False)
class _Both:
    """The draws of a posterior given evidence, and how much each counts.

    Args:
        given: the draws.
        twin: their twins where the posterior has them, and draws count alike.
        predictive: whether they count by the probability of the evidence under them.
        effective: independent draws that they are worth; None: all.
    """

    given: _Given
    twin: _Given | None
    predictive: bool
    effective: float | None = None

    @cached_property
    def weights(self) -> Floats | None:
        """Of the draws, shape `(draws,)`, the largest 1; None where they count alike."""
        if not self.predictive:
            return None
        log = self.given.log_evidence
        peak = log.max()
        return np.asarray(np.exp(log - peak)) if np.isfinite(peak) else np.zeros(log.shape)


def _both_given(posterior: Posterior, evidence: Sequence[tuple[str, str]], predictive: bool) -> _Both:
    """Draws and twins; a posterior of another kind need not know of twins."""
    schema = posterior.network.schema
    codes = {name: schema[name].code(state) for name, state in evidence}
    twins: Tables | None = None if predictive else getattr(posterior, "twins", None)
    effective = posterior.effective() if isinstance(posterior, PosteriorDraws) and twins is not None else None
    return _Both(_Given(posterior.cells, codes), None if twins is None else _Given(twins, codes), predictive, effective)


# ------------------------------------------------------------------------------------------------------------ rows


def _read(query: str | Query, schema: Schema) -> Query:
    """A query that fits the schema."""
    if not isinstance(query, str | Probability | Explanation):
        raise InputError(f"a query is text or a parsed query, not a {type(query).__name__}")
    asked = parse_query(query, schema) if isinstance(query, str) else query
    check_names(asked, schema)
    return asked


@contextmanager
def _named(position: int, query: object) -> Iterator[None]:
    """Say in an error which query of a list is at fault, once."""
    try:
        yield
    except InputError as error:
        text = str(query) if isinstance(query, str | Probability | Explanation) else type(query).__name__
        reason = str(error).removeprefix(f"query {shown(text.strip())}: ").removeprefix(f"{text}: ")
        raise InputError(f"query {position + 1}, {text.strip()[:QUOTED_CHARACTERS]}: {reason}") from None


def _answer(asked: Query, both: _Both, level: float) -> Answer:
    """The answer to a query that fits the schema."""
    match asked:
        case Probability():
            return _probability(asked, both, level)
        case Explanation():
            return _explanation(asked, both, level)


def _probability(asked: Probability, both: _Both, level: float) -> Answer:
    """One row for each joint state asked for."""
    network = both.given.cells.network
    size = network.cells(name for name, state in asked.targets if state is None)
    if size > ROW_LIMIT:
        raise InputError(
            f"{asked}: the answer has {size:,} rows, more than {ROW_LIMIT:,}; ask for fewer variables, or for MAP"
        )
    listed = [[state] if state is not None else network.schema[name].states for name, state in asked.targets]
    names = [name for name, _ in asked.targets]
    states = [dict(zip(names, row, strict=True)) for row in product(*listed)]
    draws = _probability_draws(asked, both.given)
    twins = None if both.twin is None else _probability_draws(asked, both.twin)
    return _summarised(asked, states, draws, twins, both, level)


def _probability_draws(asked: Probability, given: _Given) -> Floats:
    """P(free, fixed | evidence) = P(free | fixed, evidence) P(fixed | evidence), draw by draw; (states, draws)."""
    schema = given.cells.network.schema
    fixed = {name: schema[name].code(state) for name, state in asked.targets if state is not None}
    free = [name for name, state in asked.targets if state is None]
    if not fixed:
        table = given.joint(free)
        return table.reshape(-1, table.shape[-1])
    draws = given.probability(fixed)
    if not free:
        return draws[None]
    table = elimination.joint(given.cells, free, {**given.evidence, **fixed})
    # Where the fixed states are impossible so is every row; where the evidence is, the second factor says so.
    return np.asarray(np.nan_to_num(table.reshape(-1, table.shape[-1])) * draws)


def _explanation(asked: Explanation, both: _Both, level: float) -> Answer:
    """The best joint state on average, and those that most draws favour."""
    given, twin = both.given, both.twin
    schema = given.cells.network.schema
    targets = asked.targets or tuple(name for name in schema.names if name not in given.evidence)
    table = _whole_joint(given, targets)
    if table is None:
        found = elimination.explanations(given.cells, targets, given.evidence, weights=both.weights)
        codes = [tuple(part.states[name] for name in targets) for part in found]
        draws, best = np.stack([part.probability for part in found]), [float(part.best) for part in found]
        twins = None if twin is None else np.stack([twin.probability(part.states) for part in found])
    else:
        possible, weights = _counted(asked, table, both.weights)
        kept = _those(table, possible)
        best_of = kept.argmax(axis=0)
        if both.weights is None:
            means, shares = kept.mean(axis=-1), np.bincount(best_of, minlength=len(table)) / best_of.size
        else:
            means, shares = kept @ weights, np.bincount(best_of, weights, minlength=len(table))
        listed = _leading(means, shares)
        codes = list(zip(*np.unravel_index(listed, [schema[name].size for name in targets]), strict=True))
        draws, best = table[listed], shares[listed].tolist()
        twins = None if twin is None else twin.joint(targets).reshape(table.shape)[listed]
    states = [{name: schema[name].states[code] for name, code in zip(targets, row, strict=True)} for row in codes]
    return _summarised(asked, states, draws, twins, both, level, best)


def _whole_joint(given: _Given, targets: Sequence[str]) -> Floats | None:
    """The joint of the targets, shape (states, draws); None where it is too large."""
    if given.cells.network.cells(targets) <= ROW_LIMIT:
        with suppress(InputError):
            table = given.joint(targets)
            return table.reshape(-1, table.shape[-1])
    return None


def _leading(means: Floats, shares: Floats) -> list[int]:
    """Positions of the best on average and of those that most draws favour, by decreasing mean."""
    first = int(means.argmax())
    favoured = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0 and i != first]
    return sorted([first, *favoured[: elimination.CANDIDATES - 1]], key=lambda i: (-means[i], i))


def _summarised(
    asked: Query,
    states: Sequence[Mapping[str, str]],
    draws: Floats,
    twins: Floats | None,
    both: _Both,
    level: float,
    best: Sequence[float] | None = None,
) -> Answer:
    """An answer with one row for each joint state; `draws` and `twins` have shape (states, draws)."""
    possible, weights = _counted(asked, draws, both.weights)
    kept = np.clip(_those(draws, possible), 0.0, 1.0)  # products of probabilities may exceed 1 by a rounding
    mean = kept.mean(axis=-1) if both.weights is None else kept @ weights
    lower, upper = credible_interval(kept if both.weights is None else kept[:, _resampled(weights)], level)
    share = error = np.full(len(draws), np.nan)
    if twins is not None:
        again = np.clip(_those(twins, possible), 0.0, 1.0)
        share, error = noise_share(kept, again), noise_share_error(kept, again, both.effective)
    rows = []
    for i, state in enumerate(states):
        numbers = {"mean": float(mean[i]), "lower": float(lower[i]), "upper": float(upper[i])}
        known = not np.isnan(share[i])
        noise = {"noise": float(share[i]) if known else None, "noise_error": float(error[i]) if known else None}
        rows.append({"state": dict(state), **numbers, **noise, **({} if best is None else {"best": best[i]})})
    return Answer(str(asked), asked.kind, level, tuple(rows), left_out=float(1 - possible.mean()))


def _counted(asked: Query, draws: Floats, weights: Floats | None) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Which draws count, shape (draws,), and how much each of these does, in all 1.

    Raises:
        InputError: the evidence is impossible under too many of them, or weights leave too few.
    """
    possible = ~np.isnan(draws[0])
    refuse_impossible(int((~possible).sum()), possible.size, f"{asked}: the evidence")
    share = np.ones(int(possible.sum())) if weights is None else weights[possible]
    share = share / share.sum()
    if weights is not None and 1 / (share**2).sum() < min(LEAST_EFFECTIVE_DRAWS, share.size):
        raise InputError(
            f"{asked}: weighted by the probability of the evidence fewer than {LEAST_EFFECTIVE_DRAWS} effective draws "
            "are left; ask for more draws, or leave out predictive"
        )
    return possible, share


def _those(draws: Floats, possible: npt.NDArray[np.bool_]) -> Floats:
    """Some of the draws; the array itself where it is all: a copy's order in memory would change how sums round."""
    return draws if possible.all() else draws[..., possible]


def refuse_impossible(impossible: int, draws: int, what: str) -> None:
    """Refuse evidence that most draws make impossible.

    Args:
        impossible: number of draws under which it has probability 0.
        draws: of the posterior.
        what: it is, at the beginning of the message.

    Raises:
        InputError: more than half of the draws.
    """
    if impossible > MOST_LEFT_OUT * draws:
        raise InputError(f"{what} is impossible under {impossible} of {draws} draws; check its states")


def _resampled(weights: Floats) -> npt.NDArray[np.intp]:
    """Positions at which draws that count alike would lie, each as often as its weight says, shape (draws,)."""
    steps = (np.arange(weights.size) + 0.5) / weights.size
    return np.searchsorted(np.cumsum(weights), steps * np.sum(weights)).clip(max=weights.size - 1)
