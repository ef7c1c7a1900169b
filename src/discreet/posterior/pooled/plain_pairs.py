"""Unbiased pair margins for sums over many cells, in which the priors of single cells would add up.

A posterior's draws hold no cell below 0 and lift cells that nobody fell into, each a little, as an interval of that
cell needs. A covariance sums over all cells of a pair, and hundreds that are lifted flatten it. Plain least squares of
the tables errs to no side, and its errors are known. So of every pair that a table holds, each draw's law is given

    the pair's table by least squares  +  an error as the noise's  +  a sampling error of so many records from that law,

the two errors those of one table for all pairs of a draw, over the number of records. What pairs do not tell stays as
the draw has it, and so do pairs that lie in no table. Cells may be negative: such a law is for sums over pairs.

Source: least squares, `least_squares.py`; its posterior under a flat prior is normal, and records are multinomial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import contrast_matrices, positions, subsets, transformed
from discreet.inference.sampling import drawn_codes
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.pooled.least_squares import Margins
from discreet.posterior.pooled.measured_sets import MeasuredSets
from discreet.util.arrays import Floats, Ints, margin

CLEAR_NOISE_DEVIATIONS = 4.0
"""Least count of a state, in deviations of the noise: its draws are below 0 in one of 30,000."""
SIMULATED_RECORDS = 2**12
"""Simulated records of each draw that estimate the sampling error, which is rescaled to the number of records."""
PLAIN_STREAM = 2
"""Stream of a set's generator for unbiased pairs."""


def move_without_bias(sets: MeasuredSets, law: Floats, names: Scope) -> Floats:
    """Move a law of some variables, under every draw, to unbiased estimates of its pairs.

    Args:
        sets: that tables hold.
        law: shape `(*sizes, draws)`.
        names: of its axes.

    Returns:
        Shape as the law's; cells may be negative. The law itself where no table holds a pair, or the noise may have
        made a categorical state of one of its variables. Equal for equal arguments.
    """
    plain, records, rng = _draw_measured_pairs(sets, sets.network.ordered(names), law.shape[-1])
    return move_to_pairs(law, names, plain, records, rng) if plain else law


def find_pairs_without_bias(sets: MeasuredSets, cells: Tables, names: Iterable[str]) -> dict[Scope, Floats]:
    """Compute laws of all pairs, moved like `move_without_bias`, where their joint law is too large.

    Args:
        sets: that tables hold.
        cells: of the joint law under every draw.
        names: different variables.

    Returns:
        By pair, in the schema's order, shape `(*sizes, draws)`.

    Raises:
        InputError: a network too large for exact inference.
    """
    ordered = sets.network.ordered(names)
    laws: dict[Scope, Floats] = {pair: Laws(cells).joint(pair) for pair in combinations(ordered, 2)}
    plain, records, _ = _draw_measured_pairs(sets, ordered, cells.draws or 1)
    if not plain:
        return laws
    errors = {pair: -laws[pair] for pair in plain}
    for chunk, codes in drawn_codes(cells, ordered, SIMULATED_RECORDS):
        for pair, error in errors.items():
            error[..., chunk] += _count_pairs(codes, pair, error.shape[:2]) / SIMULATED_RECORDS
    size = (SIMULATED_RECORDS / records) ** 0.5
    return move_pairs(laws, plain, {pair: error * size for pair, error in errors.items()})


def _draw_measured_pairs(
    sets: MeasuredSets, names: Scope, draws: int
) -> tuple[dict[Scope, Floats], int, np.random.Generator]:
    """Draw unbiased measured pairs; with the number of records and a generator. No pairs if the noise dominates."""
    pairs = [pair for pair in combinations(names, 2) if frozenset(pair) in sets.pairs]
    fitted, rng = sets.fit(pairs), sets.generator(names, PLAIN_STREAM)
    clear = all(_is_clear(fitted, name) for name in {name for pair in pairs for name in pair})
    return draw_plain_pairs(fitted, pairs, draws, rng) if clear else {}, max(1, round(fitted.total[0])), rng


def _is_clear(fitted: Margins, name: str) -> bool:
    """True if the number of records, and those in each state that is no bin, are well above their noise."""
    total, variance = fitted.total
    counts = [] if fitted.network.schema[name].numeric else fitted.table((name,)).tolist()
    return bool(min([total, *counts]) > CLEAR_NOISE_DEVIATIONS * max(variance**0.5, fitted.deviation((name,))))


