"""The protocol of posteriors: every reader of a release returns a `Posterior`, whatever was released."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NotRequired, Protocol

import numpy as np
from typing_extensions import TypedDict  # pydantic accepts no other TypedDict before Python 3.12

from discreet.display.renderers import IntervalTable, text_of
from discreet.errors import InputError
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.randomness import Seed
from discreet.util.tabular import Block, Result

Tails = Callable[[Floats, float], tuple[Floats, Floats]]
"""A function from draws, over the first axis, and a level to the lower and upper ends of intervals."""


class NamedRow(TypedDict):
    """Row of a posterior of named numbers: a name, the posterior mean and the ends of the interval.

    `component` is the number of the component if there are several, and `dates` has the ends as dates, by field, if the
    number is one. Rows without them leave these fields out.
    """

    name: str
    mean: float
    lower: float
    upper: float
    component: NotRequired[int]
    dates: NotRequired[dict[str, str]]


class Posterior(Result):
    """Draws of the named quantities that a release informs about, each with an interval.

    Over a network the quantities are probabilities (`PosteriorDraws`), over a design weights or components, for a
    family its parameters, for a choice by a custom score the possible laws of the records.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> posterior: dc.results.Posterior = dc.results.PosteriorDraws(dc.Dirichlet.uniform(coin).draw(100, rng=1))
        >>> posterior.draws, [row["state"] for row in posterior.rows()]
        (100, ['heads', 'tails'])
    """

    noun: ClassVar[str] = "name"
    """Heading of the column of names in printed rows."""
    method: str
    """Name of the method of drawing."""

    @property
    @abstractmethod
    def draws(self) -> int:
        """Number of joint draws."""

    @abstractmethod
    def mean(self) -> Any:
        """Compute posterior means of all quantities, in the shape of one draw."""

    @abstractmethod
    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Any, Any]:
        """Compute equal-tailed intervals: lower and upper ends in the shape of `mean`.

        Args:
            level: posterior probability, between 0 and 1.
        """

    @abstractmethod
    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[dict[str, Any], ...]:
        """List the quantities as rows: their names, "mean", "lower" and "upper".

        Args:
            level: posterior probability of each interval, between 0 and 1.
        """

    def ess(self) -> float:
        """Return the effective sample size of the draws: here their number, as if they were independent."""
        return float(self.draws)

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List the rows of `rows` as new dictionaries, each with its "level"; errors as for `rows`."""
        return [{**row, "level": level} for row in self.rows(level=level)]

    def summary(self, *, level: float = DEFAULT_LEVEL, width: int | None = None) -> str:
        """Format the rows as aligned text, followed by an empty line and "posterior: " with the method of drawing.

        Args:
            level: posterior probability of each interval, between 0 and 1; errors as for `rows`.
            width: columns of the terminal, to which long texts are wrapped; None wraps nothing.
        """
        return text_of(self.content(level=level), width)

    __str__ = object.__str__  # one line: rows may take long

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """Yield a table of the rows with their intervals, an empty line, and "posterior: " with the method."""
        yield from (IntervalTable(self.tidy(level=level), self.noun), "", f"posterior: {self.method}")

    def save(self, path: str | Path, *, replace: bool = False) -> None:
        """Refuse to store the draws, always; posteriors over a network override this.

        Args:
            path: path of the file.
            replace: whether an existing file of this name is replaced.

        Raises:
            InputError: always.
        """
        raise InputError("only draws over a network can be stored yet; save the release, and read it again")


