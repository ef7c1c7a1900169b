"""The noise-aware posterior as a whole: limits, what seeds and order decide, and which rows the noise drowns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet as dc
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.posterior.methods import noise_aware, rows_below_noise
from discreet.posterior.pooled import latent_counts as module
from discreet.posterior.pooled.latent_counts import draw_latent_counts
from discreet.posterior.pooled.shrinkage import RowDraws, draw_rows
from networks import asia
from releases import guarantee, noisy_release, row_release, simulated
from rows import SIGMAS


def read(release: dc.Release, *, draws: int, rng: np.random.Generator) -> dc.results.PosteriorDraws:
    """Pooled, under the release's own Dirichlet prior, whatever it says of the rows."""
    return noise_aware(release, draws=draws, rng=rng, prior=release.prior, method="pooled")


@pytest.mark.parametrize(("size", "scale"), [(10**7, 20_000.0), (10**7, 80.0), (10**12, 20_000.0), (10**15, 80.0)])
def test_huge_counts_have_the_normal_limit(size: int, scale: float) -> None:
    z = (size, 3 * size)
    theta = read(row_release(z, (0.25, 0.25), scale), draws=20_000, rng=np.random.default_rng(2)).probabilities["x"]
    assert np.all(np.isfinite(theta))
    share, total = 0.25, 4 * size
    # Sampling error of the records, and the Laplace noise (variance 2 b^2) carried over to the share.
    variance = share * (1 - share) / total + (share**2 + (1 - share) ** 2) * 2 * scale**2 / total**2
    assert abs(theta[0].mean() - share) < SIGMAS * math.sqrt(variance / 10_000)
    # The noise has kurtosis 6: a sample variance of 10,000 draws is off by 2.3 % at most, six of these are 14 %.
    assert theta[0].var() == pytest.approx(variance, rel=0.14)


X, Y = (dc.Variable(name, ("no", "yes")) for name in "xy")


@pytest.mark.parametrize("n", [0, 1, 700])
def test_roots_hold_exactly_the_public_number_of_records(n: int) -> None:
    made = simulated(asia(), n, guarantee(relation="replace"), np.random.default_rng(25))
    drawn = draw_latent_counts(made, 200, np.random.default_rng(26), made.dirichlet)
    for node in ("asia", "smoke"):
        assert np.array_equal(drawn.rows(node).counts.sum(axis=0), np.full(200, n))


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_no_records_leave_the_prior(relation: dc.Relation) -> None:
    """What a release of nothing says is wide and finite; where the number is public it is the prior itself."""
    made = simulated(asia(), 0, guarantee(relation=relation), np.random.default_rng(23))
    cells = read(made, draws=4000, rng=np.random.default_rng(24)).probabilities
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
        return read(release, draws=30, rng=np.random.default_rng(seed)).probabilities

    assert same(draw(4), draw(4))
    assert not same(draw(4), draw(5))


def test_a_family_does_not_depend_on_those_asked_before(release: dc.Release) -> None:
    forward = read(release, draws=30, rng=np.random.default_rng(6)).probabilities
    backward = read(release, draws=30, rng=np.random.default_rng(6)).probabilities
    first = {node: forward[node] for node in release.network.nodes}
    second = {node: backward[node] for node in reversed(release.network.nodes)}
    assert all(np.array_equal(first[node], second[node]) for node in first)
    assert not np.array_equal(first["asia"], first["smoke"])


