"""Plan of mechanisms: their expected errors, on simulated records, before any budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.display.renderers import TextTable
from discreet.errors import DiscreetError, InputError
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from discreet.mechanisms import mechanisms_over
from discreet.mechanisms.crossing import Mechanism, Statistic, simulate, statistic_of
from discreet.mechanisms.objective_perturbation import minimiser
from discreet.model.design import GRID_STEPS, Design, Normal
from discreet.model.dirichlet import Dirichlet
from discreet.model.number_grid import number_grids
from discreet.model.response import response_of
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.design.many_classes import centred
from discreet.posterior.plug_in import plug_in
from discreet.posterior.read import quick_estimate, read, readers_of
from discreet.privacy.guarantee import Guarantee
from discreet.queries.synthetic import simulate_records
from discreet.records.counts import Counts, count, count_codes
from discreet.records.gradients import sum_gradients
from discreet.records.records import read_records
from discreet.records.rows import Rows, read_rows
from discreet.releases.release import Release
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result

Floats = npt.NDArray[np.float64]

MOST_PLANNED_RECORDS = 100_000_000
"""Most records of a plan; each takes eight bytes for every node."""
SAMPLING_ALONE = "(no privacy)"
"""Name of the row of the sampling error, without any noise."""
PLAN_DRAWS = 200
"""Draws of a posterior whose mean is the answer of a plan."""
RESIDUAL_DEVIATION = 0.2
"""Standard deviation of a simulated target, or of features from their axis, in the design's coordinates."""
LEAST_CONVEXITY = 1e-3
"""Regularisation of simulated classes, which may be separable, and gradient length at their minimum."""


@dataclass(frozen=True)
class ExpectedError:
    """Error of one mechanism, averaged over simulated data sets.

    Args:
        mechanism: its name.
        guarantee: under which it was simulated; None for `SAMPLING_ALONE`.
        cells: mean absolute error of the conditional probabilities of all tables, averaged over tables; over a design
            of the weights, or of the coordinates of an axis.
        marginals: mean absolute error of the probabilities of single variables; over a design of predictions.
        errors: standard errors of the two.
        refused: why there are no numbers; None where there are.

    Raises:
        Nothing: `plan` makes it.

    Example:
        >>> import discreet as dc
        >>> alone = dc.results.ExpectedError("(no privacy)", None, cells=0.011, marginals=0.004, errors=(0.001, 0.001))
        >>> alone.refused is None
        True
    """

    mechanism: str
    guarantee: Guarantee | None
    cells: float
    marginals: float
    errors: tuple[float, float]
    refused: str | None = None

    @property
    def texts(self) -> tuple[str, str, str]:
        """The mechanism and its errors, or why there are none, for a table."""
        if self.refused is not None:
            return self.mechanism, self.refused, ""
        return self.mechanism, f"{self.cells:.4f}", f"{self.marginals:.4f}"


class ExpectedErrors(tuple[ExpectedError, ...], Result):
    """Errors of several mechanisms, in one table."""

    __slots__ = ()

    def tidy(self) -> list[dict[str, Any]]:
        """List a row for each mechanism: "mechanism", "cells", "marginals", None where "refused" says why."""
        fields = ("mechanism", "cells", "marginals", "refused")
        rows = [{name: getattr(part, name) for name in fields} for part in self]
        return [row | ({"cells": None, "marginals": None} if row["refused"] else {}) for row in rows]

    def content(self) -> Iterator[Block]:
        """Show all of them."""
        yield TextTable(("mechanism", "mean error of cells", "of marginals"), [part.texts for part in self])


