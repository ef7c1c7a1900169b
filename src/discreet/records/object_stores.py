"""Object stores: Parquet files behind a URL of S3, Google Cloud or Azure, by Arrow's file systems.

DuckDB loads no extensions here, so Arrow lists and reads the files. Credentials are where Arrow looks for them (the
environment, a profile, the machine's role); no part of a URL is ever shown, as it may hold some.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.fs

from discreet.errors import InputError, shown
from discreet.records.record_files import BLOCK, Blocks, is_data, positions
from discreet.util.lazy_imports import import_late

if TYPE_CHECKING:
    import pyarrow.dataset
datasets = import_late("pyarrow.dataset")
"""It loads pandas where that is installed."""

STORES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "file")
"""What URLs of files begin with."""


def open_store(
    engine: Any, url: str, wanted: tuple[str, ...] | None
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """A Parquet file, or a folder of them, behind a URL.

    Args:
        engine: of `open_engine`.
        url: such as `s3://bucket/visits` or `abfss://container@account.dfs.core.windows.net/visits.parquet`.
        wanted: columns to read; None reads all.

    Returns:
        A table of the engine; and the blocks of some of its columns, by their names.

    Raises:
        InputError: no such file, files that differ in the type of a column or lack one, or a URL with a password.
        Exception: Arrow's own; it may quote a record.
    """
    host = url.partition("://")[2].partition("/")[0]
    if ":" in host.rpartition("@")[0]:
        raise InputError("leave keys and passwords out of the URL of an object store: Arrow looks for them elsewhere")
    system, path = pyarrow.fs.FileSystem.from_uri(url)
    files = _list_files(system, path)
    found = datasets.dataset(files, filesystem=system, format="parquet")
    names = [found.schema.names[at] for at in positions(found.schema.names, wanted)]
    # Arrow reads all files by the types of the first, and has NULL where one lacks a column.
    kinds = [(name, found.schema.field(name).type) for name in names]
    for fragment in found.get_fragments():
        own = fragment.physical_schema
        odd = [name for name, kind in kinds if own.names.count(name) != 1 or own.field(name).type != kind]
        if odd:
            raise InputError(f"the files differ in column {shown(odd[0])}: one lacks it, or has it in another type")
    engine.con.register("records", _Stream(found, names))
    text = [name for name, kind in kinds if kind in (pa.string(), pa.large_string())]
    coded = datasets.ParquetFileFormat(dictionary_columns=text)

    def blocks(chosen: Sequence[str]) -> Blocks:
        def read() -> Iterator[pa.RecordBatch]:
            again = datasets.dataset(files, filesystem=system, format=coded)
            return iter(again.scanner(columns=list(chosen), batch_size=BLOCK, use_threads=False).to_batches())

        return Blocks(pa.schema([field for field in kinds if field[0] in chosen]), read)

    return engine.table("records").select(*names), blocks


def is_dataset(source: Any) -> bool:
    """Whether something is a data set of Arrow: there is none before its module is loaded."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(source, module.Dataset)


def open_dataset(
    engine: Any, dataset: pyarrow.dataset.Dataset, wanted: tuple[str, ...] | None
) -> tuple[ir.Table, Callable[[Sequence[str]], Blocks]]:
    """A data set of Arrow that the caller has opened, of any format and place; the rest is as of `open_store`."""
    names = [dataset.schema.names[at] for at in positions(dataset.schema.names, wanted)]
    engine.con.register("records", _Stream(dataset, names))

    def blocks(chosen: Sequence[str]) -> Blocks:
        def read() -> Iterator[pa.RecordBatch]:
            return iter(dataset.scanner(columns=list(chosen), batch_size=BLOCK, use_threads=False).to_batches())

        return Blocks(pa.schema([dataset.schema.field(name) for name in chosen]), read)

    return engine.table("records").select(*names), blocks


@dataclass(frozen=True, eq=False)
class _Stream:
    """Columns of a data set that an engine reads as often as it likes, and Python for it.

    A data set that DuckDB 2.0 scans by itself ends the process, or is waited for without end, where Arrow fails at a
    damaged file.

    Args:
        dataset: whose records it has.
        names: of the columns.
    """

    dataset: pyarrow.dataset.Dataset
    names: Sequence[str]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A new stream of all records, of Arrow's PyCapsule interface."""
        schema = pa.schema([self.dataset.schema.field(name) for name in self.names])
        blocks = self.dataset.scanner(columns=list(self.names), batch_size=BLOCK, use_threads=False).to_batches()
        return pa.RecordBatchReader.from_batches(schema, blocks).__arrow_c_stream__(requested_schema)


def _list_files(system: pyarrow.fs.FileSystem, path: str) -> list[str]:
    """List the files of a path, in order."""
    info = system.get_file_info(path)
    if info.type == pyarrow.fs.FileType.File:
        return [path]
    if info.type == pyarrow.fs.FileType.NotFound:
        raise InputError("there is no such file or folder in the object store")
    listed = system.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
    found = sorted(one.path for one in listed if one.is_file and is_data(one.path.removeprefix(path).strip("/")))
    if not found or not all(name.endswith((".parquet", ".pq")) for name in found):
        raise InputError("a folder of an object store holds Parquet files (.parquet), and nothing else that is data")
    return found
