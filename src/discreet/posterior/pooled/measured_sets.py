"""Draws of the laws of measured sets that the network would determine, coupled to the draws of the network.

A network leaves the joint law of some variables unrestricted if each has all earlier ones as parents, and so on for
these (`saturated.leaves_open`). The law of every other set follows from the network's independences, whatever was
measured. Such sets are therefore drawn separately where tables contain them:

    a pair                      around the network's law of the pair (`measured_sets.py`);
    parents without arcs        from a Dirichlet law given their records, which were drawn with their child's rows
    (`latent_counts.py`);
    larger sets                 under a complete network of these variables alone, by the same model as all families.

Every set has a generator of its own: its draws do not depend on which other sets are queried.
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
from discreet.posterior.evidence import measured_pairs, measured_sets, measurements
from discreet.posterior.law_plan import pick_replicates, replicate_step
from discreet.posterior.pooled.discrepancy import INTERACTION_SIZES, compare_sizes, pair_weights, triple_weights
from discreet.posterior.pooled.family_laws import move_to_families
from discreet.posterior.pooled.latent_counts import LatentCounts
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.saturated import projected, saturated
from discreet.releases.combined import Combined
from discreet.util.arrays import Floats, Ints

# --------------------------------------------------------------------------------------------------------------------
# Draws of the law of a measured pair that the network determines: the network's law, moved by the tables' evidence.
#
# A table of two variables without an arc discloses their interaction y, with noise. Let p(s) be the network's law of
# the pair in draw s, n the number of records, phi the contrasts of both axes, and D the tensor product of the
# variables' `diag(q) - q q'`, in contrasts. Then
#
#     interaction of the records      c  ~  Normal(n phi p(s), (n + n^2 tau^2) D),    y  ~  Normal(c, g I),
#     interaction of the population   d  given c:  a share r = tau^2 / (tau^2 + 1 / n) of the way from p(s) to c / n,
#
# where tau is the size of the interaction beyond the network. In every draw tau is drawn from weights over a grid
# (`discrepancy.py`) times the likelihood of y. At tau = 0 the network is correct for the pair, and its law is returned
# unchanged; at large tau the law is a Dirichlet draw given the records, whatever the network's law. A draw and its
# replicate share c.
#
# Source: the conjugate normal law; Jeffreys (1946) for half a record in each cell.

HALF_RECORD = 0.5
"""Concentration of each cell of a pair's records: Jeffreys' prior."""
LEAST_CELL_SHARE = 0.01
"""Least fraction of the network's probability that a moved cell keeps, because probabilities are not negative."""
LEAST_VARIANCE = 1e-300
"""Least variance in a denominator."""


class PairEvidence(NamedTuple):
    """Evidence of tables on a pair: its interaction, the noise variance, the number of records.

    Args:
        interaction: measured coordinates of the interaction, shape `(size - 1, size - 1)`; unit: records.
        variance: variance of the error of each coordinate.
        records: estimated number of records.
    """

    interaction: Floats
    variance: float
    records: float


def draw_pair(evidence: PairEvidence, expected: Floats, tau: Floats, rng: np.random.Generator) -> PairDraws:
    """Draw the records of a pair in every posterior draw, given the tables' evidence and the network's law.

    The interaction is drawn from its conjugate normal law: prior `Normal(n phi p(s), (n + n^2 tau^2) D)`, with D at the
    mean law over draws, and the evidence's normal error of equal variance in each coordinate; the sum of both variances
    is at least LEAST_VARIANCE. Its difference from the prior mean is added to the expected records `n p(s)`, so the
    pair's margins stay. Negative cells are then set to 0, and HALF_RECORD is added to each.

    Args:
        evidence: evidence of tables on the pair; its number of records n is raised to 1.
        expected: network's law p of the pair in every draw, shape `(size, size, draws)`.
        tau: size of the interaction beyond the network, shape (draws,).
        rng: source of randomness.

    Returns:
        Records, not whole, from which the laws of draws and of their replicates can be drawn; their share is `tau^2 /
        (tau^2 + 1 / n)`.
    """
    sizes, draws, n = expected.shape[:2], expected.shape[2], max(evidence.records, 1.0)
    matrices, mean = contrast_matrices(sizes), expected.mean(axis=-1)
    (first, left), (second, right) = (
        _diagonalise_contrasts(margin, matrix)
        for margin, matrix in zip((mean.sum(1), mean.sum(0)), matrices, strict=True)
    )
    # Along each pair of axes: innovation ~ N(0, spread + variance), spread = lambda_i lambda_j (n + (n tau)^2).
    spread = first[:, None, None] * second[None, :, None] * (n + (n * tau) ** 2)
    innovation = evidence.interaction[..., None] - n * transformed(expected, matrices)[1:, 1:]
    # Conjugate normal update along each pair of axes.
    gain = spread / np.maximum(spread + evidence.variance, LEAST_VARIANCE)
    turned = gain * np.einsum("ij,ikd,kl->jld", left, innovation, right)
    turned += np.sqrt(gain * evidence.variance) * rng.standard_normal((*gain.shape[:2], draws))
    coordinates = np.zeros((*sizes, draws))
    coordinates[1:, 1:] = np.einsum("ij,jld,kl->ikd", left, turned, right)
    counts = np.maximum(n * expected + transformed(coordinates, matrices, back=True), 0) + HALF_RECORD
    return PairDraws(counts, tau**2 / (tau**2 + 1 / n))


