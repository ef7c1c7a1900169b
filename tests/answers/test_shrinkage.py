"""Rows of a family given their totals: the chains against enumeration, and what a row's prior is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from discreet.inference.interactions import contrast_matrices, transformed
from discreet.posterior.pooled import shrinkage
from discreet.posterior.pooled.cell_weights import COMPONENTS, concentrations
from discreet.posterior.pooled.row_means import RowMeans
from discreet.posterior.pooled.shrinkage import (
    DOUBT_SHARE,
    FILLED_RECORDS,
    ONE_SIDED_CONCENTRATION,
    RowDoubt,
    RowDraws,
    draw_rows,
)

DRAWS, MANY = 8_000, 200_000
"""Of a quick test, and of a slow one."""
FALSE_ALARM = 1e-9
BIAS = 0.005
"""What the sweeps of a chain may leave; measured below 0.002 in these cases."""
SIGMAS = 6.5
EVEN = np.full(COMPONENTS, 1 / COMPONENTS)


def splits(total: int, states: int) -> Iterator[tuple[int, ...]]:
    """Every way to split some records among states."""
    if states == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in splits(total - first, states - 1):
            yield first, *rest


def tables_of(shape: tuple[int, ...], totals: np.ndarray) -> np.ndarray:
    """Every table with these row totals, shape (tables, *shape)."""
    rows = product(*(list(splits(int(total), shape[-1])) for total in totals.ravel()))
    return np.array([np.reshape(row, shape) for row in rows])


def likelihood(tables: np.ndarray, values: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Logarithm, of each table; coordinates that tell row totals are left out."""
    last = np.moveaxis(tables.astype(float), 0, -1)
    coordinates = np.moveaxis(transformed(last, contrast_matrices(values.shape)), -1, 0)[..., 1:]
    return -0.5 * ((coordinates - values[..., 1:]) ** 2 / variances[..., 1:]).reshape(len(tables), -1).sum(axis=1)


