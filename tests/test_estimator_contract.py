"""What every private estimator keeps: one charge for each fit whatever copies it, nothing lost, no leaks."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import discreet as dc
from discreet.estimators.scaling import PublicScaler
from estimator_cases import CASES, Case, charges_at_draws, promise
from folding import every
from sources import CANARY, said

pytestmark = pytest.mark.usefixtures("short_walks")
EACH = pytest.mark.parametrize("case", CASES, ids=[case.kind.__name__ for case in CASES])


def opened(folder: Path, limit: int = 1000, relation: str = "add-remove") -> dc.results.Account:
    return dc.Ledger(f"sqlite:///{folder / 'ledger.db'}").open("records", promise(limit, relation))


def records(n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Three numeric features; y, 0 or 1, follows the first."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def made(case: Case, account: dc.results.Account | None, guarantee: dc.Guarantee | None = None, **others: Any) -> Any:
    """An estimator that can be fitted to `records`."""
    declared = {"classes": (0, 1)} if is_classifier(case.kind()) else {}
    options = {**declared, **case.options, "random_state": 3, **others}
    return case.kind(guarantee=guarantee or promise(), account=account, **options)


def outcome(estimator: Any, X: Any) -> np.ndarray:
    """What it makes of records."""
    return np.asarray(estimator.predict(X) if hasattr(estimator, "predict") else estimator.transform(X))


def payload(estimator: Any) -> Any:
    """What of its release comes from records and noise."""
    return json.loads(estimator.release_.dumps())["payload"]


@EACH
def test_no_fit_draws_a_regression(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records and much noise would take chains, and seconds to compile them: no fit, fold or estimate does."""

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a posterior was drawn")

    for module in (
        "designs.readers.weight_posterior.moment_draws",
        "designs.readers.weight_posterior.logistic_draws",
        "research.readers.direction.direction_draws",
    ):
        monkeypatch.setattr(f"discreet.{module}", refused)
    X, y = records(12)
    fitted = made(case, opened(tmp_path), promise("0.01")).fit(X, y)
    if hasattr(fitted, "predict"):
        assert outcome(fitted, X).shape == (12,)


@pytest.mark.system_noise
@EACH
def test_fits_differ_by_their_noise_which_no_seed_reaches(case: Case, tmp_path: Path) -> None:
    paying, found = opened(tmp_path), []
    for _ in range(8):
        np.random.seed(0)  # noqa: NPY002 - the generator that must not matter
        found.append(json.dumps(payload(made(case, paying, promise("0.001")).fit(*records()))))
    # At this epsilon a release is any of 30 with a probability below 1/25 each: all eight agree once in 10^9 runs.
    assert len(set(found)) > 1


@EACH
def test_the_random_state_fixes_what_follows_the_release(case: Case, tmp_path: Path) -> None:
    X, y = records()
    fitted = made(case, opened(tmp_path)).fit(X, y)
    again = copy.deepcopy(fitted)
    assert np.array_equal(outcome(fitted, X), outcome(again, X))
    if is_classifier(fitted):
        assert np.array_equal(fitted.predict_proba(X), again.predict_proba(X))


# ------------------------------------------------------------------------------------------------------- constructor


@EACH
def test_the_constructor_takes_public_names_only_and_looks_at_nothing(case: Case) -> None:
    parameters = inspect.signature(case.kind).parameters
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters.values())
    assert {"guarantee", "account", "random_state"} <= set(parameters)
    odd = {name: object() for name in parameters}
    assert case.kind(**odd).get_params(deep=False) == odd


@EACH
@pytest.mark.parametrize("missing", ["guarantee", "account"])
def test_a_promise_and_who_pays_for_it_are_required(case: Case, missing: str, tmp_path: Path) -> None:
    paying = opened(tmp_path)
    with pytest.raises(dc.InputError, match=f"fit needs {missing}="):
        made(case, paying).set_params(**{missing: None}).fit(*records())
    assert not paying.charges()


