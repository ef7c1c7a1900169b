r"""The block of a latent node: the observed variables around it, their law under parameters, and what was measured.

A latent node L has no column. Given its Markov blanket (its parents, its children, and the other parents of these) it
is independent of everything else, so the blanket's table holds all that records say of L. The block is a network over
L and its blanket: L and its children have their families, and every other variable has all earlier observed ones as
parents, which assumes nothing. With p(theta) the law of the observed variables of the block, the released tables say

    t = n M p(theta) + e,     e ~ N(0, V + n M (diag(p) - p p') M' + v m m'),

with M the interactions of the measured tables in the block (`inference/interactions.py`), V the variances of their
noise, and v that of the number of records n with its direction m = M p. The second term is the sampling error of the
records: interactions of overlapping tables are of the same records, so their errors are correlated, and a product of
the tables' likelihoods would count records more than once.

The likelihood does not change when the states of L are renamed, so without an order each state has the same posterior.
Each draw is put in the order in which its rows are closest to the mean of all draws, in units of their standard
deviations; mean and orders are found in turn, as by k-means. No records are used, and answers that sum over L do not
depend on it.

Source: Kruskal (1977) and Allman, Matias and Rhodes (2009) for what identifies a latent class; Stephens (2000) for
labels by a normal approximation of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from discreet.errors import InputError, listed, require, shown
from discreet.inference.interactions import interaction_contrasts, subsets
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Array, Floats, Ints

MOST_CELLS = 2**12
"""Largest number of cells of the block, with the states of the latent node: 11 yes-or-no questions and two classes."""
MOST_STATES = 6
"""Largest number of states of a latent node: the 720 orders of six are all compared."""
LEAST_VIEWS = 3
"""Least number of neighbours of a latent node: two tell a class only up to a family of laws (Kruskal, 1977)."""
RANK_POINTS, RANK_TOLERANCE, MORE_MIXED = 3, 1e-7, 8
"""Parameters drawn at random at which the rank is computed, and the relative singular value that counts as 0; mixtures
of measured interactions beyond the number of parameters, which have the rank of all of them."""

MOST_TURNS = 20
"""Largest number of turns of mean and orders; a few suffice."""
LEAST_SPREAD = 1e-4
"""Lower bound of a standard deviation of a probability, so that a constant one has a distance."""


@dataclass(frozen=True, eq=False)
class LatentBlock:
    """Network over a latent node and its Markov blanket, with the law of the observed variables.

    Args:
        network: of the block, in a topological order.
        latent: name of the node without a column.
        modelled: nodes whose families are those of the whole network: the latent node and its children.
    """

    network: Network
    latent: str
    modelled: Scope

    @staticmethod
    def of(network: Network, latent: str) -> LatentBlock:
        """Return the block of a latent node.

        Args:
            network: with the latent node.
            latent: its name.

        Raises:
            InputError: fewer than three neighbours, too many states, or a block of too many cells.
        """
        children = tuple(node for node in network.order if latent in network.parents[node])
        near = {*children, *network.parents[latent]}
        require(
            len(near) >= LEAST_VIEWS,
            f"the latent node {shown(latent)} has {len(near)} of the three or more neighbours that tell its states",
        )
        size = network.schema[latent].size
        require(
            1 < size <= MOST_STATES,
            f"the latent node {shown(latent)} has {size} states: there may be 2 to {MOST_STATES}",
        )
        blanket = near.union(*(network.parents[child] for child in children)) | {latent}
        order = [node for node in network.order if node in blanket]
        modelled = tuple(node for node in order if node in children or node == latent)
        cells = network.cells(tuple(order))
        require(
            cells <= MOST_CELLS,
            f"the variables around the latent node {shown(latent)} have {cells:,} joint states with its own: at most "
            f"{MOST_CELLS:,} can be read; leave some of its children out",
        )
        parents = {
            node: network.parents[node]
            if node in modelled
            else tuple(name for name in order[: order.index(node)] if name != latent)
            for node in order
        }
        return LatentBlock(Network(tuple(network.schema[node] for node in order), parents), latent, modelled)

    @property
    def states(self) -> int:
        """Number of states of the latent node."""
        return self.network.schema[self.latent].size

    @cached_property
    def observed(self) -> Scope:
        """Variables of the block that have a column, in its order."""
        return tuple(node for node in self.network.nodes if node != self.latent)

    @cached_property
    def _axes(self) -> Mapping[str, tuple[int, ...]]:
        """Axes of a node's family in the block's table, in the order `(*parents, child)`."""
        nodes = self.network.nodes
        return {node: tuple(map(nodes.index, self.network.family(node))) for node in nodes}

    def spread(self, rows: Mapping[str, Array], node: str) -> Array:
        """Arrange a node's rows to be multiplied with the table of it and all earlier nodes; draws stay last."""
        axes, table = self._axes[node], rows[node]
        ordered = table.transpose([*np.argsort(axes), len(axes)])
        shape = [1] * (self.network.nodes.index(node) + 1)
        for axis in axes:
            shape[axis] = self.network.schema[self.network.nodes[axis]].size
        return ordered.reshape(*shape, table.shape[-1])

    def law(self, rows: Mapping[str, Array]) -> tuple[Floats, list[Array]]:
        """Compute the law of the observed variables.

        Args:
            rows: by node, shape `(*parents, child, draws)`.

        Returns:
            Probabilities, shape (cells of the observed variables, draws), and the joint laws of the first 0, 1, ...
            nodes, for `pull_back`.
        """
        draws = rows[self.latent].shape[-1]
        before: list[Array] = [np.ones((draws,))]
        for node in self.network.nodes:
            before.append(before[-1][..., None, :] * self.spread(rows, node))
        whole = before.pop().sum(axis=self.network.nodes.index(self.latent))
        return whole.reshape(-1, draws), before

    def pull_back(self, rows: Mapping[str, Array], before: Sequence[Array], slope: Floats) -> dict[str, Floats]:
        """Compute the slope of a function of the law by the entries of all rows (reverse accumulation).

        Args:
            rows: as for `law`.
            before: from `law`.
            slope: of the function by each probability, shape (cells of the observed variables, draws).

        Returns:
            By node, shape `(*parents, child, draws)`.
        """
        nodes, draws = self.network.nodes, slope.shape[-1]
        sizes = [1 if node == self.latent else self.network.schema[node].size for node in nodes]
        ahead: Array = slope.reshape(*sizes, draws)
        slopes: dict[str, Floats] = {}
        for index, node in reversed(list(enumerate(nodes))):
            # Axes of einsum are numbers: that of the draws comes after those of the nodes.
            family, earlier = [*self._axes[node], len(nodes)], [*range(index), len(nodes)]
            joint = [*range(index + 1), len(nodes)]
            slopes[node] = np.einsum(before[index], earlier, ahead, joint, family)
            ahead = np.einsum(rows[node], family, ahead, joint, earlier)
        return slopes

    def permuted(self, rows: Mapping[str, Array], orders: Array) -> dict[str, Array]:
        """Put the states of the latent node in another order in every draw.

        Args:
            rows: by node, shape `(*parents, child, draws)`.
            orders: for each draw the old state at each new position, shape (states, draws).
        """
        turned: dict[str, Array] = {}
        for node, table in rows.items():
            family = self.network.family(node)
            if self.latent not in family:
                turned[node] = table
                continue
            axis = family.index(self.latent)
            shape = [1] * table.ndim
            shape[axis], shape[-1] = orders.shape
            turned[node] = np.take_along_axis(table, orders.reshape(shape), axis)
        return turned

    def require_symmetric(self, prior: Dirichlet) -> None:
        """Refuse a prior that tells the states of the latent node apart: their order is found from draws."""
        for node in self.modelled:
            family = self.network.family(node)
            if self.latent in family:
                alpha = np.moveaxis(prior.alpha[node], family.index(self.latent), 0)
                require(
                    bool(np.all(alpha == alpha[0])),
                    f"the prior of {shown(node)} differs between the states of {shown(self.latent)}: a latent node's "
                    "states are found, so their prior must be the same",
                )


