"""Errata: what four papers claim and what is measured, item by item, and what of them is correct as printed.

Z is Zhang, Rubinstein and Dimitrakakis (AAAI 2016), W Williams and McSherry (NIPS 2010), C Chowdhury, Rekatsinas and
Jha (ICML 2020), D Dimitrakakis et al. (JMLR 2017). Each claim is a record with a small function that gives the claimed
number and the measured one; the modules in `claims` have them by the way they err. A claim is refuted where the numbers
contradict it; where one of them is simulated, by more than four standard errors. Open questions, readings of sentences
that claim no number, and readings of what the plain text of a paper may have lost, are shown and not counted.

Each line says for which values of the paper's free constants it is so. Each number against a paper has a second
derivation, from the paper's text alone and without the first one's code (`claims.second_hand`), and both must agree.

Most is exact, and run once for both seed sets. Cases are those in which an error was first found, or small ones that
show it: a claim is refuted by one case, and no case says how often it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from .claims.bounds import BOUNDS
from .claims.claim import Claim, Ground, Group, Outcome, number
from .claims.correct import CORRECT
from .claims.corrected import CORRECTED
from .claims.noise import NOISE
from .claims.privacy import BROKEN, OPEN, RELATION, VACUOUS
from .claims.readings import DAMAGED, READINGS
from .claims.sensitivity import LOOSE
from .claims.steps import MEANINGLESS, TYPOS
from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, markdown
from .pictures import grid, legend_below, log_axis

__all__ = ["CLAIMS", "COUNTED", "EXPERIMENT", "GROUNDS", "GROUPS", "outcomes", "second_numbers"]

GROUPS: Sequence[Group] = (
    BROKEN,
    RELATION,
    OPEN,
    VACUOUS,
    NOISE,
    BOUNDS,
    MEANINGLESS,
    TYPOS,
    READINGS,
    DAMAGED,
    LOOSE,
    CORRECT,
    CORRECTED,
)
"""By severity; what is correct comes last."""
COUNTED: Sequence[Group] = tuple(group for group in GROUPS if group.holds is not None and group is not CORRECTED)
"""Groups of what is printed, which the verdict counts."""
MEASURED_MARKER: Mapping[str, Any] = {"marker": "s", "color": "#0060a0", "linestyle": "none", "label": "measured"}
OPEN_MARKER: Mapping[str, Any] = {
    "marker": "x",
    "color": "#b04000",
    "linestyle": "none",
    "label": "open: would be, in one reading",
}
CLAIMS: Mapping[str, Claim] = {claim.key: claim for group in GROUPS for claim in group.claims}
"""All claims by their key."""
GROUNDS: Mapping[str, Ground] = {claim.key: group.ground_of(claim) for group in GROUPS for claim in group.claims}
"""What each stands on, by its key."""
FIRST, SECOND = "first", "second"
"""Hands: whose derivation a number is. The second is exact, made once."""


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Every claim, whose first derivation has more repeats in a full run where it is simulated; then second ones."""
    first = [
        ({"claim": key, "hand": FIRST}, claim.repeats[0 if quick else 1] if claim.random else 0)
        for key, claim in CLAIMS.items()
    ]
    return first + [
        ({"claim": key, "hand": SECOND}, 0) for key, ground in GROUNDS.items() if not isinstance(ground.second, str)
    ]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """The claimed and the measured number, by one hand."""
    claim = CLAIMS[task.setting["claim"]]
    if task.setting["hand"] == SECOND:
        numbers = GROUNDS[claim.key].second()
    else:
        numbers = claim.measure(task.rng(claim.key)) if claim.random else claim.measure()
    for metric, value in zip(("claimed", "measured"), numbers, strict=True):
        yield {"metric": metric, "value": float(value)}


