"""The experiments after Chowdhury et al. (2020): what is printed, what is measured, pages that follow the numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from experiments import budget, chowdhury, d_ind, private_pgm
from experiments import chowdhury_allocation as allocation
from experiments import chowdhury_figure_2 as figure_2
from experiments import chowdhury_parts as parts
from experiments import chowdhury_ratios as ratio_tables
from experiments import chowdhury_table_1 as table_1
from experiments import chowdhury_table_2 as table_2
from experiments import errors as measured
from experiments.harness import Task
from experiments.networks import asia
from experiments.pages import Page
from scipy.integrate import quad
from scipy.optimize import minimize

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.theory.query_error import query_gradient
from tiny import counts_of as counted_slowly
from tiny import network_of

ASIA = asia()
NETWORK = ASIA.network
CODES = sample_codes(ASIA, 10_000, np.random.default_rng(3))
COUNTS = dc.count_codes(NETWORK, CODES)
EXAMPLE = parts.EXAMPLE


def some_theta(network: dc.Network, seed: int) -> dc.Tables:
    """Arbitrary probabilities."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draws(1, np.random.default_rng(seed))
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
    found, wanted = dc.count_codes(network, codes), counted_slowly(network, records)
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


@pytest.mark.parametrize("tables", [1, 2])
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


@pytest.mark.parametrize("name", [name for name in chowdhury.METHODS if name not in ("mbi", "noise-aware mean")])
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


def test_the_package_is_asked_for_the_guarantee_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, simulate = list[dc.Guarantee](), dc.simulate

    def noted(mechanism: object, statistic: object, prior: object, guarantee: dc.Guarantee, **others: object) -> object:
        asked.append(guarantee)
        return simulate(mechanism, statistic, prior, guarantee, **others)

    monkeypatch.setattr(dc, "simulate", noted)
    task = task_of("chowdhury_figure_2", network="asia")
    for name in ("corrected", "Zhang's Laplace", "shipped default"):
        chowdhury.released(task, name, 1.5, 2)
    list(allocation.measure(task_of("chowdhury_allocation", part="shipped", mechanism="laplace()", at=3)))
    assert [float(one.epsilon) for one in asked] == [1.5] * 6 + [3]
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


def test_the_peer_reads_the_noise_of_the_default() -> None:
    ours, peer = chowdhury.METHODS["shipped default"], chowdhury.METHODS["mbi"]
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


# ------------------------------------------------------------------------------------------ Figure 2


def frame_of_figure_2(
    factors: dict[str, float], floor: float = 1e-6, split: tuple[float, float] = (1.1, 1.9)
) -> pd.DataFrame:
    """D-Ind's errors are .1 / epsilon, a method's those of D-Ind at `factor * epsilon`; repeats differ a little.

    `split` are errors between D-Ind's and Algorithm 1's at epsilon 1, over D-Ind's.
    """
    rows = []
    for network, metric, repeat in product(("asia", "sachs"), (*figure_2.QUANTITIES, "whole"), range(3)):
        size = 0.1 * (1 + 0.01 * repeat)
        place = {"network": network, "metric": metric, "repeat": repeat, "at": "all", "releases": 1, "seeds": 1}
        for form, epsilon in product(chowdhury.FORMS, figure_2.GRID):
            rows.append({**place, "method": form, "epsilon": epsilon, "value": size / epsilon})
        for name, epsilon in product(factors, chowdhury.EPSILONS):
            rows.append({**place, "method": name, "epsilon": epsilon, "value": size / epsilon / factors[name]})
        rows += [{**place, "method": "exact counts", "epsilon": e, "value": floor} for e in chowdhury.EPSILONS]
        for name, factor in zip(chowdhury.PARTS, split, strict=True):
            rows.append({**place, "method": name, "epsilon": 1.0, "value": size * factor})
    return pd.DataFrame(rows)


