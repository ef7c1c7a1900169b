"""Audit of mechanisms: the privacy loss on networks so small that every data set can be enumerated.

A mechanism touches records only through a source of randomness. The audit puts its own source in its place, which logs
what it is given and answers by a script:

* With the answers held fixed, what is released must be the same for neighbouring data sets; anything else is a leak.
* The largest log ratio of the probabilities of the answers, over all answers, is the loss; for integer noise, choices
  from finite lists and rows on a grid it is computed exactly. Rows, and draws of a row, are independent.
* Gaussian noise has a delta: its exact hockey-stick divergence at epsilon is compared with the promised one.
* Gamma variates are continuous: there, draws are counted on both sides of a threshold, and the loss is bounded from
  below with a stated confidence (Clopper and Pearson). Such a bound can refute a promise, never prove it.

What is assumed, and only spot-checked: that rows are independent of each other for all answers, not only for those
tried; that all randomness comes from the source (every draw is run twice, which finds most that does not); and that a
draw which is honest under the scripts is so under all others: scripts are finitely many, answers are not. Code that
waits for one rare answer passes. The audit finds mistakes; it is no defence against whoever writes for the audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet.display.renderers import TextTable
from discreet.errors import InputError, require
from discreet.mechanisms.crossing import Mechanism, check_relation
from discreet.model.network import Network
from discreet.model.over import Over, Prior
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, Relation, as_text, for_each
from discreet.records.counts import Counts
from discreet.releases.kinds.chosen_network import StructureNoise
from discreet.releases.kinds.found_bins import FoundBinsNoise
from discreet.releases.kinds.noisy_counts import GaussianNoise, TableNoise
from discreet.releases.kinds.noisy_tables import PlannedNoise
from discreet.releases.kinds.number_tables import NumberNoise
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs
from discreet.releases.metric_unit import attribute_units, distance_of
from discreet.releases.policy import RecordsPolicy
from discreet.util.pack_entries import of_packs
from discreet.util.progress import under_way
from discreet.util.tabular import Block, Result
from discreet.verify.losses import loss, refuse_leaks
from discreet.verify.made_up import made_up_in
from discreet.verify.script import NOISE_SCRIPTS, Leak, Log, ScriptedAnswers, logged, numbers
from discreet.verify.tiny_data import CROWD_RECORDS, FEW_KINDS, MOST_KINDS, neighbours, rests_of, units_of

# --------------------------------------------------------------------------------------------------------------------
# Pairs of data sets under a metric: one reading is in another bin, at a least distance in units.

Data = tuple[tuple[Any, ...], ...]

MOST_PAIRED_BINS = 12
"""Most bins whose pairs are all audited; of more, the farthest that some units reach from this many bins."""
REACHED_UNITS = (1, 2, 5, 10, 10**9)
"""Distances in units within which the farthest bin is audited; the last reaches the first and the last bin."""


def changed_readings(over: Over, amount: Fraction, rests: Iterable[Data]) -> dict[tuple[Data, Data], int]:
    """List pairs of data sets in which one reading of one record is in another bin.

    The reading moves from the end of one bin to the start of the other, the least that brings it there. Bins that touch
    are not enough: a unit may span several, and then does more.

    Args:
        over: a network with a numeric variable.
        amount: of the unit, in the variable's own.
        rests: the records that both data sets share.

    Returns:
        By pair of data sets the units, rounded up.

    Raises:
        InputError: no network, or no numeric variable with two bins or more.

    Example:
        >>> age = Variable.binned("age", (0, 30), 3)  # bins of ten years
        >>> changed_readings(Network((age,), {"age": ()}), Fraction(5), [()])
        {(((0,),), ((1,),)): 1, (((0,),), ((2,),)): 3, (((1,),), ((2,),)): 1}
    """
    variables = over.variables if isinstance(over, Network) else ()
    moves = [
        ((*record[:axis], low, *record[axis + 1 :]), (*record[:axis], high, *record[axis + 1 :]), units)
        for record in ([0 for _ in variables], [variable.size - 1 for variable in variables])
        for axis, variable in enumerate(variables)
        if variable.bounds is not None
        for low, high, units in _list_moves(variable, amount)
    ]
    if not moves:
        raise InputError(
            "an audit under a metric moves readings: it needs a network with a numeric variable and its bins"
        )
    return {((*rest, low), (*rest, high)): units for rest in rests for low, high, units in moves}


def _list_moves(variable: Variable, amount: Fraction) -> Iterator[tuple[int, int, int]]:
    """List pairs of bins with the least distance in units between a reading in one and a reading in the other."""
    assert variable.bounds is not None
    cuts = [float(variable.bounds[0]), *variable.bins]
    ends = [Fraction(float(np.nextafter(cut, -math.inf))) for cut in cuts[1:]]
    starts = [Fraction(cut) for cut in cuts]

    def units(low: int, high: int) -> int:
        return math.ceil((starts[high] - ends[low]) / amount)

    last = len(cuts) - 1
    if last < MOST_PAIRED_BINS:
        yield from ((low, high, units(low, high)) for high in range(last + 1) for low in range(high))
        return
    for step in range(MOST_PAIRED_BINS):
        at = step * last // (MOST_PAIRED_BINS - 1)
        for most in REACHED_UNITS:
            above = max((bin for bin in range(at + 1, last + 1) if units(at, bin) <= most), default=at)
            below = min((bin for bin in range(at) if units(bin, at) <= most), default=at)
            yield from ((low, high, units(low, high)) for low, high in ((at, above), (below, at)) if low < high)


def changed_values(over: Any, guarantee: Guarantee, rests: Iterable[Data]) -> dict[tuple[Data, Data], int]:
    """List pairs of data sets in which one value of one record differs: a reading, or by distances that count values.

    Distances of values add up, so that no pair costs more for its units than some pair with one value.

    Args:
        over: a network.
        guarantee: under a metric.
        rests: the records that both data sets share.

    Returns:
        By pair of data sets the units, rounded up.

    Raises:
        InputError: as `changed_readings`, or a distance of whole records.
    """
    if not (distance := distance_of(guarantee)):
        return changed_readings(over, guarantee.unit_amount, rests)
    units = attribute_units(over, guarantee.unit_amount, distance)
    moves = {
        tuple(sorted((record, (*record[:at], code, *record[at + 1 :])))): units[variable.name]
        for record in made_up_in(over.domain).kinds_of(over)
        for at, variable in enumerate(over.variables)
        for code in range(variable.size)
        if code != record[at]
    }
    return {((*rest, first), (*rest, second)): units for rest in rests for (first, second), units in moves.items()}


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Record = tuple[Any, ...]
Pairs = Mapping[tuple[Any, Any], int]
"""Pairs of data sets, and the units in which they differ: 1 for neighbours."""

ONE_RECORD = RecordsPolicy("error", "error")
"""Policy under which every record is a unit."""
MOST_AUDITED_RECORDS = 3
"""Most records of the larger of two neighbouring data sets."""
MOST_FOLLOWED_CHOICES = 8
"""Answers to a choice that an audit follows to the release."""
FLOAT_SLACK = 1e-7
"""Log ratios are computed in floating point; inexact mechanisms hold back more than this."""


@dataclass(frozen=True)
class Finding:
    """Finding of an audit for one network and relation.

    Args:
        network: its name, or that of the design.
        guarantee: what the mechanism promised.
        measured: largest loss: epsilon at the guarantee's delta; under a metric the largest for each unit by which data
            sets differ. Infinite for a leak.
        exact: whether `measured` is the loss itself on the data sets looked at, given that rows are independent, that
            there is no randomness but the source's, and that scripts not tried tell nothing new; False for a lower
            bound that holds with `CONFIDENCE`, which can refute the promise but never prove it.
        pairs: of neighbouring data sets that were looked at, or of those that differ in one reading.
        how: what kind of check it was.
        slack: nats by which `measured` may be off, as a sum of floats.
        leak: what depends on the records although the noise is held fixed, or what makes the draw impossible to
            follow; empty where nothing does.

    Raises:
        Nothing: `audit` makes it.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
        >>> Finding("one coin", promise, measured=1.0, exact=True, pairs=12).holds
        True
        >>> Finding("one coin", promise, measured=2.0, exact=False, pairs=12).holds  # a bound refutes it
        False
    """

    network: str
    guarantee: Guarantee
    measured: float
    exact: bool
    pairs: int
    leak: str = ""
    how: str = "exactly"
    slack: float = FLOAT_SLACK

    @property
    def holds(self) -> bool:
        """True if the guarantee holds; if `exact` is False, True if it is not refuted."""
        return self.measured <= float(self.guarantee.epsilon) * (1 + 1e-9) + self.slack


class Findings(tuple[Finding, ...], Result):
    """Findings of an audit, in one table."""

    __slots__ = ()

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each finding.

        Returns:
            Rows of "network", "relation", "unit", "promised" and "delta", which are exact texts, "measured", None if it
            is infinite, "leak", "exact", "how", "pairs" and "holds".
        """
        return [
            {
                "network": part.network,
                "relation": part.guarantee.relation.value,
                "unit": part.guarantee.unit,
                "promised": as_text(part.guarantee.epsilon),
                "delta": as_text(part.guarantee.delta),
                "measured": part.measured if math.isfinite(part.measured) else None,
                "leak": part.leak or None,
                "exact": part.exact,
                "how": part.how,
                "pairs": part.pairs,
                "holds": part.holds,
            }
            for part in self
        ]

    def content(self) -> Iterator[str | Block]:
        """Show all findings, and what was measured where that is no loss of a record."""
        rows = [
            (part.network, part.guarantee.relation, as_text(part.guarantee.epsilon), f"{part.measured:.6f}",
             part.how, str(part.pairs),
             "NO" if not part.holds else "yes" if part.exact else "not refuted")
            for part in self
        ]  # fmt: skip
        yield TextTable(("network", "relation", "promised", "measured", "how", "pairs", "holds"), rows)
        for unit in {part.guarantee.unit for part in self if part.guarantee.relation is Relation.METRIC}:
            yield f"promised and measured for each change of {unit}, rounded up; not for a record"


