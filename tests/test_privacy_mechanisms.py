"""Every mechanism keeps its promise, by enumeration: neighbouring data sets and outputs on networks of a few cells.

`test_privacy.py` does this for plain Laplace noise. Here the answers of the source of randomness are enumerated, by
`enumeration.py`, which shares nothing with the package's audit. The mechanisms of `flawed.py` must fail these proofs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.noise import deviation_for
from discreet.mechanisms.planned import planned
from discreet.research.mechanisms.allocated import allocated
from discreet.research.mechanisms.fourier import fourier
from discreet.research.mechanisms.map_estimate import map_estimate
from discreet.research.mechanisms.posterior_sampler import posterior_sampler
from enumeration import (
    SIDES,
    Loss,
    Pair,
    Scripted,
    among,
    beta_excess,
    choice_loss,
    coarsened,
    gaussian_delta,
    law_loss,
    log,
    noise_loss,
    only_run,
    outcomes,
    picked_loss,
    rows_by_hand,
    runs,
    told_delta,
)
from flawed import (
    ADD_REMOVE,
    ARC,
    BITS,
    CANDIDATES,
    COIN,
    FLAWS,
    PAIRS,
    REPLACE,
    Flaw,
    gaussian_flaws,
    planned_gaussian_flaws,
    promise,
)
from folding import every
from tiny import TINY, all_records, counts_of, neighbours, network_of


def crowded(network: dc.Network, relation: dc.Relation, size: int) -> list[Pair]:
    """Few records, and many equal ones beside fewer others."""
    records = all_records(network)
    crowds = [(records[0],) * size + (record,) * (size // 3) for record in records]
    return [*neighbours(network, relation, 2), *among(network, relation, crowds)]


# ------------------------------------------------------------------------------------------------------------- fourier


@every("epsilon", ["1", "7/3"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
def test_fourier_noise_is_private_and_tight(network: dc.Network, relation: dc.Relation, epsilon: str) -> None:
    """Rational: the largest ratio is S / scale, and the scale is a few units in the last place above S / epsilon."""
    guarantee = promise(epsilon, relation)
    loss = noise_loss(fourier(), network, guarantee, neighbours(network, relation, 2))
    assert isinstance(loss, Fraction)
    assert guarantee.epsilon * (1 - Fraction(1, 10**14)) < loss <= guarantee.epsilon


@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_shift_costs_nothing(relation: dc.Relation) -> None:
    loss = noise_loss(fourier(stealth=0.5), ARC, promise(1, relation), neighbours(ARC, relation, 2))
    assert loss == 1


def test_the_worst_answers_are_worst_among_all() -> None:
    """The step from all outputs to those beyond the counts, on a window of outputs of a coin."""
    for relation in dc.tools.RECORD_RELATIONS:
        guarantee, pairs = promise("0.7", relation), list(neighbours(COIN, relation, 2))
        calibration = fourier().calibrate(COIN, dc.Dirichlet.uniform(COIN), guarantee)
        cells = 2 if relation is ADD_REMOVE else 1
        window = list(product(range(-4, 6), repeat=cells))
        assert noise_loss(fourier(), COIN, guarantee, pairs, window) == noise_loss(fourier(), COIN, guarantee, pairs)
        assert calibration.noisy_total is (cells == 2)


# ----------------------------------------------------------------------------------------------------------- allocated


@pytest.mark.costly("Both stages and all samples together, by enumeration, as no proof of one stage is.", always=True)
@every(("network", "weights"), [(BITS, "kl"), (BITS, "structure"), (ARC, "kl")])
@every(("relation", "sampling"), [(ADD_REMOVE, "1"), (REPLACE, "1"), (ADD_REMOVE, "0.5"), (ADD_REMOVE, "0.1")])
def test_two_stages_are_private_and_tight(
    network: dc.Network, relation: dc.Relation, sampling: str, weights: Any
) -> None:
    """All samples, all signs of the first stage, the worst answers of the second; data sets of up to 2 records.

    A sample is taken of 1 record, of up to 2 in one case: every record doubles the samples. The weights are for the
    shares of several tables.
    """
    guarantee = promise(1, relation)
    mechanism = allocated(first="0.25", sampling=sampling, weights=weights)
    most = 2 if sampling == "1" or (network is ARC and sampling == "0.1") else 1
    loss = noise_loss(mechanism, network, guarantee, neighbours(network, relation, most), SIDES)
    assert isinstance(loss, Fraction) == (sampling == "1")
    rounding = 0 if sampling == "1" else 1e-12
    assert 1 - 1e-8 <= loss <= 1 + rounding


@every("relation", dc.tools.RECORD_RELATIONS)
def test_two_stages_on_more_records_and_answers(relation: dc.Relation) -> None:
    """A wider window of first answers, on which the second stage's scales depend, and up to 3 records."""
    guarantee = promise("0.5", relation)
    some = [tuple(row) for row in np.random.default_rng(3).integers(-3, 7, (12, 4)).tolist()]
    loss = noise_loss(allocated(), BITS, guarantee, neighbours(BITS, relation, 3), some)
    assert 0.5 * 0.85 < loss <= Fraction(1, 2)