@dataclass(frozen=True, eq=False)
class BlockMoments:
    """Interactions that tables measured in a block, with the variances of their noise.

    Args:
        rows: from probabilities of the observed cells to interactions, shape (interactions, cells).
        values: measured, in records, shape (interactions,).
        noise: variances, same shape.
        records: estimated or public number of records, at least 1.
        records_noise: variance of its error; 0 if it is public.
    """

    rows: Floats
    values: Floats
    noise: Floats
    records: float
    records_noise: float

    @staticmethod
    def of(block: LatentBlock, network: Network, measured: Sequence[Measurement], records: int | None) -> BlockMoments:
        """Collect the interactions of a block from the tables of one data set.

        Args:
            block: around the latent node.
            network: of the release.
            measured: tables of the release.
            records: their number if it is public.

        Raises:
            InputError: measurements that are no tables, a variable of the block in no table, or fewer than one record.
        """
        require(
            all(datum.table for datum in measured),
            "a latent node is read from tables of counts; this release has contrasts or weighted sums",
        )
        inside = [network.ordered(set(datum.scope) & set(block.observed)) for datum in measured]
        missing = set(block.observed).difference(*inside)
        require(not missing, f"no table of the release has {listed(sorted(missing))}, which the latent node needs")
        sets = [names for names in subsets(dict.fromkeys(inside)) if names]
        margins = pooled_margins(network, measured, records, also=sets)
        number, variance = margins.total
        require(number >= 1, "the release tells of no records: noise is larger than their number")
        values = [margins.values[names].ravel() for names in sets]
        noise = [np.full(part.size, margins.variances[names]) for names, part in zip(sets, values, strict=True)]
        rows = np.concatenate([block_contrasts(block, names) for names in sets])
        return BlockMoments(rows, np.concatenate(values), np.concatenate(noise), number, variance)

    def likelihood(self, law: Floats) -> LawLikelihood:
        """Return the likelihood of laws, with the errors of the tables that they have at one law.

        All interactions of a table are orthogonal, and their variances are in proportion to their squared lengths. So
        where one table has the whole block, the errors have the covariance M (D + c p p') M', with D diagonal and M
        orthogonal to 1. Its inverse between M' and M is P - c P p p' P / (1 + c p' P p), where P = D^-1 -
        D^-1 1 1' D^-1 / (1' D^-1 1): a diagonal and two rows in place of all interactions.

        Args:
            law: probabilities of the observed cells, shape (cells,).
        """
        noise, more = self.noise / np.square(self.rows).sum(axis=1), self.records_noise - self.records
        if len(self.rows) < len(law) - 1 or not np.allclose(noise, noise[0], rtol=1e-9, atol=0):
            return self.joined_likelihood(law)
        weights = 1 / (noise[0] + self.records * law)
        rows = np.stack([weights, weights * (law - weights @ law / weights.sum())])
        signs = -np.array([1 / weights.sum(), more / (1 + more * (rows[1] @ law))])
        return LawLikelihood(self.cells, self.records, weights, signs, rows)

    def joined_likelihood(self, law: Floats) -> LawLikelihood:
        """Return `likelihood` by the covariance of all interactions, whatever tables were measured."""
        n, mean = self.records, self.rows @ law
        errors = n * ((self.rows * law) @ self.rows.T)
        errors += (self.records_noise - n) * np.outer(mean, mean)
        errors[np.diag_indices_from(errors)] += self.noise
        rows = solve_triangular(np.linalg.cholesky(errors), self.rows, lower=True)
        return LawLikelihood(self.cells, n, np.zeros(len(law)), np.ones(len(rows)), rows)

    @cached_property
    def cells(self) -> Floats:
        """Table of least squares that has the measured interactions, and no others."""
        return np.asarray(self.rows.T @ (self.values / np.square(self.rows).sum(axis=1)), np.float64)


