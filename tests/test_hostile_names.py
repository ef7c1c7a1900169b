"""Names of a stranger's release reach no terminal and no page as they are: whatever shows them is one registry here.

Every kind of evidence has names, states, units and words that hold controls, line breaks, marks that turn the direction
of text and marks that nobody sees. All that is public and has a text is made of it.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import cycle, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.cli.cli import app, main
from discreet.designs.design import Normal
from discreet.designs.readers.score import accuracy_network
from discreet.display.terminal import write_out
from discreet.display.text_tables import html_text
from discreet.errors import printable
from discreet.posterior import fit_check
from discreet.research.mechanisms.score_sums import ScoreSums
from discreet.util.json_files import json_text
from every_kind import PAYLOADS
from folding import every
from served_kinds import KINDS, study
from serving import Local
from shell import opened
from tiny import STRICT

MARKS = (
    "\x1b[31m", "\nFORGED", "\u202egnp", "\x9b2J", "\u2066 \u2028FORGED", "\x7f\r\t", "\u200b\ufeff\u200d",
    "\u200e\u061c\u2060", "\U000e0041\u00ad", "\x00\x85\x07", "\ue000\u2029",
)  # fmt: skip
"""Put behind every name."""
WORDS = {"unit", "unit_column", "order_column", "mechanism", "source"}
"""Fields of documents whose values are words of their writer."""
TEXTS = ("__str__", "__repr__", "_repr_html_", "_repr_markdown_", "_repr_svg_", "summary", "to_text", "to_svg", "dumps")
PLACES: tuple[ModuleType, ...] = (
    dc, dc.tools, dc.results, dc.designs, dc.kinds, dc.external, dc.research, dc.decisions,
)  # fmt: skip
NAMELESS = {
    "BudgetError", "DiscreetError", "InputError",  # their texts are tested with what raises them
    "DefaultAccountWarning", "Method", "NetworkPosterior", "Mechanism",  # a warning, a word and protocols
    "AnswerRow",  # the type of a dict
}  # fmt: skip
"""Public classes without a text of their own."""
ACCURACY = accuracy_network()
OVER_NETWORKS = ("plain", "laplace", "planned", "map_estimate", "gappy", "census", "combined")
"""Kinds of evidence whose posterior is of a network."""
ESTIMATORS = (
    dc.estimators.PrivateNaiveBayes, dc.estimators.PrivateLinearRegression, dc.estimators.PrivateLogisticRegression,
    dc.estimators.PrivatePoissonRegression,
    dc.estimators.PrivatePCA,
)  # fmt: skip


def fault_of(text: str) -> str:
    """What a terminal would obey or nobody could see, or the line that a name adds; nothing where there is none."""
    odd = [mark for mark in text if mark != "\n" and not mark.isprintable()]
    if odd:
        at = text.index(odd[0])
        return f"{odd[0]!r} in {text[max(0, at - 60) : at + 20]!r}"
    return next((f"a line of its own: {line!r}" for line in text.split("\n") if line.startswith("FORGED")), "")


def poisoned(tree: Any) -> Any:
    """A document whose names and words have marks behind them, everywhere alike."""
    marks, names = cycle(MARKS), dict[str, str]()
    for part in _objects(tree):
        if "name" in part and part.keys() & {"states", "bounds"}:
            names.setdefault(part["name"], part["name"] + next(marks))
    return _renamed(tree, names, marks)


def _objects(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON tree."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _objects(part)


def _renamed(tree: Any, names: Mapping[str, str], marks: Iterator[str], field: str = "") -> Any:
    """The same with other names."""
    if isinstance(tree, dict):
        return {names.get(key, key): _renamed(part, names, marks, key) for key, part in tree.items()}
    if isinstance(tree, list):
        states = field == "states" and all(isinstance(part, str) for part in tree)
        return [
            part + MARKS[at % len(MARKS)] if states else _renamed(part, names, marks) for at, part in enumerate(tree)
        ]
    if field in WORDS and isinstance(tree, str) and tree not in names:
        return tree + next(marks)
    if field == "missing" and isinstance(tree, str) and tree not in ("error", "drop", "keep"):
        return None
    return names.get(tree, tree) if isinstance(tree, str) else tree


@cache
def evidence(kind: str) -> Any:
    """A stranger's document of a kind."""
    found = study(kind)
    tree = poisoned(json.loads(found.read_text() if isinstance(found, Path) else found.dumps()))
    return dc.tools.loads(json.dumps(tree))


