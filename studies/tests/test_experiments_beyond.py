"""The experiments beyond the papers, against computations by hand, by enumeration and in closed form.

Seeds are fixed; where a test draws, its false-alarm rate over seeds is stated.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from experiments import (
    coverage,
    coverage_networks,
    intervals,
    peer_adapters,
    peer_tasks,
    peers,
    pictures,
    planned_noise,
    regressions,
    scaling,
)
from experiments.errors import Data, Truth
from experiments.harness import Task
from experiments.networks import available, theta_of
from experiments.noise_law import METRIC
from experiments.pages import Estimate
from experiments.shipped import NO_PAIRS
from experiments.strata import STRATA
from folding import every

TINY = intervals.tiny()


def tables(network: dc.Network, seed: int) -> dc.Tables:
    """Probabilities drawn from Dirichlet(1), without an axis of draws."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(seed))
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def joint(theta: dc.Tables) -> dict[tuple[int, ...], float]:
    """Probability of every record, by multiplication."""
    network = theta.network
    found = {}
    for record in product(*(range(network.shape(node)[-1]) for node in network.nodes)):
        at = dict(zip(network.nodes, record, strict=True))
        found[record] = float(np.prod([theta[node][tuple(at[n] for n in network.family(node))] for node in at]))
    return found


# ------------------------------------------------------------------------------------------ intervals


def test_held_counts_intervals_and_keeps_certain_entries_apart() -> None:
    draws = np.tile(np.linspace(0.2, 0.6, 401), (4, 1))
    found = intervals.held({"entries": draws}, {"entries": np.array([0.205, 0.4, 0.62, 1.0])})
    assert found["entries"] == (pytest.approx(1 / 3), pytest.approx(0.95 * 0.4))
    assert found["entries at 0 or 1"][0] == 0
    assert intervals.between(np.array([0, 1e-9, 0.5, 1 - 1e-9, 1])).tolist() == [False, False, True, False, False]


def test_simulations_are_of_the_network_itself_or_of_a_drawn_truth() -> None:
    promise = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    own = intervals.simulation(TINY, None, 50, "laplace", promise, np.random.default_rng(1))
    drawn = intervals.simulation(TINY, 1.0, 50, "laplace", promise, np.random.default_rng(1))
    assert all(np.array_equal(own.truth[node][..., 0], TINY[node]) for node in TINY)
    assert not np.allclose(drawn.truth["a"][..., 0], TINY["a"])
    assert own.release.records == drawn.release.records == 50
    assert float(drawn.prior.alpha["a"][0]) == 1.0


def test_evidence_of_queries_is_not_rare() -> None:
    """True frequencies, by enumeration: 2 % of 5,000 is seven standard deviations above 0.9 %."""
    theta = tables(TINY.network, 3)
    every = joint(theta)
    for target, evidence in intervals.conditionals(theta, 10, np.random.default_rng(5)):
        assert target not in evidence
        at = [theta.network.nodes.index(name) for name in evidence]
        shown = sum(p for record, p in every.items() if all(record[i] == evidence[theta.network.nodes[i]] for i in at))
        assert shown > 0.009


def test_regressions_are_covered_as_counted_by_hand() -> None:
    draws = np.column_stack([np.linspace(0, 1, 201), np.linspace(2, 3, 201)])
    assert regressions.covered(draws, np.array([0.5, 2.01])) == (0.5, pytest.approx(0.95))


def test_moments_without_noise_are_least_squares() -> None:
    """Means of 4,000 draws are within 8 standard errors (1e-15 each), deviations within 10 % (9 standard errors)."""
    task = regressions.linear(2000, np.random.default_rng(2))
    statistic = dc.designs.sum_moments(dc.designs.read_rows(regressions.LINEAR, task.features, task.target))
    promise = dc.Guarantee(epsilon=10**6, delta=0, relation="replace", unit="record")
    prior = dc.designs.Normal(regressions.LINEAR, 1.0)
    made = dc.simulate(dc.designs.noisy_moments(), statistic, prior, promise, rng=np.random.default_rng(3))
    draws = regressions.taken_for_exact(regressions.moments_of(made), 4000, np.random.default_rng(4))
    best, squares, *_ = np.linalg.lstsq(task.features, task.target, rcond=None)
    spread = np.sqrt(squares[0] / 2000 * np.diag(np.linalg.inv(task.features.T @ task.features)))
    assert np.all(np.abs(draws.mean(axis=0) - best) < 8 * spread / np.sqrt(4000) + 1e-4)
    assert np.all(np.abs(draws.std(axis=0) / spread - 1) < 0.1)


# ------------------------------------------------------------------------------------------ coverage


