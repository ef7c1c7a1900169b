"""Point estimates as decisions: the best number under posterior draws, and the loss due to finitely many draws.

The response to a quantity is its mean, its median, a quantile, or an interval, as the loss says; there is no grid of
responses to choose from, and no union over them: see `queries/number_losses.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.query_grammar import Probability, parse_query
from discreet.model.tables import Tables
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.conditioning import condition_on
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.decide import LARGEST_UTILITY
from discreet.queries.decision_draws import check_bounds, condition, effective_draws, fresh_draws
from discreet.queries.number_losses import Band, NumberLoss, number_loss
from discreet.queries.query import ROW_LIMIT
from discreet.util.arrays import Floats
from discreet.util.number_checks import positive, probability
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed
from discreet.util.tabular import Result

Quantity: TypeAlias = str | Callable[[Tables], Floats]
"""A query for one probability, or a function of cells `(*parents, child, draws)` to shape (draws,)."""


@dataclass(frozen=True)
class NumberDecision(Result):
    """The number, or the interval, of the least expected loss.

    Args:
        response: the number that is named; of interval loss the two ends.
        loss: by which it was chosen.
        expected: mean of its loss over the draws, in the unit of the quantity, for squared loss its square.
        lower: of the quantity's interval over the posterior.
        upper: likewise.
        level: posterior probability of this interval.
        regret: expected loss that this response can have beyond that of the best one under the posterior that the draws
            come from, because they are finitely many. It holds for all losses of this quantity together, and for all
            `queries`, but for `failure`.
        failure: probability with which the bounds may fail.
        fresh: whether the draws were made for this decision alone. If so, the bound holds however the query was chosen.
            If not, for a quantity that was fixed before the draws were looked at, and then for any loss.
        effective: number of independent draws that the bound counts.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> square = dc.decisions.Squared()
        >>> print(dc.decisions.NumberDecision(0.3, square, 0.01, 0.1, 0.5, 0.95, 0.002, 0.05, False, effective=1000))
        0.3: loses at most 0.002 but for a chance of 0.05, if it was fixed before the draws were looked at
    """

    response: float | tuple[float, float]
    loss: NumberLoss
    expected: float
    lower: float
    upper: float
    level: float
    regret: float
    failure: float
    fresh: bool
    effective: float

    def __str__(self) -> str:
        """Write the response, the bound on its loss, and the condition of the bound."""
        ends = self.response if isinstance(self.response, tuple) else (self.response,)
        lost = f"loses at most {self.regret:.3g} but for a chance of {self.failure:g}"
        return f"{' to '.join(f'{end:.5g}' for end in ends)}: {lost}, {condition(self.fresh)}"

    def tidy(self) -> list[dict[str, Any]]:
        """List one row: the number, its expected loss and interval.

        Returns:
            "response", the number or the lower end, "response_upper", of interval loss the other, then "loss",
            "expected", "lower", "upper", "level" and "regret".
        """
        ends = self.response if isinstance(self.response, tuple) else (self.response, None)
        numbers = {name: getattr(self, name) for name in ("expected", "lower", "upper", "level", "regret")}
        return [{"response": ends[0], "response_upper": ends[1], "loss": str(self.loss), **numbers}]

    def content(self) -> Iterator[str]:
        """Show the number, the bound on its loss, and the interval of the quantity."""
        between = f"between {self.lower:.4f} and {self.upper:.4f} ({100 * self.level:.6g} %)"
        yield from (str(self), f"{between}; {self.loss} loss, {self.expected:.3g} expected")


@delegates_to_server
def decide_number(
    posterior: NetworkPosterior,
    quantity: Quantity,
    loss: NumberLoss | str,
    *,
    level: float = DEFAULT_LEVEL,
    bounds: tuple[float, float] = (0.0, 1.0),
    queries: int = 1,
    failure: float = 0.05,
    fresh: bool = True,
    rng: Seed = None,
) -> NumberDecision:
    """Name the number of the least mean loss over draws that are made for this decision.

    Args:
        posterior: of `noise_aware`, `plug_in`, or draws.
        quantity: a query for one probability, such as "P(lung=yes | smoke=yes)"; or a function from cells of shape
            `(*parents, child, draws)` to shape (draws,). The number of a draw must depend on that draw alone.
        loss: "squared" (the mean), "absolute" (the median), "quantile:Q", "interval:LEVEL"; or `Squared()`,
            `Absolute()`, `Quantile(q)`, `Interval(level)`.
        level: posterior probability of the quantity's interval, which is shown beside the response.
        bounds: smallest and largest value that the quantity can have.
        queries: how many quantities are decided on in all, fixed before the first; the bound holds for them together.
        failure: probability with which the bound may fail.
        fresh: as for `decide`.
        rng: as for `decide`.

    Returns:
        The decision.

    Raises:
        InputError: a query for several probabilities, another loss, bounds out of order, or a quantity outside its
            bounds or of another shape.
        DiscreetError: new draws could not be made, as in `noise_aware`.

    Guarantee:
        None spent: reads the posterior, or the release again.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2, for responses that are numbers; the bound is proved in
        `discreet.queries.number_losses`, for independent draws. Others count as so many as tell the quantity, and
        whether it
        is above the response, as well: for those it is close, but no theorem; see `decide`.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("x", ("yes", "no")),), {"x": ()})
        >>> drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin, 1.0).draw(4000, rng=1))
        >>> found = dc.decisions.decide_number(drawn, "P(x=yes)", "quantile:0.9")
        >>> abs(found.response - 0.9) < 0.02, found.regret < 0.002
        (True, True)
    """
    chosen, (low, high) = number_loss(loss), bounds
    if not -np.inf < low < high < np.inf:
        raise InputError("a quantity needs two different, finite bounds")
    if not -LARGEST_UTILITY <= low < high <= LARGEST_UTILITY:
        raise InputError(f"bounds of a quantity lie within {LARGEST_UTILITY:g} of 0; state it in a larger unit")
    positive(queries=queries)
    probability(failure=failure)
    check_level(level)
    query = one_probability(posterior.network, quantity) if isinstance(quantity, str) else quantity
    drawn = fresh_draws(posterior, fresh, rng)
    values = _find_quantity(drawn, query, low, high)
    response = chosen.best(ordered := np.sort(values))
    above = (values > np.atleast_1d(response)[:, None]).astype(np.float64)
    worth = effective_draws(drawn, np.vstack([values, above]))
    band = Band(ordered, low, high, worth, failure / queries)
    ends = credible_interval((values - low) / (high - low), level)
    lower, upper = (low + (high - low) * float(end) for end in ends)
    expected, regret = float(chosen.of(values, response).mean()), chosen.regret(band, response)
    return NumberDecision(
        response, chosen, expected, lower, upper, level, regret, failure, drawn is not posterior, worth
    )


def one_probability(network: Network, query: str) -> Probability:
    """Read a query for one probability.

    Args:
        network: that it is asked of.
        query: such as "P(A=a, B=b | C=c)".

    Returns:
        The query.

    Raises:
        InputError: another kind of query, or a target without a state.
    """
    parsed = parse_query(query, network.schema)
    if not isinstance(parsed, Probability) or any(state is None for _, state in parsed.targets):
        raise InputError(
            f"a number needs a query for one probability, with a state of every target, such as P(A=a | B=b), "
            f"not {shown(query)}"
        )
    return parsed


def _find_quantity(
    posterior: NetworkPosterior, query: Probability | Callable[[Tables], Floats], low: float, high: float
) -> Floats:
    """Compute the quantity under every draw, shape (draws,); queries are read as `answer` does."""
    if isinstance(query, Probability):
        schema = posterior.network.schema
        states = {name: schema[name].code(state) for name, state in query.targets if state is not None}
        values = condition_on(posterior, query.evidence, predictive=False).for_targets(states, most=ROW_LIMIT)
        quantity = values.given.probability(states)
    else:
        quantity = np.asarray(query(posterior.cells), np.float64)
        draws = posterior.cells.draws or 1
        if quantity.shape != (draws,):
            raise InputError(f"a quantity must have one number for each of the {draws} draws")
    check_bounds(quantity, low, high, "the quantity")
    return np.clip(quantity, low, high)
