"""Check of pipelines: no step before a private estimator may learn from the records without a charge.

An estimator cannot see the steps before it, so the check reads the whole pipeline, before any fit and without records.
`columns.py` has the check that a fit makes on the records alone.
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

    A step learns nothing if it is a `PublicScaler`, "passthrough" or "drop", or if its tags declare that it needs no
    fit (`requires_fit`), as those of `Normalizer`, `Binarizer` and `FunctionTransformer` do. You declare that the
    function of the last one treats every record by itself. The check enters pipelines, unions and column transformers.

    Args:
        pipeline: of scikit-learn, a private estimator last; or such an estimator alone.

    Returns:
        The same object, so that `check_pipeline(make_pipeline(...)).fit(X, y)` is one line.

    Raises:
        InputError: steps learn, or the last step is no private estimator. The message names the steps and the remedy.

    Guarantee:
        None spent: no record is read.

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
            f"step {listed(learning)} learns from the records, which no budget pays for: replace a scaler by "
            "PublicScaler(bounds=(lower, upper)), and declare the categories and bounds that other steps would read "
            "off the records"
        )
    if not isinstance(steps[-1][1], PrivateEstimator):
        raise InputError("the last step must be a private estimator, such as PrivateLogisticRegression")
    return pipeline


def _find_learning(steps: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Find steps that learn, also inside other steps, with their names."""
    for name, step in steps:
        if step is None or isinstance(step, str | PublicScaler):
            continue
        if isinstance(step, Pipeline):
            inner = list(step.steps)
        elif isinstance(step, FeatureUnion):
            inner = list(step.transformer_list)
        elif isinstance(step, ColumnTransformer):
            inner = [(inner_name, inner_step) for inner_name, inner_step, *_ in step.transformers]
        else:
            if get_tags(step).requires_fit:
                yield name, step
            continue
        yield from ((f"{name}.{inner_name}", inner_step) for inner_name, inner_step in _find_learning(inner))
