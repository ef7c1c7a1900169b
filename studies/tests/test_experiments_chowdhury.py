"""The experiments after Chowdhury et al. (2020): what is printed, what is measured, pages that follow the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import discreet as dc
from discreet.queries.synthetic import sample_codes
from experiments import budget, chowdhury, d_ind, networks, private_pgm
from experiments import chowdhury_allocation as allocation
from experiments import chowdhury_figure_2 as figure_2
from experiments import chowdhury_parts as parts
from experiments import chowdhury_table_1 as table_1
from experiments import chowdhury_table_2 as table_2
from experiments import errors as measured
from experiments.corrected_bounds import query_gradient
from experiments.harness import Task
from experiments.networks import asia
from experiments.pages import Page
from experiments.shipped import NO_PAIRS, SHIPPED
from folding import every
from tiny import counts_of as counted_slowly
from tiny import network_of

ASIA = asia()
NETWORK = ASIA.network
CODES = sample_codes(ASIA, 10_000, np.random.default_rng(3))
COUNTS = dc.tools.count_codes(NETWORK, CODES)
EXAMPLE = parts.EXAMPLE


def some_theta(network: dc.Network, seed: int) -> dc.Tables:
    """Arbitrary probabilities."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(seed))
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def largest_gap(theta: dc.Tables, expected: dict[str, np.ndarray]) -> float:
    """Over all cells and runs."""
    return max(float(np.abs(table - expected[node]).max()) for node, table in theta.items())


def task_of(module: str, **setting: object) -> Task:
    """The first repeat of a setting."""
    return Task(module, setting, 1, 0)


def failed(page: Page) -> set[str]:
    """What does not hold."""
    return {check.what for check in page.checks if not check.holds}


# ------------------------------------------------------------------------------------------ what they share


def test_counts_and_samples() -> None:
    network = network_of({"a": 2, "b": 3, "c": 2}, "c>a b>a")
    records = [(0, 2, 1), (1, 2, 1), (1, 0, 0), (1, 2, 1)]
    codes = {name: np.array(column) for name, column in zip("abc", zip(*records, strict=True), strict=True)}
    found, wanted = dc.tools.count_codes(network, codes), counted_slowly(network, records)
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


# ------------------------------------------------------------------------------------------ D-Ind


@every("tables", [1, 2])
def test_parameters_without_noise_are_frequencies(tables: d_ind.Measured) -> None:
    rng = np.random.default_rng(5)
    wanted = parts.empirical(COUNTS)
    assert largest_gap(d_ind.d_ind(COUNTS, 1e9, 3, rng, tables=tables), wanted) < 1e-6
    stages = d_ind.algorithm_1(NETWORK, CODES, 5000, 3, rng, tables=tables, sampling=1)
    assert largest_gap(stages.theta, wanted) < 0.02
    assert largest_gap(parts.merged_by_variance(stages, 1), wanted) < 0.02
    sparse = d_ind.algorithm_1(NETWORK, CODES, 5000, 3, rng, tables=tables, sampling=0.1)
    assert largest_gap(sparse.second.theta, wanted) < 0.02
    assert largest_gap(sparse.first.theta, wanted) > 0.05, "the first stage sees a sample"


@every(("tables", "node", "factor"), [(2, "tub", 2), (2, "asia", 1), (1, "tub", 1)])
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


@every("network", [NETWORK, EXAMPLE, network_of({"a": 2, "b": 3, "c": 4, "d": 2}, "a>b a>c b>c c>d")])
@every("seed", range(3))
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
    shares = parts.shares_from_counts(ASIA, 10_000)
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
        return parts.merged_by_variance(stages, 0.5)["a"][:, 0].tolist()

    assert merged(1.0) == pytest.approx([8 / 20, 12 / 20])
    assert merged(1e9) == pytest.approx([2 / 10, 8 / 10])


# ------------------------------------------------------------------------------------------ errors and ratios


