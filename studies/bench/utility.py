"""Error and budget ratio of releases against D-Ind, on made-up records of known networks.

`python -m bench.utility --networks asia alarm FOLDER --epsilon 0.1 1` draws records, releases them with simulated noise
by every method, and prints how far the released probabilities are from the truth. `experiments.errors` has the five
errors.

`default` is `dc.planned()`, which spends a fifth of epsilon on pairs that no table holds, read by `dc.estimate()`, and
`default-mean` and `default-median` are other readers of it. What is called `planned` or `alone` is without pairs,
`dc.planned(pairs_share=0)`, told the number of records but for `planned-whole`: what whoever trusts the network can
have.

Budget ratio: the epsilon at which D-Ind has the same error, over the method's. The stronger of D-Ind's two forms (with
and without mutual consistency) counts, for each network, error and epsilon; log-log interpolation on 20 epsilons from
0.03 to 200, with `<` and `>` in front where the error is outside the grid. `fl`: the error is within 10 % of that of
the exact counts (+1, normalised), where a ratio means nothing. D-Ind has the relation of the others.

Standard errors are over all runs (data seeds times noise seeds); those of ratios by leaving out one run at a time, of
the method and of D-Ind together. `--compare-mbi` runs private-pgm on the same noisy tables, beside us.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.posterior.pooled.least_squares import Margins, coordinates_of_fit, fit_nonnegative, least_squares
from discreet.posterior.pooled.measured import read_tables
from discreet.records.count_sensitivity import cells_moved
from experiments.budget import budget_ratio, left_out, spread
from experiments.chowdhury import FORMS, both_forms, plus_one
from experiments.d_ind import as_runs
from experiments.errors import METRICS, Data, Truth, errors, single, stacked
from experiments.networks import theta_of
from experiments.pages import markdown
from experiments.private_pgm import read_by_mbi
from experiments.shipped import NO_PAIRS, SHIPPED, planned
from experiments.tables_alone import tables_alone

from .baselines import GRID, algorithm_1, on_grid

__all__ = ["METHODS", "Cell", "Method", "Reference", "main", "report", "study"]

Floats = npt.NDArray[np.float64]

DRAWS = 500
"""Of a posterior whose mean is taken: they add 0.1 % to the standard deviation of the estimate."""
NEAR_FLOOR = 1.1
"""Errors up to so many times those of the exact counts are `fl`."""


# ------------------------------------------------------------------------------------------ methods


@dataclass(frozen=True)
class Method:
    """Two steps, timed apart; methods with the same first step read the same noise.

    Args:
        measure: data, epsilon and relation to something noisy.
        read: that to probabilities, axes `(*parents, child)`.
    """

    measure: Callable[[Data, str, dc.Relation, np.random.Generator], Any]
    read: Callable[[Any, np.random.Generator], dc.Tables]


def _released(
    mechanism: Callable[[int], Any], *, delta: str = "0"
) -> Callable[[Data, str, dc.Relation, np.random.Generator], dc.Release]:
    """The first step of a mechanism of the package, made for a number of records."""

    def measure(data: Data, epsilon: str, relation: dc.Relation, rng: np.random.Generator) -> dc.Release:
        guarantee = dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")
        prior = dc.Dirichlet.uniform(data.truth.theta.network)
        return dc.simulate(mechanism(data.counts.records), data.counts, prior, guarantee, rng=rng)

    return measure


def _clipped(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Counts below 0 count as 0; +1; normalised."""
    return plus_one(release.network, {node: release.payload.table(node) for node in release.network.nodes})


