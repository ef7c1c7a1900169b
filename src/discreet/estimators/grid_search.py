"""A grid search that costs what one fit would: for scikit-learn's `GridSearchCV`, on private records.

All that is published of it is one estimator, which setting it has, and a noisy score; the proof is in
`mechanisms/private_selection.py`. Other settings, how many were tried, and their scores are forgotten: there is no
`cv_results_`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from discreet.errors import BudgetError, DiscreetError, InputError, listed
from discreet.estimators.accounts import promised
from discreet.estimators.contract import RELEASES, PrivateEstimator, Values, read_target
from discreet.estimators.given_table import KeptRecords, is_table
from discreet.estimators.options import generator, refuse_options, whole_number
from discreet.estimators.private_scores import check_score, gains, release_hits
from discreet.mechanisms.private_selection import MOST_TRIES, SearchPlan, prepaid, search, unpaid
from discreet.privacy.ledger import Account
from discreet.queries.score import read_score
from discreet.releases.release import Release
from discreet.util.progress import under_way

Flags = npt.NDArray[np.bool_]
PAYING = ("guarantee", "account", "epsilon", "delta", "random_state")
"""Arguments that tries get of their own, and the chosen estimator gets back. The last because a generator of the
caller's that all tries drew from would tell how many there were."""
FIXED = (*PAYING, "classes", "target", "target_bounds", "one_record_a_unit")
"""Arguments that a grid cannot have: those, and what makes gains of candidates comparable."""
PASSED_ON = (
    *("classes_", "n_features_in_", "feature_names_in_"),
    *("predict_proba", "predict_interval", "outcome_interval", "decision_function"),
    *("tidy", "summary", "to_frame", "plot"),
)
"""What a fitted search has of its chosen estimator, where that has it."""
SCORE_LEVEL, SCORE_DRAWS = 0.95, 1000


class PrivateGridSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of a grid of settings of a private estimator, for the promise of a single fit.

    Records are split by coins. Settings are tried on the larger part, picked at random and fitted with a third of
    epsilon each, and judged on the smaller one by right predictions or absolute errors; one is chosen and kept as it
    was fitted. The number of tries is random and stays unknown, which is why all of them together cost as much as three
    (Liu and Talwar, STOC 2019). Up to three settings are all tried once, at the same price or less.

    Args:
        estimator: a private classifier or regression. Its guarantee, pure, is what the whole search promises, and its
            account pays, once.
        param_grid: as `GridSearchCV` takes it: lists of values by argument, or a list of such grids. All of it is
            public. What the estimator promises, its classes and its target's bounds are not among them.
        tries: most tries, of which half are made on average; None takes 8 a setting, or each of up to three once. More
            find the best setting more often and take longer.
        holdout: share of the records that settings are judged on.

    Attributes:
        best_estimator_: the chosen estimator. Its `release_` promises what the whole search does.
        best_params_, best_index_: its setting and the place in the grid.
        best_score_: posterior mean of its accuracy, or less that of its mean absolute error.
        score_: the released score, with an interval; see `read_score`.
        classes_, n_features_in_, feature_names_in_, and methods such as predict_proba: of the chosen estimator.

    Raises:
        Nothing: `fit` looks at arguments, as scikit-learn has it.

    Guarantee:
        `fit` promises the estimator's guarantee for `best_estimator_`, `best_params_` and `score_` together, if the
        number of tries stays unknown: do not publish how long a search took, nor let anybody watch it. Intervals of the
        chosen estimator and of its score do not count the choosing; docs/estimators.md says how much that takes from
        them.

    Source:
        `discreet.mechanisms.private_selection` has the proof and the papers.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", promise)
        >>> estimator = dc.PrivateNaiveBayes(classes=("small", "large"), bounds=(0, 7), draws=50, random_state=0,
        ...                               guarantee=promise, account=account)
        >>> X, y = np.repeat([[1.0, 5.0], [6.0, 2.0]], 500, axis=0), np.repeat(["small", "large"], 500)
        >>> found = dc.PrivateGridSearch(estimator, {"bins": [2, 4, 6]}).fit(X, y)
        >>> found.best_params_["bins"] in (2, 4, 6), found.best_score_ > 0.8, found.predict([[6, 2]]).tolist()
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

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Check everything, charge the account once, and search.

        Args:
            X: array or frame, shape (records, features).
            y: labels or targets, shape (records,).
            options: none is taken.

        Returns:
            The search.

        Raises:
            InputError: an argument that is missing or wrong, or records that do not fit; nothing is charged.
            BudgetError: the account cannot pay; nothing is charged.
            DiscreetError: the chosen fit could not be read, as noise left too little of it. That was paid for.
        """
        refuse_options(options)
        settings = self._list_settings()
        guarantee, account = promised(self.estimator)
        tries = self.tries if self.tries is None else whole_number(self.tries, "tries", 1, MOST_TRIES)
        plan = SearchPlan.of(guarantee, len(settings), tries)
        seed = int(generator(self.estimator.random_state).integers(2**31))
        check_score(self.estimator, plan.score)
        if is_table(X, y):
            raise InputError("a search takes an array or a frame X beside y: a table would be read again for every try")
        self._rehearse(plan, settings[0], X, y)
        judged = _toss_coins(_num_samples(X), self.holdout)
        part = KeptRecords(X, y, ~judged)
        for setting in settings:
            self._rehearse(plan, setting, part, None)
        target = read_target(self.estimator, y, len(judged), numeric=is_regressor(self.estimator))[judged]

        def attempt(place: int, paid: Account) -> tuple[int, tuple[Any, Values] | None]:
            return _attempt(self._make_estimator(plan, settings[place], paid, seed), part, target)

        with under_way("searching"):  # inside of it nothing is shown: bars of tries would tell how many there are
            number, place, chosen = search(plan, attempt, account)
        if chosen is None:
            raise DiscreetError("the chosen fit could not be read: noise left too little of it; that was paid for")
        fitted, predicted = chosen
        released = release_hits(fitted, predicted, target, plan.score, prepaid(plan.score))
        # All documents promise what holds for them together, and were paid for by one charge.
        shared: dict[str, Any] = {"id": number, "account": account.id, "guarantee": guarantee}
        released = replace(released, **shared)
        for name in RELEASES & {name for name, value in vars(fitted).items() if value is not None}:
            setattr(fitted, name, replace(getattr(fitted, name), **shared))
        fitted.__setstate__(fitted.__getstate__())  # draws know the release that they are of: as it was made, but here
        whole = {name: getattr(self.estimator, name) for name in PAYING}
        self.best_estimator_, self.best_params_, self.best_index_ = fitted.set_params(**whole), settings[place], place
        self.score_ = read_score(released, level=SCORE_LEVEL, draws=SCORE_DRAWS, rng=np.random.default_rng(seed))
        self.best_score_ = self.score_.mean if is_classifier(fitted) else -self.score_.mean
        return self

    def predict(self, X: Any) -> Values:
        """Predict by the chosen estimator.

        Args:
            X: as in `fit`; nothing is charged.

        Returns:
            What the estimator's own `predict` does, shape (records,).

        Raises:
            InputError: other columns than those of the fit.
        """
        check_is_fitted(self, "best_estimator_")
        predicted: Values = self.best_estimator_.predict(X)
        return predicted

    @available_if(lambda self: getattr(self.estimator, "scored_records", "private") == "public")  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The chosen estimator's own `score`, which is of records that were declared public only.

        Args:
            X: as in `fit`.
            y: labels or targets, shape (records,).
            sample_weight: of each record.

        Returns:
            Its accuracy or R2.

        Raises:
            InputError: as of that `score`.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, sample_weight))

    def __getattr__(self, name: str) -> Any:
        """Labels, columns, probabilities, intervals and rows of the chosen estimator."""
        if name not in PASSED_ON or "best_estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.best_estimator_, name)

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds the score's release as its document, as that of an estimator does."""
        state = dict(super().__getstate__())
        if "score_" in state:
            state["score_"] = replace(state["score_"], release=state["score_"].release.dumps())
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """The inverse."""
        state = dict(state)
        if "score_" in state:
            state["score_"] = replace(state["score_"], release=Release.loads(state["score_"].release))
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Tags:
        """Those of the estimator; no two searches are alike."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags", "input_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.non_deterministic = True
        return tags

    def _list_settings(self) -> list[dict[str, Any]]:
        """List all settings of the grid, in scikit-learn's order."""
        estimator = self.estimator
        if not isinstance(estimator, PrivateEstimator) or not (is_classifier(estimator) or is_regressor(estimator)):
            raise InputError("a search needs a private classifier or regression of this package, and no pipeline")
        try:
            settings: list[dict[str, Any]] = list(ParameterGrid(self.param_grid))
        except (TypeError, ValueError):
            raise InputError("param_grid is a dictionary of lists, or a list of such") from None
        known = set(estimator.get_params(deep=False)) - {*FIXED}
        if wrong := sorted({name for setting in settings for name in setting} - known):
            raise InputError(
                f"a grid of {type(estimator).__name__} cannot have {listed(wrong)}; it is of {listed(sorted(known))}"
            )
        return settings

    def _make_estimator(self, plan: SearchPlan, setting: Mapping[str, Any], account: Account, seed: int) -> Any:
        """Make an estimator of one setting that spends its share from an account of its own."""
        arguments = {**self.estimator.get_params(deep=False), **setting}
        paying = dict(zip(PAYING, (plan.fit, account, None, None, seed), strict=True))
        return type(self.estimator)(**{**arguments, **paying})

    def _rehearse(self, plan: SearchPlan, setting: Mapping[str, Any], X: Any, y: Any) -> None:
        """Refuse all that a fit refuses, before anything is charged: it stops at an account that cannot pay."""
        try:
            self._make_estimator(plan, setting, unpaid(plan.fit), 0).fit(X, y)
        except BudgetError:
            return
        raise DiscreetError("a rehearsal was fitted, which an account that cannot pay should have stopped")


def _toss_coins(records: int, holdout: Any) -> Flags:
    """Toss which records settings are judged on: a coin of 64 bits for each, from the operating system."""
    if isinstance(holdout, bool) or not isinstance(holdout, Real) or not 0 < float(holdout) < 1:
        raise InputError("holdout is a share of the records, greater than 0 and less than 1")
    return np.frombuffer(os.urandom(8 * records), np.uint64) < np.uint64(int(float(holdout) * 2**64))


def _attempt(estimator: Any, part: KeptRecords, target: Values) -> tuple[int, tuple[Any, Values] | None]:
    """Make one try: its gain, and the fitted estimator with what it predicts for the records that it is judged on.

    Whatever goes wrong after the release is a function of it, but must not be seen: it would tell of one try among
    many. The same holds of warnings.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = estimator.fit(part)
            predicted = np.asarray(fitted.predict(part.X))[~part.kept]
            return int(gains(fitted, predicted, target).sum()), (fitted, predicted)
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever it is, also the end of the program, it must not be told
        return 0, None
