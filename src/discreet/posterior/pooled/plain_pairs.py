"""Unbiased pair margins for sums over many cells, in which the biases of single cells' priors would add up.

Posterior draws have no cell below 0 and raise cells without records, each a little, as an interval of that cell
requires. A covariance sums over all cells of a pair, and hundreds of raised cells bias it towards 0. Plain least
squares of the tables is unbiased, and the variance of its errors is known. The law of every pair that a table contains
is therefore replaced, in each draw, by

    the pair's table by least squares  +  a draw of the privacy noise's error  +  the sampling error of that many
    records from the draw's law,

divided by the number of records. Both errors come from one table for all pairs of a draw. Aspects of the law that pairs
do not determine stay as in the draw, and so do pairs that no table contains. Cells may be negative: such a law is meant
for sums over pairs.

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
"""Least count of a state, in standard deviations of the noise: one in 30,000 of its draws is below 0."""
SIMULATED_RECORDS = 2**12
"""Simulated records of each draw that give the sampling error, which is rescaled to the number of records."""
PLAIN_STREAM = 2
"""Stream of a set's generator for unbiased pairs."""


def move_without_bias(sets: MeasuredSets, law: Floats, names: Scope) -> Floats:
    """Move a law of some variables, in every draw, to unbiased estimates of its measured pairs.

    The pairs' shares are drawn by least squares with the error of noise (`draw_plain_pairs`), and the law is moved to
    them with the sampling error of the records (`move_to_pairs`). The law itself is returned if no table contains a
    pair, or if the number of records or a state's count, of a variable in a measured pair, is not well above its noise
    (CLEAR_NOISE_DEVIATIONS). Results are equal for equal arguments.

    Args:
        sets: measured sets of the posterior.
        law: probabilities, shape `(*sizes, draws)`; not changed.
        names: names of its axes.

    Returns:
        Shape of `law`; each draw sums to 1, and cells may be negative.
    """
    plain, records, rng = _draw_measured_pairs(sets, sets.network.ordered(names), law.shape[-1])
    return move_to_pairs(law, names, plain, records, rng) if plain else law


def find_pairs_without_bias(sets: MeasuredSets, cells: Tables, names: Iterable[str]) -> dict[Scope, Floats]:
    """Compute the laws of all pairs, moved to unbiased estimates, for variables whose joint law is too large.

    A pair that some table contains gets its unbiased shares by least squares with the error of noise
    (`draw_plain_pairs`), plus a sampling error. This is the error of SIMULATED_RECORDS records from each draw of
    `cells`, the same records for all pairs, times `sqrt(SIMULATED_RECORDS / records)`. Of other pairs only the margins
    are moved (`move_pairs`). The laws of `cells` are returned unmoved if no table contains a pair, or if the number of
    records or a state's count, of a variable in a measured pair, is not well above its noise (CLEAR_NOISE_DEVIATIONS).

    Args:
        sets: measured sets of the posterior.
        cells: rows of the joint law in every draw.
        names: different variables.

    Returns:
        Laws by pair, variables in the schema's order, shape `(*sizes, draws)`; the measured pairs come first if any is
        moved. Moved cells may be negative.

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
    # The standard deviation of a sampling error is proportional to 1 / sqrt(records).
    size = (SIMULATED_RECORDS / records) ** 0.5
    return move_pairs(laws, plain, {pair: error * size for pair, error in errors.items()})


def draw_plain(sets: MeasuredSets | None, names: Scope) -> Floats | None:
    """Draw unbiased shares of the records in the cells of a table, by least squares plus the error of noise.

    Each interaction of the table gets a normal error in every draw (`draw_plain_pairs`); the shares are divided by the
    drawn total. The generator is that of this set of variables, so equal arguments give equal draws.

    Args:
        sets: measured sets of the posterior; None if no tables were read.
        names: variables of the table.

    Returns:
        Shape `(*sizes, draws)`; cells may be negative. None if no table has all of the variables.
    """
    if sets is None or not any({*names} <= table for table in sets.tables):
        return None
    ordered = sets.network.ordered(names)
    fitted, rng = sets.fit([ordered]), sets.generator(ordered, PLAIN_STREAM)
    shares = draw_plain_pairs(fitted, [ordered], sets.draws, rng)[ordered]
    return np.moveaxis(shares, [ordered.index(name) for name in names], range(len(names)))


def _draw_measured_pairs(
    sets: MeasuredSets, names: Scope, draws: int
) -> tuple[dict[Scope, Floats], int, np.random.Generator]:
    """Draw unbiased laws of the measured pairs of some variables; none if a count is not well above its noise.

    Laws are least squares plus the error of noise (`draw_plain_pairs`). The variables of all these pairs must pass
    `_is_clear`.

    Args:
        sets: measured sets of the posterior.
        names: names of variables, in the schema's order.
        draws: number of draws.

    Returns:
        Laws by pair, shape `(*sizes, draws)`, empty also if no pair was measured; the estimated number of records,
        rounded, at least 1; the generator of this set of variables.
    """
    pairs = [pair for pair in combinations(names, 2) if frozenset(pair) in sets.pairs]
    fitted, rng = sets.fit(pairs), sets.generator(names, PLAIN_STREAM)
    clear = all(_is_clear(fitted, name) for name in {name for pair in pairs for name in pair})
    return draw_plain_pairs(fitted, pairs, draws, rng) if clear else {}, max(1, round(fitted.total[0])), rng


def _is_clear(fitted: Margins, name: str) -> bool:
    """True if the number of records and, unless the variable is numeric, each state's count are well above their noise.

    Well above: more than CLEAR_NOISE_DEVIATIONS (4) times the larger of the total's standard deviation and that of the
    variable's counts, all by plain least squares.
    """
    total, variance = fitted.total
    counts = [] if fitted.network.schema[name].numeric else fitted.table((name,)).tolist()
    return bool(min([total, *counts]) > CLEAR_NOISE_DEVIATIONS * max(variance**0.5, fitted.deviation((name,))))


def _count_pairs(codes: Mapping[str, Ints], pair: Scope, sizes: tuple[int, ...]) -> Floats:
    """Count the records of each draw by the states of a pair.

    Args:
        codes: codes of the states by variable, shape (draws, records).
        pair: both variables.
        sizes: their numbers of states.

    Returns:
        Whole numbers, float64, shape `(*sizes, draws)`.
    """
    flat = codes[pair[0]] * sizes[1] + codes[pair[1]]
    cells = sizes[0] * sizes[1]
    counts = np.bincount((flat + cells * np.arange(len(flat))[:, None]).ravel(), minlength=cells * len(flat))
    return np.moveaxis(counts.reshape(-1, *sizes), 0, -1).astype(np.float64)


def draw_plain_pairs(
    margins: Margins, pairs: Sequence[Scope], draws: int, rng: np.random.Generator
) -> dict[Scope, Floats]:
    """Draw unbiased shares of records in the cells of pairs: least squares plus the privacy noise's error.

    Each interaction gets one normal error a draw, which all pairs share, so that pairs agree on their margins. The
    drawn tables are divided by their drawn total.

    Args:
        margins: plain least squares of all tables, with the interactions of the pairs and of their subsets.
        pairs: pairs of different variables, in the schema's order.
        draws: number of draws of the error.
        rng: source of randomness.

    Returns:
        Shares by pair, shape `(*sizes, draws)`; cells may be negative, and sum to 1. Empty without pairs.
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
        shares[pair] = table / table.reshape(-1, draws).sum(axis=0)
    return shares


