"""Coverage by stratum: what is counted, the made-up networks, the tables of `bench.strata`, by hand and planted.

Seeds are fixed; nothing here asserts a rate that chance could change.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from bench import strata as command
from bench import strata_tables as tables
from discreet.inference import exact_laws
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from experiments import generated, intervals, strata
from experiments.errors import single
from experiments.networks import asia
from folding import every

TINY = intervals.tiny()
SETTING = strata.Setting("1", "add-remove", records=200, draws=60)


@pytest.fixture(scope="module")
def known() -> strata.Known:
    """The network of three variables with rows that are not uniform, and one that is certain."""
    rng = np.random.default_rng(4)
    drawn = dc.Dirichlet.uniform(TINY.network, 1.0).draw(1, rng=rng)
    cells = {node: np.array(table[..., 0]) for node, table in drawn.items()}
    cells["c"][0, 0] = [0.0, 1.0]
    return strata.Known.of("three", dc.Tables(TINY.network, cells))


def read_as(monkeypatch: pytest.MonkeyPatch, cells: dc.Tables) -> None:
    """Let the posterior be these draws."""
    monkeypatch.setattr(dc, "noise_aware", lambda *_, **__: SimpleNamespace(probabilities=cells))


def around(theta: dc.Tables, draws: int, shift: float = 0.0) -> dc.Tables:
    """Draws that are evenly spread about the probabilities of binary rows and constant for others."""
    spread = np.linspace(-0.02, 0.02, draws) + shift

    def moved(table: np.ndarray) -> np.ndarray:
        sign = np.where(np.arange(table.shape[-1]) == 0, 1.0, -1.0) * (table.shape[-1] == 2)
        return np.clip(table[..., None] + sign[:, None] * spread, 0, 1)

    return dc.Tables(theta.network, {node: moved(table) for node, table in theta.items()}, draws=draws)


# ------------------------------------------------------------------------------------------ what is counted


def test_entries_are_parted_by_truth_and_by_row() -> None:
    true = np.array([0.0, 1e-8, 0.005, 0.01, 0.09, 0.1, 0.9, 1.0])
    parts = strata.strata(true, np.array([5.0, 5.0, 0.5, 1.0, 99.0, 100.0, 0.0, 0.0]))
    assert {name: np.flatnonzero(part).tolist() for name, part in parts.items()} == {
        "entries": [2, 3, 4, 5, 6],
        "truth < .01": [2],
        "truth .01-.1": [3, 4],
        "truth > .1": [5, 6],
        "row < 1": [2, 6],
        "row 1-100": [3, 4],
        "row > 100": [5],
        "at 0 or 1": [0, 1, 7],
    }


def test_rows_of_entries_are_the_probabilities_of_their_parents(known: strata.Known) -> None:
    theta = known.truth.theta
    a, b = theta["a"], theta["b"]
    by_hand = [1.0] * 2 + [a[i] for i in range(2) for _ in range(3)]
    by_hand += [a[i] * b[i, j] for i in range(2) for j in range(3) for _ in range(2)]
    assert np.allclose(known.rows, by_hand)
    assert np.array_equal(known.true["entries"], np.concatenate([theta[node].ravel() for node in theta]))


def test_queries_have_one_and_two_observed_states_and_are_the_same_every_time(known: strata.Known) -> None:
    again = strata.Known.of("another name", known.truth.theta)
    assert (again.one, again.two) == (known.one, known.two)
    for few, queries in ((1, known.one), (2, known.two)):
        assert len(queries) == strata.ASKED
        assert {len(given) for _, given in queries} == {few}
    target, given = known.two[0]
    answer = Laws(single(known.truth.theta)).joint([target], given)[:, 0]
    assert np.array_equal(known.true["given two"][: len(answer)], answer)


def test_strata_add_up(known: strata.Known) -> None:
    found = strata.measured(known, SETTING, (1, 0)).tallies
    assert found["entries"].number + found["at 0 or 1"].number == 2 + 6 + 12
    assert found["at 0 or 1"].number == 2
    for parts in (strata.SIZES, strata.ROWS):
        each = [found[name] for name in parts if name in found]
        assert sum(one.number for one in each) == found["entries"].number
        assert sum(one.hits for one in each) == found["entries"].hits
        assert sum(one.width for one in each) == pytest.approx(found["entries"].width)
    assert found["conditionals"].hits == found["given one"].hits + found["given two"].hits
    inner = intervals.between(known.true["entries"])
    assert found["row 1-100"].number == np.sum(inner & (200 * known.rows >= 1) & (200 * known.rows < 100)) > 0
    assert found["marginals"].number == 7
    assert np.isnan(found["entries"].estimated)


def test_draws_about_the_truth_hold_it_and_shifted_ones_do_not(
    known: strata.Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of "a" and "c", which are binary; those of "b" are constant and true, so they are held."""
    theta = known.truth.theta
    read_as(monkeypatch, around(theta, 60))
    right = strata.measured(known, SETTING, (1, 0)).tallies
    assert right["entries"].hits == right["entries"].number
    read_as(monkeypatch, around(theta, 60, 0.1))
    wrong = strata.measured(known, SETTING, (1, 0)).tallies
    assert wrong["entries"].hits == 6, "those of b"
    moved = [n for n in ("a", "c") for value in theta[n].ravel() if intervals.between(value) and value < 0.88]
    assert wrong["entries"].error >= 0.1 * len(moved) - 1e-9


