"""Numbers: whole and real ones, the law inside their bins, questions about them, and synthetic ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
import shell
from discreet.designs.design_document import DesignPart, read_design, write_design
from discreet.formats.network_content import NetworkContent
from discreet.inference.bin_laws import BinLaw, Inside
from discreet.interchange.bif import parse_bif
from discreet.interchange.bif_writing import format_bif
from discreet.model.query_grammar import NumberQuery, parse_query
from sources import PEER_WARNINGS

pytestmark = PEER_WARNINGS

AGE = dc.Variable("age", bounds=(0, 99), bins=(18, 40, 65), type="integer")
WAIT = dc.Variable("wait", bounds=(0, 60), bins=(5, 10, 30))
SEX = dc.Variable("sex", ("f", "m"))
NETWORK = dc.Network((SEX, AGE, WAIT), {"sex": (), "age": ("sex",), "wait": ()})
LAWS = get_args(Inside)


# ------------------------------------------------------------------------------------------------------------ types


def test_bins_of_whole_numbers_are_named_by_what_is_in_them() -> None:
    assert AGE.states == ("0_to_17", "18_to_39", "40_to_64", "65_to_99") and AGE.edges == (0, 18, 40, 65, 100)
    assert dc.Variable("n", bounds=(0, 3), bins=(1, 2, 3), type="integer").states == ("0", "1", "2", "3")
    assert WAIT.edges == (0, 5, 10, 30, 60)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bounds": (0, 9.5), "type": "integer"}, "are whole"),
        ({"bounds": (0, 9), "bins": (2.5,), "type": "integer"}, "are whole"),
        ({"bounds": (0, 2.0**60), "type": "integer"}, "are whole"),
        ({"bounds": (0, 9), "bins": (10,), "type": "integer"}, "strictly increasing"),
        ({"bounds": (0, 9), "type": "whole"}, "of type real, integer, date, datetime"),
        ({"states": ("a",), "type": "integer"}, "needs numeric bounds"),
    ],
)
def test_what_is_no_type_of_numbers_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        dc.Variable("x", **given)


def test_a_draft_tells_whole_numbers() -> None:
    sample = pa.table({"a": [*range(100)], "b": [k / 4 for k in range(100)], "c": [float(k) for k in range(100)]})
    drafted = dc.tools.draft_schema(sample)["variables"]
    assert [part.get("type") for part in drafted] == ["integer", None, None]  # type: ignore[attr-defined]
    assert drafted[0]["bins"] == [25, 50, 75]  # type: ignore[index]


def test_numbers_with_a_fraction_are_not_predicted_from(posterior: dc.results.PosteriorDraws) -> None:
    with pytest.raises(dc.InputError, match="'age' that is none of its states"):
        dc.predict(posterior, pa.table({"age": [40.0, 40.5]}), "sex", level=0.9)


def test_bins_from_bounds() -> None:
    even = dc.Variable.binned("x", (0, 10), 4, type="integer")
    assert even.bins == (3.0, 6.0, 9.0) and even.states == ("0_to_2", "3_to_5", "6_to_8", "9_to_10")
    assert dc.Variable.binned("x", (0, 2), 9, type="integer").states == ("0", "1", "2")
    wider = np.diff(dc.Variable.binned("x", (0, 1500), 4, ratio=2).edges)
    np.testing.assert_allclose(wider, [100, 200, 400, 800])
    for ratio in (0.5, np.inf, np.nan, 1e200):
        with pytest.raises(dc.InputError, match="ratio"):
            dc.Variable.binned("x", (0, 1), 4, ratio=ratio)


def test_types_travel_with_files(tmp_path: Path) -> None:
    text = format_bif(NetworkContent(NETWORK.variables, NETWORK.parents, {}))
    assert parse_bif(text).variables == NETWORK.variables
    (tmp_path / "s.json").write_text(
        '{"variables": [{"name": "age", "bounds": [0, 99], "bins": [18, 40, 65], "type": "integer"}]}', "utf-8"
    )
    assert dc.Schema.read(tmp_path / "s.json").variables == (AGE,)
    release = released(1000, np.random.default_rng(1))
    design = dc.designs.Design((dc.Variable("n", bounds=(0, 9), type="integer"),))
    assert read_design(DesignPart.model_validate(write_design(design))) == design
    assert dc.Release.loads(release.dumps()).network == NETWORK and '"integer"' in release.dumps()


def test_a_number_with_a_fraction_is_none_where_they_are_whole() -> None:
    good = pa.table({"age": [0, 17, 18, 99]})
    counts = dc.count(dc.read_records(good, dc.Schema((AGE,))), dc.Network((AGE,), {"age": ()}))
    assert counts.tables["age"].tolist() == [2, 1, 0, 1]
    for values, unknown, outside in (([0.5, 3.0], 1, 0), ([100.0, -1.0], 0, 2), (["1.5", "7"], 1, 0)):
        records = dc.read_records(pa.table({"age": values}), dc.Schema((AGE,)))
        (fault,) = dc.check(records)
        assert (fault.unknown + fault.out_of_bounds, fault.out_of_bounds) == (unknown + outside, outside)
        with pytest.raises(dc.InputError, match="'age'"):
            dc.count(records, dc.Network((AGE,), {"age": ()}))
    clipped = dc.read_records(pa.table({"age": [-5.0, 1e300, np.inf]}), dc.Schema((AGE,)), out_of_bounds="clip")
    assert dc.count(clipped, dc.Network((AGE,), {"age": ()})).tables["age"].tolist() == [1, 0, 0, 2]


# ------------------------------------------------------------------------------------------------------------- laws

shares = st.lists(st.floats(0, 1), min_size=4, max_size=4).filter(lambda listed: sum(listed) > 1e-3)


def law_of(variable: dc.Variable, listed: list[float], inside: Inside) -> BinLaw:
    return BinLaw.of_bins(variable, np.array(listed)[:, None] / sum(listed), inside)


@given(listed=shares, inside=st.sampled_from(LAWS), variable=st.sampled_from((AGE, WAIT)))
def test_laws_keep_the_shares_of_bins_and_stay_between_their_ends(
    listed: list[float], inside: Inside, variable: dc.Variable
) -> None:
    law = law_of(variable, listed, inside)
    exact = np.concatenate([[0], np.cumsum(listed) / sum(listed)])
    np.testing.assert_allclose([law.up_to(edge)[0] for edge in law.edges], exact, atol=1e-9)
    grid = np.linspace(-1, 101, 400)
    assert np.all(np.diff([law.up_to(x)[0] for x in grid]) >= -1e-12)
    low, high = law.mean_ends()
    assert low[0] - 1e-9 <= law.mean()[0] <= high[0] + 1e-9
    for share in (0.01, 0.25, 0.5, 0.9, 0.999):
        low, high = law.quantile_ends(share)
        assert low[0] - 1e-9 <= law.quantile(share)[0] <= high[0] + 1e-9
    for number in (-3.0, 0.0, 4.2, 18.0, 17.0, 30.0, 60.0, 99.0, 120.0):
        for itself in (True, False):
            found, low, high = law.above(number, inclusive=itself)
            assert low[0] - 1e-9 <= found[0] <= high[0] + 1e-9


@given(listed=shares, inside=st.sampled_from(LAWS))
def test_whole_numbers_by_summing_over_each(listed: list[float], inside: Inside) -> None:
    """P(X = k) from the distribution function at whole numbers: mean, quantiles and comparisons are what it says."""
    law = law_of(AGE, listed, inside)
    each = np.diff([law.up_to(k)[0] for k in range(101)])
    numbers = np.arange(100)
    assert each.sum() == pytest.approx(1)
    assert law.mean()[0] == pytest.approx(each @ numbers, abs=1e-8)
    for number in (0, 17, 17.5, 18, 64, 99):
        assert law.above(number, inclusive=True)[0][0] == pytest.approx(each[numbers >= number].sum(), abs=1e-9)
        assert law.above(number, inclusive=False)[0][0] == pytest.approx(each[numbers > number].sum(), abs=1e-9)
    for share in (0.1, 0.5, 0.9):
        found = law.quantile(share)[0]
        assert each[numbers <= found].sum() >= share - 1e-6 and each[numbers < found].sum() <= share + 1e-6


@pytest.mark.parametrize("rate", [-0.21, -0.04, 0.003, 0.1])
def test_a_law_that_is_log_linear_everywhere_is_found(rate: float) -> None:
    """Density exp(rate x) in bins of one width: every mean, quantile and share is known; of whole numbers summed up."""
    real = dc.Variable.binned("x", (-10, 50), 6)
    edges, places = np.array(real.edges), np.arange(-10, 50)
    law = BinLaw.of_bins(real, np.diff(np.exp(rate * edges))[:, None] / np.ptp(np.exp(rate * edges)))
    whole = np.exp(rate * places) / np.exp(rate * places).sum()
    integers = dc.Variable.binned("x", (-10, 49), 6, type="integer")
    of_whole = BinLaw.of_bins(integers, whole.reshape(6, 10).sum(axis=1)[:, None])
    top, low = edges[-1], edges[0]
    grown = np.exp(rate * (top - low))
    assert law.mean()[0] == pytest.approx((top * grown - low) / (grown - 1) - 1 / rate, abs=1e-8)
    assert of_whole.mean()[0] == pytest.approx(whole @ places, abs=1e-8)
    for share in (0.01, 0.3, 0.5, 0.99):
        assert law.quantile(share)[0] == pytest.approx(low + np.log1p(share * (grown - 1)) / rate, abs=1e-7)
        assert of_whole.quantile(share)[0] == places[np.searchsorted(np.cumsum(whole), share)]
    for number in (-3, 0, 17):
        assert of_whole.above(number, inclusive=False)[0][0] == pytest.approx(whole[places > number].sum(), abs=1e-9)


@given(listed=shares, inside=st.sampled_from(LAWS), share=st.floats(0.001, 0.999))
def test_quantiles_are_the_inverse_of_shares(listed: list[float], inside: Inside, share: float) -> None:
    law = law_of(WAIT, listed, inside)
    assert law.up_to(law.quantile(share)[0])[0] == pytest.approx(share, abs=1e-6)
    assert law.quantile(share / 2)[0] <= law.quantile(share)[0]


def test_states_that_are_no_bins_do_not_count() -> None:
    listed = np.array([[1, 2, 4, 3, 90]]).T / 100
    own, more = law_of(AGE, [1, 2, 4, 3], "log-linear"), BinLaw.of_bins(AGE, listed)
    assert more.mean()[0] == pytest.approx(own.mean()[0]) and more.mean_ends()[1][0] == pytest.approx(64.8)


def test_the_ends_are_those_of_the_worst_laws() -> None:
    law = law_of(AGE, [1, 2, 4, 3], "log-linear")
    assert law.mean_ends()[0][0] == pytest.approx((0 + 2 * 18 + 4 * 40 + 3 * 65) / 10)
    assert law.mean_ends()[1][0] == pytest.approx((17 + 2 * 39 + 4 * 64 + 3 * 99) / 10)
    assert [part[0] for part in law.above(39, inclusive=False)] == pytest.approx([0.7, 0.7, 0.7])
    assert [part[0] for part in law.above(40, inclusive=False)[1:]] == pytest.approx([0.3, 0.7])
    real = law_of(WAIT, [1, 2, 4, 3], "log-linear")
    assert [part[0] for part in real.above(10, inclusive=True)] == pytest.approx([0.7, 0.7, 0.7])
    assert [part[0] for part in real.above(10, inclusive=False)[1:]] == pytest.approx([0.3, 0.7])
    assert [part[0] for part in real.above(60, inclusive=True)[1:]] == pytest.approx([0.0, 0.3])


@pytest.mark.parametrize("inside", LAWS)
def test_uniform_numbers_are_the_same_under_both_laws(inside: Inside) -> None:
    """Shares as wide as their bins: the distribution function is a line, mean and quantiles are known."""
    law = law_of(AGE, [18, 22, 25, 35], inside)
    assert law.mean()[0] == pytest.approx(49.5)
    assert law.quantile(0.25)[0] in (24, 25) and law.above(49, inclusive=False)[0][0] == pytest.approx(0.5)
    large = dc.Variable("x", bounds=(0, 99_999), bins=(30_000,), type="integer")
    assert law_of(large, [3, 7], inside).mean()[0] == pytest.approx(49_999.5)


def test_samples_follow_the_law() -> None:
    """200,000 numbers: shares within 6 standard errors, 28 of them, false alarms below 1e-7 in all; fixed seed."""
    rng, listed = np.random.default_rng(3), [1, 2, 4, 3]
    for variable, inside in ((AGE, "log-linear"), (AGE, "uniform"), (WAIT, "log-linear"), (WAIT, "uniform")):
        law = law_of(variable, listed, inside)  # type: ignore[arg-type]
        codes = rng.choice(4, 200_000, p=np.array(listed) / 10)
        numbers = law.sample(codes, rng)
        assert numbers.dtype == (np.int64 if variable is AGE else np.float64)
        np.testing.assert_array_equal(np.searchsorted(law.edges, numbers, side="right") - 1, codes)
        for at in (3, 12, 18, 25, 39, 50, 59):
            wanted = law.up_to(at)[0]
            assert abs((numbers < at).mean() - wanted) < 6 * np.sqrt(max(wanted * (1 - wanted), 1e-6) / 2e5) + 1e-6
    empty = law_of(AGE, [1, 0, 1, 0], "log-linear")
    assert {*empty.sample(np.array([1, 1, 3]), rng).tolist()} <= {*range(18, 40), *range(65, 100)}


# -------------------------------------------------------------------------------------------------------- questions


def made_up(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    sex = rng.integers(2, size=n)
    age = np.clip(rng.normal(40 + 8 * sex, 18, n), 0, 99).astype(int)
    return {"sex": np.array(["f", "m"])[sex], "age": age, "wait": np.minimum(rng.exponential(12, n), 60)}


def released(n: int, rng: np.random.Generator, epsilon: float = 2) -> dc.Release:
    counts = dc.count(dc.read_records(pa.table(made_up(n, rng)), NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.planned(numbers_share=0), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=rng)


@pytest.fixture(scope="module")
def posterior() -> dc.results.PosteriorDraws:
    return dc.noise_aware(released(4000, np.random.default_rng(5)), draws=300, rng=np.random.default_rng(6))


def test_queries_of_numbers_are_read_and_written() -> None:
    for text, asked in {
        "E(age)": NumberQuery("mean", "age", None),
        "E(age | sex=f)": NumberQuery("mean", "age", None, (("sex", "f"),)),
        "median(wait)": NumberQuery("quantile", "wait", 0.5),
        "quantile( wait , 0.9 | sex=m)": NumberQuery("quantile", "wait", 0.9, (("sex", "m"),)),
        "P(age > 40 | sex=m)": NumberQuery(">", "age", 40.0, (("sex", "m"),)),
        "P(age>=40)": NumberQuery(">=", "age", 40.0),
        "P(age <= 1e1)": NumberQuery("<=", "age", 10.0),
        "P(wait < 4.5)": NumberQuery("<", "wait", 4.5),
        "P(age <= 2.9999999999999996)": NumberQuery("<=", "age", 2.9999999999999996),
    }.items():
        found = parse_query(text, NETWORK.schema)
        assert found == asked and parse_query(str(found), NETWORK.schema) == asked
    odd = dc.Schema(
        (dc.Variable("a > 3", ("no", "yes")), dc.Variable('x(y), "z"'.replace('"', ""), bounds=(0, 1), bins=(0.5,)))
    )
    assert parse_query("P(a > 3)", odd).targets == (("a > 3", None),)
    named = NumberQuery("mean", "x(y), z", None, (("a > 3", "no"),))
    assert parse_query(str(named), odd) == named


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E(sex)", "no numeric bounds"),
        ("E(age, wait)", "one numeric variable"),
        ("E(age=0_to_17)", "one numeric variable"),
        ("E(nothing)", "no variable 'nothing'"),
        ("quantile(age, 1.5)", "between 0 and 1"),
        ("quantile(age, many)", "between 0 and 1"),
        ("quantile(age)", "one numeric variable"),
        ("E(age | age=0_to_17)", "occurs twice"),
        ("P(sex > 3)", "no numeric bounds"),
        ("P(age > many)", "no variable 'age > many'"),
        ("P(wait | age > 400)", "no whole number of 'age'"),
        ("P(wait | sex > 3)", "'sex' has no numeric bounds and bins"),
    ],
)
def test_what_is_no_question_about_numbers_is_refused(text: str, words: str) -> None:
    with pytest.raises(dc.InputError, match=words):
        parse_query(text, NETWORK.schema)


def test_answers_about_numbers(posterior: dc.results.PosteriorDraws) -> None:
    data = made_up(400_000, np.random.default_rng(7))
    age, men = data["age"], data["sex"] == "m"
    wanted = {
        "E(age)": age.mean(),
        "E(age | sex=m)": age[men].mean(),
        "median(age)": np.median(age),
        "quantile(wait, 0.9)": np.quantile(data["wait"], 0.9),
        "P(age > 50 | sex=f)": (age[~men] > 50).mean(),
        "P(wait <= 5)": (data["wait"] <= 5).mean(),
    }
    for found, (text, truth) in zip(dc.answer_many(posterior, list(wanted), level=0.99), wanted.items(), strict=True):
        (row,) = found.rows
        assert found.query == text.replace("median(age)", "quantile(age, 0.5)") and found.inside == "log-linear"
        assert row["lower"] <= row["law_lower"] <= row["mean"] <= row["law_upper"] <= row["upper"]
        assert row["lower"] <= truth <= row["upper"]
        assert 0 <= row["noise"] <= 1
    mean, share = (dc.answer(posterior, text, level=0.95) for text in ("E(age)", "P(age > 50)"))
    assert mean.unit == "number of age" and mean.kind == "mean" and share.unit == "probability"
    assert mean.rows[0]["upper"] - mean.rows[0]["lower"] > 15  # as wide as a typical bin
    even = dc.answer(posterior, "E(age)", level=0.95, inside="uniform")
    assert even.rows[0]["mean"] != mean.rows[0]["mean"] and even.rows[0]["lower"] <= mean.rows[0]["law_lower"]


def test_comparisons_at_cuts_are_sums_of_bins(posterior: dc.results.PosteriorDraws) -> None:
    """No law inside bins has a say: intervals are those of the bins' own probability."""
    (row,) = dc.answer(posterior, "P(age >= 65)", level=0.95).rows
    (own,) = dc.answer(posterior, "P(age=65_to_99)", level=0.95).rows
    for end in ("mean", "lower", "upper"):
        assert row[end] == pytest.approx(own[end], abs=1e-6)
    assert row["law_lower"] == pytest.approx(row["lower"], abs=1e-6)


