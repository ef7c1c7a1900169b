"""Every row of docs/papers.md: its calls and commands are run in tests that assert a number, a bound or a law.

`TESTS` names the tests of each row. Tests of this file are those that no other file has: numbers by hand of a small
release, and the commands.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gammaln, log_softmax
from scipy.stats import binom

import discreet as dc
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.research.scores.score_tables import SCORE_STEPS
from releases import simulated, simulated_counts
from shell import Shell, reopened
from test_theory_page import CALL, COMMAND, ITEMS, rows
from tiny import all_records, network_of

HERE = Path(__file__).parent
SMOKING = dc.Network(
    (dc.Variable("smoke", ("yes", "no")), dc.Variable("lung", ("yes", "no"))), {"smoke": (), "lung": ("smoke",)}
)
TRUTH = dc.Tables(SMOKING, {"smoke": [0.5, 0.5], "lung": [[0.3, 0.7], [0.05, 0.95]]})
PRIOR = dc.Dirichlet.uniform(SMOKING, 1.0)
QUESTION = "P(lung=yes | smoke=yes)"


def promise(epsilon: float | str = 1, relation: str = "replace", delta: str = "0") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


@pytest.fixture
def run(released_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Shell:
    """A folder with records, a ledger and a release; the network of two variables in two.bif."""
    shell = reopened(released_study, tmp_path / "study", monkeypatch, capfd)
    TRUTH.write("two.bif")
    return shell


# ------------------------------------------------------------------------------------------ releases and what they cost


def test_a_release_states_its_promise_and_its_largest_noise(run: Shell) -> None:
    """Asia has six families that lie in no other; one replaced record moves two cells of each."""
    code, _, err = run(
        "release d.parquet --network asia.bif --account replace --epsilon 1 --mechanism laplace --output l.json"
    )
    assert code == 0, err
    made = dc.load("l.json").one_release
    stated = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    assert made.guarantee == stated == dc.tools.convert(promise(0.5, "add-remove"), "replace")
    assert set(made.calibration.scales.values()) == {12.0} and len(made.payload.tables) == 6
    bound = int(re.search(r"in all 32 cells at most (\d+), with probability 95%", err)[1])  # type: ignore[index]
    assert bound == DiscreteLaplace(12.0).largest(32, 0.05)
    assert bound <= dc.research.largest_noise(32, 12, 0.05) < bound + 1
    # The paper's bound is by the union of the cells; theirs is exact, as they are independent.
    assert dc.research.largest_noise(32, 12, 0.05) == pytest.approx(-12 * math.log(1 - 0.95 ** (1 / 32)))
    assert dc.research.largest_noise(32, 12, 0.05) < 12 * math.log(32 / 0.05)


@pytest.mark.parametrize("mechanism", [dc.laplace(), dc.planned()], ids=["laplace", "planned"])
def test_noisy_counts_are_whole_and_are_not_cut(mechanism: Any) -> None:
    """Three records and scale 200: four cells all lie within 0 to 3 with a probability of (1 / 100)^4."""
    counts = simulated_counts(TRUTH, 3, np.random.default_rng(1))
    made = dc.simulate(mechanism, counts, PRIOR, promise("0.01"), rng=2)
    (table,) = [part.values for part in made.payload.measurements]
    assert table.dtype == np.int64 and table.shape == (2, 2)
    assert np.any((table < 0) | (table > 3))


@pytest.mark.parametrize(
    ("mechanism", "relation"), [("laplace", "replace"), ("laplace", "add-remove"), ("allocated", "add-remove")]
)
def test_an_audit_measures_what_is_promised(run: Shell, mechanism: str, relation: str) -> None:
    command = {"laplace": "audit laplace", "allocated": "audit allocated"}[mechanism]
    told = run.json(f"{command} --relation {relation} --epsilon 1 --records 1")
    assert len(told["findings"]) > 4 and told["refused"] == {}
    for found in told["findings"]:
        assert found["holds"] and found["exact"] and 1 - 1e-8 < found["measured"] <= 1, found


def test_contrasts_have_the_noise_of_their_sensitivity(run: Shell) -> None:
    """28 for Asia, where the paper's bound is 42 (`test_contrasts`)."""
    code, _, err = run(
        "release d.parquet --network asia.bif --account replace --epsilon 1 --mechanism fourier --output f.json"
    )
    assert code == 0 and "scale 28 records (exact sensitivity 28)" in err
    coefficients = {part.scope for part in dc.load("f.json").one_release.payload.measurements}
    assert ("smoke", "lung") in coefficients


