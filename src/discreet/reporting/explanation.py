"""Parts of an explanation of a release, and their text. All words and numbers are computed from the release alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from discreet.errors import listed
from discreet.queries.row_shares import Dependence
from discreet.util.tabular import Result

SHOWN_TABLES = 4
"""Largest number of tables or families that an explanation names, by decreasing effect."""

OWN_PRIOR = "yours"
"""Name of the analyst's own prior."""
ROUGH_CORRELATION = 0.8
"""Squared correlation of the first-order sum with an answer below which its variance shares are called rough."""


@dataclass(frozen=True)
class InferenceLimits:
    """Limits on the knowledge about one record that a release gives to somebody who knows all other records.

    Args:
        guarantee: guarantee of the release, in one line.
        relation: relation of neighbouring data sets, in words.
        unit: unit that a record stands for, such as "record" or "person".
        private: whether the release is private; a simulation is not, and these limits do not hold for it.
        presence: largest change, in nats, of the log odds that a record is in the data; None if the relation does not
            protect presence.
        value: largest change, in nats, of the log odds between two values of a record; None if nothing is promised.
        delta: probability with which a procedure that keeps to these odds else discloses whether a record is present
            (its value, if presence is not protected): nobody learns more than from it. The chance that odds move
            further may be larger.
        value_delta: the same of a record's value.
        beliefs: for each probability of a fact before the release its largest probability afterwards: if the fact is
            that a record is present, and if it is a record's value; None if it is not protected.

    Raises:
        Nothing: `explain` makes it.

    Example:
        >>> promise = InferenceLimits("epsilon 1", "replace", "record", True, None, 1.0, 0.0, 0.0, {})
        >>> next(promise.lines())
        'What can be learned of one record (epsilon 1)'
    """

    guarantee: str
    relation: str
    unit: str
    private: bool
    presence: float | None
    value: float | None
    delta: float
    value_delta: float
    beliefs: Mapping[float, tuple[float | None, float | None]]

    def lines(self) -> Iterator[str]:
        """Yield lines of text on the limits: a head, presence, value, and the adversary's knowledge.

        For a release that is not private a line after the head says so. Presence has a line only if it is protected;
        for a value that is not protected the line says so. Lines have a clause on delta if it is not 0.
        """
        yield f"What can be learned of one {self.unit} ({self.guarantee})"
        if not self.private:
            yield "  this is a simulation, which protects nobody; a private release of the same kind would promise:"
        named = ((self.presence, 0, self.delta, "whether it is there"), (self.value, 1, self.value_delta, "its values"))
        for nats, column, delta, fact in named:
            if nats is not None:
                beliefs = _write_beliefs({prior: ends[column] for prior, ends in self.beliefs.items()})
                tail = f"; as if with probability {delta:.3g} anything may be told" if delta else ""
                yield f"  {fact}: odds move by a factor of at most {write_factor(nats)}. A belief of {beliefs}{tail}"
        if self.value is None:
            yield "  its values: nothing is promised: for a record removed and another added the delta is too large"
        yield "  by somebody who knows all others; what it says of everybody is learned without the record, too"


