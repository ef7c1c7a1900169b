"""Questions and answers: the text of a query, what it means, and an interval for every number.

    P(A, B | C=c, D=d)      joint probabilities of A and B; P(A=a, B | C=c) keeps the rows with A=a
    MAP(A, B | C=c)         the most probable joint state of A and B
    MPE(| C=c)              the most probable joint state of all variables that are not observed

Names that hold a comma, an equal sign, a bar or a bracket are written in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.model.schema import Schema
from discreet.posterior.draws import Posterior
from discreet.theory import inference

__all__ = ["Answer", "Explanation", "Probability", "Query", "answer", "credible_interval", "marginals", "parse_query"]

Floats = npt.NDArray[np.float64]
Row = Mapping[str, object]

ROW_LIMIT = 4096
"""Most rows of one answer."""
TOKEN = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<mark>[,|=()])|(?P<word>[^\s,|="()][^,|="()]*))')
STATE = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<word>[^,|")]+))')


@dataclass(frozen=True)
class Probability:
    """`P(targets | evidence)`.

    Args:
        targets: variables with the state whose probability is asked, or None for all its states.
        evidence: observed variables with their states.
    """

    targets: tuple[tuple[str, str | None], ...]
    evidence: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """What the answer is called."""
        return "conditional" if self.evidence else "marginal"

    def __str__(self) -> str:
        """As it is written."""
        return _written("P", self.targets, self.evidence)


@dataclass(frozen=True)
class Explanation:
    """`MAP(targets | evidence)`, or `MPE(| evidence)` where no target is named.

    Args:
        targets: variables to explain; none for all that are not observed.
        evidence: observed variables with their states.
    """

    targets: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """What the answer is called."""
        return "map" if self.targets else "mpe"

    def __str__(self) -> str:
        """As it is written."""
        return _written(self.kind.upper(), tuple((name, None) for name in self.targets), self.evidence)


Query = Probability | Explanation


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


def parse_query(text: str, schema: Schema) -> Query:
    """Read a query.

    Args:
        text: as in the module's docstring.
        schema: whose names it uses.

    Returns:
        The query.

    Raises:
        InputError: it is not a query, or names an unknown variable or state, or a variable twice.

    Example:
        >>> from discreet.model.schema import Variable
        >>> schema = Schema((Variable("smoke", ("yes", "no")), Variable("O2", ("<5", ">=5"))))
        >>> str(parse_query("P( smoke |O2=>=5)", schema))
        'P(smoke | O2=>=5)'
    """
    match = re.fullmatch(r"\s*(P|MAP|MPE)\s*\((.*)\)\s*", text, re.DOTALL)
    if match is None:
        _refuse(text, "write P(A, B | C=c), MAP(A, B | C=c) or MPE(| C=c)")
    targets, evidence = _items(match[2], text)
    observed = []
    for name, state in evidence:
        if state is None:
            _refuse(text, f"the evidence {name!r} needs a state, as in {name}=STATE")
        observed.append((name, state))
    query: Query
    if match[1] == "P":
        if not targets:
            _refuse(text, "P needs at least one variable before the bar")
        query = Probability(tuple(targets), tuple(observed))
    else:
        if any(state is not None for _, state in targets):
            _refuse(text, f"{match[1]} finds the states itself; name variables only")
        if (match[1] == "MPE") == bool(targets):
            _refuse(text, "write MAP(A, B | C=c) to explain some variables, MPE(| C=c) to explain all")
        query = Explanation(tuple(name for name, _ in targets), tuple(observed))
    _check_names(query, schema)
    return query


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
    _check_names(asked, schema)
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


def _check_names(asked: Query, schema: Schema) -> None:
    """Refuse unknown names and states, and a variable that is named twice."""
    targets = asked.targets if isinstance(asked, Probability) else tuple((name, None) for name in asked.targets)
    named = [*targets, *asked.evidence]
    names = [name for name, _ in named]
    for name, state in named:
        if name not in schema:
            near = get_close_matches(name, schema.names, 1)
            _refuse(str(asked), f"no variable {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        if names.count(name) > 1:
            _refuse(str(asked), f"variable {name!r} is named twice")
        if state is not None and state not in schema[name].states:
            _refuse(str(asked), f"{name!r} has no state {state!r}; its states: {', '.join(schema[name].states[:12])}")
    if isinstance(asked, Explanation) and len(asked.evidence) == len(schema):
        _refuse(str(asked), "every variable is observed; nothing is left to explain")


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


# ------------------------------------------------------------------------------------------------------------ text


def _items(body: str, text: str) -> tuple[list[tuple[str, str | None]], list[tuple[str, str | None]]]:
    """Names, with states where given, before and after the bar."""
    sides: list[list[tuple[str, str | None]]] = [[]]
    position, expected = 0, True
    while body[position:].strip():
        match = TOKEN.match(body, position)
        if match is None:
            _refuse(text, f"cannot read {body[position:].strip()[:20]!r}")
        position = match.end()
        if match["mark"] == "|" and len(sides) == 1 and not (expected and sides[0]):
            sides.append([])
            expected = True
        elif match["mark"] == "," and not expected:
            expected = True
        elif match["mark"] is not None or not expected:
            _refuse(text, f"did not expect {match.group().strip()!r}")
        else:
            name = match["quoted"] if match["quoted"] is not None else match["word"].strip()
            state, position = _state(body, position, text)
            sides[-1].append((name, state))
            expected = False
    if expected and any(sides) and not (len(sides) == 2 and not sides[-1]):
        _refuse(text, "a name is missing after the last comma")
    return sides[0], sides[1] if len(sides) == 2 else []


def _state(body: str, position: int, text: str) -> tuple[str | None, int]:
    """The state after an equal sign, if there is one; states may hold equal signs and brackets."""
    equal = re.compile(r"\s*=").match(body, position)
    if equal is None:
        return None, position
    match = STATE.match(body, equal.end())
    if match is None:
        _refuse(text, "a state is missing after '='")
    return (match["quoted"] if match["quoted"] is not None else match["word"].strip()), match.end()


def _written(head: str, targets: Sequence[tuple[str, str | None]], evidence: Sequence[tuple[str, str]]) -> str:
    """Text that `parse_query` reads back."""

    def item(name: str, state: str | None) -> str:
        left = f'"{name}"' if re.search(r'[,|="()]|^\s|\s$', name) else name
        if state is None:
            return left
        return f'{left}="{state}"' if re.search(r'[,|)"]|^\s|\s$', state) else f"{left}={state}"

    before = ", ".join(item(name, state) for name, state in targets)
    after = ", ".join(item(name, state) for name, state in evidence)
    return f"{head}({before} | {after})" if before and after else f"{head}({f'| {after}' if after else before})"


def _refuse(text: str, reason: str) -> NoReturn:
    """Refuse a query."""
    raise InputError(f"query {text.strip()!r}: {reason}")
