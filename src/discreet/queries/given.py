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
from discreet.model.arrays import Floats
from discreet.model.query_grammar import Probability
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.basis import Basis
from discreet.posterior.joint_draws import Posterior, PosteriorDraws, joint_draws
from discreet.posterior.pooled.table_draws import TableDraws
from discreet.queries.answers import Answer, EvidenceProbability
from discreet.queries.credible import credible_interval

__all__ = ["Given", "PosteriorGiven", "both_given"]


Kind = TypeVar("Kind", bound=np.generic)

LARGE_WORK = 2**24
"""Cells times draws from which on half the time is worth a second look: tens of milliseconds."""
ROUNDING_ERROR, MOST_ERROR_SHARE = 1e-5, 0.1
"""Relative error of a law in single precision (of cliques of 2^17 entries 3e-6 at most was seen), and the part of the
draws' own error that it may have."""
MOST_OBSERVED_STATES = 9
"""Joint states of what is observed up to which a pass for each, over all variables, is less work than one for each
variable."""
LEAST_TWINS, TWIN_STEP = 320, 3
"""That are read at least, if there are as many: they tell the part of the noise within about .05. And of how many draws
one is read otherwise: twins then cost a third of the draws."""


@dataclass(frozen=True, eq=False)
class Given:
    """A set of draws given evidence; what several queries ask of it is computed once.

    Args:
        cells: probabilities, shape `(*parents, child, draws)`.
        evidence: code of the state of each observed variable.
    """

    cells: Tables
    evidence: Mapping[str, int]

    @cached_property
    def marginals(self) -> dict[str, Floats]:
        """`P(X | evidence)` of every other variable, shape `(size, draws)`."""
        if self._is_large(elimination.marginals_cost(self.cells.network, self.evidence)):
            rough = elimination.marginals(self.cells, self.evidence, dtype=np.float32)
            found = {name: _normalise_rough(law) for name, law in rough.items()}
            fine = {name: law for name, law in found.items() if law is not None}
            if len(fine) == len(found):
                return fine
        return elimination.marginals(self.cells, self.evidence)

    @cached_property
    def beside(self) -> Mapping[str, Floats]:
        """`P(X, observed variables)` of every other variable, shape `(size, *sizes, draws)`.

        Empty where there are so many joint states of what is observed that one variable after the other is less work.
        """
        network, observed = self.cells.network, tuple(self.evidence)
        few = observed and network.cells(observed) <= MOST_OBSERVED_STATES
        if not few or self._is_large(elimination.marginals_cost(network, observed)):
            return {}
        return elimination.marginals_beside(self.cells, observed)

    @cached_property
    def _memory(self) -> dict[Scope, Floats]:
        """Laws of parts of what is observed, which all variables share that are asked together."""
        return {}

    def shared(self, name: str) -> dict[str, Any]:
        """What the joint law of a variable and all that is observed shares with those of others; "" shares nothing."""
        return {"own": self.beside.get(name), "memory": self._memory} if name else {}

    @cached_property
    def log_evidence(self) -> Floats:
        """`log P(evidence)`, shape `(draws,)`; by made-up records where exact inference is out of reach."""
        if not elimination.affordable(self.cells.network, (), self.evidence):
            return log_weight(self.cells, self.evidence, np.random.default_rng(0))
        return elimination.log_probability(self.cells, self.evidence)

    def joint(self, targets: Sequence[str], also: Mapping[str, int] | None = None) -> Floats:
        """`P(targets | evidence, also)`, shape `(*sizes, draws)`; NaN where the condition is impossible.

        Where every table matters to a single target, its own plan is the plan of all marginals, and the pass for all of
        them is taken: that rests on the query alone, so a query has one answer, whatever it is asked with.
        """
        network, evidence = self.cells.network, {**self.evidence, **(also or {})}
        alone = len(targets) == 1 and not also
        if alone and len(requisite(network, targets, evidence)) == len(network.nodes):
            return self.marginals[targets[0]]
        if self._is_large(elimination.joint_cost(network, targets, evidence)):
            fine = _normalise_rough(elimination.joint(self.cells, targets, evidence, dtype=np.float32))
            if fine is not None:
                return fine
        return elimination.joint(self.cells, targets, evidence)

    def whole(self, names: Sequence[str]) -> Floats:
        """`P(names)`, shape `(*sizes, draws)`: of the question's variables, the observed ones among them."""
        return elimination.joint(self.cells, names, {})

    def probability(self, states: Mapping[str, int]) -> Floats:
        """`P(states | evidence)`, shape `(draws,)`; NaN where the evidence is impossible."""
        with np.errstate(invalid="ignore"):
            return np.asarray(
                np.exp(elimination.log_probability(self.cells, {**self.evidence, **states}) - self.log_evidence)
            )

    def _is_large(self, cells: int) -> bool:
        """Whether a question that works on so many cells for each draw is worth asking in single precision first."""
        return cells * (self.cells.draws or 1) > LARGE_WORK


