"""Estimates of several synthetic sets: the rule against its law, its limits, its coverage through the whole flow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import discreet as dc
from discreet.inference.sampling import sample_codes
from discreet.queries.pooled_estimates import PooledEstimate, pool_estimates
from discreet.queries.synthetic import sample
from folding import every

FALSE_ALARM = 1e-8
SETS = [2, 3, 5, 20, 200]


def half(pooled: PooledEstimate) -> np.ndarray:
    """Half the width of the interval."""
    assert np.allclose(pooled.upper + pooled.lower, 2 * pooled.mean, rtol=1e-12, atol=0)
    return (pooled.upper - pooled.lower) / 2


# ------------------------------------------------------------------------------------------ the rule


@every("level", [0.5, 0.9, 0.95, 0.999])
@every("sets", SETS)
def test_endless_sets_leave_students_t(sets: int, level: float) -> None:
    """Without sampling error the estimates are draws of Q: t with M - 1 degrees, variance (1 + 1/M) B."""
    q = np.random.default_rng(1).normal(3, 2, sets)
    wanted = stats.t.ppf((1 + level) / 2, sets - 1) * np.sqrt(q.var(ddof=1) * (1 + 1 / sets))
    assert half(pool_estimates(q, np.zeros(sets), level=level)) == pytest.approx(wanted, rel=1e-5)


def test_many_sets_leave_the_normal_law_of_what_is_between_beyond_within() -> None:
    q = np.random.default_rng(2).normal(0, 1, 20_000)
    pooled = pool_estimates(q, np.full(20_000, 0.7), level=0.9)
    assert pooled.variance == pytest.approx((1 + 1 / 20_000) * q.var(ddof=1) - 0.7, rel=1e-12)
    assert half(pooled) == pytest.approx(stats.norm.ppf(0.95) * np.sqrt(pooled.variance), rel=2e-3)


@every(("sets", "ratio"), [(2, 0.5), (3, 1.0), (5, 0.2), (10, 0.8), (20, 2.0)])
def test_intervals_have_their_probability_under_the_law(sets: int, ratio: float) -> None:
    """Against 400,000 draws of (S, Q), those with S below U thrown away; 5.8 standard errors, false alarm 1e-8."""
    rng = np.random.default_rng([3, sets])
    between, within = 1.0, ratio
    s = (sets - 1) * between / rng.chisquare(sets - 1, 4_000_000)
    s = s[s >= within][:400_000]
    q = rng.normal(0, np.sqrt((1 + 1 / sets) * s - within))
    made = np.zeros(sets)
    made[:2] = np.sqrt((sets - 1) * between / 2) * np.array([1, -1])
    found = half(pool_estimates(made, np.full(sets, within), level=0.9))
    assert abs(np.mean(np.abs(q) <= found) - 0.9) < 5.8 * np.sqrt(0.09 / len(q))


def test_sampling_variance_is_taken_off() -> None:
    """Narrower with more of it while the sets' spread exceeds it; the interval stays finite where T is negative."""
    q = np.random.default_rng(4).normal(0, 1, 50)
    b = q.var(ddof=1)
    found = [float(half(pool_estimates(q, np.full(50, u * b), level=0.95))) for u in (0, 0.2, 0.4, 0.6)]
    assert found == sorted(found, reverse=True)
    assert found[3] < 0.7 * found[0]
    swamped = pool_estimates(q, np.full(50, 5 * b), level=0.95)
    assert swamped.variance < 0
    assert 0 < half(swamped) < 3 * np.sqrt(5 * b)


def test_equal_estimates() -> None:
    assert half(pool_estimates([1.0, 1.0], [0.0, 0.0], level=0.95)) == 0
    for sets in SETS:
        found = half(pool_estimates(np.ones(sets), np.full(sets, 4.0), level=0.95))
        assert found == pytest.approx(stats.norm.ppf(0.975) * 2 / np.sqrt(sets), rel=1e-6)


def test_scale_and_place_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    q, u = rng.normal(size=7), rng.uniform(0.1, 0.3, 7)
    plain = pool_estimates(q, u, level=0.8)
    moved = pool_estimates(1e6 * q + 3, 1e12 * u, level=0.8)
    assert moved.lower == pytest.approx(1e6 * plain.lower + 3, rel=1e-9)
    assert moved.upper == pytest.approx(1e6 * plain.upper + 3, rel=1e-9)


