"""Report of one release for readers: its guarantee in words, its budget, and its answers with uncertainty.

It uses only the release and, if given, an account's balance, so it may be published with the release. It is one file,
with no scripts and no network requests.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.display.network_svg import MOST_DRAWN_NODES
from discreet.display.renderers import IntervalTable
from discreet.display.text_tables import with_noun
from discreet.errors import InputError, listed, printable, require_word
from discreet.model.schema import Variable
from discreet.posterior.fit_check import check_fit
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.methods import noise_aware
from discreet.posterior.protocol import equal_tails
from discreet.privacy.guarantee import Relation, as_text
from discreet.queries.answers import Answers, state_text
from discreet.queries.explain import describe_promise
from discreet.queries.explanation import InferenceLimits, MetricLimits, write_factor
from discreet.queries.query import marginals
from discreet.releases.release import Release
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
    release: Release,
    *,
    posterior: PosteriorDraws | None = None,
    form: ReportForm = "html",
    balance: Balance | None = None,
    level: float = DEFAULT_LEVEL,
    name: str = "release.json",
    rng: Seed = None,
) -> str:
    """Write a report of a release: its guarantee in words, and its answers with their uncertainty.

    If the release has no posterior over a network, the report gives the reason in place of the answers.

    Args:
        release: a single release of any kind.
        posterior: posterior of the release, such as stored draws; None draws one by `noise_aware` if the release is
            over a network.
        form: "html" for one file of HTML without scripts, or "markdown".
        balance: balance of the account that paid, as `Account.balance` returns it; None leaves other releases out.
        level: posterior probability of each interval.
        name: name of the release's file, for the commands that check it.
        rng: source of the posterior's draws; nothing here is private. None uses the seed 0, so that the report can be
            repeated.

    Returns:
        The text of the file; nothing is written to disk.

    Raises:
        InputError: another form, several releases put together, or a posterior of another network.

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
    if getattr(release, "one_release", None) is None:
        raise InputError("a report is of one release: name those that were combined one by one")
    context = _describe(release, balance, name)
    answers = _read(release, posterior, rng, level)
    context |= {"marginals": None, "uncertain": None, "no_answers": [], "level": f"{100 * level:g}", "widths": None}
    if isinstance(answers, str):
        context["no_answers"] = [answers]
    else:
        drawn, by_state = answers
        if drawn.network != release.network:
            context["dropped"] = [*context["dropped"], AT_RANDOM]
        spans = _find_intervals(drawn, level)
        context |= {
            "marginals": IntervalTable([dict(list(row.items())[1:]) for row in by_state.tidy()], most=None),
            "uncertain": IntervalTable(_list_uncertain(drawn, spans), most=None),
            "widths": {node: float(np.mean(upper - lower)) for node, (lower, upper) in spans.items()},
        }
    if context["drawn"]:
        context["drawing"] = release.network.to_svg(widths_of_intervals=context["widths"], refuted=context["refuted"])
    context["policy"] = report_policy()
    return str(_templates().get_template("report.html" if form == "html" else "report.md").render(context))


@cache
def report_policy() -> str:
    """Return the content security policy of an HTML report: only its style, identified by its digest, is loaded."""
    style = _texts()["report.html"].partition("<style>")[2].partition("</style>")[0]
    return f"default-src 'none'; style-src 'sha256-{b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


@cache
def _texts() -> Mapping[str, str]:
    """Return the templates' texts by name."""
    folder = files("discreet.queries") / "templates"
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("report.html", "report.md")}


@cache
def _templates() -> Any:
    """Return the Jinja environment, made once: it escapes values in HTML, and invisible characters in both forms.

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
    """Escape a text so that nothing in it is interpreted as Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(str(text).split()))


# ------------------------------------------------------------------------------------------------------- the promise