def covered(changes: dict[tuple[str, str, str, str], float] | None = None) -> pd.DataFrame:
    """Rows of a made-up run: noise-aware intervals hold 95 %, plug-in 30 %, with four repeats around them."""
    rows = []
    for setting, _ in coverage.plan(True):
        known = STRATA if setting["truths"] in coverage_networks.PLACES else coverage.KINDS
        kinds = known if setting["truths"] != "weights" else ("weights",)
        for reader, kind, repeat in product(coverage.READERS, kinds, range(4)):
            share = 0.95 if reader == "noise-aware" else 0.3
            share = (changes or {}).get((setting["truths"], setting["mechanism"], reader, kind), share)
            held = {"metric": "coverage", "value": share + 0.005 * (-1) ** repeat}
            for row in (held, {"metric": "width", "value": 0.1}):
                rows.append({**setting, "repeat": repeat, "reader": reader, "kind": kind, "intervals": 2000, **row})
    return pd.DataFrame(rows)


def test_coverage_is_measured_for_all_kinds_of_numbers() -> None:
    setting = {"truths": "prior", "mechanism": "laplace", "epsilon": 1.0}
    rows = list(coverage.measure(Task("coverage", setting, 1, 0)))
    assert rows == list(coverage.measure(Task("coverage", setting, 1, 0)))
    assert {(row["reader"], row["kind"]) for row in rows} == set(product(coverage.READERS, coverage.KINDS))
    assert all(0 <= row["value"] <= 1 for row in rows)
    assert {row["kind"]: row["intervals"] for row in rows}["entries"] == 2 + 6 + 12


@pytest.mark.parametrize(
    ("truths", "mechanism", "relation", "delta"),
    [
        ("prior", "laplace", "replace", 0),
        ("prior", "gaussian", "replace", Fraction("1e-6")),
        ("add-remove", "planned", "add-remove", 0),
        ("asia", "fourier", "replace", 0),
        ("known asia", "planned", "add-remove", 0),
        ("made-up sure-8, replace", "planned", "replace", 0),
        ("weights", "noisy_moments", "replace", 0),
        ("weights", "truncated_posterior", "replace", 0),
        ("weights", "objective_perturbation", "replace", 0),
        ("weights", "noisy_gradients", "replace", 0),
    ],
)
def test_releases_are_promised_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, truths: str, mechanism: str, relation: str, delta: Fraction
) -> None:
    promised, simulate = [], dc.simulate

    def spy(chosen, statistic, prior, promise, **others):
        promised.append((chosen.name, promise.epsilon, promise.delta, promise.relation))
        return simulate(chosen, statistic, prior, promise, **others)

    monkeypatch.setattr(dc, "simulate", spy)
    if mechanism in ("objective_perturbation", "noisy_gradients"):
        # Chains take seconds, and nothing here depends on their draws.
        monkeypatch.setattr(dc, "read", lambda *_, **__: SimpleNamespace(weights=np.zeros((10, 5))))
    list(coverage.measure(Task("coverage", {"truths": truths, "mechanism": mechanism, "epsilon": 0.3}, 1, 0)))
    assert promised == [(mechanism, Fraction(3, 10), delta, dc.Relation(relation))]


def test_a_plan_has_every_mechanism() -> None:
    every = {"prior": coverage.NAMES, "asia": coverage.NAMES, "weights": regressions.READ}
    for truths, names in {**every, "add-remove": ("planned", "laplace")}.items():
        for quick, left in ((False, set()), (True, {"map_estimate"} if truths == "asia" else set())):
            found = {setting["mechanism"] for setting, _ in coverage.plan(quick) if setting["truths"] == truths}
            assert found == set(names) - left


def test_guarded_networks_have_sixty_releases_and_others_every_budget() -> None:
    """Thirty or fifty in each of two seed sets, at the epsilon that is guarded."""
    for quick in (True, False):
        plan = {
            (s["truths"], s["epsilon"]): n for s, n in coverage.plan(quick) if s["truths"] in coverage_networks.PLACES
        }
        there = [place for place in coverage_networks.OWN if available([coverage_networks.PLACES[place][0]])]
        assert all(plan[place, coverage_networks.GUARDED] >= 30 for place in there)
        assert {epsilon for _, epsilon in plan} >= {0.1, 1.0, 10.0}
        relations = {coverage_networks.PLACES[place][1] for place, _ in plan}
        assert relations == {"add-remove", "replace"}
        assert any(place.startswith("made-up") for place, _ in plan)


