"""Generators for every reader of a file beside those of `hostile.py`; those of tables are in `hostile_sources.py`.

Each keeps the grammar of its format, damages most of what it makes, and is read as users' code reads it.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import discreet as dc
import hostile
from discreet.cli.arguments import queries_in
from discreet.cli.deciding import _read_payoffs
from discreet.cli.ledgers import _read_json
from discreet.designs.design_document import read_design_file
from discreet.formats.project_file import Project, draft_project
from discreet.model.arcs import quoted
from discreet.posterior.stored import evidence_in, to_bytes
from discreet.posterior.stored import from_bytes as draws_of
from discreet.privacy.ledger_entries import verify_document
from discreet.privacy.settings import ledger_address
from discreet.server.tokens import TokenFile
from fuzzing import damaged_text, damaged_tree, json_text, name, names, odd_value, odd_word
from hostile import QUERY_SCHEMA, Generator
from hostile_sources import PLACE, TABLE_READERS, damaged_bytes, from_bytes

__all__ = ["READERS"]

NUMBERS = (0, 1, -1, 0.5, 1e-320, 5e-324, 1e308, 10**400, -(10**400), 2**63, 1e-6, 12, True, None, "1", [1])
"""Numbers that JSON can say; floats cannot say all of them."""


def from_file(read: Callable[[Path], object], ending: str) -> Callable[[str], None]:
    """A reader of texts that reads them from a file."""

    def read_text(text: str) -> None:
        path = PLACE.with_suffix(ending)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            read(path)
        finally:
            path.unlink()

    return read_text


def mostly_damaged(rng: random.Random, tree: Any) -> str:
    """A tree as JSON, mostly with a few nodes that are others, among them numbers at the ends of all types."""
    if rng.random() < 0.25:
        return json_text(rng, tree)
    if rng.random() < 0.5:
        return json_text(rng, damaged_tree(rng, tree))
    return json.dumps(_with_number(rng, tree))


def _with_number(rng: random.Random, tree: Any) -> Any:
    """A tree of which one leaf is an odd number."""
    if not isinstance(tree, dict | list) or not tree:
        return rng.choice(NUMBERS)
    chosen: Any = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    found = {key: _with_number(rng, part) if key == chosen else part for key, part in pairs}
    return found if isinstance(tree, dict) else list(found.values())


# ------------------------------------------------------------------------------------------------- what a curator has

TOML_MARKS = (
    "[",
    "]",
    "[[",
    "=",
    '"',
    '"""',
    "'",
    "#",
    "\n",
    "{",
    "}",
    ".",
    "1979-05-27",
    "nan",
    "[[variables]]\n",
    "0x",
)


def project_text(rng: random.Random) -> str:
    """A project file."""
    words = names(rng, 1, 4)
    arcs = [(one, other) for at, one in enumerate(words) for other in words[at + 1 :] if rng.random() < 0.4]
    source = {"data": odd_word(rng), "na_values": ["?"]} if rng.random() < 0.3 else None
    try:
        variables = tuple(dc.Variable(word, names(rng, 1, 3) or ["s"]) for word in words)
        text = draft_project(dc.Network.from_edges(arcs, variables), source=source).text
    except dc.InputError:
        text = 'arcs = ["a -> b"]\n[[variables]]\nname = "a"\nstates = ["x"]\n'
    return text if rng.random() < 0.3 else damaged_text(rng, text, TOML_MARKS)


def read_project(text: str) -> None:
    """Read a project, and change its arcs."""
    project = Project.parse(text)
    assert Project.parse(project.text).network == project.network
    project.with_network(dc.Network.empty(project.network.variables))


def score_text(rng: random.Random) -> str:
    """A family or a table of scores."""
    wait = {"name": name(rng), "bounds": [0, 10], "bins": rng.choice((4, [2, 5]))}
    family = {"family": rng.choice(("exponential", "poisson", "normal")), "variables": [wait], "points": 16}
    family["parameters"] = {"low": 0.25, "high": 4} | ({"mean": 5} if family["family"] == "normal" else {})
    family |= rng.choice(({}, {"bound": 3}, {"lipschitz": 0.5}, {"open_ends": True}))
    table = {"variables": [{"name": name(rng), "states": ["no", "yes"]}], "candidates": [[0.2], [0.5]], "range": [0, 1]}
    return mostly_damaged(rng, rng.choice((family, table | {"scores": [[1, 0.6], [0, 0.5]], "names": ["z"]})))


