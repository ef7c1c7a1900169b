"""Mechanisms over designs: records become rows on a public grid, and their statistic is made of those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from discreet.designs.records.rows import Rows, from_rows
from discreet.mechanisms.crossing import Mechanism, Statistic
from discreet.mechanisms.noise import Noise
from discreet.privacy.guarantee import Guarantee


def design_mechanism(
    name: str,
    calibrate: Callable[[Any, Any, Guarantee], Any],
    draw: Callable[[Any, Any, Any, Noise], Any],
    statistic: type[Any],
    of_rows: Callable[[Rows], Statistic],
    **options: Any,
) -> Mechanism:
    """Make a mechanism over designs.

    Args:
        name, calibrate, draw, statistic, options: as of `Mechanism`.
        of_rows: makes the statistic of rows.
    """
    return Mechanism(name, calibrate, draw, statistic, over="design", of_records=from_rows(of_rows), **options)
