"""Planned release: counts over sets of variables with integer noise, each with its own budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np

from discreet.display.text_tables import with_noun
from discreet.errors import listed, require, shown
from discreet.model.network import Network
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CELL_LAWS, NO_NOISE, CellLaw, CellTag
from discreet.noise.star import Star
from discreet.privacy.gaussian_loss import discrete_rho, pure_rho, sum_rho
from discreet.releases.codec import Positive, Scoped, Whole, all_positive, kind
from discreet.releases.kinds.noisy_counts import CountedTables
from discreet.releases.measurement import Calibration, Measurement, spread
from discreet.util.arrays import Array, freeze, margin
from discreet.util.limits import STAR_DIMENSIONS


@kind(
    "planned_noise",
    order=("noise", "sensitivity", "reported", "tables", "expected"),
    scoped=Scoped(
        "tables", "_PlannedTable", {"stars": "star", "budgets": "budget", "scales": "scale"}, partial=("stars",)
    ),
)
@dataclass(frozen=True)
class PlannedNoise(Calibration):
    """Plan of a release: noise on tables over sets of variables, each with its own budget.

    Args:
        noise: "discrete_laplace" or "discrete_gaussian".
        sensitivity: most that one record can move the cells of one table, L1 and also L2 squared, under the relation.
        budgets: exact budget of each table, by its variables: epsilon for Laplace noise, else the zero-concentrated
            privacy loss rho. That of a star is the budget of each of its tables, and is spent once.
        scales: of the noise on each cell of a table, as in `NoisyTables`; unit: records.
        reported: total epsilon that the noise's own privacy map reports, for Gaussian noise at the guarantee's delta.
        expected: for every node, mean absolute error, in records, of a cell of its family's table, or of as much of it
            as is measured together, after least squares over all tables; by the normal approximation, which the
            release's noise alone enters.
        stars: number of the star, from 1, of each table that is in one: its tables share variables, and noise that
            agrees on them (`discreet.noise.star_noise`).

    Raises:
        InputError: no such noise, a number is not positive and finite, or a star of one table, without shared
            variables, of several budgets or scales, or with Gaussian noise.

    Example:
        >>> from fractions import Fraction
        >>> import discreet as dc
        >>> budgets = {("rain",): Fraction(1, 3), ("wet",): Fraction(2, 3)}
        >>> scales = {("rain",): 3.0, ("wet",): 1.5}
        >>> of_nodes = {"rain": 3.0, "wet": 1.5}
        >>> noise = dc.kinds.PlannedNoise("discrete_laplace", 1, budgets, scales, Fraction(1), of_nodes)
        >>> noise.total, noise.scopes
        (Fraction(1, 1), (('rain',), ('wet',)))
    """

    noise: CellTag
    sensitivity: Whole
    budgets: Mapping[Scope, Fraction]
    scales: Mapping[Scope, Positive]
    reported: Fraction
    expected: Mapping[str, Positive]
    stars: Mapping[Scope, Whole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze, then refuse invalid settings."""
        freeze(self, budgets=self.budgets, scales=self.scales, expected=self.expected, stars=self.stars)
        require(self.noise in CELL_LAWS, "a calibration needs Laplace or Gaussian noise")
        require(
            self.sensitivity > 0 and self.reported > 0, "a calibration needs a sensitivity and a report greater than 0"
        )
        require(all(value > 0 for value in self.budgets.values()), "a calibration needs budgets greater than 0")
        require(
            self.scales.keys() == self.budgets.keys() and all_positive(*self.scales.values()),
            "a calibration needs one positive, finite noise scale for each budget",
        )
        require(all_positive(*self.expected.values()), "a calibration needs positive, finite expected errors")
        _require_stars(self.stars, self.scales, self.law)
        for scopes in star_scopes(self.stars):
            require(len({self.budgets[scope] for scope in scopes}) == 1, "the tables of a star share one budget")

    @property
    def law(self) -> type[CellLaw]:
        """Law of the noise; each table has its own scale."""
        return CELL_LAWS[self.noise]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Sets of variables that are measured."""
        return tuple(self.scales)

    @property
    def plans(self) -> tuple[PlannedNoise, ...]:
        """See `NoiseWithPairs`."""
        return (self,)

    def with_plans(self, change: Callable[[PlannedNoise], PlannedNoise]) -> PlannedNoise:
        """See `NoiseWithPairs`."""
        return change(self)

    @property
    def delta_of_pairs(self) -> Fraction:
        """Delta spent on pairs: there are none."""
        return Fraction()

    @property
    def total(self) -> Fraction:
        """Epsilon of all tables together, for Gaussian noise at the guarantee's delta."""
        if self.law.concentrated:
            return self.reported
        return max(sum((self.budgets[scope] for scope in self._paid), Fraction()), self.reported)

    @property
    def gaussian_loss(self) -> Fraction | None:
        """See `Calibration`: each table, or star, is paid once."""
        if self.law.concentrated:
            return discrete_rho(sum(self.budgets.values(), Fraction()), *self.scales.values())
        return sum_rho(*(pure_rho(self.sensitivity / Fraction(self.scales[scope])) for scope in self._paid))

    @property
    def _paid(self) -> list[Scope]:
        """Tables beside stars, and one of each star."""
        alone = [scope for scope in self.budgets if scope not in self.stars]
        return [*alone, *(scopes[0] for scopes in star_scopes(self.stars))]


