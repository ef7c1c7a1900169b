"""Commands that ask a release, and cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws, network_over
from discreet.cli.figures import external_lines
from discreet.cli.outlet import Outlet
from discreet.cli.posteriors import (
    GAPS,
    Drawing,
    asked_queries,
    believed_prior,
    load_asked,
    load_evidence,
    posterior_of,
)
from discreet.cli.report import origin_lines
from discreet.display.text_tables import with_noun
from discreet.errors import InputError
from discreet.model.query_grammar import parse_regression
from discreet.posterior.read import what_it_gives
from discreet.releases.combined import Evidence
from discreet.util import option_texts
from discreet.util.lazy_imports import import_late
from discreet.util.tabular import Block

if TYPE_CHECKING:
    from discreet.posterior.design.laws import Law


def show_numbers(posterior: dc.results.Posterior, level: float, outlet: Outlet) -> None:
    """Means and intervals, in JSON under the plural of what they are."""
    told = {"method": posterior.method, "level": level, f"{posterior.noun}s": posterior.rows(level=level)}
    outlet.show(told, posterior.content(level=level), posterior.tidy(level=level))


def show_parameters(evidence: Evidence, more: bool, level: float, how: Drawing, outlet: Outlet) -> None:
    """The parameters of a family; refused where more was asked than it can answer."""
    if more:
        raise InputError(
            "without queries a family's release answers with its parameters, under its own prior: leave out the prior "
            "and other options of networks, or name queries"
        )
    show_numbers(dc.read(evidence, method="parameters", draws=how.number, rng=how.rng()), level, outlet)


def show_states(posterior: dc.results.PosteriorDraws, answers: dc.results.Answers, outlet: Outlet) -> None:
    """The probabilities of a choice by a categorical factor: of its one variable, whose states are whole numbers."""
    told = {"method": posterior.method, "answers": [documents.answer_document(part) for part in answers]}
    outlet.show(told, [*answers.content(), "", f"posterior: {posterior.method}"], answers.tidy())


# --------------------------------------------------------------------------------------------------------------------
# What `query` prints of numbers that have names: coefficients of a regression, parameters of a family.

documents = import_late("discreet.queries.documents")

ROUGH_DRAWS, ROUGH_WORDS = 100, "ends of intervals are rough; ask for more (--draws)"
"""Independent draws below which the ends of 95 % intervals are told by two draws or fewer."""
Queries = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[QUERY|FILE|-]...",
        show_default="all marginals",
        help='Such as "P(lung | smoke=yes)" or "P(A=a, B | C=c)"; most probable states, "MAP(A, B | C=c)" and '
        '"MPE(| C=c)"; of numbers "E(X | C=c)", "median(X)", "quantile(X, 0.9)" and "P(X > 40)". A file has one query '
        "a line; - reads stdin.",
    ),
]
Regressions = Annotated[
    list[str] | None,
    flags.questions(
        "--regress",
        metavar="'TARGET ~ A, B'",
        help="Regress a variable on others, such as 'lung ~ smoke, age'; repeatable. Use instead of queries.",
    ),
]
Kind = Annotated[option_texts.RegressionKind, flags.questions(help=option_texts.KIND)]
Predictive = Annotated[bool, flags.questions("--predictive", help=option_texts.PREDICTIVE)]
Assuming = Annotated[option_texts.Assume | None, flags.questions(show_default="robust", help=option_texts.ASSUME)]
Inside = Annotated[option_texts.Inside, flags.questions(help=option_texts.INSIDE)]
Covariates = Annotated[
    str | None,
    flags.questions(
        metavar="FILE|even",
        help="For a release of a logistic regression: a release over a network of its features, or 'even' if they fill "
        "their bounds evenly.",
    ),
]


def query(
    release: flags.ReleaseFile,
    queries: Queries = None,
    regress: Regressions = None,
    kind: Kind = "linear",
    level: flags.Level = option_texts.DEFAULT_LEVEL,
    predictive: Predictive = False,
    method: flags.Method = None,
    prior: flags.Prior = None,
    equivalent_sample_size: flags.EquivalentSampleSize = 1.0,
    draws: flags.Draws = None,
    trust_network: flags.TrustNetwork = False,
    assume: Assuming = None,
    inside: Inside = "log-linear",
    missing: flags.MissingAs = None,
    covariates: Covariates = None,
    seed: flags.Seed = None,
    form: flags.Format = None,
    output: flags.Output = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Answer questions from a release, with intervals.

    Intervals cover sampling error and privacy noise. The column "noise" is the noise's share of an answer's variance,
    with its Monte Carlo error. A release of a regression or a direction answers with all its coefficients.

    Example:
        discreet query release.json "P(lung | smoke=yes)" --level 0.9
        discreet query release.json --regress "dysp ~ smoke, bronc" --kind logistic
    """
    outlet = Outlet.of(form, output, replace, as_json)
    asked = asked_queries(queries, release)
    regressions = _read_regressions(regress or [], kind, bool(asked) or predictive)
    bare = not (asked or regressions)
    evidence, stored = load_asked(release)
    how = Drawing(method, draws, seed, trust_network=trust_network)
    check_draws(how.with_stored(stored), level)
    gives = what_it_gives(evidence)
    if gives == "states" and prior is None and not regressions:
        posterior = posterior_of(evidence, how)
        show_states(posterior, _ask(posterior, asked, level, predictive, assume, inside), outlet)
        return
    if gives in ("weights", "states"):
        more = not bare or _is_about_networks(how, prior, predictive, "exact")
        _show_weights(evidence.one_release, more, covariates, level, how, outlet)
        return
    if covariates is not None:
        raise InputError("--covariates is for releases of a logistic regression")
    if bare and gives == "family":
        show_parameters(evidence, _is_about_networks(how, prior, predictive, "family"), level, how, outlet)
        return
    how = with_(how, prior=believed_prior(evidence, prior, equivalent_sample_size, how))
    posterior = posterior_of(evidence, how, missing, stored)
    if regressions:
        found = _regress(posterior, regressions, (kind, assume, inside), level)
    else:
        found = _found_answers(_ask(posterior, asked, level, predictive, assume, inside))
    _show_replies(evidence, posterior, found, how, assume is None, outlet)


