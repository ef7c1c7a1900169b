"""Reports of combined releases, from the documents, the command and a server; draws of a server's answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.read import read
from folding import every
from networks import asia
from releases import guarantee, simulated
from served_kinds import plain
from serving import Local, Served, served
from shell import Shell


@cache
def together() -> dc.results.Combined:
    """Two private releases of the same records, figures by others, and a simulation on records of its own."""
    first, second, third = (
        simulated(asia(), 800, guarantee(seed + 1), np.random.default_rng(seed)) for seed in (0, 1, 2)
    )
    noise = dc.external.StatedNoise("laplace", 2)
    census = dc.external_table([30.5, 20.1], asia().network, ["smoke"], noise, guarantee=None, source="<b>census | 1")
    same = dc.combine(replace(first, private=True), replace(second, private=True), data="same")
    return dc.combine(same, census, third, data="different")


@every("form", ["html", "markdown"])
def test_a_report_of_several_says_what_each_spent_and_what_they_reveal_together(form: str) -> None:
    text = dc.report(together(), form=form, rng=1, name="all of it.json")  # type: ignore[arg-type]
    plain = text.replace("\\", "")
    assert [f"Data set {at} of 3" in plain for at in (1, 2, 3, 4)] == [True, True, True, False]
    for part in together().parts:
        assert part.id in plain
    for spent in ("epsilon 1, add-remove", "epsilon 2, add-remove", "nothing: a simulation", "nothing is promised"):
        assert spent in plain
    # The two on the same records together, as explain says: e^3 on presence.
    (limits,) = [each for each in dc.explain(together()).together if not isinstance(each, str)]
    assert limits.presence == pytest.approx(3)
    for line in limits.lines():
        assert line.strip() in plain
    assert "they have no one guarantee" in plain
    assert "<b>" not in plain.replace("<b>census", "" if form == "markdown" else "<b>")
    assert "sha256sum 'all of it.json'" in plain or "sha256sum &#39;all of it.json&#39;" in plain
    assert "protects nobody" in plain, "a simulation is among them"


def test_its_answers_are_those_of_the_combined_posterior() -> None:
    posterior = read(together(), draws=300, rng=4)
    text = dc.report(together(), posterior=posterior, form="markdown")
    row = posterior.answer("P(smoke=yes)").rows[0]
    assert re.search(rf"smoke \| yes \| {row['mean']:.4f} \| {row['lower']:.4f} to {row['upper']:.4f}", text)
    lines = text.splitlines()
    at = lines.index("## Every variable, with its uncertainty")
    table = lines[at + 2 : at + 8]
    assert all(line.startswith("|") for line in table), "a blank line would end the table"


def test_a_report_of_figures_by_others_says_whose_they_are() -> None:
    census = together().external[0]
    text = dc.report(census, form="markdown")
    assert text.startswith("# Figures by others of ")
    assert "nothing is promised" in text


def test_the_command_reports_what_was_combined(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    together().save(tmp_path / "all.json")
    run = Shell(capfd)
    told = run.json(f"report {tmp_path}/all.json --output {tmp_path}/r.html --draws 60 --seed 1")
    assert told["format"] == "html"
    assert "Data set 3 of 3" in (tmp_path / "r.html").read_text()
    code, _, err = run(f"report {tmp_path}/all.json --output {tmp_path}/s.html --account a")
    assert code == 2 and "leave out --account" in err
    with pytest.raises(dc.InputError, match="a balance is of one release's account"):
        dc.report(together(), balance=object())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("together")
    both = dc.combine(*(replace(plain(seed), private=True) for seed in (1, 2)), data="same")
    both.save(folder / "both.json")
    plain(1).posterior(draws=200, rng=1).save(folder / "one.draws")
    with served([folder / "both.json", folder / "one.draws"]) as running:
        yield running


def test_a_server_explains_and_reports_what_was_combined(server: Served) -> None:
    told = server.ask("/releases/both/explain?q=P(c=yes)").json()
    here = dc.explain(dc.server.Client(server.url).release("both")).document()
    assert told["together"] == json.loads(json.dumps(here["together"]))
    assert told["releases"].keys() == here["releases"].keys()
    assert all(part["dependences"] for part in told["releases"].values())
    report = server.ask("/releases/both/report?format=markdown")
    assert report.status == 200
    assert "Data set 1 of 1" in report.text
    assert "/report" in server.ask("/pages/both").text


def test_answers_of_a_server_carry_draws_if_they_are_asked_for(server: Served) -> None:
    client = dc.server.Client(server.url)
    bare, full = client.posterior("one"), client.posterior("one", draws=True)
    here = plain(1).posterior(draws=200, rng=1)
    texts = ["P(c=yes | a=yes) - P(c=yes | a=no)", "P(b)"]
    with pytest.raises(dc.InputError, match="no draws"):
        bare.answer(texts[0]).draws  # noqa: B018 - the access is the test
    for there, own in zip(dc.answer_many(full, texts), dc.answer_many(here, texts), strict=True):
        assert np.array_equal(there.draws, own.draws)
        assert there == own
    assert np.array_equal(dc.marginals(full)[0].draws, dc.marginals(here)[0].draws)
    own = here.answer("P(c=yes | a=yes)", predictive=True).drawn
    there = full.answer("P(c=yes | a=yes)", predictive=True).drawn
    assert own is not None and there is not None
    assert np.array_equal(own.weights, there.weights)  # type: ignore[arg-type]
    wide = dc.answer_many(full, texts).simultaneous()
    assert [each.rows for each in wide] == [each.rows for each in dc.answer_many(here, texts).simultaneous()]


def test_too_many_draws_are_refused_in_a_sentence(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(1).posterior(draws=50, rng=1).save(tmp_path / "one.draws")
    monkeypatch.setattr("discreet.server.replies.MOST_DRAWN", 399)
    with Local([tmp_path / "one.draws"]) as local:
        assert len(local.ask("/releases/one/query?q=P(b,c)&draws=true").json()["answers"][0]["draws"]) == 4
        refused = local.ask("/releases/one/query?q=P(a,b,c)&draws=true").problem(422, "too-costly")
        assert "are 400 numbers, more than the 399 of one response" in refused
        assert local.ask("/releases/one/query?q=P(a,b,c)").status == 200
    assert "leave out draws" in server.ask("/releases/one/query?draws=true&format=csv").problem(400, "bad-request")
    assert "no draws" in server.ask(
        "/releases/one/query", {"q": ["P(a, c)"], "assume": "nothing", "draws": True}
    ).problem(400, "bad-request")
