"""Scores: exact ones of private records are refused, released ones keep their guarantee, are charged, and are right.

Coverage is judged over fixed seeds; a bound says how often chance alone would fail it.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate, learning_curve
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler

import discreet as dc
from discreet.designs.kinds.noisy_sums import NoisyMoments
from discreet.designs.readers import score as score_module
from discreet.designs.readers.score import accuracy_network, error_design
from discreet.estimators import folds
from discreet.estimators import grid_search as scores
from discreet.mechanisms.noise import ExactNoise
from discreet.queries.credible import credible_interval
from enumeration import Scripted, laplace_log
from folding import every
from releases import noisy_release
from sources import CANARY, said

KINDS = ("PrivateNaiveBayes", "PrivateLogisticRegression", "PrivateLinearRegression")
EACH = pytest.mark.parametrize("kind", KINDS)
RELATIONS = pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)


def promise(epsilon: Any = 1, relation: str = "add-remove", delta: Any = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def opened(folder: Path, limit: Any = 1000, relation: str = "add-remove") -> dc.results.Account:
    return dc.Ledger(f"sqlite:///{folder / 'ledger.db'}").open("records", promise(limit, relation))


def records(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Two features; y, 0 or 1, follows the first: a number for regressions, a label for classifiers."""
    X = np.random.default_rng(11).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


def made(kind: str, account: dc.results.Account | None, guarantee: dc.Guarantee | None = None, **others: Any) -> Any:
    """An estimator that can be fitted to `records`."""
    own: dict[str, dict[str, Any]] = {
        "PrivateNaiveBayes": {"classes": (0, 1), "bins": 4, "draws": 40},
        "PrivateLogisticRegression": {"classes": (0, 1), "records": 200, "find_bounds": None},
        "PrivateLinearRegression": {"target_bounds": (0, 1), "draws": 40, "find_bounds": None},
    }
    options = {"bounds": (-1, 1), "random_state": 3, **own[kind], **others}
    return getattr(dc.estimators, kind)(guarantee=guarantee or promise(100), account=account, **options)


def scaled(estimator: Any) -> Pipeline:
    return make_pipeline(dc.estimators.PublicScaler(bounds=(-1, 1)), estimator)


# ------------------------------------------------------------------------------------ exact scores are refused


@EACH
def test_no_label_is_read_back_through_the_score_of_one_record(kind: str, tmp_path: Path) -> None:
    X, y = records()
    fitted = made(kind, opened(tmp_path)).fit(X, y)
    read = []
    for position in range(50):
        with suppress(dc.InputError):
            right = fitted.score(X[position : position + 1], y[position : position + 1])
            read.append(right)
    assert not read


LEAKS: dict[str, Callable[[Any, np.ndarray, np.ndarray], Any]] = {
    "score": lambda estimator, X, y: estimator.score(X, y),
    "weighted score": lambda estimator, X, y: estimator.score(X, y, sample_weight=np.ones(len(y))),
    "score of the class": lambda estimator, X, y: type(estimator).score(estimator, X, y),
    "cross_val_score": lambda estimator, X, y: cross_val_score(estimator, X, y),
    "cross_validate": lambda estimator, X, y: cross_validate(estimator, X, y, return_train_score=True),
    "learning_curve": lambda estimator, X, y: learning_curve(estimator, X, y),
    "GridSearchCV": lambda estimator, X, y: GridSearchCV(estimator, {"random_state": [1, 2]}).fit(X, y),
}


