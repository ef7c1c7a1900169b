"""Sentences with figures: each beside the number that is stored now, and the command that makes it again.

`python -m bench.figures` prints every figure of the README, `docs/strengths.md` and the guides as its sentence says it
and as it is stored or computed, and fails where they differ. `--write` puts what is stored into the sentences, and
writes `docs/figures.md`. `--run` (`make figures`) makes every measurement again and compares, tens of minutes;
`--run WORD` makes those alone whose command has the word. `bench.figures_stated` has the list; a test holds that it is
complete.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

__all__ = [
    "PAGES",
    "ROOT",
    "Cell",
    "Figure",
    "OfCode",
    "OfCommand",
    "OfExperiment",
    "Source",
    "cells_of",
    "document",
    "main",
    "strangers",
]

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/strengths.md",
    *sorted(f"docs/guides/{p.name}" for p in (ROOT / "docs/guides").glob("*.md")),
)
"""Pages whose figures are listed."""
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER = rf"(?:\d[\d,]*\.?\d*|\.\d+|\b(?:{'|'.join(WORDS)})\b)"
MEASURED = r"(?:cases|seconds|minutes|hours|milliseconds|networks|GiB)"
"""What a number is looked for before where it is written as a word."""
WORD_OF_MEASURE = re.compile(rf"\b(?:{'|'.join(WORDS)}|twenty|twenty-\w+|thirty|hundred|dozen)\s+{MEASURED}\b")


# ------------------------------------------------------------------------------------------ where figures come from


class Source(ABC):
    """Where the figures of a sentence come from.

    Args:
        command: that makes them again.
        kept: where they are stored, in Markdown.
        within: how far they may be off when they are made again: .1 is a tenth, 4 a factor of five.
    """

    command: str
    kept: str
    within: float

    @abstractmethod
    def stored(self) -> list[str] | None:
        """The figures as they are to be printed; None where the sentence alone has them."""

    @abstractmethod
    def again(self) -> list[str]:
        """The same, measured now."""


@dataclass(frozen=True)
class OfExperiment(Source):
    """Figures of the stored table of an experiment.

    Args:
        name: of the experiment.
        read: figures of the table's first seed set, which is the one that its page shows.
        within: as of `Source`; seeds are fixed, so that only another machine's rounding makes a difference.
    """

    name: str
    read: Callable[[pd.DataFrame], list[str]]
    within: float = 0.1

    @property
    def command(self) -> str:  # type: ignore[override]
        return f"python -m experiments {self.name} --quick"

    @property
    def kept(self) -> str:  # type: ignore[override]
        return f"[{self.name}](experiments/{self.name}.md), [Parquet](experiments/data/{self.name}.parquet)"

    def stored(self) -> list[str]:
        return self.read(_frame(ROOT / "docs/experiments", self.name))

    def again(self) -> list[str]:
        folder = _output(f"{self.command} --output .")[0]
        return self.read(_frame(folder, self.name))


@dataclass(frozen=True)
class Cell:
    """One number of a table on a page.

    Args:
        page: from `docs`.
        section: heading above it.
        row: first cell of its row.
        column: heading of its column.
        part: which number of the cell.
    """

    page: str
    section: str
    row: str
    column: str
    part: int = 0

    def text(self) -> str:
        """The number."""
        found = cells_of(ROOT / "docs" / self.page)[self.section, self.row, self.column]
        return re.findall(NUMBER, found)[self.part]


@dataclass(frozen=True)
class OfCommand(Source):
    """Figures that a command prints, and perhaps a page of `docs` stores.

    Args:
        command: to run.
        pattern: finds the figures in what it prints: all groups of all that it finds.
        within: as of `Source`.
        cells: of tables that store them; none where only the sentence does.
        before: a command that has to run in the same folder first.
    """

    command: str
    pattern: str
    within: float
    cells: Sequence[Cell] = ()
    before: str = ""

    @property
    def kept(self) -> str:  # type: ignore[override]
        pages = dict.fromkeys(cell.page for cell in self.cells)
        return ", ".join(f"[{page}]({page})" for page in pages) or "the sentence"

    def stored(self) -> list[str] | None:
        return [cell.text() for cell in self.cells] or None

    def again(self) -> list[str]:
        _, printed = _output(self.command, self.before)
        found = re.findall(self.pattern, printed)
        return [part for each in found for part in (each if isinstance(each, tuple) else (each,))]


@dataclass(frozen=True)
class OfCode(Source):
    """Figures that follow from the code, without a measurement: formulas, counts, bounds that tests hold.

    Args:
        command: that shows them.
        kept: of `Source`.
        read: the figures.
    """

    command: str
    kept: str
    read: Callable[[], list[str]]
    within: float = 0.0

    def stored(self) -> list[str]:
        return self.read()

    def again(self) -> list[str]:
        return self.read()


@cache
def _frame(folder: Path, name: str) -> pd.DataFrame:
    """Rows of the first seed set."""
    frame = pd.read_parquet(folder / "data" / f"{name}.parquet")
    return frame[frame["seeds"].isin((0, 1))]


@cache
def _output(command: str, before: str = "") -> tuple[Path, str]:
    """The folder in which a command ran, and what it printed; each runs once."""
    folder = Path(tempfile.mkdtemp(prefix="figures"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    printed = ""
    for line in filter(None, (before, command)):
        print(f"$ {line}", file=sys.stderr, flush=True)
        program, *words = shlex.split(line)
        start = [sys.executable if program == "python" else str(Path(sys.executable).with_name(program))]
        # Nothing of a run is left in the folder of the sources.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "studies")}
        done = subprocess.run(
            [*start, *words], cwd=folder, env=environment, check=False, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            print(f"{line}: exit code {done.returncode}", file=sys.stderr)
        printed = done.stdout
    return folder, printed


@cache
def cells_of(path: Path) -> Mapping[tuple[str, str, str], str]:
    """Cells of all tables of a page by section, first cell of their row, and heading of their column.

    Args:
        path: of the page.

    Returns:
        The first of those that are called the same.
    """
    found: dict[tuple[str, str, str], str] = {}
    heading: list[str] = []
    section = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        section = line.lstrip("# ") if line.startswith("#") else section
        row = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if row and not heading:
            heading = row
        for name, cell in zip(heading, row, strict=False):
            found.setdefault((section, row[0], name), cell)
        heading = heading if row else []
    return found


# ------------------------------------------------------------------------------------------ sentences


@dataclass(frozen=True)
class Figure:
    """A sentence with figures.

    Args:
        page: one of `PAGES`.
        sentence: a part of it as the page has it, `{}` for each figure; lines may be broken anywhere.
        source: where its figures come from.
        about: in place of the sentence in the list, for tables.
    """

    page: str
    sentence: str
    source: Source
    about: str = ""

    @property
    def pattern(self) -> re.Pattern[str]:
        """What finds the sentence, a group for each figure."""
        parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in self.sentence.split("{}")]
        return re.compile(f"({NUMBER})".join(part.replace(re.escape("\n"), r"\n") for part in parts))

    def stated(self, text: str) -> list[str]:
        """The figures as a page says them.

        Args:
            text: of the page.

        Raises:
            ValueError: if the sentence is not there just once.
        """
        found = list(self.pattern.finditer(text))
        if len(found) != 1:
            raise ValueError(
                f"{self.page} has this {len(found)} times: {self.sentence!r}; mend bench/figures_stated.py"
            )
        return list(found[0].groups())

    def written(self, text: str, figures: Sequence[str]) -> str:
        """A page with other figures in the sentence."""
        (found,) = self.pattern.finditer(text)
        for number in range(len(figures), 0, -1):
            start, end = found.span(number)
            text = text[:start] + figures[number - 1] + text[end:]
        return text


def agree(one: Sequence[str], other: Sequence[str], within: float) -> bool:
    """Whether figures are the same, up to a factor; words are numbers, too."""
    if len(one) != len(other):
        return False
    if within == 0:
        return list(one) == list(other)
    for mine, yours in zip(map(_value, one), map(_value, other), strict=True):
        small, large = sorted((abs(mine), abs(yours)))
        if large > (1 + within) * small * (1 + 1e-9):
            return False
    return True


def _value(text: str) -> float:
    """The number of a figure."""
    return WORDS.index(text) + 1 if text in WORDS else float(text.replace(",", ""))


def _read(page: str) -> str:
    """Text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------ numbers that nobody listed


