"""Grid search for the cost of one fit: a replacement of scikit-learn's `GridSearchCV` on private records.

It publishes one estimator, its setting, and a noisy score; `mechanisms/private_selection.py` has the proof. Other
settings, their number, and their scores are discarded: there is no `cv_results_`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from discreet.designs.design import Normal
from discreet.designs.mechanisms.noisy_moments import noisy_moments
from discreet.designs.readers.score import Score, accuracy_network, error_design, read_score
from discreet.designs.records.moments import sum_moments
from discreet.designs.records.rows import read_rows
from discreet.errors import BudgetError, DiscreetError, InputError, listed
from discreet.estimators.accounts import paying, promised
from discreet.estimators.columns import codes_of, declared_pair
from discreet.estimators.contract import RELEASES, PrivateEstimator, declared_labels, design_behind, read_target
from discreet.estimators.options import generator, refuse_options, require_drawable, whole_number
from discreet.estimators.scaling import PublicScaler
from discreet.estimators.table_input import FitSource, MaskedInput
from discreet.formats.project_file import Project
from discreet.mechanisms.crossing import release
from discreet.mechanisms.laplace import laplace
from discreet.mechanisms.private_selection import FULL_GAIN, MOST_TRIES, SearchPlan, prepaid, search, unpaid
from discreet.model.dirichlet import Dirichlet
from discreet.model.schema import Variable
from discreet.posterior.protocol import require_level
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.records.counts import count_codes
from discreet.releases.policy import RecordsPolicy
from discreet.releases.release import Release
from discreet.util.arrays import Array, Floats, Positions
from discreet.util.option_texts import DEFAULT_LEVEL
from discreet.util.progress import under_way

# --------------------------------------------------------------------------------------------------------------------
# Scores of private estimators on private records: released with noise, charged, and with an interval.
#
# A fitted estimator is a function of its release, so it is public, and its prediction for one record depends on that
# record alone. One record therefore moves one count (or one error of a sum). Other estimators, and transformers that
# learn, do not have this property and are refused.


LEAST_EPSILON = 1e-4
"""Least epsilon of a score: with noise of 100,000 records its posterior could fail after the charge."""


def release_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    guarantee: Guarantee,
    account: Account,
    level: float = DEFAULT_LEVEL,
    draws: int = 1000,
    random_state: Any = None,
) -> Score:
    """Release the score of a fitted private estimator on private records.

    For a classifier the accuracy: the counts of right and wrong predictions, by `laplace`. For a regression the mean
    absolute error: the sum of the absolute errors, their sum of squares and, if it is private, the number of records,
    by `noisy_moments`; errors beyond the width of the target's bounds count as that width.

    Args:
        estimator: fitted, or made by `from_release`; or a pipeline of `PublicScaler` steps and such an estimator.
        X: records, as in its `fit`. The score is too optimistic on the records of the fit.
        y: labels or targets of the records.
        guarantee: of this release, pure; it is charged in addition to that of the fit.
        account: pays.
        level: posterior probability of the interval.
        draws: of the posterior.
        random_state: of these draws, never of the noise.

    Returns:
        The score. Its `release` can be saved, and `read_score` reads it.

    Raises:
        InputError: an estimator without such a score or not private, invalid records, a missing or wrong argument, or
            an epsilon below 1e-4. Nothing is charged, and no message has a value.
        BudgetError: the account cannot pay; nothing is charged.

    Guarantee:
        `guarantee`, by that of `laplace` and `noisy_moments`: the error of a prediction is a function of its record and
        of the public estimator, to the last bit.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> limit = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", limit)
        >>> X, y = np.repeat([[1.0, 5.0], [6.0, 2.0]], 200, axis=0), np.repeat(["small", "large"], 200)
        >>> estimator = dc.estimators.PrivateNaiveBayes(classes=("small", "large"), bounds=(0, 7), bins=3, draws=50,
        ...                                  guarantee=promise, account=account, random_state=0).fit(X, y)
        >>> score = dc.estimators.release_score(estimator, X, y, guarantee=promise, account=account)
        >>> score.metric, score.lower > 0.8, score.upper <= 1
        ('accuracy', True, True)
        >>> int(account.balance().epsilon_left)
        0
    """
    if not isinstance(guarantee, Guarantee) or not isinstance(account, Account):
        raise InputError("a score needs guarantee=Guarantee(...), its promise, and account=..., which is charged")
    _require_readable(guarantee)
    rng, number = generator(random_state), whole_number(draws, "draws", 2)
    require_drawable(number, 2)
    require_level(level, number)
    fitted = _find_private(estimator)
    account.check(guarantee)  # before a record is read
    predicted = np.asarray(estimator.predict(X))
    target = read_target(fitted, y, len(predicted), numeric=is_regressor(fitted))
    released = release_hits(fitted, predicted, target, guarantee, account)
    return read_score(released, level=level, draws=number, rng=rng)


@dataclass(frozen=True)
class PrivateScorer:
    """Scorer that scikit-learn calls; `private_scorer` makes it.

    Args:
        guarantee: what each call promises and costs.
        account: pays; None takes the estimator's.
        draws: of the posterior of each score.

    Raises:
        Nothing: `private_scorer` checks the arguments, and each call has the errors of `release_score`.

    Guarantee:
        `guarantee` for each call.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record")
        >>> dc.estimators.PrivateScorer(promise, None, draws=200).draws
        200
    """

    guarantee: Guarantee
    account: Account | None
    draws: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Release and charge one score; arguments and errors as `release_score`.

        Returns:
            The posterior mean of the accuracy, or of the negative mean absolute error: greater is better.
        """
        account = self.account or paying(_find_private(estimator))
        score = release_score(estimator, X, y, guarantee=self.guarantee, account=account, draws=self.draws)
        return score.mean if score.metric == "accuracy" else -score.mean


