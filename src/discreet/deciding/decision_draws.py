"""The draws of a decision, their effective sample size, and what is lost because they are finitely many."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.posterior.diagnostics import effective_size
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.protocol import NetworkPosterior
from discreet.queries.documents import Document, write_fields
from discreet.util.arrays import Floats
from discreet.util.progress import under_way
from discreet.util.randomness import Seed
from discreet.util.tabular import Result

Integers = npt.NDArray[np.intp]

LEAST_DRAWS_OF_A_CHAIN = 8
"""Number of draws of a chain below which its effective sample size cannot be estimated (`effective_size`)."""


@dataclass(frozen=True, kw_only=True)
class LossBound(Result):
    """A decision's bound on what it loses because draws are finitely many, and how likely, and when, the bound holds.

    Args:
        level: posterior probability of each interval.
        regret: bound on the expected loss beyond that of the best response under the posterior itself. The bounds of
            all announced decisions hold together, except with probability `failure`.
        failure: probability with which the bound may fail.
        fresh: whether the draws were made for this decision alone. If so, the bound holds however the query was chosen.
            If not, it holds only for a query that was fixed before anybody looked at the draws or at anything that
            follows from them.
        effective: effective sample size of the draws that the bound uses.
    """

    level: float
    regret: float
    failure: float
    fresh: bool
    effective: float

    def say_loss(self, response: str, unit: str = "") -> str:
        """Write `RESPONSE: loses at most REGRET but for a chance of FAILURE, CONDITION`.

        Args:
            response: text of the response.
            unit: unit of the loss, after a blank; empty for none.

        Returns:
            The text, whose condition is "however the query was chosen" for fresh draws, else "if it was fixed before
            the draws were looked at".
        """
        when = "however the query was chosen" if self.fresh else "if it was fixed before the draws were looked at"
        return f"{response}: loses at most {self.regret:.3g}{unit} but for a chance of {self.failure:g}, {when}"

    def write(self, *names: str) -> Document:
        """Map the names of some fields, and of those of the bound, to their values, tuples replaced by lists."""
        return write_fields(self, *names, *BOUND)


BOUND = tuple(field.name for field in fields(LossBound))
"""Names of the fields of a decision that tell its bound."""


def renewable(posterior: NetworkPosterior) -> TypeGuard[PosteriorDraws]:
    """True if new draws can be made: the posterior is a `PosteriorDraws` with a source."""
    return isinstance(posterior, PosteriorDraws) and posterior.source is not None


def fresh_draws(posterior: NetworkPosterior, fresh: bool, rng: Seed) -> NetworkPosterior:
    """Draw anew from the posterior's source if `fresh` is true and it has one; else return the posterior itself.

    Args:
        posterior: posterior that decides.
        fresh: whether new draws are wanted.
        rng: source of the new draws; None spawns a child of the generator with which the posterior was drawn.

    Raises:
        DiscreetError: new draws could not be made, as in `noise_aware`.
    """
    with under_way("drawing the posterior"):
        return posterior.fresh(rng=rng) if fresh and renewable(posterior) else posterior


def best_response(means: Floats) -> Integers:
    """Find the response with the largest mean utility, the first of several that are equal.

    Args:
        means: mean utilities over draws, shape (..., responses).

    Returns:
        Positions of the chosen responses, shape (...).

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2.

    Example:
        >>> best_response(np.array([[0.2, 0.5], [0.4, 0.4]])).tolist()
        [1, 0]
    """
    return np.asarray(means.argmax(axis=-1))


def check_bounds(values: Floats, low: float, high: float, subject: str) -> None:
    """Raise an error if a value is NaN, or below `low` or above `high` by more than 1e-9.

    Args:
        values: values of any shape.
        low: smallest value.
        high: largest value.
        subject: beginning of the message.

    Raises:
        InputError: there is such a value.
    """
    if np.any(np.isnan(values)):
        raise InputError(f"{subject} is not a number; under some draw the evidence may be impossible")
    if not (np.all(values >= low - 1e-9) and np.all(values <= high + 1e-9)):
        raise InputError(f"{subject} is outside its bounds {low:g} to {high:g}")


def effective_draws(posterior: NetworkPosterior, values: Floats) -> float:
    """Estimate the effective sample size for some means; the smallest over the means, at most the number of draws.

    Args:
        posterior: posterior that was drawn; the values of other kinds count as independent.
        values: values of each quantity in every draw, shape (means, draws).

    Returns:
        For a posterior that is no `PosteriorDraws` the number of draws. For draws without chains, or with fewer than
        LEAST_DRAWS_OF_A_CHAIN draws of a chain, `posterior.ess()`, whatever the values. Else the smaller one of
        `posterior.ess()` and the least effective sample size of the rows of `values` over the chains, the first draws
        left out if the chains are of unequal length.
    """
    draws = values.shape[1]
    if not isinstance(posterior, PosteriorDraws):
        return float(draws)
    ess, mixing = posterior.ess(), posterior.mixing
    if mixing is None or draws < LEAST_DRAWS_OF_A_CHAIN * mixing.chains:
        return float(ess)
    # An indicator may mix more slowly than any table entry. Draws alternate between the chains, in order of time.
    length = draws // mixing.chains
    by_chain = values[:, draws - length * mixing.chains :].reshape(len(values), length, mixing.chains)
    return float(min(ess, effective_size(by_chain.swapaxes(1, 2)).min()))
