"""Every source of randomness but discrete Laplace noise (`test_noise.py`) has the distribution it says.

False alarms: exact sources cannot be seeded. Goodness of fit: 21 tests at 1e-9 each (chi-square, cells pooled until
each expects 100 draws; or Kolmogorov and Smirnov), together about 2e-8 a run. Whatever reads scripted entropy, or a
seeded simulation, cannot fail by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import gammainc, gammaln

import discreet as dc
from discreet.mechanisms import noise as noise_module
from discreet.mechanisms.noise import ExactNoise, Noise, SimulatedNoise, deviation_for
from folding import every

FALSE_ALARM = 1e-9
SOURCES = ("exact", "simulated")


def source(name: str, seed: int = 2026) -> Noise:
    return ExactNoise() if name == "exact" else SimulatedNoise(np.random.default_rng(seed))


def fit(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Chi-square p value of counts; the rarest outcomes are pooled until every cell expects 100 draws."""
    n = int(observed.sum())
    if np.any(observed[probabilities == 0]):
        return 0.0
    cells: list[list[float]] = []
    for k in np.argsort(probabilities):
        if cells and cells[-1][1] < 100:
            cells[-1][0] += observed[k]
            cells[-1][1] += n * probabilities[k]
        else:
            cells.append([observed[k], n * probabilities[k]])
    found, expected = np.array(cells).T
    if len(found) == 1:
        return 1.0
    return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)


# -------------------------------------------------------------------------------------------------- discrete Gaussian

DEVIATIONS = (0.3, 0.8, 1.0, 3.3, 20.0)


def gaussian_fit(noise: np.ndarray, scale: float) -> float:
    """Fit to `P(k) ~ exp(-k^2 / (2 scale^2))`, summed over the integers that matter."""
    reach = max(math.ceil(20 * scale), int(np.abs(noise).max()))
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-(k**2) / (2 * scale**2))
    return fit(np.bincount(noise + reach, minlength=len(k)), mass / mass.sum())


