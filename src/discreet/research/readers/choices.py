r"""The posterior of all rows from choices among public candidates: of networks, of scores by a table, of a coin.

    theta ~ Dirichlet(a);   n public, or log(1 + n) flat and told with noise;   X | theta: n records;
    z_j | X ~ exp(base_z + sum_i s(x_i, z)), independent given X.

What a choice says of theta is `p(z | theta) = E[P(z | X)]`, by one of `research/scores/choice_likelihood.py`:

    exact       all histograms of the records' types, where types and records are few.
    simulated   one made-up data set of each draw of theta: its `P(z | X)` is right on average, and weights and moves
                that are right on average leave the posterior as it is (Andrieu and Roberts, 2009).
    clt         scores that are normal, where a network has too many types to go through and too many records to make
                up; their mean and covariance under theta are exact (`inference/additive_moments.py`).
    lower       the bounds (5a) and (5b) of the paper, for one choice and few types: for comparison.
    upper

Particles go from the prior to the posterior by powers of the likelihood, usually in one step: a choice says little, and
with importance sampling from the prior the share of draws that count is at least p(z). After each step they move, by
steps that leave the prior as it is: of each row's gamma variables a part is kept and the rest drawn anew.

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
from discreet.research.readers.particles import independent_worth, next_step
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
"""Of the draws of theta and a number of records for each, and a source of randomness; shape (draws,)."""

PARTICLES_OF_FEW_TYPES, PARTICLES_OF_MANY_TYPES = (4000, 8), (1500, 2)
"""Fewest particles, and those for each draw that is wanted; where types of records are few, and where they are many."""
CHOICE_EFFECTIVE_SHARE = 0.2
"""Share of the particles that stay effective in each step of the likelihood's power."""
MOST_POWER_STEPS, LEAST_MOVES, MOST_MOVES = 200, 3, 40
"""Most steps; moves after each, and most of them where few are accepted."""
MOST_MEMORY = 0.5
"""Share of what a particle has of its ancestor that is left of it after a step's moves, at most on average."""
MOST_RECORD_TYPES = 8192
"""Record types that are gone through."""
MOST_HISTOGRAMS = 2**23
"""Histograms, times particles, up to which the sum is gone through by itself: a fifth of a second each time."""
MOST_MADE_UP_VALUES = 2**27
"""Values of made-up records: some ten seconds."""
VALUES_AT_ONCE = 2**20
"""Probabilities of types, or values of made-up records, at once: 8 MiB."""
MOST_DIRECTIONS = 32
"""Directions in which normal scores vary; their mean is exact in all."""
NORMAL_SCORES = 128
"""Normal scores for each draw, the same for all."""
DRAW_OF_RECORD = ""
"""In whose data set a made-up record is; no variable has this name."""


def choice_cells(
    told: Sequence[Scores],
    records: int | None,
    prior: Dirichlet,
    draws: int,
    rng: np.random.Generator,
    *,
    likelihood: Likelihood = "auto",
) -> tuple[Tables, Callable[[], float]]:
    """Draws of every family given choices among candidates.

    Args:
        told: choices by scores of the same records, at least one.
        records: their number, where it is public.
        prior: of the rows.
        draws: how many.
        rng: source of randomness.
        likelihood: which one; "auto" takes the first of "exact", "simulated" and "clt" that is within reach.

    Returns:
        Probabilities, shape `(*parents, child, draws)`; and a function that says how many independent draws they are
        worth, at least: those that come from one and the same particle of the prior count once.

    Raises:
        InputError: a likelihood that is out of reach.
        DiscreetError: particles that do not arrive at the posterior.
    """
    asked = _join_choices(told, records, prior.network)
    fewest, each = PARTICLES_OF_FEW_TYPES if asked.types <= MOST_RECORD_TYPES else PARTICLES_OF_MANY_TYPES
    size = max(fewest, each * draws)
    log_likelihood = _choose_likelihood(asked, prior, size, likelihood)
    logs, first = _anneal_particles(asked, prior, size, log_likelihood, rng)
    kept = rng.permutation(size)[:draws]
    return _normalise_logs(prior, logs[:, kept]), lambda: independent_worth(first[kept])