class PairDraws(NamedTuple):
    """Records of a pair in every posterior draw.

    Args:
        counts: records plus half a record in each cell, shape `(size, size, draws)`.
        share: weight r of the records against the network's law, between 0 and 1, shape (draws,).
    """

    counts: Floats
    share: Floats

    def draw(self, law: Floats, rng: np.random.Generator, step: int = 1) -> Floats:
        """Draw the population's law of the pair given the records.

        `max(p + r (c - p) + sqrt(r) (g - c), LEAST_CELL_SHARE p)`, normalised: p is the network's law, r the share, c
        the records' shares and g a draw from Dirichlet(records). At r = 0 this is p.

        Args:
            law: network's law of the pair in every `step`-th draw, shape `(size, size, picked)`.
            rng: source of randomness.
            step: distance between the draws that are used, from the first on.

        Returns:
            Probabilities, same shape; each draw sums to 1.
        """
        counts, share = self.counts[..., ::step], self.share[::step]
        # share = tau^2 / (tau^2 + 1 / n), the weight of n records against the network's law. The Dirichlet scatter of
        # the records has the variance of 1 / n; of a conjugate update share / n is left, hence the root.
        centre, gammas = counts / counts.sum(axis=(0, 1)), rng.standard_gamma(counts)
        scatter = gammas / gammas.sum(axis=(0, 1)) - centre
        moved = np.maximum(law + share * (centre - law) + np.sqrt(share) * scatter, LEAST_CELL_SHARE * law)
        return np.asarray(moved / moved.sum(axis=(0, 1)))


def _diagonalise_contrasts(margin: Floats, matrix: Floats) -> tuple[Floats, Floats]:
    """Diagonalise the multinomial covariance `C (diag(p) - p p') C'` of a variable's contrasts.

    Args:
        margin: probabilities p of the states, shape (size,).
        matrix: contrast matrix, shape (size, size); its first row is the total and is left out of C.

    Returns:
        Variances along the principal axes in increasing order, at least 0, shape (size - 1,), and the axes as columns.
    """
    means = matrix[1:] @ margin
    values, vectors = np.linalg.eigh((matrix[1:] * margin) @ matrix[1:].T - np.outer(means, means))
    return np.maximum(values, 0.0), vectors


Single = npt.NDArray[np.float32]

MOST_MEASURED_PAIRS, PAIR_DRAWS = 60, 100
"""Largest number of measured pairs from which interaction sizes are learned; draws of the network's law used for
each."""


class DrawnSet(NamedTuple):
    """Law of a set of variables in every posterior draw, and in the replicates of some draws.

    Args:
        law: probabilities in single precision, shape `(*sizes, draws)`.
        replicates: the same in the replicate of every `replicate_step`-th draw, shape `(*sizes, replicates)`.
    """

    law: Single
    replicates: Single

    @staticmethod
    def of(law: Floats, replicates: Floats) -> DrawnSet:
        """Build the pair from both arrays, converted to single precision."""
        return DrawnSet(law.astype(np.float32), replicates.astype(np.float32))


