"""Worlds of counts and probabilities: what flows from the roots down, what is used once, and what fits whatever."""

from __future__ import annotations

import inspect
import math
import sys
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import Blur, pooled_variances
from discreet.inference.sampling import sample_codes
from discreet.noise.noise_laws import DiscreteGaussian
from discreet.posterior.pooled import latent_counts as module
from discreet.posterior.pooled.estimate import estimate
from discreet.posterior.pooled.latent_counts import LatentCounts, draw_latent_counts
from discreet.posterior.pooled.least_squares import Margins, least_squares
from discreet.posterior.pooled.measured import Measured, read_tables
from discreet.posterior.pooled.shrinkage import COMPONENTS, RowDoubt, RowDraws, draw_rows
from folding import every
from networks import asia
from releases import guarantee, simulated
from strategies import networks
from tiny import network_of, noisy_tables

NETWORKS = {
    "one node": network_of({"a": 3}),
    "one state": network_of({"a": 1}),
    "apart": network_of({"a": 2, "b": 2, "c": 3, "d": 2}, "a>b c>d"),
    "one-state nodes": network_of({"a": 1, "b": 3, "c": 1, "d": 2}, "a>b b>c a>d c>d"),
    "one-state parent beside another": network_of({"a": 1, "b": 3, "c": 2}, "a>c b>c"),
    "collider": network_of({"a": 2, "b": 3, "c": 2}, "a>c b>c"),
    "parents listed the other way": network_of({"a": 2, "b": 3, "c": 2, "d": 4}, "b>c a>b a>c c>d b>d a>d"),
    "parents held in part": network_of({"a": 2, "b": 2, "c": 2, "d": 2}, "a>b a>d b>d c>d"),
    "five": network_of({"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}, "a>b a>c b>c c>d d>e"),
}


ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def random_theta(network: dc.Network, seed: int, concentration: float = 1.0) -> dc.Tables:
    drawn = dc.Dirichlet.uniform(network, concentration).draw(1, rng=np.random.default_rng(seed))
    return dc.Tables(network, {node: drawn[node][..., 0] for node in network.nodes})


def planned(theta: dc.Tables, n: int, epsilon: float = 1.0, relation: str = "add-remove", seed: int = 0) -> dc.Release:
    rng = np.random.default_rng(seed)
    network = theta.network
    counts = dc.tools.count_codes(network, sample_codes(theta, n, rng))
    return dc.simulate(
        dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(network), guarantee(epsilon, relation), rng=rng
    )


def check_world(found: LatentCounts, draws: int) -> None:
    """Shapes, rows that sum to 1, and totals that are the ancestors' where one of their families holds the parents."""
    network = found.network
    for node in network.nodes:
        rows = found.rows(node)
        assert rows.theta.shape == rows.counts.shape == (*network.shape(node), draws)
        np.testing.assert_allclose(rows.theta.sum(axis=-2), 1, rtol=1e-9)
        np.testing.assert_allclose(rows.mean.sum(axis=-1), 1, rtol=1e-9)
        assert rows.theta.min() >= 0 and rows.counts.min() >= 0
        np.testing.assert_array_equal(found.probabilities[node], rows.theta)
    for node in network.nodes:
        parents, family = network.parents[node], network.family(node)
        totals = found.rows(node).counts.sum(axis=-2)
        if not parents:
            np.testing.assert_array_equal(totals, found.rows(network.order[0]).counts.reshape(-1, draws).sum(axis=0))
        for other in parents:
            held = [name for name in network.family(other) if name in parents]
            own = totals.sum(axis=tuple(axis for axis, name in enumerate(parents) if name not in held))
            other_counts = found.rows(other).counts.sum(
                axis=tuple(axis for axis, name in enumerate(network.family(other)) if name not in held)
            )
            order = [name for name in parents if name in held]
            turned = other_counts.transpose([*(held.index(name) for name in order), len(held)])
            if len(held) == len(parents):
                np.testing.assert_array_equal(own, turned)
            else:
                # Rounding at random, and three rounds of fitting to margins that sampling made differ a little.
                cells = network.cells(parents) / network.cells(held)
                assert np.abs(own - turned).max() <= cells + 0.02 * turned.sum(axis=tuple(range(len(held)))).max()
        assert family[-1] == node


@pytest.mark.costly("Counts must agree over each shape of network, with records, one and none.")
@every(("n", "relation"), [(0, ADD_REMOVE), (1, REPLACE), (400, ADD_REMOVE), (400, REPLACE)])
@every("name", NETWORKS)
def test_counts_of_a_world_agree(name: str, n: int, relation: dc.Relation) -> None:
    theta = random_theta(NETWORKS[name], 1)
    if n == 1:
        release = simulated(theta, n, guarantee(0.5, relation), np.random.default_rng(2))
    else:
        release = planned(theta, n, 1.0, relation)
    found = draw_latent_counts(release, 30, np.random.default_rng(3))
    check_world(found, 30)
    if relation is dc.Relation.REPLACE:
        root = found.network.order[0]
        np.testing.assert_array_equal(found.rows(root).counts.sum(axis=0), n)


@settings(deadline=None, max_examples=8)
@given(
    networks(),
    st.integers(0, 10**6),
    st.integers(0, 300),
    st.sampled_from((0.01, 1.0, 1e5)),
    st.sampled_from(dc.tools.RECORD_RELATIONS),
)
def test_counts_of_any_world_are_finite(
    network: dc.Network, seed: int, n: int, epsilon: float, relation: dc.Relation
) -> None:
    release = planned(random_theta(network, seed, 0.3), n, epsilon, relation, seed)
    found = draw_latent_counts(release, 11, np.random.default_rng(seed))
    for node in network.nodes:
        rows = found.rows(node)
        assert np.all(np.isfinite(rows.theta)) and rows.counts.min() >= 0
        assert rows.counts.max() <= 100 * (n + 1e6 / epsilon)
        np.testing.assert_allclose(rows.theta.sum(axis=-2), 1, rtol=1e-9)


# ---------------------------------------------------------------------------------------------- the number of records


def given_tables(
    network: dc.Network, tables: dict[tuple[str, ...], np.ndarray], scales: dict[tuple[str, ...], float]
) -> Measured:
    with_axis = {scope: np.asarray(table, float)[..., None] for scope, table in tables.items()}
    return noisy_tables(network, with_axis, {scope: DiscreteGaussian(scale) for scope, scale in scales.items()})


def test_a_private_number_of_records_has_the_pooled_spread() -> None:
    """20,000 draws: mean and deviation within 6 standard errors."""
    network = network_of({"a": 2, "b": 3})
    tables = {("a",): np.array([400.0, 620]), ("b",): np.array([300.0, 400, 280])}
    scales = {("a",): 20.0, ("b",): 8.0}
    margins = least_squares(given_tables(network, tables, scales), None)
    found = LatentCounts(margins, 20_000, np.random.default_rng(0)).rows("a").counts.sum(axis=0)
    variance = pooled_variances(network, {scope: Blur(scale**2) for scope, scale in scales.items()})[()]
    assert variance == pytest.approx(1 / (1 / 800 + 1 / 192))
    expected = (1020 / 800 + 980 / 192) * variance
    assert abs(found.mean() - expected) < 6 * math.sqrt(variance / 20_000)
    assert found.std() == pytest.approx(math.sqrt(variance + 1 / 12), rel=6 / math.sqrt(40_000))
    both = LatentCounts(margins, 50, np.random.default_rng(0))
    np.testing.assert_array_equal(both.rows("a").counts.sum(axis=0), both.rows("b").counts.sum(axis=0))


def test_a_public_number_of_records_is_held_in_every_world() -> None:
    network = network_of({"a": 2, "b": 3}, "a>b")
    given = given_tables(network, {("a", "b"): np.full((2, 3), 100.0)}, {("a", "b"): 50.0})
    found = LatentCounts(least_squares(given, 431), 500, np.random.default_rng(0))
    for node in "ab":
        np.testing.assert_array_equal(found.rows(node).counts.reshape(-1, 500).sum(axis=0), 431)


# ------------------------------------------------------------------------------------------------------- used once


def deviations(found: np.ndarray, exact: float) -> None:
    """Of 20,000 independent draws: six standard errors."""
    assert found.std() == pytest.approx(exact, rel=6 / math.sqrt(2 * found.size))


@every("extra", [None, 15.0])
def test_evidence_counts_once_in_a_chain(extra: float | None) -> None:
    """The normal limit: 100,000 records, a flat prior, one table over both nodes and perhaps one over the parent."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    truth, scale, n, draws = np.array([[40_000.0, 20_000], [10_000, 30_000]]), 30.0, 100_000, 20_000
    tables, scales = {("a", "b"): truth}, {("a", "b"): scale}
    if extra:
        tables[("a",)], scales[("a",)] = truth.sum(axis=1), extra
    margins = least_squares(given_tables(network, tables, scales), n)
    found = LatentCounts(margins, draws, np.random.default_rng(0), prior=dc.Dirichlet.uniform(network, 1.0))
    # Coordinate of `a`: variance 2 scale^2 from the table over both, extra^2 from its own.
    told = 1 / (1 / (2 * scale**2) + (1 / extra**2 if extra else 0.0)) / 2
    upper = found.rows("a").counts[0]
    assert abs(upper.mean() - 60_000) < 6 * math.sqrt(told / draws)
    deviations(upper, math.sqrt(told))
    # A row's two cells: half its total and half their difference, whose errors are the table's own.
    cell = found.rows("b").counts[0, 0]
    deviations(cell, math.sqrt(told / 4 + scale**2 / 2))
    deviations(cell - upper / 2, scale / math.sqrt(2))
    share = found.probabilities["a"][0]
    deviations(share, math.sqrt(told / n**2 + 0.6 * 0.4 / n))


def test_evidence_of_parents_that_no_family_holds() -> None:
    """A collider: its rows' totals follow a table that tells them, or what independent parents predict."""
    network = network_of({"a": 2, "b": 2, "c": 2}, "a>c b>c")
    joint = np.array([[[300.0, 100], [50, 50]], [[20, 80], [200, 200]]])
    near = np.array([[[156.0, 100], [144, 100]], [[124, 120], [156, 100]]])
    prior = dc.Dirichlet.uniform(network, 1.0)

    def totals(scale: float, joint: np.ndarray = joint) -> np.ndarray:
        # The parents' own tables are nearly exact.
        tables = {("a", "b", "c"): joint, ("a",): joint.sum(axis=(1, 2)), ("b",): joint.sum(axis=(0, 2))}
        given = given_tables(network, tables, {("a", "b", "c"): scale, ("a",): 0.01, ("b",): 0.01})
        found = LatentCounts(least_squares(given, 1000), 8_000, np.random.default_rng(1), prior=prior)
        return np.asarray(found.rows("c").counts.sum(axis=-2))

    exact = totals(0.01)
    assert np.abs(exact - joint.sum(axis=2)[..., None]).max() <= 2
    # The product of the margins, and the variance of a table with both margins fixed.
    blind = totals(1e6)
    expected, variance = 500 * 500 / 1000, 1000 / 16
    assert blind[0, 0].mean() == pytest.approx(expected, abs=0.05 * math.sqrt(variance) + 0.5)
    assert blind[0, 0].std() == pytest.approx(math.sqrt(variance), rel=0.08)
    # In between, where sampling and noise explain the difference: the precision of what the table says of the parents'
    # interaction adds to that of the prediction.
    scale = 5.0
    half = totals(scale, near)
    told = 2 * scale**2 / 4
    pooled = 1 / (1 / variance + 1 / told)
    mean = pooled * (expected / variance + 256 / told)
    assert half[0, 0].mean() == pytest.approx(mean, abs=0.25 * math.sqrt(pooled))
    assert half[0, 0].std() == pytest.approx(math.sqrt(pooled), rel=0.15)
    # Where they cannot explain it the prediction is wrong, and the table alone is believed.
    contradicted = totals(scale)
    assert contradicted[0, 0].mean() == pytest.approx(400, abs=0.25 * math.sqrt(told))
    # Proportional fitting to the margins weighs cells by their inverse, which leaves a little more here.
    cells = np.array([400.0, 100, 100, 400])
    left = 2 * scale**2 * (cells**-2).sum() / (1 / cells).sum() ** 2
    assert contradicted[0, 0].std() == pytest.approx(math.sqrt(left), rel=0.05)


def test_a_prior_that_is_given_is_used() -> None:
    """Rows that nothing is told of follow it: Beta(3, 1) and Beta(1, 3), 20,000 draws, 6 standard errors."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    alpha = dc.Dirichlet(dc.Tables(network, {"a": np.array([3.0, 1.0]), "b": np.array([[3.0, 1.0], [1.0, 3.0]])}))
    given = given_tables(network, {("a", "b"): np.zeros((2, 2))}, {("a", "b"): 1e5})
    found = LatentCounts(least_squares(given, 50), 20_000, np.random.default_rng(2), prior=alpha)
    deviation = math.sqrt(3 / 16 / 5)
    for cells, mean in (
        (found.probabilities["a"][0], 0.75),
        (found.probabilities["b"][0, 0], 0.75),
        (found.probabilities["b"][1, 0], 0.25),
    ):
        assert abs(cells.mean() - mean) < 6 * deviation / math.sqrt(20_000) + 0.002
        assert cells.std() == pytest.approx(deviation, rel=0.04)
    assert not found.rows("a").usage.any()


# --------------------------------------------------------------------------------------------------------- contract


@pytest.fixture(scope="module")
def release() -> dc.Release:
    return planned(asia(), 3000, 0.5, seed=4)


def test_the_seed_fixes_everything(release: dc.Release) -> None:
    first, second, other = (
        draw_latent_counts(release, 8, np.random.default_rng(seed)).probabilities for seed in (1, 1, 2)
    )
    assert all(np.array_equal(first[node], second[node]) for node in first)
    assert not any(np.array_equal(first[node], other[node]) for node in first)


def test_a_family_does_not_depend_on_those_asked_before(release: dc.Release) -> None:
    nodes = release.network.nodes
    forward, backward = (
        dc.noise_aware(release, draws=20, rng=np.random.default_rng(5)).probabilities for _ in range(2)
    )
    first = {node: forward[node] for node in nodes}
    second = {node: backward[node] for node in reversed(nodes)}
    assert all(np.array_equal(first[node], second[node]) for node in nodes)
    alone = dc.noise_aware(release, draws=20, rng=np.random.default_rng(5)).probabilities["either"]
    np.testing.assert_array_equal(alone, first["either"])


def test_only_ancestors_are_drawn(release: dc.Release) -> None:
    found = draw_latent_counts(release, 5, np.random.default_rng(6))
    assert found.probabilities["tub"].shape == (2, 2, 5)
    assert set(found._rows) == {"asia", "tub"}


def test_the_rule_of_priors(release: dc.Release) -> None:
    """Learned where nothing is said; given, or with something to say in it, a prior is taken at its word."""

    def cells(made: dc.Release, prior: dc.Dirichlet | None = None) -> np.ndarray:
        return dc.noise_aware(made, draws=20, rng=np.random.default_rng(7), prior=prior).probabilities["either"]

    flat, network = dc.Dirichlet.uniform(release.network, 2.0), release.network
    said = dc.Dirichlet(
        dc.Tables(network, {n: np.arange(1.0, 1 + a.size).reshape(a.shape) for n, a in release.prior.alpha.items()})
    )
    unsaid, with_said = replace(release, prior=flat), replace(release, prior=said)
    np.testing.assert_array_equal(cells(release), cells(unsaid))
    np.testing.assert_array_equal(cells(with_said), cells(release, said))
    np.testing.assert_array_equal(cells(unsaid, flat), cells(release, flat))
    assert not np.array_equal(cells(release), cells(release, release.prior))
    assert not np.array_equal(cells(release, flat), cells(release, release.prior))


def test_other_releases_are_refused() -> None:
    counts = dc.tools.count_codes(NETWORKS["one node"], {"a": np.array([0, 1, 1])})
    made = dc.simulate(
        dc.research.posterior_sampler(),
        counts,
        dc.Dirichlet.uniform(NETWORKS["one node"]),
        guarantee(),
        rng=np.random.default_rng(0),
    )
    with pytest.raises(dc.InputError, match="only noisy tables"):
        draw_latent_counts(made, 3, np.random.default_rng(0))
    with pytest.raises(dc.InputError, match="noise_aware or plug_in"):
        estimate(made, rng=np.random.default_rng(0))


def test_a_damaged_count_is_refused() -> None:
    release = simulated(asia(), 100, guarantee(), np.random.default_rng(1))
    payload = release.payload
    scope = next(iter(payload.tables))
    for value in (2**63 - 1, -(2**63)):
        table = payload.tables[scope].copy()
        table.flat[0] = value
        damaged = replace(release, payload=replace(payload, tables={**payload.tables, scope: table}))
        with pytest.raises(dc.InputError, match="beyond 2\\^60"):
            dc.noise_aware(damaged, draws=2, rng=np.random.default_rng(0))
        with pytest.raises(dc.InputError, match="beyond 2\\^60"):
            estimate(damaged, rng=np.random.default_rng(0))


@pytest.mark.parametrize("wrong", [0.25, "uniform", {}])
def test_a_prior_of_another_type_is_refused(release: dc.Release, wrong: object) -> None:
    for read in (lambda: estimate(release, rng=np.random.default_rng(0), prior=wrong),
                 lambda: dc.noise_aware(release, draws=2, rng=np.random.default_rng(0), prior=wrong)):  # fmt: skip
        with pytest.raises(dc.InputError, match="a prior is a Dirichlet"):
            read()


def test_a_long_chain_listed_backwards() -> None:
    """Longer than Python may go down, which is made less than the usual thousand calls."""
    nodes = [f"v{i}" for i in range(90)]
    network = dc.Network(
        tuple(dc.Variable(node, ("a", "b")) for node in reversed(nodes)),
        {node: (nodes[i - 1],) if i else () for i, node in enumerate(nodes)},
    )
    scopes = [(nodes[i + 1], nodes[i]) for i in range(89)]
    given = given_tables(network, {s: np.array([[40.0, 10], [10, 40]]) for s in scopes}, dict.fromkeys(scopes, 1.0))
    found = LatentCounts(least_squares(given, 100), 2, np.random.default_rng(0))
    assert found.probabilities["v1"].shape == (2, 2, 2)  # all is loaded and compiled now
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 80)
    try:
        assert found.probabilities["v89"].shape == (2, 2, 2)
    finally:
        sys.setrecursionlimit(usual)
    assert len(found._rows) == 90


def test_parents_whose_joint_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margins alone predict the totals; with them both kept this is what independent parents predict."""
    network = NETWORKS["collider"]
    made = planned(random_theta(network, 3, 5.0), 2000, 0.2, "replace")
    within = draw_latent_counts(made, 400, np.random.default_rng(8)).rows("c").counts.sum(axis=-2)

    def refuse(*_: object) -> None:
        raise dc.InputError("too large")

    monkeypatch.setattr(Laws, "joint", refuse)
    found = draw_latent_counts(made, 400, np.random.default_rng(8))
    check_world(found, 400)
    beyond = found.rows("c").counts.sum(axis=-2)
    spread = within.std(axis=-1) + 1
    assert np.all(np.abs(beyond.mean(axis=-1) - within.mean(axis=-1)) < spread)


def test_weights_of_the_second_pass_come_from_the_first(release: dc.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[LatentCounts] = []
    own = LatentCounts.__init__

    def spy(self: LatentCounts, margins: Margins, draws: int, rng: np.random.Generator, **options: object) -> None:
        own(self, margins, draws, rng, **options)  # type: ignore[arg-type]
        seen.append(self)

    monkeypatch.setattr(LatentCounts, "__init__", spy)
    draw_latent_counts(release, 3, np.random.default_rng(9))
    first, second = seen
    np.testing.assert_allclose(first.weights, 1 / COMPONENTS)
    usage = sum(first.rows(node).usage for node in release.network.nodes) + 0.5
    np.testing.assert_allclose(second.weights, usage / usage.sum())


def test_errors_are_never_larger_than_plain_ones_and_mostly_smaller(release: dc.Release) -> None:
    noisy = read_tables(release.network, release.payload.measurements)  # type: ignore[arg-type]
    plain = least_squares(noisy, release.records)
    first = LatentCounts(plain, 16, np.random.default_rng(10))
    constrained = module._fit_constrained(noisy, plain, first.probabilities, np.random.default_rng(11))
    for sharper in (constrained.as_measured(), constrained.for_intervals()):
        assert set(sharper.variances) == set(plain.variances)
        assert sharper.total == plain.total
        for subset, variance in sharper.variances.items():
            assert 0 <= variance <= plain.variances[subset]
        ratio = [sharper.variances[s] / plain.variances[s] for s in plain.variances if len(s) > 1]
        assert np.mean(ratio) < 0.95


def made_up_errors(bias: float, spread: float) -> tuple[module._Constrained, Margins]:
    """Fits of a margin of four states: errors of a known mean and spread in each of three coordinates."""
    network = network_of({"a": 4})
    plain = Margins(network, {(): np.array(400.0), ("a",): np.array([5.0, 0, -5])}, {(): 9.0, ("a",): 16.0})
    noise = np.random.default_rng(17).standard_normal((3, 2000))
    noise = (noise - noise.mean(axis=-1, keepdims=True)) / noise.std(axis=-1, keepdims=True)
    errors = {("a",): bias + spread * noise}
    records = {("a",): np.full((4, 2000), 100.0)}
    return module._Constrained(plain, {("a",): np.array([6.0, 1, -4])}, errors, records), plain


def test_a_bias_that_is_known_is_subtracted_for_intervals_and_kept_in_the_estimate() -> None:
    constrained, plain = made_up_errors(bias=1.0, spread=1.0)
    fast, held = constrained.as_measured(), constrained.for_intervals()
    np.testing.assert_array_equal(fast.values["a",], [6, 1, -4])
    assert fast.variances["a",] == pytest.approx(2)
    np.testing.assert_allclose(held.values["a",], [5, 0, -5])
    own = 2001 / 1999
    assert held.variances["a",] == pytest.approx(own**0.25 * 16**0.75)
    assert held.total == plain.total


def test_plain_least_squares_is_taken_where_the_fit_is_no_better() -> None:
    """Also where its errors are small but for a bias, which the estimate counts."""
    constrained, plain = made_up_errors(bias=1.0, spread=4.1)
    held = constrained.for_intervals()
    np.testing.assert_array_equal(held.values["a",], plain.values["a",])
    assert held.variances["a",] == 16
    biased, _ = made_up_errors(bias=9.0, spread=1.0)
    assert biased.as_measured().variances["a",] == 16
    assert biased.for_intervals().variances["a",] < 16


def test_one_made_up_fit_tells_no_bias_from_spread() -> None:
    constrained, plain = made_up_errors(bias=1.0, spread=1.0)
    first = {subset: error[..., :1] for subset, error in constrained.errors.items()}
    held = replace(constrained, errors=first, records={("a",): np.full((4, 1), 100.0)}).for_intervals()
    np.testing.assert_array_equal(held.values["a",], plain.values["a",])


# ---------------------------------------------------------------------------------------------------------- doubt


def many_rows(draws: int, doubt: bool) -> LatentCounts:
    """Sixty rows of 2 records on average, whose child has a rare state that they are told nearly nothing of."""
    network = network_of({"a": 60, "b": 3}, "a>b")
    tables = {("a",): np.full(60, 20.0), ("b",): np.array([900.0, 270, 30])}
    tables["a", "b"] = np.outer(tables["a",], tables["b",]) / 1200
    scales = {("a",): 0.1, ("b",): 100.0, ("a", "b"): 60.0}
    margins = least_squares(given_tables(network, tables, scales), 1200)
    return LatentCounts(margins, draws, np.random.default_rng(18), doubt=doubt)


def test_a_childs_margin_follows_its_own_evidence_and_prior() -> None:
    """400 draws: mean and deviation of the margin as if the child were a root, within six standard errors."""
    draws = 400
    found = many_rows(draws, doubt=True)
    margin = found.rows("b").counts.sum(axis=0)
    values, variances = found._margins.coordinates(["b"])
    totals = np.full(draws, 1200)
    alone = draw_rows(
        values, variances, totals, np.full(COMPONENTS, 1 / COMPONENTS), np.random.default_rng(19), alpha=np.full(3, 0.5)
    ).counts
    error = np.sqrt((margin.var(axis=-1) + alone.var(axis=-1)) / draws)
    # Sixty rows are rounded: half a record each at most, on average none.
    assert np.all(np.abs(margin.mean(axis=-1) - alone.mean(axis=-1)) < 6 * error + 0.1)
    rounding = 60 / 4
    lower, upper = alone.var(axis=-1) * (1 - 6 * math.sqrt(2 / draws)), alone.var(axis=-1) + rounding
    assert np.all((lower < margin.var(axis=-1)) & (margin.var(axis=-1) < upper * (1 + 6 * math.sqrt(2 / draws))))


def test_without_doubt_rows_outvote_their_margin() -> None:
    """Why it is raked: of sixty rows that know little each takes some records into the rare state.

    Its 30 records are told with a deviation of 100; draws deviate by 50 and 65: the difference has an error of 7.
    """
    found, believed = (many_rows(150, doubt=doubt).rows("b").counts[:, 2].sum(axis=0).mean() for doubt in (True, False))
    assert believed > found


def test_only_the_learned_prior_of_intervals_is_doubted(release: dc.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def spy(*arguments: object, doubt: RowDoubt | None = None, **named: object) -> RowDraws:
        seen.append(doubt is not None and doubt.rare)
        return draw_rows(*arguments, doubt=doubt, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "draw_rows", spy)
    everything = list(release.network.nodes)
    dc.noise_aware(release, draws=3, rng=np.random.default_rng(20), method="pooled").probabilities[everything[-1]]
    assert any(seen)
    seen.clear()
    estimate(release, rng=np.random.default_rng(20))
    dc.noise_aware(release, draws=3, rng=np.random.default_rng(20), prior=release.prior, method="pooled").probabilities[
        everything[-1]
    ]
    assert seen and not any(seen)


def test_made_up_records_are_weighted_to_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MADE_UP_RECORDS", 50)
    cells = dc.Dirichlet.uniform(NETWORKS["five"], 1.0).draw(4, rng=np.random.default_rng(12))
    made = module._make_up_tables(cells, [("a", "b", "c"), ("c", "d")], 1234.5, np.random.default_rng(13))
    for scope, table in made.items():
        assert table.shape == (*(NETWORKS["five"].schema[name].size for name in scope), 4)
        np.testing.assert_allclose(table.reshape(-1, 4).sum(axis=0), 1234.5)
        np.testing.assert_allclose(table / (1234.5 / 50), np.rint(table / (1234.5 / 50)), atol=1e-9)
    np.testing.assert_allclose(made["a", "b", "c"].sum(axis=(0, 1)), made["c", "d"].sum(axis=1))


# ------------------------------------------------------------------------------------------------------- estimate


@every(("relation", "loss"), [("add-remove", "squared"), ("replace", "absolute")])
def test_the_estimate_is_that_of_many_draws(relation: str, loss: Literal["squared", "absolute"]) -> None:
    """A tenth of a deviation, as it says; half a deviation in the worst of 30 cells, five times as much."""
    made = planned(random_theta(NETWORKS["five"], 6, 0.5), 1000, 0.3, relation)
    fast = estimate(made, rng=np.random.default_rng(14), loss=loss)
    posterior = dc.results.PosteriorDraws(
        draw_latent_counts(made, 2000, np.random.default_rng(14), doubt=False).probabilities
    )
    off = []
    for node, exact in (posterior.mean() if loss == "squared" else posterior.median()).items():
        assert fast[node].shape == exact.shape
        np.testing.assert_allclose(fast[node].sum(axis=-1), 1, rtol=1e-9)
        off.append(((fast[node] - exact) / posterior.probabilities[node].std(axis=-1)).ravel())
    every = np.concatenate(off)
    assert math.sqrt(float((every**2).mean())) < 0.15
    assert np.abs(every).max() < 0.5


def test_a_loss_that_is_none(release: dc.Release) -> None:
    with pytest.raises(dc.InputError, match="'squared' or 'absolute', got 'both'"):
        estimate(release, rng=np.random.default_rng(0), loss="both")  # type: ignore[arg-type]


@pytest.mark.costly("A learned prior that does not help is found by its error over many releases.")
def test_the_learned_prior_has_less_error_on_a_network_with_structure() -> None:
    """Asia, 5 releases of 1,000 records: absolute errors of all rows alike, against the release's own prior."""
    theta = asia()
    ours, given_prior = 0.0, 0.0
    for seed in range(5):
        made = planned(theta, 1000, 0.3, seed=seed)
        first = estimate(made, rng=np.random.default_rng(seed))
        second = dc.noise_aware(made, draws=50, rng=np.random.default_rng(seed), prior=made.prior).mean()
        for node in theta:
            ours += float(np.abs(first[node] - theta[node]).sum(axis=-1).mean())
            given_prior += float(np.abs(second[node] - theta[node]).sum(axis=-1).mean())
    assert ours < 0.97 * given_prior
