"""A mechanism of a pack that is not ours: more noise than the budget asks for, by a law of its own."""

from __future__ import annotations

import numpy as np
from toy_kinds import TwiceCounts, TwiceNoise

from discreet.mechanisms import MechanismEntry
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import scale_for


def twice() -> Mechanism:  # type: ignore[type-arg]
    """Discrete Laplace noise twice in every cell of every family's table.

    Guarantee:
        The first addition is epsilon of all tables together, towards neighbours that differ in one cell of each table,
        or in two under "replace"; the second is drawn without the records.
    """

    def calibrate(network, prior, guarantee):  # type: ignore[no-untyped-def]
        moved = len(network.nodes) * (2 if guarantee.relation.public_number else 1)
        scale, reported = scale_for(moved, guarantee.epsilon)
        return TwiceNoise(moved, scale, reported)

    def draw(statistic, prior, calibration, noise):  # type: ignore[no-untyped-def]
        tables = {}
        for node in statistic.network.nodes:
            counts = statistic.tables[node]
            blank = np.zeros(counts.shape, np.int64)
            tables[node] = noise.discrete_laplace(counts, calibration.scale)
            tables[node] = tables[node] + noise.discrete_laplace(blank, calibration.scale)
        return TwiceCounts(statistic.network, tables, calibration.scale)

    return Mechanism("twice", calibrate, draw)


MECHANISMS = (MechanismEntry("twice", "network", "Laplace noise twice, by a pack", home="toy_mechanism"),)