def _describe(release: Release, balance: Balance | None, name: str) -> dict[str, Any]:
    """Collect the report's fields that need no posterior: guarantee, budget, network, check of fit, digest, commands.

    Args:
        release: the release that the report is about.
        balance: balance of the account that was charged; None if there is no account.
        name: name of the release's file; only the commands contain it.

    Returns:
        Values by their names in the templates. "drawing" is empty and the caller fills it; "fit" is empty if the
        release has no table over a network to check.
    """
    guarantee = release.guarantee
    promised = describe_promise(release)
    network = next(iter(release.networks), None)
    drawn = network is not None and len(network.nodes) <= MOST_DRAWN_NODES
    checked = check_fit(release) if network is not None and release.payload.measurements else None
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
        "unit_lines": release.unit_lines or [UNTOLD_UNITS],
        "budget": _write_budget(release, balance),
        "taken": TAKEN,
        "public": _list_public(release),
        "dropped": _list_dropped(release),
        "drawn": drawn,
        "drawing": "",
        "refuted": () if checked is None else checked.contradicted_pairs,
        "arcs": [] if network is None else [(node, listed(network.parents[node])) for node in network.nodes],
        "too_large": "" if network is None or drawn else f"{len(network.nodes):,} variables: too many to draw here",
        "learned": "" if network is None or network.learned is None else f". It was {network.learned}",
        "fit": "" if checked is None else str(checked),
        "contradicted": []
        if checked is None
        else [(" – ".join(test.variables), f"{test.effect:.3f}", f"{test.p:.2g}") for test in checked.contradicted],
        "digest": hashlib.sha256(release.dumps().encode()).hexdigest(),
        "commands": _list_commands(release, name),
        "proof": PROOF,
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
    "audit measures what the mechanism really reveals on small data sets; explain says what a record can change in "
    "this release; query reads the numbers above again. The documentation's theory page has the proofs."
)


def _name_subject(release: Release) -> str:
    """Write the first variables' names as the subject of the records, and the number of the others."""
    names = release.over.schema.names
    return listed(names[:3]) + (f" and {with_noun(len(names) - 3, 'more variable')}" if len(names) > 3 else "")


def promise_words(release: Release) -> list[str]:
    """Write the guarantee in words: what it compares, and what it does not promise.

    Args:
        release: release of any kind.

    Returns:
        Sentences, a paragraph each.
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
        Sentences: on presence if it is protected, on values, and on unprotected presence.
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
    """Write the meaning of delta, as a procedure that fails with that probability.

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
    """Write what a change of a record's value can reveal."""
    guarantee = release.guarantee
    return [
        f"The odds between two values of a record that are apart by {guarantee.unit} move by a factor of at most "
        f"{write_factor(float(guarantee.epsilon))}, {OTHER_IN_ITS_PLACE}; between values k times as far apart by that "
        "factor to the power of k. Nothing is promised of whole records."
    ]


def _write_symbols(release: Release) -> str:
    """Write the guarantee as a formula in one line.

    Args:
        release: release of any kind.

    Returns:
        The definition of differential privacy with the release's epsilon, delta and relation.
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
    """List beliefs before and after the release, in percent."""

    def percent(value: float | None) -> str:
        return "not protected" if value is None else f"{100 * value:.3g} %"

    return [(percent(before), percent(member), percent(value)) for before, (member, value) in promised.beliefs.items()]


def _write_budget(release: Release, balance: Balance | None) -> list[str]:
    """Write the budget spent and the budget left.

    Args:
        release: release; a simulation spent nothing.
        balance: balance of its account; None if it is unknown.

    Returns:
        Sentences: on this release, then on the account, or that other releases are in the curator's ledger.
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
        release: release over networks or over a design.

    Returns:
        Phrases, at most MOST_LISTED_VARIABLES of them on variables.
    """
    if not release.networks:
        columns = release.over.schema.names
        lines = [f"the names of the columns and their bounds: {listed(columns[:MOST_LISTED_VARIABLES])}"]
    else:
        network = release.network
        shown_variables = network.variables[:MOST_LISTED_VARIABLES]
        lines = [f"{variable.name}: {_describe_variable(variable)}" for variable in shown_variables]
        if len(network.variables) > MOST_LISTED_VARIABLES:
            lines.append(f"{len(network.variables) - MOST_LISTED_VARIABLES:,} more variables with their states")
        if network.learned is None:
            lines.append("which variables depend on which, said to be drawn up without the records")
        else:
            lines.append(f"the network, which was {network.learned}: that is paid for beside this release")
    if release.records is not None:
        lines.append(f"the number of records, {release.records:,}, under this relation")
    return [*lines, "the mechanism, its settings, and how much noise it adds"]


def _describe_variable(variable: Variable) -> str:
    """Write a variable's bounds or states."""
    if variable.bounds is not None:
        return f"numbers from {variable.bounds[0]:g} to {variable.bounds[1]:g}, in {variable.size} bins"
    shown_states = variable.states[:MOST_LISTED_STATES]
    more = f" and {variable.size - len(shown_states)} more" if variable.size > len(shown_states) else ""
    return f"{listed(shown_states)}{more}"


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
    lines = [missing, bounds]
    if policy.unit_column is not None:
        lines.append(
            f"more than {policy.max_records:,} records of one {release.guarantee.unit} were left out at random"
        )
    return lines


