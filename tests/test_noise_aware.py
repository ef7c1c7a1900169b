"""The sampler of the noise-aware posterior against enumeration, limits and high-precision arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import betabinom

import discreet as dc
from discreet.posterior import independent as module
from discreet.posterior.latent_counts import draw_counts
from discreet.posterior.noise_aware import drowned_rows, noise_aware
from networks import asia
from oracle import RowPosterior, row_posterior
from releases import guarantee, noisy_release, row_release, simulated
from rows import DISTANCE, DRAWS, EFFECTIVE, ROWS, SIGMAS


def read(release: dc.Release, *, draws: int, rng: np.random.Generator) -> dc.PosteriorDraws:
    """Row by row under the release's own Dirichlet prior, whatever it says of the rows."""
    return noise_aware(release, draws=draws, rng=rng, prior=release.prior, method="independent")


@pytest.mark.parametrize("case", ROWS)
def test_theta_has_the_exact_law(case: str) -> None:
    z, a, b, top = ROWS[case]
    exact = row_posterior(z, a, b, top)
    rng = np.random.default_rng(1 + sum(map(ord, case)))
    theta = read(row_release(z, a, b), draws=DRAWS, rng=rng).cells["x"]
    np.testing.assert_allclose(theta.sum(axis=0), 1, rtol=1e-12)
    errors = np.abs(theta.mean(axis=-1) - exact.mean()) / (theta.std(axis=-1) / math.sqrt(EFFECTIVE))
    assert errors.max() < SIGMAS
    grid = np.linspace(0.04, 0.96, 12)
    for k in range(len(z)):
        found = np.searchsorted(np.sort(theta[k]), grid, side="right") / DRAWS
        assert np.abs(found - exact.theta_cdf(k, grid)).max() < DISTANCE


@pytest.mark.parametrize(("size", "scale"), [(10**7, 20_000.0), (10**7, 80.0), (10**12, 20_000.0), (10**15, 80.0)])
def test_huge_counts_have_the_normal_limit(size: int, scale: float) -> None:
    z = (size, 3 * size)
    theta = read(row_release(z, (0.25, 0.25), scale), draws=20_000, rng=np.random.default_rng(2)).cells["x"]
    assert np.all(np.isfinite(theta))
    share, total = 0.25, 4 * size
    # Sampling error of the records, and the Laplace noise (variance 2 b^2) carried over to the share.
    variance = share * (1 - share) / total + (share**2 + (1 - share) ** 2) * 2 * scale**2 / total**2
    assert abs(theta[0].mean() - share) < SIGMAS * math.sqrt(variance / 10_000)
    # The noise has kurtosis 6: a sample variance of 10,000 draws is off by 2.3 % at most, six of these are 14 %.
    assert theta[0].var() == pytest.approx(variance, rel=0.14)


# ------------------------------------------------------------------------------------------------------- row totals


def check_first_state(theta: np.ndarray, exact: RowPosterior, other: RowPosterior, slack: float = 0.0) -> None:
    """Draws of the first state's probability follow one law, and are far from another."""
    grid = np.linspace(0.04, 0.96, 12)
    found = np.searchsorted(np.sort(theta[0]), grid, side="right") / theta.shape[-1]
    assert np.abs(found - exact.theta_cdf(0, grid)).max() < DISTANCE + slack
    assert np.abs(found - other.theta_cdf(0, grid)).max() > 2 * (DISTANCE + slack)