def audit(
    mechanism: Mechanism,
    guarantee: Guarantee,
    networks: Mapping[str, Over] | None = None,
    *,
    most: int = MOST_AUDITED_RECORDS,
    policy: RecordsPolicy = ONE_RECORD,
) -> Findings:
    """Measure a mechanism's loss on all neighbouring data sets of tiny networks or designs.

    Under a metric data sets that differ in one reading are compared: it moves from one bin to another, as little as it
    can, and the loss may be epsilon for each unit, rounded up, that it moves by. Several changes add up.

    Args:
        mechanism: any; its draw must take all randomness from the source it is given.
        guarantee: what it shall promise.
        networks: tiny ones, by name, or designs of at most two weights; None for those that the mechanism takes of
            `MadeUp.tiny`.
        most: records of the larger data set; of units with several records, one more than two neighbours share.
        policy: how many records a unit of protection may have, and what they count.

    Returns:
        A finding for each of them: its loss `measured`, in nats, whether that is `exact`, and whether
            the promise `holds`.

    Raises:
        InputError: the mechanism refuses the guarantee, or takes randomness in a way that cannot be followed; or, under
            a metric, no numeric variable with bins.

    Guarantee:
        None spent, none given: data sets are made up. A finding can refute what a mechanism promises; what holds on
        tiny data sets is evidence for others, and no proof.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> (finding,) = dc.audit(dc.laplace(), promise, {"one coin": coin}, most=1)
        >>> finding.holds, finding.exact, round(finding.measured, 6)
        (True, True, 1.0)
    """
    check_relation(mechanism, guarantee)
    cases = _list_accepted(mechanism, guarantee) if networks is None else networks
    findings = []
    with under_way("auditing") as bar:
        for done, (name, over) in enumerate(cases.items()):
            bar(done, len(cases))
            findings.append(_audit_one(mechanism, name, over, guarantee, most, policy))
    return Findings(findings)


