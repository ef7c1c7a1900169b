"""Vectors as decisions: several numbers, or a whole distribution, answered at once under squared distance.

**The best response** to a vector X under `|X - r|^2` is its mean, with no list of candidates. The mean m_N of N draws
loses `|m_N - m|^2` more than the posterior mean m does.

**How much that is.** Let D be the largest distance of two vectors that X can be. If one draw is another, `|m_N - m|`
changes by at most D / N, so it exceeds its expectation by `D sqrt(ln(1 / p) / (2 N))` with probability p at most
(McDiarmid). Its expectation is at most the root of the variance's trace over N, and that trace is half the mean of `|X
- X'|^2`, so at most `D^2 / 2`. Together, with probability 1 - p,

    |m_N - m|^2 <= D^2 / (2 N) (1 + sqrt(ln(1 / p)))^2,

whatever the number of coordinates. D^2 is 2 for a distribution over any number of states, the square of its width for a
number between public bounds, and their sum for several. The sum of the squares of the coordinates' own bounds
(`Band.mean_error`), which see how far the draws spread, is valid too, with p shared among them. A decision spends half
of its `failure` on each of the two and reports the smaller one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from discreet.deciding.decide import LARGEST_UTILITY
from discreet.deciding.decide_number import find_quantity, one_number, public_bounds
from discreet.deciding.decision_draws import BOUND, LossBound, check_bounds, effective_draws, fresh_draws
from discreet.deciding.draw_bounds import vector_error
from discreet.deciding.number_losses import Band
from discreet.display.renderers import IntervalTable
from discreet.errors import InputError, printable, require, shown
from discreet.model.network import Network
from discreet.model.query_grammar import NumberQuery, Probability, asked_cells, parse_query
from discreet.model.tables import Tables
from discreet.posterior.protocol import NetworkPosterior
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.conditioning import condition_on
from discreet.queries.credible import check_level, credible_interval
from discreet.queries.documents import Document, read_fields
from discreet.queries.query import ROW_LIMIT
from discreet.util.arrays import Floats
from discreet.util.number_checks import positive, probability
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed
from discreet.util.tabular import Block

VectorPart: TypeAlias = str | Callable[[Tables], Floats]
"""A query for a distribution, one probability or a number; or a function of cells to (draws,) between 0 and 1."""


@dataclass(frozen=True)
class VectorDecision(LossBound):
    """The vector with the least expected squared distance, and a bound on what it loses (`LossBound`).

    Args:
        response: posterior means, in the order of `rows`.
        rows: for every coordinate `{"name": text, "mean": x, "lower": x, "upper": x}`, with its posterior interval.
        expected: mean over the draws of the squared distance of the quantities from the response.
        lower: lower end of the squared distance's posterior interval.
        upper: upper end of it: with posterior probability `level` the quantities are no further than its root.

    Raises:
        Nothing.

    Example:
        >>> import discreet as dc
        >>> rows = ({"name": "P(x=a)", "mean": 0.25, "lower": 0.2, "upper": 0.3},)
        >>> bound = {"level": 0.95, "regret": 0.002, "failure": 0.05, "fresh": True, "effective": 1000}
        >>> print(dc.decisions.VectorDecision((0.25,), rows, 0.001, 0, 0.004, **bound))
        0.25: loses at most 0.002 but for a chance of 0.05, however the query was chosen
    """

    response: tuple[float, ...]
    rows: tuple[dict[str, Any], ...]
    expected: float
    lower: float
    upper: float

    def __str__(self) -> str:
        """Write `NUMBERS: loses at most REGRET but for a chance of FAILURE, CONDITION`."""
        return self.say_loss(", ".join(f"{value:.5g}" for value in self.response))

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each coordinate: "name", "mean" (the response), "lower", "upper" and "level"."""
        return [{**row, "level": self.level} for row in self.rows]

    def content(self) -> Iterator[str | Block]:
        """Yield the text of `str`, a line on the expected squared distance, an empty line, and a table of all rows."""
        between = f"between {self.lower:.3g} and {self.upper:.3g} ({100 * self.level:.6g} %)"
        yield from (str(self), f"squared distance {self.expected:.3g} expected, {between}", "")
        yield IntervalTable([{**row, "name": printable(row["name"])} for row in self.tidy()])

    def document(self, query: str) -> Document:
        """Convert the decision to JSON.

        Args:
            query: text of the quantities.

        Returns:
            "kind" ("vector"), "quantity", "loss" ("squared"), "response" (a list), "values" (the rows), "expected",
            "lower" and "upper"; then "level", "regret", "failure", "fresh" and "effective".
        """
        numbers = self.write("response", "rows", "expected", "lower", "upper")
        return {"kind": "vector", "quantity": query, "loss": "squared", "values": numbers.pop("rows"), **numbers}


