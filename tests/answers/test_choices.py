"""A choice has a posterior: against enumeration, against itself by other likelihoods, and calibrated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import discreet as dc
from discreet.inference.additive_moments import additive_moments
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from discreet.posterior.totals import measured_total_law
from discreet.records.counts import count_codes
from discreet.releases.measurement import Scores
from discreet.research.readers import choices
from discreet.research.readers.choices import Likelihood, choice_cells
from discreet.research.scores.choice_likelihood import Choices, clt_log_choices, lower_log_marginal, principal
from discreet.util.arrays import Floats, Ints
from networks import asia
from shell import Shell, opened
from tiny import network_of

COIN = network_of({"a": 2})
ARC = network_of({"a": 2, "b": 3}, "a>b")
FIVE = network_of({"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}, "a>b a>c b>c c>d d>e")
SIDES = np.arange(1, 10) / 10
"""The paper's candidates for a coin (Williams and McSherry, Section 3.2)."""
ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def choice_log_likelihood(
    told: Sequence[Scores],
    numbers: Ints,
    cells: dc.Tables,
    rng: np.random.Generator,
    *,
    likelihood: Likelihood = "auto",
) -> Floats:
    """`ln p(choices | theta, n)` under every draw, by one of the likelihoods that posteriors take."""
    asked = choices._join_choices(told, int(numbers.max()), cells.network)
    prior = dc.Dirichlet.uniform(cells.network, 1.0)
    return choices._choose_likelihood(asked, prior, len(numbers), likelihood)(cells, numbers, rng)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def one(draws: dc.Tables, at: int = 0) -> dc.Tables:
    return dc.Tables(draws.network, {node: draws[node][..., at] for node in draws.network.nodes})


def candidates(network: dc.Network, number: int, seed: int = 1) -> list[dc.Tables]:
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(number, rng=rng(seed))
    return [one(drawn, at) for at in range(number)]


def coins() -> list[dc.Tables]:
    return [dc.Tables(COIN, {"a": [1 - side, side]}) for side in SIDES]


