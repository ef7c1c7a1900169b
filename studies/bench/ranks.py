r"""Simulation-based calibration: ranks of the truth among posterior draws, and whether they are uniform.

If theta comes from the prior, a release from theta and `theta_1..theta_L` from the exact posterior, the rank of
`f(theta, release)` among the `f(theta_l, release)` is uniform on 0..L for every function f (Talts, Betancourt, Simpson,
Vehtari and Gelman, 2018). A function of theta alone is uniform for a posterior that ignores the release, too; `the fit`
depends on both (Modrak et al., 2023).

Two tests of uniformity. Chi-square of a histogram: the law of its statistic is an approximation, at five ranks or more
in each bin. And the largest deviation of the ECDF, measured by its pointwise binomial law (Säilynoja, Bürkner and
Vehtari, 2022): here its p-value is exact, by a recursion over the ranks, and so is the simultaneous band.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, chisquare

import discreet as dc
from discreet.inference.exact_laws import Laws

from .coverage import Cell, Method, simulated

__all__ = ["LAST_RANK", "Ranked", "Uniformity", "band", "bins_for", "ranked", "ranks_of", "thinned", "uniformity"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LAST_RANK = 99
"""Draws that the truth is ranked among: 100 ranks."""
LEAST_IN_BIN = 5
"""Ranks that each bin of a histogram should hold, so that the law of its statistic is near chi-square."""
SAME = 1e-9
"""Relative difference of two tail probabilities that are the same but for rounding."""
SMALLEST = 1e-12
"""P-value below which rounding decides."""
BISECTIONS = 60
LEAST_LOG = -700.0


# ------------------------------------------------------------------------------------------ ranks


@dataclass(frozen=True, eq=False)
class Ranked:
    """Ranks of the truth in all runs of a cell.

    Args:
        cell: the setting.
        method: a name.
        ranks: by quantity, between 0 and `LAST_RANK`, shape (runs,).
        failed: runs in which the method gave up; they have no rank.
    """

    cell: Cell
    method: str
    ranks: Mapping[str, Ints]
    failed: int


def ranked(
    cell: Cell,
    theta: dc.Tables,
    methods: Mapping[str, tuple[Method, int]],
    progress: Callable[[], None] = lambda: None,
) -> list[Ranked]:
    """Ranks of the truth in one cell.

    Args:
        cell: the setting; its truths are drawn.
        theta: probabilities of its network.
        methods: by name, and the runs of each; all read the same releases, those of fewer runs the first ones.
        progress: called after every posterior.

    Returns:
        One result for each method.

    Raises:
        ValueError: truths that are not drawn from a prior have no uniform ranks.
    """
    if cell.concentration is None:
        raise ValueError("ranks are uniform only over truths that are drawn from a prior: give a concentration")
    found: dict[str, list[dict[str, int]]] = {name: [] for name in methods}
    failed = dict.fromkeys(methods, 0)
    for run in range(max(runs for _, runs in methods.values())):
        case = simulated(cell, theta, run)
        # Any function of the release will do; this one is made once, for the truth and all draws.
        centre = dc.tools.plug_in(case.release, draws=LAST_RANK, rng=case.rng("centre"), prior=case.prior).mean()
        true = _quantities(case.truth, centre)
        for name, (method, runs) in methods.items():
            if run >= runs:
                continue
            try:
                drawn = method(case.release, case.prior, LAST_RANK, case.rng(name))
                posterior = _quantities(thinned(drawn, LAST_RANK), centre)
            except dc.DiscreetError:
                failed[name] += 1
            else:
                ties = case.rng("ties")
                found[name].append({of: ranks_of(posterior[of], float(true[of][0]), ties) for of in posterior})
            progress()
    return [
        Ranked(cell, name, {kind: np.array([row[kind] for row in rows]) for kind in (rows[0] if rows else ())}, lost)
        for (name, rows), lost in zip(found.items(), failed.values(), strict=True)
    ]


def thinned(cells: dc.Tables, number: int) -> dc.Tables:
    """So many of the draws, as far apart as they can be, from all chains.

    Args:
        cells: draws, those of chains in turn (draw i is of chain i modulo 4).
        number: of draws wanted.

    Returns:
        Every k-th draw up to the last; k is odd, so that four chains take turns.

    Raises:
        ValueError: there are fewer draws.
    """
    if (cells.draws or 0) < number:
        raise ValueError(f"{number} draws are wanted, there are {cells.draws}")
    every = (cells.draws or 0) // number
    every -= every % 2 == 0
    last = (cells.draws or 0) - 1
    picked = last - every * np.arange(number)[::-1]
    return dc.Tables(cells.network, {node: table[..., picked] for node, table in cells.items()}, draws=number)


def ranks_of(draws: Floats, truth: float, rng: np.random.Generator) -> int:
    """Draws below the truth; those equal to it (resampled ones, or 0 and 1) are put before or after it at random."""
    return int(np.sum(draws < truth) + rng.integers(np.sum(draws == truth) + 1))


def _quantities(cells: dc.Tables, centre: dc.Tables) -> dict[str, Floats]:
    """What is ranked, shape (draws,) each: entries, marginals, the log of a joint probability, and the fit.

    Of up to four nodes spread over the order: the entry of the first state in the first and in the last row, and the
    marginal of the first state. The fit is `sum centre log theta` over all entries, the centre a function of the
    release.
    """
    network = cells.network
    order, found = network.order, dict[str, Floats]()
    chosen = [order[place] for place in dict.fromkeys(np.linspace(0, len(order) - 1, 4).astype(int).tolist())]
    marginal = Laws(cells).marginals()
    for node in chosen:
        table, parents = cells[node], network.parents[node]
        names = [network.schema[name] for name in parents]
        for row in (0, -1) if parents else ():
            given = ", ".join(f"{variable.name}={variable.states[row]}" for variable in names)
            place = (*(row for _ in parents), 0)
            found[f"P({node}={network.schema[node].states[0]} | {given})"] = table[place]
        found[f"P({node}={network.schema[node].states[0]})"] = marginal[node][0]
    first, last = order[0], order[-1]
    label = ", ".join(f"{node}={network.schema[node].states[0]}" for node in (first, last))
    found[f"log P({label})"] = Laws(cells).log_probability({first: 0, last: 0})
    smallest = np.finfo(np.float64).tiny
    found["the fit"] = np.sum(
        [
            np.sum(centre[node][..., None] * np.log(np.maximum(cells[node], smallest)), axis=tuple(range(table.ndim)))
            for node, table in centre.items()
        ],
        axis=0,
    )
    return found


# ------------------------------------------------------------------------------------------ uniformity


@dataclass(frozen=True)
class Uniformity:
    """Chances of ranks that are at least so far from uniform if they are uniform.

    Args:
        chi_square: of a histogram with `bins_for` bins.
        ecdf: of the largest deviation of the empirical distribution.
    """

    chi_square: float
    ecdf: float


def bins_for(runs: int, last: int = LAST_RANK) -> int:
    """Bins of a histogram of ranks: at most 20, as many ranks in each, and five runs or more; else two."""
    ranks = last + 1
    return max(
        (bins for bins in range(2, 21) if ranks % bins == 0 and runs / bins >= LEAST_IN_BIN),
        default=2 if ranks % 2 == 0 else 1,
    )


def uniformity(ranks: Ints, last: int = LAST_RANK) -> Uniformity:
    """Test whether ranks of independent runs are uniform.

    Args:
        ranks: between 0 and `last`, shape (runs,).
        last: number of draws that were ranked among.

    Returns:
        Two p-values; that of the ECDF is at least 1e-12, since it is 1 less a sum.
    """
    runs, bins = len(ranks), bins_for(len(ranks), last)
    histogram = np.bincount(ranks * bins // (last + 1), minlength=bins)
    below = np.cumsum(np.bincount(ranks, minlength=last + 1))[:-1]
    least = float(_tails(runs, last)[np.arange(last), below].min())
    return Uniformity(float(chisquare(histogram).pvalue), float(np.clip(1 - _stays(least, runs, last), SMALLEST, 1)))


@lru_cache(maxsize=32)
def band(runs: int, last: int = LAST_RANK, level: float = 0.95) -> tuple[Floats, Floats]:
    """The simultaneous band of the ECDF of uniform ranks.

    Args:
        runs: independent ranks.
        last: number of draws that were ranked among.
        level: chance that the whole ECDF is in the band, at least.

    Returns:
        Smallest and largest share of ranks up to 0, 1, .., last - 1, shape (last,).

    Source:
        Säilynoja, Bürkner and Vehtari (2022), equations 8 to 13, with the recursion of their Algorithm 2.
    """
    low, high = LEAST_LOG, 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - _stays(float(np.exp(middle)), runs, last) <= 1 - level else (low, middle)
    inside = _tails(runs, last) > np.exp(low) * (1 + SAME)
    return np.argmax(inside, axis=1) / runs, (runs - np.argmax(inside[:, ::-1], axis=1)) / runs


@lru_cache(maxsize=32)
def _tails(runs: int, last: int) -> Floats:
    """The smaller tail of k of the ranks being at most i, if they are uniform; shape (last, runs + 1) for i and k."""
    share, number = (np.arange(last)[:, None] + 1) / (last + 1), np.arange(runs + 1)
    return np.asarray(np.minimum(binom.cdf(number, runs, share), binom.sf(number - 1, runs, share)))


def _stays(least: float, runs: int, last: int) -> float:
    """Chance that every tail of uniform ranks is above `least`: a walk over i of the number k of ranks up to i."""
    inside = _tails(runs, last) > least * (1 + SAME)
    reached, chances = np.zeros(1, np.int64), np.ones(1)
    for i in range(last):
        number = np.flatnonzero(inside[i])
        if not number.size:
            return 0.0
        # Of the ranks that are not below i, each is i with the same chance.
        steps = _binomial(runs - reached[:, None], number[None] - reached[:, None], 1 / (last + 1 - i))
        reached, chances = number, chances @ steps
    return float(chances.sum())


def _binomial(number: Ints, found: Ints, share: float) -> Floats:
    """Chance of so many of a number that each have a share in (0, 1); several times as fast as scipy's."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, number.max() + 1)))])
    some = np.clip(found, 0, number)
    ways = logs[number] - logs[some] - logs[number - some]
    chance = np.exp(ways + some * np.log(share) + (number - some) * np.log1p(-share))
    return np.where((found >= 0) & (found <= number), chance, 0.0)
