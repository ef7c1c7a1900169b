"""The study of laws inside bins, and of how often intervals of numbers hold the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from bench import found_numbers, network_regressions, number_lines, number_sums
from bench.numbers import BINNINGS, cover, errors, made_up


def test_the_law_of_a_tail_is_the_nearest() -> None:
    column = list(made_up(np.random.default_rng(1)))[1]
    cut = BINNINGS["10 of one width"](column)
    for found in zip(errors(column, cut, "log-linear"), errors(column, cut, "uniform"), strict=True):
        assert found[0] < 0.01 < 0.05 < found[1]


@pytest.mark.costly("A bench whose intervals miss is found by their coverage over many draws.")
def test_intervals_hold_what_they_say() -> None:
    """40 releases from the stated law: fewer than 27 of 40 where 38 are held has a chance below 1e-8; fixed seed."""
    column = list(made_up(np.random.default_rng(1), 20_000))[1]
    found = cover([column], BINNINGS["10 of one width"], 40, np.random.default_rng(2), own=True)
    for wide, narrow, ratio in found.values():
        assert wide >= narrow >= 27 / 40 and ratio > 1


@pytest.mark.costly("A bench that stands behind a page and no longer runs is found by running it.")
def test_the_benches_of_numbers_run() -> None:
    """One release each: every question has an error, and an interval that holds the truth or not."""
    table = next(number_sums.made_up_tables(np.random.default_rng(1), 5000))
    asked = number_sums.Asked(3, 1000, 3.0, "add-remove")
    runs = list(number_sums.measure(table, asked, [1]))
    assert tuple(run.question for run in runs) == number_sums.QUESTIONS
    assert all(np.isfinite(run.error) and run.half > 0 for run in runs)
    found = list(found_numbers.measure(table, 100, 1000, 3.0, [1]))
    assert {run.question for run in found} == set(found_numbers.QUESTIONS)
    places = list(number_lines.measure_lines(table, 3, 1000, 3.0, np.random.default_rng(1)))
    assert len(places) == 2 * len(number_lines.SHARES) and all(np.isfinite(place.error) for place in places)
    assert all(0 <= error < np.inf for _, error, _ in number_lines.measure_normal(3, 1000, 3.0, 1))


@pytest.mark.costly("A bench that stands behind a page and no longer runs is found by running it.")
def test_the_bench_of_regressions_of_networks_runs() -> None:
    rng = np.random.default_rng(1)
    x, sex = rng.uniform(0, 100, 5000), rng.choice(["f", "m"], 5000)
    frame = pd.DataFrame({"x": x, "sex": sex, "z": 0.5 * x + 10 * (sex == "m") + rng.normal(0, 5, 5000)})
    variables = (
        dc.Variable.binned("x", (0, 100), 3), dc.Variable("sex", ("f", "m")), dc.Variable.binned("z", (-50, 150), 3)
    )  # fmt: skip
    found = network_regressions.measure(network_regressions.Table("t", frame, variables), 5000, "3", rng)
    assert all(np.isfinite(value) and value >= 0 for value in found[:-1])