def read_score(text: str) -> None:
    """Read a score, and make its table."""
    found = dc.research.read_score_file(text)
    assert repr(found)
    if isinstance(found, dc.research.Family):
        assert found.table.size >= 2


def factor_text(rng: random.Random) -> str:
    """A factor."""
    direction = {"factor": "direction", "parameters": {"noise_variance": 1, "tau": 2}, "candidates": [[1, 0], [0, 1]]}
    states = {"factor": "categorical", "parameters": {"floor": 0.1}, "candidates": [[0.5, 0.5], [0.9, 0.1]]}
    return mostly_damaged(rng, rng.choice((direction, states)))


def design_text(rng: random.Random) -> str:
    """A design."""
    features = [{"name": word, "bounds": [0, rng.choice((1, 2.5, 1e9))]} for word in names(rng, 1, 3)]
    target = rng.choice(({"name": "y", "bounds": [0, 1]}, {"name": "y", "states": ["no", "yes"]}, None))
    return mostly_damaged(
        rng, {"features": features, "target": target, "intercept": True, "norm": rng.choice((None, 1))}
    )


def read_design(path: Path) -> None:
    """Read a design, and look at what it says."""
    design = read_design_file(path)
    assert design.names and len(design.moments)


def arcs_text(rng: random.Random) -> str:
    """Arcs in chains, or in two columns."""
    words = [one.name for one in QUERY_SCHEMA] + [name(rng)] * (rng.random() < 0.1)
    pairs = [rng.sample(words, 2) for _ in range(rng.randint(1, 4))]
    lines = [f"{quoted(one)}{rng.choice((' -> ', '->', ','))}{quoted(other)}" for one, other in pairs]
    text = "\n".join([*rng.choice(([], ["from,to"], ["# arcs"])), *lines])
    return text if rng.random() < 0.5 else damaged_text(rng, text, ("->", ",", '"', "#", "\n", " "))


def payoffs_text(rng: random.Random) -> str:
    """What responses pay."""
    return mostly_damaged(rng, {one: {"yes": rng.random(), "no": 1} for one in names(rng, 1, 3)})


def read_payoffs(text: str) -> None:
    """Read payoffs as the command does; a text of other JSON is named by its file there."""
    _read_payoffs(text if text.lstrip().startswith("{") else "{" + text)


def queries_text(rng: random.Random) -> str:
    """A file of queries."""
    return "\n".join(rng.choice((hostile.query_text, lambda _: "# note", odd_word))(rng) for _ in range(3))


def read_queries(text: str) -> None:
    """Read all queries of a file."""
    for query in queries_in(text):
        dc.tools.parse_query(query, QUERY_SCHEMA)


def tokens_text(rng: random.Random) -> str:
    """A file of tokens."""
    tokens = [{"name": name(rng), "sha256": f"{rng.getrandbits(256):064x}", "expires": "2027-01-31"} for _ in range(2)]
    return mostly_damaged(rng, {"format": "discreet-tokens", "version": 1, "tokens": tokens})


def settings_text(rng: random.Random) -> str:
    """A file of settings."""
    text = f'ledger = "sqlite:///{name(rng)}.db"\n[databases]\nhospital = "sqlite:///h.db"\n'
    return text if rng.random() < 0.3 else damaged_text(rng, text, TOML_MARKS)


def read_settings(path: Path) -> None:
    """Find the ledger that settings name."""
    before = {word: os.environ.pop(word, None) for word in ("DISCREET_CONFIG", "DISCREET_LEDGER")}
    os.environ["DISCREET_CONFIG"] = str(path)
    try:
        assert isinstance(ledger_address(), str)
    finally:
        os.environ.pop("DISCREET_CONFIG")
        os.environ.update({word: text for word, text in before.items() if text is not None})


@cache
def exported_account() -> Any:
    """An account as `ledger export` writes it."""
    limit = dc.Guarantee(epsilon=3, delta=0, relation="replace", unit="record")
    return json.loads(json.dumps(dc.Ledger("sqlite://").open("a", limit).export()))


def account_text(rng: random.Random) -> str:
    """A copy of an account."""
    return mostly_damaged(rng, exported_account())


# ---------------------------------------------------------------------------------------------- what strangers publish

CENSUS = dc.Network.empty([dc.Variable("sex", ("f", "m")), dc.Variable("age", ("old", "young"))])


