"""`discreet.research.readers.direction`: draws against a grid, Figure 4, noisy numbers of records, and the sign.

Monte Carlo tolerances are six standard errors at the effective size that the chains report, halved for safety, or
wider: each comparison fails by chance with probability below 1e-8, and seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import discreet as dc
from discreet.research.readers import direction
from discreet.research.readers.direction import (
    ChoiceLikelihood,
    Chosen,
    DirectionDraws,
    angles,
    direction_draws,
    direction_log_likelihood,
    mean_axis,
)
from discreet.research.scores.choice_likelihood import clt_log_marginal, lower_log_marginal, upper_log_marginal
from discreet.research.scores.factors import DirectionFactor, spread_candidates
from folding import every

Floats = npt.NDArray[np.float64]

SMALL = DirectionFactor(spread_candidates(2, 6, [2.0, 4.0]), noise_variance=1.0, tau=4.0)
PAPER = DirectionFactor(spread_candidates(2, 12, [2.0, 4.0, 6.0]), noise_variance=1.0, tau=4.0)
"""12 directions of three lengths."""
TRUTH = np.array([4.0, 2.0])
DEVIATION = 3.0


def on_a_grid(
    index: int, n: Floats, weights: Floats, epsilon: float, method: ChoiceLikelihood, width: float = 0.5
) -> tuple[Floats, Floats]:
    """Cells of the upper half plane and their posterior probabilities; the likelihood is averaged over n."""
    side = np.arange(-15 + width / 2, 15, width)
    x, y = (axis.ravel() for axis in np.meshgrid(side, side[side > 0]))
    cells = np.stack([x, y], axis=1)
    function = direction_log_likelihood(Chosen(SMALL, index, epsilon), method=method, points=512)
    likelihood = np.zeros(len(cells))
    for block in np.array_split(np.arange(len(cells)), 100):
        for number, weight in zip(n, weights, strict=True):
            likelihood[block] += weight * np.exp(function(cells[block], np.full(len(block), number)))
    mass = likelihood * np.exp(-0.5 * np.sum((cells / DEVIATION) ** 2, axis=1))
    return cells, mass / mass.sum()


def agrees(draws: DirectionDraws, cells: Floats, mass: Floats) -> None:
    """Means of functions without a sign: entries of theta theta', the length, and the mass near three axes."""
    for function in (
        lambda theta: theta[:, 0] ** 2,
        lambda theta: theta[:, 0] * theta[:, 1],
        lambda theta: theta[:, 1] ** 2,
        lambda theta: np.linalg.norm(theta, axis=1),
        lambda theta: np.exp(-0.5 * (angles(theta, [1.0, 0.0]) / 0.3) ** 2),
        lambda theta: np.exp(-0.5 * (angles(theta, [1.0, 1.0]) / 0.3) ** 2),
        lambda theta: np.exp(-0.5 * (angles(theta, [-1.0, 2.0]) / 0.3) ** 2),
    ):
        values = function(cells)
        mean = float(mass @ values)
        error = math.sqrt(float(mass @ (values - mean) ** 2) / (draws.mixing.effective / 2))
        assert function(draws.weights).mean() == pytest.approx(mean, abs=6 * error + 0.01 * abs(mean))


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    ("method", "index", "epsilon", "points"),
    [
        ("lower", 7, 0.02, 1),
        ("clt", 7, 0.3, 16),
        pytest.param("upper", 2, 0.02, 8, marks=pytest.mark.thorough),
        pytest.param("lower", 0, 0.3, 16, marks=pytest.mark.thorough),
    ],
)
def test_draws_are_those_of_a_grid(
    method: ChoiceLikelihood, index: int, epsilon: float, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With a single point, at 0, walks know nothing of the choice: what they propose are draws of the prior.
    monkeypatch.setattr(direction, "COARSE_POINTS", points)
    draws = direction_draws(
        Chosen(SMALL, index, epsilon),
        300,
        method=method,
        draws=800,
        rng=np.random.default_rng(3),
        prior_deviation=DEVIATION,
    )
    assert draws.mixing.r_hat < 1.05
    assert draws.mixing.effective > 100
    assert 0.1 < draws.acceptance < 0.99
    assert set(draws.records) == {300}
    agrees(draws, *on_a_grid(index, np.array([300.0]), np.ones(1), epsilon, method))


@pytest.mark.costly("The law over numbers of records is compared with a grid over both, as no quicker test does.")
@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(("records", "scale"), [pytest.param(60, 40.0, marks=pytest.mark.thorough), (-15, 30.0)])
def test_a_noisy_number_of_records_is_averaged_over(records: int, scale: float) -> None:
    epsilon, index = 0.5, 7
    most = max(records, 0) + 8 * scale  # all but a three-thousandth of their law
    n = np.arange(0.0, 16 * math.ceil(most / 16)).reshape(-1, 16)
    # Before, log(1 + n) is flat: a number has the logarithm of (n + 2) / (n + 1) of it.
    weights = np.exp(-np.abs(n - records) / scale) * np.log1p(1 / (n + 1))
    # The likelihood is nearly straight over sixteen numbers: it is taken in the middle of their law.
    blocks = weights.sum(axis=1)
    middle = (weights * n).sum(axis=1) / blocks
    draws = direction_draws(
        Chosen(SMALL, index, epsilon),
        records,
        method="lower",
        draws=800,
        rng=np.random.default_rng(4),
        prior_deviation=DEVIATION,
        count_scale=scale,
    )
    assert draws.records.min() >= 0
    assert np.array_equal(draws.records, draws.records.round())
    cells, mass = on_a_grid(index, middle, blocks / blocks.sum(), epsilon, "lower", width=0.75)
    agrees(draws, cells, mass)
    # The choice tells a little of the number itself.
    function = direction_log_likelihood(Chosen(SMALL, index, epsilon), method="lower", points=512)
    sample = cells[:: max(1, len(cells) // 200)]
    prior = np.exp(-0.5 * np.sum((sample / DEVIATION) ** 2, axis=1))
    evidence = [prior @ np.exp(function(sample, np.full(len(sample), number))) for number in middle]
    law = blocks * evidence / (blocks @ evidence)
    mean = law @ middle
    deviation = math.sqrt(law @ (middle - mean) ** 2)
    effective = min(draws.mixing.effective, 800) / 2
    assert draws.records.mean() == pytest.approx(mean, abs=6 * deviation / math.sqrt(effective) + 0.05 * mean)


@pytest.mark.costly("Chains that stop at the coarse rule are found by walking them on both grids.")
def test_the_fine_rule_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A likelihood with a known posterior takes the place of both rules: flat for the walks."""

    def known(*_: object, points: int, **__: object) -> Callable[[Floats, Floats], Floats]:
        def fine(theta: Floats, n: Floats) -> Floats:
            return -0.5 * theta[:, 0] ** 2 - n / 30

        return fine if points == direction.FINE_POINTS else lambda theta, n: np.zeros(len(n))

    monkeypatch.setattr(direction, "direction_log_likelihood", known)
    draws = direction_draws(
        Chosen(SMALL, 0, 1.0),
        40,
        method="lower",
        draws=10000,
        rng=np.random.default_rng(12),
        prior_deviation=2.0,
        count_scale=20.0,
    )
    # Precision 1/4 + 1 along the first axis, 1/4 along the second; the number's law is tilted.
    n = np.arange(2000.0)
    law = np.exp(-np.abs(n - 40) / 20 - n / 30) * np.log1p(1 / (n + 1))
    mean = law @ n / law.sum()
    deviation = math.sqrt(law @ (n - mean) ** 2 / law.sum())
    error = 6 / math.sqrt(draws.mixing.effective)
    assert 0.2 < draws.acceptance < 0.8
    assert np.mean(draws.weights**2, axis=0) == pytest.approx([0.8, 4.0], rel=error * math.sqrt(2))
    assert draws.records.mean() == pytest.approx(mean, abs=error * deviation)


def test_the_likelihood_is_that_of_random_records() -> None:
    """Means over 200,000 random records in place of the points: off by 0.03 nats at six standard errors."""
    factor = DirectionFactor(SMALL.candidates, noise_variance=0.4, tau=3.0)
    theta, n, epsilon, rng = np.array([1.5, -2.0]), 60.0, 0.2, np.random.default_rng(5)
    rows = rng.normal(size=(200_000, 1)) * theta + math.sqrt(0.4) * rng.normal(size=(200_000, 2))
    phi, even = epsilon * factor.log_factors(rows), np.full(200_000, 1 / 200_000)
    expected = {
        "lower": lower_log_marginal(even, phi, n),
        "upper": upper_log_marginal(even, phi, n),
        "clt": clt_log_marginal(even, phi, n, normals=rng.normal(size=(20_000, 12))),
    }
    for method in ("lower", "upper", "clt"):
        for index in (0, 4, 10):
            function = direction_log_likelihood(Chosen(factor, index, epsilon), method=method)
            assert function(theta[None], np.array([n]))[0] == pytest.approx(expected[method][index], abs=0.06)


@pytest.mark.thorough
def test_figure_4_in_three_panels() -> None:
    """The paper's epsilon is half the width of a factor: n = 1,000 records of theta = (4, 2), noise variance 1."""
    n, rng = 1000, np.random.default_rng(1)
    rows = rng.normal(size=(n, 1)) * TRUTH + rng.normal(size=(n, 2))
    total = PAPER.steps(rows).sum(axis=0) / 2**20
    spreads, near = [], []
    for epsilon in (0.003, 0.01, 0.1):
        law = np.exp(2 * epsilon * (total - total.max()))
        law /= law.sum()
        # The likeliest choice but for the smallest epsilon: there, one more than 45 degrees off that is as likely.
        off = angles(PAPER.candidates, TRUTH) > math.radians(45)
        index = int(np.argmax(np.where(off, law, 0) if epsilon == 0.003 else law))
        assert epsilon > 0.003 or law[off].sum() > 0.1
        draws = direction_draws(
            Chosen(PAPER, index, 2 * epsilon),
            n,
            method="lower",
            draws=240,
            rng=np.random.default_rng(2),
            prior_deviation=5.0,
        )
        assert draws.mixing.r_hat < 1.1
        spread = angles(draws.weights, mean_axis(draws.weights))
        spreads.append(math.degrees(math.sqrt(float(np.mean(spread**2)))))
        near.append(float(np.mean(angles(draws.weights, TRUTH) < math.radians(20))))
    assert spreads[0] > 25 > spreads[1] > 8 > spreads[2] > 2
    assert near[0] > 0.05
    assert near[2] > 0.95
    assert near[0] < near[1] < near[2]


def test_three_dimensions_find_the_axis() -> None:
    factor = DirectionFactor(spread_candidates(3, 16, [3.0]), noise_variance=1.0, tau=6.0)
    index = 9
    draws = direction_draws(
        Chosen(factor, index, 0.2), 2000, method="clt", draws=200, rng=np.random.default_rng(6), prior_deviation=3.0
    )
    assert draws.weights.shape == (200, 3)
    assert angles([mean_axis(draws.weights)], factor.candidates[index])[0] < math.radians(20)
    assert draws.mixing.r_hat < 1.15


@pytest.mark.usefixtures("coarse")
def test_draws_repeat_and_have_one_sign() -> None:
    first, second = (
        direction_draws(
            Chosen(SMALL, 3, 0.1), 50, method="upper", draws=33, rng=np.random.default_rng(9), prior_deviation=2.0
        )
        for _ in range(2)
    )
    assert first.weights.shape == (33, 2)
    assert first.records.shape == (33,)
    assert np.array_equal(first.weights, second.weights)
    assert np.all(first.weights @ mean_axis(first.weights) >= 0)


def test_the_likelihood_has_no_sign_and_is_flat_without_records() -> None:
    theta = np.array([[3.0, 1.0], [-3.0, -1.0], [0.5, -2.0]])
    for method in ("lower", "upper", "clt"):
        function = direction_log_likelihood(Chosen(PAPER, 5, 0.1), method=method)
        found = function(theta, np.full(3, 500.0))
        # Points are not symmetric: n epsilon times their error of some 2e-4 is left.
        assert found[0] == pytest.approx(found[1], abs=0.05)
        assert np.allclose(function(theta, np.zeros(3)), -math.log(36), atol=1e-9)


def test_axes_and_angles() -> None:
    turned = np.array([[math.cos(a), math.sin(a)] for a in (0.1, 0.3, 0.2 + math.pi)])
    axis = mean_axis(turned)
    assert math.atan2(axis[1], axis[0]) == pytest.approx(0.2)
    assert np.allclose(angles(turned, axis), [0.1, 0.1, 0.0], atol=1e-9)
    assert angles([[1e-9, 1.0]], [0.0, -2.0])[0] == pytest.approx(1e-9)
    assert angles([[5.0, 0.0]], [0.0, 1.0])[0] == pytest.approx(math.pi / 2)
    assert mean_axis([[0.0, -1.0, 0.1]])[1] > 0


@every(
    ("changed", "message"),
    [
        ({"index": 12}, "choice"),
        ({"index": -1}, "choice"),
        ({"records": -1}, "public number"),
        ({"draws": 31}, "32 draws"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"prior_deviation": -1.0}, "prior_deviation"),
        ({"count_scale": 0.0}, "count_scale"),
        ({"count_scale": math.inf}, "count_scale"),
        ({"method": "exact"}, "method"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed: dict[str, object], message: str) -> None:
    asked: dict[str, object] = {
        "index": 0,
        "epsilon": 0.1,
        "records": 10,
        "method": "lower",
        "draws": 40,
        "rng": np.random.default_rng(0),
        "prior_deviation": 1.0,
    }
    with pytest.raises(dc.InputError, match=message):
        given = asked | changed
        chosen = Chosen(SMALL, given.pop("index"), given.pop("epsilon"))  # type: ignore[arg-type]
        direction_draws(chosen, **given)  # type: ignore[arg-type]


@every("weights", [np.zeros((0, 2)), np.zeros(3), np.full((2, 2), np.nan)])
def test_what_are_no_draws_is_refused(weights: Floats) -> None:
    with pytest.raises(dc.InputError, match="weights"):
        mean_axis(weights)
    with pytest.raises(dc.InputError, match="weights"):
        angles(weights, [1.0, 0.0])


@every("axis", [[0.0, 0.0], [1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_what_is_no_axis_is_refused(axis: list[float]) -> None:
    with pytest.raises(dc.InputError, match="axis"):
        angles([[1.0, 2.0]], axis)
