"""Adaptive sequences of decisions, in which each query may depend on all earlier answers.

In the protocol of Dimitrakakis et al. (JMLR 2017, Section 1) A asks and B answers; B's answers shall be useful and
disclose little about the records. Here B's only message about the records is the release, which is charged and
published before anybody asks. All answers are computed from it, so they cost no privacy, however many there are. The
utility lost by answering from finitely many draws remains to be bounded, and this module states for which sequences of
queries it can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from discreet.deciding.decide import Decision, decide
from discreet.deciding.decide_number import NumberDecision, Quantity, decide_number
from discreet.deciding.decide_vector import VectorDecision, VectorPart, decide_vector
from discreet.deciding.decision_draws import renewable
from discreet.deciding.number_losses import NumberLoss
from discreet.errors import InputError
from discreet.model.tables import Tables
from discreet.posterior.protocol import NetworkPosterior
from discreet.util.arrays import Floats
from discreet.util.number_checks import probability
from discreet.util.option_texts import DEFAULT_LEVEL

R = TypeVar("R")
Answered: TypeAlias = Decision[object] | NumberDecision | VectorDecision


class Responder:
    """Responder to adaptively chosen queries, with one bound for all answers together.

    *If new draws can be made* (posteriors of a release), every answer has its own draws. Given all earlier answers they
    are independent of the query, whatever the reason for choosing it. Each bound may therefore fail with its share of
    `failure`, and all together with `failure`. If the number of queries is unknown, the k-th has the share `6 / (pi^2
    k^2)`; these shares sum to 1.

    *If the draws are fixed*, there is no bound for queries that depend on answers: mean utilities disclose the draws,
    and with enough of them one finds a bet that wins under these draws and loses under the posterior. A bound remains
    for losses of quantities that were fixed beforehand, because the band of a quantity's distribution holds for every
    number, quantile and interval at once. So `quantities` must be named here. Any losses of them are then answered, in
    any order and number, and no other query is; each quantity has an equal share of `failure`.

    Args:
        posterior: result of `noise_aware` or `plug_in`, or posterior draws.
        failure: probability with which some bound of the sequence may fail.
        queries: number of answers, if it is known before the first one; each then has the same share of `failure`, and
            further ones are refused. None if it is unknown. Checked, but else not used, for fixed draws.
        quantities: for fixed draws, the quantities of all queries, chosen before anybody looks at the draws.
        rng: source of new draws; None uses children of the posterior's own generator.

    Raises:
        InputError: a probability outside (0, 1), no queries, `quantities` although new draws can be made, or no
            `quantities` for fixed draws.

    Source:
        Dimitrakakis et al. (JMLR 2017), Algorithm 2 and Lemma 11, corrected for queries that depend on answers; for the
        bounds see `decide` and `discreet.deciding.number_losses`.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Network((dc.Variable("rain", ("no", "yes")),), {"rain": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Tables(rain, {"rain": [[0.7, 0.9], [0.3, 0.1]]}, draws=2))
        >>> responder = dc.decisions.Responder(posterior, quantities=["P(rain=yes)"])
        >>> round(responder.number("P(rain=yes)", "squared").response, 3), len(responder.answers)
        (0.2, 1)
    """

    def __init__(
        self,
        posterior: NetworkPosterior,
        *,
        failure: float = 0.05,
        queries: int | None = None,
        quantities: Sequence[Quantity] = (),
        rng: np.random.Generator | None = None,
    ) -> None:
        """Check the arguments, which the class documents, and store them without any answer; nothing is drawn yet."""
        probability(failure=failure)
        if queries is not None and not queries >= 1:
            raise InputError(f"a sequence has at least one query, got {queries}")
        if renewable(posterior) == bool(quantities):
            raise InputError(
                "every answer of this posterior has new draws, for any query: leave out the quantities"
                if quantities
                else "these draws are all there are: name the quantities that will be asked for, before looking at "
                "them; sequences of other queries have no bound"
            )
        self.posterior, self.failure, self.queries = posterior, failure, queries
        self._quantities, self._rng = tuple(quantities), rng
        self._answers: list[Answered] = []

    @property
    def answers(self) -> tuple[Answered, ...]:
        """All decisions so far, in their order, of all kinds; a refused query leaves none."""
        return tuple(self._answers)

    @property
    def regret(self) -> float:
        """Sum of the bounds of all answers so far, each in the unit of its utility or loss; 0 without answers.

        It bounds the expected utility that they lose together, and fails with probability at most `failure`.
        """
        return math.fsum(answer.regret for answer in self._answers)

    def decide(
        self,
        utility: Callable[[Tables, R], Floats],
        responses: Sequence[R],
        *,
        level: float = DEFAULT_LEVEL,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> Decision[R]:
        """Choose the response with the largest expected utility by `decide`, from new draws, and add it to `answers`.

        The bound may fail with the next answer's share of `failure`.

        Args:
            utility: as in `decide`.
            responses: at least one response.
            level: posterior probability of each interval.
            bounds: smallest and largest possible utility.

        Returns:
            The decision; its bound holds together with those of all other answers.

        Raises:
            InputError: a posterior with fixed draws, more answers than were announced, or as in `decide`; `answers` is
                then unchanged.
            DiscreetError: new draws could not be made, as in `noise_aware`.
        """
        self._refuse_fixed_draws("decide")
        decision = decide(
            self.posterior,
            utility,
            responses,
            level=level,
            bounds=bounds,
            failure=self._share_failure(),
            rng=self._spawn_generator(),
        )
        self._answers.append(decision)  # type: ignore[arg-type]
        return decision

    def vector(self, quantities: VectorPart | Sequence[VectorPart], *, level: float = DEFAULT_LEVEL) -> VectorDecision:
        """Choose the vector with the least expected squared distance by `decide_vector`, and add it to `answers`.

        The bound may fail with the next answer's share of `failure`.

        Args:
            quantities: as in `decide_vector`.
            level: posterior probability of each interval.

        Returns:
            The decision; its bound holds together with those of all other answers.

        Raises:
            InputError: a posterior with fixed draws, more answers than were announced, or as in `decide_vector`;
                `answers` is then unchanged.
            DiscreetError: new draws could not be made, as in `noise_aware`.
        """
        self._refuse_fixed_draws("decide_vector")
        failure, rng = self._share_failure(), self._spawn_generator()
        decision = decide_vector(self.posterior, quantities, level=level, failure=failure, rng=rng)
        self._answers.append(decision)
        return decision

    def number(
        self,
        quantity: Quantity,
        loss: NumberLoss | str,
        *,
        level: float = DEFAULT_LEVEL,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> NumberDecision:
        """Choose the number with the least expected loss by `decide_number`, and add it to `answers`.

        The bound may fail with the next answer's share of `failure`, or for fixed draws with `failure` divided by the
        number of quantities.

        Args:
            quantity: as in `decide_number`; for fixed draws equal to one of the named quantities (the same text or
                function).
            loss: as in `decide_number`.
            level: posterior probability of the interval.
            bounds: smallest and largest value of the quantity.

        Returns:
            The decision; its bound holds together with those of all other answers.

        Raises:
            InputError: for fixed draws, a quantity that was not named; for others, more answers than were announced; or
                as in `decide_number`. `answers` is then unchanged.
            DiscreetError: new draws could not be made, as in `noise_aware`.
        """
        if self._quantities and quantity not in self._quantities:
            raise InputError(
                "these draws are all there are, and this quantity was not named before they were looked at; it has no "
                "bound from them"
            )
        # All losses of one quantity use one band of its distribution, hence one share of the failure probability.
        failure = self.failure / len(self._quantities) if self._quantities else self._share_failure()
        decision = decide_number(
            self.posterior, quantity, loss, level=level, bounds=bounds, failure=failure, rng=self._spawn_generator()
        )
        self._answers.append(decision)
        return decision

    def _refuse_fixed_draws(self, function: str) -> None:
        """Refuse a query that may depend on answers, if no new draws can be made; name the function to call instead."""
        if self._quantities:
            raise InputError(
                "these draws are all there are, and a query that may depend on answers has no bound from them; ask "
                f"`{function}` with the number of queries, all fixed before the draws were looked at"
            )

    def _share_failure(self) -> float:
        """Compute the next answer's share of the failure probability; refuse one answer too many.

        It is `failure / queries`, or for the k-th answer `6 failure / (pi k)^2` if the number of queries is unknown.
        Nothing is counted here.

        Raises:
            InputError: all announced queries have been answered.
        """
        number = len(self._answers) + 1
        if self.queries is None:
            return self.failure * 6 / (math.pi * number) ** 2
        if number > self.queries:
            raise InputError(f"the sequence was to have {self.queries} queries, and has had them; make another one")
        return self.failure / self.queries

    def _spawn_generator(self) -> np.random.Generator | None:
        """Spawn a new child generator for the next answer's draws; None if no generator was given.

        Given None, the decision takes a child of the posterior's own generator. Each call gives another child.
        """
        return None if self._rng is None else self._rng.spawn(1)[0]
