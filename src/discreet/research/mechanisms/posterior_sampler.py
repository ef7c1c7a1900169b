"""Posterior sampling: draws of all rows from a trimmed and tempered posterior (BAPS), corrected to record level.

Correction: Zhang et al. and Dimitrakakis et al. charge the cost of one changed attribute for a network. A changed
record affects a row of every node, so one joint draw costs the sum over all nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from discreet.designs.mechanisms.record_number import noisy_total, total_noise
from discreet.errors import InputError, shown
from discreet.mechanisms.crossing import Mechanism
from discreet.mechanisms.noise import Noise
from discreet.model.dirichlet import Dirichlet
from discreet.model.network import Network
from discreet.model.tables import Tables
from discreet.privacy.guarantee import Guarantee, Relation
from discreet.records.counts import Counts
from discreet.research.kinds.parameter_draws import ParameterDraws, Tempering, Trimming
from discreet.research.scores.hockey_stick import pure_epsilon
from discreet.research.scores.lattice import LARGEST_EXPONENT, lattice_law, resolution_for
from discreet.research.scores.likelihood_sensitivity import floor_for, log_range, loss_of_ranges, ranges
from discreet.util.arrays import Array, Floats, number

# --------------------------------------------------------------------------------------------------------------------
# Renyi accounting for draws from untrimmed, tempered Dirichlet posteriors.
#
# An untrimmed posterior has no pure guarantee, but the Renyi divergence between neighbours is finite for orders up to
# `1 + concentration / tau`, tau the tempering exponent. Here are its worst case over all data, its conversion to
# (epsilon, delta), and the largest tempering exponent that meets a guarantee. No data are read.

LEAST_DELTA = 1e-300
"""Smallest delta in floating point."""
GAMMA_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Relative error allowed for a log gamma value, added to every divergence."""
HIGHEST_ORDER = 1e5
"""Highest order: higher ones change no relevant delta."""
ORDER_FRACTIONS = np.concatenate([np.geomspace(1e-5, 0.5, 300, endpoint=False), 1 - np.geomspace(0.5, 1e-3, 100)])
"""Grid of orders, as fractions of the way from 1 to the highest finite one."""


def dirichlet_renyi(
    order: npt.ArrayLike, concentration: npt.ArrayLike, temper: npt.ArrayLike, relation: Relation
) -> Floats:
    r"""Compute the largest Renyi divergence of neighbours' tempered posteriors of a family, `Dirichlet(alpha + tau N)`.

    With `G = log Gamma`, order lam, x the concentration of a cell and tau the temper,

        add(x)    = [G(x + lam tau) - lam G(x + tau) + (lam - 1) G(x)] / (lam - 1)
        remove(x) = [G(x - (lam - 1) tau) - lam G(x) + (lam - 1) G(x + tau)] / (lam - 1).

    One record more moves one cell and its row's total by tau; the divergence is `add(cell) - add(total)` in one
    direction and `remove(cell) - remove(total)` in the other. A replaced record moves two cells, in one row or in two:
    `add + remove`, less totals if the rows differ. Three facts give the supremum over all data sets:
    (1) Both decrease in x, so a count of 0 and the smallest concentration are the worst case. With psi = G', x + tau is
    the mixture `1/lam (x + lam tau) + (1 - 1/lam) x`, and psi is concave, so the derivative of `add` in x,
    `[psi(x + lam tau) - lam psi(x + tau) + (lam - 1) psi(x)] / (lam - 1)`, is at most 0; `remove` likewise, as x is the
    mixture `1/lam (x - (lam - 1) tau) + (1 - 1/lam) (x + tau)`.
    (2) Totals only reduce the divergence, and vanish as the rest of the row grows.
    (3) `add <= remove`. Both are integrals of psi' against triangles of one area, on [x, x + lam tau] with its peak at
    x + tau, and on [x - (lam - 1) tau, x + tau] with its peak at x, which lies to the left, where psi' is larger.

    Args:
        order: lam, greater than 1.
        concentration: x, smallest concentration of the prior in the family, unit: records.
        temper: tau, in (0, 1]; the three are broadcast.
        relation: of neighbouring data sets.

    Returns:
        `remove(x)` for ADD_REMOVE, `add(x) + remove(x)` for REPLACE, nats, rounded up; infinite if
        `x <= (lam - 1) tau`. Divergences add up over the families of a network, and over draws.

    Raises:
        InputError: an argument out of its range.

    Source:
        Geumlek, Song and Chaudhuri (2017), for exponential families; the worst case is derived above.

    Example:
        >>> dirichlet_renyi(2, [3, 10], 1, Relation.REPLACE).round(4).tolist()
        [0.6931, 0.2007]
    """
    lam, x, tau = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in (order, concentration, temper)))
    if not (
        np.all((lam > 1) & np.isfinite(lam)) and np.all((x > 0) & np.isfinite(x)) and np.all((tau > 0) & (tau <= 1))
    ):
        raise InputError("a Renyi divergence needs orders above 1, positive concentrations, and tempers in (0, 1]")
    finite = x > (lam - 1) * tau
    lowest = np.where(finite, x - (lam - 1) * tau, 1.0)
    remove = _bound_gap(lowest, x, x + tau, lam, weight_low=np.ones_like(lam))
    add = _bound_gap(x, x + tau, x + lam * tau, lam, weight_low=lam - 1)
    return np.where(finite, relation.by_record(remove, remove + add), np.inf)


