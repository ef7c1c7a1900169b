"""Release files over a design: read back as they were, refused with the place where they are damaged."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from design_cases import CLASSES, NUMBER, answers, design, promise
from design_releases import DESIGN_KINDS, PUBLISHED, committed, design_releases, examples
from discreet.cli.cli import main
from discreet.designs.design import GRID_STEPS, design_of
from discreet.designs.kinds.gradient_trace import CurvatureNoise, ObjectiveNoise
from discreet.designs.kinds.noisy_sums import VectorNoise
from discreet.releases import release as release_module
from discreet.releases.release import release_schema
from discreet.research.kinds.factored_choice import FactoredNoise
from discreet.research.kinds.weight_draws import Truncation
from every_kind import DESIGN_CALIBRATIONS, DESIGN_PAYLOADS
from folding import every
from published import committed as network_file

VALIDATOR = jsonschema.Draft202012Validator(json.loads(release_schema()))
ONE = Fraction(1)


# ------------------------------------------------------------------------------------------------- what was published


def test_the_files_are_of_every_kind() -> None:
    releases = [dc.Release.loads(committed(kind)) for kind in PUBLISHED]
    assert {type(release.payload) for release in releases} == set(DESIGN_PAYLOADS)
    assert {type(release.calibration) for release in releases} == set(DESIGN_CALIBRATIONS)
    assert {payload for _, _, payload in DESIGN_KINDS.values()} == set(DESIGN_PAYLOADS)
    assert {calibration for _, calibration, _ in DESIGN_KINDS.values()} == set(DESIGN_CALIBRATIONS)
    assert set(examples()) == set(PUBLISHED)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_published_file_loads_and_is_written_back_byte_for_byte(kind: str, tmp_path: Path) -> None:
    release = dc.Release.loads(committed(kind))
    assert release.private is False
    assert release.guarantee.epsilon == Fraction(7, 10)
    assert release.over == release.prior.over == release.payload.over
    assert release.dumps() == committed(kind)
    VALIDATOR.validate(json.loads(committed(kind)))
    assert fields(json.loads(examples()[kind].dumps())) == fields(json.loads(committed(kind)))
    assert dc.Release.loads(json.dumps(json.loads(committed(kind)), sort_keys=True)).dumps() == committed(kind)


def fields(document: Any) -> Any:
    """The names in a document, without what they hold."""
    return {name: fields(part) for name, part in document.items()} if isinstance(document, dict) else None


def test_the_schema_in_the_package_is_the_one_of_the_code_and_takes_both_sorts() -> None:
    kept = Path(release_module.__file__).with_name("release.schema.json").read_text("utf-8")
    assert json.loads(kept) == json.loads(
        release_schema()
    )  # as numbers: pydantic 2.10 writes 0.0 where later ones write 0
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    VALIDATOR.validate(json.loads(network_file(dc.Relation.REPLACE)))
    mixed = {**json.loads(network_file(dc.Relation.REPLACE)), "design": json.loads(committed(PUBLISHED[0]))["design"]}
    assert not VALIDATOR.is_valid(mixed)


@pytest.mark.costly("A field that a document loses is found by made-up releases of each kind.")
@every("kind", DESIGN_KINDS)
@settings(max_examples=30)
@given(data=st.data())
def test_a_release_reads_back_as_itself(kind: str, data: st.DataObject) -> None:
    release = data.draw(design_releases(kind))
    assert (type(release.calibration), type(release.payload)) == DESIGN_KINDS[kind][1:]
    text = release.dumps()
    again = dc.Release.loads(text)
    assert again.dumps() == text
    for name in ("id", "date", "private", "guarantee", "mechanism", "policy", "records", "calibration", "prior"):
        assert getattr(again, name) == getattr(release, name)
    assert answers(again.payload) == answers(release.payload)
    VALIDATOR.validate(json.loads(text))


# ------------------------------------------------------------------------------------------------------------- damage

Change = Callable[[dict[str, Any]], object]
NUMBERS = (math.nan, math.inf, "1", None, [])


def at(*path: str | int, value: Any = None, drop: bool = False) -> Change:
    """Set or drop one place of a document."""

    def change(document: dict[str, Any]) -> None:
        part: Any = document
        for step in path[:-1]:
            part = part[step]
        if drop:
            del part[path[-1]]
        else:
            part[path[-1]] = value

    return change


DAMAGE: dict[str, tuple[str, Change, str]] = {
    "no design": ("noisy-moments", at("design", drop=True), "design|network"),
    "a design beside a network": (
        "noisy-moments",
        at("network", value=json.loads(network_file(dc.Relation.REPLACE))["network"]),
        "'network'",
    ),
    "a prior of a network": ("noisy-moments", at("prior", value={"age": 1.0}), "'prior"),
    "a payload of a network": (
        "noisy-moments",
        at("payload", value=json.loads(network_file(dc.Relation.ADD_REMOVE))["payload"]),
        "'payload.kind'",
    ),
    "a calibration of a network": (
        "noisy-moments",
        at("calibration", value=json.loads(network_file(dc.Relation.ADD_REMOVE))["calibration"]),
        "'calibration.kind'",
    ),
    "a gradient that is not the regulariser's": (
        "objective-curvature",
        at("payload", "gradients", 0, 0, value=0.5),
        "calibration describes",
    ),
    "a gradient at other weights": (
        "objective-curvature",
        at("payload", "points", 0, 0, value=9.0),
        "calibration describes",
    ),
    "a curvature that is not there": ("objective-curvature", at("payload", "curvature", drop=True), "calibration"),
    "a curvature of another design": (
        "objective-curvature",
        at("payload", "curvature", "values", value=[1, 2]),
        "of another design",
    ),
    "a curvature's noise that none can draw": (
        "objective-curvature",
        at("payload", "curvature", "scales", value=[1e-200, 1.0, 1.0]),
        "three noise scales",
    ),
    "groups of two": ("grouped-moments", at("payload", "scales", value=[1.0, 1.0]), "noise scale for each group"),
    "groups' noise that none can draw": (
        "grouped-moments",
        at("payload", "scales", value=[1e200, 1.0, 1.0]),
        "noise scale for each group",
    ),
    "groups without noise": ("grouped-moments", at("payload", "scales", value=[1.0, 1.0, None]), "group of sums"),
    "groups of another noise": ("grouped-moments", at("payload", "noise", value="discrete_gaussian"), "calibration"),
    "no kind": ("noisy-moments", at("payload", "kind", drop=True), "'payload.kind'"),
    "an unknown kind": ("noisy-gradients", at("payload", "kind", value="trace"), "'payload.kind'"),
    "an unknown kind of noise": ("noisy-gradients", at("calibration", "kind", value="noise"), "'calibration.kind'"),
    "an unknown field": ("noisy-gradients", at("payload", "seed", value=1), "'payload.seed'"),
    "an unknown field of the design": ("noisy-gradients", at("design", "rows", value=1), "'design.rows'"),
    "a count under add-remove": ("noisy-moments", at("records", "count", value=500), "number of records exactly where"),
    "no count under replace": ("noisy-gradients", at("records", "count", drop=True), "number of records exactly where"),
    "a moment too few": ("noisy-moments", lambda d: d["payload"]["values"].pop(), "whole numbers of 64 bits"),
    "a moment too many": ("noisy-moments", lambda d: d["payload"]["values"].append(1), "whole numbers of 64 bits"),
    "a moment that is no integer": ("noisy-moments", at("payload", "values", 0, value=0.5), "'payload.values.0'"),
    "a moment of 65 bits": ("noisy-moments", at("payload", "values", 0, value=2**63), "'payload.values.0'"),
    "another scale of moments": ("noisy-moments", at("payload", "scale", value=1.0), "calibration describes"),
    "moments without their number of records": (
        "noisy-moments",
        lambda d: (d["payload"].update(noisy_total=False), d["payload"]["values"].pop(0)),
        "either public, or measured",
    ),
    "moments of classes": (
        "noisy-moments",
        at("design", "target", value={"name": "y", "states": ["a", "b"]}),
        "no count, or none",
    ),
    "another scale of gradients": ("noisy-gradients", at("payload", "scale", value=1.0), "calibration describes"),
    "another scale of the objective": (
        "objective-perturbation",
        at("payload", "scale", value=1.0),
        "calibration describes",
    ),
    "a step too few": (
        "noisy-gradients",
        lambda d: (d["payload"]["points"].pop(), d["payload"]["gradients"].pop()),
        "calibration describes",
    ),
    "a gradient too few": ("noisy-gradients", lambda d: d["payload"]["gradients"].pop(), "one gradient for each"),
    "no steps": ("noisy-gradients", lambda d: d["payload"].update(points=[], gradients=[]), "at least one row"),
    "a short point": ("noisy-gradients", lambda d: d["payload"]["points"][1].pop(), "numbers in each"),
    "a short gradient": ("noisy-gradients", lambda d: d["payload"]["gradients"][0].pop(), "numbers in each"),
    "weights too few": ("noisy-gradients", lambda d: d["payload"]["weights"].pop(), "3 numbers"),
    "no number of records": ("objective-perturbation", at("payload", "total", drop=True), "calibration describes"),
    "no number of records anywhere": (
        "objective-perturbation",
        lambda d: (d["payload"].pop("total"), d["calibration"].pop("total_scale")),
        "either public, or measured",
    ),
    "a number of records under replace": (
        "noisy-gradients",
        lambda d: (d["payload"].update(total={"value": 1, "scale": 1.0}), d["calibration"].update(total_scale=1.0)),
        "either public, or measured",
    ),
    "gradients of numbers": (
        "noisy-gradients",
        at("design", "target", value={"name": "y", "bounds": [0.0, 1.0]}),
        "classes, or of counts",
    ),
    "the wrong sort of noise": (
        "noisy-gradients",
        at("calibration", value=json.loads(committed("truncated-posterior"))["calibration"]),
        "calibration describes",
    ),
    "a short draw": ("truncated-posterior", lambda d: d["payload"]["weights"][0].pop(), "numbers in each"),
    "a draw too few": ("truncated-posterior", lambda d: d["payload"]["weights"].pop(), "calibration describes"),
    "no draws": ("truncated-posterior", at("payload", "weights", value=[]), "at least one row"),
    "another temper": ("truncated-posterior", at("payload", "temper", value=0.123), "calibration describes"),
    "another radius": ("truncated-posterior", at("payload", "radius", value=0.123), "calibration describes"),
    "another variance": ("truncated-posterior", at("payload", "variance", value=0.123), "calibration describes"),
    "draws of classes": (
        "truncated-posterior",
        at("design", "target", value={"name": "y", "states": ["a", "b"]}),
        "numeric target",
    ),
    "no candidates": ("factored-direction", at("payload", "candidates", value=[]), "at least one row"),
    "one candidate": ("factored-direction", lambda d: d["payload"].update(candidates=[[1.0, 2.0]], index=0), "two"),
    "candidates of two lengths": ("factored-direction", lambda d: d["payload"]["candidates"][1].pop(), "in each"),
    "candidates of another length": (
        "factored-direction",
        lambda d: [row.pop() for row in d["payload"]["candidates"]],
        "1 features",
    ),
    "an index that names none": ("factored-direction", at("payload", "index", value=4), "out of range"),
    "a negative index": ("factored-direction", at("payload", "index", value=-1), "'payload.index'"),
    "another rate": ("factored-direction", at("payload", "rate", value=0.125), "calibration describes"),
    "another likelihood": ("factored-direction", at("payload", "factor", value="categorical"), "parameters floor"),
    "an unknown likelihood": ("factored-direction", at("payload", "factor", value="line"), "'payload.factor'"),
    "a parameter too few": ("factored-direction", at("payload", "parameters", "tau", drop=True), "parameters noise"),
    "a parameter too many": ("factored-categorical", at("payload", "parameters", "tau", value=1.0), "parameters floor"),
    "a choice with an intercept": ("factored-direction", at("design", "intercept", value=True), "without target"),
    "more epsilon than promised": ("noisy-moments", at("calibration", "reported", value="0.8"), "more epsilon"),
    "a prior without deviation": ("noisy-moments", at("prior", value={}), "'prior.deviation'"),
    "a feature twice": ("noisy-moments", lambda d: d["design"]["features"][1].update(name="age"), "'age' twice"),
    "a feature of states": (
        "noisy-moments",
        at("design", "features", 0, value={"name": "a", "states": ["x", "y"]}),
        "numeric bounds",
    ),
    "no features": ("noisy-moments", at("design", "features", value=[]), "at least one feature"),
    "a norm too long": ("noisy-gradients", at("design", "norm", value=9.0), "norm of the scaled"),
    "an intercept that is a number": ("noisy-gradients", at("design", "intercept", value=1), "'design.intercept'"),
}
for kind, *path in (
    ("noisy-moments", "payload", "scale"),
    ("noisy-moments", "calibration", "scale"),
    ("noisy-moments", "prior", "deviation"),
    ("noisy-gradients", "payload", "weights", 0),
    ("noisy-gradients", "payload", "points", 0, 0),
    ("noisy-gradients", "payload", "gradients", 1, 2),
    ("objective-perturbation", "payload", "total", "value"),
    ("objective-perturbation", "payload", "total", "scale"),
    ("objective-perturbation", "calibration", "polish"),
    ("objective-perturbation", "calibration", "regularisation"),
    ("objective-perturbation", "calibration", "curvature"),
    ("truncated-posterior", "payload", "weights", 0, 0),
    ("truncated-posterior", "calibration", "draws"),
    ("factored-direction", "payload", "rate"),
    ("factored-direction", "payload", "candidates", 0, 0),
    ("factored-direction", "payload", "parameters", "tau"),
    ("noisy-moments", "design", "features", 0, "bounds", 0),
):
    for wrong in NUMBERS[:4] if path[-1] != "curvature" else (math.nan, -1, 1.5, "-1"):
        place = ".".join(map(str, path))
        DAMAGE[f"{wrong!r} at {kind} {place}"] = (kind, at(*path, value=wrong), f"'{place}'|not JSON|number")


@every("name", DAMAGE)
def test_damage_is_refused_with_its_place(name: str) -> None:
    kind, change, message = DAMAGE[name]
    document = copy.deepcopy(json.loads(committed(kind)))
    change(document)
    with pytest.raises(dc.InputError, match=message) as caught:
        dc.Release.loads(json.dumps(document))
    assert "\n" not in str(caught.value)


@every("kind", PUBLISHED)
def test_no_field_can_be_left_out(kind: str) -> None:
    """All but what is optional: a bound on the norm, a target of none, a number of records where it is public."""
    document = json.loads(committed(kind))
    places = [(name,) for name in document if name != "format"]
    places += [(name, inner) for name in ("design", "prior", "calibration", "payload") for inner in document[name]]
    for place in places:
        changed = copy.deepcopy(document)
        at(*place, drop=True)(changed)
        if place == ("design", "norm"):
            assert dc.Release.loads(json.dumps(changed)).over.norm is None
            continue
        with pytest.raises(dc.InputError):
            dc.Release.loads(json.dumps(changed))


# ------------------------------------------------------------------------------------------------ parts, made by hand

LOGISTIC, LINEAR, PLANE = design(2, CLASSES), design(2, NUMBER), design(2, intercept=False)
NO_SCALES = (math.nan, math.inf, 0.0, -1.0)
Z3, ROW = np.zeros(3), np.zeros((1, 3))
AXES = np.eye(2)
DIRECTION = {"noise_variance": 1.0, "tau": 1.0}


def choice(**changes: Any) -> dc.research.FactoredChoice:
    parts: dict[str, Any] = {
        "design": PLANE,
        "kind": "direction",
        "candidates": AXES,
        "parameters": DIRECTION,
        "index": 0,
        "rate": 1.0,
        "total": None,
    }
    return dc.research.FactoredChoice(**{**parts, **changes})


def objective(**changes: Any) -> ObjectiveNoise:
    parts: dict[str, Any] = {
        "regularisation": 1.0,
        "sensitivity": 1,
        "scale": 1.0,
        "curvature": ONE,
        "polish": 1.0,
        "polish_step": 1.0,
        "total_scale": None,
        "reported": 2 * ONE,
    }
    return ObjectiveNoise(**{**parts, **changes})


WRONG: dict[str, tuple[Callable[[Any], object], Sequence[Any], str]] = {
    "a total": (lambda x: dc.designs.NoisyTotal(1, x), NO_SCALES, "noise scale"),
    "moments": (
        lambda x: dc.designs.NoisyMoments(PLANE, x, 1.0, False),
        (np.zeros(3), np.zeros(4, np.int64), np.zeros((3, 1), np.int64), np.zeros(3, np.int32)),
        "3 whole numbers",
    ),
    "moments' scale": (
        lambda x: dc.designs.NoisyMoments(PLANE, np.zeros(3, np.int64), x, False),
        NO_SCALES,
        "noise scale",
    ),
    "moments' number": (
        lambda x: dc.designs.NoisyMoments(PLANE, np.zeros(3, np.int64), 1.0, x),
        (True,),
        "4 whole numbers",
    ),
    "moments' target": (
        lambda x: dc.designs.NoisyMoments(x, np.zeros(len(x.moments), np.int64), 1.0, False),
        (LOGISTIC,),
        "numeric target",
    ),
    "gradients' design": (
        lambda x: dc.designs.GradientTrace(x, ROW, ROW, 1.0, Z3, None),
        (LINEAR, design(2)),
        "or of counts",
    ),
    "points": (
        lambda x: dc.designs.GradientTrace(LOGISTIC, x, x, 1.0, Z3, None),
        (Z3, np.zeros((0, 3)), np.zeros((1, 2)), np.full((1, 3), math.nan)),
        "trace needs|3 numbers",
    ),
    "gradients": (
        lambda x: dc.designs.GradientTrace(LOGISTIC, ROW, x, 1.0, Z3, None),
        (np.zeros((2, 3)), np.full((1, 3), math.inf)),
        "trace needs",
    ),
    "weights": (
        lambda x: dc.designs.GradientTrace(LOGISTIC, ROW, ROW, 1.0, x, None),
        (np.zeros(2), ROW, np.full(3, math.nan)),
        "trace needs|3 numbers",
    ),
    "gradients' scale": (lambda x: dc.designs.GradientTrace(LOGISTIC, ROW, ROW, x, Z3, None), NO_SCALES, "noise scale"),
    "draws": (
        lambda x: dc.research.WeightDraws(LINEAR, x, 1.0, 1.0, 1.0),
        (Z3, np.zeros((0, 3)), np.zeros((1, 2)), np.full((1, 3), math.inf)),
        "draws of weights",
    ),
    "draws' design": (
        lambda x: dc.research.WeightDraws(x, ROW, 1.0, 1.0, 1.0),
        (LOGISTIC, design(2)),
        "numeric target",
    ),
    "draws' variance": (lambda x: dc.research.WeightDraws(LINEAR, ROW, x, 1.0, 1.0), NO_SCALES, "positive variance"),
    "draws' radius": (lambda x: dc.research.WeightDraws(LINEAR, ROW, 1.0, x, 1.0), NO_SCALES, "positive variance"),
    "draws' temper": (lambda x: dc.research.WeightDraws(LINEAR, ROW, 1.0, 1.0, x), NO_SCALES, "positive variance"),
    "candidates": (
        lambda x: choice(candidates=x),
        (AXES[:1], AXES[0], np.full((2, 2), math.nan)),
        "two candidates",
    ),
    "an index": (lambda x: choice(index=x), (-1, 2), "out of range"),
    "a factor": (lambda x: choice(kind=x), ("", "line"), "the kind of a factor must be"),
    "a factor's parameters": (
        lambda x: choice(parameters=x),
        ({}, {"tau": 1.0}, {**DIRECTION, "floor": 1.0}),
        "has the",
    ),
    "a parameter": (lambda x: choice(parameters={**DIRECTION, "tau": x}), (math.nan, math.inf), "finite parameters"),
    "a rate": (lambda x: choice(rate=x), NO_SCALES, "rate"),
    "a choice's design": (
        lambda x: choice(design=x),
        (LOGISTIC, design(2), design(3, intercept=False)),
        "without target and intercept",
    ),
    "a sensitivity": (lambda x: VectorNoise(x, 1.0, 1, None, ONE), (0, -1), "sensitivity"),
    "a vector's scale": (lambda x: VectorNoise(1, x, 1, None, ONE), NO_SCALES, "noise scale"),
    "rounds": (lambda x: VectorNoise(1, 1.0, x, None, ONE), (0, -1), "rounds"),
    "a total's scale": (lambda x: VectorNoise(1, 1.0, 1, x, ONE), NO_SCALES, "noise scale"),
    "a vector's report": (lambda x: VectorNoise(1, 1.0, 1, None, x), (0, -ONE), "report"),
    **{
        f"an objective's {name}": (lambda x, name=name: objective(**{name: x}), NO_SCALES, "regularisation and noise")
        for name in ("regularisation", "scale", "polish", "polish_step", "total_scale")
    },
    **{
        f"an objective's {name}": (lambda x, name=name: objective(**{name: x}), (0, -1), "sensitivity and losses")
        for name in ("sensitivity", "curvature", "reported")
    },
    "an objective's parts": (
        lambda x: objective(**x),
        ({"reported": ONE}, {"measured": CurvatureNoise(1, (1.0, 1.0, None), ONE)}),
        "cost less than the whole",
    ),
    "an objective's shares": (
        lambda x: objective(rho=x, measured=CurvatureNoise(1, (1.0, 1.0, None), ONE)),
        (ONE, ONE / 2),
        "less than the whole",
    ),
    "an objective's rho": (lambda x: objective(rho=x), (0 * ONE, -ONE), "is positive"),
    "a truncation's radius": (lambda x: Truncation(x, 1.0, 1.0, 1, 1, ONE), NO_SCALES, "radius"),
    "a truncation's variance": (lambda x: Truncation(1.0, x, 1.0, 1, 1, ONE), NO_SCALES, "variance"),
    "a truncation's temper": (lambda x: Truncation(1.0, 1.0, x, 1, 1, ONE), NO_SCALES, "temper"),
    "a truncation's draws": (lambda x: Truncation(1.0, 1.0, 1.0, x, 1, ONE), (0, -1), "draws"),
    "a truncation's digits": (lambda x: Truncation(1.0, 1.0, 1.0, 1, x, ONE), (0, -1), "digits"),
    "a truncation's report": (lambda x: Truncation(1.0, 1.0, 1.0, 1, 1, x), (0, -ONE), "report"),
    "a factored rate": (lambda x: FactoredNoise(x, None, ONE), NO_SCALES, "rate"),
    "a factored total's scale": (lambda x: FactoredNoise(1.0, x, ONE), NO_SCALES, "rate"),
    "a factored report": (lambda x: FactoredNoise(1.0, None, x), (0, -ONE), "report"),
}


@every("name", WRONG)
def test_parts_refuse_what_they_cannot_mean(name: str) -> None:
    make, values, message = WRONG[name]
    for value in values:
        with pytest.raises(dc.InputError, match=message):
            make(value)


def test_parts_cannot_be_changed() -> None:
    weights = np.zeros((1, 3))
    payload = dc.research.WeightDraws(LINEAR, weights, 1.0, 1.0, 1.0)
    weights[0, 0] = 5
    assert payload.weights[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        payload.weights[0, 0] = 1
    with pytest.raises(TypeError):
        choice().parameters["tau"] = 2.0
    with pytest.raises(AttributeError):
        payload.radius = 2.0


def test_parts_over_two_designs_make_no_release() -> None:
    release = dc.Release.loads(committed("noisy-moments"))
    with pytest.raises(dc.InputError, match="same network or design"):
        replace(release, prior=dc.designs.Normal(design(2, NUMBER), 1.0))
    with pytest.raises(dc.InputError, match="same network or design"):
        replace(release, prior=dc.Release.loads(network_file(dc.Relation.ADD_REMOVE)).prior)
    other = dc.Release.loads(committed("objective-perturbation"))
    with pytest.raises(dc.InputError, match="same network or design"):
        replace(release, payload=other.payload)
    with pytest.raises(dc.InputError, match="more epsilon"):
        replace(release, guarantee=promise("0.1"))


# ---------------------------------------------------------------------------------------- releases of the other sort


@every("kind", PUBLISHED)
def test_a_release_over_a_design_has_no_network_and_says_what_reads_it(kind: str) -> None:
    release = dc.Release.loads(committed(kind))
    for name in ("network", "dirichlet"):
        with pytest.raises(dc.InputError, match=r"`\.posterior\(\)` or the estimator's `from_release`"):
            getattr(release, name)
    assert release.networks == ()
    if kind == "factored-categorical":  # a coin, which is read over a network of its own
        assert dc.noise_aware(release, draws=1, rng=np.random.default_rng(1)).network.nodes == release.over.names
    else:
        with pytest.raises(dc.InputError, match="design, not a network"):
            dc.noise_aware(release, draws=1, rng=np.random.default_rng(1))
    with pytest.raises(dc.InputError, match="design, not a network"):
        dc.tools.plug_in(release, rng=np.random.default_rng(1), draws=1)
    with pytest.raises(dc.InputError, match="design, not a network"):
        dc.combine(release, release, data="same")
    with pytest.raises(dc.InputError):
        dc.estimate(release, rng=np.random.default_rng(1))


def test_a_release_over_a_network_has_no_design() -> None:
    with pytest.raises(dc.InputError, match=r"read it with `.posterior\(\)`"):
        design_of(dc.Release.loads(network_file(dc.Relation.REPLACE)))


COMMANDS = (
    "sample {} -n 10 --output out.csv",
    "sample {} -n 10 --output -",
    "export {} --output out.bif",
    "export {} --output -",
    "combine {} --output out.json",
    "combine {} {} --data same --output out.json",
    "query {} P(age)",
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", PUBLISHED)
def test_commands_for_networks_refuse_a_design_in_one_line(
    kind: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if kind == "factored-categorical" and command.startswith(("sample", "export")):
        pytest.skip("a coin is read over a network of its own")
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_text(committed(kind), encoding="utf-8")
    assert main(command.replace("{}", "r.json").split()) == 2
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if line != "this release is a simulation: it protects nobody"]
    assert (out, len(lines)) == ("", 1)
    assert lines[0].startswith("discreet: ")
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json"]


def test_a_released_scale_is_the_calibrations_in_the_unit_of_the_gradient() -> None:
    release = dc.Release.loads(committed("noisy-gradients"))
    assert release.payload.scale * GRID_STEPS == release.calibration.scale


@every("kind", ["grouped-moments", "objective-curvature", "noisy-moments"])
def test_numbers_that_no_records_have_are_read_without_a_crash(kind: str) -> None:
    """The largest and smallest whole numbers in a released vector: finite draws, however senseless."""
    for fill in (2**63 - 1, -(2**63)):
        document = json.loads(committed(kind))
        held = document["payload"]["curvature"] if kind == "objective-curvature" else document["payload"]
        held["values"] = [fill] * len(held["values"])
        release = dc.Release.loads(json.dumps(document))
        assert np.isfinite(dc.read(release, draws=50, rng=np.random.default_rng(1)).weights).all()


def test_weights_that_no_fit_makes_are_refused_by_whoever_reads_them() -> None:
    document = json.loads(committed("objective-curvature"))
    huge = [1e200] * len(document["payload"]["weights"])
    pulled = [document["calibration"]["regularisation"] * weight for weight in huge]
    document["payload"].update(weights=huge, points=[huge], gradients=[pulled])
    release = dc.Release.loads(json.dumps(document))
    with pytest.raises(dc.InputError, match="no fit makes"):
        dc.read(release, draws=50, rng=np.random.default_rng(1))
