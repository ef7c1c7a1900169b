"""Stars as readers take them: noise that agrees is counted once, by least squares with its whole covariance."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import discreet as dc
from discreet.inference.interactions import subsets
from discreet.mechanisms.noise import SimulatedNoise
from discreet.model.schema import Scope
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.noise.star import Star, star_variances
from discreet.posterior.evidence import number_of_records
from discreet.posterior.pooled.least_squares import coordinates_of, fit_nonnegative, least_squares
from discreet.posterior.pooled.measured import Measured, read_tables
from discreet.releases.measurement import Measurement
from discreet.util.arrays import by_rows, of_rows
from folding import every
from tiny import network_of

NETWORK = network_of({"a": 2, "b": 3, "c": 2, "d": 2}, "a>b a>c c>d")
STAR = (("a", "b"), ("a", "c"))
SCALE = 3.0


def payload(network: dc.Network = NETWORK, seed: int = 1, records: int = 60) -> dc.kinds.NoisyTables:
    """A star over `a`, and a table beside it, of made-up records."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(network.schema[name].size, size=records) for name in network.nodes}
    counts = dc.tools.count_codes(network, codes)
    joints = {scope: counts.joint(scope) for scope in (*STAR, ("c", "d"))}
    rows = SimulatedNoise(rng).star([by_rows(joints[scope], scope, ("a",)) for scope in STAR], SCALE)
    tables = {
        scope: of_rows(row, scope, ("a",), [network.schema[name].size for name in scope])
        for scope, row in zip(STAR, rows, strict=True)
    }
    tables["c", "d"] = SimulatedNoise(rng).discrete_laplace(joints["c", "d"], 2.0)
    scales = {**dict.fromkeys(STAR, SCALE), ("c", "d"): 2.0}
    return dc.kinds.NoisyTables(network, tables, scales, "discrete_laplace", dict.fromkeys(STAR, 1))


GIVEN = payload()


def covariance(given: dc.kinds.NoisyTables) -> np.ndarray:
    """Of the noise in all cells, one table after the other: by the law's symmetries, from its two variances each."""
    scopes, network = list(given.tables), given.network
    found = star_variances([3, 2], SCALE)
    rows = dict(zip(STAR, found.rows, strict=True))
    blocks = []
    for one in scopes:
        line = []
        for other in scopes:
            shape = (network.cells(one), network.cells(other))
            if one not in STAR or other not in STAR:
                scale = np.exp(-1 / 2.0)
                line.append(np.eye(*shape) * (2 * scale / (1 - scale) ** 2) if one == other else np.zeros(shape))
                continue
            m, k = shape[0] // 2, shape[1] // 2
            block = np.full((m, k), found.shared / (m * k))
            if one == other:
                block += rows[one] * (np.eye(m) - 1 / m)
            line.append(np.kron(np.eye(2), block))  # `a` is the first axis of both
        blocks.append(np.concatenate(line, axis=1))
    return np.concatenate(blocks)


def summing(names: Scope) -> np.ndarray:
    """From the joint table to one over some variables."""
    shape = [variable.size for variable in NETWORK.schema]
    cells = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape))
    at = np.zeros(math.prod(shape), int)
    for name in names:
        at = at * NETWORK.schema[name].size + cells[NETWORK.nodes.index(name)]
    return (at == np.arange(NETWORK.cells(names))[:, None]).astype(float)


ROWS = np.concatenate([summing(scope) for scope in GIVEN.tables])
TOLD = np.concatenate([table.ravel() for table in GIVEN.tables.values()]).astype(float)


def test_least_squares_has_the_whole_covariance() -> None:
    weights = np.linalg.pinv(covariance(GIVEN), rcond=1e-12, hermitian=True)
    inverse = np.linalg.pinv(ROWS.T @ weights @ ROWS, rcond=1e-12, hermitian=True)
    joint = inverse @ ROWS.T @ weights @ TOLD
    margins = least_squares(read_tables(NETWORK, GIVEN.measurements), None)
    for node in NETWORK.nodes:
        for subset in subsets([NETWORK.ordered(NETWORK.family(node))]):
            to = summing(subset)
            np.testing.assert_allclose(margins.table(subset).ravel(), to @ joint, atol=1e-8)
            variance = np.diag(to @ inverse @ to.T)
            np.testing.assert_allclose(variance, margins.deviation(subset) ** 2, rtol=1e-8)


