r"""Posterior of a network with a latent node, from tables of the observed variables: tempered populations.

Populations of parameters start at draws of the prior. The likelihood (`latent_block.py`) is raised to powers that grow
from 0 to 1; at each step parameters are weighted, resampled inside their population, and moved by Hamiltonian Monte
Carlo in the logarithms of ratios of probabilities, with the covariance of all parameters as its metric. Their states
are first put in one order (`latent_block.py`): the posterior is the same in every order. The covariance of the tables'
errors is that at the mean law of the populations of the step before, so it is that of the posterior mean at the end.
Then moves go on, and every population counts as a chain: if populations found different modes, R-hat says so.

Source: Del Moral, Doucet and Jasra (2006) for the weights, with the powers by the effective sample size; Neal (2011)
for the moves; Vehtari et al. (2021) and Margossian et al. (2024) for R-hat of populations.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import chi2

from discreet.errors import DiscreetError, InputError, require, shown
from discreet.latent.latent_block import (
    BlockMoments,
    LatentBlock,
    find_latent,
    find_orders,
    label_doubt,
    require_identified,
    state_features,
)
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.basis import Basis, Mark
from discreet.posterior.diagnostics import describe_mixing, has_mixed, measure_mixing
from discreet.posterior.evidence import measurements
from discreet.posterior.fit_check import GoodnessOfFit
from discreet.posterior.joint_draws import Mixing, PosteriorDraws
from discreet.posterior.methods import noise_aware
from discreet.releases.combined import Combined, Evidence, evidence_of, payers_of, refuse_counting_twice
from discreet.util.arrays import Array, Floats
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way
from discreet.util.tabular import Block

POPULATIONS, MEMBERS = 8, 96
"""Populations, and parameters in each."""
LEAST_WEIGHT = 0.6
"""Effective share of the parameters after the weights of one step, by which the next power is chosen."""
MOVES, LENGTH, LEAST_LEAPS, MOST_LEAPS = 3, 1.6, 2, 20
"""Moves in a step; mean length of a move in deviations (a quarter of a turn of a normal law), and least and largest
number of its leaps."""
DIRECTIONS = 128
"""Directions of errors from which the slopes of moves are computed; moves are accepted by all of them."""
ACCEPTED = 0.8
"""Share of accepted moves to which the length of leaps is adapted (Neal, 2011, has 0.65 as the most efficient one, and
more where curvature varies)."""
SETTLING = 5
"""Steps at the whole likelihood, with the one that reaches it, before draws are history."""
ROUND, MOST_ROUNDS = 6, 24
"""Moves in a round of history draws, and most rounds before it is said that they do not mix."""
LEAST_PROBABILITY = 1e-12
"""Lower bound of a probability: logarithms stay finite."""
LABEL_DOUBT = 0.01
"""Doubt of the order of states from which a reader is warned: two states of which nothing is known have 0.03, states
that differ by two standard deviations in three questions have 0.006 (made-up normal draws)."""
CONTRADICTED = 0.01
"""Probability of tables as far off below which they contradict the network, as for `check_fit`."""
SIZES = ("largest", "second", "third", "fourth", "fifth", "sixth")
"""Names of a latent node's states, by the size of their shares: tables tell nothing of the names in a file."""
CONCENTRATION = 1.0
"""Prior concentration of every cell if none is given: all rows are equally likely."""


