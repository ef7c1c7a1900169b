"""One joint law a draw: what a tree of cliques fits is what plain fitting of the whole joint table gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference import clique_laws, clique_tours
from discreet.inference.clique_laws import FittedLaws, fit_laws
from discreet.inference.clique_tours import CliqueTree, plan_tours
from discreet.inference.exact_laws import Laws
from discreet.model.schema import Scope

Named = tuple[Scope, np.ndarray]
Sizes = Mapping[str, int]

SIZES = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 4, "f": 2, "g": 3, "?h": 2}
"""A variable of one state is among them."""
SCOPES: dict[str, list[Scope]] = {
    "one variable": [("b",)],
    "one state": [("d",)],
    "one clique": [("a", "b", "c")],
    "chain": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")],
    "star": [("b", name) for name in "acdefg"],
    "loop": [("a", "b"), ("b", "e"), ("e", "g"), ("g", "a")],
    "families": [("a",), ("b", "a"), ("c", "a", "b"), ("e", "c", "d"), ("f", "e"), ("g", "e", "f")],
    "apart": [("a", "b"), ("c",), ("e", "f"), ("f", "g")],
    "hidden": [("?h", *names) for names in ("ab", "bce", "ef", "g")],
}
WORKED_OUT = 1e-5
"""Difference of probabilities that single precision explains, with sums of some hundred cells."""


# ------------------------------------------------------------------------------------------------ the whole joint table


def aligned(named: Named, names: Sequence[str]) -> np.ndarray:
    """An array with an axis for every name, of length 1 where it has none."""
    scope, array = named
    turned = array.transpose([*(scope.index(name) for name in names if name in scope), len(scope)])
    return turned.reshape(*(array.shape[scope.index(name)] if name in scope else 1 for name in names), -1)


def joint_of(factors: Iterable[Named], sizes: Sizes, draws: int) -> np.ndarray:
    """The normalised product of factors, every cell by itself."""
    joint = np.ones((*sizes.values(), draws))
    for factor in factors:
        joint = joint * aligned(factor, list(sizes))
    return joint / joint.sum(axis=tuple(range(len(sizes))))


def margin(joint: np.ndarray, sizes: Sizes, scope: Scope) -> np.ndarray:
    names = list(sizes)
    summed = joint.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in scope))
    left = [name for name in names if name in scope]
    return summed.transpose([*map(left.index, scope), len(left)])


def fitted(joint: np.ndarray, sizes: Sizes, targets: Sequence[Named], rounds: int = 500) -> np.ndarray:
    """Plain proportional fitting."""
    for _ in range(rounds):
        for scope, wanted in targets:
            ratio = wanted / np.maximum(margin(joint, sizes, scope), 1e-300)
            joint = joint * aligned((scope, ratio), list(sizes))
    return joint


def chained(laws: FittedLaws, sizes: Sizes, draws: int) -> np.ndarray:
    """The joint table of rows, by the chain rule; each is conditioned on what comes before it."""
    assert set(laws.rows) == set(sizes)
    seen, joint = set[str](), np.ones((*sizes.values(), draws))
    for name, (conditions, rows) in laws.rows.items():
        assert seen.issuperset(conditions) and rows.dtype == np.float32
        assert rows.shape == (*(sizes[condition] for condition in conditions), sizes[name], draws)
        assert np.isfinite(rows).all() and rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=-2), 1, atol=1e-6)
        joint = joint * aligned(((*conditions, name), rows.astype(float)), list(sizes))
        seen.add(name)
    return joint


# ---------------------------------------------------------------------------------------------------------------- cases


def sizes_of(scopes: Iterable[Scope]) -> dict[str, int]:
    used = {name for scope in scopes for name in scope}
    return {name: size for name, size in SIZES.items() if name in used}


def random_factors(scopes: Iterable[Scope], draws: int, rng: np.random.Generator) -> list[Named]:
    return [(scope, rng.gamma(0.7, size=(*(SIZES[name] for name in scope), draws)) + 0.01) for scope in scopes]


def random_targets(scopes: Iterable[Scope], sizes: Sizes, draws: int, rng: np.random.Generator) -> list[Named]:
    """Margins of one joint law, so that all can be met."""
    other = joint_of([(tuple(sizes), rng.gamma(0.7, size=(*sizes.values(), draws)) + 0.01)], sizes, draws)
    return [(scope, margin(other, sizes, scope)) for scope in scopes]


def case(name: str, draws: int = 5) -> tuple[CliqueTree, Sizes, list[Named], list[Named]]:
    """A tree, sizes, factors and targets: of every scope a part, its names turned round."""
    scopes, rng = SCOPES[name], np.random.default_rng([7, len(name)])
    sizes = sizes_of(scopes)
    parts = dict.fromkeys(tuple(v for v in scope[::-1] if v != "?h")[:2] for scope in scopes)
    factors = [*random_factors(scopes, draws, rng), *random_factors([scopes[0][:1]], draws, rng)]
    return CliqueTree.of(scopes, sizes), sizes, factors, random_targets(parts, sizes, draws, rng)


def small_chunks(monkeypatch: pytest.MonkeyPatch, draws: int) -> None:
    monkeypatch.setattr(clique_laws, "CHUNK_VALUES", 1)
    monkeypatch.setattr(clique_laws, "LEAST_CHUNK", draws)


# ---------------------------------------------------------------------------------------------------------------- trees


@pytest.mark.parametrize("name", SCOPES)
def test_a_tree_holds_its_scopes_and_runs_through(name: str) -> None:
    scopes = SCOPES[name]
    tree, first = CliqueTree.of(scopes, SIZES), list(dict.fromkeys(v for scope in scopes for v in scope))
    assert tree.cells == sum(math.prod(SIZES[v] for v in clique) for clique in tree.cliques)
    seen = set[str]()
    for index, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        assert parent < index
        shared = [v for v in tree.cliques[parent] if v in clique] if parent >= 0 else []
        own = [v for v in clique if v not in shared]
        assert clique == (*shared, *own) and tree.shared(index) == tuple(shared)
        assert seen.isdisjoint(own) and own == sorted(own, key=first.index)
        seen.update(own)
    for scope in scopes:
        holders = [index for index, clique in enumerate(tree.cliques) if set(scope) <= set(clique)]
        home = tree.home(scope)
        assert home in holders
        assert math.prod(tree.shape(home)) == min(math.prod(tree.shape(index)) for index in holders)


def test_a_parent_is_the_smallest_clique_that_has_what_is_shared() -> None:
    """Messages are passes over both cliques: those of leaves are not to go over the large one."""
    large, small, leaves = ("a", "b", "c", "e", "g"), ("a", "f"), [("a", f"x{number}") for number in range(5)]
    tree = CliqueTree.of([large, small, *leaves], SIZES | {leaf[1]: 3 for leaf in leaves})
    beside = [parent for parent, clique in zip(tree.parents, tree.cliques, strict=True) if set(clique) != set(large)]
    assert sum(parent >= 0 and set(tree.cliques[parent]) == set(large) for parent in beside) <= 1


def test_what_no_clique_holds_has_no_home() -> None:
    tree = CliqueTree.of(SCOPES["chain"], SIZES)
    assert tree.home(("a", "c")) is None and tree.home(("zz",)) is None and tree.home(()) is not None
    for factors, targets in (([("a", "c")], []), ([], [("zz",)])):
        with pytest.raises(ValueError, match="no clique holds"):
            plan_tours(tree, factors, targets)


def test_without_variables_there_are_no_rows() -> None:
    tree = CliqueTree.of([], {})
    assert tree.cells == 0 and tree.home(()) is None and not fit_laws(tree, [], []).rows


# ----------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("name", SCOPES)
def test_a_product_of_factors_is_read_off_as_it_is(name: str) -> None:
    tree, sizes, factors, _ = case(name)
    laws = fit_laws(tree, factors, [])
    np.testing.assert_allclose(chained(laws, sizes, 5), joint_of(factors, sizes, 5), atol=WORKED_OUT)
    assert laws.misfit.shape == (0,)


@pytest.mark.parametrize("name", SCOPES)
def test_a_fitted_law_is_that_of_the_whole_joint_table(name: str) -> None:
    tree, sizes, factors, targets = case(name)
    laws = fit_laws(tree, factors, targets, tours=200)
    found = chained(laws, sizes, 5)
    np.testing.assert_allclose(found, fitted(joint_of(factors, sizes, 5), sizes, targets), atol=WORKED_OUT)
    for scope, wanted in targets:
        np.testing.assert_allclose(margin(found, sizes, scope), wanted, atol=WORKED_OUT)
    assert laws.misfit[-1] < WORKED_OUT


def test_wider_tables_answer_as_the_joint_does() -> None:
    """As callers use it: rows are tables of a network with a hidden variable, and inference asks them."""
    tree, sizes, factors, targets = case("hidden")
    laws = fit_laws(tree, factors, targets, tours=200)
    variables = tuple(dc.Variable(name, tuple(f"s{code}" for code in range(sizes[name]))) for name in sizes)
    wide = dc.Network(variables, {name: conditions for name, (conditions, _) in laws.rows.items()})
    tables = dc.Tables(wide, {name: rows for name, (_, rows) in laws.rows.items()}, draws=5)
    truth = fitted(joint_of(factors, sizes, 5), sizes, targets)
    for pair in combinations([name for name in sizes if name != "?h"], 2):
        np.testing.assert_allclose(Laws(tables).joint(pair), margin(truth, sizes, pair), atol=WORKED_OUT)


def test_factors_that_are_alike_in_all_draws() -> None:
    tree, sizes, factors, targets = case("families")
    alike = [(scope, array[..., :1]) for scope, array in factors[:3]]
    repeated = [(scope, np.repeat(array, 5, axis=-1)) for scope, array in alike]
    one = fit_laws(tree, [*alike, *factors[3:]], targets)
    other = fit_laws(tree, [*repeated, *factors[3:]], targets)
    np.testing.assert_array_equal(chained(one, sizes, 5), chained(other, sizes, 5))
    only = fit_laws(tree, [(scope, array[..., :1]) for scope, array in factors], [])
    np.testing.assert_allclose(chained(only, sizes, 1)[..., 0], joint_of(factors, sizes, 5)[..., 0], atol=WORKED_OUT)


@pytest.mark.parametrize("together", [1, 2, 3, 7])
def test_draws_do_not_depend_on_those_they_are_worked_on_with(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, sizes, factors, targets = case("families", draws=7)
    whole = fit_laws(tree, factors, targets)
    small_chunks(monkeypatch, together)
    parts = fit_laws(tree, factors, targets)
    np.testing.assert_allclose(parts.misfit, whole.misfit, atol=1e-6)
    np.testing.assert_allclose(chained(parts, sizes, 7), chained(whole, sizes, 7), atol=1e-6)
    alone = fit_laws(
        tree,
        *([(scope, array[..., 4:5]) for scope, array in named] for named in (factors, targets)),
        tours=len(whole.misfit),
    )
    np.testing.assert_allclose(chained(alone, sizes, 1)[..., 0], chained(whole, sizes, 7)[..., 4], atol=WORKED_OUT)


def test_many_pairs_of_a_clique_are_fitted_in_small_cliques(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple("abcefg")
    sizes, rng = {name: SIZES[name] for name in names}, np.random.default_rng(3)
    tree, pairs = CliqueTree.of([names], sizes), list(combinations(names, 2))
    factors, targets = random_factors([names], 4, rng), random_targets(pairs, sizes, 4, rng)
    assert len(plan_tours(tree, [names], pairs).layouts) > 3
    laws = fit_laws(tree, factors, targets, tours=200)
    truth = fitted(joint_of(factors, sizes, 4), sizes, targets)
    np.testing.assert_allclose(chained(laws, sizes, 4), truth, atol=WORKED_OUT)
    monkeypatch.setattr(clique_tours, "MESSAGE_PASSES", 10**9)
    assert len(plan_tours(tree, [names], pairs).layouts) == 1
    plain = fit_laws(tree, factors, targets, tours=3)
    monkeypatch.undo()
    np.testing.assert_allclose(
        chained(fit_laws(tree, factors, targets, tours=3), sizes, 4), chained(plain, sizes, 4), atol=WORKED_OUT
    )


def test_a_tour_visits_what_has_targets_once_and_comes_back() -> None:
    tree = CliqueTree.of(SCOPES["chain"], {**SIZES, "d": 3})
    plan = plan_tours(tree, [], [("a",), ("b", "a")])
    home = tree.home(("a", "b"))
    assert [step for step in plan.steps if step[0] == "fit"] == [("fit", 0), ("fit", 1)]
    downs = [index for kind, index in plan.steps if kind == "down"]
    assert sorted(downs) == sorted(index for kind, index in plan.steps if kind == "up")
    on_the_way = set[int]()
    while home is not None and tree.parents[home] >= 0:
        on_the_way.add(home)
        home = tree.parents[home]
    assert set(downs) == on_the_way


# ------------------------------------------------------------------------------------------------------------- misfits


def test_the_misfit_is_the_largest_distance_of_each_draw_on_average() -> None:
    tree, sizes, factors, targets = case("apart")
    lone = [targets[0], targets[2]]  # in components of their own: fitting one does not move the other
    before = joint_of(factors, sizes, 5)
    distances = [
        np.abs(margin(before, sizes, scope) - wanted).sum(axis=tuple(range(wanted.ndim - 1))) for scope, wanted in lone
    ]
    laws = fit_laws(tree, factors, lone)
    assert laws.misfit[0] == pytest.approx(np.max(distances, axis=0).mean(), abs=WORKED_OUT)
    assert len(laws.misfit) == 2 and laws.misfit[1] < clique_laws.LEAST_MISFIT


def test_of_contradictions_in_a_clique_the_last_one_is_met_and_tours_end() -> None:
    tree, sizes, factors, _ = case("one clique")
    rng = np.random.default_rng(5)
    targets = [
        (scope, rng.dirichlet(np.ones(math.prod(SIZES[v] for v in scope)), 5).T.reshape(*(SIZES[v] for v in scope), 5))
        for scope in (("a", "b"), ("b", "c"), ("c",), ("b", "a"))
    ]
    for order in (targets, targets[::-1]):
        laws = fit_laws(tree, factors, order, tours=50)
        scope, wanted = order[-1]
        np.testing.assert_allclose(margin(chained(laws, sizes, 5), sizes, scope), wanted, atol=WORKED_OUT)
        assert 2 < len(laws.misfit) < 50 and laws.misfit[-1] > 0.1
    assert len(fit_laws(tree, factors, targets, tours=2).misfit) == 2


# ---------------------------------------------------------------------------------------------------------------- zeros


def test_cells_that_cannot_occur_stay_empty() -> None:
    tree, sizes, factors, _ = case("families")
    rng = np.random.default_rng(6)
    for _, array in factors:
        array[rng.random(array.shape) < 0.15] = 0
    factors = [(scope, array + 1e-3 * (array.sum(axis=-2, keepdims=True) == 0)) for scope, array in factors]
    before = joint_of(factors, sizes, 5)
    assert np.isfinite(before).all()
    inside = joint_of([(tuple(sizes), before * rng.gamma(1.0, size=before.shape))], sizes, 5)
    targets = [(scope, margin(inside, sizes, scope)) for scope in SCOPES["families"]]
    found = chained(fit_laws(tree, factors, targets, tours=400), sizes, 5)
    assert not found[before == 0].any()
    np.testing.assert_allclose(found, fitted(before, sizes, targets, 3000), atol=1e-4)


def test_a_target_gets_what_the_law_can_have_of_it() -> None:
    """The law knows a = 0 alone in the first draw, and b = 2 never."""
    sizes = {"a": 2, "b": 3}
    law = np.full((2, 3, 2), 1.0)
    law[1, :, 0] = law[:, 2] = 0
    targets = [
        (("b",), np.array([[0.3, 0.3], [0.1, 0.1], [0.6, 0.6]])),
        (("a",), np.array([[0.0, 0.4], [1.0, 0.6]])),  # nothing that the first draw can have
    ]
    laws = fit_laws(CliqueTree.of([("a", "b")], sizes), [(("a", "b"), law)], targets)
    found = chained(laws, sizes, 2)
    np.testing.assert_allclose(margin(found, sizes, ("b",)), [[0.75, 0.75], [0.25, 0.25], [0, 0]], atol=1e-6)
    np.testing.assert_allclose(margin(found, sizes, ("a",)), [[1.0, 0.4], [0.0, 0.6]], atol=1e-6)
    assert np.isfinite(laws.misfit).all()


def test_rows_of_what_cannot_occur_are_even() -> None:
    sizes = {"a": 2, "b": 2, "c": 4}
    never = [
        (("a",), np.array([[1.0, 0.0], [0.0, 0.0]])),
        (("a", "b"), np.ones((2, 2, 1))),
        (("b", "c"), np.ones((2, 4, 1))),
    ]
    tree = CliqueTree.of([("a", "b"), ("b", "c")], sizes)
    targets = [(("c",), np.array([[0.7], [0.1], [0.1], [0.1]])), (("b",), np.array([[1.0], [0.0]]))]
    laws = fit_laws(tree, never, targets)
    rows = laws.rows
    found = chained(laws, sizes, 2)
    np.testing.assert_allclose(margin(found, sizes, ("a",))[:, 0], [1, 0], atol=1e-6)
    np.testing.assert_allclose(margin(found, sizes, ("b",))[:, 0], [1, 0], atol=1e-6)
    for name, (conditions, array) in rows.items():
        if "b" in conditions:
            impossible = array.take(1, axis=conditions.index("b"))[..., 0]
            np.testing.assert_allclose(impossible, 1 / sizes[name], atol=1e-6)


# -------------------------------------------------------------------------------------------------------------- scales


def test_factors_have_any_scale_in_every_draw() -> None:
    tree, sizes, factors, targets = case("families")
    scales = 10.0 ** np.array([-250, -60, 0, 60, 250])
    scaled = [(scope, array * scales) for scope, array in factors]
    plain = chained(fit_laws(tree, factors, targets), sizes, 5)
    np.testing.assert_allclose(chained(fit_laws(tree, scaled, targets), sizes, 5), plain, atol=WORKED_OUT)


@pytest.mark.parametrize("inside", [False, True])
def test_hundreds_of_factors_do_not_underflow(inside: bool) -> None:
    """300 witnesses of one coin, each as likely to be wrong, in a clique with it or in cliques of their own.

    Of 150 pairs each says one thing and the other the opposite: together they say nothing but what the prior said.
    """
    sizes = {"coin": 2} | ({} if inside else {f"w{number}": 2 for number in range(300)})
    factors: list[Named] = [(("coin",), np.array([[0.3], [0.7]]))]
    for number in range(300):
        said = np.array([[1e-6], [1.0]])[:: 1 if number % 2 else -1]
        if inside:
            factors.append((("coin",), said))
        else:
            told = np.stack([said, np.zeros((2, 1))], axis=1)
            factors.append((("coin", f"w{number}"), told))
    tree = CliqueTree.of([scope for scope, _ in factors], sizes)
    conditions, rows = fit_laws(tree, factors, []).rows["coin"]
    assert conditions == ()
    np.testing.assert_allclose(rows[:, 0], [0.3, 0.7], atol=WORKED_OUT)


# ----------------------------------------------------------------------------------------------------------- any model


@st.composite
def models(draw: st.DrawFn) -> tuple[dict[str, int], list[Scope], list[Scope], int, int]:
    """Sizes, scopes of factors, scopes of targets that lie in them, a seed and a number of draws."""
    names = "abcdef"[: draw(st.integers(1, 6))]
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    subsets = st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True).map(tuple)
    scopes = [*draw(st.lists(subsets, max_size=5)), *((name,) for name in names)]
    targets = draw(st.lists(st.sampled_from(scopes).flatmap(st.permutations).map(tuple), max_size=5))
    return sizes, scopes, targets, draw(st.integers(0, 10**6)), draw(st.integers(1, 3))


@given(models())
def test_any_model_is_fitted_as_its_whole_joint_table_is(
    model: tuple[dict[str, int], list[Scope], list[Scope], int, int],
) -> None:
    sizes, scopes, aims, seed, draws = model
    rng = np.random.default_rng(seed)
    factors = [(scope, rng.uniform(0.2, 1, (*(sizes[name] for name in scope), draws))) for scope in scopes]
    other = joint_of([(tuple(sizes), rng.uniform(0.2, 1, (*sizes.values(), draws)))], sizes, draws)
    targets = [(scope, margin(other, sizes, scope)) for scope in aims]
    laws = fit_laws(CliqueTree.of(scopes, sizes), factors, targets, tours=100)
    truth = fitted(joint_of(factors, sizes, draws), sizes, targets, 100)
    np.testing.assert_allclose(chained(laws, sizes, draws), truth, atol=WORKED_OUT)
