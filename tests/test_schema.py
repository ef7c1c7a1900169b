"""`discreet.model.schema`: what a column may hold is declared, checked and never guessed."""

from __future__ import annotations

import datetime
import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given

import discreet as dc
from folding import every
from strategies import distinct_names, edges, names, schemas

RAIN = dc.Variable("rain", ("no", "yes"))
AGE = dc.Variable("age", bounds=(0, 120), bins=(18, 65))
INF, NAN = float("inf"), float("nan")


def saved(folder: Path, document: object) -> Path:
    """A schema file."""
    path = folder / "schema.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------------- variables


def test_cut_points_make_a_number_categorical() -> None:
    assert AGE.states == ("0_to_18", "18_to_65", "65_to_120")
    assert AGE.bounds == (0.0, 120.0) and AGE.bins == (18.0, 65.0)
    assert AGE.numeric and AGE.size == 3 and AGE.code("65_to_120") == 2


def test_bins_can_be_named() -> None:
    named = dc.Variable("age", ("young", "old"), bounds=(0, 120), bins=(40,))
    assert named.states == ("young", "old") and named.numeric


def test_a_number_without_bins_has_no_states() -> None:
    weight = dc.Variable("weight", bounds=(0.5, 300))
    assert weight.numeric and weight.size == 0 and weight.states == ()
    assert not RAIN.numeric and RAIN.size == 2


def test_a_variable_is_an_immutable_value() -> None:
    assert dc.Variable("rain", ["no", "yes"]) == RAIN  # type: ignore[arg-type]
    assert len({RAIN, dc.Variable("rain", ("no", "yes"))}) == 1
    assert dc.Variable("rain", ("yes", "no")) != RAIN
    with pytest.raises(FrozenInstanceError):
        RAIN.name = "snow"  # type: ignore[misc]


@given(names(), distinct_names(1, 6))
def test_codes_count_the_states_in_their_order(name: str, states: tuple[str, ...]) -> None:
    variable = dc.Variable(name, states)
    assert [variable.code(state) for state in states] == list(range(variable.size))


@given(edges(2, 7))
def test_every_bin_gets_a_name_of_its_own(cuts: tuple[float, ...]) -> None:
    variable = dc.Variable("x", ("all",) if len(cuts) == 2 else (), bounds=(cuts[0], cuts[-1]), bins=cuts[1:-1])
    assert len(set(variable.states)) == variable.size == len(cuts) - 1
    if len(cuts) > 2:
        assert [float(state.split("_to_")[1]) for state in variable.states] == list(cuts[1:])


@every(
    ("arguments", "message"),
    [
        ({"name": ""}, "needs a name that is not empty"),
        ({"name": 5}, "needs a name that is not empty"),
        ({"name": "x", "bins": (1, 2)}, "'x': bins need bounds"),
        ({"name": "x"}, "'x': declare its states, or numeric bounds"),
        ({"name": "x", "states": ("a", "")}, "'x': every state needs a name"),
        ({"name": "x", "states": (None, 1)}, "'x': every state needs a name"),
        ({"name": "x", "states": (datetime.date(2024, 1, 1), "a")}, "'x': every state needs .* a text, a number, true"),
        ({"name": "x", "type": "date"}, "'x': declare its states, or numeric bounds; .* but for dates"),
        ({"name": "x", "states": (10**400, 1)}, "'x': every state needs a name"),
        ({"name": "x", "states": (INF, 1)}, "'x': every state needs a name"),
        ({"name": "x", "states": ("a", "b", "b")}, "'x': state 'b' is declared twice"),
        ({"name": "x", "bounds": (1,)}, r"'x': bounds are a pair"),
        ({"name": "x", "bounds": (1, 2, 3)}, r"'x': bounds are a pair"),
        ({"name": "x", "bounds": (1, 1)}, "'x': bounds and bins must be finite and strictly increasing"),
        ({"name": "x", "bounds": (NAN, 1)}, "'x': bounds and bins must be finite"),
        ({"name": "x", "bounds": (0, INF)}, "'x': bounds and bins must be finite"),
        ({"name": "x", "bounds": (0, 9), "bins": (NAN,)}, "'x': bounds and bins must be finite"),
        ({"name": "x", "bounds": (0, 9), "bins": (3, 3)}, "'x': bounds and bins must be .* strictly increasing"),
        ({"name": "x", "bounds": (0, 9), "bins": (0, 3)}, "'x': bounds and bins must be .* strictly increasing"),
        ({"name": "x", "bounds": (0, 9), "bins": (3, 9)}, "'x': bounds and bins must be .* strictly increasing"),
        ({"name": "x", "states": ("a", "b"), "bounds": (0, 9)}, "'x': 0 cut points make 1 states, but 2 are named"),
        ({"name": "x", "states": ("a",), "bounds": (0, 9), "bins": (3,)}, "1 cut points make 2 states, but 1 are"),
        ({"name": "x", "states": "no"}, "'x'.*states"),  # one text is not a list of states: it would become n, o
        ({"name": "x", "bounds": ("low", "high")}, "'x'.*bounds"),
        ({"name": "x", "bounds": (0, 1), "bins": ("low",)}, "'x'.*bins"),
        ({"name": "x", "bounds": (0, 10**400)}, "'x'.*bounds"),
    ],
)
def test_what_is_not_a_variable_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.Variable(**arguments)  # type: ignore[arg-type]


