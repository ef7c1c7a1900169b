"""Missing values that are kept: a state of their variable for whoever counts, and gaps for whoever reads at random."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import discreet as dc
from discreet.formats.network_content import NetworkContent
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif, plain_names
from discreet.model.tables import Tables
from discreet.queries.synthetic import sample_codes
from folding import every
from networks import theta_of
from shell import Shell, opened
from sources import PEER_WARNINGS

STATES = ("no", "yes")
COLUMNS = ("a", "b")
PAIR = dc.Network((dc.Variable("a", STATES), dc.Variable("b", STATES)), {"a": (), "b": ("a",)}).with_missing()
CHAIN = dc.Network(tuple(dc.Variable(name, STATES) for name in "abc"), {"a": (), "b": ("a",), "c": ("b",)})
GAPPY = CHAIN.with_missing("b")
RARE, HALF = 0.05, 0.6
"""Chances that b is missing where c, which is always seen, is no and yes."""


def table(records: list[tuple[str | None, ...]]) -> pa.Table:
    """Records as text; None is missing."""
    return pa.table({name: pa.array([each[at] for each in records], pa.string()) for at, name in enumerate(COLUMNS)})


def counted(records: list[tuple[str | None, ...]]) -> dc.results.Counts:
    """Their counts, missing values kept."""
    return dc.count(dc.read_records(table(records), PAIR.schema, missing="keep"), PAIR)


# ------------------------------------------------------------------------------------------------------------ reading


@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_kept_record_is_in_one_cell_and_moves_as_much_as_any(relation: dc.Relation) -> None:
    kinds = list(product((*STATES, None), repeat=2))
    base = counted([("yes", None)])
    bound = dc.tools.sensitivity(PAIR, relation)
    alone = [counted([("yes", None), kind]) for kind in kinds]
    for kind, one in zip(kinds, alone, strict=True):
        cell = tuple(2 if value is None else STATES.index(value) for value in kind)
        moved = one.tables["b"] - base.tables["b"]
        assert moved.sum() == 1
        assert moved[cell] == 1
    pairs = product(alone, [base] if relation is dc.Relation.ADD_REMOVE else alone)
    sums = [sum(np.abs(one.tables[node] - other.tables[node]).sum() for node in COLUMNS) for one, other in pairs]
    assert max(sums) == bound.l1  # each record is somewhere, so none moves the counts further than a complete one
    assert all(one.sensitivity(relation) == bound for one in alone)


def test_the_number_of_records_is_kept_under_replacement() -> None:
    promise = dc.Guarantee(epsilon="1", delta="0", relation=dc.Relation.REPLACE, unit="record")
    statistic = counted([("yes", None), (None, None), ("no", "yes")])
    made = dc.simulate(dc.laplace(), statistic, dc.Dirichlet.uniform(PAIR), promise, rng=np.random.default_rng(1))
    assert made.records == 3
    assert made.policy.missing == "keep"
    again = dc.Release.loads(made.dumps())
    assert again.network.may_be_missing == COLUMNS
    assert again.policy == made.policy


def test_a_missing_value_of_a_variable_without_such_a_state_is_refused() -> None:
    half = PAIR.without_missing().with_missing(["a"])
    records = dc.read_records(table([(None, "yes"), ("no", None)]), half.schema, missing="keep")
    for read in (records, replace(records, local=None)):
        with pytest.raises(dc.InputError, match="in column 'b'"):
            dc.count(read, half)
    assert [part.missing for part in dc.check(records)] == [0, 1]


@every("missing", ["error", "drop"])
def test_a_state_of_missing_values_takes_none_unless_they_are_kept(missing: str) -> None:
    records = dc.read_records(table([(None, "yes"), ("no", "yes")]), PAIR.schema, missing=missing)
    if missing == "drop":
        assert dc.count(records, PAIR).tables["a"].tolist() == [1, 0, 0]
    else:
        with pytest.raises(dc.InputError, match="in column 'a'"):
            dc.count(records, PAIR)


@PEER_WARNINGS
@pytest.mark.parametrize("engine", ["frame", "sqlite", "csv"])
def test_every_kind_of_column_keeps_what_is_missing(engine: str, tmp_path: Path) -> None:
    schema = dc.Schema(
        (
            dc.Variable("text", ("x", "y"), missing="gap"),
            dc.Variable("level", ("0", "1.5"), missing="gap"),
            dc.Variable("age", bounds=(0, 100), bins=(50,), missing="gap"),
        )
    )
    rows = [("x", 0.0, 10.0), ("?", 1.5, None), (None, None, 60.0), ("y", None, -9.0)]
    network = dc.Network.empty(schema)
    source: object = pa.table({name: [row[at] for row in rows] for at, name in enumerate(schema.names)})
    if engine == "sqlite":
        source = f"sqlite:///{tmp_path / 'base.db'}"
        with sqlite3.connect(tmp_path / "base.db") as base:
            base.execute("CREATE TABLE t (text TEXT, level REAL, age REAL)")
            base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        base.close()
    elif engine == "csv":
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        source = str(tmp_path / "t.csv")
        Path(source).write_text("\n".join([",".join(schema.names), *lines]) + "\n")
    named = {"table": "t"} if engine == "sqlite" else {}
    records = dc.read_records(source, schema, missing="keep", na_values=["?", "-9"], **named)
    found = dc.count(records, network).tables
    assert {name: found[name].tolist() for name in schema.names} == {
        "text": [1, 1, 2], "level": [1, 1, 2], "age": [1, 1, 2],
    }  # fmt: skip


def test_a_metric_knows_no_distance_to_a_gap() -> None:
    promise = dc.Guarantee(epsilon="1", delta="0", relation=dc.Relation.METRIC, unit="1 mmHg in one reading")
    policy = dc.read_records(table([("no", "no")]), PAIR.schema, missing="keep").policy
    with pytest.raises(dc.InputError, match="how far"):
        policy.check(promise)


# ------------------------------------------------------------------------------------------------------- declarations


def test_files_keep_the_state(tmp_path: Path) -> None:
    age = dc.Variable("age", bounds=(0, 90), bins=(18,), missing="not said")
    network = dc.Network((age, dc.Variable("a b", ("<5", "y"), missing="?")), {"age": (), "a b": ("age",)})
    bif = NetworkContent(network.variables, dict(network.parents), {})
    assert parse_bif(format_bif(bif)).variables == network.variables
    assert [one.missing for one in plain_names(bif).variables] == ["not_said", "_"]
    path = tmp_path / "schema.json"
    path.write_text(
        json.dumps({"variables": [{"name": "age", "bounds": [0, 90], "bins": [18], "missing": "not said"}]})
    )
    assert dc.Schema.read(path).variables == (age,)
    plain = network.without_missing()
    assert plain.with_variables([age]).variables[0].missing == "not said"


@every("words", [{"states": ("m", "a"), "missing": "m"}, {"states": (), "missing": "m"}])
def test_the_state_stands_last_after_others(words: dict[str, object]) -> None:
    with pytest.raises(dc.InputError):
        dc.Variable("x", **words)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(dc.InputError, match="none named"):
        dc.Schema((dc.Variable("x", ("a", "missing")),)).with_missing()


# ---------------------------------------------------------------------------------------------------------- at random


def chain_law() -> tuple[Tables, Tables]:
    """Rows of complete records, and of what is seen of them where b is missing more often if c is yes."""
    whole = {
        "a": np.array([0.3, 0.7]),
        "b": np.array([[0.8, 0.2], [0.3, 0.7]]),
        "c": np.array([[0.9, 0.1], [0.4, 0.6]]),
    }
    law = np.einsum("a,ab,bc->abc", whole["a"], whole["b"], whole["c"])
    gone = np.array([RARE, HALF])
    seen = np.concatenate([law * (1 - gone), (law * gone).sum(axis=1, keepdims=True)], axis=1)
    above, below = seen.sum(axis=2), seen.sum(axis=0)
    rows = {"a": whole["a"], "b": above / above.sum(-1, keepdims=True), "c": below / below.sum(-1, keepdims=True)}
    return Tables(CHAIN, whole), Tables(GAPPY, {node: array[..., None] for node, array in rows.items()}, draws=1)


def test_complete_records_are_found_behind_gaps_that_a_child_explains() -> None:
    truth, seen = chain_law()
    found = dc.tools.assume_at_random(dc.results.PosteriorDraws(seen)).probabilities
    for node in CHAIN.nodes:
        assert found[node][..., 0] == pytest.approx(truth[node], abs=5e-4)
    complete = seen["b"][:, :2, 0] / seen["b"][:, :2, 0].sum(-1, keepdims=True)
    assert np.abs(complete - truth["b"]).max() > 0.08  # what records without gaps say


LOSSES = {
    "CO2": ("LungParench", (0.02, 0.5, 0.26)),
    "RUQO2": ("HypoxiaInO2", (0.5, 0.26, 0.02)),
    "GruntingReport": ("Grunting", (0.02, 0.5)),
    "Age": ("Sick", (0.5, 0.02)),
    "LVH": ("Disease", (0.02, 0.21, 0.5, 0.4, 0.12, 0.31)),
    "CardiacMixing": ("HypoxiaInO2", (0.02, 0.26, 0.5)),
    "XrayReport": ("ChestXray", (0.38, 0.02, 0.14, 0.26, 0.5)),
    "DuctFlow": ("HypDistrib", (0.5, 0.02)),
    "BirthAsphyxia": ("Disease", (0.5, 0.21, 0.12, 0.02, 0.31, 0.4)),
    "LowerBodyO2": ("HypDistrib", (0.5, 0.02)),
}
"""What the loss of a variable of child depends on, and its chance by the states of that."""


@pytest.mark.costly("Steps of each family's own go wrong on a network of real size only.")
def test_the_fit_settles_where_families_share_many_variables() -> None:
    """Shares of 200,000 records are known to about .001; steps of each family's own are off by .012."""
    theta, rng = theta_of("child"), np.random.default_rng(11)
    codes = sample_codes(theta, 200_000, rng)
    for node, (cause, chances) in LOSSES.items():
        lost = rng.random(200_000) < np.take(chances, codes[cause])
        codes[node] = np.where(lost, theta.network.schema[node].size, codes[node])
    network = theta.network.with_missing(LOSSES)
    promise = dc.Guarantee(epsilon=50, delta=0, relation=dc.Relation.ADD_REMOVE, unit="record")
    counts = dc.tools.count_codes(network, codes)
    made = dc.simulate(dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    read = dc.tools.assume_at_random(dc.noise_aware(made, draws=8, rng=rng))
    truth = dc.results.PosteriorDraws(Tables(theta.network, lambda node: theta[node][..., None], draws=1))
    for node in theta.network.nodes:
        found, right = (
            [row["mean"] for row in dc.answer(each, f"P({node})", level=0.95).rows] for each in (read, truth)
        )
        assert found == pytest.approx(right, abs=0.005), node


def test_what_is_read_from_noise_is_right_where_complete_records_are_wrong() -> None:
    rng, n = np.random.default_rng(7), 100_000
    truth, _ = chain_law()
    codes = dc.sample(
        dc.results.PosteriorDraws(Tables(CHAIN, {v: truth[v][..., None] for v in CHAIN.nodes}, draws=1)), n, rng=rng
    )
    columns = codes[0].read_all().to_pydict()
    gone = rng.random(n) < np.where(np.array(columns["c"]) == "yes", HALF, RARE)
    columns["b"] = [None if lost else value for lost, value in zip(gone, columns["b"], strict=True)]
    promise = dc.Guarantee(epsilon="1", delta="0", relation=dc.Relation.REPLACE, unit="record")
    statistic = dc.count(dc.read_records(pa.table(columns), GAPPY.schema, missing="keep"), GAPPY)
    made = dc.simulate(dc.planned(), statistic, dc.Dirichlet.uniform(GAPPY), promise, rng=rng)
    posterior = dc.noise_aware(made, draws=400, rng=rng)
    told, counted_ = (
        dc.answer(each, "P(b)", level=0.95).rows[1] for each in (dc.tools.assume_at_random(posterior), posterior)
    )
    right = float(truth["a"] @ truth["b"][:, 1])
    # Noise and sampling have a deviation of 0.003 here; six of them are beyond one run in a thousand million.
    assert told["mean"] == pytest.approx(right, abs=0.02)
    assert told["upper"] - told["lower"] < 0.02
    seen_share = counted_["mean"] / sum(row["mean"] for row in dc.answer(posterior, "P(b)", level=0.95).rows[:2])
    assert seen_share < right - 0.05
    fresh = dc.tools.assume_at_random(posterior).fresh()
    assert fresh.network == CHAIN


def test_a_release_without_gaps_has_none_to_fill() -> None:
    truth, _ = chain_law()
    draws = Tables(CHAIN, {node: truth[node][..., None] for node in CHAIN.nodes}, draws=1)
    with pytest.raises(dc.InputError, match="no variable"):
        dc.tools.assume_at_random(dc.results.PosteriorDraws(draws))


FLIPPED = 0.15
"""Chance that a column is another than the hidden class that all columns of `gappy_release` say."""
ALIKE = (1 - FLIPPED) ** 2 + FLIPPED**2


def gappy_release() -> dc.Release:
    """A release of 20,000 records of five columns that depend on each other, no arc drawn; a fifth of b and d lost."""
    rng, names = np.random.default_rng(21), "abcde"
    hidden = rng.integers(2, size=20_000)
    codes = {name: np.where(rng.random(hidden.size) < FLIPPED, 1 - hidden, hidden) for name in names}
    for name in "bd":
        codes[name] = np.where(rng.random(hidden.size) < 0.2, 2, codes[name])
    wide = dc.Network.empty([dc.Variable(name, STATES) for name in names]).with_missing("bd")
    promise = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.planned(), dc.tools.count_codes(wide, codes), dc.Dirichlet.uniform(wide), promise, rng=rng)