def _list_accepted(mechanism: Mechanism, guarantee: Guarantee) -> dict[str, Over]:
    """List the audit's tiny structures that a mechanism accepts with its options."""
    made_up = made_up_in(mechanism.over)
    accepted, refused = dict[str, Over](), ""
    # Distances that are named are of records, which need no reading.
    relation = Relation.REPLACE if distance_of(guarantee) else guarantee.relation
    for name, over in made_up.tiny(mechanism, relation).items():
        try:
            prior = made_up.default_prior(over)
            mechanism.calibrate(over, prior, guarantee)
            accepted[name] = over
        except InputError as error:
            refused = str(error)
    require(bool(accepted), refused)
    return accepted


def _audit_one(
    mechanism: Mechanism,
    name: str,
    over: Over,
    guarantee: Guarantee,
    most: int,
    policy: RecordsPolicy,
) -> Finding:
    """Audit one structure."""
    made_up = made_up_in(over.domain)
    prior = made_up.default_prior(over)
    policy.check(guarantee)
    # The reported cost is no evidence: it may have a bug.
    calibration = mechanism.calibrate(over, prior, for_each(guarantee, policy.steps))
    check = _find_check(calibration)
    crowd = check.crowd(over, calibration)
    if guarantee.relation is Relation.METRIC:
        kinds = made_up.kinds_of(over)
        rests = rests_of(kinds if len(kinds) < MOST_KINDS else made_up.kinds_of(over, FEW_KINDS), most, crowd)
        apart = dict(check.pairs(over, guarantee, rests))
    else:
        records = made_up.kinds_of(over, MOST_KINDS if policy.steps == 1 else FEW_KINDS, numbers=check.numbers)
        rests = rests_of(records, 1 if check.continuous else most, crowd)
        units = units_of(partial(made_up.kinds_of, over, numbers=check.numbers), policy)
        apart = dict.fromkeys(neighbours(units, rests, guarantee.relation), 1)
    try:
        measured_loss, how = check.measure(Audited(mechanism, calibration, prior, apart, guarantee))
    except Leak as leak:
        return Finding(name, guarantee, math.inf, exact=True, pairs=len(apart), leak=str(leak))
    return Finding(name, guarantee, measured_loss, exact=how == "exactly", pairs=len(apart), how=how, slack=check.slack)