@pytest.mark.costly("A measured repeat that does not depend on its seed, or loses a stratum, is found by two repeats.")
def test_known_networks_are_read_by_stratum() -> None:
    setting = {"truths": "made-up sure-8", "mechanism": "planned", "epsilon": 1.0}
    rows = list(coverage.measure(Task("coverage", setting, 1, 0)))
    assert rows == list(coverage.measure(Task("coverage", setting, 1, 0)))
    assert rows != list(coverage.measure(Task("coverage", setting, 2, 0)))
    sizes = {row["kind"]: row["intervals"] for row in rows}
    assert sizes["entries"] == sizes["row < 1"] + sizes["row > 100"]
    assert sizes["conditionals"] == sizes["given one"] + sizes["given two"]
    assert {row["reader"] for row in rows} == {"noise-aware"}
    assert all(0 <= row["value"] <= 1 for row in rows)


@pytest.mark.costly("Checks that pass whatever was measured are found with pages made from wrong numbers.")
def test_checks_of_coverage_react() -> None:
    good = coverage.present(covered())
    assert all(check.passes for check in good.checks)
    assert good.verdict.startswith("Beyond the papers: ") and "asia 95.0 ±" in good.verdict
    narrow = coverage.present(covered({("prior", "planned", "noise-aware", "marginals"): 0.6}))
    odd = coverage.present(covered({("prior", "planned", "noise-aware", "entries"): 0.85}))
    assert "planned, prior, entries, epsilon 1, %" in [c.what for c in odd.checks if not c.holds]
    assert [c.what for c in narrow.checks if not c.holds] == [
        "prior, marginals, mean over mechanisms, epsilon 1, %",
    ]
    for kind, share in (("entries", 0.85), ("marginals", 0.85), ("conditionals", 0.85)):
        broken = coverage_networks.network_checks(covered({("known asia", "planned", "noise-aware", kind): share}))
        assert f"known asia, shipped default, {kind}, epsilon 1, %" in {c.what for c in broken if not c.holds}
    fine = coverage.present(covered({("asia", "laplace", "plug-in", "entries"): 0.93}))
    assert [check.holds for check in fine.checks if "laplace read by plug-in, asia" in check.what] == [False]


def test_intervals_of_another_level_and_of_noise_that_is_not_there_fail() -> None:
    """90 % for 95 % everywhere; and on networks with many entries, intervals that hold all but 1 %."""
    rows = covered()
    aware = (rows["reader"] == "noise-aware") & (rows["metric"] == "coverage")
    lower = [c.what for c in coverage.present(rows.assign(value=rows["value"] - 0.05 * aware)).checks if not c.holds]
    assert len([what for what in lower if "known" in what]) >= 3
    higher = coverage_networks.network_checks(rows.assign(value=rows["value"] + 0.045 * aware))
    assert {c.what.split(",")[0] for c in higher if not c.holds} <= {*coverage_networks.LARGE, "known networks"}
    assert "known networks" in {c.what.split(",")[0] for c in higher if not c.holds}


@pytest.mark.costly("Each stratum's own check must fail by itself, on a whole page of made-up rows.")
@every("stratum", coverage_networks.LEAST_OF_STRATA)
def test_a_stratum_that_is_held_too_little_everywhere_fails(stratum: str) -> None:
    """Five points below what is wanted, at every place; the page names it and the places."""
    low = coverage_networks.LEAST_OF_STRATA[stratum] - 0.05
    places = {s["truths"] for s, _ in coverage.plan(True)} & set(coverage_networks.PLACES)
    frame = covered({(place, "planned", "noise-aware", stratum): low for place in places})
    page = coverage.present(frame)
    broken = [check.what for check in page.checks if not check.passes]
    plain = stratum.replace("<", "below").replace(">", "over")
    assert broken == [f"all networks and epsilons, shipped default, {plain}, %"]
    assert f"{plain} {100 * low:.1f}" in page.notes
    if stratum != coverage_networks.ENDS:
        assert f"least of all strata {100 * low:.1f}" in page.verdict and plain in page.verdict


def test_one_place_that_fails_is_named_and_shown() -> None:
    frame = covered({("made-up rare-6", "planned", "noise-aware", "truth < .01"): 0.5})
    page = coverage.present(frame)
    assert all(check.passes for check in coverage_networks.network_checks(frame))
    assert "made-up rare-6, epsilon 10: truth below .01 50.0" in page.notes
    assert "Known failures" not in coverage.present(covered()).notes
    (by_stratum, by_place) = (table for _, table in page.tables[:2])
    assert "| truth below .01 | " in by_stratum and "50.0" in by_stratum and "made-up rare-6" in by_stratum
    assert by_place.count("| made-up rare-6 |") == 3


