"""Networks of any size: plans in linear time, laws from one forward pass, and sampled answers past exact inference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from bench.growth import lattice
from discreet.inference import exact_laws, junction_tree, weighted_records
from discreet.inference.exact_laws import Laws
from discreet.inference.forward import ForwardPass, forward_pass, forward_plan, laws_from_roots
from discreet.inference.sampling import sample_codes
from discreet.inference.weighted_records import RecordPass, ancestors_beyond, log_weight, weighted_laws
from discreet.model.schema import Scope
from discreet.posterior.pooled import latent_counts
from networks import asia, theta_of
from oracle import conditional, full_joint, random_draws, small
from shell import Shell

EXACT = 1e-12
PROMISE = dc.Guarantee(epsilon="1", delta=0, relation="add-remove", unit="record")
WIDE = 6.0
"""Standard errors that a normal error exceeds once in 5e8; each comparison below is of at most 400 numbers."""


def parents_of(network: dc.Network) -> list[Scope]:
    """Parents of all nodes, as sets whose laws are wanted."""
    return sorted({parents for parents in network.parents.values() if parents})


# ------------------------------------------------------------------------------------------------------------ plans


def steps_of_planning(nodes: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Operations on the queue of variables, which bound the work of an elimination of bounded width."""
    count = 0

    def counting(queue: list[object], item: object) -> None:
        nonlocal count
        count += 1
        push(queue, item)

    push = junction_tree.heappush
    network = lattice(nodes, 3, 2)
    with monkeypatch.context() as patch:
        patch.setattr(junction_tree, "heappush", counting)
        forward_plan(network, parents_of(network))
    return count


def test_planning_is_linear_in_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    one, four = (steps_of_planning(nodes, monkeypatch) for nodes in (150, 600))
    assert one > 150
    assert four < 4.8 * one


def test_cells_of_a_plan_are_linear_in_nodes_and_few_are_held_at_a_time() -> None:
    one, four = (
        forward_plan(lattice(nodes, 2, 2, near=4), parents_of(lattice(nodes, 2, 2, near=4))) for nodes in (200, 800)
    )
    assert four.cells < 4.8 * one.cells
    assert 20 * four.live < four.cells


def test_a_hub_of_many_leaves_is_planned_leaf_by_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = {f"x{i}": ("hub",) for i in range(400)}
    network = dc.Network(tuple(dc.Variable(name, ("n", "y")) for name in ("hub", *leaves)), {"hub": (), **leaves})
    scopes = [network.family(node) for node in network.nodes]
    pushed: list[object] = []
    push = junction_tree.heappush
    monkeypatch.setattr(junction_tree, "heappush", lambda queue, item: (pushed.append(item), push(queue, item)))
    steps, cells = junction_tree.elimination_order(scopes, dict.fromkeys(network.nodes, 2))
    assert cells == 400 * 4 + 2
    assert len(steps) == 401
    assert len(pushed) <= 2 * 2 * 401


def greedy(scopes: list[Scope], sizes: Mapping[str, int], *, fill: bool) -> list[Scope]:
    """The elimination by its definition: all costs anew at every step."""
    near: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            near.setdefault(name, set()).update(set(scope) - {name})
    rank, steps = {name: place for place, name in enumerate(sizes)}, []

    def cost(name: str) -> tuple[int, int, int]:
        weight = math.prod(sizes[other] for other in (name, *near[name]))
        missing = sum(two not in near[one] for one in near[name] for two in near[name] if one < two)
        return (missing, weight, rank[name]) if fill else (weight, missing, rank[name])

    while near:
        name = min(near, key=cost)
        around = near.pop(name)
        steps.append((name, *sorted(around, key=rank.__getitem__)))
        for other in around:
            near[other] = (near[other] | around) - {name, other}
    return steps


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("fill", [True, False])
def test_costs_that_are_kept_up_to_date_are_those_by_definition(seed: int, fill: bool) -> None:
    network = lattice(40, 1 + seed % 3, 2 + seed % 2, seed=seed)
    scopes = [network.family(node) for node in network.nodes]
    sizes = {name: network.schema[name].size + place % 3 for place, name in enumerate(network.nodes)}
    assert junction_tree._eliminate(scopes, sizes, (), fill=fill) == greedy(scopes, sizes, fill=fill)


def test_a_hopeless_network_is_planned_at_once() -> None:
    """A thousand nodes with parents anywhere: every order has a clique of hundreds, and no order is looked for."""
    network = lattice(1000, 3, 2, near=1000)
    assert forward_plan(network, parents_of(network)).cells > 2**100
    assert exact_laws.joint_cost(network, network.nodes[-1:], {}) > 2**40


