"""External figures from their published forms: a CSV or data frame of cells, and measurements of mbi.

Objects are read by their documented attributes; their libraries are not imported. Numbers and lists, such as those that
OpenDP returns, need no reader: `external_table` takes them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InputError, listed, require, shown, shown_path
from discreet.model.network import Network
from discreet.model.schema import Scope, table_cells
from discreet.noise.noise_laws import LAWS, DiscreteGaussian, Gaussian, Laplace, LawTag
from discreet.privacy.guarantee import Guarantee
from discreet.releases.external_figures import External, StatedNoise, external_table
from discreet.util.frames import arrow_table, read_guarded
from discreet.util.json_files import read_text
from discreet.util.limits import FREE_CELLS, NETWORK_BYTES, at_most, first_repeated

FIGURE_COLUMNS = ("count", "value")
"""Names that the column of figures may have."""
SCALE_COLUMN = "scale"


@dataclass(frozen=True)
class _Cells:
    """Cells of one table in the order of the list.

    Args:
        scope: variables, in the order of their columns.
        codes: flat position of each listed cell, all different.
        figures: of each.
        scales: of each; None where no column has them.
    """

    scope: Scope
    codes: Sequence[int]
    figures: Sequence[float]
    scales: Sequence[float] | None


def measured_cells(
    cells: Any, network: Network, noise: StatedNoise | LawTag, *, guarantee: Guarantee | str | None, source: str
) -> External:
    """Read external figures from a table with a row for each cell.

    Args:
        cells: path of a CSV with a header, or a data frame (pandas, Polars, Arrow). Columns: variables of the network,
            by the names of their states; one called `count` or `value` with the figures; perhaps one called `scale`.
            Cells that are not listed were not measured; without columns of variables the one row is the number of
            records.
        network: public.
        noise: its law and scale; or the law alone, where the column `scale` has the scale of each cell.
        guarantee: as in `external_table`.
        source: as in `external_table`.

    Returns:
        A document: the table where every cell is listed with one scale, else a set of sums for each scale.

    Raises:
        InputError: no such file, no column of figures, a column or state that the network does not have, a cell that is
            listed twice, what is no number, or as `external_table`.

    Guarantee:
        None given: the source's is quoted. None spent: reads no records.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> import pyarrow
        >>> frame = pyarrow.table({"sex": ["m", "f"], "count": [48.5, 51.2]})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> found = dc.external.measured_cells(frame, network, noise, guarantee=None, source="a survey")
        >>> found.measurements[0].values.tolist()
        [51.2, 48.5]
    """
    path = isinstance(cells, str | Path)
    columns = _read_csv(cells) if path else _read_frame(cells)
    try:
        listed_cells = _read_cells(columns, network)
        stated = _group_by_noise(noise, listed_cells.scales)
        documents = [_measure_rows(network, listed_cells, law, rows, guarantee, source) for law, rows in stated.items()]
    except InputError as error:
        raise InputError(f"cells {shown_path(cells)}: {error}" if path else str(error)) from None
    return reduce(_merge, documents)


def measured_mbi(
    measurements: Iterable[Any],
    network: Network,
    law: LawTag,
    *,
    guarantee: Guarantee | str | None,
    source: str,
) -> External:
    """Convert measurements of private-pgm to external figures.

    Args:
        measurements: `mbi.LinearMeasurement`, by their attributes `noisy_measurement`, `clique`, `stddev` and `query`:
            marginals, whole, weighted cell by cell, or without their first cells. A clique's attributes are variables
            of the network, and their values the positions of states.
        network: public.
        law: of the noise, of which the objects state the deviation alone.
        guarantee: as in `external_table`.
        source: as in `external_table`.

    Returns:
        A document with a measurement for each.

    Raises:
        InputError: none, an object without these attributes, another query, or as `external_table`.

    Guarantee:
        None given: the source's is quoted. None spent: reads no records.

    Example:
        >>> import discreet as dc
        >>> from types import SimpleNamespace
        >>> network = dc.Network((dc.Variable("sex", ("f", "m")),), {"sex": ()})
        >>> part = SimpleNamespace(noisy_measurement=[51.2, 48.5], clique=("sex",), stddev=2.0)
        >>> found = dc.external.measured_mbi([part], network, "gaussian", guarantee=None, source="mbi")
        >>> found.measurements[0].scope, found.measurements[0].scale
        (('sex',), 2.0)
    """
    require(law in (Gaussian.tag, Laplace.tag, DiscreteGaussian.tag), "the law of mbi's noise is gaussian or laplace")
    tables = []
    for marginal in measurements:
        attributes = ("noisy_measurement", "clique", "stddev")
        require(all(hasattr(marginal, name) for name in attributes), f"a measurement of mbi has {listed(attributes)}")
        scope, figures = tuple(map(str, marginal.clique)), np.asarray(marginal.noisy_measurement).ravel()
        unknown = next((name for name in scope if name not in network.schema), None)
        require(unknown is None, f"the network has no variable {shown(unknown)}")
        sizes = tuple(network.schema[name].size for name in scope)
        noise = StatedNoise(law, float(marginal.stddev) / math.sqrt(LAWS[law].unit))
        rows = _read_query_rows(getattr(marginal, "query", None), table_cells(sizes))
        if rows is None:
            require(figures.size == math.prod(sizes), f"the marginal of ({listed(scope)}) has another number of cells")
            figures = figures.reshape(sizes)
        tables.append(external_table(figures, network, scope, noise, guarantee=guarantee, source=source, weights=rows))
    require(bool(tables), "there is no measurement")
    return reduce(_merge, tables)


def _merge(first: External, second: External) -> External:
    """Merge two documents of one source."""
    return replace(first, measurements=(*first.measurements, *second.measurements))


def _read_query_rows(query: Any, cells: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Find the query matrix of an mbi measurement, shape (numbers, cells); None for the identity."""
    named = {type(query).__name__, getattr(query, "__name__", "")}
    if query is None or named & {"DatavectorQuery", "datavector"}:
        return None
    at_most(FREE_CELLS, cells * cells, "weights of one set of sums")
    if hasattr(query, "weights"):
        weights = np.asarray(query.weights, np.float64).ravel()
        require(weights.size == cells, "the weights of a query of mbi are one for each cell")
        return np.diag(weights)
    if isinstance(getattr(query, "start", None), int):
        return np.eye(cells)[query.start :]
    raise InputError("of mbi's queries those are read that have the cells, weighted cells, or all cells but the first")


