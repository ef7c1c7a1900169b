"""What is compared with peers: queries of released tables, and estimators.

`peer_adapters` has what each peer's epsilon means; `peers` shows the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.exact_laws import Laws

from . import logistic_sets
from .chowdhury import frequencies
from .errors import Data, Truth, errors, simulated, single
from .harness import Task
from .networks import theta_of
from .noise_law import noise_row
from .peer_adapters import (
    NAIVE_BAYES_COST,
    PRIV_BAYES_COST,
    absent,
    gaussian_naive_bayes,
    learned_networks,
    linear_weights,
    logistic_weights,
    noisy_tables,
)
from .private_pgm import read_by_mbi
from .regressions import LINEAR, linear
from .shipped import NO_PAIRS, SHIPPED, planned

Floats = npt.NDArray[np.float64]

__all__ = [
    "CLAIMED",
    "DIFFPRIVLIB",
    "EPSILONS",
    "ESTIMATOR",
    "EXACT",
    "FITS",
    "ITS_NETWORK",
    "LAW",
    "ON_FAMILIES",
    "ON_OURS",
    "OURS",
    "SYNTHESIZER",
    "errors_of_tables",
    "query_errors",
]

EPSILONS = (0.1, 1.0, 10.0)
RECORDS = 10_000
OURS = (SHIPPED, NO_PAIRS)

ESTIMATOR, EXACT, LAW = "our estimator", "not private: no noise", "the law itself"
ON_OURS, ON_FAMILIES = "mbi, on the tables without pairs", "mbi, families, equal budgets"
SYNTHESIZER, CLAIMED = "DataSynthesizer", "DataSynthesizer, costs 1.5 epsilon"
ITS_NETWORK = "our tables on its network"
DIFFPRIVLIB = "diffprivlib"


# ------------------------------------------------------------------------------------------ tables


def query_errors(data: Data, theta: dc.Tables) -> dict[str, float]:
    """Mean sum of absolute errors of the marginal and of the conditional queries, for tables of any network.

    Args:
        data: whose queries are asked.
        theta: probabilities over the same variables, axes `(*parents, child)`.

    Returns:
        "marg" and "cond"; a query that the tables cannot answer, because its evidence is impossible, counts 1.
    """
    cells, found = single(theta), dict[str, list[float]]({"marg": [], "cond": []})
    for query, true in zip(data.queries, data.answers, strict=True):
        answer = np.nan_to_num(Laws(cells).joint([query.target], dict(query.evidence)))[:, 0]
        found["cond" if query.evidence else "marg"].append(float(np.abs(answer - true).sum()))
    return {kind: float(np.mean(values)) for kind, values in found.items()}


Found = tuple[str, float, dc.Tables, dict[str, object] | None]
"""Method, epsilon, tables, and of ours a row of its noise."""


def _under_add_remove(data: Data, task: Task) -> Iterator[Found]:
    """Ours and mbi's."""
    for epsilon in EPSILONS:
        releases = {}
        for label in OURS:
            releases[label] = made = simulated(planned(label), data.counts, epsilon, task.rng(f"{label} {epsilon}"))
            tables = dc.estimate(made, rng=task.rng(f"estimate {label} {epsilon}"))
            yield label, epsilon, tables, noise_row(made, data.counts)
        if "mbi" not in absent():
            yield ON_OURS, epsilon, read_by_mbi(releases[NO_PAIRS]), None
            yield ON_FAMILIES, epsilon, _by_families(data, epsilon, task.rng(f"families {epsilon}")), None


def _by_families(data: Data, epsilon: float, rng: np.random.Generator) -> dc.Tables:
    """What mbi makes of the noisy tables of all maximal families with equal budgets; ADD_REMOVE."""
    made = simulated(dc.laplace(), data.counts, epsilon, rng)
    return read_by_mbi(made)


def _under_replace(data: Data, task: Task) -> Iterator[Found]:
    """Ours and DataSynthesizer's."""
    over = data.truth.theta.network
    for epsilon, label in product(EPSILONS, OURS):
        made = simulated(planned(label), data.counts, epsilon, task.rng(f"{label} replace {epsilon}"), "replace")
        tables = dc.estimate(made, rng=task.rng(f"estimate {label} replace {epsilon}"))
        yield label, epsilon, tables, noise_row(made, data.counts)
    if "DataSynthesizer" in absent():
        return
    degree = max(len(parents) for parents in over.parents.values())
    said = [epsilon / cost for cost in (PRIV_BAYES_COST, 1.0) for epsilon in EPSILONS]
    halves = [epsilon / 2 for epsilon in said]
    learned = learned_networks(tuple(over.schema), data.codes, degree, halves, task.rng("its networks"))
    for place, (found, half) in enumerate(zip(learned, halves, strict=True)):
        fair, epsilon = place < len(EPSILONS), EPSILONS[place % len(EPSILONS)]
        yield (
            SYNTHESIZER if fair else CLAIMED,
            epsilon,
            noisy_tables(found, data.codes, half, task.rng(f"its tables {place}")),
            None,
        )
        if fair:
            left = epsilon - half
            made = simulated(
                planned(SHIPPED),
                dc.tools.count_codes(found, data.codes),
                left,
                task.rng(f"planned on its network {epsilon}"),
                "replace",
            )
            yield ITS_NETWORK, epsilon, dc.estimate(made, rng=task.rng(f"estimate on its network {epsilon}")), None


