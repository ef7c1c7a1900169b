"""Least squares over all tables against matrices, and its form without negative cells against a quadratic program."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import discreet as dc
from discreet.inference.interactions import (
    cell_variance,
    contrast_matrices,
    pooled_variances,
    subsets,
    transformed,
)
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CELL_LAWS, DiscreteGaussian, DiscreteLaplace
from discreet.posterior.evidence import number_of_records
from discreet.posterior.pooled.least_squares import (
    coordinates_of,
    coordinates_of_fit,
    fit_nonnegative,
    least_squares,
    pooled_margins,
)
from discreet.posterior.pooled.measured import Measured, read_tables
from discreet.releases.measurement import Measurement
from discreet.research.scores.contrasts import coefficients
from experiments.corrected_bounds import table_map
from folding import every
from releases import guarantee, noisy_release, simulated, simulated_counts
from strategies import networks
from tiny import TINY, network_of, noisy_tables

NETWORKS = {
    **TINY,
    "one node": network_of({"a": 3}),
    "one state": network_of({"a": 1}),
    "one-state parent and child": network_of({"a": 1, "b": 3, "c": 1, "d": 2}, "a>b b>c c>d"),
    "parents listed backwards": network_of({"c": 2, "b": 3, "a": 2}, "a>c b>c"),
    "apart": network_of({"a": 2, "b": 2, "c": 3, "d": 2}, "a>b c>d"),
}


def ordered(network: dc.Network, names: set[str] | tuple[str, ...]) -> Scope:
    return tuple(name for name in network.nodes if name in names)


def noisy(
    network: dc.Network,
    seed: int,
    *,
    size: float = 30,
    scale: float = 3.0,
    repetitions: int = 1,
    spread: float = 4.0,
    noise: str = "discrete_gaussian",
) -> Measured:
    """Tables of every maximal family and of a few other sets, with noise of several scales around made-up counts."""
    rng = np.random.default_rng(seed)
    scopes = {ordered(network, network.family(node)) for node in network.maximal_families}
    for _ in range(int(rng.integers(3))):
        picked = tuple(name for name in network.nodes if rng.random() < 0.6)
        scopes |= {picked} if picked else set()
    ordering = sorted(scopes)
    cells = math.prod(variable.size for variable in network.schema)
    joint = size * rng.dirichlet(np.full(cells, 0.2)).reshape([variable.size for variable in network.schema])
    scales = {scope: scale * float(spread ** rng.uniform(-1, 1)) for scope in ordering}
    tables = {}
    for scope in ordering:
        truth = joint.sum(axis=tuple(axis for axis, name in enumerate(network.nodes) if name not in scope))
        tables[scope] = truth[..., None] + scales[scope] * rng.normal(size=(*truth.shape, repetitions))
    return noisy_tables(network, tables, {scope: CELL_LAWS[noise](scales[scope]) for scope in scales})


# --------------------------------------------------------------------------------------------------- by matrices


def summing(network: dc.Network, names: tuple[str, ...]) -> np.ndarray:
    """The matrix from the joint table to one over some variables, axes in the order of the names."""
    shape = [variable.size for variable in network.schema]
    cells = dict(
        zip(network.nodes, np.stack(np.unravel_index(np.arange(math.prod(shape)), shape)), strict=True)
    )  # fmt: skip
    at = np.zeros(math.prod(shape), int)
    for name in names:
        at = at * network.schema[name].size + cells[name]
    return (at == np.arange(network.cells(names))[:, None]).astype(float)


def stacked(given: Measured) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of all tables over the root of their variances, what was measured likewise, and the roots."""
    roots = np.concatenate([np.full(given.network.cells(s), math.sqrt(given.variance(s, s))) for s in given.tables])
    rows = np.concatenate([summing(given.network, scope) for scope in given.tables])
    told = np.concatenate([table.reshape(-1, table.shape[-1]) for table in given.tables.values()])
    return rows / roots[:, None], told / roots[:, None], roots


