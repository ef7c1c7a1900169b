"""Printed sensitivities that are more than enough: what a record really moves, by trying every change."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.research.scores.factors import CategoricalFactor
from discreet.research.scores.score_tables import SCORE_STEPS

from ..networks import asia
from .claim import Claim, Ground, Group, claimed, measured
from .noise import chain, complete, naive_bayes, variance_ratio
from .steps import CHANCES

__all__ = ["LOOSE", "largest_move", "largest_table_move"]


def _odd(network: dc.Network, subsets: Iterable[Iterable[str]], *, anywhere: bool) -> npt.NDArray[np.int64]:
    """For every pattern of changed bits, in how many subsets an odd number changes, or any at all."""
    place = {name: 1 << position for position, name in enumerate(network.nodes)}
    patterns = np.arange(2 ** len(network.nodes), dtype=np.int64)
    total = np.zeros(patterns.size, np.int64)
    for subset in subsets:
        changed = np.bitwise_count(patterns & sum(place[name] for name in subset))
        total += (changed > 0) if anywhere else (changed & 1)
    return total


def largest_move(network: dc.Network) -> int:
    """Most that a replaced record moves all un-normalised Fourier coefficients, by trying every pattern of changes.

    Args:
        network: public, binary, of some 20 nodes at most.

    Returns:
        L1 distance, records.

    Source:
        Exact value for Zhang et al. (AAAI 2016), Corollary 2.
    """
    return 2 * int(_odd(network, network.downward_closure, anywhere=False).max())


def largest_table_move(network: dc.Network, nodes: Iterable[str]) -> int:
    """Most that a replaced record moves the family tables of some nodes, by trying every pattern of changes.

    Args:
        network: public, binary, of some 20 nodes at most.
        nodes: whose tables are released.

    Returns:
        L1 distance, records.

    Source:
        Zhang et al. (AAAI 2016), Lemma 1.
    """
    return 2 * int(_odd(network, map(network.family, nodes), anywhere=True).max())


def _corollary_1(network: dc.Network) -> tuple[float, float]:
    """Sensitivity of all family tables, and of those that are no margins of others."""
    return largest_table_move(network, network.nodes), largest_table_move(network, network.maximal_families)


def _corollary_2(network: dc.Network) -> tuple[float, float]:
    """Twice the subsets, and the exact sensitivity."""
    return 2 * len(network.downward_closure), largest_move(network)


def _exact_scale(network: dc.Network, node: str) -> tuple[float, float]:
    """Variance over that of noise on counts at the printed scale, and at the exact sensitivity."""
    return variance_ratio(network, node, _corollary_2(network)[0]), variance_ratio(network, node, largest_move(network))


NETWORKS = (
    ("naive Bayes, 4 features", naive_bayes(4), "x3", 20, 16, None),
    ("naive Bayes, 8 features", naive_bayes(8), "x3", 36, 32, 0.79),
    ("naive Bayes, 16 features", naive_bayes(16), "x3", 68, 64, None),
    ("chain of 6", chain(6), "x3", 24, 16, 0.44),
    ("complete graph on 6", complete(6), "x5", 128, 64, 0.44),
    ("Asia", asia().network, "either", 42, 28, 0.38),
)
"""Name, network, a node of it, printed and exact sensitivity, ratio of variances at the exact one where it is known."""


def _coin_factor() -> CategoricalFactor:
    """The coin of Williams and McSherry."""
    return CategoricalFactor(np.stack([1 - CHANCES, CHANCES], axis=1), floor=0.1)


LOOSE = Group(
    "Correct, but not tight",
    "Bounds that hold and can be lowered; units are in the case.",
    True,
    "yes, not tight",
    (
        Claim(
            "Z Corollary 1",
            "all family tables are needed, with sensitivity 2K",
            "naive Bayes, 8 features; L1 in records, of all tables v of those that are no margins of others",
            "at most",
            partial(_corollary_1, naive_bayes(8)),
            (claimed(18, 1e-9), measured(16, 1e-9)),
        ),
        *(
            Claim(
                "Z Corollary 2",
                "the coefficients have sensitivity 2 N, N being the number of subsets",
                f"{name}; L1 in records, all patterns tried",
                "at most",
                partial(_corollary_2, network),
                (claimed(printed, 1e-9), measured(exact, 1e-9)),
            )
            for name, network, _, printed, exact, _ in NETWORKS
        ),
        *(
            Claim(
                "Z Algorithm 2",
                "noise of scale 2 N/epsilon",
                f"{name}, {node}; variance of a cell over that of noise on counts, at scale 2 N v the exact one",
                "at most",
                partial(_exact_scale, network, node),
                (measured(value, 0.005),),
            )
            for name, network, node, _, _, value in NETWORKS
            if value is not None
        ),
        Claim(
            "W Section 2",
            "factors within exp(+-epsilon) make a choice 2 epsilon-DP",
            "coin, 9 candidates, epsilon = 1, clamped at 0.1; nats, added or removed",
            "at most",
            lambda: (2.0, _coin_factor().width(dc.Relation.ADD_REMOVE) / SCORE_STEPS),
        ),
    ),
    Ground(
        "All patterns of changed bits of a record, or the widths of factors.",
        "The networks and factors of the cases; the printed bounds hold for all",
        "none: the printed bounds hold",
    ),
)
