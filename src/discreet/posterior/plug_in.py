"""The plug-in posterior: what was released, taken as if it were the counts, or draws given the counts themselves.

It is over-confident: on noisy counts its nominal 95 % intervals cover 22 / 74 / 87 % on the Asia network at epsilon
0.1 / 1 / 3. It is here for comparison, under its own name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from discreet.model.dirichlet import Dirichlet
from discreet.model.tables import Tables
from discreet.posterior.basis import Basis
from discreet.posterior.family_draws import family_rows
from discreet.posterior.joint_draws import PosteriorDraws, Source, prior_for
from discreet.posterior.pooled.least_squares import (
    Margins,
    coordinates_of_fit,
    fit_nonnegative,
    least_squares,
    pooled_margins,
)
from discreet.posterior.pooled.measured import read_tables
from discreet.releases.combined import evidence_of, payers_of
from discreet.releases.external_figures import External
from discreet.releases.kinds.audited_tables import AuditedTables
from discreet.releases.kinds.candidate_choice import Choice
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.releases.kinds.scored_choice import ScoredChoice
from discreet.releases.measurement import Released
from discreet.releases.release import Release
from discreet.util.arrays import Array
from discreet.util.randomness import Seed, as_generator


def plug_in(
    release: Release | External, *, draws: int = 1000, rng: Seed = None, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Draw from `Dirichlet(alpha + max(noisy count, 0))`, which ignores the noise; or take released draws as they are.

    Tables over sets of variables are fitted by least squares with no cell below 0; two stages, and contrasts, by plain
    least squares. Released draws are drawn from with replacement; a chosen candidate is every draw.

    Args:
        release: of any kind, or figures by others.
        draws: number of joint draws.
        rng: seed or generator; nothing here is private.
        prior: another than the curator's; released draws and choices have no use for it.

    Returns:
        The posterior, for comparison: its intervals are too short, because they do not count the noise.

    Raises:
        InputError: a prior over another network or from the same records, or no draws.

    Guarantee:
        None spent: reads the release alone.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithms 1 and 2; Chowdhury, Rekatsinas and Jha (ICML 2020),
        Algorithm 1, for two stages.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.measured([-3, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.tools.plug_in(told, draws=20, rng=1)
        >>> posterior.method, bool(posterior.mean()["coin"][0] < 0.1)
        ('plug-in', True)
    """
    rng = as_generator(rng)
    basis, believed = Basis(evidence_of(release), release.network, trusted=True), prior_for(release, prior, draws)
    accounts = believed.accounts.union(payers_of([release]))
    return replace(_take_as_is(release, believed, draws, rng), basis=basis, accounts=accounts)


def _take_as_is(
    release: Release | External, believed: Dirichlet, draws: int, rng: np.random.Generator
) -> PosteriorDraws:
    """Draws of what was released, taken as it is."""
    network = release.network
    payload = release if isinstance(release, External) else release.payload
    match payload:
        case ParameterDraws():
            picked = rng.integers(payload.cells.draws or 1, size=draws)
            # Nothing of a node is no estimate of it: there the prior is all that there is.
            prior = believed.draw(draws, rng=rng) if payload.untold else {}
            cells = {
                node: prior[node] if node in payload.untold else _normalise_rows(payload.cells[node][..., picked])
                for node in network.nodes
            }
            # Hoeffding's bound of a weighted mean has one over the sum of squared weights in the place of the number.
            worth = partial(float, draws**2 / np.sum(np.bincount(picked) ** 2))
            return PosteriorDraws(Tables(network, cells, draws=draws), "plug-in", worth=worth)
        case Choice():
            chosen = payload.candidates[payload.index]
            repeated = Tables(network, lambda node: np.repeat(chosen[node][..., None], draws, axis=-1), draws=draws)
            return PosteriorDraws(repeated, "plug-in")
        case ScoredChoice():
            indices = payload.indices[rng.integers(len(payload.indices), size=draws)]
            return PosteriorDraws(family_rows(payload.table_of_scores, indices), "plug-in")
        case _:
            counts = Tables(
                network, {node: np.maximum(table, 0) for node, table in _fit_tables(release, payload).items()}
            )
            return _draw_dirichlet(believed.updated(counts), draws, rng)


def _draw_dirichlet(posterior: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Independent draws."""
    source = Source(partial(_draw_dirichlet, posterior, draws), rng)
    return PosteriorDraws(posterior.draw(draws, rng=rng), "plug-in", source=source)


def _fit_tables(release: Release | External, payload: Released | External) -> dict[str, Array]:
    """Estimated counts of every family."""
    if isinstance(payload, AuditedTables):
        payload = payload.first  # a pair that no family holds says nothing of one to whoever ignores noise
    network, parts = release.network, payload.measurements
    steps = release.policy.steps if isinstance(release, Release) else 1
    parts = tuple(part.per_unit(steps) for part in parts)
    if isinstance(payload, NoisyCounts):
        return {node: payload.table(node) / steps for node in network.nodes}
    if isinstance(payload, NoisyTables):
        noisy = read_tables(network, parts)
        plain = least_squares(noisy, release.records)
        fitted = Margins(
            network, coordinates_of_fit(noisy, fit_nonnegative(noisy, max(plain.total[0], 1.0))), plain.variances
        )
    else:
        fitted = pooled_margins(network, parts, release.records)
    return {node: fitted.table(network.family(node)) for node in network.nodes}


def _normalise_rows(rows: Array) -> Array:
    """Rows that sum to 1: released ones do so only up to their last digit."""
    return np.asarray(rows / rows.sum(axis=-2, keepdims=True))
