"""Naive Bayes from private counts: Figure 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016), and what is offered.

The paper prints no numbers. How it chose the sampler's floors is not printed either; they are shown in three readings:
for a changed record, which is what epsilon promises; for one changed feature; and for one changed feature with the
bound `ln(1 / w)` in place of the exact range, which no floor attains below epsilon `2 ln 2`. The last two are not
private for records, nor for the class: it is the parent of all 16 features, so that its change costs as much as a whole
record. All methods learn from the same records, so that differences between them are paired by repeat; a method is said
to be ahead of another where the mean difference is more than four of its standard errors, and not told apart from it
where neither is ahead.

What is offered is slow and has fewer repeats, which are the first ones: its accuracy is shown as that of Laplace noise
over all repeats plus the mean difference to it over the repeats that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import discreet as dc
from discreet.research.scores.likelihood_sensitivity import floor_for

from .harness import Experiment, Task, command
from .noise_law import METRIC, noise_check, noise_row
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import curves, grid, legend_below, log_axis, style
from .ranges import ranges
from .shipped import CALLS, NO_PAIRS, SHIPPED, planned
from .zhang_naive_bayes import (
    NETWORK,
    PRIOR,
    TRAINING,
    Learning,
    accuracy,
    costs,
    floor_by_bound,
    fourier_as_printed,
    laplace_as_printed,
    one_draw_of_counts,
    posterior_mean,
    printed_shift,
    repeat,
    sampler_by_bound,
    sampler_for_features,
    sampler_for_records,
    shift_for,
)

__all__ = [
    "EPSILONS",
    "EXPERIMENT",
    "METHODS",
    "OFFERED",
    "REFERENCE",
    "ahead",
    "behind",
    "carried",
    "difference",
    "overall",
]

EPSILONS = (0.1, 0.3, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 50.0, 100.0)
BASE, TRIMMED = "Laplace, printed", "sampler, record level"
CLAIMED, BOUNDED = "sampler, printed cost (NOT private)", "sampler, w = exp(-epsilon/2) (NOT private)"
SAMPLER, ONE_DRAW, FOURIER = (
    "shipped sampler",
    "Laplace, printed, one draw",
    "Fourier 90 %, printed",
)
OURS = (SHIPPED, NO_PAIRS)

REFERENCE: Sequence[tuple[str, Mapping[float, float]]] = (
    (BASE, {1: 0.68, 5: 0.89, 10: 0.94, 30: 0.965, 100: 0.969}),
    (FOURIER, {1: 0.64, 5: 0.89, 10: 0.94, 30: 0.963, 100: 0.968}),
    (TRIMMED, {1: 0.56, 5: 0.79, 10: 0.87, 30: 0.936, 100: 0.96}),
    (CLAIMED, {0.1: 0.68, 1: 0.92, 5: 0.96, 10: 0.96, 30: 0.96, 100: 0.96}),
    (ONE_DRAW, {1: 0.64, 5: 0.855, 10: 0.93, 50: 0.947}),
    (TRIMMED, {1: 0.57, 5: 0.78, 10: 0.89, 50: 0.94}),
    ("non-private", {1: 0.969}),
)
"""Mean accuracies by epsilon, of another simulation of the same set-up; `REFERENCE_REPEATS` repeats each.
At epsilon .1 private methods guess blindly, and a reference would say nothing."""
REFERENCE_REPEATS = 60
SANE = 0.12
"""Accuracy that a reference may be missed by: a quarter of the way from guessing (1/2) to no privacy (.97)."""
CLOSE = 0.05
"""A mean difference of accuracies that is smaller is called slight."""


# ------------------------------------------------------------------------------------------ what the package offers


def _release(mechanism: dc.tools.Mechanism, task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Release:
    """A simulated release under REPLACE."""
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
    return dc.simulate(mechanism, task.counts, PRIOR, guarantee, rng=rng)


def _shipped_sampler(release: dc.Release, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Rows of this posterior are independent, so that its means give the predictive distribution."""
    mean = dc.tools.plug_in(release, draws=draws, rng=rng).mean()
    return dc.Tables(NETWORK, {name: table[..., None] for name, table in mean.items()}, draws=1)


def _shipped(release: dc.Release, draws: int, rng: np.random.Generator) -> dc.Tables:
    """The default posterior. Its rows are not independent: `P(y, x)` is averaged over draws."""
    return dc.noise_aware(release, draws=draws, rng=rng).probabilities


