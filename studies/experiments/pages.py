"""Pages of experiments in Markdown: a verdict, the facts, pictures, tables, checks, and the index of all pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from .pictures import save_figure

__all__ = [
    "OUTCOMES",
    "Check",
    "Estimate",
    "Illustration",
    "Page",
    "estimate",
    "markdown",
    "mean_and_error",
    "save_index",
    "save_page",
]


OUTCOMES = ("Reproduced in part", "Reproduced", "Not reproduced", "Beyond the papers")
"""A verdict begins with one of them."""


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error; 0 for what is exact."""

    mean: float
    error: float = 0.0

    def text(self, digits: int = 3) -> str:
        """Both, or the mean alone where it is exact."""
        shown = f"{self.mean:.{digits}f}"
        return shown if self.error == 0 else f"{shown} ± {self.error:.{digits}f}"


def estimate(values: npt.ArrayLike) -> Estimate:
    """Mean of independent values and its standard error, NaN for a single one."""
    found = np.asarray(values, np.float64)
    error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else np.nan
    return Estimate(float(found.mean()), float(error))


def mean_and_error(values: npt.ArrayLike, digits: int = 3) -> str:
    """Mean of independent values and its standard error, as text."""
    return estimate(values).text(digits)


STANDARD_ERRORS = 4
"""What a simulated number may err by before a check says so; chance alone does with probability 3e-5 on one side."""


@dataclass(frozen=True)
class Check:
    """Something that must hold, whatever a paper prints: our numbers, or errata; and what would still pass for it.

    A check that accepts everything says nothing. So each says what it accepts, and has power only if that ends before
    the worst number that a reader would still take for a success. Those of simulated numbers accept the more the fewer
    repeats there are; without power they fail, whatever was found.

    Args:
        what: is compared.
        wanted: in words.
        found: in words.
        holds: whether it does.
        accepts: in words, what would be found good as well.
        powerful: whether that is still sane.
    """

    what: str
    wanted: str
    found: str
    holds: bool
    accepts: str
    powerful: bool = True

    @property
    def passes(self) -> bool:
        """Whether it holds, and could have failed."""
        return self.holds and self.powerful

    @property
    def answer(self) -> str:
        """For the last column."""
        return "**no**" if not self.holds else "yes" if self.powerful else "**without power**"

    @staticmethod
    def near(
        what: str,
        wanted: Estimate,
        found: Estimate,
        *,
        rounding: float = 0.0,
        sane: float | None = None,
        digits: int = 3,
    ) -> Check:
        """Equal up to rounding and four standard errors of the difference.

        Args:
            what: is compared.
            wanted: the reference, with the standard error it was stated with.
            found: the measurement; a NaN error counts as 0.
            rounding: half a unit of the last digit of the reference.
            sane: the largest difference that would still be taken for agreement; None for the rounding.
            digits: to print.

        Returns:
            The check; chance fails a true one with probability 6e-5 if means are normal.
        """
        allowed = rounding + _slack(Estimate(0.0, float(np.hypot(wanted.error, np.nan_to_num(found.error)))))
        # Rounding of the reference itself must not decide.
        holds = abs(wanted.mean - found.mean) <= allowed * (1 + 1e-9)
        accepts = _interval(wanted.mean - allowed, wanted.mean + allowed)
        powerful = allowed <= (rounding if sane is None else sane)
        return Check(what, wanted.text(digits), found.text(digits), bool(holds), accepts, bool(powerful))

    @staticmethod
    def below(
        what: str, found: Estimate, limit: float, *, sane: float | None = None, most: float = np.inf, digits: int = 3
    ) -> Check:
        """Not above a limit by more than four standard errors.

        Args:
            what: is compared.
            found: the measurement; a NaN error counts as 0.
            limit: that it is to keep.
            sane: the largest value that would still be taken for a success; None for the limit itself.
            most: what it cannot reach whatever happens, such as 1 for a share.
            digits: to print.

        Returns:
            The check.
        """
        end, worst = limit + _slack(found), limit if sane is None else sane
        accepts = f"up to {_shown(end, digits)}"
        holds = found.mean <= end
        return Check(
            what,
            f"at most {limit:.{digits}f}",
            found.text(digits),
            bool(holds),
            accepts,
            bool(end <= worst and end < most),
        )

    @staticmethod
    def above(
        what: str, found: Estimate, limit: float, *, sane: float | None = None, least: float = -np.inf, digits: int = 3
    ) -> Check:
        """Not below a limit by more than four standard errors; arguments as for `below`, upside down."""
        end, worst = limit - _slack(found), limit if sane is None else sane
        accepts = f"from {_shown(end, digits)}"
        holds = found.mean >= end
        return Check(
            what,
            f"at least {limit:.{digits}f}",
            found.text(digits),
            bool(holds),
            accepts,
            bool(end >= worst and end > least),
        )

    @staticmethod
    def within(
        what: str, found: Estimate, band: tuple[float, float], *, sane: tuple[float, float], digits: int = 3
    ) -> Check:
        """Inside a band, or outside it by no more than four standard errors; sane: the worst values on either side."""
        low, high = band[0] - _slack(found), band[1] + _slack(found)
        return Check(
            what,
            f"{_shown(band[0], digits)} to {_shown(band[1], digits)}",
            found.text(digits),
            bool(low <= found.mean <= high),
            f"{_shown(low, digits)} to {_shown(high, digits)}",
            bool(sane[0] <= low and high <= sane[1]),
        )

    @staticmethod
    def clearly_above(what: str, found: Estimate, limit: float, *, digits: int = 3) -> Check:
        """Above a limit by more than four standard errors: the fewer the repeats, the less it accepts."""
        end = limit + _slack(found)
        wanted = f"above {limit:.{digits}f} by four standard errors"
        return Check(what, wanted, found.text(digits), bool(found.mean > end), f"above {_shown(end, digits)}")

    @staticmethod
    def clearly_below(what: str, found: Estimate, limit: float, *, digits: int = 3) -> Check:
        """Below a limit by more than four standard errors: the fewer the repeats, the less it accepts."""
        end = limit - _slack(found)
        wanted = f"below {limit:.{digits}f} by four standard errors"
        return Check(what, wanted, found.text(digits), bool(found.mean < end), f"below {_shown(end, digits)}")


