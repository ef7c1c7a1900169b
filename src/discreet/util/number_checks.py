"""Checks of numbers for `theory` and `papers`."""

from __future__ import annotations

import sys

from discreet.errors import InputError


def positive(**numbers: float) -> None:
    """Refuse numbers that are not finite and greater than 0.

    Args:
        numbers: by the names that an error has for them.

    Raises:
        InputError: one of them is invalid.

    Example:
        >>> positive(scale=2.0)
        >>> positive(scale=0)
        Traceback (most recent call last):
        discreet.errors.InputError: scale must be finite and greater than 0, got 0
    """
    for name, number in numbers.items():
        if not 0 < number <= sys.float_info.max:
            raise InputError(f"{name} must be finite and greater than 0, got {_write(number)}")


def not_negative(**numbers: float) -> None:
    """Refuse numbers that are not finite and at least 0.

    Args:
        numbers: by the names that an error has for them.

    Raises:
        InputError: one of them is invalid.
    """
    for name, number in numbers.items():
        if not 0 <= number <= sys.float_info.max:
            raise InputError(f"{name} must be finite and at least 0, got {_write(number)}")


def probability(**numbers: float) -> None:
    """Refuse numbers that are not strictly between 0 and 1.

    Args:
        numbers: by the names that an error has for them.

    Raises:
        InputError: one of them is invalid.

    Example:
        >>> probability(level=0.95)
        >>> probability(level=95)
        Traceback (most recent call last):
        discreet.errors.InputError: level must be greater than 0 and less than 1, got 95
    """
    for name, number in numbers.items():
        if not 0 < number < 1:
            raise InputError(f"{name} must be greater than 0 and less than 1, got {_write(number)}")


def _write(number: float) -> str:
    """Write a number for a message; an integer beyond floats has too many digits."""
    if isinstance(number, int) and abs(number) > sys.float_info.max:
        return "an integer beyond all floats"
    return f"{number}"
