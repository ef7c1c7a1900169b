"""Plans of tables: few tables that hold every family, with budgets from public sizes alone.

The families are merged where one larger table costs less error than several, and tables that share variables are put
into stars, whose noise agrees on what they share at the cost of one table (`planning/star_cover.py`). Each star, and
each table beside them, gets a share of the budget that suits all families, or a workload of queries
(`planning/workload.py`). Readers pool all tables by least squares (`inference/interactions.py`), so the error to expect
of every family is known before anything is spent.

With a delta the plan has a second form, discrete Gaussian noise on the families that lie in no other, which pays for
many tables by the root of their number. Merging does not pay there. The form that is expected to have less error, of
all families or of the workload's answers, is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from discreet.errors import InputError, require, shown
from discreet.inference.interactions import MOST_VARIABLES, Blur, cell_variance, pooled_variances
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise, deviation_for, deviation_within
from discreet.mechanisms.table_scales import laplace_scales, noisy_tables
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.query_grammar import Query
from discreet.model.schema import Scope
from discreet.noise.noise_laws import CellLaw, DiscreteGaussian, DiscreteLaplace
from discreet.noise.star_noise import star_scale
from discreet.planning.star_cover import Group, shared_by, star_cover, star_lengths, star_noise_variances
from discreet.planning.workload import default_shares, workload_error, workload_shares
from discreet.privacy.guarantee import Guarantee
from discreet.records.count_sensitivity import cells_moved
from discreet.records.counts import Counts
from discreet.releases.kinds.noisy_tables import NoisyTables, PlannedNoise, star_scopes
from discreet.util.arrays import Array, by_rows, of_rows

# --------------------------------------------------------------------------------------------------------------------
# Families with more cells than a budget can fill: parents to leave out of their tables, by public sizes alone.
#
# If a family has several cells for each record, its table is mostly noise, and the small tables, which answer most
# queries, lack the budget that its size takes. Such a family is measured with fewer parents; the prior then decides its
# separate rows, and intervals say so.

NOISY_ROW_ERROR = 0.5
"""Expected error of a row of probabilities, averaged over nodes before saturation, above which families lose parents.
Below lie child and alarm at epsilon .1, above barley up to 3."""
FILLED_CELLS = 0.4
"""Cells of the largest table, times the scale of the noise that an even share of the budget buys, for each record: with
10,000 records and scale 40, a hundred cells. Larger tables cost barley's marginals half of their gain."""
SPARED_FACTOR = 3.0
"""Ratio to the largest table's cells up to which a family stays whole: barley's, of twice as many, are read well."""


def largest_table(records: int, scale: float) -> float:
    """Cells of the largest table worth measuring, for some records and noise.

    Args:
        records: how many there are, or a public guess.
        scale: of Laplace noise of an even share of the budget, or that of equal variance; records.

    Returns:
        Cells.

    Example:
        >>> largest_table(10_000, 40.0)
        100.0
    """
    return FILLED_CELLS * records / scale


def without_large(network: Network, cells: float) -> Network:
    """Drop parents of families that are too large to measure.

    Args:
        network: public.
        cells: of the largest table; families of up to three times as many stay whole. The others lose the parent with
            most states, the last of equals, until they have at most so many cells or no parent.

    Returns:
        A network whose families lie in those of the given one.

    Example:
        >>> from discreet.model.schema import Variable
        >>> a, b, c = (Variable(name, ("no", "yes")) for name in "abc")
        >>> network = Network((a, b, c), {"a": (), "b": ("a",), "c": ("a", "b")})
        >>> without_large(network, 2).parents["c"], without_large(network, 4).parents["c"]
        ((), ('a', 'b'))
    """
    parents = {}
    for node in network.nodes:
        remaining = list(network.parents[node])
        if network.cells(network.family(node)) > SPARED_FACTOR * cells:
            fixed = network.schema.condition_columns[node]
            while network.cells((*remaining, node)) > cells and (
                loose := [name for name in remaining if name not in fixed]
            ):
                remaining.remove(max(reversed(loose), key=lambda name: network.schema[name].size))
        parents[node] = tuple(remaining)
    return Network(network.variables, parents)


BUDGET_STEPS = 10**12
"""Steps of the budget: shares are whole multiples, so that they print as decimals with next to no loss."""
MOST_STATES = 2**13
"""Most states of a variable: readers of its contrasts hold a square of that size, half a gigabyte."""
PLAN_ROUNDS = 6
"""Most rounds of the fixed-point search for table sizes and plans: two are enough on the networks at hand."""
DENOMINATOR_LIMIT = 10**30
"""Largest denominator of a budget: others are rounded down, so that their shares can be written into a release."""
LONGEST_REPORT_BITS = 1000
"""Bits of a plan's reported fraction above which it is rounded up: scales are binary floats, so that sums over a
hundred of them have thousands of digits, which no reader takes."""
LEAST_ERROR = 1e-200
"""Error that stands for ones too small for floating point."""


