"""Scores of every type of record for every candidate, as a public table of whole numbers.

The exponential mechanism draws candidate z with `P(z) ~ exp(base_z + rate sum_i s(x_i, z))`, where each record's score
s is in a stated range. Here the score is tabulated before any record is read: a type of record is a joint state of a
few variables (a number is represented by its bin), and the score of a type for a candidate is clamped and rounded to a
whole number of steps, type by type. So no record enters the table, for any function that made it, the sensitivity of a
sum of scores is a property of a public table of integers, and sums are exact.

Williams and McSherry's factored mechanism has any factor phi (`s = ln phi`), Dimitrakakis et al.'s sampler the
log-likelihood of a family over a grid of its parameters with the prior as base measure, and Zhang et al.'s MAP the
log-likelihood of finitely many candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy

from discreet.errors import InputError, listed, require, shown
from discreet.model.network import Network
from discreet.model.schema import Scope, bin_ends
from discreet.util.arrays import Floats, Ints, freeze, number, numbers

# --------------------------------------------------------------------------------------------------------------------
# Scores with a Lipschitz constant, which bounds the information about a change of a reading.


def smooth_score(score: Floats, network: Network, lipschitz: float) -> Floats:
    """Lower scores, as little as possible, until they change by at most L for each unit of the reading.

    A draw depends on differences of candidates alone, so a term that all candidates share at a reading costs nothing.
    It is separated first: its change from one bin to the next is the middle between the largest and the smallest change
    of a candidate. The rest is replaced by the largest function below it that is L-Lipschitz in the distance of the
    bins' middles, `min_y f(y) + L |x - y|`. Scores that satisfy Assumption 1 with L do not change, as the rest then
    changes by at most L.

    Args:
        score: of each bin for each candidate, finite, shape `(bins, Z)`.
        network: of one numeric variable with bins.
        lipschitz: L, in the score's unit for each unit of the variable, greater than 0.

    Returns:
        Scores of the same shape; any two candidates' difference changes by at most `2 L |x - y|`.

    Raises:
        InputError: another network, or an invalid constant.

    Source:
        The envelope of Pasch and Hausdorff (Rockafellar and Wets, Variational Analysis, Example 9.11); Dimitrakakis et
        al. (JMLR 2017), Assumption 1.
    """
    if len(network.variables) > 1 or network.variables[0].bounds is None:
        raise InputError("a Lipschitz constant needs one numeric variable with bins, whose changes have a size")
    if not 0 < lipschitz < math.inf:
        raise InputError(
            f"a Lipschitz constant must be a finite number greater than 0, in nats for each unit, not {lipschitz}"
        )
    ends = np.array(bin_ends(network.variables[0]))
    most = lipschitz * np.diff((ends[1:] + ends[:-1]) / 2)
    changes = np.diff(score, axis=0)
    common = np.cumsum(np.append(0.0, (changes.max(axis=1) + changes.min(axis=1)) / 2))
    apart = score - common[:, None]
    lowered = apart.copy()
    # Distances along a line add up, so one pass in each direction is enough.
    for at in range(1, len(lowered)):
        lowered[at] = np.minimum(lowered[at], lowered[at - 1] + most[at - 1])
    for at in range(len(lowered) - 2, -1, -1):
        lowered[at] = np.minimum(lowered[at], lowered[at + 1] + most[at])
    # Scores that are not lowered stay equal to the last bit.
    return np.asarray(score - (apart - lowered))


Types = Mapping[str, npt.NDArray[np.generic]]
Function = Callable[[Types, Floats], npt.ArrayLike]
"""Function from types of records (for each variable an array: names of states, or middles of bins) and candidates,
shape `(Z, d)`, to scores of shape `(types, Z)`."""

SCORE_STEPS = 2**20
"""Steps from the lowest to the highest score of a record: scores are whole multiples of 2^-20 of their range."""
MOST_TYPES = 2**13
"""Most types of records of a table."""
CANDIDATES = 2**13
"""Most candidates: an exact draw takes about ten microseconds for each."""
MOST_SCORE_CELLS = 2**23
"""Most cells of a table: 64 MiB."""
WIDEST = 1e6
"""Largest range of scores, and of log weights, in nats: wider ones have no use."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Score of every type of record for every candidate, public and in whole steps.

    Args:
        network: its joint states are the types, the last variable fastest. Its arcs define the laws of records that a
            posterior considers; the mechanism ignores them.
        names: of the candidates' numbers.
        candidates: float64, shape `(Z, len(names))`.
        base: log weights of the candidates before any record, float64, shape `(Z,)`.
        steps: int64 from 0 to `SCORE_STEPS`, shape `(types, Z)`.
        span: size of `SCORE_STEPS` steps in the unit of the score; nats for a log-likelihood.
        log_law: log probability of each type under each candidate, shape `(types, Z)`, if candidates are parameters of
            a law of records; else None.

    Raises:
        InputError: shapes that do not fit, steps out of their range, too many types or candidates, or numbers that are
            not finite.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()})
        >>> table = dc.research.ScoreTable(coin, ("z",), [[0.2], [0.8]], [0, 0], [[2**20, 0], [0, 2**20]])
        >>> table.scope, table.size
        (('x',), 2)
    """

    network: Network
    names: tuple[str, ...]
    candidates: Floats
    base: Floats
    steps: Ints
    span: float = 1.0
    log_law: Floats | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays, and refuse an invalid score."""
        candidates, base = np.asarray(self.candidates, np.float64), np.asarray(self.base, np.float64)
        freeze(self, names=tuple(self.names), candidates=candidates, base=base, steps=np.asarray(self.steps, np.int64))
        freeze(self, log_law=None if self.log_law is None else np.asarray(self.log_law, np.float64))
        types, size = types_of(self.network), len(self.candidates)
        check_size(self.network, size)
        if self.candidates.shape != (size, len(self.names)) or not np.all(np.isfinite(self.candidates)):
            raise InputError("candidates must be rows of finite numbers, one number for each name")
        if self.base.shape != (size,) or not np.all(np.abs(self.base) <= WIDEST):
            raise InputError(f"a base measure needs one log weight for each candidate, within {WIDEST:,.0f}")
        if self.steps.shape != (types, size) or not np.all((self.steps >= 0) & (self.steps <= SCORE_STEPS)):
            raise InputError(
                f"a score needs steps from 0 to {SCORE_STEPS:,} for {types:,} types and {size:,} candidates"
            )
        if not 0 < self.span <= WIDEST:
            raise InputError(f"the range of a score must be greater than 0 and at most {WIDEST:,.0f}")
        if self.log_law is not None and (
            self.log_law.shape != (types, size)
            or not np.all(np.abs(scipy.special.logsumexp(self.log_law, axis=0)) < 1e-6)
        ):
            raise InputError("a law of records needs, for each candidate, log probabilities of all types that sum to 1")

    def same_family(self, table: ScoreTable) -> bool:
        """True if another table has the same candidates, prior weights and laws of records."""
        fields = ("candidates", "base", "log_law")
        return all(np.array_equal(getattr(self, name), getattr(table, name)) for name in fields)

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @property
    def scope(self) -> Scope:
        """Variables of the types, in the order of the table."""
        return self.network.nodes

    @cached_property
    def law(self) -> Floats:
        """Probability of each type under each candidate, shape `(types, Z)`; InputError without a law."""
        if self.log_law is None:
            raise InputError("this score has no law of records; `own_family` makes a score with one")
        law = np.exp(self.log_law)
        return np.asarray(law / law.sum(axis=0))