@dataclass(frozen=True, eq=False)
class MeasuredSets:
    """Draws of the laws of measured sets of variables.

    Args:
        evidence: tables and contrasts of one data set.
        cells: posterior draws of a network's rows.
        replicates: rows of the replicates of these draws.
        seed: seed of the generators; every set of variables has a generator of its own.
        weights: prior mean of the rows' mixture weights, shape (COMPONENTS,), as the network's rows use them.
    """

    evidence: Combined
    cells: Tables
    replicates: Tables
    seed: int
    weights: Floats

    @property
    def network(self) -> Network:
        """Network whose rows the posterior draws."""
        return self.cells.network

    @property
    def draws(self) -> int:
        """Number of draws; 1 for rows without an axis of draws."""
        return self.cells.draws or 1

    @cached_property
    def some_replicates(self) -> Tables:
        """Rows of those replicates that the joint law keeps (every `replicate_step`-th, from the first on); cached."""
        return pick_replicates(self.replicates)

    @cached_property
    def tables(self) -> tuple[frozenset[str], ...]:
        """Largest sets of variables that were measured together, none inside another, larger ones first; cached."""
        return measured_sets(self.evidence)

    @cached_property
    def pairs(self) -> frozenset[frozenset[str]]:
        """Pairs of variables that were measured together, by a table or otherwise; cached."""
        return frozenset(frozenset(pair) for table in self.tables for pair in combinations(table, 2))

    def measured(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """List the largest subsets of some variables that a table contains, none inside another.

        Args:
            names: names of variables.

        Returns:
            Subsets with at least one variable, names in the schema's order; the tuples are sorted as texts. Empty if no
            table has any of the variables.
        """
        variables = frozenset(names)
        once = dict.fromkeys(variables & table for table in self.tables)
        largest = [subset for subset in once if subset and not any(subset < larger for larger in once)]
        return tuple(sorted(self.network.ordered(subset) for subset in largest))

    def draw(self, names: Scope, families: Mapping[str, Floats], of_replicates: Mapping[str, Floats]) -> DrawnSet:
        """Draw the law of a measured set: a pair around the network's law, a larger set under a complete network.

        Args:
            names: variables of the set, at least two; their order is that of the axes.
            families: laws of the network's families by node, shape `(*family, draws)`; the pair's network law is raked
                to them. A larger set's law does not use them.
            of_replicates: the same for the replicates that the joint law keeps.

        Returns:
            Laws in all draws and in these replicates. The same arguments give the same draws.

        Raises:
            InputError: a network too large for exact inference of a set's law.
        """
        if len(names) > 2:
            return self._draw_whole(names)
        expected = [
            move_to_families(self._expect(names, cells), names, self.network, laws)
            for cells, laws in ((self.cells, families), (self.some_replicates, of_replicates))
        ]
        return self._draw_pair(names, *expected)

    def draw_parents(self, parents: Scope, counts: Ints) -> DrawnSet:
        """Draw the law of parents without arcs between them from a Dirichlet law given their records.

        The concentrations are the records plus the network's law, which counts as one record. Replicates are second
        draws given the same concentrations, for every `replicate_step`-th draw.

        Args:
            parents: variables of the set; their order is that of the axes.
            counts: records in every draw, shape `(*sizes, draws)`.
        """
        rng, axes = self.generator(parents), tuple(range(len(parents)))
        concentrations = counts + self._expect(parents, self.cells)
        step = replicate_step(self.draws)
        gammas = (rng.standard_gamma(concentrations), rng.standard_gamma(concentrations[..., ::step]))
        return DrawnSet.of(*(gamma / gamma.sum(axis=axes) for gamma in gammas))

    def _expect(self, names: Scope, cells: Tables) -> Floats:
        """Compute the network's own law of some variables by exact inference, shape `(*sizes, draws)`.

        Raises:
            InputError: the law is too large.
        """
        return np.asarray(Laws(cells).joint(names))

    def _draw_pair(self, pair: Scope, expected: Floats, of_replicates: Floats) -> DrawnSet:
        """Draw tau for every draw, then the law of a pair around the network's law of draws and of replicates.

        tau is drawn from the grid INTERACTION_SIZES, with the probability `pair_sizes` times the likelihood of the
        pair's interaction (`compare_sizes`), the same in all draws; without the likelihood if a variable has one state.
        The pair's records are drawn once (`draw_pair`), and the laws of draws and replicates each given these
        (`PairDraws.draw`).

        Args:
            pair: both variables.
            expected: network's law in every draw, shape `(*sizes, draws)`.
            of_replicates: network's law in the kept replicates, shape `(*sizes, replicates)`.
        """
        fitted, rng = self.fit([pair]), self.generator(pair)
        chances = self.pair_sizes.copy()
        for logs in compare_sizes(fitted, {pair: expected} if fitted.values[pair].size else {}):
            chances *= np.exp(logs)
        tau = rng.choice(INTERACTION_SIZES, size=expected.shape[-1], p=chances / chances.sum())
        records = draw_pair(
            PairEvidence(fitted.values[pair], fitted.variances[pair], fitted.total[0]), expected, tau, rng
        )
        return DrawnSet.of(records.draw(expected, rng), records.draw(of_replicates, rng, replicate_step(self.draws)))

    def _draw_whole(self, names: Scope) -> DrawnSet:
        """Draw the law of three variables or more under a complete network of them, by the model of families.

        Each variable has all that are before it in the network's order as parents. Margins that were not measured are
        left out. The prior is learned, starting from the mixture weights of the network's rows, and all corrections for
        intervals are made (`LatentCounts` with `doubt`). The generator is that of this set.

        Args:
            names: variables of the set; their order is that of the axes.

        Returns:
            The joint law in every draw, and in every `replicate_step`-th replicate.
        """
        ordered = tuple(sorted(names, key=self.network.order.index))
        whole = Network(
            tuple(self.network.schema[name] for name in names), {name: ordered[: ordered.index(name)] for name in names}
        )
        inside = subsets([names])
        fit = self.fit(inside)
        known = [subset for subset in inside if subset in fit.values]
        margins = Margins(
            whole, {subset: fit.values[subset] for subset in known}, {subset: fit.variances[subset] for subset in known}
        )
        counts = LatentCounts(margins, self.draws, self.generator(names), weights=self.weights, doubt=True, quick=True)
        both = (counts.probabilities, pick_replicates(counts.replicates))
        return DrawnSet.of(*(self._expect(names, cells) for cells in both))

    def contradict(self, sets: Sequence[Scope]) -> dict[Scope, float]:
        """Compute the log-likelihood ratio of the best interaction size against the network's own law, for each set.

        The sizes are INTERACTION_SIZES, and size 0 is the network's law, taken from the first PAIR_DRAWS draws; the
        likelihood is that of the pair's measured interaction (`compare_sizes`). The ratio is at least 0, in nats. It is
        infinite for sets that are no pairs and for pairs without contrasts.

        Args:
            sets: sets of variables that tables contain, in the schema's order.
        """
        some, fitted = self.cells.of_draws(np.arange(min(PAIR_DRAWS, self.draws))), self.fit(sets)
        pairs: dict[Scope, Floats] = {
            pair: self._expect(pair, some) for pair in sets if len(pair) == 2 and fitted.values[pair].size
        }
        ratios = dict.fromkeys(sets, math.inf)
        return ratios | {pair: -float(logs[0]) for pair, logs in zip(pairs, compare_sizes(fitted, pairs), strict=True)}

    @property
    def chosen(self) -> bool:
        """True if the network's arcs were chosen from the records: nobody claims the independences that it has."""
        return getattr(self.evidence.network.learned, "what", None) == "arcs"

    @cached_property
    def pair_sizes(self) -> Floats:
        """Weights of the sizes of pairs' interactions beyond the network, shape (sizes,), from measured pairs; cached.

        They are learned by EM (`pair_weights`) from the pairs that a second stage measured, at most the first
        MOST_MEASURED_PAIRS. The network's law of a measured pair is the one given the tables of the first stage alone,
        in the first PAIR_DRAWS draws. Pairs that were chosen for their misfit count like those chosen at random.
        Without measured pairs the weights are PAIR_PRIOR, or CHOSEN_PRIOR if the arcs were chosen from the records.
        """
        pairs = measured_pairs(self.evidence)[:MOST_MEASURED_PAIRS]
        first = saturated(self.evidence.network, measured_sets(self.evidence, pairs=False))
        cells = projected(self.cells.of_draws(np.arange(min(PAIR_DRAWS, self.draws))), first)
        laws = {pair: Laws(cells).joint(pair) for pair in pairs}
        return pair_weights(self.fit(pairs), laws, chosen=self.chosen)

    @cached_property
    def triple_sizes(self) -> Floats:
        """Weights of the sizes of triples' interactions, shape (sizes,), derived from those of pairs; cached."""
        return triple_weights(self.pair_sizes)

    def generator(self, names: Iterable[str], more: int = 0) -> np.random.Generator:
        """Return a new generator for a set of variables; equal for equal arguments, independent of other calls.

        Args:
            names: variables of the set; another order gives another generator.
            more: number of the stream.
        """
        return np.random.default_rng([self.seed, more, *(self.network.nodes.index(name) for name in names)])

    def fit(self, also: Iterable[Scope]) -> Margins:
        """Fit all measurements by plain least squares, including the interactions of some sets and all their subsets.

        Args:
            also: sets of variables in the schema's order, beside the families; those that no table contains are
                ignored.

        Returns:
            Margins of the network; a public number of records fixes the total. Nothing is cached.
        """
        measured, records = measurements(self.evidence.parts), self.evidence.records[0]
        return pooled_margins(self.network, measured, records, also=subsets(also))
