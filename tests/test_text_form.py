"""Table files as programs write them: each is read as the clean file if it is declared, and refused by name if not."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dc
import shell
from discreet.records.text_form import TextForm, find_form
from sources import AB, CANARY, LOGICAL, N01, PEER_WARNINGS, counted, csv_file, workbook

pytestmark = PEER_WARNINGS

SEX = dc.Variable("Größe", ("männlich", "weiblich"))
KG = dc.Variable("kg", bounds=(0, 2000), bins=(70, 1000))
NETWORK = dc.Network((SEX, KG), {"Größe": (), "kg": ("Größe",)})
ROWS = [("männlich", "80.5"), ("weiblich", "60"), ("weiblich", "1234.5"), ("männlich", "1080"), ("weiblich", "61.25")]
CLEAN = "Größe,kg,Datum\n" + "".join(f"{sex},{kg},1.1.\n" for sex, kg in ROWS)
WANTED = [[1, 2], [[0, 1, 1], [2, 0, 1]]]
"""Counts of the clean file would be [2, 3] and these: see `tables`."""


def german(text: str) -> str:
    """Grouped as in Germany."""
    whole, point, fraction = text.partition(".")
    grouped = f"{int(whole):,}".replace(",", ".")
    return grouped + ("," if point else "") + fraction


GERMAN = "Größe;kg;Datum\r\n" + "".join(f"{sex};{german(kg)};1.1.\r\n" for sex, kg in ROWS)
PLAIN_GERMAN = GERMAN.replace("1.234,5", "1234,5").replace("1.080", "1080")
TITLES, SUM = "Auswertung 2026\r\nStand: heute; geprüft\r\n", "\r\nSumme;2.516,25;\r\n"
FORMS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "German Excel": (
        (TITLES + GERMAN + SUM).encode("cp1252"),
        {"encoding": "cp1252", "decimal": ",", "thousands": ".", "preamble": 2, "footer": 2},
    ),
    "decimal commas": (PLAIN_GERMAN.encode(), {"decimal": ","}),
    "Windows-1252": (CLEAN.encode("cp1252"), {"encoding": "cp1252"}),
    "a line sep=;": (("sep=;\r\n" + PLAIN_GERMAN).encode("utf-8-sig"), {"decimal": ",", "preamble": 1}),
    "UTF-16": (CLEAN.replace(",", "\t").encode("utf-16"), {"encoding": "utf-16"}),
    "a preamble": (("made by hand\n\n" + CLEAN).encode(), {"preamble": 2}),
    "a footer": ((CLEAN + "end of file\n").encode(), {"footer": 1}),
    "a sum": ((CLEAN + "Total,2516.25,\n").encode(), {"footer": 1}),
    "thousands": (
        CLEAN.replace(",1234.5,", ',"1,234.5",').replace(",1080,", ',"1,080",').replace(",60,", ',"1,060",').encode(),
        {"thousands": ","},
    ),
}
"""Files, and the options without which they are refused."""


def tables(source: Any, **options: Any) -> list[Any]:
    """Both tables of counts."""
    found = dc.count(dc.read_records(source, NETWORK.schema, **options), NETWORK).tables
    return [found[name].tolist() for name in NETWORK.nodes]


def same(name: str) -> list[Any]:
    """What the clean file counts; the one of thousands has another third record."""
    moved = name == "thousands"
    return [[2, 3], [[0, 1, 1], [1, 0, 2] if moved else [2, 0, 1]]]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("way", ["blocks", "engine", "stream"])
def test_a_declared_form_is_read_as_the_clean_file(name: str, way: str, tmp_path: Path) -> None:
    text, options = FORMS[name]
    if way == "stream":
        assert tables(io.BytesIO(text), **options) == same(name)
        return
    path = csv_file(tmp_path, text)
    if way == "blocks":
        assert tables(path, **options) == same(name)
        return
    faults = dc.check(dc.read_records(path, NETWORK.schema, **options))
    assert not any(each.missing or each.unknown or each.out_of_bounds for each in faults)


@pytest.mark.parametrize("name", FORMS)
def test_an_undeclared_form_is_refused_by_the_option_to_write(name: str, tmp_path: Path) -> None:
    text, options = FORMS[name]
    path = csv_file(tmp_path, text)
    with pytest.raises(dc.InputError) as refused:
        tables(path)
    said = str(refused.value)
    assert "\n" not in said and "männlich" not in said and "2516" not in said and "made by" not in said
    for option in options:
        assert f"{option} = " in said, said


@pytest.mark.parametrize("name", FORMS)
def test_one_look_finds_the_form(name: str, tmp_path: Path) -> None:
    text, options = FORMS[name]
    path = csv_file(tmp_path, text)
    found = find_form(str(path), NETWORK.schema.names).options
    assert {word: value for word, value in found.items() if word != "delimiter"} == options
    assert tables(path, **found) == same(name)


def test_quotes_tabs_and_line_ends_in_fields_need_no_word(tmp_path: Path) -> None:
    text = 'x\tnote\na\t"two\r\nlines"\nb\t"a ""word"""\n'
    assert counted(csv_file(tmp_path, text, "r.tsv"), AB) == [1, 1]
    assert counted(csv_file(tmp_path, text.replace("\t", ";")), AB, delimiter=";", footer=0) == [1, 1]
    path = csv_file(tmp_path, text.encode("utf-16"), "u.txt")
    assert counted(path, AB, encoding="utf-16") == [1, 1]
    quoted = csv_file(tmp_path, text.replace('"', "'"), "q.csv")
    assert counted(quoted, AB, quote="'") == [1, 1]
    assert counted(csv_file(tmp_path, 'x,n\na,"5\nb,6"\n'), AB, quote="") == [1, 1]