def table_plan(*, workload: Sequence[str | Query] | None, records: int | None) -> Mechanism:
    """Release merged tables and stars with noise: `planned` without pairs beside them.

    Args:
        workload: as of `planned`.
        records: as of `planned`.

    Returns:
        The mechanism.

    Raises:
        InputError: a workload that is one text, or records that are no whole number above 0; when a release is
            calibrated, an epsilon that no noise can keep, a family of more than 14 variables, or a workload that does
            not fit the network.

    Guarantee:
        Pure epsilon with discrete Laplace noise: adding or removing a record changes one cell of each table by one,
        replacing it two (s), so table t with noise of scale `s / epsilon_t` is epsilon_t-DP. The same change moves all
        tables of a star together by at most s in the norm of its noise, so a star of that scale is epsilon_t-DP as a
        whole. Stars and the tables beside them compose to `sum_t epsilon_t` <= epsilon, each star counted once. Where
        the guarantee has a delta and Gaussian noise is taken, table t is rho_t = `s / (2 scale_t^2)`-zCDP, and `sum_t
        rho_t` is at most the rho whose tight conversion keeps epsilon at delta; where Laplace noise is taken, delta is
        charged and not used. Tables, budgets and the choice depend on the network, the prior, the guarantee and the
        arguments alone. Unit: one record, counted whole.

    Source:
        Dwork and Roth (2014), Theorems 3.6 and 3.16; Ghosh et al. (2009) for integer noise; Hardt and Talwar (2010) for
        stars; Canonne, Kamath and Steinke (2020), Theorem 4 and Proposition 12; Bun and Steinke (2016), Lemma 1.7, for
        composition.
    """
    if isinstance(workload, str):
        raise InputError("a workload is a list of queries, such as ['P(A | B=b)']")
    queries = None if workload is None else tuple(workload)
    if records is not None and not (isinstance(records, int) and records > 0):
        raise InputError(f"records is a whole number of at least 1, or None; got {shown(records)}")

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> PlannedNoise:
        large = [node for node in network.nodes if len(network.family(node)) > MOST_VARIABLES]
        if large:
            raise InputError(
                f"planned pools tables of at most {MOST_VARIABLES} variables, but {large[0]!r} has "
                f"{len(network.parents[large[0]])} parents; give it fewer, or use the mechanism 'laplace'"
            )
        for variable in network.variables:
            require(
                variable.size <= MOST_STATES,
                f"planned pools variables of at most {MOST_STATES:,} states, and {shown(variable.name)} has "
                f"{variable.size:,}; give it fewer bins or groups of states",
            )
        plans = list(_list_plans(network, prior, guarantee, queries))
        if queries is not None and len(plans) > 1:
            return min(plans, key=lambda plan: workload_error(network, prior, queries, _find_blurs(network, plan)))
        best = min(plans, key=lambda plan: _sum_errors(network, plan))
        return best if records is None or queries is not None else _leave_out_large(network, best, guarantee, records)

    def draw(statistic: Counts, prior: Dirichlet, calibration: PlannedNoise, noise: Noise) -> NoisyTables:
        alone = {scope: scale for scope, scale in calibration.scales.items() if scope not in calibration.stars}
        joints = {scope: statistic.joint(scope) for scope in calibration.scales}
        tables = noisy_tables(
            statistic.network, {scope: joints[scope] for scope in alone}, alone, calibration.law, noise
        )
        for star in star_scopes(calibration.stars):
            tables |= _add_star_noise({scope: joints[scope] for scope in star}, calibration.scales[star[0]], noise)
        return NoisyTables(statistic.network, tables, calibration.scales, calibration.noise, calibration.stars)

    return Mechanism("planned", calibrate, draw)


def _list_plans(
    network: Network, prior: Dirichlet, guarantee: Guarantee, queries: Sequence[str | Query] | None
) -> Iterator[PlannedNoise]:
    """List the candidate plans of a release."""

    def shares(groups: Sequence[Group], law: type[CellLaw]) -> dict[Group, float]:
        if queries is None:
            return default_shares(network, groups, law)
        return workload_shares(network, prior, queries, groups, law)

    moved = cells_moved(guarantee.relation)
    groups = star_cover(network)
    yield laplace_plan(network, shares(groups, DiscreteLaplace), guarantee.epsilon, moved)
    alone = [(scope,) for group in groups for scope in group]
    if queries is not None and len(alone) > len(groups):
        # A workload that uses little of a star is better served by separate tables.
        yield laplace_plan(network, shares(alone, DiscreteLaplace), guarantee.epsilon, moved)
    if guarantee.delta:
        try:
            _, rho, reported = deviation_for(1, guarantee)
        except InputError:
            return  # Gaussian noise cannot keep this guarantee; Laplace noise can.
        families = [(network.ordered(network.family(node)),) for node in network.maximal_families]
        yield _plan_gaussian(network, shares(families, DiscreteGaussian), round_to_digits(rho), reported, moved)


