"""Decisions: answer any number of questions from the same draws by the response of the largest expected utility.

PSAQR of Dimitrakakis et al.: once draws are there, each answer is post-processing and costs nothing. What the finite
number of draws can cost in expected utility is bounded with every decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.posterior.draws import Posterior
from discreet.queries.query import Probability, credible_interval, parse_query
from discreet.theory import inference
from discreet.theory.bounds import response_error

__all__ = ["Decision", "decide", "payoff"]

Floats = npt.NDArray[np.float64]
R = TypeVar("R")


@dataclass(frozen=True)
class Decision(Generic[R]):
    """The response of the largest expected utility, and what is known of all of them.

    Args:
        response: the best one; the first of several that are equal.
        rows: for every response `{"response": r, "mean": x, "lower": x, "upper": x, "best": x}`: expected utility, its
            interval over the posterior, and the share of draws under which it is the best.
        level: posterior probability of each interval.
        regret: expected utility that this decision can lose, against the best response under the exact posterior,
            because the draws are finitely many; it holds for all queries together but for `failure`.
        failure: probability with which the bound may fail.
    """

    response: R
    rows: tuple[Mapping[str, object], ...]
    level: float
    regret: float
    failure: float


def decide(
    posterior: Posterior,
    utility: Callable[[Tables, R], Floats],
    responses: Sequence[R],
    *,
    level: float = 0.95,
    bounds: tuple[float, float] = (0.0, 1.0),
    queries: int = 1,
    failure: float = 0.05,
) -> Decision[R]:
    """Choose the response with the largest mean utility over the draws.

    Args:
        posterior: its draws must be independent for the bound to hold.
        utility: of a response under every draw: from cells of shape `(*parents, child, draws)` and the response to
            shape (draws,); `payoff` makes one from a table. It must stay within `bounds`.
        responses: at least one.
        level: posterior probability of each interval.
        bounds: smallest and largest utility there can be.
        queries: how many decisions are taken from these draws in all; the bound holds for all of them together.
        failure: probability with which the bound may fail.

    Returns:
        The decision.

    Raises:
        InputError: no response, bounds out of order, or a utility outside its bounds or of another shape.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2 and Lemma 11, with the union over responses and queries that its
        bound leaves out.
    """
    low, high = bounds
    if not responses or not low < high:
        raise InputError("a decision needs at least one response, and utilities between two different bounds")
    draws = posterior.cells.draws or 1
    values = np.array([np.asarray(utility(posterior.cells, response), np.float64) for response in responses])
    if values.shape != (len(responses), draws):
        raise InputError(f"the utility of a response must have one number for each of the {draws} draws")
    if np.any(np.isnan(values)):
        raise InputError("a utility is not a number; under some draw the evidence may be impossible")
    if not (np.all(values >= low - 1e-9) and np.all(values <= high + 1e-9)):
        raise InputError(f"a utility is outside its bounds {low:g} to {high:g}")
    means = values.mean(axis=1)
    # The interval's rule for posteriors that are densest at an end is for numbers between 0 and 1.
    scaled = credible_interval(np.clip((values - low) / (high - low), 0, 1), level)
    lower, upper = (low + (high - low) * end for end in scaled)
    winners = np.bincount(values.argmax(axis=0), minlength=len(responses)) / draws
    rows = tuple(
        {"response": response, "mean": float(mean), "lower": float(a), "upper": float(b), "best": float(share)}
        for response, mean, a, b, share in zip(responses, means, lower, upper, winners, strict=True)
    )
    regret = (high - low) * response_error(draws, len(responses), queries, failure)
    return Decision(responses[int(means.argmax())], rows, level, min(regret, high - low), failure)


def payoff(network: Network, query: str, table: Mapping[str, Mapping[str, float]]) -> Callable[[Tables, str], Floats]:
    """Utility of responses whose payoff depends on the state of one variable.

    Args:
        network: that the query is asked of.
        query: such as "P(lung | smoke=yes)", with one target without a state.
        table: for every response the payoff in every state of the target.

    Returns:
        A utility for `decide`: expected payoff under every draw.

    Raises:
        InputError: another kind of query, or a response whose payoffs do not name every state once.
    """
    asked = parse_query(query, network.schema)
    if not isinstance(asked, Probability) or len(asked.targets) != 1 or asked.targets[0][1] is not None:
        raise InputError(f"a payoff needs a query for all states of one variable, such as P(A | B=b), not {query!r}")
    target = network.schema[asked.targets[0][0]]
    for response, payoffs in table.items():
        if set(payoffs) != set(target.states):
            raise InputError(f"the payoffs of {response!r} must name every state of {target.name!r} once")
    evidence = {name: network.schema[name].states.index(state) for name, state in asked.evidence}

    def utility(cells: Tables, response: str) -> Floats:
        if response not in table:
            raise InputError(f"no payoffs are given for response {response!r}")
        payoffs = np.array([table[response][state] for state in target.states])
        return np.asarray(payoffs @ inference.joint(cells, (target.name,), evidence))

    return utility
