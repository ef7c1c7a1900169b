"""Numbers and comparisons as evidence: exact unions at edges, one probability by every way, bounds, lines.

Seeds are fixed. What is exact is compared to a millionth: joint laws of many draws are kept in single precision. Where
noise never shows, answers along lines are compared with the records', up to what a line leaves of a curve.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog

import discreet as dc
from discreet.inference.bin_laws import BinLaw
from discreet.model.query_grammar import NumberRange, parse_query
from discreet.posterior.number_lines import slopes_inside
from discreet.queries.conditioning import condition_on
from discreet.queries.observed_numbers import bound_event
from discreet.queries.query import find_number
from folding import every
from serving import served

AGE = dc.Variable("age", bounds=(0, 100), bins=(40, 60))
WEEKS = dc.Variable("weeks", bounds=(0, 52), bins=(10, 20), type="integer")
PRESSURE = dc.Variable("pressure", bounds=(0, 250), bins=(100, 125, 150))
SEX, ILL = dc.Variable("sex", ("f", "m")), dc.Variable("ill", ("no", "yes"))
NETWORK = dc.Network(
    (SEX, AGE, PRESSURE, ILL, WEEKS),
    {"sex": (), "age": ("sex",), "pressure": ("age",), "ill": ("age",), "weeks": ("ill",)},
)
RECORDS = 20_000


def made_up(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pressure follows age along a line, with normal numbers about it."""
    sex = rng.integers(2, size=RECORDS)
    age = np.clip(rng.normal(50 + 5 * sex, 15, RECORDS), 0, 99.9)
    ill = rng.random(RECORDS) < 1 / (1 + np.exp(-(age - 60) / 12))
    return {
        "sex": np.array(["f", "m"])[sex], "age": age, "ill": np.array(["no", "yes"])[ill.astype(int)],
        "pressure": np.clip(90 + 0.8 * age + rng.normal(0, 10, RECORDS), 0, 250),
        "weeks": np.minimum(rng.poisson(8 + 6 * ill), 52),
    }  # fmt: skip