def test_a_kind_that_is_held_too_little_at_one_budget_fails() -> None:
    frame = covered()
    low = frame["epsilon"].eq(0.1) & frame["kind"].eq("marginals") & frame["truths"].isin(coverage_networks.PLACES)
    low &= frame["metric"].eq("coverage")
    broken = [c.what for c in coverage.present(frame.assign(value=frame["value"] - 0.05 * low)).checks if not c.passes]
    assert broken == ["all networks, shipped default, marginals, epsilon 0.1, %"]
    shown = {c.what for c in coverage.present(frame).checks}
    assert not any("epsilon 0.3" in what and "all networks" in what for what in shown), "asia alone, a few times"


def test_strata_of_few_intervals_do_not_count() -> None:
    frame = covered({("made-up rare-6", "planned", "noise-aware", "row < 1"): 0.0})
    few = frame["truths"].eq("made-up rare-6") & frame["kind"].eq("row < 1")
    page = coverage.present(frame.assign(intervals=np.where(few, 20, frame["intervals"])))
    assert all(check.passes for check in page.checks)
    assert not all(check.passes for check in coverage.present(frame).checks)


def test_repeats_that_agree_by_chance_have_an_error_all_the_same() -> None:
    """Four repeats of five intervals each that hold all have the error of twenty: such checks have no power."""
    frame = covered()
    frame.loc[(frame["truths"] == "prior") & (frame["metric"] == "coverage"), "value"] = 1.0
    frame["intervals"] = 5
    checks = coverage.calibration_checks(frame)
    assert all(check.holds for check in checks)
    assert not any(check.powerful for check in checks)


# ------------------------------------------------------------------------------------------ scaling


def test_chains_have_as_many_parents_as_there_are() -> None:
    network = scaling.chain(2, 3)
    assert [len(network.parents[node]) for node in network.nodes] == [0, 1, 2, 2, 2, 2, 2, 2]
    assert network.parents["v4"] == ("v2", "v3")
    assert network.shape("v4") == (3, 3, 3)


def test_slopes_and_crossings_of_known_laws() -> None:
    """Errors a / x beside b: their ratio is sqrt 2 at x = a / (b sqrt 2)."""
    at = np.array([0.01, 0.1, 1.0, 10.0])
    repeats = np.array([0.9, 1.0, 1.1])
    private, exact = 0.3 / at[:, None] * repeats, np.full((4, 3), 0.1) * repeats
    assert scaling.slope(at, private).mean == pytest.approx(-1)
    assert scaling.slope(at, private**2).mean == pytest.approx(-2)
    assert np.isnan(scaling.slope(at[:1], private[:1]).mean)
    found = scaling.crossing(at, private, exact)
    assert 10**found.mean == pytest.approx(0.3 / 0.1 / np.sqrt(2))
    assert found.error == pytest.approx(0, abs=1e-9)
    assert scaling.crossing(at, 100 * private, exact).mean == np.inf
    assert scaling.crossing(at, exact, exact).mean == -np.inf


def test_slopes_are_fitted_between_sampling_and_ignorance() -> None:
    lines = {
        scaling.EXACT: np.full((4, 2), 0.1),
        scaling.UNIFORM: np.full((4, 2), 1.0),
        scaling.SHIPPED: np.array([0.6, 0.5, 0.2, 0.15])[:, None] * np.ones(2),
    }
    assert scaling.dominated(lines, scaling.SHIPPED).tolist() == [False, True, True, False]


def scaled(factor: float, noise: float = 1.0) -> pd.DataFrame:
    """Rows of a made-up run in which the shipped default has so many times the error of Laplace noise."""
    rows = []
    for setting, _ in scaling.plan(True):
        for metric, repeat in product(scaling.ERRORS, range(3)):
            base = 0.05 * (1 + 0.02 * (repeat - 1)) / (setting["at"] if setting["varied"] == "epsilon" else 1)
            values = dict(zip(scaling.METHODS, (factor * base, base, 0.01, 0.5), strict=True))
            rows += [
                {**setting, "repeat": repeat, "metric": metric, "method": method, "value": value}
                for method, value in values.items()
            ]
        for repeat in range(3):
            place, jitter = {**setting, "repeat": repeat}, 0.01 * (repeat - 1)
            for method in (scaling.SHIPPED, scaling.LAPLACE):
                rows.append({**place, "metric": METRIC, "method": method, "value": noise + jitter})
            row = {**place, "metric": "cpt over its law's", "method": scaling.LAPLACE}
            rows.append({**row, "value": noise + jitter})
    frame = pd.DataFrame(rows)
    # The recorded errors, whatever the factor is.
    for (metric, at), reference in scaling.RECORDED.items():
        cell = (frame["varied"] == "epsilon") & (frame["at"] == at) & (frame["metric"] == metric)
        base = frame.loc[cell & (frame["method"] == scaling.SHIPPED), "value"].mean()
        private = cell & frame["method"].isin((scaling.SHIPPED, scaling.LAPLACE))
        frame.loc[private, "value"] *= noise * reference.mean / base
    return frame