def test_ratios_are_those_that_were_put_in() -> None:
    found = figure_2.ratios(frame_of_figure_2({"Algorithm 1": 0.5, "shipped default": 4.0}))
    for (_, name, _, _), cell in found.items():
        assert np.exp(cell.logs) == pytest.approx(np.full(4, 0.5 if name == "Algorithm 1" else 4.0))
        assert cell.sign == ""
    near = figure_2.ratios(frame_of_figure_2({"shipped default": 4.0}, floor=0.03))
    assert {near["asia", "shipped default", "cpt", e].sign for e in (1.0, 3.0)} == {"fl"}, "below the exact counts"


@pytest.mark.parametrize(
    ("factors", "said", "wrong"),
    [
        ((0.5, 4.0), "Not reproduced: Algorithm 1 as printed needs more budget than D-Ind", 0),
        ((3.0, 4.0), "Reproduced", 3),
        ((0.5, 2.0), "Not reproduced", 4),
    ],
)
def test_page_of_figure_2_follows_the_numbers(factors: tuple[float, float], said: str, wrong: int) -> None:
    scheme, ours = factors
    page = figure_2.present(frame_of_figure_2({"Algorithm 1": scheme, "shipped default": ours}))
    assert page.verdict.startswith(said)
    assert len(failed(page)) == wrong
    assert f"| Algorithm 1 | {scheme:.2f}" in page.tables[0][1]
    assert len(page.verdict.split()) <= 60


@pytest.mark.parametrize(
    ("split", "said"),
    [((1.1, 1.9), "mainly by equation (13)'s split (error at epsilon 1, times: equation (13)'s split 1.73, the tenth"),
     ((1.1, 1.2), "mainly by the merge (error at epsilon 1, times: the merge 1.67"),
     ((2 ** (1 / 3), 2 ** (2 / 3)), "by no step alone")],
)  # fmt: skip
def test_the_reason_follows_the_numbers(split: tuple[float, float], said: str) -> None:
    frame = frame_of_figure_2({"Algorithm 1": 0.5, "shipped default": 4.0}, split=split)
    assert said in figure_2.present(frame).verdict


def test_methods_are_compared_where_all_have_a_ratio() -> None:
    frame = frame_of_figure_2({"Algorithm 1": 0.5, "shipped default": 4.0})
    gone = (frame["network"] == "sachs") & (frame["method"] == "shipped default") & (frame["epsilon"] == 3)
    found = figure_2.ratios(frame[~gone])
    both = figure_2.common(found, ["Algorithm 1", "shipped default"], "cpt")
    assert {name: len(cells) for name, cells in both.items()} == {"Algorithm 1": 3, "shipped default": 3}
    assert len(figure_2.common(found, ["Algorithm 1"], "cpt")["Algorithm 1"]) == 4
    assert "| *networks and epsilons* | 3 |" in ratio_tables.mean_table(found, ["Algorithm 1", "shipped default"])


def test_a_ratio_that_could_be_anything_does_not_pass() -> None:
    """The logarithm is far below that of 3 in spite of its error; on the plain scale 0 would be within the error."""
    frame = frame_of_figure_2({"Algorithm 1": 0.5, "shipped default": 0.3})
    uneven = (frame["method"] == "shipped default") & (frame["repeat"] == 0)
    frame.loc[uneven, "value"] *= 1.3
    assert len([what for what in failed(figure_2.present(frame)) if "shipped" in what]) == 4
    near = figure_2.present(frame_of_figure_2({"Algorithm 1": 0.5, "shipped default": 4.0}, floor=1.0))
    assert not near.checks, "nothing is claimed where errors are those of the exact counts"
    assert near.verdict.startswith("Not decided")


@pytest.mark.parametrize("name", ["D-Ind", "Zhang's Laplace"])
def test_a_task_of_figure_2(name: str) -> None:
    at = "grid" if name == "D-Ind" else "all"
    rows = list(figure_2.measure(task_of("chowdhury_figure_2", network="asia", method=name, at=at, releases=2)))
    epsilons = figure_2.AT[at]
    assert len(rows) == len(epsilons) * len((*measured.METRICS, *measured.PRINTED))
    cpt = [row["value"] for row in rows if row["metric"] == "cpt"]
    assert all(0 < value < 1 for value in cpt)
    if name == "D-Ind":
        assert cpt[-1] < cpt[0] / 5


