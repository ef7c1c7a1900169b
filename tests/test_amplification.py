"""Amplification by sampling, there and back: exact values, and always rounded towards less privacy promised.

The reference has 800 digits.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom

import discreet as dc
from discreet.privacy.guarantee import amplified, as_text, before_sampling
from folding import every

DIGITS = 800
EXACT = Fraction(1, 10**300)
"""Relative error of the reference, at most."""


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def reference(epsilon: Fraction, factor: Fraction) -> Fraction:
    """`log(1 + factor (exp(epsilon) - 1))`: amplified for the probability, before sampling for its inverse."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((1 + decimal(factor) * (decimal(epsilon).exp() - 1)).ln())


EPSILONS = st.fractions(Fraction(1, 10**12), 900) | st.fractions(Fraction(1, 1000), 5, max_denominator=1000)
PROBABILITIES = st.fractions(Fraction(1, 10**12), 1) | st.fractions(Fraction(1, 1000), 1, max_denominator=1000)


# ---------------------------------------------------------------------------------------------------------- amplified


@every(
    ("epsilon", "probability", "value"),
    [
        ("1", "0.1", 0.15856507), ("2", "0.1", 0.494029), ("0.1", "0.5", 0.051249),
        # The first stage of the two-stage mechanism: 0.1 after sampling a tenth is 1 / 1.39 before (a scale of 13.9
        # counted in records of the whole, against 10), and a hundredth 1 / 0.409 (40.9).
        ("0.7186734", "0.1", 0.1),
    ],
)  # fmt: skip
def test_known_values(epsilon: str, probability: str, value: float) -> None:
    assert float(amplified(Fraction(epsilon), Fraction(probability))) == pytest.approx(value, rel=1e-4)


@every(("probability", "relative_noise"), [("0.1", 13.9), ("0.01", 40.9), ("1", 10.0)])
def test_sampling_makes_relative_noise_worse(probability: str, relative_noise: float) -> None:
    """Printed to three digits: `1 / (beta log(1 + (exp(0.1) - 1) / beta))`, never below 1 / 0.1."""
    share = Fraction(probability)
    assert 1 / float(share * before_sampling(Fraction(1, 10), share)) == pytest.approx(relative_noise, rel=4e-3)


@given(EPSILONS, PROBABILITIES)
@example(Fraction(1, 10**12), Fraction(1, 10**12))
@example(Fraction(1000), Fraction(1, 10**12))
@example(Fraction(1000), 1 - Fraction(1, 10**12))
@example(Fraction(1, 3), Fraction(2, 3))
def test_what_sampling_gives_is_never_promised_too_small(epsilon: Fraction, probability: Fraction) -> None:
    exact, found = reference(epsilon, probability), amplified(epsilon, probability)
    assert exact * (1 - EXACT) <= found
    assert found <= exact * (1 + Fraction(1, 10**14))
    assert found <= epsilon * (1 + Fraction(1, 10**14))


@every("probability", ["1/10", "1/2", "999/1000"])
@every("epsilon", ["1/10", "1", "5", "40"])
def test_usual_values_are_right_to_thirty_digits(epsilon: str, probability: str) -> None:
    exact = reference(Fraction(epsilon), Fraction(probability))
    found = amplified(Fraction(epsilon), Fraction(probability))
    assert exact * (1 - EXACT) <= found <= exact * (1 + Fraction(1, 10**30))


@given(EPSILONS)
def test_nothing_changes_without_sampling(epsilon: Fraction) -> None:
    assert amplified(epsilon, Fraction(1)) == epsilon
    assert before_sampling(epsilon, Fraction(1)) == epsilon


@every("exponent", [15, 20, 25, 30, 38, 45, 100, 300])
def test_tiny_budgets_are_rounded_up(exponent: int) -> None:
    """They lose digits, 1e-39 in all, but to the safe side."""
    for probability in (Fraction(1, 3), Fraction(1, 10**9), Fraction(1, 10**30)):
        tiny = Fraction(1, 10**exponent)
        assert reference(tiny, probability) * (1 - EXACT) <= amplified(tiny, probability)


def test_amplification_grows_with_both_arguments() -> None:
    epsilons = [Fraction(k, 7) for k in range(1, 50)]
    probabilities = [Fraction(k, 50) for k in range(1, 51)]
    by_epsilon = [amplified(epsilon, Fraction(1, 5)) for epsilon in epsilons]
    by_probability = [amplified(Fraction(2), probability) for probability in probabilities]
    assert by_epsilon == sorted(set(by_epsilon))
    assert by_probability == sorted(set(by_probability))


