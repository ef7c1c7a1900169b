"""Limits on what strangers write: stated as the documentation says, met exactly, and no obstacle to real files."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.cli.arguments import queries_in, queries_of
from discreet.errors import listed, shortened, shown
from discreet.interchange.bif import parse_bif
from discreet.util import limits
from discreet.util.json_files import decompress, read_bytes, read_json, write_whole
from fuzzing import fault_of_message
from releases import POLICY, simulated
from shell import Shell, opened, stdin
from tiny import network_of

DOCUMENT = Path(__file__).parent.parent / "docs" / "threat-model.md"
STATED = {name: value for name, value in vars(limits).items() if name.isupper()}


def test_the_threat_model_states_every_limit() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| ([0-9,]+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: int(value.replace(",", "")) for name, value in rows} == STATED


def test_what_is_more_than_a_limit_is_refused_and_no_less() -> None:
    limits.at_most(3, 3, "things")
    limits.at_most(3, "abc", "things")
    with pytest.raises(dc.InputError, match="4 things are more than the 3 allowed in a file"):
        limits.at_most(3, 4, "things")
    limits.check_name("n" * limits.NAME_CHARACTERS, "the name")
    with pytest.raises(dc.InputError, match="has 1,001 characters"):
        limits.check_name("n" * (limits.NAME_CHARACTERS + 1), "the name")
    assert limits.free_cells(10) == limits.FREE_CELLS + 10
    assert limits.first_repeated("abcad") == "a" and limits.first_repeated("abc") is None
    limits.check_states([range(limits.STATES)] * 16)
    for wrong in ([range(limits.STATES + 1)], [range(limits.STATES)] * 17, [()] * (limits.VARIABLES + 1)):
        with pytest.raises(dc.InputError, match="are more than the"):
            limits.check_states(wrong)


def test_files_are_read_to_their_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_bytes(path, "file", 5) == b"12345"
    with pytest.raises(dc.InputError, match="more than 4 bytes"):
        read_bytes(path, "file", 4)
    packed = gzip.compress(b"12345")
    assert decompress(packed, "file", 5) == b"12345"
    with pytest.raises(dc.InputError, match="unpacked, has more than 4 bytes"):
        decompress(packed, "file", 4)


def test_json_is_measured_before_it_is_made() -> None:
    deep = "[" * limits.NESTING + "]" * limits.NESTING
    assert read_json(deep, "it", 100)
    assert read_json('["[[[[\\"[", "{"]', "it", 100) == ['[[[["[', "{"]
    fields = {str(number): 0 for number in range(limits.FIELDS)}
    assert read_json(json.dumps(fields), "it", 10**6) == fields
    wrong = {
        f"[{deep}]": "inside each other",
        json.dumps(fields | {"x": 0}): "fields of one object",
        "[" + "[]," * limits.PARTS + "1]": "brackets",
        " " * 2_000_001: "characters of it",
        '{"a": 1, "b": 2, "a": 3}': "the field 'a' occurs twice",
        "[NaN]": "NaN is not a JSON number",
        "[1": "is not JSON",
    }
    for text, why in wrong.items():
        with pytest.raises(dc.InputError, match=why):
            read_json(text, "it", 2_000_000)
    with pytest.raises(dc.InputError, match="commas"):
        read_json("[" + "0," * (limits.VALUES + 1) + "0]", "it", limits.DOCUMENT_BYTES)


def test_quotations_are_short_and_plain() -> None:
    assert shown("smoke") == "'smoke'" and shown("a\nb") == "'a\\nb'"
    for text in ("x" * 10**6, "\0" * 70, "'" * 300, "\ud800" * 100):
        assert len(shown(text)) <= 80 and shown(text).isprintable()
    assert shortened("a" * 80) == "a" * 80
    assert shortened("a" * 90 + "/x.bif").endswith("/x.bif") and len(shortened("a" * 90)) == 80
    assert listed(["a", "b"]) == "a, b" and listed("abcdefghijklmn") == "a, b, c, d, e, f, g, h, i, j, k, l, ..."
    assert len(listed(["n" * 1000] * 3)) < 100


# ------------------------------------------------------------------------------------------------------ published files


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_published_files_are_for_everybody(tmp_path: Path, umask: int) -> None:
    theta = dc.Dirichlet.uniform(network_of({"a": 2})).mean()
    before = os.umask(umask)
    try:
        for replace in (False, True):
            write_whole("text", tmp_path / "release.json", "release", replace=replace)
        theta.write(tmp_path / "net.bif")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o644}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.bif", "release.json"]
    with pytest.raises(FileExistsError):
        write_whole("other", tmp_path / "release.json", "release", replace=False)
    assert (tmp_path / "release.json").read_text() == "text"


def test_a_system_without_nameless_files_writes_whole_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    for replace in (False, True):
        write_whole("text", tmp_path / f"{replace}.json", "release", replace=replace)
    with pytest.raises(FileExistsError):
        write_whole("other", tmp_path / "True.json", "release", replace=False)
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "False.json": 0o644,
        "True.json": 0o644,
    }


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    code = f"""
import os, time
from pathlib import Path
from discreet.util.json_files import write_whole

