"""Tokens of a server's clients: a file of digests, each with a name and a last day.

A token is 32 random bytes, so a plain digest suffices: it cannot be guessed, and the file reveals no token.
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
    """A token's name, digest and last day."""

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
    """Make a token, and write its digest into a file, which is created if missing.

    Args:
        path: of the file; only its owner may read it.
        name: of the person who gets the token; unique in the file.
        days: until the token expires, 366 at most.
        today: returns the current day.

    Returns:
        The token. It is stored nowhere, and cannot be recovered.

    Raises:
        InputError: a name that exists, an invalid number of days, or a file that cannot be read or written.
    """
    if not 0 < days <= MOST_DAYS:
        raise InputError(f"a token is valid for 1 to {MOST_DAYS} days, not {days}")
    token = base64.urlsafe_b64encode(secrets.token_bytes(TOKEN_BYTES)).decode().rstrip("=")
    try:
        stored = _StoredToken(name=name, sha256=_digest(token), expires=today() + timedelta(days=days))
    except pydantic.ValidationError:
        raise InputError("the name of a token has 1 to 100 characters") from None
    with _lock(path):
        document = _read(path) if path.exists() else _TokenDocument()
        if any(token.name == name for token in document.tokens):
            raise InputError(f"there is a token called {shown(name)}; revoke it first, or take another name")
        _write(path, _TokenDocument(tokens=[*document.tokens, stored]))
    return token


def revoke_token(path: Path, name: str) -> None:
    """Remove a token from a file; a server that reads the file then refuses the token.

    Raises:
        InputError: no token of this name, or a file that cannot be read or written.
    """
    with _lock(path):
        document = _read(path)
        tokens = [token for token in document.tokens if token.name != name]
        if len(tokens) == len(document.tokens):
            raise InputError(f"there is no token called {shown(name)}")
        _write(path, _TokenDocument(tokens=tokens))


class TokenFile:
    """Tokens of a file, read again when it changes.

    Args:
        path: of the file.
        today: returns the current day.

    Raises:
        InputError: the file cannot be read.
    """

    def __init__(self, path: Path, *, today: Callable[[], date] = date.today) -> None:
        self._path, self._today = path, today
        self._stamp, self._tokens = file_stamp(path), _read(path).tokens

    def find(self, token: str) -> str | None:
        """Return the name of a token's owner; None if it is unknown or expired."""
        self._look()
        digest = _digest(token)
        # Compare with all tokens: the time must not reveal a partial match.
        names = [each.name for each in self._tokens if hmac.compare_digest(each.sha256, digest) and self._is_good(each)]
        return names[0] if names else None

    def _is_good(self, token: _StoredToken) -> bool:
        """Return True until the end of a token's last day."""
        return self._today() <= token.expires

    def _look(self) -> None:
        """Read the file again if it has changed; if it cannot be read, refuse all tokens."""
        stamp = file_stamp(self._path)
        if stamp != self._stamp:
            try:
                self._tokens, self._stamp = _read(self._path).tokens, stamp
            except InputError:
                self._tokens, self._stamp = [], None


def _digest(token: str) -> str:
    """Compute SHA-256 of a token."""
    return sha256(token.encode()).hexdigest()


def _read(path: Path) -> _TokenDocument:
    """Read a file of tokens."""
    label = f"the file of tokens {shown_path(path)}"
    raw = read_json(read_text(path, "tokens", FILE_BYTES), label, FILE_BYTES)
    try:
        return _TokenDocument.model_validate(raw)
    except pydantic.ValidationError as error:
        location = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{label} is damaged at {location}; make a new one with `discreet token`") from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Lock the file against other writers, from reading it to writing it; without locks on Windows.

    The lock is on a second file, because each change replaces the first.
    """
    if sys.platform == "win32":
        yield
        return
    try:
        target = path.resolve()
        lock = os.open(target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise InputError(f"cannot write file of tokens {shown_path(path)}: {reason}") from None
    try:
        if sys.platform != "win32":
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: Path, document: _TokenDocument) -> None:
    """Write a file that only its owner can read."""
    write_whole(json_text(document.model_dump(mode="json"), indent=2) + "\n", path, "file of tokens", replace=True)
    os.chmod(path, 0o600)
