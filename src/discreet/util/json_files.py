"""Files and JSON: read strictly and within limits, written completely or not at all.

A file may come from a stranger: no more bytes are read than a limit allows, packed or unpacked, and JSON is measured
before it is parsed. Written files are for publication: everybody can read them.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import re
import secrets
import sys
import zlib
from contextlib import suppress
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, cast

from discreet.errors import InputError, shown, shown_path
from discreet.util.limits import FIELDS, NESTING, PARTS, VALUES, at_most, first_repeated

PUBLISHED_RIGHTS = 0o644
"""Permissions of a published file, whatever the umask: the owner writes, everybody reads."""
GZIP_MAGIC = b"\x1f\x8b"
DRAWS_FIRST_LINE = b"discreet-draws\n"
"""First line of a file of draws; here, so that a command knows the kind of a file before it loads what reads it."""
BESIDE_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^\[\]{}"]++', re.DOTALL)
"""All text of JSON except the brackets outside its strings."""
ODD_IN_JSON = re.compile(r"[^\n -~]")
"""Characters of JSON text that may not be printable; line breaks occur only between its parts."""
DECLARED_ENCODING = re.compile(rb"""\s*+<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.-]{1,40})["']""")
"""Declaration of XML, whose first bytes are those of ASCII in every encoding below."""
KNOWN_ENCODING = re.compile(
    r"utf-?8|utf-16(?:[lb]e)?|us-ascii|iso-8859-\d\d?|windows-125\d|gb(?:k|2312|18030)|big5|shift_jis|euc-(?:jp|kr)|koi8-[ru]"
)
"""Encodings that a file may declare: no module is looked for by a name in a file."""
DEPTH_CHANGE = {"[": 1, "{": 1, "]": -1, "}": -1}
"""Change of the depth at a bracket."""


# -------------------------------------------------------------------------------------------------------------- reading


def read_bytes(path: str | Path, noun: str, limit: int) -> bytes:
    """Read the bytes of a file, up to a limit.

    Args:
        path: of the file.
        noun: noun for the file in errors, such as "release".
        limit: most bytes, also of a pipe or device.

    Raises:
        InputError: no such file, or a larger one.
    """
    try:
        with open(path, "rb") as file:
            return read_at_most(file, f"{noun} {shown_path(path)}", limit)
    except OSError as error:
        raise InputError(f"cannot read {noun} {shown_path(path)}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {noun} {shown_path(path)}: invalid name of a file") from None


def read_at_most(file: IO[bytes], noun: str, limit: int) -> bytes:
    """Read all bytes of an open file, up to a limit.

    Args:
        file: open, such as stdin's buffer.
        noun: noun for the file in errors.
        limit: most bytes.

    Raises:
        InputError: the file has more.
    """
    blocks, left = [], limit + 1
    while left and (block := file.read(min(left, 2**20))):
        blocks.append(block)
        left -= len(block)
    if not left:
        raise InputError(f"{noun} has more than {limit:,} bytes, the most that are read")
    return b"".join(blocks)


def decompress(raw: bytes, noun: str, limit: int) -> bytes:
    """Unpack bytes that may be packed by gzip, up to a limit.

    Raises:
        InputError: damaged, or larger.
    """
    if raw[: len(GZIP_MAGIC)] != GZIP_MAGIC:
        return raw
    try:
        with gzip.GzipFile(fileobj=BytesIO(raw)) as file:
            return read_at_most(cast("IO[bytes]", file), f"{noun}, unpacked,", limit)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {noun}: {error}") from None