def stop(*_):
    print("here", flush=True)
    time.sleep(60)

os.fchmod = stop
write_whole("x" * 10**6, Path({str(tmp_path)!r}) / "r.json", "release", replace=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"here\n"
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------------------- command line


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    found = opened(tmp_path, monkeypatch, capfd)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    theta = dc.Dirichlet.uniform(network_of({"a": 2, "b": 2}, "a>b")).mean()
    simulated(theta, 50, promise, np.random.default_rng(1)).save("r.json")
    return found


def test_commands_read_no_more_than_the_limits(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("many.txt").write_text("P(a)\n" * (limits.QUERIES + 1))
    Path("large.txt").write_bytes(b"#" * (limits.QUERIES_BYTES + 1))
    for queries, why in (("many.txt", "10,001 queries"), ("large.txt", "8,388,608 bytes"), ("no file", "no query")):
        assert why in shell.fails(f"query r.json '{queries}' --method plug-in")
    stdin(monkeypatch, b"#" * (limits.QUERIES_BYTES + 1))
    assert "8,388,608 bytes" in shell.fails("query r.json - --method plug-in")
    stdin(monkeypatch, b" " * (limits.DOCUMENT_BYTES + 1))
    assert "134,217,728 bytes" in shell.fails("query - 'P(a)' --method plug-in")
    Path("prior.bif").write_bytes(b" " * (limits.NETWORK_BYTES + 1))
    assert "67,108,864 bytes" in shell.fails("query r.json 'P(a)' --method plug-in --prior prior.bif")
    code, _, err = shell("query r.json 'P(zz" + "z" * 2000 + ")' --method plug-in")
    assert code == 2 and "z" * 81 not in err and not fault_of_message(err.splitlines()[-1])


def test_queries_of_a_file_are_counted() -> None:
    assert len(queries_in("P(a)\n" * limits.QUERIES)) == limits.QUERIES
    with pytest.raises(dc.InputError, match="queries of one file"):
        queries_in("P(a)\n" * (limits.QUERIES + 1))
    with pytest.raises(dc.InputError, match="no query, such as") as caught:
        queries_of("q\n" * 10**5)
    assert not fault_of_message(str(caught.value))


# ---------------------------------------------------------------------------------------------- the largest real things


@pytest.mark.slow
def test_a_thousand_draws_are_written_and_read() -> None:
    """Over 700 cells, as ALARM has, with the most digits that a double has."""
    network = network_of({f"v{number}": 4 for number in range(175)})
    prior = dc.Dirichlet.uniform(network)
    zeros = dc.Tables(network, {node: np.full(network.shape(node), 25) for node in network.nodes})
    promise = dc.Guarantee(epsilon=1000, delta="1e-6", relation="add-remove", unit="record")
    counts = dc.results.Counts(zeros, POLICY)
    made = dc.simulate(dc.research.posterior_sampler(1000), counts, prior, promise, rng=np.random.default_rng(1))
    again = dc.Release.loads(made.dumps())
    assert again.payload.cells.draws == 1000


@pytest.mark.slow
def test_a_family_of_a_million_cells_is_written_and_read() -> None:
    network = network_of({f"v{number}": 2 for number in range(20)}, " ".join(f"v{k}>v19" for k in range(19)))
    theta = dc.Dirichlet.uniform(network).mean()
    started = time.process_time()
    bif = parse_bif(theta.text())
    print(f"{time.process_time() - started:.1f} CPU s")
    assert np.array_equal(bif.arrays["v19"], theta["v19"])