def external_text(rng: random.Random) -> str:
    """Figures by others."""
    law = rng.choice((dc.external.StatedNoise("rounded", 1), dc.external.StatedNoise("laplace", 2.5)))
    weights = {"weights": [[1, 1]]} if law.law == "laplace" and rng.random() < 0.3 else {}
    made = dc.external_table(
        [3.0] if weights else [30, 20], CENSUS, ["sex"], law, guarantee=None, source="a census", **weights
    )
    return mostly_damaged(rng, json.loads(made.dumps()))


def read_external(text: str) -> None:
    """Read figures, and show them."""
    made = dc.external.External.loads(text)
    assert dc.external.External.loads(made.dumps()).dumps() == made.dumps()
    assert made.summary() and made.promise and made.tidy()


def cells_text(rng: random.Random) -> str:
    """A table of cells in CSV."""
    lines = ["sex,count", *(f"{state},{rng.choice((12, 0.5, -3, '1e400', '9' * 400))}" for state in ("f", "m"))]
    return "\n".join(lines) if rng.random() < 0.4 else damaged_text(rng, "\n".join(lines), (",", '"', "\n", "count"))


def read_cells(path: Path) -> None:
    """Read cells as figures of a census."""
    dc.external.measured_cells(
        path, CENSUS, dc.external.StatedNoise("rounded", 1), guarantee=None, source="x"
    ).summary()


@cache
def drawn() -> bytes:
    """Stored draws."""
    network = hostile.NETWORKS[0]
    counts = hostile.counts_of(network, [(0, 0, 1), (1, 0, 0)])
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    return to_bytes(dc.noise_aware(replace(made, id="0" * 32), draws=20, rng=1), checked=True)


def draws_bytes(rng: random.Random) -> str:
    """Stored draws whose head or numbers are others, sealed again; as text of Latin 1."""
    raw = drawn()[:-32]
    start = raw.index(b"{") - 8
    size = int.from_bytes(raw[start : start + 8], "little")
    head, body = json.loads(raw[start + 8 : start + 8 + size]), bytearray(raw[start + 8 + size :])
    kind = rng.randrange(4)
    if kind == 1:
        head = _with_number(rng, head)
    elif kind == 2:
        head = damaged_tree(rng, head) if rng.random() < 0.8 else odd_value(rng)
    elif kind == 3:
        at = 8 * rng.randrange(len(body) // 8)
        body[at : at + 8] = rng.randbytes(8)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    content = raw[:start] + len(text).to_bytes(8, "little") + text + bytes(body)
    sealed = content + sha256(content).digest()
    return (sealed if rng.random() < 0.95 else sealed[: rng.randrange(len(sealed))]).decode("latin-1")


def read_draws(text: str) -> None:
    """Read draws, and ask them."""
    posterior = draws_of(text.encode("latin-1"))
    assert posterior.mean() is not None
    assert posterior._repr_html_()


def packed_network(rng: random.Random) -> str:
    """A network packed by gzip, mostly damaged before or after that."""
    packed = gzip.compress(hostile.bif_text(rng).encode("utf-8", "surrogatepass"))
    return damaged_bytes(rng, packed, 0.4).decode("latin-1")


def read_warned_of(path: Path) -> None:
    """Read a network; what is not said of it, it says in a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dc.Network.read(path)


READERS: dict[str, tuple[Generator, Callable[[str], None]]] = {
    **hostile.READERS,
    "project": (project_text, read_project),
    "score": (score_text, read_score),
    "factor": (
        factor_text,
        lambda text: dc.research.factored(text if text.lstrip().startswith("{") else "{" + text) and None,
    ),
    "design": (design_text, from_file(read_design, ".json")),
    "arcs": (arcs_text, lambda text: dc.Network.parse_edges(text, QUERY_SCHEMA) and None),
    "payoffs": (payoffs_text, read_payoffs),
    "queries": (queries_text, read_queries),
    "tokens": (tokens_text, from_file(lambda path: TokenFile(path).find("x"), ".json")),
    "settings": (settings_text, from_file(read_settings, ".toml")),
    "account": (account_text, from_file(lambda path: verify_document(_read_json(path)), ".json")),
    "external": (external_text, read_external),
    "cells": (cells_text, from_file(read_cells, ".csv")),
    "draws": (draws_bytes, read_draws),
    "heads of draws": (draws_bytes, from_bytes(evidence_in, ".draws")),
    "packed network": (packed_network, from_bytes(read_warned_of, ".bif.gz")),
    **TABLE_READERS,
}
"""A generator of texts for every reader of a file, and what reads them."""
