"""Linear regression by one posterior draw: Figure 2 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016).

`y ~ N(w'x, s2)`, `w ~ N(0, I / b)` cut to `||w|| <= R = 10 / sqrt(b)`: the printed figure has the mean squared error
against b for a non-private predictor and for one draw. It does not have the epsilon of a draw, nor s2. With
`||x|| <= 1` and `|y| <= 1` the exact loss is `4 R / s2` where R <= 1, else `(1 + R)^2 / s2`. No target in [-1, 1] has a
variance above 1: s2 = 1 makes the draws as private as they can be called. With s2 = 0.1 the noise is about that of the
made-up targets; ADULT's is between the two (the table has the error at b = 1).

Which posterior the non-private predictor is the mean of is not printed: the *uncut* one, of ridge regression, or the
*cut* one, on the ball, which the draw comes from. The difference between them is no price of drawing but of the ball.

The paper's coordinates are those of the package over the root of 14: a design moves each of 13 features and a constant
to [-1, 1], so that a row is at most sqrt(14) long; radius and prior deviation are smaller by as much, which is the same
model and the same loss. Draws come from `truncated_posterior`, asked for just that loss, so that it does not temper.

At equal epsilon stand beside it what the package offers: `truncated_posterior` with its own radius of 1 and prior
deviation of 1, tempered; and `noisy_moments`, read by `dc.read(method="exact")`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from scipy.stats import chi2

import discreet as dc
from discreet.research.mechanisms.truncated_posterior import sampler_loss

from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import curves, grid, legend_below, log_axis
from .ranges import ranges
from .zhang_regression import (
    DESIGN,
    LENGTH,
    POPULATIONS,
    Regression,
    available,
    cut_posterior,
    draw_loss,
    drawn,
    one_draw,
    posterior_mean,
    promise,
    radius_of,
    split,
)

__all__ = ["CUT", "EXPERIMENT", "PRECISIONS", "UNCUT", "VARIANCES", "slightly_worse_at"]

PRECISIONS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)
"""b, of the prior."""
VARIANCES = (1.0, 0.1)
"""s2, assumed."""
UNCUT, CUT = "mean of the uncut posterior (non-private)", "mean of the cut posterior (non-private)"
"""Both readings of the printed non-private predictor."""
MEANT = 500
"""Draws that the mean of the cut posterior is an average of."""
TEMPERED_AT = (0.4, 1.265, 4.0, 8.0, 17.3, 121.0)
"""Epsilon of what is offered: as of one draw at b = 1e4, 1e3, 100, 30, 10 and 1, with s2 = 1."""
MOMENTS_AT: Mapping[str, Sequence[float]] = {"ADULT": (8.0, 17.3), "made up": (0.4, 1.265, 4.0, 17.3)}
"""The same for noisy moments: where resampling suffices for their exact posterior."""


# ------------------------------------------------------------------------------------------ the experiment


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Splits and draws; moments, whose posterior takes half a second, with fewer repeats in a quick run."""
    draws, moments = (20, 4) if quick else (200, 40)
    return [
        ({"population": name, "part": part}, repeats)
        for name in available()
        for part, repeats in (("draws", draws), ("moments", moments))
    ]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Errors on the test records; both parts have the same records and splits."""
    name, part = task.setting["population"], task.setting["part"]
    data = split(name, task.rng(f"people {name}"), task.rng(f"split {name}"))
    yield from (_moment_rows if part == "moments" else _draw_rows)(name, data, task)


def _draw_rows(name: str, data: Regression, task: Task) -> Iterator[dict[str, Any]]:
    """As printed, at every b; and one tempered draw at every epsilon."""
    for precision in PRECISIONS:
        for variance in VARIANCES:
            where = {"precision": precision, "variance": variance, "epsilon": draw_loss(precision, variance)}
            mean = posterior_mean(data.train, precision, variance)
            draw = one_draw(data.train, precision, variance, task.rng(f"{name} {precision} {variance}"))
            cut = cut_posterior(data.train, precision, variance, MEANT, task.rng(f"{name} cut {precision} {variance}"))
            yield {**where, "method": UNCUT, "metric": "mse", "value": data.error(mean)}
            yield {**where, "method": CUT, "metric": "mse", "value": data.error(cut.mean(axis=0))}
            yield {**where, "method": "one draw", "metric": "mse", "value": data.error(draw)}
    for epsilon in TEMPERED_AT:
        rng = task.rng(f"{name} tempered {epsilon}")
        made = drawn(dc.research.truncated_posterior(variance=min(VARIANCES)), data.train, 1.0, epsilon, rng)
        row = {"epsilon": epsilon, "method": "tempered draw", "metric": "mse"}
        yield {**row, "value": data.error(made.weights[0])}
    yield {"method": "predicting 0", "metric": "mse", "value": data.square}
    length = LENGTH * float(np.linalg.norm(posterior_mean(data.train, PRECISIONS[0], 1.0)))
    yield {"method": UNCUT, "metric": "length", "value": length}


def _moment_rows(name: str, data: Regression, task: Task) -> Iterator[dict[str, Any]]:
    """The posterior mean of noisy moments."""
    for epsilon in MOMENTS_AT[name]:
        rng = task.rng(f"{name} moments {epsilon}")
        release = dc.simulate(
            dc.designs.noisy_moments(), data.train, dc.designs.Normal(DESIGN, 1.0), promise(epsilon), rng=rng
        )
        found = dc.read(release, draws=1000, rng=rng, method="exact")
        yield {"epsilon": epsilon, "method": "noisy moments", "metric": "mse", "value": data.error(found.mean())}


# ------------------------------------------------------------------------------------------ the page

CLOSE = 1.1
"""An error this many times another one's is still called only slightly worse."""
SHOWN = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
"""Of the precisions, on the axes."""


