"""The list of sentences with figures on the README, `docs/strengths.md` and the guides, for `bench.figures`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from discreet.reporting.explain import least_misses, moved_belief
from experiments import coverage_networks as networks
from experiments import errata
from experiments.budget import geometric
from experiments.chowdhury_ratios import COMPARED, PEER, common, ratios
from experiments.pages import Estimate, estimate
from experiments.shipped import SHIPPED

from .figures import ROOT, WORDS, Cell, Figure, OfCode, OfCommand, OfExperiment

__all__ = ["FIGURES", "PARAMETERS"]

STRENGTHS, HOW, MANY, WHICH = (
    "docs/strengths.md",
    *(f"docs/guides/{name}.md" for name in ("how-private", "people-with-many-rows", "which-epsilon")),
)
OTHER_MACHINE = 4.0
"""CPU seconds of a slower machine, or of one that has other work."""


# ------------------------------------------------------------------------------------------ read from experiments


def _both(found: Estimate, digits: int) -> list[str]:
    """Mean and standard error."""
    return [f"{found.mean:.{digits}f}", f"{found.error:.{digits}f}"]


def _percent(found: Estimate, digits: int = 1) -> list[str]:
    """The same of a share."""
    return _both(Estimate(100 * found.mean, 100 * found.error), digits)


def budget_ratios(frame: pd.DataFrame) -> list[str]:
    """Of the default's tables against D-Ind: the geometric mean, its error, and the range of single ones but asia's."""
    found = ratios(frame)
    names = [name for name in COMPARED if name != PEER and name in set(frame["method"])]
    cells = common(found, names, "cpt")[SHIPPED]
    others = [
        geometric([cell]).mean
        for (network, name, metric, _), cell in found.items()
        if (name, metric) == (SHIPPED, "cpt") and network != "asia" and cell.sign != "fl"
    ]
    return [*_both(geometric(cells), 1), f"{min(others):.1f}", f"{max(others):.1f}"]


def over_networks(frame: pd.DataFrame) -> list[str]:
    """Mean coverage of kinds of numbers, each at three epsilons, %."""
    cells = networks._cells(frame)
    kinds = ("entries", "truth < .01", "marginals", "conditionals")
    means = [networks._over_places(cells, kind, epsilon) for kind in kinds for epsilon in (0.1, 1.0, 10.0)]
    return [_percent(mean)[0] for mean in means if mean is not None]


def read_as_counts(frame: pd.DataFrame) -> list[str]:
    """Coverage of Asia's entries by plug-in intervals of the default's tables, %, at two epsilons."""
    rows = frame[(frame["truths"] == "asia") & (frame["mechanism"] == "planned") & (frame["reader"] == "plug-in")]
    rows = rows[(rows["kind"] == "entries") & (rows["metric"] == "coverage")]
    found = [estimate(rows[rows["epsilon"] == epsilon]["value"]) for epsilon in (0.1, 1.0)]
    return [text for one in found for text in _percent(one, 0)]


def where_it_fails(frame: pd.DataFrame) -> list[str]:
    """Entries at epsilon .1; Asia's entries and conditionals at 1; the least of entries and of conditionals, %."""
    cells = networks._cells(frame)
    asia = cells["known asia", 1.0]
    least = [
        min((parts[kind] for parts in cells.values() if kind in parts), key=lambda cell: cell.mean)
        for kind in ("entries", "conditionals")
    ]
    shown = (asia["entries"], asia["conditionals"], *least)
    return [over_networks(frame)[0], *(text for one in shown for text in _percent(one))]


def broken_guarantees(frame: pd.DataFrame) -> list[str]:
    """How many printed guarantees are refuted; what is printed for the worst, and what it loses."""
    found = errata.outcomes(frame)
    broken = [found[claim.key] for claim in errata.BROKEN.claims if found[claim.key].refuted]
    worst = max(broken, key=lambda one: one.measured.mean / one.claimed.mean)
    return [WORDS[len(broken) - 1], f"{worst.claimed.mean:.0f}", f"{worst.measured.mean:.0f}"]


# ------------------------------------------------------------------------------------------ read from code


def found_by_attacks() -> list[str]:
    """Of those that are there, %, at one false alarm in a hundred."""
    at_one, at_three = (100 * (1 - least_misses(0.01, epsilon, 0.0)) for epsilon in (1.0, 3.0))
    return [f"{at_one:.1f}", f"{at_three:.0f}"]


def least_loss() -> list[str]:
    """The bound from below that every enumeration of choices among pairs is held to."""
    text = (ROOT / "tests/test_audited.py").read_text(encoding="utf-8")
    bounds = re.findall(r"assert 0?(\.\d+) < found <= 1 \+ 1e-9", text)
    return [min(bounds)]


