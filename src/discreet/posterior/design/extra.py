"""Samplers that need the extra `mcmc`: loaded when they are first asked for, because JAX takes a second to import."""

from __future__ import annotations

import importlib
from typing import Any

from discreet.errors import InputError

__all__ = ["sampler"]


def sampler(module: str) -> Any:
    """A module of this folder that stands on JAX and blackjax.

    Args:
        module: its name.

    Returns:
        The module.

    Raises:
        InputError: the extra is not installed.
    """
    missing = None
    try:
        return importlib.import_module(f"discreet.posterior.design.{module}")
    except ModuleNotFoundError as error:
        missing = error.name
    raise InputError(
        f"this posterior needs a Markov chain sampler, and {missing} is not installed: pip install '.[mcmc]' in a "
        "clone of discreet; the release itself is not affected"
    )