def test_the_first_stage_sees_the_sample_and_the_second_all_records() -> None:
    counts = counts_of(BITS, [(0, 0), (0, 1), (1, 1)])
    calibration = allocated(sampling="0.5").calibrate(BITS, dc.Dirichlet.uniform(BITS), promise(1, ADD_REMOVE))
    source = Scripted(kept=(1, 0, 0, 2))
    allocated(sampling="0.5").draw(counts, dc.Dirichlet.uniform(BITS), calibration, source)
    assert source.values[:4] == [1, 0, 0, 2]
    assert sorted(source.values[4:]) == sorted([2, 1, 1, 2])
    assert source.sampled == [(2, Fraction(1, 2)), (1, Fraction(1, 2)), (1, Fraction(1, 2)), (2, Fraction(1, 2))]


def test_samples_are_summed_out() -> None:
    """The frame: chances of all samples of a data set sum to 1."""
    mechanism = allocated(sampling="0.1")
    calibration = mechanism.calibrate(BITS, dc.Dirichlet.uniform(BITS), promise(1, ADD_REMOVE))
    found = runs(mechanism, calibration, counts_of(BITS, [(0, 1), (0, 0)]), (0,) * 4)
    assert len(found) == 3 * 1 * 2 * 2
    assert sum(run.chance for run in found) == 1


# ------------------------------------------------------------------------------------------------------------ gaussian


GAUSSIAN = [(COIN, ADD_REMOVE), (COIN, REPLACE), (BITS, ADD_REMOVE), (ARC, REPLACE)]


@every(("network", "relation"), GAUSSIAN)
@every(("epsilon", "delta"), [("1", "0.01"), ("0.5", "1e-5"), ("3", "1e-6")])
def test_gaussian_noise_is_private(network: dc.Network, relation: dc.Relation, epsilon: str, delta: str) -> None:
    """The conversion from rho is not tight: a fifth to a third of delta is used."""
    guarantee = promise(epsilon, relation, delta)
    found = gaussian_delta(gaussian(), network, guarantee)
    assert float(delta) / 6 < found < float(delta) / 2


@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
def test_rho_is_the_largest_squared_move(network: dc.Network, relation: dc.Relation) -> None:
    """Canonne et al., Theorem 4: noise of one scale on values at L2 distance d is d^2 / (2 scale^2)-zCDP."""
    guarantee = promise(1, relation, "1e-6")
    calibration = gaussian().calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    largest, asked = Fraction(), only_run(gaussian(), calibration, network)
    for one, other in neighbours(network, relation, 2):
        a, b = asked(one), asked(other)
        squared = sum((u - v) ** 2 for u, v in zip(a.values, b.values, strict=True))
        largest = max(largest, squared / (2 * Fraction(a.scales[0]) ** 2))
    assert largest <= calibration.rho <= largest * (1 + Fraction(1, 10**9))


