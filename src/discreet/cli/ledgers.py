"""Commands of a ledger: accounts and their limits, verification, export, and rights of roles."""

from __future__ import annotations

import csv
import io
import json
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import discreet as dc
from discreet.cli import flags
from discreet.cli.help_pages import HeadedCommand, HeadedGroup
from discreet.display.terminal import check_output, say, show, table
from discreet.errors import InputError, shown
from discreet.privacy.guarantee import as_text, begins_with_amount
from discreet.privacy.ledger_balance import Balance, Charge
from discreet.privacy.ledger_entries import COLUMNS, LedgerEntry, verify_document
from discreet.privacy.settings import ledger_address
from discreet.util.json_files import json_text

ledger_app = typer.Typer(cls=HeadedGroup, rich_markup_mode=None)
"""The commands `ledger open`, `ledger show` and the others."""
command = partial(ledger_app.command, cls=HeadedCommand)

LOSSES_HELP = (
    "Small charges with a delta cost less together than their epsilons sum to. A charge fits while either its Gaussian "
    "loss or its epsilon and delta fit into what is left."
)
"""Explanation of the two sums of an account."""

AccountName = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]


@command("open")
def open_account(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account. Open one for each data set.")],
    epsilon: Annotated[str, flags.budget(metavar="NUMBER", help="Lifetime limit of epsilon.")],
    relation: Annotated[
        str,
        flags.budget(
            metavar="|".join(dc.Relation),
            help="Neighbouring relation. metric guarantees less: it is for changes by a --unit.",
        ),
    ],
    delta: Annotated[str, flags.budget(metavar="NUMBER", help="Lifetime limit of delta.")] = "0",
    unit: Annotated[
        str,
        flags.budget(
            metavar="TEXT",
            help="Protected unit of one record, such as patient. For metric: the change that has distance 1, such as "
            f"'1 mmHg in one reading'. {flags.AMOUNT_HELP}",
        ),
    ] = "record",
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Open an account with a limit that can never rise.

    Example:
        discreet ledger open visits --epsilon 3 --relation add-remove
    """
    limit = dc.Guarantee(epsilon=epsilon, delta=delta, relation=dc.Relation(relation), unit=unit)
    if limit.relation is dc.Relation.METRIC:
        say(flags.AMOUNT_HELP)
    elif begins_with_amount(unit):
        raise InputError(
            f"{limit.relation} protects whole records, and {shown(unit)} is an amount of change: give the unit of a "
            "record, such as 'record' or 'patient', or use --relation metric, which protects no record"
        )
    opened = _open_ledger(ledger).open(account, limit)
    address = opened.ledger.address
    document = {"ledger": address, **_document_account(opened)}
    show(as_json, document, f"opened account {account!r}: limit {limit}\nledger: {address}")


@command("show")
def show_accounts(
    account: Annotated[
        str | None,
        typer.Argument(metavar="[ACCOUNT]", show_default="all", help="Name of an account, or id of a release."),
    ] = None,
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Show accounts, or the account that paid for a release.

    Example:
        discreet ledger show
        discreet ledger show patients
    """
    book = _open_ledger(ledger)
    if account is not None and account not in book.names():
        paid = book.paid(account)
        if paid is not None:
            document = {"ledger": book.address, "account": paid[0], "charge": _document_charge(paid[1])}
            spent = paid[1].guarantee
            show(as_json, document, f"release {account} was charged to account {paid[0]!r} on {paid[1].date}: {spent}")
            return
    shown = [_document_account(book.account(name)) for name in ([account] if account else book.names())]
    rows = [
        (each["account"], each["relation"], each["unit"], each["limit"]["epsilon"], each["spent"]["epsilon"],
         each["left"]["epsilon"], str(len(each["charges"])))
        for each in shown
    ]  # fmt: skip
    head = ("account", "relation", "unit", "epsilon limit", "spent", "left", "charges")
    text = table(head, rows) if rows else "no account is open"
    if account:
        balance = book.account(account).balance()
        losses = [] if not balance.rho_limit else [f"{balance.loss_text} spent. {LOSSES_HELP}"]
        text += "".join(f"\n\n{each}" for each in (*losses, *_print_details(shown[0])))
    show(as_json, {"ledger": book.address, "accounts": shown}, f"{text}\n\nledger: {book.address}")


@command("limit")
def lower_limit(
    account: AccountName,
    epsilon: Annotated[str, flags.budget(metavar="NUMBER", help="New limit of epsilon; at most the old one.")],
    delta: Annotated[
        str | None, flags.budget(metavar="NUMBER", show_default="the old one", help="New limit of delta.")
    ] = None,
    person: Annotated[
        str, flags.budget(metavar="NAME", help="Limit one user of the database server, or of this system.")
    ] = "",
    purpose: Annotated[str, flags.budget(metavar="TEXT", help="Limit releases with this --purpose.")] = "",
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Lower the limit of an account, for good.

    With --person or --purpose, lower the limit of that person or purpose in the account; at first they have none.

    Example:
        discreet ledger limit patients --epsilon 2
        discreet ledger limit patients --epsilon 1 --person anna
    """
    payer = _open_ledger(ledger).account(account)
    whose = f"person {person}" if person else f"purpose {purpose}" if purpose else ""
    current = payer.shares().get(whose, payer.balance()).limit
    limit = dc.Guarantee(
        epsilon=epsilon, delta=current.delta if delta is None else delta, relation=current.relation, unit=current.unit
    )
    payer.lower(limit, person=person, purpose=purpose)
    show(as_json, _document_account(payer), f"account {payer.name!r}{whose and f' for {whose}'}: limit {limit}")


@command("close")
def close_account(account: AccountName, ledger: flags.LedgerUrl = None, as_json: flags.Json = False) -> None:
    """Close an account, for good.

    Example:
        discreet ledger close patients
    """
    payer = _open_ledger(ledger).account(account)
    payer.close()
    show(as_json, _document_account(payer), f"closed account {payer.name!r}")


@command("verify")
def verify_accounts(
    account: Annotated[
        str | None,
        typer.Argument(
            metavar="[ACCOUNT|FILE]", show_default="all", help="Name of an account, or a .json of `ledger export`."
        ),
    ] = None,
    ledger: flags.LedgerUrl = None,
    as_json: flags.Json = False,
) -> None:
    """Verify that all entries follow from each other.

    The first wrong entry is named. A ledger cannot detect that its last entries are missing, as after the restore of a
    backup: keep the digests that this command prints, and compare them later (docs/teams.md).

    Example:
        discreet ledger verify patients
    """
    last: list[LedgerEntry]
    if account is not None and account.endswith(".json"):
        address, last, durability = account, [verify_document(_read_json(Path(account)))], ""
    else:
        book = _open_ledger(ledger)
        address, durability = book.address, book.durability
        last = [book.account(name).verify() for name in ([account] if account else book.names())]
    heads = [
        {"account": entry.account, "entries": entry.sequence + 1, "day": entry.day, "digest": entry.digest}
        for entry in last
    ]
    rows = [(str(head["account"]), str(head["entries"]), str(head["day"]), str(head["digest"])) for head in heads]
    text = table(("account", "entries", "last", "digest"), rows) if rows else "no account is open"
    text += f"\n\nall entries follow from each other: {address}" + f"\n{durability}".rstrip()
    show(as_json, {"ledger": address, "durability": durability, "accounts": heads}, text)


@command("export")
def export_account(
    account: AccountName,
    output: Annotated[Path, flags.output(metavar="FILE", help="New file, .json or .csv; - writes stdout.")],
    ledger: flags.LedgerUrl = None,
) -> None:
    """Write all entries of an account to a file.

    They are verified first. `ledger verify FILE` checks the JSON without the database; CSV is for people.

    Example:
        discreet ledger export patients --output entries.csv
    """
    document = _open_ledger(ledger).account(account).export()
    if str(output) == "-":
        print(json_text(document, indent=1))  # noqa: T201
        return
    check_output(output, replace=False)
    if output.suffix == ".csv":
        output.write_text(_write_csv(document["entries"]))
    else:
        output.write_text(json_text(document, indent=1) + "\n")
    say(f"wrote {output}")


@command("init")
def init_ledger(
    grants: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="GRANT",
            help="Right of a role: opener=ROLE, spender=ROLE:ACCOUNT or auditor=ROLE; repeatable.",
        ),
    ] = None,
    owner: Annotated[
        str, typer.Option(metavar="ROLE", help="Role that owns the ledger and cannot log in; made if it is missing.")
    ] = "discreet_owner",
    run: Annotated[
        bool, typer.Option("--run", help="Run the statements, all or none, instead of printing them.")
    ] = False,
    ledger: flags.LedgerUrl = None,
) -> None:
    """Grant rights in a ledger on PostgreSQL, and make it if it is missing.

    The command prints SQL for an administrator, or runs it.

    Example:
        discreet ledger init --ledger postgresql://admin@server/budgets
          --grant opener=curators --grant auditor=officer
    """
    from discreet.privacy.ledger_grants import Grant, grant  # loads SQLAlchemy, which `--help` does not need

    statements = grant(ledger_address(ledger), [Grant.parse(text) for text in grants or ()], owner, run=run)
    if run:
        say(f"ran {len(statements)} statements")
        return
    sys.stdout.write("BEGIN;\n" + "".join(f"{statement};\n" for statement in statements) + "COMMIT;\n")


# ------------------------------------------------------------------------------------------------------------- helpers


def _open_ledger(address: str | None) -> dc.Ledger:
    """Open a ledger."""
    return dc.Ledger(ledger_address(address))


def _document_account(account: dc.results.Account) -> dict[str, Any]:
    """Write an account as JSON."""
    balance = account.balance()
    return {
        "account": account.name,
        "relation": balance.limit.relation.value,
        "unit": balance.limit.unit,
        "closed": balance.closed,
        **_document_balance(balance),
        "limits": [{"subject": subject, **_document_balance(share)} for subject, share in account.shares().items()],
        "charges": [_document_charge(charge) for charge in account.charges()],
    }


def _document_balance(balance: Balance) -> dict[str, Any]:
    """Write a balance as JSON."""
    return {
        "limit": _document_budget(balance.limit.epsilon, balance.limit.delta),
        "spent": _document_budget(balance.epsilon_spent, balance.delta_spent),
        "left": _document_budget(balance.epsilon_left, balance.delta_left),
        "rho": {
            "limit": as_text(balance.rho_limit), "spent": as_text(balance.rho_spent), "left": as_text(balance.rho_left)
        }
        if balance.rho_limit
        else None,
    }  # fmt: skip


def _document_charge(charge: Charge) -> dict[str, Any]:
    """Write a charge as JSON."""
    return {
        "sequence": charge.sequence,
        "date": charge.date.isoformat(),
        "who": charge.user,
        "purpose": charge.purpose,
        "mechanism": charge.mechanism,
        "release": charge.release,
        **_document_budget(charge.guarantee.epsilon, charge.guarantee.delta),
        "rho": as_text(charge.rho),
    }


def _document_budget(epsilon: Fraction, delta: Fraction) -> dict[str, str]:
    """Write an amount as JSON."""
    return {"epsilon": as_text(epsilon), "delta": as_text(delta)}


def _print_details(account: dict[str, Any]) -> list[str]:
    """Write limits and charges of an account, in columns."""
    texts = ["this account is closed"] if account["closed"] else []
    if account["limits"]:
        rows = [
            (limit["subject"], limit["limit"]["epsilon"], limit["spent"]["epsilon"], limit["left"]["epsilon"])
            for limit in account["limits"]
        ]
        texts.append(table(("limit for", "epsilon limit", "spent", "left"), rows))
    if account["charges"]:
        names = ("date", "who", "purpose", "mechanism", "epsilon", "release")
        texts.append(table(names, [tuple(charge[name] for name in names) for charge in account["charges"]]))
    return texts


def _read_json(path: Path) -> Any:
    """Read a JSON document."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise InputError(f"cannot read {shown(str(path))} as JSON of `ledger export`") from None


def _write_csv(entries: Any) -> str:
    """Write entries as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue()