def test_draws_keep_to_the_floors_that_their_epsilon_pays_for(run: Shell) -> None:
    """A record costs `2 tau sum Lambda_i`, Lambda_i = ln((1 - w) / w) for two states."""
    words = "release d.parquet --network asia.bif --account replace --epsilon 1 --output p.json"
    code, _, err = run(f"{words} --mechanism posterior_sampler")
    assert code == 0, err
    payload = dc.load("p.json").one_release.payload
    loss = payload.temper * sum(2 * math.log((1 - floor) / floor) for floor in payload.floors.values())
    assert 0.98 < loss <= 1 + 1e-9
    for name, cells in payload.cells.items():
        assert np.all(cells >= payload.floors[name] - 1e-12) and np.allclose(cells.sum(axis=-2), 1)


def test_two_stages_share_one_epsilon(run: Shell) -> None:
    code, _, err = run(
        "release d.parquet --network asia.bif --account add-remove --epsilon 1 --mechanism allocated --output a.json"
    )
    assert code == 0, err
    made = dc.load("a.json").one_release.calibration
    assert made.first_epsilon + made.second_epsilon == 1 and made.first_epsilon * 10 == 1


def test_plans_of_all_mechanisms_near_the_sampling_error_as_epsilon_grows(run: Shell) -> None:
    """For the four mechanisms of Table 1. The map is a point of a grid, and trimming stays: they have a floor."""
    for words in (
        "--mechanism fourier",
        "--mechanism laplace",
        "--mechanism posterior_sampler",
        "--mechanism map_estimate",
    ):
        errors = []
        for epsilon in ("0.03", "30"):
            command = f"plan --network two.bif --records 500 --repeats 3 --relation replace --epsilon {epsilon} {words}"
            sampling, row = run.json(command)["expected"]
            assert row["refused"] is None and row["mechanism"] == words.partition(" ")[2]
            errors.append(row["cells"])
        assert errors[1] < 0.5 * errors[0], (words, errors)
        assert errors[1] < 3 * sampling["cells"], (words, errors)


# ---------------------------------------------------------------------------------------- what is learned from releases


@cache
def coin_release() -> dc.Release:
    """Twelve flips, a public number, with noise in both cells: 13 and 1, so that a wider law would be seen."""
    coin = network_of({"x": 2})
    made = simulated(dc.Tables(coin, {"x": [0.75, 0.25]}), 12, promise("0.5"), np.random.default_rng(0))
    assert made.payload.measurements[0].values.tolist() == [13, 1]
    return made


def test_the_posterior_of_a_coin_is_that_of_all_counts(run: Shell) -> None:
    """Equation (1): Beta(a + k, a + 12 - k) for each number of heads k, by the probability of k and of its noise."""
    made = coin_release()
    a = float(made.prior.alpha["x"][0])
    (part,) = made.payload.measurements
    heads = np.arange(13)
    noise = part.noise.scale
    logs = -(np.abs(part.values[0] - heads) + np.abs(part.values[1] - (12 - heads))) / noise
    choose = [math.lgamma(13) - math.lgamma(k + 1) - math.lgamma(13 - k) for k in heads]
    beta = [math.lgamma(a + k) + math.lgamma(a + 12 - k) for k in heads]
    weights = np.exp(logs + choose + beta - (logs + choose + beta).max())
    weights /= weights.sum()
    means = (a + heads) / (2 * a + 12)
    mean = float(weights @ means)
    square = float(weights @ (means * (a + heads + 1) / (2 * a + 13)))
    error = math.sqrt((square - mean**2) / 4000)
    # The curator's prior, which an own prior is: without one the concentration is learned.
    own = made.prior
    for posterior in (
        dc.noise_aware(made, draws=4000, rng=1, prior=own),
        dc.noise_aware(made, draws=1000, rng=1, prior=own, method="exact"),
        dc.read(made, draws=4000, rng=2, prior=own),
    ):
        assert abs(posterior.probabilities["x"][0].mean() - mean) < 6 * error * math.sqrt(4000 / posterior.ess())
    made.save("coin.json")
    (told,) = run.json("query coin.json P(x=s0) --draws 4000 --seed 1 --prior 0.25")["answers"]
    assert abs(told["values"][0]["mean"] - mean) < 8 * error


