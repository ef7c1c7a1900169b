"""Scores of one's own for records of too many types for a table: asked alone, clamped, summed before a charge."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

import discreet as dc
from design_cases import CLASSES, NUMBER, Script, design, numeric, promise, rows_of
from discreet.designs.design import GRID_STEPS
from discreet.research.scores.score_tables import SCORE_STEPS
from folding import every

ADD_REMOVE, REPLACE = dc.Relation.ADD_REMOVE, dc.Relation.REPLACE
PLANE = design(2, intercept=False)
CLASSIFIED = design(2, CLASSES)
SLOPES = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]])
Values = Mapping[str, np.ndarray]


def near(records: Values, places: np.ndarray) -> np.ndarray:
    """Negative distance to each candidate."""
    return -sum(np.abs(records[name][:, None] - places[:, at]) for at, name in enumerate(("x0", "x1")))


def logistic(records: Values, weights: np.ndarray) -> np.ndarray:
    """Log-likelihood of a class, which the bounds of the design leave between -2.2 and -.1."""
    sign = np.where(records["class"] == "yes", 1.0, -1.0)
    scores = sum(records[f"x{at}"][:, None] * weights[:, at] for at in range(2))
    return -np.logaddexp(0, -sign[:, None] * scores)


def wild(records: Values, places: np.ndarray) -> np.ndarray:
    """Beyond every range, not a number, and failing, by record."""
    x = float(records["x0"][0])
    if x > 0.8:
        raise RuntimeError(f"a record with {x}")
    if x < -0.8:
        return np.zeros(3)
    return np.array([[math.nan, math.inf, -math.inf]]) if x < 0 else np.array([[1e300, -1e300, x]])


def raw(
    over: dc.designs.Design, function: Callable[..., Any], low: float, high: float, **more: Any
) -> dc.research.OwnFactor:
    """A factor that was not tried on made-up records."""
    return dc.research.OwnFactor(over, function, SLOPES, low, high, more.get("base", np.zeros(3)))


CASES: dict[str, tuple[dc.research.OwnFactor, list[Any]]] = {
    "places": (dc.research.own_factor(PLANE, near, SLOPES, low=-3, high=0), [(1, 0), (0, 1), (-1, -1), (0.3, 0.9)]),
    "a likelihood and a prior": (
        dc.research.own_factor(CLASSIFIED, logistic, SLOPES, low=-2, high=-0.1, base=[3.0, 0.0, -2.0]),
        [(1, 1, "yes"), (1, 1, "no"), (-1, 0.2, "yes"), (0, 0, "no")],
    ),
    "anything": (raw(PLANE, wild, -0.5, 0.5), [(1, 0), (-1, 0), (-0.5, 0), (0.5, 0), (0.1, 1)]),
}


def made(factor: dc.research.OwnFactor, guarantee: dc.Guarantee) -> tuple[Any, Any]:
    mechanism = dc.research.factored(factor)
    return mechanism, mechanism.calibrate(factor.design, dc.designs.Normal(factor.design, 1.0), guarantee)


# ------------------------------------------------------------------------------------------------------- the promise


@pytest.mark.costly("A user's score that a record moves more than was promised is found by exact laws.", always=True)
@every("epsilon", [0.1, 3])
@every("relation", [ADD_REMOVE, REPLACE])
@every("name", CASES)
def test_a_choice_by_an_own_score_is_private_and_tight(name: str, relation: dc.Relation, epsilon: float) -> None:
    factor, domain = CASES[name]
    mechanism, calibration = made(factor, promise(epsilon, relation.value))

    @cache
    def law(part: tuple[Any, ...]) -> np.ndarray:
        script = Script(total=4)
        rows = rows_of(factor.design, part)
        mechanism.draw(
            mechanism.of_records(rows, factor.design), dc.designs.Normal(factor.design, 1.0), calibration, script
        )
        logs = -np.array([float(exponent) for exponent in script.exponents])
        return np.asarray(logs - logsumexp(logs))

    worst = 0.0
    crowds = [(one,) * 40 + (other,) * many for one, other in product(domain, repeat=2) for many in (25, 40)]
    for rest in [(), *((one,) for one in domain), *crowds]:
        pairs = [(rest, (*rest, one)) for one in domain]
        if relation is REPLACE:
            pairs = [((*rest, one), (*rest, other)) for one, other in product(domain, repeat=2)]
        worst = max(worst, *(float(np.abs(law(one) - law(other)).max()) for one, other in pairs))
    worst += 0 if calibration.total_scale is None else 1 / calibration.total_scale
    assert worst <= float(calibration.total) * (1 + 1e-12) <= epsilon * (1 + 1e-12)
    assert worst >= (0.9 if name == "anything" and relation is ADD_REMOVE else 0.3) * epsilon


@every("seed", range(4))
def test_steps_are_whole_and_in_range_whatever_a_function_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    odd = [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 5e-324]
    factor = raw(PLANE, lambda r, z: rng.choice(odd, (1, 3)), -1e-300 * seed, 1e300)
    for _ in range(50):
        steps = factor.steps({"x0": np.zeros(1), "x1": np.zeros(1)})
        assert steps.dtype == np.int64 and steps.min() >= 0 and steps.max() <= SCORE_STEPS


def test_failures_count_as_the_lowest_score() -> None:
    factor = CASES["anything"][0]
    found = {x: factor.steps({"x0": np.array([x]), "x1": np.zeros(1)}).tolist() for x in (1.0, -1.0, -0.5, 0.5)}
    assert found == {1.0: [0, 0, 0], -1.0: [0, 0, 0], -0.5: [0, SCORE_STEPS, 0], 0.5: [SCORE_STEPS, 0, SCORE_STEPS]}


@every("kind", [RuntimeError, SystemExit, GeneratorExit, BaseException])
def test_a_function_cannot_end_the_program_on_a_record(kind: type[BaseException]) -> None:
    """Before the charge that would tell the record: it counts as the lowest score, as any other failure."""

    def ends(records: Values, places: np.ndarray) -> np.ndarray:
        if records["x0"][0] > 0.8:
            raise kind(str(records["x0"][0]))
        return near(records, places)

    summed = dc.research.factored(raw(PLANE, ends, -3, 0)).of_records
    assert summed is not None
    plain = dc.research.factored(CASES["places"][0]).of_records
    assert plain is not None
    one, two = summed(rows_of(PLANE, [(1, 0), (0.25, 0.5)]), PLANE), plain(rows_of(PLANE, [(0.25, 0.5)]), PLANE)
    assert (one.values, one.records) == (two.values, 2)


def test_a_function_can_be_interrupted() -> None:
    def waits(records: Values, places: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        raw(PLANE, waits, -3, 0).steps({"x0": np.zeros(1), "x1": np.zeros(1)})


def test_numpy_says_nothing_about_a_record() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        low = raw(PLANE, lambda r, z: np.log(r["x0"])[:, None] + z[:, 0], -3, 3)
        steps = low.steps({"x0": np.zeros(1), "x1": np.zeros(1)})
    assert steps.tolist() == [0, 0, 0] and heard == []


# --------------------------------------------------------------------------------------------- what a function is shown


def test_a_function_sees_one_record_at_a_time_on_copies() -> None:
    seen: list[tuple[int, ...]] = []

    def spoils(records: Values, places: np.ndarray) -> np.ndarray:
        seen.append(tuple(len(values) for values in records.values()))
        scores = near(records, places)
        for values in records.values():
            values[:] = 7
        places[:] = 7
        return scores

    over = rows_of(PLANE, [(0.25, 0.5), (0.25, 0.5), (-1, 1), (0.5, -0.5)])
    spoiled = dc.research.factored(dc.research.own_factor(PLANE, spoils, SLOPES, low=-3, high=0)).of_records
    assert spoiled is not None
    found = spoiled(over, PLANE)
    assert set(seen) == {(1, 1)}
    clean = CASES["places"][0]
    by_hand = sum(
        clean.steps({"x0": np.array([x]), "x1": np.array([y])}).astype(object)
        for x, y in [(0.25, 0.5), (0.25, 0.5), (-1, 1), (0.5, -0.5)]
    )
    assert list(found.values) == list(by_hand)


def test_values_come_in_the_units_of_their_columns_on_the_grid() -> None:
    over = dc.designs.Design((numeric("age", 20, 60),), NUMBER)
    seen: list[tuple[float, float]] = []

    def keeps(records: Values, places: np.ndarray) -> np.ndarray:
        seen.append((float(records["age"][0]), float(records["number"][0])))
        return np.zeros((1, 3))

    dc.research.factored(raw(over, keeps, 0, 1)).of_records(rows_of(over, [(33.3, 2.0), (99, -50)]), over)  # type: ignore[misc]
    assert sorted(set(seen))[1] == (60.0, -3.0)
    age, number = min(seen)
    assert abs(age - 33.3) <= 20 / GRID_STEPS / 2 + 1e-12 and abs(number - 2) <= 5 / GRID_STEPS / 2 + 1e-12


def test_a_function_that_remembers_is_refused_before_the_charge() -> None:
    counter = itertools.count()
    over = rows_of(PLANE, [(0.1, 0.2), (0.3, 0.4)])
    drifting = raw(PLANE, lambda r, z: np.full((1, 3), next(counter) * 0.01), 0, 10)
    with pytest.raises(dc.InputError, match="a second call changed the score"):
        dc.research.factored(drifting).of_records(over, PLANE)  # type: ignore[misc]


CHANCE = np.random.default_rng(1)
TRIED: dict[str, tuple[Callable[..., Any], str]] = {
    "it fails": (lambda r, z: 1 / 0, "failed on simulated records: ZeroDivisionError"),
    "another shape": (lambda r, z: np.zeros(3), "must have the shape"),
    "not a number": (lambda r, z: np.full((1, 3), math.nan), "is NaN"),
    "chance": (lambda r, z: CHANCE.random((1, 3)), "without randomness or memory"),
    "text": (lambda r, z: "high", "failed on simulated records: ValueError"),
}


@every("name", TRIED)
def test_what_is_no_score_is_refused_without_records(name: str) -> None:
    function, message = TRIED[name]
    with pytest.raises(dc.InputError, match=message):
        dc.research.own_factor(PLANE, function, SLOPES, low=0, high=1)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no range": ({"low": 1, "high": 1}, "range from low to high"),
    "a range without end": ({"high": math.inf}, "range from low to high"),
    "a range that overflows": ({"low": -1e308, "high": 1e308}, "range from low to high"),
    "one candidate": ({"candidates": [[1.0, 0.0]]}, "from 2 to"),
    "a candidate that is none": ({"candidates": [[1.0], [math.nan]]}, "finite numbers"),
    "ragged candidates": ({"candidates": [[1.0], [1.0, 2.0]]}, "rows of numbers"),
    "a weight too few": ({"base": [1.0]}, "one log weight"),
    "a weight without bound": ({"base": [1.0, 0.0, -math.inf]}, "one log weight"),
}


@every("name", WRONG)
def test_what_is_no_choice_is_refused(name: str) -> None:
    changes, message = WRONG[name]
    arguments = {"candidates": SLOPES, "low": -3.0, "high": 0.0, **changes}
    with pytest.raises(dc.InputError, match=message):
        dc.research.own_factor(PLANE, near, arguments.pop("candidates"), **arguments)


def test_sums_are_private_and_of_one_score(tmp_path: Path) -> None:
    one, other = (
        dc.research.factored(CASES["places"][0]),
        dc.research.factored(dc.research.own_factor(PLANE, near, SLOPES, low=-3, high=0)),
    )
    rows = rows_of(PLANE, [(0.123, 0.456)])
    sums = dc.tools.statistic_of(one, rows, PLANE)
    assert isinstance(sums, dc.research.ScoreSums) and "0.1" not in repr(sums) and "1 " not in repr(sums)
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(sums)
    account = dc.Ledger(f"sqlite:///{tmp_path}/l.db").open("a", promise(1))
    for mechanism, statistic, message in (
        (other, sums, "of another score"),
        (one, rows, "not from Rows"),
        (
            dc.research.factored(CASES["a likelihood and a prior"][0]),
            sums,
            "another design|of another score|own design",
        ),
    ):
        with pytest.raises(dc.InputError, match=message):
            dc.release(mechanism, statistic, dc.designs.Normal(PLANE, 1.0), promise(1), account=account)
    assert not account.charges()
    with pytest.raises(dc.InputError, match="another design than the records"):
        dc.tools.statistic_of(one, rows_of(design(2, intercept=True), [(0, 0)]), design(2, intercept=True))
    released = dc.release(one, sums, dc.designs.Normal(PLANE, 1.0), promise(1), account=account)
    assert len(account.charges()) == 1
    assert dc.tools.loads(released.dumps()).payload.index == released.payload.index


# ------------------------------------------------------------------------------------------------------------- reading

LAWS = np.array([0.2, 0.5, 0.8])
SIDES = design(1, intercept=False)
COIN = dc.research.own_factor(
    SIDES,
    lambda r, z: np.where(r["x0"][:, None] > 0, z[:, 0], 1 - z[:, 0]),
    [0.1, 0.5, 0.9],
    low=0,
    high=1,
    base=[0.5, 0.0, 0.0],
)


def toss(law: int, records: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Records of a coin."""
    return {"x0": np.where(rng.random(records) < LAWS[law], 1.0, -1.0)}