class Audited(NamedTuple):
    """Case of an audit: mechanism, calibration, prior, pairs of data sets, and guarantee."""

    mechanism: Mechanism
    calibration: Any
    prior: Any
    pairs: Pairs
    guarantee: Guarantee


def enumerate_losses(case: Audited) -> tuple[float, str]:
    """Measure the loss of discrete noise and choices by enumeration.

    Args:
        case: what is followed.
    """
    return measure_loss(*case, 1, None), "exactly"


@dataclass(frozen=True)
class Check:
    """Check of a kind of calibration: how its loss is measured.

    Args:
        measure: measures the largest loss; its result says what kind of check found it.
        continuous: whether what is drawn cannot be written down.
        slack: share of the promise that floating point may take.
        asks_anew: whether what is asked may follow from what was drawn.
        numbers: whether records have numbers, and not only the bins of these.
        crowd: how many equal records make a crowd, given the structure and the calibration.
        pairs: lists data sets that differ in a record, with their units, under a metric.
    """

    measure: Callable[[Audited], tuple[float, str]]
    continuous: bool = False
    slack: float = FLOAT_SLACK
    asks_anew: bool = False
    numbers: bool = False
    crowd: Callable[[Any, Any], int] = lambda _over, _calibration: CROWD_RECORDS
    pairs: Callable[[Any, Guarantee, Iterable[Data]], Pairs] = changed_values


CHECKS: Mapping[type, Check] = {
    **dict.fromkeys((TableNoise, GaussianNoise, PlannedNoise, StructureNoise), Check(enumerate_losses)),
    NoiseWithPairs: Check(enumerate_losses, asks_anew=True),
    NumberNoise: Check(enumerate_losses, asks_anew=True, numbers=True),
    FoundBinsNoise: Check(enumerate_losses, asks_anew=True, numbers=True),
}
"""Check of each kind of calibration; a missing kind would be audited as if it had no rows."""


def _find_check(calibration: object) -> Check:
    """Find the check of a calibration: the kernel's of its own kinds, whatever packs say; else a pack's.

    A pack's kind without a check of its own is followed by writing down all that it asks of the source of noise. Where
    it has one, what the audit finds is as good as that check.
    """
    kind = type(calibration)
    if kind in CHECKS:
        return CHECKS[kind]
    if kind not in of_packs("discreet.kinds"):
        raise InputError(f"the audit does not know calibrations of type {kind.__name__}")
    check: Check = dict(of_packs("discreet.checks")).get(kind, Check(enumerate_losses))
    return check


