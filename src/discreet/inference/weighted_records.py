"""Past exact inference: laws from records that are made up under every draw, weighted by the evidence.

Records are drawn from the roots down, a number of them under every draw of the probabilities; what was observed is not
drawn but held, and a record counts by the probability of the evidence given its parents' states:

    P(x | e)  ~  sum w_r 1[x_r = x] / sum w_r,       w_r = prod over observed v of P(e_v | parents of v in r).

Time is linear in nodes, whatever the treewidth; the price is an error that is known. Of a draw it is that of a ratio
(the delta method); as many records as (sum w)^2 / sum w^2 without evidence would do as well, and where those are few
there is no answer: the evidence is too rare to be met by drawing from the roots down.

Source: Fung and Chang (1990); Shachter and Peot (1990); Kong (1992) for the effective number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.elimination import requisite
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables

__all__ = ["RecordPass", "Sampling", "WeightedLaws", "ancestors_beyond", "log_weight", "weighted_laws"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.unsignedinteger]

RECORDS = 4096
"""Of each draw for the laws of parents: shares of them are known to .008."""
FIRST, MOST_WORK = 512, 2**29
"""Records of each draw that an answer begins with, and states that are drawn for it at most: some 15 CPU seconds."""
CLOSE = 0.05
"""Part of the draws' variance that the error of sampling may be before no more records are drawn: intervals are then
2.5 % wider than they would be."""
EXACT = 0.002
"""Standard error of a draw's probability below which it is exact enough in any case."""
LEAST_EFFECTIVE = 20.0
"""Records that a draw's are worth at least; with fewer, the error of the ratio is not what the delta method says."""
FEW = 0.05
"""Part of the draws that may be worth less."""
GATHERED = 2**20
"""States that are drawn at once: tens of MiB."""


@dataclass(frozen=True)
class Sampling:
    """How an answer was sampled, where exact inference is out of reach.

    Args:
        records: made up under each draw.
        effective: records without evidence that are worth as much, of all but 5 % of the draws.
        error: standard error of the means of the answer's rows by sampling, the largest; unit: as the means.
        widening: by how much the intervals are wider for it, the largest; 0.025 is 2.5 %.
    """

    records: int
    effective: float
    error: float
    widening: float


