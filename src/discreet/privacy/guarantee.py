"""Guarantees of releases, kept exactly, and all arithmetic on them.

Budgets are exact rationals: ten times "0.1" is 1. Only this module adds guarantees and converts them between
neighbouring relations. If a conversion is not rational, it is rounded towards the weaker guarantee.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from numbers import Rational
from typing import Literal, SupportsFloat, TypeVar

from discreet.errors import InputError, printable

Number = Rational | Decimal | SupportsFloat | str
"""Types of a budget: int, Fraction, Decimal, decimal text, or float (read as its shortest text)."""
Value = TypeVar("Value")

DIGITS_LIMIT = 1200
"""Most digits of a budget's numerator or denominator: far above any use, far below what Python prints."""


RelationName = Literal["add-remove", "replace", "metric"]
"""Names of the relations, for signatures and documents."""


class Relation(StrEnum):
    """Neighbouring relation of data sets, or, for METRIC, their distance.

    * ADD_REMOVE: one has one record more than the other; the number of records is private.
    * REPLACE: they differ in one record; the number of records is public.
    * METRIC: any two of one size, at a distance in the guarantee's unit; the number of records is public. The guarantee
      weakens with the distance, so it hides small changes and protects no record as a whole.

    Args:
        value: "add-remove", "replace" or "metric"; underscores and capitals are accepted.

    Raises:
        InputError: another text, by name.

    Example:
        >>> import discreet as dc
        >>> dc.Relation("add_remove") is dc.Relation.ADD_REMOVE, dc.Relation.REPLACE.public_number
        (True, True)
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    METRIC = "metric"

    @classmethod
    def _missing_(cls, value: object) -> Relation:
        """Accept underscores and capitals; refuse other values."""
        for relation in cls:
            if isinstance(value, str) and value.lower().replace("_", "-") == relation.value:
                return relation
        raise InputError(f"unknown relation {value!r}; the relations are: {', '.join(cls)}")

    @property
    def public_number(self) -> bool:
        """True if the number of records is public: neighbours have equal numbers."""
        return self is not Relation.ADD_REMOVE

    def by_record(self, add_remove: Value, replace: Value) -> Value:
        """Return the value for adding or removing a record, or for replacing one.

        Args:
            add_remove: for ADD_REMOVE.
            replace: for REPLACE.

        Returns:
            One of them.

        Raises:
            InputError: for METRIC, under which all records may change a little: results for one record do not hold.
        """
        match self:
            case Relation.ADD_REMOVE:
                return add_remove
            case Relation.REPLACE:
                return replace
            case Relation.METRIC:
                raise InputError(
                    "this holds for one record that is added, removed or replaced, not for distances in a "
                    "metric; use an add-remove or a replace guarantee, or a mechanism that takes a metric"
                )


RECORD_RELATIONS = (Relation.ADD_REMOVE, Relation.REPLACE)
"""Relations between whole records: all mechanisms of records are proved for these."""


@dataclass(frozen=True, init=False)
class Guarantee:
    """`(epsilon, delta)`-differential privacy for one relation and one unit of protection; no parameter has a default.

    `P(M(D) in S) <= exp(epsilon) P(M(D') in S) + delta` for all neighbours D, D' and all sets S of outputs. For METRIC
    `P(M(D) in S) <= exp(epsilon rho) P(M(D') in S) + delta rho` for all D, D' of one size, where rho is the sum, over
    all values that differ, of their distances in units, each rounded up to a whole number; or, where the unit ends in
    "by arcs", "by attributes", "by length" or "by moments", of what these count for values and records, each rounded up
    likewise. Guarantees over networks that differ add up by the most arcs that a variable has in any. It protects
    changes, not whole records or persons.

    Args:
        epsilon: nats; greater than 0, finite. "0.1" and "1/3" are kept exactly; the float 0.1 is read as one tenth.
        delta: at least 0, less than 1; read in the same way. For METRIC that of each unit.
        relation: neighbouring relation of data sets.
        unit: protected unit of one record, such as "record" or "patient": `read_records` needs the column that
            identifies patients (`unit_column`), or the statement that each has one record. For METRIC the change of
            distance 1, an amount and the quantity that changes, such as "1 mmHg in one reading", in the unit of the
            bounds of the released column.

    Raises:
        InputError: a number out of its range (zero, negative, NaN, infinite, not a number), an unknown relation, an
            empty unit, or, for METRIC, a unit that is no amount.

    Source:
        Dwork and Roth (2014), Definition 2.4. METRIC: Dimitrakakis et al. (JMLR 2017), Definition 2, with
        distances rounded up, as values are recorded in steps; Chatzikokolakis et al. (PETS 2013).

    Example:
        >>> import discreet as dc
        >>> dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record").epsilon
        Fraction(1, 10)
        >>> print(dc.Guarantee(epsilon="0.1", delta=0, relation="metric", unit="1 mmHg in one reading"))
        epsilon 0.1 for each change of 1 mmHg in one reading (metric: protects no record and no person)
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation
    unit: str

    def __init__(self, *, epsilon: Number, delta: Number, relation: Relation | RelationName, unit: str) -> None:
        object.__setattr__(self, "epsilon", as_rational(epsilon, "epsilon"))
        object.__setattr__(self, "delta", as_rational(delta, "delta"))
        object.__setattr__(self, "relation", Relation(relation))
        object.__setattr__(self, "unit", unit)
        if not self.epsilon > 0:
            raise InputError(f"epsilon must be greater than 0, got {epsilon}")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta must be at least 0 and less than 1, got {delta}")
        if not isinstance(unit, str) or not unit.strip():
            raise InputError("a guarantee needs its unit of protection, such as 'record'")
        if self.relation is Relation.METRIC and not begins_with_amount(unit):
            raise InputError(
                f"the unit of a metric is the change of distance 1, an amount and the quantity that changes, such "
                f"as '1 mmHg in one reading', not {_show(unit)}"
            )

    @property
    def unit_amount(self) -> Fraction:
        """Amount in a metric's unit.

        Raises:
            InputError: the guarantee is about records.
        """
        if self.relation is not Relation.METRIC:
            raise InputError("a guarantee for records has no unit of change")
        return Fraction(self.unit.split()[0])

    def __str__(self) -> str:
        """Write the guarantee in one line."""
        delta = f", delta {as_text(self.delta)}" if self.delta else ""
        if self.relation is Relation.METRIC:
            promised = f"epsilon {as_text(self.epsilon)}{delta} for each change of {self.unit} "
            return printable(f"{promised}(metric: protects no record and no person)")
        return printable(f"epsilon {as_text(self.epsilon)}{delta}, {self.relation} one {self.unit}")


