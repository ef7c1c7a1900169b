"""Units of several records: what one can do to tables, what mechanisms reveal of it, and what readers make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dc
import shell
from discreet.mechanisms.crossing import calibrate
from discreet.posterior.evidence import blur
from discreet.privacy.guarantee import for_each
from discreet.records.records import check_units
from discreet.releases.policy import RecordsPolicy
from discreet.verify.audit import Finding
from discreet.verify.made_up import NETWORKS
from discreet.verify.tiny_data import audit_networks, units_of
from registry import EVERY, Variant, family
from sources import PEER_WARNINGS
from test_units import ENGINES, KINDS, NEW, PAIR, PEOPLE, Person, frame, table

pytestmark = PEER_WARNINGS

ADD_REMOVE, REPLACE = dc.tools.RECORD_RELATIONS
ROWS = {most: RecordsPolicy("error", "error", "who", most) for most in (2, 3)}
SHARED = {most: RecordsPolicy("error", "error", "who", most, "unit") for most in (2, 3)}


def counted(people: Sequence[tuple[Any, Person]], engine: str, folder: Path, most: int, weights: str) -> np.ndarray:
    given = ENGINES[engine](frame(people), folder)
    read = dc.read_records(
        given.pop("source"), PAIR.schema, unit_column="who", max_records=most, weights=weights, **given
    )
    assert read.unit is not None
    return table(dc.count(replace(read, unit=replace(read.unit, salt="s")), PAIR))


# ---------------------------------------------------------------------------------------------- what one unit changes


@pytest.mark.costly("A unit that moves more records than its limit is found on each engine.", always=True)
@pytest.mark.parametrize("engine", ENGINES)
def test_one_more_unit_is_at_most_so_many_records_of_its_own(engine: str, tmp_path: Path) -> None:
    """Wherever its records stand; its k records are some of its own, and nobody else's are others than before."""
    for most, records in product((2, 3), NEW):
        before = counted(PEOPLE, engine, tmp_path, most, "record")
        assert before.sum() == sum(min(len(own), most) for _, own in PEOPLE)
        for place in (0, 4):
            more = counted([*PEOPLE[:place], ("new", records), *PEOPLE[place:]], engine, tmp_path, most, "record")
            added = more - before
            assert added.sum() == min(len(records), most) and added.min() >= 0
            own = np.zeros((2, 3), np.int64)
            np.add.at(own, tuple(np.array([divmod(KINDS.index(one), 3) for one in records]).T), 1)
            assert np.all(added <= own)


