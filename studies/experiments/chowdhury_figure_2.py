"""Error against epsilon, and the budget ratio: Figure 2 of Chowdhury, Rekatsinas and Jha (ICML 2020).

The paper prints two of its four networks and no numbers but limits in the text. Its KL divergences have the released
law first; where the true law has zeros they would be infinite, so it is mixed with a little of the uniform. Its
queries are about "attribute subsets" of unprinted sizes; here ten marginals of one variable and ten conditionals of one
variable given one or two observed states, whose probability is at least 2 %, drawn anew with each set of records. In a
table L1 and KL are means over rows, then over nodes; the sum over rows is the other reading.

Budget ratio: the epsilon at which D-Ind has the same error, over the method's. For each network, error and epsilon the
stronger of D-Ind's two forms counts; log-log interpolation on a grid. `fl` is an error within 10 % of that of the exact
counts (relative frequencies), where a ratio means nothing. Means are over the same networks and epsilons for all
methods that they compare: those where none is at `fl`. The peer runs on two networks in a quick run, so it is compared
on those in a table of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .budget import Ratio, geometric, spread
from .chowdhury import (
    DATA,
    DRAWN,
    EPSILONS,
    FORMS,
    GUARANTEE,
    METHODS,
    NETWORKS,
    PARTS,
    RELATION,
    by_network,
    data_of,
    described,
    missing,
    names_of,
    noise_of,
    released,
    runnable,
)
from .chowdhury_ratios import (
    COMPARED,
    ENDS,
    GRID,
    PEER,
    QUANTITIES,
    Place,
    common,
    mean_table,
    ratio_table,
    ratios,
    steps,
    steps_table,
)
from .errors import errors
from .harness import Experiment, Task, command
from .noise_law import noise_check
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import grid, legend_below, log_heights, style
from .shipped import NO_PAIRS, SHIPPED

__all__ = ["EXPERIMENT"]

AT: Mapping[str, Sequence[float]] = {"all": EPSILONS, "ends": ENDS, "one": (1.0,), "grid": GRID}
"""Epsilons of a setting by name."""
LIMITS: Mapping[str, float] = {
    "cpt": 0.2, "marg": 0.05, "cond": 0.05, "cpt-kl": 0.13, "marg-kl": 0.05, "cond-kl": 0.05
}  # fmt: skip
"""Printed in the text for epsilon 1, "across all test data sets"; those of queries are "around 0.05 at max"."""
STUDY: Mapping[tuple[str, str], tuple[float | None, float | None]] = {
    ("Algorithm 1", "asia"): (0.7, 0.8),
    ("Algorithm 1", "sachs"): (0.7, 0.7),
    ("Algorithm 1", "child"): (0.6, 0.5),
    ("Algorithm 1", "alarm"): (0.6, 0.6),
    (NO_PAIRS, "asia"): (4.1, None),
    (NO_PAIRS, "sachs"): (4.8, 5.0),
    (NO_PAIRS, "child"): (3.0, 3.0),
    (NO_PAIRS, "alarm"): (3.9, 4.4),
}
"""Ratios of the tables' L1 error at `ENDS` in an earlier study: 2 sets of other records, 10 releases of each, and of
the plan a prototype. Relative standard errors of its errors: 1 to 2 %, on asia 12 to 14 %."""
PRINTED_RATIO = 3.0
OURS = (SHIPPED, NO_PAIRS)
LEAST_RATIO = 1.5
"""Budget ratio below which nobody would call the plan ahead."""
UNDECIDED = {*((network, name, epsilon) for network in ("asia",) for name in OURS for epsilon in ENDS),
             ("sachs", NO_PAIRS, 3.0)}  # fmt: skip
"""Ratios that a quick run does not know: on asia a few rare rows decide them, and they could be anything from 1 to 30;
on sachs at epsilon 3 ours is near to what the records alone leave open, and seven sets of them know its log to .2."""


# ------------------------------------------------------------------------------------------ plan and measure

REPEATS, REPEATS_IN_FULL = 7, 20
RELEASES: Mapping[str, int] = {
    **dict.fromkeys(FORMS, 25),
    **dict.fromkeys(("Algorithm 1", *PARTS), 10),
    "corrected": 2,
    "Zhang's Laplace": 3,
}
"""Of the same records; 1 of what is not named."""
SMALL = ("asia", "sachs")
"""Networks on which the peer compiles in seconds; what is slow has two releases of the same records there. With one, at
epsilon 3, four standard errors of the ratio on sachs came to more than what would still be sane."""


def plan(quick: bool) -> list[tuple[dict[str, object], int]]:
    """Every method on every network; in a quick run what is slow at two epsilons, and mbi on the small networks."""
    found: list[tuple[dict[str, object], int]] = []
    for network in runnable():
        for name in names_of(METHODS):
            slow = METHODS[name].slow
            if quick and (name == "noise-aware mean" or (name == "mbi" and network not in SMALL)):
                continue
            at = "grid" if name in FORMS else "ends" if slow and (quick or name == "noise-aware mean") else "all"
            releases = 2 if slow and network in SMALL else RELEASES.get(name, 1)
            setting = {"network": network, "method": name, "at": at, "releases": releases}
            found.append((setting, REPEATS if quick or name == "noise-aware mean" else REPEATS_IN_FULL))
        for name in PARTS:
            setting = {"network": network, "method": name, "at": "one", "releases": RELEASES[name]}
            found.append((setting, REPEATS if quick else REPEATS_IN_FULL))
    return found


def measure(task: Task) -> Iterator[dict[str, object]]:
    """All errors of a method, means over its releases; all methods see the same records."""
    data, setting = data_of(task), task.setting
    for epsilon in AT[setting["at"]]:
        theta = released(task, setting["method"], epsilon, setting["releases"])
        for metric, values in errors(data, theta).items():
            yield {"epsilon": epsilon, "metric": metric, "value": float(values.mean())}
        if setting["method"] in OURS:
            yield {"epsilon": epsilon, **noise_of(task, setting["method"], epsilon, setting["releases"])}


# ------------------------------------------------------------------------------------------ page


def present(frame: pd.DataFrame) -> Page:
    """Ratios first, then errors, then the limits in the text."""
    found = ratios(frame)
    names = [name for name in COMPARED if name in set(frame["method"])]
    told = [name for name in names if name != PEER]
    at_one = frame[frame["epsilon"] == 1.0]
    bars = "bars: two standard errors over sets of records; points of a line are moved sideways."
    return Page(
        _verdict(found, told, frame),
        [
            Illustration("ratio", _ratio_figure(found, names), RATIO_CAPTION),
            Illustration(
                "l1", by_network(frame, _axes("cpt", "marg", "cond"), log=True), f"L1 against epsilon (nats); {bars}"
            ),
            Illustration(
                "kl",
                by_network(frame, _axes("cpt-kl", "marg-kl", "cond-kl"), log=True),
                f"KL divergence (nats), released law first, against epsilon (nats); {bars}",
            ),
        ],
        [
            (MEAN_CAPTION, mean_table(found, told)),
            *([(PEER_CAPTION, mean_table(found, names))] if PEER in names else []),
            (STEPS_CAPTION, steps_table(frame)),
            (AT_ONE_CAPTION, ratio_table(found, names)),
            (STUDY_CAPTION, _study_table(found)),
            (LIMIT_CAPTION, _limit_table(at_one)),
            described(frame),
        ],
        _checks(found, frame),
        f"{_kept(at_one)}\n\n{_notes(names, frame)}",
    )


RATIO_CAPTION = (
    "Budget ratio of the tables' L1 error against epsilon (nats); the dotted lines are 1, D-Ind itself, and 3, as "
    "printed; bars: two jackknife standard errors; points are moved sideways. Points near the error of the exact "
    "counts are left out."
)
MEAN_CAPTION = (
    "**Budget ratio**: the epsilon that D-Ind needs for the same error, over the method's; geometric mean at epsilon 1 "
    "and 3 over the networks where no method of the table is at `fl`, the same for all rows, ± jackknife standard "
    "error (least to greatest of what has a standard error below its value); last row: how many networks and epsilons."
)
PEER_CAPTION = "The same with mbi: over the networks that it ran on."
STEPS_CAPTION = (
    "From D-Ind to Algorithm 1: factor of the error at epsilon 1, geometric mean over networks, ± jackknife standard "
    "error; above 1 it harms."
)
AT_ONE_CAPTION = (
    "Budget ratio at epsilon 1, by network, ± jackknife standard error; `fl`: within 10 % of the error of the exact "
    "counts."
)
STUDY_CAPTION = (
    "Budget ratio of the tables' L1 error beside an earlier study, whose records and whose prototype of the plan "
    "were others and whose ratios have standard errors of some 5 %, on asia 25 %."
)
LIMIT_CAPTION = (
    "Error at epsilon 1: the largest of the networks' means (L1 in probability, KL in nats), beside the printed "
    "limits; 'whole' sums L1 over a table's rows."
)


def _means(found: Mapping[Place, Ratio], names: Sequence[str], name: str) -> list[Estimate]:
    """Of a method, one for each error in which it can be compared with the others."""
    each = [common(found, names, metric)[name] for metric in QUANTITIES]
    return [geometric(cells) for cells in each if cells]


def _verdict(found: Mapping[Place, Ratio], names: Sequence[str], frame: pd.DataFrame) -> str:
    """Whether a third of the budget is enough, and why not."""
    scheme, *ours = (_means(found, names, name) for name in ("Algorithm 1", *OURS))
    if not scheme:
        return "Not decided: no error of all methods is clearly above that of the exact counts."
    best, worst = max(scheme, key=lambda each: each.mean), min(scheme, key=lambda each: each.mean)
    span = f"budget ratio {worst.mean:.2f} to {best.mean:.2f} by error, printed: about 3"
    if worst.mean + 2 * worst.error >= PRINTED_RATIO:
        answer = f"Reproduced: Algorithm 1 as printed needs a third of D-Ind's budget ({span})"
    elif any(each.mean - 2 * each.error > 1 for each in scheme):
        answer = f"Not reproduced: Algorithm 1 as printed is ahead of D-Ind on some errors, by less ({span})"
    elif best.mean >= 1:
        answer = f"Not reproduced: Algorithm 1 as printed is not clearly ahead of D-Ind on any error ({span})"
    else:
        answer = f"Not reproduced: Algorithm 1 as printed needs more budget than D-Ind ({span}), {_reason(frame)}"
    default, plan = (
        " to ".join(f"{end(each.mean for each in means):.1f}" for end in (min, max)) for means in ours
    )  # fmt: skip
    return f"{answer}; the {SHIPPED} has {default}, without pairs it has {plan}."


def _reason(frame: pd.DataFrame) -> str:
    """The step that harms most, if one clearly does, beside the others."""
    found = steps(frame, ("cpt", "marg", "cond"))
    order = sorted(found, key=lambda step: -found[step].mean)
    first, second = found[order[0]], found[order[1]]
    clear = first.mean - second.mean > 2 * np.hypot(first.error, second.error)
    factors = ", ".join(f"{step} {found[step].mean:.2f}" for step in order)
    return f"{f'mainly by {order[0]}' if clear else 'by no step alone'} (error at epsilon 1, times: {factors})"


def _kept(at_one: pd.DataFrame) -> str:
    """Which of the limits in the text hold for whom."""
    worst = _largest(at_one)
    parts = []
    for name in ("Algorithm 1", *OURS):
        kept = sum(worst[name, metric].mean <= limit for metric, limit in LIMITS.items())
        parts.append(f"{name} keeps {kept} of the {len(LIMITS)} error limits printed for epsilon 1")
    return f"{'; '.join(parts)}."


def _largest(at_one: pd.DataFrame) -> dict[tuple[str, str], Estimate]:
    """By method and metric the mean of the network where it is largest."""
    found: dict[tuple[str, str], Estimate] = {}
    for (name, metric, _), values in at_one.groupby(["method", "metric", "network"])["value"]:
        one = estimate(values)
        if (name, metric) not in found or one.mean > found[name, metric].mean:
            found[name, metric] = one
    return found


def _study_table(found: Mapping[Place, Ratio]) -> str:
    """Ratios beside those of the study."""
    rows = []
    for (name, network), values in STUDY.items():
        if (network, name, "cpt", 1.0) in found:
            here = [found[network, name, "cpt", epsilon].text() for epsilon in ENDS]
            there = ["fl" if value is None else f"{value:g}" for value in values]
            rows.append([name, network, here[0], there[0], here[1], there[1]])
    header = [
        "method",
        "network",
        *(f"{where}, epsilon {epsilon:g}" for epsilon in ENDS for where in ("here", "study")),
    ]
    return markdown(header, rows)


def _limit_table(at_one: pd.DataFrame) -> str:
    """Errors beside the limits."""
    worst = _largest(at_one)
    columns = {**QUANTITIES, "whole": "tables, L1, whole"}
    rows = [["*printed limit*", *(f"{LIMITS[metric]:g}" if metric in LIMITS else "-" for metric in columns)]]
    for name in METHODS:
        if (name, "cpt") in worst:
            some = at_one[at_one["method"] == name]["network"].nunique() < at_one["network"].nunique()
            rows.append(
                [f"{name} (some networks)" if some else name, *(worst[name, metric].text() for metric in columns)]
            )
    return markdown(["method", *columns.values()], rows)


def _checks(found: Mapping[Place, Ratio], frame: pd.DataFrame) -> list[Check]:
    """Our claims, on the scale of logarithms: a ratio that is hardly known must not pass because it could be anything.

    Where an error is that of the exact counts, there is nothing left to claim, and nothing is checked.
    """
    checks = []
    for metric in ("cpt", "marg", "cond"):
        cells = common(found, ["Algorithm 1"], metric)["Algorithm 1"]
        if cells:
            what = f"log of the budget ratio of Algorithm 1, {QUANTITIES[metric]}"
            checks.append(Check.clearly_below(what, _log(cells), 0.0, digits=2))
    for (network, name, metric, epsilon), cell in found.items():
        if name in OURS and metric == "cpt" and epsilon in ENDS and cell.sign != "fl":
            if (network, name, epsilon) in UNDECIDED:
                continue
            what = f"log of the budget ratio, {name}, {QUANTITIES[metric]}, {network}, epsilon {epsilon:g}"
            checks.append(
                Check.above(
                    f"{what}, beside log 3", _log([cell]), np.log(PRINTED_RATIO), sane=np.log(LEAST_RATIO), digits=2
                )
                if name == NO_PAIRS
                else Check.clearly_above(what, _log([cell]), 0.0, digits=2)
            )
    for network, name in product(NETWORKS, OURS):
        part = frame[(frame["network"] == network) & (frame["method"] == name)]
        if len(part):
            checks.append(noise_check(part, f"{network}, {name}"))
    return checks


def _log(cells: Sequence[Ratio]) -> Estimate:
    """Mean natural logarithm of ratios, with its jackknife standard error."""
    mean = np.mean([cell.logs for cell in cells], axis=0)
    return Estimate(float(mean[0]), spread(mean))


def _notes(names: Sequence[str], frame: pd.DataFrame) -> str:
    """How much was run of what is slow."""
    parts = []
    for name in names:
        rows = frame[frame["method"] == name]
        if METHODS[name].slow:
            where, at = (
                ", ".join(rows["network"].unique()),
                ", ".join(f"{e:g}" for e in sorted(rows["epsilon"].unique())),
            )
            parts.append(f"{name}: {rows['repeat'].nunique()} sets of records, on {where}, at epsilon {at}")
    return (
        "Slow methods: "
        + "; ".join(parts)
        + ". On asia a few rare rows decide the errors of tables; its ratios are not worth two digits, and are not "
        "checked. Nor is the ratio without pairs on sachs at epsilon 3, whose log is known to .2."
    )


def _axes(*metrics: str) -> dict[str, str]:
    """What is written along the axes of the error figures."""
    return {
        metric: f"{QUANTITIES[metric]}\n({'nats' if metric.endswith('kl') else 'probability'}, log scale)"
        for metric in metrics
    }


def _ratio_figure(found: Mapping[Place, Ratio], names: Sequence[str]) -> Figure:
    """Ratios of the tables' L1 error, a panel for each network."""
    networks = [name for name in NETWORKS if any(place[0] == name for place in found)]
    figure, (panels,) = grid(1, len(networks), width=2.6, height=2.8, sharey=True)
    for panel, network in zip(panels, networks, strict=True):
        for level in (1.0, PRINTED_RATIO):
            panel.axhline(level, color="black", linewidth=0.8, linestyle=":")
        for name in (name for name in DRAWN if name in names):
            cells = [(e, found[network, name, "cpt", e]) for e in EPSILONS if (network, name, "cpt", e) in found]
            kept = [(e, geometric([cell])) for e, cell in cells if cell.sign != "fl"]
            if kept:
                aside = 0.04 * (DRAWN.index(name) - (len(DRAWN) - 1) / 2)
                x, y = [e + aside for e, _ in kept], [each.mean for _, each in kept]
                bars = np.minimum([2 * np.nan_to_num(each.error) for _, each in kept], 0.9 * np.array(y))
                look = {"markersize": 4, "linewidth": 1.1, "elinewidth": 0.8, "capsize": 2}
                panel.errorbar(x, y, bars, label=name, **look, **style(DRAWN.index(name)))
        log_heights(panel, within=(1, 2, 5))
        panel.set_ylim(0.25, 12)
        panel.set_xticks(EPSILONS)
        panel.set_xlabel("epsilon (nats)")
        panel.set_title(network)
    panels[0].set_ylabel("budget ratio (D-Ind's epsilon\nover the method's, log scale)")
    legend_below(figure, columns=4)
    return figure


EXPERIMENT = Experiment(
    title="Chowdhury et al. (2020), Figure 2: errors and budget ratios",
    source="Chowdhury, Rekatsinas and Jha (ICML 2020), Figure 2 and Section 5",
    claim='"our scheme only requires a privacy budget of epsilon = 1.0 to yield the same utility that D-Ind achieves '
    'with epsilon = 3.0"; at epsilon 1 L1 of parameters at most 0.2, KL at most 0.13, both around 0.05 at most for '
    "marginal and conditional queries",
    data=DATA,
    relation=RELATION,
    guarantee=GUARANTEE,
    plan=plan,
    measure=measure,
    present=present,
    missing=missing,
)

if __name__ == "__main__":
    command(["chowdhury_figure_2"])
