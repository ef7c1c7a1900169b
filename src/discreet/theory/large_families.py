"""Families with more cells than a budget can fill: which parents to leave out of their tables, from public sizes alone.

Where a family has several cells for each record, its table stays noise, and the budget that goes to it by its size is
missed by the small ones, which answer most queries. Such a family is measured with fewer parents; what its rows are,
each on its own, is then left to the prior, and intervals say so.
"""

from __future__ import annotations

from discreet.model.network import Network

NOISY_ROW_ERROR = 0.5
"""Expected error of a row of probabilities, averaged over nodes and before it saturates, from which families lose
parents. Below lie child and alarm at epsilon .1, above barley up to 3."""
FILLED_CELLS = 0.4
"""Cells of the largest table, times the scale of the noise that an even share of the budget buys, for each record: with
10,000 records and scale 40, a hundred cells. Larger tables cost barley's marginals half of their gain."""
SPARED_FACTOR = 3.0
"""Times so many cells a family may have and stay whole: barley's tables of twice as many cells are read well."""


def largest_table(records: int, scale: float) -> float:
    """Cells of the largest table that is worth measuring, for some records and noise.

    Args:
        records: how many there are, or a public guess.
        scale: of Laplace noise of an even share of the budget, or that of equal variance; records.

    Returns:
        Cells.

    Example:
        >>> largest_table(10_000, 40.0)
        100.0
    """
    return FILLED_CELLS * records / scale


def without_large(network: Network, cells: float) -> Network:
    """Drop parents that families above a size cannot be measured with.

    Args:
        network: public.
        cells: of the largest table; families of up to three times as many stay whole. The others lose the parent with
            most states, the last of equals, until they have at most so many cells or no parent.

    Returns:
        A network whose families lie in those of the given one.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> without_large(network, 2).parents["c"], without_large(network, 4).parents["c"]
        ((), ('a', 'b'))
    """
    parents = {}
    for node in network.nodes:
        kept = list(network.parents[node])
        if network.cells(network.family(node)) > SPARED_FACTOR * cells:
            while kept and network.cells((*kept, node)) > cells:
                kept.remove(max(reversed(kept), key=lambda name: network.schema[name].size))
        parents[node] = tuple(kept)
    return Network(network.variables, parents)