@EACH
@pytest.mark.parametrize("leak", LEAKS)
def test_exact_scores_are_refused_before_anything_is_charged(kind: str, leak: str, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    estimator = made(kind, paying).fit(X, y)
    with pytest.raises(dc.InputError, match="release_score, or scoring=private_scorer") as refused:
        LEAKS[leak](estimator, X, y)
    assert "\n" not in str(refused.value)
    assert len(paying.charges()) == 1


@EACH
@pytest.mark.parametrize("leak", ["score", "cross_val_score", "cross_validate", "learning_curve"])
def test_a_pipeline_is_refused_before_anything_is_charged(kind: str, leak: str, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    pipeline = scaled(made(kind, paying)).fit(X, y)
    with pytest.raises((AttributeError, TypeError), match="score"):
        LEAKS[leak](pipeline, X, y)
    assert len(paying.charges()) == 1


@EACH
@pytest.mark.parametrize("copied", [clone, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own bytes
def test_a_copy_keeps_what_was_declared(kind: str, copied: Callable[[Any], Any], tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    public = copied(made(kind, paying, scored_records="public")).fit(X, y)
    assert 0 < public.score(X, y) <= 1
    assert public.score(X, y, sample_weight=np.ones(len(y))) == pytest.approx(public.score(X, y))
    private = copied(made(kind, paying)).fit(X, y)
    assert private.get_params()["scored_records"] == "private"
    with pytest.raises(dc.InputError, match="score is an exact function"):
        private.score(X, y)


@EACH
def test_a_refused_score_does_not_stand_in_the_way_of_looking(kind: str, tmp_path: Path) -> None:
    """Notebooks and editors look all members up; the one that would be refused is not among them."""
    fitted = made(kind, opened(tmp_path)).fit(*records())
    assert "score" not in dict(inspect.getmembers(fitted))
    assert kind in fitted._repr_html_()
    assert "score" in dict(inspect.getmembers(fitted.set_params(scored_records="public")))


@EACH
def test_public_records_are_scored_as_scikit_learn_does(kind: str, tmp_path: Path) -> None:
    X, y = records()
    estimator = made(kind, opened(tmp_path), scored_records="public")
    assert np.isfinite(cross_val_score(estimator, X, y, error_score="raise")).all()
    assert scaled(estimator).fit(X, y).score(X, y) > 0


@EACH
def test_another_word_is_no_declaration(kind: str, tmp_path: Path) -> None:
    X, y = records()
    with pytest.raises(dc.InputError, match="are private or public"):
        made(kind, opened(tmp_path), scored_records="Public").fit(X, y).score(X, y)


def test_whoever_has_a_release_declares_too(tmp_path: Path) -> None:
    X, y = records()
    fitted = made("PrivateNaiveBayes", opened(tmp_path)).fit(X, y)
    read = dc.estimators.PrivateNaiveBayes.from_release(fitted.release_, classes=(0, 1))
    with pytest.raises(dc.InputError, match="score is an exact function"):
        read.score(X, y)
    assert read.set_params(scored_records="public").score(X, y) > 0.8


READERS = {
    "PrivateNaiveBayes": {"fit", "predict", "predict_proba", "predict_interval", "score"},
    "PrivateLogisticRegression": {
        *("fit", "predict", "predict_proba", "predict_interval", "decision_function", "score"),
    },
    "PrivateLinearRegression": {"fit", "predict", "predict_interval", "outcome_interval", "score"},
    "PrivatePrincipalDirection": {"fit", "fit_transform", "transform"},
}


@every("kind", READERS)
def test_no_other_method_reads_records(kind: str) -> None:
    """What reads X and is not refused gives the caller's own rows back, record by record, and never reads y."""
    reading = {
        name
        for name, method in inspect.getmembers(getattr(dc.estimators, kind), callable)
        if not name.startswith("_") and "X" in inspect.signature(method).parameters
    }
    assert reading == READERS[kind]
    both = {
        name for name in reading if "y" in inspect.signature(getattr(getattr(dc.estimators, kind), name)).parameters
    }
    assert both <= {"fit", "fit_transform", "score"}


# --------------------------------------------------------------------------------------------------- limits and weights


@EACH
def test_sample_weights_are_refused_in_type(kind: str, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    for fit in (made(kind, paying).fit, lambda X, y, **o: scaled(made(kind, paying)).fit(X, y, **o)):
        name = "sample_weight" if fit.__name__ == "fit" else f"{kind.lower()}__sample_weight"
        with pytest.raises(dc.InputError, match="fit takes no sample_weight") as refused:
            fit(X, y, **{name: np.full(len(y), 73519.0)})
        assert isinstance(refused.value, TypeError)
        assert "73519" not in str(refused.value)
    with pytest.raises(dc.InputError, match="fit takes X and y, and nothing else"):
        made(kind, paying).fit(X, y, weights=y)
    assert not paying.charges()


HUGE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
import numpy as np, discreet as dc
kind, width, options = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
account = dc.Ledger("sqlite://").open("records", promise)
X = np.zeros((4, width))
try:
    getattr(dc.estimators, kind)(bounds=(-1, 1), guarantee=promise, account=account, **options).fit(X, [0, 1, 0, 1])
except dc.InputError as error:
    print(len(account.charges()), error)
"""
TOO_MUCH = [
    ("PrivateLinearRegression", 100_000, {"target_bounds": (0, 1)}, "fewer columns"),
    (
        "PrivateLinearRegression",
        100_000,
        {"target_bounds": (0, 1), "method": "sampler", "residual_variance": 0.1},
        "products of pairs",
    ),
    ("PrivateLinearRegression", 2, {"target_bounds": (0, 1), "draws": 10**10}, "1 GiB"),
    ("PrivateLogisticRegression", 100_000, {"classes": (0, 1), "records": 4}, "fewer columns"),
    (
        "PrivateLogisticRegression",
        100_000,
        {"classes": (0, 1), "records": 4, "method": "gradients", "steps": 1000},
        "1,048,576 numbers",
    ),
    ("PrivateLogisticRegression", 2, {"classes": (0, 1), "records": 4, "draws": 10**10}, "1 GiB"),
    ("PrivatePrincipalDirection", 100_000, {}, "2 to 1,000 coordinates"),
    ("PrivatePrincipalDirection", 2, {"directions": 10**10}, "1,000 candidates"),
    ("PrivatePrincipalDirection", 2, {"draws": 10**10}, "1 GiB"),
    ("PrivateNaiveBayes", 2, {"classes": (0, 1), "bins": 10**10}, "bins is a whole number, at most 524,288"),
    ("PrivateNaiveBayes", 2, {"classes": (0, 1), "draws": 10**10}, "1 GiB"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "width", "options", "message"), TOO_MUCH)
def test_a_few_public_numbers_take_no_memory(kind: str, width: int, options: dict[str, Any], message: str) -> None:
    command = [sys.executable, "-c", HUGE, kind, str(width), repr(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("0 ") and message in done.stdout


@pytest.mark.parametrize(("kind", "options"), [(row[0], row[2]) for row in TOO_MUCH if row[1] == 2])
def test_too_large_a_number_is_refused_before_it_is_charged(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    X, y = records(20)
    paying = opened(tmp_path)
    with pytest.raises(dc.InputError, match="at most"):
        getattr(dc.estimators, kind)(bounds=(-1, 1), guarantee=promise(), account=paying, **options).fit(X, y)
    assert not paying.charges()


def test_designs_have_a_stated_number_of_moments(tmp_path: Path) -> None:
    features = tuple(dc.Variable(f"x{position}", bounds=(0, 1)) for position in range(1447))
    with pytest.raises(dc.InputError, match="more than the limit of 1,048,576"):
        _ = dc.designs.Design(features).moments
    paying, design = opened(tmp_path), dc.designs.Design(features)
    with pytest.raises(dc.InputError, match="more than the limit of 1,048,576"):
        dc.designs.noisy_moments().calibrate(design, dc.designs.Normal(design, 1), promise())
    with pytest.raises(dc.InputError, match="more than the limit of 1,048,576"):
        dc.designs.sum_moments(dc.designs.read_rows(design, np.zeros((2, 1447))))
    assert len(dc.designs.Design(features[:1446], intercept=False).moments) == 1446 * 1447 // 2
    assert not paying.charges()


# ------------------------------------------------------------------------------------------------------ released scores


@EACH
@RELATIONS
def test_a_released_score_is_right_charged_once_and_before_its_noise(
    kind: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = records()
    paying, seen = opened(tmp_path, relation=relation), []
    fitted = made(kind, paying, promise(100, relation)).fit(X, y)
    for name, member in vars(ExactNoise).items():
        if inspect.isfunction(member) and not name.startswith("_"):

            def watched(*arguments: Any, whole: Any = member, **options: Any) -> Any:
                seen.append(len(paying.charges()))
                return whole(*arguments, **options)

            monkeypatch.setattr(ExactNoise, name, watched)
    asked = promise("1/3", relation)
    score = dc.estimators.release_score(fitted, X, y, guarantee=asked, account=paying, random_state=1)
    assert seen and set(seen) == {2}
    assert paying.charges()[-1].guarantee == asked == score.release.guarantee
    assert paying.charges()[-1].release == score.release.id
    assert paying.balance().epsilon_spent == 100 + Fraction(1, 3)
    assert score.release.records == (200 if relation == "replace" else None)
    predicted = fitted.predict(X)
    exact = np.mean(np.abs(y - predicted)) if kind == "PrivateLinearRegression" else np.mean(y == predicted)
    # Noise of scale 3 or 6 on counts of 200, or of sums: ten times its deviation.
    assert abs(score.mean - exact) < 0.5
    sharp = dc.estimators.release_score(fitted, X, y, guarantee=promise(100, relation), account=paying, random_state=1)
    assert sharp.lower - 0.03 <= exact <= sharp.upper + 0.03
    assert abs(sharp.mean - exact) < 0.03
    assert 0 <= sharp.lower < sharp.mean < sharp.upper <= 1


@EACH
def test_whoever_has_the_file_reads_the_same_score(kind: str, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    fitted = made(kind, paying).fit(X, y)
    score = dc.estimators.release_score(fitted, X, y, guarantee=promise(2), account=paying, random_state=1)
    score.release.save(tmp_path / "score.json")
    read = dc.designs.read_score(dc.Release.load(tmp_path / "score.json"), level=0.95, rng=np.random.default_rng(1))
    assert (read.metric, read.mean, read.lower, read.upper) == (score.metric, score.mean, score.lower, score.upper)
    wide = dc.designs.read_score(score.release, level=0.5, rng=np.random.default_rng(1))
    # Where hardly an answer is wrong both reach up to 1; where chance puts no draw near it, the wider one may not.
    assert score.lower < wide.lower < wide.upper <= score.upper
    with pytest.raises(dc.InputError, match="this release is not of a score"):
        dc.designs.read_score(fitted.release_, level=0.95, rng=np.random.default_rng(1))
    with pytest.raises(dc.InputError, match="a level lies between 0 and 1"):
        dc.designs.read_score(score.release, level=1.0, rng=np.random.default_rng(1))


def test_an_error_of_one_record_says_nothing_of_others() -> None:
    """If the number of records is public, and 1 or 0, the posterior is the prior."""
    design = error_design(10.0)
    payload = NoisyMoments(design, np.array([-(4096**2), 4096**2]), scale=1000.0, noisy_total=False)
    for number in (1, 0):
        means = score_module._draw_means(payload, number, 4000, np.random.default_rng(1))
        assert abs(means.mean()) < 0.1 and means.var() == pytest.approx(0.5, rel=0.1)


def test_an_accuracy_is_the_mean_of_its_posterior() -> None:
    """Of few records behind much noise, so that the mean is not the median."""
    prior = dc.Dirichlet.uniform(accuracy_network(), 1.0)
    release = noisy_release(prior, {"prediction": np.array([2, 9])}, 3.0)
    score = dc.designs.read_score(release, level=0.9, draws=500, rng=np.random.default_rng(1))
    posterior = dc.noise_aware(release, draws=500, rng=np.random.default_rng(1), prior=prior, method="pooled")
    right = posterior.probabilities["prediction"][1]
    assert score.mean == right.mean() != np.median(right)
    assert (score.lower, score.upper) == tuple(map(float, credible_interval(right, 0.9)))


def test_a_pipeline_that_learns_nothing_is_scored(tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    pipeline = scaled(made("PrivateNaiveBayes", paying)).fit(X, y)
    assert dc.estimators.release_score(pipeline, X, y, guarantee=promise(50), account=paying).mean > 0.8


REFUSED: dict[str, Callable[[dc.results.Account, np.ndarray, np.ndarray], Any]] = {
    "another's estimator": lambda paying, X, y: DummyClassifier().fit(X, y),
    "a scaler that learns": lambda paying, X, y: make_pipeline(MinMaxScaler(), made("PrivateNaiveBayes", paying)).fit(
        X, y
    ),
    "a search": lambda paying, X, y: GridSearchCV(
        made("PrivateNaiveBayes", paying), {"bins": [3]}, cv=2, scoring=lambda *_: 1
    ).fit(X, y),
    "a direction": lambda paying, X, y: dc.estimators.PrivatePrincipalDirection(
        bounds=(-1, 1), directions=3, draws=100, guarantee=promise(), account=paying
    ).fit(X),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_only_what_predicts_from_a_release_is_scored(refused: str, tmp_path: Path) -> None:
    X, y = records(60)
    paying = opened(tmp_path)
    estimator = REFUSED[refused](paying, X, y)
    before = len(paying.charges())
    with pytest.raises(dc.InputError, match=r"a score needs a p|predicts nothing"):
        dc.estimators.release_score(estimator, X, y, guarantee=promise(), account=paying)
    with pytest.raises(dc.InputError, match=r"a score needs a p|predicts nothing"):
        dc.estimators.private_scorer(promise())(estimator, X, y)
    assert len(paying.charges()) == before


def _odd(y: np.ndarray, value: Any) -> np.ndarray:
    odd = y.astype(object)
    odd[7] = value
    return odd


BAD: dict[str, tuple[Callable[[np.ndarray, np.ndarray], tuple[Any, Any]], dict[str, Any]]] = {
    "y is text": (lambda X, y: (X, _odd(y, CANARY)), {}),
    "y is missing": (lambda X, y: (X, _odd(y, None)), {}),
    "y is NaN": (lambda X, y: (X, np.where(np.arange(len(y)) == 7, np.nan, y)), {}),
    "y is a list": (lambda X, y: (X, [[73519], *y[1:]]), {}),
    "y is shorter": (lambda X, y: (X, y[:-1]), {}),
    "no y": (lambda X, y: (X, None), {}),
    "X is text": (lambda X, y: (_odd(X, CANARY), y), {}),
    "X is NaN": (lambda X, y: (np.full_like(X, np.nan), y), {}),
    "no record": (lambda X, y: (X[:0], y[:0]), {}),
    "another column": (lambda X, y: (X[:, :1], y), {}),
    "a delta": (lambda X, y: (X, y), {"guarantee": promise(1, delta="1e-6")}),
    "no guarantee": (lambda X, y: (X, y), {"guarantee": 1}),
    "next to no epsilon": (lambda X, y: (X, y), {"guarantee": promise("1e-6")}),
    "a level": (lambda X, y: (X, y), {"level": 1.5}),
    "few draws": (lambda X, y: (X, y), {"draws": 10}),
    "many draws": (lambda X, y: (X, y), {"draws": 10**10}),
    "a state": (lambda X, y: (X, y), {"random_state": "odd"}),
}


@pytest.fixture
def paying(tmp_path: Path) -> dc.results.Account:
    return dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("records", promise(1000, delta="1e-5"))


@pytest.fixture
def fitted(kind: str, paying: dc.results.Account) -> Any:
    return made(kind, paying).fit(*records(97))


@EACH
@every("bad", BAD)
def test_bad_input_costs_nothing_and_is_not_quoted(
    kind: str, bad: str, fitted: Any, paying: dc.results.Account
) -> None:
    X, y = records(97)
    spoil, options = BAD[bad]
    with pytest.raises(dc.InputError) as refused:
        dc.estimators.release_score(fitted, *spoil(X, y), **{"guarantee": promise(), "account": paying, **options})
    text = str(refused.value)
    assert "\n" not in text and CANARY not in said(refused.value) and "73519" not in said(refused.value)
    assert not any(number in text for number in ("97", "96"))
    assert len(paying.charges()) == 1


def test_an_empty_account_pays_for_no_score(tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path, limit=1)
    fitted = made("PrivateNaiveBayes", paying, promise(1)).fit(X, y)
    with pytest.raises(dc.BudgetError):
        dc.estimators.release_score(fitted, X, y, guarantee=promise("0.1"), account=paying)
    with pytest.raises(dc.InputError, match="account"):
        dc.estimators.release_score(fitted, X, y, guarantee=promise("0.1"), account=None)
    assert len(paying.charges()) == 1


def test_numbers_far_out_are_clipped_without_a_word(tmp_path: Path) -> None:
    """Warnings are errors here: one would be a word about a record."""
    X, _ = records()
    y = np.where(np.arange(200) % 2, 1e308, -1e308)
    paying = opened(tmp_path)
    fitted = made("PrivateLinearRegression", paying).fit(X, y)
    score = dc.estimators.release_score(fitted, X, y, guarantee=promise(100), account=paying)
    assert score.upper > 0.999  # every error counts as the width of the bounds; noise was seen to take 2e-6
    assert score.lower > 0.9


# ---------------------------------------------------------------------------------------------- privacy, by enumeration


class Recorded(dc.results.Account):
    """Test only: an account that never refuses, because nothing leaves."""

    def __init__(self) -> None: ...

    @property
    def id(self) -> str:
        return "0" * 32

    def check(self, *_: Any) -> None: ...

    def charge(self, *_: Any, **__: Any) -> None: ...


def asked_of_noise(monkeypatch: pytest.MonkeyPatch, fitted: Any, data: Any, guarantee: dc.Guarantee) -> Any:
    """(values, scale) that the noise of a score was asked to hide; the score itself is thrown away."""
    source = Scripted()
    asked: list[Any] = []

    def k_norm(values: np.ndarray, scale: float, shape: str) -> np.ndarray:
        asked.append((tuple(values.tolist()), scale, shape))
        return values

    source.k_norm = k_norm  # type: ignore[attr-defined]
    monkeypatch.setattr("discreet.mechanisms.crossing.ExactNoise", lambda: source)
    X = np.array([[u, 0.0] for u, _ in data])
    monkeypatch.setattr(scores, "read_score", lambda released, **_: released)
    released = dc.estimators.release_score(fitted, X, [y for _, y in data], guarantee=guarantee, account=Recorded())
    assert released.records == (len(data) if guarantee.relation is dc.Relation.REPLACE else None)
    return asked[0] if asked else (tuple(source.values), source.scales[0], "laplace")


def neighbouring(relation: str, most: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """All pairs of tables of 1 to `most` records over six different ones."""
    kinds = list(product((-0.9, 0.1, 0.8), (0, 1)))
    for size in range(1, most + 1):
        for rest in combinations_with_replacement(kinds, size - 1):
            for one in kinds:
                if relation == "replace":
                    yield from (([*rest, one], [*rest, other]) for other in kinds if other > one)
                elif rest:
                    yield [*rest, one], [*rest]


@RELATIONS
@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_score_of_a_classifier_keeps_its_guarantee_and_no_more(
    kind: str, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record moves one count by one, or two when it is replaced; the log ratio is epsilon at the most, reached."""
    X, y = records()
    fitted = made(kind, opened(tmp_path)).fit(X, y)
    guarantee, largest = promise("1/2", relation), 0.0
    memory: dict[Any, Any] = {}

    def of(data: list[Any]) -> Any:
        key = tuple(sorted(data))
        if key not in memory:
            memory[key] = asked_of_noise(monkeypatch, fitted, data, guarantee)
        return memory[key]

    for one, other in neighbouring(relation, 3):
        (u, scale, _), (v, same, _) = of(one), of(other)
        moved = np.abs(np.subtract(u, v))
        assert scale == same
        assert moved.sum() <= (1 if relation == "add-remove" else 2) and moved.max() <= 1
        for answers in product((-30, 30), repeat=2):
            ratios = (
                laplace_log(a, scale, k) - laplace_log(b, scale, k) for a, b, k in zip(u, v, answers, strict=True)
            )
            largest = max(largest, abs(sum(ratios)))
    assert largest == pytest.approx(0.5, rel=1e-9)


@RELATIONS
def test_the_score_of_a_regression_keeps_its_guarantee(
    relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss of cube noise is the largest distance over its scale: at most epsilon, and more than half of it."""
    X, y = records()
    fitted = made("PrivateLinearRegression", opened(tmp_path)).fit(X, y)
    guarantee, largest = promise("1/2", relation), 0.0
    for one, other in neighbouring(relation, 2):
        (u, scale, shape), (v, same, _) = (
            asked_of_noise(monkeypatch, fitted, data, guarantee) for data in (one, other)
        )
        assert (scale, shape) == (same, "cube")
        largest = max(largest, np.abs(np.subtract(u, v)).max() / scale)
    assert 0.25 < largest <= 0.5


@EACH
def test_a_prediction_depends_on_its_own_record_to_the_last_bit(kind: str, tmp_path: Path) -> None:
    """Matrix products round a row differently beside other rows; one record would then move several counts."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (157, 4 if kind == "PrivateLinearRegression" else 23))
    fitted = made(kind, opened(tmp_path, limit=10**6), promise(100)).fit(X, (X[:, 0] > 0).astype(int))
    name = {"PrivateNaiveBayes": "predict_proba", "PrivateLogisticRegression": "decision_function"}.get(kind, "predict")
    whole = getattr(fitted, name)
    for rows in (X, np.asfortranarray(X), pd.DataFrame(X)):
        together = whole(rows)
        for start, end in ((0, 1), (3, 5), (10, 77), (100, 157)):
            part = rows.iloc[start:end] if isinstance(rows, pd.DataFrame) else rows[start:end]
            assert np.array_equal(whole(part), together[start:end])


# -------------------------------------------------------------------------------------------- scikit-learn's own tools


@EACH
@pytest.mark.parametrize("jobs", [1, 2])
def test_cross_validation_charges_every_fit_and_every_score(kind: str, jobs: int, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    scorer = dc.estimators.private_scorer(promise("1/7"))
    found = cross_val_score(
        made(kind, paying), X, y, scoring=scorer, cv=dc.estimators.IndependentFolds(3), n_jobs=jobs, error_score="raise"
    )
    assert paying.balance().epsilon_spent == 3 * 100 + Fraction(3, 7)
    assert len(paying.charges()) == 6
    assert np.isfinite(found).all()
    assert np.all(found <= 0) if kind == "PrivateLinearRegression" else np.all((found > 0) & (found < 1))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_charges_every_fit_score_and_the_last_fit(jobs: int, tmp_path: Path) -> None:
    """3 folds of 2 candidates, fits of 100 each: 6 fits, 6 scores, and the last fit."""
    X, y = records()
    paying = opened(tmp_path)
    scorer = pickle.loads(pickle.dumps(dc.estimators.private_scorer(promise("1/10"))))  # noqa: S301 - our own bytes
    search = GridSearchCV(
        made("PrivateNaiveBayes", paying), {"bins": [2, 40]}, scoring=scorer, cv=KFold(3), n_jobs=jobs,
        error_score="raise",
    ).fit(X, y)  # fmt: skip
    assert paying.balance().epsilon_spent == 7 * 100 + Fraction(6, 10)
    assert len(paying.charges()) == 13
    before = len(paying.charges())
    assert 0 < search.score(X, y) < 1
    assert len(paying.charges()) == before + 1


def test_a_scorer_charges_the_account_that_it_was_given(tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path)
    other = dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("scores", promise(1))
    fitted = scaled(made("PrivateNaiveBayes", paying)).fit(X, y)
    dc.estimators.private_scorer(promise("0.3"), other)(fitted, X, y)
    assert (len(paying.charges()), other.balance().epsilon_spent) == (1, Fraction(3, 10))
    dc.estimators.private_scorer(promise("0.3"))(fitted, X, y)
    assert (len(paying.charges()), other.balance().epsilon_spent) == (2, Fraction(3, 10))


def test_a_scorer_is_made_of_a_guarantee_and_an_account() -> None:
    with pytest.raises(dc.InputError, match="needs a Guarantee"):
        dc.estimators.private_scorer(1)  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="takes an account"):
        dc.estimators.private_scorer(promise(), "account")  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="draws is a whole number, at least 40"):
        dc.estimators.private_scorer(promise(), draws=39)


def test_a_grown_table_moves_no_other_record_between_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the others' coins, one record more or less changes one fold by itself alone, wherever it stands."""
    coins = os.urandom(8 * 40)
    for place in (0, 17, 39):
        without = coins[: 8 * place] + coins[8 * place + 8 :]
        split = {}
        for name, bits in (("with", coins), ("without", without)):
            monkeypatch.setattr(folds.os, "urandom", lambda n, bits=bits: bits)
            rows = np.arange(40) if name == "with" else np.delete(np.arange(40), place)
            split[name] = [set(rows[test].tolist()) for _, test in dc.estimators.IndependentFolds(4).split(rows)]
        moved = [one ^ other for one, other in zip(split["with"], split["without"], strict=True)]
        assert sorted(map(len, moved)) == [0, 0, 0, 1] and {place} in moved


def test_folds_part_the_records_and_are_drawn_anew() -> None:
    splitter = dc.estimators.IndependentFolds(3)
    drawn = [list(splitter.split(np.zeros(60))) for _ in range(2)]
    for parts in drawn:
        assert sorted(np.concatenate([test for _, test in parts]).tolist()) == list(range(60))
        assert all(not set(train) & set(test) and len(train) + len(test) == 60 for train, test in parts)
    # The same 60 coins twice: once in 10^28.
    assert any(one[1].tolist() != other[1].tolist() for one, other in zip(*drawn, strict=True))
    assert splitter.get_n_splits() == 3
    for odd in (1, 2.5, "3"):
        with pytest.raises(dc.InputError, match="folds is a whole number"):
            dc.estimators.IndependentFolds(odd)  # type: ignore[arg-type]
