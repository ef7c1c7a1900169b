"""Project files: all that is public of a table, and how it is read, in one TOML file that people edit.

    arcs = ["smoke -> lung"]                   # who depends on whom; as in a file of arcs

    [source]
    data = "visits.parquet"                    # path, glob or database URL; where it is relative, to where you stand
    na_values = ["?"]                          # also table, missing, out_of_bounds: as of `read_records`

    [unit]
    name = "patient"                           # what the promise is for
    column = "patient_id"                      # also order, max_records, weights; or one_record = true

    [account]
    name = "visits-2026"                       # also ledger

    [[variables]]
    name = "smoke"
    states = ["no", "yes"]                     # or bounds, bins, type; also missing

Whatever reads a network takes one. It holds nothing of a record: who drafts it from a table, drafts it from a codebook
or from a sample that is public. Comments survive when a program changes it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.model.arcs import parents_in, quoted
from discreet.model.network import Network
from discreet.model.schema import Variable, schema_of_parts
from discreet.util.json_files import read_text, write_whole
from discreet.util.limits import NESTING, PROJECT_BYTES, at_most

SECTIONS: Mapping[str, Mapping[str, type]] = {
    "source": {"data": str, "table": str, "missing": str, "out_of_bounds": str, "na_values": list},
    "unit": {"name": str, "column": str, "order": str, "max_records": int, "weights": str, "one_record": bool},
    "account": {"name": str, "ledger": str},
}
"""What each section may say, and of which type it is."""
READING_OPTIONS = {
    "source": ("table", "missing", "out_of_bounds", "na_values"),
    "unit": ("column", "order", "max_records", "weights", "one_record"),
}
"""What of it is an option of `read_records`."""
RENAMED_OPTIONS = {"column": "unit_column", "order": "order_column", "one_record": "one_record_a_unit"}
"""Names of these options there, where they are others."""
KEY_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,100}+"|'[^'\n]{0,100}+')[ \t]*+\.[ \t]*+"""
DEEP_KEY = re.compile(f"(?:{KEY_PART}){{{NESTING}}}")
"""A key of more parts than anything has, which takes time with their square: `a.a.a`."""
TYPE_WORDS = {str: "text", list: "a list of texts", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True, eq=False)
class Project:
    """What a project file says.

    Args:
        network: the variables and the arcs among them.
        sections: "source", "unit" and "account" as they stand, without those that are empty.
        text: the file's, with its comments.
    """

    network: Network
    sections: Mapping[str, Mapping[str, Any]]
    text: str = field(repr=False)

    @staticmethod
    def read(path: str | Path) -> Project:
        """Read a project file.

        Args:
            path: TOML, as the top of this file says.

        Returns:
            The project.

        Raises:
            InputError: no such file, not TOML, a word that is none of these, or no network.
        """
        return Project.parse(read_text(path, "project", PROJECT_BYTES), where=str(path))

    @staticmethod
    def parse(text: str, *, where: str = "project") -> Project:
        r"""Read the text of a project file; as `read`.

        Example:
            >>> Project.parse('arcs = ["a -> b"]\n[[variables]]\nname = "a"\nstates = ["x", "y"]\n'
            ...     '[[variables]]\nname = "b"\nbounds = [0, 9]\nbins = [5]\n').network.parents["b"]
            ('a',)
        """
        what = f"project {shown_path(where)}"
        at_most(PROJECT_BYTES, text, f"characters of {what}")
        require(
            DEEP_KEY.search(text) is None, f"{what} has a key of more than {NESTING} parts; it has sections and words"
        )
        try:
            raw = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # Its messages have a place, and perhaps a character; a project file is public.
            raise InputError(f"{what} is not TOML: {str(error)[:200]}") from None
        odd = [name for name in map(str, raw) if name not in (*SECTIONS, "arcs", "variables")]
        if odd:
            raise InputError(f"{what} has {shown(odd[0])}; it may have arcs, variables, {listed(SECTIONS)}")
        parts, arcs = raw.get("variables"), raw.get("arcs", [])
        if parts is None:
            raise InputError(f"{what} needs its variables, each in a section [[variables]]")
        schema = schema_of_parts(parts, what)
        if not isinstance(arcs, list) or not all(isinstance(arc, str) for arc in arcs):
            raise InputError(f'{what}: arcs are a list of texts such as "smoke -> lung"')
        joined = parents_in("\n".join(arcs), schema, where=f"arcs of {what}") if arcs else {}
        network = Network(schema.variables, {name: joined.get(name, ()) for name in schema.names})
        return Project(network, {name: _check_section(raw[name], name, what) for name in SECTIONS if name in raw}, text)

    @property
    def source(self) -> str | None:
        """Place of the records; None where the file does not say."""
        return self.sections.get("source", {}).get("data")

    @property
    def reading(self) -> dict[str, Any]:
        """Options of `read_records` that the file gives."""
        found = {
            name: self.sections.get(part, {}).get(name) for part, names in READING_OPTIONS.items() for name in names
        }
        return {RENAMED_OPTIONS.get(name, name): value for name, value in found.items() if value is not None}

    def with_network(self, network: Network) -> Project:
        """The project with other arcs, such as those that `structure` chose; all comments and other words stay.

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
        except TOMLKitError as error:
            raise InputError(
                f"the project's text cannot be changed: {str(error)[:200]}; write its arcs by hand"
            ) from None
        arcs = tomlkit.array()
        arcs.extend(f"{quoted(parent)} -> {quoted(child)}" for parent, child in network.arcs)
        document["arcs"] = arcs.multiline(len(arcs) > 1)
        return Project.parse(tomlkit.dumps(document))

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the file, whole or not at all.

        Args:
            path: its place.
            replace: whether a file that is there is replaced.

        Raises:
            InputError: a name that commands would not take for a project, a file that is there, or a place that cannot
                be written.
        """
        require(str(path).endswith(".toml"), f"a project file ends in .toml, and {shown_path(path)} does not")
        try:
            write_whole(self.text, Path(path), "project", replace=replace)
        except FileExistsError:
            raise InputError(f"{str(path)!r} exists; name a new file, or ask for it to be replaced") from None


