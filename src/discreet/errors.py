"""Errors that a caller can act on.

Every message says what was expected, where, and what to do, and never holds a value of a record: records may only be
named by their column. Anything that is not one of these is a defect of the package.
"""

__all__ = ["BudgetError", "DiscreetError", "InputError"]


class DiscreetError(Exception):
    """Anything the package refuses, with the reason and the way out in one line."""


class InputError(DiscreetError, ValueError):
    """The caller's input (network, schema, records, release, query) is not what it must be; nothing was spent."""


class BudgetError(DiscreetError):
    """The privacy budget does not allow what was asked; nothing was spent."""
