"""Metrics of whole records: numbers, lengths, moments, attributes and arcs, with and without a delta."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

import discreet as dc
from discreet.releases.metric_unit import attribute_units, distance_of, unit_lines
from discreet.research.mechanisms.scored import metric_width
from discreet.research.scores.distances import units_between
from discreet.research.scores.hockey_stick import hockey_stick, range_delta
from discreet.research.scores.likelihood_sensitivity import loss_of_ranges
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every
from tiny import network_of

PAIR = (dc.Variable("x", bounds=(-1, 1), bins=(-0.25, 0.5)), dc.Variable("y", bounds=(-1, 2), bins=(0.3,)))
TWO = dc.Network.empty(PAIR)
STAR = dc.Network(tuple(dc.Variable(name, ("no", "yes")) for name in "abc"), {"a": (), "b": ("a",), "c": ("a",)})
NORMAL = dc.research.Family(
    "multivariate_normal",
    tuple(dc.Variable.binned(name, (-1, 1), 3) for name in "xy"),
    {"low": 0.5, "high": 20, "degrees": 3},
    points=24,
)


def promise(unit: str, delta: object = 0, epsilon: object = 1) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="metric", unit=unit)


def places(network: dc.Network) -> list[list[tuple[Fraction, ...]]]:
    """Of every type the records at both ends of its bins, just below the upper one, and between."""
    bins = []
    for variable in network.variables:
        edges = [Fraction(edge) for edge in variable.edges]
        ends = [(low, low + (high - low) / 3, high - Fraction(1, 10**12)) for low, high in pairwise(edges)]
        bins.append(ends)
    return [list(product(*boxes)) for boxes in product(*bins)]


def apart(x: tuple[Fraction, ...], y: tuple[Fraction, ...], amount: Fraction, distance: str) -> int:
    """Units between two records, by the definition, in numbers of fifty digits' worth."""
    if distance == "":
        return sum(math.ceil(abs(a - b) / amount) for a, b in zip(x, y, strict=True))
    square = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    scale = 10**60
    length = Fraction(math.isqrt(int(square * scale)), math.isqrt(scale))
    if distance == "length":
        return math.ceil(length / amount)
    products = sum((a * b - c * d) ** 2 for (a, c), (b, d) in product(list(zip(x, y, strict=True)), repeat=2))
    return math.ceil((Fraction(math.isqrt(int(products * scale)), math.isqrt(scale)) + 2 * length) / amount)


# ---------------------------------------------------------------------------------------------------------- distances


@every("amount", ["0.1", "0.5", "0.3"])
@every("distance", ["", "length", "moments"])
def test_units_between_types_are_those_of_the_nearest_records(distance: str, amount: str) -> None:
    records, unit = places(TWO), Fraction(amount)
    for at, row in enumerate(units_between(TWO, unit, distance)):
        for further, units in enumerate(row.tolist()):
            nearest = min(apart(x, y, unit, distance) for x, y in product(records[at], records[at + 1 + further]))
            assert units <= nearest
            # Products are bounded entry by entry: of one number, and of lengths, that is the distance itself.
            assert units == nearest if distance != "moments" else units >= 0.5 * nearest


def test_lemma_23_and_24_by_hand() -> None:
    """The square of a number in [.5, 1) and one in [-1, -.25): at least .1875 + 2 (.75) = 1.6875."""
    line = dc.Network.empty(PAIR[:1])
    assert [row.tolist() for row in units_between(line, Fraction(1), "moments")] == [[1, 2], [1], []]
    assert [row.tolist() for row in units_between(line, Fraction("0.5"), "moments")] == [[1, 4], [1], []]
    assert attribute_units(STAR, Fraction(1), "arcs") == {"a": 3, "b": 1, "c": 1}
    assert attribute_units(STAR, Fraction(2), "arcs") == {"a": 2, "b": 1, "c": 1}
    assert attribute_units(STAR, Fraction(1), "attributes") == {"a": 1, "b": 1, "c": 1}
    assert next(units_between(STAR, Fraction(1), "arcs")).tolist() == [1, 1, 2, 3, 4, 4, 5]


def test_a_unit_names_its_distance_or_none() -> None:
    assert [distance_of(promise(unit)) for unit in ("1 mm of x", "1 mm by length", "1 attribute by arcs")] == [
        "", "length", "arcs",
    ]  # fmt: skip
    assert distance_of(dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="day by day")) == ""
    with pytest.raises(
        dc.InputError, match="a unit may end in by arcs, attributes, length, moments, and not in 'by lenght'"
    ):
        dc.audit(dc.laplace(), promise("1 mm by lenght"))
    told = " ".join(unit_lines(promise("1 cm by moments"), PAIR))
    assert "column 'x'" in told and "column 'y'" in told and "Frobenius norm of x x' - y y'" in told
    assert unit_lines(promise("1 value by arcs"), PAIR) == [
        "by arcs: each value of a record that differs counts 1, and 1 more for each child that its variable has; "
        "each is rounded up to units, and all add up"
    ]


