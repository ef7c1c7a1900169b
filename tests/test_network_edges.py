"""Networks from arcs: pairs in Python, lines and CSV in files, words of the command line; and what is refused."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import discreet as dc
from discreet.interchange.bif import begins_as_bif
from discreet.model import arcs as arcs_module
from discreet.model.arcs import parents_in, quoted, schema_of
from folding import every
from fuzzing import fault_of_message
from hostile import damaged_text
from networks import ASIA, asia
from shell import Shell, charges, opened, stdin
from sources import PEER_WARNINGS
from strategies import networks

pytestmark = PEER_WARNINGS


def named(*names: str) -> dc.Schema:
    """A schema of two-state variables."""
    return dc.Schema(tuple(dc.Variable(name, ("no", "yes")) for name in names))


ABC = named("a", "b", "c", "d")
ODD = named("age group", "a->b", "x, y", '5" tube', "#1", "été 雪", " lead", "from", "to", "->", "C#")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


# ------------------------------------------------------------------------------------------ in Python


def test_parents_have_the_order_of_their_arcs() -> None:
    network = dc.Network.from_edges([("c", "b"), ("a", "b"), ("a", "c")], ABC)
    assert dict(network.parents) == {"a": (), "b": ("c", "a"), "c": ("a",), "d": ()}
    assert network.schema == ABC and network.shape("b") == (2, 2, 2)
    assert network == dc.Network.from_edges((arc for arc in [["c", "b"], ["a", "b"], ["a", "c"]]), ABC.variables)


@given(networks())
def test_arcs_make_the_network_again(network: dc.Network) -> None:
    again = dc.Network.from_edges(network.arcs, network.schema)
    assert again == network and dict(again.parents) == dict(network.parents)


def test_networks_that_need_no_arcs() -> None:
    assert dc.Network.empty(ABC).arcs == () and dc.Network.empty(ABC).nodes == ABC.names
    assert dc.Network.naive_bayes(ABC, "c").arcs == (("c", "a"), ("c", "b"), ("c", "d"))
    assert dc.Network.naive_bayes(named("a"), "a") == dc.Network.empty(named("a"))
    with pytest.raises(dc.InputError, match=r"^no variable 'e'; there are: a, b, c, d$"):
        dc.Network.naive_bayes(ABC, "e")


def many(count: int) -> list[tuple[str, str]]:
    return [(f"v{i}", "v0") for i in range(1, count)]


@every(
    ("edges", "told"),
    [
        ([("a", "b"), ("a", "e")], "edge 2: no variable 'e'; there are: a, b, c, d; correct the name, or declare it"),
        ([("e", "a")], "edge 1: no variable 'e'"),
        ([("a", "b"), ("b", "c"), ("a", "b")], "edge 3: the arc 'a' -> 'b' occurs twice, see edge 1; remove one"),
        ([("a", "a")], "edge 1: an arc from 'a' to itself; remove it"),
        ([("a", "b"), ("b", "c"), ("c", "a")], "the network has a cycle: a -> b -> c -> a; remove one of its arcs"),
        ([("a", "b"), ("b", "a")], "the network has a cycle: a -> b -> a"),
        (["ab"], "edge 1: expected a pair (parent, child) of names, got 'ab'"),
        ([("a", "b"), ("a", "b", "c")], "edge 2: expected a pair (parent, child) of names, got"),
        ([("a",)], "edge 1: expected a pair"),
        ([{"a", "b"}], "edge 1: expected a pair"),
        ([(1, 2)], "edge 1: expected a pair (parent, child) of names, got '(1, 2)'"),
        ([None], "edge 1: expected a pair"),
        ("a -> b", "expected pairs (parent, child), got 'a -> b'; write [('smoke', 'lung'), ...]"),
        (7, "expected pairs (parent, child), got '7'"),
    ],
)
def test_edges_that_are_none(edges: Any, told: str) -> None:
    with pytest.raises(dc.InputError) as caught:
        dc.Network.from_edges(edges, ABC)
    assert str(caught.value).startswith(told) and not fault_of_message(str(caught.value))


def test_a_node_of_too_many_parents_is_refused() -> None:
    schema = named(*(f"v{i}" for i in range(40)))
    assert len(dc.Network.from_edges(many(28), schema).parents["v0"]) == 27
    with pytest.raises(dc.InputError, match=r"node 'v0': a table over 32 variables .* give it fewer parents"):
        dc.Network.from_edges(many(32), schema)


def test_what_variables_are_not() -> None:
    for wrong in (["a", "b"], "ab", 3, [ABC]):
        with pytest.raises(dc.InputError, match=r"^expected a Schema or a list of Variable, got "):
            dc.Network.empty(wrong)  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="a schema needs at least one variable"):
        dc.Network.empty([])
    assert schema_of(ABC) is ABC


# ------------------------------------------------------------------------------------------ text

TEXTS = {
    "lines": "a -> b\na->c\n  b ->c  \n",
    "a chain": "a -> b -> c\na -> c",
    "comments and blank lines": "# arcs\n\na -> b # why\n   # more -> of it\n\t\na -> c #\nb -> c",
    "CSV with from and to": "from,to\na,b\na,c\nb,c\n",
    "CSV with parent and child": "Parent , CHILD\na, b\na ,c\n# no arc\n\nb,c",
    "CSV with source and target": '"source","target"\r\n"a","b"\r\na,"c"\r\nb,c\r\n',
    "CSV without a header": "a,b\na,c\nb,c",
    "lines of Windows": "a -> b\r\na -> c\r\nb -> c\r\n",
    "lines of old": "a -> b\ra -> c\rb -> c",
    "both": "a -> b\na,c\nb -> c",
    "quoted": '"a" -> "b"\n"a"->"c"\n"b"->c',
}


@every("text", [pytest.param(text, id=name) for name, text in TEXTS.items()])
def test_texts_of_the_same_arcs(text: str) -> None:
    network = dc.Network.parse_edges(text, ABC)
    assert set(network.arcs) == {("a", "b"), ("a", "c"), ("b", "c")}


@every(
    ("text", "arc"),
    [
        ('"age group" -> "a->b"', ("age group", "a->b")),
        ("age group,from", ("age group", "from")),
        ('"a->b","x, y"', ("a->b", "x, y")),
        ('"5"" tube" -> "#1"', ('5" tube', "#1")),
        ('"#1","5"" tube"', ("#1", '5" tube')),
        ('"été 雪"->" lead"', ("été 雪", " lead")),
        ('" lead", été 雪 ', (" lead", "été 雪")),
        ("from -> to", ("from", "to")),
        ('"from" -> "->"', ("from", "->")),
        ("C#->from", ("C#", "from")),
        ('to,"->"', ("to", "->")),
    ],
)
def test_odd_names_in_text(text: str, arc: tuple[str, str]) -> None:
    assert dc.Network.parse_edges(text, ODD).arcs == (arc,)


@given(networks())
def test_quoted_names_come_back(network: dc.Network) -> None:
    if not network.arcs:
        return
    chains = "\n".join(f"{quoted(parent)} -> {quoted(child)}" for parent, child in network.arcs)
    table = "from,to\n" + "\n".join(f"{quoted(parent)},{quoted(child)}" for parent, child in network.arcs)
    for text in (chains, table):
        assert dc.Network.parse_edges(text, network.schema) == network


@every(
    ("text", "told"),
    [
        ("", "f: no arcs; write lines such as 'smoke -> lung'"),
        ("# a -> b\n\n", "f: no arcs"),
        ("from,to\n", "f: no arcs"),
        ("a -> b\n\na -> e", "f, line 3: no variable 'e'; there are: a, b, c, d; correct the name, or declare it"),
        ("child,parent\na,b", "f, line 1: no variable 'child'"),
        ("a,b\nfrom,to", "f, line 2: no variable 'from'"),
        ("a -> b\n#\nc -> a -> b", "f, line 3: the arc 'a' -> 'b' occurs twice, see f, line 1; remove one of them"),
        ("a -> b -> b", "f, line 1: an arc from 'b' to itself; remove it"),
        ("a -> b -> c\nc -> a", "f: the network has a cycle: a -> b -> c -> a; remove one of its arcs"),
        ("a", "f, line 1: expected an arc, 'smoke -> lung' or two columns 'smoke,lung', got one column"),
        ("a -> b\na;b", "f, line 2: expected an arc, 'smoke -> lung' or two columns 'smoke,lung', got one column"),
        (
            "from,to,why\na,b,c",
            "f, line 1: expected an arc, 'smoke -> lung' or two columns 'smoke,lung', got 3 columns",
        ),
        ("a,b,", "f, line 1: expected an arc, 'smoke -> lung' or two columns 'smoke,lung', got 3 columns"),
        ("a, b -> c", "f, line 1: expected -> before 'b'; put a name with blanks in double quotes, and each of"),
        ("a -> b c", "f, line 1: expected -> before 'c'; put a name with blanks in double quotes"),
        ("a ->", "f, line 1: a name is missing beside ->; write 'smoke -> lung'"),
        ("-> a", "f, line 1: a name is missing beside ->"),
        ("a -> -> b", "f, line 1: a name is missing beside ->"),
        ("a -> # b", "f, line 1: a name is missing beside ->"),
        ("a,", "f, line 1: a name is missing beside the comma; write 'smoke,lung'"),
        (",a", "f, line 1: a name is missing beside the comma"),
        ('a -> "b', "f, line 1: a quote that is not closed; a name with a quote in it has two"),
        ('"a,b', "f, line 1: a quote that is not closed"),
        ('a "x" y,b', "f, line 1: a double quote inside a name; put the name in quotes, and double its own"),
        ('"a" x,b', "f, line 1: a double quote inside a name"),
        ('"a\nb",c', "f, line 1: a quote that is not closed"),
    ],
)
def test_texts_that_are_no_arcs(text: str, told: str) -> None:
    with pytest.raises(dc.InputError) as caught:
        dc.Network.parse_edges(text, ABC, where="f")
    assert str(caught.value).startswith(told), str(caught.value)
    assert not fault_of_message(str(caught.value))


def test_more_arcs_than_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arcs_module, "ARCS", 3)
    text = "a -> b -> c\na -> c"
    assert len(dc.Network.parse_edges(text, ABC).arcs) == 3
    with pytest.raises(dc.InputError, match="4 arcs are more than the 3 allowed in a file"):
        dc.Network.parse_edges(f"{text}\na -> d", ABC)


def test_damaged_texts_are_read_or_refused_in_one_line() -> None:
    rng = random.Random(5)
    marks = ("->", ",", '"', "#", "\n", "\r\n", " ", "a", "from,to", "\\", "\t", "\u2028")
    read = 0
    for _ in range(3000):
        text = damaged_text(rng, rng.choice(list(TEXTS.values())), marks)
        try:
            parents_in(text, ABC, where="text")
            read += 1
        except dc.InputError as error:
            assert not fault_of_message(str(error)), repr(text)
    assert 100 < read < 2900


def test_a_long_line_is_read_in_time_that_is_proportional() -> None:
    for long in ('"' * 400_001, "a" * 400_000, " " * 400_000 + '"', "->" * 200_000, "," * 400_000, "/*" * 200_000):
        with pytest.raises(dc.InputError):
            dc.Network.parse_edges(f"a {long}", ABC)
        assert not begins_as_bif(long)


@every(
    ("text", "bif"),
    [
        ("network n { }", True),
        ('\n // by us\n/* more\n */ network "a b" { }', True),
        ("variable a { }", True),
        ("probability ( a ) { }", True),
        ("network -> a", False),
        ("network,a", False),
        ("networks -> a", False),
        ("# network n { }\na -> b", False),
        ("", False),
        ("/* network n { }", False),
    ],
)
def test_what_begins_as_bif(text: str, bif: bool) -> None:
    assert begins_as_bif(text) == bif


# ------------------------------------------------------------------------------------------ files


def test_files_as_they_come(tmp_path: Path) -> None:
    text = TEXTS["CSV with from and to"]
    wanted = dc.Network.parse_edges(text, ABC)
    files = {
        "plain.txt": text.encode(),
        "marked.csv": b"\xef\xbb\xbf" + text.encode(),
        "windows.csv": b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        "packed.csv.gz": gzip.compress(text.encode()),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert dc.Network.read_edges(tmp_path / name, ABC) == wanted, name
    (tmp_path / "latin.txt").write_bytes("été -> a".encode("latin-1"))
    with pytest.raises(dc.InputError, match=r"^cannot read arcs '.*latin.txt': not UTF-8 text; save it as UTF-8$"):
        dc.Network.read_edges(tmp_path / "latin.txt", ABC)
    with pytest.raises(dc.InputError, match=r"^cannot read arcs '.*none.txt': No such file"):
        dc.Network.read_edges(tmp_path / "none.txt", ABC)
    (tmp_path / "wrong.txt").write_text("a -> b\nb -> b")
    with pytest.raises(dc.InputError, match=r"wrong.txt, line 2: an arc from 'b' to itself"):
        dc.Network.read_edges(tmp_path / "wrong.txt", ABC)


# ------------------------------------------------------------------------------------------ the command line


def write_asia() -> None:
    """The arcs and the schema of the bundled network, as files of their own."""
    network = asia().network
    variables = [{"name": part.name, "states": list(part.states)} for part in network.schema]
    Path("asia.json").write_text(json.dumps({"variables": variables}))
    Path("arcs.txt").write_text("# asia\n" + "\n".join(f"{parent} -> {child}" for parent, child in network.arcs))
    Path("arcs.csv").write_text("from,to\n" + "\n".join(f"{parent},{child}" for parent, child in network.arcs))


@pytest.mark.costly("Files of arcs go the whole way from check to answers.")
def test_a_release_from_arcs_is_one_from_bif(run: Shell) -> None:
    write_asia()
    network = asia().network
    for number, file in enumerate(("arcs.txt", "arcs.csv")):
        assert run.json(f"check d.parquet --network {file} --schema asia.json")["ok"]
        run.json(
            f"release d.parquet --network {file} --schema asia.json --account add-remove --epsilon 1 "
            f"--output r{number}.json"
        )
        made = dc.Release.load(f"r{number}.json")
        assert made.network == network and dict(made.network.parents) == dict(network.parents)
        assert dc.tools.loads(made.dumps()).dumps() == made.dumps()
        assert run.json(f'query r{number}.json "P(lung | smoke=yes)"')["answers"][0]["query"] == "P(lung | smoke=yes)"
    assert charges() == 2


def test_words_for_networks(run: Shell) -> None:
    write_asia()
    common = "d.parquet --schema asia.json --account add-remove --epsilon 1"
    run.json(f"release {common} --network none --output none.json")
    assert dc.Release.load("none.json").network == dc.Network.empty(asia().network.schema)
    run.json(f"release {common} --network naive-bayes:lung --output naive.json")
    assert dc.Release.load("naive.json").network == dc.Network.naive_bayes(asia().network.schema, "lung")


def test_a_plan_takes_arcs(run: Shell) -> None:
    write_asia()
    Path("none").write_bytes(ASIA.read_bytes())
    common = "plan --epsilon 1 --records 200 --repeats 1 --mechanism laplace --relation replace"
    assert run.json(f"{common} --network arcs.txt --schema asia.json")["source"] == "random probabilities"
    assert run.json(f"{common} --network none --schema asia.json")["source"] == "random probabilities"
    for words in ("asia.bif", "asia.bif --schema asia.json"):
        assert run.json(f"{common} --network {words}")["source"] == "the network file's probabilities"
    # A file of that name is named by its folder.
    assert run.json(f"{common} --network ./none")["source"] == "the network file's probabilities"


def refusals() -> Iterable[tuple[str, str]]:
    """Networks of a command, and what is said of them."""
    schema = "--schema asia.json"
    need = "--schema FILE, with all variables and their states"
    known = "bif, markov.uai, uai, net, dsl, xdsl, dsc, dne, xbn, xmlbif"
    yield "arcs.txt", f"'arcs.txt' is no network file ({known}), so it is read as arcs: add {need}"
    yield "none", f"the network 'none' needs variables: add {need}"
    yield "naive-bayes:lung", f"the network 'naive-bayes:lung' needs variables: add {need}"
    yield (
        f"naive-bayes {schema}",
        "naive-bayes needs the parent of all other variables: write naive-bayes:TARGET",
    )
    yield f"naive-bayes: {schema}", "naive-bayes needs the parent"
    yield f"naive-bayes:lungs {schema}", "no variable 'lungs'; there are: asia, tub, smoke"
    yield f"None {schema}", "cannot read network 'None': No such file"
    yield f"cycle.txt {schema}", "cycle.txt: the network has a cycle: smoke -> lung -> smoke; remove one of its arcs"
    yield f"other.txt {schema}", "other.txt, line 2: no variable 'rain'"
    yield f"empty.txt {schema}", "empty.txt: no arcs"
    yield f"broken.bif {schema}", "broken.bif, line 1: expected"
    yield f"d.parquet {schema}", "not UTF-8"
    yield "arcs.txt --schema bare.json", "declare its states, or numeric bounds"


@pytest.mark.costly("A network that a command takes and cannot use is found by trying each command.")
def test_networks_that_a_command_refuses(run: Shell) -> None:
    write_asia()
    Path("cycle.txt").write_text("smoke -> lung\nlung -> smoke")
    Path("other.txt").write_text("smoke -> lung\nrain -> lung")
    Path("empty.txt").write_text("")
    Path("broken.bif").write_text("smoke -> lung")
    Path("bare.json").write_text(json.dumps({"variables": [{"name": "asia"}]}))
    for words, told in refusals():
        assert told in run.fails(f"check d.parquet --network {words}"), words
        release = f"release d.parquet --network {words} --account add-remove --epsilon 1 --output r.json"
        assert told in run.fails(release), words
    assert charges() == 0


def test_a_network_of_another_table_is_refused_before_it_costs(run: Shell) -> None:
    Path("other.json").write_text(json.dumps({"variables": [{"name": n, "states": ["yes", "no"]} for n in "ab"]}))
    Path("ab.txt").write_text("a -> b")
    release = "release d.parquet --network ab.txt --schema other.json --account add-remove --epsilon 1 --output r.json"
    assert "'a'" in run.fails(release)
    assert charges() == 0


def test_arcs_from_a_pipe_are_read_once(run: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    write_asia()
    stdin(monkeypatch, Path("arcs.csv").read_bytes())
    assert run.json("show - --schema asia.json")["arcs"] == [list(arc) for arc in asia().network.arcs]
