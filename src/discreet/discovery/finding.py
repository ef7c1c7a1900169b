"""Find the domain of a table in one call: read names and types, count values, and release."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa

from discreet.discovery.declared_columns import Columns, ColumnType, NoPrior
from discreet.discovery.mechanisms.found_domain import DEFAULT_BINS, found_domain
from discreet.discovery.records.column_values import ColumnValues, columns_of, read_values
from discreet.errors import require, shown
from discreet.mechanisms.crossing import release
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release import Release
from discreet.util.option_texts import FORM_WORDS


def domain(
    source: Any,
    guarantee: Guarantee,
    *,
    account: Account,
    types: Mapping[str, ColumnType] | None = None,
    leave_out: Iterable[str] = (),
    bins: int = DEFAULT_BINS,
    **reading: Any,
) -> Release:
    """Find states, bounds and bins of the columns of a private table, for a part of its budget.

    Args:
        source: as in `read_records`.
        guarantee: what is promised; charged in full. Columns of text need a delta.
        account: pays.
        types: of columns, such as `{"age": "integer"}`: "text", "integer", "number" or "boolean". Others have the type
            that the table declares, which is published; that of columns of text is found, for a fifth of their budget.
            A frame that was made from text declares types that may depend on a single record: give the file itself, or
            types.
        leave_out: names of columns that are not wanted, such as free text. The column of the unit is left out anyway.
        bins: wanted of a numeric column.
        reading: `table`, `missing`, `na_values`, `unit_column`, `max_records`, `weights`, `one_record_a_unit` and the
            form of a text file, as in `read_records`. With `missing="keep"` all columns get a state for missing values.

    Returns:
        The release. `release.payload.schema` is the found schema, `release.learned_network` a network without arcs over
        it, and `discovery.found_project(release)` a project file, both with the origin of the domain.

    Raises:
        BudgetError: the account cannot pay.
        InputError: as of `read_records`; text without a delta; more different values of a column than memory has room
            for. Nothing is charged.

    Guarantee:
        `guarantee`, by the proof of `discovery.found_domain`.

    Example:
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> table = pa.table({"sex": ["f", "m"] * 500, "age": [20, 30, 40, 50] * 250})
        >>> promise = dc.Guarantee(epsilon=8, delta="1e-9", relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("visits", promise)
        >>> found = dc.domain(table, promise, account=account, types={"sex": "text"})
        >>> found.payload.schema["sex"].states, account.balance().epsilon_left
        (('f', 'm', 'other'), Fraction(0, 1))
    """
    columns, values = values_of(source, types, leave_out, reading)
    mechanism = found_domain(bins, gaps=values.policy.missing == "keep")
    return release(mechanism, values, NoPrior(columns), guarantee, account=account)


def values_of(
    source: Any, types: Mapping[str, ColumnType] | None, leave_out: Iterable[str], reading: Mapping[str, Any]
) -> tuple[Columns, ColumnValues]:
    """Read the columns of a table, and their private values; arguments as of `domain`."""
    if hasattr(source, "read"):  # an open file is read once for names and types, and once for values
        source = BytesIO(source.read())
    elif isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    options = {"missing": "error", **reading}
    table, na_values = options.pop("table", None), options.pop("na_values", ())
    policy_words = ("missing", "unit_column", "max_records", "weights", "one_record_a_unit")
    words = {name: options.pop(name) for name in policy_words if name in options}
    unknown = {*options} - {*FORM_WORDS, "missing"}
    require(not unknown, f"a domain takes no option {shown(min(unknown, default=''))}")
    unit_column = words.get("unit_column")
    selection = None if unit_column is None else secrets.token_hex(4)
    policy = RecordsPolicy(out_of_bounds="clip", selection=selection, **words)
    left = {*leave_out, *([] if unit_column is None else [unit_column])}
    columns = columns_of(source, table=table, types=types, leave_out=left, **options)
    if isinstance(source, BytesIO):
        source.seek(0)
    return columns, read_values(source, columns, table=table, policy=policy, na_values=na_values, **options)
