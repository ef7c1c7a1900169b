"""Report of a release, or of combined ones, for readers: guarantees in words, budgets, and answers with uncertainty.

It uses only what was released and, if given, an account's balance, so it may be published with it. It is one file, with
no scripts and no network requests.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.display.network_svg import MOST_DRAWN_NODES
from discreet.display.renderers import IntervalTable
from discreet.display.text_tables import with_noun
from discreet.errors import InputError, printable, require, require_word
from discreet.model.network import Network
from discreet.model.schema import Variable
from discreet.posterior.fit_check import check_fit
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import noise_aware
from discreet.posterior.protocol import equal_tails
from discreet.posterior.read import read
from discreet.privacy.guarantee import Relation, as_text
from discreet.queries.answers import Answers, state_text
from discreet.queries.distributions import distributions
from discreet.queries.query import marginals
from discreet.releases.combined import Combined, Evidence, evidence_of
from discreet.releases.external_figures import External
from discreet.releases.release import Release
from discreet.reporting.explain import describe_promise, describe_together
from discreet.reporting.explanation import InferenceLimits, MetricLimits, write_factor
from discreet.util.arrays import Floats
from discreet.util.lazy_imports import lazy_import
from discreet.util.option_texts import DEFAULT_LEVEL, ReportForm
from discreet.util.randomness import Seed

if TYPE_CHECKING:
    from discreet.privacy.ledger_balance import Balance

jinja2 = lazy_import("jinja2")

MOST_UNCERTAIN = 10
"""Number of the network's least certain probabilities that a report lists."""
MOST_LISTED_STATES = 12
"""Largest number of states of a variable that a report lists."""
MOST_LISTED_VARIABLES = 60
"""Largest number of variables whose states a report lists."""


def report(
    release: Evidence,
    *,
    posterior: PosteriorDraws | None = None,
    form: ReportForm = "html",
    balance: Balance | None = None,
    level: float = DEFAULT_LEVEL,
    name: str = "release.json",
    rng: Seed = None,
) -> str:
    """Write a report of a release: its guarantee in words, and its answers with their uncertainty.

    Of combined releases it has the data sets, what each release of them spent, what all releases of the same records
    reveal together, as `explain`, and the answers from all of them.

    If the release has no posterior over a network, the report gives the reason in place of the answers. Otherwise it
    lists the law of every variable, means, deviations and quartiles of the numeric columns of which sums were released,
    and the mean width of each table's intervals; a posterior over the network without
    missing values gets a note. The network's independences are tested if the release has measurements (`check_fit`).
    The HTML alone draws a network of at most MOST_DRAWN_NODES variables, and lists the MOST_UNCERTAIN entries with the
    widest intervals.

    Args:
        release: a release of any kind, combined releases, or figures by others.
        posterior: posterior of the release, such as stored draws, over its network with or without its missing values;
            None draws one by `noise_aware` if the release is over a network. Not used for other releases.
        form: "html" for one file of HTML without scripts, or "markdown".
        balance: balance of the account that paid, as `Account.balance` returns it; None leaves other releases out.
            Not for combined releases, of which several accounts may have paid.
        level: posterior probability of each interval; checked only if there are answers.
        name: name of the release's file, for the commands that check it.
        rng: source of the posterior's draws; nothing here is private. None uses the seed 0, so that the report can be
            repeated.

    Returns:
        The text of the file; nothing is written to disk.

    Raises:
        InputError: no release; another form, a balance beside combined releases, a level outside (0, 1), or a posterior
            of another network.
        DiscreetError: new draws could not be made, as in `noise_aware`.

    Guarantee:
        No budget is spent; only the release and the ledger's entries on an account are read.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1, 0, 1]})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> made = dc.simulate(dc.planned(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
        >>> "protects nobody" in dc.report(made, rng=2)
        True
    """
    require_word(form, ReportForm, "a report is")
    single = getattr(release, "one_release", None)
    if single is not None:
        described = _describe(single, balance, name)
    else:
        described = _describe_combined(evidence_of(release), name)
        require(balance is None, "a balance is of one release's account: leave it out for combined releases")
    context = {"data_sets": (), **_describe_network(release), **described}
    answers = _read(release, posterior, rng, level)
    context |= {
        "marginals": None,
        "uncertain": None,
        "no_answers": [],
        "numbers": None,
        "distributions": (),
        "level": f"{100 * level:g}",
        "widths": None,
    }
    if isinstance(answers, str):
        context["no_answers"] = [answers]
    else:
        drawn, by_state = answers
        if drawn.network not in _networks(release):
            context["dropped"] = [*context["dropped"], AT_RANDOM]
        spans, shown = _find_intervals(drawn, level), distributions(drawn, level=level)
        context |= {
            "marginals": IntervalTable([dict(list(row.items())[1:]) for row in by_state.tidy()], most=None),
            "uncertain": IntervalTable(_list_uncertain(drawn, spans), most=None),
            "distributions": shown,
            "numbers": IntervalTable([row for column in shown for row in column.rows()], most=None) if shown else None,
            "widths": {node: float(np.mean(upper - lower)) for node, (lower, upper) in spans.items()},
        }
    if context["drawn"]:
        context["drawing"] = _networks(release)[0].to_svg(
            widths_of_intervals=context["widths"], refuted=context["refuted"]
        )
    context["policy"] = report_policy()
    return str(_templates().get_template("report.html" if form == "html" else "report.md").render(context))


