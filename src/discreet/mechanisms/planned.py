"""Planned release: tables that hold every family, and a share of the budget for pairs that none of them holds.

What a network says of variables that no table holds together is believed, not measured; on real tables it is often
wrong. So the plan gets most of the budget, and a second stage measures such pairs: all of them where that can be
afforded, else those that the tables of the first stage misjudge most, and some at random, by which a reader can judge
the rest. Where the records are too few for it the plan gets everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from discreet.errors import InputError, require, shown
from discreet.inference.exact_laws import pair_laws
from discreet.mechanisms.bin_search import with_found_bins
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within, scale_for
from discreet.mechanisms.numbers import with_numbers
from discreet.mechanisms.table_plans import round_to_digits, table_plan
from discreet.mechanisms.table_scales import laplace_scales, noisy_tables
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import Query
from discreet.model.schema import Scope
from discreet.model.tables import Tables
from discreet.noise.noise_laws import CELL_LAWS, CellLaw, DiscreteGaussian
from discreet.planning.pair_budget import (
    SELECTION_SHARE,
    PairPlan,
    all_pairs,
    chosen_pairs,
    plan_pairs,
    prefers_gaussian,
    queried_pairs,
)
from discreet.privacy.guarantee import Guarantee, Number, as_rational, as_text
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise, measured_part
from discreet.releases.kinds.tables_with_pairs import NoiseWithPairs, TablesWithPairs, pairs_beyond
from discreet.util.arrays import Array, margin

PAIRS_SHARE, PAIRS_SHARE_WITHOUT_ARCS = Fraction(1, 5), Fraction(4, 5)
"""Shares of epsilon for pairs, of networks with and without arcs. Without arcs, on one real table, shares of 0.5 to 0.9
differed by a tenth in error, and 0.2 had nearly twice their error."""
SHARED = ("pairs", "numbers", "bins")
"""Purposes that may have a share of epsilon beside the tables."""
PILOT_SHARE = Fraction(1, 100)
"""Share of epsilon for the number of records, if it is private: a hundredth of a pair more or less for each."""
LEAST_CELL_RECORDS = 0.5
"""Lower bound of the first stage's cells, in records, while pairs are selected."""
SCALE_ENLARGEMENT = 1e-12
"""Relative enlargement of a scale of choices: scores are integers, only the scale is a float."""