AT_RANDOM = "values of {} are missing at random"


def test_what_is_read_at_random_is_assumed_where_gaps_are_and_says_why() -> None:
    """Pairs measured beside the network are read, completed or as they are."""
    posterior = gappy_release().posterior(rng=1)
    complete = dc.tools.assume_at_random(posterior)
    asked = {
        "P(e | c=yes)": (),
        "P(b)": (AT_RANDOM.format("b"),),
        "P(b, d)": (AT_RANDOM.format("b, d"),),
        "P(a | b=yes)": (AT_RANDOM.format("b"),),
        "MAP(a, c | b=yes)": (AT_RANDOM.format("b"),),
        "MPE(| a=no)": (AT_RANDOM.format("b, d"),),
    }
    for each in (complete, complete.fresh(rng=5)):
        for found, why in zip(dc.answer_many(each, list(asked)), asked.values(), strict=True):
            assert (found.basis == "assumed") == bool(why) and found.assumes == why
            assert all(f"assumed: {reason}" in found.summary() for reason in why)
    regression = dc.regress(complete, "e", ["c"])
    assert regression.basis == "measured" and not regression.assumes
    assert set(dc.predict(complete, {"c": ["yes", "no"]}, "e").basis) == {"measured"}
    pairs = ["P(c=yes | a=yes)", "P(e=yes | a=yes)", "P(e=yes | c=yes)", "P(b=yes | c=yes)", "P(b=yes | d=yes)"]
    # Each share is known to .005, and gaps take a fifth of the records: this fails in less than one run in a million.
    for found in dc.answer_many(complete, pairs):
        assert found.rows[0]["mean"] == pytest.approx(ALIKE, abs=0.035)
    assert [dc.answer(posterior, text).basis for text in ("P(c | a=yes)", "P(a)")] == ["measured", "measured"]
    assert dc.answer(posterior, "P(a)").assumes == ()