def present(frame: pd.DataFrame) -> Page:
    """Errors against the prior's precision, and at equal epsilon."""
    names = list(dict.fromkeys(frame["population"]))
    lengths = frame[frame["metric"] == "length"].groupby("population")["value"].mean()
    frame = frame[frame["metric"] == "mse"]
    return Page(
        _verdict(frame, names),
        [
            Illustration(
                "precision",
                _by_precision(frame, names),
                "Mean squared error on test records (squared half ranges of the target, log scale) against the prior's "
                "precision b, s2 = 1; above, the true epsilon of one draw. It and the mean of the "
                "cut posterior, which it is drawn from, lie on each other. Bars: two standard errors.",
            ),
            Illustration(
                "epsilon",
                _by_epsilon(frame, names),
                "The same errors at the epsilon that is really paid (nats, replace one record).",
            ),
        ],
        [
            *((f"{name}: mean squared error of the posterior means (not private) and of one draw as printed, and the "
               "true epsilon of one draw (nats).", _printed_table(frame[frame["population"] == name]))
              for name in names),
            ("Mean squared error at equal epsilon (nats).", _offered_table(frame, names)),
        ],
        [*_constants(), *(check for name in names for check in _orders(frame[frame["population"] == name], name))],
        _notes(frame, names, lengths.to_dict()),
    )  # fmt: skip


def _errors(frame: pd.DataFrame, method: str, **where: float) -> pd.Series:
    """Errors by repeat."""
    chosen = frame[frame["method"] == method]
    for column, value in where.items():
        chosen = chosen[np.isclose(chosen[column], value)]
    return chosen.set_index("repeat")["value"]


def _gap(one: pd.Series, other: pd.Series) -> Estimate:
    """Mean of paired differences."""
    return estimate((one - other).dropna())


