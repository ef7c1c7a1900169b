"""Trimmed networks cost what enumeration says, and Lipschitz constants over finite supports are exact."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.research.bounds import assumption_one, assumption_two, combined_rate, lipschitz_constants, may_be_private
from discreet.research.scores.likelihood_sensitivity import floor_for, log_range, record_loss
from experiments.paper_lipschitz import attribute_loss
from folding import every
from tiny import TINY, Record, all_records, network_of

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(400)


# ------------------------------------------------------------------------------------------------ one variable


@every(
    ("size", "floor", "expected"),
    [
        (2, 0.1, math.log(9)),
        (3, 0.1, math.log(8)),
        (4, 0.01, math.log(97)),
        (1, 0.7, 0.0),
        (2, 0.5, 0.0),
        (7, 1 / 7, 0.0),
        (1, math.nan, 0.0),
    ],
)
def test_the_range_of_a_trimmed_variable(size: int, floor: float, expected: float) -> None:
    assert log_range(size, floor) == pytest.approx(expected, abs=1e-14)


@every(("size", "floor"), [(2, 0.0), (2, -0.1), (2, 0.51), (3, 0.4), (2, math.nan), (0, 0.1)])
def test_a_floor_out_of_its_range_is_refused(size: int, floor: float) -> None:
    with pytest.raises(dc.InputError, match=r"floor|state"):
        log_range(size, floor)


@given(st.integers(1, 60), st.floats(1e-6, 600))
def test_floors_and_ranges_are_inverse_and_round_to_the_safe_side(size: int, range_: float) -> None:
    floor = floor_for(size, range_)
    found = log_range(size, floor)
    assert found <= range_
    assert size == 1 or found == pytest.approx(range_, rel=1e-8)
    assert size == 1 or floor == pytest.approx(1 / (size - 1 + math.exp(range_)), rel=1e-12)


@every(("size", "range_"), [(2, 0.0), (2, -1.0), (2, math.inf), (2, math.nan), (0, 1.0), (3, 1e-17)])
def test_a_range_that_no_floor_has_is_refused(size: int, range_: float) -> None:
    with pytest.raises(dc.InputError, match=r"range|state"):
        floor_for(size, range_)


@every(("epsilon", "floor"), [(1, 0.493), (5, 0.463), (10, 0.427), (30, 0.293), (100, 0.050)])
def test_floors_of_naive_bayes_with_sixteen_features(epsilon: float, floor: float) -> None:
    assert floor_for(2, epsilon / (2 * 17)) == pytest.approx(floor, abs=5e-4)


# ------------------------------------------------------------------------------------------------ networks


def corners(network: dc.Network, floors: dict[str, float]) -> list[dict[str, np.ndarray]]:
    """Log probabilities at every corner of the support: in each row one state has all that the floors leave."""
    rows = {node: math.prod(network.shape(node)[:-1]) for node in network.nodes}
    tables: dict[str, list[np.ndarray]] = {}
    for node in network.nodes:
        size = network.shape(node)[-1]
        shapes = (np.where(np.arange(size) == top, 1 - (size - 1) * floors[node], floors[node]) for top in range(size))
        listed = [np.log(row) for row in shapes]
        tables[node] = [np.reshape(chosen, network.shape(node)) for chosen in product(listed, repeat=rows[node])]
    return [dict(zip(network.nodes, chosen, strict=True)) for chosen in product(*(tables[n] for n in network.nodes))]


def log_probabilities(network: dc.Network, floors: dict[str, float]) -> tuple[list[Record], np.ndarray]:
    """All records, and `ln p(record)` at every corner, shape (corners, records)."""
    records = all_records(network)
    cells = [
        [tuple(dict(zip(network.nodes, record, strict=True))[name] for name in network.family(node))
         for node in network.nodes]
        for record in records
    ]  # fmt: skip
    logs = [
        [sum(table[node][cell] for node, cell in zip(network.nodes, own, strict=True)) for own in cells]
        for table in corners(network, floors)
    ]
    return records, np.array(logs)


FLOORS = {"a": 0.1, "b": 0.05, "c": 0.2}


@every("name", TINY)
def test_the_losses_are_the_ranges_that_enumeration_finds(name: str) -> None:
    """A log probability is monotone in each free factor, so its extremes lie at corners of the support."""
    network = TINY[name]
    floors = {node: FLOORS[node] for node in network.nodes}
    records, logs = log_probabilities(network, floors)
    assert np.ptp(logs, axis=0).max() == pytest.approx(record_loss(network, floors, ADD_REMOVE))
    worst_record = worst_attribute = 0.0
    for one, x in enumerate(records):
        for other, y in enumerate(records):
            range_ = float(np.ptp(logs[:, one] - logs[:, other]))
            worst_record = max(worst_record, range_)
            if sum(a != b for a, b in zip(x, y, strict=True)) == 1:
                worst_attribute = max(worst_attribute, range_)
    assert worst_record == pytest.approx(record_loss(network, floors, REPLACE))
    assert worst_attribute == pytest.approx(attribute_loss(network, floors))


def trimmed_loss(records: int, floor: float, relation: dc.Relation) -> float:
    """Largest |log ratio| of the densities of two neighbouring posteriors: one bit, uniform prior, all counts."""
    nodes, weights = GAUSS_LEGENDRE
    theta = 0.5 + (0.5 - floor) * nodes
    ends = np.array([floor, 1 - floor])

    def normaliser(n: int) -> np.ndarray:
        ones = np.arange(n + 1)[:, None]
        logs = ones * np.log(theta) + (n - ones) * np.log1p(-theta) + np.log(weights)
        return np.logaddexp.reduce(logs, axis=1)

    own = normaliser(records)
    if relation is REPLACE:
        ratios = [np.log(ends / (1 - ends)) - np.diff(own)[:, None]]
    else:
        more = normaliser(records + 1)
        ratios = [np.log(ends) - (more[1:] - own)[:, None], np.log1p(-ends) - (more[:-1] - own)[:, None]]
    return max(float(np.abs(ratio).max()) for ratio in ratios)


@every(
    ("records", "relation", "measured"),
    [(50, REPLACE, 4.21), (1000, REPLACE, 4.38), (50, ADD_REMOVE, 2.18), (1000, ADD_REMOVE, 2.20)],
)
def test_the_loss_of_a_trimmed_bit_nears_its_bound(records: int, relation: dc.Relation, measured: float) -> None:
    bound = record_loss(network_of({"a": 2}), {"a": 0.1}, relation)
    assert bound == pytest.approx({REPLACE: 4.394, ADD_REMOVE: 2.197}[relation], abs=5e-4)
    loss = trimmed_loss(records, 0.1, relation)
    assert loss == pytest.approx(measured, abs=0.005)
    assert loss < bound


def row_loss(others: tuple[int, int], x: tuple[int, int], y: tuple[int, int], floor: float) -> float:
    """Largest log ratio of a trimmed row's posterior densities, counts x against counts y besides the others'."""
    nodes, weights = GAUSS_LEGENDRE
    one = 0.5 + (0.5 - floor) * nodes

    def log_normaliser(counts: tuple[int, int]) -> float:
        zeros, ones = (own + more for own, more in zip(counts, others, strict=True))
        return float(np.logaddexp.reduce(zeros * np.log1p(-one) + ones * np.log(one) + np.log(weights)))

    ends = np.array([floor, 1 - floor])
    ratios = (x[0] - y[0]) * np.log1p(-ends) + (x[1] - y[1]) * np.log(ends)
    return float(ratios.max()) - log_normaliser(x) + log_normaliser(y)


def test_the_loss_of_a_network_is_approached_by_its_posterior() -> None:
    """a -> b, record (1, 1) against (0, 0), among many records (0, 0) and fewer (1, 0): rows a, b | 0 and b | 1."""
    bound = record_loss(TINY["two binary"], {"a": 0.1, "b": 0.1}, REPLACE)
    losses = [
        row_loss((many, few), (0, 1), (1, 0), 0.1)
        + row_loss((many, 0), (0, 0), (1, 0), 0.1)
        + row_loss((few, 0), (0, 1), (0, 0), 0.1)
        for many, few in ((20, 2), (200, 10), (20_000, 1000))
    ]
    assert losses == sorted(losses)
    assert 0.995 * bound < losses[-1] < bound


def test_five_bits_cost_22_and_not_the_4_6_that_was_printed() -> None:
    bits = network_of(dict.fromkeys("abcde", 2))
    floors = dict.fromkeys("abcde", 0.1)
    assert record_loss(bits, floors, REPLACE) == pytest.approx(22.0, abs=0.05)
    printed = 2 * 1 * math.log(1 / 0.1)
    assert printed == pytest.approx(4.6, abs=0.05)
    assert attribute_loss(bits, floors) < printed < record_loss(bits, floors, REPLACE)


def test_the_printed_loss_does_hold_for_one_attribute() -> None:
    star = network_of({"a": 2, "b": 2, "c": 2, "d": 3}, "a>b a>c a>d")
    floors = dict.fromkeys("abcd", 0.05)
    assert attribute_loss(star, floors) == pytest.approx(2 * (3 * log_range(2, 0.05) + log_range(3, 0.05)))
    assert attribute_loss(star, floors) < 2 * (1 + 3) * math.log(1 / 0.05)


def test_what_has_one_state_cannot_change() -> None:
    network = network_of({"a": 1, "b": 2, "c": 2}, "a>b a>c")
    floors = {"a": 0.5, "b": 0.1, "c": 0.2}
    assert attribute_loss(network, floors) == pytest.approx(2 * math.log(9))
    assert record_loss(network, floors, ADD_REMOVE) == pytest.approx(math.log(9) + math.log(4))
    assert attribute_loss(network_of({"a": 1}), {"a": 0.5}) == 0


@every(
    ("floors", "message"),
    [({"a": 0.1}, "'b'"), ({"a": 0.1, "b": 0.1, "z": 0.1}, "'z'"), ({"a": 0.1, "b": 0.6}, "node 'b': the floor")],
)
def test_floors_that_do_not_fit_are_refused(floors: dict[str, float], message: str) -> None:
    network = TINY["two binary"]
    for attempt in (lambda: record_loss(network, floors, REPLACE), lambda: attribute_loss(network, floors)):
        with pytest.raises(dc.InputError, match=message):
            attempt()


# ------------------------------------------------------------------------------------------------ calculus


def test_the_rate_of_a_network_follows_from_a_union() -> None:
    rates, start = [3.0, 2.5, 4.0], 1.0
    rate = combined_rate(rates, start)
    assert rate == pytest.approx(2.5 - math.log(3))
    for value in np.linspace(start, 10, 50):
        assert sum(math.exp(-one * value) for one in rates) <= math.exp(-rate * value) + 1e-15
    at_start = combined_rate([2.5] * 3, start)
    assert 3 * math.exp(-2.5 * start) == pytest.approx(math.exp(-at_start * start))
    # In the other form the rate stays and the start moves.
    shifted = start + math.log(3) / 2.5
    for value in np.linspace(shifted, 10, 50):
        assert sum(math.exp(-one * (value - start)) for one in rates) <= math.exp(-2.5 * (value - shifted)) + 1e-15


@every(("rates", "start"), [([], 1.0), ([1.0, 0.0], 1.0), ([1.0], 0.0), ([1.0] * 3, 1.0), ([math.nan], 1.0)])
def test_a_rate_that_says_nothing_is_refused(rates: list[float], start: float) -> None:
    with pytest.raises(dc.InputError, match="rates"):
        combined_rate(rates, start)


@every("constants", [[], [-1.0], [math.nan, 1.0]])
def test_constants_are_not_negative(constants: list[float]) -> None:
    with pytest.raises(dc.InputError, match="at least 0"):
        assumption_one(constants)


# ------------------------------------------------------------------------------------------------ finite supports


def bernoulli(step: float) -> np.ndarray:
    """l(theta) of the Bernoulli family with theta = step, 2 step, ..., 1 - step."""
    theta = step * np.arange(1, round(1 / step))
    return lipschitz_constants(np.log([1 - theta, theta]).T, [[0, 1], [1, 0]])


@every(("step", "uniform_constant", "sum_of_masses"), [(0.2, 1.386, 0.8), (0.05, 2.944, 0.95)])
def test_the_uniform_constant_of_the_finite_bernoulli_family(
    step: float, uniform_constant: float, sum_of_masses: float
) -> None:
    constants = bernoulli(step)
    assert assumption_one(constants) == pytest.approx(uniform_constant, abs=5e-4)
    assert assumption_one(constants) == pytest.approx(math.log((1 - step) / step))
    assert assumption_one(constants) < math.log(1 / step) - 0.05  # what is printed
    assert step * constants.size == pytest.approx(sum_of_masses)  # the prior that is printed is no distribution


@every(("step", "start", "uniform", "tilted"), [(0.2, 0.405, 0.7067, 1.3247), (0.05, 0.0, 0.2694, 0.6884)])
def test_the_stochastic_rates_of_the_finite_bernoulli_family(
    step: float, start: float, uniform: float, tilted: float
) -> None:
    constants = bernoulli(step)
    least = float(constants.min())
    assert least == pytest.approx(start, abs=5e-4)
    flat = np.full(constants.size, 1 / constants.size)
    prior = np.exp(-constants)
    prior /= prior.sum()
    for masses, expected in ((flat, uniform), (prior, tilted)):
        rate = assumption_two(constants, masses, least)
        assert rate == pytest.approx(expected, abs=5e-5)
        holds = holds_everywhere(constants, masses, least)
        assert holds(rate * (1 - 1e-9))
        assert not holds(rate * 1.001)
        assert masses @ constants <= least + 1 / rate  # Norkin's bound on the mean constant


def holds_everywhere(constants: np.ndarray, masses: np.ndarray, start: float):
    """Check the condition just below every step of the mass, and on a grid."""
    grid = np.concatenate([np.linspace(start, constants.max() + 1, 500), constants - 1e-12, constants])
    grid = grid[grid >= start]
    mass = np.array([masses[constants <= value].sum() for value in grid])
    return lambda rate: bool(np.all(mass >= 1 - np.exp(-rate * (grid - start)) - 1e-9))


def test_no_rate_from_a_start_below_the_smallest_constant() -> None:
    assert assumption_two(bernoulli(0.2), np.full(4, 0.25), 0.0) == 0
    assert assumption_two([1.0, math.inf], [0.5, 0.5], 1.0) == 0
    assert assumption_two([1.0, 2.0], [1.0, 0.0], 1.0) == math.inf


def test_the_rate_under_the_posterior_is_another() -> None:
    """After ten ones the mass sits on the steepest parameter."""
    theta = 0.2 * np.arange(1, 5)
    posterior = theta**10 / (theta**10).sum()
    constants = bernoulli(0.2)
    least = float(constants.min())
    expected = -math.log(posterior[[0, 3]].sum()) / (math.log(4) - least)
    assert assumption_two(constants, posterior, least) == pytest.approx(expected)
    assert expected < 0.1 < assumption_two(constants, np.full(4, 0.25), least)


def test_constants_see_every_pair_and_impossible_outcomes() -> None:
    logs = np.log([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]])
    line = np.abs(np.subtract.outer(np.arange(3.0), np.arange(3.0)))
    assert lipschitz_constants(logs, line).tolist() == pytest.approx([math.log(2), math.log(3)])
    impossible = [[0.0, -math.inf, -math.inf]]
    assert lipschitz_constants(impossible, line)[0] == math.inf
    together = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert lipschitz_constants(logs[:1], together)[0] == pytest.approx(math.log(2))
    assert lipschitz_constants(logs[1:], together)[0] == math.inf  # no distance, but another probability
    assert np.isinf(lipschitz_constants([[-math.inf, -math.inf, 0.0]], together)).all()


@every(
    ("logs", "distances", "message"),
    [
        ([0.0, 0.0], [[0, 1], [1, 0]], "shape"),
        ([[0.0, 0.0]], [[0, 1]], "shape"),
        ([[math.nan, 0.0]], [[0, 1], [1, 0]], "numbers or -inf"),
        ([[0.0, 0.0]], [[0, 1], [2, 0]], "symmetric"),
        ([[0.0, 0.0]], [[1, 1], [1, 0]], "diagonal"),
        ([[0.0, 0.0]], [[0, -1], [-1, 0]], "at least 0"),
        ([[0.0, 0.0]], [[0, math.inf], [math.inf, 0]], "finite"),
    ],
)
def test_likelihoods_and_distances_that_do_not_fit_are_refused(logs: object, distances: object, message: str) -> None:
    with pytest.raises(dc.InputError, match=message):
        lipschitz_constants(logs, distances)
    with pytest.raises(dc.InputError, match=message):
        may_be_private(logs, [1.0], distances, 1.0)


@every("masses", [[0.5, 0.6], [-0.5, 1.5], [math.nan, 1.0], [[0.5, 0.5]]])
def test_masses_that_are_no_distribution_are_refused(masses: object) -> None:
    with pytest.raises(dc.InputError, match="masses"):
        assumption_two([1.0, 2.0], masses, 1.0)
    with pytest.raises(dc.InputError, match="masses"):
        may_be_private([[0.0, 0.0], [0.0, 0.0]], masses, [[0, 1], [1, 0]], 1.0)


def test_masses_must_be_as_many_as_constants_and_the_start_not_negative() -> None:
    with pytest.raises(dc.InputError, match="2 constants need as many masses"):
        assumption_two([1.0, 2.0], [1.0], 1.0)
    with pytest.raises(dc.InputError, match="L0"):
        assumption_two([1.0], [1.0], -0.1)
    with pytest.raises(dc.InputError, match="1 parameters need as many masses"):
        may_be_private([[0.0, 0.0]], [0.5, 0.5], [[0, 1], [1, 0]], 1.0)
    with pytest.raises(dc.InputError, match="impossible under the prior"):
        may_be_private([[0.0, -math.inf]], [1.0], [[0, 1], [1, 0]], 1.0)


def exact_loss(logs: np.ndarray, masses: np.ndarray, distances: np.ndarray) -> float:
    """Largest log ratio of posterior probabilities for each unit of distance."""
    joint = logs + np.log(masses)[:, None]
    posterior = joint - np.logaddexp.reduce(joint, axis=0)
    gaps = np.abs(posterior[:, :, None] - posterior[:, None, :]).max(axis=0)
    return float((gaps[distances > 0] / distances[distances > 0]).max())


@given(st.integers(0, 2**32 - 1))
def test_the_necessary_condition_is_necessary(seed: int) -> None:
    """Where the posterior is 2L-DP the condition holds; where it fails, the posterior is not 2L-DP."""
    rng = np.random.default_rng(seed)
    logs = np.log(rng.dirichlet(np.ones(4), 5))
    masses = rng.dirichlet(np.ones(5))
    distances = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    loss = exact_loss(logs, masses, distances)
    assert may_be_private(logs, masses, distances, loss / 2 + 1e-9)
    assert may_be_private(logs, masses, distances, assumption_one(lipschitz_constants(logs, distances)) + 1e-9)
    assert not may_be_private(logs, masses, distances, 0.0)


def test_where_the_necessary_condition_fails() -> None:
    """For (x, y) = (0, 1) the likelihood bound needs ln 1.5, the marginal one ln(0.65 / 0.35); below both it fails."""
    logs, masses = np.log([[0.6, 0.4], [0.1, 0.9]]), np.array([0.5, 0.5])
    distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert may_be_private(logs, masses, distances, math.log(1.5) + 1e-9)
    assert not may_be_private(logs, masses, distances, math.log(1.5) - 1e-9)
    loss = exact_loss(logs, masses, distances)
    assert loss > 2 * math.log(1.5)  # not 2L-DP, which is what the proof shows
    assert loss < 2 * assumption_one(lipschitz_constants(logs, distances))


def test_what_is_impossible_on_both_sides_does_not_count() -> None:
    """Under the first parameter neither of the outcomes 0 and 1 can be; only the second one bears on that pair."""
    with np.errstate(divide="ignore"):
        logs = np.log([[0.0, 0.0, 1.0], [0.05, 0.95, 0.0]])
    distances = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [5.0, 5.0, 0.0]])
    assert may_be_private(logs, [0.5, 0.5], distances, 1.0)
    assert not may_be_private(logs, [0.5, 0.5], distances / 5, 1.0)
