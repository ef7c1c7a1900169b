"""`discreet.interchange.bif`, reading: real files and their oddities are understood, and errors name the line."""

from __future__ import annotations

import gzip
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.formats.network_files import read_network, write_network
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif
from folding import every
from networks import network_path
from strategies import same_file

NETWORKS = (
    "asia", "cancer", "earthquake", "survey", "sachs", "child", "alarm", "win95pts", "hailfinder", "barley",
)  # fmt: skip

LINES = (
    "network test { }",
    "variable a { type discrete [ 2 ] { no, yes }; }",
    "variable b { type discrete [ 3 ] { x, y, z }; }",
    "probability ( a ) { table 0.25, 0.75; }",
    "probability ( b | a ) {",
    "  (no) 0.5, 0.25, 0.25;",
    "  (yes) 0.125, 0.125, 0.75;",
    "}",
)
TEXT = "\n".join(LINES)
ONE = "variable a { type discrete [ 1 ] { x }; }"


def with_line(number: int, line: str) -> str:
    """The text above with another line in the place of one."""
    return "\n".join((*LINES[: number - 1], line, *LINES[number:]))


# ------------------------------------------------------------------------------------------ real files


@every("name", NETWORKS)
def test_a_published_network_is_read_as_it_is_printed(name: str) -> None:
    """Against a reader that knows only the one style of these files."""
    raw = network_path(name).read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    bif = read_network(network_path(name))
    schema = dc.Schema(bif.variables)
    blocks = re.findall(r"probability \( (\S+)(?: \| ([^)]*?))? \) \{\s*(.*?)\s*\n\}", text, re.DOTALL)
    assert len(blocks) == text.count("\nvariable ") == len(bif.arrays)
    for node, parents, body in blocks:
        assert bif.parents[node] == tuple(parents.split(", ") if parents else ())
        rows = re.findall(r"(?:table|\(([^)]*)\)) (.*?);", body)
        assert len(rows) * schema[node].size == bif.arrays[node].size
        for states, numbers in rows:
            row = [float(number) for number in numbers.split(", ")]
            codes = zip(bif.parents[node], states.split(", "), strict=True) if parents else ()
            read = bif.arrays[node][tuple(schema[parent].code(state) for parent, state in codes)]
            assert np.allclose(read * math.fsum(row), row, rtol=1e-15, atol=0)
            assert abs(math.fsum(read) - 1) <= 1e-15 * len(row)


@pytest.mark.costly("What writing loses of published networks is found on them, the largest of thousands of cells.")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_published_network_survives_writing(name: str, tmp_path: Path) -> None:
    bif = read_network(network_path(name))
    write_network(tmp_path / "again.bif.gz", bif)
    assert same_file(read_network(tmp_path / "again.bif.gz"), bif)


# ------------------------------------------------------------------------------------------ ways of writing one thing


@every(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", " "),
        TEXT.replace(", ", " "),
        TEXT.replace(", ", ","),
        TEXT.replace(" ", "\t\n"),
        TEXT.replace("network test { }\n", ""),
        TEXT.replace("\n", ' // a comment; with } and "\n') + "\n// the end",
        TEXT.replace(" { ", " /* two\n { lines */ { "),
        TEXT.replace(" a ", ' "a" ').replace("yes", '"yes"'),
        TEXT.replace("[ 2 ] ", ""),
        TEXT.replace("( b | a )", "( b a )"),
        TEXT.replace("0.25, 0.25;", "2.5e-1, .25;"),
        with_line(3, "variable b { property colour: {red}; type discrete [ 3 ] { x, y, z } property p; }"),
        with_line(4, "probability ( a ) { property x; table 0.25, 0.75; property y; }"),
        with_line(4, "probability ( a ) { () 0.25, 0.75; }"),
        with_line(4, "probability ( a ) { default 0.25, 0.75; }"),
        with_line(6, LINES[6]).replace(f"{LINES[6]}\n}}", f"{LINES[5]}\n}}"),
        with_line(6, "  default 0.5, 0.25, 0.25;"),
        with_line(6, "").replace(LINES[6], "  table 0.5, 0.125, 0.25, 0.125, 0.25, 0.75;"),
    ],
)
def test_oddities_change_nothing(text: str) -> None:
    assert same_file(parse_bif(text), parse_bif(TEXT))


def test_the_text_means_what_it_says() -> None:
    bif = parse_bif(TEXT)
    assert bif.name == "test" and bif.properties == ()
    assert bif.variables == (dc.Variable("a", ("no", "yes")), dc.Variable("b", ("x", "y", "z")))
    assert bif.parents == {"a": (), "b": ("a",)}
    assert bif.arrays["a"].tolist() == [0.25, 0.75]
    assert bif.arrays["b"].tolist() == [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]


def test_a_conditional_table_lists_the_child_slowest_and_the_last_parent_fastest() -> None:
    numbers = ", ".join(f"0.{digit}" for digit in (1, 2, 3, 4, 5, 6, 9, 8, 7, 6, 5, 4))
    head = TEXT + "\nvariable c { type discrete [ 2 ] { u, v }; }\nprobability ( c | a, b )"
    assert parse_bif(f"{head} {{ table {numbers}; }}").arrays["c"].tolist() == [
        [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]],
        [[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]],
    ]


