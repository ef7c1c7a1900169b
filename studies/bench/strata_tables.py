"""Coverage by stratum as tidy rows, as text, against what must hold, and before against after.

A tidy row is one stratum of one run: network, relation, epsilon, records, draws, seeds, run, stratum, number, hits,
width, unanswered, error, estimated (sums over the numbers of the stratum, see `experiments.strata.Tally`), seconds. A
*place* is a network, a relation and an epsilon; its runs are independent of each other, the numbers of one run are not,
so standard errors are by run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import discreet as dc
from experiments.intervals import LEVEL
from experiments.pages import Estimate, markdown
from experiments.strata import ENDS, KINDS, MARGINALS, STRATA

__all__ = ["Rule", "compared", "judged", "places", "pooled", "read", "stored", "violations", "worsened"]

PLACE = ["network", "relation", "epsilon"]
RELEASE = [*PLACE, "records", "seeds", "run"]
"""What two results must share for a run of one to be the same release as a run of the other."""

PROMISED = (0.93, 0.97)
"""Coverage of entries, marginals and conditionals on every network, at every epsilon."""
LEAST, OF = 0.90, 100
"""Coverage of every stratum with so many numbers or more in a run."""
LEAST_ENDS = 0.85
"""Share of the entries at 0 or 1 that intervals hold."""
MOST_WIDTH, MOST_WIDTH_OF_MARGINALS, WHERE_RIGHT = 1.15, 1.1, 0.93
"""Widths after over before, where before covers so many."""
MOST_ERROR = 1.02
"""Error of `estimate`, after over before."""


def _share(runs: pd.DataFrame) -> Estimate:
    """Mean over runs of the share of intervals that hold the truth.

    Its error is at least that of so many independent intervals that hold 95 %: few runs may agree by chance.
    """
    shares = runs["hits"] / runs["number"]
    least = np.sqrt(LEVEL * (1 - LEVEL) / runs["number"].sum())
    error = shares.std(ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0.0
    return Estimate(float(shares.mean()), float(max(error, least)))


def _width(runs: pd.DataFrame) -> float:
    """Mean width of the intervals that there are."""
    answered = (runs["number"] - runs["unanswered"]).sum()
    return float(runs["width"].sum() / answered) if answered else np.nan


def _percent(found: Estimate) -> str:
    """Per cent with one digit."""
    return f"{100 * found.mean:.1f}±{100 * found.error:.1f}"


def _cells(rows: pd.DataFrame) -> dict[tuple[str, str, float], dict[str, pd.DataFrame]]:
    """Rows by place and stratum, in order."""
    found: dict[tuple[str, str, float], dict[str, pd.DataFrame]] = {}
    for (*place, stratum), runs in rows.groupby([*PLACE, "stratum"], sort=False):
        found.setdefault((str(place[0]), str(place[1]), float(place[2])), {})[str(stratum)] = runs
    return found


# ------------------------------------------------------------------------------------------ what was found


def places(rows: pd.DataFrame) -> str:
    """A line for each place: coverage in per cent ± standard error (mean width) of every stratum.

    Args:
        rows: tidy rows.

    Returns:
        A Markdown table, with means over runs of CPU seconds and of absolute errors.
    """
    table = []
    for (network, relation, epsilon), parts in _cells(rows).items():
        shown = [f"{_percent(_share(parts[s]))} ({_width(parts[s]):.3g})" if s in parts else "" for s in STRATA]
        first = next(iter(parts.values()))
        table.append([network, relation, f"{epsilon:g}", f"{len(first)}", *shown, f"{first['seconds'].mean():.1f}"])
    return markdown([*PLACE, "runs", *STRATA, "s"], table)


def pooled(rows: pd.DataFrame) -> str:
    """A line for each stratum over all places, each place weighed the same.

    Args:
        rows: tidy rows.

    Returns:
        A Markdown table: places, numbers in all runs, coverage, mean width, least coverage and where, and mean absolute
        errors of posterior means and of `estimate`.
    """
    cells, table = _cells(rows), []
    for stratum in STRATA:
        found = {place: parts[stratum] for place, parts in cells.items() if stratum in parts}
        if not found:
            continue
        shares = {place: _share(runs) for place, runs in found.items()}
        mean = float(np.mean([one.mean for one in shares.values()]))
        error = float(np.linalg.norm([one.error for one in shares.values()])) / len(shares)
        worst = min(shares, key=lambda place: shares[place].mean)
        every = rows[rows["stratum"] == stratum]
        errors = [every[name].sum(min_count=1) / every["number"].sum() for name in ("error", "estimated")]
        table.append(
            [stratum, f"{len(found)}", f"{every['number'].sum()}", _percent(Estimate(mean, error)),
             f"{np.nanmean([_width(runs) for runs in found.values()]):.4g}",
             f"{_percent(shares[worst])} {worst[0]} {worst[1]} {worst[2]:g}",
             *("" if np.isnan(e) else f"{e:.4g}" for e in errors)]
        )  # fmt: skip
    header = ["stratum", "places", "numbers", "coverage %", "width", "least", "error of means", "of estimate"]
    return markdown(header, table)


# ------------------------------------------------------------------------------------------ what must hold


@dataclass(frozen=True)
class Rule:
    """Coverage of a stratum of a place, and what must hold.

    Args:
        place: network, relation, epsilon.
        stratum: of its numbers.
        found: coverage.
        low, high: what was wanted.
    """

    place: tuple[str, str, float]
    stratum: str
    found: Estimate
    low: float
    high: float

    @property
    def errors(self) -> float:
        """How far it is from what was wanted, in standard errors; not above 0 where it holds."""
        return max(self.low - self.found.mean, self.found.mean - self.high) / self.found.error

    @property
    def far(self) -> bool:
        """Whether it is so by more than two standard errors."""
        return self.errors > 2

    def __str__(self) -> str:
        """A line."""
        network, relation, epsilon = self.place
        wanted = f"{100 * self.low:.0f} to {100 * self.high:.0f}" if self.high < 1 else f"{100 * self.low:.0f} or more"
        note = "" if self.far else ", within two errors"
        return f"{network}, {relation}, epsilon {epsilon:g}: {self.stratum} {_percent(self.found)}, not {wanted}{note}"


def judged(rows: pd.DataFrame) -> list[Rule]:
    """Every place and stratum that something must hold for.

    Entries, marginals and conditionals 93 to 97 %; no stratum with 100 or more numbers in a run below 90 %; entries at
    0 or 1 in 85 % at the least.

    Args:
        rows: tidy rows.

    Returns:
        One for each, whether it holds or not.
    """
    found = []
    for place, parts in _cells(rows).items():
        for stratum, runs in parts.items():
            if stratum in KINDS:
                found.append(Rule(place, stratum, _share(runs), *PROMISED))
            elif stratum == ENDS:
                found.append(Rule(place, stratum, _share(runs), LEAST_ENDS, 1.0))
            elif runs["number"].min() >= OF:
                found.append(Rule(place, stratum, _share(runs), LEAST, 1.0))
    return found


def violations(rows: pd.DataFrame) -> list[Rule]:
    """Those that do not hold.

    Args:
        rows: tidy rows.

    Returns:
        The farthest first, in standard errors.
    """
    return sorted((one for one in judged(rows) if one.errors > 0), key=lambda one: -one.errors)


# ------------------------------------------------------------------------------------------ before and after


def _ratio(before: pd.Series, after: pd.Series) -> Estimate:
    """Ratio of means of paired runs, and its standard error by run (delta method); 0 for a single run."""
    if not before.sum() > 0 or after.isna().any():
        return Estimate(np.nan, np.nan)
    ratio = after.mean() / before.mean()
    spread = (after - ratio * before).std(ddof=1) if len(before) > 1 else 0.0
    return Estimate(float(ratio), float(spread / np.sqrt(len(before)) / before.mean()))


def _paired(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Runs that both have, side by side."""
    both = before.merge(after, on=[*RELEASE, "stratum", "number"], suffixes=("_before", "_after"))
    if both.empty:
        raise SystemExit("the two results share no release: give both the same networks, epsilons, records and seeds")
    return both


