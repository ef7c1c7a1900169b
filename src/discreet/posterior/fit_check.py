r"""Goodness of fit of a network: a test of every conditional independence that the measured tables can refute.

Tables inform us about interactions (`least_squares.py`) that a network has no arc for: of two parents that are not
joined, or of nodes whose families (a node with its parents) are in one table. A network *carries* the interaction of a
set T if the last node of T, in the network's order, has all others as parents; the network determines the measured
interactions it does not carry. With y the measured interaction of T, n the number of records, phi(x) the same contrasts
of one record x, and theta the network's probabilities as estimated from all other measurements,

    r = y - n E[phi | theta],    r' V^-1 r  ~  that of a multivariate t law with covariance V,
    V = g I + n R + sum over S of g_S b_S b_S' + c I.

g is the variance of the noise in y. n R is the sampling variation of y that the fitted network does not absorb: the
scores of a network are the functions D_v = E[phi | family of v] - E[phi | parents of v], which are orthogonal, so `R =
Cov(phi) - sum over v of Cov(D_v)`, over the ancestors of T (Rao's score test). The sum over the measured sets S (those
that some table contains) inside families is the noise in theta: an error e in the counts of the family of v changes n
E[phi] by `sum over its cells of D_v e`, and b_S are the coordinates of all D_v in the interaction of S. Sets that are
not carried carry no information on theta, so the errors of y and theta are independent. c (one record) allows for the
heavier tails of rare-cell counts. Nor is the noise normal: a sum of independent Laplace errors has an excess kurtosis
of at most 3, so that of r is taken to be 3 s^2, with s the share of the noise in V, which is the excess kurtosis of a t
law with 4 + 2 / s^2 degrees of freedom.

p-values are corrected for the number of tests (Holm, 1979). The effect is on the probability scale: half the sum over
cells of the difference between the measured interaction and the network's, less the expected contribution of noise and
sampling.

Source: Rao (1948) for score tests; Xiao, He, Zhang and Kifer (2023) for measured interactions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import fdtrc

from discreet.display.renderers import TextTable
from discreet.display.text_tables import with_noun
from discreet.errors import InputError, printable
from discreet.inference.forward import forward_pass
from discreet.inference.interactions import contrast_matrices, interaction_contrasts, positions, transformed
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.evidence import check_total, measured_sets, measurements
from discreet.posterior.pooled.latent_counts import LatentCounts
from discreet.posterior.pooled.least_squares import Margins, pooled_margins
from discreet.posterior.pooled.measured import is_poolable
from discreet.posterior.saturated import missing_arcs
from discreet.releases.combined import Combined, Evidence, evidence_of
from discreet.util.arrays import Floats, margin
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result

NETWORK_DRAWS = 50
"""Number of draws of the network's probabilities. theta is their average, each a mean given counts averaged over ten
sweeps, so its Monte Carlo error is a tenth of the posterior's standard deviation."""
FALSE_ALARM_RATE = 0.01
"""Family-wise false-alarm rate: the fraction of releases of a correct network in which any test fails."""
LEAST_EFFECT = 0.005
"""Least effect of a contradiction, on the probability scale: smaller ones change no answer by more than a percentage
point."""
RARE_CELL_VARIANCE = 1.0
"""c, the variance added to every contrast, in squared records: one record in a nearly empty cell is no evidence."""
MOST_TESTED_CONTRASTS = 512
"""Largest number of contrasts of a tested interaction."""
MOST_UNION_CELLS = 2**22
"""Largest number of cells of a measured set joined with a family, also times contrasts: 32 MB."""
MOST_ANCESTOR_WORK = 100_000
"""Budget of squared numbers of ancestors over all tested tables, about 4 CPU seconds. Tables with the most ancestors
are skipped."""


