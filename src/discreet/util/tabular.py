"""Results: rows, and what is said of them. `display/` makes frames, text, HTML and pictures of them."""

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
    """A part of what a result shows: a table, facts, a picture; see `display/renderers.py`."""

    def text(self, width: int | None) -> str | None:
        """Write it for a terminal of so many columns; None for what is only seen."""

    def html(self) -> str:
        """Write it for a notebook."""


class Tabular(ABC):
    """What is known in rows."""

    @abstractmethod
    def tidy(self) -> list[dict[str, Any]]:
        """The rows, all with the same keys, or some without what is not known of them."""

    @abstractmethod
    def summary(self, *, width: int | None = None) -> str:
        """The whole as text; no line of a table is longer than a terminal of so many columns, where they are said."""

    @overload
    def to_frame(self, library: Literal["pandas"] = "pandas") -> pandas.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["polars"]) -> polars.DataFrame: ...
    @overload
    def to_frame(self, library: Literal["arrow"]) -> pa.Table: ...
    def to_frame(self, library: Library = "pandas") -> Any:
        """The rows of `tidy` as a data frame.

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
    """What a function found: rows, and blocks of text, tables and pictures, of which all that is shown is made.

    Rows of numbers have what names them, then "mean", "lower", "upper", "level" and what else is known: "sampling" and
    "noise", the parts of a variance that come of the number of records and of the privacy noise, and "basis", what a
    number rests on.
    """

    @abstractmethod
    def content(self) -> Iterable[str | Block]:
        """What is shown, from the top: blocks, and texts of one line, which are empty between parts."""

    def __str__(self) -> str:
        """The text of `summary`."""
        return self.summary()

    def summary(self, *, width: int | None = None) -> str:
        """Write all of it as text.

        Args:
            width: columns of the terminal, which no line of a table exceeds; None for lines as long as they are.
        """
        return str(above("Result.summary")(self.content(), width))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the intervals: a thin line each, in it a thick one of what sampling alone makes, and a dot at the mean.

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
        """All of it for a notebook: tables, with a bar for each interval."""
        return str(above("Result._repr_html_")(self.content()))