def own_score(
    network: Network,
    function: Function,
    candidates: npt.ArrayLike,
    *,
    low: float,
    high: float,
    base: npt.ArrayLike | None = None,
    names: Scope = (),
) -> ScoreTable:
    """Make a score of your own: any function of a record and a candidate, clamped to a range.

    The function gets all types of records, and no record. It is called twice, on the types in two orders; its result
    for a type must not depend on that.

    Args:
        network: of few variables: their joint states are the types, at most 8,192.
        function: from types (for each variable an array of their states' names, or of the middles of its bins) and
            candidates, shape `(Z, d)`, to scores of shape `(types, Z)`; a higher score is a better fit.
        candidates: public, shape `(Z, d)` or `(Z,)`, at least two.
        low, high: range of the score; values beyond it are moved to its nearest end.
        base: log weights of the candidates before any record; None for equal ones.
        names: of the candidates' numbers; z, or z1, z2, ... if left out.

    Returns:
        The table.

    Raises:
        InputError: the function fails, or its result has another shape, is NaN, or changes in a second call; or an
            empty range.

    Guarantee:
        None spent: no record is read.

    Source:
        Williams and McSherry (NIPS 2010), Section 2, with `phi = exp(score)`.

    Example:
        >>> import discreet as dc
        >>> ages = dc.Network.empty(dc.Schema((dc.Variable("age", bounds=(0, 100), bins=(25, 50, 75)),)))
        >>> distance = lambda types, z: -abs(types["age"][:, None] - z[:, 0])
        >>> nearest = dc.research.own_score(ages, distance, [20, 60], low=-50, high=0)
        >>> (nearest.steps / 2**20).round(3).tolist()
        [[0.85, 0.05], [0.65, 0.55], [0.15, 0.95], [0.0, 0.45]]
    """
    _require_network(network)
    low, high = number(low, "the low end of a score's range"), number(high, "the high end of a score's range")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"a score needs a range from low to high, two finite numbers in this order, not {low}, {high}")
    rows = _shape_candidates(candidates)
    types = record_types(network)
    check_size(network, len(rows))
    scores = _call_twice(function, types, rows)
    steps = np.rint((np.clip(scores, low, high) - low) / (high - low) * SCORE_STEPS)
    weights = np.zeros(len(rows)) if base is None else numbers(base, "log weights of a base measure")
    return ScoreTable(network, _name_numbers(names, rows), rows, weights, steps.astype(np.int64), high - low)