def test_a_choice_is_read_by_the_law_of_the_choice() -> None:
    """Twenty flips: means of theta by all numbers of heads, each with the chance that this candidate is chosen.

    `read` has the family's own prior, three points; by method "choice" theta may be anything between.
    """
    coin, points = network_of({"x": 2}), np.array([0.2, 0.5, 0.8])

    def likelihood(record: Any, candidates: Any) -> Any:
        return np.log(np.where((record["x"] == "s0")[:, None], candidates[:, 0], 1 - candidates[:, 0]))

    table = dc.research.own_family(coin, likelihood, points[:, None])
    counts = simulated_counts(dc.Tables(coin, {"x": [0.9, 0.1]}), 20, np.random.default_rng(1))
    prior = dc.Dirichlet.uniform(coin, 1.0)
    made = dc.simulate(dc.research.scored(table), counts, prior, promise(4), rng=3)
    heads = np.arange(21)
    sums = heads[:, None] * table.steps[0] + (20 - heads[:, None]) * table.steps[1]
    law = np.exp(log_softmax(table.base + made.payload.rate / SCORE_STEPS * sums, axis=1))[:, made.payload.indices[0]]
    of_points = binom.pmf(heads[:, None], 20, points).T @ law
    flat = law / law.sum()  # under a flat prior all numbers of heads are as likely
    choice = dc.noise_aware(made, draws=4000, rng=2, prior=prior, method="choice")
    for posterior, mean in (
        (dc.read(made, draws=4000, rng=1), of_points @ points / of_points.sum()),
        (choice, flat @ ((1 + heads) / 22)),
    ):
        drawn = posterior.probabilities["x"][0]
        assert abs(mean - 0.5) > 0.1
        assert abs(drawn.mean() - mean) < 6 * drawn.std() / math.sqrt(posterior.ess())


def test_a_posterior_is_the_prior_of_other_records(run: Shell) -> None:
    """Two releases of 2,000 records each: together an interval of about 1 / sqrt(2) of one's width, by either way."""
    rng = np.random.default_rng(3)
    first, second = (simulated(TRUTH, 2000, promise(3), rng) for _ in range(2))
    first.save("first.json"), second.save("second.json")
    widths = {}
    for words in ("query second.json", "query second.json --prior first.json"):
        (told,) = run.json(f"{words} '{QUESTION}' --draws 2000 --seed 1")["answers"]
        widths[words] = told["values"][0]["upper"] - told["values"][0]["lower"]
    both = dc.combine(first, second, data="different")
    row = dc.noise_aware(both, draws=2000, rng=1).answer(QUESTION).rows[0]
    alone, chained = widths.values()
    assert 0.6 < chained / alone < 0.82
    assert 0.6 < (row["upper"] - row["lower"]) / alone < 0.82


def test_tables_that_share_a_variable_agree_on_it() -> None:
    """Definition 2.3: noise made them differ; answers and estimates of the posterior cannot."""
    fork = network_of({"a": 2, "b": 2, "c": 2}, "a>b a>c")
    theta = dc.Tables(fork, {"a": [0.4, 0.6], "b": [[0.2, 0.8], [0.7, 0.3]], "c": [[0.5, 0.5], [0.9, 0.1]]})
    made = simulated(theta, 300, promise("0.5"), np.random.default_rng(1))
    by_pair = {part.scope: part.values.sum(axis=1) for part in made.payload.measurements}
    assert not np.array_equal(by_pair["a", "b"], by_pair["a", "c"])
    posterior = dc.noise_aware(made, draws=200, rng=1)
    of_a = [row["mean"] for row in dc.answer(posterior, "P(a)").rows]
    for other in "bc":
        joint = [row["mean"] for row in dc.answer(posterior, f"P(a, {other})").rows]
        assert [joint[0] + joint[1], joint[2] + joint[3]] == pytest.approx(of_a, abs=1e-9)
    estimated = dc.estimate(made, rng=1)
    assert estimated["a"] == pytest.approx(of_a, abs=0.05)


def test_a_network_answers_by_elimination(run: Shell) -> None:
    """Section 2.3 by hand: a thousand times more records than noise, so answers are those of the tables."""
    drawn = dc.results.PosteriorDraws(
        dc.Tables(SMOKING, {node: array[..., None] for node, array in TRUTH.items()}, draws=1)
    )
    joint = {"P(smoke=yes, lung=yes)": 0.15, "P(smoke=yes | lung=yes)": 0.15 / 0.175, "P(lung=no)": 0.825}
    for query, value in joint.items():
        assert dc.answer(drawn, query).rows[0]["mean"] == pytest.approx(value)
    assert dc.answer(drawn, "MAP(smoke | lung=yes)").rows[0]["state"] == {"smoke": "yes"}
    assert dc.answer(drawn, "MPE(| smoke=no)").rows[0]["state"]["lung"] == "no"
    simulated(TRUTH, 200_000, promise(3), np.random.default_rng(1)).save("large.json")
    told = run.json(f"query large.json {' '.join(map(repr, joint))} --draws 200 --seed 1")["answers"]
    assert [each["values"][0]["mean"] for each in told] == pytest.approx(list(joint.values()), abs=0.01)


# --------------------------------------------------------------------------------------------------- what explain tells


@cache
def made_once() -> dc.Release:
    return simulated(TRUTH, 400, promise(), np.random.default_rng(2))