@dataclass(frozen=True)
class Tested:
    """Test of one interaction that the network constrains: its p-value and effect.

    Args:
        variables: two or three, in the network's order.
        p: probability of a misfit at least as large if the network is correct, corrected for the number of tests.
        effect: distance of the measured interaction from the network's, at least 0: half the sum over joint states of
            the difference in probability, less the expected contribution of noise and sampling.
        arcs: arcs (parent, child) that the network lacks to carry the interaction.

    Example:
        >>> Tested(("a", "b"), p=0.001, effect=0.1, arcs=(("a", "b"),)).contradicted
        True
        >>> Tested(("a", "b"), p=0.001, effect=0.001, arcs=(("a", "b"),)).contradicted  # too small to matter
        False
    """

    variables: tuple[str, ...]
    p: float
    effect: float
    arcs: tuple[tuple[str, str], ...]

    @property
    def contradicted(self) -> bool:
        """True if the test refutes the network with a relevant effect: `p < 0.01` and `effect > 0.005`."""
        return self.p < FALSE_ALARM_RATE and self.effect > LEAST_EFFECT


@dataclass(frozen=True)
class GoodnessOfFit(Result):
    """Goodness of fit: tests of a network's independences against the tables of a release.

    Args:
        tests: tests of all interactions that could be tested, largest effect first; in large networks, only those of
            the tables with fewest ancestors.
        pairs_in_tables: number of pairs of variables that lie in a table together.
        pairs: number of all pairs of variables. For a pair that lies in no table there is only the network's
            assumption.

    Example:
        >>> import discreet as dc
        >>> from discreet.posterior.fit_check import Tested
        >>> tested = Tested(("a", "b"), p=0.001, effect=0.1, arcs=(("a", "b"),))
        >>> check = dc.results.GoodnessOfFit((tested,), pairs_in_tables=2, pairs=3)
        >>> [test.variables for test in check.contradicted]
        [('a', 'b')]
        >>> print(dc.results.GoodnessOfFit((), pairs_in_tables=2, pairs=3))
        nothing that the network says could be tested; 2 of 3 pairs of variables lie in a table
    """

    tests: tuple[Tested, ...]
    pairs_in_tables: int
    pairs: int

    @property
    def contradicted(self) -> tuple[Tested, ...]:
        """Tests that the network fails (`Tested.contradicted`), in the order of `tests`; empty if there are none."""
        return tuple(test for test in self.tests if test.contradicted)

    @property
    def contradicted_pairs(self) -> tuple[tuple[str, ...], ...]:
        """Pairs of variables among the failed tests: they depend although the network has no arc; largest effect first.

        Failed triples are left out.
        """
        return tuple(test.variables for test in self.contradicted if len(test.variables) == 2)

    def __str__(self) -> str:
        """Format the result in one line: the number of failed tests, the one of largest effect, and the coverage.

        The failed test is given by its variables, its effect with three decimals and the arcs to add. The coverage is
        the number of pairs of variables that some table contains. Without tests, or without failed ones, the line says
        so and gives the coverage.
        """
        coverage = f"{self.pairs_in_tables} of {self.pairs} pairs of variables lie in a table"
        if not self.tests:
            return f"nothing that the network says could be tested; {coverage}"
        failed = self.contradicted
        if not failed:
            return f"none of {with_noun(len(self.tests), 'testable independence')} is contradicted; {coverage}"
        worst = failed[0]
        arcs = ", ".join(f"{parent} -> {child}" for parent, child in worst.arcs)
        largest = printable(f"{' - '.join(worst.variables)} (effect {worst.effect:.3f}; add {arcs})")
        tested = with_noun(len(self.tests), "testable independence")
        return f"{len(failed)} of {tested} contradicted, most of all {largest}; {coverage}"

    def tidy(self) -> list[dict[str, Any]]:
        """List all tests as rows, failed or not, largest effect first.

        Returns:
            Rows with "variables" as text ("a - b"), "effect" and "p" as numbers, "contradicted" as a truth value, and
            "arcs" (those that would carry the interaction) as text ("a -> b, c -> b").
        """
        return [
            {
                "variables": " - ".join(test.variables),
                "effect": test.effect,
                "p": test.p,
                "contradicted": test.contradicted,
                "arcs": ", ".join(f"{parent} -> {child}" for parent, child in test.arcs),
            }
            for test in self.tests
        ]

    def content(self) -> Iterator[str | Block]:
        """Yield the table of all tests, an empty line, and the result in one line; without tests that line alone.

        A row of the table has the variables, the effect with four decimals, the p-value in two digits, "contradicted"
        or nothing, and the arcs that would carry the interaction.
        """
        rows = [
            (row["variables"], f"{row['effect']:.4f}", f"{row['p']:.2g}", "contradicted" * row["contradicted"],
             row["arcs"])
            for row in self.tidy()
        ]  # fmt: skip
        table = TextTable(("independent, says the network", "effect", "p", "", "arcs that would carry it"), rows)
        yield from (table, "", str(self)) if rows else (str(self),)


