"""A damaged release is refused in one line that says where, whatever the damage, and never read as something else."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import discreet as dc
from discreet.releases.release import release_schema
from folding import every
from published import committed
from registry import VARIANTS
from tiny import TINY, counts_of

Damage = Callable[[dict[str, Any]], str]


def put(place: str, value: object) -> Damage:
    """The document with another value at a place such as "payload.tables.asia"."""

    def damaged(document: dict[str, Any]) -> str:
        *outer, last = place.split(".")
        document = copy.deepcopy(document)
        part: Any = document
        for name in outer:
            part = part[int(name) if isinstance(part, list) else name]
        part[int(last) if isinstance(part, list) else last] = value
        return json.dumps(document)

    return damaged


def without(place: str) -> Damage:
    """The document without a field."""

    def damaged(document: dict[str, Any]) -> str:
        *outer, last = place.split(".")
        document = copy.deepcopy(document)
        part: Any = document
        for name in outer:
            part = part[int(name) if isinstance(part, list) else name]
        del part[int(last) if isinstance(part, list) else last]
        return json.dumps(document)

    return damaged


def large(parents: int) -> Damage:
    """A small document with a family whose table no machine holds."""

    def damaged(document: dict[str, Any]) -> str:
        names = [f"v{number}" for number in range(parents + 1)]
        document = copy.deepcopy(document)
        document["network"]["variables"] = [{"name": name, "states": ["n", "y"]} for name in names]
        document["network"]["parents"] = {name: [] for name in names} | {names[-1]: names[:-1]}
        document["prior"] = dict.fromkeys(names, 0.25)
        document["calibration"]["epsilons"] = dict.fromkeys(names, "0.01")
        document["calibration"]["scales"] = document["payload"]["scales"] = dict.fromkeys(names, 200.0)
        document["payload"]["tables"] = {name: [1, 0] for name in names}
        return json.dumps(document)

    return damaged


def text(edit: Callable[[str], str]) -> Damage:
    """The document, edited as text."""
    return lambda document: edit(json.dumps(document))


DAMAGE: dict[str, tuple[Damage, str]] = {
    # not JSON, or JSON of something else
    "empty": (text(lambda _: ""), "line 1 column 1"),
    "cut in the middle": (text(lambda whole: whole[: len(whole) // 2]), r"line 1 column \d+"),
    "cut at the end": (text(lambda whole: whole[:-1]), r"line 1 column \d+"),
    "two documents": (text(lambda whole: whole + whole), r"Extra data.*column \d+"),
    "binary": (text(lambda _: "\0\x01\x7f" * 50), "line 1 column 1"),
    "byte order mark": (text(lambda whole: "\ufeff" + whole), "BOM"),
    "deep list": (text(lambda _: "[" * 100_000), "inside each other"),
    "deep object": (text(lambda _: '{"a":' * 100_000), "inside each other"),
    "NaN": (put("payload.scales.asia", float("nan")), "NaN is not a JSON number"),
    "infinity": (put("prior.asia", float("inf")), "Infinity is not a JSON number"),
    "5000 digits": (text(lambda whole: whole.replace('"count": 500', '"count": ' + "9" * 5000)), "5000 digits"),
    "a list": (text(lambda whole: f"[{whole}]"), "'format'"),
    "null": (text(lambda _: "null"), "'format'"),
    # another format or version
    "another format": (put("format", "pgmpy"), "'format' must be 'discreet-release'"),
    "version 2": (put("version", 2), "version 2; this package reads version 1"),
    "no version": (without("version"), "version None"),
    "version as text": (put("version", "1"), "version '1'"),
    "version with a line break": (put("version", "1\n2"), "version"),
    "version true": (put("version", True), "version"),
    # fields
    "extra field": (put("seed", 7), "'seed'"),
    "extra field inside": (put("payload.clipped", True), "'payload.clipped'"),
    "extra field with a line break": (put("a\nb", 7), "a.+b"),
    "missing date": (without("date"), "'date'"),
    "missing scale": (without("payload.scales.asia"), "scale for every table"),
    "no tables": (put("payload.tables", None), "'payload.tables'"),
    "id": (put("id", "7"), "'id'"),
    "date with a time": (put("date", "2026-01-01T10:11:12"), "'date'"),
    "date at midnight": (put("date", "2026-01-01T00:00:00"), "'date'"),
    "date as a Unix time": (put("date", 1704067200), "'date'"),
    "date as the text of a Unix time": (put("date", "1704067200"), "'date'"),
    "private as a number": (put("private", 1), "'private'"),
    "unknown payload": (put("payload.kind", "draws"), "'payload.kind'"),
    "policy": (put("records.missing", "ignore"), "'records.missing'"),
    "lone surrogate": (put("mechanism", "\ud800"), "'mechanism'"),
    # guarantee and noise
    "epsilon as a float": (put("guarantee.epsilon", 0.7), "'guarantee.epsilon'"),
    "epsilon 0": (put("guarantee.epsilon", "0"), "epsilon"),
    "epsilon 1/0": (put("guarantee.epsilon", "1/0"), "epsilon"),
    "negative epsilon": (put("calibration.epsilons.asia", "-1"), "'calibration.epsilons.asia'"),
    "delta 1": (put("guarantee.delta", "1"), "delta"),
    "relation": (put("guarantee.relation", "bounded"), "'guarantee.relation'"),
    "no unit": (put("guarantee.unit", " "), "unit"),
    "negative scale": (put("payload.scales.asia", -1.0), "'payload.scales.asia'"),
    "scale 0": (put("calibration.scales.asia", 0), "'calibration.scales.asia'"),
    "scale beyond floats": (
        text(lambda whole: re.sub(r'("scales": {"asia": )[0-9.]+', r"\g<1>1e999", whole)), "scales.asia",
    ),
    "scale as text": (put("payload.scales.asia", "2.0"), "'payload.scales.asia'"),
    "scale true": (put("payload.scales.asia", True), "'payload.scales.asia'"),
    "prior as text": (put("prior.asia", "0.25"), r"prior\.asia"),
    "prior true": (put("prior.asia", True), r"prior\.asia"),
    "negative prior": (put("prior.asia", [-1, 1]), r"prior\.asia"),
    "short prior": (put("prior.asia", [1]), "'asia'"),
    # tables
    "short table": (put("payload.tables.asia", [1]), "'asia' has 1 cells"),
    "long table": (put("payload.tables.tub", [1] * 5), "'tub' has 5 cells"),
    "missing table": (without("payload.tables.asia"), "'asia'"),
    "table of nobody": (put("payload.tables.x", [1, 2]), "'x'"),
    "float counts": (put("payload.tables.asia", [1.5, 2]), r"'payload\.tables\.asia\.0'"),
    "whole float counts": (put("payload.tables.asia", [1, 2.0]), r"'payload\.tables\.asia\.1'"),
    "text for a count": (put("payload.tables.asia", ["1", 2]), r"'payload\.tables\.asia\.0'"),
    "true for a count": (put("payload.tables.asia", [1, True]), r"'payload\.tables\.asia\.1'"),
    "2^63": (put("payload.tables.asia", [2**63, 0]), r"'payload\.tables\.asia\.0'"),
    "-2^63-1": (put("payload.tables.asia", [0, -(2**63) - 1]), r"'payload\.tables\.asia\.1'"),
    "nested counts": (put("payload.tables.asia", [[1], [2]]), r"'payload\.tables\.asia\.0'"),
    # network
    "cycle": (put("network.parents.asia", ["dysp"]), r"cycle: .*asia -> "),
    "its own parent": (put("network.parents.asia", ["asia"]), "'asia'"),
    "unknown parent": (put("network.parents.asia", ["x"]), "'x'"),
    "a state twice": (put("network.variables.0.states", ["y", "y"]), "'y' is declared twice"),
    "a variable without states": (put("network.variables.0.states", []), "declare its states"),
    "a table of 2^41 cells": (large(40), "'v40'"),
    "a table of 81 axes": (large(80), "'v80'"),
}  # fmt: skip


def assert_refused(text: str, where: str) -> None:
    with pytest.raises(dc.InputError, match=where) as caught:
        dc.Release.loads(text)
    assert "\n" not in str(caught.value)


@every("name", DAMAGE)
def test_damage_is_refused_in_one_line_that_says_where(name: str) -> None:
    damage, where = DAMAGE[name]
    assert_refused(damage(json.loads(committed(dc.Relation.REPLACE))), where)


@every(
    ("relation", "place", "value"),
    [
        (dc.Relation.ADD_REMOVE, "records.count", 500),
        (dc.Relation.ADD_REMOVE, "guarantee.relation", "replace"),
        (dc.Relation.REPLACE, "guarantee.relation", "add-remove"),
        (dc.Relation.REPLACE, "records.count", None),
        (dc.Relation.REPLACE, "records.count", -1),
        (dc.Relation.REPLACE, "records.count", 500.0),
    ],
)
def test_the_number_of_records_stands_where_it_is_public(relation: dc.Relation, place: str, value: object) -> None:
    assert_refused(put(place, value)(json.loads(committed(relation))), "number of records|records.count")


@every(
    ("place", "value", "where"),
    [
        ("payload.scales.asia", 1.0, "scale"),  # inference would believe this one, not the calibration's
        ("calibration.reported", "50", "guarantee"),
        ("calibration.epsilons.asia", "50", "guarantee"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(place: str, value: object, where: str) -> None:
    assert_refused(put(place, value)(json.loads(committed(dc.Relation.ADD_REMOVE))), where)


def places(part: Any, outer: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every place in a document; of lists, the first and the last."""
    if outer:
        yield outer
    if isinstance(part, dict):
        inner = list(part.items())
    else:
        inner = [(str(at), part[at]) for at in sorted({0, len(part) - 1})] if isinstance(part, list) and part else []
    for name, value in inner:
        yield from places(value, (*outer, name))


