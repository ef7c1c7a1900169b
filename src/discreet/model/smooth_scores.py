"""Scores that change no faster than a stated constant with a reading: what a change of the reading then reveals."""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.schema import bin_ends
from discreet.util.arrays import Floats


def smooth_score(score: Floats, network: Network, lipschitz: float) -> Floats:
    """Scores lowered, as little as need be, until they change by at most L for each unit of the reading.

    A draw depends on differences of candidates alone, so what all candidates have in common at a reading costs nothing
    and is set apart first: of what changes from one bin to the next the middle between the candidate that gains most
    and the one that gains least. The rest is replaced by the largest function below it that is L-Lipschitz in the
    distance of the bins' middles, `min_y f(y) + L |x - y|`. Whatever satisfies Assumption 1 with L stays as it is, as
    the rest then changes by L at most.

    Args:
        score: of each bin for each candidate, finite, shape `(bins, Z)`.
        network: of one numeric variable with bins.
        lipschitz: L, in the score's unit for each unit of the variable, greater than 0.

    Returns:
        Scores of the same shape; any two candidates' difference changes by at most `2 L |x - y|`.

    Raises:
        InputError: another network, or a constant that is none.

    Source:
        The envelope of Pasch and Hausdorff (Rockafellar and Wets, Variational Analysis, Example 9.11); Dimitrakakis et
        al. (JMLR 2017), Assumption 1.
    """
    if len(network.variables) > 1 or network.variables[0].bounds is None:
        raise InputError("a Lipschitz constant is for one numeric variable with bins: a change has a size there")
    if not 0 < lipschitz < math.inf:
        raise InputError(
            f"a Lipschitz constant is a number of nats for each unit of the variable, greater than 0, not {lipschitz}"
        )
    ends = np.array(bin_ends(network.variables[0]))
    most = lipschitz * np.diff((ends[1:] + ends[:-1]) / 2)
    changes = np.diff(score, axis=0)
    common = np.cumsum(np.append(0.0, (changes.max(axis=1) + changes.min(axis=1)) / 2))
    apart = score - common[:, None]
    lowered = apart.copy()
    # Distances along a line add up, so going through it once each way is enough.
    for at in range(1, len(lowered)):
        lowered[at] = np.minimum(lowered[at], lowered[at - 1] + most[at - 1])
    for at in range(len(lowered) - 2, -1, -1):
        lowered[at] = np.minimum(lowered[at], lowered[at + 1] + most[at])
    # What is not lowered stays as it is to the last bit.
    return np.asarray(score - (apart - lowered))
