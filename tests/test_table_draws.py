"""Sets that a network fixes are answered from the tables that hold them, and joint laws agree with these."""

from __future__ import annotations

import numpy as np
import pytest

import discreet as dc
from discreet.inference import elimination
from discreet.posterior.joint_draws import joint_draws
from discreet.posterior.pooled import table_draws
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


def released(n: int, seed: int) -> dc.Release:
    """Over `NETWORK`, of records of that law."""
    rng = np.random.default_rng(seed)
    counts = simulated_counts(law(), n, rng)
    tables = dc.Tables(
        NETWORK,
        {
            "a": counts.tables["a"],
            "x": counts.tables["x"],
            "b": counts.tables["b"].sum(axis=1),
            "c": counts.tables["c"],
        },
    )
    own = dc.results.Counts(tables, counts.policy)
    return dc.simulate(dc.planned(audit=0), own, dc.Dirichlet.uniform(NETWORK), guarantee(3.0), rng=rng)


@pytest.fixture(scope="module")
def posterior() -> dc.results.PosteriorDraws:
    return dc.noise_aware(released(50_000, 1), draws=300, rng=np.random.default_rng(2))


TRUTH = full_joint(with_draws(law()))[..., 0]
"""P(a, x, b, c)."""


@pytest.mark.parametrize("names", [("c",), ("a", "b"), ("b", "c"), ("a", "b", "c"), ("c", "a", "b")])
def test_measured_sets_are_what_tables_say(posterior: dc.results.PosteriorDraws, names: tuple[str, ...]) -> None:
    assert posterior.tables is not None and posterior.tables.say(names)
    found = posterior.tables.joint(joint_draws(posterior).cells, names)
    assert found is not None
    axes = ["a", "x", "b", "c"]
    summed = TRUTH.sum(axis=tuple(index for index, name in enumerate(axes) if name not in names))
    kept = [name for name in axes if name in names]
    truth = summed.transpose([kept.index(name) for name in names])
    np.testing.assert_allclose(found.sum(axis=tuple(range(len(names)))), 1, atol=1e-6)
    off, deviation = found.mean(axis=-1) - truth, found.std(axis=-1)
    assert np.all(np.abs(off) < 5 * deviation + 1e-4)
    assert deviation.max() < 0.006  # 50,000 records
    twin = posterior.tables.joint(joint_draws(posterior).cells, names, twins=True)
    assert twin is not None and not np.array_equal(twin, found)


def test_what_the_network_leaves_open_is_its_own(posterior: dc.results.PosteriorDraws) -> None:
    assert posterior.tables is not None
    for names in (("a",), ("x",), ("b",), ("x", "b")):
        assert not posterior.tables.say(names)
        assert posterior.tables.joint(joint_draws(posterior).cells, names) is None


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
    assert fixed["mean"] == pytest.approx(given[1], rel=1e-9)
    mixed = dc.answer(posterior, "P(b=s1, a | c=s0)", level=0.95).rows
    whole = dc.answer(posterior, "P(a, b | c=s0)", level=0.95).rows
    np.testing.assert_allclose([row["mean"] for row in mixed], [row["mean"] for row in whole[1::2]], rtol=1e-9)
    many = dc.answer_many(posterior, ["P(a, b)", "P(c)", "MAP(a, b | c=s0)"], level=0.95)
    assert [part.rows for part in many] == [
        dc.answer(posterior, query, level=0.95).rows for query in ("P(a, b)", "P(c)", "MAP(a, b | c=s0)")
    ]
    for part in dc.marginals(posterior, {"a": "s0"}, level=0.95):
        same = dc.answer(posterior, part.query, level=0.95)
        assert part.basis == same.basis
        np.testing.assert_allclose([row["mean"] for row in part.rows], [row["mean"] for row in same.rows], rtol=1e-12)


def test_predictions_are_the_answers(posterior: dc.results.PosteriorDraws) -> None:
    found = dc.predict(posterior, {"a": ["s0", "s1", None], "c": ["s1", "s1", "s0"]}, "b", level=0.9)
    for index, query in enumerate(("P(b | a=s0, c=s1)", "P(b | a=s1, c=s1)", "P(b | c=s0)")):
        rows = dc.answer(posterior, query, level=0.9).rows
        np.testing.assert_allclose(found.mean[index], [row["mean"] for row in rows], rtol=1e-9)
        np.testing.assert_allclose(found.lower[index], [row["lower"] for row in rows], rtol=1e-9)


