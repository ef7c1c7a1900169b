r"""Posterior of all rows from choices among public candidates: of networks, of scores by a table, of a coin.

    theta ~ Dirichlet(a);   n public, or log(1 + n) uniform and observed with noise;   X | theta: n records;
    z_j | X ~ exp(base_z + sum_i s(x_i, z)), independent given X.

The likelihood of a choice is `p(z | theta) = E[P(z | X)]`, by one of `research/scores/choice_likelihood.py`:

    exact       a sum over all histograms of the records' types, for few types and records.
    simulated   one simulated data set for each draw of theta: its `P(z | X)` is unbiased, and unbiased weights and
                moves leave the posterior invariant (Andrieu and Roberts, 2009).
    clt         normal scores, if a network has too many types to enumerate and too many records to simulate; their mean
                and covariance under theta are exact (`inference/additive_moments.py`).
    lower       the bounds (5a) and (5b) of the paper, for one choice and few types: for comparison.
    upper

Particles move from the prior to the posterior by powers of the likelihood, usually in one step: a choice has little
information, and with importance sampling from the prior the effective share of draws is at least p(z). After each step
they move by steps that leave the prior invariant: a part of each row's gamma variables is kept, the rest drawn anew.

Source: Williams and McSherry (2010), equation 3; Del Moral, Doucet and Jasra (2006); Lewis, McKenzie and Hugus (1989)
for the moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from discreet.errors import DiscreetError, InputError, shown
from discreet.inference.additive_moments import additive_moments
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import draw_node
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws, Source
from discreet.posterior.methods import DrawTask
from discreet.posterior.totals import MOST_EXPECTED_RECORDS, log_flat_law, measured_total_law
from discreet.releases.combined import payers_of, refuse_counting_twice
from discreet.releases.measurement import Scores
from discreet.releases.release import Release
from discreet.research.kinds.candidate_choice import Choice
from discreet.research.kinds.factored_choice import FactoredChoice
from discreet.research.kinds.scored_choice import ScoredChoice
from discreet.research.readers.direction import ChoiceLikelihood
from discreet.research.readers.family_draws import family_rows
from discreet.research.readers.particles import independent_ess, next_step
from discreet.research.scores.choice_likelihood import (
    Choices,
    clt_log_choices,
    exact_log_choices,
    lower_log_marginal,
    principal,
    simulated_log_choices,
    upper_log_marginal,
)
from discreet.research.scores.factors import CategoricalFactor, standard_normals
from discreet.util.arrays import Array, Floats, Ints

Likelihood = Literal["auto", "exact", "simulated", ChoiceLikelihood]
LogLikelihood = Callable[[Tables, Ints, np.random.Generator], Floats]
"""Log-likelihood as a function of draws of theta, a number of records for each, and a generator; shape (draws,)."""

PARTICLES_OF_FEW_TYPES, PARTICLES_OF_MANY_TYPES = (4000, 8), (1500, 2)
"""Fewest particles, and particles for each returned draw; for few and for many types of records."""
CHOICE_EFFECTIVE_SHARE = 0.2
"""Share of the particles that stay effective in each step of the likelihood's power."""
MOST_POWER_STEPS, LEAST_MOVES, MOST_MOVES = 200, 3, 40
"""Most steps of the power; least and most moves after each step."""
MOST_MEMORY = 0.5
"""Largest mean share of a particle's gamma variables that may remain of its ancestor's after a step's moves."""
MOST_RECORD_TYPES = 8192
"""Most record types that are enumerated."""
MOST_HISTOGRAMS = 2**23
"""Most histograms times particles for which "auto" takes the exact sum: a fifth of a second each time."""
MOST_MADE_UP_VALUES = 2**27
"""Most values of simulated records: about ten seconds."""
VALUES_AT_ONCE = 2**20
"""Probabilities of types, or values of simulated records, in memory at once: 8 MiB."""
MOST_DIRECTIONS = 32
"""Directions in which normal scores vary; their mean is exact in all."""
NORMAL_SCORES = 128
"""Normal scores for each draw, the same for all draws."""
DRAW_OF_RECORD = ""
"""Key of each simulated record's draw among the codes; no variable has this name."""


