"""Posteriors held by a server: functions called with such a posterior send the call to it and return its result."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


class RemotePosteriorBase(ABC):
    """A posterior whose draws are in another process."""

    @abstractmethod
    def ask(self, function: str, given: Mapping[str, Any]) -> Any:
        """Call a function of this package for this posterior in the other process, and return its result.

        Args:
            function: name of the function.
            given: all its other arguments by name, including defaults.
        """


def delegates_to_server(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of a posterior so that it calls the server that holds it; signature and docstring stay.

    Args:
        function: function whose first parameter is named `posterior`; it is passed by position or by this name.

    Returns:
        The decorated function. For a `RemotePosteriorBase` it returns what its `ask` returns for the function's name
        and all other arguments by name, defaults included; arguments that do not fit the signature raise TypeError. For
        any other posterior, one in this process, it calls `function` itself.

    Example:
        >>> class Parrot(RemotePosteriorBase):
        ...     def ask(self, function, given):
        ...         return function, dict(given)
        >>> @delegates_to_server
        ... def mean(posterior, of, *, level=0.95):
        ...     return "here"
        >>> mean("a posterior", "x"), mean(Parrot(), "x")
        ('here', ('mean', {'of': 'x', 'level': 0.95}))
    """

    @wraps(function)
    def dispatched(*args: P.args, **kwargs: P.kwargs) -> R:
        """Ask the server if the posterior (first argument or `posterior`) is a remote one, else call the function."""
        posterior = args[0] if args else kwargs.get("posterior")
        if not isinstance(posterior, RemotePosteriorBase):
            return function(*args, **kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {name: value for name, value in bound.arguments.items() if name != "posterior"}
        return cast(R, posterior.ask(function.__name__, arguments))

    return dispatched
