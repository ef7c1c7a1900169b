"""Commands that query a release, and spend no budget."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as with_
from typing import Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws, network_over
from discreet.cli.external_tables import external_lines
from discreet.cli.output_options import OutputOptions
from discreet.cli.posteriors import (
    GAPS,
    Drawing,
    load_evidence,
    load_source,
    posterior_of,
    read_prior,
    read_queries,
)
from discreet.cli.report import origin_lines
from discreet.display.text_tables import with_noun
from discreet.errors import InputError, require
from discreet.model.query_grammar import parse_regression, split_evidence
from discreet.posterior.read import posterior_kind
from discreet.releases.combined import Evidence
from discreet.util import option_texts
from discreet.util.lazy_imports import lazy_import
from discreet.util.tabular import Block


def show_numbers(posterior: dc.results.Posterior, level: float, out: OutputOptions) -> None:
    """Print means and intervals, in JSON under their plural noun."""
    document = {"method": posterior.method, "level": level, f"{posterior.noun}s": posterior.rows(level=level)}
    out.show(document, posterior.content(level=level), posterior.tidy(level=level))


def show_parameters(evidence: Evidence, more: bool, level: float, how: Drawing, out: OutputOptions) -> None:
    """Print the parameters of a family; refuse options that they do not have."""
    words = "without queries a family's release prints its parameters, under its own prior: leave out the prior "
    require(not more, f"{words}and other options of networks, or give queries")
    show_numbers(dc.read(evidence, method="parameters", draws=how.number, rng=how.rng()), level, out)


def show_states(posterior: dc.results.PosteriorDraws, answers: dc.results.Answers, out: OutputOptions) -> None:
    """Print the probabilities of a choice by a categorical factor: one variable, with whole numbers as states."""
    document = {"method": posterior.method, "answers": [documents.answer_document(each) for each in answers]}
    out.show(document, [*answers.content(), "", f"posterior: {posterior.method}"], answers.tidy())


# --------------------------------------------------------------------------------------------------------------------
# `query`: answers, coefficients of a regression, parameters of a family.

documents = lazy_import("discreet.queries.documents")

ROUGH_DRAWS, ROUGH_WORDS = 100, "ends of intervals are rough; draw more (--draws)"
"""Independent draws below which two or fewer determine each end of a 95 % interval."""
Queries = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[QUERY|FILE|-]...",
        show_default="all marginals",
        help='Such as "P(lung | smoke=yes)" or "P(A=a, B | C=c)"; most probable states, "MAP(A, B | C=c)" and '
        '"MPE(| C=c)"; of numbers "E(X | C=c)", "sd(X)", "var(X)", "median(X)", "quantile(X, 0.9)", "P(X > 40)", '
        '"cov(X, Z)" and "cor(X, Z | C=c)"; evidence may be a comparison or a number, "E(X | Z > 40, W=3.5)"; '
        'differences, ratios, events and counts, "P(A=a | C=c) - P(A=a | C=d)", "P(A=a or B=b)", "N(A=a)". A file has '
        "one query a line; - reads stdin.",
    ),
]
Regressions = Annotated[
    list[str] | None,
    flags.questions(
        "--regress",
        metavar="'TARGET ~ A, B | C=c'",
        help="Regress a variable on others, such as 'lung ~ smoke, age', or among the records with some states, "
        "'bp ~ age | smoke=yes'; repeatable. Use instead of queries.",
    ),
]
Kind = Annotated[option_texts.RegressionKind, flags.questions(help=option_texts.KIND)]
Predictive = Annotated[bool, flags.questions("--predictive", help=option_texts.PREDICTIVE)]
Assuming = Annotated[option_texts.Assume | None, flags.questions(show_default="robust", help=option_texts.ASSUME)]
Inside = Annotated[option_texts.Inside, flags.questions(help=option_texts.INSIDE)]
Together = Annotated[bool, flags.questions("--simultaneous", help="Intervals that hold for all answers at once.")]
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
    simultaneous: Together = False,
    missing: flags.MissingAs = None,
    covariates: Covariates = None,
    latent: flags.Latent = None,
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
    out = OutputOptions.of(form, output, replace, as_json)
    texts = read_queries(queries, release)
    regressions = _read_regressions(regress or [], kind, bool(texts) or predictive)
    bare = not (texts or regressions)
    evidence, stored = load_source(release)
    how = Drawing(method, draws, seed, trust_network=trust_network, latent=latent)
    check_draws(how.with_stored(stored), level)
    gives = posterior_kind(evidence)
    if gives == "states" and prior is None and not regressions:
        posterior = posterior_of(evidence, how)
        show_states(posterior, _ask(posterior, texts, level, predictive, assume, inside, simultaneous), out)
        return
    if gives in ("weights", "states"):
        more = not bare or _is_about_networks(how, prior, predictive, "exact")
        _show_weights(evidence.one_release, more, covariates, level, how, out)
        return
    require(covariates is None, "--covariates is for releases of a logistic regression")
    if bare and gives == "family":
        show_parameters(evidence, _is_about_networks(how, prior, predictive, "family"), level, how, out)
        return
    how = with_(how, prior=read_prior(evidence, prior, equivalent_sample_size, how))
    posterior = posterior_of(evidence, how, missing, stored)
    answers = None if regressions else _ask(posterior, texts, level, predictive, assume, inside, simultaneous)
    replies = _write_answers(answers) if answers else _regress(posterior, regressions, (kind, assume, inside), level)
    _show_replies(evidence, posterior, replies, how, assume is None, out)


@dataclass(frozen=True)
class _Replies:
    """Replies as JSON, as blocks to show and as rows; True if one is about a pair that no table holds."""

    document: dict[str, object]
    content: list[str | Block]
    rows: list[dict[str, Any]]
    unmeasured: bool


def _write_answers(answers: dc.results.Answers) -> _Replies:
    """Write answers in all forms."""
    document: dict[str, object] = {"answers": [documents.answer_document(each) for each in answers]}
    return _Replies(document, list(answers.content()), answers.tidy(), any(each.unmeasured for each in answers))


def _regress(
    posterior: dc.results.PosteriorDraws,
    formulas: list[tuple[str, tuple[str, ...], str]],
    options: tuple[str, str | None, str],
    level: float,
) -> _Replies:
    """Regress, and write the coefficients in all forms."""
    how: Any = dict(zip(("kind", "assume", "inside"), options, strict=True))
    regressions = [dc.regress(posterior, target, on, given=states, **how) for target, on, states in formulas]
    document: dict[str, object] = {"regressions": [documents.regression_document(each, level) for each in regressions]}
    content = [block for each in regressions for block in ("", *each.content(level=level))][1:]
    rows = [row for each in regressions for row in each.tidy(level=level)]
    return _Replies(document, content, rows, any(each.unmeasured for each in regressions))


def _show_replies(
    evidence: Evidence,
    posterior: dc.results.PosteriorDraws,
    replies: _Replies,
    how: Drawing,
    by_itself: bool,
    out: OutputOptions,
) -> None:
    """Print replies, and the source that they were read from."""
    document, lines = _describe_origin(evidence, posterior)
    draws = posterior.probabilities.draws or how.number
    document |= replies.document
    document["effective"] = ess = posterior.ess()
    if ess < min(ROUGH_DRAWS, draws):
        lines.append(f"the {draws:,} draws equal {ess:,.0f} independent ones: {ROUGH_WORDS}")
    if by_itself and posterior.doubting and replies.unmeasured:
        lines = ["assumed answers allow for errors of the network; --assume network trusts it", *lines]
    out.show(document, [*replies.content, "", *lines], replies.rows)


def _read_regressions(texts: list[str], kind: str, more: bool) -> list[tuple[str, tuple[str, ...], str]]:
    """Read regressions; refuse options that do not go together."""
    formulas = [(*parse_regression(formula), states) for formula, states in map(split_evidence, texts)]
    require(not (formulas and more), "--regress takes no queries and no --predictive; leave them out")
    require(bool(formulas) or kind == "linear", "--kind is for --regress; leave it out")
    return formulas


def _describe_origin(evidence: Evidence, posterior: dc.results.PosteriorDraws) -> tuple[dict[str, object], list[str]]:
    """Describe the method and source of a posterior: as JSON and in lines."""
    checked = dc.check_fit(evidence) if posterior.basis is None else posterior.basis.fit_check
    combined = dc.tools.evidence_of(evidence)
    networks = [each.network for each in combined.parts]
    document: dict[str, object] = documents.source_document(evidence, posterior, checked)
    arcs = 0 if posterior.saturated is None else len(posterior.saturated.network.arcs) - len(posterior.network.arcs)
    read = f", over a network with {with_noun(arcs, 'more arc')} from its tables" if arcs else ""
    network = f"network: {checked}" if checked.pairs_in_tables else "network: taken as it is"
    lines = [f"posterior: {posterior.method}{read}", network, *origin_lines(*networks)]
    if how := document.get("missing"):
        lines.append(f"missing values: {GAPS[str(how)]}")
        if how == "at-random":
            lines.append("the noise share is not available under this assumption; it is with --missing state")
    return document, [*lines, *external_lines(*combined.external)]


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
    out = OutputOptions.of(form, output, replace, as_json)
    evidence = load_evidence(release)
    checked = dc.check_fit(
        evidence, network=None if network is None else network_over(network, evidence.network.schema)
    )
    out.show(documents.fit_document(checked), checked.content(), checked.tidy())


def _ask(
    posterior: dc.results.PosteriorDraws,
    queries: list[str] | None,
    level: float,
    predictive: bool,
    assume: str | None,
    inside: str,
    simultaneous: bool,
) -> dc.results.Answers:
    """Answer the queries, or all marginals without any."""
    how: Any = {"assume": assume, "inside": inside}
    if queries:
        answers = dc.answer_many(posterior, queries, level=level, predictive=predictive, **how)
    else:
        require(assume is None, "--assume needs queries of several variables; give some")
        answers = dc.marginals(posterior, {}, level=level, predictive=predictive)
    return answers.simultaneous() if simultaneous else answers


def _show_weights(
    release: dc.Release, more: bool, covariates: str | None, level: float, how: Drawing, out: OutputOptions
) -> None:
    """Print all coefficients of a regression, or the vector of a direction."""
    if more:
        raise InputError(
            "a release of a regression or direction prints all its coefficients: leave out queries, prior and "
            "method; for predictions use the estimators (see the README)"
        )
    if covariates is None and getattr(release.payload, "curvature", release) is None:
        raise InputError(
            "a logistic regression needs the law of its features: give --covariates FILE, a release over a network of "
            "them, binned; or --covariates even, if they fill their bounds evenly"
        )
    options = {} if covariates is None else {"covariates": _read_law(covariates, release.over, how)}
    method = "exact" if how.method == "exact" else "auto"
    show_numbers(dc.read(release, method=method, draws=how.number, rng=how.rng(), **options), level, out)


def _is_about_networks(how: Drawing, prior: str | None, predictive: bool, method: str) -> bool:
    """Return True if options of networks were given for a release with only one method."""
    return prior is not None or predictive or how.trust_network or how.method not in (None, "noise-aware", method)


def _read_law(covariates: str, design: Any, how: Drawing) -> Any:
    """Read the law of features: even, or from a release over a network."""
    if covariates == "even":
        return dc.research.uniform_law(design)
    evidence, stored = load_source(covariates)
    drawing = Drawing(draws=200, seed=how.seed) if stored is None else Drawing()
    posterior = posterior_of(evidence, drawing, stored=stored)
    if posterior.network.may_be_missing:  # features are numbers, without missing values
        posterior = dc.tools.assume_at_random(posterior)
    return dc.research.released_covariates(posterior, design, rng=how.rng(2))
