"""The posterior from released draws against enumeration of all counts, with the sampler's own law of the draws."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import betainc, gammaln
from scipy.stats import hypergeom

import discreet as dc
from discreet.posterior.totals import TotalLaw, log_flat_law, normal_law
from discreet.research.kinds.parameter_draws import Tempering, Trimming
from discreet.research.readers import particles as module
from discreet.research.readers.particles import _log_grid_mass, _refresh, _resize, _Row, _take_subset
from discreet.research.scores.lattice import lattice_law, resolution_for
from releases import guarantee
from tiny import counts_of, network_of

DRAWS = 3000
DISTANCE = 0.06
"""DKW at 1e-8 for as many independent draws is 0.056. Particles that share an ancestor are a little less than that; the
seeds are fixed."""
GRID = np.linspace(0.03, 0.97, 13)


def on_grid(told: list[list[float]], floor: float) -> np.ndarray:
    """The nearest rows that the sampler could have released."""
    rows, size = np.array(told), len(told)
    if not floor:
        return rows
    steps = resolution_for(size)
    units = np.rint((rows - floor) / (1 - size * floor) * steps)
    units[-1] = steps - units[:-1].sum(axis=0)
    return floor + (1 - size * floor) * units / steps


Records = int | tuple[int, float] | None
"""How many are public; or a number that was told and the scale of its noise; or nothing."""


def draws_release(told: np.ndarray, temper: float, floor: float, records: Records, used: float) -> dc.Release:
    """A release of these rows of one variable."""
    total = dc.designs.NoisyTotal(*records) if isinstance(records, tuple) else None
    scale = None if total is None else total.scale
    size, draws = told.shape
    network = network_of({"x": size})
    promise = guarantee(10, "replace" if isinstance(records, int) else "add-remove")
    made = dc.simulate(
        dc.research.posterior_sampler(draws), counts_of(network, []), dc.Dirichlet.uniform(network, used), promise,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    floors = {"x": floor} if floor else {}
    calibration: Trimming | Tempering
    if floor:
        calibration = Trimming(floors, temper, draws, {"x": resolution_for(size)}, Fraction(1), scale)
    else:
        calibration = Tempering(temper, draws, 9, Fraction(1), scale)
    payload = dc.research.ParameterDraws(dc.Tables(network, {"x": told}, draws=draws), temper, floors, total)
    public = records if isinstance(records, int) else None
    return replace(made, payload=payload, calibration=calibration, records=public)


def log_law(told: np.ndarray, b: np.ndarray, floor: float) -> float:
    """Log-probability of released rows: on the grid its own exact law, else the Dirichlet density."""
    if not floor:
        density = ((b - 1)[:, None] * np.log(told)).sum()
        return float(density + told.shape[1] * (gammaln(b.sum()) - gammaln(b).sum()))
    law = lattice_law(b - 1, floor, resolution_for(len(b)))
    mass = np.logaddexp.reduce(law.log_factors[0] + law.log_rest[1][::-1])
    units = np.rint((told - floor) / (1 - len(b) * floor) * law.resolution).astype(int)
    return float(sum(law.log_factors[k, units[k]].sum() for k in range(len(b))) - told.shape[1] * mass)


@cache
def log_law_of(told: tuple[tuple[float, ...], ...], temper: float, floor: float, used: float, n: tuple) -> float:
    """The same of counts: several cases, and several laws of the number of records, go through the same ones."""
    return log_law(np.array(told), used + temper * np.array(n, float), floor)


def enumerated(
    told: np.ndarray, temper: float, floor: float, totals: np.ndarray, used: float, a: float
) -> tuple[np.ndarray, np.ndarray]:
    """All counts of totals with these masses, shape (vectors, K), and their posterior probabilities."""
    size, counts, logs = len(told), [], []
    for total, mass in enumerate(totals):
        for first in product(range(total + 1), repeat=size - 1) if mass > 0 else ():
            if sum(first) <= total:
                whole = (*first, total - sum(first))
                n = np.array(whole, float)
                prior = gammaln(total + 1) - gammaln(n + 1).sum() + gammaln(n + a).sum() - gammaln(total + size * a)
                counts.append(n)
                logs.append(np.log(mass) + prior + log_law_of(tuple(map(tuple, told)), temper, floor, used, whole))
    weights = np.exp(np.array(logs) - max(logs))
    return np.array(counts), weights / weights.sum()


# Released rows, temper, floor, number of records (None with the largest there can be), concentrations of the sampler
# and the reader.
CASES: dict[str, tuple[list[list[float]], float, float, Records, float, float]] = {
    "one draw": ([[0.7], [0.3]], 0.5, 0.1, 30, 0.25, 0.25),
    "two draws": ([[0.7, 0.8], [0.3, 0.2]], 0.5, 0.1, 30, 0.25, 0.25),
    "at the floor": ([[0.9], [0.1]], 0.3, 0.1, 30, 0.25, 0.25),
    "three draws, hardly trimmed": ([[0.25, 0.3, 0.2], [0.75, 0.7, 0.8]], 1.0, 0.01, 40, 0.25, 1.0),
    "a temper above one": ([[0.4], [0.6]], 3.0, 0.1, 20, 0.25, 0.25),
    "untrimmed": ([[0.7], [0.3]], 0.2, 0.0, 40, 0.25, 0.25),
    "two untrimmed": ([[0.7, 0.6], [0.3, 0.4]], 1.0, 0.0, 40, 1.0, 0.25),
    "unknown number": ([[0.7], [0.3]], 0.5, 0.1, None, 0.25, 0.25),
    "unknown number, two draws": ([[0.9, 0.85], [0.1, 0.15]], 0.5, 0.1, None, 0.25, 0.25),
    "unknown number, untrimmed": ([[0.7, 0.75], [0.3, 0.25]], 0.5, 0.0, None, 0.5, 0.25),
    "a told number": ([[0.7], [0.3]], 0.5, 0.1, (60, 5.0), 0.25, 0.25),
    "a told number, untrimmed": ([[0.7, 0.75], [0.3, 0.25]], 0.5, 0.0, (3, 1.5), 0.5, 0.25),
    "a told number below none": ([[0.7], [0.3]], 0.5, 0.1, (-4, 2.0), 0.25, 0.25),
    "a told number beyond all": ([[0.7], [0.3]], 0.5, 0.1, (2**62, 7.0), 0.25, 0.25),
    "nobody": ([[0.7], [0.3]], 0.5, 0.1, 0, 0.25, 0.25),
    "three states": ([[0.5], [0.3], [0.2]], 0.5, 0.05, 10, 0.25, 0.25),
    "three states, narrow": ([[0.4], [0.4], [0.2]], 0.3, 0.15, 12, 0.25, 0.25),
    "three states, two draws": ([[0.5, 0.6], [0.3, 0.2], [0.2, 0.2]], 0.5, 0.1, 8, 0.25, 0.25),
    "three states, untrimmed": ([[0.5, 0.6], [0.3, 0.2], [0.2, 0.2]], 0.5, 0.0, 12, 0.25, 0.25),
}
LARGEST = 100


def law_of_number(records: Records) -> np.ndarray:
    """Probability of every number of records."""
    if isinstance(records, tuple):
        n = np.arange(LARGEST)  # the bin of the last number is its own end
        logs = np.log(np.log1p(1 / (1 + n))) - np.abs(n - float(records[0])) / records[1]
        return np.exp(logs - logs.max())
    law = log_flat_law(LARGEST) if records is None else normal_law(records, 0.0)
    most = LARGEST if records is None else records
    return np.exp(law.log_density(np.arange(most + 1.0)))


REPEATED = {"two draws", "three draws, hardly trimmed", "unknown number", "three states"}
"""Like others, but for a draw or a state."""


@pytest.mark.costly("A wrong posterior of stored draws is found by enumerating all counts, for each number of records.")
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.thorough) if name in REPEATED else name for name in CASES]
)
def test_the_posterior_is_that_of_the_enumeration(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, temper, floor, records, used, a = CASES[case]
    told = on_grid(rows, floor)
    monkeypatch.setattr(module, "MOST_EXPECTED_RECORDS", float(LARGEST))
    totals = law_of_number(records)
    release = draws_release(told, temper, floor, records, used)
    posterior = dc.noise_aware(
        release, draws=DRAWS, rng=np.random.default_rng(3), prior=dc.Dirichlet.uniform(release.network, a)
    )
    theta = posterior.probabilities["x"]
    counts, weights = enumerated(told, temper, floor, totals, used, a)
    for k in range(len(told)):
        first, second = a + counts[:, k], (a + counts).sum(axis=1) - a - counts[:, k]
        exact = np.array([weights @ betainc(first, second, x) for x in GRID])
        found = np.mean(theta[k][:, None] <= GRID, axis=0)
        assert np.abs(found - exact).max() < DISTANCE
        assert theta[k].mean() == pytest.approx(weights @ (first / (first + second)), abs=0.025)
        for level in (0.1, 0.5, 0.9):
            at = np.quantile(theta[k], level)
            assert abs(weights @ betainc(first, second, at) - level) < DISTANCE


def test_wrong_models_are_further_away() -> None:
    """No trimming, and no temper, where there are: the exact laws differ by more than the tolerance."""
    rows, _, floor, records, used, a = CASES["three states, narrow"]
    told = on_grid(rows, floor)
    assert isinstance(records, int)
    totals = np.append(np.zeros(records), 1.0)

    def cdf(temper: float, trimmed: float) -> np.ndarray:
        counts, weights = enumerated(told, temper, trimmed, totals, used, a)
        rest = (a + counts).sum(axis=1) - a - counts[:, 0]
        return np.array([weights @ betainc(a + counts[:, 0], rest, x) for x in GRID])

    right = cdf(0.3, floor)
    for wrong in (cdf(0.3, 0.0), cdf(1.0, floor)):
        assert np.abs(right - wrong).max() > 2 * DISTANCE


def test_a_told_number_makes_a_difference() -> None:
    """Posteriors with and without it are further apart than the tolerance."""
    for case in ("a told number", "a told number, untrimmed", "a told number below none"):
        rows, temper, floor, records, used, a = CASES[case]
        found = []
        for totals in (law_of_number(records), law_of_number(None)):
            counts, weights = enumerated(on_grid(rows, floor), temper, floor, totals, used, a)
            rest = (a + counts).sum(axis=1) - a - counts[:, 0]
            found.append(np.array([weights @ betainc(a + counts[:, 0], rest, x) for x in GRID]))
        assert np.abs(found[0] - found[1]).max() > 2 * DISTANCE


@pytest.mark.parametrize(
    ("size", "steps", "floor"), [(3, 512, 0.2), (3, 512, 1e-6), (5, 307, 0.1), (12, 128, 0.05), (40, 128, 0.02)]
)
def test_the_mass_of_the_grid_is_exact(size: int, steps: int, floor: float) -> None:
    rng = np.random.default_rng(1)
    b = np.concatenate(
        [
            rng.gamma(0.3, 300, (size, 6)) + 0.01,
            np.full((size, 1), 0.25),
            np.ones((size, 1)),
            np.full((size, 1), 3000.0),
            np.linspace(0.1, 1e5, size)[:, None],
        ],
        axis=1,
    )
    found = _log_grid_mass(b, floor, steps)
    theta = floor + (1 - size * floor) * np.arange(steps + 1) / steps
    for column, mass in zip(b.T, found, strict=True):
        law = lattice_law(column - 1, floor, steps)
        # The lattice's factors are relative to values of their own; undo that.
        offsets = (column - 1) * np.log(theta[0]) - law.log_factors[:, 0]
        exact = np.logaddexp.reduce(law.log_factors[0] + law.log_rest[1][::-1]) + offsets.sum()
        assert mass == pytest.approx(exact, rel=1e-9, abs=1e-6)


# ------------------------------------------------------------------------------------------------------------ moves

A = np.array([0.25, 1.0, 0.5])
SMALL = TotalLaw(np.arange(7), np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0]))
PARTICLES = 60_000


def row(law: TotalLaw) -> _Row:
    return _Row(np.full((3, 1), 1 / 3), A, A, 1.0, 0.0, 512, law)


def prior_particles(law: TotalLaw, rng: np.random.Generator) -> np.ndarray:
    """Independent counts of three states from the prior."""
    theta = rng.dirichlet(A, PARTICLES)
    return rng.multinomial(law.sample(PARTICLES, rng), theta).T


def law_of(sample: np.ndarray, most: int) -> np.ndarray:
    return np.cumsum(np.bincount(sample, minlength=most + 1)) / sample.size


@pytest.mark.parametrize("law", [SMALL, log_flat_law(3000), normal_law(40.0, 5.0)])
@pytest.mark.parametrize("move", [_refresh, _resize])
def test_moves_leave_the_prior_as_it_is(move: object, law: TotalLaw) -> None:
    """60,000 independent particles, six moves, two samples: Kolmogorov-Smirnov at 1e-8 is 0.018."""
    rng = np.random.default_rng(6)
    counts, before = prior_particles(law, rng), prior_particles(law, rng)
    changed = np.zeros(PARTICLES, bool)
    for _ in range(6):
        theta = rng.standard_gamma(A[:, None] + counts)
        theta /= theta.sum(axis=0)
        proposed, log_prior = move(row(law), counts, theta, rng)
        assert proposed.min() >= 0
        accepted = np.log(rng.random(PARTICLES)) < log_prior
        changed |= accepted & np.any(proposed != counts, axis=0)
        counts = np.where(accepted, proposed, counts)
    assert changed.mean() > 0.3
    most = int(law.edges[-1])
    for one, other in ((counts.sum(axis=0), before.sum(axis=0)), *zip(counts, before, strict=True)):
        assert np.abs(law_of(one, most) - law_of(other, most)).max() < 0.018


def test_totals_have_exactly_their_law_after_many_moves() -> None:
    """None and one record are told apart: DKW of 60,000 at 1e-8 is 0.0126."""
    rng = np.random.default_rng(7)
    counts = prior_particles(SMALL, rng)
    for _ in range(30):
        theta = rng.standard_gamma(A[:, None] + counts)
        theta /= theta.sum(axis=0)
        proposed, log_prior = _resize(row(SMALL), counts, theta, rng)
        counts = np.where(np.log(rng.random(PARTICLES)) < log_prior, proposed, counts)
    exact = np.cumsum(SMALL.mass) / SMALL.mass.sum()
    assert np.abs(law_of(counts.sum(axis=0), 5) - exact).max() < 0.0126


def test_subsets_are_hypergeometric() -> None:
    counts = np.repeat(np.array([[7], [0], [12], [5]]), 40_000, axis=1)
    kept = _take_subset(counts, 0.4, np.random.default_rng(8))
    assert np.all(kept.sum(axis=0) == 10) and np.all(kept <= counts) and np.all(kept >= 0)
    for cell, total in ((0, 7), (2, 12), (3, 5)):
        exact = hypergeom(24, total, 10).cdf(np.arange(total + 1))
        assert np.abs(law_of(kept[cell], total) - exact).max() < 0.0155  # DKW of 40,000 at 1e-8
    assert not _take_subset(counts, 0.0, np.random.default_rng(0)).any()
    np.testing.assert_array_equal(_take_subset(counts, 1.0, np.random.default_rng(0)), counts)


def test_a_variable_of_one_state_is_certain() -> None:
    network = network_of({"x": 1, "y": 2}, "x>y")
    made = dc.simulate(
        dc.research.posterior_sampler(), counts_of(network, [(0, 1)] * 9), dc.Dirichlet.uniform(network), guarantee(1),
        rng=np.random.default_rng(0),
    )  # fmt: skip
    cells = dc.noise_aware(made, draws=50, rng=np.random.default_rng(0)).probabilities
    assert np.all(cells["x"] == 1) and cells["y"].shape == (1, 2, 50)


def test_what_cannot_be_drawn_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROW_STEPS", 1)
    release = draws_release(on_grid([[0.9, 0.9, 0.9], [0.1, 0.1, 0.1]], 0.01), 1.0, 0.01, 2000, 0.25)
    posterior = dc.noise_aware(release, draws=50, rng=np.random.default_rng(0))
    with pytest.raises(dc.DiscreetError, match="did not reach the posterior of 'x', row 0"):
        posterior.probabilities["x"]


@pytest.mark.costly("An atom at the floor that is read as a density shows in how often intervals hold.")
def test_a_draw_on_the_lowest_step_is_read_as_one() -> None:
    """Where the truth lies beyond the floor, draws pile up on the grid's first step: an atom, not a density."""
    coin = network_of({"a": 2})
    prior, rng, held, runs = dc.Dirichlet.uniform(coin), np.random.default_rng(11), 0, 24
    for _ in range(runs):
        theta = rng.beta(0.25, 0.25)
        ones = int(rng.binomial(10_000, theta))
        counts = dc.tools.count_codes(coin, {"a": np.repeat([0, 1], [ones, 10_000 - ones])})
        promise = dc.Guarantee(epsilon=10, delta=0, relation="replace", unit="record")
        release = dc.simulate(dc.research.map_estimate(), counts, prior, promise, rng=rng)
        lower, upper = dc.tools.credible_interval(dc.noise_aware(release, draws=400, rng=rng).probabilities["a"], 0.95)
        held += bool(lower[0] <= theta <= upper[0])
    assert held >= 19  # of 24 at 95 %: a fixed seed; fewer than 19 with a probability of 1e-3


def test_draws_whose_first_states_hold_all_are_read() -> None:
    """Rows on a grid may leave nothing to the states that follow: nothing is divided by it."""
    network = dc.Network((dc.Variable("x", ("a", "b", "c", "d")),), {"x": ()})
    told = np.array([[0.5, 0.25], [0.5, 0.75], [0.0, 0.0], [0.0, 0.0]])
    payload = dc.research.ParameterDraws(dc.Tables(network, {"x": told}, draws=2), temper=0.5, floors={})
    promise = dc.Guarantee(epsilon=1, delta="0.01", relation="replace", unit="record")
    counts = dc.tools.count_codes(network, {"x": [0, 1] * 20})
    made = dc.simulate(dc.research.posterior_sampler(draws=2), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    calibration = replace(made.calibration, temper=0.5)
    release = replace(made, payload=payload, calibration=calibration)
    cells = release.posterior(draws=50, rng=1).probabilities["x"]
    assert np.isfinite(cells).all() and cells[:2].mean() > 0.4
