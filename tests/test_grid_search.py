"""Private grid searches: charged once and first, nothing is kept but the winner, one record moves one group."""

from __future__ import annotations

import gc
import os
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import discreet as dc
from discreet.estimators import grid_search, table_input
from discreet.estimators.contract import PrivateEstimator
from discreet.estimators.grid_search import check_score, gains
from discreet.mechanisms import private_selection
from discreet.mechanisms.private_selection import FULL_GAIN, SearchPlan
from estimator_cases import charges_at_draws
from sources import CANARY, said

GRIDS: dict[str, dict[str, Any]] = {
    "PrivateNaiveBayes": {"bins": [2, 3, 4]},
    "PrivateLogisticRegression": {"method": ["objective", "gradients"], "norm": [0.5, 1.0]},
    "PrivateLinearRegression": {"fit_intercept": [True, False], "prior_deviation": [1.0, 2.0]},
}
EACH = pytest.mark.parametrize("kind", GRIDS)
RELATIONS = pytest.mark.parametrize("relation", dc.tools.RECORD_RELATIONS)


def promise(epsilon: Any = 1, relation: str = "add-remove", delta: Any = 0) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation=relation, unit="record")


def opened(limit: Any = 1000, relation: str = "add-remove") -> dc.results.Account:
    return dc.Ledger("sqlite://").open("records", promise(limit, relation))


