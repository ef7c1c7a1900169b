r"""The noise-aware posterior of all rows from noisy counts: the noise is part of the model, so intervals count it.

Noisy tables are read with a prior that is learned from the release itself (`learned.py`), unless a prior is given or
the release's own says something of the rows. What is left is here: rows with Dirichlet priors, from families' tables,
two stages or contrasts. Model, for a row j of a family with noisy counts z_jk:

    theta_j ~ Dirichlet(a_j);   N_j ~ its predictive law;   (N_j1..N_jK) | N_j, theta_j ~ Multinomial(N_j, theta_j);
    z_jk = N_jk + noise, of the law that the payload states (`evidence.py`).

The predictive law of a row's total is that of Binomial(n, P(parents = j)) under the draws already made of the node's
ancestors: a row that almost no record reaches is known to be empty, whatever its noisy cells say. The number of
records n is public under REPLACE; under ADD_REMOVE its law follows from the totals of the other families' tables.
Totals of roots are n itself. Counts are drawn independently (`latent_counts.py`), then theta_j ~ Dirichlet(a_j + N_j).

Families are taken in topological order. A family that lies in another's table is read from that table; the law of the
other's row totals then leaves that family to its prior, so that no number counts twice. Otherwise a family's own table
never informs its ancestors, but by its total where the number of records is private (a cut): margins that several
tables share are not pooled, so intervals are wider than they could be.

Source: Bernstein and Sheldon (2018) for noise-aware posteriors of exponential families, here with exact integer counts
instead of a normal approximation; Williams and McSherry (2010), eq. 3; Zhang et al. (2016), Algorithm 1, for the
release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from discreet.errors import DiscreetError, InputError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Array, Tables
from discreet.posterior.draws import PosteriorDraws, learned_prior, prior_for
from discreet.posterior.evidence import Evidence, NoisyStatistics, family_evidence, total_measurements
from discreet.posterior.latent_counts import NotDrawnError, draw_counts
from discreet.posterior.learned import worlds
from discreet.posterior.least_squares import least_squares, measured, poolable
from discreet.posterior.parameter_draws import parameter_cells
from discreet.posterior.totals import TotalLaw, normal_law, total_laws
from discreet.privacy.payload import (
    Choice,
    NoisyCoefficients,
    NoisyCounts,
    NoisyTables,
    ParameterDraws,
    TwoStageCounts,
)
from discreet.privacy.release import Release

__all__ = ["drowned_rows", "noise_aware"]

Floats = npt.NDArray[np.float64]


def noise_aware(
    release: Release, *, draws: int, rng: np.random.Generator, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Joint draws of all probabilities given what was released, independent of each other but for resampling.

    Args:
        release: of noisy statistics, or of draws of parameters (`parameter_draws.py` has their model).
        draws: number of joint draws; 1,000 gives the ends of a 95 % interval to about 0.1 standard deviations.
        rng: source of randomness; nothing here is private.
        prior: of the rows. None learns it from noisy tables if the curator's says nothing of the rows (the same
            concentration in every cell), and takes the curator's otherwise; `release.prior` takes it in any case. With
            a family of more than 14 variables nothing is learned.

    Returns:
        The posterior. A family is drawn, after its ancestors', when it is first asked for, each with a generator of its
        own: what a query answers does not depend on which others were asked.

    Raises:
        InputError: a prior over another network, no draws, or a release of a choice among candidates.
        DiscreetError: when a family is drawn, and its effective number of proposals stays below the number of draws or
            below 400, or its noise is so large that the counts cannot be tabulated.

    Guarantee:
        None spent: reads the release alone.

    Source:
        The module's docstring has the model.
    """
    believed = prior_for(release, prior, draws)
    payload = release.payload
    match payload:
        case ParameterDraws():
            return PosteriorDraws(parameter_cells(release, payload, believed, draws, rng))
        case Choice():
            raise InputError(
                "how a choice among candidates came about cannot be counted into an interval; read it with plug_in"
            )
        case NoisyTables() | NoisyCounts() if learned_prior(release, prior) and poolable(payload):
            return PosteriorDraws(worlds(release, draws, rng).cells)
        case NoisyTables():
            return PosteriorDraws(worlds(release, draws, rng, believed).cells)
        case _:
            return PosteriorDraws(_cells(release, payload, believed, draws, rng))


