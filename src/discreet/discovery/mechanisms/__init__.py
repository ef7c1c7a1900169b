"""Mechanism over columns: their domain, found by noisy counts with a threshold for states."""

from __future__ import annotations

from discreet.mechanisms import MechanismEntry

MECHANISMS = (
    MechanismEntry(
        "found_domain",
        "columns",
        "states, bounds and bins of columns, found in the records",
        "used",
        options=("bins",),
        home="discreet.discovery.mechanisms.found_domain",
    ),
)
"""Entry of the pack in the registry."""
