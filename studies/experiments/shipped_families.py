"""What the package charges for the families of Dimitrakakis et al. (JMLR 2017), Section 5, beside the exact constants.

`dc.research.sampled` draws a parameter from a public grid, and a number counts as its bin; what it charges is a
property of that public table (`discreet.research.mechanisms.scored`). Under a family a bin is as likely as the mean of
the densities in it, so that a bin's likelihood ratio is one of a number in it, or between two of them: the loss is
never above that of real numbers, and below it by no more than a bin's width allows.
The law is the family's within the variable's bounds; where
a record is replaced or moved, that changes nothing, as both records have the same normaliser.

Here are these losses, the exact ones, and the weight of a record in releases of the mechanism at the exact losses:
a temper of 1 is the posterior itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
from scipy import stats

import discreet as dc
from discreet.research.mechanisms.scored import metric_width, score_width
from discreet.research.scores.likelihood_sensitivity import record_loss
from discreet.research.scores.score_tables import SCORE_STEPS, ScoreTable

from .conjugate_constants import FAMILIES, FLOOR, MATRICES, UNIFORM, VECTORS, Rates
from .trimmed_laws import BetaBinomial, ExponentialRate, LaplaceRate, NormalPrecision

Floats = npt.NDArray[np.float64]

__all__ = [
    "CASES",
    "Compared",
    "bits_of",
    "chain_losses",
    "network_tempers",
    "rates_within_bounds",
    "shipped_rates",
    "tempers",
    "width",
]

ADD_REMOVE, REPLACE, METRIC = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE, dc.Relation.METRIC
BINS, UNIT = 256, 8
"""Bins of a number, and how many of them are the unit of a metric."""
SIDE, COVERED = 16, 0.9
"""Bins of each of two numbers; and the part of the range over all matrices that those of a grid have at least."""
COUNTED = Fraction(20, 19)
"""Under ADD_REMOVE the mechanism gives 1/20 of epsilon to the number of records."""
ROUNDING = 4 / SCORE_STEPS
"""Of a whole number of steps, in units of the span: a difference of differences has four of half a step."""
BIT = "21: one bit, w = .1"


@dataclass(frozen=True, eq=False)
class Compared:
    """A family as it is shipped, and what the real numbers that it stands for cost; all in nats.

    Args:
        score: public: of `dc.research.sampled`.
        replaced: exact loss of a replaced record.
        added: of an added one, under the law within the variables' bounds.
        slack: by how much a bin's width can lower the loss of one record.
        moved: exact loss of a change by one unit; NaN where a record is no number.
        unit: that one, in the unit of the record.
        covered: part of the loss that the grid's parameters have at least.
    """

    score: dc.research.Family | ScoreTable
    replaced: float
    added: float
    slack: float
    moved: float = math.nan
    unit: Fraction = Fraction(1)
    covered: float = 1.0

    @property
    def table(self) -> ScoreTable:
        """Scores of all types of records on the grid."""
        return self.score.table if isinstance(self.score, dc.research.Family) else self.score

    def band(self, relation: dc.Relation) -> tuple[float, float, float]:
        """Exact loss, and the least and the largest that bins, grid and whole steps leave; nats.

        A replaced record has two bins. Units are rounded up, so that a change by one can come to one and a bin; and the
        steepest unit, which of a square is at the end of the range, may be a bin from there.
        """
        rounding = ROUNDING * self.table.span
        if relation is METRIC:
            return self.moved, self.moved * (1 - 2 / (BINS - UNIT)) - rounding, self.moved * (1 + 1 / UNIT) + rounding
        exact, bins = relation.by_record((self.added, 1), (self.replaced, 2))
        return exact, self.covered * (exact - bins * self.slack) - rounding, exact + rounding


def width(table: ScoreTable, relation: dc.Relation, unit: Fraction = Fraction(1)) -> float:
    """What a draw of the posterior itself costs.

    Args:
        table: public.
        relation: of the guarantee.
        unit: of a metric.

    Returns:
        Nats, for a record or a unit; the number of records, which ADD_REMOVE has to pay for, apart.
    """
    steps = metric_width(table, unit) if relation is METRIC else score_width(table, relation)
    return steps / SCORE_STEPS * table.span


# ------------------------------------------------------------------------------------------ rates and precisions


def _bounds(family: Rates) -> tuple[float, float]:
    """Public range of a record."""
    return (0.0 if isinstance(family, ExponentialRate) else -family.bound), family.bound


def shipped_rates(family: Rates) -> dc.research.Family:
    """The same family, prior and bounds on public grids."""
    names = {ExponentialRate: "exponential", LaplaceRate: "laplace", NormalPrecision: "normal"}
    law, known = family.prior, {}
    match family:
        case LaplaceRate(location=location):
            known = {"location": location}
        case NormalPrecision(mean=mean):
            known = {"mean": mean}
    support = {"low": law.low, "high": law.high, "shape": law.shape, "rate": law.rate}
    return dc.research.Family(names[type(family)], (dc.Variable.binned("x", _bounds(family), BINS),), support | known)


def rates_within_bounds(family: Rates) -> float:
    """Loss of an added record: the largest range over theta of its log density within the bounds.

    Args:
        family: trimmed.

    Returns:
        Nats, over a grid of records and parameters with the ends of both.
    """
    low, high = _bounds(family)
    theta = np.geomspace(family.prior.low, family.prior.high, 4001)
    match family:
        case ExponentialRate():
            law = stats.expon(scale=1 / theta)
        case LaplaceRate(location=location):
            law = stats.laplace(location, 1 / theta)
        case NormalPrecision(mean=mean):
            law = stats.norm(mean, theta**-0.5)
    logs = law.logpdf(np.linspace(low, high, 201)[:, None]) - np.log(law.cdf(high) - law.cdf(low))
    return float(np.ptp(logs, axis=1).max())


def unit_of(family: Rates) -> Fraction:
    """`UNIT` bins, as a round number says it."""
    low, high = _bounds(family)
    return Fraction(UNIT, BINS) * (Fraction(str(high)) - Fraction(str(low)))


def _farthest(family: Rates) -> tuple[float, float]:
    """Most that one unit of change, and that a small one for each unit of the record, can cost; nats."""
    low, high = _bounds(family)
    amount, width_ = float(unit_of(family)), family.prior.high - family.prior.low
    if not isinstance(family, NormalPrecision):
        return width_ * amount, width_
    # From the end of the range that is farther from the mean, towards it.
    far = max(abs(low - family.mean), abs(high - family.mean))
    return width_ / 2 * (far**2 - (far - amount) ** 2), width_ * far


def _rates(family: Rates) -> Compared:
    """Rates and precisions."""
    moved, steepest = _farthest(family)
    low, high = _bounds(family)
    return Compared(
        shipped_rates(family),
        family.record_loss(REPLACE),
        rates_within_bounds(family),
        steepest * (high - low) / BINS,
        moved,
        unit_of(family),
    )


# ------------------------------------------------------------------------------------------ bits, vectors, chains


def bits_of(theta: Floats, prior: Floats, lipschitz: float) -> Compared:
    """Zeros and ones with one of finitely many probabilities of a one, as a family of one's own.

    Args:
        theta: shape (parameters,).
        prior: of the same shape.
        lipschitz: the L of Assumption 1, nats for each unit of |x - y|.

    Returns:
        The family over a number in [0, 2) in two bins, zero and one, which are a unit apart.
    """
    network = dc.Network((dc.Variable.binned("x", (0, 2), 2),), {"x": ()})

    def bits(types: Mapping[str, npt.NDArray[np.generic]], z: Floats) -> Floats:
        return np.where(np.asarray(types["x"], np.float64)[:, None] >= 1, np.log(z[:, 0]), np.log1p(-z[:, 0]))

    family = dc.research.own_family(network, bits, theta, prior=prior)
    return Compared(family, 2 * lipschitz, lipschitz, 0.0, 2 * lipschitz)


def _bit() -> Compared:
    """Lemma 21, trimmed: exact in every way."""
    law = BetaBinomial(1, 1, FLOOR)
    coin = dc.research.Family("bernoulli", (dc.Variable("x", ("0", "1")),), {"floor": FLOOR})
    return Compared(coin, law.record_loss(REPLACE), law.record_loss(ADD_REMOVE), 0.0)


def _precisions(side: int, turns: int) -> Floats:
    """2 x 2 matrices with the eigenvalues of `MATRICES`, ends and diagonal directions among them; (matrices, 2, 2)."""
    values, angles = np.linspace(MATRICES.low, MATRICES.high, side), np.pi * np.arange(turns) / turns
    one, other, angle = (axis.ravel() for axis in np.meshgrid(values, values, angles, indexing="ij"))
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.einsum("ikn,kn,jkn->nij", turned, np.array([one, other]), turned)


def _vectors() -> Compared:
    """Lemma 23 in the square whose corners are unit vectors: perpendicular ones are the farthest records."""
    half = math.sqrt(0.5)
    pair = tuple(dc.Variable.binned(name, (-half, half), SIDE) for name in "xy")
    shipped = dc.research.Family(
        "multivariate_normal", pair, {"low": MATRICES.low, "high": MATRICES.high, "degrees": 3}, 4096
    )
    matrices = _precisions(7, 8)
    points, weights = np.polynomial.legendre.leggauss(30)
    square = half * np.array([part.ravel() for part in np.meshgrid(points, points)])
    mass = half**2 * np.outer(weights, weights).ravel()
    normaliser = np.log(np.exp(-np.einsum("in,kij,jn->kn", square, matrices, square) / 2) @ mass)
    records = half * np.array(list(product(np.linspace(-1, 1, 9), repeat=2))).T
    logs = -np.einsum("in,kij,jn->nk", records, matrices, records) / 2 - normaliser
    # The middle of a corner's bin is half a bin's diagonal from the corner, which is at a distance of 1.
    slack = (MATRICES.high - MATRICES.low) / SIDE
    return Compared(shipped, MATRICES.record_loss(REPLACE), float(np.ptp(logs, axis=1).max()), slack, covered=COVERED)


def chain_losses(floor: float) -> tuple[float, float, float]:
    """A chain of two states whose transitions are the records of a family of one's own.

    Args:
        floor: least probability of a transition.

    Returns:
        Nats: what the package charges for two replaced transitions, which a replaced time step is; the largest change
        that a replaced time step makes to sums of its scores, over all sequences of five; and the same for a time step
        that is put in.
    """
    states = (dc.Variable("previous", ("0", "1")), dc.Variable("state", ("0", "1")))
    network = dc.Network(states, {"previous": (), "state": ("previous",)})
    rows = np.array(list(product(np.linspace(floor, 1 - floor, 9), repeat=2)))

    def transition(types: Mapping[str, npt.NDArray[np.generic]], z: Floats) -> Floats:
        """Rows sum to 1, so that all parameters have one normaliser."""
        one = np.where(types["previous"][:, None] == "1", z[:, 1], z[:, 0])
        return np.asarray(np.log(np.where(types["state"][:, None] == "1", one, 1 - one)))

    table = dc.research.own_family(network, transition, rows)
    score = table.steps / SCORE_STEPS * table.span

    def total(sequence: tuple[int, ...]) -> Floats:
        return np.asarray(sum(score[2 * one + other] for one, other in pairwise(sequence)))

    sequences = list(product((0, 1), repeat=5))
    replaced = max(
        float(np.ptp(total(x) - total((*x[:at], 1 - x[at], *x[at + 1 :])))) for x in sequences for at in range(5)
    )
    added = max(
        float(np.ptp(total(x) - total((*x[:at], state, *x[at:]))))
        for x, at, state in product(sequences, range(1, 5), (0, 1))
    )
    return 2 * width(table, REPLACE), replaced, added


CASES: Mapping[str, Callable[[], Compared]] = {
    **{case: (lambda family=family: _rates(family)) for case, family in FAMILIES.items() if case != UNIFORM},
    BIT: _bit,
    VECTORS: _vectors,
}
"""Families of `dc.research.sampled`; a prior changes none of their losses."""


# ------------------------------------------------------------------------------------------ releases


def tempers(compared: Compared) -> Iterator[tuple[dc.Relation, float, float, float]]:
    """The weight of a record in releases at the exact losses.

    Args:
        compared: a family; ADD_REMOVE pays for the number of records on top.

    Returns:
        Relation, the exact loss that is bought, in nats, and tempers of a release at that and at half of it.
    """
    network = compared.table.network
    counts = dc.tools.count_codes(network, {name: np.zeros(3, np.int64) for name in network.nodes})
    for relation in (REPLACE, ADD_REMOVE, METRIC):
        loss = compared.band(relation)[0]
        if not math.isnan(loss):
            unit = f"{float(compared.unit)} of a reading" if relation is METRIC else "record"
            times = COUNTED if relation is ADD_REMOVE else Fraction(1)
            found = [
                _temper(dc.research.sampled(compared.score), counts, Fraction(loss) * times * part, relation, unit)
                for part in (Fraction(1), Fraction(1, 2))
            ]
            yield relation, loss, *found


def network_tempers() -> tuple[float, float]:
    """The same of `dc.research.posterior_sampler` on five trimmed bits, a record replaced; it keeps 1e-7 a node."""
    names = "abcde"
    network = dc.Network(tuple(dc.Variable(name, ("0", "1")) for name in names), dict.fromkeys(names, ()))
    loss = record_loss(network, dict.fromkeys(names, FLOOR), REPLACE)
    counts = dc.tools.count_codes(network, {name: np.zeros(3, np.int64) for name in names})
    whole, half = (
        _temper(dc.research.posterior_sampler(floor=FLOOR), counts, Fraction(loss) * part, REPLACE, "record")
        for part in (Fraction(1), Fraction(1, 2))
    )
    return whole, half


def _temper(
    mechanism: dc.tools.Mechanism, counts: dc.results.Counts, epsilon: Fraction, relation: dc.Relation, unit: str
) -> float:
    """Of one simulated release."""
    guarantee = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit=unit)
    prior = dc.Dirichlet.uniform(counts.network, 1.0)
    release = dc.simulate(mechanism, counts, prior, guarantee, rng=np.random.default_rng(1))
    payload = release.payload
    if isinstance(payload, dc.research.ParameterDraws | dc.research.ScoredChoice):
        return payload.temper
    raise TypeError("a sampler releases draws")
