"""Commands of the ledger, and where a command finds it."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest

import discreet as dc
import shell
from discreet.privacy.settings import address_of, ledger_address
from postgres import Server
from shell import RELEASE, Shell


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    for name in ("DISCREET_LEDGER", "DISCREET_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return shell.opened(tmp_path, monkeypatch, capfd)


def test_a_release_says_what_it_was_for_and_who_made_it(run: Shell) -> None:
    made = run.json(f"{RELEASE} --purpose 'annual report'")
    assert made["release"] == "r.json"
    (account,) = run.json("ledger show add-remove")["accounts"]
    (charge,) = account["charges"]
    assert (charge["purpose"], charge["sequence"], charge["epsilon"]) == ("annual report", 1, "1")
    assert charge["who"] and charge["release"] == dc.Release.load("r.json").id
    _, text, _ = run("ledger show add-remove")
    assert "annual report" in text and charge["who"] in text


def test_a_release_is_looked_up_by_its_id(run: Shell) -> None:
    assert run(RELEASE)[0] == 0
    name = dc.Release.load("r.json").id
    told = run.json(f"ledger show {name}")
    assert told["account"] == "add-remove" and told["charge"]["release"] == name
    assert "no account" in run.fails(f"ledger show {'0' * 32}")
    for odd in ("'x\udcff'", "'x\0'", "x\u202e"):
        assert "no account" in run.fails(f"ledger show {odd}")


def test_a_request_is_charged_and_drawn_once(run: Shell) -> None:
    assert run(f"{RELEASE} --request job-17")[0] == 0
    again = RELEASE.replace("r.json", "s.json")
    told = run.fails(f"{again} --request job-17")
    assert "'job-17' was charged before" in told and dc.Release.load("r.json").id in told
    assert not Path("s.json").exists() and shell.charges() == 1
    assert run(f"{again} --request job-18")[0] == 0 and shell.charges() == 2


def test_a_purpose_has_a_limit_of_its_own(run: Shell) -> None:
    assert run("ledger limit add-remove --epsilon 0.5 --purpose trial")[0] == 0
    told = run.fails(f"{RELEASE} --purpose trial", 3)
    assert "for purpose trial" in told and "of 0.5" in told
    assert run(RELEASE)[0] == 0
    (account,) = run.json("ledger show add-remove")["accounts"]
    assert [(limit["subject"], limit["left"]["epsilon"]) for limit in account["limits"]] == [("purpose trial", "0.5")]
    assert "purpose trial" in run("ledger show add-remove")[1]
    assert "never rises" in run.fails("ledger limit add-remove --epsilon 2 --purpose trial")


def test_a_limit_of_epsilon_leaves_that_of_delta(run: Shell) -> None:
    assert run("ledger open ward --epsilon 3 --delta 1e-6 --relation replace")[0] == 0
    assert run.json("ledger limit ward --epsilon 2")["limit"] == {"epsilon": "2", "delta": "0.000001"}
    assert run.json("ledger limit ward --epsilon 1 --purpose p")["limits"][0]["limit"]["delta"] == "0.000001"
    assert run.json("ledger limit ward --epsilon 1 --delta 0 --purpose p")["limits"][0]["limit"]["delta"] == "0"
    assert run.json("ledger limit ward --epsilon 0.5 --purpose p")["limits"][0]["limit"]["delta"] == "0"


def test_a_closed_account_pays_nothing(run: Shell) -> None:
    assert run("ledger close add-remove")[0] == 0
    assert "is closed; nothing was charged" in run.fails(RELEASE)
    assert "this account is closed" in run("ledger show add-remove")[1]
    assert "is closed" in run.fails("ledger close add-remove")


def test_an_export_is_verified_without_the_ledger(run: Shell) -> None:
    assert run(RELEASE)[0] == 0
    assert run("ledger export add-remove --output a.json")[0] == 0
    kept = run.json("ledger verify add-remove")["accounts"]
    Path("discreet-ledger.db").unlink()
    assert run.json("ledger verify a.json")["accounts"] == kept
    document = json.loads(Path("a.json").read_text())
    document["entries"][1]["epsilon"] = "1/2"
    Path("b.json").write_text(json.dumps(document))
    assert "entry 1 does not match" in run.fails("ledger verify b.json")
    for wrong in ("{}", "[", '{"format": "discreet ledger account", "version": 2, "entries": [{}]}'):
        Path("c.json").write_text(wrong)
        assert "ledger export" in run.fails("ledger verify c.json")


def test_an_export_can_be_read_as_lines(run: Shell) -> None:
    assert run(RELEASE)[0] == 0
    assert run("ledger export add-remove --output a.csv")[0] == 0
    first, second = csv.DictReader(Path("a.csv").read_text().splitlines())
    assert (first["kind"], second["kind"], second["epsilon_spent"]) == ("opened", "charged", "1")
    code, out, _ = run("ledger export add-remove --output -")
    assert code == 0 and len(json.loads(out)["entries"]) == 2
    assert "a.csv" in run.fails("ledger export add-remove --output a.csv")


def test_verify_names_what_was_changed(run: Shell) -> None:
    import sqlite3

    assert run(RELEASE)[0] == 0
    assert {part["account"] for part in run.json("ledger verify")["accounts"]} == {"add-remove", "replace"}
    base = sqlite3.connect("discreet-ledger.db")
    base.execute("DROP TRIGGER discreet_entries_no_update")
    base.execute("UPDATE discreet_entries SET purpose = 'x' WHERE kind = 'charged'")
    base.commit()
    base.close()
    assert "entry 1 does not match: digest" in run.fails("ledger verify")


# ------------------------------------------------------------------------------------------------------- where it is


def test_the_ledger_is_found_where_it_was_said_to_be(
    run: Shell, tmp_path: Path, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command, else by the environment, else by the file, else in the user's state folder."""
    monkeypatch.delenv("DISCREET_LEDGER")
    assert ledger_address(None, None) == f"sqlite:///{state_folder}/discreet/ledger.db"
    settings = tmp_path / "home" / "discreet" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'ledger = "@team"\n[databases]\nteam = "sqlite:///{tmp_path}/team.db"\n')
    assert ledger_address() == f"sqlite:///{tmp_path}/team.db"
    assert run("ledger open ward --epsilon 1 --relation replace")[0] == 0 and Path("team.db").exists()
    monkeypatch.setenv("DISCREET_LEDGER", "sqlite:////other.db")
    assert ledger_address(None) == "sqlite:////other.db"
    assert ledger_address(None, "sqlite:///project.db") == "sqlite:///project.db"
    assert ledger_address("sqlite:///named.db", "sqlite:///project.db") == "sqlite:///named.db"
    monkeypatch.setenv("DISCREET_DATABASE_TEAM", "sqlite:///first.db")
    assert address_of("@team") == "sqlite:///first.db"
    assert ledger_address("@team") == "sqlite:///first.db"


