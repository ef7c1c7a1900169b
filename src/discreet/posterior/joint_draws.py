"""The posterior over a network: joint draws of its probabilities. Readers of networks return it, queries take it.

A family is a node with its parents, and a row the node's distribution in one state of them. A measured set is a set of
variables that some table contains together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.display.network_svg import MOST_DRAWN_NODES
from discreet.display.renderers import Picture, html_of
from discreet.errors import InputError
from discreet.inference.exact_laws import Laws
from discreet.inference.interactions import MOST_VARIABLES
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import Query
from discreet.model.structural_zeros import with_zeros
from discreet.model.tables import Tables
from discreet.posterior.law_plan import JointLaw
from discreet.posterior.number_draws import NumberDraws, NumberEvidence
from discreet.posterior.pooled.plain_pairs import draw_plain
from discreet.posterior.protocol import NetworkPosterior, Posterior, tails
from discreet.posterior.saturated import projected
from discreet.releases.combined import Evidence, evidence_of, payers_of, refuse_counting_twice
from discreet.util.arrays import Floats, balanced_quantiles
from discreet.util.attached import above
from discreet.util.option_texts import DEFAULT_LEVEL, LawAssume
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block

if TYPE_CHECKING:
    from discreet.posterior.basis import Basis
    from discreet.posterior.law_parts import LawParts
    from discreet.queries.answers import Answer
    from discreet.util.option_texts import Assume, Inside


LEAST_EFFECTIVE_DRAWS = 400
"""Least effective sample size of the worst entry of chains: the ends of a 95 % interval then have a Monte Carlo error
of about 0.13 standard deviations (Vehtari et al., 2021, recommend at least 400)."""


@dataclass(frozen=True)
class Mixing:
    """Mixing of the chains of a posterior: effective sample size and R-hat.

    Args:
        chains: number of chains.
        sweeps: sweeps of each chain, warm-up included.
        effective: effective sample size of the worst entry.
        worst: name of that entry, such as "P(lung=yes | smoke=no)".
        r_hat: largest R-hat of all entries.

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
    """The function and the random generator that make new draws of a posterior.

    Args:
        make: makes as many draws of the same posterior from a generator.
        rng: generator with which the posterior was drawn; each call of `fresh` without a seed spawns a new child of it.
        prior: prior of the rows, over the network whose rows were drawn; None if it was learned.
    """

    make: Callable[[np.random.Generator], PosteriorDraws]
    rng: np.random.Generator
    prior: Dirichlet | None = None


