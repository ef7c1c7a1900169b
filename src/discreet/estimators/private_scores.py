"""Scores of private estimators on private records: released with noise, charged, and with an interval.

A fitted estimator knows its release and nothing else of the records, so it is public, and what it predicts for one
record is a function of that record alone. Only then does one record move one count (or one error of a sum), and only
therefore are other estimators, and transformers that learn, refused here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from discreet.errors import InputError
from discreet.estimators.accounts import paying
from discreet.estimators.columns import codes_of, declared_pair
from discreet.estimators.contract import PrivateEstimator, Values, read_target
from discreet.estimators.options import generator, require_drawable, whole_number
from discreet.estimators.scaling import PublicScaler
from discreet.mechanisms.crossing import release
from discreet.mechanisms.laplace import laplace
from discreet.mechanisms.noisy_moments import noisy_moments
from discreet.mechanisms.private_selection import FULL_GAIN
from discreet.model.design import Normal
from discreet.model.dirichlet import Dirichlet
from discreet.posterior.protocol import require_level
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.ledger import Account
from discreet.queries.score import Score, accuracy_network, error_design, read_score
from discreet.records.counts import count_codes
from discreet.records.moments import sum_moments
from discreet.records.rows import read_rows
from discreet.releases.release import Release

Codes = npt.NDArray[np.intp]

LEAST_EPSILON = 1e-4
"""Least budget of a score: with noise of 100,000 records its posterior may not be drawn once it is paid."""


def release_score(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    guarantee: Guarantee,
    account: Account,
    level: float = 0.95,
    draws: int = 1000,
    random_state: Any = None,
) -> Score:
    """Publish how good a fitted private estimator is on private records.

    A classifier's accuracy: the counts of right and wrong predictions, by `laplace`. A regression's mean absolute
    error: the sum of the absolute errors, their sum of squares and, where it is private, the number of records, by
    `noisy_moments`; errors beyond the width of the target's bounds count as that width.

    Args:
        estimator: fitted, or made by `from_release`; or a pipeline, of `PublicScaler` steps and such an estimator.
        X: records, as in its `fit`. Those it was fitted to make it look better than it is on others.
        y: their labels or targets.
        guarantee: what this release promises, pure; it is charged beside that of the fit.
        account: pays.
        level: posterior probability of the interval.
        draws: of the posterior.
        random_state: of these draws, never of the noise.

    Returns:
        The score. Its `release` can be saved, and `read_score` reads it.

    Raises:
        InputError: an estimator that has no such score or is not private, records that do not fit, an argument that is
            missing or wrong, or an epsilon below 1e-4. Nothing is charged, and no message has a value.
        BudgetError: the account cannot pay; nothing is charged.

    Guarantee:
        `guarantee`, by that of `laplace` and `noisy_moments`: whether a prediction is right, and how far it is off,
        depends on its record and on the public estimator, to the last bit.

    Example:
        >>> import numpy as np
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
        >>> limit = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
        >>> account = dc.Ledger("sqlite://").open("flowers", limit)
        >>> X, y = np.repeat([[1.0, 5.0], [6.0, 2.0]], 200, axis=0), np.repeat(["small", "large"], 200)
        >>> estimator = dc.PrivateNaiveBayes(classes=("small", "large"), bounds=(0, 7), bins=3, draws=50,
        ...                                  guarantee=promise, account=account, random_state=0).fit(X, y)
        >>> score = dc.estimators.release_score(estimator, X, y, guarantee=promise, account=account)
        >>> score.metric, score.lower > 0.8, score.upper <= 1
        ('accuracy', True, True)
        >>> int(account.balance().epsilon_left)
        0
    """
    if not isinstance(guarantee, Guarantee) or not isinstance(account, Account):
        raise InputError("a score needs guarantee=Guarantee(...), what it promises, and account=..., which pays")
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
    """What scikit-learn calls to score an estimator; `private_scorer` makes it.

    Args:
        guarantee: what each call promises and costs.
        account: pays; None takes the estimator's.
        draws: of the posterior of each score.

    Raises:
        Nothing: `private_scorer` looks at the arguments, and each call raises what `release_score` does.

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
            The posterior mean of the accuracy, or less that of the mean absolute error: greater is better.
        """
        account = self.account or paying(_find_private(estimator))
        score = release_score(estimator, X, y, guarantee=self.guarantee, account=account, draws=self.draws)
        return score.mean if score.metric == "accuracy" else -score.mean


def private_scorer(guarantee: Guarantee, account: Account | None = None, *, draws: int = 1000) -> PrivateScorer:
    """A `scoring` for scikit-learn's own tools, by which they choose and report nothing that was not released.

    With it `cross_val_score` and `GridSearchCV` are private by composition: every fit is charged, and so is every call
    of this. For k folds and m candidates a search charges k m fits, k m scores, and the last fit.

    Args:
        guarantee: what each call promises and costs; pure.
        account: pays; None takes that of the estimator which is scored.
        draws: of the posterior of each score.

    Returns:
        A callable `(estimator, X, y) -> float` that can be pickled.

    Raises:
        InputError: no guarantee, or something else than an account.

    Guarantee:
        `guarantee` for each call, as `release_score`. The sum is that of the records as a whole only if a record's fold
        depends on that record alone: take `cv=IndependentFolds(...)`, or under a replace guarantee `KFold`.

    Example:
        >>> import discreet as dc
        >>> promise = dc.Guarantee(epsilon="0.1", delta=0, relation="add-remove", unit="record")
        >>> dc.estimators.private_scorer(promise).guarantee == promise
        True
    """
    if not isinstance(guarantee, Guarantee):
        raise InputError("private_scorer needs a Guarantee(...): what each score promises and costs")
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
            "a score needs a private estimator of this package: what another one predicts for a record may depend on "
            "all the others; of a search pass best_estimator_"
        )
    if not (is_classifier(fitted) or is_regressor(fitted)):
        raise InputError(f"{type(fitted).__name__} predicts nothing that could be scored")
    return fitted


def release_hits(fitted: Any, predicted: Values, target: Values, guarantee: Guarantee, account: Account) -> Release:
    """Publish how many predictions are right, or how far they are off.

    Args:
        fitted: private classifier or regression.
        predicted: by it, shape (records,).
        target: read by `read_target`, shape (records,).
        guarantee: pure; at least what `check_score` asks.
        account: pays.

    Returns:
        The release that `read_score` reads.

    Raises:
        InputError, BudgetError: as `release`, or a label that was not declared.
    """
    publish = _release_error if is_regressor(fitted) else _release_accuracy
    return publish(fitted, predicted, target, guarantee, account)


def check_score(estimator: Any, guarantee: Guarantee) -> None:
    """Refuse what `release_hits` would refuse without a look at records.

    Args:
        estimator: fitted or not.
        guarantee: of the score.

    Raises:
        InputError: too small or too large an epsilon, or no bounds of the target.
    """
    _require_readable(guarantee)
    if is_regressor(estimator):
        lower, upper = declared_pair(estimator.target_bounds, "target_bounds")
        design = error_design(upper - lower)
        noisy_moments().calibrate(design, Normal(design, 1.0), guarantee)
    else:
        network = accuracy_network()
        laplace().calibrate(network, Dirichlet.uniform(network, 1.0), guarantee)


def gains(fitted: Any, predicted: Values, target: Values) -> Codes:
    """What each record gives to a search: `FULL_GAIN` for a right prediction, or the less the further it is off.

    Args:
        fitted: private classifier or regression.
        predicted: by it, shape (records,).
        target: shape (records,).

    Returns:
        Whole numbers from 0 to `FULL_GAIN`, each a function of its own record and of the public estimator.

    Raises:
        InputError: a label that was not declared.
    """
    if not is_regressor(fitted):
        return np.where(_judge(fitted, predicted, target), FULL_GAIN, 0)
    # Of candidates that found bounds of their own, errors are told by those that were declared for all.
    errors, width = _measure_errors(declared_pair(fitted.target_bounds, "target_bounds"), predicted, target)
    return np.clip(FULL_GAIN * (1 - errors / width), 0, FULL_GAIN).astype(np.intp)


def _require_readable(guarantee: Guarantee) -> None:
    """Refuse a budget whose score could not be read."""
    if not guarantee.epsilon >= LEAST_EPSILON:
        raise InputError(f"a score needs an epsilon of at least {LEAST_EPSILON:g}; below it says nothing")


def _judge(fitted: Any, predicted: Values, target: Values) -> npt.NDArray[np.bool_]:
    """Judge whether each prediction is right."""
    labels = fitted.classes_.tolist()
    refusal = f"y holds a label that is none of the declared classes: {', '.join(map(str, labels[:12]))}"
    position = {label: code for code, label in enumerate(labels)}
    return np.asarray(codes_of(target, position, refusal) == codes_of(predicted, position, refusal))


def _measure_errors(
    bounds: tuple[float, float], predicted: Values, target: Values
) -> tuple[npt.NDArray[np.float64], float]:
    """Measure absolute errors, at most the width of a target's bounds, and that width."""
    lower, upper = bounds
    # A target far out overflows to infinity, which is clipped; a warning would be a word about a record.
    with np.errstate(over="ignore"):
        return np.fmin(np.abs(target - predicted), upper - lower), upper - lower


def _release_accuracy(
    fitted: Any, predicted: Values, target: Values, guarantee: Guarantee, account: Account
) -> Release:
    """Release counts of wrong and right predictions."""
    right = _judge(fitted, predicted, target)
    network = accuracy_network()
    counts = count_codes(network, {"prediction": right.astype(np.intp)})
    counts = replace(counts, policy=replace(counts.policy, one_record_a_unit=fitted.one_record_a_unit))
    return release(laplace(), counts, Dirichlet.uniform(network, 1.0), guarantee, account=account)


def _release_error(fitted: Any, predicted: Values, target: Values, guarantee: Guarantee, account: Account) -> Release:
    """Release sums of absolute errors and of their squares."""
    errors, width = _measure_errors(fitted.release_.design.target.bounds, predicted, target)
    design = error_design(width)
    statistic = sum_moments(read_rows(design, errors[:, None], one_record_a_unit=fitted.one_record_a_unit))
    return release(noisy_moments(), statistic, Normal(design, 1.0), guarantee, account=account)
