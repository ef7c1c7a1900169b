"""Logistic regression: objective perturbation, one noisy vector, or a trace of noisy gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags

from discreet.designs.design import Design, design_of, normal_of
from discreet.designs.readers.laws import Law, uniform_law
from discreet.designs.readers.weight_posterior import PublicRecords, require_known
from discreet.designs.records.rows import Rows
from discreet.errors import InputError
from discreet.estimators.columns import declared_columns
from discreet.estimators.contract import class_labels, declared_labels
from discreet.estimators.declared_designs import of_release
from discreet.estimators.groups import written_groups
from discreet.estimators.options import whole_number, yes_or_no
from discreet.estimators.public_records import ScoredOnPublicRecords
from discreet.estimators.regressions import RegressionEstimator, expected_records, perturb_objective, trace_of
from discreet.mechanisms.crossing import Mechanism
from discreet.model.schema import Variable
from discreet.privacy.guarantee import Guarantee
from discreet.releases.release import Release
from discreet.research import noisy_gradients
from discreet.util.arrays import Array, Floats
from discreet.util.option_texts import DEFAULT_LEVEL

METHODS = ("auto", "objective", "one_shot", "gradients")
ONE_SHOT_RECORDS = 250.0
"""Records times epsilon for each feature below which one noisy vector beats objective perturbation, where covariates
are declared symmetric; see `chosen_method`."""


def chosen_method(*, epsilon: float, records: int, features: int, symmetric: bool) -> str:
    """Choose the method of `method="auto"`: one noisy vector if the features' law is symmetric and noise is large.

    One vector, the sum of `(2 y - 1) x`, points to the weights only if the features are distributed symmetrically
    around the middle of their bounds. It then needs the least noise, until the error of its direction dominates, which
    does not fall with epsilon. Objective perturbation needs no such law.

    Args:
        epsilon: of the guarantee.
        records: public, expected number of records.
        features: number of features.
        symmetric: whether their law is declared symmetric.

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
class PrivateLogisticRegression(ScoredOnPublicRecords, ClassifierMixin, RegressionEstimator):  # type: ignore[misc]
    """Logistic regression of two or more classes under differential privacy; an intercept is always fitted.

    Features are scaled from their public bounds to [-1, 1]; numbers outside are moved to the nearest bound.

    Args:
        classes: the labels that y may hold, at least two; required. With more than two, each has weights (multinomial).
        bounds: of the features, `(lower, upper)`, each a number or one for each feature; or a mapping from the names of
            the columns, which thereby are public, to pairs, or to the categories of a column of texts, of which the
            first is the reference category. Required.
        guarantee: what one fit promises; required unless epsilon is given.
        account: charged by every fit; required unless epsilon is given.
        epsilon, delta: instead of `guarantee`: a budget for adding or removing one record, charged to the default
            account; with `account`, for that account's relation and unit. See docs/estimators.md, "One line".
        groups: lists of columns, by name or position, that exclude each other: every record has at most one 1 among
            them and 0 elsewhere, such as the indicators of one category; their bounds are (0, 1). Other records are
            refused. Columns declared as categories are groups already. See docs/estimators.md, "Categories".
        norm: public bound on the Euclidean norm of the scaled features, if one is known that is well below the root of
            their number; longer records are shortened to it. None if only the bounds are known.
        records: public, expected number of records; up to ten times as many are accepted. A declared regularisation,
            the rule for symmetric features and the steps are scaled by it. These require it under add-remove
            guarantees, where the true number is private; otherwise the default is a million. Under replace guarantees
            the default is the true number, which is public.
        symmetric: declares that the scaled features are distributed symmetrically around 0: over the box of the bounds,
            or over the sphere of the norm.
        method: "objective" perturbs the objective; "one_shot" releases one noisy vector, for symmetric features;
            "gradients" releases `steps` noisy gradients; "auto" is one of the first two, see `chosen_method`. Only the
            objective allows more than two classes, or a delta.
        steps: number of steps of "gradients".
        regularisation: for "objective": for each expected record and squared length; None takes the mechanism's rule.
        curvature: for "objective": if True, a fifth of epsilon is spent on the curvature at the released weights; the
            posterior and, without groups, `coef_` follow from it. If False, all of epsilon is spent on the weights,
            which are `coef_`. With more than two classes no curvature is released if noise would hide its many sums.
        prior_deviation: standard deviation of each weight a priori, in the scaled coordinates, for a posterior by
            `covariates`; that by the curvature learns it from the release.
        covariates: for the posterior: known law of the features (see `discreet.designs.readers.laws`). Intervals are
            valid only if this law holds. None reads the curvature; the other methods need a law unless `symmetric`
            implies one.
        public_records: for the posterior: labelled public records that are not among the private ones.
        scored_records: whether the records passed to `score` are "private" or "public". On private ones, the default,
            `score` and cross-validation without `scoring` are refused: use `release_score` or `private_scorer`. Metrics
            computed from `predict` are exact, and the package cannot refuse them.
        draws: of the posterior.
        random_state: of the posterior's draws, never of the privacy noise.
        one_record_a_unit: declares that no unit has more than one record, if the guarantee's unit is not "record"; the
            release states that you declared it.
        find_bounds: share of the guarantee for a first release of histograms, which narrows bounds that are much too
            wide. "auto" takes a fiftieth to a fifth, or nothing if the noise is too large; None keeps the bounds.

    Attributes:
        release_: what was published; `save` it, and `from_release` reads it back.
        classes_: the labels, sorted.
        coef_, intercept_: log odds for one unit of a column, in the order of X's columns, shape (1, features) and (1,);
            with more than two classes (classes, features) and (classes,), which sum to 0 over classes. They are
            posterior means if the curvature was released and no columns are in groups, else the released weights.
        bounds_release_, found_bounds_, clipped_: of the first release, by column: bounds in use, and noisy numbers of
            values outside of them with intervals; None without a first release.
        n_features_in_, feature_names_in_: as in scikit-learn. Column names are taken to be public.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        Each `fit` is one release, or two whose guarantees sum to `guarantee` (`discreet.estimators.found_bounds`); see
        `objective_perturbation` and `noisy_gradients`. Neither assumes exact real arithmetic.

    Source:
        Chaudhuri, Monteleoni and Sarwate (2011); Williams and McSherry (NIPS 2010); see these modules.

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
    groups: Sequence[Sequence[Any]] | None = None
    norm: float | None = None
    symmetric: bool = False
    method: str = "auto"
    steps: int = 2
    regularisation: float | None = None
    curvature: bool = True
    prior_deviation: float = 2.5
    covariates: Law | None = None
    public_records: PublicRecords | None = None

    _metric = staticmethod(accuracy_score)

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
        """Build a fitted estimator from a release alone, without records.

        Args:
            release: of a logistic regression, such as the `release_` of another estimator.
            classes: labels whose names are the classes of the release; None takes the names themselves.
            bounds: as in the constructor, where some columns are categories, so that `predict` takes their texts.
            covariates: for the posterior, as in the constructor.
            public_records: for the posterior, as in the constructor.
            draws: of the posterior.
            random_state: of these draws.

        Returns:
            An estimator that predicts, and has no account for another fit.

        Raises:
            InputError: another kind of release, or labels with other names.
        """
        design = trace_of(release).design
        if design.counted:
            raise InputError("this release is of a regression of counts: PrivatePoissonRegression reads it")
        states = () if design.target is None else design.target.states
        named = {str(label): label for label in class_labels(states if classes is None else classes).tolist()}
        if set(named) != set(states):
            raise InputError(f"the classes of the release are called {', '.join(states)}")
        # In the release's order: the weights are log odds of the second class.
        labels = np.array([named[state] for state in states])
        estimator = of_release(
            cls,
            release,
            bounds,
            classes=tuple(labels.tolist()),
            groups=written_groups(design.groups, None if bounds is None else declared_columns(bounds)),
            norm=design.norm,
            prior_deviation=normal_of(release).deviation,
            method="gradients" if release.mechanism == "noisy_gradients" else "objective",
            covariates=covariates,
            public_records=public_records,
            draws=draws,
            random_state=random_state,
        )
        estimator._keep(release, labels)
        return estimator

    def decision_function(self, X: Any) -> Floats:
        """Compute log odds by `coef_` and `intercept_`.

        Args:
            X: as in `fit`; nothing is charged. Numbers outside their bounds are moved to the nearest bound.

        Returns:
            Log odds of the second of two classes, shape (records,); with more classes, shape (records, classes).

        Raises:
            InputError: columns other than those of the fit.
        """
        odds = self._predict_linearly(X)
        return odds[0] if len(odds) == 1 else odds.T

    def predict_proba(self, X: Any) -> Floats:
        """Compute probabilities of the classes by the log odds, without their uncertainty.

        Args:
            X: as in `fit`.

        Returns:
            Shape (records, classes), in the order of `classes_`. `predict_interval` includes the noise.

        Raises:
            InputError: as `decision_function`.
        """
        return np.asarray(_share_out(self._predict_linearly(X)[None])[0].T)

    def predict_interval(self, X: Any, *, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """Compute intervals of P(class | features), which include the sampling error and the noise.

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
        """List the declared law of the features and the public records, which replace a curvature."""
        covariates = self.covariates
        if covariates is None and self.symmetric and trace_of(self.release_).curvature is None:
            covariates = uniform_law(design_of(self.release_))
        options = {"covariates": covariates, "public": self.public_records}
        return {name: value for name, value in options.items() if value is not None}

    def _require(self, rows: Rows, guarantee: Guarantee) -> None:
        """Refuse a law over other features."""
        require_known(rows.design, self.covariates, self.public_records)

    def __sklearn_tags__(self) -> Tags:
        """Mark that noise may make the fit's score poor."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _has_no_law(self) -> bool:
        """True if no law of the features is declared and the objective is perturbed."""
        laws = self.symmetric or self.covariates is not None or self.public_records is not None
        return self.method in ("auto", "objective") and not laws

    def _say_why_fixed(self) -> str | None:
        """Explain why found bounds cannot replace the declared ones; None if they can."""
        if self._has_no_law() and self.norm is None:
            return None
        return "norm, symmetric, covariates, public_records and gradients use features scaled by the declared bounds"

    def _declare_target(self, column: Variable | None) -> tuple[Variable, Array]:
        """Check the classes; the labels that y may hold are their states."""
        labels = declared_labels(self.classes, column)
        if len(labels) < 2:
            raise InputError("a classifier needs at least two classes; one class leaves nothing to predict")
        return Variable("class", tuple(str(label) for label in labels.tolist())), labels

    def _expect(self, predictors: Floats) -> Array:
        """Find the class of the largest log odds."""
        best = (predictors[0] > 0).astype(np.intp) if len(predictors) == 1 else predictors.argmax(axis=0)
        labels: Array = self.classes_[best]
        return labels

    def _make_mechanism(self, guarantee: Guarantee, counted: int, design: Design) -> Mechanism:
        """Make the mechanism of the method, or of the rule for "auto"."""
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
                "covariates and public_records need a guarantee with delta 0: leave them out, or the delta"
            )
        if method == "auto":
            applies = symmetric and not many and not guarantee.delta
            method = chosen_method(
                epsilon=float(guarantee.epsilon), records=records, features=len(design.features), symmetric=applies
            )
        if method == "objective":
            return perturb_objective(self, records)
        return noisy_gradients(1 if method == "one_shot" else whole_number(self.steps, "steps", 1), records=records)


def _share_out(odds: Floats) -> Floats:
    """Convert log odds, of the second class or of each, to probabilities of shape (draws, classes, records)."""
    if odds.shape[1] > 1:
        return np.asarray(softmax(odds, axis=1))
    second = expit(odds)
    return np.concatenate([1 - second, second], axis=1)
