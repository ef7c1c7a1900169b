"""First principal direction: one of finitely many public vectors, chosen by the factored exponential mechanism."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet.designs.design import Design, Normal, normal_of
from discreet.designs.readers.weight_posterior import WeightPosterior
from discreet.errors import InputError, require, require_word
from discreet.estimators.contract import PrivateEstimator, columns_of, read_inputs
from discreet.estimators.declared_designs import (
    by_column,
    declared_features,
    of_release,
    positive_number,
    scaled_blocks,
)
from discreet.estimators.lazy_posterior import LazyPosterior
from discreet.estimators.options import generator_after, require_drawable, whole_number
from discreet.estimators.table_input import FitSource
from discreet.mechanisms.crossing import release
from discreet.posterior.read import is_read_by, read
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.releases.release import Release
from discreet.research import DirectionFactor, FactoredChoice, factored, spread_candidates
from discreet.research.readers.direction import ChoiceLikelihood, mean_axis
from discreet.util.arrays import Floats
from discreet.util.option_texts import DEFAULT_LEVEL


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePrincipalDirection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Direction of the records' largest variance, under differential privacy, with a posterior.

    Records are `x ~ N(0, theta theta' + s2 I)` in scaled coordinates: features are scaled from their public bounds to
    [-1, 1], and numbers outside are moved to the nearest bound. theta and -theta are the same direction.

    Args:
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is the reference category. Required. The model's mean is the middle of the bounds, so choose bounds
            that are symmetric around a typical record.
        guarantee: what one fit promises; required unless epsilon is given.
        account: charged by every fit; required unless epsilon is given.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        directions: number of candidates for the axis, spread over half the sphere.
        lengths: candidates for `|theta|`, in the scaled coordinates.
        noise_variance: s2, in the scaled coordinates.
        tau: half the range to which one record's log density is clamped, nats.
        likelihood: of the choice, for the posterior: "clt", "lower" (bound 5a of the paper), or "upper" (5b).
        prior_deviation: standard deviation of each coordinate of theta a priori, in the scaled coordinates.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the choice.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        posterior_: draws of theta in scaled coordinates, in the order of `release_.over.names`; drawn on first
            access.
        components_: mean axis of the posterior, of length 1, in scaled coordinates and the order of X's columns, shape
            (1, features); `transform` uses it.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release and promises `guarantee`; see `factored`.

    Source:
        Williams and McSherry (NIPS 2010), Section 4.2.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="replace", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", promise)
        >>> X = np.linspace(-8, 8, 500)[:, None] * [2.0, 1.0] / 5**0.5
        >>> estimator = dc.estimators.PrivatePrincipalDirection(
        ...     bounds=(-10, 10), noise_variance=0.01, lengths=(0.4, 0.8), draws=100,
        ...     guarantee=promise, account=account, random_state=0).fit(X)
        >>> bool(abs(estimator.components_[0] @ [2.0, 1.0]) / 5**0.5 > 0.9)
        True
    """

    directions: int = 12
    lengths: tuple[float, ...] = (0.1, 0.2, 0.4)
    noise_variance: float = 0.01
    tau: float = 4.0
    likelihood: ChoiceLikelihood = "clt"
    prior_deviation: float = 0.5

    def _release(self, source: FitSource, guarantee: Guarantee, account: Account) -> None:
        """Choose a direction, and keep what follows."""
        posterior = self._plan_draws()
        inputs = read_inputs(self, source)
        features = declared_features(self.bounds, inputs)
        if len(features) < 2:
            raise InputError("a direction needs at least two features; X has 1 feature(s), n_features = 1")
        design = Design(features, None, None, intercept=False)
        require_drawable(self.draws, design.size)
        columns = columns_of(design.names, inputs, by_name=isinstance(self.bounds, Mapping))
        number = whole_number(self.directions, "directions", 2)
        factor = DirectionFactor(
            spread_candidates(len(features), number, _list_lengths(self.lengths)),
            positive_number(self.noise_variance, "noise_variance"),
            positive_number(self.tau, "tau"),
        )
        prior = Normal(design, positive_number(self.prior_deviation, "prior_deviation"))
        rows = inputs.rows(design, columns, None, self.one_record_a_unit)
        released = release(factored(factor), rows, prior, guarantee, account=account)
        inputs.describe(self)
        self._columns = columns
        self.release_, self._posterior = released, posterior

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        bounds: Mapping[str, Any] | None = None,
        likelihood: ChoiceLikelihood = "clt",
        draws: int = 1000,
        random_state: Any = None,
    ) -> Self:
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of a direction, such as the `release_` of another estimator.
            bounds: as in the constructor, where some columns are categories, so that `transform` takes their texts.
            likelihood: of the choice, as in the constructor.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that transforms, and has no account for another fit.

        Raises:
            InputError: a release of something else.
        """
        if not is_read_by("direction", release):
            raise InputError("this release is not of a principal direction")
        payload = release.payload_as(FactoredChoice)
        estimator = of_release(
            cls,
            release,
            bounds,
            likelihood=likelihood,
            noise_variance=payload.parameters["noise_variance"],
            tau=payload.parameters["tau"],
            prior_deviation=normal_of(release).deviation,
            draws=draws,
            random_state=random_state,
        )
        estimator.release_, estimator._posterior = release, estimator._plan_draws()
        return estimator

    @property
    def components_(self) -> Floats:
        """Mean axis of the posterior, shape (1, features)."""
        return by_column(mean_axis(self.posterior_.weights), self._columns)[None]

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> WeightPosterior:
        """Draw theta afresh.

        Args:
            draws: how many.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates; signs are those along the mean axis.

        Raises:
            InputError: too few draws.
        """
        rng = generator_after(self, random_state)
        number = whole_number(draws, "draws", 100)
        return cast(WeightPosterior, read(self.release_, draws=number, rng=rng, likelihood=self.likelihood))

    def tidy(self, *, level: float = DEFAULT_LEVEL) -> list[dict[str, Any]]:
        """List a row for each coordinate of theta; arguments and errors are those of `posterior_.tidy`."""
        return self.posterior_.tidy(level=level)  # type: ignore[no-any-return]

    def transform(self, X: Any) -> Floats:
        """Project scaled records on the component.

        Args:
            X: as in `fit`; nothing is charged, and the result is as private as X.

        Returns:
            Shape (records, 1).

        Raises:
            InputError: columns other than those of the fit.
        """
        check_is_fitted(self, "release_")
        axis = self.components_.T
        return np.concatenate([by_column(block, self._columns) @ axis for block in scaled_blocks(self, X)])

    @property
    def _n_features_out(self) -> int:
        """Number of components, which scikit-learn's mixin reads."""
        return 1

    def _plan_draws(self) -> LazyPosterior:
        """Plan the draws; later changes of the random state do not affect them."""
        require_word(self.likelihood, ChoiceLikelihood, "likelihood is")
        return LazyPosterior(whole_number(self.draws, "draws", 100), self.random_state, likelihood=self.likelihood)


def _list_lengths(lengths: Any) -> list[float]:
    """List the declared lengths of candidates."""
    listed = isinstance(lengths, Iterable) and not isinstance(lengths, str)
    require(listed, "lengths must be a list of finite numbers greater than 0")
    return [positive_number(length, "each of lengths") for length in lengths]
