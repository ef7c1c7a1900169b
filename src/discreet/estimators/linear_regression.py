"""Linear regression by noisy second moments, or by draws from a posterior that is truncated to a ball."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags

from discreet.designs.design import Design, design_of, normal_of
from discreet.designs.mechanisms.grouped_moments import grouped_moments
from discreet.designs.mechanisms.noisy_moments import noisy_moments
from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.designs.records.rows import Rows
from discreet.errors import InputError
from discreet.estimators.contract import design_behind
from discreet.estimators.declared_designs import of_release, positive_number, scaled_blocks
from discreet.estimators.lazy_posterior import LazyPosterior
from discreet.estimators.network_regression import NetworkReader
from discreet.estimators.options import generator, whole_number
from discreet.estimators.public_records import ScoredOnPublicRecords
from discreet.estimators.regressions import RegressionEstimator, warned
from discreet.mechanisms.crossing import Mechanism
from discreet.model.schema import Variable
from discreet.posterior.read import is_read_by
from discreet.privacy.guarantee import Guarantee
from discreet.releases.release import Release
from discreet.research import WeightDraws, truncated_posterior
from discreet.util.arrays import Array, Floats
from discreet.util.option_texts import DEFAULT_LEVEL

METHODS = {"grouped_moments": "moments", "noisy_moments": "exact"}
"""Names of the estimator's methods, by mechanism."""
FIXED = "without an intercept, and by methods other than 'moments', models are declared in coordinates of the bounds"
"""Reason why bounds are not narrowed."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(ScoredOnPublicRecords, RegressorMixin, RegressionEstimator):  # type: ignore[misc]
    """Bayesian linear regression under differential privacy, with intervals that include the privacy noise.

    Features and target are scaled from their public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is the reference category. Required.
        target_bounds: of the target, `(lower, upper)`; required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: charged by every fit; required unless epsilon is given.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        method: "moments" releases all second moments, with noise by groups of moments, and Gaussian noise if the
            guarantee has a delta. It has an estimate and intervals at once. "exact" adds uniform noise from one cube;
            the exact posterior is drawn, or refused if the noise is large. "sampler" releases draws from the posterior
            under a prior truncated to a ball, with the likelihood raised to a power that the guarantee allows. Its
            intervals are wide: they include the power, and a flat prior of the features' second moments.
        fit_intercept: whether an intercept is fitted. Without one the fit goes through the middle of all bounds, which
            is the origin of the scaled coordinates.
        prior_deviation: standard deviation of each weight a priori, in the scaled coordinates, for "exact" and
            "sampler"; "moments" learns it from the release.
        residual_variance: for "sampler": variance of the scaled target around its mean, which is assumed; None if it is
            unknown, and then the draws say little about it.
        radius: for "sampler": radius of the ball of weights, in the scaled coordinates.
        released_draws: for "sampler": number of draws, which share the budget.
        scored_records: whether the records passed to `score` are "private" or "public". On private ones, the default,
            `score` and cross-validation without `scoring` are refused: use `release_score` or `private_scorer`. Metrics
            computed from `predict` are exact, and the package cannot refuse them.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.
        find_bounds: share of the guarantee for a first release of histograms, which narrows bounds that are much too
            wide. "auto" takes a fiftieth to a fifth, or nothing if the noise is too large; None keeps the bounds.
        records: public, expected number of records, for "auto" if the true number is private. Without it "auto" takes
            a tenth.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        coef_, intercept_: posterior means, by the normal approximation for "moments" and "exact", in the units of
            the columns, shape (features,), in the order of X's columns, and a number.
        posterior_: draws of the weights in scaled coordinates, in the order of `release_.over.names`; drawn on first
            access. "exact" refuses it with much noise or many features: `read(release_)` then has the normal
            approximation.
        bounds_release_, found_bounds_, clipped_: of the first release, by column: bounds in use, and noisy numbers of
            values outside of them with intervals; None without a first release.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`discreet.estimators.found_bounds`); see
        `grouped_moments`, `noisy_moments` and `truncated_posterior`. The last one has a floating-point sampler.

    Source:
        Bernstein and Sheldon (2019) and Zhang, Rubinstein and Dimitrakakis (AAAI 2016); see these modules.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=5, delta=0, relation="replace", unit="record")
        >>> account = dc.Ledger("sqlite://").open("houses", promise)
        >>> X = np.linspace(0, 10, 2000)[:, None]
        >>> estimator = dc.estimators.PrivateLinearRegression(bounds=(0, 10), target_bounds=(0, 100), random_state=0,
        ...                                     guarantee=promise, account=account).fit(X, 20 + 5 * X[:, 0])
        >>> bool(abs(estimator.coef_[0] - 5) < 1), bool(abs(estimator.predict([[4.0]])[0] - 40) < 3)
        (True, True)
    """

    target_bounds: tuple[float, float] | None = None
    method: str = "moments"
    fit_intercept: bool = True
    prior_deviation: float = 1.0
    residual_variance: float | None = None
    radius: float = 1.0
    released_draws: int = 1

    _metric = staticmethod(r2_score)

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        bounds: Mapping[str, Any] | None = None,
        target: str | None = None,
        features: Sequence[str] | None = None,
        draws: int = 1000,
        random_state: Any = None,
    ) -> Self:
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of a linear regression, such as the `release_` of another estimator; or over a network, with sums
                of the target, of the features, and of all of them in pairs.
            bounds: as in the constructor, where some columns are categories, so that `predict` takes their texts; not
                for a network, which has them.
            target: of a release over a network: name of the numeric variable that is predicted.
            features: of a release over a network: names of the others; None for all of them.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account for another fit.

        Raises:
            InputError: a release of something else, or sums that are missing.
        """
        if release.networks:
            return cls._from_network(release, NetworkReader.of(release.network, target, features), draws, random_state)
        design = design_of(release)
        if design.target is None or design.predicts != "number":
            raise InputError("this release is not of a linear regression: its target is no number")
        sampling: dict[str, Any] = {}
        if is_read_by("released", release):
            sampled = release.payload_as(WeightDraws)
            sampling |= {"residual_variance": sampled.variance, "radius": sampled.radius}
            sampling["released_draws"] = len(sampled.weights)
        estimator = of_release(
            cls,
            release,
            bounds,
            target_bounds=design.target.bounds,
            method=METHODS.get(release.mechanism, "sampler"),
            fit_intercept=design.intercept,
            prior_deviation=normal_of(release).deviation,
            draws=draws,
            random_state=random_state,
            **sampling,
        )
        estimator._keep(release, posterior=estimator._plan_draws())
        return estimator

    @classmethod
    def _from_network(cls, release: Release, reader: NetworkReader, draws: int, random_state: Any) -> Self:
        """Build an estimator from sums of numbers beside the tables of a network."""
        bounds = {feature.name: feature.bounds or feature.states for feature in reader.features}
        estimator = of_release(cls, release, bounds, reader.design, target_bounds=reader.target.bounds)
        estimator.draws, estimator.random_state = draws, random_state
        estimator._keep(release, posterior=LazyPosterior(draws, random_state, reader), reader=reader)
        return estimator

    def predict_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of the target's expectation, which include the sampling error and the noise.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records,) each, in the target's unit.

        Raises:
            InputError: as `predict`, a level outside (0, 1), or too few draws for it.
        """
        return self.posterior_.tails(self._draw_expected(X), level)  # type: ignore[no-any-return]

    def outcome_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of a new record's target: its expectation plus a residual.

        Args:
            X: as in `fit`.
            level: probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records,) each, in the target's unit.

        Raises:
            InputError: as `predict_interval`.
        """
        expected = self._draw_expected(X)
        assert self.posterior_.variance is not None
        spread = np.sqrt(self.posterior_.variance) * np.diff(self.posterior_.design.predicted(np.array([0.0, 1.0])))
        residuals = generator(self.random_state).standard_normal(expected.shape)
        return self.posterior_.tails(expected + spread[:, None] * residuals, level)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Tags:
        """Mark that noise may make the fit's score poor."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _declare_target(self, column: Variable | None) -> tuple[Variable, Array | None]:
        """Check the method, then the target's bounds."""
        if self.method not in ("moments", "exact", "sampler"):
            raise InputError(f"method is 'moments', 'exact' or 'sampler', not {self.method!r}")
        return super()._declare_target(column)

    def _expect(self, predictors: Floats) -> Floats:
        """Put the first predictor into the target's unit."""
        return design_behind(self).predicted(predictors[0])

    def _make_mechanism(self, guarantee: Guarantee, counted: int, design: Design) -> Mechanism:
        """Make the mechanism of the method."""
        if self.method != "sampler":
            return grouped_moments() if self.method == "moments" else noisy_moments()
        number, variance = whole_number(self.released_draws, "released_draws", 1), self.residual_variance
        if variance is not None:
            variance = positive_number(variance, "residual_variance")
        return truncated_posterior(number, variance=variance, radius=positive_number(self.radius, "radius"))

    def _plan_draws(self) -> LazyPosterior:
        """Plan the draws; later changes of the random state do not affect them."""
        method = "exact" if self.method == "exact" else "auto"
        return LazyPosterior(whole_number(self.draws, "draws", 2), self.random_state, method=method)

    def _require(self, rows: Rows, guarantee: Guarantee) -> None:
        """Refuse fewer records than weights, if their number is public."""
        if guarantee.relation.public_number and rows.records <= rows.design.size:
            raise InputError(f"{rows.design.size} weights need more records than that; their number is public here")

    def _say_why_fixed(self) -> str | None:
        """Explain why found bounds cannot replace the declared ones."""
        return FIXED if self.method != "moments" or not self.fit_intercept else None

    def _reading_options(self) -> dict[str, Any]:
        """List the arguments of `read` besides the release."""
        return {"method": "exact"} if self.release_.mechanism == "noisy_moments" else {}

    def _draw_for(self, level: float) -> WeightPosterior:
        """Return the draws that all intervals share."""
        return warned(self.posterior_)

    def _draw_expected(self, X: Any) -> Floats:
        """Compute the target's expectation under each draw, shape (draws, records)."""
        blocks = [self.posterior_.weights @ block.T for block in scaled_blocks(self, X)]
        return design_behind(self).predicted(np.concatenate(blocks, axis=1))
