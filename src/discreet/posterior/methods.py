"""Choice of the method of a noise-aware posterior, in which the privacy noise is part of the likelihood.

    exact        chains over the records themselves (`exact/`): releases of noisy counts, tables or contrasts, any
                 number of them on any number of data sets; all that they share informs all the rest. Rows with
                 Dirichlet priors.
    pooled       tables pooled by least squares, records that flow from the roots down, rows with a prior that is
                 learned from the release or with a Dirichlet prior (`pooled/`): noisy counts, tables or contrasts on
                 one data set.
    particles    released draws of parameters (`particles.py`).
    family       released draws of a family's parameters, whose prior is the family's own (`family_draws.py`).
    choice       choices among public candidates, any number of them on one data set (`choices.py`).
    sequential   data set by data set, the posterior of those before as the prior of the next, by its first two moments.

The exact posterior costs a sweep over all records some thousand times. It is chosen by itself where a Dirichlet prior
is given and that is a matter of seconds, or where nothing else reads the evidence; the posterior says which it is. Its
rows have Dirichlet priors, so it learns none: with a learned prior's moments, row by row, it reads the release twice.
Where no prior is given it takes the curator's, and is not chosen by itself (`docs/reading.md`, section 1).

Where the prior of rows is learned, all that tables say is read: rows are drawn of the largest network that the tables
carry (`saturated.py`), and one joint law a draw has their margins and those of all other tables, with doubt of pairs
that none holds (`joint_law.py`). The public network's own rows follow from that law. A prior that is given is about
the public network's rows, and so trusts it; so do the exact posterior, particles and choices, which have such a prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, cast

import numpy as np

from discreet.errors import InputError
from discreet.model.dirichlet import Dirichlet, dirichlet_draws
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.posterior import read as registry
from discreet.posterior.basis import Basis
from discreet.posterior.evidence import check_total, measured_sets, measurements, misfit
from discreet.posterior.fit_check import GoodnessOfFit
from discreet.posterior.joint_draws import (
    LEAST_EFFECTIVE_DRAWS,
    Mixing,
    PosteriorDraws,
    Source,
    learned_prior,
    prior_for,
)
from discreet.posterior.law_parts import LawParts
from discreet.posterior.pooled.latent_counts import draw_latent_counts
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.posterior.pooled.measured_sets import MeasuredSets
from discreet.posterior.saturated import saturated
from discreet.releases.combined import Combined, Evidence, evidence_of, payers_of
from discreet.releases.release import Release
from discreet.util.progress import Bar, under_way
from discreet.util.randomness import Seed, as_generator

Method = Literal["auto", "exact", "pooled", "particles", "choice", "family", "sequential"]
"""Method of reading a release: "auto" takes the preferred one of those that apply. "exact": Markov chains over records;
"pooled": noisy tables, pooled by least squares; "particles": released draws of parameters; "choice": choices among
candidates; "family": released draws of a family's parameters; "sequential": data set by data set, by moments."""

MOST_DRAWN_CELLS = 2**36
"""Largest number of cells of all tables times draws: half a tebibyte."""
PRIOR_DRAWS = 400
"""Number of draws of the learned prior, whose moments are matched."""
LEAST_PRIOR_CONCENTRATION = 0.01
"""Least concentration of a cell in the matched prior: chains would never leave a nearly impossible state."""