def by_matrices(given: Measured, records: int | None) -> tuple[np.ndarray, np.ndarray]:
    """A least-squares joint table, and its covariance, with the total held where it is known."""
    rows, told, _ = stacked(given)
    cells = rows.shape[1]
    if records is None:
        inverse = np.linalg.pinv(rows.T @ rows, rcond=1e-12, hermitian=True)
        return inverse @ rows.T @ told[:, 0], inverse
    apart = np.linalg.svd(np.ones((1, cells)))[2][1:].T if cells > 1 else np.zeros((1, 0))
    base = np.full(cells, records / cells)
    inverse = apart @ np.linalg.pinv(apart.T @ rows.T @ rows @ apart, rcond=1e-12, hermitian=True) @ apart.T
    return base + inverse @ rows.T @ (told[:, 0] - rows @ base), inverse


def check_against_matrices(given: Measured, records: int | None) -> None:
    network = given.network
    margins = least_squares(given, records)
    joint, covariance = by_matrices(given, records)
    size_of_errors = max(given.variance(s, s) for s in given.tables)
    size = max(float(np.abs(table).max()) for table in given.tables.values()) + (records or 0)
    for node in network.nodes:
        for subset in subsets([network.family(node)]):
            to = summing(network, subset)
            np.testing.assert_allclose(margins.table(subset).ravel(), to @ joint, atol=1e-7 * size)
            variance = float(np.diag(to @ covariance @ to.T).max())
            assert margins.deviation(subset) ** 2 == pytest.approx(variance, rel=1e-5, abs=1e-9 * size_of_errors)
            values, variances = margins.coordinates(subset)
            turn = np.ones((1, 1))
            for matrix in contrast_matrices(values.shape):
                turn = np.kron(turn, matrix)
            exact = turn @ to @ covariance @ to.T @ turn.T
            np.testing.assert_allclose(np.diag(variances.ravel()), exact, rtol=1e-5, atol=1e-6 * size_of_errors)
            np.testing.assert_allclose(values.ravel(), turn @ to @ joint, atol=1e-7 * size)
    total, spread = margins.total
    if records is None:
        assert total == pytest.approx(float(joint.sum()), abs=1e-7 * size)
        assert spread == pytest.approx(float(covariance.sum()), rel=1e-5)
    else:
        assert (total, spread) == (records, 0.0)
        for node in network.nodes:
            assert margins.table(network.family(node)).sum() == pytest.approx(records, abs=1e-9 * size)


@every("records", [None, 0, 47])
@every("seed", range(3))
@every("name", NETWORKS)
def test_least_squares_is_that_of_matrices(name: str, seed: int, records: int | None) -> None:
    check_against_matrices(noisy(NETWORKS[name], seed), records)


@settings(deadline=None, max_examples=30)
@given(networks(max_nodes=4), st.integers(0, 2**32 - 1), st.none() | st.integers(0, 1000))
def test_least_squares_of_any_network(network: dc.Network, seed: int, records: int | None) -> None:
    check_against_matrices(noisy(network, seed, noise="discrete_laplace"), records)


def test_its_variances_are_the_pooled_ones() -> None:
    given = noisy(NETWORKS["complete, three states"], 5)
    margins, pooled = (
        least_squares(given, None),
        pooled_variances(given.network, {scope: blurs[0] for scope, blurs in given.blurs.items()}),
    )
    for subset in subsets(given.tables):
        assert margins.variances[subset] == pytest.approx(pooled[subset])
        assert margins.deviation(subset) == pytest.approx(math.sqrt(cell_variance(given.network, pooled, subset)))


def test_exact_tables_are_returned() -> None:
    network = NETWORKS["complete, three states"]
    theta = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(0))
    truth = dc.Tables(network, {node: theta[node][..., 0] for node in network.nodes})
    counts = simulated_counts(truth, 500, np.random.default_rng(1))
    made = noisy_release(dc.Dirichlet.uniform(network), {node: counts.tables[node] for node in ("c",)}, 1e-3)
    given = read_tables(made.network, made.payload.measurements)
    total = float(given.tables[("a", "b", "c")].sum())
    for margins in (least_squares(given, None), least_squares(given, 500)):
        for node in network.nodes:
            np.testing.assert_allclose(margins.table(network.family(node)), counts.tables[node], atol=1e-9)
    fit = fit_nonnegative(given, total)
    np.testing.assert_allclose(fit.tables[("a", "b", "c")], given.tables[("a", "b", "c")], atol=1e-4)


