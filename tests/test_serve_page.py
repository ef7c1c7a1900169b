"""Pages of a server: what they show is what it answers, everything is a link, and nothing of a name is markup."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, tzinfo
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit

import numpy as np
import pytest

import discreet as dc
from discreet.posterior.joint_draws import PosteriorDraws
from discreet.server import catalog, pages, release_page
from discreet.server.application import Settings
from discreet.server.catalog import ReleaseCatalog
from discreet.server.page_links import PageRequest
from discreet.server.picture import percent, place_boxes
from discreet.server.readings import ServedPosterior
from discreet.server.server_limits import ServerLimits
from discreet.server.tokens import add_token
from folding import every
from networks import asia
from releases import guarantee, simulated
from served_kinds import plain, save
from serving import Local, Reply
from test_shown_releases import HOSTILE, LUNG, SMOKE

VOID = {"meta", "link", "input", "br", "path", "rect", "circle"}
KINDS = ("plain", "laplace", "structure", "gappy", "census", "combined", "family", "states", "linear", "classes")
WIDE = "wide"


class Page(HTMLParser):
    """Elements of a page with their attributes; all of them close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one that holds nothing."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        """Note its end."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of all elements of a kind."""
        return [found for name, found in self.elements if name == tag]

    def links(self) -> dict[str, str]:
        """Where links lead, by their ids."""
        return {found["id"]: found["href"] for found in self.all("a") if "id" in found}

    def alerts(self) -> int:
        """How many there are."""
        return sum(found.get("role") == "alert" for _, found in self.elements)


def wide(number: int) -> dc.Release:
    """A release of so many variables without arcs."""
    network = dc.Network.empty([dc.Variable(f"v{at}", ("no", "yes")) for at in range(number)])
    counts = dc.tools.count_codes(network, {name: [0, 1, 1] for name in network.nodes})
    return dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), guarantee(), rng=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    for name in KINDS:
        save(name, place)
    release = simulated(asia(), 2000, guarantee(), np.random.default_rng(3))
    release.save(place / "asia.json")
    release.posterior(draws=100, rng=1).save(place / "asia.draws")
    made = wide(251)
    made.save(place / f"{WIDE}.json")
    made.posterior(draws=10, rng=1).save(place / f"{WIDE}.draws")
    plain(5).save(place / "again.json")
    return place


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[Local]:
    names = (*KINDS, "again")
    with Local([*(folder / f"{name}.json" for name in names), folder / "asia.draws", folder / "wide.draws"]) as server:
        yield server


def shown(local: Local, path: str, status: int = 200, **given: object) -> Page:
    """A page, which nothing is odd about."""
    got = local.ask(f"{path}?{urlencode(given, doseq=True)}" if given else path)
    assert (got.status, got.headers["content-type"]) == (status, "text/html; charset=utf-8"), got.text[:3000]
    assert got.headers["content-security-policy"].startswith("default-src 'self'")
    page = Page(got.text)
    assert page.text.count("\0") == 0 and "\0" not in got.text
    assert page.all("html") == [{"lang": "en"}] and len(page.all("main")) == len(page.all("h1")) == 1
    for tag, attributes in page.elements:
        assert "style" not in attributes and not [name for name in attributes if name.startswith("on")], tag
        assert all(not urlsplit(attributes.get(name, "")).netloc for name in ("href", "src", "action"))
        assert not [value for name in ("href", "src", "action") if (value := attributes.get(name, "")).startswith("/")]
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))
    assert page.all("script") == [{"src": page.all("script")[0]["src"], "defer": ""}] and not page.all("style")
    return page


def said(address: str) -> list[tuple[str, str]]:
    """What an address says."""
    return parse_qsl(urlsplit(address).query, keep_blank_values=True)


# ------------------------------------------------------------------------------------------------------- all kinds