def plan(
    truth: Tables | Design,
    guarantee: Guarantee,
    records: int,
    *,
    rng: Seed = None,
    repeats: int = 5,
    mechanisms: Mapping[str, Mechanism] | None = None,
    prior: Dirichlet | Normal | None = None,
) -> ExpectedErrors:
    """Simulate mechanisms on simulated records, and compare their releases with the true probabilities.

    Over a network noisy statistics are read by the noise-aware posterior's mean, released draws and choices as they
    are. Over a design features fill their bounds evenly, or their ball; a numeric target is linear in them with a
    residual of deviation 0.2, the log odds of a class are linear, features without a target lie along an axis; weights
    are random. Moments are read by their posterior's mean, gradients by the weights that they lead to. Mechanisms with
    no use for a delta are simulated without it, at the same epsilon.

    Args:
        truth: probabilities of the whole network, one table a node: public ones, or a guess; or a public design.
        guarantee: what a release would promise.
        records: number of records.
        rng: source of the records and the noise; everything here is made up.
        repeats: data sets, each with new noise.
        mechanisms: by name; None for all over a network, or a design, with options that stand for others. Those that do
            not fit are refused, with the reason.
        prior: of releases and posteriors; None for Dirichlet(1/4), or a deviation of 1.

    Returns:
        For every mechanism its error, the sampling error alone first; over a design in its coordinates.

    Raises:
        InputError: no repeats, fewer than one record or too many, or tables of draws.

    Guarantee:
        None spent, none given: no record is read.

    Example:
        >>> import discreet as dc
        >>> line = dc.Design((dc.Variable("x", bounds=(-1, 1)),), dc.Variable("y", bounds=(-1, 1)))
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> alone, noisy = dc.plan(line, promise, 1000, rng=0, mechanisms={"moments": dc.grouped_moments()})
        >>> alone.mechanism, noisy.mechanism, 0 < noisy.cells < 0.5  # errors of weights, which are numbers around 1
        ('(no privacy)', 'moments', True)
    """
    rng = as_generator(rng)
    drawn = isinstance(truth, Tables) and truth.draws is not None
    if drawn or repeats < 1 or not 0 < records <= MOST_PLANNED_RECORDS:
        raise InputError(
            "a comparison needs one table for each node, at least one record and one repeat, and at most "
            f"{MOST_PLANNED_RECORDS:,} records: they are made up in memory"
        )
    if mechanisms is None:
        fit = mechanisms_over("network") if isinstance(truth, Tables) else mechanisms_over("design", truth.predicts)
        mechanisms = {name: entry.example for name, entry in fit.items()}
    if isinstance(truth, Design):
        believed = Normal(truth, 1.0) if prior is None else prior
        return _compare(
            mechanisms, believed, guarantee, lambda: _simulate_for_design(truth, records, rng), repeats, rng
        )
    believed = Dirichlet.uniform(truth.network) if prior is None else prior
    marginals = _compute_marginals(truth)
    return _compare(
        mechanisms,
        believed,
        guarantee,
        lambda: _simulate_records(truth, marginals, believed, records, rng),
        repeats,
        rng,
    )


_SimulatedRecords = tuple[
    Callable[[Mechanism], Statistic],
    tuple[float, float],
    Callable[[Release], tuple[float, float]],
]
"""Simulated records: statistic by mechanism, errors without noise, and errors of a release."""


def _compare(
    chosen: Mapping[str, Mechanism],
    believed: Dirichlet | Normal,
    guarantee: Guarantee,
    made_up: Callable[[], _SimulatedRecords],
    repeats: int,
    rng: np.random.Generator,
) -> ExpectedErrors:
    """Measure the errors of all mechanisms, on the same data sets."""
    errors: dict[str, list[tuple[float, float]]] = {SAMPLING_ALONE: [], **{name: [] for name in chosen}}
    promised: dict[str, Guarantee] = {}
    refused: dict[str, str] = {}
    for name, mechanism in chosen.items():
        try:
            promised[name] = _choose_promise(mechanism, believed, guarantee)
        except InputError as error:
            refused[name] = str(error)
    with under_way("planning") as bar:
        for repeat in range(repeats):
            statistic, without_noise, read = made_up()
            errors[SAMPLING_ALONE].append(without_noise)
            for index, (name, promise) in enumerate(promised.items()):
                bar(repeat * len(promised) + index, repeats * len(promised))
                try:
                    release = simulate(chosen[name], statistic(chosen[name]), believed, promise, rng=rng)
                    errors[name].append(read(release))
                except DiscreetError as error:
                    refused[name] = str(error)
            promised = {name: promise for name, promise in promised.items() if name not in refused}
    return ExpectedErrors(
        _average(name, promised.get(name), [] if name in refused else pairs, refused.get(name))
        for name, pairs in errors.items()
    )