def test_the_release_does_not_depend_on_how_it_is_read(known: strata.Known, monkeypatch: pytest.MonkeyPatch) -> None:
    made, simulate = [], dc.simulate

    def spy(*given, **others):
        made.append(simulate(*given, **others))
        return made[-1]

    monkeypatch.setattr(dc, "simulate", spy)
    first = strata.measured(known, SETTING, (1, 0))
    again = strata.measured(known, SETTING, (1, 0), estimated=True)
    strata.measured(known, strata.Setting("1", "add-remove", 200, 30), (1, 0))
    strata.measured(known, SETTING, (1, 1))
    strata.measured(known, SETTING, (2, 0))
    strata.measured(known, strata.Setting("1", "replace", 200, 60), (1, 0))
    texts = [str({scope: table.tolist() for scope, table in release.payload.tables.items()}) for release in made]
    assert texts[0] == texts[1] == texts[2]
    assert len(set(texts)) == 4
    assert {name: one.hits for name, one in first.tallies.items()} == {n: o.hits for n, o in again.tallies.items()}
    assert {release.mechanism for release in made} == {"planned"}
    assert made[0].guarantee.relation is dc.Relation.ADD_REMOVE
    assert made[-1].guarantee.relation is dc.Relation.REPLACE
    assert 0 < again.tallies["entries"].estimated / again.tallies["entries"].number < 0.5


def test_a_release_is_read_as_by_a_user_who_says_nothing(known: strata.Known, monkeypatch: pytest.MonkeyPatch) -> None:
    said, noise_aware = [], dc.noise_aware

    def spy(release, **others):
        said.append(others)
        return noise_aware(release, **others)

    monkeypatch.setattr(dc, "noise_aware", spy)
    strata.measured(known, SETTING, (1, 0))
    assert [set(others) for others in said] == [{"draws", "rng"}]
    assert said[0]["draws"] == SETTING.draws


def test_draws_without_an_answer_are_left_out_unless_they_are_most() -> None:
    draws = np.tile(np.linspace(0.2, 0.6, 100), (3, 1))
    draws[1, 40:60] = np.nan
    draws[2, :51] = np.nan
    read = strata._Read.of(draws, np.array([0.4, 0.4, 0.5]), np.array([0.5, 0.4, 0.4]))
    assert read.hits.tolist() == [True, True, False]
    assert np.isnan(read.widths).tolist() == [False, False, True]
    tally = read.tally(np.array([True, True, True]))
    assert (tally.number, tally.hits, tally.unanswered) == (3, 2, 1)
    assert tally.width == pytest.approx(2 * 0.95 * 0.4, abs=0.01)
    assert tally.estimated == pytest.approx(0.2)


