"""Posteriors of the weights of a regression, classification or direction; `weight_posterior.py` reads all payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.designs.kinds import GradientTrace, GroupedMoments, NoisyMoments
from discreet.posterior.read import Reader

MOMENTS, GRADIENTS = (NoisyMoments, GroupedMoments), (GradientTrace,)
"""Payload types of regressions."""
ONE_SCALE = (NoisyMoments,)
"""Payload types of moments with noise of one scale."""
KNOWN = ("covariates", "public")
"""Options of the reader of gradients: public knowledge beside the release."""
WEIGHTS = "discreet.designs.readers.weight_posterior:"


def _all_have_target(payloads: Sequence[Any]) -> bool:
    """True if all payloads have a target, so that their sums include products with it."""
    return all(payload.design.target is not None for payload in payloads)


READERS = (
    Reader(
        "moments", "weights", "nothing", WEIGHTS + "read_moments", MOMENTS, _all_have_target, quick="estimate_moments"
    ),
    Reader("exact", "weights", "seconds; refused with much noise", WEIGHTS + "resample", ONE_SCALE, _all_have_target),
    Reader(
        "gradients", "weights", "seconds", WEIGHTS + "read_gradients", GRADIENTS, None, KNOWN, "", "estimate_gradients"
    ),
)
"""Readers of the pack; of those that read the same payload the default comes first."""
