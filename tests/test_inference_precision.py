"""Exact inference in both precisions, against the enumerated joint and against other packages where installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

import discreet as dc
from discreet.inference.exact_laws import EVALUATED_EXPLANATIONS, Laws
from discreet.inference.junction_tree import plan_joint
from discreet.inference.kernels import Pass
from folding import every
from networks import asia, theta_of
from oracle import conditional, event, most_probable, random_draws, small
from strategies import questions

SINGLE = 2e-6
"""Largest error of an answer in float32."""


@given(questions())
def test_single_precision_answers_as_the_oracle(question: tuple[dc.Tables, tuple[str, ...], dict[str, int]]) -> None:
    check_single(*question)


def check_single(cells: dc.Tables, targets: tuple[str, ...], evidence: Mapping[str, int]) -> None:
    """All four questions in float32; the same draws are impossible."""
    expected = conditional(cells, targets, evidence)
    found = Laws(cells, np.float32).joint(targets, evidence)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=SINGLE)
    for name, table in Laws(cells, np.float32).marginals(evidence).items():
        assert table.dtype == np.float32
        np.testing.assert_allclose(table, conditional(cells, (name,), evidence), atol=SINGLE)
    logs = Laws(cells, np.float32).log_probability(evidence)
    assert logs.dtype == np.float64
    np.testing.assert_allclose(np.exp(logs), event(cells, (), evidence), rtol=SINGLE)
    for each in Laws(cells, np.float32).most_probable(targets, evidence):
        assert each.probability.dtype == np.float32
        np.testing.assert_allclose(each.probability, expected[tuple(each.states.values())], atol=SINGLE)


@every("name", ["alarm", "win95pts"])
def test_single_precision_answers_as_double_on_larger_networks(name: str) -> None:
    network = theta_of(name).network
    cells = random_draws(network, 40, seed=1, concentration=0.5)
    leaves = [node for node in network.nodes if not network.children(node)]
    evidence = dict.fromkeys(leaves[:6], 0)
    double = Laws(cells).marginals(evidence)
    for node, table in Laws(cells, np.float32).marginals(evidence).items():
        np.testing.assert_allclose(table, double[node], atol=SINGLE)
    logs = Laws(cells).log_probability(evidence)
    np.testing.assert_allclose(Laws(cells, np.float32).log_probability(evidence), logs, atol=2 * SINGLE)
    targets = tuple(node for node in network.nodes if node not in evidence)[:3]
    found = Laws(cells, np.float32).joint(targets, evidence)
    np.testing.assert_allclose(found, Laws(cells).joint(targets, evidence), atol=SINGLE)


def test_evidence_that_single_precision_cannot_hold() -> None:
    """Two children say opposite things of a, each by a factor that underflows: that draw is done in float64.

    In float32 the product of their likelihoods would be 0, and the evidence impossible.
    """
    network = small(("a", 2, ()), ("b", 2, ("a",)), ("c", 2, ("a",)), ("d", 2, ("a",)))
    arrays = {node: np.array(table) for node, table in random_draws(network, 3, seed=2).items()}
    arrays["b"][..., 1] = [[1e-50, 1], [0.5, 0.5]]
    arrays["c"][..., 1] = [[0.5, 0.5], [3e-50, 1]]
    cells = dc.Tables(network, arrays, draws=3)
    evidence = {"b": 0, "c": 0}
    check_single(cells, ("a", "d"), evidence)
    check_single(cells, ("d",), {**evidence, "a": 1})
    found = Laws(cells, np.float32).joint(("a",), evidence)
    weights = arrays["a"][:, 1] * [0.5e-50, 1.5e-50]
    np.testing.assert_allclose(found[:, 1], weights / weights.sum(), rtol=SINGLE)


def test_a_star_of_many_observed_children_in_single_precision() -> None:
    """200 observations of probability 0.1 or so, whose product no float32 holds."""
    names = [f"x{i}" for i in range(200)]
    network = small(("c", 2, ()), *((name, 2, ("c",)) for name in names))
    cells = random_draws(network, 4, seed=3, concentration=5)
    evidence = dict.fromkeys(names, 0)
    found = Laws(cells, np.float32).marginals(evidence)["c"]
    np.testing.assert_allclose(found, Laws(cells).marginals(evidence)["c"], atol=SINGLE)
    logs = sum(np.log(cells[name][:, 0]) for name in names) + np.log(cells["c"])
    np.testing.assert_allclose(Laws(cells, np.float32).log_probability(evidence), np.logaddexp(*logs), rtol=1e-12)


def test_logarithms_are_summed_in_double_precision() -> None:
    """Sixty observations whose probability float32 holds exactly."""
    network = small(*((f"x{i}", 2, ()) for i in range(60)))
    cells = dc.Tables(network, dict.fromkeys(network.nodes, np.full((2, 1), 0.5)), draws=1)
    found = Laws(cells, np.float32).log_probability(dict.fromkeys(network.nodes, 1))
    assert found[0] == pytest.approx(60 * np.log(0.5), rel=1e-13)


def test_rare_evidence_leaves_rare_states_their_digits() -> None:
    """P(b | a, d) is 1e-300 for all states of a and d, and P(c = 0 | a) is 1e-18: their product is no float64."""
    network = small(("c", 2, ("a",)), ("a", 2, ()), ("d", 2, ()), ("b", 2, ("a", "d")))
    arrays = {"a": [0.3, 0.7], "d": [0.5, 0.5], "b": [[[1e-300, 1]] * 2] * 2, "c": [[1e-18, 1], [1e-18, 1]]}
    cells = dc.Tables(network, {node: np.array(table)[..., None] for node, table in arrays.items()}, draws=1)
    found = Laws(cells).marginals({"b": 0})
    for target, expected in (("c", [1e-18, 1]), ("a", [0.3, 0.7])):
        np.testing.assert_allclose(found[target][:, 0], expected, rtol=1e-12)


def test_tables_in_single_precision_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy is made of them, and none of tables in double precision that are asked in double precision."""
    seen: list[np.ndarray] = []
    true = Pass.marginals

    def spy(chunk: Pass, table: np.ndarray) -> object:
        seen.extend(chunk.factors)
        return true(chunk, table)

    monkeypatch.setattr(Pass, "marginals", spy)
    double = random_draws(asia().network, 5, seed=4)
    single = double.map(lambda array: array.astype(np.float32))
    for cells, dtype, shared in ((single, np.float32, True), (double, np.float64, True), (double, np.float32, False)):
        seen.clear()
        Laws(cells, dtype).marginals({"dysp": 0})
        assert all(array.dtype == dtype for array in seen)
        tables = [cells[node] for node in cells.network.nodes]
        assert all(np.shares_memory(one, other) == shared for one, other in zip(seen, tables, strict=True))
    found = Laws(single).marginals({"dysp": 0})
    assert all(table.dtype == np.float64 for table in found.values())


