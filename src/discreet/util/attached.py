"""Methods that a class declares and a room above it brings, so that the class imports nothing of that room.

`Network.read` belongs to a network, and files are read two floors above. The class declares the method, with its
docstring and types, and asks `above` for what does it; `discreet/fluent.py`, at the top, says where that stands.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

_homes: dict[str, str] = {}


def attach(homes: Mapping[str, str]) -> None:
    """Say where methods stand.

    Args:
        homes: for `Class.method` the dotted name of its module, a colon and the function, which takes the instance
            first; loaded when it is first called.
    """
    _homes.update(homes)


def above(method: str) -> Callable[..., Any]:
    """Find the function that a declared method calls.

    Args:
        method: `Class.method`.

    Example:
        >>> above("Network.to_text").__name__
        'network_text'
    """
    module, _, name = _homes[method].partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