@dataclass(frozen=True)
class Distinguishability:
    """Limits on every test that distinguishes two data sets by the release.

    Args:
        unit: unit that a record stands for.
        distance: largest total variation distance between releases of data sets that differ in one unit.
        misses: for each rate of false alarms the least rate of misses of any test.
        error: rate of false alarms and of misses to which the next two numbers refer.
        units: least number of units in which data sets must differ for some test to have both rates at most `error`.
        necessary: least number of units for an adversary who compares shares of posterior draws, by the paper's
            argument; a test that uses more is not bound by it. None if delta is positive.
        draws: number of released posterior draws; None if no draws were released.
        draws_distance: largest total variation distance of all these draws together with the noisy number of records,
            if one was released.
        guess: least mean error, in units, of a guess of the data for the worst data set (Le Cam).
    """

    unit: str
    distance: float
    misses: Mapping[float, float]
    error: float
    units: int
    necessary: float | None
    draws: int | None
    draws_distance: float | None
    guess: float

    def lines(self) -> Iterator[str]:
        """Yield lines of text on the limits: a head, error rates, released draws, and numbers of units.

        There is a line on released draws only if their number and distance are known, and one on comparing shares of
        draws only if `necessary` is known.
        """
        yield f"How well two data sets can be told apart that differ in one {self.unit}"
        yield f"  false alarms and misses of the best test sum to {1 - self.distance:.3g} at least; a coin's to 1"
        yield f"  least misses by false alarms: {_write_misses(self.misses)}"
        if self.draws is not None and self.draws_distance is not None:
            drawn = f"{self.draws} posterior draws together" if self.draws > 1 else "a posterior draw"
            yield f"  holding {drawn}, it tells less: errors sum to {1 - self.draws_distance:.3g} at least"
        needs = f"  to err at most {100 * self.error:g} % on either side they must differ in {self.units} or more"
        if self.necessary is None:
            yield f"{needs}, for any test"
        else:
            yield f"{needs}, for any test;"
            yield f"  who compares shares of posterior draws needs {self.necessary:.3g} (a necessary condition)"
        yield f"  who guesses the data errs by {self.guess:.3g} {self.unit}s on average for some data set (Le Cam)"


@dataclass(frozen=True)
class Change:
    """Limits under a metric on the knowledge about a change of some units, for somebody who knows everything else.

    Args:
        units: size of the change in units: the sum over the changed readings, each rounded up.
        nats: largest change of log odds between the readings before and after, in nats.
        beliefs: for each probability of a reading before the release its largest probability afterwards.
        distance: largest total variation distance between releases of data sets that are so far apart.
        misses: for each rate of false alarms the least rate of misses of any test.
        delta: chance with which a procedure that keeps to these odds else reveals everything: nobody learns more than
            from it. The chance that odds move further may be larger.
    """

    units: int
    nats: float
    beliefs: Mapping[float, float]
    distance: float
    misses: Mapping[float, float]
    delta: float = 0.0