# ------------------------------------------------------------------------------------------ Table 1


def joint_of(theta: dc.Tables) -> np.ndarray:
    """The whole joint of Asia, axes in the order of the nodes, shape `(2, .., 2, draws)`."""
    axes = {name: place for place, name in enumerate(NETWORK.nodes)}
    joint = np.ones((*(2,) * 8, theta.draws or 1))
    for node, table in theta.items():
        order = [axes[name] for name in NETWORK.family(node)]
        spread = np.expand_dims(table.transpose([*np.argsort(order), len(order)]), tuple(set(range(8)) - set(order)))
        joint = joint * spread
    return joint


def test_favourites_are_those_of_enumeration() -> None:
    """40 arbitrary tables, more than are worked on at once."""
    theta = dc.Dirichlet.uniform(NETWORK, 1.0).draws(40, np.random.default_rng(20))
    joint, names = joint_of(theta), list(NETWORK.nodes)
    assert joint.sum(axis=tuple(range(8))) == pytest.approx(1)
    evidence, targets = {"xray": 1, "asia": 0}, ("smoke", "either", "lung")
    part = joint
    for name in sorted(evidence, key=names.index, reverse=True):
        part = np.take(part, evidence[name], axis=names.index(name))
    kept = [name for name in names if name not in evidence]
    summed = part.sum(axis=tuple(kept.index(name) for name in kept if name not in targets))
    order = [name for name in kept if name in targets]
    found = table_1.favourites(theta, targets, evidence)
    assert len(found) == 40
    for draw, states in enumerate(found):
        best = np.unravel_index(int(summed[..., draw].argmax()), (2, 2, 2))
        assert states == dict(zip(order, map(int, best), strict=True))


def test_right_answers() -> None:
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.5, 0.5]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    tied = table_1.Explanation(("a",), {}, float(np.log(0.5)))
    runs = {"a": np.array([[0.9, 0.1], [0.1, 0.9]]), "b": np.repeat(truth["b"][..., None], 2, axis=-1)}
    theta = dc.Tables(network, runs, draws=2)
    assert table_1.right(truth, theta, tied).tolist() == [True, True], "either of two equally probable states"
    whole = table_1.Explanation(("a",), {"b": 1}, float(np.log(0.25)))
    assert table_1.right(truth, theta, whole).tolist() == [True, False]
    never = dc.Tables(network, {"a": runs["a"], "b": np.array([[[1, 0.5], [0, 0.5], [0, 0]]] * 2)}, draws=2)
    assert table_1.right(truth, never, whole).tolist() == [False, False], "impossible evidence, and the wrong state"


def test_queries_are_of_their_kind_and_the_truth_answers_them() -> None:
    data = chowdhury.data_of(task_of("chowdhury_table_1", network="asia"))
    for kind in table_1.KINDS:
        asked = table_1.queries(data, kind, np.random.default_rng(4))
        assert len(asked) == table_1.QUERIES
        for query in asked:
            assert not set(query.targets) & set(query.evidence)
            if kind == "MPE":
                assert set(query.targets) | set(query.evidence) == set(NETWORK.nodes)
                assert 1 <= len(query.evidence) <= 7
            else:
                assert 1 <= len(query.targets) <= 3
                assert len(query.evidence) <= 2
            assert table_1.right(ASIA, measured.single(ASIA), query).all()


def frame_of_table_1(scheme: float, ours: float) -> pd.DataFrame:
    """Accuracies at every epsilon; D-Ind has .8."""
    values = {"D-Ind": 0.8, "Algorithm 1": scheme, "shipped default": ours}
    return pd.DataFrame(
        [
            {"network": "asia", "method": name, "metric": kind, "repeat": repeat, "epsilon": e, "value": value + shift}
            for (name, value), kind, e in product(values.items(), table_1.KINDS, chowdhury.EPSILONS)
            for repeat, shift in enumerate((-0.01, 0.0, 0.01 + 0.001 * len(name)))
        ]
    )