def test_families_are_drawn_when_asked(release: dc.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def spy(*arguments: object, **options: object) -> RowDraws:
        drawn.append(arguments)
        return draw_rows(*arguments, **options)

    monkeypatch.setattr(module, "draw_rows", spy)
    cells = read(release, draws=30, rng=np.random.default_rng(7)).probabilities
    assert len(drawn) == 0
    assert cells["tub"].shape == (2, 2, 30)
    # `tub` and its only ancestor, whatever the other six families hold.
    assert len(drawn) == 2
    assert cells["tub"] is cells["tub"]
    assert len(drawn) == 2


def test_another_prior(release: dc.Release) -> None:
    other = dc.Dirichlet.uniform(release.network, 3.0)
    given = noise_aware(release, draws=30, rng=np.random.default_rng(9), prior=other, method="pooled").probabilities
    stored = read(replace(release, prior=other), draws=30, rng=np.random.default_rng(9)).probabilities
    own = read(release, draws=30, rng=np.random.default_rng(9)).probabilities
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


@pytest.mark.parametrize("a", [0.05, 0.01])
def test_empty_rows_with_a_sparse_prior_can_be_drawn(a: float) -> None:
    """Rows nobody is in are common, and so are priors this sparse (`from_probabilities` with base 0)."""
    for z in ((0, 0), (120, -40), (-200, -300)):
        theta = read(row_release(z, (a, a), 300.0), draws=1000, rng=np.random.default_rng(0)).probabilities["x"]
        assert np.all(np.isfinite(theta))


def test_one_state() -> None:
    theta = read(row_release((40,), (0.25,), 5.0), draws=20, rng=np.random.default_rng(0)).probabilities["x"]
    assert np.array_equal(theta, np.ones((1, 20)))


def test_rows_below_noise_are_those_below_one_standard_deviation() -> None:
    """Of least squares over the joint table of all variables, in matrices."""
    made = simulated(asia(), 500, guarantee(0.5), np.random.default_rng(10))
    network = made.network
    states = list(np.ndindex(*(network.schema[node].size for node in network.nodes)))

    def summing(names: tuple[str, ...]) -> np.ndarray:
        """What each joint state adds to the cells of a table."""
        cells = list(np.ndindex(*(network.schema[name].size for name in names)))
        places = [network.nodes.index(name) for name in names]
        return np.array([[float(tuple(state[at] for at in places) == cell) for state in states] for cell in cells])

    scales = [made.payload.scales[node] for node in made.payload.tables]
    variances = np.concatenate(
        [
            np.full(table.size, DiscreteLaplace(scale).variance)
            for table, scale in zip(made.payload.tables.values(), scales, strict=True)
        ]
    )
    design = np.vstack([summing(network.family(node)) for node in made.payload.tables])
    noisy = np.concatenate([table.ravel() for table in made.payload.tables.values()])
    covariance = np.linalg.pinv(design.T @ (design / variances[:, None]))
    expected = {}
    for node in network.nodes:
        margin = summing(network.parents[node])
        rows = margin @ covariance @ design.T @ (noisy / variances)
        below = int(np.sum(rows <= np.sqrt(np.diag(margin @ covariance @ margin.T))))
        if below:
            expected[node] = (below, len(rows))
    assert expected
    assert len(expected) < len(network.nodes)
    assert dict(rows_below_noise(made)) == expected


def test_nothing_drowns_where_no_counts_were_measured() -> None:
    network = dc.Network((X,), {"x": ()})
    counts = dc.tools.count_codes(network, {"x": np.zeros(3, np.int64)})
    prior = dc.Dirichlet.uniform(network)
    made = dc.simulate(dc.research.posterior_sampler(), counts, prior, guarantee(1), rng=np.random.default_rng(0))
    assert rows_below_noise(made) == {}


def test_rows_below_noise_at_the_edge() -> None:
    """Scale 4.1 and two states: the standard deviation of a row's total noise is 8.2."""
    assert rows_below_noise(row_release((8, 1), (1.0, 1.0), 4.1)) == {}
    assert rows_below_noise(row_release((9, -1), (1.0, 1.0), 4.1)) == {"x": (1, 1)}


def test_no_records_are_always_below_the_noise() -> None:
    """Under replace the total of a root is public and has no noise: 0 of 0 is still nothing."""
    network = asia().network
    codes = {node: np.zeros(0, np.int64) for node in network.nodes}
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    prior = dc.Dirichlet.uniform(network)
    made = dc.simulate(
        dc.planned(pairs_share=0), dc.tools.count_codes(network, codes), prior, promise, rng=np.random.default_rng(0)
    )
    assert rows_below_noise(made)["asia"] == (1, 1)


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
        assert dict(rows_below_noise(made)) == expected


@pytest.mark.costly("Recursion that is too deep shows in a chain of hundreds of nodes only.")
def test_a_long_chain_listed_backwards_can_be_drawn() -> None:
    nodes = [f"v{i}" for i in range(400)]
    network = dc.Network(
        tuple(dc.Variable(node, ("a", "b")) for node in reversed(nodes)),
        {node: (nodes[i - 1],) if i else () for i, node in enumerate(nodes)},
    )
    tables = {node: np.full(network.shape(node), 50) for node in nodes}
    release = noisy_release(dc.Dirichlet.uniform(network), tables, 1.0)
    theta = read(release, draws=2, rng=np.random.default_rng(0)).probabilities["v399"]
    assert theta.shape == (2, 2, 2) and np.allclose(theta.sum(axis=1), 1)


@pytest.mark.parametrize("epsilon", ["20000", "1e6"])
def test_noise_that_never_shows_is_no_obstacle(epsilon: str) -> None:
    release = simulated(asia(), 1000, guarantee(float(epsilon)), np.random.default_rng(0))
    assert np.isfinite(read(release, draws=50, rng=np.random.default_rng(0)).probabilities["dysp"]).all()
