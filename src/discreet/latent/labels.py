r"""Labels of the states of a latent node: draws are put in one order of the states, and the doubt of it is measured.

A likelihood does not change when the states of a latent node are renamed, so without an order each state has the same
posterior. Each draw is put in the order in which its rows are closest to the mean of all draws, in units of their
standard deviations; mean and orders are found in turn, as by k-means. The states are then named by the mean share of
the records in them, the largest first. This uses no records, and answers that sum over the latent node do not depend
on it.

Source: Stephens (2000), algorithm for labels by a normal approximation of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
from scipy.special import logsumexp

from discreet.latent.latent_block import LatentBlock
from discreet.util.arrays import Array, Floats, Ints

MOST_TURNS = 20
"""Largest number of turns of mean and orders; a few suffice."""
LEAST_SPREAD = 1e-4
"""Lower bound of a standard deviation of a probability, so that a constant one has a distance."""


def state_features(block: LatentBlock, rows: Mapping[str, Array]) -> Floats:
    """List the rows of each state of the latent node: its probabilities, and those of its children given it.

    Returns:
        Shape (states, features, draws).
    """
    parts = []
    for node in block.modelled:
        family = block.network.family(node)
        axis = family.index(block.latent)
        table = np.moveaxis(rows[node], axis, 0)
        parts.append(table.reshape(block.states, -1, table.shape[-1]))
    return np.concatenate(parts, axis=1)


def _list_orders(states: int) -> Ints:
    """List all orders of the states, shape (orders, states)."""
    return np.array(list(permutations(range(states))), np.int64)


def _score_orders(features: Floats, ordered: Floats) -> Floats:
    """Compute half the squared distance of every draw in every order from the mean, by a normal law of the features.

    Args:
        features: shape (states, features, draws).
        ordered: the same draws in the orders whose mean and deviations are taken.

    Returns:
        Minus the log density up to a constant, shape (orders, draws).
    """
    mean = ordered.mean(axis=-1, keepdims=True)
    spread = np.maximum(ordered.std(axis=-1, keepdims=True), LEAST_SPREAD)
    # For each place the cost of each state there; the deviations' logarithms are the same for every order.
    costs = np.stack([
        0.5 * np.square((features - mean[place]) / spread[place]).sum(axis=1) for place in range(len(features))
    ])
    orders = _list_orders(len(features))
    places = np.arange(len(features))
    return np.stack([costs[places, order].sum(axis=0) for order in orders])


def find_orders(features: Floats) -> Ints:
    """Find the order of the states in every draw that is closest to the mean of all, then name states by their share.

    Args:
        features: shape (states, features, draws), as of `state_features`.

    Returns:
        For each draw the old state at each new position, shape (states, draws).
    """
    orders = _list_orders(len(features))
    chosen = np.zeros(features.shape[-1], np.int64)
    for _ in range(MOST_TURNS):
        ordered = np.take_along_axis(features, orders[chosen].T[:, None], axis=0)
        closest = _score_orders(features, ordered).argmin(axis=0)
        if np.array_equal(closest, chosen):
            break
        chosen = closest
    return orders[chosen].T


def label_doubt(features: Floats) -> float:
    """Compute the mean posterior probability that a draw's order is another one than that in which it stands.

    Args:
        features: of draws in their orders, shape (states, features, draws).

    Returns:
        From 0, for states that are far apart, to 1 - 1 / orders, for states that nothing tells apart.
    """
    costs = _score_orders(features, features)
    own = -costs[0] - logsumexp(-costs, axis=0)
    return float(1 - np.exp(own).mean())


def by_share(block: LatentBlock, law: Floats) -> Ints:
    """Order states by a mean share, the largest first; the first of equals first. Shape (states,)."""
    return np.argsort(-law, kind="stable")