def noise_aware(
    evidence: Evidence,
    *,
    draws: int = 1000,
    rng: Seed = None,
    prior: Dirichlet | None = None,
    method: Method = "auto",
    trust_network: bool = False,
    progress: Callable[[Mixing], None] | None = None,
) -> PosteriorDraws:
    """Draw all probabilities from their joint posterior given a release, with the noise as part of the model.

    Args:
        evidence: a release of noisy statistics, of draws of parameters or of a choice among candidates, figures by
            others (`measured`), or what `combine` made of several. A choice by a `CategoricalFactor` is read over a
            network of its one feature, its states the whole numbers from 0, with Dirichlet(1) as the prior that is
            taken by itself.
        draws: number of joint draws; 1,000 gives the ends of a 95 % interval to about 0.1 standard deviations.
        rng: seed or generator; nothing here is private. The same seed gives the same draws under the same versions
            of this package and NumPy, with numba and without, if the method is the same: "auto" takes the exact one
            only with numba.
        prior: of the rows. None learns it from noisy tables if the curator's says nothing of the rows (the same
            concentration in every cell), and takes the curator's otherwise; `release.prior` takes it in any case. With
            a family of more than 14 variables nothing is learned. The exact posterior learns nothing and takes the
            curator's.
        method: "auto" chooses; `discreet.tools.Method` has the others.
        trust_network: whether what the public network says of independence is believed even where tables of the release
            could contradict it. By default only variables that no table holds together are as it says, and doubted.
        progress: of the exact posterior, told how well the chains have mixed after every round; None for a bar, where
            somebody looks (`discreet.util.progress`).

    Returns:
        The posterior; its `method` says how it was drawn. Draws are independent but for resampling, those of "exact"
        more or less (`mixing`). But for "exact" a family is drawn, after its ancestors', when it is first asked for,
        each with a generator of its own: what a query answers does not depend on which others were asked.

    Raises:
        InputError: a prior over another network or from the same records, no draws, a method that cannot read the
            evidence, or a release over a design or of a network.
        DiscreetError: chains that do not mix; or, when a family is drawn, noise so large that it could not be.

    Guarantee:
        None spent: reads the release alone.

    Source:
        Williams and McSherry (NIPS 2010), equation 3, for noise in the likelihood; the models: `docs/posterior.md`,
        `docs/reading.md`.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.noise_aware(told, draws=40, rng=1)
        >>> posterior.method, posterior.cells["coin"].shape
        ('pooled', (2, 40))
        >>> bool(0.4 < posterior.mean()["coin"][0] < 0.6)
        True
    """
    rng = as_generator(rng)
    first = registry.readers_of(evidence)[0]
    if first.gives in ("network", "states") and first.home != registry.NETWORK:
        options = {} if prior is None else {"prior": prior}
        return cast(PosteriorDraws, registry.read(evidence, method=method, draws=draws, rng=rng, **options))
    combined = evidence_of(evidence)
    check_total(combined)
    believed = None if learned_prior(combined, prior) else prior_for(combined, prior, draws)
    if not draws > 0:
        raise InputError(f"a posterior needs at least one draw, got {draws}")
    by_method = {reader.method: reader for reader in able_readers(combined)}
    if method != "auto" and method not in by_method:
        raise InputError(f"method {method!r} cannot read this evidence; there is: {', '.join(by_method)}")
    route = _require_way(by_method[method] if method in by_method else next(iter(by_method.values())))
    if prior is not None and route.own_prior:
        raise InputError(
            "a family's parameters have the family's own prior; leave the prior out, or take method 'choice', which "
            "reads the draws with a Dirichlet prior of the types of records"
        )
    trusted = trust_network or (method in by_method and route.trusts) or not _rests_on_tables(combined, believed)
    wide = combined.network if trusted else saturated(combined.network, _order_sets(combined))
    task = DrawTask(combined, believed, draws, wide, trusted)
    cells = sum(task.network.cells(task.network.family(node)) for node in task.network.nodes)
    if draws * cells > MOST_DRAWN_CELLS:
        raise InputError(f"{draws:,} draws of {cells:,} cells are more than memory has; ask for fewer")
    with under_way("drawing the posterior") as bar:
        report = progress or partial(_show_mixing, bar)
        posterior = (
            _draw_automatically(task, rng, list(by_method.values()), report)
            if method == "auto"
            else _draw_by_method(task, rng, method, report)
        )
    return _add_source(posterior, task, rng)


def rows_below_noise(release: Release) -> Mapping[str, tuple[int, int]]:
    """Count the rows whose noisy total is below the standard deviation of the noise: little is known of them.

    Args:
        release: of noisy counts, tables or contrasts; nothing else is read.

    Returns:
        For each node with such rows: (how many, of how many); nothing for releases that measure no counts.

    Raises:
        Nothing: every release over a network can be asked.

    Guarantee:
        None spent: reads the release alone.

    Example:
        >>> import discreet as dc
        >>> rare, ill = (dc.Variable(name, ("no", "yes")) for name in ("rare", "ill"))
        >>> network = dc.Network((rare, ill), {"rare": (), "ill": ("rare",)})
        >>> counts = dc.tools.count_codes(network, {"rare": [0] * 400 + [1] * 2, "ill": [0, 1] * 201})
        >>> promise = dc.Guarantee(epsilon=0.5, delta=0, relation="add-remove", unit="record")
        >>> release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        >>> dict(dc.tools.rows_below_noise(release))  # how ill depends on rare=yes is not known
        {'ill': (1, 2)}
    """
    network, measured = release.network, measurements([release])
    if not measured:
        return {}
    margins, counts = pooled_margins(network, measured, release.records), dict[str, tuple[int, int]]()
    for node in network.nodes:
        parents = network.parents[node]
        rows = margins.table(parents)
        below_noise = int(np.sum(rows <= margins.deviation(parents)))
        if below_noise:
            counts[node] = (below_noise, rows.size)
    return counts


# ------------------------------------------------------------------------------------------------------- which way