def private_scorer(guarantee: Guarantee, account: Account | None = None, *, draws: int = 1000) -> PrivateScorer:
    """Make a `scoring` for scikit-learn's own tools, by which they use released scores only.

    With it `cross_val_score` and `GridSearchCV` are private by composition: every fit and every score is charged. For
    k folds and m candidates a search charges k m fits, k m scores, and the last fit.

    Args:
        guarantee: what each call promises and costs; pure.
        account: pays; None takes that of the scored estimator.
        draws: of the posterior of each score.

    Returns:
        A callable `(estimator, X, y) -> float` that can be pickled.

    Raises:
        InputError: no guarantee, or an account of another type.

    Guarantee:
        `guarantee` for each call, as `release_score`. The sum holds for the records as a whole only if a record's fold
        depends on that record alone: use `cv=IndependentFolds(...)`, or under a replace guarantee `KFold`.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record")
        >>> dc.estimators.private_scorer(promise).guarantee == promise
        True
    """
    if not isinstance(guarantee, Guarantee):
        raise InputError("private_scorer needs a Guarantee(...), the promise and cost of each score")
    if not (account is None or isinstance(account, Account)):
        raise InputError("private_scorer takes an account of a ledger, or None for the estimator's own")
    return PrivateScorer(guarantee, account, whole_number(draws, "draws", 40))