NOT_PROSE = (
    re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE),
    re.compile(r"^#.*$", re.MULTILINE),
    re.compile(r"`[^`\n]*`"),
    re.compile(r"\$[^$]+\$"),
    re.compile(r"\]\([^)]*\)"),
    re.compile(r"^\s*\d+\. ", re.MULTILINE),
)
"""Code, headings, formulas, addresses and the numbers of lists."""


def strangers(page: str, text: str, figures: Sequence[Figure], parameters: Sequence[str]) -> list[str]:
    """Lines with a number that is neither a figure of the list nor known not to be measured.

    Args:
        page: one of `PAGES`.
        text: of the page.
        figures: the list, of all pages.
        parameters: patterns of numbers that nobody measured; a space matches a break of the line.

    Returns:
        What is left of each such line.
    """
    for figure in figures:
        if figure.page == page:
            text = figure.pattern.sub(_blank, text)
    for pattern in (*NOT_PROSE, *(re.compile(one.replace(" ", r"\s+")) for one in parameters)):
        text = pattern.sub(_blank, text)
    words = [found.group() for found in WORD_OF_MEASURE.finditer(text)]
    return [line.strip() for line in text.splitlines() if re.search(r"\d", line)] + words


def _blank(found: re.Match[str]) -> str:
    """Nothing, but for ends of lines."""
    return re.sub(r"[^\n]+", " ", found.group())


