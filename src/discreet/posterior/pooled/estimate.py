"""Fast point estimate: all probabilities from few draws of latent counts, without intervals."""

from __future__ import annotations

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet
from discreet.model.tables import Tables
from discreet.posterior.joint_draws import PosteriorDraws, learned_prior, prior_for
from discreet.posterior.pooled.latent_counts import draw_latent_counts
from discreet.posterior.pooled.measured import MOST_POOLED, is_poolable
from discreet.releases.external_figures import External
from discreet.releases.release import Release
from discreet.util.option_texts import TableLoss
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator

DRAWS_BY_LOSS: dict[TableLoss, int] = {"squared": 50, "absolute": 400}
"""Number of draws by loss. Means given the counts are averaged over ten sweeps, so their Monte Carlo error is a tenth
of the posterior's standard deviation; a median needs more draws for the same precision."""


def estimate(
    release: Release | External,
    *,
    rng: Seed = None,
    loss: TableLoss = "squared",
    prior: Dirichlet | None = None,
) -> Tables:
    """Estimate all probabilities by posterior means (or medians), more precisely than by averaging draws.

    The model is that of `noise_aware`, with its learned prior, but without the corrections that intervals need; the
    public network's independences are assumed. Means are averages of `(alpha + counts) / sum` over sweeps and 50 draws.

    Args:
        release: release of noisy tables, contrasts or weighted sums (`planned`, `laplace`, `gaussian`, `fourier`,
            `allocated`), or external figures; at most MOST_POOLED variables in a table.
        rng: seed or generator; nothing here is private. None takes a new seed.
        loss: "squared" for posterior means, best for marginals and other queries; "absolute" for tables that are used
            as they are: rows with the least expected sum of absolute errors, from 400 draws (`PosteriorDraws.median`),
            which favour one state where a row is nearly deterministic, at about three times the CPU time.
        prior: Dirichlet prior of the rows. None learns it if the curator's prior has the same concentration in every
            cell and no family has more than 14 variables, and takes the curator's otherwise.

    Returns:
        Probabilities by node, shape `(*parents, child)`; rows sum to 1.

    Raises:
        InputError: a release of another kind, tables too large, another loss, a prior over another network or from the
            same records, measurements that do not determine the number of records, or counts beyond 2^60.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        The model is in `discreet.posterior.pooled.latent_counts` and `discreet.posterior.pooled.shrinkage`;
        Rao-Blackwell for the means.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([520, 480], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> bool(0.5 < dc.estimate(told, rng=1)["coin"][0] < 0.54)
        True
    """
    rng = as_generator(rng)
    measured = release.measurements
    if not measured or not is_poolable(measured):
        raise InputError(
            f"estimate reads noisy tables and contrasts over at most {MOST_POOLED} variables; use "
            "noise_aware or plug_in"
        )
    if loss not in DRAWS_BY_LOSS:
        raise InputError(f"loss must be 'squared' or 'absolute', got {loss!r}")
    believed = None if learned_prior(release, prior) else prior_for(release, prior, DRAWS_BY_LOSS[loss])
    with under_way("estimating"):
        latent = draw_latent_counts(release, DRAWS_BY_LOSS[loss], rng, believed, doubt=False)
        if loss == "absolute":
            return PosteriorDraws(latent.probabilities).median()
        return Tables(release.network, {node: latent.rows(node).mean for node in release.network.nodes})
