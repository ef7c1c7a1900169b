"""Releases and networks that show themselves: rows of every kind, a summary, HTML in which names are text, pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dc
from folding import every

HOSTILE = ("<script>alert(1)</script>", "$\\frac{", "a & b")
SMOKE, LUNG = dc.Variable("<b>smoke</b>", ("yes", "no")), dc.Variable("$x^$", HOSTILE)
STUDY = dc.Network.from_edges([(SMOKE.name, LUNG.name)], [SMOKE, LUNG])
PROMISE = dc.Guarantee(epsilon=1, delta=0, relation="add-remove", unit="record")
DOCUMENTS = sorted((Path(__file__).parent / "data").glob("release-*.json"))
COUNTS = dc.tools.count_codes(STUDY, {SMOKE.name: [0, 1] * 300, LUNG.name: [0, 1, 2] * 200})
PRIOR = dc.Dirichlet.uniform(STUDY)


def candidates() -> list[dc.Tables]:
    """Two networks of which one is chosen."""
    return [_tables(seed) for seed in range(2)]


def _tables(seed: int) -> dc.Tables:
    """Probabilities that the prior draws."""
    drawn = PRIOR.draw(1, rng=seed)
    return dc.Tables(STUDY, {node: table[..., 0] for node, table in drawn.items()})


MADE: dict[str, Callable[[], Any]] = {
    "laplace": dc.laplace,
    "planned": dc.planned,
    "fourier": dc.research.fourier,
    "allocated": dc.research.allocated,
    "posterior_sampler": lambda: dc.research.posterior_sampler(draws=3),
    "map_estimate": lambda: dc.research.map_estimate(candidates()),
    "structure": dc.structure,
}


def made(name: str) -> dc.Release:
    """A release of the hostile study; one that chooses arcs has a third variable to choose for."""
    network, codes = STUDY, {SMOKE.name: [0, 1] * 300, LUNG.name: [0, 1, 2] * 200}
    if name == "structure":
        network = dc.Network.empty([*STUDY.variables, dc.Variable("cough", ("yes", "no"))])
        codes["cough"] = [0, 1] * 300
    mechanism = MADE[name]()
    counts = dc.tools.count_codes(network, codes, tuple(mechanism.scopes(network)) or None)
    return dc.simulate(mechanism, counts, dc.Dirichlet.uniform(network), PROMISE, rng=3)


@every("name", list(MADE))
def test_every_kind_of_release_shows_itself(name: str) -> None:
    release = made(name)
    rows = release.tidy()
    assert release.to_frame("arrow").num_rows == len(rows)
    text = release.summary()
    assert release.id in text and "simulation, which protects nobody" in text and f"{release.mechanism}, over a" in text
    assert release.payload.summary(release.calibration) in text and "spent: nothing" in text
    page = release._repr_html_()
    assert "<script" not in page and "<b>smoke" not in page and "<svg" in page
    assert "<img" not in replace(release, mechanism="<img src=x>")._repr_html_()
    assert max(map(len, release.summary(width=60).splitlines())) <= 60


def test_rows_have_the_noisy_numbers_as_they_were_published() -> None:
    release = made("laplace")
    rows = release.tidy()
    assert [row["value"] for row in rows] == [
        value
        for table in release.payload.tables.values()
        for value in table.ravel().tolist()  # type: ignore[union-attr]
    ]
    assert {row["noise"] for row in rows} == {"discrete_laplace"} and not any(row["contrast"] for row in rows)
    joint = [row for row in rows if row["variables"] == f"{SMOKE.name}, {LUNG.name}"]
    assert joint[1]["states"] == f"yes, {HOSTILE[1]}"
    contrasts = [row for row in made("fourier").tidy() if row["variables"] == LUNG.name]
    assert [row["states"] for row in contrasts] == [f"{a} - {b}" for a, b in pairwise(HOSTILE)]
    drawn = made("posterior_sampler").tidy()
    assert len(drawn) == 3 * (2 + 6) and {row["draw"] for row in drawn} == {0, 1, 2}
    by_row: dict[tuple[Any, ...], float] = {}
    for row in drawn:
        key = row["node"], row["given"], row["draw"]
        by_row[key] = by_row.get(key, 0.0) + row["probability"]
    np.testing.assert_allclose(list(by_row.values()), 1, atol=1e-6)


@every("path", DOCUMENTS)
def test_every_document_that_was_published_shows_itself(path: Path) -> None:
    release = dc.Release.load(path)
    rows = release.tidy()
    assert rows and all(list(row) == list(rows[0]) for row in rows)
    assert release.to_frame("arrow").num_rows == len(rows)
    text = release.summary()
    assert str(release.guarantee) in text and (f"{release.records:,}" if release.records else "private") in text
    assert release.id in release._repr_html_()
    if not release.networks:
        with pytest.raises(dc.InputError, match="no network to draw"):
            release.plot()


def test_what_was_spent_is_the_promise() -> None:
    account = dc.Ledger("sqlite://").open("a", PROMISE)
    release = dc.release(dc.planned(), COUNTS, PRIOR, PROMISE, account=account)
    assert "spent: epsilon 1\n" in release.summary()
    delta = dc.Guarantee(epsilon=1, delta="1e-6", relation="replace", unit="record")
    paid = dc.Ledger("sqlite://").open("a", delta)
    made_ = dc.release(dc.gaussian(), COUNTS, PRIOR, delta, account=paid)
    assert (
        "spent: epsilon 1, delta 0.000001\n" in made_.summary() and "records: 600, which is public" in made_.summary()
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_a_release(library: Any) -> None:
    pytest.importorskip(library)
    frame = made("planned").to_frame(library)
    assert list(frame.columns)[:3] == ["variables", "states", "value"]
    assert list(STUDY.to_frame(library)["node"]) == [SMOKE.name, LUNG.name]


def test_without_the_libraries_the_error_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "pandas", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    release = made("laplace")
    with pytest.raises(dc.InputError, match="pip install polars"):
        release.to_frame("polars")
    with pytest.raises(dc.InputError, match="pip install pandas"):
        release.to_frame()
    for shown in (release, STUDY):
        with pytest.raises(dc.InputError, match=r"'\.\[plot\]'"):
            shown.plot()  # type: ignore[attr-defined]


def test_pictures_of_networks_have_a_box_for_each_node_and_an_arrow_for_each_arc() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    from networks import asia

    known = asia().network
    for shown, network in ((known, known), (made("planned"), STUDY), (made("structure"), None)):
        axes = shown.plot()
        network = network or made("structure").payload.chosen  # type: ignore[union-attr]
        boxes = [part for part in axes.patches if isinstance(part, FancyBboxPatch)]
        arcs = {part.get_gid() for part in axes.patches if isinstance(part, FancyArrowPatch) and part.get_gid()}
        assert len(boxes) == len(network.nodes)
        assert arcs == {f"{parent} -> {child}" for parent, child in network.arcs}
        axes.figure.canvas.draw()  # names that look like mathematics are text
        pyplot.close(axes.figure)
    own = pyplot.subplots()[1]
    assert known.plot(own) is own
    pyplot.close(own.figure)
    assert pyplot.get_fignums() == []


def test_pictures_of_answers_take_any_name() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    axes = dc.marginals(made("planned").posterior(draws=50, rng=1)).plot()
    axes.figure.canvas.draw()
    assert any(HOSTILE[1] in label.get_text() for label in axes.get_yticklabels())
    pyplot.close(axes.figure)


def test_a_variable_that_is_called_as_a_number_is_told_from_it() -> None:
    network = dc.Network.empty([dc.Variable("mean", ("low", "high"))])
    drawn = dc.results.PosteriorDraws(dc.Dirichlet.uniform(network).draw(50, rng=1))
    (row, _) = drawn.answer("P(mean)").tidy()
    assert row["mean (state)"] == "low" and 0 <= row["mean"] <= 1


def test_numbers_that_are_decided_on_show_themselves() -> None:
    posterior = made("planned").posterior(draws=100, rng=1)
    found = dc.decisions.decide_number(posterior, f'P("{SMOKE.name}"=yes)', "interval:0.9")
    (row,) = found.tidy()
    assert (row["response"], row["response_upper"]) == found.response and row["loss"] == "interval:0.9"
    assert found.to_frame("arrow").num_rows == 1
    assert max(map(len, found.summary(width=60).splitlines())) <= 60
    score = dc.designs.Score("accuracy", 0.8, 0.7, 0.9, 0.95, made("laplace"))
    assert score.tidy()[0]["upper"] == 0.9 and "0.7000 to 0.9000" in score.summary() and "<svg" in score._repr_html_()


def test_figures_by_others_and_several_releases_show_themselves() -> None:
    exact = dc.external.StatedNoise("rounded", 1)
    census = dc.external_table([30, 20], STUDY, [SMOKE.name], exact, guarantee=None, source="<b>census")
    both = census.also([1003.5], [], dc.external.StatedNoise("laplace", 2), weights=[1])
    assert [(row["states"], row["value"]) for row in both.tidy()] == [("yes", 30), ("no", 20), ("sum 1", 1003.5)]
    release = made("laplace")
    combined = dc.combine(release, census, data="different")
    rows = combined.tidy()
    assert {(row["data_set"], row["id"]) for row in rows} == {(1, release.id), (2, census.id)}
    assert combined.to_frame("arrow").num_rows == len(release.tidy()) + 2
    text = combined.summary(width=60)
    assert text.startswith("data set 1 of 2\nrelease: ") and "data set 2 of 2\ntables over" in text
    for shown in (census, combined):
        page = shown._repr_html_()
        assert "<svg" in page and "<b>" not in page and "<script" not in page
