"""Guarantees under a metric: kept apart from those of records, and taken only by what declares it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.mechanisms.noise import Noise, scale_for
from discreet.privacy.ledger import Ledger
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.releases.release import RecordsPolicy
from folding import every
from registry import EVERY, NETWORK, Variant
from shell import Shell, opened
from tiny import counts_of

UNIT = "1 step in one reading"
PRESSURE = dc.Network((dc.Variable("pressure", ("low", "normal", "raised", "high")),), {"pressure": ()})
PRIOR = dc.Dirichlet.uniform(PRESSURE)


def promise(epsilon: object = 1, unit: str = UNIT, relation: dc.Relation | str = "metric") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit=unit)


def cumulative(metric: bool = True) -> dc.Mechanism[TableNoise]:
    """Noise on how many readings are at most so high: a reading that moves by one step changes one of them, by 1."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        if guarantee.relation is not dc.Relation.METRIC or guarantee.unit != UNIT:
            raise dc.InputError(f"its losses are for each {UNIT}")
        scale, reported = scale_for(1, guarantee.epsilon)
        return TableNoise(1, {"pressure": guarantee.epsilon}, {"pressure": scale}, reported)

    def draw(statistic: dc.Counts, prior: dc.Dirichlet, calibration: TableNoise, noise: Noise) -> dc.NoisyCounts:
        total, scale = np.cumsum(statistic.tables["pressure"]), calibration.scales["pressure"]
        noisy = np.append(noise.discrete_laplace(total[:-1], scale), total[-1])
        return dc.NoisyCounts(PRESSURE, {"pressure": np.diff(noisy, prepend=0)}, {"pressure": scale})

    return dc.Mechanism("cumulative", calibrate, draw, metric=metric)


def readings(*steps: int) -> dc.Counts:
    return counts_of(PRESSURE, [(step,) for step in steps])


# ---------------------------------------------------------------------------------------------------------- promises


def test_a_promise_under_a_metric_says_what_it_is() -> None:
    said = str(promise("0.5", "1 mmHg in one reading"))
    assert said == "epsilon 0.5 for each change of 1 mmHg in one reading (metric: protects no record and no person)"


@every(
    "unit", ["record", "person", "1", "0 mmHg", "0.0 mmHg", "mmHg 1", "one mmHg", ".5mmHg", "1 ", "-1 mmHg", "1.  x"]
)
def test_a_unit_that_is_no_amount_is_refused(unit: str) -> None:
    with pytest.raises(dc.InputError, match="an amount and what changes by it, such as '1 mmHg in one reading'"):
        promise(1, unit)


@every("unit", ["1 mmHg in one reading", "0.5 kg", ".5 kg", "10 years of one age", "1  step"])
def test_a_unit_that_is_an_amount_is_taken(unit: str) -> None:
    assert promise(1, unit).unit == unit


def test_a_delta_is_refused() -> None:
    with pytest.raises(dc.InputError, match="a guarantee under a metric is pure; ask for delta 0"):
        dc.Guarantee(epsilon=1, delta="1e-6", relation="metric", unit=UNIT)


def test_promises_in_the_very_same_unit_add_up_and_no_others() -> None:
    assert dc.compose([promise("0.1"), promise("0.2")]) == promise("0.3")
    for others in (promise(1, "2 steps in one reading"), promise(1, UNIT, "replace"), promise(1, UNIT, "add-remove")):
        for pair in ((promise(), others), (others, promise())):
            with pytest.raises(dc.InputError, match="adds up with others in the very same unit only"):
                dc.compose(pair)


@every("relation", dc.RECORD_RELATIONS)
def test_nothing_is_converted_to_or_from_a_metric(relation: dc.Relation) -> None:
    assert dc.convert(promise(), dc.Relation.METRIC) == promise()
    for given, wanted in ((promise(), relation), (promise(1, "record", relation), dc.Relation.METRIC)):
        with pytest.raises(dc.InputError, match="neither is turned into the other"):
            dc.convert(given, wanted)


def test_no_sensitivity_of_records_holds_under_a_metric() -> None:
    assert [relation.by_record(1, 2) for relation in dc.RECORD_RELATIONS] == [1, 2]
    with pytest.raises(dc.InputError, match="not for distances in a metric"):
        dc.Relation.METRIC.by_record(1, 2)
    with pytest.raises(dc.InputError, match="not for distances in a metric"):
        dc.sensitivity(NETWORK, dc.Relation.METRIC)
    assert [relation.public_number for relation in dc.Relation] == [False, True, True]


# -------------------------------------------------------------------------------------------------------- the ledger


@every("relation", dc.RECORD_RELATIONS)
@every("unit", ["record", UNIT])
def test_the_ledger_never_adds_changes_to_records(relation: dc.Relation, unit: str) -> None:
    """Even where units are called alike."""
    book = Ledger("sqlite://")
    of_records, of_changes = book.open("records", promise(9, unit, relation)), book.open("changes", promise(9))
    for account, guarantee in ((of_records, promise()), (of_changes, promise(1, unit, relation))):
        for pay in (account.check, lambda asked, account=account: account.charge("ab" * 16, "any", asked)):
            with pytest.raises(dc.InputError, match="charges for records and charges under a metric never add up"):
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


def test_nothing_is_explained_of_a_record_under_a_metric() -> None:
    with pytest.raises(dc.InputError, match="this release promises nothing of that"):
        dc.explain(made(), [], rng=np.random.default_rng(1))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_commands_say_what_a_metric_protects(run: Shell) -> None:
    told = run(f"ledger open changes --epsilon 2 --relation metric --unit '{UNIT}'")[1]
    assert "for each change of 1 step in one reading (metric: protects no record and no person)" in told
    shown: Any = run.json("ledger show changes")["accounts"][0]
    assert (shown["relation"], shown["unit"]) == ("metric", UNIT)
    assert "an amount and what changes by it" in run.fails("ledger open more --epsilon 2 --relation metric")
    told = run.fails("release d.parquet --network asia.bif --account changes --epsilon 1 --output r.json")
    assert "not for distances in a metric" in told
    assert run.json("ledger show changes")["accounts"][0]["charges"] == []
    assert "tries data sets that differ in one record" in run.fails("audit laplace --relation metric")
    planned = run.json(
        f"plan --network asia.bif --epsilon 1 --records 50 --relation metric --unit '{UNIT}' --repeats 1"
    )
    refused = [part["refused"] for part in planned["expected"] if part["mechanism"] in dc.MECHANISMS]
    assert refused and all("not for distances in a metric" in reason for reason in refused)


def test_an_export_says_what_a_metric_protects(run: Shell) -> None:
    made().save("metric.json")
    assert run("export metric.json --output out.bif --draws 40")[0] == 0
    assert "for each change of 1 step in one reading (metric: protects no record and no person)" in (
        Path("out.bif").read_text()
    )
