r"""The noise-aware posterior of all rows from noisy counts: the noise is part of the model, so intervals count it.

Model, for a row j of a family with noisy counts z_jk and noise scale b:

    theta_j ~ Dirichlet(a_j);   N_j ~ its predictive law;   (N_j1..N_jK) | N_j, theta_j ~ Multinomial(N_j, theta_j);
    z_jk = N_jk + discrete Laplace(b).

The predictive law of a row's total is that of Binomial(n, P(parents = j)) under the draws already made of the node's
ancestors: a row that almost no record reaches is known to be empty, whatever its noisy cells say. The number of
records n is public under REPLACE; under ADD_REMOVE its law follows from the totals of the other families' tables.
Totals of roots are n itself. Counts are drawn independently (`latent_counts.py`), then theta_j ~ Dirichlet(a_j + N_j).

Families are taken in topological order and a family's own table never informs its ancestors, but by its total where the
number of records is private (a cut): margins that several tables share are not pooled, so intervals are wider than they
could be.

Source: Bernstein and Sheldon (2018) for noise-aware posteriors of exponential families, here with exact integer counts
instead of a normal approximation; Williams and McSherry (2010), eq. 3; Zhang et al. (2016), Algorithm 1, for the
release.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from discreet.errors import DiscreetError, InputError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.tables import Array, Tables
from discreet.posterior.draws import PosteriorDraws, prior_for
from discreet.posterior.latent_counts import NotDrawnError, TotalLaw, draw_counts
from discreet.privacy.release import Release
from discreet.theory import inference

__all__ = ["drowned_rows", "noise_aware"]

Floats = npt.NDArray[np.float64]

BINS_PER_FOLD = 8
"""Resolution of a total's predictive law: an eighth of a factor e, finer than 1,000 draws can tell."""
DEFENCE = 0.02
"""Share of a predictive law that is spread over all totals, for those that the draws happened to miss."""


def noise_aware(
    release: Release, *, draws: int, rng: np.random.Generator, prior: Dirichlet | None = None
) -> PosteriorDraws:
    """Joint draws of all probabilities given the noisy counts, independent of each other but for resampling.

    Args:
        release: of noisy counts.
        draws: number of joint draws; 1,000 gives the ends of a 95 % interval to about 0.1 standard deviations.
        rng: source of randomness; nothing here is private.
        prior: another than the curator's; Dirichlet(1/4) in every cell is calibrated best on real networks.

    Returns:
        The posterior. A family is drawn, after its ancestors', when it is first asked for, each with a generator of its
        own: what a query answers does not depend on which others were asked.

    Raises:
        InputError: a prior over another network, or no draws.
        DiscreetError: when a family is drawn, and its effective number of proposals stays below the number of draws or
            below 400, or its noise is so large that the counts cannot be tabulated.

    Guarantee:
        None spent: reads the release alone.

    Source:
        The module's docstring has the model.
    """
    believed = prior_for(release, prior, draws)
    network, payload = release.network, release.payload
    generators = dict(zip(network.nodes, rng.spawn(len(network.nodes)), strict=True))

    def family(node: str) -> Array:
        size, scale, own = network.schema[node].size, payload.scales[node], generators[node]
        noisy = payload.tables[node].reshape(-1, size)
        alpha = believed.alpha[node].reshape(-1, size)
        counts = np.empty((*noisy.shape, draws))
        laws = _total_laws(release, node, cells, own)
        for j, (z, a) in enumerate(zip(noisy, alpha, strict=True)):
            counts[j] = _row_counts(z, a, scale, draws, own, laws[j], f"{node!r}, row {j}")
        theta = dirichlet_draws(alpha[..., None] + counts, own)
        return theta.reshape(*payload.tables[node].shape, draws)

    cells = Tables(network, family, draws=draws)
    return PosteriorDraws(cells)


def drowned_rows(release: Release) -> Mapping[str, tuple[int, int]]:
    """Rows whose noisy total is below the noise's own standard deviation: the release says little about them.

    Args:
        release: of noisy counts; nothing else is read.

    Returns:
        For each node with such rows: (how many, of how many). The standard deviation of a row's total noise is
        `b sqrt(2 K)` for K states.
    """
    found = {}
    for node, table in release.payload.tables.items():
        totals = table.sum(axis=-1)
        drowned = int(np.sum(totals < release.payload.scales[node] * np.sqrt(2 * table.shape[-1])))
        if drowned:
            found[node] = (drowned, totals.size)
    return found


