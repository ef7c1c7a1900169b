"""Sequences of a unit: each record with the one before it, few pairs of each unit, networks over two time slices."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dc
import shell
from discreet.records.records import check_units
from engines import ENGINES
from folding import every
from sources import PEER_WARNINGS, refusal

pytestmark = PEER_WARNINGS

STATES = ("a", "b")
NETWORK = dc.Network(
    (dc.Variable("previous.x", STATES), dc.Variable("x", STATES)), {"previous.x": (), "x": ("previous.x",)}
)
PEOPLE = {"p": "ab", "P": "bbab", "q": "a", "r": "aaaaaa"}
"""Units, and their states in order; one has no pair, and a collation may take two of them for one."""
ADD_REMOVE = dc.tools.RECORD_RELATIONS[0]


def visits(people: dict[str, str], seed: int = 0, kind: str = "number") -> pa.Table:
    """Records in no order, numbered from 8 on, so that text would be in another order."""
    rows = [(who, at, x) for who, states in people.items() for at, x in enumerate(states, 8)]
    rows = [rows[at] for at in np.random.default_rng(seed).permutation(len(rows))]
    places = {
        "number": pa.array([at for _, at, _ in rows], pa.int64()),
        "text": pa.array([str(at) for _, at, _ in rows]),
        "date": pa.array([f"2026-{at:02}-01" for _, at, _ in rows]),
    }
    return pa.table({"who": [row[0] for row in rows], "visit": places[kind], "x": [row[2] for row in rows]})


def pairs(people: dict[str, str]) -> list[int]:
    """How often each pair is there, if all are kept."""
    found = Counter(pair for states in people.values() for pair in pairwise(states))
    return [found[pair] for pair in product("ab", repeat=2)]


def read(table: Any, most: int = 100, salt: str = "s", **how: Any) -> dc.results.Records:
    given = table if isinstance(table, dict) else {"source": table}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_hex", lambda size: salt * size if size > 4 else "0" * 8)
        return dc.read_records(
            given["source"], NETWORK.schema, table=given.get("table"), unit_column="who", order_column="visit",
            max_records=most, **how,
        )  # fmt: skip


def counted(table: Any, most: int = 100, **how: Any) -> np.ndarray:
    return dc.count(read(table, most, **how), NETWORK).tables["x"].ravel()


# ------------------------------------------------------------------------------------------------------------- pairs


@pytest.mark.costly("Records out of their order are found by reading sequences on each engine.")
@pytest.mark.parametrize("engine", ENGINES)
def test_each_record_is_read_with_the_one_before_it(engine: str, tmp_path: Path) -> None:
    for kind, loose in product(("number", "text", "date"), (False, True)):
        given = ENGINES[engine](visits(PEOPLE, kind=kind), tmp_path, loose)
        assert counted(given).tolist() == pairs(PEOPLE), (kind, loose)


@pytest.mark.costly("That a unit moves its own pairs only is seen on each engine.", always=True)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_moves_as_many_pairs_as_are_kept_and_nobody_elses(engine: str, tmp_path: Path) -> None:
    for most, states in product((1, 2), ("a", "ab", "abbb", "babab")):
        before = counted(ENGINES[engine](visits(PEOPLE), tmp_path, True), most)
        assert before.sum() == sum(min(most, len(own) - 1) for own in PEOPLE.values())
        more = counted(ENGINES[engine](visits({**PEOPLE, "new": states}, seed=1), tmp_path, True), most)
        added = more - before
        assert added.min() >= 0 and added.sum() == min(most, len(states) - 1)
        assert all(added <= pairs({"new": states}))


@pytest.mark.costly("An order that follows the table would tell of it; each order is read under each salt.")
def test_records_in_one_place_are_in_an_order_of_their_own() -> None:
    """Whatever the order of the table; and under another salt it may be another."""
    found = set()
    for salt in "stuvwxyz":
        orders = map(list, set(permutations("aab")))
        tables = [pa.table({"who": ["p"] * 3, "visit": [1] * 3, "x": order}) for order in orders]
        seen = {tuple(dc.count(read(table, salt=salt), NETWORK).tables["x"].ravel()) for table in tables}
        assert len(seen) == 1
        found |= seen
    assert len(found) > 1


def test_pairs_are_made_before_incomplete_ones_are_dropped() -> None:
    """`a ? b` has no complete pair: b does not follow a."""
    table = pa.table({"who": ["p"] * 3 + ["q"] * 2, "visit": [1, 2, 3, 1, 2], "x": ["a", "?", "b", "a", "a"]})
    assert counted(table, missing="drop", na_values=["?"]).tolist() == [1, 0, 0, 0]
    refusal(lambda: counted(table, na_values=["?"]), "x")


def test_check_tells_the_curator_of_pairs() -> None:
    use = check_units(read(visits(PEOPLE), 2))
    assert use is not None and (use.units, use.most, use.beyond) == (3, 5, 4)
    faults = dc.check(read(visits({"p": "a?b"})))
    assert [(part.variable, part.unknown) for part in faults] == [("previous.x", 1), ("x", 1)]


# ------------------------------------------------------------------------------------------------------ what is refused


@every(
    ("given", "words"),
    [
        ({"order_column": "visit"}, "tells units apart"),
        ({"order_column": "day", "unit_column": "who"}, "day"),
        ({"order_column": "", "unit_column": "who"}, "no column ''"),
        ({"unit_column": "who"}, "'previous.x'.*--order-column"),
    ],
)
def test_an_order_needs_its_column_and_units(given: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        dc.read_records(visits(PEOPLE), NETWORK.schema, **given)


def test_variables_of_two_slices_are_the_same_ones() -> None:
    table = visits(PEOPLE)
    for variables, words in (
        ((dc.Variable("x", STATES),), "previous.NAME"),
        ((dc.Variable("previous.x", ("b", "a")), dc.Variable("x", STATES)), "need the same states"),
        ((dc.Variable("previous.y", STATES), dc.Variable("x", STATES)), "'y'"),
    ):
        with pytest.raises(dc.InputError, match=words):
            dc.read_records(table, dc.Schema(variables), unit_column="who", order_column="visit")
    only = dc.Network((dc.Variable("previous.x", STATES),), {"previous.x": ()})
    records = dc.read_records(table, only.schema, unit_column="who", order_column="visit", max_records=100)
    assert dc.count(records, only).tables["previous.x"].tolist() == [7, 2]


def test_a_record_without_a_place_is_refused_before_the_charge() -> None:
    rows = {"who": ["p", "p", "q"], "x": ["a", "b", "a"]}
    for places in ([1, None, 1], [None, 1, 1], [None, None, 1]):
        refusal_of = pa.table({**rows, "visit": pa.array(places, pa.int64())})
        with pytest.raises(dc.InputError, match=r"'visit'.*in order.*nothing was spent"):
            counted(refusal_of)


def test_somebodys_only_record_is_refused_without_a_place_or_a_unit() -> None:
    """Nothing is left out without a word."""
    for who, visit, words in ((["p", "p", "q"], [1, 2, None], "'visit'"), (["p", "p", None], [1, 2, 3], "'who'")):
        table = pa.table({"who": who, "visit": pa.array(visit, pa.int64()), "x": ["a", "b", "a"]})
        with pytest.raises(dc.InputError, match=words):
            counted(table)
    use = check_units(read(table))
    assert use is not None and use.without == 1


@every("relation", (dc.Relation.REPLACE, dc.Relation.METRIC))
def test_the_number_of_pairs_is_private(relation: dc.Relation) -> None:
    """Who has one record has no pair."""
    unit = "person" if relation is dc.Relation.REPLACE else "1 mmHg in one reading"
    promise = dc.Guarantee(epsilon=1, delta=0, relation=relation, unit=unit)
    for weights in ("record", "unit"):
        with pytest.raises(dc.InputError, match="single record"):
            read(visits(PEOPLE), 1, weights=weights).policy.check(promise)


# ------------------------------------------------------------------------------------------------------ release, answer


def chains(number: int, length: int, rng: np.random.Generator, stay: Sequence[float]) -> pa.Table:
    """People whose state stays with a probability that depends on it."""
    state = rng.integers(0, 2, number)
    columns = [state]
    for _ in range(length - 1):
        state = np.where(rng.random(number) < np.take(stay, state), state, 1 - state)
        columns.append(state)
    frame = pd.DataFrame(np.array(columns).T).melt(ignore_index=False, var_name="visit", value_name="x").reset_index()
    frame["x"] = np.array(STATES)[frame["x"]]
    return pa.Table.from_pandas(frame.rename(columns={"index": "who"}), preserve_index=False)


@every("weights", ("record", "unit"))
def test_transitions_are_answered_by_people(weights: str) -> None:
    rng = np.random.default_rng(5)
    records = dc.read_records(
        chains(2000, 6, rng, (0.9, 0.6)), NETWORK.schema, unit_column="who", order_column="visit", max_records=5,
        weights=weights,
    )  # fmt: skip
    promise = dc.Guarantee(epsilon=1, delta=0, relation=ADD_REMOVE, unit="person")
    release = dc.simulate(dc.planned(), dc.count(records, NETWORK), dc.Dirichlet.uniform(NETWORK), promise, rng=rng)
    assert "visit" in release.dumps() and dc.Release.loads(release.dumps()).policy == release.policy
    assert "each with the one before it" in "\n".join(release.policy.unit_lines("person"))
    (row,) = dc.answer(dc.noise_aware(release, draws=1000, rng=rng), "P(x=a | previous.x=a)", level=0.999).rows[:1]
    assert row["lower"] < 0.9 < row["upper"] and row["upper"] - row["lower"] < 0.2


def said(run: shell.Shell, command: str) -> str:
    code, out, err = run(command)
    assert code == 0, err
    return out


def test_transitions_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    chains(300, 4, np.random.default_rng(1), (0.8, 0.8)).to_pandas().to_csv("visits.csv", index=False)
    Path("clinic.toml").write_text(
        'arcs = ["previous.x -> x"]\n[source]\ndata = "visits.csv"\n[unit]\nname = "person"\ncolumn = "who"\n'
        'order = "visit"\nmax_records = 3\n[account]\nname = "clinic"\n'
        + "".join(f'[[variables]]\nname = "{name}"\nstates = ["a", "b"]\n' for name in ("previous.x", "x"))
    )
    run.json("ledger open clinic --epsilon 2 --relation add-remove --unit person")
    assert "300" in said(run, "check clinic.toml")
    told = run.json("release clinic.toml --epsilon 1 --output r.json")
    assert "by column 'visit'" in " ".join(told["unit"])
    (answer,) = run.json('query r.json "P(x | previous.x=a)"')["answers"]
    # 357 of 454 here, with real noise of scale 3: it would have to be 19 scales away, once in 10^8 runs.
    assert answer["basis"] == "measured" and 0.65 < answer["values"][0]["mean"] < 0.9