# -------------------------------------------------------------------------------------------------- the loss of a draw


@every(
    "unit", ["0.25 cm in one value", "0.25 cm by length", "0.25 by moments", "1 value by arcs", "2 value by attributes"]
)
def test_a_draw_of_several_numbers_costs_what_it_says(unit: str) -> None:
    """All pairs of data sets of two records that differ in one: nearest records by the definition, laws by hand."""
    asked = promise(unit)
    calibration = dc.research.sampled(NORMAL).calibrate(NORMAL.network, dc.Dirichlet.uniform(NORMAL.network), asked)
    table, rows = NORMAL.table, list(units_between(NORMAL.network, asked.unit_amount, distance_of(asked)))
    nats, worst = calibration.rate / SCORE_STEPS * table.steps, 0.0
    records = places(NORMAL.network)
    for rest in (np.zeros(len(table.base)), *(times * row for row in nats for times in (1, 30))):
        laws = log_softmax(table.base + rest + nats, axis=1)
        for at, row in enumerate(rows):
            moved = np.abs(laws[at + 1 :] - laws[at]).max(axis=1, initial=0)
            worst = max(worst, float((moved / row).max(initial=0)))
    assert worst <= 1 + 1e-9
    assert worst > 0.75 or calibration.rate == table.span
    if "value by" not in unit:  # the units are those of records, not of the code that is tested
        distance = distance_of(asked)
        for at, row in enumerate(rows[:3]):
            for further, units in enumerate(row.tolist()):
                near = product(records[at], records[at + 1 + further])
                assert units <= min(apart(x, y, asked.unit_amount, distance) for x, y in near)


@every("unit", ["1 attribute by arcs", "2 attribute by arcs", "1 attribute by attributes"])
def test_rows_and_tables_cost_what_they_say_for_each_unit(unit: str) -> None:
    cases = {"star": STAR, "alone": network_of({"a": 3})}
    for mechanism, low in ((dc.laplace(), 1 - 1e-6), (dc.research.posterior_sampler(), 0.95)):
        for finding in dc.audit(mechanism, promise(unit), cases, most=1):
            assert finding.exact and finding.holds and low <= finding.measured <= 1 + 1e-7, (finding, mechanism.name)


def test_noise_of_one_scale_serves_any_number_of_families() -> None:
    """By arcs a value counts as often as it is in families: tables of ten families have noise as of one."""
    names = [f"x{at}" for at in range(10)]
    wide = dc.Network(
        tuple(dc.Variable(name, ("no", "yes")) for name in names),
        {name: names[:1] if name != "x0" else () for name in names},
    )
    noise = dc.laplace().calibrate(wide, dc.Dirichlet.uniform(wide), promise("1 attribute by arcs"))
    # x0 is in nine tables and counts ten: a leaf, in one table, decides.
    assert set(noise.scales.values()) == {2.0}
    record = dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    assert set(dc.laplace().calibrate(wide, dc.Dirichlet.uniform(wide), record).scales.values()) == {18.0}


def test_lemma_24_holds_with_the_range_of_each_node() -> None:
    """`2 max v Lambda` for one attribute, `2 ln(1 / w)` at most for each unit of `v' delta`."""
    ranges = {"a": 0.7, "b": 1.1, "c": 0.2}
    assert loss_of_ranges(STAR, ranges, promise("1 attribute by attributes")) == pytest.approx(4.0)
    assert loss_of_ranges(STAR, ranges, promise("1 attribute by arcs")) == pytest.approx(2.2)
    for replaced, loss in (("replace", 4.0), ("add-remove", 2.0)):
        asked = dc.Guarantee(epsilon=1, delta=0, relation=replaced, unit="record")
        assert loss_of_ranges(STAR, ranges, asked) == pytest.approx(loss)


def test_a_loss_that_is_halved_is_refuted() -> None:
    """Twice the temper, twice the rate, half the scale: each audit finds it."""
    sampler, draws, noise = dc.research.posterior_sampler(), dc.research.scored(NORMAL), dc.laplace()
    for honest, change, unit in (
        (sampler, lambda made: replace(made, temper=2 * made.temper), "1 attribute by arcs"),
        (draws, lambda made: replace(made, rate=2 * made.rate), "0.5 cm by length"),
        (noise, lambda made: replace(made, scales={name: s / 2 for name, s in made.scales.items()}), "1 value by arcs"),
    ):

        def calibrate(*parts: Any, honest: Any = honest, change: Any = change) -> Any:
            return change(honest.calibrate(*parts))

        cases = None if honest.only else {"star": STAR}
        (finding,) = dc.audit(replace(honest, calibrate=calibrate), promise(unit), cases, most=1)
        assert not finding.holds and finding.measured > 1.3