def read_vector_decision(document: Mapping[str, Any]) -> VectorDecision:
    """Restore the decision on a vector that its `document` wrote, equal to the last bit.

    The texts "kind", "quantity" and "loss" are not read.

    Example:
        >>> rows = ({"name": "P(x=a)", "mean": 0.1 + 0.2, "lower": 0.2, "upper": 0.4},)
        >>> bound = {"level": 0.95, "regret": 0.02, "failure": 0.05, "fresh": False, "effective": 1000.0}
        >>> made = VectorDecision((0.1 + 0.2,), rows, 0.001, 0.0, 0.004, **bound)
        >>> read_vector_decision(made.document("P(x=a)")) == made
        True
    """
    fields = read_fields(document, "response", "expected", "lower", "upper", *BOUND)
    return VectorDecision(rows=tuple(document["values"]), **fields)


@delegates_to_server
def decide_vector(
    posterior: NetworkPosterior,
    quantities: VectorPart | Sequence[VectorPart],
    *,
    level: float = DEFAULT_LEVEL,
    queries: int = 1,
    failure: float = 0.05,
    fresh: bool = True,
    rng: Seed = None,
) -> VectorDecision:
    """Choose the vector with the least mean squared distance over draws that are made for this decision.

    Args:
        posterior: result of `noise_aware` or `plug_in`, or posterior draws.
        quantities: a query for a distribution, such as "P(lung | smoke=yes)" or "P(lung, smoke)"; or a list of such
            queries, of queries for one probability or number, as of `decide_number`, and of functions from cells of
            shape `(*parents, child, draws)` to numbers between 0 and 1, shape (draws,). A distance adds up the squares
            of all their numbers, each in its own unit.
        level: posterior probability of each interval.
        queries: total number of decisions, fixed before the first; the bound holds for all of them together.
        failure: probability with which the bound may fail.
        fresh: whether new draws are made where possible, as in `decide`.
        rng: source of the new draws, as in `decide`.

    Returns:
        The decision: the posterior means, their intervals, the expected squared distance with its interval, and the
        bound on what is lost because draws are finitely many. Draws are not weighted.

    Raises:
        InputError: no quantity, one that cannot be a part of a vector, or evidence that is impossible in a single draw;
            a number of queries that is not positive; a level or `failure` outside (0, 1); or a function's numbers of
            another shape or outside 0 to 1.
        DiscreetError: new draws could not be made, as in `noise_aware`.

    Guarantee:
        No budget is spent; only the posterior, or the release again, is read.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2 with the example of its introduction (a vector, squared L2
        distance); the bound in the place of Lemma 11 is proved in `discreet.deciding.decide_vector`, for independent
        draws; see `decide_number` for others.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("x", ("yes", "no")),), {"x": ()})
        >>> drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin, 1.0).draw(4000, rng=1))
        >>> chosen = dc.decisions.decide_vector(drawn, "P(x)")
        >>> [round(value, 1) for value in chosen.response], chosen.regret < 0.003
        ([0.5, 0.5], True)
    """
    parts = _read_quantities(posterior.network, quantities)
    positive(queries=queries)
    probability(failure=failure)
    check_level(level)
    drawn = fresh_draws(posterior, fresh, rng)
    values = np.vstack([part.values(drawn) for part in parts])
    response = values.mean(axis=1)
    loss = ((values - response[:, None]) ** 2).sum(axis=0)
    most = math.fsum(part.square for part in parts)
    ess = effective_draws(drawn, np.vstack([values, loss]))
    half = failure / queries / 2
    low, high = np.array([(part.low, part.high) for part in parts for _ in part.names]).T
    bands = [Band(np.sort(row), a, b, ess, half / len(low)) for row, a, b in zip(values, low, high, strict=True)]
    regret = min(most, most * vector_error(ess, 1, half), math.fsum(band.mean_error() ** 2 for band in bands))
    # `credible_interval` treats ends of highest density on the scale from 0 to 1.
    scaled = np.vstack([loss / most, (values.T - low).T / (high - low)[:, None]])
    start, width = np.append(0.0, low), np.append(most, high - low)
    lower, upper = (start + width * end for end in credible_interval(scaled, level))
    names = [name for part in parts for name in part.names]
    rows = tuple(
        {"name": name, "mean": mean, "lower": a, "upper": b}
        for name, mean, a, b in zip(names, response.tolist(), lower[1:].tolist(), upper[1:].tolist(), strict=True)
    )
    how: Any = {"level": level, "regret": regret, "failure": failure, "fresh": drawn is not posterior, "effective": ess}
    return VectorDecision(tuple(response.tolist()), rows, float(loss.mean()), float(lower[0]), float(upper[0]), **how)


