"""Where the measurements find networks."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import discreet as dc

__all__ = ["theta_of"]


def theta_of(name: str) -> dc.Tables:
    """Probabilities of a network: a path, or a name in `$DISCREET_DATA/networks` or in an installed `pgmpy<1.3`."""
    folders = [Path(os.environ["DISCREET_DATA"]) / "networks"] if "DISCREET_DATA" in os.environ else []
    pgmpy = find_spec("pgmpy")
    if pgmpy is not None and pgmpy.origin is not None:
        folders.append(Path(pgmpy.origin).parent / "utils" / "example_models")
    for path in (Path(name), *(folder / f"{name}{end}" for folder in folders for end in (".bif", ".bif.gz"))):
        if path.is_file():
            return dc.Tables.read(path)
    raise SystemExit(f"no network {name!r}: give a path, set DISCREET_DATA, or install pgmpy<1.3")
