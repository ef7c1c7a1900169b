"""What the Dimitrakakis experiments calculate, against integrals, enumeration and hand, and pages that react."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import beta as beta_function

import discreet as dc
from discreet.deciding.draw_bounds import response_error
from discreet.research.scores.likelihood_sensitivity import record_loss
from experiments import conjugate_constants as conjugate
from experiments import dimitrakakis_distinguishability as telling
from experiments import dimitrakakis_examples as examples
from experiments import dimitrakakis_figure_1 as figure_1
from experiments import dimitrakakis_regret as regret
from experiments import games
from experiments import shipped_families as shipped
from experiments.harness import Experiment, Task
from experiments.networks import asia
from experiments.pages import Page
from experiments.trimmed_laws import ExponentialRate, LaplaceRate, NormalPrecision, NormalPrecisionMatrix, TrimmedGamma
from folding import every

REPLACE, ADD_REMOVE = dc.Relation.REPLACE, dc.Relation.ADD_REMOVE
RATES: list[conjugate.Rates] = [
    ExponentialRate(TrimmedGamma(1, 0.7, 0.5, 2.5), 1.5),
    LaplaceRate(TrimmedGamma(1, 0.7, 0.5, 2.5), 0.4, 1.5),
    NormalPrecision(TrimmedGamma(1, 0.7, 0.5, 2.5), 0.3, 1.5),
]


def rows_of(experiment: Experiment, name: str, settings: Iterable[tuple[dict, int]]) -> pd.DataFrame:
    """A tidy table of the first seed set, as the harness makes it."""
    tasks = [Task(name, setting, 1 if repeats else 0, r) for setting, repeats in settings for r in range(repeats or 1)]
    rows = [
        {**task.setting, "seeds": task.seeds, "repeat": task.repeat, **row}
        for task in tasks
        for row in experiment.measure(task)
    ]
    return pd.DataFrame(rows)


def changed(frame: pd.DataFrame, value: float, **where: object) -> pd.DataFrame:
    """The table with other values in some rows, of which there must be one."""
    rows = np.all([frame[column] == wanted for column, wanted in where.items()], axis=0)
    assert rows.any()
    return frame.assign(value=frame["value"].where(~rows, value))


def failed(page: Page) -> list[str]:
    """Checks that do not hold."""
    return [check.what for check in page.checks if not check.holds]


# ------------------------------------------------------------------------------------------ Figure 1


@every("step", figure_1.STEPS)
def test_constants_of_the_finite_family(step: float) -> None:
    theta = [step * k for k in range(1, round(1 / step))]
    by_hand = [abs(math.log(t) - math.log(1 - t)) for t in theta]
    assert figure_1.family_constants(step).tolist() == pytest.approx(by_hand, abs=1e-12)
    whole = figure_1.family_constants(step, with_one=True)
    assert whole[:-1].tolist() == pytest.approx(by_hand, abs=1e-12) and whole[-1] == math.inf


@every("prior", figure_1.PRIORS)
@every("step", figure_1.STEPS)
def test_the_best_rate_by_bisection(step: float, prior: str) -> None:
    found = figure_1.measured_family(step, prior)
    constants = figure_1.family_constants(step)
    weights = [1.0 if prior == "uniform" else math.exp(-l) for l in constants]

    def holds(rate: float) -> bool:
        """Just below every step: the mass of smaller constants against the bound."""
        mass = [sum(w for w, other in zip(weights, constants, strict=True) if other < l - 1e-9) for l in constants]
        bound = [1 - math.exp(-rate * (l - found["L0"])) for l in constants]
        return all(m / sum(weights) >= b - 1e-12 for m, b in zip(mass, bound, strict=True))

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    assert found["c"] == pytest.approx(low, rel=1e-9)
    assert found["slack"] == pytest.approx(0, abs=1e-9) and found["slack above"] < -1e-4
    assert found["c printed"] == 0


def test_the_page_of_figure_1_reacts() -> None:
    frame = rows_of(figure_1.EXPERIMENT, "dimitrakakis_figure_1", figure_1.plan(True))
    page = figure_1.present(frame)
    assert (
        not failed(page)
        and page.verdict.startswith("Reproduced in part: ")
        and "1.386 and 2.944, as far as" in page.verdict
    )
    steps = frame[(frame["metric"] == "mass") & (frame["prior"] == "uniform") & (frame["step"] == 0.2)]
    assert steps["value"].tolist() == pytest.approx([0.5, 1.0])
    assert failed(figure_1.present(changed(frame, 0.0, metric="prior refused"))) == [
        f"the prior Delta without theta = 1, Delta {step:g}: refused by the package as no distribution (1: it is)"
        for step in figure_1.STEPS
    ]
    printed = changed(frame, 1.386, metric="L printed", step=0.2)
    assert failed(figure_1.present(printed)) == ["L less the printed one, Delta 0.2"]
    twice = changed(frame, 5.545, metric="replace charged", step=0.2, prior="uniform")
    assert failed(figure_1.present(twice)) == ["dc.research.sampled, replace, charged, prior uniform, Delta 0.2"]
    worse = figure_1.present(changed(frame, 0.2, metric="c", prior="exp(-l)"))
    assert worse.verdict.startswith("Not reproduced")
    assert failed(worse) == ["best c, prior exp(-l), Delta 0.2", "best c, prior exp(-l), Delta 0.05"]


# ------------------------------------------------------------------------------------------ examples


def density(family: conjugate.Rates, data: list[float]):
    """The posterior's density, by numerical normalisation of prior times likelihood."""

    def kernel(theta: float) -> float:
        value = math.exp(-family.prior.rate * theta)
        for x in data:
            match family:
                case ExponentialRate():
                    value *= stats.expon.pdf(x, scale=1 / theta)
                case LaplaceRate(location=location):
                    value *= stats.laplace.pdf(x, location, 1 / theta)
                case NormalPrecision(mean=mean):
                    value *= stats.norm.pdf(x, mean, theta**-0.5)
        return value

    whole = integrate.quad(kernel, family.prior.low, family.prior.high)[0]
    return lambda theta: kernel(theta) / whole


