"""Base of the private regressions: the fit, the posterior of its release, intervals of coefficients and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from discreet.designs.design import Design, Normal
from discreet.designs.indicators import worth_groups
from discreet.designs.kinds.gradient_trace import GradientTrace
from discreet.designs.mechanisms.objective_perturbation import objective_perturbation
from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.designs.records.rows import Rows
from discreet.errors import InputError, listed, require, shown
from discreet.estimators.columns import declared_columns, declared_pair
from discreet.estimators.contract import ArrayInput, PrivateEstimator, columns_of, design_behind, read_inputs
from discreet.estimators.declared_designs import (
    by_column,
    declared_features,
    inner_products,
    positive_number,
    scaled_blocks,
    target_name,
)
from discreet.estimators.found_bounds import FoundBounds, describe_found, plan_search
from discreet.estimators.groups import declared_groups
from discreet.estimators.lazy_posterior import LazyPosterior
from discreet.estimators.network_regression import NetworkReader
from discreet.estimators.options import (
    generator,
    generator_after,
    require_drawable,
    whole_number,
    yes_or_no,
)
from discreet.estimators.table_input import FitSource, TableInput
from discreet.mechanisms.crossing import Mechanism, release, statistic_of
from discreet.model.schema import Variable
from discreet.posterior.protocol import require_level, tails
from discreet.posterior.read import is_read_by, quick_estimate, read
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.releases.release import Release
from discreet.util.arrays import Array, Floats
from discreet.util.option_texts import DEFAULT_LEVEL

EXPECTED_RECORDS = 10**6
"""Expected number of records if nothing is scaled by it. Noise that moves a weight by a thousandth hides the rounding
of so many records, up to 30 features."""
ENTANGLED = 0.95
"""Least correlation of two slopes' draws that are not told apart: each alone has ten times the variance that it has
given the other."""
INTERVAL_NUMBERS = 2**24
"""Numbers in memory at once in the computation of intervals: 128 MiB."""


class CollinearWarning(UserWarning):
    """Warning that slopes of nearly collinear columns are not told apart; it names the columns.

    Args:
        message: the columns, and what their intervals mean.

    Raises:
        Nothing: it is a warning; `warnings.simplefilter("error", CollinearWarning)` makes an error of it.

    Example:
        >>> import discreet as dc
        >>> issubclass(dc.estimators.CollinearWarning, UserWarning)
        True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionEstimator(PrivateEstimator):
    """Abstract regression, whose release holds weights, moments or gradients over a design.

    Its methods `_declare_target` and `_make_mechanism` define the target and the mechanism. A subclass may have the
    attributes that are no fields as arguments.
    """

    records: int | None = None
    find_bounds: Number | str | None = "auto"
    prior_deviation = 2.5
    fit_intercept = True
    groups = norm = cast(Any, None)
    _counted = False
    _reader: NetworkReader | None = None
    _named = "coefficient"

    def _release(self, source: FitSource, guarantee: Guarantee, account: Account) -> None:
        """Release, perhaps found bounds first, and keep the estimate."""
        predicted, labels = self._declare_target(source.target_column)
        posterior = self._plan_draws()
        inputs = read_inputs(self, source, grouped=self._are_grouped)
        design = self._make_design(inputs, predicted)
        require_drawable(self.draws, design.weights)
        reading = (columns_of(design.names, inputs, by_name=isinstance(self.bounds, Mapping)), labels)
        rows = inputs.rows(design, *reading, self.one_record_a_unit)
        self._require(rows, guarantee)
        search, found_bounds = plan_search(self, rows, inputs, guarantee, fixed=self._say_why_fixed()), None
        if search is not None:
            guarantee = search.rest
        mechanism = self._make_mechanism(guarantee, rows.records, design)
        deviation = positive_number(self.prior_deviation, "prior_deviation")
        if search is not None:
            then = mechanism, Normal(design, deviation)
            found_bounds, rows = search.run(rows, inputs, (*reading, self.one_record_a_unit), then, account)
        statistic = statistic_of(mechanism, rows, rows.design)
        released = release(mechanism, statistic, Normal(rows.design, deviation), guarantee, account=account)
        inputs.describe(self)
        self._columns = reading[0]
        self._keep(released, labels, posterior, found_bounds)

    def _declare_target(self, column: Variable | None) -> tuple[Variable, Array | None]:
        """Check the target's declaration: its states or bounds, and the labels that y may hold, if any.

        Args:
            column: public variable of the target, if the records have one; it stands for what is not declared.

        Returns:
            Variable, whose name is the default for a target without a column name; and the labels of classes.
        """
        return Variable("target", bounds=self._bound_target(column)), None

    def _bound_target(self, column: Variable | None) -> tuple[float, float]:
        """Check the bounds of a number to predict."""
        bounds = getattr(self, "target_bounds", None)
        if bounds is None and column is not None:
            require(column.numeric, f"column {shown(column.name)} has states; this regression predicts numbers")
            bounds = column.bounds
        if bounds is None:
            raise InputError("fit needs target_bounds=(lower, upper); they are never read off records")
        return declared_pair(bounds, "target_bounds")

    def _make_mechanism(self, guarantee: Guarantee, counted: int, design: Design) -> Mechanism:
        """Make the mechanism of the arguments.

        Args:
            guarantee: of the fit's release.
            counted: number of records; use it only if the relation makes it public.
            design: public.
        """
        raise NotImplementedError

    def _plan_draws(self) -> LazyPosterior | None:
        """Refuse an invalid random state or number of draws before any charge; plan the draws that intervals share."""
        generator(self.random_state)
        whole_number(self.draws, "draws", 2)
        return None

    def _require(self, rows: Rows, guarantee: Guarantee) -> None:
        """Refuse rows that the posterior does not accept, before anything is charged."""

    def _say_why_fixed(self) -> str | None:
        """Explain why found bounds cannot replace the declared ones; None if they can."""
        return None if self.norm is None else "the norm is of features that are scaled by the declared bounds"

    def _make_design(self, inputs: ArrayInput | TableInput, predicted: Variable) -> Design:
        """Make the design from public declarations: the columns' names, their bounds, and the target."""
        features = declared_features(self.bounds, inputs)
        norm = None if self.norm is None else positive_number(self.norm, "norm")
        target = Variable(target_name(inputs, predicted.name, features), predicted.states, bounds=predicted.bounds)
        columns = features
        if isinstance(inputs, TableInput):
            columns = inputs.columns
        elif isinstance(self.bounds, Mapping):
            columns = declared_columns(self.bounds)
        groups = declared_groups(self.groups, columns) if inputs.grouped or self.groups else ()
        intercept = yes_or_no(self.fit_intercept, "fit_intercept")
        return Design(features, target, norm, intercept, groups=groups, counted=self._counted)

    def _are_grouped(self, columns: tuple[Variable, ...]) -> bool:
        """True if states are in groups of the design; the declarations alone decide this."""
        return bool(self.groups) or (self._has_no_law() and self.norm is None and worth_groups(columns))

    def _has_no_law(self) -> bool:
        """True if no law of the features is declared."""
        return True

    def _keep(
        self,
        released: Release,
        labels: Array | None = None,
        posterior: LazyPosterior | None = None,
        found_bounds: FoundBounds | None = None,
        reader: NetworkReader | None = None,
    ) -> None:
        """Set the attributes of a fit: the release, its reader, draws, the found bounds, and the estimate."""
        self.release_, self._reader = released, reader
        design, rng = design_behind(self), generator(self.random_state)
        weights = quick_estimate(released) if reader is None else reader.estimate(released, draws=self.draws, rng=rng)
        self._weights = weights.reshape(design.outputs, design.size)
        slopes, intercepts = design.slopes(self._weights)
        self.coef_, self.intercept_ = by_column(slopes, self._columns), intercepts
        if labels is None:  # one linear predictor: scikit-learn has its coefficients as a vector
            self.coef_, self.intercept_ = self.coef_[0], intercepts[0]
        else:
            self.classes_ = labels
        if posterior is not None:
            self._posterior = posterior
        describe_found(self, found_bounds)

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> WeightPosterior:
        """Draw the weights afresh, given the release.

        Args:
            draws: number of draws.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates; `posterior.slopes` has the columns' units.

        Raises:
            InputError: no draws, no law of the features if one is needed, or chains that did not converge.
        """
        rng = generator_after(self, random_state)
        number = whole_number(draws, "draws", 1)
        options = {"draws": number, "rng": rng, **self._reading_options()}
        return cast(WeightPosterior, (self._reader or read)(self.release_, **options))

    def _reading_options(self) -> dict[str, Any]:
        """List the arguments of `read` besides the release."""
        return {}

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List a row for each coefficient, from draws of the posterior.

        Args:
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            The rows of `WeightPosterior.tidy`: "name", which is "intercept" for the last, "mean", "lower", "upper" and
            "level", and "class" with more than two classes, in the units of the columns. Predictions use the estimate
            `coef_`, which is near the mean unless columns are in groups.

        Raises:
            InputError: as `coef_interval`.
        """
        check_is_fitted(self, "release_")
        return self._draw_for(level).tidy(level=level)

    def coef_interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute credible intervals of the coefficients, in the units of the columns.

        They refer to columns that are clipped to the bounds in use (see `clipped_`).

        Args:
            level: posterior probability of each, between 0 and 1.

        Returns:
            (lower, upper), of the shape of `coef_` each, in its order.

        Raises:
            InputError: as `sample_posterior`, a level outside (0, 1), too few draws for it, or an extra that is not
                installed.
        """
        posterior = self._draw_for(level)
        lower, upper = posterior.tails(by_column(posterior.slopes[0], self._columns), level)
        return lower.reshape(self.coef_.shape), upper.reshape(self.coef_.shape)

    def intercept_interval(self, *, level: float = DEFAULT_LEVEL) -> tuple[Any, Any]:
        """Compute the credible interval of the intercept, or of each class's intercept.

        Args:
            level: posterior probability of each, between 0 and 1.

        Returns:
            (lower, upper), of the shape of `intercept_` each.

        Raises:
            InputError: as `coef_interval`.
        """
        posterior = self._draw_for(level)
        lower, upper = posterior.tails(posterior.slopes[1], level)
        shape = np.shape(self.intercept_)
        return lower.reshape(shape)[()], upper.reshape(shape)[()]

    def _draw_for(self, level: float) -> WeightPosterior:
        """Draw the posterior for an interval; refuse a level that its draws cannot resolve first."""
        draws = whole_number(self.draws, "draws", 2)
        require_level(level, draws)
        return warned(self.sample_posterior(draws))

    def predict(self, X: Any) -> Array:
        """Predict by `coef_` and `intercept_`: the target's expectation, or the most probable class.

        Args:
            X: as in `fit`; nothing is charged. Numbers outside their bounds are moved to the nearest bound.

        Returns:
            Shape (records,): numbers in the target's unit, expected counts, or labels.

        Raises:
            InputError: columns other than those of the fit.
        """
        return self._expect(self._predict_linearly(X))

    def _expect(self, predictors: Floats) -> Array:
        """Convert linear predictors, shape (outputs, records), to predictions."""
        raise NotImplementedError

    def _predict_linearly(self, X: Any) -> Floats:
        """Compute linear predictors by the estimate, each record by itself, shape (outputs, records)."""
        blocks = [[inner_products(block, each) for each in self._weights] for block in scaled_blocks(self, X)]
        return np.concatenate(blocks, axis=1)

    def _bound_means(self, X: Any, level: float, means: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """Compute intervals of the records' expected targets.

        Args:
            X: as in `fit`.
            level: of each interval.
            means: maps predictors, shape (draws, outputs, records), to expectations of the same shape.

        Returns:
            (lower, upper), shape (outputs, records) each.
        """
        blocks, posterior = list(scaled_blocks(self, X)), self._draw_for(level)
        weights = posterior.weights.reshape(len(posterior.weights), -1, posterior.design.size)
        step = max(1, INTERVAL_NUMBERS // (weights.shape[0] * weights.shape[1]))
        intervals = [
            np.array(tails(means(weights @ block[start : start + step].T), level))
            for block in blocks
            for start in range(0, len(block), step)
        ]
        lower, upper = np.concatenate(intervals, axis=2)
        return lower, upper


def warned(posterior: WeightPosterior) -> WeightPosterior:
    """Return a posterior for intervals of its slopes, with a warning where some are not told apart."""
    if names := entangled(posterior):
        warnings.warn(
            f"slopes of {listed(names)} are known together and not apart: these columns are nearly collinear, or noise "
            "hides that they are not; read them together, or leave some out",
            CollinearWarning,
            stacklevel=4,
        )
    return posterior


def entangled(posterior: WeightPosterior) -> list[str]:
    """List the columns whose slopes hardly anything tells apart: those of pairs with a correlation of 0.95 or more.

    Args:
        posterior: draws, perhaps of several classes. Indicators of one category, which exclude each other, are no pair.

    Returns:
        Names, in the design's order.
    """
    design, draws = posterior.design, len(posterior.weights)
    slopes = posterior.slopes[0].reshape(draws, -1, len(design.names))
    close = set[int]()
    for by_class in slopes.swapaxes(0, 1) if len(design.names) > 1 and len(slopes) > 2 else ():
        centred = by_class - by_class.mean(axis=0)
        products = centred.T @ centred
        squares = np.diagonal(products)
        pairs = np.argwhere(np.triu(products**2, 1) > ENTANGLED**2 * np.outer(squares, squares))
        close |= {at for pair in pairs.tolist() for at in pair if not any(set(pair) <= set(g) for g in design.groups)}
    return [design.names[at] for at in sorted(close)]


def expected_records(declared: Any, guarantee: Guarantee, counted: int, *, scaled: bool) -> int:
    """Find the public number of records that a mechanism may use.

    Args:
        declared: argument of the constructor, or None.
        guarantee: its relation makes the counted number public or private.
        counted: number of records.
        scaled: whether anything is scaled by the number; if not, a large default is used.

    Returns:
        The number.

    Raises:
        InputError: it is private and must be declared.

    Example:
        >>> promise = Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> expected_records(None, promise, 812, scaled=False)  # private: the counted number has no effect
        1000000
        >>> expected_records(500, promise, 812, scaled=True)
        500
    """
    if declared is not None:
        return whole_number(declared, "records", 1)
    if guarantee.relation.public_number:
        return counted
    if scaled:
        raise InputError(
            "an add-remove guarantee keeps the number of records private: declare records=..., a public estimate of it"
        )
    return EXPECTED_RECORDS


def perturb_objective(estimator: Any, records: int) -> Mechanism:
    """Make the mechanism `objective_perturbation` with an estimator's `regularisation` and `curvature`.

    Args:
        estimator: with both arguments.
        records: public, expected number of records.

    Returns:
        The mechanism.

    Raises:
        InputError: the regularisation is not finite and greater than 0, or the curvature not True or False.
    """
    convexity = estimator.regularisation
    if convexity is not None:
        convexity = positive_number(convexity, "regularisation")
    curvature = int(yes_or_no(estimator.curvature, "curvature"))
    return objective_perturbation(records=records, regularisation=convexity, curvature=curvature)


def trace_of(release: Release) -> GradientTrace:
    """Read the gradients of a logistic or Poisson regression's release; any other release is an InputError."""
    if not is_read_by("gradients", release):
        raise InputError("this release is not of a logistic or Poisson regression; over a network ask `regress`")
    return release.payload_as(GradientTrace)
