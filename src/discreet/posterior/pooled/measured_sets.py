"""Draws of measured sets whose law the network would fix, coupled to the draws of the network.

A network leaves the joint law of some variables open where each has those before it as parents, and these likewise
(`saturated.leaves_open`). The law of all other sets follows from its independences, whatever was measured. So such sets
are drawn by themselves where tables hold them:

    a pair                      around what the network says of it (`measured_sets.py`);
    parents that are not joined as their records were drawn with their child's rows (`latent_counts.py`): Dirichlet;
    larger sets                 under a complete network of these variables alone, by the same model as all families.

Every set has a generator of its own: what is drawn of it does not depend on what else is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import contrast_matrices, subsets, transformed
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.evidence import audited_sets, measured_sets, measurements
from discreet.posterior.law_plan import pick_twins, twin_step
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, compare_sizes, pair_weights, triple_weights
from discreet.posterior.pooled.family_laws import move_to_families
from discreet.posterior.pooled.latent_counts import LatentCounts
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.saturated import projected, saturated
from discreet.releases.combined import Combined
from discreet.util.arrays import Floats, Ints

# --------------------------------------------------------------------------------------------------------------------
# Draws of the law of a measured pair that a network fixes: around what the network expects, as far as tables say.
#
# A table of two variables that the network does not join tells their interaction y, with noise. With p(s) what draw s
# of the network says of the pair, n records, phi contrasts of both axes and D the tensor product of the variables'
# `diag(q) - q q'`, in contrasts,
#
#     interaction of the records      c  ~  Normal(n phi p(s), (n + n^2 tau^2) D),    y  ~  Normal(c, g I),
#     interaction of the population   d  given c:  a share r = tau^2 / (tau^2 + 1 / n) of the way from p(s) to c / n,
#
# tau being the size of the interaction beyond the network. It is drawn, for every draw, from weights over a grid
# (`discrepancy.py`) times the likelihood of y. At tau = 0 the network is right of the pair, and its draw stays as it
# is; at a large one the law is the Dirichlet's of the records, whatever the network says. Draws and their twins share
# c.
#
# Source: the conjugate normal law; Jeffreys (1946) for half a record in each cell.

HALF_RECORD = 0.5
"""Concentration of each cell of a pair's records: Jeffreys' prior."""
LEAST_CELL_SHARE = 0.01
"""Least share of the network's cell that a moved cell keeps: laws are not negative."""
LEAST_VARIANCE = 1e-300
"""Least variance in a denominator."""


class PairEvidence(NamedTuple):
    """Evidence of tables on a pair: its interaction, the noise variance, the number of records.

    Args:
        interaction: coordinates of the interaction of a table of both, shape `(size - 1, size - 1)`; unit: records.
        variance: of their errors.
        records: how many there are.
    """

    interaction: Floats
    variance: float
    records: float


def draw_pair(evidence: PairEvidence, expected: Floats, tau: Floats, rng: np.random.Generator) -> PairDraws:
    """Draw the records of a pair under every draw, from which its law and its twins follow.

    Args:
        evidence: what tables say of the pair.
        expected: what the network says of the pair under every draw, shape `(size, size, draws)`.
        tau: size of the interaction beyond the network, shape (draws,).
        rng: source of randomness.
    """
    sizes, draws, n = expected.shape[:2], expected.shape[2], max(evidence.records, 1.0)
    matrices, mean = contrast_matrices(sizes), expected.mean(axis=-1)
    (first, left), (second, right) = (
        _turn_to_axes(margin, matrix) for margin, matrix in zip((mean.sum(1), mean.sum(0)), matrices, strict=True)
    )
    # Along each pair of axes: innovation ~ N(0, spread + variance), spread = lambda_i lambda_j (n + (n tau)^2).
    spread = first[:, None, None] * second[None, :, None] * (n + (n * tau) ** 2)
    innovation = evidence.interaction[..., None] - n * transformed(expected, matrices)[1:, 1:]
    gain = spread / np.maximum(spread + evidence.variance, LEAST_VARIANCE)
    turned = gain * np.einsum("ij,ikd,kl->jld", left, innovation, right)
    turned += np.sqrt(gain * evidence.variance) * rng.standard_normal((*gain.shape[:2], draws))
    coordinates = np.zeros((*sizes, draws))
    coordinates[1:, 1:] = np.einsum("ij,jld,kl->ikd", left, turned, right)
    counts = np.maximum(n * expected + transformed(coordinates, matrices, back=True), 0) + HALF_RECORD
    return PairDraws(counts, tau**2 / (tau**2 + 1 / n))


