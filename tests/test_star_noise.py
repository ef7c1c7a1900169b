"""Star noise has the law it says, in every step of its sampler, and that law costs what the calibration says.

False alarms: the exact source cannot be seeded; 4 chi-square tests at 1e-9, cells pooled until each expects 30 draws.
All else is seeded, scripted or exact.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import discreet as dc
from discreet.mechanisms.noise import ExactNoise, SimulatedNoise
from discreet.noise import star_noise as star_module
from discreet.noise.exact_draws import exponential_bounds
from discreet.noise.star import simulated_star, star_variances
from discreet.noise.star_noise import dimensions, star_noise, star_scale
from discreet.util.limits import STAR_DIMENSIONS
from folding import every
from goodness import fit

FALSE_ALARM = 1e-9
Lengths = tuple[int, ...]
CASES: list[tuple[Lengths, float, int]] = [
    ((1,), 1.5, 30), ((2, 2), 1.3, 20), ((2, 2), 0.3, 5), ((2, 3), 0.8, 12), ((1, 3), 1.0, 16), ((3, 2, 2), 0.5, 8),
]  # fmt: skip
"""Rows of a block, scale, and a norm beyond which less than 1e-3 of the mass lies."""


@cache
def rows_within(length: int, reach: int) -> np.ndarray:
    """All rows of that norm, at most."""
    every_one = np.array(list(itertools.product(range(-reach, reach + 1), repeat=length)))
    return np.asarray(every_one[np.abs(every_one).sum(axis=1) <= reach])


@cache
def law(lengths: Lengths, scale: float, reach: int) -> dict[tuple[int, ...], float]:
    """Probabilities of all blocks of norms up to `reach`, among these: slow and obvious, from the norm alone."""
    by_sum = [
        {total: rows[rows.sum(axis=1) == total].tolist() for total in range(-reach, reach + 1)}
        for rows in (rows_within(length, reach) for length in lengths)
    ]
    weights = {}
    for total in range(-reach, reach + 1):
        for rows in itertools.product(*(found[total] for found in by_sum)):
            norm = max(sum(map(abs, row)) for row in rows)
            weights[tuple(itertools.chain(*rows))] = math.exp(-norm / scale)
    whole = sum(weights.values())
    return {block: weight / whole for block, weight in weights.items()}


def norm(block: np.ndarray, lengths: Lengths) -> np.ndarray:
    """Norms of blocks, shape (blocks, cells)."""
    parts = np.split(np.abs(block), np.cumsum(lengths)[:-1], axis=1)
    return np.asarray(np.max([part.sum(axis=1) for part in parts], axis=0))


def block_fit(drawn: np.ndarray, lengths: Lengths, scale: float, reach: int, within: float = 0.99) -> float:
    """Fit of blocks to their law, given that the norm is at most `reach`."""
    kept = drawn[norm(drawn, lengths) <= reach]
    assert len(kept) > within * len(drawn)
    right = law(lengths, scale, reach)
    place = {block: index for index, block in enumerate(right)}
    found = [place[block] for block in map(tuple, kept.tolist())]
    return fit(np.bincount(found, minlength=len(right)), np.array(list(right.values())))


@cache
def drawn(lengths: Lengths, scale: float, blocks: int = 4000, seed: int = 2026) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate(star_noise(SimulatedNoise(rng), rng.bytes, blocks, lengths, scale), axis=1)


# ------------------------------------------------------------------------------------------------------------ the law


@pytest.mark.costly("The law of noise that tables share shows in thousands of blocks.", always=True)
@every(("lengths", "scale", "reach"), CASES)
def test_blocks_have_their_law(lengths: Lengths, scale: float, reach: int) -> None:
    assert block_fit(drawn(lengths, scale), lengths, scale, reach) > FALSE_ALARM


@pytest.mark.system_noise
@every(("lengths", "scale", "reach"), CASES[1:5])
def test_blocks_have_their_law_from_the_operating_systems_entropy(lengths: Lengths, scale: float, reach: int) -> None:
    blocks = star_noise(ExactNoise(), os.urandom, 400, lengths, scale)
    assert block_fit(np.concatenate(blocks, axis=1), lengths, scale, reach, 0.95) > FALSE_ALARM


@pytest.mark.costly("A fit that notices nothing would pass every sampler.", always=True)
@pytest.mark.parametrize(
    ("lengths", "scale", "reach"),
    [CASES[1], CASES[3], *(pytest.param(*CASES[other], marks=pytest.mark.thorough) for other in (2, 4, 5))],
)
def test_the_fit_notices_another_law(lengths: Lengths, scale: float, reach: int) -> None:
    """What the tests above must not let through: another scale, and a row that belongs to the block before.

    Of 4,000 blocks a machine whose floats round otherwise once drew some that fit the law by 3e-8.
    """
    draws = drawn(lengths, scale, 12_000)
    at = np.r_[0 : lengths[0]]
    # Of equal sums, or they would be outside the law at once.
    totals = draws[:, at].sum(axis=1)
    order = np.lexsort((np.random.default_rng(1).random(len(draws)), totals))
    mixed = draws.copy()
    mixed[np.lexsort((np.random.default_rng(2).random(len(draws)), totals))[:, None], at] = draws[order][:, at]
    assert block_fit(drawn(lengths, 1.3 * scale, 12_000), lengths, scale, reach, 0.5) < FALSE_ALARM
    if min(lengths) > 1 and scale > 0.5:
        assert block_fit(mixed, lengths, scale, reach) < FALSE_ALARM


def test_blocks_are_independent() -> None:
    """Two blocks of one call, each of norm 0 or not: a table of four, against the product."""
    rng = np.random.default_rng(3)
    pairs = np.array([star_noise(SimulatedNoise(rng), rng.bytes, 2, (2, 2), 0.5) for _ in range(3000)])
    quiet = (np.abs(pairs).max(axis=(1, 3)) == 0).astype(int)
    chance = law((2, 2), 0.5, 12)[0, 0, 0, 0]
    found = np.bincount(2 * quiet[:, 0] + quiet[:, 1], minlength=4)
    assert fit(found, np.outer([1 - chance, chance], [1 - chance, chance]).ravel()) > FALSE_ALARM


# ---------------------------------------------------------------------------------------------------------- privacy


@every("lengths", [(1,), (2, 2), (2, 3), (3, 2, 2)])
def test_no_record_moves_the_law_by_more_than_the_cost(lengths: Lengths) -> None:
    """Every block of norm up to 6 and every record, in its block or in another: the loss is 1 / scale, and reached."""
    scale, reach = 0.7, 4 if len(lengths) > 2 else 6
    weights = law(lengths, scale, reach + 2)
    ends = np.cumsum(lengths)
    records = [
        tuple(np.bincount(ends - lengths + picked, minlength=ends[-1]).tolist())
        for picked in itertools.product(*map(range, lengths))
    ]
    largest = {1: 0.0, 2: 0.0}
    for block, weight in weights.items():
        if norm(np.array([block]), lengths)[0] > reach:
            continue
        added = [weights[tuple(map(sum, zip(block, record, strict=True)))] for record in records]
        largest[1] = max(largest[1], *(abs(math.log(weight / other)) for other in added))
        largest[2] = max(largest[2], math.log(max(added) / min(added)))
    assert largest[1] == pytest.approx(1 / scale)
    assert largest[2] <= 2 / scale + 1e-12
    assert (len(lengths) == 1 and lengths == (1,)) or largest[2] == pytest.approx(2 / scale)


@every("lengths", [(2, 2), (2, 3), (3, 2, 2)])
def test_the_norm_is_the_gauge_of_what_records_add(lengths: Lengths) -> None:
    """No smaller body holds all records: the least weight of records, added or taken, that make up a block."""
    ends = np.cumsum(lengths)
    records = np.array([
        np.bincount(ends - lengths + picked, minlength=ends[-1]) for picked in itertools.product(*map(range, lengths))
    ])  # fmt: skip
    rng = np.random.default_rng(13)
    for _ in range(30):
        block = rng.integers(-4, 5, len(records)) @ records
        least = linprog(np.ones(2 * len(records)), A_eq=np.concatenate([records, -records]).T, b_eq=block)
        assert least.fun == pytest.approx(float(norm(block[None], lengths)[0]))


@given(st.integers(1, 2), st.fractions("1/10000", 80), st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_scale_costs_no_more_than_its_budget(moved: int, epsilon: Fraction, lengths: list[int]) -> None:
    scale, cost = star_scale(moved, epsilon, lengths)
    assert cost == moved / Fraction(scale) <= epsilon
    assert scale == 1 / 64 or cost >= epsilon * (1 - Fraction(1, 10**15))


@every(
    ("call", "message"),
    [
        (lambda: star_scale(1, Fraction(0), [2]), "greater than 0"),
        (lambda: star_scale(1, Fraction(1), [2] * 256), "257 dimensions: expected at most 256"),
        (lambda: star_scale(1, Fraction(1, 2**52), [2, 2]), "too small"),
        (lambda: star_noise(ExactNoise(), os.urandom, 1, [2, 2], 2.0**52), "at most"),
        (lambda: star_scale(1, Fraction(1), []), "needs tables"),
        (lambda: star_scale(1, Fraction(1), [2, 0]), "at least one cell"),
        (lambda: star_noise(ExactNoise(), os.urandom, 1, [2, 2], 1 / 65), "at least"),
        (lambda: star_noise(ExactNoise(), os.urandom, 1, [2, 2], math.nan), "at least"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call: object, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        call()  # type: ignore[operator]


# ---------------------------------------------------------------------------------------------- steps of the sampler


def brute_rows(length: int, a: int, b: int) -> list[tuple[int, ...]]:
    """All rows with positive entries up to a, negative ones up to b, and the sum a - b."""
    return [
        row
        for row in itertools.product(range(-b, a + 1), repeat=length)
        if sum(row) == a - b and sum(max(entry, 0) for entry in row) <= a
    ]


@every("length", [1, 2, 3, 4])
def test_rows_are_counted(length: int) -> None:
    for a, b in itertools.product(range(5), repeat=2):
        found = len(brute_rows(length, a, b))
        assert star_module._count_rows((length,), a, b) == found
        assert star_module._count_rows((length, 2, length), a, b) == found**2 * (a + b + 1)


@every("length", [2, 5, 12, 40])
def test_both_sums_agree_and_are_largest_in_the_middle(length: int) -> None:
    for n in (1, 2, 7, 30, 61):
        by_a = [star_module._count_rows((length,), a, n - a) for a in range(n + 1)]
        assert by_a == [
            sum(
                math.comb(length - 1, j) * math.comb(a, j) * math.comb(n - a + length - 1 - j, n - a)
                for j in range(length)
            )
            for a in range(n + 1)
        ]
        assert by_a == by_a[::-1] and by_a[: n // 2 + 1] == sorted(by_a[: n // 2 + 1])


@every("lengths", [(1,), (2, 2), (2, 3), (3, 2, 2), (5, 4), (2,) * 9, (1, 1, 6)])
def test_numerators_make_the_series_of_all_counts(lengths: Lengths) -> None:
    """Beyond the counts that they were found from, too."""
    size, found = dimensions(lengths), star_module._count_numerators(tuple(lengths))
    for n in range(3 * size):
        counted = sum(star_module._count_rows(lengths, a, n - a) for a in range(n + 1))
        assert counted == sum(h * math.comb(n - i + size, size) for i, h in found if i <= n)


def test_numerators_are_those_of_known_polytopes() -> None:
    """Two rows of two cells are a cube of three dimensions, k rows one of k + 1: Eulerian numbers."""
    assert dict(star_module._count_numerators((2, 2))) == {0: 1, 1: 4, 2: 1}
    assert [h for _, h in star_module._count_numerators((2, 2, 2))] == [1, 11, 11, 1]
    assert [h for _, h in star_module._count_numerators((2, 2, 3))] == [1, 18, 42, 18, 1]


@every(("length", "a", "b"), [(1, 2, 3), (2, 3, 2), (3, 2, 1), (3, 0, 3), (4, 2, 2), (3, 4, 0)])
def test_rows_are_even(length: int, a: int, b: int) -> None:
    entropy, possible = np.random.default_rng(4).bytes, brute_rows(length, a, b)
    place = {row: index for index, row in enumerate(possible)}
    found = [place[tuple(star_module._draw_row(entropy, length, a, b))] for _ in range(60 * len(possible))]
    counts = np.bincount(found, minlength=len(possible))
    assert len(possible) == 1 or fit(counts, np.full(len(possible), 1 / len(possible))) > FALSE_ALARM


@every(("lengths", "n"), [((2, 2), 4), ((3, 3), 5), ((4, 2, 6), 9), ((5,), 0)])
def test_the_positive_sum_weighs_the_rows_it_leaves(lengths: Lengths, n: int) -> None:
    entropy = np.random.default_rng(5).bytes
    found = [star_module._draw_positive(entropy, lengths, n) for _ in range(6000)]
    weights = np.array([float(star_module._count_rows(lengths, a, n - a)) for a in range(n + 1)])
    assert n == 0 or fit(np.bincount(found, minlength=n + 1), weights / weights.sum()) > FALSE_ALARM


@every(("lengths", "scale"), [((2, 2), 0.4), ((3, 2, 2), 1.5), ((4, 4), 6.0), ((2,) * 30, 0.3), ((9, 12), 0.15)])
def test_the_first_part_of_the_radius_has_its_weights(lengths: Lengths, scale: float) -> None:
    ways = star_module._tabulate_law(tuple(lengths), scale)
    entropy = np.random.default_rng(6).bytes
    found = [ways.numerator(entropy) for _ in range(6000)]
    logs = np.array([math.log(h) - i / scale for i, h in star_module._count_numerators(tuple(lengths))])
    weights = np.exp(logs - logs.max())
    assert fit(np.bincount(found, minlength=len(weights)), weights / weights.sum()) > FALSE_ALARM
    assert ways.numerators == tuple(h for _, h in star_module._count_numerators(tuple(lengths)))


def test_bounds_are_refined_where_a_draw_falls_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds of few digits the law is the same: more are drawn, and proposals beyond the exponential refused."""
    monkeypatch.setattr(star_module, "ENCLOSURE_BITS", -5)
    star_module._tabulate_law.cache_clear()
    try:
        lengths, scale = (3, 2, 2), 1.5
        ways = star_module._tabulate_law(lengths, scale)
        assert ways.bits == 1
        entropy = np.random.default_rng(7).bytes
        found = [ways.numerator(entropy) for _ in range(6000)]
        logs = np.array([math.log(h) - i / scale for i, h in star_module._count_numerators(lengths)])
        weights = np.exp(logs - logs.max())
        assert fit(np.bincount(found, minlength=len(weights)), weights / weights.sum()) > FALSE_ALARM
    finally:
        star_module._tabulate_law.cache_clear()


