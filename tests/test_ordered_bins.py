"""Bins of numeric columns under a prior by which neighbours are alike (`posterior/pooled/ordered_bins.py`)."""

from itertools import pairwise

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.pooled.ordered_bins import FIRST_SCALE, LEAST_RECORDS, LEVEL_STEPS, SCALES, draw_ordered_records
from discreet.releases.external_figures import External
from discreet.util.arrays import Floats

LONG_TAIL = np.array([0.51, 0.29, 0.11, 0.05, 0.02, 0.01, 0.006, 0.003, 0.001, 0.0])
HUMP = np.array([0.0, 0.0, 0.007, 0.29, 0.45, 0.17, 0.07, 0.01, 0.003, 0.0])


def column(bins: int) -> dc.Network:
    """Make a network of one column with bins of width 1."""
    x = dc.Variable("x", bounds=(0, bins), bins=tuple(range(1, bins)))
    return dc.Network((x,), {"x": ()})


def told(counts: Floats, deviation: float) -> External:
    """Tell counts with normal noise."""
    noise = dc.external.StatedNoise("gaussian", deviation)
    return dc.external_table(counts, column(len(counts)), ["x"], noise, guarantee=None, source="a test")


def oracle(estimates: Floats, variance: float, total: float) -> Floats:
    """Integrate the model over a grid of the first two of three bins, and return the expected records."""
    low, high = np.log(LEAST_RECORDS), np.log(total)
    logs = np.linspace(low, high, 801)[1:-1]
    first, second = (np.exp(part) for part in np.meshgrid(logs, logs, indexing="ij"))
    third = total - first - second
    inside = third > LEAST_RECORDS
    records = np.stack([first, second, np.where(inside, third, 1.0)])
    levels = np.log(records)

    def law(level: Floats, middle: Floats, scale: float) -> Floats:
        # A Laplace density between the ends of all levels.
        def below(at: float) -> Floats:
            away = (at - middle) / scale
            return np.where(away < 0, 0.5 * np.exp(np.minimum(away, 0)), 1 - 0.5 * np.exp(-np.maximum(away, 0)))

        return np.exp(-np.abs(level - middle) / scale) / (2 * scale * (below(high) - below(low)))

    slope = 2 * levels[1] - levels[0]
    steps = sum(
        (1 - LEVEL_STEPS) * law(levels[2], slope, scale) + LEVEL_STEPS * law(levels[2], levels[1], scale)
        for scale in SCALES
    )
    # The grid is even in the logarithms of the first two; the third has the density of its logarithm over its records.
    density = inside * law(levels[1], levels[0], FIRST_SCALE) * steps / records[2]
    for estimate, part in zip(estimates, records, strict=True):
        density = density * np.exp(-((estimate - part) ** 2) / (2 * (variance + part))) / np.sqrt(variance + part)
    return np.asarray((density * records).sum(axis=(1, 2)) / density.sum())


@pytest.mark.parametrize("estimates", [(180.0, 22.0, -2.0), (60.0, 110.0, 30.0), (-10.0, 10.0, 200.0)])
def test_the_model_is_integrated(estimates: tuple[float, float, float]) -> None:
    """Draws have the means of the model, which three bins allow to compute.

    The tolerance is that of nodes and of 8,000 draws: 4 % of a mean, and a third of a record.
    """
    counts = np.array(estimates)
    expected = oracle(counts, 100.0, 200.0)
    drawn, _ = draw_ordered_records(counts, 100.0, 3, np.full(8000, 200), np.random.default_rng(1))
    np.testing.assert_allclose(drawn.mean(axis=1), expected, rtol=0.04, atol=0.34)


def test_known_counts_stay() -> None:
    """Without noise the counted records are the counts, and the expected ones differ from them by Poisson's law.

    The prior is worth about a record of a bin.
    """
    counts = np.array([9000.0, 4000.0, 400.0, 100.0, 25.0, 900.0])
    totals = np.full(4000, int(counts.sum()))
    expected, counted = draw_ordered_records(counts, 1e-6, 6, totals, np.random.default_rng(1))
    np.testing.assert_allclose(counted, np.broadcast_to(counts[:, None], counted.shape), rtol=1e-3)
    np.testing.assert_allclose(expected.mean(axis=1), counts, rtol=0.01, atol=1)
    share = counts / counts.sum()
    np.testing.assert_allclose(expected.std(axis=1), np.sqrt(counts * (1 - share)), rtol=0.2)
    np.testing.assert_allclose(expected.sum(axis=0), totals)


def test_states_beyond_the_bins_have_no_neighbours() -> None:
    """The state for missing values is neither pulled by the last bin nor pulls it."""
    counts = np.array([500.0, 300.0, 150.0, 40.0, 5.0, 0.0, 400.0])
    drawn, _ = draw_ordered_records(counts, 100.0, 6, np.full(2000, 1395), np.random.default_rng(1))
    assert abs(drawn[6].mean() - 400) < 8
    assert drawn[5].mean() < 5


@pytest.mark.costly("reads sixty posteriors, so that a share of covered intervals means something")
@pytest.mark.parametrize("shares", [LONG_TAIL, HUMP], ids=["tail", "hump"])
def test_empty_bins_are_not_pulled_up(shares: Floats) -> None:
    """Deviations and means of a column with empty bins hold the truth, where noise is larger than many bins.

    Of 30 intervals of 95 % fewer than 25 hold the truth in 2 of 10,000 such tests. Dirichlet priors held it in a few.
    """
    rng, bins, held = np.random.default_rng(3), np.arange(len(shares)), {"mean": 0, "deviation": 0}
    mean = bins @ shares
    truth = {"mean": mean, "deviation": np.sqrt(bins**2 @ shares - mean**2)}
    for _ in range(30):
        counts = rng.multinomial(1000, shares) + rng.normal(0, 12, len(shares))
        law = dc.noise_aware(told(counts, 12.0), draws=400, rng=rng).probabilities["x"]
        means = bins @ law
        drawn = {"mean": means, "deviation": np.sqrt(bins**2 @ law - means**2)}
        for name, values in drawn.items():
            low, high = np.quantile(values, (0.025, 0.975))
            held[name] += bool(low <= truth[name] <= high)
    assert min(held.values()) >= 25, held


def test_rows_have_the_column_that_was_drawn() -> None:
    """In a family the law of an ordered column is the drawn one: an empty bin has no half record of its own."""
    city = dc.Variable("city", ("a", "b", "c"))
    (x,) = column(10).variables
    network = dc.Network((city, x), {"city": (), "x": ("city",)})
    counts = np.outer([400, 300, 300], LONG_TAIL)
    noise = dc.external.StatedNoise("gaussian", 0.3)
    table = dc.external_table(counts, network, ["city", "x"], noise, guarantee=None, source="a test")
    posterior = dc.noise_aware(table, draws=500, rng=1)
    share = dc.answer(posterior, "P(x=9_to_10)").rows[0]["mean"]
    assert share < 4e-4  # half a record of a thousand would be .0005 alone


def test_smooth_columns_have_smoother_tails() -> None:
    """Where all counts fall evenly the tail follows; where they jump it is left open."""
    smooth = np.array([512.0, 256.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0])
    jagged = smooth[[0, 4, 1, 6, 2, 7, 3, 5]]
    spreads = []
    for counts in (smooth, jagged):
        drawn, _ = draw_ordered_records(counts, 25.0, 8, np.full(2000, 1020), np.random.default_rng(1))
        spreads.append(drawn[np.argmin(counts)].std())
    assert spreads[0] < spreads[1]
    assert all(a > b for a, b in pairwise(smooth))