def test_an_unknown_state_is_answered_with_the_known_ones() -> None:
    with pytest.raises(dc.InputError, match="'rain' has no state 'maybe'; its states: no, yes"):
        RAIN.code("maybe")


# ---------------------------------------------------------------------------------------------------- schemas


def test_a_schema_is_an_ordered_collection() -> None:
    schema = dc.Schema((RAIN, AGE))
    assert schema.names == ("rain", "age") and list(schema) == [RAIN, AGE] and len(schema) == 2
    assert schema["age"] is AGE and "age" in schema and "snow" not in schema
    assert schema != dc.Schema((AGE, RAIN))


@every(
    ("variables", "message"),
    [
        ((), "at least one variable"),
        ((RAIN, AGE, dc.Variable("age", ("x",))), "'age' is declared twice"),
    ],
)
def test_what_is_not_a_schema_is_refused(variables: tuple[dc.Variable, ...], message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        dc.Schema(variables)


def test_an_unknown_variable_is_answered_with_the_known_ones() -> None:
    with pytest.raises(dc.InputError, match="no variable 'snow'; there are: rain, age"):
        dc.Schema((RAIN, AGE))["snow"]


# ---------------------------------------------------------------------------------------------------- files


@given(schema=schemas())
def test_a_schema_file_says_all_there_is_to_say(tmp_path_factory: pytest.TempPathFactory, schema: dc.Schema) -> None:
    parts = [
        {"name": variable.name, "states": variable.states}
        | ({"bounds": variable.bounds, "bins": variable.bins} if variable.numeric else {})
        for variable in schema
    ]
    assert dc.Schema.read(saved(tmp_path_factory.mktemp("schema"), {"variables": parts})) == schema


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "is not JSON"),
        ([1, 2], "needs a list of objects under 'variables'"),
        ({"columns": []}, "needs a list of objects under 'variables'"),
        ({"variables": ["rain"]}, "needs a list of objects under 'variables'"),
        ({"variables": []}, "at least one variable"),
        ({"variables": [{"states": ["no", "yes"]}]}, r"a variable has a name.*got \['states'\]"),
        ({"variables": [{"name": "rain", "levels": ["no"]}]}, r"got \['levels', 'name'\]"),
        ({"variables": [{"name": "rain", "states": ["no", "no"]}]}, "'rain': state 'no' is declared twice"),
        ({"variables": [{"name": "rain", "states": "yes"}]}, "'rain'.*states"),
        ({"variables": [{"name": "rain", "states": None}]}, "'rain'.*states"),
        ({"variables": [{"name": "age", "bounds": 5}]}, "'age'.*bounds"),
        ({"variables": [{"name": "age", "bounds": ["a", "b"]}]}, "'age'.*bounds"),
        ({"variables": [{"name": "age", "bounds": [0, 10**400]}]}, "'age'.*bounds"),
    ],
)
def test_a_file_that_is_no_schema_is_refused_by_name(tmp_path: Path, document: object, message: str) -> None:
    path = saved(tmp_path, document)
    with pytest.raises(dc.InputError, match=message) as refusal:
        dc.Schema.read(path)
    assert f"{path.parent.name}/{path.name}" in str(refusal.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(dc.InputError, match=r"cannot read schema .*none\.json.*No such file"):
        dc.Schema.read(tmp_path / "none.json")
