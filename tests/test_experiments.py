"""The baselines of the experiments are what the papers print, and their numbers are those of the specification."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from experiments import allocation, asia, counts_of, d_ind, markdown, mean_and_error, naive_bayes
from scipy.optimize import minimize

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.theory.query_error import query_gradient
from tiny import counts_of as counted_slowly
from tiny import network_of

ASIA = asia()
NETWORK = ASIA.network
CODES = sample_codes(ASIA, 10_000, np.random.default_rng(3))
COUNTS = counts_of(NETWORK, CODES)
EXAMPLE = network_of(dict.fromkeys("ABCDEF", 2), "A>C B>C C>D C>E D>F E>F")
"""Figure 1 of Chowdhury et al. (2020)."""


def some_theta(network: dc.Network, seed: int) -> dc.Tables:
    """Arbitrary probabilities."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draws(1, np.random.default_rng(seed))
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def largest_gap(theta: dc.Tables, expected: dict[str, np.ndarray]) -> float:
    """Over all cells and runs."""
    return max(float(np.abs(table - expected[node]).max()) for node, table in theta.items())


# ------------------------------------------------------------------------------------------ what they share


def test_counts_and_samples() -> None:
    network = network_of({"a": 2, "b": 3, "c": 2}, "c>a b>a")
    records = [(0, 2, 1), (1, 2, 1), (1, 0, 0), (1, 2, 1)]
    codes = {name: np.array(column) for name, column in zip("abc", zip(*records, strict=True), strict=True)}
    found, wanted = counts_of(network, codes), counted_slowly(network, records)
    assert all(np.array_equal(found.tables[node], wanted.tables[node]) for node in network.nodes)
    everyone = d_ind.sampled(network, codes, 1.0, 2, np.random.default_rng(0))
    assert all(np.array_equal(everyone[node][..., 1], wanted.tables[node]) for node in network.nodes)


def test_a_sample_is_one_sample_for_all_tables() -> None:
    """Mean 1,000 of 10,000 records, standard error .95: off by 6 of them with probability 2e-9."""
    tables = d_ind.sampled(NETWORK, CODES, 0.1, 1000, np.random.default_rng(1))
    assert np.array_equal(tables["either"].sum(axis=(0, 2)), tables["lung"].sum(axis=0))
    assert np.array_equal(tables["tub"].sum(axis=1), tables["asia"])
    assert abs(tables["smoke"].sum(axis=0).mean() - 1000) < 6
    assert tables["smoke"].sum(axis=0).std() > 25, "every run has coins of its own"


def test_markdown() -> None:
    assert markdown(["a", "b"], [[1, "x"]]) == "| a | b |\n| --- | --- |\n| 1 | x |\n"
    assert mean_and_error([1.0, 3.0]) == "2.000 ± 1.000"


# ------------------------------------------------------------------------------------------ D-Ind


@pytest.mark.parametrize("tables", [1, 2])
def test_parameters_without_noise_are_frequencies(tables: d_ind.Measured) -> None:
    rng = np.random.default_rng(5)
    wanted = allocation.empirical(COUNTS)
    assert largest_gap(d_ind.d_ind(COUNTS, 1e9, 3, rng, tables=tables), wanted) < 1e-6
    stages = d_ind.algorithm_1(NETWORK, CODES, 5000, 3, rng, tables=tables, sampling=1)
    assert largest_gap(stages.theta, wanted) < 0.02
    assert largest_gap(allocation.merged_by_variance(stages, 1), wanted) < 0.02
    sparse = d_ind.algorithm_1(NETWORK, CODES, 5000, 3, rng, tables=tables, sampling=0.1)
    assert largest_gap(sparse.second.theta, wanted) < 0.02
    assert largest_gap(sparse.first.theta, wanted) > 0.05, "the first stage sees a sample"


@pytest.mark.parametrize(("tables", "node", "factor"), [(2, "tub", 2), (2, "asia", 1), (1, "tub", 1)])
def test_noise_is_that_of_the_budget(tables: d_ind.Measured, node: str, factor: int) -> None:
    """Mean of 80,000 absolute Laplace variates: 2 % is at least 5.6 standard errors, false alarm below 3e-8 each."""
    runs = 80_000 // COUNTS.tables[node].size
    counts = d_ind.as_runs(COUNTS.tables)
    budgets = dict.fromkeys(NETWORK.nodes, 0.5)
    made = d_ind.compute_parameters(NETWORK, counts, budgets, runs, np.random.default_rng(8), tables=tables)
    noise = made.cells[node] - counts[node]
    assert np.abs(noise).mean() == pytest.approx(factor / 0.5, rel=0.02)
    assert made.scales[node].tolist() == [factor / 0.5]
    if factor == 2:
        rows = made.totals[node] - counts[node].sum(axis=-2)
        assert np.abs(rows).mean() == pytest.approx(4, rel=0.04)
        assert abs(np.corrcoef(rows.ravel(), noise[:, 0].ravel())[0, 1]) < 0.04, "T_pa has noise of its own"