def test_errors_are_measured_on_the_same_records() -> None:
    setting = {"varied": "records", "at": 300.0}
    rows = list(scaling.measure(Task("scaling", setting, 1, 0)))
    found = {(row["method"], row["metric"]): row["value"] for row in rows}
    noisy = product((scaling.SHIPPED, scaling.LAPLACE), (METRIC,))
    assert set(found) == {*product(scaling.METHODS, scaling.ERRORS), *noisy}
    assert all(0 < value < 2 for value in found.values())
    assert found[scaling.EXACT, "wcpt"] < found[scaling.SHIPPED, "wcpt"]
    other = scaling.measure(Task("scaling", {"varied": "epsilon", "at": 3.0}, 1, 0))
    assert {row["value"] for row in other if row["method"] == scaling.UNIFORM} == {
        value for (method, _), value in found.items() if method == scaling.UNIFORM
    }


def test_checks_of_scaling_react() -> None:
    good, bad = scaling.present(scaled(0.8)), scaling.present(scaled(1.2))
    assert all(check.passes for check in good.checks)
    assert [check.what for check in bad.checks if not check.holds] == [check.what for check in good.checks[:8]]
    assert "8 of 8" in good.verdict
    assert "0 of 8" in bad.verdict
    assert good.verdict.startswith("Beyond the papers: ")
    assert len(good.verdict.split()) <= 62


def test_half_the_noise_fails_scaling_in_absolute_numbers_alone() -> None:
    halved = scaling.present(scaled(0.8, noise=0.5))
    assert [check.holds for check in halved.checks[:8]] == [True] * 8, "ratios of our own do not see it"
    assert not any(check.holds for check in halved.checks[8:])
    assert len(halved.checks[8:]) == 3 + len(scaling.RECORDED)


def test_the_expected_error_is_that_of_enumeration() -> None:
    """Three records of one state, noise of scale 1: all pairs of noise up to 60, one by one."""
    q = np.exp(-1.0)
    law = {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-60, 61)}
    total = sum(
        law[j] * law[k] * 2 * abs((max(3 + j, 0) + 1) / (max(3 + j, 0) + max(k, 0) + 2) - 0.7) for j in law for k in law
    )
    assert scaling.expected_error([3, 0], 0.7, 1.0) == pytest.approx(total, rel=1e-4)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float, dc.Relation]]:
    """A list of the guarantees that releases are simulated with from now on: epsilon, delta, relation."""
    asked, simulate = list[tuple[float, float, dc.Relation]](), dc.simulate

    def simulated(mechanism: Any, statistic: Any, prior: Any, guarantee: dc.Guarantee, **others: Any) -> dc.Release:
        asked.append((float(guarantee.epsilon), float(guarantee.delta), guarantee.relation))
        return simulate(mechanism, statistic, prior, guarantee, **others)

    monkeypatch.setattr(dc, "simulate", simulated)
    return asked


def test_scaling_asks_for_the_guarantee_of_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch)
    list(scaling.measure(Task("scaling", {"varied": "epsilon", "at": 0.3}, 1, 0)))
    list(scaling.measure(Task("scaling", {"varied": "records", "at": 300.0}, 1, 0)))
    assert asked == [(epsilon, 0, dc.Relation.ADD_REMOVE) for epsilon in (0.3, 0.3, 0.1, 0.1)]


def test_frequencies_stand_for_sampling_alone() -> None:
    network = scaling.chain(1, 2)
    data = Data.drawn(Truth.of(tables(network, 1), "chain"), 50, np.random.default_rng(2))
    found, release = scaling.METHODS[scaling.EXACT](data, 1.0, np.random.default_rng(3))
    assert release is None
    assert found["v0"] == pytest.approx(data.counts.tables["v0"] / 50)


# ------------------------------------------------------------------------------------------ peers


def test_query_errors_are_those_of_the_enumerated_joint() -> None:
    """The released tables have another network than the truth."""
    truth = tables(TINY.network, 1)
    data = Data.drawn(Truth.of(truth, "tiny"), 100, np.random.default_rng(2))
    chain = dc.Network(tuple(truth.network.schema), {"b": (), "a": ("b",), "c": ("a",)})
    released = tables(chain, 7)
    every, places = joint(released), {name: place for place, name in enumerate(chain.nodes)}
    wanted: dict[str, list[float]] = {"marg": [], "cond": []}
    for query, true in zip(data.queries, data.answers, strict=True):
        law = np.zeros(len(true))
        for record, p in every.items():
            if all(record[places[name]] == code for name, code in query.evidence):
                law[record[places[query.target]]] += p
        wanted["cond" if query.evidence else "marg"].append(float(np.abs(law / law.sum() - true).sum()))
    assert peer_tasks.query_errors(data, released) == pytest.approx({k: np.mean(v) for k, v in wanted.items()})
    assert peer_tasks.query_errors(data, truth) == pytest.approx({"marg": 0, "cond": 0}, abs=1e-12)


