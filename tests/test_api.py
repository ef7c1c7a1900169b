"""What a user imports: few names, each in one list, called alike, each documented by the same sections."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import doctest
import importlib
import inspect
import operator
import pydoc
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import discreet as dc
from folding import every

ROOT = Path(dc.__file__).parent
KERNEL = ("decisions", "external", "kinds", "results", "tools")
PACKS = ("designs", "discovery", "estimators", "latent", "research", "server")
MODULES = (*KERNEL, *PACKS)
MOST_NAMES, MOST_KERNEL_NAMES = 44, 120
"""At the top, and in all modules of the kernel with it."""
SECTIONS = ("Args", "Returns", "Raises", "Guarantee", "Source", "Example")
"""Of a docstring, in this order."""


def listed(module: ModuleType) -> dict[str, Any]:
    """Public names of a module with what they are."""
    return {name: getattr(module, name) for name in module.__all__}


def public() -> dict[str, Any]:
    """All that users are told to import, by its full name."""
    found = {f"discreet.{name}": thing for name, thing in listed(dc).items()}
    for module in MODULES:
        found |= {f"discreet.{module}.{name}": thing for name, thing in listed(getattr(dc, module)).items()}
    return found


PUBLIC = public()
FUNCTIONS = {name: thing for name, thing in PUBLIC.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public methods that our classes define, by their full names."""
    for owner, kind in CLASSES.items():
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            method = getattr(method, "__func__", method)
            if not name.startswith("_") and inspect.isfunction(method) and method.__module__.startswith("discreet."):
                yield f"{owner}.{name}", method


METHODS = dict(methods())
DOCUMENTED = FUNCTIONS | CLASSES | METHODS


# ------------------------------------------------------------------------------------------ which names


def test_few_names_are_at_the_top() -> None:
    assert len(dc.__all__) <= MOST_NAMES
    assert len(dc.__all__) + sum(len(getattr(dc, module).__all__) for module in KERNEL) <= MOST_KERNEL_NAMES
    assert not set(dc.__all__) & set(MODULES)


def test_a_name_stands_in_one_list() -> None:
    homes = [(name.rpartition(".")[2], name) for name in PUBLIC]
    twice = {short: [full for other, full in homes if other == short] for short, _ in homes}
    assert {short: full for short, full in twice.items() if len(full) > 1} == {}


def test_the_modules_are_the_files_and_the_package_and_the_page_of_the_api_name_them() -> None:
    stubs = {path.parent.name if path.stem == "__init__" else path.stem for path in ROOT.rglob("*.pyi")}
    assert stubs == {*MODULES, "discreet"}
    page = (ROOT.parent.parent / "docs/api/index.md").read_text()
    for module in MODULES:
        assert re.search(rf"^    {module} {{2,}}\S", dc.__doc__ or "", flags=re.MULTILINE), module
        assert f"discreet.{module}" in page, module


def test_every_name_is_written_once() -> None:
    for stub in ROOT.rglob("*.pyi"):
        names = [
            alias.name
            for node in ast.parse(stub.read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        ]
        assert len(names) == len(set(names)), stub
        beside = ast.parse(stub.with_suffix(".py").read_text())
        strings = {node.value for node in ast.walk(beside) if isinstance(node, ast.Constant)}
        # What old names have become stands beside them.
        assert not set(names) - {*MODULES, "check_fit", "external_table"} & strings, stub


@every(
    ("old", "new"),
    [
        ("fit", "check_fit"),
        ("measured", "external_table"),
        ("Client", "server.Client"),
        ("fourier", "research.fourier"),
        ("truncated_posterior", "research.truncated_posterior"),
        ("PrivatePCA", "estimators.PrivatePCA"),
        ("Design", "designs.Design"),
        ("noisy_moments", "designs.noisy_moments"),
    ],
)
def test_a_name_that_moved_says_where_it_is(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"^discreet\.{old} is discreet\.{new} now$"):
        assert getattr(dc, old) is operator.attrgetter(new)(dc)
    assert old not in dc.__all__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        dc.count_codes  # noqa: B018 - whether it is there is the question
    with pytest.raises(AttributeError):
        dc.tools.nothing  # noqa: B018


@pytest.mark.costly("What an import loads is seen in a fresh process for each module only.")
@every("module", ["", *MODULES])
def test_names_are_loaded_when_they_are_first_used(module: str) -> None:
    statement = f"import discreet.{module}" if module else "import discreet"
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "pyarrow", "pydantic"} & set(loaded) or module == "estimators"


# ------------------------------------------------------------------------------------------ how they are called


@every("name", [*FUNCTIONS, *METHODS])
def test_randomness_is_given_by_keyword_as_a_seed_or_a_generator(name: str) -> None:
    parameters = inspect.signature((FUNCTIONS | METHODS)[name]).parameters
    if "rng" in parameters:
        assert parameters["rng"].kind is inspect.Parameter.KEYWORD_ONLY
        assert "int" in str(parameters["rng"].annotation) or parameters["rng"].annotation == "Seed"
    assert not {"seed", "random", "generator"} & set(parameters)