@pytest.mark.costly("Samplers fail at the ends of scales and lengths only, which take seconds to draw.", always=True)
@every(("lengths", "scale"), [((2, 2), 1 / 64), ((2,) * 255, 1 / 64), ((2, 5), 2.0**48), ((30, 40), 200.0)])
def test_extreme_stars_are_drawn(lengths: Lengths, scale: float) -> None:
    tables = star_noise(ExactNoise(), os.urandom, 2, lengths, scale)
    assert [table.shape for table in tables] == [(2, length) for length in lengths]
    sums = np.array([table.sum(axis=1) for table in tables])
    assert (sums == sums[0]).all() and all(table.dtype == np.int64 for table in tables)
    quiet = max(np.abs(table).max() for table in tables) == 0
    assert quiet == (scale < 0.1 and len(lengths) == 2)  # many tables have many ways to be off by one


def test_the_first_bounds_have_many_digits_of_the_smallest_exponential() -> None:
    ways = star_module._tabulate_law((2,) * 200, 0.1)
    assert exponential_bounds(Fraction(200) / Fraction(0.1), ways.bits)[0] > 2**60


def test_a_star_may_have_so_many_dimensions() -> None:
    assert dimensions([2] * (STAR_DIMENSIONS - 1)) == STAR_DIMENSIONS
    assert star_scale(1, Fraction(1), [2] * (STAR_DIMENSIONS - 1))[0] == 1


