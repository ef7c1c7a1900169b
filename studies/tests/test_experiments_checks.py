"""Checks of experiments: what they accept, that they have the power to fail, and the size of simulated noise."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import discreet as dc
from discreet.mechanisms.noise import SimulatedNoise
from experiments import noise_law
from experiments.noise_law import METRIC, law_of_noise, law_of_star, noise_check, noise_row
from experiments.pages import Check, Estimate
from folding import every
from tiny import network_of

# ------------------------------------------------------------------------------------------ what they accept


@every(
    ("found", "holds"),
    [
        (Estimate(1.0), True),
        (Estimate(1.005), True),
        (Estimate(1.0051), False),
        (Estimate(0.9949), False),
        (Estimate(1.0051, 0.001), True),
        (Estimate(1.0091, 0.001), False),
        (Estimate(1.004, math.nan), True),
        (Estimate(math.nan, 0.1), False),
        (Estimate(math.inf), False),
    ],
)
def test_near_allows_rounding_and_four_standard_errors(found: Estimate, holds: bool) -> None:
    assert Check.near("it", Estimate(1.0), found, rounding=0.005).holds is holds


def test_near_counts_the_error_of_the_reference() -> None:
    assert Check.near("it", Estimate(1.0, 0.3), Estimate(2.9, 0.4)).holds
    assert not Check.near("it", Estimate(1.0, 0.3), Estimate(3.1, 0.4)).holds


def test_limits() -> None:
    assert Check.below("it", Estimate(1.0), 1.0).holds
    assert not Check.below("it", Estimate(1.01), 1.0).holds
    assert Check.below("it", Estimate(1.4, 0.1), 1.0).holds
    assert not Check.below("it", Estimate(1.5, 0.1), 1.0).holds
    assert Check.above("it", Estimate(1.0), 1.0).holds
    assert not Check.above("it", Estimate(0.99), 1.0).holds
    assert not Check.above("it", Estimate(0.5, 0.1), 1.0).holds
    assert not Check.below("it", Estimate(math.nan), 1.0).holds
    assert not Check.above("it", Estimate(math.nan), 1.0).holds


def test_checks_say_what_they_accept() -> None:
    assert Check.near("it", Estimate(1.0), Estimate(1.0), rounding=0.005).accepts == "0.995 to 1.005"
    assert Check.near("it", Estimate(2.944), Estimate(2.944), rounding=5e-4).accepts == "2.9435 to 2.9445"
    assert Check.near("it", Estimate(0.5), Estimate(0.5)).accepts == "0.5 alone"
    assert Check.below("it", Estimate(0.2, 0.05), 1.0, sane=2).accepts == "up to 1.200"
    assert Check.above("it", Estimate(0.2, 0.05), 1.0, sane=0).accepts == "from 0.800"
    assert Check.within("it", Estimate(0.95, 0.005), (0.92, 0.98), sane=(0, 1)).accepts == "0.900 to 1.000"
    assert Check.clearly_above("it", Estimate(2.0, 0.1), 1.0).accepts == "above 1.400"
    assert Check.clearly_below("it", Estimate(0.0, 0.1), 1.0).accepts == "below 0.600"
    assert Check.below("it", Estimate(0.0), -1e-6, digits=3).accepts == "up to -1e-06"


def test_claims_of_clear_differences_need_them() -> None:
    assert Check.clearly_above("it", Estimate(1.5, 0.1), 1.0).holds
    assert not Check.clearly_above("it", Estimate(1.3, 0.1), 1.0).holds
    assert Check.clearly_below("it", Estimate(0.5, 0.1), 1.0).holds
    assert not Check.clearly_below("it", Estimate(0.7, 0.1), 1.0).holds
    assert not Check.clearly_below("it", Estimate(math.nan, 0.1), 1.0).holds


# ------------------------------------------------------------------------------------------ power


@every(("error", "powerful"), [(0.0, True), (0.02, True), (0.026, False), (math.nan, True)])
def test_the_power_of_a_check_is_its_sane_end(error: float, powerful: bool) -> None:
    """Four errors of .025 reach from the limit to the worst sane value, whatever was found."""
    for mean in (-5.0, 0.0):
        found = Estimate(mean, error)
        checks = (
            Check.below("it", found, 1.0, sane=1.1),
            Check.above("it", found, 1.0, sane=0.9),
            Check.within("it", found, (1.0, 2.0), sane=(0.9, 2.1)),
            Check.near("it", Estimate(1.0), found, sane=0.1),
        )
        assert [check.powerful for check in checks] == [powerful] * 4


def test_without_a_sane_end_only_exact_numbers_have_power() -> None:
    assert Check.below("it", Estimate(0.0), 1.0).passes
    for check in (
        Check.below("it", Estimate(0.0, 0.001), 1.0),
        Check.above("it", Estimate(2.0, 0.001), 1.0),
        Check.near("it", Estimate(1.0), Estimate(1.0, 0.001), rounding=0.005),
    ):
        assert check.holds and not check.passes and check.answer == "**without power**"
    assert Check.below("it", Estimate(2.0, 0.001), 1.0).answer == "**no**", "what fails, fails"


def test_limits_beyond_what_can_be_have_no_power() -> None:
    """A loss of utilities in [0, 1] is below 1.16, and a share above -.2, whatever happens."""
    assert not Check.below("loss", Estimate(0.01), 1.16, most=1.0).powerful
    assert Check.below("loss", Estimate(0.01), 0.9, most=1.0).powerful
    assert not Check.above("share", Estimate(0.9), 0.0, least=0.0).powerful
    assert not Check.below("loss", Estimate(0.01, 0.05), 0.9, sane=2, most=1.0).powerful


# ------------------------------------------------------------------------------------------ noise

NETWORK = network_of({"a": 2, "b": 2}, "a>b")


def counts_of_some() -> dc.results.Counts:
    codes = np.random.default_rng(1).integers(2, size=(2, 500))
    return dc.tools.count_codes(NETWORK, dict(zip("ab", codes, strict=True)))


def simulated(mechanism: dc.tools.Mechanism, relation: str, epsilon: float, repeats: int) -> pd.DataFrame:
    counts, rng = counts_of_some(), np.random.default_rng(2)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    prior = dc.Dirichlet.uniform(NETWORK)
    each = (dc.simulate(mechanism, counts, prior, promise, rng=rng) for _ in range(repeats))
    return pd.DataFrame([{"repeat": r, **noise_row(release, counts)} for r, release in enumerate(each)])


@every("scale", [0.3, 1.0, 7.5])
def test_the_law_of_noise_by_summation(scale: float) -> None:
    k = np.arange(-2000, 2001)
    weights = np.exp(-np.abs(k) / scale)
    assert law_of_noise(scale) == pytest.approx(float(np.abs(k) @ weights / weights.sum()))


@every("scale", [0.2, 0.5, 1.0, 2.0])
@every("lengths", [(2, 2), (3, 2), (1, 2), (2, 2, 2)])
def test_the_law_of_a_star_by_enumeration(lengths: tuple[int, ...], scale: float) -> None:
    """Rows of each table by their sum and norm; blocks are rows of one sum, and as many have a norm of at most n."""
    reach = 14 if scale < 1 else 40
    steps = np.arange(-reach, reach + 1)
    within = np.ones((2 * reach + 1, reach + 1))  # by sum and norm, up to the reach
    for length in lengths:
        cells = np.stack(np.meshgrid(*[steps] * length), axis=-1).reshape(-1, length)
        norms = np.abs(cells).sum(axis=1)
        near = cells[norms <= reach]
        number = np.zeros_like(within)
        np.add.at(number, (near.sum(axis=1) + reach, np.abs(near).sum(axis=1)), 1)
        within *= number.cumsum(axis=1)
    blocks = np.diff(within.sum(axis=0), prepend=0)
    weights = blocks * np.exp(-np.arange(reach + 1) / scale)
    assert law_of_star(lengths, scale) == pytest.approx(np.arange(reach + 1) @ weights / weights.sum(), rel=1e-3)


@every("scale", [0.2, 1.0, 7.5])
def test_the_law_of_a_star_of_one_table_and_of_a_large_scale(scale: float) -> None:
    for length in (1, 2, 5):
        assert law_of_star([length], scale) == pytest.approx(length * law_of_noise(scale))
    assert law_of_star([2] * 16, 1000.0) == pytest.approx(17 * 1000.0, rel=1e-3)


@pytest.mark.costly("Only at small scales is a star's noise far from that of its cells, which takes many releases.")
@every(("epsilon", "ratio"), [(10.0, 1.5), (5.0, 1.0)])
def test_the_noise_of_a_star_at_a_small_scale_is_that_of_its_law(epsilon: float, ratio: float) -> None:
    """Sixteen tables of one star, scales .2 and .4, where d times one cell's noise is far too small.

    200 releases of two blocks: the mean is within 4 % (one standard error); it may be off by a quarter, 1e-9.
    """
    network = network_of(dict.fromkeys("yabcdefghijklmnop", 2), " ".join(f"y>{x}" for x in "abcdefghijklmnop"))
    codes = np.random.default_rng(1).integers(2, size=(17, 50))
    counts, rng = dc.tools.count_codes(network, dict(zip(network.nodes, codes, strict=True))), np.random.default_rng(2)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="replace", unit="record")
    prior = dc.Dirichlet.uniform(network)
    releases = [dc.simulate(dc.planned(pairs_share=0), counts, prior, promise, rng=rng) for _ in range(200)]
    assert all(len(release.payload.stars) for release in releases)
    rows = pd.DataFrame([{"repeat": r, **noise_row(release, counts)} for r, release in enumerate(releases)])
    assert abs(rows["value"].mean() - 1) < 0.25
    assert noise_check(rows, "it").passes
    (scale,) = set(releases[0].payload.scales.values())
    assert law_of_star([2] * 16, scale) > ratio * 17 * law_of_noise(scale)


@pytest.mark.costly("A check of noise passes real releases of every plan, not made-up rows.")
@every("relation", ["add-remove", "replace"])
@every("mechanism", [dc.planned(pairs_share=0), dc.laplace()], ids=["planned", "laplace"])
def test_simulated_noise_is_that_of_epsilon(mechanism: dc.tools.Mechanism, relation: str) -> None:
    """400 releases of four cells or more: the mean is within 2.5 % (one standard error); it may be off by .2, 1e-15."""
    rows = simulated(mechanism, relation, 0.5, 400)
    assert abs(rows["value"].mean() - 1) < 0.2
    assert noise_check(rows, "it").passes


@pytest.mark.costly("Noise that measured pairs change is seen in 40 releases of each setting only.")
@every("relation", ["add-remove", "replace"])
@every(("records", "epsilon", "pairs", "chosen"), [(500, 0.1, 0, 0), (30_000, 1.0, 6, 0), (3000, 0.59, 4, 2)])
def test_noise_beside_pairs_is_that_of_epsilon(
    records: int, epsilon: float, pairs: int, chosen: int, relation: str
) -> None:
    """Of the default: no pairs, all, and some that were chosen; without what the choice and the number of records cost.

    Where a change moves two cells, four times as many records have twice the sampling error to hide it in. 40 releases:
    the mean is within 3.5 % (one standard error); it may be off by a fifth, 1e-7. The scales that are
    stated cost what is left of epsilon exactly, up to their rounding.
    """
    network = network_of(dict.fromkeys("abcdef", 2), "a>b b>c c>d d>e e>f")
    codes = np.random.default_rng(1).integers(2, size=(6, (4 if relation == "replace" else 1) * records))
    counts, rng = dc.tools.count_codes(network, dict(zip("abcdef", codes, strict=True))), np.random.default_rng(2)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation=relation, unit="record")
    prior = dc.Dirichlet.uniform(network)
    releases = [dc.simulate(dc.planned(), counts, prior, promise, rng=rng) for _ in range(40)]
    assert {(len(each.payload.pairs), each.payload.chosen) for each in releases} == {(pairs, chosen)}
    moved = 2 if relation == "replace" else 1
    for release in releases[:3]:
        cost = sum(moved / scale for *_, scale in noise_law._groups(release, counts))
        assert cost == pytest.approx(noise_law._epsilon_of_tables(release), rel=1e-6)
    rows = pd.DataFrame([{"repeat": r, **noise_row(release, counts)} for r, release in enumerate(releases)])
    assert abs(rows["value"].mean() - 1) < 0.2


def test_half_the_noise_and_scales_that_cost_more_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = SimulatedNoise.discrete_laplace
    monkeypatch.setattr(SimulatedNoise, "discrete_laplace", lambda self, v, scale: drawn(self, v, scale / 2))
    halved = simulated(dc.planned(pairs_share=0), "add-remove", 0.5, 200)
    assert abs(halved["value"].mean() - 0.5) < 0.1
    assert not noise_check(halved, "it").holds
    monkeypatch.undo()
    # The release states scales for a budget of 1; what it says of epsilon is .5.
    counts, rng = counts_of_some(), np.random.default_rng(3)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    releases = [dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng) for _ in range(200)]
    object.__setattr__(promise, "epsilon", promise.epsilon / 2)
    rows = pd.DataFrame([{"repeat": r, **noise_row(release, counts)} for r, release in enumerate(releases)])
    assert not noise_check(rows, "it").holds


def test_a_page_without_noise_rows_fails() -> None:
    assert not noise_check(pd.DataFrame({"repeat": [0], "metric": ["other"], "value": [1.0]}), "it").holds


def test_few_releases_have_no_power() -> None:
    rows = pd.DataFrame({"repeat": [0, 1, 2], "metric": METRIC, "value": [0.6, 1.0, 1.4]})
    check = noise_check(rows, "it")
    assert check.holds and not check.powerful
    assert noise_law.SANE < 0.5, "half the noise is not sane"


def test_what_has_no_tables_is_refused() -> None:
    counts, promise = counts_of_some(), dc.Guarantee(epsilon=1, delta=0, relation="replace", unit="record")
    prior = dc.Dirichlet.uniform(NETWORK)
    release = dc.simulate(dc.research.posterior_sampler(), counts, prior, promise, rng=np.random.default_rng(1))
    with pytest.raises(TypeError, match="noisy tables of counts were expected"):
        noise_row(release, counts)
