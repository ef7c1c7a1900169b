"""Texts of every format that is read from strangers: what the grammar allows, then damaged; all from a seed.

And what is done with a text that is read: it must write and read back as it was, and be of use, or be refused by type.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

import design_releases
import discreet as dc
from discreet.formats.network_files import network_of
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif
from discreet.interchange.xmlbif import format_xmlbif, parse_xmlbif
from fuzzing import damaged_text, damaged_tree, json_text, name, names, odd_word
from registry import VARIANTS
from strategies import same, same_file
from tiny import TINY, counts_of
from tiny import network_of as tiny_network

# ------------------------------------------------------------------------------------------------------------ networks

BIF_MARKS = (
    "{", "}", "(", ")", "[", "]", ",", ";", "|", '"', "//", "/*", "*/", "\n", "// discreet: x\n", "property", "table",
    "default", "variable", "probability", "network", "type", "discrete", "// discreet-bounds 0 1\n", "0.5, 0.5;",
    "property discreet-bins 1;", "1.0000001",
)  # fmt: skip


FILLERS = (
    "// plain\n", "/* two\nlines */", "property by = me;", 'property "quoted";', "// discreet: note\n",
    "// discreet-bounds 0 9\n", "property discreet-bounds 0 9;", "// discreet-bins 3\n",
)  # fmt: skip


def bif_text(rng: random.Random) -> str:
    """A network in BIF: rows, tables, defaults or no entries, with comments, properties and quotes anywhere."""
    nodes = names(rng, 1, 4)
    states = {node: names(rng, 1, 3) or ["s"] for node in nodes}
    lines = [f"network {_bif_name(rng, name(rng))} {{ {_filler(rng)}}}"]
    for node in nodes:
        size = f"[ {len(states[node])} ]" if rng.random() < 0.9 else ""
        listed = ", ".join(_bif_name(rng, state) for state in states[node])
        lines.append(f"variable {_bif_name(rng, node)} {{ type discrete {size} {{ {listed} }}; {_filler(rng)}}}")
    for at, node in enumerate(nodes):
        lines.append(_bif_block(rng, node, rng.sample(nodes[:at], rng.randint(0, min(at, 2))), states))
    text = rng.choice(("\n", "\r\n", " ")).join(lines) if rng.random() < 0.9 else " ".join(lines)
    return text if rng.random() < 0.4 else damaged_text(rng, text, BIF_MARKS)


def _bif_block(rng: random.Random, node: str, parents: list[str], states: dict[str, list[str]]) -> str:
    """A probability block."""
    head = _bif_name(rng, node) + (" | " + ", ".join(_bif_name(rng, p) for p in parents) if parents else "")
    rows = [()]
    for parent in parents:
        rows = [(*row, state) for row in rows for state in states[parent]]
    size = len(states[node])
    kind = rng.choice(("rows", "rows", "table", "default", "none"))
    if kind == "none":
        entries = ""
    elif kind == "default":
        entries = f"default {_bif_numbers(rng, size)};"
    elif kind == "table" or not parents:
        columns = [_row(rng, size) for _ in rows]
        entries = "table " + ", ".join(repr(column[k]) for k in range(size) for column in columns) + ";"
    else:
        labels = [", ".join(_bif_name(rng, state) for state in row) for row in rows]
        entries = "\n".join(f"({label}) {_bif_numbers(rng, size)};{_filler(rng, 0.05)}" for label in labels)
    return f"probability ( {head} ) {{ {entries} }}"


def _row(rng: random.Random, size: int) -> list[float]:
    weights = [rng.choice((0, 1, 1, 2, 5)) for _ in range(size)]
    weights[0] += 1
    return [weight / sum(weights) for weight in weights]


def _bif_numbers(rng: random.Random, size: int) -> str:
    return rng.choice((", ", " ", " , ")).join(f"{value:.9g}" for value in _row(rng, size))


def _bif_name(rng: random.Random, text: str) -> str:
    return f'"{text}"' if rng.random() < 0.2 or any(mark in text for mark in ' ,|(){}[];"') else text


def _filler(rng: random.Random, share: float = 0.3) -> str:
    """Comments, notes and properties, mostly nothing."""
    if rng.random() > share:
        return ""
    return rng.choice(FILLERS)


def read_bif_text(text: str) -> None:
    """Read, write, read; make a network, tables and a prior of it."""
    bif = parse_bif(text)
    network = network_of(bif, where="BIF text")
    assert same_file(parse_bif(format_bif(bif)), bif)
    assert [network.shape(node) for node in network.order]
    if set(bif.arrays) == set(network.nodes):
        dc.Dirichlet.from_probabilities(dc.Tables(network, bif.arrays), 10).mean()


XML_MARKS = (
    "<", ">", "&", "/", "</", "<!--", "-->", "]]>", "<![CDATA[", "&lt;", "&x;", "&#0;", "<x/>", "0.5 0.5", "1.0000001",
    "<NAME>", "</NAME>", "<OUTCOME>x</OUTCOME>", "<GIVEN>", "</GIVEN>", "<TABLE>", "</TABLE>", "<VARIABLE>", "\n",
    '<!DOCTYPE x [<!ENTITY x "y">]>', "<PROPERTY>discreet-bins = 1</PROPERTY>",
)  # fmt: skip


def xmlbif_text(rng: random.Random) -> str:
    """A network in XMLBIF: with tables, of zeros or without, with comments, properties and a document type."""
    nodes = names(rng, 1, 4)
    states = {node: names(rng, 1, 3) or ["s"] for node in nodes}
    parts = [rng.choice(("", '<?xml version="1.0"?>', "<!DOCTYPE BIF [<!ELEMENT BIF (NETWORK)*>]>"))]
    parts += ["<BIF>", "<NETWORK>", _element("NAME", name(rng))]
    for at, node in enumerate(nodes):
        listed = "".join(_element("OUTCOME", state) for state in states[node])
        note = rng.choice(("", "", "<!-- x -->", "<PROPERTY/>", "<PROPERTY>discreet-bounds = 0 9</PROPERTY>"))
        parts.append(f"<VARIABLE>{_element('NAME', node)}{listed}{note}</VARIABLE>")
        parents = rng.sample(nodes[:at], rng.randint(0, min(at, 2)))
        rows = [_row(rng, len(states[node])) for _ in range(math.prod(len(states[parent]) for parent in parents))]
        numbers = "\n".join(" ".join(f"{value:.6g}" for value in row) for row in rows)
        table = rng.choice((numbers, numbers, numbers, "", "0"))
        given = "".join(_element("GIVEN", parent) for parent in parents)
        parts.append(f"<DEFINITION>{_element('FOR', node)}{given}<TABLE>{table}</TABLE></DEFINITION>")
    text = rng.choice(("\n", "\r\n", "")).join([*parts, "</NETWORK>", "</BIF>"])
    return text if rng.random() < 0.4 else damaged_text(rng, text, XML_MARKS)


def _element(kind: str, text: str) -> str:
    return f"<{kind}>{escape(text)}</{kind}>"


def read_xmlbif_text(text: str) -> None:
    """Read, write, read; make a network of it."""
    bif = parse_xmlbif(text)
    network = network_of(bif, where="XMLBIF text")
    assert same_file(parse_xmlbif(format_xmlbif(bif)), bif)
    assert [network.shape(node) for node in network.order]


# ------------------------------------------------------------------------------------------------------------- schemas


def schema_text(rng: random.Random) -> str:
    """A schema in JSON."""
    variables = []
    for word in names(rng, 1, 4):
        kind = rng.randrange(3)
        if kind == 0:
            variables.append({"name": word, "states": names(rng, 1, 4)})
        else:
            bounds = sorted(rng.choice((0, 1, -5, 2.5, 90, 1e300, -1e-300, 1e9)) for _ in range(2))
            bins = sorted({rng.uniform(-5, 90) for _ in range(rng.randint(0, 3))}) if kind == 2 else []
            variables.append({"name": word, "bounds": bounds, **({"bins": bins} if kind == 2 else {})})
    tree: Any = {"variables": variables}
    return json_text(rng, tree if rng.random() < 0.3 else damaged_tree(rng, tree))


def read_schema_text(text: str) -> None:
    """Read a schema from a file, and look at all that it says."""
    path = Path(tempfile.gettempdir()) / f"{_FOLDER}.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        schema = dc.Schema.read(path)
    finally:
        path.unlink()
    for variable in schema:
        assert [variable.code(state) for state in variable.states] == list(range(variable.size))
    again = dc.Schema(tuple(dc.Variable(v.name, v.states, bounds=v.bounds, bins=v.bins) for v in schema))
    assert again == schema


_FOLDER = f"schema-{random.SystemRandom().getrandbits(64):x}"
"""Of this process's schema file."""

