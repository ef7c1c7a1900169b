"""Sums of numbers are those of a plain loop over the records, on every way of counting, and stay private."""

from __future__ import annotations

import copy
import math
import pickle
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.model.number_grid import NumberGrid, number_grids
from discreet.records.number_sums import MOST_RECORDS, NumberSums
from discreet.releases.kinds.number_tables import NumberTables
from engines import DATABASES, ENGINES
from folding import every
from sources import PEER_WARNINGS, csv_file

pytestmark = PEER_WARNINGS

SEX = dc.Variable("sex", ("f", "m"))
WAIT = dc.Variable("wait", bounds=(0, 60), bins=(5, 10, 30))
AGE = dc.Variable("age", bounds=(0, 99), bins=(18, 40, 65), type="integer")
COST = dc.Variable("cost", bounds=(-10, 1000), bins=(0.5,))
NETWORK = dc.Network((SEX, AGE, WAIT, COST), {"sex": (), "age": ("sex",), "wait": ("age",), "cost": ("wait",)})
"""Pairs of numbers in one family, of a number and states, and a pair in none."""


def gappy(network: dc.Network) -> dc.Network:
    """The network with a state for missing values of each variable."""
    return dc.Network(tuple(replace(one, missing="none") for one in network.variables), dict(network.parents))


MISSING = gappy(NETWORK)
LITTLE = dc.Network((SEX, WAIT, AGE), {"sex": (), "wait": ("sex",), "age": ("wait",)})
"""Engines take a tenth of a second for each table."""
ENDS: dict[str, tuple[Any, ...]] = {
    "sex": ("f", "m"),
    "age": (0, 17, 18, 39, 40, 64, 65, 99),
    "wait": (0.0, 5.0, 4.999999999999999, 10.0, 30.0, 29.999999999999996, 60.0, 0.1, 1 / 3),
    "cost": (-10.0, 0.5, 0.49999999999999994, 1000.0, 77.7),
}
OUTSIDE: dict[str, tuple[Any, ...]] = {
    "sex": ("f", "m"),
    "age": (-1, 100, 2**40, -(2**40)),
    "wait": (-1e-300, 60.00000000000001, 1e308, -1e308, math.inf, -math.inf),
    "cost": (-10.1, 1e300, math.inf),
}