class LatentBasis(Basis):
    """Basis of answers by a latent network: all rest on the node, which no table has."""

    def of(
        self, names: Iterable[str], *, given: Iterable[str] = (), read: bool = True
    ) -> tuple[Mark, tuple[tuple[str, str], ...]]:
        """Return "assumed", without pairs: all variables around the node were measured, and the node explains them."""
        return "assumed", ()

    def assumes(self, names: Iterable[str]) -> tuple[str, ...]:
        """List assumptions on the names that have a column; see `Basis.assumes`."""
        return super().assumes(self._seen(names))

    def clipped(self, names: Iterable[str]) -> tuple[str, ...]:
        """List clipped numbers among the names that have a column; see `Basis.clipped`."""
        return super().clipped(self._seen(names))

    def prior_only(self, names: Iterable[str], *, given: Iterable[str] = ()) -> tuple[Scope, ...]:
        """List unmeasured parts of the names that have a column; see `Basis.prior_only`."""
        return super().prior_only(self._seen(names), given=self._seen(given))

    def _seen(self, names: Iterable[str]) -> list[str]:
        """List the names that have a column."""
        return [name for name in names if name in self.network.schema]


@dataclass(frozen=True, eq=False)
class LatentDraws(PosteriorDraws):
    """Posterior draws over a network with a latent node; see `PosteriorDraws`.

    Args:
        latent: name of the node without a column.
        label_doubt: mean posterior probability that the states of a draw belong in another order. Answers that name a
            state of the latent node rest on the order; others do not.
        fit: probability that tables deviate from the latent network by more than these, if it is right; NaN if tables
            cannot contradict it.

    Example:
        >>> import discreet as dc
        >>> group = [dc.Variable(name, ("no", "yes")) for name in ("class", "a", "b", "c")]
        >>> drawn = dc.Dirichlet.uniform(dc.Network.naive_bayes(group, "class")).draw(100, rng=1)
        >>> dc.latent.LatentDraws(drawn, "latent", latent="class").latent
        'class'
    """

    latent: str = ""
    label_doubt: float = 0.0
    fit: float = float("nan")

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """Yield what all draws show, and whether states are told apart and tables contradict the network."""
        yield from super().content(level=level)
        yield ""
        labels = "hardly told apart" if self.label_doubt > LABEL_DOUBT else "told apart"
        yield f"states of {self.latent}: {labels} (label doubt {self.label_doubt:.3f})"
        if not np.isnan(self.fit):
            verdict = "contradict" if self.fit < CONTRADICTED else "do not contradict"
            yield f"tables {verdict} the latent network (p = {self.fit:.2g})"


