"""Network files as other programs write them: recognised by their first lines, read, or named with a way round."""

from __future__ import annotations

import gzip
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.formats import network_files
from discreet.formats.network_content import NetworkContent, NetworkFormat
from discreet.formats.network_files import format_of, network_formats, read_network
from discreet.interchange.bif import parse_bif, parse_bif_structure
from discreet.interchange.bif_content import printed_tolerance
from discreet.interchange.bif_writing import format_bif
from discreet.interchange.xmlbif import parse_xmlbif, parse_xmlbif_structure
from networks import ASIA, asia

TWO = "variable a { type discrete [ 2 ] { no, yes }; } variable b { type discrete [ 3 ] { x, y, z }; }\n"
ROOT = "probability ( a ) { table 0.25, 0.75; }\n"
XML = (
    "<BIF><NETWORK><VARIABLE><NAME>a</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>\n"
    "<DEFINITION><FOR>a</FOR><TABLE>0.25 0.75</TABLE></DEFINITION></NETWORK></BIF>"
)
NET = (
    "% drawn by hand\n/// by a program\nnet { node_size = (80 40); }\n"
    'node A { states = ("y" "n"); }\nnode B { states = ("u" "v"); }\n'
    "potential (A) { data = (0.2 0.8); }\npotential (B | A) { data = ((0.1 0.9) (0.5 0.5)); }\n"
)
XDSL = (
    '<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- made up -->\n<smile version="1.0" id="n"><nodes>'
    '<cpt id="A"><state id="y"/><state id="n"/><probabilities>0.2 0.8</probabilities></cpt>'
    '<cpt id="B"><state id="u"/><state id="v"/><parents>A</parents><probabilities>0.1 0.9 0.5 0.5</probabilities></cpt>'
    '</nodes><extensions><genie version="1.0"><node id="A"><name>A</name></node><node id="B"><name>B</name></node>'
    "</genie></extensions></smile>"
)
DSL = "net n\n{\n node A\n {\n  TYPE = CPT;"
UAI = "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n0.2 0.8\n4\n0.1 0.9 0.5 0.5\n"
WAYS_ROUND = [
    ("// MSBN\nbelief network n\nnode a {", "DSC of Microsoft's MSBN, which is not read; convert it in R with bnlearn"),
    ("// ~->[DNET-1]->~\n\nbnet n {", "Netica's DNE, which is not read; open it in GeNIe"),
    (
        "<?xml version='1.0'?><ANALYSISNOTEBOOK ROOT='n'/>",
        "XBN of Microsoft's MSBN, which is not read; convert it with",
    ),
    ("# cells\nMARKOV\n3\n", "a Markov network in UAI, which is not read"),
]


def bif(row: str) -> str:
    """A network of two nodes with a row of b, whose parent is a."""
    return f"{TWO}{ROOT}probability ( b | a ) {{\n (no) {row};\n (yes) 0.5, 0.25, 0.25; }}\n"


