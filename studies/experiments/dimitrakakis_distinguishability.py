"""Can data sets be told apart from posterior draws: Lemma 12 and Theorem 13 of Dimitrakakis et al. (JMLR 2017).

Data are 100 bits, the posterior that of Beta(1, 1) cut to [.1, .9], so L = ln 9 for each bit that differs. A coin
decides between data x and y at Hamming distance rho; the adversary sees n draws from one posterior and guesses by the
larger likelihood, which no other test beats. Two pairs: *balanced*, with as many ones in x as zeros in y, and *one
end*, with no ones in x and rho in y. What is averaged is the probability, given the draws, that the guess is right.

Theorem 13 is printed as "can distinguish with probability 1 - delta if rho >= 3 ln(1/delta) / (4 L n)"; its proof shows
"only if", for an adversary who compares the empirical measure with an error bound. For every adversary there is a
bound by the range of the log ratio, 2 L rho for each draw: right with probability at most 1 / (1 + exp(-n L rho)), so
that 1 - delta needs `rho >= ln((1 - delta) / delta) / (n L)`.

Lemma 12 is measured on partitions of equal probabilities, where the empirical measure varies most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import betaln
from scipy.stats import binom

from discreet.reporting.explain import le_cam, least_distinguishable, range_distance
from discreet.research.bounds import empirical_error
from discreet.research.readers.particles import log_beta_mass
from discreet.research.scores.likelihood_sensitivity import log_range
from experiments.paper_distance import close_distance, least_distinguishable_stochastic

from .conjugate_constants import beta_printed
from .harness import Experiment, Task, command
from .pages import Check, Estimate, Illustration, Page, estimate, markdown
from .pictures import curves, grid, log_axis, log_heights, style
from .trimmed_laws import BetaBinomial

Floats = npt.NDArray[np.float64]

__all__ = [
    "DATA",
    "EXPERIMENT",
    "chance_exceeded",
    "empirical_errors",
    "largest_success",
    "single_draw_success",
    "success",
]

FLOOR, RECORDS = 0.1, 100
LIPSCHITZ = log_range(2, FLOOR)
DELTA = 1 / 16
"""The largest for which Lemma 12 allows two cells."""
DRAWS = (1, 4, 16, 64, 256)
DISTANCES = (1, 2, 4, 8, 16, 32, 64, 100)
PARTITIONS = ((2, 1 / 16), (3, 1 / 64), (4, 1 / 256), (4, 1 / 16), (16, 1 / 16), (64, 1 / 16))
"""Cells and delta; the first three are those that the lemma allows, the others have more cells."""
SAMPLES = (10, 100, 1000)
MEASURES = 20_000
SANE_PART = 0.25
"""Part of a share by which a simulation may miss it and still be said to agree."""


def pair(data: str, rho: int) -> tuple[BetaBinomial, BetaBinomial]:
    """Posteriors of two data sets of `RECORDS` bits that differ in rho of them.

    Args:
        data: "balanced" or "one end".
        rho: from 1 to `RECORDS`.

    Returns:
        Those of x and of y, which has rho more ones.
    """
    ones = {"balanced": (RECORDS - rho) // 2, "one end": 0}[data]
    x, y = (BetaBinomial(1 + k, 1 + RECORDS - k, FLOOR) for k in (ones, ones + rho))
    return x, y


DATA = ("balanced", "one end")


def _log_normaliser(law: BetaBinomial) -> float:
    """Log of the integral of the posterior's kernel over the support."""
    mass = log_beta_mass(law.alpha, law.beta, FLOOR, 1 - FLOOR)
    return float(betaln(law.alpha, law.beta) + mass)


def success(x: BetaBinomial, y: BetaBinomial, draws: int, runs: int, rng: np.random.Generator) -> float:
    """Probability that the better guess is right, averaged over sets of draws from x and from y.

    Args:
        x, y: the posteriors.
        draws: n that the adversary sees.
        runs: sets of draws from each.
        rng: source of the draws.

    Returns:
        From 1/2 to 1.
    """
    theta = np.stack([law.draw(runs * draws, rng=rng).reshape(runs, draws) for law in (x, y)])
    kernels = (x.alpha - y.alpha) * np.log(theta) + (x.beta - y.beta) * np.log1p(-theta)
    log_ratio = kernels.sum(axis=-1) - draws * (_log_normaliser(x) - _log_normaliser(y))
    return float(np.mean(1 / (1 + np.exp(-np.abs(log_ratio)))))


