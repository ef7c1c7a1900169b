"""Families of laws with a few parameters, on public grids, for posterior sampling of a family.

A record is a joint state of one or a few variables (a number is represented by its bin), and a family gives each such
type of record its exact probability under every parameter of a finite grid, with a prior on the grid. Everything
continuous is discretised by public numbers: numbers at declared bins, parameters at declared ends. The law is the
family's within the variables' bounds; with `open_ends` the outer bins include its tails, for numbers that are clipped.

    exponential          rate of a number counted from its lower bound; Gamma(shape, rate) prior on [low, high]
    laplace              inverse scale around a known location; Gamma prior on [low, high]
    normal               precision around a known mean; Gamma prior on [low, high]. With `mean_low` and `mean_high` the
                         mean is also unknown, with a uniform prior between them
    poisson              mean of a whole number; Gamma prior on [low, high]
    bernoulli            probability of the second of two states; Beta(alpha, beta) prior on [floor, 1 - floor]
    multivariate_normal  precision matrix of some numbers around known means (the middles of their bounds), with
                         eigenvalues in [low, high]; Wishart(degrees, I / scale) prior, or without `degrees` one that is
                         uniform in the logarithms of the eigenvalues and in directions

Source: Dimitrakakis et al. (JMLR 2017), Section 5 and Lemmas 19 to 24. The mechanism for networks of discrete variables
is `posterior_sampler`, that for linear regressions `truncated_posterior`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from types import MappingProxyType

import numpy as np
import scipy

from discreet.errors import InputError, listed, require, shown
from discreet.model.network import Network
from discreet.model.schema import Variable, bin_ends
from discreet.research.scores.score_tables import ScoreTable, check_size, likelihood_table, record_types
from discreet.util.arrays import Floats, number

GAMMA_DEFAULTS = {"shape": 1.0, "rate": 0.0}
FAMILIES: Mapping[str, tuple[tuple[str, ...], Mapping[str, float]]] = {
    "exponential": (("low", "high"), GAMMA_DEFAULTS),
    "laplace": (("low", "high"), {"location": 0.0, **GAMMA_DEFAULTS}),
    "normal": (("low", "high"), {"mean": 0.0, "mean_low": math.nan, "mean_high": math.nan, **GAMMA_DEFAULTS}),
    "poisson": (("low", "high"), GAMMA_DEFAULTS),
    "bernoulli": (("floor",), {"alpha": 1.0, "beta": 1.0}),
    "multivariate_normal": (("low", "high"), {"degrees": math.nan, "scale": 1.0}),
}
"""Parameters of each family: the required ones, and the optional ones with their defaults."""
GRID_POINTS, GRID_POINTS_OF_SEVERAL = 1024, 4096
"""Number of points of the grid: of one parameter, and of several."""
MOST_GRID_POINTS = 8192


@dataclass(frozen=True, eq=False)
class Family:
    """Family of laws over declared variables, on a grid of its parameters.

    Args:
        name: one of the families in the module's list.
        variables: numeric with bins (`Variable.binned`), or of two states for "bernoulli".
        parameters: by name; those with defaults may be left out. Rates and precisions are in units of the variable.
        points: of the grid; None for 1,024, or 4,096 with several parameters.
        bound: nats to which a record's log-likelihood is clamped below that of its most probable parameter; None for no
            clamp.
        open_ends: whether the first and the last bin include the tails beyond them, as for clipped records. A record
            there is then less informative, and a draw costs up to twice as much.
        lipschitz: nats for each unit of the one numeric variable, as for `own_family`; None for no such limit.

    Raises:
        InputError: an unknown name or parameter, a missing one or one out of its range, or variables that do not fit.

    Example:
        >>> import discreet as dc
        >>> wait = dc.Variable.binned("wait", (0, 60), 120)
        >>> dc.research.Family("exponential", (wait,), {"low": 0.02, "high": 0.5})
        Family('exponential', over wait, 1,024 points)
    """

    name: str
    variables: tuple[Variable, ...]
    parameters: Mapping[str, float]
    points: int | None = None
    bound: float | None = None
    open_ends: bool = False
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        """Freeze the fields, and refuse an invalid family."""
        if self.name not in FAMILIES:
            raise InputError(f"there is no family {shown(str(self.name))}; choose one of {listed(tuple(FAMILIES))}")
        needed, _ = FAMILIES[self.name]
        parameters = {str(name): self._read_number(name, value) for name, value in dict(self.parameters).items()}
        missing, odd = set(needed) - set(parameters), set(parameters) - set(needed) - set(FAMILIES[self.name][1])
        if missing or odd:
            raise InputError(
                f"{self.name} needs the parameters {listed(needed)} and takes {listed(tuple(FAMILIES[self.name][1]))}; "
                f"{'missing' if missing else 'unknown'}: {listed(tuple(sorted(missing or odd)))}"
            )
        object.__setattr__(self, "parameters", MappingProxyType(parameters))
        if not isinstance(self.variables, Iterable) or not all(isinstance(each, Variable) for each in self.variables):
            raise InputError("a family needs a tuple of variables, such as (Variable.binned(...),)")
        object.__setattr__(self, "variables", tuple(self.variables))
        for name in ("bound", "lipschitz"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else number(value, f"the {name} of a family"))
        if self.points is None:
            object.__setattr__(self, "points", GRID_POINTS_OF_SEVERAL if self._has_several else GRID_POINTS)
        if not isinstance(self.points, int) or not 2 <= self.points <= MOST_GRID_POINTS:
            raise InputError(f"a grid must have from 2 to {MOST_GRID_POINTS:,} points, not {self.points}")
        self._check_variables()
        self._check_ranges()

    def __repr__(self) -> str:
        """Format as one line."""
        over = listed(variable.name for variable in self.variables)
        return f"Family({self.name!r}, over {over}, {self.points:,} points)"

    @cached_property
    def network(self) -> Network:
        """Network of the variables, each with all before it as parents: the family defines their dependence."""
        names = [variable.name for variable in self.variables]
        return Network(self.variables, {name: tuple(names[:at]) for at, name in enumerate(names)})

    @cached_property
    def table(self) -> ScoreTable:
        """Log-likelihoods of all types of records on the grid."""
        check_size(self.network, self.size)
        names, grid, base = self._make_grid()
        with np.errstate(over="ignore"):  # a tail beyond all floats has probability 0
            logs = np.maximum(LAWS[self.name](self, grid), -1e5)
            logs -= scipy.special.logsumexp(logs, axis=0)
            base = base - scipy.special.logsumexp(base)
            return likelihood_table(self.network, names, grid, base, logs, (self.bound, self.lipschitz))

    @property
    def size(self) -> int:
        """Number of points of the grid: a square number for a mean and a precision."""
        points = self.points or GRID_POINTS
        return math.isqrt(points) ** 2 if "mean_low" in self.parameters else points

    def value(self, name: str) -> float:
        """Look up a parameter, or its default.

        Args:
            name: of the parameter.

        Returns:
            The number, or NaN without a default.
        """
        return self.parameters.get(name, FAMILIES[self.name][1].get(name, math.nan))

    @property
    def _has_several(self) -> bool:
        """True if there is more than one parameter."""
        return self.name == "multivariate_normal" or "mean_low" in self.parameters

    def _read_number(self, name: object, value: object) -> float:
        """Read a parameter as a finite number."""
        subject = f"the parameter {shown(str(name))} of a family"
        parameter = number(value, subject)
        require(math.isfinite(parameter) and not isinstance(value, bool), f"{subject} must be a finite number")
        return parameter

    def _check_variables(self) -> None:
        """Refuse variables of the wrong kind or number."""
        is_single = self.name != "multivariate_normal"
        if not self.variables or (is_single and len(self.variables) > 1) or (not is_single and len(self.variables) < 2):
            raise InputError(f"{self.name} needs {'one variable' if is_single else 'two or more variables'}")
        for variable in self.variables:
            fits = variable.size == 2 if self.name == "bernoulli" else variable.numeric and variable.size >= 2
            if not fits:
                kind = "two states" if self.name == "bernoulli" else "numeric bounds and bins (Variable.binned)"
                raise InputError(f"{self.name} needs a variable with {kind}; {shown(variable.name)} has others")

    def _check_ranges(self) -> None:
        """Refuse parameters out of their ranges."""
        value = self.value
        if self.name == "bernoulli":
            fine = 0 < value("floor") < 0.5 and value("alpha") > 0 and value("beta") > 0
            rule = "0 < floor < 1/2, alpha > 0 and beta > 0"
        else:
            fine, rule = 0 < value("low") < value("high"), "0 < low < high"
            if self.name != "multivariate_normal":
                fine, rule = fine and value("shape") > 0 and value("rate") >= 0, f"{rule}, shape > 0 and rate >= 0"
        if self.name == "normal" and "mean_low" in self.parameters:
            fine, rule = fine and value("mean_low") < value("mean_high"), f"{rule}, mean_low < mean_high, both stated"
        if self.name == "multivariate_normal":
            least = len(self.variables) - 1
            fine = fine and value("scale") > 0 and not value("degrees") <= least
            rule = f"{rule}, scale > 0 and degrees > {least}"
        if not fine:
            raise InputError(f"{self.name} needs {rule}")

    def _make_grid(self) -> tuple[tuple[str, ...], Floats, Floats]:
        """Make the names of the parameters, the grid, and the prior's log weights on it."""
        points, value = self.points or GRID_POINTS, self.value
        if self.name == "bernoulli":
            theta = np.linspace(value("floor"), 1 - value("floor"), points)
            base = (value("alpha") - 1) * np.log(theta) + (value("beta") - 1) * np.log1p(-theta)
            return (f"P({self.variables[0].states[1]})",), theta[:, None], base
        if self.name == "multivariate_normal":
            return _spread_matrices(self, points)
        side = math.isqrt(points) if self._has_several else points
        theta = np.geomspace(value("low"), value("high"), side)
        # Points have the density 1 / theta, which the prior's weights correct.
        base = value("shape") * np.log(theta) - value("rate") * theta
        name = {"normal": "precision", "poisson": "mean"}.get(self.name, "rate")
        if not self._has_several:
            return (name,), theta[:, None], base
        means = np.linspace(value("mean_low"), value("mean_high"), side)
        grid = np.stack([axis.ravel() for axis in np.meshgrid(means, theta, indexing="ij")], axis=1)
        return ("mean", name), grid, np.tile(base, side)


