"""Public records, counted exactly to complement a private release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.records.counts import count
from discreet.records.records import read_records
from discreet.util.option_texts import MissingValues, OutOfBounds


def public_counts(
    data: Any,
    network: Network,
    *,
    table: str | None = None,
    missing: MissingValues = "error",
    out_of_bounds: OutOfBounds = "error",
    na_values: Iterable[str] = (),
) -> Tables:
    """Count public records exactly, to complement a private release; never use it on records to protect.

    Args:
        data: what `read_records` takes: a path, glob, database URL, Arrow, pandas, Polars or Ibis table.
        network: whose families are counted.
        table: where the data is a database URL.
        missing: "error", "drop" records with a missing value, or "keep" them, as in `read_records`.
        out_of_bounds: "error", or "clip" numbers.
        na_values: texts that say that a value is missing.

    Returns:
        Counts, int64, axes `(*parents, child)`, for `combine`.

    Raises:
        InputError: records that do not fit the schema.

    Guarantee:
        None: the counts are exact and travel in the combined file as they are. Use it for records that anybody may see.

    Source:
        Williams and McSherry (2010), Figure 3b.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> import pyarrow as pa
        >>> table = pa.table({"rain": ["no", "yes", "no"], "wet": ["no", "yes", "yes"]})
        >>> dc.external.public_counts(table, network)["rain"].tolist()
        [2, 1]
    """
    records = read_records(
        data, network.schema, table=table, missing=missing, out_of_bounds=out_of_bounds, na_values=na_values
    )
    counted = count(records, network)
    return Tables(network, dict(counted.tables))