def _without_noise(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """No privacy at all."""
    return posterior_mean(task.counts.tables)


Method = Callable[[Learning, float, np.random.Generator], dc.Tables | None]
METHODS: Mapping[str, Method] = {
    "non-private": _without_noise,
    BASE: laplace_as_printed,
    FOURIER: fourier_as_printed,
    TRIMMED: sampler_for_records,
    CLAIMED: sampler_for_features,
    BOUNDED: sampler_by_bound,
    ONE_DRAW: one_draw_of_counts,
    "Fourier, t = ln 10": lambda task, epsilon, rng: fourier_as_printed(task, epsilon, rng, t=np.log(10)),
}
"""From a task and epsilon to draws of the probabilities; None for a run that is not counted."""
Reader = Callable[[dc.Release, int, np.random.Generator], dc.Tables]
OFFERED: Mapping[str, tuple[Callable[[], dc.tools.Mechanism], Reader]] = {
    SHIPPED: (lambda: planned(SHIPPED), _shipped),
    NO_PAIRS: (lambda: planned(NO_PAIRS), _shipped),
    SAMPLER: (dc.research.posterior_sampler, _shipped_sampler),
}
"""A mechanism, and what reads its release, told how many draws of the posterior to average over."""
DRAWN = tuple(METHODS)[:6]
"""Lines of the figure, besides what is offered; the others are in the table."""
ASIDE = 1.06
"""Factor between points of the same epsilon."""


# ------------------------------------------------------------------------------------------ the experiment


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """What is printed as often as there; of what is offered, which is slow, fewer repeats and epsilons if quick."""
    epsilons, draws, repeats = ((1.0, 5.0, 10.0), 100, 16) if quick else (EPSILONS, 500, 100)
    offered = [({"part": "offered", "epsilon": epsilon, "draws": draws}, repeats) for epsilon in epsilons]
    return [({"part": "printed"}, 100 if quick else 400), *offered]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Accuracies; all methods see the same records, and what is not counted gives no row."""
    learning = repeat(task.rng("records"))
    if task.setting["part"] == "offered":
        epsilon, draws = task.setting["epsilon"], task.setting["draws"]
        for name, (mechanism, read) in OFFERED.items():
            rng = task.rng(f"{name} {epsilon}")
            release = _release(mechanism(), learning, epsilon, rng)
            cells = read(release, draws, rng)
            yield {"method": name, "epsilon": epsilon, "metric": "accuracy", "value": accuracy(learning, cells)}
            if name in OURS:
                yield {"method": name, "epsilon": epsilon, **noise_row(release, learning.counts)}
        return
    for name, method in METHODS.items():
        for epsilon in EPSILONS:
            found = method(learning, epsilon, task.rng(f"{name} {epsilon}"))
            if found is not None:
                yield {"method": name, "epsilon": epsilon, "metric": "accuracy", "value": accuracy(learning, found)}


def difference(frame: pd.DataFrame, one: str, other: str) -> dict[float, Estimate]:
    """Mean difference of two methods' accuracies by epsilon, paired by repeat.

    Args:
        frame: rows of one seed set.
        one, other: methods; the first less the second.

    Returns:
        For every epsilon at which both were measured on some repeats.
    """
    both = _paired(frame, one, other).dropna()
    return {float(epsilon): estimate(part[one] - part[other]) for epsilon, part in both.groupby(level="epsilon")}


def overall(frame: pd.DataFrame, one: str, other: str) -> Estimate:
    """The same with each repeat's mean over the epsilons; repeats are independent, epsilons of one of them are not."""
    both = _paired(frame, one, other).dropna()
    return estimate((both[one] - both[other]).groupby(level="repeat").mean())


def carried(frame: pd.DataFrame, name: str) -> dict[float, Estimate]:
    """Mean accuracy of a method with few repeats: that of `BASE` over all repeats plus the mean paired difference.

    Args:
        frame: rows of one seed set.
        name: the method; its repeats are among those of `BASE`.

    Returns:
        By epsilon. With N repeats of `BASE` (L) and n of both (difference d) the variance of the sum is
        `var L / N + var d / n + 2 cov(L, d) / N`.
    """
    found = {}
    for epsilon, part in _paired(frame, name, BASE).groupby(level="epsilon"):
        both, base = part.dropna(), part[BASE].dropna()
        if len(both):
            gap = both[name] - both[BASE]
            shared = 2 * gap.cov(both[BASE]) / len(base)
            variance = base.var() / len(base) + gap.var() / len(both) + shared
            found[float(epsilon)] = Estimate(float(base.mean() + gap.mean()), float(np.sqrt(max(variance, 0.0))))
    return found


def _paired(frame: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    """Accuracies by epsilon and repeat, a column for each method; NaN where it has no row."""
    rows = frame[frame["method"].isin([one, other])]
    return rows.pivot_table(index=["epsilon", "repeat"], columns="method", values="value")


def ahead(found: Mapping[float, Estimate]) -> list[float]:
    """Where a mean difference is more than four standard errors above 0."""
    return [epsilon for epsilon, each in found.items() if each.mean > 4 * each.error]


def behind(found: Mapping[float, Estimate]) -> list[float]:
    """Where a mean difference is more than four standard errors below 0."""
    return ahead({epsilon: Estimate(-each.mean, each.error) for epsilon, each in found.items()})


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """Accuracy against epsilon, and who is ahead of Laplace noise."""
    noise, frame = frame[frame["metric"] == METRIC], frame[frame["metric"] != METRIC]
    found = {(name, e): estimate(values) for (name, e), values in frame.groupby(["method", "epsilon"])["value"]}
    compared = [name for name in (*METHODS, *OFFERED) if name not in ("non-private", BASE)]
    against = {name: difference(frame, name, BASE) for name in compared}
    drawn = difference(frame, TRIMMED, ONE_DRAW)
    few = frame[frame["method"] == SHIPPED]["repeat"].nunique()
    shown = {key: value for key, value in found.items() if key[0] not in OFFERED}
    shown |= {(f"{name} ({few} repeats)", e): each for name in OFFERED for e, each in carried(frame, name).items()}
    how = f"Laplace's mean over all repeats + mean difference to it over the {few} repeats that both have"
    caption = (
        "Accuracy on 950 records (share) against epsilon (nats); bars: two standard errors. Where no floor attains "
        f"w = exp(-epsilon/2) all probabilities are 1/2. {SHIPPED.capitalize()} and {NO_PAIRS}: {how}."
    )
    paired = {(name, e): value for name, values in against.items() for e, value in values.items()}
    paired |= {("sampler, record level, less one draw of counts", e): value for e, value in drawn.items()}
    return Page(
        _verdict(against, overall(frame, FOURIER, BASE)),
        [Illustration("accuracy", _figure(frame, few), caption)],
        [
            (f"Accuracy (share of records); columns: epsilon in nats. Shipped: {how}.", _table(shown)),
            (f"Accuracy less that of '{BASE}' on the same records, or as named; columns: epsilon.", _table(paired)),
            ("What one draw costs (nats), by the floor w of all probabilities: for one changed feature / for a "
             "changed class / for a replaced record. The class is the parent of all features.", _costs()),
            ("Fourier as printed: records added to each of the four cells of a feature's table.", _shifts(frame)),
        ],
        [*_references(frame, found), *_orders(against, drawn), *_offered(frame, noise)],
        _notes(frame, against),
    )  # fmt: skip


def _at(chosen: Sequence[float], measured: Sequence[float] = EPSILONS) -> str:
    """A list for a sentence."""
    return f"at epsilon {ranges(chosen, measured)}" if chosen else "at no epsilon"


def _order(found: Mapping[float, Estimate]) -> str:
    """Where a method is ahead of Laplace noise, behind it, or neither."""
    measured, first, last = list(found), ahead(found), behind(found)
    neither = [epsilon for epsilon in measured if epsilon not in (*first, *last)]
    named = {"ahead": first, "behind": last, "not told apart": neither}
    return ", ".join(f"{which} {_at(where, measured)}" for which, where in named.items() if where)


def _verdict(against: Mapping[str, Mapping[float, Estimate]], fourier: Estimate) -> str:
    """One sentence, as the rows have it."""
    private, bounded = against[TRIMMED], against[BOUNDED]
    crosses = bool(ahead(bounded)) and min(behind(bounded), default=np.inf) < min(ahead(bounded))
    told = abs(fourier.mean) > 4 * fourier.error
    slightly = told and -CLOSE < fourier.mean < 0
    word = "Reproduced" if ahead(private) and slightly else "Reproduced in part"
    return (
        f"{word if ahead(private) or slightly else 'Not reproduced'}: at the privacy that epsilon promises the sampler "
        f"is ahead of Laplace noise {_at(ahead(private))} and behind it {_at(behind(private))}; with the floor "
        f"exp(-epsilon/2), which pays for one changed feature only, it is ahead {_at(ahead(bounded))}"
        f"{', past the printed threshold' if crosses else ''}; Fourier less Laplace noise is {fourier.text()}"
        f"{'' if slightly else ', not slightly worse' if told else ', not told apart'}."
    )


def _notes(frame: pd.DataFrame, against: Mapping[str, Mapping[float, Estimate]]) -> str:
    """Paired differences in words, and where the references come from."""
    few = frame[frame["method"] == SHIPPED]["repeat"].nunique()
    mean = overall(frame, FOURIER, BASE).text()
    largest = min(against[FOURIER].items(), key=lambda item: item[1].mean)
    return (
        f"* Fourier less Laplace noise, on the same records, is {mean} in the mean over the epsilons "
        f"(lowest: {largest[1].text()} at epsilon {largest[0]:g}); by epsilon it is {_order(against[FOURIER])}.\n"
        f"* Against Laplace noise the {SHIPPED}, {CALLS[SHIPPED]}, is {_order(against[SHIPPED])}, and {NO_PAIRS}, "
        f"{CALLS[NO_PAIRS]}, is {_order(against[NO_PAIRS])}; with {few} repeats only differences of some hundredths "
        f"can be told apart, so that this says nothing of smaller ones. {TRAINING} records are too few for a pair at "
        "any of these epsilons: both have the same law.\n"
        "* The sampler with the floor exp(-epsilon/2) is "
        f"{_order(against[BOUNDED])}. A change of the class costs as much as a whole record: this is not private.\n"
        "* The paper prints no numbers; the reference values of the checks come from another simulation of the "
        f"set-up, with {REFERENCE_REPEATS} repeats whose standard deviation is taken to be ours.\n"
    )


def _references(frame: pd.DataFrame, found: Mapping[tuple[str, float], Estimate]) -> list[Check]:
    """The reference values."""
    deviations = frame.groupby(["method", "epsilon"])["value"].std()
    return [
        Check.near(
            f"{name}, epsilon {epsilon:g}",
            Estimate(value, float(deviations[name, epsilon]) / np.sqrt(REFERENCE_REPEATS)),
            found[name, epsilon],
            rounding=0.0005 if round(value, 2) != value else 0.005,
            sane=SANE,
        )
        for name, values in REFERENCE
        for epsilon, value in values.items()
    ]


def _offered(frame: pd.DataFrame, noise: pd.DataFrame) -> Iterator[Check]:
    """What the package offers: its noise, and its accuracy beside lines that are held to references themselves.

    The shipped sampler and that at the level of records are the same law by two implementations; the means of its
    posterior and one draw of it differ by less than chance.
    """
    for name in OURS:
        yield noise_check(noise[noise["method"] == name], name)
        for epsilon in (5.0, 10.0):
            ahead_of_laplace = difference(frame, name, BASE)[epsilon]
            yield Check.above(f"{name} less Laplace, epsilon {epsilon:g}", ahead_of_laplace, 0.0, sane=-SANE)
        lost = difference(frame, name, "non-private")[10.0]
        yield Check.above(f"{name} less non-private, epsilon 10", lost, -CLOSE, sane=-SANE)
    for epsilon in (5.0, 10.0):
        same = difference(frame, SAMPLER, TRIMMED)[epsilon]
        yield Check.near(f"{SAMPLER} less sampler, record level, epsilon {epsilon:g}", Estimate(0.0), same, sane=SANE)


def _orders(against: Mapping[str, Mapping[float, Estimate]], drawn: Mapping[float, Estimate]) -> list[Check]:
    """Who is ahead of whom, by more than four standard errors."""

    def never(what: str, found: Mapping[float, Estimate]) -> Check:
        most = max(4 * each.error for each in found.values())
        accepts = f"a lead of {most:.3f} where least is known"
        return Check(f"{what}, ahead", _at([]), _at(ahead(found)), not ahead(found), accepts, most <= SANE)

    def at(what: str, epsilon: float, found: Mapping[float, Estimate], which: Callable[..., list[float]]) -> Check:
        sign = 1 if which is ahead else -1
        wanted, least = f"{which.__name__} at epsilon {epsilon:g}", sign * 4 * found[epsilon].error
        accepts = f"{'above' if sign > 0 else 'below'} {least:.3f}"
        return Check(what, wanted, found[epsilon].text(), epsilon in which(found), accepts)

    return [
        never("sampler, record level, less Laplace", against[TRIMMED]),
        never("sampler, record level, less one draw of Laplace counts", drawn),
        *(at("sampler, record level, less Laplace", e, against[TRIMMED], behind) for e in (5.0, 10.0, 30.0)),
        at("sampler at its printed cost (NOT private), less Laplace", 1.0, against[CLAIMED], ahead),
        at("sampler with w = exp(-epsilon/2) (NOT private), less Laplace", 1.0, against[BOUNDED], behind),
        at("sampler with w = exp(-epsilon/2) (NOT private), less Laplace", 2.0, against[BOUNDED], ahead),
    ]


def _table(found: Mapping[tuple[str, float], Estimate]) -> str:
    """A row for each name."""
    rows = [
        [name, *(found[name, e].text() if (name, e) in found else "-" for e in EPSILONS)]
        for name in dict.fromkeys(name for name, _ in found)
    ]
    return markdown(["method", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows)


def _costs() -> str:
    """The true loss of each reading of the floor."""
    rows = []
    for epsilon in EPSILONS:
        floors = [floor_for(2, epsilon / (2 * len(NETWORK.nodes))), floor_for(2, epsilon / 2), floor_by_bound(epsilon)]
        cells = ["none" if w is None else f"{w:.3g}: {' / '.join(f'{c:.4g}' for c in costs(w))}" for w in floors]
        rows.append([f"{epsilon:g}", *cells])
    return markdown(["epsilon", "record level", "printed cost", "w = exp(-epsilon/2)"], rows)


def _figure(frame: pd.DataFrame, few: int) -> Figure:
    """One panel; points of what is offered stand alone, as it is not measured everywhere."""
    figure, ((panel,),) = grid(1, 1, width=5.4, height=3.6)
    curves(panel, frame, "epsilon", "method", DRAWN)
    for place, name in enumerate(OURS):
        found = carried(frame, name)
        means, errors = [each.mean for each in found.values()], [2 * each.error for each in found.values()]
        look = {**style(len(DRAWN) + place), "linestyle": "none", "markersize": 7, "capsize": 2, "elinewidth": 0.8}
        at, label = [epsilon * ASIDE**place for epsilon in found], f"{name} ({few} repeats, by difference)"
        panel.errorbar(at, means, errors, label=label, zorder=5, **look)
    log_axis(panel, EPSILONS, "epsilon (nats, log scale), replace one record")
    panel.set_ylabel("accuracy (share of records)")
    legend_below(figure, columns=2)
    return figure


def _shifts(frame: pd.DataFrame) -> str:
    """What stealth costs."""
    kept = frame[frame["method"] == FOURIER].groupby("epsilon").size()
    repeats = frame[frame["method"] == "non-private"]["repeat"].nunique()
    rows = [
        [
            f"{epsilon:g}",
            f"{shift_for(epsilon) / 4:.1f}",
            f"{printed_shift(epsilon, np.log(10)) / 4:.1f}",
            f"{kept.get(epsilon, 0) / repeats:.0%}",
        ]
        for epsilon in EPSILONS
    ]
    return markdown(["epsilon", "shift for 90 %", "printed shift, t = ln 10", "runs kept with the former"], rows)


EXPERIMENT = Experiment(
    title="Zhang et al. (2016), Figure 1: naive Bayes",
    source="Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Figure 1",
    claim="all private methods lose accuracy; Fourier is close to Laplace and slightly worse; the sampler is worst at "
    "small epsilon and best past a threshold. No numbers are printed",
    data="made up, as in the paper: 16 binary features and a binary class, 50 training records, 950 others to test on; "
    "the law of the parameters is not printed, here feature probabilities are U(0, 1), P(class) is U(.3, .7), drawn "
    "anew in each repeat",
    relation="replace one record",
    guarantee="epsilon as on the axis, delta 0; rows as printed in exact arithmetic; none for non-private, and for the "
    "sampler at its printed costs (the table has what a class and a record cost)",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["zhang_figure_1"])
