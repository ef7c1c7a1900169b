"""What Table 1 of Zhang, Rubinstein and Dimitrakakis (AAAI 2016) claims, as printed, and what is measured against it.

Here are the printed formulas and the simulations and integrals that they are compared with, in parts: each yields rows
with a case, what the part is a function of (`x`), a metric and its value. Bounds that hold are those of
`discreet.research`, exact losses of the printed sampler and MAP mechanism those of `printed`. All variables have two
states, and all priors are Beta(1, 1) where nothing else is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import betaln, gammaincc, xlogy
from scipy.stats import beta as beta_law

import discreet as dc
from discreet.research.bounds import largest_noise, map_failure, untrimmed_distance
from discreet.research.scores.likelihood_sensitivity import log_range
from experiments.corrected_bounds import dirichlet_kl, posterior_divergence_limit, table_map

from .harness import Task
from .printed import COIN, map_as_printed, sampler_loss
from .trimmed_laws import BetaBinomial
from .zhang_naive_bayes import NETWORK, TRAINING, repeat

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

__all__ = [
    "BAYES",
    "BIT",
    "COMPLETE",
    "DRAWS",
    "EMPTY",
    "EPSILONS",
    "FAILURE",
    "FLOORS",
    "LARGE",
    "NINE",
    "PARTS",
    "RECORDS",
    "SHIFTS",
    "SUMMARIES",
    "UNTRIMMED",
    "VERTEX",
    "allowance_of_theorem_1",
    "fourier_noise",
    "joint_failure",
    "laplace_divergences",
    "laplace_scale",
    "map_miss",
    "mean_of_theorem_1",
    "needed_shift",
    "rows_of",
    "summary_of_theorem_1",
    "table_errors",
]


EPSILONS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
DRAWS = 2000
"""Of the noise in each repeat."""
FAILURE = 0.01
"""delta of Theorem 1."""
BIT, BAYES, EMPTY = "one bit, 500 of 1,000", "naive Bayes, 50 records", "one bit, no records of 50"
LARGE = "one bit, 50,000 of 100,000"
SUMMARIES: Mapping[str, tuple[int, tuple[float, ...]]] = {BIT: (1000, (1e-6, 1e-8)), LARGE: (100_000, (1e-10,))}
"""Records, half of them ones, and epsilons so small that all that is left of the counts is 0 or n, for the summary."""
VERTEX = {"20 of 50": (20, 50, 0.5), "500 of 1,000": (500, 1000, 1.0), "0 of 200": (0, 200, 0.2)}
"""Ones, records and epsilon of a bit, on which our bound is tried at a failure of 0.05."""
SHIFTS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
"""t of Corollary 3."""
NINE, COMPLETE = "joint table of 9 bits", "complete graph of 5"
UNTRIMMED = "untrimmed, prior Beta(10, 10)"
RECORDS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
FLOORS = (0.1, 0.01)


# ------------------------------------------------------------------------------------------ row 1: Laplace


def laplace_scale(network: dc.Network, epsilon: float) -> float:
    """Algorithm 1: noise on every cell of every family table, REPLACE; records."""
    return 2 * len(network.nodes) / epsilon


def rows_of(tables: Mapping[str, Integers]) -> Integers:
    """All rows of all tables, shape (rows, 2)."""
    return np.concatenate([table.reshape(-1, 2) for table in tables.values()])


def laplace_divergences(rows: Integers, scale: float, most: int, draws: int, rng: np.random.Generator) -> Floats:
    """The loss of Algorithm 1: sum over rows of KL of the exact posterior from that of noisy counts.

    Args:
        rows: counts, shape (rows, 2).
        scale: of the continuous noise, records.
        most: n, at which noisy counts are cut.
        draws: of the noise.
        rng: its source.

    Returns:
        Shape (draws,), nats.
    """
    noisy = np.clip(rows + rng.laplace(scale=scale, size=(draws, *rows.shape)), 0, most)
    return np.asarray(dirichlet_kl(np.broadcast_to(1.0 + rows, noisy.shape), 1 + noisy).sum(axis=-1))


def allowance_of_theorem_1(rows: int, most: int, failure: float) -> float:
    """What the loss exceeds its mean by, as printed: `sqrt(-1/2 sum c ln delta)`, c = (2 n + 1) ln((n + 2)^2). FALSE.

    Args:
        rows: number of pairs (i, j).
        most: n.
        failure: delta.

    Returns:
        Nats. The brackets of c are unbalanced in print; the product is the larger of its two readings.
    """
    return math.sqrt(-rows * (2 * most + 1) * math.log((most + 2) ** 2) * math.log(failure) / 2)


def mean_of_theorem_1(rows: Integers, scale: float, most: int) -> tuple[float, float | None]:
    """Bounds on the mean loss as printed, both FALSE in general.

    Args:
        rows: counts, shape (rows, 2).
        scale: b of the noise.
        most: n.

    Returns:
        (`sum of n ln((1 + zeros)(1 + ones))`, and, where n >= b, `ln((n + 2)^2) n / 2 exp(-n / b)` for each row); nats.
    """
    plain = most * float(np.log1p(rows).sum())
    refined = len(rows) * math.log((most + 2) ** 2) * most / 2 * math.exp(-most / scale)
    return plain, refined if most >= scale else None


def summary_of_theorem_1(rows: int, most: int, scale: float, failure: float) -> tuple[float, float]:
    """`m n ln n [1 - exp(-n / b)] + sqrt(-m n ln n ln delta)`, as printed but for O(): its constants are 1. FALSE.

    Args:
        rows: m.
        most: n.
        scale: b of the noise; n / b is printed as `n epsilon / (2 |I|)`.
        failure: delta.

    Returns:
        Both terms, nats: the first bounds the mean loss, the second what is added with probability 1 - delta.
    """
    size = rows * most * math.log(most)
    return -size * math.expm1(-most / scale), math.sqrt(-size * math.log(failure))


# ------------------------------------------------------------------------------------------ row 2: Fourier


def fourier_noise(
    network: dc.Network, scale: float, shift: float, draws: int, rng: np.random.Generator
) -> list[Floats]:
    """Continuous noise of the printed mechanism in the tables of the maximal families, shift included.

    Args:
        network: of binary variables.
        scale: of the noise on every un-normalised coefficient, the empty one too; records.
        shift: added to the empty one.
        draws: of all the noise.
        rng: its source.

    Returns:
        For each family, shape (draws, cells); what an empty table would be released as.
    """
    noise = {subset: rng.laplace(scale=scale, size=draws) for subset in network.downward_closure}
    noise[()] = noise[()] + shift
    tables = []
    for node in network.maximal_families:
        matrix, subsets = table_map(network, node)
        tables.append(np.column_stack([noise[subset] for subset in subsets]) @ matrix.T)
    return tables


def table_errors(noise: list[Floats]) -> Floats:
    """L1 errors of the tables, shape (draws, families)."""
    return np.stack([np.abs(table).sum(axis=1) for table in noise], axis=1)


def needed_shift(noise: list[Floats]) -> Floats:
    """What the empty coefficient has to grow by so that no cell of an empty table is negative, shape (draws,)."""
    return np.asarray(np.max([-table.min(axis=1) * table.shape[1] for table in noise], axis=0))


def joint_failure(coefficients: int, t: float) -> float:
    """Chance of a negative cell in the empty joint table of the coefficients 0, e_1, ..., shifted as printed.

    In units of the scale the least cell is `2 t |N| + Laplace - Gamma(|N| - 1)`.
    """
    start = 2 * t * coefficients

    def density(x: float) -> float:
        return math.exp(-abs(x)) / 2 * float(gammaincc(coefficients - 1, max(0.0, start + x)))

    return float(quad(density, -60, 60, points=[-start, 0], limit=200)[0])


# ------------------------------------------------------------------------------------------ row 4: MAP


def map_miss(epsilon: float, t: float, floor: float, ones: int, records: int) -> tuple[float, float, float]:
    """How often Algorithm 3 misses the maximum of the posterior density of a trimmed coin by 2 t.

    Args:
        epsilon: of the printed mechanism, Delta = sqrt(L) with L = ln(1 / w), the bound and not the exact range.
        t: in units of the density.
        floor: w.
        ones, records: of the data.

    Returns:
        (the printed bound `exp(-epsilon t) / xi(S_t)`, xi(S_t), the truth).
    """
    theta, law = np.linspace(floor, 1 - floor, 40_001), beta_law(1 + ones, 1 + records - ones)
    score = law.pdf(theta) / (law.cdf(1 - floor) - law.cdf(floor))
    mass = float(np.mean(score > score.max() - t))
    weights = np.exp(epsilon * (score - score.max()) / (2 * math.sqrt(math.log(1 / floor))))
    return math.exp(-epsilon * t) / mass, mass, float(weights[score <= score.max() - 2 * t].sum() / weights.sum())


# ------------------------------------------------------------------------------------------ the parts


def _row(case: str, x: float, metric: str, value: float) -> dict[str, Any]:
    """One number; `x` is what the part is a function of."""
    return {"case": case, "x": x, "metric": metric, "value": value}


def _divergence(task: Task) -> Iterator[dict[str, Any]]:
    """Loss of Algorithm 1 against Theorem 1 and our vertex bound, by epsilon."""
    learning = repeat(task.rng("records"))
    cases = {
        BIT: (COIN, {"a": np.array([500, 500])}, 1000),
        EMPTY: (COIN, {"a": np.array([0, 0])}, TRAINING),
        BAYES: (NETWORK, dict(learning.counts.tables.items()), TRAINING),
    }
    for case, (network, tables, most) in cases.items():
        rows, prior = rows_of(tables), dc.Dirichlet.uniform(network, 1.0)
        for epsilon in EPSILONS:
            scale = laplace_scale(network, epsilon)
            losses = laplace_divergences(rows, scale, most, DRAWS, task.rng(f"{case} {epsilon}"))
            noise = dict.fromkeys(network.nodes, largest_noise(rows.size, scale, FAILURE))
            limit = posterior_divergence_limit(prior, dc.Tables(network, tables), noise, most)
            allowance = allowance_of_theorem_1(len(rows), most, FAILURE)
            plain, refined = mean_of_theorem_1(rows, scale, most)
            yield _row(case, epsilon, "mean loss", float(losses.mean()))
            yield _row(case, epsilon, "loss quantile", float(np.quantile(losses, 1 - FAILURE)))
            yield _row(case, epsilon, "beyond printed allowance", float(np.mean(losses >= losses.mean() + allowance)))
            yield _row(case, epsilon, "printed mean", plain)
            yield _row(case, epsilon, "printed bound", plain + allowance)
            yield _row(case, epsilon, "our bound", limit)
            if refined is not None:
                yield _row(case, epsilon, "printed refined mean", refined)
    for case, (most, epsilons) in SUMMARIES.items():
        for epsilon in epsilons:
            scale, rows = laplace_scale(COIN, epsilon), np.array([[most // 2, most // 2]])
            losses = laplace_divergences(rows, scale, most, DRAWS, task.rng(f"{case} {epsilon}"))
            mean, tail = summary_of_theorem_1(1, most, scale, FAILURE)
            yield _row(case, epsilon, "mean loss", float(losses.mean()))
            yield _row(case, epsilon, "loss quantile", float(np.quantile(losses, 1 - FAILURE)))
            yield _row(case, epsilon, "printed summary of the mean", mean)
            yield _row(case, epsilon, "printed summary", mean + tail)


def _vertices(task: Task) -> Iterator[dict[str, Any]]:
    """How often our bound is exceeded, and the second-order mean."""
    for case, (ones, records, epsilon) in VERTEX.items():
        rows, scale = np.array([[records - ones, ones]]), laplace_scale(COIN, epsilon)
        limit = posterior_divergence_limit(
            dc.Dirichlet.uniform(COIN, 1.0),
            dc.Tables(COIN, {"a": rows[0]}),
            {"a": largest_noise(2, scale, 0.05)},
            records,
        )
        losses = laplace_divergences(rows, scale, records, 5000, task.rng(case))
        yield _row(case, epsilon, "beyond our bound", float(np.mean(losses > limit * (1 + 1e-12))))
    theta = np.array([0.2, 0.3, 0.5])
    noisy = 1000 * theta + task.rng("second order").laplace(scale=math.sqrt(12.5), size=(20_000, 3))
    noisy /= noisy.sum(axis=1, keepdims=True)
    yield _row(
        "row of 1,000", 25.0, "mean KL of probabilities", float((theta * np.log(theta / noisy)).sum(axis=1).mean())
    )


def _fourier(task: Task) -> Iterator[dict[str, Any]]:
    """Errors of tables, and how often a cell is negative; epsilon 1."""
    graph = _complete(5)
    closure = len(NETWORK.downward_closure)
    for t in (0.0, 1.0):
        noise = fourier_noise(NETWORK, 2.0 * closure, 4 * t * closure**2, DRAWS, task.rng(f"tables {t}"))
        errors = table_errors(noise)
        yield _row("worst table", t, "L1 error quantile", float(np.quantile(errors.max(axis=1), 0.9)))
        yield _row("one table", t, "L1 error quantile", float(np.quantile(errors, 0.9)))
    cells = task.rng("cells").laplace(scale=laplace_scale(NETWORK, 1.0), size=(DRAWS, 66))
    yield _row(
        "one table of noisy counts", 0.0, "L1 error quantile", float(np.quantile(np.abs(cells[:, :4]).sum(1), 0.9))
    )
    yield _row("66 cells", 1.0, "largest noise quantile", float(np.quantile(np.abs(cells).max(axis=1), 0.9)))
    for case, network in ((BAYES, NETWORK), (COMPLETE, graph)):
        size = len(network.downward_closure)
        needed = needed_shift(fourier_noise(network, 2.0 * size, 0.0, DRAWS, task.rng(f"shift {case}")))
        for t in SHIFTS:
            yield _row(case, t, "negative", float(np.mean(needed > 4 * t * size**2)))


def _exact(task: Task) -> Iterator[dict[str, Any]]:
    """Integrals: nothing here is random."""
    for t in SHIFTS:
        yield _row(NINE, t, "negative", joint_failure(10, t))
    for n in RECORDS:
        replaced = ((n, 0), (n - 1, 1))
        yield _row("one bit replaced", n, "loss of sampler", sampler_loss(0.1, [replaced]))
        added = max(sampler_loss(0.1, [((n, 0), more)]) for more in ((n + 1, 0), (n, 1)))
        yield _row("one bit added", n, "loss of sampler", added)
        yield _row("record of 5 bits replaced", n, "loss of sampler", sampler_loss(0.1, [replaced] * 5))
        for floor in FLOORS:
            temper = 1 / (2 * log_range(2, floor))
            tempered = ((temper * n, 0.0), (temper * (n - 1), temper))
            yield _row(
                f"w = {floor}", n, "loss of MAP", map_as_printed(floor, 1.0, log_range(2, floor)).loss(*replaced)
            )
            yield _row(f"w = {floor}", n, "loss of corrected MAP", sampler_loss(floor, [tempered]))
    for epsilon, t in ((5.0, 1.0), (20.0, 0.5)):
        printed, mass, missed = map_miss(epsilon, t, 0.01, 10, 50)
        case = f"epsilon {epsilon:g}"
        yield _row(case, t, "printed chance to miss", printed)
        yield _row(case, t, "missed", missed)
        yield _row(case, t, "our chance to miss", map_failure(epsilon, math.sqrt(math.log(100)), t, mass))
    yield from _untrimmed(10.0, 50)


def _untrimmed(a: float, records: int) -> Iterator[dict[str, Any]]:
    """An untrimmed coin with prior Beta(a, a): the printed delta from its own constants, and the exact one."""
    ones = np.arange(records + 1)
    largest = xlogy(ones, ones / records) + xlogy(records - ones, 1 - ones / records)
    marginal = betaln(a + ones, a + records - ones) - betaln(a, a)
    ratio = math.exp(float((largest - marginal).max()))
    # P(|logit| <= L) >= 1 - exp(-c L) for this c: the ratio of both sides is least where L is near 0.
    rate = 2 ** (1 - 2 * a) / math.exp(betaln(a, a))
    yield _row(UNTRIMMED, records, "printed delta", untrimmed_distance(ratio, 0.0, rate))
    yield _row(UNTRIMMED, records, "exact delta", BetaBinomial(a, a, 0).replace_delta(records, 0.0))


def _complete(nodes: int) -> dc.Network:
    """Every node has all earlier ones as parents."""
    names = tuple("abcdefgh"[:nodes])
    states = tuple(dc.Variable(name, ("no", "yes")) for name in names)
    return dc.Network(states, {name: names[:place] for place, name in enumerate(names)})


PARTS: Mapping[str, Callable[[Task], Iterator[dict[str, Any]]]] = {
    "divergence": _divergence,
    "vertices": _vertices,
    "Fourier": _fourier,
    "exact": _exact,
}
