"""Draft of a project file with names and types alone: no value of a record is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.discovery.declared_columns import ID_NAME
from discreet.util.lazy_imports import lazy_import

tomlkit = lazy_import("tomlkit")
column_values = lazy_import("discreet.discovery.records.column_values")


def draft_names(
    source: Any,
    table: str | None,
    form: Mapping[str, Any],
    unit: Mapping[str, str | None],
    account: str | None,
    data: str,
) -> str:
    """Draft a project file with the names and types of a table's columns.

    Args:
        source, table: as of `read_records`.
        form: of a text file.
        unit: its name, and the column that identifies it or None.
        account: that pays; None leaves it to commands.
        data: address of the records, for the file.

    Returns:
        TOML: `discreet domain` takes it; for other commands its variables need states or bounds.
    """
    column = unit["column"]
    columns = column_values.columns_of(source, table=table, leave_out=() if column is None else (column,), **form)
    words = {"data": data, **({} if table is None else {"table": table}), **form}
    protected = {name: word for name, word in unit.items() if word is not None}
    likely = [name for name in columns.names if ID_NAME.search(name)] if column is None else []
    remark = "if it tells units apart; then take its [[variables]] out"
    hint = [f"# column = {name!r} {remark}" for name in likely[:3]]
    lines = [
        "# Names and types alone: no value of a record is in this file. `discreet domain` takes it, and finds states,",
        "# bounds and bins with noise. A variable with states or bounds is not searched: declare what is public.",
        "",
        "[source]",
        tomlkit.dumps({name: word for name, word in words.items() if name != "data" or word != "-"}).strip(),
        "",
        "[unit]",
        *hint,
        tomlkit.dumps(protected).strip(),
        "",
        "[account]",
        *([] if account is None else [tomlkit.dumps({"name": account}).strip()]),
        "",
        "# type: text, integer, number, boolean; unknown has it found, for a fifth of the column's budget.",
    ]
    for part in columns:
        lines += ["[[variables]]", tomlkit.dumps({"name": part.name, "type": part.type}).strip(), ""]
    return "\n".join(lines)


METHODS = (("Project.of_names", "discreet.discovery.named_project:draft_names"),)
"""Function that the kernel's `init` asks for."""