@dataclass(frozen=True, eq=False)
class LawLikelihood:
    """Normal likelihood of the law of the observed cells, by errors e = cells - records * law.

    Twice the misfit is the sum of weights * e^2 and of signs * (rows e)^2.

    Args:
        cells: shape (cells,).
        records: their number.
        weights: shape (cells,).
        signs: shape (rows,).
        rows: shape (rows, cells).
    """

    cells: Floats
    records: float
    weights: Floats
    signs: Floats
    rows: Floats

    def misfit(self, law: Floats) -> Floats:
        """Compute half the squared distance of laws, shape (cells, draws), from the tables; shape (draws,)."""
        errors = self.cells[:, None] - self.records * law
        return 0.5 * (self.weights @ np.square(errors) + self.signs @ np.square(self.rows @ errors))

    def slope(self, law: Floats) -> Floats:
        """Compute minus the slope of the misfit by the probabilities, shape (cells, draws)."""
        errors = self.cells[:, None] - self.records * law
        pulled = self.rows.T @ (self.signs[:, None] * (self.rows @ errors))
        return self.records * (self.weights[:, None] * errors + pulled)

    def seen_by(self, law: Floats, directions: int, rng: np.random.Generator) -> LawLikelihood:
        """Keep the directions of errors in which some laws differ most, and that of their mean error.

        A random range with one turn of powers (Halko, Martinsson and Tropp, 2011). Its slope is close to the whole one
        near these laws, for a fraction of the work; itself if it has no more interactions.

        Args:
            law: shape (cells, draws).
            directions: their number.
            rng: source of randomness.
        """
        if len(self.rows) <= 2 * directions:
            return self
        errors = self.rows @ (self.cells[:, None] - self.records * law)
        mean = errors.mean(axis=1, keepdims=True)
        centred = errors - mean
        mixed = centred @ (centred.T @ (centred @ rng.standard_normal((law.shape[1], directions))))
        basis = np.linalg.qr(np.column_stack([mean, mixed]))[0]
        return replace(self, signs=np.ones(basis.shape[1]), rows=basis.T @ self.rows)