# ------------------------------------------------------------------------------------------------- the forward pass


@pytest.mark.parametrize("name", ["asia", "child", "alarm", "hailfinder", "win95pts"])
def test_the_forward_pass_agrees_with_inference_for_each_set(name: str) -> None:
    network = theta_of(name).network
    cells, scopes = random_draws(network, 3, seed=1), parents_of(network)
    found = forward_pass(scopes, cells)
    assert isinstance(found, ForwardPass)
    for scope in scopes:
        np.testing.assert_allclose(found.law(scope), Laws(cells).joint(scope), atol=EXACT)
    assert not found._beliefs  # every clique was dropped when it was complete


@pytest.mark.parametrize("seed", range(4))
def test_the_forward_pass_in_any_order_and_with_zeros(seed: int) -> None:
    network = lattice(12, 3, 2, near=6, seed=seed)
    rng = np.random.default_rng(seed)
    arrays = {}
    for node in network.nodes:
        rows = rng.random((*network.shape(node), 5)) * (rng.random((*network.shape(node), 5)) < 0.6)
        rows[..., 0, :] += rows.sum(axis=-2) == 0
        arrays[node] = rows / rows.sum(axis=-2, keepdims=True)
    cells = dc.Tables(network, arrays, draws=5)
    scopes, whole = parents_of(network), full_joint(cells)
    found = forward_pass(scopes, cells)
    assert found is not None
    for place in rng.permutation(len(scopes)):
        scope = scopes[place]
        kept = [network.nodes.index(name) for name in scope]
        summed = whole.sum(axis=tuple(axis for axis in range(len(network.nodes)) if axis not in kept))
        order = np.argsort(np.argsort(kept))
        np.testing.assert_allclose(found.law(scope), summed.transpose([*order, len(kept)]), atol=EXACT)


def test_only_ancestors_are_read() -> None:
    network = theta_of("alarm").network
    full, seen = random_draws(network, 2, seed=3), []
    cells = dc.Tables(network, lambda node: (seen.append(node), full[node])[1], draws=2)
    scope = ("HYPOVOLEMIA", "LVFAILURE")
    found = laws_from_roots([scope, *parents_of(network)], cells, 1)
    found.law(scope)
    assert set(seen) == network.ancestors(scope)


def test_ancestors_come_after_their_parents_once() -> None:
    network = lattice(60, 3, 2, seed=2)
    found = ancestors_beyond(network, network.nodes[-2:], set())
    assert len(set(found)) == len(found)
    assert set(found) == network.ancestors(network.nodes[-2:])
    for place, node in enumerate(found):
        assert set(network.parents[node]) <= set(found[:place])
    taken = network.ancestors(("v30",))
    assert set(ancestors_beyond(network, ("v59",), taken)) == network.ancestors(("v59",)) - taken


