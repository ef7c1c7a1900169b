"""A posterior's draws given evidence: what every kind of question reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from discreet.inference import elimination
from discreet.inference.query_plans import requisite
from discreet.inference.weighted_records import Sampling, log_weight, weighted_laws
from discreet.model.network import Network
from discreet.model.query_grammar import Probability
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.basis import Basis
from discreet.posterior.joint_draws import PosteriorDraws, law_of
from discreet.posterior.law_parts import LawParts
from discreet.posterior.law_plan import JointLaw
from discreet.posterior.protocol import NetworkPosterior
from discreet.queries.answers import Answer, EvidenceProbability
from discreet.queries.credible import credible_interval
from discreet.util.arrays import Floats

Kind = TypeVar("Kind", bound=np.generic)

LARGE_WORK = 2**24
"""Cells times draws from which on half the time is worth a second look: tens of milliseconds."""
ROUNDING_ERROR, MOST_ERROR_SHARE = 1e-5, 0.1
"""Relative error of a law in single precision (of cliques of 2^17 entries 3e-6 at most was seen), and the part of the
draws' own error that it may have."""


@dataclass(frozen=True, eq=False)
class Given:
    """Joint laws given evidence; what several queries ask of them is computed once.

    Args:
        cells: of each law, shape `(*parents, child, draws)`; perhaps with a hidden variable, which nobody asks of.
        evidence: code of the state of each observed variable.
        network: over the variables that can be asked of, whose rows were drawn.
        rows: of this network under the same draws.
    """

    cells: Tables
    evidence: Mapping[str, int]
    network: Network
    rows: Tables

    @cached_property
    def marginals(self) -> dict[str, Floats]:
        """`P(X | evidence)` of every other variable, shape `(size, draws)`."""
        return self.marginals_and_evidence[0]

    @cached_property
    def marginals_and_evidence(self) -> tuple[dict[str, Floats], Floats]:
        """These, and `log P(evidence)` as the same pass finds it."""
        names = [name for name in self.network.nodes if name not in self.evidence]
        if self._is_large(elimination.marginals_cost(self.cells.network, self.evidence)):
            rough, log = elimination.marginals_and_evidence(self.cells, self.evidence, dtype=np.float32)
            found = {name: self._normalise_rough(rough[name]) for name in names}
            fine = {name: law for name, law in found.items() if law is not None}
            if len(fine) == len(found):
                return fine, log
        laws, log = elimination.marginals_and_evidence(self.cells, self.evidence)
        return {name: laws[name] for name in names}, log

    @cached_property
    def log_evidence(self) -> Floats:
        """`log P(evidence)`, shape `(draws,)`; by made-up records where exact inference is out of reach."""
        if not elimination.affordable(self.cells.network, (), self.evidence):
            return log_weight(self.cells, self.evidence, np.random.default_rng(0))
        return elimination.log_probability(self.cells, self.evidence, dtype=self._precision)

    def joint(self, targets: Sequence[str], also: Mapping[str, int] | None = None) -> Floats:
        """`P(targets | evidence, also)`, shape `(*sizes, draws)`; NaN where the condition is impossible."""
        return self.joint_and_evidence(targets, also)[0]

    def joint_and_evidence(
        self, targets: Sequence[str], also: Mapping[str, int] | None = None
    ) -> tuple[Floats, Floats | None]:
        """The same, and the logarithm of the condition's probability if the same pass finds it.

        Where every table matters to a single target, its own plan is the plan of all marginals, and the pass for all of
        them is taken: that rests on the query alone, so a query has one answer, whatever it is asked with.
        """
        network, evidence = self.cells.network, {**self.evidence, **(also or {})}
        alone = len(targets) == 1 and not also
        if alone and len(requisite(network, targets, evidence)) == len(network.nodes):
            return self.marginals[targets[0]], self.marginals_and_evidence[1]
        if self._is_large(elimination.joint_cost(network, targets, evidence)):
            rough, log = elimination.joint_and_evidence(self.cells, targets, evidence, dtype=np.float32)
            fine = self._normalise_rough(rough)
            if fine is not None:
                return fine, log
        return elimination.joint_and_evidence(self.cells, targets, evidence)

    def whole(self, names: Sequence[str]) -> Floats:
        """`P(names)`, shape `(*sizes, draws)`: of the question's variables, the observed ones among them."""
        return elimination.joint(self.cells, names, {})

    def probability(self, states: Mapping[str, int]) -> Floats:
        """`P(states | evidence)`, shape `(draws,)`; NaN where the evidence is impossible."""
        with np.errstate(invalid="ignore"):
            evidence = {**self.evidence, **states}
            ratio = elimination.log_probability(self.cells, evidence, dtype=self._precision) - self.log_evidence
        return np.exp(np.minimum(ratio, 0.0))  # rows in single precision sum to 1 but for rounding

    @cached_property
    def _precision(self) -> type[np.floating[Any]]:
        """Of the rows: more digits than they have are not worth asking for."""
        return np.float32 if self.cells[self.network.nodes[0]].dtype == np.float32 else np.float64

    def _is_large(self, cells: int) -> bool:
        """Whether a question that works on so many cells for each draw is worth asking in single precision first."""
        return self._precision is np.float32 or cells * (self.cells.draws or 1) > LARGE_WORK

    def _normalise_rough(self, law: npt.NDArray[np.float32]) -> Floats | None:
        """A law in single precision as one that sums to 1, shape `(*sizes, draws)`.

        Errors of the work are relative to each probability: of one near 1 what is lost is as small as the rest.

        Returns:
            None where such an error is not far below that of the mean of so many draws, and rows are known better.
        """
        exact = law.astype(np.float64)
        exact /= exact.sum(axis=tuple(range(exact.ndim - 1)))
        if self._precision is np.float32:
            return exact
        error = ROUNDING_ERROR * np.minimum(exact.mean(axis=-1), 1 - exact.mean(axis=-1))
        seen = error > MOST_ERROR_SHARE * exact.std(axis=-1) / exact.shape[-1] ** 0.5
        return None if seen.any() or np.isnan(error).any() else exact


