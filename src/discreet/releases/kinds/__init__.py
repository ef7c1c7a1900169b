"""The kinds of releases: a file each, with its calibration, its payload, how they agree, and what was measured.

A calibration says how a budget became noise; it is public, and computed before any record is seen. It states what the
noise is calibrated to, what was chosen, and the `total` epsilon that it costs, at the guarantee's delta where that is
not 0. A payload is what was released, with all that inference needs to know of its noise.
"""

from discreet.releases.kinds.audited_tables import AuditedTables as AuditedTables
from discreet.releases.kinds.audited_tables import AuditNoise as AuditNoise
from discreet.releases.kinds.candidate_choice import Choice as Choice
from discreet.releases.kinds.candidate_choice import Selection as Selection
from discreet.releases.kinds.chosen_network import ChosenNetwork as ChosenNetwork
from discreet.releases.kinds.chosen_network import StructureNoise as StructureNoise
from discreet.releases.kinds.factored_choice import FactoredChoice as FactoredChoice
from discreet.releases.kinds.factored_choice import FactoredNoise as FactoredNoise
from discreet.releases.kinds.gradient_trace import GradientTrace as GradientTrace
from discreet.releases.kinds.gradient_trace import ObjectiveNoise as ObjectiveNoise
from discreet.releases.kinds.noisy_contrasts import CoefficientNoise as CoefficientNoise
from discreet.releases.kinds.noisy_contrasts import NoisyCoefficients as NoisyCoefficients
from discreet.releases.kinds.noisy_counts import GaussianNoise as GaussianNoise
from discreet.releases.kinds.noisy_counts import NoisyCounts as NoisyCounts
from discreet.releases.kinds.noisy_counts import TableNoise as TableNoise
from discreet.releases.kinds.noisy_sums import GroupedMoments as GroupedMoments
from discreet.releases.kinds.noisy_sums import GroupNoise as GroupNoise
from discreet.releases.kinds.noisy_sums import NoisyMoments as NoisyMoments
from discreet.releases.kinds.noisy_sums import VectorNoise as VectorNoise
from discreet.releases.kinds.noisy_tables import NoisyTables as NoisyTables
from discreet.releases.kinds.noisy_tables import PlannedNoise as PlannedNoise
from discreet.releases.kinds.parameter_draws import ParameterDraws as ParameterDraws
from discreet.releases.kinds.parameter_draws import Tempering as Tempering
from discreet.releases.kinds.parameter_draws import Trimming as Trimming
from discreet.releases.kinds.scored_choice import ScoredChoice as ScoredChoice
from discreet.releases.kinds.scored_choice import ScoredNoise as ScoredNoise
from discreet.releases.kinds.two_stages import Stages as Stages
from discreet.releases.kinds.two_stages import TwoStageCounts as TwoStageCounts
from discreet.releases.kinds.weight_draws import Truncation as Truncation
from discreet.releases.kinds.weight_draws import WeightDraws as WeightDraws

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