def public_classes() -> dict[str, type]:
    """Every class that users can name."""
    return {
        name: found for place in PLACES for name in place.__all__ if isinstance(found := getattr(place, name), type)
    }


def parts_of(found: Any, seen: dict[int, Any] | None = None) -> list[Any]:
    """All objects of the package that an object is made of."""
    seen = {} if seen is None else seen
    if id(found) in seen:
        return []
    if isinstance(found, Mapping):
        inner = list(found.values())
    elif isinstance(found, tuple | list) and len(found) < 1000:
        inner = list(found)
    else:
        inner = [getattr(found, one.name) for one in fields(found)] if is_dataclass(found) else []
    if type(found).__module__.startswith("discreet") or inner:
        seen[id(found)] = found
    for part in inner:
        parts_of(part, seen)
    return list(seen.values())


def texts_of(found: Any) -> Iterator[tuple[str, str]]:
    """Each text that an object shows of itself, by the name of what makes it."""
    for method in TEXTS:
        if isinstance(found, dc.Release) and not found.networks and method == "to_svg":
            continue
        show = getattr(found, method, None)
        if method == "summary" and type(found).__name__ in (*(kind.__name__ for kind in PAYLOADS), "RemotePosterior"):
            continue  # the release shows it, and a server would have to be there
        if show is not None and not isinstance(found, type):
            text = show()
            yield method, text
            if method == "summary":
                yield "summary on a narrow terminal", show(width=40)


@cache
def results(kind: str) -> tuple[Any, ...]:
    """What the package makes of evidence over a network."""
    found = evidence(kind)
    posterior = dc.noise_aware(found, draws=100, rng=1)
    if posterior.network.may_be_missing:
        posterior = dc.tools.assume_at_random(posterior)
    network = posterior.network
    first, last = network.variables[0], network.variables[-1]
    one = f'P("{last.name}")'
    given = f' | "{first.name}"="{first.states[0]}")' if last is not first else ")"
    rows = {response: dict.fromkeys(last.states, at / 20) for at, response in enumerate(MARKS)}
    made = [found, posterior, posterior.probabilities, dc.marginals(posterior)]
    made += [dc.answer_many(posterior, [one, f'MAP("{last.name}"{given}']), dc.answer(posterior, one)]
    made.append(dc.decide(posterior, dc.decisions.payoff(network, one, rows), list(MARKS)))
    made.append(dc.decisions.decide_number(posterior, f'P("{last.name}"="{last.states[0]}")', "interval:0.9"))
    made.append(dc.decisions.decide_vector(posterior, [f'P("{last.name}")', f'P("{last.name}"="{last.states[0]}")']))
    if last.size == 2 and last is not first:
        made.append(dc.regress(posterior, last.name, [first.name], kind="linear"))
        made.append(dc.predict(posterior, {first.name: [first.states[0]]}, last.name))
    if isinstance(found, dc.Release):
        made += [dc.explain(found, [one], draws=50, rng=1), found.payload, found.calibration]
        made += [dc.check_fit(found)] if found.payload.measurements else []
    return tuple(made)


def hostile_network() -> dc.Network:
    """A chain of as many variables as there are marks."""
    variables = [dc.Variable(f"v{at}{mark}", ("no" + mark, "yes")) for at, mark in enumerate(MARKS)]
    return dc.Network.from_edges(list(pairwise(one.name for one in variables)), variables)


NUMBER = dc.Variable("y" + MARKS[0], bounds=(-1, 1))
CLASSES = dc.Variable("y" + MARKS[0], ("no" + MARKS[2], "yes"))