def single_draw_success(x: BetaBinomial, y: BetaBinomial) -> float:
    """The same for one draw, exactly: `(1 + TV) / 2`; the log ratio is monotone, so the best event is a half-line."""
    gap = _log_normaliser(x) - _log_normaliser(y)
    # (a_x - a_y) ln theta + (b_x - b_y) ln(1 - theta) = gap, and both differences are opposite.
    logit = gap / (x.alpha - y.alpha)
    cut = float(np.clip(1 / (1 + math.exp(-logit)), FLOOR * (1 + 1e-12), (1 - FLOOR) * (1 - 1e-12)))

    def below(law: BetaBinomial) -> float:
        """Posterior probability of [w, cut]."""
        part, whole = log_beta_mass(law.alpha, law.beta, FLOOR, [cut, 1 - FLOOR])
        return math.exp(part - whole)

    return (1 + abs(below(x) - below(y))) / 2


def largest_success(draws: int, rho: float) -> float:
    """What no adversary can exceed: `1 / (1 + exp(-n L rho))`, from the range 2 L rho of each draw's log ratio."""
    return (1 + range_distance(2 * LIPSCHITZ * rho * draws)) / 2


def needed(draws: int, delta: float) -> float:
    """Distance that every adversary needs to be right with probability 1 - delta; the inverse of `largest_success`."""
    return math.log((1 - delta) / delta) / (draws * LIPSCHITZ)


def empirical_errors(cells: int, draws: int, runs: int, rng: np.random.Generator) -> Floats:
    """L1 errors of the empirical measure of draws on cells of equal probability, shape (runs,)."""
    return np.asarray(np.abs(rng.multinomial(draws, np.full(cells, 1 / cells), runs) / draws - 1 / cells).sum(axis=1))


def chance_exceeded(draws: int, delta: float) -> float:
    """Chance of an error beyond Lemma 12's on two cells, exactly: a sum of binomial probabilities."""
    hits = np.arange(draws + 1)
    far = 2 * np.abs(hits / draws - 0.5) > _printed_error(draws, delta)
    return float(binom.pmf(hits, draws, 0.5)[far].sum())


def _printed_error(draws: int, delta: float) -> float:
    """Lemma 12's error, which is that of partitions it does not allow as well."""
    return math.sqrt(3 / draws * math.log(1 / delta))


# ------------------------------------------------------------------------------------------ the experiment


def plan(quick: bool) -> list[tuple[dict[str, Any], int]]:
    """Pairs of data sets for every n, and partitions; each repeat averages over many sets of draws."""
    repeats = 10 if quick else 100
    told = [({"part": data, "draws": draws}, repeats) for data in DATA for draws in DRAWS]
    return [*told, *(({"part": "partition", "draws": draws}, repeats) for draws in SAMPLES)]


