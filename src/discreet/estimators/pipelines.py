"""Pipelines: whether anything before a private estimator learns from the records without paying for it.

An estimator cannot see what stands before it, so the whole pipeline is looked at, before anything is fitted and without
a record. What a fit can see of records alone is in `columns.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from discreet.errors import InputError, listed
from discreet.estimators.contract import PrivateEstimator
from discreet.estimators.scaling import PublicScaler

P = TypeVar("P")


def check_pipeline(pipeline: P) -> P:
    """Refuse a pipeline in which a step learns from private records.

    A step learns nothing if it is a `PublicScaler`, "passthrough" or "drop", or says that it needs no fit
    (`requires_fit` of its tags), as `Normalizer`, `Binarizer` and `FunctionTransformer` do: that the function of the
    last one treats every record by itself is your word. Pipelines, unions and column transformers are looked into.

    Args:
        pipeline: of scikit-learn, a private estimator last; or such an estimator alone.

    Returns:
        The same object, so that `check_pipeline(make_pipeline(...)).fit(X, y)` is one line.

    Raises:
        InputError: steps that learn, with their names and what to put in their place; or no private estimator last.

    Guarantee:
        None spent: no record is looked at.

    Example:
        >>> import discreet as dc
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> steps = StandardScaler(), dc.estimators.PrivateNaiveBayes(bounds=(-1, 1))
        >>> dc.estimators.check_pipeline(make_pipeline(*steps))
        Traceback (most recent call last):
        discreet.errors.InputError: step 'standardscaler' (StandardScaler) learns from the records, which no budget ...
    """
    steps: list[tuple[str, Any]] = list(pipeline.steps) if isinstance(pipeline, Pipeline) else [("it", pipeline)]
    learning = [f"{name!r} ({type(step).__name__})" for name, step in _find_learning(steps[:-1])]
    if learning:
        raise InputError(
            f"step {listed(learning)} learns from the records, which no budget pays for: put "
            "PublicScaler(bounds=(lower, upper)) in the place of a scaler, and declare categories and bounds where "
            "others would look them up"
        )
    if not isinstance(steps[-1][1], PrivateEstimator):
        raise InputError("the last step must be a private estimator, such as PrivateLogisticRegression")
    return pipeline


def _find_learning(steps: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Find steps that learn, by name, those inside of others among them."""
    for name, step in steps:
        if step is None or isinstance(step, str | PublicScaler):
            continue
        if isinstance(step, Pipeline):
            inner = list(step.steps)
        elif isinstance(step, FeatureUnion):
            inner = list(step.transformer_list)
        elif isinstance(step, ColumnTransformer):
            inner = [(part, one) for part, one, *_ in step.transformers]
        else:
            if get_tags(step).requires_fit:
                yield name, step
            continue
        yield from ((f"{name}.{part}", one) for part, one in _find_learning(inner))