# -------------------------------------------------------------------------------------------------------- variances


def series(moment: Callable[[int, int], int], degree: int, q: float) -> float:
    """Sum over a and b of `q^(a + b)` times a moment whose sums over a + b = n are a polynomial of that degree."""
    values = [sum(moment(a, n - a) for a in range(n + 1)) for n in range(degree + 1)]
    signed = [(-1) ** k * math.comb(degree + 1, k) for k in range(degree + 2)]
    tops = [sum(signed[k] * values[n - k] for k in range(n + 1)) for n in range(degree + 1)]
    return sum(top * q**n for n, top in enumerate(tops)) / (1 - q) ** (degree + 1)


def square(length: int, a: int, b: int) -> int:
    """Sum over all rows of the square of their first entry."""
    if length == 1:
        return (a - b) ** 2
    return sum(z * z * star_module._count_rows((length - 1,), a - max(z, 0), b + min(z, 0)) for z in range(-b, a + 1))


def exact_variances(lengths: Lengths, scale: float) -> tuple[float, list[float]]:
    """Of integers: moments of rows are polynomials of the radius, too."""
    q, size = math.exp(-1 / scale), dimensions(lengths)
    number = series(lambda a, b: star_module._count_rows(lengths, a, b), size, q)
    shared = series(lambda a, b: (a - b) ** 2 * star_module._count_rows(lengths, a, b), size + 2, q) / number
    rows = []
    for place, length in enumerate(lengths):
        others = lengths[:place] + lengths[place + 1 :]

        def squares(a: int, b: int, length: int = length, others: Lengths = others) -> int:
            return square(length, a, b) * star_module._count_rows(others, a, b)

        cell = series(squares, size + 2, q) / number
        rows.append((length * cell - shared / length) / (length - 1) if length > 1 else shared)
    return shared, rows


