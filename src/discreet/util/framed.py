"""Results in rows: numbers with intervals. `display/` makes frames, text, HTML and pictures from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, overload

from discreet.util.attached import above

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa
    from matplotlib.axes import Axes

Library = Literal["pandas", "polars", "arrow"]


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
            library: "pandas", "polars", or "arrow" for a table of Arrow.

        Returns:
            The frame, with a column for each key; for intervals the columns that name a row, then "mean", "lower",
            "upper" and others.

        Raises:
            InputError: another library, or one that is not installed.
        """
        return above("Tabular.to_frame")(self, library)


class Intervals(Tabular):
    """Numbers with credible intervals, one row each: its name, then "mean", "lower", "upper" and others.

    "sampling" and "noise" are the shares of the variance due to the number of records and to the privacy noise.
    """

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the intervals: a thin line each, in it a thick one for sampling error alone, and a dot at the mean.

        Args:
            axes: of matplotlib, to draw on; None makes new ones.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed (the extra `plot`).
        """
        plotted: Axes = above("Intervals.plot")(self, axes)
        return plotted

    def _repr_html_(self) -> str:
        """Return the numbers as a table with bars, for a notebook."""
        return str(above("Intervals._repr_html_")(self))