def planned(
    *,
    workload: Sequence[str | Query] | None = None,
    records: int | None = None,
    pairs_share: Number | None = None,
    numbers_share: Number | None = None,
    bins_share: Number | None = None,
) -> Mechanism:
    """Release noisy counts of few tables, selected from public sizes for the least error of all families: the default.

    Families that share variables are measured by one table over all of them, or by several whose noise agrees where
    they meet; a part of epsilon goes to pairs of variables that lie in no table together, so that a wrong network
    shows. docs/posterior.md has the error per epsilon, docs/network.md what the pairs are for.

    Args:
        workload: queries for which the budget is spent, text or parsed, over the network of the release; None serves
            all families alike. Pairs are then those that a query names together.
        records: a public number, or a guess, which may be left out. Families that are too large for the budget are then
            measured without some of their parents, and the number of pairs follows from it; a guess that was ten times
            off was no worse than none. Without it, and for a workload, all families are measured whole, and the number
            of records costs a hundredth of epsilon where it is private and there are pairs.
        pairs_share: share of epsilon that the pairs get, in [0, 1); where too few could be measured well, they get
            nothing. None for 0.2, or for 0.8 of a network without arcs, which has little else to measure. Of networks
            with more than 1,000 pairs it is for some of these; a workload says which matter.
        numbers_share: share of epsilon for sums of numeric columns beside the tables, in [0, 1): means, quantiles and
            correlations are then measured, not only bins. None for 0.15 times the fraction of numeric columns and the
            root of epsilon (of its half under replace), at most 0.2; 0 for none.
        bins_share: share of epsilon that finds bins of numeric columns with bounds alone, in (0, 1). None for 0.1 for
            one such column and 0.05 for each further one, at most 0.25.

    Returns:
        The mechanism. Where no pair is left out, or a stated number of records is too small, it is a plan of tables
        alone.

    Raises:
        InputError: a workload that is one text, records that are no whole number above 0, or a share outside [0, 1);
            when a release is calibrated, an epsilon that no noise can keep, a family of more than 14 variables, or a
            workload that does not fit the network.

    Guarantee:
        Epsilon and delta, for adding or removing a record (s = 1) or replacing it (s = 2). The noisy total
        has sensitivity 1 and is drawn under ADD_REMOVE alone; elsewhere the number of records is public, or was given.
        The plan of the first stage is as private as `table_plan` says, whichever of the two that were calibrated is
        taken, and that follows from what is public by then. A choice has `P(T) ~ exp(q_T / scale)`, where q_T is the
        L1 distance of T's counts from whole numbers that follow from the first stage. The record moves the counts of
        T by at most s, so q_T by s (reverse triangle inequality), and the choice costs `2 s / scale`; pairs at random
        depend on no record; T's table moves by s. Gaussian noise on K pairs, where there is a delta, is `s K / (2
        scale^2)`-zCDP, which keeps the second stage's epsilon at half of delta; the plan has the other half. The stages
        compose for every outcome of those before them. Coins and noise come from the operating system. Unit: one
        record, counted whole.

    Source:
        `table_plan` has those of its noise; Dwork and Roth (2014), Theorems 3.6, 3.10 and Section 3.5; McSherry and
        Talwar (2007); Hardt, Ligett and McSherry (2012) for choosing what a model misjudges most.

    Example:
        The noise of one table that holds both families, all of epsilon on it; nothing is spent by looking:

        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> noise = dc.planned().calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> dict(noise.scales), noise.total
        ({('rain', 'wet'): 1.0}, Fraction(1, 1))
    """
    stated, for_numbers, for_bins = map(_read_share, SHARED, (pairs_share, numbers_share, bins_share))
    require(for_bins != 0, "finding bins costs a share of epsilon above 0: declare bins, and it costs nothing")
    plan = table_plan(workload=workload, records=records)

    def share(network: Network) -> Fraction:
        more_arcs = len(network.arcs) > len(network.schema.conditions)
        return (PAIRS_SHARE_WITHOUT_ARCS, PAIRS_SHARE)[more_arcs] if stated is None else stated

    def beyond(network: Network) -> tuple[Scope, ...]:
        pairs_of = all_pairs if workload is None else partial(queried_pairs, queries=workload)
        return pairs_of(network) if share(network) else ()

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> NoiseWithPairs | PlannedNoise:
        return _calibrate_stages(plan, beyond(network), prior, guarantee, share(network), records)

    def draw(
        statistic: Counts, prior: Dirichlet, calibration: NoiseWithPairs | PlannedNoise, noise: Noise
    ) -> TablesWithPairs | NoisyTables:
        if isinstance(calibration, PlannedNoise):
            return _require_tables(plan.draw(statistic, prior, calibration, noise))
        network, total, known = statistic.network, None, calibration.records
        if calibration.total_scale is not None:
            total = known = int(noise.discrete_laplace(np.array([statistic.records]), calibration.total_scale)[0])
        candidates = pairs_beyond(beyond(network), calibration.plan.scales)
        number, law = _plan_second_stage(calibration, statistic.records if known is None else known, len(candidates))
        first_plan = calibration.plan if number else calibration.alone
        first = _require_tables(plan.draw(statistic, prior, first_plan, noise))
        if not number:
            return TablesWithPairs(network, first, {}, None, 0, total)
        chosen, others = _pick_pairs(statistic, first, candidates, number, calibration, noise)
        budget = calibration.for_pairs(len(chosen), law) / number
        scale = _find_pair_scale((*chosen, *others), budget, calibration, law)
        counted = {pair: statistic.joint(pair) for pair in (*chosen, *others)}
        pairs = noisy_tables(network, counted, dict.fromkeys(counted, scale), law, noise)
        special = DiscreteGaussian.tag if law is DiscreteGaussian else None
        return TablesWithPairs(network, first, pairs, scale, len(chosen), total, special)

    def count_cells(network: Network, noise: PlannedNoise | NoiseWithPairs) -> int:
        return sum(map(network.cells, noise.scopes))

    mechanism = Mechanism("planned", calibrate, draw, scopes=beyond, numbers=count_cells)
    return with_found_bins(with_numbers(mechanism, for_numbers), for_bins)


