"""Two stages: a cheap measurement of all tables, then the rest where it helps most (Chowdhury et al., corrected).

Corrections: one table for each family, because the paper's second table cancels out of every estimate; exact integer
noise; both stages are released and merged by their variances; sampling in the first stage is optional, because it makes
that stage's counts worse (relative to their size), never better; and under REPLACE the noise is that of REPLACE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

import numpy as np

from discreet.errors import InputError, require_word
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, scale_for
from discreet.mechanisms.table_scales import noisy_tables, pure_only, table_noise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.noise.noise_laws import DiscreteLaplace
from discreet.privacy.guarantee import Guarantee, Number, Relation, as_rational, before_sampling
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_counts import NoisyCounts
from discreet.research.kinds.two_stages import Stages, TwoStageCounts

Rule = Literal["kl", "structure"]

LEAST_FLOOR = Fraction(1, 1000)
"""Smallest share of the second stage that is split evenly, so that every table has a budget greater than 0."""


def allocated(
    *,
    first: Number = "0.1",
    sampling: Number = 1,
    weights: Rule = "kl",
    floor: Number = "0.2",
) -> Mechanism:
    """Release noisy tables in two stages; the second's budgets depend on the first's release.

    Args:
        first: share of epsilon for the first stage, in (0, 1).
        sampling: probability with which each record is in the sample of each table of the first stage, in (0, 1]; less
            than 1 under ADD_REMOVE only. The noise is then smaller, but the counts shrink by more.
        weights: "kl" for budgets that minimise the expected divergence of the released network (proportional to the
            third root of a weight), or "structure" for the paper's weights (equations 11 to 13).
        floor: share of the second stage that is split evenly, so that every table has a budget; from 0.001 to 1.

    Returns:
        The mechanism.

    Raises:
        InputError: a share or probability out of its range, another rule; when a release is calibrated, sampling under
            REPLACE, or a guarantee with a delta.

    Guarantee:
        Pure epsilon. First stage: each of its M tables has a budget whose amplification by its own, independent Poisson
        sample is `first * epsilon / M`. The budgets of the second stage are functions of the first's release, and sum
        to at most the rest for every outcome of the first stage, so both compose. Coins and noise come from the
        operating system. Unit: one record, counted whole.

    Source:
        Chowdhury, Rekatsinas and Jha (ICML 2020), Algorithm 1, Theorem 3.1 and equations 11 to 13; Li, Qardaji and Su
        (2012) for sampling; Dwork and Roth (2014), Section 3.5, for adaptive composition.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> stages = dc.research.allocated(first="0.2").calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> stages.first_epsilon, stages.second_epsilon
        (Fraction(1, 5), Fraction(4, 5))
    """
    share = as_rational(first, "first")
    probability = as_rational(sampling, "sampling")
    even = as_rational(floor, "floor")
    if not (0 < share < 1 and 0 < probability <= 1 and LEAST_FLOOR <= even <= 1):
        raise InputError(
            f"first must be between 0 and 1, sampling above 0 and at most 1, floor from {float(LEAST_FLOOR)} to 1"
        )
    require_word(weights, Rule, "weights are")

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> Stages:
        pure_only("allocated", guarantee)
        if probability < 1 and guarantee.relation is not Relation.ADD_REMOVE:
            raise InputError(
                "Poisson sampling amplifies privacy under add-remove guarantees only; use sampling=1, or an add-remove "
                "guarantee"
            )
        tables = network.maximal_families
        first_epsilon = share * guarantee.epsilon
        second_epsilon = guarantee.epsilon - first_epsilon
        # For every outcome of the first stage the second's scales must exist: nothing may fail after the charge.
        for extreme in (even * second_epsilon / len(tables), second_epsilon):
            scale_for(cells_moved(guarantee.relation), extreme)
        table_epsilon = before_sampling(first_epsilon / len(tables), probability)
        noise = table_noise(dict.fromkeys(tables, table_epsilon), cells_moved(guarantee.relation))
        return Stages(noise, first_epsilon, second_epsilon, probability, weights)

    def draw(statistic: Counts, prior: Dirichlet, calibration: Stages, noise: Noise) -> TwoStageCounts:
        network, scales = statistic.network, calibration.first.scales
        if probability < 1:
            thinned = statistic.tables.map(lambda table: noise.thin(table, probability))
        else:
            thinned = statistic.tables
        first_counts = NoisyCounts(network, noisy_tables(network, thinned, scales, DiscreteLaplace, noise), scales)
        shares = table_shares(first_counts, weights, float(probability))
        budgets = _split_budget(shares, calibration.second_epsilon, even)
        second = table_noise(budgets, calibration.first.sensitivity)
        tables = noisy_tables(network, statistic.tables, second.scales, DiscreteLaplace, noise)
        return TwoStageCounts(first_counts, NoisyCounts(network, tables, second.scales), probability)

    return Mechanism("allocated", calibrate, draw)


def table_shares(first_counts: NoisyCounts, rule: Rule, probability: float) -> dict[str, float]:
    """Divide the second stage among the measured tables, by the first stage's release alone.

    Args:
        first_counts: noisy counts of the first stage.
        rule: as in `allocated`.
        probability: of a record to be in the first stage's sample.

    Returns:
        Positive numbers that sum to 1.
    """
    weights = node_weights(first_counts, rule, probability)
    tables = dict.fromkeys(first_counts.tables, 0.0)
    for node, weight in weights.items():
        # A family that is summed from a larger table has the noise of all summed cells.
        terms = first_counts.terms(node)
        tables[first_counts.source(node)] += weight * (terms if rule == "kl" else math.sqrt(terms))
    # sum w / epsilon^2 is least for epsilon ~ w^(1/3), sum w / epsilon for epsilon ~ w^(1/2): equation 13 without its
    # products, which overflow.
    power = 1 / 3 if rule == "kl" else 1 / 2
    powers = {node: max(weight, 1e-300) ** power for node, weight in tables.items()}
    total = sum(powers.values())
    return {node: value / total for node, value in powers.items()}


def node_weights(first_counts: NoisyCounts, rule: Rule, probability: float) -> dict[str, float]:
    """Weigh each family by the loss from its table's noise, up to a common factor.

    Args:
        first_counts: noisy counts.
        rule: "kl": `w = sum over rows of (sum_x 1 / theta_x - K) / N_row`, so that expected KL is `sum w / epsilon^2`;
            "structure": `(height + 1)(out-degree + 1)(Delta + 1)` times the mean error of a row's probabilities
            (equations 7, 11 and 12), where `sum w / epsilon` is minimised. Delta is a constant of the graph.
        probability: of a record to be in the sample.

    Returns:
        Weights by node.

    Source:
        Chowdhury, Rekatsinas and Jha (2020), equations 7, 11, 12 with the counts clamped at 1; the KL weights follow
        from the second-order expansion of the divergence of two Dirichlet rows.
    """
    network = first_counts.network
    weights = {}
    for node in network.nodes:
        counts = np.maximum(first_counts.table(node) / probability, 1.0)
        rows = counts.sum(axis=-1, keepdims=True)
        theta = counts / rows
        if rule == "kl":
            spread = (1 / theta).sum(axis=-1) - theta.shape[-1]
            weights[node] = float((spread / rows[..., 0]).sum())
        else:
            error = theta * np.sqrt(1 / rows**2 + 1 / counts**2)
            shape = (
                (network.heights[node] + 1) * (network.out_degree(node) + 1) * (_compute_influence(network, node) + 1)
            )
            weights[node] = float(shape * error.mean())
    return weights


def _compute_influence(network: Network, node: str) -> float:
    """Compute Delta of equation 7: `1 / rows` times the mean over children of `1 / states`; 0 for leaves."""
    children = network.children(node)
    if not children:
        return 0.0
    return sum(1 / network.schema[child].size for child in children) / (
        len(children) * network.cells(network.parents[node])
    )


def _split_budget(shares: Mapping[str, float], epsilon: Fraction, even: Fraction) -> dict[str, Fraction]:
    """Split epsilon exactly, into budgets with at most this sum; shares are rounded down to multiples of 2^-40."""
    steps = 2**40
    return {
        node: epsilon * (even / len(shares) + (1 - even) * Fraction(math.floor(share * (1 - 1e-9) * steps), steps))
        for node, share in shares.items()
    }
