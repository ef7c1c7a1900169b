"""Bad numbers, and bad descriptions of them, are refused in one line, before anything is charged."""

from __future__ import annotations

import datetime
import math
import re
from typing import Any

import pyarrow as pa
import pytest

import discreet as dc
from discreet.model.number_grid import STEPS
from discreet.records.number_sums import MOST_RECORDS
from folding import every

BINS = dc.Variable("x", bounds=(0, 10), bins=(5,))
WHOLE = dc.Variable("x", bounds=(0, 10), bins=(5,), type="integer")


def release(variable: dc.Variable, values: Any, account: dc.Account, **options: Any) -> dc.Release:
    network = dc.Network((variable,), {"x": ()})
    records = dc.read_records(pa.table({"x": values}), network.schema, **options)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    return dc.release(dc.planned(), dc.count(records, network), dc.Dirichlet.uniform(network), promise, account=account)


@pytest.fixture
def account(tmp_path: Any) -> dc.Account:
    limit = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
    return dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("study", limit)


@every("described", [
    {"bounds": (10, 0), "bins": (5,)}, {"bounds": (0, math.inf), "bins": (5,)},
    {"bounds": (math.nan, 1), "bins": (0.5,)},
    {"bounds": (0, 10), "bins": (5, 5)}, {"bounds": (0, 10), "bins": (0, 5)}, {"bounds": (0, 10), "bins": (math.nan,)},
    {"bounds": (0, 10), "bins": (2.5,), "type": "integer"},
    {"bounds": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)), "bins": (datetime.date(2020, 6, 1),)},
])  # fmt: skip
def test_bounds_and_bins_that_are_none_are_refused_in_one_line(described: dict[str, Any]) -> None:
    with pytest.raises(dc.InputError, match=r"^variable 'x': (bounds|bins) (and|must)") as refused:
        dc.Variable("x", **described)
    assert "\n" not in str(refused.value)


@every(("variable", "values", "why"), [
    (WHOLE, [1.0, 2.5], "an unknown state or a number out of bounds"),
    (BINS, [1.0, math.nan], "a missing value"),
    (BINS, [1.0, math.inf], "a number out of bounds"),
    (BINS, [datetime.date(2020, 1, 1)], "must hold numbers, but has type date"),
    (BINS, [datetime.datetime(2020, 1, 1)], "must hold numbers, but has type timestamp"),
    (dc.Variable("x", bounds=(-1.7e308, 1.7e308), bins=(0,)), [1.0], "squares of such numbers are beyond 64 bits"),
    (dc.Variable("x", bounds=(0, 1.5e-323), bins=(5e-324,)), [0.0], "squares of such numbers are beyond 64 bits"),
    (dc.Variable("x", bounds=(0, 1e300), bins=(1e-300,)), [0.0], "squares of such numbers are beyond 64 bits"),
])  # fmt: skip
def test_bad_numbers_are_refused_in_one_line_and_cost_nothing(
    variable: dc.Variable, values: list[Any], why: str, account: dc.Account
) -> None:
    with pytest.raises(dc.InputError, match=re.escape(why)) as refused:
        release(variable, values, account)
    assert "\n" not in str(refused.value)
    assert account.charges() == ()


def test_so_many_bins_that_no_reader_takes_them_are_refused_before_the_charge() -> None:
    variable = dc.Variable.binned("x", (0, 10_000), 10_000)
    network = dc.Network((variable,), {"x": ()})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    with pytest.raises(dc.InputError, match="at most 8,192 states, and 'x' has 10,000; give it fewer bins"):
        dc.planned().calibrate(network, dc.Dirichlet.uniform(network), promise)
    with pytest.raises(dc.InputError, match="from 2 to 65,536 bins"):
        dc.Variable.binned("x", (0, 1), 10**6)


def test_sums_of_as_many_records_as_are_taken_fit_into_64_bits() -> None:
    """A cell's sums of squares and products, of which each record adds at most the square of all steps."""
    assert MOST_RECORDS * STEPS**2 <= 2**62