def test_measured_puts_families_into_the_schemas_order() -> None:
    network = NETWORKS["parents listed backwards"]
    theta = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(0))
    truth = dc.Tables(network, {node: theta[node][..., 0] for node in network.nodes})
    made = simulated(truth, 100, guarantee(), np.random.default_rng(2))
    assert isinstance(made.payload, dc.kinds.NoisyCounts)
    given = read_tables(made.network, made.payload.measurements)
    ((scope, table),) = given.tables.items()
    assert scope == ("c", "b", "a") and table.shape == (2, 3, 2, 1) and table.dtype == np.float64
    # The family of `c` has axes (a, b, c).
    np.testing.assert_array_equal(table[..., 0], made.payload.tables["c"].transpose(2, 1, 0))
    margins = least_squares(given, None)
    np.testing.assert_allclose(margins.table(network.family("c")), made.payload.tables["c"], atol=1e-9)
    assert given.laws == {scope: DiscreteLaplace(made.payload.scales["c"])}


# ------------------------------------------------------------------------------------- contrasts, stages, or both


def contrasts_of(tables: dc.Tables, scale: float) -> tuple[Measurement, ...]:
    """What contrasts of some counts measure, without noise."""
    return dc.research.NoisyCoefficients(tables.network, coefficients(tables), scale, 0, True).measurements


@pytest.mark.parametrize("records", [None, 300])
@pytest.mark.parametrize("name", NETWORKS)
def test_contrasts_tell_their_tables_and_the_mean_of_their_errors(name: str, records: int | None) -> None:
    """Against the matrix from contrasts to tables, for any number of states and any order of names."""
    network = NETWORKS[name]
    theta = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(0))
    truth = dc.Tables(network, {node: theta[node][..., 0] for node in network.nodes})
    counts = simulated_counts(truth, 300, np.random.default_rng(1)).tables
    margins = pooled_margins(network, contrasts_of(counts, 3.0), records)
    for node in network.nodes:
        family = network.family(node)
        np.testing.assert_allclose(margins.table(family), counts[node], atol=1e-9)
        matrix, told = table_map(network, node)
        sizes = [math.prod(network.schema[part].size - 1 for part in subset) for subset in told]
        known = np.repeat([float(bool(subset) or records is None) for subset in told], sizes)
        variance = DiscreteLaplace(3.0).variance * (matrix**2 @ known).mean()
        assert margins.deviation(family) ** 2 == pytest.approx(variance)


def test_contrasts_and_tables_are_weighed_by_their_precision() -> None:
    """Where both tell an interaction, each counts by the inverse of its variance."""
    network = NETWORKS["one node"]
    size = network.schema["a"].size
    counts = dc.Tables(network, {"a": np.arange(10, 10 + size)})
    others = Measurement(("a",), np.arange(20, 20 + size), DiscreteGaussian(5.0))
    alone = [pooled_margins(network, parts, None) for parts in (contrasts_of(counts, 2.0), (others,))]
    both = pooled_margins(network, (*contrasts_of(counts, 2.0), others), None)
    for subset in ((), ("a",)):
        weights = [1 / part.variances[subset] for part in alone]
        assert both.variances[subset] == pytest.approx(1 / sum(weights))
        expected = np.average([part.values[subset] for part in alone], axis=0, weights=weights)
        np.testing.assert_allclose(both.values[subset], expected)


def test_tables_of_unequal_noise_are_weighed_by_their_precision() -> None:
    network = network_of({"a": 2})
    parts = [
        Measurement(("a",), np.array(told), DiscreteGaussian(scale))
        for told, scale in (([10, 30], 1.0), ([18, 38], 2.0))
    ]
    found = read_tables(network, parts)
    # The first has four times the precision of the second.
    np.testing.assert_allclose(found.tables["a",][:, 0], [11.6, 31.6])
    assert found.variance(("a",), ("a",)) == pytest.approx(0.8)