@pytest.mark.costly("Every link of every kind's page is followed.")
@every("name", KINDS)
def test_every_kind_has_a_page_whose_links_lead_somewhere(local: Local, name: str) -> None:
    page = shown(local, f"/pages/{name}")
    assert "Guarantee" in page.text and ("protects nobody" in page.text) == (name != "census")
    for link in [*page.all("a"), *page.all("link")]:
        if not link["href"].startswith(("?", "#")):
            target = urljoin(f"http://x/pages/{name}", link["href"]).removeprefix("http://x")
            got = local.ask(target)
            assert got.status == 200, (target, got.text[:3000])


@pytest.mark.costly("A server reads a release of every kind.")
def test_the_list_says_of_each_release_what_it_is(local: Local) -> None:
    page = shown(local, "/")
    assert [link["href"] for link in page.all("a")].count("./pages/asia") == 1
    assert "a regression or a direction" in page.text and "epsilon 1, add-remove one record" in page.text


def test_the_only_release_is_the_first_page(folder: Path) -> None:
    with Local([folder / "plain.json"]) as server:
        got = server.ask("/")
        assert (got.status, got.headers["location"]) == (307, "pages/plain")


def test_names_are_no_markup(local: Local) -> None:
    page = shown(local, "/pages/laplace", e=f"{LUNG.name}={HOSTILE[0]}")
    for name in (SMOKE.name, LUNG.name, *SMOKE.states, *HOSTILE):
        assert name in page.text
    assert not page.all("img")
    assert len(page.all("script")) == 1


def test_combined_releases_name_all_their_guarantees(local: Local) -> None:
    page = shown(local, "/pages/combined")
    assert "<b>census" in page.text and "epsilon 1, add-remove one record" in page.text


def test_releases_of_the_same_records_promise_what_they_add_up_to(tmp_path: Path) -> None:
    one, other = (replace(plain(seed), private=True, id=str(seed) * 32) for seed in (1, 2))
    dc.combine(one, other, data="same").save(tmp_path / "both.json")
    with Local([tmp_path / "both.json"]) as server:
        page = shown(server, "/pages/both")
        assert "All releases of data set 1 together: epsilon 2, add-remove one record" in " ".join(page.text.split())
        assert "simulation" not in page.text


def test_a_network_that_was_chosen_is_drawn_alone(local: Local) -> None:
    page = shown(local, "/pages/structure")
    assert "no probabilities" in page.text and len(page.all("svg")) == 1 and not page.all("form")


# ------------------------------------------------------------------------------- what the data say of the drawing


def independent(codes: Mapping[str, list[int]], seed: int) -> dc.Release:
    """A release whose network says that a, b and c are independent, and whose one table has them together with d."""
    variables = [dc.Variable(name, ("no", "yes")) for name in "abcd"]
    network = dc.Network(tuple(variables), {"a": (), "b": (), "c": (), "d": ("a", "b", "c")})
    prior = dc.Dirichlet.uniform(network)
    return dc.simulate(dc.laplace(), dc.tools.count_codes(network, codes), prior, guarantee(4.0), rng=seed)


def test_a_page_says_what_its_own_fit_found(tmp_path: Path, folder: Path) -> None:
    """In words, and as dashed lines between variables that are drawn apart; the same as programs get of it."""
    rng = np.random.default_rng(2)
    a, c, d = rng.integers(0, 2, (3, 2000)).tolist()
    independent({"a": a, "b": a, "c": c, "d": d}, 1).save(tmp_path / "wrong.json")
    independent({"a": a, "b": rng.permutation(a).tolist(), "c": c, "d": d}, 2).save(tmp_path / "right.json")
    with Local([tmp_path / "wrong.json", tmp_path / "right.json", folder / "structure.json"]) as server:
        fits = {name: server.ask(f"/releases/{name}/marginals").json()["fit"] for name in ("wrong", "right")}
        assert [test["variables"] for test in fits["wrong"]["contradicted"]] == [["a", "b"]]
        page = shown(server, "/pages/wrong", e="d=yes")
        assert (
            f"The data contradict 1 of the {fits['wrong']['tested']} independences of this drawing that they can test "
            "(strongest: a and b). Answers that are marked measured or inferred do not rely on them." in page.text
        )
        assert "a and b: contradicted" in page.text and "the data contradict that these two" in page.text
        assert sum("stroke-dasharray" in one for one in page.all("path")) == 2, "the line, and what it means"
        picture = server.ask("/pages/wrong/picture.svg").text
        assert "a and b: contradicted" in picture and "independent: a and b" in picture
        table = shown(server, "/pages/wrong", view="table")
        assert "The data contradict 1 of" in table.text and not [
            x for x in table.all("path") if "stroke-dasharray" in x
        ]
        right = shown(server, "/pages/right")
        told = f"contradict none of the {fits['right']['tested']} independences of this drawing that they can test"
        assert fits["right"]["contradicted"] == [] and told in right.text
        assert not [one for one in right.all("path") if "stroke-dasharray" in one]
        assert "independences of this drawing" not in shown(server, "/pages/structure").text


