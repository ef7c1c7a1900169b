"""Small private tables for tests, the slow and obvious count of them, and what an exception says to whoever looks."""

from __future__ import annotations

import bisect
import traceback
import zipfile
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


def workbook(path: Path, rows: list[list[object]], sheets: tuple[str, ...] = ("data",)) -> Path:
    """A workbook as Excel packs it, all sheets alike."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packed = "http://schemas.openxmlformats.org/package/2006"

    def cell(value: object, at: str) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return f'<c r="{at}" t="b"><v>{int(value)}</v></c>'
        if isinstance(value, int | float):
            return f'<c r="{at}"><v>{value}</v></c>'
        return f'<c r="{at}" t="inlineStr"><is><t>{value}</t></is></c>'

    listed = [
        f'<row r="{r}">{"".join(cell(value, f"{chr(64 + c)}{r}") for c, value in enumerate(row, 1))}</row>'
        for r, row in enumerate(rows, 1)
    ]
    names = [f'<sheet name="{name}" sheetId="{at}" r:id="rId{at}"/>' for at, name in enumerate(sheets, 1)]
    links = [
        f'<Relationship Id="rId{at}" Type="{office}/worksheet" Target="worksheets/sheet{at}.xml"/>'
        for at in range(1, len(sheets) + 1)
    ]
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{packed}/content-types"/>')
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{packed}/relationships"><Relationship Id="rId1" Type="{office}/officeDocument" '
            'Target="xl/workbook.xml"/></Relationships>',
        )
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{"".join(names)}</sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{packed}/relationships">{"".join(links)}</Relationships>',
        )
        for at in range(1, len(sheets) + 1):
            file.writestr(
                f"xl/worksheets/sheet{at}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{"".join(listed)}</sheetData></worksheet>',
            )
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
