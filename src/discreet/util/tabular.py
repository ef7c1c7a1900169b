"""Results: rows, and blocks to show. `display/` makes frames, text, HTML and pictures from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from discreet.util.attached import above

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa
    from matplotlib.axes import Axes

Library = Literal["pandas", "polars", "arrow"]


class Block(Protocol):
    """A part of a result's display: a table, facts or a picture; see `display/renderers.py`."""

    def text(self, width: int | None) -> str | None:
        """Write the block as text, `width` columns wide at most; None if it is a picture."""

    def html(self) -> str:
        """Write the block as HTML, for a notebook."""


class Tabular(ABC):
    """A result in rows."""

    @abstractmethod
    def tidy(self) -> list[dict[str, Any]]:
        """Return the rows, with equal keys; a row may lack unknown ones."""

    @abstractmethod
    def summary(self, *, width: int | None = None) -> str:
        """Return the result as text; with a width, lines of tables fit a terminal of so many columns."""

    @overload
    def to_frame(self, library: Literal["pandas"] = "pandas") -> pandas.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["polars"]) -> polars.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["arrow"]) -> pa.Table: ...
    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the rows of `tidy` as a data frame.

        Args:
            library: whose frame it is: "pandas", "polars", or "arrow" for a table of Arrow.

        Returns:
            The frame, with a column for each key; of intervals columns that name a row, then "mean", "lower", "upper"
            and what else is known of it.

        Raises:
            InputError: another library, or one that is not installed.
        """
        return above("Tabular.to_frame")(self.tidy(), library)


class Result(Tabular):
    """Result of a function: rows, and the blocks of text, tables and pictures that text and HTML are made from.

    Rows of numbers have what names them, then "mean", "lower", "upper", "level" and what else is known: "sampling" and
    "noise", the parts of a variance that come of the number of records and of the privacy noise, and "basis", what a
    number rests on.
    """

    @abstractmethod
    def content(self) -> Iterable[str | Block]:
        """Yield the parts to show from the top: blocks, and lines of text; an empty line separates parts."""

    def __str__(self) -> str:
        """Return the text of `summary`."""
        return self.summary()

    def summary(self, *, width: int | None = None) -> str:
        """Write the result as text.

        Args:
            width: columns of the terminal, which no line of a table exceeds; None for lines as long as they are.
        """
        return str(above("Result.summary")(self.content(), width))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the intervals: a thin line each, in it a thick one for sampling error alone, and a dot at the mean.

        Args:
            axes: of matplotlib, to draw on; None makes new ones.

        Returns:
            The axes.

        Raises:
            InputError: rows without intervals, or matplotlib is not installed (the extra `plot`).
        """
        drawn: Axes = above("Result.plot")(self.tidy(), axes)
        return drawn

    def _repr_html_(self) -> str:
        """Return the result as HTML, for a notebook: tables with a bar for each interval."""
        return str(above("Result._repr_html_")(self.content()))
