"""Choice of the method of a noise-aware posterior, in which the privacy noise is part of the likelihood.

A family is a node with its parents, and a row the node's distribution in one state of them.

    exact        MCMC over the latent records (`exact/`): releases of noisy counts, tables or contrasts, any
                 number of them on any number of data sets, in one joint model. Rows have Dirichlet priors.
    pooled       Tables pooled by least squares, latent counts drawn from the roots of the network down, rows with
                 a prior that is learned from the release, or a Dirichlet prior (`pooled/`): noisy counts, tables
                 or contrasts on one data set.
    particles    Released draws of parameters (`particles.py`).
    family       Released draws of a family's parameters, with the family's own prior (`family_draws.py`).
    choice       Choices among public candidates, any number of them on one data set (`choices.py`).
    sequential   Data set by data set: the posterior of each, matched by two moments, is the prior of the next.

The exact posterior takes some thousand sweeps over all records. "auto" chooses it if a Dirichlet prior is given and it
takes seconds, or if no other method reads the evidence; `PosteriorDraws.method` names the method used. Its rows have
Dirichlet priors, so it learns no prior: matching a learned prior by moments, row by row, would use the release twice.
If no prior is given it takes the curator's, and "auto" prefers other methods (`docs/reading.md`, section 1).

If the prior of rows is learned, all tables are used: rows are drawn for the largest network whose families lie in the
tables (`saturated.py`), and each draw has one joint law with their margins and those of all other tables, in which
pairs that no table contains are doubted (`joint_law.py`). The public network's own rows follow from that law. A given
prior is about the public network's rows, and so the network is trusted; this also holds for the exact posterior,
particles and choices, which have such a prior.
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
from discreet.posterior.number_draws import number_evidence
from discreet.posterior.pooled.latent_counts import draw_latent_counts
from discreet.posterior.pooled.least_squares import pooled_margins
from discreet.posterior.pooled.measured_sets import MeasuredSets
from discreet.posterior.saturated import saturated
from discreet.releases.combined import Combined, Evidence, evidence_of, payers_of
from discreet.releases.release import Release
from discreet.util.progress import Bar, under_way
from discreet.util.randomness import Seed, as_generator

Method = Literal["auto", "exact", "pooled", "particles", "choice", "family", "sequential"]
"""Method of reading a release; "auto" takes the preferred one of those that apply. "exact": MCMC over records;
"pooled": noisy tables, pooled by least squares; "particles": released draws of parameters; "choice": choices among
candidates; "family": released draws of a family's parameters; "sequential": data set by data set, by moments."""