def test_a_page_says_that_nothing_could_be_tested(local: Local) -> None:
    assert local.ask("/releases/plain/fit").json()["tested"] == 0
    assert "The data could test none of the independences" in shown(local, "/pages/plain").text


# ------------------------------------------------------------------------------------------------- states are links


def numbers(local: Local, **given: object) -> dict[tuple[str, str], Mapping[str, float]]:
    """What the server answers programs of the same question."""
    got = local.ask(f"/releases/asia/marginals?{urlencode(given, doseq=True)}")
    answers = json.loads(got.body)["answers"]
    return {next(iter(row["state"].items())): row for answer in answers for row in answer["values"]}


@every("evidence", [[], ["smoke=yes"], ["xray=yes", "asia=no"]])
def test_a_page_has_the_numbers_that_programs_get(local: Local, evidence: list[str]) -> None:
    text = local.ask(f"/pages/asia?{urlencode({'e': evidence, 'view': 'table'}, doseq=True)}").text
    rows = re.findall(
        r'<tr><td><a id="t(\d+)\.(\d+)"[^>]*>[^<]*</a></td><td class="n">([^<]*)</td>.*?i">([^<]*)<', text
    )
    found = numbers(local, e=evidence)
    assert len(rows) == len(found) == 16 - 2 * len(evidence)
    network = asia().network
    for node, code, mean, ends in rows:
        one = network.variables[int(node)]
        row = found[one.name, one.states[int(code)]]
        assert mean == percent(row["mean"])
        assert ends == f"{percent(row['lower']).removesuffix(' %')} to {percent(row['upper'])}"


def test_a_state_is_a_link_that_observes_it_and_undo_takes_it_back(local: Local) -> None:
    first = shown(local, "/pages/asia", level=0.9).links()
    assert "undo" not in first and said(first["s0.0"]) == [("e", "asia=yes"), ("level", "0.9")]
    second = shown(local, f"/pages/asia{first['s0.0']}").links()
    third = shown(local, f"/pages/asia{second['s1.1']}").links()
    assert said(third["undo"]) == said(first["s0.0"])
    assert said(third["s0.0"]) == [("e", "tub=no"), ("level", "0.9")], "an observed state is forgotten"
    assert said(third["s0.1"]) == [("e", "tub=no"), ("e", "asia=no"), ("level", "0.9")], "or another one observed"
    assert said(third["chip1"]) == [("e", "tub=no"), ("level", "0.9")]
    assert said(third["clear"]) == [("level", "0.9")]
    assert third["t2.0"] == third["s2.0"], "the table has the same links"


def test_a_query_is_answered_in_its_place_and_stays(local: Local) -> None:
    page = shown(local, "/pages/asia", q="P(lung | smoke=yes)", e="asia=yes")
    assert "lung=yes" in page.text and page.alerts() == 0
    assert ("q", "P(lung | smoke=yes)") in said(page.links()["s1.0"])
    assert [one["value"] for one in page.all("input") if one.get("type") == "hidden"] == ["asia=yes"]


@every("query", ["P(", "P(nobody)", '"><script>', "P(lung=perhaps)", "x" * 1000])
def test_what_is_wrong_with_a_query_stands_under_it(local: Local, query: str) -> None:
    page = shown(local, "/pages/asia", q=query)
    assert page.alerts() == 1 and "s0.0" in page.links()
    (box,) = (one for one in page.all("input") if one.get("name") == "q")
    assert box["value"] == query and box["aria-invalid"] == "true"