@pytest.mark.costly("Wrong closed forms of losses and variations are found by integrating densities on a grid.")
@every("family", RATES)
def test_losses_and_variations_of_rates_are_integrals(family: conjugate.Rates) -> None:
    ends = [0.0, 0.75, 1.5] if isinstance(family, ExponentialRate) else [-1.5, 0.0, 1.5, RATES_CENTRES[type(family)]]
    law, losses, variations = family.prior, [], []
    for x, y in product(ends, ends):
        p, q = density(family, [x]), density(family, [y])
        losses.append(max(abs(math.log(p(end) / q(end))) for end in (law.low, law.high)))
        grid = np.linspace(law.low, law.high, 401)
        gaps = [abs(p(theta) - q(theta)) for theta in grid]
        variations.append(integrate.trapezoid(gaps, grid) / 2)
    assert conjugate.rate_loss(family, 1) == pytest.approx(max(losses), rel=1e-6)
    assert conjugate.rate_variation(family, 1) == pytest.approx(max(variations), rel=1e-3)
    assert conjugate.rate_loss(family, 500) <= family.record_loss(REPLACE)


RATES_CENTRES = {LaplaceRate: 0.4, NormalPrecision: 0.3}


@every("family", RATES)
def test_the_largest_ratio_of_likelihoods_is_an_integral(family: conjugate.Rates) -> None:
    found, law, worst = conjugate.rate_largest_ratio(family), family.prior, 0.0
    prior = density(family, [])
    for x in np.linspace(0.0 if isinstance(family, ExponentialRate) else -1.5, 1.5, 31):
        posterior = density(family, [float(x)])
        # The posterior over the prior is the likelihood over the marginal likelihood.
        worst = max(worst, *(posterior(theta) / prior(theta) for theta in np.linspace(law.low, law.high, 201)))
    assert worst == pytest.approx(found, rel=1e-3)
    assert found <= conjugate.corrected_ratio(family)


def test_printed_constants_by_hand() -> None:
    narrow, wide = conjugate.FAMILIES[conjugate.NARROW], conjugate.FAMILIES[conjugate.UNIFORM]
    constants = conjugate.printed(narrow)
    assert constants.ratio == pytest.approx(0.202 / (2 * math.exp(-0.1 / 0.2) / (2 * 0.2)))
    assert (constants.start, constants.rate) == (0.2, 2)
    constants = conjugate.printed(wide)
    assert constants.ratio == pytest.approx(math.exp(0.5)) and constants.rate == pytest.approx(2e-3)
    assert constants.delta(4.0) == pytest.approx(math.sqrt(math.exp(0.5) / 2 * (1 + 2 * 0.05 + 500) * 4))
    assert conjugate.corrected_ratio(wide) == pytest.approx(math.exp(12.5))
    bits = conjugate.beta_printed(2, 3)
    assert bits.ratio == pytest.approx(beta_function(2, 2) / beta_function(3, 4))
    assert (bits.start, bits.rate) == (pytest.approx(math.log(3)), pytest.approx(1 / 8 / (1 / 6)))


