"""The plug-in posterior: what was released, taken as if it were the counts, or draws given the counts themselves.

It is over-confident: on noisy counts its nominal 95 % intervals cover 22 / 74 / 87 % on the Asia network at epsilon
0.1 / 1 / 3. It is here for comparison, under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

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
    take = AS_THEY_ARE.get(type(getattr(release, "payload", release)), _add_counts)
    return replace(take(release, believed, draws, rng), basis=basis, accounts=accounts)


def _take_draws(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Released draws of parameters, with replacement."""
    network, payload = release.network, release.payload_as(ParameterDraws)
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


def _repeat_choice(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """A chosen candidate, as every draw."""
    payload = release.payload_as(Choice)
    chosen = payload.candidates[payload.index]
    repeated = Tables(release.network, lambda node: np.repeat(chosen[node][..., None], draws, axis=-1), draws=draws)
    return PosteriorDraws(repeated, "plug-in")


def _take_parameters(release: Release, believed: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Released parameters of a family, with replacement."""
    payload = release.payload_as(ScoredChoice)
    indices = payload.indices[rng.integers(len(payload.indices), size=draws)]
    return PosteriorDraws(family_rows(payload.table_of_scores, indices), "plug-in")


def _add_counts(
    release: Release | External, believed: Dirichlet, draws: int, rng: np.random.Generator
) -> PosteriorDraws:
    """The prior with estimated counts of every family."""
    counts = {node: np.maximum(table, 0) for node, table in _fit_tables(release).items()}
    return _draw_dirichlet(believed.updated(Tables(release.network, counts)), draws, rng)


AS_THEY_ARE: Mapping[type, Callable[[Any, Dirichlet, int, np.random.Generator], PosteriorDraws]] = {
    ParameterDraws: _take_draws,
    Choice: _repeat_choice,
    ScoredChoice: _take_parameters,
}
"""Payloads that are taken as they are; all others are tables, to which counts are fitted."""


def _draw_dirichlet(posterior: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Independent draws."""
    source = Source(partial(_draw_dirichlet, posterior, draws), rng)
    return PosteriorDraws(posterior.draw(draws, rng=rng), "plug-in", source=source)


def _fit_tables(release: Release | External) -> dict[str, Array]:
    """Estimated counts of every family: as released, or by least squares, with no cell below 0 where a plan says which.

    A pair that no family holds says nothing of one to whoever ignores noise.
    """
    network, parts = release.network, tuple(part for part in release.measurements if not part.audit)
    kind = type(getattr(release, "payload", release))
    if kind is NoisyCounts:
        own: Any = release
        return {node: own.payload.table(node) / own.policy.steps for node in network.nodes}
    fitted = pooled_margins(network, parts, release.records)
    if kind in (NoisyTables, AuditedTables):
        noisy = read_tables(network, parts)
        plain = least_squares(noisy, release.records)
        fitted = Margins(
            network, coordinates_of_fit(noisy, fit_nonnegative(noisy, max(plain.total[0], 1.0))), plain.variances
        )
    return {node: fitted.table(network.family(node)) for node in network.nodes}


def _normalise_rows(rows: Array) -> Array:
    """Rows that sum to 1: released ones do so only up to their last digit."""
    return np.asarray(rows / rows.sum(axis=-2, keepdims=True))
