"""The other commands: what they print, and their exit codes."""

from __future__ import annotations

import gc
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from networks import asia
from shell import RELEASE, Shell, as_csv, charges, opened, sample, stdin
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


# -------------------------------------------------------------------------------------------------- ledger and check


def test_ledger_open_and_show(run: Shell) -> None:
    opened = run.json("ledger open stays --epsilon 0.3 --delta 1e-6 --relation replace --unit stay")
    assert opened == {
        "ledger": str(Path("discreet-ledger.db").resolve()),
        "account": "stays",
        "relation": "replace",
        "unit": "stay",
        "limit": {"epsilon": "0.3", "delta": "0.000001"},
        "spent": {"epsilon": "0", "delta": "0"},
        "left": {"epsilon": "0.3", "delta": "0.000001"},
        "rho": None,
        "closed": False,
        "limits": [],
        "charges": [],
    }
    assert "open already" in run.fails("ledger open stays --epsilon 3 --relation replace")
    assert "add-remove" in run.fails("ledger open more --epsilon 3 --relation bounded")
    assert "unit" in run.fails("ledger open more --epsilon 3 --relation replace --unit ''")
    assert "relation" in run.fails("ledger open more --epsilon 3")
    assert [part["account"] for part in run.json("ledger show")["accounts"]] == ["add-remove", "replace", "stays"]
    assert "'nobody'" in run.fails("ledger show nobody")
    assert run.json("ledger show --ledger sqlite:///empty.db") == {
        "ledger": str(Path("empty.db").resolve()),
        "accounts": [],
    }
    # Both commands say where the ledger is.
    assert run("ledger open again --epsilon 1 --relation replace")[1].endswith(
        f"\nledger: {Path('discreet-ledger.db').resolve()}\n"
    )
    assert run("ledger show")[1].endswith(f"\nledger: {Path('discreet-ledger.db').resolve()}\n")


def test_ledger_show_after_a_release(run: Shell) -> None:
    identity = run.json(RELEASE.replace("epsilon 1", "epsilon 0.1"))["id"]
    (shown,) = run.json("ledger show add-remove")["accounts"]
    assert (shown["limit"]["epsilon"], shown["spent"]["epsilon"], shown["left"]["epsilon"]) == ("3", "0.1", "2.9")
    (charge,) = shown["charges"]
    assert set(charge) == {"sequence", "date", "who", "purpose", "mechanism", "release", "epsilon", "delta", "rho"}
    assert (charge["release"], charge["mechanism"], charge["epsilon"]) == (identity, "planned", "0.1")
    _, out, _ = run("ledger show add-remove")
    assert identity in out
    assert "2.9" in out


