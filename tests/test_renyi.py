"""`discreet.research.mechanisms.posterior_sampler`: divergences against integrals, deltas against exact ones."""

from __future__ import annotations

from itertools import product
from math import e

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import discreet as dc
from discreet.privacy.guarantee import RECORD_RELATIONS, Guarantee, Relation
from discreet.research.mechanisms.posterior_sampler import delta_of, dirichlet_renyi, temper_for
from experiments.trimmed_laws import BetaBinomial
from folding import every
from networks import asia
from tiny import network_of


def divergence(order: float, p: tuple[float, ...], q: tuple[float, ...]) -> float:
    """Renyi divergence of two Dirichlets, from the log normalisers; infinite outside the natural domain."""

    def log_normaliser(alpha: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float(gammaln(alpha).sum() - gammaln(alpha.sum()))

    first, second = np.array(p, float), np.array(q, float)
    mixed = order * first + (1 - order) * second
    if mixed.min() <= 0:
        return float("inf")
    total = log_normaliser(mixed) - order * log_normaliser(first) + (order - 1) * log_normaliser(second)
    return total / (order - 1)


@every(
    ("concentration", "order", "printed", "digits"),
    [(3, 1.5, 0.296, 3), (3, 2, 0.4245, 4), (3, 3, 0.780, 3), (10, 2, 0.1222, 4), (10, 3, 0.1893, 4)],
)
def test_divergences_of_fifty_bits_are_those_of_the_literature(
    concentration: float, order: float, printed: float, digits: int
) -> None:
    exact = []
    for k in range(50):
        one, other = (concentration + k + 1, concentration + 49 - k), (concentration + k, concentration + 50 - k)
        exact.append(max(divergence(order, one, other), divergence(order, other, one)))
    assert round(max(exact), digits) == printed
    assert max(exact) == pytest.approx(max(exact[0], exact[-1]))
    # The supremum over all numbers of records is larger.
    assert max(exact) < dirichlet_renyi(order, concentration, 1.0, Relation.REPLACE)


@every("temper", [1.0, 0.3])
@every("order", [1.3, 2.0, 3.5])
def test_the_closed_form_is_the_integral(order: float, temper: float) -> None:
    p, q = (4 + temper, 5.0), (4.0, 5 + temper)
    first, second = stats.beta(*p), stats.beta(*q)
    value, _ = integrate.quad(lambda t: first.pdf(t) ** order * second.pdf(t) ** (1 - order), 0, 1)
    assert divergence(order, p, q) == pytest.approx(np.log(value) / (order - 1), rel=1e-6)


@every("temper", [1.0, 0.4])
@every("order", [1.2, 2.0, 3.0])
@every("alpha", [(2.5, 2.5), (2.2, 3.0, 4.0)])
def test_no_counts_up_to_thirty_exceed_the_bound(alpha: tuple[float, ...], order: float, temper: float) -> None:
    bound = {relation: dirichlet_renyi(order, min(alpha), temper, relation) for relation in RECORD_RELATIONS}
    reached = dict.fromkeys(RECORD_RELATIONS, 0.0)
    values = range(31) if len(alpha) == 2 else (0, 1, 2, 7, 30)
    for counts in product(values, repeat=len(alpha)):
        base = np.array(alpha) + temper * np.array(counts)
        more = [tuple(base + temper * unit) for unit in np.eye(len(alpha))]
        for one in more:
            pair = (divergence(order, one, tuple(base)), divergence(order, tuple(base), one))
            reached[Relation.ADD_REMOVE] = max(reached[Relation.ADD_REMOVE], *pair)
            for other in more:
                if other != one:
                    reached[Relation.REPLACE] = max(reached[Relation.REPLACE], divergence(order, one, other))
    for relation in RECORD_RELATIONS:
        assert reached[relation] <= bound[relation]
        assert reached[relation] > 0.5 * bound[relation]


def test_the_bound_is_approached_as_the_row_grows() -> None:
    for order, temper in [(1.5, 1.0), (2.5, 0.7)]:
        removed = divergence(order, (2.0, 1e7), (2.0 + temper, 1e7))
        added = divergence(order, (2.0 + temper, 1e7), (2.0, 1e7))
        bound = float(dirichlet_renyi(order, 2.0, temper, Relation.ADD_REMOVE))
        assert removed == pytest.approx(bound, rel=1e-5) and added < removed
        # Replaced across two rows: one cell of each.
        assert added + removed == pytest.approx(float(dirichlet_renyi(order, 2.0, temper, Relation.REPLACE)), rel=1e-5)


def test_the_bound_falls_with_concentration_and_rises_with_temper() -> None:
    for relation in RECORD_RELATIONS:
        by_concentration = dirichlet_renyi(2.5, np.linspace(1.6, 40, 200), 1.0, relation)
        assert np.all(np.diff(by_concentration) < 0)
        assert np.all(np.diff(dirichlet_renyi(2.5, 2.0, np.linspace(0.01, 1, 200), relation)) > 0)


def test_orders_beyond_the_concentration_are_infinite() -> None:
    for relation in RECORD_RELATIONS:
        assert np.isinf(dirichlet_renyi([3.0, 4.0], 2.0, 1.0, relation)).tolist() == [True, True]
        assert np.isfinite(dirichlet_renyi(2.99, 2.0, 1.0, relation))


def test_rounding_never_makes_a_divergence_too_small() -> None:
    # log gamma of a billion has lost the digits of a temper of 1e-4; the answer is too large, never negative.
    divergences = dirichlet_renyi(np.linspace(1.1, 50, 100), 1e9, 1e-4, Relation.REPLACE)
    assert np.all(divergences > 1e-8 * 1e-9)


# ------------------------------------------------------------------------------------------ deltas


@every("sigma", [0.5, 1.0, 4.0])
@every("epsilon", [0.1, 1.0, 4.0])
def test_the_conversion_is_valid_and_close_for_gaussian_noise(sigma: float, epsilon: float) -> None:
    orders = 1 + np.geomspace(1e-3, 1e4, 2000)
    found = delta_of(orders, orders / (2 * sigma**2), epsilon)
    half, shift = 1 / (2 * sigma), epsilon * sigma
    exact = float(stats.norm.cdf(half - shift) - np.exp(epsilon) * stats.norm.cdf(-half - shift))
    assert exact <= found <= max(8 * exact, exact + 0.2)


def test_the_conversion_is_tight_where_one_order_is_known() -> None:
    # Proposition 12 for order 2: no pair of laws with D_2 = ln 1.5 has a larger delta than this at epsilon 1.
    assert delta_of([2.0], [np.log(1.5)], 1.0) == pytest.approx(1.5 / e / 4)
    assert delta_of([2.0], [50.0], 1.0) == 1
    assert delta_of([2.0, 3.0], [0.1, np.inf], 1.0) == delta_of([2.0], [0.1], 1.0)


@every("concentration", [1.0, 5.0, 20.0])
def test_the_exact_delta_of_a_beta_posterior_is_below_that_of_renyi(concentration: float) -> None:
    orders = 1 + concentration * np.linspace(0.01, 0.99, 99)
    bound = dirichlet_renyi(orders, concentration, 1.0, Relation.REPLACE)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        for records in (1, 2, 20, 200):
            exact = BetaBinomial(concentration, concentration, 0).replace_delta(records, epsilon)
            assert exact <= delta_of(orders, bound, epsilon)


@every("relation", RECORD_RELATIONS)
def test_the_temper_meets_the_guarantee_and_is_nearly_the_largest(relation: Relation) -> None:
    network = asia().network
    prior = dc.Dirichlet.uniform(network, 2.0)
    guarantee = Guarantee(epsilon=1, delta="1e-6", relation=relation, unit="record")
    temper = temper_for(network, prior, guarantee, 3)

    def delta(tau: float) -> float:
        orders = 1 + 2 / tau * np.geomspace(1e-4, 0.999, 4000)
        return delta_of(orders, 3 * 8 * dirichlet_renyi(orders, 2.0, tau, relation), 1.0)

    assert 0 < temper < 1
    assert delta(temper) <= 1e-6 * (1 + 1e-3) and delta(1.01 * temper) > 1e-6
    assert temper_for(network, prior, guarantee, 30) < temper


def test_a_lax_guarantee_needs_no_temper() -> None:
    network = network_of({"a": 2})
    lax = Guarantee(epsilon=10, delta="0.5", relation="replace", unit="record")
    assert temper_for(network, dc.Dirichlet.uniform(network, 20.0), lax, 1) == 1


def test_a_variable_of_one_state_costs_nothing() -> None:
    guarantee = Guarantee(epsilon=1, delta="1e-5", relation="replace", unit="record")
    alone, both = network_of({"a": 2}), network_of({"a": 2, "b": 1}, "a>b")
    tempers = [temper_for(network, dc.Dirichlet.uniform(network, 3.0), guarantee, 1) for network in (alone, both)]
    assert tempers[0] == tempers[1] < 1
    assert temper_for(network_of({"b": 1}), dc.Dirichlet.uniform(network_of({"b": 1}), 1.0), guarantee, 1) == 1


def test_bad_arguments_are_refused() -> None:
    nan = float("nan")
    for order, concentration, temper in [(1, 1, 1), (nan, 1, 1), (2, 0, 1), (2, nan, 1), (2, 1, 0), (2, 1, 1.5)]:
        with pytest.raises(dc.InputError, match="Renyi divergence needs"):
            dirichlet_renyi(order, concentration, temper, Relation.REPLACE)
    for orders, divergences, epsilon in [([1.0], [1.0], 1.0), ([2.0], [-1.0], 1.0), ([2.0], [1.0], nan)]:
        with pytest.raises(dc.InputError, match="must be"):
            delta_of(orders, divergences, epsilon)
    for several in ([], [2.0, 3.0]):
        with pytest.raises(dc.InputError, match="equal in number"):
            delta_of(several, [1.0], 1.0)
    network = network_of({"a": 2})
    prior, pure = dc.Dirichlet.uniform(network), Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    with pytest.raises(dc.InputError, match="delta 0"):
        temper_for(network, prior, pure, 1)
    approximate = Guarantee(epsilon=1, delta="0.1", relation="replace", unit="record")
    with pytest.raises(dc.InputError, match="at least one draw"):
        temper_for(network, prior, approximate, 0)
    with pytest.raises(dc.InputError, match="another network"):
        temper_for(network_of({"b": 2}), prior, approximate, 1)
    hopeless = Guarantee(epsilon="1e-12", delta="1e-299", relation="replace", unit="record")
    with pytest.raises(dc.InputError, match="no temper above"):
        temper_for(network, prior, hopeless, 1000)