@every("dtype", [np.float16, np.int64, "float32", "three", None])
def test_other_precisions_are_refused(dtype: object) -> None:
    cells = random_draws(asia().network, 2, seed=5)
    for ask in (
        lambda: Laws(cells, dtype).joint(("lung",)),
        lambda: Laws(cells, dtype).marginals(),
        lambda: Laws(cells, dtype).log_probability({"lung": 0}),
        lambda: Laws(cells, dtype).most_probable(("lung",), {}),
    ):
        with pytest.raises(dc.InputError, match=r"works in numpy\.float32 or numpy\.float64, got"):
            ask()


# ------------------------------------------------------------------------------------------------------ explanations


@every("dtype", [np.float32, np.float64])
@every("evidence", [{}, {"dysp": 0}, {"xray": 1, "smoke": 0}])
def test_the_share_of_draws_that_favour_an_explanation(evidence: dict[str, int], dtype: type[np.floating]) -> None:
    """Counted over the enumerated joint of every draw; draws without zeros have no ties."""
    cells = random_draws(asia().network, 60, seed=6)
    for targets in (("lung", "bronc"), tuple(name for name in cells.network.nodes if name not in evidence)):
        favoured = Counter(tuple(states.values()) for states, _ in most_probable(cells, targets, evidence))
        found = Laws(cells, dtype).most_probable(targets, evidence)
        shares = {tuple(each.states.values()): each.best for each in found}
        assert len(shares) == min(len(favoured), EVALUATED_EXPLANATIONS)
        assert shares == {codes: favoured[codes] / 60 for codes in shares}
        assert min(shares.values()) * 60 >= max(favoured[codes] for codes in [*(favoured.keys() - shares), ()])


def test_draws_that_rule_the_evidence_out_favour_nothing() -> None:
    network = small(("a", 2, ()), ("b", 2, ("a",)), ("d", 2, ()))
    arrays = {node: np.array(table) for node, table in random_draws(network, 4, seed=7).items()}
    arrays["d"][..., :3] = [[1, 1, 0], [0, 0, 1]]
    cells = dc.Tables(network, arrays, draws=4)
    found = Laws(cells).most_probable(("a", "b"), {"d": 1})
    assert sum(each.best for each in found) == 1  # of the draws that leave the evidence possible
    assert all(np.isnan(each.probability).tolist() == [True, True, False, False] for each in found)
    first = dc.Tables(network, {n: t[..., :2] for n, t in arrays.items()}, draws=2)
    (only,) = Laws(first).most_probable(("a",), {"d": 1})
    assert only.best == 0 and np.isnan(only.probability).all()