@every("name", [*FUNCTIONS, *METHODS])
def test_the_same_arguments_have_the_same_names_places_and_defaults(name: str) -> None:
    function = (FUNCTIONS | METHODS)[name]
    parameters = inspect.signature(function).parameters
    by_keyword = inspect.Parameter.KEYWORD_ONLY
    by_place = ("discreet.tools.credible_interval", "discreet.designs.WeightPosterior.tails")  # of values, at a level
    if "level" in parameters and name not in by_place:
        assert parameters["level"].kind is by_keyword and parameters["level"].default == 0.95
    if "account" in parameters and name in FUNCTIONS and name != "discreet.estimators.private_scorer":
        assert parameters["account"].kind is by_keyword
    firsts = [one for one in parameters if one not in ("self", "cls")][:1]
    for first in ("posterior", "release", "mechanism") if name in FUNCTIONS else ():
        assert first not in parameters or firsts == [first] or parameters[first].kind is by_keyword
    if name in FUNCTIONS and {"prior", "guarantee"} <= set(parameters) and parameters["prior"].kind is not by_keyword:
        assert list(parameters).index("prior") < list(parameters).index("guarantee")


@pytest.mark.system_noise
def test_the_same_seed_is_the_same_draws_and_no_seed_is_others() -> None:
    coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
    prior = dc.Dirichlet.uniform(coin)
    one, same, fresh, other = (prior.draw(3, rng=rng)["coin"] for rng in (7, np.random.default_rng(7), None, None))
    assert np.array_equal(one, same)
    assert not np.array_equal(fresh, other)
    moving = np.random.default_rng(7)
    first, second = prior.draw(3, rng=moving)["coin"], prior.draw(3, rng=moving)["coin"]
    assert np.array_equal(first, one) and not np.array_equal(first, second)


@pytest.mark.parametrize("rng", [-1, 1.5, "7", True, [1, 2]])
def test_what_is_no_seed_is_refused(rng: Any) -> None:
    coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
    with pytest.raises(dc.InputError, match=r"rng is a seed .* or None"):
        dc.Dirichlet.uniform(coin).draw(1, rng=rng)


def test_a_release_answers_in_one_line(tmp_path: Path) -> None:
    smoke, lung = dc.Variable("smoke", ("yes", "no")), dc.Variable("lung", ("yes", "no"))
    network = dc.Network((smoke, lung), {"smoke": (), "lung": ("smoke",)})
    codes = {"smoke": [0, 1] * 50, "lung": [0, 1, 1, 1] * 25}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts = dc.tools.count_codes(network, codes)
    path = tmp_path / "release.json"
    dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1).save(path)

    answer = dc.load(path).posterior().answer("P(lung | smoke=yes)")
    assert [row["state"] for row in answer.rows] == [{"lung": "yes"}, {"lung": "no"}]
    assert answer.level == 0.95

    posterior = dc.Release.load(path).posterior(draws=200, rng=3)
    again = dc.noise_aware(dc.load(path), draws=200, rng=3)
    assert posterior.answer("P(lung)", level=0.9) == dc.answer(again, "P(lung)", level=0.9)
    assert posterior.answer("P(lung)") != dc.load(path).posterior(draws=200, rng=4).answer("P(lung)")
    assert dc.combine(dc.load(path), data="same").posterior(draws=20, rng=1).probabilities.draws == 20


def test_a_release_over_a_design_is_read_by_the_same_door() -> None:
    design = dc.designs.Design((dc.Variable("age", bounds=(0, 100)),), dc.Variable("days", bounds=(0, 40)))
    rows = dc.designs.read_rows(design, [[40.0], [60.0]], [3.0, 9.0])
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    normal = dc.designs.Normal(design, 1.0)
    made = dc.simulate(dc.designs.noisy_moments(), dc.designs.sum_moments(rows), normal, promise, rng=1)
    posterior = made.posterior(draws=40, rng=2)
    assert [row["name"] for row in posterior.rows()] == ["age", "intercept"]
    assert np.array_equal(posterior.weights, dc.read(made, draws=40, rng=2).weights)
    with pytest.raises(dc.InputError, match="over a design, not a network"):
        dc.noise_aware(made)


