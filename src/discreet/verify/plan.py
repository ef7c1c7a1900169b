"""Plan of mechanisms: their expected errors, on simulated records, before any budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.display.renderers import TextTable
from discreet.errors import DiscreetError, InputError
from discreet.mechanisms import mechanisms_over
from discreet.mechanisms.crossing import Mechanism, simulate
from discreet.model.over import Over, Prior
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Guarantee
from discreet.util.progress import under_way
from discreet.util.randomness import Seed, as_generator
from discreet.util.tabular import Block, Result
from discreet.verify.made_up import SimulatedRecords, made_up_in

Floats = npt.NDArray[np.float64]

MOST_PLANNED_RECORDS = 100_000_000
"""Most records of a plan; each takes eight bytes for every node."""
SAMPLING_ALONE = "(no privacy)"
"""Name of the row of the sampling error, without any noise."""


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
    truth: Tables | Over,
    guarantee: Guarantee,
    records: int,
    *,
    rng: Seed = None,
    repeats: int = 5,
    mechanisms: Mapping[str, Mechanism] | None = None,
    prior: Prior | None = None,
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
        >>> coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
        >>> guess = dc.Tables(coin, {"coin": [0.4, 0.6]})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> alone, noisy = dc.plan(guess, promise, 1000, rng=0, mechanisms={"tables": dc.laplace()})
        >>> alone.mechanism, noisy.mechanism, 0 < noisy.cells < 0.1
        ('(no privacy)', 'tables', True)
    """
    rng = as_generator(rng)
    drawn = isinstance(truth, Tables) and truth.draws is not None
    if drawn or repeats < 1 or not 0 < records <= MOST_PLANNED_RECORDS:
        raise InputError(
            "a comparison needs one table for each node, at least one record and one repeat, and at most "
            f"{MOST_PLANNED_RECORDS:,} records: they are made up in memory"
        )
    over: Over = truth.network if isinstance(truth, Tables) else truth
    if mechanisms is None:
        fit = mechanisms_over(over.domain, over.predicts)
        mechanisms = {name: entry.example for name, entry in fit.items()}
    made_up = made_up_in(over.domain)
    believed = made_up.default_prior(over) if prior is None else prior
    return _compare(mechanisms, believed, guarantee, made_up.simulator(truth, believed, records, rng), repeats, rng)


def _compare(
    chosen: Mapping[str, Mechanism],
    believed: Prior,
    guarantee: Guarantee,
    made_up: Callable[[], SimulatedRecords],
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


def _choose_promise(mechanism: Mechanism, prior: Prior, guarantee: Guarantee) -> Guarantee:
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
