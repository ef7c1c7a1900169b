"""Read arguments that several commands take: structures, mechanisms, priors, queries."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import discreet as dc
from discreet.display.terminal import say
from discreet.errors import InputError, shown, shown_path
from discreet.formats.network_files import NO_FORMATS, holds_network, network_formats, parse_structure
from discreet.mechanisms import MECHANISMS, MechanismEntry, mechanisms_over
from discreet.model.dirichlet import DEFAULT_CONCENTRATION
from discreet.model.over import Over, Prior
from discreet.model.query_grammar import QUESTION
from discreet.util.json_files import read_packed_text, read_text
from discreet.util.limits import NETWORK_BYTES, QUERIES, QUERIES_BYTES, at_most

DEFAULT_DEVIATION = 1.0
"""Default standard deviation of the curator's prior of each weight of a design, in its coordinates."""

PROJECT = ".toml"
"""Suffix of a project file."""
NO_ARCS, NAIVE_BAYES = "none", "naive-bayes"
"""Networks that need no file: `none`, and `naive-bayes:TARGET`."""
ALL_VARIABLES = "with all variables and their states (`discreet schema` drafts one from a sample that is not private)"


def fitting(structure: Over) -> dict[str, MechanismEntry]:
    """List the mechanisms for a network, or for a design and its target."""
    return mechanisms_over(structure.domain, structure.predicts)


def registered(name: str, structure: Over | None = None) -> MechanismEntry:
    """Find a mechanism's entry in the registry, one that fits the structure if it is given."""
    entry = MECHANISMS.get(name.replace("-", "_"))
    fit = MECHANISMS if structure is None else fitting(structure)
    if entry is None:
        raise InputError(f"no mechanism {shown(name)}; the mechanisms are: {', '.join(fit)}")
    if entry.chooses and structure is not None:
        raise InputError(
            f"{entry.name} chooses a network: run `discreet {entry.name}`, then release with its output as --network"
        )
    if entry.brings and structure is not None:
        raise InputError(
            f"{entry.name} has its own variables: give its JSON file with --score, and leave out --network and --design"
        )
    if structure is not None and entry.name not in fit:
        raise InputError(
            f"mechanism {entry.name!r} does not fit {structure.words}; those that do are: {', '.join(fit)}"
        )
    return entry


def mechanism_of(
    entry: MechanismEntry,
    options: list[str] | None,
    workload: list[str] | None,
    stands: Mapping[str, str] | None = None,
) -> dc.tools.Mechanism:
    """Make a mechanism with options given as NAME=VALUE (default: `stands`), and the queries that it serves."""
    if not workload:
        return entry.from_text(options or (), stands)
    serve = [each.name for each in MECHANISMS.values() if "workload" in inspect.signature(each.make).parameters]
    if entry.name not in serve:
        raise InputError(f"only {', '.join(serve)} serves a workload, not {entry.name}; leave out --workload")
    queries = [query for word in workload for query in queries_of(word)]
    return entry.from_text(options or (), stands, workload=queries)


def described(domain: str) -> str:
    """List the mechanisms over a domain, for a help text."""
    return "; ".join(f"{name} ({entry.help})" for name, entry in mechanisms_over(domain).items())


def score_of(
    score: Path, mechanism: str | None, option: list[str] | None, others: Iterable[object]
) -> tuple[dc.Network, dc.tools.Mechanism]:
    """Read the variables and the mechanism of a score's file; default mechanisms: sampled for a family, else scored."""
    if any(each is not None for each in others):
        raise InputError(
            "a score has its own variables: leave out --network, --design, --schema, --workload and shares"
        )
    if any(text.partition("=")[0].strip() == "score" for text in option or ()):
        raise InputError("--score names the score: leave out --option score=...")
    read = dc.research.read_score_file(str(score))
    name = mechanism or ("sampled" if isinstance(read, dc.research.Family) else "scored")
    entry = registered(name)
    if not entry.brings:
        names = ", ".join(each.name for each in MECHANISMS.values() if each.brings)
        raise InputError(f"mechanism {name!r} takes no score; those that do are: {names}")
    chosen = entry.from_text([*(option or ()), f"score={score}"])
    assert chosen.only is not None
    return chosen.only, chosen


