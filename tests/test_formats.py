"""Release files: every one ever published still loads, and what is written is read back as it was."""

from __future__ import annotations

import json
import math
import os
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import discreet as dc
from design_releases import DESIGN_KINDS
from discreet.discovery.kinds.found_columns import DomainNoise, FoundDomain
from discreet.mechanisms import mechanisms_over
from discreet.noise.noise_laws import DiscreteGaussian, DiscreteLaplace
from discreet.releases import release as release_module
from discreet.releases.kinds.chosen_network import StructureNoise
from discreet.releases.kinds.noisy_counts import GaussianNoise, TableNoise
from discreet.releases.kinds.noisy_tables import PlannedNoise
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs, pairs_beyond
from discreet.releases.measurement import Calibration, Released
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release import release_schema
from discreet.research.kinds.candidate_choice import Selection
from discreet.research.kinds.noisy_contrasts import CoefficientNoise
from discreet.research.kinds.parameter_draws import Tempering, Trimming
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.kinds.two_stages import Stages
from discreet.research.scores.score_tables import SCORE_STEPS
from every_kind import CALIBRATIONS, PAYLOADS
from folding import every
from networks import asia
from published import DATA, committed, example
from registry import RELATIONS, arrays
from strategies import networks, priors_over, same, theta_over
from tiny import STRICT, counts_of, network_of

VALIDATOR = jsonschema.Draft202012Validator(json.loads(release_schema()))


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


@every("relation", RELATIONS)
def test_a_release_made_today_has_the_fields_of_the_published_one(relation: dc.Relation) -> None:
    assert fields(json.loads(example(relation).dumps())) == fields(json.loads(committed(relation)))


@every("relation", RELATIONS)
def test_a_release_of_fewer_tables_leaves_out_no_other_field(relation: dc.Relation) -> None:
    """By default the tables that are sums of others are not published; every other field is there, and no new one."""
    network = asia().network
    published = json.loads(committed(relation))
    counts = counts_of(network, [[0] * len(network.nodes)])
    asked = dc.Guarantee(epsilon=1, delta=0, relation=relation, unit="record")
    prior = dc.Release.loads(committed(relation)).prior
    made = dc.simulate(dc.laplace(), counts, prior, asked, rng=np.random.default_rng(1))
    for part, name in (
        ("calibration", "epsilons"),
        ("calibration", "scales"),
        ("payload", "scales"),
        ("payload", "tables"),
    ):
        published[part][name] = {node: published[part][name][node] for node in network.maximal_families}
    assert fields(json.loads(made.dumps())) == fields(published)


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
            "format",
            "version",
            "id",
            "date",
            "private",
            "guarantee",
            "mechanism",
            "records",
            "network",
            "prior",
            "calibration",
            "payload",
        ]
        assert ("count" in document["records"]) == (relation is dc.Relation.REPLACE)
        assert date.fromisoformat(document["date"])
        assert not re.search(r"\d\d:\d\d|seed|path|host|user", text)
        assert not re.search(r"\b1[5-9]\d{8}\b", text)  # a Unix time in seconds
        for private in (str(Path.cwd()), str(Path.home()), socket.gethostname()):
            assert private not in text


def test_the_schema_in_the_package_is_the_one_of_the_code() -> None:
    kept = Path(release_module.__file__).with_name("release.schema.json").read_text("utf-8")
    assert json.loads(kept) == json.loads(
        release_schema()
    )  # as numbers: pydantic 2.10 writes 0.0 where later ones write 0


@every("relation", RELATIONS)
def test_the_schema_accepts_releases(relation: dc.Relation) -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    for text in (committed(relation), example(relation).dumps()):
        VALIDATOR.validate(json.loads(text))


# --------------------------------------------------------------------------------------------------------- round trip


INT64 = st.integers(-(2**63), 2**63 - 1)
POSITIVE = st.floats(1e-3, 1e15)
BUDGET = st.fractions(Fraction(1, 100), 1, max_denominator=100)
Parts = tuple[Calibration, Released]