def test_a_row_is_found_by_the_names_of_its_states() -> None:
    head = TEXT + "\nvariable c { type discrete [ 2 ] { u, v }; }\nprobability ( c | b, a )"
    table = parse_bif(f"{head} {{ default 0.5, 0.5; (z, no) 0, 1; (x, yes) 1, 0; }}").arrays["c"]
    assert table.tolist() == [[[0.5, 0.5], [1, 0]], [[0.5, 0.5], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]]


@every("text", ['{ a: "b" } ( c, d ) | e [ 1 ]', 'author "A. Smith"', "x // no comment", "type /* {"])
def test_anything_but_a_semicolon_may_stand_in_a_property(text: str) -> None:
    bif = parse_bif(
        TEXT.replace("network test { }", f"network test {{ property {text}; property second; }}")
        .replace("variable a {", f"variable a {{ property {text};")
        .replace("probability ( a ) {", f"probability ( a ) {{ property {text};")
    )
    assert bif.properties == (text, "second")
    assert same_file(bif, parse_bif(TEXT))


def test_a_block_without_entries_is_structure_only() -> None:
    bif = parse_bif("\n".join((*LINES[:5], "}")))
    assert bif.parents == {"a": (), "b": ("a",)} and list(bif.arrays) == ["a"]
    assert same_file(parse_bif(format_bif(bif)), bif)


def test_numeric_columns_keep_bounds_and_bins() -> None:
    numeric = "property discreet-bounds 0 90.5; property discreet-bins 18, 65;"
    bif = parse_bif(with_line(3, LINES[2].replace("variable b {", f"variable b {{ {numeric}")))
    assert bif.variables[1] == dc.Variable("b", ("x", "y", "z"), bounds=(0, 90.5), bins=(18, 65))
    assert same_file(parse_bif(format_bif(bif)), bif)


def test_rounded_rows_are_scaled_to_one() -> None:
    rounded = parse_bif(with_line(6, "  (no) 0.3333333, 0.3333333, 0.3333333;")).arrays["b"][0]
    assert rounded.tolist() == pytest.approx([1 / 3] * 3, rel=1e-12)
    exact = [0.1, 0.2, 0.7]
    assert parse_bif(with_line(6, "  (no) 0.1, 0.2, 0.7;")).arrays["b"][0].tolist() == exact
    for last in ("0.250001", "0.249999"):
        assert math.fsum(parse_bif(with_line(6, f"  (no) 0.5, 0.25, {last};")).arrays["b"][0]) == pytest.approx(
            1, abs=1e-15
        )


@pytest.mark.parametrize("pack", [bytes, lambda raw: b"\xef\xbb\xbf" + raw, gzip.compress])
def test_bytes_may_be_marked_or_packed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "any name"
    path.write_bytes(pack(TEXT.replace("yes", "été").encode()))
    assert same_file(read_network(path), parse_bif(TEXT.replace("yes", "été")))


# ------------------------------------------------------------------------------------------ refusals


