"""The study of laws inside bins, and of how often intervals of numbers hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from bench.numbers import BINNINGS, cover, errors, made_up


def test_the_law_of_a_tail_is_the_nearest() -> None:
    column = list(made_up(np.random.default_rng(1)))[1]
    cut = BINNINGS["10 of one width"](column)
    for found in zip(errors(column, cut, "log-linear"), errors(column, cut, "uniform"), strict=True):
        assert found[0] < 0.01 < 0.05 < found[1]


@pytest.mark.costly("A bench whose intervals miss is found by their coverage over many draws.")
def test_intervals_hold_what_they_say() -> None:
    """40 releases from the stated law: fewer than 27 of 40 where 38 are held has a chance below 1e-8; fixed seed."""
    column = list(made_up(np.random.default_rng(1), 20_000))[1]
    found = cover([column], BINNINGS["10 of one width"], 40, np.random.default_rng(2), own=True)
    for wide, narrow, ratio in found.values():
        assert wide >= narrow >= 27 / 40 and ratio > 1
