"""One joint law a draw: what tables say of sets that a network fixes, and every way to a number reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.model.origin import Learned
from discreet.posterior import law_plan
from discreet.posterior.joint_law import LEAST_FACTOR, Doubt, _draw_pair_factors, _fit_amplitude_weights
from discreet.posterior.law_parts import LawParts
from discreet.posterior.law_plan import LawPlan
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, PAIR_PRIOR
from oracle import full_joint, small, with_draws
from releases import guarantee, simulated_counts
from test_basis import pairs_measured

NETWORK = small(("a", 3, ()), ("x", 2, ()), ("b", 2, ("x",)), ("c", 2, ("a", "b")))
"""a and b are parents of c and not joined; b has a parent in another table, so that no family can hold both."""
TRUE = small(("a", 3, ()), ("x", 2, ()), ("b", 2, ("x", "a")), ("c", 2, ("a", "b")))


def law() -> dc.Tables:
    """One in which a and b go together."""
    rows = {
        "a": np.array([0.3, 0.4, 0.3]),
        "x": np.array([0.5, 0.5]),
        "b": np.array([[[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]]]),
        "c": np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.4, 0.6]], [[0.3, 0.7], [0.8, 0.2]]]),
    }
    return dc.Tables(TRUE, rows)


def released(n: int, seed: int, network: dc.Network = NETWORK) -> dc.Release:
    """Over `NETWORK`, which may say where it comes from, of records of that law."""
    rng = np.random.default_rng(seed)
    counts = simulated_counts(law(), n, rng)
    tables = dc.Tables(
        network,
        {
            "a": counts.tables["a"],
            "x": counts.tables["x"],
            "b": counts.tables["b"].sum(axis=1),
            "c": counts.tables["c"],
        },
    )
    own = dc.results.Counts(tables, counts.policy)
    return dc.simulate(dc.planned(pairs_share=0), own, dc.Dirichlet.uniform(network), guarantee(3.0), rng=rng)


@pytest.fixture(scope="module")
def posterior() -> dc.results.PosteriorDraws:
    return dc.noise_aware(released(50_000, 1), draws=300, rng=np.random.default_rng(2))


TRUTH = full_joint(with_draws(law()))[..., 0]
"""P(a, x, b, c)."""


def parts_of(posterior: dc.results.PosteriorDraws) -> LawParts:
    """Of a posterior over `NETWORK`, which its tables carry no further arcs for."""
    drawn = posterior.saturated or posterior
    assert drawn.parts is not None
    return drawn.parts


def law_of(posterior: dc.results.PosteriorDraws, names: tuple[str, ...]) -> np.ndarray:
    """The joint law of some variables, shape `(*sizes, draws)`."""
    return Laws(posterior.law.cells).joint(names)


@pytest.mark.parametrize("names", [("c",), ("a", "b"), ("b", "c"), ("a", "b", "c"), ("c", "a", "b")])
def test_measured_sets_are_what_tables_say(posterior: dc.results.PosteriorDraws, names: tuple[str, ...]) -> None:
    found = law_of(posterior, names)
    axes = ["a", "x", "b", "c"]
    summed = TRUTH.sum(axis=tuple(index for index, name in enumerate(axes) if name not in names))
    kept = [name for name in axes if name in names]
    truth = summed.transpose([kept.index(name) for name in names])
    np.testing.assert_allclose(found.sum(axis=tuple(range(len(names)))), 1, atol=1e-5)
    off, deviation = found.mean(axis=-1) - truth, found.std(axis=-1)
    assert np.all(np.abs(off) < 5 * deviation + 1e-4)
    assert deviation.max() < 0.006  # 50,000 records
    assert posterior.law.replicates is not None
    replicate = Laws(posterior.law.replicates).joint(names)
    assert replicate.shape == found[..., :: posterior.law.step].shape
    assert not np.array_equal(replicate, found[..., :: posterior.law.step])


def test_what_the_network_leaves_open_is_its_own(posterior: dc.results.PosteriorDraws) -> None:
    cells = parts_of(posterior).sets.cells
    for names in (("a",), ("x",), ("b",), ("x", "b")):
        np.testing.assert_allclose(law_of(posterior, names), Laws(cells).joint(names), atol=2e-4)


def test_rows_are_those_that_answers_have(posterior: dc.results.PosteriorDraws) -> None:
    """The rows of a collider, and of a child with one parent, under every draw."""
    for node in NETWORK.nodes:
        law = law_of(posterior, NETWORK.family(node))
        np.testing.assert_allclose(law / law.sum(axis=-2, keepdims=True), posterior.probabilities[node], atol=2e-3)


def test_answers_agree_with_each_other_and_with_the_tables(posterior: dc.results.PosteriorDraws) -> None:
    trusted = dc.noise_aware(released(50_000, 1), draws=300, rng=np.random.default_rng(2), trust_network=True)
    truth = TRUTH.sum(axis=(1, 3))
    rows = [row["mean"] for row in dc.answer(posterior, "P(a, b)", level=0.95).rows]
    np.testing.assert_allclose(rows, truth.ravel(), atol=0.01)
    wrong = [row["mean"] for row in dc.answer(trusted, "P(a, b)", level=0.95).rows]
    assert np.abs(np.array(wrong) - truth.ravel()).max() > 0.05
    given = [row["mean"] for row in dc.answer(posterior, "P(b | a=s0)", level=0.95).rows]
    np.testing.assert_allclose(given, truth[0] / truth[0].sum(), atol=0.02)
    fixed = dc.answer(posterior, "P(b=s1 | a=s0)", level=0.95).rows[0]
    assert fixed["mean"] == pytest.approx(given[1], rel=1e-6)
    mixed = dc.answer(posterior, "P(b=s1, a | c=s0)", level=0.95).rows
    whole = dc.answer(posterior, "P(a, b | c=s0)", level=0.95).rows
    np.testing.assert_allclose([row["mean"] for row in mixed], [row["mean"] for row in whole[1::2]], rtol=1e-6)
    many = dc.answer_many(posterior, ["P(a, b)", "P(c)", "MAP(a, b | c=s0)"], level=0.95)
    assert [part.rows for part in many] == [
        dc.answer(posterior, query, level=0.95).rows for query in ("P(a, b)", "P(c)", "MAP(a, b | c=s0)")
    ]
    for part in dc.marginals(posterior, {"a": "s0"}, level=0.95):
        same = dc.answer(posterior, part.query, level=0.95)
        assert part.basis == same.basis
        np.testing.assert_allclose([row["mean"] for row in part.rows], [row["mean"] for row in same.rows], rtol=1e-5)


def test_predictions_are_the_answers(posterior: dc.results.PosteriorDraws) -> None:
    found = dc.predict(posterior, {"a": ["s0", "s1", None], "c": ["s1", "s1", "s0"]}, "b", level=0.9)
    for index, query in enumerate(("P(b | a=s0, c=s1)", "P(b | a=s1, c=s1)", "P(b | c=s0)")):
        rows = dc.answer(posterior, query, level=0.9).rows
        np.testing.assert_allclose(found.mean[index], [row["mean"] for row in rows], rtol=1e-6)
        np.testing.assert_allclose(found.lower[index], [row["lower"] for row in rows], rtol=1e-6)


def test_predictive_answers_weigh_by_the_evidence_as_tables_have_it(posterior: dc.results.PosteriorDraws) -> None:
    both = [dc.answer(posterior, "P(b | a=s0)", level=0.95, predictive=predictive) for predictive in (False, True)]
    assert both[0].rows[0]["mean"] == pytest.approx(both[1].rows[0]["mean"], abs=0.01)
    assert both[0].rows != both[1].rows


def test_a_decision_reads_what_an_answer_reads(posterior: dc.results.PosteriorDraws) -> None:
    pays = dc.decisions.payoff(NETWORK, "P(b | a=s0)", {"go": {"s0": 1.0, "s1": 0.0}, "stay": {"s0": 0.5, "s1": 0.5}})
    decision = dc.decide(posterior, pays, ["go", "stay"], level=0.95, bounds=(0, 1), queries=1, fresh=False)
    told = dc.answer(posterior, "P(b=s0 | a=s0)", level=0.95).rows[0]
    assert decision.rows[0]["mean"] == pytest.approx(told["mean"], rel=1e-6)


def believed(posterior: dc.results.PosteriorDraws) -> dc.results.PosteriorDraws:
    """The same, where the network is believed of pairs that no table holds."""
    return posterior.assuming("network")


def test_what_no_table_holds_is_as_the_network_has_it_given_what_it_depends_on(
    posterior: dc.results.PosteriorDraws,
) -> None:
    """Of all laws with the measured margins the nearest to the network: x touches a and c by b alone."""
    plain = believed(posterior)
    whole = law_of(plain, ("x", "b", "a", "c"))
    pair, rest = law_of(plain, ("x", "b")), law_of(plain, ("b", "a", "c"))
    wanted = pair[:, :, None, None] * rest / rest.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(whole, wanted, atol=1e-5)
    own = Laws(parts_of(posterior).sets.cells).joint(("x", "c"))
    assert np.abs(own.sum(axis=0) - law_of(plain, ("c",))).max() > 0.05  # tables contradict the network's c


def test_doubt_keeps_what_was_measured_and_spreads_the_rest(posterior: dc.results.PosteriorDraws) -> None:
    plain = believed(posterior)
    for names in (("a", "b", "c"), ("x", "b")):
        np.testing.assert_allclose(law_of(posterior, names), law_of(plain, names), atol=3e-3)
    doubted, sure = (law_of(one, ("a", "x")).std(axis=-1).max() for one in (posterior, plain))
    assert doubted > 1.5 * sure


@pytest.mark.parametrize(("what", "ratio"), [("arcs", (1.2, 5.0)), ("domain", (1.0, 1.0))])
def test_arcs_that_the_records_chose_are_doubted_more(
    posterior: dc.results.PosteriorDraws, what: Literal["arcs", "domain"], ratio: tuple[float, float]
) -> None:
    """The same release, but that its network says who chose it: what was measured stays."""
    network = replace(NETWORK, learned=Learned("0f" * 16, "1", "add-remove", "record", True, what))
    chosen = dc.noise_aware(released(50_000, 1, network), draws=300, rng=np.random.default_rng(2))
    for names in (("a", "b", "c"), ("x", "b")):
        np.testing.assert_allclose(law_of(chosen, names), law_of(posterior, names), atol=3e-3)
    more, less = (law_of(one, ("a", "x")).std(axis=-1).max() for one in (chosen, posterior))
    assert ratio[0] <= more / less <= ratio[1]
    assert dc.answer(chosen, "P(a, x)", level=0.95).basis == "assumed"


def test_doubt_of_states_in_an_order_moves_neighbours_together() -> None:
    """Ends of five bins move apart; a state for gaps goes its own way; sizes are as without an order."""
    age = dc.Variable("age", bounds=(0, 100), bins=(20, 40, 60, 80), missing="unknown")
    rank = dc.Variable("rank", ("a", "b", "c", "d", "e"), missing="unknown", ordered=True)
    plain = dc.Variable("plain", ("a", "b", "c", "d", "e"), missing="unknown")
    plan = LawPlan.of(dc.Network.empty([age, rank, plain]), [], doubt=True)
    even, draws, only = np.full((6, 4000), 1 / 6), 4000, np.eye(len(INTERACTION_SIZES))[1]
    streams = {(): 0, ("age",): 1, ("rank",): 2, ("plain",): 3}
    doubt = Doubt(only, only, lambda names: np.random.default_rng(streams[names]), lambda triple: False, chosen=False)
    (_, weights), *factors = _draw_pair_factors(plan, dict.fromkeys(("age", "rank", "plain"), even), doubt, draws)
    seen, sizes = {}, {}
    for (name, hidden), factor in factors:
        assert hidden == plan.hidden
        whole = factor.min(axis=(0, 1)) > LEAST_FACTOR
        assert whole.mean() > 0.9
        moved = factor[:, 1, whole] - 1
        np.testing.assert_allclose(moved.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose((factor * weights).sum(axis=1)[:, whole], 1, atol=1e-9)
        seen[name], sizes[name] = np.corrcoef(moved), float((moved**2).mean())
    for name in ("age", "rank"):
        assert min(seen[name][0, 1], seen[name][3, 4]) > 0.05 and seen[name][0, 4] < -0.4
        np.testing.assert_allclose(seen[name][5, :5], seen[name][5, 4::-1], atol=0.1)  # no end is nearer to a gap
    assert max(sizes.values()) < 1.2 * min(sizes.values())
    np.testing.assert_allclose(seen["plain"][~np.eye(6, dtype=bool)], -0.2, atol=0.1)  # six deviations


def test_products_of_amplitudes_have_the_sizes_of_pairs() -> None:
    """All that an interaction of two variables is, is a product; half of all pairs have none."""
    weights = _fit_amplitude_weights(PAIR_PRIOR)
    assert weights.sum() == pytest.approx(1) and weights.min() >= 0
    sizes = np.sqrt(np.multiply.outer(INTERACTION_SIZES, INTERACTION_SIZES))
    both = np.multiply.outer(weights, weights)
    assert both[sizes < 0.005].sum() == pytest.approx(PAIR_PRIOR[0], abs=0.02)
    assert (both * sizes).sum() == pytest.approx(np.dot(PAIR_PRIOR, INTERACTION_SIZES), rel=0.2)


def test_what_is_asked_first_changes_no_answer() -> None:
    release = released(5_000, 3)
    one, other = (dc.noise_aware(release, draws=50, rng=np.random.default_rng(4)) for _ in range(2))
    dc.answer(other, "P(c)", level=0.95)
    dc.answer(other, "P(a, b, c)", level=0.95)
    assert dc.answer(one, "P(a, b)", level=0.95) == dc.answer(other, "P(a, b)", level=0.95)


def test_made_up_records_are_what_tables_say(posterior: dc.results.PosteriorDraws) -> None:
    """a and b go together, which no family holds: rows are moved."""
    records = next(iter(dc.sample(posterior, 60_000, rng=np.random.default_rng(5)))).read_all().to_pandas()
    for names in (("a", "b"), ("b", "c"), ("c",), ("x", "b")):
        axes = ["a", "x", "b", "c"]
        truth = TRUTH.sum(axis=tuple(index for index, name in enumerate(axes) if name not in names))
        made = np.zeros(truth.shape)
        for states, part in records.groupby([name for name in axes if name in names]):
            made[tuple(int(state[1]) for state in states)] = len(part) / len(records)
        assert np.abs(made - truth).max() < 0.015, names  # seven deviations of a half in 60,000


@pytest.mark.parametrize("sets", [None, 1])
def test_made_up_records_have_the_law_that_answers_have(posterior: dc.results.PosteriorDraws, sets: int | None) -> None:
    """Of the mean of all draws, or of one draw, to sampling error: six deviations of a share of 60,000 records."""
    drawn = np.random.default_rng(5).permutation(300)[0]
    (stream,) = dc.sample(posterior, 60_000, rng=np.random.default_rng(5), sets=sets)
    records = stream.read_all().to_pandas()
    assert list(records) == list(NETWORK.nodes)
    for names in (("a", "b"), ("b", "c"), ("x", "b"), ("a", "b", "c"), ("x", "c")):
        law = law_of(posterior, names)
        wanted = law.mean(axis=-1) if sets is None else law[..., drawn]
        made = np.zeros(wanted.shape)
        for states, part in records.groupby(list(names)):
            made[tuple(int(state[1]) for state in states)] = len(part) / len(records)
        assert np.abs(made - wanted).max() < 6 * np.sqrt(0.25 / 60_000), names


def test_what_pairs_leave_open_is_an_interaction_that_keeps_them() -> None:
    """Pairs measured, no triple: draws of P(a, b, c) have one more than its pairs, and the pairs' margins stay."""
    posterior = dc.noise_aware(pairs_measured(), draws=2_000, rng=np.random.default_rng(6))
    law, cells = law_of(posterior, ("a", "b", "c")), parts_of(posterior).sets.cells
    assert parts_of(posterior).is_loose(("a", "b", "c"))
    for axis, pair in ((2, ("a", "b")), (1, ("a", "c")), (0, ("b", "c"))):
        np.testing.assert_allclose(law.sum(axis=axis), law_of(posterior, pair), atol=1e-5)
    own = Laws(cells).joint(("a", "b", "c"))
    odds = [np.log(part[0, 0] * part[1, 1] / (part[0, 1] * part[1, 0])) for part in law]
    before = [np.log(part[0, 0] * part[1, 1] / (part[0, 1] * part[1, 0])) for part in own]
    assert (odds[0] - odds[1]).std() > 1.05 * (before[0] - before[1]).std()