def read(data: dict[str, np.ndarray], epsilon: float, **options: float) -> dc.results.PosteriorDraws:
    counts = dc.count(dc.read_records(pa.table(data), NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    mechanism = dc.planned(**{"numbers_share": 0.2, **options})
    return dc.noise_aware(dc.simulate(mechanism, counts, dc.Dirichlet.uniform(NETWORK), promise, rng=2),
                          draws=200, rng=3)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    return made_up(np.random.default_rng(1))


@pytest.fixture(scope="module")
def exact(data: dict[str, np.ndarray]) -> dc.results.PosteriorDraws:
    """Read from a release whose noise never shows."""
    return read(data, 3000)


@pytest.fixture(scope="module")
def noisy(data: dict[str, np.ndarray]) -> dc.results.PosteriorDraws:
    return read(data, 1)


def chance(posterior: dc.results.PosteriorDraws, evidence: str) -> np.ndarray:
    """Probability of evidence in every draw."""
    seen = parse_query(f"P(sex | {evidence})", NETWORK.schema).evidence
    return np.exp(condition_on(posterior, seen, predictive=False).given.log_evidence)


def number(posterior: dc.results.PosteriorDraws, text: str) -> np.ndarray:
    query = parse_query(text, NETWORK.schema)
    return find_number(query, posterior)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------------- the text


@every(
    ("text", "written"),
    [
        ("P(ill | age>65)", "P(ill | age > 65)"),
        ("E(age | pressure >= 140, sex=f, pressure < 160)", "E(age | pressure >= 140, pressure < 160, sex=f)"),
        ("P(age > 50 | weeks=3)", "P(age > 50 | weeks=3)"),
        ("P(ill | age=40_to_60)", "P(ill | age=40_to_60)"),
        ("P(ill | age > 1, age > 50, age <= 70, age < 70)", "P(ill | age > 50, age < 70)"),
    ],
)
def test_evidence_is_read_and_written(text: str, written: str) -> None:
    query = parse_query(text, NETWORK.schema)
    assert str(query) == written and parse_query(written, NETWORK.schema) == query


def test_a_state_that_looks_like_a_number_is_the_state() -> None:
    schema = dc.Schema((dc.Variable("grade", ("1", "2")), dc.Variable("x", bounds=(0, 3), bins=(1, 2), type="integer")))
    assert parse_query("P(x | grade=1)", schema).evidence == (("grade", "1"),)
    assert parse_query("P(grade | x=1)", schema).evidence == (("x", "1"),)  # the bin that holds 1 alone
    assert parse_query("P(grade | x=3)", schema).evidence == (("x", NumberRange(3, 3)),)


@every(
    ("text", "words"),
    [
        ("P(ill | age=200)", "200 lies outside the bounds of 'age', 0 to 100"),
        ("P(ill | age > 70, age < 60)", "no number of 'age', 0 to 100, meets age > 70, age < 60"),
        ("P(ill | age > 100)", "no number of 'age'"),
        ("P(ill | weeks=3.5)", "no whole number of 'weeks', 0 to 52, meets weeks=3.5"),
        ("P(ill | weeks > 3, weeks < 4)", "no whole number"),
        ("P(age | ill > 3)", "'ill' has no numeric bounds and bins"),
        ("P(age | ill=3)", "'ill' has no state '3'"),
        ("P(ill | age=40_to_60, age > 50)", "occurs twice"),
        ("P(ill | age=nan)", "no state 'nan'"),
    ],
)
def test_wrong_evidence_is_refused_in_a_line(text: str, words: str) -> None:
    with pytest.raises(dc.InputError, match=words) as error:
        parse_query(text, NETWORK.schema)
    assert "\n" not in str(error.value)


def test_what_takes_states_alone_says_so(noisy: dc.results.PosteriorDraws) -> None:
    with pytest.raises(dc.InputError, match="evidence is a state of 'age'"):
        dc.decisions.payoff(NETWORK, "P(ill | age > 65)", {"treat": {"no": 0, "yes": 1}})(noisy.probabilities, "treat")
    with pytest.raises(dc.InputError, match="take states as evidence"):
        noisy.answer("P(ill=yes | age > 65)", assume="nothing")


# ------------------------------------------------------------------------------------------------ exact at the edges


@every("text", ["age >= 40", "age < 60", "age >= 40, age < 60", "weeks > 9", "weeks >= 10, weeks <= 19"])
def test_at_the_edges_of_bins_a_range_is_the_union_of_its_states(text: str, noisy: dc.results.PosteriorDraws) -> None:
    name = text.split()[0]
    seen = parse_query(f"P(sex | {text})", NETWORK.schema).evidence
    low, high = seen[0][1].ends(NETWORK.schema[name])  # type: ignore[union-attr]
    starts = np.array(NETWORK.schema[name].edges[:-1])
    law = noisy.numbers.joint(("sex", "ill", name) if name != "ill" else ("sex", name))  # type: ignore[union-attr]
    union = law[:, :, (low <= starts) & (starts < high)].sum(axis=2)
    given = (
        condition_on(noisy, seen, predictive=False).for_targets(("sex", "ill"), most=100).given.joint(("sex", "ill"))
    )
    assert np.abs(given - union / union.sum(axis=(0, 1))).max() < 1e-6
    (row,) = noisy.answer(f"P(ill=yes | {text})").rows
    assert row.get("law_lower", row["lower"]) == row["lower"]


@every("text", ["pressure >= 0", "pressure <= 250", "age > -1, age < 101", "weeks >= 0", "weeks < 52.5", "weeks > -1"])
def test_what_all_numbers_meet_is_no_condition(text: str, noisy: dc.results.PosteriorDraws) -> None:
    for asked in ("P(ill)", "E(age)", "sd(weeks)", "P(pressure > 110)"):
        given = f"{asked[:-1]} | {text})"
        if asked.partition("(")[2].partition(" ")[0].rstrip(")") not in text:
            assert dc.answer(noisy, given).rows == dc.answer(noisy, asked).rows
    for strict in ("pressure > 0", "weeks > 0"):
        assert dc.answer(noisy, f"P(ill | {strict})").rows != dc.answer(noisy, "P(ill)").rows


def test_a_range_that_is_one_bin_is_that_state(noisy: dc.results.PosteriorDraws) -> None:
    for target in ("E(pressure{})", "sd(pressure{})", "P(pressure > 130{})", "P(ill=yes{})", "MAP(ill, sex{})"):
        first, second = (noisy.answer(target.format(f" | {seen}")).rows for seen in ("age >= 60", "age=60_to_100"))
        for one, other in zip(first, second, strict=True):
            assert [one[end] for end in ("mean", "lower", "upper")] == pytest.approx(  # type: ignore[literal-required]
                [other[end] for end in ("mean", "lower", "upper")],
                rel=1e-6,  # type: ignore[literal-required]
            )


# --------------------------------------------------------------------------------------- one number by every way


@every("cut", [33.0, 47.5, 60.0, 81.0])
def test_parts_and_their_complements_make_the_whole(cut: float, noisy: dc.results.PosteriorDraws) -> None:
    """In every draw; P by the evidence, and by the question."""
    above, below = chance(noisy, f"age > {cut}"), chance(noisy, f"age <= {cut}")
    assert np.abs(above + below - 1).max() < 1e-6
    assert np.abs(number(noisy, f"P(age > {cut})") - above).max() < 1e-6
    means = [number(noisy, f"E(pressure | age {sign} {cut})") for sign in (">", "<=")]
    whole = means[0] * above + means[1] * below
    assert np.abs(whole - number(noisy, "E(pressure | age > 0)")).max() < 1e-6 * 250
    # Sums by rows average to those of the column, but where they are clipped to their bins.
    column = number(noisy, "E(pressure)")
    assert abs(whole.mean() - column.mean()) < 0.5 * column.std()
    shares = [
        condition_on(noisy, parse_query(f"P(ill | age {sign} {cut})", NETWORK.schema).evidence, predictive=False)
        .for_targets(("ill",), most=10).given.joint(("ill",))[1]
        for sign in (">", "<=")
    ]  # fmt: skip
    # The law of a row cannot be tilted to every mean: in the outer bin, of few records, some draws reach its limit.
    rest = shares[0] * above + shares[1] * below - noisy.numbers.joint(("ill",))[1]  # type: ignore[union-attr]
    assert np.quantile(np.abs(rest), 0.5 if cut > 80 else 0.9) < 1e-6 and np.abs(rest).max() < 0.01


def test_a_law_restricted_to_parts_is_put_together_again() -> None:
    law = BinLaw(np.array([0.0, 1, 4, 9]), np.array([[0.2], [0.5], [0.3]]), np.array([[1.5], [-4.0], [1e-9]]), False)
    parts = [law.within(low, high) for low, high in ((0, 0.3), (0.3, 2), (2, 4), (4, 9))]
    assert sum(part.shares.sum() for part in parts) == pytest.approx(1)
    assert [part.shares.sum() for part in parts[:2]] == pytest.approx(
        [float(law.up_to(0.3)[0]), float(law.up_to(2)[0] - law.up_to(0.3)[0])]
    )
    total = sum((part.shares * part.centres()).sum() for part in parts)
    assert total == pytest.approx(float((law.shares * law.centres()).sum()), rel=1e-9)


def test_a_moved_law_has_its_mean_and_deviation() -> None:
    edges, shares = np.linspace(0, 100, 101), np.exp(-((np.arange(100) - 50) ** 2) / 200)[:, None]
    law = BinLaw(edges, np.repeat(shares, 2, axis=1), np.full((100, 2), 1e-9), integer=False)
    moved = law.moved(np.array([0.0, 12.0]), np.array([1.0, 0.5]))
    assert moved.mean() - law.mean() == pytest.approx([0, 12], abs=0.02)
    assert np.sqrt(moved.variance() / law.variance()) == pytest.approx([1, 0.5], rel=0.01)


# --------------------------------------------------------------------------------------------------------------- lines


@every(
    ("query", "chosen", "of"),
    [
        ("E(pressure | age=50)", ("age", 49, 51), "pressure"),
        ("E(pressure | age=70)", ("age", 69, 71), "pressure"),
        ("E(pressure | age=25)", ("age", 23, 27), "pressure"),
        ("E(pressure | age > 66)", ("age", 66, 101), "pressure"),
        ("E(age | pressure=120)", ("pressure", 118, 122), "age"),
    ],
)
def test_without_noise_a_mean_given_a_number_is_that_of_the_records(
    query: str, chosen: tuple[str, float, float], of: str, data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    name, low, high = chosen
    near = data[of][(data[name] > low) & (data[name] <= high)]
    (row,) = exact.answer(query).rows
    assert row["mean"] == pytest.approx(near.mean(), abs=0.15 * data[of].std())
    # The line's interval holds the records' mean; without a line the interval is as wide as the bins.
    assert row["law_lower"] - 0.3 <= near.mean() <= row["law_upper"] + 0.3
    assert row["upper"] - row["lower"] > 2 * (row["law_upper"] - row["law_lower"])
    assert row["lower"] <= near.mean() <= row["upper"]


def test_shares_and_deviations_given_a_number_are_about_the_line(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    """Without the line P(pressure > 140 | 40 <= age < 60) is .23, whatever the age."""
    near = np.abs(data["age"] - 58) < 1
    truth = (data["pressure"][near] > 140).mean()
    (row,) = exact.answer("P(pressure > 140 | age=58)").rows
    assert row["mean"] == pytest.approx(truth, abs=0.06) and row["lower"] <= truth <= row["upper"]
    (row,) = exact.answer("P(ill=yes | age=58)").rows
    truth = (data["ill"][near] == "yes").mean()
    assert row["law_lower"] - 0.03 <= truth <= row["law_upper"] + 0.03 and row["lower"] <= truth <= row["upper"]


def test_answers_say_that_they_follow_lines(noisy: dc.results.PosteriorDraws) -> None:
    answer = noisy.answer("E(pressure | age=58, sex=m)")
    assert any("inside the bins of age, pressure is taken to follow" in reason for reason in answer.assumes)
    assert answer.evidence is not None and answer.evidence.query == "P(age=40_to_60, sex=m)"
    assert noisy.answer("P(ill=yes | age > 58)").evidence.query == "P(age > 58)"  # type: ignore[union-attr]
    assert not any("lines" in reason for reason in noisy.answer("P(ill=yes | age >= 60)").assumes)


def test_without_sums_a_number_is_its_bin_and_a_range_is_cut_by_the_law(data: dict[str, np.ndarray]) -> None:
    plain = read(data, 3000, numbers_share=0)
    first, second = (plain.answer(f"E(pressure | {seen})").rows[0] for seen in ("age=45", "age=40_to_60"))
    assert first["mean"] == pytest.approx(second["mean"], rel=1e-9)
    (row,) = plain.answer("P(ill=yes | age > 70)").rows
    truth = (data["ill"][data["age"] > 70] == "yes").mean()
    assert row["lower"] <= truth <= row["upper"] and row["upper"] - row["lower"] > 0.1
    uniform, linear = (
        plain.answer("P(ill=yes | age > 70)", inside=law).rows[0]["mean"] for law in ("uniform", "log-linear")
    )
    assert uniform != linear


def test_many_ways_of_answering_take_numbers(noisy: dc.results.PosteriorDraws) -> None:
    texts = ["P(ill | age > 52)", "E(pressure | age=52)", "E(pressure | age > 52)"]
    assert [answer.rows for answer in dc.answer_many(noisy, texts)] == [noisy.answer(text).rows for text in texts]
    assert noisy.answer("P(ill=yes | age > 52)", predictive=True).rows[0]["mean"] > 0
    assert noisy.answer("MAP(ill | age > 80)").rows[0]["state"] == {"ill": "yes"}


# -------------------------------------------------------------------------------------------------------------- bounds


def test_bounds_are_those_of_a_linear_program() -> None:
    """All laws inside bins: parts of an event and of the rest of each bin, in all a part of it between two shares."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        event, rest = rng.dirichlet(np.ones(6)).reshape(2, 3)
        ends = np.sort(rng.random((2, 3)), axis=0)
        ends[:, 0] = 1
        found = bound_event(event[None, :, None], (event + rest)[:, None], [(ends[0][:, None], ends[1][:, None])])
        # Charnes and Cooper: y = part / sum of parts, t = 1 / sum.
        whole = np.concatenate([np.eye(3), np.eye(3)], axis=1)
        total = (event + rest)[:, None]
        rows = [
            np.column_stack([np.eye(6), -np.concatenate([event, rest])]),
            np.column_stack([whole, -ends[1][:, None] * total]),
            np.column_stack([-whole, ends[0][:, None] * total]),
        ]
        above, equal = np.concatenate(rows), np.array([[1.0] * 6 + [0]])
        goal = np.array([1.0] * 3 + [0] * 4)
        for bound, sign in zip(found, (1, -1), strict=True):
            best = linprog(sign * goal, above, np.zeros(len(above)), equal, [1.0])
            assert float(bound[0, 0]) == pytest.approx(sign * best.fun, abs=1e-9)


@pytest.mark.costly("Many questions, each beside the records.")
@every("seen", ["age > 50", "age > 45, age < 52", "weeks >= 5", "age > 50, weeks < 15"])
def test_bounds_hold_the_records_whatever_the_question(
    seen: str, data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    chosen = np.ones(RECORDS, bool)
    for part in seen.split(", "):
        name, sign, at = part.split()
        chosen &= {">": np.greater, "<": np.less, ">=": np.greater_equal}[sign](data[name], float(at))
    for query, truth in (
        ("P(ill=yes{})", (data["ill"][chosen] == "yes").mean()),
        ("E(pressure{})", data["pressure"][chosen].mean()),
        ("median(pressure{})", np.median(data["pressure"][chosen])),
        ("P(pressure <= 133{})", (data["pressure"][chosen] <= 133).mean()),
        ("sd(pressure{})", data["pressure"][chosen].std()),
    ):
        (row,) = exact.answer(query.format(f" | {seen}")).rows
        assert row["lower"] <= truth <= row["upper"], query
        assert row["lower"] <= row["law_lower"] <= row["law_upper"] <= row["upper"], query


# ------------------------------------------------------------------------------------------------- shell and server


def test_a_server_and_the_shell_take_numbers_as_evidence(data: dict[str, np.ndarray], tmp_path: Path) -> None:
    counts = dc.count(dc.read_records(pa.table(data), NETWORK.schema), NETWORK)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(NETWORK), promise, rng=2)
    release.save(tmp_path / "study.json")
    here = dc.noise_aware(release, draws=100, rng=0)
    here.save(tmp_path / "study.draws")
    with served([tmp_path / "study.json"], "--draws", str(tmp_path / "study.draws"), "--no-prepare") as server:
        client = dc.server.Client(server.url)
        there = client.posterior("study")
        for query in ("P(ill=yes | age > 58, sex=f)", "E(pressure | age=58)", "P(pressure > 140 | age=58, sex=m)"):
            answers = [dc.answer(one, query) for one in (here, there)]
            assert answers[0].rows == answers[1].rows and answers[0].assumes == answers[1].assumes
        with pytest.raises(dc.InputError, match="outside the bounds"):
            dc.answer(there, "E(pressure | age=580)")
        client.close()
    assert json.loads(json.dumps(here.answer("E(pressure | age=58)").tidy()))[0]["law_lower"] > 0


# ------------------------------------------------------------------------------------------------- checks and moments


def test_a_curve_is_off_its_line_and_a_line_is_not(
    data: dict[str, np.ndarray], noisy: dc.results.PosteriorDraws
) -> None:
    for answer in dc.tools.check_line(noisy, "pressure", "age"):
        (row,) = answer.rows
        assert row["lower"] < 0 < row["upper"] and answer.level == pytest.approx(1 - 0.05 / 3)
    curve = np.clip(200 - (data["age"] - 50) ** 2 / 12, 0, 250)
    bent = read({**data, "pressure": curve}, 1)
    slope, intercept = np.polyfit(data["age"], curve, 1)
    for answer, (low, high) in zip(dc.tools.check_line(bent, "pressure", "age"), pairwise(AGE.edges), strict=True):
        (row,), inside = answer.rows, (data["age"] >= low) & (data["age"] < high)
        truth = curve[inside].mean() - slope * data["age"][inside].mean() - intercept
        assert row["mean"] == pytest.approx(truth, abs=0.1 * curve.std()) and row["lower"] * row["upper"] > 0
    with pytest.raises(dc.InputError, match="sums were released"):
        dc.tools.check_line(noisy, "ill", "age")
    with pytest.raises(dc.InputError, match="two different"):
        dc.tools.check_line(noisy, "age", "age")


def test_without_noise_normal_columns_have_the_line_of_their_moments(
    data: dict[str, np.ndarray], exact: dc.results.PosteriorDraws
) -> None:
    """Closed form: E z + Cov / Var (c - E x), and Var z (1 - cor^2); 1 % of sd(z) is the draws' and rounding's."""
    x, z = data["age"], data["pressure"]
    slope = np.cov(x, z)[0, 1] / x.var()
    fitted = dc.regress(exact, "pressure", ["age"])
    for at in (30.0, 50.0, 75.0):
        line = z.mean() + slope * (at - x.mean())
        row = fitted.at({"age": at})
        assert row["name"] == "pressure" and row["mean"] == pytest.approx(line, abs=0.03 * z.std())
        assert row["lower"] < line < row["upper"]
        assert exact.answer(f"E(pressure | age={at})").rows[0]["mean"] == pytest.approx(line, abs=0.12 * z.std())
    residual = z.std() * np.sqrt(1 - np.corrcoef(x, z)[0, 1] ** 2)
    assert exact.answer("sd(pressure | age=50)").rows[0]["mean"] == pytest.approx(residual, rel=0.25)


def test_means_at_values_take_each_number_and_named_states(noisy: dc.results.PosteriorDraws) -> None:
    fitted = dc.regress(noisy, "pressure", ["age", "sex"])
    first, second = fitted.at({"age": 50, "sex=m": 1}), fitted.at({"age": 50})
    assert first["mean"] - second["mean"] == pytest.approx(fitted.mean()[1])
    for values, words in (({"sex=m": 1}, "value of 'age'"), ({"age": 1, "sex=q": 1}, "no coefficient is named 'sex=q'"),
                          ({"age": float("nan")}, "finite")):  # fmt: skip
        with pytest.raises(dc.InputError, match=words):
            fitted.at(values)


def test_slopes_inside_bins_follow_what_was_measured() -> None:
    """Steps: inside bins z is flat, though its means rise from bin to bin; and teeth: inside it rises, between not."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 100, RECORDS)
    step = np.floor(x / 25)
    columns = [dc.Variable.binned(name, (0, 100), 4) for name in "xz"]
    network = dc.Network(columns, {"x": (), "z": ("x",)})
    promise = dc.Guarantee(epsilon=3000, delta=0, relation="add-remove", unit="record")
    for z, slope in ((10 + 20 * step + rng.uniform(0, 10, RECORDS), 0.0), (20 + (x - 25 * step) * 2, 2.0)):
        counts = dc.count(dc.read_records(pa.table({"x": x, "z": z}), network.schema), network)
        release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=2)
        numbers = dc.noise_aware(release, draws=200, rng=3).numbers
        assert numbers is not None
        assert slopes_inside(numbers, "x", "z").mean() == pytest.approx(slope, abs=0.25)