def test_columns_without_gaps_stay_as_measured_as_they_are() -> None:
    """In one family, alone or given each other: as tables say, to the precision of draws and of the fit."""
    rng, names = np.random.default_rng(22), "abc"
    codes = {name: rng.integers(2, size=20_000) for name in names}
    codes["b"] = np.where(rng.random(20_000) < 0.1 + 0.3 * codes["a"], 2, codes["b"])
    drawn = dc.Network([dc.Variable(name, STATES) for name in names], {"a": (), "b": ("a",), "c": ("a",)})
    wide = drawn.with_missing("b")
    promise = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
    made = dc.simulate(dc.planned(), dc.tools.count_codes(wide, codes), dc.Dirichlet.uniform(wide), promise, rng=rng)
    posterior = made.posterior(rng=1)
    complete = dc.tools.assume_at_random(posterior)
    asked = ["P(a)", "P(c | a=yes)", "P(a, c)"]
    for found, seen in zip(dc.answer_many(complete, asked), dc.answer_many(posterior, asked), strict=True):
        assert (found.basis, found.assumes, seen.basis) == ("measured", (), "measured")
        assert [row["mean"] for row in found.rows] == pytest.approx([row["mean"] for row in seen.rows], abs=0.003)
    for text in ("P(b)", "P(c | b=yes)", "P(a | b=yes)"):
        told = dc.answer(complete, text)
        assert told.basis == "assumed" and told.assumes[:1] == (AT_RANDOM.format("b"),)
    assert dc.predict(complete, {"a": ["yes", "no"]}, "c").basis == ("measured", "measured")
    assert {found.basis for found in dc.marginals(complete)} == {"measured", "assumed"}