@pytest.mark.costly("Each field of each kind of document is damaged in each way.")
@every("name", VARIANTS)
def test_no_damage_to_any_kind_of_release_is_anything_but_refused_in_place(name: str) -> None:
    """Every place of a document of every kind, with every odd value, and without it: refused, or read as a release."""
    network, variant = TINY["two and three states"], VARIANTS[name]
    counts, prior = counts_of(network, [(0, 2), (1, 1), (1, 0)]), dc.Dirichlet.uniform(network)
    made = dc.simulate(variant.make(network), counts, prior, variant.promise(), rng=np.random.default_rng(8))
    whole = made.dumps()
    document, refused = json.loads(whole), 0
    for place in places(document):
        odd = [put(".".join(place), value) for value in (None, True, -1, 0.5, 2**64, "a", [], {}, [[1]], {"a": 1})]
        for damaged in (*odd, without(".".join(place))):
            try:
                assert dc.Release.loads(damaged(document)).dumps()
            except dc.InputError as error:
                refused += 1
                message = str(error)
                assert "\n" not in message
                stated = re.search(r"damaged at '([^']*)'", message)
                if stated:
                    steps = stated[1].split(".")
                    # A calibration of no kind is read as that of the first releases, and misses the fields of that.
                    where = place[:1] if place == ("calibration", "kind") else place
                    assert all(one == other for one, other in zip(steps, where, strict=False)), (place, message)
    assert refused > 200


def test_a_field_that_is_there_twice_is_refused() -> None:
    """Readers differ in which one they take, so two readers could see two releases."""
    twice = committed(dc.Relation.REPLACE).replace('"private": false', '"private": true, "private": false')
    assert_refused(twice, "private")


@every("name", ["extra field", "missing date", "version 2", "negative scale", "text for a count", "no tables", "cycle"])
def test_the_schema_finds_what_a_schema_can(name: str) -> None:
    validator = jsonschema.Draft202012Validator(json.loads(release_schema()))
    document = json.loads(DAMAGE[name][0](json.loads(committed(dc.Relation.REPLACE))))
    assert validator.is_valid(document) == (name == "cycle")  # graphs are beyond it


@pytest.mark.parametrize("load", [dc.load, dc.Release.load, dc.external.External.load])
def test_a_file_that_is_no_document_is_named(load: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{")
    with pytest.raises(dc.InputError, match=r"'.*mine\.json' is not JSON: .*line 1 column 2"):
        load(tmp_path / "mine.json")
