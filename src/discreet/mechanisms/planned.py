"""The planned release: few tables that hold every family, with budgets that follow from public sizes alone.

The families are merged where one larger table costs less error than several (`model/cover.py`), and each table gets a
share of the budget that suits all families, or a workload of queries (`theory/workload.py`). Readers pool all tables by
least squares (`inference/interactions.py`), so the error to expect of every family is known before anything is spent.

With a delta the plan has a second form, discrete Gaussian noise on the families that lie in no other, which pays for
many tables by the root of their number. Merging does not pay there. The form that is expected to have less error, of
all families or of the workload's answers, is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from discreet.errors import InputError
from discreet.inference.interactions import MOST_VARIABLES, Blur, cell_variance, pooled_variances
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within
from discreet.mechanisms.table_scales import laplace_scales, noisy_tables
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import Query
from discreet.model.schema import Scope
from discreet.privacy.guarantee import Guarantee
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise
from discreet.releases.measurement import CellNoise, noise_variance
from discreet.sensitive.count_sensitivity import cells_moved
from discreet.sensitive.counts import Counts
from discreet.theory.workload import default_shares, workload_error, workload_shares

__all__ = ["planned"]

STEPS = 10**12
"""Budgets are multiples of the guarantee's part in so many: they print as decimals, and next to nothing is lost."""
LONG = 10**30
"""Budgets with a larger denominator are rounded down, so that their parts can be written into a release."""
VANISHING = 1e-200
"""Stands for errors too small for floating point."""


def planned(*, workload: Sequence[str | Query] | None = None) -> Mechanism[PlannedNoise]:
    """Noise on merged tables, with budgets from public sizes; docs/posterior.md has the error per epsilon.

    Args:
        workload: queries for which the budget is spent, text or parsed, over the network of the release; None serves
            all families alike.

    Returns:
        The mechanism.

    Raises:
        InputError: a workload that is one text; when a release is calibrated, an epsilon that no noise can keep, a
            family of more than 14 variables, or a workload that does not fit the network.

    Guarantee:
        Pure epsilon with discrete Laplace noise: adding or removing a record changes one cell of each table by one,
        replacing it two (s), so table t with noise of scale `s / epsilon_t` is epsilon_t-DP, and the tables compose to
        `sum_t epsilon_t` <= epsilon. Where the guarantee has a delta and Gaussian noise is taken, table t is rho_t =
        `s / (2 scale_t^2)`-zCDP, and `sum_t rho_t` is at most the rho whose tight conversion keeps epsilon at delta;
        where Laplace noise is taken, delta is charged and not used. Tables, budgets and the choice depend on the
        network, the prior, the workload and the guarantee alone. Unit: one record, counted whole.

    Source:
        Dwork and Roth (2014), Theorems 3.6 and 3.16; Ghosh et al. (2009) for integer noise; Canonne, Kamath and Steinke
        (2020), Theorem 4 and Proposition 12; Bun and Steinke (2016), Lemma 1.7, for composition.
    """
    if isinstance(workload, str):
        raise InputError("a workload is a list of queries, such as ['P(A | B=b)']")
    queries = None if workload is None else tuple(workload)

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> PlannedNoise:
        def shares(scopes: Sequence[Scope], noise: Literal["laplace", "gaussian"]) -> dict[Scope, float]:
            if queries is None:
                return default_shares(network, scopes, noise)
            return workload_shares(network, prior, queries, scopes, noise)

        large = [node for node in network.nodes if len(network.family(node)) > MOST_VARIABLES]
        if large:
            raise InputError(
                f"planned pools tables of at most {MOST_VARIABLES} variables, but {large[0]!r} has "
                f"{len(network.parents[large[0]])} parents; give it fewer, or use the mechanism 'laplace'"
            )
        moved = cells_moved(guarantee.relation)
        plan = _laplace_plan(network, shares(network.clique_cover(), "laplace"), guarantee.epsilon, moved)
        if not guarantee.delta:
            return plan
        try:
            _, rho, reported = deviation_for(1, guarantee)
        except InputError:
            return plan  # Gaussian noise cannot keep this guarantee; Laplace noise can.
        families = [network.ordered(network.family(node)) for node in network.maximal_families]
        other = _gaussian_plan(network, shares(families, "gaussian"), _in_digits(rho), reported, moved)
        if queries is None:
            return min(plan, other, key=lambda each: _error(network, each))
        return min(
            plan, other, key=lambda each: workload_error(network, prior, queries, _blurs(each.noise, each.scales))
        )

    def draw(statistic: Counts, prior: Dirichlet, calibration: PlannedNoise, noise: Noise) -> NoisyTables:
        add = noise.discrete_laplace if calibration.noise == "discrete_laplace" else noise.discrete_gaussian
        joints = {scope: statistic.joint(scope) for scope in calibration.scales}
        tables = noisy_tables(joints, calibration.scales, add)
        return NoisyTables(statistic.network, tables, calibration.scales, calibration.noise)

    return Mechanism("planned", calibrate, draw)