def own_family(
    network: Network,
    log_likelihood: Function,
    candidates: npt.ArrayLike,
    *,
    prior: npt.ArrayLike | None = None,
    bound: float | None = None,
    lipschitz: float | None = None,
    names: Scope = (),
) -> ScoreTable:
    """Make a family of your own: a log-likelihood of records on a public grid of its parameters.

    Args:
        network: of the records' variables, at most 8,192 joint states. With all arcs, the parameters' posterior can
            answer queries about several variables.
        log_likelihood: from types and candidates to log-likelihoods, as for `own_score`; for a type that is a bin, the
            log density at its middle. It is normalised over the types for each candidate.
        candidates: the grid, shape `(Z, d)` or `(Z,)`.
        prior: weights of the grid's points; None for equal ones.
        bound: nats to which a record's log-likelihood is clamped below that of its most probable candidate. It makes
            draws cheaper and more dispersed. None for no clamp.
        lipschitz: nats for each unit of the records' one numeric variable: log-likelihoods that change faster, apart
            from terms common to all candidates, are lowered, see `smooth_score`. It makes draws under a metric cheaper,
            and more dispersed if the constant is smaller than the family's. None for no such limit.
        names: of the parameters.

    Returns:
        The table. Its score is the clamped and lowered log-likelihood; its law of records, which readers use, is the
        true one.

    Raises:
        InputError: as `own_score`; a likelihood of 0 without a bound, or invalid weights.

    Guarantee:
        None spent. A bound or a constant that is too small for the likelihood changes the posterior, not the guarantee,
        which is computed from the table. Under a metric (`metric_width`) a constant L costs at most `2 L` for each unit
        of the variable, if the guarantee's unit is one or several equally wide bins (in floating point), and at most
        `2 L (unit + widest bin)` in any case.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 1. The constant is that of their Assumption 1, which holds for the
        clamped likelihood; no condition on the prior's mass, as their Assumption 2, is needed.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("x", ("no", "yes")),), {"x": ()})
        >>> chances = lambda t, z: np.log(np.where(t["x"][:, None] == "yes", z[:, 0], 1 - z[:, 0]))
        >>> dc.research.own_family(coin, chances, [0.2, 0.8]).law.round(3).tolist()
        [[0.8, 0.2], [0.2, 0.8]]
    """
    _require_network(network)
    rows, types = _shape_candidates(candidates), record_types(network)
    check_size(network, len(rows))
    logs = _call_twice(log_likelihood, types, rows, least=-math.inf)
    with np.errstate(invalid="ignore"):
        logs = logs + _find_log_sizes(network)[:, None]
        logs = logs - scipy.special.logsumexp(logs, axis=0)
    if np.any(np.isnan(logs)):
        raise InputError("under some candidate all types of records have a likelihood of 0; leave that candidate out")
    impossible = np.flatnonzero(logs.max(axis=1) == -math.inf)
    if len(impossible):
        values_text = listed([f"{name}={values[impossible[0]]}" for name, values in types.items()])
        raise InputError(
            f"the type of record {values_text} has a likelihood of 0 under every candidate; leave it out of the states "
            "or bounds, or give it a positive one under some candidate"
        )
    weights = np.ones(len(rows)) if prior is None else numbers(prior, "weights of a prior")
    if weights.shape != (len(rows),) or not np.all((weights > 0) & np.isfinite(weights)):
        raise InputError("a prior needs one weight greater than 0 for each candidate")
    base = np.log(weights / weights.sum())
    return likelihood_table(network, _name_numbers(names, rows), rows, base, logs, (bound, lipschitz))


