"""Load modules at their first use: they take long, and few commands need them."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from discreet.errors import InputError

EXTRA = re.compile(r"""([\w.-]+).*;.*extra == ["'](\w+)""")
"""Requirement of an extra, as an installed package lists it."""
CONTRIBUTORS = ("dev", "docs", "hooks", "bench", "peers")
"""Extras that no user needs."""


def load_module(name: str) -> Any:
    """Import a module.

    Args:
        name: dotted name.

    Raises:
        InputError: it needs a package that is not installed; the text says which, and which extra brings it.

    Example:
        >>> load_module("no_such_package.part")
        Traceback (most recent call last):
        ...
        discreet.errors.InputError: this needs no_such_package, which is not installed: pip install no_such_package
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).partition(".")[0]
        if missing in (__name__.partition(".")[0], ""):
            raise
    raise InputError(describe_missing(missing))


def describe_missing(package: str) -> str:
    """Tell how to install a package that is missing, by the requirements of this one.

    Args:
        package: name by which it is imported.
    """
    name = package.replace("_", "-")
    matches = (EXTRA.match(line) for line in requires("discreet") or ())
    extras = [each[2] for each in matches if each and each[1].startswith(name) and each[2] not in CONTRIBUTORS]
    wanted = f"'.[{extras[0]}]' in a clone of discreet" if extras else package
    return f"this needs {package}, which is not installed: pip install {wanted}"


def lazy_import(name: str) -> Any:
    """Return a stand-in for a module; its first attribute access imports it.

    Args:
        name: dotted name of the module.

    Example:
        >>> lazy_import("math").sqrt(4)
        2.0
    """
    return _LazyModule(name)


class _LazyModule:
    """Stand-in for a module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load_module(self._name), attribute)


def lazy_exports(
    module: str,
    file: str,
    extras: Mapping[str, str] = MappingProxyType({}),
    moved: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make the names of a module that other modules define, each imported at its first use.

    The names are written once, in the stub beside the module: `from .model.schema import Schema as Schema`. Type
    checkers read it, and so does this.

    Args:
        module: its `__name__`.
        file: its `__file__`; the stub has the same name and ends in `.pyi`.
        extras: folders or files that need another package, with its name. Without the package their names are not
            listed, so that `help` and `import *` work; using one then raises an error with the package to install.
        moved: former names, with the present ones (`research.fourier`); they are not listed, and warn.

    Returns:
        Its `__getattr__`, `__dir__` (PEP 562) and `__all__`. Modules that the stub imports from the package itself
        (`from . import tools as tools`) are not in `__all__`.

    Example:
        >>> import discreet
        >>> load, _, names = lazy_exports("discreet", discreet.__file__)
        >>> load("Schema").__name__, "Schema" in names, "tools" in names
        ('Schema', True, False)
    """
    package = module.partition(".")[0]
    inside = module if Path(file).stem == "__init__" else package
    root = Path(file).parents[inside.count(".")]
    homes, modules = _read_stub(Path(file).with_suffix(".pyi"), inside)

    def is_there(home: str) -> bool:
        """Return True if the folder of a module is installed."""
        return root.joinpath(*home.split(".")[1:-1]).is_dir()

    def load(name: str) -> Any:
        if name in modules:
            if find_spec(f"{inside}.{name}") is None:
                raise InputError(f"this needs {inside}.{name}, which is not installed; install it")
            return load_module(f"{inside}.{name}")
        if name in moved:
            home, _, new = f"{inside}.{moved[name]}".rpartition(".")
            warnings.warn(f"{module}.{name} is {home}.{new} now", DeprecationWarning, stacklevel=3)
            return getattr(load_module(home), new)
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if not is_there(homes[name]):
            raise InputError(f"this needs {homes[name].rpartition('.')[0]}, which is not installed; install it")
        value = getattr(load_module(homes[name]), name)
        vars(sys.modules[module])[name] = value
        return value

    missing = tuple(f"{inside}.{folder}." for folder, needed in extras.items() if find_spec(needed) is None)
    names = sorted(name for name, home in homes.items() if not f"{home}.".startswith(missing) and is_there(home))
    rooms = [name for name in modules if not f"{inside}.{name}.".startswith(missing)]
    return load, lambda: sorted({*names, *rooms}), names


def _read_stub(path: Path, inside: str) -> tuple[dict[str, str], set[str]]:
    """Read the names of a stub.

    Args:
        path: of the stub.
        inside: dotted name of the package that it stands in.

    Returns:
        For each name the dotted name of the module that defines it, and the modules that it imports from the package.
    """
    homes: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module is None:
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            homes |= {alias.name: f"{inside.rsplit('.', node.level - 1)[0]}.{node.module}" for alias in node.names}
    return homes, modules