# ---------------------------------------------------------------------------------------------------- before sampling


@given(st.fractions(Fraction(1, 10**12), 900), PROBABILITIES)
@example(Fraction(1, 10**12), Fraction(1, 10**12))
@example(Fraction(900), Fraction(1, 10**12))
def test_the_inverse_never_allows_too_much(epsilon: Fraction, probability: Fraction) -> None:
    found = before_sampling(epsilon, probability)
    exact = reference(epsilon, 1 / probability)
    assert 0 < found <= exact * (1 + EXACT)
    assert found >= exact * (1 - Fraction(1, 10**12))
    assert amplified(found, probability) <= epsilon
    assert reference(found, probability) * (1 - EXACT) <= epsilon


@every("probability", ["1/10", "1/2", "999/1000"])
@every("epsilon", ["1/10", "1", "5", "40"])
def test_the_usual_inverse_gives_nothing_away(epsilon: str, probability: str) -> None:
    budget, share = Fraction(epsilon), Fraction(probability)
    found = before_sampling(budget, share)
    assert budget * (1 - Fraction(1, 10**24)) <= amplified(found, share) <= budget


def test_the_inverse_can_be_written_down() -> None:
    """It goes into ledgers and documents as text: short, and the same when it is read."""
    for epsilon in ("0.1", "1/3", "1e-9", "7"):
        found = before_sampling(Fraction(epsilon), Fraction(1, 10))
        assert len(as_text(found)) < 60
        assert Fraction(as_text(found)) == found


@every(
    ("epsilon", "probability"),
    [
        ("1e-27", "1/10"),
        ("1e-20", "1/10"),
        ("1e-45", "1/2"),
        ("1e-45", "1"),
        ("1e-300", "1e-3"),
        ("1e-30", "1e-30"),
    ],
)
def test_a_budget_too_small_for_a_sample_is_refused_or_kept(epsilon: str, probability: str) -> None:
    try:
        found = before_sampling(Fraction(epsilon), Fraction(probability))
    except dc.InputError as error:
        assert "too small" in str(error)
    else:
        assert found > 0
        assert reference(found, Fraction(probability)) * (1 - EXACT) <= Fraction(epsilon)


# ------------------------------------------------------------------------------------------------------------ refusals


@every("direction", [amplified, before_sampling])
@every(
    ("epsilon", "probability", "why"),
    [
        (1, 0, "sampling probability must be greater than 0"), (1, -1, "sampling probability"),
        (1, Fraction(11, 10), "at most 1, got 1.1"), (0, Fraction(1, 2), "epsilon greater than 0"),
        (-1, Fraction(1, 2), "epsilon greater than 0"), (Fraction(1001), Fraction(1, 2), "above 1,000"),
        (Fraction(10**300), Fraction(1, 2), "above 1,000"),
    ],
)  # fmt: skip
def test_what_is_no_sampling_is_refused(direction: object, epsilon: Fraction, probability: Fraction, why: str) -> None:
    with pytest.raises(dc.InputError, match=why):
        direction(Fraction(epsilon), Fraction(probability))  # type: ignore[operator]


# --------------------------------------------------------------------------------------------------------- the theorem


@every("probability", [Fraction(1, 10), Fraction(1, 2), Fraction(19, 20)], ids=str)
@every("epsilon", [0.3, 1.0, 3.0])
def test_the_bound_holds_and_is_attained_by_laplace_noise_on_a_sampled_count(
    epsilon: float, probability: Fraction
) -> None:
    """n records against n + 1, each in the sample by its own coin: the largest log ratio of outputs, exactly."""
    share, bound = float(probability), float(amplified(Fraction(epsilon), probability))
    outputs = np.arange(-60, 80)
    worst = 0.0
    for records in (0, 1, 5, 20):
        laws = []
        for n in (records, records + 1):
            kept = np.arange(n + 1)
            laws.append(np.exp(-epsilon * np.abs(outputs[:, None] - kept)) @ binom.pmf(kept, n, share))
        worst = max(worst, float(np.max(np.abs(np.log(laws[0] / laws[1])))))
        assert worst <= bound * (1 + 1e-12)
    assert worst == pytest.approx(bound, rel=1e-9)
