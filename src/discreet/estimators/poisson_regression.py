"""Poisson regression: objective perturbation of counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags

from discreet.designs.design import Design, design_of
from discreet.errors import InputError
from discreet.estimators.columns import declared_columns
from discreet.estimators.declared_designs import of_release
from discreet.estimators.groups import written_groups
from discreet.estimators.public_records import ScoredOnPublicRecords
from discreet.estimators.regressions import RegressionEstimator, expected_records, perturb_objective, trace_of
from discreet.mechanisms.crossing import Mechanism
from discreet.privacy.guarantee import Guarantee
from discreet.releases.release import Release
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegression(ScoredOnPublicRecords, RegressorMixin, RegressionEstimator):  # type: ignore[misc]
    """Poisson regression of counts under differential privacy, with a log link; an intercept is always fitted.

    Features are scaled from their public bounds to [-1, 1]. Numbers outside, and counts above their bound, are moved to
    the nearest bound. Expected counts do not exceed that bound. Choose it so that few counts are above it, but no
    larger: the noise is proportional to the largest record.

    Args:
        bounds: of the features, as of `PrivateLinearRegression`. Required.
        target_bounds: of the counts, `(0, upper)`, upper a whole number of at most 32,767; required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: charged by every fit; required unless epsilon is given.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        groups: lists of columns that exclude each other, as of `PrivateLogisticRegression`.
        norm: public bound on the Euclidean norm of the scaled features, if one is known; see
            `PrivateLogisticRegression`.
        records: public, expected number of records; up to ten times as many are accepted. None expects a million, or
            under a replace guarantee the actual number.
        regularisation: for each expected record and squared length; None takes the mechanism's rule.
        curvature: if True, a fifth of epsilon is spent on the curvature at the released weights; the posterior and
            `coef_` follow from it. If False, all of epsilon is spent on the weights, which are `coef_`.
        scored_records: as of `PrivateLinearRegression`.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.
        find_bounds: share of the guarantee for a first release of the features' histograms, as of
            `PrivateLinearRegression`. The bound of the counts stays as it is.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        coef_, intercept_: change of the expected count's logarithm for one unit of a column, in the order of X's
            columns, shape (features,), and a number; posterior means, if the curvature was released.
        bounds_release_, found_bounds_, clipped_: of the first release, as of `PrivateLinearRegression`.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`discreet.estimators.found_bounds`); see
        `objective_perturbation`. It does not rest on exact real arithmetic.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011), with the Poisson loss continued linearly beyond the counts' bound; see
        `objective_perturbation`. Kulkarni et al. (ICML 2021) for a noise-aware posterior of such regressions; see
        `discreet.designs.readers.weight_posterior`. Intervals assume the variance of a Poisson distribution: with
        overdispersed counts they are too short.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=5, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("visits", promise)
        >>> X = np.linspace(0, 10, 4000)[:, None]
        >>> counts = np.random.default_rng(0).poisson(np.exp(0.2 * X[:, 0] - 0.5))
        >>> estimator = dc.estimators.PrivatePoissonRegression(bounds=(0, 10), target_bounds=(0, 15), guarantee=promise,
        ...                                      account=account).fit(X, counts)
        >>> bool(abs(estimator.coef_[0] - 0.2) < 0.1), bool(abs(estimator.predict([[5.0]])[0] - 1.65) < 0.5)
        (True, True)
    """

    target_bounds: tuple[float, float] | None = None
    groups: Sequence[Sequence[Any]] | None = None
    norm: float | None = None
    regularisation: float | None = None
    curvature: bool = True

    _counted = True
    _metric = staticmethod(partial(d2_tweedie_score, power=1))

    @classmethod
    def from_release(
        cls, release: Release, *, bounds: Mapping[str, Any] | None = None, draws: int = 1000, random_state: Any = None
    ) -> Self:
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of a Poisson regression, such as the `release_` of another estimator.
            bounds: as in the constructor, where some columns are categories, so that `predict` takes their texts.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account for another fit.

        Raises:
            InputError: a release of something else.
        """
        design = trace_of(release).design
        if not design.counted or design.target is None:
            raise InputError("this release is of a regression of classes: PrivateLogisticRegression reads it")
        estimator = of_release(
            cls,
            release,
            bounds,
            target_bounds=design.target.bounds,
            groups=written_groups(design.groups, None if bounds is None else declared_columns(bounds)),
            norm=design.norm,
            draws=draws,
            random_state=random_state,
        )
        estimator._keep(release)
        return estimator

    def predict_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of the expected count, which include the sampling error and the noise.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records,) each.

        Raises:
            InputError: as `predict`, a level outside (0, 1), or too few draws for it.
        """
        lower, upper = self._bound_means(X, level, self._expect_counts)
        return lower[0], upper[0]

    def __sklearn_tags__(self) -> Tags:
        """Mark that targets are counts, and that noise may make the fit's score poor."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def _expect(self, predictors: Floats) -> Floats:
        """Compute expected counts from the first predictor."""
        return self._expect_counts(predictors[0])

    def _expect_counts(self, logs: Floats) -> Floats:
        """Compute expected counts, at most their bound."""
        design = design_of(self.release_)
        assert design.target is not None and design.target.bounds is not None
        return np.asarray(np.exp(np.minimum(logs, np.log(design.target.bounds[1]))))

    def _make_mechanism(self, guarantee: Guarantee, counted: int, design: Design) -> Mechanism:
        """Make an objective perturbation, scaled as declared."""
        scaled = self.regularisation is not None
        return perturb_objective(self, expected_records(self.records, guarantee, counted, scaled=scaled))
