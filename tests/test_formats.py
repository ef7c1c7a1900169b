"""Release files: every one ever published still loads, and what is written is read back as it was."""

from __future__ import annotations

import json
import re
import socket
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.privacy import release as release_module
from discreet.privacy.release import Calibration, NoisyCounts, RecordsPolicy, release_schema
from networks import asia
from published import DATA, committed, example
from strategies import networks, priors_over
from tiny import STRICT

RELATIONS = tuple(dc.Relation)


# ------------------------------------------------------------------------------------------------- what was published


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_published_file_loads_and_is_written_back_byte_for_byte(relation: dc.Relation, tmp_path: Path) -> None:
    path = DATA / f"release-v1-{relation}.json"
    release = dc.Release.load(path)
    assert (release.guarantee.epsilon, release.guarantee.relation) == (Fraction(7, 10), relation)
    assert release.records == (500 if relation is dc.Relation.REPLACE else None)
    assert release.network == asia().network
    assert release.private is False
    assert sum(table.size for table in release.payload.tables.values()) == 36
    release.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_made_today_has_the_fields_of_the_published_one(relation: dc.Relation) -> None:
    assert fields(json.loads(example(relation).dumps())) == fields(json.loads(committed(relation)))


def fields(document: Any) -> Any:
    """The names in a document, without what they hold."""
    if isinstance(document, dict):
        return {name: fields(part) for name, part in document.items()}
    return sorted({json.dumps(fields(part)) for part in document}) if isinstance(document, list) else None


def test_the_document_holds_no_seed_path_person_or_time() -> None:
    for relation in RELATIONS:
        text = example(relation).dumps()
        document = json.loads(text)
        assert list(document) == [
            "format", "version", "id", "date", "private", "guarantee", "mechanism", "records", "network", "prior",
            "calibration", "payload",
        ]  # fmt: skip
        assert ("count" in document["records"]) == (relation is dc.Relation.REPLACE)
        assert date.fromisoformat(document["date"])
        assert not re.search(r"\d\d:\d\d|seed|path|host|user", text)
        assert not re.search(r"\b1[5-9]\d{8}\b", text)  # a Unix time in seconds
        for private in (str(Path.cwd()), str(Path.home()), socket.gethostname()):
            assert private not in text


