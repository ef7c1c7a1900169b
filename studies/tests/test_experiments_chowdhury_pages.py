"""The pages after Chowdhury et al. (2020) follow their numbers, and every task measures what its page says."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import discreet as dc
from discreet.queries.synthetic import sample_codes
from experiments import chowdhury
from experiments import chowdhury_allocation as allocation
from experiments import chowdhury_figure_2 as figure_2
from experiments import chowdhury_parts as parts
from experiments import chowdhury_ratios as ratio_tables
from experiments import chowdhury_table_1 as table_1
from experiments import chowdhury_table_2 as table_2
from experiments import errors as measured
from experiments.harness import Task
from experiments.networks import asia
from experiments.noise_law import METRIC
from experiments.pages import Check, Estimate, Page
from experiments.shipped import NO_PAIRS, SHIPPED
from folding import every
from tiny import network_of

ASIA = asia()
NETWORK = ASIA.network
CODES = sample_codes(ASIA, 10_000, np.random.default_rng(3))
COUNTS = dc.tools.count_codes(NETWORK, CODES)
EXAMPLE = parts.EXAMPLE


def some_theta(network: dc.Network, seed: int) -> dc.Tables:
    """Arbitrary probabilities."""
    drawn = dc.Dirichlet.uniform(network, 1.0).draw(1, rng=np.random.default_rng(seed))
    return dc.Tables(network, {node: table[..., 0] for node, table in drawn.items()})


def largest_gap(theta: dc.Tables, expected: dict[str, np.ndarray]) -> float:
    """Over all cells and runs."""
    return max(float(np.abs(table - expected[node]).max()) for node, table in theta.items())


def task_of(module: str, **setting: object) -> Task:
    """The first repeat of a setting."""
    return Task(module, setting, 1, 0)


def failed(page: Page) -> set[str]:
    """What does not hold."""
    return {check.what for check in page.checks if not check.holds}


# ------------------------------------------------------------------------------------------ Figure 2


def frame_of_figure_2(
    factors: dict[str, float], floor: float = 1e-6, split: tuple[float, float] = (1.1, 1.9), noise: float = 1.0
) -> pd.DataFrame:
    """D-Ind's errors are .1 / epsilon, a method's those of D-Ind at `factor * epsilon`; repeats differ a little.

    `split` are errors between D-Ind's and Algorithm 1's at epsilon 1, over D-Ind's. Without pairs ours is as with them.
    """
    if SHIPPED in factors:
        factors = {**factors, NO_PAIRS: factors[SHIPPED]}
    rows = []
    for network, metric, repeat in product(("asia", "sachs"), (*figure_2.QUANTITIES, "whole"), range(3)):
        size = 0.1 * (1 + 0.01 * repeat)
        place = {"network": network, "metric": metric, "repeat": repeat, "at": "all", "releases": 1, "seeds": 1}
        for form, epsilon in product(chowdhury.FORMS, figure_2.GRID):
            rows.append({**place, "method": form, "epsilon": epsilon, "value": size / epsilon})
        for name, epsilon in product(factors, chowdhury.EPSILONS):
            rows.append({**place, "method": name, "epsilon": epsilon, "value": size / epsilon / factors[name]})
        rows += [{**place, "method": "exact counts", "epsilon": e, "value": floor} for e in chowdhury.EPSILONS]
        for name, factor in zip(chowdhury.PARTS, split, strict=True):
            rows.append({**place, "method": name, "epsilon": 1.0, "value": size * factor})
    for network, repeat, name in product(("asia", "sachs"), range(3), {SHIPPED, NO_PAIRS} & set(factors)):
        place = {"network": network, "metric": METRIC, "repeat": repeat, "at": "all", "releases": 1, "seeds": 1}
        rows.append({**place, "method": name, "epsilon": 1.0, "value": noise + 0.01 * (repeat - 1)})
    return pd.DataFrame(rows)


def test_ratios_are_those_that_were_put_in() -> None:
    found = figure_2.ratios(frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0}))
    for (_, name, _, _), cell in found.items():
        assert np.exp(cell.logs) == pytest.approx(np.full(4, 0.5 if name == "Algorithm 1" else 4.0))
        assert cell.sign == ""
    near = figure_2.ratios(frame_of_figure_2({SHIPPED: 4.0}, floor=0.03))
    assert {near["asia", SHIPPED, "cpt", e].sign for e in (1.0, 3.0)} == {"fl"}, "below the exact counts"


@pytest.mark.costly("A verdict that does not follow the numbers is found with whole pages of made-up ones.")
@every(
    ("factors", "said", "wrong"),
    [
        ((0.5, 4.0), "Not reproduced: Algorithm 1 as printed needs more budget than D-Ind", 0),
        ((3.0, 4.0), "Reproduced", 3),
        ((0.5, 2.0), "Not reproduced", 1),
    ],
)
def test_page_of_figure_2_follows_the_numbers(factors: tuple[float, float], said: str, wrong: int) -> None:
    scheme, ours = factors
    page = figure_2.present(frame_of_figure_2({"Algorithm 1": scheme, SHIPPED: ours}))
    assert page.verdict.startswith(said)
    assert len(failed(page)) == wrong
    assert f"| Algorithm 1 | {scheme:.2f}" in page.tables[0][1]
    assert len(page.verdict.split()) <= 60


@pytest.mark.costly("A reason that the numbers do not give is found with whole pages of made-up ones.")
@every(
    ("split", "said"),
    [((1.1, 1.9), "mainly by equation (13)'s split (error at epsilon 1, times: equation (13)'s split 1.73, the tenth"),
     ((1.1, 1.2), "mainly by the merge (error at epsilon 1, times: the merge 1.67"),
     ((2 ** (1 / 3), 2 ** (2 / 3)), "by no step alone")],
)  # fmt: skip
def test_the_reason_follows_the_numbers(split: tuple[float, float], said: str) -> None:
    frame = frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0}, split=split)
    assert said in figure_2.present(frame).verdict


def test_methods_are_compared_where_all_have_a_ratio() -> None:
    frame = frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0})
    gone = (frame["network"] == "sachs") & (frame["method"] == SHIPPED) & (frame["epsilon"] == 3)
    found = figure_2.ratios(frame[~gone])
    both = figure_2.common(found, ["Algorithm 1", SHIPPED], "cpt")
    assert {name: len(cells) for name, cells in both.items()} == {"Algorithm 1": 3, SHIPPED: 3}
    assert len(figure_2.common(found, ["Algorithm 1"], "cpt")["Algorithm 1"]) == 4
    assert "| *networks and epsilons* | 3 |" in ratio_tables.mean_table(found, ["Algorithm 1", SHIPPED])


@pytest.mark.costly("A check that passes within its own error is found with whole pages of made-up numbers.")
def test_a_ratio_that_could_be_anything_does_not_pass() -> None:
    """The logarithm is far below that of 3 in spite of its error; on the plain scale 0 would be within the error."""
    frame = frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 0.3})
    uneven = frame["method"].isin((SHIPPED, NO_PAIRS)) & (frame["repeat"] == 0)
    frame.loc[uneven, "value"] *= 1.3
    for name, checked in ((SHIPPED, 2), (NO_PAIRS, 1)):
        assert len([what for what in failed(figure_2.present(frame)) if name in what]) == checked
    near = figure_2.present(frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0}, floor=1.0))
    claimed = [check.what for check in near.checks if "noise" not in check.what]
    assert not claimed, "nothing is claimed where errors are those of the exact counts"
    assert near.verdict.startswith("Not decided")


def test_half_the_noise_fails_figure_2() -> None:
    """The ratios are what they were: only the noise itself tells."""
    found = failed(figure_2.present(frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0}, noise=0.5)))
    what = "mean |noise| over that of epsilon's law"
    assert found == {f"{place}, {name}: {what}" for place in ("asia", "sachs") for name in (SHIPPED, NO_PAIRS)}


def test_a_ratio_that_is_hardly_known_has_no_power() -> None:
    frame = frame_of_figure_2({"Algorithm 1": 0.5, SHIPPED: 4.0})
    uneven = (frame["method"] == NO_PAIRS) & (frame["network"] == "sachs") & (frame["metric"] == "cpt")
    frame.loc[uneven, "value"] *= 1 + 0.6 * (frame["repeat"] - 1)
    weak = [check.what for check in figure_2.present(frame).checks if not check.powerful]
    assert weak and all("sachs" in what for what in weak)


@every("name", ["D-Ind", "Zhang's Laplace"])
def test_a_task_of_figure_2(name: str) -> None:
    at = "grid" if name == "D-Ind" else "all"
    rows = list(figure_2.measure(task_of("chowdhury_figure_2", network="asia", method=name, at=at, releases=2)))
    epsilons = figure_2.AT[at]
    assert len(rows) == len(epsilons) * len((*measured.METRICS, *measured.PRINTED))
    cpt = [row["value"] for row in rows if row["metric"] == "cpt"]
    assert all(0 < value < 1 for value in cpt)
    if name == "D-Ind":
        assert cpt[-1] < cpt[0] / 5


# ------------------------------------------------------------------------------------------ Table 1


def joint_of(theta: dc.Tables) -> np.ndarray:
    """The whole joint of Asia, axes in the order of the nodes, shape `(2, .., 2, draws)`."""
    axes = {name: place for place, name in enumerate(NETWORK.nodes)}
    joint = np.ones((*(2,) * 8, theta.draws or 1))
    for node, table in theta.items():
        order = [axes[name] for name in NETWORK.family(node)]
        spread = np.expand_dims(table.transpose([*np.argsort(order), len(order)]), tuple(set(range(8)) - set(order)))
        joint = joint * spread
    return joint


def test_favourites_are_those_of_enumeration() -> None:
    """40 arbitrary tables, more than are worked on at once."""
    theta = dc.Dirichlet.uniform(NETWORK, 1.0).draw(40, rng=np.random.default_rng(20))
    joint, names = joint_of(theta), list(NETWORK.nodes)
    assert joint.sum(axis=tuple(range(8))) == pytest.approx(1)
    evidence, targets = {"xray": 1, "asia": 0}, ("smoke", "either", "lung")
    part = joint
    for name in sorted(evidence, key=names.index, reverse=True):
        part = np.take(part, evidence[name], axis=names.index(name))
    kept = [name for name in names if name not in evidence]
    summed = part.sum(axis=tuple(kept.index(name) for name in kept if name not in targets))
    order = [name for name in kept if name in targets]
    found = table_1.favourites(theta, targets, evidence)
    assert len(found) == 40
    for draw, states in enumerate(found):
        best = np.unravel_index(int(summed[..., draw].argmax()), (2, 2, 2))
        assert states == dict(zip(order, map(int, best), strict=True))


def test_a_quick_run_of_table_1_can_tell_the_default_from_the_baseline() -> None:
    """With 5 repeats the standard error was .0133; four of them must stay below what would still be sane."""
    repeats = {setting["method"]: number for setting, number in table_1.plan(True)}
    assert {repeats[name] for name in table_1.COMPARED} == {table_1.REPEATS}
    error = 0.0133 * math.sqrt(5 / table_1.REPEATS)
    check = Check.above("difference", Estimate(0.04, error), 0.0, sane=-0.05)
    assert check.passes
    assert not Check.above("difference", Estimate(-0.06, error), 0.0, sane=-0.05).holds


def test_right_answers() -> None:
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.5, 0.5]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    tied = table_1.Explanation(("a",), {}, float(np.log(0.5)))
    runs = {"a": np.array([[0.9, 0.1], [0.1, 0.9]]), "b": np.repeat(truth["b"][..., None], 2, axis=-1)}
    theta = dc.Tables(network, runs, draws=2)
    assert table_1.right(truth, theta, tied).tolist() == [True, True], "either of two equally probable states"
    whole = table_1.Explanation(("a",), {"b": 1}, float(np.log(0.25)))
    assert table_1.right(truth, theta, whole).tolist() == [True, False]
    never = dc.Tables(network, {"a": runs["a"], "b": np.array([[[1, 0.5], [0, 0.5], [0, 0]]] * 2)}, draws=2)
    assert table_1.right(truth, never, whole).tolist() == [False, False], "impossible evidence, and the wrong state"


def test_queries_are_of_their_kind_and_the_truth_answers_them() -> None:
    data = chowdhury.data_of(task_of("chowdhury_table_1", network="asia"))
    for kind in table_1.KINDS:
        asked = table_1.queries(data, kind, np.random.default_rng(4))
        assert len(asked) == table_1.QUERIES
        for query in asked:
            assert not set(query.targets) & set(query.evidence)
            if kind == "MPE":
                assert set(query.targets) | set(query.evidence) == set(NETWORK.nodes)
                assert 1 <= len(query.evidence) <= 7
            else:
                assert 1 <= len(query.targets) <= 3
                assert len(query.evidence) <= 2
            assert table_1.right(ASIA, measured.single(ASIA), query).all()


def frame_of_table_1(scheme: float, ours: float) -> pd.DataFrame:
    """Accuracies at every epsilon; D-Ind has .8."""
    values = {"D-Ind": 0.8, "Algorithm 1": scheme, SHIPPED: ours, NO_PAIRS: ours}
    return pd.DataFrame(
        [
            {"network": "asia", "method": name, "metric": kind, "repeat": repeat, "epsilon": e, "value": value + shift}
            for (name, value), kind, e in product(values.items(), table_1.KINDS, chowdhury.EPSILONS)
            for repeat, shift in enumerate((-0.01, 0.0, 0.01 + 0.001 * len(name)))
        ]
    )


@every(
    ("scheme", "ours", "said", "wrong"),
    [
        (0.7, 0.98, "Not reproduced: Algorithm 1 is less often right", 0),
        (0.95, 0.98, "Reproduced;", 0),
        (0.83, 0.98, "Reproduced in sign;", 0),
        (0.7, 0.6, "Not reproduced", 6),
        (0.7, 0.84, "Not reproduced", 2),
        (0.7999, 0.98, "Not reproduced: Algorithm 1 is not clearly more often right", 0),
    ],
)
def test_page_of_table_1_follows_the_numbers(scheme: float, ours: float, said: str, wrong: int) -> None:
    page = table_1.present(frame_of_table_1(scheme, ours))
    assert page.verdict.startswith(said)
    assert len(failed(page)) == wrong
    found = table_1.gain(frame_of_table_1(scheme, ours), "Algorithm 1", "MPE")
    shifts = np.array([0, 0, 0.001 * (len("Algorithm 1") - len("D-Ind"))])
    assert found.mean == pytest.approx(scheme - 0.8 + shifts.mean())
    assert found.error == pytest.approx(shifts.std(ddof=1) / np.sqrt(3))


def test_a_task_of_table_1() -> None:
    task = task_of("chowdhury_table_1", network="asia", method="Zhang's Laplace", at="early", releases=2)
    rows = list(table_1.measure(task))
    assert [(row["metric"], row["epsilon"]) for row in rows] == list(product(table_1.KINDS, table_1.EARLY))
    assert all(0.5 < row["value"] <= 1 for row in rows)


# ------------------------------------------------------------------------------------------ Table 2


def test_printed_bounds_on_two_nodes() -> None:
    """eta = 2, kappa = 1, three states: the least error and 12 times the largest."""
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.3, 0.7]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    wrong = {"a": np.array([0.32, 0.68]), "b": np.array([[0.25, 0.45, 0.3], [0.1, 0.4, 0.5]])}
    wrong["b"][:, 2] += 0.01
    data = measured.Data.drawn(measured.Truth.of(truth, "two"), 100, np.random.default_rng(1))
    lower, upper = table_2.bounds(data, measured.single(dc.Tables(network, wrong)))
    assert lower == pytest.approx([0.01])
    assert upper == pytest.approx([2 * 2 * 3 * 0.1])


def test_one_step_of_elimination() -> None:
    """Against differences; of three factors of 1/2 it is .61, less than the .71 that is printed as a lower bound."""
    rng = np.random.default_rng(5)
    factors = [rng.random(3) for _ in range(4)]
    squares = 0.0
    for place, state in product(range(4), range(3)):
        moved = [factor.copy() for factor in factors]
        moved[place][state] += 1e-6
        squares += ((np.prod(moved, axis=0).sum() - np.prod(factors, axis=0).sum()) / 1e-6) ** 2
    assert table_2.step_deviation(factors, 0.2) == pytest.approx(0.2 * np.sqrt(squares), rel=1e-6)
    assert table_2.step_deviation([np.full(2, 0.5)] * 3, 1.0) == pytest.approx(np.sqrt(6) / 4)


@every("count", [0.0, 1.5, 20.0])
def test_moments_of_cut_noise(count: float) -> None:
    mean, variance = table_2.cut_noise(np.array([count]), 2.0)

    def moment(power: int) -> float:
        def density(noise: float) -> float:
            return (max(count + noise, 0) - count) ** power * np.exp(-abs(noise) / 2) / 4

        return sum(quad(density, low, high)[0] for low, high in ((-80, -count), (-count, 0), (0, 80)))

    assert mean == pytest.approx([moment(1)], abs=1e-6)
    assert variance == pytest.approx([moment(2) - moment(1) ** 2], abs=1e-5)


def test_the_delta_method_where_noise_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root mean square of 20,000 runs of few Laplace variates has a standard error below 1 %; 8 % are allowed."""
    monkeypatch.setattr(table_2, "RUNS", 20_000)
    network = network_of({"a": 2, "b": 3}, "a>b")
    truth = dc.Tables(network, {"a": np.array([0.3, 0.7]), "b": np.array([[0.2, 0.5, 0.3], [0.2, 0.3, 0.5]])})
    data = measured.Data.drawn(measured.Truth.of(truth, "two"), 10_000, np.random.default_rng(1))
    found, wanted = table_2.root_mean_squares(data, 10.0, np.random.default_rng(2))
    assert found == pytest.approx(wanted, rel=0.08)
    assert table_2.root_mean_squares(data, 5.0, np.random.default_rng(2))[1] == pytest.approx(2 * wanted, rel=1e-3)