# ------------------------------------------------------------------------------------------ the page


HEAD = """# Where figures come from

Every measured number in the sentences of the README, of [what it is good at](strengths.md) and of the guides, with the
command that makes it again. `make figures` runs these commands and compares (tens of minutes); what is stored is
compared with the sentence by `studies/tests/test_figures.py`, which also fails on a number of these pages that is not
in this list. `python -m bench.figures` prints each as it is said and as it is stored, and `--write` brings the
sentences, and this page, up to what is stored.

Not in the list: numbers that nobody measured (epsilons, levels, sizes of examples, versions), formulas, and what stands
in blocks of code: examples of Python are run, and compared, as tests, and commands of the shell are run.

"""


def document(figures: Sequence[Figure]) -> str:
    """The page with the list, as the sentences are now.

    Args:
        figures: the list.

    Returns:
        Markdown.
    """
    lines = ["| page | sentence | made again by | stored | made again, it may differ by |", "|---|---|---|---|---|"]
    for figure in figures:
        said = [f"**{number}**" for number in figure.stated(_read(figure.page))]
        filled = (
            f"... {figure.sentence.format(*said)} ..." if not figure.about else f"{figure.about}: {', '.join(said)}"
        )
        source = figure.source
        where = f"[{Path(figure.page).stem}]({figure.page.removeprefix('docs/')})"
        where = "README" if figure.page == "README.md" else where
        cells = (where, filled, f"`{source.command}`", source.kept, _tolerance(source.within))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return HEAD + "\n".join(lines) + "\n"


def _tolerance(within: float) -> str:
    """How far off a figure may be, in words."""
    if within == 0:
        return "nothing"
    return f"{100 * within:.0f} %" if within < 1 else f"a factor of {1 + within:g}"


# ------------------------------------------------------------------------------------------ the command


def _rows(figures: Sequence[Figure], word: str | None) -> Iterator[tuple[Figure, list[str], list[str] | None, float]]:
    """Each sentence with what it says, what it is compared with, and how exactly."""
    for figure in figures:
        said = figure.stated(_read(figure.page))
        if word is None:
            yield figure, said, figure.source.stored(), 0.0
        elif word in figure.source.command:
            yield figure, said, figure.source.again(), figure.source.within


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, and fail where a sentence says something else.

    Args:
        arguments: None for those of the process.
    """
    from .figures_stated import FIGURES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put what is stored into the sentences")
    parser.add_argument("--run", nargs="?", const="", metavar="WORD", help="measure again, and compare with that")
    given = parser.parse_args(arguments)
    failed = 0
    for figure, said, now, within in _rows(FIGURES, given.run):
        same = now is None or agree(said, now, within)
        failed += not same
        shown = "only the sentence has it" if now is None else ", ".join(now)
        print(f"{'same ' if same else 'OTHER'} {figure.page}: {' '.join((figure.about or figure.sentence).split())}")
        print(f"      said {', '.join(said)}; {'stored' if given.run is None else 'measured'} {shown}", flush=True)
        if given.write and given.run is None and now is not None:
            (ROOT / figure.page).write_text(figure.written(_read(figure.page), now), encoding="utf-8")
    if given.write and given.run is None:
        (ROOT / "docs/figures.md").write_text(document(FIGURES), encoding="utf-8")
    elif failed:
        sys.exit(f"{failed} sentences say something else")


if __name__ == "__main__":
    main()