def block_contrasts(block: LatentBlock, names: Scope) -> Floats:
    """Return the interaction of some variables as rows over the observed cells of a block, shape (contrasts, cells)."""
    contrasts = interaction_contrasts(block.network.schema[name].size for name in names)
    order = [name for name in block.observed if name in names]
    table = contrasts.reshape(-1, *(block.network.schema[name].size for name in names))
    table = table.transpose(0, *(1 + names.index(name) for name in order))
    shape = [block.network.schema[name].size if name in names else 1 for name in block.observed]
    sizes = [block.network.schema[name].size for name in block.observed]
    wide = np.broadcast_to(table.reshape(-1, *shape), (len(table), *sizes))
    return np.asarray(wide.reshape(len(table), -1), np.float64)


def count_directions(block: LatentBlock, rows: Floats) -> tuple[int, int]:
    """Count the directions of the parameters that move what is measured, at random parameters; no data are read.

    Args:
        block: around a latent node.
        rows: measured interactions, shape (interactions, cells).

    Returns:
        (rank of the derivative of the measured interactions by the free parameters, number of these). A smaller rank
        means that different parameters have the same tables.
    """
    rng, network = np.random.default_rng(0), block.network
    flat = Dirichlet.uniform(network, 1.0)
    free = sum(network.cells(network.parents[node]) * (network.schema[node].size - 1) for node in network.nodes)
    ranks = []
    if len(rows) > free + MORE_MIXED:
        rows = rng.standard_normal((free + MORE_MIXED, len(rows))) @ rows
    for _ in range(RANK_POINTS):
        point = {node: dirichlet_draws(flat.alpha[node][..., None], rng) for node in network.nodes}
        repeated = {node: np.repeat(table, len(rows), axis=-1) for node, table in point.items()}
        _, before = block.law(repeated)
        slopes = block.pull_back(repeated, before, np.ascontiguousarray(rows.T))
        columns = []
        for node, slope in slopes.items():
            # Moves inside of a row: its entries sum to 1.
            moves = slope - (slope * repeated[node]).sum(axis=-2, keepdims=True)
            columns.append((moves * repeated[node])[..., :-1, :].reshape(-1, len(rows)))
        sizes = np.linalg.svd(np.concatenate(columns), compute_uv=False)
        ranks.append(int((sizes > RANK_TOLERANCE * sizes[0]).sum()))
    return max(ranks), free