def test_printed_errors_on_two_nodes() -> None:
    """By hand: the row (.8, .2) of b is released as (.7, .3); the sum over rows, and KL with the released law first."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    theta = dc.Tables(network, {"a": np.array([0.25, 0.75]), "b": np.array([[0.8, 0.2], [0.1, 0.9]])})
    wrong = dc.Tables(network, {"a": theta["a"], "b": np.array([[0.7, 0.3], [0.1, 0.9]])})
    drawn = measured.Data.drawn(measured.Truth.of(theta, "two"), 10, np.random.default_rng(1))
    asked = (measured.Query("b"),) * measured.QUERIES + (measured.Query("a", (("b", 1),)),) * measured.QUERIES
    true = (np.array([0.275, 0.725]),) * measured.QUERIES + (np.array([0.05, 0.675]) / 0.725,) * measured.QUERIES
    data = measured.Data(drawn.truth, drawn.codes, drawn.counts, asked, true)
    found = measured.errors(data, measured.stacked([theta, wrong]))

    def divergence(released: list[float], law: list[float]) -> float:
        mixed = np.array(law) * (1 - measured.MIXED) + measured.MIXED / 2
        return float((np.array(released) * np.log(np.array(released) / mixed)).sum())

    wanted = {
        "whole": 0.2 / 2,
        "cpt-kl": divergence([0.7, 0.3], [0.8, 0.2]) / 2 / 2,
        "marg-kl": divergence([0.25, 0.75], [0.275, 0.725]),
        "cond-kl": divergence([0.1, 0.9], [0.05 / 0.725, 0.675 / 0.725]),
    }
    assert set(wanted) == set(measured.PRINTED)
    for metric, value in wanted.items():
        assert found[metric][0] == pytest.approx(0, abs=1e-4)
        assert found[metric][1] == pytest.approx(value, abs=2e-5), metric


def test_geometric_means_leave_out_a_repeat_everywhere() -> None:
    cells = [budget.Ratio(np.log([2.0, 1.0, 4.0]), ""), budget.Ratio(np.log([8.0, 4.0, 16.0]), "")]
    found = budget.geometric(cells)
    assert found.mean == pytest.approx(4)
    logs = np.log([2.0, 8.0])
    assert found.error == pytest.approx(4 * np.sqrt(0.5 * np.square(logs - logs.mean()).sum()))
    assert budget.Ratio(np.log([2.0, 2.0, 2.0]), ">").text() == ">2.00"
    assert budget.Ratio(np.log([2.0, 2.0, 2.0]), "fl").text() == "fl"


# ------------------------------------------------------------------------------------------ methods


@pytest.mark.costly("Each method of the figure, ours and theirs, is run whole where its answer is known.")
@every("name", [name for name in chowdhury.METHODS if name not in ("mbi", "noise-aware mean")])
def test_every_method_finds_the_frequencies_without_noise(name: str) -> None:
    """Epsilon 1000: noise of some hundredths of a record; the +1 and priors are less than .02 of all but rare rows."""
    task = task_of("chowdhury_figure_2", network="asia", method=name)
    exact = chowdhury.released(task, "exact counts", 1.0, 1)
    found = chowdhury.released(task, name, 1000.0, 2)
    counts = chowdhury.data_of(task).counts.tables["smoke"]
    assert exact["smoke"][..., 0] == pytest.approx(counts / counts.sum()), "nothing is added"
    assert found["smoke"].shape[-1] == (1 if name == "exact counts" else 2)
    assert all(table.sum(axis=-2) == pytest.approx(1) for table in found.values())
    for node in ("smoke", "lung", "bronc"):
        assert np.abs(found[node] - exact[node]).max() < 0.02


def test_frequencies_have_nothing_added() -> None:
    """Of a row without a record nothing is known."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    found = chowdhury.frequencies(network, {"a": np.array([4, 0]), "b": np.array([[3, 1], [0, 0]])})
    assert found["a"].tolist() == [1, 0]
    assert found["b"].tolist() == [[0.75, 0.25], [0.5, 0.5]]


