"""Tables of a child and three parents that are measured whole, with effects of every kind, and their margins."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import discreet as dc
from design_cases import promise
from discreet.inference.exact_laws import Laws

__all__ = ["EFFECTS", "SIZES", "drawn_table", "margins_of", "released"]

RECORDS = 5000
EFFECTS = {
    "none": (0, 0, 0),
    "weak": (0.3, 0.1, 0),
    "strong": (1.5, 0.3, 0),
    "two-way": (0.3, 1.0, 0),
    "top order": (0, 0, 1.5),
    "rare": (0.7, 0.2, 0),
    "deterministic": (2.0, 0.5, 0),
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


def drawn_table(kind: str, seed: int, records: int = RECORDS) -> tuple[np.ndarray, np.ndarray]:
    """A law of four variables whose last depends on the others in some way, and counts of records from it."""
    rng, effects = np.random.default_rng(seed), EFFECTS[kind]
    law = np.ones(())
    for place, states in enumerate(SIZES.values()):
        strength = effects if place == len(SIZES) - 1 else (0.4, 0.2, 0.0)
        rows = law_of(law.shape, states, strength, rng)
        if place == len(SIZES) - 1 and kind == "rare":
            rows = rows * np.array([1, 0.01, 0.004])
        if place == len(SIZES) - 1 and kind == "deterministic":
            sure = rng.random(rows.shape[:-1])[..., None] < 0.7
            rows = np.where(sure, np.eye(states)[rows.argmax(axis=-1)], rows)
        law = law[..., None] * rows / rows.sum(axis=-1, keepdims=True)
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
    return dc.simulate(dc.planned(pairs_share=0), counted, dc.Dirichlet.uniform(network), promise(epsilon), rng=seed)


def margins_of(posterior: dc.PosteriorDraws, counts: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Sums of a table, those of the slice, and draws, of all laws of a variable given some, not all, of those before.

    Args:
        posterior: of a release of the table.
        counts: or a law.
    """
    names, found = tuple(SIZES), []
    joint = np.asarray(Laws(posterior.probabilities).joint(list(names)))
    for place in range(len(names)):
        for size in range(place):
            for given in combinations(range(place), size):
                dropped = tuple(axis for axis in range(len(names)) if axis not in (*given, place))
                own, drawn = counts.sum(axis=dropped), joint.sum(axis=dropped)
                found.append((own, own.sum(axis=-1, keepdims=True), drawn / drawn.sum(axis=-2, keepdims=True)))
    return found
