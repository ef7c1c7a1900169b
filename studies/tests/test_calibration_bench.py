"""What `bench.calibration` measures with: it finds posteriors that are planted wrong, and passes an exact one.

At epsilon 1,000 the noise of `laplace` is 0 but for a chance below 1e-50, so that the exact posterior is Dirichlet:
prior plus released counts. Planted posteriors bend it.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multinomial

import discreet as dc
from bench import calibration, coverage, ranks
from discreet.mechanisms import mechanisms_over
from folding import every

RUNS = 200
THETA = coverage.network_for("tiny")
NOISELESS = coverage.Cell("tiny", "laplace", dc.Relation.REPLACE, "1000", 20, 1.0)
CHANCE = 1e-9
"""P-value below which a planted fault counts as found, and above which the exact posterior passes. The exact one fails
by chance once in 1e9 for each of two tests of nine quantities, so below 2e-8."""
ERRORS = 6
"""Standard errors, by the normal law once in 5e8 exceeded: for coverage and for a mean rank."""


def counted(release: dc.Release) -> dc.Tables:
    """The released tables."""
    return dc.Tables(release.network, {node: release.payload.table(node) for node in release.network.nodes})


def exact(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """The posterior where there is no noise."""
    return prior.updated(counted(release)).draw(draws, rng=rng)


def half_width(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Concentrations four times as large: the same means, half the standard deviations."""
    return dc.Dirichlet(prior.updated(counted(release)).alpha.map(lambda alpha: 4 * alpha)).draw(draws, rng=rng)