def begins_with_amount(unit: str) -> bool:
    """Return True if a unit begins with an amount above 0, as a metric's does and a record's must not.

    Args:
        unit: of protection, or of change.

    Returns:
        True for a metric's unit.

    Example:
        >>> begins_with_amount("1 mmHg in one reading"), begins_with_amount("record")
        (True, False)
    """
    return re.match(r"\s*(?=[0-9.]*[1-9])[0-9]{0,40}\.?[0-9]{1,40}\s+\S", unit) is not None


def as_rational(value: Number, name: str) -> Fraction:
    """Read a budget exactly.

    Args:
        value: a rational, decimal, decimal text, or float (read as its shortest text).
        name: of the quantity, for the error.

    Returns:
        The exact rational.

    Raises:
        InputError: not a finite number.

    Example:
        >>> as_rational(0.1, "epsilon"), as_rational("1e-3", "epsilon")
        (Fraction(1, 10), Fraction(1, 1000))
    """
    try:
        if isinstance(value, str):
            return _parse_text(value)
        if isinstance(value, Decimal):
            return _parse_text(str(value))
        if isinstance(value, Rational) and not isinstance(value, bool):
            # Integers of numpy would wrap around in later sums.
            return _refuse_long(Fraction(int(value.numerator), int(value.denominator)))
        if type(value).__name__ in ("bool", "bool_"):
            raise ValueError
        return _parse_text(repr(float(value)))
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise InputError(f"{name} must be a finite number such as 0.1, got {_show(value)}") from None


def _show(value: object) -> str:
    """Write a value for an error, if it can be written."""
    try:
        return repr(value)[:40]
    except ValueError:
        return f"a {type(value).__name__} with too many digits"


def _parse_text(text: str) -> Fraction:
    """Parse decimal text or a fraction; refuse a long exponent, which would make millions of digits."""
    exponent = re.search(r"[eE]([+-]?\d+)\s*$", text)
    if len(text) > 3 * DIGITS_LIMIT or (exponent is not None and len(exponent[1]) > 4):
        raise ValueError
    return _refuse_long(Fraction(text))