def test_distances_of_records() -> None:
    assert conjugate.farthest_records(RATES[0]) == pytest.approx(1.5)
    assert conjugate.farthest_records(RATES[1]) == pytest.approx(3)
    # |x^2 - y^2| + 2 |x - y| with y = -1.5 and x = 1: 2.25 - 1 + 5.
    assert conjugate.farthest_records(RATES[2]) == pytest.approx(6.25, abs=1e-3)
    assert conjugate.theorem_8_1(RATES[1]) == pytest.approx(2 * 2.5 * 3)


@every("a", [1, 2.5])
def test_ratios_and_divergences_of_bits(a: float) -> None:
    assert conjugate.beta_largest_ratio(1, 12) == pytest.approx(13)
    order, records, worst, ratio = 1.7, 4, 0.0, 0.0
    for ones in range(records):
        p, q = stats.beta(a + ones + 1, a + records - 1 - ones), stats.beta(a + ones, a + records - ones)
        for one, other in ((p, q), (q, p)):
            value = integrate.quad(lambda t, x=one, y=other: x.pdf(t) ** order * y.pdf(t) ** (1 - order), 0, 1)[0]
            worst = max(worst, math.log(value) / (order - 1))
    theta = np.linspace(0.001, 0.999, 999)
    for ones in range(records + 1):
        posterior, prior = stats.beta(a + ones, a + records - ones), stats.beta(a, a)
        ratio = max(ratio, float((posterior.pdf(theta) / prior.pdf(theta)).max()))
    assert conjugate.beta_renyi(a, records, order) == pytest.approx(worst, rel=1e-5)
    assert conjugate.beta_largest_ratio(a, records) == pytest.approx(ratio, rel=0.01)


@every("temper", [1.0, 0.4])
@every("relation", [REPLACE, ADD_REMOVE])
def test_the_loss_of_a_trimmed_bit_by_integration(relation: dc.Relation, temper: float) -> None:
    records, floor, worst = 3, 0.2, 0.0
    theta = np.linspace(floor, 1 - floor, 2001)

    def posterior(ones: int, zeros: int) -> np.ndarray:
        kernel = theta ** (temper * ones) * (1 - theta) ** (temper * zeros)
        return kernel / integrate.simpson(kernel, x=theta)

    for ones in range(records + 1):
        own = posterior(ones, records - ones)
        others = {
            REPLACE: [(ones + 1, records - ones - 1)] if ones < records else [],
            ADD_REMOVE: [(ones + 1, records - ones), (ones, records - ones + 1)],
        }[relation]
        worst = max([worst, *(float(np.abs(np.log(own / posterior(*other))).max()) for other in others)])
    assert conjugate.trimmed_bit_loss(records, floor, relation, temper=temper) == pytest.approx(worst, rel=1e-6)


def test_the_loss_of_matrices() -> None:
    family = NormalPrecisionMatrix(3.0, np.eye(2), 1.0, 4.0, np.zeros(2), 1.0)
    # One record: both normalisers agree by symmetry, and the log ratio is (A_22 - A_11) / 2.
    assert conjugate.matrix_loss(family, 1) == pytest.approx(1.5, rel=1e-9)
    losses = [conjugate.matrix_loss(family, records) for records in (1, 10, 100)]
    assert losses == sorted(losses) and losses[-1] < family.record_loss(REPLACE)


@pytest.mark.costly("Each verdict of the page must turn when its own numbers change.")
def test_the_page_of_the_examples_reacts() -> None:
    frame = rows_of(examples.EXPERIMENT, "dimitrakakis_examples", examples.plan(True))
    page = examples.present(frame)
    assert not failed(page)
    assert "claim of Lemma 24," in page.verdict and "C of Lemma 20 and Lemma 22," in page.verdict
    assert "9 of 10 printed deltas" in page.verdict
    assert page.verdict.startswith("Reproduced in part: Theorem 8.1 holds") and len(page.verdict.split()) <= 60
    enough = changed(frame, 22.0, part="losses", metric="printed", case=conjugate.NETWORK)
    assert "claim of no lemma" in examples.present(enough).verdict
    tight = changed(frame, 4.5, part="trimmed", case=examples.BIT, at=10_000, metric="loss")
    assert failed(examples.present(tight)) == ["trimmed: replace one record, loss"]
    rounded = changed(frame, 0.0675001, part="constants", case=conjugate.NARROW, metric="C printed")
    assert len(failed(examples.present(rounded))) == 1
    case = next(iter(shipped.CASES))
    for metric, value in (
        ("metric: charged", 0.06),
        ("replace: charged", 1.51),
        ("add-remove: charged", 0.88),
        ("metric: temper", 0.8),
        ("replace: half", 1.0),
    ):
        page = examples.present(changed(frame, value, part="shipped", case=case, metric=metric))
        assert len(failed(page)) == 1 and failed(page)[0].startswith(
            f"dc.research.sampled, {case}, {metric.split(':')[0]}"
        )
    halved = changed(frame, 4.394, part="shipped", metric="time step: charged")
    assert failed(examples.present(halved)) == [f"{conjugate.CHAIN}, charged"]


