"""Draws of a posterior conditioned on evidence, which every kind of query reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from discreet.inference.exact_laws import ConditionalLaws, affordable
from discreet.inference.weighted_records import Sampling, weighted_laws
from discreet.model.query_grammar import Probability
from discreet.model.schema import Scope
from discreet.posterior.basis import Basis
from discreet.posterior.joint_draws import PosteriorDraws, law_of
from discreet.posterior.law_parts import LawParts
from discreet.posterior.law_plan import JointLaw
from discreet.posterior.protocol import NetworkPosterior
from discreet.queries.answers import Answer, EvidenceProbability
from discreet.queries.credible import credible_interval
from discreet.util.arrays import Floats

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, eq=False)
class _SampledLaws(ConditionalLaws):
    """Conditional distributions by importance sampling, where exact inference is out of reach.

    Args:
        names: of the targets.
        law: `P(names | evidence)`, shape `(*sizes, draws)`.
    """

    names: tuple[str, ...]
    law: Floats

    def _sum_out(self, states: Mapping[str, int], targets: Sequence[str] = ()) -> Floats:
        """`P(targets, states | evidence)`, shape `(*sizes, draws)`."""
        law = self.law[tuple(states.get(name, slice(None)) for name in self.names)]
        unfixed = [name for name in self.names if name not in states]
        summed = law.sum(axis=tuple(axis for axis, name in enumerate(unfixed) if name not in targets))
        remaining = [name for name in unfixed if name in targets]
        return np.asarray(summed.transpose([*(remaining.index(name) for name in targets), len(remaining)]))

    def joint_and_evidence(
        self, targets: Sequence[str], also: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[Floats, Floats | None]:
        """See `ConditionalLaws`."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sum_out(also, targets) / self._sum_out(also)), None

    def probability(self, states: Mapping[str, int]) -> Floats:
        """See `ConditionalLaws`."""
        return self._sum_out(states)


