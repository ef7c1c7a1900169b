"""All kinds of releases that this repository has: the kernel's, and those of its packs."""

from __future__ import annotations

from discreet.releases import kinds
from discreet.releases.measurement import pack_kinds

TABLE_CALIBRATIONS = (*kinds.TABLE_CALIBRATIONS, *pack_kinds("network", paid=False))
DESIGN_CALIBRATIONS = (*kinds.DESIGN_CALIBRATIONS, *pack_kinds("design", paid=False))
TABLE_PAYLOADS = (*kinds.TABLE_PAYLOADS, *pack_kinds("network", paid=True))
DESIGN_PAYLOADS = (*kinds.DESIGN_PAYLOADS, *pack_kinds("design", paid=True))
CALIBRATIONS = (*TABLE_CALIBRATIONS, *DESIGN_CALIBRATIONS)
PAYLOADS = (*TABLE_PAYLOADS, *DESIGN_PAYLOADS)
