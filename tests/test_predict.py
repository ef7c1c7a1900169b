"""Predictions against `answer`, record by record and bit by bit; what a table of evidence may be, and refusals."""

from __future__ import annotations

import decimal
import fractions
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference import exact_laws
from discreet.inference.exact_laws import Laws
from discreet.predicting import predict as module
from discreet.predicting.predict import Prediction, predict
from discreet.queries.query import Probability
from folding import every
from networks import asia
from oracle import conditional, random_draws, with_draws
from strategies import networks

CELLS = random_draws(asia().network, 60, seed=1)
POSTERIOR = dc.results.PosteriorDraws(CELLS)
NODES = CELLS.network.nodes


def made_up(n: int, seed: int, missing: float = 0.3) -> dict[str, list[str | None]]:
    """Records of the Asia network with holes; lung is there, too."""
    rng = np.random.default_rng(seed)
    table = dc.tools.simulate_records(asia(), n, rng=rng)
    return {
        name: [
            None if hole else value
            for value, hole in zip(table[name].to_pylist(), rng.random(n) < missing, strict=True)
        ]
        for name in table.column_names
    }


def one_by_one(
    posterior: dc.results.NetworkPosterior, records: dict[str, list[Any]], target: str, level: float
) -> list[np.ndarray]:
    """Means, lower and upper ends that `answer` gives for each record; shape (records, states) each."""
    found = []
    for i in range(len(next(iter(records.values())))):
        seen = {name: values[i] for name, values in records.items() if name != target and values[i] is not None}
        answer = dc.answer(posterior, Probability(((target, None),), tuple(seen.items())), level=level)
        found.append([[row[key] for row in answer.rows] for key in ("mean", "lower", "upper")])
    return list(np.array(found).swapaxes(0, 1))


def assert_equal(found: Prediction, expected: list[np.ndarray]) -> None:
    for array, other in zip((found.mean, found.lower, found.upper), expected, strict=True):
        np.testing.assert_array_equal(array, other, strict=True)


def same(one: Prediction, other: Prediction) -> bool:
    arrays = zip((one.mean, one.lower, one.upper), (other.mean, other.lower, other.upper), strict=True)
    return one.states == other.states and all(np.array_equal(a, b) for a, b in arrays)


# -------------------------------------------------------------------------------------------------------------- answers


@every("target", ["lung", "asia", "xray"])
def test_a_prediction_is_the_answer_for_each_record(target: str) -> None:
    records = made_up(60, seed=2)
    found = predict(POSTERIOR, records, target, level=0.9)
    assert (found.target, found.states, found.level) == (target, ("yes", "no"), 0.9)
    assert found.mean.shape == (60, 2)
    assert_equal(found, one_by_one(POSTERIOR, records, target, 0.9))


def test_a_prediction_agrees_with_the_oracle() -> None:
    records = made_up(12, seed=3)
    found = predict(POSTERIOR, records, "bronc", level=0.9)
    for i in range(12):
        evidence = {name: ("yes", "no").index(v[i]) for name, v in records.items() if v[i] and name != "bronc"}
        np.testing.assert_allclose(found.mean[i], conditional(CELLS, ("bronc",), evidence).mean(axis=-1), atol=1e-12)


@st.composite
def tables_in_any_layout(draw: st.DrawFn, network: dc.Network, draws: int) -> dc.Tables:
    """Random probabilities with or without zeros, the axes of their memory in one of three orders."""
    cells = random_draws(network, draws, draw(st.integers(0, 2**20)))
    if draw(st.booleans()):
        floor = {
            node: np.where(table < table.max(axis=-2, keepdims=True) / 4, 0, table) for node, table in cells.items()
        }
        cells = dc.Tables(network, {node: t / t.sum(axis=-2, keepdims=True) for node, t in floor.items()}, draws=draws)
    layout = draw(st.sampled_from((np.asarray, np.ascontiguousarray, np.asfortranarray)))
    return dc.Tables(network, {node: layout(table) for node, table in cells.items()}, draws=draws)


