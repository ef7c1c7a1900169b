"""Small files and texts that stopped a reader once: each is refused, or read, within a second and half a gibibyte.

The reader runs in a forked child that may add 512 MiB of address space; CPU time is the child's own. What is refused
is refused by an `InputError` of one line and at most 500 characters.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import discreet as dc
import fuzzing
from discreet.formats.network_files import network_of
from discreet.formats.project_file import Project
from discreet.interchange.bif import parse_bif
from discreet.interchange.xmlbif import parse_xmlbif
from folding import every
from fuzzing import MIB, Report, fault_of_message, read_all
from hostile_sources import TABLE_READERS

# --------------------------------------------------------------------------------------------------------------- makers


def two(name: str) -> str:
    """A binary variable in BIF."""
    return f"variable {name} {{ type discrete [ 2 ] {{ a, b }}; }}\n"


def wide(parents: int, *, children: int = 1, entries: str = "default 0.5, 0.5;") -> str:
    """A network in BIF whose children have all parents, and say their tables in one row."""
    names = [f"p{number}" for number in range(parents)]
    roots = [f"{two(name)}probability ( {name} ) {{ }}\n" for name in names]
    leaves = [
        f"{two(f'c{number}')}probability ( c{number} | {', '.join(names)} ) {{ {entries} }}\n"
        for number in range(children)
    ]
    return "network x { }\n" + "".join(roots + leaves)


def states(count: int, *, declared: int | None = None, extra: str = "") -> str:
    """A network in BIF with one variable of many states."""
    listed = ",".join(f"s{number}" for number in range(count))
    head = f"network x {{ }}\nvariable a {{ type discrete [ {declared or count} ] {{ {listed}{extra} }}; }}\n"
    return f"{head}probability ( a ) {{ }}\n"


def many_rows(count: int) -> str:
    """A parent of many states, and a row for each of them."""
    rows = "\n".join(f"(s{number}) 0.5, 0.5;" for number in range(count))
    return f"{states(count)}{two('b')}probability ( b | a ) {{\n{rows}\n}}"


def chain(nodes: int) -> str:
    """A chain in BIF, without probabilities."""
    return "network x { }" + "".join(
        f"{two(f'v{number}')}probability ( v{number} {f'| v{number - 1}' if number else ''} ) {{ }}\n"
        for number in range(nodes)
    )


def release(parents: int, *, prior: Any = 0.25, edit: Callable[[dict[str, Any]], object] = lambda _: None) -> str:
    """A small release whose last node has all others as parents; its prior is one number a node."""
    names = [f"v{number}" for number in range(parents + 1)]
    last = names[-1]
    tree: dict[str, Any] = {
        "format": "discreet-release",
        "version": 1,
        "id": "0" * 32,
        "date": "2026-01-01",
        "private": True,
        "guarantee": {"epsilon": "1", "delta": "0", "relation": "add-remove", "unit": "record"},
        "mechanism": "laplace",
        "records": {"missing": "error", "out_of_bounds": "error"},
        "network": {
            "variables": [{"name": name, "states": ["a", "b"]} for name in names],
            "parents": {name: list[str]() for name in names} | {last: names[:-1]},
        },
        "prior": dict.fromkeys(names, prior),
        "calibration": {"sensitivity": 1, "reported": "1", "epsilons": {last: "1"}, "scales": {last: 1.0}},
        "payload": {
            "kind": "noisy_counts",
            "noise": "discrete_laplace",
            "scales": {last: 1.0},
            "tables": {last: [0] * 2 ** (parents + 1) if parents < 10 else [1]},
        },
    }
    edit(tree)
    return json.dumps(tree)


def combined(count: int, part: str, parts: str = "") -> str:
    """A combined file of many copies of a release, each with an id of its own."""
    copies = (part.replace("0" * 32, f"{number:032x}", 1) for number in range(count))
    return (
        f'{{"format": "discreet-combined", "version": 1, "public": null, "data_sets": [[{parts or ",".join(copies)}]]}}'
    )


def contrasts(tree: dict[str, Any]) -> None:
    """Make a release one of contrasts over a family of 30 one-state parents: 2^31 subsets."""
    for variable in tree["network"]["variables"]:
        variable["states"] = ["a"]
    tree["calibration"] = {
        "kind": "coefficient_noise",
        "sensitivity": 1,
        "exact": True,
        "scale": 1.0,
        "shift": 0,
        "noisy_total": True,
        "reported": "1",
    }
    tree["payload"] = {
        "kind": "noisy_coefficients",
        "noise": "discrete_laplace",
        "scale": 1.0,
        "shift": 0,
        "noisy_total": True,
        "components": [],
    }


def axes(tree: dict[str, Any]) -> None:
    """Make a release one of a planned table over 100 variables of one state: more axes than an array has."""
    names = [variable["name"] for variable in tree["network"]["variables"]]
    tree["network"]["parents"] = {name: list[str]() for name in names}
    for variable in tree["network"]["variables"]:
        variable["states"] = ["a"]
    tree["calibration"] = {
        "kind": "planned_noise",
        "noise": "discrete_laplace",
        "sensitivity": 1,
        "reported": "1",
        "tables": [{"variables": names, "budget": "1", "scale": 1.0}],
        "expected": dict.fromkeys(names, 1.0),
    }
    tree["payload"] = {
        "kind": "noisy_tables",
        "noise": "discrete_laplace",
        "tables": [{"variables": names, "scale": 1.0, "values": [1]}],
    }


def roots(count: int, budget: Callable[[int], str]) -> Callable[[dict[str, Any]], None]:
    """Make a release one of many roots, each with a budget of its own."""

    def edit(tree: dict[str, Any]) -> None:
        names = [f"v{number}" for number in range(count)]
        tree["network"] = {
            "variables": [{"name": name, "states": ["a", "b"]} for name in names],
            "parents": {name: list[str]() for name in names},
        }
        tree["prior"] = dict.fromkeys(names, 0.25)
        tree["calibration"] |= {
            "epsilons": {name: budget(at) for at, name in enumerate(names)},
            "scales": dict.fromkeys(names, 1.0),
        }
        tree["payload"] |= {"scales": dict.fromkeys(names, 1.0), "tables": {name: [1, 2] for name in names}}

    return edit


def wrong_values(tree: dict[str, Any]) -> None:
    """A million faults in one list."""
    tree["payload"]["tables"]["v1"] = ["x"] * 10**6


def design(features: int) -> str:
    """A release over a design of many features: half of their square are moments."""
    tree = json.loads(release(1))
    for part in ("network", "prior", "calibration", "payload"):
        del tree[part]
    tree["design"] = {
        "features": [{"name": f"x{number}", "bounds": [0.0, 1.0]} for number in range(features)],
        "target": {"name": "y", "bounds": [0.0, 1.0]},
        "intercept": True,
    }
    tree["prior"] = {"deviation": 1.0}
    tree["calibration"] = {"kind": "vector_noise", "sensitivity": 1, "scale": 1.0, "rounds": 1, "reported": "1"}
    tree["payload"] = {"kind": "noisy_moments", "scale": 1.0, "noisy_total": True, "values": [1]}
    return json.dumps(tree)


QUERIED = dc.Schema((dc.Variable("A", ("0", "1")), dc.Variable("B", ("0", "1"))))
LONG_NAMES = dc.Schema(tuple(dc.Variable(f"{number:05d}" + "ab" * 15, ("0", "1")) for number in range(5000)))


MANY_NAMES = dc.Schema(tuple(dc.Variable(f"v{number}", ("0", "1")) for number in range(8000)))
LONGER_NAMES = dc.Schema(tuple(dc.Variable(f"{number:03d}" + "abcde" * 180, ("0", "1")) for number in range(500)))


def xml(body: str, *, declared: str = "") -> str:
    """A text in XMLBIF."""
    return f"<!DOCTYPE BIF [{declared}]><BIF><NETWORK>{body}</NETWORK></BIF>"


def xml_node(name: str, states: Iterable[str] = ("a", "b"), given: Iterable[str] = (), table: str = "") -> str:
    """A variable in XMLBIF, and its definition."""
    outcomes = "".join(f"<OUTCOME>{state}</OUTCOME>" for state in states)
    parents = "".join(f"<GIVEN>{parent}</GIVEN>" for parent in given)
    return (
        f"<VARIABLE><NAME>{name}</NAME>{outcomes}</VARIABLE>"
        f"<DEFINITION><FOR>{name}</FOR>{parents}<TABLE>{table}</TABLE></DEFINITION>"
    )


def xml_wide(parents: int, table: str) -> str:
    """A child in XMLBIF of many parents."""
    names = [f"p{number}" for number in range(parents)]
    return xml("".join(map(xml_node, names)) + xml_node("c", given=names, table=table))


def read_query(text: str) -> object:
    return dc.tools.parse_query(text, QUERIED)


def read_schema(text: str) -> dc.Schema:
    """A schema from a file, which is written first."""
    path = Path(f"schema-{os.getpid()}.json")
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return dc.Schema.read(path)


def read_network(text: str) -> dc.Network:
    network = network_of(parse_bif(text), where="x")
    assert network.maximal_families
    return network


def variables(count: int, extra: str = "") -> str:
    """A schema in JSON of many variables."""
    listed = [{"name": f"v{number}", "states": ["a"]} for number in range(count)]
    return json.dumps({"variables": [*listed, *([{"name": extra, "states": ["a"]}] if extra else [])]})


# ---------------------------------------------------------------------------------------------------------------- cases

Case = tuple[Callable[[Any], object], Callable[[], Any]]
ODD_STATISTICS = zlib.decompress(
    base64.b85decode(
        "c-n1{&q@O^5XL9lH3V4-)=o$u$RZ>t*kT2H+KbRbg&Y>ods*v(9<=M$f9<pQ2tJUH<7B%~1w-Z=nD3V_B>C0N1UV{H1+|C@F"
        "h&>{0O<7?X&K~}41=a<{of1^E(F=5B5R1l|B_(4?l9K=5)@x8?yJWVIbdQV#Xc<f0Agg16<gaQ|8*!1!k~`=3E0?uN*kONL1"
        "`|zHac@)FwvHSrU*<VmvcFH;@Z&Nlm(fLHP<eR=|o_oj$OB`m)_+&_LNBA9og^5O-s(?%zd)IXd5cOndDATgOju_o9EZ+Wwf"
        "a4QQ0)h_w=o5Ru9Xk^kO<bA5U~fPuy-0^kq5y{SOj_ESd"
    )
)
"""A Parquet file whose statistics count levels that are not there: DuckDB, as it scanned it, ended the process."""

REFUSED: dict[str, Case] = {
    "data set: statistics of levels that are not there": (
        TABLE_READERS["data set"][1],
        lambda: ODD_STATISTICS.decode("latin-1"),
    ),
    "store: statistics of levels that are not there": (
        TABLE_READERS["Parquet of a store"][1],
        lambda: ODD_STATISTICS.decode("latin-1"),
    ),
    "bif: 2^28 cells from one default": (parse_bif, lambda: wide(27)),
    "bif: 8 tables of 2^27 cells": (parse_bif, lambda: wide(26, children=8)),
    "bif: 64 tables of 2^20 cells": (parse_bif, lambda: wide(19, children=64)),
    "bif: 200 parents": (parse_bif, lambda: wide(200)),
    "bif: 60 parents, structure only": (read_network, lambda: wide(60, entries="")),
    "bif: a million states": (parse_bif, lambda: states(10**6)),
    "bif: a million states that are not declared": (parse_bif, lambda: states(10**6, declared=2)),
    "bif: 60,000 states and one twice": (parse_bif, lambda: states(60_000, declared=60_001, extra=",s59999")),
    "bif: 999,999,999 states declared": (parse_bif, lambda: states(2, declared=999_999_999)),
    "bif: 100,000 comments opened": (parse_bif, lambda: "/*" * 10**5),
    "bif: 20,000 comments not closed": (parse_bif, lambda: "network x { property a; }\n" + "/*x\n" * 20_000),
    "bif: 20,000 comments not closed among states": (
        parse_bif,
        lambda: "variable a { type discrete [ 20000 ] { " + "/*x\n" * 20_000,
    ),
    "bif: 200,000 comments opened, one closed": (parse_bif, lambda: "/* a " * 200_000 + "*/ network x {}"),
    "bif: a number of a million digits": (
        parse_bif,
        lambda: wide(0, entries="table 0." + "3" * 10**6 + ", 0.5;"),
    ),
    "bif: a number of a million letters": (parse_bif, lambda: wide(0, entries=f"table {'x' * 10**6}, 0.5;")),
    "bif: a name of a million characters": (parse_bif, lambda: two("n" * 10**6)),
    "bif: an undeclared name of a million characters": (
        parse_bif,
        lambda: two("a") + f"probability ( a | {'n' * 10**6} ) {{ }}",
    ),
    "bif: 30,000 variables": (read_network, lambda: chain(30_000)),
    "bif: a row of a million states": (parse_bif, lambda: wide(1, entries=f"({'a,' * 10**6}) 0.5, 0.5;")),
    "bif: a quote that is not closed": (parse_bif, lambda: 'network x { }\n"' + "a" * 10**6),
    "bif: odd characters in a name": (parse_bif, lambda: "network x {\u202e\x1b[31m\u2066 }"),
    "bif: half a character": (parse_bif, lambda: two("\ud800") + "probability ( \ud800 ) { }"),
    "bif.gz: a gigabyte of blanks in a megabyte": (dc.Network.read, lambda: "blanks.bif.gz"),
    "xmlbif: a billion laughs": (
        parse_xmlbif,
        lambda: xml(
            xml_node("&l9;"),
            declared='<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9)),
        ),
    ),
    "xmlbif: an entity of a megabyte, a thousand times": (
        parse_xmlbif,
        lambda: xml(xml_node("&x;" * 1000), declared=f'<!ENTITY x "{"x" * 10**6}">'),
    ),
    "xmlbif: a thousand attributes for each of 50,000 states": (
        parse_xmlbif,
        lambda: xml(
            xml_node("a", map(str, range(50_000))),
            declared="".join(f'<!ATTLIST OUTCOME a{n} CDATA "x">' for n in range(1000)),
        ),
    ),
    "xmlbif: 300,000 attributes of one element": (
        parse_xmlbif,
        lambda: "<BIF " + "".join(f" a{n}='x'" for n in range(300_000)) + "></NETWORK>",
    ),
    "xmlbif: 500,000 elements in each other": (parse_xmlbif, lambda: "<BIF>" * 500_000),
    "xmlbif: 500,000 brackets of one declaration": (
        parse_xmlbif,
        lambda: xml("<", declared=f"<!ELEMENT BIF {'(' * 500_000}x{')' * 500_000}>"),
    ),
    "xmlbif: 2^27 cells of two numbers": (parse_xmlbif, lambda: xml_wide(26, "0.5 0.5")),
    "xmlbif: 40 parents": (parse_xmlbif, lambda: xml_wide(40, "")),
    "xmlbif: five million numbers for two": (parse_xmlbif, lambda: xml(xml_node("a", table="1 " * 5 * 10**6))),
    "xmlbif: a number of ten million digits": (parse_xmlbif, lambda: xml(xml_node("a", table="0" * 10**7 + "x 1"))),
    "xmlbif: 200,000 states": (parse_xmlbif, lambda: xml(xml_node("a", map(str, range(200_000))))),
    "xmlbif: 30,000 variables": (parse_xmlbif, lambda: xml("".join(xml_node(f"v{n}") for n in range(30_000)))),
    "xmlbif: a comment that is not closed": (parse_xmlbif, lambda: xml("<!-- a" * 10**5)),
    "xmlbif: a name of a million characters": (parse_xmlbif, lambda: xml(xml_node("x" * 10**6))),
    "xmlbif: 200,000 properties and no variable": (parse_xmlbif, lambda: xml("<PROPERTY/>" * 200_000)),
    "release: 2^20 cells of 20 parents": (dc.Release.loads, lambda: release(24)),
    "release: 27 parents": (dc.Release.loads, lambda: release(27)),
    "release: 30 parents": (dc.Release.loads, lambda: release(30)),
    "release: 70 parents": (dc.Release.loads, lambda: release(70)),
    "release: 100,000 lists": (
        dc.Release.loads,
        lambda: '{"format":"discreet-release","version":1,"x":' + "[" * 10**5 + "]" * 10**5 + "}",
    ),
    "release: 900 lists as its version": (
        dc.Release.loads,
        lambda: '{"format":"discreet-release","version":' + "[" * 900 + "]" * 900 + "}",
    ),
    "release: 100,000 fields, one twice": (
        dc.Release.loads,
        lambda: "{" + ",".join(f'"a{number}":1' for number in range(10**5)) + ',"a99999":2}',
    ),
    "release: 8,000 fields, one twice": (
        dc.Release.loads,
        lambda: "{" + ",".join(f'"a{number}":1' for number in range(8000)) + ',"a7999":2}',
    ),
    "release: 300,000 empty lists": (dc.Release.loads, lambda: '{"x":[' + "[]," * 1_500_000 + "1]}"),
    "release: a number of 5,000 digits": (
        dc.Release.loads,
        lambda: '{"format":"discreet-release","version":1,"x":' + "9" * 5000 + "}",
    ),
    "release: a number beyond doubles": (dc.Release.loads, lambda: release(1).replace('"v0": 0.25', '"v0": 1e999')),
    "release: a prior whose sum is beyond doubles": (dc.Release.loads, lambda: release(1, prior=1e308)),
    "release: a million faults": (dc.Release.loads, lambda: release(1, edit=wrong_values)),
    "release: 2^31 subsets of a family": (dc.Release.loads, lambda: release(30, edit=contrasts)),
    "release: a table of 100 axes": (dc.Release.loads, lambda: release(99, edit=axes)),
    "release: 1,000 budgets of 300 digits": (
        dc.Release.loads,
        lambda: release(1, edit=roots(1000, lambda at: f"1/{10**300 + 2 * at + 1}")),
    ),
    "release: 1,440 features": (dc.Release.loads, lambda: design(1440)),
    "release: a mechanism of a million characters": (
        dc.Release.loads,
        lambda: release(1, edit=lambda tree: tree.update(mechanism="m" * 10**6)),
    ),
    "release: a date of a million characters": (
        dc.Release.loads,
        lambda: release(1, edit=lambda tree: tree.update(date="m" * 10**6)),
    ),
    "release: a field whose name has a million characters": (
        dc.Release.loads,
        lambda: release(1, edit=lambda tree: tree.update({"m\n" * 500_000: 1})),
    ),
    "combined: 300 releases of 2^20 cells": (
        dc.tools.loads,
        lambda: combined(300, release(19, edit=lambda tree: tree["payload"]["tables"].update(v19=[1]))),
    ),
    "combined: 1,100 releases": (dc.tools.loads, lambda: combined(1100, release(1))),
    "combined: 200 releases, one twice": (
        dc.tools.loads,
        lambda: combined(0, "", ",".join([release(1)] * 200)),
    ),
    "combined: 900 lists": (dc.tools.loads, lambda: combined(0, "", "[" * 900 + "]" * 900)),
    "combined: 3,000 lists": (dc.tools.loads, lambda: combined(0, "", "[" * 3000 + "]" * 3000)),
    "query: a million characters": (read_query, lambda: "P(" + "A," * 500_000 + "B)"),
    "query: 100,000 brackets": (read_query, lambda: "P(" + "(" * 10**5),
    "query: 100,000 quotes": (read_query, lambda: "P('" + "'" * 10**5),
    "query: 50,000 double quotes": (read_query, lambda: "P(" + '"' * 50_001),
    "query: evidence on 100,000 variables": (
        read_query,
        lambda: "P(A|" + ",".join(f"B{number}=1" for number in range(10**5)) + ")",
    ),
    "query: evidence on 10,000 variables": (
        read_query,
        lambda: "P(A|" + ",".join(f"B{number}=1" for number in range(10**4)) + ")",
    ),
    "query: blanks": (read_query, lambda: "P(" + " " * 10**6 + ")"),
    "query: blanks within the limit": (read_query, lambda: "P(A" + " " * 130_000 + ","),
    "query: blanks before a quote": (read_query, lambda: "P(" + " " * 100_000 + '"'),
    "query: blanks before and after": (read_query, lambda: "P(A |" + " " * 50_000 + "B" + " " * 50_000),
    "query: closing brackets and blanks": (read_query, lambda: "P(A" + ") " * 60_000),
    "query: 20,000 names, one twice": (
        read_query,
        lambda: "P(" + ",".join([*(f"A{number}" for number in range(20_000)), "A19999"]) + ")",
    ),
    "query: 8,000 known names, one twice": (
        lambda text: dc.tools.parse_query(text, MANY_NAMES),
        lambda: f"P({','.join(MANY_NAMES.names)},v7999)",
    ),
    "query: one name 60,000 times": (read_query, lambda: "P(" + ",".join(["A"] * 60_000) + ")"),
    "query: a long name like 5,000 others": (
        lambda text: dc.tools.parse_query(text, LONG_NAMES),
        lambda: "P(" + "ab" * 5000 + ")",
    ),
    "query: a long name like 500 long ones": (
        lambda text: dc.tools.parse_query(text, LONGER_NAMES),
        lambda: "P(" + "abcde" * 180 + ")",
    ),
    "query: a name like 5,000 others": (
        lambda text: dc.tools.parse_query(text, LONG_NAMES),
        lambda: "P(" + "ba" * 17 + ")",
    ),
    "query: a line break in a name": (read_query, lambda: 'P("x\ny\r\x85\u2028z")'),
    "query: half a character": (read_query, lambda: "P(\ud800)"),
    "schema: 200,000 variables, one twice": (read_schema, lambda: variables(200_000, "v199999")),
    "schema: 8,000 variables, one twice": (read_schema, lambda: variables(8000, "v7999")),
    "schema: 100,000 lists": (read_schema, lambda: "[" * 10**5),
    "schema: 60,000 states, one twice": (
        read_schema,
        lambda: json.dumps({"variables": [{"name": "a", "states": [*map(str, range(60_000)), "59999"]}]}),
    ),
    "schema: a million cut points": (
        read_schema,
        lambda: json.dumps({"variables": [{"name": "a", "bounds": [-1, 10**7], "bins": [*range(10**6)]}]}),
    ),
    "schema: a variable twice in one object": (
        read_schema,
        lambda: '{"variables": [{"name": "a", "states": ["x"], "states": ["y"]}]}',
    ),
    "schema: a name of a million characters": (
        read_schema,
        lambda: json.dumps({"variables": [{"name": "n" * 10**6, "states": ["a"]}]}),
    ),
    "schema: 100,000 unknown fields": (
        read_schema,
        lambda: json.dumps({"variables": [{str(number): 1 for number in range(16_000)}]}),
    ),
    "project: lists in 100,000 lists": (Project.parse, lambda: "a = " + "[" * 10**5),
    "project: tables in 3,000 tables": (Project.parse, lambda: "a = " + "{b=" * 3000 + "1" + "}" * 3000),
    "project: a key of 20,000 parts": (Project.parse, lambda: ".".join(["a"] * 20_000) + " = 1"),
    "project: a number of 5,000 digits": (Project.parse, lambda: f"a = {'9' * 5000}"),
    "project: a date that is none": (Project.parse, lambda: "a = 2026-99-99"),
    "project: more than a MiB": (Project.parse, lambda: "# x\n" * 2**18 + "# x\n"),
    "schema: half a character": (read_schema, lambda: '{"variables": [{"name": "\\ud800", "states": ["a"]}]}'),
}

READ: dict[str, Case] = {
    "bif: 20 parents and a default": (parse_bif, lambda: wide(20)),
    "bif: 30,000 states and as many rows": (parse_bif, lambda: many_rows(30_000)),
    "xmlbif: 17 parents": (parse_xmlbif, lambda: xml_wide(17, "0.5 0.5 " * 2**17)),
    "xmlbif: 3,000 variables": (parse_xmlbif, lambda: xml("".join(xml_node(f"v{n}") for n in range(3000)))),
    "bif: 3,000 variables": (read_network, lambda: chain(3000)),
    "bif: a long comment": (parse_bif, lambda: "/* a " * 200_000 + "*/" + wide(1)),
    "release: 19 parents, prior in one number": (
        lambda text: dc.Release.loads(text).dirichlet.mean(),
        lambda: release(19, edit=lambda tree: tree["payload"]["tables"].update(v19=[0] * 2**20)),
    ),
    "release: 1,500 roots": (dc.Release.loads, lambda: release(1, edit=roots(1500, lambda _: "1/1500"))),
    "combined: 100 releases": (dc.tools.loads, lambda: combined(100, release(1))),
    "schema: 10,000 states": (
        read_schema,
        lambda: json.dumps({"variables": [{"name": "a", "states": [*map(str, range(10_000))]}]}),
    ),
    "project: 200,000 lines of comments": (
        Project.parse,
        lambda: "# x\n" * 200_000 + '[[variables]]\nname = "a"\nstates = ["x"]\n',
    ),
    "query: evidence on 5,000 variables": (
        lambda text: dc.tools.parse_query(text, LONG_NAMES),
        lambda: "MPE(| " + ", ".join(f"{name}=1" for name in LONG_NAMES.names[:3000]) + ")",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that holds the packed files, and in which all is read."""
    made, before = tmp_path_factory.mktemp("hostile"), Path.cwd()
    os.chdir(made)
    with gzip.open("blanks.bif.gz", "wb", 1) as file:
        for _ in range(1000):
            file.write(b" " * 10**6)
    yield made
    os.chdir(before)


