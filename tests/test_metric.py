"""Guarantees under a metric: kept apart from those of records, and taken only by what declares it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import discreet as dc
from discreet.mechanisms.noise import Noise, scale_for
from discreet.privacy.ledger import Ledger
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.releases.policy import RecordsPolicy
from discreet.reporting.explanation import MetricLimits
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every
from registry import EVERY, NETWORK, Variant
from shell import Shell, opened
from tiny import counts_of

UNIT = "1 step in one reading"
PRESSURE = dc.Network((dc.Variable("pressure", ("low", "normal", "raised", "high")),), {"pressure": ()})
PRIOR = dc.Dirichlet.uniform(PRESSURE)


def promise(epsilon: object = 1, unit: str = UNIT, relation: dc.Relation | str = "metric") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit=unit)


def cumulative(metric: bool = True) -> dc.tools.Mechanism:
    """Noise on how many readings are at most so high: a reading that moves by one step changes one of them, by 1."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        if guarantee.relation is not dc.Relation.METRIC or guarantee.unit != UNIT:
            raise dc.InputError(f"its losses are for each {UNIT}")
        scale, reported = scale_for(1, guarantee.epsilon)
        return TableNoise(1, {"pressure": guarantee.epsilon}, {"pressure": scale}, reported)

    def draw(
        statistic: dc.results.Counts, prior: dc.Dirichlet, calibration: TableNoise, noise: Noise
    ) -> dc.kinds.NoisyCounts:
        total, scale = np.cumsum(statistic.tables["pressure"]), calibration.scales["pressure"]
        noisy = np.append(noise.discrete_laplace(total[:-1], scale), total[-1])
        return dc.kinds.NoisyCounts(PRESSURE, {"pressure": np.diff(noisy, prepend=0)}, {"pressure": scale})

    return dc.tools.Mechanism("cumulative", calibrate, draw, metric=metric)


def readings(*steps: int) -> dc.results.Counts:
    return counts_of(PRESSURE, [(step,) for step in steps])


# ---------------------------------------------------------------------------------------------------------- promises


def test_a_promise_under_a_metric_says_what_it_is() -> None:
    said = str(promise("0.5", "1 mmHg in one reading"))
    assert said == "epsilon 0.5 for each change of 1 mmHg in one reading (metric: protects no record and no person)"


@every(
    "unit", ["record", "person", "1", "0 mmHg", "0.0 mmHg", "mmHg 1", "one mmHg", ".5mmHg", "1 ", "-1 mmHg", "1.  x"]
)
def test_a_unit_that_is_no_amount_is_refused(unit: str) -> None:
    with pytest.raises(dc.InputError, match="an amount and the quantity that changes, such as '1 mmHg in one reading'"):
        promise(1, unit)


@every("unit", ["1 mmHg in one reading", "0.5 kg", ".5 kg", "10 years of one age", "1  step"])
def test_a_unit_that_is_an_amount_is_taken(unit: str) -> None:
    assert promise(1, unit).unit == unit


def test_a_delta_is_said_of_each_unit() -> None:
    asked = dc.Guarantee(epsilon=1, delta="1e-6", relation="metric", unit=UNIT)
    assert str(asked).startswith("epsilon 1, delta 0.000001 for each change of 1 step in one reading (metric: protects")
    assert dc.tools.compose([asked, asked]).delta == 2 * asked.delta


def test_promises_in_the_very_same_unit_add_up_and_no_others() -> None:
    assert dc.tools.compose([promise("0.1"), promise("0.2")]) == promise("0.3")
    for others in (promise(1, "2 steps in one reading"), promise(1, UNIT, "replace"), promise(1, UNIT, "add-remove")):
        for pair in ((promise(), others), (others, promise())):
            with pytest.raises(dc.InputError, match="add up only in the same unit"):
                dc.tools.compose(pair)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_nothing_is_converted_to_or_from_a_metric(relation: dc.Relation) -> None:
    assert dc.tools.convert(promise(), dc.Relation.METRIC) == promise()
    for given, wanted in ((promise(), relation), (promise(1, "record", relation), dc.Relation.METRIC)):
        with pytest.raises(dc.InputError, match="neither can be converted to the other"):
            dc.tools.convert(given, wanted)


