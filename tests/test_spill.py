"""What DuckDB spills is in a private folder, even after a kill, and goes with its process or at the next start."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.records import engine
from sources import AB, CANARY, PEER_WARNINGS, column, counted, csv_file, refusal

pytestmark = PEER_WARNINGS

CHILD = """
import os, signal, sys
from pathlib import Path
import ibis, pyarrow.parquet
import discreet as dc

source, canary, kills = sys.argv[1], sys.argv[2].encode(), sys.argv[3] == "kill"
schema = dc.Schema((dc.Variable("x", ("a", "b")),))
given = ibis.memtable(pyarrow.parquet.read_table(source)) if sys.argv[4] == "memtable" else source
records = dc.read_records(given, schema, table="people" if "://" in source else None)
opened = records.table.get_backend()
assert opened.con.execute("SELECT current_setting('memory_limit')").fetchall() != [("25MB",)]
opened.con.execute("SET memory_limit = '25MB'")
opened.con.execute("SET threads = 1")
# What a count does to a column of text, and kept: a block that an engine is done with goes before anyone can look.
opened.create_table("kept", records.table.group_by("x").aggregate(n=records.table.count()), temp=True)
folders = (Path(os.environ["TMPDIR"]), Path(), Path.home())
spilled = [path for top in folders for path in top.rglob("*") if path.is_file() and canary in path.read_bytes()]
assert spilled, "nothing was spilled"
if kills:
    os.kill(os.getpid(), signal.SIGKILL)
print("spilled", len(spilled))
"""
"""Groups a column of identifiers with a part of the memory it needs, and looks for them on the disk."""
ROWS = 150_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    table = column([f"{CANARY}-{at:09}-{'x' * 200}" for at in range(ROWS)])
    pq.write_table(table, folder / "r.parquet")
    with duckdb.connect(folder / "r.duckdb") as base:
        base.register("given", table)
        base.execute("CREATE TABLE people AS SELECT * FROM given")
    return folder


def run(place: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The child, with a working folder, a home and a folder for temporary files of its own."""
    for name in ("work", "home", "temporary"):
        (place / name).mkdir(exist_ok=True)
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(dc.__file__).parents[1]), "PYTHONWARNINGS": "ignore"}
    given = {"HOME": str(place / "home"), "TMPDIR": str(place / "temporary")}
    return subprocess.run(
        [sys.executable, "-c", CHILD, source, CANARY, *words],
        cwd=place / "work",
        env=kept | given,
        capture_output=True,
        text=True,
        check=False,
    )


