"""Kinds of releases: a file each, with its calibration, its payload, their agreement and the measurements.

A calibration says how a budget became noise; it is public, and computed before any record is seen. It states what the
noise is calibrated to, what was chosen, and the `total` epsilon that it costs, at the guarantee's delta where that is
not 0. A payload is what was released, with all that inference needs to know of its noise.
"""

from discreet.releases.kinds.audited_tables import AuditedTables as AuditedTables
from discreet.releases.kinds.audited_tables import AuditNoise as AuditNoise
from discreet.releases.kinds.chosen_network import ChosenNetwork as ChosenNetwork
from discreet.releases.kinds.chosen_network import StructureNoise as StructureNoise
from discreet.designs.kinds.gradient_trace import GradientTrace as GradientTrace
from discreet.designs.kinds.gradient_trace import ObjectiveNoise as ObjectiveNoise
from discreet.releases.kinds.noisy_counts import GaussianNoise as GaussianNoise
from discreet.releases.kinds.noisy_counts import NoisyCounts as NoisyCounts
from discreet.releases.kinds.noisy_counts import TableNoise as TableNoise
from discreet.designs.kinds.noisy_sums import GroupedMoments as GroupedMoments
from discreet.designs.kinds.noisy_sums import GroupNoise as GroupNoise
from discreet.designs.kinds.noisy_sums import NoisyMoments as NoisyMoments
from discreet.designs.kinds.noisy_sums import VectorNoise as VectorNoise
from discreet.releases.kinds.noisy_tables import NoisyTables as NoisyTables
from discreet.releases.kinds.noisy_tables import PlannedNoise as PlannedNoise
from discreet.releases.measurement import Calibration, Released

TABLE_CALIBRATIONS: tuple[type[Calibration], ...] = (
    TableNoise,
    GaussianNoise,
    PlannedNoise,
    AuditNoise,
    StructureNoise,
)
"""The package's own calibrations over a network."""
DESIGN_CALIBRATIONS: tuple[type[Calibration], ...] = (VectorNoise, GroupNoise, ObjectiveNoise)
"""The package's own calibrations over a design."""
TABLE_PAYLOADS: tuple[type[Released], ...] = (NoisyCounts, NoisyTables, AuditedTables, ChosenNetwork)
"""The package's own payloads of releases over a network."""
DESIGN_PAYLOADS: tuple[type[Released], ...] = (NoisyMoments, GroupedMoments, GradientTrace)
"""The package's own payloads of releases over a design."""
