"""Latent nodes: laws and slopes by enumeration, errors of overlapping tables, labels, refusals, and both faces.

Tests of draws have fixed seeds. Bounds are six standard deviations or more of what they bound, so a right reader fails
one of them with a probability below 1e-6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import qmc
from typer.testing import CliRunner

import discreet as dc
from discreet.cli.cli import app
from discreet.latent import latent_reader
from discreet.latent.latent_block import (
    BlockMoments,
    LatentBlock,
    LawLikelihood,
    block_contrasts,
    count_directions,
    find_orders,
    label_doubt,
    state_features,
)
from discreet.latent.latent_plan import plan_latent, without_latent
from discreet.latent.latent_proposal import CorrelatedPairs, propose_latent
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.posterior import stored
from discreet.posterior.diagnostics import effective_size
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Array, Floats
from folding import every

PROMISE = {"delta": 0, "relation": "add-remove", "unit": "record"}


def star(questions: int, classes: int = 2) -> dc.Network:
    """A class behind yes-or-no questions."""
    group = dc.Variable("class", tuple(f"c{number + 1}" for number in range(classes)))
    asked = [dc.Variable(f"q{number + 1}", ("no", "yes")) for number in range(questions)]
    return dc.Network.naive_bayes([group, *asked], "class")


def web() -> dc.Network:
    """A latent node with a parent, three children, one of them with another parent, and a node outside."""
    names = {"up": "ab", "hid": "xyz", "one": "ab", "two": "abc", "side": "ab", "three": "ab", "out": "ab"}
    parents = {
        "up": (), "hid": ("up",), "one": ("hid",), "two": ("hid",), "side": ("one",), "three": ("side", "hid"),
        "out": ("three",),
    }  # fmt: skip
    return dc.Network(tuple(dc.Variable(name, tuple(states)) for name, states in names.items()), parents)


def simulated(network: dc.Network, theta: dc.Tables, records: int, epsilon: float, seed: int) -> dc.Release:
    """A rehearsed release of records of a network, over the network without its node "class"."""
    rng = np.random.default_rng(seed)
    observed = without_latent(network, "class")
    rows = dc.tools.simulate_records(theta, records, rng=rng)
    codes = {
        name: np.array([observed.schema[name].states.index(value) for value in rows[name].to_pylist()])
        for name in observed.nodes
    }
    counts = dc.tools.count_codes(observed, codes)
    promise = dc.Guarantee(epsilon=epsilon, **PROMISE)
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(observed), promise, rng=rng)


def classes_of(share: float, asked: Floats) -> dc.Tables:
    """Probabilities of two classes and their answers; `asked` has P(yes), shape (2, questions)."""
    tables: dict[str, Array] = {"class": np.array([share, 1 - share])}
    tables |= {f"q{number + 1}": np.stack([1 - column, column], 1) for number, column in enumerate(asked.T)}
    return dc.Tables(star(asked.shape[1]), tables)


APART = classes_of(0.6, np.array([[0.1, 0.2, 0.15, 0.9, 0.7], [0.8, 0.9, 0.75, 0.2, 0.3]]))
APART_6 = classes_of(0.6, np.array([[0.1, 0.2, 0.15, 0.9, 0.7, 0.4], [0.8, 0.9, 0.75, 0.2, 0.3, 0.6]]))


# --------------------------------------------------------------------------------------------------- the block


@every("network", [star(4, 3), web()])
def test_law_and_slope_are_those_of_enumeration(network: dc.Network) -> None:
    """The law sums the product of all rows over the latent node; its slope is that of differences."""
    latent = network.nodes[0] if network.nodes[0] == "class" else "hid"
    block = LatentBlock.of(network, latent)
    rng = np.random.default_rng(1)
    rows = dict(dc.Dirichlet.uniform(block.network, 1.0).draw(2, rng=rng))
    law, before = block.law(rows)
    nodes = block.network.nodes
    sizes = [block.network.schema[name].size for name in nodes]
    joint = np.zeros((*sizes, 2))
    for states in product(*map(range, sizes)):
        at = dict(zip(nodes, states, strict=True))
        joint[states] = np.prod(
            [rows[name][tuple(at[m] for m in block.network.family(name))] for name in nodes], axis=0
        )
    np.testing.assert_allclose(law, joint.sum(axis=nodes.index(latent)).reshape(-1, 2), rtol=1e-12)
    weights = rng.standard_normal(law.shape)
    slopes = block.pull_back(rows, before, weights)
    for name in nodes:
        moved = dict(rows)
        step = rng.standard_normal(rows[name].shape) * 1e-6
        moved[name] = rows[name] + step
        change = ((block.law(moved)[0] - law) * weights).sum(axis=0)
        expected = (slopes[name] * step).reshape(-1, 2).sum(axis=0)
        np.testing.assert_allclose(change, expected, rtol=1e-3, atol=1e-11)


def test_a_block_has_what_is_around_the_node_and_assumes_nothing_of_the_rest() -> None:
    block = LatentBlock.of(web(), "hid")
    assert set(block.network.nodes) == {"up", "hid", "one", "two", "side", "three"}
    assert set(block.modelled) == {"hid", "one", "two", "three"}
    side = block.network.parents["side"]
    earlier = block.network.nodes[: block.network.nodes.index("side")]
    assert side == tuple(name for name in earlier if name != "hid")


@pytest.mark.costly("Errors are compared with those of many simulated tables.")
def test_errors_of_overlapping_tables_are_those_of_the_same_records() -> None:
    """Scaled errors of 3,000 made-up releases of all pairs, and of one triple, have the identity as covariance."""
    block = LatentBlock.of(star(4), "class")
    observed = without_latent(star(4), "class")
    theta = classes_of(0.6, np.array([[0.1, 0.2, 0.15, 0.9], [0.8, 0.9, 0.75, 0.2]]))
    law = block.law({name: np.asarray(theta[name])[..., None] for name in block.network.nodes})[0]
    scopes = [("q1", "q2"), ("q2", "q3"), ("q3", "q4"), ("q1", "q4"), ("q1", "q3"), ("q2", "q3", "q4")]
    rng, records, errors = np.random.default_rng(2), 2000, []
    noise = DiscreteLaplace(6.0)
    for _ in range(3000):
        counts = rng.multinomial(records, law[:, 0]).reshape(2, 2, 2, 2)
        measured = []
        for scope in scopes:
            axes = tuple(axis for axis, name in enumerate(("q1", "q2", "q3", "q4")) if name not in scope)
            table = counts.sum(axis=axes)
            measured.append(Measurement(scope, table + noise.simulate(table.shape, rng).round().astype(int), noise))
        moments = BlockMoments.of(block, observed, measured, None)
        likelihood = moments.likelihood(law[:, 0])
        errors.append(likelihood.rows @ (likelihood.cells - likelihood.records * law[:, 0]))
    # Deviations of 0.018 for a covariance and 0.026 for a variance; the total's estimate adds 1 % to some.
    np.testing.assert_allclose(np.cov(np.array(errors).T), np.eye(len(errors[0])), atol=0.17)


@every("records", [None, 500])
def test_one_table_has_the_likelihood_of_its_interactions(records: int | None) -> None:
    """By cells and by the covariance of interactions; of questions with two, three and four answers."""
    names = {"class": "xy", "one": "ab", "two": "abc", "three": "abcd"}
    network = dc.Network.naive_bayes([dc.Variable(name, tuple(states)) for name, states in names.items()], "class")
    block, rng = LatentBlock.of(network, "class"), np.random.default_rng(8)
    table = Measurement(block.observed, rng.poisson(25, (2, 3, 4)), DiscreteLaplace(3.0))
    moments = BlockMoments.of(block, without_latent(network, "class"), [table], records)
    assert (moments.records_noise == 0) == (records is not None)
    law, laws = rng.dirichlet(np.ones(24)), rng.dirichlet(np.ones(24), 5).T
    by_cells, whole = moments.likelihood(law), moments.joined_likelihood(law)
    assert (len(by_cells.rows), len(whole.rows)) == (2, 23)
    np.testing.assert_allclose(by_cells.misfit(laws), whole.misfit(laws), rtol=1e-9)
    slopes = whole.slope(laws)
    # Laws sum to 1: a constant added to all slopes says nothing.
    np.testing.assert_allclose(by_cells.slope(laws) - by_cells.slope(laws).mean(0), slopes - slopes.mean(0), rtol=1e-7)
    other = Measurement(block.observed[:2], table.values.sum(axis=2), DiscreteLaplace(3.0))
    joined = BlockMoments.of(block, without_latent(network, "class"), [table, other], records)
    assert len(joined.likelihood(law).rows) == 23


def test_slopes_of_moves_are_close_to_the_whole_ones() -> None:
    """Laws near each other differ in few directions, and in these the kept errors are the whole ones."""
    release = simulated(star(6), APART_6, 500, 1.0, 3)
    block = LatentBlock.of(star(6), "class")
    moments = BlockMoments.of(block, release.network, release.measurements, None)
    rng = np.random.default_rng(0)
    ways = rng.standard_normal((64, 4)) * 1e-4
    laws = np.full((64, 1), 1 / 64) + (ways - ways.mean(axis=0)) @ rng.standard_normal((4, 50))
    whole = moments.joined_likelihood(np.full(64, 1 / 64))
    kept = whole.seen_by(laws, 6, rng)
    assert (len(whole.rows), len(kept.rows)) == (63, 7)
    differences = laws[:, 1:] - laws[:, :1]
    for likelihood in (whole, kept):
        change = np.diff(likelihood.misfit(laws)) + 0.5 * (
            (likelihood.slope(laws)[:, 1:] + likelihood.slope(laws)[:, :-1]) * np.diff(laws)
        ).sum(axis=0)
        np.testing.assert_allclose(change, 0, atol=1e-6)
    np.testing.assert_allclose(
        (kept.slope(laws)[:, 1:] * differences).sum(axis=0),
        (whole.slope(laws)[:, 1:] * differences).sum(axis=0),
        rtol=1e-6,
    )
    assert whole.seen_by(laws, 32, rng) is whole


# --------------------------------------------------------------------------------------------------- what is told


@every(
    ("network", "identified", "parameters"),
    [
        (star(3), {2: 6, 3: 7}, 7),
        (star(5), {2: 10, 3: 11}, 11),
        # Goodman (1974): four yes-or-no questions do not tell three classes, though 14 numbers are as many as 15 - 1.
        (star(4, 3), {2: 10, 3: 13, 4: 13}, 14),
        (star(5, 3), {2: 14, 3: 17}, 17),
    ],
)
def test_how_much_tables_tell_is_that_of_the_field(
    network: dc.Network, identified: dict[int, int], parameters: int
) -> None:
    plan = plan_latent(network, "class")
    assert (dict(plan.identified), plan.parameters) == (identified, parameters)
    assert plan.least == (3 if max(identified.values()) == parameters else None)


def test_mixtures_of_many_interactions_have_the_rank_of_all() -> None:
    block = LatentBlock.of(star(6), "class")
    rows = np.concatenate([block_contrasts(block, ("q1", "q2", name)) for name in ("q3", "q4")] * 20)
    assert count_directions(block, rows)[0] == 2


# --------------------------------------------------------------------------------------------------- labels


def test_states_that_are_mixed_up_are_put_in_order_and_doubt_is_seen() -> None:
    rng = np.random.default_rng(4)
    block = LatentBlock.of(star(5, 3), "class")
    centre = dict(dc.Dirichlet.uniform(block.network, 1.0).draw(1, rng=7))
    rows = {name: np.repeat(table, 900, axis=-1) for name, table in centre.items()}
    rows = {name: table * np.exp(0.05 * rng.standard_normal(table.shape)) for name, table in rows.items()}
    rows = {name: table / table.sum(axis=-2, keepdims=True) for name, table in rows.items()}
    mixed = block.permuted(rows, rng.permuted(np.tile(np.arange(3)[:, None], 900), axis=0))
    ordered = block.permuted(mixed, find_orders(state_features(block, mixed)))
    assert state_features(block, ordered).std(axis=-1).max() < 0.05
    assert label_doubt(state_features(block, ordered)) < 1e-6
    vague = dict(dc.Dirichlet.uniform(block.network, 1.0).draw(900, rng=8))
    vague = block.permuted(vague, find_orders(state_features(block, vague)))
    assert label_doubt(state_features(block, vague)) > 5 * latent_reader.LABEL_DOUBT


def test_answers_about_observed_variables_need_no_labels() -> None:
    network = star(4)
    drawn = dc.Dirichlet.uniform(network).draw(300, rng=1)
    block = LatentBlock.of(network, "class")
    orders = np.random.default_rng(2).permuted(np.tile(np.arange(2)[:, None], 300), axis=0)
    mixed = dc.Tables(network, block.permuted(dict(drawn), orders), draws=300)
    one, other = (dc.results.PosteriorDraws(tables).answer("P(q3 | q1=yes)") for tables in (drawn, mixed))
    np.testing.assert_allclose(one.draws, other.draws, rtol=1e-12)


# --------------------------------------------------------------------------------------------------- draws


def fitted_by_em(counts: Floats, questions: int, start: Floats) -> tuple[Floats, Floats]:
    """Maximum likelihood of two classes from the whole table: shares, and P(yes), shape (2, questions)."""
    cells = np.array(list(product((0, 1), repeat=questions)))
    shares, asked = np.array([0.5, 0.5]), start
    for _ in range(3000):
        each = shares * np.prod(np.where(cells[:, None], asked, 1 - asked), axis=-1)
        weight = counts[:, None] * each / each.sum(axis=1, keepdims=True)
        shares, asked = weight.sum(axis=0) / counts.sum(), (weight.T @ cells) / weight.sum(axis=0)[:, None]
    return shares, asked


@pytest.fixture(scope="module")
def quiet() -> tuple[dc.Release, latent_reader.LatentDraws]:
    """A release of many records with hardly any noise, and its posterior."""
    release = simulated(star(5), APART, 20_000, 100.0, 5)
    return release, dc.read(release, method="latent", network=star(5), draws=1000, rng=1)


def test_without_noise_it_is_the_maximum_likelihood(quiet: tuple[dc.Release, latent_reader.LatentDraws]) -> None:
    release, posterior = quiet
    (table,) = release.measurements
    asked = np.stack([np.asarray(APART[f"q{number}"])[:, 1] for number in range(1, 6)], axis=1)
    shares, best = fitted_by_em(np.maximum(table.values, 0).ravel().astype(float), 5, asked)
    drawn = posterior.probabilities
    pairs = [(drawn["class"], shares)] + [(drawn[f"q{k + 1}"][:, 1], best[:, k]) for k in range(5)]
    for draws, value in pairs:
        # 400 effective draws: the mean has an error of 0.05 deviations, and the prior moves it by as little.
        np.testing.assert_allclose(draws.mean(axis=-1), value, atol=0.4 * draws.std(axis=-1).min())
    assert posterior.mixing is not None
    assert posterior.mixing.r_hat <= 1.01
    assert posterior.label_doubt < 1e-3
    assert posterior.fit > 1e-6


@pytest.mark.costly("Two posteriors of the same tables, each by its own slopes.")
def test_slopes_of_few_directions_have_the_same_posterior(
    quiet: tuple[dc.Release, latent_reader.LatentDraws], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moves that take their slopes from 9 of 31 errors are accepted by all: deviations agree within a quarter."""
    release, posterior = quiet
    monkeypatch.setattr(latent_reader, "DIRECTIONS", 8)
    rough = dc.read(release, method="latent", network=star(5), draws=1000, rng=2)
    for name in ("class", "q1", "q5"):
        one, other = (np.asarray(each.probabilities[name]) for each in (posterior, rough))
        np.testing.assert_allclose(one.mean(axis=-1), other.mean(axis=-1), atol=0.4 * one.std(axis=-1).max())
        np.testing.assert_allclose(one.std(axis=-1) / other.std(axis=-1), 1, atol=0.25)


