"""Budgets for a workload: the delta method against brute force, the optimum against a search, and what it gains."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dc
from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import (
    Blur,
    centred,
    pooled_variances,
    subsets,
)
from discreet.model.query_grammar import Probability, Query
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CellLaw, DiscreteGaussian, DiscreteLaplace
from discreet.planning import workload
from discreet.planning.star_cover import Group, star_cover
from discreet.planning.workload import default_shares, workload_shares, workload_variances
from folding import every
from networks import asia, theta_of
from oracle import interactions, spread

ASIA = asia().network
PRIOR = dc.Dirichlet.uniform(ASIA)
MERGED: tuple[Group, ...] = (
    (("asia", "tub", "lung", "either"),),
    (("smoke", "lung", "bronc"),),
    (("bronc", "either", "xray", "dysp"),),
)


def named(network: dc.Network, *texts: str) -> list[Query]:
    """Parsed queries."""
    return [dc.tools.parse_query(text, network.schema) for text in texts]


def in_order(network: dc.Network, names: tuple[str, ...]) -> Scope:
    """Names in the schema's order."""
    return tuple(name for name in network.nodes if name in names)


def answers(theta: dc.Tables, query: Query) -> np.ndarray:
    """Every number that a query asks for, shape `(numbers, draws)`; explanations by their targets' posteriors."""
    schema = theta.network.schema
    evidence = {name: schema[name].code(state) for name, state in query.evidence}
    if isinstance(query, Probability):
        table = Laws(theta).joint([name for name, _ in query.targets], evidence)
        kept = tuple(slice(None) if state is None else schema[name].code(state) for name, state in query.targets)
        return table[kept].reshape(-1, table.shape[-1])
    names = query.targets or tuple(name for name in schema.names if name not in evidence)
    return np.concatenate([Laws(theta).joint([name], evidence) for name in names])


def read(network: dc.Network, tables: dict[str, np.ndarray], floor: float = 0.0) -> dc.Tables:
    """Rows of noisy family tables, names in the schema's order, over their sums."""

    def rows(node: str) -> np.ndarray:
        family, table = network.family(node), tables[node]
        scope = in_order(network, family)
        table = np.transpose(table, [*(scope.index(name) for name in family), table.ndim - 1])
        if floor:
            table = np.maximum(table, 0) + floor / network.schema[node].size
        return table / table.sum(axis=-2, keepdims=True)

    return dc.Tables(network, rows, draws=next(iter(tables.values())).shape[-1])


def expected(theta: dc.Tables, scope: Scope, records: float) -> np.ndarray:
    """Expected counts, with an axis for one draw."""
    draws = dc.Tables(theta.network, lambda node: theta[node][..., None], draws=1)
    return records * Laws(draws).joint(scope)


def brute_force(theta: dc.Tables, query: Query, subset: Scope) -> float:
    """h of an interaction: squared central differences along an orthonormal basis of the tables centred everywhere."""
    network, step = theta.network, 1e-5
    sizes = [network.schema[name].size for name in subset]
    cells = math.prod(sizes)
    projection = centred(np.eye(cells).reshape(*sizes, cells), len(sizes)).reshape(cells, cells)
    values, vectors = np.linalg.eigh(projection)
    basis = vectors[:, values > 0.5].reshape(*sizes, -1)
    moved = []
    for sign in (1, -1):
        tables = {}
        for node in network.nodes:
            scope = in_order(network, network.family(node))
            table = np.repeat(expected(theta, scope, 1.0), basis.shape[-1], axis=-1)
            if set(subset) <= set(scope):
                table = table + sign * step * spread(network, {subset: basis}, scope)
            tables[node] = table
        moved.append(answers(read(network, tables), query))
    return float((((moved[0] - moved[1]) / (2 * step)) ** 2).sum())


# ------------------------------------------------------------------------------------------ the delta method


