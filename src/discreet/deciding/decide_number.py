"""Point estimates as decisions: the best number under posterior draws, and the loss due to finitely many draws.

The best response for a quantity is its mean, its median, a quantile, or an interval, depending on the loss. No grid of
responses and no union bound over them is needed: see `deciding/number_losses.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from discreet.deciding.decide import LARGEST_UTILITY
from discreet.deciding.decision_draws import BOUND, LossBound, check_bounds, effective_draws, fresh_draws
from discreet.deciding.number_losses import Band, NumberLoss, number_loss
from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.number_types import NUMBERS, Calendar, NumberType, as_ends, read_dates, write_dates
from discreet.model.query_grammar import NumberQuery, Probability, parse_query
from discreet.model.tables import Tables
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.conditioning import condition_on
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.documents import Document, read_fields
from discreet.queries.query import ROW_LIMIT, find_number
from discreet.util.arrays import Floats
from discreet.util.number_checks import positive, probability
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed

Quantity: TypeAlias = str | Callable[[Tables], Floats]
"""A query for one probability or number, or a function of cells `(*parents, child, draws)` to shape (draws,)."""


@dataclass(frozen=True)
class NumberDecision(LossBound):
    """The number, or the interval, with the least expected loss, and a bound on what it loses (`LossBound`).

    The bound holds for all losses of this quantity together; if the draws are not fresh, for a quantity that was fixed
    before they were looked at, and then for any loss.

    Args:
        response: the chosen number; for interval loss its two ends.
        loss: loss function by which it was chosen.
        expected: mean loss over the draws, in the unit of the quantity; for squared loss, of its square.
        lower: lower end of the quantity's posterior interval.
        upper: upper end of the quantity's posterior interval.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> square = dc.decisions.Squared()
        >>> bound = {"level": 0.95, "regret": 0.002, "failure": 0.05, "fresh": False, "effective": 1000}
        >>> print(dc.decisions.NumberDecision(0.3, square, 0.01, 0.1, 0.5, **bound))
        0.3: loses at most 0.002 but for a chance of 0.05, if it was fixed before the draws were looked at
    """

    response: float | tuple[float, float]
    loss: NumberLoss
    expected: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Write `RESPONSE: loses at most REGRET but for a chance of FAILURE, CONDITION`; an interval is `A to B`."""
        ends = self.response if isinstance(self.response, tuple) else (self.response,)
        chosen = " to ".join(f"{end:.5g}" for end in ends)
        return self.say_loss(chosen, self.unit)

    @property
    def unit(self) -> str:
        """Unit of the loss after a blank, if the number is a date: days or seconds, or their squares; else empty."""
        return f"{' squared' * (self.loss.power == 2)} {self.lower.unit}" if isinstance(self.lower, Calendar) else ""

    def tidy(self) -> list[dict[str, Any]]:
        """List one row: the number, its expected loss and interval.

        Returns:
            Keys "response" (the number or the lower end), "response_upper" (for interval loss the upper end, else
            None), then "loss" (its name as text), "expected", "lower", "upper", "level" and "regret".
        """
        ends = self.response if isinstance(self.response, tuple) else (self.response, None)
        numbers = {name: getattr(self, name) for name in ("expected", "lower", "upper", "level", "regret")}
        return [{"response": ends[0], "response_upper": ends[1], "loss": str(self.loss), **numbers}]

    def content(self) -> Iterator[str]:
        """Yield two lines: the text of `str`; then the quantity's interval, the loss function and the expected loss."""
        between = f"between {self.lower:.4f} and {self.upper:.4f} ({100 * self.level:.6g} %)"
        yield from (str(self), f"{between}; {self.loss} loss, {self.expected:.3g}{self.unit} expected")

    def document(self, query: str) -> Document:
        """Convert the decision to JSON.

        Args:
            query: text of the quantity's query.

        Returns:
            "kind" ("number"), "quantity", "loss" (its name), "response" (a number, or a list of two ends), "expected",
            "lower" and "upper"; then "level", "regret", "failure", "fresh" and "effective"; of dates, which are numbers
            here, also "dates", their texts.
        """
        numbers = self.write("response", "expected", "lower", "upper")
        return {"kind": "number", "quantity": query, "loss": str(self.loss), **write_dates(numbers)}