@EACH
@pytest.mark.parametrize("odd", [-1, "seed", 0.5])
def test_an_odd_random_state_costs_nothing(case: Case, odd: Any, tmp_path: Path) -> None:
    paying = opened(tmp_path)
    with pytest.raises(dc.InputError, match="random_state must be None, a whole number"):
        made(case, paying, random_state=odd).fit(*records())
    assert not paying.charges()


@EACH
@pytest.mark.parametrize("state", [None, np.random.RandomState(2), np.random.default_rng(2)])
def test_every_convention_of_a_random_state_is_taken(case: Case, state: Any, tmp_path: Path) -> None:
    assert made(case, opened(tmp_path), random_state=state).fit(*records()) is not None


# ------------------------------------------------------------------------------------------------------------ budget


@EACH
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_fit_charges_once_and_before_any_noise(
    case: Case, relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paying = opened(tmp_path, relation=relation)
    seen = charges_at_draws(paying, monkeypatch)
    fitted = made(case, paying, promise(relation=relation)).fit(*records())
    assert seen and set(seen) == {1}
    (charge,) = paying.charges()
    assert (charge.release, charge.guarantee) == (fitted.release_.id, fitted.release_.guarantee)
    assert fitted.release_.guarantee == promise(relation=relation)
    assert fitted.release_.policy.out_of_bounds == "clip"
    assert fitted.release_.records == (90 if relation == "replace" else None)
    outcome(fitted, records()[0])
    assert len(paying.charges()) == 1


COPIES: dict[str, Callable[[Any], Any]] = {
    "clone": clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),  # noqa: S301 - our own bytes
}


@EACH
@pytest.mark.parametrize("copied", COPIES)
def test_copies_spend_from_the_same_account(case: Case, copied: str, tmp_path: Path) -> None:
    paying = opened(tmp_path, limit=2)
    fitted = made(case, paying, promise("0.7")).fit(*records())
    other = COPIES[copied](fitted).fit(*records())
    assert paying.balance().epsilon_spent == Fraction(7, 5)
    assert [charge.release for charge in paying.charges()] == [fitted.release_.id, other.release_.id]
    with pytest.raises(dc.BudgetError, match=r"epsilon asked 0\.7, spent 1\.4 of 2"):
        COPIES[copied](other).fit(*records())


IN_PROCESSES = pytest.mark.costly("Copies that charge side by side show in processes of joblib only.", always=True)
JOBS = [
    pytest.param(
        case,
        jobs,
        marks=() if jobs == 1 else IN_PROCESSES if case is CASES[0] else pytest.mark.thorough,
        id=f"{name}-{jobs}",
    )
    for case in CASES
    for name in [case.kind.__name__]
    for jobs in (1, 2)
]
"""Processes that charge side by side are the ledger's, whatever is fitted: one estimator stands for all."""


@pytest.mark.parametrize(("case", "jobs"), JOBS)
def test_cross_validation_pays_for_every_fold(case: Case, jobs: int, tmp_path: Path) -> None:
    paying = opened(tmp_path)
    cross_val_score(
        made(case, paying, promise("1/3")), *records(), cv=5, n_jobs=jobs, error_score="raise", scoring=lambda *_: 1
    )
    assert paying.balance().epsilon_spent == Fraction(5, 3)
    assert len(paying.charges()) == 5


@pytest.mark.parametrize(("case", "jobs"), JOBS)
def test_five_folds_under_a_budget_for_one_are_refused(case: Case, jobs: int, tmp_path: Path) -> None:
    paying = opened(tmp_path, limit=1)
    with pytest.raises(dc.BudgetError, match="left 0"):
        cross_val_score(made(case, paying), *records(), cv=5, n_jobs=jobs, error_score="raise", scoring=lambda *_: 1)
    assert paying.balance().epsilon_spent == len(paying.charges()) == 1


