"""Errors that a caller can act on.

Every message says what was expected, where, and what to do, and never holds a value of a record: records may only be
named by their column. A message is one short line whatever it quotes, because files, names and arguments that it
quotes may come from anybody. Anything that is not one of these is a defect of the package.
"""

from collections.abc import Iterable
from typing import get_args

MESSAGE_CHARACTERS = 500
"""Most characters of a message: it fits a terminal's few lines and a log's one."""
TAIL_CHARACTERS = 120
"""Characters of a longer message's end that are not cut, because the end says what to do."""
QUOTED_CHARACTERS = 80
"""Most characters of the input in one quotation."""
MOST_LISTED_NAMES = 12
"""Names in one list, and none that would make the list longer than two quotations."""
ELLIPSIS = " ... "


class DiscreetError(Exception):
    """Anything the package refuses, with the reason and the way out in one line.

    Args:
        message: line breaks and blanks become one blank, what cannot be printed (controls, marks that turn the
            direction of text, halves of characters) its escape, and the middle of a message that is too long is cut.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_fit_on_one_line(str(message)))


class InputError(DiscreetError, ValueError):
    """The caller's input (network, schema, records, release, query) is not what it must be; nothing was spent."""


class BudgetError(DiscreetError):
    """The privacy budget does not allow what was asked; nothing was spent."""


def require(holds: bool, message: str) -> None:
    """Refuse the caller's input unless a condition holds.

    Args:
        holds: the condition.
        message: of the `InputError`.

    Raises:
        InputError: it does not hold.
    """
    if not holds:
        raise InputError(message)


def require_word(word: object, words: object, what: str) -> None:
    """Refuse a word that is none of a set's.

    Args:
        word: of the caller.
        words: the set, a `Literal`.
        what: the beginning of the message, which the words follow.

    Raises:
        InputError: another word.

    Example:
        >>> from typing import Literal
        >>> require_word("off", Literal["on", "out"], "a lamp is")
        Traceback (most recent call last):
        ...
        discreet.errors.InputError: a lamp is on or out, not 'off'
    """
    *known, last = get_args(words)
    if word not in (*known, last):
        raise InputError(f"{what} {', '.join(known)} or {last}, not {shown(word)}")


def printable(text: str, kept: str = "") -> str:
    r"""A text in which each mark that a reader cannot see, or a terminal would obey, stands as its escape.

    Names of variables and states may be a stranger's. Controls could move the cursor, line breaks add lines, and marks
    that turn the direction of text swap words of a sentence around them. Whatever this package shows goes through here.

    Args:
        text: a name, or a line with names in it.
        kept: marks that stay as they are, such as line breaks between lines of our own.

    Returns:
        Text of which each other mark is printable: no mark of Unicode's categories "other" and "separator", but blanks.

    Example:
        >>> print(printable("smoke\x1b[31m"), printable("no\nyes \u202e"))
        smoke\x1b[31m no\nyes \u202e
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark in kept else repr(mark)[1:-1] for mark in text)


def shown(value: object) -> str:
    """A piece of the input for a message: quoted, with escapes, and cut to 80 characters.

    Args:
        value: a name, a path, or anything else whose text is not the package's own.

    Returns:
        Text such as `'smoke'`.

    Example:
        >>> shown("smoke"), len(shown("x" * 10**6))
        ("'smoke'", 80)
    """
    text = value if isinstance(value, str) else str(value)
    quoted = repr(text[:QUOTED_CHARACTERS])
    if len(text) <= QUOTED_CHARACTERS and len(quoted) <= QUOTED_CHARACTERS:
        return quoted
    return quoted[: QUOTED_CHARACTERS - 4] + "..." + quoted[-1]


def listed(names: Iterable[str]) -> str:
    """Names for a message, such as those that would have been right: the first few, and never a long list.

    Args:
        names: only as many are taken as are shown.

    Returns:
        Text such as `no, yes`.

    Example:
        >>> listed(("no", "yes")), listed(str(number) for number in range(10**6))
        ('no, yes', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...')
    """
    quoted_names: list[str] = []
    for name in map(printable, names):
        if len(quoted_names) == MOST_LISTED_NAMES or sum(map(len, quoted_names)) + len(name) > 2 * QUOTED_CHARACTERS:
            return ", ".join([*(quoted_names or [shown(name)]), "..."])
        quoted_names.append(name)
    return ", ".join(quoted_names)


def shortened(place: str) -> str:
    """A place such as a path for the beginning of a message, cut to its last 80 characters."""
    return place if len(place) <= QUOTED_CHARACTERS else "..." + place[3 - QUOTED_CHARACTERS :]


def shown_path(path: object) -> str:
    """A path for a message: quoted, with escapes, and cut to its end, which has the name of the file.

    Args:
        path: text or a `Path`.

    Returns:
        Text such as `'data/asia.bif'`.

    Example:
        >>> shown_path("asia.bif"), shown_path("folder/" * 100 + "asia.bif")[-17:]
        ("'asia.bif'", "/folder/asia.bif'")
    """
    width = QUOTED_CHARACTERS - 2
    text = str(path)
    quoted = repr(text[-width:])
    return quoted if len(text) <= width and len(quoted) <= QUOTED_CHARACTERS else f"{quoted[0]}...{quoted[3 - width :]}"


def _fit_on_one_line(text: str) -> str:
    """A text as one printable line of at most 500 characters."""
    if len(text) > MESSAGE_CHARACTERS:
        text = _cut_middle(text)
    line = printable(" ".join(text.split()))
    return line if len(line) <= MESSAGE_CHARACTERS else _cut_middle(line)


def _cut_middle(text: str) -> str:
    """The beginning and the end of a text that is too long."""
    return text[: MESSAGE_CHARACTERS - TAIL_CHARACTERS - len(ELLIPSIS)] + ELLIPSIS + text[-TAIL_CHARACTERS:]