def _simulate_records(
    theta: Tables, truth: Mapping[str, Floats], believed: Any, records: int, rng: np.random.Generator
) -> _SimulatedRecords:
    """Simulate records from a network's probabilities."""

    def errors(release: Release) -> tuple[float, float]:
        reader = plug_in if any(reader.name == "particles" for reader in readers_of(release)) else read
        return _measure_errors(reader(release, draws=PLAN_DRAWS, rng=rng).mean(), theta, truth)

    count_made_up = make_up_records(theta, records, rng)
    counts = count_made_up(())

    def of(mechanism: Mechanism) -> Counts:
        scopes = tuple(mechanism.scopes(theta.network))
        return count_made_up(scopes) if scopes else counts

    return of, _measure_errors(believed.updated(counts.tables).mean(), theta, truth), errors


def make_up_records(
    theta: Tables, records: int, rng: np.random.Generator
) -> Callable[[Iterable[Scope] | None], Counts]:
    """Make up records, with numbers in their bins where a column has some.

    Args:
        theta: probabilities, without an axis of draws.
        records: their number.
        rng: source of randomness.

    Returns:
        Function that counts them over the families and the given sets of variables, as `count` takes these.
    """
    network = theta.network
    if number_grids(network):
        gaps = any(variable.missing is not None for variable in network.schema)
        table = simulate_records(theta, records, rng=rng)
        made_up = read_records(table, network.schema, missing="keep" if gaps else "error")
        return lambda scopes: count(made_up, network, scopes)
    codes = sample_codes(theta, records, rng)
    return lambda scopes: count_codes(network, codes, scopes)


def _simulate_for_design(design: Design, records: int, rng: np.random.Generator) -> _SimulatedRecords:
    """Simulate records from a design's random weights."""
    rows, truth = _simulate_rows(design, records, rng)

    def errors(release: Release) -> tuple[float, float]:
        return _measure_weight_errors(_read_weights(release, rng), truth, rows)

    return (
        lambda mechanism: statistic_of(mechanism, rows, design),
        _measure_weight_errors(_fit_without_noise(rows), truth, rows),
        errors,
    )


def _choose_promise(mechanism: Mechanism, prior: Dirichlet | Normal, guarantee: Guarantee) -> Guarantee:
    """Take the guarantee, without its delta if the mechanism does not use one."""
    try:
        mechanism.calibrate(prior.over, prior, guarantee)
        return guarantee
    except InputError:
        if not guarantee.delta:
            raise
    pure = Guarantee(epsilon=guarantee.epsilon, delta=0, relation=guarantee.relation, unit=guarantee.unit)
    mechanism.calibrate(prior.over, prior, pure)
    return pure


def _simulate_rows(design: Design, records: int, rng: np.random.Generator) -> tuple[Rows, Floats]:
    """Simulate records of a design; return them, and their weights or axis."""
    wide, target = len(design.features), design.target
    lower, upper = np.array([variable.bounds for variable in design.features], np.float64).T
    inside = rng.uniform(-1, 1, (records, wide))
    if target is None:
        axis = rng.normal(size=wide)
        inside = (rng.uniform(-1, 1, records)[:, None] * axis + RESIDUAL_DEVIATION * inside) / np.abs(axis).max()
    features = lower / 2 + upper / 2 + np.clip(inside, -1, 1) * (upper / 2 - lower / 2)
    for group in design.groups:
        # Each of the group's states, and none of them, is equally frequent.
        features[:, group] = np.eye(len(group) + 1)[rng.integers(len(group) + 1, size=records), 1:]
    if target is None:
        return read_rows(design, features), axis
    scaled = design.scaled(features)
    truth = rng.normal(size=design.size)
    if design.predicts != "number":
        return _simulate_targets(design, features, scaled, rng)
    truth *= 0.5 / np.abs(scaled * truth).sum(axis=1).max()
    return read_rows(
        design, features, design.predicted(scaled @ truth + RESIDUAL_DEVIATION * rng.normal(size=records))
    ), truth


