"""Exact inference over the draws of a posterior: prune, slice evidence, plan, refuse what is too large, then compute.

This file owns what is computed for a question; `junction_tree.py` plans it and `kernels.py` does the arithmetic. Every
function returns one number per draw and cell, so that an interval can be read off. Draws go through in chunks whose
cliques fit into a block of memory, and plans are kept: asking the same variables given the same ones, whatever their
states, plans once.

In float32 work takes half the memory and time, and answers are within about 1e-6 of those in float64. Draws under
which a precision cannot hold the evidence (its probability is below 1e-30, or 1e-217) are done in the next one all the
same: float64 after float32, then logarithms (`log_kernels.py`), which hold everything. Nothing underflows, and only
evidence of probability 0 is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference import log_kernels
from discreet.inference.junction_tree import JunctionTree
from discreet.inference.kernels import calibrate, collect, log_of_states, most_probable
from discreet.inference.query_plans import Plan, plan_explanation, plan_query, plan_sum
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats, Ints

Precision = TypeVar("Precision", np.float32, np.float64)

CELL_BUDGET = 10_000_000
"""Most cells of all cliques together, for one draw: 80 MB, and tens of milliseconds."""
CHUNK_BYTES = 8 * 2**20
"""Memory for the cliques of one chunk of draws, so that they stay in the cache."""
CHUNK_DRAWS = 32
"""Draws that go through together even if they need more: numpy is slow on short rows."""
MOST_CLIQUE_BYTES = 2**28
"""Memory for the cliques of a chunk, unless one draw needs more."""
EVALUATED_EXPLANATIONS = 16
"""Explanations whose probability is evaluated: those that are most probable under most draws."""
LEAST_LOG: Mapping[type[np.floating[Any]], float] = {np.float32: -69.0, np.float64: -500.0}
"""Log probability of evidence below which a precision is left. An entry that float32 cannot hold is less than 1e-38 of
a normalised message; evidence of probability p raises it at most 1/p times, to 1e-8 of the answer. In float64 the same
argument leaves a factor of 1e91 for what products of up to four messages have lost before they are normalised."""


@dataclass(frozen=True, eq=False)
class Explained:
    """A joint state that explains the evidence.

    Args:
        states: code of the state of each target.
        probability: of these states given the evidence, under every draw, shape `(draws,)`; NaN in draws under which
            the evidence is impossible.
        best: share of the draws under which no other states are more probable, between 0 and 1: the posterior
            probability that this is the most probable explanation. Of equally probable ones only the first counts, and
            draws under which the evidence is impossible do not count at all.
    """

    states: dict[str, int]
    probability: Array
    best: float


@overload
def joint(cells: Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> Floats: ...
@overload
def joint(
    cells: Tables, targets: Sequence[str], evidence: Mapping[str, int], *, dtype: type[Precision]
) -> npt.NDArray[Precision]: ...
def joint(
    cells: Tables, targets: Sequence[str], evidence: Mapping[str, int], *, dtype: type[np.floating[Any]] = np.float64
) -> Array:
    """`P(targets | evidence)` under every draw.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.
        dtype: precision of the work and of the answer.

    Returns:
        Shape `(*sizes of the targets, draws)`; NaN in draws under which the evidence is impossible.

    Raises:
        InputError: the query needs more cells than the budget; the message has the number. A precision that is neither
            float32 nor float64.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> joint(theta, ["a"], {"b": 0})[:, 0].tolist()
        [0.4, 0.6]
    """
    wanted = tuple(targets)
    plan = plan_query(cells.network, wanted, frozenset(evidence))
    _check_budget(plan.cells, f"P({', '.join(wanted)})", dtype)
    draws = cells.draws or 1
    result: Array = np.empty((*(plan.tree.sizes[name] for name in wanted), draws), dtype)
    log_total = np.empty(draws)
    for part, size, factors, block in _split_draws(plan, cells, evidence, dtype):
        result[..., part], log_total[part] = collect(plan.tree, factors, block, wanted, size)
    for weak, some, logs in _redo_weak_draws(plan, cells, evidence, log_total, dtype):
        if logs is None:
            result[..., weak] = joint(some, targets, evidence)
        else:
            result[..., weak], _ = log_kernels.collect(plan.tree, logs, wanted, weak.size)
    if _has_pruned_zeros(plan, cells):
        result[..., np.isneginf(log_probability(cells, evidence))] = np.nan
    return result


def joint_cost(network: Network, targets: Sequence[str], evidence: Mapping[str, int]) -> int:
    """Cells that `joint` works on for each draw; time and memory are proportional to it.

    Args:
        network: of the tables that would be asked.
        targets: variables that are no evidence, at least one.
        evidence: code of the state of each observed variable.

    Returns:
        Cells of all cliques together, after pruning.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> joint_cost(network, ["a"], {}), joint_cost(network, ["a", "b"], {})
        (2, 4)
    """
    return plan_query(network, tuple(targets), frozenset(evidence)).tree.cells


def affordable(network: Network, targets: Sequence[str] | None, evidence: Iterable[str]) -> bool:
    """Whether the budget allows `joint` of some targets, `log_probability` (no targets) or `marginals` (None).

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> affordable(network, ["a"], []), affordable(network, None, [])
        (True, True)
    """
    seen = frozenset(evidence)
    if targets is None:
        return plan_sum(network, seen, every=True).cells <= CELL_BUDGET
    return (
        plan_query(network, tuple(targets), seen) if targets else plan_sum(network, seen, every=False)
    ).cells <= CELL_BUDGET


@overload
def marginals(cells: Tables, evidence: Mapping[str, int]) -> dict[str, Floats]: ...
@overload
def marginals(
    cells: Tables, evidence: Mapping[str, int], *, dtype: type[Precision]
) -> dict[str, npt.NDArray[Precision]]: ...
def marginals(
    cells: Tables, evidence: Mapping[str, int], *, dtype: type[np.floating[Any]] = np.float64
) -> dict[str, Array]:
    """`P(X | evidence)` for every variable X that is no evidence, under every draw, in one pass over the draws.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.
        dtype: precision of the work and of the answer.

    Returns:
        By variable, in the network's order: shape `(size, draws)`; NaN in draws under which the evidence is impossible.

    Raises:
        InputError: the network needs more cells than the budget. A precision that is neither float32 nor float64.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> {name: law[:, 0].tolist() for name, law in marginals(theta, {}).items()}
        {'a': [0.25, 0.75], 'b': [0.625, 0.375]}
    """
    plan = plan_sum(cells.network, frozenset(evidence), every=True)
    _check_budget(plan.cells, "all marginals", dtype)
    return _calibrate(plan, cells, evidence, dtype)[0]


def _calibrate(
    plan: Plan, cells: Tables, evidence: Mapping[str, int], dtype: type[np.floating[Any]]
) -> tuple[dict[str, Array], Floats]:
    """All marginals given evidence, and the logarithm of its probability."""
    draws, sizes = cells.draws or 1, plan.tree.sizes
    if not sizes:
        return {}, log_probability(cells, evidence)
    table: Array = np.empty((sum(sizes.values()), draws), dtype)
    log_total = np.empty(draws)
    for part, _, factors, block in _split_draws(plan, cells, evidence, dtype):
        log_total[part] = calibrate(plan.tree, factors, block, table[:, part])
    for weak, some, logs in _redo_weak_draws(plan, cells, evidence, log_total, dtype):
        if logs is None:
            table[:, weak] = np.concatenate(list(marginals(some, evidence).values()))
        else:
            found, log_total[weak] = log_kernels.calibrate(plan.tree, logs, weak.size)
            table[:, weak] = np.concatenate([found[name] for name in sizes])
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(table, ends[:-1]), strict=True)), log_total


def marginals_cost(network: Network, evidence: Iterable[str] = ()) -> int:
    """Cells that `marginals` works on for each draw; time and memory are proportional to it.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> marginals_cost(network)
        4
    """
    return plan_sum(network, frozenset(evidence), every=True).cells


def evidence_cost(network: Network, evidence: Iterable[str]) -> int:
    """Cells that `log_probability` works on for each draw."""
    return plan_sum(network, frozenset(evidence), every=False).cells


def explanation_cost(network: Network, targets: Sequence[str], evidence: Iterable[str]) -> int:
    """Cells that `explanations` works on for each draw.

    Example:
        >>> from discreet import Network, Variable
        >>> pair = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> explanation_cost(pair, ["b"], [])
        6
    """
    return plan_explanation(network, tuple(targets), frozenset(evidence))[0].cells


def log_probability(
    cells: Tables, evidence: Mapping[str, int], *, dtype: type[np.floating[Any]] = np.float64
) -> Floats:
    """`log P(evidence)` under every draw.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable; empty for the sure event.
        dtype: precision of the work.

    Returns:
        Shape `(draws,)`, in float64 always; -inf where it is impossible.

    Raises:
        InputError: more cells than the budget. A precision that is neither float32 nor float64.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> np.exp(log_probability(theta, {"b": 1})).round(6).tolist()
        [0.375]
    """
    plan = plan_sum(cells.network, frozenset(evidence), every=False)
    _check_budget(plan.cells, "the probability of the evidence", dtype)
    result = np.empty(cells.draws or 1)
    for part, size, factors, block in _split_draws(plan, cells, evidence, dtype):
        _, result[part] = collect(plan.tree, factors, block, (), size)
    for weak, some, logs in _redo_weak_draws(plan, cells, evidence, result, dtype):
        if logs is None:
            result[weak] = log_probability(some, evidence)
        else:
            _, result[weak] = log_kernels.collect(plan.tree, logs, (), weak.size)
    return result


def explanations(
    cells: Tables,
    targets: Sequence[str],
    evidence: Mapping[str, int],
    *,
    weights: Floats | None = None,
    dtype: type[np.floating[Any]] = np.float64,
) -> list[Explained]:
    """Joint states of some variables that are most probable given evidence under some draw (MAP, MPE).

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        targets: variables that are no evidence, at least one; all of them for the most probable explanation.
        evidence: code of the state of each observed variable.
        weights: how much each draw counts, shape `(draws,)`, not negative; all alike without them.
        dtype: precision of the work and of the probabilities.

    Returns:
        The states that most draws favour, at most 16, by decreasing mean probability.

    Raises:
        InputError: more cells than the budget. A precision that is neither float32 nor float64.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> found = explanations(theta, ["a"], {"b": 0})[0]
        >>> found.states, found.probability.round(6).tolist(), found.best
        ({'a': 1}, [0.6], 1.0)
    """
    wanted = tuple(targets)
    plan, total = plan_explanation(cells.network, wanted, frozenset(evidence))
    _check_budget(plan.cells, f"the most probable state of {len(wanted)} variables", dtype)
    codes, log_total = _find_favoured(plan, total, cells, wanted, evidence, dtype)
    if _has_pruned_zeros(plan, cells):
        log_total[np.isneginf(log_probability(cells, evidence))] = -np.inf
    possible = np.isfinite(log_total)
    shares = np.ones(log_total.size) if weights is None else weights
    counts = Counter[tuple[int, ...]]()
    for each, share in zip(codes[:, possible].T.tolist(), shares[possible].tolist(), strict=True):
        counts[tuple(each)] += share
    counted = max(float(shares[possible].sum()), np.finfo(np.float64).tiny)
    # Evidence that is impossible under every draw has no explanation; one is named that has probability NaN.
    listed = [each for each, _ in counts.most_common(EVALUATED_EXPLANATIONS)] or [tuple(codes[:, 0].tolist())]
    candidates = [dict(zip(wanted, each, strict=True)) for each in listed]
    with np.errstate(invalid="ignore"):
        probabilities = np.exp(_log_of_states(plan, cells, candidates, evidence, log_total, dtype) - log_total)
    probabilities[:, ~possible] = np.nan
    found = [
        Explained(states, probability, counts[each] / counted)
        for each, states, probability in zip(listed, candidates, probabilities.astype(dtype), strict=True)
    ]
    return sorted(found, key=lambda explained: -float(np.nansum(explained.probability * shares)))


def _find_favoured(
    plan: Plan,
    total: JunctionTree,
    cells: Tables,
    targets: Scope,
    evidence: Mapping[str, int],
    dtype: type[np.floating[Any]],
) -> tuple[Ints, Floats]:
    """Find each draw's most probable states, shape `(targets, draws)`, and the log probability of the evidence."""
    codes = np.empty((len(targets), cells.draws or 1), np.int64)
    log_total = np.empty(cells.draws or 1)
    for part, size, factors, block in _split_draws(plan, cells, evidence, dtype):
        _, log_total[part] = collect(total, factors, block, (), size)
        states = most_probable(plan.tree, factors, block, size)
        codes[:, part] = [states[name] for name in targets]
    for weak, some, logs in _redo_weak_draws(plan, cells, evidence, log_total, dtype):
        if logs is None:
            codes[:, weak], log_total[weak] = _find_favoured(plan, total, some, targets, evidence, np.float64)
        else:
            _, log_total[weak] = log_kernels.collect(total, logs, (), weak.size)
            states = log_kernels.most_probable(plan.tree, logs, weak.size)
            codes[:, weak] = [states[name] for name in targets]
    return codes, log_total