def test_mutual_information_is_that_of_the_contingency_table() -> None:
    records = pd.DataFrame(np.random.default_rng(1).integers(3, size=(200, 3)), columns=list("abc")).astype(str)
    table = records.groupby(["a", "b", "c"]).size() / 200
    child, parents = table.groupby("a").sum(), table.groupby(["b", "c"]).sum()
    wanted = sum(p * np.log(p / (child[a] * parents[b, c])) for (a, b, c), p in table.items())
    assert peer_adapters.mutual_information(records["a"], records[["b", "c"]]) == pytest.approx(wanted)


def test_mutual_information_is_what_datasynthesizer_computes() -> None:
    utils = pytest.importorskip("DataSynthesizer.lib.utils", reason="the extra `peers` is not installed")
    records = pd.DataFrame(np.random.default_rng(1).integers(3, size=(200, 3)), columns=list("abc")).astype(str)
    for parents in (["b"], ["b", "c"]):
        theirs = utils.mutual_information(records["a"], records[parents])
        assert peer_adapters.mutual_information(records["a"], records[parents]) == pytest.approx(theirs, abs=1e-12)


def test_datasynthesizer_learns_networks_and_its_noise_is_of_the_stated_scale() -> None:
    module = pytest.importorskip("DataSynthesizer.lib.PrivBayes", reason="the extra `peers` is not installed")
    truth = tables(TINY.network, 1)
    codes = Data.drawn(Truth.of(truth, "tiny"), 300, np.random.default_rng(2)).codes
    rng, state = np.random.default_rng(3), np.random.get_state()[1].copy()  # noqa: NPY002 - whether it is left alone
    (network,) = peer_adapters.learned_networks(tuple(truth.network.schema), codes, 1, [1.0], rng)
    assert sorted(len(parents) for parents in network.parents.values()) == [0, 1, 1]
    # Two tables of two variables: without noise (an epsilon of 0 in its language) they are relative frequencies.
    exact = peer_adapters.noisy_tables(network, codes, 0, rng)
    counts = dc.tools.count_codes(network, codes).tables
    for node in network.nodes[1:]:
        assert exact[node] == pytest.approx(counts[node] / counts[node].sum(axis=-1, keepdims=True))
    assert module.laplace_noise_parameter(1, 3, 300, 0.5) == 2 / 0.5
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    assert module.Pool is not peer_adapters._Serial


def test_peers_that_are_not_there_are_named_with_a_reason() -> None:
    found = peer_adapters.absent()
    assert "pins numpy 1.26.4" in found["dpmm"]
    assert all(reason.startswith(name) for name, reason in found.items())


def compared_rows(ratio: float, noise: float = 1.0) -> pd.DataFrame:
    """Rows of a made-up run in which both peers have so many times our error."""
    rows = []
    for relation, peer in (("add-remove", peer_tasks.ON_FAMILIES), ("replace", peer_tasks.SYNTHESIZER)):
        for metric, epsilon, repeat in product(("marg", "cond"), peer_tasks.EPSILONS, range(3)):
            base = 0.1 * (1 + repeat)
            values = {
                **dict.fromkeys(peer_tasks.OURS, base),
                peer: base * ratio * (1 + 0.01 * repeat),
                peer_tasks.EXACT: 0.01,
            }
            where = {"task": "asia", "relation": relation, "metric": metric, "epsilon": epsilon, "repeat": repeat}
            rows += [{**where, "method": method, "value": value} for method, value in values.items()]
            row = {**where, "metric": METRIC, "value": noise + 0.01 * (repeat - 1)}
            rows += [{**row, "method": ours} for ours in peer_tasks.OURS] if metric == "marg" else []
    return pd.DataFrame(rows)