@dataclass(frozen=True)
class MetricLimits:
    """Limits on inference under a metric: about changes of readings, never about the presence of a record.

    Args:
        guarantee: guarantee of the release, in one line.
        relation: the metric, in words.
        unit: the change that has distance 1.
        private: whether the release is private; a simulation is not, and these limits do not hold for it.
        changes: limits for a change of one unit, of a few, and of the widest range of a reading, smallest first.
        widest: largest number of units by which a reading can change within its public bounds; None without bounds.
        error: rate of false alarms and of misses to which the next two numbers refer.
        units: least number of units by which data sets must differ for some test to have both rates at most `error`.
        necessary: least number of units for an adversary who compares shares of posterior draws, by the paper's
            argument; None with a delta.
        meant: meaning of the unit's amount, a line for each numeric column.
    """

    guarantee: str
    relation: str
    unit: str
    private: bool
    changes: tuple[Change, ...]
    widest: int | None
    error: float
    units: int
    necessary: float | None
    meant: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield lines of text on the limits: on beliefs for each change, an empty line, then on tests for each change.

        For a release that is not private a line after the head says so. The line on what is not protected is there only
        if `widest` is known; it takes the odds of the last of `changes` for those of the widest range.
        """
        yield f"What can be learned of a change in one reading ({self.guarantee})"
        if not self.private:
            yield "  this is a simulation, which hides nothing; a private release of the same kind would promise:"
        yield from (f"  {line}" for line in self.meant)
        yield f"  one unit: {self.unit}; whether a value was this one, or one that is at most so many units from it:"
        for change in self.changes:
            moved = f"odds move by a factor of at most {write_factor(change.nats)}"
            moved += f", as if with probability {change.delta:.3g} anything may be told" if change.delta else ""
            yield f"  {_write_units(change.units)}: {moved}. A belief of {_write_beliefs(change.beliefs)}"
        yield "  by somebody who knows all else; units of several changes add up"
        if self.widest is not None:
            most = f"{_write_units(self.widest)} and odds by {write_factor(self.changes[-1].nats)}"
            yield f"  no record and no person is protected: a reading may change by {most}"
        yield ""
        yield "How well two data sets can be told apart that differ by changes in readings"
        for change in self.changes:
            errors = f"false alarms and misses of the best test sum to {1 - change.distance:.3g} at least"
            yield f"  {_write_units(change.units)}: {errors} (total variation {change.distance:.3g} at most);"
            yield f"    least misses by false alarms: {_write_misses(change.misses)}"
        units = _write_units(self.units)
        needs = f"  to err at most {100 * self.error:g} % on either side they must differ by {units} or more"
        yield f"{needs}, for any test" + (";" if self.necessary is not None else "")
        if self.necessary is not None:
            yield f"  who compares shares of posterior draws needs {self.necessary:.3g} (a necessary condition)"


@dataclass(frozen=True)
class Divergence:
    """Kullback-Leibler divergence of the release's posterior from that of the exact records, in nats.

    A family is a node with its parents; a row is the node's distribution in one state of the parents.

    Args:
        record: largest divergence between the posteriors of two data sets that differ in one record, if the posterior
            sees the exact records; None under a metric.
        change: largest divergence for a change of one unit, under a metric; None if it is unknown or there is no
            metric.
        trimmed: whether `record` and `change` are about the law of released draws, whose range is bounded, instead of
            the posterior that sees the records.
        limit: bound on the divergence of the posterior that takes the noisy counts for exact ones, without the families
            in `unmeasured`; None if no counts were released that can be pooled, or of no family as a whole.
        failure: probability with which the divergence may exceed `limit`.
        families: for each node its part of `limit`, largest first; empty without a limit.
        expected: second-order approximation of the mean divergence, summed over the rows whose counts are large enough;
            0 if there are none.
        large, rows: number of these rows, and of all measured ones; 0 without a limit.
        unmeasured: nodes whose family was not measured as a whole; no number about counts includes them.
    """

    record: float | None
    change: float | None
    trimmed: bool
    limit: float | None
    failure: float
    families: Mapping[str, float]
    expected: float
    large: int
    rows: int
    unmeasured: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield lines of text on the bounds: a head, one record or change, noisy counts taken for exact ones.

        Only bounds that are known have a line; without `limit` one says that no counts were released. At most
        SHOWN_TABLES families are named, and unmeasured ones have a line if there are any.
        """
        yield "How far posteriors are apart (Kullback-Leibler divergence, nats, over all rows)"
        law = "law of a draw" if self.trimmed else "posterior that sees the records"
        for moved, by in ((self.record, "one record"), (self.change, "a change of one unit in one reading")):
            if moved is not None:
                yield f"  {by} moves the {law} by {moved:.3g} at most, whatever all else is"
        if self.limit is None:
            yield "  no counts were released that could be taken for those of the records"
        else:
            most = listed([f"{node} {nats:.3g}" for node, nats in list(self.families.items())[:SHOWN_TABLES]])
            yield (
                f"  noisy counts taken for counts: at most {self.limit:.4g} from the posterior of the exact ones, with "
                f"probability {1 - self.failure:.0%}; most by {most}"
            )
            yield f"  expected: {self.expected:.3g} over {self.large} of {self.rows} rows that noise is small beside"
            yield "  (noise-aware answers have all of it in their intervals)"
        if self.unmeasured:
            yield f"  not measured as a whole, and not counted: {listed(self.unmeasured)}"