@dataclass(frozen=True, eq=False)
class _Sampled(Given):
    """Draws given evidence where exact inference is out of reach: laws of records made up under every draw.

    Args:
        names: of the targets.
        law: `P(names | evidence)`, shape `(*sizes, draws)`.
    """

    names: tuple[str, ...]
    law: Floats

    def _sum_out(self, states: Mapping[str, int], targets: Sequence[str] = ()) -> Floats:
        """`P(targets, states | evidence)`, shape `(*sizes, draws)`."""
        part = self.law[tuple(states.get(name, slice(None)) for name in self.names)]
        left = [name for name in self.names if name not in states]
        summed = part.sum(axis=tuple(axis for axis, name in enumerate(left) if name not in targets))
        kept = [name for name in left if name in targets]
        return np.asarray(summed.transpose([*(kept.index(name) for name in targets), len(kept)]))

    def joint_and_evidence(
        self, targets: Sequence[str], also: Mapping[str, int] | None = None
    ) -> tuple[Floats, Floats | None]:
        """See `Given`."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sum_out(also or {}, targets) / self._sum_out(also or {})), None

    def probability(self, states: Mapping[str, int]) -> Floats:
        """See `Given`."""
        return self._sum_out(states)


@dataclass(frozen=True, eq=False)
class PosteriorGiven:
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

    given: Given
    twin: Given | None
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
        """How probable the evidence is, with its interval; None where nothing is observed."""
        if not self.given.evidence:
            return None
        observed = np.exp(self.given.log_evidence if self.log_evidence is None else self.log_evidence)
        schema = self.given.network.schema
        states = tuple((name, schema[name].states[code]) for name, code in self.given.evidence.items())
        lower, upper = credible_interval(observed, level)
        return EvidenceProbability(str(Probability(states)), float(observed.mean()), float(lower), float(upper))

    def ground(self, answer: Answer, targets: Set[str], ends: tuple[Floats, Floats]) -> Answer:
        """The answer with what it rests on, and how probable the evidence is.

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
        mark, unmeasured = self.basis.of(names, given=observed, read=self.read)
        prior_only = self.basis.prior_only(names, given=observed)
        answer = replace(answer, unmeasured=unmeasured, prior_only=prior_only, assumes=self.basis.assumes(names))
        return replace(answer, basis="prior" if too_rare else mark)

    def paired(self, draws: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
        """What belongs to draws with a twin, of what has a last axis of all draws."""
        return draws[..., :: self.step]

    @cached_property
    def weights(self) -> Floats | None:
        """Weight of each draw, shape `(draws,)`, the largest 1; None where they count alike."""
        if not self.predictive:
            return None
        log = self.given.log_evidence
        peak = log.max()
        return np.asarray(np.exp(log - peak)) if np.isfinite(peak) else np.zeros(log.shape)

    def about(self, targets: Iterable[str], *, most: int, ratio: bool = False) -> PosteriorGiven:
        """What answers a question about some targets: itself, or sampled laws where exact inference is out of reach.

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
        asked = [wanted, ()] if ratio else [wanted]
        reached = all(elimination.affordable(network, each, self.given.evidence) for each in asked)
        small = network.cells(wanted) <= most
        return replace(self.sampled([wanted])[0] if small and not reached else self, read=read)

    def sampled(self, scopes: Sequence[Scope]) -> list[PosteriorGiven]:
        """Find the law of each of some sets of targets by importance sampling; there are no twin draws then.

        Raises:
            InputError: the evidence is too rare to be sampled.
        """
        given = self.given
        # Equal for equal questions.
        found = weighted_laws(given.cells, scopes, given.evidence, np.random.default_rng(0))
        return [
            replace(
                self,
                given=_Sampled(given.cells, given.evidence, given.network, given.rows, scope, found.laws[scope]),
                twin=None,
                sampling=found.sampling(scope),
                log_evidence=given.log_evidence,
            )
            for scope in scopes
        ]


def both_given(posterior: NetworkPosterior, evidence: Sequence[tuple[str, str]], predictive: bool) -> PosteriorGiven:
    """Draws of a posterior given evidence, with twin draws where the posterior has some.

    Args:
        posterior: to be asked.
        evidence: observed variables with their states.
        predictive: whether draws count by the probability of the evidence under them.

    Returns:
        The draws given the evidence.
    """
    schema = posterior.network.schema
    # In one order, so that rounding does not tell in which the evidence was named.
    codes = {name: schema[name].code(state) for name, state in sorted(evidence)}
    law, drawn = law_of(posterior), posterior if isinstance(posterior, PosteriorDraws) else None
    wide = posterior if drawn is None or drawn.saturated is None else drawn.saturated
    given = Given(law.cells, codes, law.network, wide.cells)
    basis, parts = (None, None) if drawn is None else (drawn.basis, getattr(wide, "parts", None))
    alone = PosteriorGiven(given, None, predictive, basis, parts, law)
    if predictive or law.twins is None:
        return alone
    effective = None if drawn is None else drawn.effective() * (law.twins.draws or 1) / (law.cells.draws or 1)
    twin = Given(law.twins, codes, law.network, law.twins)
    return replace(alone, twin=twin, effective=effective, step=law.step)
