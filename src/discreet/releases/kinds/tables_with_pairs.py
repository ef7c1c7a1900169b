"""A planned release and, in a second stage, tables of pairs of variables that none of its tables holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from discreet.errors import InputError, listed, require
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CELL_LAWS, NO_NOISE, CellLaw, DiscreteLaplace, GaussianTag
from discreet.privacy.gaussian_loss import discrete_rho, most_rho, pure_rho, sum_rho
from discreet.releases.codec import Integer, Positive, Scoped, Whole, all_positive, kind
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.measurement import Calibration, MeasuredTables, Measurement
from discreet.util.arrays import Array, freeze

FLOAT_ERROR = 1e-12
"""Relative error of a scale, far above that of floats."""


def pairs_beyond(pairs: Iterable[Scope], tables: Iterable[Scope]) -> tuple[Scope, ...]:
    """List the pairs of variables that no table holds together.

    Args:
        pairs: of names.
        tables: sets of names.

    Example:
        >>> pairs_beyond([("a", "b"), ("a", "c")], [("a", "b", "d")])
        (('a', 'c'),)
    """
    measured = {frozenset(pair) for scope in tables for pair in combinations(scope, 2)}
    return tuple(pair for pair in pairs if frozenset(pair) not in measured)


@kind(
    "audit_noise",
    order=(
        *("plan", "alone", "records", "total_scale", "total_epsilon", "second", "selection", "sensitivity"),
        *("delta", "rho", "rho_chosen"),
    ),
)
@dataclass(frozen=True, kw_only=True)
class NoiseWithPairs(Calibration):
    """Noise of two stages: a plan, then pairs that none of its tables holds; public numbers fix how many.

    Args:
        plan: of the first stage, where a second follows.
        alone: of the first stage, where none does: then it has that budget as well.
        records: a public planning size; None for the number of records, where that is public, or its noisy total.
        total_scale: of the noise in that total; None where there is none.
        total_epsilon: what the total costs; None where there is none.
        second: epsilon of the second stage.
        selection: part of it that pays for choosing pairs, where not all are measured.
        sensitivity: most that one record can move a pair's table, L1 and also L2 squared, and so its misfit.
        delta: of the pairs' noise, where that may be Gaussian; None where it is Laplace noise whatever the records.
        rho: zero-concentrated loss of all pairs' tables together that keeps the second stage's epsilon at this delta,
            where all are measured.
        rho_chosen: the same for what is left of the second stage where pairs are chosen.

    Raises:
        InputError: budgets that are not positive, a total with a scale and no cost, or Gaussian noise in part.

    Example:
        >>> from fractions import Fraction
        >>> import discreet as dc
        >>> once = {("rain",): Fraction(1)}
        >>> plan = dc.kinds.PlannedNoise("discrete_laplace", 1, once, {("rain",): 1.0}, Fraction(1), {"rain": 1.0})
        >>> shares = {"second": Fraction(1, 4), "selection": Fraction(1, 2)}
        >>> public = {"records": 1000, "total_scale": None, "total_epsilon": None}
        >>> noise = dc.kinds.NoiseWithPairs(plan=plan, alone=plan, sensitivity=1, **shares, **public)
        >>> noise.total
        Fraction(5, 4)
    """

    plan: PlannedNoise
    alone: PlannedNoise
    records: Whole | None
    total_scale: Positive | None
    total_epsilon: Fraction | None
    second: Fraction
    selection: Fraction
    sensitivity: Whole
    delta: Fraction | None = None
    rho: Fraction | None = None
    rho_chosen: Fraction | None = None

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        gaussian = (self.delta, self.rho, self.rho_chosen)
        require(len({term is None for term in gaussian}) == 1, "Gaussian noise on pairs needs a delta and its losses")
        require(all(term is None or term > 0 for term in gaussian), "Gaussian noise needs a delta and losses above 0")
        require(self.second > 0 and 0 < self.selection < 1, "pairs need a budget, and a part of it to choose by")
        require((self.total_scale is None) == (self.total_epsilon is None), "a noisy total needs a scale and a cost")
        require(all_positive(self.total_scale), "a noisy total needs a positive, finite scale")
        require(self.total_epsilon is None or self.total_epsilon > 0, "a noisy total costs more than 0")
        require(self.records is None or self.total_scale is None, "a public number of records needs no noisy total")

    def for_pairs(self, chosen: int, law: type[CellLaw]) -> Fraction:
        """Budget of all pairs' tables together, if so many were selected: selecting any costs its whole share.

        Args:
            chosen: pairs.
            law: of their noise.

        Returns:
            Epsilon of Laplace noise, rho of Gaussian noise.

        Raises:
            InputError: Gaussian noise that this calibration does not know.
        """
        if law.concentrated:
            loss = self.rho_chosen if chosen else self.rho
            require(loss is not None, "this calibration knows no Gaussian noise on pairs")
            assert loss is not None
            return loss
        return self.second * (1 - self.selection if chosen else 1)

    def find_choice_scale(self, rounds: int) -> Fraction:
        """Scale of the choices of pairs, so that together they cost their share of the second stage.

        Args:
            rounds: how many choices, one after the other.

        Returns:
            Unit: records.
        """
        return 2 * self.sensitivity * rounds / (self.selection * self.second)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Sets of variables that the first stage may measure."""
        return (*self.plan.scales, *self.alone.scales)

    @property
    def plans(self) -> tuple[PlannedNoise, ...]:
        """Plans of the first stage, of which the number of records decides."""
        return (self.plan, self.alone)

    def with_plans(self, change: Callable[[PlannedNoise], PlannedNoise]) -> NoiseWithPairs:
        """Change both plans."""
        return replace(self, plan=change(self.plan), alone=change(self.alone))

    @property
    def delta_of_pairs(self) -> Fraction:
        """Delta spent on pairs."""
        return self.delta or Fraction()

    @property
    def total(self) -> Fraction:
        """Epsilon of the dearer of the two plans, with the noisy total."""
        return max(self.plan.total + self.second, self.alone.total) + (self.total_epsilon or 0)

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`: that of the dearest way through the stages.

        Noise on more pairs has a larger scale, so one pair is the dearest number of them.
        """
        pairs: list[Fraction | None] = [pure_rho(self.second)]
        if self.rho is not None and self.rho_chosen is not None:
            selected = pure_rho(self.selection * self.second)
            pairs += [self._loss_of_pairs(self.rho), sum_rho(selected, self._loss_of_pairs(self.rho_chosen))]
        ways = most_rho(self.alone.gaussian_loss, sum_rho(self.plan.gaussian_loss, most_rho(*pairs)))
        return ways if self.total_epsilon is None else sum_rho(pure_rho(self.total_epsilon), ways)

    def _loss_of_pairs(self, rho: Fraction) -> Fraction | None:
        """Gaussian loss of Gaussian noise on one pair."""
        return discrete_rho(rho, math.sqrt(self.sensitivity / (2 * rho)) * (1 - FLOAT_ERROR))


@kind(
    "audited_tables",
    order=("total", "first", "noise", "scale", "chosen", "pairs"),
    scoped=Scoped("pairs", "_MeasuredPair", {"pairs": "values"}),
)
@dataclass(frozen=True, eq=False)
class TablesWithPairs(MeasuredTables):
    """Tables of a plan, and perhaps tables of pairs that none of them holds.

    Args:
        network: of the plan.
        first: tables of the first stage.
        pairs: tables of the second, by pair in the schema's order; int64, unit: records.
        scale: of their noise; None where there are none.
        chosen: how many of the pairs, the first of the list, were chosen by how far the first stage misjudged them; the
            others are all, or were taken at random.
        total: noisy number of records that the number of pairs followed from; None where that was public.
        noise: its law on pairs; None for discrete Laplace noise.

    Raises:
        InputError: pairs that are none, or lie in a table of the first stage, tables of other shapes, a scale without
            pairs, or more chosen than there are.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> names = ("rain", "wet")
        >>> network = dc.Network.empty([dc.Variable(name, ("no", "yes")) for name in names])
        >>> tables = {(name,): np.array([3, 7]) for name in names}
        >>> first = dc.kinds.NoisyTables(network, tables, dict.fromkeys(tables, 2.0), "discrete_laplace")
        >>> pairs = {names: np.array([[2, 1], [0, 6]])}
        >>> both = dc.kinds.TablesWithPairs(network, first, pairs, scale=4.0, chosen=0, total=None)
        >>> [part.scope for part in both.measurements]
        [('rain',), ('wet',), ('rain', 'wet')]
    """

    network: Network
    first: NoisyTables
    pairs: Mapping[Scope, Array]
    scale: Positive | None
    chosen: Integer
    total: Integer | None
    noise: GaussianTag | None = None

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        freeze(self, pairs={scope: np.asarray(table) for scope, table in self.pairs.items()})
        free = set(pairs_beyond(combinations(self.network.nodes, 2), self.first.tables))
        if self.first.network != self.network or not set(self.pairs) <= free:
            raise InputError("measured pairs must be pairs of the network that no table of the first stage holds")
        for scope, table in self.pairs.items():
            if table.dtype != np.int64 or table.shape != tuple(self.network.schema[name].size for name in scope):
                raise InputError(f"the noisy counts over ({listed(scope)}) must be 64-bit integers, an axis for each")
        require((self.scale is None) == (not self.pairs), "pairs need a scale of their noise, and nothing else does")
        require(self.scale is None or 0 < self.scale < NO_NOISE, "pairs need a positive noise scale below 2^63")
        require(0 <= self.chosen <= len(self.pairs), "no more pairs can be chosen than there are")

    @property
    def law(self) -> type[CellLaw]:
        """Law of the noise on pairs."""
        return CELL_LAWS[self.noise] if self.noise else DiscreteLaplace

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`."""
        noise = None if self.scale is None else self.law(self.scale)
        second = (
            Measurement(scope, table, noise, selection="chosen" if index < self.chosen else "random")
            for index, (scope, table) in enumerate(self.pairs.items())
        )
        return (*self.first.measurements, *second)

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        plan = None
        if isinstance(calibration, NoiseWithPairs):
            plan = calibration.plan if self.pairs else calibration.alone
        line = self.first.summary(plan)
        if not self.pairs:
            return f"{line}; no pair beside them was worth measuring"
        how = f"{self.chosen} of them chosen by misfit" if self.chosen else "all that no table holds"
        kind = "Gaussian noise" if self.noise else "noise"
        return f"{line}; {len(self.pairs)} pairs beside them ({how}) with {kind} of scale {self.scale:.4g}"

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        if not isinstance(calibration, NoiseWithPairs):
            return False
        first = self.first.agrees(calibration.plan if self.pairs else calibration.alone)
        if self.law.concentrated and calibration.rho is None:
            return False
        budget = calibration.for_pairs(self.chosen, self.law) / max(len(self.pairs), 1)
        spent = self.scale and self.law(self.scale).sensitivity_at(budget)
        scale = spent is None or math.isclose(spent, calibration.sensitivity, rel_tol=1e-9)
        # The plan that was not taken is checked only for its fit to this network.
        plans = (calibration.plan, calibration.alone)
        nodes = set(self.network.nodes)
        whole = all(set(plan.expected) == nodes == set().union(*plan.scales) for plan in plans)
        return whole and first and scale and (self.total is None) == (calibration.total_scale is None)
