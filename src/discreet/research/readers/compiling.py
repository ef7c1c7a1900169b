"""Compilation of functions by numba, if it is installed (the extra `fast`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from discreet.util.lazy_imports import lazy_import

numba, extending = lazy_import("numba"), lazy_import("numba.extending")

Function = TypeVar("Function", bound=Callable[..., Any])

COMPILED = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
"""True if `compiled` compiles: numba is installed, and NUMBA_DISABLE_JIT does not forbid it."""


def compiled(function: Function) -> Function:
    """Compile a function at its first call, and cache the machine code on disk.

    That call also imports numba, which takes a quarter of a second. Compiled functions release the GIL.
    """
    return cast(Function, _Machine(function)) if COMPILED else function


class _Machine:
    """Function that is compiled at its first call, by Python or by another compiled function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher for the function, made on first access."""
        typeof_impl = extending.typeof_impl
        # A compiled caller finds this object among its module's names, so numba needs its type.
        typeof_impl.register(_Machine, lambda machine, context: typeof_impl(machine.dispatcher, context))
        try:
            return numba.njit(cache=True, nogil=True, error_model="numpy")(self._function)
        except RuntimeError:  # no writable cache directory
            return numba.njit(nogil=True, error_model="numpy")(self._function)