def _laplace_plan(network: Network, shares: Mapping[Scope, float], epsilon: Fraction, moved: int) -> PlannedNoise:
    """Discrete Laplace noise; epsilon goes to the tables by their shares."""
    budgets = _budgets(shares, epsilon)
    scales, reported = laplace_scales(budgets, moved)
    expected = _expected(network, _blurs("discrete_laplace", scales))
    if len(scales) == 1:
        ((scope, scale),) = scales.items()
        alone = [node for node in network.nodes if network.ordered(network.family(node)) == scope]
        expected |= dict.fromkeys(alone, _laplace_error(scale))
    return PlannedNoise("discrete_laplace", moved, budgets, scales, reported, expected)


def _gaussian_plan(
    network: Network, shares: Mapping[Scope, float], rho: Fraction, reported: Fraction, moved: int
) -> PlannedNoise:
    """Discrete Gaussian noise; rho, which keeps the guarantee, goes to the tables by their shares."""
    budgets = _budgets(shares, rho)
    scales = {scope: deviation_within(moved, budget)[0] for scope, budget in budgets.items()}
    expected = _expected(network, _blurs("discrete_gaussian", scales))
    return PlannedNoise("discrete_gaussian", moved, budgets, scales, reported, expected)


def _budgets(shares: Mapping[Scope, float], whole: Fraction) -> dict[Scope, Fraction]:
    """Exact parts of a budget, proportional to the shares and rounded down: together at most the whole."""
    if whole.denominator > LONG:
        whole = _in_digits(whole)
    exact = {scope: Fraction(share) for scope, share in shares.items()}
    total = sum(exact.values(), Fraction())
    return {scope: whole * Fraction(math.floor(share / total * STEPS), STEPS) for scope, share in exact.items()}


def _in_digits(rho: Fraction) -> Fraction:
    """A loss rounded down to 13 or 14 digits: its parts then print as decimals."""
    # Numbers of digits: a float would underflow.
    unit = Fraction(10) ** (len(str(rho.numerator)) - len(str(rho.denominator)) - 13)
    return math.floor(rho / unit) * unit


def _blurs(noise: CellNoise, scales: Mapping[Scope, float]) -> dict[Scope, Blur]:
    """What the noise does to each table; records squared."""
    return {scope: Blur(max(noise_variance(noise, scale), VANISHING)) for scope, scale in scales.items()}


def _laplace_error(scale: float) -> float:
    """Its mean absolute value, `2 q / (1 - q^2)`; records."""
    return max(-2 * math.exp(-1 / scale) / math.expm1(-2 / scale), VANISHING)


def _expected(network: Network, blurs: Mapping[Scope, Blur]) -> dict[str, float]:
    """Mean absolute error of a cell of each family's table after least squares, as if it were normal; records."""
    pooled = pooled_variances(network, blurs)
    expected = {node: cell_variance(network, pooled, network.ordered(network.family(node))) for node in network.nodes}
    return {node: math.sqrt(2 / math.pi * variance) for node, variance in expected.items()}


def _error(network: Network, plan: PlannedNoise) -> float:
    """Expected absolute error of all families' cells together; records."""
    return sum(network.cells(network.family(node)) * error for node, error in plan.expected.items())