def _normalise_rough(law: npt.NDArray[np.float32]) -> Floats | None:
    """A law in single precision as one that sums to 1, shape `(*sizes, draws)`.

    Errors of the work are relative to each probability: of one near 1 what is lost is as small as the rest.

    Returns:
        None where such an error is not far below that of the mean of so many draws.
    """
    exact = law.astype(np.float64)
    exact /= exact.sum(axis=tuple(range(exact.ndim - 1)))
    error = ROUNDING_ERROR * np.minimum(exact.mean(axis=-1), 1 - exact.mean(axis=-1))
    seen = error > MOST_ERROR_SHARE * exact.std(axis=-1) / exact.shape[-1] ** 0.5
    return None if seen.any() or np.isnan(error).any() else exact


@dataclass(frozen=True, eq=False)
class _Tabled(Given):
    """Draws given evidence, from a joint law of all variables of the question.

    Args:
        names: of the question's variables.
        law: `P(names)`, shape `(*sizes, draws)`.
    """

    names: tuple[str, ...]
    law: Floats

    def _sum_out(self, states: Mapping[str, int], targets: Sequence[str] = ()) -> Floats:
        """`P(targets, states)`, shape `(*sizes, draws)`."""
        part = self.law[tuple(states.get(name, slice(None)) for name in self.names)]
        left = [name for name in self.names if name not in states]
        summed = part.sum(axis=tuple(axis for axis, name in enumerate(left) if name not in targets))
        kept = [name for name in left if name in targets]
        return np.asarray(summed.transpose([*(kept.index(name) for name in targets), len(kept)]))

    @cached_property
    def log_evidence(self) -> Floats:
        """See `Given`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._sum_out(self.evidence)))

    def joint(self, targets: Sequence[str], also: Mapping[str, int] | None = None) -> Floats:
        """See `Given`."""
        states = {**self.evidence, **(also or {})}
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sum_out(states, targets) / self._sum_out(states))

    def whole(self, names: Sequence[str]) -> Floats:
        """See `Given`."""
        return self._sum_out({}, names)

    def probability(self, states: Mapping[str, int]) -> Floats:
        """See `Given`."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sum_out({**self.evidence, **states}) / self._sum_out(self.evidence))


@dataclass(frozen=True, eq=False)
class _Sampled(_Tabled):
    """Draws given evidence where exact inference is out of reach: laws of records made up under every draw.

    Args:
        names: of the targets.
        law: `P(names | evidence)`, shape `(*sizes, draws)`.
        exact: the draws given the evidence.
    """

    exact: Given

    @cached_property
    def log_evidence(self) -> Floats:
        """See `Given`."""
        return self.exact.log_evidence

    def whole(self, names: Sequence[str]) -> Floats:
        """See `Given`."""
        return self.exact.whole(names)


