"""Linear regression: second moments released with noise on all at once, or draws from a posterior cut to a ball."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError
from discreet.estimators.accounts import promised
from discreet.estimators.columns import declared_pair
from discreet.estimators.contract import (
    Given,
    PrivateEstimator,
    columns_of,
    generator,
    read_given,
    refuse_options,
    require_drawable,
    whole_number,
    yes_or_no,
)
from discreet.estimators.declared_designs import (
    by_column,
    declared_features,
    describe,
    inner_products,
    positive_number,
    scaled_blocks,
    target_name,
    written_bounds,
)
from discreet.estimators.drawn_later import DrawnLater
from discreet.estimators.found_bounds import describe_found, plan_search
from discreet.estimators.given_table import GivenTable
from discreet.estimators.public_records import ScoredRecords, of_public_records
from discreet.mechanisms.crossing import DesignMechanism, release
from discreet.mechanisms.grouped_moments import grouped_moments
from discreet.mechanisms.noisy_moments import noisy_moments
from discreet.mechanisms.truncated_posterior import truncated_posterior
from discreet.model.design import Design, Normal
from discreet.model.schema import Variable
from discreet.posterior.design.weight_posterior import WeightPosterior, quick_estimate, read_weights
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.releases.kinds.weight_draws import WeightDraws
from discreet.releases.release import Release
from discreet.sensitive.moments import Moments, sum_moments

__all__ = ["PrivateLinearRegression"]

Floats = npt.NDArray[np.float64]
METHODS = {"grouped_moments": "moments", "noisy_moments": "exact"}
"""The estimator's word for a mechanism."""
FIXED = "without an intercept, and by methods other than 'moments', models are declared in coordinates of the bounds"
"""Why bounds are not narrowed there."""


