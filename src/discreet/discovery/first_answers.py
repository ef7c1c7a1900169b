"""From a table to first answers: a domain, a release without a network, a report, each said in a line."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet.cli.reading import source_of
from discreet.discovery.domain_task import DomainTask, found_lines, release_domain
from discreet.discovery.kinds.found_columns import FoundDomain
from discreet.discovery.mechanisms.found_domain import DEFAULT_BINS, SURE_DEVIATIONS, found_domain
from discreet.display.renderers import IntervalTable
from discreet.display.terminal import check_writable, say, show
from discreet.errors import BudgetError, InputError, listed, require, shown, shown_path
from discreet.formats.project_file import Project
from discreet.mechanisms.crossing import calibrate, release
from discreet.mechanisms.planned import planned
from discreet.model.dirichlet import Dirichlet
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee, as_text
from discreet.privacy.ledger import Ledger
from discreet.privacy.settings import ledger_address
from discreet.queries.answers import Answers
from discreet.queries.documents import answer_document
from discreet.records.counts import count
from discreet.records.records import read_records
from discreet.releases.release import Release
from discreet.reporting.release_report import report as write_report

DOMAIN_SHARE = Fraction(1, 4)
"""Share of epsilon that finds the domain."""
MOST_NEEDED = 1000
"""Records that a value may need to be found, by public figures alone; where it needs more, small tables would spend a
quarter of their budget on nothing. At epsilon 1 it is reached with 36 columns of a text file."""
MOST_ANSWERS = 6
"""Columns whose first answers are printed."""
SHOWN = ("query", "state", "mean", "lower", "upper", "level")
"""Columns of the table of first answers; the report has all."""
ANSWERS = """
answers: P is the share of a state, E the mean of a column clipped to its bounds above. The truth lies in the interval
with a probability of 95 %, noise and sampling counted."""
"""How the table of first answers is read."""
NOTHING_FOUND = """  Nothing is found of dates, money and free text: too many values; of numbers beside many words
  such as ? or NA (--na-values names them, or --leave-out the column); of what fewer than some {:,} records share."""
"""Remark below columns of which nothing was found."""
DRAWS = 500
"""Draws of the posterior that answers come from."""


def run(
    task: DomainTask, wanted: tuple[str, str, str | None], ledger: str | None, output: Path | None, as_json: bool
) -> None:
    """Find a domain, release over it, and write the files and the first answers.

    Args:
        task: the table.
        wanted: epsilon, delta and unit; no unit stands for the column of the unit, and without one for a record.
        ledger: of the account; None for the default one.
        output: new folder; None for one that is named after the table.
        as_json: whether a summary is printed as JSON.
    """
    epsilon, delta, unit = wanted
    unit_column = task.options.policy.unit_column
    promise = Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit=unit or unit_column or "record")
    name = _name_table(task.options.data, task.options.options.get("table"))
    require(promise.epsilon <= 500, "an epsilon above 500 promises nothing; ask for a smaller one")
    folder = output or Path(f"private-{name}")
    require(not folder.exists(), f"{str(folder)!r} exists; give a new folder (--output)")
    check_writable(folder)
    task.options.policy.check_claim(promise)
    if not (unit or unit_column or task.options.policy.one_record_a_unit):
        _refuse_identifiers(task)
    say("\n".join(_explain_promise(promise, task)))
    first, second = _divide(promise)
    prior, values = task.values()  # refuses what cannot be found, before there is an account
    noise: Any = calibrate(found_domain(gaps=task.gaps), prior, first, values.policy)
    needed = max([*noise.thresholds.values(), *(math.ceil(SURE_DEVIATIONS * each) for each in noise.scales.values())])
    require(
        needed <= MOST_NEEDED,
        f"of {prior.columns.size} columns only what some {needed:,} records share is found: --leave-out NAMES, or "
        "give a larger epsilon; or for a far larger table discreet domain, then discreet release; nothing was spent",
    )
    book = Ledger(ledger_address(ledger))
    account = _open_account(book, name, promise)
    say(
        f"budget: epsilon {as_text(account.limit.epsilon)} is all that may ever be spent on these records; "
        f"{shown_path(book.address)} notes under {shown(name)} what is spent, and more is refused."
    )
    domain = release_domain(task, first, DEFAULT_BINS, account)
    folder.mkdir()
    domain.save(folder / "domain.json")
    head = f"\nfound in the records with noise, for epsilon {as_text(first.epsilon)} of the budget:"
    say("\n  ".join((head, *found_lines(domain))))
    if not all(part.found for part in domain.payload_as(FoundDomain).parts):
        say(NOTHING_FOUND.format(needed))
    project = task.project(domain, name)
    project.save(folder / "project.toml")
    _finish(_release(task, project, second, account), folder, as_json)


def _refuse_identifiers(task: DomainTask) -> None:
    """Refuse columns whose names look like identifiers, as their people may have several rows."""
    names = task.likely_identifiers()
    if names:
        raise InputError(
            f"columns named like identifiers: {listed(names)}. If a person may have several rows: --unit person "
            f"--unit-column {shlex.quote(names[0])}; if not: --unit record; nothing was spent"
        )


def _divide(promise: Guarantee) -> tuple[Guarantee, Guarantee]:
    """Divide a budget between the domain, which needs the delta, and the release over it."""
    first = replace(promise, epsilon=DOMAIN_SHARE * promise.epsilon)
    return first, replace(promise, epsilon=(1 - DOMAIN_SHARE) * promise.epsilon, delta=Fraction(0))


def _explain_promise(promise: Guarantee, task: DomainTask) -> list[str]:
    """Explain epsilon with delta, and what is protected, a line each."""
    policy, apart = task.options.policy, "each row is taken for another one (--unit, --unit-column)"
    if policy.unit_column is not None:
        apart = f"told apart by {policy.unit_column!r}; rows used of each: {policy.max_records or 1} (--max-records)"
    return [
        f"epsilon {as_text(promise.epsilon)}: whatever is asked of the files below, the odds that any one "
        f"{promise.unit} is in the table change by a factor of at most {math.exp(float(promise.epsilon)):.3g}, but for "
        f"a chance of {as_text(promise.delta)} (--delta) that a value that one alone has shows.",
        f"protected: each {promise.unit}, added or removed; {apart}.",
    ]


def _open_account(book: Ledger, name: str, promise: Guarantee) -> Any:
    """Open the account of a table, or find it, with room for this promise."""
    if name not in book.names():
        return book.open(name, promise)
    account = book.account(name)
    limit = account.limit
    if (limit.relation, limit.unit) != (promise.relation, promise.unit):
        raise InputError(
            f"account {shown(name)} protects each {limit.unit} under {limit.relation}: give --unit {limit.unit}"
        )
    try:
        account.check(promise)
    except BudgetError as error:
        raise BudgetError(
            f"{error}. A limit is for all time. The files of an earlier run answer further questions for nothing: "
            "discreet query FOLDER/release.draws QUESTION"
        ) from None
    return account


def _release(task: DomainTask, project: Project, promise: Guarantee, account: Any) -> Release:
    """Release tables of all found variables, without arcs."""
    network = project.network
    records = read_records(source_of(task.options.data), network.schema, **project.reading)
    mechanism = planned()
    counts = count(records, network, scopes=mechanism.scopes(network))
    return release(mechanism, counts, Dirichlet.uniform(network), promise, account=account)


def _finish(released: Release, folder: Path, as_json: bool) -> None:
    """Save a release, its draws and a report, and print first answers."""
    released.save(folder / "release.json")
    posterior = released.posterior(draws=DRAWS, rng=0)
    posterior.save(folder / "release.draws")
    page = write_report(released, posterior=posterior, name="release.json", rng=0)
    (folder / "report.html").write_text(page, encoding="utf-8")
    answers = [posterior.answer(_ask(variable)) for variable in released.network.variables[:MOST_ANSWERS]]
    say(ANSWERS)
    text = IntervalTable([{key: row[key] for key in SHOWN} for row in Answers(answers).tidy()]).text(None)
    query = f'discreet query {folder / "release.draws"} "{_ask(released.network.variables[-1])}"'
    text += f"\n\nwrote {folder}: open report.html there. Ask more, for nothing: {query}"
    show(as_json, {"folder": str(folder), "answers": list(map(answer_document, answers))}, text)


def _ask(variable: Variable) -> str:
    """Ask for the mean of a number, or for the states of another variable."""
    name = f'"{variable.name}"' if not variable.name.isidentifier() else variable.name
    return f"E({name})" if variable.numeric else f"P({name})"


def _name_table(data: str, table: str | None) -> str:
    """Name the account of a table by its file, or its name in a database, whose address may hold a password."""
    file = Path(data.rpartition("://")[2].lstrip("@")).name.partition(".")[0]
    return (table if table and not data.endswith(".xlsx") else file) or "table"
