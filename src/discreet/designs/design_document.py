"""Designs in documents: their part of a release, the prior, and files of designs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from discreet.designs.design import Design, Normal
from discreet.display.text_tables import with_noun
from discreet.errors import InputError, shown_path
from discreet.model.schema import Variable
from discreet.releases.codec import Count, DocumentPart, Finite, Flag, Items, Positive, check_part
from discreet.releases.release_head import Domain, ReleaseHead
from discreet.util.json_files import read_json, read_text
from discreet.util.limits import NETWORK_BYTES, check_states


class _ColumnPart(DocumentPart):
    name: str
    states: Items[str] | None = None
    bounds: tuple[Finite, Finite] | None = None
    type: Literal["integer", "date", "datetime"] | None = None


class DesignPart(DocumentPart):
    """A design: features with their bounds, the target, and the norm of a record."""

    features: Items[_ColumnPart]
    target: _ColumnPart | None = None
    norm: Positive | None = None
    intercept: Flag
    counted: Literal[True] | None = None
    groups: Items[Items[Count]] | None = None


class NormalPart(DocumentPart):
    """A normal prior on the weights."""

    deviation: Positive


def write_design(design: Design) -> dict[str, Any]:
    """Write a design to a document."""
    document = {
        "features": [_write_column(variable) for variable in design.features],
        "target": None if design.target is None else _write_column(design.target),
        "norm": design.norm,
        "intercept": design.intercept,
        "counted": design.counted or None,
        "groups": [list(group) for group in design.groups] or None,
    }
    return {name: value for name, value in document.items() if value is not None}


def read_design(part: DesignPart) -> Design:
    """Read a design from a document.

    Raises:
        InputError: no design, or more of anything than a file may declare.
    """
    check_states(column.states or () for column in (*part.features, *([part.target] if part.target else [])))
    target = None if part.target is None else _read_variable(part.target)
    groups = tuple(map(tuple, part.groups or ()))
    return Design(
        tuple(map(_read_variable, part.features)), target, part.norm, part.intercept, groups, bool(part.counted)
    )


def read_design_file(path: str | Path) -> Design:
    """Read a design from a JSON file, in the words of a release's part `design`.

    Args:
        path: `{"features": [{"name": "age", "bounds": [20, 60]}], "target": {"name": "income", "bounds": [0, 1000]},
            "intercept": true}`, or a target with two `states`; `target`, `norm` and `groups` may be left out, and
            `"counted": true` says that the target is a count.

    Returns:
        The design.

    Raises:
        InputError: no such file, not JSON of this form, or no design; the message has the place.

    Guarantee:
        None spent: a design is public.

    Example:
        >>> import tempfile
        >>> import discreet as dc
        >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        ...     _ = file.write('{"features": [{"name": "age", "bounds": [20, 60]}], "intercept": true}')
        ...     file.flush()
        ...     dc.designs.read_design_file(file.name).names
        ('age',)
    """
    subject = f"design {shown_path(path)}"
    raw = read_json(read_text(path, "design", NETWORK_BYTES), subject, NETWORK_BYTES)
    part = check_part(DesignPart, raw, f"{subject}, at")
    try:
        return read_design(part)
    except InputError as error:
        raise InputError(f"{subject}: {error}") from None


def _write_column(variable: Variable) -> dict[str, Any]:
    """Write a variable of a design to a document."""
    states = {"states": list(variable.states)} if variable.states else {}
    typed = {"type": variable.type} if variable.type != "real" else {}
    bounds = {} if variable.bounds is None else {"bounds": list(variable.bounds)}
    return {"name": variable.name, **states, **bounds, **typed}


def _read_variable(column: _ColumnPart) -> Variable:
    """Read a variable of a design from a document."""
    return Variable(column.name, tuple(column.states or ()), bounds=column.bounds, type=column.type or "real")


class DesignHead(ReleaseHead):
    """A release over a design; weights and sums are in its coordinates, between -1 and 1."""

    design: DesignPart
    prior: NormalPart

    def read_prior(self, cells: int) -> Normal:
        """See `ReleaseHead`."""
        return Normal(read_design(self.design), self.prior.deviation)


def _write_prior(prior: Normal) -> dict[str, Any]:
    """Write a design and the prior of its weights to a document."""
    return {"design": write_design(prior.design), "prior": {"deviation": prior.deviation}}


def _describe(design: Design) -> str:
    """Describe a design for the facts of a release."""
    target = "no target" if design.target is None else f"the target {design.target.name}"
    return f"a design of {with_noun(len(design.features), 'feature')} and {target}"


DOMAINS = (Domain(DesignHead, _write_prior, _describe, "discreet.designs.made_up_designs:MADE_UP"),)
"""Domain of the pack's releases."""