@EACH
def test_a_grid_search_pays_for_every_candidate_fold_and_the_last_fit(case: Case, tmp_path: Path) -> None:
    paying = opened(tmp_path)
    grid = {"guarantee": [promise("0.1"), promise("0.2")]}
    GridSearchCV(made(case, paying), grid, cv=2, error_score="raise", scoring=lambda *_: 1).fit(*records())
    best = paying.charges()[-1].guarantee.epsilon
    assert len(paying.charges()) == 5
    assert paying.balance().epsilon_spent == Fraction(3, 5) + best


ELSEWHERE = """
import os, pickle, sys
import numpy, sklearn.pipeline
import discreet as dc, discreet.estimators as kinds
loaded = [getattr(kinds, name) for name in kinds.__all__]
whole = dc.results.Account.charge
def dying(*arguments, **options):
    whole(*arguments, **options)
    os._exit(9)
if sys.argv[1] == "die":
    dc.results.Account.charge = dying
for folder in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(folder + "/said", os.O_CREAT | os.O_WRONLY), 2)
        estimator, records = (pickle.load(open(f"{folder}/{name}", "rb")) for name in ("estimator", "records"))
        try:
            estimator.fit(*records)
        except dc.BudgetError as error:
            sys.stderr.write(f"BudgetError: {error}")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def elsewhere(how: str, estimators: dict[str, Any], folder: Path) -> dict[str, tuple[int, str]]:
    """Fit each estimator in a process of its own: its exit code, and what it said.

    They are children of one process that has loaded the package and has seen nothing else of ours.
    """
    for name, estimator in estimators.items():
        for part, value in (("estimator", estimator), ("records", records())):
            (folder / name / part).write_bytes(pickle.dumps(value))
    command = [sys.executable, "-W", "ignore", "-c", ELSEWHERE, how, *(str(folder / name) for name in estimators)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    codes = map(int, done.stdout.split())
    return {name: (code, (folder / name / "said").read_text()) for name, code in zip(estimators, codes, strict=True)}


def each_opened(folder: Path) -> dict[str, dc.results.Account]:
    """For each kind an account of its own, in a folder of the kind's name."""
    for case in CASES:
        (folder / case.kind.__name__).mkdir()
    return {case.kind.__name__: opened(folder / case.kind.__name__, limit=1) for case in CASES}


@pytest.mark.costly("Only processes that know nothing of a fit show that its charge is remembered.", always=True)
def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    paying = each_opened(tmp_path)
    fitted = {case.kind.__name__: made(case, paying[case.kind.__name__]).fit(*records()) for case in CASES}
    for name, (code, said_there) in elsewhere("live", fitted, tmp_path).items():
        assert code == 1, name
        assert "BudgetError" in said_there, name


@pytest.mark.costly("A process has to die between the charge and the draw to show what is lost.", always=True)
def test_a_death_between_charge_and_draw_loses_budget_only(tmp_path: Path) -> None:
    paying = each_opened(tmp_path)
    estimators = {case.kind.__name__: made(case, paying[case.kind.__name__]) for case in CASES}
    for name, (code, _) in elsewhere("die", estimators, tmp_path).items():
        assert code == 9, name
        assert paying[name].balance().epsilon_left == 0, name


@EACH
@pytest.mark.parametrize("copied", [name for name in COPIES if name != "copy"])  # that one shares the ledger itself
def test_copies_of_a_ledger_in_memory_refuse(case: Case, copied: str) -> None:
    paying = dc.Ledger("sqlite://").open("records", promise(1))
    estimator = made(case, paying)
    with pytest.raises(dc.InputError, match=r"no account 'records'.*do not share a ledger in memory"):
        COPIES[copied](estimator).fit(*records())
    estimator.fit(*records())
    assert paying.balance().epsilon_left == 0


def test_a_single_column_is_no_table(tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path, limit=1)
    for column in (X[:, 0], pd.Series(X[:, 0], name="a")):
        with pytest.raises(dc.InputError, match="records are rows, features are columns"):
            made(CASES[1], paying).fit(column, y)
    assert not paying.charges()


