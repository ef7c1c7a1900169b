"""Exact inference over the draws of a posterior, in chunks of draws.

`Laws` computes laws under all draws of a network's tables, `ConditionalLaws` those of several queries with the same
evidence, `pair_laws` those of many pairs under one table; a few functions compute the cost beforehand. The plans are in
`junction_tree.py` and the arithmetic in `kernels.py`. Plans are cached: the same targets given the same observed
variables, whatever their states, are planned once. Draws are processed together where memory allows, and every answer
has one number per draw and cell, from which intervals can be computed.

Work in float32 takes half the memory and time, and answers are within about 1e-6 of those in float64. Draws in which
the evidence is too improbable for a precision (probability below 1e-30, or 1e-217) are repeated in the next one:
float64 after float32, then logarithms, which have no such limit. Nothing underflows, and only evidence of probability 0
is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.junction_tree import (
    Plan,
    junction_tree,
    plan_evidence,
    plan_explanation,
    plan_joint,
    plan_marginals,
)
from discreet.inference.kernels import LOGARITHMS, PROBABILITIES, Pass, Semiring
from discreet.inference.sampling import sample_codes
from discreet.inference.weighted_records import log_weight
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.model.tables import Tables
from discreet.util.arrays import Array, Floats, Ints

At = slice | Ints
"""Positions of some draws."""

CELL_BUDGET = 2**24
"""Largest number of cells of all cliques together, for one draw: 128 MiB, and tens of milliseconds."""
CHUNK_BYTES = 2**27
"""Bytes of the cliques of a chunk of draws, few of which are in memory at once; long rows of draws are read fastest."""
CHUNK_DRAWS = 32
"""Least number of draws of a chunk, even if they need more memory: numpy is slow on short rows."""
MOST_CLIQUE_BYTES = 2**28
"""Largest memory for the cliques of a chunk, unless one draw needs more."""
EVALUATED_EXPLANATIONS = 16
"""Number of explanations whose probability is evaluated: those that are most probable in most draws."""
LEAST_LOG: Mapping[type[np.floating[Any]], float] = {np.float32: -69.0, np.float64: -500.0}
"""Log probability of evidence below which the precision is raised. An entry that float32 cannot represent is below
1e-38 of a normalised message; dividing by the evidence's probability p raises it at most by 1/p, to 1e-8 of the answer.
In float64 the same argument leaves a factor of 1e91 for losses in products of up to four messages before they are
normalised."""
STAGES: tuple[tuple[type[np.floating[Any]], Semiring], ...] = (
    (np.float32, PROBABILITIES),
    (np.float64, PROBABILITIES),
    (np.float64, LOGARITHMS),
)
"""Stages of precision: draws in which the evidence is too improbable for one stage are repeated in the next."""
LARGE_WORK = 2**24
"""Least number of cells times draws for which single precision is tried first: tens of milliseconds."""
ROUNDING_ERROR, MOST_ERROR_SHARE = 1e-5, 0.1
"""Relative error of a law in single precision (at most 3e-6 was seen, in cliques of 2^17 entries), and the largest
fraction of the draws' own standard error that it may have."""
MOST_EXACT_CELLS = 2**14
"""Largest number of cells of all cliques for exact laws of pairs: some milliseconds for all pairs with one variable."""
FIRSTS_TOGETHER = 16
"""Number of first variables that one pass covers: some dozens of draws for two or three states each."""
SIMULATED_VALUES = 2**24
"""Number of simulated values: 128 MiB; standard errors of shares are .001 for a hundred variables."""


@dataclass(frozen=True, eq=False)
class Explained:
    """Joint state of the targets that explains the evidence, with its probability.

    Args:
        states: code of the state of each target.
        probability: probability of these states given the evidence in every draw, shape `(draws,)`; NaN in draws in
            which the evidence is impossible.
        best: fraction of the draws in which no other state is more probable, between 0 and 1: the posterior probability
            that this is the most probable explanation. Ties count for the first state only, and draws in which the
            evidence is impossible do not count.
    """

    states: dict[str, int]
    probability: Array
    best: float