@every("name", ["half the scale", "the wrong relation"])
def test_gaussian_noise_with_a_bug_is_not(name: str) -> None:
    guarantee = promise(1, REPLACE, "1e-4")
    assert gaussian_delta(gaussian_flaws()[name], COIN, guarantee) > 3e-4


# ------------------------------------------------------------------------------------------------------------- planned


SEVERAL = {
    "equal tables": PAIRS,
    "uneven tables": network_of({"a": 4, "b": 2, "c": 2, "d": 2}, "b>c c>d"),
    "tables that overlap": network_of({"a": 4, "b": 2, "c": 4}, "a>b b>c"),
}
"""Networks that are planned as two tables, as a star and a table, and as a star."""


@every("epsilon", ["1", "7/3"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", SEVERAL)
def test_several_planned_tables_are_private_and_tight(name: str, relation: dc.Relation, epsilon: str) -> None:
    """Rational: all of epsilon but for the rounding of budgets to parts in 10^12."""
    guarantee, network = promise(epsilon, relation), SEVERAL[name]
    plan = planned(pairs_share=0).calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    assert (len(plan.scales), len(plan.stars)) == {"uneven tables": (3, 2), "tables that overlap": (2, 2)}.get(
        name, (2, 0)
    )
    assert (len(set(plan.scales.values())) == 1) == (name != "uneven tables")
    loss = noise_loss(planned(pairs_share=0), network, guarantee, neighbours(network, relation, 1))
    assert isinstance(loss, Fraction)
    assert guarantee.epsilon * (1 - Fraction(1, 10**11)) < loss <= guarantee.epsilon


@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", ["two roots", "two binary, backwards", "chain", "collider"])
def test_planned_tables_for_a_workload_are_private_and_tight(name: str, relation: dc.Relation) -> None:
    """Small tables besides the large ones."""
    network, guarantee = TINY[name], promise(1, relation)
    mechanism = planned(pairs_share=0, workload=["P(b)"])
    assert len(mechanism.calibrate(network, dc.Dirichlet.uniform(network), guarantee).scales) > 1
    loss = noise_loss(mechanism, network, guarantee, neighbours(network, relation, 2))
    assert 1 - Fraction(1, 10**11) < loss <= 1


PLANNED_GAUSSIAN = [(COIN, ADD_REMOVE), (BITS, ADD_REMOVE), (ARC, REPLACE), (TINY["chain"], ADD_REMOVE)]


@every(("network", "relation"), PLANNED_GAUSSIAN)
@every(("epsilon", "delta"), [("1", "0.3"), ("0.5", "0.1"), ("0.1", "0.01")])
def test_planned_gaussian_noise_is_private(
    network: dc.Network, relation: dc.Relation, epsilon: str, delta: str
) -> None:
    """The conversion from rho is not tight: about half of so large a delta is used."""
    guarantee = promise(epsilon, relation, delta)
    plan = planned(pairs_share=0).calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    assert plan.noise == "discrete_gaussian"
    found = gaussian_delta(planned(pairs_share=0), network, guarantee)
    assert 0.4 < found / float(delta) < 0.7


@every("relation", dc.tools.RECORD_RELATIONS)
def test_planned_rho_is_the_largest_squared_move_in_units_of_the_noise(relation: dc.Relation) -> None:
    """Concentrated losses of tables add up: `sum over cells of move^2 / (2 scale^2)`."""
    network, guarantee = TINY["chain"], promise("0.1", relation, "0.1")
    plan = planned(pairs_share=0).calibrate(network, dc.Dirichlet.uniform(network), guarantee)
    assert (plan.noise, len(set(plan.scales.values()))) == ("discrete_gaussian", 2)
    largest, asked = Fraction(), only_run(planned(pairs_share=0), plan, network)
    for one, other in neighbours(network, relation, 2):
        a, b = asked(one), asked(other)
        cells = zip(a.values, b.values, a.scales, strict=True)
        largest = max(largest, sum((u - v) ** 2 / (2 * Fraction(scale) ** 2) for u, v, scale in cells))
    assert largest <= sum(plan.budgets.values()) <= largest * (1 + Fraction(1, 10**11))
    _, rho, _ = deviation_for(1, guarantee)
    assert rho * (1 - Fraction(1, 10**11)) < sum(plan.budgets.values()) <= rho


@every("name", planned_gaussian_flaws())
def test_planned_gaussian_noise_with_a_bug_is_not(name: str) -> None:
    mechanism = planned_gaussian_flaws()[name]
    cases = [(COIN, promise("0.5", REPLACE, "0.1")), (BITS, promise("0.5", ADD_REMOVE, "0.1"))]
    assert max(gaussian_delta(mechanism, network, guarantee) for network, guarantee in cases) > 0.115


# ---------------------------------------------------------------------------------------------------------------- rows


def one_variable(size: int) -> dc.Network:
    return network_of({"a": size})


@every(("size", "steps", "draws"), [(1, 2, 1), (2, 7, 1), (2, 3, 2), (3, 4, 1), (3, 2, 2), (4, 3, 1), (4, 1, 2)])
@every("astray", [False, True])
def test_rows_have_the_law_of_the_grid(size: int, steps: int, draws: int, astray: bool) -> None:
    """All sequences of picks, against all points of the grid; a row whose coin comes up is uniform on the grid."""
    network = one_variable(size)
    records = [(code,) for code in range(size) for _ in range(3 * code + 1)]
    prior = dc.Dirichlet(dc.Tables(network, {"a": np.linspace(0.3, 2.5, size)}))
    mechanism = posterior_sampler(draws)
    calibration = coarsened(mechanism.calibrate(network, prior, promise(2, ADD_REMOVE)), steps)
    counts = counts_of(network, records)
    found = outcomes(mechanism, calibration, counts, prior, coins=frozenset({0}) if astray else frozenset())
    exponents = prior.alpha["a"] + calibration.temper * counts.tables["a"] - 1
    floor = calibration.floors["a"]
    one = rows_by_hand([0.0] * size if astray else exponents.tolist(), floor, steps)
    expected: dict[tuple[tuple[int, ...], ...], Fraction] = {
        units: math.prod((one[point] for point in units), start=Fraction(1)) for units in product(one, repeat=draws)
    }
    assert sum(found.values()) == 1
    assert len(found) == len(expected)
    for released, chance in found.items():
        cells = np.array(dict(released[0])["a"]).reshape(size, draws)
        if size == 1:
            units = ((steps,),) * draws
            assert np.all(cells == 1)
        else:
            places = (cells - floor) * steps / (1 - size * floor)
            units = tuple(tuple(column) for column in np.rint(places).astype(int).T.tolist())
            assert np.allclose(places, np.rint(places), atol=1e-9)
        assert abs(log(chance) - log(expected[units])) < 1e-9


def test_one_coin_in_2_to_the_64_and_only_its_row_goes_astray() -> None:
    """Row after row: the second row of b goes anywhere, the others keep their law."""
    mechanism = posterior_sampler()
    calibration = coarsened(mechanism.calibrate(ARC, dc.Dirichlet.uniform(ARC), promise(6, ADD_REMOVE)), 1)
    counts = counts_of(ARC, [(0, 0)] * 5 + [(1, 1)] * 3)
    kept = outcomes(mechanism, calibration, counts)
    astray = outcomes(mechanism, calibration, counts, coins=frozenset({2}))

    def margin(law: dict[Any, Fraction], node: str, cell: int) -> Fraction:
        top = max(dict(key[0])[node][cell] for key in law)
        return sum((chance for key, chance in law.items() if dict(key[0])[node][cell] == top), Fraction())

    assert margin(astray, "a", 0) == margin(kept, "a", 0)
    assert margin(astray, "b", 0) == margin(kept, "b", 0)
    assert margin(astray, "b", 2) == Fraction(1, 2) != margin(kept, "b", 2)


ROWS = {
    "posterior_sampler": posterior_sampler,
    "two draws": lambda: posterior_sampler(2),
    "map_estimate": map_estimate,
    "map_estimate, high floor": lambda: map_estimate(floor=0.3),
}


@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", ROWS)
def test_rows_are_private_and_tight(name: str, relation: dc.Relation) -> None:
    """Joint laws of all rows (of both draws of a coin); reached in the limit of many records, here within 2 %."""
    guarantee = promise(1, relation)
    network, size = (COIN, 400) if name == "two draws" else (ARC, 160)
    loss = picked_loss(ROWS[name](), network, guarantee, crowded(network, relation, size), 1)
    assert 0.98 < loss <= 1


@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", [one_variable(3), one_variable(4)], ids=["three states", "four states"])
def test_rows_of_more_states_are_private(network: dc.Network, relation: dc.Relation) -> None:
    loss = picked_loss(posterior_sampler(), network, promise(2, relation), crowded(network, relation, 40), 2)
    assert 1.9 < loss <= 2


@every("relation", dc.tools.RECORD_RELATIONS)
@every(("epsilon", "crowd"), [("0.1", 400), ("5", 12)])
def test_rows_at_other_budgets(epsilon: str, crowd: int, relation: dc.Relation) -> None:
    guarantee = promise(epsilon, relation)
    loss = picked_loss(posterior_sampler(), COIN, guarantee, crowded(COIN, relation, crowd), 2)
    assert 0.95 * guarantee.epsilon < loss <= guarantee.epsilon


def test_the_coin_covers_what_underflows() -> None:
    """Weights below exp(-745) are 0: without the coin such a row would be impossible beside one record less."""
    guarantee, mechanism = promise(20, ADD_REMOVE), posterior_sampler()
    calibration = coarsened(mechanism.calibrate(COIN, dc.Dirichlet.uniform(COIN), guarantee), 2)
    coin = Fraction(1, 2**64)

    def with_coin(records: int) -> dict[Any, Fraction]:
        counts = counts_of(COIN, [(0,)] * records)
        kept = outcomes(mechanism, calibration, counts)
        astray = outcomes(mechanism, calibration, counts, coins=frozenset({0}))
        return {key: (1 - coin) * kept[key] + coin * astray[key] for key in astray}

    def impossible(records: int) -> bool:
        return 0 in outcomes(mechanism, calibration, counts_of(COIN, [(0,)] * records)).values()

    assert not impossible(36)
    assert impossible(40)
    assert all(law_loss(with_coin(records), with_coin(records + 1)) < 1 for records in range(36, 40))
    losses = [law_loss(with_coin(records), with_coin(records + 1)) for records in range(6)]
    assert 19 < max(losses) + 1 / calibration.total_scale <= 20  # the number of records is told beside the draw


# ---------------------------------------------------------------------------------------------------------- candidates


@every("relation", dc.tools.RECORD_RELATIONS)
def test_choices_are_private_and_tight(relation: dc.Relation) -> None:
    """Reached in the limit: here some record attains the widest range, and a crowd makes its candidate improbable."""
    records = all_records(ARC)
    pairs = [*neighbours(ARC, relation, 3), *among(ARC, relation, [(record,) * 60 for record in records])]
    loss = choice_loss(map_estimate(CANDIDATES), ARC, promise(1, relation), pairs)
    assert 1 - 1e-6 < loss <= 1


def test_where_the_range_is_only_a_bound() -> None:
    """The families' extremes need a = 0 and a = 1 at once: no record has both, and less than epsilon is lost."""
    candidates = [
        dc.Tables(ARC, {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.5, 0.5]]}),
        dc.Tables(ARC, {"a": [0.9, 0.1], "b": [[0.5, 0.5], [0.99, 0.01]]}),
    ]
    crowds = [(record,) * 60 for record in all_records(ARC)]
    loss = choice_loss(map_estimate(candidates), ARC, promise(1, ADD_REMOVE), among(ARC, ADD_REMOVE, crowds))
    assert loss < 1