# ---------------------------------------------------------------------------------------------------------- the shell


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


@pytest.mark.costly("Gaps that the shell fills are found by keeping, reading and sampling them.")
def test_the_shell_keeps_reads_and_samples(run: Shell) -> None:
    drawn = np.random.default_rng(3).integers((0, 0), (2, 3), (400, 2))
    Path("gaps.csv").write_text("\n".join(["a,b", *(f"{STATES[x]},{(*STATES, '')[y]}" for x, y in drawn)]) + "\n")
    Path("pair.bif").write_text(format_bif(NetworkContent(PAIR.without_missing().variables, dict(PAIR.parents), {})))
    run("ledger open kept --epsilon 9 --relation replace")
    run("ledger open cut --epsilon 9 --relation add-remove")
    keep = "gaps.csv --network pair.bif --missing keep --may-be-missing"
    assert run(f"check {keep} a")[0] == 2
    assert run(f"check {keep} b")[0] == 0
    code, _, err = run(f"release {keep} b --account kept --epsilon 2 --output k.json")
    assert code == 0, err
    ways = ("", "--missing state", "--missing at-random")
    both = [run.json(f"query k.json 'P(b)' {more}") for more in ways]
    assert [told["missing"] for told in both] == ["state", "state", "at-random"]
    assert [len(told["answers"][0]["values"]) for told in both] == [3, 3, 2]
    run.json("draw k.json --output k.draws")
    assert [run.json(f"query k.draws 'P(b)' {more}") for more in ways] == both
    assert "assumed: values of b are missing at random" in run("query k.json 'P(b)' --missing at-random")[1]
    for more, gaps in zip(ways, (True, True, False), strict=True):
        assert (",\n" in run(f"sample k.json -n 300 --output - --format csv {more}")[1]) == gaps
        assert ("yes, missing }" in run(f"export k.json --output - {more}")[1]) == gaps
    assert all(run(f"{command} k.json")[0] == 0 for command in ("fit", "explain"))
    err = run("release gaps.csv --network pair.bif --missing drop --account cut --epsilon 1 --output c.json")[2]
    assert "dropped" in err
    assert "no state for missing values" in run.fails("query c.json --missing state")
    assert "'sometimes' is not one of 'at-random', 'state'" in run.fails("query k.json --missing sometimes")
    assert "--missing keep" in run.fails("check gaps.csv --network pair.bif --may-be-missing b")