@every(
    "text",
    [
        "P(lung)",
        "P(lung | smoke=yes)",
        "P(smoke | lung=yes)",
        "P(tub, lung | dysp=yes)",
        "P(tub=yes, lung | dysp=yes, asia=no)",
        "P(either, lung)",
        "P(either=no, dysp=yes)",
        "P(dysp | bronc=yes, either=no)",
        "MAP(tub, lung | xray=yes)",
        "MPE(| xray=yes, dysp=no)",
    ],
)
def test_the_sensitivities_are_those_of_brute_force(text: str) -> None:
    theta = dc.Dirichlet.uniform(ASIA, 3.0).draw(2, rng=np.random.default_rng(5))
    (query,) = named(ASIA, text)
    (found,) = workload_variances(theta, [query])
    alone = theta_at(theta, 1)
    for subset in subsets(in_order(ASIA, ASIA.family(node)) for node in ASIA.nodes):
        h = float(found[subset][1]) if subset in found else 0.0
        assert h == pytest.approx(brute_force(alone, query, subset), rel=1e-5, abs=1e-8), subset


def theta_at(theta: dc.Tables, draw: int) -> dc.Tables:
    """One draw."""
    return dc.Tables(theta.network, lambda node: theta[node][..., draw])


def test_variables_with_more_states_and_a_row_too_many_for_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = [dc.Variable(name, tuple("abcd"[:size])) for name, size in (("X", 3), ("Y", 2), ("Z", 4), ("W", 3))]
    # Parents in another order than the schema's, children before parents.
    network = dc.Network(tuple(variables), {"X": ("W", "Z"), "Y": ("Z", "X"), "Z": (), "W": ("Z",)})
    theta = dc.Dirichlet.uniform(network, 2.0).draw(3, rng=np.random.default_rng(1))
    queries = named(network, "P(X, Z | Y=a)", "P(W=b | X=c)", "P(Y=b, X, W)")
    whole = workload_variances(theta, queries)
    for query, found in zip(queries, whole, strict=True):
        for subset in found:
            h = brute_force(theta_at(theta, 2), query, subset)
            assert float(found[subset][2]) == pytest.approx(h, rel=1e-5, abs=1e-8)
    monkeypatch.setattr(workload, "CHUNK_CELLS", 1)
    for one, other in zip(whole, workload_variances(theta, queries), strict=True):
        assert one.keys() == other.keys()
        assert all(np.allclose(one[subset], other[subset], rtol=1e-9, atol=1e-15) for subset in one)


@every(
    ("text", "nodes"),
    [
        ("P(smoke)", ["smoke"]),
        ("P(lung | smoke=yes)", ["lung"]),
        ("P(smoke | lung=yes)", ["smoke", "lung"]),
        ("P(tub | asia=yes, smoke=no)", ["tub"]),
        ("P(xray | either=no)", ["xray"]),
        ("P(asia | xray=yes)", ["asia", "tub", "smoke", "lung", "either", "xray"]),
        # Two causes matter for each other only where their effect is seen; what lies below it is barren.
        ("P(tub | lung=yes)", ["asia", "tub"]),
    ],
)
def test_what_cannot_matter_has_exactly_no_part(text: str, nodes: list[str]) -> None:
    (found,) = workload_variances(PRIOR.draw(3, rng=np.random.default_rng(0)), named(ASIA, text))
    assert set(found) == set(subsets(in_order(ASIA, ASIA.family(node)) for node in nodes))


