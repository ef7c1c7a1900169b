"""The audit under a metric: readings that change by a unit and by several, against what was promised for each."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

import discreet as dc
from discreet.designs.made_up_designs import audit_designs
from discreet.mechanisms.noise import Noise, scale_for
from discreet.releases.kinds.noisy_counts import TableNoise
from discreet.research.kinds.scored_choice import ScoredNoise
from discreet.research.mechanisms.scored import metric_width
from discreet.research.scores.score_tables import SCORE_STEPS
from discreet.verify import audit as auditing
from discreet.verify.audit import changed_readings
from folding import every
from tiny import network_of

FINE = dc.Variable.binned("x", (0, 6), 12)
FAMILY = dc.research.Family("exponential", (FINE,), {"low": 0.1, "high": 2}, 20)


def promise(unit: str, epsilon: object = 1) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation="metric", unit=unit)


def rated(family: dc.research.Family, rate: Any) -> dc.tools.Mechanism:
    """Draws at a rate that somebody else worked out: from the table, the unit and epsilon."""
    honest = dc.research.scored(family)

    def calibrate(network: dc.Network, prior: dc.Dirichlet, asked: dc.Guarantee) -> ScoredNoise:
        own = honest.calibrate(network, prior, asked)
        return replace(own, rate=float(rate(family.table, asked.unit_amount, float(asked.epsilon))))

    return replace(honest, calibrate=calibrate)


def bins_that_touch(table: dc.research.ScoreTable, amount: Fraction, epsilon: float) -> float:
    """As if a unit reached the next bin at most."""
    return epsilon * SCORE_STEPS / int(np.ptp(np.diff(table.steps, axis=0), axis=1).max())


def whole_distances(table: dc.research.ScoreTable, amount: Fraction, epsilon: float) -> float:
    """As if readings were at the middles of their bins."""
    width = np.diff([0.0, *table.network.variables[0].bins])[0]
    return bins_that_touch(table, amount, epsilon) * float(width) / float(amount)


# ---------------------------------------------------------------------------------------------------------- findings


@pytest.mark.costly("The guarantee by distance, by enumeration of records that are moved.", always=True)
@every("amount", ["0.25", "0.5", "1", "2", "0.7"])
def test_what_keeps_its_promise_passes_and_is_nearly_tight(amount: str) -> None:
    for mechanism in (dc.research.scored(FAMILY), *([dc.research.scored(FAMILY, 3)] if amount == "0.7" else [])):
        (finding,) = dc.audit(mechanism, promise(f"{amount} minutes in one wait"), most=2)
        assert finding.exact and finding.holds and not finding.leak
        assert 0.8 < finding.measured <= 1


def test_a_rate_for_bins_that_touch_is_refuted_where_a_unit_spans_several() -> None:
    """A unit of 2 reaches four bins further, whose scores differ four times as much."""
    touching = rated(FAMILY, bins_that_touch)
    (finding,) = dc.audit(touching, promise("2 minutes in one wait"), most=1)
    assert not finding.holds and not finding.leak
    width = metric_width(FAMILY.table, Fraction(2)) / int(np.ptp(np.diff(FAMILY.table.steps, axis=0), axis=1).max())
    assert 0.85 * width < finding.measured <= width and width > 3.5
    # Where a unit is a bin it is no flaw.
    assert dc.audit(touching, promise("0.5 minutes in one wait"), most=1)[0].holds


def test_a_rate_for_middles_of_bins_is_refuted() -> None:
    """Half a unit between bins that touch costs a whole one: a reading may lie at the end of its bin."""
    (finding,) = dc.audit(rated(FAMILY, whole_distances), promise("0.7 minutes in one wait"), most=1)
    assert not finding.holds


@pytest.mark.costly("An audit that looks at some pairs of many bins must still find the worst.", always=True)
def test_a_rate_twice_too_large_is_refuted_in_many_bins() -> None:
    """Of 60 bins not all pairs are looked at."""
    family = dc.research.Family(
        "normal", (dc.Variable.binned("x", (0, 60), 60),), {"mean": 30, "low": 0.02, "high": 1}, 20
    )
    for times, holds in ((1, True), (1.25, False)):
        mechanism = rated(
            family, lambda table, amount, epsilon, times=times: times * SCORE_STEPS / metric_width(table, amount)
        )
        (finding,) = dc.audit(mechanism, promise("3 mmHg in one reading"), most=1)
        assert finding.holds is holds
        assert 0.9 * times < finding.measured <= times * (1 + 1e-9)


def test_what_is_measured_is_what_enumeration_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of readings on a grid of sixteenths, beside up to two others, by the laws of the draw."""
    monkeypatch.setattr(auditing, "CROWD_RECORDS", 0)
    family = dc.research.Family("exponential", (dc.Variable.binned("x", (0, 3), 6),), {"low": 0.2, "high": 3}, 5)
    mechanism, asked = dc.research.scored(family), promise("0.75 minutes in one wait")
    rate = mechanism.calibrate(family.network, dc.Dirichlet.uniform(family.network), asked).rate
    table, grid, worst = family.table, np.arange(0, 3, 1 / 16), 0.0
    for rest in (part for size in range(3) for part in combinations_with_replacement(range(6), size)):
        score = table.steps[list(rest)].sum(axis=0)
        laws = log_softmax(table.base + rate / SCORE_STEPS * (score + table.steps), axis=1)
        for one, other in product(grid, repeat=2):
            if one != other:
                loss = np.abs(laws[int(one * 2)] - laws[int(other * 2)]).max()
                worst = max(worst, float(loss) / math.ceil(abs(one - other) / 0.75))
    (finding,) = dc.audit(mechanism, asked, most=3)
    assert finding.measured == pytest.approx(worst, rel=1e-9)
    assert finding.pairs == 15 * (1 + 6 + 21)