class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Bayesian linear regression under differential privacy, with intervals that count the privacy noise.

    Features and target are moved from their public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is what the others are compared with. Required.
        target_bounds: of the target, `(lower, upper)`; required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: pays for every fit; required unless epsilon is given.
        epsilon, delta: in the place of `guarantee`, for adding or removing one record, paid by the default account
            unless `account` is given, whose relation and unit it then is for; see docs/estimators.md, "One line".
        method: "moments" releases all second moments with noise by groups of them, Gaussian noise where the guarantee
            has a delta: an estimate and intervals for everything at once. "exact" puts one cube of noise on all of
            them, whose exact posterior is drawn, by Markov chains where noise is large. "sampler" releases draws from
            the posterior under a prior cut to a ball, tempered to what the guarantee pays for: no extra noise, but
            wide, and with a single draw no interval.
        fit_intercept: whether an intercept is fitted. Without one the fit goes through the middle of all bounds: that,
            and not 0, is the origin of the scaled coordinates.
        prior_deviation: standard deviation of each weight a priori, in the scaled coordinates, for "exact" and
            "sampler"; "moments" learns it from the release.
        residual_variance: for "sampler", where it is required: of the scaled target around its mean, assumed.
        radius: for "sampler": of the ball of weights, in the scaled coordinates.
        released_draws: for "sampler": they share the budget.
        scored_records: what the records are that `score` is asked about, and thereby cross-validation without a
            `scoring`: of "private" ones, the default, it is refused; for these there are `release_score` and
            `private_scorer`. Metrics that are computed of `predict` are exact, and nothing can stop them.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: your word that no unit has more than one record, where the guarantee is for another unit than
            "record"; releases say whose word it is.
        find_bounds: share of the guarantee for a first release of histograms, by which bounds far too wide shrink:
            "auto" takes a fiftieth to a fifth, or nothing where noise would hide all; None keeps the bounds.
        records: public, expected number of records: for "auto", where the number that is counted is private. Without it
            a tenth is taken.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        coef_, intercept_: posterior means by the normal approximation, there at once (of released draws, their mean),
            in the units of the columns, shape (features,), in the order of X's columns, and a number.
        posterior_: draws of the weights in scaled coordinates, in the order of `release_.design.names`; drawn when it
            is first looked at, which for "exact" with much noise takes minutes and the extra `mcmc`.
        bounds_release_, found_bounds_, clipped_: of the first release, by column: bounds in use, and noisy numbers of
            values outside of them with intervals; None where there was none.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`found_bounds.py`); see
        `grouped_moments`, `noisy_moments` and `truncated_posterior`. The last is drawn by a floating-point sampler.

    Source:
        Bernstein and Sheldon (2019) and Zhang, Rubinstein and Dimitrakakis (AAAI 2016), as these modules have it.

    Example:
        >>> from discreet.privacy.ledger import Ledger
        >>> promise = Guarantee(epsilon=5, delta=0, relation="replace", unit="record")
        >>> account = Ledger("sqlite://").open("houses", promise)
        >>> X = np.linspace(0, 10, 2000)[:, None]
        >>> estimator = PrivateLinearRegression(bounds=(0, 10), target_bounds=(0, 100), random_state=0,
        ...                                     guarantee=promise, account=account).fit(X, 20 + 5 * X[:, 0])
        >>> bool(abs(estimator.coef_[0] - 5) < 1), bool(abs(estimator.predict([[4.0]])[0] - 40) < 3)
        (True, True)
    """

    def __init__(
        self,
        *,
        bounds: tuple[Any, Any] | Mapping[str, Any] | None = None,
        target_bounds: tuple[float, float] | None = None,
        guarantee: Guarantee | None = None,
        account: Account | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        method: str = "moments",
        fit_intercept: bool = True,
        prior_deviation: float = 1.0,
        residual_variance: float | None = None,
        radius: float = 1.0,
        released_draws: int = 1,
        scored_records: ScoredRecords = "private",
        draws: int = 1000,
        random_state: Any = None,
        one_record_a_unit: bool = False,
        find_bounds: Number | str | None = "auto",
        records: int | None = None,
    ) -> None:
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.guarantee = guarantee
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.fit_intercept = fit_intercept
        self.prior_deviation = prior_deviation
        self.residual_variance = residual_variance
        self.radius = radius
        self.released_draws = released_draws
        self.scored_records = scored_records
        self.draws = draws
        self.random_state = random_state
        self.one_record_a_unit = one_record_a_unit
        self.find_bounds = find_bounds
        self.records = records

    def fit(
        self, X: Any, y: Any = None, *, target: str | None = None, table: str | None = None, **options: Any
    ) -> Self:
        """Sum, charge the account, release, and estimate; the posterior is drawn when it is asked for.

        Args:
            X: array or frame of numbers, shape (records, features); or a table: a path or glob, a URL, an Arrow, Ibis
                or Spark table, a frame with the target in it, or `Records`.
            y: numbers, shape (records,).
            target: name of the column of a table that is predicted; y is then left out.
            table: name of the table where X is the URL of a database.
            options: none is taken; sample weights are refused by an error of ours.

        Returns:
            The estimator.

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged, unless others empty it between two releases.
        """
        refuse_options(options)
        guarantee, account = promised(self)
        later = DrawnLater(whole_number(self.draws, "draws", 2), self.random_state, exact=self.method == "exact")
        if self.method not in ("moments", "exact", "sampler"):
            raise InputError(f"method is 'moments', 'exact' or 'sampler', not {self.method!r}")
        given = read_given(self, X, y, target=target, table=table)
        design = self._design(given)
        require_drawable(self.draws, design.size)
        columns = columns_of(design.names, given, by_name=isinstance(self.bounds, Mapping))
        rows, found = given.rows(design, columns, None, self.one_record_a_unit), None
        if guarantee.relation.public_number and rows.records <= design.size:
            raise InputError(f"{design.size} weights need more records than that; their number is public here")
        made, deviation = self._mechanism(), positive_number(self.prior_deviation, "prior_deviation")
        fixed = FIXED if self.method != "moments" or not self.fit_intercept else None
        if search := plan_search(self, rows, given, guarantee, fixed=fixed):
            guarantee = search.rest
            read_as = (columns, None, self.one_record_a_unit)
            found, rows = search.run(rows, given, read_as, (made, Normal(design, deviation)), account)
        released = release(made, sum_moments(rows), Normal(rows.design, deviation), guarantee, account=account)
        given.describe(self)
        self._columns = columns
        self._read(released, later)
        describe_found(self, found)
        return self

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        bounds: Mapping[str, Any] | None = None,
        draws: int = 1000,
        random_state: Any = None,
    ) -> Self:
        """A fitted estimator of a release alone, for whoever has no records.

        Args:
            release: of a linear regression, such as the `release_` of another estimator.
            bounds: as in the constructor, where some columns are categories, so that `predict` takes their texts.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account to be fitted with.

        Raises:
            InputError: a release of something else.
        """
        design = release.design
        if design.target is None or design.predicts != "number":
            raise InputError("this release is not of a linear regression: its target is no number")
        made = cls(
            bounds=written_bounds(design, bounds),
            target_bounds=design.target.bounds,
            guarantee=release.guarantee,
            method=METHODS.get(release.mechanism, "sampler"),
            fit_intercept=design.intercept,
            prior_deviation=release.normal.deviation,
            draws=draws,
            random_state=random_state,
        )
        if isinstance(release.payload, WeightDraws):
            sampled = release.payload
            made.set_params(
                residual_variance=sampled.variance, radius=sampled.radius, released_draws=len(sampled.weights)
            )
        describe(made, design)
        describe_found(made, None)
        later = DrawnLater(whole_number(draws, "draws", 2), random_state, exact=made.method == "exact")
        return made._read(release, later)

    @property
    def posterior_(self) -> WeightPosterior:
        """Draws of the weights, made when they are first asked for.

        Raises:
            InputError: an extra that is not installed.
        """
        check_is_fitted(self, "release_")
        return self._later.of(self.release_)

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> WeightPosterior:
        """Fresh draws of the weights.

        Args:
            draws: how many.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates; `posterior.design.slopes(posterior.weights)` has the columns' units.

        Raises:
            InputError: no draws.
        """
        check_is_fitted(self, "release_")
        rng = generator(self.random_state if random_state is None else random_state)
        exact = self.release_.mechanism == "noisy_moments"
        return read_weights(self.release_, draws=whole_number(draws, "draws", 1), rng=rng, exact=exact)

    def coef_interval(self, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of the coefficients in the units of the columns, clipped to the bounds in use (see `clipped_`).

        Args:
            level: posterior probability of each, between 0 and 1.

        Returns:
            (lower, upper), shape (features,) each, in the order of `coef_`; for the intercept see `intercept_interval`.

        Raises:
            InputError: a level outside (0, 1), too few draws for it, chains that have not met, or an extra that is not
                installed.
        """
        slopes, _ = self.posterior_.design.slopes(self.posterior_.weights)
        return self.posterior_.tails(by_column(slopes, self._columns), level)

    def intercept_interval(self, *, level: float = 0.95) -> tuple[float, float]:
        """Interval of the intercept, in the target's unit; arguments and errors as `coef_interval`."""
        lower, upper = self.posterior_.tails(self.posterior_.design.slopes(self.posterior_.weights)[1], level)
        return float(lower), float(upper)

    def predict(self, X: Any) -> Floats:
        """The target's expectation by the estimate of `coef_` and `intercept_`.

        Args:
            X: as in `fit`; nothing is charged. Numbers outside their bounds are moved to the nearest bound.

        Returns:
            Shape (records,), in the target's unit.

        Raises:
            InputError: other columns than those of the fit.
        """
        check_is_fitted(self, "release_")
        design = self.release_.design
        blocks = [inner_products(block, self._weights) for block in scaled_blocks(self, X)]
        return design.predicted(np.concatenate(blocks))

    @of_public_records
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of `predict`, exact: of public records only.

        Args:
            X: as in `fit`.
            y: numbers, shape (records,).
            sample_weight: of each record.

        Returns:
            At most 1.

        Raises:
            InputError: `scored_records` is not "public", or as `predict`.
        """
        return float(super().score(X, y, sample_weight))

    def predict_interval(self, X: Any, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of the target's expectation, which count the sampling error and the noise.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records,) each, in the target's unit.

        Raises:
            InputError: as `predict`, a level outside (0, 1), or too few draws for it.
        """
        expected = self._expected(X)
        return self.posterior_.tails(expected, level)

    def outcome_interval(self, X: Any, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of one new record's target: those of its expectation, and the residual around it.

        Args:
            X: as in `fit`.
            level: probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records,) each, in the target's unit.

        Raises:
            InputError: as `predict_interval`.
        """
        expected = self._expected(X)
        assert self.posterior_.variance is not None
        spread = np.sqrt(self.posterior_.variance) * _half_width(self.posterior_.design)
        residuals = generator(self.random_state).standard_normal(expected.shape)
        return self.posterior_.tails(expected + spread[:, None] * residuals, level)

    def __sklearn_tags__(self) -> Tags:
        """No two fits are alike, whatever the random state; noise may leave little of a fit."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True
        return tags

    def _design(self, given: Given | GivenTable) -> Design:
        """What is public: the columns' names and the bounds that were declared."""
        if self.target_bounds is None:
            raise InputError("fit needs target_bounds=(lower, upper): never read off records")
        features = declared_features(self.bounds, given)
        target = declared_pair(self.target_bounds, "target_bounds")
        return Design(
            features,
            Variable(target_name(given, "target", features), bounds=target),
            None,
            yes_or_no(self.fit_intercept, "fit_intercept"),
        )

    def _mechanism(self) -> DesignMechanism[Any, Moments]:
        """The one that was asked for."""
        if self.method != "sampler":
            return grouped_moments() if self.method == "moments" else noisy_moments()
        if self.residual_variance is None:
            raise InputError("method='sampler' assumes a public residual_variance; give one")
        drawn = whole_number(self.released_draws, "released_draws", 1)
        variance = positive_number(self.residual_variance, "residual_variance")
        return truncated_posterior(drawn, variance=variance, radius=positive_number(self.radius, "radius"))

    def _read(self, released: Release, later: DrawnLater) -> Self:
        """The release, and what scikit-learn's users look for."""
        self.release_, self._later, self._weights = released, later, quick_estimate(released)
        slopes, intercept = released.design.slopes(self._weights)
        self.coef_ = by_column(slopes, self._columns)
        self.intercept_ = float(intercept)
        return self

    def _expected(self, X: Any) -> Floats:
        """The target's expectation under each draw, shape (draws, records)."""
        check_is_fitted(self, "release_")
        design = self.release_.design
        drawn = self.posterior_.weights
        return design.predicted(np.concatenate([drawn @ block.T for block in scaled_blocks(self, X)], axis=1))


def _half_width(design: Design) -> float:
    """Unit of the scaled target."""
    ends = design.predicted(np.array([0.0, 1.0]))
    return float(ends[1] - ends[0])
