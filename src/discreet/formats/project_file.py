"""Read and write project files: all that is public of a table, and how to read it, in one TOML file for people.

    arcs = ["smoke -> lung"]                   # parent -> child; as in a file of arcs

    [source]
    data = "visits.parquet"                    # path, glob or database URL; relative to the working folder
    na_values = ["?"]                          # also table, missing, out_of_bounds: as in `read_records`
    encoding = "cp1252"                        # of text files; also delimiter, quote, decimal, thousands, preamble,
    decimal = ","                              # footer: as the program that wrote them does

    [unit]
    name = "patient"                           # protected unit
    column = "patient_id"                      # also order, max_records, weights; or one_record = true

    [account]
    name = "visits-2026"                       # also ledger

    [domain]                                   # only if a release found states, bounds and bins: which one
    release = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"  # also epsilon, delta, relation, unit, private

    [[variables]]
    name = "smoke"
    states = ["no", "yes"]                     # or bounds, bins, type; without bins a release finds some
    other = "other"                            # takes all values that are not listed; also missing, not_applicable,
                                               # applies_if, ordered = true

    [[variables]]
    name = "stage"
    states = [{code = 1, label = "I"}, {code = 2, label = "II"}]   # or a table: labels = {1 = "I", 2 = "II"}

All commands that take a network take a project file. It must contain nothing of a private record: draft it from a
codebook or a public sample. Comments survive when a program changes the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.model.arcs import add_conditions, parents_in, quoted
from discreet.model.network import Network
from discreet.model.origin import Learned
from discreet.model.round_numbers import is_wide
from discreet.model.schema import Variable, schema_of_parts, write_gaps
from discreet.util.json_files import read_text, write_whole
from discreet.util.lazy_imports import lazy_import
from discreet.util.limits import NESTING, PROJECT_BYTES, at_most
from discreet.util.option_texts import FORM_WORDS
from discreet.util.similar import did_you_mean

if TYPE_CHECKING:
    import tomlkit
else:
    tomlkit = lazy_import("tomlkit")

SECTIONS: Mapping[str, Mapping[str, type]] = {
    "source": {"data": str, "table": str, "missing": str, "out_of_bounds": str, "na_values": list, **FORM_WORDS},
    "unit": {"name": str, "column": str, "order": str, "max_records": int, "weights": str, "one_record": bool},
    "account": {"name": str, "ledger": str},
    "domain": {"release": str, "epsilon": str, "delta": str, "relation": str, "unit": str, "private": bool},
}
"""Words of each section, with their types."""
READING_OPTIONS = {
    "source": ("table", "missing", "out_of_bounds", "na_values", *FORM_WORDS),
    "unit": ("column", "order", "max_records", "weights", "one_record"),
}
"""Words that are options of `read_records`."""
RENAMED_OPTIONS = {"column": "unit_column", "order": "order_column", "one_record": "one_record_a_unit"}
"""Names of these options in `read_records`, if they differ."""
KEY_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,100}+"|'[^'\n]{0,100}+')[ \t]*+\.[ \t]*+"""
DEEP_KEY = re.compile(f"(?:{KEY_PART}){{{NESTING}}}")
"""Key with more parts than any valid one, such as `a.a.a`: parsing takes time with their square."""
TYPE_WORDS = {str: "text", list: "a list of texts", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, eq=False)
class Project:
    """Content of a project file.

    Args:
        network: the variables and the arcs among them.
        sections: "source", "unit" and "account" as in the file, without empty ones.
        text: of the file, with its comments.
    """

    network: Network
    sections: Mapping[str, Mapping[str, Any]]
    text: str = field(repr=False)

    @staticmethod
    def read(path: str | Path) -> Project:
        """Read a project file.

        Args:
            path: TOML; see the top of this module.

        Returns:
            The project.

        Raises:
            InputError: no such file, not TOML, an unknown word, or no network.
        """
        return Project.parse(read_text(path, "project", PROJECT_BYTES), where=str(path))

    @staticmethod
    def parse(text: str, *, where: str = "project") -> Project:
        r"""Read the text of a project file; see `read`.

        Example:
            >>> Project.parse('arcs = ["a -> b"]\n[[variables]]\nname = "a"\nstates = ["x", "y"]\n'
            ...     '[[variables]]\nname = "b"\nbounds = [0, 9]\nbins = [5]\n').network.parents["b"]
            ('a',)
        """
        label = f"project {shown_path(where)}"
        at_most(PROJECT_BYTES, text, f"characters of {label}")
        require(DEEP_KEY.search(text) is None, f"{label} has a key of more than {NESTING} parts; use sections")
        try:
            raw = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # The message may quote a character: a project file is public.
            raise InputError(f"{label} is not TOML: {str(error)[:200]}") from None
        odd = [name for name in map(str, raw) if name not in (*SECTIONS, "arcs", "variables")]
        if odd:
            similar = did_you_mean(odd[0], (*SECTIONS, "arcs", "variables"))
            raise InputError(f"{label} has {shown(odd[0])}; it may have arcs, variables, {listed(SECTIONS)}{similar}")
        parts, arcs = raw.get("variables"), raw.get("arcs", [])
        if parts is None:
            raise InputError(f"{label} needs its variables, each in a section [[variables]]")
        schema = schema_of_parts(parts, label)
        if not isinstance(arcs, list) or not all(isinstance(arc, str) for arc in arcs):
            raise InputError(f'{label}: arcs are a list of texts such as "smoke -> lung"')
        joined = parents_in("\n".join(arcs), schema, where=f"arcs of {label}") if arcs else {}
        sections = {name: _check_section(raw[name], name, label) for name in SECTIONS if name in raw}
        origin = _read_origin(sections.get("domain"), label)
        parents = add_conditions({name: joined.get(name, ()) for name in schema.names}, schema)
        return Project(Network(schema.variables, parents, origin), sections, text)

    @property
    def source(self) -> str | None:
        """Address of the records; None if the file has none."""
        return self.sections.get("source", {}).get("data")

    @property
    def reading(self) -> dict[str, Any]:
        """Options of `read_records` in the file."""
        options = {
            name: self.sections.get(group, {}).get(name) for group, names in READING_OPTIONS.items() for name in names
        }
        return {RENAMED_OPTIONS.get(name, name): value for name, value in options.items() if value is not None}

    def with_network(self, network: Network) -> Project:
        """Replace the arcs, such as by those of `structure`; comments and other words stay.

        Args:
            network: over the same variables.

        Returns:
            Another project.

        Raises:
            InputError: other variables.
        """
        if {v.name: v.states for v in network.variables} != {v.name: v.states for v in self.network.variables}:
            raise InputError("the arcs are over other variables, or states, than the project's")
        try:
            document = tomlkit.parse(self.text)
        except tomlkit.exceptions.TOMLKitError as error:
            raise InputError(
                f"the project's text cannot be changed: {str(error)[:200]}; edit its arcs by hand"
            ) from None
        arcs = tomlkit.array()
        arcs.extend(f"{quoted(parent)} -> {quoted(child)}" for parent, child in network.arcs)
        document["arcs"] = arcs.multiline(len(arcs) > 1)
        return Project.parse(tomlkit.dumps(document))

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the file completely, or leave it as it was.

        Args:
            path: of the file.
            replace: True replaces an existing file.

        Raises:
            InputError: a name that is not a project's, a file that exists, or one that cannot be written.
        """
        save_project(self.text, path, replace=replace)


def save_project(text: str, path: str | Path, *, replace: bool = False) -> None:
    """Write the text of a project file; see `Project.save`."""
    require(str(path).endswith(".toml"), f"a project file ends in .toml, and {shown_path(path)} does not")
    try:
        write_whole(text, Path(path), "project", replace=replace)
    except FileExistsError:
        raise InputError(f"{str(path)!r} exists; give a new file, or replace it (--replace)") from None


def draft_project(
    network: Network,
    *,
    source: Mapping[str, Any] | None = None,
    unit: Mapping[str, Any] | None = None,
    account: str | None = None,
) -> Project:
    """Draft a project file, with comments on what to decide.

    Args:
        network: variables and arcs; from a codebook or a sample that is public.
        source: words of the section "source"; None if commands name the records.
        unit: words of the section "unit"; None for records.
        account: that pays; None leaves it to commands.

    Returns:
        The project, whose text is for the user to edit.
    """
    arcs = [f"{quoted(parent)} -> {quoted(child)}" for parent, child in network.arcs]
    lines = [
        "# Public: nothing here may come from a record. Edit it, and give it to any command instead of --network.",
        "",
        "# Dependences, as far as known: parent -> child. A table is released for each variable with its parents.",
        "# `discreet structure` chooses arcs by the records, with noise.",
        tomlkit.dumps({"arcs": arcs}).strip(),
        "",
        "[source]",
        "# data is a path, glob or database URL; table names one there. missing: error, drop or keep; out_of_bounds:",
        "# error or clip; na_values: words that mean a missing value. Text files: encoding, delimiter, quote, decimal,",
        "# thousands; preamble and footer: numbers of lines before the header and below the last record.",
        *(tomlkit.dumps(dict(source or {})).strip().splitlines()),
        "",
        "[unit]",
        "# The protected unit. If a unit may have several records, give the column that identifies it, the most",
        "# records to keep, and whether each record or each unit has weight 1, as in",
        '# column = "id", max_records = 3, weights = "unit". one_record = true declares that each has one.',
        tomlkit.dumps(dict(unit or {"name": "record"})).strip(),
        "",
        "[account]",
        "# The account that pays; `discreet ledger open` opens it once, with a limit. ledger is a database URL.",
        *([] if account is None else [tomlkit.dumps({"name": account}).strip()]),
        *_origin_lines(network.learned),
        "",
        "# Every state that a column may have, whether or not a record has it; for numbers their public bounds, the",
        '# cuts between bins (without them a release finds some), and type = "integer" if all are whole.',
    ]
    parts = [
        f"[[variables]]\n{tomlkit.dumps(_describe_variable(variable)).strip()}\n" for variable in network.variables
    ]
    return Project.parse("\n".join([*lines, *parts]))


def _origin_lines(origin: Learned | None) -> list[str]:
    """Write the section of the release that found the domain; nothing of public variables."""
    if origin is None or origin.what != "domain":
        return []
    words = {name: value for name, value in origin.document().items() if name in SECTIONS["domain"]}
    comment = "# States, bounds and bins below were found in the records by this release; later documents say so."
    return ["", "[domain]", comment, tomlkit.dumps(words).strip()]


def _read_origin(section: Mapping[str, Any] | None, label: str) -> Learned | None:
    """Read the section of the release that found the domain."""
    if not section:
        return None
    lacking = {"release", "epsilon", "relation", "unit", "private"} - {*section}
    require(not lacking, f"{label}: [domain] needs {listed(sorted(lacking))}")
    require(bool(re.fullmatch("[0-9a-f]{32}", section["release"])), f"{label}: release of [domain] is no release's id")
    return Learned(**section, what="domain")


def _check_section(raw: object, name: str, label: str) -> dict[str, Any]:
    """Check that the words of a section are known and of the right type."""
    types = SECTIONS[name]
    if not isinstance(raw, dict):
        raise InputError(f"{label}: [{name}] is a section")
    for word, value in raw.items():
        if word not in types:
            similar = did_you_mean(word, types)
            raise InputError(f"{label}: [{name}] has {shown(word)}; it may have {listed(types)}{similar}")
        texts = not isinstance(value, list) or all(isinstance(member, str) for member in value)
        if type(value) is not types[word] or not texts:
            raise InputError(f"{label}: {word} of [{name}] is {TYPE_WORDS[types[word]]}")
    return raw


def _describe_variable(variable: Variable) -> dict[str, Any]:
    """Describe a variable as in a file."""
    missing = write_gaps(variable)
    if variable.bounds is None:
        gathered: dict[str, Any] = {} if variable.other is None else {"other": variable.other}
        gathered |= {"ordered": True} if variable.ordered else {}
        states: list[Any] = list(variable.matched)
        if variable.codes:
            parts, states = zip(states, variable.states, strict=False), tomlkit.array()
            for code, label in parts:
                states.append(tomlkit.inline_table().append("code", code).append("label", label))
        return {"name": variable.name, "states": states, **gathered, **missing}
    plain, declare = replace_fields(variable, states=()), variable.number_type.declare
    return {
        "name": variable.name,
        "bounds": list(map(declare, variable.bounds)),
        **(
            {}
            if is_wide(variable)
            else {
                "bins": variable.number_type.name_step(variable.bounds, variable.bins)
                or list(map(declare, variable.bins))
            }
        ),
        **({} if variable.type == "real" else {"type": variable.type}),
        **({} if plain.states == variable.states else {"states": list(variable.values)}),
        **missing,
    }