# ---------------------------------------------------------------------------------------------------------- the cells


def _read_csv(path: str | Path) -> dict[str, list[Any]]:
    """Read the columns of a CSV file by name."""
    text = read_text(path, "cells", NETWORK_BYTES)
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise InputError(f"cells {shown_path(path)}: no CSV ({error})") from None
    require(bool(rows), f"cells {shown_path(path)}: a header and a row for each cell were expected")
    header, *body = [[cell.strip() for cell in row] for row in rows]
    short = next((number for number, row in enumerate(body, 2) if len(row) != len(header)), None)
    require(short is None, f"cells {shown_path(path)}: row {short} has another number of columns than the header")
    require(
        first_repeated(header) is None,
        f"cells {shown_path(path)}: the column {shown(first_repeated(header))} is there twice",
    )
    return {name: [row[column] for row in body] for column, name in enumerate(header)}


def _read_frame(frame: Any) -> dict[str, list[Any]]:
    """Read the columns of a data frame by name."""
    require(hasattr(frame, "__arrow_c_stream__"), "cells are the path of a CSV file or a data frame")
    table = read_guarded(lambda: arrow_table(frame), "the data frame cannot be read")
    at_most(FREE_CELLS, table.num_rows * table.num_columns, "entries of the cells")
    require(
        first_repeated(table.column_names) is None,
        f"the column {shown(first_repeated(table.column_names))} is there twice",
    )
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _read_cells(columns: Mapping[str, Sequence[Any]], network: Network) -> _Cells:
    """Read the cells that columns list."""
    scope = tuple(name for name in columns if name in network.schema)
    others = [name for name in columns if name not in network.schema]
    named = [name for name in others if name in FIGURE_COLUMNS]
    require(
        len(named) == 1, f"one column {' or '.join(FIGURE_COLUMNS)} with the figures was expected, beside variables"
    )
    unknown = next((name for name in others if name not in (*FIGURE_COLUMNS, SCALE_COLUMN)), None)
    require(unknown is None, f"the network has no variable {shown(unknown)}")
    figures = _read_floats(columns[named[0]], named[0])
    require(bool(figures), "no cell is listed")
    sizes = [network.schema[name].size for name in scope]
    table_cells(sizes)
    codes = np.zeros(len(figures), np.int64)
    for name, size in zip(scope, sizes, strict=True):
        states = {state: code for code, state in enumerate(network.schema[name].states)}
        codes_of = [states.get(str(value), -1) for value in columns[name]]
        if -1 in codes_of:
            state = str(columns[name][codes_of.index(-1)])
            raise InputError(f"{shown(name)} has no state {shown(state)}; it has: {listed(states)}")
        codes = codes * size + np.array(codes_of)
    twice = len(np.unique(codes)) < len(codes)
    require(not twice, "a cell is listed twice: name each combination of states once")
    return _Cells(
        scope,
        codes.tolist(),
        figures,
        _read_floats(columns[SCALE_COLUMN], SCALE_COLUMN) if SCALE_COLUMN in others else None,
    )


def _read_floats(column: Sequence[Any], name: str) -> list[float]:
    """Read finite numbers of a column."""
    try:
        numbers = [float(value) for value in column]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"the column {shown(name)} has an entry that is no number") from None
    require(all(map(math.isfinite, numbers)), f"the column {shown(name)} has an entry that is not finite")
    return numbers


def _group_by_noise(noise: StatedNoise | LawTag, scales: Sequence[float] | None) -> dict[StatedNoise, list[int]]:
    """Group rows by the law and scale of their noise."""
    if isinstance(noise, StatedNoise):
        require(scales is None, "the scale is given twice: leave out the column 'scale', or name the law alone")
        return {noise: []}
    require(scales is not None, "the noise needs its scale: give it, or a column 'scale' with that of each cell")
    rows_by_noise: dict[StatedNoise, list[int]] = {}
    for row, scale in enumerate(scales or ()):
        rows_by_noise.setdefault(StatedNoise(noise, scale), []).append(row)
    return rows_by_noise


def _measure_rows(
    network: Network,
    cells: _Cells,
    noise: StatedNoise,
    rows: Sequence[int],
    guarantee: Guarantee | str | None,
    source: str,
) -> External:
    """Make figures of the rows of one noise (all, if none are named): a table if they are all its cells."""
    picked = list(rows) or list(range(len(cells.codes)))
    sizes = tuple(network.schema[name].size for name in cells.scope)
    figures, codes = np.array(cells.figures)[picked], np.array(cells.codes)[picked]
    if codes.size == math.prod(sizes):
        table = figures[np.argsort(codes)].reshape(sizes)
        return external_table(table, network, cells.scope, noise, guarantee=guarantee, source=source)
    at_most(FREE_CELLS, codes.size * math.prod(sizes), "weights of one set of sums")
    weights = np.zeros((codes.size, math.prod(sizes)))
    weights[np.arange(codes.size), codes] = 1
    return external_table(figures, network, cells.scope, noise, guarantee=guarantee, source=source, weights=weights)
