"""Posterior of a family's parameters, given a mechanism's draws of them.

    k ~ the family's prior on its grid;   n public, or log(1 + n) uniform and observed with noise;
    X | k: n records of the family's law;
    z_j | X ~ exp(base_z + rate sum_i s(x_i, z)), independent given X, on the same grid;
    other data sets with draws of the same family likewise, independent given k, and public records as observed.

A released draw z comes from a tempered posterior, so its error has the width of that posterior, and the posterior given
z is wider. A particle is a parameter, a number of records, and counts of the types of records, each from its exact law.
Its weight is the probability of the released draws given these counts, without approximation. Parameters are proposed
in part from the prior and in part from where such draws are likely; the weights correct for this.

Source: Williams and McSherry (NIPS 2010), equation 3, for Dimitrakakis et al. (JMLR 2017), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from discreet.errors import DiscreetError, InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import DrawTask
from discreet.posterior.protocol import Posterior, name_rows, tails
from discreet.posterior.totals import measured_total_law
from discreet.releases.combined import Combined, Evidence, evidence_of
from discreet.research.kinds.scored_choice import ScoredChoice
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable
from discreet.util.arrays import Floats, Ints, margin
from discreet.util.option_texts import DEFAULT_LEVEL

PARTICLES_AT_ONCE = 512
"""Number of particles in a block: with 4,096 points of a grid their scores take 16 MiB."""
LEAST_BLOCKS, MOST_BLOCKS = 8, 256
PILOT_DATA_SETS = 64
"""Number of data sets simulated at the released draws."""
PRIOR_SHARE = 0.25
"""Share of the prior in the proposals: no weight exceeds four times that of proposals from the prior."""
SINGLE_SET_SHARE = 0.25
"""Share of the proposals by each data set alone, for data sets that do not agree."""
LEAST_EFFECTIVE_PARTICLES = 400
"""Least number of effective particles for a stable interval."""


@dataclass(frozen=True, eq=False)
class FamilyPosterior(Posterior):
    """Draws of a family's parameters.

    Args:
        table: of the family, public.
        index: points of its grid, int64, shape `(draws,)`.
        effective: effective sample size.

    Raises:
        Nothing: `read` makes these.

    Guarantee:
        None spent: draws are functions of the release.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> wait = dc.Variable.binned("wait", (0, 60), 12)
        >>> family = dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 0.5}, points=64)
        >>> posterior = dc.research.FamilyPosterior(family.table, np.array([10, 20, 30, 40]), 4.0)
        >>> posterior.names, posterior.parameters.shape
        (('rate',), (4, 1))
    """

    noun: ClassVar[str] = "parameter"
    method = "family"
    table: ScoreTable
    index: Ints
    effective: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.table.names

    @property
    def parameters(self) -> Floats:
        """Parameters, float64, shape `(draws, parameters)`."""
        return np.asarray(self.table.candidates[self.index])

    @property
    def draws(self) -> int:
        """Number of joint draws."""
        return len(self.index)

    def ess(self) -> float:
        """Return the effective sample size."""
        return self.effective

    def mean(self) -> Floats:
        """Compute posterior means of the parameters, shape `(parameters,)`."""
        return np.asarray(self.parameters.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of the parameters, which end at points of the grid.

        Args:
            level: posterior probability, between 0 and 1.

        Raises:
            InputError: a level outside (0, 1), or too few draws for it.
        """
        return tails(self.parameters, level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the mean and interval of each parameter.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each parameter `{"name", "mean", "lower", "upper"}`; intervals are equal-tailed, and end at points of
            the grid.

        Raises:
            InputError: a level outside (0, 1), or too few draws for it.
        """
        return name_rows([{"name": name} for name in self.names], self.parameters, tails, level)


def draw_parameters(evidence: Evidence, *, draws: int, rng: np.random.Generator) -> FamilyPosterior:
    """Draw a family's parameters: the reader by the method "parameters".

    Args:
        evidence: draws of a family's parameters, by `sampled` or `scored`; or a combination of several releases of one
            family, and of public records, by `combine`.
        draws: number of draws.
        rng: source of the draws.

    Returns:
        The posterior under the family's own prior.

    Raises:
        DiscreetError: hardly any parameter of the grid explains the released draws.

    Source:
        Williams and McSherry (NIPS 2010), equation 3, for Dimitrakakis et al. (JMLR 2017), Algorithm 1.

    Example:
        >>> import discreet as dc
        >>> wait = dc.Variable.binned("wait", (0, 60), 12)
        >>> family = dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 0.5}, points=64)
        >>> counts = dc.tools.count_codes(family.network, {"wait": [0, 1, 2, 3] * 50})
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> prior = dc.Dirichlet.uniform(family.network)
        >>> release = dc.simulate(dc.research.sampled(family, draws=5), counts, prior, promise, rng=1)
        >>> row = dc.read(release, method="parameters", draws=100, rng=1).rows()[0]
        >>> row["name"], 0.02 < row["lower"] < row["mean"] < row["upper"] < 0.5
        ('rate', True)
    """
    likelihoods = _FamilyEvidence(evidence_of(evidence))
    proposal = likelihoods.proposal(rng)
    blocks, logs = [], []
    for block in range(MOST_BLOCKS):
        particles = rng.choice(len(proposal), PARTICLES_AT_ONCE, p=proposal)
        likelihood = likelihoods.log_likelihood(particles, rng)
        blocks.append(particles)
        logs.append(likelihood + likelihoods.log_before[particles] - np.log(proposal[particles]))
        weights = softmax(np.concatenate(logs))
        if block + 1 >= LEAST_BLOCKS and 1 / float(np.sum(weights**2)) >= max(draws, LEAST_EFFECTIVE_PARTICLES):
            break
    effective = 1 / float(np.sum(weights**2))
    if not effective >= LEAST_EFFECTIVE_PARTICLES / 4:
        raise DiscreetError("hardly any parameter of the family's grid explains the released draws; check the family")
    index = np.concatenate(blocks)[rng.choice(len(weights), draws, p=weights)]
    return FamilyPosterior(likelihoods.table, index, min(effective, float(draws)))


def family_cells(evidence: Evidence, draws: int, rng: np.random.Generator) -> tuple[Tables, Callable[[], float]]:
    """Draw probabilities of the family's variables by draws of its parameters.

    Args:
        evidence, draws, rng: as for `read`.

    Returns:
        Cells, shape `(*parents, child, draws)`, over the family's network; and a function that returns the effective
        sample size.

    Raises:
        InputError: as `read`; or in the network a variable does not have all earlier ones as parents, so its rows are
            not the family's.
    """
    posterior = draw_parameters(evidence, draws=draws, rng=rng)
    return family_rows(posterior.table, posterior.index), posterior.ess


def family_rows(table: ScoreTable, index: Ints) -> Tables:
    """Compute rows of each variable given all before it, by the family's law at some points of the grid.

    Args:
        table: of a family.
        index: of points of the grid, shape `(draws,)`.

    Returns:
        Cells, shape `(*parents, child, draws)`.

    Raises:
        InputError: a score without a law of records, or as `family_cells`.
    """
    network: Network = table.network
    names = network.nodes
    if any(set(network.parents[name]) != set(names[:at]) for at, name in enumerate(names)):
        raise InputError(
            "queries need arcs from each variable of this family to all later ones; read its parameters with "
            "method='parameters' instead"
        )
    shape = tuple(network.schema[name].size for name in names)
    joint = table.law[:, index].reshape(*shape, len(index))
    cells = {}
    for at, name in enumerate(names):
        margin = joint.sum(axis=tuple(range(at + 1, len(names))))
        order = [names.index(parent) for parent in network.parents[name]]
        cells[name] = (margin / margin.sum(axis=at, keepdims=True)).transpose(*order, at, at + 1)
    return Tables(network, cells, draws=len(index))


@dataclass(frozen=True, eq=False)
class _FamilyEvidence:
    """Released draws of a family's parameters, and their likelihood at each point of the grid.

    Args:
        combined: draws of one family's parameters, from one data set or several, and perhaps public records.
    """

    combined: Combined

    @cached_property
    def payloads(self) -> tuple[tuple[ScoredChoice, ...], ...]:
        """Payloads of the draws, by data set."""
        data_sets = ([entry.one_release for entry in data_sets] for data_sets in self.combined.data_sets)
        return tuple(tuple(release.payload_as(ScoredChoice) for release in releases) for releases in data_sets)

    @cached_property
    def table(self) -> ScoreTable:
        """Table of the family."""
        return self.payloads[0][0].table_of_scores

    @cached_property
    def log_before(self) -> Floats:
        """Log-probabilities of the grid's points before any release, by the prior and public records."""
        logs = self.table.base - logsumexp(self.table.base)
        if self.combined.public is None:
            return np.asarray(logs)
        assert self.table.log_law is not None
        updated = logs + _count_types(self.combined.public) @ self.table.log_law
        return np.asarray(updated - logsumexp(updated))

    def proposal(self, rng: np.random.Generator) -> Floats:
        """Compute probabilities of proposals: a mixture of the prior, and of draws simulated at the released ones.

        For several data sets and public records the mixture has a term for each, and one for all of them together.
        """
        base, before = self.table.base - logsumexp(self.table.base), np.exp(self.log_before)
        set_logs = []
        for at, payloads in enumerate(self.payloads):
            pilots = rng.choice(np.concatenate([payload.indices for payload in payloads]), PILOT_DATA_SETS)
            set_logs.append(logsumexp(self._log_law_of_draws(payloads[0], self._draw_counts(at, pilots, rng)), axis=0))
        together = softmax(self.log_before + sum(logs - base for logs in set_logs))
        single = np.mean([softmax(logs) for logs in set_logs], axis=0)
        mixed = PRIOR_SHARE * before + SINGLE_SET_SHARE * single + (1 - PRIOR_SHARE - SINGLE_SET_SHARE) * together
        return np.asarray(mixed / mixed.sum())

    def log_likelihood(self, particles: Ints, rng: np.random.Generator) -> Floats:
        """Compute the log-probability of the released draws, given simulated records of each particle."""
        total = np.zeros(len(particles))
        for at, payloads in enumerate(self.payloads):
            counts = self._draw_counts(at, particles, rng)
            for payload in payloads:
                total += self._log_law_of_draws(payload, counts)[:, payload.indices].sum(axis=1)
        return total

    def _draw_counts(self, at: int, particles: Ints, rng: np.random.Generator) -> Floats:
        """Simulate counts of types for one data set under each particle, shape (particles, types)."""
        number = self._draw_numbers(at, len(particles), rng)
        return rng.multinomial(number, self.table.law.T[particles]).astype(np.float64)

    def _log_law_of_draws(self, payload: ScoredChoice, counts: Floats) -> Floats:
        """Compute the log law of a draw given counts of types, shape (particles, Z)."""
        steps = payload.table_of_scores.steps.astype(np.float64)
        # Centred scores for each type: a common term cancels, and would cost accuracy.
        scores = payload.rate / SCORE_STEPS * (counts @ (steps - steps.mean(axis=1, keepdims=True)))
        return np.asarray(log_softmax(self.table.base + scores, axis=1))

    def _draw_numbers(self, at: int, size: int, rng: np.random.Generator) -> Ints:
        """Draw numbers of records of one data set."""
        records = self.combined.records[at]
        if records is not None:
            return np.full(size, records)
        totals = [payload.total for payload in self.payloads[at] if payload.total is not None]
        if not totals:
            raise InputError("the release has no number of records, neither public nor noisy")
        return measured_total_law([(total.value, total.scale) for total in totals]).sample(size, rng)


def _count_types(public: Tables) -> Floats:
    """Count the public records of each type."""
    network = public.network
    last = next((node for node in network.nodes if set(network.family(node)) == set(network.nodes)), None)
    if last is None:
        raise InputError(
            "public records need arcs from each variable of the family to all later ones; read the release without "
            "public records"
        )
    return np.asarray(margin(public[last], network.family(last), network.nodes), np.float64).ravel()


def draw_family(read: DrawTask, rng: np.random.Generator, progress: object = None) -> PosteriorDraws:
    """Draw a family's parameters, and convert them to rows of the network; public records are in the likelihood.

    Args:
        read: of choices by one family's scores.
        rng: source of the draws.
        progress: not called, as there are no chains.
    """
    cells, find_ess = family_cells(read.combined, read.draws, rng)
    return PosteriorDraws(cells, "family", find_ess=find_ess)
