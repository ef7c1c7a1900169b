"""Attach methods that a class declares and a higher room implements, so that the class does not import that room.

`Network.read` belongs to a network, but a higher room reads files. The class declares the method, with its docstring
and types, and gets its implementation from `above`; `discreet/fluent.py`, at the top, lists the implementations.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_homes: dict[str, str] = {}


def attach(homes: Mapping[str, str]) -> None:
    """Register implementations of methods.

    Args:
        homes: for `Class.method` the dotted name of the module, a colon and the function, which takes the instance
            first; it is imported at the first call.
    """
    _homes.update(homes)


def above(method: str) -> Callable[..., Any]:
    """Find the implementation of a declared method.

    Args:
        method: `Class.method`.

    Example:
        >>> above("Network.to_text").__name__
        'network_text'
    """
    module, _, name = _homes[method].partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