def _noise_aware(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Means of the calibrated posterior."""
    return dc.noise_aware(release, draws=DRAWS, rng=rng).mean()


def _median(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Rows with the least expected absolute error."""
    return dc.estimate(release, rng=rng, loss="absolute")


def _estimate(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """The fast estimate."""
    return dc.estimate(release, rng=rng)


def _fitted(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
    """Least squares with no cell below 0, +1, normalised: no prior for rows."""
    noisy = read_tables(release.network, release.payload.measurements)
    plain = least_squares(noisy, release.records)
    fit = fit_nonnegative(noisy, max(plain.total[0], 1.0))
    tables = Margins(release.network, coordinates_of_fit(noisy, fit), plain.variances)
    return plus_one(
        release.network, {node: tables.table(release.network.family(node)) for node in release.network.nodes}
    )


def _mbi(steps: int) -> Callable[[dc.Release, np.random.Generator], dc.Tables]:
    """Private-pgm's mirror descent on the tables of a planned release."""

    def read(release: dc.Release, rng: np.random.Generator) -> dc.Tables:
        return read_by_mbi(release, steps=steps)

    return read


def _d_ind(form: str) -> Callable[[Data, str, dc.Relation, np.random.Generator], dc.Tables]:
    """One run of a form of D-Ind."""

    def measure(data: Data, epsilon: str, relation: dc.Relation, rng: np.random.Generator) -> dc.Tables:
        network = data.truth.theta.network
        counts = as_runs(data.counts.tables)
        found = both_forms(network, counts, float(epsilon) / cells_moved(relation), 1, rng)[form]
        return dc.Tables(network, {node: table[..., 0] for node, table in found.items()})

    return measure


def _algorithm_1(data: Data, epsilon: str, relation: dc.Relation, rng: np.random.Generator) -> dc.Tables:
    """One run of the scheme whose baseline D-Ind is."""
    return algorithm_1(data, float(epsilon), relation, rng)


def _as_is(theta: dc.Tables, rng: np.random.Generator) -> dc.Tables:
    """For methods whose first step has the probabilities already."""
    return theta


# A mechanism is made anew for each release, but methods that share noise must share the function.
_LAPLACE = _released(lambda _: dc.laplace())
_DEFAULT = _released(lambda _: planned(SHIPPED))
_PLANNED = _released(lambda records: planned(NO_PAIRS, records=records))
_WHOLE = _released(lambda _: planned(NO_PAIRS))
_ALONE = _released(lambda _: tables_alone())
_GAUSSIAN = _released(lambda records: planned(NO_PAIRS, records=records), delta="1e-6")

METHODS: Mapping[str, Method] = {
    **{name: Method(_d_ind(form), _as_is) for name, form in zip(("dind", "dindc"), FORMS, strict=True)},
    "icml": Method(_algorithm_1, _as_is),
    "laplace": Method(_LAPLACE, _clipped),
    "noise-aware": Method(_LAPLACE, _noise_aware),
    "default": Method(_DEFAULT, _estimate),
    "default-mean": Method(_DEFAULT, _noise_aware),
    "default-median": Method(_DEFAULT, _median),
    "planned-clipped": Method(_PLANNED, _clipped),
    "planned-fitted": Method(_PLANNED, _fitted),
    "planned": Method(_PLANNED, _estimate),
    "planned-mean": Method(_PLANNED, _noise_aware),
    "planned-median": Method(_PLANNED, _median),
    "planned-delta": Method(_GAUSSIAN, _estimate),
    "planned-whole": Method(_WHOLE, _estimate),
    "alone": Method(_ALONE, _estimate),
    "alone-median": Method(_ALONE, _median),
    "alone-fitted": Method(_ALONE, _fitted),
}
MBI: Mapping[str, Method] = {
    "mbi-1000": Method(_PLANNED, _mbi(1000)),
    "mbi-3000": Method(_PLANNED, _mbi(3000)),
    "mbi-laplace": Method(_LAPLACE, _mbi(1000)),
}
"""By steps of mirror descent, its own number or enough on the small networks; and on the noise of `laplace`."""


# ------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True, eq=False)
class Reference:
    """What a network's errors are compared with.

    Args:
        d_ind: by form and error, shape (epsilons of the grid, runs).
        floor: errors of the exact counts, means over the data seeds.
    """

    d_ind: Mapping[str, Mapping[str, Floats]]
    floor: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Cell:
    """One method at one epsilon on one network.

    Args:
        network, method, epsilon: which.
        errors: by name, shape (runs,).
        ratios: budget ratios by name, shape (1 + runs,): of all runs, then without each of them.
        signs: by name, "" or "<" or ">" where the error is outside the grid, "fl" near the floor.
        seconds: CPU seconds of reading each run's noisy tables, all threads; the first has compilation in it.
    """

    network: str
    method: str
    epsilon: str
    errors: Mapping[str, Floats]
    ratios: Mapping[str, Floats]
    signs: Mapping[str, str]
    seconds: Floats


def study(
    truth: Truth,
    methods: Mapping[str, Method],
    epsilons: Sequence[str],
    relation: dc.Relation,
    records: int,
    data_seeds: Sequence[int],
    noise_seeds: Sequence[int],
) -> tuple[Reference, list[Cell]]:
    """All methods at all epsilons on one network.

    Args:
        truth: the network.
        methods: by name.
        epsilons: as text, so that they are exact.
        relation: of all methods and of D-Ind.
        records: drawn for each data seed.
        data_seeds, noise_seeds: one run for each pair.

    Returns:
        The reference and the cells.
    """
    known = [Data.drawn(truth, records, np.random.default_rng([7, seed])) for seed in data_seeds]
    grids = [
        on_grid(data, relation, len(noise_seeds), np.random.default_rng([11, seed, *noise_seeds]))
        for data, seed in zip(known, data_seeds, strict=True)
    ]
    exact = [errors(data, single(plus_one(truth.theta.network, data.counts.tables))) for data in known]
    reference = Reference(
        {form: {one: np.concatenate([grid[form][one] for grid in grids], axis=1) for one in METRICS} for form in FORMS},
        {metric: float(np.mean([found[metric] for found in exact])) for metric in METRICS},
    )
    cells = []
    for place, epsilon in enumerate(epsilons):
        found: dict[str, list[dict[str, Floats]]] = {name: [] for name in methods}
        seconds: dict[str, list[float]] = {name: [] for name in methods}
        for data, seed in zip(known, data_seeds, strict=True):
            theta: dict[str, list[dc.Tables]] = {name: [] for name in methods}
            for noise in noise_seeds:
                noisy: dict[object, Any] = {}
                for name, method in methods.items():
                    if method.measure not in noisy:
                        rng = np.random.default_rng([13, seed, noise, place])
                        noisy[method.measure] = method.measure(data, epsilon, relation, rng)
                    start = time.process_time()
                    read = method.read(noisy[method.measure], np.random.default_rng([17, seed, noise, place]))
                    theta[name].append(dc.Tables(read.network, dict(read)))
                    seconds[name].append(time.process_time() - start)
            for name, runs in theta.items():
                found[name].append(errors(data, stacked(runs)))
        for name, parts in found.items():
            error = {metric: np.concatenate([part[metric] for part in parts]) for metric in METRICS}
            cells.append(_cell(reference, truth.name, name, epsilon, error, np.array(seconds[name])))
    return reference, cells


def _cell(
    reference: Reference, network: str, method: str, epsilon: str, error: Mapping[str, Floats], seconds: Floats
) -> Cell:
    """Errors with their ratios."""
    ratio, signs = {}, {}
    for metric in METRICS:
        curves = [reference.d_ind[form][metric] for form in FORMS]
        ratio[metric], signs[metric] = budget_ratio(curves, GRID, error[metric], float(epsilon))
        if error[metric].mean() <= NEAR_FLOOR * reference.floor[metric]:
            signs[metric] = "fl"
    return Cell(network, method, epsilon, error, ratio, signs, seconds)


# ------------------------------------------------------------------------------------------ printing


def report(references: Mapping[str, Reference], cells: Sequence[Cell]) -> str:
    """Two tables for each method, budget ratios and errors, and the geometric means of all methods.

    Args:
        references: by network.
        cells: of any methods and networks.

    Returns:
        Markdown.
    """
    names = list(dict.fromkeys(cell.method for cell in cells))
    parts = ["## Budget ratios, geometric means (least to greatest)\n"]
    rows = [
        [name, *(_geometric([c for c in cells if c.method == name], metric) for metric in METRICS)] for name in names
    ]
    parts.append(markdown(["method", *METRICS], rows))
    for name in names:
        own = [cell for cell in cells if cell.method == name]
        rows = [[c.network, c.epsilon, *(_ratio(c, metric) for metric in METRICS)] for c in own]
        parts.append(f"## {name}: budget ratio ± standard error\n")
        parts.append(markdown(["network", "epsilon", *METRICS], rows))
        rows = [[c.network, c.epsilon, *(_error(c.errors[m]) for m in METRICS), _seconds(c.seconds)] for c in own]
        parts.append(f"## {name}: error ± standard error\n")
        parts.append(markdown(["network", "epsilon", *METRICS, "CPU s, first / median"], rows))
    parts.append("## Exact counts, +1, normalised: error\n")
    rows = [[name, *(f"{found.floor[metric]:.4f}" for metric in METRICS)] for name, found in references.items()]
    parts.append(markdown(["network", *METRICS], rows))
    return "\n".join(parts)


def compared(cells: Sequence[Cell], ours: Sequence[str]) -> str:
    """Errors of private-pgm over ours from the same noisy tables, and CPU seconds, as Markdown."""
    by_name = {(cell.network, cell.epsilon, cell.method): cell for cell in cells}
    rows = []
    for (network, epsilon, name), peer in by_name.items():
        for own in ours if name in MBI else ():
            mine = by_name[network, epsilon, own]
            factors = []
            for metric in METRICS:
                factor = np.log(left_out(peer.errors[metric])) - np.log(left_out(mine.errors[metric]))
                factors.append(f"{np.exp(factor[0]):.3f} ± {np.exp(factor[0]) * spread(factor):.3f}")
            rows.append([network, epsilon, f"{name} / {own}", *factors, _seconds(peer.seconds), _seconds(mine.seconds)])
    header = ["network", "epsilon", "error of / error of", *METRICS, "CPU s, first / median", "ours"]
    return "## The same noisy tables read by private-pgm\n\n" + markdown(header, rows)


def _ratio(cell: Cell, metric: str) -> str:
    """A budget ratio as text."""
    found, sign = cell.ratios[metric], cell.signs[metric]
    return sign if sign == "fl" else f"{sign}{found[0]:.2f} ± {found[0] * spread(np.log(found)):.2f}"


def _geometric(cells: Sequence[Cell], metric: str) -> str:
    """Geometric mean of the ratios off the floor, its standard error, and the range."""
    logs = [np.log(cell.ratios[metric]) for cell in cells if cell.signs[metric] != "fl"]
    if not logs:
        return "fl"
    mean = np.mean(logs, axis=0)
    least, most = (np.exp(end(log[0] for log in logs)) for end in (min, max))
    return f"{np.exp(mean[0]):.2f} ± {np.exp(mean[0]) * spread(mean):.2f} ({least:.1f} to {most:.1f})"


def _error(values: Floats) -> str:
    """An error as text."""
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():.4f} ± {error:.4f}"


def _seconds(values: Floats) -> str:
    """CPU seconds as text."""
    return f"{values[0]:.2f} / {np.median(values):.2f}"


def document(given: Mapping[str, object], references: Mapping[str, Reference], cells: Sequence[Cell]) -> dict[str, Any]:
    """Everything measured, for a JSON file: errors of every run, ratios with standard errors, D-Ind on its grid."""
    return {
        "given": dict(given),
        "grid": list(GRID),
        "references": {
            name: {
                "floor": dict(found.floor),
                "d_ind": {
                    form: {metric: values.tolist() for metric, values in by_metric.items()}
                    for form, by_metric in found.d_ind.items()
                },
            }
            for name, found in references.items()
        },
        "cells": [
            {
                "network": cell.network,
                "method": cell.method,
                "epsilon": cell.epsilon,
                "seconds": cell.seconds.tolist(),
                "errors": {metric: values.tolist() for metric, values in cell.errors.items()},
                "ratios": {
                    metric: {
                        "ratio": float(values[0]),
                        "standard_error": float(values[0] * spread(np.log(values))),
                        "sign": cell.signs[metric],
                    }
                    for metric, values in cell.ratios.items()
                },
            }
            for cell in cells
        ],
    }


# ------------------------------------------------------------------------------------------ the command


def networks_in(names: Iterable[str]) -> dict[str, Path | None]:
    """Names of networks, and for those in a folder their files."""
    found: dict[str, Path | None] = {}
    for name in names:
        if Path(name).is_dir():
            files = [path for path in sorted(Path(name).iterdir()) if path.name.endswith((".bif", ".bif.gz"))]
            found |= {path.name.removesuffix(".gz").removesuffix(".bif"): path for path in files}
        else:
            found[name] = None
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=["asia", "sachs", "child", "alarm"], metavar="FOLDER_OR_NAME")
    parser.add_argument("--epsilon", nargs="+", default=["0.1", "0.3", "1", "3"])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--relation", default="add-remove", choices=[one.value for one in dc.tools.RECORD_RELATIONS])
    parser.add_argument("--data-seeds", type=int, default=2, help="how many")
    parser.add_argument("--noise-seeds", type=int, default=10, help="how many for each data seed")
    parser.add_argument("--first-seed", type=int, default=0, help="the first data seed")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=[*METHODS, *MBI])
    parser.add_argument("--compare-mbi", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    ours = [name for name in given.methods if name in METHODS and METHODS[name].measure is _PLANNED]
    known = {**METHODS, **MBI}
    methods = {name: known[name] for name in dict.fromkeys([*given.methods, *(MBI if given.compare_mbi else ())])}
    references, cells = dict[str, Reference](), list[Cell]()
    for name, path in networks_in(given.networks).items():
        truth = Truth.of(dc.Tables.read(path) if path else theta_of(name), name)
        seeds = range(given.first_seed, given.first_seed + given.data_seeds)
        relation = dc.Relation(given.relation)
        references[name], found = study(
            truth, methods, given.epsilon, relation, given.records, seeds, range(given.noise_seeds)
        )
        cells += found
    print(report(references, cells))
    if given.compare_mbi:
        print(compared(cells, ours))
    if given.json:
        options = {key: str(value) if isinstance(value, Path) else value for key, value in vars(given).items()}
        given.json.write_text(json.dumps(document(options, references, cells)) + "\n")


if __name__ == "__main__":
    main()
