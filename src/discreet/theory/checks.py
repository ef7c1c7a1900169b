"""Checks of numbers that functions of `theory` and `papers` share."""

from __future__ import annotations

import math

from discreet.errors import InputError

__all__ = ["not_negative", "positive", "probability"]


def positive(**numbers: float) -> None:
    """Refuse what is not finite and greater than 0."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise InputError(f"{name} must be finite and greater than 0, got {number}")


def not_negative(**numbers: float) -> None:
    """Refuse what is not finite and at least 0."""
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise InputError(f"{name} must be finite and at least 0, got {number}")


def probability(**numbers: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    for name, number in numbers.items():
        if not 0 < number < 1:
            raise InputError(f"{name} must be greater than 0 and less than 1, got {number}")