def promise(epsilon: object, relation: dc.Relation = REPLACE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def chosen(
    network: dc.Network, among: Sequence[dc.Tables], records: int, guarantee: dc.Guarantee, seed: int = 2
) -> dc.Release:
    """A choice from records of the first candidate."""
    counts = count_codes(network, sample_codes(among[0], records, rng(seed)), ())
    return dc.simulate(
        dc.research.map_estimate(among), counts, dc.Dirichlet.uniform(network, 1.0), guarantee, rng=rng(seed + 1)
    )


def scores_of(release: dc.Release) -> Scores:
    found = release.payload.scores(release.calibration)
    assert found is not None
    return found


def made_up(network: dc.Network, seed: int = 3) -> list[Scores]:
    """Scores of two lists, over families, a pair and all variables at once, with bases; two draws from the first."""
    draw = rng(seed)

    def table(scope: tuple[str, ...], width: int) -> np.ndarray:
        return draw.normal(size=(*(network.schema[name].size for name in scope), width))

    first = {network.family(node): table(network.family(node), 4) for node in network.nodes}
    second = {(network.nodes[-1], network.nodes[0]): table((network.nodes[-1], network.nodes[0]), 3)}
    return [Scores(first, (2, 0), draw.normal(size=4)), Scores(second, (1,), draw.normal(size=3))]


def by_enumeration(network: dc.Network, told: Sequence[Scores], records: int, cells: dc.Tables) -> np.ndarray:
    """`ln p(choices | theta)`, a plain sum over all data sets, in order."""
    names = network.nodes
    types = list(itertools.product(*(range(network.schema[name].size) for name in names)))
    law = Laws(cells).joint(names).reshape(len(types), -1)
    total = np.zeros(law.shape[1])
    for data in itertools.product(range(len(types)), repeat=records):
        chance = np.prod(law[list(data)], axis=0)
        for part in told:
            sums = np.zeros(next(iter(part.tables.values())).shape[-1]) if part.base is None else part.base.copy()
            for record in data:
                codes = dict(zip(names, types[record], strict=True))
                for scope, table in part.tables.items():
                    sums += table[tuple(codes[name] for name in scope)]
            for index in part.chosen:
                chance = chance * np.exp(sums[index]) / np.exp(sums).sum()
        total += chance
    return np.log(total)


# ------------------------------------------------------------------------------------------------------- likelihoods


@pytest.mark.parametrize("records", [0, 1, 4])
def test_several_choices_are_as_likely_as_enumeration_says(records: int) -> None:
    told, cells = made_up(ARC), dc.Dirichlet.uniform(ARC, 0.7).draw(5, rng=rng(4))
    numbers = np.full(5, records)
    found = choice_log_likelihood(told, numbers, cells, rng(), likelihood="exact")
    np.testing.assert_allclose(found, by_enumeration(ARC, told, records, cells), rtol=0, atol=1e-11)


@pytest.mark.parametrize("network", [ARC, FIVE], ids=["types", "records"])
def test_made_up_data_sets_are_right_on_average(network: dc.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six standard errors; 3 records, whose types are gone through or whose values are drawn one by one."""
    told, cells = made_up(network), dc.Dirichlet.uniform(network, 0.7).draw(3, rng=rng(4))
    exact = choice_log_likelihood(told, np.full(3, 3), cells, rng(), likelihood="exact")
    if network is FIVE:
        monkeypatch.setattr(choices, "MOST_RECORD_TYPES", 1)
        monkeypatch.setattr(choices, "VALUES_AT_ONCE", 50)
    times = 6000
    many = dc.Tables(network, {node: np.repeat(cells[node], times, axis=-1) for node in network.nodes}, draws=3 * times)
    logs = choice_log_likelihood(told, np.full(3 * times, 3), many, rng(5), likelihood="simulated")
    found = np.exp(logs).reshape(3, times)
    error = found.std(axis=1) / math.sqrt(times)
    assert np.all(np.abs(found.mean(axis=1) - np.exp(exact)) < 6 * error)


def test_each_data_set_has_its_own_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a law with a single type of record nothing is random."""
    told = made_up(FIVE)
    sure = {node: np.zeros((*FIVE.shape(node), 4)) for node in FIVE.nodes}
    for table in sure.values():
        table[..., 1, :] = 1
    cells, numbers = dc.Tables(FIVE, sure, draws=4), np.array([0, 7, 1, 30])
    wanted = choice_log_likelihood(told, numbers, cells, rng(), likelihood="simulated")
    monkeypatch.setattr(choices, "MOST_RECORD_TYPES", 1)
    found = choice_log_likelihood(told, numbers, cells, rng(), likelihood="simulated")
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    normal = choice_log_likelihood(told, numbers, cells, rng(), likelihood="clt")
    np.testing.assert_allclose(normal, wanted, atol=1e-3)


def test_the_limit_theorem_is_near_where_records_are_many() -> None:
    release = chosen(ARC, candidates(ARC, 6), 60, promise(1))
    told, cells = [scores_of(release)] * 2, dc.Dirichlet.uniform(ARC, 1.0).draw(200, rng=rng(4))
    found, exact = (
        np.exp(choice_log_likelihood(told, np.full(200, 12), cells, rng(), likelihood=name))
        for name in ("clt", "exact")
    )
    assert exact.max() / exact.mean() > 2
    assert np.abs(found - exact).mean() < 0.02 * exact.mean()


def test_bounds_hold_with_a_base_measure() -> None:
    told = [made_up(ARC)[1]]
    cells, numbers = dc.Dirichlet.uniform(ARC, 0.7).draw(50, rng=rng(4)), np.full(50, 5)
    below, exact, above = (
        choice_log_likelihood(told, numbers, cells, rng(), likelihood=name) for name in ("lower", "exact", "upper")
    )
    assert np.all(below <= exact + 1e-10) and np.all(exact <= above + 1e-10)
    assert np.all(above - below < 20)
    phi = rng(1).normal(size=(2, 3))
    shifted = lower_log_marginal([0.3, 0.7], phi, 4, base=[1.0, 1.0, 1.0])
    np.testing.assert_allclose(shifted, lower_log_marginal([0.3, 0.7], phi, 4), atol=1e-12)


def test_moments_are_those_of_all_records() -> None:
    """Of families, and of sets of variables that no family holds."""
    network, draw = asia().network, rng(6)
    cells = dc.Dirichlet.uniform(network, 0.3).draw(7, rng=draw)
    parts = {network.family(node): draw.normal(size=(*network.shape(node), 5)) for node in network.nodes}
    parts[("dysp", "asia", "smoke")] = draw.normal(size=(2, 2, 2, 5))
    mean, covariance = additive_moments(cells, parts, 3)
    law = Laws(cells).joint(network.nodes).reshape(-1, 7)
    table = np.zeros((len(law), 5))
    for at, codes in enumerate(itertools.product(range(2), repeat=8)):
        states = dict(zip(network.nodes, codes, strict=True))
        table[at] = sum(part[tuple(states[name] for name in scope)] for scope, part in parts.items())
    middle = law.T @ table
    np.testing.assert_allclose(mean, middle, atol=1e-12)
    spread = np.einsum("td,ti,tj->dij", law, table, table) - middle[:, :, None] * middle[:, None]
    np.testing.assert_allclose(covariance, spread[:, :3, :3], atol=1e-12)


def test_few_directions_hold_the_scores() -> None:
    table, shares = rng(7).normal(size=(12, 40)), rng(8).dirichlet(np.ones(12))
    table[:, 1] = table[:, 0] + 3
    coordinates, ways = principal(table, shares)
    assert ways.shape == (12, 40)
    shift = coordinates @ ways - table
    np.testing.assert_allclose(shift, np.repeat(shift[:, :1], 40, axis=1), atol=1e-12)
    spread = (coordinates**2 * shares[:, None]).sum(axis=0)
    assert np.all(np.diff(spread) < 1e-12)


def test_a_law_that_is_normal_is_met_by_the_fixed_points() -> None:
    """The mean of a softmax over two normal scores, by quadrature in one dimension."""
    drawn = Choices(np.zeros(2), (2,), ((0,),))
    ways, mean, points = np.array([[1.0, -1.0]]), np.array([[0.3, 0.0]]), stats.norm.ppf((np.arange(512) + 0.5) / 512)
    found = clt_log_choices(drawn, mean, np.array([[[0.7]]]), ways, points[:, None])
    x = np.linspace(-8, 8, 4001)
    law = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    assert math.exp(found[0]) == pytest.approx(law @ (1 / (1 + np.exp(-0.3 - 2 * math.sqrt(0.7) * x))), abs=1e-4)


# -------------------------------------------------------------------------------------------------------- posteriors


def test_the_papers_coin_has_the_posterior_that_enumeration_gives() -> None:
    """Williams and McSherry, Section 3.2: 100 flips, epsilon .5; on a grid of theta, and draws within five errors."""
    release = chosen(COIN, coins()[6:] + coins()[:6], 100, promise("0.5"))
    told = scores_of(release)
    theta = (np.arange(400) + 0.5) / 400
    cells = dc.Tables(COIN, {"a": np.stack([1 - theta, theta])}, draws=400)
    logs = choice_log_likelihood([told], np.full(400, 100), cells, rng())
    heads = np.arange(101)
    sums = np.outer(100 - heads, told.tables[("a",)][0]) + np.outer(heads, told.tables[("a",)][1])
    law = np.exp(sums[:, told.chosen[0]] - np.logaddexp.reduce(sums, axis=1))
    exact = stats.binom.pmf(heads, 100, theta[:, None]) @ law
    np.testing.assert_allclose(np.exp(logs), exact, atol=1e-12)
    found, wanted = (part / part.sum() for part in (np.exp(logs), exact))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    posterior = dc.noise_aware(release, draws=2000, rng=rng())
    assert posterior.method == "choice"
    drawn, error = posterior.probabilities["a"][1], 5 / math.sqrt(posterior.ess())
    mean = wanted @ theta
    deviation = math.sqrt(wanted @ (theta - mean) ** 2)
    assert abs(drawn.mean() - mean) < error * deviation
    assert abs(drawn.std() - deviation) < error * deviation
    assert 0.6 < drawn.mean() < 0.8


@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_a_coin_by_a_factor_is_the_same_coin(relation: dc.Relation) -> None:
    design = dc.designs.Design((dc.Variable("x", bounds=(0, 1)),), None, None, False)
    flips = (rng(1).random((300, 1)) < 0.7).astype(float)
    factor = dc.research.CategoricalFactor(np.stack([1 - SIDES, SIDES], axis=1), floor=0.1)
    release = dc.simulate(
        dc.research.factored(factor),
        dc.designs.read_rows(design, flips),
        dc.designs.Normal(design, 1.0),
        promise(2, relation),
        rng=rng(4),
    )
    release = dc.Release.loads(release.dumps())
    posterior = dc.noise_aware(release, draws=500, rng=rng())
    assert posterior.network.schema["x"].states == ("0", "1")
    assert isinstance(release.payload, dc.research.FactoredChoice)
    peak = SIDES[release.payload.index]
    assert abs(posterior.mean()["x"][1] - peak) < 0.15
    (row,) = dc.answer(posterior, "P(x=1)", level=0.95).rows
    assert row["lower"] < peak < row["upper"]
    again = posterior.fresh()
    assert not np.array_equal(again.probabilities["x"], posterior.probabilities["x"])
    sharp = dc.Dirichlet(dc.Tables(posterior.network, {"x": [9000.0, 1000.0]}))
    assert dc.noise_aware(release, draws=500, rng=rng(), prior=sharp).mean()["x"][1] == pytest.approx(0.1, abs=0.01)
    for wrong in (dc.Dirichlet.uniform(COIN), dc.Dirichlet.uniform(ARC)):
        with pytest.raises(dc.InputError, match="over one variable, 'x'"):
            dc.noise_aware(release, draws=10, rng=rng(), prior=wrong)
    with pytest.raises(dc.InputError, match="at least one draw"):
        dc.noise_aware(release, draws=0, rng=rng())
    with pytest.raises(dc.InputError, match="there is: choice"):
        dc.noise_aware(release, draws=10, rng=rng(), method="exact")


def test_a_direction_is_read_by_weights() -> None:
    plane = dc.designs.Design((dc.Variable("x", bounds=(-1, 1)), dc.Variable("y", bounds=(-1, 1))), None, None, False)
    rows = dc.designs.read_rows(plane, rng().uniform(-1, 1, (9, 2)))
    factor = dc.research.DirectionFactor([[0.9, 0.0], [0.0, 0.9]], noise_variance=0.1, tau=2.0)
    release = dc.simulate(dc.research.factored(factor), rows, dc.designs.Normal(plane, 1.0), promise(1), rng=rng())
    with pytest.raises(dc.InputError, match=r"over a design, not a network: .* `\.posterior\(\)`"):
        dc.noise_aware(release, draws=10, rng=rng())
    assert release.posterior(draws=100, rng=1).weights.shape == (100, 2)


@pytest.mark.parametrize(
    ("relation", "likelihood"), [(REPLACE, "exact"), (REPLACE, "clt"), (REPLACE, "simulated"), (ADD_REMOVE, "auto")]
)
def test_networks_to_choose_from_answer_a_query(relation: dc.Relation, likelihood: Likelihood) -> None:
    """The posterior mean by weighting draws of the prior with the exact likelihood, within six errors of both."""
    release = chosen(ARC, candidates(ARC, 6), 8, promise(5))
    told, prior, draw = scores_of(release), dc.Dirichlet.uniform(ARC, 1.0), rng(9)
    total = None if relation is REPLACE else (8, 2.0)
    many = 20_000
    cells = prior.draw(many, rng=draw)
    told = Scores(told.tables, told.chosen, total=total)
    numbers = np.full(many, 8) if total is None else measured_total_law([total]).sample(many, draw)
    weight = np.exp(choice_log_likelihood([told], numbers, cells, draw, likelihood="simulated"))
    found, worth = choice_cells([told], 8 if total is None else None, prior, 800, draw, likelihood=likelihood)
    assert worth() > 160
    bias = 0.02 if likelihood == "clt" else 0.0
    for node in ARC.nodes:
        mean = (cells[node] * weight).sum(axis=-1) / weight.sum()
        error = 6 * (1 / math.sqrt(worth()) + np.sqrt((weight**2).sum()) / weight.sum())
        assert np.all(np.abs(found[node].mean(axis=-1) - mean) < error * cells[node].std(axis=-1) + bias)
    if relation is REPLACE and likelihood == "exact":
        moved = max(np.abs(found[node].mean(axis=-1) - prior.mean()[node]).max() for node in ARC.nodes)
        assert moved > 0.05  # the choice says something


@pytest.mark.costly("A choice is read alone, beside public records, again and afresh, each by particles.")
@pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)
def test_noise_aware_reads_a_choice(relation: dc.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "PARTICLES_OF_FEW_TYPES", (400, 2))
    network = asia().network
    release = dc.Release.loads(chosen(network, candidates(network, 20), 500, promise(1, relation)).dumps())
    prior = dc.Dirichlet.uniform(network, 1.0)
    posterior = dc.noise_aware(release, draws=200, rng=rng())
    assert posterior.method == "choice" and 0 < posterior.ess() <= 200
    answer = dc.answer(posterior, "P(lung | smoke=yes)", level=0.95)
    assert all(row["lower"] < row["mean"] < row["upper"] for row in answer.rows)
    assert dc.answer(posterior, "P(asia, dysp)", level=0.95).basis == "assumed"
    again = dc.noise_aware(release, draws=200, rng=rng())
    assert all(np.array_equal(again.probabilities[node], posterior.probabilities[node]) for node in network.nodes)
    assert not np.array_equal(posterior.fresh().probabilities["lung"], posterior.probabilities["lung"])
    public = count_codes(network, sample_codes(one(prior.draw(1, rng=rng(5))), 2000, rng(6)), ()).tables
    both = dc.noise_aware(dc.combine(release, data="different", public=public), draws=200, rng=rng())
    frequency = public["smoke"] / public["smoke"].sum()
    np.testing.assert_allclose(both.mean()["smoke"], frequency, atol=0.03)
    assert both.method == "choice"


@pytest.mark.costly("Every choice beside every other and beside tables.")
def test_choices_are_combined_with_each_other_and_with_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choices, "PARTICLES_OF_FEW_TYPES", (800, 2))
    among = candidates(FIVE, 12)
    first, second = (chosen(FIVE, among, 300, promise(3), seed) for seed in (2, 4))
    together = dc.noise_aware(dc.combine(first, second, data="same"), draws=400, rng=rng())
    assert together.method == "choice"
    apart = dc.noise_aware(dc.combine(first, second, data="different"), draws=400, rng=rng())
    assert apart.method == "sequential"
    counts = count_codes(FIVE, sample_codes(among[0], 300, rng(7)), ())
    tables = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(FIVE, 1.0), promise(3), rng=rng(8))
    beside = dc.noise_aware(dc.combine(tables, first, data="different"), draws=400, rng=rng())
    assert beside.method == "sequential"
    assert dc.noise_aware(dc.combine(tables, first, data="same"), draws=400, rng=rng()).method == "exact"
    with pytest.raises(dc.InputError, match="there is: choice, exact"):
        dc.noise_aware(first, draws=10, rng=rng(), method="pooled")