def coin_posterior(
    release: Release, *, draws: int, rng: np.random.Generator, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """The posterior of a categorical variable's probabilities, given a choice by a `CategoricalFactor`.

    Args:
        release: of such a choice, over a design of one feature.
        draws: how many.
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
    told = Scores({(name,): table}, (payload.index,), total=total)
    cells, worth = choice_cells([told], release.records, believed, draws, rng)

    def again(rng: np.random.Generator) -> PosteriorDraws:
        return coin_posterior(release, draws=draws, rng=rng, prior=prior)

    accounts = believed.accounts.union(payers_of([release]))
    return PosteriorDraws(cells, "choice", worth=worth, source=Source(again, rng), accounts=accounts)


# -------------------------------------------------------------------------------------------------- what was chosen


@dataclass(frozen=True, eq=False)
class _JoinedChoices:
    """The choices of all releases, side by side.

    Args:
        network: public.
        tables: by set of variables, scores of all candidates, list after list, shape (*sizes, Z).
        choices: what was drawn from the lists.
        records: their number, where it is public.
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
        """Records that these tell apart."""
        return math.prod(self.network.schema[name].size for name in self.names)

    def numbers(self, size: int, rng: np.random.Generator) -> Ints:
        """Draws of the number of records, given what is public or told of it."""
        if self.records is not None:
            return np.full(size, self.records)
        return (measured_total_law(self.totals) if self.totals else log_flat_law(MOST_EXPECTED_RECORDS)).sample(
            size, rng
        )


def _join_choices(told: Sequence[Scores], records: int | None, network: Network) -> _JoinedChoices:
    """The scores of all choices, side by side."""
    widths = [next(iter(scores.tables.values())).shape[-1] for scores in told]
    ends = np.cumsum(widths).tolist()
    tables: dict[Scope, Floats] = {}
    for scores, width, end in zip(told, widths, ends, strict=True):
        for scope, table in scores.tables.items():
            tables.setdefault(scope, np.zeros((*table.shape[:-1], ends[-1])))[..., end - width : end] += table
    base = [np.zeros(width) if part.base is None else part.base for part, width in zip(told, widths, strict=True)]
    choices = Choices(np.concatenate(base), tuple(ends), tuple(scores.chosen for scores in told))
    totals = tuple(scores.total for scores in told if scores.total is not None)
    return _JoinedChoices(network, tables, choices, records, totals)


# -------------------------------------------------------------------------------------------------------- likelihoods


def _choose_likelihood(asked: _JoinedChoices, prior: Dirichlet, size: int, likelihood: Likelihood) -> LogLikelihood:
    """The likelihood that was asked for, or the first within reach."""
    types, nodes = asked.types, len(asked.network.nodes)
    most = asked.records if asked.records is not None else _bound_records(asked)
    few = types <= MOST_RECORD_TYPES
    if likelihood == "auto":
        # With noise on the number of records there are as many sums as numbers, and one data set of each draw will do.
        ways = MOST_HISTOGRAMS if asked.records is None or not few else _count_histograms(asked.records, types)
        able: dict[Likelihood, bool] = {
            "exact": ways * size <= MOST_HISTOGRAMS,
            "simulated": few or most * nodes * size <= MOST_MADE_UP_VALUES,
        }
        likelihood = next((name for name, within in able.items() if within), "clt")
    if likelihood == "clt":
        return _approximate_normally(asked, prior)
    if likelihood == "simulated" and not few:
        return lambda cells, numbers, rng: _simulate_records(asked, cells, numbers, rng)
    if not few:
        raise InputError(
            f"the {likelihood} likelihood of a choice goes through {MOST_RECORD_TYPES:,} record types at most"
        )
    if likelihood in ("lower", "upper") and sum(map(len, asked.choices.chosen)) != 1:
        raise InputError("the bounds of a choice's likelihood are for one choice")
    return _sum_over_types(asked, likelihood)


def _count_histograms(records: int, types: int) -> int:
    """Histograms of so many records, or a number beyond what is gone through: it could have millions of digits."""
    return math.comb(records + types - 1, types - 1) if min(records, types - 1) < 40 else MOST_HISTOGRAMS


def _bound_records(asked: _JoinedChoices) -> int:
    """Records that there hardly are more of."""
    if not asked.totals:
        return int(MOST_EXPECTED_RECORDS)
    value, scale = min(asked.totals, key=lambda total: total[1])
    return int(max(value, 0) + 8 * scale) + 1


def _sum_over_types(asked: _JoinedChoices, likelihood: Likelihood) -> LogLikelihood:
    """A log-likelihood that goes through all record types."""
    names, network = asked.names, asked.network
    shape, width = tuple(network.schema[name].size for name in names), len(asked.choices.base)
    phi = np.zeros((*shape, width))
    for scope, table in asked.tables.items():
        order = [scope.index(name) for name in names if name in scope]
        phi += table.transpose(*order, len(scope))[tuple(slice(None) if name in scope else None for name in names)]
    phi = phi.reshape(-1, width)
    phi -= phi.mean(axis=1, keepdims=True)

    def some(laws: Floats, numbers: Ints, rng: np.random.Generator) -> Floats:
        match likelihood:
            case "simulated":
                return simulated_log_choices(asked.choices, laws, phi, numbers, rng)
            case "exact":
                found = np.empty(len(laws))
                for n in np.unique(numbers):
                    found[numbers == n] = exact_log_choices(asked.choices, laws[numbers == n], phi, int(n))
                return found
        bound = lower_log_marginal if likelihood == "lower" else upper_log_marginal
        (index,) = (start + drawn[0] for start, drawn in _list_drawn(asked.choices) if drawn)
        return bound(laws, phi, numbers, [index], base=asked.choices.base)[..., 0]

    def log_likelihood(cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
        laws = Laws(cells).joint(names).reshape(len(phi), -1).T
        step = len(laws) if likelihood == "exact" else max(1, VALUES_AT_ONCE // len(phi))
        parts = [slice(at, at + step) for at in range(0, len(laws), step)]
        return np.concatenate([some(laws[part], numbers[part], rng) for part in parts])

    return log_likelihood


def _list_drawn(choices: Choices) -> list[tuple[int, tuple[int, ...]]]:
    """List where each list of candidates begins, and what was drawn from it."""
    return list(zip((0, *choices.ends[:-1]), choices.chosen, strict=True))


def _approximate_normally(asked: _JoinedChoices, prior: Dirichlet) -> LogLikelihood:
    """A log-likelihood by the central limit theorem, in the directions that scores vary in most under the prior."""
    mean = Tables(prior.network, {node: table[..., None] for node, table in prior.mean().items()}, draws=1)
    flat = {scope: table.reshape(-1, table.shape[-1]) for scope, table in asked.tables.items()}
    shares = [Laws(mean).joint(scope).ravel() for scope in flat]
    coordinates, ways = principal(np.concatenate(list(flat.values())), np.maximum(np.concatenate(shares), 1e-6))
    ends = np.cumsum([len(table) for table in flat.values()])[:-1]
    parts = {
        scope: part.reshape(*asked.tables[scope].shape[:-1], -1)
        for scope, part in zip(flat, np.split(coordinates, ends), strict=True)
    }
    most = min(MOST_DIRECTIONS, len(ways))
    points = standard_normals(NORMAL_SCORES, max(most, 1))[:, :most]

    def log_likelihood(cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
        middle, spread = additive_moments(cells, parts, most)
        centre = numbers[:, None] * (middle @ ways)
        return clt_log_choices(asked.choices, centre, numbers[:, None, None] * spread, ways[:most], points)

    return log_likelihood


def _simulate_records(asked: _JoinedChoices, cells: Tables, numbers: Ints, rng: np.random.Generator) -> Floats:
    """Log-likelihoods by a made-up data set of each draw, record by record, shape (draws,)."""
    network, draws = cells.network, cells.draws or 1
    sums = {node: np.moveaxis(np.cumsum(cells[node], axis=-2), -1, 0) for node in network.nodes}
    found, start = np.empty(draws), 0
    while start < draws:
        ahead = np.cumsum(numbers[start:])
        stop = start + max(1, int(np.searchsorted(ahead, VALUES_AT_ONCE, side="right")))
        some = stop - start
        codes = {DRAW_OF_RECORD: np.repeat(np.arange(some), numbers[start:stop])}
        for node in network.order:
            rows = partial(_look_up_rows, sums[node][start:stop], network.parents[node])
            codes[node] = draw_node(network, node, rows, codes, len(codes[DRAW_OF_RECORD]), rng)
        scores = np.zeros((some, len(asked.choices.base)))
        for scope, table in asked.tables.items():
            flat = np.ravel_multi_index(
                (codes[DRAW_OF_RECORD], *(codes[name] for name in scope)), (some, *table.shape[:-1])
            )
            wide = math.prod(table.shape[:-1])
            scores += np.bincount(flat, minlength=some * wide).reshape(some, wide) @ table.reshape(wide, -1)
        found[start:stop] = asked.choices.log_law(scores)
        start = stop
    return found


def _look_up_rows(sums: Floats, parents: Scope, _: str, codes: Mapping[str, Array]) -> Array:
    """Sums of each made-up record's row up to each state, under its own draw, shape (records, states)."""
    return np.asarray(sums[(codes[DRAW_OF_RECORD], *(codes[name] for name in parents))])


# ----------------------------------------------------------------------------------------------------------- particles


def _anneal_particles(
    asked: _JoinedChoices, prior: Dirichlet, size: int, log_likelihood: LogLikelihood, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Logarithms of the gamma variables of all cells, shape (cells, size), and the first ancestor of each particle."""
    alpha = np.concatenate([prior.alpha[node].ravel() for node in prior.network.nodes])[:, None]
    logs, numbers = _draw_log_gamma(np.broadcast_to(alpha, (len(alpha), size)), rng), asked.numbers(size, rng)

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
            # Parts of all sizes: what little a choice says leaves most of a row open, and not all of it.
            kept = np.clip(rng.random(size), 1e-6, 1 - 1e-6)
            proposed, others = _propose_logs(logs, alpha, kept, rng), asked.numbers(size, rng)
            there = likelihood(proposed, others)
            moves = np.log1p(-rng.random(size)) < power * (there - here)
            logs, numbers = np.where(moves, proposed, logs), np.where(moves, others, numbers)
            here, memory = np.where(moves, there, here), np.where(moves, memory * kept, memory)
        if power >= 1:
            return logs, first
    raise DiscreetError("the posterior could not be drawn from the choices that were released; use another prior")


def _propose_logs(logs: Floats, alpha: Floats, kept: Floats, rng: np.random.Generator) -> Floats:
    """Gamma variables of which a Beta-distributed part is kept: the law of both is the same, in either order."""
    stay, leave = (_draw_log_gamma(alpha * share, rng) for share in (kept, 1 - kept))
    return np.logaddexp(logs + stay - np.logaddexp(stay, leave), _draw_log_gamma(alpha * (1 - kept), rng))


def _draw_log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """Logarithms of gamma variates: a shape next to 0 has variates that no float holds."""
    return np.log(rng.standard_gamma(shape + 1)) + np.log1p(-rng.random(shape.shape)) / shape


def _normalise_logs(prior: Dirichlet, logs: Floats) -> Tables:
    """Probabilities of all rows, shape `(*parents, child, draws)`."""
    network, draws = prior.network, logs.shape[1]
    ends = np.cumsum([prior.alpha[node].size for node in network.nodes])[:-1]
    rows = {}
    for node, part in zip(network.nodes, np.split(logs, ends), strict=True):
        table = part.reshape(*network.shape(node), draws)
        rows[node] = np.exp(table - logsumexp(table, axis=-2, keepdims=True))
    return Tables(network, rows, draws=draws)


def draw_choices(read: DrawTask, rng: np.random.Generator, progress: object = None) -> PosteriorDraws:
    """Draw given choices among candidates, on one data set.

    Args:
        read: of such releases.
        rng: source of the draws.
        progress: not told: nothing mixes.
    """
    combined, told = read.combined, [release.scores for release in read.combined.releases]
    prior = read.believed_with_public(rng) or combined.dirichlet
    listed = [scores for scores in told if scores is not None]
    cells, worth = choice_cells(listed, combined.records[0], prior, read.draws, rng)
    return PosteriorDraws(cells, "choice", worth=worth)


def repeat_choice(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Take what was chosen as it is: a candidate as every draw, parameters with replacement; for `plug_in`.

    Args:
        release: of a choice.
        believed: of no use here.
        draws: how many.
        rng: picks parameters.
    """
    payload = release.unit_payload
    if isinstance(payload, ScoredChoice):
        indices = payload.indices[rng.integers(len(payload.indices), size=draws)]
        return PosteriorDraws(family_rows(payload.table_of_scores, indices), "plug-in")
    chosen = release.payload_as(Choice).candidates[release.payload_as(Choice).index]
    repeated = Tables(release.network, lambda node: np.repeat(chosen[node][..., None], draws, axis=-1), draws=draws)
    return PosteriorDraws(repeated, "plug-in")