class NetworkPosterior(Protocol):
    """Interface that queries need: a distribution over all probabilities of a network, represented by draws.

    Example:
        >>> import discreet as dc
        >>> coin = dc.Network((dc.Variable("coin", ("heads", "tails")),), {"coin": ()})
        >>> drawn = dc.Dirichlet.uniform(coin).draw(100, rng=1)
        >>> posterior: dc.results.NetworkPosterior = dc.results.PosteriorDraws(drawn)
        >>> posterior.draw(10, rng=2)["coin"].shape
        (2, 10)
    """

    @property
    def network(self) -> Network:
        """The public network."""

    @property
    def probabilities(self) -> Tables:
        """Probabilities, float64, shape `(*parents, child, draws)`; draw s of all families is one joint draw."""

    def mean(self) -> Tables:
        """Compute the posterior mean of every probability, over all draws.

        Returns:
            Tables without an axis of draws.
        """

    def draw(self, n: int, *, rng: Seed = None) -> Tables:
        """Pick some of the joint draws at random, the same ones for all families.

        Args:
            n: number of draws to pick, at most all.
            rng: seed or generator; None takes a new seed.

        Returns:
            Probabilities, shape `(*parents, child, n)`.
        """


def name_rows(heads: Sequence[dict[str, Any]], draws: Floats, tails_of: Tails, level: float) -> tuple[Any, ...]:
    """List named quantities with posterior means and intervals, one row each.

    Args:
        heads: for each number the fields that name it, in the order of the numbers; not changed.
        draws: shape `(draws, numbers)`.
        tails_of: computes intervals over the first axis, as `tails` does.
        level: posterior probability of each interval.

    Returns:
        For each number a dictionary with its head's fields, then "mean" (over the draws), "lower" and "upper" as
        floats.

    Raises:
        InputError: as for `tails_of`.
        ValueError: another number of heads than of numbers.
    """
    lower, upper = tails_of(draws, level)
    return tuple(
        head | {"mean": float(mean), "lower": float(low), "upper": float(high)}
        for head, mean, low, high in zip(heads, draws.mean(axis=0), lower, upper, strict=True)
    )


def tails(draws: Floats, level: float) -> tuple[Floats, Floats]:
    """Compute equal-tailed intervals over the first axis: the quantiles at `(1 - level) / 2` and `(1 + level) / 2`.

    Args:
        draws: shape `(draws, ...)`.
        level: posterior probability, between 0 and 1.

    Returns:
        (lower, upper), shape `(...)` each; quantiles between two draws are interpolated linearly.

    Raises:
        InputError: in this order, a level outside (0, 1), a single draw, or less than one draw beyond each end: `draws
            (1 - level) < 1.999` (`require_level`).

    Example:
        >>> lower, upper = tails(np.arange(101.0), 0.9)
        >>> round(float(lower)), round(float(upper))
        (5, 95)
    """
    require_level(level, len(draws))
    return equal_tails(draws, level)


def equal_tails(draws: Floats, level: float, axis: int = 0) -> tuple[Floats, Floats]:
    """Compute the quantiles that bound an equal-tailed interval, over an axis of draws, without checking the level.

    The quantiles are at `(1 - level) / 2` and `(1 + level) / 2`, interpolated linearly between draws. Probabilities
    have `credible_interval`, whose ends can be exactly 0 or 1.

    Args:
        draws: draws of any shape.
        level: posterior probability; the caller checks it.
        axis: axis of the draws.

    Returns:
        (lower, upper), without that axis.

    Example:
        >>> [float(end) for end in equal_tails(np.arange(101.0), 0.5)]
        [25.0, 75.0]
    """
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=axis)
    return lower, upper


def require_level(level: float, draws: int) -> None:
    """Refuse a level too close to 1 for the number of draws: less than one draw would lie beyond each end.

    Args:
        level: posterior probability, between 0 and 1, both excluded.
        draws: number of draws.

    Raises:
        InputError: in this order, a level outside (0, 1) or NaN, fewer than two draws, or `draws (1 - level) < 1.999`:
            40 draws suffice for 0.95.

    Example:
        >>> require_level(0.95, 40)
        >>> require_level(0.999, 40)
        Traceback (most recent call last):
        discreet.errors.InputError: 40 draws cannot tell a level of 0.999; it takes about 2,000
    """
    if not 0 < level < 1:
        raise InputError(f"a level lies between 0 and 1, got {level}")
    if draws < 2:
        raise InputError("one draw of the weights has no interval; release more draws, or moments")
    if draws * (1 - level) < 1.999:
        raise InputError(f"{draws} draws cannot tell a level of {level}; it takes about {2 / (1 - level):,.0f}")