# ----------------------------------------------------------------------------------- untrimmed posteriors, with a delta


@pytest.mark.costly("A temper that is too large for its delta is found by exact losses of neighbours.", always=True)
@every("relation", dc.tools.RECORD_RELATIONS)
@every(("epsilon", "delta"), [("1", "1e-4"), ("0.3", "1e-3")])
def test_untrimmed_draws_are_private(relation: dc.Relation, epsilon: str, delta: str) -> None:
    """Renyi accounting uses a fifth to a fifteenth of delta; half as much temper again is too much."""
    guarantee = promise(epsilon, relation, delta)
    prior = dc.Dirichlet.uniform(COIN, 1.0)
    calibration = posterior_sampler().calibrate(COIN, prior, guarantee)
    found = told_delta(relation, 1.0, calibration, calibration.temper, float(guarantee.epsilon))
    assert float(delta) / 16 < found < float(delta) / 5
    assert told_delta(relation, 1.0, calibration, 1.5 * calibration.temper, float(guarantee.epsilon)) > float(delta)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_untrimmed_draws_are_private_where_the_prior_is_uneven(relation: dc.Relation) -> None:
    """The state that the prior finds rare is the worst case: one record more of it, among many of the other."""
    rare, common, epsilon = 1.0, 9.0, 1.0
    prior = dc.Dirichlet(dc.Tables(COIN, {COIN.nodes[0]: np.array([common, rare])}))
    temper = posterior_sampler().calibrate(COIN, prior, promise(1, relation, "1e-3")).temper
    worst = 0.0
    for records in (0, 1000):
        a, b = rare, common + temper * records
        pair = (a + temper, b), ((a, b + temper) if relation is REPLACE else (a, b))
        worst = max(worst, beta_excess(*pair, epsilon), beta_excess(*pair[::-1], epsilon))
    assert 1e-3 / 20 < worst < 1e-3 / 4