def test_two_choices_of_the_same_records_say_more_than_one() -> None:
    release = chosen(COIN, coins(), 30, promise(1))
    told, prior = scores_of(release), dc.Dirichlet.uniform(COIN, 1.0)
    wide, narrow = (choice_cells([told] * times, 30, prior, 2000, rng())[0]["a"][1].std() for times in (1, 6))
    assert narrow < 0.9 * wide
    assert narrow > 0.9 * math.sqrt(0.1 * 0.9 / 33)  # but never more than the records themselves would


def test_a_table_of_scores_is_read() -> None:
    """With a base measure and several draws; candidates are fractions of the state that the score counts."""
    score = dc.research.own_score(
        COIN,
        lambda types, z: np.where(types["a"][:, None] == COIN.schema["a"].states[1], np.log(z.T), np.log(1 - z.T)),
        SIDES,
        low=math.log(0.1),
        high=math.log(0.9),
        base=np.log(SIDES),
    )
    counts = dc.tools.count_codes(COIN, {"a": (rng(1).random(200) < 0.3).astype(np.int64)}, ())
    prior = dc.Dirichlet.uniform(COIN, 1.0)
    release = dc.simulate(dc.research.scored(score, draws=3), counts, prior, promise(3, ADD_REMOVE), rng=rng(2))
    posterior = dc.noise_aware(dc.Release.loads(release.dumps()), draws=1000, rng=rng())
    assert posterior.method == "choice"
    low, high = np.quantile(posterior.probabilities["a"][1], [0.005, 0.995])
    assert low < 0.3 < high < 0.7


