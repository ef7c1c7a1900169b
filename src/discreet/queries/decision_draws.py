"""The draws of a decision, and their effective number."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.posterior.diagnostics import effective_size
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.protocol import NetworkPosterior
from discreet.util.arrays import Floats
from discreet.util.progress import under_way
from discreet.util.randomness import Seed

Integers = npt.NDArray[np.intp]

LEAST_DRAWS_OF_A_CHAIN = 8
"""Draws of a chain below which its effective sample size cannot be estimated (`effective_size`)."""


def renewable(posterior: NetworkPosterior) -> TypeGuard[PosteriorDraws]:
    """True if new draws can be made."""
    return isinstance(posterior, PosteriorDraws) and posterior.source is not None


def fresh_draws(posterior: NetworkPosterior, fresh: bool, rng: Seed) -> NetworkPosterior:
    """Draws for a decision: new ones if wanted and possible, else the posterior's."""
    with under_way("drawing the posterior"):
        return posterior.fresh(rng=rng) if fresh and renewable(posterior) else posterior


def best_response(means: Floats) -> Integers:
    """Positions of the chosen responses: the first of those with the largest mean utility.

    Args:
        means: mean utilities over draws, shape (..., responses).

    Returns:
        Shape (...).

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2.

    Example:
        >>> best_response(np.array([[0.2, 0.5], [0.4, 0.4]])).tolist()
        [1, 0]
    """
    return np.asarray(means.argmax(axis=-1))


def condition(fresh: bool) -> str:
    """Condition under which the bound of a decision holds, in words."""
    return "however the query was chosen" if fresh else "if it was fixed before the draws were looked at"


def check_bounds(values: Floats, low: float, high: float, subject: str) -> None:
    """Refuse values that are NaN or outside their bounds."""
    if np.any(np.isnan(values)):
        raise InputError(f"{subject} is not a number; under some draw the evidence may be impossible")
    if not (np.all(values >= low - 1e-9) and np.all(values <= high + 1e-9)):
        raise InputError(f"{subject} is outside its bounds {low:g} to {high:g}")


def effective_draws(posterior: NetworkPosterior, values: Floats) -> float:
    """Effective sample size of the draws for some means, shape (means, draws); at most the number of draws."""
    draws = values.shape[1]
    if not isinstance(posterior, PosteriorDraws):
        return float(draws)
    worth, mixing = posterior.ess(), posterior.mixing
    if mixing is None or draws < LEAST_DRAWS_OF_A_CHAIN * mixing.chains:
        return float(worth)
    # An indicator may mix more slowly than any entry. Draws alternate between the chains, in order of time.
    length = draws // mixing.chains
    by_chain = values[:, draws - length * mixing.chains :].reshape(len(values), length, mixing.chains)
    return float(min(worth, effective_size(by_chain.swapaxes(1, 2)).min()))