@dataclass(eq=False)
class _Populations:
    """Parameters of a block, as logarithms of ratios to the last state of each row, and their likelihood.

    Args:
        block: around the latent node.
        moments: what was measured.
        prior: over the block's network.
        rng: source of randomness.
        rows: probabilities, by node, shape `(*parents, child, members)`.
    """

    block: LatentBlock
    moments: BlockMoments
    prior: Dirichlet
    rng: np.random.Generator
    rows: dict[str, Array]
    power: float = 0.0
    step: float = 0.3

    def __post_init__(self) -> None:
        """Compute the law of all members, and their mean."""
        self.law, _ = self.block.law(self.rows)
        self.centre = self.law.mean(axis=-1)

    # -------------------------------------------------------------------------------------------- weights

    def reweigh(self) -> None:
        """Raise the power as far as most members keep their weight, then resample inside populations.

        The errors are first taken at the mean law of now, halfway from the last one: where a network contradicts the
        tables, errors at one law move members to another, whose errors move them back. Their change has no weight:
        moves at the new errors follow, and with such a network it would cost most members in every step.
        """
        self.centre = (self.centre + self.law.mean(axis=-1)) / 2
        self.target = self.moments.likelihood(self.centre)
        self.misfit = self.target.misfit(self.law)
        low, middle, high = self.power, 1.0, 1.0
        for _ in range(40):
            inside = self._effective((self.power - middle) * self.misfit) >= LEAST_WEIGHT * len(self.misfit)
            low, high = (middle, high) if inside else (low, middle)
            middle = (low + high) / 2
        self._resample((self.power - low) * self.misfit)
        self.power = low

    @staticmethod
    def _effective(logs: Floats) -> float:
        """Compute the effective number of weights given by their logarithms."""
        weights = np.exp(logs - logs.max())
        return float(weights.sum() ** 2 / np.square(weights).sum())

    def _resample(self, logs: Floats) -> None:
        """Resample each population by its weights, systematically: copies stand side by side."""
        inside = logs.reshape(POPULATIONS, -1)
        size = inside.shape[1]
        weights = np.exp(inside - inside.max(axis=1, keepdims=True))
        sums = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        places = (np.arange(size) + self.rng.random((POPULATIONS, 1))) / size
        number = np.arange(POPULATIONS)[:, None]
        below = np.searchsorted((sums + number).ravel(), places + number)
        chosen = np.minimum(below, (number + 1) * size - 1).ravel()
        self.rows = {node: table[..., chosen] for node, table in self.rows.items()}
        self.law, self.misfit = self.law[:, chosen], self.misfit[chosen]

    # -------------------------------------------------------------------------------------------- moves

    def settle(self) -> None:
        """Put all members in one order of the states, and take the metric of moves from their covariance."""
        orders = find_orders(state_features(self.block, self.rows))
        self.rows = self.block.permuted(self.rows, orders)
        at = self._flatten(self.rows)
        covariance = np.atleast_2d(np.cov(at))
        # A tenth of the variances alone: the covariance of few members would have directions that nobody moves in.
        covariance = 0.9 * covariance + 0.1 * np.diag(np.diag(covariance))
        half = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(at)))
        self._metric = at.mean(axis=1, keepdims=True), np.asarray(half, np.float64)
        self._forces = self.target.seen_by(self.law, DIRECTIONS, self.rng)

    def move(self) -> None:
        """Move every member once by Hamiltonian dynamics, and adapt the length of leaps."""
        centre, half = self._metric
        at: Floats = np.linalg.solve(half, self._flatten(self.rows) - centre).astype(np.float64)
        speed = self.rng.standard_normal(at.shape)
        log, slope, rows, law = self._density(at)
        start = log - self.power * self.misfit - 0.5 * np.square(speed).sum(axis=0)
        new, leap = at, self.step * self.rng.uniform(0.8, 1.2)
        leaps = self.rng.uniform(0.5, 1.5) * LENGTH / leap
        for _ in range(round(float(np.clip(leaps, LEAST_LEAPS, MOST_LEAPS)))):
            speed = speed + 0.5 * leap * slope
            new = new + leap * speed
            log, slope, rows, law = self._density(new)
            speed = speed + 0.5 * leap * slope
        misfit = self.target.misfit(law)
        gain = log - self.power * misfit - 0.5 * np.square(speed).sum(axis=0) - start
        gain = np.where(np.isfinite(gain), gain, -np.inf)
        accept = np.log(self.rng.random(len(misfit))) < gain
        self.rows = {node: np.where(accept, rows[node], table) for node, table in self.rows.items()}
        self.law, self.misfit = np.where(accept, law, self.law), np.where(accept, misfit, self.misfit)
        self.step *= float(np.exp(np.minimum(1, np.exp(np.minimum(gain, 0))).mean() - ACCEPTED))

    def _density(self, at: Floats) -> tuple[Floats, Floats, dict[str, Array], Floats]:
        """Compute the log prior and the slope of the density at positions in the metric, with rows and laws there."""
        centre, half = self._metric
        rows = self._unflatten(half @ at + centre)
        law, before = self.block.law(rows)
        log: Floats = np.zeros(at.shape[-1])
        slopes = self.block.pull_back(rows, before, self.power * self._forces.slope(law))
        parts = []
        for node in self.block.network.nodes:
            alpha, row = self.prior.alpha[node][..., None], rows[node]
            log = log + (alpha * np.log(row)).reshape(-1, row.shape[-1]).sum(axis=0)
            slope = row * slopes[node] + alpha
            slope = slope - row * slope.sum(axis=-2, keepdims=True)
            parts.append(slope[..., :-1, :].reshape(-1, row.shape[-1]))
        return log, half.T @ np.concatenate(parts), rows, law

    def _flatten(self, rows: Mapping[str, Array]) -> Floats:
        """Return logarithms of ratios to the last state of each row, shape (parameters, members)."""
        logs = [np.log(np.maximum(rows[node], LEAST_PROBABILITY)) for node in self.block.network.nodes]
        return np.concatenate([(log[..., :-1, :] - log[..., -1:, :]).reshape(-1, log.shape[-1]) for log in logs])

    def _unflatten(self, at: Floats) -> dict[str, Array]:
        """Return the rows at logarithms of ratios: the inverse of `_flatten`."""
        rows, start, draws = dict[str, Array](), 0, at.shape[-1]
        for node in self.block.network.nodes:
            *parents, size = self.block.network.shape(node)
            stop = start + int(np.prod(parents, dtype=int)) * (size - 1)
            logs = at[start:stop].reshape(*parents, size - 1, draws)
            logs = np.concatenate([logs, np.zeros((*parents, 1, draws))], axis=-2)
            row = np.exp(logs - logs.max(axis=-2, keepdims=True)) + LEAST_PROBABILITY
            rows[node] = row / row.sum(axis=-2, keepdims=True)
            start = stop
        return rows


