"""Network files on the command line: XMLBIF wherever BIF is taken, and `discreet export` from one to the other."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.formats.network_files import content_of
from networks import asia
from shell import RELEASE, Shell, opened
from strategies import same_file

FEW = "--method plug-in --draws 50"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    found = opened(tmp_path, monkeypatch, capfd)
    for name in ("asia.xml", "asia.xmlbif.gz", "asia.bifxml"):
        asia().write(name, properties=("by me",))
    return found


@pytest.mark.costly("Each command that takes a network is given another format of it.")
def test_a_command_takes_xmlbif_wherever_it_takes_bif(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("asia.xml", "asia.xmlbif.gz", "asia.bifxml"):
        assert run.json(f"show {name}") == run.json("show asia.bif")
    Path("renamed").write_bytes(Path("asia.xml").read_bytes())
    assert run.json("check d.parquet --network renamed") == run.json("check d.parquet --network asia.bif")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("asia.xml").read_bytes())))
    assert run.json("show -") == run.json("show asia.bif")
    plan = "--epsilon 1 --records 500 --repeats 1 --mechanism laplace --seed 1"
    assert run.json(f"plan --network asia.xml {plan}") == run.json(f"plan --network asia.bif {plan}")
    run.json(RELEASE.replace("asia.bif", "asia.xml") + " --prior asia.xml --equivalent-sample-size 2")
    assert dc.Release.load("r.json").network == asia().network
    assert run.json("fit r.json --network asia.xml")["tested"] >= 0
    assert run.json(f'query r.json "P(lung)" --prior asia.bifxml {FEW}')["answers"]
    code, out, _ = run("init asia.xml --output -")
    assert code == 0 and "lung" in out
    schema = {"variables": [{"name": v.name, "states": list(v.states)} for v in asia().network.schema]}
    Path("s.json").write_text(json.dumps(schema))
    assert run.json("show asia.xml --schema s.json") == run.json("show asia.bif")


def test_what_is_no_xmlbif_is_refused_in_one_line(run: Shell) -> None:
    Path("broken.xml").write_text(Path("asia.xml").read_text().replace("</NAME>", "", 1))
    assert "broken.xml, line" in run.fails("check d.parquet --network broken.xml")
    Path("arcs").write_text("asia -> tub")
    assert "is no network file" in run.fails("show arcs")


def test_a_release_is_exported_as_xmlbif(run: Shell) -> None:
    run(RELEASE)
    assert run.json(f"export r.json --output a.xml {FEW} --seed 3") == {"output": "a.xml", "format": "xmlbif"}
    run(f"export r.json --output a.bif {FEW} --seed 3")
    assert same_file(content_of(dc.Tables.read("a.xml")), content_of(dc.Tables.read("a.bif")))
    text = Path("a.xml").read_text()
    assert text.startswith("<?xml") and "<PROPERTY>released with " in text and "<PROPERTY>release " in text
    code, out, err = run(f"export r.json --to xmlbif --output - {FEW} --seed 3")
    assert (code, out) == (0, text), err
    run(f"export r.json --to xmlbif --output a.txt {FEW} --seed 3")
    assert Path("a.txt").read_text() == text
    run(f"export r.json --to bif --output b.xml {FEW} --seed 3")
    assert Path("b.xml").read_text() == Path("a.bif").read_text()
    run(f"export r.json --output a.xml.gz {FEW} --seed 3")
    assert gzip.decompress(Path("a.xml.gz").read_bytes()).decode() == text
    assert "exists" in run.fails(f"export r.json --output a.xml {FEW}")


def test_what_a_network_file_has_no_place_for_is_listed(run: Shell) -> None:
    day = dc.Variable("day", bounds=("2024-01-01", "2024-12-31"), bins=("2024-07-01",), type="date")
    sex = dc.Variable("sex", ("f", "m"), codes=("1", "2"), other="else")
    cause = dc.Variable("cause", ("heart",), applies_if="sex = f")
    network = dc.Network.empty((day, sex, cause))
    counts = dc.tools.count_codes(network, {"day": [0, 1], "sex": [0, 1], "cause": [0, 1]})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=1).save("coded.json")
    for name in ("coded.bif", "coded.xml"):
        code, _, err = run(f"export coded.json --output {name} {FEW}")
        lost = (
            "dates, numbers of days or seconds there, of 'day'",
            "the codes of 'sex'",
            "other values of 'sex'",
            "applies of 'cause'",
        )
        assert code == 0 and all(words in err and words in Path(name).read_text() for words in lost), err
    run(RELEASE)
    assert "no place" not in run(f"export r.json --output plain.bif {FEW}")[2]


def test_all_draws_are_what_a_name_of_netcdf_asks_for(run: Shell) -> None:
    arviz = pytest.importorskip("arviz", reason="arviz: the extra [arviz] is not installed")
    run(RELEASE)
    assert run.json(f"export r.json --output a.nc {FEW}")["format"] == "arviz"
    sizes = arviz.from_netcdf("a.nc").posterior.sizes
    assert (sizes["chain"], sizes["draw"]) == (2, 25)


def test_a_network_file_is_written_in_another_notation(run: Shell) -> None:
    assert run.json("export asia.bif --output b.xml") == {"output": "b.xml", "format": "xmlbif"}
    assert same_file(content_of(dc.Tables.read("b.xml")), content_of(asia()))
    code, out, _ = run("export asia.xml --output -")
    assert code == 0 and out.startswith("network") and "// discreet: by me" in out
    odd = dc.Network((dc.Variable("a b", ("<5", "&")),), {"a b": ()})
    dc.Tables(odd, {"a b": np.array([0.25, 0.75])}).write("odd.bif")
    code, _, err = run("export odd.bif --output odd.xml")
    assert (code, err) == (0, "") and dc.Network.read("odd.xml") == odd
    code, _, err = run("export odd.xml --output again.bif")
    assert code == 0 and "pyAgrum and pgmpy may not read the names 'a b', '<5', '&'" in err
    code, _, err = run("export odd.xml --output plain.bif --plain-names")
    assert (code, err) == (0, "") and dc.Network.read("plain.bif").nodes == ("a_b",)
    odd.write("bare.xml")
    run("export bare.xml --output bare.bif")
    assert dc.Network.read("bare.bif") == odd


def test_what_a_network_file_has_not_is_refused(run: Shell) -> None:
    for option in ("--to arviz", "--loss squared", "--draws 10", "--seed 1", "--method pooled", "--missing state"):
        output = "x.nc" if "arviz" in option else "x.bif"
        assert "a network file has no draws" in run.fails(f"export asia.xml --output {output} {option}")
    assert "the formats are: bif, xmlbif, arviz" in run.fails("export asia.xml --to pgmpy --output x.xml")
    assert "exists" in run.fails("export asia.xml --output asia.bif")
    assert run("export asia.xml --output asia.bif --replace")[0] == 0
    assert "No such file" in run.fails("export nothing.xml --output x.bif")
    Path("cycle.xml").write_text(
        Path("asia.xml")
        .read_text()
        .replace("<FOR>asia</FOR>", "<FOR>asia</FOR><GIVEN>tub</GIVEN>")
        .replace("0.01 0.99", "0.01 0.99 0.5 0.5", 1)
    )
    assert "cycle" in run.fails("export cycle.xml --output x.bif")


@pytest.mark.filterwarnings("default:.*printed digits:UserWarning")
def test_a_scaled_row_is_told_in_a_line(run: Shell) -> None:
    text = Path("asia.bif").read_text().replace("table 0.5, 0.5;", "table 0.4999, 0.5;")
    Path("rounded.bif").write_text(text)
    code, _, err = run("export rounded.bif --output whole.bif")
    assert code == 0 and dc.Tables.read("whole.bif")["smoke"].sum() == pytest.approx(1, abs=1e-15)
    (line,) = (line for line in err.splitlines() if "smoke" in line)
    assert line.startswith("discreet: rounded.bif, line ") and line.endswith("it is scaled to 1"), err
    assert run("show rounded.bif") == run("show asia.bif")


def test_a_model_string_is_a_network_over_a_schema(run: Shell) -> None:
    schema = {"variables": [{"name": v.name, "states": list(v.states)} for v in asia().network.schema]}
    Path("s.json").write_text(json.dumps(schema))
    Path("model").write_text(
        "[asia][smoke][tub|asia][lung|smoke][bronc|smoke][either|tub:lung][xray|either][dysp|either:bronc]\n"
    )
    assert run.json("show model --schema s.json") == run.json("show asia.bif")