def test_no_sensitivity_of_records_holds_under_a_metric() -> None:
    assert [relation.by_record(1, 2) for relation in dc.tools.RECORD_RELATIONS] == [1, 2]
    with pytest.raises(dc.InputError, match="not for distances in a metric"):
        dc.Relation.METRIC.by_record(1, 2)
    with pytest.raises(dc.InputError, match="not for distances in a metric"):
        dc.tools.sensitivity(NETWORK, dc.Relation.METRIC)
    assert [relation.public_number for relation in dc.Relation] == [False, True, True]


# -------------------------------------------------------------------------------------------------------- the ledger


@every("relation", dc.tools.RECORD_RELATIONS)
@every("unit", ["record", UNIT])
def test_the_ledger_never_adds_changes_to_records(relation: dc.Relation, unit: str) -> None:
    """Even where units are called alike."""
    book = Ledger("sqlite://")
    of_records, of_changes = book.open("records", promise(9, unit, relation)), book.open("changes", promise(9))
    for account, guarantee in ((of_records, promise()), (of_changes, promise(1, unit, relation))):
        for pay in (account.check, lambda asked, account=account: account.charge("ab" * 16, "any", asked)):
            with pytest.raises(dc.InputError, match="charges for records and charges under a metric do not add up"):
                pay(guarantee)
        assert account.charges() == ()


def test_an_account_of_changes_holds_their_sum_below_its_limit() -> None:
    account = Ledger("sqlite://").open("changes", promise("0.3"))
    account.charge("a" * 32, "any", promise("0.2"))
    assert account.limit == promise("0.3")
    assert account.charges()[0].guarantee == promise("0.2")
    with pytest.raises(dc.BudgetError):
        account.charge("b" * 32, "any", promise("0.11"))
    with pytest.raises(dc.InputError, match="protects one 1 step in one reading, the guarantee one 2 steps"):
        account.charge("b" * 32, "any", promise("0.1", "2 steps in one reading"))
    assert account.charge("b" * 32, "any", promise("0.1")).epsilon_left == 0


def test_an_account_of_changes_with_a_delta_adds_up_no_gaussian_losses() -> None:
    """They would grow with the square of a distance, and the promise is for every distance."""
    limit, small = (
        dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)
        for epsilon, delta, relation, unit in ((3, "1e-4", "metric", UNIT), ("0.01", 0, "metric", UNIT))
    )
    changes = Ledger("sqlite://").open("changes", limit)
    records = Ledger("sqlite://").open("records", replace_relation(limit))
    for account, asked in ((changes, small), (records, replace_relation(small))):
        account.charge("a" * 32, "any", asked, rho=Fraction(1, 10**5))
    assert records.balance().rho_limit and not changes.balance().rho_limit


def replace_relation(guarantee: dc.Guarantee) -> dc.Guarantee:
    epsilon, delta = guarantee.epsilon, guarantee.delta
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="replace", unit="record")


# -------------------------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("name", EVERY)
def test_every_mechanism_of_records_refuses_a_metric(name: str) -> None:
    """Both before anything is charged, and where a plan or a command asks it alone."""
    variant: Variant = EVERY[name]
    mechanism, asked = variant.make(NETWORK), promise(1, "1 year of one age")
    if mechanism.metric:
        return
    account = Ledger("sqlite://").open("changes", promise(9, "1 year of one age"))
    with pytest.raises(dc.InputError, match=f"mechanism {mechanism.name!r} protects records, and takes no guarantee"):
        dc.release(mechanism, variant.private(5), variant.prior, asked, account=account)
    assert account.charges() == ()
    with pytest.raises(dc.InputError):
        mechanism.calibrate(variant.prior.over, variant.prior, asked)


def test_only_a_mechanism_that_declares_it_takes_a_metric() -> None:
    account = Ledger("sqlite://").open("changes", promise(9))
    with pytest.raises(dc.InputError, match="'cumulative' protects records, and takes no guarantee under a metric"):
        dc.release(cumulative(metric=False), readings(0, 3), PRIOR, promise(), account=account)
    assert account.charges() == ()
    made = dc.release(cumulative(), readings(0, 3), PRIOR, promise(), account=account)
    assert (made.guarantee, made.records, account.charges()[0].guarantee) == (promise(), 2, promise())


