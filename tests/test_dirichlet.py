"""`discreet.model.dirichlet`: concentrations, the conjugate update, and draws whose moments are those of theory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.model.dirichlet import DEFAULT_CONCENTRATION, dirichlet_draws
from folding import every
from strategies import counts_over, networks, priors_over, same, theta_over

RAIN, WET = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
CHAIN = dc.Network((RAIN, WET), {"rain": (), "wet": ("rain",)})
ROOTS = dc.Network((RAIN, WET), {"rain": (), "wet": ()})
SKEWED = dc.Dirichlet(dc.Tables(CHAIN, {"rain": [1.0, 3.0], "wet": [[0.5, 0.5], [20.0, 5.0]]}))

positive = st.floats(1e-6, 1e6)


@pytest.mark.costly("A prior whose concentration depends on the number of states is found by integration.")
@given(networks(), positive)
def test_a_uniform_prior_has_one_concentration(network: dc.Network, concentration: float) -> None:
    prior = dc.Dirichlet.uniform(network, concentration)
    assert prior.network is network
    assert all(np.array_equal(prior.alpha[node], np.full(network.shape(node), concentration)) for node in network.nodes)
    assert same(dc.Dirichlet.per_node(network, dict.fromkeys(network.nodes, concentration)).alpha, prior.alpha)


def test_the_default_concentration_is_a_quarter() -> None:
    assert DEFAULT_CONCENTRATION == 0.25
    assert dc.Dirichlet.uniform(CHAIN).alpha["wet"].tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_each_node_can_have_its_own_concentration() -> None:
    prior = dc.Dirichlet.per_node(CHAIN, {"wet": 2, "rain": 0.5})
    assert prior.alpha["rain"].tolist() == [0.5, 0.5] and prior.alpha["wet"].tolist() == [[2.0, 2.0], [2.0, 2.0]]


@given(networks(), st.data(), positive, st.floats(0, 1e6))
def test_a_prior_network_counts_as_records_of_every_row(
    network: dc.Network, data: st.DataObject, base: float, records: float
) -> None:
    theta = data.draw(theta_over(network))
    prior = dc.Dirichlet.from_probabilities(theta, records, base)
    for node in network.nodes:
        rows = prior.alpha[node].sum(axis=-1)
        assert np.allclose(rows, records + base * network.schema[node].size, rtol=1e-9)
        assert np.allclose(prior.alpha[node] - base, records * theta[node], atol=1e-9 * (base + records))


def test_a_prior_network_keeps_its_zeros_possible() -> None:
    theta = dc.Tables(CHAIN, {"rain": [0.9, 0.1], "wet": [[1.0, 0.0], [0.5, 0.5]]})
    assert dc.Dirichlet.from_probabilities(theta, 10).alpha["wet"].tolist() == [[10.25, 0.25], [5.25, 5.25]]
    with pytest.raises(dc.InputError, match="prior of 'wet'"):
        dc.Dirichlet.from_probabilities(theta, 10, base=0)


def test_integers_become_floats() -> None:
    prior = dc.Dirichlet(dc.Tables(ROOTS, {"rain": [1, 2], "wet": [3, 4]}))
    assert prior.alpha["rain"].dtype == np.float64


# ------------------------------------------------------------------------------------------ update and mean


@given(networks(), st.data())
def test_counts_add_up(network: dc.Network, data: st.DataObject) -> None:
    prior = data.draw(priors_over(network))
    first, second = data.draw(counts_over(network)), data.draw(counts_over(network))
    both = dc.Tables(network, {node: first[node] + second[node] for node in network.nodes})
    for node in network.nodes:
        assert np.array_equal(prior.updated(first).alpha[node], prior.alpha[node] + first[node])
        assert np.allclose(
            prior.updated(first).updated(second).alpha[node], prior.updated(both).alpha[node], rtol=1e-12
        )
    assert same(prior.updated(first.map(np.zeros_like)).alpha, prior.alpha)


@given(networks().flatmap(priors_over))
def test_the_mean_is_a_probability_in_proportion_to_the_concentrations(prior: dc.Dirichlet) -> None:
    for node, mean in prior.mean().items():
        assert np.allclose(mean.sum(axis=-1), 1, atol=1e-12)
        assert np.allclose(mean * prior.alpha[node].sum(axis=-1, keepdims=True), prior.alpha[node], rtol=1e-12)


# ------------------------------------------------------------------------------------------ draws


@given(networks().flatmap(priors_over), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_draws_are_probabilities_and_follow_the_seed(prior: dc.Dirichlet, size: int, seed: int) -> None:
    draws = prior.draw(size, rng=np.random.default_rng(seed))
    assert draws.draws == size and draws.network is prior.network
    for array in draws.values():
        assert np.all(array >= 0) and np.allclose(array.sum(axis=-2), 1, atol=1e-12)
    assert same(draws, prior.draw(size, rng=np.random.default_rng(seed)))


def test_draws_have_the_moments_of_a_dirichlet_distribution() -> None:
    size = 40_000
    draws = SKEWED.draw(size, rng=np.random.default_rng(20_240_501))
    for node, alpha in SKEWED.alpha.items():
        total = alpha.sum(axis=-1, keepdims=True)
        mean = alpha / total
        variance = mean * (1 - mean) / (total + 1)
        assert np.all(np.abs(draws[node].mean(axis=-1) - mean) < 5 * np.sqrt(variance / size))
        assert np.allclose(draws[node].var(axis=-1), variance, rtol=0.05)


def test_rows_are_drawn_independently() -> None:
    draws = SKEWED.draw(40_000, rng=np.random.default_rng(7))
    rows = np.stack([draws["rain"][0], draws["wet"][0, 0], draws["wet"][1, 0]])
    assert np.all(np.abs(np.corrcoef(rows)[np.triu_indices(3, 1)]) < 5 / np.sqrt(40_000))


def test_one_draw_for_each_entry_of_the_last_axis() -> None:
    alpha = np.stack([np.full((20_000, 2), 0.5), np.broadcast_to([1.0, 9.0], (20_000, 2))], axis=-1)
    draws = dirichlet_draws(alpha, np.random.default_rng(11))
    assert draws.shape == alpha.shape and np.allclose(draws.sum(axis=-2), 1, atol=1e-12)
    assert np.allclose(draws[:, 0].mean(axis=0), [0.5, 0.1], atol=0.02)
    assert np.allclose(draws[:, 0].var(axis=0), [0.125, 0.09 / 11], rtol=0.05)
    assert np.array_equal(draws, dirichlet_draws(alpha, np.random.default_rng(11)))


@every("concentration", [1e-300, 1e-5, 1e300])
def test_extreme_concentrations_still_give_probabilities(concentration: float) -> None:
    prior = dc.Dirichlet.uniform(CHAIN, concentration)
    rng = np.random.default_rng(3)
    for array in (*prior.draw(50, rng=rng).values(), dirichlet_draws(np.full((2, 2, 50), concentration), rng)):
        assert np.all(np.isfinite(array)) and np.allclose(array.sum(axis=-2), 1)


# ------------------------------------------------------------------------------------------ refusals

BAD = (0.0, -1.0, float("nan"), float("inf"))


@every("bad", BAD)
def test_an_improper_prior_is_refused_by_node(bad: float) -> None:
    message = "prior of 'wet': every concentration must be a finite number greater than 0"
    with pytest.raises(dc.InputError, match=message):
        dc.Dirichlet(dc.Tables(CHAIN, {"rain": [1.0, 1.0], "wet": [[1.0, 1.0], [1.0, bad]]}))
    with pytest.raises(dc.InputError, match=message):
        dc.Dirichlet.per_node(CHAIN, {"rain": 1.0, "wet": bad})
    with pytest.raises(dc.InputError, match="every concentration"):
        dc.Dirichlet.uniform(CHAIN, bad)


@every(("records", "base"), [(-1.0, 0.25), (float("nan"), 0.25), (1.0, -0.5), (1.0, float("inf"))])
def test_a_prior_network_of_no_weight_is_refused(records: float, base: float) -> None:
    theta = dc.Tables(ROOTS, {"rain": [0.5, 0.5], "wet": [0.5, 0.5]})
    with pytest.raises(dc.InputError, match="prior of 'rain': every concentration"):
        dc.Dirichlet.from_probabilities(theta, records, base)


@every(("concentrations", "odd"), [({"rain": 1.0}, "wet"), ({"rain": 1.0, "wet": 1.0, "snow": 1.0}, "snow")])
def test_every_node_needs_its_concentration(concentrations: dict[str, float], odd: str) -> None:
    with pytest.raises(dc.InputError, match=rf"missing or unknown: \['{odd}'\]"):
        dc.Dirichlet.per_node(CHAIN, concentrations)


def test_counts_that_make_a_concentration_negative_are_refused() -> None:
    with pytest.raises(dc.InputError, match="prior of 'rain'"):
        dc.Dirichlet.uniform(ROOTS).updated(dc.Tables(ROOTS, {"rain": [1, -1], "wet": [0, 0]}))


@every(("ours", "theirs"), [(CHAIN, ROOTS), (ROOTS, CHAIN)])
def test_counts_over_another_network_are_refused(ours: dc.Network, theirs: dc.Network) -> None:
    counts = dc.Tables(theirs, lambda node: np.ones(theirs.shape(node), int))
    with pytest.raises(dc.InputError, match=r"network|shape"):
        dc.Dirichlet.uniform(ours).updated(counts)


@every("alpha", [1e-2, 1e-3, 1e-8])
def test_sparse_draws_are_vertices_and_never_uniform(alpha: float) -> None:
    """P(largest entry < 0.999) of Beta(a, a) is about 14 a: 0.14 at a = 0.01."""
    theta = dirichlet_draws(np.full((2, 20_000), alpha), np.random.default_rng(0))
    assert not np.any(theta[0] == 0.5)
    # Six standard errors of a share p over 20,000 draws, false alarm 2e-9.
    assert np.mean(theta.max(axis=0) < 0.999) < 15 * alpha + 6 * np.sqrt(15 * alpha / 20_000)
    assert abs(np.mean(theta[0]) - 0.5) < 6 * 0.5 / np.sqrt(20_000)


def test_sparse_rows_are_vertices_beside_others_too() -> None:
    """P(largest entry < 0.999) of Beta(a, a) is 0.014 at a = 0.001."""
    alpha = np.stack([np.full((2, 20_000), 1e-3), np.full((2, 20_000), 3.0)])
    sparse, other = dirichlet_draws(alpha, np.random.default_rng(0))
    assert not np.any(sparse[0] == 0.5)
    assert np.mean(sparse.max(axis=0) < 0.999) < 0.02
    assert np.mean(other.max(axis=0) < 0.999) > 0.99


def test_a_prior_is_flat_where_all_cells_have_one_concentration() -> None:
    network = dc.Network((dc.Variable("x", ("no", "yes")), dc.Variable("y", ("a", "b", "c"))), {"x": (), "y": ("x",)})
    assert dc.Dirichlet.uniform(network).flat
    assert dc.Dirichlet.uniform(network, 7.0).flat
    assert not dc.Dirichlet.per_node(network, {"x": 1.0, "y": 2.0}).flat
    for node, place in (("x", (1,)), ("y", (1, 2))):
        tables = {name: np.full(network.shape(name), 0.5) for name in network.nodes}
        tables[node][place] = 0.75
        assert not dc.Dirichlet(dc.Tables(network, tables)).flat
