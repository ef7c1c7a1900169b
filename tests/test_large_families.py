"""Families too large for the budget: which parents are left out, that the promise holds, and what is read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.mechanisms.table_plans import SPARED_FACTOR, without_large
from discreet.model.dirichlet import dirichlet_draws
from discreet.planning.star_cover import star_cover
from discreet.posterior.pooled.latent_counts import spread_rows
from discreet.posterior.pooled.shrinkage import COMPONENTS, RowDraws
from discreet.releases.kinds.noisy_tables import measured_part, star_scopes
from enumeration import noise_loss
from folding import every
from networks import network_path
from strategies import networks
from tiny import TINY, counts_of, measured, neighbours, network_of

LARGE = network_of({"a": 6, "b": 7, "c": 2, "d": 5}, "a>d b>d c>d a>b")
"""A family of 420 cells, one of 42, and two roots."""


def promise(epsilon: object = 1, relation: dc.Relation = dc.Relation.ADD_REMOVE, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def planned(network: dc.Network, guarantee: dc.Guarantee, records: int | None) -> dc.kinds.PlannedNoise:
    found: dc.kinds.PlannedNoise = dc.planned(pairs_share=0, records=records).calibrate(
        network, dc.Dirichlet.uniform(network), guarantee
    )
    return found


def made_up(network: dc.Network, records: int = 300) -> dc.results.Counts:
    rng = np.random.default_rng(3)
    return dc.tools.count_codes(network, {each.name: rng.integers(each.size, size=records) for each in network.schema})


# ------------------------------------------------------------------------------------------------------------ the rule


@settings(deadline=None)
@given(networks(max_nodes=6), st.floats(0.1, 100))
def test_large_families_lose_parents_until_they_fit(network: dc.Network, cells: float) -> None:
    smaller = without_large(network, cells)
    assert smaller.variables == network.variables
    for node in network.nodes:
        kept = smaller.parents[node]
        assert kept == tuple(name for name in network.parents[node] if name in kept)
        if network.cells(network.family(node)) <= SPARED_FACTOR * cells:
            assert kept == network.parents[node]
        else:
            assert not kept or network.cells((*kept, node)) <= cells


def test_the_parent_with_most_states_goes_first() -> None:
    assert without_large(LARGE, 139).parents["d"] == ("a", "c")  # 60 cells; 3 x 139 are less than 420
    assert without_large(LARGE, 140).parents["d"] == ("a", "b", "c")
    assert without_large(LARGE, 59).parents["d"] == ("c",)


@every("name", ["child", "alarm"])
def test_what_the_budget_can_fill_is_measured_whole(name: str) -> None:
    network = dc.Network.read(network_path(name))
    for guarantee in (promise(), promise("0.1"), promise(1, delta="1e-6")):
        assert planned(network, guarantee, 10_000) == planned(network, guarantee, None)


@every("delta", [0, "0.01"])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_plan_for_few_records_measures_parts(relation: dc.Relation, delta: object) -> None:
    guarantee = promise("0.1", relation, delta)
    whole, few, many = (planned(LARGE, guarantee, records) for records in (None, 200, 10**7))
    assert many == whole != few
    assert few.noise == whole.noise == ("discrete_gaussian" if delta else "discrete_laplace")
    assert few.total <= guarantee.epsilon and few.total > guarantee.epsilon * (1 - 1e-9)
    assert max(map(LARGE.cells, few.scales)) < 42
    assert set(few.expected) == set(LARGE.nodes)
    # What is measured was counted.
    assert all(any(set(scope) <= set(other) for other in measured(LARGE)) for scope in few.scales)


def test_a_plan_for_a_workload_leaves_nothing_out() -> None:
    mechanisms = [dc.planned(pairs_share=0, workload=["P(d | a=s0)"], records=records) for records in (None, 10)]
    one, other = (each.calibrate(LARGE, dc.Dirichlet.uniform(LARGE), promise("0.1")) for each in mechanisms)
    assert one == other


@every("records", [0, -5, 1.5, "many"])
def test_records_are_a_whole_number(records: object) -> None:
    with pytest.raises(dc.InputError, match="whole number of at least 1"):
        dc.planned(pairs_share=0, records=records)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------- the promise


@pytest.mark.costly("The guarantee of tables that are cut into parts, by enumeration of neighbours.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every(("states", "tables"), [(4, 2), (7, 3)])
def test_a_plan_of_parts_is_private_and_tight(states: int, tables: int, relation: dc.Relation) -> None:
    network = network_of({"a": states - 1, "b": states, "c": 2 + states // 7}, "a>c b>c")
    guarantee, mechanism = promise(1, relation), dc.planned(pairs_share=0, records=1)
    plan = mechanism.calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    assert len(plan.scales) == tables and measured_part(network, plan.scales, "c") != network.family("c")
    loss = noise_loss(mechanism, network, guarantee, neighbours(network, relation, 1))
    assert 1 - 1e-11 < loss <= 1


# --------------------------------------------------------------------------------------------------------- the readers


def test_a_release_says_what_was_left_out_and_comes_back() -> None:
    made = dc.simulate(
        dc.planned(pairs_share=0, records=200),
        made_up(LARGE),
        dc.Dirichlet.uniform(LARGE),
        promise("0.1"),
        rng=np.random.default_rng(1),
    )
    again = dc.Release.loads(made.dumps())
    assert again.dumps() == made.dumps()
    assert again.network == LARGE
    assert again.payload.cut["d"] == measured_part(LARGE, again.payload.tables, "d") != LARGE.family("d")
    assert "families were too large and measured without some parents" in again.payload.summary(again.calibration)
    with pytest.raises(dc.InputError, match="measured without some of its parents"):
        again.payload.table("d")


@pytest.mark.costly("Each reader of tables meets parts in a place of its own.")
@every("method", ["pooled", "exact"])
@every("prior", [None, 1.0])
def test_every_reader_reads_parts(method: str, prior: float | None) -> None:
    network = network_of({"a": 3, "b": 4, "c": 2}, "a>c b>c")
    believed = None if prior is None else dc.Dirichlet.uniform(network, prior)
    made = dc.simulate(
        dc.planned(pairs_share=0, records=1),
        made_up(network, 60),
        dc.Dirichlet.uniform(network),
        promise(),
        rng=np.random.default_rng(1),
    )
    assert made.payload.cut == {"c": ("a", "c")}
    rng = np.random.default_rng(2)
    found = dc.noise_aware(made, draws=200, rng=rng, prior=believed, method=method)
    for cells in (found.probabilities, dc.tools.plug_in(made, draws=50, rng=rng).probabilities):
        assert all(np.allclose(cells[node].sum(axis=-2), 1) for node in network.nodes)
    point = dc.estimate(made, rng=rng, prior=believed)
    assert np.allclose(point["c"].sum(axis=-1), 1)
    if prior is None:
        np.testing.assert_allclose(point["c"], np.broadcast_to(point["c"][:, :1], point["c"].shape))


def test_rows_of_a_part_are_known_and_those_of_the_family_are_not() -> None:
    """A network whose rows differ: the child's margin is told to a hundredth, its rows hardly at all."""
    network = network_of({"a": 3, "b": 4, "c": 2}, "a>c b>c")
    rng = np.random.default_rng(5)
    codes = {"a": rng.integers(3, size=4000), "b": rng.integers(4, size=4000)}
    codes["c"] = (rng.random(4000) < np.where((codes["a"] + codes["b"]) % 2, 0.9, 0.2)).astype(np.int64)
    counts, prior = dc.tools.count_codes(network, codes), dc.Dirichlet.uniform(network)
    made = dc.simulate(dc.planned(pairs_share=0, records=1), counts, prior, promise(), rng=rng)
    assert made.payload.cut == {"c": ("a", "c")}
    found = dc.noise_aware(made, draws=2000, rng=rng)
    weights = np.bincount(codes["a"] * 4 + codes["b"], minlength=12).reshape(3, 4, 1) / 4000
    margin = (weights * found.probabilities["c"][..., 1, :]).sum(axis=(0, 1))
    assert abs(margin.mean() - codes["c"].mean()) < 0.02
    assert margin.std() < 0.03
    rows = found.probabilities["c"][..., 1, :]
    low, high = np.quantile(rows, [0.025, 0.975], axis=-1)
    truth = np.where(np.add.outer(np.arange(3), np.arange(4)) % 2, 0.9, 0.2)
    assert np.all((low < truth) & (truth < high))