def choice_cells(
    scores: Sequence[Scores],
    records: int | None,
    prior: Dirichlet,
    draws: int,
    rng: np.random.Generator,
    *,
    likelihood: Likelihood = "auto",
) -> tuple[Tables, Callable[[], float]]:
    """Draw every family given choices among candidates.

    Args:
        scores: choices by scores of the same records, at least one.
        records: their number, if it is public.
        prior: of the rows.
        draws: number of draws.
        rng: source of randomness.
        likelihood: its kind; "auto" takes the first feasible one of "exact", "simulated" and "clt".

    Returns:
        Probabilities, shape `(*parents, child, draws)`; and a function that returns a lower bound on the effective
        sample size: draws from the same particle of the prior count once.

    Raises:
        InputError: the likelihood is not feasible.
        DiscreetError: the particles do not reach the posterior.
    """
    joined = _join_choices(scores, records, prior.network)
    fewest, per_draw = PARTICLES_OF_FEW_TYPES if joined.types <= MOST_RECORD_TYPES else PARTICLES_OF_MANY_TYPES
    size = max(fewest, per_draw * draws)
    log_likelihood = _choose_likelihood(joined, prior, size, likelihood)
    logs, first = _anneal_particles(joined, prior, size, log_likelihood, rng)
    picked = rng.permutation(size)[:draws]
    return _normalise_logs(prior, logs[:, picked]), lambda: independent_ess(first[picked])