@kind(
    "noisy_tables",
    order=("noise", "tables"),
    scoped=Scoped(
        "tables", "_NoisyTable", {"stars": "star", "scales": "scale", "tables": "values"}, partial=("stars",)
    ),
)
@dataclass(frozen=True, eq=False)
class NoisyTables(CountedTables):
    """Counts over sets of variables plus integer noise in every cell: independent, but for that of stars.

    Args:
        network: whose families lie in these sets, or, where they are too large, as much of them as was measured.
        tables: by set of variables, named in the schema's order; int64, axes in the same order, unit: records; never
            truncated, so cells may be negative. Every variable lies in one of them.
        scales: of the noise in each table; unit: records.
        noise: "discrete_laplace", `P(k) ~ exp(-|k| / scale)`, or "discrete_gaussian", `P(k) ~ exp(-k^2 / 2 scale^2)`.
        stars: number of the star of each table that is in one, as in `PlannedNoise`.

    Raises:
        InputError: a set that names an unknown variable or has another order, tables that are not integers or have
            another shape than their variables, a variable that no table holds, a scale that is not a positive, finite
            number, or a star that is none, or whose tables do not agree on the variables they share.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> rain, wet = (dc.Variable(name, ("no", "yes")) for name in ("rain", "wet"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> counts = {("rain", "wet"): np.array([[6, 1], [-1, 4]])}
        >>> dc.kinds.NoisyTables(network, counts, {("rain", "wet"): 2.0}, "discrete_laplace").table("rain").tolist()
        [7, 3]
    """

    network: Network
    tables: Mapping[Scope, Array]
    scales: Mapping[Scope, Positive]
    noise: CellTag
    stars: Mapping[Scope, Whole] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze, then refuse values that inference cannot read."""
        ordered = _sort_scopes(self.tables, self.network.nodes)
        fit = self.scales.keys() == self.tables.keys() and all(0 < scale < NO_NOISE for scale in self.scales.values())
        require(fit, "noisy tables need one positive noise scale below 2^63 for every table")
        scales = {scope: self.scales[scope] for scope in ordered}
        stars = {scope: self.stars[scope] for scope in ordered if scope in self.stars}
        require(len(stars) == len(self.stars), "a star needs tables that were measured")
        tables = {scope: np.asarray(self.tables[scope]) for scope in ordered}
        freeze(self, tables=tables, scales=scales, stars=stars)
        for scope, table in self.tables.items():
            fit = table.dtype == np.int64 and table.shape == tuple(self.network.schema[name].size for name in scope)
            require(fit, f"the noisy counts over ({listed(scope)}) must be 64-bit integers, an axis for each variable")
        measured = set[str]().union(*self.tables)
        for node in self.network.nodes:
            require(node in measured, f"noisy tables need one that holds {shown(node)}")
        _require_stars(self.stars, self.scales, self.law)
        self._require_agreement()

    def _require_agreement(self) -> None:
        """Refuse stars that are too large, or whose tables disagree on the variables that they share."""
        for star in self._stars:
            free = 1 + sum(length - 1 for length in star.lengths)
            require(free <= STAR_DIMENSIONS, f"a star has at most {STAR_DIMENSIONS} dimensions, and one has {free:,}")
            margins = [margin(self.tables[scope], scope, star.shared) for scope in star.scopes]
            agree = all(np.array_equal(counts, margins[0]) for counts in margins)
            require(agree, "the tables of a star must agree on the variables they share")

    @property
    def _stars(self) -> list[Star]:
        """All stars, by number."""
        stars = []
        for scopes in star_scopes(self.stars):
            shared = tuple(name for name in scopes[0] if all(name in scope for scope in scopes))
            cells = self.network.cells(shared)
            lengths = tuple(self.tables[scope].size // cells for scope in scopes)
            stars.append(Star(self.scales[scopes[0]], scopes, shared, lengths))
        return stars

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """See `Released`."""
        star = {scope: star for star in self._stars for scope in star.scopes}
        return tuple(
            Measurement(scope, table, star.get(scope) or self.law(self.scales[scope]))
            for scope, table in self.tables.items()
        )

    @property
    def cut(self) -> dict[str, Scope]:
        """Families that no table holds, each with its largest measured subset; see `partly_measured_families`."""
        return partly_measured_families(self.network, self.tables)

    def scope(self, name: Scope) -> Scope:
        """See `CountedTables`."""
        return name

    def summary(self, calibration: object) -> str:
        """See `Released`."""
        number = len(set(self.stars.values()))
        agreeing = f", {len(self.stars)} of them in {number} star{'s' * (number > 1)} whose noise agrees"
        line = (
            f"noise in every cell of {with_noun(len(self.scales), 'table')}{agreeing * bool(number)}: "
            f"{self.law.name} of scale {spread(self.scales.values())}"
        )
        errors = spread(calibration.expected.values()) if isinstance(calibration, PlannedNoise) else "?"
        line += f" records; after least squares the cells of a family are off by {errors} records on average"
        if self.cut:
            line += f"; {len(self.cut)} families were too large and measured without some parents: {listed(self.cut)}"
        return line

    def agrees(self, calibration: object) -> bool:
        """See `Released`."""
        return (
            isinstance(calibration, PlannedNoise)
            and self.noise == calibration.noise
            and dict(self.scales) == dict(calibration.scales)
            and dict(self.stars) == dict(calibration.stars)
            and set(calibration.expected) == set(self.network.nodes)
        )


def partly_measured_families(network: Network, scopes: Iterable[Scope]) -> dict[str, Scope]:
    """Families that no table holds, each with its largest measured subset; arguments as for `measured_part`."""
    scope_of = {node: measured_part(network, scopes, node) for node in network.nodes}
    return {node: scope for node, scope in scope_of.items() if len(scope) < len(network.family(node))}


def measured_part(network: Network, scopes: Iterable[Scope], node: str) -> Scope:
    """Largest subset of a family that one table holds, the node in it.

    Args:
        network: of the family.
        scopes: of the tables; one holds the node.
        node: the family's.

    Returns:
        Names in the order of the family: `(*parents, node)`, but for parents that are not measured with the others.
    """
    family = network.family(node)
    overlaps = [tuple(name for name in family if name in scope) for scope in scopes if node in scope]
    return max(overlaps, key=lambda overlap: (len(overlap) == len(family), network.cells(overlap)))


def star_scopes(stars: Mapping[Scope, int]) -> list[tuple[Scope, ...]]:
    """The tables of each star, by number.

    Args:
        stars: number of the star of each table that is in one.

    Returns:
        Sets of variables, in the order of the mapping.

    Example:
        >>> star_scopes({("a", "b"): 1, ("a", "c"): 1})
        [(('a', 'b'), ('a', 'c'))]
    """
    scopes_of: dict[int, list[Scope]] = {}
    for scope, number in stars.items():
        scopes_of.setdefault(number, []).append(scope)
    return [tuple(scopes_of[number]) for number in sorted(scopes_of)]


def _sort_scopes(scopes: Iterable[Scope], nodes: Sequence[str]) -> list[Scope]:
    """Sort sets of variables by their positions in the schema; refuse any that are not in its order."""
    position = {name: index for index, name in enumerate(nodes)}
    positions = {scope: [position.get(name, -1) for name in scope] for scope in scopes}
    for scope, in_schema in positions.items():
        rising = all(low < high for low, high in pairwise([-1, *in_schema]))
        require(rising, f"noisy tables name variables of the network, in the schema's order; not ({listed(scope)})")
    return sorted(positions, key=positions.__getitem__)


def _require_stars(stars: Mapping[Scope, int], scales: Mapping[Scope, float], law: type[CellLaw]) -> None:
    """Refuse invalid stars."""
    require(stars.keys() <= scales.keys(), "a star needs tables that were measured")
    require(not stars or not law.concentrated, "Gaussian noise has no stars")
    for scopes in star_scopes(stars):
        require(len(scopes) > 1, "a star needs two tables")
        require(bool(set(scopes[0]).intersection(*scopes)), "the tables of a star share a variable")
        require(len({scales[scope] for scope in scopes}) == 1, "the tables of a star have noise of one scale")
