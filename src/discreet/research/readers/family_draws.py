"""The posterior of a family's parameters, given draws that a mechanism made from it.

    k ~ the family's prior on its grid;   n public, or log(1 + n) flat and told with noise;
    X | k: n records of the family's law;
    z_j | X ~ exp(base_z + rate sum_i s(x_i, z)), independent given X, on the same grid;
    other data sets with draws of the same family likewise, independent given k, and public records as they are.

A released draw z is itself from a tempered posterior, so it lies about as far from the truth as that is wide, and what
it says of the parameters is a posterior wider than the one it came from. Particles are drawn together: a parameter, a
number of records, and counts of the types of records, each from its exact law; the released draws weigh them by their
probability given these counts, in which nothing is approximated. Parameters are proposed in part from the prior and in
part from where such draws come from, which the weights make up for.

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
"""Particles at once: with 4,096 points of a grid their scores take 16 MiB."""
LEAST_BLOCKS, MOST_BLOCKS = 8, 256
PILOT_DATA_SETS = 64
"""Data sets that are made up where the released draws point to."""
PRIOR_SHARE = 0.25
"""Of the proposals: no weight is more than four times what it would be from the prior."""
SINGLE_SET_SHARE = 0.25
"""Of the proposals, of what each data set alone points to: where several do not agree, all are looked at."""
LEAST_EFFECTIVE_PARTICLES = 400
"""Effective particles below which an interval would be chance."""


@dataclass(frozen=True, eq=False)
class FamilyPosterior(Posterior):
    """Draws of a family's parameters.

    Args:
        table: the family, public.
        index: points of its grid, int64, shape `(draws,)`.
        worth: independent draws that they are worth.

    Raises:
        Nothing: `read` makes these.

    Guarantee:
        None spent: draws say nothing that the release does not.

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
    worth: float

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
        """Number of independent draws that they are worth."""
        return self.worth

    def mean(self) -> Floats:
        """Posterior means of the parameters, shape `(parameters,)`."""
        return np.asarray(self.parameters.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Equal-tailed intervals of the parameters, which end at points of the grid.

        Args:
            level: posterior probability, between 0 and 1.

        Raises:
            InputError: a level outside (0, 1), or too few draws for it.
        """
        return tails(self.parameters, level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """Mean and interval of each parameter.

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
        evidence: draws of a family's parameters, by `sampled` or `scored`; or what `combine` made of several of one
            family, and of public records.
        draws: how many.
        rng: source of the draws.

    Returns:
        The posterior under the family's own prior.

    Raises:
        DiscreetError: released draws that hardly any parameter of the grid explains.

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
    reading = _FamilyEvidence(evidence_of(evidence))
    proposal = reading.proposal(rng)
    kept, logs = [], []
    for block in range(MOST_BLOCKS):
        particles = rng.choice(len(proposal), PARTICLES_AT_ONCE, p=proposal)
        told = reading.log_likelihood(particles, rng)
        kept.append(particles)
        logs.append(told + reading.log_before[particles] - np.log(proposal[particles]))
        weights = softmax(np.concatenate(logs))
        if block + 1 >= LEAST_BLOCKS and 1 / float(np.sum(weights**2)) >= max(draws, LEAST_EFFECTIVE_PARTICLES):
            break
    effective = 1 / float(np.sum(weights**2))
    if not effective >= LEAST_EFFECTIVE_PARTICLES / 4:
        raise DiscreetError("hardly any parameter of the family's grid explains what was released; nothing can be told")
    index = np.concatenate(kept)[rng.choice(len(weights), draws, p=weights)]
    return FamilyPosterior(reading.table, index, min(effective, float(draws)))


def family_cells(evidence: Evidence, draws: int, rng: np.random.Generator) -> tuple[Tables, Callable[[], float]]:
    """Probabilities of the family's variables under draws of its parameters.

    Args:
        evidence, draws, rng: as of `read`.

    Returns:
        Cells, shape `(*parents, child, draws)`, over the family's network; and a function that says how many
        independent draws they are worth.

    Raises:
        InputError: as `read`; or a network in which a variable lacks some of those before it as parents,
            so that its rows are not the family's.
    """
    posterior = draw_parameters(evidence, draws=draws, rng=rng)
    return family_rows(posterior.table, posterior.index), posterior.ess


def family_rows(table: ScoreTable, index: Ints) -> Tables:
    """Rows of each variable given all before it, by the family's law under some points of the grid.

    Args:
        table: of a family.
        index: of points of the grid, shape `(draws,)`.

    Returns:
        Cells, shape `(*parents, child, draws)`.

    Raises:
        InputError: a score whose candidates are no parameters of a law, or as `family_cells`.
    """
    network: Network = table.network
    names = network.nodes
    if any(set(network.parents[name]) != set(names[:at]) for at, name in enumerate(names)):
        raise InputError(
            "the variables of this family need arcs from each to all after it, to be asked about; its parameters are "
            "known all the same (family_posterior)"
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
    """Released draws of a family's parameters, and how probable they are under each point of the grid.

    Args:
        combined: draws of one family's parameters, from one data set or several, and perhaps public records.
    """

    combined: Combined

    @cached_property
    def payloads(self) -> tuple[tuple[ScoredChoice, ...], ...]:
        """The draws, data set by data set."""
        parts = ([part.one_release for part in parts] for parts in self.combined.data_sets)
        return tuple(tuple(release.payload_as(ScoredChoice) for release in releases) for releases in parts)

    @cached_property
    def table(self) -> ScoreTable:
        """The family."""
        return self.payloads[0][0].table_of_scores

    @cached_property
    def log_before(self) -> Floats:
        """Log-probabilities of the grid's points before any release: by the prior, and by public records."""
        logs = self.table.base - logsumexp(self.table.base)
        if self.combined.public is None:
            return np.asarray(logs)
        assert self.table.log_law is not None
        found = logs + _count_types(self.combined.public) @ self.table.log_law
        return np.asarray(found - logsumexp(found))

    def proposal(self, rng: np.random.Generator) -> Floats:
        """Chances of the grid's points: the prior's, and those of what would be drawn if a released draw were true.

        Of several data sets and public records, where each points to, and where all of them do together.
        """
        base, before = self.table.base - logsumexp(self.table.base), np.exp(self.log_before)
        near = []
        for at, payloads in enumerate(self.payloads):
            pilots = rng.choice(np.concatenate([payload.indices for payload in payloads]), PILOT_DATA_SETS)
            near.append(logsumexp(self._log_law_of_draws(payloads[0], self._draw_counts(at, pilots, rng)), axis=0))
        together = softmax(self.log_before + sum(part - base for part in near))
        each = np.mean([softmax(part) for part in near], axis=0)
        mixed = PRIOR_SHARE * before + SINGLE_SET_SHARE * each + (1 - PRIOR_SHARE - SINGLE_SET_SHARE) * together
        return np.asarray(mixed / mixed.sum())

    def log_likelihood(self, particles: Ints, rng: np.random.Generator) -> Floats:
        """Log-probability of what was drawn, given made-up records of each particle."""
        found = np.zeros(len(particles))
        for at, payloads in enumerate(self.payloads):
            counts = self._draw_counts(at, particles, rng)
            for payload in payloads:
                found += self._log_law_of_draws(payload, counts)[:, payload.indices].sum(axis=1)
        return found

    def _draw_counts(self, at: int, particles: Ints, rng: np.random.Generator) -> Floats:
        """Types of made-up records of one data set under each particle, shape (particles, types)."""
        number = self._draw_numbers(at, len(particles), rng)
        return rng.multinomial(number, self.table.law.T[particles]).astype(np.float64)

    def _log_law_of_draws(self, payload: ScoredChoice, counts: Floats) -> Floats:
        """Log law of a draw given counts of types, shape (particles, Z)."""
        steps = payload.table_of_scores.steps.astype(np.float64)
        # Scores around 0 for each type: what all candidates share cancels, and would cost digits.
        scores = payload.rate / SCORE_STEPS * (counts @ (steps - steps.mean(axis=1, keepdims=True)))
        return np.asarray(log_softmax(self.table.base + scores, axis=1))

    def _draw_numbers(self, at: int, size: int, rng: np.random.Generator) -> Ints:
        """Numbers of records of one data set."""
        records = self.combined.records[at]
        if records is not None:
            return np.full(size, records)
        totals = [payload.total for payload in self.payloads[at] if payload.total is not None]
        if not totals:
            raise InputError("the release has no number of records, neither public nor with noise")
        return measured_total_law([(total.value, total.scale) for total in totals]).sample(size, rng)


def _count_types(public: Tables) -> Floats:
    """Public records of each type."""
    network = public.network
    whole = next((node for node in network.nodes if set(network.family(node)) == set(network.nodes)), None)
    if whole is None:
        raise InputError(
            "public records tell of a family's parameters where its variables have arcs from each to all after it; "
            "read the release without them"
        )
    return np.asarray(margin(public[whole], network.family(whole), network.nodes), np.float64).ravel()


def draw_family(read: DrawTask, rng: np.random.Generator, progress: object = None) -> PosteriorDraws:
    """Draw a family's parameters, and say them of the network; public records are in its likelihood.

    Args:
        read: of choices by one family's scores.
        rng: source of the draws.
        progress: not told: nothing mixes.
    """
    cells, worth = family_cells(read.combined, read.draws, rng)
    return PosteriorDraws(cells, "family", worth=worth)