def double_width(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Twice the standard deviations."""
    return dc.Dirichlet(prior.updated(counted(release)).alpha.map(lambda alpha: alpha / 4)).draw(draws, rng=rng)


def shifted(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Three records more in the first state of every row."""
    more = counted(release).map(lambda table: table + 3 * (np.arange(table.shape[-1]) == 0))
    return prior.updated(more).draw(draws, rng=rng)


def wrong_prior(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """A prior of 20 records in each cell."""
    return dc.Dirichlet.uniform(release.network, 20).updated(counted(release)).draw(draws, rng=rng)


def ignorant(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """The prior."""
    return prior.draw(draws, rng=rng)


def gives_up(release: dc.Release, prior: dc.Dirichlet, draws: int, rng: np.random.Generator) -> dc.Tables:
    """Fails whenever the first cell is an even number."""
    if counted(release)["a"][0] % 2 == 0:
        raise dc.DiscreetError("no")
    return exact(release, prior, draws, rng)


PLANTED = (half_width, double_width, shifted, wrong_prior)


@pytest.fixture(scope="module")
def found() -> dict[str, ranks.Ranked]:
    """Ranks by the exact posterior, the planted ones and the prior, of the same releases."""
    return {one.method: one for one in ranks_by(exact, *PLANTED, ignorant)}


def ranks_by(*methods: coverage.Method, runs: int = RUNS) -> list[ranks.Ranked]:
    """Ranks of the truth for each."""
    return ranks.ranked(NOISELESS, THETA, {method.__name__: (method, runs) for method in methods})


# ------------------------------------------------------------------------------------------ ranks


@pytest.mark.costly("That the bench passes a right posterior shows in as many ranks as it makes.")
def test_ranks_of_the_exact_posterior_are_uniform(found: dict[str, ranks.Ranked]) -> None:
    assert len(found["exact"].ranks) == 9
    for name, got in found["exact"].ranks.items():
        tested = ranks.uniformity(got)
        assert min(tested.chi_square, tested.ecdf) > CHANCE, name


@pytest.mark.costly("Ranks of many posteriors show that both tests of calibration find a wrong one.")
@pytest.mark.parametrize("method", [planted.__name__ for planted in PLANTED])
def test_planted_posteriors_are_found_by_both_tests(method: str, found: dict[str, ranks.Ranked]) -> None:
    tested = [ranks.uniformity(got) for got in found[method].ranks.values()]
    assert min(one.chi_square for one in tested) < CHANCE
    assert min(one.ecdf for one in tested) < CHANCE


def test_the_prior_is_found_by_the_fit_alone(found: dict[str, ranks.Ranked]) -> None:
    """No function of the probabilities alone can tell it from the posterior."""
    tested = {name: ranks.uniformity(got).ecdf for name, got in found["ignorant"].ranks.items()}
    assert {name for name, p in tested.items() if p < CHANCE} == {"the fit"}


def test_a_shift_moves_the_mean_rank_to_its_side(found: dict[str, ranks.Ranked]) -> None:
    """Draws too large leave the truth low; 50 ranks is the middle, their standard deviation 29."""
    error = 29 / np.sqrt(RUNS)
    assert found["shifted"].ranks["P(c=0 | a=0, b=0)"].mean() < 49.5 - ERRORS * error


def test_bonferroni_counts_all_tests_of_a_method() -> None:
    rows = calibration.rank_rows(ranks_by(half_width, runs=40))
    smallest = min(p for row in rows for p in (row["p_chi_square"], row["p_ecdf"]))
    assert {row["p_method"] for row in rows} == {min(1.0, 18 * smallest)}


def test_ties_are_split_at_random() -> None:
    """A rank is uniform over the ties: each of 3 values 1,000 times in 3,000, standard deviation 26."""
    rng, draws = np.random.default_rng(1), np.array([0.1, 0.5, 0.5, 0.9])
    found = np.bincount([ranks.ranks_of(draws, 0.5, rng) for _ in range(3000)], minlength=5)
    assert found[0] == found[4] == 0
    assert np.all(np.abs(found[1:4] - 1000) < ERRORS * 26)
    assert ranks.ranks_of(draws, 0.6, rng) == 3


@every(("draws", "apart"), [(99, 1), (2000, 19), (210, 1), (400, 3)])
def test_thinned_draws_are_the_last_ones_of_all_chains(draws: int, apart: int) -> None:
    cells = dc.Tables(
        THETA.network,
        {node: np.ones((*table.shape, 1)) * np.arange(draws) for node, table in THETA.items()},
        draws=draws,
    )
    kept = ranks.thinned(cells, 99)["a"][0]
    assert kept[-1] == draws - 1
    assert set(np.diff(kept)) == {apart}
    assert set(kept % 4) == {0, 1, 2, 3}


def test_too_few_draws_and_truths_that_are_not_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="99 draws are wanted, there are 3"):
        ranks.thinned(dc.Dirichlet.uniform(THETA.network).draw(3, rng=np.random.default_rng(0)), 99)
    fixed = coverage.Cell("tiny", "laplace", dc.Relation.REPLACE, "1", 20, None)
    with pytest.raises(ValueError, match="drawn from a prior"):
        ranks.ranked(fixed, THETA, {"exact": (exact, 1)})


# ------------------------------------------------------------------------------------------ the law of the ECDF


def enumerated(runs: int, last: int) -> list[tuple[np.ndarray, float]]:
    """Every histogram of ranks and its chance."""
    every = [np.array(h) for h in product(range(runs + 1), repeat=last + 1) if sum(h) == runs]
    return [(h, float(multinomial.pmf(h, runs, np.full(last + 1, 1 / (last + 1))))) for h in every]


@every(("runs", "last"), [(4, 3), (5, 2), (6, 1)])
def test_p_values_of_the_ecdf_are_exact(runs: int, last: int) -> None:
    """`P(p <= q) = q` at every q that occurs, by enumeration."""
    every = enumerated(runs, last)
    found = [(ranks.uniformity(np.repeat(np.arange(last + 1), h), last).ecdf, chance) for h, chance in every]
    for p, _ in found:
        assert sum(chance for other, chance in found if other <= p + 1e-9) == pytest.approx(p, abs=1e-9)


@every(("runs", "last"), [(5, 3), (6, 2)])
def test_the_band_holds_the_whole_ecdf_with_its_level(runs: int, last: int) -> None:
    """And any narrower band of its kind would not."""
    low, high = ranks.band(runs, last, 0.8)
    held = 0.0
    for histogram, chance in enumerated(runs, last):
        below = np.cumsum(histogram)[:-1] / runs
        inside = np.all((low - 1e-9 <= below) & (below <= high + 1e-9))
        p = ranks.uniformity(np.repeat(np.arange(last + 1), histogram), last).ecdf
        assert inside == (p > 1 - 0.8)
        held += chance * inside
    assert held >= 0.8


def test_bins_hold_five_ranks_or_more() -> None:
    assert [ranks.bins_for(runs) for runs in (4, 20, 100, 1000)] == [2, 4, 20, 20]
    assert ranks.bins_for(1000, 96) == 1, "97 ranks cannot be split evenly"


# ------------------------------------------------------------------------------------------ coverage


@pytest.mark.costly("That the bench tells right intervals from narrow ones shows in as many runs as it makes.")
def test_coverage_of_the_exact_posterior_and_of_planted_ones() -> None:
    methods = (exact, half_width, double_width, shifted)
    rows = coverage.coverage(NOISELESS, THETA, {method.__name__: (method, RUNS) for method in methods}, 400)
    found = {(row.method, row.quantity): row for row in rows}
    for quantity in ("entries", "marginals", "conditionals"):
        right, narrow, wide, moved = (found[method.__name__, quantity] for method in methods)
        # A quantile of 400 draws lies 0.002 inside on average.
        assert abs(right.coverage - coverage.LEVEL) < 0.002 + ERRORS * right.coverage_error
        assert narrow.coverage < coverage.LEVEL - ERRORS * narrow.coverage_error
        assert wide.coverage > coverage.LEVEL + ERRORS * wide.coverage_error
        assert 0.4 < narrow.width / right.width < 0.7
        assert narrow.relative_width == pytest.approx(narrow.width / right.width)
        assert not calibration.outside(right)
        assert calibration.outside(narrow)
        assert calibration.outside(wide)
        assert moved.coverage < coverage.LEVEL - ERRORS * moved.coverage_error


def test_errors_are_those_of_the_mean_over_runs() -> None:
    rows = dict(enumerate([(0.8, 0.1), (1.0, 0.3), (np.nan, np.nan), (0.9, 0.2), (0.9, 0.2)]))
    first = {0: (0.9, 0.1), 1: (0.9, 0.1), 2: (0.9, 0.1)}
    found = coverage._estimated(NOISELESS, "exact", "entries", rows, first, 1, [1.0, 3.0])
    assert (found.coverage, found.width, found.seconds) == pytest.approx((0.9, 0.2, 2))
    # Variances of three values with distances 0.1, 0, 0.1 and one more 0 from the mean, over four.
    assert (found.coverage_error, found.width_error) == pytest.approx(((0.02 / 3 / 4) ** 0.5,) * 2)
    assert (found.runs, found.failed) == (5, 1)
    # Twice as wide in the two runs that both have, once 0.1 less and once 0.1 more.
    assert found.relative_width == pytest.approx(2)
    assert found.relative_width_error == pytest.approx((0.02 / 2) ** 0.5 / 0.1)


def test_a_cell_is_called_out_beyond_two_errors_of_ten_runs() -> None:
    def called(share: float, error: float, runs: int, quantity: str = "entries") -> bool:
        one = coverage.Estimated(NOISELESS, "exact", quantity, runs, 0, share, error, 0.1, 0.0, 1.0, 0.0, 0.0)
        return calibration.outside(one)

    assert called(0.90, 0.014, 10)
    assert not called(0.90, 0.016, 10)
    assert not called(0.90, 0.014, 9)
    assert called(0.99, 0.009, 10)
    assert not called(0.99, 0.009, 10, "entries at 0 or 1"), "they cannot be held too often"
    assert called(0.90, 0.014, 10, "entries at 0 or 1")


def test_methods_that_give_up_are_counted() -> None:
    even = sum(coverage.simulated(NOISELESS, THETA, run).release.payload.table("a")[0] % 2 == 0 for run in range(20))
    rows = coverage.coverage(NOISELESS, THETA, {"exact": (exact, 5), "gives up": (gives_up, 20)}, 100)
    counts = {row.method: (row.runs, row.failed) for row in rows}
    assert counts == {"exact": (5, 0), "gives up": (20 - even, even)}
    assert 0 < even < 20
    (ranked,) = ranks_by(gives_up, runs=20)
    assert (len(ranked.ranks["the fit"]), ranked.failed) == (20 - even, even)


def test_a_method_draws_the_same_whatever_is_run_beside_it() -> None:
    alone = coverage.coverage(NOISELESS, THETA, {"exact": (exact, 3)}, 100)
    beside = coverage.coverage(NOISELESS, THETA, {"other": (ignorant, 2), "exact": (exact, 3)}, 100)
    assert [one.width for one in alone] == pytest.approx([one.width for one in beside[4:]], nan_ok=True)


def test_entries_of_0_and_1_are_counted_apart() -> None:
    network = THETA.network
    sure = dc.Tables(network, {"a": [0.0, 1.0], "b": THETA["b"], "c": THETA["c"]})
    fixed = coverage.Cell("tiny", "laplace", dc.Relation.REPLACE, "1000", 2000, None)
    rows = coverage.coverage(fixed, sure, {"exact": (exact, 3)}, 400)
    found = {row.quantity: row for row in rows}
    assert found["entries at 0 or 1"].coverage == 1
    assert found["entries at 0 or 1"].width < 0.01
    assert found["entries"].width > 0.03


# ------------------------------------------------------------------------------------------ the command


@every("mechanism", list(mechanisms_over("network")))
def test_methods_are_those_that_the_package_has(mechanism: str) -> None:
    """A method that cannot read a release is refused with the names of those that can."""
    cell = coverage.Cell("tiny", mechanism, dc.Relation.ADD_REMOVE, "1", 50, 1.0)
    release = coverage.simulated(cell, THETA, 0).release
    with pytest.raises(dc.InputError) as refused:
        dc.noise_aware(release, draws=10, rng=np.random.default_rng(0), method="sequential")
    _, _, able = str(refused.value).partition("there is: ")
    named = {name for name in coverage.READ_BY[mechanism] if name not in ("default", "plug-in")}
    assert named == set(able.split(", ")) - {""}


@pytest.mark.costly("A bench that cannot write its tables is found by running it on a tiny network.")
def test_the_command_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(calibration, "find_spec", lambda name: None)
    few = ["--mechanisms", "laplace", "--methods", "pooled", "plug-in", "--runs", "3", "--records", "40"]
    calibration.main(["--networks", "tiny", "nowhere", "--epsilon", "1", *few, "--output", str(tmp_path)])
    printed = capsys.readouterr()
    assert printed.out.count("| tiny | Dirichlet(1) | 40 | laplace | replace | 1 | pooled | 3 |") == 2
    assert printed.out.count("| tiny | own | 40 | laplace | replace | 1 | plug-in | 3 |") == 1
    assert "skipped ranks on nowhere: no network 'nowhere'" in printed.err
    assert "no pictures: matplotlib is missing" in printed.err
    lines = (tmp_path / "coverage.csv").read_text().splitlines()
    assert lines[0].replace('"', "").startswith("network,mechanism,relation,epsilon,records,concentration,method,")
    # Two relations, three laws of the truths, two methods, four kinds of numbers.
    assert len(lines) == 1 + 2 * 3 * 2 * 4
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{end}" for name in ("coverage", "ranks") for end in ("csv", "parquet")
    }


def test_quick_plans_are_smaller() -> None:
    def posteriors(plans: dict) -> int:
        return sum(plan.posteriors(cell) for some in plans.values() for plan in some for cell in plan.cells("tiny"))

    assert posteriors(calibration.QUICK) < posteriors(calibration.PLANS) / 10


@pytest.mark.thorough
def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the extra bench")
    rows = coverage.coverage(NOISELESS, THETA, {"exact": (exact, 3), "plug-in": (half_width, 3)}, 100)
    calibration.pictures(rows, ranks_by(exact, runs=10), tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 6
    assert {name.partition("-")[0] for name in names} == {"coverage", "width", "ranks"}
    assert all(path.stat().st_size > 5000 for path in tmp_path.iterdir())
