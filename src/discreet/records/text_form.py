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
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute

from discreet.errors import require, shown
from discreet.records.values import is_number
from discreet.util.frames import read_guarded
from discreet.util.option_texts import FORM_WORDS

DELIMITERS = (",", ";", "\t", "|")
"""Delimiters that a text file may have where none is declared: that of its header."""
LINES_LIMIT = 1000
"""Most lines before the header, and most below the last record."""
SEEN = 2**16
"""Bytes of the beginning and of the end of a file that a look parses; of the rest it sees the encoding."""
PIECE = 2**20
"""Bytes that are read at a time."""
ESCAPING = r"utf.?7|(raw.)?unicode.escape|idna|punycode|hz|iso2022"
"""Encodings in which letters of one text are a line end, or change what is after them."""
LINE_END = re.compile(r"\r\n|\r|\n")
MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Encodings by the byte-order mark at a file's beginning."""
SUM_WORDS = r"(average|gesamt|mean|mittelwert|moyenne|somme?|suma|summe?|totaa?le?s?)\b"
"""Pattern of the first word of a line of sums."""
NUMBER_MARKS = (",", ".,", ",.", ", ", ",\u00a0", ",\u202f", ".'", ".\u2019", ". ", ",'")
"""Decimal and thousands separators, if any, that a look tries; the first of those that fit most values is taken."""


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
        read_guarded(lambda: "a".encode(self.encoding), f"encoding {shown(self.encoding)} is not known")
        odd = re.match(ESCAPING, codecs.lookup(self.encoding).name)
        require(not odd, f"encoding {shown(self.encoding)} may hide line ends in a text; save the file as UTF-8")
        marks = [self.delimiter, self.quote, self.thousands]
        usable = all(isinstance(mark, str) and re.fullmatch(r"[^\w\r\n\\]?|_", mark) for mark in marks)
        require(usable, "delimiter, quote and thousands are single characters, and no letters, digits or line ends")
        require((self.delimiter + self.quote).isascii(), "delimiter and quote are characters of ASCII")
        require(self.decimal in (".", ","), "decimal is '.' or ','")
        # A number with a comma in it may stand in quotes between commas.
        apart = self.quote not in (self.delimiter, self.decimal, self.thousands) or not self.quote
        apart = apart and self.thousands not in ("+", "-")
        require(apart and self.decimal != self.thousands, "quote and delimiter, decimal and thousands must differ")
        counted = all(type(lines) is int and 0 <= lines <= LINES_LIMIT for lines in (self.preamble, self.footer))
        require(counted, f"preamble and footer are from 0 to {LINES_LIMIT:,} lines")

    @property
    def options(self) -> dict[str, Any]:
        """Fields that differ from their defaults, as words of a project file."""
        return {name: getattr(self, name) for name in FORM_WORDS if getattr(self, name) != getattr(TextForm, name)}

    @property
    def number(self) -> str:
        """Pattern of a number in this form, for RE2 and Python."""
        group = re.escape(self.thousands)
        digits = f"[1-9][0-9]{{0,2}}({group}[0-9]{{3}})+|[0-9]+" if group else "[0-9]+"
        mark = re.escape(self.decimal)
        return rf"^[ \t]*[+-]?(({digits})({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]{{1,3}})?[ \t]*$"

    def rewrite_words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Add to words, such as those that mark a missing value, what becomes of them in a column of numbers."""
        if (self.decimal, self.thousands) == (".", ""):
            return tuple(words)  # Arrow would look for pandas, which takes as long as all the rest
        texts = pa.array(words, pa.string())
        rewritten = next((self.rewrite(name, texts) for name in self.numeric or ()), texts).to_pylist()
        return tuple(dict.fromkeys([*words, *rewritten]))

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
    with suppress(OSError, ValueError, csv.Error):
        looked, shows = _look(path, wanted)
        suggested = {**looked.options, "footer": looked.footer, "preamble": looked.preamble}
        unsure = {"encoding": form.encoding != "utf-8", "delimiter": shows and not form.delimiter}
        odd = {
            name: value for name, value in suggested.items() if value != getattr(form, name) and not unsure.get(name)
        }
        where = "in [source] of a project file, as Python options, or in --form of quickstart and domain"
        return f"; a look at the file suggests {write_options(odd)}, {where}" if odd else ""
    return ""


def write_options(options: Mapping[str, Any]) -> str:
    """Write options of a form as in a project file, in one line."""
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())


def open_text(path: str) -> Any:
    """Open a text file for reading bytes, unpacked."""
    return (gzip.open if path.endswith(".gz") else open)(path, "rb")


def _look(path: str, wanted: Sequence[str]) -> tuple[TextForm, bool]:
    """Look at a file: its form, and whether its header shows the delimiter to a reader without a declaration."""
    try:
        with open_text(path) as file:
            encoding, head, tail = _find_encoding(file)
    except (zlib.error, EOFError, csv.Error) as error:
        raise OSError("the packed file is damaged") from error
    form, rows = max((_find_rows(head, mark, wanted) for mark in DELIMITERS), key=lambda each: each[0])[1:]
    form = replace(form, encoding=encoding)
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
    decoder, encoding, first, last, size = codecs.getincrementaldecoder("utf-8")(), "utf-8", b"", b"", 0
    while piece := file.read(PIECE):
        first, last, size = first or piece[:SEEN], (last + piece)[-SEEN:], size + len(piece)
        try:
            decoder.decode(piece)
        except UnicodeDecodeError:
            encoding = "cp1252"
    mark = next(filter(first.startswith, MARKS), b"")
    encoding = MARKS.get(mark, encoding)
    head, tail = (text.decode(encoding, "replace").removeprefix("\ufeff") for text in (first, mark + last))
    if size <= SEEN:
        return encoding, head, head
    return encoding, LINE_END.sub("\n", head).rpartition("\n")[0], tail


def _find_rows(head: str, delimiter: str, wanted: Sequence[str]) -> tuple[tuple[int, ...], TextForm, list[list[str]]]:
    """Split lines at a delimiter: how well that fits, the form, and the rows from the header on."""
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)
    rows, ends = [], [0]
    for row in reader:
        rows.append(row)
        ends.append(reader.line_num)
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return (0,), TextForm(), []
    width = max(widths, key=lambda each: (widths[each], each))
    headers = [at for at, row in enumerate(rows) if len(row) == width and 2 * sum(map(bool, row)) > width]
    named = [at for at in headers if wanted and {*wanted} <= {*rows[at]}]
    start = next(iter(named or headers), 0)
    form = TextForm(delimiter=delimiter, preamble=min(ends[start], LINES_LIMIT))
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
    columns = [list(filter(None, column)) for column in zip(*filter(None, rows[:200]), strict=False)]

    def count_fits(marks: str) -> int:
        form = re.compile(TextForm(decimal=marks[0], thousands=marks[1:]).number)
        fits = [(column, list(filter(form.match, column))) for column in columns]
        return sum(len(fit) for column, fit in fits if 2 * len(fit) > len(column) and not all(map(is_number, fit)))

    # A comma in a field of a file that has commas between fields groups thousands, if it can.
    best = max(sorted(NUMBER_MARKS, key=lambda marks: delimiter == marks[0] == ","), key=count_fits)
    return (best[0], best[1:]) if count_fits(best) else (".", "")
