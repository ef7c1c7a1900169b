"""Distributions of the numeric columns of which sums were released, with a band, as reports and pages show them.

A distribution is known as finely as it was measured: by the leaves of a ruler for everybody, by bins given evidence, of
which no ruler tells. Where in a leaf or bin numbers lie is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.display.charts import histogram
from discreet.model.number_types import NUMBERS, NumberType
from discreet.model.query_grammar import NumberQuery
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.queries.answers import AnswerRow
from discreet.queries.credible import credible_interval
from discreet.queries.query import answer_many, find_number_law
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL

MOST_DISTRIBUTIONS = 60
"""Most columns of which a report or a page shows the distribution."""
SHOWN_NUMBERS = (("mean", None), ("sd", None), ("quantile", 0.25), ("quantile", 0.5), ("quantile", 0.75))
"""Quantities that are shown beside a distribution, with their shares: mean, deviation and quartiles."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """Shares of a column's numbers between edges, each with its interval.

    Args:
        variable: name of the column.
        edges: ends of leaves or bins, shape `(parts + 1,)`; of whole numbers the last is the first number beyond.
        shares: posterior mean of the share of each part, shape `(parts,)`; they sum to 1.
        lower, upper: ends of the equal-tailed interval of each share, same shape.
        numbers: query and answer of each of `SHOWN_NUMBERS`.
        level: posterior probability of each interval.
        number_type: what the numbers stand for.
    """

    variable: str
    edges: Floats
    shares: Floats
    lower: Floats
    upper: Floats
    numbers: Sequence[tuple[str, AnswerRow]]
    level: float
    number_type: NumberType = NUMBERS

    def rows(self) -> list[dict[str, Any]]:
        """List the mean, standard deviation and quartiles beside the distribution, in the order of SHOWN_NUMBERS.

        Returns:
            For each "query", the column's name; "name", the text of the query; "mean", "lower" and "upper".
        """
        return [
            {"query": self.variable, "name": name} | {"mean": row["mean"], "lower": row["lower"], "upper": row["upper"]}
            for name, row in self.numbers
        ]

    def svg(self) -> str:
        """Draw the shares as steps with a band for their intervals, an `<svg>` element."""
        shares, lower, upper = (part.tolist() for part in (self.shares, self.lower, self.upper))
        edges = list(map(self.number_type.of, self.edges.tolist()))
        return histogram(self.variable, edges, shares, (lower, upper), level=self.level)


def distributions(
    posterior: PosteriorDraws, evidence: Mapping[str, str] | None = None, *, level: float = DEFAULT_LEVEL
) -> list[Distribution]:
    """Read the distributions of all numeric columns of which sums were released, at most MOST_DISTRIBUTIONS.

    Args:
        posterior: of a release.
        evidence: observed states by variable; an observed column has no distribution.
        level: posterior probability of each interval.

    Returns:
        One for each column, in the schema's order; none without sums. Without evidence its intervals are the leaves of
        its ruler, or its bins; with evidence they are its bins. Draws in which the evidence is impossible are left out.
        The mean, deviation and quartiles beside it are those of `answer`.

    Raises:
        InputError: a level outside (0, 1), or evidence that most draws make impossible.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> theta = dc.Tables(coin, {"coin": [[0.5, 0.6], [0.5, 0.4]]}, draws=2)
        >>> distributions(dc.results.PosteriorDraws(theta))
        []
    """
    observed = tuple((evidence or {}).items())
    grids = {} if posterior.numbers is None else posterior.numbers.grids
    shown = [name for name in grids if name in posterior.network.schema and name not in dict(observed)]
    shown = shown[:MOST_DISTRIBUTIONS]
    queries = [NumberQuery(quantity, name, at, observed) for name in shown for quantity, at in SHOWN_NUMBERS]
    answers = answer_many(posterior, queries, level=level)
    columns, each = [], len(SHOWN_NUMBERS)
    for start, name in zip(range(0, len(queries), each), shown, strict=True):
        law, grid = find_number_law(queries[start], posterior), grids[name]
        places = np.searchsorted(law.edges, grid.edges) if observed else np.arange(len(law.edges))
        shares = np.diff(law.below[places], axis=0)
        shares = shares[:, np.isfinite(shares).all(axis=0)]
        numbers = [(str(queries[at]), answers[at].rows[0]) for at in range(start, start + each)]
        ends = credible_interval(shares, level)
        kind = grid.variable.number_type
        columns.append(Distribution(name, law.edges[places], shares.mean(axis=-1), *ends, numbers, level, kind))
    return columns
