"""Logistic regression: objective perturbation, one noisy vector, or a trace of noisy gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from discreet.errors import InputError
from discreet.estimators.accounts import promised
from discreet.estimators.contract import (
    Given,
    PrivateEstimator,
    ScoredRecords,
    class_labels,
    columns_of,
    generator,
    of_public_records,
    read_features,
    read_given,
    refuse_options,
    require_drawable,
    whole_number,
)
from discreet.estimators.designs import (
    by_column,
    declared_features,
    describe,
    inner_products,
    positive_number,
    target_name,
    written_bounds,
)
from discreet.estimators.found_bounds import describe_found, plan_search
from discreet.estimators.given_table import GivenTable
from discreet.mechanisms.crossing import DesignMechanism, release
from discreet.mechanisms.noisy_gradients import noisy_gradients
from discreet.mechanisms.objective_perturbation import objective_perturbation
from discreet.model.design import Design, Normal
from discreet.model.schema import Variable
from discreet.posterior.design.laws import Law
from discreet.posterior.design.weight_posterior import (
    PublicRecords,
    WeightPosterior,
    even_law,
    quick_estimate,
    require_known,
    require_level,
    tails,
    weights,
)
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.releases.kinds.gradient_trace import GradientTrace
from discreet.releases.release import Release
from discreet.sensitive.gradients import gradients

__all__ = ["PrivateLogisticRegression", "chosen_method"]

METHODS = ("auto", "objective", "one_shot", "gradients")
MANY = 10**6
"""Records that are expected where nothing is scaled by their number: rounding of so many is hidden by noise of a
thousandth on a weight, up to 30 features."""
ONE_SHOT_LIMIT = 250.0
"""Records times epsilon for each feature below which one noisy vector beats objective perturbation, where covariates
are declared symmetric; see `chosen_method`."""

Floats = npt.NDArray[np.float64]
Values = npt.NDArray[Any]


def chosen_method(*, epsilon: float, records: int, features: int, symmetric: bool) -> str:
    """What `method="auto"` takes: one noisy vector where the features' law is declared symmetric and noise is large.

    One vector, the sum of `(2 y - 1) x`, points to the weights only if the features are spread symmetrically around
    the middle of their bounds; then it needs less noise than anything else, until the error of its direction, which
    does not fall with epsilon, is what is left. Objective perturbation needs no such law.

    Args:
        epsilon: of the guarantee.
        records: public number, expected.
        features: how many.
        symmetric: whether their law was declared so.

    Returns:
        "one_shot" if symmetric and `records epsilon < 250 features`, else "objective".
    """
    return "one_shot" if symmetric and records * epsilon < ONE_SHOT_LIMIT * features else "objective"


class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Logistic regression of two classes under differential privacy; an intercept is always fitted.

    Features are moved from their public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        classes: the two labels that y may hold; required.
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is what the others are compared with. Required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: pays for every fit; required unless epsilon is given.
        epsilon, delta: in the place of `guarantee`, for adding or removing one record, paid by the default account
            unless `account` is given, whose relation and unit it then is for; see docs/estimators.md, "One line".
        norm: public bound on the Euclidean norm of the scaled features, where one is known that is well below the root
            of their number: longer records are shortened to it. None where the bounds are all that is known.
        records: public, expected number of records, of which ten times as many are taken: what a given regularisation,
            the rule for symmetric features and the steps are scaled by. For add-remove guarantees, where the number
            that is counted is private, required by these; else a million. For replacing it is public, and taken.
        symmetric: whether the scaled features are declared to be spread evenly around 0: over the box of the bounds, or
            over the sphere of the norm.
        method: "objective" perturbs the objective; "one_shot" releases one noisy vector, for symmetric features;
            "gradients" releases `steps` noisy gradients; "auto" is one of the first two, see `chosen_method`.
        steps: of "gradients".
        regularisation: of "objective": for each expected record and squared length; None takes the mechanism's rule.
        curvature: of "objective": whether a fifth of epsilon buys the curvature at the released weights, from which the
            posterior follows, and `coef_` with it; without it all of epsilon is for the weights, which are `coef_`.
        prior_deviation: standard deviation of each weight a priori, in the scaled coordinates, for a posterior by
            `covariates`; that by the curvature learns it from the release.
        covariates: for the posterior: what is known of the features' law (see `posterior/design/laws.py`). Intervals
            are as right as this law is. None reads the curvature; the other methods need a law unless `symmetric` says
            it all.
        public_records: for the posterior: labelled records that are public and no part of the private ones.
        scored_records: what the records are that `score` is asked about, and thereby cross-validation without a
            `scoring`: of "private" ones, the default, it is refused; for these there are `release_score` and
            `private_scorer`. Metrics that are computed of `predict` are exact, and nothing can stop them.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: your word that no unit has more than one record, where the guarantee is for another unit than
            "record"; releases say whose word it is.
        find_bounds: share of the guarantee for a first release of histograms, by which bounds far too wide shrink:
            "auto" takes a fiftieth to a fifth, or nothing where noise would hide all; None keeps the bounds.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        classes_: the labels, sorted.
        coef_, intercept_: log odds for one unit of a column, in the order of X's columns, shape (1, features) and (1,):
            posterior means, where the curvature was released, else the released weights.
        bounds_release_, found_bounds_, clipped_: of the first release, by column: bounds in use, and noisy numbers of
            values outside of them with intervals; None where there was none.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`found_bounds.py`); see
        `objective_perturbation` and `noisy_gradients`. Neither rests on exact real arithmetic.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011); Williams and McSherry (NIPS 2010), as these modules have it.

    Example:
        >>> from discreet.privacy.ledger import Ledger
        >>> promise = Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = Ledger("sqlite://").open("patients", promise)
        >>> X = np.linspace(-1, 1, 1000)[:, None]
        >>> estimator = PrivateLogisticRegression(classes=("ill", "well"), bounds=(-1, 1), guarantee=promise,
        ...                                       account=account)
        >>> estimator.fit(X, np.where(X[:, 0] > 0, "well", "ill")).predict([[-0.9], [0.9]]).tolist()
        ['ill', 'well']
    """

    def __init__(
        self,
        *,
        classes: Sequence[Any] | None = None,
        bounds: tuple[Any, Any] | Mapping[str, Any] | None = None,
        guarantee: Guarantee | None = None,
        account: Account | None = None,
        epsilon: Number | None = None,
        delta: Number | None = None,
        norm: float | None = None,
        records: int | None = None,
        symmetric: bool = False,
        method: str = "auto",
        steps: int = 2,
        regularisation: float | None = None,
        curvature: bool = True,
        prior_deviation: float = 2.5,
        covariates: Law | None = None,
        public_records: PublicRecords | None = None,
        scored_records: ScoredRecords = "private",
        draws: int = 1000,
        random_state: Any = None,
        one_record_a_unit: bool = False,
        find_bounds: Number | str | None = "auto",
    ) -> None:
        self.classes = classes
        self.bounds = bounds
        self.guarantee = guarantee
        self.account = account
        self.epsilon = epsilon
        self.delta = delta
        self.norm = norm
        self.records = records
        self.symmetric = symmetric
        self.method = method
        self.steps = steps
        self.regularisation = regularisation
        self.curvature = curvature
        self.prior_deviation = prior_deviation
        self.covariates = covariates
        self.public_records = public_records
        self.scored_records = scored_records
        self.draws = draws
        self.random_state = random_state
        self.one_record_a_unit = one_record_a_unit
        self.find_bounds = find_bounds

    def fit(
        self, X: Any, y: Any = None, *, target: str | None = None, table: str | None = None, **options: Any
    ) -> Self:
        """Charge the account and release; the posterior is drawn when it is asked for.

        Args:
            X: array or frame of numbers, shape (records, features); or a table: a path or glob, a URL, an Arrow, Ibis
                or Spark table, a frame with the target in it, or `Records`.
            y: declared labels, shape (records,).
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
        generator(self.random_state)
        draws = whole_number(self.draws, "draws", 2)
        labels = class_labels(self.classes)
        if len(labels) != 2:
            raise InputError(
                "Only binary classification is supported: declare two classes, neither one class nor three"
            )
        given = read_given(self, X, y, target=target, table=table)
        design = self._design(given, labels)
        require_drawable(draws, design.size)
        columns = columns_of(design.names, given, by_name=isinstance(self.bounds, Mapping))
        require_known(design, self.covariates, self.public_records)
        rows, found = given.rows(design, columns, labels, self.one_record_a_unit), None
        search = plan_search(self, rows, given, guarantee, fixed=self._fixed())
        guarantee = guarantee if search is None else search.rest
        mechanism = self._mechanism(guarantee, rows.records, len(design.features))
        deviation = positive_number(self.prior_deviation, "prior_deviation")
        if search is not None:
            read_as = (columns, labels, self.one_record_a_unit)
            found, rows = search.run(rows, given, read_as, (mechanism, Normal(design, deviation)), account)
        released = release(mechanism, gradients(rows), Normal(rows.design, deviation), guarantee, account=account)
        given.describe(self)
        self._columns = columns
        self._read(released, labels)
        describe_found(self, found)
        return self

    @classmethod
    def from_release(
        cls,
        release: Release,
        *,
        classes: Sequence[Any] | None = None,
        bounds: Mapping[str, Any] | None = None,
        covariates: Law | None = None,
        public_records: PublicRecords | None = None,
        draws: int = 1000,
        random_state: Any = None,
    ) -> Self:
        """A fitted estimator of a release alone, for whoever has no records.

        Args:
            release: of a logistic regression, such as the `release_` of another estimator.
            classes: labels whose names are the classes of the release; None takes the names themselves.
            bounds: as in the constructor, where some columns are categories, so that `predict` takes their texts.
            covariates: for the posterior, as in the constructor.
            public_records: for the posterior, as in the constructor.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account to be fitted with.

        Raises:
            InputError: a release of something else, or labels of other names.
        """
        design = _trace(release).design
        states = () if design.target is None else design.target.states
        named = {str(label): label for label in class_labels(states if classes is None else classes).tolist()}
        if set(named) != set(states):
            raise InputError(f"the classes of the release are called {', '.join(states)}")
        # In the release's order: the second is the one whose log odds the weights are.
        labels = np.array([named[state] for state in states])
        made = cls(
            classes=tuple(labels.tolist()),
            bounds=written_bounds(design, bounds),
            guarantee=release.guarantee,
            norm=design.norm,
            prior_deviation=release.normal.deviation,
            method="gradients" if release.mechanism == "noisy_gradients" else "objective",
            covariates=covariates,
            public_records=public_records,
            draws=draws,
            random_state=random_state,
        )
        describe(made, design)
        describe_found(made, None)
        return made._read(release, labels)

    def sample_posterior(self, draws: int, *, random_state: Any = None) -> WeightPosterior:
        """Draws of the weights given everything that was released.

        Args:
            draws: how many.
            random_state: None takes the estimator's own.

        Returns:
            The posterior, in scaled coordinates; `posterior.design.slopes(posterior.weights)` has the columns' units.

        Raises:
            InputError: no draws, no law of the features, or chains that did not meet.
        """
        check_is_fitted(self, "release_")
        rng = generator(self.random_state if random_state is None else random_state)
        return weights(
            self.release_,
            draws=whole_number(draws, "draws", 1),
            rng=rng,
            covariates=self._law(),
            public=self.public_records,
        )

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class by `coef_` and `intercept_`.

        Args:
            X: as in `fit`; nothing is charged. Numbers outside their bounds are moved to the nearest bound.

        Returns:
            Shape (records,).

        Raises:
            InputError: other columns than those of the fit.
        """
        check_is_fitted(self, "release_")
        coordinates = self.release_.design.scaled(read_features(self, X)[:, self._columns])
        return inner_products(coordinates, self._weights)

    def predict(self, X: Any) -> Values:
        """The likelier class of each record by the log odds, shape (records,); errors as above."""
        second = self.decision_function(X) > 0
        found: Values = self.classes_[second.astype(int)]
        return found

    @of_public_records
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of `predict`, exact: of public records only.

        Args:
            X: as in `fit`.
            y: labels, shape (records,).
            sample_weight: of each record.

        Returns:
            Between 0 and 1.

        Raises:
            InputError: `scored_records` is not "public", or as `predict`.
        """
        return float(super().score(X, y, sample_weight))

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes by the log odds, without their uncertainty.

        Args:
            X: as in `fit`.

        Returns:
            Shape (records, 2), in the order of `classes_`. `predict_interval` counts what the noise leaves open.

        Raises:
            InputError: as `decision_function`.
        """
        second = expit(self.decision_function(X))
        return np.column_stack([1 - second, second])

    def predict_interval(self, X: Any, *, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals of P(class | features), which count the sampling error and the noise.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records, 2) each, in the order of `classes_`.

        Raises:
            InputError: as `sample_posterior`, a level outside (0, 1), or too few draws for it.
        """
        check_is_fitted(self, "release_")
        coordinates = self.release_.design.scaled(read_features(self, X)[:, self._columns])
        draws = whole_number(self.draws, "draws", 2)
        require_level(level, draws)
        drawn = self.sample_posterior(draws).weights
        lower, upper = tails(expit(drawn @ coordinates.T), level)
        return np.column_stack([1 - upper, lower]), np.column_stack([1 - lower, upper])

    def _law(self) -> Law | None:
        """What the posterior takes for the features' law: what was declared, where the curvature was not measured."""
        if self.covariates is None and self.symmetric and _trace(self.release_).curvature is None:
            return even_law(self.release_.design)
        return self.covariates

    def __sklearn_tags__(self) -> Tags:
        """Two classes; no two fits are alike, whatever the random state; noise may leave little of a fit."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    def _design(self, given: Given | GivenTable, labels: Values) -> Design:
        """What is public: the columns' names, the bounds and the classes that were declared."""
        features = declared_features(self.bounds, given)
        states = tuple(str(label) for label in labels.tolist())
        norm = None if self.norm is None else positive_number(self.norm, "norm")
        return Design(features, Variable(target_name(given, "class", features), states), norm)

    def _fixed(self) -> str | None:
        """Why the bounds must stay, where they must."""
        scaled = self.norm, self.covariates, self.public_records
        if self.method in ("auto", "objective") and not self.symmetric and all(one is None for one in scaled):
            return None
        return "norm, symmetric, covariates, public_records and gradients go by features that are scaled by the bounds"

    def _mechanism(self, guarantee: Guarantee, counted: int, features: int) -> DesignMechanism[Any, Any]:
        """The mechanism that was asked for, or the rule's."""
        if self.method not in METHODS:
            raise InputError(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        if self.records is not None:
            records = whole_number(self.records, "records", 1)
        elif guarantee.relation.public_number:
            records = counted
        elif self.method in ("auto", "objective") and not self.symmetric and self.regularisation is None:
            records = MANY
        else:
            raise InputError(
                "an add-remove guarantee keeps the number of records private: declare records=..., a public number of "
                "about that size"
            )
        method = self.method
        if method == "auto":
            method = chosen_method(
                epsilon=float(guarantee.epsilon), records=records, features=features, symmetric=bool(self.symmetric)
            )
        if method == "objective":
            given = self.regularisation
            convexity = None if given is None else positive_number(given, "regularisation")
            return objective_perturbation(
                records=records, regularisation=convexity, curvature=int(bool(self.curvature))
            )
        return noisy_gradients(1 if method == "one_shot" else whole_number(self.steps, "steps", 1), records=records)

    def _read(self, released: Release, labels: Values) -> Self:
        """The release, and what scikit-learn's users look for."""
        _trace(released)
        self.release_, self.classes_, self._weights = released, labels, quick_estimate(released)
        slopes, intercept = released.design.slopes(self._weights)
        self.coef_, self.intercept_ = by_column(slopes, self._columns)[None], np.array([float(intercept)])
        return self


def _trace(release: Release) -> GradientTrace:
    """What a logistic regression released."""
    if not isinstance(release.payload, GradientTrace):
        raise InputError("this release is not of a logistic regression: it holds no gradients")
    return release.payload