def outcome(case: Case) -> Report:
    """What comes of one input in a child."""
    read, make = case
    return read_all(read, [make()])


@pytest.mark.costly("Each text once stopped a reader, and some take a second to refuse.")
@every("name", REFUSED)
def test_what_stopped_a_reader_is_refused(name: str) -> None:
    report = outcome(REFUSED[name])
    assert report.faults == [], report
    assert report.refused == 1, report


@pytest.mark.costly("Limits that refuse what is honest show at its size only.")
@every("name", READ)
def test_large_but_ordinary_things_are_read(name: str) -> None:
    report = read_all(READ[name][0], [READ[name][1]()], cpu_s=5)
    assert report.faults == [], report
    assert report.accepted == 1, (report, report.messages)


@pytest.mark.costly("A place for hostile input that limits nothing would find nothing.")
def test_the_child_keeps_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of these tests sees what it is for."""

    def read(number: int) -> object:
        if number == 1:
            return bytearray(600 * MIB)
        if number == 2:
            raise dc.InputError("of two\nlines")
        if number == 3:
            return sum(range(2 * 10**7))
        if number == 4:
            raise KeyError(number)
        return None

    report = read_all(read, range(5), cpu_s=0.1)
    assert report.accepted == 2 and report.refused == 1
    assert [fault.split()[0] for fault in report.faults if "CPU" not in fault] == ["untyped", "untyped"]
    assert sum("CPU s" in fault for fault in report.faults) == 1
    monkeypatch.setattr(fuzzing, "GRACE_S", 1)
    stuck = read_all(lambda _: max(iter(int, 1)), [0], cpu_s=0.1)
    assert "killed by SIGPROF" in stuck.faults[0]
    assert fault_of_message("two\nlines") and fault_of_message("x" * 501) and fault_of_message("\u202e")


# ------------------------------------------------------------------------------------------------------------ messages

ODD_PATHS = ("x\0y", "x" * 5000, "no\nsuch\u202efile", "\ud800", "a/" * 400, "")


@pytest.mark.costly("A name of a file that a command does not refuse is found by trying each command.")
@every("path", ODD_PATHS)
def test_odd_names_of_files_are_refused_in_one_line(path: str) -> None:
    reads: list[Callable[[str], object]] = [dc.load, dc.Release.load, dc.Schema.read, dc.Network.read, dc.Tables.read]
    for read in reads:
        with pytest.raises(dc.InputError) as caught:
            read(path)
        assert not fault_of_message(str(caught.value)), str(caught.value)


def test_a_device_without_end_is_read_to_the_limit_only() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("no /dev/zero")
    report = read_all(dc.Network.read, ["/dev/zero"])
    assert report.faults == [] and "bytes" in report.messages[0]


ODD_TEXTS = (
    "a\nb",
    "\ud800",
    "\x1b[31m",
    "\u202egnp",
    "x" * 10**6,
    "\0" * 10**6,
    "a" + " " * 10**6 + "b",
    "a\u2029b",
)


@every("error", [dc.InputError, dc.BudgetError])
def test_any_message_is_one_short_line(error: type[dc.DiscreetError]) -> None:
    for text in ODD_TEXTS:
        assert not fault_of_message(str(error(text))), text[:20]
    long = str(error("what is wrong " + "x" * 10**4 + " what to do"))
    assert long.startswith("what is wrong") and long.endswith("what to do")
    assert str(error("as it is: 'é', 雪")) == "as it is: 'é', 雪"


def test_a_reader_that_waits_for_ever_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no CPU time, of which alone the other limit is."""
    monkeypatch.setattr(fuzzing, "WAIT_S", 1)
    assert "SIGALRM" in str(read_all(lambda _: threading.Event().wait(), [""]))