def test_predictive_answers_weigh_by_the_evidence_as_tables_have_it(posterior: dc.results.PosteriorDraws) -> None:
    both = [dc.answer(posterior, "P(b | a=s0)", level=0.95, predictive=predictive) for predictive in (False, True)]
    assert both[0].rows[0]["mean"] == pytest.approx(both[1].rows[0]["mean"], abs=0.01)
    assert both[0].rows != both[1].rows


def test_a_decision_reads_what_an_answer_reads(posterior: dc.results.PosteriorDraws) -> None:
    pays = dc.decisions.payoff(NETWORK, "P(b | a=s0)", {"go": {"s0": 1.0, "s1": 0.0}, "stay": {"s0": 0.5, "s1": 0.5}})
    decision = dc.decide(posterior, pays, ["go", "stay"], level=0.95, bounds=(0, 1), queries=1, fresh=False)
    told = dc.answer(posterior, "P(b=s0 | a=s0)", level=0.95).rows[0]
    assert decision.rows[0]["mean"] == pytest.approx(told["mean"], rel=1e-9)


def test_other_margins_keep_what_the_network_says(posterior: dc.results.PosteriorDraws) -> None:
    """Of a and x, which lie in no table together, the network's independence stays."""
    assert posterior.tables is not None
    tables = posterior.tables.assuming("network")
    cells = joint_draws(posterior).cells
    moved = tables.joint(cells, ("a", "x", "b"))
    assert moved is not None
    own = elimination.joint(cells, ("a", "x"), {})
    np.testing.assert_allclose(moved.sum(axis=2), own, atol=2e-3)
    np.testing.assert_allclose(moved.sum(axis=0), elimination.joint(cells, ("x", "b"), {}), atol=1e-3)
    wanted = tables.joint(cells, ("a", "b"))
    np.testing.assert_allclose(moved.sum(axis=1), wanted, atol=1e-3)


def test_pairs_in_no_table_have_the_margins_that_tables_say(posterior: dc.results.PosteriorDraws) -> None:
    """The network's own law of x and c has a margin of c that the table of c contradicts; its odds stay."""
    assert posterior.tables is not None
    tables = posterior.tables.assuming("network")
    cells = joint_draws(posterior).cells
    pair, single = tables.joint(cells, ("x", "c")), tables.joint(cells, ("c",))
    own = elimination.joint(cells, ("x", "c"), {})
    assert pair is not None and single is not None
    assert np.abs(own.sum(axis=0) - single).max() > 0.05
    np.testing.assert_allclose(pair.sum(axis=0), single, atol=1e-9)
    np.testing.assert_allclose(pair.sum(axis=1), elimination.joint(cells, ("x",), {}), atol=1e-9)

    def odds(law: np.ndarray) -> np.ndarray:
        return law[0, 0] * law[1, 1] / (law[0, 1] * law[1, 0])

    np.testing.assert_allclose(odds(pair), odds(own), rtol=1e-9)


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
    tables, cells = posterior.tables, joint_draws(posterior).cells
    assert tables is not None
    drawn = np.random.default_rng(5).permutation(300)[0]
    (stream,) = dc.sample(posterior, 60_000, rng=np.random.default_rng(5), sets=sets)
    records = stream.read_all().to_pandas()
    for names in (("a", "b"), ("b", "c"), ("x", "b"), ("a", "b", "c")):
        law = tables.joint(cells, names)
        law = elimination.joint(cells, names, {}) if law is None else law
        wanted = law.mean(axis=-1) if sets is None else law[..., drawn]
        made = np.zeros(wanted.shape)
        for states, part in records.groupby(list(names)):
            made[tuple(int(state[1]) for state in states)] = len(part) / len(records)
        # The pool that stands for earlier variables adds an error like that of 2**14 records, weighed by what is moved.
        assert np.abs(made - wanted).max() < 6 * np.sqrt(0.25 / 60_000) + 0.003, names