def test_whom_a_query_is_of_stands_beside_it_and_what_is_observed_is_offered(local: Local) -> None:
    page = shown(local, "/pages/asia", e=["smoke=yes", "xray=no"])
    (box,) = (one for one in page.all("input") if one.get("name") == "q")
    assert box["placeholder"] == "P(asia | smoke=yes, xray=no)" and "ignores the states observed above" in page.text
    assert ("q", box["placeholder"]) in said(page.links()["given"])
    page = shown(local, "/pages/asia", e=["smoke=yes"], q="P(lung=yes)")
    assert "P(lung=yes), for everybody" in page.text
    offered = page.links()["given"]
    page = shown(local, f"/pages/asia{offered}")
    assert said(offered) == [("e", "smoke=yes"), ("q", "P(lung=yes | smoke=yes)")]
    assert "P(lung=yes | smoke=yes)" in page.text and ", for everybody" not in page.text and "given" not in page.links()
    given, known = (f"{100 * row['mean']:.1f} %" for row in (numbers(local, e=["smoke=yes"])["lung", "yes"],
                                                              numbers(local)["lung", "yes"]))  # fmt: skip
    assert given != known and given in page.text and known not in page.text
    assert "given" not in shown(local, "/pages/asia", e=["smoke=yes"], q="P(smoke)").links()
    assert "given" not in shown(local, "/pages/asia").links()


def test_a_page_query_is_the_only_one_and_names_are_meant(local: Local) -> None:
    text = shown(local, "/pages/asia", q="P(Lung)").text
    assert "did you mean 'lung'?" in text and "query 1" not in text
    impossible = shown(local, "/pages/asia", q="E(lung)").text
    assert "query 1" not in impossible


