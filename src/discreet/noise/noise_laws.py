"""Laws of noise, one class each; mechanisms, readers, plans and audits use their methods.

Documents have a law's tag. A new law of single numbers is a class here, or in another file, and a line of `LAWS`. Noise
on whole vectors is in `k_norm.py`, and noise on tables that agree on shared variables in `star.py`.
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
"""Scale from which on noise does not fit into a table of 64-bit numbers."""
KNOWN_VARIANCE = 1e-6
"""Variance of an exact number: the next whole number is a thousand deviations away."""

LaplaceTag = Literal["discrete_laplace"]
"""`P(k) ~ exp(-|k| / scale)`, for noise with this law only."""
GaussianTag = Literal["discrete_gaussian"]
"""`P(k) ~ exp(-k^2 / (2 scale^2))`, for documents that name a law only if it is not the default."""
CellTag = Literal["discrete_laplace", "discrete_gaussian"]
"""Integer noise."""
LawTag = Literal["laplace", "gaussian", "discrete_laplace", "discrete_gaussian", "rounded"]
"""All laws of single numbers, with the continuous ones of figures by others, and rounding to multiples of the scale."""
ShapeTag = Literal["cube", "ball", "diamond"]
"""Unit ball of the norm in which noise on a vector is calibrated: largest absolute entry, Euclidean norm, or sum of
absolute entries."""
GroupedTag = Literal["cube", "discrete_gaussian"]
"""Noise on vectors that are released by group: cube noise on each, or independent noise on every entry."""
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
        """Add independent noise, `P(noise = k) ~ exp(-k^2 / (2 scale^2))`; see above."""


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
        """Add noise to tables that share variables, equal on the shared ones; see `star_noise`.

        Args:
            tables: shape (cells of the shared variables, cells of a row), entries from -2^53 to 2^53.
            scale: records.

        Returns:
            Noisy tables, same shapes.
        """


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """A law of noise in numbers, independent in each by default.

    Args:
        scale: in the unit of the numbers.

    Attributes:
        tag: Its name in documents.
        name: Its name in words.
        words: Its description before the scale.
        unit: Variance at scale 1, in the limit of large scales.
        excess: Excess kurtosis, in the same limit.
        integer: True for noise of whole numbers.
        power: Power of the distance in the exponent of its density.
        tied: Tables whose noise is one draw, by their variables; empty if every table has its own.
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
        """Variance of the noise in a number; it may underflow."""
        return self.unit * self.scale**2

    @property
    def variance(self) -> float:
        """Variance of the noise in a number, at least KNOWN_VARIANCE, so that weights are finite."""
        return max(self.raw_variance, KNOWN_VARIANCE)

    @property
    def whole(self) -> bool:
        """True if figures with it are whole numbers: integer noise, or none at all, on whole numbers."""
        return self.integer or self.reach == 0

    @property
    def reach(self) -> float | None:
        """Largest distance that it moves a number; None if unbounded."""
        return None

    @property
    def tied(self) -> tuple[tuple[str, ...], ...]:
        """See the class."""
        return ()

    @abstractmethod
    def log_density(self, values: npt.ArrayLike) -> Floats:
        """Compute logarithms of the density of noise, or of the probability of whole numbers."""

    @abstractmethod
    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Draw noise, fast and seeded: for simulations, never for a release."""

    def simulate_tables(
        self, scope: tuple[str, ...], shape: tuple[int, ...], sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[tuple[str, ...], Floats]:
        """Draw the noise of a table, and of all tables whose noise is one draw with it.

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
        """Return the law in units of so many steps each, in which integer noise is nearly continuous.

        Args:
            steps: at least 1.
        """
        return replace(self, scale=self.scale / steps)

    @classmethod
    def on(cls, scale: float, *, whole: bool) -> Self:
        """Return the law for figures whose true numbers are whole, or may not be; it matters for rounding."""
        return cls(scale)


def each_failure(cells: int, failure: float) -> float:
    """Compute the failure probability of each of some independent variates from that of any of them.

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
    """Integer noise for the cells of tables, calibrated by a budget.

    Attributes:
        budget: Name of the loss of its calibration.
        concentrated: True if that is zero-concentrated; it then implies an epsilon for each delta.
        order, factor: Its variance is the factor times this power of the cells moved over the budget.
        share_power: Budgets of tables are proportional to this power of their error at budget 1. With Laplace noise
            the sum of absolute errors, `sum c / epsilon`, is least at 1/2, and that of squared errors at 1/3: 0.4 lies
            between. With Gaussian noise it is `sum c / sqrt(rho)`, least at 2/3.
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
        """Compute the number of cells that neighbours may differ in, each by one record, for a loss."""
        return float((self.unit / self.factor) ** (1 / self.order) * self.scale ** (2 / self.order) * budget)

    @classmethod
    def variance_at(cls, budget: Fraction, moved: int) -> Fraction:
        """Compute the variance for a budget, for a table where neighbours differ in so many cells by one record."""
        return cls.factor * (moved / budget) ** cls.order

    @staticmethod
    @abstractmethod
    def affordable(deviation: float, budget: Fraction, moved: int) -> int:
        """Count the tables that a budget, split evenly, gives noise of at most a standard deviation."""


class DiscreteLaplace(CellLaw):
    """Law `P(k) ~ exp(-|k| / scale)` of whole numbers, also called geometric."""

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
        """Mean absolute value, `2 q / (1 - q^2)`; it may underflow."""
        return -2 * math.exp(-1 / self.scale) / math.expm1(-2 / self.scale)

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`: `(1 - q) / (1 + q) q^|k|`."""
        return np.asarray(math.log(math.tanh(0.5 / self.scale)) - np.abs(values) / self.scale)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`: the difference of two geometric variates."""
        success = -math.expm1(-1 / self.scale)
        difference = rng.geometric(success, shape) - rng.geometric(success, shape)
        return np.asarray(difference, np.float64)

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Laplace(self.scale / steps)

    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """See `CellLaw`."""
        return source.discrete_laplace(values, self.scale)

    def loss(self, distance: int) -> float:
        """Compute the loss between vectors at an L1 distance, nats."""
        return distance / self.scale

    def largest(self, cells: int, failure: float) -> int:
        """Bound the absolute values of some independent variates.

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
    """Law `P(k) ~ exp(-k^2 / (2 scale^2))` of whole numbers. The variance is Canonne et al.'s bound (2020)."""

    tag: ClassVar[GaussianTag] = "discrete_gaussian"
    name, words = "discrete Gaussian", "discrete Gaussian noise of deviation"
    unit, excess = 1.0, 0.0
    power = 2
    budget, concentrated = "rho", True
    order, factor = 1, Fraction(1, 2)
    share_power = 2 / 3

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`; by Poisson's summation unless the scale is small."""
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
        """Compute the losses between vectors with these distances of entries, nats, and their probabilities."""
        reach = math.ceil(12 * self.scale) + 2
        mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * self.scale**2))
        mass /= mass.sum()
        # Moving one cell by m has the loss (2 k m + m^2) / (2 scale^2), linear in the noise k: sums of m k suffice.
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
    """Law of density `exp(-|x| / scale) / (2 scale)`."""

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
    """Normal law; its scale is the standard deviation."""

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
    """No noise, but rounding to the nearest multiple of the scale; errors are modelled as uniform.

    Args:
        scale: step of the figures.
        of_whole: True if the true numbers are whole. Rounded to 1 they are exact.
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
