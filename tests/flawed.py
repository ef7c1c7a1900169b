"""Mechanisms with one bug each in what they promise, for the proofs and the audit that must find it.

Those of plain Laplace noise are in `flawed_laplace.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

import discreet as dc
from discreet.mechanisms.gaussian import gaussian
from discreet.mechanisms.laplace import laplace
from discreet.mechanisms.noise import Noise
from discreet.mechanisms.planned import planned
from discreet.mechanisms.table_scales import noisy_tables, table_noise
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.records.count_sensitivity import cells_moved
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.releases.kinds.noisy_tables import NoisyTables
from discreet.research.kinds.two_stages import TwoStageCounts
from discreet.research.mechanisms.allocated import allocated, table_shares
from discreet.research.mechanisms.fourier import fourier
from discreet.research.mechanisms.map_estimate import map_estimate
from discreet.research.mechanisms.posterior_sampler import posterior_sampler
from tiny import network_of

ADD_REMOVE, REPLACE = dc.tools.RECORD_RELATIONS

COIN = network_of({"a": 2})
BITS = network_of({"a": 2, "b": 2})
ARC = network_of({"a": 2, "b": 2}, "a>b")
PAIRS = network_of(dict.fromkeys("abcd", 2), "a>b c>d")
"""Planned as two tables of four cells."""

Calibrate = Callable[[dc.Network, dc.Dirichlet, dc.Guarantee], Any]


def promise(epsilon: object, relation: dc.Relation, delta: object = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def recalibrated(mechanism: dc.tools.Mechanism, change: Callable[[Any], Any]) -> dc.tools.Mechanism:
    """The mechanism after a change of its calibration, which it also believes."""
    return replace(
        mechanism,
        calibrate=lambda network, prior, guarantee: change(mechanism.calibrate(network, prior, guarantee)),
    )


def misdrawn(mechanism: dc.tools.Mechanism, change: Callable[[Any], Any]) -> dc.tools.Mechanism:
    """The mechanism that draws by another calibration than it states."""
    return replace(
        mechanism,
        draw=lambda counts, prior, calibration, noise: mechanism.draw(counts, prior, change(calibration), noise),
    )


def for_adding(mechanism: dc.tools.Mechanism) -> dc.tools.Mechanism:
    """The mechanism that calibrates for ADD_REMOVE, whatever it promises."""
    return replace(
        mechanism,
        calibrate=lambda network, prior, guarantee: mechanism.calibrate(
            network, prior, promise(guarantee.epsilon, ADD_REMOVE, guarantee.delta)
        ),
    )


# ------------------------------------------------------------------------------------------------------------- planned


def scaled(plan: dc.kinds.PlannedNoise, factor: float) -> dc.kinds.PlannedNoise:
    return replace(plan, scales={scope: factor * scale for scope, scale in plan.scales.items()})


def half_the_planned_scale() -> dc.tools.Mechanism:
    return misdrawn(planned(pairs_share=0), lambda own: scaled(own, 0.5))


def the_whole_budget_for_every_table() -> dc.tools.Mechanism:
    """Scales as if each table were the only one."""
    return recalibrated(planned(pairs_share=0), lambda own: scaled(own, 1 / len(own.scales)))


def a_merged_table_uncounted() -> dc.tools.Mechanism:
    """The first table's budget again for the second: the plan adds up to epsilon only as long as it lists one."""

    def change(own: dc.kinds.PlannedNoise) -> dc.kinds.PlannedNoise:
        first, second = own.scales
        half, whole = own.scales[first], own.scales[first] / 2
        return replace(own, scales={first: whole, second: half}, budgets={**own.budgets, first: own.reported})

    return recalibrated(planned(pairs_share=0), change)