@pytest.mark.parametrize("sampling", [Fraction(1), Fraction(3, 10)])
def test_stages_are_merged_by_their_variances(sampling: Fraction) -> None:
    """A count in the sample also varies with who is in it; both means are 72 of 144 records."""
    network = network_of({"a": 2})
    first = dc.kinds.NoisyCounts(network, {"a": np.array([30, 12])}, {"a": 2.0})
    second = dc.kinds.NoisyCounts(network, {"a": np.array([100, 44])}, {"a": 5.0})
    found = read_tables(network, dc.research.TwoStageCounts(first, second, sampling).measurements)
    share = float(sampling)
    one = DiscreteLaplace(2.0).variance / share**2 + 72.0 * (1 - share) / share
    two = DiscreteLaplace(5.0).variance
    expected = [(x / share / one + y / two) / (1 / one + 1 / two) for x, y in ((30, 100), (12, 44))]
    np.testing.assert_allclose(found.tables["a",][:, 0], expected)
    assert found.variance(("a",), ("a",)) == pytest.approx(1 / (1 / one + 1 / two))


def test_the_number_of_records_is_the_mean_of_what_each_table_tells() -> None:
    """The sum over a quarter of the records is a quarter of their number, and varies with who is in it."""
    whole = Measurement(("a",), np.array([10, 30]), DiscreteGaussian(2.0))
    quarter = Measurement(("b",), np.array([3, 5, 4]), DiscreteGaussian(0.5), sampling=0.25)
    contrast = Measurement(("a",), np.array([7]), DiscreteLaplace(1.0), contrasts=True)
    variances = [2 * 4.0, 3 * 0.25 / 0.25**2 + 48 * 0.75 / 0.25]
    precision = 1 / variances[0] + 1 / variances[1]
    mean, deviation = number_of_records([whole, quarter, contrast])
    assert mean == pytest.approx((40 / variances[0] + 48 / variances[1]) / precision)
    assert deviation == pytest.approx(precision**-0.5)
    assert number_of_records([contrast]) == (0, 0)


def test_new_noise_has_the_variance_of_its_law() -> None:
    """200,000 cells: a sample variance within 6 standard errors (kurtosis 6 or 3), below 1e-8; and whole numbers."""
    network, zeros = NETWORKS["one node"], {("a",): np.zeros((3, 70_000))}
    for law, scales in ((DiscreteLaplace, (0.4, 5.0)), (DiscreteGaussian, (5.0, 40.0))):
        for scale in scales:
            given, kurtosis = noisy_tables(network, zeros, {("a",): law(scale)}), 3 + law.excess
            drawn = given.again(zeros, np.random.default_rng(3)).tables[("a",)]
            fourth = float((drawn**4).mean()) / float(drawn.var()) ** 2
            error = math.sqrt((max(fourth, kurtosis) - 1) / drawn.size)
            # Rounding adds a twelfth to the normal variance.
            added = 1 / 12 if law == "discrete_gaussian" else 0.0
            assert drawn.var() == pytest.approx(given.variance(("a",), ("a",)) + added, rel=6 * error)
            assert abs(drawn.mean()) < 6 * drawn.std() / math.sqrt(drawn.size)
            np.testing.assert_array_equal(drawn, np.rint(drawn))


# ------------------------------------------------------------------------------------------------- quadratic program