@pytest.mark.costly("The law of exact Gaussian noise shows in tens of thousands of draws.", always=True)
@pytest.mark.system_noise
@every("scale", DEVIATIONS)
@every("name", SOURCES)
def test_gaussian_noise_is_discrete_gaussian(name: str, scale: float) -> None:
    draws = 20_000 if name == "exact" else 200_000
    noise = source(name).discrete_gaussian(np.zeros((2, draws // 2), np.int64), scale)
    assert noise.shape == (2, draws // 2) and noise.dtype == np.int64
    assert gaussian_fit(noise.ravel(), scale) > FALSE_ALARM


@every("scale", [1.0, 3.3, 20.0])
def test_the_gaussian_fit_notices_another_distribution(scale: float) -> None:
    """5 % off, a Laplace of the same variance, a shift by one, other zeros."""
    rng = np.random.default_rng(7)
    right = SimulatedNoise(rng).discrete_gaussian(np.zeros(200_000, np.int64), scale)
    wrong = {
        "scale": SimulatedNoise(rng).discrete_gaussian(np.zeros(200_000, np.int64), 1.05 * scale),
        "laplace": SimulatedNoise(rng).discrete_laplace(np.zeros(200_000, np.int64), scale / math.sqrt(2)),
        "shift": right + 1,
    }
    if scale < 10:  # where zero is rare, half as many of it are hard to see
        wrong["few zeros"] = np.where(right == 0, rng.integers(-1, 2, 200_000), right)
    assert {name: gaussian_fit(noise, scale) < FALSE_ALARM for name, noise in wrong.items()} == dict.fromkeys(
        wrong, True
    )


def test_gaussian_noise_is_added_and_refuses_what_would_saturate() -> None:
    """At scale 0.02 noise other than 0 has probability 2 exp(-1250)."""
    values = np.array([[0, 1, 2**31 - 1], [2**40 + 1, 2**53 - 1, -(2**53)]])
    assert np.array_equal(ExactNoise().discrete_gaussian(values, 0.02), values)
    assert ExactNoise().discrete_gaussian(np.zeros((0, 2), np.int64), 1.0).shape == (0, 2)
    with pytest.raises(dc.InputError, match=r"larger than 9,007,199,254,740,992"):
        ExactNoise().discrete_gaussian(np.array([2**53 + 7]), 1.0)


# --------------------------------------------------------------------------------------------------------------- thin


@pytest.mark.costly(
    "What sampling saves is paid for by this law, which shows in tens of thousands of counts.",
    always=True,
)
@every("probability", [Fraction(1, 10), Fraction(1, 3), Fraction(9, 10)], ids=str)
@every("name", SOURCES)
def test_thinned_counts_are_binomial(name: str, probability: Fraction) -> None:
    """5 % off is noticed, too. With a third of the draws one run in a hundred missed it; log10 p is -60 +- 7."""
    kept = source(name).thin(np.full((10, 9000), 12), probability)
    assert kept.shape == (10, 9000) and kept.dtype == np.int64
    expected = stats.binom.pmf(np.arange(13), 12, float(probability))
    assert fit(np.bincount(kept.ravel(), minlength=13), expected) > FALSE_ALARM
    wrong = stats.binom.pmf(np.arange(13), 12, 1.05 * float(probability))
    assert fit(np.bincount(kept.ravel(), minlength=13), wrong) < FALSE_ALARM


class Entropy:
    """The operating system's entropy by a script: 32-bit words one after the other, and what was asked for."""

    def __init__(self, words: Sequence[int]) -> None:
        self.bytes = np.array(words, np.uint32).tobytes()
        self.asked: list[int] = []

    def __call__(self, number: int) -> bytes:
        self.asked.append(number)
        taken, self.bytes = self.bytes[:number], self.bytes[number:]
        assert len(taken) == number, "more entropy asked for than the script has"
        return taken


def scripted(monkeypatch: pytest.MonkeyPatch, words: Sequence[int]) -> Entropy:
    script = Entropy(words)
    monkeypatch.setattr(noise_module.os, "urandom", script)
    return script


@pytest.mark.parametrize(
    "probability",
    [Fraction(1, 3), Fraction(1, 2), Fraction(1, 2**32), Fraction(3, 2**33), Fraction(1, 2**40), Fraction(1),
     1 - Fraction(1, 10**30)],
    ids=str,
)  # fmt: skip
def test_a_coin_falls_on_the_exact_side_of_its_threshold(
    monkeypatch: pytest.MonkeyPatch, probability: Fraction
) -> None:
    """Of the 2^32 words those below `floor(probability 2^32)` keep a record: never more than the probability says."""
    heads = probability.numerator * 2**32 // probability.denominator
    assert Fraction(heads, 2**32) <= probability < Fraction(heads + 1, 2**32)
    for word in {0, 1, max(heads - 1, 0), min(heads, 2**32 - 1), min(heads + 1, 2**32 - 1), 2**32 - 1}:
        scripted(monkeypatch, [word])
        assert ExactNoise().thin(np.array([1]), probability).tolist() == [int(word < heads)]


def test_every_record_has_a_coin_of_its_own_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_module, "COIN_BLOCK", 4)
    words = np.random.default_rng(3).integers(0, 2**32, 200)
    counts = np.array([[0, 1, 3], [4, 5, 8], [9, 17, 0]])
    script = scripted(monkeypatch, words[: counts.sum()].tolist())
    kept = ExactNoise().thin(counts, Fraction(2, 5))
    ends = np.cumsum(counts.ravel())
    heads = math.floor(Fraction(2, 5) * 2**32)
    expected = [int(np.sum(words[end - n : end] < heads)) for n, end in zip(counts.ravel(), ends, strict=True)]
    assert kept.ravel().tolist() == expected
    assert script.bytes == b""
    assert script.asked == [4 * part for part in (1, 3, 4, 4, 1, 4, 4, 4, 4, 1, 4, 4, 4, 4, 1)]


def test_the_real_block_holds_as_many_coins_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def zeros(number: int) -> bytes:
        asked.append(number)
        return bytes(number)

    monkeypatch.setattr(noise_module.os, "urandom", zeros)
    assert ExactNoise().thin(np.array([2**20, 2**20 + 1, 2**21 - 1]), Fraction(1, 2**32)).tolist() == [
        2**20, 2**20 + 1, 2**21 - 1,
    ]  # fmt: skip
    assert asked == [2**22, 2**22, 4, 2**22, 2**22 - 4]


# --------------------------------------------------------------------------------------------------------------- pick


def exact_law(monkeypatch: pytest.MonkeyPatch, weights: Sequence[float]) -> list[Fraction]:
    """The probability of every index, from the answers to all numbers that `secrets.randbelow` can return.

    The index grows with the number, so how many numbers give at most i is found by bisection.
    """
    array = np.array(weights, np.float64)
    limits: list[int] = []

    def answer(number: int) -> int:
        def below(limit: int) -> int:
            limits.append(limit)
            return number

        monkeypatch.setattr(noise_module.secrets, "randbelow", below)
        return int(ExactNoise().pick(array, 1)[0])

    answer(0)
    total, start, law = limits[0], 0, [Fraction(0)] * len(weights)
    while start < total:  # the numbers that give an index stand next to each other
        index, low, high = answer(start), start + 1, total
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if answer(middle) == index else (low, middle)
        assert law[index] == 0
        law[index] = Fraction(low - start, total)
        start = low
    assert set(limits) == {total}
    return law


@pytest.mark.parametrize(
    "weights",
    [
        [1.0], [5e-324], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0, 0.3, 0.0, 0.7, 0.0], [1.0, 1.0, 1.0], [0.1, 0.2, 0.3],
        [1.0, 5e-324], [5e-324, 1.0], [1e-308, 1e308], [5e-324, 1e-310, 2.2250738585072014e-308, 1.0, 1.7e308],
        [1.0, np.nextafter(1.0, 0), np.nextafter(0.5, 1)], [0.0, 5e-324, 5e-324, 0.0], [1 / 3] * 7 + [1e-17],
    ],
    ids=str,
)  # fmt: skip
def test_pick_draws_with_exactly_the_weights(monkeypatch: pytest.MonkeyPatch, weights: list[float]) -> None:
    total = sum(map(Fraction, weights))
    assert exact_law(monkeypatch, weights) == [Fraction(weight) / total for weight in weights]


@pytest.mark.costly("Rounding of weights at the ends of floats is searched for by generated cases.", always=True)
@given(
    st.lists(st.floats(0, 1.7e308) | st.floats(0, 1) | st.just(0.0), min_size=1, max_size=6).filter(
        lambda w: max(w) > 0
    )
)
@example([0.0, 1e-323, 1.5e308])
def test_pick_draws_with_exactly_any_weights(weights: list[float]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        test_pick_draws_with_exactly_the_weights(monkeypatch, weights)


def test_pick_does_not_round_a_weight_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a weight of 1, one of 1e-300 keeps its probability; a cumulative sum of floats would lose it."""
    assert Fraction(0) < exact_law(monkeypatch, [1.0, 1e-300])[1] < Fraction(1, 10**299)
    assert np.cumsum([1.0, 1e-300])[1] == 1.0


@every("name", SOURCES)
def test_picks_are_independent_draws(name: str) -> None:
    weights = np.array([0.0, 3.0, 1e-200, 1.0, 0.5, 0.0])
    drawn = source(name).pick(weights, 20_000)
    assert drawn.shape == (20_000,) and drawn.dtype == np.int64
    law = weights / weights.sum()
    assert fit(np.bincount(drawn, minlength=6), law) > FALSE_ALARM
    pairs = np.bincount(6 * drawn[::2] + drawn[1::2], minlength=36)
    assert fit(pairs, np.outer(law, law).ravel()) > FALSE_ALARM
    assert source(name).pick(weights, 0).shape == (0,)


# ---------------------------------------------------------------------------------------------------------- noisy max

SCORES = {
    "two": ([0.0, -1.0], 1.0),
    "large scale": ([0.0, -700.0, -300.0, -1000.0], 500.0),
    "small scale": ([0.0, -1e-3, -2.5e-3], 1e-3),
    "one above a crowd": ([-3.0] * 10 + [0.0] + [-3.0] * 10, 1.0),
    "ties": ([0.0, 0.0, -2.0, 0.0, -2.0], 2.0),
    "all tied": ([0.0] * 7, 0.3),
    "large gap": ([-1e9, 0.0, -1.5, -1e300], 1.0),
    "large scores": ([-1e12, -1e12 - 2.0, -1e12 - 1.0], 1.5),
    "positive scores": ([7.0, 5.0, 8.0], 2.0),
}
CHOICES = 1800


def exponential_law(scores: Sequence[float], scale: float) -> np.ndarray:
    """`P(i) ~ exp(scores[i] / scale)`."""
    logs = (np.array(scores) - max(scores)) / scale
    return np.asarray(np.exp(logs) / np.exp(logs).sum())


@pytest.mark.costly("The law of a private choice shows in thousands of choices.", always=True)
@pytest.mark.system_noise
@every("case", SCORES)
def test_noisy_max_is_the_exponential_mechanism(case: str) -> None:
    """The proof of `map_estimate` rests on it: P(i) is `exp(scores[i] / scale)` over the sum, for all at once."""
    scores, scale = SCORES[case]
    drawn = [ExactNoise().noisy_max(np.array(scores), scale) for _ in range(CHOICES)]
    assert fit(np.bincount(drawn, minlength=len(scores)), exponential_law(scores, scale)) > FALSE_ALARM


@pytest.mark.costly("A simulated choice with another law is found by a fit to 30,000 draws.")
@every("case", SCORES)
def test_simulated_noisy_max_is_the_exponential_mechanism(case: str) -> None:
    scores, scale = SCORES[case]
    simulated = source("simulated")
    drawn = [simulated.noisy_max(np.array(scores), scale) for _ in range(30_000)]
    assert fit(np.bincount(drawn, minlength=len(scores)), exponential_law(scores, scale)) > FALSE_ALARM


@every("like", ["permute and flip", "half the scale", "1.2 times the scale"])
def test_the_fit_tells_the_exponential_mechanism_from_its_likes(like: str) -> None:
    """Maxima with other noise, as many draws: at least one of the cases above refuses each."""
    rng = np.random.default_rng(4)
    found = []
    for scores, scale in SCORES.values():
        shape = (CHOICES, len(scores))
        noise = {
            "permute and flip": rng.exponential(size=shape),
            "half the scale": 0.5 * rng.gumbel(size=shape),
            "1.2 times the scale": 1.2 * rng.gumbel(size=shape),
        }[like]
        drawn = np.argmax((np.array(scores) - max(scores)) / scale + noise, axis=1)
        found.append(fit(np.bincount(drawn, minlength=len(scores)), exponential_law(scores, scale)))
    assert min(found) < FALSE_ALARM


@pytest.mark.system_noise
def test_noisy_max_does_not_break_at_the_ends_of_floats() -> None:
    """A candidate 1,000 scales below the best is taken with probability exp(-1000)."""
    for scores, scale in (([0.0, -1e300], 1.0), ([-1.7e308, 0.0], 1e-5), ([0.0, -1.0], 1e-200)):
        best = int(np.argmax(scores))
        assert {ExactNoise().noisy_max(np.array(scores), scale) for _ in range(50)} == {best}
    # Equal scores, however large: both are taken, but for a chance of 2^-199.
    for scores in ([-1e308, -1e308], [1e308, 1e308]):
        assert {ExactNoise().noisy_max(np.array(scores), 1.0) for _ in range(200)} == {0, 1}


# ------------------------------------------------------------------------------------------------------------- rarely


def test_rarely_needs_64_zero_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [0, 0, 1, 0, 0, 1, 0, 0, 2**31, 0, 0, 2**31]
    scripted(monkeypatch, words)
    assert ExactNoise().rarely(6).tolist() == [True, False, False, True, False, False]
    for bit in range(64):
        scripted(monkeypatch, [2**bit % 2**32, 2**bit // 2**32])
        assert ExactNoise().rarely(1).tolist() == [False]


def test_rarely_never_comes_in_a_simulation() -> None:
    flags = source("simulated").rarely(1000)
    assert flags.shape == (1000,) and flags.dtype == np.bool_ and not flags.any()
    assert not ExactNoise().rarely(1000).any()  # but for a chance of 1000 2^-64


# ---------------------------------------------------------------------------------------------------------- log gamma

SHAPES = (0.01, 0.1, 1.0, 7.3, 100.0, 1e4)


def log_gamma_cdf(x: np.ndarray, shape: float) -> np.ndarray:
    """P(log G <= x), by the series' first term where exp(x) is tiny: relative error below 1e-13 there."""
    small = np.exp(np.minimum(shape * x - gammaln(1 + shape), 0.0))
    return np.where(x < -32, small, gammainc(shape, np.exp(np.maximum(x, -32.0))))


@every("shape", SHAPES)
@every("name", SOURCES)
def test_log_gammas_have_their_distribution(name: str, shape: float) -> None:
    logs = source(name).log_gamma(np.full((4, 15_000), shape))
    assert logs.shape == (4, 15_000) and np.all(np.isfinite(logs))
    assert stats.kstest(logs.ravel(), lambda x: log_gamma_cdf(x, shape)).pvalue > FALSE_ALARM
    assert stats.kstest(logs.ravel(), lambda x: log_gamma_cdf(x, 1.1 * shape)).pvalue < FALSE_ALARM or shape > 7
    neighbours = np.corrcoef(logs.ravel()[:-1], logs.ravel()[1:])[0, 1]
    assert abs(neighbours) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(logs.size - 2)


def test_log_gammas_follow_their_own_shapes() -> None:
    shapes = np.array([[1e4, 0.5], [3.0, 1e-3]])
    logs = np.array([ExactNoise().log_gamma(shapes) for _ in range(4000)])
    # The mean of log G is digamma and its variance trigamma; 6.11 standard errors is a two-sided rate of 1e-9.
    mean, variance = np.vectorize(lambda s: stats.loggamma.stats(s)[0])(shapes), stats.loggamma.var(shapes)
    assert np.all(np.abs(logs.mean(axis=0) - mean) < 7 * np.sqrt(variance / 4000))


@pytest.mark.parametrize(
    "byte",
    [
        b"\x00",
        b"\x80",
        b"\xff",
    ],
)
def test_uniforms_stay_inside_the_unit_interval(monkeypatch: pytest.MonkeyPatch, byte: bytes) -> None:
    monkeypatch.setattr(noise_module.os, "urandom", lambda number: byte * number)
    assert np.all(np.isfinite(ExactNoise().log_gamma(np.array([0.5, 1.0, 100.0]))))


# ----------------------------------------------------------------------------------------------------- Gaussian scale


def promise(epsilon: str, delta: str) -> dc.Guarantee:
    return dc.Guarantee(epsilon=epsilon, delta=delta, relation="replace", unit="record")


def converted(rho: float, delta: float) -> float:
    """Epsilon at delta of rho-zCDP: Proposition 12 of Canonne, Kamath and Steinke, minimised over the order here."""

    def at(log_order: float) -> float:
        a = 1 + math.exp(log_order)
        return a * rho + math.log1p(-1 / a) - math.log(a * delta) / (a - 1)

    grid = np.linspace(-30, 40, 1401)
    best = int(np.argmin([at(x) for x in grid]))
    found = minimize_scalar(
        at, bounds=(grid[best] - 0.05, grid[best] + 0.05), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun)


def profile(scale: float, moves: int, epsilon: float) -> float:
    """Exact delta at epsilon of discrete Gaussian noise on `moves` cells that move by one record each."""
    reach = math.ceil(14 * scale) + 4
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-(k**2) / (2 * scale**2))
    mass /= mass.sum()
    law = np.ones(1)
    for _ in range(moves):
        law = np.convolve(law, mass)
    # The log ratio is (2 K + moves) / (2 scale^2) where K is the sum of the noise.
    losses = (2 * (np.arange(len(law)) - moves * reach) + moves) / (2 * scale**2)
    over = losses > epsilon
    return float(np.sum(law[over] * -np.expm1(epsilon - losses[over])))


BUDGETS = [
    (epsilon, delta)
    for epsilon in ("0.001", "0.1", "1/3", "1", "5", "20", "100")
    for delta in ("1e-12", "1e-6", "0.001", "0.1")
    if (epsilon, delta) != ("0.001", "0.1")
]


@pytest.mark.costly("A scale that is too small for its delta is found by exact conversion at each budget.", always=True)
@every(("epsilon", "delta"), BUDGETS)
def test_the_scale_is_the_smallest_that_the_tight_conversion_allows(epsilon: str, delta: str) -> None:
    wanted = promise(epsilon, delta)
    for moves in (1, 6, 74):
        scale, rho, reported = deviation_for(moves, wanted)
        assert (
            moves / (2 * Fraction(scale) ** 2) <= rho <= moves / (2 * Fraction(scale) ** 2) * (1 + Fraction(1, 10**9))
        )
        assert wanted.epsilon * (1 - Fraction(1, 10**7)) <= reported <= wanted.epsilon
        assert converted(moves / (2 * scale**2), float(wanted.delta)) <= float(wanted.epsilon) * (1 + 1e-8)
        smaller = scale * (1 - 1e-6)
        assert converted(moves / (2 * smaller**2), float(wanted.delta)) > float(wanted.epsilon)


@every(("epsilon", "delta"), BUDGETS)
@every("moves", [1, 6])
def test_the_exact_profile_keeps_the_promise(moves: int, epsilon: str, delta: str) -> None:
    wanted = promise(epsilon, delta)
    scale, _, _ = deviation_for(moves, wanted)
    if scale * moves < 200:
        assert profile(scale, moves, float(wanted.epsilon)) <= float(wanted.delta)


@every(
    ("moves", "epsilon", "delta", "most"),
    [
        (1, "0.1", "1e-12", 1.05), (1, "0.1", "1e-6", 1.09), (1, "1", "1e-6", 1.08), (6, "1", "1e-6", 1.08),
        (6, "1", "1e-12", 1.05), (6, "5", "1e-6", 1.07), (6, "20", "1e-6", 1.07), (1, "5", "1e-6", 1.10),
        # A large delta is where the conversion gives most away.
        (1, "1", "0.001", 1.15), (6, "1", "0.1", 1.26), (1, "0.1", "0.1", 1.42),
    ],
)  # fmt: skip
def test_the_scale_is_not_far_above_the_smallest_that_keeps_the_promise(
    moves: int, epsilon: str, delta: str, most: float
) -> None:
    wanted = promise(epsilon, delta)
    scale, _, _ = deviation_for(moves, wanted)
    assert profile(scale / most, moves, float(wanted.epsilon)) > float(wanted.delta)


def test_replacing_costs_root_two_more_and_a_distance_is_never_rounded_down() -> None:
    """For pure zCDP the scale grows with the root of the squared sensitivity, and the map's rho covers all of it."""
    one, two = (deviation_for(moves, promise("1", "1e-6"))[0] for moves in (37, 74))
    assert two / one == pytest.approx(math.sqrt(2), rel=1e-8)
    for moves in (2, 3, 5, 7, 10, 1041):
        scale, rho, _ = deviation_for(moves, promise("1", "1e-6"))
        assert rho >= Fraction(moves) / (2 * Fraction(scale) ** 2)


def test_a_large_delta_with_a_small_epsilon_still_has_a_smallest_scale() -> None:
    """There rho may exceed epsilon: delta alone pays."""
    wanted = promise("0.001", "0.1")
    scale, _, reported = deviation_for(1, wanted)
    assert reported > 0
    assert converted(1 / (2 * (scale * (1 - 1e-6)) ** 2), 0.1) > 0.001


@every(
    ("epsilon", "delta", "why"),
    [
        ("1", "0", "a delta greater than 0"), ("501", "1e-6", "above 500"), ("1e300", "1e-6", "above 500"),
        ("1e-20", "1e-20", "epsilon is too small"), ("1e-300", "1e-300", "epsilon is too small"),
    ],
)  # fmt: skip
def test_a_promise_that_no_scale_keeps_is_refused(epsilon: str, delta: str, why: str) -> None:
    with pytest.raises(dc.InputError, match=why):
        deviation_for(5, promise(epsilon, delta))
