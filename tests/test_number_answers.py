"""Numbers read from released sums: limits, agreement of all ways to one number, and cover of intervals.

Seeds are fixed. With noise that never shows, an answer is the table's own: an absolute bound of a millionth of the
column's range is the rounding of steps and sums. Cover: at least 26 of 40 releases where 38 are promised, false alarm
below 1e-9 for each question; below 1e-7 for the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet as dc
from discreet.inference.bin_laws import BinLaw, move_means
from discreet.mechanisms.noise import SimulatedNoise
from discreet.posterior.number_draws import condition, number_evidence
from discreet.releases.combined import Combined
from discreet.releases.kinds.number_tables import NumberNoise, NumberTables, moment_names, row_scopes
from folding import every

AGE = dc.Variable("age", bounds=(0, 99), bins=(30, 60), type="integer")
WAIT = dc.Variable("wait", bounds=(0, 60), bins=(5, 10, 20))
SEX = dc.Variable("sex", ("f", "m"))
NETWORK = dc.Network((SEX, AGE, WAIT), {"sex": (), "age": ("sex",), "wait": ("age",)})
QUESTIONS = ("E(age)", "E(age | sex=m)", "E(wait)", "sd(age)", "sd(wait)", "cor(age, wait)", "median(age)",
             "quantile(wait, 0.9)", "P(age > 50)", "P(wait > 7 | sex=m)")  # fmt: skip


def made_up(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    sex = rng.integers(2, size=n)
    age = np.clip(rng.normal(40 + 8 * sex, 18, n), 0, 99).astype(int)
    return {"sex": np.array(["f", "m"])[sex], "age": age, "wait": np.minimum(rng.exponential(4 + age / 6), 60)}


def released(data: dict[str, np.ndarray], epsilon: float, rng: int, delta: object = 0, **options: float) -> dc.Release:
    counts = dc.count(dc.read_records(pa.table(data), NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=epsilon, delta=delta, relation="add-remove", unit="record")
    mechanism = dc.planned(**{"numbers_share": 0.2, **options})
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)


def truths(data: dict[str, np.ndarray]) -> dict[str, float]:
    age, wait, men = data["age"], data["wait"], data["sex"] == "m"
    values = (age.mean(), age[men].mean(), wait.mean(), age.std(), wait.std(), np.corrcoef(age, wait)[0, 1],
              np.quantile(age, 0.5, method="inverted_cdf"), np.quantile(wait, 0.9, method="inverted_cdf"),
              (age > 50).mean(), (wait[men] > 7).mean())  # fmt: skip
    return dict(zip(QUESTIONS, map(float, values), strict=True))


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return made_up(20_000, np.random.default_rng(1))


@pytest.fixture(scope="module")
def exact(data: dict[str, np.ndarray]) -> dc.results.PosteriorDraws:
    """Read from a release whose noise never shows."""
    return dc.noise_aware(released(data, 3000, 2), draws=400, rng=3)


@pytest.fixture(scope="module")
def noisy(data: dict[str, np.ndarray]) -> dc.results.PosteriorDraws:
    return dc.noise_aware(released(data, 1, 2), draws=400, rng=3)


@pytest.mark.costly("Many releases, to measure what is read of their noise.")
@every("delta", [0, "1/1000"])
def test_the_noise_that_is_read_is_that_of_the_draws(delta: object) -> None:
    """Standard deviations of 300 draws are within a fifth, by more than 4 of their standard errors."""
    data, mechanism, prior = (
        made_up(3000, np.random.default_rng(1)),
        dc.planned(numbers_share=0.5),
        dc.Dirichlet.uniform(NETWORK),
    )
    release = released(data, 1, 2, delta, numbers_share=0.5)
    noise, evidence = release.calibration, number_evidence(Combined([[release]]))
    assert isinstance(noise, dc.kinds.NumberNoise) and evidence is not None and (noise.rho is not None) == (delta != 0)
    counts = dc.count(dc.read_records(pa.table(data), NETWORK.schema), NETWORK)
    source = SimulatedNoise(np.random.default_rng(4))
    many: list[Any] = [mechanism.draw(counts, prior, noise, source) for _ in range(300)]
    offsets, moments = (np.array([getattr(payload, name) for payload in many]) for name in ("offsets", "moments"))
    rows = np.array([np.concatenate([part.sums for part in payload.rows_by_family]) for payload in many])
    assert many[0].parts[:2] == (True, tuple(row_scopes(NETWORK)))
    for drawn, read in ((offsets, evidence.deviations[0]), (moments, evidence.deviations[1]),
                        (rows, evidence.noise.row_law.variance**0.5)):  # fmt: skip
        assert abs(drawn.std(axis=0) / read - 1).max() < 0.2


def test_without_noise_a_moment_is_the_tables_own_with_the_sampling_interval(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    """A quarter of a standard error of the mean over 400 draws is their Monte Carlo error five times."""
    age, men = data["age"], data["age"][data["sex"] == "m"]
    for query, truth, error in (
        ("E(age)", age.mean(), age.std() / np.sqrt(len(age))),
        ("E(wait)", data["wait"].mean(), data["wait"].std() / np.sqrt(len(age))),
        ("E(age | sex=m)", men.mean(), men.std() / np.sqrt(len(men))),
    ):
        (row,) = exact.answer(query).rows
        assert abs(row["mean"] - truth) < 0.25 * error, query
        assert 0.85 < (row["upper"] - row["lower"]) / (2 * 1.96 * error) < 1.2, query
    correlation = np.corrcoef(age, data["wait"])[0, 1]
    for query, truth, error in (
        ("sd(age)", age.std(), age.std() / np.sqrt(2 * len(age))),
        ("cor(age, wait)", correlation, (1 - correlation**2) / np.sqrt(len(age))),
    ):
        (row,) = exact.answer(query).rows
        assert row["lower"] <= truth <= row["upper"] and row["upper"] - row["lower"] < 2 * 2 * 1.96 * error, query


def test_without_noise_all_that_is_known_of_a_quantile_or_share_holds_it(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    for query, truth in truths(data).items():
        (row,) = exact.answer(query).rows
        assert row["lower"] <= truth <= row["upper"], query


def test_rows_of_a_family_average_to_the_column(noisy: dc.results.PosteriorDraws) -> None:
    """Under every draw: E(x) is the mean over sexes of E(x | sex)."""
    numbers = noisy.numbers
    assert numbers is not None
    law, rows, column = numbers.joint(("age", "sex")), numbers.rows("age", ("sex",)), numbers.column("age")
    averaged, own = (law * rows).sum(axis=(0, 1)), (law.sum(axis=1) * column.offsets).sum(axis=0)
    # Clipping to the bins is the only difference, and seldom needed here.
    assert np.quantile(np.abs(averaged - own), 0.9) < 1e-9


def test_mean_law_and_sample_of_a_draw_agree(noisy: dc.results.PosteriorDraws) -> None:
    """The law from which quantiles are read has the mean that is answered."""
    numbers = noisy.numbers
    assert numbers is not None
    for name, shift in (("age", 0.5), ("wait", 0.0)):
        column, grid = numbers.column(name), numbers.grids[name]
        mean = (column.bins * (grid.middles[:, None] + column.offsets)).sum(axis=0)
        of_law = (column.law.shares * column.law.centres()).sum(axis=0) / column.law.shares.sum(axis=0)
        assert np.abs(of_law - mean).max() < 1e-3 * np.ptp(grid.edges)
        assert float(noisy.answer(f"E({name})").rows[0]["mean"]) == pytest.approx(mean.mean() - shift, rel=1e-7)


def test_equal_questions_have_equal_answers_in_any_order(data: dict[str, np.ndarray]) -> None:
    release = released(data, 1, 2)
    first, second = (dc.noise_aware(release, draws=100, rng=3) for _ in range(2))
    forward = [first.answer(query) for query in QUESTIONS]
    backward = [second.answer(query) for query in reversed(QUESTIONS)]
    assert forward == backward[::-1]


def test_other_draws_have_other_noise(data: dict[str, np.ndarray]) -> None:
    """Bounds on decisions rest on it: what is drawn anew is independent of what was seen. 400 draws: seven errors."""
    release, drawn = released(data, 1, 2), []
    for seed in (3, 4):
        numbers = dc.noise_aware(release, draws=400, rng=seed).numbers
        assert numbers is not None
        column = numbers.column("age")
        drawn.append(((column.bins * column.offsets).sum(axis=0), numbers.rows("age", ("sex",))[1, 1]))
    for first, second in zip(*drawn, strict=True):
        assert abs(np.corrcoef(first, second)[0, 1]) < 7 / 20


def test_gaps_change_no_moment() -> None:
    """Values missing completely at random: the correlation of those that are known, with noise that never shows."""
    rng = np.random.default_rng(4)
    x = rng.normal(50, 12, 20_000).clip(0, 99)
    z = (x + rng.normal(0, 10, 20_000)).clip(0, 99)
    bins = {name: dc.Variable(name, bounds=(0, 100), bins=(40, 60), missing="gap") for name in "xz"}
    network = dc.Network(tuple(bins.values()), {"x": (), "z": ("x",)})
    gaps = rng.random((2, 20_000)) < [[0.4], [0.3]]
    table = pa.table({"x": pa.array(x, mask=gaps[0]), "z": pa.array(z, mask=gaps[1])})
    counts = dc.count(dc.read_records(table, network.schema, missing="keep"), network)
    promise = dc.Guarantee(epsilon=3000, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    posterior = dc.noise_aware(release, draws=400, rng=3)
    known = ~gaps.any(axis=0)
    for query, truth in (
        ("cor(x, z)", np.corrcoef(x[known], z[known])[0, 1]),
        ("sd(x)", x[~gaps[0]].std()),
        ("E(x)", x[~gaps[0]].mean()),
        ("quantile(x, 0.1)", np.quantile(x[~gaps[0]], 0.1)),
    ):
        (row,) = posterior.answer(query).rows
        assert row["lower"] <= truth <= row["upper"] and row["upper"] - row["lower"] < 0.15 * truth, query


def test_stored_draws_give_the_same_numbers(noisy: dc.results.PosteriorDraws, tmp_path: object) -> None:
    path = f"{tmp_path}/p.draws"
    noisy.save(path)
    again = dc.results.PosteriorDraws.load(path)
    assert [again.answer(query) for query in QUESTIONS] == [noisy.answer(query) for query in QUESTIONS]


def test_sums_narrow_an_interval_many_times(data: dict[str, np.ndarray], noisy: dc.results.PosteriorDraws) -> None:
    plain = dc.noise_aware(released(data, 1, 2, numbers_share=0), draws=400, rng=3)
    for query in ("E(age)", "E(age | sex=m)", "E(wait)"):
        (wide,), (narrow,) = plain.answer(query).rows, noisy.answer(query).rows
        assert 8 * (narrow["upper"] - narrow["lower"]) < wide["upper"] - wide["lower"]
        assert narrow["lower"] == narrow["law_lower"] and not plain.answer(query).sums


def test_answers_say_what_they_were_read_from(noisy: dc.results.PosteriorDraws) -> None:
    assert noisy.answer("E(age)").sums[0] == "sum of age"
    assert "sums of age by sex" in noisy.answer("E(age | sex=m)").sums
    assert "no law inside bins is needed" in str(noisy.answer("E(age)"))
    assert "whatever the law" in str(noisy.answer("median(age)"))
    assert noisy.answer("cor(age, wait)").kind == "correlation"
    given = noisy.answer("cor(age, wait | sex=m)")
    assert given.sums == noisy.answer("cor(age, wait)").sums and "inside the bins" in given.assumes[-1]


def test_given_what_no_sum_speaks_of_the_interval_allows_every_law_inside_bins(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    """No family has wait and sex: of where in a bin men wait, no sum tells, however little the noise."""
    found, told = exact.answer("E(wait | sex=m)"), exact.answer("E(age | sex=m)")
    (row,), truth = found.rows, data["wait"][data["sex"] == "m"].mean()
    assert row["lower"] <= truth <= row["upper"] and row["upper"] - row["lower"] > 5
    assert row["law_upper"] - row["law_lower"] < 1
    assert any("sex" in reason and "inside a bin" in reason for reason in found.assumes) and not told.assumes


@pytest.mark.costly("40 releases are read: that intervals hold the truth as often as they say shows in nothing less.")
def test_intervals_hold_the_truth() -> None:
    population = made_up(200_000, np.random.default_rng(5))
    wanted, held = truths(population), dict.fromkeys(QUESTIONS, 0)
    for seed in range(40):
        rng = np.random.default_rng([9, seed])
        taken = rng.integers(200_000, size=4000)
        posterior = dc.noise_aware(
            released({name: values[taken] for name, values in population.items()}, 1, seed), draws=400, rng=rng
        )
        for query, truth in wanted.items():
            (row,) = posterior.answer(query).rows
            held[query] += row["lower"] <= truth <= row["upper"]
    assert min(held.values()) >= 26, held


# ------------------------------------------------------------------------------------------------------------- regress


def test_a_regression_on_numbers_is_that_of_the_records(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    columns = np.column_stack([data["age"], data["sex"] == "m", np.ones(len(data["age"]))])
    slopes = np.linalg.lstsq(columns[:, [0, 2]], data["wait"], rcond=None)[0]
    found = dc.regress(exact, "wait", ["age"])
    assert found.mean()[:2] == pytest.approx(slopes, rel=0.05) and found.basis == "measured" and not found.assumes
    # A share on a number: sums by rows carry it.
    share = np.linalg.lstsq(columns[:, [0, 2]], columns[:, 1], rcond=None)[0]
    assert dc.regress(exact, "sex", ["age"]).mean()[:2] == pytest.approx(share, rel=0.08)


def test_a_regression_on_bins_alone_names_its_law(data: dict[str, np.ndarray]) -> None:
    plain = dc.noise_aware(released(data, 1, 2, numbers_share=0), draws=100, rng=3)
    found = dc.regress(plain, "wait", ["age"])
    assert found.basis == "assumed" and any("log-linear law" in reason for reason in found.assumes)


# ----------------------------------------------------------------------------------------------------------- the parts


def test_conditioning_on_a_sum_is_the_normal_posterior() -> None:
    """Parts of variances 1 and 4, their sum with noise 2: gains 1/9 and 4/9; bounds of seven standard errors."""
    rng = np.random.default_rng(1)
    parts = rng.standard_normal((2, 20_000)) * [[1.0], [2.0]]
    moved = condition(parts, np.ones_like(parts), np.float64(3.0), np.float64(2.0), rng)
    assert moved.mean(axis=1) == pytest.approx([3 / 9, 12 / 9], abs=0.08)
    assert moved.var(axis=1) == pytest.approx([1 - 1 / 9, 4 - 16 / 9], abs=0.16)


def test_tilted_laws_have_their_means_and_keep_the_shares() -> None:
    edges = np.array([0.0, 1, 2, 4, 5, 9])
    law = BinLaw(edges, np.array([[0.1], [0.2], [0.3], [0.1], [0.3]]), np.full((5, 1), 1e-9), integer=False)
    larger, targets = np.array([0, 0, 0, 1, 1]), np.array([[3.1], [5.5]])
    moved = move_means(law, larger, targets)
    for at, target in enumerate(targets[:, 0]):
        own = larger == at
        assert moved.shares[own].sum() == pytest.approx(law.shares[own].sum(), rel=1e-12)
        mean = float((moved.shares[own] * moved.centres()[own]).sum() / moved.shares[own].sum())
        assert mean == pytest.approx(target, abs=1e-4)


def test_the_variance_of_a_law_is_that_of_its_numbers() -> None:
    """By sampling 400,000 numbers: seven standard errors of a variance are 2 %."""
    for kind, integer in (("real", False), ("integer", True)):
        variable = dc.Variable("x", bounds=(0, 60), bins=(5, 20), type=kind)
        law = BinLaw.of_bins(variable, np.array([[0.5], [0.3], [0.2]]))
        rng = np.random.default_rng(1)
        drawn = law.sample(rng.choice(3, 400_000, p=[0.5, 0.3, 0.2]), rng)
        low, high = law.variance_ends()
        assert law.integer == integer and float(law.variance()[0]) == pytest.approx(float(drawn.var()), rel=0.02)
        assert low[0] <= law.variance()[0] <= high[0]


def test_sums_of_the_same_records_are_pooled(data: dict[str, np.ndarray]) -> None:
    """Sums of two releases of the same records are weighted by precision; of different records one release is read."""
    first, second = (released(data, epsilon, seed) for epsilon, seed in ((2, 5), (1, 6)))
    pooled = number_evidence(dc.combine(first, second, data="same"))
    apart = number_evidence(dc.combine(first, second, data="different"))
    assert pooled is not None and apart is not None
    for part, scale in (("offsets", "offset_scale"), ("moments", "moment_scale")):
        values = [getattr(release.payload, part) for release in (first, second)]
        precision = [getattr(release.calibration, scale) ** -2.0 for release in (first, second)]
        mean = (precision[0] * values[0] + precision[1] * values[1]) / sum(precision)
        np.testing.assert_allclose(getattr(pooled.payload, part), mean, rtol=1e-9)
        assert getattr(pooled.noise, scale) == pytest.approx(sum(precision) ** -0.5)
        np.testing.assert_array_equal(getattr(apart.payload, part), values[0])
    rows = [release.payload.rows_by_family[0].sums for release in (first, second)]
    assert np.all(np.abs(pooled.payload.rows_by_family[0].sums - rows[0]) < np.abs(rows[1] - rows[0]))
    assert pooled.noise.row_scale < first.calibration.row_scale
    assert [ruler.leaves for ruler in pooled.payload.rulers] == [ruler.leaves for ruler in first.payload.rulers]


def test_rulers_with_other_leaves_are_left_out(data: dict[str, np.ndarray]) -> None:
    """Rulers are pooled where their leaves are the same ones; else the more precise release's are read."""
    first, second, third = released(data, 2, 5), released(data, 2, 6), released(data, "0.1", 7)
    assert [ruler.leaves for ruler in first.payload.rulers] != [ruler.leaves for ruler in third.payload.rulers]
    alike, other = (number_evidence(dc.combine(first, more, data="same")) for more in (second, third))
    assert alike is not None and other is not None
    assert alike.noise.leaf_scale == pytest.approx(first.calibration.leaf_scale / np.sqrt(2))
    counts = first.payload.rulers[0].counts
    np.testing.assert_allclose(alike.payload.rulers[0].counts, (counts + second.payload.rulers[0].counts) / 2)
    np.testing.assert_array_equal(other.payload.rulers[0].counts, counts)
    assert other.noise.leaf_scale == pytest.approx(first.calibration.leaf_scale)


