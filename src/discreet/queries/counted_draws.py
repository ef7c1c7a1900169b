"""Which draws of a posterior count for a question, and how much; shared by all that is answered from draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.query_grammar import Query
from discreet.util.arrays import Floats

MOST_LEFT_OUT = 0.5
"""Share of the draws above which an answer is refused: evidence that most of the posterior rules out is a mistake of
whoever gave it, or of the network."""
LEAST_EFFECTIVE_DRAWS = 20
"""Effective draws below which weighted ones carry no interval: a 95 % interval leaves out one in twenty."""


def possible_draws(asked: Query, draws: Floats, weights: Floats | None) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Which draws count, shape (draws,), and how much each of these does, in all 1.

    Raises:
        InputError: the evidence is impossible under too many of them, or weights leave too few.
    """
    possible = ~np.isnan(draws[0])
    refuse_impossible(int((~possible).sum()), possible.size, f"{asked}: the evidence")
    share = np.ones(int(possible.sum())) if weights is None else weights[possible]
    share = share / share.sum()
    if weights is not None and 1 / (share**2).sum() < min(LEAST_EFFECTIVE_DRAWS, share.size):
        raise InputError(
            f"{asked}: weighted by the probability of the evidence fewer than {LEAST_EFFECTIVE_DRAWS} effective draws "
            "are left; ask for more draws, or leave out predictive"
        )
    return possible, share


def keep_possible(draws: Floats, possible: npt.NDArray[np.bool_]) -> Floats:
    """Some of the draws; the array itself where it is all: a copy's order in memory would change how sums round."""
    return draws if possible.all() else draws[..., possible]


def refuse_impossible(impossible: int, draws: int, what: str) -> None:
    """Refuse evidence that most draws make impossible.

    Args:
        impossible: number of draws under which it has probability 0.
        draws: of the posterior.
        what: it is, at the beginning of the message.

    Raises:
        InputError: more than half of the draws.
    """
    if impossible > MOST_LEFT_OUT * draws:
        raise InputError(f"{what} is impossible under {impossible} of {draws} draws; check its states")


def resample(weights: Floats) -> npt.NDArray[np.intp]:
    """Positions at which draws that count alike would lie, each as often as its weight says, shape (draws,).

    Example:
        >>> resample(np.array([0.5, 0.25, 0.25, 0.0])).tolist()
        [0, 0, 1, 2]
    """
    steps = (np.arange(weights.size) + 0.5) / weights.size
    return np.searchsorted(np.cumsum(weights), steps * np.sum(weights)).clip(max=weights.size - 1)
