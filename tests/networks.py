"""Public benchmark networks for tests, or a test that is skipped and says so; the project bundles none but Asia."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
    """The bundled network, for whom no reader of its file needs to be there."""
    yes, no, either = (0.01, 0.99), (0.05, 0.95), (1.0, 0.0)
    rows: dict[tuple[str, ...], object] = {
        ("asia",): yes,
        ("tub", "asia"): (no, yes),
        ("smoke",): (0.5, 0.5),
        ("lung", "smoke"): ((0.1, 0.9), yes),
        ("bronc", "smoke"): ((0.6, 0.4), (0.3, 0.7)),
        ("either", "tub", "lung"): ((either, either), (either, (0.0, 1.0))),
        ("xray", "either"): ((0.98, 0.02), no),
        ("dysp", "either", "bronc"): (((0.9, 0.1), (0.7, 0.3)), ((0.8, 0.2), (0.1, 0.9))),
    }
    variables = tuple(dc.Variable(node, ("yes", "no")) for node, *_ in rows)
    network = dc.Network(variables, {node: tuple(parents) for node, *parents in rows})
    return dc.Tables(network, {node: np.array(table) for (node, *_), table in rows.items()})