def _start(block: LatentBlock, moments: BlockMoments, prior: Dirichlet, rng: np.random.Generator) -> _Populations:
    """Draw the populations from the prior."""
    members = POPULATIONS * MEMBERS
    rows = {
        node: dirichlet_draws(np.repeat(prior.alpha[node][..., None], members, axis=-1), rng)
        for node in block.network.nodes
    }
    return _Populations(block, moments, prior, rng, rows)


def sample_block(
    block: LatentBlock,
    moments: BlockMoments,
    prior: Dirichlet,
    draws: int,
    rng: np.random.Generator,
    progress: Callable[[Mixing], None] | None = None,
) -> tuple[dict[str, Array], Mixing, float]:
    """Draw the rows of a block from their posterior.

    Args:
        block: around a latent node.
        moments: what tables say of it.
        prior: over the block's network, the same for all states of the latent node.
        draws: least number of draws.
        rng: source of randomness.
        progress: called with the mixing after each round of moves; None for nobody.

    Returns:
        (rows, shape `(*parents, child, draws)`, in one order of the latent node's states, the largest first; mixing of
        the populations; probability of tables that deviate more from the model, see `LatentDraws.fit`).

    Raises:
        DiscreetError: populations that do not agree after 24 rounds, with R-hat and the effective sample size.
    """
    populations, steps, settled = _start(block, moments, prior, rng), 0, 0
    while settled < SETTLING:
        populations.reweigh()
        populations.settle()
        for _ in range(MOVES):
            populations.move()
        steps, settled = steps + 1, settled + (populations.power == 1)
    history: list[dict[str, Array]] = []
    for _ in range(MOST_ROUNDS):
        for _ in range(ROUND):
            populations.move()
            history.append(populations.rows)
        rows = _in_order(block, history)
        mixing = _measure(block, rows, len(history), steps * MOVES + len(history))
        if progress is not None:
            progress(mixing)
        if has_mixed(mixing) and len(history) * POPULATIONS * MEMBERS >= draws:
            return rows, mixing, _check(populations, history)
    raise DiscreetError(
        f"populations of parameters around the latent node {shown(block.latent)} do not agree: "
        f"{describe_mixing(mixing)}; take fewer states, tables with less noise, or a network that fits the tables"
    )


