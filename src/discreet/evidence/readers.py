"""Reader of the pack: any releases over one network, on the same and on different records."""

from __future__ import annotations

from discreet.posterior.read import NETWORK, OPTIONS, Reader, Way
from discreet.research.readers import MIXED

CHAINS = "discreet.evidence.chains:"
EXACT = Way(f"{CHAINS}draw_exactly", across=True, trusts=True, eager=f"{CHAINS}draw_if_quick")
COST = "thousands of sweeps over records"

READERS = (Reader("exact", "network", COST, NETWORK, MIXED, None, OPTIONS, "exact", way=EXACT, general=True),)
"""Readers of the pack."""
