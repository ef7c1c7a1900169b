"""A start in one line: what is spent from is stated, told once and never grows; naive pipelines are refused."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler

import discreet as dc
from discreet.privacy import default_account as accounts
from discreet.privacy.default_account import DEFAULT_LIMIT, DefaultAccountWarning, default_account
from estimator_cases import CASES, Case, promise

EACH = pytest.mark.parametrize("case", CASES, ids=[case.kind.__name__ for case in CASES])
QUIET = pytest.mark.filterwarnings("ignore::discreet.privacy.default_account.DefaultAccountWarning")
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder without settings, in a process that was told nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_LEDGER", f"sqlite:///{tmp_path / 'budget.db'}")
    monkeypatch.setenv("DISCREET_CONFIG", str(tmp_path / "none.toml"))
    accounts._warn_once.cache_clear()
    yield tmp_path
    accounts._warn_once.cache_clear()


def ledger() -> dc.Ledger:
    return dc.Ledger(f"sqlite:///{Path.cwd() / 'budget.db'}")


def records() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 3))
    return X, (X[:, 0] > 0).astype(int)


def made(case: Case, **others: Any) -> Any:
    declared = {"classes": (0, 1)} if "classes" in case.kind().get_params() else {}
    return case.kind(**{"epsilon": 1, "random_state": 3} | declared | case.options | others)


# ------------------------------------------------------------------------------------------------- the default account


@EACH
def test_epsilon_alone_opens_the_default_account_and_says_so_once(case: Case, home: Path) -> None:
    with pytest.warns(DefaultAccountWarning) as told:
        fitted = made(case).fit(*records())
    (warning,) = [one for one in told if one.category is DefaultAccountWarning]
    text = str(warning.message)
    assert all(
        part in text for part in ("'default'", "budget.db", "epsilon 3, delta 0.000001", "add-remove", "account=")
    )
    assert warning.filename == __file__
    account = ledger().account("default")
    assert account.limit == DEFAULT_LIMIT and account.balance().epsilon_spent == 1
    assert fitted.release_.guarantee == promise(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(case).fit(*records())
    assert len(account.charges()) == 2


@pytest.mark.costly(
    "A limit that grows in a process that knows nothing of it shows in such a process only.",
    always=True,
)
@QUIET
def test_its_limit_never_grows(home: Path) -> None:
    """Not by the fit that opens it, nor by one that asks for more, nor in a process that knows nothing of these."""
    case = CASES[1]
    with pytest.raises(dc.BudgetError, match="epsilon asked 4, spent 0 of 3"):
        made(case, epsilon=4).fit(*records())
    for _ in range(2):
        made(case, epsilon="1.5").fit(*records())
    with pytest.raises(dc.BudgetError, match="spent 3 of 3"):
        made(case, epsilon="0.01").fit(*records())
    code = """
import numpy as np, discreet as dc
try:
    line = dc.estimators.PrivateLinearRegression(bounds=(-4, 4), target_bounds=(0, 1), epsilon=1)
    line.fit(np.ones((9, 1)), np.ones(9))
except dc.BudgetError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "spent 3 of 3" in done.stdout
    assert done.stderr.count("DefaultAccountWarning") == 1
    assert ledger().account("default").limit == DEFAULT_LIMIT
    assert ledger().names() == ("default",)


@QUIET
def test_whoever_opens_it_first_sets_its_limit(home: Path) -> None:
    account = ledger().open("default", promise(1))
    made(CASES[1], epsilon="0.75").fit(*records())
    with pytest.raises(dc.BudgetError, match=r"spent 0\.75 of 1"):
        made(CASES[1], epsilon="0.75").fit(*records())
    assert len(account.charges()) == 1


def test_an_account_for_another_relation_is_not_taken(home: Path) -> None:
    account = ledger().open("default", promise(1, "replace"))
    with pytest.raises(dc.InputError, match="was opened for another relation or unit than add-remove of a record"):
        made(CASES[1]).fit(*records())
    assert not account.charges()
    # Named, it pays, and epsilon is meant for its own relation.
    assert made(CASES[1], account=account).fit(*records()).release_.guarantee == promise(1, "replace")


