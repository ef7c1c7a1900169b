"""Naive Bayes from few records, as Zhang, Rubinstein and Dimitrakakis (AAAI 2016) set it up, and their mechanisms.

Sixteen binary variables and a binary class, 50 training records, Beta(1, 1) priors, the posterior predictive
distribution asked for the classes of 950 others. No law of the parameters is printed; here every feature's
probabilities are uniform on (0, 1) and P(class) is uniform on (0.3, 0.7).

As the paper does it: continuous Laplace noise on the tables of all 17 nodes, clipped to [0, n]; continuous Laplace
noise of its scale on the coefficients of the Fourier domain, with a shift, where only the runs without a negative cell
count; one draw from the trimmed posterior. How it chose the shift and the floors is not printed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.queries.synthetic import sample_codes
from discreet.research.readers.particles import truncated_beta
from discreet.research.scores.contrasts import coefficients, family_tables, stealth_shift
from discreet.research.scores.likelihood_sensitivity import floor_for, log_range, record_loss
from experiments.paper_lipschitz import attribute_loss

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

__all__ = [
    "FEATURES",
    "NETWORK",
    "PRIOR",
    "TRAINING",
    "Learning",
    "accuracy",
    "clipped_laplace",
    "costs",
    "floor_by_bound",
    "fourier_as_printed",
    "fourier_scale",
    "laplace_as_printed",
    "one_draw_of_counts",
    "posterior_mean",
    "printed_shift",
    "repeat",
    "sampler_by_bound",
    "sampler_for_features",
    "sampler_for_records",
    "shift_for",
]

FEATURES = tuple(f"x{number}" for number in range(1, 17))
NETWORK = dc.Network(
    tuple(dc.Variable(name, ("no", "yes")) for name in ("y", *FEATURES)), {"y": (), **dict.fromkeys(FEATURES, ("y",))}
)
PRIOR = dc.Dirichlet.uniform(NETWORK, 1.0)
TRAINING, TESTED = 50, 950
SUCCESS = 0.9
"""Share of the Fourier runs without a negative cell."""
SHIFT_SEED = 2016
"""Of the noise that the shift is measured on. There are no records in it and no accuracy is looked at: the shift is a
constant of the mechanism, as its scale is, and public; so both seed sets have the same."""


# ------------------------------------------------------------------------------------------ prediction


@dataclass(frozen=True, eq=False)
class Learning:
    """One repeat.

    Args:
        counts: of the training records.
        tested: states of the features, shape (16, records tested).
        classes: states of the class, shape (records tested,).
    """

    counts: dc.results.Counts
    tested: Codes
    classes: Codes


def repeat(rng: np.random.Generator) -> Learning:
    """Draw parameters, training records and others to be classified."""
    ones = rng.uniform(0.3, 0.7), rng.random((len(FEATURES), 2))
    tables = {"y": np.array([1 - ones[0], ones[0]])}
    tables |= {name: np.stack([1 - p, p], axis=-1) for name, p in zip(FEATURES, ones[1], strict=True)}
    codes = sample_codes(dc.Tables(NETWORK, tables), TRAINING + TESTED, rng)
    counts = dc.tools.count_codes(NETWORK, {name: column[:TRAINING] for name, column in codes.items()})
    return Learning(counts, np.stack([codes[name][TRAINING:] for name in FEATURES]), codes["y"][TRAINING:])


def accuracy(task: Learning, cells: dc.Tables) -> float:
    """Share of records whose class is the more probable one under the mean of `P(y, x)` over draws.

    Args:
        task: what to classify.
        cells: draws of the probabilities, shape `(*parents, child, draws)`; with independent rows their posterior means
            as a single draw give the posterior predictive exactly.

    Returns:
        Between 0 and 1; ties count as class "no".
    """
    features = _logs(np.stack([cells[name] for name in FEATURES]))
    # log P(y, x) is linear in the states x: as a product of matrices it is twenty times as fast as record by record.
    start = _logs(cells["y"]) + features[:, :, 0].sum(axis=0)
    scores = np.tensordot(task.tested.astype(np.float64), features[:, :, 1] - features[:, :, 0], axes=(0, 0)) + start
    joint = np.exp(scores - scores.max(axis=(1, 2), keepdims=True)).sum(axis=-1)
    return float(np.mean((joint[:, 1] > joint[:, 0]) == (task.classes == 1)))


def _logs(probabilities: Floats) -> Floats:
    """Logarithms, -708 for 0: far below what decides, and finite."""
    return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))


def posterior_mean(counts: Mapping[str, Floats]) -> dc.Tables:
    """Means of the Beta posteriors after counts, which are taken as they are; a single draw."""
    means = {name: (1 + table) / (1 + table).sum(axis=-1, keepdims=True) for name, table in counts.items()}
    return dc.Tables(NETWORK, {name: mean[..., None] for name, mean in means.items()}, draws=1)


# ------------------------------------------------------------------------------------------ noise on counts


def clipped_laplace(task: Learning, epsilon: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Algorithm 1: noise of scale `2 * 17 / epsilon` on every cell, then clipped to [0, n]."""
    scale = 2 * len(NETWORK.nodes) / epsilon
    return {
        name: np.clip(table + rng.laplace(scale=scale, size=table.shape), 0, TRAINING)
        for name, table in task.counts.tables.items()
    }