def able_readers(combined: Combined) -> list[registry.Reader]:
    """List the readers of evidence that are methods of `noise_aware`, the preferred one first.

    Args:
        combined: the evidence.

    Returns:
        The preferred one first.

    Raises:
        InputError: none does.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> able_readers(evidence_of(told))[0].method
        'pooled'
    """
    several = len(combined.data_sets) > 1
    registered = [reader for reader in registry.readers_of(combined) if reader.way is not None]
    readers = [reader for reader in registered if _require_way(reader).across or not several]
    if several and not all(_can_read(data_set) for data_set in _split_data_sets(combined)):
        readers = [reader for reader in readers if reader.method != "sequential"]
    if not several:
        readers = [reader for reader in readers if reader.method != "sequential"]
    if readers:
        return readers
    chosen = any(release.scores is not None for release in combined.releases)
    raise InputError(
        "a choice among candidates cannot be read together with another kind of release of the same records; "
        "combine it with choices, or with releases on different data"
        if chosen
        else "releases of parameter draws on one data set cannot be combined: their records are not known"
    )


def _require_way(reader: registry.Reader) -> registry.Way:
    """Return the drawing method of a reader that has one."""
    assert reader.way is not None
    return reader.way


def _can_read(combined: Combined) -> bool:
    """True if one data set has a reader."""
    try:
        return bool(able_readers(combined))
    except InputError:
        return False


@dataclass(frozen=True, eq=False)
class DrawTask:
    """Task of drawing a posterior: evidence, prior, number of draws and network.

    Args:
        combined: evidence.
        believed: the prior, over `network`; None learns it.
        draws: how many.
        network: whose rows are drawn: that of the releases, or a larger one.
        trusted: whether the network of the releases is believed against their tables.
    """

    combined: Combined
    believed: Dirichlet | None
    draws: int
    network: Network
    trusted: bool

    def believed_with_public(self, rng: np.random.Generator) -> Dirichlet | None:
        """Return the prior updated by public records; None means that it is learned.

        Args:
            rng: of what is learned first, where there are.
        """
        if self.combined.public is None:
            return self.believed
        return (self.believed or _learn_prior(self.combined, rng)).updated(self.combined.public)


def _show_mixing(bar: Bar, mixing: Mixing) -> None:
    """Show the effective sample size of the worst entry of chains, and R-hat."""
    bar.label = f"{mixing.sweeps:,} sweeps; {mixing.worst}: {mixing.effective:.0f} draws, R-hat {mixing.r_hat:.3f}"
    bar(int(min(mixing.effective, LEAST_EFFECTIVE_DRAWS)), LEAST_EFFECTIVE_DRAWS)


def _order_sets(combined: Combined) -> list[frozenset[str]]:
    """Sort the sets that were measured together, pairs furthest from independence first."""
    measured = measurements(combined.parts)
    return sorted(measured_sets(combined), key=lambda names: -misfit(measured, combined.network.ordered(names)))


def _rests_on_tables(combined: Combined, believed: Dirichlet | None) -> bool:
    """True if all evidence is pooled tables, without an informative prior of the network's rows."""
    data_sets = _split_data_sets(combined)
    return (
        believed is None
        and combined.public is None
        and all(any(reader.method == "pooled" for reader in able_readers(data_set)) for data_set in data_sets)
    )


def _draw_automatically(
    task: DrawTask, rng: np.random.Generator, able: list[registry.Reader], progress: Callable[[Mixing], None] | None
) -> PosteriorDraws:
    """Draw by the automatic choice among the methods that read the evidence."""
    if task.believed is not None and len(able) > 1:
        for eager in (_require_way(reader).eager for reader in able if _require_way(reader).eager):
            posterior: PosteriorDraws | None = registry.load_function(eager)(task, rng, progress)
            if posterior is not None:
                return posterior
    return _draw_by_method(task, rng, able[0].method, progress)


def _draw_again(task: DrawTask, method: str, rng: np.random.Generator) -> PosteriorDraws:
    """Draw again by the same method."""
    return _add_source(_draw_by_method(task, rng, method, None), task, rng)


def restore_source(
    posterior: PosteriorDraws,
    combined: Combined,
    prior: Dirichlet | None,
    rng: np.random.Generator | None,
    *,
    trusted: bool,
    stored_fit: GoodnessOfFit | None,
) -> PosteriorDraws:
    """Restore the posterior of stored draws; without a generator it makes no new draws.

    Args:
        posterior: under the network whose rows were drawn.
        combined: evidence.
        prior: over that network; None where it was learned.
        rng: the generator that the posterior was drawn with, where it stood.
        trusted: whether the network of the releases was believed against their tables.
        stored_fit: what `fit` says of the evidence, where it was stored.
    """
    task = DrawTask(combined, prior, posterior.cells.draws or 0, posterior.network, trusted)
    restored = _add_source(posterior, task, np.random.default_rng(0) if rng is None else rng, stored_fit)
    if rng is not None:
        return restored
    alone = restored.saturated and replace(restored.saturated, source=None)
    return replace(restored, source=None, saturated=alone)


