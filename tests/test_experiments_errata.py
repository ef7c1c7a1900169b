"""The errata page measures what it says, by hand, enumeration or quadrature, and its verdict follows the numbers."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from experiments import errata
from experiments.claims.claim import Claim, Outcome, difference, measured, number, ratio
from experiments.claims.noise import binary, chain, clipped_laplace, complete, mean_kl, naive_bayes, variance_ratio
from experiments.claims.privacy import constants_of_theorem_4_2, delta_of_theorem_4_2
from experiments.claims.sensitivity import largest_move, largest_table_move
from experiments.claims.steps import coin_peak, coin_worst_errors
from experiments.errata import CLAIMS, GROUPS, measure, outcomes, plan, present
from experiments.harness import Task
from experiments.networks import asia
from experiments.pages import Estimate
from experiments.printed import CoinChoice, first_stage_loss, row_ratio, sampler_loss, two_stage_loss
from scipy.integrate import quad
from scipy.special import betainc, betaincinv
from scipy.stats import binom

import discreet as dc
from discreet.theory.bounds import dirichlet_kl
from discreet.theory.contrasts import coefficients, sensitivity
from discreet.theory.distance import least_distinguishable
from discreet.theory.lipschitz import log_range
from tiny import all_records, counts_of

# ------------------------------------------------------------------------------------------ exact losses


def test_the_loss_of_a_choice_is_its_largest_log_ratio() -> None:
    choice = CoinChoice("map_estimate", np.array([0.2, 0.7]), lambda zeros, ones: np.log([1.0 + zeros, 2.0 + ones]), 1)
    # (3, 2) / 5 against (1, 4) / 5.
    assert choice.loss((2, 0), (0, 2)) == pytest.approx(math.log(3))


@pytest.mark.parametrize(
    ("one", "other"), [((5, 2), (4, 3)), ((50, 0), (49, 1)), ((3, 1), (3, 0)), ((0.7, 0.0), (0.2, 0.5))]
)
def test_a_trimmed_row_is_that_of_its_densities(one: tuple[float, float], other: tuple[float, float]) -> None:
    floor = 0.1

    def density(counts: tuple[float, float], theta: float) -> float:
        mass = quad(lambda t: (1 - t) ** counts[0] * t ** counts[1], floor, 1 - floor, epsabs=0)[0]
        return float((1 - theta) ** counts[0] * theta ** counts[1] / mass)

    gaps = [math.log(density(one, t) / density(other, t)) for t in np.linspace(floor, 1 - floor, 41)]
    assert row_ratio(floor, one, other) == pytest.approx((max(gaps), min(gaps)), rel=1e-7)


def test_rows_add_up_and_tend_to_the_range() -> None:
    single = sampler_loss(0.1, [((100, 0), (99, 1))])
    assert sampler_loss(0.1, [((100, 0), (99, 1))] * 5) == pytest.approx(5 * single)
    # Rows that lean to different sides do not add up: either side is the loss of one of them.
    assert sampler_loss(0.1, [((100, 0), (99, 1)), ((99, 1), (100, 0))]) < 2 * single
    assert 0.9999 < sampler_loss(0.1, [((10**6, 0), (10**6 - 1, 1))]) / (2 * log_range(2, 0.1)) < 1


def test_two_stages_cost_epsilon_where_a_record_is_added() -> None:
    for epsilon in (0.5, 1.0, 3.0):
        assert first_stage_loss((0, 3), (0, 4), epsilon) == pytest.approx(epsilon)
        assert two_stage_loss((2, 0), (3, 0), epsilon) == pytest.approx(epsilon)
    assert two_stage_loss((1, 1), (1, 1), 1.0) == 0


# ------------------------------------------------------------------------------------------ sensitivities and variances

SMALL = {
    "naive Bayes": naive_bayes(2),
    "chain": chain(3),
    "complete": complete(3),
    "apart": binary({"a": (), "b": (), "c": ("a",)}),
}


@pytest.mark.parametrize("network", SMALL.values(), ids=SMALL)
def test_moves_are_those_of_counted_records(network: dc.Network) -> None:
    counted = [counts_of(network, [record]).tables for record in all_records(network)]
    moves = [
        (
            sum(np.abs(one[node] - other[node]).sum() for node in network.nodes),
            sum(
                np.abs(h - g).sum()
                for h, g in zip(coefficients(one).values(), coefficients(other).values(), strict=True)
            ),
        )
        for one in counted
        for other in counted
    ]
    tables, coefficients_ = np.max(moves, axis=0)
    assert largest_table_move(network, network.nodes) == tables == 2 * len(network.nodes)
    assert largest_move(network) == coefficients_


@pytest.mark.parametrize("network", [naive_bayes(8), chain(6), complete(6), asia().network])
def test_moves_are_those_of_the_package(network: dc.Network) -> None:
    assert largest_move(network) == sensitivity(network, dc.Relation.REPLACE).l1


@pytest.mark.parametrize(("network", "node"), [(naive_bayes(8), "x3"), (complete(5), "x4"), (asia().network, "dysp")])
def test_a_cell_has_the_variance_of_its_coefficients(network: dc.Network, node: str) -> None:
    """A cell is a signed sum of 2^a coefficients over 2^a; counts have twice the number of nodes for their scale."""
    members = len(network.family(node))
    assert variance_ratio(network, node, 7.0) == pytest.approx(7.0**2 / 2**members / (2 * len(network.nodes)) ** 2)


# ------------------------------------------------------------------------------------------ noise


@pytest.mark.parametrize(("mean", "scale", "most"), [(50, 2.0, 50), (500, 2e4, 1000), (3, 4.0, math.inf)])
def test_the_clipped_law_has_its_atoms_and_its_mean(mean: float, scale: float, most: float) -> None:
    points, masses = clipped_laplace(mean, scale, most)
    assert masses.sum() == pytest.approx(1)
    assert masses[0] == pytest.approx(math.exp(-mean / scale) / 2)
    below = scale / 2 * math.exp(-mean / scale)
    above = scale / 2 * math.exp(-(most - mean) / scale)
    assert points @ masses == pytest.approx(mean + below - above, rel=1e-3)


def test_the_expected_divergence_by_another_quadrature() -> None:
    points, weights = np.polynomial.laguerre.laggauss(40)
    noise, halves = 2 * np.concatenate([-points, points]), np.concatenate([weights, weights]) / 2
    noisy = 501 + np.stack(np.meshgrid(noise, noise), axis=-1)
    expected = halves @ dirichlet_kl(np.full_like(noisy, 501.0), noisy) @ halves
    assert mean_kl(1000, 500, 1.0) == pytest.approx(expected, rel=2e-3)


def repeated(key: str, repeats: int = 100) -> np.ndarray:
    """Simulations of a claim with seeds of this file, shape (repeats, 2)."""
    return np.array([CLAIMS[key].measure(np.random.default_rng([71, number])) for number in range(repeats)])


def test_clipping_raises_the_expected_divergence_as_by_quadrature() -> None:
    """Six standard errors: a chance of 2e-9 if means of 100 repeats of 2,000 draws were normal."""
    (key,) = (key for key in CLAIMS if "cut at 0 only" in key)
    found = repeated(key)[:, 1]
    assert abs(found.mean() - mean_kl(50, 50, 1.0)) < 6 * found.std() / 10


def exact_coverage(theta: float | None) -> float:
    """Of 90 % intervals after clipping, by a sum over all counts and noises; theta None for uniform."""
    n, q = 50, math.exp(-0.5)
    ones, total = np.arange(n + 1), 0.0
    for noisy in range(-80, n + 81):
        chance = (1 - q) / (1 + q) * q ** np.abs(noisy - ones)
        kept = min(max(noisy, 0), n)
        low, high = (betaincinv(1 + kept, 1 + n - kept, level) for level in (0.05, 0.95))
        if theta is None:
            inside = betainc(1 + ones, 1 + n - ones, high) - betainc(1 + ones, 1 + n - ones, low)
            total += float(chance @ inside) / (n + 1)
        else:
            total += float(chance @ binom.pmf(ones, n, theta)) * (low <= theta <= high)
    return total


@pytest.mark.parametrize(("theta", "text"), [(None, "theta uniform"), (0.5, "theta = 1/2")])
def test_coverage_of_clipped_counts_is_its_sum(theta: float | None, text: str) -> None:
    """Six standard errors of 200,000 draws: a chance of 2e-9."""
    (key,) = (key for key in CLAIMS if text in key and "noise kept" not in key)
    exact = exact_coverage(theta)
    assert abs(repeated(key)[:, 1].mean() - exact) < 6 * math.sqrt(exact * (1 - exact) / 200_000)
    assert exact < 0.8


def test_intervals_that_know_of_the_noise_cover() -> None:
    """Six standard errors of 40,000 draws."""
    found = repeated("Z Algorithm 1, noise kept: n = 50, theta uniform, noise of scale 2 on the ones; coverage of 90 % "
                     "intervals", 20)  # fmt: skip
    assert abs(found[:, 1].mean() - 0.9) < 6 * math.sqrt(0.09 / 40_000)


# ------------------------------------------------------------------------------------------ constants


def test_the_withdrawn_theorem_at_its_limit() -> None:
    """C = 1, L0 = 0, c without bound: M = ln(1 + 1 / (1 - exp(-w))), 0.66 and not less."""
    omega, kappa = constants_of_theorem_4_2()
    assert math.exp(omega) == pytest.approx(1 + 2 * omega)
    assert kappa == pytest.approx(4.91081, abs=5e-6)
    limit = math.sqrt(math.log(1 + 1 / (1 - math.exp(-omega))) / 2)
    assert delta_of_theorem_4_2(1.0, 0.0, 1e9) == pytest.approx(limit, abs=1e-6)
    assert limit == pytest.approx(0.661, abs=5e-4)
    rng = np.random.default_rng(3)
    for _ in range(20):
        constants = 1 + rng.exponential(), rng.exponential(), 1 + rng.exponential()
        assert delta_of_theorem_4_2(*constants) > limit


def test_the_coin_is_a_sum_over_counts() -> None:
    """Its peak from the definition, up to factors in steps of 2^-20; errors of the bounds as found elsewhere."""
    n, epsilon, candidates = 100, 0.5, np.arange(1, 10) / 10
    scores = [1 - np.log(np.maximum(law, 0.1)) / math.log(0.1) for law in (1 - candidates, candidates)]
    ones = np.arange(n + 1)[:, None]
    weights = np.exp(epsilon * ((n - ones) * scores[0] + ones * scores[1]))
    chosen = (weights / weights.sum(axis=1, keepdims=True))[:, 6]
    curve = [float(binom.pmf(ones[:, 0], n, theta) @ chosen) for theta in np.linspace(0.005, 0.995, 199)]
    exact, lower, upper = coin_peak(epsilon, n)
    assert exact == pytest.approx(max(curve), rel=1e-4)
    assert lower < exact < upper
    below, above = coin_worst_errors(0.1, 100)
    assert (below, above) == (pytest.approx(-0.0104, abs=5e-5), pytest.approx(0.00326, abs=5e-6))


def test_the_threshold_of_theorem_13_is_as_the_page_says() -> None:
    assert least_distinguishable(5.0, 100, 0.06) == pytest.approx(0.0042, abs=5e-5)
    assert any("0.0042" in claim.case for claim in CLAIMS.values() if claim.item == "D Theorem 13")


# ------------------------------------------------------------------------------------------ outcomes


def claim_of(kind: str, *references: object) -> Claim:
    return Claim("item", "printed", "case", kind, lambda: (1.0, 2.0), references)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "refuted"),
    [
        ("at most", (False, False, True)),
        ("at least", (True, False, False)),
        ("equal", (True, False, True)),
        ("above", (True, True, False)),
    ],
)
def test_a_claim_is_refuted_by_what_contradicts_it(kind: str, refuted: tuple[bool, ...]) -> None:
    found = [Outcome.of(claim_of(kind), np.array([[1.0, value]])).refuted for value in (0.5, 1.0, 2.0)]
    assert tuple(found) == refuted


def test_chance_alone_refutes_nothing() -> None:
    """The gap is 0.1 with a standard error of 0.05 or of 0.01."""
    for spread, refuted in ((0.05, False), (0.01, True)):
        gaps = 0.1 + spread * np.sqrt(3) * np.array([-1, -1, 1, 1])
        outcome = Outcome.of(claim_of("at most"), np.column_stack([np.ones(4), 1 + gaps]))
        assert outcome.measured.error == pytest.approx(spread)
        assert outcome.claimed.error == 0
        assert outcome.refuted is refuted


def test_references_are_compared_to_their_digits() -> None:
    references = measured(2.0, 0.05), ratio(2.1, 0.05), difference(1.0, 0.0)
    claim = claim_of("at most", *references)
    outcome = Outcome.of(claim, np.array([[1.0, 2.04]]))
    assert [check.holds for check in outcome.checks(claim)] == [True, False, False]
    assert number(Estimate(5e-214)) == "5e-214"
    assert number(Estimate(0.48123456, 0.0012)) == "0.48123 ± 0.001"


# ------------------------------------------------------------------------------------------ the page


def rows_of(key: str, repeats: int) -> list[dict[str, object]]:
    tasks = [Task("errata", {"claim": key}, 1, number) for number in range(max(repeats, 1))]
    return [{"claim": key, "repeat": task.repeat, **row} for task in tasks for row in measure(task)]


@cache
def everything() -> pd.DataFrame:
    """A quick run of one seed set."""
    return pd.DataFrame([row for setting, repeats in plan(True) for row in rows_of(setting["claim"], repeats)])


def test_every_claim_has_a_name_of_its_own() -> None:
    assert len(CLAIMS) == sum(len(group.claims) for group in GROUPS)
    assert not any("|" in text for claim in CLAIMS.values() for text in (claim.item, claim.printed, claim.case))


def test_tasks_give_what_is_claimed_and_what_is_measured() -> None:
    exact, simulated = (
        next(key for key, claim in CLAIMS.items() if claim.random == random) for random in (False, True)
    )
    first, again = rows_of(simulated, 2), rows_of(simulated, 2)
    assert first == again
    assert first[1]["value"] != first[3]["value"]
    assert [row["metric"] for row in rows_of(exact, 1)] == ["claimed", "measured"]


def test_all_claims_fail_or_stand_as_the_page_expects() -> None:
    page = present(everything())
    assert [check.what for check in page.checks if not check.holds] == []
    assert page.verdict.startswith("Not reproduced")
    assert len(page.tables) == len(GROUPS)
    assert sum(table.count("\n") - 2 for _, table in page.tables) == len(CLAIMS)


def test_the_page_follows_the_numbers() -> None:
    """A guarantee that is kept, and a correct claim that is not."""
    frame = everything().copy()
    kept, broken = errata.BROKEN.claims[3].key, errata.CORRECT.claims[1].key
    for key, value in ((kept, 4.0), (broken, 0.06)):
        frame.loc[(frame["claim"] == key) & (frame["metric"] == "measured"), "value"] = value
    page, before = present(frame), present(everything())
    failed = {check.what for check in page.checks if not check.holds}
    assert {"Privacy broken", "Correct as printed"} <= failed
    assert len(failed) == 3, "and the reference of the first"
    assert "7 of 7" in before.verdict and "6 of 7" in page.verdict
    assert page.tables[0][1].count("**not refuted**") == 1
    assert outcomes(frame)[broken].refuted