def test_a_number_of_another_form_is_no_number(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "Größe;kg\nmännlich;80.5\n")
    with pytest.raises(dc.InputError, match="kg"):
        tables(path, decimal=",")
    for wrong in ("12.34", "1.2345", "1,5.000"):
        with pytest.raises(dc.InputError, match="kg"):
            tables(csv_file(tmp_path, f"Größe;kg\nmännlich;{wrong}\n"), decimal=",", thousands=".")


def test_states_are_rewritten_as_numbers_and_as_text_never(tmp_path: Path) -> None:
    path = csv_file(tmp_path, "x;y\n1,5;1,5\n2;b\n")
    assert counted(path, dc.Variable("x", ("1.5", "2")), decimal=",") == [1, 1]
    assert counted(path, dc.Variable("y", ("1,5", "b")), decimal=",") == [1, 1]


@pytest.mark.parametrize("bad", ["weiblich;1\r\n", "weiblich;1;2;3\r\n", '"weiblich;1;2\r\n', 'weiblich;1;"2\r\n'])
def test_a_bad_line_refuses_and_is_not_dropped(bad: str, tmp_path: Path) -> None:
    path = csv_file(tmp_path, (PLAIN_GERMAN + bad + "weiblich;60;x\r\n").encode("cp1252"))
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    account = dc.Ledger(f"sqlite:///{tmp_path / 'l.db'}").open("a", promise)
    with pytest.raises(dc.InputError, match=r"could not be read|not closed"):
        records = dc.read_records(path, NETWORK.schema, encoding="cp1252", decimal=",")
        prior = dc.Dirichlet.uniform(NETWORK)
        dc.release(dc.laplace(), dc.count(records, NETWORK), prior, promise, account=account)
    assert not account.charges()


def test_one_record_more_changes_the_counts_by_one_under_any_footer(tmp_path: Path) -> None:
    lines = PLAIN_GERMAN.splitlines(keepends=True)
    form = {"encoding": "cp1252", "decimal": ",", "footer": 2}
    base = tables(csv_file(tmp_path, "".join(lines).encode("cp1252")), **form)[0]
    for at in range(1, len(lines) + 1):
        more = [*lines[:at], "weiblich;60;x\r\n", *lines[at:]]
        changed = tables(csv_file(tmp_path, "".join(more).encode("cp1252")), **form)[0]
        assert sum(abs(a - b) for a, b in zip(base, changed, strict=True)) == 1


