"""Laws of noise, one class each: whatever depends on which it is, mechanisms, readers, plans and audits ask the law.

Documents have its tag. A new law of single numbers is a class here, or in a file beside, and a line of `LAWS`. Noise on
whole vectors is in `k_norm.py`, and on tables that agree on what they share in `star.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from discreet.util.arrays import Floats, Ints
from discreet.util.number_checks import positive, probability

NO_NOISE = 2.0**63
"""Scales from here on fit into no table: its numbers have 64 bits."""
KNOWN_VARIANCE = 1e-6
"""Variance of what is known exactly: the next whole number is a thousand deviations away."""

LaplaceTag = Literal["discrete_laplace"]
"""`P(k) ~ exp(-|k| / scale)`, where noise has no other law."""
GaussianTag = Literal["discrete_gaussian"]
"""`P(k) ~ exp(-k^2 / (2 scale^2))`, where documents name a law only if it is not the usual one."""
CellTag = Literal[LaplaceTag, GaussianTag]
"""Integer noise."""
LawTag = Literal["laplace", "gaussian", CellTag, "rounded"]
"""All laws of single numbers: with the continuous ones of figures by others, and rounding to the nearest multiple of
the scale."""
ShapeTag = Literal["cube", "ball", "diamond"]
"""Unit ball of the norm in which noise on a vector is calibrated: of the largest entry, the Euclidean norm, or the sum
of the absolute entries."""
GroupedTag = Literal["cube", "discrete_gaussian"]
"""Noise on vectors that are released group by group: cube noise on each, or independent noise on every entry."""
VectorTag = ShapeTag | GaussianTag
"""Noise on a vector: by a norm, or independent on every entry."""


class IntegerNoise(Protocol):
    """A source of independent noise on whole numbers."""

    def discrete_laplace(self, values: Ints, scale: float) -> Ints:
        """Add independent noise, `P(noise = k) ~ exp(-|k| / scale)`, to every entry.

        Args:
            values: records; any shape, entries from -2^53 to 2^53.
            scale: unit: records.

        Returns:
            Noisy entries, same shape.
        """

    def discrete_gaussian(self, values: Ints, scale: float) -> Ints:
        """Add independent noise, `P(noise = k) ~ exp(-k^2 / (2 scale^2))`; arguments and result as above."""


class VectorSource(IntegerNoise, Protocol):
    """A source of noise on single numbers, on whole vectors, and on tables that share variables."""

    def k_norm(self, values: Ints, scale: float, shape: ShapeTag) -> Ints:
        """Add noise to all entries as one vector, `P(noise = k) ~ exp(-||k|| / scale)`; see `k_norm_noise`.

        Args:
            values: any shape, entries from -2^53 to 2^53.
            scale: in the unit of the values.
            shape: "cube" for the largest absolute entry as the norm, "ball" for the root of the sum of squares,
                rounded up, "diamond" for the sum of the absolute entries.

        Returns:
            Noisy entries, same shape.
        """

    def star(self, tables: Sequence[Ints], scale: float) -> list[Ints]:
        """Add noise to tables that share variables, equal on what they share; see `star_noise`.

        Args:
            tables: shape (cells of the shared variables, cells of a row), entries from -2^53 to 2^53.
            scale: records.

        Returns:
            Noisy tables, same shapes.
        """


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """A law of noise in numbers, independent in each unless a law says otherwise.

    Args:
        scale: in the unit of the numbers.

    Attributes:
        tag: Its name in documents.
        name: Its name in words.
        words: What is said of it before its scale.
        unit: Variance at scale 1, in the limit of large scales.
        excess: Kurtosis beyond that of a normal law, in the same limit.
        integer: Whether it is one of whole numbers.
        power: Of the distance in the exponent of its density; of rounding that of the law beyond.
        tied: Tables whose noise is one draw, by their variables; none where every table has its own.
    """

    scale: float
    tag: ClassVar[LawTag]
    name: ClassVar[str]
    words: ClassVar[str]
    unit: ClassVar[float]
    excess: ClassVar[float]
    integer: ClassVar[bool] = False
    power: ClassVar[int] = 1

    @property
    def raw_variance(self) -> float:
        """Variance of the noise in a number; it may be too small for a float."""
        return self.unit * self.scale**2

    @property
    def variance(self) -> float:
        """Variance of the noise in a number; noise that never shows still leaves a proper weight."""
        return max(self.raw_variance, KNOWN_VARIANCE)

    @property
    def whole(self) -> bool:
        """Whether figures with it are whole numbers: such noise, or none at all, on whole numbers."""
        return self.integer or self.reach == 0

    @property
    def reach(self) -> float | None:
        """The farthest that it moves a number; None where it may be any distance."""
        return None

    @property
    def tied(self) -> tuple[tuple[str, ...], ...]:
        """See the class."""
        return ()

    @abstractmethod
    def log_density(self, values: npt.ArrayLike) -> Floats:
        """Logarithms of the density of noise, or of the probability of whole numbers."""

    @abstractmethod
    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw noise, fast and seeded: for simulations, never for a release."""

    def simulate_tables(
        self, scope: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[tuple[str, ...], Floats]:
        """Draw the noise of a table, and of all whose noise is one draw with it.

        Args:
            scope: its variables.
            shape: an axis for each, then one of repetitions.
            sizes: states of each variable.
            rng: source of randomness.

        Returns:
            Noise by table.
        """
        return {scope: self.simulate(shape, rng)}

    def per_unit(self, steps: int) -> NoiseLaw:
        """The same said of units that count so many steps each: there noise of whole numbers has no steps to speak of.

        Args:
            steps: at least 1.
        """
        return replace(self, scale=self.scale / steps)

    @classmethod
    def on(cls, scale: float, *, whole: bool) -> Self:
        """The law of figures whose true numbers are whole, or may not be: it matters where they are rounded."""
        return cls(scale)


def each_failure(cells: int, failure: float) -> float:
    """Probability with which each of some independent variates may fail, if some of them fails with `failure`.

    Args:
        cells: number of variates.
        failure: probability that some variate fails.

    Returns:
        `1 - (1 - failure)^(1 / cells)`.

    Raises:
        InputError: no cells, or a probability outside (0, 1).

    Example:
        >>> round(each_failure(1, 0.05), 12), round(each_failure(10, 0.05), 4)
        (0.05, 0.0051)
    """
    positive(cells=cells)
    probability(failure=failure)
    return -math.expm1(math.log1p(-failure) / cells)


class CellLaw(NoiseLaw):
    """Integer noise that a budget buys for the cells of tables.

    Attributes:
        budget: Name of the loss that it is calibrated by.
        concentrated: Whether that is zero-concentrated, so that epsilon follows from it at a delta.
        order, factor: Its variance is that factor times this power of what a record moves over the budget.
        share_power: Budgets go to tables as this power of the error that each has at budget 1. With Laplace noise the
            sum of the absolute errors, `sum c / epsilon`, is least at 1/2, and that of the squared ones at 1/3: 0.4
            lies between. With Gaussian noise it is `sum c / sqrt(rho)`, least at 2/3.
    """

    tag: ClassVar[CellTag]
    budget: ClassVar[Literal["epsilon", "rho"]]
    concentrated: ClassVar[bool]
    order: ClassVar[int]
    factor: ClassVar[Fraction]
    integer: ClassVar[bool] = True
    share_power: ClassVar[float]

    @abstractmethod
    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """Add noise from a source to every entry."""

    def sensitivity_at(self, budget: Fraction) -> float:
        """Cells of a table that neighbours may differ in, each by one record, for a loss of so much."""
        return float((self.unit / self.factor) ** (1 / self.order) * self.scale ** (2 / self.order) * budget)

    @classmethod
    def variance_at(cls, budget: Fraction, moved: int) -> Fraction:
        """Variance that a budget buys for a table where neighbours differ in so many cells, each by one record."""
        return cls.factor * (moved / budget) ** cls.order

    @staticmethod
    @abstractmethod
    def affordable(deviation: float, budget: Fraction, moved: int) -> int:
        """Count the tables that a budget, split evenly, gives noise of at most a standard deviation."""


class DiscreteLaplace(CellLaw):
    """`P(k) ~ exp(-|k| / scale)`: whole numbers. Also called geometric."""

    tag: ClassVar[LaplaceTag] = "discrete_laplace"
    name, words = "discrete Laplace", "discrete Laplace noise of scale"
    unit, excess = 2.0, 3.0
    budget, concentrated = "epsilon", False
    order, factor = 2, Fraction(2)
    share_power = 0.4

    @property
    def raw_variance(self) -> float:
        """See `NoiseLaw`: `2 q / (1 - q)^2` with `q = exp(-1 / scale)`.

        Example:
            >>> round(DiscreteLaplace(10.0).raw_variance / (2 * 10.0**2), 3)
            0.999
        """
        return 2 * math.exp(-1 / self.scale) / math.expm1(-1 / self.scale) ** 2

    @property
    def mean_error(self) -> float:
        """Mean absolute value, `2 q / (1 - q^2)`; it may be too small for a float."""
        return -2 * math.exp(-1 / self.scale) / math.expm1(-2 / self.scale)

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`: `(1 - q) / (1 + q) q^|k|`."""
        return np.asarray(math.log(math.tanh(0.5 / self.scale)) - np.abs(values) / self.scale)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`: the difference of two geometric variates."""
        success = -math.expm1(-1 / self.scale)
        found = rng.geometric(success, shape) - rng.geometric(success, shape)
        return np.asarray(found, np.float64)

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Laplace(self.scale / steps)

    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """See `CellLaw`."""
        return source.discrete_laplace(values, self.scale)

    def loss(self, distance: int) -> float:
        """The loss between vectors at an L1 distance, nats."""
        return distance / self.scale

    def largest(self, cells: int, failure: float) -> int:
        """Bound that all of some independent variates keep.

        It follows from `P(|noise| > t) = 2 q^(t+1) / (1 + q)` with `q = exp(-1 / scale)`.

        Args:
            cells: number of variates.
            failure: probability that some variate is larger.

        Returns:
            The smallest whole t with `P(max |noise| <= t) >= 1 - failure`.

        Raises:
            InputError: no cells, or a probability outside (0, 1).

        Source:
            Zhang et al. (AAAI 2016), Proposition 1, for the geometric mechanism.

        Example:
            >>> DiscreteLaplace(2.0).largest(4, 0.05)
            9
        """
        allowed = math.log(each_failure(cells, failure))
        # ln P(|noise| > t) = ln(2 / (1 + q)) - (t + 1) / b.
        head = math.log(2 / (1 + math.exp(-1 / self.scale)))
        bound = max(0, math.ceil(self.scale * (head - allowed)) - 1)
        while head - (bound + 1) / self.scale > allowed:
            bound += 1
        while bound > 0 and head - bound / self.scale <= allowed:
            bound -= 1
        return bound

    @staticmethod
    def affordable(deviation: float, budget: Fraction, moved: int) -> int:
        """See `CellLaw`."""
        return math.floor(deviation * float(budget / moved) / math.sqrt(2))


class DiscreteGaussian(CellLaw):
    """`P(k) ~ exp(-k^2 / (2 scale^2))`: whole numbers. Its variance is a bound, Canonne et al. (2020), Corollary 9."""

    tag: ClassVar[GaussianTag] = "discrete_gaussian"
    name, words = "discrete Gaussian", "discrete Gaussian noise of deviation"
    unit, excess = 1.0, 0.0
    power = 2
    budget, concentrated = "rho", True
    order, factor = 1, Fraction(1, 2)
    share_power = 2 / 3

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`; by Poisson's summation where the scale is not small."""
        terms = np.arange(1, 10)
        if self.scale < 1:
            total = math.log1p(2 * float(np.exp(-(terms**2) / (2 * self.scale**2)).sum()))
        else:
            bumps = np.exp(-2 * (math.pi * self.scale * terms) ** 2)
            total = math.log(self.scale * math.sqrt(2 * math.pi)) + math.log1p(2 * float(bumps.sum()))
        return np.asarray(-(np.asarray(values, np.float64) ** 2) / (2 * self.scale**2) - total)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`: rounded normal variates, close enough for a simulation."""
        return np.asarray(np.rint(rng.normal(0, self.scale, shape)))

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Gaussian(self.scale / steps)

    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """See `CellLaw`."""
        return source.discrete_gaussian(values, self.scale)

    def losses(self, distances: Sequence[int]) -> tuple[Floats, Floats]:
        """Losses between vectors whose entries are so far apart, nats, and the probability of each."""
        reach = math.ceil(12 * self.scale) + 2
        mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * self.scale**2))
        mass /= mass.sum()
        # Of moving one cell by m it is (2 k m + m^2) / (2 scale^2): linear in the noise k, so sums of m k suffice.
        law, low = np.ones(1), 0
        for m in distances:
            spread = np.zeros(2 * reach * m + 1)
            spread[::m] = mass
            law, low = np.convolve(law, spread), low - reach * m
        return (2 * (low + np.arange(len(law))) + sum(m**2 for m in distances)) / (2 * self.scale**2), law

    @staticmethod
    def affordable(deviation: float, budget: Fraction, moved: int) -> int:
        """See `CellLaw`."""
        return math.floor(2 * float(budget) * deviation**2 / moved)


class Laplace(NoiseLaw):
    """Density `exp(-|x| / scale) / (2 scale)`."""

    tag = "laplace"
    name, words = "Laplace", "Laplace noise of scale"
    unit, excess = 2.0, 3.0

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`."""
        return np.asarray(-np.abs(values) / self.scale - math.log(2 * self.scale))

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`."""
        return rng.laplace(0, self.scale, shape)


class Gaussian(NoiseLaw):
    """The normal law; its scale is the standard deviation."""

    tag = "gaussian"
    name, words = "Gaussian", "Gaussian noise of deviation"
    unit, excess = 1.0, 0.0
    power = 2

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`."""
        squares = np.asarray(values, np.float64) ** 2
        return np.asarray(-squares / (2 * self.scale**2) - math.log(self.scale * math.sqrt(2 * math.pi)))

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`."""
        return rng.normal(0, self.scale, shape)


@dataclass(frozen=True)
class Rounded(NoiseLaw):
    """No noise, but numbers rounded to the nearest multiple of the scale: errors are taken as uniform.

    Args:
        scale: of which figures are multiples.
        of_whole: whether the true numbers are whole. Rounded to 1 they are exact.
    """

    of_whole: bool = True
    tag = "rounded"
    name, words = "rounding", "rounded to multiples of"
    unit, excess = 1 / 12, -1.2

    @classmethod
    def on(cls, scale: float, *, whole: bool) -> Self:
        """See `NoiseLaw`."""
        return cls(scale, whole)

    @property
    def raw_variance(self) -> float:
        """See `NoiseLaw`."""
        return self.reach * (self.reach + 1) / 3 if self.of_whole else self.scale**2 / 12

    @property
    def reach(self) -> float:
        """See `NoiseLaw`: half a step, or the whole numbers in it."""
        return float(math.floor(self.scale / 2)) if self.of_whole else self.scale / 2

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`."""
        inside = np.abs(values) <= self.reach
        return np.where(inside, -math.log(2 * self.reach + 1 if self.of_whole else self.scale), -np.inf)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`."""
        if not self.of_whole:
            return rng.uniform(-self.reach, self.reach, shape)
        return rng.integers(-int(self.reach), int(self.reach) + 1, shape).astype(np.float64)

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Rounded(self.scale / steps, of_whole=False)


CELL_LAWS: dict[CellTag, type[CellLaw]] = {law.tag: law for law in (DiscreteLaplace, DiscreteGaussian)}
"""Laws of integer noise, by their tags."""
_ALL: tuple[type[NoiseLaw], ...] = (Laplace, Gaussian, *CELL_LAWS.values(), Rounded)
LAWS: dict[LawTag, type[NoiseLaw]] = {law.tag: law for law in _ALL}
"""All laws of single numbers, by their tags."""