def require_identified(block: LatentBlock, rows: Floats) -> None:
    """Refuse tables that leave directions of the latent node's parameters open (`count_directions`).

    Raises:
        InputError: with the number of directions, and what to do.
    """
    identified, free = count_directions(block, rows)
    if identified < free:
        raise InputError(
            f"the tables tell {identified} of the {free} parameters around the latent node {shown(block.latent)}: it "
            f"takes fewer states, more children, or tables of more of its neighbours together (three at least)"
        )


def find_latent(network: Network, columns: Network) -> str:
    """Find the one node of a network that has no column in a release.

    Args:
        network: with the latent node.
        columns: of the release.

    Raises:
        InputError: no such node, several, or a variable with other states than in the release.
    """
    hidden = [node for node in network.nodes if node not in columns.schema]
    require(
        bool(hidden),
        "every node of this network has a column in the release: a latent node is one that has none (give it another "
        "name if a column has its name)",
    )
    require(len(hidden) == 1, f"nodes without a column: {listed(hidden[:5])}; one latent node is read at a time")
    for variable in network.variables:
        if variable.name != hidden[0]:
            require(
                columns.schema[variable.name].states == variable.states,
                f"variable {shown(variable.name)} has other states, or another order of them, in the release",
            )
    return hidden[0]


# -------------------------------------------------------------------------------- labels


def state_features(block: LatentBlock, rows: Mapping[str, Array]) -> Floats:
    """List the rows of each state of the latent node: its probabilities, and those of its children given it.

    The last probability of a child's row follows from the others, and would count them twice.

    Returns:
        Shape (states, features, draws).
    """
    parts = []
    for node in block.modelled:
        family = block.network.family(node)
        table = rows[node] if node == block.latent else rows[node][..., :-1, :]
        table = np.moveaxis(table, family.index(block.latent), 0)
        parts.append(table.reshape(block.states, -1, table.shape[-1]))
    return np.concatenate(parts, axis=1)


def _list_orders(states: int) -> Ints:
    """List all orders of the states, shape (orders, states)."""
    return np.array(list(permutations(range(states))), np.int64)


def _score_orders(features: Floats, ordered: Floats) -> Floats:
    """Compute half the squared distance of every draw in every order from the mean, by a normal law of the features.

    Args:
        features: shape (states, features, draws).
        ordered: the same draws in the orders whose mean and deviations are taken.

    Returns:
        Minus the log density up to a constant, shape (orders, draws).
    """
    mean = ordered.mean(axis=-1, keepdims=True)
    spread = np.maximum(ordered.std(axis=-1, keepdims=True), LEAST_SPREAD)
    # For each place the cost of each state there; the deviations' logarithms are the same for every order.
    costs = np.stack(
        [0.5 * np.square((features - mean[place]) / spread[place]).sum(axis=1) for place in range(len(features))]
    )
    orders = _list_orders(len(features))
    places = np.arange(len(features))
    return np.stack([costs[places, order].sum(axis=0) for order in orders])


def find_orders(features: Floats) -> Ints:
    """Find the order of the states in every draw that is closest to the mean of all, then name states by their share.

    Args:
        features: shape (states, features, draws), as of `state_features`.

    Returns:
        For each draw the old state at each new position, shape (states, draws).
    """
    orders = _list_orders(len(features))
    chosen = np.zeros(features.shape[-1], np.int64)
    for _ in range(MOST_TURNS):
        ordered = np.take_along_axis(features, orders[chosen].T[:, None], axis=0)
        closest = _score_orders(features, ordered).argmin(axis=0)
        if np.array_equal(closest, chosen):
            break
        chosen = closest
    return orders[chosen].T


def label_doubt(features: Floats) -> float:
    """Compute the mean posterior probability that a draw's order is another one than that in which it stands.

    Args:
        features: of draws in their orders, shape (states, features, draws).

    Returns:
        From 0, for states that are far apart, to 1 - 1 / orders, for states that nothing tells apart.
    """
    costs = _score_orders(features, features)
    log_share = -costs[0] - logsumexp(-costs, axis=0)
    return float(1 - np.exp(log_share).mean())
