"""The site: built without a warning, every public name on it once, no request to others, open to keys and readers."""

from __future__ import annotations

import functools
import http.server
import importlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
from browsing import DESK, PHONE, opened_browser, violations
from makefile import ROOT

LOOKED_AT = ("index", "guides/start", "theory", "api/research", "experiments/errata", "search")
"""One page of each kind; `thorough` looks at all."""
MODULES = ("designs", "decisions", "external", "kinds", "results", "tools", "estimators", "research", "server")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


AS_BUILT = pytest.mark.costly(
    "What is wrong with the site as it is built shows there only, some of it in a browser.",
    reads=("src/discreet", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    words=True,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it; its notebooks are run by a test of their own."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed (the docs extra)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-D", "nb_execution_mode=off", str(ROOT / "docs"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from opened_browser()


@AS_BUILT
def test_every_public_name_is_described_once(site: Path) -> None:
    inventory = pytest.importorskip("sphinx.util.inventory").InventoryFile
    with (site / "objects.inv").open("rb") as file:
        found = inventory.load(file, "", lambda base, path: path)
    described = {name for kind, names in found.items() if kind.startswith("py:") for name in names}
    public = {f"discreet.{name}" for name in dc.__all__ if name not in dc.estimators.__all__}
    for module in MODULES:
        names = importlib.import_module(f"discreet.{module}").__all__
        public |= {f"discreet.{module}.{name}" for name in names}
    assert public - described == set()
    last = Counter(name.rpartition(".")[2] for name in public)
    assert [name for name, times in last.items() if times > 1] == []


def check_page(browser: Any, url: str, size: tuple[int, int]) -> list[str]:
    """What is wrong with a page; nothing is asked of other hosts, said on the console, or wider than the window."""
    host = url.split("/")[2]
    opened = browser.new_page(viewport={"width": size[0], "height": size[1]})
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(f"console: {message.text}"))
    opened.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    opened.on("request", lambda asked: wrong.append(f"asks {asked.url}") if asked.url.split("/")[2] != host else None)
    opened.goto(url)
    width = opened.evaluate("document.documentElement.scrollWidth")
    wrong += [] if width <= size[0] else [f"{width} pixels wide"]
    broken = opened.evaluate(
        "[...document.images].filter(i => i.complete && !i.naturalWidth && !i.loading).map(i => i.src)"
    )
    wrong += [f"no picture: {one}" for one in broken]
    wrong += violations(opened)
    opened.close()
    return [f"{url}: {one}" for one in wrong]


@AS_BUILT
def test_pages_of_each_kind_are_open_to_all(browser: Any, address: str) -> None:
    wrong = [one for page in LOOKED_AT for one in check_page(browser, f"{address}/{page}.html", PHONE)]
    wrong += check_page(browser, f"{address}/index.html", DESK)
    assert wrong == []


@AS_BUILT
@pytest.mark.thorough
def test_all_pages_are_open_to_all(browser: Any, site: Path, address: str) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert len(pages) > 60
    assert [
        one for page in pages for size in (PHONE, DESK) for one in check_page(browser, f"{address}/{page}", size)
    ] == []


@AS_BUILT
def test_a_page_can_be_printed(browser: Any, address: str) -> None:
    opened = browser.new_page()
    opened.goto(f"{address}/guides/start.html")
    assert opened.pdf(format="A4").startswith(b"%PDF")
    opened.close()