def test_intervals_are_wider_at_higher_levels_and_shares_fall(posterior: dc.results.PosteriorDraws) -> None:
    for text in ("E(age)", "quantile(wait, 0.3)", "P(wait > 7)"):
        rows = [dc.answer(posterior, text, level=level).rows[0] for level in (0.5, 0.8, 0.95)]
        for one, other in pairwise(rows):
            for low, high in (("lower", "upper"), ("law_lower", "law_upper")):
                assert other[low] <= one[low] and other[high] >= one[high]
    found = [dc.answer(posterior, f"P(wait > {c})", level=0.9).rows[0]["mean"] for c in range(0, 60, 3)]
    assert all(one >= other for one, other in pairwise(found))


def test_predictive_answers_and_refusals(posterior: dc.results.PosteriorDraws) -> None:
    (row,) = dc.answer(posterior, "E(age | sex=m)", level=0.95, predictive=True).rows
    assert row["lower"] < row["mean"] < row["upper"]
    with pytest.raises(dc.InputError, match="log-linear or uniform"):
        dc.answer(posterior, "E(age)", level=0.95, inside="flat")  # type: ignore[arg-type]
    with pytest.raises(dc.InputError, match="bounds that assume nothing"):
        dc.answer(posterior, "E(age)", level=0.95, assume="nothing")
    with pytest.raises(dc.InputError, match="query 2"):
        dc.answer_many(posterior, ["E(age)", "E(sex)"], level=0.95)


