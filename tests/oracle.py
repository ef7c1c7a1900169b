"""Slow and obvious references: the joint of a network and the posterior of one row by enumeration, tables taken apart.

Nothing here is shared with the package but the types that hold arrays, so agreement means something.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from scipy.special import betainc, gammaln

import discreet as dc

# ------------------------------------------------------------------------------------------------------- the joint


def small(*parts: tuple[str, int, tuple[str, ...]]) -> dc.Network:
    """A network from (name, number of states, parents)."""
    variables = tuple(dc.Variable(name, tuple(f"s{k}" for k in range(size))) for name, size, _ in parts)
    return dc.Network(variables, {name: parents for name, _, parents in parts})


def with_draws(theta: dc.Tables) -> dc.Tables:
    """One table of probabilities as a posterior of one draw."""
    return dc.Tables(theta.network, {node: array[..., None] for node, array in theta.items()}, draws=1)


def stacked(thetas: Sequence[dc.Tables]) -> dc.Tables:
    """Several tables over one network as draws."""
    network = thetas[0].network
    arrays = {node: np.stack([theta[node] for theta in thetas], axis=-1) for node in network.nodes}
    return dc.Tables(network, arrays, draws=len(thetas))


def random_draws(network: dc.Network, draws: int, seed: int, concentration: float = 1.0) -> dc.Tables:
    """Dirichlet draws of every row."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for node in network.nodes:
        *parents, size = network.shape(node)
        rows = rng.dirichlet(np.full(size, concentration), size=(*parents, draws))
        arrays[node] = np.moveaxis(rows, -1, -2)
    return dc.Tables(network, arrays, draws=draws)


def full_joint(cells: dc.Tables) -> np.ndarray:
    """P(all variables), shape `(*sizes, draws)`, one joint state after the other."""
    network = cells.network
    table = np.empty((*(variable.size for variable in network.schema), cells.draws))
    for codes in product(*(range(variable.size) for variable in network.schema)):
        state = dict(zip(network.nodes, codes, strict=True))
        probability = np.ones(cells.draws)
        for node in network.nodes:
            probability = probability * cells[node][tuple(state[name] for name in network.family(node))]
        table[codes] = probability
    return table