def structure_of(network: str | None, design: Path | None, schema: Path | None = None) -> Over:
    """Read the public structure: a network, with variables of a schema file if given, or a design."""
    if (network is None) == (design is None):
        raise InputError("give one of --network and --design")
    if design is not None:
        if schema is not None:
            raise InputError("a design has its own bounds; leave out --schema")
        return dc.designs.read_design_file(design)
    assert network is not None
    if network.endswith(PROJECT) and schema is not None:
        raise InputError("a project file has its own variables; leave out --schema")
    return network_over(network, schema_of(schema))


def schema_of(path: Path | None) -> dc.Schema | None:
    """Read the variables of a JSON or project file; None without a file."""
    if path is None or not path.name.endswith(PROJECT):
        return None if path is None else dc.Schema.read(path)
    from discreet.formats.project_file import Project

    return Project.read(path).network.schema


def network_over(word: str, schema: dc.Schema | None) -> dc.Network:
    """Read the network of a word or a file, over the variables of a schema if it has none."""
    named = named_network(word, schema)
    return named or network_in(read_packed_text(word, "network", NETWORK_BYTES), word, schema)


def named_network(word: str, schema: dc.Schema | None) -> dc.Network | None:
    """Return the network of a word over a schema, or of a project file; None if the word names another file."""
    if word.endswith(PROJECT):
        from discreet.formats.project_file import Project

        return Project.read(word).network
    kind, colon, target = word.partition(":")
    if word != NO_ARCS and kind != NAIVE_BAYES:
        return None
    if kind == NAIVE_BAYES and not target:
        raise InputError(f"{NAIVE_BAYES} needs the parent of all other variables: write {NAIVE_BAYES}:TARGET")
    if schema is None:
        raise InputError(f"the network {shown(word)} needs variables: add --schema FILE, {ALL_VARIABLES}")
    return dc.Network.naive_bayes(schema, target) if colon else dc.Network.empty(schema)


def network_in(text: str, where: str, schema: dc.Schema | None) -> dc.Network:
    """Read a network from a text: a network file or output of `structure`, with a schema's bounds and bins; or arcs."""
    chosen = text.lstrip().startswith("{")
    if not (chosen or holds_network(text, where)):
        if schema is None:
            raise InputError(
                f"{shown_path(where)} is no network file ({', '.join(network_formats()) or NO_FORMATS}), so it is read "
                f"as arcs: add --schema FILE, {ALL_VARIABLES}"
            )
        return dc.Network.parse_edges(text, schema, where=where)
    network = dc.Release.loads(text).learned_network if chosen else parse_structure(text, where=where)
    if schema is None:
        return network
    beside = [variable.name for variable in schema if variable.name not in network.schema]
    if beside:
        say(f"not in the network, and not used: {', '.join(map(repr, beside[:8]))} of the schema")
    return network.with_variables([variable for variable in schema if variable.name in network.schema])


def belief_of(structure: Any, text: str | None, records: float) -> Prior:
    """Read the prior: for a network a concentration or a prior network, for a design the deviation of each weight."""
    if isinstance(structure, dc.Network):
        return prior_of(structure, str(DEFAULT_CONCENTRATION) if text is None else text, records)
    try:
        return dc.designs.Normal(structure, DEFAULT_DEVIATION if text is None else float(text))
    except ValueError as error:
        reason = error if isinstance(error, InputError) else f"{shown(text)} is no number"
        raise InputError(f"over a design --prior is the standard deviation of each weight: {reason}") from None


def prior_of(network: dc.Network, text: str, equivalent_sample_size: float) -> dc.Dirichlet:
    """Read a concentration, or a prior network."""
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


def draws_for(level: float) -> int:
    """Count the draws that an interval of a level needs: one beyond each end."""
    return math.ceil(2 / (1 - level) - 1e-6) if 0 < level < 1 else 0


def check_draws(draws: int, level: float) -> None:
    """Refuse a level that needs more draws."""
    if 0 < draws < draws_for(level):
        raise InputError(f"{draws} draws are too few for a level of {level}; draw about {draws_for(level):,}")


def queries_of(word: str) -> list[str]:
    """Read a query, or those of a file; see `queries_in`."""
    if QUESTION.match(word):
        return [word]
    try:
        text = read_text(word, "queries", QUERIES_BYTES)
    except InputError as error:
        raise InputError(
            f"{shown(word)} is no query, such as P(A | B=b), MAP(A, B | C=c), MPE(| C=c) or E(X), and no text file of "
            f"queries ({error})"
        ) from None
    return queries_in(text)


def queries_in(text: str) -> list[str]:
    """Read the queries of a text, one a line; empty lines and comments (#) are skipped."""
    queries = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    at_most(QUERIES, queries, "queries of one file")
    return queries