def test_what_records_are_moved_by(posterior: dc.results.PosteriorDraws) -> None:
    """b and a lie in the table of c and in no family; a and x in no table, so that the network's law of them stays."""
    assert posterior.tables is not None
    tables, cells = posterior.tables.assuming("network"), joint_draws(posterior).cells
    order = joint_draws(posterior).network.order
    assert all(not tables.rows_beyond(cells, node) for node in order if node in ("a", "x"))
    moved = {node: tables.rows_beyond(cells, node, np.array([3, 0, 7])) for node in ("b", "c")}
    assert set(moved["b"]) == {("a", "b"), ("x", "b")} and set(moved["c"]) == {("a", "b", "c"), ("x", "c")}
    picked = np.array([3, 0, 7])
    law = tables.joint(cells.of_draws(picked), ("a", "b"), picked=picked)
    assert law is not None
    np.testing.assert_allclose(moved["b"]["a", "b"], law / law.sum(axis=1, keepdims=True))
    every = np.random.default_rng(2).permutation(cells.draws or 1)
    for names in (("a", "b"), ("a",), ("b",)):
        law, turned = tables.joint(cells, names), tables.joint(cells.of_draws(every), names, picked=every)
        if law is not None or turned is not None:
            assert law is not None and turned is not None
            np.testing.assert_allclose(turned, law[..., every])
    mean = tables.rows_beyond(cells, "b")["a", "b"]
    whole = tables.joint(cells, ("a", "b"))
    assert whole is not None and mean.shape == (3, 2, 1)
    np.testing.assert_allclose(mean[..., 0], whole.mean(axis=-1) / whole.mean(axis=-1).sum(axis=1, keepdims=True))


def test_what_pairs_leave_open_is_an_interaction_that_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs measured, no triple: draws of P(a, b, c) have one more than its pairs, and the pairs' margins stay."""
    posterior = dc.noise_aware(pairs_measured(), draws=2_000, rng=np.random.default_rng(6))
    assert posterior.tables is not None
    cells, names = joint_draws(posterior).cells, ("a", "b", "c")
    law = posterior.tables.joint(cells, names)
    assert law is not None and posterior.tables.say(names)
    np.testing.assert_allclose(law.sum(axis=(0, 1, 2)), 1, atol=1e-9)
    for axis, pair in ((2, ("a", "b")), (1, ("a", "c")), (0, ("b", "c"))):
        own = posterior.tables.joint(cells, pair)
        margin = law.sum(axis=axis)
        np.testing.assert_allclose(margin, elimination.joint(cells, pair, {}) if own is None else own, atol=2e-3)
    monkeypatch.setattr(table_draws, "INTERACTION_SIZES", (0.0,) * len(table_draws.INTERACTION_SIZES))
    without = posterior.tables.joint(cells, names)
    monkeypatch.undo()
    assert without is not None
    moved = law - without
    there = 1 - posterior.tables._triple_size_weights[0]
    assert 0.1 < there < 0.5
    # A share of 2,000 draws, six deviations at most.
    assert (np.abs(moved).max(axis=(0, 1, 2)) > 1e-9).mean() == pytest.approx(there, abs=0.067)
    assert 0.01 < np.abs(moved).max() < 0.125
    np.testing.assert_allclose(moved.sum(axis=0), 0, atol=2e-3)
    again = posterior.tables.joint(cells, ("c", "a", "b"))
    assert again is not None
    np.testing.assert_allclose(again, law.transpose(2, 0, 1, 3), atol=1e-9)
    picked = np.array([5, 9])
    some = posterior.tables.joint(cells.of_draws(picked), names, picked=picked)
    assert some is not None
    np.testing.assert_allclose(some, law[..., picked], atol=1e-9)


def test_laws_that_are_too_large_stay_and_say_so(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dc.answer(posterior, "P(a, b)", level=0.95).basis == "measured"
    monkeypatch.setattr(table_draws, "MOST_LAW_VALUES", 100)
    told = dc.answer(posterior, "P(a, b)", level=0.95)
    assert told.basis == "assumed" and told.unmeasured == ()
