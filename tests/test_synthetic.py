"""Synthetic records: their law, their types, their edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet.queries.synthetic import sample_codes, sample_records
from networks import asia, theta_of
from oracle import full_joint, random_draws, with_draws

FALSE_ALARM = 1e-8


def chi_square(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Probability of a larger statistic; cells with an expected count below 20 are taken together."""
    expected = probabilities * observed.sum()
    large = expected >= 20
    pooled = np.append(observed[large], observed[~large].sum()), np.append(expected[large], expected[~large].sum())
    kept = pooled[1] > 0
    statistic = np.sum((pooled[0][kept] - pooled[1][kept]) ** 2 / pooled[1][kept])
    return float(stats.chi2.sf(statistic, kept.sum() - 1))


def joint_counts(table: pa.Table, schema: dc.Schema) -> np.ndarray:
    codes = [np.array([variable.code(state) for state in table[variable.name].to_pylist()]) for variable in schema]
    sizes = tuple(variable.size for variable in schema)
    return np.bincount(np.ravel_multi_index(codes, sizes), minlength=int(np.prod(sizes)))


@pytest.mark.parametrize("source", ["asia", "random"])
def test_frequencies_are_those_of_the_joint(source: str) -> None:
    """One chi-square test each over all 256 joint states; the bundled network has states that must never occur."""
    theta = asia()
    if source == "random":
        cells = random_draws(theta.network, 1, seed=1)
        theta = dc.Tables(theta.network, {node: cells[node][..., 0] for node in cells})
    joint = full_joint(with_draws(theta)).ravel()
    observed = joint_counts(sample_records(theta, 40_000, np.random.default_rng(2)), theta.network.schema)
    assert observed.sum() == 40_000
    assert not observed[joint == 0].any()
    assert chi_square(observed, joint) > FALSE_ALARM


def test_the_chi_square_would_notice_swapped_states() -> None:
    theta = asia()
    swapped = dc.Tables(theta.network, {n: t[..., ::-1] if n == "bronc" else t for n, t in theta.items()})
    observed = joint_counts(sample_records(swapped, 40_000, np.random.default_rng(2)), theta.network.schema)
    assert chi_square(observed, full_joint(with_draws(theta)).ravel()) < FALSE_ALARM


def test_parents_in_any_order_and_sizes() -> None:
    """A child listed before its parents, whose parents are in another order than the schema."""
    parts = (dc.Variable("c", ("x", "y")), dc.Variable("a", ("0", "1", "2")), dc.Variable("b", ("s", "t")))
    network = dc.Network(parts, {"c": ("b", "a"), "a": (), "b": ("a",)})
    cells = random_draws(network, 1, seed=3)
    theta = dc.Tables(network, {node: cells[node][..., 0] for node in cells})
    table = sample_records(theta, 30_000, np.random.default_rng(4))
    assert table.column_names == ["c", "a", "b"]
    joint = full_joint(with_draws(theta)).ravel()
    assert chi_square(joint_counts(table, network.schema), joint) > FALSE_ALARM


def numeric() -> dc.Tables:
    """Ages in three bins and a price with named bins, which depend on each other."""
    age = dc.Variable("age", bounds=(0, 120), bins=(18, 65))
    price = dc.Variable("price", ("low", "high"), bounds=(-1.5, 3), bins=(0.25,))
    network = dc.Network((age, price), {"age": (), "price": ("age",)})
    return dc.Tables(network, {"age": [0.2, 0.5, 0.3], "price": [[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]]})


def test_numbers_fall_into_their_bins_evenly() -> None:
    theta = numeric()
    n = 20_000
    table = sample_records(theta, n, np.random.default_rng(5))
    codes = sample_codes(theta, n, np.random.default_rng(5))
    assert table.schema.types == [pa.float64(), pa.float64()]
    for variable in theta.network.schema:
        values = table[variable.name].to_numpy()
        edges = np.array([variable.bounds[0], *variable.bins, variable.bounds[1]])
        assert np.all((values >= edges[0]) & (values <= edges[-1]))
        assert np.array_equal(np.searchsorted(variable.bins, values, side="right"), codes[variable.name])
        low, high = edges[codes[variable.name]], edges[codes[variable.name] + 1]
        # Kolmogorov-Smirnov over all bins together: false alarm 1e-8.
        assert stats.kstest((values - low) / (high - low), "uniform").pvalue > FALSE_ALARM
    counts = np.zeros((3, 2))
    np.add.at(counts, (codes["age"], codes["price"]), 1)
    assert counts[0, 1] == 0
    assert chi_square(counts.ravel(), full_joint(with_draws(theta)).ravel()) > FALSE_ALARM


def test_numbers_of_narrow_bins_stay_in_them() -> None:
    """Seconds since 1970 in bins of a microsecond: a sum that is rounded up must not reach the next bin."""
    start = 1_700_000_000.0
    cuts = (start + 1e-6, start + 2e-6)
    clock = dc.Variable("clock", ("first", "second", "third"), bounds=(start, start + 3e-6), bins=cuts)
    theta = dc.Tables(dc.Network((clock,), {"clock": ()}), {"clock": [0.0, 1.0, 0.0]})
    values = sample_records(theta, 1000, np.random.default_rng(6))["clock"].to_numpy()
    assert np.all((values >= clock.bins[0]) & (values < clock.bins[1]))


def test_records_pass_their_own_schema() -> None:
    """What is sampled can be read and counted again."""
    for theta in (numeric(), asia(), theta_of("child")):
        table = sample_records(theta, 500, np.random.default_rng(7))
        counts = dc.count(dc.read_records(table, theta.network.schema, missing="error"), theta.network)
        codes = sample_codes(theta, 500, np.random.default_rng(7))
        for node in theta.network.nodes:
            expected = np.zeros(theta.network.shape(node), np.int64)
            np.add.at(expected, tuple(codes[name] for name in theta.network.family(node)), 1)
            assert np.array_equal(counts.tables[node], expected)


def test_no_records() -> None:
    for theta in (asia(), numeric()):
        table = sample_records(theta, 0, np.random.default_rng(8))
        assert table.num_rows == 0
        assert table.column_names == list(theta.network.nodes)
        assert table.schema == sample_records(theta, 3, np.random.default_rng(8)).schema


def test_seeds() -> None:
    first, second, other = (sample_records(asia(), 50, np.random.default_rng(seed)) for seed in (9, 9, 10))
    assert first == second
    assert first != other


def test_a_negative_number_of_records() -> None:
    with pytest.raises(dc.InputError, match="cannot sample -1 records"):
        sample_records(asia(), -1, np.random.default_rng(0))


def test_states_of_probability_0_are_never_drawn() -> None:
    """Zeros before, between and after: also where the generator returns exactly 0 or just below 1."""

    class Edges(np.random.Generator):
        def random(self, size: int) -> np.ndarray:
            return np.resize([0.0, 0.5, np.nextafter(1.0, 0.0)], size)

    network = dc.Network((dc.Variable("x", tuple("abcde")),), {"x": ()})
    for positive in product((False, True), repeat=5):
        if any(positive):
            row = np.array(positive) / sum(positive)
            codes = sample_codes(dc.Tables(network, {"x": row}), 30, Edges(np.random.PCG64(0)))["x"]
            assert np.all(row[codes] > 0)