@cache
def report_policy() -> str:
    """Return the content security policy of an HTML report: only its style, identified by its digest, is loaded.

    The digest is the SHA-256 of the text between the template's first `<style>` and `</style>`, in Base64. Computed
    once.
    """
    style = _texts()["report.html"].partition("<style>")[2].partition("</style>")[0]
    return f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


@cache
def _texts() -> Mapping[str, str]:
    """Return the texts of the templates "report.html" and "report.md" by name; they are read once."""
    folder = files("discreet.reporting") / "templates"
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")}


@cache
def _templates() -> Any:
    """Return the Jinja environment, made once: it escapes values in HTML, and invisible characters in both forms.

    Values that are exactly `str` are made printable; texts that are marked as safe are left as they are. The filter
    "plain" is `_plain`.

    Returns:
        A `jinja2.Environment`, in which an undefined name is an error.
    """
    texts = _texts()
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(texts),
        autoescape=lambda name: str(name).endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["plain"] = _plain
    return environment


def _plain(text: object) -> str:
    r"""Escape a text for Markdown and HTML, on one line.

    Each run of white space becomes one blank, none at the ends; a backslash is put before each of \ ` * _ { } [ ] < > |
    and #. Other characters, such as &, stay as they are.
    """
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(str(text).split()))


# ------------------------------------------------------------------------------------------------------- the promise


def _networks(evidence: Evidence) -> tuple[Network, ...]:
    """The public network, alone; empty for a release over something else."""
    return (evidence.network,) if evidence.one_release is None else evidence.one_release.networks


def _describe_network(evidence: Evidence) -> dict[str, Any]:
    """Collect the report's fields on the network and its check, and the digest of the document.

    The network is the first one. `check_fit` is called if there is one and something was measured.

    Args:
        evidence: of the report.

    Returns:
        Values by their names in the templates. "arcs" has (node, its parents as text) for every node; "refuted" has
        contradicted pairs, "contradicted" their tests as (variables, effect, p), all as text. "drawing" is empty, and
        the caller fills it if "drawn" is true: there is a network of at most MOST_DRAWN_NODES variables. "fit" is an
        empty text, and "contradicted" and "refuted" are empty, if nothing was checked; "arcs" is empty, and "too_large"
        and "learned" are empty texts, without a network.
    """
    network = next(iter(_networks(evidence)), None)
    drawn = network is not None and len(network.nodes) <= MOST_DRAWN_NODES
    checked, reason = None, ""
    if network is not None and any(part.measurements for part in evidence.parts):
        try:
            checked = check_fit(evidence)
        except InputError as error:
            reason = f"It is not tested: {error}"
    contradicted = () if checked is None else checked.contradicted
    return {
        "drawn": drawn,
        "drawing": "",
        "refuted": () if checked is None else checked.contradicted_pairs,
        "arcs": [] if network is None else [(node, _name_all(network.parents[node])) for node in network.nodes],
        "too_large": "" if network is None or drawn else f"{len(network.nodes):,} variables: too many to draw here",
        "learned": "" if network is None or network.learned is None else f". It was {network.learned}",
        "fit": reason if checked is None else str(checked),
        "contradicted": [(" – ".join(test.variables), f"{test.effect:.3f}", f"{test.p:.2g}") for test in contradicted],
        "digest": hashlib.sha256(evidence.dumps().encode()).hexdigest(),
        "proof": PROOF,
    }


