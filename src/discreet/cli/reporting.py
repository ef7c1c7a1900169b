"""The command that writes a report of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

import discreet as dc
from discreet.cli.arguments import Draws, Json, ReleaseFile, Replace, Seed, check_draws
from discreet.cli.ledgers import LedgerUrl
from discreet.cli.posteriors import Drawing, load_asked, posterior_of
from discreet.display.terminal import check_output, show
from discreet.errors import InputError, shown
from discreet.posterior.read import what_it_gives
from discreet.privacy.settings import ledger_address
from discreet.util.json_files import write_whole

if TYPE_CHECKING:
    from discreet.privacy.ledger_balance import Balance

FORMS = {".html": "html", ".md": "markdown"}


def report(
    release: ReleaseFile,
    output: Annotated[Path, typer.Option(help="File to write: .html, one file without scripts, or .md for Markdown.")],
    account: Annotated[
        str | None, typer.Option(help="Account that paid: what it has spent and what is left is said, too.")
    ] = None,
    ledger: LedgerUrl = None,
    level: Annotated[float, typer.Option(help="Posterior probability of each interval.")] = 0.95,
    draws: Draws = None,
    seed: Seed = None,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Write a report of a release, for people: the promise in words, its price, and what the release says.

    It is made of the release alone, or of stored draws, and may be published with it; nothing is spent.
    """
    form = FORMS.get(output.suffix)
    if form is None:
        raise InputError(f"a report ends in .html or .md, not in {output.suffix!r}")
    check_output(output, replace)
    evidence, stored = load_asked(release)
    own = evidence.one_release
    if own is None:
        raise InputError("a report is of one release: name those that were combined one by one")
    how = Drawing(draws=draws, seed=seed)
    check_draws(how.with_stored(stored), level)
    balance = None if account is None else _find_balance(own, account, ledger)
    readable = what_it_gives(evidence) in ("network", "family")
    posterior = posterior_of(evidence, how, None, stored) if readable else None
    text = dc.report(
        own,
        posterior=posterior,
        form=cast(Literal["html", "markdown"], form),
        balance=balance,
        level=level,
        name="release.json" if stored is not None or release == "-" else Path(release).name,
    )
    write_whole(text, output, "report", replace=replace)
    show(as_json, {"output": str(output), "format": form}, f"wrote {output}")


def _find_balance(release: dc.Release, account: str, ledger: str | None) -> Balance:
    """The balance of the account that paid; another's would say nothing of these records."""
    book = dc.Ledger(ledger_address(ledger))
    found = book.account(account)
    paid = book.paid(release.id)
    if release.private and (paid is None or paid[0] != found.name):
        raise InputError(f"account {shown(account)} did not pay for this release; name the one that did, or none")
    return found.balance()
