"""A release is read under the largest network that its tables carry; the public network's rows follow."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.sampling import sample_codes
from discreet.posterior import saturated as module
from discreet.posterior.evidence import measured_sets, measurements, misfit
from discreet.posterior.saturated import leaves_open, missing_arcs, projected, saturated
from networks import asia
from oracle import conditional, full_joint, random_draws, small, with_draws
from releases import guarantee, noisy_release, simulated, simulated_counts

CHILD = small(("a", 2, ()), ("b", 3, ()), ("c", 2, ("a", "b")))
"""Two parents that are not joined: the table of the child's family shows whether they are independent."""


def tied() -> dc.Tables:
    """A law in which the two parents go together, so that `CHILD` is wrong."""
    joined = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("a", "b")))
    rows = {
        "a": np.array([0.4, 0.6]),
        "b": np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]),
        "c": np.array([[[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [[0.5, 0.5], [0.8, 0.2], [0.2, 0.8]]]),
    }
    return dc.Tables(joined, rows)


def wrong(n: int, seed: int, *, epsilon: float = 1.0, data: dc.Tables | None = None) -> dc.Release:
    """A release over `CHILD` of records of the law that it denies."""
    rng = np.random.default_rng(seed)
    counts = simulated_counts(data or tied(), n, rng)
    families = dc.Tables(CHILD, {"a": counts.tables["a"], "b": counts.tables["b"].sum(axis=0), "c": counts.tables["c"]})
    own = dc.results.Counts(families, counts.policy)
    return dc.simulate(dc.planned(pairs_share=0), own, dc.Dirichlet.uniform(CHILD), guarantee(epsilon), rng=rng)


@st.composite
def networks_and_tables(draw: st.DrawFn) -> tuple[dc.Network, list[tuple[str, ...]]]:
    """Up to six variables of up to four states, arcs from earlier to later in some order, and sets of them."""
    names = [f"v{index}" for index in range(draw(st.integers(1, 6)))]
    order = draw(st.permutations(names))
    parts = []
    for name in names:
        before = order[: order.index(name)]
        parents = tuple(parent for parent in before if draw(st.booleans()))
        parts.append((name, draw(st.integers(1, 4)), parents))
    sets = draw(st.lists(st.sets(st.sampled_from(names), min_size=1).map(tuple), max_size=4))
    return small(*parts), sets


@given(networks_and_tables())
def test_arcs_are_added_inside_tables_from_earlier_to_later(made: tuple[dc.Network, list[tuple[str, ...]]]) -> None:
    network, tables = made
    wide = saturated(network, tables)
    assert wide.variables == network.variables
    place = {name: index for index, name in enumerate(network.order)}
    for node in network.nodes:
        own, parents = network.parents[node], wide.parents[node]
        assert parents[: len(own)] == own
        added = parents[len(own) :]
        assert all(place[name] < place[node] for name in added)
        if added:
            assert any(set(wide.family(node)) <= set(table) for table in tables)
        most = max(
            (
                sum(place[name] < place[node] for name in set(table) - set(network.family(node)))
                for table in tables
                if set(network.family(node)) <= set(table)
            ),
            default=0,
        )
        assert len(added) == most or wide.cells(wide.family(node)) <= module.MOST_FAMILY_CELLS


def test_a_family_grows_to_a_thousand_cells_and_keeps_most_variables() -> None:
    network = small(("a", 30, ()), ("b", 5, ()), ("c", 4, ()), ("d", 3, ()), ("e", 10, ()))
    wide = saturated(network, [("a", "b", "c", "d", "e")])
    assert wide.parents["e"] == ("b", "c", "d")  # with "a" 18,000 cells, without it 600
    assert wide.cells(wide.family("e")) == 600
    assert wide.parents["b"] == ("a",)


def test_a_network_whose_inference_would_become_too_large_is_enlarged_less(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"v{index}" for index in range(8)]
    network = small(*((name, 2, ()) for name in names))
    assert saturated(network, [names]).parents["v7"] == tuple(names[:-1])
    monkeypatch.setattr(module, "ALWAYS_ALLOWED_CELLS", 40)
    less = saturated(network, [names])
    assert 0 < len(less.parents["v7"]) < 5
    monkeypatch.setattr(module, "ALWAYS_ALLOWED_CELLS", 0)
    monkeypatch.setattr(module, "MOST_GROWTH", 1)
    assert saturated(network, [names]) == network


def test_nothing_is_added_where_tables_are_the_families() -> None:
    network = asia().network
    assert saturated(network, [network.family(node) for node in network.nodes]).arcs != ()
    chain = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 2, ("b",)))
    assert saturated(chain, [("a", "b"), ("b", "c")]) is chain
    assert saturated(chain, []) is chain


def test_a_long_chain_is_followed_to_its_end() -> None:
    names = [f"n{at}" for at in range(2000)]
    arcs = list(pairwise(names))
    network = dc.Network.from_edges(arcs, [dc.Variable(name, ("0", "1")) for name in names])
    assert leaves_open(network, names[-2:]) and not leaves_open(network, [names[0], names[-1]])