def _check(populations: _Populations, history: list[dict[str, Array]]) -> float:
    """Compute the tail probability of the distance of the mean law from the tables, by a chi-squared law.

    Its degrees of freedom are the measured interactions less the effective number of parameters, which is the mean
    squared distance of all draws less that of the mean law (Spiegelhalter et al., 2002); NaN without any.
    """
    laws = [populations.block.law(each)[0] for each in history]
    mean = np.mean([law.mean(axis=-1) for law in laws], axis=0)
    at_mean = 2 * float(populations.target.misfit(mean[:, None])[0])
    distance = 2 * float(np.mean([populations.target.misfit(law).mean() for law in laws]))
    spare = len(populations.moments.values) - (distance - at_mean)
    return float(chi2.sf(at_mean, spare)) if spare >= 1 else float("nan")


def _in_order(block: LatentBlock, history: list[dict[str, Array]]) -> dict[str, Array]:
    """Join kept rows, member by member and each in its time, and put all in one order of the states."""
    rows = {
        node: np.stack([each[node] for each in history], axis=-1).reshape(*block.network.shape(node), -1)
        for node in block.network.nodes
    }
    rows = block.permuted(rows, find_orders(state_features(block, rows)))
    shares = state_shares(block, rows).mean(axis=-1)
    order = np.argsort(-shares, kind="stable")
    return block.permuted(rows, np.repeat(order[:, None], rows[block.latent].shape[-1], axis=-1))


def state_shares(block: LatentBlock, rows: Mapping[str, Array]) -> Floats:
    """Compute the marginal law of the latent node in every draw, shape (states, draws)."""
    draws = rows[block.latent].shape[-1]
    whole: Array = np.ones((draws,))
    for node in block.network.nodes[: block.network.nodes.index(block.latent) + 1]:
        whole = whole[..., None, :] * block.spread(rows, node)
    return np.asarray(whole.reshape(-1, block.states, draws).sum(axis=0))