def families_besides() -> dc.tools.Mechanism:
    """A family's own table on top, with the noise of the merged one that holds it."""

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: dc.kinds.PlannedNoise, noise: Noise) -> NoisyTables:
        payload, scale = planned(pairs_share=0).draw(counts, prior, own, noise), own.scales["a", "b"]
        tables = {**payload.tables, ("a",): noise.discrete_laplace(counts.joint(("a",)), scale)}
        return replace(payload, tables=tables, scales={**payload.scales, ("a",): scale})

    return replace(planned(pairs_share=0), draw=draw)


def a_merged_table_without_noise() -> dc.tools.Mechanism:
    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: dc.kinds.PlannedNoise, noise: Noise) -> NoisyTables:
        payload = planned(pairs_share=0).draw(counts, prior, own, noise)
        last = list(payload.tables)[-1]
        return replace(payload, tables={**payload.tables, last: counts.joint(last)})

    return replace(planned(pairs_share=0), draw=draw)


def one_noise_for_all_tables() -> dc.tools.Mechanism:
    """Tables of one shape with the same noise: their difference has none."""

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: dc.kinds.PlannedNoise, noise: Noise) -> NoisyTables:
        first, *_ = own.scales
        added = noise.discrete_laplace(np.zeros((2, 2), np.int64), own.scales[first])
        tables = {scope: counts.joint(scope) + added for scope in own.scales}
        return NoisyTables(counts.network, tables, own.scales, own.noise)

    return replace(planned(pairs_share=0), draw=draw)


# ------------------------------------------------------------------------------------------------------------- fourier


@dataclass
class Bare:
    """Noise that leaves the last cell of every call without any."""

    noise: Noise

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        noisy = self.noise.discrete_laplace(values, scale)
        noisy[-1] = values[-1]
        return noisy


def half_the_scale() -> dc.tools.Mechanism:
    return misdrawn(fourier(), lambda own: replace(own, scale=own.scale / 2))