@given(networks(max_nodes=6, max_states=3), st.data())
def test_predictions_of_any_network(network: dc.Network, data: st.DataObject) -> None:
    """Any network, layout and pattern, records that show the same and others; the same record is refused, too."""
    cells = data.draw(tables_in_any_layout(network, data.draw(st.sampled_from((1, 2, 5)))))
    posterior = dc.results.PosteriorDraws(cells)
    target = data.draw(st.sampled_from(network.nodes))
    shown = data.draw(st.lists(st.sampled_from(network.nodes), min_size=1, unique=True))
    size = data.draw(st.integers(1, 8))
    records = {
        name: data.draw(st.lists(st.sampled_from((None, *network.schema[name].states)), min_size=size, max_size=size))
        for name in shown
    }
    columns = {name: pa.array(values, pa.string()) for name, values in records.items()}
    refused = None
    try:
        expected = one_by_one(posterior, records, target, 0.8)
    except dc.InputError:
        refused = next(
            i for i in range(size) if fails(posterior, {name: [v[i]] for name, v in records.items()}, target)
        )
    if refused is None:
        assert_equal(predict(posterior, columns, target, level=0.8), expected)
        return
    with pytest.raises(dc.InputError, match=rf"record at position {refused} \(the first is 0\) is impossible under"):
        predict(posterior, columns, target, level=0.8)


def fails(posterior: dc.results.NetworkPosterior, record: dict[str, list[Any]], target: str) -> bool:
    """Whether `answer` refuses a record."""
    try:
        one_by_one(posterior, record, target, 0.8)
    except dc.InputError:
        return True
    return False


SIZES = {"a": 9, "b": 17, "c": 12, "d": 10}
LARGE = dc.Network(
    tuple(dc.Variable(name, tuple(f"s{k}" for k in range(size))) for name, size in SIZES.items()),
    {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("b",)},
)


@every("draws", [1, 7])
@every(("target", "shown"), [("b", "cd"), ("d", "b"), ("a", "c"), ("c", "abd")])
def test_variables_of_many_states(target: str, shown: str, draws: int) -> None:
    """Sums over eight states and more are where numpy's order of addition shows, and with it the layout of a table.

    In these tables the states of a row are next to each other in memory, not the draws.
    """
    posterior = dc.results.PosteriorDraws(random_draws(LARGE, draws, seed=1))
    rng = np.random.default_rng(3)
    records = {name: [f"s{k}" for k in rng.integers(0, SIZES[name], 40)] for name in shown}
    assert_equal(predict(posterior, records, target, level=0.9), one_by_one(posterior, records, target, 0.9))


