"""Codec of calibrations and payloads: JSON documents derived from the fields of their classes.

A class says with `kind` under which name documents hold it. Its annotations say the rest: a field of type `Positive` is
a positive number there, one of type `Fraction` exact text, one of type `CountTables` flat lists of integers by node.
From them follow what pydantic checks, the JSON Schema, and the way to the document and back, so that a new field is one
line and a new kind one class. What a payload is over, a network for one, stands in the document's head, not in it.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pydantic

from discreet.errors import InputError, listed, shown
from discreet.model.network import Network
from discreet.model.over import Over
from discreet.model.schema import Scope, table_cells
from discreet.model.tables import Tables
from discreet.privacy.guarantee import as_rational, as_text
from discreet.util.arrays import Array
from discreet.util.limits import BUDGET_DIGITS, at_most

T = TypeVar("T", bound=type)
Positive = Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False, strict=True)]
Finite = Annotated[float, pydantic.Field(allow_inf_nan=False, strict=True)]
Unit = Annotated[float, pydantic.Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Integer = Annotated[int, pydantic.Field(ge=-(2**63), lt=2**63, strict=True)]
Count = Annotated[int, pydantic.Field(ge=0, lt=2**63, strict=True)]
Whole = Annotated[int, pydantic.Field(gt=0, lt=2**63, strict=True)]
Flag = Annotated[bool, pydantic.Field(strict=True)]
Budget = Annotated[str, pydantic.Field(pattern=r"^[0-9]+(\.[0-9]+|/[0-9]+)?$")]


def all_positive(*numbers: float | None) -> bool:
    """True if all numbers that are not None are positive and finite.

    Example:
        >>> all_positive(1.0, None), all_positive(0.0)
        (True, False)
    """
    return all(number is None or 0 < number < math.inf for number in numbers)


Item = TypeVar("Item")
Items = Annotated[list[Item], pydantic.Field(fail_fast=True)]
"""List whose first fault alone is reported."""


class DocumentPart(pydantic.BaseModel):
    """Strict pydantic model: the fields listed, and no others."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


P = TypeVar("P", bound=DocumentPart)


def check_part(model: type[P], raw: object, subject: str) -> P:
    """Validate JSON values of a file by a model.

    Args:
        model: the model.
        raw: what the JSON text says.
        subject: the file, and "is damaged at" or another word before the place of a fault.

    Returns:
        The validated model.

    Raises:
        InputError: the first fault, with its place.

    Example:
        >>> check_part(DocumentPart, {"odd": 1}, "the file, at")
        Traceback (most recent call last):
        ...
        discreet.errors.InputError: the file, at 'odd': Extra inputs are not permitted
    """
    try:
        return model.model_validate(raw)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InputError(f"{subject} {shown('.'.join(map(str, first['loc'])))}: {first['msg']}") from None


# -------------------------------------------------------------------------------------------------- fields of one kind


@dataclass(frozen=True)
class Form:
    """Form of a type's values in a document: pydantic type, writer and reader.

    Args:
        part: what pydantic takes there.
        write: value to document.
        read: document, and what it is over, to value.
    """

    part: Any
    write: Callable[[Any], Any]
    read: Callable[[Any, Any], Any]


def shaped(network: Network, node: str, flat: Array, draws: int | None = None) -> Array:
    """Reshape a flat table to its axes.

    Args:
        network: public.
        node: whose family it is over.
        flat: the cells, axes `(*parents, child)` and draws, last fastest.
        draws: length of the last axis; None for no such axis.

    Returns:
        The table.

    Raises:
        InputError: no such node, or another number of cells than its family has.
    """
    shape = () if node not in network.schema else (*network.shape(node), *(() if draws is None else (draws,)))
    if node not in network.schema or flat.size != math.prod(shape):
        raise InputError(f"the table of {shown(node)} has {flat.size} cells, not those of its family")
    return flat.reshape(shape)


def _keep(value: Any, *_over: Any) -> Any:
    """Keep a value as it is."""
    return value


def _flatten(tables: Mapping[str, Array]) -> dict[str, Any]:
    """Flatten tables to lists."""
    return {node: table.ravel().tolist() for node, table in tables.items()}


def _read_budget(text: str, _over: Over) -> Fraction:
    """Read an exact budget."""
    return as_rational(text, "epsilon")