def test_long_files_are_read_and_looked_at(tmp_path: Path) -> None:
    rows = "".join(f'{sex};{german(kg)};"1.\r\n1."\r\n' for sex, kg in ROWS) * 12_000
    path = csv_file(tmp_path, (TITLES + "Größe;kg;Datum\r\n" + rows + SUM).encode("cp1252"))
    found = find_form(str(path)).options
    assert found == {**FORMS["German Excel"][1], "delimiter": ";"}
    assert tables(path, **found)[0] == [24_000, 36_000]
    bare = csv_file(tmp_path, ("Größe;kg;Datum\r\n" + rows).encode())
    assert "footer" not in find_form(str(bare)).options


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"encoding": "klingon"}, "klingon"), ({"encoding": "rot13"}, "rot13"), ({"delimiter": ";;"}, "single"),
        ({"quote": "q"}, "single"), ({"decimal": ";"}, "decimal"), ({"decimal": ",", "thousands": ","}, "differ"),
        ({"delimiter": chr(34)}, "differ"), ({"preamble": -1}, "from 0"), ({"footer": True}, "from 0"),
        ({"encoding": 7}, "7"),
    ],
)  # fmt: skip
def test_a_form_that_no_file_has_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(dc.InputError, match=word):
        TextForm(**options)


def test_other_sources_have_no_such_form(tmp_path: Path) -> None:
    table = pa.table({"x": ["a"]})
    pq.write_table(table, tmp_path / "r.parquet")
    for source in (table, tmp_path / "r.parquet", pl.DataFrame(table)):
        with pytest.raises(dc.InputError, match="decimal"):
            counted(source, AB, decimal=",")


def test_preambles_and_footers_longer_than_the_file_are_refused(tmp_path: Path) -> None:
    for options in ({"preamble": 9}, {"footer": 9}):
        with pytest.raises(dc.InputError):
            counted(csv_file(tmp_path, "x,y\na,1\n"), AB, **options)
    assert counted(csv_file(tmp_path, "x,y\na,1\n"), AB, footer=1) == [0, 0]


# ---------------------------------------------------------------------------------------------- workbooks and frames


