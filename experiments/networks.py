"""Networks that experiments learn: the bundled one, and public ones where they are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import discreet as dc

__all__ = ["absent", "asia", "available", "network"]


@cache
def asia() -> dc.Tables:
    """Probabilities of the network that comes with the package."""
    with as_file(files("discreet.app") / "asia.bif") as path:
        return dc.Tables.read(path)


@cache
def network(name: str) -> dc.Tables:
    """Probabilities of a network by its name: "asia", or one of `$DISCREET_DATA/networks`.

    Raises:
        FileNotFoundError: it is not there.
    """
    if name == "asia":
        return asia()
    path = _path(name)
    if path is None:
        raise FileNotFoundError(f"no network {name!r} in $DISCREET_DATA/networks")
    return dc.Tables.read(path)


def available(names: Sequence[str]) -> list[str]:
    """Those that are there."""
    return [name for name in names if name == "asia" or _path(name) is not None]


def absent(names: Sequence[str]) -> list[str]:
    """A reason for each that is not there."""
    return [f"{name}: not in $DISCREET_DATA/networks" for name in names if name not in available(names)]


def _path(name: str) -> Path | None:
    """Where a public network is, if anywhere."""
    folder = Path(os.environ.get("DISCREET_DATA", "")) / "networks"
    found = [folder / f"{name}{end}" for end in (".bif", ".bif.gz")]
    return next((path for path in found if path.is_file()), None)