def frame_of_table_2(scheme: float, delta: float = 1.0, exact: float = 1.5) -> pd.DataFrame:
    """D-Ind's mu is as printed; the delta method is off by a factor at every epsilon."""
    rows = []
    for network, repeat in product(chowdhury.NETWORKS, range(3)):
        place = {"network": network, "repeat": repeat, "epsilon": 1.0}
        mu = table_2.PUBLISHED["D-Ind"][chowdhury.NETWORKS.index(network)] * (1 + 0.01 * repeat)
        for name, factor in (
            ("D-Ind", 1.0),
            ("Algorithm 1", scheme),
            ("exact counts", exact * (1 + 0.05 * (-1) ** repeat)),
        ):
            values = {"mu": mu * factor, "l1": 0.01, "lower": 0.0, "upper": 20.0}
            rows += [{**place, "method": name, "metric": metric, "value": value} for metric, value in values.items()]
        for epsilon, (metric, factor) in product(table_2.EPSILONS, (("measured", delta), ("predicted", 1.0))):
            value = factor * (1 + 0.001 * repeat) / epsilon
            rows.append({**place, "method": "delta method", "epsilon": epsilon, "metric": metric, "value": value})
    return pd.DataFrame(rows)


@every(
    ("scheme", "delta", "said", "wrong"),
    [
        (0.5, 1.0, "Reproduced: Algorithm 1's mu is clearly below D-Ind's on 4 of 4", 0),
        (2.0, 1.0, "Not reproduced: Algorithm 1's mu is clearly below D-Ind's on 0 of 4", 0),
        (2.0, 1.05, "Not reproduced", 8),
    ],
)
def test_page_of_table_2_follows_the_numbers(scheme: float, delta: float, said: str, wrong: int) -> None:
    page = table_2.present(frame_of_table_2(scheme, delta))
    assert page.verdict.startswith(said)
    assert page.verdict.endswith("exact counts without noise have a clearly larger mu than D-Ind on 4.")
    assert table_2.present(frame_of_table_2(scheme, delta, 1.02)).verdict.endswith("larger mu than D-Ind on 0.")
    assert len(page.verdict.split()) <= 60
    assert len(failed(page)) == wrong