def read_number_decision(document: Mapping[str, Any]) -> NumberDecision:
    """Restore the decision on a number that its `document` wrote, equal to the last bit.

    The texts "kind" and "quantity" are not read, and the loss function is made from its name.

    Raises:
        InputError: an unknown loss.

    Example:
        >>> ends = (0.1 + 0.2, 0.7)
        >>> loss = number_loss("interval:0.9")
        >>> bound = {"level": 0.95, "regret": 0.02, "failure": 0.05, "fresh": False, "effective": 1000.0}
        >>> made = NumberDecision(ends, loss, 0.1, 0.2, 0.8, **bound)
        >>> read_number_decision(made.document("P(lung=yes)")) == made
        True
    """
    fields = read_dates(read_fields(document, "response", "expected", "lower", "upper", "dates", *BOUND))
    return NumberDecision(loss=number_loss(document["loss"]), **fields)


@delegates_to_server
def decide_number(
    posterior: NetworkPosterior,
    quantity: Quantity,
    loss: NumberLoss | str,
    *,
    level: float = DEFAULT_LEVEL,
    bounds: tuple[float, float] | None = None,
    queries: int = 1,
    failure: float = 0.05,
    fresh: bool = True,
    rng: Seed = None,
) -> NumberDecision:
    """Choose the number with the least mean loss over draws that are made for this decision.

    Args:
        posterior: result of `noise_aware` or `plug_in`, or posterior draws.
        quantity: a query for one probability, such as "P(lung=yes | smoke=yes)", or for a number, such as
            "E(age | ill=yes)"; or a function from cells of shape `(*parents, child, draws)` to shape (draws,). The
            number of a draw must depend on that draw alone. Numbers are read from released sums where there are some,
            else by the log-linear law inside bins.
        loss: "squared" (the mean), "absolute" (the median), "quantile:Q", "interval:LEVEL"; or `Squared()`,
            `Absolute()`, `Quantile(q)`, `Interval(level)`.
        level: posterior probability of the quantity's interval, which is reported beside the response.
        bounds: smallest and largest possible value of the quantity; None for those that follow from public bounds
            (`public_bounds`), 0 and 1 for a function.
        queries: total number of quantities to decide on, fixed before the first; the bound holds for all of them
            together.
        failure: probability with which the bound may fail.
        fresh: whether new draws are made where possible, as in `decide`.
        rng: source of the new draws, as in `decide`.

    Returns:
        The decision: the response, its mean loss over the draws, the quantity's interval (`credible_interval` of its
        draws, scaled from `bounds` to [0, 1]), the bound on the loss of the response over that of the best one, from
        the effective sample size, and `fresh`, true only if new draws were made. Draws are not weighted.

    Raises:
        InputError: a query for several probabilities, or with evidence that is impossible in a single draw; another
            loss; bounds out of order, infinite or beyond LARGEST_UTILITY; a number of queries that is not positive; a
            level or `failure` outside (0, 1); or a quantity that is not a number, outside its bounds by more than 1e-9,
            or of another shape.
        DiscreetError: new draws could not be made, as in `noise_aware`.

    Guarantee:
        No budget is spent; only the posterior, or the release again, is read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2, for responses that are numbers; the bound is proved in
        `discreet.deciding.number_losses`, for independent draws. Dependent draws enter with their effective sample size
        for the quantity and for the indicator that it exceeds the response: a close approximation, but no theorem; see
        `decide`.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("x", ("yes", "no")),), {"x": ()})
        >>> drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin, 1.0).draw(4000, rng=1))
        >>> found = dc.decisions.decide_number(drawn, "P(x=yes)", "quantile:0.9")
        >>> abs(found.response - 0.9) < 0.02, found.regret < 0.002
        (True, True)
    """
    chosen = number_loss(loss)
    query = one_number(posterior.network, quantity) if isinstance(quantity, str) else quantity
    low, high = public_bounds(posterior.network, query) if bounds is None else bounds
    if not -np.inf < low < high < np.inf:
        raise InputError("a quantity needs two different, finite bounds")
    if not -LARGEST_UTILITY <= low < high <= LARGEST_UTILITY:
        raise InputError(f"bounds of a quantity lie within {LARGEST_UTILITY:g} of 0; state it in a larger unit")
    positive(queries=queries)
    probability(failure=failure)
    check_level(level)
    drawn = fresh_draws(posterior, fresh, rng)
    values = find_quantity(drawn, query, low, high)
    response = chosen.best(ordered := np.sort(values))
    above = (values > np.atleast_1d(response)[:, None]).astype(np.float64)
    ess = effective_draws(drawn, np.vstack([values, above]))
    band = Band(ordered, low, high, ess, failure / queries)
    ends = credible_interval((values - low) / (high - low), level)
    lower, upper = (low + (high - low) * float(end) for end in ends)
    expected, regret = float(chosen.of(values, response).mean()), chosen.regret(band, response)
    numbers = as_ends({"response": response, "lower": lower, "upper": upper}, _type_of(posterior.network, query))
    how: Any = {"level": level, "regret": regret, "failure": failure, "fresh": drawn is not posterior, "effective": ess}
    return NumberDecision(loss=chosen, expected=expected, **numbers, **how)