def test_one_seed_has_one_posterior_and_shares_are_in_order(
    quiet: tuple[dc.Release, latent_reader.LatentDraws],
) -> None:
    release, posterior = quiet
    again = release.posterior(method="latent", network=star(5), draws=1000, rng=1)
    for name in ("class", "q1"):
        np.testing.assert_array_equal(again.probabilities[name], posterior.probabilities[name])
    shares = posterior.probabilities["class"].mean(axis=-1)
    assert shares[0] > shares[1]
    assert posterior.ess() >= 400


def rough_block() -> tuple[LatentBlock, BlockMoments, dc.Dirichlet]:
    """Three questions, 30 records and much noise: the posterior is wide, so points of the prior can be weighted."""
    release = simulated(star(3), classes_of(0.7, np.array([[0.1, 0.2, 0.15], [0.9, 0.8, 0.85]])), 30, 0.4, 1)
    block = LatentBlock.of(star(3), "class")
    moments = BlockMoments.of(block, release.network, release.measurements, None)
    return block, moments, dc.Dirichlet.uniform(block.network, 1.0)


def quantities_of(block: LatentBlock, rows: Mapping[str, Array]) -> Floats:
    """List what no names of states change: the larger share, the difference at q1, P(q1=yes, q2=yes), P(all yes)."""
    law = block.law(rows)[0].reshape(2, 2, 2, -1)
    apart = np.abs(np.diff(rows["q1"][:, 1], axis=0))[0]
    return np.stack([rows["class"].max(axis=0), apart, law[1, 1].sum(axis=0), law[1, 1, 1]])