def test_there_is_room_for_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubt first, then small sets; what has no room is said to be unread."""
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ()), ("d", 3, ()))
    tables = [frozenset("ab"), frozenset("bc"), frozenset("cd"), frozenset("d")]
    for cells, sets, doubt in (
        (28, 3, True),
        (22, 2, True),
        (18, 1, True),
        (14, 3, False),
        (9, 1, False),
        (8, 0, False),
    ):
        monkeypatch.setattr(law_plan, "LAW_CELLS", cells)
        plan = LawPlan.of(network, tables, doubt=True)
        assert (len(plan.sets), len(plan.left_out), plan.doubt) == (sets, 3 - sets, doubt)
        assert plan.tree is None or plan.tree.cells <= cells
        assert all(plan.reads(part) for part in plan.sets) and not any(plan.reads(part) for part in plan.left_out)
        assert set(plan.wide.nodes) - set(network.nodes) == ({plan.hidden} if doubt else set())


def test_sets_that_contradict_the_network_find_room_first(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small(("a", 2, ()), ("b", 2, ()), ("c", 2, ()))
    monkeypatch.setattr(law_plan, "LAW_CELLS", 14)
    tables, against = [frozenset("ab"), frozenset("ac"), frozenset("bc")], {("a", "b"): 1.0, ("a", "c"): 3.0}
    plan = LawPlan.of(
        network, tables, doubt=True, contradict=lambda sets: {part: against.get(part, 2.0) for part in sets}
    )
    assert plan.sets == (("a", "c"),) and plan.left_out == (("a", "b"), ("b", "c"))


def test_the_hidden_variable_has_a_name_of_its_own() -> None:
    network = small((law_plan.HIDDEN, 2, ()), ("b", 2, ()))
    assert LawPlan.of(network, [], doubt=True).hidden not in network.nodes


def test_what_there_is_no_room_for_is_said_to_be_assumed(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dc.answer(posterior, "P(a, b)", level=0.95).basis == "measured"
    monkeypatch.setattr(law_plan, "LAW_CELLS", 4)
    again = dc.noise_aware(released(5_000, 1), draws=50, rng=np.random.default_rng(2))
    told = dc.answer(again, "P(a, b)", level=0.95)
    assert told.basis == "assumed" and told.unmeasured == ()
