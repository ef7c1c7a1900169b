"""The draws that a decision is taken by, and how many independent ones they are worth."""

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
"""Below it nothing can be told from a chain's utilities (`effective_size`)."""


def renewable(posterior: NetworkPosterior) -> TypeGuard[PosteriorDraws]:
    """Whether new draws can be made."""
    return isinstance(posterior, PosteriorDraws) and posterior.source is not None


def asked_draws(posterior: NetworkPosterior, fresh: bool, rng: Seed) -> NetworkPosterior:
    """New draws where they are wanted and can be made, else the posterior's own."""
    with under_way("drawing the posterior"):
        return posterior.fresh(rng=rng) if fresh and renewable(posterior) else posterior


def best_response(means: Floats) -> Integers:
    """Places of the responses that are chosen: the first of those with the largest mean utility.

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
    """When the bound of a decision holds."""
    return "however the query was chosen" if fresh else "if it was fixed before the draws were looked at"


def refuse_outside(values: Floats, low: float, high: float, what: str) -> None:
    """Refuse what is no number, or outside its bounds."""
    if np.any(np.isnan(values)):
        raise InputError(f"{what} is not a number; under some draw the evidence may be impossible")
    if not (np.all(values >= low - 1e-9) and np.all(values <= high + 1e-9)):
        raise InputError(f"{what} is outside its bounds {low:g} to {high:g}")


def effective_draws(posterior: NetworkPosterior, values: Floats) -> float:
    """Number of independent draws that tell some means as well, shape (means, draws); at most all."""
    draws = values.shape[1]
    if not isinstance(posterior, PosteriorDraws):
        return float(draws)
    worth, mixing = posterior.ess(), posterior.mixing
    if mixing is None or draws < LEAST_DRAWS_OF_A_CHAIN * mixing.chains:
        return float(worth)
    # An indicator may mix more slowly than every entry. Draws come in turn from the chains; the last are the latest.
    length = draws // mixing.chains
    by_chain = values[:, draws - length * mixing.chains :].reshape(len(values), length, mixing.chains)
    return float(min(worth, effective_size(by_chain.swapaxes(1, 2)).min()))
