"""All kinds of releases that this repository has: the kernel's, and those of its packs."""

from __future__ import annotations

from discreet.releases.kinds import kinds_over

TABLE_CALIBRATIONS = kinds_over("network", paid=False)
DESIGN_CALIBRATIONS = kinds_over("design", paid=False)
TABLE_PAYLOADS = kinds_over("network", paid=True)
DESIGN_PAYLOADS = kinds_over("design", paid=True)
CALIBRATIONS = (*TABLE_CALIBRATIONS, *DESIGN_CALIBRATIONS, *kinds_over("columns", paid=False))
PAYLOADS = (*TABLE_PAYLOADS, *DESIGN_PAYLOADS, *kinds_over("columns", paid=True))