@dataclass(frozen=True, eq=False)
class Laws:
    """Exact laws of the variables of a network under every draw of its tables.

    Evidence is always the code of the state of each observed variable; targets are at least one variable, none of them
    observed. A query that needs more cells than the budget is refused before it is computed, and the error states the
    number.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        dtype: precision of the work and of the answers.

    Raises:
        InputError: a precision that is neither float32 nor float64.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(network, {"a": [[0.25], [0.75]], "b": [[[1.0], [0.0]], [[0.5], [0.5]]]}, draws=1)
        >>> Laws(theta).joint(["a"], {"b": 0})[:, 0].tolist()
        [0.4, 0.6]
        >>> {name: law[:, 0].tolist() for name, law in Laws(theta).marginals().items()}
        {'a': [0.25, 0.75], 'b': [0.625, 0.375]}
        >>> np.exp(Laws(theta).log_probability({"b": 1})).round(6).tolist()
        [0.375]
        >>> found = Laws(theta).most_probable(["a"], {"b": 0})[0]
        >>> found.states, found.probability.round(6).tolist(), found.best
        ({'a': 1}, [0.6], 1.0)
    """

    cells: Tables
    dtype: type[np.floating[Any]] = np.float64

    def __post_init__(self) -> None:
        if self.dtype not in (np.float32, np.float64):
            raise InputError(f"inference works in numpy.float32 or numpy.float64, got {self.dtype!r}")

    @property
    def draws(self) -> int:
        """Number of draws: length of the last axis of every answer."""
        return self.cells.draws or 1

    def joint(self, targets: Sequence[str], evidence: Mapping[str, int] = MappingProxyType({})) -> Array:
        """Compute `P(targets | evidence)`, shape `(*sizes, draws)`; NaN in draws in which the evidence is impossible.

        Raises:
            InputError: the query needs more cells than the budget.
        """
        return self.joint_and_evidence(targets, evidence)[0]

    def joint_and_evidence(self, targets: Sequence[str], evidence: Mapping[str, int]) -> tuple[Array, Floats | None]:
        """Compute `joint`, and `log P(evidence)` of shape `(draws,)` if the same pass yields it.

        It does not, and the second result is None, if some families that determine the evidence's probability are
        irrelevant to the targets and were left out.
        """
        plan = plan_joint(self.cells.network, tuple(targets), frozenset(evidence))
        return self._compute_joint(plan, tuple(targets), evidence)

    def _compute_joint(self, plan: Plan, targets: Scope, evidence: Mapping[str, int]) -> tuple[Array, Floats | None]:
        """Compute a joint law and `log P(evidence)` (None if families were pruned) by a given plan."""
        _check_budget(plan.cells, f"P({', '.join(targets)})")
        result: Array = np.empty((*[plan.tree.sizes[name] for name in targets], self.draws), self.dtype)

        def compute(chunk: Pass, at: At) -> Floats:
            result[..., at], log_total = chunk.joint(targets)
            return log_total

        log_total = self._execute(plan, evidence, compute)
        np.copyto(result, np.nan, where=self._find_impossible(plan, evidence, log_total))
        return result, None if plan.pruned else log_total

    def marginals(self, evidence: Mapping[str, int] = MappingProxyType({})) -> dict[str, Array]:
        """Compute `P(X | evidence)` of every unobserved variable X, in one pass over the draws.

        Returns:
            Laws by variable, in the network's order, shape `(size, draws)`; NaN in draws in which the evidence is
            impossible.

        Raises:
            InputError: the network needs more cells than the budget.
        """
        return self.marginals_and_evidence(evidence)[0]

    def marginals_and_evidence(self, evidence: Mapping[str, int]) -> tuple[dict[str, Array], Floats]:
        """Compute `marginals`, and `log P(evidence)` of shape `(draws,)`, in one pass."""
        plan = plan_marginals(self.cells.network, frozenset(evidence))
        _check_budget(plan.cells, "all marginals")
        sizes = plan.tree.sizes
        table: Array = np.empty((sum(sizes.values()), self.draws), self.dtype)

        def compute(chunk: Pass, at: At) -> Floats:
            block = table[:, at]
            log_total = chunk.marginals(block)
            if not isinstance(at, slice):
                table[:, at] = block  # else it is a view
            return log_total

        log_total = self._execute(plan, evidence, compute)
        np.copyto(table, np.nan, where=np.isneginf(log_total))
        ends = np.cumsum([0, *sizes.values()])
        return {name: table[start:end] for name, start, end in zip(sizes, ends, ends[1:], strict=False)}, log_total

    def log_probability(self, evidence: Mapping[str, int]) -> Floats:
        """Compute `log P(evidence)` in float64, shape `(draws,)`; -inf where it is impossible, 0 without evidence.

        Raises:
            InputError: more cells than the budget.
        """
        plan = plan_evidence(self.cells.network, frozenset(evidence))
        _check_budget(plan.cells, "the probability of the evidence")
        return self._execute(plan, evidence, lambda chunk, at: chunk.joint(())[1])

    def most_probable(
        self, targets: Sequence[str], evidence: Mapping[str, int], *, weights: Floats | None = None
    ) -> list[Explained]:
        """Find joint states of some variables that are most probable given evidence in some draw (MAP, MPE).

        Args:
            targets: variables that are not observed; all of them for the most probable explanation.
            evidence: code of the state of each observed variable.
            weights: non-negative weight of each draw, shape `(draws,)`; equal by default.

        Returns:
            The states that are most probable in most draws, by weight, at most EVALUATED_EXPLANATIONS (16), by
            decreasing mean probability. If the evidence is impossible in every draw, one state, with probability NaN.

        Raises:
            InputError: more cells than the budget.
        """
        wanted = tuple(targets)
        plan = plan_explanation(self.cells.network, wanted, frozenset(evidence))
        _check_budget(plan.cells, f"the most probable state of {len(wanted)} variables")
        codes = np.empty((len(wanted), self.draws), np.int64)

        def find(chunk: Pass, at: At) -> Floats:
            states = chunk.most_probable()
            codes[:, at] = [states[name] for name in wanted]
            return replace(chunk, tree=plan.total).joint(())[1]

        log_total = self._execute(plan, evidence, find)
        log_total[self._find_impossible(plan, evidence, log_total)] = -np.inf
        possible = np.isfinite(log_total)
        shares = np.ones(log_total.size) if weights is None else weights
        counts = Counter[tuple[int, ...]]()
        for code, share in zip(codes[:, possible].T.tolist(), shares[possible].tolist(), strict=True):
            counts[tuple(code)] += share
        counted = max(float(shares[possible].sum()), np.finfo(np.float64).tiny)
        # If the evidence is impossible in every draw, return the first state, with probability NaN.
        listed = [code for code, _ in counts.most_common(EVALUATED_EXPLANATIONS)] or [tuple(codes[:, 0].tolist())]
        candidates = [dict(zip(wanted, code, strict=True)) for code in listed]
        logs = np.empty((len(candidates), self.draws))

        def evaluate(chunk: Pass, at: At) -> Floats:
            logs[:, at] = chunk.log_of_states(candidates)
            return log_total[at]

        self._execute(plan, evidence, evaluate)
        with np.errstate(invalid="ignore"):
            probabilities = np.exp(logs - log_total)
        probabilities[:, ~possible] = np.nan
        explanations = [
            Explained(states, probability, counts[code] / counted)
            for code, states, probability in zip(listed, candidates, probabilities.astype(self.dtype), strict=True)
        ]
        return sorted(explanations, key=lambda explained: -float(np.nansum(explained.probability * shares)))

    # --------------------------------------------------------------------------------------------------------- draws

    def _execute(self, plan: Plan, evidence: Mapping[str, int], compute: Callable[[Pass, At], Floats]) -> Floats:
        """Execute a plan for all draws in chunks, and repeat draws with too improbable evidence in higher precision.

        Args:
            plan: plan of the query.
            evidence: codes of the observed states.
            compute: function of a pass and the positions of its draws that stores their results and returns their `log
                P(evidence)`.

        Returns:
            `log P(evidence)`, shape `(draws,)`.
        """
        log_total, cells, weak = np.empty(self.draws), self.cells, np.arange(self.draws)
        for dtype, ring in STAGES[int(self.dtype is np.float64) :]:
            for chunk in _split_draws(plan.cells, cells.draws or 1, dtype):
                at = chunk if cells is self.cells else weak[chunk]
                factors = _slice_factors(plan, cells, evidence, chunk, dtype)
                log_total[at] = compute(Pass(ring, plan.tree, factors, chunk.stop - chunk.start), at)
            weak = np.flatnonzero(~(log_total >= LEAST_LOG[dtype]))
            if not weak.size:
                break
            cells = self.cells.of_draws(weak)
        return log_total

    def _find_impossible(self, plan: Plan, evidence: Mapping[str, int], log_total: Floats) -> npt.NDArray[np.bool_]:
        """Flag the draws in which the evidence is impossible, shape (draws,), pruned families included.

        Pruned families can only make it so by zeros; without any zero, `log_total` of the plan decides.
        """
        if all(np.minimum.reduce(self.cells[node], axis=None) > 0 for node in plan.pruned):
            return np.isneginf(log_total)
        return np.isneginf(log_total) | np.isneginf(Laws(self.cells).log_probability(evidence))