def test_a_workbook_is_read_as_the_clean_file(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    rows: list[list[object]] = [["Größe", "kg", None], *[[sex, float(kg), True] for sex, kg in ROWS]]
    assert tables(workbook(tmp_path / "r.xlsx", rows)) == same("")
    framed = workbook(tmp_path / "f.xlsx", [["Auswertung"], [], *rows, [], ["Summe", 2516.25, None]])
    assert tables(framed, preamble=2, footer=2) == same("")
    logical = dc.Variable("column 3", ("true", "false"))
    assert counted(tmp_path / "r.xlsx", logical) == [5, 0]


def test_sheets_of_a_workbook_are_named(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "r.xlsx", [["x"], ["a"], [None], ["b"]], ("one", "two"))
    assert counted(path, AB, table="two", missing="drop") == [1, 1]
    for options, word in (
        ({}, "2: table"),
        ({"table": "three"}, "2: table"),
        ({"table": "two", "quote": "'"}, "quote"),
    ):
        with pytest.raises(dc.InputError, match=word):
            counted(path, AB, **options)


def test_a_damaged_workbook_is_refused_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    path = workbook(tmp_path / "r.xlsx", [["x"], [CANARY]])
    whole = path.read_bytes()
    for damaged in (whole[:200], whole[:-30], b"x" * 500, whole.replace(b"PK", b"KP", 1)):
        path.write_bytes(damaged)
        with pytest.raises(dc.InputError) as refused:
            counted(path, AB)
        assert CANARY not in str(refused.value) and "\n" not in str(refused.value)


def test_streams_that_were_read_are_refused() -> None:
    table = pa.table({"x": ["a", "b", "a"]})
    stream = table.to_reader()
    assert counted(stream, AB) == [2, 1]
    with pytest.raises(dc.InputError, match="stream"):
        counted(stream, AB)
    assert counted(table.slice(0, 0), AB) == [0, 0]


def test_a_stream_is_kept_for_all_passes() -> None:
    records = dc.read_records(pa.table({"x": ["a", "b", "a"]}).to_reader(), dc.Schema((AB,)))
    network = dc.Network((AB,), {"x": ()})
    assert [dc.count(records, network).tables["x"].tolist() for _ in range(2)] == [[2, 1]] * 2


def test_queries_of_polars_are_run_over_the_wanted_columns() -> None:
    lazy = pl.LazyFrame({"x": ["a", "b", "a", "b"], "n": [1, 2, 3, 4]}).filter(pl.col("n") > 1)
    assert counted(lazy, AB) == [1, 2] == counted(lazy.collect(), AB)
    assert counted(lazy.filter(pl.col("n") > 9), AB) == [0, 0]
    with pytest.raises(dc.InputError, match="no column"):
        counted(lazy, dc.Variable("z", ("a",)))


@pytest.mark.parametrize("variable", [LOGICAL, N01])
def test_logical_values_are_read_as_the_states_that_are_declared(variable: dc.Variable, tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE t (x BOOLEAN)")
        base.executemany("INSERT INTO t VALUES (?)", [(1,), (0,), (True,), ("true",), ("FALSE",), ("True",)])
    base.close()
    wanted = [4, 2] if variable is LOGICAL else [2, 4]
    assert counted(f"sqlite:///{path}", variable, table="t") == wanted
    frame = pa.table({"x": [True, False, True, True, False, True]})
    assert counted(frame, variable) == wanted
    with sqlite3.connect(path) as base:
        base.execute("INSERT INTO t VALUES (2)")
    base.close()
    with pytest.raises(dc.InputError, match="'x'"):
        counted(f"sqlite:///{path}", variable, table="t")


def test_globs_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name, state in (("a-1.parquet", "a"), ("a-2.parquet", "b"), ("b.parquet", "b"), ("more/a-3.parquet", "a")):
        pq.write_table(pa.table({"x": [state]}), tmp_path / name)
    assert counted(f"file://{tmp_path}/a-*.parquet", AB) == [1, 1]
    assert counted(f"file://{tmp_path}/**/*.parquet", AB) == [1, 0]
    with pytest.raises(dc.InputError, match="no file"):
        counted(f"file://{tmp_path}/c*.parquet", AB)


# ------------------------------------------------------------------------------------------------------- commands


def test_a_form_is_drafted_and_read_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = shell.Shell(capfd)
    csv_file(tmp_path, (TITLES + GERMAN + SUM).encode("cp1252"), "private.csv")
    csv_file(tmp_path, "Größe;kg\r\nmännlich;0,5\r\nweiblich;2000\r\n".encode("cp1252"), "codebook.csv")
    code, _, said = run("init codebook.csv --source private.csv --output p.toml")
    text = Path("p.toml").read_text()
    assert code == 0 and "preamble = 2" in said, said
    for line in ('encoding = "cp1252"', 'decimal = ","', 'thousands = "."', "preamble = 2", "footer = 2", '"0.5"'):
        assert line in text, text
    assert "Summe" not in text and "1234" not in text.replace(".", "")
    text = text.replace('states = ["0.5", "2000"]', "bounds = [0, 2000]\nbins = [70]")
    Path("p.toml").write_text(text)
    assert run("check p.toml")[0] == 0
    Path("p.toml").write_text(text.replace('decimal = ","', 'decimal = "."').replace('thousands = "."', ""))
    code, _, said = run("check p.toml")
    assert code == 2 and 'decimal = ","' in said and 'thousands = "."' in said
    Path("bare.toml").write_text('[source]\ndata = "private.csv"\n' + text.partition("footer = 2")[2])
    assert "preamble = 2" in run.fails("check bare.toml")


# ------------------------------------------------------------------------------------------------------- stray quotes


ROW_OF_TEXTS = "b,n,a\n"


@pytest.mark.parametrize("form", [{}, {"encoding": "cp1252"}])
@pytest.mark.parametrize(
    "rows",
    [
        {3: 'a,a"b,"c\n', 13: 'b,n,5"\n', 17: 'b,n,5"\n'},  # the first closes far below, where readers allow it
        {3: 'a,n,5" by 6"\n'},
        {3: 'a,n,"five" and\n'},
        {3: 'a,n, "five"\n'},
        {3: 'a,n,"five\n'},
    ],
)
def test_a_quote_inside_a_text_joins_no_records(form: dict[str, str], rows: dict[int, str], tmp_path: Path) -> None:
    """Refused in a line that names the option; with `quote = ""` all rows are records."""
    lines = [rows.get(row, ROW_OF_TEXTS) for row in range(20)]
    path = csv_file(tmp_path, "x,name,note\n" + "".join(lines))
    network = dc.Network.empty([dc.Variable("x", ("a", "b"))])
    with pytest.raises(dc.InputError, match="quote") as refused:
        dc.count(dc.read_records(path, network.schema, **form), network)
    assert "\n" not in str(refused.value) and "five" not in str(refused.value)
    counts = dc.count(dc.read_records(path, network.schema, quote="", **form), network)
    assert counts.tables["x"].tolist() == [1, 19]


@pytest.mark.parametrize("form", [{}, {"encoding": "cp1252"}])
def test_quotes_around_texts_are_read(form: dict[str, str], tmp_path: Path) -> None:
    """Doubled ones, delimiters, line ends and empty texts inside; at the ends of pieces, too."""
    some = 'a,"5"" by 6","x,\ny"\n"b","",\n"b","""",""""""\n'
    path = csv_file(tmp_path, "\ufeff" + '"x","name",note\n' + some * 40_000)
    network = dc.Network.empty([dc.Variable("x", ("a", "b"))])
    form = form or {"encoding": "utf-8"}
    if form["encoding"] == "cp1252":
        path.write_bytes(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    counts = dc.count(dc.read_records(path, network.schema, **form), network)
    assert counts.tables["x"].tolist() == [40_000, 80_000]


@pytest.mark.parametrize("title", ["Report\r\n", "A\rB\n", '"Pipes" of 5", in May\n', '"May\nkg\n'])
def test_a_preamble_is_cut_by_its_lines_alone(title: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes((title + "x,note\n" + "a,1\nb,2\n" * 10).encode())
    network = dc.Network.empty([dc.Variable("x", ("a", "b"))])
    lines = 1 if title in ("Report\r\n", '"Pipes" of 5", in May\n') else 2
    counts = dc.count(dc.read_records(path, network.schema, preamble=lines), network)
    assert counts.tables["x"].tolist() == [10, 10]


def test_groups_begin_with_no_zero_and_markers_are_as_the_file_writes_them(tmp_path: Path) -> None:
    weight = dc.Variable("kg", bounds=(-20, 2000), bins=(0, 100), missing="none")
    network = dc.Network.empty([weight])
    read = {"decimal": ",", "thousands": ".", "na_values": ["-9,0"], "missing": "keep", "delimiter": ";"}
    path = csv_file(tmp_path, "kg\n-9,0\n-9\n1.234\n5,5\n")
    assert dc.count(dc.read_records(path, network.schema, **read), network).tables["kg"].tolist() == [0, 1, 1, 2]
    path = csv_file(tmp_path, "kg\n0.125\n")
    with pytest.raises(dc.InputError, match="kg"):
        dc.count(dc.read_records(path, network.schema, **read), network)
    with pytest.raises(dc.InputError, match="thousands"):
        TextForm(thousands="-")
    with pytest.raises(dc.InputError, match="ASCII"):
        TextForm(delimiter="¦")


@pytest.mark.parametrize("encoding", ["unicode_escape", "UTF-7", "raw_unicode_escape", "iso2022_jp", "hz", "punycode"])
def test_encodings_in_which_a_text_may_be_a_line_end_are_refused(encoding: str) -> None:
    with pytest.raises(dc.InputError, match="may hide line ends"):
        TextForm(encoding)