def _describe_combined(combined: Combined, name: str) -> dict[str, Any]:
    """Collect the fields of combined releases: data sets, spending, and what those of the same records reveal together.

    Args:
        combined: releases and figures by others.
        name: name of the document's file; only the commands contain it.

    Returns:
        Values by their names in the templates. "data_sets" has for each data set its "head", "rows" of (release, date,
        mechanism or source, what was spent), and the sentences "together" on what all of it reveals.
    """
    sets, number = list[dict[str, Any]](), len(combined.data_sets)
    for at, (documents, promise) in enumerate(zip(combined.data_sets, combined.guarantees, strict=True), 1):
        records, limits = combined.records[at - 1], describe_together(promise)
        sets.append({
            "head": f"Data set {at} of {number}" + ("" if records is None else f": {records:,} records"),
            "rows": [_describe_part(document) for document in documents],
            "together": [limits] if isinstance(limits, str) else [line.strip() for line in limits.lines()],
        })  # fmt: skip
    public = "" if combined.public is None else ", and public records are counted beside them"
    ids = ", ".join(part.id for part in combined.parts)
    heading = "Private releases" if combined.releases else "Figures by others"
    return {
        "title": f"{heading} of {_name_first(combined.network.nodes, 3, 'variable')}",
        "id": combined.id,
        "private": combined.private,
        "lead": f"{with_noun(len(combined.parts), 'document')} on {with_noun(number, 'data set')}{public}",
        "data_sets": sets,
        "released": "sums of numbers were released",
        "dropped": [],
        "commands": [f"{command} {shlex.quote(name)}" for command in ("sha256sum", *COMMANDS)],
        "citation": f"Differentially private releases {ids}, combined with discreet.",
    }


def _describe_part(document: Release | External) -> tuple[str, str, str, str]:
    """Describe a release by its id, date, mechanism and price; figures by others by their source and its promise."""
    if isinstance(document, External):
        stated = "nothing is promised" if document.guarantee is None else f"{document.guarantee}, as the source says"
        return document.id, "", f"figures by others: {document.source}", stated
    spent = str(document.guarantee) if document.private else "nothing: a simulation"
    return document.id, document.date.isoformat(), document.mechanism, spent


COMMANDS = ("discreet explain", "discreet query", "discreet fit")
"""Commands that read the numbers of a report over a network again."""


