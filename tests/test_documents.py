"""Documents of every payload: they fit the schema and read back as they were; damage is one line, not a traceback."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import jsonschema
import numpy as np
import pytest

import discreet as dc
from design_releases import PUBLISHED, committed
from discreet.releases.codec import kind
from discreet.releases.release import release_schema
from discreet.verify.made_up import NETWORKS
from folding import every
from registry import family, score
from releases import POLICY
from tiny import counts_of, network_of

NETWORK = network_of({"a": 2, "b": 3, "c": 2, "d": 1}, "a>b a>c b>c c>d")
OPEN = network_of({"a": 2, "b": 3, "c": 2}, "a>b b>c")
"""One pair lies in no table."""
NUMBERS = dc.Network(
    (
        dc.Variable("a", ("s0", "s1")),
        dc.Variable("x", bounds=(0, 9), bins=(4,)),
        dc.Variable("n", bounds=(0, 2), bins=(1,)),
    ),
    {"a": (), "x": ("a",), "n": ("x",)},
)
"""Columns of numbers, with states and with each other."""
WIDE = dc.Network((*NUMBERS.variables[:2], dc.Variable("n", bounds=(0, 2000))), NUMBERS.parents)
"""The bins of one of them are to be found."""
NUMBERED = [(0, 1.5, 0.5), (1, 7.0, 1.9), (1, 8.5, 0.1), (0, 0.0, 2.0)] * 40
RECORDS = [(0, 1, 1, 0), (1, 2, 0, 0), (1, 0, 0, 0), (0, 0, 1, 0)] * 5


def candidates() -> list[dc.Tables]:
    rng = np.random.default_rng(0)
    return [
        dc.Tables(NETWORK, {node: rows / rows.sum(axis=-1, keepdims=True) for node, rows in drawn.items()})
        for drawn in ({node: rng.uniform(0.1, 1, NETWORK.shape(node)) for node in NETWORK.nodes} for _ in range(3))
    ]


KINDS: dict[str, tuple[Callable[[], dc.tools.Mechanism], str]] = {
    "planned": (lambda: dc.planned(pairs_share=0), "0"),
    "planned, pairs": (lambda: dc.planned(records=10**7), "0"),
    "planned, workload": (lambda: dc.planned(pairs_share=0, workload=["P(b)"]), "0"),
    "planned, numbers": (lambda: dc.planned(numbers_share="1/2", pairs_share=0), "0"),
    "planned, numbers and delta": (lambda: dc.planned(numbers_share="1/2", pairs_share=0), "0.01"),
    "planned, numbers and pairs": (lambda: dc.planned(records=10**7), "0"),
    "planned, found numbers": (lambda: dc.planned(pairs_share=0), "0"),
    "planned, delta": (lambda: dc.planned(pairs_share=0), "0.7"),
    "laplace": (dc.laplace, "0"),
    "laplace, budgets given": (lambda: dc.laplace({"a": "0.5", "c": "1/3", "d": "0.1"}), "0"),
    "fourier": (dc.research.fourier, "0"),
    "fourier, stealth": (lambda: dc.research.fourier(stealth=0.9), "0"),
    "gaussian": (dc.gaussian, "1e-6"),
    "allocated": (dc.research.allocated, "0"),
    "sampler": (lambda: dc.research.posterior_sampler(2), "0"),
    "sampler, delta": (lambda: dc.research.posterior_sampler(2), "1e-6"),
    "map": (dc.research.map_estimate, "0"),
    "choice": (lambda: dc.research.map_estimate(candidates()), "0"),
    "scored": (lambda: dc.research.scored(score(NETWORK), 2), "0"),
    "sampled": (lambda: dc.research.sampled(family(NETWORK)), "0"),
}
PARAMETERS = [(kind, relation) for kind in KINDS for relation in dc.tools.RECORD_RELATIONS]


@cache
def release(kind: str, relation: dc.Relation = dc.Relation.ADD_REMOVE) -> dc.Release:
    make, delta = KINDS[kind]
    promise = dc.Guarantee(epsilon=2, delta=delta, relation=relation, unit="record")
    network = OPEN if kind == "planned, pairs" else NUMBERS if "numbers" in kind else NETWORK
    network = WIDE if "found" in kind else network
    if "numbers" in kind:
        found: Any = NETWORKS.statistic_from(make(), network, NUMBERED)
    else:
        found = counts_of(network, [record[: len(network.nodes)] for record in RECORDS])
    counts = dc.results.Counts(found.tables, POLICY, found.joints, found.sums, found.wide)
    prior = dc.Dirichlet.uniform(network)
    return dc.simulate(make(), counts, prior, promise, rng=np.random.default_rng(3))


def document(kind: str, relation: dc.Relation = dc.Relation.ADD_REMOVE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(release(kind, relation).dumps())
    return found


@cache
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(release_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


Place = tuple[str | int, ...]


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Every place of a document, the first entries of lists only."""
    if above:
        yield above
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places(part, (*above, key))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*above, 0))