def table_of(seed: int, size: int, *, gaps: bool = False, outside: bool = False) -> pa.Table:
    """Records of random numbers and of those at the ends of bins."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, ends in ENDS.items():
        pool = [*ends, *(OUTSIDE[name] if outside else ()), *((None,) * 3 if gaps else ())]
        if name in ("wait", "cost"):
            low, high = NETWORK.schema[name].bounds or (0, 0)
            pool += rng.uniform(low, high, 20).tolist()
        values = [pool[at] for at in rng.integers(len(pool), size=size)]
        kind = {"sex": pa.string(), "age": pa.int64()}.get(name, pa.float64())
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def plain_offset(variable: dc.Variable, value: float) -> tuple[int, int, int]:
    """Bin, offset and finest leaf of a number, from the edges alone."""
    edges, half = variable.edges, 0.5 if variable.type == "integer" else 0.0
    at = bisect_right(variable.bins, value)
    widest = max(b - a for a, b in pairwise(edges))
    step = widest / 2 / 16384
    reach = math.ceil((edges[at + 1] - edges[at]) / (2 * step) - 1e-6)
    value = max(variable.bounds[0], min(value, variable.bounds[1])) if variable.bounds else value
    steps = (value + (half - (edges[at] + edges[at + 1]) / 2)) / step + 0.5
    offset = max(-reach, min(reach, math.floor(steps)))
    finest = NumberGrid(variable).leaf_edges(NumberGrid(variable).finest).tolist()
    return at, offset, bisect_right(finest[1:-1], value)


def plain_sums(rows: Iterable[Mapping[str, Any]], network: dc.Network) -> dict[str, Any]:
    """Totals, sums by the rows of families, products and leaves, one record after another; `steps` is its weight."""
    grids = number_grids(network)
    found: dict[str, Any] = {}

    def add(key: str, by: int) -> None:
        found[key] = found.get(key, 0) + by

    for row in rows:
        weight = row.get("steps", 1)
        codes, told = {}, {}
        for variable in network.variables:
            value = row[variable.name]
            if value is None:
                codes[variable.name] = variable.size - 1
            elif variable.name in grids:
                told[variable.name] = plain_offset(variable, float(value))
                codes[variable.name] = told[variable.name][0]
            else:
                codes[variable.name] = variable.states.index(value)
        for name, (at, offset, leaf) in told.items():
            anchor = int(grids[name].anchors[at])
            add(f"total {name}", weight * offset)
            add(f"leaf {name} {leaf}", weight)
            add(f"square {name}", weight * (2 * anchor * offset + offset**2))
        for one, two in arcs(network):
            for name, other in ((one, two), (two, one)):
                add(f"row {name} by {other} {codes[other]}", weight * told[name][1] if name in told else 0)
            if one in told and two in told:
                (i, q, _), (j, r, _) = told[one], told[two]
                a, b = int(grids[one].anchors[i]), int(grids[two].anchors[j])
                add(f"product {one} {two}", weight * (a * r + b * q + q * r))
    return {key: value for key, value in found.items() if value}


def arcs(network: dc.Network) -> list[tuple[str, str]]:
    """Each family of two, as parent and child."""
    return [(parents[0], node) for node, parents in network.parents.items() if parents]


def told_sums(sums: NumberSums | None, network: dc.Network) -> dict[str, Any]:
    """The same of what was counted."""
    assert sums is not None
    found: dict[str, Any] = {}
    for name in sums.grids:
        found[f"total {name}"] = sums.total(name)
        found[f"square {name}"] = sums.products(name, name)
        found |= {f"leaf {name} {at}": int(count) for at, count in enumerate(sums.leaves[name][:, 0])}
    for one, two in arcs(network):
        for name, other in ((one, two), (two, one)):
            if name in sums.grids:
                by_row = enumerate(sums.by_row(name, (other,)))
                found |= {f"row {name} by {other} {at}": int(part) for at, part in by_row}
        if one in sums.grids and two in sums.grids:
            found[f"product {one} {two}"] = sums.products(one, two)
    return {key: value for key, value in found.items() if value}


def counted(source: Any, network: dc.Network, **options: Any) -> dc.results.Counts:
    return dc.count(dc.read_records(source, network.schema, **options), network)


CASES: dict[str, tuple[dc.Network, dict[str, bool], dict[str, Any]]] = {
    "complete": (NETWORK, {}, {}),
    "gaps dropped": (NETWORK, {"gaps": True}, {"missing": "drop"}),
    "gaps kept": (MISSING, {"gaps": True}, {"missing": "keep"}),
    "clipped": (NETWORK, {"outside": True}, {"out_of_bounds": "clip"}),
    "gaps kept, clipped": (MISSING, {"gaps": True, "outside": True}, {"missing": "keep", "out_of_bounds": "clip"}),
}


def wanted_sums(table: pa.Table, network: dc.Network, options: Mapping[str, Any]) -> dict[str, Any]:
    rows = table.select(list(network.nodes)).to_pylist()
    if options.get("missing") == "drop":
        rows = [row for row in rows if None not in row.values()]
    return plain_sums(rows, network)


@every("name", CASES)
def test_sums_are_those_of_a_plain_loop(name: str) -> None:
    network, made, options = CASES[name]
    for seed, size in ((1, 400), (2, 1), (3, 0)):
        table = table_of(seed, size, **made)
        assert told_sums(counted(table, network, **options).sums, network) == wanted_sums(table, network, options)


@settings(max_examples=25)
@given(
    numbers=st.lists(st.tuples(st.floats(0, 60), st.integers(0, 99), st.floats(allow_nan=False)), max_size=6),
    keep=st.booleans(),
)
def test_sums_of_any_numbers_are_exact(numbers: list[tuple[float, int, float]], keep: bool) -> None:
    rows = [
        {"sex": "fm"[at % 2], "age": whole, "wait": wait, "cost": None if keep and at == 0 else cost}
        for at, (wait, whole, cost) in enumerate(numbers)
    ]
    kinds = {"sex": pa.string(), "age": pa.int64(), "wait": pa.float64(), "cost": pa.float64()}
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
    options = {"out_of_bounds": "clip", **({"missing": "keep"} if keep else {})}
    network = MISSING if keep else NETWORK
    assert told_sums(counted(pa.table(columns), network, **options).sums, network) == plain_sums(rows, network)


# -------------------------------------------------------------------------------------------------- ways of counting


def as_text(table: pa.Table) -> pa.Table:
    return pa.table({name: pc.cast(table[name], pa.string()) for name in table.column_names})


def as_dictionaries(table: pa.Table) -> pa.Table:
    text = as_text(table)
    return pa.table({name: text[name].dictionary_encode() for name in text.column_names})


def as_narrow(table: pa.Table) -> pa.Table:
    """Whole numbers in fewer bits; other kinds of text."""
    narrow = table.set_column(0, "sex", pc.cast(table["sex"], pa.large_string()))
    if pc.min(table["age"]).as_py() >= -128 and pc.max(table["age"]).as_py() < 128:
        narrow = narrow.set_column(1, "age", pc.cast(table["age"], pa.int8()))
    return narrow


@every("name", CASES)
def test_text_and_dictionaries_sum_alike(name: str) -> None:
    network, made, options = CASES[name]
    table = table_of(7, 300, **made)
    wanted = wanted_sums(table, network, options)
    for form in (as_text, as_dictionaries, as_narrow):
        records = dc.read_records(form(table), network.schema, **options)
        assert records.local is not None
        assert told_sums(dc.count(records, network).sums, network) == wanted


def little(name: str) -> tuple[dc.Network, dict[str, bool], dict[str, Any]]:
    """A case of the smaller network."""
    network, made, options = CASES[name]
    return gappy(LITTLE) if network is MISSING else LITTLE, made, options


@pytest.mark.costly(
    "An engine that does not clip, or sums what is missing, breaks the promise of a release.", always=True
)
@every("name", CASES)
def test_the_engine_sums_alike(name: str) -> None:
    """Numbers, and those in text where something can be wrong with them."""
    network, made, options = little(name)
    table = table_of(7, 300, **made)
    for form in (lambda held: held, as_text)[: 2 if options else 1]:
        records = replace(dc.read_records(form(table), network.schema, **options), local=None)
        assert told_sums(dc.count(records, network).sums, network) == wanted_sums(table, network, options)


def test_files_of_text_sum_alike(tmp_path: Path) -> None:
    table = table_of(8, 200, gaps=True)
    path = tmp_path / "records.csv"
    pyarrow.csv.write_csv(table, path)
    records = dc.read_records(path, MISSING.schema, missing="keep")
    wanted = wanted_sums(table, MISSING, {"missing": "keep"})
    assert records.local is not None
    assert told_sums(dc.count(records, MISSING).sums, MISSING) == wanted


@pytest.mark.costly("The engine's way, where a number that is none may be taken for one.")
def test_numbers_that_stand_for_missing_ones_add_nothing(tmp_path: Path) -> None:
    """Written as numbers or as text, on either way of counting."""
    network = gappy(dc.Network((WAIT, AGE), {"wait": (), "age": ("wait",)}))
    table = pa.table({"wait": [-9.0, 3.0, 59.0], "age": pa.array([20, -9, 30])})
    text = csv_file(tmp_path, "wait,age\n-9.0,20\n3,-9\n59,30\n")
    found = []
    for source in (table, as_text(table), text):
        records = dc.read_records(source, network.schema, missing="keep", na_values=["-9"])
        for way in (records, replace(records, local=None)):
            sums = dc.count(way, network).sums
            assert sums is not None
            found.append((sums.total("wait"), sums.total("age"), sums.products("wait", "age")))
            assert sums.leaves["wait"][:, 0].sum() == 2
    assert len(set(found)) == 1


@pytest.mark.costly("A unit that counts more than its steps in a sum breaks its promise.", always=True)
@every("weights", ["record", "unit"])
def test_records_of_units_sum_in_steps(weights: str) -> None:
    """A unit with one record counts as much as one with three, or a third; which are kept follows from the salt."""
    table = table_of(9, 60)
    who = pa.array(["p", "q", "q", "r", "r", "r", *(f"u{at}" for at in range(54))])
    held = table.append_column("who", who)
    records = dc.read_records(held, LITTLE.schema, unit_column="who", max_records=3, weights=weights)
    times = {"p": 6, "q": 3, "r": 2} if weights == "unit" else {}
    usual = 6 if weights == "unit" else 1
    rows = [{**row, "steps": times.get(row["who"], usual)} for row in held.to_pylist()]
    assert told_sums(dc.count(records, LITTLE).sums, LITTLE) == plain_sums(rows, LITTLE)
    assert records.policy.steps == (6 if weights == "unit" else 3)


@pytest.mark.costly("Each database has its own rules for numbers that are too large, and for none.", always=True)
@pytest.mark.parametrize("engine", DATABASES)
def test_databases_sum_alike(engine: str, tmp_path: Path) -> None:
    """Also of units of two and three records, which share a weight."""
    for name in ("gaps dropped", "gaps kept, clipped"):
        network, made, options = little(name)
        table = table_of(11, 150, **made)
        given_ = ENGINES[engine](table, tmp_path, False)
        records = dc.read_records(given_["source"], network.schema, table=given_.get("table"), **options)
        wanted = wanted_sums(table, network, options)
        assert told_sums(dc.count(records, network).sums, network) == wanted, name
    held = table_of(12, 60).append_column("who", pa.array([f"u{2 * at // 5}" for at in range(60)]))
    found = []
    for source in (ENGINES[engine](held, tmp_path, False), {"source": held}):
        for weights in ("record", "unit"):
            records = dc.read_records(
                source["source"], LITTLE.schema, table=source.get("table"), unit_column="who", max_records=3,
                weights=weights,
            )  # fmt: skip
            found.append(told_sums(dc.count(records, LITTLE).sums, LITTLE))
    assert found[:2] == found[2:] and found[0] != found[1]


def test_blocks_keep_no_number_of_another_column() -> None:
    """A column of states and one of numbers with equal values; and a number that many blocks repeat."""
    values = np.tile(np.array([0.0, 1.0, 59.0]), 40_000)
    network = dc.Network((dc.Variable("n", ("0", "1", "59")), WAIT), {"n": (), "wait": ("n",)})
    table = pa.table({"n": pa.array(values), "wait": pa.array(values)})
    sums = counted(table, network).sums
    assert sums is not None
    each = [plain_offset(WAIT, value)[1] for value in (0.0, 1.0, 59.0)]
    assert sums.by_row("wait", ("n",)).tolist() == [40_000 * offset for offset in each]


# ------------------------------------------------------------------------------------------------------ what is there


def test_counts_are_those_without_sums() -> None:
    """The same table, its numbers as names of bins."""
    table = table_of(4, 300)
    columns = {"sex": table["sex"]}
    for variable in NETWORK.variables[1:]:
        names = [variable.states[bisect_right(variable.bins, value)] for value in table[variable.name].to_pylist()]
        columns[variable.name] = pa.array(names)
    named = tuple(dc.Variable(variable.name, variable.states) for variable in NETWORK.variables)
    plain = dc.Network(named, dict(NETWORK.parents))
    one, other = counted(table, NETWORK), counted(pa.table(columns), plain)
    assert other.sums is None and one.sums is not None
    assert {node: part.tolist() for node, part in one.tables.items()} == {
        node: part.tolist() for node, part in other.tables.items()
    }
    assert {scope: part.tolist() for scope, part in one.joints.items()} == {
        scope: part.tolist() for scope, part in other.joints.items()
    }


def test_codes_have_no_sums() -> None:
    assert dc.tools.count_codes(NETWORK, {name: [0, 1] for name in NETWORK.nodes}).sums is None


def test_sums_show_nothing_and_cannot_be_copied() -> None:
    sums = counted(table_of(5, 37), NETWORK).sums
    assert repr(sums) == str(sums) == "NumberSums(3 columns, private)"
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private"):
            copied(sums)


def heavy(records: int, number: float = 59.99) -> dc.results.Counts:
    """Counts of many records of one number: those of one, so many times."""
    network = dc.Network((WAIT,), {"wait": ()})
    one = counted(pa.table({"wait": [number]}), network)
    assert one.sums is not None
    sums = NumberSums(
        one.sums.grids,
        {key: part * records for key, part in one.sums.cells.items()},
        {name: part * records for name, part in one.sums.leaves.items()},
    )
    tables = dc.Tables(network, {"wait": one.tables["wait"] * records})
    return dc.results.Counts(tables, one.policy, {key: part * records for key, part in one.joints.items()}, sums)


def test_more_records_than_sums_hold_are_refused_before_a_charge() -> None:
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    prior = dc.Dirichlet.uniform(heavy(1).network)
    account = dc.Ledger("sqlite://").open("records", promise)
    with pytest.raises(dc.InputError, match="numbers_share=0") as refused:
        dc.release(dc.planned(), heavy(MOST_RECORDS + 1), prior, promise, account=account)
    assert "\n" not in str(refused.value) and str(MOST_RECORDS + 1) not in str(refused.value)
    assert account.balance().epsilon_left == 1
    made = dc.release(dc.planned(numbers_share=0), heavy(MOST_RECORDS + 1), prior, promise, account=account)
    assert isinstance(made.payload, dc.kinds.NoisyTables)


@every("number", [59.99, 0.0, 10.0])
def test_as_many_records_as_sums_hold_are_released(number: float) -> None:
    """At either end of a bin, where all moments are the largest: noise has room in 64 bits after a charge."""
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    prior = dc.Dirichlet.uniform(heavy(1).network)
    account = dc.Ledger("sqlite://").open("records", promise)
    made = dc.release(dc.planned(), heavy(MOST_RECORDS, number), prior, promise, account=account)
    assert isinstance(made.payload, NumberTables)
    assert abs(made.payload.moments[0]) > 2**40


# ------------------------------------------------------------------------------------------------ networks without them


PLAIN = dc.Network((SEX, dc.Variable("ward", ("a", "b", "c"))), {"sex": (), "ward": ("sex",)})
BOUNDS_ALONE = dc.Network((SEX, dc.Variable("ward", ("a", "b", "c"))), {"sex": (), "ward": ()})


@every("network", [PLAIN, BOUNDS_ALONE])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_network_without_numbers_is_released_as_before(network: dc.Network, relation: dc.Relation) -> None:
    promise = dc.Guarantee(epsilon=1, delta=0, relation=relation, unit="record")
    counts = dc.tools.count_codes(network, {"sex": [0, 1, 1] * 30, "ward": [0, 2, 1] * 30})
    prior = dc.Dirichlet.uniform(network)
    texts = [
        dc.simulate(mechanism, counts, prior, promise, rng=5).dumps()
        for mechanism in (dc.planned(), dc.planned(numbers_share=0), dc.planned(numbers_share="1/2"))
    ]
    assert texts[0] == texts[1] == texts[2]


def test_codes_of_numbers_and_no_share_release_tables_alone() -> None:
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    codes = dc.tools.count_codes(NETWORK, {name: [0, 1] * 50 for name in NETWORK.nodes})
    prior = dc.Dirichlet.uniform(NETWORK)
    one = dc.simulate(dc.planned(), codes, prior, promise, rng=5)
    other = dc.simulate(dc.planned(numbers_share=0), codes, prior, promise, rng=5)
    assert one.dumps() == other.dumps()
    assert one.calibration.total > dc.planned().calibrate(NETWORK, prior, promise).first.total