def test_the_predicted_variance_is_that_of_small_noise() -> None:
    # Relative standard deviation of a variance from 6,000 draws with kurtosis at most 6: 2.9%; 20% is missed with a
    # chance below 1e-10.
    theta, records, draws = asia(), 1e9, 6000
    scopes = [*(scope for (scope,) in MERGED), ("lung",)]
    variances = {scope: 1.0 + position for position, scope in enumerate(scopes)}
    rng = np.random.default_rng(3)
    noisy = {
        scope: expected(theta, scope, records) + rng.laplace(0, math.sqrt(variance / 2), (*(2,) * len(scope), draws))
        for scope, variance in variances.items()
    }
    found = least_squares(ASIA, noisy, variances)
    tables = {node: spread(ASIA, found, in_order(ASIA, ASIA.family(node))) for node in ASIA.nodes}
    pooled = pooled_variances(ASIA, {scope: Blur(variance) for scope, variance in variances.items()})
    one = dc.Tables(ASIA, lambda node: np.maximum(theta[node], 1e-12)[..., None], draws=1)
    for query in named(ASIA, "P(lung | smoke=yes)", "P(dysp)", "P(smoke | lung=yes)"):
        moved = (answers(read(ASIA, tables), query) - answers(one, query)) * records
        (h,) = workload_variances(one, [query])
        predicted = sum(pooled[subset] * float(squares[0]) for subset, squares in h.items())
        assert (moved**2).sum(axis=0).mean() == pytest.approx(predicted, rel=0.2)


def least_squares(
    network: dc.Network, noisy: dict[Scope, np.ndarray], variances: dict[Scope, float]
) -> dict[Scope, np.ndarray]:
    """Interactions of all tables together, weighted by what each table knows."""
    sums: dict[Scope, np.ndarray] = {}
    for scope, table in noisy.items():
        for subset, part in interactions(table, scope).items():
            weighed = part * network.cells(subset) / (variances[scope] * network.cells(scope))
            sums[subset] = sums[subset] + weighed if subset in sums else weighed
    pooled = pooled_variances(network, {scope: Blur(variance) for scope, variance in variances.items()})
    return {subset: total * pooled[subset] for subset, total in sums.items()}


def not_negative(
    network: dc.Network, noisy: dict[Scope, np.ndarray], variances: dict[Scope, float], steps: int = 60
) -> dict[Scope, np.ndarray]:
    """Least squares with cells of at least 0 and the total held: alternating directions, good enough for a test."""
    found = least_squares(network, noisy, variances)
    total = found[()]
    copies = {scope: np.maximum(spread(network, found, scope), 0) for scope in noisy}
    gaps = {scope: np.zeros(table.shape) for scope, table in noisy.items()}
    for _ in range(steps):
        middle = {scope: (noisy[scope] + copies[scope] - gaps[scope]) / 2 for scope in noisy}
        found = least_squares(network, middle, variances)
        found[()] = total
        for scope in noisy:
            table = spread(network, found, scope)
            copies[scope] = np.maximum(table + gaps[scope], 0)
            gaps[scope] += table - copies[scope]
    return found


# ------------------------------------------------------------------------------------------ the shares


@every("law", [DiscreteLaplace, DiscreteGaussian])
def test_shares_are_positive_sum_to_one_and_keep_the_floor(law: type[CellLaw]) -> None:
    shares = workload_shares(ASIA, PRIOR, ["P(lung | smoke=yes)", "MAP(tub, bronc | dysp=yes)"], MERGED, law)
    assert math.fsum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert set(MERGED) <= set(shares)
    families = [in_order(ASIA, ASIA.family(node)) for node in ASIA.nodes]
    tables = [set(scope) for group in MERGED for scope in group]
    for (scope,) in set(shares) - set(MERGED):
        assert scope in families or len(scope) <= workload.SMALL_MARGIN
        assert any(set(scope) < table for table in tables), "only what every plan counts"
    floor = default_shares(ASIA, MERGED, law)
    assert all(shares[scope] >= workload.FLOOR_SHARE * floor[scope] for scope in MERGED)
    assert all(share > 0 for share in shares.values())
    assert shares == workload_shares(ASIA, PRIOR, ["P(lung | smoke=yes)", "MAP(tub, bronc | dysp=yes)"], MERGED, law)


