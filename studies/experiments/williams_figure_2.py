"""Bounds of a choice's likelihood for a coin: Figure 2 of Williams and McSherry (NIPS 2010), and the limit theorem.

Records are n flips of a coin, candidates are the chances .1, ..., .9. The likelihood of a choice is a sum over n + 1
counts of heads, so that both bounds can be held against the truth: nothing here is random.

What scales the log likelihood into phi is garbled in print. Three scales are shown, one that fills the range which
Section 2 allows, and clipping alone, which Section 2 reads like. The print does not say of which candidate Figure 2a
is, nor of how many records: the worst candidate is shown, and .7, which is the one of Figure 2b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.special import logsumexp

from discreet.research.scores import choice_likelihood, factors

from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, markdown
from .pictures import grid, legend_below, log_axis, style

Floats = npt.NDArray[np.float64]

__all__ = ["CANDIDATES", "EXPERIMENT", "READINGS", "SHIPPED", "THETAS", "axis_left_at", "curves_of", "errors"]

CANDIDATES, RECORDS, EPSILON = np.arange(1, 10) / 10, 100, 0.5
"""Z, n and epsilon of Figure 2b; Figure 2a is taken to have the same n."""
COIN = factors.CategoricalFactor(np.stack([1 - CANDIDATES, CANDIDATES], axis=1), floor=0.1)
LOG_P, FACTORS = np.log(COIN.candidates.T), COIN.log_factors([0, 1])
THETAS = np.linspace(0.005, 0.995, 199)
LAWS = np.stack([1 - THETAS, THETAS], axis=1)
NORMALS = factors.standard_normals(128, len(CANDIDATES))
PLACES: Mapping[str, int | None] = {"worst": None, ".7": 6, ".5": 4, ".9": 8}
AXIS_A, AXIS_B = {"lower": -0.02, "upper": 0.01}, 0.4
"""Ends of the printed vertical axes."""
FLOAT = 1e-10
"""Relative error of sums of products in floating point."""

SHIPPED = "(ε / ln 10) ln p"
READINGS: Mapping[str, Callable[[float], Floats]] = {
    SHIPPED: lambda epsilon: epsilon * FACTORS,
    "(ε / ln 9) ln p": lambda epsilon: epsilon * np.log(10) / np.log(9) * FACTORS,
    "ε ln p": lambda epsilon: epsilon * np.log(10) * FACTORS,
    "ln p moved to [-ε, ε]": lambda epsilon: 2 * epsilon * np.log(10) / np.log(9) * FACTORS,
    "ε clip(ln p, -1, 1)": lambda epsilon: epsilon * np.clip(LOG_P, -1, 1),
    "clip(ln p, -ε, ε)": lambda epsilon: np.clip(LOG_P, -epsilon, epsilon),
}
"""What `ln phi(z, x)` may be, nats, shape (2, 9), of tails and heads; p is p(x | z), and what is the same for all
candidates cancels. In the two that are clipped .9 is better than .7 whatever the records are."""
SCALES, CLIPPED = tuple(READINGS)[:3], tuple(READINGS)[4:]

PEAKS: Mapping[tuple[str, str], tuple[str | None, str | None, str | None]] = {
    (SHIPPED, "peak"): ("0.383", "0.375", "0.420"),
    ("(ε / ln 9) ln p", "peak"): ("0.390", "0.380", "0.4295"),
    ("ε ln p", "peak"): ("0.512", None, "0.626"),
    (SHIPPED, "θ = .7"): ("0.381", "0.373", "0.419"),
    ("ln p moved to [-ε, ε]", "θ = .7"): ("0.50", "0.44", "0.60"),
}
"""Exact value, lower and upper bound of p(z = .7 | theta) in another computation, the largest over theta or at .7. It
prints .4295 as .430, rounded twice."""
ERRORS: Mapping[tuple[str, int, float], tuple[str, str]] = {
    ("worst", 100, 1e-4): ("-2.5e-8", "4.4e-9"),
    ("worst", 100, 1e-3): ("-2.5e-6", "4.4e-7"),
    ("worst", 100, 1e-2): ("-2.2e-4", "4.4e-5"),
    ("worst", 100, 0.1): ("-0.0104", "0.0033"),
    ("worst", 100, 0.5): ("-0.105", "0.0416"),
    (".7", 100, 0.1): ("-0.005", "0.003"),
    (".7", 100, 0.3): ("-0.030", "0.018"),
    (".7", 100, 1.0): ("-0.174", "0.095"),
    (".5", 10, 1.0): ("-0.023", "0.027"),
}
"""Of the lower and the upper bound, by candidate, records and epsilon, in that computation; reading `SHIPPED`."""
SHOWN_EPSILONS = sorted({epsilon for _, _, epsilon in ERRORS})
FEW_RECORDS = (1, 2, 5, 10, 20, 50)
"""Whether fewer records explain the axis of Figure 2a."""


def curves_of(reading: str, epsilon: float, records: int) -> Mapping[str, Floats]:
    """The likelihood of every choice on the grid of thetas.

    Args:
        reading: of `READINGS`.
        epsilon: nats, greater than 0.
        records: flips of the coin.

    Returns:
        `p(z | theta)`, "exact", "lower", "upper" and of the limit theorem, "CLT"; shapes (thetas, candidates).
    """
    phi = READINGS[reading](epsilon)
    found = {
        "exact": choice_likelihood.exact_log_marginal(LAWS, phi, records),
        "lower": choice_likelihood.lower_log_marginal(LAWS, phi, records),
        "upper": choice_likelihood.upper_log_marginal(LAWS, phi, records),
        "CLT": choice_likelihood.clt_log_marginal(LAWS, phi, records, normals=NORMALS),
    }
    return {method: np.exp(logs) for method, logs in found.items()}


def errors(found: Mapping[str, Floats], place: int | None) -> dict[str, float]:
    """The errors farthest from 0 over all thetas.

    Args:
        found: of `curves_of`.
        place: of a candidate; None for the worst of them.

    Returns:
        "lower" (at most 0 if it is a bound), "upper" (at least 0) and "CLT" (without its sign).
    """
    at = slice(None) if place is None else place
    off = {method: (curve - found["exact"])[:, at] for method, curve in found.items()}
    farthest = {"lower": off["lower"].min(), "upper": off["upper"].max(), "CLT": np.abs(off["CLT"]).max()}
    return {method: float(error) for method, error in farthest.items()}


def axis_left_at(method: str, place: int | None) -> float:
    """The epsilon where a bound's error, which grows, reaches its end of the printed axis.

    Args:
        method: "lower" or "upper".
        place: as for `errors`.

    Returns:
        Between 1e-4 and 1, nats; reading `SHIPPED`, 100 records.

    Raises:
        ValueError: it is not reached there.
    """

    def beyond(log_epsilon: float) -> float:
        return errors(curves_of(SHIPPED, 10**log_epsilon, RECORDS), place)[method] - AXIS_A[method]

    return float(10 ** brentq(beyond, -4, 0, xtol=1e-6))


# ------------------------------------------------------------------------------------------ measuring


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Nothing is random; a full run has a finer axis of epsilon."""
    return [({"part": "errors", "steps": 4 if quick else 16}, 0), ({"part": "shapes"}, 0), ({"part": "proof"}, 0)]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Rows of one part of the page."""
    parts = {"errors": lambda: _errors(int(task.setting["steps"])), "shapes": _shapes, "proof": _proof}
    yield from parts[task.setting["part"]]()


def _errors(steps: int) -> Iterator[dict[str, Any]]:
    """Figure 2a in all readings, with fewer records, and where the printed axis ends."""
    powers = {round(10 ** (power / steps), 10) for power in range(-4 * steps, 1)}
    runs = [(reading, epsilon, RECORDS) for reading in READINGS for epsilon in sorted(powers | set(SHOWN_EPSILONS))]
    runs += [(SHIPPED, 1.0, records) for records in FEW_RECORDS]
    for reading, epsilon, records in runs:
        found = curves_of(reading, epsilon, records)
        where = {"reading": reading, "epsilon": epsilon, "records": records}
        wrong = [found["lower"] > found["exact"] * (1 + FLOAT), found["upper"] < found["exact"] * (1 - FLOAT)]
        yield {**where, "metric": "broken bounds", "value": int(np.sum(wrong))}
        for candidate, place in PLACES.items():
            for method, value in errors(found, place).items():
                yield {**where, "candidate": candidate, "method": method, "metric": "error", "value": value}
    for method, candidate in product(AXIS_A, ("worst", ".7")):
        value = axis_left_at(method, PLACES[candidate])
        yield {"candidate": candidate, "method": method, "metric": "axis left at", "value": value}


def _shapes() -> Iterator[dict[str, Any]]:
    """Figure 2b in all readings, and the exact range of ln phi over candidates, which is what a choice costs."""
    for reading, log_phi in READINGS.items():
        phi = log_phi(EPSILON)
        yield {"reading": reading, "metric": "cost", "value": float(np.ptp(phi, axis=1).max())}
        found = curves_of(reading, EPSILON, RECORDS)
        for method, candidate in product(found, (".7", ".9")):
            where = {"reading": reading, "method": method, "candidate": candidate, "metric": "p(z | theta)"}
            curve = found[method][:, PLACES[candidate]]
            yield from ({**where, "theta": theta, "value": p} for theta, p in zip(THETAS, curve, strict=True))


def _proof() -> Iterator[dict[str, Any]]:
    """`sum_z w_z >= exp(H[q]) x exp(sum q ln w)`, and with the printed "+", for even q: weights of 1, and the coin."""
    heads = np.arange(RECORDS + 1)[:, None]
    tail, head = EPSILON / np.log(10) * LOG_P
    for case, log_weights in {"φ = 1": np.zeros((1, 9)), "coin": (RECORDS - heads) * tail + heads * head}.items():
        truth = np.exp(logsumexp(log_weights, axis=1))
        terms = 9.0, np.exp(log_weights.mean(axis=1))
        for method, bound in {"truth": truth, "product": terms[0] * terms[1], "+": terms[0] + terms[1]}.items():
            where = {"case": case, "method": method}
            yield {**where, "metric": "largest", "value": float(bound.max())}
            yield {**where, "metric": "data sets bounded", "value": float(np.mean(bound <= truth * (1 + FLOAT)))}


# ------------------------------------------------------------------------------------------ the page


def present(frame: pd.DataFrame) -> Page:
    """Both panels, and what the printed axes say of the readings."""
    errors_shipped = frame[(frame["metric"] == "error") & (frame["reading"] == SHIPPED)]
    return Page(
        _verdict(frame, errors_shipped),
        [
            Illustration("errors", _picture_of_errors(errors_shipped), (
                "Figure 2a, φ by ε / ln 10, 100 records: largest error of p(z | θ) over θ (probability) against ε "
                "(nats). Left: around the printed axis, whose ends are dotted. Right: sizes, log axes.")),
            Illustration("shapes", _picture_of_shapes(frame), (
                "Figure 2b, 100 records, ε = 0.5: p(z | θ) against θ in three scales, and with clipping alone, where "
                ".9 beats .7 at every θ (another vertical axis). Dotted: the end of the printed axis.")),
        ],
        [
            ("p(z = .7 | θ) at ε = 0.5, 100 records, largest over θ; and what the choice costs when a record is added "
             "or removed (nats), twice that when one is replaced. CLT: central limit theorem.", _table_of_peaks(frame)),
            ("Largest errors over θ, φ by ε / ln 10: of the bounds with their sign, of the limit theorem with 128 "
             "fixed normal draws (ours) the size. With fewer records the printed axis lasts longer.",
             _table_of_errors(errors_shipped, frame)),
            ("The step `Σ w(z) ≥ exp(H[q]) exp(Σ q ln w)` of the proof of (5b), q even, nine candidates; the print has "
             "`+` for the product. Coin: φ = p^(ε / ln 10), ε = 0.5, all 101 data sets.", _table_of_proof(frame)),
        ],
        _checks(frame),
        "The print has `log p(x | θ)` in φ where `log p(x | z)` must be, and its clamp cannot be read. ε / ln 9 costs "
        "exactly ε, and filling [-ε, ε] the 2ε that Section 2 promises, but its peak is off the axis. Reference values "
        "come from another computation.",
    )  # fmt: skip


def _one(frame: pd.DataFrame, **where: Any) -> float:
    """The value of the only row that fits."""
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return float(frame["value"].item())


def _curve(frame: pd.DataFrame, reading: str, method: str, candidate: str = ".7") -> pd.Series:
    """p(z | theta) by theta."""
    rows = frame[(frame["metric"] == "p(z | theta)") & (frame["reading"] == reading) & (frame["method"] == method)]
    return rows[rows["candidate"] == candidate].set_index("theta")["value"]


def _verdict(frame: pd.DataFrame, errors_shipped: pd.DataFrame) -> str:
    """From broken bounds, peaks, and where the axis is left."""
    wrong = int(frame.loc[frame["metric"] == "broken bounds", "value"].sum())
    error = errors_shipped.loc[errors_shipped["epsilon"] == 1e-3, "value"].abs().max()
    peaks = {reading: [_curve(frame, reading, method).max() for method in ("exact", "upper")] for reading in SCALES}
    shown = {reading: f"{reading} ({exact:.3f}, {upper:.3f})" for reading, (exact, upper) in peaks.items()}
    fits, others = (
        " or ".join(shown[r] for r in SCALES if (peaks[r][0] <= AXIS_B) == fit) or "none of those tried"
        for fit in (True, False)
    )
    left = {method: _one(frame, metric="axis left at", candidate="worst", method=method) for method in AXIS_A}
    return (
        f"{'Reproduced in part' if not wrong and error < 1e-4 else 'Not reproduced'}: {wrong or 'no'} bounds are "
        f"broken (worst error at ε = 0.001: {error:.1e}); the axis of 2b has room for the peaks of the truth and (5b) "
        f"if ln φ is {fits}, not if it is {others}; that of 2a is too short for 100 records, whose errors leave it at "
        f"ε = {left['lower']:.2f} and {left['upper']:.2f}."
    )


def _rounded(what: str, wanted: str, found: float) -> Check:
    """A deterministic number, against one that was rounded to the digits it has."""
    digits = Decimal(wanted).as_tuple()
    half = 0.5 * 10.0 ** int(digits.exponent)
    holds = bool(abs(found - float(wanted)) <= half * (1 + 1e-9))
    accepts = f"{float(wanted) - half:.{len(digits.digits) + 1}g} to {float(wanted) + half:.{len(digits.digits) + 1}g}"
    return Check(what, wanted, f"{found:.{len(digits.digits) + 1}g}", holds, accepts)


def _checks(frame: pd.DataFrame) -> list[Check]:
    """All numbers of the specification, brackets, and that the limit theorem is nearer."""
    made = []
    for (reading, where), wanted in PEAKS.items():
        for method, number in zip(("exact", "lower", "upper"), wanted, strict=True):
            curve = _curve(frame, reading, method)
            value = curve.max() if where == "peak" else curve.iloc[int(np.abs(curve.index - 0.7).argmin())]
            made += [_rounded(f"ln φ = {reading}, {where}, {method}", number, value)] if number else []
    shown = frame[(frame["metric"] == "error") & (frame["reading"] == SHIPPED)]
    for (candidate, records, epsilon), pair in ERRORS.items():
        for method, number in zip(("lower", "upper"), pair, strict=True):
            value = _one(shown, epsilon=epsilon, records=records, candidate=candidate, method=method)
            made.append(_rounded(f"{method} bound's error, z {candidate}, n {records}, ε {epsilon:g}", number, value))
    for reading in CLIPPED:
        peak = Estimate(_curve(frame, reading, "exact").max())
        made.append(Check.below(f"ln φ = {reading}, peak", peak, 0.01, digits=6))
    counted = frame[frame["metric"] == "broken bounds"]
    wrong, many = counted["value"].sum(), 2 * len(counted) * THETAS.size * CANDIDATES.size
    made.append(
        Check("lower ≤ exact ≤ upper, all readings", "0 broken", f"{wrong:g} of {many:,}", wrong == 0, "0 alone")
    )
    worst = shown[(shown["candidate"] == "worst") & (shown["records"] == RECORDS) & (shown["epsilon"] >= 0.01)]
    sizes = worst.assign(value=worst["value"].abs()).pivot(index="epsilon", columns="method", values="value")
    ratio = Estimate(float((sizes[["lower", "upper"]].min(axis=1) / sizes["CLT"]).min()))
    made.append(Check.above("error, nearer bound / CLT, least from ε = 0.01 on (ours)", ratio, 10, digits=1))
    return made


def _table_of_peaks(frame: pd.DataFrame) -> str:
    """All readings."""
    rows = []
    for reading in READINGS:
        peaks = [_curve(frame, reading, method).max() for method in ("exact", "lower", "upper", "CLT")]
        other, cost = _curve(frame, reading, "exact", ".9").max(), _one(frame, metric="cost", reading=reading)
        rows.append([reading, *(f"{peak:.3g}" for peak in peaks), f"{other:.3f}", f"{cost:.3f}"])
    return markdown(["ln φ", "exact", "lower (5a)", "upper (5b)", "CLT (ours)", "exact, z = .9", "cost"], rows)


def _table_of_errors(shown: pd.DataFrame, frame: pd.DataFrame) -> str:
    """At the epsilons of the references, where the axis is left, and at epsilon 1 with fewer records."""
    columns = [(method, candidate) for candidate in ("worst", ".7") for method in ("lower", "upper", "CLT")]
    runs = [(RECORDS, epsilon) for epsilon in SHOWN_EPSILONS] + [(n, 1.0) for n in reversed(FEW_RECORDS)]
    rows = [
        [n, f"{e:g}", *(f"{_one(shown, records=n, epsilon=e, candidate=z, method=m):.2g}" for m, z in columns)]
        for n, e in runs
    ]
    left = frame[frame["metric"] == "axis left at"]
    ends = [f"{_one(left, candidate=z, method=m):.3f}" if m in AXIS_A else "-" for m, z in columns]
    rows.insert(len(SHOWN_EPSILONS), [RECORDS, "ε where the printed axis ends", *ends])
    return markdown(["records", "ε", *(f"{method}, z {z}" for method, z in columns)], rows)


def _table_of_proof(frame: pd.DataFrame) -> str:
    """Whether it bounds."""
    shown = [("largest", method, ".3g") for method in ("truth", "product", "+")]
    shown += [("data sets bounded", method, ".0%") for method in ("product", "+")]
    rows = [
        [case, *(f"{_one(frame, case=case, metric=metric, method=method):{how}}" for metric, method, how in shown)]
        for case in ("φ = 1", "coin")
    ]
    header = ["largest sum of weights", "largest product", 'largest "+"', "data sets where the product bounds"]
    return markdown(["case", *header, 'where "+" does'], rows)


# ------------------------------------------------------------------------------------------ pictures


def _picture_of_errors(shown: pd.DataFrame) -> Figure:
    """The printed axis, and sizes."""
    figure, ((printed, sizes),) = grid(1, 2, width=3.4, height=2.8)
    lines = {
        "upper bound (5b), worst z": ("upper", "worst"),
        "lower bound (5a), worst z": ("lower", "worst"),
        "upper bound, z = .7": ("upper", ".7"),
        "lower bound, z = .7": ("lower", ".7"),
        "limit theorem, worst z (size; ours)": ("CLT", "worst"),
    }
    for place, (label, (method, candidate)) in enumerate(lines.items()):
        line = shown[(shown["method"] == method) & (shown["candidate"] == candidate) & (shown["records"] == RECORDS)]
        line = line.sort_values("epsilon")
        how = {"markersize": 3.5, "linewidth": 1.1, "label": label, **style(place)}
        printed.plot(line["epsilon"], line["value"], **how)
        sizes.plot(line["epsilon"], line["value"].abs(), **how)
    for panel in (printed, sizes):
        log_axis(panel, (1e-4, 1e-3, 1e-2, 1e-1, 1), "ε (nats, log scale)")
    printed.hlines(list(AXIS_A.values()), 1e-4, 1, color="black", linewidth=0.8, linestyle=":")
    printed.set(ylim=(-0.03, 0.02), ylabel="largest error over θ (probability)")
    sizes.set(yscale="log", ylabel="size of the error (log scale)")
    legend_below(figure, columns=2)
    return figure


def _picture_of_shapes(frame: pd.DataFrame) -> Figure:
    """Three scales, and clipping."""
    figure, panels = grid(2, 2, width=3.2, height=2.2, sharex=True)
    names = {"exact": "exact", "upper": "upper bound (5b)", "lower": "lower bound (5a)"}
    for panel, reading in zip(panels.ravel(), (*SCALES, CLIPPED[1]), strict=True):
        scaled = reading in SCALES
        for method, z in [(method, ".7") for method in names] if scaled else [("exact", ".7"), ("exact", ".9")]:
            place = 3 if z == ".9" else list(names).index(method)
            curve, label = _curve(frame, reading, method, z), f"{names[method]}, z = {z}"
            how = {"markevery": (5 * place, 20), "markersize": 3.5, "linewidth": 1.1, **style(place)}
            panel.plot(curve.index, curve, label=label, **how)
        panel.axhline(AXIS_B, color="black", linewidth=0.8, linestyle=":")
        panel.set(title=f"ln φ = {reading}", ylabel="p(z | θ)")
        panel.set(xticks=np.linspace(0, 1, 6), ylim=(-0.02, 0.7 if scaled else 1.05))
    for panel in panels[1]:
        panel.set_xlabel("θ (probability of heads)")
    legend_below(figure, columns=2)
    return figure


EXPERIMENT = Experiment(
    title="Williams and McSherry (2010), Figure 2: bounds for a coin",
    source="Williams and McSherry (NIPS 2010), Section 3.2, Figure 2, equations (5a) and (5b)",
    claim="Errors of both bounds are essentially zero for small ε; axes of 2a: ε from 1e-4 to 1, errors from -0.02 to "
    "0.01; of 2b, for z = .7 and ε = 0.5: 0 to 0.4. No numbers are printed",
    data="none: n flips of a coin with probability θ, 100 unless said; expectations over all of them are exact, θ on a "
    "grid of 199 from .005 to .995",
    relation="add or remove one record, as in the paper, which takes n as known",
    guarantee="pure, by reading in the first table: the exact range of ln φ over candidates; the paper promises 2ε",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["williams_figure_2"])