def outcomes(frame: pd.DataFrame) -> dict[str, Outcome]:
    """What was found for each claim.

    Args:
        frame: rows of one seed set: `claim`, `hand`, `repeat`, `metric`, `value`.

    Returns:
        By the key of the claim.
    """
    found = {}
    for key, part in frame[frame["hand"] == FIRST].groupby("claim", sort=False):
        pairs = part.pivot(index="repeat", columns="metric", values="value")[["claimed", "measured"]]
        found[str(key)] = Outcome.of(CLAIMS[str(key)], pairs.to_numpy(float))
    return found


def second_numbers(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """What the second derivation of each claim found, where there is one.

    Args:
        frame: rows of one seed set.

    Returns:
        (claimed, measured) by the key of the claim.
    """
    pairs = frame[frame["hand"] == SECOND].pivot(index="claim", columns="metric", values="value")
    return {str(pair.Index): (float(pair.claimed), float(pair.measured)) for pair in pairs.itertuples()}


def present(frame: pd.DataFrame) -> Page:
    """A table for each group, what was known before as checks, and the broken guarantees in a figure."""
    found, second = outcomes(frame), second_numbers(frame)
    checks = [_as_expected(group, found) for group in GROUPS if group.holds is not None]
    checks.append(_as_by_a_second_hand(found, second))
    checks += [check for key, claim in CLAIMS.items() for check in found[key].checks(claim)]
    return Page(
        _verdict(found),
        [
            Illustration(
                "privacy",
                _figure(found),
                "Privacy loss that is printed and that one named pair of data sets shows (nats, log scale), and their "
                "ratio. W's is an open question: what one of several readings would cost.",
            )
        ],
        [
            *((f"## {group.title}\n\n{group.about}", _table(group, found)) for group in GROUPS),
            (f"## Derivations and free constants\n\n{ABOUT_GROUNDS}", _grounds(second)),
        ],
        checks,
        "Z: Zhang, Rubinstein and Dimitrakakis (AAAI 2016). W: Williams and McSherry (NIPS 2010). C: Chowdhury, "
        "Rekatsinas and Jha (ICML 2020). D: Dimitrakakis et al. (JMLR 2017). K is the number of variables, N that of "
        "the subsets of families. Numbers without ± are exact but for rounding and quadrature.",
    )


def _as_expected(group: Group, found: Mapping[str, Outcome]) -> Check:
    """Whether all claims of a group fail, or stand, as its title says."""
    odd = [claim.key for claim in group.claims if found[claim.key].refuted == group.holds]
    wanted = f"all {len(group.claims)} {'stand' if group.holds else 'fail'}"
    seen = wanted if not odd else "not so: " + "; ".join(odd)
    return Check(group.title, wanted, seen, not odd, f"{wanted}, alone")


def _as_by_a_second_hand(found: Mapping[str, Outcome], second: Mapping[str, tuple[float, float]]) -> Check:
    """Whether both derivations of each number have it, to the precision that is stated for it."""
    odd = [key for key, numbers in second.items() if not found[key].agrees(GROUNDS[key], numbers)]
    wanted = f"all {len(second)} agree"
    accepts = "relative differences up to those stated, one in 500 at most, and 4 standard errors"
    return Check("Second derivations", wanted, wanted if not odd else "not so: " + "; ".join(odd), not odd, accepts)


def _verdict(found: Mapping[str, Outcome]) -> str:
    """One sentence, from the numbers; open questions and what is corrected here do not count."""

    def refuted(*groups: Group) -> list[bool]:
        return [found[claim.key].refuted for group in groups for claim in group.claims]

    def shown(*groups: Group) -> str:
        return f"{sum(refuted(*groups))} of {len(refuted(*groups))}"

    printed = refuted(*COUNTED)
    answer = "Not reproduced" if all(printed) else "Reproduced in part" if any(printed) else "Reproduced"
    worst = max(found[claim.key].ratio.mean for claim in BROKEN.claims)
    thought = refuted(VACUOUS, LOOSE, CORRECT)
    return (
        f"{answer}: numbers refute {shown(BROKEN)} privacy guarantees thought to be broken (the worst loses "
        f"{worst:.0f} times what is claimed), {shown(RELATION)} for another relation, {shown(NOISE, BOUNDS)} bounds as "
        f"printed and {shown(MEANINGLESS, TYPOS)} steps and formulas; of the claims thought to hold, some of them "
        f"vacuous, {thought.count(False)} of {len(thought)} stand."
    )


def _table(group: Group, found: Mapping[str, Outcome]) -> str:
    """A line for each claim."""
    rows = []
    for claim in group.claims:
        outcome = found[claim.key]
        expected = group.holds is None or outcome.refuted != group.holds
        seen = "fails" if outcome.refuted else "stands"
        answer = (group.word or seen) if expected else ("**no**" if outcome.refuted else "**not refuted**")
        shown = f"{claim.symbol} {number(outcome.claimed)}", number(outcome.measured)
        rows.append([claim.item, claim.printed, claim.case, *shown, answer])
    return markdown(
        ["item", "printed" if group is not CORRECTED else "corrected", "case", "claimed", "measured", "holds"], rows
    )


ABOUT_GROUNDS = (
    "For every line that has its own: how the number comes about, for which values of what the paper leaves open it is "
    "so, and the measured number of a second derivation, made from the paper's text alone, with its largest relative "
    "difference from the first. All other lines are of their case alone, and nothing is held against a paper in them."
)


def _grounds(second: Mapping[str, tuple[float, float]]) -> str:
    """A line for each claim with a ground of its own."""
    rows = []
    for claim in (claim for group in GROUPS for claim in group.claims if claim.ground):
        ground = GROUNDS[claim.key]
        value = number(Estimate(second[claim.key][1])) if claim.key in second else ground.second
        precision = f"{ground.agrees:.0e}" if claim.key in second else "-"
        rows.append([claim.item, claim.case, ground.derivation, ground.constants, value, precision])
    return markdown(["item", "case", "how", "for which constants", "second derivation", "agrees to"], rows)


def _figure(found: Mapping[str, Outcome]) -> Figure:
    """A line for each guarantee that is broken: the printed loss, and the measured one; open questions stand apart."""
    claims = [(claim, group) for group in (BROKEN, RELATION, OPEN) for claim in group.claims if claim.label]
    figure, ((panel,),) = grid(1, 1, width=6.6, height=0.33 * len(claims) + 0.4)
    for place, (claim, group) in enumerate(claims):
        outcome = found[claim.key]
        marker = OPEN_MARKER if group is OPEN else MEASURED_MARKER
        printed, seen = outcome.claimed.mean, outcome.measured.mean
        panel.plot([printed, seen], [place, place], color="#909090", linewidth=1, zorder=1)
        panel.plot(printed, place, "o", color="black", markerfacecolor="white", label="printed")
        panel.plot(seen, place, **marker)
        panel.annotate(f"{seen / printed:.3g} times", (seen, place), (7, 0), textcoords="offset points", va="center")
    panel.set_yticks(range(len(claims)), [claim.label for claim, _ in claims])
    panel.yaxis.set_minor_locator(NullLocator())
    panel.invert_yaxis()
    log_axis(panel, (0.1, 0.3, 1, 3, 10, 30), "privacy loss (nats, log scale)")
    panel.set_xlim(0.07, 90)
    legend_below(figure, columns=3)
    return figure


EXPERIMENT = Experiment(
    title="Errata of four papers: claimed and measured",
    source="Zhang et al. (AAAI 2016), Williams and McSherry (NIPS 2010), Chowdhury et al. (ICML 2020), Dimitrakakis et "
    "al. (JMLR 2017); the statement is named in each line.",
    claim="Guarantees, bounds, steps and formulas as they are printed, or as they are most likely meant.",
    data="Tiny data sets and networks that are written down in each line, and the bundled Asia network.",
    relation="REPLACE one record unless the line says that one is added or removed.",
    guarantee="The claimed one of each line; mechanisms marked **no** are not private as they claim. Nothing here is "
    "released.",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["errata"])