class Later(datetime):
    """Another day than the one on which a page was kept."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Later:
        return cls(2999, 12, 31, tzinfo=tz)


def test_a_page_says_how_sure_its_intervals_are_on_paper_too(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    page = shown(local, "/pages/asia", level=0.8, e="smoke=yes")
    assert "share lies with 80 % probability" in page.text
    one = local.catalog.find("asia")
    line = f"asia, version 1, id {one.id}. Intervals of 80 % probability. Observed: smoke=yes. Answered on 2"
    assert line in page.text
    assert page.links()["permanent"] == f"../pages/{one.id}?e=smoke%3Dyes&level=0.8"
    with monkeypatch.context() as later:
        later.setattr(pages, "datetime", Later)
        assert "Answered on 2999-12-31" in shown(local, "/pages/asia", level=0.8, e="smoke=yes").text
    assert shown(local, "/pages/asia").links()["permanent"] == f"../pages/{one.id}"


def test_how_probable_what_is_observed_is_stands_on_the_page(local: Local) -> None:
    """And what it is too rare to answer, in the place of what such an answer would rest on."""
    assert "What is observed" not in shown(local, "/pages/asia").text
    for evidence, rare in ((["smoke=yes"], False), (["tub=yes", "either=no"], True)):
        answers = local.ask(f"/releases/asia/marginals?{urlencode({'e': evidence}, doseq=True)}").json()["answers"]
        seen = answers[0]["evidence"]
        mean, lower, upper = (f"{100 * seen[end]:.2g}" for end in ("mean", "lower", "upper"))
        names = [next(iter(answer["values"][0]["state"])) for answer in answers if answer["too_rare"]]
        assert bool(names) == rare
        for view in ("network", "table"):
            text = shown(local, "/pages/asia", e=evidence, view=view).text
            assert f"What is observed: {mean} % ({lower} to {upper} %) of everybody." in text
            assert (f"Too rare to answer: {', '.join(names)}." in text) == rare == ("too rare to answer" in text)
    text = shown(local, "/pages/asia", q="P(lung | smoke=yes)").text
    assert "What is observed: " in text and "Too rare" not in text


def test_links_do_not_carry_long_queries(local: Local) -> None:
    for query in ("x" * 1900, quote("é" * 290)):
        assert len(local.ask(f"/pages/asia?q={query}").body) < 60_000


def test_the_part_of_the_noise_is_shown_on_demand(local: Local) -> None:
    assert "noise share" not in shown(local, "/pages/asia", view="table").text
    page = shown(local, "/pages/asia", view="table", noise=1)
    share = numbers(local)["smoke", "yes"]
    assert f"{100 * share['noise']:.0f} ± {100 * share['noise_error']:.0f} %" in page.text


def test_missing_values_are_read_either_way(local: Local) -> None:
    page = shown(local, "/pages/gappy")
    assert said(page.links()["gaps2"]) == [("missing", "state")]
    assert "missing" in shown(local, "/pages/gappy", missing="state", view="table").text


@every("given, words", [
    ({"e": "smoke=perhaps"}, "perhaps"),
    ({"e": "nobody=yes"}, "no evidence"),
    ({"e": ["smoke=yes", "smoke=no"]}, "twice"),
    ({"level": "nan"}, "level"),
    ({"level": "1"}, "level"),
    ({"view": "pie"}, "view"),
    ({"strange": "1"}, "strange"),
    ({"q": "x" * 100_001}, "q:"),
    ({"e": [f"{at}=yes" for at in range(101)]}, "e:"),
    ({"e": ["smoke=" + "x" * 5000]}, "too much evidence"),
    ({"missing": "at-random"}, "missing"),
])  # fmt: skip
def test_what_cannot_be_asked_is_a_page_that_says_so(local: Local, given: dict[str, object], words: str) -> None:
    page = shown(local, "/pages/asia", 400, **given)
    assert page.alerts() == 1 and words in page.text


def test_bad_evidence_can_be_taken_back(local: Local) -> None:
    page = shown(local, "/pages/asia", 400, e=["smoke=yes", "lung=perhaps"])
    assert said(page.links()["undo"]) == [("e", "smoke=yes")]


@every("path", ["/pages/nobody", "/pages/%3Cscript%3E", "/pages/..", "/pages/nobody/picture.svg", "/static/x.py"])
def test_what_is_not_there_is_a_page_that_says_so(local: Local, path: str) -> None:
    assert shown(local, path, 404).alerts() == 1


# ------------------------------------------------------------------------------------------------ pictures and tables


def test_a_large_network_is_drawn_where_that_is_asked_for(local: Local) -> None:
    page = shown(local, "/pages/wide")
    assert "s0.0" not in page.links() and "t250.1" in page.links()
    assert "s0.0" in shown(local, "/pages/wide", view="network").links()


def test_a_picture_is_a_file_of_its_own(local: Local) -> None:
    got = local.ask("/pages/asia/picture.svg?e=smoke%3Dyes&download=1")
    assert got.headers["content-type"] == "image/svg+xml" and "asia.svg" in got.headers["content-disposition"]
    assert "<a" not in got.text and "observed" in got.text
    assert "content-disposition" not in local.ask("/pages/asia/picture.svg").headers


def test_many_states_are_the_most_probable_and_a_link_to_the_others(tmp_path: Path) -> None:
    many = dc.Variable("many", tuple(f"s{at}" for at in range(12)))
    network = dc.Network.empty([many])
    counts = dc.tools.count_codes(network, {"many": [at for at in range(12) for _ in range(at**2)]})
    dc.simulate(dc.laplace(), counts, dc.Dirichlet.uniform(network), guarantee(9), rng=1).save(tmp_path / "m.json")
    with Local([tmp_path / "m.json"]) as server:
        page = shown(server, "/pages/m")
        assert [name for name in page.links() if name.startswith("s0.")] == [f"s0.{at}" for at in range(5, 12)]
        assert "5 more" in page.text and "?view=table#v0" in [link["href"] for link in page.all("a")]


def curves(path: str) -> Iterator[tuple[float, float]]:
    """Points of a path of M, V and C."""
    x = y = 0.0
    for letter, text in re.findall(r"([MVC])([^MVC]*)", path):
        numbers = [float(part) for part in text.split()]
        if letter == "C":
            p = np.array([x, y, *numbers]).reshape(4, 2)
            for t in np.linspace(0, 1, 30):
                weights = np.array([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
                yield tuple((weights @ p).tolist())
            x, y = numbers[-2:]
        elif letter == "V":
            yield from ((x, at) for at in np.linspace(y, numbers[0], 30))
            y = numbers[0]
        else:
            x, y = numbers


@every("seed", range(4))
def test_no_arc_crosses_a_box_and_no_box_another(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variables = [dc.Variable(f"NAME{at}", tuple(f"s{k}" for k in range(rng.integers(2, 11)))) for at in range(30)]
    arcs = [(f"NAME{rng.integers(at)}", f"NAME{at}") for at in range(1, 30) for _ in range(rng.integers(3))]
    places = place_boxes(dc.Network.from_edges(list(dict.fromkeys(arcs)), variables))
    boxes = [(box.x, box.y, box.x + box.width, box.y + box.height) for box in places.boxes]
    for at, one in enumerate(boxes):
        assert one[0] >= 0 and one[2] <= places.width and one[3] <= places.height
        assert not [b for b in boxes[:at] if one[0] < b[2] and b[0] < one[2] and one[1] < b[3] and b[1] < one[3]]
    paths = [path for path in re.findall(r'd="([^"]*)"', places.arcs) if "C" in path]
    assert len(paths) >= len(set(arcs))
    for x, y in (point for path in paths for point in curves(path)):
        assert not [b for b in boxes if b[0] + 1 < x < b[2] - 1 and b[1] + 1 < y < b[3] - 1]


# -------------------------------------------------------------------------------------------- regressions, comparisons


def test_a_regression_expects_what_programs_are_told(local: Local) -> None:
    page = shown(local, "/pages/linear")
    fields = [one["name"] for one in page.all("input")]
    assert fields == ["x.age", "x.dose"]
    page = shown(local, "/pages/linear", **{"x.age": "0.5", "x.dose": "-1"})
    got = local.ask("/releases/linear/predict", {"records": [{"age": 0.5, "dose": -1}]}).json()
    (mean,) = got["records"][0]["mean"].values()
    assert f"{mean:.5g}" in page.text


@every("value", ["", "much", "nan", "inf"])
def test_a_field_that_is_no_number_says_so(local: Local, value: str) -> None:
    page = shown(local, "/pages/linear", **{"x.age": value, "x.dose": "1"})
    assert page.alerts() == 1 and "number" in page.text


def test_two_releases_stand_side_by_side(local: Local) -> None:
    page = shown(local, "/compare", one="plain", other="again", e="a=yes")
    assert "plain, version 1 and again, version 1" in page.text and "difference" in page.text
    assert [one["value"] for one in page.all("option") if "selected" in one] == [
        local.catalog.find(name).id for name in ("plain", "again")
    ]
    offered = [one["value"] for one in shown(local, "/compare").all("option")]
    assert offered[:2] == [local.catalog.find(name).id for name in ("plain", "again")]
    assert local.catalog.find("asia").id not in offered, "none has the same variables"
    wrong = shown(local, "/compare", 400, one="plain", other="asia")
    assert "nothing can be compared" in wrong.text and len(wrong.all("select")) == 2
    assert shown(local, "/compare", 400, one="plain", other="linear").alerts() == 1
    assert shown(local, "/compare", 404, one="plain", other="nobody").alerts() == 1


def test_no_pair_is_offered_where_none_can_be_compared(folder: Path) -> None:
    with Local([folder / "plain.json", folder / "asia.json"]) as server:
        assert not shown(server, "/").all("select")
        page = shown(server, "/compare")
        assert not page.all("select") and "No two releases here have the same variables" in page.text


def test_a_replaced_file_is_a_version_that_can_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "LOOK_SECONDS", 0)
    path = tmp_path / "r.json"
    plain(1).save(path)
    with Local([path]) as server:
        old = server.catalog.newest()[0].id
        plain(2).save(path, replace=True)
        page = shown(server, "/pages/r")
        assert "version 2" in page.text and f"../compare?one={old}&other={server.catalog.newest()[0].id}" in [
            link["href"] for link in page.all("a")
        ]
        assert "There is a newer version" in shown(server, f"/pages/{old}").text
        path.write_text("{")
        assert "cannot be read" in shown(server, "/pages/r").text


# --------------------------------------------------------------------------------------------- what takes long or much


def test_an_answer_that_is_not_ready_is_a_page_that_asks_again(folder: Path) -> None:
    with Local([folder / "asia.draws"], settings=Settings(prepare=False, limits=ServerLimits(seconds=1e-6))) as server:
        got = server.ask("/pages/asia?e=smoke%3Dyes")
        page = Page(got.text)
        assert got.status == 503 and int(got.headers["retry-after"]) > 0
        assert [one["content"] for one in page.all("meta") if one.get("http-equiv") == "refresh"]
        assert page.alerts() == 1 and "undo" in page.links()
        while '"ready"' not in server.ask("/releases").text:
            server.run(asyncio.sleep(0.01))


def test_an_answer_that_is_too_costly_is_a_page_that_says_so(folder: Path) -> None:
    with Local([folder / "asia.draws"], settings=Settings(prepare=False, limits=ServerLimits(most_work=1))) as server:
        assert "cells x draws" in shown(server, "/pages/asia", 422).text


def test_what_is_prepared_is_what_pages_ask(folder: Path) -> None:
    reading = ServedPosterior(
        ReleaseCatalog([folder / "asia.draws"]).newest()[0], PosteriorDraws.load(folder / "asia.draws")
    )
    keys = [question.key for question in release_page.page_questions(reading)]
    assert len(keys) == len(set(keys)) == 2 + 16
    for text in ("smoke=yes", "dysp=no"):
        assert release_page.ask_states(reading, PageRequest(e=[text], q="P(lung)")).key in keys
    assert release_page.ask_states(reading, PageRequest(level=0.9)).key not in keys


# ------------------------------------------------------------------------------------------------- the door, the proxy


@pytest.fixture
def guarded(folder: Path, tmp_path: Path) -> Iterator[tuple[Local, str]]:
    path = tmp_path / "tokens.json"
    token = add_token(path, "ann", 9)
    add_token(path, "old", 1, today=lambda: date(2020, 1, 1))
    with Local([folder / "plain.json"], settings=Settings(prepare=False, tokens=path, root_path="/x")) as server:
        yield server, token


def enter(server: Local, token: str, onward: str = "/pages/plain?e=a%3Dyes") -> Reply:
    """Send the form."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return server.ask(f"/enter?next={quote(onward)}", urlencode({"token": token}).encode(), headers)


