"""Tables as text: whole where there is room, and never wider than the terminal."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import discreet as dc
from discreet.accuracy.accuracy_plan import PlannedWidth
from discreet.display.text_tables import columns, columns_of, fold
from discreet.posterior import fit_check
from folding import every
from oracle import random_draws

WIDTHS = (60, 80, 200)
LONG = "a very long name of a state that nobody would like to type"


def posterior() -> dc.results.PosteriorDraws:
    """Many states, long names and many parents."""
    names = [f"a cause with a long name, number {number}" for number in range(6)]
    variables = [dc.Variable(name, ("yes", "no")) for name in names]
    many = dc.Variable("outcome", tuple(f"{LONG} {number}" for number in range(12)))
    return dc.results.PosteriorDraws(
        random_draws(dc.Network((*variables, many), {**dict.fromkeys(names, ()), "outcome": tuple(names[:3])}), 40, 5)
    )


def words(text: str) -> set[str]:
    """All words of a text, without what breaks them."""
    return set(re.findall(r"[\w.]+", text))


@every("width", WIDTHS)
def test_wide_answers_fit_a_terminal(width: int) -> None:
    drawn = posterior()
    given_ = ", ".join(f'"{name}"=yes' for name in drawn.network.nodes[:6])
    queries = [f"P(outcome | {given_})", "MPE(|)", f'P("{drawn.network.nodes[0]}", "{drawn.network.nodes[1]}")']
    answers = dc.answer_many(drawn, queries)
    text = answers.summary(width=width)
    assert max(map(columns_of, text.splitlines())) <= width
    whole = answers.summary()
    assert words(whole) <= words(text)
    numbers = re.findall(r"0\.\d{4}", whole)
    assert re.findall(r"0\.\d{4}", text) == numbers and len(numbers) > 40
    assert f"{answers[0].rows[0]['lower']:.4f} to {answers[0].rows[0]['upper']:.4f}" in text


def test_a_table_that_fits_is_not_touched() -> None:
    rows = [("smoke", "0.5"), ("lung", "0.25")]
    assert (
        columns(("name", "mean"), rows, 80) == columns(("name", "mean"), rows) == "name   mean\nsmoke  0.5\nlung   0.25"
    )


def test_long_texts_are_broken_and_numbers_are_not() -> None:
    text = columns(("query", "mean", "interval"), [(LONG, "0.1234", "0.1000 to 0.2000")], 50)
    lines = text.splitlines()
    assert all(columns_of(line) <= 50 for line in lines)
    assert lines[1].endswith("0.1234  0.1000 to 0.2000") and lines[1].startswith("a very long name")
    assert " ".join(line[:24].strip() for line in lines[1:]).split() == LONG.split()


def test_what_leaves_no_room_stands_above_its_row() -> None:
    row = ("P(a | b)", "a=yes", "0.1234", "0.1000 to 0.2000", "38 ± 3 %")
    lines = columns(
        ("query", "state", "mean", "95 % interval", "noise"), [row, ("", "a=no", *row[2:])], 40
    ).splitlines()
    assert lines[3:] == ["P(a | b)", "  a=yes", f"    {'  '.join(row[2:])}", "  a=no", f"    {'  '.join(row[2:])}"]


def test_names_that_no_terminal_may_hold_are_escaped() -> None:
    text = columns(("name",), [("a\x1b[31mred\nline",)], 80)
    assert text == "name\na\\x1b[31mred\\nline"
    wide = columns(("name", "n"), [("\u4e2d\u6587\u5b57", "1"), ("abc", "2")])
    assert wide.splitlines()[1:] == ["\u4e2d\u6587\u5b57  1", "abc     2"]


def test_a_word_longer_than_the_terminal_is_broken_anywhere() -> None:
    text = columns(("name", "mean"), [("x" * 100, "0.5")], 40)
    assert max(map(len, text.splitlines())) <= 40 and text.count("x") == 100


@given(st.text(alphabet="ab -,=\u4e2d", max_size=120), st.integers(20, 80))
def test_folding_keeps_the_words(text: str, width: int) -> None:
    folded = fold(text, width)
    assert "".join(folded.split()) == "".join(text.split())
    assert all(columns_of(line) <= width or " " not in line.strip() for line in folded.splitlines())
    assert fold(text, None) == text
    assert all(word in folded for word in text.split())


@given(
    st.lists(st.tuples(st.text(alphabet="xyz =", max_size=40), st.floats(0, 1).map("{:.4f}".format)), max_size=6),
    st.integers(30, 100),
)
def test_no_line_of_a_table_is_longer_than_the_terminal(rows: list[tuple[str, str]], width: int) -> None:
    text = columns(("state", "mean"), rows, width)
    assert all(columns_of(line) <= width for line in text.splitlines())
    assert all(number in text for _, number in rows)


def test_other_results_fit_too() -> None:
    rng = np.random.default_rng(1)
    found = dc.results.Regression(
        "income of the household", (LONG, "b"), "linear", (LONG, "b"), rng.normal(size=(50, 2))
    )
    plan = dc.results.AccuracyPlan(
        "planned", None, 0.02, 1000, (PlannedWidth(f"P({LONG})", (1.0, 2.0), (0.05, 0.04), 0.03),), "wider"
    )
    network = posterior().network
    for result in (
        found,
        plan,
        network,
        dc.results.GoodnessOfFit((fit_check.Tested((LONG, LONG), 0.5, 0.1, ()),), 1, 3),
    ):
        for width in WIDTHS:
            assert max(map(columns_of, result.summary(width=width).splitlines())) <= width, type(result)