def test_which_sets_a_network_leaves_open() -> None:
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("a", "b")), ("d", 2, ("c",)), ("e", 2, ("b",)))
    assert missing_arcs(network, ("b", "a")) == (("a", "b"),)
    assert missing_arcs(network, ("c", "a", "b")) == ()
    # The margin of c follows from that of its parents, which the network takes to be independent.
    open_sets = {
        names for size in (1, 2, 3) for names in combinations(network.nodes, size) if leaves_open(network, names)
    }
    assert open_sets == {("a",), ("b",), ("e",), ("b", "e")}


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_the_public_network_follow_from_the_larger_ones(seed: int) -> None:
    own = small(("a", 2, ()), ("b", 3, ()), ("c", 2, ("b",)), ("d", 3, ("c",)))
    wide = small(("a", 2, ()), ("b", 3, ("a",)), ("c", 2, ("b", "a")), ("d", 3, ("c", "a")))
    cells = random_draws(wide, 4, seed)
    found = projected(cells, own)
    assert found.network == own
    for node in own.nodes:
        assert found[node].shape == (*own.shape(node), 4)
        np.testing.assert_allclose(found[node].sum(axis=-2), 1)
    np.testing.assert_allclose(found["b"], conditional(cells, ("b",), {}))
    for state in range(2):
        np.testing.assert_allclose(found["d"][state], conditional(cells, ("d",), {"c": state}))
    np.testing.assert_array_equal(found["a"], cells["a"])


def test_a_row_that_cannot_occur_is_the_mean_of_those_it_stands_for() -> None:
    own, wide = (
        small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("b",))),
        small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("b", "a"))),
    )
    rows = {"a": np.array([0.5, 0.5]), "b": np.array([1.0, 0.0]), "c": np.array([[[0.2, 0.8], [0.4, 0.6]]] * 2)}
    found = projected(with_draws(dc.Tables(wide, rows)), own)
    np.testing.assert_allclose(found["c"][..., 0], [[0.3, 0.7], [0.3, 0.7]])


def test_a_wrong_network_is_mended_by_its_own_tables() -> None:
    """a and b go together, a network denies it, and the table of their child's family says so."""
    release = wrong(20_000, 1)
    truth = full_joint(with_draws(tied()))[..., 0].sum(axis=2)
    trusted = dc.noise_aware(release, draws=400, rng=np.random.default_rng(2), trust_network=True)
    read = dc.noise_aware(release, draws=400, rng=np.random.default_rng(2))
    assert trusted.saturated is None and read.saturated is not None
    assert read.saturated.network.parents["b"] == ("a",)
    for posterior, held in ((trusted, False), (read, True)):
        rows = dc.answer(posterior, "P(a, b)", level=0.999).rows
        inside = [row["lower"] <= truth.ravel()[index] <= row["upper"] for index, row in enumerate(rows)]
        assert all(inside) if held else sum(inside) < 3


def test_the_posterior_stays_one_of_the_public_network() -> None:
    posterior = dc.noise_aware(wrong(5_000, 3), draws=60, rng=np.random.default_rng(4))
    assert posterior.network == CHILD
    assert (
        posterior.mean()["b"].shape == (3,)
        and posterior.replicates is not None
        and posterior.replicates["b"].shape == (3, 60)
    )
    assert posterior.saturated is not None and posterior.law.network == posterior.saturated.network
    for node in CHILD.nodes:
        np.testing.assert_allclose(posterior.probabilities[node].sum(axis=-2), 1)
        assert posterior.draw(7, rng=np.random.default_rng(1))[node].shape == (*CHILD.shape(node), 7)
    again = posterior.fresh()
    assert again.saturated is not None and again.saturated.network == posterior.saturated.network
    assert again.basis is not None


@pytest.mark.costly("That a prior is taken for trust shows in posteriors of data that deny the network.")
@pytest.mark.usefixtures("hasty")
def test_a_prior_on_the_rows_trusts_the_network() -> None:
    release = wrong(2_000, 5)
    flat = dc.Dirichlet.uniform(CHILD)
    for options in ({"prior": flat}, {"method": "exact"}, {"trust_network": True}):
        posterior = dc.noise_aware(release, draws=20, rng=np.random.default_rng(6), **options)  # type: ignore[arg-type]
        assert posterior.saturated is None and posterior.parts is None
        assert posterior.basis is not None and posterior.basis.trusted


