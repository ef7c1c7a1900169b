"""Every measured number in a sentence of README, strengths and guides is listed, repeatable, and as it is stored."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec

import pandas as pd
import pytest

from bench.figures import PAGES, ROOT, Cell, Figure, OfCode, OfCommand, OfExperiment, agree, document, main, strangers
from bench.figures_stated import FIGURES, PARAMETERS
from discreet.cli.cli import main as discreet
from experiments import NAMES
from folding import every
from makefile import targets


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@every("page", PAGES)
def test_every_number_of_a_page_is_listed_or_known_not_to_be_measured(page: str) -> None:
    """A new figure gets a line in `bench/figures_stated.py`; what nobody measured a pattern among its parameters."""
    assert strangers(page, text_of(page), FIGURES, [*PARAMETERS[""], *PARAMETERS.get(page, ())]) == []


@every("at", range(len(FIGURES)))
def test_a_sentence_says_what_is_stored(at: int) -> None:
    """`python -m bench.figures --write` puts what is stored into the sentences."""
    figure = FIGURES[at]
    said, stored = figure.stated(text_of(figure.page)), figure.source.stored()
    assert stored is None or said == stored, figure.sentence


def test_the_page_is_the_list() -> None:
    """`python -m bench.figures --write` writes it."""
    assert text_of("docs/figures.md") == document(FIGURES)


@every("at", range(len(FIGURES)))
def test_a_command_that_makes_a_figure_exists(at: int) -> None:
    program, *words = shlex.split(FIGURES[at].source.command)
    if program == "make":
        assert words[0] in targets()
        return
    if program == "discreet":
        assert discreet([words[0], "--help"]) == 0
        return
    assert (program, words[0]) == ("python", "-m")
    assert find_spec(words[1]) is not None, words
    if words[1] == "experiments":
        assert words[2] in NAMES
    if words[1] == "pytest":
        assert (ROOT / words[2]).is_file(), words


def test_parameters_are_on_their_pages() -> None:
    """A pattern that nothing needs could hide a figure."""
    for page, patterns in PARAMETERS.items():
        texts = [text_of(page)] if page else [text_of(one) for one in PAGES]
        for pattern in patterns:
            assert any(re.search(pattern.replace(" ", r"\s+"), text) for text in texts), pattern


# ------------------------------------------------------------------------------------------ what would be found


COUNTED = OfCode("make test", "code", lambda: ["7.5", "12"])
SAID = Figure("README.md", "holds {} % of {} things", COUNTED)
PAGE = "# Of 3\n\nIt holds 7.5\n% of 12 things, see [five](x.md#5) and `8`.\n\n```sh\nrun 9\n```\n"


def test_a_number_that_nobody_listed_is_found() -> None:
    assert strangers("README.md", PAGE, [SAID], []) == []
    assert strangers("README.md", PAGE, [], []) == ["It holds 7.5", "% of 12 things, see [five  and  ."]
    assert strangers("README.md", PAGE + "In 4 s.\n", [SAID], []) == ["In 4 s."]
    assert strangers("README.md", PAGE + "In two\nminutes.\n", [SAID], []) == ["two\nminutes"]
    assert strangers("README.md", PAGE + "In 4\ns.\n", [SAID], ["In 4 s"]) == []


def test_a_sentence_that_is_gone_or_there_twice_is_found() -> None:
    assert SAID.stated(PAGE) == ["7.5", "12"]
    for text in ("It holds.", PAGE + PAGE):
        with pytest.raises(ValueError, match="mend bench/figures_stated"):
            SAID.stated(text)


def test_figures_are_written_into_their_sentence_alone() -> None:
    assert SAID.written(PAGE, ["10", "3"]) == PAGE.replace("7.5", "10").replace("12", "3")


def test_figures_agree_up_to_what_is_allowed() -> None:
    assert agree(["1.0"], ["1.0"], 0) and not agree(["1.0"], ["1"], 0)
    assert agree(["seven", "2,000"], ["7", "2199"], 0.1) and not agree(["2,000"], ["2201"], 0.1)
    assert agree([".30"], ["1.4"], 4.0) and not agree([".30"], ["1.6"], 4.0)
    assert not agree(["0"], ["1"], 4.0) and agree(["0"], ["0"], 0.1)
    assert not agree(["1"], ["1", "2"], 0.1) and not agree(["1"], [], 0.1)


def test_what_a_command_prints_is_read() -> None:
    source = OfCommand('python -c \'print("a 5 b 6"); print("a 7 b 8")\'', r"a (\d) b (\d)", 0.0)
    assert source.again() == ["5", "6", "7", "8"] and source.stored() is None
    assert Cell("performance.md", "Answers", "all 37 marginals", "before").text() == "39"


def test_an_experiment_is_read_by_its_first_seeds() -> None:
    def seeds(frame: pd.DataFrame) -> list[str]:
        return [str(seed) for seed in sorted(set(frame["seeds"]))]

    assert OfExperiment("errata", seeds).stored() == ["0", "1"]


def test_the_command_prints_each_figure_beside_what_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out
    assert printed.count("same ") == len(FIGURES) and "OTHER" not in printed
    main(["--run", "test_adversary"])
    assert capsys.readouterr().out.count("measured ") == 1
