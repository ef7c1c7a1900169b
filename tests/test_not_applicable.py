"""Gaps that mean "does not apply": what they are read as, and that every engine reads them alike."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import discreet as dc
from discreet.formats.project_file import Project, draft_project
from discreet.model.structural_zeros import possible_cells
from discreet.records.counts import count_codes
from engines import ENGINES, on_parquet
from sources import PEER_WARNINGS

DEAD = dc.Variable("dead", ("no", "yes"), missing="?")
CAUSE = dc.Variable("cause", ("heart", "cancer"), applies_if="dead=yes", not_applicable="alive", missing="unknown")
SITE = dc.Variable("site", ("lung", "skin"), applies_if="cause = cancer", missing="gap")
AGE = dc.Variable("age", bounds=(0, 100), bins=(30, 60), applies_if="dead in {yes}", missing="gap")
NOTE = dc.Variable("note", ("a", "b"), not_applicable="none")
NETWORK = dc.Network.from_edges([("cause", "age")], (DEAD, CAUSE, SITE, AGE, NOTE))
CLAIM = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")


def hospital(n: int = 300, seed: int = 0) -> pa.Table:
    """Records that break every condition."""
    rng = np.random.default_rng(seed)

    def column(*values: str | None) -> list[str | None]:
        return [values[at] for at in rng.integers(len(values), size=n)]

    dead, drawn = column("no", "yes", "yes", None), rng.uniform(-50, 100, n).round(1)
    ages = [float(age) if age > 0 else None for age in drawn]
    kinds = pa.schema([("dead", pa.string()), ("cause", pa.string()), ("site", pa.string()), ("age", pa.float64()),
                       ("note", pa.string())])  # fmt: skip
    columns = {"dead": dead, "cause": column("heart", "cancer", "alive", "unknown", None),
               "site": column("lung", "skin", None), "age": ages, "note": column("a", "b", None)}  # fmt: skip
    return pa.table(columns, kinds)


def read_by_hand(row: dict[str, Any]) -> tuple[str, ...]:
    """What a record is read as, written once more."""
    dead = row["dead"] or "?"
    cause = "alive" if dead == "no" else row["cause"] or "unknown"
    cause = "unknown" if (dead, cause) == ("yes", "alive") else cause
    site = row["site"] or "gap" if cause in ("cancer", "unknown") else "not applicable"
    seen = "gap" if row["age"] is None else AGE.states[int(np.searchsorted([30, 60], row["age"], "right"))]
    age = "not applicable" if dead == "no" else seen
    return dead, cause, site, age, row["note"] or "none"


def counts_by_hand(table: pa.Table) -> npt.NDArray[np.int64]:
    """Joint counts of all columns, read by hand."""
    counts = np.zeros([variable.size for variable in NETWORK.variables], np.int64)
    for row in table.to_pylist():
        counts[tuple(v.code(state) for v, state in zip(NETWORK.variables, read_by_hand(row), strict=True))] += 1
    return counts


def everything(counts: dc.results.Counts) -> list[Any]:
    """All that was counted and summed."""
    assert counts.sums is not None
    tables = [
        *counts.tables.values(),
        *counts.joints.values(),
        *counts.sums.cells.values(),
        *counts.sums.leaves.values(),
    ]
    return [np.asarray(table).tolist() for table in tables]


def test_each_record_is_read_by_its_condition() -> None:
    table = hospital()
    counts = dc.count(dc.read_records(table, NETWORK.schema, missing="keep"), NETWORK, [NETWORK.nodes])
    assert np.array_equal(counts.joint(NETWORK.nodes), counts_by_hand(table))
    held = [row["age"] for row in table.to_pylist() if row["dead"] != "no" and row["age"] is not None]
    assert counts.sums is not None and counts.sums.leaves["age"][:, 0].sum() == len(held)
    grid = counts.sums.grids["age"]
    bins = np.searchsorted([30, 60], held, "right")
    assert counts.sums.total("age") == grid.offsets(np.array(held), bins).sum()


@PEER_WARNINGS
@pytest.mark.costly("Each engine counts by conditions.", always=True)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_reads_conditions_alike(engine: str, tmp_path: Path) -> None:
    table = hospital()
    one, other = on_parquet(table, tmp_path, False), ENGINES[engine](table, tmp_path, True)
    records = [dc.read_records(each["source"], NETWORK.schema, table=each.get("table"), missing="keep")
               for each in (one, other)]  # fmt: skip
    assert everything(dc.count(records[0], NETWORK)) == everything(dc.count(records[1], NETWORK))
    assert dc.check(records[0]) == dc.check(records[1])
    dropped = [dc.read_records(each["source"], NETWORK.schema, table=each.get("table"), missing="drop")
               for each in (one, other)]  # fmt: skip
    assert everything(dc.count(dropped[0], NETWORK)) == everything(dc.count(dropped[1], NETWORK))


def test_the_living_are_not_dropped_for_what_does_not_concern_them() -> None:
    table = pa.table({"dead": ["no", "yes", "yes"], "cause": [None, "heart", None]})
    cause = dc.Variable("cause", ("heart", "cancer"), applies_if="dead = yes")
    network = dc.Network.empty((dc.Variable("dead", ("no", "yes")), cause))
    assert dc.count(dc.read_records(table, network.schema, missing="drop"), network).records == 2
    with pytest.raises(dc.InputError, match="column 'cause'"):
        dc.count(dc.read_records(table, network.schema), network)


@pytest.mark.parametrize("dead_too", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_record_moves_one_cell_of_each_table_whatever_it_holds(relation: str, dead_too: bool) -> None:
    """All records there can be, those that break their conditions included: what is counted is a function of each."""
    dead, cause = dc.Variable("dead", ("no", "yes")), dc.Variable("cause", ("h",), applies_if="dead=yes", missing="u")
    age = dc.Variable("age", bounds=(0, 10), bins=(5,), applies_if="cause = h", missing="g")
    network = dc.Network.empty((dead, cause, age))
    records = list(itertools.product(("no", "yes"), ("h", "u", None, "not applicable"), (0.0, 7.0, None)))

    def count(rows: list[tuple[Any, ...]]) -> dc.results.Counts:
        table = pa.table(dict(zip(network.nodes, map(list, zip(*rows, strict=True)), strict=True)))
        return dc.count(dc.read_records(table, network.schema, missing="keep"), network)

    others = [records[3], records[10], records[12 if dead_too else 5]]
    before = count(others)
    largest = 0
    neighbours = [[*others, row] for row in records] if relation == "add_remove" else [
        [*others[:2], row] for row in records
    ]  # fmt: skip
    for rows in neighbours:
        after = count(rows)
        moved = {scope: np.abs(after.joints[scope] - before.joints[scope]) for scope in before.joints}
        for scope, change in moved.items():
            assert change.sum() <= (1 if relation == "add_remove" else 2)
            possible = possible_cells(network.schema, scope)
            assert possible is None or not change[~possible].any()
            largest = max(largest, int(change.sum()))
        assert before.sums is not None and after.sums is not None
        steps = abs(after.sums.total("age") - before.sums.total("age"))
        assert steps <= 2**14 * (1 if relation == "add_remove" else 2)
    assert largest == (1 if relation == "add_remove" else 2)


@pytest.mark.costly("An engine counts the records of units by their conditions.", always=True)
def test_one_unit_moves_as_many_cells_as_it_has_records() -> None:
    """Units with several records, whatever these hold: of each at most two are counted, each by its own condition."""
    network = dc.Network.empty(
        (dc.Variable("dead", ("no", "yes")), dc.Variable("cause", ("h",), applies_if="dead=yes"))
    )
    kinds = list(itertools.product(("no", "yes"), ("h",)))

    def count(units: list[tuple[str, list[tuple[str, str]]]]) -> dict[Any, npt.NDArray[np.int64]]:
        rows = [(unit, *row) for unit, held in units for row in held]
        table = pa.table(dict(zip(("who", *network.nodes), map(list, zip(*rows, strict=True)), strict=True)))
        records = dc.read_records(table, network.schema, unit_column="who", max_records=2)
        assert records.unit is not None
        return dict(dc.count(replace(records, unit=replace(records.unit, salt="s")), network).joints)

    others = [("p", [kinds[0], kinds[1], kinds[1]]), ("q", [kinds[0]])]
    before, most = count(others), 0
    for held in itertools.combinations_with_replacement(kinds, 3):
        after = count([*others, ("r", list(held))])
        for scope in before:
            moved = np.abs(after[scope] - before[scope])
            most = max(most, int(moved.sum()))
            possible = possible_cells(network.schema, scope)
            assert possible is None or not moved[~possible].any()
    assert most == 2


def test_possible_cells_are_those_that_some_record_can_fall_into() -> None:
    """By enumeration of all states of all columns."""
    joint = np.zeros([variable.size for variable in NETWORK.variables], bool)
    for codes in itertools.product(*(range(v.size) for v in NETWORK.variables)):
        dead, cause, site, age, _ = (v.states[code] for v, code in zip(NETWORK.variables, codes, strict=True))
        joint[codes] = (
            (dead == "?" or (cause == "alive") == (dead == "no"))
            and (dead == "?" or (age == "not applicable") == (dead == "no"))
            and (cause == "unknown" or (site == "not applicable") == (cause != "cancer"))
        )
    for size in (1, 2, 3, 5):
        for scope in itertools.combinations(NETWORK.nodes, size):
            axes = tuple(axis for axis, name in enumerate(NETWORK.nodes) if name not in scope)
            wanted, found = joint.any(axis=axes), possible_cells(NETWORK.schema, scope)
            assert wanted.all() if found is None else np.array_equal(found, wanted), scope


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ((dc.Variable("a", ("x", "y"), applies_if="b = z"), dc.Variable("b", ("u", "w"))), "no state 'z'"),
        (
            (dc.Variable("a", ("x", "y"), applies_if="b in {u, w}"), dc.Variable("b", ("u", "w"))),
            "applies in all states",
        ),
        ((dc.Variable("a", ("x", "y"), applies_if="a = x"),), "depends on itself"),
        (
            (dc.Variable("a", ("x",), applies_if="b in {u, ?}"), dc.Variable("b", ("u", "w"), missing="?")),
            "not by missing",
        ),
        ((dc.Variable("a", ("x", "y"), applies_if="b=u"), dc.Variable("b", ("u", "w"), applies_if="a=x")), "itself"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(variables: tuple[dc.Variable, ...], words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        dc.Schema(variables)


@pytest.mark.parametrize(
    "text", ["", "dead", "dead =", "= yes", "dead = yes, no", "dead in {}", "dead in {a,,b}", "dead in", "x" * 10**6]
)
def test_texts_that_are_no_condition_are_refused(text: str) -> None:
    with pytest.raises(dc.InputError, match="applies_if is 'COLUMN = STATE'"):
        dc.Variable("cause", ("h",), applies_if=text)


def test_conditions_on_conditions_are_few() -> None:
    chain = [
        dc.Variable("x0", ("a", "b")),
        *(dc.Variable(f"x{i}", ("a",), applies_if=f"x{i - 1} = a") for i in range(1, 99)),
    ]
    assert len(dc.Schema(tuple(chain[:16])).conditions) == 15
    for variables in (chain, chain[::-1]):
        with pytest.raises(dc.InputError, match="one on another"):
            dc.Schema(tuple(variables))


def test_a_gap_cannot_mean_two_things_without_a_condition() -> None:
    with pytest.raises(dc.InputError, match="applies_if tells the two apart"):
        dc.Variable("cause", ("h", "c"), missing="?", not_applicable="alive")
    with pytest.raises(dc.InputError, match="are the last ones, after values"):
        dc.Variable("cause", ("alive", "h"), not_applicable="alive")
    with pytest.raises(dc.InputError, match="are the last ones, after values"):
        dc.Variable("cause", ("h",), applies_if="dead=yes", missing="x", not_applicable="x")
    assert dc.Schema((NOTE, dc.Variable("x", ("a",)))).with_missing()["note"] == NOTE


def test_a_condition_needs_its_column_and_an_arc() -> None:
    with pytest.raises(dc.InputError, match="there is no column 'dead'"):
        dc.read_records(hospital(), dc.Schema((CAUSE,)), missing="keep")
    apart = dc.Network((DEAD, CAUSE), {"dead": (), "cause": ()})
    for counted in (
        lambda: dc.count(dc.read_records(hospital(), apart.schema, missing="keep"), apart),
        lambda: count_codes(apart, {"dead": [0], "cause": [2]}),
    ):
        with pytest.raises(dc.InputError, match="add 'dead' -> 'cause'"):
            counted()
    with pytest.raises(dc.InputError, match="nobody knows whether 'cause' applies"):
        dc.read_records(hospital(), dc.Schema((DEAD, dc.Variable("cause", ("heart",), applies_if="dead = yes"))))
    child = dc.Network.from_edges([("cause", "dead")], (DEAD, CAUSE))
    assert child.arcs == (("cause", "dead"),)  # one family holds both
    with pytest.raises(dc.InputError, match="cycle"):
        dc.Network.from_edges([("cause", "note"), ("note", "dead")], (DEAD, CAUSE, NOTE))
    wide = dc.Network.from_edges([], (dc.Variable("age", bounds=(0, 10**6)), dc.Variable("a", ("x",))))
    state = wide.schema["age"].states[0]
    found = dc.Network.empty((wide.schema["age"], dc.Variable("a", ("x",), applies_if=f"age = {state}")))
    with pytest.raises(dc.InputError, match="declare the bins of that column"):
        dc.count(dc.read_records(pa.table({"age": [1.0], "a": ["x"]}), found.schema), found)


def test_a_condition_may_be_on_bins_of_numbers_and_after_clipping() -> None:
    """A number beyond the bounds lies in the bin it is clipped to, for its own column and for the condition alike."""
    age, work = (
        dc.Variable("age", bounds=(0, 100), bins=(15, 65)),
        dc.Variable("work", ("a", "b"), applies_if="age = 15_to_65"),
    )
    old = dc.Variable("old", ("x", "y"), applies_if="age = 65_to_100")
    network = dc.Network.empty((age, work, old))
    table = pa.table({"age": [120.0, 20.0, -3.0], "work": ["a", "a", "b"], "old": ["x", "y", None]})
    counts = dc.count(dc.read_records(table, network.schema, out_of_bounds="clip"), network, [network.nodes])
    assert np.argwhere(counts.joint(network.nodes)).tolist() == [[0, 2, 2], [1, 0, 2], [2, 2, 0]]


def test_a_project_and_a_release_carry_the_declaration() -> None:
    text = """
    [[variables]]
    name = "dead"
    states = ["no", "yes"]
    [[variables]]
    name = "cause"
    states = ["heart", "cancer"]
    applies_if = "dead = yes"
    [[variables]]
    name = "age"
    bounds = [0, 100]
    bins = [50]
    not_applicable = "none"
    applies_if = "dead = yes"
    """
    network = _project(text)
    assert network.parents == {"dead": (), "cause": ("dead",), "age": ("dead",)}
    assert network.schema["cause"].states == ("heart", "cancer", "not applicable")
    assert network.schema["age"].states == ("0_to_50", "50_to_100", "none")
    counts = count_codes(network, {"dead": [0, 1, 1], "cause": [2, 0, 1], "age": [2, 0, 1]})
    release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), CLAIM, rng=np.random.default_rng(0))
    assert dc.tools.loads(release.dumps()).payload.network == network
    assert "applies_if" in release.dumps()


def _project(text: str) -> dc.Network:
    """Read a project, which is drafted again alike."""
    network = Project.parse(text).network
    assert draft_project(network).network == network
    return network