def believing(total: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda totals: np.where(totals == total, 0.0, -np.inf)


X, Y = (dc.Variable(name, ("no", "yes")) for name in "xy")


def test_a_public_number_of_records_is_the_roots_total() -> None:
    network = dc.Network((X,), {"x": ()})
    made = noisy_release(dc.Dirichlet.uniform(network), {"x": np.array([30, 16])}, 12.0, records=20)
    theta = read(made, draws=DRAWS, rng=np.random.default_rng(20)).cells["x"]
    row = ((30, 16), (0.25, 0.25), 12.0)
    check_first_state(theta, row_posterior(*row, (21, 21), believing(20)), row_posterior(*row, (400, 400)))


@pytest.mark.parametrize("n", [0, 1, 700])
def test_roots_hold_exactly_the_public_number_of_records(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    totals = []

    def spy(*arguments: object) -> np.ndarray:
        counts = draw_counts(*arguments)
        totals.append(counts.sum(axis=0))
        return counts

    monkeypatch.setattr(module, "draw_counts", spy)
    made = simulated(asia(), n, guarantee(relation="replace"), np.random.default_rng(25))
    cells = read(made, draws=200, rng=np.random.default_rng(26)).cells
    for node in ("asia", "smoke"):
        assert cells[node].shape == (2, 200)
    assert np.array_equal(totals, np.full((2, 200), n))


def test_other_tables_tell_the_number_of_records() -> None:
    """Two roots under ADD_REMOVE: `y` is nearly exact and counts 20 records."""
    network = dc.Network((X, Y), {"x": (), "y": ()})
    tables = {"x": np.array([30, 16]), "y": np.array([13, 7])}
    made = noisy_release(dc.Dirichlet.uniform(network), tables, {"x": 12.0, "y": 0.05})
    theta = read(made, draws=DRAWS, rng=np.random.default_rng(21)).cells["x"]
    row = ((30, 16), (0.25, 0.25), 12.0)
    check_first_state(theta, row_posterior(*row, (21, 21), believing(20)), row_posterior(*row, (400, 400)))


def test_the_parents_tell_a_rows_total() -> None:
    """About 10 of 1,000 records reach the second row of `y`, so that most of its 40 noisy records are noise."""
    network = dc.Network((X, Y), {"x": (), "y": ("x",)})
    tables = {"x": np.array([990, 10]), "y": np.array([[500, 490], [42, -2]])}
    made = noisy_release(dc.Dirichlet.uniform(network), tables, {"x": 0.05, "y": 15.0}, records=1000)
    theta = read(made, draws=DRAWS, rng=np.random.default_rng(22)).cells["y"][1]

    def predictive(totals: np.ndarray) -> np.ndarray:
        return betabinom.logpmf(totals, 1000, 10.25, 990.25)

    row = ((42, -2), (0.25, 0.25), 15.0)
    exact, flat = row_posterior(*row, (120, 120), predictive), row_posterior(*row, (450, 450))
    # The predictive law is a smoothed histogram of which 2 % are spread over all totals.
    check_first_state(theta, exact, flat, slack=0.03)


@pytest.mark.parametrize("relation", list(dc.Relation))
def test_no_records_leave_the_prior(relation: dc.Relation) -> None:
    """What a release of nothing says is wide and finite; where the number is public it is the prior itself."""
    made = simulated(asia(), 0, guarantee(relation=relation), np.random.default_rng(23))
    cells = read(made, draws=4000, rng=np.random.default_rng(24)).cells
    for node in cells:
        assert np.all(np.isfinite(cells[node]))
        first = np.moveaxis(cells[node], -2, 0)[0].reshape(-1, 4000)
        if relation is dc.Relation.REPLACE:
            # Beta(1/4, 1/4): mean 1/2, variance 1/6; 6 standard errors.
            assert np.abs(first.mean(axis=-1) - 0.5).max() < 6 * math.sqrt(1 / 6 / 4000)
            np.testing.assert_allclose(first.var(axis=-1), 1 / 6, atol=0.01)
        assert np.quantile(first, 0.975, axis=-1).min() > 0.5 > np.quantile(first, 0.025, axis=-1).max()


# --------------------------------------------------------------------------------------------------------- contract


@pytest.fixture(scope="module")
def release() -> dc.Release:
    return simulated(asia(), 2000, guarantee(), np.random.default_rng(3))


def same(first: dc.Tables, second: dc.Tables) -> bool:
    return all(np.array_equal(first[node], second[node]) for node in first)


def test_same_seed_same_draws(release: dc.Release) -> None:
    def draw(seed: int) -> dc.Tables:
        return read(release, draws=30, rng=np.random.default_rng(seed)).cells

    assert same(draw(4), draw(4))
    assert not same(draw(4), draw(5))


def test_a_family_does_not_depend_on_those_asked_before(release: dc.Release) -> None:
    forward = read(release, draws=30, rng=np.random.default_rng(6)).cells
    backward = read(release, draws=30, rng=np.random.default_rng(6)).cells
    first = {node: forward[node] for node in release.network.nodes}
    second = {node: backward[node] for node in reversed(release.network.nodes)}
    assert all(np.array_equal(first[node], second[node]) for node in first)
    assert not np.array_equal(first["asia"], first["smoke"])


def test_families_are_drawn_when_asked(release: dc.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def spy(*arguments: object) -> np.ndarray:
        drawn.append(arguments)
        return draw_counts(*arguments)

    monkeypatch.setattr(module, "draw_counts", spy)
    cells = read(release, draws=30, rng=np.random.default_rng(7)).cells
    assert len(drawn) == 0
    assert cells["tub"].shape == (2, 2, 30)
    # The two rows of `tub`, and at most the one of its only ancestor, whatever the other six families hold.
    assert 2 <= len(drawn) <= 3
    before = len(drawn)
    assert cells["tub"] is cells["tub"]
    assert len(drawn) == before


def test_rows_and_families_are_independent() -> None:
    """Equal rows get draws of their own: correlations of 20,000 pairs stay within 6 / sqrt(10,000)."""
    network = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("no", "yes"))), {"x": (), "y": ("x",)})
    tables = {"x": np.array([30, 20]), "y": np.array([[15, 10], [15, 10]])}
    made = noisy_release(dc.Dirichlet.uniform(network), tables, 5.0)
    cells = read(made, draws=20_000, rng=np.random.default_rng(8)).cells
    correlations = np.corrcoef([cells["x"][0], cells["y"][0, 0], cells["y"][1, 0]])
    assert np.abs(correlations - np.eye(3)).max() < 0.06


