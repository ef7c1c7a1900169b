"""Predictive check of a line: means of one number in the bins of another, beside those that a straight line gives.

Tables and sums by rows tell the mean of z in each bin of x, `m_k`; moments tell the line of least squares, which
predicts `E z + beta (u_k - E x)` for the bin's mean number u_k. Under each draw both are numbers; where they differ by
more than noise, z does not follow x along a straight line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.display.renderers import TextTable
from discreet.errors import InputError, printable, require
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.number_lines import LEAST_WEIGHT, bin_means, covary_inside
from discreet.queries.credible import check_level
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.tabular import Block, Result

LEAST_CURVE = 0.05
"""Least distance from the line that is told, in standard deviations: a curve of less changes no answer."""


@dataclass(frozen=True)
class LineCheck(Result):
    """Distances of a number's means in the bins of another from a straight line.

    Args:
        target: number that follows the line.
        on: number along which it does.
        level: probability with which no bin is listed as off if the line is right.
        rows: a row for each bin: "bin", "share", "mean" by tables and sums, "line" by least squares, "difference" and
            "error", its posterior standard deviation, in the unit of the target; "off", whether it is beyond noise.

    Example:
        >>> import discreet as dc
        >>> row = {"bin": "0_to_40", "mean": 3.0, "line": 2.0, "difference": 1.0, "error": 0.1, "off": True}
        >>> print(dc.results.LineCheck("wait", "age", 0.99, (row,)))
        wait leaves its straight line in age in 1 of 1 bins, by 1 in 0_to_40
    """

    target: str
    on: str
    level: float
    rows: tuple[dict[str, Any], ...]

    @property
    def off(self) -> tuple[str, ...]:
        """Bins in which the mean is not on the line, beyond noise."""
        return tuple(row["bin"] for row in self.rows if row["off"])

    def __str__(self) -> str:
        """Write the result in one line."""
        off = sorted((row for row in self.rows if row["off"]), key=lambda row: -abs(row["difference"]))
        text = f"{self.target} leaves its straight line in {self.on} in {len(off)} of {len(self.rows)} bins"
        return printable(text + "".join(f", by {row['difference']:.3g} in {row['bin']}" for row in off[:1]))

    def tidy(self) -> list[dict[str, Any]]:
        """List the rows, each with the names of both numbers."""
        return [{"target": self.target, "on": self.on, **row} for row in self.rows]

    def content(self) -> Iterator[str | Block]:
        """Yield the table of bins, an empty line, and the result in one line."""
        rows = []
        for row in self.rows:
            cells = (f"{row[name]:.4g}" for name in ("mean", "line", "difference", "error"))
            rows.append((row["bin"], *cells, "off" * row["off"]))
        yield TextTable((f"bin of {self.on}", f"mean {self.target}", "line", "difference", "error", ""), rows)
        yield from ("", str(self))


def check_line(posterior: PosteriorDraws, target: str, on: str, *, level: float = DEFAULT_LEVEL) -> LineCheck:
    """Check whether the mean of one number follows another along a straight line, by what was released of both.

    Args:
        posterior: of a release with sums of both numbers.
        target: number whose mean is checked.
        on: another number, along whose bins it is.
        level: probability with which no bin is listed as off if the line is right.

    Returns:
        A row for each bin. Bins share what is left of `level` (Bonferroni); one is off if its difference is beyond
        noise and more than a twentieth of the target's standard deviation. Lines inside bins, by which answers given a
        number are computed, bend at each bin; they are as wrong as this line is off inside one bin.

    Raises:
        InputError: no sums of both numbers were released, or a level outside (0, 1).

    Guarantee:
        No budget is spent; only the posterior is read.

    Source:
        Gelman, Meng and Stern (1996) for checks of a fitted model under the draws of its posterior.

    Example:
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> import discreet as dc
        >>> rng = np.random.default_rng(1)
        >>> x = rng.uniform(0, 100, 20_000)
        >>> columns = [dc.Variable.binned(name, (0, 100), 4) for name in "xz"]
        >>> network = dc.Network(columns, {"x": (), "z": ("x",)})
        >>> table = pa.table({"x": x, "z": x**2 / 100})
        >>> counts = dc.count(dc.read_records(table, network.schema), network)
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
        >>> dc.tools.check_line(dc.noise_aware(made, draws=200, rng=1), "z", "x").off
        ('0_to_25', '25_to_50', '50_to_75', '75_to_100')
    """
    check_level(level)
    numbers = posterior.numbers if isinstance(posterior, PosteriorDraws) else None
    if numbers is None or target not in numbers.grids or on not in numbers.grids:
        raise InputError("a line is checked between two numbers whose sums were released")
    require(target != on, "a line is checked between two different numbers")
    means = bin_means(numbers, on, target)
    centre, middle = ((means.shares * part).sum(axis=0) for part in (means.own, means.other))
    together = (means.shares * (means.own - centre) * (means.other - middle)).sum(axis=0)
    if numbers.measures(on, target):
        together = together + covary_inside(numbers, on, target, means)
    slope = together / np.maximum(numbers.variance(on, means.shares), LEAST_WEIGHT)
    line = middle + slope * (means.own - centre)
    difference = means.other - line
    error = difference.std(axis=1)
    beyond = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(difference)))
    least = LEAST_CURVE * float(np.sqrt(numbers.variance(target, means.pair.sum(axis=0)).mean()))
    off = np.abs(difference.mean(axis=1)) > np.maximum(beyond * error, least)
    shift, states = numbers.grids[target].shift, numbers.grids[on].variable.states
    values = [part.mean(axis=1) for part in (means.shares, means.other - shift, line - shift, difference)]
    names = ("share", "mean", "line", "difference", "error", "off")
    rows = zip(*(part.tolist() for part in (*values, error, off)), strict=True)
    listed = tuple(
        {"bin": state, **dict(zip(names, row, strict=True))} for state, row in zip(states, rows, strict=False)
    )
    return LineCheck(target, on, level, listed)