def _refuse_long(value: Fraction) -> Fraction:
    """Refuse a number with too many digits to print."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 3 * DIGITS_LIMIT:
        raise ValueError
    return value


def as_text(value: Fraction) -> str:
    """Write the exact text of a rational: a decimal if one exists, else a fraction.

    Args:
        value: any rational.

    Returns:
        Text that `as_rational` reads back as the same number.

    Example:
        >>> as_text(Fraction(1, 8)), as_text(Fraction(1, 3)), as_text(Fraction(2))
        ('0.125', '1/3', '2')
    """
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    digits = max(twos, fives)
    if rest != 1 or digits > 400:
        return f"{value.numerator}/{value.denominator}"
    shifted = str(abs(value.numerator) * 10**digits // value.denominator).rjust(digits + 1, "0")
    integral, tail = shifted[: len(shifted) - digits], shifted[len(shifted) - digits :]
    return ("-" if value < 0 else "") + integral + (f".{tail}" if tail else "")


def compose(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Add the guarantees of several releases of the same records: epsilons and deltas sum.

    Args:
        guarantees: at least one; all for the same relation and unit (`convert` them first).

    Returns:
        Their exact sum.

    Raises:
        InputError: none given, or they differ in relation or unit.

    Guarantee:
        The sum holds for all releases together, if each was drawn independently or depended only on the others'
        outputs.

    Source:
        Dwork and Roth (2014), Theorem 3.16 (basic composition); it holds for every pair of data sets, hence for METRIC.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon="0.5", delta=0, relation="add-remove", unit="record")
        >>> dc.tools.compose([promise, promise]).epsilon
        Fraction(1, 1)
    """
    terms = list(guarantees)
    if not terms:
        raise InputError("compose needs at least one guarantee")
    if len({(each.relation, each.unit) for each in terms}) > 1:
        if any(each.relation is Relation.METRIC for each in terms):
            raise InputError(
                "guarantees under a metric add up only in the same unit: changes in different units, and records, "
                "cannot be compared; use one unit"
            )
        raise InputError("guarantees for different relations or units do not add up; convert them first")
    return Guarantee(
        epsilon=sum((each.epsilon for each in terms), Fraction()),
        delta=sum((each.delta for each in terms), Fraction()),
        relation=terms[0].relation,
        unit=terms[0].unit,
    )


def convert(guarantee: Guarantee, relation: Relation) -> Guarantee:
    """Convert a guarantee to another relation, if it implies one.

    Replacing a record is removing one and adding one: `(epsilon, delta)` for ADD_REMOVE is
    `(2 epsilon, (1 + exp(epsilon)) delta)` for REPLACE, delta rounded up. Nothing follows the other way.

    Args:
        guarantee: to convert.
        relation: of the result.

    Returns:
        The implied guarantee.

    Raises:
        InputError: from REPLACE to ADD_REMOVE, from or to METRIC, or a delta that would be 1 or more.

    Guarantee:
        The result follows from the given guarantee, for the same releases; nothing more is spent.

    Source:
        Dwork and Roth (2014), Theorem 2.2 (group privacy), for groups of two.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon="0.5", delta=0, relation="add-remove", unit="record")
        >>> print(dc.tools.convert(promise, dc.Relation.REPLACE))
        epsilon 1, replace one record
    """
    if guarantee.relation is relation:
        return guarantee
    if Relation.METRIC in (guarantee.relation, relation):
        raise InputError(
            "a guarantee under a metric protects changes by a number of units, and one for records whole records: "
            "neither can be converted to the other; use the other relation from the start"
        )
    if guarantee.relation is Relation.REPLACE:
        raise InputError("a guarantee for replacing a record implies none for adding or removing one; use add-remove")
    delta = guarantee.delta and guarantee.delta * (1 + _round_exp_up(guarantee.epsilon))
    if delta >= 1:
        raise InputError(
            "the guarantee, converted to replacing a record, has a delta of 1 or more and guarantees nothing"
        )
    return Guarantee(epsilon=2 * guarantee.epsilon, delta=delta, relation=relation, unit=guarantee.unit)


def for_each(guarantee: Guarantee, number: int) -> Guarantee:
    """Compute the guarantee for one record that gives a unit with several records the wanted guarantee.

    If adding or removing (or replacing) one record moves probabilities by `(e, d)`, then k of them, one after the
    other, move them by `(k e, (1 + exp(e) + ... + exp((k - 1) e)) d)`. So each gets epsilon / k, exactly, and delta
    over that sum, rounded down. For pure guarantees this equals noise for k times the sensitivity; Gaussian noise gets
    up to 7 % more scale than that at epsilon 5 and delta 1e-3, and less elsewhere (`test_several_records.py`).

    Args:
        guarantee: wanted for a unit; for several records it must not be under a metric.
        number: most records of a unit, at least 1.

    Returns:
        The guarantee of the same relation and unit that one record needs.

    Source:
        Dwork and Roth (2014), Theorem 2.2 (group privacy).

    Example:
        >>> for_each(Guarantee(epsilon=1, delta=0, relation="add-remove", unit="patient"), 4).epsilon
        Fraction(1, 4)
    """
    if number == 1:
        return guarantee
    epsilon = guarantee.epsilon / number
    delta = guarantee.delta and _round_down(
        guarantee.delta / sum(_round_exp_up(epsilon * each) for each in range(number))
    )
    return Guarantee(epsilon=epsilon, delta=delta, relation=guarantee.relation, unit=guarantee.unit)


