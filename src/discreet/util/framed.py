"""Results: what is known in rows, numbers with intervals. `display/` makes frames, text, HTML and pictures of them."""

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
        return above("Tabular.to_frame")(self, library)


class Intervals(Tabular):
    """Numbers with credible intervals, a row each: what names it, then "mean", "lower", "upper" and what else is known.

    "sampling" and "noise" are the parts of a variance that come of the number of records and of the privacy noise.
    """

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the intervals: a thin line each, in it a thick one of what sampling alone makes, and a dot at the mean.

        Args:
            axes: of matplotlib, to draw on; None makes new ones.

        Returns:
            The axes.

        Raises:
            InputError: matplotlib is not installed (the extra `plot`).
        """
        drawn: Axes = above("Intervals.plot")(self, axes)
        return drawn

    def _repr_html_(self) -> str:
        """The numbers as a table with bars, for a notebook."""
        return str(above("Intervals._repr_html_")(self))
