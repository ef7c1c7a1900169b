"""Small private tables for tests, the slow and obvious count of them, and what an exception says to whoever looks."""

from __future__ import annotations

import bisect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc

CANARY = "CANARY-7f3a"
"""A value that no schema, message or file may ever show."""
PEER_WARNINGS = pytest.mark.filterwarnings(
    "ignore:fetch_arrow_table:DeprecationWarning", "ignore:The 'future.infer_string' option"
)
"""Ibis 12 on DuckDB 2 and pandas 3: warnings that are not ours to mend."""
AB = dc.Variable("x", ("a", "b"))
N01 = dc.Variable("x", ("0", "1"))
LOGICAL = dc.Variable("x", ("true", "false"))
AGE = dc.Variable("x", bounds=(0, 120), bins=(18, 65))


def alone(variable: dc.Variable) -> dc.Network:
    """The network of one variable."""
    return dc.Network((variable,), {variable.name: ()})


def column(values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """A table of one column, `x`."""
    return pa.table({"x": pa.array(values, kind)})


def counted(source: Any, variable: dc.Variable, **options: Any) -> list[int]:
    """Records of each state of one variable, through the package."""
    network = alone(variable)
    return dc.count(dc.read_records(source, network.schema, **options), network).tables[variable.name].tolist()


def faults(source: Any, variable: dc.Variable, **options: Any) -> tuple[int, int, int]:
    """(missing, unknown, out of bounds) of one variable, through the package."""
    (found,) = dc.check(dc.read_records(source, dc.Schema((variable,)), **options))
    return found.missing, found.unknown, found.out_of_bounds


def csv_file(folder: Path, text: str | bytes, name: str = "records.csv") -> Path:
    """A CSV file as it stands, byte by byte."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def slow_counts(table: pa.Table, network: dc.Network) -> dict[str, np.ndarray]:
    """Family counts, one record after another; every value must be valid."""
    counts = {node: np.zeros(network.shape(node), np.int64) for node in network.nodes}
    for row in table.select(list(network.nodes)).to_pylist():
        code = {variable.name: _code(row[variable.name], variable) for variable in network.schema}
        for node in network.nodes:
            counts[node][tuple(code[name] for name in network.family(node))] += 1
    return counts


def slow_joint(table: pa.Table, network: dc.Network, scope: Sequence[str]) -> np.ndarray:
    """Counts over some variables, one record at a time."""
    counts = np.zeros([network.schema[name].size for name in scope], np.int64)
    for row in table.select(list(network.nodes)).to_pylist():
        counts[tuple(_code(row[name], network.schema[name]) for name in scope)] += 1
    return counts


def _code(value: Any, variable: dc.Variable) -> int:
    if variable.bounds is None:
        return variable.states.index(value)
    return bisect.bisect_right(variable.bins, value)


def same_counts(found: dc.results.Counts, wanted: dict[str, np.ndarray]) -> bool:
    """Whether counts are exactly these."""
    return all(np.array_equal(found.tables[node], wanted[node]) for node in found.network.nodes)


def said(error: BaseException) -> str:
    """All text of an exception: its traceback, and every exception behind it, suppressed or not."""
    texts, todo, seen = ["".join(traceback.format_exception(error))], [error], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        texts += [repr(one), str(one), *map(repr, one.args), *getattr(one, "__notes__", ())]
        todo += [other for other in (one.__context__, one.__cause__) if other is not None]
    return "\n".join(texts)


def refusal(action: Callable[[], object], *names: str) -> str:
    """The message of an `InputError` that names columns, and nowhere in its chain shows the canary."""
    with pytest.raises(dc.InputError) as caught:
        action()
    message = str(caught.value)
    assert CANARY not in said(caught.value)
    for name in names:
        assert repr(name) in message
    return message