def _trusts(combined: Combined, method: str) -> bool:
    """True if a method trusts the public network against the tables."""
    return any(reader.way and reader.way.trusts for reader in registry.readers_of(combined) if reader.method == method)


def _add_source(
    posterior: PosteriorDraws, task: DrawTask, rng: np.random.Generator, stored_fit: GoodnessOfFit | None = None
) -> PosteriorDraws:
    """Make the posterior of the public network, with the source of new draws."""
    method = posterior.method
    again = partial(_draw_again, task, method)
    basis = Basis(
        task.combined, posterior.network, task.trusted, whole=_trusts(task.combined, method), stored_fit=stored_fit
    )
    accounts = frozenset(payers_of(task.combined.parts)).union(task.believed.accounts if task.believed else ())
    sourced = replace(posterior, source=Source(again, rng, task.believed), basis=basis, accounts=accounts)
    public = task.combined.network
    return sourced if posterior.network == public else PosteriorDraws.of_saturated(sourced, public)


def _draw_by_method(
    task: DrawTask, rng: np.random.Generator, method: str, progress: Callable[[Mixing], None] | None
) -> PosteriorDraws:
    """Draw by one method; a prior of None is learned."""
    reader = next(reader for reader in registry.readers_of(task.combined) if reader.method == method)
    posterior: PosteriorDraws = registry.load_function(_require_way(reader).draw)(task, rng, progress)
    return posterior


def draw_pooled(
    task: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None = None
) -> PosteriorDraws:
    """Draw from pooled tables: latent counts, then rows, with unmeasured interactions unless the network is trusted.

    Args:
        task: of tables on one data set.
        rng: source of the draws.
        progress: not told: nothing mixes.
    """
    drawn = draw_latent_counts(task.combined, task.draws, rng, task.believed_with_public(rng), saturated=task.network)
    law_parts = None
    if not task.trusted:
        seed = int(rng.spawn(1)[0].integers(2**63))
        sets = MeasuredSets(task.combined, drawn.cells, drawn.twins, seed, drawn.weights)
        law_parts = LawParts(sets, lambda node: drawn.rows(node).counts.sum(axis=-2))
    return PosteriorDraws(drawn.cells, "pooled", drawn.twins, parts=law_parts)


def _split_data_sets(combined: Combined) -> list[Combined]:
    """Split evidence by data set, those with external tables alone last, public records with the first.

    Figures by others often leave families open; what is known of a whole network comes first, as the prior of these.
    """
    ordered = sorted(combined.data_sets, key=lambda releases: all(release.one_release is None for release in releases))
    return [Combined((releases,), None if index else combined.public) for index, releases in enumerate(ordered)]


def _choose_step_method(data_set: Combined) -> str:
    """Choose the method of one data set among several: not one with its own prior, which would ignore the others."""
    return next(reader.method for reader in able_readers(data_set) if not _require_way(reader).own_prior)


def draw_sequentially(
    task: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None = None
) -> PosteriorDraws:
    """Draw data set by data set; the matched posterior of the rows is the prior of the next.

    Args:
        task: of several data sets.
        rng: source of the draws.
        progress: not told: each data set's chains are its own.
    """
    *before, last = _split_data_sets(task.combined)
    believed = task.believed
    for data_set in before:
        step = DrawTask(data_set, believed, max(task.draws, PRIOR_DRAWS), task.network, task.trusted)
        believed = Dirichlet.matching(_draw_by_method(step, rng, _choose_step_method(data_set), None).cells)
    drawn = _draw_by_method(
        DrawTask(last, believed, task.draws, task.network, task.trusted), rng, _choose_step_method(last), None
    )
    # Twins would leave out the noise of the data sets before.
    return PosteriorDraws(drawn.cells, "sequential", worth=drawn.worth)


def _learn_prior(combined: Combined, rng: np.random.Generator) -> Dirichlet:
    """Match a Dirichlet to the prior that is learned from the first data set's tables."""
    first = Combined(_split_data_sets(combined)[0].data_sets)
    if all(reader.method != "pooled" for reader in able_readers(first)):
        return combined.dirichlet
    network, taught = combined.network, draw_latent_counts(first, PRIOR_DRAWS, rng)
    draws = {node: dirichlet_draws(taught.rows(node).alpha, rng) for node in network.nodes}
    prior = Dirichlet.matching(Tables(network, draws, draws=PRIOR_DRAWS))
    return Dirichlet(prior.alpha.map(lambda alpha: np.maximum(alpha, LEAST_PRIOR_CONCENTRATION)))
