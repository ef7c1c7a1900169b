"""Missing at random: laws of complete records, from draws in which "missing" is a state like others.

A release over variables that may be missing informs us about the law of observed values, `s`: for every variable its
value, or that it is missing. Values are *missing at random* if, given all observed values of a record, whether another
value is missing does not depend on that value. For each draw the law of complete records is fitted by maximum
likelihood (EM). The result is again a posterior draw, as the draws already include sampling variation and noise.

Records with missing values make the variables around a gap depend on each other through it, which no network over `s`
represents. So only the draw's laws of families (a node with its parents) are used, which tables contain, and not its
joint law. The law of complete records has the rows `theta(x_v | x_parents)` of the network, and a pattern of missing
values is weighted by a product of functions of families:

    P(x, s) = prod_v theta_v(x_v | x_parents) psi_v(s_v, s_parents)

for all `s` that agree with `x`. Each round fits `psi` to the draw's laws of families (a step of iterative proportional
fitting), and `theta` to the complete records expected under the result. The true law is a fixed point if the
probability of a gap is a product of functions of the observed values in each family. If a gap depends on variables
outside of its families, or on the missing value itself, this is not identified, and the answer is biased accordingly.

Measured sets that no family contains are completed separately, each by its own EM (`law_parts.py`). One joint law is
fitted to the complete rows, the laws of parents that come with them, and the complete sets, as is done for observed
values.

Source: Rubin (1976), missing at random; Dempster, Laird and Rubin (1977), EM; Csiszár and Tusnády (1984), rounds of two
projections; Sadinle and Reiter (2017), gaps that do not depend on their own value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from discreet.errors import InputError
from discreet.inference.exact_laws import CELL_BUDGET, FactorLaws
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.structural_zeros import with_zeros
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws, Source
from discreet.posterior.pooled.family_laws import family_laws
from discreet.util.arrays import Array

DRAWS_AT_ONCE = 32
"""Number of draws that are fitted together."""
MOST_EM_ROUNDS, LARGEST_CHANGE = 200, 3e-5
"""Largest number of EM rounds, and the largest change of a probability that ends them. Rows that still change
then have hardly any records, or are left undetermined by gaps: between 150 and 3,000 rounds no cell of a family
changed by more than .007 of all records, on two patterns of gaps in asia and in child."""
LEAST_PROBABILITY = 1e-12
"""Least probability in a denominator."""


def assume_at_random(posterior: PosteriorDraws) -> PosteriorDraws:
    """Compute the posterior of complete records if values are missing at random, by an EM fit of every draw.

    All families are drawn. If the posterior was drawn under a larger network, this one is completed, and its completed
    rows are projected at first use.

    Args:
        posterior: posterior of a release over variables of which some may be missing, as `noise_aware` returns it; not
            changed.

    Returns:
        As many draws, over the network without the states for missing values, without replicates. Answers about
        variables with missing values are marked "assumed", with the reason; sums of numbers are read as those of the
        values that were seen. New draws can be made if `posterior` can make some.

    Raises:
        InputError: no variable may be missing, or the law of complete records is too large for exact inference.

    Guarantee:
        No budget is spent; only the posterior is read.

    Source:
        Rubin (1976), missing at random; Dempster, Laird and Rubin (1977), EM; see
        `help("discreet.posterior.missing_at_random")`, which describes the model.

    Example:
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("ill", ("no", "yes"), missing="?"),), {"ill": ()})
        >>> seen = dc.results.PosteriorDraws(dc.Tables(network, {"ill": [[0.6], [0.3], [0.1]]}, draws=1))
        >>> dc.tools.assume_at_random(seen).mean()["ill"].round(2).tolist()
        [0.67, 0.33]
    """
    if not posterior.network.may_be_missing:
        raise InputError("no variable of this release may be missing; its posterior is that of complete records")
    wide = posterior if posterior.saturated is None else posterior.saturated
    source = posterior.source and Source(lambda rng: assume_at_random(posterior.fresh(rng=rng)), posterior.source.rng)
    basis = posterior.basis and replace(posterior.basis, gaps=frozenset(wide.network.may_be_missing))
    rows, parents = _complete_rows(wide)
    parts = wide.parts and wide.parts.completed(rows, parents)
    # Sums of numbers are of the records that have them: they are read under the law of what was seen.
    complete = replace(wide, probabilities=rows, replicates=None, parts=parts, saturated=None, seen=posterior)
    complete = replace(complete, source=source, basis=basis)
    if posterior.saturated is None:
        return complete
    return PosteriorDraws.of_saturated(complete, posterior.network.without_missing())


def _complete_rows(wide: PosteriorDraws) -> tuple[Tables, dict[Scope, Array]]:
    """Fit the rows of complete records to every draw by EM, and the laws of all sets of parents.

    The fit is to the draw's laws of families. If a table contains a family but the network does not join its parents,
    the measured law is used (`wide.parts`); without such parts all laws are the network's own. All families are updated
    at once (`_FamilyFit.improve`), with the exponent 1 / (1 + largest number of children of a node) for psi.
    DRAWS_AT_ONCE (32) draws are fitted together, until no probability of any of them changes by LARGEST_CHANGE or more,
    or for MOST_EM_ROUNDS rounds; a fit that has not converged by then is used without a warning. All families are
    drawn.

    Args:
        wide: draws under the network whose rows were drawn, with states for missing values.

    Returns:
        (rows of the network without these states, shape `(*parents, child, draws)` by node, every probability positive
        except in impossible cells; laws of each node's set of parents, shape `(*sizes, draws)`, that of the empty set
        included).

    Raises:
        InputError: the law of complete records has more cells than exact inference allows (CELL_BUDGET), checked first.
    """
    network, draws = wide.network, wide.probabilities.draws or 1
    thetas: dict[str, list[Array]] = {node: [] for node in network.nodes}
    parent_laws: dict[str, list[Array]] = {node: [] for node in network.nodes}
    scopes = [network.family(node) for node in network.nodes]
    sizes = {variable.name: _map_to_seen_states(network, variable.name).size for variable in network.schema}
    joint = FactorLaws(scopes, sizes)
    if joint.cells > CELL_BUDGET:
        raise InputError(
            f"complete records need {joint.cells:,} cells for each draw, more than the budget of "
            f"{CELL_BUDGET:,}; read the release with missing as a state"
        )
    # If a network does not join all parents, their joint law is its assumption; use the measured one if there is one.
    laws = family_laws(wide.probabilities, {}) if wide.parts is None else wide.parts.families
    # All families are updated at once. The exponent 1 / (1 + most children) keeps updates of families that share a
    # variable from overshooting. Larger exponents for families that share less did not converge on one of three
    # patterns of gaps in child.
    step = 1 / (1 + max(len(network.children(node)) for node in network.nodes))
    for start in range(0, draws, DRAWS_AT_ONCE):
        chunk = slice(start, start + DRAWS_AT_ONCE)
        fits = [_FamilyFit(network, node, laws[node][..., chunk], step) for node in network.nodes]
        for _ in range(MOST_EM_ROUNDS):
            margins = joint.of([fit.factor() for fit in fits])
            if max([fit.improve(margin) for fit, margin in zip(fits, margins, strict=True)]) < LARGEST_CHANGE:
                break
        for node, fit in zip(network.nodes, fits, strict=True):
            thetas[node].append(fit.theta)
            parent_laws[node].append(fit.law_of_parents)
    rows = {node: np.concatenate(blocks, axis=-1) for node, blocks in thetas.items()}
    parents = {network.parents[node]: np.concatenate(blocks, axis=-1) for node, blocks in parent_laws.items()}
    return with_zeros(Tables(network.without_missing(), rows, draws=draws)), parents


def _map_to_seen_states(network: Network, name: str) -> Array:
    """List the observed state of each (value, flag): first every value as observed, then every value as missing.

    Args:
        network: network with states for missing values, which come last.
        name: name of the variable.

    Returns:
        Positions of observed states: 0 .. values - 1, then the position of "missing" for each value, shape (2 *
        values,). For a variable that cannot be missing only the first, shape (values,).
    """
    size = network.schema[name].size
    if network.schema[name].missing is None:
        return np.arange(size)
    return np.concatenate([np.arange(size - 1), np.full(size - 1, size - 1)])


class _FamilyFit:
    """EM fit of one family under some draws: rows of complete records, and weights psi of observed patterns."""

    def __init__(self, network: Network, node: str, law: Array, step: float) -> None:
        """Start with psi = 1 and the rows of records without gaps, each probability at least about LEAST_PROBABILITY.

        The family's law is kept, and so are the positions that lead from flagged complete states, (value, missing or
        not) of each variable, to observed states and to values.

        Args:
            network: network with states for missing values.
            node: node of the family.
            law: law of the observed values of the family, shape `(*sizes, draws)`.
            step: exponent of the proportional fitting update of psi.
        """
        names = network.family(node)
        self.gaps = [network.schema[name].missing is not None for name in names]
        self.seen = np.ix_(*(_map_to_seen_states(network, name) for name in names))
        sizes = [network.schema[name].size - gap for name, gap in zip(names, self.gaps, strict=True)]
        self.value = np.ix_(*(np.tile(range(size), 1 + gap) for size, gap in zip(sizes, self.gaps, strict=True)))
        self.law = law
        self.step = step
        self.psi = np.ones_like(law)
        self.theta = _normalise_rows(law[np.ix_(*map(range, sizes))])
        self.law_of_parents: Array = np.ones(0)

    def factor(self) -> Array:
        """Compute the family's factor theta psi of P(x, s).

        Returns:
            An axis of flagged complete states (all values as observed, then, if the variable may be missing, all as
            missing) for each variable, then draws.
        """
        return np.asarray(self.theta[self.value] * self.psi[self.seen])

    def improve(self, margin: Array) -> float:
        """Update psi, theta and the law of parents by one EM step; they are replaced in this object.

        With r = observed / expected law of the observed values, both at least LEAST_PROBABILITY: theta and the law of
        parents are those of the margin times r, summed to complete states; psi is multiplied by `r^step`, divided by
        its largest entry in each draw, and raised to LEAST_PROBABILITY.

        Args:
            margin: present P(x, s) of the family, in the shape of `factor`; not changed.

        Returns:
            Largest absolute change of a probability of theta over all draws.
        """
        # E step: the present law, times observed / expected of each pattern; M step: rows of the result.
        now = _fold_law(margin, self.gaps, seen=True)
        ratio = np.maximum(self.law, LEAST_PROBABILITY) / np.maximum(now, LEAST_PROBABILITY)
        complete = _fold_law(margin * ratio[self.seen], self.gaps, seen=False)
        above = complete.sum(axis=-2)
        self.law_of_parents = above / above.sum(axis=tuple(range(above.ndim - 1)))
        theta = _normalise_rows(complete)
        change = float(np.max(np.abs(theta - self.theta), initial=0.0))
        self.theta = theta
        self.psi *= ratio**self.step
        self.psi = np.maximum(self.psi / self.psi.max(axis=tuple(range(now.ndim - 1))), LEAST_PROBABILITY)
        return change


def _fold_law(law: Array, gaps: Sequence[bool], *, seen: bool) -> Array:
    """Sum a law P(x, s) over x, to the observed states (`seen`), or over s, to the complete ones.

    Args:
        law: an axis of flagged complete states for each variable (all values as observed, then all as missing), then
            draws.
        gaps: for each variable, whether it may be missing; the axis of one that may not has its states alone, and
            stays.
        seen: whether to sum to the observed states.

    Returns:
        An axis of states for each variable, then draws; the state for missing values comes last, and only if `seen`.
    """
    for axis, gap in enumerate(gaps):
        if gap:
            there, gone = np.split(law, 2, axis=axis)
            law = np.concatenate([there, gone.sum(axis=axis, keepdims=True)], axis=axis) if seen else there + gone
    return law


def _normalise_rows(law: Array) -> Array:
    """Normalise a family's law, shape `(*parents, child, draws)`, to conditional probabilities of the child.

    Cells are first raised to LEAST_PROBABILITY, so a row without probability is uniform.
    """
    law = np.maximum(law, LEAST_PROBABILITY)
    return np.asarray(law / law.sum(axis=-2, keepdims=True))
