"""The command that writes a report of a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import discreet as dc
from discreet.cli import flags
from discreet.cli.arguments import check_draws
from discreet.cli.posteriors import Drawing, load_source, posterior_of
from discreet.display.terminal import check_output, show
from discreet.errors import InputError, shown
from discreet.posterior.read import posterior_kind
from discreet.privacy.settings import ledger_address
from discreet.util import option_texts
from discreet.util.json_files import write_whole
from discreet.util.option_texts import ReportForm

if TYPE_CHECKING:
    from discreet.privacy.ledger_balance import Balance

FORMS: dict[str, ReportForm] = {".html": "html", ".md": "markdown"}


def report(
    release: flags.ReleaseFile,
    output: Annotated[Path, flags.output(metavar="FILE", help="File: .html, without scripts, or .md (Markdown).")],
    account: Annotated[str | None, flags.budget(metavar="NAME", help="Account that paid: report its balance.")] = None,
    ledger: flags.LedgerUrl = None,
    level: flags.Level = option_texts.DEFAULT_LEVEL,
    draws: flags.Draws = None,
    seed: flags.Seed = None,
    replace: flags.Replace = False,
    as_json: flags.Json = False,
) -> None:
    """Write a report of a release for people, as a page of HTML or Markdown.

    It states the guarantee in words, its price, and all variables with their intervals. Of combined releases it states
    what each spent, and what those of the same records reveal together. It is computed from the releases alone, may be
    published with them, and spends no budget.

    Example:
        discreet report release.json --output report.html --account patients
    """
    form = FORMS.get(output.suffix)
    if form is None:
        raise InputError(f"a report is a .html or .md file, not {output.suffix!r}")
    check_output(output, replace)
    evidence, stored = load_source(release)
    if account is not None and evidence.one_release is None:
        raise InputError("a balance is of one release's account: leave out --account for combined releases")
    how = Drawing(draws=draws, seed=seed)
    check_draws(how.with_stored(stored), level)
    balance = None if account is None else _find_balance(evidence.one_release, account, ledger)
    readable = posterior_kind(evidence) in ("network", "family")
    posterior = posterior_of(evidence, how, None, stored) if readable else None
    text = dc.report(
        evidence,
        posterior=posterior,
        form=form,
        balance=balance,
        level=level,
        name="release.json" if stored is not None or release == "-" else Path(release).name,
    )
    write_whole(text, output, "report", replace=replace)
    show(as_json, {"output": str(output), "format": form}, f"wrote {output}")


def _find_balance(release: dc.Release, account: str, ledger: str | None) -> Balance:
    """Find the balance of the account that paid; refuse another account."""
    book = dc.Ledger(ledger_address(ledger))
    payer = book.account(account)
    paid = book.paid(release.id)
    if release.private and (paid is None or paid[0] != payer.name):
        raise InputError(
            f"account {shown(account)} did not pay for this release; give the one that did, or leave out --account"
        )
    return payer.balance()
