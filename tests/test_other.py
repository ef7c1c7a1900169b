"""A state that takes all values that are not listed: counted alike by every engine, carried by documents, asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.formats.project_file import Project, draft_project
from engines import DATABASES, ENGINES, on_parquet
from folding import every
from sources import AB, AGE, CANARY, LOGICAL, N01, PEER_WARNINGS, alone, column, counted, csv_file, faults, refusal
from test_engines import KINDS, TABLES

pytestmark = PEER_WARNINGS

WITH_OTHER = {
    "case": dc.Variable("case", ("a", "A", "a "), other="rest"),
    "number": dc.Variable("number", ("0", "1"), other="rest"),
    "word": dc.Variable("word", ("true",), other="rest", missing="none"),
    "years": dc.Variable("years", ("0", "65"), other="rest"),
    "whole": dc.Variable("whole", ("0",), other="rest"),
    "flag": dc.Variable("flag", ("true",), other="false", missing="none"),
}
CHAIN = dc.Network(
    tuple(WITH_OTHER.values()),
    {name: () if not at else (list(WITH_OTHER)[at - 1],) for at, name in enumerate(WITH_OTHER)},
)
XO = replace(AB, other="rest")


@pytest.mark.costly("States and other values that a database compares otherwise are found by counting on each engine.")
@pytest.mark.parametrize("engine", DATABASES)
def test_every_engine_counts_other_values_alike(engine: str, tmp_path: Path) -> None:
    assert len(KINDS) == 7  # all columns of the tables but the ages are taken
    for name in ("clean", "unknown", "dirty"):
        found = []
        for load in (on_parquet, ENGINES[engine]):
            given = load(TABLES[name], tmp_path, False)
            records = dc.read_records(given["source"], CHAIN.schema, table=given.get("table"), missing="drop")
            counts = dc.count(records, CHAIN, [("case", "years"), ("word", "whole")])
            found.append({str(scope): one.tolist() for scope, one in {**counts.tables, **counts.joints}.items()})
        assert found[0] == found[1], name


def wanted(values: list[Any], known: dict[Any, int]) -> list[int]:
    """Counts of matched states and of the others, one value after another."""
    counts = [0] * (max(known.values()) + 2)
    for value in values:
        counts[known.get(value, len(counts) - 1)] += value is not None
    return counts


@every(
    ("variable", "values", "known"),
    [
        (XO, ["a", "b", "c", "rest", None, "A", " a", "", "b"], {"a": 0, "b": 1}),
        (replace(N01, other="9"), [0, 1, 2, -1, 9, None, 1], {0: 0, 1: 1}),
        (replace(N01, other="rest"), [0.0, 1.0, 0.5, float("inf"), -0.0, None], {0.0: 0, 1.0: 1}),
        (dc.Variable("x", ("false",), other="rest"), [True, False, None, True], {False: 0}),
        (dc.Variable("x", (), other="rest"), ["a", None, "b"], {"": 0}),
        (dc.Variable("x", (), other="rest"), [1, None, 2], {0: 0}),
    ],
)
@every("kind", ["arrow", "ibis"])
def test_a_value_that_is_not_listed_counts_as_other(
    kind: str, variable: dc.Variable, values: list[Any], known: dict[Any, int]
) -> None:
    import ibis

    table = column(values)
    source = table if kind == "arrow" else ibis.memtable(table)
    counts = wanted(values, known)
    assert counted(source, variable, missing="drop") == (counts if variable.matched else counts[-1:])
    assert faults(source, variable) == (values.count(None), 0, 0)


def test_missing_values_stay_missing(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x\na\n?\nc\n")
    kept = replace(XO, missing="gone")
    assert (
        kept.states == ("a", "b", "rest", "gone") and kept.values == ("a", "b", "rest") and kept.matched == ("a", "b")
    )
    assert counted(path, kept, missing="keep", na_values=["?"]) == [1, 0, 1, 1]
    assert counted(column(["a", "c", None]), kept, missing="keep") == [1, 0, 1, 1]
    assert counted(path, XO, missing="drop", na_values=["?"]) == [1, 0, 1]
    assert counted(path, XO, missing="drop") == [1, 0, 2]
    refusal(lambda: counted(column(["a", "c", None]), XO), "x")
    for taken in ("rest", "a"):
        refusal(lambda taken=taken: counted(path, XO, na_values=[taken]), "x")
    refusal(lambda: counted(path, replace(N01, other="9"), na_values=["9.0"]), "x")


@every("relation", list(dc.Relation)[:2])
def test_a_value_that_is_not_listed_moves_one_count_as_any_other(relation: dc.Relation) -> None:
    """All tables of two records over five values, and all their neighbours."""
    network = dc.Network((XO, replace(N01, name="y", other="rest")), {"x": (), "y": ("x",)})
    values = [("a", "0"), ("z", "0"), (CANARY, "7"), ("b", CANARY), ("rest", "1.0")]

    def tables(rows: tuple[tuple[str, str], ...]) -> np.ndarray:
        held = pa.table({name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate("xy")})
        counts = dc.count(dc.read_records(held, network.schema), network)
        return np.concatenate([counts.tables[node].ravel() for node in network.nodes])

    bound = dc.tools.sensitivity(network, relation)
    for one in values:
        for rest in values:
            before = tables((one, rest))
            after = [tables((rest,))] if relation is dc.Relation.ADD_REMOVE else [tables((new, rest)) for new in values]
            assert all(np.abs(before - each).sum() <= bound.l1 for each in after)
    assert np.abs(tables((("z", "0"),)) - tables(((CANARY, "0"),))).sum() == 0


def test_a_column_of_identifiers_is_no_more_than_other() -> None:
    held = pa.table({"x": [f"{CANARY}{at}" for at in range(70_000)]})
    import ibis

    assert counted(held, XO) == counted(ibis.memtable(held), XO) == [0, 0, 70_000]


def test_documents_carry_it_and_queries_name_it() -> None:
    network = alone(replace(XO, missing="gone"))
    assert dc.Schema(network.with_missing().variables) == network.schema
    counts = dc.count(dc.read_records(column(["a", "z", "y", None]), network.schema, missing="keep"), network)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    release = dc.tools.loads(dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1).dumps())
    assert release.network == network
    posterior = release.posterior(rng=2, draws=50)
    assert [row["state"] for row in posterior.answer("P(x=rest)").rows] == [{"x": "rest"}]
    with pytest.raises(dc.InputError, match="any other value counts as 'rest'"):
        posterior.answer("P(x=zebra)")


def test_records_that_are_predicted_may_have_values_that_are_not_listed() -> None:
    network = dc.Network((XO, replace(N01, name="y", other="rest"), replace(AB, name="z")),
                         {"x": (), "y": (), "z": ("x", "y")})  # fmt: skip
    counts = dc.tools.count_codes(network, {"x": [0, 1, 2, 2], "y": [0, 1, 2, 0], "z": [0, 1, 1, 0]})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    posterior = release.posterior(rng=2, draws=50)
    one, other = (
        dc.predict(posterior, records, "z").mean
        for records in ({"x": ["a", "zebra"], "y": [7, 0]}, {"x": ["a", "rest"], "y": ["rest", "0"]})
    )
    assert np.array_equal(one, other)


def test_a_project_file_declares_it() -> None:
    text = '[[variables]]\nname = "x"\nstates = ["a", "b"]\nother = "rest"\nmissing = "gone"\n'
    network = Project.parse(text).network
    assert network.schema["x"] == replace(XO, missing="gone")
    drafted = draft_project(network)
    assert 'other = "rest"' in drafted.text and drafted.network == network


@every(
    ("change", "message"),
    [
        (lambda: replace(AGE, other="rest"), "not for numbers"),
        (lambda: dc.Variable("x", ("rest", "a"), other="rest"), "after all others"),
        (lambda: dc.Variable("x", ("a",), other="a", missing="a"), "after all others"),
        (lambda: dc.Variable("x", ("a",), other=""), "not empty"),
        (lambda: dc.Variable("x", ("a",), other=["b"]), "after all others"),  # type: ignore[arg-type]
        (lambda: dc.Variable("x", ("a", "gone", "rest"), other="rest", missing="gone"), "must come after all others"),
    ],
)
def test_what_cannot_be_other_is_refused(change: Any, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        change()


@every("kind", [pa.int64(), pa.bool_()])
def test_a_type_that_cannot_hold_the_listed_states_is_refused(kind: pa.DataType) -> None:
    refusal(lambda: counted(pa.table({"x": pa.array([1], pa.int64()).cast(kind)}), XO), "x")
    assert counted(pa.table({"x": [True, False]}), replace(LOGICAL, other="rest")) == [1, 1, 0]