# ------------------------------------------------------------------------------------------------------------- queries

QUERY_SCHEMA = dc.Schema(
    (
        dc.Variable("a", ("0", "1")),
        dc.Variable("b", ("x", "y 1", "<5")),
        dc.Variable("a, b", ("p|q", "(y)", "=")),
        dc.Variable("z", ("0",)),
    )
)
QUERY_MARKS = ("P(", "MAP(", "MPE(", "|", ",", "=", '"', "(", ")", " ", "a", "b", "<5", "a=0", '"a, b"', "b=y 1")


def query_text(rng: random.Random) -> str:
    """A query."""
    known = rng.sample([variable.name for variable in QUERY_SCHEMA], rng.randint(1, 4))
    cut = rng.randint(0, len(known))
    head = rng.choice(("P", "P", "MAP", "MPE"))
    before = ", ".join(_asked(rng, word, rng.random() < 0.2) for word in known[:cut])
    after = ", ".join(_asked(rng, word, rng.random() < 0.95) for word in known[cut:])
    text = f"{head}({before}{' | ' if after or rng.random() < 0.2 else ''}{after})"
    return text if rng.random() < 0.3 else damaged_text(rng, text, QUERY_MARKS)


def _asked(rng: random.Random, word: str, with_state: bool) -> str:
    left = f'"{word}"' if "," in word or rng.random() < 0.1 else word
    if not with_state:
        return left
    state = rng.choice(QUERY_SCHEMA[word].states) if rng.random() < 0.95 else odd_word(rng)
    return f'{left}="{state}"' if any(mark in state for mark in ',|)"') else f"{left}={state}"


