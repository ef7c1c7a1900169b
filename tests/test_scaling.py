"""The scaler by public bounds: where it puts numbers, and that it learns nothing from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet as dc
from discreet.estimators.scaling import PublicScaler


def test_the_scaler_maps_bounds_to_the_unit_box() -> None:
    scaler = PublicScaler(bounds=([0, -1e308], [10, 1e308])).fit([[3, 3]])
    inside = scaler.transform([[0, -1e308], [5, 0], [10, 1e308], [99, 5e307]])
    assert inside.tolist() == [[-1, -1], [0, 0], [1, 1], [1, 0.5]]
    narrow = PublicScaler(bounds=(0, 1e-100)).fit([[3]])  # nothing overflows: warnings are errors here
    assert narrow.transform([[1e300], [-1e300]]).tolist() == [[1], [-1]]
    assert scaler.get_feature_names_out().tolist() == ["x0", "x1"]


def test_the_scaler_gives_frames() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for kind, made_of in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        scaled = PublicScaler(bounds=(0, 4)).set_output(transform=kind).fit_transform(frame)
        assert isinstance(scaled, made_of)
        assert list(scaled.columns) == ["a", "b"]


def test_the_scaler_learns_nothing() -> None:
    one, other = (PublicScaler(bounds=(0, 1)).fit(np.full((5, 2), value)) for value in (0.25, 0.75))
    assert vars(one) == vars(other)


@pytest.mark.parametrize("bounds", [None, (0,), (1, 0), (0, np.inf), (0, [1, 2, 3]), "ab", (0, 0)])
def test_bounds_that_are_none(bounds: Any) -> None:
    with pytest.raises(dc.InputError, match="bounds"):
        PublicScaler(bounds=bounds).fit([[1.0, 2.0]])