@dataclass(frozen=True, eq=False)
class PosteriorDraws(Posterior):
    """Joint draws of a network's probabilities, independent except for chains and resampling.

    The draws of a family are made at its first use, and kept.

    Args:
        probabilities: float64, shape `(*parents, child, draws)`.
        method: method of drawing: "plug-in", or one of `noise_aware`; "" if it is unknown.
        replicates: replicate draws: for each draw a second draw of all probabilities, given the same latent counts of
            records and otherwise independent. The covariance of draw and replicate is the posterior variance due to the
            uncertainty of the counts, which is the part of the privacy noise. None if no counts were drawn.
        mixing: mixing of the chains; None if the draws do not come from chains.
        find_ess: computes the effective sample size if draws depend on each other: for chains that of the worst entry,
            for resampled draws a bound over the families drawn so far. None if all draws are independent.
        source: makes new draws; None if there is no way to make more.
        saturated: the same draws under the largest network whose families lie in the release's tables, if that differs
            from the public one. Queries are answered from their joint law; `probabilities` are the public network's
            rows under it. None if there is no larger network.
        basis: which variables were measured together, on which the marks of answers rest; None if it is unknown.
        parts: draws of the laws of measured sets; together with the rows they determine the joint law of all variables.
            None if the network's own joint law is used.
        accounts: public ids of the accounts that paid for the releases behind the draws.
        sums: released sums of numeric columns; None if there are none.
        seen: the draws over records with gaps, of which these are the complete ones; None if they are no such draws.
        more: what a reader with `restore` stores beside the draws, as JSON; empty for those of `noise_aware`.

    Raises:
        InputError: tables without an axis of draws, or replicate draws of another network or number.

    Guarantee:
        No budget is spent: the draws disclose nothing beyond the release.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1))
        >>> posterior.probabilities["coin"].shape, posterior.ess()
        ((2, 100), 100.0)
    """

    probabilities: Tables
    method: str = ""
    replicates: Tables | None = None
    mixing: Mixing | None = None
    find_ess: Callable[[], float] | None = None
    source: Source | None = None
    saturated: PosteriorDraws | None = None
    basis: Basis | None = None
    parts: LawParts | None = None
    accounts: frozenset[str] = frozenset()
    sums: NumberEvidence | None = None
    seen: PosteriorDraws | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse tables without draws and replicates of another network or number; then clear impossible cells.

        The refusals are InputErrors. If the schema has conditions of columns, impossible cells of probabilities and
        replicates are set to 0 (`with_zeros`).
        """
        if not self.probabilities.draws:
            raise InputError("a posterior needs at least one draw of every family")
        replicates = self.replicates
        if replicates is not None and (replicates.network, replicates.draws) != (self.network, self.draws):
            raise InputError("replicates must be draws of the same families, one for each draw")
        if self.network.schema.conditions:
            object.__setattr__(self, "probabilities", with_zeros(self.probabilities))
            object.__setattr__(self, "replicates", replicates and with_zeros(replicates))

    @property
    def cells(self) -> Tables:
        """The former name of `probabilities`, which it returns; each use issues a DeprecationWarning."""
        warnings.warn("posterior.cells is posterior.probabilities now", DeprecationWarning, stacklevel=2)
        return self.probabilities

    @property
    def network(self) -> Network:
        """The public network, that of `probabilities`."""
        return self.probabilities.network

    @property
    def draws(self) -> int:
        """Number of joint draws."""
        return self.probabilities.draws or 0

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the probability of each state of each variable, with its interval.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            The rows of `marginals(posterior, level=level)`, from the joint law, variables in the schema's order:
            "query", "variable", "state", "mean", "lower", "upper", "level" and, if they are known, shares of the
            variance and "basis".

        Raises:
            InputError: as `marginals`.
        """
        return tuple(above("PosteriorDraws.marginals")(self, level=level).tidy())

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Tables, Tables]:
        """Compute equal-tailed intervals of every probability of every family; all families are drawn.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), tables without an axis of draws: quantiles (1 - level) / 2 and (1 + level) / 2 over the
            draws.

        Raises:
            InputError: a level outside (0, 1), a single draw, or a level too close to 1 for the number of draws.
        """
        ends = {node: tails(np.moveaxis(draws, -1, 0), level) for node, draws in self.probabilities.items()}
        lower, upper = ({node: pair[side] for node, pair in ends.items()} for side in (0, 1))
        return Tables(self.network, lower), Tables(self.network, upper)

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """Yield a line on the method of drawing, an empty line, and each state's probability with its interval.

        Without a method the draws are "given as they are". Errors are those of `rows`.
        """
        yield f"{self.draws:,} draws of {len(self.network.nodes):,} variables, {self.method or 'given as they are'}"
        yield from ("", *above("PosteriorDraws.marginals")(self, level=level).content())

    def _repr_html_(self) -> str:
        """Format number of draws, method, fit check and network as HTML for a notebook; no family is drawn.

        The fit check, computed if it is not stored, is left out without a `basis` and for more than 250 nodes; else
        pairs that it contradicts are marked in the picture.
        """
        head, network = f"{self.draws:,} posterior draws, {self.method or 'given'}", self.network
        if self.basis is None or len(network.nodes) > MOST_DRAWN_NODES:
            return html_of([head, Picture(network._repr_html_)])
        drawn = network.to_svg(refuted=self.basis.fit_check.contradicted_pairs)
        return html_of(
            [head, str(self.basis.fit_check), Picture(lambda: f'<div style="overflow-x: auto">{drawn}</div>')]
        )

    @property
    def doubting(self) -> bool:
        """True if unmeasured pairs may deviate from the network ("robust"), so that `assuming` has an effect.

        False if the network's own joint law is used (no `parts`), or under "network".
        """
        drawn = self if self.saturated is None else self.saturated
        return drawn.parts is not None and drawn.parts.assume == "robust"

    @cached_property
    def law(self) -> JointLaw:
        """Joint law of all variables under every draw, from which all answers are read; fitted at first use, and kept.

        It combines the rows of `saturated`, if there is one, else of this network, with the drawn margins of the
        measured sets and, if doubted, with random interactions of unmeasured pairs (`discreet.posterior.joint_law`).
        Without `parts` it is the law of these rows alone. It has replicates only if the draws have.
        """
        drawn = self if self.saturated is None else self.saturated
        if drawn.parts is None:
            return JointLaw.of_rows(drawn.probabilities, drawn.replicates)
        law = drawn.parts.law
        return law if drawn.replicates is not None else replace(law, make_replicates=None)

    @cached_property
    def numbers(self) -> NumberDraws | None:
        """Numbers of the numeric columns under every draw, from released sums; None without such sums; kept.

        Shares of the bins are those of the joint law (`law.cells`). Unbiased shares of tables (`draw_plain`) come from
        the measured sets of `parts`, or of those of `saturated` if there is a larger network; there are none without
        parts and for complete records. For complete records (`seen` is not None) the sums are read under the draws with
        gaps.
        """
        seen = None if self.seen is None else self.seen.numbers
        if self.sums is None:
            return None
        parts = self.parts if self.saturated is None else self.saturated.parts
        plain = cache(partial(draw_plain, None if parts is None else parts.tabled_sets))
        return NumberDraws(self.sums, Laws(self.law.cells).joint, seen=seen, plain=plain)

    def assuming(self, assume: LawAssume) -> PosteriorDraws:
        """Return the same draws under another assumption about pairs of variables that no table contains.

        Args:
            assume: "network" takes the interactions of such pairs from the network. "robust", the default, gives each
                pair a random interaction beside it, whose size has a prior learned from measured pairs.

        Returns:
            A new posterior that answers under this assumption; draws of the rows and of measured sets are the same
            objects, and those drawn later are shared. This posterior stays as it is.

        Raises:
            InputError: draws that were not read from tables, or that were read with the network trusted.
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
        """Derive the posterior of a public network from draws under a larger network; rows are computed at first use.

        Args:
            wide: posterior over `saturated(network, ...)`; kept as `saturated`.
            network: public, over the same variables.

        Returns:
            Draws of `P(child | parents)` of every family of `network`, one for each draw of `wide`: a family of both
            networks as it is, any other from the joint law of `wide`, impossible rows uniform. Replicates, if there are
            any, are projected. All else is that of `wide`, its `source` as well, which makes draws of the public
            network by itself.
        """

        def rows(node: str) -> Floats:
            """Return `P(child | parents)` of a node's family under every draw, shape `(*parents, child, draws)`.

            They are the rows of `wide` if it has the same family, else computed from its joint law; impossible rows are
            then uniform.
            """
            family = network.family(node)
            same = wide.network.family(node) == family
            return np.asarray(wide.probabilities[node]) if same else wide.law.rows_of(family)

        replicates = wide.replicates and projected(wide.replicates, network)
        cells = Tables(network, rows, draws=wide.draws)
        return replace(wide, probabilities=cells, replicates=replicates, saturated=wide)

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Write the draws to a file, completely or not at all; loaded again they give the same answers exactly.

        All families and measured sets that were not drawn yet are drawn first, and the fit check is computed and
        stored.

        Args:
            path: path of the file; by convention it ends in `.draws`.
            replace: whether an existing file of this name is replaced.

        Raises:
            FileExistsError: the file exists, and `replace` is False.
            InputError: draws that `noise_aware` did not make from a release, or a file that cannot be written.

        Guarantee:
            No budget is spent: the file discloses nothing beyond the release.
        """
        above("PosteriorDraws.save")(self, path, replace=replace)

    @staticmethod
    def load(path: str | Path) -> PosteriorDraws:
        """Read draws that `save` or `discreet draw` wrote.

        Args:
            path: path of the file.

        Returns:
            The posterior, which answers every query as the stored one did, to the last digit. It makes new draws
            (`fresh`) only if the file has the generator.

        Raises:
            InputError: the file does not exist or cannot be read, is damaged, or is of another format or version.

        Guarantee:
            No budget is spent: the file discloses nothing beyond the release.
        """
        posterior: PosteriorDraws = above("PosteriorDraws.load")(path)
        return posterior

    def answer(
        self,
        query: str | Query,
        *,
        level: float = DEFAULT_LEVEL,
        predictive: bool = False,
        assume: Assume | None = None,
        inside: Inside = "log-linear",
    ) -> Answer:
        """Answer a query; a short form of `discreet.answer(posterior, query, ...)`, which documents it.

        Args:
            query: query text, such as "P(lung | smoke=yes)", or a parsed query.
            level: posterior probability of each interval.
            predictive: whether the query is about the next record, instead of the population.
            assume: assumption about pairs of variables that no table contains, as for `assuming`; None keeps that of
                the posterior.
            inside: law of numbers inside their bins.

        Returns:
            Posterior means and intervals.

        Raises:
            InputError: as in `discreet.answer`.

        Guarantee:
            No budget is spent; only the posterior is read.

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
        """Compute the posterior mean of every probability; all families are drawn.

        Returns:
            Tables without an axis of draws: averages over the draws, with rows that sum to 1. For independent draws
            their Monte Carlo error is the posterior standard deviation over the root of the number of draws.
        """
        return Tables(self.network, {node: draws.mean(axis=-1) for node, draws in self.probabilities.items()})

    def as_prior(self) -> Dirichlet:
        """Match a Dirichlet prior to the draws by moments, to read releases on other records; all families are drawn.

        Returns:
            For every row the concentrations `A m` (`Dirichlet.matching`): m is the mean of the draws, and A is such
            that the variances of the row's cells sum to those of the draws, at most 10^12. The prior stores the
            accounts: no release of the same accounts can be read with it, as its records would count twice.

        Raises:
            InputError: fewer than two draws.
        """
        return replace(Dirichlet.matching(self.probabilities), accounts=self.accounts)

    def median(self) -> Tables:
        """Compute posterior median rows: those with the least expected sum of absolute errors; all families are drawn.

        Returns:
            Tables without an axis of draws: for every row the quantiles of its cells at one common level, chosen such
            that they sum to 1. For a nearly deterministic row the median is near one of the extremes, and the mean is
            between them.

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
        return Tables(self.network, {node: balanced_quantiles(draws) for node, draws in self.probabilities.items()})

    def ess(self) -> float:
        """Return the effective sample size of the draws; for resampled draws a bound over the families drawn so far.

        Returns:
            At most the number of draws, which it is for independent draws; less for chains (that of the worst entry)
            and for resampled draws.
        """
        draws = float(self.draws)
        return draws if self.find_ess is None else min(self.find_ess(), draws)

    def fresh(self, *, rng: Seed = None) -> PosteriorDraws:
        """Make new draws, independent of the present ones given the release; this takes time, and spends no budget.

        Args:
            rng: source of randomness. None spawns a child of the generator with which the posterior was drawn, another
                one in each call, so a program that is run again with the same seed makes the same new draws.

        Returns:
            A new posterior, drawn by the same method, with as many draws and the basis and accounts of this one, which
            stays as it is.

        Raises:
            InputError: draws without a source: released draws taken as they are, or draws made from tables by hand.
            DiscreetError: as in `noise_aware`.
        """
        if self.source is None:
            raise InputError(
                "these draws are all there are; a posterior of noise_aware makes new ones from its release"
            )
        posterior = self.source.make(self.source.rng.spawn(1)[0] if rng is None else as_generator(rng))
        return replace(posterior, basis=self.basis, accounts=self.accounts)

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Pick some of the joint draws at random, without repetition, in random order.

        Args:
            n: number of draws to pick, from 1 to all.
            rng: source of randomness; None takes an unpredictable one.

        Returns:
            Probabilities, shape `(*parents, child, n)`; families that were not drawn yet are drawn at their first use.

        Raises:
            InputError: `n` is not positive, or larger than the number of draws.
        """
        rng = as_generator(rng)
        if not 0 < n <= self.draws:
            raise InputError(f"this posterior has {self.draws} draws, asked for {n}; make it with more draws")
        picked = rng.permutation(self.draws)[:n]
        return self.probabilities.of_draws(picked)


def require_posterior(posterior: object) -> None:
    """Refuse an argument that is not a posterior over a network, such as a release, by an `InputError`.

    A posterior is an object with an attribute `probabilities`; for one with a `payload` the error says how to make one.
    """
    if not hasattr(posterior, "probabilities"):
        advice = "; make one by release.posterior()" if hasattr(posterior, "payload") else ""
        raise InputError(f"a posterior was expected, not a {type(posterior).__name__}{advice}")


def law_of(posterior: NetworkPosterior) -> JointLaw:
    """Return the joint law of a posterior: `PosteriorDraws.law`; for any other kind that of its probabilities' network.

    The second is built anew in each call, with the posterior's `replicates` if it has any.

    Raises:
        InputError: no posterior over a network (`require_posterior`).
    """
    require_posterior(posterior)
    if isinstance(posterior, PosteriorDraws):
        return posterior.law
    return JointLaw.of_rows(posterior.probabilities, getattr(posterior, "replicates", None))


def prior_for(release: Evidence, prior: Dirichlet | None, draws: int) -> Dirichlet:
    """Return the prior with which a release is read, checked against the release.

    Args:
        release: release or combined evidence, whose own prior is the default.
        prior: prior that replaces the default; None takes the default.
        draws: number of joint draws, only checked to be positive.

    Returns:
        `prior` itself, or the release's own.

    Raises:
        InputError: in this order, a prior that is no `Dirichlet`; different default priors of combined releases; a
            prior over another network; one that was learned from releases of an account that paid for this one; or no
            draws.
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
        release: its prior is flat if all cells have the same concentration. If a family has more than 14 variables, no
            prior is learned, and the result is False.
        prior: prior passed instead of the curator's, or None.

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
