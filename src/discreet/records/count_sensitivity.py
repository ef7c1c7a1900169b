"""Sensitivity of the family counts of a network: how far one record can move them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.model.network import Network
from discreet.privacy.guarantee import Relation


@dataclass(frozen=True)
class Sensitivity:
    """Largest distance of a statistic between neighbouring data sets; unit: records.

    Args:
        l1: sum of absolute differences.
        l2: root of the sum of squared differences.
    """

    l1: float
    l2: float


def sensitivity(network: Network, relation: Relation) -> Sensitivity:
    r"""Bound how far one record can move the family counts of a network.

    A record adds one to exactly one cell of each node's table, so adding or removing it moves K cells by one and
    replacing it moves at most 2K, where K is the number of nodes.

    Args:
        network: public; its K families fix the tables.
        relation: what "neighbouring data sets" means in the guarantee.

    Returns:
        Bounds over all tables together. ADD_REMOVE: (K, sqrt(K)). REPLACE: (2K, sqrt(2K)); both are attained.

    Raises:
        Nothing: every network has a bound.

    Guarantee:
        None spent: reads no data. Assumes one record for each unit of protection, and records that are counted whole
        or left out whole.

    Source:
        Zhang, Rubinstein and Dimitrakakis (AAAI 2016), Lemma 1, for REPLACE; Dwork and Roth (2014), Definition 3.1.

    Example:
        >>> import discreet as dc
        >>> rain = dc.Variable("rain", ("no", "yes"))
        >>> wet = dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> dc.tools.sensitivity(network, dc.Relation.REPLACE)
        Sensitivity(l1=4.0, l2=2.0)
    """
    cells = len(network.nodes) * cells_moved(relation)
    return Sensitivity(l1=float(cells), l2=math.sqrt(cells))


def cells_moved(relation: Relation) -> int:
    """Largest number of cells of one table that differ between neighbouring data sets, each by one record.

    Args:
        relation: what "neighbouring" means.

    Returns:
        1 for ADD_REMOVE, 2 for REPLACE.

    Example:
        >>> cells_moved(Relation.ADD_REMOVE), cells_moved(Relation.REPLACE)
        (1, 2)
    """
    return relation.by_record(1, 2)