def test_of_many_columns_and_few_records_means_alone_are_released() -> None:
    """Their noise is a fourth of what it would be beside the rest; what is left out is said, or bins are read."""
    rng, names = np.random.default_rng(4), [f"x{at}" for at in range(8)]
    columns = [dc.Variable.binned(name, (0, 100), 3) for name in names]
    network = dc.Network(columns, {name: names[max(at - 1, 0) : at] for at, name in enumerate(names)})
    walk = np.clip(50 + np.cumsum(rng.normal(0, 8, (8, 1000)), axis=0), 0, 99.9)
    counts = dc.count(dc.read_records(pa.table(dict(zip(names, walk, strict=True))), network.schema), network)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    payload, noise = release.payload, release.calibration
    assert isinstance(payload, NumberTables) and isinstance(noise, NumberNoise)
    assert payload.parts == (False, (), tuple((name, 1) for name in names))
    used = noise.spread(network, payload.parts)
    assert used.offset_scale == pytest.approx(noise.offset_scale / 5)
    posterior, step = dc.noise_aware(release, draws=400, rng=2), payload.grids["x0"].step
    planned = noise.planned_numbers(network, 1000)[0]
    assert (planned.moments, planned.families, planned.leaves) == (False, 0, 1)
    assert planned.noise == pytest.approx(used.offset_law(network).raw_variance ** 0.5 * step / 1000)
    errors = []
    for name, column in zip(names, walk, strict=True):
        (row,) = dc.answer(posterior, f"E({name})").rows
        errors.append((row["mean"] - column.mean()) / (row["upper"] - row["lower"]) * 3.92)
        # Half as wide as by the noise beside the rest alone.
        assert row["upper"] - row["lower"] < 2 * 1.96 * planned.noise * 5 / 2
        deviation = dc.answer(posterior, f"sd({name})").rows[0]
        assert deviation["lower"] < deviation["law_lower"] < deviation["law_upper"] < deviation["upper"]
    assert np.square(errors).mean() < 3  # of 8 squares of standard normal variates: false alarm .2 %
    with pytest.raises(dc.InputError, match="too few for sums of squares and products") as refused:
        dc.answer(posterior, "cor(x0, x1)")
    assert "\n" not in str(refused.value)
    assert any("law" in sentence for sentence in dc.regress(posterior, "x1", ["x0"]).assumes)
    with pytest.raises(dc.InputError):
        replace(release, payload=replace(payload, moments=np.zeros(len(moment_names(network)), np.int64)))


def test_two_releases_tell_more_than_one() -> None:
    """The interval of a mean is shorter by two releases of the same records: noise of both is independent."""
    people = made_up(4000, np.random.default_rng(2))
    alone, other = released(people, 0.5, 8), released(people, 0.5, 9)
    widths = []
    for evidence in (alone, dc.combine(alone, other, data="same")):
        (row,) = dc.answer(dc.noise_aware(evidence, draws=400, rng=1), "E(wait)").rows
        widths.append(row["upper"] - row["lower"])
    assert widths[1] < 0.85 * widths[0]
