"""Engines: DuckDB for reading records; its spill files are in a folder that only the process owner may open.

DuckDB writes what does not fit into its memory to files of its own. This file owns where they are, who may read them
and when they go. Nothing else of the package makes an engine that reads records.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from discreet.errors import InputError
from discreet.records.dialects import number

if sys.platform != "win32":
    import fcntl

FOLDER_VARIABLE = "DISCREET_TMPDIR"
"""Environment variable that names the parent of private folders; default: the system's temporary folder."""
MEMORY_SHARE = 0.5
"""Share of the memory of the machine or container for each engine: Python and Arrow need the rest."""
DEFAULT_SHARE = 0.8
"""Share of the memory that DuckDB takes by default."""
FOLDER_PREFIX = "discreet-private-"
"""Beginning of the names of private folders."""
LOCK_FILE = "lock"
"""Name of the file in a private folder that its process keeps locked as long as it lives."""

EXTENSION_SETTINGS = ("autoinstall_known_extensions", "autoload_known_extensions")
"""Settings that load extensions, which are programs from the network: all are off, as no reader needs one."""

_folders: dict[int, tuple[Path, int]] = {}
"""Private folder and open lock file by process: a forked child must make its own."""


def open_engine(database: Path | None = None) -> Any:
    """Open an Ibis backend on DuckDB that spills into a private folder.

    The folder has mode 0700. What an engine wrote is removed with it, the folder when the process ends; what killed
    processes left is removed when the next one opens its first engine in the same place.

    Args:
        database: a DuckDB file, opened for reading only; None makes an empty database in memory.

    Returns:
        The backend.

    Raises:
        InputError: no private folder can be made.
        Exception: DuckDB's own, where it cannot open the file, or has it open and has spilled elsewhere already.

    Guarantee:
        None spent: nothing leaves the process but into the private folder.
    """
    home = _find_private_folder()
    if database is None:
        folder = Path(tempfile.mkdtemp(dir=home))
        engine = ibis.duckdb.connect()
        # Connections of this process to one database file share its instance and folder, so that folder stays.
        weakref.finalize(engine, _remove, folder, os.getpid())
    else:
        folder = home / sha256(os.fsencode(database.resolve())).hexdigest()[:16]
        folder.mkdir(mode=0o700, exist_ok=True)
        engine = ibis.duckdb.connect(database, read_only=True)
    _set_up(engine.con, folder)
    return engine


def query_batches(engine: Any, query: str, size: int) -> pa.RecordBatchReader:
    """Yield the batches of a DuckDB query as they come; Ibis 12 calls a method that DuckDB 2 no longer has.

    Args:
        engine: of `open_engine`.
        query: in its SQL.
        size: most records of a batch.

    Returns:
        The batches; the engine can do nothing else until they are read.
    """
    relation = engine.con.sql(query)
    return (getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch)(size)


def text_numbers(engine: Any, texts: pa.Array) -> Any:
    """Convert texts to numbers by the rule of all engines, while a query of the same engine may still run.

    Args:
        engine: of `open_engine`.
        texts: any.

    Returns:
        float64 array; NaN where there is no number.
    """
    cursor = engine.con.cursor()
    cursor.register("texts", pa.Table.from_arrays([texts], ["value"]))
    # DuckDB keeps the insertion order by default.
    values = cursor.execute(_write_number_query()).fetchnumpy()["number"]
    return np.ma.filled(np.ma.asarray(values, float), np.nan)


@cache
def _write_number_query() -> str:
    """Write SQL for the numbers that texts spell."""
    texts = ibis.table({"value": "string"}, name="texts")
    return str(ibis.to_sql(texts.select(number=number(texts.value)), dialect="duckdb"))


def _set_up(connection: Any, folder: Path) -> None:
    """Set folder, memory and extensions, unless an earlier engine on the same file did."""
    select = "SELECT current_setting('temp_directory'), current_setting('memory_limit')"
    ((current, memory),) = connection.execute(select).fetchall()
    if current == str(folder):
        return
    amount, unit = memory.split()
    settings = {
        "temp_directory": str(folder),
        "memory_limit": f"{float(amount) * MEMORY_SHARE / DEFAULT_SHARE:.1f} {unit}",
        **dict.fromkeys(EXTENSION_SETTINGS, "false"),
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = ?", [value])


def _find_private_folder() -> Path:
    """Find the private folder of this process; the first call makes it and removes those of dead processes."""
    current = _folders.get(os.getpid())
    if current is not None and current[0].is_dir():
        return current[0]
    parent = Path(os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()).absolute()
    try:
        for leftover in parent.glob(f"{FOLDER_PREFIX}*"):
            _remove_if_left(leftover)
        folder, lock = _make_locked(parent)
    except OSError as error:
        reason = error.strerror
    else:
        _folders[os.getpid()] = (folder, lock)
        atexit.register(_remove, folder, os.getpid())
        return folder
    raise InputError(f"cannot make a private folder in {str(parent)!r} ({reason}); name another in {FOLDER_VARIABLE}")


def _make_locked(parent: Path) -> tuple[Path, int]:
    """Make a folder of mode 0700, and an open file whose lock marks it as in use."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        try:
            lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            if sys.platform == "win32" or (_take_lock(lock) and (folder / LOCK_FILE).exists()):
                return folder, lock
            os.close(lock)
        except FileNotFoundError:
            pass  # another process removed the folder before it was locked


def _remove_if_left(folder: Path) -> None:
    """Remove a private folder whose process is gone; others' folders and those in use stay."""
    if sys.platform == "win32":
        return  # Windows has no such locks
    with suppress(OSError):
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            if _take_lock(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _take_lock(lock: int) -> bool:
    """Lock an open file, unless another process has; the system unlocks it when the process ends."""
    if sys.platform != "win32":
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder of this process; a forked child leaves its parent's alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