@dataclass(frozen=True, eq=False)
class WeightedLaws:
    """Laws of some sets of variables given evidence.

    Args:
        laws: by set, `P(set | evidence)` under every draw, shape `(*sizes, draws)`; NaN in draws under which no record
            shows the evidence.
        errors: variance of each by sampling, same shape.
        records: of each draw.
        effective: as in `Sampling`.
    """

    laws: Mapping[Scope, Floats]
    errors: Mapping[Scope, Floats]
    records: int
    effective: float

    def sampling(self, scope: Scope) -> Sampling:
        """What an answer about a set states."""
        error = np.nanmean(self.errors[scope], axis=-1)
        spread = np.nanvar(self.laws[scope], axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            wider = np.sqrt(spread / np.maximum(spread - error, 0.0)) - 1
        draws = self.laws[scope].shape[-1]
        return Sampling(
            self.records,
            self.effective,
            float(np.sqrt(error.max() / draws)),
            float(np.where(error > 0, wider, 0.0).max()),
        )


def weighted_laws(
    cells: Tables, scopes: Sequence[Scope], evidence: Mapping[str, int], rng: np.random.Generator
) -> WeightedLaws:
    """Laws of some sets of variables given evidence, by importance sampling under every draw.

    Records are doubled until their error is small beside the draws' own spread (see CLOSE), or too much work.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        scopes: sets of variables that are no evidence, none empty.
        evidence: code of the state of each observed variable.
        rng: source of randomness.

    Returns:
        The laws, with their errors.

    Raises:
        InputError: the evidence is so rare that more than 5 % of the draws are worth fewer than 20 records.
    """
    network, draws = cells.network, cells.draws or 1
    relevant = set(requisite(network, tuple(dict.fromkeys(name for scope in scopes for name in scope)), evidence))
    nodes = [node for node in network.order if node in relevant]
    most = max(FIRST, MOST_WORK // (draws * max(1, len(nodes))))
    sums = _Sums.none(network, scopes, draws)
    records = 0
    while True:
        more = max(records, FIRST)
        size = max(1, GATHERED // more)
        for start in range(0, draws, size):
            part = slice(start, min(start + size, draws))
            logs, codes = _records(cells, nodes, evidence, part, more, rng)
            sums.add(part, logs, codes)
        records += more
        found = sums.laws(records)
        if 2 * records > most or (_enough(found) and found.effective >= LEAST_EFFECTIVE):
            break
    if found.effective < LEAST_EFFECTIVE:
        observed = ", ".join(name for name in network.nodes if name in evidence)
        raise InputError(
            f"exact inference is out of reach, and the evidence on {observed} is too rare to be sampled: {records:,} "
            f"records under each draw are worth {found.effective:.2g}, and {LEAST_EFFECTIVE:g} are needed; leave out "
            "the evidence that is least probable, or observe variables nearer to the roots"
        )
    return found


def log_weight(cells: Tables, evidence: Mapping[str, int], rng: np.random.Generator) -> Floats:
    """`log P(evidence)` under every draw, by 4,096 weighted records of each; shape `(draws,)`."""
    network, draws = cells.network, cells.draws or 1
    above = network.ancestors(evidence)
    nodes, found = [node for node in network.order if node in above], np.empty(draws)
    size = max(1, GATHERED // RECORDS)
    for start in range(0, draws, size):
        part = slice(start, min(start + size, draws))
        logs, _ = _records(cells, nodes, evidence, part, RECORDS, rng)
        found[part] = np.logaddexp.reduce(logs, axis=-1) - math.log(RECORDS)
    return found


def ancestors_beyond(network: Network, names: Iterable[str], taken: Set[str]) -> list[str]:
    """Some nodes and their ancestors without those that are taken with all of theirs; parents before children."""
    found = dict[str, None]()
    waiting = list(names)
    while waiting:
        missing = [name for name in network.parents[waiting[-1]] if name not in taken and name not in found]
        waiting += missing
        if not missing:
            node = waiting.pop()
            if node not in taken:
                found[node] = None
    return list(found)


def _enough(found: WeightedLaws) -> bool:
    """Whether the error is small beside the draws' own spread."""
    for scope, law in found.laws.items():
        error = np.nanmean(found.errors[scope], axis=-1)
        if (error > np.maximum(CLOSE * np.nanvar(law, axis=-1), EXACT**2)).any():
            return False
    return True


def _records(
    cells: Tables,
    nodes: Sequence[str],
    evidence: Mapping[str, int],
    part: slice,
    records: int,
    rng: np.random.Generator,
) -> tuple[Floats, dict[str, Codes]]:
    """Records of some draws: log weights, and codes of what was drawn or held, shape `(draws, records)`."""
    network = cells.network
    logs = np.zeros((part.stop - part.start, records))
    codes: dict[str, Codes] = {name: np.full(logs.shape, code, _kind(network, name)) for name, code in evidence.items()}
    for node in nodes:
        table = cells[node][..., part]
        rows = _rows(network, node, codes, logs.shape)
        if node in evidence:
            with np.errstate(divide="ignore"):
                logs += np.log(_by_draw(table[..., evidence[node], :])[rows])
        else:
            codes[node] = _states(network, node, table, rows, rng)
    return logs, codes


def _kind(network: Network, node: str) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds a node's states."""
    return np.dtype(np.min_scalar_type(network.schema[node].size - 1))


def _rows(network: Network, node: str, codes: Mapping[str, Codes], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Position of each record's row in a table whose draws come first, shape `(draws, records)`."""
    rows = np.broadcast_to(np.arange(shape[0])[:, None], shape)
    for parent in network.parents[node]:
        rows = rows * network.schema[parent].size + codes[parent]
    return np.asarray(rows)


def _by_draw(table: Floats) -> Floats:
    """A table's values, those of each draw together, flat."""
    return np.moveaxis(table, -1, 0).ravel()


def _states(network: Network, node: str, table: Floats, rows: npt.NDArray[np.int64], rng: np.random.Generator) -> Codes:
    """A state for each record, by halving: shape as the rows'; none of probability 0."""
    size = network.schema[node].size
    sums = np.cumsum(table, axis=-2)
    sums /= sums[..., -1:, :]
    ends = _by_draw(sums)
    first, uniform = rows * size, rng.random(rows.shape)
    found = first
    step = 1 << max(0, (size - 1).bit_length() - 1)
    while step and size > 1:
        tried = found + step
        inside = tried - first < size
        found = np.where(inside & (uniform >= ends[np.where(inside, tried, 1) - 1]), tried, found)
        step >>= 1
    return (found - first).astype(_kind(network, node))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over records, by draw: of weights, of their squares, and of both by the states of each set.

    Weights are divided by the largest of their draw so far.

    Args:
        peak: logarithm of that largest weight, shape (draws,).
        whole: sums of the weights and of their squares, shape (2, draws).
        parts: by set, the same by joint state, shape (2, states, draws).
        shapes: by set, the sizes.
    """

    peak: Floats
    whole: Floats
    parts: dict[Scope, Floats]
    shapes: Mapping[Scope, tuple[int, ...]]

    @staticmethod
    def none(network: Network, scopes: Sequence[Scope], draws: int) -> _Sums:
        """Of no records."""
        shapes = {scope: tuple(network.schema[name].size for name in scope) for scope in scopes}
        parts = {scope: np.zeros((2, math.prod(shape), draws)) for scope, shape in shapes.items()}
        return _Sums(np.full(draws, -np.inf), np.zeros((2, draws)), parts, shapes)

    def add(self, part: slice, logs: Floats, codes: Mapping[str, Codes]) -> None:
        """Add the records of some draws."""
        peak = np.maximum(self.peak[part], logs.max(axis=-1))
        finite = np.where(np.isfinite(peak), peak, 0.0)
        with np.errstate(invalid="ignore"):
            fall = np.where(np.isfinite(self.peak[part]), np.exp(self.peak[part] - finite), 0.0)
        self.peak[part] = peak
        weights = np.exp(logs - finite[:, None])
        draws = np.arange(len(logs))[:, None]
        for power in (0, 1):
            self.whole[power, part] = self.whole[power, part] * fall ** (power + 1) + (weights ** (power + 1)).sum(-1)
        for scope, sums in self.parts.items():
            flat, states = draws, sums.shape[1]
            for name, size in zip(scope, self.shapes[scope], strict=True):
                flat = flat * size + codes[name]
            for power in (0, 1):
                new = np.bincount(flat.ravel(), (weights ** (power + 1)).ravel(), len(logs) * states)
                sums[power, :, part] = sums[power, :, part] * fall ** (power + 1) + new.reshape(-1, states).T

    def laws(self, records: int) -> WeightedLaws:
        """Ratios, and their variances by the delta method."""
        laws, errors = dict[Scope, Floats](), dict[Scope, Floats]()
        with np.errstate(invalid="ignore", divide="ignore"):
            for scope, (weights, squares) in self.parts.items():
                law = weights / self.whole[0]
                error = ((1 - 2 * law) * squares + law**2 * self.whole[1]) / self.whole[0] ** 2
                laws[scope] = law.reshape(*self.shapes[scope], -1)
                errors[scope] = np.maximum(error, 0.0).reshape(laws[scope].shape)
            effective = np.nan_to_num(self.whole[0] ** 2 / self.whole[1])
        return WeightedLaws(laws, errors, records, float(np.quantile(effective, FEW)))


class RecordPass:
    """Laws of sets of variables by made-up records that are drawn once, for tables made from the roots down.

    Args:
        scopes: the sets, none empty.
        cells: probabilities, shape `(*parents, child, draws)`; those of a set's ancestors are read when it is asked
            for, parents first.
        seed: of the records; a node has a generator of its own, so that no law depends on what was asked before.
    """

    def __init__(self, scopes: Sequence[Scope], cells: Tables, seed: int) -> None:
        self._cells, self._seed, network = cells, seed, cells.network
        above = network.ancestors({name for scope in scopes for name in scope})
        self._place = {node: index for index, node in enumerate(node for node in network.order if node in above)}
        self._sets: dict[str, list[Scope]] = {node: [] for node in self._place}
        for scope in scopes:
            for name in scope:
                self._sets[name].append(scope)
        self._waiting = {node: len(sets) for node, sets in self._sets.items()}
        for node in self._place:
            for parent in network.parents[node]:
                self._waiting[parent] += 1
        self._taken = set[str]()
        self._codes: dict[str, Codes] = {}
        self._laws: dict[Scope, Floats] = {}

    def law(self, scope: Scope) -> Floats:
        """`P(scope)` under every draw, shape `(*sizes, draws)`, as records say, one of whose sum is spread evenly."""
        if scope not in self._laws:
            for node in ancestors_beyond(self._cells.network, scope, self._taken):
                self._take(node)
        return self._laws[scope]

    def _take(self, node: str) -> None:
        """Draw a node's states, count the sets that are complete, and forget what nobody waits for any more."""
        network, draws = self._cells.network, self._cells.draws or 1
        rows = _rows(network, node, self._codes, (draws, RECORDS))
        rng = np.random.default_rng([self._seed, self._place[node]])
        self._codes[node] = _states(network, node, self._cells[node], rows, rng)
        self._taken.add(node)
        done = list(network.parents[node])
        for scope in self._sets[node]:
            if self._taken.issuperset(scope):
                self._laws[scope] = self._counted(scope, draws)
                done += scope
        for name in done:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._codes[name]

    def _counted(self, scope: Scope, draws: int) -> Floats:
        """Shares of records, shape `(*sizes, draws)`."""
        sizes = [self._cells.network.schema[name].size for name in scope]
        flat, states = np.arange(draws)[:, None], math.prod(sizes)
        for name, size in zip(scope, sizes, strict=True):
            flat = flat * size + self._codes[name]
        counts = np.bincount(flat.ravel(), minlength=draws * states).reshape(draws, states).T
        return np.asarray(((counts + 1 / states) / (RECORDS + 1)).reshape(*sizes, draws))
