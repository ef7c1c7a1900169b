"""Principal components under differential privacy, method beside method: `python -m bench.components [--quick]`.

Made-up sets have their covariance known: two spikes (standard deviations .3 and .2 beside .08) in 4, 10 and 20 random
dimensions, an autoregression (correlation .7 between neighbours, deviation .3), a mixture of exponentials, which is
skewed, and spikes far from the middle of the bounds (mean .5). All have 2,000 records in [-1, 1]. Iris, wine and breast
cancer come with scikit-learn; their bounds are 0 and the next of 1, 2 or 5 times a power of ten.

Each row: the sine of the largest principal angle to the non-private components, and the share of the variance that they
explain relative to those (of the records, in scaled coordinates), for one and for two components, averages over seeds.
`moments` is the estimate without a draw, `posterior` the axes of the posterior's mean covariance, `directions` the axis
of the factored choice's posterior (36 candidates; up to `WIDEST` features). `--coverage` prints coverage and width of
95 % intervals of the entries of the first two components where the truth is known. A package of others is one function
more in `METHODS`: from a sample and a guarantee to vectors in rows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import discreet as dc
from discreet.research.readers.components import component_draws, quick_components

Floats = npt.NDArray[np.float64]

RECORDS, LEVEL, DRAWS = 2000, 0.95, 400
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
WIDEST = 6
"""Features up to which directions are drawn: chains over more take half a minute each."""
LOADED = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
MADE_UP = ("spiked 4", "spiked 10", "spiked 20", "correlated 6", "skewed 6", "offset 4")


@dataclass(frozen=True, eq=False)
class Sample:
    """Records in [-1, 1], shape (n, k), and the covariance that they come from; None where nobody knows."""

    records: Floats
    truth: Floats | None


def sample(name: str, seed: int) -> Sample:
    """A set by name; those that are loaded are the same for every seed."""
    if name in LOADED:
        raw = LOADED[name]().data
        upper = np.array(
            [
                next(m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5) if m * 10.0**e >= top)
                for top in raw.max(axis=0)
            ]
        )
        return Sample(2 * raw / upper - 1, None)
    kind, size = name.split()[0], int(name.split()[1])
    rng = np.random.default_rng([seed, size, len(kind)])
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    deviations = np.array([0.3, 0.2, *[0.08] * (size - 2)])
    if kind == "correlated":
        covariance = 0.09 * 0.7 ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
        rows = rng.normal(size=(RECORDS, size)) @ np.linalg.cholesky(covariance).T
        return Sample(np.clip(rows, -1, 1), covariance)
    parts = rng.exponential(size=(RECORDS, size)) - 1 if kind == "skewed" else rng.normal(size=(RECORDS, size))
    if kind == "skewed":
        deviations = deviations / 2
    if kind == "offset":
        deviations = deviations / 2
    rows = parts * deviations @ axes.T + 0.5 * (kind == "offset")
    return Sample(np.clip(rows, -1, 1), (axes * deviations**2) @ axes.T)


def leading(covariance: Floats, number: int) -> Floats:
    """Eigenvectors in rows, the widest first."""
    return np.linalg.eigh(covariance)[1].T[::-1][:number]


def released(records: Floats, mechanism: str, guarantee: dc.Guarantee, seed: int) -> dc.Release:
    """A simulated release of moments or of a direction."""
    size, rng = records.shape[1], np.random.default_rng([seed, 7])
    features = tuple(dc.Variable(f"x{i}", bounds=(-1, 1)) for i in range(size))
    design = dc.designs.Design(features, None, None, intercept=mechanism == "moments")
    rows, prior = dc.designs.read_rows(design, records), dc.designs.Normal(design, 0.5)
    if mechanism == "moments":
        return dc.simulate(dc.designs.noisy_moments(), dc.designs.sum_moments(rows), prior, guarantee, rng=rng)
    factor = dc.research.DirectionFactor(
        dc.research.spread_candidates(size, 12, (0.1, 0.2, 0.4)), noise_variance=0.01, tau=4.0
    )
    return dc.simulate(dc.research.factored(factor), rows, prior, guarantee, rng=rng)


def by_moments(records: Floats, guarantee: dc.Guarantee, seed: int) -> Floats:
    """All axes, the estimate that is there at once."""
    return quick_components(released(records, "moments", guarantee, seed)).axes


def by_posterior(records: Floats, guarantee: dc.Guarantee, seed: int) -> Floats:
    """All axes of the posterior's mean."""
    release = released(records, "moments", guarantee, seed)
    found = component_draws(release, draws=DRAWS, rng=np.random.default_rng(seed))
    return leading(found.covariance.mean(axis=0), records.shape[1])