def laplace_as_printed(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Algorithm 1 and the posterior means. Guarantee: epsilon, REPLACE, in exact arithmetic."""
    return posterior_mean(clipped_laplace(task, epsilon, rng))


def one_draw_of_counts(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """Algorithm 1 and a single draw from the posterior, to be compared with the sampler. Guarantee: as there."""
    noisy = dc.Tables(NETWORK, clipped_laplace(task, epsilon, rng))
    return PRIOR.updated(noisy).draw(1, rng=rng)


# ------------------------------------------------------------------------------------------ the Fourier domain


def fourier_scale(epsilon: float) -> float:
    """Algorithm 2, un-normalised: twice the number of coefficients, over epsilon; records."""
    return 2 * len(NETWORK.downward_closure) / epsilon


def printed_shift(epsilon: float, t: float) -> float:
    """Algorithm 2, un-normalised: records added to the empty coefficient."""
    return 4 * t * len(NETWORK.downward_closure) ** 2 / epsilon


@cache
def shift_for(epsilon: float) -> int:
    """Records to add so that noise of the printed scale leaves no cell of an empty table below 0 in 90 % of runs."""
    rng = np.random.default_rng(SHIFT_SEED)
    return stealth_shift(NETWORK, fourier_scale(epsilon), SUCCESS, noisy_total=True, rng=rng)


def fourier_as_printed(
    task: Learning, epsilon: float, rng: np.random.Generator, *, t: float | None = None
) -> dc.Tables | None:
    """Algorithm 2 with the printed scale, noise on the public number of records included.

    Args:
        task: what is learned.
        epsilon: REPLACE, nats, in exact arithmetic.
        rng: source of the noise.
        t: of the printed shift `4 t |N_I|^2 / epsilon`; None for the smallest that succeeds in 90 % of runs.

    Returns:
        Posterior means, the shift left in as printed; None where a cell is negative: such runs are not plotted.
    """
    shift = shift_for(epsilon) if t is None else printed_shift(epsilon, t)
    noisy = {
        subset: array + rng.laplace(scale=fourier_scale(epsilon), size=array.shape)
        for subset, array in coefficients(task.counts.tables).items()
    }
    noisy[()] = noisy[()] + shift
    tables = family_tables(NETWORK, noisy)
    return None if min(table.min() for table in tables.values()) < 0 else posterior_mean(tables)


# ------------------------------------------------------------------------------------------ draws


def _trimmed(task: Learning, floor: float, rng: np.random.Generator) -> dc.Tables:
    """One draw of every row from its posterior on [floor, 1 - floor]."""
    tables = task.counts.tables
    no, yes = 1.0 + np.concatenate([table.reshape(-1, 2) for table in tables.values()]).T
    one = truncated_beta(yes, no, floor, 1 - floor, yes.size, rng)
    rows = np.split(np.stack([1 - one, one], axis=-1), np.cumsum([table.size // 2 for table in tables.values()])[:-1])
    draws = {name: row.reshape(*table.shape, 1) for (name, table), row in zip(tables.items(), rows, strict=True)}
    return dc.Tables(NETWORK, draws, draws=1)


def sampler_for_records(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """One trimmed draw; the log range of each of 17 nodes is `epsilon / 34`. Guarantee: epsilon, REPLACE."""
    return _trimmed(task, floor_for(2, epsilon / (2 * len(NETWORK.nodes))), rng)


def sampler_for_features(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """One trimmed draw; the log range of each node is `epsilon / 2`, which pays for one changed feature.

    NOT eps-DP: a change of the class, the parent of all features, costs 17 epsilon, as much as a whole record.
    """
    return _trimmed(task, floor_for(2, epsilon / 2), rng)


def floor_by_bound(epsilon: float) -> float | None:
    """The floor at which `2 ln(1 / w)` is epsilon; None where it would leave no probability but 1/2."""
    floor = math.exp(-epsilon / 2)
    return floor if floor < 0.5 else None


def sampler_by_bound(task: Learning, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """One trimmed draw; L is bounded by `ln(1 / w) = epsilon / 2`, as Lemma 24 does. NOT eps-DP.

    Below `2 ln 2` no such floor exists: only probabilities of 1/2 are left.
    """
    floor = floor_by_bound(epsilon)
    if floor is None:
        halves = {name: np.full((*table.shape, 1), 0.5) for name, table in task.counts.tables.items()}
        return dc.Tables(NETWORK, halves, draws=1)
    return _trimmed(task, floor, rng)


def costs(floor: float) -> tuple[float, float, float]:
    """What one draw with a floor for all probabilities costs, REPLACE.

    Args:
        floor: w.

    Returns:
        Epsilon, nats, for one changed feature, for a changed class, and for a replaced record.
    """
    floors = dict.fromkeys(NETWORK.nodes, floor)
    # No node changes at a higher price than the class.
    return 2 * log_range(2, floor), attribute_loss(NETWORK, floors), record_loss(NETWORK, floors, dc.Relation.REPLACE)