def _leave_out_large(network: Network, plan: PlannedNoise, guarantee: Guarantee, records: int) -> PlannedNoise:
    """Keep the plan, or measure its large families without some parents."""
    if _sum_errors(network, plan) <= NOISY_ROW_ERROR * records * len(network.nodes):
        return plan
    moved, counted = cells_moved(guarantee.relation), tuple(scope for group in star_cover(network) for scope in group)
    rho, whole = sum(plan.budgets.values(), Fraction()), guarantee.epsilon
    groups = _count_groups(plan)
    for _ in range(PLAN_ROUNDS):
        # At an even split: scale = moved groups / epsilon; Gaussian noise of sd^2 = moved groups / (2 rho) has the
        # variance of scale sd / sqrt(2).
        scale = math.sqrt(moved * groups / rho) / 2 if plan.law.concentrated else float(moved * groups / whole)
        smaller = without_large(network, largest_table(records, scale))
        if plan.law.concentrated:
            families = [(smaller.ordered(smaller.family(node)),) for node in smaller.maximal_families]
            plan = _plan_gaussian(smaller, default_shares(smaller, families, plan.law), rho, plan.reported, moved)
        else:
            shares = default_shares(smaller, star_cover(smaller, inside=counted), plan.law)
            plan = laplace_plan(smaller, shares, whole, moved)
        if _count_groups(plan) == groups:
            break
        groups = _count_groups(plan)
    return plan


def _count_groups(plan: PlannedNoise) -> int:
    """Count the groups that share the budget."""
    return len(plan.budgets) - len(plan.stars) + len(set(plan.stars.values()))


def _add_star_noise(joints: Mapping[Scope, Array], scale: float, noise: Noise) -> dict[Scope, Array]:
    """Add noise to the tables of a star that agrees on what they share."""
    star = tuple(joints)
    shared = shared_by(star)
    noisy = noise.star([by_rows(joints[scope], scope, shared) for scope in star], scale)
    return {scope: of_rows(rows, scope, shared, joints[scope].shape) for scope, rows in zip(star, noisy, strict=True)}


def laplace_plan(network: Network, shares: Mapping[Group, float], epsilon: Fraction, moved: int) -> PlannedNoise:
    """Plan discrete Laplace noise: epsilon goes to the stars, and to the tables beside them, by their shares.

    Args:
        network: public.
        shares: of each group, positive.
        epsilon: of all of them.
        moved: most cells of one table that neighbours differ in, each by one record.

    Returns:
        The plan; it costs at most epsilon.

    Raises:
        InputError: an epsilon that no noise can keep.
    """
    budget_of = _split_budget(shares, epsilon)
    alone: dict[Group, Fraction] = {group: budget for group, budget in budget_of.items() if len(group) == 1}
    scales, reported = laplace_scales(alone, moved)
    stars = dict[Scope, int]()
    for number, group in enumerate((group for group in budget_of if len(group) > 1), 1):
        scales[group], cost = star_scale(moved, budget_of[group], star_lengths(network, group))
        reported += cost
        stars |= dict.fromkeys(group, number)
    reported = _round_report(reported, epsilon)
    budgets = {scope: budget for group, budget in budget_of.items() for scope in group}
    of_tables = {scope: scales[group] for group in budget_of for scope in group}
    expected = _expect_errors(network, _find_group_blurs(network, scales))
    if len(budgets) == 1:
        ((scope, scale),) = of_tables.items()
        equal = [node for node in network.nodes if network.ordered(network.family(node)) == scope]
        expected |= dict.fromkeys(equal, max(DiscreteLaplace(scale).mean_error, LEAST_ERROR))
    return PlannedNoise(DiscreteLaplace.tag, moved, budgets, of_tables, reported, expected, stars)


def _plan_gaussian(
    network: Network, shares: Mapping[Group, float], rho: Fraction, reported: Fraction, moved: int
) -> PlannedNoise:
    """Plan discrete Gaussian noise; rho, which keeps the guarantee, goes to the tables by their shares."""
    budgets = {scope: budget for (scope,), budget in _split_budget(shares, rho).items()}
    scales = {scope: deviation_within(moved, budget)[0] for scope, budget in budgets.items()}
    expected = _expect_errors(network, _find_table_blurs(DiscreteGaussian, scales))
    return PlannedNoise(DiscreteGaussian.tag, moved, budgets, scales, reported, expected)