def by_directions(records: Floats, guarantee: dc.Guarantee, seed: int) -> Floats:
    """The first axis, by the choice among candidates; none where there are too many features."""
    if records.shape[1] > WIDEST:
        return np.empty((0, records.shape[1]))
    release = released(records, "directions", guarantee, seed)
    read = dc.estimators.PrivatePrincipalDirection.from_release(release, draws=100, random_state=seed)
    return read.components_


METHODS: dict[str, Callable[[Floats, dc.Guarantee, int], Floats]] = {
    "moments": by_moments,
    "posterior": by_posterior,
    "directions": by_directions,
}


def scores(found: Floats, records: Floats, number: int) -> tuple[float, float]:
    """Sine of the largest principal angle to the non-private components, and the share of their variance."""
    covariance = np.cov(records.T)
    best, found = leading(covariance, number), found[:number]
    if len(found) < number:
        return math.nan, math.nan
    least = float(np.linalg.svd(best @ found.T)[1].min())
    share = np.trace(found @ covariance @ found.T) / np.trace(best @ covariance @ best.T)
    return math.sqrt(max(1 - least**2, 0.0)), float(share)


def promise(epsilon: float, relation: str) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def row(name: str, epsilon: float, relation: str, seeds: Sequence[int]) -> str:
    """One line of a Markdown table."""
    columns = [name, f"{epsilon:g}"]
    samples = [sample(name, seed) for seed in seeds]
    for method in METHODS.values():
        axes = [method(s.records, promise(epsilon, relation), seed) for s, seed in zip(samples, seeds, strict=True)]
        for number in (1, 2):
            pairs = [scores(a, s.records, number) for a, s in zip(axes, samples, strict=True)]
            sine, share = np.mean(pairs, axis=0)
            columns.append("-" if math.isnan(sine) else f"{sine:.2f} / {100 * share:.0f}")
    return f"| {' | '.join(columns)} |"


def covered(name: str, epsilon: float, relation: str, seeds: Sequence[int]) -> str:
    """Coverage of the entries of two components, one line of a Markdown table."""
    found: list[list[float]] = []
    for seed in seeds:
        made = sample(name, seed)
        assert made.truth is not None
        release = released(made.records, "moments", promise(epsilon, relation), seed)
        truth = leading(made.truth, 2)
        drawn = component_draws(release, draws=1000, rng=np.random.default_rng(seed))
        low, high = np.quantile(drawn.components(2, truth), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        inside, width = (low <= truth) & (truth <= high), high - low
        wide = drawn.variances(1)[:, 0]
        ends = np.quantile(wide, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        top = np.linalg.eigvalsh(made.truth)[-1]
        found.append([*inside.mean(axis=1), *width.mean(axis=1), float(ends[0] <= top <= ends[1])])
    mean = np.mean(found, axis=0)
    error = 100 * np.std([one[0] for one in found]) / math.sqrt(len(found))
    columns = [name, relation, f"{epsilon:g}", f"{100 * mean[0]:.1f} +- {error:.1f}", f"{100 * mean[1]:.1f}"]
    return f"| {' | '.join([*columns, f'{mean[2]:.2f}', f'{mean[3]:.2f}', f'{100 * mean[4]:.0f}'])} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small set, two seeds, epsilon 1")
    parser.add_argument("--coverage", action="store_true", help="of intervals, in place of errors")
    parser.add_argument("--seeds", type=int, default=5, help="data sets for each row")
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--epsilon", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--sets", nargs="+", default=[*MADE_UP, *LOADED])
    parser.add_argument("--relations", nargs="+", default=["replace"])
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epsilon, options.sets = 2, [1.0], ["spiked 4"]
    seeds = range(options.first, options.first + options.seeds)
    head = ["set", "epsilon", *(f"{method}, {number}" for method in METHODS for number in (1, 2))]
    if options.coverage:
        head = [
            "set",
            "relation",
            "epsilon",
            "coverage, first",
            "second",
            "width, first",
            "second",
            "coverage of variance",
        ]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for name in options.sets:
        for relation in options.relations:
            for epsilon in options.epsilon:
                line = covered if options.coverage else row
                print(line(name, epsilon, relation, seeds), flush=True)


if __name__ == "__main__":
    main()