def test_a_ledger_that_forgets_is_no_default(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("sqlite://", "sqlite:///:memory:"):
        monkeypatch.setenv("DISCREET_LEDGER", url)
        with pytest.raises(dc.InputError):
            made(CASES[1]).fit(*records())
    with pytest.raises(dc.InputError, match=r"DISCREET_LEDGER to a file, such as sqlite:////home/ada/budget\.db"):
        monkeypatch.setenv("DISCREET_LEDGER", "sqlite://")
        made(CASES[1]).fit(*records())


@QUIET
def test_the_default_ledger_is_that_of_the_commands(
    home: Path, state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCREET_LEDGER")
    made(CASES[1]).fit(*records())
    assert dc.Ledger(f"sqlite:///{state_folder}/discreet/ledger.db").names() == ("default",)
    assert not list(home.iterdir())
    (home / "settings.toml").write_text(f'ledger = "sqlite:///{home / "team.db"}"\n')
    monkeypatch.setenv("DISCREET_CONFIG", str(home / "settings.toml"))
    made(CASES[1]).fit(*records())
    assert dc.Ledger(f"sqlite:///{home / 'team.db'}").account("default").balance().epsilon_spent == 1


@pytest.mark.filterwarnings("ignore")
def test_its_limit_is_one_for_all_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever silences the warning has no more of it; and a ledger that would be another in each folder is none."""
    monkeypatch.delenv("DISCREET_LEDGER")
    spent = 0
    for name in ("one", "two", "three"):
        (home / name).mkdir()
        monkeypatch.chdir(home / name)
        for _ in range(2):
            try:
                made(CASES[1]).fit(*records())
            except dc.BudgetError:
                continue
            spent += 1
    assert spent == 3
    monkeypatch.setenv("DISCREET_LEDGER", "sqlite:///budget.db")
    with pytest.raises(dc.InputError, match="another one in every folder: write an absolute path"):
        made(CASES[1]).fit(*records())


@QUIET
def test_two_that_open_it_at_once_share_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dc.Ledger.open

    def slower(self: dc.Ledger, name: str, limit: dc.Guarantee) -> dc.results.Account:
        whole(self, name, promise(2))  # the other process
        return whole(self, name, limit)

    monkeypatch.setattr(dc.Ledger, "open", slower)
    assert default_account().limit == promise(2)


@QUIET
@pytest.mark.parametrize(
    "copied",
    [clone, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],  # noqa: S301 - our own bytes
    ids=["clone", "deepcopy", "pickle"],
)
def test_copies_spend_from_it(copied: Callable[[Any], Any], home: Path) -> None:
    fitted = made(CASES[1]).fit(*records())
    copied(fitted).fit(*records())
    assert default_account().balance().epsilon_spent == 2


@QUIET
def test_scores_of_it_are_paid_by_it_too(home: Path) -> None:
    X, y = records()
    fitted = made(CASES[0]).fit(X, y)
    dc.estimators.private_scorer(promise("0.5"))(fitted, X, y)
    assert default_account().balance().epsilon_spent == Fraction(3, 2)
    nobody = dc.estimators.PrivateNaiveBayes.from_release(fitted.release_, classes=(0, 1), draws=40)
    with pytest.raises(dc.InputError, match="no account pays: pass account="):
        dc.estimators.private_scorer(promise("0.5"))(nobody, X, y)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"epsilon": None}, r"fit needs guarantee=.* or pass epsilon=1 alone"),
    "no account": ({"epsilon": None, "guarantee": promise()}, r"fit needs account=Ledger\('sqlite:///budget.db'\)"),
    "a guarantee, too": ({"guarantee": promise()}, "and not both"),
    "delta of a guarantee": (
        {"epsilon": None, "guarantee": promise(), "delta": "1e-9"},
        "fit takes delta= only with epsilon=",
    ),
    "no number": ({"epsilon": "one"}, "epsilon"),
    "no epsilon": ({"epsilon": 0}, "epsilon"),
    "no delta": ({"delta": 1}, "delta"),
    "no bounds": ({"bounds": None}, r"bounds=\{'age': \(0, 120\), 'sex': \('f', 'm'\)\}"),
    "something for an account": ({"account": "default"}, "fit needs account="),
}


@EACH
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_missing_is_named_and_opens_nothing(case: Case, name: str, home: Path) -> None:
    options, message = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DefaultAccountWarning)  # where bounds are missing the account is open already
        with pytest.raises(dc.InputError, match=message):
            made(case, **options).fit(*records())
    assert all(not ledger().account(one).charges() for one in ledger().names())


def test_a_delta_is_spent_where_a_mechanism_takes_one(home: Path) -> None:
    limit = dc.Guarantee(epsilon=2, delta="1e-6", relation="replace", unit="patient")
    account = ledger().open("patients", limit)
    fitted = made(CASES[0], account=account, delta="1e-7", mechanism="gaussian", one_record_a_unit=True).fit(*records())
    spent = fitted.release_.guarantee
    assert (spent.epsilon, spent.relation, spent.unit) == (1, dc.Relation.REPLACE, "patient")
    assert spent.delta == Fraction(1, 10**7)


# ---------------------------------------------------------------------------------------------------- naive pipelines


@EACH
def test_a_standard_scaler_is_refused_and_costs_nothing(case: Case, home: Path) -> None:
    X, y = records()
    account = ledger().open("records", promise(10))
    estimator = made(case, account=account)
    for given in (X, pd.DataFrame(X, columns=["a", "b", "c"]), np.column_stack([X[:, :2], np.ones(90)])):
        with pytest.raises(
            dc.InputError, match=r"StandardScaler has .* replace it by PublicScaler\(bounds=\.\.\.\)"
        ) as refused:
            make_pipeline(StandardScaler(), estimator).fit(given, y)
        assert "90" not in str(refused.value)
    assert not account.charges()
    make_pipeline(StandardScaler(with_mean=False), estimator)  # not by an estimator: `check_pipeline` sees it
    estimator.fit(X, y)  # drawn from a standard normal law, and no more


def test_what_only_looks_standardised_is_fitted(home: Path) -> None:
    """Halves of a trial, coded -1 and 1; and records that are declared public, of which a scaler may learn."""
    X, y = records()
    account = ledger().open("records", promise(10))
    halves = np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]] * 20)
    made(CASES[1], account=account).fit(halves, halves[:, 0])
    public = made(CASES[1], account=account, scored_records="public")
    make_pipeline(StandardScaler(), public).fit(X, y)
    assert len(account.charges()) == 2


def estimator() -> Any:
    return dc.estimators.PrivateLinearRegression(bounds=(-1, 1), target_bounds=(0, 1), epsilon=1)


LEARNING: dict[str, tuple[Any, str]] = {
    "StandardScaler": (
        make_pipeline(StandardScaler(), estimator()),
        r"step 'standardscaler' \(StandardScaler\) learns",
    ),
    "MinMaxScaler": (make_pipeline(MinMaxScaler(), estimator()), "MinMaxScaler"),
    "behind a public one": (
        make_pipeline(dc.estimators.PublicScaler(bounds=(0, 1)), StandardScaler(), estimator()),
        "Standard",
    ),
    "in a pipeline": (
        make_pipeline(make_pipeline(Normalizer(), MinMaxScaler()), estimator()),
        r"pipeline\.minmaxscaler",
    ),
    "in a union": (make_pipeline(FeatureUnion([("s", StandardScaler())]), estimator()), r"featureunion\.s"),
    "of some columns": (
        make_pipeline(ColumnTransformer([("codes", OneHotEncoder(), [0]), ("rest", "passthrough", [1])]), estimator()),
        r"columntransformer\.codes' \(OneHotEncoder\)",
    ),
}


@pytest.mark.parametrize("name", LEARNING)
def test_steps_that_learn_are_named(name: str) -> None:
    pipeline, message = LEARNING[name]
    with pytest.raises(dc.InputError, match=message):
        dc.estimators.check_pipeline(pipeline)


@pytest.mark.parametrize(
    "pipeline",
    [
        estimator(),
        make_pipeline(dc.estimators.PublicScaler(bounds=(0, 1)), estimator()),
        make_pipeline(Normalizer(), FunctionTransformer(np.log1p), None, "passthrough", estimator()),
        make_pipeline(
            ColumnTransformer([("all", dc.estimators.PublicScaler(bounds=(0, 1)), [0]), ("no", "drop", [1])]),
            estimator(),
        ),
    ],
)
def test_what_learns_nothing_passes(pipeline: Any) -> None:
    assert dc.estimators.check_pipeline(pipeline) is pipeline


def test_a_pipeline_ends_in_a_private_estimator() -> None:
    for other in (make_pipeline(Normalizer()), MinMaxScaler()):
        with pytest.raises(dc.InputError, match="the last step must be a private estimator"):
            dc.estimators.check_pipeline(other)