def likelihood_table(
    network: Network,
    names: Scope,
    candidates: Floats,
    base: Floats,
    log_law: Floats,
    declared: tuple[float | None, float | None],
) -> ScoreTable:
    """Make the table of a log-likelihood, relative to the most probable candidate of each type.

    Args:
        network, names, candidates, base, log_law: as for `ScoreTable`.
        declared: bound, nats, None for no bound; and Lipschitz constant, nats for each unit of the one variable, None
            for no limit.

    Raises:
        InputError: an invalid bound or constant, or a likelihood with too wide a range.
    """
    bound, lipschitz = (
        None if value is None else number(value, subject)
        for value, subject in zip(declared, ("a bound on log-likelihoods", "a Lipschitz constant"), strict=True)
    )
    below = log_law - log_law.max(axis=1, keepdims=True)
    widest = -float(below.min())
    if bound is not None and not 0 < bound < math.inf:
        raise InputError(f"a bound on log-likelihoods must be a number of nats greater than 0, not {bound}")
    span = widest if bound is None else min(bound, widest)
    if not 0 < span <= WIDEST:
        raise InputError(
            "a record's likelihoods are equal for all candidates, or too far apart for any guarantee; state a bound in "
            "nats, or another range of parameters"
        )
    below = np.maximum(below, -span)
    if lipschitz is not None:
        below = smooth_score(below, network, lipschitz)
        # Relative to the most probable candidate, which stays at 0, and clamped, the score changes no faster.
        below = np.maximum(below - below.max(axis=1, keepdims=True), -span)
        span = -float(below.min())
        if not span > 0:
            raise InputError("with this Lipschitz constant all scores are equal; use a larger one")
    steps = np.rint((1 + below / span) * SCORE_STEPS).astype(np.int64)
    return ScoreTable(network, names, candidates, base, steps, span, log_law)


def record_types(network: Network) -> dict[str, npt.NDArray[np.generic]]:
    """List all joint states of a network's variables, the last variable fastest.

    Args:
        network: of few variables.

    Returns:
        For each variable the state's name in every type; for a numeric one the middle of its bin.

    Raises:
        InputError: too many joint states, or a numeric variable without bins.

    Example:
        >>> from discreet.model.schema import Variable
        >>> study = Network.empty([Variable("ill", ("no", "yes")), Variable("age", bounds=(0, 90), bins=(30,))])
        >>> record_types(study)["age"].tolist()
        [15.0, 60.0, 15.0, 60.0]
    """
    check_size(network, 2)
    columns = [_list_values(network, name) for name in network.nodes]
    grids = np.meshgrid(*columns, indexing="ij")
    return {name: grid.ravel() for name, grid in zip(network.nodes, grids, strict=True)}