def test_what_is_too_large_for_a_pass_is_counted_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 45 cells of 4,096 records: errors are below six standard errors, but once in 1e7."""
    cells, scopes = random_draws(asia().network, 4, seed=4), parents_of(asia().network)
    monkeypatch.setattr("discreet.inference.forward.MOST_FORWARD_VALUES", 1)
    found, turned = laws_from_roots(scopes, cells, 7), laws_from_roots(scopes, cells, 7)
    assert isinstance(found, RecordPass)
    for scope in scopes:
        law = Laws(cells).joint(scope)
        bound = WIDE * np.sqrt(law * (1 - law) / weighted_records.PARENT_RECORDS) + 12 / weighted_records.PARENT_RECORDS
        assert (np.abs(found.law(scope) - law) < bound).all()
        np.testing.assert_allclose(found.law(scope).sum(axis=tuple(range(len(scope)))), 1)
    for scope in reversed(scopes):  # no law depends on what was asked before
        np.testing.assert_array_equal(found.law(scope), turned.law(scope))
    assert not found._codes


# ------------------------------------------------------------------------------------------------- likelihood weighting


@pytest.mark.parametrize("evidence", [{}, {"xray": 0}, {"dysp": 0, "xray": 0}, {"either": 0, "smoke": 1}])
def test_importance_sampling_agrees_with_exact_inference(evidence: Mapping[str, int]) -> None:
    cells = random_draws(asia().network, 20, seed=5)
    scopes = [("lung",), ("tub", "bronc")]
    found = weighted_laws(cells, scopes, evidence, np.random.default_rng(6))
    for scope in scopes:
        exact = conditional(cells, scope, evidence)
        error = np.sqrt(found.errors[scope])
        assert (np.abs(found.laws[scope] - exact) < WIDE * error + 30 / found.effective).all()
        # The stated errors are those that are made: a mean square of 80 or so squared normal numbers.
        squares = ((found.laws[scope] - exact) ** 2).mean() / found.errors[scope].mean()
        assert 0.2 < squares < 3.5
        assert found.sampling(scope).error <= np.sqrt(found.errors[scope].max() / 20)
        np.testing.assert_allclose(found.laws[scope].sum(axis=tuple(range(len(scope)))), 1)


def test_the_weight_of_evidence_is_its_probability() -> None:
    cells = random_draws(asia().network, 10, seed=8)
    evidence = {"xray": 0, "dysp": 1}
    found = log_weight(cells, evidence, np.random.default_rng(9))
    exact = Laws(cells).log_probability(evidence)
    assert (np.abs(np.expm1(found - exact)) < WIDE * np.sqrt(np.exp(-exact) / weighted_records.PARENT_RECORDS)).all()


def test_states_follow_their_probabilities_and_none_of_zero_is_drawn() -> None:
    """A variable of each number of states: shares within six standard errors of 40,960 records."""
    for size in (1, 2, 3, 5, 8, 13):
        network = small(("a", size, ()))
        law = np.arange(size, dtype=float) + (size == 1)
        cells = dc.Tables(network, {"a": np.repeat((law / law.sum())[:, None], 10, axis=1)}, draws=10)
        found = RecordPass([("a",)], cells, 3).law(("a",)).mean(axis=-1)
        records = 10 * weighted_records.PARENT_RECORDS
        bound = WIDE * np.sqrt(law / law.sum() / records) + 1 / weighted_records.PARENT_RECORDS
        assert (np.abs(found - law / law.sum()) < bound).all()
        if size > 1:
            assert found[0] <= 1 / weighted_records.PARENT_RECORDS / size * 1.01


def test_evidence_that_is_too_rare_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far below roots that are likely to be otherwise: one record in 10^14 has the causes of the evidence."""
    names = [f"r{i}" for i in range(14)]
    network = small(*((name, 2, ()) for name in names), *((f"e{name}", 2, (name,)) for name in names))
    root, leaf = np.array([0.9, 0.1])[:, None], np.array([[1 - 1e-6, 1e-6], [0.01, 0.99]])[..., None]
    arrays = {**dict.fromkeys(names, root), **{f"e{name}": leaf for name in names}}
    cells = dc.Tables(network, arrays, draws=1)
    monkeypatch.setattr(weighted_records, "MOST_DRAWN_STATES", 2**18)
    with pytest.raises(dc.InputError, match=r"the evidence on er0, .* is too rare .* leave out the evidence"):
        weighted_laws(cells, [(name,) for name in names], {f"e{name}": 1 for name in names}, np.random.default_rng(1))


# -------------------------------------------------------------------------------------------------------- first pass


@pytest.mark.costly("That fewer draws of the first pass cost no width shows over several releases.")
def test_large_tables_have_fewer_draws_of_the_first_pass_and_intervals_as_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths are by VARIANCE_CAUTION 2 % apart; over 8 marginals of 6 releases the mean ratio's error is below 2 %."""
    theta, seen, ratios = asia(), list[int](), list[float]()
    make_up = latent_counts._make_up_tables

    def count_draws(cells: dc.Tables, *more: object) -> object:
        seen.append(cells.draws or 1)
        return make_up(cells, *more)

    monkeypatch.setattr(latent_counts, "_make_up_tables", count_draws)
    for seed in range(6):
        counts = dc.tools.count_codes(theta.network, sample_codes(theta, 2000, np.random.default_rng(seed)))
        release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(theta.network), PROMISE, rng=seed)
        widths = []
        for cells in (2**21, 1):
            monkeypatch.setattr(latent_counts, "FIRST_PASS_CELLS", cells)
            found = dc.marginals(dc.noise_aware(release, draws=400, rng=seed))
            widths.append(np.array([answer.rows[0]["upper"] - answer.rows[0]["lower"] for answer in found]))
        ratios.append(float(np.exp(np.log(widths[1] / widths[0]).mean())))
    assert seen == [16, 4] * 6
    assert 0.94 < np.mean(ratios) < 1.12


# ----------------------------------------------------------------------------------------------------------- answers


