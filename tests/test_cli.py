"""`discreet release`: what it writes and says, and that no error costs budget."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
from discreet.privacy.guarantee import as_text
from networks import asia
from shell import LEDGER, RELEASE, N, Shell, as_csv, charges, opened, sample, stdin
from sources import PEER_WARNINGS
from tiny import measured

pytestmark = PEER_WARNINGS


SAMPLER = f"{RELEASE} --mechanism posterior_sampler"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def tells(text: str) -> bool:
    """Whether a text has the number of records, as a number of its own; identifiers hold any digits."""
    return re.search(rf"(?<![\w.]){N}(?![\w.])", text) is not None


def test_release_writes_a_document_and_says_what_it_cost(run: Shell) -> None:
    code, out, err = run(f"{RELEASE} --audit 0")
    assert (code, out) == (0, "wrote r.json\n")
    made = dc.Release.load("r.json")
    (charge,) = dc.Ledger(LEDGER).account("add-remove").charges()
    assert (charge.release, charge.mechanism, charge.guarantee) == (made.id, made.mechanism, made.guarantee)
    assert made.private
    assert made.records is None
    assert made.id in err
    assert "spent epsilon 1 of 3, left 2" in err
    scales = sorted(made.payload.scales.values())
    assert f"scale {scales[0]:.4g} to {scales[-1]:.4g} records" in err
    assert "below the noise" in err
    assert not tells(out + err)


def test_release_as_json(run: Shell) -> None:
    found = run.json(f"{RELEASE} --audit 0")
    made = dc.Release.load("r.json")
    assert found == {
        "release": "r.json",
        "id": made.id,
        "epsilon": "1",
        "spent": "1",
        "left": "2",
        "mechanism": "planned",
        "delta": "0",
        "guarantee": "epsilon 1, add-remove one record",
        "plan": {
            "noise": "discrete_laplace",
            "tables": [
                {
                    "variables": list(scope),
                    "budget": as_text(budget),
                    "scale": made.payload.scales[scope],
                    "star": made.payload.stars[scope],
                }
                for scope, budget in made.calibration.budgets.items()
            ],
            "expected": dict(made.calibration.expected),
        },
        "rows_below_noise": {node: list(rows) for node, rows in dc.tools.rows_below_noise(made).items()},
        "fit": {"contradicted": [], "tested": 2, "pairs_in_tables": 10, "pairs": 28},
    }


MADE: dict[str, tuple[str, str, type, str]] = {
    "planned": (
        "planned",
        "audit=0",
        dc.kinds.NoisyTables,
        "6 of them in 3 stars whose noise agrees: discrete Laplace of",
    ),
    "planned, pairs": ("planned", "audit=0.9", dc.kinds.TablesWithPairs, " beside them"),
    "planned, delta": (
        "planned",
        "audit=0",
        dc.kinds.NoisyTables,
        "in 3 stars whose noise agrees: discrete Laplace of",
    ),
    "laplace": ("laplace", "", dc.kinds.NoisyCounts, "noise in every cell of the tables: discrete Laplace of scale"),
    "fourier": ("fourier", "", dc.research.NoisyCoefficients, "noise in every contrast"),
    "fourier, stealth": ("fourier", "stealth=0.9", dc.research.NoisyCoefficients, "records were added to the total"),
    "gaussian": ("gaussian", "", dc.kinds.NoisyCounts, "discrete Gaussian of scale"),
    "allocated": ("allocated", "", dc.research.TwoStageCounts, "first stage: discrete Laplace"),
    "allocated, options": (
        "allocated",
        "first=0.3 sampling=1/3 weights=structure floor=0.5",
        dc.research.TwoStageCounts,
        "first stage",
    ),
    "posterior_sampler": ("posterior_sampler", "", dc.research.ParameterDraws, "1 draws from the posterior of"),
    "posterior_sampler, draws": (
        "posterior_sampler",
        "draws=3 floor=0.3",
        dc.research.ParameterDraws,
        "no probability below",
    ),
    "posterior_sampler, delta": (
        "posterior_sampler",
        "draws=2",
        dc.research.ParameterDraws,
        "2 draws from the posterior of",
    ),
    "map_estimate": ("map_estimate", "floor=0.2", dc.research.ParameterDraws, "no probability below 0.2"),
}


@pytest.mark.costly("A mechanism that the shell cannot release, charge or read is found by doing so with each.")
@pytest.mark.parametrize("case", MADE)
def test_every_mechanism_can_be_released_and_read(case: str, run: Shell) -> None:
    name, options, payload, noise = MADE[case]
    delta = "0.000001" if "delta" in case or name == "gaussian" else "0"
    run.json("ledger open both --epsilon 3 --delta 1e-3 --relation add-remove")
    given = " ".join(f"--option {option}" for option in options.split())
    command = f"{RELEASE} --mechanism {name} --delta {delta} {given}".replace("add-remove", "both")
    code, out, err = run(f"{command} --json")
    assert code == 0, err
    assert noise in err
    assert not tells(out + err)
    found, made = json.loads(out), dc.Release.load("r.json")
    assert (found["mechanism"], found["epsilon"], found["delta"]) == (name, "1", delta)
    assert (made.mechanism, type(made.payload)) == (name, payload)
    assert found.get("scales") == (dict(made.payload.scales) if payload is dc.kinds.NoisyCounts else None)
    (charge,) = dc.Ledger(LEDGER).account("both").charges()
    assert (charge.release, charge.mechanism, charge.guarantee) == (made.id, name, made.guarantee)
    for method in ("noise-aware", "plug-in"):
        (answer,) = run.json(f'query r.json "P(smoke)" --draws 100 --method {method}')["answers"]
        assert sum(row["mean"] for row in answer["values"]) == pytest.approx(1)


def test_options_reach_the_mechanism(run: Shell) -> None:
    calibrations = {}
    for name, options in (
        ("posterior_sampler", "draws=4 temper=0.25 floor=0.49"),
        ("allocated", "first=0.3 sampling=1/3 weights=structure"),
        ("fourier", "stealth=0.9"),
    ):
        given = " ".join(f"--option {option}" for option in options.split())
        run.json(f"{RELEASE} --mechanism {name} {given}".replace("r.json", f"{name}.json"))
        calibrations[name] = dc.Release.load(f"{name}.json").calibration
    drawn, staged, shifted = calibrations.values()
    assert (drawn.draws, drawn.temper, set(drawn.floors.values())) == (4, 0.25, {0.49})
    assert (staged.first_epsilon, staged.sampling, staged.weights) == (Fraction("0.3"), Fraction(1, 3), "structure")
    assert shifted.shift > 0


def test_release_takes_the_relation_from_the_account(run: Shell) -> None:
    run.json(f"{RELEASE} --audit 0")
    run.json(f"{RELEASE} --audit 0".replace("add-remove", "replace").replace("r.json", "replace.json"))
    one, other = dc.Release.load("r.json"), dc.Release.load("replace.json")
    assert (one.guarantee.relation, one.records) == (dc.Relation.ADD_REMOVE, None)
    assert (other.guarantee.relation, other.records) == (dc.Relation.REPLACE, N)
    assert set(one.payload.scales) == set(measured(asia().network))
    assert dict(other.payload.scales) == pytest.approx(
        {scope: 2 * scale for scope, scale in one.payload.scales.items()}, rel=1e-12
    )


def test_release_reads_stdin(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, as_csv(sample()))
    run.json(RELEASE.replace("d.parquet", "-").replace("add-remove", "replace"))
    assert dc.Release.load("r.json").records == N
    assert tells(Path("r.json").read_text())


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
    charge = dc.results.Account.charge

    def late(*arguments: object, **more: object) -> object:
        Path("r.json").write_text("another release")
        return charge(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(dc.results.Account, "charge", late)
    code, out, err = run(RELEASE)
    assert code == 0
    assert Path("r.json").read_text() == "another release"
    (other,) = Path().glob("r-*.json")
    assert str(other) in out and str(other) in err
    assert dc.Release.load(other).id == dc.Ledger(LEDGER).account("add-remove").charges()[0].release


@pytest.mark.costly("A full device takes a whole process to meet, and a charge must not be lost there.", always=True)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_release_that_stdout_cannot_take_says_what_was_charged(run: Shell) -> None:
    command = [sys.executable, "-m", "discreet.cli.cli", *RELEASE.replace("r.json", "-").split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    (charge,) = dc.Ledger(LEDGER).account("add-remove").charges()
    assert done.returncode == 1
    assert f"release {charge.release} was charged" in done.stderr.splitlines()[-1]


def test_an_interruption_is_said_to_be_one(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.records.counts.local_joints", interrupted)
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
    "epsilon 1e400": (RELEASE.replace("epsilon 1", "epsilon 1e400 --mechanism laplace"), 2, "too large"),
    "no epsilon": (RELEASE.replace("--epsilon 1", ""), 2, "epsilon"),
    "exhausted": (RELEASE.replace("epsilon 1", "epsilon 3.0000000000000000000001"), 3, "left 3"),
    "unknown account": (RELEASE.replace("add-remove", "nobody"), 2, "'nobody'"),
    "cycle": (RELEASE.replace("asia.bif", "cycle.bif"), 2, "cycle"),
    "no network": (RELEASE.replace("asia.bif", "no.bif"), 2, "no.bif"),
    "existing output": (RELEASE.replace("r.json", "empty.csv"), 2, "exists"),
    "output folder": (RELEASE.replace("r.json", "no/such/r.json"), 2, "no/such"),
    "output under a file": (RELEASE.replace("r.json", "empty.csv/r.json"), 2, "empty.csv"),
    "unknown mechanism": (f"{RELEASE} --mechanism gauss", 2, "laplace"),
    "option of another mechanism": (
        f"{RELEASE} --option draws=2",
        2,
        "no option of 'planned'; it takes records=",
    ),
    "no such option": (f"{SAMPLER} --option seed=1", 2, "draws=..., temper=..., floor=..."),
    "option without a value": (f"{SAMPLER} --option draws", 2, "'draws'"),
    "option that is no number": (f"{SAMPLER} --option draws=1.5", 2, "draws needs a number"),
    "option that is no float": (f"{SAMPLER} --option floor=low", 2, "floor needs a number"),
    "budgets as an option": (f"{RELEASE} --option epsilons=1", 2, "no option"),
    "candidates that are no files": (
        f"{RELEASE} --mechanism map_estimate --option candidates=1",
        2,
        "cannot read network",
    ),
    "no draws": (f"{SAMPLER} --option draws=0", 2, "a whole number of at least 1, got 0"),
    "negative temper": (f"{SAMPLER} --option temper=-1", 2, "positive"),
    "temper nan": (f"{SAMPLER} --option temper=nan", 2, "positive"),
    "floor nan": (f"{SAMPLER} --option floor=nan", 2, "floor"),
    "floor too large": (f"{SAMPLER} --option floor=0.6", 2, "floor"),
    "floor too low for the budget": (f"{SAMPLER} --option floor=0.01 --option temper=1", 2, "guarantee"),
    "stealth": (f"{RELEASE} --mechanism fourier --option stealth=1", 2, "between 0 and 1"),
    "a first stage of all": (f"{RELEASE} --mechanism allocated --option first=1", 2, "between 0 and 1"),
    "a word for weights": (f"{RELEASE} --mechanism allocated --option weights=best", 2, "kl or structure"),
    "sampling as a word": (f"{RELEASE} --mechanism allocated --option sampling=half", 2, "sampling"),
    "sampling under replace": (
        f"{RELEASE} --mechanism allocated --option sampling=1/2".replace("add-remove", "replace"),
        2,
        "sampling=1",
    ),
    "a delta for nothing": (f"{RELEASE} --mechanism laplace --delta 1e-6", 2, "delta 0"),
    "a delta the account has not": (f"{RELEASE} --mechanism gaussian --delta 1e-6", 3, "delta"),
    "delta 1": (f"{RELEASE} --mechanism gaussian --delta 1", 2, "delta"),
    "negative delta": (f"{RELEASE} --mechanism gaussian --delta=-1e-6", 2, "delta"),
    "no delta": (f"{RELEASE} --mechanism gaussian", 2, "a delta"),
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
    def broken(_path: str) -> None:
        raise RuntimeError("quotes a record")

    run.json(RELEASE)
    monkeypatch.setattr("discreet.cli.analyst.load_source", broken)
    message = run.fails("query r.json", 1)
    assert "RuntimeError" in message
    assert "quotes" not in message