def _bound_gap(low: Floats, middle: Floats, high: Floats, order: Floats, *, weight_low: Floats) -> Floats:
    """Bound the Jensen gap of log Gamma over `order - 1`; the weights of the ends sum to the order."""
    weights = (weight_low, order - weight_low, -order)
    terms = [weight * gammaln(point) for weight, point in zip(weights, (low, high, middle), strict=True)]
    size = sum(np.abs(term) + np.abs(weight) for term, weight in zip(terms, weights, strict=True))
    return np.asarray((sum(terms) + GAMMA_ROUNDING * size) / (order - 1))


def delta_of(orders: npt.ArrayLike, divergences: npt.ArrayLike, epsilon: float) -> float:
    """Compute the smallest delta that Renyi divergences of some orders imply at an epsilon.

    `delta = exp((lam - 1) (D_lam - epsilon)) (1 - 1 / lam)^(lam - 1) / lam`, the least over the orders. Each alone is
    valid, so a coarse grid is conservative.

    Args:
        orders: lam, greater than 1, shape `(orders,)`.
        divergences: D_lam, nats, possibly infinite, of the same shape.
        epsilon: nats, at least 0.

    Returns:
        Delta, at most 1.

    Raises:
        InputError: no orders, shapes that differ, or a value out of its range.

    Source:
        Canonne, Kamath and Steinke (2020), Proposition 12.

    Example:
        >>> lam = np.linspace(1.01, 50, 5000)  # Gaussian noise of sigma 2 on a sum of sensitivity 1
        >>> round(delta_of(lam, lam / 8, 1.0), 4)
        0.018
    """
    lam, divergence = np.asarray(orders, np.float64), np.asarray(divergences, np.float64)
    if lam.ndim != 1 or not lam.size or lam.shape != divergence.shape:
        raise InputError("orders and divergences must be equal in number, and at least one")
    if not (np.all((lam > 1) & np.isfinite(lam)) and np.all(divergence >= 0) and epsilon >= 0):
        raise InputError("orders must be greater than 1, divergences and epsilon at least 0")
    log_delta = (lam - 1) * (divergence - epsilon + np.log1p(-1 / lam)) - np.log(lam)
    return math.exp(min(float(log_delta.min()), 0.0))


