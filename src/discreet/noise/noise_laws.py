"""Laws of noise, one class for each; mechanisms, readers, plans and audits call its methods.

Documents contain its tag. A new law of single numbers is a class here, or in a file of its own, and a line of `LAWS`.
`k_norm.py` has noise on whole vectors, and `star.py` noise on tables that agrees on their shared variables.
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
"""Variance of an exactly known number: the next whole number is a thousand standard deviations away."""
NORMAL_TAIL = 1.959964
"""Half-width of a 95 % interval, in standard deviations."""

LaplaceTag = Literal["discrete_laplace"]
"""Tag of `P(k) ~ exp(-|k| / scale)`, the default law."""
GaussianTag = Literal["discrete_gaussian"]
"""Tag of `P(k) ~ exp(-k^2 / (2 scale^2))`; documents name a law only if it is not the default."""
CellTag = Literal[LaplaceTag, GaussianTag]
"""Tags of integer noise."""
LawTag = Literal["laplace", "gaussian", CellTag, "rounded"]
"""Tags of all laws of single numbers, including continuous ones of other publishers' figures, and rounding to the
nearest multiple of the scale."""
ShapeTag = Literal["cube", "ball", "diamond"]
"""Unit ball of the norm in which noise on a vector is calibrated: of the largest entry, the Euclidean norm, or the sum
of the absolute entries."""
GroupedTag = Literal["cube", "discrete_gaussian"]
"""Tags of noise on vectors released by groups: cube noise on each group, or independent noise on every entry."""
VectorTag = ShapeTag | GaussianTag
"""Tags of noise on a vector: by a norm, or independent on every entry."""


class IntegerNoise(Protocol):
    """Source of independent noise on whole numbers."""

    def discrete_laplace(self, values: Ints, scale: float) -> Ints:
        """Add independent noise, `P(noise = k) ~ exp(-|k| / scale)`, to every entry.

        Args:
            values: records; any shape, entries from -2^53 to 2^53.
            scale: unit: records.

        Returns:
            Noisy entries, same shape.
        """

    def discrete_gaussian(self, values: Ints, scale: float) -> Ints:
        """Add independent noise, `P(noise = k) ~ exp(-k^2 / (2 scale^2))`; see `discrete_laplace` for the arguments."""


class VectorSource(IntegerNoise, Protocol):
    """Source of noise on single numbers, on whole vectors, and on tables that share variables."""

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
        """Add noise to tables, which agrees on their shared variables; see `star_noise`.

        Args:
            tables: shape (cells of the shared variables, cells of a row), entries from -2^53 to 2^53.
            scale: records.

        Returns:
            Noisy tables, same shapes.
        """


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """Law of noise in numbers, independent in each unless a law states otherwise.

    Args:
        scale: in the unit of the numbers.

    Attributes:
        tag: Name in documents.
        name: Name in texts.
        words: Text before its scale.
        unit: Variance at scale 1, in the limit of large scales.
        excess: Excess kurtosis, in the same limit.
        integer: True for whole numbers.
        power: Power of the distance in the exponent of its density; for rounding, that of the tails beyond.
        tied: Tables whose noise is drawn jointly, by their variables; none if every table has its own.
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
        """Variance of the noise in a number; it may underflow to 0."""
        return self.unit * self.scale**2

    @property
    def variance(self) -> float:
        """Variance of the noise in a number, with a positive lower bound, so that weights are finite."""
        return max(self.raw_variance, KNOWN_VARIANCE)

    def sum_interval(self, total: float, numbers: int) -> tuple[float, float]:
        """Compute an interval of 95 % of a sum of counts without its noise, by variance and kurtosis.

        Args:
            total: of the noisy counts.
            numbers: of counts, at least 1; their noise is independent.

        Returns:
            Ends of at least 0.

        Source:
            Cornish and Fisher (1938).

        Example:
            >>> [round(end, 1) for end in Laplace(10.0).sum_interval(100.0, 1)]  # exactly 70.0 to 130.0
            [69.4, 130.6]
        """
        tail = NORMAL_TAIL + (NORMAL_TAIL**3 - 3 * NORMAL_TAIL) * self.excess / numbers / 24
        reach = tail * math.sqrt(self.variance * numbers)
        return max(total - reach, 0.0), max(total + reach, 0.0)

    @property
    def keeps_integers(self) -> bool:
        """True if figures with it are whole numbers: by integer noise, or no noise, on whole numbers."""
        return self.integer or self.reach == 0

    @property
    def reach(self) -> float | None:
        """Largest absolute value; None if it has no bound."""
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
        """Draw the noise of a table, and of all tables whose noise is drawn jointly with it.

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
        """Convert the law to units of several steps each, in which integer noise counts as continuous.

        Args:
            steps: at least 1.
        """
        return replace(self, scale=self.scale / steps)

    @classmethod
    def on(cls, scale: float, *, integers: bool) -> Self:
        """Make the law for figures whose true numbers are whole or not, which matters for rounding."""
        return cls(scale)


def each_failure(cells: int, failure: float) -> float:
    """Compute the failure probability of each of some independent variates, from that of any of them failing.

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
    """Integer noise for the cells of tables, calibrated to a budget.

    Attributes:
        budget: Name of the loss to which it is calibrated.
        concentrated: True for zero-concentrated privacy, from which epsilon follows at a delta.
        order, factor: Its variance is `factor * (cells that a record moves / budget)^order`.
        share_power: Budgets of tables are proportional to this power of their errors at budget 1. With Laplace noise
            the sum of the absolute errors, `sum c / epsilon`, is least at 1/2, and that of the squared ones at 1/3; 0.4
            is a compromise. With Gaussian noise it is `sum c / sqrt(rho)`, least at 2/3.
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
        """Compute the number of cells in which neighbours may differ, each by one record, for a loss of this budget."""
        return float((self.unit / self.factor) ** (1 / self.order) * self.scale ** (2 / self.order) * budget)

    @classmethod
    def variance_at(cls, budget: Fraction, moved: int) -> Fraction:
        """Compute the variance at a budget, for a table; neighbours differ in `moved` cells, by a record each."""
        return cls.factor * (moved / budget) ** cls.order

    @staticmethod
    @abstractmethod
    def affordable(deviation: float, budget: Fraction, moved: int) -> int:
        """Count the tables among which a budget may be split evenly for noise of at most this standard deviation."""


class DiscreteLaplace(CellLaw):
    """Discrete Laplace law, `P(k) ~ exp(-|k| / scale)`, of whole numbers; also called geometric."""

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
        """Mean absolute value, `2 q / (1 - q^2)`; it may underflow to 0."""
        return -2 * math.exp(-1 / self.scale) / math.expm1(-2 / self.scale)

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`: `(1 - q) / (1 + q) q^|k|`."""
        return np.asarray(math.log(math.tanh(0.5 / self.scale)) - np.abs(values) / self.scale)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`: the difference of two geometric variates."""
        success = -math.expm1(-1 / self.scale)
        noise = rng.geometric(success, shape) - rng.geometric(success, shape)
        return np.asarray(noise, np.float64)

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Laplace(self.scale / steps)

    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """See `CellLaw`."""
        return source.discrete_laplace(values, self.scale)

    def loss(self, distance: int) -> float:
        """Compute the privacy loss between vectors at an L1 distance, nats."""
        return distance / self.scale

    def largest(self, cells: int, failure: float) -> int:
        """Compute a bound on the absolute values of independent variates.

        It follows from `P(|noise| > t) = 2 q^(t+1) / (1 + q)` with `q = exp(-1 / scale)`.

        Args:
            cells: number of variates.
            failure: probability that some variate exceeds it.

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
    """Discrete Gaussian law, `P(k) ~ exp(-k^2 / (2 scale^2))`, of whole numbers.

    `variance` is an upper bound, Canonne et al. (2020), Corollary 9.
    """

    tag: ClassVar[GaussianTag] = "discrete_gaussian"
    name, words = "discrete Gaussian", "discrete Gaussian noise of deviation"
    unit, excess = 1.0, 0.0
    power = 2
    budget, concentrated = "rho", True
    order, factor = 1, Fraction(1, 2)
    share_power = 2 / 3

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`; by Poisson's summation if the scale is not small."""
        terms = np.arange(1, 10)
        if self.scale < 1:
            total = math.log1p(2 * float(np.exp(-(terms**2) / (2 * self.scale**2)).sum()))
        else:
            bumps = np.exp(-2 * (math.pi * self.scale * terms) ** 2)
            total = math.log(self.scale * math.sqrt(2 * math.pi)) + math.log1p(2 * float(bumps.sum()))
        return np.asarray(-(np.asarray(values, np.float64) ** 2) / (2 * self.scale**2) - total)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`: rounded normal variates, accurate enough for a simulation."""
        return np.asarray(np.rint(rng.normal(0, self.scale, shape)))

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Gaussian(self.scale / steps)

    def add(self, values: Ints, source: IntegerNoise) -> Ints:
        """See `CellLaw`."""
        return source.discrete_gaussian(values, self.scale)

    def losses(self, distances: Sequence[int]) -> tuple[Floats, Floats]:
        """Compute the privacy losses between vectors with these distances of entries, nats, and their probabilities."""
        reach = math.ceil(12 * self.scale) + 2
        mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * self.scale**2))
        mass /= mass.sum()
        # The loss for one cell moved by m is (2 k m + m^2) / (2 scale^2), linear in the noise k: sums of m k suffice.
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
    """Laplace law, of density `exp(-|x| / scale) / (2 scale)`."""

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
    """Normal law, whose scale is the standard deviation."""

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
    """Rounding to the nearest multiple of the scale, whose errors are modelled as uniform.

    Args:
        scale: figures are its multiples.
        of_integers: whether the true numbers are whole; rounded to 1 they are exact.
    """

    of_integers: bool = True
    tag = "rounded"
    name, words = "rounding", "rounded to multiples of"
    unit, excess = 1 / 12, -1.2

    @classmethod
    def on(cls, scale: float, *, integers: bool) -> Self:
        """See `NoiseLaw`."""
        return cls(scale, integers)

    @property
    def raw_variance(self) -> float:
        """See `NoiseLaw`."""
        return self.reach * (self.reach + 1) / 3 if self.of_integers else self.scale**2 / 12

    @property
    def reach(self) -> float:
        """See `NoiseLaw`: half a step, or the whole numbers in it."""
        return float(math.floor(self.scale / 2)) if self.of_integers else self.scale / 2

    def log_density(self, values: npt.ArrayLike) -> Floats:
        """See `NoiseLaw`."""
        inside = np.abs(values) <= self.reach
        return np.where(inside, -math.log(2 * self.reach + 1 if self.of_integers else self.scale), -np.inf)

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """See `NoiseLaw`."""
        if not self.of_integers:
            return rng.uniform(-self.reach, self.reach, shape)
        return rng.integers(-int(self.reach), int(self.reach) + 1, shape).astype(np.float64)

    def per_unit(self, steps: int) -> NoiseLaw:
        """See `NoiseLaw`."""
        return Rounded(self.scale / steps, of_integers=False)


CELL_LAWS: dict[CellTag, type[CellLaw]] = {law.tag: law for law in (DiscreteLaplace, DiscreteGaussian)}
"""Laws of integer noise, by their tags."""
_ALL: tuple[type[NoiseLaw], ...] = (Laplace, Gaussian, *CELL_LAWS.values(), Rounded)
LAWS: dict[LawTag, type[NoiseLaw]] = {law.tag: law for law in _ALL}
"""All laws of single numbers, by their tags."""
