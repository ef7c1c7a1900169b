"""Intervals of all margins of measured tables hold the truth, whatever the effects of the parents and the budget.

Every law of a variable given some, not all, of those before it in a table that is measured whole. In each run, a table
of its own, a *share* of the intervals holds; shares of runs spread, and the mean of several is compared with 90 %, what
no stratum may be below. The bound lies six standard errors lower, by the measured spread of a run: a posterior that
holds 90 % fails one of these tests with a probability below 1e-8, a posterior that holds what it promises never.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import discreet as dc
from measured_tables import EFFECTS, drawn_table, margins_of, released

DRAWS, LEAST_RECORDS, LEAST_SHARE, ERRORS = 400, 10, 0.9, 6
SPREAD = 0.05
"""Standard deviation of the share of a run, the largest of any stratum: intervals of one table go together."""
USUAL = [("strong", 10_000, "0.1"), ("none", 2_000, "1"), ("deterministic", 10_000, "1")]
SETTINGS = list(product(EFFECTS, (2_000, 10_000), ("0.1", "1", "10")))


def share_held(effects: str, records: int, epsilon: str, seed: int) -> float:
    """The share of the intervals of one table that hold the law, in slices that expect ten records."""
    law, counts = drawn_table(effects, seed, records)
    posterior = dc.noise_aware(released(counts, epsilon, seed), draws=DRAWS, rng=seed)
    held = []
    for own, whole, drawn in margins_of(posterior, law):
        lower, upper = dc.tools.credible_interval(drawn, 0.95)
        truth = own / whole
        asked = np.broadcast_to(whole * records >= LEAST_RECORDS, own.shape)
        held.append(((lower - 1e-12 <= truth) & (truth <= upper + 1e-12))[asked])
    return float(np.concatenate(held).mean())


def check(setting: tuple[str, int, str], runs: int) -> None:
    """The mean share of so many runs is above the bound."""
    shares = [share_held(*setting, seed) for seed in range(runs)]
    assert np.mean(shares) > LEAST_SHARE - ERRORS * SPREAD / np.sqrt(runs), shares


@pytest.mark.costly("Whether intervals of margins hold shows in many tables, not in one.")
@pytest.mark.parametrize("setting", USUAL, ids=str)
def test_margins_of_measured_tables_are_covered(setting: tuple[str, int, str]) -> None:
    check(setting, 8)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_margins_are_covered_by_strength_of_effects(setting: tuple[str, int, str]) -> None:
    check(setting, 24)