def program(given: Measured, total: float, repetition: int = 0) -> np.ndarray:
    """Cells of all tables that solve the problem exactly, over the root of the variances.

    Least distance programming (Lawson and Hanson, 1974, chapter 23): a change of coordinates, and non-negative least
    squares for its dual.
    """
    rows, told, _roots = stacked(given)
    cells = rows.shape[1]
    base = rows @ np.full(cells, total / cells)
    directions = rows - rows.mean(axis=1, keepdims=True)
    left, values, _ = np.linalg.svd(directions, full_matrices=False)
    basis = left[:, values > 1e-10 * max(values.max(initial=0), 1e-300)]
    best = basis.T @ (told[:, repetition] - base)
    # min |e| with basis e >= -(base + basis best); scaled, so that the dual is well conditioned.
    least = -(base + basis @ best)
    unit = max(float(np.abs(least).max()), 1e-300)
    system = np.concatenate([basis.T, least[None, :] / unit])
    wanted = np.zeros(len(system))
    wanted[-1] = 1
    dual, _ = nnls(system, wanted, maxiter=100_000)
    residual = system @ dual - wanted
    change = -residual[:-1] / residual[-1] * unit if basis.shape[1] else np.zeros(0)
    return base + basis @ (best + change)


def check_fit(given: Measured, total: float, exact: bool = True) -> None:
    """Tables agree, hold the total and have no negative cell; the certificate is true."""
    fit = fit_nonnegative(given, total)
    network, repetitions = given.network, next(iter(given.tables.values())).shape[-1]
    assert list(fit.tables) == list(given.tables) and fit.gap.shape == (repetitions,)
    for scope, table in fit.tables.items():
        assert table.shape == given.tables[scope].shape
        assert table.min() >= 0
        np.testing.assert_allclose(table.reshape(-1, repetitions).sum(axis=0), total, rtol=1e-9)
        for other, same in fit.tables.items():
            shared = [name for name in scope if name in other]
            one, two = (
                each.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in shared))
                for each, names in ((table, scope), (same, other))
            )
            np.testing.assert_allclose(one, two, atol=1e-9 * total)
    assert np.all(fit.gap >= 0)
    coordinates = sum(
        math.prod(network.schema[name].size - 1 for name in subset) for subset in subsets(given.tables)
    )  # fmt: skip
    assert fit.steps == 2000 or np.all(2 * fit.gap <= 0.02**2 * coordinates)
    if not exact:
        return
    _, told, roots = stacked(given)
    found = np.concatenate([table.reshape(-1, repetitions) for table in fit.tables.values()]) / roots[:, None]
    for repetition in range(repetitions):
        best = program(given, total, repetition)
        assert best.min() > -1e-6 * (1 + np.abs(best).max())
        distance = math.sqrt(float(((found[:, repetition] - best) ** 2).sum()))
        rounding = 1e-7 * (1 + float(np.abs(told).max()))
        assert distance <= math.sqrt(2 * float(fit.gap[repetition])) + rounding


@every("seed", range(3))
@every("name", NETWORKS)
def test_the_fit_is_that_of_a_quadratic_program(name: str, seed: int) -> None:
    check_fit(noisy(NETWORKS[name], seed, repetitions=3), 30.0)


@every("total", [1.0, 2.5, 1e4])
def test_the_total_need_not_be_what_the_tables_say(total: float) -> None:
    check_fit(noisy(NETWORKS["complete, three states"], 7, size=100, scale=5, repetitions=2), total)


@every(("scale", "size"), [(1e-3, 30), (1e-3, 1e6), (1.0, 1e6), (1e3, 30), (1e9, 30), (1e9, 1e12)])
@every("name", ["complete, three states", "collider", "apart"])
def test_every_order_of_magnitude(name: str, scale: float, size: float) -> None:
    given = noisy(NETWORKS[name], 11, scale=scale, size=size, repetitions=2)
    check_fit(given, size, exact=1e-3 < size / scale < 1e7)


@settings(deadline=None, max_examples=40)
@given(
    networks(max_nodes=4),
    st.integers(0, 2**32 - 1),
    st.floats(-1, 3).map(lambda power: 10**power),
    st.integers(1, 300),
)
def test_the_fit_of_any_network(network: dc.Network, seed: int, scale: float, total: int) -> None:
    check_fit(noisy(network, seed, scale=scale, size=total, repetitions=2, noise="discrete_laplace"), float(total))


