"""What is loaded when it is first asked for: it takes long, and few commands need it."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from discreet.errors import InputError


def lazy_import(name: str) -> Any:
    """Stand for a module at the top of a file; its first attribute that is asked for loads it.

    Args:
        name: of the module, dotted.

    Example:
        >>> lazy_import("math").sqrt(4)
        2.0
    """
    return _LazyModule(name)


class _LazyModule:
    """Stands for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def lazy_exports(
    module: str,
    file: str,
    extras: Mapping[str, str] = MappingProxyType({}),
    moved: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make a module of names that live elsewhere in the package, each loaded when it is first asked for.

    The names are written once, in the stub beside the module: `from .model.schema import Schema as Schema`. Type
    checkers read it, and so does this.

    Args:
        module: its `__name__`.
        file: its `__file__`; the stub has the same name and ends in `.pyi`.
        extras: folders or files whose names need another package, with the package's name: where it is not installed
            they are not listed, so that `help` and `import *` work, and say what to install when they are asked for.
        moved: names that stood here once, each with what it is now (`research.fourier`); they are not listed, and warn.

    Returns:
        Its `__getattr__`, `__dir__` (PEP 562) and `__all__`. Modules that the stub takes from the package itself
        (`from . import tools as tools`) are no names of `__all__`.

    Example:
        >>> import discreet
        >>> load, _, names = lazy_exports("discreet", discreet.__file__)
        >>> load("Schema").__name__, "Schema" in names, "tools" in names
        ('Schema', True, False)
    """
    package = module.partition(".")[0]
    inside = module if Path(file).stem == "__init__" else package
    homes: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is None:
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            homes |= {alias.name: f"{inside.rsplit('.', node.level - 1)[0]}.{node.module}" for alias in node.names}

    def load(name: str) -> Any:
        if name in modules:
            if find_spec(f"{inside}.{name}") is None:
                raise InputError(f"{inside}.{name} is not installed here, and this needs it")
            return importlib.import_module(f"{inside}.{name}")
        if name in moved:
            home, _, new = f"{inside}.{moved[name]}".rpartition(".")
            warnings.warn(f"{module}.{name} is {home}.{new} now", DeprecationWarning, stacklevel=3)
            return getattr(importlib.import_module(home), new)
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        vars(sys.modules[module])[name] = value
        return value

    missing = tuple(f"{inside}.{folder}." for folder, needed in extras.items() if find_spec(needed) is None)
    names = sorted(name for name, home in homes.items() if not f"{home}.".startswith(missing))
    rooms = [name for name in modules if not f"{inside}.{name}.".startswith(missing)]
    return load, lambda: sorted({*names, *rooms}), names