def measure(task: Task) -> Iterator[dict[str, Any]]:
    """Success at every distance, or how often the error of Lemma 12 is exceeded by every partition."""
    part, draws = task.setting["part"], task.setting["draws"]
    if part == "partition":
        for cells, delta in PARTITIONS:
            limit = empirical_error(draws, cells, delta) if _allowed(cells, delta) else _printed_error(draws, delta)
            errors = empirical_errors(cells, draws, MEASURES, task.rng(f"{cells} cells {delta}"))
            row = {"rho": math.nan, "cells": cells, "delta": delta, "metric": "exceeded"}
            yield {**row, "value": float(np.mean(errors > limit))}
        return
    for rho in DISTANCES:
        x, y = pair(part, rho)
        value = success(x, y, draws, max(40, 2000 // draws), task.rng(f"{part} {draws} {rho}"))
        yield {"rho": rho, "cells": 0, "delta": math.nan, "metric": "success", "value": value}


Found = Mapping[tuple[str, int, float], Estimate]


def _found(frame: pd.DataFrame) -> Found:
    """Success by pair of data, n and rho."""
    part = frame[frame["metric"] == "success"]
    return {key: estimate(values) for key, values in part.groupby(["part", "draws", "rho"])["value"]}


def _exceeded(frame: pd.DataFrame) -> dict[tuple[int, float, int], Estimate]:
    """Share of errors beyond Lemma 12's by cells, delta and n."""
    part = frame[frame["metric"] == "exceeded"]
    return {key: estimate(values) for key, values in part.groupby(["cells", "delta", "draws"])["value"]}


def _allowed(cells: int, delta: float) -> bool:
    """Whether Lemma 12 is for this partition."""
    return cells <= math.log2(1 / delta) / 2


def _claimed(found: Found) -> list[tuple[str, int, float]]:
    """Where Theorem 13, as printed, has the adversary right with probability 1 - delta."""
    return [key for key in found if key[2] >= least_distinguishable(LIPSCHITZ, key[1], DELTA)]


def _false(found: Found) -> list[tuple[str, int, float]]:
    """Where he is not, by more than four standard errors."""
    return [key for key in _claimed(found) if found[key].mean + 4 * np.nan_to_num(found[key].error) < 1 - DELTA]


def _reached(found: Found, data: str, draws: int) -> float:
    """Smallest distance measured at which the adversary is right with probability 1 - delta; NaN for none."""
    enough = [rho for rho in DISTANCES if found[data, draws, rho].mean >= 1 - DELTA]
    return min(enough, default=math.nan)


def present(frame: pd.DataFrame) -> Page:
    """Success against distance, the distances that are needed, and Lemma 12."""
    found, exceeded = _found(frame), _exceeded(frame)
    return Page(
        _verdict(found, exceeded),
        [
            Illustration("success", _figure(frame, found), "Share of right guesses from n draws (bars: two standard "
                         "errors); grey: 1 - delta = .9375, which Theorem 13 as printed gives at every distance shown. "
                         "Right: distance at which that share is reached, and what is needed for it."),
        ],
        list(_tables(found, exceeded)),
        list(_checks(found, exceeded)),
        _notes(found),
    )  # fmt: skip


def _margin(found: Found) -> float:
    """Smallest ratio of rho and the distance of Theorem 13 for the share of wrong guesses found there as delta.

    Only where that share can be measured and is at most 1/4, as the lemma needs one cell.
    """
    wrong = {key: 1 - value.mean for key, value in found.items() if 1e-9 < 1 - value.mean <= 0.25}
    return min(key[2] / least_distinguishable(LIPSCHITZ, key[1], share) for key, share in wrong.items())


def _verdict(found: Found, exceeded: Mapping[tuple[int, float, int], Estimate]) -> str:
    """One sentence."""
    claimed, false = _claimed(found), _false(found)
    lowest, necessary = min(found[key].mean for key in claimed), _margin(found) >= 1
    lemma = all(share.mean <= delta for (cells, delta, _), share in exceeded.items() if _allowed(cells, delta))
    word = "Reproduced" if lemma and not false and necessary else "Reproduced in part"
    word = word if lemma or necessary else "Not reproduced"
    return (
        f"{word}: Lemma 12 {'holds' if lemma else 'does NOT hold'}; "
        f'Theorem 13 is {"false" if false else "true"} as printed ("can distinguish if"), as in {len(false)} of '
        f"{len(claimed)} cases beyond its distance the best adversary is right less often than {1 - DELTA:.4g}, down "
        f"to {lowest:.3f}; "
        f"as a necessary condition it {'holds' if necessary else 'fails'}."
    )


def _tables(found: Found, exceeded: Mapping[tuple[int, float, int], Estimate]) -> Iterator[tuple[str, str]]:
    """Distances; success; Lemma 12."""
    rows = [
        [draws, f"{least_distinguishable(LIPSCHITZ, draws, DELTA):.4f}", f"{needed(draws, DELTA):.4f}",
         *(f"{reached:g}" if (reached := _reached(found, data, draws)) > 0 else "none up to 100" for data in DATA),
         *(found[data, draws, 1].text() for data in DATA)]
        for draws in DRAWS
    ]  # fmt: skip
    header = ["draws n", "Theorem 13", "by range", *(f"measured, {data}" for data in DATA)]
    yield (
        "Distance rho (records of 100 that differ) from which the adversary is right with probability 1 - delta = "
        ".9375: as printed, what every adversary needs, and the smallest measured; then the share of right guesses at "
        "rho = 1.",
        markdown([*header, *(f"right at rho = 1, {data}" for data in DATA)], rows),
    )
    rows = [[data, draws, *(found[data, draws, rho].text() for rho in DISTANCES)] for data in DATA for draws in DRAWS]
    caption = "Share of right guesses, by rho; 1/2 is guessing blindly."
    yield caption, markdown(["data", "n", *(f"rho = {rho}" for rho in DISTANCES)], rows)
    rows = [
        [cells, f"1/{1 / delta:.0f}", "yes" if _allowed(cells, delta) else "no (more cells)",
         *(exceeded[cells, delta, draws].text(5) for draws in SAMPLES), f"{delta:.5f}"]
        for cells, delta in PARTITIONS
    ]  # fmt: skip
    header = ["cells m", "delta", "m <= log2 sqrt(1/delta)", *(f"n = {draws}" for draws in SAMPLES), "claimed, at most"]
    yield "Lemma 12: share of empirical measures with an L1 error above sqrt(3/n ln(1/delta)).", markdown(header, rows)


def _notes(found: Found) -> str:
    """How the distance falls with n, Le Cam, and the second form of the theorem."""
    few, many = (_reached(found, "balanced", draws) for draws in (DRAWS[0], DRAWS[-1]))
    x, y = pair("one end", 1)
    variation = 2 * single_draw_success(x, y) - 1
    constants = beta_printed(4, 50)
    rho = least_distinguishable_stochastic(constants.ratio, constants.start, constants.rate, 1, DELTA)
    return (
        f"* Theorem 13 as a necessary condition: wherever the share of wrong guesses could be measured, rho was at "
        f"least {_margin(found):.2g} times the distance that it asks for with that share as delta.\n"
        f"* From {DRAWS[0]} to {DRAWS[-1]} draws the measured distance of the balanced pair falls by a factor of "
        f"{few / many:.0f}, where Theorem 13's falls by {DRAWS[-1] / DRAWS[0]:.0f}: the divergence of near posteriors "
        "is quadratic in rho, which its linear bound does not show.\n"
        f"* Lemma 18 (Le Cam) for one draw and the records at one end, rho = 1: a total variation of {variation:.3f}, "
        f"so that no guess of the data has an error below {le_cam(1, variation):.3f} records on both; the bound "
        f"tanh(L) of the theorem's assumptions is {close_distance(LIPSCHITZ):.3f}.\n"
        f"* The form under Assumption 2, with the printed constants of Lemma 21 (50 untrimmed bits, a = 4) and n = 1, "
        f"is rho >= {rho:.1g}: it excludes nothing.\n"
        "* The adversary of the proof needs posteriors at an L1 distance above sqrt(3/n ln(1/delta)), which exceeds 2, "
        f"the largest there is, for n < {0.75 * math.log(1 / DELTA):.1f}.\n"
    )


def _checks(found: Found, exceeded: Mapping[tuple[int, float, int], Estimate]) -> Iterator[Check]:
    """Lemma 12; both necessary conditions at every point; the exact value for one draw; that "if" is false."""
    for (cells, delta, draws), share in exceeded.items():
        if _allowed(cells, delta):
            what = f"Lemma 12, m = {cells}, delta = 1/{1 / delta:.0f}, n = {draws}"
            yield Check.below(what, share, delta, sane=1.1 * delta, digits=5)
            if cells == 2:
                exact = Estimate(chance_exceeded(draws, delta))
                yield Check.near(f"{what}, by enumeration", exact, share, sane=SANE_PART * exact.mean, digits=5)
    beyond = [found[key].mean - largest_success(key[1], key[2]) - 4 * np.nan_to_num(found[key].error) for key in found]
    yield Check.below("right guesses less the bound by range, largest", Estimate(float(max(beyond))), 0.0, digits=4)
    for (data, draws, rho), value in found.items():
        if draws == 1:
            # So few sets of draws do not show errors rarer than one in a million.
            exact = Estimate(single_draw_success(*pair(data, int(rho))))
            what = f"right guesses, one draw, {data}, rho = {rho:g}"
            yield Check.near(what, exact, value, rounding=1e-6, sane=0.005, digits=4)
    yield Check.above("least rho over the distance of Theorem 13 for the delta reached", Estimate(_margin(found)), 1.0)
    false = _false(found)
    yield Check(
        'Theorem 13 read as "if"',
        "false somewhere",
        f"false in {len(false)} of {len(_claimed(found))}",
        bool(false),
        "false in 1",
    )


def _figure(frame: pd.DataFrame, found: Found) -> Figure:
    """Success for both pairs, and the distances needed."""
    figure, (panels,) = grid(1, 3, width=2.9, height=2.8)
    told = frame[frame["metric"] == "success"].assign(line=lambda part: "n = " + part["draws"].astype(str))
    for panel, data in zip(panels, DATA, strict=False):
        curves(panel, told[told["part"] == data], "rho", "line", [f"n = {draws}" for draws in DRAWS])
        panel.axhline(1 - DELTA, color="#909090", linewidth=0.8)
        # 64 has no mark: its number would touch that of 100.
        log_axis(panel, [rho for rho in DISTANCES if rho != 64], "records that differ, rho (log scale)")
        panel.set_ylim(0.48, 1.02)
        panel.set_title({"balanced": "as many ones as zeros", "one end": "no ones, and rho ones"}[data])
    panels[0].set_ylabel("share of right guesses")
    _needed_panel(panels[2], found)
    panels[0].legend(loc="lower right", frameon=False)
    return figure


def _needed_panel(panel: Axes, found: Found) -> None:
    """Distances against n."""
    lines = {
        "measured, balanced": [_reached(found, "balanced", draws) for draws in DRAWS],
        "measured, one end": [_reached(found, "one end", draws) for draws in DRAWS],
        "needed, by range": [needed(draws, DELTA) for draws in DRAWS],
        "Theorem 13": [least_distinguishable(LIPSCHITZ, draws, DELTA) for draws in DRAWS],
    }
    for place, (label, values) in enumerate(lines.items()):
        panel.plot(DRAWS, values, label=label, markersize=4, linewidth=1.1, **style((0, 1, 5, 2)[place]))
    log_axis(panel, DRAWS, "draws n (log scale)")
    log_heights(panel)
    panel.set_title("rho from which 15 of 16 are right")
    panel.set_ylabel("rho (records, log scale)")
    panel.set_ylim(1e-5, 100)
    panel.legend(loc="lower left", frameon=False)


EXPERIMENT = Experiment(
    title="Dimitrakakis et al. (2017), Theorem 13: telling data sets apart",
    source="Dimitrakakis, Nelson, Zhang, Mitrokotsa and Rubinstein (JMLR 2017), Lemmas 12 and 18, Theorem 13",
    claim="From n draws the adversary can distinguish data at rho >= 3 ln(1/delta)/(4 L n) with probability 1 - delta; "
    "an empirical measure on m <= log2 sqrt(1/delta) cells has an L1 error of at most sqrt(3/n ln(1/delta))",
    data="100 bits with given numbers of ones; posterior Beta(1, 1) cut to [.1, .9]",
    relation="replace rho records",
    guarantee=f"n draws: 2 n L = {2 * LIPSCHITZ:.3f} n for each record replaced, delta 0, by Theorem 8.1",
    plan=plan,
    measure=measure,
    present=present,
)

if __name__ == "__main__":
    command(["dimitrakakis_distinguishability"])