@pytest.mark.parametrize("engine", ENGINES)
def test_each_unit_counts_once_where_its_records_share_its_weight(engine: str, tmp_path: Path) -> None:
    """All its steps and no more, in equal parts: 6 steps are 6 of one record, 3 of two, 2 of three."""
    for records in NEW:
        before = counted(PEOPLE, engine, tmp_path, 3, "unit")
        added = counted([*PEOPLE, ("new", records)], engine, tmp_path, 3, "unit") - before
        assert before.sum() == 6 * len(PEOPLE) and added.sum() == 6 and added.min() >= 0
        assert np.all(added % (6 // min(len(records), 3)) == 0)
    one, other = (counted([*PEOPLE, ("q", own)], engine, tmp_path, 3, "unit") for own in (NEW[0], NEW[3]))
    assert one.sum() == other.sum() and np.abs(one - other).sum() <= 12


def test_incomplete_records_are_dropped_before_a_unit_s_are_chosen() -> None:
    data = pd.DataFrame({"who": [1, 1, 1, 2], "a": ["no", None, "yes", None], "b": ["x", "y", "z", "z"]})
    source = pa.Table.from_pandas(data, preserve_index=False)
    for most, weights, wanted in ((3, "record", 2), (2, "record", 2), (3, "unit", 6)):
        read = dc.read_records(
            source, PAIR.schema, unit_column="who", max_records=most, weights=weights, missing="drop"
        )
        assert table(dc.count(read, PAIR)).sum() == wanted


def test_check_tells_the_curator_how_units_have_records() -> None:
    data = frame([*PEOPLE, (None, [KINDS[0]])])
    read = dc.read_records(pa.Table.from_pandas(data), PAIR.schema, unit_column="who", max_records=2)
    use = check_units(read)
    assert use is not None
    assert (use.units, use.without, use.most, use.beyond) == (4, 1, 6, 5)
    assert check_units(dc.read_records(pa.Table.from_pandas(data), PAIR.schema)) is None


# -------------------------------------------------------------------------------------------- what mechanisms reveal


def losses(variant: Variant, relation: dc.Relation, policy: RecordsPolicy) -> list[Finding]:
    """What the audit finds on one network, or on all designs and choices that there are."""
    arc = audit_networks()["a -> b"]
    small = variant.mechanism in SMALL
    mechanism = variant.make(arc if small else variant.prior.over)
    over = {"a -> b": arc} if small else None
    return list(dc.audit(mechanism, variant.promise(1, relation), over, most=1, policy=policy))


SMALL = ("planned", "laplace", "fourier", "gaussian", "allocated", "posterior_sampler", "map_estimate")
ATTAINED = ("planned", "laplace", "allocated", "scored", "sampled", "noisy_moments")
"""Mechanisms whose loss is the promise itself for some unit of two records, under add-remove."""
ONE_ONLY = {"truncated_posterior"}
"""Read as if every record were a unit of its own, and so refused."""
READ = {name: variant for name, variant in EVERY.items() if variant.mechanism not in ONE_ONLY}


@pytest.mark.parametrize("name", READ)
def test_no_unit_of_two_records_costs_more_than_was_promised(name: str) -> None:
    """All data sets of units with one and two records, on tiny networks: what the audit enumerates, exactly."""
    variant = READ[name]
    found = losses(variant, ADD_REMOVE, ROWS[2])
    assert found and all(finding.holds and not finding.leak for finding in found)
    if name in ATTAINED:
        assert max(finding.measured for finding in found) > 1 - 1e-3


DEAR = pytest.mark.costly("Draws of rows, one for each data set of units, take seconds to enumerate.", always=True)
"""Of mechanisms whose draws are followed row by row."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=DEAR) if each.mechanism in ("posterior_sampler", "map_estimate") else name
        for name, each in READ.items()
        if isinstance(each.prior, dc.Dirichlet)
    ],
)
def test_no_unit_that_counts_once_costs_more_than_was_promised(name: str) -> None:
    """With up to three records in six steps, under both relations."""
    variant = READ[name]
    for relation in variant.relations:
        found = losses(variant, relation, SHARED[3])
        assert found and all(finding.holds and not finding.leak for finding in found)


def test_the_audit_looks_at_units_of_all_sizes() -> None:
    arc = audit_networks()["a -> b"]
    kinds_of = partial(NETWORKS.kinds_of, arc)
    rows, shared = units_of(kinds_of, ROWS[3]), units_of(kinds_of, SHARED[3])
    assert {len(unit) for unit in rows} == {1, 2, 3} and {len(unit) for unit in shared} == {6}
    assert {len(set(unit)) for unit in rows} == {len(set(unit)) for unit in shared} == {1, 2, 3}
    assert units_of(kinds_of, RecordsPolicy("error", "error")) == [((a, b),) for a, b in product((0, 1), repeat=2)]


def test_a_mechanism_that_is_read_record_by_record_takes_one_of_each() -> None:
    variant = EVERY["truncated_posterior"]
    with pytest.raises(dc.InputError, match="max_records=1"):
        calibrate(variant.make(variant.prior.over), variant.prior, variant.promise(), ROWS[2])


def test_what_each_record_may_cost() -> None:
    """Epsilon / k exactly; delta so that the group's, summed as in the theorem, is at most what is wanted, and near."""
    promise = dc.Guarantee(epsilon="0.3", delta="1e-6", relation=ADD_REMOVE, unit="patient")
    assert for_each(promise, 1) is promise
    for number in (2, 3, 12, 27720):
        each = for_each(promise, number)
        assert each.epsilon * number == promise.epsilon and each.unit == "patient"
        total = each.delta * sum(Fraction(math.exp(float(each.epsilon) * at)) for at in range(number))
        assert 1 - 1e-9 < total / promise.delta < 1 + 1e-12


@pytest.mark.costly("Noise that is dearer than k records need is found by calibrating many budgets.")
def test_gaussian_noise_for_k_records_is_hardly_more_than_k_times_that_for_one() -> None:
    """Group privacy is almost tight for it: k times the sensitivity needs exactly k times the scale."""
    network = audit_networks()["a -> b"]
    prior, most = dc.Dirichlet.uniform(network), 0.0
    for epsilon, delta, number in product((0.1, 1, 5), ("1e-9", "1e-6", "1e-3"), (2, 3, 10, 2520)):
        promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation=ADD_REMOVE, unit="patient")
        one = dc.gaussian().calibrate(network, prior, promise).scale
        each = dc.gaussian().calibrate(network, prior, for_each(promise, number)).scale
        assert each > number * one * (1 - 1e-3)
        most = max(most, each / (number * one))
    assert most < 1.07


# ------------------------------------------------------------------------------------------------- what is published


def two_years(most: int, weights: str, seed: int = 1) -> tuple[dc.results.Counts, np.random.Generator]:
    """200 people with up to three alike records."""
    rng = np.random.default_rng(seed)
    people = [(f"p{at}", [KINDS[rng.integers(6)]] * int(rng.integers(1, 4))) for at in range(200)]
    source = pa.Table.from_pandas(frame(people), preserve_index=False)
    read = dc.read_records(source, PAIR.schema, unit_column="who", max_records=most, weights=weights)
    return dc.count(read, PAIR), rng


PRIOR = dc.Dirichlet.uniform(PAIR, 1.0)


def promised(epsilon: object = 2, relation: dc.Relation = ADD_REMOVE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="person")


@pytest.mark.costly("Whole releases, read by chains where tables leave cells open.")
@pytest.mark.parametrize(
    "mechanism",
    ["planned", "laplace", "posterior_sampler", "map_estimate", pytest.param("fourier", marks=pytest.mark.thorough)],
)
def test_releases_say_it_and_are_read_by_people(mechanism: str) -> None:
    """Read from its document; the posterior knows some 200 people, and not their 1,200 steps."""
    counts, rng = two_years(3, "unit")
    made = dc.simulate(dc.tools.MECHANISMS[mechanism](), counts, PRIOR, promised(20), rng=rng)
    release = dc.Release.loads(made.dumps())
    assert release.policy == counts.policy and release.policy.steps == 6
    assert release.unit_lines[0] == "at most 3 records of each person were kept, told apart by column 'who'"
    for part in release.measurements:
        if part.table:
            assert abs(part.values.sum() - 200) < 20
    posterior = dc.noise_aware(release, draws=400, rng=rng, prior=PRIOR)
    width = float(posterior.probabilities["a"][1].std())
    assert width > 0.9 * math.sqrt(0.25 / 202)
    plain = dc.tools.plug_in(release, draws=400, rng=rng, prior=PRIOR)
    if mechanism in ("planned", "laplace", "fourier"):
        assert 0.8 < float(plain.probabilities["a"][1].std()) / math.sqrt(0.25 / 202) < 1.25


def test_the_number_of_units_is_public_under_replace() -> None:
    counts, rng = two_years(3, "unit")
    release = dc.simulate(dc.laplace(), counts, PRIOR, promised(2, REPLACE), rng=rng)
    assert release.records == 200 and dc.Release.loads(release.dumps()).records == 200
    counts, rng = two_years(3, "record")
    with pytest.raises(dc.InputError, match="weights='unit'"):
        dc.simulate(dc.laplace(), counts, PRIOR, promised(2, REPLACE), rng=rng)


def test_releases_that_kept_other_records_are_not_read_as_of_the_same() -> None:
    counts, rng = two_years(2, "record")
    same = [dc.simulate(dc.laplace(), counts, PRIOR, promised(), rng=rng) for _ in range(2)]
    assert dc.noise_aware(dc.combine(*same, data="same"), draws=100, rng=rng).probabilities.draws == 100
    other = dc.simulate(dc.laplace(), two_years(2, "record")[0], PRIOR, promised(), rng=rng)
    with pytest.raises(dc.InputError, match="kept other records"):
        dc.combine(same[0], other, data="same")


@pytest.mark.costly("Chains read six stars of tables.")
def test_stars_are_read_by_people() -> None:
    """Tables whose noise agrees on what they share: totals near 200 people, and noise in people, too."""
    network = dc.Network.from_edges([("a", "b"), ("a", "c")], [dc.Variable(name, ("n", "y")) for name in "abc"])
    rng = np.random.default_rng(4)
    data = {name: rng.choice(["n", "y"], 600) for name in "abc"}
    source = pa.table({"who": np.arange(600) // 3, **data})
    read = dc.read_records(source, network.schema, unit_column="who", max_records=3, weights="unit")
    release = dc.simulate(
        dc.planned(pairs_share=0), dc.count(read, network), dc.Dirichlet.uniform(network), promised(20), rng=rng
    )
    pairs = list(zip(release.measurements, release.payload.measurements, strict=True))
    assert any(part.star is not None for part, _ in pairs)
    for part, raw in pairs:
        assert abs(part.values.sum() - 200) < 10 and abs(raw.values.sum() - 1200) < 60
        assert blur(part).variance(()) == pytest.approx(blur(raw).variance(()) / 36, rel=1e-6)
    posterior = dc.noise_aware(release, draws=400, rng=rng, prior=dc.Dirichlet.uniform(network, 1.0))
    assert 0.85 < float(posterior.probabilities["a"][1].std()) / math.sqrt(0.25 / 200) < 1.3


def test_explain_says_what_a_unit_can_change_and_not_one_of_its_records() -> None:
    """At one promise a unit of two records changes as much as a unit of one: the sampler is tempered for it."""
    found = {}
    for most in (1, 2):
        counts, rng = two_years(most, "record")
        for name, mechanism in (
            ("sampler", dc.research.posterior_sampler()),
            ("score", dc.research.sampled(family(PAIR))),
        ):
            made = dc.simulate(mechanism, counts, mechanism_prior(mechanism), promised("0.5"), rng=rng)
            told = dc.explain(made, [], draws=50, rng=rng)
            assert told.divergence is not None
            found[name, most] = told.divergence.record
            if name == "sampler":
                found["told", most] = told.telling.draws_distance
    for name in ("sampler", "score", "told"):
        assert found[name, 2] == pytest.approx(found[name, 1], rel=0.02)


def mechanism_prior(mechanism: dc.tools.Mechanism) -> dc.Dirichlet:
    return PRIOR if mechanism.only is None else dc.Dirichlet.uniform(mechanism.only)


def test_over_a_design_each_record_counts_once() -> None:
    design = dc.designs.Design((dc.Variable("x", bounds=(0, 1)),), dc.Variable("y", bounds=(0, 2)))
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, 400)
    data = pa.table({"who": np.repeat(np.arange(200), 2), "x": x, "y": x + rng.uniform(0, 0.5, 400)})
    read = dc.read_records(data, design.schema, unit_column="who", max_records=2)
    one, two = (
        dc.simulate(
            dc.tools.MECHANISMS["noisy_moments"](),
            dc.designs.sum_moments(dc.designs.read_rows(design, records)),
            dc.designs.Normal(design, 1.0),
            promised(50),
            rng=rng,
        )
        for records in (dc.read_records(data, design.schema), read)
    )
    assert two.payload.scale == pytest.approx(2 * one.payload.scale, rel=1e-6)
    assert two.unit_payload.sums[0] == pytest.approx(200, abs=1) and one.unit_payload.sums[0] == pytest.approx(
        400, abs=1
    )
    widths = [dc.read(part, draws=400, rng=rng).weights[:, 0].std() for part in (one, two)]
    assert 1.2 < widths[1] / widths[0] < 1.7
    with pytest.raises(dc.InputError, match="each record counts once"):
        dc.designs.read_rows(design, replace(read, policy=SHARED[2]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_records": 0}, "from 1 to 1,000"),
        ({"max_records": 1001}, "from 1 to 1,000"),
        ({"max_records": 13, "weights": "unit"}, "from 1 to 12 where each unit counts once"),
        ({"weights": "people"}, "each record or unit, not 'people'"),
        ({"unit_column": None, "max_records": 2}, "need the column"),
        ({"unit_column": None, "weights": "unit"}, "need the column"),
        ({"one_record_a_unit": True}, "either a column"),
    ],
)
def test_what_cannot_be_done_with_units_is_refused(given: dict[str, Any], words: str) -> None:
    source = pa.Table.from_pandas(frame(PEOPLE), preserve_index=False)
    with pytest.raises(dc.InputError, match=words):
        dc.read_records(source, PAIR.schema, **{"unit_column": "who", **given})


def test_several_records_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    rng = np.random.default_rng(2)
    pd.DataFrame({"who": np.arange(400) // 4, "a": rng.choice(["no", "yes"], 400)}).to_csv("v.csv", index=False)
    Path("s.json").write_text('{"variables": [{"name": "a", "states": ["no", "yes"]}]}', encoding="utf-8")
    for name, relation in (("a", "add-remove"), ("r", "replace")):
        run(f"ledger open {name} --epsilon 9 --relation {relation} --unit person")
    command = "release v.csv --schema s.json --network none --epsilon 1 --unit-column who --max-records 3"
    assert "weights='unit'" in run.fails(f"{command} --account r --output x.json")
    code, _, err = run(f"{command} --account r --weights unit --output u.json")
    assert code == 0 and "each person counts once, in 6 steps" in err
    assert "where noise is said in records, it is in these steps" in err
    code, _, err = run(f"{command} --account a --output w.json")
    assert code == 0 and "intervals take 3 records for one person" in err
    checked = run.json("check v.csv --schema s.json --network none --unit-column who --max-records 3")
    assert checked["units"] == {"units": 100, "without": 0, "most": 4, "beyond": 100} and checked["ok"]
    found = run.json("audit laplace --relation replace --unit person --max-records 2 --weights unit --records 1")
    assert all(0.99 < part["measured"] <= 1 + 1e-7 for part in found["findings"])


@pytest.mark.costly("Whether intervals of people hold shows in many data sets, not in one.")
def test_intervals_hold_where_records_of_a_unit_are_alike() -> None:
    """300 people with five records each, nine in ten of which are the same: 95 % intervals, epsilon 3, of 40 data sets.

    By people they hold in at least 29 but for a chance below 1e-6, Binomial(40, .95); read record by record they hold
    in fewer: the seed is fixed.
    """
    rng = np.random.default_rng(5)
    held = dict.fromkeys(("record", "unit", None), 0)
    for _ in range(40):
        theta, alike = rng.dirichlet([2, 2]), rng.random((300, 5)) < 0.9
        person = rng.choice(2, (300, 1), p=theta)
        states = np.where(alike, person, rng.choice(2, (300, 5), p=theta)).ravel()
        b = np.array(["x", "y", "z"])[rng.integers(3, size=1500)]
        source = pa.table({"who": np.repeat(np.arange(300), 5), "a": np.array(["no", "yes"])[states], "b": b})
        for weights in held:
            how = {} if weights is None else {"unit_column": "who", "max_records": 5, "weights": weights}
            counts = dc.count(dc.read_records(source, PAIR.schema, **how), PAIR)
            release = dc.simulate(dc.laplace(), counts, PRIOR, promised(3), rng=rng)
            posterior = dc.noise_aware(release, draws=200, rng=rng)
            low, high = np.quantile(posterior.probabilities["a"][1], [0.025, 0.975])
            held[weights] += low <= theta[1] <= high
    assert held["record"] >= 29 and held["unit"] >= 29
    assert held[None] < 29