def test_explain_tells_data_sets_apart_as_by_hand(run: Shell) -> None:
    """Epsilon 1, replaced: misses, the least sum of errors, units, Theorem 13's necessary distance, Le Cam's error."""
    found = dc.explain(made_once(), rng=1, draws=100)
    made_once().save("made.json")
    told = run.json("explain made.json --draws 100 --seed 1")["telling"]
    telling = found.telling
    for a, misses in telling.misses.items():
        assert misses == pytest.approx(max(0, 1 - math.e * a, (1 - a) / math.e))
        assert told["misses"][str(a)] == pytest.approx(misses)
    assert 1 - telling.distance == pytest.approx(2 / (1 + math.e))
    assert (telling.error, telling.units) == (0.05, math.ceil(math.log(0.95 / 0.05)))
    assert telling.necessary == pytest.approx(3 * math.log(1 / 0.05) / (4 * 0.5))
    assert telling.guess == pytest.approx(1 / (1 + math.e))
    assert [told[name] for name in ("distance", "units", "necessary", "guess")] == pytest.approx(
        [telling.distance, telling.units, telling.necessary, telling.guess]
    )


def test_explain_bounds_what_noise_and_one_record_do(run: Shell) -> None:
    """The limit holds for the counts, which are known here; one table has the whole variance of its answer."""
    counts = simulated_counts(TRUTH, 400, np.random.default_rng(2))
    made = dc.simulate(dc.laplace(), counts, PRIOR, promise(), rng=4)
    divergence = dc.explain(made, QUESTION, rng=1, draws=100).divergence
    noisy = np.clip(made.payload.tables["lung"], 0, 400)
    actual = sum(
        _dirichlet_divergence(one + 1.0, other + 1.0)
        for one, other in ((noisy[0], counts.tables["lung"][0]), (noisy[1], counts.tables["lung"][1]),
                           (noisy.sum(axis=1), counts.tables["smoke"]))
    )  # fmt: skip
    assert 0 < actual <= divergence.limit and divergence.expected < divergence.limit
    assert set(divergence.families) == {"smoke", "lung"}
    assert sum(divergence.families.values()) == pytest.approx(divergence.limit)
    made.save("made.json")
    told = run.json(f"explain made.json '{QUESTION}' --draws 100 --seed 1")
    assert told["divergence"]["limit"] == pytest.approx(divergence.limit)
    # One row alone bears on the question, so the whole variance is that of its table.
    (dependence,) = told["dependences"]
    assert dependence["tables"] == pytest.approx({"lung": 1.0}, abs=1e-6)


def _dirichlet_divergence(alpha: np.ndarray, beta: np.ndarray) -> float:
    """KL of two Dirichlet laws, by the formula."""
    first = gammaln(alpha.sum()) - gammaln(alpha).sum() - gammaln(beta.sum()) + gammaln(beta).sum()
    return float(first + ((alpha - beta) * (digamma(alpha) - digamma(alpha.sum()))).sum())


# --------------------------------------------------------------------------------------------- families, and Theorem 25


def test_a_time_step_of_a_chain_is_two_replaced_records() -> None:
    """All chains of five steps of two states: one step changed moves a draw by 2 epsilon at most, and by more than 1.

    A record is a pair, the state and the next; a step in the middle lies in two pairs. Candidates are three
    probabilities of staying.
    """
    pairs = network_of({"now": 2, "next": 2}, "")
    stay = np.array([[0.2], [0.5], [0.8]])

    def likelihood(record: Any, candidates: Any) -> Any:
        same = (record["now"] == record["next"])[:, None]
        return np.log(np.where(same, candidates[:, 0], 1 - candidates[:, 0]))

    table = dc.research.own_family(pairs, likelihood, stay, bound=math.log(4))
    made = dc.research.sampled(table).calibrate(pairs, dc.Dirichlet.uniform(pairs), promise())
    nats = made.rate / SCORE_STEPS * table.steps
    codes = {record: at for at, record in enumerate(all_records(pairs))}
    worst = 0.0
    for chain in product((0, 1), repeat=5):
        laws = []
        for steps in (chain, (*chain[:2], 1 - chain[2], *chain[3:])):
            sums = sum(nats[codes[pair]] for pair in pairwise(steps))
            laws.append(log_softmax(table.base + sums))
        worst = max(worst, float(np.abs(laws[0] - laws[1]).max()))
    assert 1 < worst <= 2 * (1 + 1e-9)