@dataclass(frozen=True, eq=False)
class ConditionedPosterior:
    """The draws of a posterior given evidence, and how much each counts.

    Args:
        given: the draws.
        twin: twin draws of some of them, one in every `step`, where the posterior has some and draws count alike.
        predictive: whether they count by the probability of the evidence under them.
        basis: what was measured; None where nobody knows.
        parts: of the joint law; None where the network's own is the law.
        law: of which these are draws.
        effective: independent draws that those with a twin are worth; None: all.
        read: whether all that tables say of the question's variables is in the draws.
        sampling: how answers are sampled; None where inference is exact.
        step: of the draws with a twin, from the first on.
        log_evidence: `log P(evidence)` under every draw as the question's own pass has it; None: it has none.
    """

    given: ConditionalLaws
    twin: ConditionalLaws | None
    predictive: bool
    basis: Basis | None
    parts: LawParts | None
    law: JointLaw
    effective: float | None = None
    read: bool = True
    sampling: Sampling | None = None
    step: int = 1
    log_evidence: Floats | None = None

    def evidence(self, level: float) -> EvidenceProbability | None:
        """Probability of the evidence with its interval; None if nothing is observed."""
        if not self.given.evidence:
            return None
        observed = np.exp(self.given.log_evidence if self.log_evidence is None else self.log_evidence)
        schema = self.given.network.schema
        states = tuple((name, schema[name].states[code]) for name, code in self.given.evidence.items())
        lower, upper = credible_interval(observed, level)
        return EvidenceProbability(str(Probability(states)), float(observed.mean()), float(lower), float(upper))

    def ground(self, answer: Answer, targets: Set[str], ends: tuple[Floats, Floats]) -> Answer:
        """Add to an answer its basis and the probability of the evidence.

        Args:
            answer: to a question about these draws.
            targets: of the question.
            ends: of the intervals of its probabilities; of numbers those of their bins.
        """
        evidence = self.evidence(answer.level)
        too_rare = evidence is not None and bool(np.all(ends[1] - ends[0] >= answer.level))
        answer = replace(answer, evidence=evidence, too_rare=too_rare)
        if self.basis is None:
            return answer
        observed = set(self.given.evidence)
        names = observed | targets
        support, unmeasured = self.basis.of(names, given=observed, read=self.read)
        prior_only = self.basis.prior_only(names, given=observed)
        answer = replace(answer, unmeasured=unmeasured, prior_only=prior_only, assumes=self.basis.assumes(names))
        return replace(answer, basis="prior" if too_rare else support)

    def paired(self, draws: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
        """Select the draws that have a twin, on the last axis."""
        return draws[..., :: self.step]

    @cached_property
    def weights(self) -> Floats | None:
        """Weight of each draw, shape `(draws,)`, the largest 1; None where they count alike."""
        if not self.predictive:
            return None
        log = self.given.log_evidence
        peak = log.max()
        return np.asarray(np.exp(log - peak)) if np.isfinite(peak) else np.zeros(log.shape)

    def for_targets(self, targets: Iterable[str], *, most: int, ratio: bool = False) -> ConditionedPosterior:
        """The draws that answer a query about some targets: itself, or sampled if exact inference is out of reach.

        Args:
            targets: of the question.
            most: joint states of theirs beyond which nothing is sampled.
            ratio: whether the probability of the evidence will be asked, too.

        Returns:
            That, and whether all that tables tell of the question's variables was read.

        Raises:
            InputError: the evidence is too rare to be sampled.
        """
        wanted, network = tuple(targets), self.given.cells.network
        read = self.law.reads((*wanted, *self.given.evidence))
        scopes = [wanted, ()] if ratio else [wanted]
        reached = all(affordable(network, scope, self.given.evidence) for scope in scopes)
        exact = reached or network.cells(wanted) > most
        return replace(self if exact else self.sampled([wanted])[0], read=read)

    def sampled(self, scopes: Sequence[Scope]) -> list[ConditionedPosterior]:
        """Find the distributions of some sets of targets by importance sampling, without twin draws.

        Raises:
            InputError: the evidence is too rare to be sampled.
        """
        laws = self.given
        # A fixed seed: equal queries have equal answers.
        sampled = weighted_laws(laws.cells, scopes, laws.evidence, np.random.default_rng(0))
        return [
            replace(
                self,
                given=_SampledLaws(laws.cells, laws.evidence, laws.network, laws.rows, scope, sampled.laws[scope]),
                twin=None,
                sampling=sampled.sampling(scope),
                log_evidence=laws.log_evidence,
            )
            for scope in scopes
        ]


def condition_on(
    posterior: NetworkPosterior, evidence: Sequence[tuple[str, str]], predictive: bool
) -> ConditionedPosterior:
    """Condition the draws of a posterior on evidence, and their twins if the posterior has some.

    Args:
        posterior: to be asked.
        evidence: observed variables with their states.
        predictive: whether draws count by the probability of the evidence under them.

    Returns:
        The draws given the evidence.
    """
    schema = posterior.network.schema
    # Sorted, so that rounding does not depend on the order of the evidence.
    codes = {name: schema[name].code(state) for name, state in sorted(evidence)}
    law, drawn = law_of(posterior), posterior if isinstance(posterior, PosteriorDraws) else None
    saturated = posterior if drawn is None or drawn.saturated is None else drawn.saturated
    laws = ConditionalLaws(law.cells, codes, law.network, saturated.cells)
    basis, table_draws = (None, None) if drawn is None else (drawn.basis, getattr(saturated, "parts", None))
    without_twins = ConditionedPosterior(laws, None, predictive, basis, table_draws, law)
    if predictive or law.twins is None:
        return without_twins
    effective = None if drawn is None else drawn.ess() * (law.twins.draws or 1) / (law.cells.draws or 1)
    twin = ConditionalLaws(law.twins, codes, law.network, law.twins)
    return replace(without_twins, twin=twin, effective=effective, step=law.step)