def test_the_wrong_thing_is_refused_in_a_sentence_that_says_which_is_right(tmp_path: Path) -> None:
    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    counts, prior = dc.tools.count_codes(coin, {"coin": [0, 1, 1]}), dc.Dirichlet.uniform(coin)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    made = dc.simulate(dc.laplace(), counts, prior, promise, rng=1)
    posterior = made.posterior(draws=50, rng=1)
    account = dc.Ledger("sqlite://").open("coins", promise)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: dc.simulate("laplace", counts, prior, promise, rng=1), r"such as laplace\(\)"),
        (lambda: dc.simulate(dc.laplace, counts, prior, promise, rng=1), r"such as laplace\(\)"),
        (lambda: dc.release("laplace", counts, prior, promise, account=account), r"such as laplace\(\)"),
        (lambda: dc.answer(made, "P(coin)"), r"release\.posterior\(\)"),
        (lambda: dc.answer_many(made, ["P(coin)"]), r"release\.posterior\(\)"),
        (lambda: dc.marginals(made), r"release\.posterior\(\)"),
        (lambda: dc.marginals(posterior, "coin=heads"), "a mapping of states"),
        (lambda: dc.read_records("coins.csv", coin), r"give its \.schema"),
        (lambda: dc.count("coins.csv", coin), "read_records"),
        (lambda: dc.load(tmp_path / "coins.draws"), r"PosteriorDraws\.load"),
        (lambda: account.ledger.open("coins", promise), r"use it, or another name"),
        (lambda: dc.Ledger("sqlite://").account("coins"), "do not share a ledger in memory"),
    ]
    for mistake, advice in mistakes:
        with pytest.raises(dc.InputError, match=advice):
            mistake()
    assert account.charges() == ()


# ------------------------------------------------------------------------------------------ what is said of them


def sections(thing: Any) -> list[str]:
    """Headings of a docstring, in their order."""
    return [
        name
        for line in (inspect.getdoc(thing) or "").splitlines()
        for name in SECTIONS
        if re.fullmatch(rf"{name}:( .*)?", line)
    ]


def needed(function: Callable[..., Any]) -> set[str]:
    """Sections that a function must have."""
    signature = inspect.signature(function)
    arguments = [name for name in signature.parameters if name not in ("self", "cls")]
    returns = signature.return_annotation not in ("None", None)
    return ({"Args"} if arguments else set()) | ({"Returns"} if returns else set()) | {"Raises", "Guarantee", "Example"}


def faults(name: str) -> list[str]:
    """What a docstring lacks."""
    thing = DOCUMENTED[name]
    had, text = sections(thing), inspect.getdoc(thing) or ""
    unexplained: list[str] = []
    if name in METHODS:
        wanted = {"Args"} if len(set(inspect.signature(thing).parameters) - {"self", "cls"}) > 1 else set()
    elif inspect.isclass(thing):
        if issubclass(thing, BaseException):
            return []
        fields = dataclasses.is_dataclass(thing) and [field for field in dataclasses.fields(thing) if field.init]
        wanted = {"Example"} | ({"Args"} if fields else set())
    else:
        wanted = needed(thing)
        explained = text.partition("Args:")[2].partition("Returns:")[0]
        arguments = [one for one in inspect.signature(thing).parameters if one not in ("self", "cls")]
        unexplained = [
            one for one in arguments if not re.search(rf"(^|[\s,*]){one}\b[^:\n]*:", explained, re.MULTILINE)
        ]
    return [
        *(f"no {section}" for section in SECTIONS if section in wanted and section not in had),
        *(f"{one} is not explained" for one in unexplained),
        *(["an Example that shows nothing"] if "Example" in had and ">>>" not in text.partition("Example:")[2] else []),
        *([] if had == [section for section in SECTIONS if section in had] else ["sections in another order"]),
    ]


def test_what_is_public_says_all_that_its_users_need() -> None:
    assert {name: faults(name) for name in DOCUMENTED if faults(name)} == {}


def test_annotations_of_all_functions_can_be_read() -> None:
    for name, function in FUNCTIONS.items():
        module = importlib.import_module(function.__module__)
        if "TYPE_CHECKING" not in vars(module):
            assert typing.get_type_hints(function), name


def test_examples_need_nothing_that_they_do_not_import() -> None:
    unknown = {name: left for name, thing in DOCUMENTED.items() if (left := _undefined(inspect.getdoc(thing) or ""))}
    assert unknown == {}


def _undefined(text: str) -> set[str]:
    """Names that the examples of a docstring read before they define or import them."""
    known, unknown = set(dir(builtins)), set()
    for example in doctest.DocTestParser().get_examples(text):
        nodes = list(ast.walk(ast.parse(example.source)))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        known |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        known |= {alias.asname or alias.name for node in imports for alias in node.names}
        unknown |= {node.id for node in names if node.id not in known}
    return unknown


def test_what_help_refers_to_can_be_asked_for() -> None:
    for name, thing in DOCUMENTED.items():
        text = inspect.getdoc(thing) or ""
        assert not re.search(r"`[\w/]+\.py`|module's docstring", text), name
        for asked in re.findall(r"`(?:help\(\")?(discreet(?:\.\w+)+)", text):
            assert pydoc.locate(asked) is not None, (name, asked)
