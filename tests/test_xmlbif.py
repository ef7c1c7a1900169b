"""XMLBIF: real files are understood, what is written reads back, and nothing is loaded or expanded."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.formats.network_content import NetworkContent
from discreet.formats.network_files import (
    content_of,
    holds_network,
    network_of,
    notation_of,
    parse_network,
    read_network,
    write_network,
)
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif
from discreet.interchange.xmlbif import format_xmlbif, parse_xmlbif
from folding import every
from networks import asia, network_path
from strategies import names, networks, same_file, thetas

DTD = """<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
    <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
  <!ELEMENT NAME (#PCDATA)>
  <!ELEMENT VARIABLE ( NAME, ( OUTCOME | PROPERTY )* ) >
    <!ATTLIST VARIABLE TYPE (nature|decision|utility) "nature">
  <!ELEMENT OUTCOME (#PCDATA)>
  <!ELEMENT DEFINITION ( FOR | GIVEN | TABLE | PROPERTY )* >
  <!ELEMENT FOR (#PCDATA)>
  <!ELEMENT GIVEN (#PCDATA)>
  <!ELEMENT TABLE (#PCDATA)>
  <!ELEMENT PROPERTY (#PCDATA)>
]>"""
"""As JavaBayes and WEKA write it."""
LINES = (
    '<?xml version="1.0"?>',
    "<BIF><NETWORK><NAME>test</NAME>",
    "<VARIABLE><NAME>a</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>",
    "<VARIABLE><NAME>b</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME><OUTCOME>z</OUTCOME></VARIABLE>",
    "<DEFINITION><FOR>a</FOR><TABLE>0.25 0.75</TABLE></DEFINITION>",
    "<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN>",
    "<TABLE>0.5 0.25 0.25 0.125 0.125 0.75</TABLE>",
    "</DEFINITION></NETWORK></BIF>",
)
TEXT = "\n".join(LINES)


def with_line(number: int, line: str) -> str:
    """The text above with another line in the place of one."""
    return "\n".join((*LINES[: number - 1], line, *LINES[number:]))


def noted(note: str) -> str:
    """The line of a variable with a property."""
    return LINES[2].replace("<OUTCOME>", f"<PROPERTY>{note}</PROPERTY><OUTCOME>", 1)


# ------------------------------------------------------------------------------------------ what is read


def test_the_text_means_what_it_says() -> None:
    bif = parse_xmlbif(TEXT)
    assert bif.name == "test" and bif.properties == ()
    assert bif.variables == (dc.Variable("a", ("no", "yes")), dc.Variable("b", ("x", "y", "z")))
    assert bif.parents == {"a": (), "b": ("a",)}
    assert bif.arrays["a"].tolist() == [0.25, 0.75]
    assert bif.arrays["b"].tolist() == [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]


def test_a_table_lists_the_child_fastest_and_the_first_parent_slowest() -> None:
    """As the specification says: the GIVEN variables first, then the FOR variables."""
    more = "<VARIABLE><NAME>c</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE>\n<DEFINITION><FOR>c</FOR>"
    table = "<TABLE>.1 .9 .2 .8 .3 .7 .4 .6 .5 .5 .6 .4</TABLE></DEFINITION></NETWORK>"
    head = TEXT.replace("</NETWORK></BIF>", more)
    assert parse_xmlbif(f"{head}<GIVEN>a</GIVEN><GIVEN>b</GIVEN>{table}</BIF>").arrays["c"].tolist() == [
        [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]],
        [[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]],
    ]
    assert parse_xmlbif(f"{head}<GIVEN>b</GIVEN><GIVEN>a</GIVEN>{table}</BIF>").arrays["c"].tolist() == [
        [[0.1, 0.9], [0.2, 0.8]],
        [[0.3, 0.7], [0.4, 0.6]],
        [[0.5, 0.5], [0.6, 0.4]],
    ]


@every(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", ""),
        TEXT.replace("\n", "\n\t<!-- a comment with <tags> & all -->\n"),
        TEXT.replace("?>", "?>\n<!-- from JavaBayes -->\n<?other thing?>\n" + DTD),
        TEXT.replace("?>", '?><!DOCTYPE BIF SYSTEM "http://localhost:1/bif.dtd">'),
        TEXT.replace("?>", '?><!DOCTYPE BIF [<!ENTITY lt "&#38;#60;">]>'),  # what it means anyway
        TEXT.replace('"1.0"', '"1.0" encoding="US-ASCII" standalone="yes"'),
        TEXT.replace(">no<", ">\n  no\t<").replace(">a<", "> a <"),
        TEXT.replace(">yes<", "><![CDATA[yes]]><").replace(">x<", ">&#120;<"),
        TEXT.replace("<VARIABLE>", '<VARIABLE TYPE="nature">').replace("<BIF>", '<BIF VERSION="0.3">'),
        TEXT.replace("0.25 0.75", "2.5e-1\n.75").replace("0.25 0.25 ", "0.25<!-- x -->\t0.25\n"),
        TEXT.replace("<OUTCOME>no", "<PROPERTY>position = (0, 0)</PROPERTY><PROPERTY/><OUTCOME>no"),
        TEXT.replace("<TABLE>0", "<PROPERTY>fast</PROPERTY><TABLE>0"),
        "\n".join((*LINES[:2], LINES[4], *LINES[5:7], "</DEFINITION>", *LINES[2:4], "</NETWORK></BIF>")),
        LINES[0] + "\n" + "\n".join(LINES[1:]).replace("><", ">\n   <"),
    ],
)
def test_oddities_change_nothing(text: str) -> None:
    assert same_file(parse_xmlbif(text), parse_xmlbif(TEXT))


def test_a_definition_without_a_table_or_with_zeros_alone_is_structure_only() -> None:
    for table in ("", "<TABLE></TABLE>", "<TABLE> \n </TABLE>", "<TABLE>0 0 0 0 0.0 0</TABLE>"):
        bif = parse_xmlbif(with_line(7, table))
        assert bif.parents == {"a": (), "b": ("a",)} and list(bif.arrays) == ["a"]
        assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)


def test_rows_of_six_digits_are_scaled_to_one() -> None:
    ten = " ".join(["0.0999995"] * 10)
    states = "".join(f"<OUTCOME>{number}</OUTCOME>" for number in range(10))
    text = f"<BIF><NETWORK><VARIABLE><NAME>a</NAME>{states}</VARIABLE><DEFINITION><FOR>a</FOR><TABLE>{ten}</TABLE>"
    assert parse_xmlbif(f"{text}</DEFINITION></NETWORK></BIF>").arrays["a"].tolist() == pytest.approx([0.1] * 10)
    with pytest.raises(dc.InputError, match=r"a row of 'b' sums to 1\.00001 instead of 1, given a=yes"):
        parse_xmlbif(TEXT.replace("0.125 0.125 0.75<", "0.125000 0.125000 0.750010<"))


def test_numeric_columns_keep_bounds_and_bins() -> None:
    notes = "".join(
        f"<PROPERTY>{note}</PROPERTY>"
        for note in ("discreet-bounds = 0 90.5", "discreet-bins=18 65", "x = discreet-bins")
    )
    bif = parse_xmlbif(with_line(4, LINES[3].replace("</VARIABLE>", f"{notes}</VARIABLE>")))
    assert bif.variables[1] == dc.Variable("b", ("x", "y", "z"), bounds=(0, 90.5), bins=(18, 65))
    assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)
    for odd in (
        dc.Variable("n", bounds=(0, 20), bins=(1, 3), type="integer"),
        dc.Variable("n", ("x", "y", "gone"), missing="gone"),
        dc.Variable("n", bounds=(0, 2), bins=(1,), missing="gone"),
    ):
        alone = NetworkContent((odd,), {"n": ()}, {})
        assert parse_xmlbif(format_xmlbif(alone)).variables == (odd,)
        assert parse_bif(format_bif(alone)).variables == (odd,)


# ------------------------------------------------------------------------------------------ what is written


@pytest.mark.parametrize("name", ["asia", "survey", "child", "alarm"])
def test_a_published_network_survives_both_notations(name: str, tmp_path: Path) -> None:
    bif = read_network(network_path(name))
    write_network(tmp_path / "a.xmlbif.gz", bif)
    again = read_network(tmp_path / "a.xmlbif.gz")
    assert same_file(again, bif)
    assert same_file(parse_bif(format_bif(again)), bif)


def writable(name: str) -> bool:
    """Whether XMLBIF can express a name."""
    return name == name.strip(" \t\r\n") and not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", name)


texts = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=20)
anything = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=5)


@given(thetas(), names(), st.lists(texts.map(str.strip), max_size=3))
def test_names_properties_and_numbers_survive_writing(theta: dc.Tables, name: str, said: list[str]) -> None:
    bif = NetworkContent(theta.network.variables, theta.network.parents, theta, name, tuple(said))
    used = [name, *(part for variable in bif.variables for part in (variable.name, *variable.states))]
    if not all(map(writable, used)):
        with pytest.raises(dc.InputError, match="which XMLBIF cannot express"):
            format_xmlbif(bif)
        return
    again = parse_xmlbif(format_xmlbif(bif))
    assert same_file(again, bif)
    assert (again.name, again.properties) == (name, tuple(said))


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=5), min_size=2, max_size=3, unique=True
    )
)
@example(["<", "&lt;", "]]>"])
@example(["a\rb", "a\nb", "a\r\nb", "\x85", "\u2028"])
@example(["\ufffe", "\x00"])
@example(["<!--", "-->", "&amp;"])
def test_any_other_name_survives_writing_or_is_refused(odd: list[str]) -> None:
    bif = NetworkContent((dc.Variable(odd[0], odd),), {odd[0]: ()}, {odd[0]: np.full(len(odd), 1 / len(odd))})
    if all(map(writable, odd)):
        assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)
    else:
        with pytest.raises(dc.InputError, match="cannot express"):
            format_xmlbif(bif)


@given(st.floats(0, 1e-6) | st.floats(0, 1))
def test_every_float_survives_writing(value: float) -> None:
    bif = NetworkContent((dc.Variable("a", ("x", "y")),), {"a": ()}, {"a": np.array([value, 1 - value])})
    assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)


@given(networks())
@settings(max_examples=20)
def test_a_structure_is_written_in_both_notations(network: dc.Network) -> None:
    """In a text here; with a file below."""
    bif = NetworkContent(network.variables, network.parents, {})
    again = parse_bif(format_bif(bif))
    assert network_of(again, where="x") == network and not again.arrays
    if all(writable(part) for variable in network.schema for part in (variable.name, *variable.states)):
        again = parse_xmlbif(format_xmlbif(bif))
        assert network_of(again, where="x") == network and not again.arrays


def test_what_has_no_name_is_refused() -> None:
    with pytest.raises(dc.InputError, match="needs a name that is not empty"):
        format_xmlbif(NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, name=""))
    with pytest.raises(dc.InputError, match="a character that XML cannot express"):
        format_xmlbif(NetworkContent((dc.Variable("a", ("x",)),), {"a": ()}, {}, properties=("\x00",)))


# ------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("name", ["a.xml", "a.xmlbif", "a.bifxml", "a.xml.gz", "a.bif", "a.bif.gz", "a"])
def test_a_file_is_written_as_its_name_ends_and_read_as_it_begins(tmp_path: Path, name: str) -> None:
    path, theta = tmp_path / name, asia()
    theta.write(path, name="asia", properties=("made up",))
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    assert text.startswith("<?xml") == (notation_of(name) == "xmlbif") == ("xml" in name)
    again = dc.Tables.read(path)
    assert same_file(content_of(again), content_of(theta)) and dc.Network.read(path) == theta.network
    path.rename(tmp_path / "renamed.csv")
    assert same_file(content_of(dc.Tables.read(tmp_path / "renamed.csv")), content_of(theta))
    theta.network.write(path)
    assert dc.Network.read(path) == theta.network
    assert dict(dc.Network.read(path).parents) == dict(theta.network.parents)
    with pytest.raises(dc.InputError, match="no probabilities of 'asia'"):
        dc.Tables.read(path)
    with pytest.raises(dc.InputError, match=r"cannot write network .*: No such file"):
        theta.network.write(tmp_path / "no" / name)


@every(
    ("text", "name", "told"),
    [
        (TEXT, "x", "xmlbif"),
        (TEXT, "x.bif", "xmlbif"),
        ("\n\t" + TEXT.removeprefix(LINES[0]), "x", "xmlbif"),
        ("<!-- arcs -->" + LINES[1], "x", "xmlbif"),
        ("network n { }", "x.xml", "bif"),
        ("neither", "x.xml", "xmlbif"),
        ("neither", "x.bif.gz", "bif"),
        ("a -> b", "x", None),
        ("<5 -> b", "x.txt", None),
        ("<BIFF -> b", "x.txt", None),
    ],
)
def test_a_file_is_told_by_its_beginning_then_by_its_name(text: str, name: str, told: str | None) -> None:
    assert holds_network(text, name) == (told is not None)
    if text == "neither":
        with pytest.raises(dc.InputError, match="not XML" if told == "xmlbif" else "expected 'network'"):
            parse_network(text, where=name)


# ------------------------------------------------------------------------------------------ refusals


@every(
    ("number", "line", "message"),
    [
        (1, "<?xml version='1.0'?><html>", "expected BIF, got the element 'html'"),
        (2, "<BIF><NETWORK><NAME>test</WRONG>", "not XML .mismatched tag."),
        (2, "<BIF><NAME>test</NAME>", "expected NETWORK, got the element 'NAME'"),
        (2, "<BIF><NETWORK><CLIQUE/>", "expected NAME or PROPERTY or VARIABLE or DEFINITION, got the element 'CLIQUE'"),
        (2, "<BIF><NETWORK><NAME>t<b>e</b></NAME>", "expected text in NAME, got the element 'b'"),
        (2, "<BIF><NETWORK>test", "text outside the elements of a network: 'test'"),
        (3, "<VARIABLE><NAME>a<5</NAME></VARIABLE>", "not XML .*'<' and '&' of a name are written '&lt;' and '&amp;'"),
        (3, "<VARIABLE><NAME>a</NAME></VARIABLE>", "'a' declares no states"),
        (3, "<VARIABLE><OUTCOME>no</OUTCOME></VARIABLE>", "expected one NAME with a text, got 0"),
        (3, "<VARIABLE><NAME>a</NAME><NAME>c</NAME></VARIABLE>", "expected one NAME with a text, got 2"),
        (3, '<VARIABLE TYPE="decision"><NAME>a</NAME></VARIABLE>', "a variable of type 'decision'"),
        (3, LINES[2].replace("yes", "no"), "'a': state 'no' is declared twice"),
        (3, LINES[2].replace("yes", ""), "'a': every state needs a name"),
        (
            3,
            LINES[2].replace("<OUT", "<PROPERTY>discreet-bounds = 0 x</PROPERTY><OUT", 1),
            "expected numbers, got '0 x'",
        ),
        (3, LINES[2].replace("<OUT", "<PROPERTY>discreet-bounds = 1</PROPERTY><OUT", 1), "two numbers, got 1"),
        (3, LINES[2].replace("<OUT", "<PROPERTY>discreet-bins = 1</PROPERTY><OUT", 1), "'a': bins need bounds"),
        (4, LINES[2], "variable 'a' is declared twice"),
        (5, LINES[4].replace("FOR>a", "FOR>c").replace("a</FOR", "c</FOR"), "names an undeclared variable 'c'"),
        (5, LINES[4].replace("<TABLE", "<GIVEN>c</GIVEN><TABLE"), "of 'a' names an undeclared variable 'c'"),
        (5, LINES[4].replace("<FOR>a</FOR>", ""), "expected one FOR with a text, got 0"),
        (5, LINES[4].replace("</TABLE>", "</TABLE><TABLE>1 0</TABLE>"), "the definition of 'a' has 2 tables"),
        (5, LINES[4].replace("0.75", "lots"), "expected a probability of 'a', got 'lots'"),
        (5, LINES[4].replace("0.75", "0,75"), "expected a probability of 'a', got '0,75'"),
        (5, LINES[4].replace("0.25 0.75", "-0.25 1.25"), "a row of 'a' has a number outside 0 to 1"),
        (5, LINES[4].replace("0.75", "nan"), "a row of 'a' has a number outside 0 to 1"),
        (5, LINES[4].replace("0.75", "0.5 0.25"), "the table of 'a' needs 2 numbers, got more"),
        (5, LINES[4].replace("0.75", ""), "the table of 'a' needs 2 numbers, got 1"),
        (5, LINES[4].replace("0.75", "0.77"), "a row of 'a' sums to 1.02 instead of 1"),
        (6, LINES[5].replace("b</FOR", "a</FOR").replace("FOR>b", "FOR>a"), "variable 'a' has two definitions"),
        (7, LINES[6].replace("0.75", "0.5"), "a row of 'b' sums to 0.75 instead of 1, given a=yes"),
        (8, "</DEFINITION></NETWORK><NETWORK/></BIF>", "2 networks are more than the 1"),
        (8, "</DEFINITION></NETWORK>", "not XML"),
        (8, f"{LINES[7]}<BIF/>", "not XML"),
    ],
)
def test_what_is_not_xmlbif_is_refused_with_the_line(number: int, line: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message) as refusal:
        parse_xmlbif(with_line(number, line), where="my.xml")
    assert str(refusal.value).startswith(f"my.xml, line {number}: "), str(refusal.value)
    assert "\n" not in str(refusal.value)


@every(
    ("text", "message"),
    [
        ("", r"my\.xml, line 1: not XML"),
        ("\ud800", r"my\.xml, line 1: not XML"),
        ("<BIF/>", r"my\.xml: no VARIABLE in it; is this an XMLBIF file\?"),
        (TEXT.replace("<FOR>a</FOR>", "<FOR>a</FOR><GIVEN>b</GIVEN>").replace("0.25 0.75<", "1 0 1 0 1 0<"), "cycle"),
    ],
)
def test_what_is_missing_is_named(text: str, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        network_of(parse_xmlbif(text, where="my.xml"), where="my.xml")


# ------------------------------------------------------------------------------------------ hostile texts


def with_type(declared: str, text: str = TEXT) -> str:
    """The text with declarations in its document type."""
    return text.replace("?>", f"?><!DOCTYPE BIF [{declared}]>", 1)


LAUGHS = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(20))


@every(
    "declared",
    [
        '<!ENTITY x "no">',
        '<!ENTITY x SYSTEM "secret.txt">',
        '<!ENTITY x PUBLIC "x" "http://localhost:1/x">',
        '<!ENTITY % x "no">',
        '<!ENTITY % x SYSTEM "secret.txt"> %x;',
        '<!ENTITY x SYSTEM "secret.txt" NDATA gif>',
        LAUGHS,
    ],
)
def test_an_entity_is_refused_where_it_is_declared(declared: str) -> None:
    for text in (TEXT, TEXT.replace(">no<", ">&x;<"), TEXT.replace(">no<", ">&l20;<")):
        with pytest.raises(dc.InputError, match=r"^XMLBIF text, line 1: an entity '[a-z0-9]+', which no network needs"):
            parse_xmlbif(with_type(declared, text))


def test_nothing_that_a_text_names_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "x.dtd").write_text('<!ENTITY x "secret">')
    outside = TEXT.replace("?>", f'?><!DOCTYPE BIF SYSTEM "file://{tmp_path}/x.dtd">', 1)
    assert same_file(parse_xmlbif(outside), parse_xmlbif(TEXT))
    with pytest.raises(dc.InputError, match="line 3: an entity 'x'"):
        parse_xmlbif(outside.replace(">no<", ">&x;<"))
    with pytest.raises(dc.InputError, match=r"not XML .undefined entity"):
        parse_xmlbif(TEXT.replace(">no<", ">&x;<"))


def test_a_document_type_declares_few_attributes() -> None:
    """Each of them is looked at again for each element of its kind."""
    assert same_file(parse_xmlbif(with_type('<!ATTLIST TABLE x CDATA "d">' * 3)), parse_xmlbif(TEXT))
    with pytest.raises(dc.InputError, match="65 declared attributes are more than the 64"):
        parse_xmlbif(with_type("".join(f'<!ATTLIST TABLE x{n} CDATA "d">' for n in range(65))))


PIECES = (
    *(
        "",
        "<",
        ">",
        "&",
        "</",
        "/>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE x [",
        "]>",
        '<!ENTITY a "b">',
        "&a;",
    ),
    *(
        "<NAME>",
        "</NAME>",
        "<TABLE>",
        "</TABLE>",
        "<VARIABLE>",
        "<GIVEN>asia</GIVEN>",
        "<?x?>",
        "0",
        "-1",
        "nan",
        "1e999",
    ),
    *("yes", "\x00", "\u2028", " ", "&#0;", "&#65;", "discreet-bins = 1", "\ud800"),
)
RICH = format_xmlbif(
    NetworkContent(
        (dc.Variable("asia", ("yes", "no")), dc.Variable("n", bounds=(0, 9), bins=(5,)), dc.Variable("c", ("<", "&"))),
        {"asia": (), "n": ("asia",), "c": ("n", "asia")},
        {"asia": np.array([0.25, 0.75]), "n": np.array([[0.5, 0.5], [0, 1]]), "c": np.full((2, 2, 2), 0.5)},
    )
)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, len(RICH)), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=3)
)
def test_damaged_text_is_parsed_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = RICH
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    try:
        bif = parse_xmlbif(text)
        network_of(bif, where="XMLBIF text")
    except dc.InputError:
        return
    assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)