def temper_for(network: Network, prior: Dirichlet, guarantee: Guarantee, draws: int) -> float:
    """Find the largest tempering exponent in (0, 1] at which untrimmed posterior draws of all rows meet a guarantee.

    Args:
        network: public.
        prior: concentrations over that network.
        guarantee: to be met; its delta must be greater than 0.
        draws: number of independent draws in the release.

    Returns:
        tau, rounded down: the delta of `draws` draws from `Dirichlet(alpha + tau N)`, by `delta_of` over a grid of
        orders, is at most the guarantee's; 1 if the plain posterior meets it.

    Raises:
        InputError: delta is 0 (no untrimmed posterior has a pure guarantee), the prior is over another network, or
            there are no draws.

    Source:
        `dirichlet_renyi` summed over families and draws, with `delta_of`.
    """
    if 0 < guarantee.delta < LEAST_DELTA:
        raise InputError("delta is too small for floating point; use at least 1e-300")
    if prior.network != network:
        raise InputError("the prior is over another network")
    if not draws >= 1:
        raise InputError(f"at least one draw is needed, got {draws}")
    if not guarantee.delta > 0:
        raise InputError("an untrimmed posterior has no guarantee with delta 0; give a delta, or trim the posterior")
    # A variable of one state has no information about a record.
    least = np.array([prior.alpha[node].min() for node in network.nodes if network.schema[node].size > 1])
    epsilon = math.nextafter(float(guarantee.epsilon), 0.0)
    delta = math.nextafter(float(guarantee.delta), 0.0)

    def met(temper: float) -> bool:
        return least.size == 0 or _find_delta(least, temper, draws, epsilon, guarantee.relation) <= delta

    if met(1.0):
        return 1.0
    low = 0.5
    while not met(low):
        low /= 2
        if low < 1e-12:
            raise InputError("no temper above 1e-12 meets this guarantee; allow more epsilon or delta, or fewer draws")
    high = 2 * low
    while high - low > 1e-6 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if met(middle) else (low, middle)
    return low


def _find_delta(least: Floats, temper: float, draws: int, epsilon: float, relation: Relation) -> float:
    """Compute delta of some draws over families with these smallest concentrations."""
    reach = min(float(least.min()) / temper, HIGHEST_ORDER)
    orders = 1 + reach * ORDER_FRACTIONS
    divergences = draws * dirichlet_renyi(orders[:, None], least, temper, relation).sum(axis=1)
    return delta_of(orders, divergences, epsilon)


ROUNDING_RESERVE = Fraction(1, 10**7)
"""Epsilon of each node and draw that is reserved for rounding errors: those of the logarithms of two rows of a node, at
most 1e-8 each, under each of two neighbouring data sets."""
LOSS_ROUNDING = Fraction(1, 10**12)
"""Relative rounding error of the loss itself."""
RULE_LOG_RANGE = math.log(3)
"""Log range of a row's probabilities below which tempering is cheaper than trimming further: 1/4 to 3/4 for a coin."""
LARGEST_RANGE = 25.0
"""Largest log range of the rule: floors below 1e-11 would be negligible against a step of the grid."""
PROMISE_LIMIT = 10**6
"""Largest meaningful epsilon."""
LEAST_LOG_RANGE = 1e-3
"""Smallest log range that a floor may leave: rounding of the grid's ends is 1e-13 of it."""
DRAW_DIGITS = 9
"""Decimal digits of an untrimmed draw that are released."""