# ------------------------------------------------------------------------------------------- log laws, (types, points)


def _list_edges(family: Family) -> Floats:
    """List the ends of the bins of the family's one variable."""
    variable = family.variables[0]
    low, *_, high = (-math.inf, math.inf) if family.open_ends else bin_ends(variable)
    # A law of whole numbers includes the upper bound itself.
    return np.array([low, *variable.bins, math.nextafter(high, math.inf)])


def _subtract_logs(log_below: Floats, log_above: Floats) -> Floats:
    """Compute `ln P(between edges)` from logs of P(below) and P(above) an edge, by the more accurate of both."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left = log_below[1:] + np.log1p(-np.exp(np.minimum(log_below[:-1] - log_below[1:], 0)))
        right = log_above[:-1] + np.log1p(-np.exp(np.minimum(log_above[1:] - log_above[:-1], 0)))
    better = np.where(log_below[1:] < log_above[:-1], left, right)
    return np.nan_to_num(better, nan=-math.inf, neginf=-math.inf)


def _tabulate_exponential(family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of bins under an exponential law that begins at the lower bound."""
    beyond = np.maximum(_list_edges(family) - bin_ends(family.variables[0])[0], 0.0)[:, None] * grid[:, 0]
    with np.errstate(divide="ignore"):
        return _subtract_logs(np.log(-np.expm1(-beyond)), -beyond)


