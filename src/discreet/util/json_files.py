"""Files and JSON: read strictly and within limits, written whole or not at all.

What is read here may come from a stranger: no more bytes are taken than a limit allows, packed or unpacked, and JSON
is measured before it is made into objects. What is written here is meant to be published: it is readable for all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import secrets
import zlib
from contextlib import suppress
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, cast

from discreet.errors import InputError, shown, shown_path
from discreet.util.limits import FIELDS, NESTING, PARTS, VALUES, at_most, first_repeated

PUBLISHED_RIGHTS = 0o644
"""Rights of a file that is written to be published, whatever the umask: the owner writes, everybody reads."""
GZIP_MAGIC = b"\x1f\x8b"
BESIDE_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^\[\]{}"]++', re.DOTALL)
"""Everything in a JSON text but the brackets outside its strings."""
ODD_IN_JSON = re.compile(r"[^\n -~]")
"""Marks of a JSON text that may not be printable; line breaks stand between its parts alone."""
DEPTH_CHANGE = {"[": 1, "{": 1, "]": -1, "}": -1}
"""What a bracket adds to the depth."""


# -------------------------------------------------------------------------------------------------------------- reading


def read_bytes(path: str | Path, what: str, limit: int) -> bytes:
    """The bytes of a file, no more than a limit.

    Args:
        path: of the file.
        what: it should be, such as "release", for the error.
        limit: most bytes; a pipe or device is read no further, either.

    Raises:
        InputError: no such file, or larger.
    """
    try:
        with open(path, "rb") as file:
            return read_at_most(file, f"{what} {shown_path(path)}", limit)
    except OSError as error:
        raise InputError(f"cannot read {what} {shown_path(path)}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {what} {shown_path(path)}: no file can have this name") from None


def read_at_most(file: IO[bytes], what: str, limit: int) -> bytes:
    """All bytes of an open file, no more than a limit.

    Args:
        file: open, such as stdin's buffer.
        what: it is, for the error.
        limit: most bytes.

    Raises:
        InputError: there are more.
    """
    parts, left = [], limit + 1
    while left and (part := file.read(min(left, 2**20))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise InputError(f"{what} has more than {limit:,} bytes, the most that are read")
    return b"".join(parts)


def decompress(raw: bytes, what: str, limit: int) -> bytes:
    """Bytes that may be packed by gzip, unpacked to no more than a limit.

    Raises:
        InputError: damaged, or more.
    """
    if raw[: len(GZIP_MAGIC)] != GZIP_MAGIC:
        return raw
    try:
        with gzip.GzipFile(fileobj=BytesIO(raw)) as file:
            return read_at_most(cast("IO[bytes]", file), f"{what}, unpacked,", limit)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {what}: {error}") from None


def decode_text(raw: bytes, what: str, *, mark: bool = False) -> str:
    """Bytes as text.

    Args:
        raw: UTF-8.
        what: it is, for the error.
        mark: whether a byte order mark at the start is left out.

    Raises:
        InputError: not UTF-8.

    Example:
        >>> decode_text(b"smoke", "the file")
        'smoke'
    """
    try:
        return raw.decode("utf-8-sig" if mark else "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"cannot read {what}: not UTF-8 text; save it as UTF-8") from None


def read_text(path: str | Path, what: str, limit: int) -> str:
    """The text of a file; arguments and errors as in `read_bytes`, and not UTF-8."""
    return decode_text(read_bytes(path, what, limit), f"{what} {shown_path(path)}")


def read_packed_text(path: str | Path, what: str, limit: int) -> str:
    """The text of a file that may be packed by gzip and may begin with a byte order mark; otherwise as `read_text`."""
    named = f"{what} {shown_path(path)}"
    return decode_text(decompress(read_bytes(path, what, limit), named, limit), named, mark=True)


def read_json(text: str, what: str, limit: int) -> Any:
    """A JSON document whose objects have no field twice, and whose numbers are numbers.

    Args:
        text: JSON.
        what: it should be, such as "the release".
        limit: most characters.

    Raises:
        InputError: anything else, or more of anything than `limits.py` allows.

    Example:
        >>> read_json('{"a": [1, 2]}', "the file", limit=100)
        {'a': [1, 2]}
    """
    at_most(limit, text, f"characters of {what}")
    at_most(VALUES, text.count(","), f"commas of {what}")
    _check_nesting(text, what)
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not JSON: {error}; it is damaged or something else") from None


def _check_nesting(text: str, what: str) -> None:
    """Refuse too many lists and objects, and lists in lists in lists, before anything recurses into them."""
    brackets = BESIDE_BRACKETS.sub("", text)
    at_most(2 * PARTS, brackets, f"brackets of {what}")
    deepest = max(accumulate(map(DEPTH_CHANGE.__getitem__, brackets)), default=0)
    at_most(NESTING, deepest, f"lists and objects inside each other in {what}")


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose fields are all different: of two equal ones readers would take either."""
    at_most(FIELDS, pairs, "fields of one object")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"the field {shown(first_repeated(name for name, _ in pairs))} is there twice")
    return found


