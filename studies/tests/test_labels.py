"""What a page or a bench calls the default is `dc.planned()`, and what is `dc.planned(pairs_share=0)` is called so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import discreet as dc
from bench import utility
from experiments import chowdhury, dimitrakakis_regret, peer_tasks, scaling, shipped, zhang_figure_1
from experiments.errors import Data, Truth
from experiments.harness import Task
from experiments.networks import asia
from experiments.shipped import CALLS, NO_PAIRS, SHIPPED
from folding import every
from syntax_trees import tree_of
from tidy import ROOT

HOME = "experiments/shipped.py"
SAID = re.compile(r"\b([Dd]efault|[Ss]hipped)\b")
ANOTHER = {
    "bench/calibration.py": "the reader that a user gets; mechanisms are by name, without options",
    "bench/coverage.py": "the same",
    "bench/inference.py": "an option of the command line",
    "bench/pictures.py": "lines of those readers",
    "bench/searching.py": "an estimator with the settings that it comes with",
    "experiments/chowdhury_allocation.py": "mechanisms of the package, by their calls",
    "experiments/coverage.py": "`planned` by its name, without options",
    "experiments/coverage_networks.py": "the same",
    "experiments/dimitrakakis_examples.py": "families of the package",
    "experiments/williams_figure_3a.py": "the noise of gradients where nothing else is asked for",
    "experiments/williams_methods.py": "the package's rule for its gradients",
    "experiments/williams_tables.py": "the same",
}
"""Files that call something else default or shipped, and what."""
DATA = Data.drawn(Truth.of(asia(), "asia"), 500, np.random.default_rng(1))
Options = list[Mapping[str, Any]]


def files() -> dict[str, ast.Module]:
    """Syntax trees of benches and experiments by file."""
    paths = sorted(chain(*((ROOT / "studies" / name).rglob("*.py") for name in ("bench", "experiments"))))
    return {path.relative_to(ROOT / "studies").as_posix(): tree_of(path) for path in paths}


def options_of(tree: ast.Module) -> Iterator[str]:
    """Options that a file gives `dc.planned`, or the mechanism of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(r"""\.planned$|\[["']planned["']\]$""", ast.unparse(node.func)):
            yield ", ".join(ast.unparse(option) for option in (*node.args, *node.keywords))


def says_default(tree: ast.Module) -> bool:
    """Whether a text of a file that is no docstring calls something default or shipped."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return any(SAID.search(node.value) for node in constants if isinstance(node.value, str))


def names_label(tree: ast.Module) -> bool:
    """Whether a file takes the label of the default from where its mechanism is."""
    taken = (
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and str(node.module).endswith("shipped")
    )
    return any(name.name == "SHIPPED" for node in taken for name in node.names)


def test_options_of_planned_stand_beside_their_labels() -> None:
    """In one file: a page that has another release than the default cannot but say so."""
    given = {name: [told for told in options_of(tree) if told] for name, tree in files().items() if name != HOME}
    assert not {name: told for name, told in given.items() if told}


def test_who_says_default_takes_the_label_of_the_default() -> None:
    said = {name for name, tree in files().items() if name != HOME and says_default(tree)}
    assert said - {name for name, tree in files().items() if names_label(tree)} == set(ANOTHER)
    assert dc.tools.MECHANISMS["planned"].make is dc.planned, "by name it is the default"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options of all calls of `dc.planned`."""
    calls: Options = []
    make = dc.planned

    def noted(**options: Any) -> dc.tools.Mechanism:
        calls.append(options)
        return make(**options)

    monkeypatch.setattr(dc, "planned", noted)
    return calls


def run_table(label: str, rng: np.random.Generator) -> None:
    """Every table of methods by label that pages have."""
    chowdhury.METHODS[label].measure(DATA, 1.0, 1, rng)
    zhang_figure_1.OFFERED[label][0]()
    if label in scaling.METHODS:
        scaling.METHODS[label](DATA, 1.0, rng)