def _describe(release: Release, balance: Balance | None, name: str) -> dict[str, Any]:
    """Collect the fields of a single release: guarantee, budget, commands.

    Args:
        release: the release that the report is about.
        balance: balance of the account that was charged; None if there is no account.
        name: name of the release's file; only the commands contain it.

    Returns:
        Values by their names in the templates: head ("title", "date", "mechanism", "id", "private", "unit",
        "add_remove"), words ("promise", "symbols", "released", "unit_lines", "budget", "taken", "public", "dropped",
        "citation") and "commands". "beliefs" is empty under a metric.
    """
    guarantee = release.guarantee
    promised = describe_promise(release)
    beliefs = _list_beliefs(promised) if isinstance(promised, InferenceLimits) else []
    return {
        "title": f"Private release of {_name_subject(release)}",
        "date": release.date.isoformat(),
        "mechanism": release.mechanism,
        "id": release.id,
        "private": release.private,
        "unit": guarantee.unit,
        "add_remove": guarantee.relation is Relation.ADD_REMOVE,
        "promise": promise_words(release),
        "symbols": _write_symbols(release),
        "beliefs": beliefs,
        "released": release.payload.summary(release.calibration),
        "unit_lines": release.unit_lines or [UNTOLD_UNITS],
        "budget": _write_budget(release, balance),
        "taken": TAKEN,
        "public": _list_public(release),
        "dropped": _list_dropped(release),
        "commands": _list_commands(release, name),
        "citation": f"Differentially private release {release.id} of {release.date.isoformat()}, {guarantee}, "
        f"mechanism {release.mechanism}; made with discreet.",
    }


TAKEN = (
    "The promise does not cover what follows. That none of it was read off the records, or that it was released at a "
    "price of its own, is the curator's word:"
)
AT_RANDOM = (
    "the estimates are of complete records, as they would be if values are missing at random given what was seen; what "
    "share of their variance is noise is not known then"
)
UNTOLD_UNITS = "each record by itself; nothing told apart which records are of one person"
PROOF = (
    "audit measures what the mechanism really reveals on small data sets; explain says what this release can reveal; "
    "query reads the numbers above again. The documentation's theory page has the proofs."
)


def _name_subject(release: Release) -> str:
    """Write the first three variables' names as the subject of the records, and the number of the others, if any."""
    return _name_first(release.over.schema.names, 3, "variable")


def _name_all(names: Iterable[str]) -> str:
    """Write all names in one line, with commas; a report leaves none out as `listed` does."""
    return ", ".join(map(printable, names))


def _name_first(names: Sequence[str], most: int, noun: str) -> str:
    """Write the first `most` names in one line, and the number of the others, if any, with their noun."""
    return _name_all(names[:most]) + (f" and {with_noun(len(names) - most, f'more {noun}')}" if names[most:] else "")


def promise_words(release: Release) -> list[str]:
    """Write the guarantee in words: what it compares, and what it does not promise.

    Args:
        release: release of any kind.

    Returns:
        Sentences, a paragraph each: the limits on odds (on changes of a value, under a metric); if delta is positive,
        its meaning; for whom it holds; and, except under a metric, what several records of one unit mean.
    """
    guarantee, unit, promised = release.guarantee, release.guarantee.unit, describe_promise(release)
    lines = _write_changes(release) if isinstance(promised, MetricLimits) else _write_odds(promised, unit)
    if isinstance(promised, InferenceLimits) and guarantee.delta:
        lines.append(_write_delta(promised))
    lines.append(
        "It holds for everybody alike, whatever else anybody knows or learns later, and whatever is done with the "
        "release. It does not hide what the records say of people in general: that is what a release is for."
    )
    if isinstance(promised, InferenceLimits):
        lines.append(
            f"Who stands behind k {unit}s has k times the epsilon: the factors above to the power of k"
            f"{', and a delta that grows faster' if guarantee.delta else ''}. What other releases of the same records "
            "say adds to it."
        )
    return lines


def _write_odds(promised: InferenceLimits, unit: str) -> list[str]:
    """Write the limits on the odds of a record's presence and of its values, and what they are compared with.

    Odds of other conclusions that depend on the record and on others can move by as much as those between two values.

    Args:
        promised: limits on the knowledge about one record.
        unit: unit that a record stands for.

    Returns:
        Sentences: on presence if it is protected; on values, or that nothing is promised of them if their limit is
        None; and, if presence is not protected, that it is not.
    """
    whose = "any one record" if unit == "record" else f"the record of any one {unit}"
    lines = []
    if promised.presence is not None:
        lines.append(
            f"The odds that {whose} is among the records move by a factor of at most "
            f"{write_factor(promised.presence)}, compared with what anybody would believe had that record not been "
            "used."
        )
    if promised.value is None:
        lines.append(f"Of which value {whose} has nothing is promised: for that the delta is too large.")
    else:
        compared = OTHER_IN_ITS_PLACE if promised.presence is None else "compared in the same way"
        lines.append(
            f"The odds between any two values that {whose} may have move by a factor of at most "
            f"{write_factor(promised.value)}, {compared}."
        )
    if promised.presence is None:
        lines.append("That a record is among the records is not protected, and their number is public.")
    return lines


