"""Laws of row totals against what they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import discreet as dc
from discreet.posterior import totals as module
from discreet.posterior.totals import TotalLaw, log_flat_law, measured_total_law, normal_law, total_laws
from folding import every
from tiny import network_of


def masses(law: TotalLaw, most: int) -> np.ndarray:
    """Probability of every total up to `most`."""
    return np.exp(law.log_density(np.arange(most + 1.0)))


@every("law", [log_flat_law(300), normal_law(40.0, 7.3), normal_law(3.0, 20.0), normal_law(5.0, 0.0)])
def test_laws_are_laws_and_are_drawn_as_they_say(law: TotalLaw) -> None:
    """60,000 draws: the DKW distance at 1e-8 is 0.0126."""
    most = int(law.edges[-1]) + 5
    mass = masses(law, most)
    assert mass.sum() == pytest.approx(1)
    drawn = law.sample(60_000, np.random.default_rng(1))
    found = np.cumsum(np.bincount(drawn, minlength=most + 1)) / drawn.size
    assert np.abs(found - np.cumsum(mass)).max() < 0.0126
    assert np.all(mass[np.unique(drawn)] > 0)


@every(("mean", "deviation"), [(40.0, 7.3), (1000.0, 0.3), (3.0, 20.0), (0.0, 5.0), (1e6, 900.0)])
def test_normal_laws_are_rounded_normals(mean: float, deviation: float) -> None:
    """Within a bin of an eighth of the deviation nothing is told apart."""
    law = normal_law(mean, deviation)
    start = max(int(mean - 9 * deviation), 0)
    totals = np.arange(start, int(mean + 9 * deviation) + 3)
    exact = norm.cdf((totals + 0.5 - mean) / deviation) - norm.cdf((totals - 0.5 - mean) / deviation)
    exact /= exact.sum()
    found = np.exp(law.log_density(totals.astype(float)))
    assert np.abs(np.cumsum(found) - np.cumsum(exact)).max() < 0.06
    assert totals @ found == pytest.approx(totals @ exact, abs=0.02 * deviation)


@every(("mean", "total"), [(49.6, 50), (50.4, 50), (0.3, 0), (-3.0, 0)])
def test_a_total_without_error_is_rounded_and_not_below_none(mean: float, total: int) -> None:
    np.testing.assert_array_equal(normal_law(mean, 0.0).edges, [total, total + 1])


def test_the_most_records_there_can_be_are_possible() -> None:
    """By the prior log((N + 2) / (N + 1)) and the density of the noise, up to the limit itself."""
    law = measured_total_law([(12, 2.0)], most=9)
    numbers = np.arange(10.0)
    logs = np.log(np.log1p(1 / (1 + numbers))) - np.abs(numbers - 12) / 2
    np.testing.assert_allclose(law.log_density(numbers), logs - np.log(np.exp(logs).sum()))
    assert measured_total_law([(3, 2.0)], most=0).sample(2, np.random.default_rng(0)).tolist() == [0, 0]


def test_a_known_total_is_the_only_one() -> None:
    law = normal_law(17.0, 0.0)
    assert masses(law, 40).tolist() == [float(total == 17) for total in range(41)]


@every("most", [0, 1, 2, 7, 100, 2000, 12_345, 10**8])
def test_flat_laws_reach_from_none_to_all(most: int) -> None:
    """Any share of the records may have come: all of them, too, and no more."""
    law = log_flat_law(most)
    ends = law.log_density(np.array([0.0, most, most + 1, 1.2 * most + 2]))
    assert np.all(np.isfinite(ends[:2])) and np.all(ends[2:] == -np.inf)
    # A fold of e has the same mass wherever it is, but for the bins that it cuts.
    if most >= 2000:
        totals = np.arange(2000.0)
        mass = np.exp(law.log_density(totals))
        folds = [mass[(np.log1p(totals) >= k) & (np.log1p(totals) < k + 1)].sum() for k in range(1, 7)]
        np.testing.assert_allclose(folds, 1 / np.log1p(most), rtol=0.35)


NETWORK = network_of({"a": 2, "b": 2, "c": 2}, "a>b a>c b>c")


def sure(network: dc.Network, share: float, draws: int = 4000) -> dc.Tables:
    """The first state of every variable has one probability, whatever the parents."""
    theta = np.array([share, 1 - share])
    cells = {node: np.broadcast_to(theta[:, None], (*network.shape(node), draws)) for node in network.nodes}
    return dc.Tables(network, cells, draws=draws)


@every("share", [0.999, 0.9, 0.5])
def test_rows_get_the_binomial_of_their_parents(share: float) -> None:
    """Near its middle; the bins are coarse on purpose, and no total beyond the public number is possible."""
    n = 2000
    laws = total_laws("c", sure(NETWORK, share), normal_law(n, 0.0), np.random.default_rng(2))
    for j, probability in enumerate((share**2, share * (1 - share), share * (1 - share), (1 - share) ** 2)):
        law = laws[j]
        assert law is not None
        mass = masses(law, 3 * n)
        assert mass.sum() == pytest.approx(1)
        assert mass[n + 1 :].sum() == 0
        median = int(np.searchsorted(np.cumsum(mass), 0.5))
        assert abs(np.log1p(median) - np.log1p(n * probability)) < 0.3
        assert np.all(mass[: n + 1] > 0)


def test_parents_that_are_not_known_leave_the_total_open() -> None:
    """In half of the draws a row gets a tenth of the records, in the other half nine tenths: seldom half of them."""
    network, draws = network_of({"a": 2, "b": 2}, "a>b"), 4000
    share = np.repeat([0.1, 0.9], draws // 2)
    cells = {"a": np.stack([share, 1 - share]), "b": np.full((2, 2, draws), 0.5)}
    laws = total_laws("b", dc.Tables(network, cells, draws=draws), normal_law(1000, 0.0), np.random.default_rng(3))
    for law in laws:
        assert law is not None
        mass = masses(law, 1000)
        assert mass[:200].sum() == pytest.approx(0.5, abs=0.05) and mass[800:].sum() == pytest.approx(0.5, abs=0.05)


def test_roots_have_the_law_of_the_records_and_no_law_stays_none() -> None:
    records = normal_law(50.0, 3.0)
    rng = np.random.default_rng(0)
    assert total_laws("a", sure(NETWORK, 0.5), records, rng) == [records]
    assert total_laws("c", sure(NETWORK, 0.5), None, rng) == [None] * 4


def test_totals_out_of_reach_are_left_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise dc.InputError("too large")

    monkeypatch.setattr(module.Laws, "joint", refuse)
    assert total_laws("c", sure(NETWORK, 0.5), normal_law(9.0, 0.0), np.random.default_rng(0)) == [None] * 4
