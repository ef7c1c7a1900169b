"""Nothing of a record gets out but the payload: no value in any text or file, and nothing else that depends on one."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import random
import secrets
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.cli.cli import main
from discreet.mechanisms import crossing
from discreet.mechanisms.noise import ExactNoise
from folding import every
from sources import CANARY, PEER_WARNINGS, alone, column, csv_file, said

pytestmark = PEER_WARNINGS
NUMBER = 73519.25
"""A canary that is a number."""
NETWORK = dc.Network(
    (dc.Variable("x", ("a", "b", "never")), dc.Variable("y", bounds=(0, 10), bins=(5,))), {"x": (), "y": ("x",)}
)
BIF = """network n { } variable x { type discrete [ 3 ] { a, b, never }; }
variable y { type discrete [ 2 ] { low, high }; }
probability ( x ) { } probability ( y | x ) { }
"""
SCHEMA = '{"variables": [{"name": "y", "bounds": [0, 10], "bins": [5]}]}'


def promise(relation: str = "add-remove", epsilon: str = "1") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def rows(n: int, **last: Any) -> pa.Table:
    """Records whose last one has some other values; a column beside the network holds the canary."""
    cells: dict[str, list[Any]] = {
        "x": [("a", "b")[at % 2] for at in range(n)],
        "y": [at % 10 + 0.5 for at in range(n)],
        "name": [f"{CANARY} {at}" for at in range(n)],
    }
    for name, value in last.items():
        cells[name][-1] = value
    return pa.table(cells)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a network, its schema, and one account for each relation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{tmp_path / 'discreet-ledger.db'}")
    Path("n.bif").write_text(BIF)
    Path("s.json").write_text(SCHEMA)
    for relation in dc.tools.RECORD_RELATIONS:
        dc.Ledger("sqlite:///discreet-ledger.db").open(relation.value, promise(relation, "100"))
    return tmp_path


def charges() -> int:
    """Charges in the working folder's ledger, read without the package."""
    base = sqlite3.connect("discreet-ledger.db")
    (found,) = base.execute("SELECT count(*) FROM discreet_entries WHERE kind = 'charged'").fetchone()
    base.close()
    return int(found)


def released(data: str, *options: str, relation: str = "add-remove") -> int:
    arguments = ["--network", "n.bif", "--schema", "s.json", "--account", relation, "--epsilon", "1"]
    return main(["release", data, *arguments, "--output", "r.json", *options])


# ---------------------------------------------------------------------------------------------------------- canaries


def _late_row(folder: Path) -> Path:
    return csv_file(folder, "x,y\n" + "a,1\n" * 30_000 + f"b,{CANARY},{NUMBER}\n")


def _bad_text(folder: Path) -> str:
    with sqlite3.connect(folder / "bad.db") as base:
        base.execute("CREATE TABLE people (x TEXT, y TEXT)")
        base.execute("INSERT INTO people VALUES (CAST(? AS TEXT), '1')", (CANARY.encode() + b"\xff",))
    base.close()
    return f"sqlite:///{folder / 'bad.db'}"


