"""What the README and the pages of `docs` tell a reader to run does run."""

from __future__ import annotations

import atexit
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from discreet.cli.cli import main
from discreet.formats.project_file import Project
from serving import served
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS
ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/guides").glob("*.md")),
    )
}
ELSEWHERE = {"docs/engines.md", "docs/teams.md"}
"""Pages whose commands need a server; tests/test_engines.py and tests/test_cli_ledger.py start one and run them."""
VISITS = 'awk \'BEGIN { print "smoke,lung,xray,age"; for (i = 0; i < 2000; i++) '
VISITS += 'print (i % 3 ? "no" : "yes") "," (i % 7 ? "no" : "yes") "," (i % 5 ? "no" : "yes") "," '
VISITS += '(i % 2 ? "old" : "young") }\' > visits.csv'
SMALL = "variable {} {{ type discrete [ 2 ] {{ no, yes }}; }}"
BEFORE = {
    "docs/commands.md": ["discreet ledger open patients --epsilon 3 --delta 1e-6 --relation add-remove"],
    "docs/network.md": [
        VISITS,
        "head -50 visits.csv > public_sample.csv",
        "discreet ledger open visits --epsilon 2 --relation add-remove",
    ],
    "docs/domain.md": [VISITS, "discreet ledger open visits --epsilon 3 --delta 1e-6 --relation add-remove"],
    "docs/numbers.md": [
        """printf '{"variables": [{"name": "city", "states": ["no", "yes"]}, {"name": "wage", "type": "integer", """
        """"bounds": [0, 5000], "bins": [200, 400, 800]}]}' > schema.json""",
        "printf 'city -> wage\\n' > arcs.txt",
        'awk \'BEGIN { print "city,wage"; for (i = 0; i < 5000; i++) print (i % 2 ? "no" : "yes") "," '
        "(i * 7 % 1500) }' > town.csv",
        "discreet ledger open town --epsilon 2 --relation add-remove",
        "discreet release town.csv --account town --epsilon 1 --network arcs.txt --schema schema.json "
        "--output release.json",
    ],
    "docs/external.md": [
        "printf 'smoke,count\\nno,600\\nyes,400\\n' > smoke.csv",
        "printf 'smoke,ill,count\\nno,no,561.2\\nno,yes,42.9\\nyes,no,301.8\\nyes,yes,95.1\\n' > cells.csv",
        f"printf 'network n {{ }} {SMALL.format('smoke')} {SMALL.format('ill')} probability ( smoke ) {{ }} "
        "probability ( ill | smoke ) { }' > net.bif",
    ],
}
"""What a page supposes to be there."""
NOT_RUN = ("make", "pip", "git", "python -m venv", "#")
ADDRESS = "http://127.0.0.1:8000/"
"""Where pages have their server; here it listens on a port that is free."""


@cache
def demo() -> Path:
    """What the line leaves that several pages begin with."""
    folder = Path(tempfile.mkdtemp(prefix="demo"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    assert main(["demo", "--keep", str(folder / "demo")]) == 0
    return folder / "demo"


def commands(page: str) -> str:
    """What stands in a page's blocks for the shell."""
    return "".join(re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE))


def words_of(line: str) -> list[str] | None:
    """The words of one of our commands, or None where a shell has to read it: of others, redirections and pipes."""
    if not line.startswith("discreet "):
        return None
    parts = shlex.shlex(line, posix=True, punctuation_chars=True)
    parts.wordchars += "@:[]{}%+,"
    words = list(parts)[1:]
    return None if {">", "|", "<", "(", ";"} & set(words) else words


def shortened(words: list[str]) -> list[str]:
    """A command that repeats what it does is told to do so less often, the last word being heard."""
    less = {
        "plan": [] if "--within" in words else ["--repeats", "1"],
        "sample": ["--sets", "3"] if "--sets" in words else [],
    }
    drawn = words[0] in DRAWING and words[1].endswith(".json") and "--draws" not in words
    return [*words, *less.get(words[0], []), *(["--draws", "100"] if drawn else [])]


DRAWING = ("query", "report", "draw", "sample", "export")
"""Commands that draw from a posterior, of a release 1,000 times."""
SAME_EVERYWHERE = ("plan", "audit")
"""Commands that say the same wherever they are run, being about the demo or about mechanisms."""
RUN_BEFORE: set[frozenset[str]] = set()
"""What of these was run for another page."""


def is_repeated(words: list[str]) -> bool:
    """Whether a command was run for another page, and leaves nothing that a later line needs."""
    if words[0] not in SAME_EVERYWHERE or {"--output", "--picture", "--replace"} & set(words):
        return False
    known = frozenset(words) in RUN_BEFORE
    RUN_BEFORE.add(frozenset(words))
    return known


@pytest.mark.costly("A command of a page that no longer runs is found by running it.")
@pytest.mark.parametrize(
    "page", [name for name in PAGES if "discreet " in commands(PAGES[name]) and name not in ELSEWHERE]
)
def test_the_commands_of_pages_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ours in this process, which has loaded what they need; the shell's own lines, and pipes, in a shell.

    A server runs beside them until the page starts another one, or ends.
    """
    if "curl " in commands(PAGES[page]) and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    text = "\n".join(BEFORE.get(page, [])) + "\n" + commands(PAGES[page])
    if "demo/" in text and "demo --keep demo" not in text:
        shutil.copytree(demo(), "demo")
    with ExitStack() as servers:
        run_lines([*text.replace("\\\n", " ").splitlines(), "discreet --version"], servers, capfd)


def run_lines(lines: list[str], servers: ExitStack, capfd: pytest.CaptureFixture[str]) -> None:
    """Run what a page has, line by line."""
    waiting: list[str] = []
    address = ADDRESS
    for line in lines:
        words = None if waiting and "<<" in waiting[-1] else words_of(line)
        if words is None:
            waiting += [] if line.startswith(NOT_RUN) else [line]
            continue
        if waiting:
            script = "\n".join(waiting).replace(ADDRESS, address)
            subprocess.run(["bash", "-e", "-c", script], check=True, capture_output=True)
            waiting = []
        if words == ["demo", "--keep", "demo"]:
            shutil.copytree(demo(), "demo")
            continue
        if words[0] == "serve":
            servers.close()
            address = servers.enter_context(served(words[1:])).url
            continue
        if is_repeated(words):
            continue
        code = main(shortened(words))
        assert code == 0, f"{line}: {capfd.readouterr().err}"


def test_the_picture_of_a_page_is_of_the_network_on_it() -> None:
    """`discreet show falls.toml --svg docs/pictures/falls.svg --replace` draws it anew."""
    page = (ROOT / "docs" / "guides" / "draw-a-network.md").read_text(encoding="utf-8")
    assert "](../pictures/falls.svg)" in page
    (project,) = re.findall(r"falls\.toml <<'TOML'\n(.*?)^TOML$", page, re.DOTALL | re.MULTILINE)
    drawn = Project.parse(project).network.to_svg()
    assert drawn == (ROOT / "docs" / "pictures" / "falls.svg").read_text(encoding="utf-8")


@pytest.mark.costly("An example of a page that no longer prints what stands there is found by running it.")
@pytest.mark.filterwarnings("ignore::discreet.privacy.default_account.DefaultAccountWarning")
@pytest.mark.parametrize("page", [name for name in PAGES if ">>> " in PAGES[name] and name != "README.md"])
def test_the_examples_of_the_documentation_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "none.toml"))
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=flags)
    assert found.failed == 0
    assert found.attempted > 1