def _read_budgets(texts: Iterable[str]) -> list[Fraction]:
    """Read exact budgets whose sum must not have millions of digits."""
    budgets = [as_rational(text, "epsilon") for text in texts]
    digits = sum(len(str(denominator)) for denominator in {budget.denominator for budget in budgets})
    at_most(BUDGET_DIGITS, digits, "digits of the budgets' different denominators")
    return budgets


def _read_matrix(rows: list[list[float]], _over: Over) -> Array:
    """Read rows of equal length; the class checks which length."""
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise InputError("a matrix needs at least one row, and equally many numbers in each")
    return np.array(rows, np.float64)


CountTables = Annotated[
    Mapping[str, Array],
    Form(
        dict[str, Items[Integer]],
        _flatten,
        lambda raw, network: {node: shaped(network, node, np.array(flat, np.int64)) for node, flat in raw.items()},
    ),
]
"""Tables of integers by node."""
Probabilities = Annotated[
    Tables,
    Form(
        dict[str, Items[Unit]],
        _flatten,
        lambda raw, network: Tables(
            network, {node: shaped(network, node, np.array(flat)) for node, flat in raw.items()}
        ),
    ),
]
"""Tables of probabilities of a whole network."""
FlatTables = Annotated[Mapping[str, Array], Form(dict[str, Items[Unit]], _flatten, _keep)]
"""Tables of probabilities that stay flat when they are read."""
Integers = Annotated[Array, Form(Items[Integer], np.ndarray.tolist, lambda raw, _: np.array(raw, np.int64))]
"""A list of integers."""
Numbers = Annotated[Array, Form(Items[Finite], np.ndarray.tolist, lambda raw, _: np.array(raw, np.float64))]
"""A list of numbers."""
Matrix = Annotated[Array, Form(Items[Items[Finite]], np.ndarray.tolist, _read_matrix)]
"""Rows of equally many numbers."""


def _make_list_type(item: Any) -> Any:
    """Make the pydantic type of a list."""
    return Annotated[list[item], pydantic.Field(fail_fast=True)]


def _make_mapping_type(item: Any) -> Any:
    """Make the pydantic type of a mapping from names."""
    return dict[str, item]