def _read_share(purpose: str, stated: Number | None) -> Fraction | None:
    """Read a share of epsilon; None for the default."""
    if stated is None:
        return None
    share = as_rational(stated, f"{purpose}_share")
    if not 0 <= share < 1:
        raise InputError(f"{purpose}_share is a share of epsilon for {purpose}, from 0 to below 1; got {shown(stated)}")
    return share


def _calibrate_stages(
    plan: Mechanism,
    wanted: tuple[Scope, ...],
    prior: Dirichlet,
    guarantee: Guarantee,
    share: Fraction,
    records: int | None,
) -> NoiseWithPairs | PlannedNoise:
    """Calibrate both stages, or the plan alone if there is no pair to measure or too little budget."""
    network, second, moved = prior.over, share * guarantee.epsilon, cells_moved(guarantee.relation)
    largest = pairs_beyond(wanted, map(network.family, network.nodes))

    def planned_for(epsilon: Fraction, delta: Fraction) -> PlannedNoise:
        noise: PlannedNoise = plan.calibrate(network, prior, replace(guarantee, epsilon=epsilon, delta=delta))
        return noise

    if not largest:
        return planned_for(guarantee.epsilon, guarantee.delta)
    delta, rho, rho_chosen = _try_gaussian(guarantee, second, moved, len(largest))
    delta_of_plan = guarantee.delta - (delta or 0)

    stages_of = partial(
        NoiseWithPairs, records=records, second=second, selection=SELECTION_SHARE, sensitivity=moved, delta=delta,
        rho=rho, rho_chosen=rho_chosen,
    )  # fmt: skip
    first = planned_for(guarantee.epsilon - second, delta_of_plan)
    stages = stages_of(plan=first, alone=first, total_scale=None, total_epsilon=None)
    number = len(pairs_beyond(wanted, first.scales))
    if not number or (records is not None and not _plan_second_stage(stages, records, number).pairs):
        return planned_for(guarantee.epsilon, guarantee.delta)
    # Every possible scale must exist: nothing may fail after the charge.
    scale_for(moved, second * SELECTION_SHARE / number)
    laws = [law for law in CELL_LAWS.values() if rho is not None or not law.concentrated]
    for law, chosen in product(laws, (0, 1)):
        _find_pair_scale(wanted[:1], stages.for_pairs(chosen, law) / number, stages, law)
    if records is not None:
        return stages
    if guarantee.relation.public_number:
        alone = planned_for(guarantee.epsilon, guarantee.delta)
        return stages_of(plan=first, alone=alone, total_scale=None, total_epsilon=None)
    scale, pilot = scale_for(1, PILOT_SHARE * guarantee.epsilon)
    rest = guarantee.epsilon - pilot
    if not rest > second:
        raise InputError(
            f"a share of {as_text(share)} for pairs leaves nothing for the network's tables: the number of records "
            f"takes {as_text(PILOT_SHARE)} of epsilon; ask for a smaller share"
        )
    first, alone = planned_for(rest - second, delta_of_plan), planned_for(rest, guarantee.delta)
    return stages_of(plan=first, alone=alone, total_scale=scale, total_epsilon=pilot)


