"""Forms of table files: how a program writes a table as text, as the curator declares it, and as a look finds it.

A release reads by the declared form alone. A look at the file is for the curator's screen: it drafts a form, and tells
why a file could not be read. Nothing that it shows is a value of a record.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.compute

from discreet.errors import require, shown
from discreet.records.values import is_number

DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that a text file may have where none is declared: that of its header."""
LINES_LIMIT = 1000
"""Most lines before the header, and most below the last record."""
SEEN = 2**16
"""Bytes of the beginning and of the end of a file that a look parses; of the rest it sees the encoding."""
PIECE = 2**20
"""Bytes that are read at a time."""
LINE_END = re.compile(r"\r\n|\r|\n")
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by the byte-order mark at a file's beginning."""
SUM_WORDS = r"(average|gesamt|mean|mittelwert|moyenne|somme?|suma|summe?|totaa?le?s?)\b"
"""Pattern of the first word of a line of sums."""
NUMBER_MARKS = (
    (",", ""), (".", ","), (",", "."), (",", " "), (",", "\u00a0"), (",", "\u202f"), (".", "'"), (".", "\u2019"),
    (".", " "), (",", "'"),
)  # fmt: skip
"""Decimal and thousands separators that a look tries; the first of those that fit most values is taken."""


class FormOptions(TypedDict, total=False):
    """Options of `read_records` for text files: the fields of `TextForm`."""

    encoding: str
    delimiter: str
    quote: str
    decimal: str
    thousands: str
    preamble: int
    footer: int


@dataclass(frozen=True)
class TextForm:
    r"""Form of a table file, declared by the curator and public.

    Args:
        encoding: as Python calls it, such as "cp1252" or "utf-16"; a byte-order mark is no part of the first name.
        delimiter: one character; "" takes the one of `DELIMITERS` that divides the header into most names.
        quote: one character around texts that hold delimiters or line ends; "" if there is none.
        decimal: "." or ",".
        thousands: separator between groups of three digits; "" if there is none.
        preamble: lines before the header.
        footer: lines below the last record, such as sums; the curator's word that they are no records.
        numeric: names of the columns whose numbers are rewritten; None for all.

    Raises:
        InputError: an unknown encoding, separators that are no single characters or equal, or too many lines.

    Example:
        >>> german = TextForm("cp1252", ";", decimal=",", thousands=".")
        >>> german.rewrite("kg", pa.array(["1.234,5", "80,5", "80.5", "60", None])).to_pylist()
        ['1234.5', '80.5', '80,5', '60', None]
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    preamble: int = 0
    footer: int = 0
    numeric: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Refuse what no file has."""
        try:
            known = "a\n".encode(self.encoding).decode(self.encoding) == "a\n"
        except (LookupError, TypeError, ValueError):
            known = False
        require(known, f"encoding {shown(self.encoding)} is not known; it is one such as utf-8, cp1252 or utf-16")
        marks = [self.delimiter, self.quote, self.thousands]
        usable = all(isinstance(mark, str) and re.fullmatch(r"[^\w\r\n\\]?|_", mark) for mark in marks)
        require(usable, "delimiter, quote and thousands are single characters, and no letters, digits or line ends")
        require(self.decimal in (".", ","), "decimal is '.' or ','")
        # A number with a comma in it may stand in quotes between commas.
        apart = self.quote not in (self.delimiter, self.decimal, self.thousands) or not self.quote
        require(apart and self.decimal != self.thousands, "quote and delimiter, decimal and thousands must differ")
        for lines in (self.preamble, self.footer):
            require(
                type(lines) is int and 0 <= lines <= LINES_LIMIT, f"preamble and footer are 0 to {LINES_LIMIT:,} lines"
            )

    @property
    def options(self) -> dict[str, Any]:
        """Fields that differ from their defaults, as words of a project file."""
        values = {name: getattr(self, name) for name in FormOptions.__annotations__}
        return {name: value for name, value in values.items() if value != getattr(TextForm, name)}

    @property
    def rewritten(self) -> bool:
        """True if an engine that reads UTF-8 with points in numbers needs the text rewritten, or its end cut."""
        plain = codecs.lookup(self.encoding).name == "utf-8"
        return not plain or self.decimal != "." or self.thousands != "" or self.footer > 0

    @property
    def number(self) -> str:
        """Pattern of a number in this form, for RE2 and Python."""
        group = re.escape(self.thousands)
        digits = f"[0-9]{{1,3}}({group}[0-9]{{3}})+|[0-9]+" if group else "[0-9]+"
        mark = re.escape(self.decimal)
        return rf"^[ \t]*[+-]?(({digits})({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]{{1,3}})?[ \t]*$"

    def rewrite(self, name: str, texts: Any) -> Any:
        """Rewrite numbers of a column with a decimal point and no groups; each text is judged alone.

        Args:
            name: of the column.
            texts: array of Arrow.

        Returns:
            The texts; one with digits that is no number of this form is none with a point either.
        """
        if (self.decimal, self.thousands) == (".", "") or not (self.numeric is None or name in self.numeric):
            return texts
        compute = pa.compute
        bare = texts if not self.thousands else compute.replace_substring(texts, self.thousands, "")
        pointed = compute.replace_substring(bare, self.decimal, ".")
        others = compute.replace_substring(texts, ".", self.decimal)
        odd = compute.if_else(compute.match_substring_regex(texts, "[0-9]"), others, texts)
        return compute.if_else(compute.match_substring_regex(texts, self.number), pointed, odd)


