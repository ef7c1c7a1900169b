"""Bars: nothing where nobody looks, stderr alone where somebody does, and one switch that silences them."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

import discreet
from discreet.util import progress
from discreet.util.progress import under_way

SOURCE = Path(discreet.__file__).parents[1]
WAITING = """
import sys, time
from discreet.util import progress
progress.WAIT_SECONDS = 0.05
with progress.under_way("counting [red]<b>") as bar:
    for done in range(8):
        bar(done, 8)
        time.sleep(0.05)
        with progress.under_way("inside") as inner:
            inner(1, 2)
    sys.stdout.write("said\\n")
    sys.stdout.flush()
"""


def run(code: str, *, terminal: bool, **environment: str) -> tuple[str, str]:
    """Stdout, which is a pipe, and stderr of a program, which is a terminal or a pipe."""
    kept = {name: value for name, value in os.environ.items() if name != progress.SWITCH}
    env = {**kept, "PYTHONPATH": str(SOURCE), "TERM": "xterm", "COLUMNS": "80", **environment}
    if not terminal:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, env=env) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so where the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(ours)
        assert running.stdout is not None
        return running.stdout.read().decode(), shown.decode()


def test_a_terminal_shows_a_bar_and_stdout_stays_as_it_is() -> None:
    out, shown = run(WAITING, terminal=True)
    assert out == "said\n"
    assert "counting [red]<b>" in shown and "inside" not in shown


def test_a_pipe_shows_nothing() -> None:
    assert run(WAITING, terminal=False) == ("said\n", "")


@pytest.mark.parametrize("word", ["off", "0", "OFF"])
def test_the_switch_silences_a_terminal(word: str) -> None:
    assert run(WAITING, terminal=True, DISCREET_PROGRESS=word) == ("said\n", "")


def test_what_is_quick_shows_nothing() -> None:
    code = "from discreet.util.progress import under_way\nwith under_way('counting') as bar:\n    bar(1, 1)\n"
    assert run(code, terminal=True) == ("", "")


def test_nothing_is_loaded_or_started_where_nobody_looks() -> None:
    code = f"{WAITING}\nimport threading\nprint(threading.active_count(), 'rich' in sys.modules)"
    assert run(code, terminal=False)[0].splitlines()[-1] == "1 False"


def test_an_error_takes_the_bar_away() -> None:
    code = WAITING.replace('sys.stdout.write("said\\n")', "raise ValueError('no')")
    code = f"try:\n{chr(10).join(f'    {line}' for line in code.splitlines())}\nexcept ValueError:\n    print('caught')"
    code += "\nprint(progress._SHOWING.get())"
    out, shown = run(code, terminal=True)
    assert out == "caught\nFalse\n"
    assert shown.rstrip().endswith("\x1b[2K"), repr(shown[-40:])  # the last line is erased


class Recorded:
    """A screen that keeps what it was told."""

    told: list[tuple[str, int, int | None] | str]

    def update(self, label: str, done: int, total: int | None) -> None:
        self.told.append((label, done, total))

    def close(self) -> None:
        self.told.append("closed")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int | None] | str]:
    """Bars that show up at once, on a screen that keeps them."""
    Recorded.told = []
    monkeypatch.setattr(progress, "_find_screen", lambda: Recorded)
    monkeypatch.setattr(progress.threading, "Timer", AtOnce)
    return Recorded.told


class AtOnce:
    """A timer that does not wait."""

    def __init__(self, _: float, call: object, arguments: tuple[object, ...]) -> None:
        self.start = lambda: call(*arguments)  # type: ignore[operator]

    def cancel(self) -> None:
        """Too late."""


def test_long_acts_say_what_is_under_way(screen: list[tuple[str, int, int | None] | str]) -> None:
    import numpy as np
    import pyarrow as pa

    import discreet as dc

    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    table = pa.table({"coin": ["heads", "tails"] * 50})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    counts = dc.count(dc.read_records(table, coin.schema), coin)
    account = dc.Ledger("sqlite://").open("coins", promise)
    release = dc.release(dc.planned(), counts, dc.Dirichlet.uniform(coin), promise, account=account)
    posterior = dc.noise_aware(release, draws=50, rng=1)
    dc.answer(posterior, "P(coin)")
    dc.answer_many(posterior, ["P(coin)", "P(coin=heads)"])
    dc.marginals(posterior)
    dc.check_fit(release)
    dc.audit(dc.laplace(), promise, {"one coin": coin}, most=1)
    theta = dc.Tables(coin, {"coin": np.array([0.5, 0.5])})
    dc.plan(theta, promise, 100, rng=1, repeats=1, mechanisms={"laplace": dc.laplace()})
    labels = [told[0] for told in screen if isinstance(told, tuple)]
    acts = ["counting records", "releasing", "drawing the posterior", "answering", "testing the network", "auditing"]
    assert [*dict.fromkeys(labels)] == [*acts, "planning"]
    assert ("counting records", 1, 1) in screen and ("answering", 2, 2) in screen
    # Bars do not nest: each is closed before the next begins.
    opened = [told if isinstance(told, str) else told[0] for told in screen]
    runs = [label for label, before in zip(opened, ["closed", *opened], strict=False) if label != before]
    assert runs[1::2] == ["closed"] * (len(runs) // 2)


def test_a_search_shows_none_of_its_tries(screen: list[tuple[str, int, int | None] | str]) -> None:
    """How many tries were made is what the search hides."""
    pytest.importorskip("sklearn")
    import numpy as np

    import discreet as dc

    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (400, 1))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    promise = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
    account = dc.Ledger("sqlite://").open("a", promise)
    own = dc.estimators.PrivateNaiveBayes(
        classes=("no", "yes"), bounds=(0, 1), guarantee=promise, account=account, draws=20
    )
    dc.estimators.PrivateGridSearch(own, {"bins": [2, 3]}, tries=8).fit(X, y)
    labels = [told[0] for told in screen if isinstance(told, tuple)]
    assert labels.count("searching") == 1
    after = labels[labels.index("searching") + 1 :]
    before = screen.index(("searching", 0, None))
    assert screen[before + 1] == "closed", "nothing is shown between the search's beginning and its end"
    assert set(after) <= {"drawing the posterior", "counting records", "releasing", "answering"}


def test_a_notebook_shows_a_bar_below_the_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    path = f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\n"
    switched = f"import os\nos.environ['DISCREET_PROGRESS'] = 'off'\n{WAITING}"
    book = nbformat.v4.new_notebook()
    book.cells = [
        nbformat.v4.new_code_cell(code) for code in (path + WAITING.replace("range(8)", "range(16)"), switched)
    ]
    seen: list[str] = []

    class Client(nbclient.NotebookClient):  # type: ignore[name-defined, misc]
        def process_message(self, message: dict, cell: object, index: int) -> object:  # type: ignore[type-arg]
            seen.append(str(message["content"].get("data", {}).get("text/html", "")))
            return super().process_message(message, cell, index)

    Client(book, timeout=60, kernel_name="python3").execute()
    first, second = (cell.outputs for cell in book.cells)
    assert any("<progress" in text and "counting [red]&lt;b&gt;" in text for text in seen)
    assert not any("inside" in text for text in seen)
    assert [part.get("text", part.get("data")) for part in first] == [{"text/html": "", "text/plain": ""}, "said\n"]
    assert [part["text"] for part in second] == ["said\n"]


def test_a_bar_costs_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.threading, "Timer", None)  # would be called if one were started
    with under_way("counting") as bar:
        bar(1, 2)


@pytest.mark.parametrize("broken", ["__init__", "update", "close"])
def test_a_bar_that_cannot_be_drawn_ends_nothing(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way may have been paid: a terminal that is gone must not lose it."""

    class Gone(progress._Terminal):
        pass

    def fail(*_: object) -> None:
        raise BrokenPipeError("the terminal is gone")

    for name in ("__init__", "update", "close"):
        monkeypatch.setattr(Gone, name, fail if name == broken else lambda *_: None)
    monkeypatch.setattr(progress, "_find_screen", lambda: Gone)
    monkeypatch.setattr(progress, "WAIT_SECONDS", 0.0)
    with under_way("releasing") as bar:
        for _ in range(200):
            bar(1, 2)
            if bar._screen is not None:
                break
            time.sleep(0.01)
        made = "paid"
    assert made == "paid"