def _try_gaussian(
    guarantee: Guarantee, second: Fraction, moved: int, candidates: int
) -> tuple[Fraction, Fraction, Fraction] | tuple[None, None, None]:
    """Find delta and the losses of Gaussian noise on pairs, without and with a selection, if it is smaller."""
    if guarantee.delta:
        half = replace(guarantee, delta=guarantee.delta / 2)
        with suppress(InputError):  # Gaussian noise cannot keep this guarantee; Laplace noise can
            rho, chosen = (
                round_to_digits(deviation_for(1, replace(half, epsilon=epsilon))[1])
                for epsilon in (second, second * (1 - SELECTION_SHARE))
            )
            if prefers_gaussian(second, rho, moved, candidates):
                return half.delta, rho, chosen
    return None, None, None


def _plan_second_stage(calibration: NoiseWithPairs, records: float, candidates: int) -> PairPlan:
    """Decide the number of measured candidates, and the law of their noise."""
    return plan_pairs(records, candidates, calibration.second, calibration.rho, calibration.sensitivity)


def _find_pair_scale(pairs: Sequence[Scope], budget: Fraction, stages: NoiseWithPairs, law: type[CellLaw]) -> float:
    """Find the scale of the noise on pairs with the same budget each."""
    if law.concentrated:
        return deviation_within(stages.sensitivity, budget)[0]
    scales, _ = laplace_scales(dict.fromkeys(pairs, budget), stages.sensitivity)
    return next(iter(scales.values()))


def find_choice_scale(calibration: NoiseWithPairs, rounds: int) -> float:
    """Find the scale of the selection of pairs: all rounds together cost at most their share of the second stage.

    Args:
        calibration: of the release.
        rounds: choices.
    """
    return math.nextafter(float(calibration.find_choice_scale(rounds)) * (1 + SCALE_ENLARGEMENT), math.inf)


def _require_tables(payload: object) -> NoisyTables:
    """Narrow the type of a plan's payload to noisy tables."""
    assert isinstance(payload, NoisyTables)
    return payload


def _pick_pairs(
    statistic: Counts,
    first: NoisyTables,
    candidates: Sequence[Scope],
    number: int,
    calibration: NoiseWithPairs,
    noise: Noise,
) -> tuple[list[Scope], list[Scope]]:
    """Pick the pairs to measure: some by misfit and some at random, or all."""
    rounds, remaining = chosen_pairs(number, len(candidates)), list(candidates)
    if number == len(remaining):
        return [], remaining
    expected = _expect_counts(first, candidates)
    misfit = {pair: float(np.abs(statistic.joint(pair) - expected[pair]).sum()) for pair in candidates}
    chosen, others = list[Scope](), list[Scope]()
    for _ in range(rounds):
        at = noise.noisy_max(np.array([misfit[pair] for pair in remaining]), find_choice_scale(calibration, rounds))
        chosen.append(remaining.pop(at))
    for _ in range(number - rounds):
        others.append(remaining.pop(int(noise.pick(np.ones(len(remaining)), 1)[0])))
    return chosen, others


def _expect_counts(first: NoisyTables, pairs: Sequence[Scope]) -> Mapping[Scope, Array]:
    """Predict counts of pairs, in whole numbers, from the first stage's released tables."""
    total = max(float(np.median([table.sum() for table in first.tables.values()])), 1.0)
    theta = Tables(first.network, {node: _estimate_rows(first, node) for node in first.network.nodes})
    return {pair: np.rint(total * law).astype(np.int64) for pair, law in pair_laws(theta, pairs).items()}


def _estimate_rows(first: NoisyTables, node: str) -> Array:
    """Estimate a conditional probability table from the first stage; unmeasured parents have no effect."""
    network, names = first.network, measured_part(first.network, first.tables, node)
    table = min(
        (scope for scope in first.tables if set(names) <= set(scope)), key=lambda scope: first.tables[scope].size
    )
    counts = np.maximum(margin(first.tables[table], table, names), LEAST_CELL_RECORDS)
    rows = counts / counts.sum(axis=-1, keepdims=True)
    family = network.family(node)
    whole = rows.reshape([network.schema[name].size if name in names else 1 for name in family])
    return np.array(np.broadcast_to(whole, network.shape(node)))