def test_a_narrow_workload_gets_all_that_is_not_floor() -> None:
    shares = workload_shares(ASIA, PRIOR, ["P(lung | smoke=yes)"], MERGED, DiscreteLaplace)
    assert shares[(("smoke", "lung"),)] == pytest.approx(1 - workload.FLOOR_SHARE, abs=0.01)
    assert len(shares) == 4


def test_queries_that_are_alike_get_alike_and_one_asked_twice_gets_more() -> None:
    coin = [dc.Variable(name, ("h", "t")) for name in "AB"]
    network = dc.Network(tuple(coin), {"A": (), "B": ()})
    # One draw for both: with few draws they would differ by chance.
    prior = dc.Dirichlet.uniform(network, 1e6)
    groups: list[Group] = [(("A",),), (("B",),)]
    for law in (DiscreteLaplace, DiscreteGaussian):
        even = workload_shares(network, prior, ["P(A)", "P(B)"], groups, law)
        assert even[groups[0]] == pytest.approx(0.5, abs=1e-3)
        twice = workload_shares(network, prior, ["P(A)", "P(B)", "P(A=h)"], groups, law)
        # Least sum of weighted logarithms: shares of the budget in proportion to the weights.
        assert twice[groups[0]] == pytest.approx(2 / 3, abs=1e-3)


@every("law", [DiscreteLaplace, DiscreteGaussian])
def test_no_other_shares_promise_less_error(law: type[CellLaw]) -> None:
    texts = ["P(lung | smoke=yes)", "P(tub | asia=yes)", "P(xray)"]
    shares = workload_shares(ASIA, PRIOR, texts, MERGED, law)
    alpha = PRIOR.alpha.map(lambda table: np.maximum(table, workload.LEAST_CONCENTRATION))
    theta = dc.Dirichlet(alpha).draw(workload.PRIOR_DRAWS, rng=np.random.default_rng(0))
    sensitivities = workload_variances(theta, named(ASIA, *texts))
    floor = default_shares(ASIA, MERGED, law)

    def error(part: dict[Group, float]) -> float:
        """Mean logarithm of the standard deviation, from the public functions alone."""
        scale = {
            scope: workload.FLOOR_SHARE * floor.get(scope, 0) + (1 - workload.FLOOR_SHARE) * part[scope]
            for scope in part
        }
        variances = {group[0]: 2 / x**2 if law is DiscreteLaplace else 1 / (2 * x) for group, x in scale.items()}
        pooled = pooled_variances(ASIA, {scope: Blur(variance) for scope, variance in variances.items()})
        logs = [np.log(sum(pooled[subset] * h for subset, h in found.items())).mean() / 2 for found in sensitivities]
        return float(np.mean(logs))

    part = {
        scope: (x - workload.FLOOR_SHARE * floor.get(scope, 0)) / (1 - workload.FLOOR_SHARE)
        for scope, x in shares.items()
    }
    least = error(part)
    assert least < error({scope: floor[scope] for scope in MERGED}) - 0.2
    rng = np.random.default_rng(2)
    tables = list(dict.fromkeys([*MERGED, *((in_order(ASIA, ASIA.family(node)),) for node in ASIA.nodes)]))
    for trial in range(400):
        if trial % 2:
            other = dict(zip(tables, rng.dirichlet(np.full(len(tables), 0.3)), strict=True))
        else:
            near = {scope: max(x, 1e-9) * math.exp(0.1 * rng.normal()) for scope, x in part.items()}
            other = {scope: x / sum(near.values()) for scope, x in near.items()}
        assert least <= error(other) + (1e-4 if law is DiscreteGaussian or not trial % 2 else 0.02)


def test_default_shares_follow_the_families_that_a_table_serves() -> None:
    served = {
        MERGED[0]: [2, 4, 8],  # asia, tub, either
        MERGED[1]: [2, 4, 4],  # smoke, lung, bronc
        MERGED[2]: [4, 8],  # xray, dysp
    }
    for law, power in ((DiscreteLaplace, 0.4), (DiscreteGaussian, 2 / 3)):
        sums = {group: sum(math.sqrt(cells * 2 ** len(group[0])) for cells in read) for group, read in served.items()}
        whole = sum(total**power for total in sums.values())
        shares = default_shares(ASIA, MERGED, law)
        assert shares == pytest.approx({group: total**power / whole for group, total in sums.items()})


