"""Tasks of the commands of the pack: read a table whose domain is wanted, release it, write its files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomlkit

from discreet.cli.curator import goes_to_stdout, publish_release
from discreet.cli.reading import ReadingOptions, form_in, source_of, words_in
from discreet.cli.report import release_lines, release_summary
from discreet.discovery.declared_columns import ID_NAME, SECRET_SOURCE, NoPrior
from discreet.discovery.domain_project import found_project
from discreet.discovery.finding import values_of
from discreet.discovery.kinds.found_columns import FoundDomain
from discreet.discovery.mechanisms.found_domain import found_domain
from discreet.discovery.records.column_values import ColumnValues
from discreet.display.terminal import check_writable, say, show
from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.formats.project_file import Project
from discreet.mechanisms.crossing import calibrate, release
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.records.sources import open_source
from discreet.records.text_form import TextForm
from discreet.releases.release import Release
from discreet.util.json_files import read_text
from discreet.util.limits import PROJECT_BYTES
from discreet.util.option_texts import FORM_WORDS

PROJECT = ".toml"
"""Suffix of a project file."""
STAND_IN = ["any value"]
"""States of a variable that has none yet, for the parser of project files."""


@dataclass(frozen=True)
class DomainTask:
    """A table whose domain is wanted, as a command line or a project file names it.

    Args:
        options: address of the records, options of reading, and the project file if there is one.
        types: of columns that have one.
        leave_out: columns that are not wanted.
        declared: variables of the project that have states or bounds already; they are not searched.
    """

    options: ReadingOptions
    types: Mapping[str, Any]
    leave_out: tuple[str, ...]
    declared: tuple[Any, ...] = ()

    @staticmethod
    def of(data: str, types: list[str], leave_out: list[str], form: str, words: Mapping[str, Any]) -> DomainTask:
        """Read a task.

        Args:
            data: address of the records, or a project file whose variables may have a name and a type alone.
            types: texts NAME=TYPE.
            leave_out: names, several divided by commas.
            form: how a text file is written, as words of [source].
            words: options of `read_records`, None and False for those that were not given.

        Raises:
            InputError: an invalid project file, or one without the records' address.
        """
        wanted, left = wanted_types(types), tuple(words_in(leave_out))
        written = {**words, "na_values": words_in(words["na_values"]) or None, **form_in(form)}
        reading = {name: value for name, value in written.items() if value is not None and value is not False}
        if not data.endswith(PROJECT):
            return DomainTask(ReadingOptions(data, reading), wanted, left)
        project, listed, declared = _read_project(data)
        if project.source is None:
            raise InputError(f"{shown_path(data)} has no address of the records: add data to [source]")
        options = ReadingOptions(project.source, {**project.reading, **reading}, project)
        others = tuple(name for name in _names_in(options) if name not in listed or name in left)
        return DomainTask(options, {**listed, **wanted}, others, declared)

    def likely_identifiers(self) -> list[str]:
        """List columns that are wanted and whose names look like those of identifiers; no value is looked at."""
        return [name for name in _names_in(self.options) if name not in self.leave_out and ID_NAME.search(name)]

    def values(self) -> tuple[NoPrior, ColumnValues]:
        """Read the columns and count their values; a column of the unit is left out."""
        unit_column = self.options.options.get("unit_column")
        left = [name for name in self.leave_out if name != unit_column]
        types = {name: kind for name, kind in self.types.items() if name not in self.leave_out}
        reading = {name: value for name, value in self.options.options.items() if name != "out_of_bounds"}
        columns, values = values_of(source_of(self.options.data), types, left, reading)
        return NoPrior(columns), values

    @property
    def gaps(self) -> bool:
        """True if missing values are kept as a state."""
        return bool(self.options.options.get("missing") == "keep")

    def project(self, found: Release, account: str | None) -> Project:
        """Write the project file of the found domain, with variables that were declared before."""
        source = {} if SECRET_SOURCE.search(self.options.data) else {"data": self.options.data}
        sections = {} if self.options.project is None else self.options.project.sections
        words = {**source, **{name: value for name, value in self.options.options.items() if name in SOURCE_WORDS}}
        payer = account or sections.get("account", {}).get("name")
        return found_project(found, source=words, unit=sections.get("unit"), account=payer, declared=self.declared)


SOURCE_WORDS = ("table", "na_values", "encoding", "delimiter", "quote", "decimal", "thousands", "preamble", "footer")
"""Options of reading that a project file keeps in [source]."""


def _names_in(options: ReadingOptions) -> tuple[str, ...]:
    """List the names of a table's columns, of whatever type."""
    form = {name: value for name, value in options.options.items() if name in FORM_WORDS}
    return tuple(open_source(source_of(options.data), options.options.get("table"), form=TextForm(**form))[0].columns)