def test_a_mean_of_functions_has_the_mean_constant_at_most() -> None:
    """Theorem 25 (Norkin), of 200 functions on five points; equal functions attain it."""
    rng = np.random.default_rng(1)
    distances = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    functions, weights = rng.normal(size=(200, 5)), rng.dirichlet(np.ones(200))
    constants = dc.research.lipschitz_constants(functions, distances)
    (of_mean,) = dc.research.lipschitz_constants((weights @ functions)[None], distances)
    assert of_mean <= weights @ constants
    alike = np.repeat(functions[:1], 200, axis=0) + rng.normal(size=(200, 1))
    (of_mean,) = dc.research.lipschitz_constants((weights @ alike)[None], distances)
    assert of_mean == pytest.approx(weights @ dc.research.lipschitz_constants(alike, distances))


# ------------------------------------------------------------------------------------------------- every row has a test

OWN = "test_papers.py"
TELLS = f"{OWN}::test_explain_tells_data_sets_apart_as_by_hand"
BOUNDS = f"{OWN}::test_explain_bounds_what_noise_and_one_record_do"
PLANS = f"{OWN}::test_plans_of_all_mechanisms_near_the_sampling_error_as_epsilon_grows"
AUDITS = f"{OWN}::test_an_audit_measures_what_is_promised"
COIN = f"{OWN}::test_the_posterior_of_a_coin_is_that_of_all_counts"
CHOICE = f"{OWN}::test_a_choice_is_read_by_the_law_of_the_choice"
STATED = f"{OWN}::test_a_release_states_its_promise_and_its_largest_noise"
ROWS_OF_DRAWS = "test_privacy_mechanisms.py::test_rows_are_private_and_tight"
FLOORS = f"{OWN}::test_draws_keep_to_the_floors_that_their_epsilon_pays_for"
LIKELY = "test_likely_parameters.py::test_the_exact_delta_of_all_data_sets_is_within_the_promised"
FAMILY = "test_sampled_families.py::test_a_replaced_record_costs_what_the_continuous_family_says"
TEMPERED = "test_sampled_families.py::test_a_draw_is_from_the_tempered_posterior"
CONSTANT = "test_lipschitz.py::test_the_uniform_constant_of_the_finite_bernoulli_family"
RATE = "test_lipschitz.py::test_the_stochastic_rates_of_the_finite_bernoulli_family"
ENTRIES = "test_explain.py::test_a_changed_entry_moves_the_answer_as_brute_force_says"
SHARES = "test_explain.py::test_shares_are_those_of_rows_that_err_alone"
SHELL_EXPLAINS = "test_explain.py::test_the_command"
REGRET = "answers/test_decide.py::test_the_regret_bound_holds_for_many_queries_at_once"
BEST = "answers/test_decide.py::test_a_decision_is_the_largest_mean_payoff"
TOGETHER = "test_evidence_together.py::test_kinds_on_the_same_records"
SHELL_PRIOR = "test_prior_costs.py::test_the_command_takes_a_prior"
OTHER_PRIOR = "test_prior_costs.py::test_a_decision_by_the_first_answer_loses_the_distance_of_the_means"
PRIOR_OF_DRAWS = "test_prior_costs.py::test_an_explanation_of_draws_by_hand"
BRACKET = "test_factored_theory.py::test_bounds_bracket_random_laws"
OWN_SCORE = "test_own_factors.py::test_a_choice_by_an_own_score_is_private_and_tight"
SCORED = "test_scored.py::test_a_choice_has_the_law_of_its_exponents"
STAGES = "test_privacy_mechanisms.py::test_two_stages_are_private_and_tight"
DIRECTION = "answers/test_principal_direction.py::test_the_direction_is_found"

