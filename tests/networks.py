"""Public benchmark networks for tests, or a test that is skipped and says so; the project bundles none but Asia."""

from __future__ import annotations

from pathlib import Path

import pytest

import discreet as dc
from experiments import networks

ASIA = Path(__file__).parent.parent / "src" / "discreet" / "cli" / "asia.bif"


def network_path(name: str) -> Path:
    """The BIF file of a network, or skip the test."""
    path = networks.network_path(name)
    if path is None:
        pytest.skip(f"network {name!r}: neither in $DISCREET_DATA/networks nor in an installed pgmpy<1.3")
    return path


def theta_of(name: str) -> dc.Tables:
    """Probabilities of a network, or skip the test."""
    return dc.Tables.read(network_path(name))


def asia() -> dc.Tables:
    """The bundled network."""
    return dc.Tables.read(ASIA)
