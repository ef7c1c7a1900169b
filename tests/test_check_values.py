"""`discreet check` shows the values at fault on a terminal, and nowhere else; unknown names say which is similar."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.formats.project_file import Project
from discreet.records.fault_values import FaultyValue, faulty_values
from discreet.util.similar import did_you_mean, find_similar
from engines import on_file
from folding import every
from sources import AB, AGE, CANARY, PEER_WARNINGS, column, csv_file

pytestmark = PEER_WARNINGS

PROJECT = """
[source]
data = "{data}"
[unit]
name = "record"
[[variables]]
name = "x"
states = ["a", "b"]
[[variables]]
name = "day"
type = "date"
bounds = [2024-01-01, 2024-12-31]
bins = "month"
"""
ROWS = f"x,day\na,2024-01-05\n{CANARY},2024-02-30\nb,2024-07-01\n{CANARY},\n"


def on_terminal(command: list[str], folder: Path) -> tuple[str, str]:
    """Run a command whose stderr is a terminal and whose stdout is a pipe: both texts."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=follower) as process:
        os.close(follower)
        out, shown = process.communicate(timeout=120)[0].decode(), b""
        try:
            while piece := os.read(leader, 4096):
                shown += piece
        except OSError:  # Linux ends a terminal that nobody writes to with an error
            pass
        os.close(leader)
    return out, shown.decode()


@pytest.mark.costly("Values of records that leave the curator's screen are found by running the command.")
def test_values_at_fault_are_on_the_terminal_alone(tmp_path: Path) -> None:
    csv_file(tmp_path, ROWS)
    (tmp_path / "p.toml").write_text(PROJECT.format(data="records.csv"))
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "discreet", "check", "p.toml", *options]
        out, shown = on_terminal(command, tmp_path)
        assert CANARY not in out and "2024-02-30" not in out
        assert f"'x' has '{CANARY}' in 2 records, first in line 3" in shown
        assert "'day' has '2024-02-30' in 1 record, first in line 3" in shown
        assert "'day' has no value in 1 record, first in line 5" in shown
        piped = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
        assert CANARY.encode() not in piped.stdout + piped.stderr and piped.returncode == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["p.toml", "records.csv"]


def test_values_are_listed_with_their_first_record(tmp_path: Path) -> None:
    table = pa.table({"x": ["a", "z", None, "y", "z"], "n": ["17", "x", "200", "-1", None]})
    path = tmp_path / "records.parquet"
    pq.write_table(table, path)
    number = dc.Variable("n", bounds=AGE.bounds, bins=AGE.bins)
    for source in (table, path):
        records = dc.read_records(source, dc.Schema((AB, number)))
        assert {*faulty_values(records, AB, 5)} == {
            FaultyValue("z", 2, 1), FaultyValue(None, 1, 2), FaultyValue("y", 1, 3),
        }  # fmt: skip
        assert {each.value for each in faulty_values(records, number, 9)} == {"-1", "200", "x", None}
        assert len([*faulty_values(records, number, 2)]) == 2
        lenient = dc.read_records(source, dc.Schema((AB, number)), missing="drop", out_of_bounds="clip")
        assert None not in {each.value for each in faulty_values(lenient, AB, 9)}
    given = on_file("sqlite", table, tmp_path, False)
    records = dc.read_records(given["source"], dc.Schema((AB,)), table=given["table"])
    assert [*faulty_values(records, AB, 1)] == [FaultyValue("z", 2, None)]


@every(
    ("name", "names", "similar"),
    [
        ("Smoke", ("somke", "smoke"), "smoke"),
        ("smoke ", ("smoke",), "smoke"),
        ("smok", ("lung", "smoke"), "smoke"),
        ("x", ("y",), None),
        ("a" * 41, ("a" * 41,), None),
        ("a", (), None),
    ],
)
def test_similar_names(name: str, names: tuple[str, ...], similar: str | None) -> None:
    assert find_similar(name, names) == similar
    assert (similar is None) == (did_you_mean(name, names) == "")


def test_refusals_name_a_similar_declared_word(tmp_path: Path) -> None:
    schema = dc.Schema((dc.Variable("smoke", ("never", "daily")),))
    for action, message in (
        (lambda: schema["smok"], "did you mean 'smoke'"),
        (lambda: schema["smoke"].code("Never"), "did you mean 'never'"),
        (lambda: dc.tools.parse_query("P(smoke=dialy)", schema), "did you mean 'daily'"),
        (lambda: Project.parse("[sourse]\n"), "did you mean 'source'"),
        (lambda: Project.parse('[source]\ntabel = "x"\n[[variables]]\nname = "x"\nstates = ["a"]\n'), "'table'"),
        (lambda: Project.parse('arcs = ["x -> yy"]\n[[variables]]\nname = "x"\nstates = ["a"]\n'), "no variable 'yy'"),
    ):
        with pytest.raises(dc.InputError, match=message):
            action()


def test_a_header_is_never_shown_but_told_to_differ_in_capitals(tmp_path: Path) -> None:
    """The first line of a file without a header is a record."""
    path = csv_file(tmp_path, f"X ,{CANARY}\na,b\n")
    with pytest.raises(dc.InputError, match="equal in case and blanks, and one is not") as caught:
        dc.read_records(path, dc.Schema((AB,)))
    assert CANARY not in str(caught.value) and "'X" not in str(caught.value)
    with pytest.raises(dc.InputError) as caught:
        dc.read_records(path, dc.Schema((dc.Variable(CANARY[:-1], ("a",)),)))
    assert "one is not" not in str(caught.value) and CANARY not in str(caught.value)


def test_records_of_a_frame_are_counted_from_its_first() -> None:
    records = dc.read_records(column(["a"] * 70_000 + ["z"]), dc.Schema((AB,)))
    assert [*faulty_values(records, AB, 5)] == [FaultyValue("z", 1, 70_000)]
