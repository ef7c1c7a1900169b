"""How commands read records: the options that say so, and the one way from them to `read_records`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import PROJECT, network_over, schema_of, structure_of
from discreet.errors import InputError, shown, shown_path
from discreet.formats.project_file import Project
from discreet.privacy.settings import address_of, ledger_address
from discreet.releases.policy import RecordsPolicy

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
    """Take the options of `read_records` that commands have, and which variables may be missing."""


def reads_records(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has these options in the place of its parameter `how`, which is what was given of them."""
    own, added = (inspect.signature(each, eval_str=True).parameters for each in (command, _take_options))
    listed = [each for name, one in own.items() for each in (added.values() if name == "how" else (one,))]

    @wraps(command)
    def run(**given: Any) -> None:
        how = {name: given.pop(name) for name in added}
        command(**given, how=how)

    told = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in listed]
    run.__signature__ = inspect.Signature(told)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in told}
    return run


@dataclass(frozen=True)
class ReadingOptions:
    """How records are read: the options of `read_records`, as a command line and a project file give them.

    Args:
        data: where they are.
        options: of `read_records`, those that were given.
        project: the file that gave some, if there is one.
        gaps: variables that get a state of missing values where they are kept; none for all, if none has one.
    """

    data: str
    options: Mapping[str, Any]
    project: Project | None = None
    gaps: tuple[str, ...] = ()

    @staticmethod
    def of(data: str, network: str | None, given: Mapping[str, Any]) -> ReadingOptions:
        """From a command line, whose words come before those of a project file.

        Args:
            data: as it was given: the records, or a project file.
            network: as it was given; it may be a project file, too.
            given: options of `read_records`; None and False for those that were not.

        Raises:
            InputError: a project file that is none, or that does not say where the records are; or variables that may
                be missing, where missing values are not kept.
        """
        named = next((word for word in (data, network) if word is not None and word.endswith(PROJECT)), None)
        project = None if named is None else Project.read(named)
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        if "na_values" in options:
            options["na_values"] = words_in(options["na_values"])
        gaps = tuple(words_in(options.pop("may_be_missing", None)))
        options = {**(project.reading if project else {}), **options}
        if gaps and options.get("missing") != "keep":
            raise InputError("--may-be-missing is for --missing keep")
        if project is None or named != data:
            return ReadingOptions(data, options, project, gaps)
        if project.source is None:
            raise InputError(f"{shown_path(data)} does not say where the records are: data of [source]; or name them")
        return ReadingOptions(project.source, options, project, gaps)

    def over(self, network: str | None, design: Path | None, schema: Path | None) -> dc.Network | dc.Design:
        """What was named, or the project's network, over its variables; with states of missing values that are kept."""
        if self.project is not None and network is None and design is None:
            if schema is not None:
                raise InputError("the project file has the variables itself; leave out --schema")
            return self._add_gaps(self.project.network)
        if self.project is not None and network is not None and (design, schema) == (None, None):
            return self._add_gaps(network_over(network, self.project.network.schema))
        found = structure_of(network, design, schema)
        if isinstance(found, dc.Network):
            return self._add_gaps(found)
        if self.policy.missing == "keep":
            raise InputError("a design has no state of missing values; --missing keep is for networks")
        return found

    def refuse_gaps(self) -> None:
        """Refuse to add states to what a score has been said over."""
        if self.gaps:
            raise InputError("--may-be-missing is not for --score: its schema says which variables may be missing")

    def _add_gaps(self, network: dc.Network) -> dc.Network:
        """Add to the network a state of missing values where they are kept."""
        if self.policy.missing != "keep" or (network.may_be_missing and not self.gaps):
            return network
        return network.with_missing(self.gaps or None)

    def variables(self, schema: Path | None) -> dc.Network:
        """The variables of a schema, or of the project, without arcs."""
        if (schema is None) == (self.project is None):
            raise InputError("name the variables once: --schema, or a project file")
        if self.project is not None:
            return self._add_gaps(dc.Network.empty(self.project.network.variables))
        variables = schema_of(schema)
        assert variables is not None
        return self._add_gaps(dc.Network.empty(variables))

    def records(self, schema: dc.Schema) -> dc.results.Records:
        """The private table."""
        return dc.read_records(source_of(self.data), schema, **self.options)

    def blocks(self, faults: Faults) -> bool:
        """Whether what was found in a column stands against a release."""
        absent = faults.missing and self.policy.missing != "drop"
        return bool(faults.unknown or absent or (faults.out_of_bounds and self.policy.out_of_bounds == "error"))

    @property
    def policy(self) -> RecordsPolicy:
        """What is done with the records."""
        words = {name: word for name, word in self.options.items() if name not in ("table", "na_values")}
        return RecordsPolicy(**{"missing": "error", "out_of_bounds": "error", **words})

    def payer(self, account: str | None, ledger: str | None, purpose: str, request: str) -> dc.results.Account:
        """The account that pays, for a purpose and under the key of a request; it protects the project's unit.

        Raises:
            InputError: no account was named, or it protects another unit.
        """
        said = {} if self.project is None else self.project.sections.get("account", {})
        name = account or said.get("name")
        if name is None:
            raise InputError("name the account that pays: --account, or name of [account] in a project file")
        book = dc.Ledger(ledger_address(ledger, said.get("ledger")))
        found = book.account(name, purpose=purpose, request=request)
        unit = None if self.project is None else self.project.sections.get("unit", {}).get("name")
        if unit is not None and unit != found.limit.unit:
            raise InputError(
                f"account {shown(name)} protects each {found.limit.unit}, and the project says {shown(unit)}: open an "
                "account for that unit, or mend the project file"
            )
        return found

    def affordable(
        self,
        chosen: dc.tools.Mechanism,
        believed: dc.Dirichlet | dc.designs.Normal,
        promise: dc.Guarantee,
        payer: dc.results.Account,
    ) -> None:
        """Refuse what could not be released, whatever the records are, before they are read."""
        from discreet.mechanisms.crossing import calibrate

        self.policy.check_claim(promise)
        calibrate(chosen, believed, promise, self.policy)
        payer.check(promise)


def source_of(data: str) -> Any:
    """What `read_records` takes for a DATA argument."""
    return sys.stdin.buffer if data == "-" else address_of(data)


def words_in(given: list[str] | None) -> list[str]:
    """The words of an option that commas separate."""
    return [word for part in given or [] for word in part.split(",")]
