"""Peers as functions of arrays: DataSynthesizer (PrivBayes) and diffprivlib, each imported when it is first called.

What their epsilon means was read in their sources; neither names a neighbouring relation.

*DataSynthesizer 0.1.13*, correlated mode. The network: d - 1 choices by the exponential mechanism with half of epsilon,
scores with the sensitivity of mutual information when one of n records is replaced (n public). The tables: d - k of
them share the other half, with Laplace noise of scale (d - k) / (epsilon / 2) on counts, which pays for a record
added or removed; one that is replaced moves two cells and costs twice that (the paper's scale has that 2). Under
REPLACE it costs epsilon / 2 + epsilon, `PRIV_BAYES_COST` times what it is given. Its marginals, which its description
publishes for missing values and pays for with epsilon once more, are not used. A network cannot be given to it.

*diffprivlib 0.6.6*. `LinearRegression` without intercept, on symmetric bounds: sums of products, noise for each by the
range of what one record adds, so epsilon under REPLACE (with an intercept, the sensitivity of squares is computed from
the lower bound alone: `_construct_regression_obj`). `LogisticRegression`: objective perturbation of Chaudhuri et al.
(2011), epsilon under REPLACE if rows are at most 1 long (the curvature is taken for a quarter of the length, where it
is a quarter of its square) and if no intercept is asked for (it is not penalised, and the proof needs that).
`GaussianNB`: class counts sum to the exact n, so n is public; a third of epsilon is for counts, which move by 2 when a
record changes its class, a third for sums of features, a third for squares in two classes: under REPLACE
2/3 + 1/3 + 2/3, `NAIVE_BAYES_COST` times what it is given (bounds symmetric about 0).
"""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import mutual_info_score

import discreet as dc

from .private_pgm import importable

__all__ = [
    "NAIVE_BAYES_COST",
    "PRIV_BAYES_COST",
    "absent",
    "gaussian_naive_bayes",
    "learned_networks",
    "linear_weights",
    "logistic_weights",
    "mutual_information",
    "noisy_tables",
]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

PRIV_BAYES_COST = 1.5
NAIVE_BAYES_COST = 5 / 3
"""What an epsilon of 1 costs under REPLACE."""


@cache
def absent() -> dict[str, str]:
    """Peers that cannot be run here, by name, each with its version and the reason; mbi is looked for, not loaded."""
    found = {}
    for name, (load, needs) in NEEDED.items():
        try:
            load()
        except ModuleNotFoundError as error:
            found[name] = f"{name}: {error.msg}; {needs}"
        except ImportError as error:
            found[name] = f"{name} {version(name)}: {error.msg.split(' (')[0]}; {needs}"
    if not importable():
        found["mbi"] = "mbi: not installed; it is in the extra `bench`"
    return {**found, "dpmm": f"dpmm 0.1.9: {NO_DPMM}"}


# ------------------------------------------------------------------------------------------ DataSynthesizer


def _priv_bayes() -> Any:
    """Its module."""
    from DataSynthesizer.lib import PrivBayes

    return PrivBayes


def mutual_information(labels_x: pd.Series, labels_y: pd.DataFrame) -> float:
    """What its function of this name computes, from numbers instead of joined text, in a fiftieth of the time."""
    joint = labels_y.apply(lambda column: pd.factorize(column)[0])
    sizes = joint.max().to_numpy() + 1
    return float(mutual_info_score(labels_x, np.ravel_multi_index(joint.to_numpy().T, sizes)))


