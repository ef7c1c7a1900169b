"""Errors that a caller can act on.

Every message states what was expected, where, and what to do. It never contains a value of a record, only names of
columns. A message is one short line, because the files, names and arguments that it quotes may come from anybody. Any
other exception is a defect of the package.
"""

from collections.abc import Iterable
from typing import get_args

MESSAGE_CHARACTERS = 500
"""Most characters of a message: it fits a few lines of a terminal and one of a log."""
TAIL_CHARACTERS = 120
"""Characters kept of the end of a longer message, which states what to do."""
QUOTED_CHARACTERS = 80
"""Most characters of a quotation from the input."""
MOST_LISTED_NAMES = 12
"""Most names in a list; the list is also at most as long as two quotations."""
ELLIPSIS = " ... "


class DiscreetError(Exception):
    """Any refusal of the package, with the reason and the next step in one line.

    Args:
        message: line breaks and blanks become one blank, unprintable characters (controls, bidirectional marks, lone
            surrogates) their escapes, and the middle of a long message is cut.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_fit_on_one_line(str(message)))


class InputError(DiscreetError, ValueError):
    """Invalid input (network, schema, records, release, query); nothing was spent."""


class BudgetError(DiscreetError):
    """The privacy budget does not allow the request; nothing was spent."""


def require(holds: bool, message: str) -> None:
    """Refuse the caller's input unless a condition holds.

    Args:
        holds: the condition.
        message: of the `InputError`.

    Raises:
        InputError: the condition does not hold.
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


def printable(text: str, allowed: str = "") -> str:
    r"""Replace each character that a reader cannot see, or a terminal would interpret, by its escape.

    Names of variables and states may come from strangers. Controls could move the cursor, line breaks add lines, and
    bidirectional marks swap words of a sentence. All output of this package goes through this function.

    Args:
        text: a name, or a line with names.
        allowed: characters to keep, such as line breaks between the package's own lines.

    Returns:
        Text whose other characters are printable: none of Unicode's categories "other" and "separator", except blanks.

    Example:
        >>> print(printable("smoke\x1b[31m"), printable("no\nyes \u202e"))
        smoke\x1b[31m no\nyes \u202e
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() or mark in allowed else repr(mark)[1:-1] for mark in text)


def shown(value: object) -> str:
    """Quote a piece of the input for a message, with escapes, cut to 80 characters.

    Args:
        value: a name, a path, or other text of the user.

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
    """List names for a message, such as the valid ones: the first few of a long list.

    Args:
        names: read only as far as they are shown.

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


def shortened(location: str) -> str:
    """Shorten a location, such as a path, to its last 80 characters."""
    return location if len(location) <= QUOTED_CHARACTERS else "..." + location[3 - QUOTED_CHARACTERS :]


def shown_path(path: object) -> str:
    """Quote a path for a message, with escapes, cut to its end, which has the file's name.

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
    """Write a text as one printable line of at most 500 characters."""
    if len(text) > MESSAGE_CHARACTERS:
        text = _cut_middle(text)
    line = printable(" ".join(text.split()))
    return line if len(line) <= MESSAGE_CHARACTERS else _cut_middle(line)


def _cut_middle(text: str) -> str:
    """Keep the beginning and the end of a text that is too long."""
    return text[: MESSAGE_CHARACTERS - TAIL_CHARACTERS - len(ELLIPSIS)] + ELLIPSIS + text[-TAIL_CHARACTERS:]