def check_fit(evidence: Evidence, *, network: Network | None = None, rng: Seed = None) -> GoodnessOfFit:
    """Test against a release whether variables depend on each other that are independent in the network.

    Each test is of a pair or a triple of variables that one table contains. The last of them, in the network's order,
    lacks an arc from at least one of the others.

    Args:
        evidence: noisy counts, tables or contrasts; other payloads cannot contradict a network.
        network: network to test, over the same variables; None tests that of the release.
        rng: source of the draws behind the network's probabilities; None takes the same ones in every call (seed 0).

    Returns:
        All tests, largest effect first, and how much of the network the tables reach: of all pairs of variables the
        number that every data set measured together. Pairs with an arc and pairs whose test was skipped count, too.
        P-values are corrected (Holm) for all tests of all data sets together; of a set of variables that several data
        sets measured, the test with the smallest p-value is listed. For a correct network, any test fails in at most
        one of a hundred releases. Not tested are pairs that lie in no table together, data sets whose tables cannot be
        pooled, and tables or interactions beyond the limits of work.

    Raises:
        InputError: a network over other variables or states, or a data set whose measurements do not determine the
            number of records.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Rao (1948) for score tests, Holm (1979) for many of them; `help("discreet.posterior.fit_check")` derives the
        variance.

    Example:
        >>> import discreet as dc
        >>> variables = tuple(dc.Variable(name, ("no", "yes")) for name in "abc")
        >>> network = dc.Network(variables, {"a": (), "b": (), "c": ("a", "b")})  # no arc joins a and b
        >>> counts = dc.tools.count_codes(network, {"a": [0, 1] * 500, "b": [0, 1] * 500, "c": [0] * 1000})
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        >>> [test.arcs for test in dc.check_fit(release).contradicted]
        [(('a', 'b'),)]
    """
    combined = evidence_of(evidence)
    check_total(combined)
    tested_network = network or combined.network
    if tested_network.schema != combined.network.schema:
        raise InputError("the network to test must have the variables and states of the release")
    rng = np.random.default_rng(0) if rng is None else as_generator(rng)
    results: list[tuple[Scope, float, float]] = []
    with under_way("testing the network"):
        for releases in combined.data_sets:
            measured = measurements(releases)
            if measured and is_poolable(measured):
                results += _test_interactions(tested_network, Combined((releases,)), rng)
    corrected = _correct_p_values([p for _, p, _ in results])
    listed: dict[Scope, Tested] = {}
    for (names, _, effect), p in zip(results, corrected, strict=True):
        if names not in listed or p < listed[names].p:
            listed[names] = Tested(names, p, effect, missing_arcs(tested_network, names))
    tests = tuple(sorted(listed.values(), key=lambda test: (-test.effect, test.variables)))
    pairs = {pair for table in measured_sets(combined) for pair in combinations(tested_network.ordered(table), 2)}
    nodes = len(tested_network.nodes)
    return GoodnessOfFit(tests, len(pairs), nodes * (nodes - 1) // 2)


def _correct_p_values(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple testing by Holm's step-down method (1979).

    The i-th smallest of m becomes the largest of `(m - j + 1) p_j` over j <= i, at most 1.

    Returns:
        Corrected p-values in the order of the argument; empty for none.
    """
    order = np.argsort(p_values, kind="stable")
    steps = np.asarray(p_values, np.float64)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(p_values) else steps
    return [float(p) for p in corrected]


def _order_names(network: Network, names: Iterable[str]) -> Scope:
    """Sort names by the network's order of nodes, ancestors first."""
    position = {name: index for index, name in enumerate(network.order)}
    return tuple(sorted(names, key=position.__getitem__))


def _test_interactions(
    network: Network, evidence: Combined, rng: np.random.Generator
) -> Iterator[tuple[Scope, float, float]]:
    """Test the pairs and triples of jointly measured variables that the network lacks arcs for, on one data set.

    Each is tested once, in the table of fewest variables that contains it (of equals the last of `measured_sets`). The
    network's probabilities theta are the mean of NETWORK_DRAWS (50) draws of latent counts under the learned prior.
    Skipped are interactions with more than MOST_TESTED_CONTRASTS (512) contrasts or none, tables beyond the budget of
    work (`_choose_affordable`), and tables that are too large for exact inference (`_test_table`).

    Args:
        network: network to test.
        evidence: measurements of one data set, which can be pooled.
        rng: source of the draws of latent counts, whose average gives theta.

    Returns:
        An iterator over (variables in the network's order, uncorrected p-value, effect), table by table.
    """
    measured = measurements(evidence.parts)
    wanted: dict[Scope, Scope] = {}
    for table in reversed(measured_sets(evidence)):
        ordered = _order_names(network, table)
        for names in (*combinations(ordered, 2), *combinations(ordered, 3)):
            contrasts = math.prod(network.schema[name].size - 1 for name in names)
            if missing_arcs(network, names) and 0 < contrasts <= MOST_TESTED_CONTRASTS:
                wanted.setdefault(names, ordered)
    margins = pooled_margins(network, measured, evidence.records[0], also=[network.ordered(names) for names in wanted])
    rows = LatentCounts(margins, NETWORK_DRAWS, rng)
    theta = Tables(network, lambda node: rows.rows(node).mean[..., None], draws=1)
    for home in _choose_affordable(network, list(dict.fromkeys(wanted.values()))):
        yield from _test_table(margins, theta, [names for names, holder in wanted.items() if holder == home])


def _choose_affordable(network: Network, tables: Sequence[Scope]) -> list[Scope]:
    """Choose tables, cheapest first, while their summed cost is at most `MOST_ANCESTOR_WORK`; keep the given order.

    The cost of a table is the squared number of its variables and their ancestors. From the first table on that exceeds
    the budget, all are left out.
    """
    costs = {table: len(network.ancestors(table)) ** 2 for table in tables}
    cheapest = sorted(tables, key=costs.__getitem__)
    ends = np.cumsum([costs[table] for table in cheapest])
    affordable = {table for table, end in zip(cheapest, ends.tolist(), strict=True) if end <= MOST_ANCESTOR_WORK}
    return [table for table in tables if table in affordable]


def _test_table(margins: Margins, theta: Tables, sets: Sequence[Scope]) -> Iterator[tuple[Scope, float, float]]:
    """Test some interactions of one table; yield nothing if exact inference is too large.

    Inference is for all of them together: if an ancestor's family with the interactions' variables has more than
    MOST_UNION_CELLS cells, if the pass exceeds its budget, or if one interaction has too many contrasts beside a
    family, none of the table's interactions is tested.

    Args:
        margins: measured interactions, with noise variances.
        theta: the network's probabilities, one draw.
        sets: variables of each interaction, in the network's order.

    Returns:
        An iterator over (variables, uncorrected p-value, effect); interactions without a measured margin are left out.
    """
    network = theta.network
    inside, above = {name for names in sets for name in names}, {names: network.ancestors(names) for names in sets}
    unions = dict[str, Scope]()
    for node in network.ancestors(inside):
        family = network.family(node)
        unions[node] = (*family, *(name for name in _order_names(network, inside) if name not in family))
        if network.cells(unions[node]) > MOST_UNION_CELLS:
            return
    laws = forward_pass([*sets, *unions.values()], theta)
    if laws is None:
        return
    try:
        moments = {names: _InteractionMoments(names, laws.law(names)[..., 0]) for names in sets}
        for node, union in unions.items():
            for names, moment in moments.items():
                if node in above[names]:
                    moment.add(margins, laws.law(union)[..., 0], union, node)
    except InputError:
        return
    for names, moment in moments.items():
        result = moment.test(margins)
        if result is not None:
            yield names, *result


class _InteractionMoments:
    """Moments of one interaction under the network: its mean, and the terms of V, summed over ancestors by `add`.

    Args:
        names: variables of the interaction, in the network's order.
        probabilities: `P(names)` under the network, shape `(*sizes)`.

    Attributes:
        contrasts: orthonormal contrasts phi over the cells, shape (contrasts, cells).
        mean: E[phi], shape (contrasts,).
        sampling: R, shape (contrasts, contrasts), at first Cov(phi).
        noise: matrices b_S by measured set S, shape (contrasts, coordinates of S); at first that of the number of
            records.
        measured: False once a family's interaction is needed that was not measured.
    """

    def __init__(self, names: Scope, probabilities: Floats) -> None:
        """Start from the interaction's own moments under the network, before any ancestor is added.

        They are E[phi] and R = Cov(phi). The noise has one term yet: an error of 1 in the number of records changes n
        E[phi] by E[phi].
        """
        self.names, self.sizes = names, probabilities.shape
        self.contrasts = interaction_contrasts(self.sizes)
        flat = probabilities.ravel()
        self.mean = self.contrasts @ flat
        self.sampling = (self.contrasts * flat) @ self.contrasts.T - np.outer(self.mean, self.mean)
        # An error e in the number of records changes n E[phi] by e E[phi]: b_S of the empty set.
        self.noise: dict[Scope, Floats] = {(): self.mean.copy()[:, None]}
        self.measured = True

    def add(self, margins: Margins, joint: Floats, union: Scope, node: str) -> None:
        """Add the terms of one ancestor's family to V in place: subtract Cov(D_v) from R, add its coordinates to b_S.

        The coordinates of D_v in the interaction of S are multiplied by `sqrt(|S| / |family|)`, the numbers of cells of
        both tables. If an interaction of the family that matters (a coordinate above 1e-9) was not measured, nothing is
        added to its b_S, and `measured` becomes False.

        Args:
            margins: measured interactions, with noise variances.
            joint: the network's law of `union`, an axis for each name.
            union: the family first, then the variables of all tested interactions.
            node: the ancestor.

        Raises:
            InputError: more than MOST_UNION_CELLS contrasts of the tested interaction, times cells of one table of the
                family's and the interaction's variables together.
        """
        network = margins.network
        family = network.family(node)
        scope = (*family, *(name for name in self.names if name not in family))
        if len(self.mean) * network.cells(scope) > MOST_UNION_CELLS:
            raise InputError("an interaction has too many contrasts beside a family")
        score, probabilities = self._compute_scores(margin(joint, union, scope), scope, family)
        flat = score.reshape(len(self.mean), -1)
        # R = Cov(phi) - sum over v of Cov(D_v); b_S: coordinates of D_v in the interaction of S (module docstring).
        self.sampling = self.sampling - (flat * probabilities.ravel()) @ flat.T
        matrices = (np.eye(len(self.mean)), *contrast_matrices(probabilities.shape))
        turned = transformed(score, matrices)
        for inside, index in positions(family):
            subset = network.ordered(inside)
            load = turned[(slice(None), *index)].reshape(len(self.mean), *(network.schema[n].size - 1 for n in inside))
            load = load.transpose(0, *(1 + inside.index(name) for name in subset)).reshape(len(self.mean), -1)
            if subset not in margins.variances:
                self.measured = self.measured and not np.any(np.abs(load) > 1e-9)
                continue
            share = math.sqrt(network.cells(subset) / network.cells(family))
            self.noise[subset] = self.noise.get(subset, 0.0) + share * load

    def _compute_scores(self, joint: Floats, both: Scope, family: Scope) -> tuple[Floats, Floats]:
        """Compute the scores D_v of a family, and the family's law.

        Args:
            joint: law of `both`, an axis for each name.
            both: the family first, then the other variables of the interaction.
            family: parents, then the node.

        Returns:
            (`E[phi | family] - E[phi | parents]`, shape (contrasts, *family), where a mean is 0 if its condition has
            probability 0; `P(family)`, shape (*family)).
        """
        shape = [size if name in self.names else 1 for name, size in zip(both, joint.shape, strict=True)]
        # Axes of the contrasts in the order that the names have in `both`.
        order = [self.names.index(name) for name in both if name in self.names]
        phi = self.contrasts.reshape(-1, *self.sizes).transpose(0, *(1 + axis for axis in order)).reshape(-1, *shape)
        beyond = tuple(range(1 + len(family), 1 + len(both)))
        total = (phi * joint).sum(axis=beyond)
        probabilities = joint.sum(axis=tuple(axis - 1 for axis in beyond))
        family_means = total / np.maximum(probabilities, np.finfo(np.float64).tiny)
        parents = probabilities.sum(axis=-1, keepdims=True)
        parent_means = total.sum(axis=-1, keepdims=True) / np.maximum(parents, np.finfo(np.float64).tiny)
        return np.asarray(family_means - parent_means), np.asarray(probabilities)

    def test(self, margins: Margins) -> tuple[float, float] | None:
        """Compute the uncorrected p-value and the effect of the interaction, after all ancestors were added.

        With `r = y - n E[phi]`, n floored at 1, and V of the module docstring, with c = RARE_CELL_VARIANCE (1) and
        negative eigenvalues of R set to 0, the p-value is that of `r' V^-1 r` under a t law with `4 + 2 (tr V / tr
        noise)^2` degrees of freedom. The noise is g I plus the terms of all S. The effect is `sqrt(max(0, |r|^2 - tr V)
        / |r|^2) * sum |phi' r| / (2 n)`. Both denominators are at least 1e-300.

        Args:
            margins: measured interactions, with noise variances.

        Returns:
            (p-value, effect); None if the interaction itself or one that `add` needed was not measured.
        """
        network = margins.network
        subset = network.ordered(self.names)
        if not self.measured or subset not in margins.values:
            return None
        records = max(margins.total[0], 1.0)
        turned = margins.values[subset].transpose([subset.index(name) for name in self.names])
        misfit = turned.ravel() - records * self.mean
        # V = n R + g I + sum of g_S b_S b_S' + c I; for a t law, r' V^-1 r / k is (d - 2) / d times an F(k, d).
        values, vectors = np.linalg.eigh((self.sampling + self.sampling.T) / 2)
        variance = records * (vectors * np.maximum(values, 0)) @ vectors.T
        noise = margins.variances[subset] * np.eye(len(misfit))
        for inside, loads in self.noise.items():
            noise += margins.variances[inside] * loads @ loads.T
        variance += noise + RARE_CELL_VARIANCE * np.eye(len(misfit))
        statistic = float(misfit @ np.linalg.solve(variance, misfit)) / len(misfit)
        degrees = 4 + 2 * (float(np.trace(variance)) / max(float(np.trace(noise)), 1e-300)) ** 2
        squares = float(misfit @ misfit)
        share = math.sqrt(max(0.0, squares - float(np.trace(variance))) / max(squares, 1e-300))
        effect = share * 0.5 * float(np.abs(self.contrasts.T @ misfit).sum()) / records
        return float(fdtrc(len(misfit), degrees, statistic * degrees / (degrees - 2))), effect