def integers(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Any counts that an int64 holds."""
    size = math.prod(shape)
    return np.array(draw(st.lists(INT64, min_size=size, max_size=size)), np.int64).reshape(shape)


def measured(draw: st.DrawFn, network: dc.Network) -> list[str]:
    """Nodes whose tables are published: those that must be, and some others."""
    others = [node for node in network.nodes if node not in network.maximal_families]
    return [*network.maximal_families, *draw(st.lists(st.sampled_from(others), unique=True) if others else st.just([]))]


def table_noise(draw: st.DrawFn, network: dc.Network) -> TableNoise:
    epsilons = {node: draw(BUDGET) for node in measured(draw, network)}
    scales = {node: draw(POSITIVE) for node in epsilons}
    return TableNoise(draw(st.integers(1, 2)), epsilons, scales, sum(epsilons.values(), Fraction()))


def counts_with(draw: st.DrawFn, network: dc.Network, noise: TableNoise) -> dc.kinds.NoisyCounts:
    return dc.kinds.NoisyCounts(
        network, {node: integers(draw, network.shape(node)) for node in noise.scales}, noise.scales
    )


@st.composite
def noisy_counts(draw: st.DrawFn, network: dc.Network) -> Parts:
    noise = table_noise(draw, network)
    return noise, counts_with(draw, network, noise)


@st.composite
def gaussian_counts(draw: st.DrawFn, network: dc.Network) -> Parts:
    noise = GaussianNoise(draw(st.integers(1, 50)), draw(POSITIVE), draw(BUDGET), draw(BUDGET))
    tables = {node: integers(draw, network.shape(node)) for node in measured(draw, network)}
    return noise, dc.kinds.NoisyCounts(network, tables, dict.fromkeys(tables, noise.scale), "discrete_gaussian")


@st.composite
def planned_tables(draw: st.DrawFn, network: dc.Network) -> Parts:
    def ordered(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(node for node in network.nodes if node in set(names))

    wanted = [network.family(node) for node in network.maximal_families]
    more = draw(st.lists(st.lists(st.sampled_from(network.nodes), unique=True), max_size=2))
    scopes = list(dict.fromkeys(map(ordered, [*wanted, *more])))
    budgets, scales = ({scope: draw(part) for scope in scopes} for part in (BUDGET, POSITIVE))
    expected = {node: draw(POSITIVE) for node in network.nodes}
    kind = draw(st.sampled_from(("discrete_laplace", "discrete_gaussian")))
    tables = {scope: integers(draw, tuple(network.schema[name].size for name in scope)) for scope in scopes}
    stars = dict[tuple[str, ...], int]()
    pairs = [pair for pair in combinations(scopes, 2) if set(pair[0]) & set(pair[1])]
    if kind == "discrete_laplace" and pairs and draw(st.booleans()):
        one, other = draw(st.sampled_from(pairs))
        stars = {scope: 1 for scope in scopes if scope in (one, other)}
        budgets[other], scales[other] = budgets[one], scales[one]
        tables |= {scope: np.zeros_like(tables[scope]) for scope in stars}  # tables that agree
    noise = PlannedNoise(kind, draw(st.integers(1, 2)), budgets, scales, draw(BUDGET), expected, stars)
    return noise, dc.kinds.NoisyTables(network, tables, scales, kind, stars)


@st.composite
def tables_with_pairs(draw: st.DrawFn, network: dc.Network) -> Parts:
    (plan, first), (alone, only) = draw(planned_tables(network)), draw(planned_tables(network))
    beyond = pairs_beyond(combinations(network.nodes, 2), first.tables)
    chosen = draw(st.lists(st.sampled_from(beyond), unique=True)) if beyond else []
    total = draw(st.none() | POSITIVE)
    able = draw(st.booleans())
    losses = (draw(BUDGET), draw(BUDGET), draw(BUDGET)) if able else (None, None, None)
    noise = NoiseWithPairs(
        plan=plan,
        alone=alone,
        records=None,
        total_scale=total,
        total_epsilon=None if total is None else draw(BUDGET),
        second=draw(BUDGET),
        selection=draw(BUDGET.filter(lambda share: share < 1)),
        sensitivity=draw(st.integers(1, 2)),
        delta=losses[0],
        rho=losses[1],
        rho_chosen=losses[2],
    )
    pairs = {pair: integers(draw, tuple(network.schema[name].size for name in pair)) for pair in chosen}
    number = draw(st.integers(0, len(pairs)))
    gaussian = bool(pairs) and able and draw(st.booleans())
    scale = None
    if pairs:
        spent = (
            noise.sensitivity
            * len(pairs)
            / float(noise.for_pairs(number, DiscreteGaussian if gaussian else DiscreteLaplace))
        )
        scale = math.sqrt(spent / 2) if gaussian else spent
    assume(scale is None or 0 < scale < 2**62)
    seen = None if total is None else draw(st.integers(-(2**53), 2**53))
    law = "discrete_gaussian" if gaussian else None
    return noise, dc.kinds.TablesWithPairs(network, first if pairs else only, pairs, scale, number, seen, law)


@st.composite
def staged_counts(draw: st.DrawFn, network: dc.Network) -> Parts:
    first = table_noise(draw, network)
    later = {node: draw(POSITIVE) for node in first.scales}
    stages = Stages(first, draw(BUDGET), draw(BUDGET), draw(BUDGET), draw(st.sampled_from(("kl", "structure"))))
    second = counts_with(draw, network, replace(first, scales=later))
    return stages, dc.research.TwoStageCounts(counts_with(draw, network, first), second, stages.sampling)


@st.composite
def noisy_coefficients(draw: st.DrawFn, network: dc.Network) -> Parts:
    sizes = {node: network.schema[node].size for node in network.nodes}
    components = {
        subset: integers(draw, tuple(sizes[name] - 1 for name in subset)) for subset in network.downward_closure
    }
    scale, shift, noisy = draw(POSITIVE), draw(st.integers(0, 2**53)), draw(st.booleans())
    calibration = CoefficientNoise(draw(st.integers(1, 50)), draw(st.booleans()), scale, shift, noisy, draw(BUDGET))
    return calibration, dc.research.NoisyCoefficients(network, components, scale, shift, noisy)


@st.composite
def parameter_draws(draw: st.DrawFn, network: dc.Network) -> Parts:
    draws, rng = draw(st.integers(1, 3)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cells, temper = dc.Dirichlet.uniform(network, 0.5).draw(draws, rng=rng), draw(POSITIVE)
    noisy = draw(st.none() | st.builds(dc.designs.NoisyTotal, st.integers(-(2**63), 2**63 - 1), POSITIVE))
    scale = None if noisy is None else noisy.scale
    if draw(st.booleans()):
        digits, budget = draw(st.integers(1, 9)), draw(BUDGET)
        return Tempering(temper, draws, digits, budget, scale), dc.research.ParameterDraws(cells, temper, {}, noisy)
    floors = {node: draw(st.floats(1e-300, 0.5)) for node in network.nodes}
    steps = {node: draw(st.integers(1, 2**40)) for node in network.nodes}
    budget = draw(BUDGET)
    return Trimming(floors, temper, draws, steps, budget, scale), dc.research.ParameterDraws(
        cells, temper, floors, noisy
    )


@st.composite
def choices(draw: st.DrawFn, network: dc.Network) -> Parts:
    candidates = tuple(draw(st.lists(theta_over(network), min_size=2, max_size=3)))
    noisy = draw(st.none() | st.builds(dc.designs.NoisyTotal, st.integers(-(2**63), 2**63 - 1), POSITIVE))
    scale = None if noisy is None else noisy.scale
    selection = Selection(draw(POSITIVE), draw(POSITIVE), draw(BUDGET), scale)
    return selection, dc.research.Choice(candidates, draw(st.integers(0, len(candidates) - 1)), noisy)


@st.composite
def scored_choices(draw: st.DrawFn, network: dc.Network) -> Parts:
    """Any table of scores of two to four candidates, with a law of records or none."""
    size, draws = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (math.prod(network.schema[name].size for name in network.nodes), size)
    law = np.log(rng.dirichlet(np.ones(shape[0]), size).T) if draw(st.booleans()) else None
    table = dc.research.ScoreTable(
        network,
        ("z",),
        rng.normal(size=(size, 1)),
        rng.normal(size=size),
        rng.integers(0, SCORE_STEPS + 1, shape),
        2.0,
        law,
    )
    noisy = draw(st.none() | st.builds(dc.designs.NoisyTotal, st.integers(-(2**63), 2**63 - 1), POSITIVE))
    rate, scale = draw(POSITIVE), None if noisy is None else noisy.scale
    calibration = ScoredNoise(rate, draw(st.integers(1, 2**21)), draws, scale, draw(BUDGET))
    return calibration, dc.research.ScoredChoice(table, rng.integers(0, size, draws), rate, noisy)


@st.composite
def chosen_networks(draw: st.DrawFn, network: dc.Network) -> Parts:
    """Any network as what was chosen; the limits of the calibration fit it."""
    cells = max(network.cells(network.family(node)) for node in network.nodes)
    most = max(1, *(len(parents) for parents in network.parents.values()))
    rounds, sensitivity, scale = draw(st.integers(1, 9)), draw(st.integers(2, 3)), draw(POSITIVE)
    cost = 2 * sensitivity * rounds / Fraction(scale)
    arcs = draw(st.lists(st.sampled_from(network.arcs), unique=True)) if network.arcs else []
    rules = (draw(st.sampled_from(((), network.order[:1]))), tuple(arcs), tuple((b, a) for a, b in network.arcs))
    noise = StructureNoise(most, cells, *rules, rounds, sensitivity, scale, cost)
    return noise, dc.kinds.ChosenNetwork(dc.Network.empty(network.variables), network.parents)


KINDS: dict[str, tuple[Callable[[dc.Network], st.SearchStrategy[Parts]], tuple[type, ...], type]] = {
    "noisy counts": (noisy_counts, (TableNoise,), dc.kinds.NoisyCounts),
    "gaussian counts": (gaussian_counts, (GaussianNoise,), dc.kinds.NoisyCounts),
    "planned tables": (planned_tables, (PlannedNoise,), dc.kinds.NoisyTables),
    "tables with pairs": (tables_with_pairs, (NoiseWithPairs,), dc.kinds.TablesWithPairs),
    "two stages": (staged_counts, (Stages,), dc.research.TwoStageCounts),
    "coefficients": (noisy_coefficients, (CoefficientNoise,), dc.research.NoisyCoefficients),
    "draws": (parameter_draws, (Trimming, Tempering), dc.research.ParameterDraws),
    "choice": (choices, (Selection,), dc.research.Choice),
    "scored choice": (scored_choices, (ScoredNoise,), dc.research.ScoredChoice),
    "chosen network": (chosen_networks, (StructureNoise,), dc.kinds.ChosenNetwork),
}
"""Parts that belong together, and their types."""


@st.composite
def releases(draw: st.DrawFn, kind: str) -> dc.Release:
    """Releases over any network, with any numbers that the payload's types hold, any prior and any noise."""
    network = draw(networks(max_nodes=3))
    relation = draw(st.sampled_from(RELATIONS))
    calibration, payload = draw(KINDS[kind][0](network))
    if isinstance(payload, dc.research.ScoredChoice):  # its number of records is public, or told with noise
        relation = dc.Relation.REPLACE if payload.total is None else dc.Relation.ADD_REMOVE
    if isinstance(payload, dc.research.Choice | dc.research.ParameterDraws) and payload.total is not None:
        relation = dc.Relation.ADD_REMOVE
    network = payload.network
    return dc.Release(
        id=draw(st.binary(min_size=16, max_size=16)).hex(),
        date=draw(st.dates()),
        private=draw(st.booleans()),
        guarantee=dc.Guarantee(
            epsilon=calibration.total,
            delta=draw(st.fractions(0, Fraction(1, 2))),
            relation=relation,
            unit=draw(st.sampled_from("aé雪")),
        ),
        mechanism=draw(st.sampled_from(sorted(mechanisms_over("network")))),
        policy=RecordsPolicy(draw(st.sampled_from(("error", "drop"))), draw(st.sampled_from(("error", "clip")))),
        records=draw(st.integers(0, 2**53)) if relation is dc.Relation.REPLACE else None,
        prior=draw(priors_over(network) | st.just(dc.Dirichlet.uniform(network))),
        calibration=calibration,
        payload=payload,
    )


def public(payload: Released) -> dict[str, object]:
    """What a payload says of its noise, and nothing of the records."""
    match payload:
        case dc.kinds.NoisyCounts() | dc.kinds.NoisyTables():
            return {"scales": dict(payload.scales), "noise": payload.noise}
        case dc.kinds.TablesWithPairs():
            said = {"scale": payload.scale, "chosen": payload.chosen, "total": payload.total}
            return {"first": public(payload.first), "pairs": list(payload.pairs), **said}
        case dc.research.TwoStageCounts():
            return {"sampling": payload.sampling, "first": public(payload.first), "second": public(payload.second)}
        case dc.research.NoisyCoefficients():
            return {"scale": payload.scale, "shift": payload.shift, "noisy": payload.noisy_total}
        case dc.research.ParameterDraws():
            return {"temper": payload.temper, "floors": dict(payload.floors), "total": payload.total}
        case dc.research.Choice():
            tables = [{node: t.tolist() for node, t in tables.items()} for tables in payload.candidates]
            return {"candidates": tables, "total": payload.total}
        case dc.research.ScoredChoice():
            return {"steps": payload.table_of_scores.steps.tolist(), "rate": payload.rate, "total": payload.total}
        case dc.kinds.ChosenNetwork():
            return {"parents": dict(payload.parents)}


@pytest.mark.costly("Odd values of each field of each kind of release come up in generated documents only.")
@every("kind", KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_release_reads_back_as_itself(kind: str, data: st.DataObject) -> None:
    release = data.draw(releases(kind))
    assert (type(release.calibration) in KINDS[kind][1], type(release.payload)) == (True, KINDS[kind][2])
    text = release.dumps()
    again = dc.Release.loads(text)
    assert again.dumps() == text
    for name in ("id", "date", "private", "guarantee", "mechanism", "policy", "records", "calibration", "network"):
        assert getattr(again, name) == getattr(release, name)
    assert public(again.payload) == public(release.payload)
    assert same(arrays(again.payload), arrays(release.payload))
    for node in release.network.nodes:
        assert np.array_equal(again.prior.alpha[node], release.prior.alpha[node])
    VALIDATOR.validate(json.loads(text))


def test_the_kinds_are_all_there_are() -> None:
    """Those over a network are here, those over a design in `design_releases.py` and `test_design_documents.py`.

    Those of numbers and of found bins need numeric columns, and are in `test_documents.py`; found domains are in
    `test_found_domain.py`.
    """
    payloads = {payload for _, _, payload in [*KINDS.values(), *DESIGN_KINDS.values()]}
    assert payloads | {dc.kinds.NumberTables, dc.kinds.FoundBins, FoundDomain} == set(PAYLOADS)
    found = {calibration for _, both, _ in KINDS.values() for calibration in both}
    found |= {dc.kinds.NumberNoise, dc.kinds.FoundBinsNoise, DomainNoise}
    assert found | {calibration for _, calibration, _ in DESIGN_KINDS.values()} == set(CALIBRATIONS)


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
    with pytest.raises(FileExistsError, match="replace=True"):
        release.save(target)
    assert target.read_text() == "before"
    release.save(target, replace=True)
    assert target.read_text(encoding="utf-8") == release.dumps()
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("step", ["write", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, release = tmp_path / "release.json", example(dc.Relation.REPLACE)
    target.write_text("before")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    where, what = {"write": (os, "fchmod"), "replace": (Path, "replace")}[step]
    monkeypatch.setattr(where, what, fail)
    with pytest.raises(dc.InputError, match="No space left on device"):
        release.save(target, replace=True)
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

NETWORK = network_of({"a": 2, "b": 3}, "a>b")
TABLE = np.zeros((2, 3), np.int64)
CONTRASTS = {(): np.zeros((), np.int64), ("a",): np.zeros(1, np.int64), ("b",): np.zeros(2, np.int64)} | {
    ("a", "b"): np.zeros((1, 2), np.int64)
}
DRAWN = dc.Tables(NETWORK, {"a": np.full((2, 1), 0.5), "b": np.full((2, 3, 1), 1 / 3)}, draws=1)
THETA = dc.Tables(NETWORK, {"a": np.full(2, 0.5), "b": np.full((2, 3), 1 / 3)})
ONE = Fraction(1)
TABLES = TableNoise(1, {"b": ONE}, {"b": 1.0}, ONE)
COUNTS = dc.kinds.NoisyCounts(NETWORK, {"b": TABLE}, {"b": 1.0})
BOTH = dc.kinds.NoisyCounts(NETWORK, {"a": np.zeros(2, np.int64), "b": TABLE}, {"a": 1.0, "b": 1.0})
AB = ("a", "b")
PLAN = partial(
    replace,
    PlannedNoise("discrete_laplace", 1, {AB: ONE}, {AB: 1.0}, ONE, {"a": 1.0, "b": 1.0}),
)
PLANNED = dc.kinds.NoisyTables(NETWORK, {AB: TABLE}, {AB: 1.0}, "discrete_laplace")
NO_SCALES = (math.nan, math.inf, 0.0, -1.0)

WRONG: dict[str, tuple[Callable[[Any], object], Sequence[Any], str]] = {
    "no scale of a table": (lambda x: dc.kinds.NoisyCounts(NETWORK, {"b": TABLE}, {"b": x}), NO_SCALES, "noise scale"),
    "scales of other tables": (
        lambda x: dc.kinds.NoisyCounts(NETWORK, {"b": TABLE}, x),
        ({}, {"a": 1.0}),
        "noise scale",
    ),
    "a scale too many": (
        lambda x: dc.kinds.NoisyCounts(NETWORK, {"b": TABLE}, {"b": 1, x: 1}),
        ("a", "z"),
        "noise scale",
    ),
    "a family that no table holds": (
        lambda x: dc.kinds.NoisyCounts(NETWORK, {"a": x}, {"a": 1}),
        (TABLE[0],),
        "no other",
    ),
    "a table of nobody": (lambda x: dc.kinds.NoisyCounts(NETWORK, {"b": TABLE, x: TABLE}, {}), ("z",), "no other node"),
    "tables that are no counts": (
        lambda x: dc.kinds.NoisyCounts(NETWORK, {"b": x}, {"b": 1.0}),
        (TABLE * 1.0, TABLE.astype(np.int32), TABLE.T, TABLE.ravel(), TABLE[:1]),
        "'b' must be 64-bit integers",
    ),
    "no scale of a planned table": (
        lambda x: dc.kinds.NoisyTables(NETWORK, {AB: TABLE}, {AB: x}, "discrete_laplace"),
        NO_SCALES,
        "noise scale",
    ),
    "scales of other planned tables": (
        lambda x: dc.kinds.NoisyTables(NETWORK, {AB: TABLE}, x, "discrete_laplace"),
        ({}, {("a",): 1.0}, {AB: 1.0, ("a",): 1.0}),
        "noise scale",
    ),
    "variables in another order, twice or unknown": (
        lambda x: dc.kinds.NoisyTables(NETWORK, {AB: TABLE, x: TABLE}, {AB: 1.0, x: 1.0}, "discrete_laplace"),
        (("b", "a"), ("a", "a"), ("z",), ("a", "z")),
        "the schema's order",
    ),
    "a variable that no planned table holds": (
        lambda x: dc.kinds.NoisyTables(NETWORK, x, dict.fromkeys(x, 1.0), "discrete_laplace"),
        ({}, {("a",): TABLE[:, 0]}, {("b",): TABLE[0]}),
        "need one that holds '[ab]'",
    ),
    "planned tables that are no counts": (
        lambda x: dc.kinds.NoisyTables(NETWORK, {AB: x}, {AB: 1.0}, "discrete_laplace"),
        (TABLE * 1.0, TABLE.astype(np.int32), TABLE.T, TABLE.ravel(), TABLE[:1]),
        "must be 64-bit integers",
    ),
    "a plan of other noise": (lambda x: PLAN(noise=x), ("", "laplace"), "Laplace or Gaussian"),
    "a planned sensitivity": (lambda x: PLAN(sensitivity=x), (0, -1), "greater than 0"),
    "a planned report": (lambda x: PLAN(reported=x), (0, -ONE), "greater than 0"),
    "a planned budget": (lambda x: PLAN(budgets={AB: x}), (0, -ONE), "greater than 0"),
    "a planned scale": (lambda x: PLAN(scales={AB: x}), NO_SCALES, "scale for each"),
    "planned scales": (lambda x: PLAN(scales=x), ({}, {("a",): 1.0}), "scale for each"),
    "an expected error": (lambda x: PLAN(expected={"a": x, "b": 1.0}), NO_SCALES, "expected errors"),
    "a missing or unknown contrast": (
        lambda x: dc.research.NoisyCoefficients(NETWORK, x, 1.0, 0, True),
        ({}, CONTRASTS | {("b", "a"): CONTRASTS["a", "b"]}, {key: CONTRASTS[key] for key in [(), ("a",)]}),
        "every subset of every family once",
    ),
    "contrasts that are no integers": (
        lambda x: dc.research.NoisyCoefficients(NETWORK, CONTRASTS | {("b",): x}, 1.0, 0, True),
        (np.zeros(2), np.zeros(3, np.int64), np.zeros((), np.int64), np.zeros(2, np.int32)),
        r"\(b\) must be 64-bit integers",
    ),
    "no scale of the contrasts": (
        lambda x: dc.research.NoisyCoefficients(NETWORK, CONTRASTS, x, 0, True),
        NO_SCALES,
        "noise scale",
    ),
    "a negative shift": (lambda x: dc.research.NoisyCoefficients(NETWORK, CONTRASTS, 1.0, x, True), (-1,), "shift"),
    "no draws": (lambda x: dc.research.ParameterDraws(x, 1.0, {}), (THETA,), "at least one draw"),
    "no temper": (lambda x: dc.research.ParameterDraws(DRAWN, x, {}), NO_SCALES, "temper"),
    "floors of some": (
        lambda x: dc.research.ParameterDraws(DRAWN, 1.0, x),
        ({"a": 0.1}, {"z": 0.1}),
        "floor of every node",
    ),
    "rows that are no probabilities": (
        lambda x: dc.research.ParameterDraws(DRAWN.map(lambda array: np.full(array.shape, x)), 1.0, {}),
        (0.5, 0.0, -0.5, math.nan, math.inf),
        "no probabilities",
    ),
    "no choice": (lambda x: dc.research.Choice((THETA,) * x, 0), (1,), "at least two candidates"),
    "a candidate over another network": (lambda x: dc.research.Choice((THETA, x), 0), (asia(),), "over one network"),
    "a choice of nobody": (lambda x: dc.research.Choice((THETA, THETA), x), (-1, 2), "out of range"),
    "stages of other tables": (lambda x: dc.research.TwoStageCounts(COUNTS, x, ONE), (BOTH,), "the same families"),
    "sampling of payloads": (
        lambda x: dc.research.TwoStageCounts(COUNTS, COUNTS, x),
        (0, -1, Fraction(3, 2)),
        "sampling",
    ),
    "a sensitivity": (lambda x: TableNoise(x, {"b": ONE}, {"b": 1.0}, ONE), (0, -1), "greater than 0"),
    "a report": (lambda x: TableNoise(1, {"b": ONE}, {"b": 1.0}, x), (0, -ONE), "greater than 0"),
    "a budget": (lambda x: TableNoise(1, {"b": x}, {"b": 1.0}, ONE), (0, -ONE), "greater than 0"),
    "a calibrated scale": (lambda x: TableNoise(1, {"b": ONE}, {"b": x}, ONE), NO_SCALES, "scale for each"),
    "calibrated scales": (lambda x: TableNoise(1, {"b": ONE}, x, ONE), ({}, {"a": 1.0}), "scale for each"),
    "a squared sensitivity": (lambda x: GaussianNoise(x, 1.0, ONE, ONE), (0, -1), "positive sensitivity"),
    "rho": (lambda x: GaussianNoise(1, 1.0, x, ONE), (0, -ONE), "positive .* losses"),
    "a Gaussian report": (lambda x: GaussianNoise(1, 1.0, ONE, x), (0, -ONE), "positive .* losses"),
    "a Gaussian scale": (lambda x: GaussianNoise(1, x, ONE, ONE), NO_SCALES, "scale"),
    "a sensitivity of contrasts": (
        lambda x: CoefficientNoise(x, True, 1.0, 0, True, ONE),
        (0, -1),
        "greater than 0",
    ),
    "a report of contrasts": (lambda x: CoefficientNoise(1, True, 1.0, 0, True, x), (0, -ONE), "greater than 0"),
    "a scale of contrasts": (lambda x: CoefficientNoise(1, True, x, 0, True, ONE), NO_SCALES, "scale"),
    "a calibrated shift": (lambda x: CoefficientNoise(1, True, 1.0, x, True, ONE), (-1,), "shift"),
    "trimmed draws": (lambda x: Trimming({"a": 0.1}, 1.0, x, {"a": 8}, ONE), (0, -1), "at least one draw"),
    "a trimmed temper": (lambda x: Trimming({"a": 0.1}, x, 1, {"a": 8}, ONE), NO_SCALES, "temper"),
    "noise beside trimmed draws": (
        lambda x: Trimming({"a": 0.1}, 1.0, 1, {"a": 8}, ONE, x),
        NO_SCALES,
        "temper, floors and noise",
    ),
    "noise beside tempered draws": (lambda x: Tempering(1.0, 1, 9, ONE, x), NO_SCALES, "temper and noise"),
    "a floor": (lambda x: Trimming({"a": x}, 1.0, 1, {"a": 8}, ONE), NO_SCALES, "floors"),
    "a grid": (lambda x: Trimming({"a": 0.1}, 1.0, 1, x, ONE), ({}, {"b": 8}, {"a": 0}, {"a": -8}), "grid"),
    "a report of trimmed draws": (lambda x: Trimming({"a": 0.1}, 1.0, 1, {"a": 8}, x), (0, -ONE), "greater than 0"),
    "tempered draws": (lambda x: Tempering(1.0, x, 9, ONE), (0, -1), "draws"),
    "digits": (lambda x: Tempering(1.0, 1, x, ONE), (0, -1), "digits"),
    "a temper": (lambda x: Tempering(x, 1, 9, ONE), NO_SCALES, "temper"),
    "a report of tempered draws": (lambda x: Tempering(1.0, 1, 9, x), (0, -ONE), "greater than 0"),
    "a range": (lambda x: Selection(x, 1.0, ONE), NO_SCALES, "sensitivity"),
    "a scale of a choice": (lambda x: Selection(1.0, x, ONE), NO_SCALES, "scale"),
    "a report of a choice": (lambda x: Selection(1.0, 1.0, x), (0, -ONE), "greater than 0"),
    "a first stage": (lambda x: Stages(TABLES, x, ONE, ONE, "kl"), (0, -ONE), "both stages"),
    "a second stage": (lambda x: Stages(TABLES, ONE, x, ONE, "kl"), (0, -ONE), "both stages"),
    "sampling": (lambda x: Stages(TABLES, ONE, ONE, x, "kl"), (0, -ONE, Fraction(3, 2)), "probability"),
    "a word for missing values": (
        lambda x: RecordsPolicy(x, "error"),
        ("ignore", "clip", ""),
        "error, drop or keep, not",
    ),
    "a word for bounds": (lambda x: RecordsPolicy("error", x), ("drop", ""), "error or clip, not"),
}


@every("name", WRONG)
def test_parts_of_a_release_refuse_what_they_cannot_mean(name: str) -> None:
    make, values, message = WRONG[name]
    for value in values:
        with pytest.raises(dc.InputError, match=message):
            make(value)


def test_parts_of_a_release_cannot_be_changed() -> None:
    for part in (COUNTS.tables, COUNTS.scales, TABLES.epsilons, TABLES.scales):
        with pytest.raises(TypeError):
            part["b"] = 1
    for mapping in (PLANNED.tables, PLANNED.scales, PLAN().budgets, PLAN().scales, PLAN().expected):
        with pytest.raises(TypeError):
            mapping[AB] = 1
    for table in (COUNTS.tables["b"], PLANNED.tables[AB]):
        with pytest.raises(ValueError, match="read-only"):
            table[0, 0] = 1
    assert RecordsPolicy("error", "error") == STRICT
