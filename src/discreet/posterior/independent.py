r"""The independent posterior of rows with Dirichlet priors: exact latent counts, row by row; draws are independent.

Model, for a row j of a family with noisy counts z_jk:

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

import numpy as np
import numpy.typing as npt

from discreet.errors import DiscreetError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Array, Tables
from discreet.posterior.draws import PosteriorDraws
from discreet.posterior.evidence import Evidence, NoisyStatistics, family_evidence, total_measurements
from discreet.posterior.latent_counts import NotDrawnError, draw_counts
from discreet.posterior.totals import TotalLaw, normal_law, total_laws
from discreet.releases.kinds.noisy_contrasts import NoisyCoefficients
from discreet.releases.kinds.two_stages import TwoStageCounts
from discreet.releases.release import Release

__all__ = ["independent"]

Floats = npt.NDArray[np.float64]


def independent(
    release: Release, payload: NoisyStatistics, prior: Dirichlet, draws: int, rng: np.random.Generator
) -> PosteriorDraws:
    """Draws of every family, made when it is first asked for.

    Args:
        release: whose number of records is read where it is public.
        payload: its noisy counts, contrasts or two stages.
        prior: of the rows.
        draws: how many.
        rng: source of randomness; every family has a generator of its own.

    Returns:
        Independent draws; a row's proposals may be resampled.

    Raises:
        DiscreetError: when a family is drawn, and its effective number of proposals stays below the number of draws or
            below 400, or its noise is so large that the counts cannot be tabulated.
    """
    network = release.network
    generators = dict(zip(network.nodes, rng.spawn(len(network.nodes)), strict=True))
    drawn = dict[str, Floats]()

    def family(node: str) -> Array:
        own = generators[node]
        alpha = prior.alpha[node].reshape(-1, network.schema[node].size)
        apart = _without_own_table(payload, node, prior, cells, own)
        laws = total_laws(node, apart, _record_law(release, payload, node), own)
        counts = np.empty((*alpha.shape, draws))
        for j, (evidence, a) in enumerate(zip(family_evidence(payload, node), alpha, strict=True)):
            counts[j] = _row_counts(evidence, a, draws, own, laws[j], f"{node!r}, row {j}")
        drawn[node] = alpha[..., None] + counts
        theta = dirichlet_draws(drawn[node], own)
        return theta.reshape(*network.shape(node), draws)

    def twin(node: str) -> Array:
        _ = cells[node]  # draws the counts if nobody has asked for them
        return dirichlet_draws(drawn[node], generators[node]).reshape(*network.shape(node), draws)

    cells = Tables(network, family, draws=draws)
    return PosteriorDraws(cells, "independent", Tables(network, twin, draws=draws))


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
