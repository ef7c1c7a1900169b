"""The notebooks of `docs` run from top to bottom in a folder of their own, write nowhere else, and are kept clean."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from notebooks import NOTEBOOKS, stored

NAMES = [path.stem for path in NOTEBOOKS]
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
CELL_SECONDS = 300
"""After which a cell hangs; no measure of speed."""
MOST_CODE_COLUMNS = 92
"""Of a line of code on the site, at a desk; `docs/notebooks/ruff.toml` has the same."""
PUBLIC_PATHS = re.compile(r"https?://\S+|</\w+>|/>")
"""What has slashes and is no path: addresses, and the ends of HTML elements."""
ABSOLUTE = re.compile(r"(?<![\w.\-~<])/+(home|root|tmp|usr|var|work|opt|mnt|Users|private|data)(/|\b)|[A-Za-z]:\\\\")


def test_there_is_one_for_each_who_uses_it() -> None:
    assert NAMES == ["analyst", "curator", "estimators"]


@EACH
def test_it_is_stored_as_whoever_saves_it_must_store_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == stored(path.stem, text), "run `python tests/notebooks.py`"
    assert all(cell.get("outputs", []) == [] for cell in json.loads(text)["cells"])


def test_what_a_run_leaves_is_not_stored() -> None:
    printed = {"output_type": "stream", "name": "stdout", "text": "2"}
    ran = {"cell_type": "code", "id": "x", "metadata": {"collapsed": True, "mystnb": 1}, "source": "1 + 1\n"}
    ran |= {"execution_count": 7, "outputs": [printed]}
    empty = {"cell_type": "markdown", "id": "y", "metadata": {}, "source": []}
    text = stored("n", json.dumps({"cells": [empty, ran], "metadata": {"widgets": {}}}))
    kept = {"cell_type": "code", "execution_count": None, "id": "n-01", "metadata": {"mystnb": 1}, "outputs": []}
    assert json.loads(text)["cells"] == [kept | {"source": ["1 + 1"]}]
    assert "widgets" not in text and stored("n", text) == text


@EACH
def test_its_lines_are_shown_whole(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert max(len(line.rstrip("\n")) for line in cell["source"]) <= MOST_CODE_COLUMNS, cell["id"]


@EACH
def test_its_links_lead_to_pages(path: Path) -> None:
    told = "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"])
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", told) if not link.startswith("http")]
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


@EACH
def test_nobody_reads_what_could_be_the_readers_own(path: Path) -> None:
    """Ledgers are in memory or in the temporary folder: no fit spends from an account that a reader has."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        for call in (node for node in ast.walk(ast.parse("".join(cell["source"]))) if isinstance(node, ast.Call)):
            assert "default_account" not in ast.unparse(call.func)
            if ast.unparse(call.func) == "dc.Ledger":
                assert ast.unparse(call.args[0]) in ("'sqlite://'", "f\"sqlite:///{place / 'budget.db'}\"")
            if "Private" in ast.unparse(call.func) and not call.func.attr.startswith("from_"):  # type: ignore[attr-defined]
                given = {one.arg for one in call.keywords}
                assert {"guarantee", "account"} <= given or "Search" in ast.unparse(call.func)


def test_absolute_paths_would_be_seen() -> None:
    for text in ("'/tmp/x.db'", "Ledger(sqlite:////tmp/x/budget.db)", "in /home/ann/r.json", r"C:\\Users\\ann"):
        assert ABSOLUTE.search(PUBLIC_PATHS.sub(" ", text)), text
    for text in ("https://example.org/tmp/x", "<b>work</b> <br/>", "either/or", "../data/x.csv", "and/or private"):
        assert ABSOLUTE.search(PUBLIC_PATHS.sub(" ", text)) is None, text


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the run, and a home in which nobody has a ledger, settings or a profile."""
    home, folder = tmp_path / "home", tmp_path / "run"
    home.mkdir()
    folder.mkdir()
    for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{home / 'nobodys.db'}")
    monkeypatch.setenv("DISCREET_CONFIG", str(home / "none.toml"))
    monkeypatch.setenv("DISCREET_TMPDIR", str(home))
    return folder


def run(path: Path, folder: Path) -> Any:
    """Run a notebook with the kernel of this environment; an error in a cell is one of the test's."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (the extra `docs`)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (the extra `docs`)")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra `docs`)")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3", resources=where).execute()
    return notebook


def told_of(cell: Any) -> str:
    """The text that stands for the picture of a cell."""
    return str(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))


def outputs(notebook: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All that its cells show, with the names of the cells."""
    for cell in notebook.cells:
        for shown in cell.get("outputs", []):
            yield cell["id"], shown


@pytest.mark.costly("A notebook that no longer runs, or prints a path, is found by running it.")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's own libraries
@EACH
def test_it_runs_and_says_nothing_that_it_should_not(path: Path, alone: Path) -> None:
    notebook = run(path, alone)
    private = {str(alone.parent), socket.gethostname(), str(Path(__file__).parents[2]), os.path.realpath(alone)}
    seen = 0
    for cell, shown in outputs(notebook):
        assert shown["output_type"] in ("execute_result", "display_data"), (cell, shown)
        told = "\n".join(str(text) for kind, text in shown["data"].items() if kind.startswith("text/"))
        seen += "text/html" in shown["data"] or "image/png" in shown["data"]
        assert not any(name in told for name in private), cell
        assert ABSOLUTE.search(PUBLIC_PATHS.sub(" ", told)) is None, (cell, ABSOLUTE.search(told))
    assert seen >= 5  # people look rather than read
    drawn = {cell for cell, shown in outputs(notebook) if "image/png" in shown.get("data", {})}
    assert drawn == {cell["id"] for cell in notebook.cells if len(told_of(cell)) > 20}
    assert list(alone.iterdir()) == []
    assert not (alone.parent / "home" / "nobodys.db").exists()