# ------------------------------------------------------------------------------------------------------------- plans


def test_plans_are_kept_for_questions_about_the_same_variables() -> None:
    cells = random_draws(asia().network, 2, seed=8)
    plan_joint.cache_clear()
    for state in (0, 1, 0):
        found = Laws(cells).joint(("lung",), {"xray": state, "smoke": 1 - state})
        np.testing.assert_allclose(found, conditional(cells, ("lung",), {"xray": state, "smoke": 1 - state}))
    Laws(cells).joint(("lung",), {"smoke": 0, "xray": 1})
    info = plan_joint.cache_info()
    assert (info.hits, info.misses) == (3, 1)


def test_networks_of_the_same_variables_do_not_share_plans() -> None:
    """Their hashes are equal."""
    there = random_draws(small(("a", 2, ()), ("b", 2, ("a",))), 2, seed=9)
    back = random_draws(small(("a", 2, ("b",)), ("b", 2, ())), 2, seed=9)
    for cells in (there, back):
        found = Laws(cells).marginals()
        for name in ("a", "b"):
            np.testing.assert_allclose(found[name], conditional(cells, (name,), {}))


# ------------------------------------------------------------------------------------------------- other packages


def random_question(seed: int) -> tuple[dc.Tables, dict[str, int]]:
    """One draw over ten nodes of one to four states, about a third of the entries zero, some nodes unconnected."""
    rng = np.random.default_rng(seed)
    parts = []
    for i in range(10):
        parents = tuple(f"n{j}" for j in rng.permutation(i)[: rng.integers(0, 4)]) if i % 4 else ()
        parts.append((f"n{i}", int(rng.integers(1, 5)), parents))
    network = small(*parts)
    arrays = {}
    for node in network.nodes:
        table = rng.random(network.shape(node)) * (rng.random(network.shape(node)) > 0.33)
        table[..., 0] += table.sum(axis=-1) == 0
        arrays[node] = (table / table.sum(axis=-1, keepdims=True))[..., None]
    cells = dc.Tables(network, arrays, draws=1)
    evidence: dict[str, int] = {}
    for node in rng.permutation(network.nodes)[:3].tolist():
        # A state that is possible given those observed before.
        evidence[node] = int(Laws(cells).marginals(evidence)[node][:, 0].argmax())
    return cells, evidence


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_those_of_pyagrum(seed: int) -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum comes with the extra bench")
    cells, evidence = random_question(seed)
    network, net = cells.network, gum.BayesNet()
    for variable in network.schema:
        net.add(gum.LabelizedVariable(variable.name, variable.name, list(variable.states)))
    for parent, child in network.arcs:
        net.addArc(parent, child)
    for node in network.nodes:
        axes = [network.family(node).index(name) for name in reversed(net.cpt(node).names)]
        net.cpt(node)[:] = np.ascontiguousarray(cells[node][..., 0].transpose(axes))
    engine = gum.LazyPropagation(net)
    engine.setEvidence(evidence)
    engine.makeInference()
    np.testing.assert_allclose(np.exp(Laws(cells).log_probability(evidence)), engine.evidenceProbability(), rtol=1e-9)
    for node, table in Laws(cells).marginals(evidence).items():
        np.testing.assert_allclose(table[:, 0], engine.posterior(node).tolist(), atol=1e-9)
        np.testing.assert_allclose(Laws(cells).joint((node,), evidence), table, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_those_of_pgmpy(seed: int) -> None:
    """A joint of three variables, and the most probable state of the same."""
    inference_of, factors, models = (
        pytest.importorskip(f"pgmpy.{part}", reason="pgmpy comes with the extra bench", exc_type=ImportError)
        for part in ("inference", "factors.discrete", "models")
    )
    cells, evidence = random_question(seed)
    network = cells.network
    model = models.DiscreteBayesianNetwork()
    model.add_nodes_from(network.nodes)
    model.add_edges_from(network.arcs)
    for node in network.nodes:
        *above, size = network.shape(node)
        table = cells[node][..., 0].reshape(-1, size).T
        model.add_cpds(factors.TabularCPD(node, size, table, list(network.parents[node]) or None, above or None))
    engine = inference_of.VariableElimination(model)
    targets = [node for node in network.nodes if node not in evidence][-3:]
    table = engine.query(targets, evidence, show_progress=False)
    axes = [table.variables.index(name) for name in targets]
    found = Laws(cells).joint(targets, evidence)[..., 0]
    np.testing.assert_allclose(found, table.values.transpose(axes), atol=1e-9)
    (best,) = Laws(cells).most_probable(targets, evidence)
    assert best.best == 1
    np.testing.assert_allclose(best.probability, table.values.max(), atol=1e-9)
