"""`discreet combine`, and what the other commands make of combined releases and of other priors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import discreet as dc
from networks import asia
from releases import guarantee, simulated
from shell import Shell

FEW = "--draws 60 --seed 3"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    """Three releases of made-up records: two of the same, one of others."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("a", "b", "c")):
        release = simulated(asia(), 800, guarantee(2), np.random.default_rng(seed))
        replace(release, private=True).save(f"{name}.json")
    pq.write_table(dc.tools.simulate_records(asia(), 500, rng=np.random.default_rng(9)), "public.parquet")
    return Shell(capfd)


def test_the_same_data_and_different_data(run: Shell) -> None:
    told = run.json("combine a.json b.json --data same --output ab.json")
    a, b, c = (dc.Release.load(f"{name}.json") for name in "abc")
    assert told == {
        "output": "ab.json",
        "data_sets": [{"releases": [a.id, b.id], "guarantee": str(guarantee(4))}],
    }
    told = run.json("combine ab.json c.json --data different --output all.json")
    assert [part["releases"] for part in told["data_sets"]] == [[a.id, b.id], [c.id]]
    loaded = dc.load("all.json")
    assert isinstance(loaded, dc.results.Combined) and len(loaded.data_sets) == 2
    code, out, _ = run("combine a.json c.json --data different --output - ")
    assert code == 0
    assert dc.results.Combined.loads(out).releases[1].id == c.id


def test_what_is_assumed_is_said(run: Shell) -> None:
    code, _, err = run("combine a.json b.json --output ab.json")
    assert code == 0
    assert "different records" in err and "--data same" in err
    told = run.json("combine a.json b.json --output ab.json --replace")
    assert [part["guarantee"] for part in told["data_sets"]] == [None, None]
    code, _, err = run("combine a.json --public public.parquet --output one.json")
    assert code == 0 and "different" not in err


@pytest.mark.costly("Each kind of combination is queried, sampled and exported from the shell.")
def test_queries_of_combined_releases_say_how_they_were_read(run: Shell) -> None:
    run("combine a.json b.json --data same --output ab.json")
    run("combine ab.json c.json --data different --public public.parquet --output all.json")
    for name, method in (("a", "pooled"), ("ab", "pooled"), ("all", "sequential")):
        told = run.json(f'query {name}.json "P(lung=yes)" {FEW}')
        assert told["method"] == method
        (row,) = told["answers"][0]["values"]
        assert 0 <= row["lower"] <= row["mean"] <= row["upper"] <= 1
    code, out, _ = run(f'query all.json "P(lung=yes)" {FEW}')
    assert code == 0 and "posterior: sequential" in out.splitlines()[-2]
    told = run.json("sample ab.json -n 5 --output s.csv --draws 30")
    assert len(told["releases"]) == 2
    code, out, _ = run("export ab.json --output - --draws 30")
    assert code == 0
    assert all(dc.Release.load(f"{name}.json").id in out for name in "ab")
    code, out, _ = run("query ab.json --method plug-in")
    assert code == 2


@pytest.mark.costly("A prior that a combination ignores is found by answers under several.")
def test_another_prior(run: Shell) -> None:
    plain = run.json(f'query a.json "P(lung=yes)" {FEW}')["answers"]
    flat = run.json(f'query a.json "P(lung=yes)" {FEW} --prior 0.25 --method pooled')
    strong = run.json(f'query a.json "P(lung=yes)" {FEW} --prior 1000000 --method pooled')["answers"][0]["values"][0]
    assert flat["method"] == "pooled" and flat["answers"] != plain
    assert abs(strong["mean"] - 0.5) < 0.02
    asia().write("asia.bif")
    known = run.json(
        f'query a.json "P(lung=yes)" {FEW} --prior asia.bif --equivalent-sample-size 1000000 --method pooled'
    )
    assert abs(known["answers"][0]["values"][0]["mean"] - 0.055) < 0.002
    run("combine b.json c.json --data different --output bc.json")
    after = run.json(f'query a.json "P(lung=yes)" {FEW} --prior bc.json --method pooled')["answers"][0]["values"][0]
    before = plain[0]["values"][0]
    assert after["upper"] - after["lower"] < before["upper"] - before["lower"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f'query a.json "P(lung)" {FEW} --prior ab.json', "count twice"),
        ("combine a.json b.json --data some --output x.json", "'same', 'different'"),
        ("combine a.json a.json --data same --output x.json", "twice"),
        ("combine a.json c.json --data same --output absent/x.json", "absent"),
        ("query a.json --method best", "no method"),
        ("combine a.json c.json --data different --output b.json", "exists; give a new file, or --replace"),
        ("combine a.json c.json --data different --output .", "folder or a device"),
        ("combine a.json --table t --output x.json", "--table"),
        ("combine - - --data same --output x.json", "only one release"),
        ("export a.json --output b.json", "--replace"),
        ("query a.json --draws 100000000000", "ask for fewer"),
        ("query a.json --method particles", "cannot read this evidence"),
        ("combine a.json --public absent.parquet --output x.json", "absent.parquet"),
        ("export a.json --to arviz --output -", "netCDF needs a file"),
    ],
)
def test_what_is_refused(run: Shell, command: str, message: str) -> None:
    run("combine a.json b.json --data same --output ab.json")
    code, out, err = run(command)
    assert code == 2 and out == ""
    assert message in err and err.splitlines()[-1].startswith("discreet: ")
    assert not Path("x.json").exists()