def test_a_ledger_that_nothing_names_is_the_owners_alone(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder, too; a relative XDG_STATE_HOME counts as none, as the XDG rules have it."""
    monkeypatch.delenv("DISCREET_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    assert run("ledger open ward --epsilon 1 --relation replace")[0] == 0
    file = tmp_path / "ada" / ".local" / "state" / "discreet" / "ledger.db"
    assert [oct(path.stat().st_mode)[-3:] for path in (file.parent, file)] == ["700", "600"]
    assert not Path("state").exists()


def test_no_ledger_depends_on_the_folder_unless_the_command_says_so(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit in it would be as many as there are folders."""
    names = "write an absolute path, sqlite:////home/ada/budget.db, in DISCREET_LEDGER"
    for address in ("sqlite:///b.db", "sqlite+pysqlite:///b.db", "sqlite:///~/b.db", "sqlite:///./b.db", "@team"):
        monkeypatch.setenv("DISCREET_DATABASE_TEAM", "sqlite:///b.db")
        monkeypatch.setenv("DISCREET_LEDGER", address)
        assert names in run.fails("ledger show")
    monkeypatch.delenv("DISCREET_LEDGER")
    (tmp_path / "settings.toml").write_text('ledger = "sqlite:///b.db"\n')
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "settings.toml"))
    assert names in run.fails("ledger show") and not Path("b.db").exists()
    assert run("ledger show --ledger sqlite:///b.db")[0] == 0 and Path("b.db").exists()