def _slack(found: Estimate) -> float:
    """What chance may add; nothing to what is exact, or has no error."""
    return STANDARD_ERRORS * float(np.nan_to_num(found.error))


def _shown(value: float, digits: int) -> str:
    """A limit, to the digits of what it limits; more where they would hide it."""
    text = f"{value:.{digits}f}"
    return text if value == 0 or float(text) != 0 else f"{value:.1g}"


def _interval(low: float, high: float) -> str:
    """Both ends, with as many digits as tell them apart."""
    if low == high:
        return f"{low:.6g} alone"
    ends = ((f"{low:.{digits}g}", f"{high:.{digits}g}") for digits in range(5, 17))
    return " to ".join(next((pair for pair in ends if pair[0] != pair[1]), (repr(low), repr(high))))


@dataclass(frozen=True, eq=False)
class Illustration:
    """A picture: a short name for its files, the figure, and what is to be seen."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True, eq=False)
class Page:
    """What one seed set says.

    Args:
        verdict: one sentence that begins with one of `OUTCOMES`: is the printed claim reproduced, and if not, why.
        pictures: first on the page.
        tables: caption (Markdown, with units) and table.
        checks: that must hold for every seed set.
        notes: Markdown, after the tables.
    """

    verdict: str
    pictures: Sequence[Illustration] = ()
    tables: Sequence[tuple[str, str]] = ()
    checks: Sequence[Check] = ()
    notes: str = ""


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown.

    Args:
        header: names of the columns.
        rows: of as many cells.

    Returns:
        Lines, with a line break after the last.
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


# ------------------------------------------------------------------------------------------ writing


def save_page(
    name: str,
    title: str,
    facts: Mapping[str, str],
    pages: Sequence[Page],
    second: str,
    command: str,
    output: Path,
) -> None:
    """Write a page and its pictures, those of the first seed set.

    Args:
        name: of the files.
        title: heading.
        facts: what the numbers are of, by name.
        pages: one for each seed set.
        second: what the second seed set says, or nothing.
        command: that makes the page.
        output: folder.
    """
    first = pages[0]
    parts = [f"# {title}\n", f"**Verdict.** {first.verdict}\n", markdown(["", ""], facts.items())]
    for picture in first.pictures:
        stem = f"figures/{name}-{picture.name}"
        save_figure(picture.figure, output / stem)
        parts.append(f"![{picture.caption}]({stem}.svg)\n\n{picture.caption} ([PNG]({stem}.png))\n")
    parts += [f"{caption}\n\n{table}" for caption, table in first.tables]
    if first.notes:
        parts.append(first.notes.rstrip() + "\n")
    if first.checks:
        parts.append(
            "## Checks\n\nThey must hold, up to rounding and four standard errors, and what would still pass must be "
            "sane; else the command fails.\n"
        )
        parts.append(_checks(pages))
    if second:
        parts.append(f"## Second seed set\n\n{second}\n")
    if len(pages) > 1 and pages[1].verdict != first.verdict:
        parts.append(f"Its verdict: {pages[1].verdict}\n")
    parts.append(f"## Make it\n\n`{command}` writes this page and its tidy table, [Parquet](data/{name}.parquet).\n")
    (output / f"{name}.md").write_text("\n".join(parts), encoding="utf-8")


def _checks(pages: Sequence[Page]) -> str:
    """All checks with what would pass, and what each seed set found."""
    columns = ["found"] if len(pages) == 1 else ["first seeds", "second seeds"]
    rows = []
    for same in zip(*(page.checks for page in pages), strict=True):
        wanted, accepts = (
            " / ".join(dict.fromkeys(getattr(check, name) for check in same)) for name in ("wanted", "accepts")
        )
        answer = next((check.answer for check in same if not check.passes), "yes")
        rows.append([same[0].what, wanted, accepts, *(check.found for check in same), answer])
    return markdown(["check", "wanted", "would still pass", *columns, "holds"], rows)


def save_index(names: Sequence[str], output: Path) -> None:
    """Write `README.md` with the title and the verdict of every page that is there.

    Args:
        names: of pages, in order.
        output: folder.
    """
    rows = []
    for name in names:
        path = output / f"{name}.md"
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()
            title = lines[0].removeprefix("# ")
            verdict = next(line for line in lines if line.startswith("**Verdict.** ")).removeprefix("**Verdict.** ")
            # The first words say it all: Reproduced, Reproduced in part, Not reproduced, Beyond the papers.
            outcome = next((words for words in OUTCOMES if verdict.startswith(words)), "")
            rows.append([f"[{title}]({name}.md)", f"**{outcome}**{verdict.removeprefix(outcome)}"])
    about = (
        "# Experiments\n\nEvery figure and table of the papers, as printed and as corrected, and what the package does "
        "beyond them. All records are public or made up, all noise is simulated from seeds; nothing here is a release. "
        "`make experiments` makes all pages again (quick runs, the pages say of how many repeats); "
        "`python -m experiments NAME` makes one with more repeats, in `build/experiments`.\n"
    )
    (output / "README.md").write_text(f"{about}\n{markdown(['page', 'verdict'], rows)}", encoding="utf-8")