@pytest.fixture(scope="module")
def posterior() -> dc.results.PosteriorDraws:
    """Of asia, where both ways are open."""
    theta = asia()
    counts = dc.tools.count_codes(theta.network, sample_codes(theta, 5000, np.random.default_rng(12)))
    release = dc.simulate(
        dc.tools.MECHANISMS["laplace"](),
        counts,
        dc.Dirichlet.uniform(theta.network),
        PROMISE,
        rng=np.random.default_rng(13),
    )
    return dc.noise_aware(release, draws=100, rng=np.random.default_rng(14), trust_network=True)


@pytest.mark.costly("A stated error that is too small is found beside exact answers on large networks.")
@pytest.mark.parametrize(
    "query",
    [
        "P(lung | smoke=yes)",
        "MAP(lung, bronc)",
        *(
            pytest.param(more, marks=pytest.mark.thorough)
            for more in ("P(lung)", "P(lung=yes, bronc | xray=yes)", "P(tub=yes | dysp=yes)")
        ),
    ],
)
def test_a_sampled_answer_states_its_error(
    posterior: dc.results.PosteriorDraws, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 16 means, each six standard errors from the exact one at most, and intervals about as wide."""
    exact = dc.answer(posterior, query, level=0.9)
    assert exact.sampling is None
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 1)
    found = dc.answer(posterior, query, level=0.9)
    assert found.sampling is not None
    assert found.sampling.effective >= weighted_records.LEAST_EFFECTIVE
    rows = {tuple(row["state"].items()): row for row in exact.rows}
    for row in found.rows:
        other = rows[tuple(row["state"].items())]
        assert abs(row["mean"] - other["mean"]) < WIDE * found.sampling.error + 10 / found.sampling.records
        assert row["noise"] is None
    assert dc.answer(posterior, query, level=0.9) == found


@pytest.mark.costly("Sampled answers are compared with exact ones of the same posterior.")
def test_all_marginals_and_predictive_answers_are_sampled_too(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = dc.marginals(posterior, {"smoke": "yes"}, level=0.9)
    ahead = dc.answer(posterior, "P(lung | smoke=yes)", level=0.9, predictive=True)
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 1)
    found = dc.marginals(posterior, {"smoke": "yes"}, level=0.9)
    assert [answer.query for answer in found] == [answer.query for answer in exact]
    for one, other in zip(found, exact, strict=True):
        assert one.sampling is not None
        for row, known in zip(one.rows, other.rows, strict=True):
            assert abs(row["mean"] - known["mean"]) < WIDE * one.sampling.error + 10 / one.sampling.records
    sampled = dc.answer(posterior, "P(lung | smoke=yes)", level=0.9, predictive=True)
    # Weights by 4,096 records of each draw are known to two percent.
    assert abs(sampled.rows[0]["mean"] - ahead.rows[0]["mean"]) < 0.01


def test_explanations_past_exact_inference_are_refused(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_laws, "CELL_BUDGET", 1)
    monkeypatch.setattr("discreet.queries.query.ROW_LIMIT", 8)
    with pytest.raises(dc.InputError, match="the most probable state of 7 variables needs"):
        dc.answer(posterior, "MPE(| smoke=yes)", level=0.9)


@pytest.mark.costly("Only a network beyond exact inference shows that the shell samples, and says so.")
def test_the_command_line_answers_past_exact_inference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nodes with five parents anywhere, of treewidth beyond 20, from the release to the answer."""
    monkeypatch.chdir(tmp_path)
    network, run = lattice(60, 5, 2, near=60), Shell(capfd)
    assert not exact_laws.affordable(network, ("v57",), ("v0",))
    theta = random_draws(network, 1, seed=11)
    truth = dc.Tables(network, {node: theta[node][..., 0] for node in network.nodes})
    counts = dc.tools.count_codes(network, sample_codes(truth, 5000, np.random.default_rng(12)))
    release = dc.simulate(
        dc.tools.MECHANISMS["laplace"](), counts, dc.Dirichlet.uniform(network), PROMISE, rng=np.random.default_rng(13)
    )
    release.save("r.json")
    run.json("draw r.json --draws 50 --seed 1 --output r.draws")
    code, text, error = run("query r.draws 'P(v57 | v0=s0)'")
    assert code == 0, error
    assert "P(v57 | v0=s0): exact inference is out of reach, so this is sampled" in text
    found = run.json("query r.draws 'P(v57 | v0=s0)'")["answers"][0]
    assert found["sampling"]["error"] < 0.01
    assert found["sampling"]["effective"] >= weighted_records.LEAST_EFFECTIVE
