"""Regressions from a release over a network: coefficients in the population, in every draw of a posterior.

A posterior draw is a joint law of all variables. Under it the coefficients of a regression are numbers, not estimates:
those of a linear regression follow from the laws of pairs, those of a logistic regression from the joint law of
covariates and target. Coefficients therefore have a posterior whenever a network's probabilities have one, and no
further budget is spent.

Numbers are observed by their bins. A covariate in bin b is represented by the mean m(b) of its bin under the law of
`bin_laws.py`. The error x - m is uncorrelated with m (Berkson's error), so bins do not flatten slopes. A linear
regression solves

    E[(m_i - E m_i) (y - sum_j beta_j x_j - alpha)]  =  0        for every covariate i,

with `E[x_j | b_i]` and `E[y | b_i]` under the same law of the numbers given the bin, as `answer` computes it for `E(y |
b_i)`. If all variables are categorical this is least squares.

Source: Ferrando and Sheldon (TMLR 2025), regression from sufficient statistics that follow from released marginals;
Berkson (1950) for covariates that are known by their class; Reiersol (1945) for covariates as instruments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from discreet.display.renderers import IntervalTable, text_of
from discreet.errors import InputError, listed, require, require_word, shown
from discreet.inference.bin_laws import check_inside
from discreet.inference.sampling import drawn_points
from discreet.model.number_types import NUMBER_TYPES, NumberType, as_ends
from discreet.model.query_grammar import Probability, check_names, parse_evidence, write_evidence
from discreet.model.schema import Schema, Scope
from discreet.posterior.basis import Mark
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.posterior.number_draws import NumberDraws
from discreet.posterior.protocol import NamedRow, NetworkPosterior, equal_tails, name_rows
from discreet.posterior.remote_dispatch import delegates_to_server
from discreet.queries.answers import assumption_lines
from discreet.queries.column_moments import (
    MOST_JOINT_STATES,
    ColumnLaw,
    ColumnMoments,
    RegressionColumn,
    column_moments,
    covariance,
)
from discreet.queries.conditioning import condition_on
from discreet.queries.credible import check_level
from discreet.queries.number_moments import NumberMoments, are_together, read_moments
from discreet.util.arrays import Floats
from discreet.util.limits import first_repeated
from discreet.util.option_texts import DEFAULT_LEVEL, Inside, LawAssume, RegressionKind
from discreet.util.progress import under_way
from discreet.util.tabular import Block, Result

# --------------------------------------------------------------------------------------------------------------------
# Logistic regressions of weighted points, one for every draw: Newton's method, vectorised over draws.
#
#     maximise over b   sum over points of  h log s(z b) + (w - h) log(1 - s(z b))  -  RIDGE |b|^2 / 2
#
# with s the logistic function, w the weight of a point (1 in all), h that of its second class, and standardised columns
# z. The ridge equals the information of a millionth of the records: it moves no coefficient by more than 1e-5 of itself
# if both classes occur. If a column separates the classes (a state in which one class has probability 0), the
# coefficient ends near log(1e6) and stands for "at least".

RIDGE = 1e-6
"""Ridge penalty on the squared standardised coefficients, as a fraction of the records."""
NEWTON_STEPS, STEP_HALVINGS = 100, 40
"""Largest number of steps of Newton's method (six to ten are usual, thirty if classes are separable), and of halvings
of a step."""
FARTHEST_LOG_ODDS = 50.0
"""Largest log odds of a fit with improper weights (below 0, or above the point's weight), which may diverge; separable
classes, which are proper, end at a third of it."""
LAST_CHANGE, LEAST_FALL = 1e-7, 1e-14
"""Largest change of a point's log odds in the last step: Newton's method converges quadratically, so the next change is
about its square; and the decrease of a mean log likelihood that counts as rounding."""


def logit_fits(columns: Floats, weights: Floats, hits: Floats) -> Floats:
    """Fit a logistic regression to the population by maximum likelihood in every draw, by Newton's method.

    Each fit maximises `sum_k [h_k log s(z_k b) + (w_k - h_k) log(1 - s(z_k b))] - RIDGE |b|^2 / 2`, with z the columns
    standardised under the weights and a constant, and s the logistic function; the ridge includes the intercept. It has
    converged if no point's log odds change by more than LAST_CHANGE in a step.

    Args:
        columns: values of the covariates' columns, shape `(draws, points, columns)`.
        weights: w, probabilities of the points, shape `(draws, points)`, which sum to 1 in every draw; a few may be
            negative.
        hits: h, probability of each point and the second class together, shape `(draws, points)`.

    Returns:
        Coefficients of the columns as given, not standardised, shape `(draws, columns + 1)`, the intercept last; NaN in
        draws in which a column does not vary, Newton's method does not converge in NEWTON_STEPS steps, or improper
        weights (`hits` below 0 or above `weights`) lead to log odds beyond FARTHEST_LOG_ODDS. If a column separates the
        classes, the ridge keeps its coefficient finite.

    Source:
        McCullagh and Nelder (1989), Section 4.4; with the step halved until the likelihood does not decrease.
    """
    mean = np.einsum("dk,dkp->dp", weights, columns)
    centred = columns - mean[:, None]
    deviation = np.sqrt(np.maximum(np.einsum("dk,dkp->dp", weights, centred**2), 0.0))
    constant = ~(deviation > 0).all(axis=-1)
    deviation[constant] = 1.0
    z = np.concatenate([centred / deviation[:, None], np.ones((*weights.shape, 1))], axis=-1)
    beta, active = np.zeros((len(z), z.shape[-1])), np.flatnonzero(~constant)
    for _ in range(NEWTON_STEPS):
        if not active.size:
            break
        beta[active], change = _take_step(z[active], weights[active], hits[active], beta[active])
        active = active[~(change <= LAST_CHANGE) & np.isfinite(change)]
    beta[active] = beta[constant] = np.nan
    improper = ((hits < 0) | (hits > weights)).any(axis=-1)
    beta[improper & (np.abs(np.einsum("dkp,dp->dk", z, beta)).max(axis=-1) > FARTHEST_LOG_ODDS)] = np.nan
    slopes = beta[:, :-1] / deviation
    return np.column_stack([slopes, beta[:, -1] - (slopes * mean).sum(axis=-1)])


def _take_step(z: Floats, weights: Floats, hits: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Take a Newton step in every draw, halved there until the penalised likelihood does not decrease.

    A decrease of at most LEAST_FALL counts as none. There are at most STEP_HALVINGS trials.

    Args:
        z: standardised columns and a constant, shape `(draws, points, columns + 1)`.
        weights: probabilities of the points, shape `(draws, points)`.
        hits: probability of each point and the second class together, same shape.
        at: current coefficients, shape `(draws, columns + 1)`.

    Returns:
        New coefficients, shape `(draws, columns + 1)`, and the largest absolute change of a point's log odds in each
        draw, shape `(draws,)`; both NaN in draws in which no tried length works.
    """
    eta = np.einsum("dkp,dp->dk", z, at)
    shares = 1 / (1 + np.exp(-np.clip(eta, -500, 500)))
    # Gradient z'(hits - w p) - ridge beta and negative Hessian z' diag(w p (1 - p)) z + ridge I, p = 1 / (1 + e^-eta).
    gradient = np.einsum("dkp,dk->dp", z, hits - weights * shares) - RIDGE * at
    curved = (z * (weights * shares * (1 - shares))[..., None]).swapaxes(-1, -2) @ z + RIDGE * np.eye(z.shape[-1])
    step = np.linalg.solve(curved, gradient[..., None])[..., 0]
    along, before = np.einsum("dkp,dp->dk", z, step), _find_height(eta, weights, hits, at)
    length = np.ones(len(z))
    for _ in range(STEP_HALVINGS):
        tried = at + length[:, None] * step
        falls = _find_height(eta + length[:, None] * along, weights, hits, tried) < before - LEAST_FALL
        if not falls.any():
            break
        length[falls] /= 2
    else:
        length[falls] = np.nan
    return at + length[:, None] * step, length * np.abs(along).max(axis=-1)


def _find_height(eta: Floats, weights: Floats, hits: Floats, at: Floats) -> Floats:
    """Compute the penalised mean log likelihood in every draw, which Newton's method maximises, shape `(draws,)`.

    It is `sum_k [h_k eta_k - w_k log(1 + e^eta_k)] - RIDGE |b|^2 / 2`, in nats.

    Args:
        eta: log odds of the points, shape `(draws, points)`.
        weights: w, probabilities of the points, same shape.
        hits: h, probability of each point and the second class together, same shape.
        at: b, coefficients of the standardised columns and the constant, shape `(draws, columns + 1)`.
    """
    return np.asarray((hits * eta - weights * np.logaddexp(0, eta)).sum(axis=-1) - RIDGE * (at**2).sum(-1) / 2)


Points = tuple[slice, Floats, Floats, Floats]
"""Points of a block of draws: slice of the draws; covariates' columns, shape `(draws, points, columns)`; weights of the
points, and weights of the points and the second class together, shape `(draws, points)` each."""

MADE_UP_POINTS = 2**13
"""Number of records simulated in each draw if the joint law is too large; see `drawn_points`."""
MOST_COEFFICIENTS = 128
"""Largest number of coefficients of one regression: their moments fill 128 MiB with a thousand draws."""
MOST_POINT_VALUES = 2**22
"""Largest number of values of points' columns that are in memory at once: 32 MiB."""
CLIPPING_ROUNDS = 20
"""Largest number of rounds over the covariates in which classes are clipped; two are usual, and as many as there are
states are enough unless points have negative weights."""
LEFT_OUT = 0.5
"""Fraction of draws with unidentified coefficients above which a regression is refused, as for impossible evidence."""


DATED = (
    "{}: coefficient per {}, intercept at 1970-01-01",
    "{}: coefficients in {}s, intercept as a date",
)
"""Lines on a covariate, and on a target, that is a date."""
INSIDE_BINS = (
    "{}: numbers are taken to lie in their bins by the {} law, which nothing measured; in tests 95 % intervals of "
    "slopes held the truth in 5 to 96 % of releases, by columns and bins"
)
"""Text of the assumption of a regression with numbers; docs/numbers.md has the tests."""


@dataclass(frozen=True, eq=False)
class Regression(Result):
    """Draws of the coefficients of a regression in the population.

    Args:
        target: dependent variable; of two states the second counts 1.
        on: covariates.
        kind: "linear" or "logistic".
        names: names of the coefficients: for a numeric covariate its own name, for others `NAME=STATE` for every state
            except the first, and "intercept" at the end.
        coefficients: draws, float64, shape `(draws, names)`, read-only: the change of the target, or of the log odds of
            its second state, per unit of a numeric covariate, or relative to the first state of another.
        left_out: fraction of the posterior's draws in which coefficients are unidentified: columns are constant or
            collinear, or noise makes the weight of a class negative. These draws are not in `coefficients`.
        basis: kind of support, as in `Answer.basis`; None if it is unknown.
        unmeasured: pairs of its variables that lie in no table, at most 20.
        prior_only: quantities that only the prior determines, as in `Answer.prior_only`.
        assumes: further assumptions, as in `Answer.assumes`; with numeric variables the law inside their bins.
        given: states that all its records have, as evidence of a query is written; empty for all records.
        dates: its variables that are dates or times, each with its type. Their numbers are days or seconds since
            1970-01-01: a coefficient is per day or second, and an intercept of dates is a date.

    Raises:
        Nothing.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> slopes = np.array([[0.3, 0.1], [0.5, 0.1]])
        >>> found = dc.results.Regression("lung", ("smoke",), "linear", ("smoke=yes", "intercept"), slopes)
        >>> found.mean().round(3).tolist(), found.rows()[0]["name"]
        ([0.4, 0.1], 'smoke=yes')
    """

    target: str
    on: Scope
    kind: RegressionKind
    names: tuple[str, ...]
    coefficients: Floats
    left_out: float = 0.0
    basis: Mark | None = None
    unmeasured: tuple[tuple[str, str], ...] = ()
    prior_only: tuple[Scope, ...] = ()
    assumes: tuple[str, ...] = ()
    given: str = ""
    dates: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Make the array `coefficients` read-only in place, without a copy."""
        self.coefficients.flags.writeable = False

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List a row for each coefficient, in the order of `names`.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            Rows of "target", "name", "mean", "lower", "upper" (equal-tailed), "level", and "basis" if it is known.

        Raises:
            InputError: a level outside (0, 1).
        """
        context = {"level": level, **({} if self.basis is None else {"basis": self.basis})}
        return [{"target": self.target, **row, **context} for row in self.rows(level=level)]

    def summary(self, *, level: float = DEFAULT_LEVEL, width: int | None = None) -> str:
        """Write the coefficients as aligned text, with their basis and assumptions: the parts of `content`.

        Args:
            level: posterior probability of each interval, between 0 and 1.
            width: columns of the terminal, as in `columns`; None does not break lines.

        Returns:
            The text.

        Raises:
            InputError: a level outside (0, 1).
        """
        return text_of(self.content(level=level), width)

    def content(self, *, level: float = DEFAULT_LEVEL) -> Iterator[str | Block]:
        """Yield the parts to show from the top.

        They are a head, the table of coefficients with their intervals, a line on the unit of each variable of dates,
        the percentage of draws left out if there are any, the basis if it is known, and a line for each assumption.

        Raises:
            InputError: a level outside (0, 1), when the table is reached.
        """
        unit = f"log odds of {self.target}" if self.kind == "logistic" else self.target
        yield f"{unit} on {listed(self.on)}" + (f", given {self.given}" if self.given else "")
        yield IntervalTable([{**row, "level": level} for row in self.rows(level=level)], "coefficient")
        yield from (DATED[name == self.target].format(name, NUMBER_TYPES[type].unit[:-1]) for name, type in self.dates)
        if self.left_out:
            yield f"{100 * self.left_out:.3g} % of the draws leave coefficients open; they are left out"
        if self.basis is not None:
            yield f"rests on: {self.basis}"
        yield from assumption_lines((self,))

    def mean(self) -> Floats:
        """Compute the posterior means of the coefficients.

        Returns:
            float64, shape `(names,)`.
        """
        return np.asarray(self.coefficients.mean(axis=0))

    def interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute equal-tailed intervals of the coefficients: quantiles of the draws, interpolated linearly.

        Args:
            level: posterior probability, between 0 and 1.

        Returns:
            (lower, upper), shape `(names,)` each.

        Raises:
            InputError: a level outside (0, 1).
        """
        check_level(level)
        return equal_tails(self.coefficients, level)

    def rows(self, *, level: float = DEFAULT_LEVEL) -> tuple[NamedRow, ...]:
        """List the coefficients, in the form of `WeightPosterior.rows`.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            For each coefficient, in the order of `names` (the intercept last), `{"name", "mean", "lower", "upper"}`
            with the posterior mean and the ends of the equal-tailed interval.

        Raises:
            InputError: a level outside (0, 1).
        """
        check_level(level)
        rows = name_rows([{"name": name} for name in self.names], self.coefficients, equal_tails, level)
        return (*rows[:-1], as_ends(rows[-1], self._target_type))

    @property
    def _target_type(self) -> NumberType:
        """Type of the target's numbers: of dates or times if it is in `dates`, else of real numbers."""
        return NUMBER_TYPES[dict(self.dates).get(self.target, "real")]

    def at(self, values: Mapping[str, float], *, level: float = DEFAULT_LEVEL) -> NamedRow:
        """Compute the mean of the target at some values of the columns: their sum, each times its coefficient.

        Where all variables are normal together it is the conditional mean, in closed form by their moments.

        Args:
            values: number of each numeric covariate by its name; 1 for states by the names of their coefficients, such
                as "sex=m", where a covariate is in another state than its first.
            level: posterior probability of the interval, between 0 and 1.

        Returns:
            "name", the target, and its "mean", "lower" and "upper"; of a logistic regression they are log odds.

        Raises:
            InputError: a name that is no coefficient's, a numeric covariate without a value, a value that is not
                finite, or a level outside (0, 1).
        """
        check_level(level)
        unknown = sorted(set(values) - set(self.names[:-1]))
        require(not unknown, f"no coefficient is named {listed(map(shown, unknown))}")
        missing = [name for name in self.on if name in self.names and name not in values]
        require(not missing, f"give a value of {listed(map(shown, missing))}")
        point = np.array([*(values.get(name, 0.0) for name in self.names[:-1]), 1.0])
        require(bool(np.isfinite(point).all()), "values are finite numbers")
        (row,) = name_rows([{"name": self.target}], self.coefficients @ point[:, None], equal_tails, level)
        return cast(NamedRow, as_ends(row, self._target_type))


@delegates_to_server
def regress(
    posterior: NetworkPosterior,
    target: str,
    on: Sequence[str],
    *,
    given: str = "",
    kind: RegressionKind = "linear",
    assume: LawAssume | None = None,
    inside: Inside = "log-linear",
) -> Regression:
    """Compute the posterior of a regression of one variable of a release on others.

    The estimated coefficients are those of the population from which the records are drawn, if its law is the
    network's: the limits of a regression on ever more records. Intervals include sampling and noise, and the network's
    uncertainty as in `answer`. Numbers outside their bounds count as the bound, as in every table.

    A linear regression is read from the released sums and squares of its numeric variables, if all of them have some;
    it then needs no law inside bins. Any other reads numbers from their bins alone, and its intervals include no other
    law inside bins than the given one: with numeric variables its basis is never "measured" nor "inferred", and usually
    "assumed".

    Args:
        posterior: posterior made from a release.
        target: numeric variable with bins, or a binary one, whose second state counts 1; for a logistic regression a
            binary one, or a numeric one with two bins, of which the second counts 1.
        on: covariates, or the name of a single one: numeric with bins, which enter as numbers, or categorical, with a
            coefficient for each state except the first.
        given: states that all records of the regression have, such as `"smoke=yes, sex=m"`; empty for all records. So
            each state has its own line. States of all kinds of variables are taken, numbers and comparisons are not.
        kind: "linear", least squares; or "logistic", maximum likelihood in the population, with a ridge of a millionth
            of the records. It is exact up to 4,096 joint states of all its variables (and 2^23 of these times draws),
            and beyond that computed from 8,192 simulated records for each draw, with a fixed seed.
        assume: "network" or "robust": assumption about variables that no table contains together, as in `answer`; None
            takes the posterior as it is.
        inside: law of numbers inside their bins, as in `answer`.

    Returns:
        Draws of the coefficients, in the order of `names`, the intercept last. Draws in which a coefficient is not
        identified, or a logistic fit does not converge, are left out, up to half of them; `left_out` is their fraction.
        `given`, the basis, the assumptions behind it, and which columns are dates (in days, or seconds of a time)
        stand beside them.

    Raises:
        InputError: no covariate; a variable that is unknown or repeated, may be missing, has a single state, or is no
            target of this kind; more than 128 coefficients; evidence that is no state, or that too few records have, or
            numbers of which no sum was released together; another word for `kind`, `assume` or `inside`; `assume` for
            a posterior without alternatives to its network; a network too large for exact inference; or coefficients
            that are not identified, or fits that do not converge, in more than half of the draws. The message names the
            columns that do not vary or are collinear, or where there are none all of them.

    Guarantee:
        No budget is spent; only the posterior is read.

    Source:
        Ferrando and Sheldon (TMLR 2025), with a posterior instead of their estimate.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> network = dc.Network((dc.Variable("smoke", ("no", "yes")), dc.Variable("lung", ("no", "yes"))),
        ...                   {"smoke": (), "lung": ("smoke",)})
        >>> lung = np.array([[[0.9, 0.9], [0.1, 0.1]], [[0.6, 0.4], [0.4, 0.6]]])
        >>> theta = dc.Tables(network, {"smoke": np.full((2, 2), 0.5), "lung": lung}, draws=2)
        >>> found = dc.regress(dc.results.PosteriorDraws(theta), "lung", ["smoke"])
        >>> found.names, found.mean().round(6).tolist()
        (('smoke=yes', 'intercept'), [0.4, 0.1])
    """
    check_inside(inside)
    schema = posterior.network.schema
    names = _check_covariates(schema, target, on, kind)
    observed = parse_evidence(given, schema)
    check_names(Probability(tuple((name, None) for name in (target, *names)), observed), schema)
    both = condition_on(_apply_assumption(posterior, assume), observed, predictive=False)
    law = ColumnLaw(both.for_targets((target, *names), most=MOST_JOINT_STATES), (*names, target), inside)
    covariates = [RegressionColumn(schema[name]) for name in names]
    follows: tuple[str, ...] = ()
    with under_way("regressing"):
        numbers = both.numbers_given
        measured = kind == "linear" and _measures_numbers(numbers, (*names, target), schema)
        if measured and numbers is not None:
            sums = read_moments(law, numbers, [*covariates, RegressionColumn(schema[target])])
            moments, drawn, follows = sums.of_covariates, sums.coefficients, sums.assumes
        else:
            moments = column_moments(law, covariates)
            fit = _fit_linear if kind == "linear" else _fit_logistic
            drawn = fit(law, moments, covariates, RegressionColumn(schema[target]))
    terms = [name for column in covariates for name in column.names]
    valid = np.asarray(np.isfinite(drawn).all(axis=-1))
    left_out = float(1 - valid.mean())
    if left_out > LEFT_OUT:
        shares = np.asarray(moments.unidentified.mean(axis=0))
        wrong = [name for name, share in zip(terms, shares, strict=True) if share > shares.max() / 2]
        why = "do not vary, or follow from each other," if wrong else "have no fit that converges"
        raise InputError(
            f"the columns {listed(map(shown, wrong or terms))} {why} under {len(valid) - valid.sum()} of {len(valid)} "
            "draws; leave some of them out"
        )
    regression = Regression(target, names, kind, (*terms, "intercept"), drawn[valid], left_out)
    dates = tuple((name, schema[name].type) for name in (target, *names) if schema[name].number_type.is_calendar)
    regression = replace(regression, given=write_evidence(observed), dates=dates)
    regression = _add_basis(regression, law, measured=measured)
    return replace(regression, assumes=(*regression.assumes, *follows))


def number_moments(posterior: PosteriorDraws, target: str, on: Sequence[str]) -> NumberMoments:
    """Read the moments of a linear regression from released sums of numbers, if all that it needs were released.

    Args:
        posterior: posterior made from a release.
        target: numeric variable.
        on: covariates, numeric or categorical.

    Returns:
        Moments in every draw (`read_moments`), of all records. A number has one column, and a categorical variable one
        for each state except the first; the target is last.

    Raises:
        InputError: as `regress`; a target that is not numeric; no sums of squares of a number; or two variables of
            which nothing was released together (`are_together`), which are named.
    """
    schema = posterior.network.schema
    names = (*_check_covariates(schema, target, on, "linear"), target)
    both = condition_on(posterior, (), predictive=False)
    if both.numbers is None or not _measures_numbers(both.numbers, names, schema) or not schema[target].numeric:
        wanted = [target, *(name for name in names if schema[name].numeric and name != target)]
        raise InputError(f"this release holds no sums of all of {listed(map(shown, wanted))}; `regress` reads bins")
    if apart := [pair for pair in combinations(names, 2) if not are_together(both.numbers, posterior.network, pair)]:
        raise InputError(
            f"nothing that was released tells how these go together: {listed(' and '.join(pair) for pair in apart)}; "
            "in the network one must depend on the other, or a third variable on both"
        )
    law = ColumnLaw(both.for_targets(names, most=MOST_JOINT_STATES), names, "log-linear")
    return read_moments(law, both.numbers, [RegressionColumn(schema[name]) for name in names])


# ---------------------------------------------------------------------------------------------- what can be regressed


def _check_covariates(schema: Schema, target: str, on: Sequence[str], kind: str) -> Scope:
    """Refuse an invalid kind, target or covariates; return the covariates' names as a tuple.

    Args:
        schema: variables of the posterior.
        target: dependent variable.
        on: covariates, or the name of a single one.
        kind: "linear" or "logistic". A linear regression accepts a numeric target or one of two states, a logistic one
            only the latter.

    Returns:
        Names of the covariates, in the given order; a single name becomes a tuple of one.

    Raises:
        InputError: in this order, another kind; no covariate; a variable that is unknown, may be missing, or has a
            single state; one that applies to other records than the rest; a repeated one; a target that does not fit
            the kind; or more than MOST_COEFFICIENTS coefficients.
    """
    require_word(kind, RegressionKind, "a regression is")
    names = (on,) if isinstance(on, str) else tuple(on)
    if not names:
        raise InputError(f"a regression of {shown(target)} needs at least one covariate")
    for variable in [schema[name] for name in (target, *names)]:
        if variable.missing is not None:
            raise InputError(
                f"values of {shown(variable.name)} may be missing; regress on complete records, which takes them at "
                "random: tools.assume_at_random(posterior), or --missing at-random"
            )
        if variable.size < 2:
            raise InputError(f"variable {shown(variable.name)} has fewer than two states, and no coefficient")
    schema.require_same_records((target, *names))
    if len({target, *names}) <= len(names):
        raise InputError(f"a regression names variable {shown(first_repeated((target, *names)))} twice")
    variable = schema[target]
    if variable.size != 2 and (kind == "logistic" or not variable.numeric):
        wanted = "two states" if kind == "logistic" else "numbers with bounds and bins, or two states"
        raise InputError(f"a {kind} regression needs a target of {wanted}; {shown(target)} has {variable.size} states")
    size = sum(len(RegressionColumn(schema[name]).names) for name in names)
    if size > MOST_COEFFICIENTS:
        raise InputError(f"a regression has at most {MOST_COEFFICIENTS} coefficients, this one would have {size:,}")
    return names


def _apply_assumption(posterior: NetworkPosterior, assume: LawAssume | None) -> NetworkPosterior:
    """Return the posterior under an assumption, "network" or "robust"; None returns it unchanged.

    Raises:
        InputError: another word, a posterior that is not of a release, or one without alternatives to its network.
    """
    if assume is None:
        return posterior
    require_word(assume, LawAssume, "of a regression assume")
    if not isinstance(posterior, PosteriorDraws):
        raise InputError("what to assume is asked of posteriors that were made from a release")
    return posterior.assuming(assume)


def _add_basis(regression: Regression, law: ColumnLaw, *, measured: bool) -> Regression:
    """Return a copy of a regression with its basis, unmeasured pairs, prior-only quantities and assumptions.

    With a numeric variable whose sums were not released (`measured` is False) INSIDE_BINS is added to the assumptions,
    because no table measures the law inside bins, and the basis is "assumed", or "contradicted" or "prior" if these
    apply. If the posterior has no basis, only that assumption is added.
    """
    basis, schema = law.both.basis, law.both.given.network.schema
    numbers = [name for name in law.names if schema[name].numeric and not measured]
    assumes: tuple[str, ...] = (INSIDE_BINS.format(listed(numbers), law.inside),) if numbers else ()
    if basis is None:
        return replace(regression, assumes=assumes)
    seen = law.both.names
    names = (*law.names, *seen)
    assumes += basis.clipped(names)
    mark, unmeasured = basis.of(names, given=seen, read=law.both.read and not numbers)
    regression = replace(regression, basis=mark, unmeasured=unmeasured, assumes=(*basis.assumes(names), *assumes))
    return replace(regression, prior_only=basis.prior_only(names, given=seen))


# -------------------------------------------------------------------------------------------------- coefficients


def _fit_linear(
    law: ColumnLaw, moments: ColumnMoments, covariates: Sequence[RegressionColumn], target: RegressionColumn
) -> Floats:
    """Fit by least squares in every draw.

    Slopes solve `Cov(m, x) beta = Cov(m, y)`, and the intercept is `E y - sum_j beta_j E m_j`. m are the bins' means of
    numbers x and the indicators of states; y is the number, or the indicator of the second state.

    Args:
        law: laws of the variables.
        moments: means and covariances of the covariates' columns.
        covariates: covariates.
        target: dependent variable, as one column.

    Returns:
        Coefficients, shape `(draws, columns + 1)`, the intercept last; NaN in draws in which they are unidentified.
    """
    slopes = moments.slopes(_covary_with_target(law, covariates, target))
    shares = law.singles[target.variable.name]
    middle = (shares * law.values(target)[:, 0]).sum(axis=0)
    return np.column_stack([slopes, middle - (slopes * moments.means).sum(axis=-1)])


def _measures_numbers(numbers: NumberDraws | None, names: Scope, schema: Schema) -> bool:
    """True if some variable is numeric, and the squares of all numeric ones were released; False without sums."""
    numeric = [name for name in names if schema[name].numeric]
    return numbers is not None and bool(numeric) and all(numbers.measures(name, name) for name in numeric)


def _covary_with_target(law: ColumnLaw, covariates: Sequence[RegressionColumn], target: RegressionColumn) -> Floats:
    """Compute the covariances of the columns with the target, shape `(draws, columns)`, in the order of the covariates.

    They are covariances over the states of a covariate's variable, of its columns with the target's mean given the
    state: bin means for the columns of a number; for the target its number, or the indicator of the second of its two
    states (`RegressionColumn.given`).
    """
    products = []
    for column in covariates:
        pair = law.of(column.variable.name, target.variable.name)
        products.append(covariance(pair.sum(axis=1), law.values(column), target.given(pair, law.inside))[..., 0])
    return np.concatenate(products, axis=-1)


def _fit_logistic(
    law: ColumnLaw, moments: ColumnMoments, covariates: Sequence[RegressionColumn], target: RegressionColumn
) -> Floats:
    """Fit by maximum likelihood in every draw, first at the bins' means, then corrected to the numbers.

    In every draw, maximise the expected log likelihood under the draw's joint law, less a small ridge (`logit_fits`):
    summed over all states if the joint law is tabulated (`law.whole`), else over MADE_UP_POINTS simulated records. If
    all covariates are categorical, the correction changes nothing.

    The linear predictor of the numbers is `x beta`. Its linear projection on the bins' means m is `m gamma` with
    `Cov(m, x) beta = Cov(m, m) gamma`. The fit at the means gives gamma, and beta solves this; the intercept moves so
    that the mean of the predictor stays.

    Args:
        law: laws of the variables.
        moments: means and covariances of the covariates' columns.
        covariates: covariates.
        target: dependent variable, with two states.

    Returns:
        Coefficients, shape `(draws, columns + 1)`, the intercept last; NaN in draws in which they are unidentified or
        the fit does not converge.

    Raises:
        InputError: states are observed, and the joint law is not tabulated.
    """
    at_means = np.full((law.draws, moments.means.shape[-1] + 1), np.nan)
    if law.whole is not None:
        points = _list_states(law, covariates, target)
    elif law.both.seen:
        raise InputError("a logistic regression given states takes at most 4,096 joint states; leave some columns out")
    else:
        points = _draw_points(law, moments, covariates, target)
    for block, columns, weights, hits in points:
        at_means[block] = logit_fits(columns, weights, hits)
    gamma = at_means[:, :-1]
    slopes = moments.slopes((moments.at_means @ gamma[..., None])[..., 0])
    return np.column_stack([slopes, at_means[:, -1] + ((gamma - slopes) * moments.means).sum(axis=-1)])


def _list_states(law: ColumnLaw, covariates: Sequence[RegressionColumn], target: RegressionColumn) -> Iterator[Points]:
    """Yield the joint states of the covariates as points with exact probabilities, a block of draws at a time.

    Points are all joint states, those of probability 0 included, the last covariate's state varying fastest.
    Probabilities may be negative where noise made them so; those with the second class are clipped (`_clip_hits`). A
    block has at most MOST_POINT_VALUES values, but at least one draw.

    Args:
        law: laws of the variables; its joint law `whole` is not None.
        covariates: covariates.
        target: dependent variable, with two states.
    """
    whole = law.whole
    assert whole is not None and target.variable.size == 2
    sizes, columns = whole.shape[:-2], sum(len(column.names) for column in covariates)
    laws = whole.reshape(-1, 2, law.draws)
    codes = np.indices(sizes).reshape(len(sizes), -1)
    values = [law.values(column) for column in covariates]
    size = max(1, MOST_POINT_VALUES // (len(laws) * (columns + 1)))
    for start in range(0, law.draws, size):
        block = slice(start, min(start + size, law.draws))
        weights = laws[..., block].sum(axis=1).T
        by_column = [np.moveaxis(value[..., block], -1, 0)[:, code] for value, code in zip(values, codes, strict=True)]
        hits = _clip_hits(laws[:, 1, block].T, weights, covariates, list(codes))
        yield block, np.concatenate(by_column, axis=-1), weights, hits


def _clip_hits(
    hits: Floats, weights: Floats, covariates: Sequence[RegressionColumn], codes: Sequence[npt.NDArray[np.integer]]
) -> Floats:
    """Clip the second class's weight in each state of a categorical covariate to between 0 and the state's weight.

    Noise may push it outside, where the likelihood has no maximum. The clipped weight is shared in proportion to the
    points' weights: `h_k = w_k clip(H / W, 0, 1)`, with W and H the sums over the state; a W that is not positive is
    replaced by 1. States inside their limits, and those of numeric covariates, stay as they are. Covariates are clipped
    one after the other, and again where that pushed another one's state outside, in at most CLIPPING_ROUNDS rounds.

    Args:
        hits: weights of the points and the second class together, shape `(draws, points)`.
        weights: weights of the points, same shape.
        covariates: covariates.
        codes: code of each covariate at each point, shape `(points,)` or `(draws, points)` each.

    Returns:
        Clipped weights, shape of `hits`. `hits` is never changed in place; it is returned itself if no covariate is
        categorical.
    """
    for _ in range(CLIPPING_ROUNDS):
        before = hits
        for column, code in zip(covariates, codes, strict=True):
            for state in range(0 if column.variable.numeric else column.variable.size):
                in_state = code == state
                weight, class_weight = (weights * in_state).sum(axis=-1), (hits * in_state).sum(axis=-1)
                wrong = (class_weight < 0) | (class_weight > weight)
                share = np.clip(class_weight / np.where(weight > 0, weight, 1.0), 0.0, 1.0)
                hits = np.where(wrong[:, None] & in_state, weights * share[:, None], hits)
        if np.array_equal(hits, before):
            break
    return hits


def _draw_points(
    law: ColumnLaw, moments: ColumnMoments, covariates: Sequence[RegressionColumn], target: RegressionColumn
) -> Iterator[Points]:
    """Simulate records in every draw and yield them as points of equal weight, a block of draws at a time.

    Each draw has MADE_UP_POINTS records of the network's own law, of weight 1 / MADE_UP_POINTS each, with the target's
    probability given all else. If tables measured pairs against its independences (`law.both.parts`), these
    probabilities are shifted linearly in the covariates, by the change of the linear regression's slopes due to these
    pairs; without them there is no shift, nor in draws in which the slopes are unidentified. Shifted probabilities may
    leave [0, 1] at a point; only their means in the states of categorical covariates are clipped (`_clip_hits`). The
    seed is fixed: equal arguments yield equal points. A block has at most MOST_POINT_VALUES values, but at least one
    draw.

    Args:
        law: laws of the variables.
        moments: means and covariances of the covariates' columns.
        covariates: covariates.
        target: dependent variable, with two states.
    """
    values, names = [law.values(column) for column in covariates], [column.variable.name for column in covariates]
    moved = np.zeros_like(moments.means)
    if law.both.parts is not None:
        plain = replace(law, both=replace(law.both, parts=None))
        moved = _find_slopes_at_means(law, moments, covariates, target)
        moved -= _find_slopes_at_means(plain, column_moments(plain, covariates), covariates, target)
    size = max(1, MOST_POINT_VALUES // (MADE_UP_POINTS * (moments.means.shape[-1] + 1)))
    points = drawn_points(law.both.given.cells, target.variable.name, names, MADE_UP_POINTS)
    for drawn, all_codes, all_chances in points:
        for start in range(0, len(all_chances), size):
            rows = slice(start, min(start + size, len(all_chances)))
            block = slice(drawn.start + rows.start, drawn.start + rows.stop)
            chances, codes = all_chances[rows], [all_codes[name][rows] for name in names]
            at = np.arange(len(chances))[:, None]
            tables = [np.moveaxis(value[..., block], -1, 0) for value in values]
            columns = np.concatenate([table[at, code] for table, code in zip(tables, codes, strict=True)], axis=-1)
            centred = columns - columns.mean(axis=1, keepdims=True)
            hits = (chances + np.einsum("dkp,dp->dk", centred, np.nan_to_num(moved[block]))) / MADE_UP_POINTS
            weights = np.full_like(chances, 1 / MADE_UP_POINTS)
            yield block, columns, weights, _clip_hits(hits, weights, covariates, codes)


def _find_slopes_at_means(
    law: ColumnLaw, moments: ColumnMoments, covariates: Sequence[RegressionColumn], target: RegressionColumn
) -> Floats:
    """Compute the slopes of the linear regression on the bins' means, shape `(draws, columns)`.

    They solve `Cov(m, m) beta = Cov(m, y)`; NaN in draws in which they are unidentified.
    """
    return replace(moments, with_numbers=moments.at_means).slopes(_covary_with_target(law, covariates, target))
