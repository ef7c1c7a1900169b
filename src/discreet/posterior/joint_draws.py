"""The posterior over a network: joint draws of its probabilities, which every reader returns and every query takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet.display.network_svg import MOST_DRAWN_NODES
from discreet.display.text_tables import html_text
from discreet.errors import InputError
from discreet.inference.interactions import MOST_VARIABLES
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import Query
from discreet.model.tables import Tables
from discreet.posterior.law_plan import JointLaw
from discreet.posterior.protocol import NetworkPosterior, Posterior, tails
from discreet.posterior.saturated import projected
from discreet.releases.combined import Evidence, evidence_of, payers_of, refuse_counting_twice
from discreet.util.arrays import Floats, balanced_quantiles
from discreet.util.attached import above
from discreet.util.randomness import Seed, as_generator

if TYPE_CHECKING:
    from discreet.posterior.basis import Basis
    from discreet.posterior.law_parts import LawParts
    from discreet.queries.answers import Answer
    from discreet.queries.bin_laws import Inside
    from discreet.queries.query import Assume


LEAST_EFFECTIVE_DRAWS = 400
"""Independent draws that the worst entry of chains must be worth: the ends of a 95 % interval are then good to about
0.13 standard deviations (Vehtari et al., 2021, recommend 400 as the least)."""
DRAWS_FIRST_LINE = b"discreet-draws\n"
"""The first line of a file of draws."""


@dataclass(frozen=True)
class Mixing:
    """Mixing of the chains of a posterior: effective sample size and R-hat.

    Args:
        chains: how many.
        sweeps: of each, warm-up included.
        effective: independent draws that tell the worst entry as well (effective sample size).
        worst: that entry, such as "P(lung=yes | smoke=no)".
        r_hat: the largest of all entries.

    Raises:
        Nothing: posteriors by chains make these.

    Example:
        >>> import discreet as dc
        >>> mixing = dc.results.Mixing(4, sweeps=1500, effective=612.0, worst="P(lung=yes | smoke=no)", r_hat=1.004)
        >>> mixing.effective >= 400 and mixing.r_hat <= 1.01
        True
    """

    chains: int
    sweeps: int
    effective: float
    worst: str
    r_hat: float


@dataclass(frozen=True, eq=False)
class Source:
    """A function and a generator that a posterior's new draws come from.

    Args:
        make: as many draws of the same posterior from a generator.
        rng: the one that the posterior was drawn with; every call takes a child of it that nobody else gets.
        prior: of the rows, over the network that was drawn; None where it was learned.
    """

    make: Callable[[np.random.Generator], PosteriorDraws]
    rng: np.random.Generator
    prior: Dirichlet | None = None


@dataclass(frozen=True, eq=False)
class PosteriorDraws(Posterior):
    """Joint draws, independent except for resampling; a family is drawn at first use.

    Args:
        cells: probabilities, float64, shape `(*parents, child, draws)`.
        method: how they were drawn: "plug-in", or one of `noise_aware`; "" if nobody said.
        twins: a second draw of all probabilities for every draw (twin draws), given the same latent counts of records
            as the first and independent of it otherwise: the covariance of the two is what is not known of the counts,
            which is the part of the noise. None where no counts were drawn.
        mixing: how well the chains mixed, where the draws come from chains.
        worth: says how many independent draws those families are worth that have been drawn, where draws depend on each
            other: of chains that of the worst entry, of resampled ones a bound. None: all of them.
        source: makes new draws; None where these are all there are.
        saturated: the same draws under the largest network that the release's tables carry, where that is another than
            the public one: what is asked of several variables at once is answered from these, and `cells` are the
            public network's own rows under their joint law.
        basis: what was measured, and so what answers rest on; None where nobody knows.
        parts: of the joint law of all variables, beside the rows; None where the network's own is the law.
        accounts: public ids of the accounts that paid for what the draws were learned from.

    Raises:
        InputError: tables without an axis of draws, or twin draws of another kind.

    Guarantee:
        None spent: draws say nothing that the release does not.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1))
        >>> posterior.cells["coin"].shape, posterior.ess()
        ((2, 100), 100.0)
    """

    cells: Tables
    method: str = ""
    twins: Tables | None = None
    mixing: Mixing | None = None
    worth: Callable[[], float] | None = None
    source: Source | None = None
    saturated: PosteriorDraws | None = None
    basis: Basis | None = None
    parts: LawParts | None = None
    accounts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse a single table of probabilities."""
        if not self.cells.draws:
            raise InputError("a posterior needs at least one draw of every family")
        if self.twins is not None and (self.twins.network, self.twins.draws) != (self.network, self.cells.draws):
            raise InputError("twins must be draws of the same families, one for each draw")

    @property
    def network(self) -> Network:
        """The public network."""
        return self.cells.network

    @property
    def draws(self) -> int:
        """Number of joint draws."""
        return self.cells.draws or 0

    def rows(self, *, level: float = 0.95) -> tuple[dict[str, Any], ...]:
        """List the probability of each state of each variable, with its interval.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            The rows of `marginals(posterior, level=level)`.
        """
        return tuple(above("PosteriorDraws.marginals")(self, level=level).tidy())

    def interval(self, *, level: float = 0.95) -> tuple[Tables, Tables]:
        """Equal-tailed intervals of every probability of every family.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), tables without an axis of draws.

        Raises:
            InputError: a level outside (0, 1), or one that so few draws cannot tell.
        """
        ends = {node: tails(np.moveaxis(draws, -1, 0), level) for node, draws in self.cells.items()}
        lower, upper = ({node: pair[side] for node, pair in ends.items()} for side in (0, 1))
        return Tables(self.network, lower), Tables(self.network, upper)

    def summary(self, *, level: float = 0.95, width: int | None = None) -> str:
        """Format the method of drawing, and each state's probability with its interval, as aligned text.

        Args:
            level: posterior probability of each interval, between 0 and 1.
            width: columns of the terminal, as of `columns`; None for lines as long as they are.
        """
        head = f"{self.draws:,} draws of {len(self.network.nodes):,} variables, {self.method or 'given as they are'}"
        return f"{head}\n\n{above('PosteriorDraws.marginals')(self, level=level).summary(width=width)}"

    def _repr_html_(self) -> str:
        """Format the network, the method and contradictions of the network for a notebook, without drawing a family."""
        head, network = f"<p>{self.draws:,} posterior draws, {self.method or 'given'}</p>", self.network
        if self.basis is None or len(network.nodes) > MOST_DRAWN_NODES:
            return f"{head}{network._repr_html_()}"
        drawn = network.to_svg(refuted=self.basis.fit_check.contradicted_pairs)
        return f'{head}<p>{html_text(self.basis.fit_check)}</p><div style="overflow-x: auto">{drawn}</div>'

    @property
    def doubting(self) -> bool:
        """True if unmeasured pairs may deviate from the network ("robust"), so that `assuming` has an effect."""
        drawn = self if self.saturated is None else self.saturated
        return drawn.parts is not None and drawn.parts.assume == "robust"

    @cached_property
    def law(self) -> JointLaw:
        """The joint law of all variables under every draw, from which all answers are read; fitted at first use.

        Rows of the network, with the margins of what else was measured and doubt where nothing was
        (`discreet.posterior.joint_law`).
        """
        drawn = self if self.saturated is None else self.saturated
        if drawn.parts is None:
            return JointLaw.of_rows(drawn.cells, drawn.twins)
        law = drawn.parts.law
        return law if drawn.twins is not None else replace(law, make_twins=None)

    def assuming(self, assume: Literal["network", "robust"]) -> PosteriorDraws:
        """Return the same draws under another assumption about pairs of variables that no table holds.

        Args:
            assume: "network" takes such pairs as the network has them; "robust", the default, gives each an interaction
                of its own, of a size that audited pairs teach.

        Returns:
            A posterior that answers under this assumption; draws of the network's own rows stay as they are.

        Raises:
            InputError: draws that were not read from tables, or with the network trusted.
        """
        if self.saturated is not None:
            return replace(self, saturated=self.saturated.assuming(assume))
        if self.parts is None:
            raise InputError(
                "this posterior believes its network: leave out what is assumed, or whatever makes it do so "
                "(trust_network, --trust-network; a prior of rows; the methods exact and plug-in)"
            )
        return replace(self, parts=self.parts.assuming(assume))

    @staticmethod
    def of_saturated(wide: PosteriorDraws, network: Network) -> PosteriorDraws:
        """Make the posterior of a public network from draws under a larger network.

        Args:
            wide: over `saturated(network, ...)`.
            network: public.

        Returns:
            Draws of `P(child | parents)` of every family of `network`, one for each of `wide`.
        """

        def rows(node: str) -> Floats:
            family = network.family(node)
            return np.asarray(wide.cells[node]) if wide.network.family(node) == family else wide.law.rows_of(family)

        cells = Tables(network, rows, draws=wide.cells.draws)
        return replace(wide, cells=cells, twins=wide.twins and projected(wide.twins, network), saturated=wide)

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the draws to a file, whole or not at all; loaded again they give the same answers to the last digit.

        Args:
            path: of the file; by convention it ends in `.draws`.
            replace: whether a file of this name is replaced.

        Raises:
            FileExistsError: there is a file of this name, and it is not to be replaced.
            InputError: draws that `noise_aware` did not make from a release, or a file that cannot be written.

        Guarantee:
            None spent: the file says nothing that the release does not.
        """
        above("PosteriorDraws.save")(self, path, replace=replace)

    @staticmethod
    def load(path: str | Path) -> PosteriorDraws:
        """Read draws that `save` or `discreet draw` wrote.

        Args:
            path: of the file.

        Returns:
            The posterior, which answers every question as the stored one did, to the last digit.

        Raises:
            InputError: no such file, something else, damaged, or of another version of the format.

        Guarantee:
            None spent: the file says nothing that the release does not.
        """
        posterior: PosteriorDraws = above("PosteriorDraws.load")(path)
        return posterior

    def answer(
        self,
        query: str | Query,
        *,
        level: float = 0.95,
        predictive: bool = False,
        assume: Assume | None = None,
        inside: Inside = "log-linear",
    ) -> Answer:
        """Answer a query: short for `discreet.answer(posterior, query, ...)`, which documents it.

        Args:
            query: such as "P(lung | smoke=yes)".
            level: posterior probability of each interval.
            predictive: whether it is about the next record, instead of the population.
            assume: what is believed of variables that no table holds together.
            inside: law of numbers inside their bins.

        Returns:
            Means and intervals.

        Raises:
            InputError: as in `discreet.answer`.

        Guarantee:
            None spent: reads the posterior alone.

        Example:
            >>> import discreet as dc
            >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
            >>> posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(1000, rng=1))
            >>> row = posterior.answer("P(coin=heads)").rows[0]
            >>> row["lower"] < row["mean"] < row["upper"]
            True
        """
        answer: Answer = above("PosteriorDraws.answer")(
            self, query, level=level, predictive=predictive, assume=assume, inside=inside
        )
        return answer

    def mean(self) -> Tables:
        """Posterior mean of every probability.

        Returns:
            Averages over the draws; Monte Carlo error is the posterior's standard deviation over the root of their
            number. Rows sum to 1.
        """
        return Tables(self.network, {node: draws.mean(axis=-1) for node, draws in self.cells.items()})

    def as_prior(self) -> Dirichlet:
        """Match a Dirichlet prior to the draws, to read releases on other records with (`Dirichlet.matching`).

        Returns:
            A prior that remembers the accounts, so that no release of theirs is read with it: its records would count
            twice.

        Raises:
            InputError: fewer than two draws.
        """
        return replace(Dirichlet.matching(self.cells), accounts=self.accounts)

    def median(self) -> Tables:
        """Posterior median rows: those with the least expected sum of absolute errors.

        Returns:
            For every row the quantiles of its cells at one common level, chosen such that they sum to 1. Where rows
            are nearly deterministic this takes a side; the mean hedges.

        Source:
            Setting the derivative of `sum_k E|theta_k - t_k|` under `sum_k t_k = 1` to 0.

        Example:
            >>> import discreet as dc
            >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
            >>> draws = dc.Tables(coin, {"coin": [[0.0, 0.0, 0.9], [1.0, 1.0, 0.1]]}, draws=3)
            >>> dc.results.PosteriorDraws(draws).median()["coin"].round(2).tolist()
            [0.0, 1.0]
            >>> dc.results.PosteriorDraws(draws).mean()["coin"].round(2).tolist()
            [0.3, 0.7]
        """
        return Tables(self.network, {node: balanced_quantiles(draws) for node, draws in self.cells.items()})

    def ess(self) -> float:
        """Effective sample size of the draws, in the families that were read so far.

        Returns:
            At most the number of draws; less for those of chains and for resampled ones.
        """
        draws = float(self.draws)
        return draws if self.worth is None else min(self.worth(), draws)

    def fresh(self, *, rng: Seed = None) -> PosteriorDraws:
        """Draw again, independently of these draws given the release; costs time and no privacy.

        Args:
            rng: source of randomness; None takes a new child of the one that the posterior was drawn with. A program
                that is run again with the same seed makes the same draws again.

        Returns:
            The same posterior, drawn by the same method.

        Raises:
            InputError: these draws are all there are: released ones taken as they are, or tables put together.
            DiscreetError: as in `noise_aware`.
        """
        if self.source is None:
            raise InputError(
                "these draws are all there are; a posterior of noise_aware makes new ones from its release"
            )
        posterior = self.source.make(self.source.rng.spawn(1)[0] if rng is None else as_generator(rng))
        return replace(posterior, basis=self.basis, accounts=self.accounts)

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Pick some of the joint draws, without repetition.

        Args:
            n: how many; at most as many as the posterior was made with.
            rng: picks them.

        Returns:
            Probabilities, shape `(*parents, child, n)`.

        Raises:
            InputError: more draws than there are.
        """
        rng = as_generator(rng)
        if not 0 < n <= self.draws:
            raise InputError(f"this posterior has {self.draws} draws, asked for {n}; make it with more draws")
        picked = rng.permutation(self.draws)[:n]
        return self.cells.of_draws(picked)