def test_quantities_are_pooled_each_for_itself() -> None:
    rng = np.random.default_rng(6)
    q, u = rng.normal(size=(10, 4)), rng.uniform(0, 1, (10, 4))
    together = pool_estimates(q, u, level=0.95)
    assert together.mean.shape == together.lower.shape == together.variance.shape == (4,)
    assert (together.sets, together.level) == (10, 0.95)
    for k in range(4):
        alone = pool_estimates(q[:, k], u[:, k], level=0.95)
        assert np.shape(alone.mean) == np.shape(alone.variance) == ()
        for name in ("mean", "lower", "upper", "between", "within", "variance"):
            assert getattr(together, name)[k] == pytest.approx(getattr(alone, name), rel=1e-12)


@every(
    ("estimates", "variances", "level", "match"),
    [
        ([1.0], [1.0], 0.95, "at least two synthetic sets"),
        ([1.0, 2.0], [1.0], 0.95, r"one shape .*; got \(2,\) and \(1,\)"),
        (np.ones((2, 2, 2)), np.ones((2, 2, 2)), 0.95, "one shape"),
        (1.0, 1.0, 0.95, "one shape"),
        ([1.0, np.inf], [1.0, 1.0], 0.95, "an estimate is not finite"),
        ([1.0, np.nan], [1.0, 1.0], 0.95, "an estimate is not finite"),
        ([1.0, 2.0], [1.0, -1.0], 0.95, "a variance negative"),
        ([1.0, 2.0], [1.0, np.nan], 0.95, "a variance negative or not finite"),
        ([1.0, 2.0], [1.0, 1.0], 1.0, "a level lies between 0 and 1, got 1.0"),
        ([1.0, 2.0], [1.0, 1.0], np.nan, "a level lies between 0 and 1, got nan"),
    ],
)
def test_what_cannot_be_pooled_is_refused(estimates: object, variances: object, level: float, match: str) -> None:
    with pytest.raises(dc.InputError, match=match):
        pool_estimates(estimates, variances, level=level)  # type: ignore[arg-type]


@pytest.mark.costly("Releases that are combined with wrong weights show in coverage over many data sets.")
@every("sets", [10, 20, 50])
@every("ratio", [1.0, 3.0])
def test_intervals_hold_the_truth_of_a_normal_model(sets: int, ratio: float) -> None:
    """Posterior N(E, V), sets of variance U = V / ratio; 800 repetitions; 94.2 to 97.1 % of 20,000 were measured.

    Bounds are 5.8 standard errors beyond 94 and 97.5 %: false alarm 1e-8.
    """
    rng = np.random.default_rng([7, sets])
    within = 1 / ratio
    centre = rng.normal(0, 1, 800)
    q = centre + rng.normal(0, np.sqrt(1 + within), (sets, 800))
    pooled = pool_estimates(q, np.full(q.shape, within), level=0.95)
    covered = np.mean((pooled.lower <= 0) & (pooled.upper >= 0))
    assert 0.94 - 5.8 * np.sqrt(0.94 * 0.06 / 800) < covered < 0.975 + 5.8 * np.sqrt(0.975 * 0.025 / 800)


# ------------------------------------------------------------------------------------------ the whole flow

NETWORK = dc.Network(tuple(dc.Variable(name, ("0", "1")) for name in "xzy"), {"x": (), "z": ("x",), "y": ("x", "z")})
TRUTH = dc.Tables(
    NETWORK,
    {"x": [0.6, 0.4], "z": [[0.7, 0.3], [0.4, 0.6]], "y": [[[0.8, 0.2], [0.6, 0.4]], [[0.65, 0.35], [0.3, 0.7]]]},
)
CELLS = np.array(list(np.ndindex(2, 2, 2)), float)


