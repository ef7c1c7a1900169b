"""Frames and columns of other libraries as Arrow, without a word about their values.

Whatever runs another library's code over records or evidence goes through `read_guarded`, because an exception's text
may quote a value, and so may its chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from discreet.errors import InputError

T = TypeVar("T")


def read_guarded(read: Callable[[], T], failure: str, advice: Callable[[str], str] = lambda _kind: "") -> T:
    """Run something that reads values; no text of an exception gets out, because it may quote one.

    Args:
        read: what to run.
        failure: what could not be done, for the error.
        advice: the end of the error's message, from the failure's kind (the name of the exception's type).

    Returns:
        What `read` returns.

    Raises:
        InputError: with the kind of the failure only; our own errors pass as they are.

    Example:
        >>> read_guarded(lambda: int("secret"), "the number cannot be read")
        Traceback (most recent call last):
        ...
        discreet.errors.InputError: the number cannot be read (ValueError)
    """
    kind, interrupted = "", False
    try:
        return read()
    except InputError:
        raise
    except Exception as error:
        kind = type(error).__name__
        # DuckDB turns Ctrl-C into an exception of its own.
        interrupted = kind == "InterruptException" or str(error).startswith("Query interrupted")
    # Raised outside the handler: an exception raised inside would carry the other's as its context.
    if interrupted:
        raise KeyboardInterrupt
    raise InputError(f"{failure} ({kind}){advice(kind)}")


def arrow_table(frame: Any) -> pa.Table:
    """A table of whatever has `__arrow_c_stream__`; run it in `read_guarded`.

    Args:
        frame: Arrow table, or pandas, Polars or other data frame.

    Returns:
        The same table in Arrow.

    Raises:
        InputError: a column of Polars that holds objects of Python.
        Exception: of the other library.
    """
    _refuse_objects(getattr(frame, "dtypes", ()))
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def arrow_column(column: Any) -> pa.ChunkedArray:
    """A column of whatever has `__arrow_c_stream__`, as `arrow_table`."""
    _refuse_objects((getattr(column, "dtype", None),))
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array(column)


def _refuse_objects(kinds: Any) -> None:
    """Polars before 2 would abort the process at them, and print the values; pandas calls its text `object`."""
    if "Object" in map(str, kinds):
        raise InputError("a column of the frame holds objects of Python; cast it to text or to numbers")