@pytest.mark.costly("Weights of laws are compared with sums over all records and numbers of them.")
@every("relation", [ADD_REMOVE, REPLACE])
def test_laws_are_weighed_as_the_sum_over_all_records_says(relation: dc.Relation) -> None:
    """Eight standard errors, as told, of each law and of all together: false alarm below 1e-9."""
    n, before = 12, np.array([0.5, 0.3, 0.2])
    rng = np.random.default_rng(5)
    mechanism = dc.research.factored(COIN)
    rows = rows_of(SIDES, [(1.0,)] * 9 + [(-1.0,)] * 3)
    statistic = dc.tools.statistic_of(mechanism, rows, SIDES)
    release = dc.simulate(mechanism, statistic, dc.designs.Normal(SIDES, 1.0), promise(4, relation.value), rng=rng)
    payload = release.payload
    numbers: dict[int, float] = {n: 1.0}
    if payload.total is not None:
        most = payload.total.value + int(40 * payload.total.scale)
        weights = {m: math.exp(-abs(payload.total.value - m) / payload.total.scale) / (1 + m) for m in range(most)}
        numbers = {m: weight / sum(weights.values()) for m, weight in weights.items()}
    found = dc.read(release, score=COIN, make_up=toss, prior=before, rng=rng, draws=3000)
    score = np.array([COIN.steps({"x0": np.array([side])}) for side in (1.0, -1.0)]) * payload.rate / SCORE_STEPS
    exact = np.zeros(3)
    for m, weight in numbers.items():
        for heads in range(m + 1):
            logs = COIN.base + heads * score[0] + (m - heads) * score[1]
            chance = math.exp(logs[payload.index] - logsumexp(logs))
            exact += weight * math.comb(m, heads) * LAWS**heads * (1 - LAWS) ** (m - heads) * chance
    exact = before * exact / (before * exact).sum()
    together = float(found.weights @ found.errors)
    assert np.all(np.abs(found.weights - exact) <= 8 * (found.errors + together) * exact)
    assert together < 0.02 and abs(found.weights.sum() - 1) < 1e-12
    assert np.abs(exact - before).max() > 0.05