OTHER_IN_ITS_PLACE = "compared with what anybody would believe had the other of the two stood in its place"


def _write_delta(promised: InferenceLimits) -> str:
    """Write the meaning of delta, as a procedure that fails with that probability, in one sentence.

    It states the delta of presence, and that of values beside it if both are promised. Deltas must be positive.

    Source:
        Kairouz, Oh and Viswanath (2015), Theorem 3.4.
    """
    presence, value = (f"{delta:.3g} (about 1 in {1 / delta:,.0f})" for delta in (promised.delta, promised.value_delta))
    chances = presence if promised.presence is None or promised.value is None else f"{presence}, of values {value},"
    return (
        f"Nobody learns more than from a procedure that keeps to these factors but for a chance of {chances} with "
        "which it reveals everything."
    )


def _write_changes(release: Release) -> list[str]:
    """Write what a change of a record's value can reveal under a metric: a list of one paragraph.

    It states the factor `e^epsilon` for values that are one unit apart, and its k-th power for k units.
    """
    guarantee = release.guarantee
    factors = (
        f"The odds between two values of a record that are apart by {guarantee.unit} move by a factor of at most "
        f"{write_factor(float(guarantee.epsilon))}, {OTHER_IN_ITS_PLACE}; between values k times as far apart by that "
        "factor to the power of k. Nothing is promised of whole records."
    )
    chance = (
        "Nobody learns more than from a procedure that keeps to these factors but for a chance of "
        f"{as_text(guarantee.delta)} for each unit with which it reveals everything."
    )
    return [factors, *[chance] * bool(guarantee.delta)]


def _write_symbols(release: Release) -> str:
    """Write the guarantee as a formula in one line.

    Args:
        release: release of any kind.

    Returns:
        The definition of differential privacy with the release's epsilon, delta and relation; the term of a delta of 0
        is left out.
    """
    guarantee = release.guarantee
    epsilon, delta = as_text(guarantee.epsilon), as_text(guarantee.delta)
    delta_term = f" + {delta}" if guarantee.delta else ""
    pairs = {
        Relation.ADD_REMOVE: f"that differ by one {guarantee.unit} that is there or not",
        Relation.REPLACE: f"of the same size that differ in the record of one {guarantee.unit}",
        Relation.METRIC: f"that differ by {guarantee.unit}",
    }[guarantee.relation]
    return (
        f"for all sets S of releases and all data sets D, D' {pairs}, P(M(D) in S) <= e^{epsilon} P(M(D') "
        f"in S){delta_term}."
    )


def _list_beliefs(promised: InferenceLimits) -> list[tuple[str, str, str]]:
    """List beliefs before and after the release: before, most for presence, most for a value, in percent.

    Numbers have three significant digits; "not protected" stands for a belief that is not limited.
    """

    def percent(value: float | None) -> str:
        """Write a probability in percent, or "not protected" for None."""
        return "not protected" if value is None else f"{100 * value:.3g} %"

    return [(percent(before), percent(member), percent(value)) for before, (member, value) in promised.beliefs.items()]


