"""Compiled steps of a sweep against the same steps on arrays, and their parts against formulas of others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import norm

from discreet.inference.interactions import contrast_matrices, transformed
from discreet.posterior import compiling
from discreet.posterior.pooled import shrinkage, shrinkage_compiled
from discreet.posterior.pooled.shrinkage import COMPONENTS, Rows, draw_rows
from folding import every

SIGMAS = 6.5
"""Of the differences of means here: a false alarm has a probability below 1e-10, and no test has over 500 of them."""
BIAS = 0.004
"""Twenty sweeps of either path leave less than 0.002."""
needs_numba = pytest.mark.skipif(not compiling.COMPILED, reason="numba is not installed")


@every("z", [1e-9, 1e-3, 0.5, 1.0, 7.999, 8.0, 8.5, 100.0, 1e6, 1e12])
def test_log_gamma(z: float) -> None:
    assert shrinkage_compiled._log_gamma(z) == pytest.approx(float(gammaln(z)), rel=1e-13, abs=1e-11)


@every("m", [1e-7, 3e-6, 0.01, 0.3, 0.9999, 1.0])
@every("n", [1, 2, 8, 9, 20, 300, 4095, 4096, 10**5, 4**10 - 1, 4**10, 10**9])
def test_scores_of_a_cell(n: int, m: float) -> None:
    """Whichever way they are found: multiplied out, from the tables, or one by one."""
    concentrations = np.concatenate([shrinkage_compiled.CONCENTRATIONS * m, shrinkage_compiled.ALONE])
    exact = gammaln(concentrations + n) - gammaln(concentrations)
    cells = shrinkage_compiled.risen(shrinkage_compiled.ALONE)
    product, scores = np.ones(COMPONENTS), np.zeros(COMPONENTS)
    if n <= shrinkage_compiled.FEW:
        shrinkage_compiled._multiplied(n, m, product)
        shrinkage_compiled._taken(scores, product)
        np.testing.assert_array_equal(product, 1)
    else:
        shrinkage_compiled._scored(n, m, cells, scores)
    # Of differences of two large numbers the last digits are lost.
    lost = 1e-15 * float(gammaln(n + 256.0))
    np.testing.assert_allclose(scores, exact, rtol=1e-9, atol=1e-8 + lost)


@every("spread", [0.01, 0.7, 3.9, 4.1, 30.0])
@every("centre", [-500.0, -3.2, 0.0, 17.5, 40.0, 77.0, 1e6])
def test_proposals_are_what_they_say(centre: float, spread: float) -> None:
    """Probabilities of all splits of forty records: they sum to one, and are those of the mixture."""
    total, x = 40, np.arange(41.0)
    found = np.array([shrinkage_compiled._proposal(k, 40.0, math.log(42), centre, spread) for k in x])
    upper = np.where(x == total, 1.0, norm.cdf(x + 0.5, centre, spread))
    lower = np.where(x == 0, 0.0, norm.cdf(x - 0.5, centre, spread))
    ends = np.log((x + 2) / (x + 1)) / math.log(42)
    # The series for wide laws errs by less than 1e-7.
    np.testing.assert_allclose(found, 0.5 * (upper - lower) + 0.25 * (ends + ends[::-1]), rtol=1e-6, atol=1e-9)
    assert found.sum() == pytest.approx(1, abs=1e-7)


@every(("a", "b"), [(0.25, 0.25), (1e-9, 3.0), (200.0, 0.01)])
@every("centre", [-30.0, 0.4, 3.1, 8.0, 1e9])
@every("total", [1, 3, 8])
def test_few_records_are_split_by_their_law(total: int, centre: float, a: float, b: float) -> None:
    """The inverse of the distribution function, at each of its steps."""
    spread, x = 2.0, np.arange(total + 1.0)
    logs = gammaln(x + a) - gammaln(x + 1) + gammaln(total - x + b) - gammaln(total - x + 1)
    logs -= 0.5 * ((x - centre) ** 2 - ((x - centre) ** 2).min()) / spread**2
    law = np.exp(logs - logs.max())
    edges = law.cumsum() / law.sum()
    weights = np.empty(shrinkage_compiled.FEW + 1)
    for u in np.linspace(0.0005, 0.9995, 1000):
        if np.abs(u - edges).min() > 1e-9:
            drawn = shrinkage_compiled._enumerated(float(total), a, b, centre, 1 / spread**2, u, weights)
            assert drawn == np.searchsorted(edges, u)


@needs_numba
@pytest.mark.parametrize("sizes", [(3,), (2, 3), (1, 3), (2, 3, 2), (3, 1, 2), (2, 2, 3, 2), (2, 1, 2, 2, 2)])
def test_backing_off_is_the_same(sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.random.default_rng(5).integers(0, 9, (*sizes, 3, 4))
    counts[(0,) * len(sizes)] = 0
    compiled = shrinkage._backed_off(counts)
    some = shrinkage._backed_off(counts, empty_too=False)
    monkeypatch.setattr(shrinkage, "COMPILED", False)
    np.testing.assert_allclose(compiled, shrinkage._backed_off(counts), rtol=1e-12)
    filled = counts.sum(axis=(-1, -2)) > 0
    np.testing.assert_array_equal(some[filled], compiled[filled])


def both(monkeypatch: pytest.MonkeyPatch, *arguments: object, **named: object) -> tuple[Rows, Rows]:
    """The same draws by both paths."""
    compiled = draw_rows(*arguments, np.random.default_rng(1), **named)  # type: ignore[arg-type]
    monkeypatch.setattr(shrinkage, "COMPILED", False)
    return compiled, draw_rows(*arguments, np.random.default_rng(2), **named)  # type: ignore[arg-type]


@needs_numba
@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize(
    ("shape", "records", "variance"),
    [
        ((2,), 5_000, 50.0),
        ((4, 3), 40, 9.0),
        ((3, 2, 2), 300, 100.0),
        ((2, 2, 2, 5), 12, 4.0),
        pytest.param((3, 2, 4), 9_000, 30.0, marks=pytest.mark.thorough),
    ],
)
def test_moments_of_both_paths(
    shape: tuple[int, ...], records: int, variance: float, learned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First and second moments of counts, probabilities and concentrations, where enumeration is out of reach."""
    rng, draws = np.random.default_rng(len(shape) + records), 3_000
    totals = rng.multinomial(records, rng.dirichlet(np.ones(math.prod(shape[:-1])) / 2)).reshape(shape[:-1])
    table = np.array([rng.multinomial(n, rng.dirichlet(np.ones(shape[-1]) / 3)) for n in totals.ravel()])
    variances = variance * rng.choice([1.0, 1.0, 3.0], size=shape)
    values = transformed(table.reshape(shape).astype(float), contrast_matrices(shape))
    values += np.sqrt(variances) * rng.normal(size=shape)
    given = None if learned else rng.uniform(0.05, 3, shape)
    repeated = np.repeat(totals[..., None], draws, axis=-1)
    even = np.full(COMPONENTS, 1 / COMPONENTS)
    compiled, arrays = both(monkeypatch, values, variances, repeated, even, alpha=given)
    scale = max(table.max(), 1)
    pairs = [(compiled.counts / scale, arrays.counts / scale), (compiled.theta, arrays.theta)]
    if learned:
        pairs.append((np.log(compiled.alpha) / 20, np.log(arrays.alpha) / 20))
    for one, other in pairs:
        for power in (1, 2):
            error = np.sqrt((one**power).var(axis=-1) + (other**power).var(axis=-1)) / math.sqrt(draws)
            difference = (one**power).mean(axis=-1) - (other**power).mean(axis=-1)
            assert np.all(np.abs(difference) < SIGMAS * error + BIAS)
    spread = np.sqrt(compiled.theta.var(axis=-1) / draws)
    assert np.all(np.abs(compiled.mean - arrays.mean) < SIGMAS * math.sqrt(2) * spread + BIAS)
    # Rows of a chain pick their components together: a standard error of all rows is at most that of one, for each.
    rows = math.prod(shape[:-1])
    assert np.all(np.abs(compiled.usage - arrays.usage) / rows < SIGMAS * math.sqrt(0.5 / draws) + BIAS)
