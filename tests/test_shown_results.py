"""Answers, decisions, coefficients and posteriors as frames, HTML and pictures: the numbers are the same in all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.model.intervals import frame_of, html_table

STUDY = dc.Network.from_edges([("smoke", "lung")], [dc.Variable(name, ("yes", "no")) for name in ("smoke", "lung")])


@pytest.fixture(scope="module")
def release() -> dc.Release:
    truth = dc.Tables(STUDY, {"smoke": [0.4, 0.6], "lung": [[0.1, 0.9], [0.02, 0.98]]})
    records = dc.read_records(dc.tools.simulate_records(truth, 5000, rng=1), STUDY.schema)
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    return dc.simulate(dc.planned(), dc.count(records, STUDY), dc.Dirichlet.uniform(STUDY), promise, rng=2)


@pytest.fixture(scope="module")
def posterior(release: dc.Release) -> dc.results.PosteriorDraws:
    return release.posterior(draws=200, rng=3)


def results(posterior: dc.results.PosteriorDraws) -> dict[str, Any]:
    """One result of each kind."""
    payoff = dc.decisions.payoff(STUDY, "P(lung)", {"scan": {"yes": 1, "no": 0.5}, "wait": {"yes": 0, "no": 1}})
    return {
        "an answer": posterior.answer("P(lung | smoke=yes)"),
        "answers": dc.answer_many(posterior, ["P(lung=yes)", "P(smoke, lung)"]),
        "marginals": dc.marginals(posterior),
        "a decision": dc.decide(posterior, payoff, ["scan", "wait"]),
        "a regression": dc.regress(posterior, "lung", ["smoke"]),
        "a posterior": posterior,
    }


KINDS = ("an answer", "answers", "marginals", "a decision", "a regression", "a posterior")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_frames_have_the_numbers_of_the_rows(posterior: dc.results.PosteriorDraws, kind: str, library: Any) -> None:
    found = results(posterior)[kind]
    frame = found.to_frame(library)
    rows = found.tidy()
    columns = frame.column_names if library == "arrow" else list(frame.columns)
    assert columns == list(dict.fromkeys(name for row in rows for name in row))
    for name in ("mean", "lower", "upper"):
        np.testing.assert_array_equal(np.asarray(frame[name]), [row[name] for row in rows])


def test_answers_are_tidy(posterior: dc.results.PosteriorDraws) -> None:
    alone = posterior.answer("P(smoke, lung)")
    assert list(alone.tidy()[0])[:3] == ["smoke", "lung", "mean"]
    assert [(row["smoke"], row["lung"]) for row in alone.tidy()] == [
        (row["state"]["smoke"], row["state"]["lung"])  # type: ignore[index]
        for row in alone.rows
    ]
    several = dc.answer_many(posterior, ["P(lung=yes)", "P(smoke, lung)"])
    assert isinstance(several, tuple) and len(several) == 2
    table = several.tidy()
    assert len(table) == 5 and (table[1]["variable"], table[1]["state"]) == ("smoke, lung", "yes, yes")
    assert [row["sampling"] + row["noise"] for row in table] == pytest.approx([1] * 5)
    assert [row["noise"] for row in table[1:]] == [row["noise"] for row in several[1].rows]
    assert several.summary().splitlines()[0].startswith("query")
    assert alone.summary().count("\n") >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_pictures_draw_each_interval(posterior: dc.results.PosteriorDraws, kind: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = results(posterior)[kind]
    rows, axes = found.tidy(), found.plot()
    known = [row for row in rows if row.get("noise") is not None]
    assert len(axes.lines) == 2 * len(rows) + len(known)
    whiskers = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == "|"]
    for line, row in zip(whiskers, rows, strict=True):
        assert tuple(line.get_xdata()) == (row["lower"], row["upper"])
    assert len(axes.get_yticklabels()) == len(rows)
    pyplot.close(axes.figure)


def test_html_shows_the_numbers_and_escapes_the_names(posterior: dc.results.PosteriorDraws) -> None:
    found = posterior.answer("P(lung | smoke=yes)")
    page = found._repr_html_()
    for row in found.rows:
        assert f"{row['mean']:.4f}" in page and f"{row['lower']:.4f} to {row['upper']:.4f}" in page
    assert page.count("<svg") == 2 and "<script" not in page
    rows = [{"state": "<i>", "mean": 0.1 * at, "lower": 0.0, "upper": 1.0} for at in range(5)]
    page = html_table(rows, most=3)
    assert "&lt;i&gt;" in page and "<i>" not in page and "2 more rows" in page
    assert page.count("&lt;i&gt;") == 3
    assert html_table([]) == "<p>no rows</p>"


def test_a_posterior_and_a_network_are_shown_without_being_asked(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = posterior._repr_html_()
    assert "200 posterior draws" in page and "<svg" in page
    assert STUDY._repr_html_() in page
    assert STUDY.to_frame("arrow").to_pylist()[1] == {"node": "lung", "states": ["yes", "no"], "parents": ["smoke"]}
    assert STUDY.summary() == STUDY.to_text()
    assert "lung=yes" in posterior.summary() and posterior.summary().startswith("200 draws of 2 variables")
    monkeypatch.setattr("discreet.model.network.MOST_DRAWN_NODES", 1)
    assert STUDY._repr_html_().startswith("<pre>2 nodes")


def test_what_cannot_be_shown_is_refused(posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch) -> None:
    found = posterior.answer("P(lung)")
    with pytest.raises(dc.InputError, match="pandas, polars or arrow"):
        found.to_frame("dask")  # type: ignore[arg-type]
    import sys

    for name in ("polars", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(dc.InputError, match="polars is not installed"):
        frame_of([{"a": 1}], "polars")
    with pytest.raises(dc.InputError, match=r"discreet\[plot\]"):
        found.plot()
