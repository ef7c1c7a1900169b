"""Questions and answers: what a posterior says to a query, and an interval for every number.

The text of a query, and what may be asked, are in `model/query.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.query import Explanation, Probability, Query, check_names, parse_query
from discreet.posterior.draws import Posterior
from discreet.theory import inference

__all__ = ["Answer", "Explanation", "Probability", "Query", "answer", "credible_interval", "marginals", "parse_query"]

Floats = npt.NDArray[np.float64]
Row = Mapping[str, object]

ROW_LIMIT = 4096
"""Most rows of one answer."""


@dataclass(frozen=True)
class Answer:
    """What a posterior says to a query.

    Args:
        query: as text.
        kind: "marginal", "conditional", "map" or "mpe".
        level: posterior probability of each interval.
        rows: `{"state": {variable: state}, "mean": x, "lower": x, "upper": x}` for every joint state asked for; for
            "map" and "mpe" one: the most probable on average over the posterior, where there are at most 4,096 joint
            states, else the most probable on average of the (at most 16) that most draws favour.
        unit: of the numbers.
    """

    query: str
    kind: str
    level: float
    rows: tuple[Row, ...]
    unit: str = "probability"


def answer(posterior: Posterior, query: str | Query, *, level: float) -> Answer:
    """Ask a posterior.

    Args:
        posterior: made from a release.
        query: text, or a parsed query over the posterior's variables.
        level: posterior probability of each interval, between 0 and 1.

    Returns:
        Means and intervals.

    Raises:
        InputError: not a query, evidence that is impossible, a level outside (0, 1), or a query that needs more memory
            than the budget of `inference.py`.
    """
    _check_level(level)
    schema = posterior.network.schema
    asked = parse_query(query, schema) if isinstance(query, str) else query
    check_names(asked, schema)
    evidence = {name: schema[name].code(state) for name, state in asked.evidence}
    match asked:
        case Probability():
            rows = _probability_rows(posterior, asked, evidence, level)
        case Explanation():
            targets = asked.targets or tuple(name for name in schema.names if name not in evidence)
            codes, draws = _best(posterior, targets, evidence)
            _check_possible(draws, asked)
            states = {name: schema[name].states[code] for name, code in codes.items()}
            rows = _rows([states], draws[None], level)
    return Answer(str(asked), asked.kind, level, rows)


def marginals(posterior: Posterior, evidence: Mapping[str, str], *, level: float) -> tuple[Answer, ...]:
    """`P(X | evidence)` for every variable that is not observed, in one pass.

    Args:
        posterior: made from a release.
        evidence: observed variables with their states.
        level: posterior probability of each interval.

    Returns:
        One answer for each variable, in the network's order.

    Raises:
        InputError: unknown or impossible evidence, a level outside (0, 1), or a network too large for exact inference.
    """
    _check_level(level)
    schema = posterior.network.schema
    observed = {name: schema[name].code(state) for name, state in evidence.items()}
    answers = []
    for name, draws in inference.marginals(posterior.cells, observed).items():
        asked = Probability(((name, None),), tuple(evidence.items()))
        _check_possible(draws, asked)
        states = [{name: state} for state in schema[name].states]
        answers.append(Answer(str(asked), asked.kind, level, _rows(states, draws, level)))
    return tuple(answers)


def credible_interval(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Interval of posterior probability `level` for probabilities.

    Equal-tailed, but where the posterior is densest at 0 or 1 (an entry that may be exactly that) the shortest
    interval, which then ends at 0 or 1: an equal-tailed interval can never hold either.

    Args:
        draws: shape `(..., draws)`, between 0 and 1.
        level: between 0 and 1.

    Returns:
        (lower, upper), shape `(...)`.

    Raises:
        InputError: a level outside (0, 1).
    """
    _check_level(level)
    ordered = np.sort(draws, axis=-1)
    size = ordered.shape[-1]
    lower, upper = np.quantile(ordered, [(1 - level) / 2, (1 + level) / 2], axis=-1)
    held = min(size, int(np.ceil(level * size)))
    widths = ordered[..., held - 1 :] - ordered[..., : size - held + 1]
    shortest = widths.min(axis=-1)
    first, last = ordered[..., 0], ordered[..., -1]
    # "At 0" means within a few typical gaps between draws: nothing in the draws tells that end from 0.
    gap = 4 * shortest / held
    at_zero = (widths[..., 0] == shortest) & (first <= gap)
    at_one = (widths[..., -1] == shortest) & (1 - last <= gap) & ~at_zero
    lower = np.where(at_zero, 0.0, np.where(at_one, ordered[..., size - held], lower))
    upper = np.where(at_one, 1.0, np.where(at_zero, ordered[..., held - 1], upper))
    return lower, upper