@pytest.mark.costly("A policy that the shell loses on its way is found by releases of both.")
def test_the_shell_and_python_read_a_file_alike_and_keep_gaps(run: Shell) -> None:
    gappy_release().save("gaps.json")
    told = run.json("query gaps.json 'P(c | a=yes)' 'P(b)'")
    here = dc.answer_many(dc.load("gaps.json").posterior(rng=0), ["P(c | a=yes)", "P(b)"])
    assert [part["basis"] for part in told["answers"]] == [part.basis for part in here] == ["measured", "measured"]
    for one, other in zip(told["answers"], here, strict=True):
        states = [row["state"] for row in one["values"]]
        assert states == [row["state"] for row in other.rows]
    assert told["answers"][0]["values"][1]["mean"] == pytest.approx(ALIKE, abs=0.03)
    assert len(told["answers"][1]["values"]) == 3
    assert run("sample gaps.json -n 2000 --output s.csv --draws 100")[0] == 0
    lost = csv.read_csv("s.csv")["b"].to_pylist().count("")
    # Of 2,000 records a fifth has no b, give or take 18: seven of them.
    assert abs(lost - 400) < 126
    aloud = run("query gaps.json 'P(e | c=yes)' 'P(b)' --missing at-random")[1]
    assert f"assumed: {AT_RANDOM.format('b')}" in aloud
    assert aloud.count("  measured") == 1  # of e given c, which have no gaps