def test_the_loss_of_the_small_mechanism_is_the_distance() -> None:
    """Noise is on cumulative counts: the largest log ratio is their L1 distance over the scale. All pairs of three."""
    scale = cumulative().calibrate(PRESSURE, PRIOR, promise()).scales["pressure"]
    tables = {
        steps: np.cumsum(readings(*steps).tables["pressure"]) for steps in combinations_with_replacement(range(4), 3)
    }
    for one, first in tables.items():
        for other, second in tables.items():
            rho = sum(abs(a - b) for a, b in zip(one, other, strict=True))
            assert np.abs(first - second).sum() / scale <= max(rho, 1)
            assert np.abs(first - second).sum() == rho


def test_dropped_records_are_refused_as_their_number_is_public() -> None:
    dropped = replace(readings(0, 1), policy=RecordsPolicy("drop", "error"))
    with pytest.raises(dc.InputError, match="which is public when replacing a record or a metric is the relation"):
        dc.simulate(cumulative(), dropped, PRIOR, promise(), rng=np.random.default_rng(1))


# ------------------------------------------------------------------------------------------------ documents, commands


def made() -> dc.Release:
    account = Ledger("sqlite://").open("changes", promise(9))
    return dc.release(cumulative(), readings(0, 1, 1, 3), PRIOR, promise("0.5"), account=account)


def test_the_document_has_the_relation_the_unit_and_the_number_of_records() -> None:
    release = made()
    again = dc.Release.loads(release.dumps())
    assert (again.guarantee, again.records, again.dumps()) == (promise("0.5"), 4, release.dumps())
    with pytest.raises(dc.InputError, match="states its number of records exactly where it is public"):
        replace(release, records=None)
    with pytest.raises(dc.InputError, match="damaged"):
        dc.Release.loads(release.dumps().replace(UNIT, "person"))
    both = dc.combine(release, made(), data="same")
    assert both.guarantees == (promise(1),)
    other = dc.simulate(
        dc.laplace(), readings(0, 1, 1, 3), PRIOR, promise(1, "record", "replace"), rng=np.random.default_rng(1)
    )
    assert dc.combine(release, replace(other, private=True), data="same").guarantees == (None,)


def by_unit() -> dc.Release:
    """Of a family whose readings can change by 4 units of 1.5 minutes, at 0.5 each."""
    family = dc.research.Family("exponential", (dc.Variable.binned("wait", (0, 6), 12),), {"low": 0.1, "high": 2}, 20)
    asked, prior = promise("0.5", "1.5 minutes in one wait"), dc.Dirichlet.uniform(family.network)
    counts = counts_of(family.network, [(step % 5,) for step in range(40)])
    return dc.simulate(dc.research.sampled(family), counts, prior, asked, rng=np.random.default_rng(3))


def test_an_explanation_tells_what_units_change_by_hand() -> None:
    """Epsilon 0.5: k units are k / 2 nats."""
    found = dc.explain(by_unit(), rng=np.random.default_rng(1)).promise
    assert isinstance(found, MetricLimits)
    assert [change.units for change in found.changes] == [1, 2, 4]
    assert (found.widest, found.unit, found.relation) == (4, "1.5 minutes in one wait", "metric")
    for change in found.changes:
        x = math.exp(change.units / 2)
        assert change.nats == change.units / 2
        assert change.beliefs == pytest.approx({0.01: x / (x + 99), 0.5: x / (x + 1)})
        assert change.distance == pytest.approx((x - 1) / (x + 1))
        assert change.misses == pytest.approx({a: max(1 - x * a, (1 - a) / x) for a in change.misses})
    # Errors of 5 % each: 0.95 = e^(k / 2) 0.05, k = 5.9.
    assert (found.error, found.units) == (0.05, 6)


def test_no_explanation_under_a_metric_speaks_of_a_record_as_protected() -> None:
    found = dc.explain(by_unit(), rng=np.random.default_rng(1))
    text = (
        str(found).replace("protects no record and no person", "").replace("no record and no person is protected", "")
    )
    assert str(found).count("no record and no person") == 2
    assert "record" not in text.replace("no counts were released that could be taken for those of the records", "")
    assert "person" not in text and "somebody who knows all else" in text
    assert (
        "one unit: 1.5 minutes in one wait" in text and "  2 units: odds move by a factor of at most 2.72 (e^1)" in text
    )
    assert "must differ by 6 units or more" in text and "a reading may change by 4 units and odds by 7.39 (e^2)" in text
    told = found.document()
    assert told["telling"] is None
    assert "presence" not in str(told) and "'value'" not in str(told) and "'records'" not in str(told)


