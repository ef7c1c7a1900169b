"""Attach methods that a class declares and a higher room implements, so that the class does not import that room.

`Network.read` belongs to a network, but a higher room reads files. The class declares the method, with its docstring
and types, and gets its implementation from `above`; `discreet/fluent.py`, at the top, lists the implementations, and
packs list theirs under the group of entry points "discreet.methods".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from discreet.errors import InputError
from discreet.util.lazy_imports import load_module
from discreet.util.pack_entries import of_packs

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

    Raises:
        InputError: a pack brings it that is not installed.

    Example:
        >>> above("Network.to_text").__name__
        'network_text'
    """
    home = _homes.get(method) or dict(of_packs("discreet.methods")).get(method)
    if home is None:
        pack = {"Project": "discovery", "Query": "questions", "Answers": "questions"}.get(
            method.partition(".")[0], "interchange"
        )
        raise InputError(f"{method} is in the pack discreet.{pack}, which is not installed; install it")
    module, _, name = home.partition(":")
    function: Callable[..., Any] = getattr(load_module(module), name)
    return function