def records(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(11).uniform(-1, 1, (n, 2))
    return X, (X[:, 0] > 0).astype(int)


def made(kind: str, account: Any, guarantee: Any = None, **others: Any) -> Any:
    own: dict[str, dict[str, Any]] = {
        "PrivateNaiveBayes": {"classes": (0, 1), "bins": 4, "draws": 40},
        "PrivateLogisticRegression": {"classes": (0, 1), "records": 200},
        "PrivateLinearRegression": {"target_bounds": (0, 1), "draws": 40, "find_bounds": None},
    }
    options = {"bounds": (-1, 1), "random_state": 3, "guarantee": guarantee or promise(100), **own[kind], **others}
    return getattr(dc.estimators, kind)(account=account, **options)


def searching(
    kind: str, account: Any, guarantee: Any = None, grid: Any = None, **others: Any
) -> dc.estimators.PrivateGridSearch:
    options = {name: others.pop(name) for name in ("tries", "holdout") if name in others}
    return dc.estimators.PrivateGridSearch(made(kind, account, guarantee, **others), grid or GRIDS[kind], **options)


# ------------------------------------------------------------------------------------------------------------- budget


@EACH
@RELATIONS
def test_a_search_charges_once_and_before_any_noise(kind: str, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paying = opened(relation=relation)
    seen = charges_at_draws(paying, monkeypatch, (private_selection, "below"), (private_selection, "choose_try"))
    X, y = records()
    search = searching(kind, paying, promise("1/3", relation)).fit(X, y)
    assert seen and set(seen) == {1}
    (charge,) = paying.charges()
    assert charge.guarantee == promise("1/3", relation) and paying.balance().epsilon_spent == Fraction(1, 3)
    for released in (search.best_estimator_.release_, search.score_.release):
        assert (released.id, released.guarantee) == (charge.release, charge.guarantee)
        assert dc.Release.loads(released.dumps()).guarantee == charge.guarantee
    assert 0.9 / 9 < search.best_estimator_.release_.calibration.total <= Fraction(1, 9)
    assert search.score_.release.calibration.total <= Fraction(1, 6)


@EACH
def test_a_search_finds_a_good_setting(kind: str) -> None:
    X, y = records(1000)
    search = searching(kind, opened()).fit(X, y)
    assert search.best_params_ == list(grid_search.ParameterGrid(GRIDS[kind]))[search.best_index_]
    assert {name: search.best_estimator_.get_params()[name] for name in search.best_params_} == search.best_params_
    predicted = search.predict(X)
    assert np.mean(np.abs(predicted - y)) < 0.3
    assert search.score_.lower < abs(search.best_score_) < search.score_.upper
    assert (search.best_score_ > 0.8) if is_classifier(search) else (-0.3 < search.best_score_ < 0)


BAD: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], str]] = {
    "a delta of gradients": (
        lambda pay: searching("PrivateLogisticRegression", pay, promise(delta="1e-6")), lambda X, y: (X, y), "delta",
    ),
    "a tiny epsilon": (
        lambda pay: searching("PrivateNaiveBayes", pay, promise("1e-4")), lambda X, y: (X, y), "at least 0.0001",
    ),
    "no records": (lambda pay: searching("PrivateNaiveBayes", pay), lambda X, y: (X[:0], y[:0]), "no record"),
    "no labels": (lambda pay: searching("PrivateNaiveBayes", pay), lambda X, y: (X, None), "requires y"),
    "text": (
        lambda pay: searching("PrivateLinearRegression", pay), lambda X, y: ([[CANARY, 1.0]], [1]), "text in a numeric",
    ),
    "another label": (
        lambda pay: searching("PrivateLogisticRegression", pay), lambda X, y: (X, [CANARY, *y[1:]]), "label",
    ),
    "infinite targets": (
        lambda pay: searching("PrivateLinearRegression", pay), lambda X, y: (X, [np.inf, *y[1:]]), "inf",
    ),
    "another number": (lambda pay: searching("PrivateNaiveBayes", pay), lambda X, y: (X, y[1:]), "different numbers"),
    "a table": (lambda pay: searching("PrivateNaiveBayes", pay), lambda X, y: ("a.csv", None), "target as a column"),
    "weights in the grid": (
        lambda pay: searching("PrivateNaiveBayes", pay, grid={"guarantee": [promise(), promise(2)]}),
        lambda X, y: (X, y), "cannot vary",
    ),
    "another argument": (
        lambda pay: searching("PrivateNaiveBayes", pay, grid={"depth": [1]}), lambda X, y: (X, y), "cannot vary",
    ),
    "one bad setting": (
        lambda pay: searching("PrivateNaiveBayes", pay, grid={"bins": [4, 1, 3]}), lambda X, y: (X, y), "bins",
    ),
    "no grid": (lambda pay: searching("PrivateNaiveBayes", pay, grid="bins"), lambda X, y: (X, y), "param_grid"),
    "no tries": (lambda pay: searching("PrivateNaiveBayes", pay, tries=0), lambda X, y: (X, y), "tries"),
    "no share": (lambda pay: searching("PrivateNaiveBayes", pay, holdout=1), lambda X, y: (X, y), "holdout"),
    "no guarantee": (
        lambda pay: searching("PrivateNaiveBayes", pay).set_params(estimator__guarantee=None),
        lambda X, y: (X, y), "needs guarantee",
    ),
    "another estimator": (
        lambda pay: dc.estimators.PrivateGridSearch(dc.estimators.PrivatePCA(bounds=(-1, 1)), {"draws": [10]}),
        lambda X, y: (X, y),
        "private classifier or regression",
    ),
    "no bounds of the target": (
        lambda pay: searching("PrivateLinearRegression", pay, target_bounds=None), lambda X, y: (X, y), "target_bounds",
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", BAD)
def test_what_is_wrong_is_refused_before_anything_is_charged(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paying, (make, change, message) = dc.Ledger("sqlite://").open("a", promise(1000, delta="1e-5")), BAD[wrong]
    monkeypatch.setattr(grid_search, "search", lambda *_: pytest.fail("a search began"))
    with pytest.raises(dc.InputError, match=message) as refused:
        make(paying).fit(*change(*records()))
    assert not paying.charges() and CANARY not in said(refused.value)


def test_options_and_poor_accounts_are_refused() -> None:
    poor = opened("0.5")
    with pytest.raises(dc.BudgetError):
        searching("PrivateNaiveBayes", poor, promise()).fit(*records())
    with pytest.raises(dc.InputError, match="sample_weight"):
        searching("PrivateNaiveBayes", poor).fit(*records(), sample_weight=records()[1])
    assert not poor.charges()


def test_a_search_takes_a_delta_and_a_pipeline_of_public_scalers() -> None:
    X, y = records()
    promised = promise(100, delta="1e-6")
    paying = dc.Ledger("sqlite://").open("records", promise(1000, delta="1e-5"))
    last = made("PrivateNaiveBayes", paying, promised)
    steps = make_pipeline(dc.estimators.PublicScaler(bounds=(-1, 1)), last)
    search = dc.estimators.PrivateGridSearch(steps, {"privatenaivebayes__bins": [2, 5]}).fit(X, y)
    (charge,) = paying.charges()
    assert charge.guarantee == promised == search.best_estimator_[-1].release_.guarantee
    assert search.best_estimator_[-1].bins == search.best_params_["privatenaivebayes__bins"]
    assert search.score_.release.id == charge.release and np.mean(search.predict(X) == y) > 0.8
    learning = make_pipeline(StandardScaler(), last)
    with pytest.raises(dc.InputError, match="nothing but PublicScaler"):
        dc.estimators.PrivateGridSearch(learning, {"privatenaivebayes__bins": [2, 5]}).fit(X, y)
    with pytest.raises(dc.InputError, match="cannot vary publicscaler__bounds"):
        dc.estimators.PrivateGridSearch(steps, {"publicscaler__bounds": [(-1, 1)]}).fit(X, y)
    assert len(paying.charges()) == 1


@pytest.mark.parametrize("kind", ["PrivateNaiveBayes", "PrivateLinearRegression"])
def test_a_search_reads_a_table_once_for_all_its_tries(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = records()
    frame, target = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), {"target": "y"}
    frame.loc[::7, "a"] = np.nan
    bounds = {"a": dc.Variable("a", bounds=(-1, 1), missing="none"), "b": (-1, 1)}
    opens: list[Any] = []
    monkeypatch.setattr(table_input, "read_records", lambda *a, **b: opens.append(a) or dc.read_records(*a, **b))
    grid = {"draws": [40, 50]}
    search = searching(kind, opened(), grid=grid, bounds=bounds).fit(pa.Table.from_pandas(frame), **target)
    assert len(opens) == 1
    assert search.best_estimator_.release_.policy.missing == "keep" == search.score_.release.policy.missing
    assert len(search.predict(frame[["a", "b"]])) == 200
    schema = dc.Schema((dc.Variable("b", bounds=(-1, 1)), dc.Variable("y", ("0", "1"))))
    several = dc.read_records(frame.assign(who=1), schema, unit_column="who", max_records=2)
    with pytest.raises(dc.InputError, match="one record of each unit"):
        searching("PrivateNaiveBayes", opened(), grid=grid, bounds=None).fit(several, **target)


# -------------------------------------------------------------------------------------------------- nothing is kept


@pytest.fixture
def older() -> Iterator[None]:
    """What is there before is not looked through, which takes most of the time of what looks at what is new."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def alive(kind: type[Any]) -> list[Any]:
    gc.collect()
    # By the type itself: `isinstance` asks a weak proxy for the class of what may be gone.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]


@EACH
@pytest.mark.usefixtures("older")
def test_nothing_but_the_winner_is_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [0, 1, 2, 0])
    search = searching(kind, opened()).fit(*records())
    new = {kind: alive(kind) for kind in (PrivateEstimator, dc.Release, dc.results.Account)}
    assert sorted(map(id, new[PrivateEstimator])) == sorted([id(search.estimator), id(search.best_estimator_)])
    assert sorted(map(id, new[dc.Release])) == sorted([id(search.best_estimator_.release_), id(search.score_.release)])
    assert new[dc.results.Account] == [search.estimator.account]
    public = {"estimator", "param_grid", "tries", "holdout"}
    found = {"best_estimator_", "best_params_", "best_index_", "score_", "best_score_"}
    assert set(vars(search)) == public | found
    before_fit = search.estimator.get_params()
    after = {**search.best_estimator_.get_params(), **{name: before_fit[name] for name in search.best_params_}}
    assert after == before_fit


@EACH
@pytest.mark.usefixtures("older")
def test_two_fits_are_there_at_most_while_a_search_runs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any number of tries: the one that is chosen so far, and the one that is made."""
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [0, 1, 2] * 4)
    fits: list[weakref.ref[Any]] = []
    there = []
    whole = grid_search._attempt

    def watched(estimator: Any, part: Any, target: Any) -> Any:
        gc.collect()
        fits.append(weakref.ref(estimator))
        there.append(sum(one() is not None for one in fits))
        return whole(estimator, part, target)

    monkeypatch.setattr(grid_search, "_attempt", watched)
    search = searching(kind, opened()).fit(*records())
    assert len(there) >= 12 and max(there) == 2 and search.best_estimator_ in [one() for one in fits]


def test_the_bounds_of_the_winner_are_of_the_one_charge() -> None:
    """Bounds that a try found are released with it, under the promise of the search."""
    paying, (X, y) = opened(), records(2000)
    grid = {"draws": [40, 50]}
    search = searching("PrivateLinearRegression", paying, grid=grid, bounds=(-20, 20), find_bounds=0.2).fit(X, y)
    (charge,) = paying.charges()
    found = search.best_estimator_
    for released in (found.release_, found.bounds_release_, search.score_.release):
        assert (released.id, released.guarantee) == (charge.release, charge.guarantee)
    (lower, upper) = found.found_bounds_["x0"]
    assert -3 < lower < -0.9 and 0.9 < upper < 3


@pytest.mark.parametrize("kind", ["PrivateNaiveBayes", "PrivateLinearRegression"])
def test_a_generator_of_the_callers_does_not_tell_how_many_were_tried(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by its state, which fits of regressions move, nor by its children, which those of naive Bayes have."""
    states = []
    for order in ([0], [0, 1, 2, 1, 0, 2]):
        rng = np.random.default_rng(4)
        monkeypatch.setattr(SearchPlan, "order", lambda self, entropy, order=order: order)
        searching(kind, opened(), random_state=rng).fit(*records())
        states.append((rng.bit_generator.state, rng.bit_generator.seed_seq.n_children_spawned))
    assert states[0] == states[1]


def failing(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[Any], bool], kind: type[BaseException] = ValueError
) -> None:
    """Fits of some settings warn, and fail after their release with the words of a record."""
    whole = dc.estimators.PrivateNaiveBayes.predict

    def predict(self: Any, X: Any) -> Any:
        warnings.warn(f"this is {CANARY}", UserWarning, stacklevel=1)
        if fails(self):
            raise kind(f"no prediction of {CANARY}")
        return whole(self, X)

    monkeypatch.setattr(dc.estimators.PrivateNaiveBayes, "predict", predict)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit, BaseException])
def test_a_try_that_fails_or_warns_is_not_told(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda self: bool(self.bins == 3), kind)
    monkeypatch.setattr(SearchPlan, "order", lambda self, entropy: [1, 0, 1])
    paying = opened()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = searching("PrivateNaiveBayes", paying, promise(1000)).fit(*records())
    assert search.best_params_ == {"bins": 2} and len(paying.charges()) == 1


def test_a_search_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda self: True, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        searching("PrivateNaiveBayes", opened()).fit(*records())


def test_a_search_whose_winner_failed_says_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lambda self: True)
    paying = opened()
    with pytest.raises(dc.DiscreetError, match="too large to read") as refused:
        searching("PrivateNaiveBayes", paying).fit(*records())
    assert CANARY not in said(refused.value) and refused.value.__context__ is None
    assert len(paying.charges()) == 1


# ----------------------------------------------------------------------------------------------------- one record


@EACH
def test_one_record_more_is_in_one_group_and_moves_no_other(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the others' coins, wherever it stands; both groups come up."""
    X, y = records(40)
    seen: list[tuple[set[int], set[int]]] = []
    rows = {x.tobytes(): place for place, x in enumerate(X)}

    def watched(estimator: Any, part: Any, target: Any) -> None:
        at = [rows[x.tobytes()] for x in np.asarray(part.X)]
        fitted = {place for place, kept in zip(at, part.mask, strict=True) if kept}
        judged = [place for place, kept in zip(at, part.mask, strict=True) if not kept]
        assert target.tolist() == y[judged].tolist()
        seen.append((fitted, set(judged)))
        return

    monkeypatch.setattr(grid_search, "_attempt", lambda *given: (0, watched(*given)))
    entropy = os.urandom
    coins = entropy(8 * 40)
    # Of the two records asked about one coin puts the first into the group that judges, the other into the first.
    coins = bytes(8) + coins[8:312] + b"\xff" * 8
    for place in (None, 0, 39):
        kept = [at for at in range(40) if at != place]
        drawn = b"".join(coins[8 * at : 8 * at + 8] for at in kept)
        with monkeypatch.context() as patch:
            patch.setattr(grid_search.os, "urandom", lambda n, drawn=drawn: drawn[:n] if n > 100 else entropy(n))
            with pytest.raises(dc.DiscreetError, match="too large to read"):
                searching(kind, opened()).fit(X[kept], y[kept])
    parts = [next(one for one in seen if len(one[0] | one[1]) == size and missing not in one[0] | one[1])
             for size, missing in ((40, None), (39, 0), (39, 39))]  # fmt: skip
    whole, first, last = parts
    assert (whole[0] - first[0], whole[1] - first[1]) == (set(), {0}) and first[0] <= whole[0]
    assert (whole[0] - last[0], whole[1] - last[1]) == ({39}, set()) and last[1] <= whole[1]


@EACH
def test_a_gain_hangs_on_its_own_record(kind: str) -> None:
    """One record more adds 0 to 1 to the gain of every fit, one replaced moves it by at most 1."""
    X, y = records(60)
    fits = [made(kind, opened(), promise(2), **{name: value}).fit(X, y)
            for name, values in GRIDS[kind].items() for value in values]  # fmt: skip
    target = y.astype(float) if is_regressor(fits[0]) else y
    reached = set()
    for fitted in fits:
        each = gains(fitted, fitted.predict(X), target)
        assert each.dtype.kind == "i" and each.min() >= 0 and each.max() <= FULL_GAIN
        for place in range(60):
            others = np.delete(np.arange(60), place)
            assert gains(fitted, fitted.predict(X[others]), target[others]).tolist() == each[others].tolist()
        reached |= set(each.tolist())
        assert gains(fitted, np.full(60, np.nan), target).max() == 0 if is_regressor(fitted) else True
    assert FULL_GAIN in reached or is_regressor(fits[0])
    if is_regressor(fits[0]):
        far = gains(fits[0], np.array([0.0, 1e308, -1e308, 0.5]), np.array([1e308, -1e308, 0.5, 0.5]))
        assert far.tolist() == [0, 0, 0, FULL_GAIN]


@EACH
@pytest.mark.parametrize("number", [1, *(pytest.param(number, marks=pytest.mark.thorough) for number in (2, 3))])
def test_a_group_without_records_is_no_refusal(kind: str, number: int) -> None:
    """Which coins fell says nothing of records, but a refusal for them would say that there are few."""
    X, y = records(number)
    for _ in range(6):
        assert len(searching(kind, opened(), promise(1), holdout=0.5, tries=2).fit(X, y).predict(X)) == number


# ------------------------------------------------------------------------------------------------------ scikit-learn


@EACH
def test_a_search_is_an_estimator_of_scikit_learns(kind: str) -> None:
    X, y = records()
    search = searching(kind, opened())
    with pytest.raises((NotFittedError, AttributeError)):
        search.predict(X)
    assert is_classifier(search) != is_regressor(search) and not hasattr(search, "cv_results_")
    assert not hasattr(search, "score") and "PrivateGridSearch" in search._repr_html_()
    copied = clone(search.set_params(tries=5, estimator__bounds=(-2, 2)))
    assert (copied.tries, copied.get_params()["estimator__bounds"], copied.estimator is search.estimator) == (
        5, (-2, 2), False,
    )  # fmt: skip
    fitted = search.fit(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y))
    assert fitted is search and fitted.n_features_in_ == 2 and list(fitted.feature_names_in_) == ["a", "b"]
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - our own bytes
    assert (
        again.predict(pd.DataFrame(X, columns=["a", "b"])).tolist()
        == fitted.predict(pd.DataFrame(X, columns=["a", "b"])).tolist()
    )
    assert again.score_.release.id == fitted.score_.release.id == again.best_estimator_.release_.id
    if is_classifier(search):
        assert fitted.classes_.tolist() == [0, 1]
        assert fitted.predict_proba(pd.DataFrame(X, columns=["a", "b"])).shape == (200, 2)
        assert hasattr(fitted, "decision_function") == (kind == "PrivateLogisticRegression")
    else:
        assert not hasattr(fitted, "predict_proba")
    assert make_pipeline(dc.estimators.PublicScaler(bounds=(-1, 1)), searching(kind, opened())).fit(X, y).predict(
        X
    ).shape == (200,)


@EACH
def test_a_search_inside_a_cross_validation_scores_what_is_public(kind: str, tmp_path: Any) -> None:
    """Looked up, `score` is refused for private records; with public ones each fold is a search, charged as such."""
    X, y = records()
    paying = dc.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").open("records", promise(1000))
    with pytest.raises(TypeError, match="score"):
        cross_val_score(searching(kind, paying), X, y)
    assert not paying.charges()
    public = searching(kind, paying, scored_records="public", grid={"draws": [40, 50]})
    assert len(cross_val_score(public, X, y, cv=2, error_score="raise")) == 2
    assert len(paying.charges()) == 2


def test_a_search_may_be_asked_for_in_one_line() -> None:
    """`epsilon=` beside an account stands for its relation and unit, and the chosen estimator says it so, too."""
    paying = opened(3, "replace")
    estimator = made("PrivateNaiveBayes", paying).set_params(guarantee=None, epsilon="0.7")
    search = dc.estimators.PrivateGridSearch(estimator, {"bins": [2, 3]}).fit(*records())
    assert paying.balance().epsilon_spent == Fraction(7, 10)
    assert search.best_estimator_.epsilon == "0.7" and search.best_estimator_.guarantee is None
    assert search.best_estimator_.release_.guarantee == promise("0.7", "replace")
    assert search.best_estimator_.fit(*records()).release_.guarantee == promise("0.7", "replace")


def test_a_score_is_checked_without_records() -> None:
    for kind in GRIDS:
        check_score(made(kind, None), promise(1))
        with pytest.raises(dc.InputError, match="at least"):
            check_score(made(kind, None), promise("1e-5"))
    with pytest.raises(dc.InputError, match="too large"):
        check_score(made("PrivateNaiveBayes", None), promise("1e12"))
