"""Convert frames and columns of other libraries to Arrow, without quoting their values in errors.

All code of other libraries runs over records or evidence inside `read_guarded`, because an exception's text may quote a
value, and so may its chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.errors import InputError
from discreet.util.lazy_imports import lazy_import

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_import("pyarrow")

T = TypeVar("T")


def read_guarded(read: Callable[[], T], failure: str, advice: Callable[[str], str] = lambda _kind: "") -> T:
    """Run a function that reads values; suppress the text of its exceptions, which may quote a value.

    Args:
        read: function to run.
        failure: beginning of the error's message.
        advice: makes the end of the error's message from the name of the exception's type.

    Returns:
        What `read` returns.

    Raises:
        InputError: with the name of the exception's type only; errors of this package pass unchanged.

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
    # Raised outside the handler: inside, the exception would keep the other as its context.
    if interrupted:
        raise KeyboardInterrupt
    raise InputError(f"{failure} ({kind}){advice(kind)}")


def is_lazy(frame: Any) -> bool:
    """True if a frame is a query of Polars that has not run."""
    return type(frame).__module__.startswith("polars.") and hasattr(frame, "collect")


def arrow_table(frame: Any, wanted: Sequence[str] | None = None) -> pa.Table:
    """Convert an object with `__arrow_c_stream__` to a table; call it inside `read_guarded`.

    Args:
        frame: Arrow table, or pandas, Polars or other data frame; a query of Polars is run.
        wanted: columns that a query has to read, if it has them; None reads all.

    Returns:
        The same table in Arrow.

    Raises:
        InputError: a column of Polars with Python objects.
        Exception: of the other library.
    """
    if is_lazy(frame):
        names = frame.collect_schema().names()
        frame = frame.select([name for name in names if wanted is None or name in wanted]).collect()
    _refuse_objects(getattr(frame, "dtypes", ()))
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def arrow_column(column: Any) -> pa.ChunkedArray:
    """Convert an object with `__arrow_c_stream__` to a column; see `arrow_table`."""
    _refuse_objects((getattr(column, "dtype", None),))
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array(column)


def _refuse_objects(kinds: Any) -> None:
    """Refuse Python objects: Polars before 2 would abort the process and print them; pandas calls text `object`."""
    if "Object" in map(str, kinds):
        raise InputError("a column of the frame has Python objects; cast it to text or to numbers")
