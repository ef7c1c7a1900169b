"""Tokens by which a server knows who may ask: a file of their digests, each with a name and a last day.

A token is 32 random bytes, so that a plain digest of it is enough: nobody guesses it, and the file gives none away.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import pydantic

from discreet.errors import InputError, shown, shown_path
from discreet.util.json_files import file_stamp, json_text, read_json, read_text, write_whole

if sys.platform != "win32":
    import fcntl

TOKEN_BYTES = 32
FILE_BYTES = 2**20
MOST_DAYS = 366


class _StoredToken(pydantic.BaseModel):
    """One token, as far as anybody needs to know it."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: Annotated[str, pydantic.Field(min_length=1, max_length=100)]
    sha256: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]
    expires: date


class _TokenDocument(pydantic.BaseModel):
    """A file of tokens."""

    model_config = pydantic.ConfigDict(extra="forbid")
    format: Literal["discreet-tokens"] = "discreet-tokens"
    version: Literal[1] = 1
    tokens: list[_StoredToken] = []


def add_token(path: Path, name: str, days: int, *, today: Callable[[], date] = date.today) -> str:
    """Make a token, and write its digest into a file, which is made if there is none.

    Args:
        path: of the file; only its owner may read it.
        name: of whoever will have the token; no other token of the file has it.
        days: that it is good for, 366 at most.
        today: the day of the clock.

    Returns:
        The token: it is nowhere else, and cannot be found again.

    Raises:
        InputError: a name that is there, another number of days, or a file that cannot be read or written.
    """
    if not 0 < days <= MOST_DAYS:
        raise InputError(f"a token is good for 1 to {MOST_DAYS} days, not {days}")
    token = base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).decode().rstrip("=")
    try:
        made = _StoredToken(name=name, sha256=_digest(token), expires=today() + timedelta(days=days))
    except pydantic.ValidationError:
        raise InputError("the name of a token has 1 to 100 characters") from None
    with _held(path):
        document = _read(path) if path.exists() else _TokenDocument()
        if any(token.name == name for token in document.tokens):
            raise InputError(f"there is a token called {shown(name)}; revoke it first, or take another name")
        _write(path, _TokenDocument(tokens=[*document.tokens, made]))
    return token


def revoke_token(path: Path, name: str) -> None:
    """Take a token out of a file; a server that reads it refuses the token from then on.

    Raises:
        InputError: no token of this name, or a file that cannot be read or written.
    """
    with _held(path):
        document = _read(path)
        kept = [token for token in document.tokens if token.name != name]
        if len(kept) == len(document.tokens):
            raise InputError(f"there is no token called {shown(name)}")
        _write(path, _TokenDocument(tokens=kept))


class TokenFile:
    """The tokens of a file, read again when it changes.

    Args:
        path: of the file.
        today: the day of the clock.

    Raises:
        InputError: the file cannot be read.
    """

    def __init__(self, path: Path, *, today: Callable[[], date] = date.today) -> None:
        self._path, self._today = path, today
        self._stamp, self._tokens = file_stamp(path), _read(path).tokens

    def find(self, token: str) -> str | None:
        """The name of whoever has a token; None where it is not known, or not good any more."""
        self._look()
        digest = _digest(token)
        # All are compared, so that the time says nothing of which one is nearly right.
        names = [one.name for one in self._tokens if hmac.compare_digest(one.sha256, digest) and self._is_good(one)]
        return names[0] if names else None

    def _is_good(self, token: _StoredToken) -> bool:
        """Whether a token's last day is not over."""
        return self._today() <= token.expires

    def _look(self) -> None:
        """Read the file again if it has changed; one that cannot be read lets nobody in."""
        stamp = file_stamp(self._path)
        if stamp != self._stamp:
            try:
                self._tokens, self._stamp = _read(self._path).tokens, stamp
            except InputError:
                self._tokens, self._stamp = [], None


def _digest(token: str) -> str:
    """SHA-256 of a token."""
    return sha256(token.encode()).hexdigest()


def _read(path: Path) -> _TokenDocument:
    """Read a file of tokens."""
    what = f"the file of tokens {shown_path(path)}"
    raw = read_json(read_text(path, "tokens", FILE_BYTES), what, FILE_BYTES)
    try:
        return _TokenDocument.model_validate(raw)
    except pydantic.ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{what} is damaged at {place}; make it with `discreet token`") from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold off whoever else changes a file, from before it is read until it is written; not where files have no locks.

    The lock is on a file beside it, which stays: this one is replaced by each change.
    """
    if sys.platform == "win32":
        yield
        return
    try:
        own = path.resolve()
        lock = os.open(own.with_name(f".{own.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise InputError(f"cannot write file of tokens {shown_path(path)}: {reason}") from None
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: Path, document: _TokenDocument) -> None:
    """Write a file that only its owner can read."""
    write_whole(json_text(document.model_dump(mode="json"), indent=2) + "\n", path, "file of tokens", replace=True)
    os.chmod(path, 0o600)
