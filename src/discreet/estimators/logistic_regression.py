"""Logistic regression: objective perturbation, one noisy vector, or a trace of noisy gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags

from discreet.errors import InputError
from discreet.estimators.columns import declared_columns
from discreet.estimators.contract import class_labels
from discreet.estimators.declared_designs import of_release
from discreet.estimators.groups import written_groups
from discreet.estimators.options import whole_number, yes_or_no
from discreet.estimators.public_records import ScoredRecords, of_public_records
from discreet.estimators.regressions import RegressionEstimator, expected_records, perturb_objective, trace_of
from discreet.mechanisms.crossing import Mechanism
from discreet.model.design import Design
from discreet.model.schema import Variable
from discreet.posterior.design.laws import Law, uniform_law
from discreet.posterior.design.weight_posterior import PublicRecords, require_known
from discreet.privacy.guarantee import Guarantee, Number
from discreet.privacy.ledger import Account
from discreet.records.rows import Rows
from discreet.releases.release import Release
from discreet.research import noisy_gradients
from discreet.util.option_texts import DEFAULT_LEVEL

METHODS = ("auto", "objective", "one_shot", "gradients")
ONE_SHOT_RECORDS = 250.0
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

    Example:
        >>> chosen_method(epsilon=0.1, records=1000, features=2, symmetric=True)
        'one_shot'
        >>> chosen_method(epsilon=1, records=1000, features=2, symmetric=True)
        'objective'
    """
    return "one_shot" if symmetric and records * epsilon < ONE_SHOT_RECORDS * features else "objective"


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, RegressionEstimator):  # type: ignore[misc]
    """Logistic regression of two or more classes under differential privacy; an intercept is always fitted.

    Features are moved from their public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        classes: the labels that y may hold, at least two; required. More than two have weights each (multinomial).
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is what the others are compared with. Required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: pays for every fit; required unless epsilon is given.
        epsilon, delta: in the place of `guarantee`, for adding or removing one record, paid by the default account
            unless `account` is given, whose relation and unit it then is for; see docs/estimators.md, "One line".
        groups: lists of columns, by name or position, that exclude each other: 0 in every record but for at most one 1,
            such as the indicators of one category; their bounds are (0, 1). Other records are refused. Where columns
            were declared as categories, they are groups of their own. See docs/estimators.md, "Categories".
        norm: public bound on the Euclidean norm of the scaled features, where one is known that is well below the root
            of their number: longer records are shortened to it. None where the bounds are all that is known.
        records: public, expected number of records, of which ten times as many are taken: what a given regularisation,
            the rule for symmetric features and the steps are scaled by. For add-remove guarantees, where the number
            that is counted is private, required by these; else a million. For replacing it is public, and taken.
        symmetric: whether the scaled features are declared to be spread evenly around 0: over the box of the bounds, or
            over the sphere of the norm.
        method: "objective" perturbs the objective; "one_shot" releases one noisy vector, for symmetric features;
            "gradients" releases `steps` noisy gradients; "auto" is one of the first two, see `chosen_method`. More than
            two classes, and a delta, are for the objective alone.
        steps: of "gradients".
        regularisation: of "objective": for each expected record and squared length; None takes the mechanism's rule.
        curvature: of "objective": whether a fifth of epsilon buys the curvature at the released weights, from which the
            posterior follows, and without groups `coef_`; else all of epsilon is for the weights, which are `coef_`.
            More than two classes have none where it would be so many sums that noise hides them.
        prior_deviation: standard deviation of each weight a priori, in the scaled coordinates, for a posterior by
            `covariates`; that by the curvature learns it from the release.
        covariates: for the posterior: what is known of the features' law (see `discreet.posterior.design.laws`).
            Intervals are as right as this law is. None reads the curvature; the other methods need a law unless
            `symmetric` says it all.
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
        coef_, intercept_: log odds for one unit of a column, in the order of X's columns, shape (1, features) and (1,);
            of more than two classes (classes, features) and (classes,), summing to 0 over these: posterior means, where
            the curvature was released and no columns are in groups, else the released weights.
        bounds_release_, found_bounds_, clipped_: of the first release, by column: bounds in use, and noisy numbers of
            values outside of them with intervals; None where there was none.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` looks at arguments, as scikit-learn has it.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`discreet.estimators.found_bounds`); see
        `objective_perturbation` and `noisy_gradients`. Neither rests on exact real arithmetic.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011); Williams and McSherry (NIPS 2010), as these modules have it.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("patients", promise)
        >>> X = np.linspace(-1, 1, 1000)[:, None]
        >>> paid = {"guarantee": promise, "account": account}
        >>> estimator = dc.estimators.PrivateLogisticRegression(classes=("ill", "well"), bounds=(-1, 1), **paid)
        >>> estimator.fit(X, np.where(X[:, 0] > 0, "well", "ill")).predict([[-0.9], [0.9]]).tolist()
        ['ill', 'well']
    """

    classes: Sequence[Any] | None = None
    bounds: tuple[Any, Any] | Mapping[str, Any] | None = None
    guarantee: Guarantee | None = None
    account: Account | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    groups: Sequence[Sequence[Any]] | None = None
    norm: float | None = None
    records: int | None = None
    symmetric: bool = False
    method: str = "auto"
    steps: int = 2
    regularisation: float | None = None
    curvature: bool = True
    prior_deviation: float = 2.5
    covariates: Law | None = None
    public_records: PublicRecords | None = None
    scored_records: ScoredRecords = "private"
    draws: int = 1000
    random_state: Any = None
    one_record_a_unit: bool = False
    find_bounds: Number | str | None = "auto"

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
        design = trace_of(release).design
        if design.counted:
            raise InputError("this release is of a regression of counts: PrivatePoissonRegression reads it")
        states = () if design.target is None else design.target.states
        named = {str(label): label for label in class_labels(states if classes is None else classes).tolist()}
        if set(named) != set(states):
            raise InputError(f"the classes of the release are called {', '.join(states)}")
        # In the release's order: the second is the one whose log odds the weights are.
        labels = np.array([named[state] for state in states])
        made = of_release(
            cls,
            release,
            bounds,
            classes=tuple(labels.tolist()),
            groups=written_groups(design.groups, None if bounds is None else declared_columns(bounds)),
            norm=design.norm,
            prior_deviation=release.normal.deviation,
            method="gradients" if release.mechanism == "noisy_gradients" else "objective",
            covariates=covariates,
            public_records=public_records,
            draws=draws,
            random_state=random_state,
        )
        made._keep(release, labels)
        return made

    def decision_function(self, X: Any) -> Floats:
        """Log odds by `coef_` and `intercept_`.

        Args:
            X: as in `fit`; nothing is charged. Numbers outside their bounds are moved to the nearest bound.

        Returns:
            Of the second of two classes, shape (records,); of more classes, shape (records, classes).

        Raises:
            InputError: other columns than those of the fit.
        """
        found = self._predict_linearly(X)
        return found[0] if len(found) == 1 else found.T

    def predict(self, X: Any) -> Values:
        """The likeliest class of each record by the log odds.

        Args:
            X: as in `fit`; nothing is charged.

        Returns:
            Labels, shape (records,).

        Raises:
            InputError: as `decision_function`.
        """
        odds = self._predict_linearly(X)
        best = (odds[0] > 0).astype(np.intp) if len(odds) == 1 else odds.argmax(axis=0)
        found: Values = self.classes_[best]
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
            Shape (records, classes), in the order of `classes_`. `predict_interval` counts what the noise leaves open.

        Raises:
            InputError: as `decision_function`.
        """
        return np.asarray(_share_out(self._predict_linearly(X)[None])[0].T)

    def predict_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Intervals of P(class | features), which count the sampling error and the noise.

        Args:
            X: as in `fit`.
            level: posterior probability of each interval, between 0 and 1.

        Returns:
            (lower, upper), shape (records, classes) each, in the order of `classes_`.

        Raises:
            InputError: as `sample_posterior`, a level outside (0, 1), or too few draws for it.
        """
        lower, upper = self._bound_means(X, level, _share_out)
        return lower.T, upper.T

    def _reading_options(self) -> dict[str, Any]:
        """List what was declared of the features' law and of public records, where the curvature was not measured."""
        covariates = self.covariates
        if covariates is None and self.symmetric and trace_of(self.release_).curvature is None:
            covariates = uniform_law(self.release_.design)
        given = {"covariates": covariates, "public": self.public_records}
        return {name: value for name, value in given.items() if value is not None}

    def _require(self, rows: Rows, guarantee: Guarantee) -> None:
        """Refuse a law of other features."""
        require_known(rows.design, self.covariates, self.public_records)

    def __sklearn_tags__(self) -> Tags:
        """Noise may leave little of a fit."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _has_no_law(self) -> bool:
        """Whether nothing is declared of the features' law, and the objective is perturbed."""
        laws = self.symmetric or self.covariates is not None or self.public_records is not None
        return self.method in ("auto", "objective") and not laws

    def _say_why_fixed(self) -> str | None:
        """Say why found bounds cannot stand for the declared ones, where they cannot."""
        if self._has_no_law() and self.norm is None:
            return None
        return "norm, symmetric, covariates, public_records and gradients go by features that are scaled by the bounds"

    def _declare_target(self) -> tuple[Variable, Values]:
        """Check the classes; the labels that y may hold are their states."""
        labels = class_labels(self.classes)
        if len(labels) < 2:
            raise InputError("a classifier needs at least two classes; one class leaves nothing to tell apart")
        return Variable("class", tuple(str(label) for label in labels.tolist())), labels

    def _make_mechanism(self, guarantee: Guarantee, counted: int, design: Design) -> Mechanism:
        """Make the mechanism that was asked for, or the rule's."""
        if self.method not in METHODS:
            raise InputError(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        scaled = self.method not in ("auto", "objective") or bool(self.symmetric) or self.regularisation is not None
        records = expected_records(self.records, guarantee, counted, scaled=scaled)
        method, many = self.method, design.outputs > 1
        symmetric = yes_or_no(self.symmetric, "symmetric")
        if design.groups and symmetric:
            raise InputError("indicators of a group are not symmetric about 0: leave out symmetric, or the groups")
        if guarantee.delta and not (self.covariates is None and self.public_records is None):
            raise InputError(
                "a law of covariates and public records are read with delta 0; leave them out, or the delta"
            )
        if method == "auto":
            known = symmetric and not many and not guarantee.delta
            method = chosen_method(
                epsilon=float(guarantee.epsilon), records=records, features=len(design.features), symmetric=known
            )
        if method == "objective":
            return perturb_objective(self, records)
        return noisy_gradients(1 if method == "one_shot" else whole_number(self.steps, "steps", 1), records=records)


def _share_out(odds: Floats) -> Floats:
    """Turn log odds, of the second class or of each, into probabilities of shape (draws, classes, records)."""
    if odds.shape[1] > 1:
        return np.asarray(softmax(odds, axis=1))
    second = expit(odds)
    return np.concatenate([1 - second, second], axis=1)