# ------------------------------------------------------------------------------------------- a look at a file


def find_form(path: str, wanted: Sequence[str] = ()) -> TextForm:
    """Find the form of a text file by a look at it, for the curator to review and to declare.

    Args:
        path: of a text file, perhaps packed.
        wanted: names of columns that the header should have; without any, the first full line is taken for it.

    Returns:
        The form; the default in what nothing speaks for.

    Raises:
        OSError: the file cannot be read.

    Guarantee:
        None: it depends on the records. It is for the curator's screen, and for a draft that the curator reviews.
    """
    return _look(path, wanted)[0]


def explain_form(path: str, form: TextForm, wanted: Sequence[str]) -> str:
    """Explain why a file cannot be read as declared: the options that a look finds, without a value of the records.

    Args:
        path: of the file.
        form: declared.
        wanted: names of the columns that are read.

    Returns:
        The end of a message; empty where the look agrees with what is declared.
    """
    try:
        looked, shows = _look(path, wanted)
    except (OSError, EOFError, ValueError, csv.Error):
        return ""
    told = {**looked.options, "footer": looked.footer, "preamble": looked.preamble}
    unsure = {"encoding": form.encoding != "utf-8", "delimiter": shows and not form.delimiter}
    odd = {name: value for name, value in told.items() if value != getattr(form, name) and not unsure.get(name)}
    suggested = (
        f"; a look at the file suggests {write_options(odd)}, in [source] of a project file or as Python options"
    )
    return suggested if odd else ""


def write_options(options: Mapping[str, Any]) -> str:
    """Write options of a form as in a project file, in one line."""
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())


def _look(path: str, wanted: Sequence[str]) -> tuple[TextForm, bool]:
    """Look at a file: its form, and whether its header shows the delimiter to a reader that is not told."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        encoding, head, tail = _find_encoding(file)
    form, rows = max((_find_rows(head, mark, wanted) for mark in DELIMITERS), key=lambda each: each[0])[1:]
    form = replace(form, encoding="utf-8" if encoding == "ascii" else encoding)
    if not rows:
        return form, True
    footer = _count_footer(rows[1:] if tail == head else _split_end(tail, form.delimiter, len(rows[0])), rows)
    decimal, thousands = _find_marks(rows[1 : len(rows) - footer], form.delimiter)
    shows = max(DELIMITERS, key=form.delimiter.join(rows[0]).count) == form.delimiter
    delimiter = "" if form.delimiter == "," and shows else form.delimiter
    return replace(form, delimiter=delimiter, footer=footer, decimal=decimal, thousands=thousands), shows


def _split_end(tail: str, delimiter: str, width: int) -> list[list[str]]:
    """Split the last lines, whose first may begin within quotes, as that gives more rows of the header's width."""
    lines = LINE_END.sub("\n", tail).partition("\n")[2]
    ways = [list(csv.reader(io.StringIO(quote + lines, newline=""), delimiter=delimiter)) for quote in ("", '"')]
    return max(ways, key=lambda rows: sum(len(row) == width for row in rows))