def _side(both: pd.DataFrame, which: str) -> pd.DataFrame:
    """One side of paired runs, under the plain names."""
    names = ("hits", "width", "unanswered", "error", "estimated", "seconds")
    return both.rename(columns={f"{name}_{which}": name for name in names})


def _change(runs: pd.DataFrame) -> str:
    """Coverage before and after in per cent, and the ratio of widths."""
    before, after = (_share(_side(runs, which)).mean for which in ("before", "after"))
    widths = _ratio(runs["width_before"], runs["width_after"])
    return f"{100 * before:.1f} to {100 * after:.1f} × {widths.mean:.2f}"


def _errors(parts: dict[str, pd.DataFrame], name: str) -> str:
    """Ratios of a column, for entries, marginals and conditionals."""
    found = [_ratio(parts[k][f"{name}_before"], parts[k][f"{name}_after"]) for k in KINDS if k in parts]
    return "" if any(np.isnan(one.mean) for one in found) else " / ".join(f"{one.mean:.3f}" for one in found)


def compared(before: pd.DataFrame, after: pd.DataFrame) -> str:
    """Both results on the releases that they share, by stratum over all places and then by place.

    Args:
        before, after: tidy rows.

    Returns:
        Two Markdown tables: coverage of both, and after over before of mean widths, of mean absolute errors of
        posterior means and of `estimate`, and of CPU seconds. The first weighs every place the same, its ratios are
        geometric means over places; the second has a line for each place, its errors are those of entries, marginals
        and conditionals.

    Raises:
        SystemExit: they share no release.
    """
    cells = _cells(_paired(before, after))
    header = ["stratum", "places", "before %", "after %", "widths ×", "errors ×", "of estimate ×", "seconds ×"]
    lines = []
    for stratum in STRATA:
        parts = [place[stratum] for place in cells.values() if stratum in place]
        if parts:
            lines.append([stratum, f"{len(parts)}", *_over(parts)])
    header_by_place = [*PLACE, "runs", *STRATA, "errors ×", "of estimate ×", "seconds ×"]
    by_place = []
    for (network, relation, epsilon), parts_of in cells.items():
        first = next(iter(parts_of.values()))
        shown = [_change(parts_of[s]) if s in parts_of else "" for s in STRATA]
        errors = [_errors(parts_of, name) for name in ("error", "estimated")]
        seconds = _ratio(first["seconds_before"], first["seconds_after"])
        by_place.append(
            [network, relation, f"{epsilon:g}", f"{len(first)}", *shown, *errors, f"{seconds.mean:.2f}"]
        )  # fmt: skip
    return f"{markdown(header, lines)}\n{markdown(header_by_place, by_place)}"