class PairDraws(NamedTuple):
    """Records of a pair under every draw.

    Args:
        counts: with half a record in each cell, shape `(size, size, draws)`.
        share: of the way from what the network says to the records, shape (draws,).
    """

    counts: Floats
    share: Floats

    def draw(self, law: Floats, rng: np.random.Generator, step: int = 1) -> Floats:
        """Draw the population's law given the records.

        Args:
            law: what the network says of the pair, of every `step`-th draw; shape `(size, size, picked)`.
            rng: source of randomness.
            step: of the draws that are wanted.

        Returns:
            The same shape; sums are 1.
        """
        counts, share = self.counts[..., ::step], self.share[::step]
        # share = tau^2 / (tau^2 + 1 / n), the weight of n records against the network's law; the scatter is Dirichlet.
        centre, gammas = counts / counts.sum(axis=(0, 1)), rng.standard_gamma(counts)
        scatter = gammas / gammas.sum(axis=(0, 1)) - centre
        moved = np.maximum(law + share * (centre - law) + np.sqrt(share) * scatter, LEAST_CELL_SHARE * law)
        return np.asarray(moved / moved.sum(axis=(0, 1)))


def _turn_to_axes(margin: Floats, matrix: Floats) -> tuple[Floats, Floats]:
    """Diagonalise the covariance of a variable's contrasts: variances along principal axes, and the axes as columns."""
    means = matrix[1:] @ margin
    values, vectors = np.linalg.eigh((matrix[1:] * margin) @ matrix[1:].T - np.outer(means, means))
    return np.maximum(values, 0.0), vectors


Single = npt.NDArray[np.float32]

MOST_AUDITED_PAIRS, AUDIT_DRAWS = 60, 100
"""Largest number of audited pairs that sizes are learned from, and draws of the network's law of them."""


class DrawnSet(NamedTuple):
    """Law of a set under every draw, and twins of some draws.

    Args:
        law: shape `(*sizes, draws)`, in single precision, as it is stored.
        twins: of one in every `twin_step` draws, shape `(*sizes, twins)`.
    """

    law: Single
    twins: Single

    @staticmethod
    def of(law: Floats, twins: Floats) -> DrawnSet:
        """Store both in single precision."""
        return DrawnSet(law.astype(np.float32), twins.astype(np.float32))


