"""Read records for commands: their options, and the call of `read_records`."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import PROJECT, network_over, schema_of, structure_of
from discreet.errors import InputError, listed, shown, shown_path
from discreet.formats.project_file import Project
from discreet.model.over import Over, Prior
from discreet.privacy.settings import address_of, ledger_address
from discreet.releases.policy import RecordsPolicy
from discreet.util.option_texts import FORM_WORDS

if TYPE_CHECKING:
    from discreet.records.records import Faults


def _take_options(
    table: flags.TableName = None,
    missing: flags.Missing = None,
    may_be_missing: flags.MayBeMissing = None,
    out_of_bounds: flags.OutOfBounds = None,
    na_values: flags.NaValues = None,
    unit_column: flags.UnitColumn = None,
    max_records: flags.MaxRecords = None,
    weights: flags.Weights = None,
    one_record_a_unit: flags.OneRecord = False,
    order_column: flags.OrderColumn = None,
) -> None:
    """Declare the options of `read_records` that commands have, and the variables that may be missing."""


def reads_records(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `how` by these options; `how` then has their values."""
    parameters, added = (inspect.signature(each, eval_str=True).parameters for each in (command, _take_options))
    listed = [
        each for name, parameter in parameters.items() for each in (added.values() if name == "how" else (parameter,))
    ]

    @wraps(command)
    def run(**values: Any) -> None:
        how = {name: values.pop(name) for name in added}
        command(**values, how=how)

    declared = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in listed]
    run.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in declared}
    return run