@dataclass(frozen=True)
class OtherPrior:
    """An answer under an alternative prior of the rows.

    Args:
        query: text of the query.
        prior: name of the prior, in words.
        rows: `{"state", "mean", "lower", "upper"}` for each joint state.
        regret: largest expected payoff, of a range of 1 over the states, that is lost by deciding by the first prior's
            answer where this prior is right: the L1 distance of the two answers' means.
    """

    query: str
    prior: str
    rows: tuple[Mapping[str, object], ...]
    regret: float


@dataclass(frozen=True)
class Reach:
    """Effects of the mechanism on choices and draws, and of another prior on draws, whatever the records are.

    Args:
        shortfall: of a choice, largest difference of the scores of the best candidate and of a chosen one, in nats of
            the mechanism's exponent, but with probability `failure`; None if nothing was chosen.
        in_records: the same in records: how many of them can change the difference of two scores by so much, at least;
            None under a metric.
        failure: probability with which `shortfall` may be exceeded.
        outside: of trimmed draws, mass of the prior outside of what trimming left, for all rows together (a bound for
            rows of more than two states): what a decision loses by it on average over data as the prior has them; None
            if nothing was trimmed, or counts were tempered.
        unbounded: whether the log ratio of the analyst's prior and that of the draws has no bound, as rows may come
            near 0.
        log_range: of draws, in nats, between the largest and the smallest log ratio of the analyst's prior and that of
            the draws; None without such a prior or bound, or without draws.
        divergence: largest KL of the posteriors under the two, by `log_range`.
        distance: largest total variation of the posteriors under the two.
    """

    shortfall: float | None = None
    in_records: float | None = None
    failure: float = 0.0
    outside: float | None = None
    unbounded: bool = False
    log_range: float | None = None
    divergence: float | None = None
    distance: float | None = None

    def lines(self) -> Iterator[str]:
        """Yield lines of text on what is known: a choice, trimming, the analyst's prior; nothing at all if none is."""
        if self == Reach():
            return
        yield "What the mechanism and the prior cost"
        if self.shortfall is not None:
            yield f"  the score of a chosen candidate is at most {self.shortfall:.3g} nats below that of the best,"
            change = "" if self.in_records is None else f"what {self.in_records:.3g} records can change, "
            yield f"  {change}but for a chance of {self.failure:g}"
        if self.outside is not None:
            yield f"  trimming leaves out {_write_percent(self.outside)} of the prior: a decision loses at most so much"
            yield "  of a payoff's range by it, on average over data as the prior has them"
        if self.unbounded:
            yield "  the ratio of your prior to that of the draws has no bound: rows may come near 0"
        if self.distance is not None:
            yield f"  your prior over that of the draws ranges over {self.log_range:.3g} nats: laws of a draw differ by"
            yield f"  {self.divergence:.3g} nats and total variation {self.distance:.3g} at most, and a decision by"
            yield f"  these draws loses {min(1, 2 * self.distance):.3g} of a payoff's range at most, if yours is right"


