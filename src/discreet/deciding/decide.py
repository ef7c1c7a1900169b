"""Decisions: for each query, choose the response with the largest expected utility over posterior draws.

This is PSAQR of Dimitrakakis et al. (posterior sampling query responses), except that draws are made from a release:
they are post-processing and cost no privacy, so every decision has draws of its own. Each decision has a bound on the
expected utility lost because the draws are finitely many. Responses that are numbers are in `decide_number.py`,
sequences of decisions in `responder.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

import numpy as np

from discreet.deciding.decision_draws import BOUND, LossBound, best_response, check_bounds, effective_draws, fresh_draws
from discreet.deciding.draw_bounds import response_error
from discreet.display.renderers import IntervalTable
from discreet.errors import InputError, listed, printable, shown
from discreet.inference.exact_laws import Laws
from discreet.model.network import Network
from discreet.model.query_grammar import Probability, observed_codes, parse_query
from discreet.model.tables import Tables
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.conditioning import condition_on
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.documents import Document, read_fields
from discreet.queries.query import ROW_LIMIT
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed
from discreet.util.tabular import Block

R = TypeVar("R")
LARGEST_UTILITY = 1e100
"""Largest absolute utility: sums and squares of such numbers do not overflow."""


class ResponseRow(TypedDict, Generic[R]):
    """A response with its expected utility, the utility's interval, and the fraction of draws in which it is best."""

    response: R
    mean: float
    lower: float
    upper: float
    best: float


