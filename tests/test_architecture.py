"""The page about the house is true: its drawing is the import graph, its rooms are the folders, its paths exist."""

from __future__ import annotations

import re
from functools import cache

import networkx as nx
import pytest

from folding import every
from makefile import ROOT, targets
from test_layers import MAY_IMPORT, MODULES, PRIVATE, PUBLIC, TYPES_ABOVE, ours

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FOLDERS = {module.split("/")[0] for module in MODULES}


@cache
def imported() -> frozenset[tuple[str, str]]:
    """Which folder imports which; not `errors`, which is a file that all may import."""
    down = {module: ours(module) & FOLDERS - TYPES_ABOVE.get(module, set()) for module in MODULES}
    pairs = {(module.split("/")[0], other) for module, others in down.items() for other in others}
    return frozenset((folder, other) for folder, other in pairs if folder != other)


def drawn(page: str) -> set[tuple[str, str]]:
    """The arrows of the page's one drawing."""
    (drawing,) = re.findall(r"```mermaid\n(.*?)```", page, re.DOTALL)
    return set(re.findall(r"^ +(\w+) --> (\w+)$", drawing, re.MULTILINE))


def untrue(arrows: set[tuple[str, str]], imports: frozenset[tuple[str, str]]) -> list[str]:
    """What a drawing says that the code does not, and the reverse.

    Args:
        arrows: of the drawing, from a folder to one that it imports.
        imports: that are there.

    Returns:
        A line for each arrow that is no import, each import that no path of arrows is, and each arrow that follows from
        others.
    """
    graph = nx.DiGraph(sorted(arrows))
    reached = {(a, b) for a in graph for b in nx.descendants(graph, a)}
    found = [f"{a} does not import {b}" for a, b in sorted(arrows - imports)]
    found += [f"{a} imports {b}, which is not drawn" for a, b in sorted(imports - reached)]
    if nx.is_directed_acyclic_graph(graph):
        needed = set(nx.transitive_reduction(graph).edges)
        found += [f"{a} --> {b} follows from other arrows" for a, b in sorted(arrows - needed)]
    else:
        found.append("the arrows go around in a circle")
    return found


@pytest.mark.costly("The page's drawing is compared with the imports of every file.")
def test_the_drawing_is_the_import_graph() -> None:
    assert untrue(drawn(PAGE), imported()) == []


def test_what_is_drawn_is_allowed() -> None:
    assert all(other in MAY_IMPORT[folder] for folder, other in drawn(PAGE))


def test_each_wing_is_drawn_as_one_and_no_path_joins_them() -> None:
    for wing, folders in (("private wing", PRIVATE), ("public wing", PUBLIC)):
        (inside,) = re.findall(rf'subgraph \w+\["{wing}"\]\n(.*?)\n    end\n', PAGE, re.DOTALL)
        assert set(re.findall(r"^ +(\w+)\[", inside, re.MULTILINE)) == folders & FOLDERS
    graph = nx.DiGraph(sorted(drawn(PAGE)))
    for private in PRIVATE & FOLDERS:
        for public in PUBLIC & FOLDERS:
            assert not nx.has_path(graph, private, public) and not nx.has_path(graph, public, private)


@every(
    ("old", "new", "told"),
    [
        ("    mechanisms --> records\n", "", "mechanisms imports records, which is not drawn"),
        ("    queries --> posterior\n", "    queries --> records\n", "queries does not import records"),
        (
            "    cli --> verify\n",
            "    cli --> verify\n    cli --> queries\n",
            "cli --> queries follows from other arrows",
        ),
        ("    cli --> verify\n", "    cli --> verify\n    model --> cli\n", "the arrows go around in a circle"),
    ],
)
def test_a_drawing_that_is_not_true_is_found(old: str, new: str, told: str) -> None:
    assert PAGE.count(old) == 1
    assert told in untrue(drawn(PAGE.replace(old, new)), imported())


def test_the_rooms_are_the_folders() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [room for room in MAY_IMPORT if room != "errors"]
    (drawing,) = re.findall(r"```mermaid\n(.*?)```", PAGE, re.DOTALL)
    assert set(re.findall(r"^ +(\w+)\[", drawing, re.MULTILINE)) == FOLDERS


# ------------------------------------------------------------------------------------------ paths that pages name

PAGES = ["CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
PAGES += sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("decisions", "guides")
    for path in (ROOT / "docs" / folder).glob("*.md")
)
TOP = sorted(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".venv", ".git")))
PATH = re.compile(rf"(?:src/discreet|{'|'.join(map(re.escape, [*TOP, '.github', '.ci']))})(?:/[\w.*-]+)+/?")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#[^)\s]*)?\)")


def missing(page: str, text: str) -> list[str]:
    """Paths of the project that a page names, in code or as links, and that are not there."""
    named = [path for code in re.findall(r"`([^`\n]+)`", text) for path in PATH.findall(code) if code.startswith(path)]
    found = [path for path in named if not list(ROOT.glob(path.rstrip("/.")))]
    linked = [link for link in LINK.findall(text) if link]
    return found + [link for link in linked if not (ROOT / page).parent.joinpath(link).exists()]


@every("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    assert missing(page, (ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("see `src/discreet/nowhere/`", ["src/discreet/nowhere/"]),
        ("see `tests/test_nothing.py` and `tests/test_cli*.py`", ["tests/test_nothing.py"]),
        ("[words](docs/none.md#part)", ["docs/none.md"]),
        ("[words](#part) [words](https://example.org/x) [words](README.md) `a/b.json`", []),
    ],
)
def test_a_path_that_is_not_there_is_found(text: str, told: list[str]) -> None:
    assert missing("CONTRIBUTING.md", text) == told


# ------------------------------------------------------------------------------------------ where a change begins

CHANGES = (
    "a mechanism whose payload is known",
    "a mechanism with a payload of its own",
    "a mechanism over a design",
    "a field of a payload",
    "an interval",
    "a number in every answer",
    "what is done with missing values, or with several records of a unit",
    "a field of a release",
    "laws past exact inference",
    "a database for the ledger",
    "a kind of query",
    "a source of records",
    "a posterior of networks",
    "a posterior of a design's payload",
    "an estimator",
    "a command, or an option",
    "a plot or export of a posterior",
    "an experiment",
    "a rule for which pairs a release measures",
    "a response of regressions",
    "a command of a pack",
    "an endpoint of the server",
    "a bug in the scale or law of noise",
    "a law of noise",
    "a bug in a sensitivity",
    "a format to export to",
)


def test_each_change_has_its_room_and_its_tests() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith(("| a ", "| an ", "| what ", "| laws "))
    ]
    assert tuple(row[0] for row in rows) == CHANGES
    for change, start, besides, tests in rows:
        assert re.search(r"`(src/discreet|studies/experiments)\b", start), change
        assert besides and re.search(r"`(studies/)?tests/", tests), change


def test_commands_that_the_page_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = [
        *re.findall(r"`(make [^`]+)`", text.replace("\n", " ")),
        *re.findall(r"^(make \S[^#\n]*)", text, re.MULTILINE),
    ]
    named = {word for line in code for word in line.split()[1:] if "=" not in word}
    assert {"demo", "check", "hooks", "package", "test-lowest"} <= named <= set(targets())