def measure_loss(
    mechanism: Mechanism,
    calibration: Any,
    prior: Prior,
    pairs: Pairs,
    guarantee: Guarantee,
    draws: int,
    real: Any,
) -> float:
    """Measure the largest loss over all pairs and scripts; without draws only search for leaks.

    Args:
        mechanism, calibration, prior, pairs, guarantee: as of `Audited`.
        draws: how many independent draws a release holds, which cost alike; 0 looks for leaks alone.
        real: another calibration by which the draw is run once, without a loss; None for none.

    Returns:
        Nats for each unit.

    Data sets of the same counts are looked at once.

    A loss counts for each unit of its pair. How much noise is asked for may not depend on answers, or what is released
    was chosen among them; but where that is the mechanism's own rule (`NoiseWithPairs`): then every script is charged
    for all that it asked.
    """
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    statistic_from = made_up_in(mechanism.over).statistic_from
    inputs = {data: statistic_from(mechanism, prior.over, data) for data in {data for pair in pairs for data in pair}}
    keys = {data: _make_key(data, counts) for data, counts in inputs.items()}
    different = {(keys[a], keys[b]): units for (a, b), units in pairs.items() if keys[a] != keys[b]}
    by_key = {keys[data]: counts for data, counts in inputs.items()}
    largest = 0.0
    scripts: list[ScriptedAnswers] = [ScriptedAnswers()]
    cells: dict[Any, Any] | None = None
    for number, script in enumerate(scripts):
        logs = {
            key: logged(mechanism, calibration, prior, counts, script, real if number == 0 else None, again=number == 0)
            for key, counts in by_key.items()
        }
        _refuse_requests_by_records(by_key, logs, guarantee.relation)
        if not draws:
            for a, b in different:
                refuse_leaks(logs[a], logs[b])
            different = {}
        losses = (
            loss(logs[a], logs[b], draws, epsilon=epsilon, delta=delta) / units for (a, b), units in different.items()
        )
        largest = max(largest, *losses) if different else largest
        cells = _refuse_changed_requests(logs, None if _find_check(calibration).asks_anew else cells)
        if number == 0:
            scripts += _list_further_scripts(logs.values())
    return largest


def _refuse_changed_requests(logs: Mapping[Any, Log], expected: dict[Any, Any] | None) -> dict[Any, Any]:
    """Refuse a mechanism that fails or whose requests for noise changed; return the number of noisy cells."""
    raised = next((log.raised for log in logs.values() if log.raised), None)
    if raised:
        # All neighbours fail alike; otherwise it would be a leak.
        raise InputError(f"the mechanism fails whatever the records are: {raised}")
    cells = {key: log.source.cells for key, log in logs.items()}
    if expected is not None and cells != expected:
        raise Leak("how much noise is asked for depends on the answers: they are chosen among")
    return cells


def _refuse_requests_by_records(inputs: Mapping[Any, Any], logs: Mapping[Any, Log], relation: Relation) -> None:
    """Refuse a mechanism that asks for more noise of other records, be they neighbours or not; some are far apart."""
    cells = dict[int, Any]()
    for key, log in logs.items():
        number = inputs[key].records if relation.public_number else 0
        if cells.setdefault(number, log.source.cells) != log.source.cells:
            raise Leak("with the answers of the noise held fixed, how much is asked of it depends on the records")


def _make_key(data: Any, counts: Any) -> Any:
    """Make a key that is equal for data sets with equal statistics."""
    if not isinstance(counts, Counts) or counts.wide is not None:
        return tuple(sorted(data))
    sums = (counts.sums.cells, counts.sums.leaves) if counts.sums else ()
    return numbers((counts.tables, counts.joints, *sums))


def _list_further_scripts(logs: Iterable[Log]) -> list[ScriptedAnswers]:
    """List further scripts: other noise, and each alternative of every choice."""
    sources = [log.source for log in logs]
    kinds = range(1, NOISE_SCRIPTS) if any(source.scripted for source in sources) else ()
    widest = max((len(choice) for source in sources for choice in source.choices), default=1)
    widest = min(widest, MOST_FOLLOWED_CHOICES)
    return [
        *(ScriptedAnswers(noise=kind) for kind in kinds),
        *(ScriptedAnswers(choice=index) for index in range(1, widest)),
    ]


# -------------------------------------------------------------------------------------------- statistical bounds
