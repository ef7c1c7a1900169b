"""What a naive Bayes classifier believes, in rows: of each class alone, and with each feature alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.model.tables import Tables
from discreet.queries.credible import credible_interval

LEAST_PROBABILITY = 5e-324
"""Stands for a probability of zero, which would make a record impossible under every class."""


def class_rows(cells: Tables, star: Sequence[str], labels: Sequence[str], level: float) -> list[dict[str, Any]]:
    """P(class), and P(class | state of one feature), with intervals over the draws.

    Args:
        cells: probabilities of the class, shape (classes, draws), and of features, shape (classes, states, draws).
        star: the class, then the features.
        labels: classes, in the order in which they are listed; of two the second alone, the first is what it leaves.
        level: posterior probability of each interval, between 0 and 1.

    Returns:
        Rows of "feature", "state", both None for the class alone, "class", "mean", "lower", "upper" and "level".

    Raises:
        InputError: a level outside (0, 1).

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> ill, wet = dc.Variable("ill", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((ill, wet), {"ill": (), "wet": ("ill",)})
        >>> tables = {"ill": np.full((2, 9), 0.5), "wet": np.full((2, 2, 9), 0.5)}
        >>> row = class_rows(dc.Tables(network, tables, draws=9), ("ill", "wet"), ("no", "yes"), 0.5)[2]
        >>> row["feature"], row["state"], row["class"], float(row["mean"])
        ('wet', 'yes', 'yes', 0.5)
    """
    target, *features = star
    schema = cells.network.schema
    prior = np.asarray(cells[target])
    blocks: list[tuple[str | None, Sequence[str | None], Any]] = [(None, (None,), prior[:, None])]
    for feature in features:
        joint = np.maximum(prior[:, None] * cells[feature], LEAST_PROBABILITY)
        blocks.append((feature, schema[feature].states, joint / joint.sum(axis=0)))
    rows = []
    for name, states, shares in blocks:
        lower, upper = credible_interval(shares, level)
        for code, state in enumerate(states):
            for label in labels[1:] if len(labels) == 2 else labels:
                at = schema[target].code(label), code
                ends = {"lower": float(lower[at]), "upper": float(upper[at]), "level": level}
                rows.append({"feature": name, "state": state, "class": label, "mean": float(shares[at].mean()), **ends})
    return rows