def errors_of_tables(task: Task) -> Iterator[dict[str, Any]]:
    """Rows of all methods on the records of one repeat.

    Args:
        task: its setting has the network's name as "task".

    Yields:
        Columns "relation", "method", "epsilon", "metric" and "value".
    """
    name = task.setting["task"]
    data = Data.drawn(Truth.of(theta_of(name), name), RECORDS, task.rng(f"records {name}"))
    exact = frequencies(data.truth.theta.network, data.counts.tables)
    for relation, methods in (("add-remove", _under_add_remove), ("replace", _under_replace)):
        for method, epsilon, theta, noise in [*methods(data, task), *((EXACT, e, exact, None) for e in EPSILONS)]:
            if noise is not None:
                yield {"relation": relation, "method": method, "epsilon": epsilon, **noise}
            found = query_errors(data, theta)
            if theta.network == data.truth.theta.network:
                found["wcpt"] = float(errors(data, single(theta))["wcpt"][0])
            for metric, value in found.items():
                yield {"relation": relation, "method": method, "epsilon": epsilon, "metric": metric, "value": value}


# ------------------------------------------------------------------------------------------ estimators


def _promise(epsilon: float) -> dc.Guarantee:
    """Pure, REPLACE."""
    return dc.Guarantee(epsilon=repr(epsilon), delta=0, relation="replace", unit="record")


def _linear(task: Task, epsilon: float) -> dict[str, float]:
    """Error of the weights of a linear regression with 20,000 records."""
    made_up = linear(20_000, task.rng("linear"))
    statistic = dc.designs.sum_moments(dc.designs.read_rows(LINEAR, made_up.features, made_up.target))
    rng = task.rng(f"linear {epsilon}")
    release = dc.simulate(
        dc.designs.noisy_moments(), statistic, dc.designs.Normal(LINEAR, 1.0), _promise(epsilon), rng=rng
    )
    found = {
        ESTIMATOR: dc.read(release, draws=400, rng=rng).mean(),
        DIFFPRIVLIB: linear_weights(made_up.features, made_up.target, epsilon, task.rng(f"theirs {epsilon}")),
        EXACT: np.linalg.lstsq(made_up.features, made_up.target, rcond=None)[0],
    }
    return {name: float(np.sqrt(np.mean((weights - made_up.weights) ** 2))) for name, weights in found.items()}


def _logistic(task: Task, epsilon: float) -> dict[str, float]:
    """Test error of a logistic regression."""
    drawn = logistic_sets.SETS[task.setting["task"]](task.rng("records"))
    rng = task.rng(f"logistic {epsilon}")
    made, _ = logistic_sets.released(drawn, epsilon, "auto", rng, relation="replace", deviation=2.5, posterior=False)
    assert isinstance(made.payload, dc.designs.GradientTrace)
    norm = float(np.sqrt(drawn.points.shape[1]))
    theirs = logistic_weights(drawn.points, drawn.labels, epsilon, norm, task.rng(f"theirs {epsilon}"))
    weights = {ESTIMATOR: made.payload.weights, DIFFPRIVLIB: theirs}
    return {name: float(logistic_sets.error(found[None], drawn)[0]) for name, found in weights.items()}


def _naive_bayes(task: Task, epsilon: float) -> dict[str, float]:
    """Test error of naive Bayes where features are normal in each class, which is diffprivlib's own model."""
    rng = task.rng("naive Bayes")
    middles, labels = 0.25 * rng.choice([-1, 1], 4), rng.integers(2, size=3000)
    points = np.clip(np.where(labels, 1, -1)[:, None] * middles + 0.35 * rng.normal(size=(3000, 4)), -1, 1)
    known, tested = slice(2000), slice(2000, None)
    bins = tuple(np.linspace(-1, 1, 7)[1:-1])
    features = tuple(dc.Variable(f"x{j}", bounds=(-1, 1), bins=bins) for j in range(4))
    over = dc.Network(
        (dc.Variable("class", ("0", "1")), *features),
        {"class": (), **dict.fromkeys(("x0", "x1", "x2", "x3"), ("class",))},
    )
    binned = {f"x{j}": np.searchsorted(bins, points[known, j], side="right") for j in range(4)}
    counts, rng = dc.tools.count_codes(over, {"class": labels[known], **binned}), task.rng(f"naive Bayes {epsilon}")
    # As `PrivateNaiveBayes` does it: the class is in every table, and two features are independent given it.
    made = dc.simulate(planned(NO_PAIRS), counts, dc.Dirichlet.uniform(over), _promise(epsilon), rng=rng)
    ours = dc.estimators.PrivateNaiveBayes.from_release(made, draws=200, random_state=rng)
    theirs = gaussian_naive_bayes(
        points[known], labels[known], points[tested], epsilon / NAIVE_BAYES_COST, task.rng(f"theirs {epsilon}")
    )
    said = {
        ESTIMATOR: ours.predict(points[tested]).astype(int),
        DIFFPRIVLIB: theirs,
        LAW: (points[tested] @ middles > 0).astype(int),
    }
    return {name: float(100 * np.mean(found != labels[tested])) for name, found in said.items()}


class Fit(Protocol):
    """From a task and epsilon to errors by method."""

    def __call__(self, task: Task, epsilon: float) -> dict[str, float]:
        """Errors on the records of the task."""


FITS: Mapping[str, Fit] = {
    "linear": _linear,
    "SYNTH": _logistic,
    "ADULT": _logistic,
    "naive Bayes": _naive_bayes,
}