def test_another_prior(release: dc.Release) -> None:
    other = dc.Dirichlet.uniform(release.network, 3.0)
    given = noise_aware(release, draws=30, rng=np.random.default_rng(9), prior=other, method="independent").cells
    stored = read(replace(release, prior=other), draws=30, rng=np.random.default_rng(9)).cells
    own = read(release, draws=30, rng=np.random.default_rng(9)).cells
    assert same(given, stored)
    assert not same(given, own)


def test_prior_over_another_network(release: dc.Release) -> None:
    other = dc.Dirichlet.uniform(dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()}))
    with pytest.raises(dc.InputError, match="another network"):
        noise_aware(release, draws=10, rng=np.random.default_rng(0), prior=other)


@pytest.mark.parametrize("draws", [0, -1])
def test_no_draws(release: dc.Release, draws: int) -> None:
    with pytest.raises(dc.InputError, match="at least one draw"):
        read(release, draws=draws, rng=np.random.default_rng(0))


def test_gate_is_an_error_when_the_family_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior worth 10,000 records of one state against 2,000 noisy records of the other, without tilts."""
    monkeypatch.setattr("discreet.posterior.latent_counts.ATTEMPTS", ((0, 3),))
    monkeypatch.setattr("discreet.posterior.latent_counts.GENTLE", math.inf)
    posterior = read(row_release((2000, 0), (1.0, 10_000.0), 3.0), draws=1000, rng=np.random.default_rng(0))
    with pytest.raises(dc.DiscreetError, match=r"posterior of 'x', row 0, could not be drawn"):
        posterior.cells["x"]


@pytest.mark.parametrize("a", [0.05, 0.01])
def test_empty_rows_with_a_sparse_prior_can_be_drawn(a: float) -> None:
    """Rows nobody is in are common, and so are priors this sparse (`from_probabilities` with base 0)."""
    for z in ((0, 0), (120, -40), (-200, -300)):
        theta = read(row_release(z, (a, a), 300.0), draws=1000, rng=np.random.default_rng(0)).cells["x"]
        assert np.all(np.isfinite(theta))


def test_one_state() -> None:
    theta = read(row_release((40,), (0.25,), 5.0), draws=20, rng=np.random.default_rng(0)).cells["x"]
    assert np.array_equal(theta, np.ones((1, 20)))


def test_drowned_rows_are_those_below_one_standard_deviation() -> None:
    made = simulated(asia(), 500, guarantee(0.5), np.random.default_rng(10))
    expected = {}
    for node in made.network.nodes:
        table, source = made.payload.table(node), made.payload.source(node)
        limit = made.payload.scales[source] * math.sqrt(2 * table.shape[-1] * made.payload.terms(node))
        totals = [int(table[index].sum()) for index in np.ndindex(*table.shape[:-1])]
        below = sum(total < limit for total in totals)
        if below:
            expected[node] = (below, len(totals))
    assert expected
    assert len(expected) < len(made.network.nodes)
    assert dict(drowned_rows(made)) == expected


def test_drowned_rows_at_the_edge() -> None:
    """Scale 4.1 and two states: the standard deviation of a row's total noise is 8.2."""
    assert drowned_rows(row_release((8, 1), (1.0, 1.0), 4.1)) == {}
    assert drowned_rows(row_release((9, -1), (1.0, 1.0), 4.1)) == {"x": (1, 1)}