# ------------------------------------------------------------------------------------------ what is shipped


@every("family", RATES)
def test_the_range_of_an_added_record_by_integration(family: conjugate.Rates) -> None:
    """Under the law within the bounds: likelihood over its integral, at the ends of the records and in between."""
    low, grid = (0.0 if isinstance(family, ExponentialRate) else -1.5), np.linspace(0.5, 2.5, 101)

    def within(theta: float) -> np.ndarray:
        match family:
            case ExponentialRate():
                law = stats.expon(scale=1 / theta)
            case LaplaceRate(location=location):
                law = stats.laplace(location, 1 / theta)
            case NormalPrecision(mean=mean):
                law = stats.norm(mean, theta**-0.5)
        centre = 0.4 if isinstance(family, LaplaceRate) else None
        mass = integrate.quad(law.pdf, low, 1.5, points=centre and [centre])[0]
        return np.asarray(law.logpdf([low, 0.0, 0.3, 0.4, 1.5]) - math.log(mass))

    worst = np.ptp([within(theta) for theta in grid], axis=0).max()
    assert shipped.rates_within_bounds(family) == pytest.approx(worst, rel=1e-3)


def test_a_time_step_is_two_transitions_and_one_that_is_put_in_three() -> None:
    assert shipped.chain_losses(0.2) == pytest.approx((4 * math.log(4), 4 * math.log(4), 3 * math.log(4)), rel=1e-5)


def test_a_bit_as_a_number_has_two_readings_a_unit_apart() -> None:
    compared = shipped.bits_of(np.array([0.2, 0.5, 0.8]), np.ones(3) / 3, math.log(4))
    assert compared.table.law == pytest.approx(np.array([[0.8, 0.5, 0.2], [0.2, 0.5, 0.8]]))
    for relation, times in ((REPLACE, 2), (ADD_REMOVE, 1), (dc.Relation.METRIC, 2)):
        assert compared.band(relation)[0] == times * math.log(4)
        assert shipped.width(compared.table, relation) == pytest.approx(times * math.log(4), rel=1e-5)


def test_what_bins_allow_by_hand() -> None:
    """Four bins of 1/4, rate in [1, 3]: half a nat a bin, two bins of a replaced record, and one over eight a unit."""
    wait = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 1), 4),), {"low": 1, "high": 3}, 50)
    compared = shipped.Compared(wait, 2.0, 1.5, 0.5, 0.4, covered=0.9)
    tiny = 4 / 2**20 * wait.table.span
    assert compared.band(REPLACE) == pytest.approx((2.0, 0.9 * 1.0 - tiny, 2.0 + tiny))
    assert compared.band(ADD_REMOVE) == pytest.approx((1.5, 0.9 * 1.0 - tiny, 1.5 + tiny))
    assert compared.band(dc.Relation.METRIC) == pytest.approx((0.4, 0.4 - 0.8 / 248 - tiny, 0.45 + tiny))


# ------------------------------------------------------------------------------------------ regret


def test_probabilities_are_those_of_the_enumerated_network() -> None:
    truth = asia()
    network = truth.network
    drawn = dc.Dirichlet.uniform(network, 2.0).draw(3, rng=np.random.default_rng(1))
    found = games.probabilities(drawn)
    joint: dict[tuple[int, ...], float] = {}
    for record in product((0, 1), repeat=8):
        states = dict(zip(network.nodes, record, strict=True))
        joint[record] = math.prod(
            float(drawn[n][tuple(states[v] for v in network.family(n))][1]) for n in network.nodes
        )
    for place in range(0, len(games.QUERIES), 7):
        node, known = games.QUERIES[place]
        here = {r: p for r, p in joint.items() if known is None or r[network.nodes.index(known[0])] == known[1]}
        wanted = sum(p for r, p in here.items() if r[network.nodes.index(node)] == 0) / sum(here.values())
        assert found[place, 1] == pytest.approx(wanted)
    assert len(games.QUERIES) == 8 + 8 * 14