def _split_budget(shares: Mapping[Group, float], whole: Fraction) -> dict[Group, Fraction]:
    """Split a budget exactly, proportional to the shares and rounded down: together at most the whole."""
    whole = _limit_denominator(whole)
    exact = {group: Fraction(share) for group, share in shares.items()}
    total = sum(exact.values(), Fraction())
    return {
        group: whole * Fraction(math.floor(share / total * BUDGET_STEPS), BUDGET_STEPS)
        for group, share in exact.items()
    }


def _round_report(reported: Fraction, whole: Fraction) -> Fraction:
    """Round a plan's cost up to a multiple of a step of its budget if it is long, not beyond the budget."""
    if reported.denominator.bit_length() <= LONGEST_REPORT_BITS:
        return reported
    whole = _limit_denominator(whole)
    return whole * Fraction(math.ceil(reported / whole * BUDGET_STEPS), BUDGET_STEPS)


def _limit_denominator(whole: Fraction) -> Fraction:
    """Round a budget down if its shares could not be written into a release."""
    return round_to_digits(whole) if whole.denominator > DENOMINATOR_LIMIT else whole


def round_to_digits(rho: Fraction) -> Fraction:
    """Round a loss down to 13 or 14 digits, so that its parts print as decimals.

    Args:
        rho: greater than 0.

    Returns:
        At most rho.

    Example:
        >>> round_to_digits(Fraction(1, 3))
        Fraction(3333333333333, 10000000000000)
    """
    # Exact rationals with many digits: a float would underflow.
    unit = Fraction(10) ** (len(str(rho.numerator)) - len(str(rho.denominator)) - 13)
    return math.floor(rho / unit) * unit


def make_room(plan: PlannedNoise, part: Fraction) -> PlannedNoise:
    """Leave a part of a plan's zero-concentrated loss to what is released beside its tables.

    Args:
        plan: of discrete Gaussian noise.
        part: of each budget, in [0, 1).

    Returns:
        The plan with the rest of every budget; its `reported` epsilon is that of the whole loss.
    """
    budgets = {scope: round_to_digits((1 - part) * budget) for scope, budget in plan.budgets.items()}
    scales = {scope: deviation_within(plan.sensitivity, budget)[0] for scope, budget in budgets.items()}
    larger = {node: error / math.sqrt(1 - part) for node, error in plan.expected.items()}
    return replace(plan, budgets=budgets, scales=scales, expected=larger)


def _find_blurs(network: Network, plan: PlannedNoise) -> dict[Scope, Blur]:
    """Find the noise variances of each table of a plan, in records squared."""
    alone = {scope: scale for scope, scale in plan.scales.items() if scope not in plan.stars}
    stars = {star: plan.scales[star[0]] for star in star_scopes(plan.stars)}
    return _find_table_blurs(plan.law, alone) | _find_group_blurs(network, stars)


def _find_table_blurs(law: type[CellLaw], scales: Mapping[Scope, float]) -> dict[Scope, Blur]:
    """Find the noise variances of tables with independent noise, in records squared."""
    return {scope: Blur(max(law(scale).raw_variance, LEAST_ERROR)) for scope, scale in scales.items()}


def _find_group_blurs(network: Network, scales: Mapping[Group, float]) -> dict[Scope, Blur]:
    """Find the Laplace noise variances of single tables and of stars, in records squared."""
    blurs = _find_table_blurs(DiscreteLaplace, {group[0]: scale for group, scale in scales.items() if len(group) == 1})
    for star, scale in scales.items():
        if len(star) > 1:
            star_noise = star_noise_variances(shared_by(star), star_lengths(network, star), scale)
            blurs |= dict(zip(star, star_noise, strict=True))
    return blurs


def _expect_errors(network: Network, blurs: Mapping[Scope, Blur]) -> dict[str, float]:
    """Expect the mean absolute error of a cell of each family after least squares, taken as normal; records."""
    pooled = pooled_variances(network, blurs)
    expected = {node: cell_variance(network, pooled, network.ordered(network.family(node))) for node in network.nodes}
    return {node: math.sqrt(2 / math.pi * variance) for node, variance in expected.items()}


def _sum_errors(network: Network, plan: PlannedNoise) -> float:
    """Sum the expected absolute errors of all families' cells; records."""
    return sum(network.cells(network.family(node)) * error for node, error in plan.expected.items())