@pytest.mark.costly("A page that measures under another guarantee than it states is found by running its mechanisms.")
def test_the_package_is_asked_for_the_guarantee_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, simulate = list[dc.Guarantee](), dc.simulate

    def noted(mechanism: object, statistic: object, prior: object, guarantee: dc.Guarantee, **others: object) -> object:
        asked.append(guarantee)
        return simulate(mechanism, statistic, prior, guarantee, **others)

    monkeypatch.setattr(dc, "simulate", noted)
    task = task_of("chowdhury_figure_2", network="asia")
    for name in ("corrected", "Zhang's Laplace", SHIPPED, NO_PAIRS):
        chowdhury.released(task, name, 1.5, 2)
    list(allocation.measure(task_of("chowdhury_allocation", part="shipped", mechanism="laplace()", at=3)))
    assert [float(one.epsilon) for one in asked] == [1.5] * 8 + [3]
    assert all(one.delta == 0 and one.relation is dc.Relation.ADD_REMOVE for one in asked)


def test_parts_of_algorithm_1_share_its_noise_and_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of("chowdhury_figure_2", network="asia")
    theta, second = (chowdhury.released(task, name, 1.0, 3) for name in ("Algorithm 1", "stage II alone"))
    stages = chowdhury.METHODS["Algorithm 1"].measure(
        chowdhury.data_of(task), 1.0, 3, task.rng("noise Algorithm 1 asia 1.0")
    )
    assert np.array_equal(theta["tub"], stages.theta["tub"])
    assert np.array_equal(second["tub"], stages.second.theta["tub"])
    spent = list[float]()
    monkeypatch.setattr(d_ind, "d_ind", lambda counts, epsilon, runs, rng: spent.append(epsilon))
    chowdhury.released(task, "even split of .9 epsilon", 2.0, 1)
    assert spent == [pytest.approx(sum(float(b[0]) for b in stages.budgets.values()) * 2)]


def test_the_peer_reads_the_noise_of_the_plan_without_pairs() -> None:
    ours, peer = chowdhury.METHODS[NO_PAIRS], chowdhury.METHODS["mbi"]
    data = chowdhury.data_of(task_of("chowdhury_figure_2", network="asia"))
    tables = []
    for method in (ours, peer):
        rng = task_of("chowdhury_figure_2", network="asia").rng(f"noise {method.noise} asia 1.0")
        (release,) = method.measure(data, 1.0, 1, rng)
        assert release.guarantee.epsilon == 1
        assert release.guarantee.delta == 0
        assert release.guarantee.relation is dc.Relation.ADD_REMOVE
        tables.append(release.payload.tables)
    assert all(np.array_equal(table, tables[1][scope]) for scope, table in tables[0].items())


def test_private_pgm_fits_noisy_tables() -> None:
    pytest.importorskip("mbi", reason="private-pgm (mbi) of the bench extra is not installed")
    task = task_of("chowdhury_figure_2", network="asia")
    exact, found = (chowdhury.released(task, name, 1000.0, 1) for name in ("exact counts", "mbi"))
    assert max(np.abs(found[node] - exact[node]).max() for node in ("smoke", "lung", "bronc", "asia")) < 0.02


def test_what_cannot_be_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setattr(networks, "find_spec", lambda name: None)  # pgmpy has networks of its own
    monkeypatch.setattr(private_pgm, "importable", lambda: False)
    assert chowdhury.runnable() == ["asia"]
    assert [part.split(":")[0] for part in chowdhury.missing()] == ["sachs", "child", "alarm", "mbi"]
    for module in (figure_2, table_1, table_2):
        for quick in (True, False):
            settings = [setting for setting, _ in module.plan(quick)]
            assert {setting["network"] for setting in settings} == {"asia"}
            assert "mbi" not in {setting["method"] for setting in settings}


def test_all_methods_see_the_same_records() -> None:
    one, other = (chowdhury.data_of(task_of("x", network="asia", method=name)) for name in ("D-Ind", "corrected"))
    assert one is other
    assert chowdhury.data_of(Task("x", {"network": "asia"}, 2, 0)) is not one
