"""Without noise an answer is what its table says, as exactly as sampling allows, whatever the effects of the parents.

A prior may borrow between the rows of a table; it may neither move nor sharpen what its rows say together. One table of
a child and three parents is measured whole, with noise of a thousandth of a record, of 5,000 records: every law of a
variable given some of its parents is held against the table's own share, if ten records have the state and ten have
not. The rows themselves are left out: they borrow.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

import discreet as dc
from measured_tables import EFFECTS, drawn_table, margins_of, released

DRAWS, LEAST_RECORDS = 1000, 10


ALL = [effects for effects in EFFECTS if effects not in {"rare", "deterministic"}]
"""Those whose states have ten records in most slices."""


@cache
def compared(effects: str) -> tuple[np.ndarray, np.ndarray]:
    """Means' distances from the table's shares, in deviations of the posterior; widths over Jeffreys' intervals'."""
    distances, widths = [], []
    for seed in range(2):
        _, counts = drawn_table(effects, seed)
        posterior = dc.noise_aware(released(counts, 1000, seed), draws=DRAWS, rng=seed)
        for own, whole, drawn in margins_of(posterior, counts):
            told = (own >= LEAST_RECORDS) & (whole - own >= LEAST_RECORDS)
            share, mean, deviation = own / whole, drawn.mean(axis=-1), drawn.std(axis=-1)
            low, high = (beta.ppf(p, own + 0.5, whole - own + 0.5) for p in (0.025, 0.975))
            lower, upper = np.quantile(drawn, [0.025, 0.975], axis=-1)
            distances.append(((mean - share) / deviation)[told])
            widths.append(((upper - lower) / (high - low))[told])
    return np.concatenate(distances), np.concatenate(widths)


@pytest.mark.costly(
    "A prior that moves measured margins is found by posteriors of many releases, for each kind of effect."
)
@pytest.mark.parametrize("effects", ALL)
def test_no_margin_is_moved(effects: str) -> None:
    distances, _ = compared(effects)
    assert np.sqrt(np.mean(distances**2)) <= 0.5
    assert np.abs(distances).max() <= 1.6


@pytest.mark.parametrize("effects", ALL)
def test_no_margin_is_told_more_exactly_than_sampling_allows(effects: str) -> None:
    _, widths = compared(effects)
    assert np.median(widths) >= 0.95


@pytest.mark.parametrize("effects", ["none", "strong"])
def test_no_noise_is_said_to_be_in_an_answer(effects: str) -> None:
    """A correlation of draws: within four standard errors of none, three numbers."""
    _, counts = drawn_table(effects, 0)
    answer = dc.noise_aware(released(counts, 1000, 0), draws=DRAWS, rng=0).answer("P(y | a=a0)")
    assert all(row["noise"] < 4 * row["noise_error"] for row in answer.rows)
