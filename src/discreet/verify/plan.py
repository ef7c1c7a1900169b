"""The plan: how far off each mechanism's answers will be, simulated on made-up records before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import DiscreetError, InputError
from discreet.inference import elimination
from discreet.mechanisms import MECHANISMS
from discreet.mechanisms.crossing import Mechanism, simulate
from discreet.model.dirichlet import Dirichlet
from discreet.model.tables import Tables
from discreet.posterior.noise_aware import noise_aware
from discreet.posterior.plug_in import plug_in
from discreet.privacy.guarantee import Guarantee
from discreet.queries.synthetic import sample_codes
from discreet.releases.kinds.candidate_choice import Choice
from discreet.releases.kinds.parameter_draws import ParameterDraws
from discreet.sensitive.counts import count_codes

__all__ = ["SAMPLING_ALONE", "Expected", "compare"]

MOST_MADE_UP = 100_000_000
"""Records of a plan; each takes eight bytes for every node."""
SAMPLING_ALONE = "(no privacy)"
"""Row of the error that is left without any noise: records are a sample, too."""
DRAWS = 200


@dataclass(frozen=True)
class Expected:
    """The error of one mechanism, averaged over made-up data sets.

    Args:
        mechanism: its name.
        guarantee: under which it was simulated; None for `SAMPLING_ALONE`.
        cells: mean absolute error of the conditional probabilities of all tables, averaged over tables.
        marginals: mean absolute error of the probabilities of single variables.
        errors: standard errors of the two.
        refused: why there are no numbers; None where there are.
    """

    mechanism: str
    guarantee: Guarantee | None
    cells: float
    marginals: float
    errors: tuple[float, float]
    refused: str | None = None


def compare(
    theta: Tables,
    guarantee: Guarantee,
    records: int,
    *,
    rng: np.random.Generator,
    repeats: int = 5,
    mechanisms: Mapping[str, Mechanism[Any]] | None = None,
    prior: Dirichlet | None = None,
) -> tuple[Expected, ...]:
    """Simulate mechanisms on records made up from known probabilities, and compare what they release with these.

    Noisy statistics are read by the noise-aware posterior's mean, released draws and choices as they are. Mechanisms
    that have no use for a delta are simulated without it, at the same epsilon.

    Args:
        theta: probabilities of the whole network, one table a node: public ones, or a guess.
        guarantee: what a release would promise.
        records: number of records.
        rng: source of the records and the noise; everything here is made up.
        repeats: data sets, each with new noise.
        mechanisms: by name; None for the whole registry with default options.
        prior: of releases and posteriors; None for Dirichlet(1/4).

    Returns:
        For every mechanism its error, the sampling error alone first.

    Raises:
        InputError: no repeats, fewer than one record or too many, or tables of draws.

    Guarantee:
        None spent, none given: no record is read.
    """
    if theta.draws is not None or repeats < 1 or not 0 < records <= MOST_MADE_UP:
        raise InputError(
            "a comparison needs one table for each node, at least one record and one repeat, and at most "
            f"{MOST_MADE_UP:,} records: they are made up in memory"
        )
    believed = prior or Dirichlet.uniform(theta.network)
    chosen = {name: make() for name, make in MECHANISMS.items()} if mechanisms is None else mechanisms
    errors: dict[str, list[tuple[float, float]]] = {SAMPLING_ALONE: []}
    promised: dict[str, Guarantee] = {}
    refused: dict[str, str] = {}
    for name, mechanism in chosen.items():
        try:
            promised[name] = _promise(mechanism, believed, guarantee)
        except InputError as error:
            refused[name] = str(error)
        errors[name] = []
    truth = _marginals(theta)
    for _ in range(repeats):
        counts = count_codes(theta.network, sample_codes(theta, records, rng))
        errors[SAMPLING_ALONE].append(_errors(believed.updated(counts.tables).mean(), theta, truth))
        for name, promise in promised.items():
            try:
                release = simulate(chosen[name], counts, believed, promise, rng=rng)
                read = plug_in if isinstance(release.payload, ParameterDraws | Choice) else noise_aware
                errors[name].append(_errors(read(release, draws=DRAWS, rng=rng).mean(), theta, truth))
            except DiscreetError as error:
                refused[name] = str(error)
        promised = {name: promise for name, promise in promised.items() if name not in refused}
    return tuple(
        _expected(name, promised.get(name), [] if name in refused else found, refused.get(name))
        for name, found in errors.items()
    )


def _promise(mechanism: Mechanism[Any], prior: Dirichlet, guarantee: Guarantee) -> Guarantee:
    """The guarantee, without its delta where the mechanism has no use for one."""
    try:
        mechanism.calibrate(prior.network, prior, guarantee)
        return guarantee
    except InputError:
        if not guarantee.delta:
            raise
    pure = Guarantee(epsilon=guarantee.epsilon, delta=0, relation=guarantee.relation, unit=guarantee.unit)
    mechanism.calibrate(prior.network, prior, pure)
    return pure


def _marginals(theta: Tables) -> dict[str, npt.NDArray[np.float64]]:
    """Probabilities of single variables; none where exact inference is out of reach."""
    single = Tables(theta.network, {node: table[..., None] for node, table in theta.items()}, draws=1)
    try:
        return elimination.marginals(single, {})
    except InputError:
        return {}


def _errors(estimate: Tables, theta: Tables, truth: Mapping[str, npt.NDArray[np.float64]]) -> tuple[float, float]:
    """Mean absolute errors of table entries and of marginals."""
    cells = float(np.mean([np.abs(estimate[node] - theta[node]).mean() for node in theta]))
    found = _marginals(estimate) if truth else {}
    gaps = [np.abs(found[node] - truth[node]).mean() for node in found]
    return cells, float(np.mean(gaps)) if gaps else float("nan")


def _expected(
    name: str, guarantee: Guarantee | None, found: list[tuple[float, float]], refused: str | None
) -> Expected:
    """Means and standard errors."""
    if not found:
        nothing = float("nan")
        return Expected(name, guarantee, nothing, nothing, (nothing, nothing), refused)
    table = np.array(found)
    spread = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.full(2, np.nan)
    cells, marginals = table.mean(axis=0)
    return Expected(name, guarantee, float(cells), float(marginals), (float(spread[0]), float(spread[1])), refused)