@every("total", [8.0, 20.0])
def test_the_fit_without_negative_cells_has_it_too(total: float) -> None:
    """Against a general solver, on few records behind much noise."""
    given = payload(seed=3, records=12)
    told = np.concatenate([table.ravel() for table in given.tables.values()]).astype(float)
    weights = np.linalg.pinv(covariance(given), rcond=1e-12, hermitian=True)
    found = minimize(
        lambda joint: (ROWS @ joint - told) @ weights @ (ROWS @ joint - told),
        np.full(ROWS.shape[1], total / ROWS.shape[1]),
        jac=lambda joint: 2 * ROWS.T @ weights @ (ROWS @ joint - told),
        constraints=[
            {"type": "ineq", "fun": lambda joint: ROWS @ joint, "jac": lambda _: ROWS},
            {"type": "eq", "fun": lambda joint: joint.sum() - total, "jac": lambda joint: np.ones_like(joint)},
        ],
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    assert found.success and (ROWS @ found.x).min() < 1e-6  # the constraint matters
    fit = fit_nonnegative(read_tables(NETWORK, given.measurements), total, close=1e-5)
    cells = np.concatenate([table[..., 0].ravel() for table in fit.tables.values()])
    np.testing.assert_allclose(cells, ROWS @ found.x, atol=2e-3)


def test_new_noise_has_the_same_covariance() -> None:
    """40,000 repetitions of nothing but noise; within 6 standard errors, from a fixed seed."""
    given, repetitions = read_tables(NETWORK, GIVEN.measurements), 40_000
    zeros = {scope: np.zeros((*table.shape[:-1], repetitions)) for scope, table in given.tables.items()}
    again = given.again(zeros, np.random.default_rng(5))
    cells = np.concatenate([table.reshape(-1, repetitions) for table in again.tables.values()])
    products = cells[:, None] * cells[None]
    off = np.abs(products.mean(axis=-1) - covariance(GIVEN)) / (products.std(axis=-1) / math.sqrt(repetitions))
    assert off.max() < 6
    np.testing.assert_allclose(again.tables[STAR[0]].sum(axis=1), again.tables[STAR[1]].sum(axis=1), atol=1e-9)


def test_a_star_tells_the_number_of_records_once() -> None:
    parts = [part for part in GIVEN.measurements if part.scope in STAR]
    assert all(part.star is parts[0].star for part in parts)
    mean, deviation = number_of_records(parts)
    assert mean == GIVEN.tables[STAR[0]].sum()
    assert deviation**2 == pytest.approx(2 * star_variances([3, 2], SCALE).shared)
    margins = least_squares(read_tables(NETWORK, GIVEN.measurements), None)
    assert margins.total[1] < deviation**2


def test_two_stars_over_the_same_tables_are_weighed_by_interaction() -> None:
    """As two releases on one data set: precisions add, and new noise is that of the mean."""
    other = replace(payload(seed=9), scales={**dict.fromkeys(STAR, 2 * SCALE), ("c", "d"): 2.0})
    one, two, both = (
        least_squares(read_tables(NETWORK, parts), None)
        for parts in (GIVEN.measurements, other.measurements, (*GIVEN.measurements, *other.measurements))
    )
    for subset, variance in both.variances.items():
        assert 1 / variance == pytest.approx(1 / one.variances[subset] + 1 / two.variances[subset])
        weights = [1 / part.variances[subset] for part in (one, two)]
        mean = np.average([part.values[subset] for part in (one, two)], axis=0, weights=weights)
        np.testing.assert_allclose(both.values[subset], mean)
    mixed = read_tables(NETWORK, (*GIVEN.measurements, *other.measurements))
    assert not mixed.laws
    repetitions = 20_000
    zeros = {scope: np.zeros((*table.shape[:-1], repetitions)) for scope, table in mixed.tables.items()}
    errors = coordinates_of(mixed, mixed.again(zeros, np.random.default_rng(6)).tables)
    for subset, variance in both.variances.items():
        if errors[subset].size:
            squares = errors[subset] ** 2
            assert abs(squares.mean() - variance) < 6 * squares.std() / math.sqrt(squares.size)


def test_a_star_in_part_is_made_again_without_its_tie() -> None:
    """A second release tells one of its tables, too: the mean of these two has no law, nor has the rest of the star."""
    more = Measurement(("a", "b"), np.full((2, 3), 10), DiscreteLaplace(4.0))
    found = read_tables(NETWORK, (*GIVEN.measurements, more))
    assert list(found.laws) == [("c", "d")]
    assert found.variance(("a", "c"), ("c",)) == pytest.approx(star_variances([3, 2], SCALE).rows[1])


def test_samples_of_a_star_are_more_uncertain() -> None:
    parts = [replace_part(part, sampling=0.5) for part in GIVEN.measurements]
    whole, half = (read_tables(NETWORK, each) for each in (GIVEN.measurements, parts))
    for scope in STAR:
        np.testing.assert_allclose(half.tables[scope], 2 * whole.tables[scope])
        for subset in (("a",), scope):
            assert half.variance(scope, subset) > 4 * whole.variance(scope, subset)
    assert not half.laws


def replace_part(part: Measurement, **changes: Any) -> Measurement:
    return replace(part, **changes)


# ----------------------------------------------------------------------------------------------------------- payloads


def test_rows_go_there_and_back() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    for shared in (("x",), ("z",), ("z", "x"), ("y", "z")):
        rows = by_rows(table, ("x", "y", "z"), shared)
        assert rows.shape[0] == math.prod({"x": 2, "y": 3, "z": 4}[name] for name in shared)
        np.testing.assert_array_equal(of_rows(rows, ("x", "y", "z"), shared, (2, 3, 4)), table)
    np.testing.assert_array_equal(by_rows(table, ("x", "y", "z"), ("y",))[1], table[:, 1].ravel())


def test_a_star_is_read_off_its_tables() -> None:
    star = GIVEN.measurements[0].star
    assert star is not None
    assert (star.scopes, star.shared, star.lengths) == (STAR, ("a",), (3, 2))
    assert GIVEN.measurements[-1].star is None
    assert (
        "noise in every cell of 3 tables, 2 of them in 1 star whose noise agrees: discrete Laplace of scale"
        in GIVEN.summary(None)
    )


BROKEN = {
    "one table": ({("a", "b"): 1}, "two tables"),
    "a table that is not there": ({("a", "b"): 1, ("b", "c"): 1}, "that were measured"),
    "nothing shared": ({("a", "b"): 1, ("c", "d"): 1}, "share a variable"),
    "two scales": ({("a", "c"): 1, ("c", "d"): 1}, "one scale"),
}


@every("name", BROKEN)
def test_what_is_no_star_is_refused(name: str) -> None:
    stars, message = BROKEN[name]
    scales = dict.fromkeys(GIVEN.tables, 2.0) | ({("a", "c"): 3.0} if name == "two scales" else {})
    with pytest.raises(dc.InputError, match=message):
        dc.kinds.NoisyTables(NETWORK, GIVEN.tables, scales, "discrete_laplace", stars)


def test_tables_that_disagree_are_no_star() -> None:
    tables = dict(GIVEN.tables)
    tables["a", "b"] = tables["a", "b"] + np.array([[1, 0, 0], [0, 0, 0]])
    with pytest.raises(dc.InputError, match="agree on the variables they share"):
        replace(GIVEN, tables=tables)
    with pytest.raises(dc.InputError, match="Gaussian noise has no stars"):
        replace(GIVEN, noise="discrete_gaussian")


def test_a_star_too_large_to_be_read_in_time_is_refused() -> None:
    """A small file may say so; its variances would be no numbers."""
    network = network_of({"a": 2, "b": 200, "c": 200}, "a>b a>c")
    tables = {scope: np.zeros((2, 200), np.int64) for scope in STAR}
    with pytest.raises(dc.InputError, match="at most 256 dimensions, and one has 399"):
        dc.kinds.NoisyTables(network, tables, dict.fromkeys(STAR, 2.0), "discrete_laplace", dict.fromkeys(STAR, 1))


@every("lengths", [(256,), (128, 129), (2,) * 255, (255, 2), (86, 86, 86)])
def test_variances_are_numbers_up_to_the_limit(lengths: tuple[int, ...]) -> None:
    with np.errstate(all="raise", under="ignore"):
        found = star_variances(lengths, 1.0)
    assert 0 < found.shared < math.inf and all(0 < rows < math.inf for rows in found.rows)
    assert len(lengths) > 1 or found.rows[0] == pytest.approx(2.0)


def test_measured_stars_are_told_apart_from_independent_noise() -> None:
    """The same tables without their star would be read as if they told `a` twice."""
    tied, apart = (read_tables(NETWORK, part.measurements) for part in (GIVEN, replace(GIVEN, stars={})))
    assert isinstance(tied, Measured)
    assert tied.variance(("a", "b"), ("a",)) > 1.5 * apart.variance(("a", "b"), ("a",))
    assert isinstance(tied.laws["a", "b"], Star) and isinstance(apart.laws["a", "b"], DiscreteLaplace)
    assert json.loads(json.dumps(list(STAR))) == [["a", "b"], ["a", "c"]]