def estimates(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What an analyst computes from a table (x, z, y), and the squared standard errors that any program gives.

    P(y), the difference of P(y) between the two states of x, their log odds ratio, and the coefficients of x and z in a
    regression of y (least squares, heteroscedastic errors).
    """
    margin = n.sum(axis=1)
    share = n[..., 1].sum() / n.sum()
    rates = margin[:, 1] / margin.sum(axis=1)
    log_odds = np.log(margin[1, 1] * margin[0, 0] / (margin[1, 0] * margin[0, 1]))
    design, weights = np.column_stack([np.ones(8), CELLS[:, :2]]), n.ravel()
    inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
    slopes = inverse @ design.T @ (weights * CELLS[:, 2])
    errors = weights * (CELLS[:, 2] - design @ slopes) ** 2
    spread = np.diag(inverse @ design.T @ (errors[:, None] * design) @ inverse)
    return (
        np.array([share, rates[1] - rates[0], log_odds, slopes[1], slopes[2]]),
        np.array(
            [share * (1 - share) / n.sum(), np.sum(rates * (1 - rates) / margin.sum(axis=1)), np.sum(1 / margin),
             spread[1], spread[2]]
        ),
    )  # fmt: skip


def joint(cells: dc.Tables) -> np.ndarray:
    """Probabilities of (x, z, y), and an axis of draws where there is one."""
    return cells["x"][:, None, None] * cells["z"][:, :, None] * cells["y"]


def tabulated(table: pa.Table) -> np.ndarray:
    """Records as counts of (x, z, y)."""
    codes = [table[name].to_numpy() == "1" for name in "xzy"]
    return np.bincount(np.ravel_multi_index([code.astype(int) for code in codes], (2, 2, 2)), minlength=8).reshape(
        2, 2, 2
    )


def one_release(seed: int, n: int, rows: int, sets: int) -> tuple[PooledEstimate, np.ndarray, np.ndarray]:
    """Records, a Laplace release at epsilon 1/2, its posterior: pooled estimates of sets, and those of the draws."""
    rng = np.random.default_rng([8, seed])
    counts = dc.tools.count_codes(NETWORK, sample_codes(TRUTH, n, rng))
    prior = dc.Dirichlet.uniform(NETWORK, 1.0)
    promise = dc.Guarantee(epsilon="0.5", delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.tools.MECHANISMS["laplace"](), counts, prior, promise, rng=rng)
    posterior = dc.noise_aware(release, draws=400, rng=rng, prior=prior)
    found = [estimates(tabulated(stream.read_all())) for stream in sample(posterior, rows, rng=rng, sets=sets)]
    pooled = pool_estimates([q for q, _ in found], [u for _, u in found], level=0.95)
    tables = joint(posterior.probabilities)
    exact = np.array([estimates(tables[..., draw])[0] for draw in range(tables.shape[-1])])
    return pooled, *np.quantile(exact, [0.025, 0.975], axis=0)


def covered(repetitions: int, sets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coverage of pooled intervals and of the posterior's own, and the median ratio of their widths."""
    truth, _ = estimates(joint(TRUTH))
    held, own, ratios = [], [], []
    for seed in range(repetitions):
        pooled, lower, upper = one_release(seed, 1000, 1000, sets)
        held.append((pooled.lower <= truth) & (truth <= pooled.upper))
        own.append((lower <= truth) & (truth <= upper))
        ratios.append((pooled.upper - pooled.lower) / (upper - lower))
    return np.mean(held, axis=0), np.mean(own, axis=0), np.median(ratios, axis=0)


@pytest.mark.costly("Widths that are too large or small on average show in forty data sets, not in one.")
def test_pooled_intervals_are_nearly_those_of_the_posterior() -> None:
    """Four releases: no width depends on luck alone; half the width (no noise counted) or double is far away."""
    _, _, ratios = covered(4, 40)
    assert np.all((ratios > 0.8) & (ratios < 1.5))


@pytest.mark.slow
@pytest.mark.parametrize("sets", [20, 50])
def test_pooled_intervals_hold_the_truth(sets: int) -> None:
    """300 releases; the posterior's own intervals hold the truth in 93 to 96 % of 400.

    Bounds are the quantiles 1e-9 of Binomial(300, 0.93) and above: false alarm below 1e-8 for five quantities.
    """
    held, own, ratios = covered(300, sets)
    least = stats.binom.ppf(1e-9, 300, 0.93) / 300
    assert np.all(held >= least)
    assert np.all(own >= least)
    assert np.all(np.abs(held - own) < 0.06)
    assert np.all((ratios > 0.95) & (ratios < 1.3))
