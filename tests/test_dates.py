"""Dates and times as numbers with a unit: the same numbers by every engine, declared, asked and answered as dates."""

from __future__ import annotations

import calendar
import json
import math
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dc
from discreet.deciding.decide_number import read_number_decision
from discreet.formats.project_file import Project, draft_project
from discreet.model.number_types import DATES, TIMES, Day, Second
from discreet.queries.documents import answer_document, read_answer, read_regression, regression_document
from discreet.records import dialects
from discreet.records.dates import column_number, number_dates
from engines import DATABASES, ENGINES, on_parquet
from folding import every
from sources import AB, CANARY, PEER_WARNINGS, alone, column, counted, csv_file, faults, refusal

pytestmark = PEER_WARNINGS

ALL = ("0001-01-01", "9999-12-31")
ANY_DAY = dc.Variable("x", bounds=ALL, bins=("1900-03-01", "1970-01-01", "2000-02-29", "2024-03-01"), type="date")
ANY_TIME = dc.Variable("x", bounds=ALL, bins=("1970-01-01", "2024-02-29T12:00:01"), type="datetime")
DAYS = dc.Variable("day", bounds=("2020-01-01", "2024-12-31"), bins="year", type="date")
TEXTS = dc.Variable("text", bounds=("2020-01-01", "2024-12-31"), bins="6 months", type="date")
MOMENTS = dc.Variable("moment", bounds=("2020-01-01", "2024-12-31T23:59:59"), bins="year", type="datetime")
NETWORK = dc.Network((DAYS, TEXTS, MOMENTS), {"day": (), "text": ("day",), "moment": ("text",)})
NO_DATES = (
    "2024-2-30", "2024-02-30", "2023-02-29", "1900-02-29", "0000-01-01", "2024-13-01", "2024-00-10", "2024-01-00",
    "2024-04-31", "10000-01-01", "-2024-01-01", "2024-1-1", "20240101", "2024/01/01", "01.02.2024", " 2024-01-01",
    "2024-01-01 ", "2024-01-01\n", "2024-01-01T", "2024-01-01 24:00", "2024-01-01T23:59:60", "2024-01-01 1:00",
    "2024-01-01T12:00Z", "2024-01-01T12:00+01:00", "2024-01-01 12:00:00.", "2024-01-01 12:00:00.1234567890",
    "\u0662024-01-01", "today", "19783", CANARY, "2024-01-01T12", "2024-01-01t12:00",
)  # fmt: skip
IS_DATES = {
    "0001-01-01": "0001-01-01T00:00:00", "9999-12-31": "9999-12-31T00:00:00", "2000-02-29": "2000-02-29T00:00:00",
    "0004-02-29": "0004-02-29T00:00:00", "2024-02-29T23:59:59.999999": "2024-02-29T23:59:59",
    "2024-02-29 00:01": "2024-02-29T00:01:00", "1969-12-31 23:59:59.5": "1969-12-31T23:59:59",
    "1899-12-31": "1899-12-31T00:00:00", "1582-10-10": "1582-10-10T00:00:00",
}  # fmt: skip


def number_of(variable: dc.Variable, values: list[Any], kind: pa.DataType | None = None) -> list[float]:
    """Numbers of values by DuckDB; NaN where there is none."""
    table = ibis.memtable(column(values, kind))
    numbers = column_number(number_dates(table.x, variable), variable)
    found = table.select(n=numbers).to_pyarrow()["n"].to_pylist()
    return [math.nan if each is None else each for each in found]


# ------------------------------------------------------------------------------------------------------------ reading


def test_texts_are_dates_or_not_to_python_and_to_the_engine_alike() -> None:
    texts = [*NO_DATES, *IS_DATES]
    for variable in (ANY_DAY, ANY_TIME):
        here = [variable.number_type.read_text(text) for text in texts]
        assert np.array_equal(here, number_of(variable, texts), equal_nan=True)
        assert [math.isnan(each) for each in here] == [True] * len(NO_DATES) + [False] * len(IS_DATES)
    for text, moment in IS_DATES.items():
        assert str(Second(TIMES.read_text(text))) == moment and str(Day(DATES.read_text(text))) == moment[:10]