def test_readers_say_how_an_own_choice_is_read() -> None:
    rng = np.random.default_rng(1)
    mechanism = dc.research.factored(COIN)
    statistic = dc.tools.statistic_of(mechanism, rows_of(SIDES, [(1.0,)]), SIDES)
    release = dc.simulate(mechanism, statistic, dc.designs.Normal(SIDES, 1.0), promise(1, "replace"), rng=rng)
    with pytest.raises(dc.InputError, match="pass `read` that score"):
        dc.read(release, draws=10, rng=rng)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"score": CASES["places"][0]}, "another design"),
        ({"prior": [1.0, -1.0]}, "at least 0"),
        ({"prior": [0.0, 0.0]}, "not all 0"),
        ({"draws": 1}, "at least 100"),
        ({"make_up": lambda law, n, rng: {"x1": np.zeros(n)}}, "a value of each design variable"),
        ({"make_up": lambda law, n, rng: {"x0": np.zeros(n + 1)}}, "a value of each design variable"),
    ]
    for changes, message in wrong:
        arguments = {"score": COIN, "make_up": toss, "prior": [1.0, 1.0, 1.0], "draws": 200, **changes}
        with pytest.raises(dc.InputError, match=message):
            dc.read(release, rng=rng, **arguments)


def test_sums_of_many_records_are_those_of_one_by_one() -> None:
    """More than a block of them, so that blocks are added up."""
    rng = np.random.default_rng(3)
    sides = rng.choice([-1.0, 1.0], 70_000)
    found = dc.tools.statistic_of(dc.research.factored(COIN), dc.designs.read_rows(SIDES, sides[:, None]), SIDES)
    heads = int((sides > 0).sum())
    each = [COIN.steps({"x0": np.array([side])}).astype(object) for side in (1.0, -1.0)]
    assert list(found.values) == list(heads * each[0] + (len(sides) - heads) * each[1])