def test_blocks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = dc.results.PosteriorDraws(random_draws(LARGE, 7, seed=1))
    rng = np.random.default_rng(3)
    records = {name: [f"s{k}" for k in rng.integers(0, SIZES[name], 40)] for name in "cd"}
    expected = one_by_one(posterior, records, "b", 0.9)
    made = []
    real = module._join_tables
    monkeypatch.setattr(module, "_join_tables", lambda *args: made.append(real(*args)) or made[-1])
    for bytes_ in (module.CHUNK_BYTES, 400_000, 1):
        monkeypatch.setattr(module, "CHUNK_BYTES", bytes_)
        assert_equal(predict(posterior, records, "b", level=0.9), expected)
    records_joined = [part.draws // 7 for part in made]
    assert max(records_joined) > 30 and 1 < min(records_joined) < 20


def test_records_that_show_the_same_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given either, nothing of tub, lung and asia matters to xray: two distinct records remain, in one pass."""
    shapes = []
    real = Laws.joint
    monkeypatch.setattr(Laws, "joint", lambda laws, *args: shapes.append(laws.draws) or real(laws, *args))
    records = made_up(500, seed=4, missing=0.0)
    del records["dysp"]
    predict(POSTERIOR, records, "xray", level=0.9)
    assert shapes == [2 * 60]


# --------------------------------------------------------------------------------------------------------------- tables


def test_anything_that_is_a_table() -> None:
    records = made_up(30, seed=5)
    expected = predict(POSTERIOR, records, "lung", level=0.9)
    frame = pd.DataFrame(records)
    shuffled = frame.set_index(pd.Index(np.random.default_rng(1).permutation(30), name="patient"))
    arrow = pa.table(records)
    tables = [
        arrow,
        arrow.to_batches()[0],
        frame,
        shuffled,
        frame.astype("category"),
        pl.DataFrame(records),
        {name: np.array(values, object) for name, values in records.items()},
        {name: pd.Series(values) for name, values in records.items()},
        {name: pl.Series(values) for name, values in records.items()},
        {name: arrow[name] for name in records},
        arrow.cast(pa.schema([(name, pa.large_string()) for name in records])),
        pa.table({name: arrow[name].dictionary_encode() for name in records}),
        arrow.drop_columns(["lung"]),
        Interchange(arrow),
    ]
    for table in tables:
        assert same(predict(POSTERIOR, table, "lung", level=0.9), expected)


class Interchange:
    """A frame that knows the interchange protocol only."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __dataframe__(self, *args: Any, **keywords: Any) -> Any:
        return self.table.__dataframe__(*args, **keywords)


def test_the_target_is_not_read_and_absent_columns_are_not_observed() -> None:
    marginal = one_by_one(POSTERIOR, {"lung": ["yes"] * 3}, "lung", 0.9)
    for records in (
        {"lung": ["yes", "nonsense", None]},
        {"lung": [1.5, "yes", object()]},
        {"smoke": [None, None, None]},
        {"smoke": [float("nan")] * 3, "asia": pa.nulls(3), "xray": np.full(3, np.nan)},
        pa.table({"lung": [[1], [2], [3]]}),
        pd.DataFrame({"smoke": [np.nan] * 3}),
        pl.DataFrame({"smoke": [None] * 3, "asia": [float("nan")] * 3}),
    ):
        assert_equal(predict(POSTERIOR, records, "lung", level=0.9), marginal)


def test_no_records() -> None:
    for records in ({}, {"smoke": []}, pa.table({"smoke": pa.array([], pa.string())}), pd.DataFrame({"smoke": []})):
        found = predict(POSTERIOR, records, "lung", level=0.9)
        assert found.mean.shape == found.lower.shape == found.upper.shape == (0, 2)
        assert found.most_probable == ()
        assert found.table().num_rows == 0


MIXED = dc.Network(
    (
        dc.Variable("age", ("young", "middle", "old"), bounds=(0, 120), bins=(18, 65)),
        dc.Variable("grade", ("1", "2.5", "3")),
        dc.Variable("ill", ("False", "True")),
        dc.Variable("sure", ("only",)),
        dc.Variable("out", ("a", "b", "c")),
    ),
    {"age": (), "grade": ("age",), "ill": (), "sure": ("ill",), "out": ("age", "grade", "ill", "sure")},
)
MIXED_POSTERIOR = dc.results.PosteriorDraws(random_draws(MIXED, 11, seed=2))


@every(
    ("column", "values", "states"),
    [
        ("age", [0, 17.999, 18, 64, 65, 120, None], ["young", "young", "middle", "middle", "old", "old", None]),
        ("age", ["old", None, "young"], ["old", None, "young"]),
        ("age", pa.array([3, 70], pa.int8()), ["young", "old"]),
        ("age", [decimal.Decimal("18.0"), None], ["middle", None]),
        ("age", [float("nan"), 18.5], [None, "middle"]),
        ("grade", [1, 2.5, 3.0, None], ["1", "2.5", "3", None]),
        ("grade", ["1", "2.5"], ["1", "2.5"]),
        ("grade", np.array([3, 1]), ["3", "1"]),
        ("ill", [True, None, False], ["True", None, "False"]),
        ("ill", ["True", "False"], ["True", "False"]),
        ("sure", ["only", None], ["only", None]),
    ],
)
def test_values_become_states(column: str, values: Any, states: list[str | None]) -> None:
    found = predict(MIXED_POSTERIOR, {column: values}, "out", level=0.9)
    assert_equal(found, one_by_one(MIXED_POSTERIOR, {column: states}, "out", 0.9))


def test_values_become_states_as_records_do() -> None:
    """The curator's side bins numbers in the same way."""
    ages = [0.0, 17.5, 18.0, 40.0, 65.0, 120.0]
    network = dc.Network((MIXED.schema["age"],), {"age": ()})
    counted = dc.count(dc.read_records(pa.table({"age": ages}), network.schema), network).tables["age"]
    posterior = dc.results.PosteriorDraws(with_draws(dc.Tables(
        dc.Network((MIXED.schema["age"], dc.Variable("bin", ("x", "y", "z"))), {"age": (), "bin": ("age",)}),
        {"age": np.full(3, 1 / 3), "bin": np.eye(3)},
    )))  # fmt: skip
    found = predict(posterior, {"age": ages}, "bin", level=0.9)
    np.testing.assert_array_equal(found.mean.sum(axis=0), counted)


def test_a_state_of_missing_values_does_not_make_names_of_numbers() -> None:
    flag, sure = dc.Variable("flag", ("0", "1"), missing="NA"), dc.Variable("sure", ("False", "True"), missing="NA")
    network = dc.Network((flag, sure, MIXED.schema["out"]), {"flag": (), "sure": (), "out": ("flag", "sure")})
    posterior = dc.results.PosteriorDraws(random_draws(network, 11, seed=2))
    found = predict(posterior, {"flag": [1, 0, None], "sure": [True, None, False]}, "out", level=0.9)
    named = {"flag": ["1", "0", None], "sure": ["True", None, "False"]}
    assert_equal(found, one_by_one(posterior, named, "out", 0.9))


def test_a_text_of_a_code_is_read_as_a_number_before_it_counts_as_other() -> None:
    """Frames with gaps write the code 1 as 1.0; it was read as the state of all other values."""
    sex = dc.Variable("sex", ("f", "m"), codes=("1", "2"), other="else")
    network = dc.Network((sex, MIXED.schema["out"]), {"sex": (), "out": ("sex",)})
    posterior = dc.results.PosteriorDraws(random_draws(network, 11, seed=2))
    found = predict(posterior, {"sex": ["1.0", "2.00", "2", "3.0", "f", None]}, "out", level=0.9)
    named = {"sex": ["f", "m", "m", "else", "f", None]}
    assert_equal(found, one_by_one(posterior, named, "out", 0.9))


def test_evidence_against_a_condition_is_refused_with_the_condition() -> None:
    dead, cause = dc.Variable("dead", ("no", "yes")), dc.Variable("cause", ("heart",), applies_if="dead = yes")
    network = dc.Network.from_edges([("cause", "out")], (dead, cause, MIXED.schema["out"]))
    rows = {"dead": np.full((2, 9), 0.5), "cause": np.repeat([[[0.0], [1.0]], [[1.0], [0.0]]], 9, axis=2)}
    posterior = dc.results.PosteriorDraws(dc.Tables(network, {**rows, "out": np.full((2, 3, 9), 1 / 3)}, draws=9))
    for dead_too, cause_too in (("no", "heart"), ("yes", "not applicable")):
        with pytest.raises(dc.InputError, match=r"'cause' applies if dead = yes$"):
            predict(posterior, {"dead": [dead_too], "cause": [cause_too]}, "out")


def test_one_state_variables() -> None:
    found = predict(MIXED_POSTERIOR, {"age": [20, None]}, "sure", level=0.9)
    np.testing.assert_allclose(found.mean, [[1], [1]], atol=1e-15)
    assert found.most_probable == ("only", "only")


# ------------------------------------------------------------------------------------------------------- the prediction


def test_the_prediction_as_a_table() -> None:
    found = predict(POSTERIOR, made_up(20, seed=6), "lung", level=0.9)
    table = found.table()
    ends = ("", " lower", " upper")
    assert table.column_names == ["lung", *(f"P(lung={state}){end}" for state in ("yes", "no") for end in ends)]
    assert table["lung"].to_pylist() == list(found.most_probable)
    for code, state in enumerate(found.states):
        for array, end in zip((found.mean, found.lower, found.upper), ends, strict=True):
            np.testing.assert_array_equal(table[f"P(lung={state}){end}"].to_numpy(), array[:, code])


def test_the_most_probable_state_has_the_largest_mean_and_is_the_first_of_equals() -> None:
    means = np.array([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])
    found = Prediction("x", ("a", "b", "c"), 0.9, means, means.copy(), means.copy(), np.zeros(2))
    assert found.most_probable == ("b", "a")
    with pytest.raises(ValueError, match="read-only"):
        found.mean[0, 0] = 1


# ------------------------------------------------------------------------------------------------------------- refusals


MONEY = fractions.Fraction(4711)


@every("level", [0, 1, -1, 1.5, np.nan])
def test_levels(level: float) -> None:
    for records in ({}, {"smoke": ["yes"]}):
        with pytest.raises(dc.InputError, match="between 0 and 1"):
            predict(POSTERIOR, records, "lung", level=level)


def test_unknown_names() -> None:
    with pytest.raises(dc.InputError, match="no variable 'lunge'"):
        predict(POSTERIOR, {}, "lunge", level=0.9)
    with pytest.raises(
        dc.InputError, match=r"no variables of the network: 'name', 'weight'; leave them out"
    ) as refused:
        predict(POSTERIOR, {"name": ["Jane Doe"], "smoke": ["yes"], "weight": [71.25]}, "lung", level=0.9)
    assert "Jane" not in str(refused.value) and "71" not in str(refused.value)
    twice = pa.table([["yes"], ["no"]], names=["smoke", "smoke"])
    with pytest.raises(dc.InputError, match="two columns 'smoke'"):
        predict(POSTERIOR, twice, "lung", level=0.9)


@every(
    ("records", "message"),
    [
        ({"age": [5, 10, 4711]}, r"position 2 .* column 'age' that is outside its bounds 0 to 120$"),
        ({"age": [5, float("inf")]}, r"position 1 .* outside its bounds"),
        ({"age": ["young", "4711"]}, r"position 1 .* none of its states: young, middle, old$"),
        ({"grade": [1, 4711]}, r"position 1 .* column 'grade' that is none of its states: 1, 2.5, 3$"),
        ({"ill": ["True", "4711"]}, r"position 1 .* none of its states: False, True$"),
        ({"ill": [4711]}, r"column 'ill' holds numbers, but its states are names"),
        ({"age": [True, False]}, r"column 'age' must hold the states of its variable, but has type bool"),
        ({"age": [[4711]]}, r"column 'age' must hold the states of its variable, but has type list"),
        ({"age": [20, "4711"]}, r"column 'age' is no sequence of values of one kind \(Arrow\w+\)$"),
        ({"age": "4711"}, r"column 'age' is no sequence of values of one kind \(TypeError\)$"),
        ({"age": 4711}, r"column 'age' is no sequence of values of one kind"),
        ({"age": [4711], "ill": [True, False]}, r"differ in length: 1, 2$"),
        (pl.DataFrame({"age": pl.Series([MONEY], dtype=pl.Object)}), r"a column of the frame has Python objects"),
        ({"age": pl.Series([MONEY], dtype=pl.Object)}, r"a column of the frame has Python objects"),
        ([4711], r"cannot read records from an object of type list; give a mapping"),
        ("4711", r"cannot read records from an object of type str"),
    ],
)
def test_bad_records_are_named_by_position_and_never_quoted(records: Any, message: str) -> None:
    with pytest.raises(dc.InputError, match=message) as refused:
        predict(MIXED_POSTERIOR, records, "out", level=0.9)
    assert "4711" not in str(refused.value)
    assert refused.value.__context__ is None


class Broken:
    """A frame whose stream fails with a value in its text."""

    def __arrow_c_stream__(self, requested: object = None) -> Any:
        raise RuntimeError("row 4711 is broken")


def test_a_frame_that_fails_says_nothing() -> None:
    with pytest.raises(dc.InputError, match=r"^the records cannot be read \(RuntimeError\)$") as refused:
        predict(POSTERIOR, Broken(), "lung", level=0.9)
    assert refused.value.__context__ is None


@every("target", ["dysp", "tub", "smoke"])
def test_impossible_evidence_names_the_first_record(target: str) -> None:
    """`either` is the disjunction of `lung` and `tub`; seen from dysp and smoke the contradiction is elsewhere."""
    rows = [("yes", "yes", None), (None, "no", "yes"), ("no", "yes", None), (None, None, None), ("no", "yes", "no")]
    records = {
        name: list(values) for name, values in zip(("either", "lung", "xray"), zip(*rows, strict=True), strict=True)
    }
    for draws in (1, 3):
        theta = with_draws(asia())
        cells = dc.Tables(theta.network, {node: np.repeat(t, draws, axis=-1) for node, t in theta.items()}, draws=draws)
        message = rf"record at position 2 \(the first is 0\) is impossible under {draws} of {draws} draws"
        with pytest.raises(dc.InputError, match=message) as refused:
            predict(dc.results.PosteriorDraws(cells), records, target, level=0.9)
        assert "yes" not in str(refused.value) and "either" not in str(refused.value)
        fine = {name: [values[i] for i in (0, 1, 3)] for name, values in records.items()}
        expected = one_by_one(dc.results.PosteriorDraws(cells), fine, target, 0.9)
        assert_equal(predict(dc.results.PosteriorDraws(cells), fine, target, level=0.9), expected)


def test_a_network_too_large_for_exact_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 3)
    with pytest.raises(dc.InputError, match="more than the budget"):
        predict(POSTERIOR, {"xray": ["yes"]}, "lung", level=0.9)