def _over(parts: Sequence[pd.DataFrame]) -> list[str]:
    """`_changes` over places."""
    cells = []
    for which in ("before", "after"):
        shares = [_share(_side(runs, which)) for runs in parts]
        error = float(np.linalg.norm([one.error for one in shares])) / len(shares)
        cells.append(_percent(Estimate(float(np.mean([one.mean for one in shares])), error)))
    for name in ("width", "error", "estimated", "seconds"):
        ratios = [_ratio(runs[f"{name}_before"], runs[f"{name}_after"]) for runs in parts]
        known = [one for one in ratios if one.mean > 0]
        error = np.linalg.norm([one.error / one.mean for one in known]) / max(len(known), 1)
        mean = np.exp(np.mean([np.log(one.mean) for one in known])) if known else np.nan
        cells.append("" if not known else f"{mean:.3f}±{mean * error:.3f}")
    return cells


def worsened(before: pd.DataFrame, after: pd.DataFrame) -> list[str]:
    """What became wider or farther off than it may: widths 1.15 times, of marginals 1.1, where before covered 93 %.

    Args:
        before, after: tidy rows.

    Returns:
        Lines; also those of places where `estimate` errs more than 1.02 times as much as before.

    Raises:
        SystemExit: they share no release.
    """
    found = []
    for (network, relation, epsilon), parts in _cells(_paired(before, after)).items():
        where = f"{network}, {relation}, epsilon {epsilon:g}: "
        for stratum, runs in parts.items():
            most = MOST_WIDTH_OF_MARGINALS if stratum == MARGINALS else MOST_WIDTH
            widths = _ratio(runs["width_before"], runs["width_after"])
            if _share(_side(runs, "before")).mean >= WHERE_RIGHT and widths.mean > most:
                found.append(f"{where}{stratum} × {widths.text(3)} as wide, not × {most} or less")
            errors = _ratio(runs["estimated_before"], runs["estimated_after"])
            if stratum in KINDS and errors.mean > MOST_ERROR:
                found.append(f"{where}`estimate` errs × {errors.text(3)} on {stratum}, not × {MOST_ERROR} or less")
    return found


# ------------------------------------------------------------------------------------------ files


def stored(rows: pd.DataFrame, stem: Path) -> None:
    """Write tidy rows as CSV and as Parquet.

    Args:
        rows: tidy rows.
        stem: path; its ending is replaced.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    rows.to_csv(stem.with_suffix(".csv"), index=False)
    rows.to_parquet(stem.with_suffix(".parquet"), index=False)


def read(paths: Sequence[Path]) -> pd.DataFrame:
    """Tidy rows of some files, one below the other.

    Args:
        paths: Parquet files that `stored` wrote.

    Returns:
        All rows.

    Raises:
        InputError: a file that cannot be read.
    """
    found = []
    for path in paths:
        try:
            found.append(pd.read_parquet(path))
        except (OSError, ValueError) as error:
            raise dc.InputError(f"{path}: a Parquet file of an earlier run was expected") from error
    return pd.concat(found, ignore_index=True)
