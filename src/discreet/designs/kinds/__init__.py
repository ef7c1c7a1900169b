"""Kinds of the pack: sums of products and gradients over a design, one file for each."""

from discreet.designs.kinds.gradient_trace import GradientTrace as GradientTrace
from discreet.designs.kinds.gradient_trace import ObjectiveNoise as ObjectiveNoise
from discreet.designs.kinds.noisy_sums import GroupedMoments as GroupedMoments
from discreet.designs.kinds.noisy_sums import GroupNoise as GroupNoise
from discreet.designs.kinds.noisy_sums import NoisyMoments as NoisyMoments
from discreet.designs.kinds.noisy_sums import VectorNoise as VectorNoise

KINDS = (VectorNoise, GroupNoise, ObjectiveNoise, NoisyMoments, GroupedMoments, GradientTrace)
"""Calibrations and payloads that the pack brings."""