@dataclass(frozen=True)
class ReadingOptions:
    """Options of `read_records`, from a command line and a project file.

    Args:
        data: address of the records.
        options: of `read_records`, those that were given.
        project: project file, if there is one.
        gaps: variables that get a state for missing values that are kept; empty for all, if none has one.
    """

    data: str
    options: Mapping[str, Any]
    project: Project | None = None
    gaps: tuple[str, ...] = ()

    @staticmethod
    def of(data: str, network: str | None, values: Mapping[str, Any]) -> ReadingOptions:
        """Combine the options of a command line and of a project file; those of the command line win.

        Args:
            data: the records, or a project file.
            network: a network, or a project file.
            values: options of `read_records`; None and False for those that were not given.

        Raises:
            InputError: an invalid project file, or one without the records' address; or variables that may be missing,
                although missing values are not kept.
        """
        named = next((word for word in (data, network) if word is not None and word.endswith(PROJECT)), None)
        project = None if named is None else Project.read(named)
        options = {name: value for name, value in values.items() if value is not None and value is not False}
        if "na_values" in options:
            options["na_values"] = words_in(options["na_values"])
        gaps = tuple(words_in(options.pop("may_be_missing", None)))
        options = {**(project.reading if project else {}), **options}
        if gaps and options.get("missing") != "keep":
            raise InputError("--may-be-missing is for --missing keep")
        if project is None or named != data:
            return ReadingOptions(data, options, project, gaps)
        if project.source is None:
            raise InputError(
                f"{shown_path(data)} has no address of the records: add data to [source], or give the records"
            )
        return ReadingOptions(project.source, options, project, gaps)

    def over(self, network: str | None, design: Path | None, schema: Path | None) -> Over:
        """Return the structure given, or the project's network; with states for missing values that are kept."""
        if self.project is not None and network is None and design is None:
            if schema is not None:
                raise InputError("the project file has its own variables; leave out --schema")
            return self._add_gaps(self.project.network)
        if self.project is not None and network is not None and (design, schema) == (None, None):
            return self._add_gaps(network_over(network, self.project.network.schema))
        structure = structure_of(network, design, schema)
        if isinstance(structure, dc.Network):
            return self._add_gaps(structure)
        if self.policy.missing == "keep":
            raise InputError("a design has no state for missing values; --missing keep is for networks")
        return structure

    def refuse_gaps(self) -> None:
        """Refuse to add states to the variables of a score."""
        if self.gaps:
            raise InputError("--may-be-missing is not for --score: its schema lists the variables that may be missing")

    def _add_gaps(self, network: dc.Network) -> dc.Network:
        """Add a state for missing values to the network, if they are kept."""
        if self.policy.missing != "keep" or (network.may_be_missing and not self.gaps):
            return network
        return network.with_missing(self.gaps or None)

    def variables(self, schema: Path | None) -> dc.Network:
        """Return the variables of a schema or of the project, as a network without arcs."""
        if (schema is None) == (self.project is None):
            raise InputError("give the variables once: --schema, or a project file")
        if self.project is not None:
            return self._add_gaps(dc.Network.empty(self.project.network.variables))
        variables = schema_of(schema)
        assert variables is not None
        return self._add_gaps(dc.Network.empty(variables))

    def records(self, schema: dc.Schema) -> dc.results.Records:
        """Read the private table."""
        return dc.read_records(source_of(self.data), schema, **self.options)

    def blocks(self, faults: Faults) -> bool:
        """Return True if the invalid values of a column prevent a release."""
        absent = faults.missing and self.policy.missing != "drop"
        return bool(faults.unknown or absent or (faults.out_of_bounds and self.policy.out_of_bounds == "error"))

    @property
    def policy(self) -> RecordsPolicy:
        """Treatment of the records."""
        others = ("table", "na_values", *FORM_WORDS)
        words = {name: word for name, word in self.options.items() if name not in others}
        return RecordsPolicy(**{"missing": "error", "out_of_bounds": "error", **words})

    def payer(self, account: str | None, ledger: str | None, purpose: str, request: str) -> dc.results.Account:
        """Find the account that pays; it must protect the project's unit.

        Raises:
            InputError: no account was given, or it protects another unit.
        """
        section = {} if self.project is None else self.project.sections.get("account", {})
        name = account or section.get("name")
        if name is None:
            raise InputError("give the account that pays: --account, or name of [account] in a project file")
        book = dc.Ledger(ledger_address(ledger, section.get("ledger")))
        payer = book.account(name, purpose=purpose, request=request)
        unit = None if self.project is None else self.project.sections.get("unit", {}).get("name")
        if unit is not None and unit != payer.limit.unit:
            raise InputError(
                f"account {shown(name)} protects each {payer.limit.unit}, and the project file each {shown(unit)}: "
                "open an account for that unit, or correct the project file"
            )
        return payer

    def affordable(
        self,
        chosen: dc.tools.Mechanism,
        believed: Prior,
        promise: dc.Guarantee,
        payer: dc.results.Account,
    ) -> None:
        """Refuse a release that would fail for any records, before they are read."""
        from discreet.mechanisms.crossing import calibrate, loss_of

        self.policy.check_claim(promise)
        calibration = calibrate(chosen, believed, promise, self.policy)
        payer.check(promise, rho=loss_of(calibration, self.policy))


def source_of(data: str) -> Any:
    """Return the argument of `read_records` for a DATA argument."""
    return sys.stdin.buffer if data == "-" else address_of(data)


def form_in(text: str) -> dict[str, Any]:
    """Read how a text file is written from the words of a project file's [source], divided by commas.

    Raises:
        InputError: other words.

    Example:
        >>> form_in('encoding = "cp1252", decimal = ","')
        {'encoding': 'cp1252', 'decimal': ','}
    """
    words: dict[str, Any] = {}
    with suppress(tomllib.TOMLDecodeError):
        words = tomllib.loads(f"form = {{ {text} }}")["form"]
    known = all(type(value) is FORM_WORDS.get(name) for name, value in words.items())
    if not known or bool(words) != bool(text):
        raise InputError(
            f'--form takes {listed(FORM_WORDS)}, as in \'encoding = "cp1252", decimal = ","\': each text in double '
            "quotes, and all together in single ones"
        )
    return words


def words_in(texts: list[str] | None) -> list[str]:
    """Split the values of an option at commas."""
    return [word for text in texts or [] for word in text.split(",")]
