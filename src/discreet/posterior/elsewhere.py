"""Posteriors whose draws are somewhere else: whoever is asked with one has it answered there, and returns the same."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class Elsewhere(ABC):
    """A posterior whose draws are not in this process."""

    @abstractmethod
    def ask(self, function: str, given: Mapping[str, Any]) -> Any:
        """What a function of this package returns for this posterior.

        Args:
            function: its name.
            given: all its other arguments by name, defaults among them.
        """


def answered_elsewhere(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of a posterior be answered where the posterior is; its signature and its text stay.

    Args:
        function: whose first parameter is called `posterior`.

    Returns:
        The function; of a posterior that is here it is called as it is.

    Example:
        >>> class Parrot(Elsewhere):
        ...     def ask(self, function, given):
        ...         return function, dict(given)
        >>> @answered_elsewhere
        ... def mean(posterior, of, *, level=0.95):
        ...     return "here"
        >>> mean("a posterior", "x"), mean(Parrot(), "x")
        ('here', ('mean', {'of': 'x', 'level': 0.95}))
    """

    @wraps(function)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        posterior = args[0] if args else kwargs.get("posterior")
        if not isinstance(posterior, Elsewhere):
            return function(*args, **kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name != "posterior"}
        return cast(R, posterior.ask(function.__name__, arguments))

    return dispatched
