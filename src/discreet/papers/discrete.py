"""Conjugate families of the JMLR paper's Section 5 for discrete data: Bernoulli records, networks, Markov chains.

The members are those of `conjugate.Family`; what is said there of losses and of draws holds here too: draws use
floating point and a seeded generator, are for analysis on the public side, and are never released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, expit

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.tables import Tables
from discreet.papers.conjugate import checked_distance, within
from discreet.papers.simplex import truncated_dirichlet
from discreet.privacy.guarantee import Relation
from discreet.theory.likelihood_sensitivity import log_range, record_loss
from discreet.theory.truncated import truncated_beta

__all__ = ["BetaBinomial", "DiscreteNetwork", "MarkovChain"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BetaBinomial:
    """Zeros and ones with an unknown probability theta of a one: Beta(alpha, beta) on [floor, 1 - floor].

    Distance: `rho = sum_i |x_i - y_i|`, the number of records that differ. With floor 0 the prior is not trimmed, no
    finite pure guarantee exists, and `replace_delta` has the exact approximate one.

    Args:
        alpha, beta: concentrations, unit: records.
        floor: 0 <= floor < 1/2.

    Raises:
        InputError: an argument out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 21, whose untrimmed constants are vacuous; trimmed as in Zhang et al.
        (AAAI 2016).

    Example:
        >>> round(BetaBinomial(1, 1, 0.1).record_loss(Relation.REPLACE), 3)
        4.394
        >>> round(BetaBinomial(1, 1, 0).replace_delta(50, 0.0), 4)
        0.3715
    """

    alpha: float
    beta: float
    floor: float

    def __post_init__(self) -> None:
        """Refuse what is no proper law."""
        if not (0 < self.alpha < math.inf and 0 < self.beta < math.inf and 0 <= self.floor < 0.5):
            raise InputError("a beta prior needs alpha > 0, beta > 0, and a floor from 0 to below 1/2")

    def posterior(self, data: npt.ArrayLike) -> BetaBinomial:
        """The family after zeros and ones of shape `(records,)`; InputError where a value is neither."""
        x = within(data, 0, 1)
        if not np.all((x == 0) | (x == 1)):
            raise InputError("data must be zeros and ones")
        return BetaBinomial(self.alpha + x.sum(), self.beta + x.size - x.sum(), self.floor)

    def draws(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws of theta, shape `(size,)`."""
        return truncated_beta(self.alpha, self.beta, self.floor, 1 - self.floor, size, rng)

    def loss(self, rho: float) -> float:
        """`2 ln((1 - floor) / floor) rho`, nats; InputError where the prior is not trimmed."""
        return 2 * self._range() * checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE: `2 ln((1 - floor) / floor)`, ADD_REMOVE: half of it, nats; InputError where it is not trimmed."""
        return self._range() * Relation(relation).by_record(1, 2)

    def replace_delta(self, records: int, epsilon: float) -> float:
        """Exact delta at an epsilon of one untrimmed draw after `records` records, one of them replaced.

        The hockey-stick divergence of Beta(a + 1, b) and Beta(a, b + 1), both ways, largest over all data; at epsilon 0
        the total variation. The ratio of the two densities rises with theta, so the best event is a half-line.

        Args:
            records: number of records, at least 1.
            epsilon: nats, at least 0.

        Returns:
            Delta. For alpha = beta = a and epsilon 0 it tends to `a^a exp(-a) / Gamma(a + 1)` with more records.

        Raises:
            InputError: the prior is trimmed (`record_loss` is pure), no record, or a negative epsilon.
        """
        if self.floor > 0:
            raise InputError("a trimmed posterior has a pure guarantee: use record_loss")
        if not (records >= 1 and 0 <= epsilon < math.inf):
            raise InputError("an exact delta needs at least one record and a finite epsilon of at least 0")
        ones = np.arange(records)
        a, b = self.alpha + ones, self.beta + records - 1 - ones
        cut, grow = np.log(a) - np.log(b), math.exp(epsilon)
        below, above = expit(cut - epsilon), expit(-cut - epsilon)
        upward = betainc(b, a + 1, above) - grow * betainc(b + 1, a, above)
        downward = betainc(a, b + 1, below) - grow * betainc(a + 1, b, below)
        return max(float(upward.max()), float(downward.max()), 0.0)

    def _range(self) -> float:
        """Range of ln theta on the support."""
        if self.floor == 0:
            raise InputError(
                "an untrimmed beta posterior has no finite pure loss: ln theta is unbounded; give a floor, or use "
                "replace_delta for its exact delta"
            )
        return log_range(2, self.floor)


@dataclass(frozen=True, eq=False)
class DiscreteNetwork:
    """The rows of a discrete Bayesian network: independent Dirichlet rows, each probability at least its node's floor.

    Distance: `rho = sum over records and nodes that differ of (1 + out-degree of the node)`, as in the paper; a node
    that differs moves its own family and those of its children.

    Args:
        prior: concentrations, unit: records.
        floors: by node, greater than 0 and less than one over the number of states.

    Raises:
        InputError: a floor is missing or out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24, corrected: its classical epsilon `2 max_k (1 + deg_k) ln(1 / w)` is
        for one attribute, not for a record.
    """

    prior: Dirichlet
    floors: Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuse floors out of range."""
        record_loss(self.prior.network, self.floors, Relation.REPLACE)

    def posterior(self, data: Tables) -> DiscreteNetwork:
        """The family after counts, axes `(*parents, child)`."""
        return DiscreteNetwork(self.prior.updated(data), self.floors)

    def draws(self, size: int, rng: np.random.Generator) -> Tables:
        """Independent draws of all rows, shape `(*parents, child, size)`; InputError as of `truncated_dirichlet`."""
        network = self.prior.network
        return Tables(
            network,
            {node: _rows(self.prior.alpha[node], self.floors[node], size, rng) for node in network.nodes},
            draws=size,
        )

    def loss(self, rho: float) -> float:
        """`2 max_k Lambda_k rho`, nats."""
        network = self.prior.network
        ranges = (log_range(network.schema[node].size, self.floors[node]) for node in network.nodes)
        return 2 * max(ranges, default=0.0) * checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE: `2 sum_k Lambda_k`, ADD_REMOVE: half of it, nats; approached as records are added."""
        return record_loss(self.prior.network, self.floors, relation)


@dataclass(frozen=True, eq=False)
class MarkovChain:
    """A time-homogeneous chain over K states: Dirichlet transition rows, each probability at least the floor.

    The protected event is ONE TIME STEP of the one observed sequence, not a person. Distance: the number of time steps
    that differ. The first state is not modelled.

    Args:
        alpha: concentrations, shape (K, K), axes (from, to), unit: transitions.
        floor: greater than 0, less than 1 / K.

    Raises:
        InputError: an argument out of its range.

    Source:
        Dimitrakakis et al. (JMLR 2017), after Lemma 24: `4 ln(1 / w)`; exactly `4 ln((1 - (K - 1) w) / w)`.
    """

    alpha: Floats
    floor: float

    def __post_init__(self) -> None:
        """Refuse what is no proper law of transitions."""
        alpha = np.array(self.alpha, np.float64)
        if alpha.ndim != 2 or not alpha.size or alpha.shape[0] != alpha.shape[1]:
            raise InputError(f"concentrations of transitions need the shape (states, states), got {alpha.shape}")
        if not (np.all(alpha > 0) and np.all(np.isfinite(alpha))):
            raise InputError("every concentration must be a finite number greater than 0")
        log_range(len(alpha), self.floor)
        object.__setattr__(self, "alpha", alpha)

    def posterior(self, data: npt.ArrayLike) -> MarkovChain:
        """The family after a sequence of codes of states, shape `(steps,)`; InputError where a code is unknown."""
        codes = np.asarray(data)
        if codes.ndim != 1 or not np.issubdtype(codes.dtype, np.integer):
            raise InputError("a sequence must be whole numbers of shape (steps,)")
        within(codes, 0, len(self.alpha) - 1)
        counts = np.zeros_like(self.alpha)
        np.add.at(counts, (codes[:-1], codes[1:]), 1)
        return MarkovChain(self.alpha + counts, self.floor)

    def draws(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws of all rows, shape `(K, K, size)`; InputError as of `truncated_dirichlet`."""
        return _rows(self.alpha, self.floor, size, rng)

    def loss(self, rho: float) -> float:
        """`4 Lambda rho`, nats: a replaced step moves the transitions into it and out of it."""
        return 4 * log_range(len(self.alpha), self.floor) * checked_distance(rho)

    def record_loss(self, relation: Relation) -> float:
        """REPLACE a time step: `4 Lambda`. ADD_REMOVE: `3 Lambda`, as a step put in makes two transitions of one."""
        return log_range(len(self.alpha), self.floor) * Relation(relation).by_record(3, 4)


def _rows(alpha: Floats, floor: float, size: int, rng: np.random.Generator) -> Floats:
    """Trimmed draws of every row of a table, shape `(*parents, child, size)`."""
    drawn = [truncated_dirichlet(row, floor, size, rng) for row in alpha.reshape(-1, alpha.shape[-1])]
    return np.asarray(drawn).reshape(*alpha.shape, size)