def weights_of(likelihood: LawLikelihood, law: Floats) -> Floats:
    """Compute posterior weights of points that the prior weights equally."""
    misfit = likelihood.misfit(law)
    weights = np.exp(misfit.min() - misfit)
    return np.asarray(weights / weights.sum(), np.float64)


def test_draws_are_those_of_weighted_points_of_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means and squared deviations are those of 2^17 points of a Sobol sequence, to six standard errors of the draws.

    The points are worth 20,000, and another sequence moves their means by a fiftieth of a standard error. Errors of
    tables are at the mean law of 768 members, which is that of the posterior to 1 / sqrt(768) deviations.
    """
    block, moments, prior = rough_block()
    populations, start = list[Any](), latent_reader._start
    monkeypatch.setattr(latent_reader, "_start", lambda *given: populations.append(start(*given)) or populations[0])
    rows, _, _ = latent_reader.sample_block(block, moments, prior, 12_000, np.random.default_rng(2))
    points = qmc.Sobol(7, rng=np.random.default_rng(1)).random_base2(17).T
    sides = np.stack([points, 1 - points])
    at = {"class": sides[:, 0], **{f"q{k}": np.moveaxis(sides[:, 2 * k - 1 : 2 * k + 1], 1, 0) for k in (1, 2, 3)}}
    law, exact, drawn = block.law(at)[0], quantities_of(block, at), quantities_of(block, rows)
    weights = weights_of(populations[0].target, law)
    centre = (exact @ weights)[:, None]
    exact, drawn = (np.concatenate([part, np.square(part - centre)]) for part in (exact, drawn))
    means = exact @ weights
    deviations = np.sqrt(np.square(exact - means[:, None]) @ weights)
    worth = effective_size(drawn.reshape(len(drawn), latent_reader.POPULATIONS, -1))
    assert worth.min() > 2000
    np.testing.assert_array_less(np.abs(drawn.mean(axis=1) - means) / deviations, 6 / worth**0.5)
    for _ in range(20):
        weights = weights_of(moments.likelihood(law @ weights), law)
    np.testing.assert_array_less(np.abs(exact @ weights - means) / deviations, 6 / len(populations[0].misfit) ** 0.5)


def test_changed_errors_of_tables_have_no_weight() -> None:
    """The power rises by the misfit at the new errors alone; at the whole likelihood every member stays.

    New errors are at a law halfway from the last one to the mean: without that they swing where tables contradict all.
    """
    block, moments, prior = rough_block()
    for power in (0.0, 1.0):
        populations = latent_reader._start(block, moments, prior, np.random.default_rng(3))
        rows, law, populations.power = populations.rows, populations.law, power
        populations.centre = np.eye(8)[0] * 0.9 + 0.0125
        populations.target = moments.likelihood(populations.centre)
        halfway = (populations.centre + law.mean(axis=1)) / 2
        populations.reweigh()
        misfit = moments.likelihood(halfway).misfit(law)
        if power == 1:
            for name, table in populations.rows.items():
                np.testing.assert_array_equal(table, rows[name])
            np.testing.assert_allclose(populations.misfit, misfit)
        else:
            assert 0 < populations.power < 1
            weights = np.exp(-populations.power * misfit)
            assert weights.sum() ** 2 / np.square(weights).sum() == pytest.approx(0.6 * len(misfit), rel=1e-3)
        np.testing.assert_allclose(populations.law, block.law(populations.rows)[0])
        np.testing.assert_allclose(populations.misfit, populations.target.misfit(populations.law))


@pytest.mark.costly("Whether intervals hold is seen over several releases only.", reads=("src/discreet/latent",))
def test_intervals_are_as_wide_as_errors() -> None:
    """Squared errors in units of posterior deviations are 1 on average: 80 of them, about 50 independent ones."""
    squares = list[float]()
    for seed in range(8):
        release = simulated(star(5), APART, 1500, 0.5, 100 + seed)
        posterior = dc.read(release, method="latent", network=star(5), draws=1000, rng=seed)
        for number in range(1, 6):
            draws = posterior.probabilities[f"q{number}"][:, 1]
            error = draws.mean(axis=-1) - np.asarray(APART[f"q{number}"])[:, 1]
            squares += np.square(error / draws.std(axis=-1)).tolist()
    assert 0.3 < np.mean(squares) < 2.2


def test_tables_that_no_class_explains_are_seen() -> None:
    """q1 and q2 are often the same within each class: their table cannot come from two classes alone."""
    network = star(5)
    rng = np.random.default_rng(6)
    group = rng.random(20_000) < 0.6
    codes = {f"q{k}": (rng.random(20_000) < np.where(group, 0.2, 0.8)).astype(int) for k in range(1, 6)}
    codes["q2"] = np.where(rng.random(20_000) < 0.25, codes["q1"], codes["q2"])
    observed = without_latent(network, "class")
    counts = dc.tools.count_codes(observed, codes)
    promise = dc.Guarantee(epsilon=3, **PROMISE)
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(observed), promise, rng=1)
    posterior = dc.read(release, method="latent", network=network, draws=400, rng=1)
    assert posterior.fit < 1e-6
    assert "contradict" in posterior.summary()


def test_populations_that_do_not_agree_are_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latent_reader, "MOST_ROUNDS", 1)
    monkeypatch.setattr(latent_reader, "has_mixed", lambda mixing: False)
    release = simulated(star(3), classes_of(0.5, np.array([[0.2] * 3, [0.7] * 3])), 500, 1.0, 1)
    with pytest.raises(dc.DiscreetError, match=r"do not agree: .* R-hat is 1\.\d+ \(at most 1\.01\)"):
        dc.read(release, method="latent", network=star(3), draws=100, rng=1)


# --------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_read_is_refused_in_a_sentence() -> None:
    release = simulated(star(3), classes_of(0.5, np.array([[0.2] * 3, [0.7] * 3])), 500, 1.0, 1)
    columns = without_latent(star(3), "class")
    two = dc.Network.naive_bayes([*star(3).variables, dc.Variable("more", ("a", "b"))], "class")
    other = dc.Network.naive_bayes([*star(2).variables, dc.Variable("q3", ("yes", "no"))], "class")
    uneven = dc.Dirichlet(dc.Dirichlet.uniform(star(3)).alpha.map(lambda alpha: alpha + np.arange(alpha.shape[-1])))
    cases = [
        ({}, "pass network="),
        ({"network": columns}, "every node of this network has a column"),
        ({"network": two}, "nodes without a column: "),
        ({"network": other}, "'q3' has other states"),
        ({"network": star(2)}, "'class' has 2 of the three or more neighbours"),
        ({"network": star(3, 3)}, "tell 7 of the 11 parameters"),
        ({"network": star(3, 7)}, "has 7 states: there may be 2 to 6"),
        ({"network": star(3), "prior": dc.Dirichlet.uniform(columns)}, "prior is over another network"),
        ({"network": star(3), "prior": uneven}, "prior of 'class' differs between the states"),
    ]
    for options, words in cases:
        with pytest.raises(dc.InputError, match=words) as caught:
            dc.read(release, method="latent", rng=1, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(dc.InputError, match="no node 'nobody'"):
        plan_latent(star(3), "nobody")
    with pytest.raises(dc.InputError, match="8,192 joint states"):
        plan_latent(star(12), "class")


def test_pairs_alone_are_refused() -> None:
    observed = dc.Network.empty(star(4).variables[1:])
    noise = dc.external.StatedNoise("laplace", 2)
    tables = [
        dc.external_table(np.full((2, 2), 750), observed, list(pair), noise, guarantee=None, source="pairs")
        for pair in (("q1", "q2"), ("q1", "q3"), ("q1", "q4"), ("q2", "q3"), ("q2", "q4"), ("q3", "q4"))
    ]
    with pytest.raises(dc.InputError, match="tell 8 of the 9 parameters"):
        dc.read(dc.combine(*tables, data="same"), method="latent", network=star(4), rng=1)


# --------------------------------------------------------------------------------------------------- both faces


def test_a_node_outside_of_the_block_is_read_as_always() -> None:
    network = dc.Network((*star(3).variables, dc.Variable("out", ("no", "yes"))), {**star(3).parents, "out": ("q1",)})
    theta = dc.Tables(network, {**classes_of(0.6, np.array([[0.1] * 3, [0.9] * 3])), "out": [[0.9, 0.1], [0.3, 0.7]]})
    release = simulated(network, theta, 5000, 3.0, 2)
    posterior = dc.read(release, method="latent", network=network, draws=500, rng=3)
    (_, row) = posterior.answer("P(out | q1=yes)").rows
    assert abs(row["mean"] - 0.7) < 0.1
    assert posterior.network.schema["class"].states == ("largest", "second")  # not c1, c2: tables know no names
    assert abs(posterior.answer("P(out | class=largest)").rows[1]["mean"] - (0.9 * 0.1 + 0.1 * 0.7)) < 0.1


def test_the_shell_plans_releases_and_reads(tmp_path: Path) -> None:
    star(4).write(tmp_path / "group.bif")
    done = CliRunner().invoke(app, ["latent", str(tmp_path / "group.bif"), "class", "--json", "--output",
                                    str(tmp_path / "observed.bif")])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["least"] == 3
    observed = dc.Network.read(tmp_path / "observed.bif")
    assert observed == without_latent(star(4), "class")
    theta = classes_of(0.6, np.array([[0.1] * 4, [0.8] * 4]))
    simulated(star(4), theta, 5000, 3.0, 2).save(tmp_path / "release.json")
    queries = ["P(class | q1=yes, q2=yes)", "P(q3 | q1=yes)"]
    latent = ["query", str(tmp_path / "release.json"), "--latent", str(tmp_path / "group.bif"), "P(q1)"]
    refused = CliRunner().invoke(app, [*latent, "--trust-network"])
    assert isinstance(refused.exception, dc.InputError) and "leave out" in str(refused.exception)
    done = CliRunner().invoke(app, ["query", str(tmp_path / "release.json"), "--latent", str(tmp_path / "group.bif"),
                                    *queries, "--json"])  # fmt: skip
    assert done.exit_code == 0, done.output
    answers = json.loads(done.stdout)["answers"]
    assert [answer["query"] for answer in answers] == queries
    share = 0.4 * 0.64 / (0.4 * 0.64 + 0.6 * 0.01)
    assert abs(answers[0]["values"][1]["mean"] - share) < 0.1


def test_stored_draws_are_read_again_and_answer_by_the_shell(
    quiet: tuple[dc.Release, latent_reader.LatentDraws], tmp_path: Path
) -> None:
    release, posterior = quiet
    star(5).write(tmp_path / "group.bif")
    release.save(tmp_path / "release.json")
    file = str(tmp_path / "class.draws")
    done = CliRunner().invoke(app, ["draw", str(tmp_path / "release.json"), "--latent", str(tmp_path / "group.bif"),
                                    "--seed", "1", "--output", file])  # fmt: skip
    assert done.exit_code == 0, done.output
    again = dc.results.PosteriorDraws.load(file)
    assert isinstance(again, latent_reader.LatentDraws)
    assert (again.latent, again.label_doubt, again.fit) == ("class", posterior.label_doubt, posterior.fit)
    assert again.ess() == posterior.ess() and again.mixing == posterior.mixing
    for name in again.network.nodes:
        np.testing.assert_array_equal(again.probabilities[name], posterior.probabilities[name])
    asked = "P(q2 | class=largest, q1=yes)"
    answer = again.answer(asked)
    assert answer.rows == posterior.answer(asked).rows and answer.basis == "assumed"
    done = CliRunner().invoke(app, ["query", file, asked, "--json"])
    assert json.loads(done.stdout)["answers"][0]["values"][1]["mean"] == pytest.approx(answer.rows[1]["mean"])
    done = CliRunner().invoke(app, ["sample", file, "-n", "4", "--output", str(tmp_path / "rows.csv")])
    assert (tmp_path / "rows.csv").read_text().partition("\n")[0] == '"class","q1","q2","q3","q4","q5"'
    done = CliRunner().invoke(app, ["decide", file, "--quantity", "P(q1=yes | class=largest)", "--loss", "absolute",
                                    "--json"])  # fmt: skip
    assert done.exit_code == 0, done.output


def test_stored_draws_with_other_words_are_refused(quiet: tuple[dc.Release, latent_reader.LatentDraws]) -> None:
    _, posterior = quiet
    for more in ({"latent": "class"}, {"latent": "class", "label_doubt": "x", "fit": None}, {"latent": "nobody",
                 "label_doubt": 0.0, "fit": 1.0}):  # fmt: skip
        with pytest.raises(dc.InputError, match="stored draws of a latent node have "):
            stored.from_bytes(stored.to_bytes(replace(posterior, more=more)))
    narrow = dc.results.PosteriorDraws(posterior.probabilities, "latent", basis=posterior.basis)
    with pytest.raises(dc.InputError, match="only draws that noise_aware made"):
        stored.to_bytes(narrow)


# --------------------------------------------------------------------------------------------------- proposals


def released(codes: Mapping[str, Array], epsilon: float) -> dc.Release:
    """A rehearsed release of yes-or-no columns over a network without arcs, which measures pairs as well."""
    network = dc.Network.empty([dc.Variable(name, ("no", "yes")) for name in codes])
    promise = dc.Guarantee(epsilon=epsilon, **PROMISE)
    counts = dc.tools.count_codes(network, dict(codes))
    return dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)


def test_a_class_is_proposed_where_no_arcs_explain_the_pairs(tmp_path: Path) -> None:
    """Seeds are fixed, and gains are some hundreds or below 0: no chance decides."""
    rng = np.random.default_rng(3)
    hidden, shares = rng.random(20_000) < 0.4, np.array([[0.2, 0.8]] * 6)
    codes = {f"q{k}": (rng.random(20_000) < shares[k, hidden.astype(int)]).astype(int) for k in range(6)}
    codes["alone"] = (rng.random(20_000) < 0.5).astype(int)
    release = released(codes, 3.0)
    proposal = propose_latent(release)
    assert proposal.columns == tuple(f"q{k}" for k in range(6)) and proposal.gain > 100
    assert proposal.network is not None
    assert proposal.network.parents["q3"] == ("class",)
    release.save(tmp_path / "release.json")
    done = CliRunner().invoke(app, ["latent", str(tmp_path / "release.json"), "--output", str(tmp_path / "new.bif")])
    assert done.exit_code == 0, done.output
    assert "a class behind q0, q1" in done.output
    assert dc.Network.read(tmp_path / "new.bif") == proposal.network
    # The same with the class as a column: it explains the pairs.
    seen = propose_latent(released({**codes, "group": hidden.astype(int)}, 3.0))
    assert seen.network is None and seen.gain < 0
    # A chain, and columns that depend on nothing.
    chain = {"q0": codes["q0"]}
    for k in range(1, 6):
        chain[f"q{k}"] = np.where(rng.random(20_000) < 0.8, chain[f"q{k - 1}"], 1 - chain[f"q{k - 1}"])
    assert propose_latent(released(chain, 3.0)).network is None
    nothing = propose_latent(released({name: rng.permutation(column) for name, column in codes.items()}, 0.1))
    assert (nothing.columns, nothing.network) == ((), None)
    assert "fewer than 5" in nothing.summary()
    with pytest.raises(dc.InputError, match="a column has the name of the class, q1"):
        propose_latent(release, name="q1")


def test_errors_of_correlations_are_those_of_noise_and_records() -> None:
    """Of 2,000 releases of three independent columns; a variance has a deviation of 3 %."""
    rng, noise, seen = np.random.default_rng(4), DiscreteLaplace(16.0), []
    network = dc.Network.empty([dc.Variable(name, ("no", "yes")) for name in "abc"])
    law = np.einsum("a,b,c->abc", [0.3, 0.7], [0.5, 0.5], [0.2, 0.8])
    for _ in range(2000):
        table = rng.multinomial(4000, law.ravel()).reshape(2, 2, 2)
        noisy = table + noise.simulate(table.shape, rng).round().astype(int)
        pairs = CorrelatedPairs.of(network, [Measurement(("a", "b", "c"), noisy, noise)], None)
        seen.append(pairs.correlations[np.triu_indices(3, 1)])
    squares = np.square([0.4, 0.0, 0.6])
    factors = np.outer(1 + squares, 1 + squares) / np.outer(1 - squares, 1 - squares)
    wanted = 8 * noise.variance / 4000**2 * factors[np.triu_indices(3, 1)]
    np.testing.assert_allclose(np.var(seen, axis=0), wanted + 1 / 4000, rtol=0.2)
    np.testing.assert_allclose(pairs.noise[np.triu_indices(3, 1)], wanted, rtol=0.2)


def test_a_project_file_keeps_its_words_without_the_node(tmp_path: Path) -> None:
    words = 'arcs = ["class -> a", "class -> b", "class -> c"]\n[unit]\nname = "patient"\n'
    words += "".join(f'[[variables]]\nname = "{name}"\nstates = ["no", "yes"]\n' for name in ("class", "a", "b", "c"))
    (tmp_path / "study.toml").write_text(words)
    options = ["latent", str(tmp_path / "study.toml"), "class", "--output", str(tmp_path / "observed.toml")]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    written = (tmp_path / "observed.toml").read_text()
    assert 'name = "patient"' in written and '"class"' not in written
    assert '"a -> b", "a -> c", "b -> c"' in written
    assert isinstance(CliRunner().invoke(app, options).exception, dc.InputError)
