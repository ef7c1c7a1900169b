"""Where tests find the public benchmark networks; the project bundles none but Asia.

From the folder `$DISCREET_DATA/networks` where it is set, else from an installed `pgmpy<1.3`, whose wheel holds the
same files, else the test is skipped and says so.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

import discreet as dc

ASIA = Path(__file__).parent.parent / "src" / "discreet" / "app" / "asia.bif"


def network_path(name: str) -> Path:
    """The BIF file of a network, or skip the test."""
    folders = []
    if "DISCREET_DATA" in os.environ:
        folders.append(Path(os.environ["DISCREET_DATA"]) / "networks")
    pgmpy = find_spec("pgmpy")
    if pgmpy is not None and pgmpy.origin is not None:
        folders.append(Path(pgmpy.origin).parent / "utils" / "example_models")
    for folder in folders:
        for path in (folder / f"{name}.bif", folder / f"{name}.bif.gz"):
            if path.exists():
                return path
    pytest.skip(f"network {name!r}: neither in $DISCREET_DATA/networks nor in an installed pgmpy<1.3")


def theta_of(name: str) -> dc.Tables:
    """Probabilities of a network, or skip the test."""
    return dc.Tables.read(network_path(name))


def asia() -> dc.Tables:
    """The bundled network."""
    return dc.Tables.read(ASIA)