def test_a_token_is_entered_once(guarded: tuple[Local, str]) -> None:
    server, token = guarded
    got = server.ask("/pages/plain?e=a%3Dyes", headers={"accept": "text/html"})
    assert (got.status, urlsplit(got.headers["location"]).path) == (303, "/x/enter")
    (form,) = shown(server, got.headers["location"].removeprefix("/x")).all("form")
    assert dict(said(form["action"])) == {"next": "/pages/plain?e=a=yes"} or "next" in dict(said(form["action"]))
    got = enter(server, token)
    assert (got.status, got.headers["location"]) == (303, "/x/pages/plain?e=a%3Dyes")
    cookie = got.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/x" in cookie and "Secure" not in cookie
    assert server.ask("/pages/plain", headers={"cookie": cookie.partition(";")[0]}).status == 200


def test_the_form_of_a_token_is_short_and_its_own(guarded: tuple[Local, str]) -> None:
    server, token = guarded
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body in (b"a=b&" * 1000 + b"token=" + token.encode(), b"a=" + b"x" * 5000, b"&" * 5000, b"", b"\xff"):
        assert server.ask("/enter", body, form).status == 401
    good = b"name=discreet&token=" + token.encode()  # as the page sends it
    for site, status in (("same-origin", 303), ("none", 303), ("cross-site", 400), ("same-site", 400)):
        assert server.ask("/enter", good, {**form, "sec-fetch-site": site}).status == status


