"""Every mechanism is as private as it says, exactly: all neighbouring data sets of up to 3 records on tiny networks.

The output of a mechanism of noisy counts is `y = counts + M e`, where e are the independent draws of discrete Laplace
noise it asked for, and M says which draw went into which cell. A recording source of noise reads M and the scales off
the mechanism's own `draw`, so nothing here trusts what the mechanism says of itself.

If every cell has one draw of its own, `P(y | D) = prod_j p_j(y_j - c_j(D))` with `p_j(k) ~ exp(-|k| / b_j)`, and so

    log P(y | D) / P(y | D') = sum_j (|y_j - c_j(D')| - |y_j - c_j(D)|) / b_j <= sum_j |c_j(D) - c_j(D')| / b_j

by the triangle inequality, with equality at every y that lies, in each cell, on the side of c(D) away from c(D'). The
right side is therefore the largest log ratio, not only a bound, and it is rational: it is compared with epsilon without
rounding. `test_the_largest_ratio_is_what_enumeration_finds` checks the step on every output of a window.

If two cells share a draw, their difference tells the difference of the counts: unless the counts differ alike in both,
the two data sets have no output in common, and the ratio is infinite. A cell without a draw is told outright.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

import discreet as dc
from discreet.releases.kinds import Calibration
from enumeration import noise_loss, uniform
from flawed_laplace import (
    a_cell_without_noise,
    a_table_uncounted,
    a_table_without_noise,
    calibrated_for,
    double_scale,
    every_table_at_the_price_of_some,
    half_scale,
    noise_added_twice,
    noise_reused_in_two_cells,
    noise_where_there_are_records,
    plain,
    promise,
    redrawn,
    rescaled,
)
from folding import every
from tiny import TINY, all_datasets, counts_of, neighbours

MOST_RECORDS = 3
BASE = 4
"""Counts of up to 3 records are one digit in this base, and each draw has a digit of its own above it."""


@dataclass
class Recorder:
    """A source of noise that adds, instead of noise, a digit of its own to each value, and keeps the scales."""

    scales: list[float]

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        tags = [BASE ** (len(self.scales) + 1 + index) for index in range(values.size)]
        self.scales += [scale] * values.size
        return values + np.array(tags, np.int64).reshape(values.shape)


@dataclass(frozen=True)
class Design:
    """How noise enters the released cells: for each cell the draws in it, with their multiplicity; scale of each draw.

    `claimed` are the scales that the payload states for each cell, which inference will believe.
    """

    cells: tuple[Mapping[int, int], ...]
    scales: tuple[Fraction, ...]
    claimed: tuple[Fraction, ...]


def observe(
    mechanism: dc.tools.Mechanism, counts: dc.results.Counts, calibration: Calibration
) -> tuple[np.ndarray, Design]:
    """The counts in the released cells, and the design of the noise, read off one draw of noisy tables."""
    network, recorder = counts.network, Recorder([])
    payload = mechanism.draw(counts, uniform(network), calibration, recorder)
    assert len(recorder.scales) < 31, "more digits than an int64 has"
    assert isinstance(payload, dc.kinds.NoisyCounts | dc.kinds.NoisyTables)
    assert payload.noise == "discrete_laplace"
    released = [int(cell) for table in payload.tables.values() for cell in table.ravel()]
    claimed = [Fraction(payload.scales[key]) for key, table in payload.tables.items() for _ in table.ravel()]
    digits = [[cell // BASE**place % BASE for place in range(len(recorder.scales) + 1)] for cell in released]
    cells = tuple({place: times for place, times in enumerate(row[1:]) if times} for row in digits)
    design = Design(cells, tuple(map(Fraction, recorder.scales)), tuple(claimed))
    return np.array([row[0] for row in digits]), design


def loss(design: Design, difference: np.ndarray) -> Fraction | float:
    """Largest log ratio of output probabilities between data sets whose released counts differ by this much."""
    moved: dict[int, int] = {}
    for draws, by in zip(design.cells, difference.tolist(), strict=True):
        if len(draws) > 1 or any(times != 1 for times in draws.values()):
            raise AssertionError("a cell holds more than one draw of noise")
        for draw in draws:
            if moved.setdefault(draw, by) != by:
                return math.inf
        if not draws and by:
            return math.inf
    return sum((abs(by) / design.scales[draw] for draw, by in moved.items()), Fraction())


@lru_cache(maxsize=1)
def largest_loss(
    mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee, most: int = MOST_RECORDS
) -> tuple[Fraction | float, Design]:
    """Over all neighbouring data sets; the design must be the same for all data sets, else it tells about them."""
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    seen = {
        dataset: observe(mechanism, counts_of(network, dataset), calibration) for dataset in all_datasets(network, most)
    }
    design = next(iter(seen.values()))[1]
    assert all(other == design for _, other in seen.values()), "the noise depends on the data"
    pairs = neighbours(network, guarantee.relation, most)
    differences = np.unique([seen[one][0] - seen[other][0] for one, other in pairs], axis=0)
    return max(loss(design, difference) for difference in differences), design


def check(
    mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee, most: int = MOST_RECORDS
) -> Fraction | float:
    """The proof by enumeration for noisy tables: within the guarantee, each cell noised once, as the payload claims."""
    largest, design = largest_loss(mechanism, network, guarantee, most)
    assert largest <= guarantee.epsilon, f"the ratio reaches {float(largest)}, the guarantee is {guarantee}"
    assert sorted(draw for draws in design.cells for draw in draws) == list(range(len(design.cells))), (
        "draws and cells differ"
    )
    drawn = tuple(design.scales[next(iter(draws))] for draws in design.cells)
    assert drawn == design.claimed, "the payload claims other scales than those drawn"
    return largest


def by_answers(
    mechanism: dc.tools.Mechanism, network: dc.Network, guarantee: dc.Guarantee, most: int
) -> Fraction | float:
    """The proof by enumeration for stars, too: the largest ratio over all answers of the noise."""
    largest = noise_loss(mechanism, network, guarantee, neighbours(network, guarantee.relation, most))
    assert largest <= guarantee.epsilon, f"the ratio reaches {float(largest)}, the guarantee is {guarantee}"
    return largest


Proof = Callable[[dc.tools.Mechanism, dc.Network, dc.Guarantee, int], Fraction | float]
PROOFS: dict[str, Proof] = {"laplace": check, "planned": by_answers}
"""For each mechanism of the registry the function that returns its largest loss, or fails."""


def uneven(tables: tuple[str, ...]) -> dict[str, Fraction]:
    """Budgets in the proportion 1 : 2 : 4 that sum to 1."""
    weights = [Fraction(2**position) for position in range(len(tables))]
    return {node: weight / sum(weights) for node, weight in zip(tables, weights, strict=True)}


# -------------------------------------------------------------------------------------------------- the guarantee holds


TIGHT = 1 - Fraction(1, 10**9)


@pytest.mark.costly(
    "The guarantee of mechanisms of tables, proved by enumeration without the audit's code.",
    always=True,
)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
@every("name", PROOFS)
def test_the_guarantee_holds_and_is_tight(name: str, network: dc.Network, relation: dc.Relation) -> None:
    assert PROOFS[name](dc.tools.MECHANISMS[name](), network, promise(1, relation), MOST_RECORDS) >= TIGHT


@pytest.mark.costly("A guarantee that breaks at another budget is found by the exact laws of neighbours.", always=True)
@every("epsilon", ["0.1", "7/3"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
@every("name", PROOFS)
def test_at_other_budgets_it_holds_for_two_records(
    name: str, network: dc.Network, relation: dc.Relation, epsilon: str
) -> None:
    guarantee = promise(epsilon, relation)
    assert PROOFS[name](dc.tools.MECHANISMS[name](), network, guarantee, 2) >= guarantee.epsilon * TIGHT


@pytest.mark.thorough
@every("epsilon", ["0.1", "7/3"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
@every("name", PROOFS)
def test_at_other_budgets_it_holds_for_more_records(
    name: str, network: dc.Network, relation: dc.Relation, epsilon: str
) -> None:
    guarantee = promise(epsilon, relation)
    assert PROOFS[name](dc.tools.MECHANISMS[name](), network, guarantee, MOST_RECORDS) >= guarantee.epsilon * TIGHT


@every("which", ["nodes", "maximal_families"])
@every("relation", dc.tools.RECORD_RELATIONS)
@every("network", TINY.values(), ids=TINY)
def test_the_guarantee_holds_and_is_tight_for_uneven_budgets(
    network: dc.Network, relation: dc.Relation, which: str
) -> None:
    mechanism = dc.laplace(uneven(getattr(network, which)))
    assert check(mechanism, network, promise(1, relation)) >= 1 - Fraction(1, 10**9)


@every("relation", dc.tools.RECORD_RELATIONS)
def test_an_add_remove_guarantee_costs_its_conversion_under_replace(relation: dc.Relation) -> None:
    """What `convert` says of the whole mechanism, seen in the enumeration: at most 2 epsilon, and reached."""
    network = TINY["chain"]
    mechanism = calibrated_for(dc.Relation.ADD_REMOVE)
    largest, _ = largest_loss(mechanism, network, promise("0.5", relation))
    assert largest == dc.tools.convert(promise("0.5", dc.Relation.ADD_REMOVE), relation).epsilon


def log_probability(counts: np.ndarray, scales: np.ndarray, window: range) -> np.ndarray:
    """Exact log probability of every output of the window in every cell, one axis a cell."""
    total = np.zeros((1,) * len(counts))
    for axis, (count, scale) in enumerate(zip(counts, scales, strict=True)):
        k = np.array(window) - count
        pmf = np.log(np.tanh(1 / (2 * scale))) - np.abs(k) / scale
        total = total + pmf.reshape([-1 if other == axis else 1 for other in range(len(counts))])
    return total


@every("relation", dc.tools.RECORD_RELATIONS)
def test_the_largest_ratio_is_what_enumeration_finds(relation: dc.Relation) -> None:
    """All 5^6 outputs around the counts, for all pairs of data sets of up to 2 records."""
    network, guarantee = TINY["two binary"], promise(1, relation)
    mechanism = dc.laplace(uneven(network.nodes))
    calibration = mechanism.calibrate(network, uniform(network), guarantee)
    worst = 0.0
    for one, other in neighbours(network, relation, 2):
        (c, design), (d, _) = (observe(mechanism, counts_of(network, data), calibration) for data in (one, other))
        scales = np.array([float(design.scales[next(iter(draws))]) for draws in design.cells])
        window = range(-1, 4)
        ratio = log_probability(c, scales, window) - log_probability(d, scales, window)
        assert ratio.shape == (5,) * 6
        assert float(np.abs(ratio).max()) == pytest.approx(float(loss(design, c - d)), rel=1e-12)
        worst = max(worst, float(np.abs(ratio).max()))
    assert worst == pytest.approx(1, rel=1e-9)
    wide = log_probability(np.array([0, 3]), np.array([0.5, 2.0]), range(-90, 91))
    assert float(np.exp(wide).sum()) == pytest.approx(1, rel=1e-12)  # the probabilities are probabilities


# ----------------------------------------------------------------------------------------------- planted bugs are found


MUTANTS = {
    "half the scale in the draw": (redrawn(half_scale), 2),
    "half the scale in the calibration": (rescaled(0.5), 2),
    "a scale one part in a million short": (rescaled(1 - 1e-6), 1.000001),
    "a table uncounted": (a_table_uncounted(), 2),
    "a table without noise": (redrawn(a_table_without_noise), math.inf),
    "a cell without noise": (redrawn(a_cell_without_noise), math.inf),
    "noise reused in two cells": (redrawn(noise_reused_in_two_cells), math.inf),
}
"""Each with the ratio it really has at epsilon 1, on a network that is measured in two tables."""
TWO_TABLES = ("two roots", "chain", "fork")


@every("network", TWO_TABLES)
@every("relation", dc.tools.RECORD_RELATIONS)
@every("name", MUTANTS)
def test_planted_bugs_are_found(name: str, relation: dc.Relation, network: str) -> None:
    mutant, truth = MUTANTS[name]
    with pytest.raises(AssertionError, match="the ratio reaches"):
        check(mutant, TINY[network], promise(1, relation))
    largest, _ = largest_loss(mutant, TINY[network], promise(1, relation), MOST_RECORDS)
    assert float(largest) == pytest.approx(truth, rel=1e-7)


@every(("name", "truth"), [("two binary", 2), ("chain", 1.5), ("complete, three states", 3)])
@every("relation", dc.tools.RECORD_RELATIONS)
def test_a_table_too_many_is_found(relation: dc.Relation, name: str, truth: float) -> None:
    """As many tables as there are families, at the price of those that lie in no other."""
    mechanism = every_table_at_the_price_of_some()
    with pytest.raises(AssertionError, match="the ratio reaches"):
        check(mechanism, TINY[name], promise(1, relation))
    largest, _ = largest_loss(mechanism, TINY[name], promise(1, relation), MOST_RECORDS)
    assert float(largest) == pytest.approx(truth, rel=1e-9)


def test_the_wrong_relation_is_found() -> None:
    mutant = calibrated_for(dc.Relation.ADD_REMOVE)
    with pytest.raises(AssertionError, match="the ratio reaches 2"):
        check(mutant, TINY["two binary"], promise(1, dc.Relation.REPLACE))
    check(mutant, TINY["two binary"], promise(1, dc.Relation.ADD_REMOVE))


def test_noise_that_depends_on_the_data_or_comes_twice_is_found() -> None:
    guarantee = promise(1, dc.Relation.ADD_REMOVE)
    with pytest.raises(AssertionError, match="the noise depends on the data"):
        check(redrawn(noise_where_there_are_records), TINY["two binary"], guarantee)
    with pytest.raises(AssertionError, match="more than one draw"):
        check(redrawn(noise_added_twice), TINY["two binary"], guarantee)


def test_a_scale_the_payload_does_not_state_is_found() -> None:
    with pytest.raises(AssertionError, match="claims other scales"):
        check(redrawn(double_scale), TINY["two binary"], promise(1, dc.Relation.ADD_REMOVE))


@pytest.mark.costly("That planted mechanisms fail for their bug, and not for their frame, is shown by a faithful one.")
def test_the_planted_frame_itself_is_right() -> None:
    """`redrawn` with a faithful draw passes, so the mutants fail for their bug and not for their frame."""
    for relation, network in product(dc.tools.RECORD_RELATIONS, (TINY["two binary"], TINY["collider"])):
        assert check(redrawn(plain), network, promise(1, relation)) == 1
