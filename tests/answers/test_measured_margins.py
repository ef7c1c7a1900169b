"""Without noise an answer is what its table says, as exactly as sampling allows, whatever the effects of the parents.

A prior may borrow between the rows of a table; it may neither move nor sharpen what its rows say together. One table of
a child and three parents is measured whole, with noise of a thousandth of a record, of 5,000 records: every law of a
variable given some of its parents is held against the table's own share, if ten records have the state and ten have
not. The rows themselves are left out: they borrow.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import beta

import discreet as dc
from design_cases import promise
from discreet.inference import elimination

RECORDS, DRAWS, LEAST_RECORDS = 5000, 1000, 10
EFFECTS = {
    "none": (0, 0, 0),
    "weak": (0.3, 0.1, 0),
    "strong": (1.5, 0.3, 0),
    "two-way": (0.3, 1.0, 0),
    "top order": (0, 0, 1.5),
}
"""Deviations, in log odds, of the effects of a parent, of two together, and of all three."""
SIZES = {"a": 4, "b": 5, "c": 4, "y": 3}


def law_of(shape: tuple[int, ...], states: int, effects: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Rows with effects of their parents, of each size from one parent up."""
    logs = np.log(rng.dirichlet([2.0] * states)) + np.zeros((*shape, states))
    for size, scale in enumerate(effects, 1):
        for kept in combinations(range(len(shape)), size):
            part = [length if axis in kept else 1 for axis, length in enumerate(shape)]
            logs = logs + scale * rng.standard_normal((*part, states))
    rows = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def drawn_table(effects: tuple[float, ...], seed: int, records: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    """A law of four variables whose last depends on the others, and counts of records from it."""
    rng = np.random.default_rng(seed)
    law = np.ones(())
    for place, states in enumerate(SIZES.values()):
        strength = effects if place == len(SIZES) - 1 else (0.4, 0.2, 0.0)
        law = law[..., None] * law_of(law.shape, states, strength, rng)
    counts = rng.multinomial(records, law.ravel() / law.sum()).reshape(law.shape)
    return law, counts


def released(counts: np.ndarray, epsilon: object, seed: int) -> dc.Release:
    """A release of a table with an arc between any two variables."""
    variables = tuple(dc.Variable(name, tuple(f"{name}{code}" for code in range(k))) for name, k in SIZES.items())
    names = tuple(SIZES)
    network = dc.Network(variables, {name: names[:place] for place, name in enumerate(names)})
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    codes = dict(zip(names, np.unravel_index(cells, counts.shape), strict=True))
    counted = dc.tools.count_codes(network, codes)
    return dc.simulate(dc.planned(audit=0), counted, dc.Dirichlet.uniform(network), promise(epsilon), rng=seed)


def margins_of(posterior: dc.PosteriorDraws, counts: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Counts, records of the slice and draws of all laws of a variable given some, not all, of those before it."""
    names, found = tuple(SIZES), []
    joint = np.asarray(elimination.joint(posterior.cells, list(names), {}))
    for place in range(len(names)):
        for size in range(place):
            for given in combinations(range(place), size):
                dropped = tuple(axis for axis in range(len(names)) if axis not in (*given, place))
                own, drawn = counts.sum(axis=dropped), joint.sum(axis=dropped)
                found.append((own, own.sum(axis=-1, keepdims=True), drawn / drawn.sum(axis=-2, keepdims=True)))
    return found


@cache
def compared(effects: str) -> tuple[np.ndarray, np.ndarray]:
    """Means' distances from the table's shares, in deviations of the posterior; widths over Jeffreys' intervals'."""
    distances, widths = [], []
    for seed in range(3):
        _, counts = drawn_table(EFFECTS[effects], seed)
        posterior = dc.noise_aware(released(counts, 1000, seed), draws=DRAWS, rng=seed)
        for own, whole, drawn in margins_of(posterior, counts):
            told = (own >= LEAST_RECORDS) & (whole - own >= LEAST_RECORDS)
            share, mean, deviation = own / whole, drawn.mean(axis=-1), drawn.std(axis=-1)
            low, high = (beta.ppf(p, own + 0.5, whole - own + 0.5) for p in (0.025, 0.975))
            lower, upper = np.quantile(drawn, [0.025, 0.975], axis=-1)
            distances.append(((mean - share) / deviation)[told])
            widths.append(((upper - lower) / (high - low))[told])
    return np.concatenate(distances), np.concatenate(widths)


@pytest.mark.parametrize("effects", EFFECTS)
def test_no_margin_is_moved(effects: str) -> None:
    distances, _ = compared(effects)
    assert np.sqrt(np.mean(distances**2)) <= 0.5
    assert np.abs(distances).max() <= 1.6


@pytest.mark.parametrize("effects", EFFECTS)
def test_no_margin_is_told_more_exactly_than_sampling_allows(effects: str) -> None:
    _, widths = compared(effects)
    assert np.median(widths) >= 0.95


@pytest.mark.parametrize("effects", ["none", "strong"])
def test_no_noise_is_said_to_be_in_an_answer(effects: str) -> None:
    """A correlation of draws: within four standard errors of none, three numbers."""
    _, counts = drawn_table(EFFECTS[effects], 0)
    answer = dc.noise_aware(released(counts, 1000, 0), draws=DRAWS, rng=0).answer("P(y | a=a0)")
    assert all(row["noise"] < 4 * row["noise_error"] for row in answer.rows)