def test_the_second_table_cancels() -> None:
    counts = d_ind.as_runs(COUNTS.tables)
    budgets = dict.fromkeys(NETWORK.nodes, 0.01)
    made = d_ind.compute_parameters(NETWORK, counts, budgets, 50, np.random.default_rng(9))
    assert min(float(totals.min()) for totals in made.totals.values()) < 0
    assert largest_gap(made.theta, {node: d_ind.normalised(made.cells[node]) for node in NETWORK.nodes}) < 1e-12


def test_guards() -> None:
    cells = np.array([[3.0, -1.0], [-2.0, -4.0]])[..., None]
    assert d_ind.normalised(cells)[..., 0].tolist() == [[1, 0], [0.5, 0.5]]


# ------------------------------------------------------------------------------------------ Algorithm 1


def test_budgets_minimise_the_objective() -> None:
    weights = {"a": 3.0, "b": 0.02, "c": 40.0}
    found = d_ind.allocation(weights, 0.9)
    assert sum(found.values()) == pytest.approx(0.9)

    def objective(logits: np.ndarray) -> float:
        shares = np.exp(logits - logits.max())
        return float(np.sum(np.array(list(weights.values())) / (0.9 * shares / shares.sum())))

    best = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    shares = np.exp(best.x - best.x.max())
    assert 0.9 * shares / shares.sum() == pytest.approx(np.array(list(found.values())), rel=1e-4)
    # As printed: c_j = 1 / (W_j delta_j), products over all others.
    c = 1 / np.array(list(weights.values()))
    products = np.array([np.sqrt(np.delete(c, j)).prod() for j in range(3)])
    assert list(found.values()) == pytest.approx(0.9 * products / products.sum())


def test_estimated_error_by_hand() -> None:
    network = network_of({"a": 2, "b": 2}, "a>b")
    theta = dc.Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
    cells = {"a": np.array([[4.0], [12.0]]), "b": np.array([[[4.0], [-3.0]], [[6.0], [6.0]]])}
    totals = {"a": np.array([16.0]), "b": np.array([[-9.0], [12.0]])}
    found = d_ind.estimated_error(theta, cells, totals)
    a = (0.25 * np.hypot(1 / 16, 1 / 4) + 0.75 * np.hypot(1 / 16, 1 / 12)) / 2
    b = (np.hypot(1, 1 / 4) + 0 + 2 * 0.5 * np.hypot(1 / 12, 1 / 6)) / 4
    assert found["a"] == pytest.approx(a)
    assert found["b"] == pytest.approx(b)


@pytest.mark.parametrize("network", [NETWORK, EXAMPLE, network_of({"a": 2, "b": 3, "c": 4, "d": 2}, "a>b a>c b>c c>d")])
@pytest.mark.parametrize("seed", range(3))
def test_equation_7_is_a_constant_of_the_graph(network: dc.Network, seed: int) -> None:
    """Whatever the probabilities are; with the own factor of (8) it is smaller by the number of states."""
    theta = some_theta(network, seed)
    for node in network.nodes:
        constant = d_ind.influence(network, node)
        assert d_ind.influence_as_printed(theta, node) == pytest.approx(constant, abs=1e-12)
        kept = d_ind.influence_as_printed(theta, node, keep_own_factor=True)
        assert kept * network.schema[node].size == pytest.approx(constant, abs=1e-12)


def test_influence_in_the_papers_example() -> None:
    assert d_ind.influence(EXAMPLE, "A") == 0.5
    assert d_ind.influence(EXAMPLE, "F") == 0


def test_a_node_reaches_beyond_its_children() -> None:
    """X -> A -> Z, X -> Y <- Z: Z is no child of X, is in its Markov blanket, and P[Z] depends on Theta_X."""
    network = network_of(dict.fromkeys("XAZY", 2), "X>A A>Z X>Y Z>Y")
    assert "Z" in network.markov_blanket("X")
    assert "Z" not in network.children("X")
    assert np.abs(query_gradient(some_theta(network, 4), ["Z"], {})["X"]).max() > 0.01