@dataclass(frozen=True)
class _Found:
    """Replies as JSON, as they are shown and as rows, and whether any is about a pair that no table holds."""

    document: dict[str, object]
    content: list[str | Block]
    rows: list[dict[str, Any]]
    unmeasured: bool


def _found_answers(answers: dc.results.Answers) -> _Found:
    """Write answers in all forms."""
    told: dict[str, object] = {"answers": [documents.answer_document(part) for part in answers]}
    return _Found(told, list(answers.content()), answers.tidy(), any(part.unmeasured for part in answers))


def _regress(
    posterior: dc.results.PosteriorDraws,
    asked: list[tuple[str, tuple[str, ...]]],
    options: tuple[str, str | None, str],
    level: float,
) -> _Found:
    """Regress, and write the coefficients in all forms."""
    how: Any = dict(zip(("kind", "assume", "inside"), options, strict=True))
    found = [dc.regress(posterior, target, on, **how) for target, on in asked]
    told: dict[str, object] = {"regressions": [documents.regression_document(part, level) for part in found]}
    content = [block for part in found for block in ("", *part.content(level=level))][1:]
    rows = [row for part in found for row in part.tidy(level=level)]
    return _Found(told, content, rows, any(part.unmeasured for part in found))


def _show_replies(
    evidence: Evidence,
    posterior: dc.results.PosteriorDraws,
    found: _Found,
    how: Drawing,
    by_itself: bool,
    outlet: Outlet,
) -> None:
    """Print replies, and what they were read from."""
    told, lines = _say_origin(evidence, posterior)
    draws = posterior.cells.draws or how.number
    told |= found.document
    told["effective"] = worth = posterior.ess()
    if worth < min(ROUGH_DRAWS, draws):
        lines.append(f"the {draws:,} draws are worth {worth:,.0f} independent ones: {ROUGH_WORDS}")
    if by_itself and posterior.doubting and found.unmeasured:
        lines = ["what is assumed may be off what the network says; --assume network believes it", *lines]
    outlet.show(told, [*found.content, "", *lines], found.rows)