def hostile_design(target: dc.Variable | None = NUMBER) -> dc.designs.Design:
    """A design of features with such names."""
    features = tuple(dc.Variable(f"x{at}{mark}", bounds=(-1, 1)) for at, mark in enumerate(MARKS[:3]))
    return dc.designs.Design(features, target)


def simulated(
    mechanism: Any, statistic: Any, prior: Any, unit: str = "patient" + MARKS[0], **promise: Any
) -> dc.Release:
    """A release of made-up records."""
    asked = {"epsilon": 1, "delta": 0, "relation": "add-remove", "unit": unit, **promise}
    return dc.simulate(mechanism, statistic, prior, dc.Guarantee(**asked), rng=1)


def made_of(mechanism: Any, network: dc.Network | None = None) -> dc.Release:
    """A release over a network of such names."""
    network = network or hostile_network()
    codes = {name: [0, 1] * 40 for name in network.nodes}
    counts = dc.tools.count_codes(network, codes, tuple(mechanism.scopes(network)) or None)
    return simulated(mechanism, counts, dc.Dirichlet.uniform(network))


def of_numbers(bounds: tuple[float, float] = (0, 1), **bins: tuple[float, ...]) -> dc.Release:
    """A release of sums of a column of such a name."""
    network = dc.Network.from_edges([], [dc.Variable("a" + MARKS[0], bounds=bounds, **bins)])
    records = dc.read_records(pa.table({network.nodes[0]: [0.2, 0.7] * 40}), network.schema)
    return simulated(dc.planned(), dc.count(records, network), dc.Dirichlet.uniform(network))


def rows(target: dc.Variable | None = NUMBER) -> dc.designs.Rows:
    """Records of a design."""
    values = None if target is None else [*target.states[:1] * 4] or np.zeros(4)
    return dc.designs.read_rows(hostile_design(target), np.zeros((4, 3)), values)


@cache
def fitted(kind: type[Any]) -> Any:
    """An estimator of records whose columns and classes have such names."""
    rng = np.random.default_rng(2)
    columns, classes = [f"x{mark}" for mark in MARKS[:2]], ("ill" + MARKS[2], "well")
    frame = pytest.importorskip("pandas").DataFrame(rng.uniform(0, 10, (300, 2)), columns=columns)
    promise = dc.Guarantee(epsilon=8, delta=0, relation="replace", unit="record")
    how: dict[str, Any] = {"bounds": dict.fromkeys(columns, (0, 10)), "guarantee": promise, "random_state": 1}
    how |= {"account": dc.Ledger("sqlite://").open("a", promise), "draws": 100}
    target = (5 * frame[columns[0]]).round()
    if kind in (dc.estimators.PrivateNaiveBayes, dc.estimators.PrivateLogisticRegression):
        how, target = how | {"classes": classes}, np.where(target > 25, *classes)
    elif kind is not dc.estimators.PrivatePCA:
        how["target_bounds"] = (0, 50)
    made = kind(**how)
    return made.fit(frame) if kind is dc.estimators.PrivatePCA else made.fit(frame, target)


def searched() -> Any:
    """A choice among estimators."""
    own = fitted(dc.estimators.PrivateLinearRegression).get_params()
    return dc.estimators.PrivateGridSearch(dc.estimators.PrivateLinearRegression(**own), {"bounds": [own["bounds"]]})


PLAIN = hostile_network().variables[:5]  # without NUL, which no engine has in a name
CODES = {name: [0, 1] for name in hostile_network().nodes}
FAMILY = dc.research.Family(
    "exponential", (dc.Variable.binned("wait" + MARKS[0], (0, 20), 10),), {"low": 0.1, "high": 2}, 12
)
TABLE = dc.research.read_score_file(
    json_text({"variables": [{"name": "a" + MARKS[0], "states": ["no" + MARKS[1], "yes"]}], "names": ["z" + MARKS[2]],
               "candidates": [[0.2], [0.8]], "range": [0, 1], "scores": [[1, 0], [0, 1]]})
)  # fmt: skip
OWN = dc.research.own_factor(
    hostile_design(None), lambda record, z: -abs(next(iter(record.values()))[:, None] - z[:, 0]), [[0], [1]],
    low=-2, high=0,
)  # fmt: skip