def test_comparisons_are_paired_and_checks_react() -> None:
    rows = peers.compared(compared_rows(2.0))
    assert len(rows) == 24
    logs = np.log(2.0) + np.log1p(0.01 * np.arange(3))
    assert rows[0].log_ratio == Estimate(
        pytest.approx(logs.mean()), pytest.approx(logs.std(ddof=1) / np.sqrt(3))
    )  # fmt: skip
    assert {row.ahead for row in rows} == {"ours"}
    good, bad = peers.present(compared_rows(2.0)), peers.present(compared_rows(0.5))
    assert [check.passes for check in good.checks] == [True] * 5
    assert [check.holds for check in bad.checks] == [False] * 3 + [True] * 2
    assert [check.holds for check in peers.present(compared_rows(2.0, noise=0.5)).checks] == [True] * 3 + [False] * 2
    assert good.verdict.startswith("Beyond the papers: ")
    assert "DataSynthesizer 6/0/0" in good.verdict
    assert "DataSynthesizer 0/0/6" in bad.verdict
    assert "asia marg at 0.1 (replace)" in bad.tables[0][1]
    assert {row.ahead for row in peers.compared(compared_rows(0.99))} == {"level"}


def test_what_claims_less_than_it_costs_is_not_in_the_verdict() -> None:
    frame = compared_rows(2.0)
    more = frame[frame["method"] == peer_tasks.SYNTHESIZER].assign(method=peer_tasks.CLAIMED)
    page = peers.present(pd.concat([frame, more]))
    assert peer_tasks.CLAIMED not in page.verdict
    assert peer_tasks.CLAIMED in page.tables[0][1]
    assert page.verdict == peers.present(frame).verdict


def test_comparisons_are_pooled_by_repeat() -> None:
    """Six cells in every repeat, one of them off: their mean has the error of three repeats, not of eighteen cells."""
    frame = compared_rows(1.0)
    odd = (frame["method"] == peer_tasks.ON_FAMILIES) & (frame["metric"] == "cond") & (frame["epsilon"] == 1)
    frame.loc[odd, "value"] *= 0.5
    found = peers.pooled(frame, peer_tasks.ON_FAMILIES, NO_PAIRS)["asia"]
    logs = np.log1p(0.01 * np.arange(3)) + np.log(0.5) / 6
    assert found == Estimate(pytest.approx(logs.mean()), pytest.approx(logs.std(ddof=1) / np.sqrt(3)))


@pytest.mark.parametrize(("degree", "variables"), [(1, 5), (3, 8)])
def test_what_datasynthesizer_costs_under_replace(degree: int, variables: int) -> None:
    """From its own noise at an epsilon of 1, of which each half has half; a record that is replaced moves two cells."""
    module = pytest.importorskip("DataSynthesizer.lib.PrivBayes", reason="the extra `peers` is not installed")
    # An exponential mechanism with weights exp(score / 2 Delta) costs sensitivity / Delta.
    choices = (variables - 1) * 0.3 / module.calculate_delta(variables, 0.3, 0.5)
    cells = (variables - degree) * 2 / module.laplace_noise_parameter(degree, variables, 300, 0.5)
    assert choices + cells == pytest.approx(peer_adapters.PRIV_BAYES_COST)


def test_what_diffprivlibs_naive_bayes_costs_under_replace() -> None:
    """By hand: a third of epsilon for each of three statistics, whose noise has the scale of a sensitivity.

    A record that changes its class moves two counts by 1 (their noise: 1), with a feature of B or -B two sums by B
    (their noise: the range, 2 B), and two sums of squares by B^2 (their noise: B^2).
    """
    bound = 0.7
    moved = {"counts": (1 + 1) / 1, "sums": (bound + bound) / (2 * bound), "squares": 2 * bound**2 / bound**2}
    assert sum(moved.values()) / 3 == pytest.approx(peer_adapters.NAIVE_BAYES_COST)


@pytest.mark.costly("Only a whole measurement shows what guarantee each of the peers is given.")
def test_peers_get_the_guarantee_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, known = noted(monkeypatch), theta_of("asia").network
    halves, spent = list[float](), list[float]()

    def networks(schema: Any, codes: Any, degree: int, epsilons: list[float], rng: Any) -> list[dc.Network]:
        halves.extend(epsilons)
        return [known] * len(epsilons)

    def noisy(found: dc.Network, codes: Any, epsilon: float, rng: Any) -> dc.Tables:
        spent.append(epsilon)
        return dc.Dirichlet.uniform(found).mean()

    monkeypatch.setattr(peer_tasks, "absent", dict)
    monkeypatch.setattr(peer_tasks, "read_by_mbi", lambda made: dc.Dirichlet.uniform(made.network).mean())
    monkeypatch.setattr(peer_tasks, "learned_networks", networks)
    monkeypatch.setattr(peer_tasks, "noisy_tables", noisy)
    list(peer_tasks.errors_of_tables(Task("peers", {"task": "asia"}, 1, 0)))
    promised = [
        (epsilon, 0, dc.Relation.ADD_REMOVE) for epsilon in peer_tasks.EPSILONS for _ in (*peer_tasks.OURS, "families")
    ]
    promised += [(epsilon, 0, dc.Relation.REPLACE) for epsilon in peer_tasks.EPSILONS for _ in peer_tasks.OURS]
    assert asked[: len(promised)] == promised
    # Half of what it is told for the network, under REPLACE; half for tables, under ADD_REMOVE: twice that.
    told = len(peer_tasks.EPSILONS)
    assert [half + 2 * half for half in halves[:told]] == pytest.approx(peer_tasks.EPSILONS)
    assert halves[told:] == [epsilon / 2 for epsilon in peer_tasks.EPSILONS]
    assert spent == halves
    left = asked[len(promised) :]
    assert [half + epsilon for half, (epsilon, _, _) in zip(halves, left, strict=False)] == pytest.approx(
        peer_tasks.EPSILONS
    )
    assert {(delta, relation) for _, delta, relation in left} == {(0, dc.Relation.REPLACE)}
    assert len(left) == told


