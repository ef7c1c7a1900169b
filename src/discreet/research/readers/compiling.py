"""Machine code where numba is installed (the extra `fast`), plain Python where it is not."""

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
"""Whether `compiled` compiles: not without numba, nor where NUMBA_DISABLE_JIT asks for plain Python."""


def compiled(function: Function) -> Function:
    """The function in machine code from its first call on, kept on disk from one process to the next.

    numba, which takes a quarter of a second to load, is loaded at that call. Other threads run meanwhile.
    """
    return cast(Function, _Machine(function)) if COMPILED else function


class _Machine:
    """A function that is compiled when it is first called, by Python or by another such function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """The dispatcher of numba for the function, made when it is first asked for."""
        typeof_impl = extending.typeof_impl
        # A function that calls this one finds it among its module's names, and numba has to know what it is.
        typeof_impl.register(_Machine, lambda machine, context: typeof_impl(machine.dispatcher, context))
        try:
            return numba.njit(cache=True, nogil=True, error_model="numpy")(self._function)
        except RuntimeError:  # there is no place on disk to keep it
            return numba.njit(nogil=True, error_model="numpy")(self._function)
