"""Networks of experiments, measurements and tests: the bundled one, and public ones where they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

import discreet as dc

__all__ = ["absent", "asia", "available", "network_path", "theta_of"]


@cache
def asia() -> dc.Tables:
    """Probabilities of the network that comes with the package."""
    with as_file(files("discreet.cli") / "asia.bif") as path:
        return dc.Tables.read(path)


@cache
def theta_of(name: str) -> dc.Tables:
    """Probabilities of a network by its name, "asia" among them, or by the path of its file.

    Raises:
        FileNotFoundError: it is not there.
    """
    if name == "asia":
        return asia()
    path = network_path(name)
    if path is None:
        raise FileNotFoundError(f"no network {name!r}: give a path, set DISCREET_DATA, or install pgmpy<1.3")
    return dc.Tables.read(path)


def network_path(name: str) -> Path | None:
    """A file: a path, or a name in `$DISCREET_DATA/networks` or in an installed `pgmpy<1.3`, whose wheel has it too."""
    folders = [Path(os.environ["DISCREET_DATA"]) / "networks"] if "DISCREET_DATA" in os.environ else []
    pgmpy = find_spec("pgmpy")
    if pgmpy is not None and pgmpy.origin is not None:
        folders.append(Path(pgmpy.origin).parent / "utils" / "example_models")
    found = [Path(name), *(folder / f"{name}{end}" for folder in folders for end in (".bif", ".bif.gz"))]
    return next((path for path in found if path.is_file()), None)


def available(names: Sequence[str]) -> list[str]:
    """Those that are there."""
    return [name for name in names if name == "asia" or network_path(name) is not None]


def absent(names: Sequence[str]) -> list[str]:
    """A reason for each that is not there."""
    return [f"{name}: not in $DISCREET_DATA/networks" for name in names if name not in available(names)]