def read_query(text: str) -> None:
    """Read, write, read."""
    query = dc.tools.parse_query(text, QUERY_SCHEMA)
    assert dc.tools.parse_query(str(query), QUERY_SCHEMA) == query


# ------------------------------------------------------------------------------------------------------------ releases

NETWORKS = (TINY["chain"], TINY["two and three states"], tiny_network({"a": 2, "b": 1, "c": 3}, "a>b b>c a>c"))


@cache
def release_trees() -> tuple[dict[str, Any], ...]:
    """Documents of every mechanism and option, for both relations, over small networks, and of all designs."""
    found = [design_releases.committed(kind) for kind in design_releases.PUBLISHED]
    rng = np.random.default_rng(11)
    for network in NETWORKS:
        records = [tuple(int(rng.integers(network.schema[node].size)) for node in network.nodes) for _ in range(12)]
        counts = counts_of(network, records)
        for prior in (dc.Dirichlet.uniform(network), dc.Dirichlet.uniform(network, 0.5).updated(counts.tables)):
            for variant in VARIANTS.values():
                for relation in variant.relations:
                    made = variant.make(network)
                    promise = variant.promise(2, relation)
                    found.append(dc.simulate(made, counts, prior, promise, rng=rng).dumps())
    return tuple(json.loads(text) for text in found)


def release_text(rng: random.Random) -> str:
    """A release in JSON."""
    tree: Any = rng.choice(release_trees())
    return json_text(rng, tree if rng.random() < 0.15 else damaged_tree(rng, tree, release_trees()))


def combined_text(rng: random.Random) -> str:
    """Combined releases in JSON."""
    trees = release_trees()
    first = rng.choice(trees)
    alike = [tree for tree in trees if tree.get("network") == first.get("network")]
    sets = [[dict(rng.choice(alike), id=f"{rng.getrandbits(128):032x}") for _ in range(rng.randint(1, 3))]
            for _ in range(rng.randint(1, 3))]  # fmt: skip
    if rng.random() < 0.4:
        for tree in (part for parts in sets for part in parts):
            tree["guarantee"] = {**tree["guarantee"], "relation": "add-remove"}
    whole: Any = {"format": "discreet-combined", "version": 1, "public": None, "data_sets": sets}
    if rng.random() < 0.3 and "network" in first:
        whole["public"] = {node: [0] * _cells(first["network"], node) for node in first["network"]["parents"]}
    return json_text(rng, whole if rng.random() < 0.25 else damaged_tree(rng, whole, trees))


def _cells(network: dict[str, Any], node: str) -> int:
    sizes = {variable["name"]: len(variable["states"]) for variable in network["variables"]}
    return int(np.prod([sizes[name] for name in (*network["parents"][node], node)]))


def read_release_text(text: str) -> None:
    """Read, write, read; look at all that a release or combined releases say."""
    read = dc.tools.loads(text)
    again = dc.tools.loads(read.dumps())
    assert again.dumps() == read.dumps()
    for release in dc.tools.evidence_of(read).releases if not _over_design(read) else (read,):
        assert str(release.guarantee)
        assert release.calibration.total <= release.guarantee.epsilon
        if not release.networks:
            assert release.over.size and release.prior.deviation
        else:
            assert release.dirichlet.mean() is not None
            assert [release.network.shape(node) for node in release.network.order]
            assert same(dict(release.dirichlet.alpha), dict(release.prior.alpha))
    if isinstance(read, dc.results.Combined):
        assert len(read.guarantees) == len(read.data_sets)


def _over_design(read: dc.Release | dc.results.Combined) -> bool:
    return isinstance(read, dc.Release) and not read.networks


Generator = Callable[[random.Random], str]
READERS: dict[str, tuple[Generator, Callable[[str], None]]] = {
    "BIF": (bif_text, read_bif_text),
    "XMLBIF": (xmlbif_text, read_xmlbif_text),
    "schema": (schema_text, read_schema_text),
    "query": (query_text, read_query),
    "release": (release_text, read_release_text),
    "combined": (combined_text, read_release_text),
}
"""A generator of texts, and what reads them."""