# ------------------------------------------------------------------------------------------------------- rows


def _row_counts(
    z: Array, a: Floats, scale: float, draws: int, rng: np.random.Generator, law: TotalLaw | None, where: str
) -> Floats:
    """Counts of a row; a law of its total that makes them too hard to draw is left out: wider, not less honest."""
    for tried in (law, None) if law is not None else (None,):
        try:
            return draw_counts(z, a, scale, draws, rng, tried)
        except NotDrawnError as error:
            reason = str(error)
    raise DiscreetError(f"the posterior of {where}, could not be drawn ({reason}); use another prior")


def _total_laws(release: Release, node: str, cells: Tables, rng: np.random.Generator) -> list[TotalLaw | None]:
    """What is believed of the total of each row of a family, before its own table is read."""
    network, parents = release.network, release.network.parents[node]
    rows = network.cells(parents)
    records = _record_law(release, node)
    if records is None:
        return [None] * rows
    mean, deviation = records
    if not parents:
        return [_normal_law(mean, deviation)]
    # Ancestors are drawn from the roots down: left to `joint`, a long chain would nest as deep as it is long.
    above = network.ancestors(parents)
    for ancestor in network.order:
        if ancestor in above:
            cells[ancestor]
    try:
        reached = inference.joint(cells, parents, {}).reshape(rows, -1)
    except InputError:
        # Exact inference over the ancestors is out of reach: the totals keep a flat law.
        return [None] * rows
    n = np.maximum(np.rint(rng.normal(mean, deviation, reached.shape[-1])), 0).astype(np.int64)
    return [_histogram_law(rng.binomial(n, np.clip(share, 0, 1)), int(n.max())) for share in reached]


def _record_law(release: Release, node: str) -> tuple[float, float] | None:
    """Mean and standard deviation of the number of records, without the node's own table; None if nothing is known."""
    if release.records is not None:
        return float(release.records), 0.0
    weights = totals = 0.0
    for other, table in release.payload.tables.items():
        if other != node:
            weight = 1 / (table.size * _noise_variance(release.payload.scales[other]))
            weights, totals = weights + weight, totals + weight * float(table.sum())
    return (max(totals / weights, 0.0), weights**-0.5) if weights else None


def _noise_variance(scale: float) -> float:
    """Variance of discrete Laplace noise: `2 q / (1 - q)^2` with `q = exp(-1 / scale)`."""
    q = np.exp(-1 / scale)
    return max(float(2 * q / (1 - q) ** 2), 1e-6)  # noise that never shows still leaves a proper weight


def _normal_law(mean: float, deviation: float) -> TotalLaw:
    """A rounded normal law, cut at 0; a single total where the deviation is 0."""
    if deviation == 0:
        return TotalLaw(np.array([mean, mean + 1], np.int64), np.ones(1))
    # Bins of an eighth of the deviation, or single totals where that is less than one record.
    edges = np.unique(np.rint(mean + deviation * np.arange(-8, 8.01, 0.125)).clip(0)).astype(np.int64)
    edges = edges if len(edges) > 1 else np.array([edges[0], edges[0] + 1])
    return TotalLaw(edges, np.diff(ndtr((edges - 0.5 - mean) / deviation)) + np.finfo(np.float64).tiny)


def _histogram_law(totals: npt.NDArray[np.int64], most: int) -> TotalLaw:
    """The law of a total from draws of it: bins of equal width in log(1 + N), smoothed, and a little of everything."""
    folds = np.arange(BINS_PER_FOLD * np.log1p(most) + 1) / BINS_PER_FOLD
    edges = np.unique(np.append(np.expm1(folds).round(), most + 1)).astype(np.int64)
    mass = np.bincount(np.searchsorted(edges, totals, side="right") - 1, minlength=len(edges) - 1) / totals.size
    padded = np.pad(mass, 1, mode="edge")
    smooth = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    return TotalLaw(edges, (1 - DEFENCE) * smooth / smooth.sum() + DEFENCE / smooth.size)
