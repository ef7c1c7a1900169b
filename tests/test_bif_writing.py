"""Writing BIF: what is written reads back; and nothing but an InputError comes of a damaged file."""

from __future__ import annotations

import gzip
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.formats.network_content import NetworkContent
from discreet.formats.network_files import network_of, read_network, write_network
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif
from networks import ASIA
from strategies import names, same_file, thetas

wide = st.text(st.characters(exclude_categories=("Cs",), exclude_characters='"\r\n'), min_size=1, max_size=6)
lines = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n"), max_size=20).map(str.strip)


@given(thetas(), names() | wide, st.lists(lines.filter(lambda line: not re.fullmatch('"[^"]*"', line)), max_size=3))
@example(dc.Tables(dc.Network((dc.Variable("{", ("}",)),), {"{": ()}), {"{": [1.0]}), "{", ['by "A. Smith"'])
def test_names_properties_and_numbers_survive_writing(theta: dc.Tables, name: str, properties: list[str]) -> None:
    bif = NetworkContent(theta.network.variables, theta.network.parents, theta, name, tuple(properties))
    again = parse_bif(format_bif(bif))
    assert same_file(again, bif)
    assert (again.name, again.properties) == (bif.name, bif.properties)


@given(st.lists(wide, min_size=2, max_size=4, unique=True))
@example(["//", "property"])
@example(["a//b", "/*"])
@example(["\x85", "\u2028"])
def test_any_name_without_a_quote_survives_writing(odd: list[str]) -> None:
    a, b = dc.Variable(odd[0], odd), dc.Variable(odd[1], odd)
    uniform = np.full(len(odd), 1 / len(odd))
    table = np.tile(uniform, (len(odd), 1))
    bif = NetworkContent((a, b), {a.name: (), b.name: (a.name,)}, {a.name: uniform, b.name: table}, odd[-1])
    assert same_file(parse_bif(format_bif(bif)), bif)


@given(st.floats(0, 1e-6) | st.floats(0, 1))
def test_every_float_survives_writing(value: float) -> None:
    bif = NetworkContent((dc.Variable("a", ("x", "y")),), {"a": ()}, {"a": np.array([value, 1 - value])})
    assert same_file(parse_bif(format_bif(bif)), bif)


def test_plain_names_are_not_quoted() -> None:
    bif = NetworkContent((dc.Variable("Asy/Patch", ("<5", ">=7.5", "two words")),), {"Asy/Patch": ()}, {})
    assert 'variable Asy/Patch {\n  type discrete [ 3 ] { <5, >=7.5, "two words" };\n}' in format_bif(bif)


@pytest.mark.parametrize(
    ("bif", "message"),
    [
        (NetworkContent((dc.Variable('a"', ("x",)),), {'a"': ()}, {}), "'a\"' has a quote or a line break"),
        (NetworkContent((dc.Variable("a", ("x\ny",)),), {"a": ()}, {}), "has a quote or a line break"),
        (NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, name="x\ry"), "has a quote or a line break"),
        (NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, name=""), "name"),
        (NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, properties=("a\rb",)), "cannot have a line break"),
        (NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, properties=("a\nb",)), "cannot have a line break"),
    ],
)
def test_what_bif_cannot_express_is_refused(tmp_path: Path, bif: NetworkContent, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        write_network(tmp_path / "odd.bif", bif)
    assert not (tmp_path / "odd.bif").exists()


# ------------------------------------------------------------------------------------------ fuzz

RICH = (
    ASIA.read_text(encoding="utf-8")
    .replace("variable asia {", 'variable "asia" { property discreet-bounds 0 9; property discreet-bins 5;')
    .replace("(yes, yes)", "default")
)
PIECES = (
    *(
        "",
        '"',
        *"{}()[],;|\n",
        "//",
        "/*",
        "*/",
        "property",
        "table",
        "default",
        "variable asia",
        "probability ( dysp )",
    ),
    *("variable asia", "discreet-bins", "0", "1", "-1", "nan", "1e999", "0.5, 0.5", "no", "yes", "\x00", "\u2028"),
)
EDITS = st.tuples(st.integers(0, len(RICH)), st.integers(0, 12), st.sampled_from(PIECES))


@settings(max_examples=500)
@given(
    st.lists(st.tuples(st.integers(0, len(RICH)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=4)
)
def test_damaged_text_is_parsed_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = RICH
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    try:
        bif = parse_bif(text)
        network_of(bif, where="BIF text")
        written = format_bif(bif)
    except dc.InputError:
        return
    assert same_file(parse_bif(written), bif)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 255), st.booleans())
def test_damaged_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, flip: int, packed: bool
) -> None:
    raw = bytearray(gzip.compress(RICH.encode(), mtime=0) if packed else RICH.encode())
    raw[at % len(raw)] ^= flip
    path = tmp_path_factory.mktemp("damaged") / "x.bif"
    path.write_bytes(bytes(raw))
    with suppress(dc.InputError):
        assert read_network(path).variables