@EACH
def test_a_fit_that_is_refused_leaves_the_last_one(case: Case, tmp_path: Path) -> None:
    X, y = records()
    for limit, refused in ((1, dc.BudgetError), (2, dc.InputError)):
        (tmp_path / str(limit)).mkdir()
        estimator = made(case, opened(tmp_path / str(limit), limit)).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
        before = dict(vars(estimator))
        with pytest.raises(refused):
            estimator.fit(np.full((4, 2), np.nan), y[:4])
        assert vars(estimator) == before


# ------------------------------------------------------------------------------------------------------------- leaks


def _spoiled(value: Any, dtype: Any = object) -> Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]:
    def spoil(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
        X = X.astype(dtype)
        X[7, 1] = value
        return X, y

    return spoil


BAD: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {
    "text": _spoiled(CANARY),
    "text in the reader's words": _spoiled(
        f"The feature names should match those that were passed during fit {CANARY}"
    ),
    "text in a frame": lambda X, y: (pd.DataFrame(_spoiled(CANARY)(X, y)[0]), y),
    "text in Polars": lambda X, y: (pl.DataFrame({"a": [CANARY] * len(y), "b": X[:, 0]}), y),
    "an object": _spoiled({CANARY: 1}),
    "missing": _spoiled(None),
    "NaN": _spoiled(np.nan, float),
    "infinite": _spoiled(np.inf, float),
    "a whole number beyond floats": _spoiled(73519 * 10**400),
    "complex": _spoiled(73519 + 1j, complex),
    "one record": lambda X, y: (np.full(3, 73519.25), y),
    "three axes": lambda X, y: (np.full((len(y), 3, 1), 73519.25), y),
    "sparse": lambda X, y: (scipy.sparse.csr_matrix(X), y),
    "no record": lambda X, y: (X[:0], y[:0]),
    "no feature": lambda X, y: (X[:, :0], y),
    "lengths": lambda X, y: (X, y[:-1]),
    "no y": lambda X, y: (X, None),
    "y is text": lambda X, y: (X, [CANARY] * len(y)),
    "y is mixed": lambda X, y: (X, np.array([CANARY, *y[1:]], object)),
    "y is a list": lambda X, y: (X, [[CANARY], *y[1:]]),
    "y is missing": lambda X, y: (X, np.array([None, *y[1:]], object)),
    "y is NaN": lambda X, y: (X, np.array([np.nan, *y[1:]])),
    "y has two columns": lambda X, y: (X, np.stack([y, y], axis=1)),
}


@pytest.fixture
def paying(tmp_path: Path) -> dc.results.Account:
    """An account that shall not have to pay."""
    return opened(tmp_path)


@EACH
@every("bad", BAD)
def test_bad_input_costs_nothing_and_is_not_quoted(case: Case, bad: str, paying: dc.results.Account) -> None:
    """An estimator without a target reads no y, and some read sparse tables."""
    tags = get_tags(case.kind())
    if (bad == "sparse" and tags.input_tags.sparse) or (
        not tags.target_tags.required and bad.startswith(("y ", "no y", "lengths"))
    ):
        return
    estimator = made(case, paying)
    before = dict(vars(estimator))
    with pytest.raises(dc.InputError) as refused:
        estimator.fit(*BAD[bad](*records(97)))
    assert not paying.charges()
    assert vars(estimator) == before
    text = said(refused.value)
    assert CANARY not in text and "73519" not in text
    assert not any(number in str(refused.value) for number in ("97", "96"))
    assert refused.value.__context__ is None and refused.value.__cause__ is None


@EACH
def test_nothing_of_a_record_is_kept(case: Case, tmp_path: Path) -> None:
    X, y = records()
    secret = 1.2345678912345
    X[11] = [secret, -secret, 10 * secret]
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[CANARY] * len(y))
    fitted = made(case, opened(tmp_path), promise(10)).fit(frame, y)
    kept = [pickle.dumps(fitted), repr(fitted).encode(), repr(vars(fitted)).encode()]
    kept.append(fitted._repr_html_().encode())
    kept.append(fitted.release_.dumps().encode())
    for place in kept:
        assert CANARY.encode() not in place
        assert b"1.23456789" not in place and b"12.3456789" not in place
        for value in (secret, -secret, 10 * secret):
            assert struct.pack("<d", value) not in place and struct.pack(">d", value) not in place