def _find_form(hint: Any) -> Form:
    """Find the form of an annotated type's values in a document."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((note for note in inner if isinstance(note, Form)), Form(hint, _keep, _keep))
    if hint is Fraction:
        return Form(Budget, as_text, _read_budget)
    if isinstance(hint, type) and is_dataclass(hint):
        return Form(_KINDS[hint].part, encode, lambda raw, over: decode(raw, over))
    if sum(is_dataclass(item) for item in inner) > 1:
        return Form(union_of(inner), encode, lambda raw, over: decode(raw, over))
    if origin in (Union, types.UnionType):
        form = _find_form(next(item for item in inner if item is not type(None)))
        return Form(
            form.part | None,
            lambda value: None if value is None else form.write(value),
            lambda raw, over: None if raw is None else form.read(raw, over),
        )
    if origin is tuple:
        form = _find_form(inner[0])
        return Form(
            _make_list_type(form.part),
            lambda values: [form.write(value) for value in values],
            lambda raw, over: tuple(form.read(item, over) for item in raw),
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        form = _find_form(inner[1])
        exact = inner[1] is Fraction
        return Form(
            _make_mapping_type(form.part),
            lambda values: {name: form.write(value) for name, value in values.items()},
            lambda raw, _: dict(zip(raw, _read_budgets(raw.values()), strict=True)) if exact else raw,
        )
    return Form(hint, _keep, _keep)


# ------------------------------------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class Scoped:
    """Mappings over sets of variables, which documents hold as one list with an entry for each set.

    Args:
        name: of the list.
        entry: title of an entry in the JSON Schema.
        columns: for each field of the class, its name in an entry. A column of arrays is last, flat in the document.
        less: states of a variable that an array's axis has none for.
        partial: fields that do not have all sets of variables; an entry leaves out what it has none of.
    """

    name: str
    entry: str
    columns: Mapping[str, str]
    less: int = 0
    partial: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kind:
    """A class whose values stand in documents.

    Args:
        name: in documents; empty for a part without one.
        part: what pydantic takes for it.
        order: attributes as documents have them.
        forms: by attribute of the class, the name in the document and the form.
        over: the attribute that has what a payload is over; empty where there is none.
        scoped: its mappings over sets of variables; None for none.
    """

    name: str
    part: type[DocumentPart]
    order: tuple[str, ...]
    forms: Mapping[str, tuple[str, Form]]
    over: str
    scoped: Scoped | None


_KINDS: dict[type, _Kind] = {}
_CLASSES: dict[type[DocumentPart], type] = {}


def kind(
    name: str | None,
    *,
    order: tuple[str, ...] = (),
    renamed: Mapping[str, str] | None = None,
    scoped: Scoped | None = None,
    unnamed: bool = False,
) -> Callable[[T], T]:
    """Make a frozen dataclass a kind of calibration or payload, or a part of one.

    Args:
        name: of the kind in documents; None for a part that needs none.
        order: attributes as documents have them, where that is not the order of the fields. One that is no field is a
            property: a constant, or else the class has a `made(over, **attributes)` that makes it from all of them.
        renamed: names in the document of attributes that have others there.
        scoped: its mappings over sets of variables.
        unnamed: whether the first documents left out the name of the kind, as it was the only one.

    Returns:
        A decorator, to stand above `dataclass`.

    Raises:
        TypeError: an order that leaves out a field: it would be lost in every document.
    """

    def register(cls: T) -> T:
        hints = get_type_hints(cls, include_extras=True)
        over = next((item.name for item in fields(cls) if _is_over(hints[item.name])), "")
        names = order or tuple(item.name for item in fields(cls) if item.name != over)
        forms = {
            attribute: ((renamed or {}).get(attribute, attribute), _find_form(_find_hint(cls, hints, attribute)))
            for attribute in names
            if scoped is None or attribute != scoped.name
        }
        known = {over, *names, *(scoped.columns if scoped else ())}
        if not hasattr(cls, "made") and not {item.name for item in fields(cls)} <= known:
            raise TypeError(f"documents of {cls.__name__} would leave out a field: its order must name all of them")
        members: dict[str, Any] = {}
        if name is not None:
            members["kind"] = (Literal[name] | None, None) if unnamed else (Literal[name], ...)
        for attribute in names:
            if scoped is not None and attribute == scoped.name:
                members[attribute] = (_make_list_type(_make_entry(scoped, hints)), ...)
            else:
                key, form = forms[attribute]
                members[key] = (form.part, None if type(None) in get_args(form.part) else ...)
        model = pydantic.create_model(f"_{cls.__name__}", __base__=DocumentPart, __module__=cls.__module__, **members)
        _KINDS[cls], _CLASSES[model] = _Kind(name or "", model, names, forms, over, scoped), cls
        return cls

    return register


def _is_over(hint: Any) -> bool:
    """Return True for the type of what a release is over."""
    return isinstance(hint, type) and issubclass(hint, Over)


def _find_hint(cls: type, hints: Mapping[str, Any], attribute: str) -> Any:
    """Find the type of a field or property."""
    if attribute in hints:
        return hints[attribute]
    return get_type_hints(getattr(cls, attribute).fget, include_extras=True)["return"]


def _make_entry(scoped: Scoped, hints: Mapping[str, Any]) -> type[DocumentPart]:
    """Make the pydantic model of the entry of one set of variables."""
    members: dict[str, Any] = {"variables": (Items[str], ...)}
    for field, key in scoped.columns.items():
        item = _find_column_form(hints[field]).part
        members[key] = (item | None, None) if field in scoped.partial else (item, ...)
    model: type[DocumentPart] = pydantic.create_model(scoped.entry, __base__=DocumentPart, **members)
    return model


def _find_column_form(hint: Any) -> Form:
    """Find the form of one value of a mapping over sets of variables; arrays get their axes later."""
    value = get_args(hint)[1]
    return Form(Items[Integer], lambda array: array.ravel().tolist(), _keep) if value is Array else _find_form(value)


def is_kind(cls: type) -> bool:
    """True if a class stands under `kind`."""
    return cls in _KINDS


def union_of(classes: Iterable[type]) -> Any:
    """Make the pydantic union of some kinds, discriminated by their names.

    Args:
        classes: known to `kind`, each under a name.

    Returns:
        A type for a field of a model.
    """
    known = [_KINDS[cls] for cls in classes]
    if all(member.part.model_fields["kind"].is_required() for member in known):
        return Annotated[reduce(or_, (member.part for member in known)), pydantic.Field(discriminator="kind")]
    tagged = (Annotated[member.part, pydantic.Tag(member.name)] for member in known)
    return Annotated[reduce(or_, tagged), pydantic.Discriminator(_find_kind)]


def _find_kind(value: Any) -> Any:
    """Find the kind of a calibration; the first documents had one kind and did not name it."""
    name = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return name or "table_noise"


# ------------------------------------------------------------------------------------------------------ there and back


def encode(value: Any) -> dict[str, Any]:
    """Encode a calibration, a payload or a part of one as JSON values; None is left out.

    Args:
        value: of a class that `kind` knows.

    Returns:
        An object, its fields in the order of documents.
    """
    form_of = _KINDS[type(value)]
    named = form_of.part.model_fields.get("kind")
    document: dict[str, Any] = {"kind": form_of.name} if named is not None and named.is_required() else {}
    for attribute in form_of.order:
        if form_of.scoped is not None and attribute == form_of.scoped.name:
            document[attribute] = _write_entries(value, form_of.scoped)
        else:
            key, form = form_of.forms[attribute]
            document[key] = form.write(getattr(value, attribute))
    return {name: item for name, item in document.items() if item is not None}


def decode(part: DocumentPart, over: Over) -> Any:
    """Decode what `encode` wrote.

    Args:
        part: as pydantic has checked it.
        over: what the document is over.

    Returns:
        The calibration, the payload, or the part of one.

    Raises:
        InputError: what pydantic cannot see: tables that do not fit the network, or what the class refuses.
    """
    cls = _CLASSES[type(part)]
    known = _KINDS[cls]
    values = {name: form.read(getattr(part, key), over) for name, (key, form) in known.forms.items()}
    if known.scoped is not None:
        values |= _read_scoped(getattr(part, known.scoped.name), known.scoped, cls, over)
    if hasattr(cls, "made"):
        return cls.made(over, **values)
    arguments = {item.name: over if item.name == known.over else values[item.name] for item in fields(cls)}
    return cls(**arguments)


def _write_entries(value: Any, scoped: Scoped) -> list[dict[str, Any]]:
    """Write mappings over sets of variables as one list."""
    hints = get_type_hints(type(value), include_extras=True)
    columns = {key: (getattr(value, field), _find_column_form(hints[field])) for field, key in scoped.columns.items()}
    whole = next(field for field in scoped.columns if field not in scoped.partial)
    return [
        {
            "variables": list(scope),
            **{name: form.write(column[scope]) for name, (column, form) in columns.items() if scope in column},
        }
        for scope in getattr(value, whole)
    ]


def _read_scoped(entries: list[Any], scoped: Scoped, cls: type, over: Any) -> dict[str, dict[Scope, Any]]:
    """Read what `_write_entries` wrote."""
    hints = get_type_hints(cls, include_extras=True)
    scopes = [tuple(entry.variables) for entry in entries]
    if len(set(scopes)) < len(scopes):
        raise InputError(f"'{scoped.name}' names a set of variables twice")
    columns: dict[str, dict[Scope, Any]] = {}
    for field, key in scoped.columns.items():
        column, value = [getattr(entry, key) for entry in entries], get_args(hints[field])[1]
        if field in scoped.partial:
            columns[field] = {scope: item for scope, item in zip(scopes, column, strict=True) if item is not None}
            continue
        if value is Array:
            column = [_shape_array(over, scope, flat, scoped.less) for scope, flat in zip(scopes, column, strict=True)]
        elif value is Fraction:
            column = _read_budgets(column)
        columns[field] = dict(zip(scopes, column, strict=True))
    return columns


def _shape_array(network: Network, scope: Scope, flat: list[int], less: int) -> Array:
    """Reshape a flat table over a set of variables; refuse one that is too large for memory."""
    sizes = tuple(network.schema[name].size for name in scope)
    table_cells(sizes)
    shape = tuple(size - less for size in sizes)
    if math.prod(shape) != len(flat):
        raise InputError(f"the table over ({listed(scope)}) has {len(flat)} cells, not those of its variables")
    return np.array(flat, np.int64).reshape(shape)