def event(cells: dc.Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> np.ndarray:
    """P(targets, evidence), shape `(*sizes of the targets, draws)`."""
    nodes = cells.network.nodes
    sliced = full_joint(cells)[tuple(evidence.get(name, slice(None)) for name in nodes)]
    left = [name for name in nodes if name not in evidence]
    summed = sliced.sum(axis=tuple(axis for axis, name in enumerate(left) if name not in targets))
    kept = [name for name in left if name in targets]
    return summed.transpose([*(kept.index(name) for name in targets), len(kept)])


def conditional(cells: dc.Tables, targets: Sequence[str], evidence: Mapping[str, int]) -> np.ndarray:
    """P(targets | evidence); NaN in draws under which the evidence is impossible."""
    joint, total = event(cells, targets, evidence), event(cells, (), evidence)
    return np.divide(joint, total, out=np.full(joint.shape, np.nan), where=total > 0)


def most_probable(
    cells: dc.Tables, targets: Sequence[str], evidence: Mapping[str, int]
) -> list[tuple[dict[str, int], float]]:
    """MAP (MPE where the targets are all others): for every draw the best states and their probability."""
    table = conditional(cells, targets, evidence)
    found = []
    for draw in range(table.shape[-1]):
        codes = max(np.ndindex(*table.shape[:-1]), key=lambda codes, draw=draw: table[(*codes, draw)])
        found.append((dict(zip(targets, codes, strict=True)), float(table[(*codes, draw)])))
    return found


# --------------------------------------------------------------------------------------------- one row of counts


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """The exact posterior of a row's counts on a box, given noisy counts.

    The law is that of `latent_counts.py`'s docstring, put down in its original form: the row's total has a law of its
    own, the counts given the total are Dirichlet-multinomial, and each has discrete Laplace noise.

    Args:
        counts: N_k over the box, one array for each cell, shape of the box.
        weights: posterior probabilities, shape of the box.
        a: concentrations.
    """

    counts: tuple[np.ndarray, ...]
    weights: np.ndarray
    a: np.ndarray

    def total_law(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and probabilities of the row's total."""
        total = sum(self.counts)
        law = np.bincount(total.ravel(), weights=self.weights.ravel())
        return np.arange(law.size), law

    def cell_law(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Values and probabilities of the count of one cell."""
        law = np.bincount(self.counts[k].ravel(), weights=self.weights.ravel())
        return np.arange(law.size), law

    def mean(self) -> np.ndarray:
        """Posterior mean of theta."""
        total = sum(self.counts) + self.a.sum()
        return np.array(
            [np.sum(self.weights * (a + n) / total) for a, n in zip(self.a, self.counts, strict=True)],
        )

    def theta_cdf(self, k: int, x: np.ndarray) -> np.ndarray:
        """P(theta_k <= x): a mixture of Beta(a_k + N_k, A - a_k + N - N_k)."""
        n, total = self.counts[k].ravel(), sum(self.counts).ravel()
        pairs, inverse = np.unique(np.stack([n, total]), axis=1, return_inverse=True)
        weights = np.bincount(inverse.ravel(), weights=self.weights.ravel())
        first, second = self.a[k] + pairs[0], self.a.sum() - self.a[k] + pairs[1] - pairs[0]
        kept = weights > 1e-12
        return np.array([np.sum(weights[kept] * betainc(first[kept], second[kept], value)) for value in x])


def flat(totals: np.ndarray) -> np.ndarray:
    """Log law of a row's total of which nothing is known."""
    return np.zeros(totals.shape)


def row_posterior(
    z: Sequence[int],
    a: Sequence[float],
    b: float,
    top: Sequence[int],
    log_total: Callable[[np.ndarray], np.ndarray] = flat,
) -> RowPosterior:
    """Enumerate every vector of counts from 0 to `top` in each cell; the box must hold all but 1e-9 of the mass."""
    counts = np.meshgrid(*(np.arange(high + 1) for high in top), indexing="ij")
    concentrations = np.asarray(a, float)
    total, mass = sum(counts), concentrations.sum()
    # Multinomial coefficient times B(a + N) / B(a): the counts given their total.
    log_law = log_total(total) + gammaln(total + 1.0) + gammaln(mass) - gammaln(total + mass)
    for n, noisy, alpha in zip(counts, z, concentrations, strict=True):
        log_law += gammaln(n + alpha) - gammaln(alpha) - gammaln(n + 1.0) - np.abs(noisy - n) / b
    weights = np.exp(log_law - log_law.max())
    weights /= weights.sum()
    for axis in range(weights.ndim):
        beyond = weights.take(-1, axis=axis).sum() * 2 * b  # at most geometric with ratio exp(-1 / 2b) out there
        assert beyond < 1e-9, f"the box is too small along axis {axis}: {beyond}"
    return RowPosterior(tuple(counts), weights, concentrations)


# ------------------------------------------------------------------------------------------------------- interactions


def parts_of(scope: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All subsets, in the order of the names."""
    return [part for size in range(len(scope) + 1) for part in combinations(scope, size)]


def interactions(table: np.ndarray, scope: tuple[str, ...]) -> dict[tuple[str, ...], np.ndarray]:
    """Margins over all subsets less their means along every axis; further axes of the table are repetitions."""
    found = {}
    for part in parts_of(scope):
        margin = table.sum(axis=tuple(axis for axis, name in enumerate(scope) if name not in part))
        for axis in range(len(part)):
            margin = margin - margin.mean(axis=axis, keepdims=True)
        found[part] = np.asarray(margin)
    return found


def spread(network: dc.Network, found: Mapping[tuple[str, ...], np.ndarray], scope: tuple[str, ...]) -> np.ndarray:
    """The sum of interactions over subsets of a scope, each spread evenly over the cells that it does not name."""
    sizes = [network.schema[name].size for name in scope]
    inside = {part: array for part, array in found.items() if part in parts_of(scope)}
    extra = next((array.shape[len(part) :] for part, array in inside.items()), ())
    table = np.zeros((*sizes, *extra))
    for part, array in inside.items():
        names = [size if name in part else 1 for name, size in zip(scope, sizes, strict=True)]
        table += array.reshape((*names, *extra)) * network.cells(part) / network.cells(scope)
    return table