def _count_pairs(codes: Mapping[str, Ints], pair: Scope, sizes: tuple[int, ...]) -> Floats:
    """Count the records of each draw by the states of a pair, shape `(*sizes, draws)`."""
    flat = codes[pair[0]] * sizes[1] + codes[pair[1]]
    cells = sizes[0] * sizes[1]
    counts = np.bincount((flat + cells * np.arange(len(flat))[:, None]).ravel(), minlength=cells * len(flat))
    return np.moveaxis(counts.reshape(-1, *sizes), 0, -1).astype(np.float64)


def draw_plain_pairs(
    margins: Margins, pairs: Sequence[Scope], draws: int, rng: np.random.Generator
) -> dict[Scope, Floats]:
    """Draw unbiased shares of records in the cells of pairs, with the error of the noise.

    Args:
        margins: least squares of all tables, with the interactions of the pairs and of their parts.
        pairs: of different variables; in the schema's order.
        draws: of the error of the noise.
        rng: draws them.

    Returns:
        By pair, shape `(*sizes, draws)`; cells may be negative, and sum to 1.
    """
    moved: dict[Scope, Floats] = {}
    for subset in subsets(pairs):
        values, deviation = margins.values[subset], math.sqrt(margins.variances[subset])
        moved[subset] = values[..., None] + deviation * rng.normal(size=(*values.shape, draws))
    shares = {}
    for pair in pairs:
        sizes = [margins.network.schema[name].size for name in pair]
        coordinates = np.zeros((*sizes, draws))
        for inside, index in positions(pair):
            share = margins.network.cells(inside) / math.prod(sizes)
            coordinates[index] = moved[inside].reshape(coordinates[index].shape) * math.sqrt(share)
        table = transformed(coordinates, contrast_matrices(sizes), back=True)
        shares[pair] = table / table.sum(axis=(0, 1))
    return shares


def move_to_pairs(
    law: Floats, names: Scope, pairs: Mapping[Scope, Floats], records: int, rng: np.random.Generator
) -> Floats:
    """Move laws to other margins of pairs.

    Args:
        law: of some variables under every draw, shape `(*sizes, draws)`.
        names: of its axes.
        pairs: see `draw_plain_pairs`; each of two of the names.
        records: whose sampling error is added, drawn from the law.
        rng: draws it.

    Returns:
        Shape as the law's; cells may be negative. What is added to a pair is spread like independent variables.
    """
    flat = np.clip(law.reshape(-1, law.shape[-1]), 0.0, None)
    drawn = rng.multinomial(records, (flat / flat.sum(axis=0)).T).T / records
    error = drawn.reshape(law.shape) - law
    wanted = {pair: table + margin(error, names, pair) for pair, table in pairs.items()}
    singles: dict[Scope, Floats] = {}
    for pair, table in wanted.items():
        singles.setdefault(pair[:1], table.sum(axis=1))
        singles.setdefault(pair[1:], table.sum(axis=0))
    alone = {name: margin(law, names, (name,)) for name in names}
    for single, share in singles.items():
        law = law + _spread_change(share - margin(law, names, single), names, single, alone)
        alone[single[0]] = share
    for pair, table in wanted.items():
        law = law + _spread_change(table - margin(law, names, pair), names, pair, alone)
    return law


def move_pairs(
    laws: Mapping[Scope, Floats], pairs: Mapping[Scope, Floats], errors: Mapping[Scope, Floats]
) -> dict[Scope, Floats]:
    """Move laws of pairs in the same way, where their joint law is too large.

    Args:
        laws: of all pairs under every draw, shape `(*sizes, draws)`.
        pairs: see `draw_plain_pairs`.
        errors: sampling errors of all pairs, those of one set of records for each draw; shapes as the laws'.

    Returns:
        By pair. Those that no table holds are moved in their margins alone.
    """
    joint = {pair: table + errors[pair] for pair, table in pairs.items()}
    singles: dict[str, Floats] = {}
    for (row, column), table in joint.items():
        singles.setdefault(row, table.sum(axis=1))
        singles.setdefault(column, table.sum(axis=0))
    for pair, law in laws.items():
        if pair not in joint:
            first, second = law.sum(axis=1), law.sum(axis=0)
            moved, last = singles.get(pair[0], first), singles.get(pair[1], second)
            joint[pair] = law + (moved - first)[:, None] * second + moved[:, None] * (last - second)
    return joint


def _spread_change(change: Floats, names: Scope, scope: Scope, alone: Mapping[str, Floats]) -> Floats:
    """Spread a change of a margin over all cells: times the shares of all other variables."""
    letters = {name: chr(ord("a") + axis) for axis, name in enumerate(names)}
    terms = ["".join(letters[name] for name in scope) + "z"]
    terms += [f"{letters[name]}z" for name in names if name not in scope]
    others = [alone[name] for name in names if name not in scope]
    return np.asarray(np.einsum(f"{','.join(terms)}->{''.join(letters.values())}z", change, *others, optimize=True))