def test_the_schema_in_the_package_is_the_one_of_the_code() -> None:
    assert Path(release_module.__file__).with_name("release.schema.json").read_text("utf-8") == release_schema()


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_schema_accepts_releases(relation: dc.Relation) -> None:
    schema = json.loads(release_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in (committed(relation), example(relation).dumps()):
        validator.validate(json.loads(text))


# --------------------------------------------------------------------------------------------------------- round trip


@st.composite
def releases(draw: st.DrawFn) -> dc.Release:
    """Releases over any network, with any counts an int64 holds, any prior and any scales."""
    network = draw(networks(max_nodes=3))
    relation = draw(st.sampled_from(RELATIONS))
    integers = st.integers(-(2**63), 2**63 - 1)
    tables = {
        node: np.array(draw(st.lists(integers, min_size=size, max_size=size)), np.int64).reshape(network.shape(node))
        for node in network.nodes
        for size in [network.cells(network.family(node))]
    }
    scales = {node: draw(st.floats(1e-3, 1e15)) for node in network.nodes}
    epsilons = {node: draw(st.fractions(Fraction(1, 100), 1, max_denominator=100)) for node in network.nodes}
    total = sum(epsilons.values(), Fraction())
    return dc.Release(
        id=draw(st.binary(min_size=16, max_size=16)).hex(),
        date=draw(st.dates()),
        private=draw(st.booleans()),
        guarantee=dc.Guarantee(
            epsilon=total,
            delta=draw(st.fractions(0, Fraction(1, 2))),
            relation=relation,
            unit=draw(st.sampled_from("aé雪")),
        ),
        mechanism="laplace",
        policy=RecordsPolicy(draw(st.sampled_from(("error", "drop"))), draw(st.sampled_from(("error", "clip")))),
        records=draw(st.integers(0, 2**53)) if relation is dc.Relation.REPLACE else None,
        prior=draw(priors_over(network) | st.just(dc.Dirichlet.uniform(network))),
        calibration=Calibration(1, epsilons, scales, total),
        payload=NoisyCounts(dc.Tables(network, tables), scales),
    )


@given(releases())
def test_a_release_reads_back_as_itself(release: dc.Release) -> None:
    text = release.dumps()
    again = dc.Release.loads(text)
    assert again.dumps() == text
    for name in ("id", "date", "private", "guarantee", "mechanism", "policy", "records", "calibration", "network"):
        assert getattr(again, name) == getattr(release, name)
    assert again.payload.scales == release.payload.scales
    for node in release.network.nodes:
        assert np.array_equal(again.payload.tables[node], release.payload.tables[node])
        assert again.payload.tables[node].dtype == np.int64
        assert np.array_equal(again.prior.alpha[node], release.prior.alpha[node])
    jsonschema.validate(json.loads(text), json.loads(release_schema()))


def test_another_layout_of_the_same_json_is_read_too() -> None:
    text = committed(dc.Relation.REPLACE)
    assert dc.Release.loads(json.dumps(json.loads(text), sort_keys=True)).dumps() != ""
    assert dc.Release.loads(json.dumps(json.loads(text))).dumps() == text


# ---------------------------------------------------------------------------------------------------- files on a disk


def test_loading_says_which_file_and_why(tmp_path: Path) -> None:
    (tmp_path / "junk.json").write_bytes(bytes(range(256)))
    (tmp_path / "cut.json").write_text(committed(dc.Relation.REPLACE)[:300])
    reasons = {"none.json": "No such file", ".": "Is a directory", "junk.json": "not UTF-8", "cut.json": "line 1"}
    for name, why in reasons.items():
        with pytest.raises(dc.InputError, match=why) as caught:
            dc.Release.load(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_saving_replaces_a_file_whole(tmp_path: Path) -> None:
    target = tmp_path / "release.json"
    target.write_text("before")
    release = example(dc.Relation.REPLACE)
    release.save(target)
    assert target.read_text(encoding="utf-8") == release.dumps()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, release, write = tmp_path / "release.json", example(dc.Relation.REPLACE), Path.write_text
    target.write_text("before")

    def fail(path: Path, content: Any, **options: Any) -> None:
        if step == "write_text":
            write(path, content[:100], **options)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, fail)
    with pytest.raises(dc.InputError, match="No space left on device"):
        release.save(target)
    monkeypatch.undo()
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_place_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    release = example(dc.Relation.ADD_REMOVE)
    (tmp_path / "file").write_text("")
    for target in (tmp_path / "none" / "r.json", tmp_path, tmp_path / "file" / "r.json", tmp_path / ("x" * 300)):
        with pytest.raises(dc.InputError, match="cannot write release") as caught:
            release.save(target)
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ------------------------------------------------------------------------------------------------- parts, made by hand


def test_parts_of_a_release_refuse_what_they_cannot_mean() -> None:
    network = asia().network
    release = example(dc.Relation.REPLACE)
    tables, scales = release.payload.tables, dict(release.payload.scales)
    epsilons, total = dict(release.calibration.epsilons), release.calibration.reported
    for wrong in ({"asia": 1.0}, *({**scales, "asia": scale} for scale in (float("nan"), float("inf"), 0.0, -1.0))):
        with pytest.raises(dc.InputError, match="scale"):
            NoisyCounts(tables, wrong)
        with pytest.raises(dc.InputError, match="scale"):
            Calibration(1, epsilons, wrong, total)
    with pytest.raises(dc.InputError, match="64-bit integers"):
        NoisyCounts(tables.map(lambda table: table * 1.0), scales)
    for sensitivity, reported in ((0, total), (1, Fraction(0))):
        with pytest.raises(dc.InputError, match="greater than 0"):
            Calibration(sensitivity, epsilons, scales, reported)
    for words in (("ignore", "error"), ("error", "drop")):
        with pytest.raises(dc.InputError, match="'error' or"):
            RecordsPolicy(*words)
    assert RecordsPolicy("error", "error") == STRICT
    assert network == release.network
