"""Entries of a ledger: an account's history as a chain, and what each of them makes of the balances before it.

The first entry opens an account with its limit; others are charges, lower limits, and its closing. Each has its place,
the exact sums after it, and a digest of itself and of the digest before it: who has the last one can check them all.
Balances, of the account and of each person and purpose in it, are what a charge has to read; they follow from the
entries. Everything here is a pure function on frozen data: `following` makes an entry, and `verify` makes all of an
account once more and compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from discreet.errors import InputError, shown

SUM_BITS = 10_000
"""Most bits of the numerator or denominator of all charges together: what is then left of a limit still prints."""
PERSON, PURPOSE = "person ", "purpose "
"""How the subject of a limit begins; that of the account itself is empty."""


class Refusal(Exception):
    """What a ledger refuses, for others to put into words.

    Args:
        reason: "limit", "closed", "absent", "paid", "request", "tampered", "forbidden", "form", "open", "rises",
            "spent", "digits", "unsafe", "read-only" or "gone".
        detail: the subject of a limit, or what is wrong.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class LedgerEntry:
    """One entry; what does not apply to its kind is empty. Numbers are reduced fractions as text (`str(Fraction)`).

    Args:
        account: its name.
        sequence: its place: 0, 1, 2, ...
        kind: "opened", "charged", "limited" or "closed".
        release: id of the release that was paid for.
        mechanism: its name.
        epsilon, delta: what was spent, or the limit from here on.
        relation, unit: what the account protects.
        subject: whose limit it is: "person NAME", "purpose TEXT", or empty for the account's.
        purpose: what a charge was for.
        request: key under which it can be asked for again.
        who: user who made it: of the database server, or of the system.
        day: when (UTC, `2026-11-25`).
        epsilon_spent, delta_spent: sums of the account after it.
        digest: SHA-256 of the digest before it and all of the above, each behind its length in bytes.
    """

    account: str
    sequence: int
    kind: str
    release: str = ""
    mechanism: str = ""
    epsilon: str = "0"
    delta: str = "0"
    relation: str = ""
    unit: str = ""
    subject: str = ""
    purpose: str = ""
    request: str = ""
    who: str = ""
    day: str = ""
    epsilon_spent: str = "0"
    delta_spent: str = "0"
    digest: str = ""

    def sealed(self, before: str) -> LedgerEntry:
        """The entry with its digest, behind an entry with the digest `before`; empty for the first."""
        return replace(self, digest=_hash_texts(before, *map(str, astuple(self)[:-1])))

    def is_for(self, draft: LedgerEntry) -> bool:
        """Whether it is what a draft asked for, whoever made it and when."""
        written = ("sequence", "who", "day", "epsilon_spent", "delta_spent", "digest")
        return self == replace(draft, **{name: getattr(self, name) for name in written})


COLUMNS = tuple(field.name for field in fields(LedgerEntry))
"""Columns of the table of entries, and of what is exported, in this order."""


