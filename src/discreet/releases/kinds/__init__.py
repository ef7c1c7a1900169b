"""Kinds of releases: a file each, with its calibration, its payload, their agreement and the measurements.

A calibration says how a budget became noise; it is public, and computed before any record is seen. It states what the
noise is calibrated to, what was chosen, and the `total` epsilon that it costs, at the guarantee's delta where that is
not 0. A payload is what was released, with all that inference needs to know of its noise.
"""

from discreet.releases.kinds.chosen_network import ChosenNetwork as ChosenNetwork
from discreet.releases.kinds.chosen_network import StructureNoise as StructureNoise
from discreet.releases.kinds.found_bins import FoundBins as FoundBins
from discreet.releases.kinds.found_bins import FoundBinsNoise as FoundBinsNoise
from discreet.releases.kinds.noisy_counts import GaussianNoise as GaussianNoise
from discreet.releases.kinds.noisy_counts import NoisyCounts as NoisyCounts
from discreet.releases.kinds.noisy_counts import TableNoise as TableNoise
from discreet.releases.kinds.noisy_tables import NoisyTables as NoisyTables
from discreet.releases.kinds.noisy_tables import PlannedNoise as PlannedNoise
from discreet.releases.kinds.number_tables import NumberNoise as NumberNoise
from discreet.releases.kinds.number_tables import NumberTables as NumberTables
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs as NoiseWithPairs
from discreet.releases.kinds.tables_with_pairs import TablesWithPairs as TablesWithPairs
from discreet.releases.measurement import Calibration, Released, pack_kinds

TABLE_CALIBRATIONS: tuple[type[Calibration], ...] = (
    TableNoise,
    GaussianNoise,
    PlannedNoise,
    NoiseWithPairs,
    NumberNoise,
    FoundBinsNoise,
    StructureNoise,
)
"""The kernel's own calibrations, over a network."""
TABLE_PAYLOADS: tuple[type[Released], ...] = (
    NoisyCounts,
    NoisyTables,
    TablesWithPairs,
    NumberTables,
    FoundBins,
    ChosenNetwork,
)
"""The kernel's own payloads, over a network."""


def kinds_over(domain: str, *, paid: bool) -> tuple[type, ...]:
    """List the kinds of a domain, the kernel's own first.

    Args:
        domain: of what a release with them is over.
        paid: whether they are payloads, and not calibrations.

    Returns:
        Classes under `kind`.
    """
    tables = [kind for kind in (TABLE_PAYLOADS if paid else TABLE_CALIBRATIONS) if kind.domain == domain]
    return (*tables, *pack_kinds(domain, paid=paid))
