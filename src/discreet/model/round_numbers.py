"""Round numbers between public bounds: the bins of a numeric column that was declared by its bounds alone.

Bounds that nobody thought about are often a hundred times too wide. Round numbers, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15 and
so on, lie close where numbers are small, so some of them are good bins whatever the scale of a column is. A release
finds in private how many records lie between them, and makes few bins of that: see `releases/kinds/found_bins.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet.errors import require, shown
from discreet.model.schema import Variable

if TYPE_CHECKING:
    from discreet.model.network import Network

MANTISSAS = (1, 1.5, 2, 3, 4, 5, 6, 8)
"""Round numbers of a decade."""
DECADES = 8
"""Decades below the larger bound; closer to 0 there are no more round numbers."""
FOUND_BINS = 10
"""Most bins that are found of a column."""
LEAST_ROUND_NUMBERS = 12
"""Least round numbers that bins are found from; between bounds with fewer, bins are of one width."""


def round_numbers(bounds: tuple[float, float], type: str) -> tuple[float, ...]:
    """List the round numbers strictly between bounds: 0, and `MANTISSAS` times powers of ten of both signs.

    Args:
        bounds: smallest and largest number, finite.
        type: "real" or "integer", for which they are rounded to whole numbers.

    Example:
        >>> round_numbers((-2, 30), "integer")
        (-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0)
    """
    low, high = bounds
    top = math.ceil(math.log10(max(abs(low), abs(high))))
    sizes = {float(f"{mantissa}e{power}") for power in range(top - DECADES, top) for mantissa in MANTISSAS}
    if type == "integer":
        # Half of 1.5 is no whole number: it counts as 2.
        sizes = {float(round(size)) for size in sizes if math.isfinite(size)} - {0.0}
    return tuple(sorted(cut for size in {0.0, *sizes} for cut in {size, -size} if low < cut < high))


def with_bins(variable: Variable) -> Variable:
    """Give a numeric variable that has bounds alone its bins: all round numbers between them.

    Args:
        variable: another one is returned as it is.

    Returns:
        The variable; with `FOUND_BINS` bins of one width where there are less than `LEAST_ROUND_NUMBERS`. Of dates
        these are days, months, quarters or years, all of which stay bins.

    Example:
        >>> with_bins(Variable("age", bounds=(18, 90))).size, with_bins(Variable("pay", bounds=(0, 1e6))).size
        (10, 65)
    """
    if variable.bounds is None or variable.states:
        return variable
    low, high = variable.bounds
    require(low < high, f"variable {shown(variable.name)} has one number alone between its bounds; leave it out")
    if variable.number_type.is_calendar:
        return replace(variable, bins=variable.number_type.default_cuts(variable.bounds))
    cuts = round_numbers(variable.bounds, variable.type)
    if len(cuts) < LEAST_ROUND_NUMBERS:
        cuts = Variable.binned(variable.name, variable.bounds, FOUND_BINS, type=variable.type).bins
    return replace(variable, bins=cuts)


def is_wide(variable: Variable) -> bool:
    """True if the bins of a variable are all the round numbers between its bounds, of which a release finds few."""
    if variable.bounds is None or len(variable.bins) < LEAST_ROUND_NUMBERS or variable.number_type.is_calendar:
        return False
    return variable.bins == round_numbers(variable.bounds, variable.type)


def wide_columns(network: Network) -> tuple[Variable, ...]:
    """List the variables of a network whose bins are to be found, in the schema's order."""
    return tuple(variable for variable in network.variables if is_wide(variable))


def replace_variables(network: Network, variables: Mapping[str, Variable]) -> Network:
    """Replace some variables of a network, which keep their names; the arcs stay."""
    return replace(network, variables=tuple(variables.get(each.name, each) for each in network.variables))


def halve_bins(network: Network) -> Network:
    """Give the columns whose bins are to be found two bins, which are not those of `typical_network`."""
    halves = {
        variable.name: replace(
            variable,
            states=(),
            bins=Variable.binned(variable.name, variable.bounds or (0, 1), 2, type=variable.type).bins,
        )
        for variable in wide_columns(network)
    }
    return replace_variables(network, halves)


def typical_network(network: Network) -> Network:
    """Give the columns whose bins are to be found as many bins as these may have, for plans and checks of sizes."""
    typical = {
        variable.name: replace(
            variable,
            states=(),
            bins=Variable.binned(variable.name, variable.bounds or (0, 1), FOUND_BINS, type=variable.type).bins,
        )
        for variable in wide_columns(network)
    }
    return replace_variables(network, typical) if typical else network