def move_to_pairs(
    law: Floats, names: Scope, pairs: Mapping[Scope, Floats], records: int, rng: np.random.Generator
) -> Floats:
    """Move laws to unbiased margins of pairs, with the sampling error of the records added.

    The wanted margin of a pair is its shares plus the error of `records` multinomial records from the law, less the
    law. First the margins of single variables are moved, each to that of the first pair with the variable, then those
    of pairs, one after the other. A change of a margin is spread over the other variables as if they were independent.

    Args:
        law: probabilities in every draw, shape `(*sizes, draws)`; not changed. Records are drawn from its cells raised
            to 0 and normalised.
        names: names of its axes.
        pairs: shares by pair, as `draw_plain_pairs` returns them; both variables of a pair are among the names.
        records: number of records whose sampling error is drawn from the law and added.
        rng: source of randomness.

    Returns:
        Shape of `law`; cells may be negative. Without pairs the law itself.
    """
    flat = np.clip(law.reshape(-1, law.shape[-1]), 0.0, None)
    # Sampling error of the records: multinomial shares less the law.
    drawn = rng.multinomial(records, (flat / flat.sum(axis=0)).T).T / records
    error = drawn.reshape(law.shape) - law
    wanted = {pair: table + margin(error, names, pair) for pair, table in pairs.items()}
    singles: dict[Scope, Floats] = {}
    for pair, table in wanted.items():
        singles.setdefault(pair[:1], table.sum(axis=1))
        singles.setdefault(pair[1:], table.sum(axis=0))
    # First single variables, then pairs: a later change of a pair leaves the margins of its variables.
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
    """Move laws of pairs to unbiased margins, for variables whose joint law is too large for `move_to_pairs`.

    A measured pair gets `pairs + errors`. Another pair is moved to the margins that its variables have in the first
    measured pair that contains them: first the row margin, whose change is multiplied by the old column margin, then
    the column margin, whose change is multiplied by the new row margin. A variable in no measured pair keeps its
    margin.

    Args:
        laws: laws of all pairs in every draw, shape `(*sizes, draws)`.
        pairs: shares of the measured pairs, as `draw_plain_pairs` returns them.
        errors: sampling errors of the measured pairs, shapes of the laws; in a draw they are those of one set of
            records.

    Returns:
        Laws by pair, the measured first; cells may be negative.
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
    """Spread the change of a margin over all cells: multiply it by the shares of all other variables.

    Args:
        change: change of the margin, shape `(*sizes of the scope, draws)`.
        names: names of the law's axes, at most 25.
        scope: variables of the margin, in the order of the change's axes.
        alone: shares of each variable's states, shape (size, draws).

    Returns:
        Change of the law, shape `(*sizes, draws)`; the margin of `scope` changes by `change` if the shares sum to 1.
    """
    letters = {name: chr(ord("a") + axis) for axis, name in enumerate(names)}
    terms = ["".join(letters[name] for name in scope) + "z"]
    terms += [f"{letters[name]}z" for name in names if name not in scope]
    others = [alone[name] for name in names if name not in scope]
    return np.asarray(np.einsum(f"{','.join(terms)}->{''.join(letters.values())}z", change, *others, optimize=True))