# ----------------------------------------------------------------------------------------------------- other mechanisms


def cumulative(times: float = 1) -> dc.tools.Mechanism:
    """Noise on how many readings are at most so high, for bins as wide as the unit, on any network of one variable."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> TableNoise:
        scale, reported = scale_for(1, guarantee.epsilon)
        return TableNoise(1, {"x": guarantee.epsilon}, {"x": scale / times}, reported)

    def draw(
        statistic: dc.results.Counts, prior: dc.Dirichlet, calibration: TableNoise, noise: Noise
    ) -> dc.kinds.NoisyCounts:
        total, scale = np.cumsum(statistic.tables["x"]), calibration.scales["x"]
        noisy = np.append(noise.discrete_laplace(total[:-1], scale), total[-1])
        return dc.kinds.NoisyCounts(statistic.tables.network, {"x": np.diff(noisy, prepend=0)}, {"x": scale})

    return dc.tools.Mechanism("cumulative", calibrate, draw, metric=True)


@every(("times", "unit"), [(1, "1 step in one reading"), (2, "1 step in one reading"), (1, "2 steps in one reading")])
def test_noise_on_cumulative_counts_costs_a_unit_for_each_bin(times: float, unit: str) -> None:
    """On readings of the audit's own; two bins in one unit cost twice, and so does half the scale."""
    (finding,) = dc.audit(cumulative(times), promise(unit), most=2)
    assert finding.network == "a reading in six bins"
    assert finding.measured == pytest.approx(times * int(unit[0]), rel=1e-6)
    assert finding.holds is (times * int(unit[0]) == 1)


def test_an_exact_cell_is_a_leak_under_a_metric() -> None:
    honest = cumulative()

    def draw(statistic: dc.results.Counts, prior: dc.Dirichlet, calibration: TableNoise, noise: Noise) -> Any:
        made = honest.draw(statistic, prior, calibration, noise)
        return replace(made, tables={"x": made.tables["x"] + np.eye(6, dtype=np.int64)[5] * statistic.tables["x"][5]})

    (finding,) = dc.audit(replace(honest, draw=draw), promise("1 step in one reading"), most=1)
    assert finding.leak and not finding.holds


def test_what_has_no_reading_to_change_is_refused() -> None:
    asked = promise("1 step in one reading")
    with pytest.raises(dc.InputError, match="'gaussian' protects records, and takes no guarantee under a metric"):
        dc.audit(dc.gaussian(), asked)
    with pytest.raises(dc.InputError, match="not for distances in a metric of numbers; end the unit in 'by arcs'"):
        dc.audit(dc.laplace(), asked)
    with pytest.raises(dc.InputError, match="needs a network with a numeric variable and its bins"):
        dc.audit(cumulative(), asked, {"states": network_of({"x": 3})})
    with pytest.raises(dc.InputError, match="needs a network with a numeric variable and its bins"):
        changed_readings(audit_designs()["line"], Fraction(1), [()])


# --------------------------------------------------------------------------------------------------------------- pairs


@every("amount", ["0.3", "1", "1.5", "4"])
def test_the_units_of_a_pair_are_the_fewest_between_its_bins(amount: str) -> None:
    """Uneven bins; readings at both ends of each, and between, by exact arithmetic."""
    variable, unit = dc.Variable("x", bounds=(-1, 7), bins=(0.1, 1.5, 4)), Fraction(amount)
    edges = [-1.0, 0.1, 1.5, 4.0, 7.0]
    found = changed_readings(dc.Network((variable,), {"x": ()}), unit, [(), ((2,),)])
    assert len(found) == 2 * 6
    for (one, other), units in found.items():
        assert one[:-1] == other[:-1] in ((), ((2,),))
        (a,), (b,) = one[-1], other[-1]
        places = [
            [*np.linspace(edges[bin], edges[bin + 1], 50, endpoint=False), math.nextafter(edges[bin + 1], -9)]
            for bin in (a, b)
        ]
        apart = (math.ceil(abs(Fraction(x) - Fraction(y)) / unit) for x, y in product(*places))
        assert units == min(apart)


def test_of_many_bins_those_that_units_just_reach_are_paired() -> None:
    """Bins of 1, units of 3: from a bin a unit reaches three further, two units six, and so on."""
    variable = dc.Variable.binned("x", (0, 120), 120)
    found = changed_readings(dc.Network((variable,), {"x": ()}), Fraction(3), [()])
    pairs = {(one[0][0], other[0][0]): units for (one, other), units in found.items()}
    reached = {(other - one, units) for (one, other), units in pairs.items() if one == 0}
    assert {(3, 1), (6, 2), (15, 5), (30, 10), (119, 40)} <= reached
    assert pairs[(116, 119)] == 1 and len({one for one, _ in pairs}) > 11


def test_of_several_variables_numbers_change_and_states_do_not() -> None:
    both = dc.Network((dc.Variable("s", ("a", "b")), dc.Variable.binned("x", (0, 2), 2)), {"s": (), "x": ("s",)})
    found = changed_readings(both, Fraction(1), [()])
    assert found == {(((0, 0),), ((0, 1),)): 1, (((1, 0),), ((1, 1),)): 1}