def held(document: Any, place: Place) -> Any:
    """What is at a place."""
    for key in place:
        document = document[key]
    return document


def changed(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy with another value."""
    made = copy.deepcopy(document)
    held(made, place[:-1])[place[-1]] = value
    return made


def without(document: dict[str, Any], place: Place) -> dict[str, Any]:
    """A copy without an entry."""
    made = copy.deepcopy(document)
    del held(made, place[:-1])[place[-1]]
    return made


def refused(document: Any) -> str:
    """The message with which a document is refused."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(dc.InputError) as caught:
        dc.Release.loads(text)
    message = str(caught.value)
    assert message and "\n" not in message and len(message) < 500, message
    return message


# ---------------------------------------------------------------------------------------------------- there and back


@every(("kind", "relation"), PARAMETERS)
def test_documents_fit_the_schema(kind: str, relation: dc.Relation) -> None:
    validator().validate(document(kind, relation))


def numbers(value: Any) -> Any:
    """The numbers of a payload or calibration, nested, for comparison."""
    if isinstance(value, dc.Network):
        return (value.variables, dict(value.parents))
    if isinstance(value, dc.Tables):
        return {node: (array.dtype, array.tolist()) for node, array in value.items()}
    if isinstance(value, np.ndarray):
        return (value.dtype, value.shape, value.tolist())
    if hasattr(value, "__dataclass_fields__"):
        return (type(value), [numbers(getattr(value, name)) for name in value.__dataclass_fields__])
    if hasattr(value, "items"):
        return {key: numbers(part) for key, part in value.items()}
    return [numbers(part) for part in value] if isinstance(value, tuple) else value


@every(("kind", "relation"), PARAMETERS)
def test_documents_read_back_as_they_were(kind: str, relation: dc.Relation) -> None:
    made = release(kind, relation)
    again = dc.Release.loads(made.dumps())
    assert again.dumps() == made.dumps()
    assert again.calibration == made.calibration
    assert numbers(again.payload) == numbers(made.payload)
    assert (again.guarantee, again.policy, again.records) == (made.guarantee, made.policy, made.records)
    if kind not in ("scored", "sampled"):  # candidates of no law, or of one that the network does not have
        check_posterior(dc.tools.plug_in, made, again)


def check_posterior(read: Callable[..., Any], made: dc.Release, again: dc.Release) -> None:
    """Draws of a cell from both releases are one."""
    one, other = (read(part, draws=3, rng=np.random.default_rng(1)).probabilities["a"] for part in (made, again))
    assert np.array_equal(one, other)


@every("kind", ["planned", "planned, numbers", "laplace", "fourier", "gaussian", "allocated", "sampler", "map"])
def test_a_release_that_was_read_has_the_posterior_of_the_one_that_was_made(kind: str) -> None:
    """One of each payload that has one; that all their numbers are equal is what the test above says."""
    made = release(kind)
    check_posterior(dc.noise_aware, made, dc.Release.loads(made.dumps()))


def test_every_kind_of_calibration_and_payload_is_covered() -> None:
    calibrations = {document(kind)["calibration"].get("kind", "table_noise") for kind in KINDS}
    payloads = {document(kind)["payload"]["kind"] for kind in KINDS}
    known = json.loads(release_schema())["$defs"]
    stated = {part["properties"]["kind"].get("const") for part in known.values() if "kind" in part["properties"]}
    designs = [json.loads(committed(kind)) for kind in PUBLISHED]
    over_designs = {part["kind"] for found in designs for part in (found["calibration"], found["payload"])}
    # Lists that may be shorter: see `test_structure.py` and `test_found_domain.py`.
    chosen = {"structure_noise", "chosen_network", "domain_noise", "found_domain"}
    assert calibrations | payloads >= stated - {None} - over_designs - chosen


# --------------------------------------------------------------------------------------------------------------- damage


OPTIONAL = {
    ("payload", "candidates", 0), ("calibration", "records"), ("calibration", "first", "records"),
    ("payload", "table", "log_law"), ("payload", "rulers", 0),
}  # fmt: skip
"""Two candidates are a choice, too; a planning size is given or not; a family's table is that of a score, too; few
records have no ruler."""


@every("kind", KINDS)
def test_no_field_can_be_left_out(kind: str) -> None:
    """Each field of the calibration and the payload, and the first cell of each table."""
    whole = document(kind)
    for place in places({part: whole[part] for part in ("calibration", "payload")}):
        if place not in OPTIONAL:
            damaged = without(whole, place)
            assert refused(damaged)
    for part in ("calibration", "payload", "prior", "network", "guarantee", "mechanism"):
        refused(without(whole, (part,)))


WRONG = (None, "x", True, [], {}, -1, 0.5, 10**30, [[]], "nan", {"kind": "choice"})


@pytest.mark.costly("A field that takes a value of another type is found by trying every place of each document.")
@every("kind", KINDS)
def test_no_field_can_have_another_type(kind: str) -> None:
    """Whatever stands in a place of another type: refused in one line, or (a plausible number) read."""
    whole = document(kind)
    for place in places({part: whole[part] for part in ("calibration", "payload")}):
        right = held(whole, place)
        for wrong in WRONG:
            number = isinstance(right, int | float) and not isinstance(right, bool)
            left_out = wrong is None and place in OPTIONAL
            if (
                type(wrong) is type(right)
                or left_out
                or (number and isinstance(wrong, int | float) and wrong is not True)
            ):
                continue
            refused(changed(whole, place, wrong))


@every("kind", KINDS)
@every("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_no_number_can_be_infinite_or_none(kind: str, text: str) -> None:
    whole = document(kind)
    for place in places({part: whole[part] for part in ("calibration", "payload", "prior")}):
        right = held(whole, place)
        if isinstance(right, int | float) and not isinstance(right, bool):
            refused(json.dumps(changed(whole, place, "HERE")).replace('"HERE"', text))


@every("kind", KINDS)
def test_tables_must_have_the_shape_of_their_family(kind: str) -> None:
    whole = document(kind)
    for place in places(whole["payload"], ("payload",)):
        right = held(whole, place)
        if isinstance(right, list) and right and not isinstance(right[0], str | dict):
            for wrong in (right[:-1], [*right, right[0]], []):
                refused(changed(whole, place, wrong))


@every("kind", KINDS)
@every("other", KINDS)
def test_calibrations_and_payloads_cannot_be_swapped(kind: str, other: str) -> None:
    """Even of one type: noise of other scales, draws of another temper."""
    if kind == other:
        return
    one, two = document(kind), document(other)
    for part in ("calibration", "payload"):
        made = changed(one, (part,), two[part])
        made["guarantee"] = {**made["guarantee"], "delta": "0.000001"}
        if one[part] != two[part]:
            refused(made)
    swapped = copy.deepcopy(one)
    swapped["payload"]["kind"] = two["payload"]["kind"]
    if swapped != one:
        refused(swapped)


@every("kind", KINDS)
def test_a_calibration_cannot_spend_more_than_the_guarantee(kind: str) -> None:
    whole = document(kind)
    assert "more epsilon than the guarantee" in refused(changed(whole, ("guarantee", "epsilon"), "0.01"))
    for field in ("reported", "first_epsilon", "second_epsilon"):
        if field in whole["calibration"]:
            assert "more epsilon than the guarantee" in refused(
                changed(whole, ("calibration", field), "2." + 20 * "0" + "1")
            )


def test_a_plan_costs_what_its_tables_cost_together_and_a_star_once() -> None:
    third = Fraction(1, 3)
    budgets = {("a", "b"): third, ("a", "c"): third, ("d",): third}
    scales, expected = dict.fromkeys(budgets, 3.0), {"a": 1.0}
    alone = dc.kinds.PlannedNoise("discrete_laplace", 1, budgets, scales, Fraction(1, 2), expected)
    assert alone.total == 1
    starred = replace(alone, stars={("a", "b"): 0, ("a", "c"): 0})
    assert starred.total == 2 * third
    assert replace(alone, reported=Fraction(5, 4)).total == Fraction(5, 4)


@every(
    ("kind", "place", "value"),
    [
        ("planned", ("payload", "noise"), "discrete_gaussian"),
        ("planned", ("calibration", "noise"), "discrete_gaussian"),
        ("planned", ("calibration", "tables", 0, "scale"), 1.5),
        ("planned", ("calibration", "tables", 0, "budget"), "2.1"),
        ("planned", ("calibration", "tables", 0, "variables"), ["a", "b"]),
        ("planned", ("calibration", "expected"), {"a": 1.0}),
        ("planned", ("calibration", "expected", "a"), 0.0),
        ("planned", ("payload", "tables", 0, "scale"), 1.5),
        ("planned", ("payload", "tables", 0, "variables"), ["b", "a", "c", "d"]),
        ("planned", ("payload", "tables", 0, "variables"), ["a", "b", "c", "x"]),
        ("planned", ("payload", "tables"), []),
        ("planned, numbers", ("payload", "offsets"), [1]),
        ("planned, numbers", ("payload", "moments"), [1, 2]),
        ("planned, numbers", ("payload", "offsets", 0), 2**63),
        ("planned, numbers", ("payload", "moments", 0), 0.5),
        ("planned, numbers", ("payload", "rulers", 0, "leaves"), 3),
        ("planned, numbers", ("payload", "rulers", 0, "leaves"), 1),
        ("planned, numbers", ("payload", "rulers", 0, "leaves"), 128),
        ("planned, numbers", ("payload", "rulers", 0, "leaves"), 2**70),
        ("planned, numbers", ("payload", "rulers", 0, "leaves"), -2),
        ("planned, numbers", ("payload", "rulers", 0, "number"), "a"),
        ("planned, numbers", ("payload", "rulers", 0, "number"), "n"),
        ("planned, numbers", ("payload", "rulers", 0, "number"), "x" * 10**5),
        ("planned, numbers", ("payload", "rulers", 0, "counts"), [1, 2, 3]),
        ("planned, numbers", ("payload", "rulers", 0, "counts", 0), 10**30),
        ("planned, numbers", ("payload", "rows_by_family", 0, "number"), "n"),
        ("planned, numbers", ("payload", "rows_by_family", 0, "given"), ["n"]),
        ("planned, numbers", ("payload", "rows_by_family", 0, "given"), ["elsewhere"]),
        ("planned, numbers", ("payload", "rows_by_family", 0, "given"), []),
        ("planned, numbers", ("payload", "rows_by_family", 0, "sums"), [1, 2, 3]),
        ("planned, numbers", ("payload", "rows_by_family"), []),
        ("planned, numbers", ("payload", "first"), None),
        ("planned, numbers", ("calibration", "row_scale"), None),
        ("planned, numbers", ("calibration", "leaf_scale"), 2.0**63),
        ("planned, numbers", ("calibration", "offset_scale"), 0.0),
        ("planned, numbers", ("calibration", "moment_scale"), -1.0),
        ("planned, numbers", ("calibration", "reported"), "0"),
        ("planned, numbers", ("calibration", "reported"), "1.6"),
        ("planned, numbers", ("calibration", "rho"), "0"),
        ("planned, numbers and delta", ("calibration", "rho"), "-0.1"),
        ("planned, numbers and delta", ("calibration", "rho"), None),
        ("planned, numbers and delta", ("payload", "noise"), "discrete_laplace"),
        ("planned, numbers and delta", ("calibration", "reported"), "-0.1"),
        ("laplace", ("payload", "scales", "c"), 1.5),
        ("laplace", ("payload", "noise"), "discrete_gaussian"),
        ("gaussian", ("payload", "noise"), "discrete_laplace"),
        ("gaussian", ("calibration", "scale"), 1.0),
        ("laplace", ("payload", "tables", "c", 0), 2**63),
        ("laplace", ("payload", "tables", "x"), [1]),
        ("fourier", ("payload", "scale"), 1.0),
        ("fourier", ("payload", "shift"), 7),
        ("fourier", ("payload", "noisy_total"), False),
        ("fourier", ("payload", "components", 1, "variables"), ["b"]),
        ("fourier", ("payload", "components", 1, "variables"), ["x"]),
        ("fourier", ("payload", "components", 1, "variables"), ["a", "a"]),
        ("allocated", ("payload", "sampling"), "0.5"),
        ("allocated", ("payload", "sampling"), "0"),
        ("allocated", ("payload", "sampling"), "2"),
        ("allocated", ("payload", "sampling"), "1/0"),
        ("allocated", ("payload", "first", "scales", "c"), 1.0),
        ("allocated", ("payload", "second", "scales", "c"), -1.0),
        ("allocated", ("calibration", "sampling"), "1e-3"),
        ("sampler", ("payload", "draws"), 3),
        ("sampler", ("payload", "draws"), 2**62),
        ("sampler", ("payload", "temper"), 0.01),
        ("sampler", ("payload", "floors", "a"), 0.2),
        ("sampler", ("payload", "floors"), {}),
        ("sampler", ("payload", "tables", "a", 0), 0.999),
        ("sampler", ("payload", "tables", "a", 0), 1.5),
        ("sampler", ("calibration", "resolution", "a"), 0),
        ("sampler", ("calibration", "resolution"), {"a": 4096}),
        ("sampler", ("payload", "total"), None),
        ("sampler", ("payload", "total", "scale"), 1.0),
        ("sampler", ("calibration", "total_scale"), None),
        ("sampler", ("calibration", "total_scale"), 1.0),
        ("sampler, delta", ("payload", "total"), None),
        ("sampler, delta", ("calibration", "total_scale"), 1.0),
        ("map", ("payload", "total"), None),
        ("sampler, delta", ("payload", "floors", "a"), 0.2),
        ("sampler, delta", ("calibration", "digits"), 0),
        ("choice", ("payload", "index"), 3),
        ("choice", ("payload", "index"), -1),
        ("choice", ("payload", "candidates", 0, "a", 0), 1.5),
        ("choice", ("payload", "candidates"), []),
    ],
)
def test_parts_that_contradict_each_other_are_refused(kind: str, place: Place, value: Any) -> None:
    refused(changed(document(kind), place, value))


@every("kind", ["sampler", "sampler, delta", "map", "choice"])
def test_draws_that_tell_no_number_are_those_of_the_first_releases(kind: str) -> None:
    """They are valid, and stay as they are; a number beside a public one is not."""
    whole = document(kind)
    del whole["payload"]["total"], whole["calibration"]["total_scale"]
    read = dc.Release.loads(json.dumps(whole))
    assert read.records is read.payload.total is read.calibration.total_scale is None  # type: ignore[union-attr]
    assert json.loads(read.dumps()) == whole
    public = changed(document(kind), ("guarantee", "relation"), "replace")
    public["records"]["count"] = 5
    assert "either public, or measured" in refused(public)


def test_a_candidate_whose_rows_are_no_probabilities_is_refused() -> None:
    refused(changed(document("choice"), ("payload", "candidates", 0, "a", 0), 0.9999))


def test_a_contrast_that_is_there_twice_is_refused() -> None:
    whole = document("fourier")
    whole["payload"]["components"].append(whole["payload"]["components"][0])
    assert "twice" in refused(whole)


def test_a_ruler_that_is_there_twice_is_refused() -> None:
    whole = document("planned, numbers")
    assert [ruler["number"] for ruler in whole["payload"]["rulers"]] == ["x", "n"]
    for rulers in ([0, 0], [1, 0], [0, 1, 1]):
        made = changed(whole, ("payload", "rulers"), [whole["payload"]["rulers"][at] for at in rulers])
        assert "rulers are of numeric columns, each once" in refused(made)
    for rulers in ([], [0], [1]):  # fewer are what fewer records have, and other sums had less noise then
        made = changed(whole, ("payload", "rulers"), [whole["payload"]["rulers"][at] for at in rulers])
        assert "not what the calibration describes" in refused(made)


def test_sums_of_another_network_are_refused() -> None:
    """Of the same columns with other arcs, other bins, and of no numbers."""
    whole = document("planned, numbers")
    for node, parents in (("x", []), ("n", ["a"]), ("n", [])):
        variables = whole["network"]["variables"]
        at = next(at for at, variable in enumerate(variables) if variable["name"] == node)
        if "parents" in variables[at]:
            refused(changed(whole, ("network", "variables", at, "parents"), parents))
        else:
            refused(changed(whole, ("network", "parents", node), parents))


@every("part", ["calibration", "payload"])
def test_a_table_that_is_there_twice_is_refused(part: str) -> None:
    whole = document("planned, workload")
    assert len(whole[part]["tables"]) > 1
    whole[part]["tables"].append(whole[part]["tables"][0])
    assert re.search("twice|once", refused(whole))


@every("kind", KINDS)
def test_unknown_fields_are_refused(kind: str) -> None:
    whole = document(kind)
    for place in [(), ("calibration",), ("payload",), ("guarantee",)]:
        refused(changed(whole, (*place, "extra"), 1))


@every("kind", KINDS)
def test_half_a_document_is_refused(kind: str) -> None:
    text = release(kind).dumps()
    for end in range(0, len(text) - 3, max(1, len(text) // 40)):
        refused(text[:end])


def test_a_field_that_documents_would_leave_out_is_refused() -> None:
    with pytest.raises(TypeError, match="leave out a field"):
        kind("short", order=("index",))(dc.research.Choice)