# -------------------------------------------------------------------------------------------------- frames, pipelines


@EACH
def test_frames_give_their_names_and_are_held_to_them(case: Case, tmp_path: Path) -> None:
    X, y = records()
    paying, names = opened(tmp_path), ["a", "b", "c"]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        fitted = made(case, paying, promise(10)).fit(frame, y)
        assert fitted.feature_names_in_.tolist() == names
        assert fitted.n_features_in_ == 3
        assert len(outcome(fitted, frame)) == 90
        with pytest.raises(dc.InputError, match="Feature names must be in the same order as they were in fit"):
            outcome(fitted, frame[["b", "a", "c"]])
    fitted.fit(X, y)
    assert not hasattr(fitted, "feature_names_in_")


@EACH
def test_a_release_is_saved_and_makes_an_estimator_for_whoever_has_no_records(case: Case, tmp_path: Path) -> None:
    X, y = records()
    fitted = made(case, opened(tmp_path)).fit(X, y)
    fitted.release_.save(tmp_path / "r.json")
    shared = {name: value for name, value in case.options.items() if name in ("draws", "likelihood")}
    if is_classifier(fitted):
        shared["classes"] = (0, 1)
    made_of_it = case.kind.from_release(dc.Release.load(tmp_path / "r.json"), random_state=3, **shared)
    assert np.array_equal(outcome(made_of_it, X), outcome(fitted, X))
    if is_classifier(fitted):
        assert np.array_equal(made_of_it.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(dc.InputError, match="fit needs account="):
        made_of_it.fit(X, y)


@EACH
def test_a_pipeline_scales_by_public_bounds(case: Case, tmp_path: Path) -> None:
    X, y = records()
    paying = opened(tmp_path, limit=10_000)
    estimator = made(case, paying, promise(case.ample))
    if "target_bounds" in case.options:
        estimator.set_params(target_bounds=(0, 1))
    direct = clone(estimator).fit(X, y)
    scaled = clone(estimator).set_params(bounds=(-1, 1))
    pipeline = make_pipeline(PublicScaler(bounds=(-4, 4)), scaled)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert np.mean(np.isclose(outcome(pipeline.fit(X, y), X), outcome(direct, X), rtol=0.1, atol=0.1)) > 0.9
    pipeline.set_output(transform="pandas").fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert len(paying.charges()) == 3


# ------------------------------------------------------------------------------------------------------- the extra


def test_without_scikit_learn_only_the_estimators_are_gone() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
import discreet as dc
dc.Network
try:
    import discreet.estimators.naive_bayes
except dc.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "private estimators need scikit-learn: pip install '.[sklearn]' in a clone of discreet\n"


@pytest.mark.costly("What an import loads is seen in a fresh process only.")
def test_the_package_does_not_load_scikit_learn() -> None:
    code = "import sys, discreet; discreet.Network, discreet.release; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


CHOICES = [(case, name) for case in CASES for name in ("curvature", "fit_intercept", "symmetric") if name in vars(
    case.kind(bounds=(0, 1)))]  # fmt: skip


@pytest.mark.parametrize(("case", "name"), CHOICES, ids=lambda one: one if isinstance(one, str) else one.kind.__name__)
@pytest.mark.parametrize("value", ["no", None, 2, 0.5, [True]])
def test_a_choice_is_true_or_false(case: Case, name: str, value: object, tmp_path: Path) -> None:
    paying = opened(tmp_path)
    with pytest.raises(dc.InputError, match=f"{name} must be True or False"):
        made(case, paying).set_params(**{name: value}).fit(*records())
    assert paying.charges() == ()
