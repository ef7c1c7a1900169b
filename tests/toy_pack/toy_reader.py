"""The reader of a pack that is not ours: a Dirichlet law of the noisy counts, widened by the noise."""

from __future__ import annotations

import numpy as np
from toy_kinds import TwiceCounts

from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.read import Reader


def read_twice(evidence, *, draws, rng):  # type: ignore[no-untyped-def]
    """Counts are drawn back from the noise, then probabilities from the counts."""
    rows = {}
    (part,) = evidence.parts
    for measured in part.measurements:
        noise = measured.noise.simulate((*measured.values.shape, draws), rng)
        counts = np.maximum(measured.values[..., None] - noise, 0) + 0.5
        gammas = rng.standard_gamma(counts)
        rows[measured.scope[-1]] = gammas / gammas.sum(axis=-2, keepdims=True)
    return PosteriorDraws(Tables(evidence.network, rows, draws=draws), "twice")


READERS = (Reader("twice", "network", "nothing", "toy_reader:read_twice", (TwiceCounts,)),)
