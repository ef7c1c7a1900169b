"""Synthetic records from the shell: files, formats, numbers of sets, and what is refused before anything is drawn."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.queries.synthetic import sample
from networks import asia
from releases import guarantee, simulated
from shell import Shell, reopened, stdin
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

FEW = "--draws 20"
"""Enough for samples, and fast."""


@pytest.fixture
def run(
    released_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Shell:
    """A folder with a release `r.json`, private but for the fact that its records are made up."""
    return reopened(released_study, tmp_path, monkeypatch, capfd)


def test_a_sample_is_a_file_of_records(run: Shell) -> None:
    code, out, err = run("sample r.json -n 1000 --output synthetic.parquet")
    assert (code, out, err) == (0, "wrote synthetic.parquet: 1,000 synthetic records\n", "")
    found = pq.read_table("synthetic.parquet")
    assert found.num_rows == 1000
    assert found.column_names == list(asia().network.nodes)
    code, _, _ = run("check synthetic.parquet --network asia.bif")
    assert code == 0


@pytest.mark.parametrize("suffix", ["csv", "arrow", "feather"])
def test_the_name_tells_the_format(run: Shell, suffix: str) -> None:
    assert run(f"sample r.json -n 50 --output s.{suffix} {FEW}")[0] == 0
    assert run(f"sample r.json -n 50 --output s.parquet {FEW}")[0] == 0
    found = pyarrow.csv.read_csv("s.csv") if suffix == "csv" else pa.ipc.open_file(f"s.{suffix}").read_all()
    assert found == pq.read_table("s.parquet")


def test_sets_go_to_numbered_files_and_each_has_a_draw_of_the_query(run: Shell) -> None:
    told = run.json(f"sample r.json -n 200 --output out.of.csv --sets 3 --seed 5 {FEW}")
    names = ["out.of-1.csv", "out.of-2.csv", "out.of-3.csv"]
    assert told == {"outputs": names, "records": 200, "releases": [dc.Release.load("r.json").id]}
    assert sorted(path.name for path in Path().glob("out*")) == names
    posterior = dc.noise_aware(dc.Release.load("r.json"), draws=20, rng=np.random.default_rng(5))
    streams = sample(posterior, 200, rng=np.random.default_rng((5, 1)), sets=3)
    assert [pyarrow.csv.read_csv(name) for name in names] == [stream.read_all() for stream in streams]


@pytest.mark.costly("Several whole runs of the command, new and stored.")
def test_seeds(run: Shell) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(f"sample r.json -n 100 --output {name}.csv --seed {seed} {FEW}")[0] == 0
    first, second, other = (Path(f"{name}.csv").read_bytes() for name in "abc")
    assert first == second
    assert first != other


@pytest.mark.costly("Processes of their own read and write pipes.")
def test_dash_is_stdin_and_stdout(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(f"sample r.json -n 7 --output s.csv {FEW}")[0] == 0
    stdin(monkeypatch, Path("r.json").read_bytes())
    code, out, err = run(f"sample - -n 7 --output - --format csv {FEW}")
    assert (code, err) == (0, "")
    assert out == Path("s.csv").read_text(encoding="utf-8")


@pytest.mark.costly("Bytes that are spoilt on their way through a pipe show in a process only.")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_binary_formats_go_to_stdout(run: Shell, kind: str) -> None:
    assert run(f"sample r.json -n 7 --output s.csv {FEW}")[0] == 0
    command = [
        sys.executable,
        "-m",
        "discreet.cli.cli",
        *f"sample r.json -n 7 --output - --format {kind} {FEW}".split(),
    ]
    raw = io.BytesIO(subprocess.run(command, capture_output=True, check=True).stdout)
    found = pq.read_table(raw) if kind == "parquet" else pa.ipc.open_file(raw).read_all()
    assert found == pyarrow.csv.read_csv("s.csv")


@pytest.mark.costly("A reader that stops early is seen with processes joined by a pipe only.")
def test_a_reader_that_stops_early_is_no_error(run: Shell) -> None:
    words = f"sample r.json -n 400000 --output - --format csv {FEW}".split()
    with subprocess.Popen(
        [sys.executable, "-m", "discreet.cli.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_files_are_replaced_only_where_that_is_asked_for(run: Shell) -> None:
    Path("s-2.csv").write_text("kept", encoding="utf-8")
    words = f"sample r.json -n 3 --output s.csv --sets 2 {FEW}"
    assert "'s-2.csv' exists; give a new file, or --replace" in run.fails(words)
    assert not Path("s-1.csv").exists()
    assert Path("s-2.csv").read_text(encoding="utf-8") == "kept"
    assert run(f"{words} --replace")[0] == 0
    assert len(Path("s-2.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_a_file_that_turns_up_meanwhile_is_kept(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.cli.exporting.check_writable", Path.touch)
    assert "'s.csv' exists" in run.fails(f"sample r.json -n 3 --output s.csv {FEW}")
    assert Path("s.csv").read_bytes() == b""


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("-n 3 --output s.txt", "cannot tell a format from 's.txt'; a name ends in .parquet, .csv, .arrow, .feather"),
        ("-n 3 --output none/s.csv", "cannot write into folder 'none': No such file or directory"),
        ("-n 3 --output s.csv --format csv", "the file's name sets the format"),
        ("-n 3 --output -", "needs --format: csv, parquet, arrow"),
        ("-n 3 --output - --format cvs", "'cvs' is not one of 'csv'"),
        ("-n 3 --output - --format csv --sets 2", "stdout takes one set"),
        ("-n 3 --output - --format csv --json", "without --json"),
        ("-n 3 --output s.csv --sets 21 --draws 20", "give at least --draws 21"),
        ("-n 3 --output s.csv --sets 0", "greater than or equal to 1"),
        ("-n -3 --output s.csv", "greater than or equal to 0"),
        ("-n 3 --output s.csv --method guess", "no method 'guess'"),
        ("-n 3 --output s.csv --seed -1", "a seed cannot be negative"),
        ("-n 3", "Missing option '--output'"),
        ("--output s.csv", "Missing option '-n'"),
    ],
)
def test_what_is_refused(run: Shell, words: str, match: str) -> None:
    assert match in run.fails(f"sample r.json {words}")
    assert not Path("s.csv").exists()


@pytest.mark.costly("A method that cannot sample is found by sampling with each.")
def test_methods(run: Shell) -> None:
    assert run(f"sample r.json -n 50 --output a.csv {FEW}")[0] == 0
    assert run(f"sample r.json -n 50 --output b.csv --method plug-in {FEW}")[0] == 0
    assert Path("a.csv").read_bytes() != Path("b.csv").read_bytes()


def test_a_simulation_says_so(run: Shell) -> None:
    promise = guarantee("1", dc.Relation.ADD_REMOVE)
    simulated(asia(), 200, promise, np.random.default_rng(3)).save("sim.json")
    code, out, err = run(f"sample sim.json -n 5 --output s.csv --json {FEW}")
    assert code == 0
    assert json.loads(out)["outputs"] == ["s.csv"]
    assert err == "this release is a simulation: it protects nobody\n"