def test_files_are_replaced_where_that_is_said(run: Shell) -> None:
    run("combine a.json b.json --data same --output ab.json")
    assert run("combine a.json c.json --data same --output ab.json --replace")[0] == 0
    assert dc.load("ab.json").releases[1].id == dc.Release.load("c.json").id  # type: ignore[union-attr]
    Path("link.json").symlink_to("ab.json")
    assert run("combine a.json b.json --data same --output link.json --replace")[0] == 0
    assert Path("link.json").is_symlink()


def test_simulations_promise_nothing(run: Shell) -> None:
    made = simulated(asia(), 800, guarantee(2), np.random.default_rng(9))
    made.save("sim.json")
    told = run.json("combine a.json sim.json --data different --output as.json")
    assert [part["guarantee"] for part in told["data_sets"]] == [str(guarantee(2)), None]
    code, out, err = run("export as.json --output - --draws 30")
    assert code == 0 and "protects nobody" in out and "simulation" in err
    assert "simulation" in run(f"query a.json --prior sim.json {FEW}")[2]


def test_all_draws_for_arviz(run: Shell) -> None:
    arviz = pytest.importorskip("arviz", reason="arviz: the extra [arviz] is not installed")
    told = run.json(f"export a.json --to arviz --output a.nc {FEW}")
    assert told == {"output": "a.nc", "format": "arviz"}
    made = arviz.from_netcdf("a.nc").posterior
    assert made.attrs["release"] == dc.Release.load("a.json").id and "epsilon" in made.attrs["guarantee"]
    assert (made.sizes["chain"], made.sizes["draw"]) == (4, 15)


def test_chains_and_states_have_their_names() -> None:
    """Draws come in turn from the chains, and those of an incomplete turn are left out."""
    pytest.importorskip("arviz", reason="arviz: the extra [arviz] is not installed")
    network = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("a", "b", "c"))), {"x": (), "y": ("x",)})
    cells = dc.Dirichlet.uniform(network).draw(22, rng=np.random.default_rng(1))
    mixing = dc.results.Mixing(chains=4, sweeps=100, effective=400.0, worst="P(x=no)", r_hat=1.0)
    made = dc.tools.to_arviz(dc.results.PosteriorDraws(cells, "exact", mixing=mixing)).posterior["y"]
    assert made.dims == ("chain", "draw", "x=", "y=")
    assert list(made.coords["y="].values) == ["a", "b", "c"]
    for draw in range(5):
        for chain in range(4):
            assert np.array_equal(made.values[chain, draw], cells["y"][..., 2 + 4 * draw + chain])
    alone = dc.tools.to_arviz(dc.results.PosteriorDraws(cells)).posterior["x"]
    assert alone.shape == (2, 11, 2) and np.array_equal(alone.values[1], np.moveaxis(cells["x"], -1, 0)[1::2])


def test_without_arviz_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = dc.Dirichlet.uniform(asia().network).draw(2, rng=np.random.default_rng(1))
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(dc.DiscreetError, match=r"'\.\[arviz\]'"):
        dc.tools.to_arviz(dc.results.PosteriorDraws(cells))


def test_the_combined_file_is_json_with_a_release_a_block(run: Shell) -> None:
    run("combine a.json b.json --data different --public public.parquet --output ab.json")
    raw = json.loads(Path("ab.json").read_text())
    assert [len(part) for part in raw["data_sets"]] == [1, 1]
    assert raw["data_sets"][0][0]["format"] == "discreet-release"
    assert sum(raw["public"]["asia"]) == 500