def coin_posterior(
    release: Release, *, draws: int, rng: np.random.Generator, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Draw a categorical variable's probabilities, given a choice by a `CategoricalFactor`.

    Args:
        release: of such a choice, over a design of one feature.
        draws: number of draws.
        rng: source of randomness.
        prior: over a network of that feature alone, its states the whole numbers from 0; None for Dirichlet(1).

    Returns:
        Draws over that network.

    Raises:
        InputError: another release, or a prior over another network or from the same records.
    """
    payload = release.payload_as(FactoredChoice)
    network = payload.states_network
    name, states = network.nodes[0], network.variables[0].states
    believed = Dirichlet.uniform(network, 1.0) if prior is None else prior
    if believed.network != network:
        raise InputError(f"the prior of this choice is over one variable, {shown(name)}, with the states 0, 1, ...")
    refuse_counting_twice(believed, payers_of([release]))
    factor = CategoricalFactor(payload.candidates, payload.parameters["floor"])
    table = payload.rate * factor.log_factors(np.arange(len(states)))
    total = None if payload.total is None else (payload.total.value, payload.total.scale)
    scores = Scores({(name,): table}, (payload.index,), total=total)
    cells, find_ess = choice_cells([scores], release.records, believed, draws, rng)

    def again(rng: np.random.Generator) -> PosteriorDraws:
        return coin_posterior(release, draws=draws, rng=rng, prior=prior)

    accounts = believed.accounts.union(payers_of([release]))
    return PosteriorDraws(cells, "choice", find_ess=find_ess, source=Source(again, rng), accounts=accounts)


# -------------------------------------------------------------------------------------------------- joined choices


@dataclass(frozen=True, eq=False)
class _JoinedChoices:
    """Choices of all releases, joined along the axis of candidates.

    Args:
        network: public.
        tables: by set of variables, scores of all candidates, list after list, shape (*sizes, Z).
        choices: from the lists.
        records: their number, if it is public.
        totals: noisy numbers of records and the scales of their noise.
    """

    network: Network
    tables: Mapping[Scope, Floats]
    choices: Choices
    records: int | None
    totals: tuple[tuple[int, float], ...]

    @cached_property
    def names(self) -> Scope:
        """Variables that scores depend on, in the network's order."""
        return self.network.ordered({name for scope in self.tables for name in scope})

    @property
    def types(self) -> int:
        """Number of record types, the joint states of `names`."""
        return math.prod(self.network.schema[name].size for name in self.names)

    def numbers(self, size: int, rng: np.random.Generator) -> Ints:
        """Draw the number of records, given its public or noisy value."""
        if self.records is not None:
            return np.full(size, self.records)
        return (measured_total_law(self.totals) if self.totals else log_flat_law(MOST_EXPECTED_RECORDS)).sample(
            size, rng
        )


def _join_choices(lists: Sequence[Scores], records: int | None, network: Network) -> _JoinedChoices:
    """Join the scores of all choices along the axis of candidates."""
    widths = [next(iter(scores.tables.values())).shape[-1] for scores in lists]
    ends = np.cumsum(widths).tolist()
    tables: dict[Scope, Floats] = {}
    for scores, width, end in zip(lists, widths, ends, strict=True):
        for scope, table in scores.tables.items():
            tables.setdefault(scope, np.zeros((*table.shape[:-1], ends[-1])))[..., end - width : end] += table
    base = [np.zeros(width) if each.base is None else each.base for each, width in zip(lists, widths, strict=True)]
    choices = Choices(np.concatenate(base), tuple(ends), tuple(scores.chosen for scores in lists))
    totals = tuple(scores.total for scores in lists if scores.total is not None)
    return _JoinedChoices(network, tables, choices, records, totals)


# -------------------------------------------------------------------------------------------------------- likelihoods


def _choose_likelihood(joined: _JoinedChoices, prior: Dirichlet, size: int, likelihood: Likelihood) -> LogLikelihood:
    """Choose a likelihood by its kind; "auto" takes the first feasible one."""
    types, nodes = joined.types, len(joined.network.nodes)
    most = joined.records if joined.records is not None else _bound_records(joined)
    few = types <= MOST_RECORD_TYPES
    if likelihood == "auto":
        # A noisy number of records needs a sum for each number; one simulated data set for each draw is cheaper.
        sums = MOST_HISTOGRAMS if joined.records is None or not few else _count_histograms(joined.records, types)
        able: dict[Likelihood, bool] = {
            "exact": sums * size <= MOST_HISTOGRAMS,
            "simulated": few or most * nodes * size <= MOST_MADE_UP_VALUES,
        }
        likelihood = next((name for name, within in able.items() if within), "clt")
    if likelihood == "clt":
        return _approximate_normally(joined, prior)
    if likelihood == "simulated" and not few:
        return lambda cells, numbers, rng: _simulate_records(joined, cells, numbers, rng)
    if not few:
        raise InputError(
            f"the {likelihood} likelihood of a choice enumerates at most {MOST_RECORD_TYPES:,} record types; use 'clt'"
        )
    if likelihood in ("lower", "upper") and sum(map(len, joined.choices.chosen)) != 1:
        raise InputError("the bounds of a choice's likelihood are for a single choice; use 'auto'")
    return _sum_over_types(joined, likelihood)


def _count_histograms(records: int, types: int) -> int:
    """Count the histograms of a number of records, or return the limit: the count may have millions of digits."""
    return math.comb(records + types - 1, types - 1) if min(records, types - 1) < 40 else MOST_HISTOGRAMS


def _bound_records(joined: _JoinedChoices) -> int:
    """Bound the number of records from above, with high probability."""
    if not joined.totals:
        return int(MOST_EXPECTED_RECORDS)
    value, scale = min(joined.totals, key=lambda total: total[1])
    return int(max(value, 0) + 8 * scale) + 1


def _sum_over_types(joined: _JoinedChoices, likelihood: Likelihood) -> LogLikelihood:
    """Make a log-likelihood that enumerates all record types."""
    names, network = joined.names, joined.network
    shape, width = tuple(network.schema[name].size for name in names), len(joined.choices.base)
    phi = np.zeros((*shape, width))
    for scope, table in joined.tables.items():
        order = [scope.index(name) for name in names if name in scope]
        phi += table.transpose(*order, len(scope))[tuple(slice(None) if name in scope else None for name in names)]
    phi = phi.reshape(-1, width)
    phi -= phi.mean(axis=1, keepdims=True)

    def log_block(laws: Floats, numbers: Ints, rng: np.random.Generator) -> Floats:
        match likelihood:
            case "simulated":
                return simulated_log_choices(joined.choices, laws, phi, numbers, rng)
            case "exact":
                logs = np.empty(len(laws))
                for n in np.unique(numbers):
                    logs[numbers == n] = exact_log_choices(joined.choices, laws[numbers == n], phi, int(n))
                return logs
        bound = lower_log_marginal if likelihood == "lower" else upper_log_marginal
        (index,) = (start + chosen[0] for start, chosen in _list_drawn(joined.choices) if chosen)
        return bound(laws, phi, numbers, [index], base=joined.choices.base)[..., 0]

    def log_likelihood(cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
        laws = Laws(cells).joint(names).reshape(len(phi), -1).T
        step = len(laws) if likelihood == "exact" else max(1, VALUES_AT_ONCE // len(phi))
        blocks = [slice(at, at + step) for at in range(0, len(laws), step)]
        return np.concatenate([log_block(laws[block], numbers[block], rng) for block in blocks])

    return log_likelihood


def _list_drawn(choices: Choices) -> list[tuple[int, tuple[int, ...]]]:
    """List the start of each list of candidates, and the chosen indices."""
    return list(zip((0, *choices.ends[:-1]), choices.chosen, strict=True))


def _approximate_normally(joined: _JoinedChoices, prior: Dirichlet) -> LogLikelihood:
    """Make a log-likelihood by the central limit theorem, in the directions of largest variance under the prior."""
    mean = Tables(prior.network, {node: table[..., None] for node, table in prior.mean().items()}, draws=1)
    flat = {scope: table.reshape(-1, table.shape[-1]) for scope, table in joined.tables.items()}
    shares = [Laws(mean).joint(scope).ravel() for scope in flat]
    coordinates, directions = principal(np.concatenate(list(flat.values())), np.maximum(np.concatenate(shares), 1e-6))
    ends = np.cumsum([len(table) for table in flat.values()])[:-1]
    scores = {
        scope: block.reshape(*joined.tables[scope].shape[:-1], -1)
        for scope, block in zip(flat, np.split(coordinates, ends), strict=True)
    }
    most = min(MOST_DIRECTIONS, len(directions))
    points = standard_normals(NORMAL_SCORES, max(most, 1))[:, :most]

    def log_likelihood(cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
        middle, spread = additive_moments(cells, scores, most)
        centre = numbers[:, None] * (middle @ directions)
        return clt_log_choices(joined.choices, centre, numbers[:, None, None] * spread, directions[:most], points)

    return log_likelihood


def _simulate_records(joined: _JoinedChoices, cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
    """Compute log-likelihoods by a simulated data set for each draw, record by record, shape (draws,)."""
    network, draws = cells.network, cells.draws or 1
    sums = {node: np.moveaxis(np.cumsum(cells[node], axis=-2), -1, 0) for node in network.nodes}
    logs, start = np.empty(draws), 0
    while start < draws:
        ahead = np.cumsum(numbers[start:])
        stop = start + max(1, int(np.searchsorted(ahead, VALUES_AT_ONCE, side="right")))
        size = stop - start
        codes = {DRAW_OF_RECORD: np.repeat(np.arange(size), numbers[start:stop])}
        for node in network.order:
            rows = partial(_look_up_rows, sums[node][start:stop], network.parents[node])
            codes[node] = draw_node(network, node, rows, codes, len(codes[DRAW_OF_RECORD]), rng)
        scores = np.zeros((size, len(joined.choices.base)))
        for scope, table in joined.tables.items():
            flat = np.ravel_multi_index(
                (codes[DRAW_OF_RECORD], *(codes[name] for name in scope)), (size, *table.shape[:-1])
            )
            wide = math.prod(table.shape[:-1])
            scores += np.bincount(flat, minlength=size * wide).reshape(size, wide) @ table.reshape(wide, -1)
        logs[start:stop] = joined.choices.log_law(scores)
        start = stop
    return logs


def _look_up_rows(sums: Floats, parents: Scope, _: str, codes: Mapping[str, Array]) -> Array:
    """Look up the cumulative probabilities of each simulated record's row, under its own draw, (records, states)."""
    return np.asarray(sums[(codes[DRAW_OF_RECORD], *(codes[name] for name in parents))])


# ----------------------------------------------------------------------------------------------------------- particles


def _anneal_particles(
    joined: _JoinedChoices, prior: Dirichlet, size: int, log_likelihood: LogLikelihood, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Draw log gamma variables of all cells, shape (cells, size), and the first ancestor of each particle."""
    alpha = np.concatenate([prior.alpha[node].ravel() for node in prior.network.nodes])[:, None]
    logs, numbers = _draw_log_gamma(np.broadcast_to(alpha, (len(alpha), size)), rng), joined.numbers(size, rng)

    def likelihood(logs: Floats, numbers: Ints) -> Floats:
        return log_likelihood(_normalise_logs(prior, logs), numbers, rng)

    here, first, power = likelihood(logs, numbers), np.arange(size), 0.0
    for _ in range(MOST_POWER_STEPS):
        step = next_step(here, 1 - power, CHOICE_EFFECTIVE_SHARE)
        picked = rng.choice(size, size, p=np.exp(step * here - logsumexp(step * here)))
        logs, numbers, here, first, power = logs[:, picked], numbers[picked], here[picked], first[picked], power + step
        memory = np.ones(size)
        for moved in range(MOST_MOVES):
            if moved >= LEAST_MOVES and memory.mean() < MOST_MEMORY:
                break
            # Parts of all sizes: a choice has little information on most of a row, but not on all of it.
            kept_share = np.clip(rng.random(size), 1e-6, 1 - 1e-6)
            proposed, proposed_numbers = _propose_logs(logs, alpha, kept_share, rng), joined.numbers(size, rng)
            there = likelihood(proposed, proposed_numbers)
            moves = np.log1p(-rng.random(size)) < power * (there - here)
            logs, numbers = np.where(moves, proposed, logs), np.where(moves, proposed_numbers, numbers)
            here, memory = np.where(moves, there, here), np.where(moves, memory * kept_share, memory)
        if power >= 1:
            return logs, first
    raise DiscreetError("the particles did not reach the posterior of the released choices; use another prior")


def _propose_logs(logs: Floats, alpha: Floats, kept_share: Floats, rng: np.random.Generator) -> Floats:
    """Propose gamma variables that keep a Beta-distributed part of the old ones; the pair is exchangeable."""
    stay, leave = (_draw_log_gamma(alpha * share, rng) for share in (kept_share, 1 - kept_share))
    return np.logaddexp(logs + stay - np.logaddexp(stay, leave), _draw_log_gamma(alpha * (1 - kept_share), rng))


def _draw_log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Draw logarithms of gamma variates, which underflow for shapes near 0."""
    return np.log(rng.standard_gamma(shape + 1)) + np.log1p(-rng.random(shape.shape)) / shape


def _normalise_logs(prior: Dirichlet, logs: Floats) -> Tables:
    """Normalise to probabilities of all rows, shape `(*parents, child, draws)`."""
    network, draws = prior.network, logs.shape[1]
    ends = np.cumsum([prior.alpha[node].size for node in network.nodes])[:-1]
    rows = {}
    for node, block in zip(network.nodes, np.split(logs, ends), strict=True):
        table = block.reshape(*network.shape(node), draws)
        rows[node] = np.exp(table - logsumexp(table, axis=-2, keepdims=True))
    return Tables(network, rows, draws=draws)


def draw_choices(read: DrawTask, rng: np.random.Generator, progress: object = None) -> PosteriorDraws:
    """Draw given choices among candidates, on one data set.

    Args:
        read: of such releases.
        rng: source of the draws.
        progress: not called, as there are no chains.
    """
    combined, released = read.combined, [release.scores for release in read.combined.releases]
    prior = read.believed_with_public(rng) or combined.dirichlet
    listed = [scores for scores in released if scores is not None]
    cells, find_ess = choice_cells(listed, combined.records[0], prior, read.draws, rng)
    return PosteriorDraws(cells, "choice", find_ess=find_ess)


def repeat_choice(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Repeat the choice: a candidate as every draw, parameters with replacement; for `plug_in`.

    Args:
        release: of a choice.
        believed: not used.
        draws: number of draws.
        rng: picks parameters.
    """
    payload = release.unit_payload
    if isinstance(payload, ScoredChoice):
        indices = payload.indices[rng.integers(len(payload.indices), size=draws)]
        return PosteriorDraws(family_rows(payload.table_of_scores, indices), "plug-in")
    chosen = release.payload_as(Choice).candidates[release.payload_as(Choice).index]
    repeated = Tables(release.network, lambda node: np.repeat(chosen[node][..., None], draws, axis=-1), draws=draws)
    return PosteriorDraws(repeated, "plug-in")
