"""Entries of a ledger: an account's history as a hash chain, and the balances that follow from it.

The first entry opens an account with its limit; others are charges, lower limits, and its closing. Each has its number,
the exact sums after it, and a digest of itself and of the digest before it: with the last digest all entries can be
checked. A charge reads the balances of the account and of the person and purpose; they follow from the entries. All
functions are pure, on frozen data: `following` makes an entry, and `verify` recomputes an account and compares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from fractions import Fraction
from typing import Any

from discreet.errors import InputError, shown
from discreet.privacy.gaussian_loss import FREE_SHARE, KEPT_SHARE, keeps, pure_rho

SUM_BITS = 10_000
"""Most bits of the numerator or denominator of a sum of charges; the rest of a limit can then still be printed."""
PERSON, PURPOSE = "person ", "purpose "
"""Prefixes of the subjects of limits; that of the account itself is empty."""


class Refusal(Exception):
    """Refusal of a ledger by reason; `error_for` makes its message.

    Args:
        reason: "limit", "closed", "absent", "paid", "request", "tampered", "forbidden", "form", "open", "rises",
            "spent", "digits", "unsafe", "read-only", "rho" or "gone".
        detail: the subject of a limit, or the fault.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class LedgerEntry:
    """One entry; fields that its kind does not use are empty. Numbers are reduced fractions as text (`str(Fraction)`).

    Args:
        account: its name.
        sequence: its number: 0, 1, 2, ...
        kind: "opened", "charged", "limited" or "closed".
        release: id of the release that was paid for.
        mechanism: its name.
        epsilon, delta: amount of a charge, or the new limit.
        relation, unit: of the account.
        subject: of a limit: "person NAME", "purpose TEXT", or "" for the account.
        purpose: of a charge.
        request: key of a request that may be repeated.
        user: of the database server, or of the system, who made it; the column `who`.
        day: date (UTC, `2026-11-25`).
        epsilon_spent, delta_spent: sums of the account after it.
        digest: SHA-256 of the digest before it and all other fields, each after its length in bytes; without those
            below if they are all 0, as in an account that adds epsilons and deltas alone.
        rho: Gaussian loss of a charge, for replacing or adding as the account is (`gaussian_loss.py`).
        rho_delta: delta of the charge that rho leaves out.
        rho_limit: limit of the sum of Gaussian losses, where an entry sets one.
        rho_spent, rho_delta_spent: sums of the account after it.
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
    user: str = ""
    day: str = ""
    epsilon_spent: str = "0"
    delta_spent: str = "0"
    digest: str = ""
    rho: str = "0"
    rho_delta: str = "0"
    rho_limit: str = "0"
    rho_spent: str = "0"
    rho_delta_spent: str = "0"

    def sealed(self, before: str) -> LedgerEntry:
        """Return the entry with its digest after the digest `before`; "" for the first entry."""
        return replace(self, digest=_hash_texts(before, *_hashed(self, "digest")))

    def row(self) -> dict[str, Any]:
        """Return the values by their columns."""
        return dict(zip(COLUMNS, astuple(self), strict=True))

    def is_for(self, draft: LedgerEntry) -> bool:
        """Return True if the entry is for a draft, whoever made it and when."""
        written = ("sequence", "user", "day", "epsilon_spent", "delta_spent", "digest", *RHO_FIELDS)
        return self == replace(draft, **{name: getattr(self, name) for name in written})


SUMS = ("epsilon_spent", "delta_spent", "rho_spent", "rho_delta_spent")
"""Sums of charges, in entries and balances."""
RHO_FIELDS = ("rho", "rho_delta", "rho_limit", "rho_spent", "rho_delta_spent")
"""Fields of an entry that are 0 unless Gaussian losses are added up, and that ledgers of version 2 do not have."""
COLUMNS = tuple("who" if field.name == "user" else field.name for field in fields(LedgerEntry))
"""Columns of the table of entries, and of exports, in this order."""


@dataclass(frozen=True)
class Share:
    """Balance of an account, a person or a purpose.

    Args:
        account: its name.
        subject: as in an entry.
        epsilon_limit, delta_limit: the lowest limit set; "" if only the account's applies.
        epsilon_spent, delta_spent: sums so far.
        sequence: number of the last entry that changed it; for an account of its last entry.
        digest: of that entry.
        seal: digest of all other fields, to detect damage; without those below if they are all 0.
        rho_limit: most Gaussian loss since they are added up; "0" before.
        rho_spent, rho_delta_spent: sums since then; the second begins with the delta spent before.
        epsilon_before, delta_before: sums spent before.
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
    rho_limit: str = "0"
    rho_spent: str = "0"
    rho_delta_spent: str = "0"
    epsilon_before: str = "0"
    delta_before: str = "0"

    def sealed(self) -> Share:
        """Return the balance with its seal."""
        return replace(self, seal=_hash_texts(*_hashed(self, "seal")))

    @property
    def sums(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta spent."""
        return Fraction(self.epsilon_spent), Fraction(self.delta_spent)

    @property
    def limit(self) -> tuple[Fraction, Fraction] | None:
        """Limits of epsilon and delta; None if only the account's applies."""
        return (Fraction(self.epsilon_limit), Fraction(self.delta_limit)) if self.epsilon_limit else None

    @property
    def concentrated(self) -> bool:
        """True if the account adds up Gaussian losses."""
        return self.rho_limit != "0"

    @property
    def delta_cap(self) -> Fraction:
        """Most that either sum of deltas may come to: less than the limit where a part is kept for Gaussian losses."""
        limit, before = Fraction(self.delta_limit), Fraction(self.delta_before)
        return before + FREE_SHARE * (limit - before) if self.concentrated else limit

    @property
    def fits(self) -> bool:
        """True if the sums spent are within the limits: epsilon and delta, or Gaussian losses and their delta."""
        if self.limit is None:
            return True
        cap, (epsilon, delta) = self.delta_cap, self.sums
        gaussian = self.concentrated and Fraction(self.rho_spent) <= Fraction(self.rho_limit)
        return (epsilon <= self.limit[0] and delta <= cap) or (gaussian and Fraction(self.rho_delta_spent) <= cap)

    @property
    def keeps_limit(self) -> bool:
        """True if Gaussian losses up to their limit keep what is left for them of epsilon and delta."""
        delta = KEPT_SHARE * (Fraction(self.delta_limit) - Fraction(self.delta_before))
        return keeps(Fraction(self.epsilon_limit) - Fraction(self.epsilon_before), delta, Fraction(self.rho_limit))

    def after(self, entry: LedgerEntry, **changes: str) -> Share:
        """Return the balance after an entry."""
        return replace(self, sequence=entry.sequence, digest=entry.digest, **changes).sealed()


def subjects_of(draft: LedgerEntry) -> tuple[str, ...]:
    """List the subjects whose balances an entry reads and changes; the account's is the first.

    Args:
        draft: an entry.

    Returns:
        Subjects: "" for the account, "person NAME", "purpose TEXT".

    Example:
        >>> subjects_of(LedgerEntry("a", 0, "charged", user="ada", purpose="pilot"))
        ('', 'person ada', 'purpose pilot')
    """
    if draft.kind == "charged":
        return ("", PERSON + draft.user, *([PURPOSE + draft.purpose] if draft.purpose else []))
    return ("", draft.subject) if draft.subject else ("",)


def following(
    last: LedgerEntry | None, shares: Mapping[str, Share], draft: LedgerEntry
) -> tuple[LedgerEntry, tuple[Share, ...]]:
    """Add an entry to an account; a pure function, so that `verify` can recompute a ledger.

    Args:
        last: the account's last entry; None for its first.
        shares: existing balances of `subjects_of(draft)`.
        draft: account, kind, amounts or limit, user, day, and the fields of its kind.

    Returns:
        The entry with its number, sums and digest; and the balances after it.

    Raises:
        Refusal: the entry exceeds a limit, would raise one, or the account is closed or not open.

    Example:
        >>> opened = LedgerEntry("a", 0, "opened", epsilon="3", relation="replace", unit="record")
        >>> first, (balance,) = following(None, {}, opened)
        >>> spent, _ = following(first, {"": balance}, LedgerEntry("a", 0, "charged", "r", "laplace", "1", user="ada"))
        >>> spent.sequence, spent.epsilon_spent
        (1, '1')
    """
    if (draft.kind == "opened") != (last is None):
        raise Refusal("open" if last is not None else "absent")
    if last is not None and last.kind == "closed":
        raise Refusal("closed")
    account, *limited = (shares.get(subject, Share(draft.account, subject)) for subject in subjects_of(draft))
    account, draft = _count_losses(account, draft)
    held = [_add_up(share, draft) for share in (account, *limited)]
    if draft.kind == "limited":
        held[-1] = _lower(held, draft)
    elif draft.kind == "opened":
        held[0] = replace(account, epsilon_limit=draft.epsilon, delta_limit=draft.delta)
    sums = {name: getattr(held[0], name) for name in SUMS}
    entry = replace(draft, sequence=0 if last is None else last.sequence + 1, **sums)
    if draft.kind == "closed":
        entry = replace(entry, epsilon=entry.epsilon_spent, delta=entry.delta_spent)
    entry = entry.sealed("" if last is None else last.digest)
    return entry, tuple(share.after(entry) for share in held)


def _count_losses(account: Share, draft: LedgerEntry) -> tuple[Share, LedgerEntry]:
    """Begin to add up Gaussian losses if a charge asks for it, and fill in the loss of a charge.

    A charge that states none has that of its guarantee. An account that adds up epsilons and deltas alone notes none.
    """
    if draft.kind != "charged":
        return account, draft
    if not (Fraction(draft.epsilon) > 0 and Fraction(draft.delta) >= 0):
        raise Refusal("form")  # a refund
    if account.concentrated:
        draft = replace(draft, rho_limit="0")
    elif draft.rho_limit != "0":
        epsilon, delta = account.epsilon_spent, account.delta_spent
        account = replace(
            account, rho_limit=draft.rho_limit, rho_delta_spent=delta, epsilon_before=epsilon, delta_before=delta
        )
        if not account.keeps_limit:
            raise Refusal("rho")
    else:
        return account, replace(draft, rho="0", rho_delta="0")
    if draft.rho == "0":
        draft = replace(draft, rho=str(pure_rho(Fraction(draft.epsilon))), rho_delta=draft.delta)
    if not (Fraction(draft.rho) > 0 and 0 <= Fraction(draft.rho_delta) <= Fraction(draft.delta)):
        raise Refusal("rho")
    return account, draft


def _add_up(share: Share, draft: LedgerEntry) -> Share:
    """Add a draft to the sums of a balance, if it fits under the limits."""
    if draft.kind != "charged":
        return share
    amounts = (draft.epsilon, draft.delta, *((draft.rho, draft.rho_delta) if share.concentrated else ("0", "0")))
    totals = [Fraction(getattr(share, name)) + Fraction(more) for name, more in zip(SUMS, amounts, strict=True)]
    texts = map(str, totals)
    share = replace(
        share, epsilon_spent=next(texts), delta_spent=next(texts), rho_spent=next(texts), rho_delta_spent=next(texts)
    )
    if not share.fits:
        raise Refusal("limit", share.subject)
    if max(integer.bit_length() for total in totals for integer in total.as_integer_ratio()) > SUM_BITS:
        raise Refusal("digits")
    return share


def _lower(held: Sequence[Share], draft: LedgerEntry) -> Share:
    """Lower a limit; refuse one above the current one, or the account's, and one below the sums spent."""
    before = next(share.limit for share in reversed(held) if share.limit is not None)
    if Fraction(draft.epsilon) > before[0] or Fraction(draft.delta) > before[1]:
        raise Refusal("rises")
    share = replace(held[-1], epsilon_limit=draft.epsilon, delta_limit=draft.delta)
    if share.concentrated:
        if Fraction(draft.rho_limit) > Fraction(share.rho_limit):
            raise Refusal("rises")
        share = replace(share, rho_limit=draft.rho_limit)
        if not share.keeps_limit:
            raise Refusal("spent")
    elif draft.rho_limit != "0":
        raise Refusal("rho")
    if not share.fits:
        raise Refusal("spent")
    return share


def is_sound(share: Share, last: Sequence[LedgerEntry]) -> bool:
    """Return True if an account's balance is undamaged, and that of its last entries.

    Args:
        share: of the account itself.
        last: the last two entries in the table, or the only one.
    """
    if share != share.sealed() or not last or last[-1].sequence != share.sequence:
        return False
    before, entry = last[-2] if len(last) > 1 else None, last[-1]
    follows = entry.sequence == 0 if before is None else entry.sequence == before.sequence + 1
    intact = entry == entry.sealed("" if before is None else before.digest)
    return follows and intact and all(getattr(entry, name) == getattr(share, name) for name in ("digest", *SUMS))


def verify(entries: Iterable[LedgerEntry], shares: Mapping[str, Share] | None = None) -> tuple[LedgerEntry, ...]:
    """Recompute an account from its entries, and compare.

    Args:
        entries: of one account, in order.
        shares: balances of the ledger; None for an export, which has none.

    Returns:
        The entries.

    Raises:
        InputError: an entry does not follow from those before it (the message names the first), or a balance does not
            follow from the entries.
    """
    last: LedgerEntry | None = None
    held: dict[str, Share] = {}
    verified = []
    for entry in entries:
        name, draft = shown(entry.account), replace(entry, sequence=0, digest="", **dict.fromkeys(SUMS, "0"))
        try:
            expected, changed = following(last, held, draft)
        except Refusal as refusal:
            raise InputError(
                f"account {name}: entry {entry.sequence} is impossible after those before it ({refusal.reason})"
            ) from None
        except (ValueError, ZeroDivisionError):
            raise InputError(f"account {name}: entry {entry.sequence} has an invalid number") from None
        if expected != entry or (last is not None and last.account != entry.account):
            wrong = [column for column, value in entry.row().items() if value != expected.row()[column]] or ["account"]
            raise InputError(
                f"account {name}: entry {entry.sequence} does not match: {', '.join(wrong)} does not follow from the "
                "entries before it"
            )
        held |= {share.subject: share for share in changed}
        last = entry
        verified.append(entry)
    if shares is not None and dict(shares) != held:
        subject = next(subject for subject in {**held, **shares} if held.get(subject) != shares.get(subject))
        whose = f"of {shown(subject)} " if subject else ""
        raise InputError(f"account {shown(verified[0].account)}: the balance {whose}does not follow from its entries")
    return tuple(verified)


def verify_document(document: Any) -> LedgerEntry:
    """Verify an exported account, without its database.

    Args:
        document: of `Account.export`, parsed from JSON.

    Returns:
        The last entry.

    Raises:
        InputError: another document, or an entry that does not follow from those before it.
    """
    match document:
        case {"format": "discreet ledger account", "version": 2 | 3, "entries": [_, *_] as rows}:
            pass
        case _:
            raise InputError("this is no JSON document of `ledger export`")
    added = dict.fromkeys(RHO_FIELDS, "0") if document["version"] == 2 else {}
    rows = [added | row if isinstance(row, dict) else row for row in rows]
    if not all(isinstance(row, dict) and set(row) == set(COLUMNS) for row in rows):
        raise InputError("an entry of this account has other fields than those of `ledger export`")
    entries = [LedgerEntry(*(row[column] for column in COLUMNS)) for row in rows]
    if not all(
        type(value) is (int if at == 1 else str) for entry in entries for at, value in enumerate(astuple(entry))
    ):
        raise InputError("an entry of this account has a number instead of text, or text instead of a number")
    return verify(entries)[-1]


def _hashed(row: LedgerEntry | Share, digest: str) -> list[str]:
    """List the values of a row that its digest, the field of this name, is of."""
    names = [field.name for field in fields(row)]
    at = names.index(digest)
    values = [str(getattr(row, name)) for name in names]
    later = values[at + 1 :]
    return values[:at] + (later if any(value != "0" for value in later) else [])


def _hash_texts(*values: str) -> str:
    """Compute SHA-256 of texts, each after its length in bytes."""
    texts = (value.encode() for value in values)
    return hashlib.sha256(b"".join(b"%d:%s" % (len(text), text) for text in texts)).hexdigest()