@dataclass(frozen=True, eq=False)
class MeasuredSets:
    """Draws of the laws of measured sets of variables.

    Args:
        evidence: tables and contrasts of one data set.
        cells: the posterior's draws of a network's rows.
        twins: their twins.
        seed: of the generators; every set of variables has one of its own, whatever else is asked.
        weights: prior mean of the components of rows, shape (COMPONENTS,), as the network's rows use them.
    """

    evidence: Combined
    cells: Tables
    twins: Tables
    seed: int
    weights: Floats

    @property
    def network(self) -> Network:
        """Network whose rows the posterior draws."""
        return self.cells.network

    @property
    def draws(self) -> int:
        """Number of draws."""
        return self.cells.draws or 1

    @cached_property
    def some_twins(self) -> Tables:
        """Rows of the twins that the joint law has."""
        return pick_twins(self.twins)

    @cached_property
    def tables(self) -> tuple[frozenset[str], ...]:
        """Sets of variables that were measured together, none inside another."""
        return measured_sets(self.evidence)

    @cached_property
    def pairs(self) -> frozenset[frozenset[str]]:
        """Pairs that tables hold."""
        return frozenset(frozenset(pair) for table in self.tables for pair in combinations(table, 2))

    def measured(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """List the largest subsets of some variables that a table contains, in the schema's order."""
        variables = frozenset(names)
        once = dict.fromkeys(variables & table for table in self.tables)
        largest = [subset for subset in once if subset and not any(subset < larger for larger in once)]
        return tuple(sorted(self.network.ordered(subset) for subset in largest))

    def draw(self, names: Scope, families: Mapping[str, Floats], of_twins: Mapping[str, Floats]) -> DrawnSet:
        """Draw the law of a set.

        Args:
            names: names of the axes.
            families: laws of the network's families under every draw, by node.
            of_twins: the same of the twins that the joint law has.
        """
        if len(names) > 2:
            return self._draw_whole(names)
        expected = [
            move_to_families(self._expect(names, cells), names, self.network, laws)
            for cells, laws in ((self.cells, families), (self.some_twins, of_twins))
        ]
        return self._draw_pair(names, *expected)

    def draw_parents(self, parents: Scope, counts: Ints) -> DrawnSet:
        """Draw the law of parents that are not joined, of their records.

        Args:
            parents: names of the axes.
            counts: shape `(*sizes, draws)`.
        """
        rng, axes = self.generator(parents), tuple(range(len(parents)))
        concentrations = counts + self._expect(parents, self.cells)
        gammas = (rng.standard_gamma(concentrations), rng.standard_gamma(concentrations[..., :: twin_step(self.draws)]))
        return DrawnSet.of(*(gamma / gamma.sum(axis=axes) for gamma in gammas))

    def _expect(self, names: Scope, cells: Tables) -> Floats:
        """Compute the network's own law of some variables, shape `(*sizes, draws)`."""
        return np.asarray(Laws(cells).joint(names))

    def _draw_pair(self, pair: Scope, expected: Floats, of_twins: Floats) -> DrawnSet:
        """Draw a pair around its expected law, shape `(*sizes, draws)`, and around that of the twins."""
        fitted, rng = self.fit([pair]), self.generator(pair)
        chances = self.pair_sizes.copy()
        for logs in compare_sizes(fitted, {pair: expected} if fitted.values[pair].size else {}):
            chances *= np.exp(logs)
        tau = rng.choice(INTERACTION_SIZES, size=expected.shape[-1], p=chances / chances.sum())
        records = draw_pair(
            PairEvidence(fitted.values[pair], fitted.variances[pair], fitted.total[0]), expected, tau, rng
        )
        return DrawnSet.of(records.draw(expected, rng), records.draw(of_twins, rng, twin_step(self.draws)))

    def _draw_whole(self, names: Scope) -> DrawnSet:
        """Draw a set of more variables, under a complete network of them."""
        ordered = tuple(sorted(names, key=self.network.order.index))
        whole = Network(
            tuple(self.network.schema[name] for name in names),
            {name: ordered[: ordered.index(name)] for name in names},
        )
        inside = subsets([names])
        fit = self.fit(inside)
        known = [subset for subset in inside if subset in fit.values]
        margins = Margins(
            whole, {subset: fit.values[subset] for subset in known}, {subset: fit.variances[subset] for subset in known}
        )
        counts = LatentCounts(margins, self.draws, self.generator(names), weights=self.weights, doubt=True, quick=True)
        return DrawnSet.of(self._expect(names, counts.cells), self._expect(names, pick_twins(counts.twins)))

    def contradict(self, sets: Sequence[Scope]) -> dict[Scope, float]:
        """Compute log likelihood ratios of tables against the network's law of sets; infinite unless pairs."""
        some, fitted = self.cells.of_draws(np.arange(min(AUDIT_DRAWS, self.draws))), self.fit(sets)
        pairs: dict[Scope, Floats] = {
            pair: self._expect(pair, some) for pair in sets if len(pair) == 2 and fitted.values[pair].size
        }
        ratios = dict.fromkeys(sets, math.inf)
        return ratios | {pair: -float(logs[0]) for pair, logs in zip(pairs, compare_sizes(fitted, pairs), strict=True)}

    @cached_property
    def pair_sizes(self) -> Floats:
        """Weights of the sizes of pairs' interactions, learned from those that were audited.

        Beyond what the network says with the tables of the first stage alone. Pairs that were chosen for their misfit
        count like those taken at random.
        """
        pairs = audited_sets(self.evidence)[:MOST_AUDITED_PAIRS]
        first = saturated(self.evidence.network, measured_sets(self.evidence, audits=False))
        cells = projected(self.cells.of_draws(np.arange(min(AUDIT_DRAWS, self.draws))), first)
        laws = {pair: Laws(cells).joint(pair) for pair in pairs}
        return pair_weights(self.fit(pairs), laws)

    @cached_property
    def triple_sizes(self) -> Floats:
        """Weights of the sizes of triples' interactions, derived from those of pairs."""
        return triple_weights(self.pair_sizes)

    def generator(self, names: Iterable[str], more: int = 0) -> np.random.Generator:
        """Make the generator of a set of variables, which does not depend on other calls."""
        return np.random.default_rng([self.seed, more, *(self.network.nodes.index(name) for name in names)])

    def fit(self, also: Iterable[Scope]) -> Margins:
        """Fit all tables by least squares, with the interactions of some sets and their subsets."""
        measured, records = measurements(self.evidence.parts), self.evidence.records[0]
        return pooled_margins(self.network, measured, records, also=subsets(also))