def test_it_stops_where_it_is_told_to() -> None:
    given = noisy(NETWORKS["complete, three states"], 13, size=20, scale=6.0, repetitions=4)
    coordinates = sum(math.prod(given.network.schema[n].size - 1 for n in s) for s in subsets(given.tables))
    steps = []
    for close in (0.2, 0.02, 0.002):
        fit = fit_nonnegative(given, 20.0, close=close)
        assert np.all(2 * fit.gap <= close**2 * coordinates)
        steps.append(fit.steps)
    assert steps == sorted(steps) and steps[0] < steps[-1] < 2000


def test_repetitions_side_by_side_are_those_one_by_one() -> None:
    """Both solved as far as the digits go: the slowest repetition decides when all stop."""
    given = noisy(NETWORKS["complete, three states"], 17, scale=8.0, repetitions=5)
    together = fit_nonnegative(given, 30.0, close=0.0)
    for repetition in range(5):
        alone = replace(
            given, tables={scope: table[..., repetition : repetition + 1] for scope, table in given.tables.items()}
        )
        single = fit_nonnegative(alone, 30.0, close=0.0)
        for scope, table in single.tables.items():
            np.testing.assert_allclose(together.tables[scope][..., repetition], table[..., 0], atol=1e-5)


def test_a_hard_repetition_leaves_an_easy_one_alone() -> None:
    """Stopped at once: tables that agree and have no negative cell are returned, whatever is beside them."""
    network = NETWORKS["complete, three states"]
    easy = np.random.default_rng(29).dirichlet(np.ones(12)).reshape(2, 3, 2) * 100
    wild = 100 * np.random.default_rng(31).normal(size=(2, 3, 2))
    given = noisy_tables(
        network, {network.nodes: np.stack([easy, wild], axis=-1)}, {network.nodes: DiscreteGaussian(5.0)}
    )
    fit = fit_nonnegative(given, 100.0, close=1e3)
    assert fit.steps <= 20 and fit.gap[0] < 1e-9
    np.testing.assert_allclose(fit.tables[network.nodes][..., 0], easy, atol=1e-6)


def test_it_is_nearer_to_the_truth_than_plain_least_squares() -> None:
    """200 repetitions of 20 records in 12 cells with noise of scale 6: a third of the squared error is left."""
    network = NETWORKS["complete, three states"]
    rng = np.random.default_rng(19)
    truth = np.zeros((2, 3, 2, 200))
    truth[0, 0, 0], truth[1, 2, 1] = 15, 5
    given = noisy_tables(network, {network.nodes: truth}, {network.nodes: DiscreteLaplace(6.0)}).again(
        {network.nodes: truth}, rng
    )
    fit = fit_nonnegative(given, 20.0).tables[network.nodes]
    assert ((fit - truth) ** 2).mean() < ((given.tables[network.nodes] - truth) ** 2).mean() / 3


# -------------------------------------------------------------------------------------------------------- coordinates


@every("name", NETWORKS)
def test_coordinates_of_tables_that_agree(name: str) -> None:
    given = noisy(NETWORKS[name], 23, repetitions=3)
    network = given.network
    fit = fit_nonnegative(given, 30.0)
    found = coordinates_of(given, fit.tables)
    families = [ordered(network, network.family(node)) for node in network.nodes]
    assert set(found) == set(subsets(families))
    for subset, part in found.items():
        assert part.shape == (*(network.schema[name].size - 1 for name in subset), 3)
        scope = next(scope for scope in fit.tables if set(subset) <= set(scope))
        table = fit.tables[scope].sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in subset))
        values = transformed(table, contrast_matrices(table.shape[:-1]))
        np.testing.assert_allclose(part, values[(slice(1, None),) * len(subset)], atol=1e-8)
    single = replace(given, tables={scope: table[..., :1] for scope, table in given.tables.items()})
    alone = fit_nonnegative(single, 30.0)
    for subset, part in coordinates_of_fit(single, alone).items():
        assert part.shape == tuple(network.schema[name].size - 1 for name in subset)
        np.testing.assert_allclose(part, coordinates_of(single, alone.tables)[subset][..., 0])
