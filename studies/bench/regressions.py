"""Regressions read off a network's release: `python -m bench.regressions [--cases people,asia] [--runs 40]`.

Each run draws records from a law that the network holds for, releases them by `planned` with simulated noise under
add-remove, and reads all regressions of the case from that one release. Printed for each: how often 95 % intervals hold
the coefficients of the population, with the standard error over runs, and their mean width in units of deviations; and
the mean absolute error of slopes, in these units, beside those of the dedicated estimator at the same epsilon, of the
regression of the records themselves without noise, and of taking every slope for 0. The dedicated estimator spends all
of epsilon on that one regression, the network's release on all of its tables.

Pairs that no table holds are taken as the network has them; `--assume robust` lets them be off, which is what `regress`
does by itself.

Of `people`, whose numbers are known by bins, the truth is that of the numbers; "in bins" is how often intervals hold
what the population's exact shares of bins give.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

import discreet as dc
from discreet.inference.sampling import sample_codes
from discreet.queries.regress import logit_fits
from experiments.networks import theta_of

Floats = npt.NDArray[np.float64]
Data = Mapping[str, npt.NDArray[np.generic]]

LEVEL = 0.95
POPULATION = 1_000_000
"""Records that stand for the population where its coefficients have no formula."""


@dataclass(frozen=True)
class Asked:
    """A regression."""

    target: str
    on: tuple[str, ...]
    kind: str

    def __str__(self) -> str:
        """As the command line has it."""
        return f"{self.target} ~ {', '.join(self.on)} ({self.kind})"


@dataclass(frozen=True, eq=False)
class Case:
    """A network that holds, a way to draw records of it, and what is asked."""

    network: dc.Network
    draw: Callable[[int, np.random.Generator], Data]
    asked: tuple[Asked, ...]
    theta: dc.Tables | None = None
    known: dict[Asked, tuple[Floats, Floats]] = field(default_factory=dict)

    def codes(self, data: Data) -> dict[str, npt.NDArray[np.int64]]:
        """Of records: their bins, and states as they are."""
        return {
            variable.name: np.searchsorted(variable.bins, data[variable.name], side="right")
            if variable.numeric
            else np.asarray(data[variable.name], np.int64)
            for variable in self.network.schema
        }

    def columns(self, asked: Asked, data: Data) -> Floats:
        """Of a regression: numbers, and indicators of all states but the first."""
        parts = []
        for name in asked.on:
            variable = self.network.schema[name]
            found = data[name][:, None]
            parts.append(found if variable.numeric else found == np.arange(1, variable.size))
        return np.concatenate(parts, axis=1).astype(np.float64)

    @cached_property
    def population(self) -> Data:
        """Records that stand for it."""
        return self.draw(POPULATION, np.random.default_rng(99))

    def truth(self, asked: Asked) -> tuple[Floats, Floats]:
        """Coefficients of the population, and what its exact shares of bins give."""
        if asked not in self.known:
            theta = self.theta or _shares(self.network, self.codes(self.population))
            exact = dc.results.PosteriorDraws(dc.Tables(self.network, lambda node: theta[node][..., None], draws=1))
            in_bins = dc.regress(exact, asked.target, asked.on, kind=asked.kind).mean()  # type: ignore[arg-type]
            numbers = in_bins if self.theta is not None else fitted(self, asked, self.population)
            self.known[asked] = numbers, in_bins
        return self.known[asked]

    def units(self, asked: Asked) -> Floats:
        """By what slopes are multiplied: deviations of columns, and of a linear target its inverse."""
        columns, target = self.columns(asked, self.population), np.asarray(self.population[asked.target], np.float64)
        return np.asarray(columns.std(axis=0) / (target.std() if asked.kind == "linear" else 1.0))


def fitted(case: Case, asked: Asked, data: Data) -> Floats:
    """Coefficients of records, the intercept last."""
    columns, target = case.columns(asked, data), np.asarray(data[asked.target], np.float64)
    if asked.kind == "linear":
        z = np.column_stack([columns, np.ones(len(target))])
        return np.asarray(np.linalg.lstsq(z, target, rcond=None)[0])
    return logit_fits(columns[None], np.full((1, len(target)), 1 / len(target)), target[None] / len(target))[0]


def _shares(network: dc.Network, codes: Mapping[str, npt.NDArray[np.int64]]) -> dc.Tables:
    """Exact shares of records, a millionth of one added to each cell."""

    def rows(node: str) -> Floats:
        sizes = network.shape(node)
        flat = np.ravel_multi_index([codes[name] for name in network.family(node)], sizes)
        counts = np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes) + 1e-6
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    return dc.Tables(network, rows)


# ------------------------------------------------------------------------------------------------------- the cases


def of_network(name: str, *asked: Asked) -> Case:
    """A public network; records are drawn from its own probabilities."""
    theta = theta_of(name)

    def draw(n: int, rng: np.random.Generator) -> Data:
        return sample_codes(theta, n, rng)

    return Case(theta.network, draw, asked, theta)


def people() -> Case:
    """Numbers in bins, two and three states, a numeric target and one of two states."""
    variables = (
        dc.Variable("sex", ("f", "m")),
        dc.Variable("group", ("a", "b", "c")),
        dc.Variable.binned("age", (20, 80), 6),
        dc.Variable.binned("dose", (0, 10), 6),
        dc.Variable.binned("score", (0, 120), 10),
        dc.Variable("ill", ("no", "yes")),
    )
    parents = {
        "sex": (),
        "group": ("sex",),
        "age": (),
        "dose": ("age", "sex"),
        "score": ("age", "dose", "sex"),
        "ill": ("age", "dose", "group"),
    }

    def draw(n: int, rng: np.random.Generator) -> Data:
        sex = rng.integers(0, 2, n)
        group = np.minimum(rng.geometric(np.where(sex == 1, 0.6, 0.4)) - 1, 2)
        age = 20 + 60 * rng.beta(1.5, 2.0, n)
        middle = 0.25 + 0.4 * (age - 20) / 60 + 0.1 * sex
        dose = 10 * rng.beta(6 * middle, 6 * (1 - middle))
        score = (20 + 0.5 * age + 3 * dose - 4 * sex + 10 * rng.normal(size=n)).clip(0, 120)
        odds = -4 + 0.05 * age + 0.3 * dose + 0.5 * group
        ill = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        return {"sex": sex, "group": group, "age": age, "dose": dose, "score": score, "ill": ill}

    asked = (
        Asked("score", ("age", "dose", "sex"), "linear"),
        Asked("score", ("dose", "group"), "linear"),
        Asked("ill", ("age", "dose", "group"), "logistic"),
    )
    return Case(dc.Network(variables, parents), draw, asked)


CASES: Mapping[str, Callable[[], Case]] = {
    "people": people,
    "asia": lambda: of_network(
        "asia", Asked("dysp", ("smoke", "xray"), "linear"), Asked("dysp", ("smoke", "xray"), "logistic")
    ),
    "survey": lambda: of_network(
        "survey", Asked("O", ("A", "S", "R"), "linear"), Asked("R", ("A", "S"), "logistic")
    ),
    "child": lambda: of_network(
        "child", Asked("Sick", ("Disease", "Age"), "linear"), Asked("LVHreport", ("Disease", "ChestXray"), "logistic")
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the runs


def dedicated(case: Case, asked: Asked, data: Data, epsilon: str, account: dc.results.Account) -> Floats:
    """Slopes of the estimator that releases this regression alone."""
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    columns, target = case.columns(asked, data), np.asarray(data[asked.target])
    ends = [case.network.schema[name] for name in asked.on]
    bounds = [each.bounds or (0.0, 1.0) for each in ends for _ in range(1 if each.numeric else each.size - 1)]
    pair = (np.array([low for low, _ in bounds]), np.array([high for _, high in bounds]))
    own: dict[str, object] = {"bounds": pair, "guarantee": promise, "account": account}
    if asked.kind == "linear":
        between = case.network.schema[asked.target].bounds or (0.0, 1.0)
        made = dc.estimators.PrivateLinearRegression(target_bounds=between, **own).fit(columns, target)  # type: ignore[arg-type]
    else:
        made = dc.estimators.PrivateLogisticRegression(classes=(0, 1), records=len(target), **own).fit(columns, target)  # type: ignore[arg-type]
    return np.asarray(made.coef_).ravel()


@dataclass(frozen=True)
class Found:
    """Of one run and regression: shares covered, mean width, and errors of slopes in units of deviations."""

    covered: float
    in_bins: float
    width: float
    error: float
    dedicated: float
    records: float
    nothing: float


def run(
    case: Case, epsilon: str, seed: int, records: int, account: dc.results.Account, assume: str
) -> dict[Asked, Found]:
    """One data set, its release, and all regressions."""
    rng = np.random.default_rng([seed, round(1000 * float(epsilon))])
    data = case.draw(records, rng)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    prior = dc.Dirichlet.uniform(case.network)
    made = dc.simulate(dc.planned(), dc.tools.count_codes(case.network, case.codes(data)), prior, promise, rng=rng)
    posterior, found = dc.noise_aware(made, draws=200, rng=rng), {}
    for asked in case.asked:
        how = {"kind": asked.kind, "assume": assume}
        read = dc.regress(posterior, asked.target, asked.on, **how)  # type: ignore[arg-type]
        truth, in_bins = case.truth(asked)
        (low, high), units = read.interval(level=LEVEL), case.units(asked)

        def error(slopes: Floats, truth: Floats = truth, units: Floats = units) -> float:
            return float(np.abs((slopes - truth[:-1]) * units).mean())

        found[asked] = Found(
            float(((low <= truth) & (truth <= high)).mean()),
            float(((low <= in_bins) & (in_bins <= high)).mean()),
            float(((high - low)[:-1] * units).mean()),
            error(read.mean()[:-1]),
            error(dedicated(case, asked, data, epsilon, account)),
            error(fitted(case, asked, data)[:-1]),
            error(np.zeros(len(units))),
        )
    return found


HEAD = "case|regression|epsilon|coverage|in bins|width|error|dedicated|no noise|slopes 0"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--epsilon", nargs="+", default=["0.3", "1", "3"])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--assume", default="network")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args(arguments)
    print(f"| {HEAD.replace('|', ' | ')} |\n|{'---|' * len(HEAD.split('|'))}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        limit = dc.Guarantee(epsilon=1_000_000, delta=0, relation="add-remove", unit="record")
        account = dc.Ledger(f"sqlite:///{Path(folder) / 'bench.db'}").open("bench", limit)
        for name in options.cases.split(","):
            case = CASES[name]()
            for epsilon in options.epsilon:
                begun = time.process_time()
                seeds = range(options.first, options.first + options.runs)
                found = [run(case, epsilon, seed, options.records, account, options.assume) for seed in seeds]
                for asked in case.asked:
                    _print(name, asked, epsilon, [one[asked] for one in found])
                print(f"<!-- {(time.process_time() - begun) / options.runs:.1f} s of CPU a run -->", flush=True)


def _print(name: str, asked: Asked, epsilon: str, found: list[Found]) -> None:
    """A line of the table."""
    covered = 100 * np.array([one.covered for one in found])
    mean = {key: float(np.mean([getattr(one, key) for one in found])) for key in Found.__dataclass_fields__}
    error = covered.std() / len(found) ** 0.5
    numbers = [f"{mean[key]:.3f}" for key in ("width", "error", "dedicated", "records", "nothing")]
    shown = [f"{covered.mean():.1f} +- {error:.1f}", f"{100 * mean['in_bins']:.1f}", *numbers]
    print(f"| {name} | {asked} | {epsilon} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
