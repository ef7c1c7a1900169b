"""How far released probabilities are from the truth, for many runs at once.

Each error is 0 for the truth (divergences up to their mixing). Five are compared by `bench.utility`:

- cpt: mean over nodes of the mean over rows of `sum_x |released - true|`;
- wcpt: the same with rows weighted by the true `P(parents)`;
- kl: `KL(true joint || released joint)` in nats, the released rows mixed with 1e-4 of the uniform;
- marg, cond: mean `sum_x |released - true|` over fixed marginal and conditional queries.

Chowdhury, Rekatsinas and Jha (ICML 2020) print L1 and KL, the released law first, of tables and of queries; the true
law is mixed with 1e-4 of the uniform, because it has zeros:

- whole: cpt with the sum over rows in place of their mean;
- cpt-kl, marg-kl, cond-kl: as cpt, marg and cond with `sum_x released ln(released / true)`, nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import rel_entr

import discreet as dc
from discreet.inference.exact_laws import Laws, joint_cost
from discreet.planning.pair_budget import all_pairs
from discreet.queries.synthetic import sample_codes

from .tables_alone import alone

__all__ = ["METRICS", "PRINTED", "Data", "Query", "Truth", "errors", "simulated", "single", "stacked"]

Floats = npt.NDArray[np.float64]

METRICS = ("cpt", "wcpt", "kl", "marg", "cond")
PRINTED = ("whole", "cpt-kl", "marg-kl", "cond-kl")
"""Of the paper, besides cpt, marg and cond."""
MIXED = 1e-4
"""Share of the uniform in the second law of a divergence, the same for every method."""
QUERIES = 10
"""Marginal queries, and as many conditional ones."""
LEAST_EVIDENCE = 0.02
"""Conditional queries are about evidence that is at least so probable."""
MOST_CELLS = 1_000_000
"""Queries that need more for each draw are passed over: they are asked of D-Ind on its whole grid."""


@dataclass(frozen=True)
class Query:
    """`P(target | evidence)`; evidence holds codes of states and is empty for a marginal."""

    target: str
    evidence: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Truth:
    """A network whose probabilities are known, with what the errors need of it.

    Args:
        theta: probabilities, axes `(*parents, child)`.
        rows: true `P(parents)` by node, shape `(*parents,)`.
        name: for printing.
    """

    theta: dc.Tables
    rows: dict[str, Floats]
    name: str

    @staticmethod
    def of(theta: dc.Tables, name: str) -> Truth:
        """Work out the probabilities of all parent rows."""
        cells, network = single(theta), theta.network
        rows = {
            node: Laws(cells).joint(network.parents[node])[..., 0] if network.parents[node] else np.ones(())
            for node in network.nodes
        }
        return Truth(theta, rows, name)


@dataclass(frozen=True, eq=False)
class Data:
    """Made-up records of one seed, and the queries that are asked of all releases of them.

    Args:
        truth: what the records were drawn from.
        codes: for every node positions of states, shape (records,).
        counts: of the records.
        queries: marginal ones first.
        answers: true ones, shape (states,) each.
    """

    truth: Truth
    codes: dict[str, npt.NDArray[np.int64]]
    counts: dc.results.Counts
    queries: tuple[Query, ...]
    answers: tuple[Floats, ...]

    @staticmethod
    def drawn(truth: Truth, records: int, rng: np.random.Generator) -> Data:
        """Draw records and queries; they depend on nothing but the network, the number of records and the generator."""
        codes = sample_codes(truth.theta, records, rng)
        queries = _queries(truth, rng)
        answers = tuple(_answer(single(truth.theta), query)[:, 0] for query in queries)
        network = truth.theta.network
        scopes = (*alone(network), *all_pairs(network))
        return Data(truth, codes, dc.tools.count_codes(network, codes, scopes), queries, answers)


def simulated(
    mechanism: dc.tools.Mechanism,
    counts: dc.results.Counts,
    epsilon: float,
    rng: np.random.Generator,
    relation: str = "add-remove",
) -> dc.Release:
    """A simulated release at delta 0 under the uniform prior.

    Args:
        mechanism: over a network.
        counts: of the records; they say which network.
        epsilon: of the promise, nats.
        rng: of the noise.
        relation: of the promise.
    """
    promise = dc.Guarantee(epsilon=repr(epsilon), delta=0, relation=relation, unit="record")
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(counts.network), promise, rng=rng)


def single(theta: dc.Tables) -> dc.Tables:
    """The same tables with an axis of one draw."""
    return dc.Tables(theta.network, {node: table[..., None] for node, table in theta.items()}, draws=1)


def stacked(runs: Sequence[dc.Tables]) -> dc.Tables:
    """Tables of several runs as one, with a last axis of runs."""
    network = runs[0].network
    cells = {node: np.stack([run[node] for run in runs], axis=-1) for node in network.nodes}
    return dc.Tables(network, cells, draws=len(runs))


def errors(data: Data, released: dc.Tables) -> dict[str, Floats]:
    """All errors of released probabilities.

    Args:
        data: whose truth and queries are used.
        released: probabilities, shape `(*parents, child, runs)`.

    Returns:
        By name of the error, in `METRICS` and `PRINTED`, shape (runs,).
    """
    truth, runs, nodes = data.truth, released.draws or 1, len(data.truth.theta)
    found = {name: np.zeros(runs) for name in (*METRICS, *PRINTED)}
    for node, table in truth.theta.items():
        true = table.reshape(-1, table.shape[-1], 1)
        rows = released[node].reshape(*true.shape[:2], runs)
        weights = truth.rows[node].reshape(-1, 1)
        distances = np.abs(rows - true).sum(axis=1)
        found["cpt"] += distances.mean(axis=0) / nodes
        found["whole"] += distances.sum(axis=0) / nodes
        found["wcpt"] += (weights * distances).sum(axis=0) / nodes
        found["kl"] += (weights[:, None] * rel_entr(true, _mixed(rows, 1))).sum(axis=(0, 1))
        found["cpt-kl"] += rel_entr(rows, _mixed(true, 1)).sum(axis=1).mean(axis=0) / nodes
    for place, (query, true) in enumerate(zip(data.queries, data.answers, strict=True)):
        answer, kind = _answer(released, query), "marg" if place < QUERIES else "cond"
        found[kind] += np.abs(answer - true[:, None]).sum(axis=0) / QUERIES
        # What holds the evidence impossible says nothing, and must not gain by it.
        said = np.where(answer.sum(axis=0) > 0, answer, 1 / len(answer))
        found[f"{kind}-kl"] += rel_entr(said, _mixed(true[:, None], 0)).sum(axis=0) / QUERIES
    return found


def _mixed(laws: Floats, axis: int) -> Floats:
    """Laws along an axis, mixed with a little of the uniform."""
    return np.asarray((1 - MIXED) * laws + MIXED / laws.shape[axis])


def _answer(cells: dc.Tables, query: Query) -> Floats:
    """Shape (states, runs); all 0 where a release holds the evidence impossible, so the error is 1."""
    found = Laws(cells).joint([query.target], dict(query.evidence))
    return np.nan_to_num(found, nan=0.0)


def _queries(truth: Truth, rng: np.random.Generator) -> tuple[Query, ...]:
    """Marginals of nodes in random order, then targets with one or two observed states of drawn records.

    Roots have marginals of one family, so there is always one to ask for.
    """
    network, nodes = truth.theta.network, truth.theta.network.nodes
    cheap = [node for node in rng.permutation(nodes).tolist() if joint_cost(network, [node], {}) <= MOST_CELLS]
    marginal = [Query(str(node)) for node in np.resize(cheap, QUERIES)]
    codes, cells = sample_codes(truth.theta, 2000, rng), single(truth.theta)
    conditional: list[Query] = []
    while len(conditional) < QUERIES:
        record, observed = int(rng.integers(2000)), int(rng.integers(1, 3))
        target, *given = (str(name) for name in rng.permutation(nodes)[: observed + 1])
        evidence = {name: int(codes[name][record]) for name in given}
        if joint_cost(network, [target], evidence) > MOST_CELLS:
            continue
        if np.exp(Laws(cells).log_probability(evidence)[0]) >= LEAST_EVIDENCE:
            conditional.append(Query(target, tuple(evidence.items())))
    return (*marginal, *conditional)
