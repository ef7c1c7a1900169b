"""Figures by others from CSV files, data frames and objects of mbi, and the command that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from folding import every
from networks import ASIA, asia
from oracle import small
from releases import guarantee, simulated
from shell import Shell

NETWORK = small(("a", 2, ()), ("b", 3, ("a",)))
LAPLACE = dc.external.StatedNoise("laplace", 2)
WHOLE = "b,count,a\ns0,1.5,s0\ns1,2,s0\ns2,3,s0\ns0,4,s1\ns2,6,s1\ns1,5,s1\n"


def cells(text: str | pa.Table, folder: Path, noise: Any = LAPLACE) -> dc.external.External:
    """Figures of a text, by way of a file."""
    if isinstance(text, str):
        (folder / "cells.csv").write_text(text)
    path = folder / "cells.csv" if isinstance(text, str) else text
    return dc.external.measured_cells(path, NETWORK, noise, guarantee=None, source="x")


def test_a_table_of_all_cells_in_any_order(tmp_path: Path) -> None:
    (part,) = cells(WHOLE, tmp_path).measurements
    assert (part.scope, part.weights, part.scale) == (("b", "a"), None, 2.0)
    assert part.values.tolist() == [[1.5, 4], [2, 5], [3, 6]]
    columns = {"b": ["s1", "s0", "s2"], "value": [2, 1, 3]}
    for frame in (pa.table(columns), *frames(columns)):
        (part,) = cells(frame, tmp_path).measurements
        assert part.values.tolist() == [1, 2, 3] and part.scope == ("b",)
    assert cells("count\n100\n", tmp_path, dc.external.StatedNoise("rounded", 1)).records == 100


def frames(columns: dict[str, list[Any]]) -> list[Any]:
    """The same in the libraries that are there."""
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    return [pandas.DataFrame(columns), polars.DataFrame(columns)]


def test_cells_that_are_not_listed_were_not_measured(tmp_path: Path) -> None:
    (part,) = cells("a,b,count\ns1,s2,6\ns0,s1,2\n", tmp_path).measurements
    assert part.weights is not None and part.weights.shape == (2, 2, 3)
    assert [np.argwhere(row).tolist() for row in part.weights] == [[[1, 2]], [[0, 1]]]
    assert part.values.tolist() == [6, 2]


def test_one_noisy_cell_beside_an_exact_margin_tells_its_share() -> None:
    """95.2 +- 1.4 of 600: the share is .159, with a deviation of .015 by sampling and .002 by noise."""
    network = small(("smoke", 2, ()), ("ill", 2, ("smoke",)))
    (yes, _), (ill, _) = (variable.states for variable in network.variables)
    rounded, noise = dc.external.StatedNoise("rounded", 1), dc.external.StatedNoise("laplace", 1)
    margin = dc.external_table([600, 400], network, ["smoke"], rounded, guarantee=None, source="a census")
    table = pa.table({"smoke": [yes], "ill": [ill], "count": [95.2]})
    cell = dc.external.measured_cells(table, network, noise=noise, guarantee=None, source="a study")
    posterior = dc.noise_aware(dc.combine(margin, cell, data="same"), rng=1)
    row = posterior.answer(f"P(ill={ill} | smoke={yes})").rows[0]
    assert posterior.method == "exact"
    assert abs(row["mean"] - 95.2 / 600) < 0.005  # six errors of the mean of 1,000 draws are .003
    assert 3.3 < (row["upper"] - row["lower"]) / 0.0151 < 4.6  # 3.92 of a normal law, a sixth off either way


def test_each_scale_has_its_cells(tmp_path: Path) -> None:
    parts = cells("b,count,scale\ns1,2,4\ns0,1,1.5\ns2,3,4\n", tmp_path, "gaussian").measurements
    found = {part.scale: (part.values.tolist(), part.weights.tolist()) for part in parts}  # type: ignore[union-attr]
    assert found == {4.0: ([2, 3], [[0, 1, 0], [0, 0, 1]]), 1.5: ([1], [[1, 0, 0]])}
    (one,) = cells("a,count,scale\ns1,2,4\ns0,1,4\n", tmp_path, "laplace").measurements
    assert one.weights is None and (one.scale, one.values.tolist()) == (4.0, [1, 2])


@every(
    ("text", "message"),
    [
        ("", "a header and a row"),
        ("a,count\n", "no cell is listed"),
        ("a,number\ns0,1\n", "one column count or value"),
        ("a,count,value\ns0,1,2\n", "one column count or value"),
        ("a,z,count\ns0,1,2\n", "no variable 'z'"),
        ("a,a,count\ns0,s0,2\n", "'a' is there twice"),
        ("a,count\ns0\n", "row 2 has another number of columns"),
        ("a,count\nyes,1\n", "'a' has no state 'yes'; it has: s0, s1"),
        ("a,count\ns0,1\ns0,2\n", "a cell is listed twice"),
        ("a,count\ns0,many\ns1,2\n", "an entry that is no number"),
        ("a,count\ns0,nan\ns1,2\n", "not finite"),
        ("a,count\ns0,1e300\ns1,2\n", "none beyond 2^60"),
        ('a,count\n"s0,1\n', "no CSV"),
        ("a,count,scale\ns0,1,2\ns1,2,2\n", "the scale is given twice"),
    ],
)
def test_what_are_no_cells_is_refused(text: str, message: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(dc.InputError) as error:
        cells(text, tmp_path_factory.mktemp("cells"))
    assert message in str(error.value) and "cells.csv" in str(error.value)


def test_what_has_no_scale_or_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dc.InputError, match="the noise needs its scale"):
        cells(WHOLE, tmp_path, "laplace")
    with pytest.raises(dc.InputError, match="greater than 0"):
        cells("a,count,scale\ns0,1,-1\ns1,1,2\n", tmp_path, "laplace")
    with pytest.raises(dc.InputError, match="the path of a CSV file or a data frame"):
        dc.external.measured_cells([1, 2], NETWORK, LAPLACE, guarantee=None, source="x")
    with pytest.raises(dc.InputError, match="No such file"):
        dc.external.measured_cells(tmp_path / "none.csv", NETWORK, LAPLACE, guarantee=None, source="x")


# ------------------------------------------------------------------------------------------------------------- mbi


def measurement(values: Any, clique: Any, query: Any = None, stddev: float = 2.0) -> SimpleNamespace:
    return SimpleNamespace(noisy_measurement=values, clique=clique, stddev=stddev, query=query)


def test_measurements_of_mbi_by_their_attributes() -> None:
    weighted, sliced = SimpleNamespace(weights=np.array([1.0, 2, 0.5])), SimpleNamespace(start=1)
    told = [
        measurement(np.arange(6.0), ("b", "a")),
        measurement([3.0, 4, 5], ("b",), weighted),
        measurement([4.0, 5], ["b"], sliced, 1.0),
    ]
    made = dc.external.measured_mbi(told, NETWORK, "laplace", guarantee=guarantee(), source="mbi")
    one, two, three = made.measurements
    assert (one.scope, one.values.tolist()) == (("b", "a"), [[0, 1], [2, 3], [4, 5]])
    assert one.variance == pytest.approx(4) and three.variance == pytest.approx(1)
    assert two.weights is not None and two.weights.tolist() == np.diag([1, 2, 0.5]).tolist()
    assert three.weights is not None and three.weights.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert (
        dc.external.measured_mbi(told[:1], NETWORK, "gaussian", guarantee=None, source="x").measurements[0].scale == 2.0
    )


def test_the_library_itself_is_read() -> None:
    mbi = pytest.importorskip("mbi")
    told = mbi.LinearMeasurement(np.array([1.0, 2.0, 3.0]), ("b",), 2.0)
    (part,) = dc.external.measured_mbi([told], NETWORK, "gaussian", guarantee=None, source="x").measurements
    assert (part.values.tolist(), part.scope, part.weights) == ([1, 2, 3], ("b",), None)


@every(
    ("make", "message"),
    [
        (list, "no measurement"),
        (lambda: [SimpleNamespace(clique=("a",))], "noisy_measurement, clique, stddev"),
        (lambda: [measurement([1.0, 2], ("z",))], "no variable 'z'"),
        (lambda: [measurement([1.0, 2, 3], ("a",))], "another number of cells"),
        (lambda: [measurement([1.0, 2], ("a",), lambda factor: factor)], "of mbi's queries"),
        (lambda: [measurement([1.0, 2], ("a",), SimpleNamespace(weights=[1.0]))], "one for each cell"),
        (lambda: [measurement([1.0, np.nan], ("a",))], "finite"),
    ],
)
def test_what_is_no_measurement_of_mbi_is_refused(make: Callable[[], list[Any]], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.external.measured_mbi(make(), NETWORK, "gaussian", guarantee=None, source="x")


# --------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """A network, a release, and two tables by others."""
    monkeypatch.chdir(tmp_path)
    Path("asia.bif").write_text(Path(ASIA).read_text())
    simulated(asia(), 800, guarantee(2), np.random.default_rng(1)).save("ours.json")
    Path("smoke.csv").write_text("smoke,count\nyes,402\nno,398\n")
    Path("lung.csv").write_text("lung,smoke,count\nyes,yes,41.5\nno,yes,360.1\nyes,no,3\nno,no,395.5\n")
    return Shell(capfd)


def test_the_command_says_whose_promise_it_is(run: Shell) -> None:
    base = "external smoke.csv lung.csv --network asia.bif --noise laplace --scale 2"
    told = run.json(f"{base} --source OpenDP --epsilon 1 --relation add-remove --output e.json")
    made = dc.load("e.json")
    assert isinstance(made, dc.external.External)
    assert (told["id"], told["guarantee_by_source"]) == (made.id, "epsilon 1, add-remove one record")
    assert [part["variables"] for part in told["measurements"]] == [["smoke"], ["lung", "smoke"]]
    code, out, _ = run(f"{base} --source OpenDP --promise 'in words' --output -")
    assert code == 0 and dc.external.External.loads(out).guarantee == "in words"
    code, out, _ = run(f"{base} --source OpenDP --output f.json")
    assert code == 0 and "public figures of OpenDP, which promise nothing" in out


def test_every_command_reads_it_and_never_calls_it_ours(run: Shell) -> None:
    run.json("external smoke.csv --network asia.bif --noise rounded --scale 1 --source census --output c.json")
    run.json(
        "external lung.csv --network asia.bif --noise laplace --scale 2 --source OpenDP --epsilon 1 "
        "--relation add-remove --output e.json"
    )
    told = run.json("combine c.json e.json --data same --output both.json")
    assert told["data_sets"][0]["guarantee"] is None
    answers = run.json("query both.json 'P(lung | smoke=yes)' 'P(bronc)' --draws 60")
    assert [part["guarantee_by_source"] for part in answers["by_others"]] == [None, "epsilon 1, add-remove one record"]
    assert [part["basis"] for part in answers["answers"]] == ["measured", "prior"]
    assert answers["answers"][1]["prior_only"] == [["bronc"]]
    code, out, _ = run("query both.json 'P(bronc)' --draws 60")
    assert code == 0 and "not measured, prior only: bronc" in out
    assert "guaranteed by OpenDP, not by this package" in out and "released with" not in out
    code, out, _ = run("combine c.json ours.json --data same --output all.json")
    assert code == 0 and "it has figures by others" in out
    code, out, _ = run("export both.json --output - --draws 20")
    assert code == 0 and "guaranteed by OpenDP, not by this package" in out and "released with" not in out
    assert "by_others" in run.json("query all.json 'P(smoke)' --draws 60")
    assert run.json("fit e.json")["pairs_in_tables"] == 1
    assert run("sample both.json -n 5 --output x.csv --draws 20")[0] == 0
    assert run("query c.json --draws 60 --method plug-in")[0] == 0


def test_options_that_do_not_go_together(run: Shell) -> None:
    base = "external smoke.csv --network asia.bif --noise laplace --source x --output -"
    for options, message in (
        ("--scale 2 --relation replace", "needs its --epsilon"),
        ("--scale 2 --epsilon 1", "needs its --relation"),
        ("--scale 2 --epsilon 1 --relation replace --promise x", "given twice"),
        ("--scale 2 --epsilon 0 --relation replace", "greater than 0"),
        ("--scale 0", "greater than 0"),
        ("", "the noise needs its scale"),
    ):
        code, _, err = run(f"{base} {options}")
        assert code == 2 and message in err


def test_documents_are_json_that_anybody_can_write(tmp_path: Path) -> None:
    document = json.loads(cells(WHOLE, tmp_path).dumps())
    assert document["measurements"] == [
        {
            "variables": ["b", "a"],
            "noise": {"law": "laplace", "scale": 2.0},
            "values": [1.5, 4.0, 2.0, 5.0, 3.0, 6.0],
        }
    ]