def test_asia_importance_and_allocation() -> None:
    wanted = {"smoke": 18, "asia": 12, "tub": 7.5, "lung": 7.5, "either": 6.75, "bronc": 5, "xray": 1, "dysp": 1}
    assert d_ind.importance(NETWORK) == wanted
    shares = allocation.shares_from_counts(ASIA, 10_000)
    order = sorted(shares, key=lambda node: -shares[node])
    assert order == ["either", "tub", "smoke", "dysp", "lung", "asia", "bronc", "xray"]
    assert shares["either"] == pytest.approx(0.5, abs=0.02)
    assert sum(shares.values()) == pytest.approx(1)


def test_stages_share_the_budget_and_merge_as_printed() -> None:
    stages = d_ind.algorithm_1(NETWORK, CODES, 2, 7, np.random.default_rng(6))
    assert np.sum(list(stages.budgets.values()), axis=0) == pytest.approx(np.full(7, 1.8))
    before = np.log1p(np.expm1(0.2) / 0.1) / 8
    assert stages.first.scales["tub"] == pytest.approx(2 / before)
    assert stages.second.scales["tub"] == pytest.approx(2 / stages.budgets["tub"])
    early = 0.025 / (stages.budgets["tub"] + 0.025)
    merged = early * stages.first.theta["tub"] + (1 - early) * stages.second.theta["tub"]
    assert stages.theta["tub"] == pytest.approx(merged)


def test_merge_by_variances_by_hand() -> None:
    """A sample of half of the records with noise of scale 1, then all of them with 2: both have variance 8 in all."""
    network = network_of({"a": 2})
    shape = {"draws": 1}

    def stage(cells: list[list[float]], scale: float) -> d_ind.Estimate:
        table = dc.Tables(network, {"a": np.array(cells)}, **shape)
        return d_ind.Estimate(table, table, {"a": np.zeros(1)}, {"a": np.array([scale])})

    def merged(scale: float) -> list[float]:
        first, second = stage([[3.0], [2.0]], scale), stage([[2.0], [8.0]], 2.0)
        stages = d_ind.TwoStage(second.theta, first, second, {})
        return allocation.merged_by_variance(stages, 0.5)["a"][:, 0].tolist()

    assert merged(1.0) == pytest.approx([8 / 20, 12 / 20])
    assert merged(1e9) == pytest.approx([2 / 10, 8 / 10])


# ------------------------------------------------------------------------------------------ naive Bayes


def test_accuracy_is_that_of_enumeration() -> None:
    task = naive_bayes.repeat(np.random.default_rng(12))
    few = naive_bayes.Task(task.counts, task.tested[:, :15], task.classes[:15])
    cells = dc.Dirichlet.uniform(naive_bayes.NETWORK, 1.0).draws(3, np.random.default_rng(13))
    right = 0
    for record, label in zip(few.tested.T, few.classes, strict=True):
        joint = [
            sum(
                cells["y"][y, s]
                * np.prod([cells[x][y, v, s] for x, v in zip(naive_bayes.FEATURES, record, strict=True)])
                for s in range(3)
            )
            for y in (0, 1)
        ]
        right += int(joint[1] > joint[0]) == label
    assert naive_bayes.accuracy(few, cells) == pytest.approx(right / 15)


def test_everything_is_the_posterior_without_noise() -> None:
    rng = np.random.default_rng(14)
    task = naive_bayes.repeat(rng)
    assert task.counts.records == naive_bayes.TRAINING
    assert task.tested.shape == (16, 950)
    exact = {name: table[..., None] for name, table in naive_bayes.PRIOR.updated(task.counts.tables).mean().items()}
    assert largest_gap(naive_bayes.posterior_mean(task.counts.tables), exact) < 1e-12
    assert largest_gap(naive_bayes.laplace_as_printed(task, 1e9, rng), exact) < 1e-6
    fourier = naive_bayes.fourier_as_printed(task, 1e9, rng, t=100)
    assert fourier is not None
    assert largest_gap(fourier, exact) < 1e-3
    many = [naive_bayes.one_draw_of_counts(task, 1e9, rng)["x1"][0, 1, 0] for _ in range(2000)]
    assert np.mean(many) == pytest.approx(exact["x1"][0, 1, 0], abs=0.02)  # over 7 standard errors of 50 records


def test_noise_of_the_printed_mechanisms() -> None:
    """34 / epsilon, clipped to [0, 50]. Standard deviation of 1,000 means: 25 % is 7 standard errors."""
    task = naive_bayes.repeat(np.random.default_rng(15))
    means = [naive_bayes.laplace_as_printed(task, 0.01, np.random.default_rng(s))["x1"].ravel() for s in range(50)]
    assert set(np.round(np.concatenate(means), 6)) >= {round(1 / 52, 6), 0.5, round(51 / 52, 6)}
    rng = np.random.default_rng(18)
    classes = [naive_bayes.laplace_as_printed(task, 100, rng)["y"][1, 0] for _ in range(1000)]
    p = np.mean(classes)
    assert np.std(classes) == pytest.approx(np.sqrt(2 * (p**2 + (1 - p) ** 2)) * 34 / 100 / 52, rel=0.25)