@pytest.mark.costly("A number of records that is taken for known is found by enumerating all of them.")
def test_a_release_without_a_number_of_records_is_read_as_of_any_number() -> None:
    """The first releases under add-remove measured none."""
    release = chosen(COIN, coins(), 1000, promise(1, ADD_REMOVE))
    told = Scores(scores_of(release).tables, (0,))
    cells, _ = choice_cells([told], None, dc.Dirichlet.uniform(COIN, 1.0), 400, rng())
    known, _ = choice_cells([told], 1000, dc.Dirichlet.uniform(COIN, 1.0), 400, rng())
    assert known["a"][1].std() < cells["a"][1].std() < 0.9 * math.sqrt(1 / 12)


@pytest.mark.parametrize(
    ("totals", "most"), [([(5, 3.0)], 400), ([(-7, 2.0)], 200), ([(40, 9.0), (52, 4.0)], 900), ([(1, 0.3)], 60)]
)
def test_the_law_of_a_number_that_was_told(totals: list[tuple[int, float]], most: int) -> None:
    """Prior mass log(1 + 1 / (1 + n)), times the noise's law of each number."""
    law, n = measured_total_law(totals), np.arange(most)
    exact = np.log1p(1 / (1 + n)) * np.exp(-sum(np.abs(n - told) / scale for told, scale in totals))
    found = np.exp(law.log_density(n.astype(float)))
    np.testing.assert_allclose(found, exact / exact.sum(), atol=1e-9)


