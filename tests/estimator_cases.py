"""Every private estimator as a case of the tests that all of them pass. An estimator is one line of `CASES`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

import discreet as dc
from discreet.estimators.components_analysis import PrivatePCA
from discreet.estimators.linear_regression import PrivateLinearRegression
from discreet.estimators.logistic_regression import PrivateLogisticRegression
from discreet.estimators.naive_bayes import PrivateNaiveBayes
from discreet.estimators.poisson_regression import PrivatePoissonRegression
from discreet.estimators.principal_direction import PrivatePrincipalDirection
from discreet.mechanisms.noise import ExactNoise


@dataclass(frozen=True)
class Case:
    """An estimator under test.

    Args:
        kind: its class.
        options: public arguments, with bounds that hold the data of scikit-learn's checks: about -4 to 4.
        failing: checks that privacy forbids, each with its reason.
        chance: checks that compare two fits, which are two releases: whether these are near enough is chance.
        ample: epsilon of those checks.
    """

    kind: type[Any]
    options: dict[str, Any]
    failing: dict[str, str] = field(default_factory=dict)
    chance: tuple[str, ...] = ()
    ample: int = 2000


NOISY = "it compares two fits, which are two releases, and each has noise of its own at any epsilon"
NOISE = dict.fromkeys(
    (
        "check_fit_idempotent",
        "check_regressor_data_not_an_array",
        "check_regressors_int",
        "check_supervised_y_2d",
    ),
    NOISY,
)
TWICE = (
    "check_fit_idempotent",
    "check_pipeline_consistency",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
)
CASES = [
    Case(PrivateNaiveBayes, {"bounds": (-4, 4), "bins": 6, "draws": 40}),
    Case(
        PrivateLinearRegression,
        {"bounds": (-4, 4), "target_bounds": (-600, 600), "draws": 40, "find_bounds": None},
        NOISE,
    ),
    Case(
        PrivateLogisticRegression,
        {"bounds": (-4, 4), "records": 100, "find_bounds": None},
        {"check_fit_idempotent": NOISY},
        (
            "check_supervised_y_2d",
            "check_classifier_data_not_an_array",
        ),
        ample=400,
    ),
    Case(
        PrivatePoissonRegression,
        {"bounds": (-4, 4), "target_bounds": (0, 20), "draws": 40, "find_bounds": None},
        NOISE,
        ample=400,
    ),
    Case(
        PrivatePrincipalDirection,
        {"bounds": (-4, 4), "directions": 3, "lengths": (0.4,), "draws": 100, "likelihood": "lower"},
        chance=("check_fit_idempotent",),
        ample=400,
    ),
    Case(PrivatePCA, {"bounds": (-4, 4), "draws": 100}, chance=TWICE),
]


def promise(epsilon: str | int | Fraction = 1, relation: str = "add-remove") -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")


def charges_at_draws(paying: dc.results.Account, patch: pytest.MonkeyPatch, *others: tuple[object, str]) -> list[int]:
    """A list that gets the number of charges in the ledger at every draw of noise, and of others by module and name."""
    seen: list[int] = []

    def watched(whole: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(*arguments: Any, **options: Any) -> Any:
            seen.append(len(paying.charges()))
            return whole(*arguments, **options)

        return drawn

    draws = [(ExactNoise, name) for name, member in vars(ExactNoise).items() if inspect.isfunction(member)]
    for place, name in (*(one for one in draws if not one[1].startswith("_")), *others):
        patch.setattr(place, name, watched(getattr(place, name)))
    return seen