# ------------------------------------------------------------------------------------------------------- planted bugs


def loss_of(flaw: Flaw) -> Loss:
    """What the proofs above measure, at epsilon 1."""
    mechanism, network, guarantee = flaw.make(), flaw.network, promise(1, flaw.relation)
    match flaw.kind:
        case "noise":
            return noise_loss(mechanism, network, guarantee, neighbours(network, flaw.relation, 2))
        case "stages":
            few = noise_loss(mechanism, network, guarantee, neighbours(network, flaw.relation, 1), SIDES)
            return max(
                few, noise_loss(mechanism, network, guarantee, neighbours(network, flaw.relation, 3), [(0,) * 4])
            )
        case "rows":
            return picked_loss(mechanism, network, guarantee, crowded(network, flaw.relation, 60), 1)
        case _:
            crowds = [(record,) * 60 for record in all_records(network)]
            return choice_loss(mechanism, network, guarantee, among(network, flaw.relation, crowds))


@pytest.mark.costly("A proof that finds nothing would pass every mechanism: each flaw must fail it.", always=True)
@every("name", FLAWS)
def test_every_bug_fails_its_proof(name: str) -> None:
    flaw = FLAWS[name]
    found = loss_of(flaw)
    assert found > 1.09
    if flaw.loss is not None:
        assert found == pytest.approx(flaw.loss, rel=1e-7)