def _simulate_targets(
    design: Design, features: Floats, scaled: Floats, rng: np.random.Generator
) -> tuple[Rows, Floats]:
    """Simulate classes or counts from random weights, which sum to 0 over several classes."""
    truth = centred(rng.normal(size=design.weights), design.outputs)
    means = _expect_targets(design, scaled, truth)
    assert design.target is not None
    if design.counted:
        assert design.target.bounds is not None
        return read_rows(design, features, rng.poisson(means[0] * design.target.bounds[1])), truth
    shares = np.concatenate([1 - means, means]) if design.outputs == 1 else means
    drawn = (rng.random(len(scaled)) > shares.cumsum(axis=0)[:-1]).sum(axis=0)
    return read_rows(design, features, np.array(design.target.states)[drawn]), truth


def _expect_targets(design: Design, scaled: Floats, weights: Floats) -> Floats:
    """Compute expected targets of records, shape (outputs, records), on [0, 1]."""
    return response_of(design).means(weights.reshape(design.outputs, -1) @ scaled.T)


def _fit_without_noise(rows: Rows) -> Floats:
    """Fit weights, or an axis, without privacy: least squares, most likely weights, leading eigenvector."""
    design = rows.design
    if design.predicts not in ("number", "nothing"):
        weights = minimiser(sum_gradients(rows), np.zeros(design.weights), LEAST_CONVEXITY, LEAST_CONVEXITY)
        return centred(weights, design.outputs)
    v = rows.coordinates / GRID_STEPS
    if design.target is None:
        return np.asarray(np.linalg.eigh(v.T @ v)[1][:, -1])
    return np.asarray(np.linalg.lstsq(v, rows.target / GRID_STEPS, rcond=None)[0])


def _read_weights(release: Release, rng: np.random.Generator) -> Floats:
    """Read one set of weights, or an axis, off a release."""
    reader = readers_of(release)[0].name
    if reader == "components":
        raise InputError("moments without a target predict nothing; their noise is in the calibration")
    if reader in ("gradients", "direction"):
        return quick_estimate(release)
    return np.asarray(read(release, draws=PLAN_DRAWS, rng=rng).mean())


def _measure_weight_errors(estimate: Floats, truth: Floats, rows: Rows) -> tuple[float, float]:
    """Measure mean absolute errors of weights, and of predictions; of an axis those of unit vectors."""
    v, target = rows.coordinates / GRID_STEPS, rows.design.target
    if target is None:
        estimate, truth = (axis / np.linalg.norm(axis) for axis in (estimate, truth))
        estimate = estimate * np.sign(estimate @ truth)
        return float(np.abs(estimate - truth).mean()), float("nan")
    if rows.design.predicts == "number":
        before, after = v @ truth, v @ estimate
    else:
        before, after = (_expect_targets(rows.design, v, weights) for weights in (truth, estimate))
    return float(np.abs(estimate - truth).mean()), float(np.abs(after - before).mean())


def _compute_marginals(theta: Tables) -> dict[str, Floats]:
    """Compute probabilities of single variables; none if exact inference is out of reach."""
    single = Tables(theta.network, {node: table[..., None] for node, table in theta.items()}, draws=1)
    try:
        return Laws(single).marginals()
    except InputError:
        return {}


def _measure_errors(estimate: Tables, theta: Tables, truth: Mapping[str, Floats]) -> tuple[float, float]:
    """Measure mean absolute errors of table entries and of marginals."""
    cells = float(np.mean([np.abs(estimate[node] - theta[node]).mean() for node in theta]))
    marginals = _compute_marginals(estimate) if truth else {}
    gaps = [np.abs(marginals[node] - truth[node]).mean() for node in marginals]
    return cells, float(np.mean(gaps)) if gaps else float("nan")


def _average(
    name: str, guarantee: Guarantee | None, errors: list[tuple[float, float]], refused: str | None
) -> ExpectedError:
    """Average errors over data sets, with standard errors."""
    if not errors:
        nothing = float("nan")
        return ExpectedError(name, guarantee, nothing, nothing, (nothing, nothing), refused)
    table = np.array(errors)
    spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.full(2, np.nan)
    cells, marginals = table.mean(axis=0)
    return ExpectedError(name, guarantee, float(cells), float(marginals), (float(spread[0]), float(spread[1])), refused)