@every("name", ["D-Ind", "delta method"])
def test_a_task_of_table_2(name: str) -> None:
    rows = list(table_2.measure(task_of("chowdhury_table_2", network="asia", method=name)))
    values = {(row["metric"], row["epsilon"]): row["value"] for row in rows}
    if name == "D-Ind":
        assert 0 < values["mu", 1.0] < values["l1", 1.0] < 0.1
        assert values["lower", 1.0] == 0, "Asia has structural zeros"
        assert 1 < values["upper", 1.0] <= 2 * 5 * 2**2, "the largest error is below 1"
    else:
        assert values["predicted", 1.0] == pytest.approx(10 * values["predicted", 10.0], rel=0.3)


# ------------------------------------------------------------------------------------------ the allocation's page


def test_noise_of_the_first_stage() -> None:
    assert parts.relative_noise(0.1, 1) == pytest.approx(10)
    assert parts.relative_noise(0.1, 0.1) == pytest.approx(13.9, abs=0.05)
    assert parts.relative_noise(0.1, 0.01) == pytest.approx(40.9, abs=0.05)


def test_what_replacing_a_record_costs() -> None:
    """The first stage's loss by looking at all pairs of outputs: two cells, a coin with probability .1 before noise."""
    share, sampling = 0.1, 0.1
    before = np.log1p(np.expm1(share) / sampling)
    at = np.linspace(-3, 4, 141)
    without, with_it = np.exp(-before * np.abs(at)), np.exp(-before * np.abs(at - 1))
    one = (1 - sampling) * np.outer(without, without) + sampling * np.outer(with_it, without)
    loss = float(np.log(one / one.T).max())
    assert loss == pytest.approx(0.1526, abs=5e-5)
    assert parts.replacing_costs(1, share, sampling) == pytest.approx(2 * 0.9 + loss)
    assert parts.replacing_costs(1, share, sampling) == pytest.approx(1.95, abs=0.005)