def types_of(network: Network) -> int:
    """Count the types of records: joint states of the network.

    Example:
        >>> from discreet.model.schema import Variable
        >>> study = Network.empty([Variable("ill", ("no", "yes")), Variable("age", bounds=(0, 90), bins=(30,))])
        >>> types_of(study)
        4
    """
    for name in network.nodes:
        if not network.schema[name].size:
            raise InputError(f"a score needs states of {shown(name)}; declare bins for this variable")
    return math.prod(network.schema[name].size for name in network.nodes)


def _list_values(network: Network, name: str) -> npt.NDArray[np.generic]:
    """List the states of a variable, or the middles of its bins."""
    variable = network.schema[name]
    if variable.bounds is None:
        return np.array(variable.states)
    ends = np.array(bin_ends(variable))
    return np.asarray((ends[1:] + ends[:-1]) / 2)


def _find_log_sizes(network: Network) -> Floats:
    """Compute the logarithm of each type's size, the product of the widths of its bins."""
    total = np.zeros(())
    for name in network.nodes:
        variable = network.schema[name]
        sizes = np.diff(bin_ends(variable)) if variable.numeric else np.ones(variable.size)
        total = np.add.outer(total, np.log(sizes))
    return np.asarray(total.ravel())


def _call_twice(function: Function, types: Types, candidates: Floats, least: float | None = None) -> Floats:
    """Call a user's function on copies of all types twice, and refuse it if the results differ."""
    size = len(next(iter(types.values())))
    order = np.arange(size)[::-1]
    first = _call_once(function, types, candidates, size)
    again = _call_once(function, {name: values[order] for name, values in types.items()}, candidates, size)
    if not np.array_equal(first[order], again, equal_nan=True):
        raise InputError(
            "the score of a record changed in a second call or in another order; it must be a function of one record "
            "and one candidate, without randomness or memory"
        )
    invalid = np.isnan(first) | (first == math.inf) | ((first == -math.inf) & (least is None))
    if np.any(invalid):
        at = int(np.argwhere(invalid)[0, 0])
        values_text = listed([f"{name}={values[at]}" for name, values in types.items()])
        raise InputError(f"the score of the type of record {values_text} is not a finite number")
    return first


def _call_once(function: Function, types: Types, candidates: Floats, size: int) -> Floats:
    """Call the user's function once on copies of all types."""
    try:
        scores = np.array(function({name: values.copy() for name, values in types.items()}, candidates.copy()), float)
    except Exception as error:
        raise InputError(f"the score failed on the types of records: {type(error).__name__}: {error}") from None
    if scores.shape != (size, len(candidates)):
        raise InputError(
            f"the score must have the shape (types, candidates) = {(size, len(candidates))}, not {scores.shape}"
        )
    return scores


def _require_network(network: object) -> None:
    """Refuse other objects than a network, such as a schema or a design."""
    require(isinstance(network, Network), "a score needs a Network: `Network.empty(schema)` makes one without arcs")


def _shape_candidates(candidates: npt.ArrayLike) -> Floats:
    """Read candidates as rows of numbers."""
    array = numbers(candidates, "candidates")
    return array[:, None] if array.ndim == 1 else array


def _name_numbers(names: Scope, candidates: Floats) -> Scope:
    """Name the candidates' numbers."""
    size = candidates.shape[1] if candidates.ndim == 2 else 0
    return tuple(names) or (("z",) if size == 1 else tuple(f"z{at + 1}" for at in range(size)))


def check_size(network: Network, candidates: int) -> None:
    """Refuse tables that are too large, or have fewer than two candidates.

    Args:
        network: of the types' variables.
        candidates: number of candidates.

    Raises:
        InputError: the size is out of range.
    """
    types = types_of(network)
    if candidates < 2:
        raise InputError(f"there must be at least two candidates to choose from, got {candidates}")
    if types > MOST_TYPES or candidates > CANDIDATES or types * candidates > MOST_SCORE_CELLS:
        raise InputError(
            f"{types:,} types of records and {candidates:,} candidates are more than a table holds ({MOST_TYPES:,}, "
            f"{CANDIDATES:,}, and {MOST_SCORE_CELLS:,} cells); use fewer variables, wider bins or fewer candidates"
        )