@every("lengths", [(1,), (2, 2), (3, 2), (4, 4), (2, 3, 3, 6), (2,) * 8, (1, 5)])
def test_variances_are_those_of_large_scales(lengths: Lengths) -> None:
    """Integers vary less, and by no more than the docstring says."""
    for scale, off in ((1.0, 0.08), (2.0, 0.022), (4.0, 0.006), (64.0, 3e-5)):
        found, (shared, rows) = star_variances(lengths, scale), exact_variances(lengths, scale)
        for ours, right in zip((found.shared, *found.rows), (shared, *rows), strict=True):
            assert ours * (1 - off) <= right <= ours * (1 + 1e-9)


def test_one_table_alone_has_independent_noise() -> None:
    for length in (2, 3, 10):
        found = star_variances((length,), 3.0)
        assert found.shared == pytest.approx(18 * length) and found.rows == (pytest.approx(18.0),)


def test_rows_of_two_cells_of_many_tables_cost_little() -> None:
    """Of six tables with rows of two cells at one budget; composition would have 72."""
    assert star_variances((2,) * 6, 1.0).rows == (pytest.approx(12.0),) * 6


@every("lengths", [(2, 3), (4, 1, 3), (2,) * 5])
def test_simulated_stars_have_the_same_moments(lengths: Lengths) -> None:
    """Within 6 standard errors of 40,000 blocks, from a fixed seed."""
    tables = simulated_star(lengths, 3.0, (400, 100), np.random.default_rng(11))
    right = star_variances(lengths, 3.0)
    totals = np.array([table.sum(axis=0) for table in tables])
    assert np.abs(totals - totals[0]).max() < 1e-9
    squares = totals[0] ** 2
    assert abs(squares.mean() - right.shared) < 6 * squares.std() / 200
    for table, length, rows in zip(tables, lengths, right.rows, strict=True):
        assert table.shape == (length, 400, 100)
        for cell in table:
            wanted = ((length - 1) * rows + right.shared / length) / length if length > 1 else right.shared
            assert abs((cell**2).mean() - wanted) < 6 * (cell**2).std() / 200


def test_simulated_stars_have_the_law_of_large_scales() -> None:
    """The norm of a block is a Gamma(d + 1) less the slack: quantiles of both samplers agree at scale 40."""
    lengths, scale = (2, 3, 2), 40.0
    exact = norm(drawn(lengths, scale), lengths) / scale
    real = simulated_star(lengths, scale, (6000,), np.random.default_rng(12))
    simulated = norm(np.concatenate(real).T, lengths) / scale
    for share in (0.1, 0.5, 0.9):
        a, b = np.quantile(exact, share), np.quantile(simulated, share)
        assert abs(a - b) < 0.2