def test_intervals_that_count_the_bins_hold_whatever_is_in_them() -> None:
    """20 data sets whose numbers sit at the low end of each bin, epsilon 2: E and median, 95 % intervals.

    The interval that counts the bins fails in none; that of the law inside them is far off, and fails in most.
    """
    rng = np.random.default_rng(8)
    law = 0
    promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
    network = dc.Network((AGE,), {"age": ()})
    for _ in range(20):
        shares = rng.dirichlet([2, 2, 2, 2])
        low = np.array(AGE.edges[:-1])
        data = pa.table({"age": low[rng.choice(4, 2000, p=shares)]})
        counts = dc.count(dc.read_records(data, network.schema), network)
        release = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
        drawn = dc.noise_aware(release, draws=200, rng=rng)
        truth = float(low @ shares)
        (row,) = dc.answer(drawn, "E(age)", level=0.95).rows
        assert row["lower"] - 1.0 <= truth <= row["upper"]
        law += row["law_lower"] <= truth <= row["law_upper"]
    assert law < 4


def test_synthetic_numbers_have_the_type_and_the_mean_that_they_had(posterior: dc.results.PosteriorDraws) -> None:
    data = made_up(100_000, np.random.default_rng(9))
    table = dc.sample(posterior, 20_000, rng=np.random.default_rng(1))[0].read_all()
    assert table.schema.field("age").type == pa.int64() and table.schema.field("wait").type == pa.float64()
    for name in ("age", "wait"):
        numbers = table[name].to_numpy()
        assert abs(numbers.mean() - data[name].mean()) < 0.1 * data[name].std()
        assert abs(numbers.std() / data[name].std() - 1) < 0.1