# ------------------------------------------------------------------------------------------ what it gains


@pytest.mark.parametrize(
    ("name", "text", "factor"),
    [
        ("asia", "P(lung | smoke=yes)", 2.5),
        ("asia", "P(smoke)", 3.0),
        ("child", "P(BirthAsphyxia)", 15.0),
        ("child", "P(Disease | LVHreport=yes)", 2.0),
        pytest.param("child", "P(LVHreport)", 3.0, marks=pytest.mark.thorough),
        pytest.param("alarm", "P(HYPOVOLEMIA | CVP=HIGH)", 4.0, marks=pytest.mark.thorough),
    ],
)
def test_the_error_of_a_workload_falls(name: str, text: str, factor: float) -> None:
    epsilon = 0.3
    theta = asia() if name == "asia" else theta_of(name)
    network = theta.network
    groups = star_cover(network, 0)
    (query,) = named(network, text)
    truth = answers(dc.Tables(network, lambda node: theta[node][..., None], draws=1), query)
    errors = []
    for shares in (
        default_shares(network, groups, DiscreteLaplace),
        workload_shares(network, dc.Dirichlet.uniform(network), [text], groups, DiscreteLaplace),
    ):
        rng = np.random.default_rng(11)
        variances = {group[0]: 2 / (epsilon * share) ** 2 for group, share in shares.items()}
        noisy = {}
        for scope, variance in variances.items():
            counts = expected(theta, scope, 10_000.0)
            noisy[scope] = counts + rng.laplace(0, math.sqrt(variance / 2), (*counts.shape[:-1], 24))
        found = not_negative(network, noisy, variances)
        tables = {node: spread(network, found, in_order(network, network.family(node))) for node in network.nodes}
        errors.append(np.abs(answers(read(network, tables, floor=1.0), query) - truth).mean())
    assert errors[0] / errors[1] > factor


# ------------------------------------------------------------------------------------------ what is refused


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(dc.InputError, match="at least one query"):
        workload_shares(ASIA, PRIOR, [], MERGED, DiscreteLaplace)
    with pytest.raises(dc.InputError, match="did you mean 'smoke'"):
        workload_shares(ASIA, PRIOR, ["P(smok)"], MERGED, DiscreteLaplace)
    with pytest.raises(dc.InputError, match="no variable 'smok'"):
        workload_shares(ASIA, PRIOR, [Probability((("smok", None),))], MERGED, DiscreteLaplace)
    with pytest.raises(dc.InputError, match="no measured table holds the family of 'xray'"):
        workload_shares(ASIA, PRIOR, ["P(smoke)"], [*MERGED[:2], (("bronc", "either", "dysp"),)], DiscreteLaplace)
    with pytest.raises(dc.InputError, match="serves no family"):
        workload_shares(ASIA, PRIOR, ["P(smoke)"], [*MERGED, (("lung", "dysp"),)], DiscreteLaplace)


def test_an_answer_that_no_record_can_change_cannot_be_planned_for() -> None:
    network = dc.Network((dc.Variable("A", ("only",)), dc.Variable("B", ("x", "y"))), {"A": (), "B": ("A",)})
    prior = dc.Dirichlet.uniform(network)
    with pytest.raises(dc.InputError, match="no answer of this workload depends on the records"):
        workload_shares(network, prior, ["P(A)"], [(("A", "B"),)], DiscreteLaplace)
    shares = workload_shares(network, prior, ["P(A)", "P(B)"], [(("A", "B"),)], DiscreteLaplace)
    assert sum(shares.values()) == pytest.approx(1)
