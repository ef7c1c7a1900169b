"""`discreet release`: what it writes and says, and that no error costs budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from networks import asia
from shell import LEDGER, RELEASE, N, Shell, as_csv, charges, opened, sample, stdin
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_release_writes_a_document_and_says_what_it_cost(run: Shell) -> None:
    code, out, err = run(RELEASE)
    assert (code, out) == (0, "wrote r.json\n")
    made = dc.Release.load("r.json")
    (charge,) = dc.Ledger(LEDGER).account("add-remove").charges()
    assert (charge.release, charge.mechanism, charge.guarantee) == (made.id, made.mechanism, made.guarantee)
    assert made.private
    assert made.records is None
    assert made.id in err
    assert "spent epsilon 1 of 3, left 2" in err
    assert f"scale {next(iter(made.payload.scales.values())):.4g} records" in err
    assert "drowned" in err
    assert str(N) not in out + err


def test_release_as_json(run: Shell) -> None:
    found = run.json(RELEASE)
    made = dc.Release.load("r.json")
    assert found == {
        "release": "r.json",
        "id": made.id,
        "epsilon": "1",
        "spent": "1",
        "left": "2",
        "scales": dict(made.payload.scales),
        "drowned": {node: list(rows) for node, rows in dc.drowned_rows(made).items()},
    }


def test_release_takes_the_relation_from_the_account(run: Shell) -> None:
    run.json(RELEASE)
    run.json(RELEASE.replace("add-remove", "replace").replace("r.json", "replace.json"))
    one, other = dc.Release.load("r.json"), dc.Release.load("replace.json")
    assert (one.guarantee.relation, one.records) == (dc.Relation.ADD_REMOVE, None)
    assert (other.guarantee.relation, other.records) == (dc.Relation.REPLACE, N)
    assert all(other.payload.scales[node] == 2 * one.payload.scales[node] for node in asia())


def test_release_reads_stdin(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, as_csv(sample()))
    run.json(RELEASE.replace("d.parquet", "-").replace("add-remove", "replace"))
    assert dc.Release.load("r.json").records == N


def test_release_options_reach_the_document(run: Shell) -> None:
    run.json(f"{RELEASE} --prior 0.5 --missing drop --out-of-bounds clip")
    made = dc.Release.load("r.json")
    assert (made.policy.missing, made.policy.out_of_bounds) == ("drop", "clip")
    assert all(np.all(alpha == 0.5) for alpha in made.prior.alpha.values())
    run.json(RELEASE.replace("r.json", "p.json") + " --prior asia.bif --equivalent-sample-size 10")
    weighted = dc.Release.load("p.json").prior
    assert all(np.allclose(weighted.alpha[node], 0.25 + 10 * table) for node, table in asia().items())


def test_a_document_that_cannot_be_saved_goes_to_stdout(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_release: dc.Release, path: object, **_options: object) -> None:
        raise dc.InputError(f"cannot write release {str(path)!r}: no space left on device")

    monkeypatch.setattr(dc.Release, "save", full)
    code, out, err = run(RELEASE)
    assert code == 1
    assert "no space left" in err and "paid for" in err
    assert dc.Release.loads(out).id == dc.Ledger(LEDGER).account("add-remove").charges()[0].release


def test_a_file_that_appears_meanwhile_is_not_overwritten(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    charge = dc.Account.charge

    def late(*arguments: object) -> object:
        Path("r.json").write_text("another release")
        return charge(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dc.Account, "charge", late)
    code, out, err = run(RELEASE)
    assert code == 0
    assert Path("r.json").read_text() == "another release"
    (other,) = Path().glob("r-*.json")
    assert str(other) in out and str(other) in err
    assert dc.Release.load(other).id == dc.Ledger(LEDGER).account("add-remove").charges()[0].release


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_release_that_stdout_cannot_take_says_what_was_charged(run: Shell) -> None:
    command = [sys.executable, "-m", "discreet.app.cli", *RELEASE.replace("r.json", "-").split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    (charge,) = dc.Ledger(LEDGER).account("add-remove").charges()
    assert done.returncode == 1
    assert f"release {charge.release} was charged" in done.stderr.splitlines()[-1]


def test_an_interruption_is_said_to_be_one(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.sensitive.counts.arrow", interrupted)
    assert "interrupted" in run.fails(RELEASE, 1)
    assert charges() == 0


CHEAP = {
    "wrong column": (RELEASE.replace("d.parquet", "column.parquet"), 2, "'asia'"),
    "wrong state": (RELEASE.replace("d.parquet", "state.parquet"), 2, "'asia'"),
    "missing values": (RELEASE.replace("d.parquet", "missing.parquet"), 2, "'asia'"),
    "drop under replace": (
        RELEASE.replace("d.parquet", "missing.parquet").replace("add-remove", "replace") + " --missing drop",
        2,
        "add-remove",
    ),
    "empty file": (RELEASE.replace("d.parquet", "empty.csv"), 2, "empty"),
    "no file": (RELEASE.replace("d.parquet", "no.parquet"), 2, "no.parquet"),
    "epsilon 0": (RELEASE.replace("epsilon 1", "epsilon 0"), 2, "greater than 0"),
    "epsilon -1": (RELEASE.replace("epsilon 1", "epsilon=-1"), 2, "greater than 0"),
    "epsilon nan": (RELEASE.replace("epsilon 1", "epsilon nan"), 2, "finite"),
    "epsilon inf": (RELEASE.replace("epsilon 1", "epsilon inf"), 2, "finite"),
    "epsilon abc": (RELEASE.replace("epsilon 1", "epsilon abc"), 2, "finite"),
    "epsilon 1e-320": (RELEASE.replace("epsilon 1", "epsilon 1e-320"), 2, "too small"),
    "epsilon 1e400": (RELEASE.replace("epsilon 1", "epsilon 1e400"), 2, "too large"),
    "no epsilon": (RELEASE.replace("--epsilon 1", ""), 2, "epsilon"),
    "exhausted": (RELEASE.replace("epsilon 1", "epsilon 3.0000000000000000000001"), 3, "left 3"),
    "unknown account": (RELEASE.replace("add-remove", "nobody"), 2, "'nobody'"),
    "cycle": (RELEASE.replace("asia.bif", "cycle.bif"), 2, "cycle"),
    "no network": (RELEASE.replace("asia.bif", "no.bif"), 2, "no.bif"),
    "existing output": (RELEASE.replace("r.json", "empty.csv"), 2, "exists"),
    "output folder": (RELEASE.replace("r.json", "no/such/r.json"), 2, "no/such"),
    "output under a file": (RELEASE.replace("r.json", "empty.csv/r.json"), 2, "empty.csv"),
    "unknown mechanism": (f"{RELEASE} --mechanism gauss", 2, "laplace"),
    "prior 0": (f"{RELEASE} --prior 0", 2, "greater than 0"),
    "prior nan": (f"{RELEASE} --prior nan", 2, "greater than 0"),
    "prior that is no file": (f"{RELEASE} --prior strong", 2, "strong"),
    "prior of another structure": (f"{RELEASE} --prior other.bif", 2, "other.bif"),
    "prior of other states": (f"{RELEASE} --prior flipped.bif", 2, "flipped.bif"),
    "unknown policy": (f"{RELEASE} --missing ignore", 2, "ignore"),
    "unknown option": (f"{RELEASE} --sed 1", 2, "--sed"),
    "table of a file": (f"{RELEASE} --table people", 2, "table"),
    "bad ledger": (f"{RELEASE} --ledger nosuch://", 2, "nosuch"),
}


@pytest.mark.parametrize("kind", CHEAP)
def test_no_error_costs_budget(kind: str, run: Shell) -> None:
    command, code, hint = CHEAP[kind]
    first = sample()["asia"].to_pylist()[1:]
    pq.write_table(sample().drop_columns("asia"), "column.parquet")
    pq.write_table(sample().set_column(0, "asia", pa.array([*first, "maybe"])), "state.parquet")
    pq.write_table(sample().set_column(0, "asia", pa.array([*first, None])), "missing.parquet")
    Path("empty.csv").touch()
    states = "{ type discrete [ 2 ] { yes, no }; }"
    Path("cycle.bif").write_text(
        f"network n {{ }} variable a {states} variable b {states} "
        "probability ( a | b ) { } probability ( b | a ) { }"
    )
    Path("other.bif").write_text(f"network n {{ }} variable a {states} probability ( a ) {{ table 0.5, 0.5; }}")
    Path("flipped.bif").write_text(Path("asia.bif").read_text().replace("{ yes, no }", "{ no, yes }"))
    assert "no, yes" in Path("flipped.bif").read_text()
    before = sorted(path.name for path in Path().iterdir())
    message = run.fails(command, code)
    assert hint in message
    assert "maybe" not in message
    assert charges() == charges("replace") == 0
    assert sorted(path.name for path in Path().iterdir()) == before


def test_an_account_pays_until_it_is_empty(run: Shell) -> None:
    for name in ("1.json", "2.json", "3.json"):
        run.json(RELEASE.replace("r.json", name))
    assert "left 0" in run.fails(RELEASE, 3)
    assert charges() == 3
    assert not Path("r.json").exists()


def test_debug_adds_a_traceback_and_nothing_else_does(run: Shell) -> None:
    code, out, err = run("--debug " + RELEASE.replace("d.parquet", "no.parquet"))
    assert (code, out) == (2, "")
    assert err.startswith("Traceback")
    assert err.splitlines()[-1] == run.fails(RELEASE.replace("d.parquet", "no.parquet")).strip()


def test_a_defect_is_exit_code_1_and_keeps_its_text_to_itself(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_release: dc.Release) -> None:
        raise RuntimeError("quotes a record")

    run.json(RELEASE)
    monkeypatch.setattr(dc.Release, "load", broken)
    message = run.fails("query r.json", 1)
    assert "RuntimeError" in message
    assert "quotes" not in message
