"""How much work a question is, known before it is begun: cells of inference times draws.

Time is proportional to it, and memory is bounded by the chunks that inference works in. What is added to the cells of a
question's junction tree in the joint law of the posterior: sorting of each row's draws for its interval; and, past
exact inference, records that are made up under every draw. That the law is fitted by the first question is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from discreet.inference.exact_laws import (
    EVALUATED_EXPLANATIONS,
    affordable,
    evidence_cost,
    explanation_cost,
    joint_cost,
    marginals_cost,
)
from discreet.inference.weighted_records import MOST_DRAWN_STATES
from discreet.model.network import Network
from discreet.model.query_grammar import MostProbable, Probability, Query
from discreet.model.schema import Scope
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.allowed import BOUNDED_DRAWS, MOST_BOUNDED_STATES
from discreet.queries.column_moments import MOST_JOINT_STATES
from discreet.queries.query import ROW_LIMIT
from discreet.queries.regress import MADE_UP_POINTS

ROW_CELLS = 80
"""Of one row of an answer, for each draw: its interval and the part of the noise."""
SAMPLED_CELLS_SHARE = 4
"""Cells of inference that a state of a made-up record takes the time of."""
LINEAR_PROGRAM_CELLS = 100_000
"""Cells of inference that a linear program takes the time of, for each of its states."""
EXPLANATION_CELLS, CHECK_CELLS = 20_000, 5000
"""Of a node whose rows are drawn for an explanation, for each draw: it has a posterior of its own, and other priors.
And of each node of the network, which is checked for each query."""
REPORT_CELLS = 10_000
"""Of a report, for each node and draw."""
PREDICTION_CELLS = 40
"""Of a record of a prediction, beside those of its question."""
RECORD_CELLS = 20
"""Of one value of a synthetic record."""
ENOUGH_WORK = 1e15
"""More than any server does: what is beyond is not planned."""


def marginals_work(posterior: PosteriorDraws, evidence: Iterable[str]) -> float:
    """Cells times draws of all marginals given evidence."""
    network, seen = _law_network(posterior), frozenset(evidence)
    if not affordable(network, None, seen):
        return float(SAMPLED_CELLS_SHARE * MOST_DRAWN_STATES)
    rows = sum(variable.size for variable in network.variables if variable.name not in seen)
    cells = marginals_cost(network, seen) + ROW_CELLS * rows
    return float(cells * _draws(posterior))


def quick_bound(posterior: PosteriorDraws, query: Query) -> float:
    """A number that the work of a query hardly exceeds, known in no time; infinite where it has to be planned."""
    network = _law_network(posterior)
    if not isinstance(query, Probability) or not affordable(network, None, ()):
        return float("inf")
    names = [name for name, _ in (*query.targets, *query.evidence)]
    joint = network.cells(names)
    return float((2 * marginals_cost(network) + ROW_CELLS * joint) * _draws(posterior))


def query_work(posterior: PosteriorDraws, query: Query, *, bounds: bool = False) -> float:
    """Cells times draws of one query.

    Args:
        posterior: that is asked.
        query: that fits its network.
        bounds: whether bounds that assume nothing are asked of it.

    Returns:
        The number; most of it is known only within a factor of two or three.
    """
    network, seen, draws = _law_network(posterior), dict(query.evidence), _draws(posterior)
    if isinstance(query, MostProbable):
        targets = query.targets or tuple(name for name in posterior.network.nodes if name not in seen)
        return float(_explanation_cells(posterior, targets, seen) * draws)
    asked = query if isinstance(query, Probability) else query.bins
    free = tuple(name for name, state in asked.targets if state is None)
    fixed = tuple(name for name, state in asked.targets if state is not None)
    names = (*free, *fixed, *seen)
    rows = network.cells(free)
    if rows > ROW_LIMIT:
        return 0.0  # it is refused at once, and planning it would take longer
    if bounds:
        states = min(network.cells(names), MOST_BOUNDED_STATES)
        return float(BOUNDED_DRAWS * rows * LINEAR_PROGRAM_CELLS * states)
    cells = 2 * evidence_cost(network, (*fixed, *seen)) + ROW_CELLS * rows
    if free:
        if not affordable(network, free, (*fixed, *seen)):
            return float(SAMPLED_CELLS_SHARE * MOST_DRAWN_STATES)
        cells += joint_cost(network, free, (*fixed, *seen))
    return float(cells * draws)


def prediction_work(posterior: PosteriorDraws, target: str, patterns: Mapping[Scope, int]) -> float:
    """Cells times draws of predictions.

    Args:
        posterior: that is asked.
        target: to be predicted.
        patterns: how many records show which variables, the target not among them.
    """
    network = _law_network(posterior)
    exact = affordable(network, None, ())
    each = marginals_cost(network) if exact else 0
    total = 0.0
    for seen, records in patterns.items():
        if not exact and not affordable(network, (target,), seen):
            each = SAMPLED_CELLS_SHARE * MOST_DRAWN_STATES // _draws(posterior)
        elif not exact:
            each = joint_cost(network, (target,), seen)
        total += each + records * (PREDICTION_CELLS + each / len(network.nodes))
        if total > ENOUGH_WORK:
            break
    return float(total * _draws(posterior))


def regression_work(posterior: PosteriorDraws, target: str, on: Sequence[str], *, logistic: bool) -> float:
    """Cells times draws of a regression: laws of all pairs, and of a logistic one Newton's steps over its points."""
    network, draws = posterior.network, _draws(posterior)
    names = [name for name in dict.fromkeys((target, *on)) if name in network.schema]
    pairs, law = len(names) * (len(names) - 1) // 2, network.cells(names)
    cells = 2 * pairs * (marginals_work(posterior, ()) / draws / max(1, len(network.nodes)))
    if logistic:
        columns = 1 + sum(1 if network.schema[n].numeric else network.schema[n].size - 1 for n in names if n != target)
        cells += (law // 2 if law <= MOST_JOINT_STATES else MADE_UP_POINTS) * columns**2
    return float(cells * draws)


def explanation_work(network: Network, queries: Sequence[Query], draws: int) -> float:
    """Cells times draws of the posteriors that an explanation draws for queries."""
    cells = CHECK_CELLS * (1 + len(queries)) * len(network.nodes)
    for query in queries:
        asked = query if isinstance(query, Probability) else None
        names = [name for name, _ in (*asked.targets, *asked.evidence)] if asked is not None else []
        cells += EXPLANATION_CELLS * len(network.ancestors(names))
    return float(cells * draws)


def report_work(posterior: PosteriorDraws) -> float:
    """Cells times draws of a report: all marginals, what is least certain of them, and the check of the network."""
    return float(REPORT_CELLS * len(posterior.network.nodes) * _draws(posterior))


def record_work(network: Network, records: int) -> float:
    """Cells of inference that synthetic records take the time of."""
    return float(RECORD_CELLS * records * len(network.nodes))


def _explanation_cells(posterior: PosteriorDraws, targets: Scope, seen: Mapping[str, str]) -> int:
    """Cells of the most probable states: by their joint law where it is small, or by a search."""
    network = _law_network(posterior)
    states = network.cells(targets)
    if states <= ROW_LIMIT:
        return joint_cost(network, targets, seen) + ROW_CELLS * min(states, ROW_LIMIT)
    return 2 * explanation_cost(posterior.network, targets, seen) + ROW_CELLS * EVALUATED_EXPLANATIONS


def _law_network(posterior: PosteriorDraws) -> Network:
    """The network of the posterior's joint law, known without fitting it."""
    drawn = posterior if posterior.saturated is None else posterior.saturated
    return drawn.network if drawn.parts is None else drawn.parts.plan.wide


def _draws(posterior: PosteriorDraws) -> int:
    """Draws that are worked on: a third of twins, if there are some, beside all others."""
    draws = posterior.cells.draws or 1
    return draws if posterior.twins is None else draws + draws // 3
