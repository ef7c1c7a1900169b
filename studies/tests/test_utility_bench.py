"""What `bench.utility` compares with: errors of the truth, D-Ind's consistency step, and ratios."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import discreet as dc
from bench import baselines, utility
from discreet.inference import exact_laws
from discreet.records.count_sensitivity import cells_moved
from experiments import budget, chowdhury, consistency
from experiments import errors as measured
from experiments.networks import asia
from tiny import network_of

TRUTH = measured.Truth.of(asia(), "asia")
DATA = measured.Data.drawn(TRUTH, 1000, np.random.default_rng([7, 0]))
RELATION = dc.Relation.ADD_REMOVE


def some_tables(scopes: list[tuple[str, ...]], sizes: dict[str, int], runs: int, seed: int) -> dict:
    """Arbitrary tables of any sign."""
    rng = np.random.default_rng(seed)
    return {scope: rng.normal(size=(*(sizes[name] for name in scope), runs)) for scope in scopes}


def dense(scopes: list[tuple[str, ...]], sizes: dict[str, int]) -> dict[tuple[str, ...], np.ndarray]:
    """For every scope the 0-1 matrix from cells of the joint to its cells."""
    states = list(product(*(range(size) for size in sizes.values())))
    matrices = {}
    for scope in scopes:
        shape = tuple(sizes[name] for name in scope)
        matrix = np.zeros((int(np.prod(shape)), len(states)))
        for column, state in enumerate(states):
            code = dict(zip(sizes, state, strict=True))
            matrix[np.ravel_multi_index(tuple(code[name] for name in scope), shape), column] = 1
        matrices[scope] = matrix
    return matrices


# ------------------------------------------------------------------------------------------ errors


def test_errors_of_the_truth_are_zero() -> None:
    found = measured.errors(DATA, measured.single(TRUTH.theta))
    for metric in ("cpt", "wcpt", "marg", "cond"):
        assert found[metric] == pytest.approx([0], abs=1e-12), metric
    assert 0 <= found["kl"][0] < len(TRUTH.theta) * 1e-4, "the mixing alone"


def test_errors_on_two_nodes() -> None:
    """By hand: rows (.8, .2) and (.1, .9) of b are released as (.7, .3) and (.1, .9); P(a) is right."""
    network = network_of({"a": 2, "b": 2}, "a>b")
    theta = dc.Tables(network, {"a": np.array([0.25, 0.75]), "b": np.array([[0.8, 0.2], [0.1, 0.9]])})
    wrong = dc.Tables(network, {"a": theta["a"], "b": np.array([[0.7, 0.3], [0.1, 0.9]])})
    drawn = measured.Data.drawn(measured.Truth.of(theta, "two"), 10, np.random.default_rng(1))
    queries = (measured.Query("b"),) * measured.QUERIES + (measured.Query("a", (("b", 1),)),) * measured.QUERIES
    answers = (np.array([0.275, 0.725]),) * measured.QUERIES + (np.array([0.05, 0.675]) / 0.725,) * measured.QUERIES
    data = measured.Data(drawn.truth, drawn.codes, drawn.counts, queries, answers)
    found = measured.errors(data, measured.stacked([theta, wrong]))
    true, released = np.array([0.8, 0.2]), np.array([0.7, 0.3]) * (1 - measured.MIXED) + measured.MIXED / 2
    wanted = {
        "cpt": 0.2 / 2 / 2,
        "wcpt": 0.2 * 0.25 / 2,
        "kl": 0.25 * (true * np.log(true / released)).sum(),
        "marg": 2 * 0.25 * 0.1,
        "cond": 2 * (0.075 / 0.75 - 0.05 / 0.725),
    }
    for metric, value in wanted.items():
        assert found[metric][0] == pytest.approx(0, abs=1e-4)
        assert found[metric][1] == pytest.approx(value, abs=1e-4 if metric == "kl" else 1e-12), metric


def test_an_impossible_evidence_is_answered_by_nothing() -> None:
    network = network_of({"a": 2, "b": 2}, "a>b")
    theta = dc.Tables(network, {"a": np.array([0.5, 0.5]), "b": np.array([[0.5, 0.5], [0.5, 0.5]])})
    never = dc.Tables(network, {"a": theta["a"], "b": np.array([[1.0, 0.0], [1.0, 0.0]])})
    drawn = measured.Data.drawn(measured.Truth.of(theta, "two"), 10, np.random.default_rng(1))
    queries = (measured.Query("a"),) * measured.QUERIES + (measured.Query("a", (("b", 1),)),) * measured.QUERIES
    data = measured.Data(drawn.truth, drawn.codes, drawn.counts, queries, (np.array([0.5, 0.5]),) * len(queries))
    assert measured.errors(data, measured.single(never))["cond"] == pytest.approx([1])


def test_queries_that_cost_too_much_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST_CELLS", 4)
    asked = measured.Data.drawn(TRUTH, 100, np.random.default_rng(0)).queries
    network = TRUTH.theta.network
    assert len(asked) == 2 * measured.QUERIES
    assert all(exact_laws.joint_cost(network, [one.target], dict(one.evidence)) <= 4 for one in asked)
    assert {one.target for one in asked[: measured.QUERIES]} == {"asia", "smoke", "tub", "lung", "bronc"}


# ------------------------------------------------------------------------------------------ mutual consistency

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}


def test_two_tables_that_overlap_agree_by_least_squares() -> None:
    """With one intersection the step is least squares: compare with the solution over the whole joint."""
    scopes = [("a", "b", "c"), ("d", "c")]
    tables = some_tables(scopes, SIZES, 3, 1)
    matrices = dense(scopes, SIZES)
    whole = np.concatenate([matrices[scope] for scope in scopes])
    values = np.concatenate([tables[scope].reshape(-1, 3) for scope in scopes])
    joint = np.linalg.lstsq(whole, values, rcond=None)[0]
    found = consistency.consistent(tables)
    for scope in scopes:
        assert found[scope].reshape(-1, 3) == pytest.approx(matrices[scope] @ joint, abs=1e-10)


def test_tables_agree_afterwards() -> None:
    scopes = [("a", "b"), ("b", "c"), ("c", "a", "d"), ("b", "d"), ("d",)]
    found = consistency.consistent(some_tables(scopes, SIZES, 2, 2))
    for common in consistency.intersections(scopes):
        margins = []
        for scope, table in found.items():
            if common <= set(scope):
                kept = [scope.index(name) for name in sorted(common)]
                margins.append(np.einsum(table, [*range(len(scope)), 9], [*kept, 9]))
        assert all(margin == pytest.approx(margins[0], abs=1e-10) for margin in margins), common


def test_consistent_tables_stay() -> None:
    scopes = [("a", "b"), ("b", "c"), ("c", "a", "d"), ("b", "d"), ("d",)]
    joint = np.random.default_rng(4).random((*SIZES.values(), 2))
    axes = {name: axis for axis, name in enumerate(SIZES)}
    tables = {scope: np.einsum(joint, [0, 1, 2, 3, 9], [*(axes[name] for name in scope), 9]) for scope in scopes}
    for scope, table in consistency.consistent(tables).items():
        assert table == pytest.approx(tables[scope], abs=1e-12)


def test_intersections() -> None:
    found = consistency.intersections([("a", "b", "c"), ("b", "c", "d"), ("c", "d", "a")])
    assert found == [frozenset(names) for names in ("", "c", "ac", "bc", "cd")]


def test_projection_keeps_the_total() -> None:
    table = np.array([[0.5, -0.3, 0.6], [0.2, 0.2, 0.6], [-1.0, 0.4, 0.1]]).T[:, None]
    found = consistency.projected(table)[:, 0]
    assert found[:, 0] == pytest.approx([0.35, 0, 0.45])
    assert found[:, 1] == pytest.approx([0.2, 0.2, 0.6])
    assert found[:, 2] == pytest.approx([1 / 3] * 3), "a total that is not positive"


# ------------------------------------------------------------------------------------------ D-Ind and ratios


def test_d_ind_without_noise_is_what_was_counted() -> None:
    counts = {node: table[..., None] + 1.0 for node, table in DATA.counts.tables.items()}
    joint = {"a": np.array([3.0, 7.0])[:, None], "b": np.array([[1.0, 2.0], [3.0, 4.0]])[..., None]}
    network = network_of({"a": 2, "b": 2}, "a>b")
    found = chowdhury.both_forms(network, joint, 1e9, 2, np.random.default_rng(0))
    for form in chowdhury.FORMS:
        assert found[form]["a"][:, 1] == pytest.approx([0.3, 0.7], abs=1e-6)
        assert found[form]["b"][..., 1] == pytest.approx(np.array([[1 / 3, 2 / 3], [3 / 7, 4 / 7]]), abs=1e-6)
    wide = chowdhury.both_forms(TRUTH.theta.network, counts, [1e9, 0.1], 2, np.random.default_rng(0))["D-Ind"]
    exact = counts["dysp"] / counts["dysp"].sum(axis=-2, keepdims=True)
    assert wide["dysp"][..., :1] == pytest.approx(exact, abs=1e-5)
    assert np.abs(wide["dysp"][..., 1:] - exact).max() > 0.01, "each run has its own epsilon"


def test_replacing_costs_d_ind_twice() -> None:
    """Twice the noise; the mean of 30 runs has a standard error of a few percent, the errors differ by more than 20."""
    both = [baselines.on_grid(DATA, relation, 3, np.random.default_rng(1)) for relation in dc.tools.RECORD_RELATIONS]
    moved = [cells_moved(relation) for relation in dc.tools.RECORD_RELATIONS]
    assert sorted(moved) == [1, 2]
    errors = {m: grid["D-Ind"]["wcpt"].mean(axis=1)[4:10] for m, grid in zip(moved, both, strict=True)}
    assert np.all(errors[2] > 1.2 * errors[1])


def test_the_ratio_of_d_ind_with_itself_is_one() -> None:
    curves = baselines.on_grid(DATA, RELATION, 4, np.random.default_rng(2))["D-Ind"]["wcpt"]
    for point in (3, 7, 9):
        found, sign = budget.budget_ratio([curves], baselines.GRID, curves[point], baselines.GRID[point])
        assert found == pytest.approx(np.ones(5))
        assert sign == ""


def test_ratios() -> None:
    """The stronger form counts, half the error takes twice the epsilon, and ends of the grid are marked."""
    weak, strong = (np.repeat(factor / np.array(baselines.GRID)[:, None], 2, axis=1) for factor in (2, 1))
    found, sign = budget.budget_ratio([weak, strong], baselines.GRID, np.array([0.25, 0.25]), 2)
    assert found == pytest.approx(np.full(3, 2.0))
    assert sign == ""
    assert budget.budget_ratio([strong], baselines.GRID, np.array([1e-3, 1e-3]), 2)[1] == ">"
    found, sign = budget.budget_ratio([strong], baselines.GRID, np.array([1e3, 1e3]), 2)
    assert (found[0], sign) == (pytest.approx(0.015), "<")


def test_standard_errors() -> None:
    values = np.random.default_rng(3).random(7)
    assert budget.spread(budget.left_out(values)) == pytest.approx(values.std(ddof=1) / np.sqrt(7))


def test_study_and_report() -> None:
    methods = {name: utility.METHODS[name] for name in ("dind", "laplace", "noise-aware")}
    reference, cells = utility.study(TRUTH, methods, ["1", "10000"], RELATION, 1000, [0], [0, 1])
    assert [(cell.method, cell.epsilon) for cell in cells[:3]] == [(name, "1") for name in methods]
    assert {cell.signs["wcpt"] for cell in cells if cell.method == "laplace" and cell.epsilon == "10000"} == {"fl"}
    text = utility.report({"asia": reference}, cells)
    assert text.count("| asia | 1 |") == 2 * len(methods)
    assert utility.document({"epsilon": ["1"]}, {"asia": reference}, cells)["cells"][0]["network"] == "asia"


@pytest.mark.parametrize("read", [utility._fitted, utility._estimate])
def test_a_release_is_read_beside_us(read: Callable[[dc.Release, np.random.Generator], dc.Tables]) -> None:
    """Rows that sum to 1, near the truth at an epsilon at which noise hardly shows."""
    network, guarantee = TRUTH.theta.network, dc.Guarantee(epsilon=100, delta=0, relation=RELATION, unit="record")
    rng = np.random.default_rng(3)
    counts = dc.tools.count_codes(network, DATA.codes)
    release = dc.simulate(dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(network, 1.0), guarantee, rng=rng)
    found = read(release, rng)
    np.testing.assert_allclose(found["bronc"].sum(axis=-1), 1)
    np.testing.assert_allclose(found["bronc"], np.asarray(TRUTH.theta["bronc"]), atol=0.1)