def family_release() -> dc.Release:
    """A parameter of a family."""
    counts = dc.tools.count_codes(FAMILY.network, {FAMILY.variables[0].name: [1, 2, 3]})
    return simulated(dc.research.sampled(FAMILY), counts, dc.Dirichlet.uniform(FAMILY.network))


def accuracy_plan() -> dc.results.AccuracyPlan:
    """A plan of a question."""
    network = dc.Network.from_edges([], hostile_network().variables[:2])
    query = f'P("{network.nodes[1]}"="yes")'
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="patient" + MARKS[1])
    return dc.plan_accuracy(dc.Dirichlet.uniform(network).mean(), [query], None, 500, guarantee=promise, rng=1)


TINY = dc.Network.from_edges([], [dc.Variable("a" + MARKS[0], ("0" + MARKS[1], "1"))])
PROMISE = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="patient" + MARKS[1])
MADE: dict[str, Any] = {
    "Account": lambda: dc.Ledger("sqlite://").open(
        "a", dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="patient")
    ),
    "AccuracyPlan": accuracy_plan,
    "Absolute": dc.decisions.Absolute,
    "NumberTables": lambda: of_numbers(bins=(0.5,)),
    "FoundBins": lambda: of_numbers((0, 1000)),
    "TablesWithPairs": lambda: made_of(dc.planned(pairs_share=0.3)),
    "CategoricalFactor": lambda: dc.research.CategoricalFactor([[0.9, 0.1], [0.5, 0.5]], floor=0.1),
    "Client": lambda: dc.server.Client("http://127.0.0.1:1"),
    "Counts": lambda: dc.tools.count_codes(hostile_network(), CODES),
    "DirectionFactor": lambda: dc.research.DirectionFactor([[2.0, 0.0], [0.0, 2.0]], noise_variance=1.0, tau=4.0),
    "ExpectedError": lambda: dc.plan(dc.Dirichlet.uniform(TINY).mean(), PROMISE, 50, rng=1, repeats=1),
    "ExpectedDraw": lambda: dc.research.plan_score(dc.research.scored(TABLE), TABLE, PROMISE, 20, rng=1, repeats=1),
    "Family": lambda: FAMILY,
    "FamilyPosterior": lambda: dc.read(family_release(), method="parameters", draws=50, rng=1),
    "Finding": lambda: dc.audit(dc.laplace(), PROMISE, {"net" + MARKS[0]: TINY}, most=1),
    "Gradients": lambda: dc.designs.sum_gradients(rows(CLASSES)),
    "GroupedMoments": lambda: simulated(
        dc.designs.grouped_moments(), dc.designs.sum_moments(rows()), Normal(hostile_design(), 1.0)
    ),
    "Histograms": lambda: dc.research.Histograms([[-1, 0, 1]], [[1, 1]], 1.0),
    "Interval": lambda: dc.decisions.Interval(0.9),
    "Ledger": lambda: dc.Ledger("sqlite://"),
    "LawWeights": lambda: dc.research.LawWeights(np.array([0.5, 0.5]), np.ones(2)),
    "Learned": lambda: evidence("structure").learned_network,
    "Mixing": lambda: dc.results.Mixing(4, 1500, 612.0, "P(lung" + MARKS[0], 1.004),
    "Moments": lambda: dc.designs.sum_moments(rows()),
    "NoisyCoefficients": lambda: made_of(dc.research.fourier()),
    "OwnFactor": lambda: OWN,
    "PooledEstimate": lambda: dc.tools.pool_estimates([1.0, 2.0], [1.0, 1.0]),
    "PublicRecords": lambda: dc.designs.PublicRecords(np.zeros((4, 3)), np.zeros(4)),
    "PublicRows": lambda: dc.research.PublicRows(np.zeros((4, 3)), 1.0),
    "Quantile": lambda: dc.decisions.Quantile(0.9),
    "Records": lambda: dc.read_records(pa.table({one.name: ["yes"] for one in PLAIN}), dc.Schema(PLAIN)),
    "RemotePosterior": lambda: dc.server.RemotePosterior(
        dc.server.Client("http://127.0.0.1:1")._http, "visits" + MARKS[0], "0" * 32, hostile_network()
    ),
    "Responder": lambda: dc.decisions.Responder(results("plain")[1]),
    "Rows": rows,
    "Schema": lambda: hostile_network().schema,
    "Score": lambda: dc.designs.read_score(
        simulated(dc.laplace(), dc.tools.count_codes(ACCURACY, {"prediction": [0, 1]}), dc.Dirichlet.uniform(ACCURACY)),
        draws=100,
        rng=1,
    ),
    "ScoreSums": lambda: ScoreSums(OWN, np.zeros(2, np.int64), 1, STRICT),
    "ScoreTable": lambda: TABLE,
    "ScoredChoice": lambda: simulated(
        dc.research.scored(TABLE),
        dc.tools.count_codes(TABLE.network, {"a" + MARKS[0]: [1]}),
        dc.Dirichlet.uniform(TABLE.network),
    ),
    "ServedReleases": lambda: dc.server.ServedReleases(
        [{"name": "visits" + MARKS[0], "kind": "network", "guarantees": ["epsilon" + MARKS[1]], "draws": "ready"}]
    ),
    "StatedNoise": lambda: dc.external.StatedNoise("rounded", 1),
    "Tested": lambda: fit_check.Tested(
        ("a" + MARKS[0], "b" + MARKS[1]), 0.001, 0.5, (("a" + MARKS[0], "b" + MARKS[1]),)
    ),
    "Squared": dc.decisions.Squared,
    "TwoStageCounts": lambda: made_of(dc.research.allocated()),
    "UniformBox": lambda: dc.research.uniform_law(hostile_design()),
    "UniformSphere": lambda: dc.research.UniformSphere(3, 1.0, None),
    "WeightedPoints": lambda: dc.research.WeightedPoints(np.zeros((2, 3)), [0.5, 0.5]),
    "WeightPosterior": lambda: dc.read(evidence("linear"), draws=100, rng=1),
    "PrivateGridSearch": searched,
    **{kind.__name__: lambda kind=kind: fitted(kind) for kind in ESTIMATORS},
}
"""Public objects that no document of a stranger has in it, by what they are for."""