# ------------------------------------------------------------------------------------------------------------ rows


def _best(posterior: Posterior, targets: tuple[str, ...], evidence: Mapping[str, int]) -> tuple[dict[str, int], Floats]:
    """The most probable joint state, and its probability under every draw."""
    if posterior.network.cells(targets) <= ROW_LIMIT:
        with suppress(InputError):
            table = inference.joint(posterior.cells, targets, evidence)
            best = np.unravel_index(int(table.mean(axis=-1).argmax()), table.shape[:-1])
            return dict(zip(targets, map(int, best), strict=True)), table[best]
    return inference.explanations(posterior.cells, targets, evidence)[0]


def _probability_rows(
    posterior: Posterior, asked: Probability, evidence: Mapping[str, int], level: float
) -> tuple[Row, ...]:
    """P(free, fixed | evidence) = P(free | fixed, evidence) P(fixed | evidence), draw by draw."""
    schema, cells = posterior.network.schema, posterior.cells
    fixed = {name: schema[name].code(state) for name, state in asked.targets if state is not None}
    free = [name for name, state in asked.targets if state is None]
    if posterior.network.cells(free) > ROW_LIMIT:
        raise InputError(
            f"{asked} has {posterior.network.cells(free):,} rows, more than {ROW_LIMIT:,}; ask for fewer variables, "
            "or for MAP"
        )
    draws = np.ones(cells.draws or 1)
    if fixed:
        log_evidence = inference.log_probability(cells, evidence)
        with np.errstate(invalid="ignore"):
            draws = np.exp(inference.log_probability(cells, {**evidence, **fixed}) - log_evidence)
    _check_possible(draws, asked)
    if free:
        table = inference.joint(cells, free, {**evidence, **fixed})
        draws = (
            np.nan_to_num(table.reshape(-1, table.shape[-1])) * draws if fixed else table.reshape(-1, table.shape[-1])
        )
        _check_possible(draws, asked)
    listed = [[state] if state is not None else schema[name].states for name, state in asked.targets]
    names = [name for name, _ in asked.targets]
    states = [dict(zip(names, row, strict=True)) for row in product(*listed)]
    return _rows(states, np.atleast_2d(draws), level)


def _rows(states: Sequence[Mapping[str, str]], draws: Floats, level: float) -> tuple[Row, ...]:
    """One row for each joint state; `draws` has shape (states, draws)."""
    draws = np.clip(draws, 0.0, 1.0)  # products of probabilities may exceed 1 by a rounding
    lower, upper = credible_interval(draws, level)
    mean = draws.mean(axis=-1)
    return tuple(
        {"state": dict(state), "mean": float(mean[i]), "lower": float(lower[i]), "upper": float(upper[i])}
        for i, state in enumerate(states)
    )


def _check_possible(draws: Floats, asked: Query) -> None:
    """Refuse evidence that some draw makes impossible."""
    impossible = int(np.isnan(np.atleast_2d(draws)[0]).sum())
    if impossible:
        raise InputError(
            f"{asked}: the evidence is impossible under {impossible} of {np.atleast_2d(draws).shape[-1]} draws; "
            "check its states"
        )


def _check_level(level: float) -> None:
    """Refuse what is no level."""
    if not 0 < level < 1:
        raise InputError(f"a level lies between 0 and 1, such as 0.95; got {level}")