@dataclass(frozen=True)
class Decision(LossBound, Generic[R]):
    """The response with the largest expected utility, a bound on its loss, and the utilities of all responses.

    The fields of its bound are those of every decision (`LossBound`), by keyword.

    Args:
        response: best response; the first of several that are equal.
        rows: for every response `{"response": r, "mean": x, "lower": x, "upper": x, "best": x}`: expected utility,
            interval of the utility over the posterior, and fraction of the draws in which the response is best.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> print(dc.decisions.Decision("wait", (), level=0.95, regret=0.02, failure=0.05, fresh=True, effective=1000))
        wait: loses at most 0.02 but for a chance of 0.05, however the query was chosen
    """

    response: R
    rows: tuple[ResponseRow[R], ...]

    def __str__(self) -> str:
        """Write `RESPONSE: loses at most REGRET but for a chance of FAILURE, CONDITION`; escape what is unprintable."""
        return printable(self.say_loss(str(self.response)))

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each response: expected utility, interval, and the fraction of draws in which it is best.

        Returns:
            Rows of "response" (as text), "mean", "lower", "upper", "best" and "level", in the order of `rows`.
        """
        return [{**row, "response": str(row["response"]), "level": self.level} for row in self.rows]

    def content(self) -> Iterator[str | Block]:
        """Yield the text of `str`, an empty line, and a table of all responses."""
        yield from (str(self), "", IntervalTable(self.tidy()))

    def document(self, query: str) -> Document:
        """Convert the decision to JSON.

        Args:
            query: text of the query, for the probabilities of the payoffs' states.

        Returns:
            "kind" ("response"), "query", "response" and "values", the rows; then "level", "regret", "failure", "fresh"
            and "effective".
        """
        rows = [dict(row) for row in self.rows]
        return {"kind": "response", "query": query, "response": self.response, "values": rows} | self.write()


def read_decision(document: Mapping[str, Any]) -> Decision[str]:
    """Restore the decision between responses that its `document` wrote, equal to the last bit.

    The texts "kind" and "query" are not read.

    Example:
        >>> rows = ({"response": "wait", "mean": 0.1 + 0.2, "lower": 0.2, "upper": 0.4, "best": 1.0},)
        >>> made = Decision("wait", rows, level=0.95, regret=0.02, failure=0.05, fresh=False, effective=1000.0)
        >>> read_decision(made.document("P(lung)")) == made
        True
    """
    return Decision(document["response"], tuple(document["values"]), **read_fields(document, *BOUND))


@delegates_to_server
def decide(
    posterior: NetworkPosterior,
    utility: Callable[[Tables, R], Floats],
    responses: Sequence[R],
    *,
    level: float = DEFAULT_LEVEL,
    bounds: tuple[float, float] = (0.0, 1.0),
    queries: int = 1,
    failure: float = 0.05,
    fresh: bool = True,
    rng: Seed = None,
) -> Decision[R]:
    """Choose the response with the largest mean utility over draws that are made for this decision.

    A posterior read from a release makes new draws for every decision: they cost time, and no privacy. Everything seen
    before (draws, answers, other decisions) is then uninformative about the draws that decide, and the bound holds even
    for queries that were chosen after looking. A posterior with a fixed set of draws (released ones used as they are,
    tables put together by hand) answers from them, as with `fresh=False`; the bound then holds only for queries that
    were fixed before the draws were looked at, and the decision states this.

    Args:
        posterior: result of `noise_aware` or `plug_in`, or posterior draws.
        utility: function from cells of shape `(*parents, child, draws)` and a response to its utility in every draw,
            shape (draws,); `payoff` makes one from a table, which answers its query as `answer` does. The number of a
            draw must depend on that draw alone, and stay within `bounds`, up to 1e-9.
        responses: at least one response.
        level: posterior probability of each interval.
        bounds: smallest and largest possible utility.
        queries: total number of decisions, fixed before the first; the bound holds for all of them together.
        failure: probability with which the bound may fail.
        fresh: whether new draws are made where possible; if false, or if the posterior has no source of new draws, its
            own draws are used.
        rng: source of the new draws; None uses a new child of the posterior's own generator. Changing a query after
            seeing answers and rerunning the program with the same seed reuses the same draws.

    Returns:
        The decision: the response with the largest mean, the first of several that are equal; each response's mean,
        interval (`credible_interval` of the utilities, scaled from `bounds` to [0, 1]) and "best", the fraction of the
        draws in which it is the first best; the bound on the loss of expected utility, from the effective sample size,
        at most `bounds[1] - bounds[0]`; and `fresh`, true only if new draws were made. Draws are not weighted.

    Raises:
        InputError: no response, bounds out of order or beyond LARGEST_UTILITY, a number of queries that is not
            positive, a level or `failure` outside (0, 1), or a utility that is not a number (of a payoff, if the
            evidence is impossible in a single draw), outside its bounds or of another shape.
        DiscreetError: new draws could not be made, as in `noise_aware`.

    Guarantee:
        No budget is spent; only the posterior, or the release again, is read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2 and Lemma 11, with the union over responses and queries that its
        bound omits. With new draws Hoeffding's inequality holds conditionally on everything seen before. Algorithm 2,
        whose draws cost privacy, answers all queries from the same draws, and its bound is false for queries that
        depend on answers. Dependent draws (chains, resampled ones) enter with their effective sample size
        (`PosteriorDraws.ess`, and for chains that of every utility): a close approximation for chains that have mixed,
        but no theorem.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2))
        >>> gains = {"umbrella": {"yes": 1, "no": 0.2}, "none": {"yes": 0, "no": 1}}
        >>> utility = dc.decisions.payoff(rain, "P(rain)", gains)
        >>> found = dc.decide(posterior, utility, ["umbrella", "none"])
        >>> found.response, [round(row["mean"], 3) for row in found.rows]
        ('none', [0.36, 0.8])
    """
    low, high = bounds
    if not responses or not low < high:
        raise InputError("a decision needs at least one response, and utilities between two different bounds")
    if not -LARGEST_UTILITY <= low < high <= LARGEST_UTILITY:
        raise InputError(f"utilities and payoffs lie within {LARGEST_UTILITY:g} of 0; state them in a larger unit")
    response_error(1, len(responses), queries, failure)  # refuse before draws are made
    check_level(level)
    drawn = fresh_draws(posterior, fresh, rng)
    values = _find_utilities(
        drawn.probabilities, utility.under(drawn) if isinstance(utility, Payoff) else utility, responses, low, high
    )
    draws = values.shape[1]
    means = values.mean(axis=1)
    # `credible_interval` treats ends of highest density on the scale from 0 to 1.
    scaled = credible_interval(np.clip((values - low) / (high - low), 0, 1), level)
    lower, upper = (low + (high - low) * end for end in scaled)
    winners = np.bincount(values.argmax(axis=0), minlength=len(responses)) / draws
    rows: tuple[ResponseRow[R], ...] = tuple(
        ResponseRow(response=response, mean=float(mean), lower=float(a), upper=float(b), best=float(share))
        for response, mean, a, b, share in zip(responses, means, lower, upper, winners, strict=True)
    )
    ess = effective_draws(drawn, values)
    regret = (high - low) * min(1, response_error(ess, len(responses), queries, failure))
    best = responses[int(best_response(means))]
    return Decision(
        best, rows, level=level, regret=regret, failure=failure, fresh=drawn is not posterior, effective=ess
    )


def _find_utilities(
    cells: Tables, utility: Callable[[Tables, R], Floats], responses: Sequence[R], low: float, high: float
) -> Floats:
    """Compute the utilities of all responses in all draws.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        utility: function from cells and a response to shape (draws,); called once for each response.
        responses: responses.
        low: smallest possible utility.
        high: largest possible utility.

    Returns:
        float64, shape (responses, draws); rounding errors beyond the bounds, up to 1e-9, are not clipped.

    Raises:
        InputError: utilities of another shape, not a number, or outside `low` to `high` by more than 1e-9.
    """
    draws = cells.draws or 1
    rows = [np.asarray(utility(cells, response), np.float64) for response in responses]
    if any(row.shape != (draws,) for row in rows):
        raise InputError(f"the utility of a response must have one number for each of the {draws} draws")
    values = np.array(rows)
    check_bounds(values, low, high, "a utility")
    return values


@dataclass(frozen=True, eq=False)
class Payoff:
    """Expected payoff of a response in every draw, if the payoff depends on the state of one variable.

    Args:
        asked: query for the probabilities of all states of the variable, which is its one target.
        payoffs: for each response its payoff in every state, shape (states,).
    """

    asked: Probability
    payoffs: Mapping[str, Floats]

    def __call__(self, cells: Tables, response: str) -> Floats:
        """Compute the expected payoff of a response in every draw, `sum_x payoff(x) P(x | evidence)`, shape (draws,).

        The probabilities are those of the network with these cells, by exact inference; NaN in draws in which the
        evidence is impossible.

        Args:
            cells: probabilities, shape `(*parents, child, draws)`.
            response: response that has payoffs.

        Raises:
            InputError: a response without payoffs, or a query too large for exact inference.
        """
        schema = cells.network.schema
        evidence = observed_codes(self.asked.evidence, schema)
        return self._average_payoff(Laws(cells).joint((self.asked.targets[0][0],), evidence), response)

    def under(self, posterior: NetworkPosterior) -> Callable[[Tables, Any], Floats]:
        """Return a utility that answers the query from this posterior, as `answer` does, and ignores its cells.

        The probabilities are computed here, once, from the posterior's joint law: exactly, or by importance sampling if
        the network is too large. The draws are not weighted.

        Args:
            posterior: posterior whose draws decide.

        Returns:
            A function of cells and a response to its expected payoff, shape (draws,): NaN in draws in which the
            evidence is impossible, InputError for a response without payoffs.

        Raises:
            InputError: an unknown variable or state, or evidence too rare to be sampled.
        """
        target = (self.asked.targets[0][0],)
        law = condition_on(posterior, self.asked.evidence, predictive=False).for_targets(target, most=ROW_LIMIT)
        chances = law.given.joint(target)
        return lambda _cells, response: self._average_payoff(chances, response)

    def _average_payoff(self, chances: Floats, response: str) -> Floats:
        """Compute `sum_x payoff(x) P(x)` for a response in every draw, shape (draws,).

        Args:
            chances: P(x), probabilities of the states, shape (states, draws).
            response: response that has payoffs.

        Raises:
            InputError: the response has no payoffs.
        """
        if response not in self.payoffs:
            raise InputError(f"no payoffs are given for response {response!r}")
        return np.asarray(self.payoffs[response] @ chances)


def payoff(network: Network, query: str, table: Mapping[str, Mapping[str, float]]) -> Payoff:
    """Build the utility of responses whose payoff depends on the state of one variable.

    Args:
        network: network of the query's variables.
        query: text such as "P(lung | smoke=yes)", with one target without a state.
        table: for every response its payoff in every state of the target.

    Returns:
        A utility for `decide`: the expected payoff in every draw.

    Raises:
        InputError: another kind of query, or a response whose payoffs do not name exactly the target's states.

    Guarantee:
        No budget is spent; only the public network is read.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> gains = {"umbrella": {"yes": 1, "no": 0.2}, "none": {"yes": 0, "no": 1}}
        >>> utility = dc.decisions.payoff(rain, "P(rain)", gains)
        >>> utility(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2), "none").tolist()
        [0.7, 0.9]
    """
    parsed = parse_query(query, network.schema)
    if not isinstance(parsed, Probability) or len(parsed.targets) != 1 or parsed.targets[0][1] is not None:
        raise InputError(f"a payoff needs a query for all states of one variable, such as P(A | B=b), not {query!r}")
    target = network.schema[parsed.targets[0][0]]
    for response, payoffs in table.items():
        if set(payoffs) != set(target.states):
            states = listed(map(shown, target.states))
            raise InputError(f"the payoffs of {response!r} must name every state of {target.name!r} once: {states}")
    rows = {response: np.array([payoffs[state] for state in target.states]) for response, payoffs in table.items()}
    return Payoff(parsed, rows)