def _list_commands(release: Release, name: str) -> list[str]:
    """List shell commands that check the statements of the report.

    Args:
        release: release of any kind.
        name: name of the release's file, quoted for the shell.

    Returns:
        Commands; without queries for a design, and without an audit under a metric.
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
    release: Release, posterior: PosteriorDraws | None, rng: Seed, level: float
) -> tuple[PosteriorDraws, Answers] | str:
    """Return the posterior with the probabilities of all states, or a sentence that states why there are none.

    Args:
        release: release of the report.
        posterior: its posterior; None draws it by `noise_aware`.
        rng: source of randomness of these draws; None uses the seed 0, so that reports can be repeated.
        level: posterior probability of each interval.

    Returns:
        (posterior, one answer for each variable); or a sentence, for a design or a release without a posterior.

    Raises:
        InputError: a posterior of another network, unless it is the release's network without missing values.
    """
    if not release.networks:
        return "Its numbers are coefficients or a direction: `discreet query` prints them."
    if posterior is None:
        try:
            posterior = noise_aware(release, rng=0 if rng is None else rng)
        except InputError as error:
            return f"There are no numbers to show: {error}."
    gaps = (release.network.without_missing(),) if release.network.may_be_missing else ()
    if posterior.network not in (release.network, *gaps):
        raise InputError("the posterior is of another network than the release")
    return posterior, marginals(posterior, level=level)


def _find_intervals(posterior: PosteriorDraws, level: float) -> dict[str, tuple[Floats, Floats]]:
    """Compute both ends of the intervals of each table's entries, shape `(*parents, child)`."""
    return {node: equal_tails(posterior.probabilities[node], level, axis=-1) for node in posterior.network.nodes}


def _list_uncertain(posterior: PosteriorDraws, spans: Mapping[str, tuple[Floats, Floats]]) -> list[dict[str, Any]]:
    """List the probabilities of the network's tables with the widest intervals.

    Args:
        posterior: posterior over the network.
        spans: for each node lower and upper ends of its table's entries, shape `(*parents, child)` each.

    Returns:
        At most MOST_UNCERTAIN rows of the table, widest interval first; each row of a node's table gives its widest
        entry only.
    """
    network, entries = posterior.network, list[tuple[float, dict[str, Any]]]()
    for node, (lower, upper) in spans.items():
        cells, widths = posterior.probabilities[node], upper - lower
        # one entry for each row: with two states both intervals are equally wide
        rows = np.where(np.arange(widths.shape[-1]) == widths.argmax(axis=-1)[..., None], widths, -1.0)
        widest = [cell for cell in np.argsort(rows, axis=None)[::-1][:MOST_UNCERTAIN] if rows.ravel()[cell] >= 0]
        for cell in zip(*np.unravel_index(widest, widths.shape), strict=True):
            states = dict(zip(network.family(node), cell, strict=True))
            named = {name: network.schema[name].states[int(code)] for name, code in states.items()}
            parents = {name: named[name] for name in network.parents[node]}
            text = f"P({node}={named[node]}" + (f" | {state_text(parents)})" if parents else ")")
            numbers = {"mean": float(cells[cell].mean()), "lower": float(lower[cell]), "upper": float(upper[cell])}
            entries.append((float(widths[cell]), {"probability": text, **numbers}))
    entries.sort(key=lambda entry: -entry[0])
    return [row for _, row in entries[:MOST_UNCERTAIN]]
