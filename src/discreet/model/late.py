"""Modules that are loaded when something of them is first asked for: they take long, and few commands need them."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["late"]


def late(name: str) -> Any:
    """A module in name, for the top of a file; its first attribute that is asked for loads it.

    Example:
        >>> late("math").sqrt(4)
        2.0
    """
    return _Late(name)


class _Late:
    """Stands for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
