"""Family counts equal a slow count on every network, and refuse what is not a record of the schema."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.records import counts as counts_module
from discreet.releases.policy import RecordsPolicy
from networks import asia, theta_of
from sources import AB, CANARY, PEER_WARNINGS, alone, column, refusal, same_counts, slow_counts, slow_joint
from strategies import thetas
from tiny import measured

pytestmark = PEER_WARNINGS


def read(table: Any, network: dc.Network, **options: str) -> dc.results.Records:
    return dc.read_records(table, network.schema, **options)


def by_engine(records: dc.results.Records) -> dc.results.Records:
    """The same records, which are not read in blocks."""
    return replace(records, local=None)


def forbidden(*_arguments: object) -> None:
    pytest.fail("records were read")


# ------------------------------------------------------------------------------------------------------- same counts


@pytest.mark.parametrize("name", ["asia", "child", "alarm"])
def test_counts_equal_a_slow_count(name: str) -> None:
    theta = theta_of(name)
    table = dc.tools.simulate_records(theta, 5000, rng=np.random.default_rng(17))
    found = dc.count(read(table, theta.network), theta.network)
    assert same_counts(found, slow_counts(table, theta.network))
    assert found.records == 5000
    assert found.network == theta.network


@settings(max_examples=30)
@given(theta=thetas(), seed=st.integers(0, 2**32 - 1), n=st.integers(0, 40))
def test_counts_equal_a_slow_count_on_random_networks(theta: dc.Tables, seed: int, n: int) -> None:
    names = theta.network.nodes
    assume(len({name.lower() for name in names}) == len(names))  # DuckDB's names of columns ignore capitals
    table = dc.tools.simulate_records(theta, n, rng=np.random.default_rng(seed))
    assert same_counts(dc.count(read(table, theta.network), theta.network), slow_counts(table, theta.network))


@settings(max_examples=30)
@given(theta=thetas(), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_joint_counts_equal_a_slow_count(theta: dc.Tables, seed: int, data: st.DataObject) -> None:
    """Over any part of a table that is held, in any order; of the same records as codes, too."""
    network = theta.network
    assume(len({name.lower() for name in network.nodes}) == len(network.nodes))
    scope = data.draw(st.lists(st.sampled_from(data.draw(st.sampled_from(measured(network)))), unique=True))
    table = dc.tools.simulate_records(theta, 30, rng=np.random.default_rng(seed))
    codes = sample_codes(theta, 30, np.random.default_rng(seed))
    wanted = slow_joint(table, network, scope)
    for found in (dc.count(read(table, network), network), dc.tools.count_codes(network, codes)):
        assert found.joint(tuple(scope)).dtype == np.int64
        assert np.array_equal(found.joint(tuple(scope)), wanted)


def test_joint_counts_that_are_not_held_are_refused() -> None:
    theta = theta_of("child")
    network = theta.network
    counted = dc.tools.count_codes(network, sample_codes(theta, 10, np.random.default_rng(0)), ())
    counted.require(measured(network))
    ends = (network.nodes[0], network.nodes[-1])
    for ask in (lambda: counted.joint(ends), lambda: counted.require([ends])):
        assert "make the counts with `count`" in refusal(ask)
    families = dc.results.Counts(counted.tables, counted.policy)
    families.require([network.family(node) for node in network.nodes])
    refusal(lambda: families.require(measured(network)))


def test_names_are_data_not_code() -> None:
    names = ('x "y"', "z;--", "ä,ö", " s ", "k0", "n", "'")
    variables = tuple(dc.Variable(name, ("a'b", 'c"; DROP')) for name in names)
    parents = {name: names[max(0, position - 1) : position] for position, name in enumerate(names)}
    network = dc.Network(variables, parents)
    rng = np.random.default_rng(3)
    table = pa.table({name: np.array(variables[0].states)[rng.integers(0, 2, 50)] for name in names})
    records = dc.read_records(table, network.schema)
    assert same_counts(dc.count(records, network), slow_counts(table, network))
    assert not any(part.missing or part.unknown or part.out_of_bounds for part in dc.check(records))


def test_columns_that_differ_in_capitals_only_are_refused_by_name() -> None:
    upper, lower = dc.Variable("X", ("a", "b")), dc.Variable("x", ("a", "b"))
    network = dc.Network((upper, lower), {"X": (), "x": ("X",)})
    table = pa.table({"X": ["a", "a"], "x": ["b", "b"]})
    try:
        found = dc.count(read(table, network), network)
    except dc.InputError as error:
        assert "'x'" in str(error)
    else:
        assert same_counts(found, slow_counts(table, network))


def test_a_family_is_summed_out_of_a_larger_cover_with_its_own_axes() -> None:
    sizes = {"p": 20, "q": 30, "r": 10, "s": 2}
    variables = tuple(dc.Variable(name, tuple(f"{name}{code}" for code in range(size))) for name, size in sizes.items())
    # (r, q, p) has 6,000 cells, more than a cover set may have; s's family lies in no other and lists parents backwards
    network = dc.Network(variables, {"p": ("q", "r"), "q": (), "r": (), "s": ("r", "q")})
    rng = np.random.default_rng(2)
    table = pa.table({name: [f"{name}{code}" for code in rng.integers(0, size, 3000)] for name, size in sizes.items()})
    assert len(network.cover_sets()) == 2
    assert same_counts(dc.count(read(table, network), network), slow_counts(table, network))


def test_the_order_of_records_and_columns_does_not_matter() -> None:
    theta = asia()
    table = dc.tools.simulate_records(theta, 400, rng=np.random.default_rng(3))
    mixed = table.take(np.random.default_rng(4).permutation(400)).select(table.column_names[::-1])
    found = dc.count(read(mixed, theta.network), theta.network)
    assert same_counts(found, slow_counts(table, theta.network))


def test_a_network_may_use_some_of_the_schemas_variables() -> None:
    theta = asia()
    table = dc.tools.simulate_records(theta, 100, rng=np.random.default_rng(3))
    part = dc.Network(tuple(theta.network.schema[name] for name in ("smoke", "lung")), {"smoke": ("lung",), "lung": ()})
    assert same_counts(dc.count(read(table, theta.network), part), slow_counts(table, part))


# ---------------------------------------------------------------------------------------------------- missing values


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(*(st.sampled_from(("a", "b", None)) for _ in "xyz")), max_size=12))
def test_drop_leaves_out_exactly_the_records_that_miss_a_value_of_the_network(rows: list[tuple[str, ...]]) -> None:
    variables = tuple(dc.Variable(name, ("a", "b")) for name in "xyz")
    table = pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate("xyz")})
    network = dc.Network(variables[:2], {"x": ("y",), "y": ()})  # z is in the schema, but not in the network
    records = dc.read_records(table, dc.Schema(variables), missing="drop")
    complete = [row for row in rows if row[0] is not None and row[1] is not None]
    wanted = pa.table({name: pa.array([row[at] for row in complete], pa.string()) for at, name in enumerate("xy")})
    found = dc.count(records, network)
    assert same_counts(found, slow_counts(wanted, network))
    assert found.policy == RecordsPolicy("drop", "error")


def test_every_column_at_fault_is_named_and_no_other() -> None:
    names = ("u", "v", "w", "x", "y")
    variables = (*(dc.Variable(name, ("a", "b")) for name in names[:4]), dc.Variable("y", bounds=(0, 1), bins=(0.5,)))
    network = dc.Network(variables, {name: names[max(0, at - 1) : at] for at, name in enumerate(names)})
    table = pa.table({"u": ["a", "b"], "v": ["a", CANARY], "w": [None, "a"], "x": ["b", "b"], "y": [0.1, 73519.25]})
    message = refusal(lambda: dc.count(read(table, network), network), "v", "w", "y")
    assert "'u'" not in message
    assert "'x'" not in message
    assert "73519" not in message
    assert not any(letter.isdigit() for letter in message)  # nor how many records


# ------------------------------------------------------------------------------------------------------------ limits


def test_a_family_larger_than_the_limit_is_refused_before_a_record_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    theta = asia()
    records = read(dc.tools.simulate_records(theta, 10, rng=np.random.default_rng(0)), theta.network)
    largest = max(math.prod(theta.network.shape(node)) for node in theta.network.nodes)
    dc.count(records, theta.network, cell_limit=largest)
    monkeypatch.setattr(counts_module, "arrow", forbidden)
    monkeypatch.setattr(counts_module, "local_joints", forbidden)
    message = refusal(lambda: dc.count(records, theta.network, cell_limit=largest - 1, progress=forbidden))
    assert "cells" in message


def test_the_default_limit_stands_between_a_wide_family_and_the_memory() -> None:
    variables = tuple(dc.Variable(f"v{at}", tuple(map(str, range(40)))) for at in range(5))
    network = dc.Network(variables, {f"v{at}": tuple(f"v{up}" for up in range(at)) for at in range(5)})
    table = pa.table({variable.name: ["0"] for variable in variables})
    refusal(lambda: dc.count(read(table, network), network), "v4")


def test_identifiers_in_place_of_states_are_refused_without_being_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = dc.Network((AB, dc.Variable("y", ("a", "b"))), {"x": (), "y": ("x",)})
    size = 50_000
    table = pa.table({"x": [f"{CANARY}-{at}" for at in range(size)], "y": ["a"] * size})
    fetched = []

    def watched(expression: Any) -> pa.Table:
        rows = fetch(expression)
        fetched.append(rows.num_rows)
        return rows

    fetch = counts_module.arrow
    monkeypatch.setattr(counts_module, "arrow", watched)
    message = refusal(lambda: dc.count(by_engine(read(table, network)), network), "x")
    assert "'y'" not in message
    assert fetched
    assert max(fetched) <= 10  # two columns of two states and a missing value make nine groups; one more is proof


def test_progress_is_reported_before_the_first_scan_and_after_each() -> None:
    theta = theta_of("child")
    local = read(dc.tools.simulate_records(theta, 20, rng=np.random.default_rng(0)), theta.network)
    scans = len(theta.network.cover_sets(wanted=measured(theta.network)))
    assert 1 < scans < len(theta.network.maximal_families)
    for records, total in ((local, 1), (by_engine(local), scans)):
        calls: list[tuple[int, int]] = []
        dc.count(records, theta.network, (), progress=lambda *call, calls=calls: calls.append(call))
        assert calls == [(done, total) for done in range(total + 1)]


# -------------------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(
    "variable",
    [dc.Variable("z", ("a", "b")), dc.Variable("x", ("b", "a")), dc.Variable("x", ("a", "b", "c"))],
    ids=["unknown", "other order", "more states"],
)
def test_the_networks_variables_must_be_those_of_the_schema(variable: dc.Variable) -> None:
    records = dc.read_records(column(["a"]), dc.Schema((AB,)))
    refusal(lambda: dc.count(records, alone(variable)), variable.name)


@pytest.mark.parametrize(
    "tables",
    [
        {"x": np.array([1.0, 2.0]), "y": np.array([1, 2])},
        {"x": np.array([1, 2], np.int32), "y": np.array([1, 2])},
        {"x": np.array([-1, 4]), "y": np.array([1, 2])},
        {"x": np.array([1, 2]), "y": np.array([1, 3])},
        {"x": np.array([math.nan, 2.0]), "y": np.array([1, 2])},
    ],
    ids=["floats", "32 bits", "negative", "unequal", "nan"],
)
def test_tables_that_cannot_be_counts(tables: dict[str, np.ndarray]) -> None:
    network = dc.Network((AB, dc.Variable("y", ("a", "b"))), {"x": (), "y": ()})
    policy = RecordsPolicy("error", "error")
    assert dc.results.Counts(dc.Tables(network, {"x": np.array([1, 2]), "y": np.array([0, 3])}), policy).records == 3
    message = refusal(lambda: dc.results.Counts(dc.Tables(network, tables), policy))
    assert not any(letter.isdigit() for letter in message.replace("64-bit", ""))


@pytest.mark.parametrize(
    ("joint", "words"),
    [
        (np.array([[1.0, 2.0]] * 2), "64-bit integers"),
        (np.array([[1, 2], [0, -1]]), "not negative"),
        (np.array([[1, 2], [0, 1]]), "the same records"),
        (np.array([[1, 2, 0], [0, 0, 0]]), "one axis for each variable"),
        (np.array([1, 2]), "one axis for each variable"),
        (np.array([[2**53, 3], [0, 0]]), "number of records is larger"),
        (np.array([[1, 0], [0, 2]]), "disagree with those of the family of 'y'"),
    ],
    ids=["floats", "negative", "unequal", "shape", "axes", "many", "others"],
)
def test_joint_tables_that_cannot_be_counts(joint: np.ndarray, words: str) -> None:
    network = dc.Network((AB, dc.Variable("y", ("a", "b"))), {"x": (), "y": ()})
    tables = dc.Tables(network, {"x": np.array([1, 2]), "y": np.array([0, 3])})
    policy = RecordsPolicy("error", "error")
    assert dc.results.Counts(tables, policy, {("x", "y"): np.array([[0, 1], [0, 2]])}).joint(("y", "x")).tolist() == [
        [0, 0],
        [1, 2],
    ]
    assert words in refusal(lambda: dc.results.Counts(tables, policy, {("x", "y"): joint}))


def test_counts_are_frozen() -> None:
    found = dc.count(read(column(["a", "b"]), alone(AB)), alone(AB))
    with pytest.raises(ValueError, match="read-only"):
        found.tables["x"][0] = 5
    with pytest.raises(AttributeError):
        found.tables = None
    with pytest.raises(TypeError):
        found.joints["x",] = found.tables["x"]
    with pytest.raises(ValueError, match="read-only"):
        found.joints["x",][0] = 5