TESTS: dict[str, tuple[str, ...]] = {
    "Z Definition 1": (STATED,),
    "Z Example 1": ("test_dirichlet.py::test_counts_add_up",),
    "Z Algorithm 1": (f"{OWN}::test_noisy_counts_are_whole_and_are_not_cut", STATED),
    "Z Lemma 1": ("test_sensitivity.py::test_the_sensitivity_is_reached",),
    "Z Corollary 1": (AUDITS,),
    "Z Proposition 1": (STATED, TELLS, "test_adversary.py::test_integer_noise_keeps_it"),
    "Z Theorem 1": (BOUNDS, "test_explain.py::test_the_divergence_limit_is_exceeded_less_often_than_it_says"),
    "Z Equation (1), Theorem 2": ("test_privacy_mechanisms.py::test_fourier_noise_is_private_and_tight",),
    "Z Algorithm 2": (
        "test_privacy_mechanisms.py::test_fourier_noise_is_private_and_tight",
        f"{OWN}::test_contrasts_have_the_noise_of_their_sensitivity",
    ),
    "Z Corollary 2": (PLANS, "test_contrasts.py::test_sensitivities_of_zhang_et_al"),
    "Z Corollary 3": (
        "test_mechanisms.py::test_stealth_makes_empty_tables_non_negative_as_often_as_it_says",
        "test_bounds.py::test_corollary_three_holds_from_one_half_on",
    ),
    "Z Remark 1": (PLANS, "test_contrasts.py::test_a_denser_graph_does_not_help"),
    "Z Theorem 3": ("test_bounds.py::test_theorem_three_on_naive_bayes_with_sixteen_features",),
    "Z Assumptions 1, 2": (CONSTANT, RATE),
    "Z Lemma 2": (ROWS_OF_DRAWS, "test_lipschitz.py::test_the_losses_are_the_ranges_that_enumeration_finds"),
    "Z Lemma 3": ("test_lipschitz.py::test_the_rate_of_a_network_follows_from_a_union",),
    "Z Theorem 4 (1)": (ROWS_OF_DRAWS,),
    "Z Theorem 4 (2)": ("test_bounds.py::test_an_untrimmed_posterior_under_a_concentrated_prior_is_close",),
    "Z Trimmed sampler (Figure 1)": (ROWS_OF_DRAWS, FLOORS),
    "Z Algorithm 3, Corollary 4": ("test_privacy_mechanisms.py::test_choices_are_private_and_tight", SCORED),
    "Z Lemma 4": (
        "test_prior_costs.py::test_a_choice_is_as_near_the_best_as_is_said",
        "test_bounds.py::test_the_map_bound_needs_its_lost_factor",
    ),
    "Z Table 1": (PLANS,),
    "Z Figure 2, linear regression": (
        "answers/test_released_weights.py::test_intervals_begin_with_one_draw_and_hold_the_truth",
        "answers/test_linear_regression.py::test_released_draws_are_read_through_their_law",
    ),
    "Z Third party's prior": (f"{OWN}::test_a_posterior_is_the_prior_of_other_records",),
    "Z Exponential families": (TEMPERED,),
    "W Setting, equation (1)": (COIN,),
    "W Equation (2), exponential mechanism": (OWN_SCORE, SCORED),
    "W Factored mechanism, any phi": (OWN_SCORE, SCORED),
    "W Equation (3)": (COIN,),
    "W Equation (3) of a choice": (
        CHOICE,
        "answers/test_choices.py::test_the_papers_coin_has_the_posterior_that_enumeration_gives",
    ),
    "W Equation (4)": (f"answers/{TOGETHER}", "test_cli_combine.py::test_the_same_data_and_different_data"),
    "W Measurements of others, quantities not measured": (
        "test_external_cells.py::test_one_noisy_cell_beside_an_exact_margin_tells_its_share",
    ),
    "W Bound (5a)": (CHOICE, BRACKET, "answers/test_choices.py::test_bounds_hold_with_a_base_measure"),
    "W Bound (5b)": (BRACKET,),
    "W Exact `p(z given theta)`": ("test_factored_theory.py::test_the_sum_over_histograms_is_that_over_all_data_sets",),
    "W Section 3.1.1": (
        "test_factored_theory.py::test_the_factor_is_the_clamped_log_probability",
        "test_factored_theory.py::test_directions_are_scored_by_their_clipped_density",
    ),
    "W Figure 2a": ("test_factored_theory.py::test_errors_of_the_bounds_are_those_of_figure_2a",),
    "W Section 4.1, heuristic": ("test_design_privacy.py::test_a_released_gradient_has_the_noise_that_it_states",),
    "W Section 4.1, inference": ("answers/test_logistic_regression.py::test_it_learns",),
    "W Figure 3b": (
        "answers/test_logistic_regression.py::test_public_records_sharpen_the_posterior",
        "test_combined.py::test_public_records_are_counted_as_they_are",
    ),
    "W Section 4.2, PCA": (DIRECTION,),
    "W MCMC over data sets": (COIN, f"answers/{TOGETHER}"),
    "C Equation (2)": ("test_plug_in.py::test_moments_are_those_of_the_dirichlet",),
    "C Section 2.3": (f"{OWN}::test_a_network_answers_by_elimination",),
    "C Definition 2.2": ("test_printed_claims.py::test_algorithm_1_costs_nearly_twice_when_records_are_replaced",),
    "C Lemma 2.3": (
        "test_amplification.py::test_the_bound_holds_and_is_attained_by_laplace_noise_on_a_sampled_count",
        STAGES,
    ),
    "C Definition 2.3": (f"{OWN}::test_tables_that_share_a_variable_agree_on_it",),
    "C Procedure 1": ("test_families.py::test_mechanisms_charge_for_the_measured_tables_alone",),
    "C Algorithm 1": (STAGES, f"{OWN}::test_two_stages_share_one_epsilon"),
    "C Theorem 3.1": (AUDITS,),
    "C Stage I sampling": (
        "test_mechanisms.py::test_the_first_stage_sees_a_sample_of_the_records",
        "test_amplification.py::test_sampling_makes_relative_noise_worse",
    ),
    "C Equations (5), (6), (12)": ("test_explain.py::test_the_expected_divergence_is_that_of_simulated_releases",),
    "C Equation (7)": (ENTRIES, SHELL_EXPLAINS),
    "C Equation (8)": (ENTRIES, SHELL_EXPLAINS),
    "C Section 3.3, blanket": ("answers/test_answers.py::test_requisite_tables_are_those_that_matter", BOUNDS),
    "C Equations (9)-(11), (13)": (
        "test_mechanisms.py::test_shares_minimise_what_they_say",
        "test_planned.py::test_a_workload_moves_the_budget_to_what_it_asks",
    ),
    "C Theorem 4.1": (SHARES, "test_bounds.py::test_the_printed_lower_bound_of_a_step_is_false"),
    "C Theorem 4.2": (SHARES, SHELL_EXPLAINS, "test_bounds.py::test_the_deviation_is_that_of_simulated_errors"),
    "C Table 1, Table 2, Figure 2": (PLANS,),
    "D Definition 1": ("test_guarantee.py::test_composition_adds_epsilons_and_deltas",),
    "D Definition 2": (
        "test_distances.py::test_definition_2_holds_with_its_delta_at_every_distance",
        "test_distances.py::test_audits_under_a_metric_with_a_delta_hold_and_find_more_rate",
        "test_metric.py::test_an_explanation_tells_what_units_change_by_hand",
        "test_metric.py::test_a_unit_moves_the_law_of_a_draw_by_no_more_than_it_says",
    ),
    "D Remark 3": ("test_guarantee.py::test_add_remove_becomes_replace_and_delta_is_rounded_up",),
    "D Theorem 4": (
        "test_guarantee.py::test_composition_adds_epsilons_and_deltas",
        "test_ledger.py::test_charges_add_up_exactly_and_the_limit_can_be_reached",
    ),
    "D Example 1, Figure 1": (CONSTANT, LIKELY),
    "D Example 2": (FAMILY,),
    "D Assumption 1": ("test_smooth_scores.py::test_a_unit_costs_twice_the_constant", CONSTANT, LIKELY),
    "D Assumption 2": (LIKELY,),
    "D Lemma 5": ("test_lipschitz.py::test_constants_see_every_pair_and_impossible_outcomes",),
    "D Theorem 6": ("test_lipschitz.py::test_the_necessary_condition_is_necessary",),
    "D Theorem 7.1": (
        "test_explain.py::test_draws_of_a_family_move_by_no_more_than_enumeration_says",
        "test_explain.py::test_draws_of_a_posterior_tell_less_than_their_epsilon",
        SHELL_EXPLAINS,
    ),
    "D Theorem 7.2, equation (14)": (
        "test_adversary.py::test_one_record_moves_a_posterior_by_no_more_and_nearly_so_much",
        BOUNDS,
    ),
    "D Theorem 8.1, Corollary 10": (ROWS_OF_DRAWS,),
    "D Theorem 8.2": ("test_privacy_mechanisms.py::test_untrimmed_draws_are_private", LIKELY),
    "D Corollary 9": ("test_bounds.py::test_corollary_nine_as_corrected_holds", LIKELY),
    "D Algorithm 1 (BAPS)": (
        "test_mechanisms.py::test_draws_follow_the_tempered_trimmed_posterior",
        "answers/test_released_weights.py::test_one_weight_has_the_posterior_of_numeric_integration",
        TEMPERED,
    ),
    "D Algorithm 2 (PSAQR)": (
        BEST,
        "answers/test_decide_number.py::test_no_response_has_less_loss_under_the_draws",
        "answers/test_decide_vector.py::test_no_vector_has_less_loss_under_the_draws",
        "answers/test_decide_vector.py::test_the_command_names_a_vector",
    ),
    "D Protocol B, A": (
        "answers/test_decide_number.py::test_a_responder_draws_anew_and_keeps_its_failure_over_any_sequence",
    ),
    "D Lemma 11": (
        REGRET,
        "answers/test_decide_vector.py::test_the_bound_holds_and_is_close_for_vectors_far_apart",
        "test_bounds.py::test_draws_and_their_error_are_inverse",
    ),
    "D Lemma 12": ("test_bounds.py::test_the_empirical_error_on_two_cells_is_exact_enough",),
    "D Theorem 13": (TELLS, "test_bounds.py::test_distinguishing_needs_a_distance"),
    "D Lemma 14": (OTHER_PRIOR, SHELL_PRIOR),
    "D Lemma 15": (PRIOR_OF_DRAWS, "test_prior_costs.py::test_the_range_of_two_priors_is_exact", SHELL_PRIOR),
    "D Corollary 16": (
        PRIOR_OF_DRAWS,
        "test_prior_costs.py::test_laws_of_trimmed_draws_are_as_near_as_is_said",
        SHELL_PRIOR,
        REGRET,
    ),
    "D Theorem 17(a), Claim 1": (REGRET,),
    "D Theorem 17(b)": (
        PRIOR_OF_DRAWS,
        "test_prior_costs.py::test_trimming_loses_the_priors_mass_on_average",
        "test_bounds.py::test_the_loss_of_trimming_is_bounded_by_the_posterior_mass",
    ),
    "D Lemma 18 (Le Cam)": (
        TELLS,
        "test_prior_costs.py::test_who_guesses_from_one_noisy_bit_errs_as_much_as_is_said",
    ),
    "D Lemma 19": (FAMILY,),
    "D Lemma 20": (FAMILY,),
    "D Lemma 21": ("test_sampled_families.py::test_two_states_cost_what_trimming_says", TEMPERED),
    "D Lemma 22": (FAMILY,),
    "D Lemma 23": (
        "test_distances.py::test_lemma_23_and_24_by_hand",
        "test_distances.py::test_a_draw_of_several_numbers_costs_what_it_says",
    ),
    "D Lemma 24": (
        "test_distances.py::test_lemma_24_holds_with_the_range_of_each_node",
        "test_distances.py::test_rows_and_tables_cost_what_they_say_for_each_unit",
    ),
    "D Lemma 24, Markov chain": (f"{OWN}::test_a_time_step_of_a_chain_is_two_replaced_records",),
    "D Section 6": ("test_mechanisms.py::test_draws_follow_the_tempered_trimmed_posterior", ROWS_OF_DRAWS),
    "D Theorem 25 (Norkin)": (f"{OWN}::test_a_mean_of_functions_has_the_mean_constant_at_most",),
    "Beyond Neyman-Pearson region of (epsilon, delta)": (
        TELLS,
        "test_adversary.py::test_no_test_of_it_is_below_the_curve_and_the_best_is_on_it",
    ),
    "Beyond Log-concave errors": ("test_adversary.py::test_the_error_that_log_concave_laws_keep", BOUNDS),
    "Beyond One record, untrimmed rows": (
        "test_adversary.py::test_one_record_moves_a_posterior_by_no_more_and_nearly_so_much",
        BOUNDS,
    ),
    "Beyond Laskey; Castillo, Gutierrez and Hadi": (ENTRIES, SHELL_EXPLAINS),
}
"""Tests of each row, by the paper and the item."""


