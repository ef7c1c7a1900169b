"""A running server holds no code that reads records, and answers where the libraries for that are not installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from folding import every
from served_kinds import plain, save
from serving import MAIN, Served, served

FORBIDDEN = ("discreet.records", "discreet.mechanisms", "discreet.estimators", "discreet.verify", "duckdb", "ibis",
             "opendp", "pandas", "polars", "sqlalchemy")  # fmt: skip
BLOCKED = f"""
import sys
from importlib.abc import MetaPathFinder
class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {FORBIDDEN!r}):
            raise ModuleNotFoundError(f"no {{name}} here", name=name)
sys.meta_path.insert(0, Block())
"""
TELL = """
import atexit, os, signal
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
atexit.register(lambda: open(os.environ["TOLD"], "w").write("\\n".join(sys.modules)))
"""
PATHS = ("releases", "releases/{}", "releases/{}/marginals", "releases/{}/marginals?e=a%3Dyes&format=csv",
         "releases/{}/query", "releases/{}/query?q=P(c)&q=MAP(b)", "releases/{}/query?q=P(b,c)&assume=robust",
         "releases/{}/query?q=P(b,c)&assume=nothing", "releases/{}/regress?target=c&on=a&on=b", "releases/{}/explain",
         "releases/{}/explain?q=P(c)", "releases/{}/fit", "releases/{}/synthetic?n=2",
         "releases/{}/synthetic?n=2&format=parquet", "releases/{}/synthetic?n=2&format=arrow&sets=2",
         "releases/{}/report", "releases/{}/report?format=markdown", "healthz", "metrics", "openapi.json")  # fmt: skip
BODIES = {
    "query": {"q": ["P(c)"]},
    "predict": {"records": [{"a": "yes"}], "target": "c"},
    "decide": {"quantity": "P(c=yes)"},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("wing")
    release = plain(1)
    release.posterior(draws=100, rng=1).save(folder / "stored.draws")
    plain(2).save(folder / "drawn.json")
    return [folder / "stored.draws", folder / "drawn.json", *(save(name, folder) for name in ("linear", "family"))]


def ask_everything(server: Served) -> None:
    """A question of every operation, of a release with stored draws and of one without, and of other kinds."""
    for name in ("stored", "drawn"):
        for path in PATHS:
            got = server.ask(f"/{path.format(name)}")
            assert got.status == 200, (path, got.text)
        for operation, body in BODIES.items():
            got = server.ask(f"/releases/{name}/{operation}", body)
            assert got.status == 200, (operation, got.text)
    for name in ("linear", "family"):
        assert server.ask(f"/releases/{name}/query").status == 200
        assert server.ask(f"/releases/{name}/report").status == 200
    assert server.ask("/releases/linear/predict", {"records": [{"age": 0.1, "dose": 0.2}]}).status == 200


@pytest.mark.costly("What a server could read records with shows in its process once all was asked.", always=True)
@every("before", ["", BLOCKED])
def test_a_running_server_holds_nothing_that_reads_records(
    files: list[Path], tmp_path_factory: pytest.TempPathFactory, before: str
) -> None:
    told = tmp_path_factory.mktemp("told") / "modules"
    code = f"{before}{MAIN.replace('sys.exit(main())', TELL)}\nsys.exit(main())"
    with served(files, code=code, environment={"TOLD": str(told)}) as server:
        ask_everything(server)
    loaded = told.read_text().split("\n")
    assert "discreet.server.replies" in loaded and "discreet.research.readers.family_draws" in loaded
    assert [name for name in loaded if name.startswith(FORBIDDEN)] == []


def test_what_may_be_entered_by_accident_says_what_to_install(files: list[Path]) -> None:
    hidden = BLOCKED.replace(repr(FORBIDDEN), repr(("starlette",)))
    with pytest.raises(AssertionError, match=r"pip install '\.\[serve\]'"), served(files, code=hidden + MAIN):
        pass


def test_it_starts_with_a_line_for_programs(files: list[Path]) -> None:
    with served(files[:1]) as server:
        assert server.url.startswith("http://127.0.0.1:") and server.url.endswith("/")
        assert json.loads(server.ask("/healthz").body)["status"] == "ok"