@pytest.mark.parametrize(
    ("scheme", "ours", "said", "wrong"),
    [
        (0.7, 0.9, "Not reproduced: Algorithm 1 is less often right", 0),
        (0.95, 0.9, "Reproduced;", 0),
        (0.83, 0.9, "Reproduced in sign;", 0),
        (0.7, 0.6, "Not reproduced", 2),
        (0.7999, 0.9, "Not reproduced: Algorithm 1 is not clearly more often right", 0),
    ],
)
def test_page_of_table_1_follows_the_numbers(scheme: float, ours: float, said: str, wrong: int) -> None:
    page = table_1.present(frame_of_table_1(scheme, ours))
    assert page.verdict.startswith(said)
    assert len(failed(page)) == wrong
    found = table_1.gain(frame_of_table_1(scheme, ours), "Algorithm 1", "MPE")
    shifts = np.array([0, 0, 0.001 * (len("Algorithm 1") - len("D-Ind"))])
    assert found.mean == pytest.approx(scheme - 0.8 + shifts.mean())
    assert found.error == pytest.approx(shifts.std(ddof=1) / np.sqrt(3))


def test_a_task_of_table_1() -> None:
    task = task_of("chowdhury_table_1", network="asia", method="Zhang's Laplace", at="early", releases=2)
    rows = list(table_1.measure(task))
    assert [(row["metric"], row["epsilon"]) for row in rows] == list(product(table_1.KINDS, table_1.EARLY))
    assert all(0.5 < row["value"] <= 1 for row in rows)


# ------------------------------------------------------------------------------------------ Table 2


def test_printed_bounds_on_two_nodes() -> None:
    """eta = 2, kappa = 1, three states: the least error and 12 times the largest."""
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.3, 0.7]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    wrong = {"a": np.array([0.32, 0.68]), "b": np.array([[0.25, 0.45, 0.3], [0.1, 0.4, 0.5]])}
    wrong["b"][:, 2] += 0.01
    data = measured.Data.drawn(measured.Truth.of(truth, "two"), 100, np.random.default_rng(1))
    lower, upper = table_2.bounds(data, measured.single(dc.Tables(network, wrong)))
    assert lower == pytest.approx([0.01])
    assert upper == pytest.approx([2 * 2 * 3 * 0.1])


def test_one_step_of_elimination() -> None:
    """Against differences; of three factors of 1/2 it is .61, less than the .71 that is printed as a lower bound."""
    rng = np.random.default_rng(5)
    factors = [rng.random(3) for _ in range(4)]
    squares = 0.0
    for place, state in product(range(4), range(3)):
        moved = [factor.copy() for factor in factors]
        moved[place][state] += 1e-6
        squares += ((np.prod(moved, axis=0).sum() - np.prod(factors, axis=0).sum()) / 1e-6) ** 2
    assert table_2.step_deviation(factors, 0.2) == pytest.approx(0.2 * np.sqrt(squares), rel=1e-6)
    assert table_2.step_deviation([np.full(2, 0.5)] * 3, 1.0) == pytest.approx(np.sqrt(6) / 4)


@pytest.mark.parametrize("count", [0.0, 1.5, 20.0])
def test_moments_of_cut_noise(count: float) -> None:
    mean, variance = table_2.cut_noise(np.array([count]), 2.0)

    def moment(power: int) -> float:
        def density(noise: float) -> float:
            return (max(count + noise, 0) - count) ** power * np.exp(-abs(noise) / 2) / 4

        return sum(quad(density, low, high)[0] for low, high in ((-80, -count), (-count, 0), (0, 80)))

    assert mean == pytest.approx([moment(1)], abs=1e-6)
    assert variance == pytest.approx([moment(2) - moment(1) ** 2], abs=1e-5)