def _refuse_constant(name: str) -> float:
    """NaN and infinities are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """What tells whether a file has changed, also where somebody gave it the time of another; None without one.

    Args:
        path: of the file.
    """
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return None


# -------------------------------------------------------------------------------------------------------------- writing


def json_text(value: object, **layout: Any) -> str:
    r"""A value as JSON in which letters of all languages can be read, and no mark is invisible or obeyed by a terminal.

    Args:
        value: of what JSON has.
        layout: options of `json.dumps`.

    Example:
        >>> print(json_text({"state": "é\x9b31m"}))
        {"state": "é\u009b31m"}
    """
    text = json.dumps(value, ensure_ascii=False, **layout)
    return ODD_IN_JSON.sub(lambda mark: mark[0] if mark[0].isprintable() else json.dumps(mark[0])[1:-1], text)


def write_whole(content: str | bytes, path: Path, what: str, *, replace: bool) -> None:
    """Write a file that is to be published, whole or not at all.

    Where the system can hold a file without a name, a process that is killed leaves nothing; elsewhere it may leave a
    hidden file that only its owner reads.

    Args:
        content: text is written as UTF-8.
        path: of the file.
        what: it is, such as "release", for the error.
        replace: whether a file of this name is replaced.

    Raises:
        FileExistsError: there is a file of this name, and it is not to be replaced.
        InputError: the file cannot be written, or is none.
    """
    temporary = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {what} {shown_path(path)}: it is a folder or a device, name a file")
        temporary = path.parent / f".{secrets.token_hex(16)}.part"
        raw = content.encode() if isinstance(content, str) else content
        with _open_new(path.parent, temporary) as file:
            file.write(raw)
            file.flush()
            os.fchmod(file.fileno(), PUBLISHED_RIGHTS)
            nameless = not temporary.exists()
            if nameless:
                _link_nameless(file, temporary if replace else path)
        if replace:
            temporary.replace(path)
        elif not nameless:
            os.link(temporary, path)  # fails if there is one, whoever made it, whenever
    except InputError:
        raise
    except FileExistsError:
        raise FileExistsError(f"{what} {shown_path(path)} exists; name a new file, or say replace=True") from None
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) else "a circle of links"
        raise InputError(f"cannot write {what} {shown_path(path)}: {reason}") from None
    except ValueError:
        raise InputError(
            f"cannot write {what} {shown_path(path)}: its name or text holds half a character or NUL"
        ) from None
    finally:
        with suppress(OSError, ValueError):
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def _open_new(folder: Path, temporary: Path) -> IO[bytes]:
    """A new file that only its owner reads: without a name where the system has such files, else with this one."""
    flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
    with suppress(AttributeError, OSError):  # not Linux, or a file system without them
        return open(os.open(folder, flags | os.O_TMPFILE, 0o600), "wb")
    return open(os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _link_nameless(file: IO[bytes], path: Path) -> None:
    """Give a file without a name one that nobody has."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Naming a folder makes Python call linkat, which follows the link to the open file.
        os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