def holders(place: Path) -> list[Path]:
    """Files below a folder that hold the canary."""
    return [path for path in place.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


@pytest.mark.costly("What a killed process leaves of records on disk shows in such a process only.", always=True)
@pytest.mark.skipif(int(duckdb.__version__.split(".")[0]) < 2, reason="DuckDB before 2 spills nothing of this size")
@pytest.mark.parametrize("kind", ["parquet", "duckdb", "memtable"])
def test_a_killed_process_leaves_records_in_its_private_folder_alone(kind: str, data: Path, tmp_path: Path) -> None:
    before = sorted(data.iterdir())
    source = f"duckdb:///{data / 'r.duckdb'}" if kind == "duckdb" else str(data / "r.parquet")
    killed = run(tmp_path, source, "kill", kind)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (private,) = (tmp_path / "temporary").iterdir()
    left = holders(tmp_path)
    assert left
    assert all(path.is_relative_to(private) for path in left)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((private / "lock").stat().st_mode) == 0o600
    assert list((tmp_path / "work").iterdir()) == list((tmp_path / "home").iterdir()) == []
    ended = run(tmp_path, source, "end", kind)
    assert ended.returncode == 0, ended.stderr
    assert "spilled" in ended.stdout
    for name in ("temporary", "work", "home"):
        assert list((tmp_path / name).iterdir()) == []
    assert sorted(data.iterdir()) == before


def folder_of(records: dc.results.Records) -> Path:
    """Where the engine of a table spills."""
    ((name,),) = records.table.get_backend().con.execute("SELECT current_setting('temp_directory')").fetchall()
    return Path(name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that private folders are made in, in which this process has none yet."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setenv(engine.FOLDER_VARIABLE, str(folder))
    monkeypatch.setattr(engine, "_folders", {})
    return folder


def test_the_folder_of_an_engine_goes_with_it(place: Path) -> None:
    records = dc.read_records(column(["a"]), dc.Schema((AB,)))
    folder = folder_of(records)
    assert folder.parent.parent == place
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    other = folder_of(dc.read_records(column(["a"]), dc.Schema((AB,))))
    assert other != folder
    assert other.parent == folder.parent
    del records
    gc.collect()
    assert not folder.exists()
    assert folder.parent.exists()


def test_settings_of_every_engine(place: Path) -> None:
    opened = engine.open_engine().con
    names = ("memory_limit", *engine.EXTENSION_SETTINGS)
    now = [opened.execute(f"SELECT current_setting('{name}')").fetchall()[0][0] for name in names]
    default = duckdb.connect().execute("SELECT current_setting('memory_limit')").fetchall()[0][0]
    assert now[1:] == [False, False]
    assert now[0].split()[1] == default.split()[1]
    assert float(now[0].split()[0]) == pytest.approx(float(default.split()[0]) * 0.5 / 0.8, rel=0.02)


def test_a_database_file_that_is_open_already_is_read_all_the_same(tmp_path: Path, place: Path) -> None:
    path = tmp_path / "r.duckdb"
    with duckdb.connect(path) as base:
        base.execute("CREATE TABLE people AS SELECT 'a' AS x")
    url = f"duckdb:///{path}"
    with duckdb.connect(path, read_only=True):
        first = dc.read_records(url, dc.Schema((AB,)), table="people")
        again = dc.read_records(url, dc.Schema((AB,)), table="people")
        assert folder_of(first) == folder_of(again)
        assert folder_of(first).parent.parent == place
        assert dc.check(again)[0].unknown == 0
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith("r.duckdb")] == ["r.duckdb"]


def test_what_is_no_private_folder_of_ours_is_left_alone(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (place / f"{engine.FOLDER_PREFIX}link").symlink_to(outside)
    (place / f"{engine.FOLDER_PREFIX}file").touch()
    (place / "discreet-other").mkdir()
    stale = place / f"{engine.FOLDER_PREFIX}stale"
    (stale / "inside").mkdir(parents=True)
    living = engine.open_engine()  # of this process: it holds its lock
    script = "from discreet.records.engine import open_engine; open_engine()"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert not stale.exists()
    names = {path.name for path in place.iterdir()}
    mine = folder_of_engine(living).parent
    assert names == {f"{engine.FOLDER_PREFIX}link", f"{engine.FOLDER_PREFIX}file", "discreet-other", mine.name}
    assert folder_of_engine(living).exists()


def folder_of_engine(opened: object) -> Path:
    ((name,),) = opened.con.execute("SELECT current_setting('temp_directory')").fetchall()  # type: ignore[attr-defined]
    return Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_somebody_elses_folder_is_left_alone(place: Path) -> None:
    other = place / f"{engine.FOLDER_PREFIX}other"
    other.mkdir()
    os.chown(other, 12345, 12345)
    engine.open_engine()
    assert other.exists()


def test_a_forked_child_has_a_folder_of_its_own_and_leaves_its_parents() -> None:
    script = """
import atexit, os, tempfile
from pathlib import Path
os.environ["DISCREET_TMPDIR"] = place = tempfile.mkdtemp()
from discreet.records.engine import open_engine
mine = open_engine()
(folder,) = Path(place).iterdir()
if os.fork() == 0:
    other = open_engine()
    assert len(list(Path(place).iterdir())) == 2
    atexit._run_exitfuncs()
    os._exit(0)  # an engine of another process cannot be closed
_, status = os.wait()
assert status == 0
assert list(Path(place).iterdir()) == [folder] and len(list(folder.iterdir())) == 2
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_place_that_is_not_there_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.FOLDER_VARIABLE, str(place / "no"))
    assert engine.FOLDER_VARIABLE in refusal(lambda: counted(column(["a"]), AB))


def test_a_folder_that_was_cleaned_away_is_made_again(place: Path) -> None:
    first = folder_of_engine(engine.open_engine()).parent
    engine._remove(first, os.getpid())
    assert counted(column(["a"]), AB) == [1, 0]
    assert folder_of_engine(engine.open_engine()).parent != first


def test_a_sqlite_file_is_opened_for_reading_only(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "r.db") as base:
        base.execute("CREATE TABLE people (x TEXT)")
    base.close()
    records = dc.read_records(f"sqlite:///{tmp_path / 'r.db'}", dc.Schema((AB,)), table="people")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        records.table.get_backend().con.execute("INSERT INTO people VALUES ('a')")
    records.table.get_backend().disconnect()


def test_a_table_of_ibis_in_memory_runs_on_a_private_engine(tmp_path: Path, place: Path) -> None:
    records = dc.read_records(ibis.memtable(pa.table({"x": ["a"], "y": [1]})).filter(ibis._.y > 0), dc.Schema((AB,)))
    assert folder_of(records).parent.parent == place
    own = ibis.duckdb.connect()
    path = csv_file(tmp_path, "x\na\n")
    theirs = dc.read_records(own.read_csv(path), dc.Schema((AB,)))
    assert folder_of(theirs) == Path(".tmp")  # their connection is theirs