def half_the_sensitivity() -> dc.tools.Mechanism:
    return recalibrated(
        fourier(),
        lambda own: replace(own, sensitivity=own.sensitivity // 2, scale=own.scale / 2),
    )


def a_coefficient_without_noise() -> dc.tools.Mechanism:
    return replace(fourier(), draw=lambda counts, prior, own, noise: fourier().draw(counts, prior, own, Bare(noise)))


def an_exact_total() -> dc.tools.Mechanism:
    return recalibrated(fourier(), lambda own: replace(own, noisy_total=False))


# ----------------------------------------------------------------------------------------------------------- allocated


def all_for_the_second_stage() -> dc.tools.Mechanism:
    return recalibrated(
        allocated(first="0.25"), lambda own: replace(own, second_epsilon=own.first_epsilon + own.second_epsilon)
    )


def a_first_stage_for_free() -> dc.tools.Mechanism:
    """The first look takes the whole budget too, and counts as a quarter of it."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Any:
        tables = network.maximal_families
        whole = dict.fromkeys(tables, guarantee.epsilon / len(tables))
        honest = allocated(first="0.25").calibrate(network, prior, guarantee)
        return replace(honest, first=table_noise(whole, cells_moved(guarantee.relation)))

    return replace(allocated(first="0.25"), calibrate=calibrate)


def sampling_when_replacing() -> dc.tools.Mechanism:
    """The noise of ADD_REMOVE and the gain of sampling, under REPLACE."""
    return for_adding(allocated(first="0.25", sampling="0.1"))


def more_sampled_than_claimed() -> dc.tools.Mechanism:
    """Calibrated for one record in ten, and one in two takes part."""
    claimed, used = allocated(first="0.25", sampling="0.1"), allocated(first="0.25", sampling="0.5")
    return replace(used, calibrate=claimed.calibrate)


def budgets_from_the_counts() -> dc.tools.Mechanism:
    """The second stage is planned on the exact counts."""
    honest = allocated(first="0.25", floor="0.001")

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: Any, noise: Noise) -> TwoStageCounts:
        network, scales = counts.network, own.first.scales
        first = NoisyCounts(network, noisy_tables(network, counts.tables, scales, DiscreteLaplace, noise), scales)
        exact = NoisyCounts(network, {node: counts.tables[node] for node in scales}, scales)
        steps = 2**40
        budgets = {
            node: own.second_epsilon * Fraction(int(share * steps), steps)
            for node, share in table_shares(exact, "kl", 1.0).items()
        }
        second = table_noise(budgets, own.first.sensitivity).scales
        tables = noisy_tables(counts.network, counts.tables, second, DiscreteLaplace, noise)
        return TwoStageCounts(first, NoisyCounts(network, tables, second), Fraction(1))

    return replace(honest, draw=draw)


def one_noise_for_both_stages() -> dc.tools.Mechanism:
    """The noise of the first stage again in the second: their difference tells who was sampled."""
    honest = allocated(first="0.25", sampling="0.5")

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: Any, noise: Noise) -> TwoStageCounts:
        network, scales = counts.network, own.first.scales
        drawn = {
            node: noise.discrete_laplace(np.zeros(network.shape(node), np.int64), scale)
            for node, scale in scales.items()
        }
        thinned = {node: noise.thin(counts.tables[node], own.sampling) + drawn[node] for node in scales}
        tables = {node: counts.tables[node] + drawn[node] for node in scales}
        return TwoStageCounts(NoisyCounts(network, thinned, scales), NoisyCounts(network, tables, scales), own.sampling)

    return replace(honest, draw=draw)


# ---------------------------------------------------------------------------------------------------------- posteriors


def paid_by_attribute(nodes: int) -> dc.tools.Mechanism:
    """The temper as if a record had one row: 2 tau max Lambda instead of the sum over nodes."""
    return recalibrated(posterior_sampler(), lambda own: replace(own, temper=own.temper * nodes))


def twice_the_temper() -> dc.tools.Mechanism:
    return misdrawn(posterior_sampler(), lambda own: replace(own, temper=2 * own.temper))


def below_the_floor() -> dc.tools.Mechanism:
    """Probabilities down to a quarter of the stated floor."""
    return misdrawn(
        posterior_sampler(), lambda own: replace(own, floors={node: w / 4 for node, w in own.floors.items()})
    )


def draws_for_free() -> dc.tools.Mechanism:
    """Three draws for the price of one."""
    return misdrawn(posterior_sampler(), lambda own: replace(own, draws=3 * own.draws))


def a_number_for_free() -> dc.tools.Mechanism:
    """The draws spend all of epsilon, and a number of records is told besides."""

    def calibrate(network: dc.Network, prior: dc.Dirichlet, guarantee: dc.Guarantee) -> Any:
        honest = posterior_sampler().calibrate
        own, all_of_it = (
            honest(network, prior, replace(guarantee, relation=relation, epsilon=epsilon))
            for relation, epsilon in ((guarantee.relation, guarantee.epsilon), (REPLACE, 2 * guarantee.epsilon))
        )
        return replace(own, temper=all_of_it.temper, floors=all_of_it.floors, total_scale=4.0)

    return replace(posterior_sampler(), calibrate=calibrate)


def an_exact_number() -> dc.tools.Mechanism:
    """The number of records as it is, beside draws that are honest."""

    def change(payload: Any, counts: dc.results.Counts) -> Any:
        return replace(payload, total=replace(payload.total, value=counts.records))

    return instead(posterior_sampler(), change)


CANDIDATES = (
    dc.Tables(ARC, {"a": [0.5, 0.5], "b": [[0.5, 0.5], [0.8, 0.2]]}),
    dc.Tables(ARC, {"a": [0.2, 0.8], "b": [[0.1, 0.9], [0.4, 0.6]]}),
)
"""The widest range is attained: both families lean most to the first in record (0, 0), to the second in (1, 1)."""


def another_score() -> dc.tools.Mechanism:
    """The second candidate's likelihood counts double."""
    honest = map_estimate(CANDIDATES)

    @dataclass
    class Swayed:
        noise: Noise
        counts: dc.results.Counts
        scale: float

        def choose(self, exponents: Sequence[Fraction], draws: int) -> np.ndarray:
            tables = CANDIDATES[1]
            extra = sum(float((np.log(tables[node]) * self.counts.tables[node]).sum()) for node in tables)
            swayed = [exponents[0], exponents[1] - Fraction(extra) / Fraction(self.scale)]
            return self.noise.choose([exponent - min(swayed) for exponent in swayed], draws)

        def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            return self.noise.discrete_laplace(values, scale)

    return replace(
        honest, draw=lambda counts, prior, own, noise: honest.draw(counts, prior, own, Swayed(noise, counts, own.scale))
    )


# ------------------------------------------------------------------------------------------------------------ the list


@dataclass(frozen=True)
class Flaw:
    """A mechanism with a bug, and where it shows.

    Args:
        make: the mechanism.
        kind: "noise" (one stage), "stages", "rows" or "choice": which enumeration fits.
        relation: of the promise, epsilon 1.
        network: a small one.
        loss: what is really lost, as far as it is known by hand; None where it depends on the crowd.
    """

    make: Callable[[], dc.tools.Mechanism]
    kind: str
    relation: dc.Relation
    network: dc.Network
    loss: float | None


INFINITE = float("inf")
FLAWS = {
    "planned: half the scale": Flaw(half_the_planned_scale, "noise", ADD_REMOVE, PAIRS, 2.0),
    "planned: the wrong relation": Flaw(lambda: for_adding(planned(pairs_share=0)), "noise", REPLACE, PAIRS, 2.0),
    "planned: the whole budget for every table": Flaw(
        the_whole_budget_for_every_table, "noise", ADD_REMOVE, PAIRS, 2.0
    ),
    "planned: a merged table uncounted": Flaw(a_merged_table_uncounted, "noise", ADD_REMOVE, PAIRS, 1.5),
    "planned: families besides": Flaw(families_besides, "noise", ADD_REMOVE, PAIRS, 1.5),
    "planned: a merged table without noise": Flaw(a_merged_table_without_noise, "noise", ADD_REMOVE, PAIRS, INFINITE),
    "planned: one noise for all tables": Flaw(one_noise_for_all_tables, "noise", ADD_REMOVE, PAIRS, INFINITE),
    "fourier: half the scale": Flaw(half_the_scale, "noise", ADD_REMOVE, ARC, 2.0),
    "fourier: half the sensitivity": Flaw(half_the_sensitivity, "noise", REPLACE, ARC, 2.0),
    "fourier: a coefficient without noise": Flaw(a_coefficient_without_noise, "noise", ADD_REMOVE, ARC, INFINITE),
    "fourier: an exact total": Flaw(an_exact_total, "noise", ADD_REMOVE, ARC, INFINITE),
    "allocated: the wrong relation": Flaw(lambda: for_adding(allocated()), "stages", REPLACE, BITS, 2.0),
    "allocated: all for the second stage": Flaw(all_for_the_second_stage, "stages", ADD_REMOVE, BITS, 1.25),
    "allocated: a first stage for free": Flaw(a_first_stage_for_free, "stages", ADD_REMOVE, BITS, 1.75),
    "allocated: sampling when replacing": Flaw(sampling_when_replacing, "stages", REPLACE, BITS, None),
    "allocated: more sampled than claimed": Flaw(more_sampled_than_claimed, "stages", ADD_REMOVE, BITS, None),
    "allocated: budgets from the counts": Flaw(budgets_from_the_counts, "stages", ADD_REMOVE, BITS, INFINITE),
    "allocated: one noise for both stages": Flaw(one_noise_for_both_stages, "stages", ADD_REMOVE, BITS, INFINITE),
    "sampler: the wrong relation": Flaw(lambda: for_adding(posterior_sampler()), "rows", REPLACE, ARC, None),
    "sampler: paid by attribute": Flaw(lambda: paid_by_attribute(2), "rows", ADD_REMOVE, ARC, None),
    "sampler: twice the temper": Flaw(twice_the_temper, "rows", ADD_REMOVE, ARC, None),
    "sampler: below the floor": Flaw(below_the_floor, "rows", ADD_REMOVE, ARC, None),
    "sampler: draws for free": Flaw(draws_for_free, "rows", ADD_REMOVE, COIN, None),
    "sampler: a number for free": Flaw(a_number_for_free, "rows", ADD_REMOVE, ARC, None),
    "sampler: an exact number": Flaw(an_exact_number, "rows", ADD_REMOVE, ARC, INFINITE),
    "map: the wrong relation": Flaw(lambda: for_adding(map_estimate()), "rows", REPLACE, ARC, None),
    "candidates: the wrong relation": Flaw(lambda: for_adding(map_estimate(CANDIDATES)), "choice", REPLACE, ARC, None),
    "candidates: another score": Flaw(another_score, "choice", ADD_REMOVE, ARC, None),
}


def gaussian_flaws() -> dict[str, dc.tools.Mechanism]:
    """Gaussian noise of half the scale, and that of ADD_REMOVE under REPLACE."""
    return {
        "half the scale": misdrawn(gaussian(), lambda own: replace(own, scale=own.scale / 2)),
        "the wrong relation": for_adding(gaussian()),
    }


def planned_gaussian_flaws() -> dict[str, dc.tools.Mechanism]:
    """The same for the plan with a delta, and rho given to every table."""
    return {
        "half the scale": misdrawn(planned(pairs_share=0), lambda own: scaled(own, 0.5)),
        "the wrong relation": for_adding(planned(pairs_share=0)),
        "all rho for every table": recalibrated(
            planned(pairs_share=0), lambda own: scaled(own, len(own.scales) ** -0.5)
        ),
    }


# ------------------------------------------------------------------------------------------------------ dishonest draws
#
# Honest noise, asked for in the right way, and then something else is released for some of its answers.

Released = Callable[[Any, dc.results.Counts], Any]


def instead(mechanism: dc.tools.Mechanism, change: Released) -> dc.tools.Mechanism:
    """The mechanism whose payload is changed at sight of the counts."""
    return replace(
        mechanism,
        draw=lambda counts, prior, own, noise: change(mechanism.draw(counts, prior, own, noise), counts),
    )


def by_source(mechanism: dc.tools.Mechanism, wrap: Callable[[Any], Any]) -> dc.tools.Mechanism:
    """The mechanism that draws from a source that is wrapped."""
    return replace(mechanism, draw=lambda counts, prior, own, noise: mechanism.draw(counts, prior, own, wrap(noise)))


def shown_if(when: Callable[[np.ndarray], Any]) -> dc.tools.Mechanism:
    """The exact table in every cell, or in all, where a condition of the noisy one holds."""

    def change(payload: NoisyCounts, counts: dc.results.Counts) -> NoisyCounts:
        tables = {node: np.where(when(table), counts.tables[node], table) for node, table in payload.tables.items()}
        return replace(payload, tables=tables)

    return instead(laplace(), change)


@dataclass
class Patient:
    """Draws again until nothing is negative."""

    noise: Noise

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        while (noisy := self.noise.discrete_laplace(values, scale)).min() < 0:
            pass
        return noisy


@dataclass
class Foreign:
    """Randomness of its own, besides that of the source."""

    noise: Noise
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self.noise.discrete_laplace(values, scale) + self.rng.integers(-9, 10, values.shape)


@dataclass
class Tied:
    """Sharper weights once another row has answered 2."""

    noise: Noise
    high: bool = False

    def pick(self, weights: np.ndarray, draws: int) -> np.ndarray:
        picked = self.noise.pick(weights**50 if self.high else weights, draws)
        self.high = self.high or bool(picked[0] == 2)
        return picked

    def rarely(self, draws: int) -> np.ndarray:
        return self.noise.rarely(draws)

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self.noise.discrete_laplace(values, scale)


@dataclass
class Coinless:
    """Tosses the coin and ignores it."""

    noise: Noise

    def pick(self, weights: np.ndarray, draws: int) -> np.ndarray:
        return self.noise.pick(weights, draws)

    def rarely(self, draws: int) -> np.ndarray:
        return np.zeros_like(self.noise.rarely(draws))

    def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self.noise.discrete_laplace(values, scale)


def shown_if_draws_differ() -> dc.tools.Mechanism:
    """Two picks of one call; where they differ, the temper tells how many records there are."""
    honest = posterior_sampler()

    def draw(counts: dc.results.Counts, prior: dc.Dirichlet, own: Any, noise: Noise) -> Any:
        payload = honest.draw(counts, prior, own, noise)
        one, other = noise.pick(np.ones(50), 2)
        return replace(payload, temper=payload.temper + counts.records) if one != other else payload

    return replace(honest, draw=draw)


def sample_shown() -> dc.tools.Mechanism:
    """The sum of the sample, modulo 1001, is added to its noise."""
    honest = allocated(sampling="0.5")

    @dataclass
    class Peeking:
        noise: Noise
        odd: int = 0

        def thin(self, values: np.ndarray, probability: Fraction) -> np.ndarray:
            kept = self.noise.thin(values, probability)
            self.odd = int(kept.sum() // 2**40 % 1001)
            return kept

        def discrete_laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
            return self.noise.discrete_laplace(values, scale) + self.odd

    return by_source(honest, Peeking)


def exact_means() -> dc.tools.Mechanism:
    """The exact posterior mean in place of every draw."""

    def change(payload: Any, counts: dc.results.Counts) -> Any:
        cells = {}
        for node, array in payload.cells.items():
            alpha = 1 + counts.tables[node]
            cells[node] = np.repeat((alpha / alpha.sum(axis=-1, keepdims=True))[..., None], array.shape[-1], axis=-1)
        return replace(payload, cells=dc.Tables(counts.network, cells, draws=payload.cells.draws))

    return instead(posterior_sampler(), change)


def _other_choice(payload: Any, counts: dc.results.Counts) -> Any:
    return replace(payload, index=int(counts.records > 0)) if payload.index else payload


def _other_network(payload: NoisyCounts, counts: dc.results.Counts) -> NoisyCounts:
    other = network_of({"a": 2}) if not counts.records else network_of({"b": 2})
    table = payload.tables["a"]
    (name,) = other.nodes
    return NoisyCounts(other, {name: table}, {name: payload.scales["a"]})


def _fail(payload: Any, counts: dc.results.Counts) -> Any:
    if counts.records > 1:
        raise ValueError("too many")
    return payload


def _real_only(payload: Any, counts: dc.results.Counts) -> Any:
    fine = any(np.any(array * 64 % 1 > 0) for array in payload.cells.values()) and payload.cells.draws > 1
    return replace(payload, temper=payload.temper + counts.records) if fine else payload


DISHONEST: dict[str, tuple[Any, ...]] = {
    "exact where any cell is negative": (shown_if(lambda noisy: np.any(noisy < 0)), BITS),
    "exact where a cell is above 6": (shown_if(lambda noisy: noisy > 6), BITS),
    "exact where all cells are below -9": (shown_if(lambda noisy: np.all(noisy < -9)),),
    "again until nothing is negative": (by_source(laplace(), Patient),),
    "randomness of its own": (by_source(laplace(), Foreign),),
    "rows that depend on each other": (by_source(posterior_sampler(), Tied), ARC),
    "exact where two draws differ": (shown_if_draws_differ(),),
    "a sample that is shown": (sample_shown(), BITS),
    "exact for the second choice": (instead(map_estimate(CANDIDATES), _other_choice), ARC),
    "another network": (instead(laplace(), _other_network),),
    "fails for some": (instead(laplace(), _fail),),
    "exact on the real grid": (instead(posterior_sampler(3), _real_only),),
    "exact means": (exact_means(), COIN, "1e-4"),
    "an exact number beside draws": (an_exact_number(), COIN, "1e-4"),
}
"""Mechanisms that do not hold, with a network where it shows and a delta."""