# --------------------------------------------------------------------------------------------------------- with a delta


def test_the_largest_delta_of_a_range_is_attained_and_never_passed() -> None:
    rng = np.random.default_rng(1)
    for reach, epsilon in ((0.5, 0.1), (2.0, 1.0), (9.0, 0.3)):
        t = (reach + epsilon) / 2
        p = math.expm1(reach - t) / (math.expm1(reach - t) - math.expm1(-t))
        law = np.log([p, 1 - p])
        other = law - [t, t - reach]
        assert np.exp(other).sum() == pytest.approx(1)
        assert hockey_stick(law, other, epsilon) == pytest.approx(range_delta(reach, epsilon))
        for _ in range(200):
            base, tilt = log_softmax(rng.normal(0, 3, 6)), rng.uniform(0, reach, 6)
            assert hockey_stick(base, log_softmax(base + tilt), epsilon) <= range_delta(reach, epsilon) + 1e-12
    assert range_delta(1.0, 1.0) == 0


@every("delta", ["0.001", "0.02", "0.2"])
def test_definition_2_holds_with_its_delta_at_every_distance(delta: str) -> None:
    """All pairs of data sets of up to three readings, near and far: `P(S) <= e^(epsilon rho) Q(S) + delta rho`."""
    family = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 6), 6),), {"low": 0.1, "high": 2}, 30)
    asked, most = promise("0.5 minutes in one wait", delta, "0.3"), 0.0
    prior = dc.Dirichlet.uniform(family.network)
    calibration = dc.research.sampled(family).calibrate(family.network, prior, asked)
    pure = dc.research.sampled(family).calibrate(family.network, prior, promise(asked.unit, 0, "0.3"))
    assert calibration.rate == pytest.approx(
        min(pure.rate * (0.3 + 4 * float(delta)) / 0.3, family.table.span), rel=0.02
    )
    nats = calibration.rate / SCORE_STEPS * family.table.steps
    units = np.zeros((6, 6), int)
    for at, row in enumerate(units_between(family.network, asked.unit_amount, "")):
        units[at, at + 1 :] = row
    units += units.T
    for size in (1, 2, 3):
        sets = list(combinations_with_replacement(range(6), size))
        laws = log_softmax(family.table.base + np.array([nats[list(records)].sum(axis=0) for records in sets]), axis=1)
        for at, one in enumerate(sets):
            # In order, readings on a line are as near as they can be.
            rho = np.array([sum(units[a, b] for a, b in zip(one, other, strict=True)) for other in sets])
            for r, law in zip(rho.tolist(), laws, strict=True):
                if r:
                    found = max(
                        float(hockey_stick(laws[at], law, 0.3 * r)), float(hockey_stick(law, laws[at], 0.3 * r))
                    )
                    most = max(most, found / r)
    assert most <= float(delta)


@every("unit", ["0.5 cm by length", "1 value by arcs"])
def test_audits_under_a_metric_with_a_delta_hold_and_find_more_rate(unit: str) -> None:
    asked = promise(unit, "0.01")
    honest = dc.research.sampled(NORMAL)
    (finding,) = dc.audit(honest, asked, most=1)
    assert finding.holds and finding.exact and 0.2 < finding.measured <= 1

    def calibrate(*parts: Any) -> Any:
        made = honest.calibrate(*parts)
        return replace(made, rate=4 * made.rate)

    (finding,) = dc.audit(replace(honest, calibrate=calibrate), asked, most=1)
    assert not finding.holds and finding.measured > 1.3


def test_rows_keep_their_delta_under_a_metric() -> None:
    (finding,) = dc.audit(
        dc.research.posterior_sampler(draws=2), promise("1 attribute by arcs", "0.01"), {"s": STAR}, most=1
    )
    assert finding.holds and finding.exact and finding.measured > 0.2


def test_what_a_metric_needs_is_said() -> None:
    coin = dc.research.Family("bernoulli", (dc.Variable("c", ("no", "yes")),), {"floor": 0.1}, points=20)
    assert dc.audit(dc.research.sampled(coin), promise("1 value by attributes"), most=1)[0].holds
    for unit in ("1 step in one value", "1 step by length"):
        with pytest.raises(dc.InputError, match="a unit that ends in 'by arcs' or 'by attributes'"):
            dc.research.sampled(coin).calibrate(coin.network, dc.Dirichlet.uniform(coin.network), promise(unit))
    with pytest.raises(dc.InputError, match="not for distances in a metric of numbers"):
        dc.research.posterior_sampler().calibrate(STAR, dc.Dirichlet.uniform(STAR), promise("1 cm by length"))
    assert metric_width(coin.table, Fraction(1), "arcs") > 0