@dataclass(frozen=True, eq=False)
class PosteriorGiven:
    """The draws of a posterior given evidence, and how much each counts.

    Args:
        given: the draws.
        twin: twin draws of some of them, one in every `step`, where the posterior has some and draws count alike.
        predictive: whether they count by the probability of the evidence under them.
        basis: what was measured; None where nobody knows.
        tables: what was measured beyond the network's families; None where that is not read.
        effective: independent draws that those with a twin are worth; None: all.
        read: whether all that tables say of the question's variables is in the draws.
        sampling: how answers are sampled; None where inference is exact.
        step: of the draws with a twin, from the first on.
        observed: `P(evidence)` under every draw, as a question about it alone has it; None where nothing is observed.
    """

    given: Given
    twin: Given | None
    predictive: bool
    basis: Basis | None
    tables: TableDraws | None
    effective: float | None = None
    read: bool = True
    sampling: Sampling | None = None
    step: int = 1
    observed: Floats | None = None

    def evidence(self, level: float) -> EvidenceProbability | None:
        """How probable the evidence is, with its interval; None where nothing is observed."""
        if self.observed is None:
            return None
        schema = self.given.cells.network.schema
        states = tuple((name, schema[name].states[code]) for name, code in self.given.evidence.items())
        lower, upper = credible_interval(self.observed, level)
        return EvidenceProbability(str(Probability(states)), float(self.observed.mean()), float(lower), float(upper))

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

    def about(
        self, targets: Iterable[str], *, most: int, ratio: bool = False, together: bool = False
    ) -> PosteriorGiven:
        """What answers a question about some targets: itself, or joint laws of its variables that tables moved.

        Args:
            targets: of the question.
            most: joint states of theirs beyond which the network's law stays.
            ratio: whether the probability of the evidence will be asked, too.
            together: whether all other variables will be asked one by one, too.

        Returns:
            That; where exact inference is out of reach, and joint states are no more than these, sampled laws.

        Raises:
            InputError: the evidence is too rare to be sampled.
        """
        wanted = tuple(targets)
        names, network = (*wanted, *self.given.evidence), self.given.cells.network
        small = network.cells(wanted) <= most
        said = self.tables is not None and self.tables.say(names)
        alone = wanted[0] if together and len(wanted) == 1 else ""
        law = None
        if self.tables is not None and said and small:
            law = self.tables.joint(self.given.cells, names, **self.given.shared(alone))
        if law is None:
            asked = [wanted, ()] if ratio else [wanted]
            reached = all(elimination.affordable(network, each, self.given.evidence) for each in asked)
            return replace(self.sampled([wanted])[0] if small and not reached else self, read=not said)
        assert self.tables is not None
        twin = self.twin
        if twin is not None:
            picked = np.arange(0, self.given.cells.draws or 1, self.step)
            again = self.tables.joint(twin.cells, names, twins=True, picked=picked, **twin.shared(alone))
            twin = None if again is None else _Tabled(twin.cells, twin.evidence, names, again)
        return replace(self, given=_Tabled(self.given.cells, self.given.evidence, names, law), twin=twin)

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
                given=_Sampled(given.cells, given.evidence, scope, found.laws[scope], given),
                twin=None,
                sampling=found.sampling(scope),
            )
            for scope in scopes
        ]


def both_given(posterior: Posterior, evidence: Sequence[tuple[str, str]], predictive: bool) -> PosteriorGiven:
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
    drawn = joint_draws(posterior)
    given = Given(drawn.cells, codes)
    if not isinstance(drawn, PosteriorDraws):
        twins: Tables | None = None if predictive else getattr(drawn, "twins", None)
        twin = None if twins is None else Given(twins, codes)
        return PosteriorGiven(given, twin, predictive, None, None, observed=_observe(given, None))
    alone = PosteriorGiven(given, None, predictive, drawn.basis, drawn.tables, observed=_observe(given, drawn.tables))
    if predictive or drawn.twins is None:
        return alone
    draws = drawn.cells.draws or 1
    step = min(max(1, draws // LEAST_TWINS), TWIN_STEP)
    picked = np.arange(0, draws, step)
    effective = drawn.effective() * picked.size / draws
    return replace(alone, twin=Given(drawn.twins.of_draws(picked), codes), effective=effective, step=step)


def _observe(given: Given, tables: TableDraws | None) -> Floats | None:
    """Find `P(evidence)` under every draw, as a question about it alone has it; None where nothing is observed."""
    names = tuple(given.evidence)
    if not names:
        return None
    law = tables.joint(given.cells, names) if tables is not None and tables.say(names) else None
    return np.exp((given if law is None else _Tabled(given.cells, given.evidence, names, law)).log_evidence)