def test_a_unit_moves_the_law_of_a_draw_by_no_more_than_it_says() -> None:
    """All pairs of readings beside up to 30 others, the divergence of the draw's laws by enumeration."""
    release = by_unit()
    found = dc.explain(release, rng=np.random.default_rng(1)).divergence
    assert found is not None and found.record is None and found.change is not None
    table, rate, most = release.payload.table_of_scores, release.payload.rate, 0.0
    for crowd, times in product(range(12), (0, 3, 30)):
        laws = [
            softmax(table.base + rate * (table.steps[crowd] * times + steps) / SCORE_STEPS) for steps in table.steps
        ]
        for one, other in product(range(12), repeat=2):
            if abs(one - other) <= 3:  # bins of half a minute: a unit reaches three further at most
                most = max(most, float(np.sum(laws[one] * np.log(laws[one] / laws[other]))))
    assert 0.2 * found.change < most <= found.change


def test_an_explanation_under_a_metric_of_tables_and_queries() -> None:
    found = dc.explain(made(), ["P(pressure)"], rng=np.random.default_rng(1), draws=50)
    assert isinstance(found.promise, MetricLimits) and found.promise.widest is None
    assert [change.units for change in found.promise.changes] == [1, 2, 5, 10]
    assert found.divergence is not None and (found.divergence.record, found.divergence.change) == (None, None)
    assert found.dependences[0].query == "P(pressure)" and "one record moves" not in str(found)
    read = dc.explain(by_unit(), ["P(wait=0_to_0.5)"], rng=np.random.default_rng(1), draws=50)
    assert {prior.prior for prior in read.priors} == {"the family's own"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_commands_say_what_a_metric_protects(run: Shell) -> None:
    told = run(f"ledger open changes --epsilon 2 --relation metric --unit '{UNIT}'")[1]
    assert "for each change of 1 step in one reading (metric: protects no record and no person)" in told
    shown: Any = run.json("ledger show changes")["accounts"][0]
    assert (shown["relation"], shown["unit"]) == ("metric", UNIT)
    assert "an amount and the quantity that changes" in run.fails("ledger open more --epsilon 2 --relation metric")
    told = run.fails("release d.parquet --network asia.bif --account changes --epsilon 1 --output r.json")
    assert "not for distances in a metric" in told
    assert run.json("ledger show changes")["accounts"][0]["charges"] == []
    assert "an amount and the quantity that changes" in run.fails("audit laplace --relation metric")
    assert "protects records" in run.fails(f"audit laplace --relation metric --unit '{UNIT}'")
    planned = run.json(
        f"plan --network asia.bif --epsilon 1 --records 50 --relation metric --unit '{UNIT}' --repeats 1"
    )
    refused = [part["refused"] for part in planned["expected"] if part["mechanism"] in dc.tools.MECHANISMS]
    assert refused and all("not for distances in a metric" in reason for reason in refused)


def test_a_release_of_changes_is_explained_and_audited_from_the_shell(run: Shell) -> None:
    by_unit().save("wait.json")
    told = run("explain wait.json")[1]
    assert (
        "What can be learned of a change in one reading" in told and "5 % on either side they must differ by 6" in told
    )
    assert run.json("explain wait.json")["promise"]["changes"][1]["nats"] == 1.0
    words = f"audit sampled --relation metric --unit '{UNIT}' --epsilon 0.5 --records 1"
    table = run(words)[1]
    assert "for each change of 1 step in one reading, rounded up; not for a record" in table
    (found,) = run.json(words)["findings"]
    assert (found["relation"], found["unit"], found["promised"], found["holds"]) == ("metric", UNIT, "0.5", True)
    assert 0.4 < found["measured"] <= 0.5


def test_an_export_says_what_a_metric_protects(run: Shell) -> None:
    made().save("metric.json")
    assert run("export metric.json --output out.bif --draws 40")[0] == 0
    assert "for each change of 1 step in one reading (metric: protects no record and no person)" in (
        Path("out.bif").read_text()
    )