def planted_bugs() -> list[str]:
    """A round number of patches that there are at least, so that one more is no other figure."""
    number = len(list((ROOT / "tests/mutants").glob("*.patch")))
    return [str(number // 500 * 500)]


def three_digits(value: float) -> str:
    """Without zeros at the end, and with commas."""
    return f"{float(f'{value:.3g}'):,g}" if value < 1e6 else f"{value:,.0f}"


def beliefs() -> list[str]:
    """Factors, and what beliefs of 1 % and of 50 % become, whether and which value."""
    return [
        three_digits(value)
        for epsilon in (0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5)
        for times in (1, 2)
        for value in (math.exp(times * epsilon), *(100 * moved_belief(p, times * epsilon) for p in (0.01, 0.5)))
    ]


def visits() -> list[int]:
    """How many rows each unit of the example has."""
    return [1 + patient % 6 for patient in range(1, 301)]


# ------------------------------------------------------------------------------------------ the list

PLAN = 'discreet plan --within {} "P(lung | smoke=yes)" --network demo/asia.bif --records 10000 --relation add-remove'
DEMO = "discreet demo --keep demo"
CHECK, EXAMPLE = "python -m pytest studies/tests/test_figures.py", "the records that the page makes up"
LINE = r"P\(lung \| smoke=yes\) +\S+ +([\d.]+) +\d+% +([\d.]+) +([\d.]+)"
BELIEFS = "\n".join(
    f"| {epsilon} | {{}} | {{}} % | {{}} % | {{}} | {{}} % | {{}} % |"
    for epsilon in ("0.05", "0.1", "0.2", "0.5", "1", "2", "3", "5")
)
WIDTHS = "\n".join(f"| {records} | {{}} | {{}} | {{}} | {{}} | {{}} |" for records in ("2,500", "10,000", "40,000"))
COVERED = "cover {} / {} / {} % of table entries at epsilon 0.1 / 1 / 10, {} / {} / {} % of those below .01, "
COVERED += "{} / {} / {} % of node marginals and {} / {} / {} % of conditional probabilities"
ROWS = "\n".join(
    f"| {way} | {{}} | {{}} | {{}} of 40 |"
    for way in (
        "`max_records = 1`",
        "`max_records = 5`, `record`",
        "`max_records = 5`, `unit`",
        "every row taken for a patient (`--one-record-a-unit`)",
    )
)

FIGURES: Sequence[Figure] = (
    Figure(
        STRENGTHS,
        "takes {} ± {} times less budget (geometric mean over Asia, Sachs, Child and ALARM, 10,000 records, epsilon 1 "
        "and 3; without Asia, where few rare rows decide, {} to {} times",
        OfExperiment("chowdhury_figure_2", budget_ratios),
    ),
    Figure(STRENGTHS, COVERED, OfExperiment("coverage", over_networks, within=0.02)),
    Figure(
        STRENGTHS,
        "covers {} ± {} % of Asia's entries at epsilon 0.1 and {} ± {} % at 1",
        OfExperiment("coverage", read_as_counts),
    ),
    Figure(
        STRENGTHS,
        "10,000,000 records of 37 columns in Parquet are counted out of core in {} GiB",
        OfCommand(
            "python -m bench.counting --rows 10000000 --methods discreet",
            r"discreet .* peak ([\d.]+) GiB",
            0.3,
            (Cell("performance.md", "Counting", "10,000,000", "peak GiB"),),
        ),
    ),
    Figure(
        STRENGTHS,
        "all marginals of the ALARM network in {} ms,",
        OfCommand(
            "python -m bench.inference --network alarm",
            r"marginals, float64, a draw, .*? ([\d.]+) us",
            OTHER_MACHINE,
            (Cell("performance.md", "Answers", "alarm", "double"),),
        ),
    ),
    Figure(
        STRENGTHS,
        "{} times as fast as pyAgrum in a loop",
        OfCommand(
            "python -m bench.inference --network alarm",
            r"marginals, float64, a draw, .*? ([\d.]+) x ",
            0.5,
            (Cell("performance.md", "Answers", "alarm", "ratio", 1),),
        ),
    ),
    Figure(
        STRENGTHS,
        "with intervals in {} ms",
        OfCommand(
            "python -m bench.answers",
            r"marginals of 1000 draws ([\d.]+) ms",
            OTHER_MACHINE,
            (Cell("performance.md", "Answers", "all 37 marginals", "CPU ms"),),
        ),
    ),
    Figure(
        STRENGTHS,
        "once its tables are drawn ({} s of CPU with the learned prior",
        OfCommand(
            "python -m bench.posterior alarm",
            r"planned +1000 draws: +([\d.]+) s CPU",
            OTHER_MACHINE,
            (Cell("performance.md", "A posterior", "alarm", "CPU s"),),
        ),
    ),
    Figure(
        STRENGTHS,
        "a first question about Asia from the shell takes {} s of CPU",
        OfCommand(
            "python -m bench.cold",
            r"query +this +([\d.]+) s CPU",
            OTHER_MACHINE,
            (Cell("performance.md", "Commands", "first `query`", "now"),),
        ),
    ),
    Figure(
        STRENGTHS,
        "(they cover {} % on average); at epsilon 1 those of Asia cover {} ± {} % of entries and {} ± {} % of "
        "conditional probabilities; the least of any network and epsilon are {} ± {} % of entries and {} ± {} % of "
        "conditional probabilities",
        OfExperiment("coverage", where_it_fails),
    ),
    Figure(
        HOW,
        "At 1 it finds {} % of them at 1 % false alarms, and at 3 it finds {} %",
        OfCode("python -m pytest tests/test_adversary.py", "a formula, `discreet.reporting.explain`", found_by_attacks),
    ),
    Figure(
        HOW,
        "the enumeration finds {} to 1.00 of epsilon",
        OfCode("python -m pytest tests/test_audited.py", "a bound in that test", least_loss),
    ),
    Figure(HOW, "more than {} patches", OfCode("make mutants", "`tests/mutants`, in five hundreds", planted_bugs)),
    Figure(
        HOW,
        "do not hold, in {} cases that the page of [errata](../experiments/errata.md#privacy-broken) computes: a "
        "mechanism that was published with epsilon {} loses {} there",
        OfExperiment("errata", broken_guarantees, within=0.0),
        about="printed guarantees that do not hold, and what the worst loses",
    ),
    Figure(MANY, "one to six visits each, {} in all", OfCode(CHECK, EXAMPLE, lambda: [f"{sum(visits()):,}"])),
    Figure(
        MANY,
        "there are {} units with up to six records, and that {} records are left out beyond three",
        OfCode(CHECK, EXAMPLE, lambda: [f"{len(visits())}", f"{sum(max(0, rows - 3) for rows in visits())}"]),
    ),
    Figure(
        MANY,
        "{} of the {} patients have some",
        OfCode(CHECK, EXAMPLE, lambda: [f"{sum(rows > 1 for rows in visits())}", f"{len(visits())}"]),
    ),
    Figure(
        MANY,
        ROWS,
        OfCommand("python -m bench.many_rows", r"\| ([\d.]+) \| ([\d.]+) \| (\d+) of 40", 0.1),
        about="the table of what many rows cost",
    ),
    Figure(
        WHICH,
        BELIEFS,
        OfCode(
            "python -m pytest studies/tests/test_guide_pictures.py", "a formula, `discreet.reporting.explain`", beliefs
        ),
        about="the table of beliefs",
    ),
    Figure(
        WHICH,
        "of half-width {}, of which sampling, which no epsilon changes, makes {} and noise {} (",
        OfCommand(PLAN.format("0.02"), LINE, 0.02, before=DEMO),
    ),
    Figure(
        WHICH,
        "It answers that epsilon {}",
        OfCommand(PLAN.format("0.02"), r"add-remove: epsilon ([\d.]+)", 0.02, before=DEMO),
    ),
    Figure(
        WHICH,
        WIDTHS,
        OfCommand(
            PLAN.format("0.02"),
            r"(?m)^(?:2,500|10,000|40,000) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$",
            0.02,
            before=DEMO,
        ),
        about="the table of half-widths",
    ),
    Figure(
        WHICH,
        "for 0.001 it is about {})",
        OfCommand(PLAN.format("0.001"), r"about ([\d,]+) records", 0.02, before=DEMO),
    ),
)

PARAMETERS: Mapping[str, Sequence[str]] = {
    "": (
        r"epsilon [\d.]*\d(?:, [\d.]*\d)*(?: and [\d.]*\d)?",
        r"95 % intervals?",
        r"Python 3\.11",
        r"\((?:AAAI|ICML|JMLR|NIPS) \d{4}\)",
        r"(?:section|decision) \d",
        r"\b\d+,000 (?:made-up )?(?:records|patients)",
        r"\bfive minutes from a CSV",
    ),
    "README.md": (r"Apache-2\.0",),
    STRENGTHS: (r"ICML 2020 paper",),
    "docs/guides/draw-a-network.md": (r"over two networks",),
    "docs/guides/for-data-protection-officers.md": (r"SHA-256",),
    HOW: (r"6,000 releases of", r"false-alarm rate 1e-8", r"\(within 1e-9 for"),
    MANY: (
        r"at most 3 records of each",
        r"with 1 row counts \| with 3 rows",
        r"\| 1 \| (?:1, drawn by lot|1, a third each|3) \|",
        r"\b40 simulated releases",
        r"which is 0\.3:",
        r"intervals that hold 0\.3",
        r"and 12 are the most",
    ),
    "docs/guides/read-an-answer.md": (
        r"the 95 % interval",
        r"a probability of 95 %",
        r"At 10 % you would",
        r"at 90 % nearly all",
        r"such as \.00 to \.13",
        r"in 95 % of cases",
        r"add up to 1,",
    ),
    WHICH: (
        r"gave a fact 1 %, or 50 %",
        r"1 % becomes \| 50 % becomes",
        r"e\^\(2 epsilon\)",
        r"1 in 2 or 1 in 100",
        r"\| 0\.065 \| 0\.13 \| 0\.26 \| 0\.52 \|",
        r"for 2,500, 10,000 and",
        r"Viswanath, 2015",
        r"delta = 1/n",
        r"take 1e-6 for",
    ),
}
"""By page, "" for all: patterns of numbers that nobody measured. A space is any white space."""
