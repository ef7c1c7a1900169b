"""Answers, decisions, coefficients and posteriors as frames, HTML and pictures: the numbers are the same in all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import discreet as dc
from discreet.display.renderers import IntervalTable, frame_of

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
    page = IntervalTable(rows, most=3).html()
    assert "&lt;i&gt;" in page and "<i>" not in page and "2 more rows" in page
    assert page.count("&lt;i&gt;") == 3
    assert IntervalTable([]).html() == "<p>no rows</p>"


def test_answers_of_all_kinds_stand_in_one_table() -> None:
    """A probability and a mean have other columns, and lie on other lines."""
    variables = (dc.Variable("age", bounds=(0, 90), bins=(30, 60)), dc.Variable("ill", ("no", "yes")))
    network = dc.Network.from_edges([("age", "ill")], variables)
    counts = dc.tools.count_codes(network, {"age": [0, 1, 2] * 100, "ill": [0, 0, 1] * 100})
    promise = dc.Guarantee(epsilon=2, delta=0, relation="add-remove", unit="record")
    made = dc.simulate(dc.planned(), counts, dc.Dirichlet.uniform(network), promise, rng=1)
    posterior = made.posterior(draws=200, rng=2)
    for queries in (["E(age)", "P(ill=yes)"], ["P(ill=yes)", "median(age)"]):
        found = dc.answer_many(posterior, queries)
        page = found._repr_html_()
        number = next(row for row in found.tidy() if "law_lower" in row)
        share = next(row for row in found.tidy() if "law_lower" not in row)
        assert f"{number['law_lower']:.5g} to {number['law_upper']:.5g}" in page
        assert f"{share['lower']:.4f} to {share['upper']:.4f}" in page
        assert "by the law in bins" in page and "95 % interval" in page and str(number["law_lower"]) not in page
        shown = IntervalTable([share]).html()
        assert shown[shown.index("<svg") : shown.index("</svg>")] in page  # its bar is that of the share alone
    assert "by the law" not in posterior.answer("P(ill)")._repr_html_()
    given_a_part_of_a_bin = posterior.answer("P(ill | age > 45)")
    assert "law_lower" in given_a_part_of_a_bin.rows[0]
    assert all(state in str(given_a_part_of_a_bin) for state in ("ill=no", "ill=yes"))  # the query does not name states
    rows = [{"name": "a", "mean": 0.5, "lower": 0, "upper": 1, "level": one} for one in (0.9, 0.95)]
    mixed = IntervalTable(rows).html()
    assert '<th scope="col">interval</th>' in mixed


def test_answers_print_as_tables(posterior: dc.results.PosteriorDraws) -> None:
    one = posterior.answer("P(lung | smoke=yes)")
    assert str(one) == one.summary() and str(one).startswith("query")
    several = dc.answer_many(posterior, ["P(lung)", "P(smoke)"])
    assert str(several) == several.summary() and "P(smoke)" in str(several)


def test_pictures_name_rows_by_what_tells_them_apart(posterior: dc.results.PosteriorDraws) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")

    def labels(found: Any) -> list[str]:
        from matplotlib import pyplot

        axes = found.plot()
        pyplot.close(axes.figure)
        return [label.get_text() for label in axes.get_yticklabels()]

    assert labels(posterior.answer("P(lung | smoke=yes)")) == ["lung=yes", "lung=no"]
    assert labels(posterior.answer("P(lung=yes | smoke=yes)")) == ["lung=yes  measured"]
    assert labels(posterior.answer("P(smoke, lung=yes)")) == ["smoke=yes", "smoke=no"]
    assert labels(posterior)[:2] == ["smoke=yes", "smoke=no"]  # a question that asks for all of it says no more
    asked = [f"P(lung=yes | smoke={state})" for state in ("yes", "no")]
    assert labels(dc.answer_many(posterior, asked)) == asked
    row = {"query": "MAP(lung)", "state": "lung=no", "mean": 0.9, "lower": 0.8, "upper": 1.0, "best": 1.0}
    page = IntervalTable([row, row | {"query": "MAP(smoke)", "state": "smoke=no"}]).html()
    assert "lung=no" in page and "smoke=no" in page  # a query for the most probable states does not say them


def test_what_was_released_pooled_and_scored_shows_itself(release: dc.Release) -> None:
    page = release._repr_html_()
    assert release.id in page and "protects nobody" in page and STUDY._repr_html_() in page
    assert "epsilon 1, add-remove one record" in page
    assert repr(release) == f"Release(id='{release.id}', private=False, planned: epsilon 1, add-remove one record)"
    public = dc.Release.loads(release.dumps().replace('"private": false', '"private": true'))
    assert release.id in public._repr_html_() and "nobody" not in public._repr_html_()
    pooled = dc.tools.pool_estimates([[0.1, 5.0], [0.12, 5.5], [0.11, 5.2]], [[1e-4, 0.1]] * 3)
    assert [row["quantity"] for row in pooled.tidy()] == [1, 2]
    np.testing.assert_array_equal([row["lower"] for row in pooled.tidy()], pooled.lower)
    (one,) = dc.tools.pool_estimates([0.1, 0.12, 0.11], [1e-4] * 3).tidy()
    assert one["lower"] < one["mean"] < one["upper"] and one["level"] == 0.95
    score = dc.designs.Score("accuracy", 0.8, 0.7, 0.9, 0.95, release)
    assert score.tidy() == [{"metric": "accuracy", "mean": 0.8, "lower": 0.7, "upper": 0.9, "level": 0.95}]
    assert "0.7000 to 0.9000" in score._repr_html_()


def test_a_unit_is_text_where_a_release_shows_itself() -> None:
    coin = dc.Network.empty([dc.Variable("coin", ("heads", "tails"))])
    tossed = dc.tools.count_codes(coin, {"coin": [0, 1, 1]})
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="<b>coin</b>")
    made = dc.simulate(dc.laplace(), tossed, dc.Dirichlet.uniform(coin), promise, rng=1)
    assert "<b>" not in made._repr_html_() and "&lt;b&gt;coin" in made._repr_html_()


def test_a_release_over_a_design_shows_itself() -> None:
    design = dc.designs.Design((dc.Variable("age", bounds=(0, 90)),), dc.Variable("days", bounds=(0, 30)))
    rows = dc.designs.read_rows(design, np.array([[30.0], [60.0]]), np.array([3.0, 9.0]))
    promise = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
    made = dc.simulate(
        dc.designs.noisy_moments(), dc.designs.sum_moments(rows), dc.designs.Normal(design, 1), promise, rng=1
    )
    assert "noisy_moments" in made._repr_html_() and "<svg" not in made._repr_html_()


def test_a_balance_is_a_sentence() -> None:
    limit = dc.Guarantee(epsilon=2, delta="1e-6", relation="add-remove", unit="record")
    account = dc.Ledger("sqlite://").open("a", limit)
    account.charge("r", "m", dc.Guarantee(epsilon="0.5", delta="1e-7", relation="add-remove", unit="record"))
    told = "epsilon 0.5 of 2 and delta 0.0000001 of 0.000001 spent"
    assert str(account.balance()) == f"{told}, epsilon 1.5 and delta 0.0000009 left"
    account.close()
    assert str(account.balance()) == f"{told}, closed"


def test_a_posterior_and_a_network_are_shown_without_being_asked(
    posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = posterior._repr_html_()
    assert "200 posterior draws" in page and "<svg" in page
    assert STUDY._repr_html_() in page
    assert STUDY.to_frame("arrow").to_pylist()[1] == {"node": "lung", "states": ["yes", "no"], "parents": ["smoke"]}
    assert STUDY.summary() == STUDY.to_text()
    assert "lung=yes" in posterior.summary() and posterior.summary().startswith("200 draws of 2 variables")
    monkeypatch.setattr("discreet.display.network_svg.MOST_DRAWN_NODES", 1)
    assert STUDY._repr_html_().startswith("<pre>2 nodes")


def test_what_cannot_be_shown_is_refused(posterior: dc.results.PosteriorDraws, monkeypatch: pytest.MonkeyPatch) -> None:
    found = posterior.answer("P(lung)")
    with pytest.raises(dc.InputError, match="pandas, polars or arrow"):
        found.to_frame("dask")  # type: ignore[arg-type]
    import sys

    for name in ("polars", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(dc.InputError, match="needs polars, which is not installed"):
        frame_of([{"a": 1}], "polars")
    with pytest.raises(dc.InputError, match=r"'\.\[plot\]'"):
        found.plot()