def test_games_by_hand() -> None:
    p = np.random.default_rng(2).random((len(games.QUERIES), 5))
    for name, (_, queries, responses) in games.GAMES.items():
        played = games.game(name, p)
        assert played.utilities.shape == (queries, responses, 5)
        assert played.utilities.min() >= 0 and played.utilities.max() <= 1
        weights = np.array([[0.2] * 5, [0, 0, 1, 0, 0]]).T
        means = played.means(weights)
        assert np.allclose(means[..., 0], played.means()) and np.allclose(means[..., 1], played.utilities[..., 2])
        lost = games.losses(played.means(), means)
        assert np.allclose(lost[:, 0], 0) and lost.min() >= 0 and lost[:, 1].max() > 0
    threshold = games.game("threshold", p)
    assert threshold.utilities[9 * 3 + 4, 0].tolist() == (p[3] > 0.5).astype(float).tolist()
    assert games.losses(np.array([[0.2, 0.9]]), np.array([[[0.6], [0.5]]])).tolist() == [[pytest.approx(0.7)]]


def test_the_package_decides_by_the_same_rule() -> None:
    network = asia().network
    counts = dc.tools.count_codes(network, dict.fromkeys(network.nodes, np.array([0, 1, 1, 0])))
    guarantee = dc.Guarantee(epsilon=10, delta=0, relation="replace", unit="record")
    rng = np.random.default_rng(3)
    release = dc.simulate(
        dc.research.posterior_sampler(draws=9), counts, dc.Dirichlet.uniform(network, 1.0), guarantee, rng=rng
    )
    posterior = dc.tools.plug_in(release, draws=9, rng=rng)
    played = games.game("state", games.probabilities(posterior.probabilities))
    states = network.schema["lung"].states
    evidence = network.schema["xray"].states[0]
    table = {named: {state: float(state == named) for state in states} for named in states}
    utility = dc.decisions.payoff(network, f"P(lung | xray={evidence})", table)
    decided = dc.decide(posterior, utility, list(states), queries=120)
    assert decided.response == states[int(played.means()[played.single].argmax())]
    assert decided.regret == pytest.approx(min(1.0, 2 * games.deviation(9, 120 * 2)))


def test_the_page_sees_what_the_package_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same losses by the rule and by `dc.decide`; and a `dc.decide` that takes the last response is noticed."""
    cells = dc.Dirichlet.uniform(asia().network, 1.0).draw(60, rng=np.random.default_rng(5))
    times = np.random.default_rng(6).multinomial(7, np.full(60, 1 / 60))
    played = games.game("state", games.probabilities(cells))
    estimated = played.means(times[:, None])[..., 0]
    found = games.by_the_package("state", played, cells, times, estimated)
    assert found["otherwise"] == 0 and found["bound"] == 1.0
    assert found["worst"] == pytest.approx(games.losses(played.means(), estimated[..., None]).max())
    numbers = games.game("value", games.probabilities(cells))
    guessed = games.by_the_package("value", numbers, cells, times, numbers.means(times[:, None])[..., 0])
    assert 0 < guessed["number worst"] < guessed["number bound"] <= 1
    decide = dc.decide

    def last(
        posterior: dc.results.NetworkPosterior, utility: Any, responses: Any, **options: Any
    ) -> dc.decisions.Decision:
        return replace(decide(posterior, utility, responses, **options), response=responses[-1])

    monkeypatch.setattr(dc, "decide", last)
    assert games.by_the_package("state", played, cells, times, estimated)["otherwise"] > 10


def test_hoeffding_and_its_unions() -> None:
    assert games.deviation(50, 1) == pytest.approx(math.sqrt(math.log(2 / 0.05) / 100))
    assert 2 * games.deviation(50, 21 * 120) == pytest.approx(response_error(50, 21, 120, 0.05))


def test_parities_by_enumeration() -> None:
    rng, seen = np.random.default_rng(4), set()
    for size in (1, 3, 5, 7):
        for _ in range(40):
            draws = rng.integers(2**5, size=size).tolist()
            wanted = any(all((s & bits).bit_count() % 2 for bits in draws) for s in range(2**5))
            assert games.has_parity(draws) == wanted
            seen.add(wanted)
    assert seen == {True, False}
    assert not games.has_parity([0]) and games.has_parity([1]) and not games.has_parity([1, 2, 3])


def settled(frame: pd.DataFrame) -> pd.DataFrame:
    """What two samples do not know, set by hand: variances, and the default's losses."""
    frame = changed(frame, 1.0, metric="variance")
    for epsilon, value in ((1, 0.0253), (10, 0.002)):
        frame = changed(frame, value, game=f"epsilon {epsilon}", scope="shipped")
    return frame