@every("label", [SHIPPED, NO_PAIRS])
def test_labels_run_what_they_say(asked: Options, label: str) -> None:
    asked.clear()
    run_table(label, np.random.default_rng(2))
    assert len(asked) >= 2
    told = ast.parse(CALLS[label].strip("`"), mode="eval").body
    assert isinstance(told, ast.Call) and not told.args
    options = {str(option.arg): ast.literal_eval(option.value) for option in told.keywords}
    assert asked == [options] * len(asked)
    assert options == ({} if "default" in label else {"pairs_share": 0})


def test_labels_of_a_bench_run_what_they_say(asked: Options) -> None:
    """Those that start with "default" are the default; "planned" and "alone" are documented to be without pairs."""
    for name, method in utility.METHODS.items():
        asked.clear()
        if name.startswith(("default", "planned", "alone")):
            method.measure(DATA, "1", dc.Relation.ADD_REMOVE, np.random.default_rng(3))
            (options,) = asked
            assert (options == {}) == name.startswith("default"), name
            assert ("pairs_share" in options) == (not name.startswith("default")), name


def test_labels_beside_peers_run_what_they_say(asked: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label comes with the tables of the release that was made last."""
    monkeypatch.setattr(peer_tasks, "absent", lambda: {"mbi": "", "DataSynthesizer": ""})
    monkeypatch.setattr(dc, "estimate", lambda release, **_: dc.Dirichlet.uniform(release.network).mean())
    labels: list[str] = []
    for ours in (peer_tasks._under_add_remove, peer_tasks._under_replace):
        for label, *_ in ours(DATA, Task("peers", {"task": "asia"}, 1, 0)):
            assert asked[-1] == shipped.OPTIONS[label]
            labels.append(label)
    assert set(labels) == {SHIPPED, NO_PAIRS} and len(labels) == len(asked)


def test_the_default_of_the_page_on_regret_is_the_default(asked: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    class EnoughError(Exception):
        """The release was asked for."""

    def simulate(mechanism: dc.tools.Mechanism, *_: Any, **__: Any) -> SimpleNamespace:
        if mechanism.name == "planned":
            raise EnoughError
        draws = dc.Dirichlet.uniform(asia().network, 1.0).draw(2, rng=np.random.default_rng(1))
        return SimpleNamespace(payload=dc.research.ParameterDraws(draws.network, draws, draws=2))

    monkeypatch.setattr(dc, "simulate", simulate)
    monkeypatch.setattr(dimitrakakis_regret, "DRAWS", ())
    with pytest.raises(EnoughError):
        list(dimitrakakis_regret.measure(Task("dimitrakakis_regret", {"game": "epsilon 1"}, 1, 0)))
    assert asked == [{}]


# ------------------------------------------------------------------------------------------ texts

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])


def confused(text: str) -> list[str]:
    """Sentences and rows of tables that speak of the default and of `pairs_share=0`, and do not say what is which."""
    parts = re.split(r"(?<=[.;:])\s+(?=[A-Z*`\[])|\n\n|\n(?=[|*#-])", text.replace(NO_PAIRS, "no pairs"))
    return [
        part
        for part in parts
        if re.search(r"\bdefault\b", part) and "pairs_share=0" in part and "planned()" not in part
    ]


@every(
    ("text", "faults"),
    [
        ("| shipped default | `dc.planned(pairs_share=0)` read by `dc.estimate` |", 1),
        ("| shipped default | `dc.planned()` read by `dc.estimate` |\n| no pairs | `dc.planned(pairs_share=0)` |", 0),
        ("The default, `planned()`, beside `planned(pairs_share=0)`: less.", 0),
        ("Releases by the default have this error (`planned(pairs_share=0)`).", 1),
        (f"{SHIPPED} keeps 4 of the 6 limits; {NO_PAIRS} keeps 5", 0),
        ("It is the default. Without pairs, `planned(pairs_share=0)`, it is less.", 0),
    ],
)
def test_a_text_that_confuses_both_is_seen(text: str, faults: int) -> None:
    assert len(confused(text)) == faults


def test_no_text_calls_the_release_without_pairs_the_default() -> None:
    found = {path.relative_to(ROOT).as_posix(): confused(path.read_text(encoding="utf-8")) for path in PAGES}
    assert not {name: parts for name, parts in found.items() if parts}
