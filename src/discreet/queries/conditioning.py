"""Draws of a posterior conditioned on evidence: the common input of all kinds of queries.

Some draws have a *replicate*, a second draw of all probabilities given the same latent counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.bin_laws import BinLaw
from discreet.inference.exact_laws import ConditionalLaws, affordable
from discreet.inference.weighted_records import Sampling, weighted_laws
from discreet.model.network import Network
from discreet.model.query_grammar import NumberRange, Observed, write_evidence
from discreet.model.schema import Scope
from discreet.posterior.basis import Basis
from discreet.posterior.joint_draws import PosteriorDraws, law_of
from discreet.posterior.law_parts import LawParts
from discreet.posterior.law_plan import JointLaw
from discreet.posterior.number_draws import LEAST_SHARE, NumberDraws
from discreet.posterior.number_lines import give_states, slopes_inside
from discreet.posterior.protocol import NetworkPosterior
from discreet.queries.answers import Answer, EvidenceProbability
from discreet.queries.credible import credible_interval
from discreet.queries.observed_numbers import ObservedStates, Seen, add_observed, find_row_parts, observe_numbers
from discreet.util.arrays import Floats
from discreet.util.option_texts import Inside

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, eq=False)
class _SampledLaws(ConditionalLaws):
    """Conditional laws of a few variables from importance sampling, for networks too large for exact inference.

    Args:
        names: target variables; their order is that of the axes.
        law: `P(names | evidence)`, shape `(*sizes, draws)`; NaN in draws in which no record has the evidence.
    """

    names: tuple[str, ...]
    law: Floats

    def _sum_out(self, states: Mapping[str, int], targets: Sequence[str] = ()) -> Floats:
        """Compute `P(targets, states | evidence)`, shape `(*sizes of the targets, draws)`, axes in the targets' order.

        Args:
            states: codes of fixed states; variables that the sampled law does not have are ignored.
            targets: variables of the law that are not fixed; none for shape `(draws,)`.
        """
        law = self.law[tuple(states.get(name, slice(None)) for name in self.names)]
        unfixed = [name for name in self.names if name not in states]
        summed = law.sum(axis=tuple(axis for axis, name in enumerate(unfixed) if name not in targets))
        remaining = [name for name in unfixed if name in targets]
        return np.asarray(summed.transpose([*(remaining.index(name) for name in targets), len(remaining)]))

    def joint_and_evidence(
        self, targets: Sequence[str], also: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[Floats, Floats | None]:
        """Compute `P(targets | also, evidence)`, and None: the evidence's probability is not known here.

        Args:
            targets: variables of the law that are not in `also`; the axes are in their order.
            also: codes of further observed states.

        Returns:
            Shape `(*sizes, draws)`, NaN in draws in which no record has the evidence and the states `also`; and None.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sum_out(also, targets) / self._sum_out(also)), None

    def probability(self, states: Mapping[str, int]) -> Floats:
        """Compute `P(states | evidence)`, shape `(draws,)`, NaN in draws in which no record has the evidence."""
        return self._sum_out(states)