def rows_by_key() -> Iterator[tuple[str, str]]:
    """The key of each row of the page, and its last column."""
    for section in ITEMS.split("\n## ")[1:]:
        for item, *_, cell in rows(section):
            yield f"{section.split()[0]} {item}", cell


@cache
def text_of(path: str) -> str:
    return (HERE / path).read_text()


def not_run(cell: str, texts: list[str]) -> list[str]:
    """Calls and commands, with their options, of a last column that are in none of some texts of tests."""
    text = "\n".join(texts)
    names = [dotted.rpartition(".")[2] for dotted, _ in CALL.findall(cell)]
    missing = [name for name in names if not re.search(rf"\b{name}[(.]", text)]
    for name, rest in COMMAND.findall(cell):
        wanted = [rf"[\"'`]{name} ", *(re.escape(option) for option in re.findall(r"--[\w-]+", rest))]
        missing += [f"discreet {name}{rest}"] * (not all(re.search(pattern, text) for pattern in wanted))
    return missing


def test_every_row_of_the_page_is_run_by_a_test() -> None:
    page = dict(rows_by_key())
    assert page.keys() == TESTS.keys()
    unknown, missing = [], {}
    for key, cell in page.items():
        texts = []
        for test in TESTS[key]:
            path, _, name = test.partition("::")
            unknown += [f"{key}: {test}"] * (not re.search(rf"^def {name}\(", text_of(path), re.MULTILINE))
            # A test of this file makes the call itself; one of another file may make it in a function of that file.
            texts.append(inspect.getsource(globals()[name]) if path == OWN else text_of(path))
        missing |= {key: calls} if (calls := not_run(cell, texts)) else {}
    assert unknown == [] and missing == {}


def test_a_row_that_is_not_run_is_found() -> None:
    assert not_run("`dc.research.scored`; `discreet explain --prior`", ["scored(x)", 'run("explain r --prior")']) == []
    assert not_run("`dc.research.scored`; `discreet explain`", ["is_scored(x)", "we explain that"]) == [
        "scored",
        "discreet explain",
    ]
