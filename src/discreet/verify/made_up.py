"""Structures and records that audits and plans make up over a domain: tiny ones, and records of a law."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet.errors import InputError
from discreet.inference.exact_laws import Laws
from discreet.inference.sampling import sample_codes
from discreet.mechanisms import MECHANISMS
from discreet.mechanisms.crossing import Mechanism, Statistic
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.number_grid import number_grids
from discreet.model.over import Over, Prior
from discreet.model.round_numbers import wide_columns
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.posterior.plug_in import plug_in
from discreet.posterior.read import load_function, read, readers_of
from discreet.privacy.guarantee import Relation
from discreet.queries.synthetic import simulate_records
from discreet.records.counts import Counts, count, count_codes
from discreet.records.records import read_records
from discreet.releases.release import Release
from discreet.releases.release_head import domains
from discreet.verify.tiny_data import (
    MOST_KINDS,
    Record,
    audit_choices,
    audit_networks,
    audit_readings,
    count_records,
    list_values,
    thin_out,
)

Floats = npt.NDArray[np.float64]

PLAN_DRAWS = 200
"""Draws of a posterior whose mean is the answer of a plan."""

SimulatedRecords = tuple[
    Callable[[Mechanism], Statistic],
    tuple[float, float],
    Callable[[Release], tuple[float, float]],
]
"""Simulated records: statistic by mechanism, errors without noise, and errors of a release."""


class MadeUp(ABC):
    """Structures and records over a domain, made up for audits and plans.

    Attributes:
        compared: names of the two errors of a plan, in documents.
        headings: of the same in a table.
    """

    compared: ClassVar[tuple[str, str]]
    headings: ClassVar[tuple[str, str]]

    @abstractmethod
    def default_prior(self, over: Any) -> Prior:
        """Make the prior of audits and plans."""

    @abstractmethod
    def tiny(self, mechanism: Mechanism, relation: Relation) -> Mapping[str, Over]:
        """List structures by name, so small that every data set of few records can be enumerated.

        Args:
            mechanism: of the domain.
            relation: of neighbours.
        """

    @abstractmethod
    def kinds_of(self, over: Any, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
        """List at most so many kinds of records of a tiny structure, and more than 12 only where that is the number.

        Args:
            over: the structure.
            most: kinds.
            numbers: whether records of a network have numbers in place of the codes of bins.
        """

    @abstractmethod
    def statistic_from(self, mechanism: Mechanism, over: Any, data: Iterable[Any]) -> Statistic:
        """Compute the statistic that a mechanism draws from, of records that `kinds_of` listed."""

    @abstractmethod
    def simulator(
        self, truth: Any, believed: Any, records: int, rng: np.random.Generator
    ) -> Callable[[], SimulatedRecords]:
        """Make a function that simulates a data set.

        Args:
            truth: law of the records, or a structure over which a law is drawn for each data set.
            believed: prior of the readers.
            records: their number.
            rng: source of randomness.
        """


def made_up_in(domain: str) -> MadeUp:
    """Find what is made up in a domain, by its name."""
    made_up: Any = load_function(domains()[domain].made_up)
    assert isinstance(made_up, MadeUp)
    return made_up


class _Networks(MadeUp):
    """Networks, and records over them."""

    compared = ("cells", "marginals")
    headings = ("mean error of table entries", "of single variables")

    def default_prior(self, over: Network) -> Dirichlet:
        """See `MadeUp`."""
        return Dirichlet.uniform(over)

    def tiny(self, mechanism: Mechanism, relation: Relation) -> Mapping[str, Network]:
        """See `MadeUp`; a mechanism that brings its network has that alone."""
        if mechanism.only is not None:
            return {"its own": mechanism.only}
        if relation is Relation.METRIC:
            return audit_readings()
        entry = MECHANISMS.get(mechanism.name)
        return audit_choices() if entry and entry.chooses else audit_networks()

    def kinds_of(self, over: Network, most: int = MOST_KINDS, *, numbers: bool = False) -> list[Record]:
        """See `MadeUp`."""
        return thin_out(list(product(*(list_values(variable, numbers=numbers) for variable in over.variables))), most)

    def statistic_from(self, mechanism: Mechanism, over: Network, data: Iterable[Any]) -> Counts:
        """See `MadeUp`."""
        return count_records(over, data, wide=mechanism.finds_bins)

    def simulator(
        self, truth: Tables, believed: Dirichlet, records: int, rng: np.random.Generator
    ) -> Callable[[], SimulatedRecords]:
        """See `MadeUp`."""
        marginals = _compute_marginals(truth)
        return lambda: _simulate_records(truth, marginals, believed, records, rng)


NETWORKS = _Networks()


def _simulate_records(
    theta: Tables, truth: Mapping[str, Floats], believed: Any, records: int, rng: np.random.Generator
) -> SimulatedRecords:
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
    if number_grids(network) and not wide_columns(network):
        gaps = any(variable.missing is not None for variable in network.schema)
        table = simulate_records(theta, records, rng=rng)
        made_up = read_records(table, network.schema, missing="keep" if gaps else "error")
        return lambda scopes: count(made_up, network, scopes)
    codes = sample_codes(theta, records, rng)
    return lambda scopes: count_codes(network, codes, scopes)


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