def test_stars_of_parts_are_stars() -> None:
    network = dc.Network.read(network_path("barley"))
    plan = planned(network, promise(), 10_000)
    assert len(plan.stars) > 0
    assert all(len(set.intersection(*map(set, star))) > 0 for star in star_scopes(plan.stars))
    assert len(star_cover(network)) > 1
    parts = {node: measured_part(network, plan.scales, node) for node in network.nodes if network.parents[node]}
    assert sum(len(part) > 1 for part in parts.values()) > len(parts) / 2


def test_counts_of_families_alone_hold_no_other_tables() -> None:
    """What a plan of parts measures lies in what is counted for any plan."""
    for network in (LARGE, *TINY.values()):
        plan = planned(network, promise("0.1"), 1)
        counts_of(network, []).require(plan.scales)


@every("kept", [(1,), (0, 2), ()])
@every("given", [False, True])
def test_rows_keep_their_records_and_sum_to_those_of_the_part(kept: tuple[int, ...], given: bool) -> None:
    """Parents of 3, 4 and 2 states and a child of 5; rounding moves a cell of each row by less than one record."""
    rng, sizes, states, draws = np.random.default_rng(7), (3, 4, 2), 5, 6
    totals = rng.integers(0, 40, (*sizes, draws))
    left = tuple(axis for axis in range(3) if axis not in kept)
    own = totals.sum(axis=left)
    theta = dirichlet_draws(np.full((*own.shape[:-1], states, draws), 0.5), rng)
    counts = np.moveaxis(rng.multinomial(own, np.moveaxis(theta, -2, -1)), -1, -2)
    part = RowDraws(counts, counts + 0.5, theta, theta.mean(axis=-1), np.ones(COMPONENTS))
    alpha = rng.uniform(0.5, 2, (*sizes, states)) if given else None
    found = spread_rows(part, kept, totals, np.full(COMPONENTS, 1 / COMPONENTS), rng, alpha)
    np.testing.assert_array_equal(found.counts.sum(axis=-2), totals)
    rows = math.prod(sizes[axis] for axis in left)
    assert np.abs(found.counts.sum(axis=left) - counts).max() <= max(rows, 0.1 * counts.max())
    assert np.allclose(found.theta.sum(axis=-2), 1) and np.allclose(found.mean.sum(axis=-1), 1)
    if given:
        np.testing.assert_array_equal(found.alpha, np.repeat(alpha[..., None], draws, axis=-1))
    else:
        shape = [size if axis in kept else 1 for axis, size in enumerate(sizes)]
        np.testing.assert_array_equal(found.mean, np.broadcast_to(part.mean.reshape(*shape, states), found.mean.shape))
        # Rows lean to those of their part: mostly where concentrations are large.
        around = np.broadcast_to(theta.reshape(*shape, states, draws), found.theta.shape)
        assert np.corrcoef(found.theta.ravel(), around.ravel())[0, 1] > 0.3
