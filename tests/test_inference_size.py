"""Exact inference where size matters: budgets, chunks, and networks that no oracle can enumerate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import discreet as dc
from discreet.inference import exact_laws
from discreet.inference.exact_laws import Laws
from discreet.inference.junction_tree import plan_explanation
from discreet.inference.kernels import Pass
from networks import asia, theta_of
from oracle import conditional, random_draws, small, with_draws

EXACT = 1e-10


def dense() -> dc.Tables:
    """30 binary roots, and a child for every pair of them: one clique of 2^30 cells."""
    roots = [f"r{i}" for i in range(30)]
    pairs = [(first, second) for i, first in enumerate(roots) for second in roots[i + 1 :]]
    network = small(*((root, 2, ()) for root in roots), *((f"c{i}", 2, pair) for i, pair in enumerate(pairs)))
    return dc.Tables(network, lambda node: np.full((*network.shape(node), 1), 0.5), draws=1)


def test_a_dense_network_is_refused_with_its_size() -> None:
    cells = dense()
    evidence = {name: 0 for name in cells.network.nodes if name.startswith("c")}
    for ask in (
        lambda: Laws(cells).joint(("r0",), evidence),
        lambda: Laws(cells).log_probability(evidence),
        lambda: Laws(cells).most_probable(("r0",), evidence),
        lambda: Laws(cells).marginals(),
    ):
        with pytest.raises(dc.InputError, match=r"needs [\d,]{13,} cells for each draw, more than .* 16,777,216") as e:
            ask()
        assert int(str(e.value).split(" needs ")[1].split(" ")[0].replace(",", "")) >= 2**30
    # Without the children's evidence the same network is no trouble: they are barren.
    np.testing.assert_allclose(Laws(cells).joint(("r0", "r1")), 0.25)


def test_the_budget_counts_the_targets_clique(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three independent binary targets need 8 cells together."""
    cells = random_draws(small(("a", 2, ()), ("b", 2, ()), ("c", 2, ())), 2, seed=4)
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 8)
    assert Laws(cells).joint(("a", "b", "c")).shape == (2, 2, 2, 2)
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 7)
    with pytest.raises(dc.InputError, match=r"P\(a, b, c\) needs 8 cells for each draw, more than the budget of 7"):
        Laws(cells).joint(("a", "b", "c"))


def test_the_cost_of_a_query_is_known_before() -> None:
    network = asia().network
    assert exact_laws.joint_cost(network, ("asia",), {}) == 2  # a root: its descendants are barren
    assert exact_laws.joint_cost(network, ("tub",), {}) == 4
    assert exact_laws.joint_cost(network, ("tub",), {"asia": 0}) == 2
    assert exact_laws.joint_cost(network, ("asia", "smoke", "xray"), {"either": 1}) >= 8
    roots = dense().network
    assert exact_laws.joint_cost(roots, ("r0", "r1"), {}) == 4
    assert exact_laws.joint_cost(roots, ("r0",), {name: 0 for name in roots.nodes if name[0] == "c"}) >= 2**30


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 300, 2000])
def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch, size: int, dtype: type[np.floating]) -> None:
    cells = random_draws(asia().network, 37, seed=5)
    evidence, targets = {"xray": 0, "dysp": 1}, ("lung", "bronc")

    def everything() -> list[np.ndarray]:
        found = [Laws(cells, dtype).joint(targets, evidence)]
        found += [Laws(cells, dtype).log_probability(evidence)]
        found += Laws(cells, dtype).marginals(evidence).values()
        for each in Laws(cells, dtype).most_probable(targets, evidence):
            found += [each.probability, np.array([each.best, *each.states.values()])]
        return found

    whole = everything()
    monkeypatch.setattr(exact_laws, "CHUNK_BYTES", size)
    monkeypatch.setattr(exact_laws, "CHUNK_DRAWS", 1)
    for part, one in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(part, one, rtol=1e-13 if dtype is np.float64 else 1e-6)
    monkeypatch.setattr(exact_laws, "LEAST_LOG", {np.float32: 1.0, np.float64: 1.0})  # all in logarithms
    for part, one in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(part, one, rtol=1e-12 if dtype is np.float64 else 1e-6)