def _read_regressions(texts: list[str], kind: str, more: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Read regressions; refuse what does not go with them, or without."""
    asked = [parse_regression(text) for text in texts]
    if asked and more:
        raise InputError("--regress is asked without queries and without --predictive")
    if not asked and kind != "linear":
        raise InputError("--kind is for --regress")
    return asked


def _say_origin(evidence: Evidence, posterior: dc.results.PosteriorDraws) -> tuple[dict[str, object], list[str]]:
    """Say how a posterior was drawn, and what it was read from: as JSON and in lines."""
    checked = dc.check_fit(evidence) if posterior.basis is None else posterior.basis.fit_check
    combined = dc.tools.evidence_of(evidence)
    networks = [part.network for part in combined.parts]
    told: dict[str, object] = documents.source_document(evidence, posterior, checked)
    arcs = 0 if posterior.saturated is None else len(posterior.saturated.network.arcs) - len(posterior.network.arcs)
    read = f", read with {with_noun(arcs, 'more arc')} that its tables carry" if arcs else ""
    network = f"network: {checked}" if checked.pairs_in_tables else "network: taken as it is"
    lines = [f"posterior: {posterior.method}{read}", network, *origin_lines(*networks)]
    if how := told.get("missing"):
        lines.append(f"missing values: {GAPS[str(how)]}")
        if how == "at-random":
            lines.append("the part of the noise is not known then; --missing state tells it, with gaps as a state")
    return told, [*lines, *external_lines(*combined.external)]


def fit(
    release: flags.ReleaseFile,
    network: flags.OtherNetwork = None,
    form: flags.Format = None,
    output: flags.Output = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Test the network of a release against its tables.

    A right network is contradicted in at most one release of a hundred. Variables that no table holds together are not
    tested. The test spends no budget.

    Example:
        discreet fit release.json
        discreet fit release.json --network none
    """
    outlet = Outlet.of(form, output, replace, as_json)
    evidence = load_evidence(release)
    checked = dc.check_fit(
        evidence, network=None if network is None else network_over(network, evidence.network.schema)
    )
    outlet.show(documents.fit_document(checked), checked.content(), checked.tidy())


def _ask(
    posterior: dc.results.PosteriorDraws,
    asked: list[str] | None,
    level: float,
    predictive: bool,
    assume: str | None,
    inside: str,
) -> dc.results.Answers:
    """Answer the queries, or all marginals without any."""
    if asked:
        how: Any = {"assume": assume, "inside": inside}
        return dc.answer_many(posterior, asked, level=level, predictive=predictive, **how)
    if assume is not None:
        raise InputError("--assume is about several variables at once; name the queries")
    return dc.marginals(posterior, {}, level=level, predictive=predictive)


def _show_weights(
    release: dc.Release, more: bool, covariates: str | None, level: float, how: Drawing, outlet: Outlet
) -> None:
    """Show all coefficients of a regression, or the vector of a direction."""
    if more:
        raise InputError(
            "a release of a regression or direction answers with all its coefficients: ask without queries, prior and "
            "method; predictions are the estimators' (see the README)"
        )
    if covariates is None and getattr(release.payload, "curvature", release) is None:
        raise InputError(
            "a logistic regression needs the law of its features: --covariates FILE, a release over a network of them, "
            "binned; or --covariates even, if they are known to fill their bounds evenly"
        )
    options = {} if covariates is None else {"covariates": _read_law(covariates, release.design, how)}
    method = "exact" if how.method == "exact" else "auto"
    show_numbers(dc.read(release, method=method, draws=how.number, rng=how.rng(), **options), level, outlet)


def _is_about_networks(how: Drawing, prior: str | None, predictive: bool, method: str) -> bool:
    """Whether options of networks were given, for a release that has but one method of its own."""
    return prior is not None or predictive or how.trust_network or how.method not in (None, "noise-aware", method)


def _read_law(covariates: str, design: dc.Design, how: Drawing) -> Law:
    """Read the law of features: even, or what a release over a network says."""
    if covariates == "even":
        return dc.research.uniform_law(design)
    evidence, stored = load_asked(covariates)
    drawing = Drawing(draws=200, seed=how.seed) if stored is None else Drawing()
    posterior = posterior_of(evidence, drawing, stored=stored)
    if posterior.network.may_be_missing:  # a feature is a number, and a gap is none
        posterior = dc.tools.assume_at_random(posterior)
    return dc.research.released_covariates(posterior, design, rng=how.rng(2))