def test_the_base_measure_is_in_the_draw() -> None:
    factor = raw(PLANE, lambda r, z: np.zeros((1, 3)), 0, 1, base=np.log([1.0, 2.0, 5.0]))
    mechanism, calibration = made(factor, promise(1, "replace"))
    script = Script()
    mechanism.draw(
        mechanism.of_records(rows_of(PLANE, [(0, 0)]), PLANE), dc.designs.Normal(PLANE, 1.0), calibration, script
    )
    weights = np.exp([-float(exponent) for exponent in script.exponents])
    assert np.allclose(weights / weights.sum(), [1 / 8, 2 / 8, 5 / 8], rtol=1e-12)
    assert min(script.exponents) == 0 and all(isinstance(exponent, Fraction) for exponent in script.exponents)


@pytest.mark.costly("The page's own lines are run as they stand, with all the records that they make up.")
def test_the_examples_of_the_page_run() -> None:
    """One after the other, as a reader would."""
    page = (Path(__file__).parent.parent / "docs" / "mechanisms.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n([^`]*)^```$", page.partition("## Over a design")[2], re.MULTILINE)
    assert len(blocks) == 3 and "own_factor" in blocks[0] and "read.posterior(score=" in blocks[2]
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    assert isinstance(names["found"], dc.research.LawWeights)
