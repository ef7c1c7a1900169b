"""The planned release: budgets that add up, the error that it expects, and the choice between its two forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.inference.interactions import Blur
from discreet.mechanisms import table_plans as planning
from discreet.mechanisms.noise import SimulatedNoise
from discreet.noise.noise_laws import CellLaw, DiscreteGaussian, DiscreteLaplace
from discreet.noise.star import star_variances
from discreet.planning.star_cover import Group, group_costs, shared_by, star_cover, star_lengths
from discreet.planning.workload import workload_error, workload_shares
from discreet.privacy.ledger import Ledger
from discreet.releases.kinds.noisy_tables import star_scopes
from folding import every
from networks import asia, network_path
from strategies import networks
from tiny import TINY, all_records, counts_of, measured, network_of

ADD_REMOVE, REPLACE = dc.tools.RECORD_RELATIONS
SLACK = Fraction(1, 10**9)


def promise(epsilon: object = 1, delta: object = 0, relation: dc.Relation = ADD_REMOVE) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def planned(network: dc.Network, guarantee: dc.Guarantee, **options: object) -> dc.kinds.PlannedNoise:
    found: dc.kinds.PlannedNoise = dc.planned(pairs_share=0, numbers_share=0, **options).calibrate(
        network, dc.Dirichlet.uniform(network), guarantee
    )
    return found


def of(name: str) -> dc.Network:
    return dc.Network.read(network_path(name))


# ------------------------------------------------------------------------------------------------------------- budgets


@every("epsilon", [Fraction(1, 10**350), "1e-400"])
def test_an_epsilon_below_all_floats_is_refused_in_words(epsilon: object) -> None:
    with pytest.raises(dc.InputError, match="too small"):
        planned(asia().network, promise(epsilon))


@given(
    networks(max_nodes=6),
    st.fractions(Fraction(1, 1000), 50, max_denominator=1000),
    st.sampled_from(dc.tools.RECORD_RELATIONS),
)
def test_epsilons_sum_to_the_guarantee_and_scales_follow(
    network: dc.Network, epsilon: Fraction, relation: dc.Relation
) -> None:
    plan = planned(network, promise(epsilon, 0, relation))
    moved = 2 if relation is REPLACE else 1
    assert (plan.noise, plan.sensitivity) == ("discrete_laplace", moved)
    groups = star_cover(network)
    assert tuple(plan.budgets) == tuple(plan.scales) == tuple(measured(network))
    assert star_scopes(plan.stars) == [group for group in groups if len(group) > 1]
    # A star spends its budget once, whatever the number of its tables.
    assert all(plan.budgets[scope] == plan.budgets[group[0]] for group in groups for scope in group)
    assert epsilon * (1 - SLACK) < sum(plan.budgets[group[0]] for group in groups) <= epsilon
    assert epsilon * (1 - SLACK) < plan.total <= epsilon
    for scope, budget in plan.budgets.items():
        scale = Fraction(plan.scales[scope])
        assert moved / budget <= scale <= moved / budget * (1 + Fraction(1, 10**12))
    assert list(plan.expected) == list(network.nodes)


def test_budgets_follow_the_sizes_of_what_is_read() -> None:
    plan, costs = planned(asia().network, promise("0.5")), group_costs(asia().network, star_cover(asia().network))
    whole = sum(cost**0.4 for cost in costs.values())
    assert len(costs) < len(plan.budgets)
    assert {scope: float(budget) for scope, budget in plan.budgets.items()} == pytest.approx(
        {scope: 0.5 * cost**0.4 / whole for group, cost in costs.items() for scope in group}
    )


def test_budgets_are_short_decimals() -> None:
    for delta, digits in ((0, 13), ("1e-6", 26)):
        for budget in planned(of("alarm"), promise("0.7", delta)).budgets.values():
            assert 10**digits % budget.denominator == 0


@every("name", ["win95pts", "alarm"])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_gaussian_budgets_sum_to_the_rho_of_the_guarantee(name: str, relation: dc.Relation) -> None:
    """The rho of one table of one cell at the same guarantee; its scale is the one that `gaussian` finds."""
    network, guarantee = of(name), promise(1, "1e-6", relation)
    plan = planned(network, guarantee)
    one = network_of({"a": 2})
    alone = dc.gaussian().calibrate(one, dc.Dirichlet.uniform(one), promise(1, "1e-6"))
    assert plan.noise == "discrete_gaussian"
    assert set(plan.scales) == {
        tuple(name for name in network.nodes if name in network.family(node)) for node in network.maximal_families
    }
    spent = sum(plan.budgets.values())
    assert alone.rho * (1 - SLACK) < spent <= alone.rho * (1 + Fraction(1, 10**15))
    moved = 2 if relation is REPLACE else 1
    for scope, rho in plan.budgets.items():
        assert moved / (2 * Fraction(plan.scales[scope]) ** 2) <= rho
        assert plan.scales[scope] == pytest.approx(math.sqrt(moved / (2 * rho)), rel=1e-12)
    assert 1 - SLACK < plan.total <= 1


@every("rho", [Fraction(1, 3), Fraction(2, 3), Fraction(20, 7), Fraction(123456789012345678), Fraction(1, 7 * 10**40)])
def test_a_loss_is_cut_to_few_digits_and_never_raised(rho: Fraction) -> None:
    assert rho * (1 - SLACK) < planning.round_to_digits(rho) <= rho


def test_gaussian_precisions_follow_the_sizes_of_what_is_read() -> None:
    """Two tables of 4 cells on a chain: loads 2 (sqrt 2 + 2) and 2 * 2, precisions as their power 2/3."""
    plan = planned(TINY["chain"], promise("0.1", "0.1"))
    first, second = plan.scales["a", "b"], plan.scales["b", "c"]
    assert (second / first) ** 2 == pytest.approx(((math.sqrt(2) + 2) / 2) ** (2 / 3), rel=1e-9)


# ------------------------------------------------------------------------------------------------------ expected error


def covariance(network: dc.Network, plan: dc.kinds.PlannedNoise) -> np.ndarray:
    """Of the noise in all cells, one table after the other; that of a star by the two variances of its law."""

    def codes(scope: tuple[str, ...]) -> list[tuple[int, ...]]:
        return list(product(*(range(network.schema[name].size) for name in scope)))

    def block(one: tuple[str, ...], other: tuple[str, ...]) -> np.ndarray:
        number, same = plan.stars.get(one), np.eye(network.cells(one))
        if number is None or plan.stars.get(other) != number:
            return plan.law(plan.scales[one]).variance * same if one == other else 0 * agreeing(one, other, ())
        star = star_scopes(plan.stars)[number - 1]
        lengths, inside = star_lengths(network, star), agreeing(one, other, shared_by(star))
        found = star_variances(lengths, plan.scales[one])
        mine, theirs = (lengths[star.index(scope)] for scope in (one, other))
        spread = found.shared / (mine * theirs) * inside
        return spread + (found.rows[star.index(one)] * (same - inside / mine) if one == other else 0)

    def agreeing(one: tuple[str, ...], other: tuple[str, ...], names: tuple[str, ...]) -> np.ndarray:
        """Which cells of two tables have the same states of some variables."""
        pairs = [(one.index(name), other.index(name)) for name in names]
        return np.array([[float(all(x[i] == y[j] for i, j in pairs)) for y in codes(other)] for x in codes(one)])

    return np.block([[block(one, other) for other in plan.scales] for one in plan.scales])


def least_squares_deviation(network: dc.Network, plan: dc.kinds.PlannedNoise, node: str) -> np.ndarray:
    """Standard deviations of a family's cells after least squares over all noisy tables, by a dense matrix.

    The unknown is the table of all variables; cells that the tables do not tell stay out of the pseudo-inverse.
    """
    sizes = [variable.size for variable in network.schema]
    records = list(product(*map(range, sizes)))

    def sums(scope: tuple[str, ...]) -> np.ndarray:
        axes = [network.nodes.index(name) for name in scope]
        cells = list(product(*(range(sizes[axis]) for axis in axes)))
        rows = np.zeros((len(cells), len(records)))
        for column, record in enumerate(records):
            rows[cells.index(tuple(record[axis] for axis in axes)), column] = 1
        return rows

    told = np.concatenate([sums(scope) for scope in plan.scales])
    precision = told.T @ np.linalg.pinv(covariance(network, plan), rcond=1e-10, hermitian=True) @ told
    family = sums(network.family(node))
    variances = family @ np.linalg.pinv(precision, rcond=1e-10, hermitian=True) @ family.T
    return np.sqrt(np.diag(variances))


@pytest.mark.costly("Foretold errors that are not those of least squares are found on made-up plans.")
@every(
    ("network", "guarantee"),
    [
        (network_of({"a": 4, "b": 2, "c": 4}, "a>b b>c"), promise()),
        (network_of({"c": 4, "b": 2, "a": 4}, "a>b b>c"), promise("0.3", 0, REPLACE)),
        (network_of({"a": 4, "b": 2, "c": 2, "d": 2}, "b>c c>d"), promise()),
        (network_of({"a": 3, "b": 4, "c": 3, "d": 2, "e": 5, "f": 3}, "a>b b>c b>d d>e d>f"), promise()),
        (TINY["chain"], promise("0.1", "0.1")),
        (TINY["fork"], promise("0.1", "0.1")),
    ],
    ids=["star", "other order", "star and table", "two stars", "gaussian chain", "gaussian fork"],
)
def test_expected_errors_are_those_of_least_squares(network: dc.Network, guarantee: dc.Guarantee) -> None:
    plan = planned(network, guarantee)
    assert len(plan.scales) > 1
    assert plan.noise == ("discrete_gaussian" if guarantee.delta else "discrete_laplace")
    for node in network.nodes:
        wanted = math.sqrt(2 / math.pi) * least_squares_deviation(network, plan, node)
        assert plan.expected[node] == pytest.approx(wanted[0], rel=1e-6)
        assert np.allclose(wanted, wanted[0])


@pytest.mark.costly("Errors are those of many releases.")
def test_the_error_of_one_table_alone_is_exact() -> None:
    """Mean absolute value of discrete Laplace noise, over 50,000 cells; six standard errors."""
    network = TINY["two binary"]
    plan = planned(network, promise("0.4"))
    counts, prior = counts_of(network, []), dc.Dirichlet.uniform(network)
    noise = SimulatedNoise(np.random.default_rng(11))
    made = [dc.planned(pairs_share=0).draw(counts, prior, plan, noise) for _ in range(12_500)]
    cells = np.abs(np.concatenate([payload.table("b").ravel() for payload in made]))
    error = float(cells.std() / math.sqrt(cells.size))
    assert abs(cells.mean() - plan.expected["b"]) < 6 * error
    assert plan.expected["b"] == pytest.approx(1 / math.sinh(0.4))
    # The other family's cells are sums of two: normal, approximately.
    sums = np.abs(np.concatenate([payload.table("a").ravel() for payload in made]))
    assert sums.mean() == pytest.approx(plan.expected["a"], rel=0.1)


@every("epsilon", ["0.000001", "1000", "100000"])
def test_expected_errors_exist_at_any_budget(epsilon: str) -> None:
    for relation in dc.tools.RECORD_RELATIONS:
        expected = planned(asia().network, promise(epsilon, 0, relation)).expected
        assert all(0 < error < 1e8 for error in expected.values())


def test_a_family_of_many_variables_is_refused_before_anything_is_spent() -> None:
    """Fifteen binary variables: their subsets are too many to pool; laplace still serves them."""
    names = [f"v{index:02}" for index in range(15)]
    network = network_of(dict.fromkeys(names, 2), " ".join(f"{name}>v14" for name in names[:-1]))
    with pytest.raises(dc.InputError, match=r"'v14' has 14 parents.*mechanism 'laplace'"):
        planned(network, promise())


def test_a_budget_of_many_digits_can_be_written_and_read() -> None:
    network = network_of({"a": 2, "b": 2, "c": 2}, "a>b b>c")
    counts = dc.tools.count_codes(network, dict.fromkeys("abc", np.zeros(3, np.int64)))
    long = dc.Guarantee(epsilon="0." + "1" * 900, delta=0, relation="replace", unit="record")
    made = dc.simulate(
        dc.planned(pairs_share=0), counts, dc.Dirichlet.uniform(network), long, rng=np.random.default_rng(0)
    )
    assert dc.Release.loads(made.dumps()).calibration.total <= long.epsilon


def many_nodes() -> dc.Network:
    """413 nodes of 2 to 4 states, every tenth of up to 21, whose parents are among the four before: many stars."""
    rng = np.random.default_rng(1)
    sizes = {f"v{at}": int(rng.integers(2, 5 if at % 10 else 22)) for at in range(413)}
    arcs = [f"v{at - back}>v{at}" for at in range(4, 413) for back in rng.choice([1, 2, 3], rng.integers(3), False)]
    return network_of(sizes, " ".join(arcs))


@pytest.mark.costly("A cost that is rounded down shows in the exact sum over hundreds of tables only.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("epsilon", ["1", "0.12345678901234567890123456789"])
def test_what_hundreds_of_tables_cost_is_short_and_no_less_than_it_is(relation: dc.Relation, epsilon: str) -> None:
    """Each scale is a binary float of its own, so that the exact sum has thousands of digits, which no reader takes."""
    network, guarantee = many_nodes(), promise(epsilon, relation=relation)
    plan, moved = planned(network, guarantee), 1 + (relation is REPLACE)
    groups = {plan.stars.get(scope, scope): scale for scope, scale in plan.scales.items()}
    exact = sum((moved / Fraction(scale) for scale in groups.values()), Fraction())
    assert len(groups) > 100 and exact.denominator.bit_length() > 4000
    assert exact <= plan.reported <= guarantee.epsilon and plan.reported.denominator.bit_length() <= 200
    assert float(plan.reported / exact) == pytest.approx(1, rel=1e-11)
    codes = {node: np.zeros(50, np.int64) for node in network.nodes}
    mechanism = dc.planned(pairs_share=0)
    counts = dc.tools.count_codes(network, codes, mechanism.scopes(network))
    made = dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), guarantee, rng=np.random.default_rng(1))
    assert dc.Release.loads(made.dumps()).calibration == plan


def test_where_gaussian_noise_cannot_keep_the_guarantee_laplace_noise_does() -> None:
    network = network_of({"a": 2, "b": 2}, "a>b")
    for epsilon, delta in (("600", "1e-6"), ("1", "1e-400")):
        asked = dc.Guarantee(epsilon=epsilon, delta=delta, relation="replace", unit="record")
        assert planned(network, asked).noise == "discrete_laplace"


# ------------------------------------------------------------------------------------------------------- the two forms


def whole_error(network: dc.Network, plan: dc.kinds.PlannedNoise) -> float:
    return sum(network.cells(network.family(node)) * error for node, error in plan.expected.items())


@every(
    ("name", "noise"),
    [("asia", "laplace"), ("sachs", "laplace"), ("child", "laplace"), ("alarm", "gaussian"), ("win95pts", "gaussian")],
)
def test_a_delta_takes_the_form_with_less_error(name: str, noise: str) -> None:
    network = of(name)
    plan, pure = (planned(network, promise(1, delta)) for delta in ("1e-6", 0))
    assert plan.noise == f"discrete_{noise}"
    assert (plan == pure) == (noise == "laplace")
    assert whole_error(network, plan) <= whole_error(network, pure)


def test_a_larger_delta_never_makes_the_error_larger() -> None:
    network = TINY["fork"]
    errors = [
        whole_error(network, planned(network, promise("0.3", delta))) for delta in (0, "1e-9", "1e-3", "0.05", "0.3")
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == errors[1] > errors[-1]


def test_delta_is_charged_whether_it_is_used_or_not(tmp_path: Path) -> None:
    network = TINY["chain"]
    limit = dc.Guarantee(epsilon=3, delta="0.5", relation=ADD_REMOVE, unit="record")
    account = Ledger(f"sqlite:///{tmp_path}/budget.db").open("a", limit)
    made = dc.release(
        dc.planned(pairs_share=0),
        counts_of(network, []),
        dc.Dirichlet.uniform(network),
        promise(1, "1e-6"),
        account=account,
    )
    assert made.payload.noise == "discrete_laplace"
    assert account.balance().delta_spent == Fraction(1, 10**6)


# ------------------------------------------------------------------------------------------------------------ the draw


@given(networks(max_nodes=4), st.integers(0, 2**32 - 1))
def test_without_noise_every_family_comes_back(network: dc.Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = [tuple(int(rng.integers(variable.size)) for variable in network.variables) for _ in range(20)]
    counts, prior = counts_of(network, records), dc.Dirichlet.uniform(network)
    made = dc.simulate(dc.planned(pairs_share=0), counts, prior, promise(4000), rng=rng)  # noise that never shows
    payload = made.payload
    assert set(payload.tables) == set(measured(network))
    for node in network.nodes:
        assert np.array_equal(payload.table(node), counts.tables[node])
        holders = [scope for scope in payload.tables if set(network.family(node)) <= set(scope)]
        assert payload.source(node) == min(holders, key=network.cells)


@every("kind", ["discrete_laplace", "discrete_gaussian"])
def test_the_noise_is_drawn_from_the_planned_law(kind: str) -> None:
    """Every cell once, at the scale of its table, from a source that has nothing else."""
    network = network_of({"x": 6, "a": 2, "b": 2, "c": 2}, "a>b b>c")
    plan = planned(network, promise("0.1", 0 if kind == "discrete_laplace" else "0.1"))
    assert plan.noise == kind
    assert set(plan.stars) == ({("a", "b"), ("b", "c")} if kind == "discrete_laplace" else set())
    asked: list[tuple[tuple[int, ...], float]] = []

    def add(values: np.ndarray, scale: float) -> np.ndarray:
        asked.append((values.shape, scale))
        return values + 5

    def add_star(rows: list[np.ndarray], scale: float) -> list[np.ndarray]:
        asked.append((tuple(size for row in rows for size in row.shape), scale))
        return [row + 5 for row in rows]

    source = SimpleNamespace(**{kind: add}, star=add_star)
    payload = dc.planned(pairs_share=0).draw(counts_of(network, []), dc.Dirichlet.uniform(network), plan, source)
    assert payload.noise == kind
    wanted = [((network.cells(scope),), scale) for scope, scale in plan.scales.items() if scope not in plan.stars]
    if plan.stars:
        wanted.append(((2, 2, 2, 2), plan.scales["a", "b"]))
    assert asked == wanted
    assert all(np.all(table == 5) for table in payload.tables.values())


@pytest.mark.costly("Each table of a plan must have the noise that it is charged for.", always=True)
def test_noise_has_the_planned_scale_in_every_table() -> None:
    """Of 12,000 cells or more a variance has a standard error of sqrt((kurtosis 6 - 1) / 12,000) = 2 %; six of them."""
    network = network_of({"a": 4, "b": 2, "c": 2, "d": 3}, "b>c c>d")
    plan, noise = planned(network, promise("0.2")), SimulatedNoise(np.random.default_rng(5))
    counts, prior = counts_of(network, all_records(network)), dc.Dirichlet.uniform(network)
    made = [dc.planned(pairs_share=0).draw(counts, prior, plan, noise) for _ in range(3000)]
    assert len(set(plan.scales.values())) == 2
    for scope, scale in plan.scales.items():
        added = np.stack([payload.tables[scope] for payload in made]) - counts.joint(scope)
        wanted = 2 * scale**2
        if scope in plan.stars:
            found, length = star_variances([2, 3], scale), network.cells(scope) // 2
            wanted = found.shared / length**2 + found.rows[length - 2] * (1 - 1 / length)
        assert added.var() == pytest.approx(wanted, rel=0.125)


def test_counts_of_families_alone_are_refused_before_the_charge(tmp_path: Path) -> None:
    network = TINY["two roots"]
    limit = dc.Guarantee(epsilon=3, delta=0, relation=ADD_REMOVE, unit="record")
    account = Ledger(f"sqlite:///{tmp_path}/budget.db").open("a", limit)
    counts, prior = counts_of(network, [(0, 1)]), dc.Dirichlet.uniform(network)
    families = dc.results.Counts(counts.tables, counts.policy)
    with pytest.raises(dc.InputError, match="holds the variables 'a', 'b' together; make the counts with `count`"):
        dc.release(dc.planned(pairs_share=0), families, prior, promise(), account=account)
    with pytest.raises(dc.InputError, match="make the counts with `count`"):
        dc.simulate(dc.planned(pairs_share=0), families, prior, promise(), rng=np.random.default_rng(0))
    assert account.charges() == ()
    assert dc.release(dc.planned(pairs_share=0), counts, prior, promise(), account=account).private


def test_counted_records_can_be_released(tmp_path: Path) -> None:
    """From a file to a file, for both relations."""
    theta = asia()
    table = dc.tools.simulate_records(theta, 300, rng=np.random.default_rng(2))
    counts = dc.count(dc.read_records(table, theta.network.schema), theta.network)
    prior = dc.Dirichlet.uniform(theta.network)
    for relation in dc.tools.RECORD_RELATIONS:
        limit = dc.Guarantee(epsilon=1, delta=0, relation=relation, unit="record")
        account = Ledger(f"sqlite:///{tmp_path}/budget.db").open(relation.value, limit)
        made = dc.release(dc.planned(pairs_share=0), counts, prior, promise(1, 0, relation), account=account)
        made.save(tmp_path / f"{relation.value}.json")
        again = dc.Release.load(tmp_path / f"{relation.value}.json")
        assert again.calibration == planned(theta.network, promise(1, 0, relation))
        assert again.records == (300 if relation is REPLACE else None)
        assert sum(table.size for table in again.payload.tables.values()) == sum(
            map(theta.network.cells, measured(theta.network))
        )


# ---------------------------------------------------------------------------------------------------------- a workload


def test_a_workload_moves_the_budget_to_what_it_asks() -> None:
    network = of("alarm")
    plain, served = planned(network, promise()), planned(network, promise(), workload=["P(HISTORY)"])
    assert ("HISTORY",) not in plain.budgets and served.budgets["HISTORY",] > 0.6
    assert served.expected["TPR"] > plain.expected["TPR"]
    assert 1 - SLACK < served.total <= 1


@pytest.mark.costly("What workloads gain shows on networks of real size.")
@every(
    ("name", "law", "gain"),
    [("sachs", DiscreteGaussian, 0.6), ("alarm", DiscreteGaussian, 0.85), ("sachs", DiscreteLaplace, 0.9)],
)
def test_margins_of_their_own_serve_a_workload(name: str, law: type[CellLaw], gain: float) -> None:
    """All marginals: the standard deviation against that of a plan whose tables are families alone."""
    network = of(name)
    queries = [f"P({node})" for node in network.nodes]
    groups = [(network.ordered(network.family(node)),) for node in network.maximal_families]
    prior = dc.Dirichlet.uniform(network)

    def error(of: Mapping[Group, float]) -> float:
        variance = {scope: 0.5 / share if law is DiscreteGaussian else 2 / share**2 for (scope,), share in of.items()}
        return workload_error(network, prior, queries, {scope: Blur(value) for scope, value in variance.items()})

    found = error(workload_shares(network, prior, queries, groups, law))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("discreet.planning.workload.SMALL_MARGIN", 0)
        assert math.exp(found - error(workload_shares(network, prior, queries, groups, law))) < gain


@pytest.mark.costly("Which noise is better depends on networks of real size.")
def test_with_a_delta_a_workload_takes_the_form_that_answers_it_best() -> None:
    """For one variable's probabilities Laplace noise on its table is best, however many tables there are."""
    network = of("alarm")
    narrow, broad = ["P(HISTORY)"], [f"P({node})" for node in network.nodes]
    assert planned(network, promise(1, "1e-6")).noise == "discrete_gaussian"
    assert planned(network, promise(1, "1e-6"), workload=narrow).noise == "discrete_laplace"
    assert planned(network, promise(1, "1e-6"), workload=broad).noise == "discrete_gaussian"


def test_the_error_of_a_workload_is_that_of_a_coin_by_hand() -> None:
    """`dp = ((1 - p) z_1 - p z_2) / n` for each of two states: together variances of `2 v (p^2 + (1 - p)^2) / n^2`."""
    coin = network_of({"a": 2})
    for share in (0.5, 0.9):
        prior = dc.Dirichlet(dc.Tables(coin, {"a": 1e10 * np.array([share, 1 - share])}))
        for variance in (0.1, 7.0):
            wanted = math.log(2 * variance * (share**2 + (1 - share) ** 2)) / 2
            found = workload_error(coin, prior, ["P(a)"], {("a",): Blur(variance)})
            assert found == pytest.approx(wanted, abs=1e-3)


@every(
    ("workload", "message"),
    [("P(a)", "list of queries"), ([], "at least one query"), (["P(z)"], "no variable 'z'"), (["a"], "write P")],
)
def test_what_is_no_workload_is_refused(workload: object, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        planned(TINY["chain"], promise(), workload=workload)