@dataclass(frozen=True)
class Share:
    """The balance of an account, a person or a purpose.

    Args:
        account: its name.
        subject: as of an entry.
        epsilon_limit, delta_limit: the lowest that was set; empty where there is none but the account's.
        epsilon_spent, delta_spent: sums so far.
        sequence: place of the last entry that changed it; of an account its last entry's.
        digest: that entry's.
        seal: of all of the above, so that damage is noticed.
    """

    account: str
    subject: str
    epsilon_limit: str = ""
    delta_limit: str = ""
    epsilon_spent: str = "0"
    delta_spent: str = "0"
    sequence: int = -1
    digest: str = ""
    seal: str = ""

    def sealed(self) -> Share:
        """The balance with its seal."""
        return replace(self, seal=_hash_texts(*map(str, astuple(self)[:-1])))

    @property
    def sums(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that were spent."""
        return Fraction(self.epsilon_spent), Fraction(self.delta_spent)

    @property
    def limit(self) -> tuple[Fraction, Fraction] | None:
        """Epsilon and delta that can be spent in all."""
        return (Fraction(self.epsilon_limit), Fraction(self.delta_limit)) if self.epsilon_limit else None

    def after(self, entry: LedgerEntry, **changes: str) -> Share:
        """The balance that an entry leaves."""
        return replace(self, sequence=entry.sequence, digest=entry.digest, **changes).sealed()


def subjects_of(draft: LedgerEntry) -> tuple[str, ...]:
    """List whose balances an entry reads and changes; the account's is the first.

    Args:
        draft: an entry.

    Returns:
        Subjects: "" for the account, "person NAME", "purpose TEXT".

    Example:
        >>> subjects_of(LedgerEntry("a", 0, "charged", who="ada", purpose="pilot"))
        ('', 'person ada', 'purpose pilot')
    """
    if draft.kind == "charged":
        return ("", PERSON + draft.who, *([PURPOSE + draft.purpose] if draft.purpose else []))
    return ("", draft.subject) if draft.subject else ("",)


def following(
    last: LedgerEntry | None, shares: Mapping[str, Share], draft: LedgerEntry
) -> tuple[LedgerEntry, tuple[Share, ...]]:
    """Add an entry to an account: pure, so that a ledger can be computed once more from its entries.

    Args:
        last: the account's last entry; None for its first.
        shares: balances of `subjects_of(draft)`, as far as there are any.
        draft: account, kind, amounts or limit, who, day, and what belongs to its kind.

    Returns:
        The entry with its place, sums and digest; and the balances that it leaves.

    Raises:
        Refusal: it goes beyond a limit, would raise one, or comes after the account was closed or before it was opened.

    Example:
        >>> opened = LedgerEntry("a", 0, "opened", epsilon="3", relation="replace", unit="record")
        >>> first, (balance,) = following(None, {}, opened)
        >>> spent, _ = following(first, {"": balance}, LedgerEntry("a", 0, "charged", "r", "laplace", "1", who="ada"))
        >>> spent.sequence, spent.epsilon_spent
        (1, '1')
    """
    if (draft.kind == "opened") != (last is None):
        raise Refusal("open" if last is not None else "absent")
    if last is not None and last.kind == "closed":
        raise Refusal("closed")
    held = [shares.get(subject, Share(draft.account, subject)) for subject in subjects_of(draft)]
    totals = [_add_up(share, draft) for share in held]
    if draft.kind == "limited":
        _refuse_rise(held, draft)
    spent = totals[0]
    made = replace(
        draft,
        sequence=0 if last is None else last.sequence + 1,
        epsilon_spent=str(spent[0]),
        delta_spent=str(spent[1]),
    )
    if draft.kind == "closed":
        made = replace(made, epsilon=made.epsilon_spent, delta=made.delta_spent)
    made = made.sealed("" if last is None else last.digest)
    changed = []
    for share, (epsilon, delta) in zip(held, totals, strict=True):
        limited = made.kind in ("opened", "limited") and share.subject == made.subject
        limit = {"epsilon_limit": made.epsilon, "delta_limit": made.delta} if limited else {}
        changed.append(share.after(made, epsilon_spent=str(epsilon), delta_spent=str(delta), **limit))
    return made, tuple(changed)


def _add_up(share: Share, draft: LedgerEntry) -> tuple[Fraction, Fraction]:
    """Add a draft to the sums of a balance, if it fits."""
    if draft.kind != "charged":
        return share.sums
    epsilon, delta = (
        spent + Fraction(more) for spent, more in zip(share.sums, (draft.epsilon, draft.delta), strict=True)
    )
    if share.limit is not None and (epsilon > share.limit[0] or delta > share.limit[1]):
        raise Refusal("limit", share.subject)
    if max(part.bit_length() for total in (epsilon, delta) for part in total.as_integer_ratio()) > SUM_BITS:
        raise Refusal("digits")
    return epsilon, delta


def _refuse_rise(held: Sequence[Share], draft: LedgerEntry) -> None:
    """Refuse a limit above the one that there is, or else the account's; and one below what was spent."""
    before, spent = next(share.limit for share in reversed(held) if share.limit is not None), held[-1].sums
    if Fraction(draft.epsilon) > before[0] or Fraction(draft.delta) > before[1]:
        raise Refusal("rises")
    if Fraction(draft.epsilon) < spent[0] or Fraction(draft.delta) < spent[1]:
        raise Refusal("spent")


def is_sound(share: Share, last: Sequence[LedgerEntry]) -> bool:
    """Whether an account's balance is whole, and is that of its last entries.

    Args:
        share: of the account itself.
        last: the entries from the one before the last on, as the table has them.
    """
    if share != share.sealed() or not last or last[-1].sequence != share.sequence:
        return False
    before, entry = last[-2] if len(last) > 1 else None, last[-1]
    follows = entry.sequence == 0 if before is None else entry.sequence == before.sequence + 1
    whole = entry == entry.sealed("" if before is None else before.digest)
    return follows and whole and entry.digest == share.digest and entry.epsilon_spent == share.epsilon_spent \
        and entry.delta_spent == share.delta_spent  # fmt: skip


def verify(entries: Iterable[LedgerEntry], shares: Mapping[str, Share] | None = None) -> tuple[LedgerEntry, ...]:
    """Make an account once more, from its entries, and compare.

    Args:
        entries: of one account, by their places.
        shares: the balances that a ledger holds; None for an export, which has none.

    Returns:
        The entries.

    Raises:
        InputError: one does not follow from those before it: the message names the first; or a balance does not follow
            from the entries.
    """
    last: LedgerEntry | None = None
    held: dict[str, Share] = {}
    found = []
    for entry in entries:
        name, draft = shown(entry.account), replace(entry, sequence=0, epsilon_spent="0", delta_spent="0", digest="")
        try:
            made, changed = following(last, held, draft)
        except Refusal as refusal:
            raise InputError(
                f"account {name}: entry {entry.sequence} could not have been made after those before it "
                f"({refusal.reason})"
            ) from None
        except (ValueError, ZeroDivisionError):
            raise InputError(f"account {name}: entry {entry.sequence} has no number where one belongs") from None
        if made != entry or (last is not None and last.account != entry.account):
            wrong = [column for column in COLUMNS if getattr(made, column) != getattr(entry, column)] or ["account"]
            raise InputError(
                f"account {name}: entry {entry.sequence} does not fit: {', '.join(wrong)} is not what follows from the "
                "entries before it"
            )
        held |= {share.subject: share for share in changed}
        last = entry
        found.append(entry)
    if shares is not None and dict(shares) != held:
        other = next(subject for subject in {**held, **shares} if held.get(subject) != shares.get(subject))
        whose = f"of {shown(other)} " if other else ""
        raise InputError(f"account {shown(found[0].account)}: the balance {whose}does not follow from its entries")
    return tuple(found)


def verify_document(document: Any) -> LedgerEntry:
    """Verify an account that was exported, without its database.

    Args:
        document: of `Account.export`, as JSON reads it.

    Returns:
        The last entry.

    Raises:
        InputError: it is no such document, or an entry does not follow from those before it.
    """
    match document:
        case {"format": "discreet ledger account", "version": 2, "entries": [_, *_] as rows}:
            pass
        case _:
            raise InputError("this is no account that `ledger export` wrote as JSON")
    if not all(isinstance(row, dict) and set(row) == set(COLUMNS) for row in rows):
        raise InputError("an entry of this account has other fields than `ledger export` writes")
    entries = [LedgerEntry(**row) for row in rows]
    if not all(
        type(value) is (int if at == 1 else str) for entry in entries for at, value in enumerate(astuple(entry))
    ):
        raise InputError("an entry of this account has a number for a text, or a text for a number")
    return verify(entries)[-1]


def _hash_texts(*parts: str) -> str:
    """Compute SHA-256 of texts, each behind its length in bytes."""
    texts = (part.encode() for part in parts)
    return hashlib.sha256(b"".join(b"%d:%s" % (len(text), text) for text in texts)).hexdigest()
