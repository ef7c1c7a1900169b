"""Executors: sums over a table of Spark, made where its parts are.

Each executor runs this package on the parts that it holds, and sends one result for each of them; nothing else of the
records leaves it.
"""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from discreet.records.sources import guarded_read
from discreet.util.arrays import Floats

Sums = tuple[Any, ...]
"""Numbers, arrays and lists that a function made of records: the first two are added, lists are joined."""


def add_parts(first: Sums, second: Sums) -> Sums:
    """Add what two blocks gave, entry by entry."""
    return tuple(map(operator.add, first, second))


def list_columns(block: pa.Table | pa.RecordBatch) -> list[Floats]:
    """List the columns of a block as float64, NaN where there is nothing."""
    return [np.asarray(column.to_numpy(zero_copy_only=False), np.float64) for column in block.columns]


def sum_on_executors(chosen: ir.Table, part: Callable[[list[Floats]], Sums]) -> Sums:
    """Sum what a function makes of blocks of columns, in one job whose executors need this package.

    Args:
        chosen: numbers and codes, of Spark.
        part: from columns of a block; it can be pickled.

    Returns:
        The sum.

    Raises:
        InputError: the engine failed, or its executors lack this package; the message has no value.
    """
    nothing = part([np.empty(0) for _ in chosen.columns])
    engine = chosen.get_backend()
    frame = engine.raw_sql(engine.compile(chosen)).mapInArrow(partial(_sum_partition, part, nothing), "part binary")
    parts = (pickle.loads(row.part) for row in guarded_read(frame.collect, chosen))  # noqa: S301 by executors of ours
    return reduce(add_parts, parts, nothing)


def _sum_partition(
    part: Callable[[list[Floats]], Sums], nothing: Sums, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Sum what a function makes of the blocks of a partition."""
    total = reduce(add_parts, (part(list_columns(batch)) for batch in batches), nothing)
    yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(total)]})
