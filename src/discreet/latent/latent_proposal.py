r"""Proposal of a class behind many columns, from the pairs of columns that a release measured; nothing more is spent.

A class of two states behind yes-or-no columns makes their correlations a product, r_ij = l_i l_j. A network without it
makes other ones: a tree the products along its paths, and one with two parents those of its regressions. Each of the
three is fitted to the measured correlations by generalised least squares. The errors are the noise and the sampling
error, the latter by the normal law (Olkin and Siotani, 1976). A class is proposed where its misfit plus log(records)
for each parameter (Schwarz, 1978) is less than that of both others by more than `LEAST_GAIN`.

Source: Spearman (1904) and Spirtes, Glymour and Scheines (2000, chapter 10) for correlations that no observed cause
makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from scipy.optimize import least_squares

from discreet.errors import require
from discreet.model.network import Network
from discreet.model.schema import Scope, Variable
from discreet.posterior.evidence import measurements
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.releases.combined import Evidence, evidence_of
from discreet.releases.measurement import Measurement
from discreet.util.arrays import Floats, Ints
from discreet.util.tabular import Block, Result

LEAST_COLUMNS, MOST_COLUMNS = 5, 10
"""Least number of columns that a class is proposed for, and most: 1,024 cells can be read with two classes."""
LEAST_GAIN = 20.0
"""Least difference of the criterion between a class and the best network without it (see the documentation's page)."""
SEEN = 4.0
"""Standard deviations of a correlation from which a column counts as dependent on another one."""
LEAST_UNIQUE = 1e-3
"""Least eigenvalue of correlations, and least distance of a loading from 1."""
STATES = ("no", "yes")
"""Names of the states of the proposed class, until they are named by their size."""


@dataclass(frozen=True, eq=False)
class LatentProposal(Result):
    """Proposal of a class behind columns of a release.

    Args:
        columns: those behind which a class is proposed, or for which it was tried in vain; empty if too few depend on
            each other.
        gain: of the class over the best network without it; a class is proposed above 20.
        network: these columns with a node of two states, their parent; None if no class is proposed.
        unread: columns of more states, which are not looked at: one of them may be what the pairs have in common.

    Example:
        >>> import discreet as dc
        >>> dc.latent.LatentProposal(("a", "b", "c", "d", "e"), -12.0, None).summary()
        'no class is proposed: a network without one explains the pairs of a, b, c, d, e as well (gain -12.0)'
    """

    columns: Scope
    gain: float
    network: Network | None
    unread: Scope = ()

    def tidy(self) -> list[dict[str, object]]:
        """List a row for each column: "column", "gain" and "proposed"."""
        proposed = self.network is not None
        return [{"column": name, "gain": self.gain, "proposed": proposed} for name in self.columns]

    def content(self) -> Iterator[str | Block]:
        """Yield the verdict in a sentence, and what follows from it."""
        if not self.columns:
            yield f"no class is proposed: fewer than {LEAST_COLUMNS} yes-or-no columns depend on each other"
        elif self.network is None:
            yield (
                f"no class is proposed: a network without one explains the pairs of {', '.join(self.columns)} as well "
                f"(gain {self.gain:.1f})"
            )
        else:
            columns = ", ".join(self.columns)
            yield f"a class behind {columns} explains their pairs better than parents (gain {self.gain:.1f})"
            yield "it is read from tables of three or more of these together, which a new release may measure"
        if self.unread:
            yield f"columns of more than two states were not looked at: {', '.join(self.unread)}"


def propose_latent(evidence: Evidence, *, name: str = "class") -> LatentProposal:
    """Propose a class behind yes-or-no columns whose measured pairs no tree and no pairs of parents explain.

    Args:
        evidence: releases of tables on one data set.
        name: of the node that is proposed.

    Returns:
        The proposal. Columns that fit a class least are left out one by one, down to five, until a network without a
        class explains the rest better; the largest gain counts.

    Raises:
        InputError: several data sets, no tables, or a column of this name.

    Guarantee:
        None spent: reads the release alone.

    Example:
        >>> import discreet as dc
        >>> import numpy as np
        >>> rng = np.random.default_rng(1)
        >>> hidden = rng.random(20_000) < 0.4
        >>> codes = {n: (rng.random(20_000) < np.where(hidden, 0.8, 0.2)).astype(int) for n in "abcdef"}
        >>> network = dc.Network.empty([dc.Variable(n, ("no", "yes")) for n in "abcdef"])
        >>> counts = dc.tools.count_codes(network, codes)
        >>> promise = dc.Guarantee(epsilon=3, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        >>> dc.latent.propose_latent(release).columns
        ('a', 'b', 'c', 'd', 'e', 'f')
    """
    combined = evidence_of(evidence)
    require(len(combined.data_sets) == 1, "a class is proposed from releases on one data set")
    network = combined.network
    require(name not in network.schema, f"a column has the name of the class, {name}; give another one")
    pairs = CorrelatedPairs.of(network, measurements(combined.parts), combined.records[0])
    best: tuple[float, Scope] = -np.inf, ()
    columns = pairs.dependent()
    while len(columns) >= LEAST_COLUMNS:
        gain, worst = pairs.gain(columns)
        if len(columns) <= MOST_COLUMNS:
            best = max(best, (gain, tuple(pairs.names[column] for column in columns)))
        if gain < 0:
            # A network explains these better; without the columns that explain the others a class would seem to.
            break
        columns = [column for column in columns if column != worst]
    gain, chosen = best
    unread = tuple(variable.name for variable in network.variables if variable.size > 2)
    if not chosen or gain <= LEAST_GAIN:
        return LatentProposal(chosen, gain, None, unread)
    nodes = [Variable(name, STATES), *(network.schema[each] for each in chosen)]
    return LatentProposal(chosen, gain, Network.naive_bayes(nodes, name), unread)


@dataclass(frozen=True, eq=False)
class CorrelatedPairs:
    """Correlations of yes-or-no columns whose pairs were all measured, with the variances of their noise.

    Args:
        names: of the columns.
        correlations: shape (columns, columns).
        noise: same shape.
        records: estimated or public number of records.
    """

    names: Scope
    correlations: Floats
    noise: Floats
    records: float

    @staticmethod
    def of(network: Network, measured: Sequence[Measurement], records: int | None) -> CorrelatedPairs:
        """Read the correlations of a release's tables."""
        tables = [datum for datum in measured if datum.table]
        require(bool(tables), "a class is proposed from tables of counts; this release has none")
        held = {pair for datum in tables for pair in combinations(network.ordered(datum.scope), 2)}
        names = [variable.name for variable in network.variables if variable.size == 2]
        while missing := {
            name: sum(pair not in held for pair in combinations(names, 2) if name in pair) for name in names
        }:
            worst = max(missing, key=missing.__getitem__)
            if not missing[worst]:
                break
            names.remove(worst)
        sets = [(name,) for name in names] + list(combinations(names, 2))
        margins = pooled_margins(network, tables, records, also=sets)
        total = max(margins.total[0], 1.0)
        size = len(names)
        moments, noise = np.zeros((size, size)), np.zeros((size, size))
        means = np.array([np.sqrt(2) * margins.values[name,].item() / total for name in names])
        for first, second in combinations(range(size), 2):
            pair = names[first], names[second]
            moments[first, second] = moments[second, first] = (
                2 * margins.values[pair].item() / total - means[first] * means[second]
            )
            # The noise of the margins and of the total is in the product of the means.
            variance = 4 * margins.variances[pair] + (means[first] * means[second]) ** 2 * margins.total[1]
            variance += 2 * means[second] ** 2 * margins.variances[names[first],]
            variance += 2 * means[first] ** 2 * margins.variances[names[second],]
            noise[first, second] = noise[second, first] = variance / total**2
        spread = np.maximum(1 - np.square(means), LEAST_UNIQUE)
        scale = np.sqrt(np.outer(spread, spread))
        correlations = np.clip(moments / scale, -1, 1) + np.eye(size)
        return CorrelatedPairs(tuple(names), correlations, noise / scale**2, total)

    def dependent(self) -> list[int]:
        """List the columns that depend on three or more others."""
        seen = np.abs(self.correlations) > SEEN * np.sqrt(self.noise + 1 / self.records)
        return [column for column in range(len(self.names)) if seen[column].sum() > 3]  # itself is one

    def gain(self, columns: Sequence[int]) -> tuple[float, int]:
        """Compare a class behind some columns with networks without it.

        Returns:
            (gain of the class, column whose correlations fit it least).
        """
        inside = np.ix_(columns, columns)
        whole, places = _nearest(self.correlations[inside]), np.triu_indices(len(columns), 1)
        errors = _sampling_errors(whole, places) / self.records + np.diag(self.noise[inside][places])
        half = np.linalg.cholesky(errors + 1e-12 * np.eye(len(errors)))
        seen = self.correlations[inside][places]

        def criterion(law: Callable[[Floats], Floats], start: Floats) -> tuple[float, Floats]:
            """Fit a law of correlations; return its misfit plus the cost of its parameters, and its residuals."""
            left = least_squares(lambda at: np.linalg.solve(half, seen - law(at)[places]), start, max_nfev=12).fun
            return float(left @ left) + len(start) * np.log(self.records), left

        sizes, axes = np.linalg.eigh(whole - np.eye(len(columns)))
        start = np.clip(axes[:, -1] * np.sqrt(max(sizes[-1], 0.01)), -0.95, 0.95)
        hidden, left = criterion(lambda loads: np.outer(loads, loads), start)
        others = []
        for most in (1, 2):
            parents = _choose_parents(whole, most)
            first = [np.linalg.solve(whole[np.ix_(each, each)], whole[each, node]) for node, each in parents[1:]]
            others.append(criterion(partial(_law_of_arcs, parents), np.concatenate(first))[0])
        misfits = np.zeros(len(columns))
        for place, part in zip(places, (left, left), strict=True):
            np.add.at(misfits, place, np.square(part))
        return min(others) - hidden, columns[int(misfits.argmax())]


def _nearest(correlations: Floats) -> Floats:
    """Return correlations without negative eigenvalues that are near the given ones."""
    sizes, axes = np.linalg.eigh(correlations)
    whole = (axes * np.maximum(sizes, LEAST_UNIQUE)) @ axes.T
    spread = np.sqrt(np.diag(whole))
    return np.asarray(whole / np.outer(spread, spread), np.float64)


def _sampling_errors(r: Floats, places: tuple[Ints, Ints]) -> Floats:
    """Compute the covariance of correlations r_ij and r_kl of normal variables, for one record."""
    i, j = places[0][:, None], places[1][:, None]
    k, l = places[0][None], places[1][None]
    squares = r[i, k] ** 2 + r[i, l] ** 2 + r[j, k] ** 2 + r[j, l] ** 2
    crossed = r[i, k] * r[j, l] + r[i, l] * r[j, k]
    first = r[i, j] * (r[i, k] * r[i, l] + r[j, k] * r[j, l])
    second = r[k, l] * (r[i, k] * r[j, k] + r[i, l] * r[j, l])
    return np.asarray(0.5 * r[i, j] * r[k, l] * squares + crossed - first - second, np.float64)


def _choose_parents(whole: Floats, most: int) -> list[tuple[int, list[int]]]:
    """Choose up to `most` parents of each column among earlier ones; columns in the order of the largest tree."""
    size = len(whole)
    order = [int((np.square(whole).sum(axis=0)).argmax())]
    while len(order) < size:
        rest = [node for node in range(size) if node not in order]
        order.append(rest[int(np.abs(whole[np.ix_(rest, order)]).max(axis=1).argmax())])
    parents = []
    for place, node in enumerate(order):
        sets = [list(each) for each in combinations(order[:place], min(most, place))]
        explained = [whole[each, node] @ np.linalg.solve(whole[np.ix_(each, each)], whole[each, node]) for each in sets]
        parents.append((node, sets[int(np.argmax(explained))]))
    return parents


def _law_of_arcs(parents: Sequence[tuple[int, list[int]]], weights: Floats) -> Floats:
    """Compute the correlations of a linear network of variables with variance 1, its weights in the order of arcs."""
    whole, at, before = np.eye(len(parents)), 0, list[int]()
    for node, each in parents:
        correlations = weights[at : at + len(each)] @ whole[np.ix_(each, before)] if before else np.empty(0)
        whole[node, before] = whole[before, node] = correlations
        at, before = at + len(each), [*before, node]
    return whole
