"""Files of JSON: read strictly, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from discreet.errors import InputError

__all__ = ["one_line", "read_json", "read_text", "write_whole"]


def write_whole(text: str, path: Path, *, replace: bool) -> None:
    """Write a file, whole or not at all.

    Raises:
        FileExistsError: there is a file of this name, and it is not to be replaced.
        InputError: the file cannot be written, or is none.
    """
    temporary = None
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write release {str(path)!r}: it is a folder or a device, name a file")
        temporary = path.parent / f".{secrets.token_hex(16)}.part"
        temporary.write_text(text, encoding="utf-8")
        if replace:
            temporary.replace(path)
        else:
            os.link(temporary, path)  # fails if there is one, whoever made it, whenever
    except FileExistsError:
        raise
    except (OSError, RuntimeError) as error:  # a circle of links is a RuntimeError
        reason = error.strerror if isinstance(error, OSError) else "a circle of links"
        raise InputError(f"cannot write release {str(path)!r}: {reason}") from None
    finally:
        with suppress(OSError):
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def read_text(path: str | Path, what: str) -> str:
    """The text of a file.

    Raises:
        InputError: no such file, or not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {what} {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {what} {str(path)!r}: not UTF-8 text") from None


def read_json(text: str, what: str) -> Any:
    """A JSON document whose objects have no field twice, and whose numbers are numbers.

    Args:
        text: JSON.
        what: it should be, such as "the release".

    Raises:
        InputError: anything else.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError) as error:
        reason = one_line(str(error))
        raise InputError(f"{what} is not JSON: {reason}; the file is damaged or not a release") from None


def one_line(text: str) -> str:
    """A text without line breaks, not too long."""
    return " ".join(text.split())[:300]


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose fields are all different: of two equal ones readers would take either."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _refuse_constant(name: str) -> float:
    """NaN and infinities are not JSON."""
    raise ValueError(f"{name} is not a JSON number")
