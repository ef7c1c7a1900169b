"""Completion of covariances by a network's independences, where each variable follows its parents along a line.

The covariances of a variable with its parents are known, those with other variables before it follow from them:

    Cov(v, u) = beta' Cov(parents, u),     beta = Cov(parents)^-1 Cov(parents, v).

In a chain x -> y -> z that is cov(x, z) = cov(x, y) cov(y, z) / var(y). It is exact if v is independent of u given the
parents and E(v | parents) is linear, whatever the laws; then it is the closed form of a linear-Gaussian network.

Source: Dempster (1972), covariance selection; Shachter and Kenley (1989), Gaussian influence diagrams.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.util.arrays import Floats

FOLLOWS = "no sum of both {} and {} was released: their covariance follows from lines along the network's arcs"
"""Assumption of a covariance that was not measured."""
MOST_TOLD = 6
"""Most pairs of which that is said."""
LEAST_RATIO = 1e-9
"""Ratio of a singular value of parents' correlations to the largest, below which parents follow from each other."""


@dataclass(frozen=True, eq=False)
class Completion:
    """Which covariances of some variables' columns are known, and how the others follow.

    Args:
        network: in which the variables are, with all their ancestors.
        names: of the variables, parents before children.
        columns: number of columns of each.
        known: pairs of different variables of which covariances are known, in either order.
    """

    network: Network
    names: Scope
    columns: tuple[int, ...]
    known: frozenset[tuple[str, str]]

    @cached_property
    def spans(self) -> dict[str, range]:
        """Columns of each variable."""
        ends = np.cumsum([0, *self.columns]).tolist()
        return {name: range(start, end) for name, start, end in zip(self.names, ends, ends[1:], strict=False)}

    def pick(self, names: Scope) -> list[int]:
        """List the columns of some variables."""
        return [column for name in names for column in self.spans[name]]

    def is_known(self, first: str, second: str) -> bool:
        """True if the covariances of two variables are known."""
        return (first, second) in self.known or (second, first) in self.known

    def tell(self, names: Scope) -> tuple[str, ...]:
        """Tell in a sentence for each pair of some variables without known covariances what these follow from."""
        apart = [pair for pair in combinations(names, 2) if not self.is_known(*pair)]
        return tuple(FOLLOWS.format(*pair) for pair in apart[:MOST_TOLD])

    def fill(self, covariances: Floats) -> Floats:
        """Replace the unknown covariances by those that follow from the known ones.

        Args:
            covariances: shape `(draws, columns, columns)`; unknown ones may be anything.

        Returns:
            Same shape, symmetric.
        """
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        unit = np.sqrt(np.where(variances > 0, variances, 1.0))
        filled = covariances / unit[:, :, None] / unit[:, None]
        for at, name in enumerate(self.names):
            columns = list(self.spans[name])
            open_ = self.pick(tuple(before for before in self.names[:at] if not self.is_known(name, before)))
            if not open_:
                continue
            parents = self.pick(self.network.parents[name])
            among = filled[:, parents][:, :, parents]
            line = np.linalg.pinv(among, rcond=LEAST_RATIO, hermitian=True) @ filled[:, parents][:, :, columns]
            follow = filled[:, open_][:, :, parents] @ line
            for place, column in enumerate(columns):
                filled[:, open_, column] = filled[:, column, open_] = follow[:, :, place]
        return np.asarray(filled * unit[:, :, None] * unit[:, None])