def test_synthetic_records_and_predictions_come_from_all_that_was_measured() -> None:
    posterior = dc.noise_aware(wrong(50_000, 7), draws=100, rng=np.random.default_rng(8))
    truth = full_joint(with_draws(tied()))[..., 0].sum(axis=2)
    records = next(iter(dc.sample(posterior, 40_000, rng=np.random.default_rng(9)))).read_all().to_pandas()
    made = np.zeros((2, 3))
    for (a, b), number in records.groupby(["a", "b"]).size().items():
        made[int(a[1]), int(b[1])] = number / len(records)
    assert np.abs(made - truth).max() < 0.02
    found = dc.predict(posterior, {"a": ["s0", "s1"]}, "b", level=0.95)
    np.testing.assert_allclose(found.mean, truth / truth.sum(axis=1, keepdims=True), atol=0.02)
    for index, state in enumerate(("s0", "s1")):
        told = dc.answer(posterior, f"P(b | a={state})", level=0.95)
        # Predictions are worked out in double precision, answers in that of the law's rows.
        np.testing.assert_allclose(found.mean[index], [row["mean"] for row in told.rows], rtol=1e-6)


def test_several_data_sets_are_read_by_what_was_measured_on_all() -> None:
    both = dc.combine(wrong(5_000, 10), wrong(5_000, 11), data="different")
    assert measured_sets(dc.tools.evidence_of(both)) == (frozenset("abc"),)
    posterior = dc.noise_aware(both, draws=100, rng=np.random.default_rng(12))
    assert posterior.method == "sequential" and posterior.saturated is not None
    truth = full_joint(with_draws(tied()))[..., 0].sum(axis=2)
    rows = dc.answer(posterior, "P(a, b)", level=0.95).rows
    np.testing.assert_allclose([row["mean"] for row in rows], truth.ravel(), atol=0.03)


def test_sets_that_contrasts_tell_are_measured() -> None:
    rng = np.random.default_rng(13)
    counts = simulated_counts(asia(), 1_000, rng)
    release = dc.simulate(dc.research.fourier(), counts, dc.Dirichlet.uniform(asia().network), guarantee(), rng=rng)
    found = measured_sets(dc.tools.evidence_of(release))
    assert frozenset({"tub", "lung", "either"}) in found and frozenset({"smoke", "lung"}) in found
    assert all(any(names <= set(asia().network.family(node)) for node in asia().network.nodes) for names in found)


def test_a_release_of_draws_measured_no_table() -> None:
    rng = np.random.default_rng(14)
    counts = simulated_counts(asia(), 300, rng)
    release = dc.simulate(
        dc.research.posterior_sampler(), counts, dc.Dirichlet.uniform(asia().network), guarantee(), rng=rng
    )
    assert measured_sets(dc.tools.evidence_of(release)) == ()


def test_tables_of_families_are_read_as_they_are() -> None:
    release = noisy_release(dc.Dirichlet.uniform(CHILD), {"c": np.full((2, 3, 2), 50)}, 1.0)
    assert measured_sets(dc.tools.evidence_of(release)) == (frozenset("abc"),)
    assert simulated(asia(), 100, guarantee(), np.random.default_rng(15)).network == asia().network


def test_rows_of_a_network_that_is_not_nested() -> None:
    """A parent that the other network does not have, and rows that cannot occur."""
    wide = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 2, ("a",)))
    rows = {"a": np.array([1.0, 0.0]), "b": np.array([[0.2, 0.8], [0.5, 0.5]]), "c": np.array([[0.3, 0.7], [0.9, 0.1]])}
    own = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("b", "a")))
    found = projected(with_draws(dc.Tables(wide, rows)), own)
    np.testing.assert_allclose(found["b"][:, 0], [0.2, 0.8])
    np.testing.assert_allclose(found["c"][:, 0, :, 0], [[0.3, 0.7], [0.3, 0.7]])
    np.testing.assert_allclose(found["c"][:, 1, :, 0], 0.5)


def test_a_pair_that_contradicts_independence_gives_the_arc() -> None:
    """Of pairs that were measured with a variable without parents, the one furthest from independent is its family."""
    law = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ("b",)))
    rows = {"a": [0.5, 0.5], "b": [0.3, 0.7], "c": [[0.95, 0.05], [0.1, 0.9]]}
    empty = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ()))
    rng = np.random.default_rng(5)
    codes = sample_codes(dc.Tables(law, rows), 5000, rng)
    noise = dc.external.StatedNoise("laplace", 2)
    pairs = {over: np.histogram2d(codes[over[0]], codes[over[1]], bins=2)[0] for over in (("a", "c"), ("b", "c"))}
    told = dc.external_table(pairs["a", "c"], empty, ("a", "c"), noise, guarantee=None, source="a census")
    told = told.also(pairs["b", "c"], ("b", "c"), noise)
    parts = measurements([told])
    assert misfit(parts, ("b", "c")) > 1000 > 20 > misfit(parts, ("a", "c")) and misfit(parts, ("a",)) == 0
    posterior = dc.noise_aware(told, draws=50, rng=1)
    assert posterior.saturated is not None and posterior.saturated.network.parents["c"] == ("b",)
    assert saturated(empty, [{"b", "c"}, {"a", "c"}]).parents["c"] == ("b",)
    assert saturated(empty, [{"a", "c"}, {"b", "c"}]).parents["c"] == ("a",)