@every(
    "origin, status",
    [
        ("http://localhost", 303),
        ("https://localhost", 400),
        ("http://localhost:81", 400),
        ("http://localhost.evil.example", 400),
        ("https://evil.example", 400),
        ("null", 400),
        ("", 400),
    ],
)
def test_a_token_is_entered_on_a_page_of_this_origin_alone(
    guarded: tuple[Local, str], origin: str, status: int
) -> None:
    """Also where a browser is too old to say `Sec-Fetch-Site`."""
    server, token = guarded
    form = {"content-type": "application/x-www-form-urlencoded", "origin": origin}
    got = server.ask("/enter", urlencode({"token": token}).encode(), form)
    assert got.status == status and ("set-cookie" in got.headers) == (status == 303)


def test_a_token_is_forgotten_by_a_button(guarded: tuple[Local, str]) -> None:
    server, token = guarded
    cookie = {"cookie": f"discreet_token={token}"}
    assert not Page(server.ask("/pages/plain", headers={"authorization": f"Bearer {token}"}).text).all("form")[1:]
    for _ in range(2):  # the page that was kept for others is not the same
        forms = Page(server.ask("/pages/plain", headers=cookie).text).all("form")
        assert {"method": "post", "action": "../leave"} in forms
    assert "Forget my token" not in server.ask("/pages/plain", headers={"authorization": f"Bearer {token}"}).text
    server.ask("/leave", headers=cookie).problem(405, "method-not-allowed")
    server.ask("/leave", b"").problem(401, "no-token")
    got = server.ask("/leave", b"", cookie)
    assert (got.status, got.headers["location"]) == (303, "/x/")
    told = got.headers["set-cookie"]
    assert told.startswith('discreet_token=""') and "Max-Age=0" in told and "Path=/x" in told, told