def test_spreads_and_ratios() -> None:
    assert allocation.in_spreads(5.0, [1.0, 3.0]) == pytest.approx(3 / np.sqrt(2))
    found = allocation.ratio(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.error) == (pytest.approx(2), pytest.approx(0, abs=1e-12))


def frame_of_allocation(
    worse: float = 1.0, shift: float = 0.0, delta: float = 0.5, noise: float = 1.0, spread: float = 0.005
) -> pd.DataFrame:
    """The references, with a spread from sample to sample; `worse` multiplies D-Ind's errors."""
    rows: list[dict[str, object]] = []
    for repeat, jitter in enumerate((-spread, 0.0, spread)):
        for (variant, values), against in product(parts.REFERENCE.items(), allocation.AGAINST):
            for (tables, epsilon), value in zip(parts.COLUMNS, values, strict=True):
                size = value * (worse if variant == parts.UNIFORM else 1.0) + shift + jitter
                row = {"part": "variants", "tables": tables, "at": epsilon, "variant": variant, "metric": against}
                rows.append({**row, "repeat": repeat, "value": size})
        totals = {"part": "row totals", "tables": 2, "at": 1, "repeat": repeat}
        rows.append({**totals, "variant": "rare records", "metric": "records", "value": 5.0 - repeat})
        rows += [
            {**totals, "variant": name, "metric": "sample", "value": 0.2 + jitter} for name in ("cells", "parents")
        ]
        for name, value in (("own factor left out", delta), ("own factor kept", delta / 2)):
            rows.append(
                {"part": "equation 7", "variant": name, "metric": "Delta of A", "repeat": repeat, "value": value}
            )
        for name, epsilon, reading, against in product(
            allocation.SHIPPED, parts.EPSILONS, allocation.READINGS, allocation.AGAINST
        ):
            row = {"part": "shipped", "mechanism": name, "at": epsilon, "variant": reading, "metric": against}
            rows.append({**row, "repeat": repeat, "value": 0.1 + jitter})
        for sampling in (1.0, 0.1, 0.01):
            row = {"part": "stage I", "at": sampling, "variant": "coin", "metric": "noise of stage I"}
            value = noise * parts.relative_noise(0.1, sampling) * (1 + jitter / 10)
            rows.append({**row, "repeat": repeat, "value": value})
    return pd.DataFrame(rows)