def require_posterior(posterior: object) -> None:
    """Refuse an argument that is no posterior, such as a release."""
    if not hasattr(posterior, "cells"):
        advice = "; make one by release.posterior()" if hasattr(posterior, "payload") else ""
        raise InputError(f"a posterior was expected, not a {type(posterior).__name__}{advice}")


def law_of(posterior: NetworkPosterior) -> JointLaw:
    """Find the joint law of a posterior; for plain draws of probabilities it is the network's own."""
    require_posterior(posterior)
    if isinstance(posterior, PosteriorDraws):
        return posterior.law
    return JointLaw.of_rows(posterior.cells, getattr(posterior, "twins", None))


def prior_for(release: Evidence, prior: Dirichlet | None, draws: int) -> Dirichlet:
    """Choose and check the prior that a release is read with.

    Args:
        release: whose prior holds where no other is given.
        prior: another than the curator's, or None.
        draws: joint draws wanted.

    Returns:
        The prior.

    Raises:
        InputError: a prior over another network or from the same records, or no draws.
    """
    if prior is not None and not isinstance(prior, Dirichlet):
        raise InputError("a prior is a Dirichlet; Dirichlet.from_probabilities makes one of tables of probabilities")
    believed = release.dirichlet if prior is None else prior
    if believed.network != release.network:
        raise InputError("the prior is over another network than the release")
    refuse_counting_twice(believed, payers_of(evidence_of(release).parts))
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    return believed


def learned_prior(release: Evidence, prior: Dirichlet | None) -> bool:
    """True if the prior of rows is learned from the release: no prior is passed and the curator's is flat.

    Args:
        release: whose prior counts where no other is given; says nothing if all cells have the same concentration. With
            a family of more than 14 variables nothing is learned.
        prior: another than the curator's, or None.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> learned_prior(told, None), learned_prior(told, dc.Dirichlet.uniform(coin))
        (True, False)
    """
    largest = max(len(parents) + 1 for parents in release.network.parents.values())
    return prior is None and release.dirichlet.flat and largest <= MOST_VARIABLES