@pytest.mark.costly("A page bent by what a request calls its host is found by asking every page under odd names.")
@every("host", ["x?e=a%3Dyes&level=0.8#", "x?level=0.5", "[", "[::1", "x/y", "\xff", "a b", "https://x"])
def test_what_a_request_calls_the_server_bends_nothing(folder: Path, host: str) -> None:
    with Local([folder / "plain.json"], settings=Settings(prepare=False, public=True)) as server:
        whole = server.ask("/pages/plain").body
        for path in (
            "/pages/plain",
            "/pages/plain?e=a%3Dyes",
            "/pages/plain?level=0.8",
            "/",
            "/enter",
            "/openapi.json",
        ):
            bent, right = (server.ask(path, headers={"host": name}) for name in (host, "localhost"))
            assert bent == right, path
        assert server.ask("/pages/plain").body == whole


@every("token", ["", "wrong", "ann", "é"])
def test_a_wrong_token_says_so(guarded: tuple[Local, str], token: str) -> None:
    got = enter(guarded[0], token)
    assert got.status == 401 and Page(got.text).alerts() == 1 and "set-cookie" not in got.headers


@every(
    "onward", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\r\nset-cookie: a=b", "/\t/evil"]
)
def test_nobody_is_sent_elsewhere(guarded: tuple[Local, str], onward: str) -> None:
    server, token = guarded
    assert enter(server, token, onward).headers["location"] == "/x/"


def test_an_expired_token_lets_nobody_in(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "tokens.json"
    token = add_token(path, "old", 1, today=lambda: date(2020, 1, 1))
    with Local([folder / "plain.json"], settings=Settings(prepare=False, tokens=path)) as server:
        assert enter(server, token).status == 401


def test_files_of_pages_may_be_kept_for_they_change_their_address(local: Local) -> None:
    page = shown(local, "/pages/asia")
    for path in [page.all("script")[0]["src"], *(one["href"] for one in page.all("link"))]:
        got = local.ask(urljoin("/pages/asia", path))
        assert got.status == 200 and "immutable" in got.headers["cache-control"] and got.body


def test_a_percentage_is_never_more_certain_than_its_number() -> None:
    assert [html.unescape(percent(x)) for x in (0, 1, 1e-9, 1 - 1e-9, 0.12345)] == [
        "0.0 %", "100.0 %", "<0.1 %", ">99.9 %", "12.3 %"
    ]  # fmt: skip