def decode_text(raw: bytes, noun: str, *, mark: bool = False) -> str:
    """Decode bytes as text.

    Args:
        raw: UTF-8.
        noun: for the text in errors.
        mark: True removes a byte order mark at the start.

    Raises:
        InputError: not UTF-8.

    Example:
        >>> decode_text(b"smoke", "the file")
        'smoke'
    """
    try:
        return raw.decode("utf-8-sig" if mark else "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"cannot read {noun}: not UTF-8 text; save it as UTF-8") from None


def read_text(path: str | Path, noun: str, limit: int) -> str:
    """Read the text of a file; arguments and errors as in `read_bytes`, and an error if not UTF-8."""
    return decode_text(read_bytes(path, noun, limit), f"{noun} {shown_path(path)}")


def read_packed_text(path: str | Path, noun: str, limit: int) -> str:
    """Read the text of a file that may be packed by gzip and name its encoding; see `read_text`, `decode_declared`."""
    named = f"{noun} {shown_path(path)}"
    return decode_declared(decompress(read_bytes(path, noun, limit), named, limit), named)


def decode_declared(raw: bytes, noun: str) -> str:
    r"""Decode bytes in the encoding that they name themselves.

    Args:
        raw: UTF-8, possibly with a byte order mark; UTF-16 with one; or XML that declares another encoding.
        noun: for the text in errors.

    Raises:
        InputError: an encoding that is not known, or bytes that are not in it.

    Example:
        >>> decode_declared(b'<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>', "the file")[-9:]
        '><a>é</a>'
    """
    declared = DECLARED_ENCODING.match(raw)
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif declared is None or raw.startswith(codecs.BOM_UTF8):
        return decode_text(raw, noun, mark=True)
    else:
        encoding = declared[1].decode().lower()
    try:
        if KNOWN_ENCODING.fullmatch(encoding):
            return raw.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        raise InputError(f"cannot read {noun}: not {encoding} text, as it declares; save it as UTF-8") from None
    raise InputError(f"cannot read {noun}: it declares the encoding {shown(encoding)}; save it as UTF-8")


def read_json(text: str, noun: str, limit: int) -> Any:
    """Parse JSON strictly: no repeated field in an object, and only finite numbers.

    Args:
        text: JSON.
        noun: for the text in errors, such as "the release".
        limit: most characters.

    Raises:
        InputError: anything else, or more of anything than `limits.py` allows.

    Example:
        >>> read_json('{"a": [1, 2]}', "the file", limit=100)
        {'a': [1, 2]}
    """
    at_most(limit, text, f"characters of {noun}")
    at_most(VALUES, text.count(","), f"commas of {noun}")
    _check_nesting(text, noun)
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{noun} is not JSON: {error}; it is damaged or another file") from None


def _check_nesting(text: str, noun: str) -> None:
    """Refuse too many lists and objects, and deep nesting, before anything recurses into them."""
    brackets = BESIDE_BRACKETS.sub("", text)
    at_most(2 * PARTS, brackets, f"brackets of {noun}")
    deepest = max(accumulate(map(DEPTH_CHANGE.__getitem__, brackets)), default=0)
    at_most(NESTING, deepest, f"lists and objects inside each other in {noun}")


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object, and refuse repeated fields: readers could take either."""
    at_most(FIELDS, pairs, "fields of one object")
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError(f"the field {shown(first_repeated(name for name, _ in pairs))} occurs twice")
    return fields


def _refuse_constant(name: str) -> float:
    """Refuse NaN and infinities, which are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


def file_stamp(path: Path) -> tuple[int, ...] | None:
    """Return numbers that change with a file, even if its time was set back; None without a file.

    Args:
        path: of the file.
    """
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return None


# -------------------------------------------------------------------------------------------------------------- writing


def json_text(value: object, **layout: Any) -> str:
    r"""Write a value as JSON with letters of all languages, and without invisible or control characters.

    Args:
        value: of JSON types.
        layout: options of `json.dumps`.

    Example:
        >>> print(json_text({"state": "é\x9b31m"}))
        {"state": "é\u009b31m"}
    """
    text = json.dumps(value, ensure_ascii=False, **layout)
    return ODD_IN_JSON.sub(lambda mark: mark[0] if mark[0].isprintable() else json.dumps(mark[0])[1:-1], text)


def write_whole(content: str | bytes, path: Path, noun: str, *, replace: bool) -> None:
    """Write a file for publication completely, or not at all.

    If the system supports unnamed files, a killed process leaves nothing; otherwise it may leave a hidden file that
    only its owner can read.

    Args:
        content: text is written as UTF-8.
        path: of the file.
        noun: for the file in errors, such as "release".
        replace: True replaces an existing file.

    Raises:
        FileExistsError: the file exists, and `replace` is False.
        InputError: the file cannot be written, or is a folder or device.
    """
    temporary = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {noun} {shown_path(path)}: it is a folder or a device; give a file")
        temporary = path.parent / f".{secrets.token_hex(16)}.part"
        raw = content.encode() if isinstance(content, str) else content
        with _open_new(path.parent, temporary) as file:
            _write_published(file, raw)
            nameless = not temporary.exists()
            if nameless:
                _link_nameless(file, temporary if replace else path)
        if replace:
            temporary.replace(path)
        elif not nameless:
            os.link(temporary, path)  # fails if the file exists, even if it was made just now
    except InputError:
        raise
    except FileExistsError:
        raise FileExistsError(f"{noun} {shown_path(path)} exists; give a new file, or replace=True") from None
    except (OSError, RuntimeError) as error:  # a cycle of links is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) else "a cycle of links"
        raise InputError(f"cannot write {noun} {shown_path(path)}: {reason}") from None
    except ValueError:
        raise InputError(
            f"cannot write {noun} {shown_path(path)}: its name or text has a lone surrogate or NUL"
        ) from None
    finally:
        with suppress(OSError, ValueError):
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def _write_published(file: IO[bytes], raw: bytes) -> None:
    """Write all, and let others read it."""
    file.write(raw)
    file.flush()
    if sys.platform != "win32":  # where a file has the rights of its folder
        os.fchmod(file.fileno(), PUBLISHED_RIGHTS)


def _open_new(folder: Path, temporary: Path) -> IO[bytes]:
    """Open a new file that only its owner can read: without a name if the system supports it, else with this one."""
    flags = os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # an old system, or a file system without unnamed files
            return open(os.open(folder, flags | os.O_TMPFILE, 0o600), "wb")
    return open(os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _link_nameless(file: IO[bytes], path: Path) -> None:
    """Link an unnamed file to a new name."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a folder Python calls linkat, which follows the link to the open file.
        os.link(f"/proc/self/fd/{file.fileno()}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)