MOST_DRAWN_CELLS = 2**36
"""Largest number of cells of all tables times draws: half a tebibyte."""
PRIOR_DRAWS = 400
"""Number of draws whose moments are matched to approximate a learned prior."""
LEAST_PRIOR_CONCENTRATION = 0.01
"""Least concentration of a cell in a matched prior: with a smaller one, chains would never leave a nearly impossible
state."""


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
    """Draw all probabilities from their joint posterior given a release, with the privacy noise in the likelihood.

    Evidence whose default reader is another function (`discreet.posterior.read`), such as one of an installed pack, is
    passed to that function, with `draws`, `rng`, `method` and the prior; `trust_network` and `progress` are then not
    used. With a prior that is not learned, "auto" first tries exact methods that take seconds.

    Args:
        evidence: a release of noisy statistics, of draws of parameters or of a choice among candidates, external
            figures (`measured`), or several of them put together by `combine`. A choice by a `CategoricalFactor` is
            read over a network of its one feature, whose states are the whole numbers from 0, with the default prior
            Dirichlet(1).
        draws: number of joint draws; with 1,000 the ends of a 95 % interval have a Monte Carlo error of about 0.1
            standard deviations.
        rng: seed or generator; it is not secret. The same seed gives the same draws under the same versions of this
            package and NumPy, with numba and without, if the method is the same: "auto" takes the exact one only with
            numba.
        prior: prior of the rows. None learns it from noisy tables if the curator's prior is uninformative (the same
            concentration in every cell), and takes the curator's otherwise; `release.prior` always takes the curator's.
            If a family has more than 14 variables, no prior is learned. The exact posterior learns no prior, and takes
            the curator's by default.
        method: "auto" chooses; `discreet.tools.Method` lists the others.
        trust_network: whether the public network's independences are assumed even if tables of the release could
            contradict them. By default they are assumed only for variables that no table contains together, and these
            are doubted. They are always assumed, whatever is passed, if the prior is not learned, if public records are
            read, if a data set has no tables that can be pooled, or if the chosen method assumes them.
        progress: function that the exact posterior calls with the mixing of its chains after every round; None shows a
            bar on a terminal (`discreet.util.progress`).

    Returns:
        The posterior; its `method` names the method used. Draws are independent except for resampling; those of "exact"
        are correlated (`mixing`). Except for "exact", a family is drawn at its first use, after its ancestors, with its
        own generator: the answer to a query does not depend on earlier queries.

    Raises:
        InputError: measurements that do not determine the number of records; a prior over another network or from the
            same records, or beside a method whose parameters have their own; no draws, or more than memory has (2^36
            cells of all tables); a method that cannot read the evidence; or a release over a design or of a network's
            structure.
        DiscreetError: chains that have not mixed; or, when a family is drawn, noise too large to draw it.

    Guarantee:
        No budget is spent; only the release is read.

    Source:
        Williams and McSherry (NIPS 2010), equation 3, for noise in the likelihood; the models: `docs/posterior.md`,
        `docs/reading.md`.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> noise = dc.external.StatedNoise("laplace", 2)
        >>> told = dc.external_table([52, 48], coin, ["coin"], noise, guarantee=None, source="a friend")
        >>> posterior = dc.noise_aware(told, draws=40, rng=1)
        >>> posterior.method, posterior.probabilities["coin"].shape
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
    wide = combined.network if trusted else saturated(combined.network, _sort_measured_sets(combined))
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
    return _attach_source(posterior, task, rng)


def rows_below_noise(release: Release) -> Mapping[str, tuple[int, int]]:
    """Count the rows whose noisy total is at most the standard deviation of its noise, and which are nearly unknown.

    Totals and deviations are those of plain least squares over all tables, with the public number of records if there
    is one. A total that was not measured counts as below its noise.

    Args:
        release: release of noisy counts, tables or contrasts; other payloads are ignored.

    Returns:
        For each node with such rows, in the schema's order: (their number, number of all rows); a node without parents
        has one row. Empty for releases that measure no counts.

    Raises:
        Nothing: releases of any kind are accepted.

    Guarantee:
        No budget is spent; only the release is read.

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
        combined: evidence of one or several data sets.

    Returns:
        At least one reader. With several data sets only those that read several at once. "sequential" is in the list
        only if there are several data sets, each of which some reader other than a general one reads.

    Raises:
        InputError: no method reads the evidence.

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
    raise InputError("no reader that is installed reads these releases together; the pack `evidence` reads all kinds")


def _require_way(reader: registry.Reader) -> registry.Way:
    """Return the drawing method of a reader that has one; a reader without one fails an assertion."""
    assert reader.way is not None
    return reader.way


def _can_read(combined: Combined) -> bool:
    """True if a reader of its kinds reads the evidence of one data set, not the general one alone."""
    try:
        return not able_readers(combined)[0].general
    except InputError:
        return False