@pytest.mark.costly("Each verdict of the page must turn when its own numbers change.")
def test_the_page_of_regret_reacts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small games: whatever depends on chance in them is set by hand."""
    monkeypatch.setattr(regret, "ATOMS", 200)
    monkeypatch.setattr(regret, "RUNS", 20)
    monkeypatch.setattr(regret, "DRAWS", (1, 10, 100, 1000))
    frame = rows_of(regret.EXPERIMENT, "dimitrakakis_regret", [({"game": name}, 2) for name in regret.KINDS])
    assert frame[~frame["metric"].isin(["excess", "variance"])]["value"].between(0, 1).all()
    # Two samples of 200 atoms: 80 sets of 20 draws, whose squares vary by sqrt(2) of their mean, know it to a sixth.
    assert frame[frame["metric"] == "variance"].groupby("game")["value"].mean().between(0.4, 1.6).all()
    frame = settled(frame)
    losses = (
        frame[frame["metric"].isin(["mean", "quantile"])].groupby(["game", "scope", "metric", "draws"])["value"].mean()
    )
    assert losses["value", "worst query", "mean", 1] > losses["value", "worst query", "mean", 1000]
    assert losses["value", "worst query", "mean", 10] > losses["value", "one query", "mean", 10]
    seen = changed(frame, 0.01, game="threshold", scope="one mean", metric="beyond")
    certain = changed(seen, 0.09, game="threshold", scope="all means", draws=100)
    page = regret.present(certain)
    assert not failed(page) and "it is false: of sets of 100 draws 9.0%" in page.verdict
    assert page.verdict.startswith("Reproduced in part: ") and len(page.verdict.split()) <= 60
    caption = page.pictures[1].caption
    assert "value, all means and state, all means lie on 0" in caption and "threshold, all means" not in caption
    never = regret.present(changed(changed(certain, 0.0, scope="all means"), 0.0, metric="fooled"))
    assert "it holds, too" in never.verdict and len(failed(never)) == 2
    odd = changed(certain, 0.5, game="state", metric="variance")
    assert failed(regret.present(odd)) == ["variance of one mean times N over a draw's, state game"]
    other = changed(certain, 1.0, game="state", metric="otherwise")
    (what,) = failed(regret.present(other))
    assert "are not the best" in what
    loose = changed(certain, 0.3, game="state", metric="bound", draws=1000)
    assert failed(regret.present(loose)) == ["bound that dc.decide reports, state game, 1000 draws"]
    over = changed(changed(certain, 0.1, metric="number worst"), 0.05, metric="number bound", draws=1000)
    over = changed(over, 0.2, metric="number bound", draws=100)
    (what,) = failed(regret.present(over))
    assert "dc.decisions.decide_number" in what
    lost = changed(certain, 0.05, game="epsilon 1", scope="shipped")
    assert failed(regret.present(lost)) == ["loss of the default, epsilon 1, against 60 samples of other seeds"]
    lost = changed(certain, 0.02, game="epsilon 10", scope="shipped")
    assert failed(regret.present(lost)) == ["loss of the default, epsilon 10"]
    high = changed(certain, 0.9, game="threshold", scope="worst query", metric="quantile", draws=1000)
    assert failed(regret.present(high)) == ["95 % point of the loss, worst query, threshold game, 1000 draws"]
    asked = [check.what for check in page.checks if check.what.startswith("95 % point")]
    assert asked and not any("10 draws" in what.split(", ")[-1].split()[:1] for what in asked)
    # Had "one mean" been lost, its share would be below its chance in all repeats.
    rare = failed(regret.present(changed(certain, -2.0, metric="excess")))
    assert len(rare) == 1 and "share of one mean beyond less its chance" in rare[0]


def test_shares_of_means_beyond_by_hand() -> None:
    """Two queries, three responses, four sets of 50 draws; single, or any of them, against Hoeffding's distances."""
    near, alone, all_of_them = 0.01, games.deviation(50, 1) + 1e-9, games.deviation(50, 6) + 1e-9
    far = np.full((2, 3, 4), near)
    far[1, 2] = [alone, near, all_of_them, near]
    far[0, 1, 3] = alone
    wanted = {"one mean": 0.5, "all means": 0.75, "all means, union": 0.25}
    assert regret.beyond(far, (1, 2), 50) == pytest.approx(wanted)
    assert regret.beyond(far, (0, 1), 50)["one mean"] == 0.25