def test_where_there_is_no_home_a_ledger_is_asked_for(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCREET_LEDGER")
    monkeypatch.delenv("XDG_STATE_HOME")
    for home in ("relative", str(tmp_path / "d.parquet"), "/proc"):
        monkeypatch.setenv("HOME", home)
        assert "set DISCREET_LEDGER to another one, such as sqlite:////data/budget.db" in run.fails("ledger show")
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{tmp_path}/budget.db")
    assert run("ledger show")[0] == 0 and not Path("relative").exists()


def test_records_are_found_by_the_name_of_their_database(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISCREET_DATABASE_OUR_VISITS", "d.parquet")
    assert run("check @our-visits --network asia.bif")[0] == 0
    assert "no database is called 'nobody'" in run.fails("check @nobody --network asia.bif")


@pytest.mark.parametrize(
    "text", ["ledger = 1", "# " + "x" * 2**16, "x = 'y'", "[databases]\na = 1", "databases = 'x'", "ledger ="]
)
def test_settings_that_are_none_are_refused(
    text: str, run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCREET_LEDGER")
    (tmp_path / "settings.toml").write_text(text)
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "settings.toml"))
    assert "settings.toml" in run.fails("ledger show")


# ------------------------------------------------------------------------------------------------------------ the page


def test_the_page_leads_from_an_empty_server_to_an_audited_release(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the roles that the page makes, each with its own address."""
    page = (Path(__file__).parent.parent / "docs" / "teams.md").read_text()
    sql, lines = page.split("```sql\n")[1].split("```")[0], page.split("```sh\n")[1].split("```")[0].splitlines()
    for statement in sql.strip().split(";\n"):
        server.run(statement.rstrip(";"))
    run = shell.opened(tmp_path, monkeypatch, capfd)
    Path("asia.bif").rename("visits.bif")
    Path("visits.csv").write_bytes(shell.as_csv(shell.sample()))
    users = {"$ADMIN": "curator", "$OPENER": "opener", "$ANNA": "anna", "$OFFICER": "officer"}
    addresses = {name: server.url("budgets", user) for name, user in users.items()}
    said = {}
    for line in lines:
        command = line.removeprefix("discreet ")
        for name, address in addresses.items():
            command = command.replace(name, address)
        code, said[line], err = run(command)
        assert code == 0, (line, err)
    shown = said[next(line for line in lines if "ledger show" in line)]
    assert "anna" in shown and "annual-report" in shown
    charge = RELEASE.replace("add-remove", "visits-2026").replace("r.json", "s.json").replace("asia", "visits")
    told = run.fails(f"{charge} --ledger {addresses['$OFFICER']}")
    assert "may not do that" in told and "nothing was charged" in told
    assert "cannot pay" in run.fails(f"{charge} --epsilon 2.5 --ledger {addresses['$ANNA']}", 3)
    assert "may not" in run.fails(f"ledger close visits-2026 --ledger {addresses['$ANNA']}")
    printed = run(f"ledger init --ledger {addresses['$ADMIN']} --grant auditor=officer")[1]
    assert printed.startswith("BEGIN;") and 'GRANT SELECT ON ALL TABLES IN SCHEMA discreet TO "officer"' in printed
    assert "CREATE TABLE" not in printed  # it is there


def test_both_sums_of_an_account_are_shown_in_words(run: Shell) -> None:
    run("ledger open small --epsilon 3 --delta 1e-4 --relation add-remove")
    (before,) = run.json("ledger show small")["accounts"]
    assert before["rho"] is None and "Gaussian" not in run("ledger show small")[1]
    account = dc.Ledger(ledger_address()).account("small")
    promise = dc.Guarantee(epsilon="0.1", delta="1e-6", relation="add-remove", unit="record")
    for turn in range(2):
        account.charge(f"r{turn}", "gaussian", promise, rho=Fraction(1, 4000))
    (after,) = run.json("ledger show small")["accounts"]
    assert after["spent"] == {"epsilon": "0.2", "delta": "0.000002"} and after["rho"]["spent"] == "0.0005"
    assert [charge["rho"] for charge in after["charges"]] == ["0.00025"] * 2
    told = run("ledger show small")[1]
    assert "0.152 % of epsilon 3 and delta 0.0001 by Gaussian losses (rho 0.0005 of 0.3286) spent." in told
    assert "A charge fits while either its Gaussian loss or its epsilon and delta fit into what is left." in told
    assert "more was spent" in run.fails("ledger limit small --epsilon 0.01 --delta 1e-9")
    assert run("ledger limit small --epsilon 2")[0] == 0 and run("ledger verify small")[0] == 0


def test_a_release_that_fits_by_its_loss_alone_passes_the_check_before_records_are_read(run: Shell) -> None:
    run("ledger open small --epsilon 3 --delta 1e-4 --relation add-remove")
    command = RELEASE.replace("--account add-remove", "--account small --mechanism gaussian --delta 7e-6")
    command = command.replace("--epsilon 1", "--epsilon 0.1")
    account = dc.Ledger(ledger_address()).account("small")
    promise = dc.Guarantee(epsilon="0.1", delta="1e-6", relation="add-remove", unit="record")
    larger = dc.Guarantee(epsilon="0.1", delta="7e-6", relation="add-remove", unit="record")
    for turn in range(31):
        account.charge(f"r{turn}", "gaussian", promise, rho=Fraction(1, 4000))
    with pytest.raises(dc.BudgetError):
        account.check(larger)  # the loss of the guarantee has delta beside it
    assert run(command)[0] == 0
    assert 0 < account.charges()[-1].rho < Fraction(1, 1000) and account.balance().epsilon_spent == Fraction(16, 5)