def vector_diameter(network: Network, quantities: VectorPart | Sequence[VectorPart]) -> float:
    """Find the largest distance of two vectors that some quantities can be, by public bounds.

    Args:
        network: network of the queries' variables.
        quantities: as of `decide_vector`.

    Returns:
        D. Its square times `vector_error` bounds what a decision loses.

    Raises:
        InputError: no quantity, or one that cannot be a part of a vector.

    Guarantee:
        No budget is spent; only the public network is read.

    Example:
        >>> import discreet as dc
        >>> age, ill = dc.Variable("age", bounds=(0, 3), bins=(1, 2)), dc.Variable("ill", ("no", "yes"))
        >>> people = dc.Network.empty([age, ill])
        >>> round(dc.decisions.vector_diameter(people, ["P(ill)", "P(ill=yes)", "E(age)"]) ** 2, 9)
        12.0
    """
    return math.sqrt(math.fsum(part.square for part in _read_quantities(network, quantities)))


@dataclass(frozen=True, eq=False)
class _VectorQuery:
    """A query or function with the names, and the ends, of its numbers; positions of those of a distribution."""

    query: Probability | NumberQuery | Callable[[Tables], Floats]
    names: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0

    @property
    def square(self) -> float:
        """Square of the largest distance: 2 for chances of several states, which sum to 1 at most."""
        return 2.0 if len(self.names) > 1 else (self.high - self.low) ** 2

    def values(self, posterior: NetworkPosterior) -> Floats:
        """Compute the numbers in every draw, shape (numbers, draws)."""
        if not isinstance(self.query, Probability) or len(self.names) == 1:
            return find_quantity(posterior, self.query, self.low, self.high)[None]
        schema, targets = posterior.network.schema, [name for name, _ in self.query.targets]
        law = condition_on(posterior, self.query.evidence, predictive=False).for_targets(targets, most=ROW_LIMIT)
        chances = law.given.joint(targets)
        chosen = chances.reshape(-1, chances.shape[-1])[asked_cells(self.query, schema)]
        check_bounds(chosen, 0.0, 1.0, "a probability")
        return np.clip(chosen, 0.0, 1.0)


def _read_quantities(network: Network, quantities: VectorPart | Sequence[VectorPart]) -> list[_VectorQuery]:
    """Read the parts of a vector; refuse an empty list, and more than ROW_LIMIT numbers."""
    listed = [quantities] if isinstance(quantities, str) or callable(quantities) else list(quantities)
    if not listed:
        raise InputError("a vector needs at least one query, such as P(lung | smoke=yes)")
    parts, numbers = list[_VectorQuery](), 0
    for position, part in enumerate(listed, 1):
        parts.append(_read_quantity(network, part, position))
        numbers += len(parts[-1].names)
        require(numbers <= ROW_LIMIT, f"a vector has at most {ROW_LIMIT:,} numbers; ask for fewer at once")
    return parts


def _read_quantity(network: Network, part: VectorPart, number: int) -> _VectorQuery:
    """Read one part; a query with a target of no state stands for all its states."""
    if not isinstance(part, str):
        return _VectorQuery(part, (f"function {number}",))
    query, schema = parse_query(part, network.schema), network.schema
    if not isinstance(query, Probability) or all(state is not None for _, state in query.targets):
        query = one_number(network, part)
        low, high = public_bounds(network, query)
        if not -LARGEST_UTILITY <= low < high <= LARGEST_UTILITY:
            raise InputError(
                f"the numbers of a vector lie within {LARGEST_UTILITY:g} of 0; state them in a larger unit"
            )
        return _VectorQuery(query, (str(query),), low, high)
    sizes = [schema[name].size for name, _ in query.targets]
    require(math.prod(sizes) <= ROW_LIMIT, f"{shown(part)} has more than {ROW_LIMIT:,} states; ask for fewer variables")
    codes = np.transpose(np.unravel_index(asked_cells(query, schema), sizes)).tolist()
    names = [
        tuple((name, schema[name].states[code]) for (name, _), code in zip(query.targets, row, strict=True))
        for row in codes
    ]
    return _VectorQuery(query, tuple(str(Probability(states, query.evidence)) for states in names))