def _tabulate_laplace(family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of bins under a Laplace law around the location."""
    distance = (_list_edges(family) - family.value("location"))[:, None] * grid[:, 0]
    tail = -np.abs(distance) - math.log(2)
    rest = np.log1p(-np.exp(tail))
    return _subtract_logs(np.where(distance < 0, tail, rest), np.where(distance < 0, rest, tail))


def _tabulate_normal(family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of bins under a normal law, whose mean is known or on the grid."""
    mean = grid[:, 0] if grid.shape[1] == 2 else np.full(len(grid), family.value("mean"))
    z = (_list_edges(family)[:, None] - mean) * np.sqrt(grid[:, -1])
    return _subtract_logs(scipy.special.log_ndtr(z), scipy.special.log_ndtr(-z))


def _tabulate_poisson(family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of bins under a Poisson law: whole numbers from the lower edge to below the upper."""
    first = np.maximum(np.ceil(_list_edges(family)), 0.0)[:, None]
    finite = np.where(np.isfinite(first), first, 1.0)
    # P(X < k) is the upper incomplete gamma function at k, P(X >= k) the lower one; 0 and infinity are special cases.
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.log(np.where(finite > 0, scipy.special.gammaincc(finite, grid[:, 0]), 0.0))
        above = np.log(np.where(finite > 0, scipy.special.gammainc(finite, grid[:, 0]), 1.0))
    return _subtract_logs(np.where(np.isfinite(first), below, 0.0), np.where(np.isfinite(first), above, -math.inf))


def _tabulate_bernoulli(_family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of the first and the second state."""
    return np.stack([np.log1p(-grid[:, 0]), np.log(grid[:, 0])])


def _tabulate_multivariate(family: Family, grid: Floats) -> Floats:
    """Tabulate log probabilities of joint bins: the density at the middle times the size, within the bounds."""
    size = len(family.variables)
    types = record_types(family.network)
    middles = [(low + high) / 2 for low, *_, high in map(bin_ends, family.variables)]
    x = np.stack([types[v.name].astype(np.float64) - m for v, m in zip(family.variables, middles, strict=True)], axis=1)
    upper = np.triu_indices(size)
    quadratic = np.zeros((len(x), len(grid)))
    for column, (i, j) in enumerate(zip(*upper, strict=True)):
        quadratic += (1 if i == j else 2) * (x[:, i] * x[:, j])[:, None] * grid[:, column]
    widths = np.zeros(())
    for variable in family.variables:
        widths = np.add.outer(widths, np.log(np.diff(bin_ends(variable))))
    return np.asarray(widths.ravel()[:, None] - quadratic / 2)


def _spread_matrices(family: Family, points: int) -> tuple[tuple[str, ...], Floats, Floats]:
    """Make precision matrices that fill the support evenly: log eigenvalues, and quasi-random rotations."""
    size, low, high = len(family.variables), family.value("low"), family.value("high")
    if size > 6:
        raise InputError("multivariate_normal needs at most six variables")
    power = 1 << (points - 1).bit_length()
    uniforms = scipy.stats.qmc.Sobol(size + size * size, scramble=False).random(power)[:points] + 0.5 / power
    eigenvalues = low * (high / low) ** uniforms[:, :size]
    turns = np.linalg.qr(scipy.special.ndtri(uniforms[:, size:]).reshape(points, size, size))[0]
    matrices = np.einsum("nij,nj,nkj->nik", turns, eigenvalues, turns)
    upper = np.triu_indices(size)
    base = np.zeros(points)
    if not math.isnan(family.value("degrees")):
        logs = np.log(eigenvalues).sum(axis=1)
        base = (family.value("degrees") - size - 1) / 2 * logs - family.value("scale") * eigenvalues.sum(axis=1) / 2
        # Change of variables from matrices to logarithms of eigenvalues and directions.
        base += logs
        for i, j in combinations(range(size), 2):
            base += np.log(np.abs(eigenvalues[:, i] - eigenvalues[:, j]) + 1e-12 * high)
    names = [variable.name for variable in family.variables]
    labels = tuple(f"precision({names[i]}, {names[j]})" for i, j in zip(*upper, strict=True))
    return labels, np.asarray(matrices[:, upper[0], upper[1]]), base


LAWS: Mapping[str, Callable[[Family, Floats], Floats]] = {
    "exponential": _tabulate_exponential,
    "laplace": _tabulate_laplace,
    "normal": _tabulate_normal,
    "poisson": _tabulate_poisson,
    "bernoulli": _tabulate_bernoulli,
    "multivariate_normal": _tabulate_multivariate,
}
"""Functions that tabulate `ln P(type)` under every point of the grid, up to a constant of each point."""