def drowned_rows(release: Release) -> Mapping[str, tuple[int, int]]:
    """Rows whose noisy total is below the noise's own standard deviation: the release says little about them.

    Args:
        release: nothing else is read.

    Returns:
        For each node with such rows: (how many, of how many); nothing for releases that measure no counts.
    """
    payload, network = release.payload, release.network
    found: dict[str, tuple[int, int]] = {}
    match payload:
        case ParameterDraws() | Choice():
            return found
        case NoisyTables():
            margins = least_squares(measured(payload), release.records)
            rows = {node: margins.table(network.parents[node]).ravel() for node in network.nodes}
            noise = {node: [margins.deviation(network.parents[node])] * len(rows[node]) for node in network.nodes}
        case _:
            totals = {node: [part.total() for part in family_evidence(payload, node)] for node in network.nodes}
            rows = {node: np.array([total.centre[0] for total in totals[node]]) for node in network.nodes}
            noise = {node: [math.sqrt(2) * total.scale for total in totals[node]] for node in network.nodes}
    for node in network.nodes:
        drowned = int(np.sum(rows[node] <= np.array(noise[node])))
        if drowned:
            found[node] = (drowned, len(rows[node]))
    return found


# ------------------------------------------------------------------------------------------------------- rows


def _cells(
    release: Release, payload: NoisyStatistics, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> Tables:
    """Draws of every family, made when it is first asked for."""
    network = release.network
    generators = dict(zip(network.nodes, rng.spawn(len(network.nodes)), strict=True))

    def family(node: str) -> Array:
        own = generators[node]
        alpha = prior.alpha[node].reshape(-1, network.schema[node].size)
        apart = _without_own_table(payload, node, prior, cells, own)
        laws = total_laws(node, apart, _record_law(release, payload, node), own)
        counts = np.empty((*alpha.shape, draws))
        for j, (evidence, a) in enumerate(zip(family_evidence(payload, node), alpha, strict=True)):
            counts[j] = _row_counts(evidence, a, draws, own, laws[j], f"{node!r}, row {j}")
        theta = dirichlet_draws(alpha[..., None] + counts, own)
        return theta.reshape(*network.shape(node), draws)

    cells = Tables(network, family, draws=draws)
    return cells


def _row_counts(
    evidence: Evidence, a: Floats, draws: int, rng: np.random.Generator, law: TotalLaw | None, where: str
) -> Floats:
    """Counts of a row; a law of its total that makes them too hard to draw is left out: wider, not less honest."""
    for tried in (law, None) if law is not None else (None,):
        try:
            return draw_counts(evidence, a, draws, rng, tried)
        except NotDrawnError as error:
            reason = str(error)
    raise DiscreetError(
        f"the posterior of {where}, could not be drawn ({reason}): the noise is too large for so many states; use "
        "another prior, or plug_in"
    )


def _without_own_table(
    payload: NoisyStatistics, node: str, prior: Dirichlet, cells: Tables, rng: np.random.Generator
) -> Tables:
    """The draws of a node's ancestors, but prior draws for those that were read from the numbers its own rows have.

    Counted into the law of the row totals and again in the rows, these numbers would make the rows falsely sharp.
    Contrasts are shared by all tables; a table of counts is shared by its own family and by those that lie in it.
    """
    network = cells.network
    above = network.ancestors(network.parents[node])
    if not isinstance(payload, NoisyCoefficients):
        measured = payload.second if isinstance(payload, TwoStageCounts) else payload
        above = frozenset(name for name in above if measured.source(name) == measured.source(node))
    if not above:
        return cells
    draws = cells.draws or 1

    def apart(name: str) -> Array:
        if name not in above:
            return cells[name]
        alpha = prior.alpha[name][..., None]
        return dirichlet_draws(np.broadcast_to(alpha, (*network.shape(name), draws)), rng)

    return Tables(network, apart, draws=draws)


def _record_law(release: Release, payload: NoisyStatistics, node: str) -> TotalLaw | None:
    """What is known of the number of records without the node's own table; None if nothing is."""
    if release.records is not None:
        return normal_law(float(release.records), 0.0)
    if isinstance(payload, NoisyCoefficients):
        # A root's own table holds the one measurement of the number of records that there is.
        found = total_measurements(payload, None) if release.network.parents[node] else []
    else:
        measured = payload.second if isinstance(payload, TwoStageCounts) else payload
        found = total_measurements(payload, measured.source(node))
    if not found:
        return None
    weight = sum(1 / variance for _, variance in found)
    mean = max(sum(total / variance for total, variance in found) / weight, 0.0)
    return normal_law(mean, weight**-0.5)