def test_no_records_are_always_drowned() -> None:
    """Under replace the total of a root is public and has no noise: 0 of 0 is still nothing."""
    network = asia().network
    codes = {node: np.zeros(0, np.int64) for node in network.nodes}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    prior = dc.Dirichlet.uniform(network)
    made = dc.simulate(dc.planned(), dc.count_codes(network, codes), prior, promise, rng=np.random.default_rng(0))
    assert drowned_rows(made)["asia"] == (1, 1)


def test_rows_that_are_read_off_a_larger_table_drown_in_the_noise_of_its_cells() -> None:
    """Scale 4.1: each row of `y` has two noisy cells, 8.2; the total of `x` is the sum of all four, 11.6."""
    network = dc.Network((X, Y), {"x": (), "y": ("x",)})
    prior = dc.Dirichlet.uniform(network)
    for rows, expected in (
        ([[4, 4], [3, 1]], {"y": (2, 2)}),
        ([[4, 4], [2, 1]], {"x": (1, 1), "y": (2, 2)}),
        ([[4, 5], [3, -1]], {"x": (1, 1), "y": (1, 2)}),
        ([[4, 5], [9, 0]], {}),
    ):
        made = noisy_release(prior, {"y": np.array(rows)}, 4.1)
        assert dict(drowned_rows(made)) == expected


def test_a_long_chain_listed_backwards_can_be_drawn() -> None:
    nodes = [f"v{i}" for i in range(400)]
    network = dc.Network(
        tuple(dc.Variable(node, ("a", "b")) for node in reversed(nodes)),
        {node: (nodes[i - 1],) if i else () for i, node in enumerate(nodes)},
    )
    tables = {node: np.full(network.shape(node), 50) for node in nodes}
    release = noisy_release(dc.Dirichlet.uniform(network), tables, 1.0)
    theta = read(release, draws=2, rng=np.random.default_rng(0)).cells["v399"]
    assert theta.shape == (2, 2, 2) and np.allclose(theta.sum(axis=1), 1)


@pytest.mark.parametrize("epsilon", ["20000", "1e6"])
def test_noise_that_never_shows_is_no_obstacle(epsilon: str) -> None:
    release = simulated(asia(), 1000, guarantee(float(epsilon)), np.random.default_rng(0))
    assert np.isfinite(read(release, draws=50, rng=np.random.default_rng(0)).cells["dysp"]).all()


def test_noise_beyond_all_tables_is_an_error_and_no_exhaustion() -> None:
    posterior = read(row_release((5, 7), (0.25, 0.25), 1e9), draws=10, rng=np.random.default_rng(0))
    with pytest.raises(dc.DiscreetError, match="noise of scale"):
        posterior.cells["x"]