def _find_private(estimator: Any) -> PrivateEstimator:
    """Find the private estimator itself, or the last step of a pipeline whose other steps learn nothing."""
    steps = [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    if not all(isinstance(step, PublicScaler) or step in (None, "passthrough") for step in steps[:-1]):
        raise InputError("a score needs a pipeline in which nothing but PublicScaler stands before the estimator")
    fitted = steps[-1]
    if not isinstance(fitted, PrivateEstimator):
        raise InputError(
            "a score needs a private estimator of this package: another one's prediction for a record may depend on "
            "all records; of a search pass best_estimator_"
        )
    if not (is_classifier(fitted) or is_regressor(fitted)):
        raise InputError(f"{type(fitted).__name__} predicts nothing that could be scored")
    return fitted


def release_hits(
    fitted: Any,
    predicted: Array,
    target: Array,
    guarantee: Guarantee,
    account: Account,
    policy: RecordsPolicy | None = None,
) -> Release:
    """Release the number of right predictions, or the errors of predictions.

    Args:
        fitted: private classifier or regression.
        predicted: its predictions, shape (records,).
        target: read by `read_target`, shape (records,).
        guarantee: pure; checked by `check_score`.
        account: pays.
        policy: by which records were read; None if they were in memory.

    Returns:
        The release that `read_score` reads.

    Raises:
        InputError, BudgetError: as `release`, or an undeclared label.
    """
    if is_regressor(fitted):
        errors, width = _measure_errors(design_behind(fitted).target.bounds, predicted, target)  # type: ignore[union-attr,arg-type]
        design = error_design(width)
        rows = read_rows(design, errors[:, None], one_record_a_unit=fitted.one_record_a_unit)
        statistic = sum_moments(replace(rows, policy=policy or rows.policy))
        return release(noisy_moments(), statistic, Normal(design, 1.0), guarantee, account=account)
    network = accuracy_network()
    counts = count_codes(network, {"prediction": _judge(fitted, predicted, target).astype(np.intp)})
    policy = policy or replace(counts.policy, one_record_a_unit=fitted.one_record_a_unit)
    counts = replace(counts, policy=policy)
    return release(laplace(), counts, Dirichlet.uniform(network, 1.0), guarantee, account=account)


def check_score(estimator: Any, guarantee: Guarantee) -> None:
    """Refuse what `release_hits` would refuse independently of records.

    Args:
        estimator: fitted or not.
        guarantee: of the score.

    Raises:
        InputError: epsilon is too small or too large, or the target has no bounds.
    """
    _require_readable(guarantee)
    if is_regressor(estimator):
        lower, upper = declared_pair(estimator.target_bounds, "target_bounds")
        design = error_design(upper - lower)
        noisy_moments().calibrate(design, Normal(design, 1.0), guarantee)
    else:
        network = accuracy_network()
        laplace().calibrate(network, Dirichlet.uniform(network, 1.0), guarantee)


def gains(fitted: Any, predicted: Array, target: Array) -> Positions:
    """Compute each record's gain for a search: `FULL_GAIN` for a right prediction, decreasing in an absolute error.

    Args:
        fitted: private classifier or regression.
        predicted: its predictions, shape (records,).
        target: shape (records,).

    Returns:
        Whole numbers from 0 to `FULL_GAIN`, each a function of its own record and of the public estimator.

    Raises:
        InputError: an undeclared label.
    """
    if not is_regressor(fitted):
        return np.where(_judge(fitted, predicted, target), FULL_GAIN, 0)
    # Candidates may have found bounds of their own; errors are relative to the declared ones, which all share.
    errors, width = _measure_errors(declared_pair(fitted.target_bounds, "target_bounds"), predicted, target)
    return np.clip(FULL_GAIN * (1 - errors / width), 0, FULL_GAIN).astype(np.intp)


def _require_readable(guarantee: Guarantee) -> None:
    """Refuse an epsilon whose score could not be read."""
    if not guarantee.epsilon >= LEAST_EPSILON:
        raise InputError(f"a score needs an epsilon of at least {LEAST_EPSILON:g}; with less it is all noise")


def _judge(fitted: Any, predicted: Array, target: Array) -> npt.NDArray[np.bool_]:
    """Compare each prediction with its label."""
    labels = fitted.classes_.tolist()
    refusal = f"y holds a label that is none of the declared classes: {', '.join(map(str, labels[:12]))}"
    position = {label: code for code, label in enumerate(labels)}
    return np.asarray(codes_of(target, position, refusal) == codes_of(predicted, position, refusal))


def _measure_errors(bounds: tuple[float, float], predicted: Array, target: Array) -> tuple[Floats, float]:
    """Compute absolute errors, at most the width of a target's bounds, and that width."""
    lower, upper = bounds
    # An extreme target overflows to infinity, which is clipped; a warning would reveal something about a record.
    with np.errstate(over="ignore"):
        return np.fmin(np.abs(target - predicted), upper - lower), upper - lower


PAYING = ("guarantee", "account", "epsilon", "delta", "random_state")
"""Arguments that each try replaces, and that are restored on the chosen estimator. `random_state` is among them because
the state of a generator that all tries drew from would reveal their number."""
FIXED = (*PAYING, "classes", "target", "target_bounds", "one_record_a_unit")
"""Arguments that a grid cannot have: those above, and those that make gains of candidates comparable."""
PASSED_ON = (
    *("classes_", "n_features_in_", "feature_names_in_"),
    *("predict_proba", "predict_interval", "outcome_interval", "decision_function"),
    *("tidy", "summary", "to_frame", "plot"),
)
"""Attributes that a fitted search takes from its chosen estimator, if that has them."""
SCORE_LEVEL, SCORE_DRAWS = DEFAULT_LEVEL, 1000


class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search for the best setting of a private estimator on a grid, for the guarantee of a single fit.

    Records are split at random. Settings are picked at random, fitted to the larger part with a third of epsilon each,
    and compared on the smaller part by right predictions or absolute errors. The best fit is the result. The number of
    tries is random and secret, so all of them together cost as much as three (Liu and Talwar, STOC 2019). Up to three
    settings are all tried once, at the same cost or less.

    Args:
        estimator: a private classifier or regression, or a pipeline of `PublicScaler` steps and one. Its guarantee is
            that of the whole search, and its account is charged once.
        param_grid: as for `GridSearchCV`: lists of values by argument (of a pipeline `step__argument`, of the last
            step), or a list of such grids. All of it is public. It cannot vary the guarantee, the classes or the
            target's bounds.
        tries: number of tries that are made; a random number of them, half on average, may be chosen. None takes 8 for
            each setting, or each of up to three once. More tries find the best setting more often and take longer.
        holdout: share of the records on which settings are compared.

    Attributes:
        best_estimator_: the chosen estimator. Its `release_` states the guarantee of the whole search.
        best_params_, best_index_: its setting and the position in the grid.
        best_score_: posterior mean of its accuracy, or of its negative mean absolute error.
        score_: the released score, with an interval; see `read_score`.
        classes_, n_features_in_, feature_names_in_, and methods such as predict_proba: of the chosen estimator.

    Raises:
        Nothing: `fit` checks the arguments, as scikit-learn requires.

    Guarantee:
        `fit` promises the estimator's guarantee for `best_estimator_`, `best_params_` and `score_` together. The number
        of tries that may be chosen stays secret, as all others are made, too, in the same time and memory. Intervals
        of the chosen estimator and of its score ignore the selection; docs/estimators.md has their coverage.

    Source:
        `discreet.mechanisms.private_selection` has the proof and the papers.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", promise)
        >>> paid = {"guarantee": promise, "account": account}
        >>> options = {"classes": ("small", "large"), "bounds": (0, 7), "draws": 50}
        >>> estimator = dc.estimators.PrivateNaiveBayes(random_state=0, **options, **paid)
        >>> X, y = np.repeat([[1.0, 5.0], [6.0, 2.0]], 500, axis=0), np.repeat(["small", "large"], 500)
        >>> search = dc.estimators.PrivateGridSearch(estimator, {"bins": [2, 4, 6]}).fit(X, y)
        >>> search.best_params_["bins"] in (2, 4, 6), search.best_score_ > 0.8, search.predict([[6, 2]]).tolist()
        (True, True, ['large'])
        >>> int(account.balance().epsilon_left)
        0
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        tries: int | None = None,
        holdout: float = 0.2,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.tries = tries
        self.holdout = holdout

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        target: str | None = None,
        table: str | None = None,
        project: str | Path | None = None,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Check the arguments and records, charge the account once, and search.

        Args:
            X, y, target, table, project, features: as of the estimator's own `fit`. A table is read into memory once,
                and a unit has one record in it; in a pipeline X is an array or a frame.
            options: none is accepted.

        Returns:
            The search.

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged.
            DiscreetError: the noise is too large to read the chosen fit. The account was charged.
        """
        refuse_options(options)
        settings, private = self._list_settings(), _last_step(self.estimator)
        declared = None if project is None else Project.read(project)
        guarantee, account = promised(private, declared)
        tries = self.tries if self.tries is None else whole_number(self.tries, "tries", 1, MOST_TRIES)
        plan = SearchPlan.of(guarantee, len(settings), tries)
        seed = int(generator(private.random_state).integers(2**31))
        records, private = self._read_records(FitSource(X, y, target, table, features).of_project(declared))
        check_score(private, plan.score)
        self._check_setting(plan, private, settings[0], records)
        held_out = _toss_coins(_num_samples(records.X), self.holdout)
        training = replace(records, mask=~held_out)
        for setting in settings:
            self._check_setting(plan, private, setting, training)
        truth = read_target(private, records.y, len(held_out), numeric=is_regressor(private))[held_out]

        def attempt(index: int, fit_account: Account) -> tuple[int, tuple[Any, Array] | None]:
            estimator = self._make_estimator(plan, private, settings[index], fit_account, seed)
            return _attempt(estimator, training, truth)

        with under_way("searching"):  # it hides inner progress bars, which would reveal the number of tries
            number, index, chosen = search(plan, attempt, account)
        if chosen is None:
            raise DiscreetError("the noise is too large to read the chosen fit; the account was charged")
        pipeline, predicted = chosen
        fitted = _last_step(pipeline)
        policy = fitted.release_.policy if records.source is not None else None
        released = release_hits(fitted, predicted, truth, plan.score, prepaid(plan.score), policy)
        # All documents state the guarantee that they have together, and were paid by one charge.
        shared: dict[str, Any] = {"id": number, "account": account.id, "guarantee": guarantee}
        released = replace(released, **shared)
        for name in RELEASES & {name for name, value in vars(fitted).items() if value is not None}:
            setattr(fitted, name, replace(getattr(fitted, name), **shared))
        fitted.__setstate__(fitted.__getstate__())  # draws refer to their release, which was replaced
        fitted.set_params(**{name: getattr(private, name) for name in PAYING})
        self.best_estimator_, self.best_params_, self.best_index_ = pipeline, settings[index], index
        self.score_ = read_score(released, level=SCORE_LEVEL, draws=SCORE_DRAWS, rng=np.random.default_rng(seed))
        self.best_score_ = self.score_.mean if is_classifier(fitted) else -self.score_.mean
        return self

    def predict(self, X: Any) -> Array:
        """Predict by the chosen estimator.

        Args:
            X: as in `fit`; nothing is charged.

        Returns:
            The result of the estimator's own `predict`, shape (records,).

        Raises:
            InputError: columns other than those of the fit.
        """
        check_is_fitted(self, "best_estimator_")
        predicted: Array = self.best_estimator_.predict(X)
        return predicted

    @available_if(lambda self: getattr(self.estimator, "scored_records", "private") == "public")  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the chosen estimator's own `score`, which is for records that were declared public only.

        Args:
            X: as in `fit`.
            y: labels or targets, shape (records,).
            sample_weight: of each record.

        Returns:
            Its accuracy or R2.

        Raises:
            InputError: as for that `score`.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, sample_weight))

    def __getattr__(self, name: str) -> Any:
        """Look up labels, columns, probabilities, intervals and rows of the chosen estimator."""
        if name not in PASSED_ON or "best_estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.best_estimator_, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle, with the score's release as its document."""
        state = dict(super().__getstate__())
        if "score_" in state:
            state["score_"] = replace(state["score_"], release=state["score_"].release.dumps())
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `__getstate__` saved."""
        state = dict(state)
        if "score_" in state:
            state["score_"] = replace(state["score_"], release=Release.loads(state["score_"].release))
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator's tags; a search is random."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.non_deterministic = True
        return tags

    def _list_settings(self) -> list[dict[str, Any]]:
        """List all settings of the grid, in scikit-learn's order."""
        estimator, private = self.estimator, _last_step(self.estimator)
        if not isinstance(private, PrivateEstimator) or not (is_classifier(private) or is_regressor(private)):
            raise InputError("a search needs a private classifier or regression of this package, alone or a last step")
        _find_private(estimator)
        try:
            settings: list[dict[str, Any]] = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError):
            raise InputError("param_grid must be a dictionary of lists, or a list of such dictionaries") from None
        prefix = f"{self._last_name}__" if self._last_name else ""
        allowed = {f"{prefix}{name}" for name in set(private.get_params(deep=False)) - {*FIXED}}
        if wrong := sorted({name for setting in settings for name in setting} - allowed):
            raise InputError(
                f"a grid of {type(private).__name__} cannot vary {listed(wrong)}, but {listed(sorted(allowed))}"
            )
        return settings

    def _read_records(self, source: FitSource) -> tuple[MaskedInput, Any]:
        """Read a table into memory, and declare its target in the private estimator."""
        private = _last_step(self.estimator)
        if not source.of_table:
            return MaskedInput(source.X, source.y), private
        if isinstance(self.estimator, Pipeline):
            raise InputError("a pipeline takes an array or a frame X, and y: a table is for an estimator alone")
        source.require_target(supervised=True)
        source, classifies = private.adapt(source), is_classifier(private)
        column = source.target_column
        if classifies:
            labels = declared_labels(private.classes, column)
            declared, states = {"classes": tuple(labels.tolist())}, {str(label): label for label in labels.tolist()}
            column = column or Variable(source.target or "", tuple(states))
        else:
            bounds = column.bounds if private.target_bounds is None and column is not None else private.target_bounds
            declared, states = {"target_bounds": declared_pair(bounds, "target_bounds")}, {}
            column = column or Variable(source.target or "", bounds=declared["target_bounds"])
        columns = source.columns(getattr(private, "features", None) or private.bounds)
        records = MaskedInput.of_table(source, columns, column)
        if classifies:
            records = replace(records, y=np.array([states[state] for state in records.y.tolist()], labels.dtype))
        return records, type(private)(**{**private.get_params(deep=False), **declared})

    def _make_estimator(
        self, plan: SearchPlan, private: Any, setting: Mapping[str, Any], account: Account, seed: int
    ) -> Any:
        """Make an estimator of one setting, with its share of the guarantee and an account of its own."""
        values = {name.removeprefix(f"{self._last_name}__"): value for name, value in setting.items()}
        paying = dict(zip(PAYING, (plan.fit, account, None, None, seed), strict=True))
        estimator = type(private)(**{**private.get_params(deep=False), **values, **paying})
        if not isinstance(self.estimator, Pipeline):
            return estimator
        before = ((name, clone(step)) for name, step in self.estimator.steps[:-1])
        return Pipeline([*before, (self._last_name, estimator)])

    @property
    def _last_name(self) -> str:
        """Name of a pipeline's last step."""
        return str(self.estimator.steps[-1][0]) if isinstance(self.estimator, Pipeline) else ""

    def _check_setting(self, plan: SearchPlan, private: Any, setting: Mapping[str, Any], records: MaskedInput) -> None:
        """Refuse what a fit would refuse, before any charge: the fit stops at an account that cannot pay."""
        try:
            _fit(self._make_estimator(plan, private, setting, unpaid(plan.fit), 0), records)
        except BudgetError:
            return
        raise DiscreetError("an account that cannot pay did not stop a fit; please report this as a bug")