@dataclass(frozen=True, eq=False)
class DrawTask:
    """Task of drawing a posterior: evidence, prior, number of draws and network.

    Args:
        combined: evidence.
        believed: prior of the rows, over `network`; None learns it.
        draws: number of joint draws.
        network: network whose rows are drawn: that of the releases, or a larger one.
        trusted: whether the public network's independences are assumed even against the tables.
    """

    combined: Combined
    believed: Dirichlet | None
    draws: int
    network: Network
    trusted: bool

    def believed_with_public(self, rng: np.random.Generator) -> Dirichlet | None:
        """Return the prior of the rows, updated by public records if there are any.

        Without public records it is `believed`, None if the prior is to be learned. With them, a prior that is to be
        learned is first drawn from the first data set's tables (`_learn_prior`); the public counts are then added to
        its concentrations.

        Args:
            rng: source of randomness of the learned prior; not used otherwise.
        """
        if self.combined.public is None:
            return self.believed
        return (self.believed or _learn_prior(self.combined, rng)).updated(self.combined.public)


def _show_mixing(bar: Bar, mixing: Mixing) -> None:
    """Show the number of sweeps and the worst entry's effective sample size and R-hat as the label of a progress bar.

    The bar is moved to this sample size, at most LEAST_EFFECTIVE_DRAWS, of LEAST_EFFECTIVE_DRAWS.
    """
    bar.label = f"{mixing.sweeps:,} sweeps; {mixing.worst}: {mixing.effective:.0f} draws, R-hat {mixing.r_hat:.3f}"
    bar(int(min(mixing.effective, LEAST_EFFECTIVE_DRAWS)), LEAST_EFFECTIVE_DRAWS)


def _sort_measured_sets(combined: Combined) -> list[frozenset[str]]:
    """Sort the sets that were measured together by `misfit`, largest first.

    It is a pair's chi-square distance from independence. Sets that are no pair, or a pair without a table of its own,
    have distance 0; equal ones stay in the order of `measured_sets`, larger sets first.
    """
    measured = measurements(combined.parts)
    return sorted(measured_sets(combined), key=lambda names: -misfit(measured, combined.network.ordered(names)))


def _rests_on_tables(combined: Combined, believed: Dirichlet | None) -> bool:
    """True if the prior is learned, there are no public records, and "pooled" can read each data set by itself.

    Args:
        combined: evidence; a data set that no method can read raises an InputError.
        believed: prior of the rows; None if it is learned.
    """
    data_sets = _split_data_sets(combined)
    return (
        believed is None
        and combined.public is None
        and all(any(reader.method == "pooled" for reader in able_readers(data_set)) for data_set in data_sets)
    )


def _draw_automatically(
    task: DrawTask, rng: np.random.Generator, able: list[registry.Reader], progress: Callable[[Mixing], None] | None
) -> PosteriorDraws:
    """Draw by the first method that reads the evidence, after trying fast exact methods if that pays.

    It pays if a prior is given, or if some external figures are weighted sums, fewer than their table has cells: the
    pooled reader takes whole interactions from them, and nothing from a cell or two. Only then, and if several methods
    can read the evidence, each method's `eager` function, if it has one, is tried in turn; the first posterior that is
    not None is returned.

    Args:
        task: task to draw.
        rng: source of randomness.
        able: readers in the order of preference, at least one.
        progress: function that is passed on; None shows no progress.
    """
    partial_sums = any(
        datum.weights is not None and datum.values.size < datum.weights[0].size
        for datum in measurements(task.combined.external)
    )
    if (task.believed is not None or partial_sums) and len(able) > 1:
        for eager in (_require_way(reader).eager for reader in able if _require_way(reader).eager):
            posterior: PosteriorDraws | None = registry.load_function(eager)(task, rng, progress)
            if posterior is not None:
                return posterior
    return _draw_by_method(task, rng, able[0].method, progress)


def _draw_again(task: DrawTask, method: str, rng: np.random.Generator) -> PosteriorDraws:
    """Draw a task by the same method, and attach the source of new draws; without progress."""
    return _attach_source(_draw_by_method(task, rng, method, None), task, rng)