def _find_encoding(file: Any) -> tuple[str, str, str]:
    """Find the encoding of all bytes of a file; and its first and last lines, equal if the file is short."""
    decoder, first, last, pure, size = codecs.getincrementaldecoder("utf-8")(), b"", b"", True, 0
    encoding = "ascii"
    while piece := file.read(PIECE):
        first, last, size = first or piece[:SEEN], (last + piece)[-SEEN:], size + len(piece)
        pure = pure and piece.isascii()
        try:
            decoder.decode(piece)
        except UnicodeDecodeError:
            encoding = "cp1252"
    marked = next((name for mark, name in MARKS.items() if first.startswith(mark)), None)
    if marked is None and b"\0" in first:
        marked = "utf-16-le" if first[1:2] == b"\0" else "utf-16-be"
    encoding = marked or (encoding if pure or encoding != "ascii" else "utf-8")
    spelled = {"utf-16": "utf-16-le" if first[:1] == b"\xff" else "utf-16-be"}.get(encoding, encoding)
    head, tail = (text.decode(spelled, "replace").removeprefix("\ufeff") for text in (first, last))
    return encoding, head if size <= SEEN else LINE_END.sub("\n", head).rpartition("\n")[0], tail


def _find_rows(
    head: str, delimiter: str, wanted: Sequence[str]
) -> tuple[tuple[bool, int, int], TextForm, list[list[str]]]:
    """Split lines at a delimiter: how well that fits, the form, and the rows from the header on."""
    rows, starts = [], [0]
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            rows.append(row)
            starts.append(reader.line_num)
    except csv.Error:
        rows = []
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return (False, 0, 0), TextForm(), []
    width = max(widths, key=lambda each: (widths[each], each))
    headers = [at for at, row in enumerate(rows) if len(row) == width and 2 * sum(map(bool, row)) > width]
    named = [at for at in headers if wanted and {*wanted} <= {*rows[at]}]
    start = next(iter(named or headers), 0)
    form = TextForm(delimiter=delimiter, preamble=min(starts[start], LINES_LIMIT))
    return (bool(named), widths[width], width), form, rows[start:]


def _count_footer(ending: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> int:
    """Count the last lines that are no records: of another width than the header, or a line of sums."""
    width, firsts = len(rows[0]), Counter(row[0] for row in rows if row)
    count, blank = 0, True
    for row in reversed(ending):
        blank = blank and not row
        word = next(filter(None, row), "")
        if len(row) == width and not (firsts[word] < 2 and re.match(SUM_WORDS, word.strip(), re.IGNORECASE)) and word:
            break
        count += not blank
    return count if count < min(len(ending), LINES_LIMIT) else 0


def _find_marks(rows: Sequence[Sequence[str]], delimiter: str) -> tuple[str, str]:
    """Find decimal and thousands separators: those under which most values are numbers, if plain ones do not do."""
    columns = [[text for text in column if text] for column in zip(*(row for row in rows[:200] if row), strict=False)]

    def count_fits(marks: tuple[str, str]) -> int:
        form = re.compile(TextForm(decimal=marks[0], thousands=marks[1]).number)
        fits = [list(filter(form.match, column)) for column in columns]
        some = [fit for fit, column in zip(fits, columns, strict=True) if 2 * len(fit) > len(column)]
        return sum(len(fit) for fit in some if not all(map(is_number, fit)))

    # A comma in a field of a file that has commas between fields groups thousands, if it can.
    ordered = sorted(NUMBER_MARKS, key=lambda marks: delimiter == "," and marks[0] == ",")
    best = max(ordered, key=count_fits)
    return best if count_fits(best) else (".", "")
