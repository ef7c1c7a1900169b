"""Kinds of the pack: the payloads of its mechanisms, one file for each."""

from discreet.research.kinds.candidate_choice import Choice as Choice
from discreet.research.kinds.candidate_choice import Selection as Selection
from discreet.research.kinds.factored_choice import FactoredChoice as FactoredChoice
from discreet.research.kinds.factored_choice import FactoredNoise as FactoredNoise
from discreet.research.kinds.noisy_contrasts import CoefficientNoise as CoefficientNoise
from discreet.research.kinds.noisy_contrasts import NoisyCoefficients as NoisyCoefficients
from discreet.research.kinds.parameter_draws import ParameterDraws as ParameterDraws
from discreet.research.kinds.parameter_draws import Tempering as Tempering
from discreet.research.kinds.parameter_draws import Trimming as Trimming
from discreet.research.kinds.scored_choice import ScoredChoice as ScoredChoice
from discreet.research.kinds.scored_choice import ScoredNoise as ScoredNoise
from discreet.research.kinds.two_stages import Stages as Stages
from discreet.research.kinds.two_stages import TwoStageCounts as TwoStageCounts
from discreet.research.kinds.weight_draws import Truncation as Truncation
from discreet.research.kinds.weight_draws import WeightDraws as WeightDraws

KINDS = (
    *(CoefficientNoise, Trimming, Tempering, Selection, ScoredNoise, Stages, Truncation, FactoredNoise),
    *(NoisyCoefficients, ParameterDraws, Choice, ScoredChoice, TwoStageCounts, WeightDraws, FactoredChoice),
)
"""Calibrations and payloads that the pack brings."""