def _measure(block: LatentBlock, rows: Mapping[str, Array], history: int, sweeps: int) -> Mixing:
    """Measure the mixing of all rows, each population as a chain."""
    names, parts = list[str](), []
    for node in block.network.nodes:
        table = rows[node][..., :-1, :] if block.network.schema[node].size == 2 else rows[node]
        names += [f"P({node} | its parents)"] * (table.size // table.shape[-1])
        parts.append(table.reshape(-1, POPULATIONS, MEMBERS * history))
    return measure_mixing(np.concatenate(parts), names.__getitem__, sweeps)


def draw_latent(
    evidence: Evidence,
    *,
    network: Network | None = None,
    draws: int = 1000,
    rng: np.random.Generator,
    prior: Dirichlet | None = None,
    progress: Callable[[Mixing], None] | None = None,
) -> LatentDraws:
    """Draw a network with a latent node from tables of its other variables: `read(release, method="latent", ...)`.

    Args:
        evidence: releases of tables on one data set.
        network: over variables of the release and one more node, which has no column.
        draws: number of joint draws.
        rng: source of randomness.
        prior: over this network, the same for all states of the latent node; None for concentration 1 in every cell.
        progress: called with the mixing of populations after every round.

    Returns:
        Draws over the whole network, in which the states of the latent node are named "largest", "second" and so on.
        Rows around the latent node are read together; all others are those of
        `noise_aware`, from the same evidence.

    Raises:
        InputError: no network, or one that does not fit the release; a latent node that tables cannot tell.
        DiscreetError: populations that do not agree.
    """
    require(network is not None, "a latent node is read over a network that has it: pass network=...")
    assert network is not None
    combined = evidence_of(evidence)
    require(len(combined.data_sets) == 1, "a latent node is read from releases on one data set")
    require(combined.public is None, "a latent node is read without public records")
    columns = combined.network
    require(not columns.schema.conditions, "a latent node is read from columns that apply to every record")
    latent = find_latent(network, columns)
    block = LatentBlock.of(network, latent)
    moments = BlockMoments.of(block, columns, measurements(combined.parts), combined.records[0])
    require_identified(block, moments.rows)
    if prior is not None:
        require(prior.network == network, "the prior is over another network than that with the latent node")
        refuse_counting_twice(prior, payers_of(combined.parts))
    block_prior = _block_prior(block, prior)
    block.require_symmetric(block_prior)
    with under_way("reading the latent node") as bar:
        report = progress or (lambda mixing: bar(int(min(mixing.effective, 400)), 400))
        rows, mixing, fit = sample_block(block, moments, block_prior, draws, rng, report)
    total = rows[latent].shape[-1]
    chosen = np.linspace(0, total - 1, draws).round().astype(np.int64)
    doubt = label_doubt(state_features(block, rows))
    rows = {node: rows[node][..., chosen] for node in block.modelled}
    whole = _whole_network(network, columns, latent)
    tables = Tables(whole, _rows_of(whole, rows, evidence, draws, rng), draws=draws)
    if doubt > LABEL_DOUBT:
        warnings.warn(
            f"the states of {latent} are hardly told apart: a draw's states stand in another order with probability "
            f"{doubt:.2f}; answers that name one mean little, those of other variables hold",
            stacklevel=2,
        )
    drawn = PosteriorDraws(tables, "latent", mixing=mixing, find_ess=partial(min, float(draws), mixing.effective))
    facts = {"latent": latent, "label_doubt": doubt, "fit": None if np.isnan(fit) else fit}
    return restore_draws(drawn, combined, None, facts)


def restore_draws(
    drawn: PosteriorDraws, evidence: Combined, checked: GoodnessOfFit | None, more: Mapping[str, Any]
) -> LatentDraws:
    """Attach what is known of a latent node to its draws, new or from a file.

    Args:
        drawn: over the network with the node.
        evidence: that was read.
        checked: stored result of `check_fit`; None computes it at first use.
        more: name of the node, label doubt, and probability of the fit or None.

    Raises:
        InputError: something else was stored.
    """
    try:
        latent, doubt, fit = str(more["latent"]), float(more["label_doubt"]), more["fit"]
        fit = float("nan") if fit is None else float(fit)
    except (KeyError, TypeError, ValueError):
        raise InputError(
            "stored draws of a latent node have its name, label doubt and fit; these have others"
        ) from None
    require(latent in drawn.network.schema, "stored draws of a latent node have no such node")
    return LatentDraws(
        drawn.probabilities,
        "latent",
        mixing=drawn.mixing,
        find_ess=drawn.find_ess,
        basis=LatentBasis(evidence, evidence.network, trusted=False, stored_fit=checked),
        accounts=frozenset(payers_of(evidence.parts)),
        more=more,
        latent=latent,
        label_doubt=doubt,
        fit=fit,
    )


def _block_prior(block: LatentBlock, prior: Dirichlet | None) -> Dirichlet:
    """Return the prior of a block's rows: the given one of modelled families, concentration 1 in all other cells."""
    flat = Dirichlet.uniform(block.network, CONCENTRATION)
    if prior is None:
        return flat
    alpha = {node: prior.alpha[node] if node in block.modelled else flat.alpha[node] for node in block.network.nodes}
    return Dirichlet(Tables(block.network, alpha))


def _whole_network(network: Network, columns: Network, latent: str) -> Network:
    """Return the network with the variables of the release, which have bounds and bins, and states by their size."""
    named = replace(network.schema[latent], states=SIZES[: network.schema[latent].size])
    return Network((named, *(each for each in columns.variables if each.name in network.schema)), network.parents)


def _rows_of(
    network: Network, rows: Mapping[str, Array], evidence: Evidence, draws: int, rng: np.random.Generator
) -> Callable[[str], Array]:
    """Make the function from a node to its rows: those of the block, or of the ordinary posterior, drawn when asked."""
    seed = int(rng.spawn(1)[0].integers(2**63))

    def find(node: str) -> Array:
        """Return the rows of a node, shape `(*parents, child, draws)`."""
        if node in rows:
            return rows[node]
        return noise_aware(evidence, draws=draws, rng=seed).law.rows_of(network.family(node))

    return find