@cache
def registry() -> dict[str, Any]:
    """Every public object, or what holds it, by a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, Any] = {kind: results(kind) for kind in OVER_NETWORKS}
        found |= {f"evidence {kind}": evidence(kind) for kind in KINDS}
        return found | {name: make() for name, make in MADE.items()}


# --------------------------------------------------------------------------------------------------------------- tests


@pytest.mark.costly("A class whose text nobody looks at is found by making one of each.")
def test_the_registry_has_every_public_class_with_a_text() -> None:
    held = {kind.__name__ for found in registry().values() for one in parts_of(found) for kind in type(one).__mro__}
    assert set(public_classes()) - held - NAMELESS == set()
    assert {*public_classes(), "Method"} >= NAMELESS


@every("name", [*OVER_NETWORKS, *(f"evidence {kind}" for kind in KINDS), *MADE])
def test_no_text_of_a_public_object_has_marks_that_a_terminal_obeys(name: str) -> None:
    for one in parts_of(registry()[name]):
        for method, text in texts_of(one):
            if isinstance(text, str):
                assert not fault_of(text), (type(one).__name__, method, fault_of(text))


@pytest.mark.costly("Every kind of report is written whole, with hostile names in every place.")
@every("form", ["html", "markdown"])
@every("kind", list(KINDS))
def test_no_report_has_marks_that_a_terminal_obeys(kind: str, form: Any) -> None:
    found = evidence(kind)
    if isinstance(found, dc.Release):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = results(kind)[1] if kind in OVER_NETWORKS else None
            text = dc.report(found, posterior=posterior, form=form, rng=1, name="r" + MARKS[0])
        assert not fault_of(text), fault_of(text)
        assert "\\x1b[31m" in text or form == "markdown"


def test_errors_about_such_names_are_one_printable_line() -> None:
    network = hostile_network()
    for ask in (lambda: network.schema["x"], lambda: network.schema[network.nodes[0]].code("x"),
                lambda: dc.Variable("a", (MARKS[0], MARKS[0])), lambda: dc.Schema((network.variables[0],) * 2),
                lambda: dc.read_records(pa.table({"v\0a": ["x"]}), dc.Schema((dc.Variable("v\0a", ("x",)),))),
                lambda: dc.Release.loads(MARKS[0]), lambda: dc.load(MARKS[0]), lambda: dc.tools.parse_query(
                    f"P({MARKS[2]})", network.schema)):  # fmt: skip
        with pytest.raises(dc.InputError) as caught:
            ask()
        assert str(caught.value).isprintable()


def test_the_filter_shows_escapes_and_keeps_letters_of_all_languages() -> None:
    assert printable("".join(MARKS)).isprintable() and printable("a\nb", "\n") == "a\nb"
    assert printable("é 雪 \u0928\u092e\u0938\u094d\u0924\u0947 🙂") == "é 雪 \u0928\u092e\u0938\u094d\u0924\u0947 🙂"
    assert printable("a\x1b[31m\u202e") == r"a\x1b[31m\u202e" and html_text("<\u202e") == r"&lt;\u202e"
    for value in ({name: [name] for name in MARKS}, "é🙂", [1, 0.5, None]):
        assert json.loads(json_text(value)) == value and not fault_of(json_text(value))
    assert json_text("é🙂") == '"é🙂"' and json.loads(json_text(MARKS, indent=1)) == list(MARKS)


COMMANDS: dict[str, list[list[str]]] = {
    "query": [["--draws", "100"], ["{one}", "--draws", "100"], ["--regress", "{regress}", "--draws", "100"]],
    "fit": [[]],
    "explain": [["{one}", "--draws", "100"]],
    "decide": [
        ["--quantity", "{cell}", "--draws", "200"],
        ["--query", "{one}", "--payoffs", "{payoffs}", "--draws", "200"],
    ],
    "show": [[], ["--svg", "-"]],
    "report": [["--output", "x.html", "--replace"]],
    "combine": [["other.json", "--output", "-"], ["other.json", "--output", "x.json", "--replace"]],
    "export": [["--output", "x.bif", "--replace"]],
    "sample": [["--output", "x.csv", "--replace"]],
    "draw": [["--output", "x.draws", "--replace", "--draws", "100"]],
}
"""Commands of analysts, which take a stranger's release, with what comes behind its name."""
CURATORS = {
    "demo", "quickstart", "schema", "init", "check", "domain", "structure", "release", "external", "plan", "audit",
    "latent", "serve", "token",
}  # fmt: skip
"""Commands that take what their user has made."""