def test_fourier_as_printed() -> None:
    """The shift is left in; a run with a negative cell does not count; 18 times less would do for 90 %."""
    task = naive_bayes.repeat(np.random.default_rng(15))
    shifted = naive_bayes.fourier_as_printed(task, 1e6, np.random.default_rng(0), t=1e4)
    more = 4 * 1e4 * 34**2 / 1e6 / 4
    counts = task.counts.tables["x1"] + 1 + more
    assert shifted is not None
    assert shifted["x1"][..., 0] == pytest.approx(counts / counts.sum(axis=-1, keepdims=True), abs=1e-3)
    assert naive_bayes.fourier_as_printed(task, 0.1, np.random.default_rng(0), t=0.0) is None
    assert naive_bayes.shift_for(1.0) / 4 == pytest.approx(146, rel=0.05)


@pytest.mark.parametrize(("epsilon", "floor"), [(1, 0.493), (5, 0.463), (10, 0.427), (30, 0.293), (100, 0.050)])
def test_floors_of_the_record_level_sampler(epsilon: float, floor: float) -> None:
    task = naive_bayes.repeat(np.random.default_rng(16))
    rng = np.random.default_rng(17)
    drawn = [naive_bayes.sampler_for_records(task, epsilon, rng) for _ in range(50)]
    least = min(float(table.min()) for draw in drawn for table in draw.values())
    assert floor - 5e-4 <= least < floor + 1e-3, "50 draws of 33 rows come close to it"
    assert all(table.sum(axis=-2) == pytest.approx(1) for table in drawn[0].values())
    attributes = naive_bayes.sampler_for_attributes(task, epsilon, rng)
    assert min(float(table.min()) for table in attributes.values()) < floor


# ------------------------------------------------------------------------------------------ the commands


@pytest.mark.parametrize("main", [d_ind.main, allocation.main, naive_bayes.main])
def test_a_quick_run_prints_a_table(main: Callable[[list[str]], None], capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])
    printed = capsys.readouterr().out
    assert "| --- |" in printed
    assert "±" in printed
    for stated in ("standard error", "seeds [", "delta 0", "simulated"):
        assert stated in printed
    assert "add-remove one record" in printed or "replace one record" in printed
    assert "nan" not in printed


@pytest.mark.slow
def test_allocation_reproduces_the_specification() -> None:
    """All 24 numbers, of one unknown sample, lie within 3 standard deviations from sample to sample."""
    data = [sample_codes(ASIA, 10_000, np.random.default_rng([2020, seed])) for seed in range(40)]
    noise, whole = allocation.errors_of_variants(ASIA, data, 400)
    for variant, values in allocation.REFERENCE.items():
        for (tables, epsilon), value in zip(allocation.COLUMNS, values, strict=True):
            for found in (noise, whole):
                assert abs(allocation.in_spreads(value, found[variant, tables, epsilon])) < 3, (
                    variant,
                    tables,
                    epsilon,
                )
    simple, staged = "uniform budget (D-Ind)", "eq. 13, sampling, printed merge (Algorithm 1)"
    assert np.mean(noise[staged, 2, 1]) > np.mean(noise[simple, 2, 1]), "as printed it does not beat its baseline"
    assert np.mean(noise[staged, 2, 1]) > 1.5 * np.mean(noise[simple, 2, 3]), "nor three times the budget"
    assert 1.3 < np.mean(noise[simple, 2, 1]) / np.mean(noise[simple, 1, 1]) < 1.7


@pytest.mark.slow
def test_naive_bayes_reproduces_the_specification() -> None:
    """All numbers within 4 standard errors of the difference; at record level the sampler never overtakes Laplace."""
    found = naive_bayes.accuracies(naive_bayes.REFERENCE, 60, naive_bayes.EPSILONS)
    for name, values in naive_bayes.REFERENCE.items():
        for epsilon, value in zip(naive_bayes.EPSILONS, values, strict=True):
            if value is not None:
                assert abs(naive_bayes.difference(value, found[name, epsilon])[1]) < 4, (name, epsilon)
    for epsilon in (1.0, 5.0, 10.0, 30.0):
        sampler = np.array(found["sampler, record level", epsilon])
        for other in ("Laplace, printed", "Laplace, printed, one draw"):
            assert np.mean(np.array(found[other, epsilon]) - sampler) > 0
    overtaking = np.array(found["sampler, attribute level (NOT eps-DP)", 1.0])
    assert np.mean(overtaking - np.array(found["Laplace, printed", 1.0])) > 0.15