def test_the_delta_method_where_noise_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root mean square of 20,000 runs of few Laplace variates has a standard error below 1 %; 8 % are allowed."""
    monkeypatch.setattr(table_2, "RUNS", 20_000)
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.3, 0.7]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    data = measured.Data.drawn(measured.Truth.of(truth, "two"), 10_000, np.random.default_rng(1))
    found, wanted = table_2.root_mean_squares(data, 10.0, np.random.default_rng(2))
    assert found == pytest.approx(wanted, rel=0.08)
    assert table_2.root_mean_squares(data, 5.0, np.random.default_rng(2))[1] == pytest.approx(2 * wanted, rel=1e-3)


def frame_of_table_2(scheme: float, delta: float = 1.0, exact: float = 1.5) -> pd.DataFrame:
    """D-Ind's mu is as printed; the delta method is off by a factor at every epsilon."""
    rows = []
    for network, repeat in product(chowdhury.NETWORKS, range(3)):
        place = {"network": network, "repeat": repeat, "epsilon": 1.0}
        mu = table_2.PUBLISHED["D-Ind"][chowdhury.NETWORKS.index(network)] * (1 + 0.01 * repeat)
        for name, factor in (
            ("D-Ind", 1.0),
            ("Algorithm 1", scheme),
            ("exact counts", exact * (1 + 0.05 * (-1) ** repeat)),
        ):
            values = {"mu": mu * factor, "l1": 0.01, "lower": 0.0, "upper": 20.0}
            rows += [{**place, "method": name, "metric": metric, "value": value} for metric, value in values.items()]
        for epsilon, (metric, factor) in product(table_2.EPSILONS, (("measured", delta), ("predicted", 1.0))):
            value = factor * (1 + 0.001 * repeat) / epsilon
            rows.append({**place, "method": "delta method", "epsilon": epsilon, "metric": metric, "value": value})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("scheme", "delta", "said", "wrong"),
    [
        (0.5, 1.0, "Reproduced: Algorithm 1's mu is clearly below D-Ind's on 4 of 4", 0),
        (2.0, 1.0, "Not reproduced: Algorithm 1's mu is clearly below D-Ind's on 0 of 4", 0),
        (2.0, 1.05, "Not reproduced", 8),
    ],
)
def test_page_of_table_2_follows_the_numbers(scheme: float, delta: float, said: str, wrong: int) -> None:
    page = table_2.present(frame_of_table_2(scheme, delta))
    assert page.verdict.startswith(said)
    assert page.verdict.endswith("exact counts without noise have a clearly larger mu than D-Ind on 4.")
    assert table_2.present(frame_of_table_2(scheme, delta, 1.02)).verdict.endswith("larger mu than D-Ind on 0.")
    assert len(page.verdict.split()) <= 60
    assert len(failed(page)) == wrong


@pytest.mark.parametrize("name", ["D-Ind", "delta method"])
def test_a_task_of_table_2(name: str) -> None:
    rows = list(table_2.measure(task_of("chowdhury_table_2", network="asia", method=name)))
    values = {(row["metric"], row["epsilon"]): row["value"] for row in rows}
    if name == "D-Ind":
        assert 0 < values["mu", 1.0] < values["l1", 1.0] < 0.1
        assert values["lower", 1.0] == 0, "Asia has structural zeros"
        assert 1 < values["upper", 1.0] <= 2 * 5 * 2**2, "the largest error is below 1"
    else:
        assert values["predicted", 1.0] == pytest.approx(10 * values["predicted", 10.0], rel=0.3)


# ------------------------------------------------------------------------------------------ the allocation's page


def test_noise_of_the_first_stage() -> None:
    assert parts.relative_noise(0.1, 1) == pytest.approx(10)
    assert parts.relative_noise(0.1, 0.1) == pytest.approx(13.9, abs=0.05)
    assert parts.relative_noise(0.1, 0.01) == pytest.approx(40.9, abs=0.05)


