"""Dirichlet concentrations of every row of every table: the prior, and the conjugate posterior.

`(X_i | parents = j) ~ Categorical(theta_ij)`, `theta_ij ~ Dirichlet(alpha_ij)`, rows independent; after counts N the
concentrations are `alpha + N` (papers: Zhang et al. 2016, Section 2, for two states).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from discreet.errors import InputError, shown
from discreet.model.network import Network
from discreet.model.over import Prior
from discreet.model.tables import Tables
from discreet.util.arrays import Array
from discreet.util.randomness import Seed, as_generator

DEFAULT_CONCENTRATION = 0.25
"""Default concentration of a cell. It calibrates intervals better than 1/2 or 1 on networks with near-deterministic
rows (measured on asia and child).
"""


LEAST_CONCENTRATION, MOST_CONCENTRATION = 1e-300, 1e305
"""Bounds of a cell and of a row: beyond them ratios of concentrations overflow, and no posterior can be drawn."""
LEAST_DIRECT_SHAPE = 0.05
"""Concentration above which a gamma variate of double precision underflows with probability below 1e-15."""
LEAST_MATCHED_MEAN = 1e-9
"""Smallest mean of a cell that is matched: no state is impossible."""
LEAST_ROW_RECORDS, MOST_ROW_RECORDS = 1e-2, 1e12
"""Bounds of the equivalent number of records of a matched row: draws at the extremes are worth almost none, equal draws
more than any data set."""


@dataclass(frozen=True, eq=False)
class Dirichlet(Prior):
    """Concentrations of independent Dirichlet rows.

    Args:
        alpha: float tables, axes `(*parents, child)`, unit: records; finite and greater than 0.
        accounts: public ids of the accounts that paid for the releases that the rows were learned from; empty for a
            prior that is no posterior. Releases of the same accounts are not read with this prior.

    Raises:
        InputError: a concentration is not a number from 1e-300 up, or a row's sum is above 1e305; the message has the
            node.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> prior = dc.Dirichlet(dc.Tables(network, {"rain": [1, 1]}))
        >>> prior.updated(dc.Tables(network, {"rain": [6, 2]})).mean()["rain"].tolist()
        [0.7, 0.3]
    """

    alpha: Tables
    accounts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse an improper prior."""
        object.__setattr__(self, "alpha", self.alpha.map(lambda array: array.astype(np.float64)))
        for node, array in self.alpha.items():
            with np.errstate(over="ignore"):
                bounded = np.all(array.sum(axis=-1) <= MOST_CONCENTRATION)
            if not (np.all(array >= LEAST_CONCENTRATION) and bounded):
                raise InputError(
                    f"prior of {shown(node)}: every concentration must be a finite number greater than 0, from "
                    f"{LEAST_CONCENTRATION:g} up, and a row's sum at most {MOST_CONCENTRATION:g}"
                )

    @property
    def network(self) -> Network:
        """Network of the rows."""
        return self.alpha.network

    @property
    def over(self) -> Network:
        """Network of the prior."""
        return self.network

    @property
    def flat(self) -> bool:
        """True if all cells have the same concentration, so that no row is informative."""
        return len({float(c) for array in self.alpha.values() for c in (array.min(), array.max())}) == 1

    @staticmethod
    def uniform(network: Network, concentration: float = DEFAULT_CONCENTRATION) -> Dirichlet:
        """Make a prior with the same concentration in every cell.

        Args:
            network: public.
            concentration: of each cell, unit: records.

        Returns:
            The prior.

        Raises:
            InputError: the concentration is not a positive, finite number.

        Example:
            >>> import discreet as dc
            >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
            >>> dc.Dirichlet.uniform(network).alpha["rain"].tolist()
            [0.25, 0.25]
        """
        return Dirichlet.per_node(network, dict.fromkeys(network.nodes, concentration))

    @staticmethod
    def per_node(network: Network, concentrations: Mapping[str, float]) -> Dirichlet:
        """Make a prior with one concentration for all cells of a node.

        Args:
            network: public.
            concentrations: for every node, unit: records.

        Returns:
            The prior.

        Raises:
            InputError: a node is missing or unknown, or a concentration is not a positive, finite number.
        """
        unknown = set(concentrations) ^ set(network.nodes)
        if unknown:
            raise InputError(f"concentrations must name every node once; missing or unknown: {sorted(unknown)[:5]}")
        return Dirichlet(
            Tables(network, {node: np.full(network.shape(node), float(concentrations[node])) for node in network.nodes})
        )

    @staticmethod
    def from_probabilities(
        theta: Tables, equivalent_sample_size: float, base: float = DEFAULT_CONCENTRATION
    ) -> Dirichlet:
        """Make the prior of a prior network: `alpha = base + equivalent_sample_size * theta`.

        Each row gets the weight of `equivalent_sample_size` records; `base` keeps the prior proper for probabilities of
        0.

        Args:
            theta: public probabilities, such as `Tables.read(path)`; a table fitted to the private records is not
                public.
            equivalent_sample_size: records per row that the prior network is worth.
            base: concentration added to every cell; 0 gives the plain product.

        Returns:
            The prior.

        Raises:
            InputError: a resulting concentration is not a positive, finite number.
        """
        return Dirichlet(theta.map(lambda array: base + equivalent_sample_size * array))

    @staticmethod
    def matching(draws: Tables) -> Dirichlet:
        """Match the mean of draws and their mean squared distance from it; for a posterior see its `as_prior`.

        Args:
            draws: probabilities, shape `(*parents, child, draws)`; at least two draws.

        Returns:
            For every row `A m` with the mean m, and A such that the variances of a row's cells sum to those of the
            draws, at most 10^12. Two moments are matched; longer tails and dependence between rows are lost.

        Raises:
            InputError: fewer than two draws.

        Example:
            >>> import discreet as dc
            >>> network = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
            >>> prior = dc.Dirichlet.per_node(network, {"rain": 5.0})
            >>> again = dc.Dirichlet.matching(prior.draw(100_000, rng=0))
            >>> again.alpha["rain"].round(1).tolist()
            [5.0, 5.0]
        """
        if (draws.draws or 0) < 2:
            raise InputError("moments of a posterior need at least two draws of every family")
        return Dirichlet(Tables(draws.network, {node: _match_moments(table) for node, table in draws.items()}))

    def mean(self) -> Tables:
        """Compute the posterior mean of every row.

        Returns:
            Probabilities; each row of the last axis sums to 1.
        """
        return self.alpha.map(lambda array: array / array.sum(axis=-1, keepdims=True))

    def updated(self, counts: Tables) -> Dirichlet:
        """Compute the conjugate posterior after counts.

        Args:
            counts: records, axes `(*parents, child)`, not negative.

        Returns:
            Concentrations `alpha + counts`.

        Raises:
            InputError: counts of another shape, or so negative that a concentration is not positive.
        """
        if counts.network != self.network:
            raise InputError("the counts and the prior are over different networks")
        return replace(self, alpha=Tables(self.network, {node: self.alpha[node] + counts[node] for node in self.alpha}))

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Draw all rows independently.

        Args:
            n: number of draws.
            rng: seed or generator; these draws are not private.

        Returns:
            Probabilities, shape `(*parents, child, n)`.
        """
        generator = as_generator(rng)

        def rows(node: str) -> Array:
            return dirichlet_draws(np.repeat(self.alpha[node][..., None], n, axis=-1), generator)

        return Tables(self.network, {node: rows(node) for node in self.alpha}, draws=n)


def _match_moments(draws: Array) -> Array:
    """Compute concentrations with the first two moments of draws of the rows, shape `(*parents, child)`."""
    mean = np.maximum(draws.mean(axis=-1), LEAST_MATCHED_MEAN)
    mean /= mean.sum(axis=-1, keepdims=True)
    # Var(theta_k) = m_k (1 - m_k) / (A + 1), summed over the cells of a row.
    apart = 1 - (mean**2).sum(axis=-1)
    spread = draws.var(axis=-1).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.where(spread > 0, apart / spread - 1, MOST_ROW_RECORDS)
    return np.asarray(mean * np.clip(total, LEAST_ROW_RECORDS, MOST_ROW_RECORDS)[..., None])


def dirichlet_draws(alpha: Array, rng: np.random.Generator) -> Array:
    """Draw a Dirichlet variate for each row and each entry of the last axis.

    Args:
        alpha: concentrations, shape `(*parents, child, draws)`, greater than 0.
        rng: source of randomness.

    Returns:
        Probabilities of the same shape; they sum to 1 over the child's axis.
    """
    if alpha.min() >= LEAST_DIRECT_SHAPE:
        gammas: Array = rng.standard_gamma(alpha)
    else:
        # Gamma variates of small shapes underflow to 0; their logarithms do not: log G(a) = log G(a + 1) + log(U) / a.
        logs = np.log(rng.standard_gamma(alpha + 1)) + np.log1p(-rng.random(alpha.shape)) / alpha
        gammas = np.exp(logs - logs.max(axis=-2, keepdims=True))
    gammas = np.maximum(gammas, np.finfo(np.float64).tiny)
    gammas /= gammas.sum(axis=-2, keepdims=True)
    return gammas
