"""Budgets are exact, and whatever is rounded is rounded towards the larger promise."""

from __future__ import annotations

import copy
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import discreet as dc
from discreet.privacy.guarantee import as_rational, as_text
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE


def promise(epsilon: object = 1, delta: object = 0, relation: object = ADD_REMOVE, unit: object = "record"):
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit=unit)


# ------------------------------------------------------------------------------------------------------------ parsing


@every(
    ("given_as", "exact"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.10"), Fraction(1, 10)),
        (2, Fraction(2)),
        ("1e-3", Fraction(1, 1000)),
        (1e-320, Fraction(1, 10**320)),  # subnormal: kept, not flushed to 0
        (5e-324, Fraction(5, 10**324)),
        ("1e-320", Fraction(1, 10**320)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (-0.0, Fraction(0)),
        (2.0**53 + 2, Fraction(2**53 + 2)),
    ],
)
def test_numbers_are_read_exactly(given_as: object, exact: Fraction) -> None:
    assert as_rational(given_as, "epsilon") == exact


@every(
    "value",
    [
        float("nan"), float("inf"), -float("inf"), "nan", "inf", "abc", "", "1/0", "0x10", True, False, None, 1j, [1],
        np.float64("nan"), np.float32("inf"), np.True_, Decimal("NaN"), Decimal("Infinity"), Decimal("sNaN"),
    ],
)  # fmt: skip
def test_what_is_not_a_finite_number_is_refused(value: object) -> None:
    with pytest.raises(dc.InputError, match="delta must be a finite number"):
        as_rational(value, "delta")


@every("kind", [np.uint8, np.int8, np.int32, np.int64])
def test_numpy_integers_become_python_integers(kind: type[np.integer]) -> None:
    """A Fraction that holds a numpy integer wraps around: 2 x uint8(200) would be 144, and be undercharged."""
    most = int(np.iinfo(kind).max)
    given_as = promise(kind(most))
    assert type(given_as.epsilon.numerator) is int
    assert dc.tools.convert(given_as, REPLACE).epsilon == 2 * most
    assert dc.tools.compose([given_as] * 3).epsilon == 3 * most


@given(st.fractions())
@example(Fraction(-1, 8))
@example(Fraction(1, 2**401))
@example(Fraction(1, 10**320))
def test_text_reads_back_as_the_same_rational(value: Fraction) -> None:
    assert as_rational(as_text(value), "value") == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_its_shortest_text(value: float) -> None:
    exact = as_rational(value, "value")
    assert float(exact) == value
    assert exact == Fraction(repr(value))


@every(
    ("value", "text"),
    [
        (Fraction(1, 8), "0.125"), (Fraction(2), "2"), (Fraction(1, 3), "1/3"), (Fraction(-5, 4), "-1.25"),
        (Fraction(0), "0"), (Fraction(7, 100), "0.07"), (Fraction(100), "100"), (Fraction(-1, 3), "-1/3"),
    ],
)  # fmt: skip
def test_text_is_a_decimal_where_there_is_one(value: Fraction, text: str) -> None:
    assert as_text(value) == text


# ---------------------------------------------------------------------------------------------------------- guarantee


@every("epsilon", [0, -0.0, "0", -1, "-1e-320"])
def test_epsilon_is_positive(epsilon: object) -> None:
    with pytest.raises(dc.InputError, match="epsilon must be greater than 0"):
        promise(epsilon)


@every("delta", [1, "1.0", 1.5, -1e-320, "-0.1"])
def test_delta_is_a_probability_below_one(delta: object) -> None:
    with pytest.raises(dc.InputError, match="delta must be at least 0 and less than 1"):
        promise(delta=delta)


@every("unit", ["", "  ", None, 3])
def test_a_unit_is_needed(unit: object) -> None:
    with pytest.raises(dc.InputError, match="unit of protection"):
        promise(unit=unit)


@every("relation", ["bounded", "", None, 1])
def test_an_unknown_relation_is_refused_by_name(relation: object) -> None:
    with pytest.raises(dc.InputError, match="relations are: add-remove, replace"):
        promise(relation=relation)


@every("missing", ["epsilon", "delta", "relation", "unit"])
def test_no_part_of_a_guarantee_has_a_default(missing: str) -> None:
    parts = {"epsilon": 1, "delta": 0, "relation": "replace", "unit": "record"}
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        dc.Guarantee(**parts)


def test_relations_are_read_with_either_dash() -> None:
    assert dc.Relation("ADD_REMOVE") is ADD_REMOVE
    assert promise(relation="replace").relation is REPLACE


@every(
    "epsilon",
    ["1e-5000", "1e5000", "1e-999999999", Decimal("1e999999"), 10**5000, Fraction(1, 10**5000), "0." + "1" * 5000],
    ids=lambda value: type(value).__name__,
)
def test_an_epsilon_beyond_printing_is_an_input_error_or_prints(epsilon: object) -> None:
    """Python prints no integer of more than 4300 digits; that must not surface as a ValueError when charging."""
    try:
        given_as = promise(epsilon)
    except dc.InputError:
        return
    assert as_rational(as_text(given_as.epsilon), "epsilon") == given_as.epsilon


def test_a_guarantee_is_frozen_and_copies_are_equal() -> None:
    one = promise("0.1", "1e-6")
    with pytest.raises(AttributeError):
        one.epsilon = Fraction(2)
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes
    assert str(one) == "epsilon 0.1, delta 0.000001, add-remove one record"
    assert str(promise()) == "epsilon 1, add-remove one record"


# -------------------------------------------------------------------------------------------------- compose, convert


@every(("part", "times", "total"), [("0.1", 10, 1), (Fraction(1, 3), 3, 1), (0.7, 30, 21)])
def test_composition_is_exact(part: object, times: int, total: int) -> None:
    assert dc.tools.compose([promise(part)] * times) == promise(total)


@given(
    st.lists(st.tuples(st.fractions(Fraction(1, 1000), 20), st.fractions(0, Fraction(1, 10))), min_size=1, max_size=5)
)
def test_composition_adds_epsilons_and_deltas(parts: list[tuple[Fraction, Fraction]]) -> None:
    total = dc.tools.compose(promise(epsilon, delta, REPLACE) for epsilon, delta in parts)
    assert total.epsilon == sum(epsilon for epsilon, _ in parts)
    assert total.delta == sum(delta for _, delta in parts)
    assert (total.relation, total.unit) == (REPLACE, "record")


def test_composition_needs_one_relation_and_one_unit() -> None:
    with pytest.raises(dc.InputError, match="at least one"):
        dc.tools.compose([])
    for other in (promise(relation=REPLACE), promise(unit="patient")):
        with pytest.raises(dc.InputError, match="do not add up"):
            dc.tools.compose([promise(), other])
    with pytest.raises(dc.InputError, match="delta"):
        dc.tools.compose([promise(delta="0.5")] * 2)


@given(st.fractions(Fraction(1, 1000), 40), st.fractions(0, Fraction(1, 10**20)))
@example(Fraction(1, 10**320), Fraction(1, 10**30))
@example(Fraction(40), Fraction(0))
def test_add_remove_becomes_replace_and_delta_is_rounded_up(epsilon: Fraction, delta: Fraction) -> None:
    wider = dc.tools.convert(promise(epsilon, delta), REPLACE)
    assert wider.relation is REPLACE
    assert wider.epsilon == 2 * epsilon
    with localcontext() as context:
        context.prec = 400
        exact = 1 + Fraction((Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp())
    # The reference is right to a relative 1e-399, so a conversion that rounded down by 1e-90 would fail here.
    assert delta * exact * (1 - Fraction(1, 10**390)) <= wider.delta <= delta * exact * (1 + Fraction(1, 10**30))
    assert bool(wider.delta) == bool(delta)


def test_conversion_to_the_same_relation_changes_nothing() -> None:
    for relation in dc.tools.RECORD_RELATIONS:
        one = promise(delta="1e-6", relation=relation)
        assert dc.tools.convert(one, relation) is one


def test_replace_says_nothing_about_add_remove() -> None:
    with pytest.raises(dc.InputError, match="implies none for adding or removing"):
        dc.tools.convert(promise(relation=REPLACE), ADD_REMOVE)


@every(("epsilon", "delta"), [(1, "0.3"), (50, "1e-6"), (5000, "1e-9"), (20_000, "1e-9")])
def test_a_delta_that_would_be_one_or_more_is_refused(epsilon: int, delta: str) -> None:
    with pytest.raises(dc.InputError):
        dc.tools.convert(promise(epsilon, delta), REPLACE)