def test_what_replacing_a_record_costs() -> None:
    """The first stage's loss by looking at all pairs of outputs: two cells, a coin with probability .1 before noise."""
    share, sampling = 0.1, 0.1
    before = np.log1p(np.expm1(share) / sampling)
    at = np.linspace(-3, 4, 141)
    without, with_it = np.exp(-before * np.abs(at)), np.exp(-before * np.abs(at - 1))
    one = (1 - sampling) * np.outer(without, without) + sampling * np.outer(with_it, without)
    loss = float(np.log(one / one.T).max())
    assert loss == pytest.approx(0.1526, abs=5e-5)
    assert parts.replacing_costs(1, share, sampling) == pytest.approx(2 * 0.9 + loss)
    assert parts.replacing_costs(1, share, sampling) == pytest.approx(1.95, abs=0.005)


def test_spreads_and_ratios() -> None:
    assert allocation.in_spreads(5.0, [1.0, 3.0]) == pytest.approx(3 / np.sqrt(2))
    found = allocation.ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.error) == (pytest.approx(2), pytest.approx(0, abs=1e-12))


def frame_of_allocation(worse: float = 1.0, shift: float = 0.0, delta: float = 0.5) -> pd.DataFrame:
    """The references, with a spread of .01 from sample to sample; `worse` multiplies D-Ind's errors."""
    rows: list[dict[str, object]] = []
    for repeat, jitter in enumerate((-0.01, 0.0, 0.01)):
        for (variant, values), against in product(parts.REFERENCE.items(), allocation.AGAINST):
            for (tables, epsilon), value in zip(parts.COLUMNS, values, strict=True):
                size = value * (worse if variant == parts.UNIFORM else 1.0) + shift + jitter
                row = {"part": "variants", "tables": tables, "at": epsilon, "variant": variant, "metric": against}
                rows.append({**row, "repeat": repeat, "value": size})
        totals = {"part": "row totals", "tables": 2, "at": 1, "repeat": repeat}
        rows.append({**totals, "variant": "rare records", "metric": "records", "value": 5.0 - repeat})
        rows += [
            {**totals, "variant": name, "metric": "sample", "value": 0.2 + jitter} for name in ("cells", "parents")
        ]
        for name, value in (("own factor left out", delta), ("own factor kept", delta / 2)):
            rows.append(
                {"part": "equation 7", "variant": name, "metric": "Delta of A", "repeat": repeat, "value": value}
            )
        for name, epsilon, reading, against in product(
            allocation.SHIPPED, parts.EPSILONS, allocation.READINGS, allocation.AGAINST
        ):
            row = {"part": "shipped", "mechanism": name, "at": epsilon, "variant": reading, "metric": against}
            rows.append({**row, "repeat": repeat, "value": 0.1 + jitter})
    return pd.DataFrame(rows)


def test_page_of_the_allocation_follows_the_numbers() -> None:
    page = allocation.present(frame_of_allocation())
    assert page.verdict.startswith("Not reproduced")
    assert failed(page) == set()
    better = allocation.present(frame_of_allocation(worse=2.5))
    assert better.verdict.startswith("Reproduced")
    assert "error of Algorithm 1 over D-Ind's, epsilon 1" in failed(better)
    assert allocation.present(frame_of_allocation(worse=1.3)).verdict.startswith("Not reproduced")
    far = failed(allocation.present(frame_of_allocation(shift=0.04)))
    assert len([what for what in far if "references" in what]) == 4
    wider = {what for what in failed(allocation.present(frame_of_allocation(worse=1.3))) if "ratios" in what}
    assert len(wider) == 2
    assert len([what for what in failed(allocation.present(frame_of_allocation(delta=0.51))) if "(7)" in what]) == 2


def test_a_task_of_the_allocation() -> None:
    rows = list(allocation.measure(task_of("chowdhury_allocation", part="variants", tables=2, at=1, runs=20)))
    assert [row["variant"] for row in rows if row["metric"] == "sample"] == list(parts.REFERENCE)
    assert all(0.05 < row["value"] < 0.5 for row in rows)
    constants = list(allocation.measure(task_of("chowdhury_allocation", part="equation 7")))
    assert [row["value"] for row in constants] == pytest.approx([0.5, 0.25])