def _log_of_states(
    plan: Plan,
    cells: Tables,
    candidates: Sequence[Mapping[str, int]],
    evidence: Mapping[str, int],
    log_total: Floats,
    dtype: type[np.floating[Any]],
) -> Floats:
    """Log probability of states and evidence, shape `(candidates, draws)`."""
    logs = np.empty((len(candidates), log_total.size))
    for part, size, factors, block in _split_draws(plan, cells, evidence, dtype):
        logs[:, part] = log_of_states(plan.tree, factors, block, candidates, size)
    for weak, some, log_factors in _redo_weak_draws(plan, cells, evidence, log_total, dtype):
        if log_factors is None:
            logs[:, weak] = _log_of_states(plan, some, candidates, evidence, log_total[weak], np.float64)
        else:
            logs[:, weak] = log_kernels.log_of_states(plan.tree, log_factors, candidates, weak.size)
    return logs


# --------------------------------------------------------------------------------------------------------- planning


def _check_budget(cells: int, what: str, dtype: type[np.floating[Any]]) -> None:
    """Refuse before computing."""
    if dtype not in (np.float32, np.float64):
        raise InputError(f"inference works in numpy.float32 or numpy.float64, got {dtype!r}")
    if cells > CELL_BUDGET:
        raise InputError(
            f"{what} needs {cells:,} cells for each draw, more than the budget of {CELL_BUDGET:,}; "
            "ask for fewer variables, or give more evidence"
        )


