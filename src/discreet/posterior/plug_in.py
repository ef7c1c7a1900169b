"""The plug-in posterior: released counts taken as if they were exact, or released draws as they are.

It is overconfident: on noisy counts its nominal 95 % intervals cover 22 / 74 / 87 % on the Asia network at epsilon 0.1
/ 1 / 3. It is included for comparison, under its own name. A family is a node with its parents.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from discreet.model.dirichlet import Dirichlet
from discreet.model.tables import Tables
from discreet.posterior.basis import Basis
from discreet.posterior.joint_draws import PosteriorDraws, Source, prior_for
from discreet.posterior.pooled.least_squares import (
    Margins,
    coordinates_of_fit,
    fit_nonnegative,
    least_squares,
    pooled_margins,
)
from discreet.posterior.pooled.measured import read_tables
from discreet.posterior.read import load_function, readers_of
from discreet.releases.combined import evidence_of, payers_of
from discreet.releases.external_figures import External
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.releases.kinds.tables_with_pairs import TablesWithPairs
from discreet.releases.release import Release
from discreet.util.arrays import Array
from discreet.util.randomness import Seed, as_generator


def plug_in(
    release: Release | External, *, draws: int = 1000, rng: Seed = None, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Draw from `Dirichlet(alpha + max(noisy count, 0))`, which ignores the noise; or take released draws as they are.

    Counts released by family are used as they are. Tables over sets of variables, without or with pairs of a second
    stage, are fitted by nonnegative least squares; other releases (tables with sums of numbers, contrasts, weighted
    sums) and external figures are fitted by ordinary least squares. Released draws are resampled with replacement; if
    the release is a choice, all draws are the chosen candidate.

    Args:
        release: release of any kind over a network, or external figures.
        draws: number of joint draws, at least one.
        rng: seed or generator; it is not secret. None takes a new seed.
        prior: prior that replaces the curator's; released draws and choices do not use it, but it is checked.

    Returns:
        The posterior, for comparison: its intervals are too short, because they ignore the noise. Its method is
        "plug-in", and the public network's independences are assumed.

    Raises:
        InputError: a prior over another network or from the same records, or no draws.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Algorithms 1 and 2; Chowdhury, Rekatsinas and Jha (ICML 2020),
        Algorithm 1, for two stages.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([-3, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.tools.plug_in(told, draws=20, rng=1)
        >>> posterior.method, bool(posterior.mean()["coin"][0] < 0.1)
        ('plug-in', True)
    """
    rng = as_generator(rng)
    basis, believed = Basis(evidence_of(release), release.network, trusted=True), prior_for(release, prior, draws)
    accounts = believed.accounts.union(payers_of([release]))
    plain = next((reader.plain for reader in readers_of(release) if reader.plain), "")
    take = load_function(plain) if plain else _draw_from_counts
    return replace(take(release, believed, draws, rng), basis=basis, accounts=accounts)


def _draw_from_counts(
    release: Release | External, believed: Dirichlet, draws: int, rng: np.random.Generator
) -> PosteriorDraws:
    """Estimate the counts of every family, set negative ones to 0, and draw rows from Dirichlet(prior + counts).

    `believed` is the prior, and the result has `draws` independent draws of the method "plug-in" (`_draw_dirichlet`).
    """
    counts = {node: np.maximum(table, 0) for node, table in _estimate_counts(release).items()}
    return _draw_dirichlet(believed.updated(Tables(release.network, counts)), draws, rng)


def _draw_dirichlet(posterior: Dirichlet, draws: int, rng: np.random.Generator) -> PosteriorDraws:
    """Draw independent Dirichlet rows; the posterior's source repeats this with a child of the same generator.

    Args:
        posterior: concentrations of the rows.
        draws: number of draws.
        rng: source of randomness.

    Returns:
        Draws of the method "plug-in", without replicates.
    """
    source = Source(partial(_draw_dirichlet, posterior, draws), rng)
    return PosteriorDraws(posterior.draw(draws, rng=rng), "plug-in", source=source)


def _estimate_counts(release: Release | External) -> dict[str, Array]:
    """Estimate counts of every family: as released, or by least squares, nonnegative for tables over sets of variables.

    Counts released per family (`NoisyCounts`) are divided by the steps that one record counts and used as they are:
    families need not agree on their margins, and a public number of records is not used. Measurements of a second stage
    are left out of all fits: no family contains these pairs. Tables over sets of variables (`NoisyTables`,
    `TablesWithPairs`) are fitted by nonnegative least squares; their total is the public number of records, or else
    that of plain least squares, at least 1. Every other release and external figures are fitted by plain least squares.
    Plain fits and released counts may be negative.

    Args:
        release: release over a network, or external figures.

    Returns:
        Counts of each node's family, not necessarily whole, shape `(*parents, child)`. Interactions that were not
        measured are 0.
    """
    network, measured = release.network, tuple(datum for datum in release.measurements if not datum.selection)
    kind = type(getattr(release, "payload", release))
    if kind is NoisyCounts:
        released: Any = release
        return {node: released.payload.table(node) / released.policy.steps for node in network.nodes}
    fitted = pooled_margins(network, measured, release.records)
    if kind in (NoisyTables, TablesWithPairs):
        noisy = read_tables(network, measured)
        plain = least_squares(noisy, release.records)
        fitted = Margins(
            network, coordinates_of_fit(noisy, fit_nonnegative(noisy, max(plain.total[0], 1.0))), plain.variances
        )
    return {node: fitted.table(network.family(node)) for node in network.nodes}