def test_moves_leave_the_prior_as_it_is() -> None:
    """Gamma variables before and after: of the same law, and exchangeable; false alarms below 1e-7."""
    draw, size = rng(3), 40_000
    alpha = np.array([[0.25], [3.0]])
    before = choices._draw_log_gamma(np.broadcast_to(alpha, (2, size)), draw)
    after = choices._propose_logs(before, alpha, draw.random(size), draw)
    for row, shape in enumerate(alpha[:, 0]):
        assert stats.kstest(np.exp(after[row]), stats.gamma(shape).cdf).pvalue > 1e-8
        x, y = stats.gamma(shape).cdf(np.exp([before[row], after[row]]))
        gap = x**2 * y - x * y**2
        assert abs(gap.mean()) < 6 * gap.std() / math.sqrt(size)
        assert np.corrcoef(x, y)[0, 1] > 0.3


# --------------------------------------------------------------------------------------------------------- calibration


@pytest.mark.costly("A posterior that is shifted or too narrow shows in the ranks of many truths.")
@pytest.mark.parametrize(
    ("epsilon", "relation"),
    [
        ("3", ADD_REMOVE),
        ("0.1", REPLACE),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in (("0.1", ADD_REMOVE), ("3", REPLACE))),
    ],
)
def test_ranks_of_the_truth_are_uniform(epsilon: str, relation: dc.Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coin's truths from the prior; 12 bins; false alarms below 1e-7. See `docs/reading.md` for more runs."""
    monkeypatch.setattr(choices, "PARTICLES_OF_FEW_TYPES", (400, 2))
    assert stats.chisquare(np.bincount(ranks_of(50, epsilon, relation), minlength=12)).pvalue > 1e-8


@pytest.mark.costly("That ranks find a posterior that is too narrow is seen over many data sets.")
def test_ranks_tell_a_posterior_that_reads_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were ten times the records: the test above has the power to see it."""
    monkeypatch.setattr(choices, "PARTICLES_OF_FEW_TYPES", (400, 2))
    monkeypatch.setattr(choices, "MOST_HISTOGRAMS", 0)
    honest = choices.simulated_log_choices
    monkeypatch.setattr(choices, "simulated_log_choices", lambda c, laws, phi, n, r: honest(c, laws, 10 * phi, n, r))
    assert stats.chisquare(np.bincount(ranks_of(20, "0.3", REPLACE), minlength=12)).pvalue < 1e-8


def ranks_of(records: int, epsilon: str, relation: dc.Relation) -> np.ndarray:
    """Twelfths into which the truth falls among 59 draws, of 240 truths."""
    draw, prior, found = rng(11), dc.Dirichlet.uniform(COIN, 1.0), []
    mechanism = dc.research.map_estimate(coins())
    for _ in range(240):
        truth = one(prior.draw(1, rng=draw))
        counts = count_codes(COIN, sample_codes(truth, records, draw), ())
        release = dc.simulate(mechanism, counts, prior, promise(epsilon, relation), rng=draw)
        cells, _ = choice_cells([scores_of(release)], release.records, prior, 59, draw)
        found.append(int((cells["a"][1] < truth["a"][1]).sum()) // 5)
    return np.array(found)


# ------------------------------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = dc.Dirichlet.uniform(ARC, 1.0).draw(2, rng=rng())
    with pytest.raises(dc.InputError, match="for a single choice"):
        choice_log_likelihood(made_up(ARC), np.array([3, 3]), cells, rng(), likelihood="upper")
    with pytest.raises(dc.InputError, match="histograms are more than"):
        choice_log_likelihood(made_up(ARC), np.array([900, 900]), cells, rng(), likelihood="exact")
    monkeypatch.setattr(choices, "MOST_RECORD_TYPES", 2)
    with pytest.raises(dc.InputError, match="at most 2 record types"):
        choice_log_likelihood(made_up(ARC), np.array([3, 3]), cells, rng(), likelihood="exact")
    monkeypatch.setattr(choices, "MOST_POWER_STEPS", 0)
    with pytest.raises(dc.DiscreetError, match="did not reach the posterior"):
        choice_cells(made_up(ARC), 3, dc.Dirichlet.uniform(ARC, 1.0), 5, rng())
    monkeypatch.setattr("discreet.inference.additive_moments.CELL_BUDGET", 1)
    with pytest.raises(dc.InputError, match="cells for each draw"):
        choice_log_likelihood(made_up(ARC), np.array([3, 3]), cells, rng(), likelihood="clt")


@pytest.mark.parametrize(
    ("base", "ends", "drawn", "why"),
    [
        ([0.0, 0.0], (2,), ((0,), (1,)), "an end, a choice"),
        ([0.0, 0.0], (1,), ((0,),), "an end, a choice"),
        ([0.0, math.nan], (2,), ((0,),), "finite weights"),
        ([0.0, 0.0], (2,), ((2,),), "not in its list"),
    ],
)
def test_lists_that_do_not_fit_are_refused(
    base: list[float], ends: tuple[int, ...], drawn: tuple[tuple[int, ...], ...], why: str
) -> None:
    with pytest.raises(dc.InputError, match=why):
        Choices(np.array(base), ends, drawn)


# ------------------------------------------------------------------------------------------------------------ the shell


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Shell:
    return opened(tmp_path, monkeypatch, capfd)


def test_the_shell_answers_from_a_choice(run: Shell) -> None:
    chosen(ARC, candidates(ARC, 5), 200, promise(2, ADD_REMOVE)).save("networks.json")
    told = run.json("query networks.json --json")
    assert told["method"] == "choice" and told["answers"]
    design = dc.designs.Design((dc.Variable("x", bounds=(0, 1)),), None, None, False)
    factor = dc.research.CategoricalFactor(np.stack([1 - SIDES, SIDES], axis=1), floor=0.1)
    rows = dc.designs.read_rows(design, (rng(1).random((50, 1)) < 0.7).astype(float))
    dc.simulate(dc.research.factored(factor), rows, dc.designs.Normal(design, 1.0), promise(1), rng=rng()).save(
        "coin.json"
    )
    coin = run.json('query coin.json "P(x=1)" --json')
    (value,) = coin["answers"][0]["values"]
    assert coin["method"] == "choice" and value["lower"] < value["mean"] < value["upper"]
    assert "posterior: choice" in run("query coin.json")[1]