@every(
    ("number", "line", "message"),
    [
        (1, 'network "test { }', "a quote that is not closed"),
        (1, "network { } }", "expected 'network' or 'variable' or 'probability', got '}'"),
        (1, "network test { other; }", "expected 'property', got 'other'"),
        (2, "variable { type discrete [ 2 ] { no, yes }; }", "expected a variable's name, got '{'"),
        (2, "variable a { kind discrete [ 2 ] { no, yes }; }", "expected 'property', got 'kind'"),
        (2, "variable a { type continuous { no, yes }; }", "expected 'discrete', got 'continuous'"),
        (2, "variable a { type discrete [ two ] { no, yes }; }", "the number of states of 'a', got 'two'"),
        (2, f"variable a {{ type discrete [ {'9' * 5000} ] {{ no, yes }}; }}", "'a'"),
        (2, "variable a { type discrete [ 3 ] { no, yes }; }", "'a' declares 3 states but names 2"),
        (2, "variable a { type discrete [ 2 ] { no, no }; }", "'a': state 'no' is declared twice"),
        (2, "variable a { }", "'a' declares no states"),
        (2, "variable a { type discrete [ 0 ] { }; }", "'a' declares no states"),
        (2, "variable a { property discreet-bounds 0 x; type discrete { no }; }", "expected numbers, got '0 x'"),
        (2, "variable a { property discreet-bounds ; type discrete { no }; }", "'a'.*bounds"),
        (2, "variable a { property discreet-bounds 0 1 2; type discrete { no }; }", "'a'.*bounds"),
        (2, "variable a { property discreet-bins 3; type discrete { no, yes }; }", "'a': bins need bounds"),
        (3, "variable a { type discrete [ 2 ] { no, yes }; }", "'a' is declared twice"),
        (4, "probability a { table 0.25, 0.75; }", r"expected '\(', got 'a'"),
        (4, "probability ( c ) { table 0.25, 0.75; }", "'c' names an undeclared variable 'c'"),
        (4, "probability ( a | c ) { table 0.25, 0.75; }", "'a' names an undeclared variable 'c'"),
        (4, "probability ( a ) { table 0.25, lots; }", "expected a probability, got 'lots'"),
        (4, "probability ( a ) { table 0.25, 0.75 }", "expected a probability, got '}'"),
        (4, "probability ( a ) { table -0.25, 1.25; }", "must lie between 0 and 1, got -0.25"),
        (4, "probability ( a ) { table nan, 1; }", "must lie between 0 and 1, got nan"),
        (4, "probability ( a ) { table 0, 1e999; }", "must lie between 0 and 1, got 1e999"),
        (4, "probability ( a ) { table 0.25, 0.5, 0.25; }", "the table of 'a' needs 2 numbers, got 3"),
        (4, "probability ( a ) { table 0.25, 0.77; }", "a row of 'a' sums to 1.02 instead of 1"),
        (4, "probability ( a ) { table 0.250000, 0.750002; }", "a row of 'a' sums to 1.000002 instead of 1"),
        (4, "probability ( a ) { table 0, 1; table 0, 1; }", "'a' has two 'table' entries"),
        (4, "probability ( a ) { table 0, 1; default 0, 1; }", "'a' has a 'table' and other entries"),
        (4, "probability ( a ) { rows 0, 1; }", "expected 'table' or 'default', got 'rows'"),
        (6, "  (no) 0.5, 0.25;", "a row of 'b' needs 3 numbers, got 2"),
        (6, "  (no) 0.5000, 0.2500, 0.2498;", "a row of 'b' sums to 0.9998 instead of 1"),
        (6, "  (maybe) 0.5, 0.25, 0.25;", "'a' has no state 'maybe'; its states: no, yes"),
        (6, "  (no, yes) 0.5, 0.25, 0.25;", "'b' has 1 parents, the row names 2 states"),
        (6, "  default 0.5, 0.25;", "a row of 'b' needs 3 numbers, got 2"),
        (7, "  (no) 0.125, 0.125, 0.75;", r"'b' has two rows for \(no\)"),
        (7, "  table 0.5, 0.125, 0.25, 0.125, 0.25, 0.75;", "'b' has a 'table' and other entries"),
        (8, "} probability ( b ) { }", "'b' has two probability blocks"),
        (8, "property no end }", "a property that does not end with ';'"),
        (8, "", "the file ends too early"),
    ],
)
def test_what_is_not_bif_is_refused_with_the_line(number: int, line: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message) as refusal:
        parse_bif(with_line(number, line), where="my.bif")
    at = number if line else number - 1
    assert str(refusal.value).startswith(f"my.bif, line {at}: ")
    assert "\n" not in str(refusal.value)


@every(
    ("text", "message"),
    [
        ("", r"my\.bif: no variable block; is this a BIF file"),
        ("network test { }", r"my\.bif: no variable block"),
        (with_line(6, ""), r"my\.bif, line 5: 'b' has no row for \(no\); add it or a default"),
    ],
)
def test_what_is_missing_is_named(text: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        parse_bif(text, where="my.bif")


def test_lines_are_counted_through_comments_properties_and_rows() -> None:
    above = "/* one\ntwo */ // three\nnetwork test { property of\nseveral\nlines; }\r\n"
    text = TEXT.replace("network test { }\n", above).replace("(no) 0.5, 0.25, 0.25", "(no)\n 0.5, 0.25,\n wrong")
    with pytest.raises(dc.InputError, match=f"line {text.split('wrong')[0].count(chr(10)) + 1}: .* got 'wrong'"):
        parse_bif(text)


def broken_gzip() -> bytes:
    """A packed file with one wrong bit in its middle."""
    raw = bytearray(gzip.compress(TEXT.encode() * 9, mtime=0))
    raw[30] ^= 0xFF
    return bytes(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, r"cannot read network .*my\.bif.*No such file"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], r"cannot read network .*my\.bif"),
        (broken_gzip(), r"cannot read network .*my\.bif"),
        (b"\x1f\x8b", r"cannot read network .*my\.bif"),
        ("network \xe9 { }".encode("latin-1"), r"my\.bif': not UTF-8 text"),
        (b"network {", r"my\.bif, line 1: the file ends too early"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, raw: bytes | None, message: str) -> None:
    if raw is not None:
        (tmp_path / "my.bif").write_bytes(raw)
    with pytest.raises(dc.InputError, match=message):
        read_network(tmp_path / "my.bif")


@every("parents", [40, 70])
def test_a_table_that_no_machine_can_hold_is_refused(parents: int) -> None:
    many = [f"p{number}" for number in range(parents)]
    blocks = [f"variable {p} {{ type discrete {{ x y }}; }} probability ( {p} ) {{ table 0 1; }}" for p in many]
    text = "\n".join([*blocks, ONE, f"probability ( a | {', '.join(many)} ) {{ default 1; }}"])
    with pytest.raises(dc.InputError, match=f"line {parents + 2}: .* names where a parent was expected"):
        parse_bif(text)