@pytest.mark.parametrize(
    ("cache", "draws", "most", "lengths"),
    [
        (2**30, 1, 2**30, {37}),  # all at once
        (8 * 40 * 10, 1, 2**30, {10, 7}),  # as many as the cache holds, in chunks of similar length
        (1, 20, 2**30, {19, 18}),  # at least 20
        (1, 20, 8 * 40 * 4, {4, 1}),  # unless they need too much memory
        (1, 20, 1, {1}),
    ],
)
def test_chunks_keep_to_their_memory(
    monkeypatch: pytest.MonkeyPatch, cache: int, draws: int, most: int, lengths: set[int]
) -> None:
    cells = random_draws(asia().network, 37, seed=5)
    for name, value in (("CHUNK_BYTES", cache), ("CHUNK_DRAWS", draws), ("MOST_CLIQUE_BYTES", most)):
        monkeypatch.setattr(exact_laws, name, value)
    seen: set[int] = set()
    true = Pass.marginals

    def spy(chunk: Pass, table: np.ndarray) -> np.ndarray:
        assert chunk.tree.cells == 40
        seen.add(table.shape[-1])
        return true(chunk, table)

    monkeypatch.setattr(Pass, "marginals", spy)
    Laws(cells).marginals()
    assert seen == lengths


def test_the_memory_of_an_explanation_holds_the_sum_too() -> None:
    """A network on which the order that is free, being greedy, costs more than the one that leaves the targets last."""
    network = small(
        ("n0", 2, ()),
        ("n1", 4, ("n0",)),
        ("n2", 4, ("n0", "n1")),
        ("n4", 2, ("n2",)),
        ("n5", 3, ("n1",)),
        ("n7", 3, ("n0", "n4", "n5")),
        ("n8", 4, ("n7",)),
    )
    targets = ("n7", "n8")
    plan = plan_explanation(network, targets, frozenset())
    assert plan.tree.cells < plan.total.cells == plan.cells
    cells = random_draws(network, 2, seed=9)
    found = Laws(cells).most_probable(targets, {})
    exact = conditional(cells, targets, {})
    for each in found:
        np.testing.assert_allclose(each.probability, exact[tuple(each.states.values())], atol=EXACT)


# ------------------------------------------------------------------------------------------------- larger networks


@pytest.mark.parametrize("name", ["alarm", "hailfinder", "win95pts"])
def test_marginals_agree_with_probabilities_of_evidence(name: str) -> None:
    """P(x | e) = P(x, e) / P(e), where the right side uses other cliques and no downward pass."""
    network = theta_of(name).network
    cells = random_draws(network, 3, seed=6)
    rng = np.random.default_rng(7)
    observed = rng.choice(network.nodes, 6, replace=False)
    evidence = {str(node): int(rng.integers(network.schema[str(node)].size)) for node in observed}
    base = Laws(cells).log_probability(evidence)
    found = Laws(cells).marginals(evidence)
    for node in network.nodes:
        if node in evidence:
            continue
        np.testing.assert_allclose(found[node].sum(axis=0), 1, atol=EXACT)
        expected = [
            np.exp(Laws(cells).log_probability({**evidence, node: code}) - base)
            for code in range(network.schema[node].size)
        ]
        np.testing.assert_allclose(found[node], expected, atol=EXACT)
        np.testing.assert_allclose(Laws(cells).joint((node,), evidence), expected, atol=EXACT)


def test_alarm_marginals_agree_with_sums_over_ancestors() -> None:
    """One einsum over all ancestors' tables, nothing planned by the package."""
    theta = theta_of("alarm")
    network = theta.network
    found = Laws(with_draws(theta)).marginals()
    letters = {node: position for position, node in enumerate(network.nodes)}
    for node in network.nodes:
        above = [name for name in network.nodes if name in network.ancestors((node,))]
        operands = []
        for name in above:
            operands += [theta[name], [letters[other] for other in network.family(name)]]
        expected = np.einsum(*operands, [letters[node]], optimize="greedy")
        # The file's rows are rounded and sum to 1 within 1e-7.
        np.testing.assert_allclose(found[node][:, 0], expected / expected.sum(), atol=1e-7)


def test_mpe_of_alarm_is_not_improved_by_any_change() -> None:
    """The most probable explanation under one draw beats all states that differ in one or two variables of a family."""
    cells = random_draws(theta_of("alarm").network, 1, seed=8)
    network, evidence = cells.network, {"HRBP": 0, "CVP": 2}
    targets = tuple(name for name in network.nodes if name not in evidence)
    first = Laws(cells).most_probable(targets, evidence)[0]
    states, probability = first.states, first.probability

    def log_joint(state: Mapping[str, int]) -> float:
        return sum(float(np.log(cells[n][tuple(state[v] for v in network.family(n))][0])) for n in network.nodes)

    best = {**evidence, **states}
    assert np.log(probability[0]) == pytest.approx(log_joint(best) - Laws(cells).log_probability(evidence)[0], abs=1e-9)
    for node in network.nodes:
        free = [name for name in network.family(node) if name not in evidence]
        for codes in np.ndindex(*(network.schema[name].size for name in free)):
            assert log_joint({**best, **dict(zip(free, codes, strict=True))}) <= log_joint(best) + 1e-12