def dirichlet_multinomial(tables: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Logarithm, of each row of each table, shape (tables, *parents)."""
    totals, a = tables.sum(axis=-1), alpha.sum(axis=-1)
    cells = gammaln(tables + alpha) - gammaln(alpha) - gammaln(tables + 1)
    return np.asarray(cells.sum(axis=-1) + gammaln(totals + 1) + gammaln(a) - gammaln(totals + a))


def normalised(logs: np.ndarray) -> np.ndarray:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def draw(values: np.ndarray, variances: np.ndarray, totals: np.ndarray, alpha: np.ndarray, draws: int) -> RowDraws:
    repeated = np.repeat(totals[..., None], draws, axis=-1)
    return draw_rows(values, variances, repeated, EVEN, np.random.default_rng(0), alpha=alpha)


def check_law(found: RowDraws, tables: np.ndarray, law: np.ndarray) -> None:
    """Total variation of the counts.

    Each cell's share has a mean error of at most its deviation; by McDiarmid the sum is more than `t` above its mean
    with probability `exp(-2 t^2 draws)`.
    """
    draws = found.counts.shape[-1]
    base = (int(tables.max()) + 1) ** np.arange(tables[0].size)
    keys, drawn = tables.reshape(len(tables), -1) @ base, base @ found.counts.reshape(-1, draws)
    assert np.isin(drawn, keys).all()
    ordering = np.argsort(keys)
    seen = np.bincount(ordering[np.searchsorted(keys[ordering], drawn)], minlength=len(tables))
    distance = 0.5 * float(np.abs(seen / draws - law).sum())
    expected = 0.5 * float(np.sqrt(law * (1 - law) / draws).sum())
    assert distance < expected + math.sqrt(math.log(1 / FALSE_ALARM) / 2 / draws) + BIAS


def check_theta(found: RowDraws, tables: np.ndarray, law: np.ndarray, alphas: list[tuple[float, np.ndarray]]) -> None:
    """First and second moments of the probabilities: mixtures of Dirichlet laws, by component and table."""
    first, second = np.zeros(tables.shape[1:]), np.zeros(tables.shape[1:])
    for weight, alpha in alphas:
        after = alpha + tables
        total = after.sum(axis=-1, keepdims=True)
        share = (weight * law).reshape(-1, *(1,) * (tables.ndim - 1))
        first += (share * after / total).sum(axis=0)
        second += (share * after * (after + 1) / total / (total + 1)).sum(axis=0)
    np.testing.assert_allclose(found.theta.sum(axis=-2), 1, rtol=1e-12)
    draws = found.theta.shape[-1]
    for power, exact in ((1, first), (2, second)):
        error = (found.theta**power).std(axis=-1) / math.sqrt(draws)
        assert np.all(np.abs((found.theta**power).mean(axis=-1) - exact) < SIGMAS * error + BIAS)
    # Averages of conditional means have less error than the draws themselves.
    spread = found.theta.std(axis=-1) / math.sqrt(draws)
    assert np.all(np.abs(found.mean - first) < SIGMAS * spread + BIAS)
    np.testing.assert_allclose(found.mean.sum(axis=-1), 1, rtol=1e-12)


CASES = {
    "one row of two": ((2,), 8, 0.25, 2.0, 0),
    "one row of three": ((3,), 7, 0.25, 3.0, 1),
    "sparse": ((3,), 6, 0.01, 5.0, 2),
    "dense": ((2,), 8, 500.0, 2.0, 3),
    "unequal": ((3,), 6, (0.1, 1.0, 9.0), 5.0, 4),
    "nothing known": ((3,), 6, 1.0, 1e6, 5),
    "nearly known": ((2,), 8, 0.25, 0.05, 6),
    "two rows apart": ((2, 2), (5, 8), 0.25, 4.0, 7),
    "two rows, pooled": ((2, 2), (6, 7), 0.25, ((1.0, 0.7), (1.0, 3.0)), 8),
    "two rows, pooled the other way": ((2, 2), (6, 7), 0.5, ((1.0, 3.0), (1.0, 0.7)), 9),
    "two rows of three": ((2, 3), (3, 4), 0.25, ((1.0, 1.0, 1.0), (1.0, 2.5, 2.5)), 10),
    "two parents": ((2, 2, 2), (3, 2, 0, 4), 0.25, (((1, 0.5), (1, 2)), ((1, 1), (1, 3))), 11),
    "an empty row": ((2, 2), (0, 8), 0.25, 2.0, 12),
    "one-state parent": ((1, 3), (6,), 0.25, 2.0, 13),
    "no records": ((2, 2), (0, 0), 0.25, 2.0, 14),
    "many records": ((2,), 900, 100.0, (0.3, 20.0), 15),
    "many records, nearly known": ((2,), 3_000, 1e-5, 2.0, 16),
    "wide": ((2,), 1_500, 1e5, (0.2, 0.4), 17),
    "far from the ends": ((3,), 150, 0.5, 16.0, 19),
    "far from the ends, another prior": ((2,), 2_000, (3.0, 0.5), 900.0, 19),
}


@pytest.mark.parametrize("draws", [DRAWS, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_the_law_under_a_dirichlet_prior_is_that_of_enumeration(case: str, draws: int) -> None:
    shape, given_totals, given_alpha, given_variances, seed = CASES[case]
    totals = np.reshape(given_totals, shape[:-1])
    alpha, variances = np.broadcast_to(given_alpha, shape), np.broadcast_to(given_variances, shape).astype(float)
    tables = tables_of(shape, totals)
    rng = np.random.default_rng(seed)
    truth = tables[rng.integers(len(tables))].astype(float)
    values = transformed(truth, contrast_matrices(shape)) + np.sqrt(variances) * rng.normal(size=shape)
    # What the coordinates say of row totals must not count.
    values[..., 0] = 1e6
    law = normalised(
        likelihood(tables, values, variances)
        + dirichlet_multinomial(tables, alpha).reshape(len(tables), -1).sum(axis=1)
    )
    found = draw(values, variances, totals, np.asarray(alpha, float), draws)
    check_law(found, tables, law)
    check_theta(found, tables, law, [(1.0, np.asarray(alpha, float))])
    assert found.counts.dtype == np.int64 and not found.usage.any()


@pytest.mark.parametrize(
    ("exact", "noisy"),
    [
        (5.0, 100.0),
        (0.5, 50.0),
        (1.0, 500.0),
        (0.02, 10.0),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_errors_of_very_different_sizes(exact: float, noisy: float, backwards: bool) -> None:
    """The child's margin is known well, its dependence on the parent badly, or the other way round."""
    totals = np.array([30, 30])
    variances = np.array([[1.0, noisy], [1.0, exact]] if backwards else [[1.0, exact], [1.0, noisy]])
    alpha, tables = np.full((2, 2), 0.25), tables_of((2, 2), totals)
    values = transformed(np.array([[20.0, 10.0], [12.0, 18.0]]), contrast_matrices((2, 2)))
    law = normalised(likelihood(tables, values, variances) + dirichlet_multinomial(tables, alpha).sum(axis=1))
    found = draw(values, variances, totals, alpha, 4000)
    spread = np.sqrt(law @ (tables - np.tensordot(law, tables, 1)).reshape(len(tables), -1) ** 2)
    np.testing.assert_allclose(found.counts.reshape(-1, 4000).std(axis=-1), spread, rtol=0.1)


# ------------------------------------------------------------------------------------------------- the learned prior


def components(states: int) -> list[np.ndarray]:
    """Concentrations of a row of which no other row tells anything."""
    back_off = [np.full(states, 4.0**power / states) for power in range(-3, 5)]
    return back_off + [np.full(states, 4.0**power) for power in range(-2, 1)]


@pytest.mark.parametrize("draws", [DRAWS, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("states", "total", "variance"), [(2, 8, 3.0), (3, 6, 2.0), (2, 8, 1e6)])
def test_the_law_of_a_single_row_under_the_learned_prior(states: int, total: int, variance: float, draws: int) -> None:
    """A row alone picks each component with its prior mean weight: a finite mixture."""
    assert len(components(states)) == COMPONENTS
    weights = np.linspace(1, 3, COMPONENTS)
    weights /= weights.sum()
    tables = tables_of((states,), np.array(total))
    rng = np.random.default_rng(states)
    values = transformed(tables[-2].astype(float), contrast_matrices((states,))) + math.sqrt(min(variance, 9)) * (
        rng.normal(size=states)
    )
    variances = np.full(states, variance)
    logs = np.stack(
        [np.log(w) + dirichlet_multinomial(tables, a) for w, a in zip(weights, components(states), strict=True)]
    )
    joint = normalised(logs + likelihood(tables, values, variances))
    found = draw_rows(values, variances, np.full(draws, total), weights, np.random.default_rng(1))
    check_law(found, tables, joint.sum(axis=0))
    share = joint.sum(axis=0)
    alphas = list(zip(joint / share, components(states), strict=True))
    first = sum((w * share)[:, None] * (a + tables) / (a.sum() + total) for w, a in alphas).sum(axis=0)
    second = sum(
        (w * share)[:, None] * (a + tables) * (a + tables + 1) / (a.sum() + total) / (a.sum() + total + 1)
        for w, a in alphas
    ).sum(axis=0)
    draws = found.theta.shape[-1]
    for power, exact in ((1, first), (2, second)):
        error = (found.theta**power).std(axis=-1) / math.sqrt(draws)
        assert np.all(np.abs((found.theta**power).mean(axis=-1) - exact) < SIGMAS * error + BIAS)
    # Components: averaged over ten sweeps of each chain, so at most the error of the last one alone.
    error = SIGMAS * np.sqrt(joint.sum(axis=1) / draws)
    assert np.all(np.abs(found.usage - joint.sum(axis=1)) < error + BIAS)
    assert found.usage.sum() == pytest.approx(1)


def means_of(counts: np.ndarray, sweeps: int = 1) -> np.ndarray:
    """Means of the rows' priors, shape `(*parents, child, draws)`, in double precision."""
    own = np.moveaxis(counts.astype(float), -2, 0)
    means, rng = RowMeans(own.sum(axis=0), len(own)), np.random.default_rng(5)
    return np.moveaxis([means.renew(own, rng) for _ in range(sweeps)][-1], 0, -2)


def test_without_parents_the_mean_is_even() -> None:
    np.testing.assert_array_equal(means_of(np.array([[5], [0]])), [[0.5], [0.5]])


def test_of_one_parent_the_mean_is_what_other_rows_say() -> None:
    """Beside one record that is spread evenly."""
    counts = np.random.default_rng(5).integers(0, 9, (4, 3, 2))
    others = counts.sum(axis=0) - counts
    np.testing.assert_allclose(means_of(counts), (others + 1 / 3) / (others.sum(axis=-2, keepdims=True) + 1))


@pytest.mark.parametrize("sizes", [(4, 5), (3, 4, 2), (3, 1, 4)])
def test_effects_of_parents_one_by_one_are_not_pulled(sizes: tuple[int, ...]) -> None:
    """Rows whose log odds are sums of what each parent does: with 100,000 records each they are their own mean."""
    rng, states = np.random.default_rng(6), 3
    logs = np.zeros((*sizes, states))
    for axis, size in enumerate(sizes):
        logs += 1.2 * rng.normal(size=(*(size if axis == other else 1 for other in range(len(sizes))), states))
    laws = np.exp(logs) / np.exp(logs).sum(axis=-1, keepdims=True)
    found = means_of(np.rint(1e5 * laws)[..., None], 20)[..., 0]
    np.testing.assert_allclose(found, laws, atol=0.002)


def test_of_three_parents_what_two_do_together_is_not_pulled() -> None:
    rng, sizes, states = np.random.default_rng(7), (3, 4, 3), 3
    logs = np.zeros((*sizes, states))
    for axis in range(3):
        logs += 0.8 * rng.normal(size=(*(1 if axis == other else size for other, size in enumerate(sizes)), states))
    laws = np.exp(logs) / np.exp(logs).sum(axis=-1, keepdims=True)
    found = means_of(np.rint(1e5 * laws)[..., None], 20)[..., 0]
    np.testing.assert_allclose(found, laws, atol=0.01)


def test_rows_that_are_equal_but_for_chance_have_one_mean() -> None:
    """Twelve rows of 400 records: slices pick many pseudo-records, and are not further apart than chance."""
    counts = np.random.default_rng(8).multinomial(400, (0.6, 0.3, 0.1), size=(3, 4))[..., None]
    found = means_of(np.repeat(counts, 50, axis=-1), 10).mean(axis=-1)
    assert np.abs(found - (0.6, 0.3, 0.1)).max() < 3 * math.sqrt(0.24 / 4800)


@pytest.mark.parametrize(("sizes", "change"), [((6,), 1e-12), ((4, 5), 0.06), ((3, 4, 3), 0.2)])
def test_a_row_hardly_tells_its_own_prior(sizes: tuple[int, ...], change: float) -> None:
    """One row goes to one state with all its records: from .2 to 1; others follow, and by them its mean a little."""
    counts = np.broadcast_to(np.array([200, 300, 500])[:, None], (*sizes, 3, 40)).copy()
    changed = counts.copy()
    row = (1,) * len(sizes)
    changed[row] = np.array([1000, 0, 0])[:, None]
    before, after = (means_of(table, 20).mean(axis=-1) for table in (counts, changed))
    assert np.abs(after[row] - before[row]).max() < change
    others = after - before
    others[row] = 0
    assert np.abs(others).max() > 1e-3


@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_means_are_laws(sizes: list[int], states: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 50, (*sizes, states, 2)) * rng.integers(0, 2, (*sizes, 1, 2))
    found = means_of(counts, 3)
    assert found.min() > 0
    np.testing.assert_allclose(found.sum(axis=-2), 1, atol=states * 1e-6)


def test_components_are_picked_with_their_probabilities() -> None:
    """Three rows of counts, 100,000 draws of each: within 6.5 standard errors, 33 numbers, below 1e-8."""
    states, draws = 3, 100_000
    rows = np.array([[7, 0, 0], [2, 3, 1], [0, 0, 0]])
    means = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]])
    weights = np.linspace(1, 3, COMPONENTS) / np.linspace(1, 3, COMPONENTS).sum()
    counts, mean = np.repeat(rows[..., None], draws, -1), np.repeat(means[..., None], draws, -1)
    prior = shrinkage._RowPrior.of(weights, counts.sum(axis=1).astype(float), states)
    given = (np.moveaxis(table, 1, 0).astype(float) for table in (counts, mean))
    positions, usage = prior.pick(*given, np.repeat(weights[:, None], draws, 1), np.random.default_rng(2))
    a = np.moveaxis(concentrations(positions), 0, 1)
    assert a.shape == counts.shape and usage.shape == (COMPONENTS, draws)
    np.testing.assert_array_equal(usage.sum(axis=0), 3)
    summed = np.zeros(COMPONENTS)
    for j, row in enumerate(rows):
        options = [4.0**power * means[j] for power in range(-3, 5)] + [np.full(states, 4.0**p) for p in range(-2, 1)]
        exact = normalised(np.log(weights) + [float(dirichlet_multinomial(row[None], option)[0]) for option in options])
        picked = np.array([np.isclose(a[j].T, option, rtol=1e-4).all(axis=1).mean() for option in options])
        assert picked.sum() == pytest.approx(1)
        assert np.all(np.abs(picked - exact) < SIGMAS * np.sqrt(exact / draws))
        summed += exact
    assert np.all(np.abs(usage.mean(axis=1) - summed) < SIGMAS * np.sqrt(3 / draws))