def test_numbers_from_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = shell.opened(tmp_path, monkeypatch, capfd)
    Path("r.json").write_text(released(2000, np.random.default_rng(2)).dumps(), "utf-8")
    told = run.json('query r.json "E(age | sex=m)" "P(wait > 7)" --draws 200')["answers"]
    assert [part["kind"] for part in told] == ["mean", "marginal"]
    assert told[0]["unit"] == "number of age" and told[0]["inside"] == "log-linear"
    assert told[0]["values"][0]["lower"] <= told[0]["values"][0]["law_lower"]
    shown = run('query r.json "E(age)" --inside uniform --draws 200')[1]
    assert "by the uniform law inside bins" in shown and "age=mean" not in shown and "whatever the law is" in shown
    code, _, said = run('query r.json "E(age)" --inside flat --draws 200')
    assert code == 2 and "'log-linear', 'uniform'" in said
    assert run("sample r.json -n 50 --output s.csv --draws 200")[0] == 0
    assert pd.read_csv("s.csv")["age"].dtype == np.int64


def test_an_interval_holds_whatever_the_law_is_only_where_it_rests_on_a_measurement() -> None:
    """Not where the network is believed of a pair that no table holds: such an interval may miss by any law."""
    rng = np.random.default_rng(6)
    age = dc.Variable("age", bounds=(0, 90), bins=(30, 60))
    network = dc.Network.empty([age, dc.Variable("sex", ("m", "f"))])
    codes = {"age": rng.integers(3, size=3000), "sex": rng.integers(2, size=3000)}
    counts = dc.tools.count_codes(network, codes)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="person")
    made = dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), promise, rng=rng)
    posterior = made.posterior(draws=100, rng=1)
    told = ("E({})", "median({})", "quantile({}, 0.9)", "P({} > 40)")
    for form in told:
        alone, among = form.format("age"), form.format("age").replace(")", " | sex=m)")
        measured, assumed = dc.answer_many(posterior, [alone, among])
        assert (measured.basis, assumed.basis) == ("measured", "assumed")
        assert "the interval above holds whatever the law is" in str(measured)
        assert "whatever the law" not in str(assumed) and "law inside bins" in str(assumed)