def amplified(epsilon: Fraction, probability: Fraction) -> Fraction:
    """Bound the epsilon of a pure guarantee after Poisson sampling of the records.

    Args:
        epsilon: of the mechanism on the sample, for ADD_REMOVE; nats.
        probability: of each record to be in the sample (Poisson sampling), in (0, 1].

    Returns:
        `log(1 + probability (exp(epsilon) - 1))`, rounded up, by less than 1e-25 of itself for any epsilon
        above 1e-10; for ADD_REMOVE only.

    Raises:
        InputError: a probability outside (0, 1], or an epsilon above 1,000.

    Source:
        Li, Qardaji and Su (2012); Chowdhury, Rekatsinas and Jha (2020), Lemma 2.3. It is attained.

    Example:
        >>> float(amplified(Fraction(1), Fraction(1, 10)))
        0.15856507...
    """
    _check_sampling(epsilon, probability)
    if probability == 1:
        return epsilon
    return _round_log1p(probability * (_round_exp_up(epsilon) - 1), decimal.ROUND_CEILING)


def before_sampling(epsilon: Fraction, probability: Fraction) -> Fraction:
    """Compute the epsilon on a Poisson sample that sampling turns into `epsilon`, rounded down.

    Args:
        epsilon: wanted for the records, for ADD_REMOVE; nats.
        probability: of each record to be in the sample, in (0, 1].

    Returns:
        `log(1 + (exp(epsilon) - 1) / probability)`; `amplified` of it is at most epsilon.

    Raises:
        InputError: a probability outside (0, 1], or an epsilon above 1,000.

    Example:
        >>> wanted = Fraction(1, 10)
        >>> promise = before_sampling(wanted, Fraction(1, 2))
        >>> promise > wanted, amplified(promise, Fraction(1, 2)) <= wanted
        (True, True)
    """
    _check_sampling(epsilon, probability)
    if probability == 1:
        return epsilon
    below = _round_exp_up(epsilon) * (1 - Fraction(1, 10**28)) - 1
    inverse = _round_log1p(below / probability, decimal.ROUND_FLOOR) if below > 0 else below
    while inverse > 0 and amplified(inverse, probability) > epsilon:
        inverse *= 1 - Fraction(1, 10**25)
    if not inverse > 0:
        raise InputError("epsilon is too small for a sample; use a larger one")
    return _shorten_down(inverse)


def _check_sampling(epsilon: Fraction, probability: Fraction) -> None:
    """Refuse an invalid sampling probability or epsilon."""
    if not 0 < probability <= 1:
        raise InputError(f"a sampling probability must be greater than 0 and at most 1, got {as_text(probability)}")
    if not epsilon > 0:
        raise InputError("an epsilon greater than 0 is needed")


def _round_log1p(value: Fraction, rounding: str) -> Fraction:
    """Round log(1 + value) to a rational, up or down."""
    context = decimal.Context(prec=60, rounding=rounding)
    inside = context.divide(Decimal((1 + value).numerator), Decimal((1 + value).denominator))
    log = context.ln(inside)
    return Fraction(context.next_plus(log) if rounding == decimal.ROUND_CEILING else context.next_minus(log))


def _shorten_down(value: Fraction) -> Fraction:
    """Round down to a short denominator."""
    return Fraction(math.floor(value * 10**30), 10**30) if value * 10**12 > 1 else value


def _round_down(value: Fraction) -> Fraction:
    """Round a value between 0 and 1 down, by a relative 1e-30 at most, to a short denominator."""
    digits = 30 + max(len(str(value.denominator)) - len(str(value.numerator)), 0)
    return Fraction(math.floor(value * 10**digits), 10**digits)


def _round_exp_up(value: Fraction) -> Fraction:
    """Round exp(value) up to a rational, by a relative 1e-30 at most."""
    if value > 1000:
        raise InputError("an epsilon above 1,000 is too large to convert a delta; such a guarantee protects nothing")
    context = decimal.Context(prec=math.ceil(40 + float(value)), rounding=decimal.ROUND_CEILING)
    above = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(context.next_plus(context.exp(above)))
