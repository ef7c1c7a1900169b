"""The kinds of releases: a file each, with its calibration, its payload, how they agree, and what was measured.

A calibration says how a budget became noise; it is public, and computed before any record is seen. It states what the
noise is calibrated to, what was chosen, and the `total` epsilon that it costs, at the guarantee's delta where that is
not 0. A payload is what was released, with all that inference needs to know of its noise.
"""

from discreet.releases.kinds.audited_tables import AuditedTables, AuditNoise
from discreet.releases.kinds.candidate_choice import Choice, Selection
from discreet.releases.kinds.chosen_network import ChosenNetwork, StructureNoise
from discreet.releases.kinds.factored_choice import FactoredChoice, FactoredNoise
from discreet.releases.kinds.gradient_trace import GradientTrace, ObjectiveNoise
from discreet.releases.kinds.noisy_contrasts import CoefficientNoise, NoisyCoefficients
from discreet.releases.kinds.noisy_counts import GaussianNoise, NoisyCounts, TableNoise
from discreet.releases.kinds.noisy_sums import GroupedMoments, GroupNoise, NoisyMoments, VectorNoise
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.kinds.parameter_draws import ParameterDraws, Tempering, Trimming
from discreet.releases.kinds.scored_choice import ScoredChoice, ScoredNoise
from discreet.releases.kinds.two_stages import Stages, TwoStageCounts
from discreet.releases.kinds.weight_draws import Truncation, WeightDraws

TableCalibration = (
    TableNoise
    | GaussianNoise
    | PlannedNoise
    | AuditNoise
    | CoefficientNoise
    | Trimming
    | Tempering
    | Selection
    | StructureNoise
    | ScoredNoise
    | Stages
)
"""The closed union of calibrations over a network."""
DesignCalibration = VectorNoise | GroupNoise | ObjectiveNoise | Truncation | FactoredNoise
"""The closed union of calibrations over a design."""
Calibration = TableCalibration | DesignCalibration

TablePayload = (
    NoisyCounts
    | NoisyTables
    | AuditedTables
    | NoisyCoefficients
    | ParameterDraws
    | Choice
    | ChosenNetwork
    | ScoredChoice
    | TwoStageCounts
)
"""The closed union of what a release over a network can carry."""
DesignPayload = NoisyMoments | GroupedMoments | GradientTrace | WeightDraws | FactoredChoice
"""The closed union of what a release over a design can carry."""
Payload = TablePayload | DesignPayload