def _write_budget(release: Release, balance: Balance | None) -> list[str]:
    """Write the budget spent and the budget left.

    Args:
        release: release; a simulation spent nothing.
        balance: balance of its account; None if it is unknown.

    Returns:
        Sentences: on this release; then, without a balance, that other releases are in the curator's ledger. With one:
        epsilon spent, its limit and what is left; delta spent and its limit, if that is not 0; and that the account is
        closed, if it is.
    """
    spent = f"this release spent {release.guarantee}" if release.private else "this release spent nothing"
    if balance is None:
        return [spent, "what other releases of the same records spent is written in the curator's ledger"]
    limit = balance.limit
    lines = [
        spent,
        f"all releases of this account together spent epsilon {as_text(balance.epsilon_spent)} of at most "
        f"{as_text(limit.epsilon)}; epsilon {as_text(balance.epsilon_left)} is left",
    ]
    if limit.delta:
        lines.append(f"delta: {as_text(balance.delta_spent)} of {as_text(limit.delta)}")
    return [*lines, "the account is closed: nothing more can be released"] if balance.closed else lines


def _list_public(release: Release) -> list[str]:
    """List the facts that are assumed to be public: variables, network, number of records, mechanism.

    Args:
        release: release over a network or over a design.

    Returns:
        Phrases. A network has one for each of its first MOST_LISTED_VARIABLES variables, one for the number of the
        others if there are more, and one on its arcs. A design has one with the names of its first
        MOST_LISTED_VARIABLES columns and the number of the others. The number of records is listed if the release has
        it; the mechanism always.
    """
    if not release.networks:
        columns = _name_first(release.over.schema.names, MOST_LISTED_VARIABLES, "column")
        lines = [f"the names of the columns and their bounds: {columns}"]
    else:
        variables, learned = release.network.variables, release.network.learned
        lines = [f"{variable.name}: {_describe_variable(variable)}" for variable in variables[:MOST_LISTED_VARIABLES]]
        if len(variables) > MOST_LISTED_VARIABLES:
            lines.append(f"{len(variables) - MOST_LISTED_VARIABLES:,} more variables with their states")
        if learned is None:
            lines.append("which variables depend on which, said to be drawn up without the records")
        else:
            lines.append(f"the network, which was {learned}: that is paid for beside this release")
    if release.records is not None:
        lines.append(f"the number of records, {release.records:,}, under this relation")
    return [*lines, "the mechanism, its settings, and how much noise it adds"]


def _describe_variable(variable: Variable) -> str:
    """Write a variable's bounds and number of bins, or its first MOST_LISTED_STATES states and the number of others.

    The state of missing values is no bin: it is named after them. Among other states it counts as one.
    """
    if variable.bounds is not None:
        missing = "" if variable.missing is None else f", or {variable.missing}"
        return f"numbers from {variable.bounds[0]:g} to {variable.bounds[1]:g}, in {len(variable.values)} bins{missing}"
    return _name_first(variable.states, MOST_LISTED_STATES, "state")


def _list_dropped(release: Release) -> list[str]:
    """Write how missing and out-of-bounds values, and too many records of one unit, were handled.

    Args:
        release: release with its policy.

    Returns:
        Sentences on missing values and on bounds; a third one if records have units.
    """
    policy = release.policy
    missing = {
        "error": "no value is missing: a table with missing values would have been refused",
        "drop": "records with a missing value were left out: what is said here is of complete records",
        "keep": "missing values were kept, as a state of their own",
    }[policy.missing]
    bounds = {
        "error": "no number is outside its bounds: a table with such a number would have been refused",
        "clip": "numbers outside their bounds were moved to the nearest bound",
    }[policy.out_of_bounds]
    if policy.unit_column is None:
        return [missing, bounds]
    unit = release.guarantee.unit
    return [missing, bounds, f"more than {policy.max_records:,} records of one {unit} were left out at random"]


