"""Project files: what they say, what is refused, that comments survive, and that commands take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dc
import shell
from discreet.formats.project_file import Project, draft_project
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

TEXT = """# our study
arcs = ["smoke -> lung", '"age group" -> lung']  # see the protocol

[source]
data = "visits.csv"
na_values = ["?"]
missing = "drop"

[unit]
name = "patient"
column = "who"  # hashed in the source system
max_records = 3
weights = "unit"

[account]
name = "visits"

[[variables]]
name = "smoke"  # at any time
states = ["no", "yes"]

[[variables]]
name = "lung"
states = ["no", "yes"]

[[variables]]
name = "age group"
bounds = [0, 99]
bins = [18, 65]
type = "integer"
"""


def test_what_a_project_says() -> None:
    project = Project.parse(TEXT)
    assert project.network.parents["lung"] == ("smoke", "age group")
    assert project.network.schema["age group"] == dc.Variable(
        "age group", bounds=(0, 99), bins=(18, 65), type="integer"
    )
    assert project.source == "visits.csv"
    assert project.reading == {
        "na_values": ["?"],
        "missing": "drop",
        "unit_column": "who",
        "max_records": 3,
        "weights": "unit",
    }
    bare = Project.parse('[[variables]]\nname = "a"\nstates = ["x"]\n')
    assert bare.source is None and bare.reading == {} and not bare.network.arcs


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("[source]", "[sources]"), "'sources'; it may have arcs, variables, source, unit, account"),
        (('missing = "drop"', 'mising = "drop"'), "'mising'; it may have data, table, missing"),
        (("max_records = 3", 'max_records = "3"'), "max_records of .unit. is a whole number"),
        (("max_records = 3", "max_records = true"), "max_records of .unit. is a whole number"),
        (('na_values = ["?"]', "na_values = [9]"), "na_values of .source. is a list of texts"),
        (('states = ["no", "yes"]', 'stats = ["no"]'), "a variable has a name"),
        (("smoke -> lung", "smoke -> lungs"), "'lungs'"),
        (("smoke -> lung", "smoke lung"), "arcs of project"),
        (('["smoke', '[1, "smoke'), "arcs are a list of texts"),
        (("[account]", "[account"), "not TOML"),
        (('name = "lung"', 'name = "smoke"'), "declared twice"),
    ],
)
def test_what_is_no_project_is_refused_by_name(changed: tuple[str, str], words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        Project.parse(TEXT.replace(*changed, 1))
    with pytest.raises(dc.InputError, match="needs its variables"):
        Project.parse("arcs = []")


def test_comments_survive_other_arcs(tmp_path: Path) -> None:
    project = Project.parse(TEXT)
    other = dc.Network.from_edges([("age group", "smoke"), ("smoke", "lung")], project.network.variables)
    changed = project.with_network(other)
    assert changed.network == other
    for comment in ("# our study", "# see the protocol", "# hashed in the source system", "# at any time"):
        assert comment in changed.text
    assert changed.sections == project.sections
    assert not project.with_network(dc.Network.empty(project.network.variables)).network.arcs
    with pytest.raises(dc.InputError, match="other variables"):
        project.with_network(dc.Network.empty([dc.Variable("smoke", ("no", "yes"))]))
    changed.save(tmp_path / "p.toml")
    assert Project.read(tmp_path / "p.toml").network == other
    with pytest.raises(dc.InputError, match="exists"):
        changed.save(tmp_path / "p.toml")
    changed.save(tmp_path / "p.toml", replace=True)


def test_what_is_drafted_is_read_as_it_was_meant() -> None:
    odd = dc.Variable('a "b" -> c, #d', ('say "x"', "é\\n", "#"))
    named = dc.Variable("n", ("low", "high"), bounds=(-0.5, 1e-3), bins=(0,))
    network = dc.Network.from_edges([(odd.name, "n")], [odd, named, *Project.parse(TEXT).network.variables])
    found = draft_project(network, source={"data": "c:\\x", "na_values": ["?"]}, unit={"name": "stay"}, account="a")
    assert found.network == network and found.source == "c:\\x" and found.reading == {"na_values": ["?"]}
    assert found.sections["unit"] == {"name": "stay"} and found.sections["account"] == {"name": "a"}


def visits(path: str = "visits.csv") -> None:
    rng = np.random.default_rng(3)
    who = np.arange(600) // 3
    table = {"who": who, "smoke": rng.choice(["no", "yes"], 600), "lung": rng.choice(["no", "yes"], 600)}
    pd.DataFrame(table | {"age group": rng.integers(0, 100, 600)}).to_csv(path, index=False)


@pytest.mark.costly("A project that loses its unit or its options is found by running the commands on it.", always=True)
def test_commands_take_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    visits()
    Path("p.toml").write_text(TEXT, "utf-8")
    checked = run.json("check p.toml")
    assert checked["ok"] and checked["units"]["units"] == 200 and checked["units"]["most"] == 3
    assert "no account" in run.fails("release p.toml --epsilon 1 --output r.json")
    run("ledger open visits --epsilon 9 --relation add-remove --unit person")
    assert "the project file each 'patient'" in run.fails("release p.toml --epsilon 1 --output r.json")
    run("ledger open visits2 --epsilon 9 --relation add-remove --unit patient")
    Path("p.toml").write_text(TEXT.replace('name = "visits"', 'name = "visits2"'), "utf-8")
    code, _, err = run("release p.toml --epsilon 1 --output r.json")
    assert code == 0 and "each patient counts once, in 6 steps" in err
    release = dc.Release.load("r.json")
    assert release.network.parents["lung"] == ("smoke", "age group") and release.policy.missing == "drop"
    # What the command line says comes first; records may be named beside the project.
    visits("other.csv")
    code, _, err = run(
        "release other.csv --network p.toml --epsilon 1 --max-records 1 --weights record --output s.json"
    )
    assert code == 0 and "one record of each patient was kept" in err
    code, _, _ = run("structure p.toml --epsilon 1 --output chosen.json")
    assert code == 0
    assert run("init p.toml --network chosen.json --output q.toml")[0] == 0
    assert Project.read("q.toml").network.arcs == dc.Release.load("chosen.json").learned_network.arcs
    assert "# our study" in Path("q.toml").read_text("utf-8")


@pytest.mark.costly("Arcs over unknown variables are found by the commands that take a project.")
def test_arcs_that_somebody_tries_are_over_a_projects_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    visits()
    visits("other.csv")
    run("ledger open visits2 --epsilon 9 --relation add-remove --unit patient")
    Path("p.toml").write_text(TEXT.replace('name = "visits"', 'name = "visits2"'), "utf-8")
    assert run("plan --network p.toml --epsilon 1 --records 200 --repeats 1 --mechanism laplace")[0] == 0
    # Arcs that somebody tries are over the project's variables, and so are those of a file of arcs.
    Path("arcs.txt").write_text("smoke -> lung\n", "utf-8")
    assert run("release p.toml --network none --epsilon 0.5 --output t.json")[0] == 0
    assert dc.Release.load("t.json").network == dc.Network.empty(Project.read("p.toml").network.variables)
    assert run("release p.toml --network arcs.txt --epsilon 0.5 --output u.json")[0] == 0
    assert dc.Release.load("u.json").network.arcs == (("smoke", "lung"),)
    assert run.json("show arcs.txt --schema p.toml")["arcs"] == [["smoke", "lung"]]
    assert run("structure other.csv --schema p.toml --account visits2 --unit-column who --max-records 1 --epsilon 0.5 "
               "--output v.json --na-values ?")[0] == 0  # fmt: skip
    for refused in (
        "check p.toml --schema x.json",
        "check other.csv --network p.toml --schema x.json",
        "init p.toml --output z.toml",
        "check nothing.toml",
    ):
        run.fails(refused)
    Path("n.toml").write_text(TEXT.replace('data = "visits.csv"', ""), "utf-8")
    assert "has no address of the records" in run.fails("check n.toml")


@pytest.mark.costly("A draft that shows something of the records is found by drafting from hidden ones.", always=True)
def test_projects_are_drafted_from_what_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    visits("sample.csv")
    command = "init sample.csv --source private.parquet --unit patient --unit-column who --account visits --output"
    assert run(f"{command} p.toml")[0] == 0
    project = Project.read("p.toml")
    assert project.network.nodes == ("smoke", "lung", "age group") and project.source == "private.parquet"
    assert project.sections["unit"] == {"name": "patient", "column": "who"}
    assert "exists" in run.fails(f"{command} p.toml")
    assert "ends in .toml" in run.fails(f"{command} p.txt")
    assert run(f"{command} p.toml --replace")[0] == 0
    pa.parquet.write_table(pa.table({"age": np.arange(500) % 90}), "ages.parquet")
    assert run("init ages.parquet --public --output a.toml")[0] == 0
    assert "must not be published" in run.fails("init sample.csv --source ./sample.csv --output d.toml")
    (age,) = Project.read("a.toml").network.variables
    assert age.type == "integer" and age.bounds == (0, 89)
    Path("arcs.txt").write_text('smoke -> lung\n"age group" -> lung\n', "utf-8")
    assert run("init sample.csv --public --unit-column who --network arcs.txt --output c.toml")[0] == 0
    assert Project.read("c.toml").network.parents["lung"] == ("smoke", "age group")
    assert run("init sample.csv --public --network naive-bayes:lung --output d.toml")[0] == 0
    assert Project.read("d.toml").network.parents["smoke"] == ("lung",)
    assert run("init d.toml --network none --output e.toml")[0] == 0
    assert not Project.read("e.toml").network.arcs
    assert "lung" in run("show c.toml")[1]
    assert run("init asia.bif --output b.toml")[0] == 0
    assert Project.read("b.toml").network == dc.Network.read("asia.bif")
    shown = run("init asia.bif --output -")[1]
    assert Project.parse(shown).network == dc.Network.read("asia.bif")