def posterior_sampler(
    draws: int = 1, *, temper: float | None = None, floor: float | None = None, given: str | Sequence[str] = ()
) -> Mechanism:
    """Release draws from a tempered posterior; the sampling itself protects, and no noise is added.

    All rows come from `Dirichlet(alpha + tau N)`, trimmed to probabilities of at least w, on a public grid. The rule
    without `temper` and `floor`: every node has the same log range L = log of the largest over the smallest
    probability, and L = max(log 3, epsilon / (s I draws)), tau = min(1, epsilon / (s I draws L)), with I nodes, s = 2
    under REPLACE and 1 under ADD_REMOVE. A large budget widens the support at tau = 1; a small one tempers, because
    supports narrower than [1/4, 3/4] carry no more information per epsilon (in the naive Bayes experiment of Zhang et
    al., floors from 0.1 to 0.4 are within noise of each other at equal epsilon).

    With a delta the posterior is not trimmed: tau is the largest exponent whose Renyi loss, at the worst counts,
    converts to (epsilon, delta).

    Args:
        draws: number of joint draws of all rows; they share the budget.
        temper: tau, the tempering exponent, which is the weight of a record; None for the rule, at most 1.
        floor: w, the same for all nodes; less than 1 / K for each.
        given: nodes whose law is not modelled, such as the previous state in a Markov chain whose records are
            transitions; names, or text of names separated by commas. Their rows are trimmed to the uniform one: they
            cost nothing, the release has no information on them, and readers keep their prior.

    Returns:
        The mechanism.

    Raises:
        InputError: no draws, a temper or floor out of range; when a release is calibrated, one that costs more than the
            guarantee, a floor or given nodes together with a delta, an unknown node, no node to draw, or, without a
            delta, a prior with a row that sums to more than 1e9; or records that weigh more than that.

    Guarantee:
        Pure: `draws * 2 tau sum_i L_i` under REPLACE, half of that under ADD_REMOVE: log-likelihood ratios of two
        records differ over the support by at most that. Under ADD_REMOVE 1/20 of epsilon is spent on the number of
        records, which the posterior needs, by discrete Laplace noise. The grid is public and finite. A row's law on it
        is computed in floating point, to 1e-8 in its logarithms, and an epsilon of 1e-7 for each node and draw is
        reserved for that. The draw itself is exact integer arithmetic on the operating system's entropy. A coin of
        probability 2^-64 draws a row from the whole grid instead, so weights that underflow do not break the guarantee.
        Under METRIC, with or without a delta: for each unit of a metric that counts values ("1 attribute by arcs"),
        `draws tau` times the largest over values as of `loss_of_ranges`; see `pure_epsilon` for the delta.
        With delta: Renyi composition over nodes and draws, at delta and the epsilon that the number of records leaves;
        its pure loss is added. Those draws come from a floating-point sampler and are rounded to nine digits; the
        guarantee is that of exact arithmetic. See `docs/threat-model.md`.

    Source:
        Dimitrakakis et al. (JMLR 2017), Theorem 8.1, Corollary 10, and the Markov chain after Lemma 24; Zhang et al.
        (AAAI 2016), Section on posterior sampling; Geumlek, Song and Chaudhuri (2017) for Renyi accounting.

    Example:
        >>> import discreet as dc
        >>> rain, wet = dc.Variable("rain", ("no", "yes")), dc.Variable("wet", ("no", "yes"))
        >>> network = dc.Network((rain, wet), {"rain": (), "wet": ("rain",)})
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> law = dc.research.posterior_sampler(draws=2).calibrate(network, dc.Dirichlet.uniform(network), promise)
        >>> law.draws, 0 < law.temper < 1, law.total <= 1
        (2, True, True)
        >>> round(law.floors["wet"], 6)  # every probability is between 1/4 and 3/4
        0.25
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or not draws > 0:
        raise InputError(f"draws must be a whole number of at least 1, got {draws}")
    if temper is not None and not 0 < number(temper, "temper") < math.inf:
        raise InputError(f"temper must be a positive, finite number, got {temper}")
    temper = None if temper is None else float(temper)
    fixed_nodes = _read_names(given)

    def calibrate(network: Network, prior: Dirichlet, guarantee: Guarantee) -> Trimming | Tempering:
        refuse_vast(guarantee)
        if guarantee.delta and guarantee.relation is not Relation.METRIC:
            if floor is not None or temper is not None or fixed_nodes:
                raise InputError(
                    "with a delta nothing is trimmed and the temper is computed; leave out floor, temper and given"
                )
            left, scale, cost = total_noise(guarantee)
            chosen = temper_for(network, prior, replace(guarantee, epsilon=left), draws)
            return Tempering(chosen, draws, DRAW_DIGITS, left + cost, scale)
        return trimming(prior, guarantee, draws, temper=temper, floor=floor, given=fixed_nodes)

    def draw(statistic: Counts, prior: Dirichlet, calibration: Trimming | Tempering, noise: Noise) -> ParameterDraws:
        if isinstance(calibration, Trimming):
            return draw_rows(statistic, prior, calibration, noise)
        return _draw_untrimmed(statistic, prior, calibration, noise)

    return Mechanism(
        "posterior_sampler",
        calibrate,
        draw,
        require=lambda statistic: require_few(statistic, temper or 1.0),
        numbers=lambda network, _: draws * network.size,
        metric=True,
    )


def require_few(statistic: Counts, temper: float = 1.0) -> None:
    """Refuse records that weigh so much that rounding errors of a row's law exceed the reserve."""
    if statistic.records * max(temper, 1.0) > LARGEST_EXPONENT:
        raise InputError(f"the records weigh more than {LARGEST_EXPONENT:g}, too much for floats; use noisy tables")