@dataclass(frozen=True, eq=False)
class ConditionedPosterior:
    """Posterior draws given evidence, with their weights.

    Args:
        given: conditional laws in every draw.
        replicate: conditional laws in the replicate of every `step`-th draw; None if the posterior has no replicate
            draws, or if draws are weighted.
        predictive: whether draws are weighted by the probability of the evidence.
        basis: which variables were measured together; None if unknown.
        parts: drawn laws of measured sets of variables; None if the joint law is the network's own.
        law: joint law of the draws.
        effective: effective sample size of the draws that have a replicate; None if it is their number.
        read: whether the draws use all that tables contain about the query's variables.
        sampling: error of importance sampling; None if inference is exact.
        step: every `step`-th draw, from the first one on, has a replicate.
        numbers: numbers of the numeric columns under every draw; None if no sums of them were released.
        log_evidence: `log P(evidence)` in every draw, shape (draws,), if the query's own pass computed it; else None.
        observed: numbers that are evidence, under every draw; their variables are not in the evidence of `given`.
        replicated: likewise in the replicate draws.
        states: laws given the observed states alone, in every draw and in the replicate draws.
        seen: evidence, in the order of names.
    """

    given: ConditionalLaws
    replicate: ConditionalLaws | None
    predictive: bool
    basis: Basis | None
    parts: LawParts | None
    law: JointLaw
    effective: float | None = None
    read: bool = True
    sampling: Sampling | None = None
    step: int = 1
    log_evidence: Floats | None = None
    numbers: NumberDraws | None = None
    observed: tuple[Seen, ...] = ()
    replicated: tuple[Seen, ...] = ()
    states: tuple[ConditionalLaws | None, ...] = (None, None)
    seen: Observed = ()

    @property
    def names(self) -> Scope:
        """Variables that are evidence, by their states or numbers."""
        return tuple(name for name, _ in self.seen)

    @property
    def ranged(self) -> Scope:
        """Variables of which a comparison, or one of several states, is evidence; no single numbers."""
        return tuple(each.variable.name for each in self.observed if each.code is None)

    @cached_property
    def split(self) -> bool:
        """True if some observed range has a part of a bin, so that answers depend on the law inside."""
        return any(each.cut for each in self.observed)

    @cached_property
    def is_open(self) -> bool:
        """True if a law inside bins or leaves changes answers.

        That is so if a bin is split, or if the least and the largest part of some state differ in some draw.
        """
        return self.split or any(not np.array_equal(*each.part_ends()) for each in self.observed)

    @cached_property
    def numbers_given(self) -> NumberDraws | None:
        """Numbers of the records with the observed states, under every draw.

        They are those of all records if nothing is observed; None if no sums were released.

        Raises:
            InputError: a number, a comparison or one of several states is observed; it is looked for first.
        """
        if self.observed:
            raise InputError("covariances and regressions take states as evidence; of a number write its bin")
        evidence, numbers = self.given.evidence, self.numbers
        return numbers if numbers is None or not evidence else give_states(numbers, evidence)

    @cached_property
    def flat(self) -> ConditionalLaws:
        """Laws given the evidence, in which an observed number has the same part of a bin in all rows of its family.

        They are `given` itself if no number, comparison or one of several states is observed.
        """
        return (
            self.given
            if not self.observed or self.states[0] is None
            else add_observed(self.states[0], self.observed, {})
        )

    @property
    def again(self) -> ConditionedPosterior:
        """The replicate draws in the place of the draws, with their numbers; there must be replicates."""
        assert self.replicate is not None
        numbers, states = self.numbers and self.numbers.replicate, (self.states[1], None)
        return replace(self, given=self.replicate, numbers=numbers, observed=self.replicated, states=states)

    def evidence(self, level: float) -> EvidenceProbability | None:
        """Compute the probability of the evidence, its mean and interval over all draws with equal weights.

        Draws in which the evidence is impossible count with probability 0, and predictive weights are not used. The
        interval is by `credible_interval`. A single number has the probability, and in the text the state, of its bin;
        a comparison has the part of each bin that is the same in all rows (`flat`).

        Args:
            level: posterior probability of the interval.

        Returns:
            The probability; None if nothing is observed.

        Raises:
            InputError: a level outside (0, 1).
        """
        if not self.seen:
            return None
        log = self.flat.log_evidence if self.log_evidence is None or self.observed else self.log_evidence
        schema, values = self.given.network.schema, {each.variable.name: each.code for each in self.observed}
        # A single number has the probability of its bin.
        seen = [
            (name, state if (code := values.get(name)) is None else schema[name].states[code])
            for name, state in self.seen
        ]
        observed = np.exp(log)
        lower, upper = credible_interval(observed, level)
        return EvidenceProbability(
            f"P({write_evidence(tuple(seen))})", float(observed.mean()), float(lower), float(upper)
        )

    def ground(self, answer: Answer, targets: Set[str], ends: tuple[Floats, Floats]) -> Answer:
        """Return a copy of an answer with its basis, its assumptions and the probability of the evidence added.

        Args:
            answer: answer from these draws.
            targets: variables of the query that are not observed.
            ends: lower and upper ends of the probabilities' intervals, shape (states,) each (for a number, those of its
                bins). If there is evidence and all intervals are at least as wide as the answer's level, the evidence
                is too rare.

        Returns:
            The copy, with "evidence" and "too_rare"; and, if the basis is known, with "basis" ("prior" if the evidence
            is too rare), "unmeasured", "prior_only", "assumes" and "clipped".

        Raises:
            InputError: the answer's level is outside (0, 1), and there is evidence.
        """
        evidence = self.evidence(answer.level)
        too_rare = evidence is not None and bool(np.all(ends[1] - ends[0] >= answer.level))
        answer = replace(answer, evidence=evidence, too_rare=too_rare)
        if self.basis is None:
            return answer
        observed = set(self.names)
        names = observed | targets
        support, unmeasured = self.basis.of(names, given=observed, read=self.read)
        prior_only = self.basis.prior_only(names, given=observed)
        answer = replace(answer, unmeasured=unmeasured, prior_only=prior_only, assumes=self.basis.assumes(names))
        answer = replace(answer, clipped=self.basis.clipped(names))
        return replace(answer, basis="prior" if too_rare else support)

    def paired(self, draws: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
        """Select the draws that have a replicate, every `step`-th on the last axis from the first on; a view."""
        return draws[..., :: self.step]

    @cached_property
    def weights(self) -> Floats | None:
        """Weight of each draw relative to the largest, `P(evidence) / max P(evidence)`, shape `(draws,)`.

        None if draws are not weighted (`predictive` is false); all 0 if the evidence is impossible in every draw.
        Computed once.
        """
        if not self.predictive:
            return None
        log = self.given.log_evidence
        peak = log.max()
        return np.asarray(np.exp(log - peak)) if np.isfinite(peak) else np.zeros(log.shape)

    def for_targets(self, targets: Iterable[str], *, most: int, ratio: bool = False) -> ConditionedPosterior:
        """Return the draws for a query: by exact inference if possible, else by importance sampling.

        Numbers that are observed and of which sums were released lie in their bins by the rows of families with the
        targets (`find_row_parts`).

        Args:
            targets: target variables of the query.
            most: largest number of joint states of the targets that is sampled; beyond it the exact laws are returned,
                though they are too large, and refuse the query when it is computed.
            ratio: whether exact inference must be able to compute the probability of the evidence, too.

        Returns:
            A copy; `read` is set to whether they use all that tables contain about the query's variables. Laws are
            sampled at once and without replicate draws (`sampled`); exact laws are computed at their first use.

        Raises:
            InputError: the evidence is too rare to be sampled.
        """
        wanted = tuple(targets)
        both = self._with_rows(wanted) if self.observed and self.numbers is not None else self
        network = both.given.cells.network
        scopes = [wanted, ()] if ratio else [wanted]
        reached = all(affordable(network, scope, both.given.evidence) for scope in scopes)
        if not (reached or network.cells(wanted) > most):
            return both.sampled([wanted])[0]
        return replace(both, read=self.law.reads((*wanted, *self.names)))

    def _with_rows(self, targets: Scope) -> ConditionedPosterior:
        """Return a copy in which observed numbers lie in bins by rows of families with the targets.

        The parts of bins are those of `find_row_parts`, for the draws and for the replicates if there are some; a
        variable for which it returns None keeps one part in all rows. The copy has no stored `log_evidence`.
        """
        laws = list[ConditionalLaws]()
        for side, step in [(self, 1)] if self.replicate is None else [(self, 1), (self.again, self.step)]:
            states, numbers = side.states[0], side.numbers
            assert states is not None and numbers is not None
            rows = {each.variable.name: find_row_parts(states, each, numbers, targets, step) for each in side.observed}
            laws.append(add_observed(states, side.observed, {name: part for name, part in rows.items() if part}))
        return replace(self, given=laws[0], replicate=laws[1] if len(laws) > 1 else None, log_evidence=None)

    def sampled(self, scopes: Sequence[Scope]) -> list[ConditionedPosterior]:
        """Compute the conditional laws of several sets of targets by importance sampling, without replicate draws.

        All sets are counted in the same simulated records. The seed is fixed, so equal queries have equal answers.

        Args:
            scopes: non-empty sets of unobserved variables.

        Returns:
            A copy for each set, in the given order, with the error of sampling, `log P(evidence)` as
            `ConditionalLaws.log_evidence` computes it, and `read` for the set's variables and the observed ones.

        Raises:
            InputError: the evidence is too rare to be sampled: more than 5 % of the draws have an effective sample size
                below 20.
        """
        laws = self.given
        sampled = weighted_laws(laws.cells, scopes, laws.evidence, np.random.default_rng(0))
        return [
            replace(
                self,
                given=_SampledLaws(laws.cells, laws.evidence, laws.network, laws.rows, scope, sampled.laws[scope]),
                replicate=None,
                sampling=sampled.sampling(scope),
                log_evidence=laws.log_evidence,
                read=self.law.reads((*scope, *self.names)),
            )
            for scope in scopes
        ]


def condition_on(
    posterior: NetworkPosterior, evidence: Observed, predictive: bool, inside: Inside = "log-linear"
) -> ConditionedPosterior:
    """Condition the draws of a posterior, and their replicates if it has some, on evidence.

    Single states are observed as they are. A comparison, or one of several states, is observed by a new child of its
    variable, with the same part of a bin in all rows; a single number is observed by its bin (`add_observed`).

    The joint law is fitted here if it was not yet; probabilities are computed at their first use.

    Args:
        posterior: posterior that is queried.
        evidence: observed variables with their states or numbers; their order has no effect. A range that holds all
            numbers of its variable is left out: it is no condition.
        predictive: whether draws are weighted by the probability of the evidence; replicates are then not used.
        inside: law inside bins of observed numbers of which no sums were released.

    Returns:
        The draws given the evidence. `effective` is the effective sample size of all draws times the fraction of them
        that have a replicate; None without replicates. For other posteriors than `PosteriorDraws` the basis, the
        measured sets and `effective` are None. There are no replicates if the posterior has none or `predictive` is
        set.

    Raises:
        InputError: something that is no posterior, or an unknown variable or state.
    """
    schema = posterior.network.schema
    # Sorted, so that rounding does not depend on the order of the evidence; what all numbers meet is no condition.
    seen = tuple(sorted(evidence, key=lambda item: item[0]))
    seen = tuple(
        (name, state)
        for name, state in seen
        if not (isinstance(state, NumberRange) and state.contains_all(schema[name]))
    )
    codes = {name: schema[name].code(state) for name, state in seen if isinstance(state, str)}
    ranges = [(name, state) for name, state in seen if not isinstance(state, str)]
    law, drawn = law_of(posterior), posterior if isinstance(posterior, PosteriorDraws) else None
    saturated = posterior if drawn is None or drawn.saturated is None else drawn.saturated
    states = ConditionalLaws(law.cells, codes, law.network, saturated.probabilities)
    basis, table_draws = (None, None) if drawn is None else (drawn.basis, getattr(saturated, "parts", None))
    numbers = None if drawn is None else drawn.numbers
    observed = observe_numbers(states, ranges, numbers, inside)
    laws = add_observed(states, observed, {})
    both = ConditionedPosterior(laws, None, predictive, basis, table_draws, law, numbers=numbers, observed=observed)
    both = replace(both, states=(states, None), seen=seen)
    if predictive or law.replicates is None:
        return both
    effective = None if drawn is None else drawn.ess() * (law.replicates.draws or 1) / (law.cells.draws or 1)
    again = ConditionalLaws(law.replicates, codes, law.network, law.replicates)
    replicated = observe_numbers(again, ranges, numbers and numbers.replicate, inside, law.step)
    both = replace(both, replicate=add_observed(again, replicated, {}), effective=effective, step=law.step)
    return replace(both, states=(states, again), replicated=replicated)


# --------------------------------------------------------------------------------------------------------------------
# Laws of a number given other numbers, along lines inside bins and along chains of such lines.
#
# Where the product of x and z was released, the mean of z is `E(z | k) + slope (E(x | k, observed) - E(x | k))` in bin
# k of x. What varies about the line varies in the whole bin, so that the variance falls by
# `slope^2 (Var(x | k) - Var(x | k, observed))`.
#
# Where x and z share no released sum, but a number y lies between them in the network, which shares one with z, the law
# of y given x = c is found first. It tells how likely each bin of y is, and where in it y lies:
#
#     E(z | x = c) = sum_k P(y in k | c) (E(z | y in k) + slope_k (E(y | k, c) - E(y | k))).
#
# By bins alone z would follow x less than it does, as wide bins of y tell little of y.

LEAST_RESIDUAL = 0.02
"""Least variance about a line, relative to that of all numbers: beyond it the noise of the slope is what is seen."""


def follow_lines(
    name: str, both: ConditionedPosterior, numbers: NumberDraws, step: int, avoid: frozenset[str] = frozenset()
) -> BinLaw:
    """Find the law of a number whose mean follows lines inside the bins of observed numbers.

    The law before is that of `give_numbers`. Each observed number with sums moves the mean: by the slope inside its bin
    times the offset of its mean from the bin's (`shifts`), averaged over its bins with their probabilities given the
    evidence; a single number has one bin. The variance changes by the average of slope squared times the change of its
    variance. A number that shares no released sum with this one acts through a number between (`find_middle`,
    `_follow_chain`), whose bins then give the law; of several the last one. Changes of all observed numbers add up.
    Several states as evidence, and numbers without sums, move nothing.

    Args:
        name: of the number z.
        both: draws given the evidence.
        numbers: of the release.
        step: the draws are every `step`-th of the posterior.
        avoid: numbers through which no chain goes, as one came from them.

    Returns:
        The law given the bins, moved and scaled. Its mean is limited to the bounds of the number, its variance raised
        to LEAST_RESIDUAL times that of the law that was moved.
    """
    flat = both.flat
    shares = flat.joint((name,))
    offsets = numbers.offsets_given(name, flat.evidence, flat.joint, step, both.ranged)
    law = give_numbers(numbers, name, shares, offsets, both.names, step)
    shift, less = np.zeros((2, shares.shape[1]))
    for each in both.observed:
        known = each.variable.name
        if known not in numbers.grids or isinstance(each, ObservedStates):
            continue
        middle = find_middle(numbers, both, known, name, avoid)
        if middle is not None:
            law, moved, change = _follow_chain(name, middle, both, numbers, step, avoid | {name})
        else:
            slopes = slopes_inside(numbers, known, name)[:, ::step]
            means, variances = each.shifts()
            weights = np.ones(1) if each.code is not None else flat.joint((known,))[: len(slopes)]
            at = slice(each.code, each.code + 1) if each.code is not None else slice(None)
            weights = weights / weights.sum(axis=0)
            moved = (weights * slopes[at] * means[at]).sum(axis=0)
            change = (weights * slopes[at] ** 2 * variances[at]).sum(axis=0)
        shift, less = shift + moved, less + change
    usual = np.maximum(replace(law, known_variance=None).variance(), np.finfo(float).tiny)
    variance = np.maximum(law.variance() + less, LEAST_RESIDUAL * usual)
    mean = np.clip(law.mean() + shift, *numbers.grids[name].bounds)
    scale = np.sqrt(variance / usual)
    return replace(law.moved(mean - law.mean(), scale), known_mean=mean, known_variance=variance)


def give_numbers(
    numbers: NumberDraws, name: str, shares: Floats, offsets: Floats, given: Scope, step: int = 1
) -> BinLaw:
    """Make the law of a number given others, with its mean and variance by released sums.

    Args:
        numbers: of the release.
        name: of the number.
        shares: of its states given the others, shape `(states, draws)`.
        offsets: mean offset in each of its bins given the others, shape `(bins, draws)`.
        given: the others.
        step: the draws are every `step`-th of the posterior.

    Returns:
        The law inside leaves, tilted to the mean that sums give, with a known variance. The variance is limited to what
        numbers inside these bins allow. LEAST_SHARE is added to each bin's share; the share of missing numbers is
        dropped, and the rest sum to 1.
    """
    shares = shares[: numbers.grids[name].bins] + LEAST_SHARE
    bins = shares / shares.sum(axis=0)
    law = numbers.given(name, bins, offsets, step)
    variance = np.clip(numbers.variance_given(name, bins, offsets, given, step), *law.variance_ends())
    return replace(law, known_variance=variance)


def find_middle(
    numbers: NumberDraws, both: ConditionedPosterior, known: str, name: str, avoid: frozenset[str] = frozenset()
) -> str | None:
    """Find a number through which another one follows an observed one, if both share no released sum.

    Args:
        numbers: of the release.
        both: draws given the evidence.
        known: observed number.
        name: of the number that the query is about.
        avoid: numbers that are not taken.

    Returns:
        The first number, in the release's order, that is not observed, not avoided, and shares a released sum with
        `name`; and that separates the two in the network's moral graph: with it and the other observed variables taken
        out no path joins them, and some path leads from `known` to it. None if there is none, or if both share a sum.
    """
    if numbers.measures(known, name):
        return None
    network, seen = numbers.evidence.payload.network, {*both.names} - {known}
    for middle in numbers.grids:
        apart = name not in _reached(network, known, seen | {middle})
        between = apart and middle in _reached(network, known, seen)
        if between and middle not in avoid | seen | {known, name} and numbers.measures(middle, name):
            return middle
    return None


def _reached(network: Network, start: str, without: Set[str]) -> set[str]:
    """Find the variables that paths in the moral graph join with one, itself included.

    Args:
        network: its moral graph joins all variables of each family.
        start: where paths begin.
        without: variables that no path passes; they are not returned.
    """
    families = [{node, *parents} for node, parents in network.parents.items()]
    joined, todo = {start}, [start]
    while todo:
        name = todo.pop()
        near = set[str]().union(*(family for family in families if name in family)) - joined - without
        joined |= near
        todo += near
    return joined


def _follow_chain(
    name: str, middle: str, both: ConditionedPosterior, numbers: NumberDraws, step: int, avoid: frozenset[str]
) -> tuple[BinLaw, Floats, Floats]:
    """Find the law of a number given the bins of one between, and by how much lines in them change mean and variance.

    Args:
        name: of the number z.
        middle: the number between, y.
        both, numbers, step, avoid: as in `follow_lines`.

    Returns:
        The law of z (`give_numbers`): the bins of y are as likely as `follow_lines` makes them given the evidence, and
        given a bin of y the bins of z are as likely as under the observed states alone. Then the changes of its mean
        and of its variance, shape (draws,) each, as y lies elsewhere inside its bins than under these states and z
        follows it along a line there (`slopes_inside`).
    """
    states, grid, inner = both.states[0], numbers.grids[name], numbers.grids[middle]
    assert states is not None
    between = follow_lines(middle, both, numbers, step, avoid)
    leaf_bin = inner.bin_of_leaf(numbers.evidence.payload.leaves(middle))
    starts, centres = np.searchsorted(leaf_bin, np.arange(inner.bins)), between.centres()
    weights = between.shares + LEAST_SHARE
    bins = np.add.reduceat(weights, starts)
    places = np.add.reduceat(weights * centres, starts) / bins
    half = np.diff(between.edges)[:, None] / 2
    spread = np.add.reduceat(weights * ((centres - places[leaf_bin]) ** 2 + half**2 / 3), starts) / bins
    pair = states.joint((name, middle))[: grid.bins, : inner.bins] + LEAST_SHARE
    pair = pair / pair.sum(axis=0) * bins / bins.sum(axis=0)
    offsets = numbers.offsets_by(name, middle)[:, : inner.bins, ::step]
    shares = pair.sum(axis=1)
    law = give_numbers(numbers, name, shares, (pair * offsets).sum(axis=1) / shares, (middle,), step)
    column, slopes, share = numbers.column(middle), slopes_inside(numbers, middle, name)[:, ::step], pair.sum(axis=0)
    moved = slopes * (places - inner.middles[:, None] - column.offsets[:, ::step])
    level = (pair * (grid.middles[:, None, None] + offsets)).sum(axis=0) / share
    change = (share * slopes**2 * (spread - column.spread[:, ::step])).sum(axis=0)
    for values, sign in ((level + moved, 1), (level, -1)):
        change = change + sign * (share * (values - (share * values).sum(axis=0)) ** 2).sum(axis=0)
    return law, (share * moved).sum(axis=0), change
