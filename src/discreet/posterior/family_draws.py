"""The posterior of a family's parameters, given draws that a mechanism made from it.

    k ~ the family's prior on its grid;   n public, or log(1 + n) flat and told with noise;
    X | k: n records of the family's law;
    z_j | X ~ exp(base_z + rate sum_i s(x_i, z)), independent given X, on the same grid.

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

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, logsumexp, softmax

from discreet.errors import DiscreetError, InputError
from discreet.model.network import Network
from discreet.model.score_tables import STEPS, ScoreTable
from discreet.model.tables import Tables
from discreet.posterior.design.weight_posterior import tails
from discreet.posterior.totals import told_law
from discreet.releases.kinds.scored_choice import ScoredChoice
from discreet.releases.release import Release

__all__ = ["FamilyPosterior", "family_cells", "family_posterior", "family_rows", "of_family"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

BLOCK = 512
"""Particles at once: with 4,096 points of a grid their scores take 16 MiB."""
LEAST_BLOCKS, MOST_BLOCKS = 8, 256
PILOTS = 64
"""Data sets that are made up where the released draws point to."""
PRIOR_SHARE = 0.25
"""Of the proposals: no weight is more than four times what it would be from the prior."""
ENOUGH = 400
"""Effective particles below which an interval would be chance."""


@dataclass(frozen=True, eq=False)
class FamilyPosterior:
    """Draws of a family's parameters.

    Args:
        table: the family, public.
        index: points of its grid, int64, shape `(draws,)`.
        effective: independent draws that they are worth.
    """

    table: ScoreTable
    index: Integers
    effective: float

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return self.table.names

    @property
    def draws(self) -> Floats:
        """Parameters, float64, shape `(draws, parameters)`."""
        return np.asarray(self.table.candidates[self.index])

    def rows(self, *, level: float) -> tuple[dict[str, float | str], ...]:
        """Each parameter's mean and interval.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each parameter `{"name", "mean", "lower", "upper"}`; intervals are equal-tailed, and end at points of
            the grid.

        Raises:
            InputError: a level outside (0, 1), or too few draws for it.
        """
        lower, upper = tails(self.draws, level)
        return tuple(
            {"name": name, "mean": float(mean), "lower": float(low), "upper": float(high)}
            for name, mean, low, high in zip(self.names, self.draws.mean(axis=0), lower, upper, strict=True)
        )


def of_family(release: Release) -> bool:
    """Whether a release has draws of the parameters of a law of records."""
    payload = release.payload
    return isinstance(payload, ScoredChoice) and payload.table_of_scores.log_law is not None


def family_posterior(release: Release, *, draws: int, rng: np.random.Generator) -> FamilyPosterior:
    """Draws of a family's parameters given what was released of it.

    Args:
        release: of draws of a family's parameters, by `sampled` or `scored`.
        draws: how many.
        rng: source of randomness; nothing here is private.

    Returns:
        The posterior under the family's own prior.

    Raises:
        InputError: a release of something else, or no draws.
        DiscreetError: released draws that hardly any parameter of the grid explains.

    Guarantee:
        None spent: reads the release alone.
    """
    payload = release.payload
    if not isinstance(payload, ScoredChoice) or payload.table_of_scores.log_law is None:
        raise InputError(f"a release of {release.mechanism} holds no draws of a family's parameters")
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    reading = _Reading(payload, release.records)
    proposal = reading.proposal(rng)
    kept, logs = [], []
    for block in range(MOST_BLOCKS):
        particles = rng.choice(len(proposal), BLOCK, p=proposal)
        told = reading.log_likelihood(particles, rng)
        kept.append(particles)
        logs.append(told + reading.log_prior[particles] - np.log(proposal[particles]))
        weights = softmax(np.concatenate(logs))
        if block + 1 >= LEAST_BLOCKS and 1 / float(np.sum(weights**2)) >= max(draws, ENOUGH):
            break
    effective = 1 / float(np.sum(weights**2))
    if not effective >= ENOUGH / 4:
        raise DiscreetError("hardly any parameter of the family's grid explains what was released; nothing can be told")
    index = np.concatenate(kept)[rng.choice(len(weights), draws, p=weights)]
    return FamilyPosterior(payload.table_of_scores, index, min(effective, float(draws)))


def family_cells(release: Release, draws: int, rng: np.random.Generator) -> tuple[Tables, Callable[[], float]]:
    """Probabilities of the family's variables under draws of its parameters.

    Args:
        release, draws, rng: as of `family_posterior`.

    Returns:
        Cells, shape `(*parents, child, draws)`, over the family's network; and a function that says how many
        independent draws they are worth.

    Raises:
        InputError: as `family_posterior`; or a network in which a variable lacks some of those before it as parents,
            so that its rows are not the family's.
    """
    posterior = family_posterior(release, draws=draws, rng=rng)
    assert isinstance(release.payload, ScoredChoice)
    return family_rows(release.payload, posterior.index), lambda: posterior.effective


def family_rows(payload: ScoredChoice, index: Integers) -> Tables:
    """Each variable given all before it, by its law under some points of the grid.

    Args:
        payload: draws of a family's parameters.
        index: of points of the grid, shape `(draws,)`.

    Returns:
        Cells, shape `(*parents, child, draws)`.

    Raises:
        InputError: a score whose candidates are no parameters of a law, or as `family_cells`.
    """
    table: ScoreTable = payload.table_of_scores
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
class _Reading:
    """What was drawn, and from what.

    Args:
        payload: the draws.
        records: their number, where it is public.
    """

    payload: ScoredChoice
    records: int | None

    @property
    def table(self) -> ScoreTable:
        """The family."""
        return self.payload.table_of_scores

    @property
    def log_prior(self) -> Floats:
        """Of the grid's points."""
        return np.asarray(self.table.base - logsumexp(self.table.base))

    def proposal(self, rng: np.random.Generator) -> Floats:
        """Chances of the grid's points: the prior's, and those of what would be drawn if a released draw were true."""
        pilots = rng.choice(self.payload.indices, PILOTS)
        near = np.exp(self._log_draws(pilots, rng)).mean(axis=0)
        prior = np.exp(self.log_prior)
        mixed = PRIOR_SHARE * prior + (1 - PRIOR_SHARE) * near
        return np.asarray(mixed / mixed.sum())

    def log_likelihood(self, particles: Integers, rng: np.random.Generator) -> Floats:
        """Log-probability of what was drawn, given made-up records of each particle."""
        return np.asarray(self._log_draws(particles, rng)[:, self.payload.indices].sum(axis=1))

    def _log_draws(self, particles: Integers, rng: np.random.Generator) -> Floats:
        """Log law of a draw given made-up records of each particle, shape (particles, Z)."""
        number = self._numbers(len(particles), rng)
        counts = rng.multinomial(number, self.table.law.T[particles]).astype(np.float64)
        scores = self.payload.rate / STEPS * (counts @ self._steps)
        return np.asarray(log_softmax(self.table.base + scores, axis=1))

    @property
    def _steps(self) -> Floats:
        """Scores around 0 for each type: what all candidates share cancels, and would cost digits."""
        steps = self.table.steps.astype(np.float64)
        return np.asarray(steps - steps.mean(axis=1, keepdims=True))

    def _numbers(self, size: int, rng: np.random.Generator) -> Integers:
        """Numbers of records."""
        if self.payload.total is not None:
            return told_law([(self.payload.total.value, self.payload.total.scale)]).sample(size, rng)
        if self.records is None:
            raise InputError("the release has no number of records, neither public nor with noise")
        return np.full(size, self.records)