@dataclass(frozen=True)
class Explanation(Result):
    """Effects of one record on a release, and the assumptions behind its answers.

    Args:
        promise: limits on the knowledge about a record; under a metric those about changes, with the limits on tests.
        telling: limits on tests that distinguish data sets which differ in records; None under a metric.
        divergence: bounds on the divergence of posteriors; None if they do not apply, and `notes` state why.
        dependences: for each query the dependence of its answer on the tables.
        priors: answers under several priors of the rows, query by query.
        notes: sentences on parts that do not apply to this release, with the reason.
        reach: what the mechanism does to choices and draws, and what another prior than that of draws can cost.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> from discreet.reporting.explanation import InferenceLimits
        >>> beliefs = {0.5: (None, 0.73)}
        >>> promise = InferenceLimits("epsilon 1", "replace", "record", True, None, 1.0, 0.0, 0.0, beliefs)
        >>> print(str(dc.results.Explanation(promise, None, None, (), (), ())).splitlines()[1].strip())
        its values: odds move by a factor of at most 2.72 (e^1). A belief of 1 in 2 becomes at most 73 %
    """

    promise: InferenceLimits | MetricLimits
    telling: Distinguishability | None
    divergence: Divergence | None
    dependences: tuple[Dependence, ...]
    priors: tuple[OtherPrior, ...]
    notes: tuple[str, ...]
    reach: Reach = Reach()

    def content(self) -> Iterator[str]:
        """Yield all lines of text; an empty line stands before each part but the first.

        The parts are the promise, tests (unless None), divergence (unless None), what the mechanism and a prior cost
        (if anything is known), one for each of `dependences` with the
        answers under other priors, and the notes, if there are any. Answers to queries without a decomposition are not
        shown.
        """
        yield from self.promise.lines()
        sections = [part.lines() for part in (self.telling, self.divergence) if part is not None]
        sections += [self.reach.lines()] if self.reach != Reach() else []
        sections += [self._describe_answer(dependence) for dependence in self.dependences]
        for lines in [*sections, *([self.notes] if self.notes else [])]:
            yield from ("", *lines)

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each table entry on which an answer depends most, query by query.

        Returns:
            Rows of "query", "entry", "mean", "lower", "upper"; "variance" and "noise", the shares of the answer's
            variance due to the entry's row and to the noise in it (None if it is unknown); "slope"; and "low" and
            "high", the answer at the ends of the entry's interval. The list is empty if no query has a decomposition.
        """
        names = ("entry", "mean", "lower", "upper", "variance", "noise", "slope", "low", "high")
        return [
            {"query": dependence.query, **{name: getattr(row, name) for name in names}}
            for dependence in self.dependences
            for row in dependence.rows
        ]

    def document(self) -> dict[str, object]:
        """Convert all parts to values that `json.dumps` accepts.

        Returns:
            An object with the names of the fields as keys; parts are objects of their fields, too. Tuples stay tuples,
            and keys of probabilities stay numbers.
        """
        return asdict(self)

    def _describe_answer(self, dependence: Dependence) -> Iterator[str]:
        """Yield lines of text on one answer: its dependence on the tables and rows, then answers under other priors.

        At most SHOWN_TABLES tables and states of an answer are named. Clauses on noise are left out where its share is
        None. If `explained` is below ROUGH_CORRELATION, a line says that the shares are rough. A last line on the
        prior's pseudo-record is there if one moves the answer.

        Args:
            dependence: variance decomposition of the answer.
        """
        yield f"What {dependence.query} depends on (the network taken as it is)"
        tables = [f"{node} {_write_percent(share)}" for node, share in list(dependence.tables.items())[:SHOWN_TABLES]]
        noisy = dependence.noise
        noise = "" if noisy is None else f"; {_write_percent(noisy)} is privacy noise, the rest sampling"
        yield f"  its variance by tables: {listed(tables)}{noise}"
        if dependence.explained < ROUGH_CORRELATION:
            explained = _write_percent(dependence.explained)
            yield f"  shares are rough: the first order, of which they are, explains {explained} of it"
        for row in dependence.rows:
            blame = "" if row.noise is None else f", {_write_percent(row.noise)} as noise"
            yield f"  {row.entry} = {row.mean:.4g}: its row has {_write_percent(row.variance)} of the variance{blame};"
            ends = f"{_write_target(row.target)} goes from {row.low:.4g} to {row.high:.4g}"
            yield f"    from {row.lower:.4g} to {row.upper:.4g}, its interval, {ends} (slope {row.slope:.3g})"
        for answer in self.priors:
            if answer.query == dependence.query:
                rows = listed([_write_interval(row) for row in answer.rows[:SHOWN_TABLES]])
                yield f"  prior of rows {answer.prior}: {rows}"
                if answer.prior == OWN_PRIOR:
                    lost = f"loses {answer.regret:.3g} of a payoff's range at most"
                    yield f"    who believes it and decides by the first {lost} (of payoffs by these states)"
        if dependence.record is not None:
            pseudo = dependence.record
            moved = f"{_write_target(pseudo.target)} from {pseudo.before:.4g} to {pseudo.after:.4g}"
            yield f"  the prior's record that would move it most, one more in {pseudo.entry}: {moved}"


@dataclass(frozen=True)
class CombinedExplanation(Result):
    """Effects of one record on several releases together, and on each of them.

    Args:
        together: for each data set the limits on the knowledge about a record that all of its releases give; a sentence
            where there is no one guarantee of all.
        parts: the explanation of each release, by its identifier, in the order of the data sets.

    Raises:
        Nothing: `explain` makes it.
    """

    together: tuple[InferenceLimits | str, ...]
    parts: Mapping[str, Explanation]

    def content(self) -> Iterator[str]:
        """Yield all lines of text: those of every data set, then those of every release."""
        for number, limits in enumerate(self.together, 1):
            yield f"Data set {number} of {len(self.together)}, all of its releases together"
            yield from (f"  {line}" for line in ((limits,) if isinstance(limits, str) else limits.lines()))
        for name, part in self.parts.items():
            yield from ("", f"Release {name}", *(f"  {line}" if line else "" for line in part.content()))

    def tidy(self) -> list[dict[str, Any]]:
        """List the rows of all releases, as `Explanation.tidy`, each with the "release"."""
        return [{"release": name, **row} for name, part in self.parts.items() for row in part.tidy()]

    def document(self) -> dict[str, object]:
        """Convert all parts to values that `json.dumps` accepts: "together", and "releases" by identifier."""
        together = [limits if isinstance(limits, str) else asdict(limits) for limits in self.together]
        return {"together": together, "releases": {name: part.document() for name, part in self.parts.items()}}


def write_factor(nats: float) -> str:
    """Write exp(nats) as a factor of odds with its exponent, `2.72 (e^1)`; from 14 nats on the exponent alone."""
    return f"{math.exp(nats):.3g} (e^{nats:.4g})" if nats < 14 else f"e^{nats:.4g}"


def _write_units(number: int) -> str:
    """Write a number of units: `1 unit`, `2,000 units`."""
    return f"{number:,} unit{'' if number == 1 else 's'}"


def _write_beliefs(beliefs: Mapping[float, float | None]) -> str:
    """Write the largest posterior belief for each prior belief: `1 in 2 becomes at most 73 %, ...`."""
    return listed([f"1 in {1 / prior:.4g} becomes {_write_most(most)}" for prior, most in beliefs.items()])


def _write_misses(misses: Mapping[float, float]) -> str:
    """Write the least miss rates by rates of false alarms: `95.1 % at 1 %, ...`."""
    return listed([f"{100 * miss:.3g} % at {100 * alarms:g} %" for alarms, miss in misses.items()])


def _write_most(belief: float | None) -> str:
    """Write the largest posterior belief: `at most 73 %`; "almost sure" above 0.9995; "anything" for None."""
    if belief is None:
        return "anything"
    return "almost sure" if belief > 0.9995 else f"at most {_write_percent(belief)}"


def _write_percent(share: float) -> str:
    """Write a share as percent: without decimals from 9.95 % on (in absolute value), below to two digits."""
    return f"{100 * share:.0f} %" if abs(share) >= 0.0995 else f"{100 * share:.2g} %"


def _write_interval(row: Mapping[str, object]) -> str:
    """Write a row of an answer, numbers to four digits: `lung=yes 0.3 (0.2 to 0.4)`."""
    return f"{_write_target(row['state'])} {row['mean']:.4g} ({row['lower']:.4g} to {row['upper']:.4g})"


def _write_target(state: object) -> str:
    """Write a joint state of the answer, a mapping: `lung=yes, smoke=no`."""
    assert isinstance(state, Mapping)
    return ", ".join(f"{name}={value}" for name, value in state.items())
