"""Pages of experiments without their pictures, which take longer than all that a page says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments import pictures


class Blank:
    """Stands in for a figure, for its panels and for all that is in them: it takes any call, and holds nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **named: Any) -> Blank:
        return self

    def __getitem__(self, place: Any) -> Blank:
        return self

    def __rmul__(self, factor: float) -> Blank:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def subplots(self, rows: int, columns: int, **named: Any) -> np.ndarray:
        """Panels."""
        panels = np.empty((rows, columns), object)
        panels.fill(self)
        return panels


def paint(patch: pytest.MonkeyPatch, painted: bool) -> None:
    """Paint figures of experiments from here on, or none."""
    patch.setattr(pictures, "Figure", Figure if painted else Blank)
