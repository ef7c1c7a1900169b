"""What regressions by a perturbed objective share: one fit, one reading of its release, intervals of coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError
from discreet.estimators.columns import declared_columns
from discreet.estimators.contract import (
    Given,
    PrivateEstimator,
    columns_of,
    generator,
    read_given,
    require_drawable,
    whole_number,
)
from discreet.estimators.declared_designs import (
    by_column,
    declared_features,
    inner_products,
    positive_number,
    scaled_blocks,
    target_name,
)
from discreet.estimators.found_bounds import FoundBounds, plan_search
from discreet.estimators.given_table import GivenTable
from discreet.estimators.groups import declared_groups
from discreet.mechanisms.crossing import DesignMechanism, release
from discreet.model.design import Design, Normal
from discreet.model.indicators import worth_groups
from discreet.model.schema import Variable
from discreet.posterior.design.weight_posterior import (
    WeightPosterior,
    quick_estimate,
    read_weights,
    require_level,
    tails,
)
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.release import Release
from discreet.sensitive.gradients import sum_gradients

__all__ = ["GradientRegression", "expected_records", "trace_of"]

MANY = 10**6
"""Records that are expected where nothing is scaled by their number: rounding of so many is hidden by noise of a
thousandth on a weight, up to 30 features."""
CHUNK = 2**24
"""Numbers that are held at once on the way to intervals: 128 MiB."""

Floats = npt.NDArray[np.float64]
Making = Callable[[Guarantee, int, Design], DesignMechanism[Any, Any]]


class GradientRegression(PrivateEstimator):
    """Abstract: a regression whose release is a `GradientTrace`.

    A subclass keeps `bounds`, `groups`, `norm`, `records`, `find_bounds`, `draws`, `random_state` and
    `one_record_a_unit`, and has `prior_deviation`.
    """

    prior_deviation: float = 2.5

    def _released(
        self,
        X: Any,
        y: Any,
        names: tuple[str | None, str | None],
        promise: tuple[Guarantee, Account],
        *,
        predicted: Variable,
        labels: npt.NDArray[Any] | None,
        mechanism: Making,
    ) -> tuple[Release, FoundBounds | None]:
        """Charge the account and release, perhaps after a first release of the columns' histograms.

        Args:
            X, y: as of `fit`.
            names: of the target in a table, and of the table.
            promise: what is promised, and the account that pays.
            predicted: the target but for its name, which is taken where the table has none.
            labels: that y may hold; None for counts.
            mechanism: made of the guarantee, the number of records and the design.

        Returns:
            (the release; what a first one found, where there was one).

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged, unless others empty it between two releases.
        """
        guarantee, account = promise
        generator(self.random_state)
        draws = whole_number(self.draws, "draws", 2)
        given = read_given(self, X, y, target=names[0], table=names[1], grouped=self._grouped)
        design = self._design(given, predicted, counted=labels is None)
        require_drawable(draws, design.weights)
        columns = columns_of(design.names, given, by_name=isinstance(self.bounds, Mapping))
        self._require(design)
        rows = given.rows(design, columns, labels, self.one_record_a_unit)
        search, found = plan_search(self, rows, given, guarantee, fixed=self._fixed()), None
        guarantee = guarantee if search is None else search.rest
        made = mechanism(guarantee, rows.records, design)
        deviation = positive_number(self.prior_deviation, "prior_deviation")
        if search is not None:
            read_as = (columns, labels, self.one_record_a_unit)
            found, rows = search.run(rows, given, read_as, (made, Normal(design, deviation)), account)
        released = release(made, sum_gradients(rows), Normal(rows.design, deviation), guarantee, account=account)
        given.describe(self)
        self._columns = columns
        return released, found

    def _fixed(self) -> str | None:
        """Why the bounds must stay, where they must."""
        return None if self.norm is None else "a norm is one of features that are scaled by the bounds"

    def _require(self, design: Design) -> None:
        """Refuse, before anything is charged, what a posterior will not take."""

    def _design(self, given: Given | GivenTable, predicted: Variable, *, counted: bool) -> Design:
        """What is public: the columns' names, their bounds and the target that was declared."""
        features = declared_features(self.bounds, given)
        norm = None if self.norm is None else positive_number(self.norm, "norm")
        name = target_name(given, predicted.name, features)
        target = Variable(name, predicted.states, bounds=predicted.bounds)
        columns = features
        if isinstance(given, GivenTable):
            columns = given.columns
        elif isinstance(self.bounds, Mapping):
            columns = declared_columns(self.bounds)
        groups = declared_groups(self.groups, columns) if given.grouped or self.groups else ()
        return Design(features, target, norm, groups=groups, counted=counted)

    def _grouped(self, columns: tuple[Variable, ...]) -> bool:
        """Whether states stand in groups: by what is declared alone, and where no law of the features is."""
        return bool(self.groups) or (self._lawless() and self.norm is None and worth_groups(columns))

    def _lawless(self) -> bool:
        """Whether nothing is declared of the features' law."""
        return True

    def _keep(self, released: Release) -> None:
        """The release, and the estimate of its weights: of one output after the other, shape (outputs, size)."""
        design = trace_of(released).design
        self.release_, self._weights = released, quick_estimate(released).reshape(design.outputs, design.size)
        slopes, intercepts = design.slopes(self._weights)
        self.coef_, self.intercept_ = by_column(slopes, self._columns), intercepts

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> WeightPosterior:
        """Draws of the weights given everything that was released.

        Args:
            draws: how many.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates; `posterior.slopes` has the columns' units.

        Raises:
            InputError: no draws, no law of the features, or chains that did not meet.
        """
        check_is_fitted(self, "release_")
        rng = generator(self.random_state if random_state is None else random_state)
        return read_weights(self.release_, draws=whole_number(draws, "draws", 1), rng=rng, **self._known())

    def _known(self) -> dict[str, Any]:
        """What the posterior is told beside the release."""
        return {}

    def coef_interval(self, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of the coefficients in the units of the columns.

        Args:
            level: posterior probability of each, between 0 and 1.

        Returns:
            (lower, upper), of the shape of `coef_` each.

        Raises:
            InputError: as `sample_posterior`, a level outside (0, 1), or too few draws for it.
        """
        posterior = self._drawn(level)
        lower, upper = posterior.tails(by_column(posterior.slopes[0], self._columns), level)
        return lower.reshape(self.coef_.shape), upper.reshape(self.coef_.shape)

    def intercept_interval(self, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of the intercepts, of the shape of `intercept_` each; arguments and errors as `coef_interval`."""
        posterior = self._drawn(level)
        lower, upper = posterior.tails(posterior.slopes[1], level)
        return lower.reshape(np.shape(self.intercept_)), upper.reshape(np.shape(self.intercept_))

    def _drawn(self, level: float) -> WeightPosterior:
        """The posterior for an interval; a level that its draws cannot tell is refused first."""
        check_is_fitted(self, "release_")
        draws = whole_number(self.draws, "draws", 2)
        require_level(level, draws)
        return self.sample_posterior(draws)

    def _predictors(self, X: Any) -> Floats:
        """Linear predictors by the estimate, shape (outputs, records), of each record by itself."""
        check_is_fitted(self, "release_")
        blocks = [[inner_products(block, each) for each in self._weights] for block in scaled_blocks(self, X)]
        return np.concatenate(blocks, axis=1)

    def _mean_tails(self, X: Any, level: float, means: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
        """Intervals of what records' predictors mean.

        Args:
            X: as in `fit`.
            level: of each.
            means: of predictors, shape (draws, outputs, records), the same shape.

        Returns:
            (lower, upper), shape (outputs, records) each.
        """
        check_is_fitted(self, "release_")
        require_level(level, whole_number(self.draws, "draws", 2))
        blocks, posterior = list(scaled_blocks(self, X)), self._drawn(level)
        drawn = posterior.weights.reshape(len(posterior.weights), -1, posterior.design.size)
        step = max(1, CHUNK // (drawn.shape[0] * drawn.shape[1]))
        found = [
            np.array(tails(means(drawn @ block[start : start + step].T), level))
            for block in blocks
            for start in range(0, len(block), step)
        ]
        lower, upper = np.concatenate(found, axis=2)
        return lower, upper


def expected_records(declared: Any, guarantee: Guarantee, counted: int, *, scaled: bool) -> int:
    """The public number of records that a mechanism is told.

    Args:
        declared: of the constructor, or None.
        guarantee: whose relation says whether the counted number is public.
        counted: number of records.
        scaled: whether anything is scaled by the number; if not, that of many records will do.

    Returns:
        The number.

    Raises:
        InputError: it is private, and has to be declared.
    """
    if declared is not None:
        return whole_number(declared, "records", 1)
    if guarantee.relation.public_number:
        return counted
    if scaled:
        raise InputError(
            "an add-remove guarantee keeps the number of records private: declare records=..., a public number of "
            "about that size"
        )
    return MANY


def trace_of(release: Release) -> GradientTrace:
    """What a regression by gradients released; errors if it is none."""
    if not isinstance(release.payload, GradientTrace):
        raise InputError("this release is not of a logistic or Poisson regression: it holds no gradients")
    return release.payload