def test_the_chance_of_one_mean_is_that_of_its_draws() -> None:
    """Ten draws of a coin, by enumeration; and the simulated share: 200,000 sets, six standard errors."""
    draws, mean = 10, 0.6
    limit, wanted = games.deviation(draws, 1), 0.0
    for flips in product((0, 1), repeat=draws):
        if abs(sum(flips) / draws - mean) >= limit:
            wanted += mean ** sum(flips) * (1 - mean) ** (draws - sum(flips))
    assert 0 < wanted == pytest.approx(regret.chance_beyond(mean, draws))
    shares = np.random.default_rng(8).binomial(100, 0.5, 200_000) / 100
    seen = regret.beyond(np.abs(shares - 0.5)[None, None], (0, 0), 100)["one mean"]
    chance = regret.chance_beyond(0.5, 100)
    assert seen == pytest.approx(chance, abs=6 * math.sqrt(chance / 200_000))
    assert chance > 0.005


@pytest.mark.costly("What the releases of a whole game cost is worked out from their payloads.")
@pytest.mark.parametrize("epsilon", regret.EPSILONS)
def test_draws_share_the_stated_epsilon(epsilon: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for, and what all N draws of each release together cost, worked out from its floors and temper."""
    releases, simulate = [], dc.simulate

    def recorder(*given: object, **options: object) -> dc.Release:
        releases.append(simulate(*given, **options))
        assert releases[-1].guarantee == given[3]
        return releases[-1]

    monkeypatch.setattr(dc, "simulate", recorder)
    monkeypatch.setattr(regret, "DRAWS", (1, 10, 100))
    frame = rows_of(regret.EXPERIMENT, "dimitrakakis_regret", [({"game": f"epsilon {epsilon}"}, 1)])
    wanted = dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
    assert [release.guarantee for release in releases] == [wanted] * 4
    sampled = frame[frame["scope"] == "sampler"]["draws"].tolist()
    for draws, release in zip(sampled, releases, strict=False):
        payload = release.payload
        assert isinstance(payload, dc.research.ParameterDraws) and payload.cells.draws == draws
        cost = draws * payload.temper * record_loss(release.network, payload.floors, REPLACE)
        assert 0.99 * epsilon < cost <= epsilon * (1 + 1e-9)


@pytest.mark.costly("Repeats that share random numbers are found by measuring each experiment three times.")
@pytest.mark.parametrize(
    ("name", "module", "setting"),
    [
        *(("dimitrakakis_regret", regret, {"game": game}) for game in ("value", "threshold", "epsilon 1")),
        ("dimitrakakis_distinguishability", telling, {"part": "one end", "draws": 4}),
        ("dimitrakakis_distinguishability", telling, {"part": "partition", "draws": 100}),
    ],
)
def test_repeats_are_independent(name: str, module: Any, setting: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other seeds and other repeats give other rows; within a task nothing is drawn twice for one purpose."""
    purposes: list[str] = []
    rng = Task.rng
    monkeypatch.setattr(Task, "rng", lambda task, purpose: purposes.append(purpose) or rng(task, purpose))
    monkeypatch.setattr(regret, "ATOMS", 200)
    monkeypatch.setattr(regret, "DRAWS", (10, 100))
    rows = []
    for seeds, repeat in ((1, 0), (1, 1), (2, 0)):
        purposes.clear()
        rows.append([row["value"] for row in module.EXPERIMENT.measure(Task(name, setting, seeds, repeat))])
        assert purposes and len(set(purposes)) == len(purposes)
    # Shares of 0 or 1 are the same in all.
    assert all(np.mean(np.equal(rows[0], other)) < 0.8 for other in rows[1:])


# ------------------------------------------------------------------------------------------ distinguishability


def trimmed(law: telling.BetaBinomial, theta: np.ndarray) -> np.ndarray:
    """The posterior's density on a grid, normalised there."""
    values = stats.beta.pdf(theta, law.alpha, law.beta)
    return values / integrate.simpson(values, x=theta)


@every("data", telling.DATA)
@every("rho", [1, 8, 100])
def test_one_draw_tells_what_the_variation_says(data: str, rho: int) -> None:
    x, y = telling.pair(data, rho)
    assert y.alpha - x.alpha == x.beta - y.beta == rho and x.alpha + x.beta == 102
    theta = np.linspace(0.1, 0.9, 20_001)
    variation = integrate.simpson(np.abs(trimmed(x, theta) - trimmed(y, theta)), x=theta) / 2
    assert telling.single_draw_success(x, y) == pytest.approx((1 + variation) / 2, abs=1e-5)


def test_two_draws_by_quadrature() -> None:
    """20,000 sets of each, in [1/2, 1]: a standard error of at most .0013; six of them have a chance of 2e-9."""
    x, y = telling.pair("one end", 16)
    theta = np.linspace(0.1, 0.9, 1601)
    width = np.full(theta.size, theta[1] - theta[0])
    width[[0, -1]] /= 2
    p, q = (trimmed(law, theta) * width for law in (x, y))
    wanted = np.maximum(np.outer(p, p), np.outer(q, q)).sum() / 2
    found = telling.success(x, y, 2, 20_000, np.random.default_rng(5))
    assert abs(found - wanted) < 6 * 0.0013 + 1e-4
    assert found > telling.single_draw_success(x, y)


def test_the_bound_by_range_is_reached_by_two_points() -> None:
    # A posterior on {.1, .9}: k ones of n against n - k, so that the odds are 9^(+-rho).
    rho = 2
    right = 9**rho / (1 + 9**rho)
    assert telling.largest_success(1, rho) == pytest.approx(right)
    assert telling.needed(1, 1 - right) == pytest.approx(rho)
    assert telling.needed(5, 1 / 16) > telling.least_distinguishable(telling.LIPSCHITZ, 5, 1 / 16)


def test_errors_of_an_empirical_measure() -> None:
    """Two cells: 2 |k/n - 1/2|, k binomial. 20,000 measures, six standard errors: a chance of 2e-9."""
    errors = telling.empirical_errors(2, 10, 20_000, np.random.default_rng(6))
    limit = math.sqrt(3 / 10 * math.log(16))
    wanted = 2 * stats.binom.cdf(math.ceil(10 * (1 - limit) / 2) - 1, 10, 0.5)
    assert abs(np.mean(errors > limit) - wanted) < 6 * math.sqrt(wanted / 20_000)
    assert errors.max() <= 1 + 1e-12
    assert telling.empirical_errors(4, 7, 50, np.random.default_rng(7)).shape == (50,)


@pytest.mark.costly("Each verdict of the page must turn when its own numbers change.")
def test_the_page_of_theorem_13_reacts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "MEASURES", 2000)
    settings = [(setting, 4) for setting, _ in telling.plan(True)]
    frame = rows_of(telling.EXPERIMENT, "dimitrakakis_distinguishability", settings)
    # Four repeats give poor standard errors: the exact values stand in for them.
    for data, rho in product(telling.DATA, telling.DISTANCES):
        exact = telling.single_draw_success(*telling.pair(data, rho))
        frame = changed(frame, exact, part=data, draws=1, rho=rho, metric="success")
    for draws in telling.SAMPLES:
        exact = telling.chance_exceeded(draws, telling.DELTA)
        frame = changed(frame, exact, part="partition", draws=draws, cells=2, metric="exceeded")
    page = telling.present(frame)
    assert not failed(page)
    off = changed(frame, 1.5 * telling.chance_exceeded(100, telling.DELTA), draws=100, cells=2, metric="exceeded")
    assert failed(telling.present(off)) == ["Lemma 12, m = 2, delta = 1/16, n = 100, by enumeration"]
    assert page.verdict.startswith("Reproduced in part: Lemma 12 holds; ") and len(page.verdict.split()) <= 60
    assert 'Theorem 13 is false as printed ("can distinguish if")' in page.verdict
    often = telling.present(changed(frame, 0.5, metric="exceeded", cells=2))
    assert "Lemma 12 does NOT hold" in often.verdict and len(failed(often)) == 6, "nor its exact value on two cells"
    sure = telling.present(changed(frame, 0.999999, metric="success"))
    assert "Theorem 13 is true as printed" in sure.verdict and "as a necessary condition it fails" in sure.verdict
    near = changed(frame, 0.96, metric="success", part="one end", rho=1, draws=1)
    assert len(failed(telling.present(near))) == 3, "beyond both bounds and off the exact value"