def _read_project(path: str) -> tuple[Project, dict[str, str], tuple[Any, ...]]:
    """Read a project file: the project, the types of variables without states and bounds, and the other variables."""
    try:
        raw = tomllib.loads(read_text(path, "project", PROJECT_BYTES))
    except ValueError as error:
        raise InputError(f"project {shown_path(path)} is not TOML: {str(error)[:200]}") from None
    variables = raw.get("variables")
    if not isinstance(variables, list) or not all(isinstance(each, dict) for each in variables):
        raise InputError(f"project {shown_path(path)} needs its variables, each in a section [[variables]]")
    types = dict[str, str]()
    for member in variables:
        if "name" in member and not {"states", "bounds", "bins"} & {*member}:
            odd = sorted({*member} - {"name", "type"})
            require(not odd, f"column {shown(member['name'])} is found by name and type alone: take out {listed(odd)}")
            types[str(member["name"])] = member.pop("type", "unknown")
            member["states"] = STAND_IN
    project = Project.parse(tomlkit.dumps(raw), where=path)
    require(bool(types), f"all variables of project {shown_path(path)} have states or bounds: nothing is to be found")
    return project, types, tuple(each for each in project.network.variables if each.name not in types)


def find(
    task: DomainTask,
    wanted: tuple[str, str, int],
    payment: tuple[str | None, str | None, str, str],
    files: tuple[Path, Path | None],
    as_json: bool,
) -> None:
    """Release a domain, and write it and its project file.

    Args:
        task: the table.
        wanted: epsilon, delta and bins.
        payment: account, ledger, purpose and request.
        files: of the release, and of the project.
        as_json: whether a summary is printed as JSON.
    """
    (epsilon, delta, bins), (output, project_file) = wanted, files
    payer = task.options.payer(*payment)
    limit = payer.limit
    promise = Guarantee(epsilon=epsilon, delta=delta, relation=limit.relation, unit=limit.unit)
    to_stdout = goes_to_stdout(output, as_json)
    if project_file is not None:
        require_new_project(project_file)
    release_of_domain = release_domain(task, promise, bins, payer)
    saved = publish_release(release_of_domain, None if to_stdout else output)
    balance = payer.balance()
    say("\n".join(found_lines(release_of_domain)))
    say(release_lines(release_of_domain, balance))
    written = {}
    if project_file is not None:
        task.project(release_of_domain, payment[0]).save(project_file)
        written = {"project": str(project_file)}
    if not to_stdout:
        summary = release_summary(release_of_domain, balance) if as_json else {}
        names = " and ".join(map(str, filter(None, (saved, project_file))))
        show(as_json, {"release": str(saved), **written, **summary}, f"wrote {names}")


def require_new_project(path: Path) -> None:
    """Refuse, before a charge, a project file that exists, or has no name of one."""
    require(path.name.endswith(PROJECT), f"a project file ends in .toml, and {shown_path(path)} does not")
    require(not path.exists(), f"{str(path)!r} exists; give a new file")
    check_writable(path)


def release_domain(task: DomainTask, promise: Guarantee, bins: int, payer: Account) -> Release:
    """Check payment, read the values, charge and draw."""
    mechanism = found_domain(bins, gaps=task.gaps)
    replace(task.options.policy, out_of_bounds="clip").check_claim(promise)
    payer.check(promise)
    prior, values = task.values()
    calibrate(mechanism, prior, promise, values.policy)
    return release(mechanism, values, prior, promise, account=payer)


def found_lines(found: Release) -> list[str]:
    """List what was found, a line for each column: public."""
    payload = found.payload_as(FoundDomain)
    width = max(len(part.name) for part in payload.parts)
    return [f"{part.name:<{width}}  {part.words}" for part in payload.parts]


def wanted_types(texts: Sequence[str]) -> dict[str, Any]:
    """Read types of columns as a command line gives them: NAME=TYPE.

    Raises:
        InputError: a text of another form.

    Example:
        >>> wanted_types(["age=integer"])
        {'age': 'integer'}
    """
    pairs = [text.rpartition("=")[::2] for text in texts]
    odd = [text for text, (name, type) in zip(texts, pairs, strict=True) if not name or not type]
    require(not odd, f"the type of a column is NAME=TYPE, such as age=integer, not {listed(odd)}")
    return dict(pairs)