def test_page_of_the_allocation_follows_the_numbers() -> None:
    page = allocation.present(frame_of_allocation())
    assert page.verdict.startswith("Not reproduced")
    assert failed(page) == set()
    better = allocation.present(frame_of_allocation(worse=2.5))
    assert better.verdict.startswith("Reproduced")
    assert "error of Algorithm 1 over D-Ind's, epsilon 1" in failed(better)
    assert allocation.present(frame_of_allocation(worse=1.3)).verdict.startswith("Not reproduced")
    far = failed(allocation.present(frame_of_allocation(shift=0.04)))
    assert len([what for what in far if "references" in what]) == 4
    wider = {what for what in failed(allocation.present(frame_of_allocation(worse=1.3))) if "ratios" in what}
    assert len(wider) == 2
    assert len([what for what in failed(allocation.present(frame_of_allocation(delta=0.51))) if "(7)" in what]) == 2
    halved = failed(allocation.present(frame_of_allocation(noise=0.5)))
    assert len([what for what in halved if "first stage, simulated" in what]) == 3 == len(halved)


def test_references_that_a_sample_may_miss_by_far_have_no_power() -> None:
    weak = [check.what for check in allocation.present(frame_of_allocation(spread=0.03)).checks if not check.powerful]
    assert len([what for what in weak if what.startswith("references")]) == 2


def test_the_first_stages_noise_is_that_of_the_formula() -> None:
    """Mean of 4,000 absolute Laplace variates: within 8 % but for chance of 1e-6."""
    for sampling in (1.0, 0.1):
        task = task_of("chowdhury_allocation", part="stage I", at=sampling)
        (row,) = allocation.measure(task)
        assert row["value"] == pytest.approx(parts.relative_noise(0.1, sampling), rel=0.08)


def test_a_task_of_the_allocation() -> None:
    rows = list(allocation.measure(task_of("chowdhury_allocation", part="variants", tables=2, at=1, runs=20)))
    assert [row["variant"] for row in rows if row["metric"] == "sample"] == list(parts.REFERENCE)
    assert all(0.05 < row["value"] < 0.5 for row in rows)
    constants = list(allocation.measure(task_of("chowdhury_allocation", part="equation 7")))
    assert [row["value"] for row in constants] == pytest.approx([0.5, 0.25])