def restore_source(
    posterior: PosteriorDraws,
    combined: Combined,
    prior: Dirichlet | None,
    rng: np.random.Generator | None,
    *,
    trusted: bool,
    stored_fit: GoodnessOfFit | None,
) -> PosteriorDraws:
    """Attach what a posterior needs beside its draws to stored draws: source, basis, accounts and sums of numbers.

    Args:
        posterior: draws under the network whose rows were drawn.
        combined: evidence that was read.
        prior: prior over that network; None if it was learned.
        rng: generator of the posterior in its stored state; None if it was not stored.
        trusted: whether the public network's independences were assumed even against the tables.
        stored_fit: stored result of `check_fit`; None computes it at first use.

    Returns:
        The posterior over the public network. If its rows are of a larger network they are projected at first use, and
        kept as `saturated`. Without a generator `source` is None in both, so no new draws can be made.
    """
    task = DrawTask(combined, prior, posterior.probabilities.draws or 0, posterior.network, trusted)
    restored = _attach_source(posterior, task, np.random.default_rng(0) if rng is None else rng, stored_fit)
    if rng is not None:
        return restored
    alone = restored.saturated and replace(restored.saturated, source=None)
    return replace(restored, source=None, saturated=alone)


def _trusts(combined: Combined, method: str) -> bool:
    """True if the readers of this method assume the public network's independences even against the tables.

    False if no reader of the evidence has this method.
    """
    return any(reader.way and reader.way.trusts for reader in registry.readers_of(combined) if reader.method == method)


def _attach_source(
    posterior: PosteriorDraws, task: DrawTask, rng: np.random.Generator, stored_fit: GoodnessOfFit | None = None
) -> PosteriorDraws:
    """Attach source, basis, accounts and sums of numbers to drawn rows, and project them to the public network.

    The source draws the task again by the same method (`_draw_again`). The accounts are those that paid for the
    releases, and those of a given prior. The sums are those of the evidence (`number_evidence`), None without any.

    Args:
        posterior: draws under the task's network; not changed.
        task: task that was drawn.
        rng: generator of new draws.
        stored_fit: stored result of `check_fit`; None computes it at first use.

    Returns:
        A copy of the posterior, over the public network; projected rows are computed at first use.
    """
    method = posterior.method
    again = partial(_draw_again, task, method)
    basis = Basis(
        task.combined, posterior.network, task.trusted, whole=_trusts(task.combined, method), stored_fit=stored_fit
    )
    accounts = frozenset(payers_of(task.combined.parts)).union(task.believed.accounts if task.believed else ())
    sums = number_evidence(task.combined)
    sourced = replace(posterior, source=Source(again, rng, task.believed), basis=basis, accounts=accounts, sums=sums)
    public = task.combined.network
    return sourced if posterior.network == public else PosteriorDraws.of_saturated(sourced, public)


def _draw_by_method(
    task: DrawTask, rng: np.random.Generator, method: str, progress: Callable[[Mixing], None] | None
) -> PosteriorDraws:
    """Draw by the method of this name, under the task's network; the method's module is loaded here.

    Args:
        task: task to draw.
        rng: source of randomness.
        method: name of a method that reads the evidence and draws; one that does not read it raises StopIteration, one
            that does not draw fails an assertion.
        progress: function that is passed on; None shows no progress.

    Returns:
        Draws under the task's network, without source and basis.
    """
    reader = next(reader for reader in registry.readers_of(task.combined) if reader.method == method)
    posterior: PosteriorDraws = registry.load_function(_require_way(reader).draw)(task, rng, progress)
    return posterior


def draw_pooled(
    task: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None = None
) -> PosteriorDraws:
    """Draw from pooled tables: latent counts, then rows; unless the network is trusted, also prepare measured sets.

    Args:
        task: tables of one data set. Its prior, updated by public records, is that of the rows; None learns it.
        rng: source of randomness.
        progress: unused, as the method has no chains.

    Returns:
        Draws of the task's network with their replicates; families and measured sets are drawn at their first use, and
        kept. `parts` is None if the network is trusted.

    Raises:
        InputError: several data sets, a release without tables, measurements that do not determine the number of
            records, or counts beyond 2^60 (`draw_latent_counts`).
    """
    drawn = draw_latent_counts(task.combined, task.draws, rng, task.believed_with_public(rng), saturated=task.network)
    law_parts = None
    if not task.trusted:
        seed = int(rng.spawn(1)[0].integers(2**63))
        sets = MeasuredSets(task.combined, drawn.probabilities, drawn.replicates, seed, drawn.weights)
        law_parts = LawParts(sets, lambda node: drawn.rows(node).counts.sum(axis=-2))
    return PosteriorDraws(drawn.probabilities, "pooled", drawn.replicates, parts=law_parts)