def _read_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Read names of nodes, from text that separates them by commas or from a list."""
    if isinstance(names, str):
        return tuple(text.strip() for text in names.split(",") if text.strip())
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise InputError("given must be a list of names of nodes, or text that separates them by commas")
    return tuple(names)


def trimming(
    prior: Dirichlet,
    guarantee: Guarantee,
    draws: int,
    *,
    temper: float | None,
    floor: float | None,
    rule: tuple[float, float] = (1.0, RULE_LOG_RANGE),
    given: Sequence[str] = (),
) -> Trimming:
    """Calibrate a trimmed posterior: floors and tempering exponent for a pure guarantee.

    Args:
        prior: public.
        guarantee: pure.
        draws: joint draws.
        temper: tau, or None for the largest that the budget and the rule allow.
        floor: w of all nodes, or None for the rule.
        rule: largest temper and smallest log range of the rule.
        given: nodes that are not drawn.

    Returns:
        The calibration.

    Raises:
        InputError: the draws cost more than the guarantee, there is no node to draw, or the prior is so large that
            rounding errors of a row's law exceed the reserve.
    """
    refuse_vast(guarantee)
    network = prior.network
    if any(np.any(alpha.sum(axis=-1) > LARGEST_EXPONENT) for alpha in prior.alpha.values()):
        raise InputError(
            f"a trimmed posterior allows priors whose rows sum to at most {LARGEST_EXPONENT:g} records: beyond it "
            "rounding errors exceed their reserve; lower the concentrations, or use noisy tables"
        )
    most, narrowest = rule
    sizes = _list_drawn(network, given)
    varied = sum(size > 1 for size in sizes.values())
    reserve = ROUNDING_RESERVE * max(varied, 1) * draws
    left, scale, cost = total_noise(guarantee)
    pure = pure_epsilon(left, guarantee)
    budget = float((pure - reserve) * (1 - 2 * LOSS_ROUNDING)) / draws
    if not budget > 0:
        raise InputError("epsilon is too small: less than the reserve for rounding errors, 1e-7 for each node and draw")
    equal = {node: float(sizes.get(node, 1) > 1) for node in network.nodes}
    node_budget = budget / (loss_of_ranges(network, equal, guarantee) or 1.0)
    wanted = node_budget / temper if temper is not None else max(narrowest, node_budget / most)
    floors = _find_floors(sizes, floor, min(wanted, LARGEST_RANGE))
    floors = {node: floors.get(node, 1 / network.schema[node].size) for node in network.nodes}
    loss = loss_of_ranges(network, ranges(network, floors), guarantee)
    chosen = temper if temper is not None else min(most, budget / loss if loss else 1.0)
    reported = draws * Fraction(chosen) * Fraction(loss) * (1 + LOSS_ROUNDING) + reserve + cost
    if reported > pure + cost:
        raise InputError(
            f"{draws} draws at temper {chosen:g} and these floors cost {float(reported):.6g}, more than the "
            "guarantee's epsilon; raise the floor or lower the temper"
        )
    resolution = {node: resolution_for(network.schema[node].size) for node in network.nodes}
    return Trimming(floors, chosen, draws, resolution, min(reported, guarantee.epsilon), scale)


def _list_drawn(network: Network, fixed_nodes: Sequence[str]) -> dict[str, int]:
    """List the nodes to draw, with their numbers of states; refuse unknown given nodes, or all nodes given."""
    sizes = {node: network.schema[node].size for node in network.nodes if node not in fixed_nodes}
    if unknown := [node for node in fixed_nodes if node not in network.nodes]:
        raise InputError(f"the network has no node {shown(unknown[0])}; given must name its nodes")
    if fixed_nodes and not any(size > 1 for size in sizes.values()):
        raise InputError("every node is given, so there is nothing to draw; leave some out of given")
    return sizes


def _find_floors(sizes: Mapping[str, int], floor: float | None, wanted: float) -> dict[str, float]:
    """Find floors of nodes: a common floor, or those of a log range; refuse floors for which rounding matters."""
    floors = {node: floor_for(size, wanted) if floor is None else floor for node, size in sizes.items()}
    ranges = [log_range(size, floors[node]) for node, size in sizes.items() if size > 1]
    if any(not LEAST_LOG_RANGE <= log_ratio <= LARGEST_RANGE + 1 for log_ratio in ranges):
        raise InputError(
            f"a floor leaves a log range of probabilities outside {LEAST_LOG_RANGE} to {LARGEST_RANGE:g}, where "
            "rounding would matter; choose one further from 0 and from 1 / states, or a smaller temper"
        )
    return floors


def refuse_vast(guarantee: Guarantee) -> None:
    """Refuse an epsilon without a meaning, which floating point could not hold."""
    if guarantee.epsilon > PROMISE_LIMIT:
        raise InputError(f"epsilon is too large: above {PROMISE_LIMIT:,} it promises nothing; use a smaller one")


def draw_rows(statistic: Counts, prior: Dirichlet, calibration: Trimming, noise: Noise) -> ParameterDraws:
    """Draw every row from its law on the grid, and release the number of records if it is private."""
    network, draws = statistic.network, calibration.draws
    cells: dict[str, Array] = {}
    for node in network.nodes:
        size, floor, resolution = network.schema[node].size, calibration.floors[node], calibration.resolution[node]
        if floor == 1 / size:
            cells[node] = np.full((*network.shape(node), draws), floor)
            continue
        exponents = prior.alpha[node] + calibration.temper * statistic.tables[node] - 1
        rows = []
        for row in exponents.reshape(-1, size):
            law = lattice_law(row, floor, resolution)
            units = law.draw(noise.pick, draws)
            astray = noise.rarely(draws)
            if np.any(astray):
                anywhere = lattice_law(np.zeros(size), floor, resolution)
                units[:, astray] = anywhere.draw(noise.pick, int(astray.sum()))
            rows.append(law.probabilities(units))
        cells[node] = np.array(rows).reshape(*network.shape(node), draws)
    total = noisy_total(statistic.records, calibration.total_scale, noise)
    return ParameterDraws(Tables(network, cells, draws=draws), calibration.temper, calibration.floors, total)


def _draw_untrimmed(statistic: Counts, prior: Dirichlet, calibration: Tempering, noise: Noise) -> ParameterDraws:
    """Draw every row from its Dirichlet law and round it, and release the number of records if it is private."""
    network, draws = statistic.network, calibration.draws
    cells: dict[str, Array] = {}
    for node in network.nodes:
        concentrations = prior.alpha[node] + calibration.temper * statistic.tables[node]
        logs = noise.log_gamma(np.repeat(concentrations[..., None], draws, axis=-1))
        gammas = np.exp(logs - logs.max(axis=-2, keepdims=True))
        cells[node] = np.round(gammas / gammas.sum(axis=-2, keepdims=True), calibration.digits)
    total = noisy_total(statistic.records, calibration.total_scale, noise)
    return ParameterDraws(Tables(network, cells, draws=draws), calibration.temper, {}, total)