def draft_project(
    network: Network,
    *,
    source: Mapping[str, Any] | None = None,
    unit: Mapping[str, Any] | None = None,
    account: str | None = None,
) -> Project:
    """Draft a project file, with comments that say what to decide.

    Args:
        network: variables and arcs; from a codebook or a sample that is public.
        source: words of the section "source"; nothing for records that commands name.
        unit: words of the section "unit"; None for records.
        account: that pays; None leaves it to commands.

    Returns:
        The project; its text is what there is to edit.
    """
    arcs = [f"{quoted(parent)} -> {quoted(child)}" for parent, child in network.arcs]
    lines = [
        "# Public: nothing here may come from a record. Edit it, and give it to any command in place of --network.",
        "",
        "# Who depends on whom, as far as you know; tables are released for each variable with those before it.",
        "# `discreet structure` chooses arcs by the records, with noise.",
        tomlkit.dumps({"arcs": arcs}).strip(),
        "",
        "[source]",
        "# data is a path, glob or database URL; table names one there. missing: error, drop or keep; out_of_bounds:",
        "# error or clip; na_values: words that say that a value is missing.",
        *(tomlkit.dumps(dict(source or {})).strip().splitlines()),
        "",
        "[unit]",
        "# What is protected. If one may have several records, name the column that tells them apart, how many of each",
        "# are kept, and whether each record counts or each unit once, as in",
        '# column = "id", max_records = 3, weights = "unit". one_record = true is your word that each has one.',
        tomlkit.dumps(dict(unit or {"name": "record"})).strip(),
        "",
        "[account]",
        "# Who pays; `discreet ledger open` opens it, once, with a limit. ledger is a database URL.",
        *([] if account is None else [tomlkit.dumps({"name": account}).strip()]),
        "",
        "# Every state that a column may have, whether or not a record has it; of numbers public bounds, the cuts",
        '# between bins, and type = "integer" where all are whole.',
    ]
    parts = [
        f"[[variables]]\n{tomlkit.dumps(_describe_variable(variable)).strip()}\n" for variable in network.variables
    ]
    return Project.parse("\n".join([*lines, *parts]))


def _check_section(raw: object, name: str, what: str) -> dict[str, Any]:
    """A section whose words are known and of the right type."""
    known = SECTIONS[name]
    if not isinstance(raw, dict):
        raise InputError(f"{what}: [{name}] is a section")
    for word, value in raw.items():
        if word not in known:
            raise InputError(f"{what}: [{name}] has {shown(word)}; it may have {listed(known)}")
        texts = not isinstance(value, list) or all(isinstance(one, str) for one in value)
        if type(value) is not known[word] or not texts:
            raise InputError(f"{what}: {word} of [{name}] is {TYPE_WORDS[known[word]]}")
    return raw


def _describe_variable(variable: Variable) -> dict[str, Any]:
    """A variable as a file says it."""
    missing = {} if variable.missing is None else {"missing": variable.missing}
    if variable.bounds is None:
        return {"name": variable.name, "states": list(variable.values), **missing}
    plain = Variable(variable.name, bounds=variable.bounds, bins=variable.bins, type=variable.type)
    return {
        "name": variable.name,
        "bounds": list(map(_drop_point, variable.bounds)),
        "bins": list(map(_drop_point, variable.bins)),
        **({} if variable.type == "real" else {"type": variable.type}),
        **({} if plain.states == variable.values else {"states": list(variable.values)}),
        **missing,
    }


def _drop_point(value: float) -> float | int:
    """A whole number without a point."""
    return int(value) if value == int(value) else value