def _split_data_sets(combined: Combined) -> list[Combined]:
    """Split evidence by data set: those with external tables alone last, public records with the first.

    The order is otherwise kept. External figures often cover only some families; the posterior of a whole network is a
    better prior of the others.

    Returns:
        Evidence of one data set each; the first of this order has the public records, if there are any.
    """
    ordered = sorted(combined.data_sets, key=lambda releases: all(release.one_release is None for release in releases))
    return [Combined((releases,), None if index else combined.public) for index, releases in enumerate(ordered)]


def _choose_step_method(data_set: Combined) -> str:
    """Name the first method that reads one data set and accepts a prior, which then holds the other data sets.

    Without such a method it raises StopIteration; if none reads the data set, InputError.
    """
    return next(reader.method for reader in able_readers(data_set) if not _require_way(reader).own_prior)


def draw_sequentially(
    task: DrawTask, rng: np.random.Generator, progress: Callable[[Mixing], None] | None = None
) -> PosteriorDraws:
    """Draw data set by data set: a Dirichlet matched to the posterior of the rows is the prior of the next data set.

    All are drawn under the task's network. The first prior is the task's; if it is None, the method that draws the
    first data set uses its own. Each data set is drawn by the first method that reads it and accepts a prior
    (`_choose_step_method`). Data sets with external tables alone come last, otherwise they keep their order
    (`_split_data_sets`); public records update the prior of the first. Each but the last is drawn at least PRIOR_DRAWS
    times.

    Args:
        task: evidence of several data sets.
        rng: source of randomness.
        progress: unused, as each data set has its own chains.

    Returns:
        Draws given all data sets, as many as the task asks, without replicates. Their effective sample size is that of
        the last data set's draws.
    """
    *before, last = _split_data_sets(task.combined)
    believed = task.believed
    for data_set in before:
        step = DrawTask(data_set, believed, max(task.draws, PRIOR_DRAWS), task.network, task.trusted)
        believed = Dirichlet.matching(_draw_by_method(step, rng, _choose_step_method(data_set), None).probabilities)
    drawn = _draw_by_method(
        DrawTask(last, believed, task.draws, task.network, task.trusted), rng, _choose_step_method(last), None
    )
    # Replicates of the last data set would ignore the noise of the earlier ones, so they are dropped.
    return PosteriorDraws(drawn.probabilities, "sequential", find_ess=drawn.find_ess)


def _learn_prior(combined: Combined, rng: np.random.Generator) -> Dirichlet:
    """Match a Dirichlet to the prior learned from the first data set's tables; the curator's if it has none.

    It is matched by two moments to PRIOR_DRAWS draws of rows from their concentrations, without the rows' own counts,
    and each concentration is at least LEAST_PRIOR_CONCENTRATION. The first data set is that of `_split_data_sets`; the
    curator's prior is returned as it is if "pooled" cannot read it.

    Returns:
        Prior over the public network.
    """
    first = Combined(_split_data_sets(combined)[0].data_sets)
    if all(reader.method != "pooled" for reader in able_readers(first)):
        return combined.dirichlet
    network, taught = combined.network, draw_latent_counts(first, PRIOR_DRAWS, rng)
    draws = {node: dirichlet_draws(taught.rows(node).alpha, rng) for node in network.nodes}
    prior = Dirichlet.matching(Tables(network, draws, draws=PRIOR_DRAWS))
    return Dirichlet(prior.alpha.map(lambda alpha: np.maximum(alpha, LEAST_PRIOR_CONCENTRATION)))