def _split_draws(cells: int, draws: int, dtype: type[np.floating[Any]]) -> Iterator[slice]:
    """Split draws into consecutive chunks of similar size.

    A chunk's cliques fit into CHUNK_BYTES; it has at least CHUNK_DRAWS draws even if they do not, unless they need more
    than MOST_CLIQUE_BYTES, and in any case one.

    Args:
        cells: number of cells of all cliques, for one draw.
        draws: number of draws, at least 1.
        dtype: precision.
    """
    draw_bytes = max(1, cells * np.dtype(dtype).itemsize)
    most = max(1, min(max(CHUNK_BYTES // draw_bytes, CHUNK_DRAWS), MOST_CLIQUE_BYTES // draw_bytes))
    length = -(-draws // -(-draws // most))
    for start in range(0, draws, length):
        yield slice(start, min(start + length, draws))


def _slice_factors(
    plan: Plan, cells: Tables, evidence: Mapping[str, int], chunk: slice, dtype: type[np.floating[Any]]
) -> list[Array]:
    """Slice the tables of the plan's families to a chunk of draws and to the observed states.

    Args:
        plan: plan of the query.
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.
        chunk: slice of the draws.
        dtype: precision of the factors.

    Returns:
        Factors of shape `(*sizes, draws)`, without observed axes; views unless the precision differs.
    """
    whole = chunk.stop - chunk.start == (cells.draws or 1)
    factors = []
    for array, observed in zip([cells[node] for node in plan.nodes], plan.observed, strict=True):
        if observed is not None:
            array = array[(*(slice(None) if name is None else evidence[name] for name in observed), chunk)]
        elif not whole:
            array = array[..., chunk]
        factors.append(array if array.dtype == dtype else array.astype(dtype))
    return factors


class FactorLaws:
    """Laws of each factor's variables under the normalised product of all factors; planned once for given scopes.

    Args:
        scopes: variables of each factor, in the order of its axes.
        sizes: number of states of each variable.
    """

    def __init__(self, scopes: Sequence[Scope], sizes: Mapping[str, int]) -> None:
        self._scopes, self._tree = scopes, junction_tree([(None, scope) for scope in scopes], sizes)
        self.cells = self._tree.cells

    def of(self, factors: Sequence[Array]) -> list[Array]:
        """Compute the law of each factor's variables.

        Args:
            factors: arrays of shape `(*sizes, draws)`, each positive somewhere.

        Returns:
            Probabilities, in the shapes of the factors.
        """
        return Pass(PROBABILITIES, self._tree, factors, factors[0].shape[-1]).factor_margins(self._scopes)


# -------------------------------------------------------------------------------------------------------------- given


@dataclass(frozen=True, eq=False)
class ConditionalLaws:
    """Joint laws given evidence; results that several queries share are computed once and kept.

    Large work is done in single precision if its error is far below the standard error of means over the draws.

    Args:
        cells: tables of the joint law, shape `(*parents, child, draws)`; they may include a hidden variable that is
            never queried.
        evidence: code of the state of each observed variable.
        network: network over the variables that can be queried, whose rows were drawn.
        rows: rows of this network in the same draws.
    """

    cells: Tables
    evidence: Mapping[str, int]
    network: Network
    rows: Tables

    @cached_property
    def marginals(self) -> dict[str, Floats]:
        """`P(X | evidence)` of every unobserved variable, shape `(size, draws)`."""
        return self.marginals_and_evidence[0]

    @cached_property
    def marginals_and_evidence(self) -> tuple[dict[str, Floats], Floats]:
        """The marginals of all unobserved variables, and `log P(evidence)`, shape (draws,), from the same pass; kept.

        Large work is tried in single precision; if the rounding error of any marginal matters (`_normalise_rough`), all
        are computed in double precision.
        """
        names = [name for name in self.network.nodes if name not in self.evidence]
        if self._is_large(marginals_cost(self.cells.network, self.evidence)):
            rough, log = Laws(self.cells, np.float32).marginals_and_evidence(self.evidence)
            normalised = {name: self._normalise_rough(rough[name]) for name in names}
            fine = {name: law for name, law in normalised.items() if law is not None}
            if len(fine) == len(normalised):
                return fine, log
        laws, log = Laws(self.cells).marginals_and_evidence(self.evidence)
        return {name: laws[name] for name in names}, log

    @cached_property
    def log_evidence(self) -> Floats:
        """`log P(evidence)`, shape `(draws,)`; from simulated records if exact inference is too large."""
        if not affordable(self.cells.network, (), self.evidence):
            return log_weight(self.cells, self.evidence, np.random.default_rng(0))
        return Laws(self.cells, self._precision).log_probability(self.evidence)

    def joint(self, targets: Sequence[str], also: Mapping[str, int] = MappingProxyType({})) -> Floats:
        """Compute `P(targets | evidence, also)`, shape `(*sizes, draws)`; NaN where the condition is impossible."""
        return self.joint_and_evidence(targets, also)[0]

    def joint_and_evidence(
        self, targets: Sequence[str], also: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[Floats, Floats | None]:
        """Compute `joint`, and the log probability of the condition if the same pass yields it.

        If every table is relevant to a single target, its plan equals that of all marginals, and the shared pass for
        all of them is used. That choice depends on the query alone, so a query has one answer, in whatever batch it is
        answered.
        """
        wanted, evidence = tuple(targets), {**self.evidence, **also}
        plan = plan_joint(self.cells.network, wanted, frozenset(evidence))
        if len(wanted) == 1 and not also and len(plan.nodes) == len(self.cells.network.variables):
            return self.marginals[wanted[0]], self.marginals_and_evidence[1]
        if self._is_large(plan.cells):
            rough, log = Laws(self.cells, np.float32)._compute_joint(plan, wanted, evidence)
            fine = self._normalise_rough(rough)
            if fine is not None:
                return fine, log
        return Laws(self.cells)._compute_joint(plan, wanted, evidence)

    def whole(self, names: Sequence[str]) -> Floats:
        """Compute `P(names)`, shape `(*sizes, draws)`, for the query's variables, observed ones included."""
        return Laws(self.cells).joint(names)

    def probability(self, states: Mapping[str, int]) -> Floats:
        """Compute `P(states | evidence)`, shape `(draws,)`; NaN where the evidence is impossible."""
        with np.errstate(invalid="ignore"):
            both = Laws(self.cells, self._precision).log_probability({**self.evidence, **states})
            # Clamped to 0 because rows in single precision sum to 1 only up to rounding.
            return np.exp(np.minimum(both - self.log_evidence, 0.0))

    def most_probable(self, targets: Sequence[str], weights: Floats | None) -> list[Explained]:
        """Find the most probable joint states; see `Laws.most_probable`.

        Uses the rows alone, because summing out a hidden variable would join all others.
        """
        return Laws(self.rows).most_probable(targets, self.evidence, weights=weights)

    @cached_property
    def _precision(self) -> type[np.floating[Any]]:
        """Floating-point type of the tables."""
        return np.float32 if self.cells[self.network.variables[0].name].dtype == np.float32 else np.float64

    def _is_large(self, cells: int) -> bool:
        """Return whether a query over that many cells per draw is tried in single precision first."""
        return self._precision is np.float32 or cells * (self.cells.draws or 1) > LARGE_WORK

    def _normalise_rough(self, law: Array) -> Floats | None:
        """Normalise a law from single precision, shape `(*sizes, draws)`; return None if its rounding error matters.

        Errors are relative to each probability p and to 1 - p, because the rest of the law is as precise. They matter
        if they exceed MOST_ERROR_SHARE of the standard error of the mean over draws; if the tables themselves are in
        single precision, the law is always returned.
        """
        exact = law.astype(np.float64)
        exact /= exact.sum(axis=tuple(range(exact.ndim - 1)))
        if self._precision is np.float32:
            return exact
        error = ROUNDING_ERROR * np.minimum(exact.mean(axis=-1), 1 - exact.mean(axis=-1))
        seen = error > MOST_ERROR_SHARE * exact.std(axis=-1) / exact.shape[-1] ** 0.5
        return None if seen.any() or np.isnan(error).any() else exact


# -------------------------------------------------------------------------------------------------------------- pairs


def pair_laws(theta: Tables, pairs: Iterable[Scope]) -> dict[Scope, Floats]:
    """Compute `P(a, b)` for some pairs of variables, exactly, or from simulated records if the network is too large.

    One exact pass over several draws of a network yields the laws of all pairs with some first variables: each draw
    fixes one of these to one of its states. Simulated records use a fixed seed.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        pairs: pairs of different nodes.

    Returns:
        Laws by pair, shape `(size, size)`. Equal for equal arguments.

    Example:
        >>> from discreet import Network, Variable
        >>> coins = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> theta = Tables(coins, {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]})
        >>> pair_laws(theta, [("b", "a")])["b", "a"].tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    network, wanted = theta.network, list(pairs)
    with suppress(InputError):  # too large for exact inference
        if marginals_cost(network) <= MOST_EXACT_CELLS:
            return _compute_pairs_exactly(theta, wanted)
    codes = sample_codes(theta, SIMULATED_VALUES // len(network.nodes), np.random.default_rng(0))
    return {pair: _count_shares(theta, codes, pair) for pair in wanted}


def _compute_pairs_exactly(theta: Tables, pairs: list[Scope]) -> dict[Scope, Floats]:
    """Compute the laws of pairs by exact inference, for FIRSTS_TOGETHER first variables at once.

    Args:
        theta: probabilities, shape `(*parents, child)`.
        pairs: (a, b) of different nodes.

    Returns:
        `P(a) P(b | a)` by pair, shape `(size of a, size of b)`; rows of impossible states are 0.

    Raises:
        InputError: the network needs more cells than the budget.
    """
    single = Tables(theta.network, {node: theta[node][..., None] for node in theta.network.nodes}, draws=1)
    alone, conditional = Laws(single).marginals(), dict[str, dict[str, Floats]]()
    firsts = list(dict.fromkeys(first for first, _ in pairs))
    for start in range(0, len(firsts), FIRSTS_TOGETHER):
        some = firsts[start : start + FIRSTS_TOGETHER]
        wide, seen = _observe_states(single, some)
        laws, end = Laws(wide).marginals(seen), 0
        for first in some:
            begin, end = end, end + theta.network.schema[first].size
            conditional[first] = {node: law[:, begin:end] for node, law in laws.items()}
    # P(a, b) = P(a) P(b | a); given an impossible state of a the law of b is NaN, and the row is set to 0.
    return {(a, b): np.nan_to_num(alone[a] * conditional[a][b].T) for a, b in pairs}


def _observe_states(single: Tables, names: list[str]) -> tuple[Tables, dict[str, int]]:
    """Add a draw for each state of some variables, with evidence that excludes the other states.

    The evidence is a new binary child of each variable; in the draws of other variables' states it is uninformative.

    Args:
        single: tables with one draw.
        names: variables whose states are fixed in turn.

    Returns:
        Tables of the wider network, and the evidence: code 1 of each new child.
    """
    network, schema = single.network, single.network.schema
    draws = sum(schema[name].size for name in names)
    tables = {node: np.repeat(table, draws, axis=-1) for node, table in single.items()}
    free = (name for name in map("seen {}".format, count()) if name not in tables)
    seen = dict(zip(names, free, strict=False))
    start = 0
    for name, child in seen.items():
        size = schema[name].size
        shown = np.ones((size, draws))
        shown[:, start : start + size] = np.eye(size)
        tables[child] = np.stack([1 - shown, shown], axis=1)
        start += size
    variables = (*schema.variables, *(Variable(child, ("no", "yes")) for child in seen.values()))
    wider = Network(variables, {**network.parents, **{child: (name,) for name, child in seen.items()}})
    return Tables(wider, tables, draws=draws), dict.fromkeys(seen.values(), 1)


def _count_shares(theta: Tables, codes: Mapping[str, Array], pair: Scope) -> Floats:
    """Compute the shares of the joint states of two variables among records, shape `(size, size)`."""
    rows, columns = (theta.network.schema[name].size for name in pair)
    counted = np.bincount(codes[pair[0]] * columns + codes[pair[1]], minlength=rows * columns)
    return np.asarray(counted.reshape(rows, columns) / len(codes[pair[0]]))


# --------------------------------------------------------------------------------------------------------------- cost


def joint_cost(network: Network, targets: Sequence[str], evidence: Iterable[str]) -> int:
    """Count the cells that `Laws.joint` works on for each draw; its time and memory are proportional to them.

    Args:
        network: network of the tables.
        targets: at least one variable, none of them observed.
        evidence: observed variables.

    Returns:
        Cells of all cliques together, after pruning.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> joint_cost(network, ["a"], {}), joint_cost(network, ["a", "b"], {})
        (2, 4)
    """
    return plan_joint(network, tuple(targets), frozenset(evidence)).cells


def marginals_cost(network: Network, evidence: Iterable[str] = ()) -> int:
    """Count the cells that `Laws.marginals` works on for each draw.

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> marginals_cost(network)
        4
    """
    return plan_marginals(network, frozenset(evidence)).cells


def evidence_cost(network: Network, evidence: Iterable[str]) -> int:
    """Count the cells that `Laws.log_probability` works on for each draw."""
    return plan_evidence(network, frozenset(evidence)).cells


def explanation_cost(network: Network, targets: Sequence[str], evidence: Iterable[str]) -> int:
    """Count the cells that `Laws.most_probable` works on for each draw.

    Example:
        >>> from discreet import Network, Variable
        >>> pair = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> explanation_cost(pair, ["b"], [])
        6
    """
    return plan_explanation(network, tuple(targets), frozenset(evidence)).cells


def affordable(network: Network, targets: Sequence[str] | None, evidence: Iterable[str]) -> bool:
    """Return whether the budget allows `joint` of some targets, `log_probability` (no targets) or `marginals` (None).

    Example:
        >>> from discreet import Network, Variable
        >>> network = Network(tuple(Variable(name, ("0", "1")) for name in "ab"), {"a": (), "b": ("a",)})
        >>> affordable(network, ["a"], []), affordable(network, None, [])
        (True, True)
    """
    if targets is None:
        return marginals_cost(network, evidence) <= CELL_BUDGET
    return (joint_cost(network, targets, evidence) if targets else evidence_cost(network, evidence)) <= CELL_BUDGET


def _check_budget(cells: int, question: str) -> None:
    """Raise an InputError if a query needs more than CELL_BUDGET cells; the message begins with the question."""
    if cells > CELL_BUDGET:
        raise InputError(
            f"{question} needs {cells:,} cells for each draw, more than the budget of {CELL_BUDGET:,}; "
            "ask for fewer variables, or give more evidence"
        )
