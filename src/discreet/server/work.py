"""Predict the work of a question before it starts: cells of inference times draws.

Time is proportional to it; the chunks of inference bound memory. To the cells of a question's junction tree in the
posterior's joint law it adds sorting each row's draws for its interval and, where exact inference is out of reach,
records simulated under each draw. Fitting the law, which the first question does, is not counted.
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
from discreet.model.query_grammar import ComposedQuery, MostProbable, NumberQuery, Probability, Query
from discreet.model.schema import Scope
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.column_moments import MOST_JOINT_STATES
from discreet.queries.partial_identification import BOUNDED_DRAWS, MOST_BOUNDED_STATES
from discreet.queries.query import ROW_LIMIT
from discreet.queries.regress import MADE_UP_POINTS

ROW_CELLS = 80
"""Cells for one row of an answer and one draw: its interval and its noise share."""
SAMPLED_CELLS_SHARE = 4
"""Cells for one state of a simulated record."""
LINEAR_PROGRAM_CELLS = 100_000
"""Cells for each state of a linear program."""
EXPLANATION_CELLS, CHECK_CELLS = 20_000, 5000
"""Cells for one draw of a node's rows in an explanation, which draws them under several priors; and for checking a node
of the network, for each query."""
REPORT_CELLS = 10_000
"""Cells of a report for one node and draw."""
PREDICTION_CELLS = 40
"""Cells for a record of a prediction, beside those of its question."""
RECORD_CELLS = 20
"""Cells for one value of a synthetic record."""
ENOUGH_WORK = 1e15
"""Work above any server's limit: predictions stop there."""


def marginals_work(posterior: PosteriorDraws, evidence: Iterable[str]) -> float:
    """Predict cells times draws of all marginals given evidence."""
    network, seen = _law_network(posterior), frozenset(evidence)
    if not affordable(network, None, seen):
        return float(SAMPLED_CELLS_SHARE * MOST_DRAWN_STATES)
    rows = sum(variable.size for variable in network.variables if variable.name not in seen)
    cells = marginals_cost(network, seen) + ROW_CELLS * rows
    return float(cells * _draws(posterior))


def quick_bound(posterior: PosteriorDraws, query: Query) -> float:
    """Bound the work of a query quickly; infinite if it has to be planned."""
    network = _law_network(posterior)
    if not isinstance(query, Probability) or not affordable(network, None, ()):
        return float("inf")
    names = [name for name, _ in (*query.targets, *query.evidence)]
    joint = network.cells(names)
    return float((2 * marginals_cost(network) + ROW_CELLS * joint) * _draws(posterior))


def query_work(posterior: PosteriorDraws, query: Query, *, bounds: bool = False) -> float:
    """Predict cells times draws of one query.

    Args:
        posterior: to query.
        query: that fits its network.
        bounds: True for bounds without assumptions.

    Returns:
        The number, up to a factor of two or three.
    """
    if isinstance(query, ComposedQuery):
        return sum(query_work(posterior, atom, bounds=bounds) for atom in query.atoms(posterior.network))
    network, draws = _law_network(posterior), _draws(posterior)
    seen = {name: state for name, state in query.evidence if isinstance(state, str)}
    if isinstance(query, MostProbable):
        targets = query.targets or tuple(name for name in posterior.network.nodes if name not in seen)
        return float(_explanation_cells(posterior, targets, seen) * draws)
    probability = query if isinstance(query, Probability) else query.bins
    # The bins of numbers that are evidence are summed over.
    free = tuple(name for name, state in probability.targets if state is None)
    free += tuple(name for name, _ in query.evidence if name not in seen)
    fixed = tuple(name for name, state in probability.targets if state is not None)
    names = (*free, *fixed, *seen)
    rows = network.cells(free)
    if rows > ROW_LIMIT:
        return 0.0  # such a query is refused at once; planning it would take longer
    if bounds:
        states = min(network.cells(names), MOST_BOUNDED_STATES)
        return float(BOUNDED_DRAWS * rows * LINEAR_PROGRAM_CELLS * states)
    cells = 2 * evidence_cost(network, (*fixed, *seen)) + ROW_CELLS * rows
    if free:
        if not affordable(network, free, (*fixed, *seen)):
            return float(SAMPLED_CELLS_SHARE * MOST_DRAWN_STATES)
        cells += joint_cost(network, free, (*fixed, *seen))
    if isinstance(query, NumberQuery) and posterior.sums is not None:  # rows of a family are read with their numbers
        parts = posterior.sums.payload.rows_by_family
        rows = max((network.cells((part.number, *part.given)) for part in parts if part.number in free), default=0)
        cells += ROW_CELLS * rows
    return float(cells * draws)


def prediction_work(posterior: PosteriorDraws, target: str, patterns: Mapping[Scope, int]) -> float:
    """Predict cells times draws of predictions.

    Args:
        posterior: to query.
        target: to be predicted.
        patterns: number of records for each set of observed variables, without the target.
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
    """Predict cells times draws of a regression: laws of all pairs, and Newton steps of a logistic one."""
    network, draws = posterior.network, _draws(posterior)
    names = [name for name in dict.fromkeys((target, *on)) if name in network.schema]
    pairs, law = len(names) * (len(names) - 1) // 2, network.cells(names)
    cells = 2 * pairs * (marginals_work(posterior, ()) / draws / max(1, len(network.nodes)))
    if logistic:
        columns = 1 + sum(1 if network.schema[n].numeric else network.schema[n].size - 1 for n in names if n != target)
        cells += (law // 2 if law <= MOST_JOINT_STATES else MADE_UP_POINTS) * columns**2
    return float(cells * draws)


def explanation_work(network: Network, queries: Sequence[Query], draws: int) -> float:
    """Predict cells times draws of the posteriors that an explanation draws for queries."""
    cells = CHECK_CELLS * (1 + len(queries)) * len(network.nodes)
    for query in queries:
        probability = query if isinstance(query, Probability) else None
        names = [name for name, _ in (*probability.targets, *probability.evidence)] if probability is not None else []
        cells += EXPLANATION_CELLS * len(network.ancestors(names))
    return float(cells * draws)


def report_work(posterior: PosteriorDraws) -> float:
    """Predict cells times draws of a report: all marginals, the least certain ones, and the check of the network."""
    return float(REPORT_CELLS * len(posterior.network.nodes) * _draws(posterior))


def record_work(network: Network, records: int) -> float:
    """Predict cells of synthetic records."""
    return float(RECORD_CELLS * records * len(network.nodes))


def _explanation_cells(posterior: PosteriorDraws, targets: Scope, seen: Mapping[str, str]) -> int:
    """Predict cells of the most probable states: by their joint law if it is small, else by a search."""
    network = _law_network(posterior)
    states = network.cells(targets)
    if states <= ROW_LIMIT:
        return joint_cost(network, targets, seen) + ROW_CELLS * min(states, ROW_LIMIT)
    return 2 * explanation_cost(posterior.network, targets, seen) + ROW_CELLS * EVALUATED_EXPLANATIONS


def _law_network(posterior: PosteriorDraws) -> Network:
    """Find the network of the posterior's joint law, without fitting it."""
    draws = posterior if posterior.saturated is None else posterior.saturated
    return draws.network if draws.parts is None else draws.parts.plan.wide


def _draws(posterior: PosteriorDraws) -> int:
    """Count the draws to compute: the draws, and a third of them again if there are replicate draws."""
    draws = posterior.probabilities.draws or 1
    return draws if posterior.replicates is None else draws + draws // 3