def family(rows: np.ndarray, variance: float, draws: int = 200) -> RowDraws:
    """Draws of a family whose table is told nearly exactly."""
    values = transformed(rows.astype(float), contrast_matrices(rows.shape))
    totals = np.repeat(rows.sum(axis=-1)[..., None], draws, axis=-1)
    return draw_rows(values, np.full(rows.shape, variance), totals, EVEN, np.random.default_rng(3))


def test_deterministic_rows_learn_small_concentrations() -> None:
    rng = np.random.default_rng(4)
    rows = 50 * np.eye(3, dtype=int)[rng.integers(3, size=24)]
    usage = family(rows, 4.0).usage / 24
    small = usage[:3].sum() + usage[8]
    assert small > 0.85


def test_equal_rows_learn_large_concentrations() -> None:
    rng = np.random.default_rng(5)
    rows = rng.multinomial(200, (0.7, 0.2, 0.1), size=24)
    usage = family(rows, 4.0).usage / 24
    assert usage[5:8].sum() > 0.85


def test_rows_that_are_like_the_others_are_pulled_to_them() -> None:
    """Twenty rows are equal; of an empty one the others' frequencies are believed, and not of one with records."""
    rows = np.tile([160, 40], (21, 1))
    rows[20] = 0
    found = family(rows, 4.0)
    assert found.mean[20, 0] == pytest.approx(0.8, abs=0.1)
    rows[20] = 20, 180
    assert family(rows, 4.0).mean[20, 0] == pytest.approx(0.1, abs=0.05)