def _type_of(network: Network, query: object) -> NumberType:
    """Find what the number of a query stands for: of a mean or quantile what those of its variable do."""
    number_type = network.schema[query.variable].number_type if isinstance(query, NumberQuery) else NUMBERS
    return number_type if getattr(query, "quantity", "") in ("mean", "quantile") else NUMBERS


def one_number(network: Network, query: str) -> Probability | NumberQuery:
    """Parse a query for one probability or number.

    Args:
        network: network of the query's variables.
        query: text such as "P(A=a, B=b | C=c)" or "E(X | C=c)".

    Returns:
        The parsed query; one for probabilities has a state for every target.

    Raises:
        InputError: no query; another kind of query, such as MAP; or a target without a state.
    """
    parsed = parse_query(query, network.schema)
    if isinstance(parsed, NumberQuery):
        return parsed
    if not isinstance(parsed, Probability) or any(state is None for _, state in parsed.targets):
        raise InputError(
            f"a number needs a query for one probability, with a state of every target, such as P(A=a | B=b), or for a "
            f"number, such as E(X | B=b), not {shown(query)}"
        )
    return parsed


def number_bounds(network: Network, query: str) -> tuple[float, float]:
    """Find the smallest and largest value that the number of a query can have, by public bounds.

    Args:
        network: network of the query's variables.
        query: text such as "P(A=a | C=c)" or "E(X | C=c)".

    Returns:
        Smallest and largest value, in the unit of the number.

    Raises:
        InputError: no query; another kind of query, such as MAP; or a target without a state.

    Guarantee:
        No budget is spent; only the public network is read.

    Example:
        >>> import discreet as dc
        >>> people = dc.Network.empty([dc.Variable("age", bounds=(0, 120), bins=(40, 65))])
        >>> dc.decisions.number_bounds(people, "E(age)"), dc.decisions.number_bounds(people, "sd(age)")
        ((0.0, 120.0), (0.0, 60.0))
    """
    return public_bounds(network, one_number(network, query))


def public_bounds(network: Network, query: object) -> tuple[float, float]:
    """Find the smallest and largest value that a quantity can have by the public bounds of its variables.

    Args:
        network: network of the query's variables.
        query: parsed query; anything else lies between 0 and 1.

    Returns:
        The variable's own bounds for a mean or quantile; of a standard deviation at most half of their distance (that
        of numbers at both ends), of a variance or covariance products of these; else shares and correlations.
    """
    if not isinstance(query, NumberQuery):
        return 0.0, 1.0
    ends = [network.schema[name].edges for name, _ in query.targets]
    half = [(end[-1] - end[0]) / 2 for end in ends]
    known = {
        "mean": (ends[0][0], ends[0][-1]),
        "quantile": (ends[0][0], ends[0][-1]),
        "sd": (0.0, half[0]),
        "variance": (0.0, half[0] ** 2),
        "covariance": (-half[0] * half[-1], half[0] * half[-1]),
        "correlation": (-1.0, 1.0),
    }
    return known.get(query.quantity, (0.0, 1.0))


def find_quantity(
    posterior: NetworkPosterior, query: Probability | NumberQuery | Callable[[Tables], Floats], low: float, high: float
) -> Floats:
    """Compute the quantity in every draw; a query is answered as by `answer`.

    Args:
        posterior: draws of the decision.
        query: query for one probability, which is computed exactly, or by importance sampling if the network is too
            large; for a number; or a function from cells to shape (draws,).
        low: smallest possible value.
        high: largest possible value.

    Returns:
        Shape (draws,), clipped to the bounds; only rounding errors, up to 1e-9, can lie beyond them.

    Raises:
        InputError: values of another shape, not a number in some draw (for a query: impossible evidence), or outside
            `low` to `high` by more than 1e-9; or evidence too rare to be sampled.
    """
    if isinstance(query, Probability):
        schema = posterior.network.schema
        states = {name: schema[name].code(state) for name, state in query.targets if state is not None}
        values = condition_on(posterior, query.evidence, predictive=False).for_targets(states, most=ROW_LIMIT)
        quantity = values.given.probability(states)
    elif isinstance(query, NumberQuery):
        # Sums with noise may put a number a little beyond what is possible.
        quantity = np.clip(find_number(query, posterior), *public_bounds(posterior.network, query))
    else:
        quantity = np.asarray(query(posterior.probabilities), np.float64)
        draws = posterior.probabilities.draws or 1
        if quantity.shape != (draws,):
            raise InputError(f"a quantity must have one number for each of the {draws} draws")
    check_bounds(quantity, low, high, "the quantity")
    return np.clip(quantity, low, high)