def slightly_worse_at(frame: pd.DataFrame, variance: float, beside: str) -> list[float]:
    """Precisions at which the mean error of one draw is within a tenth of a non-private one's.

    Args:
        frame: rows of one population.
        variance: s2.
        beside: `CUT` or `UNCUT`.

    Returns:
        Those b, in order; they need not be the first ones.
    """

    def error(method: str, precision: float) -> float:
        return float(_errors(frame, method, precision=precision, variance=variance).mean())

    return [b for b in PRECISIONS if error("one draw", b) <= CLOSE * error(beside, b)]


def _verdict(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """One sentence, as the rows have it."""
    parts = {name: frame[frame["population"] == name] for name in names}
    grows = all(_growth(own, method).mean > 0 for own in parts.values() for method in (UNCUT, CUT, "one draw"))
    cut, uncut = ({name: slightly_worse_at(own, 1.0, b) for name, own in parts.items()} for b in (CUT, UNCUT))
    whole = [all(len(found) == len(PRECISIONS) for found in close.values()) for close in (cut, uncut)]
    word = "Reproduced" if all(whole) else "Reproduced in part" if any(whole) else "Not reproduced"
    return (
        f"{word if grows else 'Not reproduced'}: errors {'grow' if grows else 'do not grow'} with b; one draw (s2 = 1) "
        "is only slightly worse, within a tenth, than the mean of the same, cut, posterior "
        f"{_where(cut)}, but than that of the uncut one {_where(uncut)}."
    )


def _where(close: Mapping[str, Sequence[float]]) -> str:
    """At which b, by population; said once where it is every b."""
    if all(len(found) == len(PRECISIONS) for found in close.values()):
        return "at every b measured"
    where = (f"at b = {ranges(found, PRECISIONS)}" if found else "at no b" for found in close.values())
    return " and ".join(f"{each} ({name})" for each, name in zip(where, close, strict=True))


def _notes(frame: pd.DataFrame, names: Sequence[str], lengths: Mapping[str, float]) -> str:
    """What the numbers at b = 1000 are, and what a tempered draw has there."""
    lines, epsilon = [], TEMPERED_AT[1]
    for name in names:
        own = frame[frame["population"] == name]
        uncut, cut, draw = (_errors(own, m, precision=1e3, variance=1.0).mean() for m in (UNCUT, CUT, "one draw"))
        noise = _errors(own, UNCUT, precision=1.0, variance=1.0).mean()
        outside = next((f"{b:g}" for b in PRECISIONS if radius_of(b) < lengths[name]), "none")
        tempered = _errors(own, "tempered draw", epsilon=epsilon).mean()
        lines.append(
            f"* {name}: the weights that fit leave the ball from b = {outside} on. At b = 1000 (epsilon "
            f"{draw_loss(1e3, 1.0):.3g}, s2 = 1) one draw has {draw:.3f}, the mean of the cut posterior {cut:.3f}, of "
            f"the uncut one {uncut:.3f}, and a tempered draw of the package, with its own radius, {tempered:.3f} at "
            f"that epsilon. At b = 1 the fit leaves an error of {noise:.2f}, to be compared with s2.\n"
        )
    return (
        "".join(lines)
        + f"* The mean of the cut posterior is an average of {MEANT} exact draws. Noisy moments are read where "
        "weighted resampling is enough for their exact posterior, and left out at smaller epsilon.\n"
    )


def _growth(own: pd.DataFrame, method: str) -> Estimate:
    """Error at the largest precision less that at the smallest, s2 = 1."""
    ends = (_errors(own, method, precision=precision, variance=1.0) for precision in (PRECISIONS[-1], PRECISIONS[0]))
    return _gap(*ends)


def _constants() -> list[Check]:
    """The loss, worked out twice, and that the ball is not seen under the prior."""
    losses = [
        (draw_loss(b, s2), sampler_loss(radius_of(b) / LENGTH, LENGTH, 1.0, s2, dc.Relation.REPLACE))
        for b in PRECISIONS
        for s2 in VARIANCES
    ]
    apart = max(abs(one / other - 1) for one, other in losses)
    reference = {1.0: 121, 100.0: 4, 1e3: 1.265, 1e4: 0.4}
    outside = float(chi2.sf(10**2, DESIGN.size))
    return [
        *(
            Check.near(f"epsilon of one draw, b = {b:g}, s2 = 1", Estimate(e), Estimate(draw_loss(b, 1)), rounding=5e-4)
            for b, e in reference.items()
        ),
        Check(
            "epsilon here and in the package, relative difference",
            "at most 1e-12",
            f"{apart:.0e}",
            apart <= 1e-12,
            "up to 1e-12",
        ),
        Check.near("prior mass outside the ball, in 1e-15", Estimate(5), Estimate(outside / 1e-15), rounding=0.5),
    ]


def _orders(own: pd.DataFrame, name: str) -> list[Check]:
    """What grows, and what is better at the same epsilon; by more than four standard errors of paired differences."""
    at = max(epsilon for epsilon in MOMENTS_AT[name] if epsilon <= 8)
    draw = _errors(own, "one draw", precision=30.0 if at == 8 else 100.0, variance=1.0)
    lower = {
        f"tempered draw less one draw as printed, epsilon {epsilon:g}": _gap(
            _errors(own, "tempered draw", epsilon=epsilon), _errors(own, "one draw", precision=b, variance=1.0)
        )
        for epsilon, b in ((0.4, 1e4), (1.265, 1e3), (4.0, 100.0))
    }
    close = slightly_worse_at(own, 1.0, CUT)
    lower[f"noisy moments less one draw as printed, epsilon {at:g}"] = _gap(
        _errors(own, "noisy moments", epsilon=at), draw
    )
    higher = {f"error of {m}, b = 1e5 less b = 1": _growth(own, m) for m in (UNCUT, CUT, "one draw")}
    what = f"{name}: b at which one draw is within a tenth of the mean of the cut posterior, s2 = 1"
    return [
        Check(what, "all", ranges(close, PRECISIONS), len(close) == len(PRECISIONS), "all alone"),
        *(Check.clearly_above(f"{name}: {w}", e, 0, digits=4) for w, e in higher.items()),
        *(Check.clearly_below(f"{name}: {w}", e, 0, digits=4) for w, e in lower.items()),
    ]


def _printed_table(own: pd.DataFrame) -> str:
    """A row for each precision."""
    shown = {UNCUT: "uncut mean", CUT: "cut mean", "one draw": "one draw"}
    rows = [
        [f"{b:g}", *(cell for s2 in VARIANCES for cell in (f"{draw_loss(b, s2):.4g}",
           *(estimate(_errors(own, method, precision=b, variance=s2)).text(4) for method in shown)))]
        for b in PRECISIONS
    ]  # fmt: skip
    header = [f"{what}, s2 = {s2:g}" for s2 in VARIANCES for what in ("epsilon", *shown.values())]
    return markdown(["b", *header], rows)


def _offered_table(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """A row for each epsilon."""
    rows = []
    for epsilon in TEMPERED_AT:
        row: list[object] = [f"{epsilon:g}"]
        for name in names:
            for method in ("tempered draw", "noisy moments"):
                found = _errors(frame[frame["population"] == name], method, epsilon=epsilon)
                row.append(estimate(found).text(4) if len(found) else "-")
        rows.append(row)
    return markdown(["epsilon", *(f"{n}, {m}" for n in names for m in ("tempered draw", "noisy moments"))], rows)


# ------------------------------------------------------------------------------------------ pictures

MARKS = (0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""Of the vertical axes."""


def _vertical(panel: Axes, name: str) -> None:
    """A log axis with plain marks."""
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(FixedLocator(list(MARKS)))
    panel.yaxis.set_major_formatter(FixedFormatter([f"{mark:g}" for mark in MARKS]))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.set_ylabel(f"{name}: mean squared error")


def _by_precision(frame: pd.DataFrame, names: Sequence[str]) -> Figure:
    """A panel for each population, s2 = 1."""
    figure, panels = grid(1, len(names), width=3.4, height=2.9)
    for panel, name in zip(panels[0], names, strict=True):
        own = frame[frame["population"] == name]
        nothing = own[own["method"] == "predicting 0"]
        lines = [own[own["variance"] == 1.0], *(nothing.assign(precision=b) for b in (SHOWN[0], SHOWN[-1]))]
        curves(panel, pd.concat(lines), "precision", "method", ["predicting 0", "one draw", UNCUT, CUT])
        log_axis(panel, SHOWN, "prior precision b (log scale)")
        above = panel.secondary_xaxis("top")
        above.xaxis.set_major_locator(FixedLocator(list(SHOWN)))
        above.xaxis.set_major_formatter(FixedFormatter([f"{draw_loss(b, 1.0):.3g}" for b in SHOWN]))
        above.xaxis.set_minor_locator(NullLocator())
        above.set_xlabel("true epsilon of one draw (nats)")
        _vertical(panel, name)
    legend_below(figure, columns=3)
    return figure


def _by_epsilon(frame: pd.DataFrame, names: Sequence[str]) -> Figure:
    """A panel for each population; what costs nothing is a level line."""
    figure, panels = grid(1, len(names), width=3.4, height=2.9)
    lines = [
        "predicting 0",
        "one draw, s2 = 1",
        "one draw, s2 = 0.1",
        "tempered draw",
        "noisy moments",
        "uncut mean, b = 1",
    ]
    ticks = (0.1, 1.0, 10.0, 100.0, 1000.0)
    for panel, name in zip(panels[0], names, strict=True):
        own = frame[frame["population"] == name]
        printed = own[own["method"] == "one draw"]
        parts = [
            printed.assign(line=[f"one draw, s2 = {variance:g}" for variance in printed["variance"]]),
            own[own["method"].isin(["tempered draw", "noisy moments"])].assign(line=lambda part: part["method"]),
        ]
        free = own[(own["method"] == UNCUT) & (own["precision"] == 1.0) & (own["variance"] == 1.0)]
        for label, level in (("predicting 0", own[own["method"] == "predicting 0"]), ("uncut mean, b = 1", free)):
            parts += [level.assign(line=label, epsilon=epsilon) for epsilon in (ticks[0], ticks[-1])]
        curves(panel, pd.concat(parts), "epsilon", "line", lines)
        log_axis(panel, ticks, "true epsilon (nats, log scale)")
        _vertical(panel, name)
    legend_below(figure, columns=3)
    return figure


def _missing() -> list[str]:
    """What is not there."""
    absent = [name for name in POPULATIONS if name not in available()]
    return ["IPUMS: must not be passed on", *(f"{name}: not in $DISCREET_DATA/uci" for name in absent)]


EXPERIMENT = Experiment(
    title="Zhang et al. (2016), Figure 2: linear regression by one posterior draw",
    source="Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Figure 2",
    claim="the error grows with the prior's precision b for the non-private predictor and for one draw, which is only "
    "slightly worse; privacy improves with b. No numbers are printed, neither epsilon nor s2",
    data="two substitutes for 370,000 records of IPUMS: UCI ADULT (48,842 records, target: whether the income is above "
    "50,000 dollars, 1 or -1) and 370,000 made-up people with log-normal incomes, anew in each repeat; 13 features "
    "and a constant, in [-1, 1] by public bounds, rows divided by the root of 14; random tenths to train on, the rest "
    "to test on",
    relation="replace one record",
    guarantee="of one draw as printed the epsilon beside b, delta 0, in exact arithmetic; of what is offered that on "
    "the axis; none for non-private",
    plan=plan,
    measure=measure,
    present=present,
    missing=_missing,
)

if __name__ == "__main__":
    command(["zhang_figure_2"])
