"""Machine code where numba is installed (the extra `fast`), plain Python where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

try:
    import numba
except ImportError:
    numba = None

__all__ = ["COMPILED", "compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILED = numba is not None and not numba.config.DISABLE_JIT
"""Whether `compiled` compiles: not without numba, nor where NUMBA_DISABLE_JIT asks for plain Python."""


def compiled(function: Function) -> Function:
    """The function in machine code, kept on disk from one process to the next; it lets other threads run."""
    if not COMPILED:
        return function
    try:
        found = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # there is no place on disk to keep it
        found = numba.njit(nogil=True, error_model="numpy")(function)
    return found  # type: ignore[no-any-return]