def words_of(kind: str) -> dict[str, str]:
    """What a command can ask of a release."""
    variable, *others = reversed(hostile_network().variables if kind == "chain" else evidence(kind).network.variables)
    payoffs = {mark: dict.fromkeys(variable.states, at % 2) for at, mark in enumerate(MARKS)}
    name = f'"{variable.name}"'
    asked = {"one": f"P({name})", "cell": f'P({name}="{variable.states[0]}")', "payoffs": json.dumps(payoffs)}
    return asked | {"regress": f'{name} ~ "{others[-1].name}"' if others else f"{name} ~ {name}"}


def test_every_command_is_of_an_analyst_or_a_curator() -> None:
    commands = {one.name or one.callback.__name__ for one in app.registered_commands if one.callback is not None}
    assert commands == COMMANDS.keys() | CURATORS


EVERY_ANSWER = pytest.mark.costly("Every command with each of its options prints hostile names of a whole release.")


@pytest.mark.costly(
    "Names that steer the terminal of whoever reads a release are found by running each command.", always=True
)
@pytest.mark.parametrize(
    "kind", [*(pytest.param(kind, marks=EVERY_ANSWER) for kind in ("chain", "gappy")), "census", "structure", "linear"]
)
def test_no_command_prints_what_a_terminal_obeys(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened(tmp_path, monkeypatch, capfd)
    found = made_of(dc.laplace()) if kind == "chain" else evidence(kind)
    (tmp_path / "r.json").write_text(found.dumps())
    (tmp_path / "other.json").write_text(evidence("census").dumps())
    words = words_of(kind) if kind != "linear" else dict.fromkeys(("one", "cell", "payoffs", "regress"), "x" + MARKS[0])
    done = 0
    for command, options in COMMANDS.items():
        for option in options:
            for form in ([], ["--json"]):
                told = [words.get(word[1:-1], word) if word[0] == "{" else word for word in option]
                code = main([command, "r.json", *told, *form])
                out, err = capfd.readouterr()
                assert code in (0, 2), (command, option, err)
                assert not fault_of(out) and not fault_of(err), (command, option, form, fault_of(out), fault_of(err))
                done += code == 0
    assert done > (3 if kind in ("linear", "structure") else 12)
    for page in tmp_path.glob("x.html"):
        assert not fault_of(page.read_text())


def test_a_terminal_gets_no_controls_of_what_is_written_for_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for terminal in (True, False):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        write_out(f"a\n{MARKS[0]}\n")
        assert capsys.readouterr().out == ("a\n\\x1b[31m\n" if terminal else "a\n\x1b[31m\n")


@pytest.mark.parametrize("kind", ["laplace", "gappy", "census", "combined", "structure", "linear", "classes", "states"])
def test_no_page_and_no_reply_of_a_server_has_them(kind: str, tmp_path: Path) -> None:
    evidence(kind).save(tmp_path / f"{kind}.json")
    with Local([tmp_path / f"{kind}.json"]) as server:
        named = kind not in ("linear", "classes", "structure", "states")
        words = words_of(kind) if named else {"one": f'P("x{MARKS[0]}")', "cell": MARKS[2]}
        query = urlencode({"q": words["one"]})
        paths = ["/", f"/pages/{kind}", f"/pages/{kind}?{query}", f"/pages/{kind}/picture.svg", "/releases", "/metrics"]
        paths += [
            f"/releases/{kind}{part}" for part in ("", "/report", "/marginals", "/fit", "/explain", f"/query?{query}")
        ]
        paths += [f"/pages/{kind}?{urlencode({'q': MARKS[0]})}", f"/releases/{kind}/query?{urlencode({'q': MARKS[2]})}"]
        for path in paths:
            reply = server.ask(path)
            assert reply.status < 500 and not fault_of(reply.text), (path, fault_of(reply.text))


def test_a_word_anywhere_in_a_document_is_shown_or_refused_without_controls() -> None:
    """Every text of every document is replaced in its turn, by the seeds below."""
    rng, shown, refused = random.Random(7), 0, 0
    for kind in KINDS:
        found = study(kind)
        text = found.read_text() if isinstance(found, Path) else found.dumps()
        for _ in range(12):
            tree = json.loads(text)
            place = rng.choice([part for part in _objects(tree) if any(isinstance(one, str) for one in part.values())])
            place[rng.choice([key for key, one in place.items() if isinstance(one, str)])] = rng.choice(MARKS)
            try:
                read = dc.tools.loads(json.dumps(tree))
                shown += 1
            except dc.InputError as error:
                assert str(error).isprintable()
                refused += 1
                continue
            for method, told in texts_of(read):
                assert not fault_of(told), (kind, method, fault_of(told))
    assert shown > 20 and refused > 20
