"""What `discreet export --to bif` writes is read by other programs: pyAgrum and pgmpy, where they are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.formats.network_content import NetworkContent
from discreet.formats.network_files import content_of
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif, odd_names, plain_names
from networks import asia
from releases import simulated
from shell import Shell, opened
from strategies import same

ODD = dc.Network(
    (
        dc.Variable("Asy/Patch", ("<5", "5-12", "?", "a b", "a_b", "12+")),
        dc.Variable("age group", bounds=(0, 120), bins=(17.5, 65)),
        dc.Variable("1", ("0", "1")),
        dc.Variable("table", ("default", "é")),
    ),
    {"Asy/Patch": (), "age group": ("Asy/Patch",), "1": ("age group", "Asy/Patch"), "table": ()},
)
SINGLE = 1e-6
"""pyAgrum keeps probabilities of BIF files in single precision."""

READ_PYAGRUM = """
import sys, json, itertools
import pyagrum as gum
net = gum.loadBN(sys.argv[1])
found = {}
for name in net.names():
    table = net.cpt(name)
    found[name] = {}
    for at in itertools.product(*(net.variable(v).labels() for v in table.names)):
        found[name]["|".join(f"{v}={s}" for v, s in sorted(zip(table.names, at)))] = table[dict(zip(table.names, at))]
print(json.dumps(found))
"""
READ_PGMPY = """
import sys, json, itertools, warnings
warnings.simplefilter("ignore")
from pgmpy.readwrite import BIFReader
net = BIFReader(sys.argv[1]).get_model()
found = {}
for table in net.get_cpds():
    found[table.variable] = {}
    states = [table.state_names[v] for v in table.variables]
    for at in itertools.product(*(range(len(part)) for part in states)):
        key = "|".join(f"{v}={s[k]}" for v, s, k in sorted(zip(table.variables, states, at)))
        found[table.variable][key] = float(table.values[at])
print(json.dumps(found))
"""
PEERS = {"pyagrum": READ_PYAGRUM, "pgmpy": READ_PGMPY}


def peer(name: str) -> str:
    """The interpreter that has a peer: $DISCREET_PEERS, or this one; else the test is skipped."""
    python = os.environ.get("DISCREET_PEERS")
    if python is None and find_spec(name) is None:
        pytest.skip(f"{name} is not installed (the dev extra), and $DISCREET_PEERS names no interpreter that has it")
    return python or sys.executable


def expected(theta: dc.Tables) -> dict[str, dict[str, float]]:
    """Probabilities by the names of their cells."""
    found: dict[str, dict[str, float]] = {}
    for node in theta.network.nodes:
        family = theta.network.family(node)
        states = [theta.network.schema[name].states for name in family]
        found[node] = {
            "|".join(f"{name}={s[k]}" for name, s, k in sorted(zip(family, states, at, strict=True))): float(value)
            for at, value in np.ndenumerate(theta[node])
        }
    return found


def read_by(name: str, path: Path) -> dict[str, dict[str, float]]:
    done = subprocess.run([peer(name), "-c", PEERS[name], str(path)], capture_output=True, text=True, env={
        key: value for key, value in os.environ.items() if key != "PYTHONPATH"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def odd_theta() -> dc.Tables:
    rng = np.random.default_rng(3)
    drawn = {node: rng.uniform(0.1, 1, ODD.shape(node)) for node in ODD.nodes}
    return dc.Tables(ODD, {node: rows / rows.sum(axis=-1, keepdims=True) for node, rows in drawn.items()})


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a release over names that others do not read, and one over the bundled network."""
    found = opened(tmp_path, monkeypatch, capfd)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="hospital; stay")
    simulated(odd_theta(), 500, promise, np.random.default_rng(1)).save("odd.json")
    simulated(asia(), 500, promise, np.random.default_rng(1)).save("asia.json")
    return found