def test_check(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run.json("check d.parquet --network asia.bif")
    assert found["ok"]
    assert found["columns"][0] == {
        "column": "asia",
        "missing": 0,
        "unknown": 0,
        "out_of_bounds": 0,
        "does_not_apply": 0,
    }
    assert [part["column"] for part in found["columns"]] == list(asia())
    worse = sample().set_column(0, "asia", pa.array([None, None, "maybe", *sample()["asia"].to_pylist()[3:]]))
    pq.write_table(worse, "w.parquet")
    code, out, err = run("check w.parquet --network asia.bif")
    assert code == 2
    assert re.search(r"^asia +2 +1 +0 +0$", out, re.MULTILINE)
    assert "private" in err
    assert "maybe" not in out + err
    pq.write_table(worse.slice(0, 2), "m.parquet")
    assert run("check m.parquet --network asia.bif")[0] == 2
    assert run.json("check m.parquet --network asia.bif --missing drop")["columns"][0]["missing"] == 2
    stdin(monkeypatch, as_csv(sample()))
    assert run.json("check - --network asia.bif") == found
    assert charges() == 0


def test_words_for_missing_values(run: Shell) -> None:
    Path("q.csv").write_text("asia,smoke\nno,?\nyes,no\nNA,yes\nno,no\n")
    states = "{ type discrete [ 2 ] { yes, no }; }"
    Path("two.bif").write_text(
        f"network n {{ }} variable asia {states} variable smoke {states} "
        "probability ( asia ) { } probability ( smoke | asia ) { }"
    )
    code, _, err = run("check q.csv --network two.bif")
    assert code == 2
    assert "--na-values" in err
    assert run("check q.csv --network two.bif --na-values ?,NA")[0] == 2
    found = run.json("check q.csv --network two.bif --na-values ? --na-values NA --missing drop")
    assert [part["missing"] for part in found["columns"]] == [1, 1]
    release = "release q.csv --network two.bif --account add-remove --epsilon 1 --output q.json"
    assert "--na-values" in run.fails(release)
    assert run(f"{release} --missing drop --na-values ?,NA")[0] == 0
    assert "'asia'" in run.fails("check q.csv --network two.bif --na-values no")
    assert run.json("schema q.csv --na-values ?,NA")["variables"][1] == {"name": "smoke", "states": ["no", "yes"]}
    code, out, _ = run("check d.parquet --network asia.bif")
    assert out == "All 8 columns match the schema\n"
    Path("one.bif").write_text(f"network n {{ }} variable asia {states} probability ( asia ) {{ }}")
    assert run("check d.parquet --network one.bif")[1] == "The column matches the schema\n"


def test_schema_drafts_what_check_then_reads(run: Shell) -> None:
    rng = np.random.default_rng(1)
    pq.write_table(pa.table({"asia": ["no", "yes"] * 40, "age": rng.uniform(0, 90, 80)}), "s.parquet")
    code, out, err = run("schema s.parquet")
    assert code == 0
    assert "never publish" in err
    Path("s.json").write_text(out)
    drafted = dc.Schema.read("s.json")
    assert drafted["asia"].states == ("no", "yes")
    assert drafted["age"].size == 4
    assert run.json("schema s.parquet") == json.loads(out)
    states = "variable age { type discrete [ 4 ] { a, b, c, d }; } probability ( age ) { }"
    Path("age.bif").write_text(f"network n {{ }} {states}")
    assert run.json("check s.parquet --network age.bif --schema s.json")["ok"]
    assert "s.parquet" in run.fails("check s.parquet --network age.bif --schema s.parquet")


# --------------------------------------------------------------------------------------------------- query and export


@pytest.mark.costly("Each option of a query is asked of the shell and compared with the others.")
def test_query(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run.json(RELEASE)
    found = run.json('query r.json "P(lung | smoke=yes)" "MAP(tub, lung | dysp=yes)" --level 0.9')
    assert [(part["query"], part["kind"], part["level"]) for part in found["answers"]] == [
        ("P(lung | smoke=yes)", "conditional", 0.9),
        ("MAP(tub, lung | dysp=yes)", "map", 0.9),
    ]
    rows = found["answers"][0]["values"]
    assert [row["state"] for row in rows] == [{"lung": "yes"}, {"lung": "no"}]
    assert all(set(row) == {"state", "mean", "lower", "upper", "noise", "noise_error"} for row in rows)
    assert all(0 <= row["lower"] < row["mean"] < row["upper"] <= 1 for row in rows)
    assert sum(row["mean"] for row in rows) == pytest.approx(1)
    assert 1 <= len(found["answers"][1]["values"]) <= 4
    stdin(monkeypatch, Path("r.json").read_bytes())
    assert run.json('query - "P(lung | smoke=yes)" "MAP(tub, lung | dysp=yes)" --level 0.9') == found
    plug_in = run.json('query r.json "P(lung)" --method plug-in --seed 3 --draws 100')
    assert plug_in != run.json('query r.json "P(lung)" --method plug-in --seed 4 --draws 100')
    marginals = run.json("query r.json")["answers"]
    assert [part["query"] for part in marginals] == [f"P({node})" for node in asia()]
    code, out, err = run('query r.json "P(lung | smoke=yes)"')
    assert (code, err) == (0, "")
    (answer,) = run.json('query r.json "P(lung | smoke=yes)"')["answers"]
    assert all(f"{row['mean']:.4f}" in out for row in answer["values"])


@pytest.mark.costly("Each damaged document meets each command that reads one, by name and by pipe.")
def test_bad_queries_and_documents(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run.json(RELEASE)
    assert "did you mean 'lung'" in run.fails('query r.json "P(lungs)"')
    for bad in ('"P(lung | smoke=maybe)"', '"P(lung"', "lung", '"P()"', '"P(lung, lung)"', '"MPE(lung)"', '""'):
        run.fails(f"query r.json {bad}")
    for option in ("--level 2", "--level nan", "--method guess", "--seed -1", "--draws 0", "--draws many"):
        run.fails(f"query r.json {option}")
    whole = Path("r.json").read_text()
    damaged = [whole[:-40], "", "[]", "{}", whole.replace('"version": 1', '"version": 2'), whole.replace("yes", "no")]
    for text in damaged:
        assert text != whole
        Path("bad.json").write_text(text)
        for command in ("query bad.json", "export bad.json --output -"):
            run.fails(command)
        stdin(monkeypatch, text.encode())
        run.fails("query -")
    Path("bad.json").write_bytes(b"\xff\xfe")
    run.fails("query bad.json")
    stdin(monkeypatch, b"\xff\xfe")
    run.fails("query -")
    run.fails("query no.json")


@pytest.mark.costly("An export that another program cannot read is found by writing each format.")
def test_export(run: Shell) -> None:
    run.json(RELEASE)
    assert run.json("export r.json --output out.bif") == {"output": "out.bif", "format": "bif"}
    theta = dc.Tables.read("out.bif")
    assert theta.network == asia().network
    assert all(np.allclose(table.sum(axis=-1), 1, atol=1e-12) for table in theta.values())
    _, out, _ = run("export r.json --output -")
    assert out == Path("out.bif").read_text()
    assert "epsilon 1" in out
    posterior = dc.noise_aware(dc.Release.load("r.json"), draws=1000, rng=np.random.default_rng(0))
    run.json("export r.json --loss squared --output means.bif")
    for file, wanted in (("out.bif", posterior.median()), ("means.bif", posterior.mean())):
        for node, table in dc.Tables.read(file).items():
            np.testing.assert_allclose(table, wanted[node], atol=1e-9)
    assert "absolute error" in out and "posterior mean" in Path("means.bif").read_text()
    assert "--loss" in run.fails("export r.json --loss quadratic --output other.bif")
    assert "--loss" in run.fails("export r.json --to arviz --loss squared --output out.nc")
    assert "xdsl" in run.fails("export r.json --to xdsl --output out.xdsl")
    run.fails("export r.json --output no/such/out.bif")


def test_demo(run: Shell) -> None:
    found = run.json("demo --keep kept")
    assert set(found) == {"release", "answers"}
    assert len(found["answers"]) == 5
    assert all(set(pair) == {"truth", "private"} for pair in found["answers"])
    assert sorted(path.name for path in Path("kept").iterdir()) == [
        "asia.bif", "ledger.db", "records.parquet", "release.json",
    ]  # fmt: skip
    assert dc.Release.load("kept/release.json").id == found["release"]
    assert "not empty" in run.fails("demo --keep kept")


# ----------------------------------------------------------------------------------------------- help, README, script


@pytest.mark.parametrize("command", ["", "--help", "release --help", "ledger --help", "query --help"])
def test_help(command: str, run: Shell) -> None:
    code, out, err = run(command)
    assert (code, err) == (0, "")
    assert "Usage" in out


def test_version(run: Shell) -> None:
    assert run("--version") == (0, f"discreet {dc.__version__}\n", "")


def test_completion(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_DISCREET_COMPLETE", "source_bash")
    code, out, err = run("")
    assert (code, err) == (0, "")
    assert "complete -o default -F _discreet_completion discreet" in out
    monkeypatch.setenv("_DISCREET_COMPLETE", "complete_bash")
    for words, wanted in (("discreet rel", "release"), ("discreet ledger o", "open"), ("discreet --vers", "--version")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert run("")[:2] == (0, f"{wanted}\n")
    monkeypatch.setenv("_DISCREET_COMPLETE", "nonsense")
    assert run("")[0] == 1


@pytest.mark.costly("What completion writes into a home is seen in a process of its own only.")
def test_completion_is_shown_and_installed_for_the_shell_one_is_in(tmp_path: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m discreet.cli.cli"
    paths = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(dc.__file__).parents[1]), "HOME": str(tmp_path)}
    script = f"{program} --show-completion && {program} --install-completion; exit $?"
    done = subprocess.run(["bash", "-c", script], env=paths, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "_discreet_completion" in done.stdout
    assert "_discreet_completion" in (tmp_path / ".bash_completions" / "discreet.sh").read_text()


@pytest.mark.parametrize("command", ["nothing", "ledger", "ledger close", "query", "release"])
def test_what_is_no_command(command: str, run: Shell) -> None:
    run.fails(command)


@pytest.mark.costly("The installed program, and what it does with a closed pipe, is seen in a process of its own.")
def test_the_installed_command_and_a_closed_pipe(tmp_path: Path) -> None:
    program = shutil.which("discreet", path=str(Path(sys.executable).parent))
    assert program is not None
    piped = f"{shlex.quote(program)} --help | head -c 0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    bad = subprocess.run([program, "query", "no.json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout, len(bad.stderr.splitlines())) == (2, "", 1)


def test_more_draws_are_asked_for_than_a_level_can_be_told_from(run: Shell) -> None:
    run.json(RELEASE)
    assert "about 20,000" in run.fails("query r.json --level 0.9999")


@pytest.mark.parametrize("command", ["check d.parquet --network asia.bif", "query nothing.json"])
def test_cycles_are_looked_for_as_before_after_a_command(
    run: Shell, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, own, before = list[int](), gc.set_threshold, gc.get_threshold()
    monkeypatch.setattr(gc, "set_threshold", lambda *given: (seen.append(given[0]), own(*given)))
    run(command)
    assert gc.get_threshold() == before
    assert seen[0] > before[0] and seen[-1] == before[0]


@pytest.mark.costly("That `python -m` runs the command is seen in a process of its own.")
def test_the_package_runs_as_the_command() -> None:
    done = [
        subprocess.run([sys.executable, "-m", "discreet", *words], capture_output=True, text=True, check=False)
        for words in (["--version"], ["query"])
    ]
    assert (done[0].returncode, done[0].stdout.split()[-1]) == (0, dc.__version__)
    assert done[1].returncode == 2 and "__main__" not in done[1].stderr + done[1].stdout