def test_a_column_that_does_not_apply_stays_empty_where_it_does_not(run: Shell) -> None:
    """A cause of death, empty for the living: nobody alive gets one, and its label can be asked for."""
    rng = np.random.default_rng(0)
    dead = (rng.random(4000) < 0.3).astype(int)
    cause = dc.Variable("cause", ("heart", "cancer"), missing="alive")
    network = dc.Network((dc.Variable("dead", STATES), cause), {"dead": (), "cause": ("dead",)})
    codes = {"dead": dead, "cause": np.where(dead == 1, rng.integers(2, size=4000), 2)}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts = dc.tools.count_codes(network, codes)
    dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=rng).save("deaths.json")
    assert run("sample deaths.json -n 1000 --output s.csv --draws 100")[0] == 0
    made_up = csv.read_csv("s.csv").to_pydict()
    living = [cause for cause, gone in zip(made_up["cause"], made_up["dead"], strict=True) if gone == "no"]
    assert len(living) > 600 and sum(cause != "" for cause in living) < 0.02 * len(living)
    (alive,) = run.json("query deaths.json 'P(cause=alive)' --draws 200")["answers"][0]["values"]
    assert alive["mean"] == pytest.approx(0.7, abs=0.05)


def test_a_release_that_dropped_does_not_say_that_it_kept(run: Shell) -> None:
    """Whatever states its variables have; and a score brings its own."""
    Path("gaps.csv").write_text("a,b\n" + "no,yes\nyes,no\nyes,yes\nno,\n" * 50)
    Path("pair.bif").write_text(format_bif(NetworkContent(PAIR.variables, dict(PAIR.parents), {})))
    run("ledger open cut --epsilon 9 --relation add-remove")
    for how, said in (("drop", False), ("keep", True)):
        assert (
            run(f"release gaps.csv --network pair.bif --missing {how} --account cut --epsilon 1 --output {how}.json")[0]
            == 0
        )
        assert ("missing" in run.json(f"query {how}.json 'P(b)'")) == said
    Path("score.json").write_text("{}")
    refused = run.fails("check gaps.csv --score score.json --missing keep --may-be-missing b")
    assert "not for --score" in refused