@pytest.mark.costly("Dates that the formula numbers otherwise than Python are found by many.")
@settings(max_examples=30, deadline=None)
@given(st.lists(st.dates(), min_size=1, max_size=30), st.lists(st.datetimes(), min_size=1, max_size=30))
def test_every_date_and_time_is_the_number_that_python_counts(days: list[date], moments: list[datetime]) -> None:
    wanted = [(day - date(1970, 1, 1)).days for day in days]
    seconds = [(moment - datetime(1970, 1, 1)) // timedelta(seconds=1) for moment in moments]
    assert number_of(ANY_DAY, days, pa.date32()) == number_of(ANY_DAY, [str(day) for day in days]) == wanted
    assert number_of(ANY_TIME, days, pa.date32()) == [86_400 * day for day in wanted]
    assert number_of(ANY_TIME, moments, pa.timestamp("us")) == seconds
    assert number_of(ANY_TIME, [moment.isoformat() for moment in moments]) == seconds
    assert number_of(ANY_DAY, moments, pa.timestamp("us")) == [second // 86_400 for second in seconds]
    assert [str(Day(day)) for day in wanted] == [str(day) for day in days]
    assert [str(Second(second)) for second in seconds] == [
        str(each.replace(microsecond=0).isoformat()) for each in moments
    ]


KINDS = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.date32(), pa.date64(),
         *map(pa.timestamp, ("s", "ms", "us", "ns")))  # fmt: skip


@pytest.mark.costly("Types of Arrow that blocks read otherwise than the engine are found by counting.")
@every("kind", KINDS)
@every("variable", [ANY_DAY, ANY_TIME, replace(ANY_DAY, states=(), missing="gone")])
def test_blocks_are_counted_as_by_the_engine(kind: pa.DataType, variable: dc.Variable) -> None:
    few = kind in (pa.timestamp("ns"), pa.date64())  # what the type can hold
    values = [None, *([] if few else ["0001-01-01", "9999-12-31", "1900-02-28"]), "1969-12-31", "1970-01-01",
              "2000-02-28", "2000-02-29", "2024-02-29", "2024-03-01", "2024-03-01"]  # fmt: skip
    texts = pa.array(values, pa.string())
    held = texts.cast(pa.timestamp("us")).cast(kind) if pa.types.is_temporal(kind) else texts.cast(kind)
    table = pa.table({"x": held})
    for missing in ("drop", "keep"):
        local = counted(table, variable, missing=missing) if missing == "drop" or variable.missing else [0]
        if missing == "drop" or variable.missing:
            assert local == counted(ibis.memtable(table), variable, missing=missing)
            assert sum(local) == len(values) - (missing == "drop")


@pytest.mark.costly("What an engine takes for a date is found by reading it.")
def test_what_is_no_date_is_unknown_and_a_date_out_of_bounds_may_be_clipped(tmp_path: Path) -> None:
    for text in NO_DATES:
        for out_of_bounds in ("error", "clip"):
            refusal(lambda text=text: counted(column([text]), ANY_DAY, out_of_bounds=out_of_bounds), "x")  # noqa: B023
        assert faults(column([text]), ANY_DAY) == (0, 1, 0)
    held = column(["2019-12-31", "2020-01-01", "2024-12-31", "2025-01-01"])
    near = replace(DAYS, name="x")
    assert faults(held, near) == faults(ibis.memtable(held), near) == (0, 0, 2)
    assert counted(held, near, out_of_bounds="clip") == counted(ibis.memtable(held), near, out_of_bounds="clip")
    assert counted(held, near, out_of_bounds="clip") == [2, 0, 0, 0, 2]
    path = csv_file(tmp_path, "x\n2020-05-05\n?\n2024-12-31 18:00\n")
    assert counted(path, near, missing="drop", na_values=["?"]) == [1, 0, 0, 0, 1]


@every(
    "kind",
    [pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us", "UTC"), pa.timestamp("s", "+01:00"), pa.time32("s")],
)
def test_a_column_that_is_no_date_is_refused_by_its_type(kind: pa.DataType) -> None:
    held = pa.table(
        {"x": pa.array([1], pa.int32()).cast(pa.int64() if not pa.types.is_time(kind) else kind).cast(kind)}
    )
    message = refusal(lambda: counted(held, ANY_DAY))
    assert ("time zone" in message) == pa.types.is_timestamp(kind)


def dated(size: int = 300) -> pa.Table:
    """Records of all three columns, some without a value."""
    rng = np.random.default_rng(3)
    days = [date(2020, 1, 1) + timedelta(days=int(each)) for each in rng.integers(0, 1827, size)]
    texts = [str(date(2020, 1, 1) + timedelta(days=int(each))) for each in rng.integers(0, 1827, size)]
    microseconds = rng.integers(0, 1827 * 864 * 10**8, size)
    moments = [datetime(2020, 1, 1) + timedelta(microseconds=int(each)) for each in microseconds]
    gaps = rng.random((3, size)) < 0.03
    columns = [
        [None if gap else each for each, gap in zip(part, row, strict=True)]
        for part, row in zip((days, texts, moments), gaps, strict=True)
    ]
    types = pa.schema([("day", pa.date32()), ("text", pa.string()), ("moment", pa.timestamp("us"))])
    return pa.table(dict(zip(NETWORK.nodes, columns, strict=True)), types)


@pytest.mark.costly("Dates that a database reads otherwise are found by counting on each engine.")
@pytest.mark.parametrize("engine", DATABASES)
def test_every_engine_counts_dates_alike(engine: str, tmp_path: Path) -> None:
    held, found = dated(), []
    for load in (on_parquet, ENGINES[engine]):
        given = load(held, tmp_path, False)
        records = dc.read_records(given["source"], NETWORK.schema, table=given.get("table"), missing="drop")
        counts = dc.count(records, NETWORK, [("day", "moment")])
        assert counts.sums is not None
        found.append(
            {str(scope): one.tolist() for scope, one in {**counts.tables, **counts.joints}.items()}
            | {name: leaves.tolist() for name, leaves in counts.sums.leaves.items()}
            | {str(key): one.tolist() for key, one in counts.sums.cells.items()}
        )
    assert found[0] == found[1]
    odd = pa.table({"x": [*NO_DATES, None, "2024-02-29"]})
    given = ENGINES[engine](odd, tmp_path, False)
    (checked,) = dc.check(dc.read_records(given["source"], dc.Schema((ANY_DAY,)), table=given.get("table")))
    assert (checked.missing, checked.unknown, checked.out_of_bounds) == (1, len(NO_DATES), 0)


@pytest.mark.costly("Counts of neighbours are enumerated.")
@every("relation", list(dc.Relation)[:2])
def test_a_date_moves_counts_and_sums_as_any_number(relation: dc.Relation) -> None:
    """All tables of two records over some dates, and all their neighbours; offsets keep within their reach."""
    near = replace(DAYS, name="x")
    network = alone(near)
    values = ["2020-01-01", "2024-12-31", "9999-12-31"]

    def counts(*rows: str) -> dc.results.Counts:
        return dc.count(dc.read_records(column(list(rows), pa.string()), network.schema, out_of_bounds="clip"), network)

    bound = dc.tools.sensitivity(network, relation)
    for one in values:
        for rest in values:
            before = counts(one, rest)
            for after in (
                [counts(rest)] if relation is dc.Relation.ADD_REMOVE else [counts(new, rest) for new in values]
            ):
                assert np.abs(before.tables["x"] - after.tables["x"]).sum() <= bound.l1
                assert before.sums is not None and after.sums is not None
                moved = abs(before.sums.total("x") - after.sums.total("x"))
                assert moved <= 2**14 * (1 + (relation is not dc.Relation.ADD_REMOVE))


# -------------------------------------------------------------------------------------------------------- declarations


def test_bins_by_day_week_month_quarter_and_year() -> None:
    def cuts(step: str, low: str = "2023-11-05", high: str = "2024-03-01") -> list[str]:
        return list(map(str, dc.Variable("x", bounds=(low, high), bins=step, type="date").bins))  # type: ignore[arg-type]

    assert cuts("month") == ["2023-12-01", "2024-01-01", "2024-02-01", "2024-03-01"]
    assert cuts("2 months") == ["2024-01-01", "2024-03-01"] and cuts("year") == cuts("quarter") == ["2024-01-01"]
    assert cuts("10 days")[:2] == ["2023-11-15", "2023-11-25"] and len(cuts("day")) == 117
    assert all(calendar.weekday(*map(int, each.split("-"))) == 0 for each in cuts("week"))
    assert len(cuts("100 years", *ALL)) == 99
    for wrong in ("fortnight", "0 days", "-1 day", "days of 3", "100 years", "day"):
        with pytest.raises(dc.InputError, match="distance"):
            cuts(wrong, *(ALL if wrong == "day" else ("2023-11-05", "2024-03-01")))


def test_bounds_alone_make_few_bins() -> None:
    from discreet.model.round_numbers import is_wide, with_bins

    for high, most in (("2023-11-20", 16), ("2026-01-01", 40), ("2123-01-01", 40), ("9999-12-31", 40)):
        made = with_bins(dc.Variable("x", bounds=("2023-11-05", high), type="date"))
        assert 2 <= made.size <= most and not is_wide(made)


@every("wrong", ["2024-02-30", "x", 1e12, math.nan, None, "2024-01-01T12:00Z", ["2024-01-01"]])
def test_what_is_no_date_is_no_bound(wrong: Any) -> None:
    with pytest.raises(dc.InputError, match="bounds must be a list of dates"):
        dc.Variable("x", bounds=("2020-01-01", wrong), type="date")


@every("type", ["date", "datetime"])
@every("ends", ["bounds = [1, 5]", "bounds = [2020-01-01, 2024-12-31]\nbins = [18300]"])
def test_a_number_in_a_file_is_no_date(type: str, ends: str) -> None:
    with pytest.raises(dc.InputError, match=r"'day': (bounds|bins) must be a list of (date|time)s, such as 2024-02-29"):
        Project.parse(f'[[variables]]\nname = "day"\ntype = "{type}"\n{ends}\n')


def test_a_whole_number_is_no_date_in_python_either() -> None:
    for bounds, bins in (((1, 5), ()), (("2020-01-01", "2024-12-31"), (18_300,)), ((True, "2024-12-31"), ())):
        with pytest.raises(dc.InputError, match=r"'day': (bounds|bins) must be a list of dates, such as 2024-02-29"):
            dc.Variable("day", bounds=bounds, bins=bins, type="date")


def test_a_project_file_declares_dates_as_toml_writes_them() -> None:
    text = (
        '[[variables]]\nname = "day"\ntype = "date"\nbounds = [2020-01-01, 2024-12-31]\nbins = "year"\n'
        '[[variables]]\nname = "text"\ntype = "date"\nbounds = ["2020-01-01", "2024-12-31"]\n'
        "bins = [2020-07-01, 2021-01-01, 2021-07-01, 2022-01-01, 2022-07-01, 2023-01-01, 2023-07-01, 2024-01-01, "
        "2024-07-01]\n"
        '[[variables]]\nname = "moment"\ntype = "datetime"\nbounds = [2020-01-01, 2024-12-31T23:59:59]\nbins = "year"\n'
    )
    schema = Project.parse(text).network.schema
    assert schema == NETWORK.schema
    drafted = draft_project(dc.Network.empty(schema.variables))
    assert drafted.network.schema == schema
    assert 'bins = "year"' in drafted.text and "bounds = [2020-01-01, 2024-12-31]" in drafted.text


# -------------------------------------------------------------------------------------------------- answers, synthetic


def released(size: int = 4000, epsilon: float = 5) -> tuple[dc.results.Release, np.ndarray, np.ndarray]:
    """A release of a group and a day, with the days themselves."""
    rng = np.random.default_rng(11)
    group = rng.random(size) < 0.4
    days = np.clip(18262 + rng.gamma(3, 150, size).astype(int) + 300 * group, 18262, 20088)
    network = dc.Network((replace(AB, name="g"), DAYS), {"g": (), "day": ("g",)})
    table = pa.table({"g": np.where(group, "b", "a"), "day": pa.array(days.astype(np.int32)).cast(pa.date32())})
    counts = dc.count(dc.read_records(table, network.schema), network)
    promise = dc.Guarantee(epsilon=epsilon, delta=0, relation="add-remove", unit="record")
    release = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=5)
    return dc.tools.loads(release.dumps()), days, group


@pytest.mark.costly("Answers on dates are those of a release of numbers.")
def test_a_mean_of_dates_is_a_date_and_as_sharp_as_of_numbers() -> None:
    release, days, group = released()
    assert release.network.schema["day"] == DAYS
    posterior = release.posterior(rng=6, draws=300)
    mean, median, above, one, spread = dc.answer_many(
        posterior, ["E(day)", "median(day)", "P(day > 2021-06-30)", "E(day | g=b)", "sd(day)"]
    )
    row = mean.rows[0]
    assert row["lower"] <= days.mean() <= row["upper"] and row["upper"] - row["lower"] < 60
    assert f"{row['mean']:.3g}" == str(Day(row["mean"])) and mean.unit == "date of day"
    shown = str(mean)
    assert str(Day(row["mean"])) in shown and f"{Day(row['lower'], -1)} to {Day(row['upper'], 1)}" in shown
    assert abs(median.rows[0]["mean"] - np.median(days)) < 30
    true = (days > DATES.read("2021-06-30")).mean()
    assert above.rows[0]["lower"] - 0.01 <= true <= above.rows[0]["upper"] + 0.01 and "2021-06-30" in str(above)
    assert abs(one.rows[0]["mean"] - days[group].mean()) < 30
    assert spread.unit == "days of day" and "-" not in f"{spread.rows[0]['mean']:.3g}"
    written = answer_document(mean)
    assert written["values"][0]["dates"]["mean"] == str(Day(row["mean"]))
    read = read_answer(json.loads(json.dumps(written)))
    assert read == mean and str(read) == shown


@pytest.mark.costly("Synthetic dates are drawn from a release.")
def test_synthetic_records_have_dates_in_their_type() -> None:
    release, days, _ = released(1000)
    (stream,) = dc.sample(release.posterior(rng=6, draws=50), 500, rng=7)
    table = stream.read_all()
    assert table.schema.field("day").type == pa.date32()
    made = np.array([(each - date(1970, 1, 1)).days for each in table["day"].to_pylist()])
    assert made.min() >= 18262 and made.max() <= 20088 and abs(made.mean() - days.mean()) < 60
    again = dc.count(dc.read_records(table, release.network.schema), release.network)
    assert again.records == 500


@every("query", ["P(day > 2024-02-30)", "P(g=a | day >= 2030-01-01)", "P(day > soon)", "E(day | day=2024-13-01)"])
def test_queries_that_name_no_date_are_refused(query: str) -> None:
    schema = dc.Schema((replace(AB, name="g"), DAYS))
    with pytest.raises(dc.InputError):
        dc.tools.parse_query(query, schema)


@every("query", ["P(day > 2024-02-29)", "P(g=a | day >= 2020-01-05, day < 2021-01-01)", "P(g | day=2020-02-29)"])
def test_queries_print_dates_that_read_back(query: str) -> None:
    schema = dc.Schema((replace(AB, name="g"), DAYS))
    parsed = dc.tools.parse_query(query, schema)
    assert dc.tools.parse_query(str(parsed), schema) == parsed
    assert "-02-29" in str(parsed) or "2020-01-05" in str(parsed)


def test_a_column_of_dates_tells_no_units_apart() -> None:
    """Units whose texts are no dates would be one unit, of which another's record may be kept in the place of one."""
    table = pa.table({"x": ["2024-01-01", CANARY], "y": ["a", "b"]})
    schema = dc.Schema((ANY_DAY, replace(AB, name="y")))
    with pytest.raises(dc.InputError, match="cannot tell units apart"):
        dc.read_records(table, schema, unit_column="x")


@every("engine", [each for each in (*dialects.TEXT, *dialects.STAND_IN) if each != "pyspark"])
@every("kind", ["date", "timestamp", "string"])
def test_dates_are_numbered_in_the_sql_of_engines_that_do_not_run_here(engine: str, kind: str) -> None:
    """Every dialect but one has patterns for text; Ibis writes Spark's with a session alone."""
    table = ibis.table({"x": kind}, name="visits")
    for variable in (ANY_DAY, ANY_TIME):
        if kind == "string" and engine in dialects.WITHOUT_PATTERNS:
            continue
        text = str(ibis.to_sql(table.select(n=number_dates(table.x, variable)), dialect=engine))
        assert len(text) < 12_000 and text.upper().count("CASE") >= 1


def fixed(*days: float) -> dc.results.PosteriorDraws:
    """Draws of a day that has two bins, and of a state: the share of the later bin is that of each draw."""
    day = dc.Variable("day", bounds=("2020-01-01", "2020-12-31"), bins=("2020-07-01",), type="date")
    network = dc.Network((day, dc.Variable("g", ("a", "b"))), {"day": (), "g": ("day",)})
    early = np.array(days)
    cells = {"day": np.array([early, 1 - early]), "g": np.array([[early, 1 - early], [1 - early, early]])}
    return dc.results.PosteriorDraws(dc.Tables(network, cells, draws=len(days)))


@every("loss", ["squared", "absolute", "interval:0.9"])
@every("type", ["date", "datetime"])
def test_a_decision_on_a_date_is_a_date_with_its_unit(loss: str, type: str) -> None:
    posterior = fixed(0.3, 0.5, 0.6)
    schema = posterior.network.schema
    if type == "datetime":
        moment = dc.Variable("day", bounds=("2020-01-01", "2020-12-31"), bins=("2020-07-01",), type="datetime")
        network = dc.Network((moment, schema["g"]), {"day": (), "g": ("day",)})
        cells = {name: posterior.probabilities[name] for name in ("day", "g")}
        posterior = dc.results.PosteriorDraws(dc.Tables(network, cells, draws=3))
    decision = dc.decisions.decide_number(posterior, "E(day)", loss)
    ends = decision.response if isinstance(decision.response, tuple) else (decision.response,)
    unit = {"date": "days", "datetime": "seconds"}[type]
    for text in (*map(str, ends), str(decision.lower), str(decision.upper)):
        assert text.startswith("2020-") and ("T" in text) == (type == "datetime")
        assert text in "\n".join(map(str, decision.content()))
    assert f"{' squared' * (loss == 'squared')} {unit} but" in str(decision)
    assert math.floor(decision.lower) == DATES.read(str(decision.lower)) or type == "datetime"
    document = json.loads(json.dumps(decision.document("E(day)")))
    assert document["dates"]["lower"] == str(decision.lower)
    assert document["dates"]["response"] == (list(map(str, ends)) if len(ends) == 2 else str(ends[0]))
    read = read_number_decision(document)
    assert read == decision and str(read) == str(decision)
    spread = dc.decisions.decide_number(posterior, "sd(day)", loss)
    assert "-" not in str(spread) and "dates" not in spread.document("sd(day)")


def test_a_regression_on_dates_says_its_unit_and_where_its_intercept_is() -> None:
    posterior = fixed(0.3, 0.5, 0.6)
    on_day = dc.regress(posterior, "g", ["day"])
    assert "day: coefficient per day, intercept at 1970-01-01" in str(on_day)
    of_day = dc.regress(posterior, "day", ["g"])
    slope, intercept = of_day.rows()
    assert str(intercept["mean"]).startswith("2020-") and not isinstance(slope["mean"], Day)
    assert str(intercept["lower"]) in str(of_day) and "day: coefficients in days, intercept as a date" in str(of_day)
    assert str(of_day.at({"g=b": 1})["mean"]) == str(Day(slope["mean"] + intercept["mean"]))
    for found in (on_day, of_day):
        document = json.loads(json.dumps(regression_document(found, 0.95, draws=True)))
        assert str(read_regression(document)) == str(found)
    assert document["coefficients"][-1]["dates"]["mean"] == str(intercept["mean"])
    plain = dc.regress(posterior, "g", ["day"], kind="logistic")
    assert not isinstance(plain.rows()[-1]["mean"], Day)