# ------------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize("sizes", [(), (1,), (2,), (2, 1)])
def test_a_child_of_one_state_is_certain(sizes: tuple[int, ...]) -> None:
    shape = (*sizes, 1)
    totals = np.full((*sizes, 7), 5)
    for alpha in (None, np.full(shape, 0.25)):
        found = draw_rows(np.zeros(shape), np.ones(shape), totals, EVEN, np.random.default_rng(0), alpha=alpha)
        np.testing.assert_allclose(found.theta, 1, rtol=1e-12)
        np.testing.assert_array_equal(found.counts[..., 0, :], totals)
        np.testing.assert_allclose(found.mean, np.ones(shape), rtol=1e-12)


@pytest.mark.parametrize("learned", [True, False])
def test_blocks_of_draws_are_put_together(learned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven draws in blocks of three: totals stay with their draws, and averages weigh every draw alike."""
    monkeypatch.setattr(shrinkage, "CACHED_CELLS", 3 * 6)
    monkeypatch.setattr(shrinkage, "LEAST_TOGETHER", 1)
    parts = []
    chains = shrinkage._run_chains

    def spy(*arguments: object) -> RowDraws:
        parts.append(chains(*arguments))  # type: ignore[arg-type]
        return parts[-1]

    monkeypatch.setattr(shrinkage, "_run_chains", spy)
    totals = np.arange(14).reshape(2, 7)
    alpha = None if learned else np.full((2, 3), 0.25)
    found = draw_rows(np.zeros((2, 3)), np.ones((2, 3)), totals, EVEN, np.random.default_rng(0), alpha=alpha)
    parts.sort(key=lambda part: int(part.counts[0].sum(axis=0)[0]))
    assert [part.counts.shape[-1] for part in parts] == [3, 3, 1]
    np.testing.assert_array_equal(found.counts.sum(axis=-2), totals)
    assert found.theta.shape == found.counts.shape == (2, 3, 7)
    for name in ("mean", "usage"):
        expected = sum(w * getattr(part, name) for w, part in zip((3, 3, 1), parts, strict=True)) / 7
        np.testing.assert_allclose(getattr(found, name), expected)


@pytest.mark.parametrize("variance", [1e-12, 1.0, 1e18])
@pytest.mark.parametrize("total", [0, 1, 10**6, 10**12])
def test_any_size_of_counts_and_errors(total: int, variance: float) -> None:
    """Row totals are kept, and evidence against them does no harm."""
    for far in (0.0, 10.0 * math.sqrt(variance) + total, -1e9):
        for alpha in (None, np.full((2, 3), 1e-3), np.full((2, 3), 1e4)):
            totals = np.array([[total] * 5, [0] * 5])
            found = draw_rows(
                np.full((2, 3), far), np.full((2, 3), variance), totals, EVEN, np.random.default_rng(0), alpha=alpha
            )
            assert found.counts.min() >= 0
            np.testing.assert_array_equal(found.counts.sum(axis=1), totals)
            assert np.all(np.isfinite(found.theta)) and np.all(np.isfinite(found.mean))
            np.testing.assert_allclose(found.theta.sum(axis=1), 1)


@pytest.mark.parametrize("learned", [True, False])
def test_theta_is_drawn_with_the_concentrations_that_are_told(learned: bool) -> None:
    """Mean and variance of a row's probabilities are those of Dirichlet(alpha + counts), on average over 8,000 chains.

    Within 6.5 standard errors, four numbers: below 1e-9. With the concentrations of another sweep they are far off.
    """
    draws = 8_000
    totals, given = np.full((2, draws), 6), None if learned else np.array([[0.5, 2.0], [8.0, 0.1]])
    values = np.array([[0.0, 2.0], [0.0, -2.0]])
    found = draw_rows(values, np.full((2, 2), 4.0), totals, EVEN, np.random.default_rng(8), alpha=given)
    assert found.alpha.shape == found.counts.shape and found.alpha.min() > 0
    if given is not None:
        np.testing.assert_array_equal(found.alpha, np.repeat(given[..., None], draws, axis=-1))
    after = found.alpha + found.counts
    whole = after.sum(axis=-2)
    mean = after[:, 0] / whole
    off = found.theta[:, 0] - mean
    for error in (off, off**2 - mean * (1 - mean) / (whole + 1)):
        assert np.all(np.abs(error.mean(axis=-1)) < SIGMAS * error.std(axis=-1) / math.sqrt(draws))


def test_the_seed_fixes_the_draws() -> None:
    def once(seed: int) -> np.ndarray:
        totals = np.full((2, 4), 9)
        return draw_rows(np.zeros((2, 3)), np.ones((2, 3)), totals, EVEN, np.random.default_rng(seed)).theta

    np.testing.assert_array_equal(once(1), once(1))
    assert not np.array_equal(once(1), once(2))


# ----------------------------------------------------------------------------------------------------------- doubt


def one_sided_rows(draws: int, *, doubt: bool, last: int) -> RowDraws:
    """Twenty rows that are told nearly exactly, all records in one state each; the last row has a number of its own."""
    sides = np.arange(21) % 2
    sides[-1] = 0
    rows = np.where(np.arange(3) == sides[:, None], 1000, 0)
    rows[-1, 0] = last
    values = transformed(rows.astype(float), contrast_matrices(rows.shape))
    totals = np.repeat(rows.sum(axis=-1)[..., None], draws, axis=-1)
    return draw_rows(
        values, np.full(rows.shape, 0.01), totals, EVEN, np.random.default_rng(30), doubt=RowDoubt() if doubt else None
    )


def test_a_cell_that_nobody_fell_into_is_possible() -> None:
    """The 95 % end is where DOUBT_SHARE exp(-x) = .05: 21 rows, 1,000 draws of each, an error of .138 records a row."""
    doubted, trusted = (one_sided_rows(1000, doubt=doubt, last=1000) for doubt in (True, False))
    assert not doubted.counts[:, 2].any()
    ends, believed = (1000 * np.quantile(found.theta[:, 2], 0.95, axis=-1) for found in (doubted, trusted))
    assert believed.max() < 0.2
    expected = math.log(DOUBT_SHARE / 0.05)
    assert np.all(np.abs(ends - expected) < 6 * 0.138 + 0.1)
    assert abs(ends.mean() - expected) < 6 * 0.138 / math.sqrt(21) + 0.1


@pytest.mark.costly("The share of one-sided rows is known to a hundredth from thousands of draws only.")
def test_a_row_without_records_is_one_sided_in_some_draws_with_no_state_preferred() -> None:
    """5,000 draws of one row: six standard errors of a share."""
    draws = 5000
    found, trusted = (one_sided_rows(draws, doubt=doubt, last=0) for doubt in (True, False))
    flat = np.all(found.alpha[-1] == ONE_SIDED_CONCENTRATION, axis=0)
    assert abs(flat.mean() - DOUBT_SHARE) < SIGMAS * math.sqrt(DOUBT_SHARE * (1 - DOUBT_SHARE) / draws)
    assert not np.all(trusted.alpha[-1] == ONE_SIDED_CONCENTRATION, axis=0).any()
    sure = (found.theta[-1][:, flat] > 0.99).mean(axis=-1)
    assert sure.sum() > 0.7
    assert np.ptp(sure) < SIGMAS * math.sqrt(2 / 3 / flat.sum())
    assert not np.any(np.all(found.alpha[0] == ONE_SIDED_CONCENTRATION, axis=0))


def test_a_small_row_is_not_filled_with_what_is_possible() -> None:
    """An empty cell beside two records may be worth two fifths of one, not one."""
    found = one_sided_rows(1000, doubt=True, last=2)
    empty = found.counts[-1, 2] == 0
    alpha = found.alpha[-1, 2][empty]
    raised = np.isclose(alpha, 2 / (2 + FILLED_RECORDS), rtol=1e-12).mean()
    assert DOUBT_SHARE / 2 < raised < DOUBT_SHARE * 1.3


def test_a_prior_that_is_given_is_not_doubted() -> None:
    totals, alpha = np.zeros((2, 5000), np.int64), np.full((2, 3), 2.0)
    rng = np.random.default_rng(31)
    found = draw_rows(np.zeros((2, 3)), np.ones((2, 3)), totals, EVEN, rng, alpha=alpha, doubt=RowDoubt())
    np.testing.assert_array_equal(found.alpha, 2.0)