def _last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _fit(estimator: Any, records: MaskedInput) -> MaskedInput:
    """Fit an estimator, or the last step of a pipeline behind its public scalers; return what that step is given."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            if step not in (None, "passthrough"):
                records = replace(records, X=step.fit_transform(records.X))
    records.fit(_last_step(estimator))
    return records


def _toss_coins(records: int, holdout: Any) -> npt.NDArray[np.bool_]:
    """Draw the records on which settings are compared: 64 random bits of the operating system for each."""
    if isinstance(holdout, bool) or not isinstance(holdout, Real) or not 0 < float(holdout) < 1:
        raise InputError("holdout must be a share of the records, greater than 0 and less than 1")
    return np.frombuffer(os.urandom(8 * records), np.uint64) < np.uint64(int(float(holdout) * 2**64))


def _attempt(estimator: Any, training: MaskedInput, target: Array) -> tuple[int, tuple[Any, Array] | None]:
    """Make one try: its gain, and the fitted estimator with its predictions for the held-out records.

    Errors after the release are functions of it, but must stay hidden: they would reveal one try among many. The same
    holds for warnings.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records, fitted = _fit(estimator, training), _last_step(estimator)
            predicted = np.asarray(fitted.predict(records.X))[~records.mask]
            return int(gains(fitted, predicted, target).sum()), (estimator, predicted)
    except KeyboardInterrupt:
        raise
    except BaseException:  # also SystemExit: no error of a try may be seen
        return 0, None