def noted(path: Path) -> tuple[dc.Tables, list[str]]:
    """Probabilities of a file, and what was warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tables = dc.Tables.read(path)
    return tables, [str(each.message) for each in seen if each.category is UserWarning]


# ------------------------------------------------------------------------------------------ comments and blocks


def test_a_comment_ends_a_word_it_is_glued_to() -> None:
    text = TWO.replace("no, yes", 'no, // "no"\n yes// "yes"\n').replace("x, y, z", "x/* one */, y, z/**/")
    assert [variable.states for variable in parse_bif(text).variables] == [("no", "yes"), ("x", "y", "z")]


def test_names_with_slashes_come_back() -> None:
    odd = dc.Variable("a//b", ("x/*", "u/v", "//w", "*/"))
    text = format_bif(NetworkContent((odd,), {"a//b": ()}, {}))
    assert parse_bif(text).variables == (odd,) and " u/v" in text


def test_a_default_of_javabayes_is_the_table_with_the_child_slowest() -> None:
    numbers = "0.5 0.1  0.25 0.2  0.25 0.7"
    both = [
        parse_bif(f"{TWO}{ROOT}probability ( b a ) {{ {word} {numbers} ; }}").arrays["b"]
        for word in ("default", "table")
    ]
    assert both[0].tolist() == both[1].tolist() == [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]
    one = parse_bif(f"{TWO}{ROOT}probability ( b a ) {{ default 0.5 0.25 0.25; (yes) 0.1 0.2 0.7; }}")
    assert one.arrays["b"].tolist() == both[0].tolist()
    with pytest.raises(dc.InputError, match="line 3: a row of 'b' needs 3 numbers, got 6"):
        parse_bif(f"{TWO}{ROOT}probability ( b a ) {{ default {numbers}; (yes) 0.1 0.2 0.7; }}")


@pytest.mark.parametrize(
    "text",
    [TWO + ROOT, XML.replace("</VARIABLE>", "</VARIABLE><VARIABLE><NAME>b</NAME><OUTCOME>x</OUTCOME></VARIABLE>")],
)
def test_a_variable_without_a_block_is_a_root_and_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "some").write_text(text)
    block = "DEFINITION" if text.startswith("<") else "probability block"
    with pytest.warns(UserWarning, match=f"some: no {block} of 'b'; taken for a node without parents"):
        assert dc.Network.read(tmp_path / "some").parents == {"a": (), "b": ()}
    with (
        pytest.warns(UserWarning, match="of 'b'; taken for"),
        pytest.raises(dc.InputError, match="no probabilities of 'b'; add its rows"),
    ):
        dc.Tables.read(tmp_path / "some")


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("row", "scaled"),
    [
        ("0.3333, 0.3333, 0.3333", [1 / 3] * 3),
        ("0.33 0.33 /* cut */ 0.33", [1 / 3] * 3),
        ("0.985, 0.01, 0.005035", [0.985 / 1.000035, 0.01 / 1.000035, 0.005035 / 1.000035]),
        ("1e-3 0.999 1e-4", [1e-3 / 1.0001, 0.999 / 1.0001, 1e-4 / 1.0001]),
    ],
)
def test_a_row_rounded_to_its_printed_digits_is_scaled_and_told(row: str, scaled: list[float], tmp_path: Path) -> None:
    (tmp_path / "n.bif").write_text(bif(row))
    tables, notes = noted(tmp_path / "n.bif")
    assert tables["b"][0] == pytest.approx(scaled, rel=1e-12) and tables["b"][1].tolist() == [0.5, 0.25, 0.25]
    (note,) = notes
    assert re.search(r"n\.bif, line 4: a row of 'b' sums to [\d.]+, as numbers rounded .*; it is scaled to 1$", note)


@pytest.mark.parametrize(
    "row",
    [
        "0.5, 0.3, 0.1",  # a decimal each would explain .15
        "0.330, 0.330, 0.330",
        "0.3333, 0.3333, 0.3336",
        "1, 0.005, 0",  # 1 and 0 are exact
        "0.000001, 0.9990, 0.0005",
    ],
)
def test_a_row_that_its_digits_do_not_explain_is_refused(row: str) -> None:
    with pytest.raises(dc.InputError, match=r"line 4: a row of 'b' sums to [\d.]+ instead of 1"):
        parse_bif(bif(row))


def test_digits_are_those_of_the_row_in_a_whole_table() -> None:
    """The first row is exact to four digits, the second to one: only that one may be off."""
    head = f"{TWO}{ROOT}probability ( b | a ) {{ table "
    whole = parse_bif(f"{head} 0.5000 0.33, 0.2500 0.33, 0.2500 0.33; }}")
    assert whole.arrays["b"] == pytest.approx(np.array([[0.5, 0.25, 0.25], [1 / 3] * 3]))
    with pytest.raises(dc.InputError, match=r"sums to 0\.99 instead of 1"):
        parse_bif(f"{head} 0.5000 0.33, 0.2500 0.33, 0.2400 0.34; }}")
    rows = "0.50 0.50 0.3300 0.6600"
    xml = XML.replace(
        "</NETWORK>", "<VARIABLE><NAME>c</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE></NETWORK>"
    )
    xml = xml.replace(
        "</NETWORK>", f"<DEFINITION><FOR>c</FOR><GIVEN>a</GIVEN><TABLE>{rows}</TABLE></DEFINITION></NETWORK>"
    )
    with pytest.raises(dc.InputError, match=r"a row of 'c' sums to 0\.99 instead of 1, given a=yes"):
        parse_xmlbif(xml)
    read = parse_xmlbif(xml.replace("0.3300 0.6600", "0.33 0.66"))
    assert read.arrays["c"][1] == pytest.approx([1 / 3, 2 / 3]) and "a row of 'c' sums to 0.99" in read.notes[0]


def test_a_number_of_any_exponent_has_digits() -> None:
    assert printed_tolerance(["1e-99999999999999999999", "0", "1"]) == 0
    assert printed_tolerance(["5E-1", "0.5"]) == pytest.approx(0.01)


def test_structure_alone_fails_on_no_number() -> None:
    wrong = (
        bif("0.9, 0.9, 0.9"), bif("7, x, nan"), bif("0.5"), bif("0.1, 0.2; (no) 1"), bif('"}", 0.2 // }\n'),
        bif("0.5, 0.25, 0.25; property } odd ; default 1"),
    )  # fmt: skip
    for text in wrong:
        with pytest.raises(dc.InputError):
            parse_bif(text)
        read = parse_bif_structure(text)
        assert read.parents == {"a": (), "b": ("a",)} and read.variables == parse_bif(bif("1, 0, 0")).variables
    for number in ("0.9 0.9", "x", "0.25 0.25 0.5"):
        assert parse_xmlbif_structure(XML.replace("0.25 0.75", number)).parents == {"a": ()}
    assert parse_bif_structure(ASIA.read_text()).parents == asia().network.parents


@pytest.mark.costly("Loading pgmpy takes seconds.")
def test_objects_with_rounded_rows_are_scaled_and_told() -> None:
    network = dc.Network.empty([dc.Variable("a", ("x", "y", "z"))])
    for make, read in (("to_pgmpy", dc.Tables.from_pgmpy), ("to_pyagrum", dc.Tables.from_pyagrum)):
        model = getattr(dc.Tables(network, {"a": np.full(3, 1 / 3)}), make)()
        if make == "to_pgmpy":
            model.get_cpds("a").values[:] = 0.333
        else:
            model.cpt("a").fillWith([0.333] * 3)
        with pytest.warns(UserWarning, match=r"a row of 'a' sums to 0\.999"):
            assert read(model)["a"] == pytest.approx([1 / 3] * 3)


# ------------------------------------------------------------------------------------------ encodings


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1252", "utf-8", "UTF-16", "GB18030"])
def test_xml_is_read_in_the_encoding_that_it_declares(encoding: str, tmp_path: Path) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n{XML.replace("yes", "größer")}'
    (tmp_path / "n.xml").write_bytes(text.encode(encoding))
    assert dc.Network.read(tmp_path / "n.xml").schema["a"].states == ("no", "größer")
    (tmp_path / "n.gz").write_bytes(gzip.compress(text.encode(encoding)))
    assert dc.Tables.read(tmp_path / "n.gz")["a"].tolist() == [0.25, 0.75]


@pytest.mark.parametrize("encoding", ["rot13", "utf-7", "iso-8859-12", "../../x", "base64", "UTF-16LE"])
def test_other_encodings_are_refused_in_a_line(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "n.xml").write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>\n{XML}'.encode())
    with pytest.raises(dc.InputError) as refusal:
        dc.Network.read(tmp_path / "n.xml")
    assert "\n" not in str(refusal.value) and "n.xml" in str(refusal.value)


def test_blanks_before_xml_do_not_count_but_their_lines_do(tmp_path: Path) -> None:
    text = f"\n \n  <?xml version='1.0'?>\n{XML}"
    assert parse_xmlbif(text).arrays["a"].tolist() == [0.25, 0.75]
    with pytest.raises(dc.InputError, match=r"line 5: a row of 'a' sums to 0\.35"):
        parse_xmlbif(text.replace("0.25 0.75", "0.10 0.25"))
    with pytest.raises(dc.InputError, match="line 5: not XML"):
        parse_xmlbif(text.replace("</DEFINITION>", ""))


# ------------------------------------------------------------------------------------------ other programs


@pytest.mark.parametrize("text", [NET, XDSL, UAI])
def test_what_pyagrum_reads_is_read_through_it(text: str, tmp_path: Path) -> None:
    pytest.importorskip("pyagrum")
    path = tmp_path / "renamed.dat"
    path.write_text(text)
    network, tables = dc.Network.read(path), dc.Tables.read(path)
    first, second = network.nodes
    assert network.parents == {first: (), second: (first,)} == tables.network.parents
    assert tables[first] == pytest.approx([0.2, 0.8], abs=1e-7)
    assert tables[second] == pytest.approx(np.array([[0.1, 0.9], [0.5, 0.5]]), abs=1e-7)
    if text is not UAI:
        assert network.schema["B"].states == ("u", "v")


def test_rounded_rows_of_other_programs_are_scaled_and_others_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyagrum")
    (tmp_path / "n.net").write_text(NET.replace("0.1 0.9", "0.33 0.66"))
    tables, (note,) = noted(tmp_path / "n.net")
    assert tables["B"][0] == pytest.approx([1 / 3, 2 / 3], abs=1e-6) and "n.net: a row of 'B' sums to 0.99" in note
    (tmp_path / "n.net").write_text(NET.replace("0.1 0.9", "3 9"))
    assert dc.Network.read(tmp_path / "n.net").parents["B"] == ("A",)
    with pytest.raises(dc.InputError, match=r"n\.net: a row of 'B' has a number outside 0 to 1, given A=y"):
        dc.Tables.read(tmp_path / "n.net")


def test_what_pyagrum_refuses_is_one_line_with_the_place(tmp_path: Path) -> None:
    pytest.importorskip("pyagrum")
    for text, message in (
        (NET.replace("node A {", "node A {{"), r"n, line 4: pyAgrum cannot read this Hugin NET: "),
        (XDSL.replace("</cpt>", "", 1), "n, line 3: pyAgrum cannot read this GeNIe XDSL: "),
        (XDSL.replace("extensions", "others"), "n: pyAgrum cannot read this GeNIe XDSL: "),
        (UAI.replace("2 0 1", "2 0 9"), "n, line 6: pyAgrum cannot read this UAI: "),
    ):
        (tmp_path / "n").write_text(text)
        with pytest.raises(dc.InputError, match=message) as refusal:
            dc.Network.read(tmp_path / "n")
        assert "\n" not in str(refusal.value) and "network." not in str(refusal.value)


def test_without_pyagrum_the_way_round_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyagrum", None)
    for text, title in ((NET, "Hugin NET"), (XDSL, "GeNIe XDSL"), (DSL, "GeNIe DSL"), (UAI, "UAI")):
        (tmp_path / "n").write_text(text)
        with pytest.raises(dc.InputError, match=f"n: {title}, which is read through pyAgrum; .*pip install") as refusal:
            dc.Network.read(tmp_path / "n")
        assert "save it as BIF" in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(("text", "message"), WAYS_ROUND)
def test_what_nothing_reads_is_named_with_a_way_round(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "n.txt").write_text(text)
    for read in (dc.Network.read, dc.Tables.read):
        with pytest.raises(dc.InputError, match=f"n.txt: {re.escape(message)}"):
            read(tmp_path / "n.txt")


def test_a_beginning_is_asked_before_an_ending() -> None:
    texts = {"bif": TWO, "xmlbif": XML, "net": NET, "xdsl": XDSL, "uai": UAI, "dsl": DSL}
    for name, text in texts.items():
        for ending in ("", ".bif", ".xml", ".net", ".csv"):
            form = format_of(text, f"n{ending}")
            assert form is not None and form.name == name
    assert format_of("net -> cost", "n") is None and format_of("net -> cost", "n.net.gz") is network_formats()["net"]
    with pytest.raises(dc.InputError, match="does not begin as a network file does"):
        parse = network_files.parse_network
        parse("[a][b|a]", where="n.txt")


def test_what_is_only_read_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(dc.InputError, match="cannot write 'net'; the formats are: bif, xmlbif"):
        asia().write(tmp_path / "asia.net")
    assert not list(tmp_path.iterdir())


def test_another_pack_brings_a_notation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str, *, where: str) -> NetworkContent:
        names = text.split()[1:]
        return NetworkContent(tuple(dc.Variable(name, ("0", "1")) for name in names), dict.fromkeys(names, ()), {})

    mine = NetworkFormat("mine", (".mine",), lambda text: text.startswith("MINE "), read, read)
    known = network_formats()
    monkeypatch.setattr(network_files, "network_formats", lambda: {"mine": mine, **known})
    (tmp_path / "n").write_text("MINE a b")
    assert dc.Network.read(tmp_path / "n").nodes == ("a", "b") and read_network(tmp_path / "n").arrays == {}
    with pytest.raises(dc.InputError, match="no probabilities of 'a'"):
        dc.Tables.read(tmp_path / "n")


def test_without_a_pack_of_formats_the_refusal_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_files, "network_formats", dict)
    for call in (lambda: dc.Network.read(ASIA), lambda: dc.Tables.read(ASIA), asia().text):
        with pytest.raises(dc.InputError, match=r"it is in the pack discreet\.interchange; install it"):
            call()


# ------------------------------------------------------------------------------------------ model strings


def test_a_model_string_of_bnlearn_is_arcs() -> None:
    schema = dc.Schema(tuple(dc.Variable(name, ("n", "y")) for name in ("A", "S", "T", "E", "D d")))
    read = dc.Network.parse_edges("[A][S][T|A]\n[D d|T:S][E|S:A]", schema)
    assert read.parents == {"A": (), "S": (), "T": ("A",), "E": ("S", "A"), "D d": ("T", "S")}
    assert dc.Network.parse_edges("[A][S]", schema).arcs == ()
    for text, message in (
        ("[A][X]", "arcs, line 1: .*no variable 'X'"),
        ("[A]\n[T|A:X]", "arcs, line 2: .*no variable 'X'"),
        ("[A][A]", "arcs, line 1: the node 'A' occurs twice in the model string"),
        ("[A]\n[T|S]", r"arcs, line 2: the model string has no node \[S\]; is it whole\?"),
        ("[A|T][T|A]", "cycle"),
        ("[A][T|A:A]", "occurs twice"),
    ):
        with pytest.raises(dc.InputError, match=message):
            dc.Network.parse_edges(text, schema)