# ------------------------------------------------------------------------------------------------------------ draws


def _split_draws(
    plan: Plan, cells: Tables, evidence: Mapping[str, int], dtype: type[np.floating[Any]]
) -> Iterator[tuple[slice, int, list[Array], Array]]:
    """Chunks of draws of similar size: (which, how many, the families' tables without evidence, memory for cliques)."""
    draws, each = cells.draws or 1, max(1, plan.cells * np.dtype(dtype).itemsize)
    most = max(1, min(max(CHUNK_BYTES // each, CHUNK_DRAWS), MOST_CLIQUE_BYTES // each))
    length = -(-draws // -(-draws // most))
    block: Array = np.empty(plan.cells * min(length, draws), dtype)
    for start in range(0, draws, length):
        part = slice(start, min(start + length, draws))
        yield part, part.stop - start, _slice_factors(plan, cells, evidence, part, dtype), block


def _slice_factors(
    plan: Plan, cells: Tables, evidence: Mapping[str, int], part: slice, dtype: type[np.floating[Any]]
) -> list[Array]:
    """The families' tables of a chunk of draws, evidence sliced out; views unless the precision differs."""
    whole = part.stop - part.start == (cells.draws or 1)
    factors = []
    for node, observed in zip(plan.nodes, plan.observed, strict=True):
        array = cells[node]
        if observed is not None:
            array = array[(*(slice(None) if name is None else evidence[name] for name in observed), part)]
        elif not whole:
            array = array[..., part]
        factors.append(array if array.dtype == dtype else array.astype(dtype))
    return factors


def _has_pruned_zeros(plan: Plan, cells: Tables) -> bool:
    """Whether evidence that does not bear on the targets, and was pruned, may be impossible: only zeros make it so."""
    return not all(np.minimum.reduce(cells[node], axis=None) > 0 for node in plan.pruned)


def _redo_weak_draws(
    plan: Plan, cells: Tables, evidence: Mapping[str, int], log_total: Floats, dtype: type[np.floating[Any]]
) -> Iterator[tuple[Ints, Tables, list[Floats] | None]]:
    """The draws whose evidence is too improbable for a precision: which, their tables, and how to do them again.

    After float32 that is None: all at once, in float64. Then they come in chunks for `log_kernels.py`, with logarithms
    of the families' tables without evidence.
    """
    weak = np.flatnonzero(~(log_total >= LEAST_LOG[dtype]))
    if not weak.size:
        return
    some = cells.of_draws(weak)
    if dtype is np.float32:
        yield weak, some, None
        return
    for part, _, factors, _ in _split_draws(plan, some, evidence, np.float64):
        with np.errstate(divide="ignore"):
            yield weak[part], some, [np.log(factor) for factor in factors]
