"""Arguments that several commands take, and the mechanism that some of them name."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any

import typer

import discreet as dc
from discreet.errors import InputError, shown
from discreet.model.json_files import read_text
from discreet.model.limits import QUERIES, QUERIES_BYTES, at_most

__all__ = [
    "Draws",
    "EquivalentSampleSize",
    "Json",
    "Method",
    "NetworkFile",
    "Prior",
    "ReleaseFile",
    "Replace",
    "Seed",
    "Workload",
    "mechanism_of",
    "prior_of",
    "queries_in",
    "queries_of",
]

NetworkFile = Annotated[Path, typer.Option("--network", help="BIF file (.bif or .bif.gz) with the public structure.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ReleaseFile = Annotated[str, typer.Argument(metavar="RELEASE", help="Release file; - reads stdin.")]
Method = Annotated[
    str,
    typer.Option(
        help="noise-aware chooses one of exact, pooled, independent, particles, sequential, which can be named, too; "
        "plug-in ignores the noise (over-confident)."
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace files that exist.")]
Prior = Annotated[
    str | None,
    typer.Option(
        help="Of the reader: a concentration of every cell, a BIF file with prior probabilities, or another release, "
        "on other records. Without it the prior of rows is learned, or is the curator's if that says something."
    ),
]
EquivalentSampleSize = Annotated[float, typer.Option(help="Records for each row that a BIF prior is worth.")]
Draws = Annotated[int, typer.Option(help="Draws from the posterior.")]
Workload = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="QUERY|FILE",
        help="Queries that planned shall serve best, or a file of them; repeatable.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Seed of the posterior's draws, the same under the same versions and kernel; the release's noise has none."
    ),
]


def mechanism_of(name: str, options: list[str], workload: list[str] | None) -> dc.Mechanism[Any]:
    """A mechanism of the registry with options given as NAME=VALUE, and the queries that it shall serve."""
    name = name.replace("-", "_")
    if name not in dc.MECHANISMS:
        raise InputError(f"no mechanism {shown(name)}; there are: {', '.join(dc.MECHANISMS)}")
    make = dc.MECHANISMS[name]
    known = {
        key: part.annotation
        for key, part in inspect.signature(make).parameters.items()
        if key not in ("epsilons", "candidates", "workload")
    }
    given: dict[str, Any] = {}
    for text in options:
        key, equals, value = text.partition("=")
        if key not in known or not equals:
            raise InputError(
                f"{shown(text)} is no option of {name!r}; it takes {', '.join(f'{key}=...' for key in known) or 'none'}"
            )
        given[key] = _option(key, value, str(known[key]))
    if workload:
        if name != "planned":
            raise InputError(f"only planned serves a workload, not {name}; leave out --workload")
        given["workload"] = [query for word in workload for query in queries_of(word)]
    return make(**given)


def prior_of(network: dc.Network, text: str, equivalent_sample_size: float) -> dc.Dirichlet:
    """A concentration, or a prior network."""
    try:
        concentration = float(text)
    except ValueError:
        theta = dc.Tables.read(text)
        if theta.network.parents != network.parents:
            raise InputError(f"the prior {shown(text)} has another structure than the network") from None
        for variable in theta.network.schema:
            if network.schema[variable.name].bounds is None and variable.states != network.schema[variable.name].states:
                raise InputError(
                    f"the prior {shown(text)} lists other states of {shown(variable.name)} than the network"
                ) from None
        return dc.Dirichlet.from_probabilities(dc.Tables(network, dict(theta)), equivalent_sample_size)
    return dc.Dirichlet.uniform(network, concentration)


def queries_of(word: str) -> list[str]:
    """A query, or those of a file; see `queries_in`."""
    if re.match(r"\s*(P|MAP|MPE)\s*\(", word):
        return [word]
    try:
        text = read_text(word, "queries", QUERIES_BYTES)
    except InputError as error:
        raise InputError(
            f"{shown(word)} is no query, such as 'P(A | B=b)', and no text file of queries ({error})"
        ) from None
    return queries_in(text)


def queries_in(text: str) -> list[str]:
    """The queries of a text, one a line; empty lines and those that begin with # are left out."""
    found = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    at_most(QUERIES, found, "queries of one file")
    return found


def _option(key: str, value: str, kind: str) -> Any:
    """The value of an option: whole, a fraction kept exactly, a float, or a word, as the mechanism declares it."""
    try:
        if kind.startswith("int"):
            return int(value)
        return float(value) if kind.startswith("float") else value
    except ValueError:
        raise InputError(f"option {key} needs a number, got {shown(value)}") from None