def test_estimators_get_the_guarantee_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, given = noted(monkeypatch), list[float]()

    def classes(points: Any, labels: Any, tested: np.ndarray, epsilon: float, rng: Any) -> np.ndarray:
        given.append(epsilon)
        return np.zeros(len(tested), int)

    def linear(features: np.ndarray, target: Any, epsilon: float, rng: Any) -> np.ndarray:
        given.append(epsilon)
        return np.zeros(features.shape[1])

    monkeypatch.setattr(peer_tasks, "gaussian_naive_bayes", classes)
    monkeypatch.setattr(peer_tasks, "linear_weights", linear)
    for name in ("naive Bayes", "linear"):
        peer_tasks.FITS[name](Task("peers", {"task": name}, 1, 0), 2.0)
    assert asked == [(2, 0, dc.Relation.REPLACE)] * 2
    assert given == [pytest.approx(2 / (5 / 3)), 2]


@pytest.mark.costly("Only a whole measurement shows which rows there are without the peers.")
def test_without_peers_ours_and_the_counts_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_tasks, "absent", lambda: {"mbi": "", "DataSynthesizer": ""})
    rows = list(peers.measure(Task("peers", {"task": "asia"}, 1, 0)))
    assert {row["method"] for row in rows} == {*peer_tasks.OURS, peer_tasks.EXACT}
    assert {(row["relation"], row["metric"]) for row in rows} == set(
        product(("add-remove", "replace"), ("marg", "cond", "wcpt", METRIC))
    )
    assert all(0 < row["value"] < 1 for row in rows if row["metric"] != METRIC)


def test_lines_are_moved_apart_around_the_middle_one() -> None:
    frame = pd.DataFrame({"x": [1.0, 1.0, 1.0], "by": ["a", "b", "c"]})
    assert pictures.sideways(frame, "x", "by", ("a", "b", "c"))["x"].tolist() == pytest.approx([1 / 1.05, 1, 1.05])


# ------------------------------------------------------------------------------------------ noise of plans


def test_errors_are_compared_on_the_same_records() -> None:
    """Means 2 and 4, and without either repeat 3 / 3 and 1 / 5."""
    values = {"a": [1.0, 3.0], "b": [5.0, 3.0]}
    frame = pd.DataFrame(
        [
            {"network": "n", "epsilon": 1.0, "method": method, "metric": "m", "repeat": repeat, "value": value}
            for method, row in values.items()
            for repeat, value in enumerate(row)
        ]
    )
    found = planned_noise.relative(frame, "m", "a", "b")["n", 1.0]
    assert found.mean == pytest.approx(0.5)
    assert found.error == pytest.approx(np.sqrt(0.5 * 2 * 0.4**2))


@pytest.mark.costly("Twenty releases of asia show whether plans have the noise that they foretell.")
def test_noise_of_plans_is_what_they_foretell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of 20 releases of asia's 36 cells, whose errors are correlated: within a third, some five deviations."""
    monkeypatch.setattr(planned_noise, "importable", lambda: False)
    setting = {"network": "asia", "epsilon": 0.3}
    rows = pd.DataFrame(planned_noise.measure(Task("planned_noise", setting, 1, 0)))
    noise, told = (
        rows[rows["metric"] == metric].set_index("method")["value"] for metric in ("noise", "expected noise")
    )
    for method in (planned_noise.STARS, planned_noise.ALONE):
        assert 2 / 3 < noise[method] / told[method] < 4 / 3
    assert noise[planned_noise.EQUAL] > told[planned_noise.ALONE]
    known = rows[rows["metric"] == "cpt"].set_index("method")["value"]
    assert known[planned_noise.STARS] < known["D-Ind"] / 1.5
    assert set(rows["metric"]) == {"noise", "expected noise", "cpt", "marg", "cond"}