class _Serial:
    """In place of its pool: experiments have processes of their own."""

    def __enter__(self) -> _Serial:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def map(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> list[Any]:
        return [work(task) for task in tasks]


@contextlib.contextmanager
def _quietly(rng: np.random.Generator, informations: dict[Any, float] | None = None) -> Iterator[Any]:
    """Its module with its own randomness seeded, without its pool, what it prints, and what it computed before.

    Args:
        rng: seeds it.
        informations: mutual informations of the same records, by their columns' names.
    """
    module, known = _priv_bayes(), {} if informations is None else informations

    def remembered(labels_x: pd.Series, labels_y: pd.DataFrame) -> float:
        key = labels_x.name, tuple(labels_y.columns)
        if key not in known:
            known[key] = mutual_information(labels_x, labels_y)
        return known[key]

    before = module.Pool, module.mutual_information, np.random.get_state()  # noqa: NPY002 - it draws from there
    module.Pool, module.mutual_information = _Serial, remembered
    try:
        module.set_random_seed(int(rng.integers(2**31)))
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            # It passes pandas a keyword that is on its way out.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield module
    finally:
        module.Pool, module.mutual_information = before[:2]
        np.random.set_state(before[2])  # noqa: NPY002


def learned_networks(
    schema: Sequence[dc.Variable],
    codes: Mapping[str, Codes],
    degree: int,
    epsilons: Sequence[float],
    rng: np.random.Generator,
) -> list[dc.Network]:
    """Networks that DataSynthesizer learns.

    Args:
        schema: all variables.
        codes: positions of states, shape (records,) each.
        degree: most parents of a variable.
        epsilons: spent on each network, under REPLACE, n public.
        rng: seeds its own randomness.

    Returns:
        A network for each epsilon, its nodes in the order in which they were added.
    """
    records, named = pd.DataFrame(dict(codes)), {variable.name: variable for variable in schema}
    found, informations = [], dict[Any, float]()
    for epsilon in epsilons:
        with _quietly(rng, informations) as module:
            # Its own default seed would always be 0.
            edges = module.greedy_bayes(records, degree, epsilon, seed=int(rng.integers(2**31)))
        parents: dict[str, tuple[str, ...]] = {edges[0][1][0]: ()}
        parents |= {child: tuple(others) for child, others in edges}
        found.append(dc.Network(tuple(named[name] for name in parents), parents))
    return found


def noisy_tables(
    network: dc.Network, codes: Mapping[str, Codes], epsilon: float, rng: np.random.Generator
) -> dc.Tables:
    """The conditional probabilities that DataSynthesizer measures in a network of its own.

    Args:
        network: from `learned_networks`.
        codes: as there.
        epsilon: spent on the tables under ADD_REMOVE; under REPLACE twice that.
        rng: seeds its own randomness.

    Returns:
        Probabilities, axes `(*parents, child)`; rows of parents whose states no record has are uniform.
    """
    order = network.nodes
    edges = [(child, list(network.parents[child])) for child in order[1:]]
    with _quietly(rng) as module:
        found = module.construct_noisy_conditional_distributions(edges, pd.DataFrame(dict(codes)), epsilon)
    theta = {}
    for node in order:
        states = network.shape(node)[-1]
        table = np.full(network.shape(node), 1 / states)
        rows = {(): found[node]} if isinstance(found[node], list) else found[node]
        for key, row in rows.items():
            where = tuple(json.loads(key)) if key else ()
            table[where] = np.pad(row, (0, states - len(row)))
        theta[node] = table
    return dc.Tables(network, theta)


# ------------------------------------------------------------------------------------------ diffprivlib


def _models() -> Any:
    """Its estimators."""
    from diffprivlib import models

    return models


def linear_weights(features: Floats, target: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Weights of its `LinearRegression`, no intercept, features and target within [-1, 1]; shape (features,)."""
    model = _models().LinearRegression(
        epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False, random_state=_seed(rng)
    )
    return np.asarray(model.fit(features, target).coef_, np.float64)


def logistic_weights(points: Floats, labels: Floats, epsilon: float, norm: float, rng: np.random.Generator) -> Floats:
    """Weights of its `LogisticRegression` on points divided by their longest possible length.

    Args:
        points: shape (records, size), a constant among them: no other intercept is fitted.
        labels: 0 or 1.
        epsilon: REPLACE.
        norm: public bound of a point's length.
        rng: seeds its own randomness.

    Returns:
        Shape (size,), for the divided points; classes are told apart by the sign.
    """
    model = _models().LogisticRegression(
        epsilon=epsilon, data_norm=1.0, fit_intercept=False, max_iter=1000, random_state=_seed(rng)
    )
    return np.asarray(model.fit(points / norm, labels).coef_[0], np.float64)


def gaussian_naive_bayes(
    points: Floats, labels: Codes, tested: Floats, epsilon: float, rng: np.random.Generator
) -> Codes:
    """Classes that its `GaussianNB` predicts for tested points; features within [-1, 1]."""
    model = _models().GaussianNB(epsilon=epsilon, bounds=(-1, 1), random_state=_seed(rng))
    return np.asarray(model.fit(points, labels).predict(tested), np.int64)


def _seed(rng: np.random.Generator) -> int:
    """For a peer's own generator."""
    return int(rng.integers(2**31))


NEEDED: Mapping[str, tuple[Callable[[], Any], str]] = {
    "DataSynthesizer": (_priv_bayes, "it is in the extra `peers`"),
    "diffprivlib": (_models, "diffprivlib 0.6.6 runs with scikit-learn 1.7.2, this package's estimators need 1.9"),
}
"""How each is loaded, and what it needs."""
NO_DPMM = (
    "it pins numpy 1.26.4, pandas 2.1.0, scikit-learn 1.5.0, networkx before 3 and opendp 0.12.1, none of which this "
    "package runs with; put beside newer ones all the same, its noise fails in opendp 0.16 (AbsoluteDistance requires "
    "non-nan elements)"
)