def _list_commands(release: Release, name: str) -> list[str]:
    """List shell commands that check the statements of the report.

    Args:
        release: release of any kind.
        name: name of the release's file, quoted for the shell.

    Returns:
        Commands: `sha256sum` and `explain`; `query` and `fit` if the release has a network; `audit` except under a
        metric, where it needs the curator's own score.
    """
    promise, file = release.guarantee, shlex.quote(name)
    lines = [f"sha256sum {file}", f"discreet explain {file}"]
    if release.networks:
        lines += [f"discreet query {file}", f"discreet fit {file}"]
    if promise.relation is Relation.METRIC:
        return lines  # an audit under a metric needs the curator's own score
    delta = f" --delta {as_text(promise.delta)}" if promise.delta else ""
    audit = f"discreet audit {release.mechanism} --epsilon {as_text(promise.epsilon)}{delta}"
    return [*lines, f"{audit} --relation {promise.relation.value}"]


# ------------------------------------------------------------------------------------------------------- the answers


def _read(
    release: Evidence, posterior: PosteriorDraws | None, rng: Seed, level: float
) -> tuple[PosteriorDraws, Answers] | str:
    """Return the posterior with the probabilities of all states, or a sentence that states why there are none.

    Args:
        release: evidence of the report.
        posterior: its posterior; None draws it by `noise_aware`, of combined releases by `read`.
        rng: source of randomness of these draws; None uses the seed 0, so that reports can be repeated.
        level: posterior probability of each interval.

    Returns:
        (posterior, one answer for each variable); or a sentence: for a release without a network, whatever `posterior`
        is, and if `noise_aware` raises an `InputError`, whose text it has.

    Raises:
        InputError: a posterior of another network, unless it is the release's network without missing values; or a
            level outside (0, 1).
    """
    if not _networks(release):
        return "Its numbers are coefficients or a direction: `discreet query` prints them."
    if posterior is None:
        try:
            posterior = (read if release.one_release is None else noise_aware)(release, rng=0 if rng is None else rng)
        except InputError as error:
            return f"There are no numbers to show: {error}."
    (network,) = _networks(release)
    gaps = (network.without_missing(),) if network.may_be_missing else ()
    if posterior.network not in (network, *gaps):
        raise InputError("the posterior is of another network than the release")
    return posterior, marginals(posterior, level=level)


def _find_intervals(posterior: PosteriorDraws, level: float) -> dict[str, tuple[Floats, Floats]]:
    """Compute the equal-tailed interval of each table entry: (lower, upper), `(*parents, child)` each, by node."""
    return {node: equal_tails(posterior.probabilities[node], level, axis=-1) for node in posterior.network.nodes}


def _list_uncertain(posterior: PosteriorDraws, spans: Mapping[str, tuple[Floats, Floats]]) -> list[dict[str, Any]]:
    """List the probabilities of the network's tables with the widest intervals.

    Args:
        posterior: posterior over the network.
        spans: for each node lower and upper ends of its table's entries, shape `(*parents, child)` each.

    Returns:
        At most MOST_UNCERTAIN rows of "probability" (its text as a query), "mean", "lower" and "upper", widest interval
        first; each row of a node's table gives its widest entry only.
    """
    network, entries = posterior.network, list[tuple[float, dict[str, Any]]]()
    for node, (lower, upper) in spans.items():
        cells, widths = posterior.probabilities[node], upper - lower
        # one entry for each row: with two states both intervals are equally wide
        rows = np.where(np.arange(widths.shape[-1]) == widths.argmax(axis=-1)[..., None], widths, -1.0)
        widest = [cell for cell in np.argsort(rows, axis=None)[::-1][:MOST_UNCERTAIN] if rows.ravel()[cell] >= 0]
        for cell in zip(*np.unravel_index(widest, widths.shape), strict=True):
            family = zip(network.family(node), cell, strict=True)
            named = {name: network.schema[name].states[int(code)] for name, code in family}
            parents = {name: named[name] for name in network.parents[node]}
            text = f"P({node}={named[node]}" + (f" | {state_text(parents)})" if parents else ")")
            numbers = {"mean": float(cells[cell].mean()), "lower": float(lower[cell]), "upper": float(upper[cell])}
            entries.append((float(widths[cell]), {"probability": text, **numbers}))
    entries.sort(key=lambda entry: -entry[0])
    return [row for _, row in entries[:MOST_UNCERTAIN]]
