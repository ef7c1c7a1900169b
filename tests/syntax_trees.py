"""Syntax trees of source files, each parsed once for all tests of a process that look at them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

__all__ = ["tree_of"]


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a source file; whoever asks for its tree must not change it."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
