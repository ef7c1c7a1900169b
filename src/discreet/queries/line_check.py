"""Predictive check of a line: means of one number in the bins of another, beside those that a straight line gives.

Tables and sums by rows tell the mean of z in each bin of x, `m_k`; moments tell the line of least squares, which
predicts `E z + beta (u_k - E x)` for the bin's mean number u_k. Under each draw both are numbers; where they differ by
more than noise, z does not follow x along a straight line.
"""

from __future__ import annotations

import numpy as np

from discreet.errors import InputError, require
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.number_lines import LEAST_WEIGHT, bin_means, covary_inside
from discreet.posterior.protocol import equal_tails
from discreet.queries.answers import Answer, AnswerRow, Answers
from discreet.queries.credible import check_level
from discreet.util.option_texts import DEFAULT_LEVEL


def check_line(posterior: PosteriorDraws, target: str, on: str, *, level: float = DEFAULT_LEVEL) -> Answers:
    """Check whether the mean of one number follows another along a straight line, by what was released of both.

    The line is that of least squares under each draw. Its slope is the covariance over the variance of the other
    number: the covariance of the bins' means, and, if the product of both was released, that inside the bins, too.
    Without this product the covariance inside bins counts as 0. Intervals are equal-tailed.

    Args:
        posterior: of a release with sums of both numbers.
        target: number whose mean is checked.
        on: another number, along whose bins it is.
        level: posterior probability of all intervals together; that of each is larger (Bonferroni). With K bins that of
            each is `1 - (1 - level) / K`.

    Returns:
        An answer for each bin: the target's mean less that of the line, in the unit of the target. Where the interval
        leaves out 0 the line is wrong in that bin, beyond noise. Lines inside bins, by which answers given a number are
        computed, bend at each bin; they are as wrong as this line would be inside one bin.

    Raises:
        InputError: a level outside (0, 1), no sums of both numbers were released, or both are the same number.

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
        >>> checked = dc.tools.check_line(dc.noise_aware(made, draws=200, rng=1), "z", "x")
        >>> [round(row["mean"]) for answer in checked for row in answer.rows]
        [7, -6, -6, 6]
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
    bins = len(line)
    each, answers = 1 - (1 - level) / bins, []
    for state, difference in zip(numbers.grids[on].variable.states[:bins], means.other - line, strict=True):
        lower, upper = map(float, equal_tails(difference, each))
        row: AnswerRow = {"state": {on: state}, "mean": float(difference.mean()), "lower": lower, "upper": upper}
        answers.append(Answer(f"E({target} | {on}={state}) - line", "mean", each, (row,), unit=f"number of {target}"))
    return Answers(answers)