def _file(**last: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(rows(20, **last), folder / "r.parquet")
        return folder / "r.parquet"

    return write


HOSTILE: dict[str, Callable[[Path], Path | str]] = {
    "unknown state": _file(x=CANARY),
    "out of bounds": _file(y=NUMBER),
    "no number": lambda folder: csv_file(folder, f"x,y\na,1\nb,{CANARY}\n"),
    "canary as header": lambda folder: csv_file(folder, f"x\na,{CANARY}\nb,{NUMBER}\n"),
    "row too long": _late_row,
    "bad UTF-8": lambda folder: csv_file(folder, f"x,y\n{CANARY},\xe9\n".encode("latin-1")),
    "open quote": lambda folder: csv_file(folder, f'x,y\n"{CANARY},1\n{CANARY},2\n'),
    "no gzip": lambda folder: csv_file(folder, f"x,y\n{CANARY},{NUMBER}\n", "r.csv.gz"),
    "no Parquet": lambda folder: csv_file(folder, f"PAR1 {CANARY} {NUMBER} PAR1", "r.parquet"),
    "bad text in a database": _bad_text,
}


def clean(text: str) -> bool:
    return CANARY not in text and "73519" not in text


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_error_or_log_shows_a_value(
    kind: str, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    source = HOSTILE[kind](folder)
    with pytest.raises(dc.InputError) as caught:
        table = "people" if "://" in str(source) else None
        records = dc.read_records(source, NETWORK.schema, table=table)
        assert clean(repr(records) + str(records))
        dc.count(records, NETWORK)
    assert clean(said(caught.value))
    assert clean(caplog.text)
    assert clean("".join(capfd.readouterr()))


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_shows_or_writes_a_value(kind: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = str(HOSTILE[kind](folder))
    table = ("--table", "people") if "://" in source else ()
    check = ["check", source, "--network", "n.bif", "--schema", "s.json", *table]
    assert main([*check, "--debug"]) == main([*check, "--json"]) == 2
    assert released(source, "--debug", *table) == released(source, "--json", "--missing", "drop", *table) == 2
    out, err = capfd.readouterr()
    assert "Traceback" in err
    assert clean(out + err)
    assert charges() == 0
    assert not Path("r.json").exists()


def test_a_release_holds_nothing_of_the_other_columns(
    folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    source = str(_file(y=NUMBER)(folder))
    assert released(source, "--out-of-bounds", "clip", "--debug") == 0
    assert main(["query", "r.json"]) == main(["ledger", "show", "add-remove"]) == 0
    written = [path for path in folder.iterdir() if path.suffix in (".json", ".db")]
    assert {path.name for path in written} >= {"r.json", "discreet-ledger.db"}
    assert all(clean(path.read_bytes().decode("latin-1")) for path in written)
    assert clean("".join(capfd.readouterr()) + caplog.text)


def test_records_and_counts_show_nothing_and_cannot_be_copied() -> None:
    table = column([f"{CANARY}{at % 2}" for at in range(73519)])
    network = alone(dc.Variable("x", (f"{CANARY}0", f"{CANARY}1")))
    records = dc.read_records(table, network.schema)
    counts = dc.count(records, network)
    for private in (records, counts, counts.tables):
        shown = f"{private!r} {private} {private:}"
        assert clean(shown)
        assert "36760" not in shown
    for private in (records, counts):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="private"):
                copied(private)


DESIGN = dc.designs.Design((dc.Variable("x", bounds=(0, 73519.25)),), dc.Variable("y", (CANARY, "other")))
LINE = dc.designs.Design(DESIGN.features, dc.Variable("z", bounds=(0, 73519.25)))


def test_rows_and_their_sums_show_nothing_and_cannot_be_copied() -> None:
    classes = dc.designs.read_rows(DESIGN, np.full((73519, 1), NUMBER), [CANARY] * 73519)
    line = dc.designs.read_rows(LINE, np.full((73519, 1), NUMBER), np.full(73519, NUMBER))
    for private in (classes, line, dc.designs.sum_moments(line), dc.designs.sum_gradients(classes)):
        shown = f"{private!r} {private} {private:} {[private]} {vars(type(private))['__doc__']}"
        assert clean(shown)
        assert "4096" not in shown
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="private") as caught:
                copied(private)
            assert clean(said(caught.value))


@pytest.mark.parametrize(
    ("design", "features", "target"),
    [
        (LINE, [[CANARY]], [1.0]),
        (LINE, [[NUMBER, NUMBER]], [1.0]),
        (LINE, [[NUMBER]], [CANARY]),
        (LINE, [[NUMBER]], [math.nan]),
        (LINE, [[math.inf]], [NUMBER]),
        (LINE, [[int(NUMBER) * 10**400]], [NUMBER]),
        (LINE, [[NUMBER], [NUMBER, NUMBER]], [NUMBER]),
        (LINE, [[NUMBER]], [NUMBER, NUMBER]),
        (LINE, [[NUMBER]], None),
        (DESIGN, [[NUMBER]], [f"{CANARY} and more"]),
        (DESIGN, [[NUMBER]], [NUMBER]),
        (DESIGN, [[CANARY]], ["other"]),
    ],
)
def test_no_error_about_rows_shows_a_value(
    design: dc.designs.Design,
    features: Any,
    target: Any,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(dc.InputError) as caught:
        dc.designs.read_rows(design, features, target)
    # The traceback quotes the line of this test, which names no value.
    assert clean(said(caught.value))
    assert clean(caplog.text + "".join(capfd.readouterr()))


@pytest.mark.parametrize("kind", ["row too long", "open quote", "bad UTF-8", "bad text in a database"])
def test_no_error_in_the_middle_of_a_pass_shows_a_value(kind: str, folder: Path) -> None:
    """Rows of a design are read as they come: an engine can fail between two blocks of them."""
    design = dc.designs.Design((dc.Variable("y", bounds=(0, 10)),), dc.Variable("x", ("a", "b")))
    source = HOSTILE[kind](folder)
    with pytest.raises(dc.InputError) as caught:
        dc.designs.read_rows(
            design, dc.read_records(source, design.schema, table="people" if "://" in str(source) else None)
        )
    assert clean(said(caught.value))


def test_sums_refuse_other_targets_without_a_value() -> None:
    classes, line = dc.designs.read_rows(DESIGN, [[NUMBER]], [CANARY]), dc.designs.read_rows(LINE, [[NUMBER]], [NUMBER])
    for refused in (lambda: dc.designs.sum_moments(classes), lambda: dc.designs.sum_gradients(line)):
        with pytest.raises(dc.InputError) as caught:
            refused()
        assert clean(said(caught.value))


# ------------------------------------------------------------------------------------------------------------ replay


class Day(datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: Any = None) -> Day:
        return cls(2026, 1, 2, tzinfo=tz or UTC)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism whose output is a constant: whatever still depends on the records is a leak."""

    def constant(_noise: object, values: np.ndarray, _scale: float, *_shape: str) -> np.ndarray:
        return np.full(values.shape, 7, np.int64)

    monkeypatch.setattr(ExactNoise, "discrete_laplace", constant)
    monkeypatch.setattr(ExactNoise, "k_norm", constant)
    monkeypatch.setattr(secrets, "token_hex", lambda _size=16: "0" * 32)
    monkeypatch.setattr(crossing, "datetime", Day)


def everything(table: pa.Table, relation: str, place: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> tuple:
    """All that a release shows: exit code, stdout, stderr, document, charge."""
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{place / 'discreet-ledger.db'}")
    Path("n.bif").write_text(BIF)
    Path("s.json").write_text(SCHEMA)
    dc.Ledger("sqlite:///discreet-ledger.db").open(relation, promise(relation, "3"))
    pq.write_table(table, "d.parquet")
    code = released("d.parquet", "--missing", "drop" if relation == "add-remove" else "error", relation=relation)
    shown = capfd.readouterr()
    base = sqlite3.connect("discreet-ledger.db")
    columns = "account, release, mechanism, epsilon, delta"
    paid = base.execute(f"SELECT {columns} FROM discreet_entries WHERE kind = 'charged'").fetchall()
    base.close()
    return code, shown.out, shown.err, Path("r.json").read_text(), paid


NEIGHBOURS = {
    "one more": ("add-remove", rows(40), rows(41)),
    "none and one": ("add-remove", rows(1).slice(0, 0), rows(1)),
    "one more, incomplete": ("add-remove", rows(40), rows(41, x=None)),
    "first of its state": ("add-remove", rows(40), rows(41, x="never")),
    "last value": ("replace", rows(40), rows(40, y=9.75)),
    "first of its state, replaced": ("replace", rows(40), rows(40, x="never", y=0.0)),
}


@pytest.mark.parametrize("kind", NEIGHBOURS)
@pytest.mark.usefixtures("frozen")
def test_all_but_the_payload_is_the_same_for_neighbours(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    relation, one, other = NEIGHBOURS[kind]
    first = everything(one, relation, tmp_path / "one", monkeypatch, capfd)
    assert first == everything(other, relation, tmp_path / "other", monkeypatch, capfd)
    assert first[0] == 0
    release = dc.Release.loads(first[3])
    assert release.records == (40 if relation == "replace" else None)
    assert {scope: table.shape for scope, table in release.payload.first.tables.items()} == {("x", "y"): (3, 2)}
    assert {node: release.payload.first.table(node).tolist() for node in NETWORK.nodes} == {
        "x": [14] * 3,
        "y": [[7, 7]] * 3,
    }


@pytest.mark.costly("A number that moves more than one cell breaks the sensitivity; each policy is tried.", always=True)
@every("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5.0, 10.0])
@every("missing", ["error", "drop"])
@every("out_of_bounds", ["error", "clip"])
def test_a_hostile_number_is_refused_or_moves_one_cell_by_one(value: float, missing: str, out_of_bounds: str) -> None:
    def counts(table: pa.Table) -> dc.results.Counts:
        records = dc.read_records(table, NETWORK.schema, missing=missing, out_of_bounds=out_of_bounds)
        return dc.count(records, NETWORK)

    refused = (missing == "error" and math.isnan(value)) or (out_of_bounds == "error" and not 0 <= value <= 10)
    if refused and not (missing == "drop" and math.isnan(value)):
        with pytest.raises(dc.InputError):
            counts(rows(41, y=value))
        return
    before, after = counts(rows(40)), counts(rows(41, y=value))
    moved = 0 if math.isnan(value) else 1
    assert all(np.abs(after.tables[node] - before.tables[node]).sum() == moved for node in NETWORK.nodes)


@pytest.mark.parametrize("line", ["'a',1", "#b,1", '"a,1', 'a,"1', 'a"b,1', "a", "a,1,2", "a;1", "\\,1", "", "a,\x00"])
def test_a_hostile_line_of_csv_is_refused_or_moves_one_cell_by_one(line: str, tmp_path: Path) -> None:
    network = alone(dc.Variable("x", ("a", "'b'", "#b", "'a'")))

    def counts(text: str, policy: str) -> np.ndarray:
        records = dc.read_records(csv_file(tmp_path, text), network.schema, missing=policy)
        return dc.count(records, network).tables["x"]

    before = ["a,1", "'b',2", "a,3", "#b,4", "'b',5"]
    for at in range(len(before) + 1):
        after = [*before[:at], line, *before[at:]]
        try:
            found = counts("\n".join(["x,y", *after]) + "\n", "drop")
        except dc.InputError as error:
            assert "'b'" not in said(error)
        else:
            assert np.abs(found - [2, 2, 1, 0]).sum() <= 1


@pytest.mark.system_noise
def test_seeding_every_generator_does_not_repeat_the_noise(folder: Path) -> None:
    counts = dc.count(dc.read_records(rows(20), NETWORK.schema), NETWORK)
    account = dc.Ledger("sqlite:///discreet-ledger.db").account("add-remove")
    made = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        prior = dc.Dirichlet.uniform(NETWORK)
        made.append(dc.release(dc.laplace(), counts, prior, promise(epsilon="0.0001"), account=account))
    assert made[0].id != made[1].id
    noisy = [np.concatenate([table.ravel() for table in one.payload.tables.values()]) for one in made]
    # 6 cells with noise of scale 10,000, each of them equal with probability 2.5e-5: two or more once in 10^8 runs.
    assert np.count_nonzero(noisy[0] != noisy[1]) >= 5


def test_a_suppressed_context_is_searched_too() -> None:
    leak: Exception = ValueError(CANARY)
    try:
        try:
            raise leak
        except ValueError:
            raise dc.InputError("hidden") from None
    except dc.InputError as error:
        assert not clean(said(error))