@pytest.mark.costly("Only the other programs show whether they read what we write.")
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(("release", "options"), [("asia.json", ""), ("odd.json", "--plain-names")])
def test_an_exported_network_is_read_by_others(shell: Shell, name: str, release: str, options: str) -> None:
    peer(name)
    code, _, err = shell(f"export {release} --output net.bif --method plug-in --draws 50 {options}")
    assert code == 0, err
    found, wanted = read_by(name, Path("net.bif")), expected(dc.Tables.read("net.bif"))
    assert found.keys() == wanted.keys()
    for node, cells in wanted.items():
        assert found[node].keys() == cells.keys()
        assert all(abs(found[node][cell] - value) <= SINGLE for cell, value in cells.items())


def test_names_that_others_do_not_read_are_said(shell: Shell) -> None:
    command = "--output net.bif --method plug-in --draws 50 --replace"
    code, out, err = shell(f"export odd.json {command}")
    assert code == 0 and out == "wrote net.bif\n"
    assert "pyAgrum and pgmpy may not read the names 'Asy/Patch', 'age group', '1', 'table'," in err
    assert dc.Network.read("net.bif").variables == ODD.variables
    for quiet in (f"export asia.json {command}", f"export odd.json {command} --plain-names"):
        code, _, err = shell(quiet)
        assert code == 0 and "pyAgrum" not in err
    assert shell.fails("export asia.json --to arviz --output x.nc --plain-names")


def test_plain_names_are_different_and_say_what_they_were() -> None:
    bif = content_of(odd_theta(), properties=("first",))
    plain = plain_names(bif)
    assert odd_names(plain) == ()
    assert [v.name for v in plain.variables] == ["Asy_Patch", "age_group", "_1", "_table"]
    assert plain.variables[0].states == ("_5", "_5-12", "_", "a_b_2", "a_b", "_12_")
    assert plain.variables[1].bounds == (0, 120) and plain.variables[1].bins == (17.5, 65)
    assert plain.parents["_1"] == ("age_group", "Asy_Patch")
    assert all(
        np.array_equal(plain.arrays[new], bif.arrays[old]) for new, old in zip(plain.parents, bif.parents, strict=True)
    )
    assert plain.properties[0] == "first" and "state _5 of Asy_Patch is '<5'" in plain.properties
    again = parse_bif(format_bif(plain))
    assert again.properties == plain.properties and again.variables == plain.variables
    assert same(again.arrays, {name: np.asarray(plain.arrays[name]) for name in plain.parents})


def test_odd_names_that_would_become_one_stay_apart() -> None:
    odd = (dc.Variable("a b", ("<5", ">5", "x")), dc.Variable("a/b", ("x",)), dc.Variable("a+b", ("x",)))
    plain = plain_names(NetworkContent(odd, {variable.name: () for variable in odd}, {}))
    assert [variable.name for variable in plain.variables] == ["a_b", "a_b_2", "a_b_3"]
    assert plain.variables[0].states == ("_5", "_5_2", "x")


def test_the_network_block_holds_comments_only() -> None:
    text = asia().text(properties=("made; by 'me' // twice",))
    assert "property" not in text
    assert parse_bif(text).properties == ("made; by 'me' // twice",)


def test_properties_of_old_files_are_still_read() -> None:
    old = "network n { property p; }\nvariable a { type discrete [ 2 ] { x, y }; property discreet-bounds 0.0 9.0; "
    new = "network n {\n// discreet: p\n}\nvariable a {\n// discreet-bounds 0.0 9.0\ntype discrete [ 2 ] { x, y };\n"
    bins = ("property discreet-bins 4.0; }", "// discreet-bins 4.0\n}")
    one, two = (parse_bif(f"{text}{end} probability ( a ) {{ }}") for text, end in zip((old, new), bins, strict=True))
    assert one.variables == two.variables == (dc.Variable("a", ("x", "y"), bounds=(0, 9), bins=(4,)),)
    assert one.properties == two.properties == ("p",)


def test_notes_outside_their_block_say_nothing() -> None:
    note = "\n// discreet-bounds 0 9\n// discreet: x\n"
    text = f"{note}network n {{ }}{note}variable a {{ type discrete [ 1 ] {{ x }}; }}{note}probability ( a ) {{{note}}}"
    assert parse_bif(text).variables[0].bounds is None
    assert parse_bif(text).properties == ()
