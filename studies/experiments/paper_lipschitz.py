"""What one attribute of a record can move, as it was printed for whole records.

Lipschitz constants are in `discreet.research.bounds`, and the range of a trimmed network, which the product computes
with, in `research/scores/likelihood_sensitivity.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet.model.network import Network
from discreet.research.scores.likelihood_sensitivity import ranges

__all__ = [
    "attribute_loss",
]


def attribute_loss(network: Network, floors: Mapping[str, float]) -> float:
    """Epsilon of one draw of all trimmed rows towards a change of ONE attribute of one record.

    `max_j 2 (Lambda_j + sum of Lambda_c over the children c of j)`, over the nodes j that can change. This is no
    protection of a record: who knows the other attributes learns up to `record_loss` about all of them together. It is
    here to be compared with what was printed as record-level protection.

    Args:
        network: public.
        floors: as for `record_loss`.

    Returns:
        Epsilon, nats, for data sets that differ in one cell of one record.

    Raises:
        InputError: as for `record_loss`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Lemma 24: `2 max_k (1 + out-degree of k) ln(1 / w)` with one w, corrected to
        the exact range.
    """
    by_node = ranges(network, floors)
    losses = [
        2 * math.fsum([by_node[name], *(by_node[child] for child in network.children(name))])
        for name in network.nodes
        if network.schema[name].size > 1
    ]
    return max(losses, default=0.0)
