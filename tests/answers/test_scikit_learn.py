"""scikit-learn's own checks of every private estimator.

They run at an epsilon so large that no noise is ever seen (its chance is below 1e-18 with 40 features): what they look
at is the estimator; what noise does to two fits has a test of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet as dc
from discreet.estimators.scaling import PublicScaler
from estimator_cases import CASES, Case, promise

FOLDER = tempfile.TemporaryDirectory()


def declaring(case: Case) -> Any:
    """An estimator that declares the classes of scikit-learn's made-up data, which are public, and has an account.

    Numbers of that data are rounded for an estimator of counts.

    Some checks ask for a score, or standardise their records first; these are public, and may be. `test_scores.py` and
    `test_one_line.py` see that by default both are refused.
    Test only. It also denies that two fits differ, which is true without noise, so that no check is left out.
    """

    def fit(self: Any, X: Any, y: Any = None) -> Any:
        kept = self.get_params(deep=False)
        self.account = account()
        if is_classifier(self):
            self.classes = ("no", "yes")
            with suppress(Exception):
                labels = np.unique(np.asarray(y))
                if all(isinstance(label, str | int | float) for label in labels.tolist()):
                    self.classes = tuple(labels.tolist())
        if self.__sklearn_tags__().target_tags.positive_only:
            with suppress(Exception):
                y = np.rint(np.asarray(y, float)) if np.all(np.isfinite(np.asarray(y, float))) else y
        try:
            return case.kind.fit(self, X, y)
        finally:
            for name, value in kept.items():
                setattr(self, name, value)

    def tags(self: Any) -> Any:
        found = case.kind.__sklearn_tags__(self)
        found.non_deterministic = False
        return found

    name = f"Declaring{case.kind.__name__}"
    members = {"fit": fit, "__sklearn_tags__": tags, "__module__": __name__, "scored_records": "public"}
    globals()[name] = type(name, (case.kind,), members)
    public = {"scored_records": "public"} if hasattr(case.kind, "score") else {}
    return globals()[name](guarantee=promise(case.ample), **public, **case.options)


def account() -> dc.results.Account:
    """An account that never runs dry, made when a check first needs it."""
    ledger = dc.Ledger(f"sqlite:///{FOLDER.name}/checks.db")
    limit = dc.Guarantee(epsilon=10**9, delta=0, relation="add-remove", unit="record")
    return ledger.account("checks") if ledger.names() else ledger.open("checks", limit)


CHECKED = [*map(declaring, CASES), PublicScaler(bounds=(-4, 4))]
CHANCE = {f"Declaring{case.kind.__name__}": case.chance for case in CASES}
FAILING = {f"Declaring{case.kind.__name__}": case.failing for case in CASES}


@pytest.mark.costly("What scikit-learn asks of an estimator is found by its own three hundred checks.")
@parametrize_with_checks(CHECKED, expected_failed_checks=lambda found: FAILING.get(type(found).__name__, {}))
@pytest.mark.usefixtures("short_walks")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    if any(name in repr(check) for name in CHANCE.get(type(estimator).__name__, ())):
        pytest.skip("two fits are two releases: whether these are as near as the check asks is a matter of chance")
    check(estimator)