def test_a_posterior_that_ignores_the_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same releases of asia at epsilon .1, read with the noisy counts taken for counts."""
    network, setting = strata.Known.of("asia", asia()), strata.Setting("0.1", "add-remove", draws=100)
    right = [strata.measured(network, setting, (3, run)).tallies["entries"] for run in range(3)]
    monkeypatch.setattr(dc, "noise_aware", dc.tools.plug_in)
    wrong = [strata.measured(network, setting, (3, run)).tallies["entries"] for run in range(3)]
    assert sum(one.hits for one in right) > 0.8 * sum(one.number for one in right)
    assert sum(one.hits for one in wrong) < 0.6 * sum(one.number for one in wrong)


# ------------------------------------------------------------------------------------------ made-up networks


@every("name", generated.MADE_UP)
def test_made_up_networks_are_what_their_names_say(name: str) -> None:
    theta, recipe = generated.generated(name), generated.MADE_UP[name]
    network, kind = theta.network, name.partition("-")[0]
    entries = np.concatenate([table.ravel() for table in theta.values()])
    expected = 10_000 * strata.Known.of(name, theta).rows
    generated.generated.cache_clear()
    again = generated.generated(name)
    assert all(np.array_equal(again[node], theta[node]) for node in network.nodes)
    assert len(network.nodes) == int(name.partition("-")[2]) == recipe.nodes
    assert exact_laws.joint_cost(network, network.nodes[-1:], {}) < 5_000, "a posterior is asked in a second"
    assert max(table.size for table in theta.values()) <= recipe.cells
    inner = intervals.between(entries)
    match kind:
        case "rare" | "fitted":
            assert np.mean((entries < 0.01) & inner) > 0.15
        case "sure":
            assert np.mean(~inner) > 0.3
        case "states":
            assert max(len(variable.states) for variable in network.schema.variables) >= 8
        case "families":
            assert sum(len(parents) >= 3 for parents in network.parents.values()) >= 2
            assert max(table.size for table in theta.values()) >= 70
        case "thin":
            assert np.mean(expected < 1) > 0.1
        case "mixed":
            assert np.mean(~inner) > 0.05 and np.mean(entries < 0.01) > 0.1 and np.mean(expected < 1) > 0.05


def test_fitted_rows_are_those_of_records() -> None:
    theta, rng = intervals.tiny(), np.random.default_rng(1)
    found = generated._fitted(theta, 0.5, rng)
    codes = sample_codes(theta, generated.FITTED_TO, np.random.default_rng(1))
    first = np.bincount(codes["a"], minlength=2) + 0.5
    assert np.allclose(found["a"], first / first.sum())


# ------------------------------------------------------------------------------------------ tables


def rows_of(
    shares: dict[str, float], *, runs: int = 4, number: int = 1000, width: float = 0.1, **place
) -> pd.DataFrame:
    """Made-up tidy rows in which every run of a stratum has the same share."""
    where = {"network": "asia", "relation": "replace", "epsilon": 1.0, "records": 100, "draws": 9, "seeds": 1} | place
    return pd.DataFrame(
        [
            {**where, "run": run, "stratum": stratum, "number": number, "hits": round(share * number),
             "width": number * width, "unanswered": 0, "error": number * 0.02, "estimated": number * 0.01,
             "seconds": 2.0}
            for stratum, share in shares.items()
            for run in range(runs)
        ]
    )  # fmt: skip


def test_what_must_hold_is_told_by_kind_of_number() -> None:
    fine = {"entries": 0.93, "marginals": 0.97, "conditionals": 0.95, "truth < .01": 0.90, "at 0 or 1": 0.85}
    assert tables.violations(rows_of(fine)) == []
    broken = {"entries": 0.92, "marginals": 0.98, "conditionals": 0.95, "row < 1": 0.89, "at 0 or 1": 0.84}
    found = tables.violations(rows_of(broken))
    assert {one.stratum for one in found} == {"entries", "marginals", "row < 1", "at 0 or 1"}
    # The error is at least that of 4,000 independent intervals, .34 points; the farthest comes first.
    assert [one.far for one in found] == [True] * 4
    assert found[0].errors == max(one.errors for one in found) == pytest.approx(0.01 / np.sqrt(0.0475 / 4000))
    assert str(found[0]).startswith("asia, replace, epsilon 1: ")
    near = tables.violations(rows_of({"entries": 0.92}, number=100))
    assert [str(one) for one in near] == ["asia, replace, epsilon 1: entries 92.0±1.1, not 93 to 97, within two errors"]


def test_strata_with_few_numbers_are_shown_and_not_judged() -> None:
    rows = rows_of({"row < 1": 0.5}, number=99)
    assert tables.violations(rows) == []
    assert "50.5±1.1" in tables.places(rows)


def test_over_all_places_each_weighs_the_same() -> None:
    rows = pd.concat([rows_of({"entries": 0.9}, number=100), rows_of({"entries": 1.0}, epsilon=10.0)])
    (line,) = (line for line in tables.pooled(rows).splitlines() if line.startswith("| entries"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[1:3] == ["2", "4400"]
    assert cells[3].startswith("95.0±")
    assert cells[5].startswith("90.0±") and cells[5].endswith("asia replace 1")
    assert float(cells[6]) == pytest.approx(0.02) and float(cells[7]) == pytest.approx(0.01)


def test_before_and_after_are_paired_by_release() -> None:
    before = rows_of({"entries": 0.95, "marginals": 0.95})
    after = rows_of({"entries": 0.90, "marginals": 0.95}, width=0.112).assign(seconds=3.0)
    after["estimated"] *= 1.03
    text = tables.compared(before, after)
    assert "| entries | 1 | 95.0±0.3 | 90.0±0.3 | 1.120±0.000 | 1.000±0.000 | 1.030±0.000 | 1.500±0.000 |" in text
    assert "95.0 to 90.0 × 1.12" in text
    found = tables.worsened(before, after)
    assert len(found) == 3, "marginals are wider than they may be, entries not; `estimate` errs more on both"
    assert found[-1] == "asia, replace, epsilon 1: `estimate` errs × 1.030 on marginals, not × 1.02 or less"
    assert "marginals × 1.120 as wide, not × 1.1 or less" in found[1]
    assert tables.worsened(before, before) == []
    failing = rows_of({"entries": 0.92}, width=0.1), rows_of({"entries": 0.95}, width=0.2)
    assert tables.worsened(*failing) == [], "where before was too narrow, after may be as wide as it must"
    with pytest.raises(SystemExit, match="share no release"):
        tables.compared(before, rows_of({"entries": 0.95}, seeds=2))


# ------------------------------------------------------------------------------------------ the command


@pytest.mark.costly("A bench that cannot read what it wrote is found by running it twice.")
def test_the_command_runs_writes_reads_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--epsilon", "1", "--runs", "2", "--draws", "20", "--records", "300"]
    command.main(["--networks", "asia", "nowhere", *few, "--estimate", "--output", str(tmp_path / "one")])
    printed = capsys.readouterr()
    assert "skipped nowhere: no network 'nowhere'" in printed.err
    assert printed.out.count("| asia | ") == 2
    kept = pd.read_parquet(tmp_path / "one.parquet")
    assert set(kept["relation"]) == {"add-remove", "replace"}
    assert len(kept) == len(pd.read_csv(tmp_path / "one.csv"))
    assert kept["estimated"].notna().all()
    same = str(tmp_path / "one.parquet")
    command.main(["--read", same, "--compare", same])
    compared = capsys.readouterr().out.partition("## Before and after")[2]
    assert compared.count("1.000±0.000") == 4 * len(set(kept["stratum"]))
    assert compared.strip().endswith("## Wider or worse than allowed")


def test_groups_name_networks_that_there_are() -> None:
    assert len(command.GROUPS["generated"]) == 10
    made_up = [name for group in ("generated", "confirming", "small") for name in command.GROUPS[group]]
    assert made_up == list(generated.MADE_UP)
    assert [one.name for one in command.known(["small", "rare-6", "asia"])] == [*generated.SMALL, "asia"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--read", "nowhere.parquet"], "nowhere.parquet: a Parquet file of an earlier run was expected"),
        (["--compare", __file__], "test_strata.py: a Parquet file of an earlier run was expected"),
        (["--networks", "asia", "--epsilon", "-1", "--runs", "1"], "epsilon must be greater than 0"),
    ],
)
def test_bad_input_is_told_in_a_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err.splitlines()[-1]
